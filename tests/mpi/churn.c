/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Communicators that come and go: split, dup, intercommunicators, ports with accept and connect,
 * and disconnect, over and over. Open MPI 4.1 waits in accept, connect and disconnect for the
 * runtime without calling a BTL's progress: what was lost before must be sent again meanwhile.
 * rounds=N (20); ports=0: no accept and connect
 */

#include "common.h"

static void check_sum(MPI_Comm comm, int expected, const char *what)
{
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != expected) {
        fail("%s: sum %d, expected %d", what, sum, expected);
    }
}

static void split_and_join(int round)
{
    MPI_Comm half, copy, inter, merged;
    int odd = rank & 1, mine;

    MPI_Comm_split(MPI_COMM_WORLD, odd, (rank * 7 + round) % size, &half);
    MPI_Comm_dup(half, &copy);
    MPI_Comm_size(copy, &mine);
    check_sum(copy, mine, "half");

    int leader;
    MPI_Comm_rank(half, &leader);
    /* The leaders by the old ranks: everyone computes the same. */
    int leaders[2] = {-1, -1}, all[2];
    if (leader == 0) {
        leaders[odd] = rank;
    }
    MPI_Allreduce(leaders, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, all[!odd], 11, &inter);
    MPI_Intercomm_merge(inter, odd, &merged);
    check_sum(merged, size, "merged");
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&half);
}

/* Rank 0 accepts, rank 1 connects. */
static void connect_and_leave(int round)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    int out = rank * 1000 + round, in = -1;

    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 21, MPI_COMM_WORLD);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    } else {
        MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    }
    MPI_Sendrecv(&out, 1, MPI_INT, 0, 22, &in, 1, MPI_INT, 0, 22, inter, MPI_STATUS_IGNORE);
    if (in != (1 - rank) * 1000 + round) {
        fail("round %d: got %d through the new intercommunicator", round, in);
    }
    MPI_Comm_disconnect(&inter);
    if (rank == 0) {
        MPI_Close_port(port);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "churn");
    need_ranks(2);
    int rounds = (int) arg(argc, argv, "rounds", 20);
    int ports = arg(argc, argv, "ports", 1) != 0;

    for (int round = 0; round < rounds; round++) {
        split_and_join(round);
        if (ports && rank < 2) {
            connect_and_leave(round);
        }
    }
    finish();
    return 0;
}
