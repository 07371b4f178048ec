/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Storms of messages that are received from any source with any tag: first all at rank 0, then at
 * each rank in turn. Checks that none is lost or doubled and that none overtakes another.
 * messages=N (2000) from each rank at rank 0, a tenth at the others; seed=N (1)
 */

#include "common.h"

#define MAX_BYTES 20000

static uint64_t base_seed;

/* What the nth message from a rank looks like; 16 bytes at least, to carry its number. */
static size_t bytes_of(int from, uint64_t n)
{
    uint64_t state = base_seed ^ ((uint64_t) from << 32) ^ n;
    return 16 + (n % 10 == 0 ? random_size(&state, MAX_BYTES - 16) : random_below(&state, 200));
}

static void storm_out(int root, uint64_t messages)
{
    unsigned char *buffer = get_memory(MAX_BYTES);
    for (uint64_t n = 0; n < messages; n++) {
        size_t bytes = bytes_of(rank, n);
        pattern_fill(buffer, bytes, base_seed ^ (uint64_t) rank ^ (n << 16));
        memcpy(buffer, &n, 8);
        MPI_Send(buffer, (int) bytes, MPI_BYTE, root, (int) (n % 100), MPI_COMM_WORLD);
    }
    free(buffer);
}

static void storm_in(uint64_t messages)
{
    unsigned char *buffer = get_memory(MAX_BYTES);
    uint64_t *next = calloc((size_t) size, sizeof(*next));

    for (uint64_t left = messages * (uint64_t) (size - 1); left > 0; left--) {
        MPI_Status status;
        int count;
        uint64_t n;
        MPI_Recv(buffer, MAX_BYTES, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        int from = status.MPI_SOURCE;
        memcpy(&n, buffer, 8);
        if (n != next[from] || status.MPI_TAG != (int) (n % 100)) {
            fail("from %d: number %llu with tag %d, expected number %llu", from,
                 (unsigned long long) n, status.MPI_TAG, (unsigned long long) next[from]);
        }
        next[from]++;
        if ((size_t) count != bytes_of(from, n)) {
            fail("from %d: number %llu has %d bytes", from, (unsigned long long) n, count);
        }
        uint64_t seed = base_seed ^ (uint64_t) from ^ (n << 16);
        uint64_t word = pattern_word(seed, 0);
        memcpy(buffer, &word, 8);
        pattern_check(buffer, (size_t) count, seed, "anysource");
    }
    free(next);
    free(buffer);
}

static void storm(int root, uint64_t messages)
{
    if (rank == root) {
        storm_in(messages);
    } else {
        storm_out(root, messages);
    }
    /* Any source and any tag would also take the first messages of the next storm. */
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "anysource");
    need_ranks(2);
    uint64_t messages = (uint64_t) arg(argc, argv, "messages", 2000);
    base_seed = (uint64_t) arg(argc, argv, "seed", 1);

    storm(0, messages);
    for (int root = 0; root < size; root++) {
        storm(root, messages / 10);
    }
    finish();
    return 0;
}
