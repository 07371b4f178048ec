/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Long puts and gets of a window: rank 0 puts patterns of odd lengths to rank 1, which sees them,
 * and gets others; and messages of rank 1.
 * bytes=N (8388607), the longest; rounds=N (8); what=put|get|message (all of them); seconds=S (0):
 * as many rounds as last so long; away=S (0): so long rank 1 computes when it has begun to
 * send a message, and rank 0 must have it before (with a progress thread)
 */

#include "common.h"

static unsigned char *window_memory, *ours;
static MPI_Win window;

static void put(size_t bytes, size_t offset, uint64_t seed)
{
    if (rank == 0) {
        pattern_fill(ours, bytes, seed);
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
        MPI_Put(ours, (int) bytes, MPI_BYTE, 1, (MPI_Aint) offset, (int) bytes, MPI_BYTE, window);
        MPI_Win_unlock(1, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        pattern_check(window_memory + offset, bytes, seed, "put");
        if (offset > 0 && window_memory[offset - 1] != 0x5a) {
            fail("a put of %zu bytes begins too early", bytes);
        }
    }
}

static void get(size_t bytes, size_t offset, uint64_t seed)
{
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
        pattern_fill(window_memory + offset, bytes, seed);
        MPI_Win_unlock(1, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        memset(ours, 0, bytes + 1);
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
        MPI_Get(ours, (int) bytes, MPI_BYTE, 1, (MPI_Aint) offset, (int) bytes, MPI_BYTE, window);
        MPI_Win_unlock(1, window);
        pattern_check(ours, bytes, seed, "get");
        if (ours[bytes] != 0) {
            fail("a get of %zu bytes wrote beyond", bytes);
        }
    }
}

/* The sender computes for so long after it has begun. */
static void message(size_t bytes, double away, uint64_t seed)
{
    if (rank == 1) {
        MPI_Request request;

        pattern_fill(ours, bytes, seed);
        MPI_Isend(ours, (int) bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
        compute_for(away);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 0) {
        const double begun = seconds_now();

        MPI_Recv(ours, (int) bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (away > 0 && seconds_now() - begun > 0.8 * away) {
            fail("a message waited %.2f s for its sender", seconds_now() - begun);
        }
        pattern_check(ours, bytes, seed, "message");
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "divided");
    need_ranks(2);
    const size_t most = (size_t) arg(argc, argv, "bytes", 8388607);
    const int rounds = (int) arg(argc, argv, "rounds", 8);
    const double seconds = arg(argc, argv, "seconds", 0);
    const double away = arg(argc, argv, "away", 0);
    const char *what = arg_text(argc, argv, "what", "all");
    const int all = strcmp(what, "all") == 0;
    uint64_t state = 1;
    int go = 1;

    ours = get_memory(most + 8);
    window_memory = get_memory(most + 64); /* what osc/rdma allocates a host has in common */
    MPI_Win_create(window_memory, (MPI_Aint) most + 64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    memset(window_memory, 0x5a, most + 64);
    MPI_Barrier(MPI_COMM_WORLD);
    const double end = seconds_now() + seconds;
    for (int i = 0; go; i++) {
        const size_t bytes = most - (size_t) random_below(&state, most / 4);
        const size_t offset = 1 + (size_t) random_below(&state, 32);
        const uint64_t seed = random_next(&state);

        memset(window_memory, 0x5a, 64);
        MPI_Barrier(MPI_COMM_WORLD);
        if (all || strcmp(what, "put") == 0) {
            put(bytes, offset, seed);
        }
        if (all || strcmp(what, "get") == 0) {
            get(bytes, offset, seed + 1);
        }
        if (all || strcmp(what, "message") == 0) {
            message(bytes, away, seed + 2);
        }
        go = seconds > 0 ? seconds_now() < end : i + 1 < rounds;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Win_free(&window);
    free(window_memory);
    free(ours);
    finish();
    return 0;
}
