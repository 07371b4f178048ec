/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_packet.h"

#include <string.h>

uint32_t btl_ib_conn_segment_max(const btl_ib_conn_t *conn)
{
    return conn->pmtud.datagram_max - btl_ib_send_overhead(conn);
}

static void write_connect(const btl_ib_conn_t *conn, uint8_t *to)
{
    btl_ib_wire_connect_t connect = {
        .name = BTL_IB_LE64(conn->engine->config.name),
        .connection = BTL_IB_LE32(conn->identity.id),
        .epoch = BTL_IB_LE32(conn->identity.epoch),
        .from_rail = (uint8_t) conn->rail->index,
        .to_rail = (uint8_t) conn->identity.remote_rail,
        .floor = BTL_IB_LE32(conn->identity.peer_floor),
    };
    memcpy(to, &connect, sizeof(connect));
}

btl_ib_segment_t *btl_ib_send_prepare(btl_ib_conn_t *conn, btl_ib_type_t type, uint32_t size)
{
    const uint32_t whole = btl_ib_send_overhead(conn) + size;
    btl_ib_segment_t *segment = btl_ib_pool_get(&conn->route.via->pool, whole);

    if (segment == NULL) {
        return NULL;
    }
    segment->conn = conn;
    segment->type = (uint8_t) type;
    segment->size = whole - conn->engine->guard.ops->trailer;
    if (btl_ib_send_says_connect(conn)) {
        segment->flags = BTL_IB_FLAG_CONNECT;
        write_connect(conn, segment->wire + sizeof(btl_ib_wire_header_t));
    }
    return segment;
}
