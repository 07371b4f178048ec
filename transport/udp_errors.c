/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the network says of datagrams sent before: the socket's error queue (IP_RECVERR, ip(7)). Any
 * call on the socket may fail with such an error, although it has nothing to do with it.
 */

#include "udp_state.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <string.h>

enum {
    MTU_LEAST_4 = 552,
    MTU_LEAST_6 = 1280,
    ERRORS_MAX = 64, /* in a call: anybody can make the network say something */
};

/* Keep an event for the next poll(). One of a kind for each peer is enough; what does not fit is said
 * again with the next datagram. */
static void keep(btl_ib_udp_t *udp, const btl_ib_event_t *event)
{
    for (uint32_t i = 0; i < udp->news_count; i++) {
        if (udp->news[i].type == event->type && udp->news[i].from == event->from) {
            udp->news[i] = *event;
            return;
        }
    }
    if (udp->news_count < BTL_IB_UDP_NEWS) {
        udp->news[udp->news_count++] = *event;
    }
}

void btl_ib_udp_errors_forget(btl_ib_udp_t *udp, btl_ib_addr_t addr)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < udp->news_count; i++) {
        if (udp->news[i].from != addr) {
            udp->news[left++] = udp->news[i];
        }
    }
    udp->news_count = left;
}

/* The path to a peer carries `mtu` bytes only, headers included. Anybody can say so in an ICMP message: what no
 * path may be (RFC 8200, 5), or none has been for long (min_pmtu, ip(7)), is not believed. */
static void shrunk(btl_ib_udp_t *udp, btl_ib_addr_t from, uint32_t mtu)
{
    const uint32_t least = udp->family == AF_INET ? MTU_LEAST_4 : MTU_LEAST_6;
    const uint32_t size = btl_ib_udp_datagram(udp->family, mtu > least ? mtu : least);

    if (size > 0 && size < udp->base.attr.max_datagram) {
        keep(udp, &(btl_ib_event_t){.type = BTL_IB_EVENT_PATH, .from = from, .size = size});
    }
}

static const struct sock_extended_err *find_error(struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR)
            || (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
            return (const struct sock_extended_err *) (const void *) CMSG_DATA(c);
        }
    }
    return NULL;
}

/* `sent`: whom the call that failed was about, if one did: of what this host itself refuses the kernel does not tell
 * the port. */
static void tell(btl_ib_udp_t *udp, const btl_ib_udp_socket_t *socket, const btl_ib_udp_name_t *to,
                 const struct sock_extended_err *error, btl_ib_addr_t sent)
{
    const btl_ib_udp_name_t known = btl_ib_udp_name_known(socket, to);
    const btl_ib_addr_t from = error->ee_origin == SO_EE_ORIGIN_LOCAL && sent != BTL_IB_ADDR_UNKNOWN
                                   ? sent
                                   : btl_ib_udp_peer_find(&udp->peers, &known);
    char text[64];

    BTL_IB_UDP_LOG(udp, 10, "%s: of a datagram to %s: %s", udp->base.name,
                   btl_ib_udp_name_format(to, text, sizeof(text)), strerror((int) error->ee_errno));
    if (from == BTL_IB_ADDR_UNKNOWN) {
        return;
    }
    if (error->ee_errno == EMSGSIZE) {
        shrunk(udp, from, error->ee_info);
    } else if (error->ee_errno == ECONNREFUSED) {
        keep(udp,
             &(btl_ib_event_t){.type = BTL_IB_EVENT_REFUSED, .error = ECONNREFUSED, .from = from});
    }
}

bool btl_ib_udp_errors(btl_ib_udp_t *udp, const btl_ib_udp_socket_t *socket, btl_ib_addr_t sent)
{
    bool any = false;

    for (int i = 0; i < ERRORS_MAX; i++) {
        btl_ib_udp_name_t to;
        uint8_t payload[1]; /* the beginning of our datagram, which tells nothing new */
        struct iovec iov = {.iov_base = payload, .iov_len = sizeof(payload)};
        _Alignas(struct cmsghdr) uint8_t control[512];
        struct msghdr msg = {
            .msg_name = &to,
            .msg_namelen = sizeof(to),
            .msg_iov = &iov,
            .msg_iovlen = 1,
            .msg_control = control,
            .msg_controllen = sizeof(control),
        };
        memset(&to, 0, sizeof(to));
        if (recvmsg(socket->fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
            return any;
        }
        any = true;
        const struct sock_extended_err *error = find_error(&msg);
        if (error != NULL && msg.msg_namelen > 0) {
            tell(udp, socket, &to, error, sent);
        }
    }
    return any;
}

int btl_ib_udp_send_one(btl_ib_udp_t *udp, const btl_ib_udp_socket_t *socket, const btl_ib_tx_t *tx)
{
    btl_ib_udp_peer_t *peer = &udp->peers.peer[tx->to];
    btl_ib_udp_name_t *to = socket->quick ? &peer->quick : &peer->name;
    const struct msghdr msg = {
        .msg_name = to,
        .msg_namelen = btl_ib_udp_name_len(to),
        .msg_iov = (struct iovec *) tx->iov,
        .msg_iovlen = tx->niov,
    };

    (void) btl_ib_udp_errors(udp, socket, tx->to); /* one of them says what the path carries */
    int error = sendmsg(socket->fd, &msg, MSG_DONTWAIT) < 0 ? errno : 0;
    if (error == EMSGSIZE) {
        (void) btl_ib_udp_errors(udp, socket, tx->to);
    }
    return error;
}
