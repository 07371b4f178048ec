/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_validation.h"

#include "btl_ib_route.h"

enum {
    ASK_PAUSE = 100 * 1000, /* us between two questions */
    SAID_LATELY = 2000,     /* ms: what the network said before that may be over */
};

void btl_ib_validation_init(btl_ib_conn_t *conn, bool promised)
{
    conn->validation.promised = promised;
}

void btl_ib_validation_begin(btl_ib_conn_t *conn)
{
    conn->validation.asked_at = 0;
    conn->validation.refused_row = 0;
}

/* Does `is_so` hold for `conn`, or for any connection with the same process whose rail is usable?
 * */
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

/* Is any of them validated, and not refused lately? */
static bool any_valid(const btl_ib_conn_t *conn)
{
    return any(conn, leads_there);
}

bool btl_ib_validation_any_refused(const btl_ib_conn_t *conn)
{
    return any(conn, btl_ib_validation_refuses);
}

bool btl_ib_validation_is_valid(const btl_ib_conn_t *conn)
{
    const btl_ib_conn_t *carries = btl_ib_route_carrier(conn);

    return carries != NULL && carries->validation.valid;
}

void btl_ib_validation_probed(btl_ib_conn_t *conn)
{
    if (btl_ib_route_is_own(conn) && any_valid(conn)) {
        conn->validation.questions++;
    }
}

/* What arrives says nothing about the way out. An answer does: while the connection uses its own
 * rails, to anything that was sent after they were refused; while it uses others, only to the
 * question that its own rails carry now and then. */
void btl_ib_validation_echoed(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_validation_t *validation = &conn->validation;
    const bool home = btl_ib_route_is_own(conn);

    if (!(view->flags & BTL_IB_FLAG_ECHO)) {
        return;
    }
    if (!btl_ib_seq_before(view->echo, (uint32_t) validation->refused_row)) {
        validation->refused_row = 0;
    }
    if (home ? !btl_ib_seq_before(view->echo, (uint32_t) validation->refused_at)
             : validation->question_at > validation->refused_at
                   && view->echo == (uint32_t) validation->question_at) {
        validation->refused_at = 0;
    }
}

void btl_ib_validation_refused(btl_ib_conn_t *conn)
{
    conn->validation.refused_at = conn->engine->clock.now;
}

bool btl_ib_validation_refused_again(btl_ib_conn_t *conn)
{
    btl_ib_validation_t *validation = &conn->validation;
    const uint64_t now = conn->engine->clock.now;

    if (validation->refused_row == 0 || now - conn->recovery.refused_at > BTL_IB_REFUSED_GAP) {
        validation->refused_row = now;
    }
    return now - validation->refused_row >= BTL_IB_REFUSED_LONG;
}

void btl_ib_validation_moved(btl_ib_conn_t *conn)
{
    conn->validation.refused_row = 0;
    conn->validation.questions = 0;
    btl_ib_validation_sent(conn); /* that was another rail */
}

void btl_ib_validation_renew(btl_ib_conn_t *conn)
{
    conn->validation.valid = false;
    conn->validation.refused_at = 0;
    conn->validation.question_at = 0;
}

void btl_ib_validation_asked(btl_ib_conn_t *conn)
{
    conn->validation.question_at = conn->engine->clock.now;
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

bool btl_ib_validation_asks(btl_ib_conn_t *conn)
{
    btl_ib_validation_t *validation = &conn->validation;
    const uint64_t now = conn->engine->clock.now;

    if (validation->question_at != 0 && now - validation->question_at < ASK_PAUSE) {
        return false;
    }
    validation->question_at = now;
    return true;
}

bool btl_ib_validation_tries(btl_ib_conn_t *conn)
{
    const bool first = !conn->validation.tried;

    conn->validation.tried = true;
    return first;
}

/* ---- errors ---- */

void btl_ib_validation_unsent(btl_ib_conn_t *conn, int error)
{
    if (conn->validation.unsent_since == 0) {
        conn->validation.unsent_since = conn->engine->clock.awake;
    }
    conn->validation.unsent_error = (uint8_t) error; /* Linux has none above 133 */
}

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

void btl_ib_validation_unreachable(btl_ib_conn_t *conn, int error)
{
    conn->validation.net_error = (uint8_t) error;
    conn->validation.net_error_ms = (uint32_t) (conn->engine->clock.now / 1000);
}

btl_ib_trouble_t btl_ib_conn_trouble(const btl_ib_conn_t *conn)
{
    const btl_ib_validation_t *validation = &conn->validation;
    const btl_ib_transport_t *transport = conn->route.via->transport;
    btl_ib_trouble_t trouble = {
        .answered = validation->answered,
        .unsent = validation->unsent_since != 0 ? validation->unsent_error : 0,
    };

    if (validation->net_error != 0
        && (int32_t) ((uint32_t) (conn->recovery.heard_at / 1000) - validation->net_error_ms)
               <= SAID_LATELY) {
        trouble.said = validation->net_error;
        if (transport->ops->offender_text == NULL
            || !transport->ops->offender_text(transport, conn->route.to, trouble.by,
                                              sizeof(trouble.by))) {
            trouble.by[0] = '\0';
        }
    }
    return trouble;
}

/* ---- answers ---- */

void btl_ib_validation_answered(btl_ib_conn_t *conn)
{
    conn->validation.answered = true;
    conn->validation.asked_at = 0;
}

/* A process that is stopped cannot keep its promise, and is no sign of a firewall. */
static bool is_stopped(const btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;

    return engine->ops->is_reachable != NULL
           && engine->ops->is_reachable(engine->ops_context, conn);
}

bool btl_ib_validation_overdue(btl_ib_conn_t *conn)
{
    btl_ib_validation_t *validation = &conn->validation;
    const btl_ib_engine_t *engine = conn->engine;
    const btl_ib_engine_config_t *config = &engine->config;

    if (validation->asked_at == 0) {
        validation->asked_at = engine->clock.awake;
    }
    const uint64_t waited = engine->clock.awake - validation->asked_at;
    if (waited < config->unanswered_after) {
        return false;
    }
    if (any(conn, is_answered)) {
        validation->asked_at = engine->clock.awake; /* if that rail fails the wait begins again */
        return false;
    }
    if (!validation->told) {
        validation->told = true;
        BTL_IB_LOG(engine, 1, "peer %u.%u: has not answered for %llu ms, %s",
                   BTL_IB_NAME_ARGS(conn->identity.name), (unsigned long long) waited / 1000,
                   conn->recovery.heard_at == 0 ? "and nothing of its came here"
                                                : "although what it sends gets here");
        if (engine->ops->unanswered != NULL) {
            engine->ops->unanswered(engine->ops_context, conn, conn->recovery.heard_at != 0);
        }
    }
    return !btl_ib_conn_alive(conn)
           || (validation->promised && config->connect_timeout != 0
               && waited >= config->connect_timeout && !is_stopped(conn));
}
