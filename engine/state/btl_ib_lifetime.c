/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_lifetime.h"

#include "btl_ib_identity.h"
#include "btl_ib_route.h"

void btl_ib_conn_free_all(btl_ib_list_t *conns)
{
    btl_ib_conn_t *conn;

    while ((conn = BTL_IB_LIST_POP(btl_ib_conn_t, conns, all)) != NULL) {
        btl_ib_engine_t *engine = conn->engine;
        btl_ib_hotel_check_out(&engine->hotel, &conn->recovery.timer.guest);
        btl_ib_route_fini(conn);
        btl_ib_identity_fini(conn);
        btl_ib_free(&engine->mem, conn);
    }
}
