/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Memory of callers that is about to be copied, asked for ahead. What goes by PUT and GET is long, so that it often is in
 * no cache near the processor, and a copy that waits for it line by line takes most of the time that a processor
 * has for a segment. Other work on segments goes on meanwhile. Of memory that is near it costs an instruction or two
 * a line.
 */

#ifndef BTL_IB_PREFETCH_H
#define BTL_IB_PREFETCH_H

#include <stdint.h>

enum {
    BTL_IB_LINE = 64, /* bytes of a cache line on most processors */
};

/* The lines from address `at` to `end`, and up to three more: no loop for each. An address that nobody has does no harm. */
#define BTL_IB_PREFETCH(at, end, write, near)                                                      \
    for (; (at) < (end); (at) += 4 * BTL_IB_LINE) {                                                \
        __builtin_prefetch((const void *) (at), (write), (near));                                  \
        __builtin_prefetch((const void *) ((at) + BTL_IB_LINE), (write), (near));                  \
        __builtin_prefetch((const void *) ((at) + 2 * BTL_IB_LINE), (write), (near));              \
        __builtin_prefetch((const void *) ((at) + 3 * BTL_IB_LINE), (write), (near));              \
    }

/* `size` bytes from `offset` on that will be read when all of a batch has been cut, which is more than the nearest cache
 * holds. */
static inline void btl_ib_prefetch_source(const void *base, uint64_t offset, uint32_t size)
{
    uintptr_t at = (uintptr_t) base + (uintptr_t) offset;
    const uintptr_t end = at + size;

    BTL_IB_PREFETCH(at, end, 0, 2)
}

/* Where more will be written: `size` bytes of the `room` that there is from `to` on were written just now. What comes next
 * comes too soon, so it is for the piece after that. */
static inline void btl_ib_prefetch_target(void *to, uint64_t room, uint32_t size)
{
    uintptr_t at = (uintptr_t) to + 2 * (uintptr_t) size;
    const uintptr_t end =
        room < 3 * (uint64_t) size ? (uintptr_t) to + (uintptr_t) room : at + size;

    BTL_IB_PREFETCH(at, end, 1, 3)
}

#endif
