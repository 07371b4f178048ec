/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Minimum and maximum as functions: no argument is evaluated twice. */

#ifndef BTL_IB_MIN_H
#define BTL_IB_MIN_H

#include <stdint.h>

static inline uint32_t btl_ib_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* min(value, most) of a 64-bit value. */
static inline uint32_t btl_ib_clip_u32(uint64_t value, uint32_t most)
{
    return value < most ? (uint32_t) value : most;
}

static inline uint32_t btl_ib_max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

#endif
