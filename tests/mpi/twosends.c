/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Rank 0 sends twice to rank 1 and then computes without calling MPI: rank 1 must have both
 * messages at once, not when rank 0 comes back. seconds=S (20): how long rank 0 computes; bound=MS
 * (500): how late the messages may be, far less than that, but as much as a busy machine may take;
 * bytes=N (8); first=1: nothing was ever sent between the two before
 */

#include "common.h"

static void be_the_sender(double seconds, int bytes)
{
    unsigned char *buffer = get_memory((size_t) bytes + 8);
    double t = seconds_now();

    memcpy(buffer, &t, sizeof(t));
    MPI_Send(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    MPI_Send(buffer, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
    double took = seconds_now() - t;
    compute_for(seconds);
    printf("twosends: both sends took %.1f us\n", 1e6 * took);
    free(buffer);
}

static void be_the_receiver(double bound_ms, int bytes)
{
    unsigned char *buffer = get_memory((size_t) bytes + 8);
    double sent, late[2];

    for (int i = 0; i < 2; i++) {
        MPI_Recv(buffer, bytes, MPI_BYTE, 0, i + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double now = seconds_now();
        memcpy(&sent, buffer, sizeof(sent));
        late[i] = 1e3 * (now - sent);
    }
    printf("twosends: received after %.3f and %.3f ms\n", late[0], late[1]);
    fflush(stdout);
    if (late[0] > bound_ms || late[1] > bound_ms) {
        fail("messages came after %.3f and %.3f ms, allowed are %.0f", late[0], late[1], bound_ms);
    }
    free(buffer);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "twosends");
    need_ranks(2);
    double seconds = arg(argc, argv, "seconds", 20);
    double bound_ms = arg(argc, argv, "bound", 500);
    int bytes = (int) arg(argc, argv, "bytes", 8);
    int first = arg(argc, argv, "first", 0) != 0;

    if (rank < 2) {
        if (!first) {
            ping_pong(200);
        }
        if (rank == 0) {
            /* Rank 1 is to be waiting in MPI_Recv. */
            compute_for(1);
            be_the_sender(seconds, bytes < 8 ? 8 : bytes);
        } else {
            be_the_receiver(bound_ms, bytes < 8 ? 8 : bytes);
        }
    }
    finish();
    return 0;
}
