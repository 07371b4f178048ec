/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the network says of datagrams that we sent: nobody is there, or the path carries less.
 * Anybody who knows two addresses and ports can send such a message (ICMP). So it counts only if it
 * quotes what such a sender cannot know: the token of a connection that goes there, in its present
 * incarnation. The token is in the clear with every guard. A message that quotes less is no
 * evidence (RFC 792 requires only 8 bytes behind the IP header, which hold nothing of ours).
 */

#include "btl_ib_icmp.h"

#include "btl_ib_route.h"

#include <string.h>

enum { NEEDED = offsetof(btl_ib_wire_header_t, token) + sizeof(uint64_t) };

static_assert(NEEDED <= BTL_IB_QUOTED_MAX, "a quotation may hold the token");

/* Did a connection send the quoted datagram there, in its present incarnation? As long as it did
 * not know the peer's id it wrote 0. */
static bool was_sent(const btl_ib_rail_t *rail, const btl_ib_event_t *event)
{
    btl_ib_wire_header_t header;

    memcpy(&header, event->quoted, NEEDED);
    const uint32_t id = BTL_IB_LE32(header.connection);
    BTL_IB_LIST_FOREACH (const btl_ib_conn_t, conn, &rail->engine->conns, all) {
        if (BTL_IB_LE64(header.token) == conn->identity.tx_token
            && header.version_type >> 4 == BTL_IB_WIRE_VERSION
            && (id == 0 || id == conn->identity.peer_id)
            && btl_ib_route_is_source(conn, rail, event->from)) {
            return true;
        }
    }
    return false;
}

bool btl_ib_icmp_is_genuine(btl_ib_rail_t *rail, const btl_ib_event_t *event)
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
