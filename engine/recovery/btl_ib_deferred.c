/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Segments that the peer refused (like an RNR NAK of InfiniBand): they arrived, but cannot be
 * accepted now (no receiver for the tag, no buffer). Its ACKs say so. They are not lost, so they
 * must neither shrink the window nor be retransmitted each round trip; and they are not in flight,
 * so they must not fill the window. So they are deferred. They are sent again when the peer names
 * them (READY); when another deferred segment was accepted, because the cause may have been the
 * same; and all together now and then, because the peer names only some. While nothing else is sent
 * probes do that, one segment at a time.
 */

#include "btl_ib_deferred.h"

#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "btl_ib_trace.h"

enum {
    DEFERRED_MAX = 256, /* segments: they count in the limits on all connections */
};

/* The echoed stamp shows which copy was refused, as for READY. */
void btl_ib_deferred_add(btl_ib_conn_t *conn, uint32_t space, uint32_t from, uint32_t to,
                         const btl_ib_view_t *view)
{
    const btl_ib_tx_window_t *window = &conn->tx[space].sentmap.window;

    if (!(view->flags & BTL_IB_FLAG_ECHO)) {
        return;
    }
    from = btl_ib_seq_before(from, window->first) ? window->first : from;
    for (uint32_t seq = from; btl_ib_seq_before(seq, to); seq++) {
        btl_ib_segment_t *segment = btl_ib_tx_window_at(window, seq);
        if (segment == NULL || segment->refused == segment->copies /* known already */
            || conn->sentmap.deferred_count == DEFERRED_MAX
            || btl_ib_seq_before(view->echo, (uint32_t) segment->last_sent)) {
            continue;
        }
        if (conn->sentmap.deferred_count == 0) {
            conn->deferred.at = conn->engine->clock.now;
        }
        btl_ib_sentmap_defer(conn, segment);
        /* Others have its place in the window. If nothing is in flight they need not wait for the
         * limits on all connections. */
        btl_ib_conn_fed(conn);
        btl_ib_conn_ready(conn);
        conn->engine->count.deferred++;
        btl_ib_trace_segment(conn, BTL_IB_TRACE_deferred, BTL_IB_CAUSE_refusal, segment);
    }
}

/* Send all again, before anything new. */
static void send_all_again(btl_ib_conn_t *conn)
{
    btl_ib_segment_t *segment;

    while ((segment = BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.deferred, link)) != NULL) {
        btl_ib_sentmap_lost(conn, segment);
    }
    conn->deferred.at = conn->engine->clock.now;
    btl_ib_conn_ready(conn);
}

void btl_ib_deferred_acked(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    if (segment->refused > 0 && conn->sentmap.deferred_count > 0) {
        send_all_again(conn);
    }
}

void btl_ib_deferred_retry(btl_ib_conn_t *conn)
{
    if (conn->sentmap.deferred_count > 0
        && conn->engine->clock.now >= conn->deferred.at + conn->engine->config.rto_max) {
        send_all_again(conn);
    }
}
