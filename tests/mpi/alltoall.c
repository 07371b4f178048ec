/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* All-to-all of many sizes, equal and unequal, each block with its own pattern.
 * rounds=N (3) */

#include "common.h"

static uint64_t seed_of(int from, int to, int round)
{
    return ((uint64_t) from << 40) ^ ((uint64_t) to << 20) ^ (uint64_t) round ^ UINT64_C(0xa11);
}

static void equal_blocks(size_t bytes, int round)
{
    unsigned char *out = get_memory(bytes * (size_t) size);
    unsigned char *in = get_memory(bytes * (size_t) size);

    for (int i = 0; i < size; i++) {
        pattern_fill(out + bytes * (size_t) i, bytes, seed_of(rank, i, round));
    }
    memset(in, 0, bytes * (size_t) size);
    MPI_Alltoall(out, (int) bytes, MPI_BYTE, in, (int) bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        pattern_check(in + bytes * (size_t) i, bytes, seed_of(i, rank, round), "alltoall");
    }
    free(out);
    free(in);
}

static int count_of(int from, int to, size_t bytes)
{
    return (int) (bytes * (size_t) ((from * 3 + to * 5) % 7) / 4);
}

static void unequal_blocks(size_t bytes, int round)
{
    int *counts = get_memory(sizeof(int) * (size_t) size * 4);
    int *out_counts = counts, *out_at = counts + size;
    int *in_counts = counts + 2 * size, *in_at = counts + 3 * size;
    int out_bytes = 0, in_bytes = 0;

    for (int i = 0; i < size; i++) {
        out_at[i] = out_bytes;
        in_at[i] = in_bytes;
        out_bytes += out_counts[i] = count_of(rank, i, bytes);
        in_bytes += in_counts[i] = count_of(i, rank, bytes);
    }
    unsigned char *out = get_memory((size_t) out_bytes);
    unsigned char *in = get_memory((size_t) in_bytes);
    for (int i = 0; i < size; i++) {
        pattern_fill(out + out_at[i], (size_t) out_counts[i], seed_of(rank, i, round));
    }
    MPI_Alltoallv(out, out_counts, out_at, MPI_BYTE, in, in_counts, in_at, MPI_BYTE,
                  MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        pattern_check(in + in_at[i], (size_t) in_counts[i], seed_of(i, rank, round), "alltoallv");
    }
    free(out);
    free(in);
    free(counts);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "alltoall");
    int rounds = (int) arg(argc, argv, "rounds", 3);
    static const size_t sizes[] = {0,    1,    7,    8,     64,    127,    1000,
                                   1472, 4096, 8192, 20000, 65536, 262144, 1048577};

    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            equal_blocks(sizes[i], round);
            unequal_blocks(sizes[i], round);
        }
    }
    finish();
    return 0;
}
