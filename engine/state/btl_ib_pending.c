/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_pending.h"

#include "btl_ib_min.h"
#include "btl_ib_packet.h"
#include "btl_ib_sched.h"

void btl_ib_pending_add(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t head)
{
    uint64_t rest = out->size - out->offset; /* any 64-bit number: adding to it might wrap */
    uint32_t size = btl_ib_clip_u32(rest, conn->pmtud.datagram_max);

    size += head + btl_ib_packet_overhead(conn);
    /* Longer ones always use the same channel, whatever the path carries now: their pieces stay
     * in order. */
    size = size < conn->pmtud.datagram_max ? size : conn->pmtud.most;
    uint32_t space = btl_ib_queues_channel(conn->peer_queues, size);
    btl_ib_list_push_tail(&conn->tx[space].submit.pending, &out->link);
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
