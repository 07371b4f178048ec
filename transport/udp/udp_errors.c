/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Any call on a socket may fail with the error of an earlier datagram, so the errno of a call
 * proves nothing. The error queue says which host reports what, of which datagram. Of ICMP messages
 * the kernel compares addresses and ports only, which anybody can know; so events carry the bytes
 * of our datagram that the message quotes, for the engine to compare. Only "port unreachable" says
 * that nobody is there. EHOSTUNREACH, ENETUNREACH and EACCES may be over soon, and are only shown
 * to people.
 */

#include "udp_errors.h"

#include <time.h> /* linux/errqueue.h uses struct timespec without it */
#include <linux/errqueue.h>
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <string.h>

#include "net_interfaces.h"
#include "udp_path_mtu.h"
#include "udp_peers.h"

enum {
    MTU_LEAST_4 = 552,  /* min_pmtu, ip(7) */
    MTU_LEAST_6 = 1280, /* RFC 8200, 5 */
    ERRORS_MAX = 64,    /* errors read at once: anybody can make the network send some */
};

/* Returns how well an event can be checked. Another event replaces it only if it can be checked as
 * well. */
static uint32_t event_weight(const btl_ib_event_t *event)
{
    return event->origin == BTL_IB_ORIGIN_LOCAL ? UINT32_MAX : event->quoted_size;
}

/* Keeps an event for the next poll(): one of each kind for each peer, the newest of those that can
 * be checked best. If there is no room the event is dropped; the next datagram will cause
 * another. */
static void event_keep(btl_ib_udp_errors_t *errors, const btl_ib_event_t *event)
{
    uint32_t i = 0;

    while (i < errors->count
           && (errors->event[i].type != event->type || errors->event[i].from != event->from)) {
        i++;
    }
    if (i < BTL_IB_UDP_ERRORS_MAX
        && (i == errors->count || event_weight(event) >= event_weight(&errors->event[i]))) {
        errors->count += i == errors->count;
        errors->event[i] = *event;
    }
}

/* Keeps which host reported that nothing gets to a peer: in that peer's place; or, if it has none,
 * in the place of the peer that was entered first. */
static void offender_keep(btl_ib_udp_errors_t *errors, btl_ib_addr_t peer,
                          const btl_ib_udp_name_t *by)
{
    uint32_t i = 0;

    while (i < BTL_IB_UDP_OFFENDERS_MAX && errors->offender[i].peer != peer) {
        i++;
    }
    if (i == BTL_IB_UDP_OFFENDERS_MAX) {
        i = errors->next_offender++ % BTL_IB_UDP_OFFENDERS_MAX;
    }
    errors->offender[i] = (btl_ib_udp_offender_t){.peer = peer, .by = *by};
}

bool btl_ib_udp_errors_offender(const btl_ib_udp_errors_t *errors, btl_ib_addr_t peer, char *out,
                                size_t len)
{
    for (uint32_t i = 0; i < BTL_IB_UDP_OFFENDERS_MAX; i++) {
        const btl_ib_udp_offender_t *offender = &errors->offender[i];

        if (offender->peer == peer && offender->by.any.sa_family != AF_UNSPEC) {
            (void) btl_ib_ip_text(&offender->by.any, out, len);
            return true;
        }
    }
    return false;
}

void btl_ib_udp_errors_forget(btl_ib_udp_errors_t *errors, btl_ib_addr_t addr)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < BTL_IB_UDP_OFFENDERS_MAX; i++) {
        if (errors->offender[i].peer == addr) {
            errors->offender[i].by.any.sa_family = AF_UNSPEC;
        }
    }

    for (uint32_t i = 0; i < errors->count; i++) {
        if (errors->event[i].from != addr) {
            errors->event[left++] = errors->event[i];
        }
    }
    errors->count = left;
}

void btl_ib_udp_errors_count_refusal(btl_ib_udp_errors_t *errors, const char *call, int error)
{
    if (++errors->refusals >= BTL_IB_UDP_REFUSALS_MAX && errors->failed == 0) {
        errors->failed = error;
        errors->refused = call;
    }
}

int btl_ib_udp_errors_take(btl_ib_udp_errors_t *errors, btl_ib_event_t *events, int max)
{
    int n = 0;

    if (errors->failed != 0 && !errors->failed_reported && max > 0) {
        errors->failed_reported = true;
        events[n++] = (btl_ib_event_t){.type = BTL_IB_EVENT_FAILED, .error = errors->failed};
    }
    while (n < max && errors->count > 0) {
        events[n++] = errors->event[--errors->count];
    }
    return n;
}

static const struct sock_extended_err *error_find(struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR)
            || (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
            return (const struct sock_extended_err *) (const void *) CMSG_DATA(c);
        }
    }
    return NULL;
}

static bool error_is_icmp(const struct sock_extended_err *error)
{
    return error->ee_origin == SO_EE_ORIGIN_ICMP || error->ee_origin == SO_EE_ORIGIN_ICMP6;
}

static const btl_ib_udp_name_t *offender_of(const struct sock_extended_err *error)
{
    return (const btl_ib_udp_name_t *) (const void *) SO_EE_OFFENDER(error);
}

/* Returns as text the host that reported an error, as an ICMP message claims. `out` may hold it. */
static const char *offender_format(const struct sock_extended_err *error, char *out, size_t len)
{
    const btl_ib_udp_name_t *by = offender_of(error);

    if (!error_is_icmp(error)) {
        return "this host";
    }
    return by->any.sa_family == AF_UNSPEC ? "an unknown host" : btl_ib_ip_text(&by->any, out, len);
}

/* True if the error says "administratively prohibited", as firewalls do (RFC 1812, 5.2.7.1; RFC
 * 4443, 3.1). */
static bool error_is_prohibited(const struct sock_extended_err *error)
{
    if (error->ee_origin == SO_EE_ORIGIN_ICMP) {
        return error->ee_type == ICMP_DEST_UNREACH
               && (error->ee_code == ICMP_PKT_FILTERED || error->ee_code == ICMP_HOST_ANO
                   || error->ee_code == ICMP_NET_ANO);
    }
    return error->ee_errno == EACCES;
}

/* Returns the errno of the UNREACHABLE event that an error makes; 0: it makes none. */
static int error_unreachable_errno(const struct sock_extended_err *error)
{
    if (error_is_prohibited(error)) {
        return EACCES;
    }
    return error->ee_errno == EHOSTUNREACH || error->ee_errno == ENETUNREACH ? (int) error->ee_errno
                                                                             : 0;
}

/* Completes and keeps the event of an error about a datagram to `to`. `event` has the bytes of it
 * that the error quotes; `sent` as for btl_ib_udp_errors_read(). */
static void error_handle(btl_ib_udp_errors_t *errors, const btl_ib_udp_socket_t *socket,
                         const btl_ib_udp_name_t *to, const struct sock_extended_err *error,
                         btl_ib_event_t *event, btl_ib_addr_t sent)
{
    const bool v4 = to->any.sa_family == AF_INET;
    const btl_ib_udp_name_t known = btl_ib_udp_name_known(socket, to);
    const bool local = error->ee_origin == SO_EE_ORIGIN_LOCAL;
    char text[64], offender[INET6_ADDRSTRLEN];

    event->origin = local ? BTL_IB_ORIGIN_LOCAL : BTL_IB_ORIGIN_NETWORK;
    event->from =
        local && sent != BTL_IB_ADDR_UNKNOWN ? sent : btl_ib_udp_peer_find(errors->peers, &known);
    BTL_IB_UDP_LOG(errors->log, 10, "of a datagram to %s: %s, says %s, quoting %u bytes of it",
                   btl_ib_ip_port_text(&to->any, text, sizeof(text)),
                   strerror((int) error->ee_errno),
                   offender_format(error, offender, sizeof(offender)), event->quoted_size);
    if (event->from == BTL_IB_ADDR_UNKNOWN || (!local && !error_is_icmp(error))) {
        return;
    }
    if (error->ee_errno == EMSGSIZE) {
        /* An MTU below the least that paths may have is not believed. */
        const uint32_t least = v4 ? MTU_LEAST_4 : MTU_LEAST_6;
        const uint32_t mtu = error->ee_info > least ? error->ee_info : least;
        event->type = BTL_IB_EVENT_PATH_MTU;
        event->size = btl_ib_udp_mtu_datagram(to->any.sa_family, mtu);
        if (event->size > 0 && event->size < errors->max_datagram) {
            event_keep(errors, event);
        }
    } else if (error->ee_errno == ECONNREFUSED || error_unreachable_errno(error) != 0) {
        const bool refused = error->ee_errno == ECONNREFUSED;
        event->type = refused ? BTL_IB_EVENT_REFUSED : BTL_IB_EVENT_UNREACHABLE;
        event->error = refused ? ECONNREFUSED : error_unreachable_errno(error);
        if (!local) {
            offender_keep(errors, event->from, offender_of(error));
        }
        event_keep(errors, event);
    }
}

bool btl_ib_udp_errors_read(btl_ib_udp_errors_t *errors, const btl_ib_udp_socket_t *socket,
                            btl_ib_addr_t sent)
{
    for (int i = 0; i < ERRORS_MAX; i++) {
        btl_ib_udp_name_t to;
        btl_ib_event_t event = {0};
        struct iovec iov = {.iov_base = event.quoted, .iov_len = sizeof(event.quoted)};
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
            return i > 0;
        }
        event.quoted_size = (uint8_t) len; /* at most sizeof(event.quoted) */
        const struct sock_extended_err *error = error_find(&msg);
        if (error != NULL && msg.msg_namelen > 0) {
            error_handle(errors, socket, &to, error, &event, sent);
        }
    }
    return true;
}
