/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The memory that one-sided operations work on, and a model of it. Each life of a process has an arena:
 *
 *   fixed | slices            | words        || volatile
 *   ------ region `open`, all rights --------||- region `coming`: removed and registered again
 *   - region `fixed`: READ
 *
 * fixed     never written: what a GET must bring is known
 * slices    PUTs get bytes that no other operation uses meanwhile; GETs read what is known to be there
 * words     ATOMICs: some are used by one operation at a time, so that every result is known; some by
 *           all, and then the results must tell of one order in which each was executed once
 * volatile  once it is removed the application uses the memory for something else
 *
 * `shadow` is what the memory must be, where `known` says so. What an operation without an answer left
 * behind is not known, nor when it comes: its bytes are tainted, and not used again in this life.
 */

#ifndef BTL_IB_SIM_ARENA_H
#define BTL_IB_SIM_ARENA_H

#include "sim.h"

enum {
    FIXED = 16 << 10,
    SLICES = 96 << 10,
    WORDS = 64,
    SHARED = 8, /* of the words: used by all */
    OPEN = FIXED + SLICES + 8 * WORDS,
    COMING = 16 << 10,
    ARENA = OPEN + COMING,
};

/* A region, as its owner's engine and devices know it. */
typedef struct named_region {
    btl_ib_region_key_t key;
    btl_ib_place_t place[BTL_IB_RAILS_MAX];
    void *handle[BTL_IB_RAILS_MAX];
    btl_ib_transport_t *device[BTL_IB_RAILS_MAX]; /* whose handle that is */
} named_region_t;

struct arena {
    uint8_t *memory, *shadow, *known, *tainted; /* ARENA bytes each */
    uint64_t first[WORDS];                      /* of the words, at the beginning */
    uint64_t model[WORDS];                      /* of those used by one at a time */
    named_region_t open, fixed, coming, gone;
    bool there;          /* `coming` is registered */
    uint32_t generation; /* how often that changed */
};

uint64_t arena_word(const arena_t *arena, uint32_t word);

/* Byte `at` of a row of bytes that `seed` makes. */
uint8_t arena_pattern(uint64_t seed, uint64_t at);

/* What moves memory for a rail of the process by itself; NULL: nothing does. */
const btl_ib_rdma_ops_t *arena_mover(const proc_t *proc, uint32_t rail,
                                     btl_ib_transport_t **transport);

/* Whether the operation is on memory of this life of the process. */
bool arena_is_target(const onesided_t *op, const proc_t *proc);

/* What an operation may have done, or may still do, is not known. */
void arena_taint(arena_t *arena, const onesided_t *op);

#endif
