/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Rank 0 exchanges short messages with rank 1 alone, and then with rank 2, and with rank 1 after
 * each eighth of those: who of its peers is the busiest changes. 3 ranks; rounds=N (3000).
 */

#include "common.h"

enum { BYTES = 16, SELDOM = 8 };

static void exchange(int peer, int round)
{
    unsigned char out[BYTES], in[BYTES];
    const uint64_t seed = (uint64_t) round << 8;

    pattern_fill(out, BYTES, seed | (uint64_t) rank);
    MPI_Sendrecv(out, BYTES, MPI_BYTE, peer, 1, in, BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    pattern_check(in, BYTES, seed | (uint64_t) peer, "message");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "busiest");
    const int rounds = (int) arg(argc, argv, "rounds", 3000);

    need_ranks(3);
    for (int round = 0; round < rounds; round++) {
        if (rank <= 1) {
            exchange(1 - rank, round);
        }
    }
    for (int round = 0; round < rounds; round++) {
        if (rank == 0 || rank == 2) {
            exchange(2 - rank, round);
        }
        if (round % SELDOM == 0 && rank <= 1) {
            exchange(1 - rank, round);
        }
    }
    finish();
    return 0;
}
