/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Does a pair of rails lead to the peer? (RFC 9000, 8.2: path validation.) An address that a peer published may be
 * another host's, too, or behind a bridge or a firewall that lets nothing through. So what came under the peer's token
 * validates a pair, and nothing else does. Until then, if another pair of the same two processes is validated, no
 * data go by it, only the question; a refusal, or a few questions without an answer, close it, and it alone.
 */

#include "btl_ib_calls.h"

#include <string.h>

enum { ASK_PAUSE = 100 * 1000 }; /* us between two questions of who has nothing queued */

void btl_ib_validation_begin(btl_ib_conn_t *conn)
{
    conn->validation.asked_at = 0;
    conn->validation.refused_row = 0;
}

void btl_ib_validation_passed(btl_ib_conn_t *conn)
{
    const bool first = !conn->validation.valid;

    conn->validation.valid = true;
    if (first) { /* perhaps data waited for this; what they wait for from now on is something else */
        conn->recovery.blocked_since = 0;
        btl_ib_conn_ready(conn);
        btl_ib_failover_ask_anew(conn);
    }
}

void btl_ib_validation_probed(btl_ib_conn_t *conn)
{
    if (conn->route.via == conn->rail && btl_ib_failover_any_valid(conn)) {
        conn->validation.questions++;
    }
}

/* What comes in says nothing of the way out. An answer does: to anything that was sent by the connection's own rails
 * after they refused; while it goes by others, to the question that goes there now and then. */
void btl_ib_validation_echoed(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_validation_t *validation = &conn->validation;
    const bool home = conn->route.via == conn->rail;

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

    if (validation->refused_row == 0 || now - conn->recovery.refused_at > BTL_IB_REFUSED_ROW) {
        validation->refused_row = now;
    }
    return now - validation->refused_row >= BTL_IB_REFUSED_LONG;
}

void btl_ib_validation_moved(btl_ib_conn_t *conn)
{
    conn->validation.refused_row = 0;
    conn->validation.questions = 0;
}

void btl_ib_validation_asked(btl_ib_conn_t *conn)
{
    conn->validation.question_at = conn->engine->clock.now;
}

bool btl_ib_validation_refuses(const btl_ib_conn_t *conn)
{
    const btl_ib_validation_t *validation = &conn->validation;

    return validation->refused_at != 0
           && conn->engine->clock.now - validation->refused_at <= BTL_IB_REFUSED_ROW;
}

bool btl_ib_validation_waits(const btl_ib_conn_t *conn)
{
    return !conn->validation.valid && conn->route.via == conn->rail
           && !conn->rail->transport->attr.reliable && btl_ib_failover_any_valid(conn);
}

void btl_ib_validation_ask(btl_ib_conn_t *conn)
{
    btl_ib_validation_t *validation = &conn->validation;
    const uint64_t now = conn->engine->clock.now;

    if (validation->question_at == 0 || now - validation->question_at >= ASK_PAUSE) {
        validation->question_at = now;
        btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    }
}

/* ---- answers ---- */

void btl_ib_validation_answered(btl_ib_conn_t *conn)
{
    conn->validation.answered = true;
    conn->validation.asked_at = 0;
}

void btl_ib_validation_responded(btl_ib_conn_t *conn, const btl_ib_rail_t *rail)
{
    btl_ib_validation_answered(conn);
    conn->recovery.heard_at = conn->engine->clock.awake;
    conn->recovery.refused_since = 0;
    conn->recovery.unheard = 0;
    if (rail == conn->rail) {
        btl_ib_validation_heard(conn);
    }
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
    if (btl_ib_failover_any_answered(conn)) {
        validation->asked_at =
            engine->clock.awake; /* should that rail fail, what waits begins anew */
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
               && waited >= config->connect_timeout);
}

/* What tells the sender of a datagram that it got here. NULL: memory is short. */
static btl_ib_segment_t *make_response(btl_ib_rail_t *rail, const btl_ib_view_t *view)
{
    const btl_ib_engine_t *engine = rail->engine;
    const uint32_t size = (uint32_t) sizeof(btl_ib_wire_header_t);
    const uint32_t id = view->connect.connection;
    const btl_ib_wire_header_t header = {
        .version_type = BTL_IB_WIRE_VERSION << 4 | BTL_IB_TYPE_PATH_RESPONSE,
        .connection = BTL_IB_LE32(id),
        .token = BTL_IB_LE64(btl_ib_token_of_response(&engine->config.secret, view->token, id)),
    };
    btl_ib_segment_t *segment = btl_ib_pool_get(&rail->pool, size + engine->guard.ops->trailer);

    if (segment == NULL) {
        return NULL;
    }
    memcpy(segment->wire, &header, size);
    if (engine->guard.ops->keyed) { /* there is no key for whoever is not known */
        memset(segment->wire + size, 0, engine->guard.ops->trailer);
    } else if (engine->guard.ops->trailer > 0) {
        (void) btl_ib_guard_seal(&engine->guard, NULL, segment->wire, segment->wire, size);
    }
    segment->size = size + engine->guard.ops->trailer;
    return segment;
}

static void send_response(btl_ib_rail_t *rail, btl_ib_addr_t to, btl_ib_segment_t *segment)
{
    btl_ib_transport_t *transport = rail->transport;
    const btl_ib_tx_t tx = {
        .to = to,
        .niov = 1,
        .size = segment->size,
        .iov = {{.iov_base = segment->wire, .iov_len = segment->size}},
        .mem = segment->mem,
        .context = segment,
    };
    int error;

    if (transport->ops->send(transport, &tx, 1, &error) == 1) {
        segment->busy = tx.size > transport->attr.inline_size;
        rail->engine->count.sent_responses++;
    }
}

/* The answer goes where the datagram came from: its sender's address is not known before it is looked up. Who forges one
 * makes us send no more than it sent itself. */
void btl_ib_validation_respond(btl_ib_rail_t *rail, const btl_ib_arrival_t *arrival)
{
    btl_ib_transport_t *transport = rail->transport;
    uint8_t source[BTL_IB_ADDR_BYTES];
    btl_ib_addr_t to = arrival->from;

    if (to == BTL_IB_ADDR_UNKNOWN) {
        const bool tells = transport->ops->source != NULL && arrival->event->buffer != NULL;
        const uint32_t len = tells ? transport->ops->source(transport, arrival->event, source) : 0;
        if (len == 0 || transport->ops->addr_add(transport, source, len, &to) != 0) {
            return;
        }
    }
    btl_ib_segment_t *segment = make_response(rail, &arrival->view);
    if (segment != NULL) {
        send_response(rail, to, segment);
        btl_ib_pool_put(segment);
    }
    if (arrival->from == BTL_IB_ADDR_UNKNOWN) {
        transport->ops->addr_remove(transport, to);
    }
}
