/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_pending.h"

#include "btl_ib_min.h"
#include "btl_ib_packet.h"
#include "btl_ib_sched.h"

/* The channel of what fills more than one datagram: always the same, whatever the path carries now,
 * because its pieces must stay in order. */
static uint32_t home_channel(const btl_ib_conn_t *conn)
{
    return btl_ib_queues_channel(conn->peer_queues, conn->pmtud.home);
}

void btl_ib_pending_add(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t head)
{
    uint64_t rest = out->size - out->offset; /* any 64-bit number: adding to it might wrap */
    uint32_t size = btl_ib_clip_u32(rest, conn->pmtud.datagram_max);

    size += head + btl_ib_packet_overhead(conn);
    uint32_t space = size < conn->pmtud.datagram_max
                         ? btl_ib_queues_channel(conn->peer_queues, size)
                         : home_channel(conn);
    btl_ib_list_push_tail(&conn->tx[space].submit.pending, &out->link);
}

/* Is it a message that was to leave as a whole, and is too long for that now? */
static bool outgrows(const btl_ib_conn_t *conn, btl_ib_out_t *out)
{
    return out->kind == BTL_IB_OUT_MESSAGE && out->size > btl_ib_conn_segment_max(conn);
}

void btl_ib_pending_shrunk(btl_ib_conn_t *conn)
{
    const uint32_t home = home_channel(conn);

    for (uint32_t space = 0; space < home; space++) {
        btl_ib_list_t *pending = &conn->tx[space].submit.pending;
        btl_ib_list_t *item = btl_ib_list_first(pending);
        while (item != NULL) {
            btl_ib_out_t *out = BTL_IB_CONTAINER(item, btl_ib_out_t, link);
            item = btl_ib_list_next(pending, item);
            if (outgrows(conn, out)) {
                btl_ib_list_remove(&out->link);
                btl_ib_list_push_tail(&conn->tx[home].submit.pending, &out->link);
            }
        }
    }
}

bool btl_ib_pending_any(const btl_ib_conn_t *conn)
{
    for (uint32_t space = 0; space < conn->peer_queues->count; space++) {
        if (!btl_ib_list_empty(&conn->tx[space].submit.pending)) {
            return true;
        }
    }
    return false;
}

bool btl_ib_pending_work(const btl_ib_conn_t *conn)
{
    return btl_ib_pending_any(conn) || !btl_ib_list_empty(&conn->sentmap.lost)
           || !btl_ib_list_empty(&conn->ops.waiting);
}

bool btl_ib_pending_mtu_search(const btl_ib_conn_t *conn)
{
    return conn->engine->clock.now >= conn->pmtud.search_at;
}

void btl_ib_pending_wake(btl_ib_conn_t *conn)
{
    if (btl_ib_pending_work(conn) || !btl_ib_list_empty(&conn->offload.waiting)
        || btl_ib_pending_mtu_search(conn)) {
        btl_ib_conn_ready(conn);
    }
}
