/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Sending: datagrams become system calls. The kernel's price is for each call and for each trip
 * through its stack. So neighbours of one size to one peer become one message that the device or
 * the end of the stack cuts (UDP_SEGMENT, udp(7)), and several messages go into one call
 * (sendmmsg(2)).
 *
 * The datagrams of such a message are gathered in memory that stays in the cache. The kernel copies
 * piece by piece, and with each it begins anew to wait for its own memory, which the receiver has
 * just read: 44 datagrams of 1.4 KB, headers and payload apart, took 17 us, in one piece 9 (in a
 * fast phase 8.7 and 6.5); gathering them took 1.3, or 3.5 if the payload was in no cache.
 *
 * A socket sends to peers with whom ECN is agreed, and others, bulk with ECT(0), and the rest
 * without. What most of its last calls wanted is an option of the socket; a message that is to be
 * otherwise has a control message (IP_TOS, IPV6_TCLASS). For that the kernel looks up a route, also
 * by a connected socket: 350 ns, where a burst of 64 KiB takes 4 us.
 */

#ifndef BTL_IB_UDP_SEND_H
#define BTL_IB_UDP_SEND_H

#include "udp_peers.h"
#include "udp_errors.h"
#include "udp_sockets.h"

enum {
    BTL_IB_UDP_SEND_BATCH = 64, /* datagrams in one call: the kernel takes no more in a message */
    BTL_IB_UDP_SEND_MESSAGES = 16, /* in one call; more groups than that are rare */
    BTL_IB_UDP_GSO_BYTES = 65487,  /* in one message: as many as IPv6 takes, too */
    BTL_IB_UDP_SEND_IOV = 3,       /* pieces of one datagram */
    BTL_IB_UDP_GATHER_MAX = 2048,  /* bytes of a datagram: pieces of larger ones are long enough */
};

/* Bytes of control messages: the size of joined datagrams, and a traffic class. */
#define BTL_IB_UDP_SEND_CONTROL (CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(int)))

/* A system call in the making: messages, each of one or more datagrams. */
typedef struct btl_ib_udp_call {
    btl_ib_udp_socket_t *socket;
    unsigned count;
    int datagrams[BTL_IB_UDP_SEND_MESSAGES];
    uint8_t *gathered; /* behind what was gathered so far */
    struct mmsghdr msg[BTL_IB_UDP_SEND_MESSAGES];
    struct iovec iov[BTL_IB_UDP_SEND_BATCH * BTL_IB_UDP_SEND_IOV];
    _Alignas(struct cmsghdr) uint8_t control[BTL_IB_UDP_SEND_MESSAGES][BTL_IB_UDP_SEND_CONTROL];
} btl_ib_udp_call_t;

typedef struct btl_ib_udp_tx {
    const btl_ib_udp_log_t *log;
    btl_ib_udp_sockets_t *sockets;
    const btl_ib_udp_peers_t *peers;
    btl_ib_udp_connected_t *connected;
    btl_ib_udp_errors_t *errors;
    uint32_t max_datagram;
    uint8_t spare_flow; /* its number */
    bool gso;           /* datagrams are joined, until the device turns out to be unable to cut */
    bool told_error;    /* a send failed for a reason that was logged */
    /* The call in hand: not on the stack, of which threads may have 16 KiB. */
    btl_ib_udp_call_t call;
    /* Gathered messages of the call. */
    uint8_t gathered[BTL_IB_UDP_SEND_BATCH * BTL_IB_UDP_GATHER_MAX];
} btl_ib_udp_tx_t;

/* Initializes `tx`, which is zero. It is not assigned as a whole: memory in which nothing is
 * gathered is not touched. */
static inline void btl_ib_udp_tx_init(btl_ib_udp_tx_t *tx, const btl_ib_udp_log_t *log,
                                      btl_ib_udp_connected_t *connected,
                                      btl_ib_udp_errors_t *errors, uint32_t max_datagram)
{
    tx->log = log;
    tx->sockets = connected->sockets;
    tx->peers = connected->peers;
    tx->connected = connected;
    tx->errors = errors;
    tx->max_datagram = max_datagram;
    tx->spare_flow = connected->sockets->shared > 1 ? BTL_IB_FLOWS_OF_LANES : 1;
    tx->gso = connected->sockets->gso;
}

/* send() of btl_ib_transport_ops_t. */
int btl_ib_udp_send(btl_ib_udp_tx_t *tx, const btl_ib_tx_t *batch, int n, int *error);

#endif
