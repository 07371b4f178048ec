/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Datagrams -> system calls. The kernel's price is for each call and for each trip through its
 * stack. So neighbours of one size to one peer become one message that the device or the end of
 * the stack cuts (UDP_SEGMENT, udp(7)), and several messages go into one call (sendmmsg(2)).
 */

#ifndef BTL_IB_UDP_SEND_H
#define BTL_IB_UDP_SEND_H

#include "udp_connected.h"
#include "udp_errors.h"
#include "udp_log.h"
#include "udp_stage.h"

enum {
    BTL_IB_UDP_SEND_BATCH = 64,   /* datagrams in one call: the kernel takes no more in a message */
    BTL_IB_UDP_GSO_BYTES = 65487, /* in one message: what IPv6 lets through, too */
    BTL_IB_UDP_SEND_IOV = 3,      /* pieces of one datagram */
};

typedef struct btl_ib_udp_tx {
    const btl_ib_udp_log_t *log;
    const btl_ib_udp_sockets_t *sockets;
    const btl_ib_udp_peers_t *peers;
    btl_ib_udp_connected_t *connected;
    btl_ib_udp_errors_t *errors;
    btl_ib_udp_stage_t *stage;
    uint32_t max_datagram;
    bool gso;        /* until the device turns out to be unable to */
    bool told_error; /* a send failed for a reason that was logged */
} btl_ib_udp_tx_t;

static inline void btl_ib_udp_tx_init(btl_ib_udp_tx_t *tx, const btl_ib_udp_log_t *log,
                                      btl_ib_udp_connected_t *connected,
                                      btl_ib_udp_errors_t *errors, btl_ib_udp_stage_t *stage,
                                      uint32_t max_datagram)
{
    *tx = (btl_ib_udp_tx_t){
        .log = log,
        .sockets = connected->sockets,
        .peers = connected->peers,
        .connected = connected,
        .errors = errors,
        .stage = stage,
        .max_datagram = max_datagram,
        .gso = connected->sockets->gso,
    };
}

/* See btl_ib_transport_ops_t. */
int btl_ib_udp_send(btl_ib_udp_tx_t *tx, const btl_ib_tx_t *batch, int n, int *error);

#endif
