/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Sending: datagrams become system calls. The kernel takes time for each call and for each message
 * that passes its stack. So neighbouring datagrams of one size to one peer become one message,
 * which the device or the end of the stack splits (UDP_SEGMENT, udp(7)), and several messages go
 * into one call (sendmmsg(2)).
 *
 * The datagrams of such a message are first gathered in memory that stays in the cache. Otherwise
 * the kernel copies piece by piece, and with each piece it waits anew for its own memory, which the
 * receiver has just read. 44 datagrams of 1.4 KB took 17 us with headers and payload apart, 9 us in
 * one piece (8.7 and 6.5 in a fast phase); gathering took 1.3 us, or 3.5 if the payload was in no
 * cache.
 *
 * Some datagrams of a socket leave with ECT(0): bulk, to peers with which ECN is agreed. The rest
 * leave without. The codepoint that most of the last calls wanted is an option of the socket; a
 * message with the other one has a control message (IP_TOS, IPV6_TCLASS). For that the kernel looks
 * up a route even if the socket is connected: 350 ns, where a burst of 64 KiB takes 4 us.
 */

#ifndef BTL_IB_UDP_SEND_H
#define BTL_IB_UDP_SEND_H

#include "udp_peers.h"
#include "udp_errors.h"
#include "udp_sockets.h"

enum {
    BTL_IB_UDP_SEND_BATCH = 64,    /* datagrams in a call: the kernel takes no more in a message */
    BTL_IB_UDP_SEND_MESSAGES = 16, /* messages in a call; more are seldom needed */
    BTL_IB_UDP_GSO_BYTES = 65487,  /* bytes in a message: as many as IPv6 takes, too */
    BTL_IB_UDP_SEND_IOV = 3,       /* pieces of a datagram */
    BTL_IB_UDP_GATHER_MAX = 2048,  /* bytes; the pieces of longer datagrams are not gathered */
};

/* Bytes of the control messages of a message: the size of joined datagrams, and a traffic class. */
#define BTL_IB_UDP_SEND_CONTROL (CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(int)))

/* A system call in the making: messages, each of one or more datagrams. */
typedef struct btl_ib_udp_call {
    btl_ib_udp_socket_t *socket;
    unsigned count;                          /* messages */
    int datagrams[BTL_IB_UDP_SEND_MESSAGES]; /* of each message */
    uint8_t *gathered;                       /* end of what was gathered so far */
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
    uint8_t spare_flow;  /* the number of the spare flow */
    bool gso;            /* datagrams are joined; false once the device failed to split them */
    bool error_reported; /* a failed send was logged */
    /* The call that is being made. Not on the stack, as threads may have 16 KiB only. */
    btl_ib_udp_call_t call;
    /* Memory for gathered messages of the call. */
    uint8_t gathered[BTL_IB_UDP_SEND_BATCH * BTL_IB_UDP_GATHER_MAX];
} btl_ib_udp_tx_t;

/* Initializes `tx`, which is all zero. Does not assign it as a whole, so that `gathered` takes no
 * pages until it is used. */
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
