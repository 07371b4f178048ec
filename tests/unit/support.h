/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What several unit tests need: numbers that repeat, and memory that fails on demand. */

#ifndef BTL_IB_TEST_SUPPORT_H
#define BTL_IB_TEST_SUPPORT_H

#include <stdint.h>
#include <stdlib.h>

#include "btl_ib_pool.h"

typedef struct test_random {
    uint64_t state;
} test_random_t;

#define TEST_RANDOM_SEED                                                                           \
    {                                                                                              \
        UINT64_C(88172645463325252)                                                                \
    }

/* xorshift64*, so that a failure repeats. */
static inline uint64_t test_random64(test_random_t *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * UINT64_C(2685821657736338717);
}

static inline uint32_t test_random_below(test_random_t *r, uint32_t limit)
{
    return (uint32_t) ((test_random64(r) >> 32) % limit);
}

/* Counts what is out; fails once `allowed` allocations were made, and at call number `fail_at`. */
typedef struct test_memory {
    btl_ib_mem_t mem;
    uint64_t allowed;
    uint64_t live;
    uint64_t calls;
    uint64_t fail_at;
    size_t largest; /* bytes asked for at once */
} test_memory_t;

static inline void *test_memory_zalloc(void *context, size_t size)
{
    test_memory_t *memory = context;

    memory->calls++;
    if (memory->allowed == 0 || memory->calls == memory->fail_at) {
        return NULL;
    }
    memory->allowed -= memory->allowed != UINT64_MAX;
    memory->live++;
    memory->largest = size > memory->largest ? size : memory->largest;
    return calloc(1, size);
}

static inline void test_memory_free(void *context, void *block)
{
    test_memory_t *memory = context;

    memory->live -= block != NULL;
    free(block);
}

/* `memory` must not move afterwards. */
static inline void test_memory_init(test_memory_t *memory)
{
    *memory = (test_memory_t){
        .mem = {.zalloc = test_memory_zalloc, .free = test_memory_free, .context = memory},
        .allowed = UINT64_MAX,
    };
}

#endif
