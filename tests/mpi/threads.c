/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * MPI_THREAD_MULTIPLE: several threads of each rank exchange at once, each on a communicator of its
 * own, and all of them on one that they share, told apart by their tags.
 * threads=N (4), rounds=N (150), seed=N (1)
 */

#include "common.h"

#include <pthread.h>

#define MAX_BYTES 150000

typedef struct worker {
    pthread_t thread;
    int number, rounds;
    uint64_t seed;
    MPI_Comm own;
} worker_t;

static void one_exchange(worker_t *w, uint64_t *state, MPI_Comm comm, int tag)
{
    int distance = 1 + (int) random_below(state, (uint64_t) size - 1);
    int to = (rank + distance) % size;
    int from = (rank + size - distance) % size;
    size_t bytes = random_size(state, MAX_BYTES);
    uint64_t mark = random_next(state);
    unsigned char *out = get_memory(bytes), *in = get_memory(bytes);
    MPI_Request requests[2];

    pattern_fill(out, bytes, mark ^ (uint64_t) rank);
    memset(in, 0, bytes);
    MPI_Irecv(in, (int) bytes, MPI_BYTE, from, tag, comm, &requests[0]);
    MPI_Isend(out, (int) bytes, MPI_BYTE, to, tag, comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    pattern_check(in, bytes, mark ^ (uint64_t) from, w->own == comm ? "own" : "shared");
    free(out);
    free(in);
}

static void *work(void *argument)
{
    worker_t *w = argument;
    uint64_t state = w->seed + (uint64_t) w->number;

    for (int i = 0; i < w->rounds; i++) {
        one_exchange(w, &state, w->own, i % 10);
        one_exchange(w, &state, MPI_COMM_WORLD, w->number);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;

    program = "threads";
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    started = seconds_now();
    need_ranks(2);
    if (provided < MPI_THREAD_MULTIPLE) {
        fail("this Open MPI has no MPI_THREAD_MULTIPLE");
    }
    int threads = (int) arg(argc, argv, "threads", 4);
    worker_t *workers = get_memory(sizeof(*workers) * (size_t) threads);

    for (int i = 0; i < threads; i++) {
        workers[i].number = i;
        workers[i].rounds = (int) arg(argc, argv, "rounds", 150);
        workers[i].seed = (uint64_t) arg(argc, argv, "seed", 1) << 20;
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].own);
    }
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fail("pthread_create");
        }
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        MPI_Comm_free(&workers[i].own);
    }
    free(workers);
    finish();
    return 0;
}
