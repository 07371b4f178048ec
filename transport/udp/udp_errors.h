/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Reads the error queues of sockets (IP_RECVERR, ip(7)): what the network reports of datagrams that
 * were sent becomes events for poll(). */

#ifndef BTL_IB_UDP_ERRORS_H
#define BTL_IB_UDP_ERRORS_H

#include <errno.h>

#include "udp_sockets.h"
#include "udp_peers.h"

enum {
    BTL_IB_UDP_ERRORS_MAX = 16,    /* events that are kept */
    BTL_IB_UDP_OFFENDERS_MAX = 8,  /* peers of which an offender is kept */
    BTL_IB_UDP_REFUSALS_MAX = 256, /* refusals until the rail has failed: a few may be chance */
};

/* The host that reported by ICMP that nothing gets to a peer. */
typedef struct btl_ib_udp_offender {
    btl_ib_addr_t peer;
    btl_ib_udp_name_t by; /* family AF_UNSPEC: none */
} btl_ib_udp_offender_t;

typedef struct btl_ib_udp_errors {
    const btl_ib_udp_log_t *log;
    btl_ib_udp_peers_t *peers;
    uint32_t max_datagram;                       /* of the rail */
    btl_ib_event_t event[BTL_IB_UDP_ERRORS_MAX]; /* not handed up yet */
    uint32_t count;                              /* of them */
    btl_ib_udp_offender_t offender[BTL_IB_UDP_OFFENDERS_MAX];
    uint32_t next_offender; /* the place to be overwritten next, modulo their number */
    uint32_t refusals;      /* calls to receive that the system itself refused */
    int failed;             /* errno with which the rail failed for good; 0: it did not */
    /* With `failed`: the system call that is refused; NULL: a descriptor of ours was closed, and
     * its number may be somebody else's by now. */
    const char *refused;
    bool failed_reported; /* there was an event of it */
} btl_ib_udp_errors_t;

static inline void btl_ib_udp_errors_init(btl_ib_udp_errors_t *errors, const btl_ib_udp_log_t *log,
                                          btl_ib_udp_peers_t *peers, uint32_t max_datagram)
{
    *errors = (btl_ib_udp_errors_t){.log = log, .peers = peers, .max_datagram = max_datagram};
}

/* Notes that a call on one of our descriptors failed. If the errno says that this process has
 * closed the descriptor, the rail has failed, as none of its descriptors is certain to be ours. */
static inline void btl_ib_udp_errors_called(btl_ib_udp_errors_t *errors, int error)
{
    if (error == EBADF || error == ENOTSOCK) {
        errors->failed = error;
        errors->refused = NULL;
    }
}

/* True if a call fails with that errno only because the system refuses it (a filter of system
 * calls, a kernel that lacks the call), never because of an earlier datagram or what the network
 * reported of it. (EACCES may be what a router reported, over IPv6.) */
static inline bool btl_ib_udp_is_refusal(int error)
{
    return error == EPERM || error == ENOSYS || error == EINVAL;
}

/* Counts a refusal of a call without which nothing is received. After BTL_IB_UDP_REFUSALS_MAX the
 * rail has failed. */
void btl_ib_udp_errors_count_refusal(btl_ib_udp_errors_t *errors, const char *call, int error);

/* Reads the error queue of a socket, and keeps events. `sent`: the peer to which a call has just
 * failed to send (of its own refusals the kernel does not report the port); else
 * BTL_IB_ADDR_UNKNOWN. Returns whether there was any error. */
bool btl_ib_udp_errors_read(btl_ib_udp_errors_t *errors, const btl_ib_udp_socket_t *socket,
                            btl_ib_addr_t sent);

/* True if there may be events to hand up. */
static inline bool btl_ib_udp_errors_any(const btl_ib_udp_errors_t *errors)
{
    return errors->count > 0 || errors->failed != 0;
}

/* Moves events to `events`, at most `max`. Returns how many. */
int btl_ib_udp_errors_take(btl_ib_udp_errors_t *errors, btl_ib_event_t *events, int max);

/* offender_text() of btl_ib_transport_ops_t. */
bool btl_ib_udp_errors_offender(const btl_ib_udp_errors_t *errors, btl_ib_addr_t peer, char *out,
                                size_t len);

/* Forgets what was kept of a handle, which is free and may soon be another peer's. */
void btl_ib_udp_errors_forget(btl_ib_udp_errors_t *errors, btl_ib_addr_t addr);

#endif
