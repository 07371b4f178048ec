/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What rank 1 sends to rank 0 first takes many datagrams, so that a first contact of several is
 * kept until rank 0 calls progress; then short messages go both ways. bytes=N (60000) of the first
 * message; times=N (2000) of the short ones; pause=MS (50): rank 0 computes for that long while the
 * first message comes
 */

#include "common.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv, "first_long");
    need_ranks(2);
    const int bytes = (int) arg(argc, argv, "bytes", 60000);
    const double pause = arg(argc, argv, "pause", 50) / 1000;
    unsigned char *buffer = get_memory((size_t) bytes);

    if (rank == 1) {
        pattern_fill(buffer, (size_t) bytes, 7);
        MPI_Send(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    } else if (rank == 0) {
        compute_for(pause);
        MPI_Recv(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pattern_check(buffer, (size_t) bytes, 7, "the first message");
    }
    if (rank < 2) {
        ping_pong((int) arg(argc, argv, "times", 2000));
    }
    free(buffer);
    finish();
    return 0;
}
