/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Error queues of the sockets (IP_RECVERR, ip(7)): the network's answers to datagrams sent before
 * become events for poll(). */

#ifndef BTL_IB_UDP_ERRORS_H
#define BTL_IB_UDP_ERRORS_H

#include <errno.h>

#include "udp_sockets.h"
#include "udp_peers.h"

enum {
    BTL_IB_UDP_ERRORS_MAX = 16,
    BTL_IB_UDP_OFFENDERS_MAX = 8,
    BTL_IB_UDP_REFUSALS_MAX = 256, /* in all: one may be chance, and none is to be expected */
};

/* A host that said that nothing gets to a peer. */
typedef struct btl_ib_udp_offender {
    btl_ib_addr_t peer;
    btl_ib_udp_name_t by; /* family AF_UNSPEC: nobody */
} btl_ib_udp_offender_t;

typedef struct btl_ib_udp_errors {
    const btl_ib_udp_log_t *log;
    btl_ib_udp_peers_t *peers;
    uint32_t max_datagram;                       /* of the rail */
    btl_ib_event_t event[BTL_IB_UDP_ERRORS_MAX]; /* not handed up yet */
    uint32_t count;
    btl_ib_udp_offender_t offender[BTL_IB_UDP_OFFENDERS_MAX];
    uint32_t next_offender; /* the place for the next peer's */
    uint32_t refusals;      /* of calls that receive, by the system itself */
    int failed;             /* errno for which the rail is of no use any more; 0: it is */
    /* The system call that is refused with it; NULL: a descriptor of ours is closed, or somebody
     * else's by now. */
    const char *refused;
    bool failed_told; /* an event said so */
} btl_ib_udp_errors_t;

static inline void btl_ib_udp_errors_init(btl_ib_udp_errors_t *errors, const btl_ib_udp_log_t *log,
                                          btl_ib_udp_peers_t *peers, uint32_t max_datagram)
{
    *errors = (btl_ib_udp_errors_t){.log = log, .peers = peers, .max_datagram = max_datagram};
}

/* Notes that a call on one of our descriptors failed. If the errno says that this process has
 * closed it the device is as good as gone, and no descriptor is certain to be ours. */
static inline void btl_ib_udp_errors_called(btl_ib_udp_errors_t *errors, int error)
{
    if (error == EBADF || error == ENOTSOCK) {
        errors->failed = error;
        errors->refused = NULL;
    }
}

/* True if no datagram that was sent before, and no answer of a network to it, makes a call fail
 * with that errno: a filter of system calls does, or a kernel that lacks the call. (EACCES may be
 * an answer of a router, over IPv6.) */
static inline bool btl_ib_udp_is_refusal(int error)
{
    return error == EPERM || error == ENOSYS || error == EINVAL;
}

/* Counts a refusal of a call without which nothing is received. After many the rail has failed. */
void btl_ib_udp_errors_count_refusal(btl_ib_udp_errors_t *errors, const char *call, int error);

/* Reads the error queue of a socket. `sent`: the peer of a call that has just failed (for what this
 * host refuses the kernel does not tell the port), or BTL_IB_ADDR_UNKNOWN. Returns whether there
 * was anything. */
bool btl_ib_udp_errors_read(btl_ib_udp_errors_t *errors, const btl_ib_udp_socket_t *socket,
                            btl_ib_addr_t sent);

/* True if there are events to hand up. */
static inline bool btl_ib_udp_errors_any(const btl_ib_udp_errors_t *errors)
{
    return errors->count > 0 || errors->failed != 0;
}

/* Hands events up. Returns how many. */
int btl_ib_udp_errors_take(btl_ib_udp_errors_t *errors, btl_ib_event_t *events, int max);

/* offender_text() of btl_ib_transport_ops_t. */
bool btl_ib_udp_errors_offender(const btl_ib_udp_errors_t *errors, btl_ib_addr_t peer, char *out,
                                size_t len);

/* Forgets a handle that is gone and may soon be another peer's. */
void btl_ib_udp_errors_forget(btl_ib_udp_errors_t *errors, btl_ib_addr_t addr);

#endif
