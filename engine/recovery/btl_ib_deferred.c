/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the peer refused: it came, but cannot be taken in now (nobody listens to its tag, no buffer). Its ACKs
 * say so. It is not lost, so it must not shrink the window, nor be sent again each round trip; and it is
 * not on its way, so it must not fill the window. So it is parked. It comes again when the peer names it
 * (READY); when another that was refused is taken in at last, because the cause may have been the same;
 * and all of it now and then, because the peer names one of several only. While nothing else goes
 * probes do that, one at a time.
 */

#include "btl_ib_deferred.h"

#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"

enum {
    PARKED_MAX = 256, /* segments: they count in the limits on all connections */
};

/* Which copy was refused shows in the peer's clock reading, as for READY. */
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
        if (segment == NULL || segment->refused == segment->copies /* an old story */
            || conn->sentmap.deferred_count == PARKED_MAX
            || btl_ib_seq_before(view->echo, (uint32_t) segment->last_sent)) {
            continue;
        }
        if (conn->sentmap.deferred_count == 0) {
            conn->sentmap.deferred_at = conn->engine->clock.now;
        }
        btl_ib_sentmap_defer(conn, segment);
        /* Others have its place in the window, and need not wait for the limits on all if nothing is on its way. */
        btl_ib_list_remove(&conn->ready);
        btl_ib_conn_ready(conn);
        conn->engine->count.deferred++;
    }
}

/* All go again, before anything new. */
static void unpark(btl_ib_conn_t *conn)
{
    btl_ib_list_t *item;

    while ((item = btl_ib_list_first(&conn->sentmap.deferred)) != NULL) {
        btl_ib_sentmap_lost(conn, BTL_IB_CONTAINER(item, btl_ib_segment_t, link));
    }
    conn->sentmap.deferred_at = conn->engine->clock.now;
    btl_ib_conn_ready(conn);
}

void btl_ib_deferred_acked(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    if (segment->refused > 0 && conn->sentmap.deferred_count > 0) {
        unpark(conn);
    }
}

void btl_ib_deferred_retry(btl_ib_conn_t *conn)
{
    if (conn->sentmap.deferred_count > 0
        && conn->engine->clock.now >= conn->sentmap.deferred_at + conn->engine->config.rto_max) {
        unpark(conn);
    }
}
