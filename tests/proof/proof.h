/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Common to all proofs: values that may be any, and memory. CBMC takes a function without a body
 * whose name begins with nondet_ for one that returns anything. */

#ifndef BTL_IB_PROOF_H
#define BTL_IB_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "btl_ib_pool.h"

bool nondet_bool(void);
uint8_t nondet_u8(void);
uint16_t nondet_u16(void);
uint32_t nondet_u32(void);
uint64_t nondet_u64(void);

/* Restricts what may be any; states what must hold. */
#define ASSUME(condition) __CPROVER_assume(condition)
#define PROVE(condition)  __CPROVER_assert(condition, #condition)

/* Returns any number from `least` to `most`. */
static inline uint32_t any_between(uint32_t least, uint32_t most)
{
    const uint32_t number = nondet_u32();

    ASSUME(number >= least && number <= most);
    return number;
}

/* Memory of an engine, which may be short at any time. */
static void *proof_zalloc(void *context, size_t size)
{
    (void) context;
    return nondet_bool() ? NULL : calloc(1, size);
}

static void proof_free(void *context, void *memory)
{
    (void) context;
    free(memory);
}

static const btl_ib_mem_t proof_memory = {.zalloc = proof_zalloc, .free = proof_free};

#endif
