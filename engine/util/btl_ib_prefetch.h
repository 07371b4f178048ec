/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Prefetch users' memory that will be copied. Data of PUT and GET is long and often in no near
 * cache; a copy that waits for it line by line takes most of the time that a processor has for a
 * segment. Prefetching lets other work go on meanwhile. For memory that is near it costs one or two
 * instructions a line.
 */

#ifndef BTL_IB_PREFETCH_H
#define BTL_IB_PREFETCH_H

#include <stdint.h>

enum {
    BTL_IB_LINE = 64, /* bytes of a cache line on most processors */
};

/* The lines from address `at` to `end`, and up to three more (one loop test for four).
 * Prefetching an invalid address is harmless. */
#define BTL_IB_PREFETCH(at, end, write, near)                                                      \
    for (; (at) < (end); (at) += 4 * BTL_IB_LINE) {                                                \
        __builtin_prefetch((const void *) (at), (write), (near));                                  \
        __builtin_prefetch((const void *) ((at) + BTL_IB_LINE), (write), (near));                  \
        __builtin_prefetch((const void *) ((at) + 2 * BTL_IB_LINE), (write), (near));              \
        __builtin_prefetch((const void *) ((at) + 3 * BTL_IB_LINE), (write), (near));              \
    }

/* `size` bytes from `offset` that will be read when a whole batch has been packetized. That is
 * more than the nearest cache holds. */
static inline void btl_ib_prefetch_source(const void *base, uint64_t offset, uint32_t size)
{
    uintptr_t at = (uintptr_t) base + (uintptr_t) offset;
    const uintptr_t end = at + size;

    BTL_IB_PREFETCH(at, end, 0, 2)
}

/* `size` bytes of the `room` bytes at `to` were written just now, and more will follow. The next
 * piece comes too soon for a prefetch, so prefetch for the one after it. */
static inline void btl_ib_prefetch_target(void *to, uint64_t room, uint32_t size)
{
    uintptr_t at = (uintptr_t) to + 2 * (uintptr_t) size;
    const uintptr_t end =
        room < 3 * (uint64_t) size ? (uintptr_t) to + (uintptr_t) room : at + size;

    BTL_IB_PREFETCH(at, end, 1, 3)
}

#endif
