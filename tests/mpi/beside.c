/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Measures what a BTL between hosts costs the one within a host: 8-byte latency between two ranks
 * of one host (the first two that share one) while nothing goes to another host, and while a
 * message does now and then; and the latency to a rank of another host. Ranks that have nothing to
 * do sleep nearly all the time, so that three ranks can be measured on two processors. Compare
 * --btl ib,vader with
 * --btl tcp,vader. 3 ranks on 2 hosts; with all ranks on one only the first: that is vader alone.
 * iterations=N (200000) within the host, far=N (20000) between hosts, every=N (2000): a message to
 * the other host after so many iterations
 */

#include "figures.h"

enum { PING = 1, NOTE = 2, END = 3 };

static int near_a, near_b, far_c; /* two that share a host, and one of another */

static void find_places(void)
{
    int *hosts = get_memory(sizeof(int) * (size_t) size);
    int first = rank;
    MPI_Comm host;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Bcast(&first, 1, MPI_INT, 0, host);
    MPI_Comm_free(&host);
    MPI_Allgather(&first, 1, MPI_INT, hosts, 1, MPI_INT, MPI_COMM_WORLD);
    near_a = near_b = far_c = -1;
    for (int i = 0; i < size && near_b < 0; i++) {
        if (hosts[i] != i) { /* a host's number is its first rank */
            near_a = hosts[i];
            near_b = i;
        }
    }
    for (int i = 0; i < size && near_a >= 0; i++) {
        far_c = hosts[i] != near_a ? i : far_c;
    }
    free(hosts);
    if (near_b < 0) {
        fail("needs two ranks on one host");
    }
}

/* Wait for a message of `tag` from anybody, and take in what else comes, without using the
 * processor. */
static void doze_until(int tag)
{
    const struct timespec pause = {0, 200000};
    MPI_Status status;
    char byte[8];

    do {
        int there = 0;
        while (!there) {
            nanosleep(&pause, NULL);
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
        }
        MPI_Recv(byte, sizeof(byte), MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
                 &status);
    } while (status.MPI_TAG != tag);
}

/* One-way microseconds between `a` and `b`: the median of 20 parts of `iterations`, on `a`. With
 * `every`, `a` also sends a note to the far rank now and then. The others doze meanwhile. */
static double latency(int a, int b, int iterations, int every)
{
    char byte[8] = {0};
    double us[20];
    int part = iterations / 20;

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != a && rank != b) {
        doze_until(END);
        return 0;
    }
    for (int p = 0; p < 20; p++) {
        double begun = seconds_now();
        for (int i = 0; i < part; i++) {
            there_and_back(a, b, byte, 8, PING);
            if (rank == a && every > 0 && i % every == 0) {
                MPI_Send(byte, 8, MPI_BYTE, far_c, NOTE, MPI_COMM_WORLD);
            }
        }
        us[p] = 0.5e6 * (seconds_now() - begun) / part;
    }
    for (int i = 0; rank == a && i < size; i++) {
        if (i != a && i != b) {
            MPI_Send(byte, 1, MPI_BYTE, i, END, MPI_COMM_WORLD);
        }
    }
    qsort(us, 20, sizeof(us[0]), by_value);
    return us[10];
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "beside");
    need_ranks(2);
    const int iterations = (int) arg(argc, argv, "iterations", 200000);
    const int far = (int) arg(argc, argv, "far", 20000);
    const int every = (int) arg(argc, argv, "every", 2000);

    find_places();
    if (far_c >= 0) {
        (void) latency(near_a, far_c, far / 10 + 20, 0);
    }
    const double quiet = latency(near_a, near_b, iterations, 0);
    if (far_c < 0) {
        if (rank == near_a) {
            printf("beside: within a host %.3f us\n", quiet);
        }
        finish();
        return 0;
    }
    const double notes = latency(near_a, near_b, iterations, every);
    const double between = latency(near_a, far_c, far, 0);
    if (rank == near_a) {
        printf(
            "beside: within a host %.3f us, with notes to another %.3f us; between hosts %.2f us\n",
            quiet, notes, between);
    }
    finish();
    return 0;
}
