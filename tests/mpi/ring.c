/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Passes messages of all sizes around a ring; each rank adds to the first word on the way.
 * laps=N (10): how often each size goes around; max=BYTES (1000003): sizes up to that;
 * pause=S (0): seconds until rank 0 sends the first message; silence=S (0): seconds after each size
 * in which all ranks only look for messages */

#include "common.h"

static void one_lap(unsigned char *buffer, size_t bytes, uint64_t seed)
{
    int left = (rank + size - 1) % size;
    int right = (rank + 1) % size;
    uint64_t sum;

    if (rank == 0) {
        pattern_fill(buffer, bytes, seed);
        memset(buffer, 0, 8);
        MPI_Send(buffer, (int) bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD);
    }
    MPI_Recv(buffer, (int) bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    memcpy(&sum, buffer, 8);
    if (rank != 0) {
        sum += (uint64_t) rank;
        memcpy(buffer, &sum, 8);
        MPI_Send(buffer, (int) bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD);
        return;
    }
    uint64_t expected = (uint64_t) size * (uint64_t) (size - 1) / 2;
    if (expected != sum) {
        fail("size %zu: sum %llu, expected %llu", bytes, (unsigned long long) sum,
             (unsigned long long) expected);
    }
    uint64_t word = pattern_word(seed, 0);
    memcpy(buffer, &word, 8);
    pattern_check(buffer, bytes, seed, "ring");
}

static void be_silent(double seconds)
{
    const double end = MPI_Wtime() + seconds;
    int there;

    while (MPI_Wtime() < end) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "ring");
    need_ranks(2);
    int laps = (int) arg(argc, argv, "laps", 10);
    size_t max = (size_t) arg(argc, argv, "max", 1000003);
    const double silence = arg(argc, argv, "silence", 0);
    static const size_t sizes[] = {8,    9,    64,   100,   128,   1000,  1400,   1472,   1500,
                                   4000, 4096, 8192, 65535, 65536, 65537, 262144, 1000003};
    unsigned char *buffer = get_memory(1000003);

    if (rank == 0) {
        const struct timespec pause = {(time_t) arg(argc, argv, "pause", 0), 0};
        nanosleep(&pause, NULL);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= max; i++) {
        for (int lap = 0; lap < laps; lap++) {
            one_lap(buffer, sizes[i], (uint64_t) (i * 1000) + (uint64_t) lap);
        }
        if (silence > 0) { /* by the clock of each: those that were late end it late */
            MPI_Barrier(MPI_COMM_WORLD);
            be_silent(silence);
        }
    }
    free(buffer);
    finish();
    return 0;
}
