/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * btl_ib_progress deliver: each pair of ranks exchanges long messages one of which computes, or
 * sleeps, meanwhile without calling MPI: the other must be done before it comes back. seconds=S
 * (1): how long it computes; bytes=N (4194304); rounds=N (2); sleep=1: it sleeps; window=1:
 * accumulates as well, which needs several hosts, or else osc/rdma finds the window in shared
 * memory; measure=1: no test, but how much of an exchange both ways is hidden behind computing on
 * both sides (sleep=1: sleeping), for messages of up to most=N (33554432) bytes: by medians, and of
 * the fastest tenth, which other work on the machine disturbs least
 */

#include "common.h"

#include <unistd.h>

#define MEASURED 48

static void be_away(double seconds, int sleeps)
{
    if (sleeps) {
        usleep((useconds_t) (1e6 * seconds));
    } else {
        compute_for(seconds);
    }
}

/* The other did something with this rank, and was done at `theirs`: before this one came back? */
static void must_precede(double theirs, double back, double away, const char *what)
{
    if (theirs >= back) {
        fail("%s ended %.3f s after this rank had come back", what, theirs - back);
    }
    if (rank == 1) {
        printf("overlap: %s took %.1f ms of the %.0f ms that the other was away\n", what,
               1e3 * (theirs - back + away), 1e3 * away);
    }
}

static void tell_done(int other)
{
    double done = seconds_now();

    MPI_Send(&done, 1, MPI_DOUBLE, other, 1, MPI_COMM_WORLD);
}

/* When the other, which calls MPI, was done. */
static double hear_done(int other)
{
    double done;

    MPI_Recv(&done, 1, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return done;
}

/* From the even rank to the odd one, which has posted its receive; or back, which was begun. */
static void exchange(int round, size_t bytes, double seconds, int sleeps)
{
    const int other = rank ^ 1;
    const int away = rank % 2;
    const int receives = away == (round % 2 == 0);
    unsigned char *buffer = get_memory(bytes);
    const uint64_t seed = (uint64_t) (rank | 1) << 8 | (uint64_t) round;
    MPI_Request request;

    pattern_fill(buffer, bytes, receives ? 0 : seed);
    MPI_Barrier(MPI_COMM_WORLD);
    if (receives) {
        MPI_Irecv(buffer, (int) bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request);
    } else {
        MPI_Isend(buffer, (int) bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request);
    }
    if (away) {
        be_away(seconds, sleeps);
        const double back = seconds_now();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        must_precede(hear_done(other), back, seconds, receives ? "a send" : "a receive");
    } else {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        tell_done(other);
    }
    if (receives) {
        pattern_check(buffer, bytes, seed, "received");
    }
    free(buffer);
}

static void accumulate(double seconds, int sleeps)
{
    const int other = rank ^ 1;
    int64_t memory[64] = {0}, ones[64];
    MPI_Win win;

    for (int i = 0; i < 64; i++) {
        ones[i] = 1;
    }
    MPI_Win_create(memory, sizeof(memory), sizeof(memory[0]), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank % 2) {
        be_away(seconds, sleeps);
        const double back = seconds_now();
        must_precede(hear_done(other), back, seconds, "ten accumulates");
    } else {
        for (int i = 0; i < 10; i++) {
            MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
            MPI_Accumulate(ones, 64, MPI_INT64_T, other, 0, 64, MPI_INT64_T, MPI_SUM, win);
            MPI_Win_unlock(other, win);
        }
        tell_done(other);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int i = 0; i < 64; i++) {
        if (memory[i] != (rank % 2 ? 10 : 0)) {
            fail("word %d of the window is %lld", i, (long long) memory[i]);
        }
    }
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
}

/* What exchanges took, s. */
typedef struct timed {
    double all[MEASURED];
    double begin[MEASURED]; /* of it: in MPI_Irecv and MPI_Isend, which nothing hides */
    double away[MEASURED];  /* of it */
} timed_t;

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

/* Exchanges both ways, with `seconds` away in between. Afterwards medians are in the middle. */
static void exchange_both_ways(unsigned char *out, unsigned char *in, size_t bytes, double seconds,
                               int sleeps, timed_t *took)
{
    const int other = rank ^ 1;
    MPI_Request requests[2];

    for (int i = 0; i < MEASURED; i++) {
        if (i % 8 == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        const double begun = seconds_now();
        MPI_Irecv(in, (int) bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, (int) bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests[1]);
        const double gone = seconds_now();
        took->begin[i] = gone - begun;
        if (seconds > 0) {
            be_away(seconds, sleeps);
        }
        took->away[i] = seconds_now() - gone;
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        took->all[i] = seconds_now() - begun;
    }
    qsort(took->all, MEASURED, sizeof(took->all[0]), ascending);
    qsort(took->begin, MEASURED, sizeof(took->begin[0]), ascending);
    qsort(took->away, MEASURED, sizeof(took->away[0]), ascending);
}

/* %: of exchanges that alone take `alone` s, at that place of those that were timed. */
static double hidden(const timed_t *took, int place, double alone)
{
    return 100 * (alone + took->away[place] - took->all[place]) / alone;
}

static void measure(size_t most, int sleeps)
{
    enum { MIDDLE = MEASURED / 2, FAST = MEASURED / 10 };
    unsigned char *out = get_memory(most), *in = get_memory(most);
    static timed_t took;

    memset(out, 1, most);
    memset(in, 2, most);
    for (size_t bytes = 65536; bytes <= most; bytes *= bytes < most / 2 ? 4 : 2) {
        exchange_both_ways(out, in, bytes, 0, sleeps, &took);
        const double fast = took.all[FAST];
        double alone = took.all[MIDDLE];
        MPI_Bcast(&alone, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD); /* all are away for as long */
        exchange_both_ways(out, in, bytes, alone, sleeps, &took);
        if (rank == 0) {
            printf("overlap: %9zu B: alone %9.1f us, away %9.1f, both %9.1f, of it to begin %9.1f: "
                   "%3.0f %% hidden, of the fastest %3.0f\n",
                   bytes, 1e6 * alone, 1e6 * took.away[MIDDLE], 1e6 * took.all[MIDDLE],
                   1e6 * took.begin[MIDDLE], hidden(&took, MIDDLE, alone),
                   hidden(&took, FAST, fast));
        }
    }
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "overlap");
    need_ranks(2);
    if (size % 2) {
        fail("an even number of ranks is needed");
    }
    const double seconds = arg(argc, argv, "seconds", 1);
    const size_t bytes = (size_t) arg(argc, argv, "bytes", 4 << 20);
    const int rounds = (int) arg(argc, argv, "rounds", 2);
    const int sleeps = arg(argc, argv, "sleep", 0) != 0;

    if (arg(argc, argv, "measure", 0) != 0) {
        measure((size_t) arg(argc, argv, "most", 32 << 20), sleeps);
    } else {
        for (int i = 0; i < rounds; i++) {
            exchange(i, bytes, seconds, sleeps);
        }
        if (arg(argc, argv, "window", 0) != 0) {
            accumulate(seconds, sleeps);
        }
    }
    finish();
    return 0;
}
