/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What was refused, and when it may come again. A sender can only ask for it now and then, one segment at
 * a time, because it does not know what is missing here. We do: once the cause is gone an ACK names the
 * segment (flag READY), and its sender sends it at once. When that is taken in all that was sent before
 * it and is still missing follows, as after a loss. Of several with the same cause the one with the lowest
 * sequence is kept: it is the one whose fragment others wait for. All are told as refused, so that their sender
 * does not take them for lost. What was refused for want of memory counts as lost.
 */

#include "btl_ib_calls.h"

#include <string.h>

enum {
    LOOKS = 64, /* connections in one turn */
};

/* ---- all that were refused ---- */

/* The first run of a space that ends at `seq` or behind it; `count` if there is none. */
static uint32_t find_run(const btl_ib_refused_runs_t *runs, uint32_t space, uint32_t seq)
{
    uint32_t at = 0;

    while (at < runs->count
           && (runs->run[at].space < space
               || (runs->run[at].space == space && btl_ib_seq_before(runs->run[at].end, seq)))) {
        at++;
    }
    return at;
}

static void remove_run(btl_ib_refused_runs_t *runs, uint32_t at)
{
    runs->count--;
    runs->more = runs->more && runs->count > 0;
    memmove(&runs->run[at], &runs->run[at + 1], (runs->count - at) * sizeof(runs->run[0]));
}

/* At `at`, if there is room. */
static void insert_run(btl_ib_refused_runs_t *runs, uint32_t at, const btl_ib_refused_run_t *run)
{
    if (runs->count < BTL_IB_REFUSED_RUNS) {
        memmove(&runs->run[at + 1], &runs->run[at], (runs->count - at) * sizeof(runs->run[0]));
        runs->run[at] = *run;
        runs->count++;
    } else {
        runs->more = true;
    }
}

/* It is in none. */
static void add_to_runs(btl_ib_refused_runs_t *runs, uint32_t space, uint32_t seq)
{
    uint32_t at = find_run(runs, space, seq);
    btl_ib_refused_run_t *run = &runs->run[at];
    bool touches = at < runs->count && run->space == space;

    if (touches && run->end == seq) {
        run->end++;
        if (at + 1 < runs->count && run[1].space == space && run[1].from == run->end) {
            run->end = run[1].end;
            remove_run(runs, at + 1);
        }
    } else if (touches && run->from == seq + 1) {
        run->from--;
    } else {
        insert_run(runs, at, &(btl_ib_refused_run_t){.from = seq, .end = seq + 1, .space = space});
    }
}

static void take_from_runs(btl_ib_refused_runs_t *runs, uint32_t space, uint32_t seq)
{
    uint32_t at = find_run(runs, space, seq + 1);
    btl_ib_refused_run_t *run = &runs->run[at];

    if (at == runs->count || run->space != space || btl_ib_seq_before(seq, run->from)) {
        return;
    }
    btl_ib_refused_run_t rest = {.from = seq + 1, .end = run->end, .space = space};
    run->end = seq;
    if (run->from == run->end) {
        remove_run(runs, at--);
    }
    if (rest.from != rest.end) {
        insert_run(runs, at + 1, &rest);
    }
}

static void keep_all(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    if (conn->rnr.runs == NULL) {
        conn->rnr.runs = btl_ib_zalloc(&conn->engine->mem, sizeof(*conn->rnr.runs));
    }
    if (conn->rnr.runs != NULL) {
        add_to_runs(conn->rnr.runs, view->space, view->seq);
        conn->rnr.runs->last_seq = view->seq;
        conn->rnr.runs->last_space = view->space;
        btl_ib_ack_owe(conn, view->space, false); /* others may wait for its place in the window */
    }
}

/* The last one is what the sender is waiting to hear of: it may have sent it to ask. */
uint32_t btl_ib_refusal_first_run(const btl_ib_refused_runs_t *runs, uint32_t room)
{
    uint32_t need = 0;

    for (uint32_t i = 0; i < runs->count; i++) {
        const bool begins = i == 0 || runs->run[i].space != runs->run[i - 1].space;
        need += (uint32_t) (sizeof(btl_ib_wire_range_t) + (begins ? sizeof(btl_ib_wire_ack_t) : 0));
    }
    uint32_t last = find_run(runs, runs->last_space, runs->last_seq + 1);
    return need <= room || last == runs->count ? 0 : last;
}

/* ---- those to be named ---- */

static bool is_missing(const btl_ib_conn_t *conn, const btl_ib_refusal_t *refusal)
{
    return btl_ib_rx_window_classify(&conn->rx[refusal->space].window, refusal->seq)
           == BTL_IB_SEQ_NEW;
}

void btl_ib_refusal_note(btl_ib_conn_t *conn, const btl_ib_view_t *view, uint8_t tag,
                         btl_ib_refusal_cause_t cause)
{
    btl_ib_refusal_t *refusal = &conn->rnr.refusals[cause];

    keep_all(conn, view);
    if (refusal->kept && refusal->space == view->space && btl_ib_seq_before(refusal->seq, view->seq)
        && is_missing(conn, refusal)) {
        return;
    }
    *refusal = (btl_ib_refusal_t){
        .seq = view->seq,
        .fragment = view->type == BTL_IB_TYPE_CHUNK ? view->chunk.fragment : 0,
        .space = view->space,
        .tag = tag,
        .kept = true,
    };
    conn->rnr.any = true;
    if (btl_ib_list_empty(&conn->rnr.link)) {
        btl_ib_list_push_tail(&conn->engine->refused, &conn->rnr.link);
    }
}

/* What becomes of this copy counts: told of an earlier refusal its sender would repeat it without end if it is
 * refused again for another reason. */
void btl_ib_refusal_here(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    if (conn->rnr.runs != NULL) {
        take_from_runs(conn->rnr.runs, view->space, view->seq);
    }
    for (uint32_t cause = 0; cause < BTL_IB_REFUSAL_CAUSES; cause++) {
        btl_ib_refusal_t *refusal = &conn->rnr.refusals[cause];
        if (refusal->seq == view->seq && refusal->space == view->space) {
            refusal->kept = false;
        }
    }
}

/* Could it be taken in now? */
static bool is_over(btl_ib_conn_t *conn, btl_ib_refusal_cause_t cause)
{
    btl_ib_engine_t *engine = conn->engine;
    const btl_ib_refusal_t *refusal = &conn->rnr.refusals[cause];

    switch (cause) {
    case BTL_IB_REFUSAL_TAG:
        return conn->draining || engine->ops->deliverable(engine->ops_context, conn, refusal->tag);
    case BTL_IB_REFUSAL_BUFFER:
        return btl_ib_reasm_room(&engine->reasm, &conn->input.fragments, refusal->fragment);
    default:
        return !engine->turn.async; /* what was kept has been delivered */
    }
}

/* One that the peer was not told of comes first, or two of them would never both be told. */
btl_ib_refusal_t *btl_ib_refusal_pick(btl_ib_conn_t *conn)
{
    btl_ib_refusal_t *told = NULL;
    bool any = false;

    for (uint32_t cause = 0; cause < BTL_IB_REFUSAL_CAUSES; cause++) {
        btl_ib_refusal_t *refusal = &conn->rnr.refusals[cause];
        refusal->kept = refusal->kept && is_missing(conn, refusal);
        if (refusal->kept && is_over(conn, (btl_ib_refusal_cause_t) cause)) {
            if (!refusal->told) {
                return refusal;
            }
            told = refusal;
        }
        any |= refusal->kept;
    }
    conn->rnr.any = any || (conn->rnr.runs != NULL && conn->rnr.runs->count > 0);
    return told;
}

/* Is there one that the peer is still to be told of? */
static bool look(btl_ib_conn_t *conn)
{
    bool waits = false;

    for (uint32_t cause = 0; cause < BTL_IB_REFUSAL_CAUSES; cause++) {
        btl_ib_refusal_t *refusal = &conn->rnr.refusals[cause];
        if (!refusal->kept || refusal->told || !is_missing(conn, refusal)) {
            continue;
        }
        waits = true;
        if (is_over(conn, (btl_ib_refusal_cause_t) cause)) {
            btl_ib_ack_owe(conn, refusal->space, true);
        }
    }
    return waits;
}

void btl_ib_refusal_turn(btl_ib_engine_t *engine)
{
    const btl_ib_list_t *last = btl_ib_list_last(&engine->refused);
    btl_ib_list_t *item = NULL;

    for (uint32_t looks = 0; looks < LOOKS && item != last; looks++) {
        item = btl_ib_list_pop(&engine->refused);
        if (look(BTL_IB_CONTAINER(item, btl_ib_conn_t, rnr.link))) {
            btl_ib_list_push_tail(&engine->refused, item);
        }
    }
}

void btl_ib_refusal_forget(btl_ib_conn_t *conn)
{
    for (uint32_t cause = 0; cause < BTL_IB_REFUSAL_CAUSES; cause++) {
        conn->rnr.refusals[cause].kept = false;
    }
    conn->rnr.any = false;
    btl_ib_list_remove(&conn->rnr.link);
    btl_ib_refusal_shrink(conn);
}

void btl_ib_refusal_shrink(btl_ib_conn_t *conn)
{
    btl_ib_free(&conn->engine->mem, conn->rnr.runs);
    conn->rnr.runs = NULL;
}
