/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Each rank computes, or waits in MPI, for up to longest=S (2.5) seconds, adds to counters of
 * others by MPI_Fetch_and_op, puts and gets, and exchanges messages of all sizes with its
 * neighbours: again and again, for rounds=N (20). So what closes connections by which nothing went
 * does that at any moment. seed=N (1).
 */

#include "common.h"

enum { BYTES = 200000 };

static void wait_in_mpi(double seconds)
{
    const double end = seconds_now() + seconds;
    int there;

    while (seconds_now() < end) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    }
}

/* Counts one at another rank; what is put there comes back. Each rank has a place of its own. */
static void work_on(MPI_Win win, int target, unsigned char *buffer, size_t bytes, uint64_t seed)
{
    const MPI_Aint place = (MPI_Aint) (8 + (size_t) rank * BYTES);
    int64_t one = 1, before = -1;

    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, target, 0, MPI_SUM, win);
    pattern_fill(buffer, bytes, seed);
    MPI_Put(buffer, (int) bytes, MPI_BYTE, target, place, (int) bytes, MPI_BYTE, win);
    MPI_Win_flush(target, win);
    memset(buffer, 0, bytes);
    MPI_Get(buffer, (int) bytes, MPI_BYTE, target, place, (int) bytes, MPI_BYTE, win);
    MPI_Win_flush(target, win);
    pattern_check(buffer, bytes, seed, "got");
    if (before < 0) {
        fail("the sum was %lld", (long long) before);
    }
}

/* A message to the right, and one from the left: all know how long they are. */
static void exchange(uint64_t seed, unsigned char *out, unsigned char *in)
{
    const int left = (rank + size - 1) % size, right = (rank + 1) % size;
    uint64_t ours = seed + (uint64_t) rank, theirs = seed + (uint64_t) left;
    const size_t bytes = random_size(&ours, BYTES), expected = random_size(&theirs, BYTES);
    MPI_Request request;

    pattern_fill(out, bytes, ours);
    MPI_Irecv(in, BYTES, MPI_BYTE, left, 1, MPI_COMM_WORLD, &request);
    MPI_Send(out, (int) bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    pattern_check(in, expected, theirs, "received");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "pauses");
    need_ranks(2);
    const int rounds = (int) arg(argc, argv, "rounds", 20);
    const double longest = arg(argc, argv, "longest", 2.5);
    const uint64_t seed = (uint64_t) arg(argc, argv, "seed", 1) << 32;
    uint64_t own = seed + (uint64_t) rank;
    const size_t window_bytes = 8 + (size_t) size * BYTES;
    unsigned char *window = get_memory(window_bytes), *out = get_memory(BYTES);
    unsigned char *in = get_memory(BYTES);
    int64_t counted = 0, sum, all, expected;
    MPI_Win win;

    memset(window, 0, window_bytes);
    MPI_Win_create(window, (MPI_Aint) window_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < rounds; i++) {
        const double seconds = longest * (double) random_below(&own, 1000) / 1000;
        if (random_below(&own, 2) == 0) {
            compute_for(seconds);
        } else {
            wait_in_mpi(seconds);
        }
        for (uint64_t n = random_below(&own, 4); n > 0; n--) {
            const int target = (rank + 1 + (int) random_below(&own, (uint64_t) size - 1)) % size;
            work_on(win, target, out, random_size(&own, BYTES), own);
            counted++;
        }
        if (i % 3 == 2) {
            exchange(seed + ((uint64_t) i << 16), out, in);
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    memcpy(&sum, window, sizeof(sum));
    MPI_Allreduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&counted, &expected, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (all != expected) {
        fail("%lld were counted, not %lld", (long long) all, (long long) expected);
    }
    free(in);
    free(out);
    free(window);
    finish();
    return 0;
}
