/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* One-sided operations, the initiator's side. */

#include "btl_ib_state.h"

#include <errno.h>

int btl_ib_region_add(btl_ib_engine_t *engine, void *base, uint64_t size, uint32_t access,
                      btl_ib_region_key_t *key)
{
    return btl_ib_regions_add(&engine->regions, base, size, access, key);
}

void btl_ib_region_remove(btl_ib_engine_t *engine, const btl_ib_region_key_t *key)
{
    btl_ib_regions_remove(&engine->regions, key);
}

void *btl_ib_region_find(btl_ib_engine_t *engine, const btl_ib_region_key_t *key, uint64_t offset,
                         uint64_t size, uint32_t access)
{
    uint8_t *memory;

    return BTL_IB_REGION_OK
                   == btl_ib_regions_check(&engine->regions, key, offset, size, access, &memory)
               ? memory
               : NULL;
}

int btl_ib_op_start(btl_ib_conn_t *conn, btl_ib_op_t *op, uint64_t now)
{
    (void) conn;
    (void) op;
    (void) now;
    return -ENOTSUP;
}

uint32_t btl_ib_conn_ops(const btl_ib_conn_t *conn)
{
    (void) conn;
    return 0;
}
