/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * All that a job may do, in an order of the seed's, for long: messages of all sizes between all,
 * windows, collectives, spawned processes. All data are checked. Rank 0 prints "soak: going" when it
 * begins: tests/suite/test_soak.py does things to hosts and processes from then on.
 * seconds=S (20); seed=N (1); spawns=S (10): seconds between two spawns, 0: none
 */

#include "common.h"

enum {
    BYTES_MAX = 300000,
    RANKS_MAX = 8,
    CHILDREN = 2,
    WORDS = 4096,
};

static uint64_t seed;

static uint64_t seed_of(int from, int to, int round)
{
    return seed ^ ((uint64_t) from << 40) ^ ((uint64_t) to << 32) ^ (uint64_t) round;
}

static size_t size_of(int from, int to, int round)
{
    uint64_t state = seed_of(from, to, round);

    return random_size(&state, BYTES_MAX);
}

/* Each of `others` and us, by a communicator in which we are `self`. */
static void messages(MPI_Comm with, int self, int others, int round)
{
    unsigned char *out[RANKS_MAX], *in[RANKS_MAX];
    MPI_Request requests[2 * RANKS_MAX];

    for (int i = 0; i < others; i++) {
        const size_t bytes = size_of(self, i, round);
        out[i] = get_memory(BYTES_MAX);
        in[i] = get_memory(BYTES_MAX);
        pattern_fill(out[i], bytes, seed_of(self, i, round));
        MPI_Irecv(in[i], BYTES_MAX, MPI_BYTE, i, round & 1023, with, &requests[2 * i]);
        MPI_Isend(out[i], (int) bytes, MPI_BYTE, i, round & 1023, with, &requests[2 * i + 1]);
    }
    for (int i = 0; i < others; i++) {
        MPI_Status status;
        int count;
        MPI_Wait(&requests[2 * i], &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        const size_t bytes = size_of(i, self, round);
        if ((size_t) count != bytes) {
            fail("round %d: %d bytes of %d instead of %zu", round, count, i, bytes);
        }
        pattern_check(in[i], bytes, seed_of(i, self, round), "message");
        MPI_Wait(&requests[2 * i + 1], MPI_STATUS_IGNORE);
        free(out[i]);
        free(in[i]);
    }
}

/* Each puts into its neighbour's part, reads what another one got, and counts at rank 0. */
static void windows(int round)
{
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    uint64_t *base, mine[WORDS], seen[WORDS], one = 1, counted, all = 0;
    MPI_Win window;

    MPI_Win_allocate((WORDS + 1) * sizeof(*base), 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    memset(base, 0, (WORDS + 1) * sizeof(*base));
    for (int i = 0; i < WORDS; i++) {
        mine[i] = pattern_word(seed_of(rank, next, round), (size_t) i);
    }
    MPI_Win_fence(0, window);
    MPI_Put(mine, WORDS, MPI_UINT64_T, next, 0, WORDS, MPI_UINT64_T, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < WORDS; i++) {
        if (base[i] != pattern_word(seed_of(before, rank, round), (size_t) i)) {
            fail("round %d: word %d was not put", round, i);
        }
    }
    MPI_Get(seen, WORDS, MPI_UINT64_T, next, 0, WORDS, MPI_UINT64_T, window);
    MPI_Win_fence(0, window);
    if (memcmp(seen, mine, sizeof(mine)) != 0) {
        fail("round %d: what was read is not what was put", round);
    }
    for (int i = 0; i < 4; i++) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Fetch_and_op(&one, &counted, MPI_UINT64_T, 0, WORDS, MPI_SUM, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Fetch_and_op(&one, &all, MPI_UINT64_T, 0, WORDS, MPI_NO_OP, window);
    MPI_Win_unlock(0, window);
    if (all != 4 * (uint64_t) size) {
        fail("round %d: %llu were counted", round, (unsigned long long) all);
    }
    MPI_Win_free(&window);
}

static void collectives(int round)
{
    enum { COUNT = 20000 };
    static uint64_t in[COUNT], out[COUNT];
    const uint64_t factor = (uint64_t) size * ((uint64_t) size + 1) / 2;

    for (int i = 0; i < COUNT; i++) {
        in[i] = ((uint64_t) rank + 1) * (uint64_t) (round + i);
    }
    MPI_Allreduce(in, out, COUNT, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++) {
        if (out[i] != factor * (uint64_t) (round + i)) {
            fail("round %d: sum %d is wrong", round, i);
        }
    }
}

static void spawn(char **argv, int round)
{
    MPI_Comm children;

    MPI_Comm_spawn(argv[0], argv + 1, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   MPI_ERRCODES_IGNORE);
    MPI_Bcast(&round, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
    messages(children, rank, CHILDREN, round);
    MPI_Comm_disconnect(&children);
}

static int be_a_child(MPI_Comm parent)
{
    int others, round;

    program = "soak (child)";
    MPI_Comm_remote_size(parent, &others);
    MPI_Bcast(&round, 1, MPI_INT, 0, parent);
    messages(parent, rank, others, round);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

enum { END, MESSAGES, WINDOWS, COLLECTIVES, SPAWN, KINDS };

int main(int argc, char **argv)
{
    static long count[KINDS];
    MPI_Comm parent;

    begin(&argc, &argv, "soak");
    const double seconds = arg(argc, argv, "seconds", 20), each = arg(argc, argv, "spawns", 10);
    seed = (uint64_t) arg(argc, argv, "seed", 1) << 48;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        return be_a_child(parent);
    }
    need_ranks(2);
    if (size > RANKS_MAX) {
        fail("at most %d ranks", RANKS_MAX);
    }
    if (rank == 0) {
        printf("soak: going\n");
        fflush(stdout);
    }
    const double begun = seconds_now();
    double spawned = begun;
    uint64_t state = seed + 1;
    for (int round = 0, kind = MESSAGES; kind != END; round++) {
        const double now = seconds_now();
        const uint64_t choice = random_below(&state, 16);
        kind = choice < 8 ? MESSAGES : choice < 11 ? WINDOWS : COLLECTIVES;
        if (now - begun >= seconds) {
            kind = END;
        } else if (each > 0 && now - spawned >= each) {
            kind = SPAWN;
            spawned = now;
        }
        MPI_Bcast(&kind, 1, MPI_INT, 0, MPI_COMM_WORLD);
        count[kind]++;
        if (kind == MESSAGES) {
            messages(MPI_COMM_WORLD, rank, size, round);
        } else if (kind == WINDOWS) {
            windows(round);
        } else if (kind == COLLECTIVES) {
            collectives(round);
        } else if (kind == SPAWN) {
            spawn(argv, round);
        }
    }
    if (rank == 0) {
        printf("soak: %ld rounds of messages, %ld of windows, %ld of collectives, %ld of spawns\n",
               count[MESSAGES], count[WINDOWS], count[COLLECTIVES], count[SPAWN]);
    }
    finish();
    return 0;
}
