/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Measures streaming between ranks 0 and 1: windows of non-blocking messages, one acknowledgement
 * by MPI for each window.
 * bytes=N (65536), window=N (64 messages), seconds=S (3), both=1: both directions at once
 */

#include "common.h"

typedef struct stream {
    int bytes, window, both;
    unsigned char *out, *in;
    MPI_Request *requests;
} stream_t;

/* Returns 1 if this was the last window, which rank 0 decides. */
static int one_window(stream_t *s, int last)
{
    int sends = 0 == rank || s->both;
    int receives = 1 == rank || s->both;
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
    if (0 == rank) {
        MPI_Send(&last, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        MPI_Recv(&last, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&last, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&last, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    }
    return last;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "stream");
    need_ranks(2);
    stream_t s;
    s.bytes = (int) arg(argc, argv, "bytes", 65536);
    s.window = (int) arg(argc, argv, "window", 64);
    s.both = 0 != arg(argc, argv, "both", 0);
    double seconds = arg(argc, argv, "seconds", 3);
    size_t total = (size_t) s.bytes * (size_t) s.window;
    s.out = get_memory(total);
    s.in = get_memory(total);
    s.requests = get_memory(sizeof(*s.requests) * 2 * (size_t) s.window);

    pattern_fill(s.out, total, (uint64_t) rank);
    memset(s.in, 0, total);
    if (rank < 2) {
        long windows = 0;
        one_window(&s, 0);
        double begun = seconds_now();
        while (!one_window(&s, seconds_now() - begun > seconds)) {
            windows++;
        }
        windows++;
        double took = seconds_now() - begun;
        if (1 == rank || s.both) {
            pattern_check(s.in, total, (uint64_t) (1 - rank), "stream");
        }
        if (0 == rank) {
            printf("stream bytes=%d window=%d both=%d GB/s=%.4f\n", s.bytes, s.window, s.both,
                   (double) windows * (double) total * (s.both ? 2 : 1) / took / 1e9);
        }
    }
    free(s.out);
    free(s.in);
    free(s.requests);
    finish();
    return 0;
}
