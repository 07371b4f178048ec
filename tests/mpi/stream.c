/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Measures streaming between ranks 0 and 1: windows of non-blocking messages, one acknowledgement
 * by MPI for each window.
 * bytes=N[,N...] (65536), window=N (64 messages; of long ones fewer), seconds=S for each size (3),
 * warmup=S (0.1), both=1: both directions at once, slots=... (slots.h), threads=N (0): so many
 * threads of each rank do it at once, each on a communicator of its own (MPI_THREAD_MULTIPLE; with
 * threads=1 nothing but Open MPI's own locks is added), and the figures are their sums; windows=N:
 * so many for each thread and size, however long they take, for whoever counts instructions
 */

#include "figures.h"
#include "slots.h"

#include <pthread.h>

typedef struct stream {
    pthread_t thread;
    MPI_Comm comm;
    double warmup, seconds;
    double rate; /* messages/s */
    int bytes, window, both;
    long windows; /* 0: as many as there is time for */
    unsigned char *out, *in;
    MPI_Request *requests;
} stream_t;

/* Returns what comes next, which rank 0 decides. */
static int one_window(stream_t *s, int next)
{
    int sends = rank == 0 || s->both;
    int receives = rank == 1 || s->both;
    int other = 1 - rank, n = 0;

    for (int i = 0; receives && i < s->window; i++) {
        MPI_Irecv(s->in + (size_t) i * (size_t) s->bytes, s->bytes, MPI_BYTE, other, 1, s->comm,
                  &s->requests[n++]);
    }
    for (int i = 0; sends && i < s->window; i++) {
        MPI_Isend(s->out + (size_t) i * (size_t) s->bytes, s->bytes, MPI_BYTE, other, 1, s->comm,
                  &s->requests[n++]);
    }
    MPI_Waitall(n, s->requests, MPI_STATUSES_IGNORE);
    if (rank == 0) {
        MPI_Send(&next, 1, MPI_INT, 1, 2, s->comm);
        MPI_Recv(&next, 1, MPI_INT, 1, 3, s->comm, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&next, 1, MPI_INT, 0, 2, s->comm, MPI_STATUS_IGNORE);
        MPI_Send(&next, 1, MPI_INT, 0, 3, s->comm);
    }
    return next;
}

/* What comes after this window, as rank 0 decides. */
static int what_next(const stream_t *s, measurement_t *m, long windows)
{
    return s->windows == 0 ? measurement_next(m) : windows < s->windows ? GO_ON : ENOUGH;
}

/* Windows until so many seconds are over, at least one: how many, and how long it took. */
static long windows_for(stream_t *s, double seconds, double *took)
{
    measurement_t m = measurement_begin(seconds);
    long windows = 1;

    for (int next; (next = one_window(s, what_next(s, &m, windows))) != ENOUGH; windows++) {
        if (next == REST) {
            measurement_rest(&m);
        }
    }
    *took = measurement_took(&m);
    return windows;
}

static void *measure(void *argument)
{
    stream_t *s = argument;
    size_t total = (size_t) s->bytes * (size_t) s->window;
    double took;

    slots_next();
    s->out = get_memory(total);
    s->in = get_memory(total);
    s->requests = get_memory(sizeof(*s->requests) * 2 * (size_t) s->window);
    pattern_fill(s->out, total, (uint64_t) rank);
    memset(s->in, 0, total);
    slots_next();
    if (s->windows == 0) {
        windows_for(s, s->warmup, &took);
    }
    long windows = windows_for(s, s->seconds, &took);
    slots_next();
    if (rank == 1 || s->both) {
        pattern_check(s->in, total, (uint64_t) (1 - rank), "stream");
    }
    s->rate = (double) windows * s->window * (s->both ? 2 : 1) / took;
    free(s->out);
    free(s->in);
    free(s->requests);
    return NULL;
}

static void one_size(stream_t *streams, int threads)
{
    double rate = 0;

    for (int i = 0; i < threads; i++) {
        if (pthread_create(&streams[i].thread, NULL, measure, &streams[i]) != 0) {
            fail("pthread_create");
        }
    }
    if (threads == 0) {
        measure(streams);
        rate = streams->rate;
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(streams[i].thread, NULL);
        rate += streams[i].rate;
    }
    if (rank == 0) {
        printf("stream bytes=%d window=%d both=%d messages/s=%.0f GB/s=%.6f\n", streams->bytes,
               streams->window, streams->both, rate, rate * streams->bytes / 1e9);
        fflush(stdout);
    }
}

static void start_mpi(int *argc, char ***argv, int threads)
{
    int provided;

    if (threads == 0) {
        begin(argc, argv, "stream");
        return;
    }
    program = "stream";
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    started = seconds_now();
    if (provided < MPI_THREAD_MULTIPLE) {
        fail("this Open MPI has no MPI_THREAD_MULTIPLE");
    }
}

int main(int argc, char **argv)
{
    int threads = (int) arg(argc, argv, "threads", 0);
    int count = threads > 0 ? threads : 1;

    start_mpi(&argc, &argv, threads);
    need_ranks(2);
    sizes_t sizes = arg_sizes(argc, argv, "65536");
    int window = (int) arg(argc, argv, "window", 0);
    stream_t *streams = get_memory(sizeof(*streams) * (size_t) count);

    slots_begin(argc, argv);
    for (int i = 0; i < count; i++) {
        streams[i] = (stream_t){.comm = MPI_COMM_WORLD,
                                .warmup = arg(argc, argv, "warmup", 0.1),
                                .seconds = arg(argc, argv, "seconds", 3),
                                .windows = (long) arg(argc, argv, "windows", 0),
                                .both = arg(argc, argv, "both", 0) != 0};
        if (threads > 0) {
            MPI_Comm_dup(MPI_COMM_WORLD, &streams[i].comm);
        }
    }
    for (int i = 0; i < sizes.count && rank < 2; i++) {
        for (int j = 0; j < count; j++) {
            streams[j].bytes = sizes.bytes[i];
            streams[j].window = window_of(window, sizes.bytes[i]);
        }
        one_size(streams, threads);
    }
    for (int i = 0; i < threads; i++) {
        MPI_Comm_free(&streams[i].comm);
    }
    free(streams);
    finish();
    return 0;
}
