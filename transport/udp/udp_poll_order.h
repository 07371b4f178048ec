/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Poll order: which of a rail's sockets a poll looks at.
 *
 * To look at a socket is to read it, a system call; it takes 0.3 to 0.4 us if the socket is empty.
 * To ask which of all sockets have something (epoll) takes 0.15 us if none has, and 0.6 us if one
 * has, which then still has to be read; and each datagram that arrives at a watched socket costs up
 * to 0.2 us more. So:
 * - A poll looks at one socket: at those that were busy lately, in turn. Each 16th look is at any
 *   socket, all of them in turn.
 * - If that socket is empty the poll sweeps: it looks at all others, unless it did so a few us ago.
 *   So a process that polls seldom finds all that is there, as it would with one socket.
 * - Where most looks would find nothing, epoll is asked instead: while polls are so rare that each
 *   would sweep (another BTL polls, or the application computes), and with more than two busy
 *   sockets.
 * - With many rails, one epoll set of all rails is asked before all of that (udp_sockets.h).
 * - The bulk lane comes last, but has its turn: after 8 looks that found something elsewhere, and
 *   at each second poll while nothing arrives at the latency lane.
 *
 * A simpler order cost 8 B with eight peers 48 % (docs/measurements.md, "Poll order").
 */

#ifndef BTL_IB_UDP_POLL_ORDER_H
#define BTL_IB_UDP_POLL_ORDER_H

#include "udp_errors.h"
#include "udp_recv.h"
#include "udp_sockets.h"

typedef struct btl_ib_udp_poll {
    btl_ib_udp_sockets_t *sockets;         /* to be polled */
    btl_ib_udp_rx_t *rx;                   /* gets messages that arrived */
    btl_ib_udp_errors_t *errors;           /* gets failures */
    uint32_t looks;                        /* number of looks: the clock of what follows */
    uint32_t seen[BTL_IB_UDP_SOCKETS_MAX]; /* `looks` when each socket last had something */
    uint32_t latency_seen;                 /* `looks` when the latency lane last had something */
    uint32_t busy;         /* number of sockets that were busy when they were last counted */
    uint32_t turn;         /* the last socket that had its turn among the busy ones */
    uint32_t round;        /* the last socket that had its turn among all */
    uint32_t ready;        /* bits: sockets that epoll named and that were not looked at since */
    uint32_t bulk_waits;   /* looks since the bulk lane had its turn */
    bool bulk_first;       /* the last turn began with the bulk lane */
    bool no_epoll;         /* an epoll set could not be made */
    uint32_t empty_sweeps; /* sweeps in a row that found nothing (LOOKS_BETWEEN_SWEEPS) */
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
