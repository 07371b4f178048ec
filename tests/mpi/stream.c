/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Measures streaming between ranks 0 and 1: windows of non-blocking messages, one acknowledgement
 * by MPI for each window.
 * bytes=N[,N...] (65536), window=N (64 messages; of long ones fewer), seconds=S for each size (3),
 * warmup=S (0.1), both=1: both directions at once, slots=... (slots.h)
 */

#include "figures.h"
#include "slots.h"

typedef struct stream {
    int bytes, window, both;
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
        MPI_Irecv(s->in + (size_t) i * (size_t) s->bytes, s->bytes, MPI_BYTE, other, 1,
                  MPI_COMM_WORLD, &s->requests[n++]);
    }
    for (int i = 0; sends && i < s->window; i++) {
        MPI_Isend(s->out + (size_t) i * (size_t) s->bytes, s->bytes, MPI_BYTE, other, 1,
                  MPI_COMM_WORLD, &s->requests[n++]);
    }
    MPI_Waitall(n, s->requests, MPI_STATUSES_IGNORE);
    if (rank == 0) {
        MPI_Send(&next, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        MPI_Recv(&next, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&next, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&next, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    }
    return next;
}

/* Windows until so many seconds are over, at least one: how many, and how long it took. */
static long windows_for(stream_t *s, double seconds, double *took)
{
    measurement_t m = measurement_begin(seconds);
    long windows = 1;

    for (int next; (next = one_window(s, measurement_next(&m))) != ENOUGH; windows++) {
        if (next == REST) {
            measurement_rest(&m);
        }
    }
    *took = measurement_took(&m);
    return windows;
}

static void one_size(stream_t *s, double warmup, double seconds)
{
    size_t total = (size_t) s->bytes * (size_t) s->window;
    double took;

    slots_next();
    s->out = get_memory(total);
    s->in = get_memory(total);
    s->requests = get_memory(sizeof(*s->requests) * 2 * (size_t) s->window);
    pattern_fill(s->out, total, (uint64_t) rank);
    memset(s->in, 0, total);
    slots_next();
    windows_for(s, warmup, &took);
    long windows = windows_for(s, seconds, &took);
    slots_next();
    if (rank == 1 || s->both) {
        pattern_check(s->in, total, (uint64_t) (1 - rank), "stream");
    }
    if (rank == 0) {
        double messages = (double) windows * s->window * (s->both ? 2 : 1);
        printf("stream bytes=%d window=%d both=%d messages/s=%.0f GB/s=%.6f\n", s->bytes, s->window,
               s->both, messages / took, messages * s->bytes / took / 1e9);
        fflush(stdout);
    }
    free(s->out);
    free(s->in);
    free(s->requests);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "stream");
    need_ranks(2);
    sizes_t sizes = arg_sizes(argc, argv, "65536");
    int window = (int) arg(argc, argv, "window", 0);
    double seconds = arg(argc, argv, "seconds", 3);
    double warmup = arg(argc, argv, "warmup", 0.1);
    stream_t s = {.both = arg(argc, argv, "both", 0) != 0};

    slots_begin(argc, argv);
    for (int i = 0; i < sizes.count && rank < 2; i++) {
        s.bytes = sizes.bytes[i];
        s.window = window_of(window, s.bytes);
        one_size(&s, warmup, seconds);
    }
    finish();
    return 0;
}
