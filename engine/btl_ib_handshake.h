/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Whose datagram is it? First contact, reopened connections, restarted processes. */

#ifndef BTL_IB_HANDSHAKE_H
#define BTL_IB_HANDSHAKE_H

#include "btl_ib_state.h"

/* What is kept of a first contact, in engine->unidentified: the datagram, what it says of its
 * sender, and where it came from: by the time that it is handled its sender may have a connection
 * here, which checks that. */
typedef struct btl_ib_first_contact {
    uint64_t name;
    uint32_t to_rail;
    uint32_t from_rail;
    uint32_t batch;      /* turn.batch when it came; 0: in a turn of the progress thread */
    uint32_t poll_gap;   /* us, as turn.poll_gap */
    uint32_t source_len; /* 0: the transport cannot tell */
    uint8_t source[BTL_IB_ADDR_BYTES];
    uint8_t datagram[] __attribute__((aligned(8)));
} btl_ib_first_contact_t;

/* What is known of the sender of a first contact that was kept: the context of its event, which has
 * no buffer. */
typedef struct btl_ib_sender {
    bool asked;   /* the runtime was to be asked, which was */
    bool allowed; /* by the limits, and it */
    bool found;   /* knew the process */
    btl_ib_peer_info_t info;
} btl_ib_sender_t;

/* Looks the sender of a kept first contact up, if it has no connection. Others may call the engine
 * meanwhile. */
void btl_ib_handshake_look_up(btl_ib_engine_t *engine, const btl_ib_first_contact_t *contact,
                              btl_ib_sender_t *sender);

/* Finds the connection of a datagram. Returns NULL (and counts it) if it has none that we know, its
 * token is wrong or its key does not open it. A valid first contact makes a passive connection.
 * With a keyed protection the view has only what btl_ib_wire_peek() read, and is complete on
 * return. What the datagram says of an earlier incarnation of ours is removed from the view. */
btl_ib_conn_t *btl_ib_handshake_accept(btl_ib_rail_t *rail, btl_ib_arrival_t *arrival);

#endif
