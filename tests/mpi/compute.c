/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The last rank computes without calling MPI while the others send to it and go on: their small
 * blocking sends must return long before it comes back, and the traffic between them must not stop.
 * seconds=S (20): how long it computes; small=N (6): blocking sends from each of the
 * others; first=1: nobody ever sent to it before; stopped=1: it does not compute but is stopped
 * (SIGSTOP)
 */

#include "common.h"

#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#define LARGE 300000

static uint64_t seed_of(int from, int n)
{
    return ((uint64_t) from << 20) ^ (uint64_t) n ^ UINT64_C(0xc0);
}

extern char **environ;

/* A shell continues us: who is stopped cannot. */
static void be_stopped_for(double seconds)
{
    char script[64];
    char *arguments[] = {(char *) "sh", (char *) "-c", script, NULL};
    pid_t pid;

    snprintf(script, sizeof(script), "sleep %.1f; kill -CONT %d", seconds, (int) getpid());
    if (posix_spawnp(&pid, "sh", NULL, NULL, arguments, environ) != 0) {
        fail("cannot start sh");
    }
    raise(SIGSTOP);
}

static void be_the_computer(double seconds, int small, int first, int stopped)
{
    unsigned char *buffer = get_memory(LARGE);
    if (!first) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (stopped) {
        be_stopped_for(seconds);
    } else {
        compute_for(seconds);
    }
    for (int from = 0; from < size - 1; from++) {
        for (int n = 0; n < small; n++) {
            MPI_Recv(buffer, 64, MPI_BYTE, from, n, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            pattern_check(buffer, 64, seed_of(from, n), "small");
        }
        MPI_Recv(buffer, LARGE, MPI_BYTE, from, small, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pattern_check(buffer, LARGE, seed_of(from, small), "large");
        MPI_Send(buffer, LARGE, MPI_BYTE, from, small, MPI_COMM_WORLD);
    }
    free(buffer);
}

/* Ring steps among the ranks that do not compute, until the large send is done. Returns the longest
 * pause between two of them. */
static double keep_going(MPI_Comm others, MPI_Request *large, double seconds)
{
    double last = seconds_now(), longest = 0, begun = last;
    int n, me, all_done = 0, steps = 0;

    MPI_Comm_size(others, &n);
    MPI_Comm_rank(others, &me);
    while (!all_done) {
        int done, token = steps, got = -1;
        MPI_Test(large, &done, MPI_STATUS_IGNORE);
        if (n > 1) {
            MPI_Sendrecv(&token, 1, MPI_INT, (me + 1) % n, 1, &got, 1, MPI_INT, (me + n - 1) % n, 1,
                         others, MPI_STATUS_IGNORE);
            if (got != token) {
                fail("ring step %d brought %d", token, got);
            }
            MPI_Allreduce(&done, &all_done, 1, MPI_INT, MPI_MIN, others);
        } else {
            all_done = done;
        }
        double now = seconds_now();
        if (now - begun < seconds && now - last > longest) {
            longest = now - last;
        }
        last = now;
        steps++;
    }
    return longest;
}

static void be_another(MPI_Comm others, double seconds, int small, int first)
{
    unsigned char *buffer = get_memory(LARGE), *back = get_memory(LARGE);
    MPI_Request requests[2];
    int to = size - 1;

    if (!first) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    double begun = seconds_now();
    for (int n = 0; n < small; n++) {
        pattern_fill(buffer, 64, seed_of(rank, n));
        MPI_Send(buffer, 64, MPI_BYTE, to, n, MPI_COMM_WORLD);
    }
    double took = seconds_now() - begun;
    if (took > seconds / 4) {
        fail("%d small sends to a rank that computes took %.3f s", small, took);
    }
    pattern_fill(buffer, LARGE, seed_of(rank, small));
    MPI_Irecv(back, LARGE, MPI_BYTE, to, small, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(buffer, LARGE, MPI_BYTE, to, small, MPI_COMM_WORLD, &requests[0]);
    double longest = keep_going(others, &requests[0], seconds);
    if (longest > seconds / 4) {
        fail("the ranks that did not compute stood still for %.3f s", longest);
    }
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    pattern_check(back, LARGE, seed_of(rank, small), "large, returned");
    if (rank == 0) {
        printf("compute: %d small sends took %.1f us, longest pause of the others %.1f us\n", small,
               1e6 * took, 1e6 * longest);
    }
    free(buffer);
    free(back);
}

static MPI_Comm without_the_last(void)
{
    const int last = size - 1;
    MPI_Group all, rest;
    MPI_Comm others;

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, 1, &last, &rest);
    MPI_Comm_create_group(MPI_COMM_WORLD, rest, 0, &others);
    MPI_Group_free(&rest);
    MPI_Group_free(&all);
    return others;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "compute");
    need_ranks(2);
    double seconds = arg(argc, argv, "seconds", 20);
    int small = (int) arg(argc, argv, "small", 6);
    int first = (int) arg(argc, argv, "first", 0);
    int stopped = (int) arg(argc, argv, "stopped", 0);

    if (rank == size - 1) {
        be_the_computer(seconds, small, first, stopped);
    } else {
        MPI_Comm others = without_the_last(); /* to whom nothing is sent for it */
        if (stopped) {
            usleep(500000); /* until it is */
        }
        be_another(others, seconds, small, first);
        MPI_Comm_free(&others);
    }
    finish();
    return 0;
}
