/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the network says of datagrams sent before: the socket's error queue (IP_RECVERR, ip(7)). Any
 * call on the socket may fail with such an error, although it has nothing to do with it; so the
 * errno of a call is never evidence of anything, only what the queue says, and who says it. Of what
 * ICMP messages say the events carry the bytes of our datagram that they quote, for the engine to
 * compare: the kernel checks addresses and ports only, which anybody can know. Only "port
 * unreachable" says that nobody is there. That a net or host cannot be reached, or that a filter
 * forbids it (EHOSTUNREACH, ENETUNREACH, EACCES), may be over soon.
 */

#include "udp_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <string.h>

enum {
    MTU_LEAST_4 = 552,
    MTU_LEAST_6 = 1280,
    ERRORS_MAX = 64, /* in a call: anybody can make the network say something */
};

/* What weighs less does not take the place of what weighs more. */
static uint32_t weight(const btl_ib_event_t *event)
{
    return event->origin == BTL_IB_ORIGIN_LOCAL ? UINT32_MAX : event->quoted_size;
}

/* Keep an event for the next poll(). One of a kind for each peer is enough, the newest of those
 * that can be checked best; what does not fit is said again with the next datagram. */
static void keep(btl_ib_udp_t *udp, const btl_ib_event_t *event)
{
    for (uint32_t i = 0; i < udp->news_count; i++) {
        if (udp->news[i].type == event->type && udp->news[i].from == event->from) {
            if (weight(event) >= weight(&udp->news[i])) {
                udp->news[i] = *event;
            }
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
static void shrunk(btl_ib_udp_t *udp, btl_ib_event_t event, uint32_t mtu)
{
    const uint32_t least = udp->family == AF_INET ? MTU_LEAST_4 : MTU_LEAST_6;

    event.type = BTL_IB_EVENT_PATH_MTU;
    event.size = btl_ib_udp_datagram(udp->family, mtu > least ? mtu : least);
    if (event.size > 0 && event.size < udp->base.attr.max_datagram) {
        keep(udp, &event);
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

static bool is_icmp(const struct sock_extended_err *error)
{
    return error->ee_origin == SO_EE_ORIGIN_ICMP || error->ee_origin == SO_EE_ORIGIN_ICMP6;
}

/* Who sent the ICMP message, as it says. */
static const char *format_offender(const struct sock_extended_err *error, char *out, size_t len)
{
    const btl_ib_udp_name_t *offender = (const btl_ib_udp_name_t *) SO_EE_OFFENDER(error);
    const bool v4 = offender->any.sa_family == AF_INET;
    const void *ip =
        v4 ? (const void *) &offender->v4.sin_addr : (const void *) &offender->v6.sin6_addr;

    if (!is_icmp(error)) {
        return "this host";
    }
    return inet_ntop(offender->any.sa_family, ip, out, (socklen_t) len) != NULL ? out
                                                                                : "an unknown host";
}

/* `quoted`: the beginning of our datagram, as far as the message has it. `sent`: whom the call that
 * failed was about, if one did: of what this host refuses the kernel does not tell the port. */
static void tell(btl_ib_udp_t *udp, const btl_ib_udp_socket_t *socket, const btl_ib_udp_name_t *to,
                 const struct sock_extended_err *error, const btl_ib_event_t *quoted,
                 btl_ib_addr_t sent)
{
    const btl_ib_udp_name_t known = btl_ib_udp_name_known(socket, to);
    const bool local = error->ee_origin == SO_EE_ORIGIN_LOCAL;
    btl_ib_event_t event = *quoted;
    char text[64], offender[INET6_ADDRSTRLEN];

    event.origin = local ? BTL_IB_ORIGIN_LOCAL : BTL_IB_ORIGIN_NETWORK;
    event.from =
        local && sent != BTL_IB_ADDR_UNKNOWN ? sent : btl_ib_udp_peer_find(&udp->peers, &known);
    BTL_IB_UDP_LOG(udp, 10, "%s: of a datagram to %s: %s, says %s, quoting %u bytes of it",
                   udp->base.name, btl_ib_udp_name_format(to, text, sizeof(text)),
                   strerror((int) error->ee_errno),
                   format_offender(error, offender, sizeof(offender)), event.quoted_size);
    if (event.from == BTL_IB_ADDR_UNKNOWN || (!local && !is_icmp(error))) {
        return;
    }
    if (error->ee_errno == EMSGSIZE) {
        shrunk(udp, event, error->ee_info);
    } else if (error->ee_errno == ECONNREFUSED) {
        event.type = BTL_IB_EVENT_REFUSED;
        event.error = ECONNREFUSED;
        keep(udp, &event);
    }
}

bool btl_ib_udp_errors(btl_ib_udp_t *udp, const btl_ib_udp_socket_t *socket, btl_ib_addr_t sent)
{
    bool any = false;

    for (int i = 0; i < ERRORS_MAX; i++) {
        btl_ib_udp_name_t to;
        btl_ib_event_t quoted = {0};
        struct iovec iov = {.iov_base = quoted.quoted, .iov_len = sizeof(quoted.quoted)};
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
        const ssize_t len = recvmsg(socket->fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT);
        if (len < 0) {
            return any;
        }
        any = true;
        quoted.quoted_size = (uint8_t) len; /* no more than there is room for */
        const struct sock_extended_err *error = find_error(&msg);
        if (error != NULL && msg.msg_namelen > 0) {
            tell(udp, socket, &to, error, &quoted, sent);
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
