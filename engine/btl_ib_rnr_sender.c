/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rnr_sender.h"

#include "btl_ib_batch.h"
#include "btl_ib_state.h"
#include "btl_ib_loss.h"
#include "btl_ib_packet.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_trace.h"

enum {
    DEFERRED_MAX = 256, /* segments: they count in the limits on all connections */
};

/* Defers those in flight. The echoed stamp shows which copy got RNR, as for READY. */
void btl_ib_rnr_sender_add(btl_ib_conn_t *conn, uint32_t channel, uint32_t from, uint32_t to,
                           const btl_ib_view_t *view)
{
    const btl_ib_tx_window_t *window = &conn->tx[channel].sentmap.window;
    const uint64_t stamped_at = btl_ib_clock_stamped_at(&conn->engine->clock, view->echo);

    if (!(view->flags & BTL_IB_FLAG_ECHO)) {
        return;
    }
    from = btl_ib_seq_before(from, window->first) ? window->first : from;
    for (uint32_t seq = from; btl_ib_seq_before(seq, to); seq++) {
        btl_ib_segment_t *segment = btl_ib_tx_window_at(window, seq);
        if (segment == NULL
            || (segment->lost && btl_ib_segment_got_rnr(segment)) /* known already */
            || stamped_at < segment->last_sent) {
            continue;
        }
        if (!btl_ib_sentmap_defer(conn, segment, DEFERRED_MAX)) {
            continue; /* it stays in flight, and keeps more from being sent */
        }
        if (conn->sentmap.deferred_count == 1) {
            conn->deferred.at = conn->engine->clock.now;
        }
        /* Others have its place in the window. If nothing is in flight they need not wait for the
         * limits on all connections. */
        btl_ib_conn_fed(conn);
        btl_ib_conn_ready(conn);
        conn->engine->count.deferred++;
        btl_ib_trace(conn, BTL_IB_TRACE_deferred, BTL_IB_CAUSE_rnr, segment, 1);
    }
}

/* Sends all again, before anything new. */
static void send_all_again(btl_ib_conn_t *conn)
{
    btl_ib_segment_t *segment;

    while ((segment = BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.deferred, link)) != NULL) {
        btl_ib_sentmap_to_lost(conn, segment);
    }
    conn->deferred.at = conn->engine->clock.now;
    btl_ib_conn_ready(conn);
}

void btl_ib_rnr_sender_acked(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    if (segment->rnr_copy > 0 && conn->sentmap.deferred_count > 0) {
        send_all_again(conn);
    }
}

void btl_ib_rnr_sender_retry(btl_ib_conn_t *conn)
{
    if (conn->sentmap.deferred_count > 0
        && conn->engine->clock.now >= conn->deferred.at + conn->engine->config.rto_max) {
        send_all_again(conn);
    }
}

void btl_ib_rnr_sender_ready(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_segment_t *segment =
        btl_ib_tx_window_at(&conn->tx[view->channel].sentmap.window, view->seq);

    conn->engine->count.received_ready++;
    conn->loss.no_tag_at = 0;
    /* The echoed stamp shows which copy got RNR; a later copy is still on its way. */
    if (segment == NULL || !(view->flags & BTL_IB_FLAG_ECHO)
        || btl_ib_clock_stamped_at(&conn->engine->clock, view->echo) < segment->last_sent) {
        return;
    }
    if (btl_ib_retransmit(conn, segment, BTL_IB_FLAG_ACK_NOW)) {
        conn->loss.probed++;
        btl_ib_loss_set_timer(conn);
    } else {
        btl_ib_sentmap_to_lost(conn, segment);
        btl_ib_conn_ready(conn);
    }
}
