/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_sockets.h"

#include "net_interfaces.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- names ---- */

enum {
    VERSION = 1,
    FAMILY_4 = 4,
    FAMILY_6 = 6,
    LATENCY_LANE = 0x80,
    PORT_AT = 2,
    MAX_DATAGRAM_AT = 4,
    ADDRESS_AT = 6,
};

/* Returns the port, in host order. IPv4 and IPv6 have it at the same offset. */
static uint16_t name_port(const btl_ib_udp_name_t *name)
{
    return ntohs(name->v4.sin_port);
}

btl_ib_udp_name_t btl_ib_udp_name_shift(const btl_ib_udp_name_t *name, int by)
{
    btl_ib_udp_name_t other = *name;

    btl_ib_udp_name_set_port(&other, (uint16_t) (name_port(name) + by));
    return other;
}

bool btl_ib_udp_name_same(const btl_ib_udp_name_t *a, const btl_ib_udp_name_t *b)
{
    return a->v4.sin_port == b->v4.sin_port && btl_ib_udp_name_same_host(a, b);
}

bool btl_ib_udp_name_same_host(const btl_ib_udp_name_t *a, const btl_ib_udp_name_t *b)
{
    if (a->any.sa_family != b->any.sa_family) {
        return false;
    }
    return a->any.sa_family == AF_INET
               ? a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr
               : memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0;
}

uint32_t btl_ib_udp_name_pack(const btl_ib_udp_name_t *name, uint32_t max_datagram,
                              bool latency_lane, uint8_t *out)
{
    const bool v4 = name->any.sa_family == AF_INET;
    const uint32_t size = v4 ? sizeof(name->v4.sin_addr) : sizeof(name->v6.sin6_addr);
    const uint16_t largest = htons((uint16_t) max_datagram);

    out[0] = VERSION;
    out[1] = (uint8_t) ((v4 ? FAMILY_4 : FAMILY_6) | (latency_lane ? LATENCY_LANE : 0));
    memcpy(out + PORT_AT, &name->v4.sin_port, sizeof(name->v4.sin_port));
    memcpy(out + MAX_DATAGRAM_AT, &largest, sizeof(largest));
    memcpy(out + ADDRESS_AT, v4 ? (const void *) &name->v4.sin_addr : &name->v6.sin6_addr, size);
    return ADDRESS_AT + size;
}

/* True for an address of a single host, at which others can reach it. */
static bool name_is_usable(const btl_ib_udp_name_t *name)
{
    if (name->any.sa_family == AF_INET) {
        const uint32_t ip = ntohl(name->v4.sin_addr.s_addr);
        return ip != INADDR_ANY && ip != INADDR_BROADCAST && !IN_MULTICAST(ip);
    }
    return !IN6_IS_ADDR_UNSPECIFIED(&name->v6.sin6_addr)
           && !IN6_IS_ADDR_MULTICAST(&name->v6.sin6_addr);
}

int btl_ib_udp_name_unpack(const void *bytes, size_t len, btl_ib_udp_name_t *name,
                           uint32_t *max_datagram, bool *latency_lane)
{
    const uint8_t *in = bytes;
    uint16_t largest;

    memset(name, 0, sizeof(*name));
    if (len < ADDRESS_AT || in[0] != VERSION) {
        return -EINVAL;
    }
    const uint8_t family = in[1] & (uint8_t) ~LATENCY_LANE;
    if (family == FAMILY_4 && len == ADDRESS_AT + sizeof(name->v4.sin_addr)) {
        name->v4.sin_family = AF_INET;
        memcpy(&name->v4.sin_addr, in + ADDRESS_AT, sizeof(name->v4.sin_addr));
    } else if (family == FAMILY_6 && len == ADDRESS_AT + sizeof(name->v6.sin6_addr)) {
        name->v6.sin6_family = AF_INET6;
        memcpy(&name->v6.sin6_addr, in + ADDRESS_AT, sizeof(name->v6.sin6_addr));
    } else {
        return -EINVAL;
    }
    memcpy(&name->v4.sin_port, in + PORT_AT, sizeof(name->v4.sin_port));
    memcpy(&largest, in + MAX_DATAGRAM_AT, sizeof(largest));
    *max_datagram = ntohs(largest);
    *latency_lane = in[1] & LATENCY_LANE;
    const uint16_t port = name_port(name);
    return port == 0 || (*latency_lane && port == UINT16_MAX) || !name_is_usable(name) ? -EINVAL
                                                                                       : 0;
}

/* ---- options and buffers of a socket ---- */

enum {
    ECN_OFF = 0xfc,  /* a traffic class without the codepoint of ECN */
    UNLIKE_MOST = 4, /* the option changes when `unlike` reaches this */
    BUFFER_WANTED = 4 * 1024 * 1024,
    BUFFER_NEEDED = 212992, /* what stock kernels grant; less holds no bursts of a few peers */
    BUSY_BUDGET = 64,       /* datagrams that one read takes from the card: as one interrupt does */
    KEEP_SHARE = 8,         /* kept messages take at most an eighth of a buffer */
    KEEP_MOST = 16,         /* kept messages, at most: as many as a processor's cache holds */
    KEEP_LEAST = 8,         /* if there is room for fewer none are kept: they would not help */
};

/* Sets a socket option to a number. Returns 0, or -1 with errno. */
static int udp_set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value));
}

/*
 * Sets options of a new socket: errors of the path are reported (IP_RECVERR), and fragments never
 * made. The engine finds out how much the path carries, hence IP_PMTUDISC_PROBE: with
 * IP_PMTUDISC_DO the kernel would refuse what is larger than an ICMP message said, which anybody
 * can forge. Returns NULL, or the option that failed, with errno.
 */
static const char *udp_set_defaults(int fd, sa_family_t family)
{
    const bool v4 = family == AF_INET;

    if (udp_set_option(fd, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_RECVERR : IPV6_RECVERR, 1) != 0) {
        return "setsockopt IP_RECVERR";
    }
    if (!v4 && udp_set_option(fd, SOL_IPV6, IPV6_V6ONLY, 1) != 0) {
        return "setsockopt IPV6_V6ONLY";
    }
    (void) udp_set_option(fd, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER,
                          v4 ? IP_PMTUDISC_PROBE : IPV6_PMTUDISC_PROBE);
    /* Once datagrams found no room, each one that is received comes with their count. */
    (void) udp_set_option(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    /* MSG_PEEK reads behind what was read before (udp_recv.h). */
    (void) udp_set_option(fd, SOL_SOCKET, SO_PEEK_OFF, 0);
    return NULL;
}

uint32_t btl_ib_udp_socket_wanted(uint32_t buffer)
{
    return buffer != 0 ? buffer : BUFFER_WANTED;
}

/* Makes a socket with our options, and buffers as large as wanted, or as the system grants. Returns
 * its descriptor, or a negative errno after logging why at `level`. */
static int udp_socket_new(btl_ib_udp_sockets_t *sockets, int level)
{
    const sa_family_t family = sockets->own.any.sa_family;
    const int bytes = (int) btl_ib_udp_socket_wanted(sockets->buffer_wanted);
    const int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const char *failed = fd < 0 ? "socket" : udp_set_defaults(fd, family);
    const int error = errno;

    if (failed != NULL) {
        sockets->refused = failed;
        BTL_IB_UDP_LOG(sockets->log, level, "%s: %s", failed, strerror(error));
        if (fd >= 0) {
            (void) close(fd);
        }
        return -error;
    }
    (void) udp_set_option(fd, SOL_SOCKET, SO_RCVBUF, bytes);
    (void) udp_set_option(fd, SOL_SOCKET, SO_SNDBUF, bytes);
    return fd;
}

/* Marks datagrams that a socket sends: with `traffic_class` in the IP header (four times the DSCP;
 * the two bits for ECN are ignored), and with `priority` for queueing disciplines and VLANs of this
 * host (SO_PRIORITY, socket(7); above 6 it needs CAP_NET_ADMIN). 0: the default. Logs at `level`
 * what the system refuses. */
static void udp_socket_mark(const btl_ib_udp_log_t *log, int level, int fd, sa_family_t family,
                            uint8_t traffic_class, uint8_t priority)
{
    const bool v4 = family == AF_INET;

    traffic_class &= ECN_OFF;
    if (traffic_class != 0
        && udp_set_option(fd, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_TOS : IPV6_TCLASS, traffic_class)
               != 0) {
        BTL_IB_UDP_LOG(log, level, "traffic class %u (btl_ib_traffic_class): %s", traffic_class,
                       strerror(errno));
    }
    /* The priority comes last: the kernel derives one from the traffic class. */
    if (priority != 0 && udp_set_option(fd, SOL_SOCKET, SO_PRIORITY, priority) != 0) {
        BTL_IB_UDP_LOG(log, level, "priority %u (btl_ib_service_level): %s", priority,
                       strerror(errno));
    }
}

/* Asks the system to report the ECN codepoints of received datagrams (`tells`), or not to. Returns
 * whether it does as asked. */
static bool udp_socket_tell_ecn(const btl_ib_udp_log_t *log, int level, int fd, sa_family_t family,
                                bool tells)
{
    const bool v4 = family == AF_INET;
    const bool can =
        udp_set_option(fd, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_RECVTOS : IPV6_RECVTCLASS, tells) == 0;

    if (!can) {
        BTL_IB_UDP_LOG(log, level, "no ECN (btl_ib_ecn): %s", strerror(errno));
    }
    return can;
}

/*
 * Makes a read of an empty socket poll the card's queue (once, as it has MSG_DONTWAIT) instead of
 * waiting for an interrupt (SO_BUSY_POLL, socket(7)). For more than net.core.busy_read that needs
 * CAP_NET_ADMIN; so does preferring it to interrupts (Linux 5.11), which works if the interface
 * defers them (napi_defer_hard_irqs, gro_flush_timeout). Logs at `level` what the system refuses.
 */
static void udp_socket_busy_poll(const btl_ib_udp_log_t *log, int level, int fd, uint32_t us)
{
    if (us == 0) {
        return;
    }
    if (udp_set_option(fd, SOL_SOCKET, SO_BUSY_POLL, (int) us) != 0) {
        BTL_IB_UDP_LOG(log, level,
                       "busy polling for %u us (btl_ib_udp_busy_poll): %s; more than "
                       "net.core.busy_read needs CAP_NET_ADMIN: sysctl -w net.core.busy_read=%u",
                       us, strerror(errno), us);
        return;
    }
    bool preferred = false;
#ifdef SO_PREFER_BUSY_POLL /* not in headers of older kernels */
    preferred = udp_set_option(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, 1) == 0
                && udp_set_option(fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, BUSY_BUDGET) == 0;
#endif
    BTL_IB_UDP_LOG(log, 10, "busy polling for %u us, %s interrupts", us,
                   preferred ? "preferred to" : "beside");
}

/* Returns the bytes of a socket's SO_RCVBUF or SO_SNDBUF as setsockopt() counts them. (getsockopt()
 * returns twice as much.) */
static uint32_t udp_socket_buffer(int fd, int option)
{
    int value = 0;
    socklen_t len = sizeof(value);

    (void) getsockopt(fd, SOL_SOCKET, option, &value, &len);
    return value < 0 ? 0 : (uint32_t) value / 2;
}

/* Binds a socket to the first free port from `first` to `last` in steps of `step`; to any port if
 * `first` is 0. Returns 0, and *name has the port; or a negative errno. */
static int udp_socket_bind(btl_ib_udp_sockets_t *sockets, int fd, btl_ib_udp_name_t *name,
                           uint32_t first, uint32_t last, uint32_t step)
{
    sockets->refused = "bind"; /* unless it succeeds */
    for (uint32_t port = first; port <= last; port += step) {
        btl_ib_udp_name_set_port(name, (uint16_t) port);
        if (bind(fd, &name->any, btl_ib_udp_name_len(name)) == 0) {
            socklen_t len = sizeof(*name);
            sockets->refused = "getsockname";
            return getsockname(fd, &name->any, &len) == 0 ? 0 : -errno;
        }
        if (errno != EADDRINUSE) {
            return -errno;
        }
    }
    if (first == 0) { /* errno alone would mean an address that nobody asked for */
        sockets->refused = "bind to a port of net.ipv4.ip_local_port_range";
    }
    return -EADDRINUSE;
}

/* Returns the limits of the system that make a socket's buffers smaller than `buffer` bytes; or, if
 * `buffer` is 0, smaller than BUFFER_NEEDED. */
static btl_ib_limit_t udp_socket_limit(const btl_ib_udp_log_t *log, int fd, uint32_t buffer)
{
    const uint32_t needed = buffer != 0 ? buffer : BUFFER_NEEDED;
    const uint32_t rx = udp_socket_buffer(fd, SO_RCVBUF);
    const uint32_t tx = udp_socket_buffer(fd, SO_SNDBUF);

    BTL_IB_UDP_LOG(log, 10, "socket buffers: %u bytes to receive, %u to send", rx, tx);
    btl_ib_limit_t limit = {.needed = needed};
    if (rx < needed) {
        limit.sysctl[0] = "net.core.rmem_max";
        limit.is[0] = rx;
    }
    if (tx < needed) {
        const int i = rx < needed;
        limit.sysctl[i] = "net.core.wmem_max";
        limit.is[i] = tx;
    }
    return limit;
}

/* ---- sockets of a rail ---- */

enum { PAIRS_MAX = 64 }; /* tries to find two ports in a row */

/* Adds a socket that is not bound yet. Returns 0, or a negative errno after logging why at
 * `level`. */
static int socket_open(btl_ib_udp_sockets_t *sockets, bool latency, int level)
{
    const int fd = udp_socket_new(sockets, level);

    if (fd < 0) {
        return fd;
    }
    sockets->gro = !sockets->no_gro && udp_set_option(fd, SOL_UDP, UDP_GRO, 1) == 0;
    udp_socket_mark(sockets->log, sockets->count == 0 ? 1 : 10, fd, sockets->own.any.sa_family,
                    sockets->traffic_class, sockets->priority);
    udp_socket_busy_poll(sockets->log, sockets->count == 0 ? 1 : 10, fd, sockets->busy_poll);
    sockets->ecn = sockets->ecn
                   && udp_socket_tell_ecn(sockets->log, sockets->count == 0 ? 1 : 10, fd,
                                          sockets->own.any.sa_family, sockets->tells_codepoints);
    sockets->socket[sockets->count++] = (btl_ib_udp_socket_t){.fd = fd, .latency = latency};
    return 0;
}

static void socket_close_last(btl_ib_udp_sockets_t *sockets)
{
    (void) close(sockets->socket[--sockets->count].fd);
}

/* ---- codepoints of ECN ---- */

/* Asks for codepoints only when they are needed: each message that has one takes 80 ns more. */
void btl_ib_udp_sockets_tell_codepoints(btl_ib_udp_sockets_t *sockets)
{
    sockets->tells_codepoints = true;
    for (uint32_t i = 0; i < sockets->count; i++) {
        (void) udp_socket_tell_ecn(sockets->log, 10, sockets->socket[i].fd,
                                   sockets->own.any.sa_family, true);
    }
}

void btl_ib_udp_sockets_count_ect(const btl_ib_udp_sockets_t *sockets, btl_ib_udp_socket_t *socket,
                                  bool ect)
{
    const bool v4 = sockets->own.any.sa_family == AF_INET;
    const uint8_t codepoint = ect ? BTL_IB_CODEPOINT_ECT0 : BTL_IB_CODEPOINT_NOT_ECT;

    if (ect == socket->ect) {
        socket->unlike--;
        return;
    }
    if (++socket->unlike >= UNLIKE_MOST
        && udp_set_option(socket->fd, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_TOS : IPV6_TCLASS,
                          (sockets->traffic_class & ECN_OFF) | codepoint)
               == 0) {
        socket->ect = ect;
        socket->unlike = 0;
    }
}

/* ---- epoll sets ---- */

/* Watches a descriptor, whose events will carry `data`. Returns 0, or -1 with errno. */
static int epoll_watch(int set, int fd, uint32_t data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = data};

    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
}

static void epoll_close(int *set)
{
    if (*set >= 0) {
        (void) close(*set);
        *set = -1;
    }
}

/* ---- many rails ---- */

enum { FEW_RAILS = 2 };

bool btl_ib_udp_rails_many;

static struct {
    uint32_t open;     /* bits: rails that are open */
    int epoll_fd;      /* of all rails; -1: there is no set */
    uint32_t ready;    /* bits: rails that had something when the set was last asked */
    uint32_t answered; /* bits: rails that got that answer; when one comes again the set is asked */
    uint64_t turn_at;  /* us: `now` of this turn */
    uint32_t polled;   /* bits: rails that were polled in this turn */
    bool asks;         /* the set is in use, as many rails were polled in the turn before */
} rails = {.epoll_fd = -1};

static void rails_set_open(uint32_t open)
{
    rails.open = open;
    btl_ib_udp_rails_many = __builtin_popcount(open) > FEW_RAILS;
}

static void rails_enter(btl_ib_udp_sockets_t *sockets)
{
    if (~rails.open != 0) {
        sockets->rail.bit = UINT32_C(1) << __builtin_ctz(~rails.open);
        rails_set_open(rails.open | sockets->rail.bit);
    }
}

/* Takes a rail out of the set of all rails. (Closing the rail's own set would not do so if a child
 * of fork() has it as well.) */
static void rails_leave(btl_ib_udp_sockets_t *sockets)
{
    if (sockets->rail.watched && rails.epoll_fd >= 0) {
        (void) epoll_ctl(rails.epoll_fd, EPOLL_CTL_DEL, sockets->epoll_fd, NULL);
    }
    rails_set_open(rails.open & ~sockets->rail.bit);
    sockets->rail.bit = 0;
    sockets->rail.watched = false;
    if (rails.open == 0) {
        epoll_close(&rails.epoll_fd);
    }
}

/* Adds a rail, with its own epoll set, to the set of all. Returns false if that fails. */
static bool rails_watch(const btl_ib_udp_sockets_t *sockets, int own)
{
    if (rails.epoll_fd < 0) {
        rails.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    }
    if (rails.epoll_fd < 0 || epoll_watch(rails.epoll_fd, own, sockets->rail.bit) != 0) {
        BTL_IB_UDP_LOG(sockets->log, 10, "it is not watched with the other rails: %s",
                       strerror(errno));
        return false;
    }
    rails.answered |= sockets->rail.bit; /* the last answer lacks this rail: ask again */
    return true;
}

/* Asks the set which rails have something. Returns bits. */
static uint32_t rails_find_ready(void)
{
    struct epoll_event events[32];
    const int n = epoll_wait(rails.epoll_fd, events, 32, 0);
    uint32_t ready = n < 0 ? UINT32_MAX : 0; /* after a failure each rail asks its own set */

    for (int i = 0; i < n; i++) {
        ready |= events[i].data.u32;
    }
    return ready;
}

btl_ib_udp_rail_state_t btl_ib_udp_rails_ask(btl_ib_udp_sockets_t *sockets, uint64_t now)
{
    const uint32_t bit = sockets->rail.bit;
    const bool new_turn = now != rails.turn_at;

    if (new_turn) {
        rails.asks = __builtin_popcount(rails.polled) > FEW_RAILS;
        rails.polled = 0;
        rails.turn_at = now;
    }
    rails.polled |= bit;
    if (!rails.asks || sockets->rail.apart) {
        return BTL_IB_UDP_RAIL_UNKNOWN;
    }
    if (!sockets->rail.watched) {
        const int own =
            bit != 0 && sockets->busy_poll == 0 ? btl_ib_udp_sockets_epoll(sockets) : -1;
        sockets->rail.watched = own >= 0 && rails_watch(sockets, own);
        sockets->rail.apart = !sockets->rail.watched;
        if (sockets->rail.apart) {
            return BTL_IB_UDP_RAIL_UNKNOWN;
        }
    }
    if (new_turn || rails.answered & bit) {
        rails.ready = rails_find_ready();
        rails.answered = 0;
    }
    rails.answered |= bit;
    return rails.ready & bit ? BTL_IB_UDP_RAIL_READY : BTL_IB_UDP_RAIL_EMPTY;
}

/* ---- shared sockets ---- */

/* Returns the last port that may be used; 0: any port may. */
static uint32_t last_port(const btl_ib_open_params_t *params)
{
    const uint32_t last = params->port_min == 0 ? 0 : params->port_min + params->port_count - 1;

    return last < UINT16_MAX ? last : UINT16_MAX;
}

/* Adds a socket, and binds it as udp_socket_bind() does. Returns 0 or a negative errno. */
static int socket_open_bound(btl_ib_udp_sockets_t *sockets, btl_ib_udp_name_t *name, uint32_t first,
                             uint32_t last, uint32_t step)
{
    const uint32_t index = sockets->count;
    const int rc = socket_open(sockets, index > 0, 1);

    return rc != 0 ? rc
                   : udp_socket_bind(sockets, sockets->socket[index].fd, name, first, last, step);
}

static int sockets_open_single(btl_ib_udp_sockets_t *sockets, const btl_ib_open_params_t *params)
{
    const uint32_t last = last_port(params);
    const int rc = socket_open_bound(sockets, &sockets->own, params->port_min, last, 1);
    char ports[32] = "any port";
    char ip[INET6_ADDRSTRLEN];

    if (rc != 0) {
        if (last != 0) {
            snprintf(ports, sizeof(ports), "ports %u to %u", params->port_min, last);
        }
        BTL_IB_UDP_LOG(sockets->log, 1, "bind to %s, %s: %s",
                       btl_ib_ip_text(&sockets->own.any, ip, sizeof(ip)), ports, strerror(-rc));
    }
    return rc;
}

/* Opens two sockets at ports in a row. In a range only each second port can be the first of the
 * two, so that rails leave no single ports between them. Returns 0 or a negative errno. */
static int sockets_open_pair(btl_ib_udp_sockets_t *sockets, const btl_ib_open_params_t *params)
{
    const uint32_t last = last_port(params);
    uint32_t first = params->port_min;
    int rc = 0;

    for (int i = 0; i < PAIRS_MAX; i++) {
        rc = socket_open_bound(sockets, &sockets->own, first, last > 0 ? last - 1 : 0, 2);
        if (rc != 0) {
            break;
        }
        btl_ib_udp_name_t next = btl_ib_udp_name_shift(&sockets->own, 1);
        const uint16_t port = name_port(&next);
        rc = port == 0 ? -EADDRINUSE : socket_open_bound(sockets, &next, port, port, 1);
        if (rc == 0) {
            return 0;
        }
        btl_ib_udp_sockets_close(sockets);
        if (rc != -EADDRINUSE) {
            break;
        }
        first = first == 0 ? 0 : port + 1u;
    }
    btl_ib_udp_sockets_close(sockets);
    return rc;
}

/* Returns how many messages may stay in a buffer after reading (udp_recv.h); 0 if the kernel cannot
 * read behind them (SO_PEEK_OFF, socket(7)). */
static uint32_t sockets_allow_kept(const btl_ib_udp_sockets_t *sockets)
{
    const uint32_t room = sockets->buffer_bytes / KEEP_SHARE / BTL_IB_UDP_COUNTED_JOINED;

    if (room < KEEP_LEAST
        || udp_set_option(sockets->socket[0].fd, SOL_SOCKET, SO_PEEK_OFF, 0) != 0) {
        return 0;
    }
    return room < KEEP_MOST ? room : KEEP_MOST;
}

int btl_ib_udp_sockets_open(btl_ib_udp_sockets_t *sockets, const btl_ib_device_t *device,
                            const btl_ib_open_params_t *params)
{
    btl_ib_facts_t facts;
    int rc = -ENOTSUP;

    memcpy(&sockets->own, &device->ip, sizeof(sockets->own));
    sockets->buffer_wanted = params->socket_buffer;
    sockets->traffic_class = params->traffic_class;
    sockets->priority = params->service_level;
    /* No ECN with a priority: a control message for ECT(0) would also change the priority. */
    sockets->ecn = params->ecn && params->service_level == 0;
    sockets->busy_poll = params->busy_poll;
    sockets->no_gro = params->no_gro;
    sockets->port_min = params->port_min;
    sockets->port_last = last_port(params);
    if (btl_ib_udp_wants_lane(params)) {
        rc = sockets_open_pair(sockets, params);
        if (rc != 0) {
            BTL_IB_UDP_LOG(sockets->log, 1,
                           "long messages share the socket of all else, and small ones wait behind "
                           "them: no two ports side by side for btl_ib_bulk_lane "
                           "(btl_ib_port_min %u, btl_ib_port_range %u): %s",
                           params->port_min, params->port_count, strerror(-rc));
        }
    }
    if (rc != 0) {
        rc = sockets_open_single(sockets, params);
    }
    if (rc != 0) {
        return rc;
    }
    const int fd = sockets->socket[0].fd;
    sockets->shared = sockets->count;
    sockets->limit = udp_socket_limit(sockets->log, fd, params->socket_buffer);
    sockets->buffer_bytes = 2 * udp_socket_buffer(fd, SO_RCVBUF);
    sockets->keep_most = sockets_allow_kept(sockets);
    /* Such interfaces are the loopback interface, and a veth, which leads to a container. */
    btl_ib_facts_interface_driver(device->interface, &facts);
    sockets->within = device->loopback || strcmp(facts.driver, "veth") == 0;
    /* Kernels before 4.18 do not know the option, and refuse it. */
    sockets->gso = !params->no_gso && udp_set_option(fd, SOL_UDP, UDP_SEGMENT, 0) == 0;
    BTL_IB_UDP_LOG(sockets->log, 10,
                   "the kernel %s datagrams to send (UDP_SEGMENT), %s received ones (UDP_GRO)",
                   sockets->gso     ? "joins"
                   : params->no_gso ? "is not asked (btl_ib_udp_gso) to join"
                                    : "does not join",
                   sockets->gro     ? "joins"
                   : params->no_gro ? "is not asked to join"
                                    : "does not join");
    rails_enter(sockets);
    return 0;
}

/* ---- sockets to be connected ---- */

/* Lets other sockets be bound to our ports (`value` 1), or not (0). Returns 0, or -1 with errno. */
static int sockets_share_ports(const btl_ib_udp_sockets_t *sockets, int value)
{
    int rc = 0;

    for (uint32_t i = 0; i < sockets->count && rc == 0; i++) {
        rc = udp_set_option(sockets->socket[i].fd, SOL_SOCKET, SO_REUSEPORT, value);
    }
    return rc;
}

/* Binds the newest socket to the port of the last shared one. No other process may be bound to that
 * port. So it was bound without SO_REUSEPORT, which is set for this bind() only, and even then
 * admits sockets of this user only (socket(7)); SO_REUSEADDR would admit anybody's. Returns 0 or a
 * negative errno. */
static int sockets_bind_shared(btl_ib_udp_sockets_t *sockets)
{
    const int fd = sockets->socket[sockets->count - 1].fd;
    const btl_ib_udp_name_t name = btl_ib_udp_name_shift(&sockets->own, (int) sockets->shared - 1);
    int rc = sockets_share_ports(sockets, 1);

    if (rc == 0) {
        rc = bind(fd, &name.any, btl_ib_udp_name_len(&name));
    }
    const int error = rc == 0 ? 0 : errno;
    (void) sockets_share_ports(sockets, 0);
    return -error;
}

int btl_ib_udp_sockets_add(btl_ib_udp_sockets_t *sockets)
{
    const uint32_t index = sockets->count;
    int rc = socket_open(sockets, sockets->shared > 1, 10);

    if (rc != 0) {
        return rc;
    }
    /* A smaller buffer would not hold the credits that peers were granted. */
    if (2 * udp_socket_buffer(sockets->socket[index].fd, SO_RCVBUF) < sockets->buffer_bytes) {
        rc = -ENOBUFS;
    } else if (sockets->epoll_fd >= 0
               && epoll_watch(sockets->epoll_fd, sockets->socket[index].fd, index) != 0) {
        rc = -errno;
    } else {
        rc = sockets_bind_shared(sockets); /* comes last: from then on it may hold datagrams */
    }
    if (rc != 0) {
        socket_close_last(sockets);
    }
    return rc;
}

/* ---- sockets that only send ---- */

enum { SENDER_PAUSE = 1000000 }; /* us between two changes of a sender's port, at least */

/* Binds the socket of a sender to a port of the range. Goes from the last port down, as pairs are
 * taken from the first one up; ports that were tried before come last. Returns 0 or a negative
 * errno. */
static int sender_bind(btl_ib_udp_sockets_t *sockets, int fd, btl_ib_udp_name_t *name)
{
    const uint32_t count = sockets->port_last - sockets->port_min + 1;
    int rc = -EADDRINUSE;

    for (uint32_t i = 0; i < count && rc == -EADDRINUSE; i++) {
        const uint32_t port = sockets->port_last - sockets->sender_tries++ % count;
        rc = udp_socket_bind(sockets, fd, name, port, port, 1);
    }
    return rc;
}

/* Opens the socket of a sender, or replaces it by one of another port. Does nothing if no port is
 * free. */
static void sender_open(btl_ib_udp_sockets_t *sockets, uint32_t i)
{
    btl_ib_udp_sender_t *sender = &sockets->sender[i];
    const sa_family_t family = sockets->own.any.sa_family;
    bool reported = false; /* a sender failed before, which was logged at level 1 */
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog filter = {.len = 1, .filter = &drop};
    btl_ib_udp_name_t name = sockets->own;
    char text[64];
    const int fd = udp_socket_new(sockets, 10);
    const int rc = fd < 0 ? fd : sender_bind(sockets, fd, &name);

    if (rc != 0) {
        for (uint32_t k = 0; k < BTL_IB_UDP_SENDERS_MAX; k++) {
            reported |= sockets->sender[k].failed;
        }
        BTL_IB_UDP_LOG(sockets->log, reported ? 10 : 1,
                       "no further port to send by, though some may lead nowhere or be capped "
                       "(btl_ib_port_min %u): %s",
                       sockets->port_min, strerror(-rc));
        sender->failed = true;
        if (fd >= 0) {
            (void) close(fd);
        }
        return;
    }
    /* Nobody reads the socket: a filter drops what arrives, so that its buffer stays empty. */
    (void) setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
    udp_socket_mark(sockets->log, 10, fd, family, sockets->traffic_class, sockets->priority);
    if (sender->socket.fd >= 0) {
        (void) close(sender->socket.fd);
    }
    sender->socket = (btl_ib_udp_socket_t){.fd = fd};
    sender->name = name;
    sender->failed = false;
    BTL_IB_UDP_LOG(sockets->log, 10, "it sends from %s, too",
                   btl_ib_ip_port_text(&name.any, text, sizeof(text)));
}

btl_ib_udp_socket_t *btl_ib_udp_sockets_sender(btl_ib_udp_sockets_t *sockets, uint32_t i)
{
    btl_ib_udp_sender_t *sender = &sockets->sender[i];

    if (sender->socket.fd < 0 && !sender->failed && sockets->count > 0) {
        sender_open(sockets, i);
    }
    return sender->socket.fd >= 0 ? &sender->socket : &sockets->socket[0];
}

void btl_ib_udp_sockets_renew_sender(btl_ib_udp_sockets_t *sockets, uint32_t i, uint64_t now)
{
    if (now - sockets->sender[i].renewed_at >= SENDER_PAUSE && sockets->count > 0) {
        sockets->sender[i].renewed_at = now;
        sender_open(sockets, i);
    }
}

/* ---- epoll set of a rail ---- */

int btl_ib_udp_sockets_epoll(btl_ib_udp_sockets_t *sockets)
{
    int rc;

    if (sockets->epoll_fd >= 0 || sockets->count == 0) {
        return sockets->epoll_fd;
    }
    sockets->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    rc = sockets->epoll_fd < 0 ? -1 : 0;
    for (uint32_t i = 0; i < sockets->count && rc == 0; i++) {
        rc = epoll_watch(sockets->epoll_fd, sockets->socket[i].fd, i);
    }
    if (rc != 0) {
        BTL_IB_UDP_LOG(sockets->log, 10, "no epoll set of its sockets: %s", strerror(errno));
        epoll_close(&sockets->epoll_fd);
    }
    return sockets->epoll_fd;
}

uint32_t btl_ib_udp_sockets_ready(const btl_ib_udp_sockets_t *sockets, uint32_t *errors)
{
    struct epoll_event events[BTL_IB_UDP_SOCKETS_MAX];
    const int n = epoll_wait(sockets->epoll_fd, events, BTL_IB_UDP_SOCKETS_MAX, 0);
    uint32_t ready = 0;

    *errors = 0;
    if (n < 0) { /* the application closed the set, and most likely the sockets: look at all */
        return (UINT32_C(1) << sockets->count) - 1;
    }
    for (int i = 0; i < n; i++) {
        const uint32_t bit = UINT32_C(1) << events[i].data.u32;
        ready |= bit;
        *errors |= events[i].events & EPOLLERR ? bit : 0;
    }
    return ready;
}

/* ---- closing ---- */

void btl_ib_udp_sockets_close(btl_ib_udp_sockets_t *sockets)
{
    rails_leave(sockets);
    while (sockets->count > 0) {
        socket_close_last(sockets);
    }
    sockets->shared = 0;
    for (uint32_t i = 0; i < BTL_IB_UDP_SENDERS_MAX; i++) {
        if (sockets->sender[i].socket.fd >= 0) {
            (void) close(sockets->sender[i].socket.fd);
            sockets->sender[i].socket.fd = -1;
        }
    }
    epoll_close(&sockets->epoll_fd);
}

void btl_ib_udp_sockets_forget(btl_ib_udp_sockets_t *sockets)
{
    rails.epoll_fd = -1;
    rails_leave(sockets);
    sockets->count = 0;
    sockets->shared = 0;
    for (uint32_t i = 0; i < BTL_IB_UDP_SENDERS_MAX; i++) {
        sockets->sender[i].socket.fd = -1;
    }
    sockets->epoll_fd = -1;
}
