/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rnr_receiver.h"

#include "btl_ib_ack_write.h"
#include "btl_ib_state.h"

enum {
    CHECKS = 64, /* connections checked in one turn */
};

static bool is_missing(const btl_ib_conn_t *conn, const btl_ib_rnr_entry_t *entry)
{
    return btl_ib_rx_window_classify(&conn->rx[entry->channel].window, entry->seq)
           == BTL_IB_SEQ_NEW;
}

void btl_ib_rnr_note(btl_ib_conn_t *conn, const btl_ib_view_t *view, uint8_t tag,
                     btl_ib_rnr_cause_t cause)
{
    btl_ib_rnr_entry_t *entry = &conn->rnr.entries[cause];

    if (conn->rnr.runs == NULL) {
        conn->rnr.runs = btl_ib_zalloc(&conn->engine->mem, sizeof(*conn->rnr.runs));
    }
    if (conn->rnr.runs != NULL) {
        btl_ib_rnr_runs_add(conn->rnr.runs, view->channel, view->seq);
        /* The sender may wait for its place in the window. */
        btl_ib_ack_tx_set_pending(conn, view->channel, false);
    }
    if (entry->kept && entry->channel == view->channel && btl_ib_seq_before(entry->seq, view->seq)
        && is_missing(conn, entry)) {
        return;
    }
    *entry = (btl_ib_rnr_entry_t){
        .seq = view->seq,
        .fragment = view->type == BTL_IB_TYPE_CHUNK ? view->chunk.fragment : 0,
        .channel = view->channel,
        .tag = tag,
        .kept = true,
    };
    conn->rnr.any = true;
    if (btl_ib_list_empty(&conn->rnr.link)) {
        btl_ib_list_push_tail(&conn->engine->rnr, &conn->rnr.link);
        btl_ib_work_note(&conn->engine->work);
    }
}

/* Removes an earlier entry of the segment, as only the outcome of this copy counts: if the peer
 * were told that an earlier entry is over, and this copy gets RNR for another reason, it would
 * repeat the segment without end. */
void btl_ib_rnr_here(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    if (conn->rnr.runs != NULL) {
        btl_ib_rnr_runs_take(conn->rnr.runs, view->channel, view->seq);
    }
    for (uint32_t cause = 0; cause < BTL_IB_RNR_CAUSES; cause++) {
        btl_ib_rnr_entry_t *entry = &conn->rnr.entries[cause];
        if (entry->seq == view->seq && entry->channel == view->channel) {
            entry->kept = false;
        }
    }
}

/* True if a segment that got RNR for `cause` could be accepted now. */
static bool is_over(const btl_ib_conn_t *conn, btl_ib_rnr_cause_t cause)
{
    const btl_ib_engine_t *engine = conn->engine;
    const btl_ib_rnr_entry_t *entry = &conn->rnr.entries[cause];

    switch (cause) {
    case BTL_IB_RNR_TAG:
        return conn->draining || engine->ops->deliverable(engine->ops_context, conn, entry->tag);
    case BTL_IB_RNR_BUFFER:
        return btl_ib_reasm_room(&engine->reasm, &conn->input.fragments, entry->fragment);
    default:
        return !engine->turn.async; /* what was kept has been delivered */
    }
}

/* Picks an entry that the peer was not told of first, or two of them could keep each other from
 * being told. */
btl_ib_rnr_entry_t *btl_ib_rnr_pick(btl_ib_conn_t *conn)
{
    btl_ib_rnr_entry_t *told = NULL;
    bool any = false;

    for (uint32_t cause = 0; cause < BTL_IB_RNR_CAUSES; cause++) {
        btl_ib_rnr_entry_t *entry = &conn->rnr.entries[cause];
        entry->kept = entry->kept && is_missing(conn, entry);
        if (entry->kept && is_over(conn, (btl_ib_rnr_cause_t) cause)) {
            if (!entry->told) {
                return entry;
            }
            told = entry;
        }
        any |= entry->kept;
    }
    conn->rnr.any = any || (conn->rnr.runs != NULL && conn->rnr.runs->count > 0);
    return told;
}

/* True if there is an entry whose end the peer is still to be told of. If its cause is gone an ACK
 * becomes due. */
static bool check(btl_ib_conn_t *conn)
{
    bool waits = false;

    for (uint32_t cause = 0; cause < BTL_IB_RNR_CAUSES; cause++) {
        btl_ib_rnr_entry_t *entry = &conn->rnr.entries[cause];
        if (!entry->kept || entry->told || !is_missing(conn, entry)) {
            continue;
        }
        waits = true;
        if (is_over(conn, (btl_ib_rnr_cause_t) cause)) {
            btl_ib_ack_tx_set_pending(conn, entry->channel, true);
        }
    }
    return waits;
}

void btl_ib_rnr_turn(btl_ib_engine_t *engine)
{
    const btl_ib_list_t *last = btl_ib_list_last(&engine->rnr);
    btl_ib_list_t *item = NULL;

    for (uint32_t checks = 0; checks < CHECKS && item != last; checks++) {
        item = btl_ib_list_pop(&engine->rnr);
        if (check(BTL_IB_CONTAINER(item, btl_ib_conn_t, rnr.link))) {
            btl_ib_list_push_tail(&engine->rnr, item);
        }
    }
}

void btl_ib_rnr_told(btl_ib_conn_t *conn, btl_ib_rnr_entry_t *entry)
{
    entry->told = true;
    conn->engine->count.sent_ready++;
}

void btl_ib_rnr_forget(btl_ib_conn_t *conn)
{
    for (uint32_t cause = 0; cause < BTL_IB_RNR_CAUSES; cause++) {
        conn->rnr.entries[cause].kept = false;
    }
    conn->rnr.any = false;
    btl_ib_list_remove(&conn->rnr.link);
    btl_ib_rnr_shrink(conn);
}

void btl_ib_rnr_shrink(btl_ib_conn_t *conn)
{
    btl_ib_free(&conn->engine->mem, conn->rnr.runs);
    conn->rnr.runs = NULL;
}
