/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_probe.h"

#include "btl_ib_transmit.h"
#include "btl_ib_conn.h"
#include "btl_ib_failover.h"
#include "btl_ib_identity.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_loss.h"
#include "btl_ib_path.h"
#include "btl_ib_sched.h"
#include "btl_ib_state.h"

enum {
    DEATH_PROBES = 4,     /* probes until silence is believed */
    INTRODUCE_PROBES = 4, /* from so many on every second one says who asks */
    ASK_PROBES = 10,      /* probes without an answer until the peer is asked by other rails, */
    ASK_EACH = 5,         /* at every fifth */
    ASK_SOON = 2,         /* the same for a route that was never validated, and then at each */
    STUCK_PROBES = 40,    /* probes, answered or not, that brought no progress */
    TRY_AFTER = 250000,   /* us of silence until pairs of rails are tried that stand by: the delay
                           * between attempts of RFC 8305, 5 */
};

/* Has the silence limit passed? Pauses of our own do not count. The progress thread cannot report
 * it. */
static bool is_dead(const btl_ib_conn_t *conn, btl_ib_death_t *reason)
{
    const btl_ib_engine_t *engine = conn->engine;

    if (conn->recovery.probes < DEATH_PROBES || engine->turn.async) {
        return false;
    }
    /* A route says that nobody is there, and a process that answers even while it computes does not
     * answer by this one. */
    if (conn->validation.promised && conn->recovery.unheard >= ASK_PROBES
        && engine->clock.awake - conn->recovery.silent_since >= BTL_IB_REFUSED_GAP
        && btl_ib_validation_any_refused(conn)) {
        *reason = BTL_IB_DEATH_REFUSED;
        return true;
    }
    if (engine->config.silence_limit == 0) {
        return false;
    }
    uint64_t since = btl_ib_recovery_waiting_since(conn);
    if (since == UINT64_MAX || engine->clock.awake < since + engine->config.silence_limit) {
        return false;
    }
    uint64_t lately = engine->clock.awake - engine->config.silence_limit / 2;
    if (!conn->identity.bound && conn->recovery.heard_at > lately) {
        /* it is alive, and says only that (PATH_RESPONSE) while its application computes */
        return false;
    }
    *reason = conn->recovery.heard_at <= lately   ? BTL_IB_DEATH_SILENCE
              : conn->recovery.no_tag_at > lately ? BTL_IB_DEATH_NO_TAG
                                                  : BTL_IB_DEATH_NO_PROGRESS;
    return true;
}

/* Probe with a copy of a segment; without one if there is none, or it cannot be sent. False if it
 * travels in parts, and the transport took only some of them. */
static bool ask_with(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    const uint32_t parted = segment != NULL ? segment->parted : 0;

    if (segment != NULL && btl_ib_batch_again(conn, segment, BTL_IB_FLAG_ACK_NOW)) {
        btl_ib_recovery_probed_with_copy(conn);
        if (conn->recovery.probes > 0 && btl_ib_pmtud_asks(conn, segment)) {
            btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
        }
        return true;
    }
    if (segment != NULL && segment->parted > parted) {
        return false;
    }
    btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    return true;
}

static void probe(btl_ib_conn_t *conn)
{
    btl_ib_recovery_probe_begins(conn);
    if (!conn->validation.valid) { /* what data wait for may have changed */
        btl_ib_conn_ready(conn);
        btl_ib_validation_probed(conn);
    }
    btl_ib_failover_introduce(conn);
    if (conn->recovery.probes >= INTRODUCE_PROBES && conn->recovery.probes % 2 == 0) {
        /* Perhaps the peer closed without our being told, and its new incarnation does not know us:
         * it can answer only if we say who we are. */
        btl_ib_identity_introduce(conn, true);
        btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
        btl_ib_identity_introduce(conn, false);
        btl_ib_recovery_probed(conn, true);
    } else {
        btl_ib_recovery_probed(conn, ask_with(conn, btl_ib_recovery_probe_with(conn)));
    }
}

/* Silence alone is no reason to move: the peer may compute. But if its process answers by another
 * rail, this route is broken. A peer that answers by this route needs no other as a rule: what does
 * not get through is too large (btl_ib_pmtud.h), or was deferred. */
static bool goes_elsewhere(btl_ib_conn_t *conn)
{
    btl_ib_route_retry(conn);
    if (!btl_ib_rail_usable(conn->route.via) || !btl_ib_route_leads(conn)) {
        /* made when its rail could not be used already, or before there was another */
        return conn->identity.name != conn->engine->config.name && btl_ib_failover(conn);
    }
    const bool stuck = conn->recovery.probes >= STUCK_PROBES && conn->sentmap.deferred_count == 0;
    const uint32_t asked = stuck ? conn->recovery.probes : conn->recovery.unheard;

    if (conn->recovery.unheard >= ASK_SOON
        && conn->engine->clock.awake - conn->recovery.silent_since >= TRY_AFTER) {
        btl_ib_failover_try(conn);
    }
    if (!btl_ib_validation_is_valid(conn)) {
        /* A process that is not there yet answers by no rail, one that is by those that lead
         * there. */
        const bool closed = !btl_ib_route_is_own(conn) || conn->validation.questions > ASK_SOON;
        if (asked >= ASK_SOON) {
            btl_ib_failover_ask(conn);
        }
        return asked > ASK_SOON && closed
               && btl_ib_failover_if_heard(conn, conn->recovery.silent_since);
    }
    if (asked >= ASK_PROBES && asked % ASK_EACH == 0) {
        btl_ib_failover_ask(conn);
    }
    return asked > ASK_PROBES && btl_ib_failover_if_heard(conn, conn->recovery.silent_since);
}

void btl_ib_probe_timer(btl_ib_conn_t *conn)
{
    btl_ib_death_t reason;

    if (btl_ib_recovery_timer(conn) == BTL_IB_RECOVERY_NOTHING) {
        return;
    }
    if (is_dead(conn, &reason)) {
        btl_ib_conn_kill(conn, reason);
        return;
    }
    if (!conn->validation.answered && !conn->engine->turn.async
        && btl_ib_validation_overdue(conn)) {
        if (btl_ib_conn_alive(conn)) { /* a callback may have ended it */
            btl_ib_conn_kill(conn, BTL_IB_DEATH_UNANSWERED);
        }
        return;
    }
    if (!conn->engine->turn.async) {
        btl_ib_validation_check_unsent(conn);
        if (!btl_ib_conn_alive(conn)) { /* the callback ended it */
            return;
        }
    }
    if (conn->recovery.half_probed || !goes_elsewhere(conn)) {
        probe(conn);
    }
    btl_ib_recovery_arm(conn);
}
