/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One rank kills itself while the others send to it, each once a millisecond. No rank prints OK:
 * tests/mpi/run checks that the job ends in time and with a message that names the dead one.
 * after=S (1): when; victim=R (the last rank); waiting=1: the others only wait for the dead one,
 * with nothing on the way that it could fail to acknowledge; closes=1: it does not end, but closes
 * all descriptors, and goes on; memory=N: it does not kill itself, but takes up to N MiB, until its
 * control group has no more
 */

#include "common.h"

#include <signal.h>
#include <unistd.h>

/* Returns if nobody minds. */
static void take_memory(int mib)
{
    for (int i = 0; i < mib; i++) {
        pattern_fill(get_memory(1 << 20), 1 << 20, (uint64_t) i);
    }
}

static void close_all(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        close(fd);
    }
}

static void die_after(double seconds, int closes, int memory)
{
    char token[100];
    double begun = seconds_now();
    struct timespec now;

    while (seconds_now() - begun < seconds) {
        int there;
        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        if (there) {
            MPI_Recv(token, sizeof(token), MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
    }
    if (closes) {
        close_all();
        MPI_Recv(token, sizeof(token), MPI_BYTE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(stderr, "killed: rank %d kills itself at %lld.%03ld\n", rank, (long long) now.tv_sec,
            now.tv_nsec / 1000000);
    if (memory > 0) {
        take_memory(memory);
        fail("%d MiB were not too much", memory);
    }
    raise(SIGKILL);
}

static void send_to(int victim, double seconds)
{
    char token[100] = {0};
    const struct timespec pause = {0, 1000000};
    double begun = seconds_now();

    while (seconds_now() - begun < seconds) {
        MPI_Send(token, sizeof(token), MPI_BYTE, victim, 1, MPI_COMM_WORLD);
        nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "killed");
    need_ranks(2);
    double after = arg(argc, argv, "after", 1);
    int victim = (int) arg(argc, argv, "victim", size - 1);
    char token[100] = {0};

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        fprintf(stderr, "killed: going\n");
    }
    if (rank == victim) {
        die_after(after, arg(argc, argv, "closes", 0) != 0, (int) arg(argc, argv, "memory", 0));
    }
    if (arg(argc, argv, "waiting", 0) != 0) {
        send_to(victim, after / 2);
        MPI_Recv(token, sizeof(token), MPI_BYTE, victim, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    send_to(victim, after + 60);
    fail("still talking to rank %d, which is dead", victim);
}
