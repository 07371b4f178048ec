/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A rail of transport "udp". Each part is changed by the file of its name only. */

#ifndef BTL_IB_UDP_H
#define BTL_IB_UDP_H

#include "udp_peers.h"
#include "udp_errors.h"
#include "udp_sockets.h"
#include "udp_poll_order.h"
#include "udp_recv.h"
#include "udp_send.h"

typedef struct btl_ib_udp {
    btl_ib_transport_t base;
    btl_ib_udp_log_t log;
    btl_ib_udp_peers_t peers;
    btl_ib_udp_sockets_t sockets;
    btl_ib_udp_connected_t connected;
    btl_ib_udp_errors_t errors;
    btl_ib_udp_rx_t rx;
    btl_ib_udp_poll_t poll;
    btl_ib_udp_tx_t tx;
    btl_ib_device_t device; /* with its present address */
    btl_ib_open_params_t params;
} btl_ib_udp_t;

static inline btl_ib_udp_t *btl_ib_udp_of(btl_ib_transport_t *t)
{
    return (btl_ib_udp_t *) t;
}

#endif
