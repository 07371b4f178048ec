/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_icmp.h"

#include "btl_ib_state.h"
#include "btl_ib_route.h"

#include <string.h>

enum { NEEDED = offsetof(btl_ib_wire_header_t, token) + sizeof(uint64_t) };

static_assert(NEEDED <= BTL_IB_QUOTED_MAX, "a quotation may hold the token");

/* True if the quoted datagram was of a connection's present incarnation. As long as that did not
 * know the peer's id it wrote 0. */
static bool is_quoted(const btl_ib_conn_t *conn, const btl_ib_wire_header_t *header)
{
    const uint32_t id = BTL_IB_LE32(header->connection);

    return (conn->state == BTL_IB_CONN_OPEN || conn->state == BTL_IB_CONN_DEAD)
           && BTL_IB_LE64(header->token) == conn->identity.tx_token
           && header->version_type >> 4 == conn->identity.version
           && (id == 0 || id == conn->identity.peer_id);
}

/* True if a connection sent the quoted datagram there: one that goes to that address, one whose own
 * it is, or another one with the same process. */
static bool was_sent(const btl_ib_rail_t *rail, const btl_ib_event_t *event)
{
    const btl_ib_conn_t *conn = NULL;
    btl_ib_wire_header_t header;

    memcpy(&header, event->quoted, NEEDED);
    while ((conn = btl_ib_route_to(rail, event->from, conn)) != NULL) {
        if (is_quoted(conn, &header)) {
            return true;
        }
    }
    while ((conn = btl_ib_route_of(rail, event->from, conn)) != NULL) {
        const btl_ib_conn_t *other = NULL;
        if (is_quoted(conn, &header)) {
            return true;
        }
        while (btl_ib_conn_alive(conn) && (other = btl_ib_route_next(conn, other)) != NULL) {
            if (is_quoted(other, &header) && btl_ib_route_is_source(other, rail, event->from)) {
                return true;
            }
        }
    }
    return false;
}

bool btl_ib_icmp_check(btl_ib_rail_t *rail, const btl_ib_event_t *event)
{
    btl_ib_engine_t *engine = rail->engine;
    const char *claim = event->type == BTL_IB_EVENT_REFUSED ? "that a peer is not there"
                        : event->type == BTL_IB_EVENT_UNREACHABLE
                            ? "that a peer cannot be reached"
                            : "that the path to a peer carries less";

    if (event->origin == BTL_IB_ORIGIN_LOCAL) {
        return true;
    }
    if (event->quoted_size < NEEDED) {
        engine->count.rejected_icmp_short++;
        BTL_IB_LOG(engine, 10,
                   "%s: an ICMP message says %s, but quotes %u bytes of a datagram of ours; %u are "
                   "needed to check it: not believed",
                   rail->transport->name, claim, event->quoted_size, (unsigned) NEEDED);
        return false;
    }
    if (event->from == BTL_IB_ADDR_UNKNOWN || !was_sent(rail, event)) {
        engine->count.rejected_icmp++;
        BTL_IB_LOG(engine, 10,
                   "%s: an ICMP message says %s, but quotes no datagram that a present connection "
                   "sent there: forged or late, not believed",
                   rail->transport->name, claim);
        return false;
    }
    return true;
}
