/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The last rank computes without calling MPI, or sleeps, while the others lock its window, put,
 * get, add and unlock: they must have done so long before it comes back. The target's own progress
 * thread serves them. Needs several hosts, or else osc/rdma finds the window in shared memory.
 * seconds=S (4): how long it computes; rounds=N (20): epochs of each of the others; bytes=N
 * (100000), of each put and get; sleep=1: it sleeps
 */

#include "common.h"

static void be_the_target(double seconds, int sleeps)
{
    const struct timespec pause = {(time_t) seconds, 0};

    if (sleeps) {
        nanosleep(&pause, NULL);
    } else {
        compute_for(seconds);
    }
}

/* One epoch: what is put must be there afterwards, for us; the sum counts the epochs of all. */
static void work_on(MPI_Win win, int target, unsigned char *buffer, size_t bytes, uint64_t seed)
{
    const MPI_Aint place = (MPI_Aint) (8 + (size_t) rank * bytes);
    int64_t one = 1, before = -1;

    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    pattern_fill(buffer, bytes, seed);
    MPI_Put(buffer, (int) bytes, MPI_BYTE, target, place, (int) bytes, MPI_BYTE, win);
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, target, 0, MPI_SUM, win);
    MPI_Win_flush(target, win);
    memset(buffer, 0, bytes);
    MPI_Get(buffer, (int) bytes, MPI_BYTE, target, place, (int) bytes, MPI_BYTE, win);
    MPI_Win_unlock(target, win);
    pattern_check(buffer, bytes, seed, "got");
    if (before < 0) {
        fail("the sum was %lld", (long long) before);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "passive");
    need_ranks(2);
    const double seconds = arg(argc, argv, "seconds", 4);
    const int rounds = (int) arg(argc, argv, "rounds", 20);
    const size_t bytes = (size_t) arg(argc, argv, "bytes", 100000);
    const int target = size - 1;
    const size_t window_bytes = 8 + (size_t) size * bytes;
    unsigned char *window = get_memory(window_bytes), *buffer = get_memory(bytes);
    int64_t sum;
    MPI_Win win;

    memset(window, 0, window_bytes);
    MPI_Win_create(window, rank == target ? (MPI_Aint) window_bytes : 0, 1, MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = seconds_now();
    if (rank == target) {
        be_the_target(seconds, arg(argc, argv, "sleep", 0) != 0);
    } else {
        for (int i = 0; i < rounds; i++) {
            work_on(win, target, buffer, bytes, (uint64_t) rank << 20 | (uint64_t) i);
        }
        double took = seconds_now() - begun;
        printf("passive: rank %d: %d epochs took %.4f s\n", rank, rounds, took);
        if (took > seconds / 2) {
            fail("%d epochs took %.3f s while the target computed for %.3f s", rounds, took,
                 seconds);
        }
    }
    MPI_Win_free(&win);
    memcpy(&sum, window, sizeof(sum));
    if (rank == target && sum != (int64_t) (size - 1) * rounds) {
        fail("%lld epochs were counted, not %d", (long long) sum, (size - 1) * rounds);
    }
    free(buffer);
    free(window);
    finish();
    return 0;
}
