/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * All ranks exchange messages for a while and check them, whatever happens to processes and links
 * meanwhile. Rank 0 prints "survive: going" when it begins: tests/mpi/run cuts the links then, if
 * asked to.
 * seconds=S (5): how long; stop=S (0): the last rank is stopped (SIGSTOP) for so long after half a
 * second, and then continued; pause=S (0): the longest pause between two rounds must be at least so
 * long, as a proof that something did happen; after=S (3): and at most so much longer
 */

#include "common.h"

#include <spawn.h>
#include <unistd.h>

#define BYTES_MAX 100000

extern char **environ;

static uint64_t seed_of(int from, int round)
{
    return ((uint64_t) from << 32) ^ (uint64_t) round ^ UINT64_C(0x5e4);
}

/* A shell stops us, and continues us: who is stopped cannot. */
static void be_stopped_soon(double seconds)
{
    char script[128];
    char *arguments[] = {(char *) "sh", (char *) "-c", script, NULL};
    pid_t pid;

    snprintf(script, sizeof(script), "sleep 0.5; kill -STOP %d; sleep %.1f; kill -CONT %d",
             (int) getpid(), seconds, (int) getpid());
    if (posix_spawnp(&pid, "sh", NULL, NULL, arguments, environ) != 0) {
        fail("cannot start sh");
    }
}

static void one_round(unsigned char *out, unsigned char *in, int round)
{
    const int next = (rank + 1) % size;
    const int before = (rank + size - 1) % size;
    uint64_t state = seed_of(0, round);
    const size_t bytes = random_size(&state, BYTES_MAX);
    MPI_Status status;
    int count;

    pattern_fill(out, bytes, seed_of(rank, round));
    MPI_Sendrecv(out, (int) bytes, MPI_BYTE, next, 1, in, BYTES_MAX, MPI_BYTE, before, 1,
                 MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    if ((size_t) count != bytes) {
        fail("round %d: %d bytes instead of %zu", round, count, bytes);
    }
    pattern_check(in, bytes, seed_of(before, round), "message");
}

/* Returns the longest pause between two rounds. */
static double exchange(double seconds)
{
    unsigned char *out = get_memory(BYTES_MAX), *in = get_memory(BYTES_MAX);
    const struct timespec rest = {0, 1000000};
    double begun = seconds_now(), last = begun, longest = 0;
    int go = 1, round = 0;

    while (go) {
        one_round(out, in, round++);
        double now = seconds_now();
        longest = now - last > longest ? now - last : longest;
        last = now;
        go = now - begun < seconds;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        nanosleep(&rest, NULL);
    }
    if (rank == 0) {
        printf("survive: %d rounds, longest pause %.3f s\n", round, longest);
    }
    free(out);
    free(in);
    return longest;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "survive");
    need_ranks(2);
    double seconds = arg(argc, argv, "seconds", 5);
    double stop = arg(argc, argv, "stop", 0);
    double pause = arg(argc, argv, "pause", 0);
    double after = arg(argc, argv, "after", 3);

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("survive: going\n");
        fflush(stdout);
    }
    if (stop > 0 && rank == size - 1) {
        be_stopped_soon(stop);
    }
    double longest = exchange(seconds);
    if (pause > 0 && (longest < pause || longest > pause + after)) {
        fail("the longest pause was %.3f s, expected were %.1f to %.1f", longest, pause,
             pause + after);
    }
    finish();
    return 0;
}
