/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Measures one-way latency between ranks 0 and 1, each iteration by itself, so that what loss does
 * to the tail shows. bytes=N[,N...] (8), iterations=N (10000), warmup=N (1000), seconds=S for each
 * size (0: no limit; of the warm-up at most a quarter as long), slots=... (slots.h)
 */

#include "figures.h"
#include "slots.h"

/* One-way microseconds of each iteration; stops early, on both sides, after `limit` seconds. */
static int measure(unsigned char *buffer, int bytes, int iterations, double limit, double *us)
{
    measurement_t m = measurement_begin(limit > 0 ? limit : INFINITY);
    int n = 0;

    for (; n < iterations; n++) {
        if (rank == 0) {
            buffer[0] = (unsigned char) measurement_next(&m);
            double t = seconds_now();
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            us[n] = 0.5e6 * (seconds_now() - t);
        } else {
            MPI_Recv(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
        if (buffer[0] == ENOUGH) {
            return n + 1;
        }
        if (buffer[0] == REST) {
            measurement_rest(&m);
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "pingpong");
    need_ranks(2);
    sizes_t sizes = arg_sizes(argc, argv, "8");
    int iterations = (int) arg(argc, argv, "iterations", 10000);
    int warmup = (int) arg(argc, argv, "warmup", 1000);
    double limit = arg(argc, argv, "seconds", 0);
    if (iterations < 1 || warmup < 0) {
        fail("iterations is at least 1, warmup at least 0");
    }
    double *us = get_memory(sizeof(*us) * (size_t) (iterations > warmup ? iterations : warmup));
    unsigned char *buffer = get_memory((size_t) sizes.longest);

    memset(buffer, 0, (size_t) sizes.longest);
    slots_begin(argc, argv);
    for (int i = 0; i < sizes.count && rank < 2; i++) {
        slots_next();
        measure(buffer, sizes.bytes[i], warmup, limit / 4, us);
        int n = measure(buffer, sizes.bytes[i], iterations, limit, us);
        if (rank == 0) {
            print_latency(sizes.bytes[i], us, n);
        }
    }
    free(us);
    free(buffer);
    finish();
    return 0;
}
