/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments that leave again. btl_ib_recovery.c says which. */

#include "btl_ib_retransmit.h"

#include "btl_ib_limits.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_recovery.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "btl_ib_transmit.h"

/* The next batch of what was lost, as far as the limits let it go. Returns what stopped it. */
static btl_ib_verdict_t gather_lost(btl_ib_conn_t *conn, btl_ib_segment_t **segments, int *count)
{
    btl_ib_list_t *item = btl_ib_list_first(&conn->sentmap.lost);
    int batch = btl_ib_transmit_max(conn);

    for (; item != NULL && *count < batch; item = btl_ib_list_next(&conn->sentmap.lost, item)) {
        btl_ib_segment_t *segment = BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
        if (conn->sentmap.in_flight + (uint32_t) *count >= conn->cc.window) {
            return BTL_IB_NO_WINDOW;
        }
        if (btl_ib_pacer_too_soon(&conn->pacer, &conn->cc, conn->engine->clock.now,
                                  (uint32_t) *count)) {
            return BTL_IB_TOO_SOON;
        }
        btl_ib_pmtud_again(conn, segment);
        segment->flags |= BTL_IB_FLAG_AGAIN;
        segments[(*count)++] = segment;
    }
    return BTL_IB_GO;
}

btl_ib_verdict_t btl_ib_retransmit_lost(btl_ib_conn_t *conn, bool *full)
{
    btl_ib_segment_t *segments[BTL_IB_BATCH];
    btl_ib_verdict_t verdict = BTL_IB_GO;

    while (verdict == BTL_IB_GO && !*full && !btl_ib_list_empty(&conn->sentmap.lost)) {
        int count = 0;
        verdict = gather_lost(conn, segments, &count);
        int taken = count == 0 ? 0 : btl_ib_transmit(conn, segments, count);
        for (int i = 0; i < taken; i++) {
            btl_ib_sentmap_left_again(conn, segments[i], false);
            btl_ib_recovery_sent_again(conn);
        }
        *full = taken < count;
    }
    return verdict;
}

bool btl_ib_retransmit(btl_ib_conn_t *conn, btl_ib_segment_t *segment, uint8_t flags)
{
    btl_ib_pmtud_again(conn, segment);
    segment->flags |= BTL_IB_FLAG_AGAIN | flags;
    if (btl_ib_transmit(conn, &segment, 1) != 1) {
        return false;
    }
    btl_ib_sentmap_left_again(conn, segment, flags & BTL_IB_FLAG_ACK_NOW);
    btl_ib_recovery_sent_again(conn);
    return true;
}
