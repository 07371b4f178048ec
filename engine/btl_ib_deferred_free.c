/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_deferred_free.h"

#include "btl_ib_identity.h"
#include "btl_ib_route.h"

/* Counts `count` connections more, or (-1) one less. */
static void count_conns(btl_ib_engine_t *engine, int count)
{
    engine->deferred_free.conns += (uint32_t) count;
    for (uint32_t i = 0; i < engine->rail_count; i++) {
        btl_ib_pool_change_limit(&engine->rails[i]->pool, count * BTL_IB_DEPTH_APART);
    }
}

void btl_ib_conn_allocated(btl_ib_engine_t *engine)
{
    count_conns(engine, 1);
}

void btl_ib_conn_free_all(btl_ib_list_t *conns)
{
    btl_ib_conn_t *conn;

    while ((conn = BTL_IB_LIST_POP(btl_ib_conn_t, conns, all)) != NULL) {
        btl_ib_engine_t *engine = conn->engine;
        btl_ib_hotel_checkout(&engine->hotel, &conn->loss.timer.guest);
        btl_ib_route_fini(conn);
        btl_ib_identity_fini(conn);
        btl_ib_free(&engine->mem, conn);
        count_conns(engine, -1);
    }
}
