/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_address_send.h"

#include "btl_ib_packet.h"
#include "btl_ib_transmit.h"

#include <assert.h>
#include <string.h>

static_assert(BTL_IB_ADDRESS_MAX == BTL_IB_TOKEN_ADDRESS_MAX, "each address has a proof");

bool btl_ib_address_send(btl_ib_conn_t *conn)
{
    const btl_ib_transport_t *transport = conn->rail->transport;
    const uint32_t generation = conn->rail->generation;
    const uint64_t proof =
        btl_ib_token_of_address(&conn->identity.secret, conn->identity.tx_token, generation,
                                transport->address, transport->address_len);
    const btl_ib_wire_where_t where = {
        .proof_low = BTL_IB_LE32((uint32_t) proof),
        .proof_high = BTL_IB_LE32((uint32_t) (proof >> 32)),
        .generation = BTL_IB_LE32(generation),
    };
    const uint32_t size = (uint32_t) sizeof(where) + transport->address_len;

    if (btl_ib_packet_says_connect(conn)
        || btl_ib_packet_overhead(conn) + size > conn->pmtud.datagram_max) {
        return false;
    }
    btl_ib_segment_t *segment = btl_ib_packet_make(conn, BTL_IB_TYPE_ADDRESS, size);
    if (segment == NULL) {
        conn->engine->count.blocked_memory++;
        return false;
    }
    uint8_t *body = btl_ib_packet_body(segment);
    memcpy(body, &where, sizeof(where));
    memcpy(body + sizeof(where), transport->address, transport->address_len);
    const bool sent = btl_ib_transmit(conn, &segment, 1) == 1;
    conn->engine->count.sent_addresses += sent;
    btl_ib_pool_put(segment);
    return sent;
}
