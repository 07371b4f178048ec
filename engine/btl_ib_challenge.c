/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_challenge.h"

#include "btl_ib_ack_send.h"
#include "btl_ib_state.h"
#include "btl_ib_failover.h"
#include "btl_ib_flow.h"
#include "btl_ib_loss.h"
#include "btl_ib_pool.h"
#include "btl_ib_protection.h"
#include "btl_ib_route.h"
#include "btl_ib_trace.h"
#include "btl_ib_validation.h"

#include <stdio.h>
#include <string.h>

enum {
    CHALLENGE = BTL_IB_FLAG_PATH | BTL_IB_FLAG_ACK_NOW,
    ANSWER = BTL_IB_FLAG_PATH,
};

bool btl_ib_header_send(btl_ib_rail_t *rail, btl_ib_addr_t to, const btl_ib_wire_header_t *header,
                        uint8_t flow, uint64_t peer)
{
    btl_ib_engine_t *engine = rail->engine;
    btl_ib_transport_t *transport = rail->transport;
    const uint32_t trailer = engine->protection.ops->trailer;
    const uint32_t size = (uint32_t) sizeof(*header) + trailer;
    btl_ib_segment_t *segment = btl_ib_pool_get(&rail->pool, size);
    int error;

    if (segment == NULL) {
        return false;
    }
    memcpy(segment->wire, header, sizeof(*header));
    if (engine->protection.ops->keyed) {
        memset(segment->wire + sizeof(*header), 0, trailer);
    } else {
        (void) btl_ib_protection_seal(&engine->protection, NULL, segment->wire, segment->wire,
                                      (uint32_t) sizeof(*header));
    }
    const btl_ib_tx_t tx = {
        .to = to,
        .niov = 1,
        .size = size,
        .iov = {{.iov_base = segment->wire, .iov_len = size}},
        .mem = segment->mem,
        .context = segment,
        .flow = flow,
    };
    const bool sent = transport->ops->send(transport, &tx, 1, &error) == 1;
    if (sent) {
        btl_ib_pool_given(segment, size > transport->attr.inline_size);
        engine->count.sent_datagrams++;
        rail->count.sent_datagrams++;
        btl_ib_trace_response(rail, peer, size);
    }
    btl_ib_pool_put(segment);
    return sent;
}

/* Returns whether the peer is heard from where it should be: over its own two rails, lately. While
 * it answers nothing that may have been a router's new port for it, and no spare flow. */
static bool challenge_is_needless(const btl_ib_conn_t *conn)
{
    return conn->validation.valid && btl_ib_route_is_own(conn) && conn->flow.rounds == 0
           && conn->engine->clock.awake - conn->loss.heard_at < BTL_IB_CHALLENGE_QUIET;
}

/* Returns the address of the peer as the router has it that a datagram came by, in `address`, and
 * the flow that leads back by; 0 bytes if that cannot be told. */
static uint32_t challenge_address(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                                  const btl_ib_arrival_t *arrival,
                                  uint8_t address[BTL_IB_ADDR_BYTES], uint8_t *flow)
{
    const btl_ib_transport_t *transport = rail->transport;
    const btl_ib_route_t *route = &conn->route;

    return transport->ops->rewritten != NULL && rail == conn->rail && arrival->event->buffer != NULL
               ? transport->ops->rewritten(transport, arrival->event, route->published,
                                           route->published_len, address, flow)
               : 0;
}

/* Computes the challenge to an address, in that period of time. What is hashed has another length
 * than what is hashed for keys of regions. */
static uint64_t challenge_of(const btl_ib_conn_t *conn, const uint8_t *address, uint32_t len,
                             uint64_t period)
{
    struct {
        uint64_t period;
        uint32_t id;
        uint32_t len;
        uint8_t address[BTL_IB_ADDR_BYTES];
    } hashed = {.period = period, .id = conn->identity.id, .len = len};

    memcpy(hashed.address, address, len);
    return btl_ib_siphash(&conn->engine->config.region_secret, &hashed, sizeof(hashed));
}

/* Sends a challenge, or the answer to one, to an address of the connection's own rail: `id` is the
 * peer's connection. Returns whether it left. */
static bool challenge_transmit(const btl_ib_conn_t *conn, btl_ib_addr_t to, uint8_t flags,
                               uint64_t challenge, uint32_t id, uint8_t flow)
{
    const btl_ib_engine_t *engine = conn->engine;
    const uint64_t token = btl_ib_token_of_challenge(&conn->identity.secret, engine->config.name,
                                                     &engine->config.secret, challenge, id, flags);
    const btl_ib_wire_path_t path = {
        .version_type = (uint8_t) (conn->identity.version << 4 | BTL_IB_TYPE_PATH_RESPONSE),
        .flags = flags,
        .connection = BTL_IB_LE32(id),
        .token = BTL_IB_LE64(token),
        .challenge = BTL_IB_LE64(challenge),
        .from = flags == CHALLENGE ? BTL_IB_LE32(conn->identity.id) : 0,
    };
    btl_ib_wire_header_t header;

    memcpy(&header, &path, sizeof(header));
    return btl_ib_header_send(conn->rail, to, &header, flow, conn->identity.name);
}

static void challenge_note(btl_ib_validation_t *validation, uint64_t now)
{
    validation->challenged_at = (uint32_t) now | 1; /* about that, and not 0 */
}

void btl_ib_challenge_send(btl_ib_conn_t *conn, btl_ib_rail_t *rail,
                           const btl_ib_arrival_t *arrival)
{
    btl_ib_engine_t *engine = rail->engine;
    btl_ib_transport_t *transport = rail->transport;
    btl_ib_validation_t *validation = &conn->validation;
    const btl_ib_view_t *view = &arrival->view;
    const uint64_t now = engine->clock.now;
    const uint32_t id =
        view->flags & BTL_IB_FLAG_CONNECT ? view->connect.connection : conn->identity.peer_id;
    uint8_t address[BTL_IB_ADDR_BYTES];
    btl_ib_addr_t to;
    uint8_t flow;

    if (id == 0 || challenge_is_needless(conn)
        || (validation->challenged_at != 0
            && (uint32_t) now - validation->challenged_at < BTL_IB_CHALLENGE_PAUSE)) {
        return;
    }
    if (validation->challenged_at == 0 && engine->config.name < conn->identity.name) {
        challenge_note(validation, now); /* what the peer sends may be led back soon */
        return;
    }
    const uint32_t len = challenge_address(conn, rail, arrival, address, &flow);
    if (len == 0 || transport->ops->addr_add(transport, address, len, &to) != 0) {
        return;
    }
    const uint64_t challenge = challenge_of(conn, address, len, now / BTL_IB_CHALLENGE_VALID);
    challenge_note(validation, now);
    engine->count.sent_challenges += challenge_transmit(conn, to, CHALLENGE, challenge, id, flow);
    transport->ops->addr_remove(transport, to);
}

/* Answers a challenge, by each flow: a router leads back only what answers to a flow that it has
 * seen, and the peer will use all of them. The usual one comes last, which proves the address. */
static void challenge_answer(const btl_ib_conn_t *conn, uint64_t challenge, uint32_t id)
{
    for (uint8_t flow = 1; flow < conn->rail->transport->attr.flows; flow++) {
        (void) challenge_transmit(conn, conn->route.address, ANSWER, challenge, id, flow);
    }
    (void) challenge_transmit(conn, conn->route.address, ANSWER, challenge, id, 0);
}

/* Sends what is for the peer to an address that a router has for it, as the peer answered there. */
static void challenge_answered(btl_ib_conn_t *conn, const uint8_t *address, uint32_t len)
{
    btl_ib_engine_t *engine = conn->engine;
    const btl_ib_transport_t *transport = conn->rail->transport;
    char published[64] = "another address";
    char now[64] = "elsewhere";

    (void) btl_ib_conn_address_text(conn, published, sizeof(published));
    if (!btl_ib_route_rewritten(conn, address, len)) {
        return;
    }
    if (transport->ops->address_text != NULL) {
        (void) transport->ops->address_text(address, len, now, sizeof(now));
    }
    engine->count.rewritten++;
    BTL_IB_LOG(engine, 1,
               "peer %u.%u: %s: its datagrams come from %s, it published %s. It has "
               "answered there, so that address is used: a router rewrites them, or the address "
               "changed",
               BTL_IB_NAME_ARGS(conn->identity.name), transport->name, now, published);
    conn->validation.foreign = 0;
    btl_ib_validation_answered(&conn->validation, engine->clock.now);
    btl_ib_loss_responded(&conn->loss, engine->clock.awake);
    if (btl_ib_route_is_own(conn)) { /* what is in flight went to where nobody may be */
        btl_ib_flow_begin_route(&conn->flow);
        btl_ib_loss_disconnected(conn);
    }
    if (btl_ib_validation_heard(&conn->validation)) {
        btl_ib_failover_validated(conn);
    }
    if (btl_ib_route_is_own(conn)) { /* the peer has heard nothing yet of what it sent */
        btl_ib_ack_send(conn, BTL_IB_FLAG_ACK_NOW);
    }
}

/* Returns whether an answer is to a challenge that was sent to where it comes from, lately. */
static bool challenge_fits(const btl_ib_conn_t *conn, uint64_t challenge, const uint8_t *address,
                           uint32_t len)
{
    const uint64_t period = conn->engine->clock.now / BTL_IB_CHALLENGE_VALID;

    return len > 0
           && (challenge == challenge_of(conn, address, len, period)
               || (period > 0 && challenge == challenge_of(conn, address, len, period - 1)));
}

void btl_ib_challenge_received(btl_ib_conn_t *conn, btl_ib_rail_t *rail,
                               const btl_ib_arrival_t *arrival)
{
    btl_ib_engine_t *engine = rail->engine;
    btl_ib_counters_t *count = &engine->count;
    uint8_t address[BTL_IB_ADDR_BYTES];
    btl_ib_wire_path_t path;
    uint8_t flow;

    if (conn == NULL || !btl_ib_conn_alive(conn) || arrival->size != sizeof(path)) {
        count->dropped_unknown++;
        return;
    }
    memcpy(&path, arrival->data, sizeof(path));
    const uint64_t challenge = BTL_IB_LE64(path.challenge);
    if (arrival->view.token
        != btl_ib_token_of_challenge(&engine->config.secret, conn->identity.name,
                                     &conn->identity.secret, challenge, conn->identity.id,
                                     path.flags)) {
        count->dropped_token++;
    } else if (arrival->view.version != conn->identity.version) {
        count->dropped_version++;
    } else if (path.flags == CHALLENGE) {
        count->received_challenges++;
        if (conn->route.address != BTL_IB_ADDR_UNKNOWN && btl_ib_rail_usable(conn->rail)) {
            challenge_answer(conn, challenge, BTL_IB_LE32(path.from));
        }
    } else if (challenge_is_needless(conn)
               || (arrival->from != BTL_IB_ADDR_UNKNOWN
                   && btl_ib_route_is_source(conn, rail, arrival->from))) {
        count->dropped_stale++;
    } else {
        const uint32_t len = challenge_address(conn, rail, arrival, address, &flow);
        if (challenge_fits(conn, challenge, address, len)) {
            count->received_responses++;
            challenge_answered(conn, address, len);
        } else {
            count->dropped_source++;
        }
    }
}

void btl_ib_challenge_inside(btl_ib_conn_t *conn)
{
    char address[64] = "where it was";

    if (!conn->flow.doubted || !btl_ib_route_return(conn)) {
        return;
    }
    (void) btl_ib_conn_address_text(conn, address, sizeof(address));
    BTL_IB_LOG(conn->engine, 1,
               "peer %u.%u: %s: nothing is answered that goes to where a router had it; its "
               "datagrams come from %s, which is used again",
               BTL_IB_NAME_ARGS(conn->identity.name), conn->rail->transport->name, address);
    btl_ib_flow_begin_route(&conn->flow);
    if (btl_ib_route_is_own(conn)) {
        btl_ib_loss_disconnected(conn);
    }
}
