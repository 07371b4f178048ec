/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_probe.h"

#include "btl_ib_ack_send.h"
#include "btl_ib_batch.h"
#include "btl_ib_state.h"
#include "btl_ib_failover.h"
#include "btl_ib_flow.h"
#include "btl_ib_identity.h"
#include "btl_ib_list.h"
#include "btl_ib_loss.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_sched.h"
#include "btl_ib_trace.h"
#include "btl_ib_validation.h"

enum {
    CONNECT_PROBES = 4, /* from so many on every second one has a CONNECT block */
    DEFERRED_TURN = 4,  /* while anything is deferred one probe in so many is for that, */
    OLDEST_TURN = 3,    /* and one in so many for the oldest chunk */
};

/* ---- silence and death ---- */

/* Notes that the first probe which nothing answers yet is due, or leaves. */
static void probe_begin_silence(btl_ib_loss_t *loss, const btl_ib_clock_t *clock)
{
    if (loss->unanswered_probes == 0) {
        loss->silent_since = clock->awake;
        loss->asked_at = clock->now;
    }
}

/* Finds the reason for which the peer counts as dead: the silence limit passed, for example. Pauses
 * of our own do not count. False: none. The progress thread cannot report it. */
static bool probe_find_death(const btl_ib_conn_t *conn, btl_ib_death_t *reason)
{
    const btl_ib_engine_t *engine = conn->engine;

    if (conn->loss.probes < BTL_IB_SILENT_PROBES || engine->turn.async) {
        return false;
    }
    /* A route says that nobody is there, and a process that answers even while it computes does not
     * answer by this one. */
    if (conn->validation.promised && conn->loss.unanswered_probes >= BTL_IB_ASK_PROBES
        && engine->clock.awake - conn->loss.silent_since >= BTL_IB_REFUSED_GAP
        && btl_ib_validation_any_refused(conn)) {
        *reason = BTL_IB_DEATH_REFUSED;
        return true;
    }
    if (engine->config.silence_limit == 0) {
        return false;
    }
    uint64_t since = btl_ib_loss_waiting_since(conn);
    if (since == UINT64_MAX || engine->clock.awake < since + engine->config.silence_limit) {
        return false;
    }
    uint64_t lately = engine->clock.awake - engine->config.silence_limit / 2;
    if (!conn->identity.bound && conn->loss.heard_at > lately) {
        /* it is alive, and says only that (PATH_RESPONSE) while its application computes */
        return false;
    }
    *reason = conn->loss.heard_at <= lately   ? BTL_IB_DEATH_SILENCE
              : conn->loss.no_tag_at > lately ? BTL_IB_DEATH_NO_TAG
                                              : BTL_IB_DEATH_NO_PROGRESS;
    return true;
}

/* ---- what to probe with ---- */

/* Returns the newest or the oldest segment in flight; NULL: there is none. */
static btl_ib_segment_t *find_in_flight(const btl_ib_conn_t *conn, bool newest)
{
    btl_ib_segment_t *found = NULL;

    for (int kind = 0; kind < btl_ib_sent_lists(conn); kind++) {
        const btl_ib_list_t *sent = btl_ib_sent_list(conn, kind);
        btl_ib_segment_t *segment =
            btl_ib_list_entry(newest ? btl_ib_list_last(sent) : btl_ib_list_first(sent),
                              offsetof(btl_ib_segment_t, link));
        if (segment != NULL && (found == NULL || (segment->order > found->order) == newest)) {
            found = segment;
        }
    }
    return found;
}

/* Returns the lowest segment of a channel that is not deferred, of each channel in turn; NULL:
 * there is none. Of segments that travel in parts the peer has room for the lowest sequences only,
 * so that probes with others could get RNR for ever. */
static btl_ib_segment_t *lowest_in_flight(const btl_ib_conn_t *conn)
{
    const uint32_t channels = conn->peer_queues->count;

    for (uint32_t i = 0; i < channels; i++) {
        const btl_ib_tx_window_t *window =
            &conn->tx[(conn->loss.probes / 2 + i) % channels].sentmap.window;
        btl_ib_segment_t *segment = btl_ib_tx_window_at(window, window->first);
        if (segment != NULL && !segment->deferred) {
            return segment;
        }
    }
    return NULL;
}

/* Returns the oldest chunk that is not acknowledged; NULL: there is none. All chunks go in one
 * channel, in the order of their fragments. */
static btl_ib_segment_t *oldest_chunk(const btl_ib_conn_t *conn)
{
    for (uint32_t channel = 0; channel < conn->peer_queues->count; channel++) {
        const btl_ib_tx_window_t *window = &conn->tx[channel].sentmap.window;
        for (uint32_t seq = window->first; seq != window->next; seq++) {
            btl_ib_segment_t *segment = btl_ib_tx_window_at(window, seq);
            if (segment != NULL && segment->type == BTL_IB_TYPE_CHUNK) {
                return segment;
            }
        }
    }
    return NULL;
}

/* Chooses the segment of the next probe. First the newest in flight: its acknowledgement covers all
 * before it. Then the oldest that waits, again and again, also if it is lost and cannot leave for
 * want of window. A deferred one has its turn too, because the READY that names it may have been
 * lost.
 *
 * The oldest chunk has a turn because a peer without free buffers accepts no other: it keeps one
 * for the oldest fragment. Nothing else would bring that chunk soon. A copy of it may have been
 * lost after an earlier one got RNR, which the peer's ACKs still name: then it is deferred
 * behind all others. Or the copy is in flight, and all that is found lost comes first. */
static btl_ib_segment_t *probe_with(const btl_ib_conn_t *conn)
{
    btl_ib_segment_t *segment = find_in_flight(conn, true);

    if (conn->loss.probes > 0 || segment == NULL) {
        segment = BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.lost, link);
        segment = segment != NULL ? segment : find_in_flight(conn, false);
        if (conn->pmtud.parts) {
            btl_ib_segment_t *first = lowest_in_flight(conn);
            segment = first != NULL ? first : segment;
        }
        btl_ib_segment_t *deferred =
            BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.deferred, link);
        if (deferred != NULL
            && (segment == NULL || conn->loss.probes % DEFERRED_TURN == DEFERRED_TURN - 1)) {
            segment = deferred;
        }
        if (deferred != NULL && conn->loss.probes % OLDEST_TURN == OLDEST_TURN - 1) {
            btl_ib_segment_t *oldest = oldest_chunk(conn);
            segment = oldest != NULL ? oldest : segment;
        }
    }
    return segment == NULL || btl_ib_flow_is_check(conn, segment) ? NULL : segment;
}

/* ---- probing ---- */

/* Probes with a copy of a segment; with an ACK, too, if earlier ones were `unanswered` and the copy
 * may be too large for the path. False: it cannot be sent. */
static bool probe_copy(btl_ib_conn_t *conn, btl_ib_segment_t *segment, bool unanswered)
{
    if (!btl_ib_retransmit(conn, segment, BTL_IB_FLAG_ACK_NOW)) {
        return false;
    }
    conn->loss.probed++;
    if (unanswered && btl_ib_pmtud_ask(conn, segment)) {
        (void) btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    }
    return true;
}

/* Asks with a copy of the newest bulk, if any is in flight, whatever else is answered. */
static void probe_bulk(btl_ib_conn_t *conn)
{
    btl_ib_segment_t *newest = btl_ib_list_entry(
        btl_ib_list_last(&conn->sentmap.sent[BTL_IB_SENT_BULK]), offsetof(btl_ib_segment_t, link));

    if (newest != NULL) {
        (void) probe_copy(conn, newest, true);
    }
}

/* Probes with a copy of a segment; without one if there is none, or it cannot be sent. False if it
 * travels in parts, and the transport took only some of them. */
static bool probe_ask_with(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    const uint32_t parted = segment != NULL ? segment->parted : 0;

    if (segment != NULL && probe_copy(conn, segment, conn->loss.probes > 0)) {
        return true;
    }
    if (segment != NULL && segment->parted > parted) {
        return false;
    }
    btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    return true;
}

/* Asks the peer for a sign of life, with a copy of a segment if there is one (RFC 8985, TLP), else
 * with an ACK. Every second one of a long series says CONNECT instead: perhaps the peer closed
 * without our being told, and its new incarnation does not know us. Returns false if the probe
 * travels in parts, and the transport took only some of them. */
static bool probe_ask(btl_ib_conn_t *conn)
{
    if (conn->loss.probes < CONNECT_PROBES || conn->loss.probes % 2 != 0) {
        return probe_ask_with(conn, probe_with(conn));
    }
    btl_ib_identity_force_connect(&conn->identity, true);
    btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    btl_ib_identity_force_connect(&conn->identity, false);
    return true;
}

/* Notes that a probe has left. From the second one in a row on that is a timeout, which congestion
 * control is told, unless the peer's process pauses now and then: then one says that it may have
 * paused again. One that asks only whether it is our turn is none. */
static void probe_left(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_loss_t *loss = &conn->loss;

    if (loss->probes > 0 && !btl_ib_loss_only_answers(conn) && conn->incast.segments > 0) {
        engine->count.timeouts++;
        conn->count.timeouts++;
        if (loss->probes > 1 || btl_ib_pauses_expected(&loss->pauses, engine->clock.now) == 0) {
            conn->cc.ops->restart(&conn->cc);
        }
        btl_ib_trace(conn, BTL_IB_TRACE_timeout, BTL_IB_CAUSE_none, NULL, 1);
    }
    engine->count.sent_probes++;
    btl_ib_trace(conn, BTL_IB_TRACE_probe, BTL_IB_CAUSE_none, NULL, 1);
    loss->probes++;
    loss->unanswered_probes++;
}

/* Probes, and sets the timer for the answer. */
static void probe(btl_ib_conn_t *conn)
{
    btl_ib_loss_t *loss = &conn->loss;

    if (loss->probes == 0) {
        btl_ib_pauses_judge(&loss->pauses, loss->probed > 0);
        loss->probed = 0;
    }
    probe_begin_silence(loss, &conn->engine->clock);
    if (!conn->validation.valid) { /* what data wait for may have changed */
        btl_ib_conn_ready(conn);
        btl_ib_validation_probed(conn);
    }
    btl_ib_failover_send_connect(conn);
    loss->half_probed = !probe_ask(conn);
    loss->probe_base = conn->engine->clock.now;
    if (!loss->half_probed) {
        probe_left(conn);
    }
    btl_ib_loss_set_timer(conn);
}

/* ---- the budget of copies for peers that never answered ---- */

/* Takes a probe from the budget if the peer has never answered. False: that is empty; the
 * connection waits in line, and its timer only looks whether the peer is dead. */
static bool probe_take_budget(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_list_t *in_line = &conn->loss.in_line;

    if (conn->identity.peer_knows
        || (btl_ib_list_empty(&engine->retries.waiting)
            && btl_ib_retry_budget_take(&engine->retries, engine->clock.now))) {
        return true;
    }
    if (btl_ib_list_empty(in_line)) {
        btl_ib_list_push_tail(&engine->retries.waiting, in_line);
        btl_ib_work_note(&engine->work);
        probe_begin_silence(&conn->loss, &engine->clock);
    }
    btl_ib_hotel_checkin(&engine->hotel, &conn->loss.timer.guest,
                         engine->clock.now + engine->config.rto_max);
    return false;
}

void btl_ib_probe_retry(btl_ib_engine_t *engine)
{
    btl_ib_list_t *first;

    while ((first = btl_ib_list_first(&engine->retries.waiting)) != NULL) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(first, btl_ib_conn_t, loss.in_line);
        const bool due =
            btl_ib_conn_alive(conn) && !conn->identity.peer_knows && btl_ib_loss_waits(conn)
            && engine->clock.now >= conn->loss.probe_base + btl_ib_loss_probe_timeout(conn);
        if (due && !btl_ib_retry_budget_take(&engine->retries, engine->clock.now)) {
            return;
        }
        btl_ib_list_remove(first);
        if (due) {
            btl_ib_flow_probing(conn);
            probe(conn);
        }
    }
}

/* ---- when nothing comes ---- */

void btl_ib_on_timeout(btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;
    btl_ib_loss_t *loss = &conn->loss;
    btl_ib_death_t reason;

    btl_ib_flow_expire(conn);
    if (btl_ib_flow_misses_bulk(conn)) {
        probe_bulk(conn);
    }
    if (loss->blocked_since != 0 && !btl_ib_pending_any(conn) && !conn->pmtud.checking) {
        loss->blocked_since = 0; /* what was stopped, or seemed to be, is over */
    }
    /* The timer may have been set for something else, or for what is over: then no probe is due. */
    if (!btl_ib_loss_waits(conn)) {
        return;
    }
    if (btl_ib_loss_check_at(conn) <= engine->clock.now) {
        btl_ib_loss_detect(conn);
        return;
    }
    if (engine->clock.now < loss->probe_base + btl_ib_loss_probe_timeout(conn)) {
        btl_ib_loss_set_timer(conn);
        return;
    }
    /* Give up a peer that is dead. Callbacks in what follows may end the connection. */
    if (probe_find_death(conn, &reason)) {
        btl_ib_conn_kill(conn, reason);
        return;
    }
    if (!engine->turn.async) {
        if (!conn->validation.answered && btl_ib_validation_expire(conn)) {
            if (btl_ib_conn_alive(conn)) {
                btl_ib_conn_kill(conn, BTL_IB_DEATH_UNANSWERED);
            }
            return;
        }
        btl_ib_validation_check_unsent(conn);
        btl_ib_validation_check_silent(conn);
        if (!btl_ib_conn_alive(conn)) {
            return;
        }
    }
    /* Ask: the rest of what was asked in parts; else over another rail or flow, or once more. */
    if (!loss->half_probed) {
        if (btl_ib_failover_on_silence(conn)) {
            btl_ib_loss_set_timer(conn);
            return;
        }
        if (!probe_take_budget(conn)) {
            return;
        }
        btl_ib_flow_probing(conn);
    }
    probe(conn);
}
