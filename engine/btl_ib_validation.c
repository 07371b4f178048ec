/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_validation.h"

#include "btl_ib_state.h"
#include "btl_ib_route.h"
#include "transport.h"

#include <string.h>

enum { SAID_LATELY = 2000000 }; /* us: what the network said before that may be over */

/* True if `is_so` holds for `conn`, or for any connection with the same process whose rail is
 * usable. */
static bool any(const btl_ib_conn_t *conn, bool (*is_so)(const btl_ib_conn_t *))
{
    const btl_ib_conn_t *other = NULL;
    bool found = is_so(conn);

    while (!found && (other = btl_ib_route_next(conn, other)) != NULL) {
        found = is_so(other);
    }
    return found;
}

static bool is_answered(const btl_ib_conn_t *conn)
{
    return conn->validation.answered;
}

static bool leads_there(const btl_ib_conn_t *conn)
{
    return conn->validation.valid && !btl_ib_validation_refuses(conn);
}

/* True if any of these connections is validated, and was not refused lately. */
static bool any_valid(const btl_ib_conn_t *conn)
{
    return any(conn, leads_there);
}

bool btl_ib_validation_any_refused(const btl_ib_conn_t *conn)
{
    return any(conn, btl_ib_validation_refuses);
}

void btl_ib_validation_probed(btl_ib_conn_t *conn)
{
    if (btl_ib_route_is_own(conn) && any_valid(conn)) {
        conn->validation.questions++;
    }
}

/* True if a datagram shows that something gets there. What arrives says nothing about the way out.
 * An answer does: while the connection uses its own rails, to anything that was sent after they
 * were refused; while it uses others, only to the question that its own rails carry now and
 * then. */
void btl_ib_validation_echoed(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_validation_t *validation = &conn->validation;
    const bool home = btl_ib_route_is_own(conn);

    const uint64_t stamped_at = btl_ib_clock_stamped_at(&conn->engine->clock, view->echo);

    if (!(view->flags & BTL_IB_FLAG_ECHO)) {
        return;
    }
    if (stamped_at >= validation->route_refused) {
        validation->route_refused = 0;
    }
    if (home ? stamped_at >= validation->refused_at
             : validation->question_at > validation->refused_at
                   && stamped_at == validation->question_at) {
        validation->refused_at = 0;
    }
}

bool btl_ib_validation_refused_again(btl_ib_conn_t *conn)
{
    btl_ib_validation_t *validation = &conn->validation;
    const uint64_t now = conn->engine->clock.now;

    if (validation->route_refused == 0 || now - conn->loss.refused_at > BTL_IB_REFUSED_GAP) {
        validation->route_refused = now;
    }
    return now - validation->route_refused >= BTL_IB_REFUSED_LONG;
}

bool btl_ib_validation_refuses(const btl_ib_conn_t *conn)
{
    const btl_ib_validation_t *validation = &conn->validation;

    return validation->refused_at != 0
           && conn->engine->clock.now - validation->refused_at <= BTL_IB_REFUSED_GAP;
}

bool btl_ib_validation_waits(const btl_ib_conn_t *conn)
{
    return !conn->validation.valid && btl_ib_route_is_own(conn)
           && !conn->rail->transport->attr.reliable && any_valid(conn);
}

/* ---- errors ---- */

void btl_ib_validation_check_unsent(btl_ib_conn_t *conn)
{
    btl_ib_validation_t *validation = &conn->validation;
    const btl_ib_engine_t *engine = conn->engine;

    if (validation->unsent_since == 0 || validation->unsent_told
        || engine->clock.awake - validation->unsent_since < engine->config.unanswered_after) {
        return;
    }
    validation->unsent_told = true;
    BTL_IB_LOG(engine, 1, "peer %u.%u: %s refuses all that is sent to it: errno %d",
               BTL_IB_NAME_ARGS(conn->identity.name), conn->route.via->transport->name,
               validation->unsent_error);
    if (engine->ops->unsent != NULL) {
        engine->ops->unsent(engine->ops_context, conn, validation->unsent_error);
    }
}

void btl_ib_validation_foreign(btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                               const btl_ib_event_t *event)
{
    btl_ib_engine_t *engine = conn->engine;
    const btl_ib_transport_t *transport = rail->transport;

    conn->validation.foreign++;
    /* that of one peer is kept, as the text is long: they are told of one by one */
    if (engine->foreign.name != conn->identity.name && event->buffer != NULL) {
        engine->foreign.name = conn->identity.name;
        if (transport->ops->source_text == NULL
            || !transport->ops->source_text(transport, event, engine->foreign.from,
                                            sizeof(engine->foreign.from))) {
            engine->foreign.from[0] = '\0';
        }
    }
    if (engine->foreign.name == conn->identity.name) {
        engine->foreign.at = engine->clock.awake;
    }
}

btl_ib_diagnosis_t btl_ib_conn_diagnosis(const btl_ib_conn_t *conn)
{
    const btl_ib_validation_t *validation = &conn->validation;
    const btl_ib_transport_t *transport = conn->route.via->transport;
    btl_ib_diagnosis_t diagnosis = {
        .answered = validation->answered,
        .unsent = validation->unsent_since != 0 ? validation->unsent_error : 0,
    };

    const bool kept = conn->engine->foreign.name == conn->identity.name;
    if (!kept || conn->loss.heard_at <= conn->engine->foreign.at + SAID_LATELY) {
        diagnosis.foreign = validation->foreign;
    }
    if (diagnosis.foreign > 0 && kept) {
        memcpy(diagnosis.from, conn->engine->foreign.from, sizeof(diagnosis.from));
    }
    if (validation->net_error != 0
        && conn->loss.heard_at <= validation->net_error_at + SAID_LATELY) {
        diagnosis.said = validation->net_error;
        if (transport->ops->offender_text == NULL
            || !transport->ops->offender_text(transport, conn->route.to, diagnosis.by,
                                              sizeof(diagnosis.by))) {
            diagnosis.by[0] = '\0';
        }
    }
    return diagnosis;
}

uint64_t btl_ib_conn_answered_ago(const btl_ib_conn_t *conn)
{
    const uint64_t sampled_at = conn->loss.sample_at;
    const uint64_t answered_at = conn->validation.answered_at;
    const uint64_t last = sampled_at > answered_at ? sampled_at : answered_at;

    return last != 0 ? conn->engine->clock.now - last : UINT64_MAX;
}

/* ---- answers ---- */

/* True if the peer's process is stopped: it cannot keep its promise, and is no sign of a
 * firewall. */
static bool is_stopped(const btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;

    return engine->ops->is_reachable != NULL
           && engine->ops->is_reachable(engine->ops_context, conn);
}

bool btl_ib_validation_expire(btl_ib_conn_t *conn)
{
    btl_ib_validation_t *validation = &conn->validation;
    const btl_ib_engine_t *engine = conn->engine;
    const btl_ib_engine_config_t *config = &engine->config;

    if (validation->asked_at == 0) {
        validation->asked_at = engine->clock.ran;
    }
    const uint64_t waited = engine->clock.ran - validation->asked_at;
    if (waited < config->unanswered_after) {
        return false;
    }
    if (any(conn, is_answered)) {
        validation->asked_at = engine->clock.ran; /* if that rail fails the wait begins again */
        return false;
    }
    if (!validation->told) {
        validation->told = true;
        BTL_IB_LOG(engine, 1, "peer %u.%u: has not answered for %llu ms, %s",
                   BTL_IB_NAME_ARGS(conn->identity.name), (unsigned long long) waited / 1000,
                   conn->loss.heard_at == 0 ? "and nothing of its came here"
                                            : "although what it sends gets here");
        if (engine->ops->unanswered != NULL) {
            engine->ops->unanswered(engine->ops_context, conn, conn->loss.heard_at != 0);
        }
    }
    return !btl_ib_conn_alive(conn)
           || (validation->promised && config->connect_timeout != 0
               && waited >= config->connect_timeout && !is_stopped(conn));
}

void btl_ib_validation_check_silent(btl_ib_conn_t *conn)
{
    btl_ib_validation_t *validation = &conn->validation;
    const btl_ib_engine_t *engine = conn->engine;
    const btl_ib_loss_t *loss = &conn->loss;
    const btl_ib_clock_t *clock = &engine->clock;

    if (loss->unanswered_probes == 0) {
        validation->silent_at = clock->ran;
        validation->silent_told = false;
        return;
    }
    if (!validation->answered || validation->silent_told
        || loss->unanswered_probes < BTL_IB_SILENT_PROBES
        || clock->ran - validation->silent_at < engine->config.unanswered_after) {
        return;
    }
    validation->silent_told = true;
    if (engine->ops->silent != NULL) {
        const btl_ib_silence_t silence = {
            .asked_for = clock->now - loss->asked_at,
            .answered_ago = btl_ib_conn_answered_ago(conn),
            .heard_ago = clock->awake - loss->heard_at,
            .questions = loss->unanswered_probes,
            .others_tried = conn->flow.since >= loss->asked_at && conn->flow.since != 0,
        };
        engine->ops->silent(engine->ops_context, conn, &silence);
    }
}
