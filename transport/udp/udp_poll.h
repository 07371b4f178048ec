/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * In which order sockets are looked at.
 *
 * The one that had something last comes first, then others: with few sockets each second poll
 * looks at the next of them in a fixed order, with many epoll names those that have something. A
 * look in vain is a system call of 0.3 to 0.4 us; epoll costs 0.15 us if no socket has anything,
 * and up to 0.2 us for each datagram of a watched socket, so it pays only where several looks
 * would be in vain. The bulk lane comes last.
 */

#ifndef BTL_IB_UDP_POLL_H
#define BTL_IB_UDP_POLL_H

#include "udp_recv.h"
#include "udp_sockets.h"

typedef struct btl_ib_udp_poll {
    uint32_t current; /* index of the socket that had something last, but for the bulk lane */
    uint32_t streak;  /* looks in a row that found something there */
    uint32_t next;    /* the one that was looked at last because it was its turn */
    uint32_t ready;   /* bits: named by epoll and not looked at since */
    bool others;      /* without epoll: the next poll looks at others than `current` */
    bool bulk_busy;   /* the last look at the bulk lane found something */
    bool no_epoll;    /* it was tried in vain */
} btl_ib_udp_poll_t;

/* After the shared sockets were opened. */
static inline void btl_ib_udp_poll_init(btl_ib_udp_poll_t *poll,
                                        const btl_ib_udp_sockets_t *sockets)
{
    *poll = (btl_ib_udp_poll_t){.current = sockets->shared - 1};
}

/* Look at sockets until one has something: rx has it then. */
void btl_ib_udp_poll_sockets(btl_ib_udp_poll_t *poll, btl_ib_udp_sockets_t *sockets,
                             btl_ib_udp_rx_t *rx, btl_ib_udp_errors_t *errors);

#endif
