/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What protects datagrams on their way: nothing, or a checksum. It is a trailer behind header and
 * payload, made for each copy when it leaves and checked before anything else is looked at:
 *
 *   header, ... payload | CRC-32C, 4 bytes little-endian       checksum
 *
 * All processes of a job use the same guard: it is published, and who has another one is
 * unreachable.
 */

#ifndef BTL_IB_GUARD_H
#define BTL_IB_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_crc32c.h"

/* Published: the numbers are part of the protocol. */
typedef enum btl_ib_guard_kind {
    BTL_IB_GUARD_NONE = 0,
    BTL_IB_GUARD_CRC32C = 1,
    BTL_IB_GUARD_KINDS,
} btl_ib_guard_kind_t;

/* The longest trailer. */
#define BTL_IB_TRAILER_MAX 4u

typedef struct btl_ib_guard btl_ib_guard_t;

typedef struct btl_ib_guard_ops {
    const char *name; /* the value of the parameter that selects it */
    uint32_t trailer; /* bytes, at most BTL_IB_TRAILER_MAX */

    /* Write the trailer of the `size` bytes at `data` behind them. */
    void (*seal)(const btl_ib_guard_t *guard, uint8_t *data, uint32_t size);

    /* Do the `size` bytes at `data` agree with the trailer behind them? */
    bool (*open)(const btl_ib_guard_t *guard, const uint8_t *data, uint32_t size);
} btl_ib_guard_ops_t;

struct btl_ib_guard {
    const btl_ib_guard_ops_t *ops;
    btl_ib_guard_kind_t kind;
    btl_ib_crc32c_fn_t crc32c;
};

/* The ops of a kind, which may be any number: NULL if there is no such kind. */
const btl_ib_guard_ops_t *btl_ib_guard_ops(uint32_t kind);

/* `kind` must be one that btl_ib_guard_ops() knows. */
void btl_ib_guard_init(btl_ib_guard_t *guard, btl_ib_guard_kind_t kind);

#endif
