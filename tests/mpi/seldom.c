/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A program that calls MPI seldom: the two ranks of a pair exchange messages of bytes=N (10000000)
 * both ways, and compute for us=N (5000) between calls of MPI_Testall until all is there; rounds=N
 * (20). Prints for how many calls an exchange took, and how long, medians of rank 0. calls=N: fails
 * if it took more: the progress thread is to carry the exchange on between two calls.
 */

#include "common.h"

static int compare(const void *a, const void *b)
{
    const double left = *(const double *) a, right = *(const double *) b;

    return (left > right) - (left < right);
}

static double median(double *values, int count)
{
    qsort(values, (size_t) count, sizeof(*values), compare);
    return values[count / 2];
}

/* Exchanges messages with the other of the pair. Returns how many calls that took. */
static int exchange(unsigned char *out, unsigned char *in, size_t bytes, double pause)
{
    const int other = rank ^ 1;
    MPI_Request requests[2];
    int calls = 0;
    int done = 0;

    MPI_Irecv(in, (int) bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, (int) bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[1]);
    for (; !done; calls++) {
        compute_for(pause);
        MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
    }
    return calls;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "seldom");
    const size_t bytes = (size_t) arg(argc, argv, "bytes", 10000000);
    const double pause = 1e-6 * arg(argc, argv, "us", 5000);
    const int rounds = (int) arg(argc, argv, "rounds", 20);
    const double most = arg(argc, argv, "calls", 0);
    unsigned char *out = get_memory(bytes), *in = get_memory(bytes);
    double *calls = get_memory((size_t) rounds * sizeof(*calls));
    double *ms = get_memory((size_t) rounds * sizeof(*ms));

    if (size % 2 != 0) {
        fail("needs pairs of ranks, not %d", size);
    }
    for (int i = 0; i < rounds; i++) {
        pattern_fill(out, bytes, (uint64_t) (i * size + rank));
        MPI_Barrier(MPI_COMM_WORLD);
        const double began = seconds_now();
        calls[i] = exchange(out, in, bytes, pause);
        ms[i] = 1e3 * (seconds_now() - began);
        pattern_check(in, bytes, (uint64_t) (i * size + (rank ^ 1)), "exchanged");
    }
    const double usual = median(calls, rounds);
    if (rank == 0) {
        printf("seldom: %zu bytes both ways, %.0f us between calls: %.0f calls, %.2f ms\n", bytes,
               1e6 * pause, usual, median(ms, rounds));
    }
    if (most > 0 && usual > most) {
        fail("an exchange took %.0f calls", usual);
    }
    free(out);
    free(in);
    free(calls);
    free(ms);
    finish();
    return 0;
}
