/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Ranks enter MPI_Finalize while others are still far behind with data that these sent: odd ranks
 * send, receive and leave at once; even ranks only then receive, after computing for a while.
 * Rank 0 is among the last, so that its OK means that all data came.
 * seconds=S (1.5): how far behind; messages=N (20); bytes=N (2000)
 */

#include "common.h"

static uint64_t seed_of(int from, int to, int n)
{
    return ((uint64_t) from << 40) ^ ((uint64_t) to << 20) ^ (uint64_t) n;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "early_finalize");
    need_ranks(2);
    double seconds = arg(argc, argv, "seconds", 1.5);
    int messages = (int) arg(argc, argv, "messages", 20);
    int bytes = (int) arg(argc, argv, "bytes", 2000);
    unsigned char *buffer = get_memory((size_t) bytes);

    for (int n = 0; n < messages; n++) {
        for (int to = 0; to < size; to++) {
            if (to != rank) {
                pattern_fill(buffer, (size_t) bytes, seed_of(rank, to, n));
                MPI_Send(buffer, bytes, MPI_BYTE, to, n, MPI_COMM_WORLD);
            }
        }
    }
    if (rank % 2 == 0) {
        compute_for(seconds);
    }
    for (int n = 0; n < messages; n++) {
        for (int from = 0; from < size; from++) {
            if (from != rank) {
                MPI_Recv(buffer, bytes, MPI_BYTE, from, n, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                pattern_check(buffer, (size_t) bytes, seed_of(from, rank, n), "early_finalize");
            }
        }
    }
    free(buffer);
    double before = seconds_now();
    MPI_Finalize();
    double took = seconds_now() - before;
    if (took > seconds + 5) {
        fprintf(stderr, "FAIL early_finalize: rank %d: MPI_Finalize took %.1f s\n", rank, took);
        return 1;
    }
    if (rank == 0) {
        printf("OK early_finalize (%d ranks, MPI_Finalize took %.3f s)\n", size, took);
    }
    return 0;
}
