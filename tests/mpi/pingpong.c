/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Measures one-way latency between ranks 0 and 1, each iteration by itself, so that what loss does
 * to the tail shows.
 * bytes=N (8), iterations=N (10000), warmup=N (1000), seconds=S (0: no limit)
 */

#include "common.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* One-way microseconds of each iteration; stops early, on both sides, after `limit` seconds. */
static int measure(unsigned char *buffer, int bytes, int iterations, double limit, double *us)
{
    double begun = seconds_now();
    int n = 0;

    for (; n < iterations; n++) {
        if (0 == rank) {
            buffer[0] = limit > 0 && seconds_now() - begun > limit;
            double t = seconds_now();
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            us[n] = 0.5e6 * (seconds_now() - t);
        } else {
            MPI_Recv(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
        if (0 != buffer[0]) {
            return n + 1;
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "pingpong");
    need_ranks(2);
    int bytes = (int) arg(argc, argv, "bytes", 8);
    int iterations = (int) arg(argc, argv, "iterations", 10000);
    int warmup = (int) arg(argc, argv, "warmup", 1000);
    double limit = arg(argc, argv, "seconds", 0);
    if (bytes < 1 || iterations < 1) {
        fail("bytes and iterations are at least 1");
    }
    double *us = get_memory(sizeof(*us) * (size_t) (iterations > warmup ? iterations : warmup));
    unsigned char *buffer = get_memory((size_t) bytes);

    memset(buffer, 0, (size_t) bytes);
    if (rank < 2) {
        measure(buffer, bytes, warmup, 0, us);
        int n = measure(buffer, bytes, iterations, limit, us);
        if (0 == rank) {
            double sum = 0;
            for (int i = 0; i < n; i++) {
                sum += us[i];
            }
            qsort(us, (size_t) n, sizeof(*us), by_value);
            printf("pingpong bytes=%d iterations=%d mean=%.2f p50=%.2f p99=%.2f p99.9=%.2f "
                   "max=%.2f us\n",
                   bytes, n, sum / n, us[n / 2], us[(int) (0.99 * n)], us[(int) (0.999 * n)],
                   us[n - 1]);
        }
    }
    free(us);
    free(buffer);
    finish();
    return 0;
}
