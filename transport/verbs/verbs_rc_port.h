/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The open port of an RC transport and its settings. Written while it is opened (verbs_rc.c,
 * verbs_rc_cm.c), read by all files.
 */

#ifndef BTL_IB_VERBS_RC_PORT_H
#define BTL_IB_VERBS_RC_PORT_H

#include <time.h>

#include "verbs_port.h"

enum {
    BTL_IB_RC_BATCH = 64,        /* work requests that one call posts */
    BTL_IB_RC_TX_DEPTH = 128,    /* requests that the send queue of a connection holds, */
    BTL_IB_RC_TX_DEPTH_MIN = 16, /* and at least: the transport itself needs a part of it */
};

typedef struct btl_ib_rc_port {
    btl_ib_verbs_t verbs; /* its context is rdma_cm's */
    bool iwarp;
    uint32_t tx_depth;    /* of each connection */
    uint8_t ack_timeout;  /* 4.096 us x 2^n; 0: what the connection manager takes */
    uint8_t retry;        /* 0..7 */
    uint8_t rnr_retry;    /* 0..7, 7: without end */
    uint8_t rnr_timer;    /* code of a time (IBTA 9.7.5.2.8) */
    uint8_t tos;          /* traffic class; 0: the default */
    uint8_t level;        /* service level; 0: the route's */
    uint8_t reads;        /* served at once for each peer, and asked of it at once at most */
    bool relaxed;         /* exposed memory may be written in any order */
    uint32_t bounce_size; /* bytes of the largest operation that is copied */
    uint32_t unknown_max; /* peers that connect before they are added */
} btl_ib_rc_port_t;

/* Requests that a connection's send queue holds, of which a device takes at most `most`. */
static inline uint32_t btl_ib_rc_send_depth(const btl_ib_open_params_t *params, uint32_t most)
{
    const uint32_t wanted = params->tx_depth != 0 ? params->tx_depth : BTL_IB_RC_TX_DEPTH;

    return btl_ib_verbs_power_below(btl_ib_verbs_min(
        most, wanted < BTL_IB_RC_TX_DEPTH_MIN ? (uint32_t) BTL_IB_RC_TX_DEPTH_MIN : wanted));
}

/* Microseconds of a clock that never goes back. */
static inline uint64_t btl_ib_rc_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000u + (uint64_t) now.tv_nsec / 1000u;
}

#endif
