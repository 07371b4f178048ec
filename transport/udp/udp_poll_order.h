/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Poll order: which of several sockets a poll looks at.
 *
 * A look at an empty socket is a system call of 0.3 to 0.4 us. A call that says which of all have
 * something (epoll) is 0.15 us if none has, 0.6 us if one has, which is then still to be read, and
 * costs up to 0.2 us for each datagram of a watched socket. So:
 * - A poll looks at one socket: in turn at those that were busy lately. Each 16th look goes round
 *   all of them.
 * - If that is empty the poll sweeps over all others, unless that was done a few us ago. A process
 *   that polls seldom finds all that is there, as with one socket.
 * - Where most looks would find nothing epoll is asked first: while polls are so rare that each
 *   would sweep (another BTL polls, or the application computes), and with more than two busy
 *   sockets.
 * - With many rails one epoll set of all rails comes before that (udp_sockets.h).
 * - The bulk lane comes last, but has its turn: after 8 looks that found something else, and each
 *   second look while nothing else comes.
 *
 * A simpler order cost 8 B with eight peers 48 % (docs/measurements.md, "Poll order").
 */

#ifndef BTL_IB_UDP_POLL_ORDER_H
#define BTL_IB_UDP_POLL_ORDER_H

#include "udp_errors.h"
#include "udp_recv.h"
#include "udp_sockets.h"

typedef struct btl_ib_udp_poll {
    btl_ib_udp_sockets_t *sockets;         /* that are looked at */
    btl_ib_udp_rx_t *rx;                   /* gets messages that arrived */
    btl_ib_udp_errors_t *errors;           /* gets failures */
    uint32_t looks;                        /* at any socket: the clock of all that follows */
    uint32_t seen[BTL_IB_UDP_SOCKETS_MAX]; /* `looks` when something came there last */
    uint32_t latency_seen;                 /* `looks` when something came to the latency lane */
    uint32_t busy;         /* sockets that something came to lately, when they were last counted */
    uint32_t turn;         /* the busy socket that was looked at last */
    uint32_t round;        /* the socket of all, busy or not, that was looked at last */
    uint32_t ready;        /* bits: sockets that epoll named and that were not looked at since */
    uint32_t bulk_waits;   /* looks since the bulk lane had its turn */
    bool bulk_first;       /* the look before was at the bulk lane first */
    bool no_epoll;         /* an epoll set cannot be had */
    uint32_t empty_sweeps; /* sweeps in a row that found nothing, with few looks between */
    uint32_t swept_look;   /* `looks` at the last sweep */
    uint64_t sweep_due;    /* us: when the next sweep is due */
} btl_ib_udp_poll_t;

static inline void btl_ib_udp_poll_init(btl_ib_udp_poll_t *poll, btl_ib_udp_sockets_t *sockets,
                                        btl_ib_udp_rx_t *rx, btl_ib_udp_errors_t *errors)
{
    *poll = (btl_ib_udp_poll_t){.sockets = sockets, .rx = rx, .errors = errors};
}

/* Looks at sockets, at `now` (us), until one has something. Returns whether rx got anything. */
bool btl_ib_udp_poll_sockets(btl_ib_udp_poll_t *poll, uint64_t now);

#endif
