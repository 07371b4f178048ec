/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_guard.h"

#include <string.h>

#include "btl_ib_wire.h"

static void seal_nothing(const btl_ib_guard_t *guard, uint8_t *data, uint32_t size)
{
    (void) guard;
    (void) data;
    (void) size;
}

static bool open_nothing(const btl_ib_guard_t *guard, const uint8_t *data, uint32_t size)
{
    (void) guard;
    (void) data;
    (void) size;
    return true;
}

static void seal_crc32c(const btl_ib_guard_t *guard, uint8_t *data, uint32_t size)
{
    uint32_t wire = BTL_IB_LE32(guard->crc32c(0, data, size));

    memcpy(data + size, &wire, sizeof(wire));
}

static bool open_crc32c(const btl_ib_guard_t *guard, const uint8_t *data, uint32_t size)
{
    uint32_t wire;

    memcpy(&wire, data + size, sizeof(wire));
    return BTL_IB_LE32(wire) == guard->crc32c(0, data, size);
}

static const btl_ib_guard_ops_t kinds[BTL_IB_GUARD_KINDS] = {
    [BTL_IB_GUARD_NONE] = {"none", 0, seal_nothing, open_nothing},
    [BTL_IB_GUARD_CRC32C] = {"crc32c", sizeof(uint32_t), seal_crc32c, open_crc32c},
};

const btl_ib_guard_ops_t *btl_ib_guard_ops(uint32_t kind)
{
    return kind < BTL_IB_GUARD_KINDS ? &kinds[kind] : NULL;
}

void btl_ib_guard_init(btl_ib_guard_t *guard, btl_ib_guard_kind_t kind)
{
    *guard = (btl_ib_guard_t){
        .ops = &kinds[kind],
        .kind = kind,
        .crc32c = btl_ib_crc32c_best(),
    };
}
