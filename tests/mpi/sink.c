/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The last rank only ever receives: nothing of its own could carry acknowledgements or credits.
 * messages=N (5000) from each of the others; seed=N (1)
 */

#include "common.h"

#define MAX_BYTES 100000

static size_t bytes_of(int from, int n)
{
    uint64_t state = ((uint64_t) from << 32) ^ (uint64_t) n;
    return n % 50 == 0 ? random_size(&state, MAX_BYTES) : (size_t) random_below(&state, 2000);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "sink");
    need_ranks(2);
    int messages = (int) arg(argc, argv, "messages", 5000);
    uint64_t seed = (uint64_t) arg(argc, argv, "seed", 1);
    unsigned char *buffer = get_memory(MAX_BYTES);

    for (int n = 0; n < messages; n++) {
        for (int from = 0; from < size - 1; from++) {
            size_t bytes = bytes_of(from, n);
            uint64_t mark = seed ^ ((uint64_t) from << 40) ^ (uint64_t) n;
            if (rank == from) {
                pattern_fill(buffer, bytes, mark);
                MPI_Send(buffer, (int) bytes, MPI_BYTE, size - 1, 5, MPI_COMM_WORLD);
            } else if (rank == size - 1) {
                MPI_Status status;
                int count;
                MPI_Recv(buffer, MAX_BYTES, MPI_BYTE, from, 5, MPI_COMM_WORLD, &status);
                MPI_Get_count(&status, MPI_BYTE, &count);
                if ((size_t) count != bytes) {
                    fail("message %d from %d has %d bytes, expected %zu", n, from, count, bytes);
                }
                pattern_check(buffer, bytes, mark, "sink");
            }
        }
    }
    free(buffer);
    finish();
    return 0;
}
