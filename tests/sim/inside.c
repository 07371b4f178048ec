/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What the simulator sees that is private in an engine: no other file of it includes those
 * headers. */

#include "btl_ib_engine_internal.h"
#include "btl_ib_failover.h"
#include "sim.h"

uint32_t inside_rail(const btl_ib_conn_t *conn)
{
    return conn->route.via->index;
}

bool inside_by_its_own(const btl_ib_conn_t *conn)
{
    return conn->route.via == conn->rail;
}

bool inside_own_is_valid(const btl_ib_conn_t *conn)
{
    return conn->validation.valid;
}

bool inside_fail_over(btl_ib_conn_t *conn)
{
    return btl_ib_failover(conn);
}

uint32_t inside_datagram_max(const btl_ib_conn_t *conn)
{
    return conn->pmtud.datagram_max;
}

uint64_t inside_token(const btl_ib_conn_t *conn)
{
    return conn->identity.tx_token;
}
