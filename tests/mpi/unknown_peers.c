/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Each rank in turn looks for flags in its window, without calling MPI, until all others have got
 * from it and then put there. Most of them it has exchanged nothing with before: with
 * osc_rdma_btls nobody has added them either. Its progress thread serves them.
 * Needs four ranks or more, of which some never meet in a collective operation.
 * seconds=S (10): how long flags may take: far more than they do, and less than a test may
 */

#include "common.h"

#include <time.h>

#define NUMBERS 10

/* Flags of all others? */
static int complete(const volatile int64_t *flags)
{
    int set = 0;

    for (int i = 0; i < size; i++) {
        set += flags[i] == i + 1;
    }
    return set == size - 1;
}

static void be_the_target(const volatile int64_t *flags, double seconds)
{
    const struct timespec pause = {0, 100000};
    const double end = seconds_now() + seconds;

    while (!complete(flags)) {
        if (seconds_now() > end) {
            fail("flags are missing after %.0f s without a call of MPI", seconds);
        }
        nanosleep(&pause, NULL);
    }
}

static void work_on(MPI_Win win, int target)
{
    int64_t got, flag = rank + 1;

    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    for (int i = 0; i < NUMBERS; i++) {
        got = -1;
        MPI_Get(&got, 1, MPI_INT64_T, target, i, 1, MPI_INT64_T, win);
        MPI_Win_flush(target, win);
        if (got != (int64_t) target * NUMBERS + i) {
            fail("number %d of rank %d is %lld", i, target, (long long) got);
        }
    }
    MPI_Put(&flag, 1, MPI_INT64_T, target, NUMBERS + rank, 1, MPI_INT64_T, win);
    MPI_Win_unlock(target, win);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "unknown_peers");
    need_ranks(4);
    const double seconds = arg(argc, argv, "seconds", 10);
    const size_t bytes = (NUMBERS + (size_t) size) * sizeof(int64_t);
    int64_t *window = get_memory(bytes);
    MPI_Win win;

    memset(window, 0, bytes);
    for (int i = 0; i < NUMBERS; i++) {
        window[i] = (int64_t) rank * NUMBERS + i;
    }
    MPI_Win_create(window, (MPI_Aint) bytes, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int target = 0; target < size; target++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == target) {
            be_the_target(window + NUMBERS, seconds);
        } else {
            work_on(win, target);
        }
    }
    MPI_Win_free(&win);
    free(window);
    finish();
    return 0;
}
