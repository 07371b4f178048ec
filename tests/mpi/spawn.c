/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Two processes are spawned by rank 0 alone and then talk to the other ranks, which never added
 * them: the bridge between both groups goes by rank 0, the first message by the spawned ones.
 * times=N (2): how often that is done
 */

#include "common.h"

#define CHILDREN 2
#define BYTES    30000

static uint64_t seed_of(int child, int parent)
{
    return ((uint64_t) child << 20) ^ (uint64_t) parent ^ UINT64_C(0x59a);
}

/* Children speak first, each to every old rank; these answer. The size is also the tag: a child may
 * be ahead of its brother. */
static void talk_as_child(MPI_Comm old_ranks, int child, int first_old, int olds)
{
    unsigned char *buffer = get_memory(BYTES);
    for (int bytes = 8; bytes <= BYTES; bytes += BYTES - 8) {
        for (int i = 0; i < olds; i++) {
            pattern_fill(buffer, (size_t) bytes, seed_of(child, first_old + i));
            memcpy(buffer, &child, sizeof(child));
            MPI_Send(buffer, bytes, MPI_BYTE, i, bytes, old_ranks);
            MPI_Recv(buffer, bytes, MPI_BYTE, i, bytes, old_ranks, MPI_STATUS_IGNORE);
            pattern_check(buffer, (size_t) bytes, seed_of(first_old + i, child), "answer");
        }
    }
    free(buffer);
}

static void talk_as_old(MPI_Comm new_ranks)
{
    unsigned char *buffer = get_memory(BYTES);
    for (int bytes = 8; bytes <= BYTES; bytes += BYTES - 8) {
        for (int n = 0; n < CHILDREN; n++) {
            MPI_Status status;
            int child;
            MPI_Recv(buffer, bytes, MPI_BYTE, MPI_ANY_SOURCE, bytes, new_ranks, &status);
            memcpy(&child, buffer, sizeof(child));
            uint64_t word = pattern_word(seed_of(child, rank), 0);
            memcpy(buffer, &word, 8);
            pattern_check(buffer, (size_t) bytes, seed_of(child, rank), "first message");
            pattern_fill(buffer, (size_t) bytes, seed_of(rank, child));
            MPI_Send(buffer, bytes, MPI_BYTE, status.MPI_SOURCE, bytes, new_ranks);
        }
    }
    free(buffer);
}

static int be_a_child(MPI_Comm parent)
{
    MPI_Comm bridge, old_ranks;
    int numbers[2], child;

    program = "spawn (child)";
    MPI_Comm_rank(MPI_COMM_WORLD, &child);
    MPI_Bcast(numbers, 2, MPI_INT, 0, parent);
    MPI_Intercomm_merge(parent, 1, &bridge);
    /* Group: rank 0 of the old job, and the children; it is rank 0 that knows both sides. */
    MPI_Intercomm_create(bridge, 0, MPI_COMM_NULL, 0, 1, &old_ranks);
    talk_as_child(old_ranks, child, 1, numbers[0] - 1);
    MPI_Barrier(old_ranks);
    MPI_Comm_free(&old_ranks);
    MPI_Comm_free(&bridge);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

static void spawn_once(char *self, MPI_Comm others)
{
    MPI_Comm children, bridge, new_ranks;
    int numbers[2] = {size, 0};

    if (rank == 0) {
        MPI_Comm_spawn(self, MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                       MPI_ERRCODES_IGNORE);
        MPI_Bcast(numbers, 2, MPI_INT, MPI_ROOT, children);
        MPI_Intercomm_merge(children, 0, &bridge);
        MPI_Intercomm_create(bridge, 0, MPI_COMM_WORLD, 1, 1, &new_ranks);
    } else {
        MPI_Intercomm_create(others, 0, MPI_COMM_WORLD, 0, 1, &new_ranks);
        talk_as_old(new_ranks);
    }
    MPI_Barrier(new_ranks);
    MPI_Comm_free(&new_ranks);
    if (rank == 0) {
        MPI_Comm_free(&bridge);
        MPI_Comm_disconnect(&children);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parent, others;

    begin(&argc, &argv, "spawn");
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        return be_a_child(parent);
    }
    need_ranks(2);
    int times = (int) arg(argc, argv, "times", 2);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &others);
    for (int i = 0; i < times; i++) {
        spawn_once(argv[0], others);
    }
    MPI_Comm_free(&others);
    finish();
    return 0;
}
