/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The sockets of a rail of transport "udp", their addresses and how those are published. */

#ifndef BTL_IB_UDP_SOCKETS_H
#define BTL_IB_UDP_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "transport.h"

/* ---- addresses ---- */

/*
 * Socket addresses, and how one is published to peers.
 *
 * A rail has one port, or two in a row: then the first is the bulk lane, the second the latency
 * lane. Peers know a rail by the address with the first port.
 */

typedef union btl_ib_udp_name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} btl_ib_udp_name_t;

static inline socklen_t btl_ib_udp_name_len(const btl_ib_udp_name_t *name)
{
    return name->any.sa_family == AF_INET ? sizeof(name->v4) : sizeof(name->v6);
}

static inline void btl_ib_udp_name_set_port(btl_ib_udp_name_t *name, uint16_t port)
{
    name->v4.sin_port = htons(port);
}

/* Are both of one host, whatever their ports? */
bool btl_ib_udp_name_same_host(const btl_ib_udp_name_t *a, const btl_ib_udp_name_t *b);

/* The same address, `by` ports further. */
btl_ib_udp_name_t btl_ib_udp_name_shift(const btl_ib_udp_name_t *name, int by);

/* Address and port are equal. Of IPv6 names scope and flow do not count: a received one has
 * its own. */
bool btl_ib_udp_name_same(const btl_ib_udp_name_t *a, const btl_ib_udp_name_t *b);

/*
 * The published form, integers in network order: version, family (4 or 6) with the bit L (there is
 * a latency lane at the next port), port, the largest datagram of the interface, address.
 *
 *       0         1         2                   4                   6
 *      +---------+-+-------+-------------------+-------------------+------------------ - -
 *      | version |L| family|       port        |   max_datagram    | address, 4 or 16 bytes
 *      +---------+-+-------+-------------------+-------------------+------------------ - -
 *
 * Returns its length, at most BTL_IB_UDP_NAME_BYTES.
 */
#define BTL_IB_UDP_NAME_BYTES 22
uint32_t btl_ib_udp_name_pack(const btl_ib_udp_name_t *name, uint32_t max_datagram,
                              bool latency_lane, uint8_t *out);

/* Returns 0, or -EINVAL: malformed, port 0, or no address of a single host that others can
 * reach. A link-local one of IPv6 lacks its scope, an interface of the host that uses it. */
int btl_ib_udp_name_unpack(const void *bytes, size_t len, btl_ib_udp_name_t *name,
                           uint32_t *max_datagram, bool *latency_lane);

/* ---- log of a rail: each line begins with its name ---- */

typedef struct btl_ib_udp_log {
    btl_ib_log_t to;
    const char *name;
} btl_ib_udp_log_t;

#define BTL_IB_UDP_LOG(log, level, format, ...)                                                    \
    do {                                                                                           \
        if ((log)->to.print != NULL) {                                                             \
            (log)->to.print((log)->to.context, (level), "%s: " format, (log)->name, __VA_ARGS__);  \
        }                                                                                          \
    } while (0)

/* ---- the sockets of a rail ---- */

/*
 * The sockets of a rail.
 *
 * One or two serve all peers. With two, the first is the bulk lane; the second, on the next port,
 * is the latency lane, which has everything else: a short datagram does not lie behind long
 * messages in one buffer.
 *
 * More can be added, bound to the port of the last of those, to be connected to one peer each:
 * the kernel looks up no route for each message of a connected socket.
 */

enum {
    BTL_IB_UDP_CONNECTED_MAX = 16,
    BTL_IB_UDP_SOCKETS_MAX = 2 + BTL_IB_UDP_CONNECTED_MAX,
};

typedef struct btl_ib_udp_socket {
    int fd;
    bool latency; /* of the latency lane: its port, and those that it sends to, are one further */
} btl_ib_udp_socket_t;

/*
 * The socket of the spare flow, bound to a port that no peer knows. It is not polled, which would
 * cost each message 0.16 us, so what comes to it is dropped; errors are read by the next send.
 */
typedef struct btl_ib_udp_spare {
    btl_ib_udp_socket_t socket; /* fd -1: none */
    btl_ib_udp_name_t name;
    uint32_t tries;      /* of ports of the range */
    uint64_t renewed_at; /* us: when the engine last wanted another port */
    bool failed;         /* no port was free the last time, which was logged */
} btl_ib_udp_spare_t;

typedef struct btl_ib_udp_sockets {
    const btl_ib_udp_log_t *log;
    btl_ib_udp_socket_t socket[BTL_IB_UDP_SOCKETS_MAX];
    uint32_t count;        /* that are open */
    uint32_t shared;       /* of those, the ones that serve all peers: 1, or 2 with two lanes */
    btl_ib_udp_name_t own; /* what the first is bound to */
    btl_ib_udp_spare_t spare;
    uint32_t port_min, port_last; /* that may be used; 0: any */
    uint32_t buffer_wanted;       /* bytes of each of their buffers; 0: the default */
    uint8_t traffic_class; /* of what they send, and its priority in this host; 0: the default */
    uint8_t priority;
    uint32_t busy_poll;    /* us; 0: as the system does */
    uint32_t buffer_bytes; /* of each receive buffer, as the kernel counts */
    uint32_t keep_most;    /* messages that were read but stay in it, see udp_recv.h; 0: none */
    bool within;           /* whatever comes by this interface was sent on this host */
    btl_ib_limit_t limit;  /* what keeps the buffers small */
    bool gso;         /* the kernel cuts datagrams to be sent out of one buffer (UDP_SEGMENT) */
    int epoll_fd;     /* readable when a socket is; -1: there is no such set */
    struct {          /* private to "many rails" */
        uint32_t bit; /* by which it is named among those of this process; 0: there was none left */
        bool watched; /* in the set of all, */
        bool apart;   /* or never: it could not be */
    } rail;
} btl_ib_udp_sockets_t;

/* None is open. */
static inline void btl_ib_udp_sockets_init(btl_ib_udp_sockets_t *sockets,
                                           const btl_ib_udp_log_t *log)
{
    *sockets = (btl_ib_udp_sockets_t){.log = log, .epoll_fd = -1, .spare = {.socket.fd = -1}};
}

/* Opens the shared ones at the device's address. Without two free ports in a row there is one lane
 * only. Returns 0, or a negative errno after saying why. */
int btl_ib_udp_sockets_open(btl_ib_udp_sockets_t *sockets, const btl_ib_device_t *device,
                            const btl_ib_open_params_t *params);

/* Opens one more, to be connected next: until then it gets datagrams of any peer. Returns 0, or a
 * negative errno. */
int btl_ib_udp_sockets_add(btl_ib_udp_sockets_t *sockets);

/* Returns the socket of the spare flow, which is opened at the first call; without a free port, or
 * once the others are closed, the first of all. */
const btl_ib_udp_socket_t *btl_ib_udp_sockets_spare(btl_ib_udp_sockets_t *sockets);

/* See btl_ib_transport_ops_t. */
void btl_ib_udp_sockets_renew_spare(btl_ib_udp_sockets_t *sockets, uint64_t now);

/* The epoll set of all of them, later ones included; it is made at the first call. -1 if there can
 * be none, or if there is no socket. */
int btl_ib_udp_sockets_epoll(btl_ib_udp_sockets_t *sockets);

/* Which have something now, by the epoll set: bits. `errors`: those with an error to be read. */
uint32_t btl_ib_udp_sockets_ready(const btl_ib_udp_sockets_t *sockets, uint32_t *errors);

void btl_ib_udp_sockets_close(btl_ib_udp_sockets_t *sockets);

/* This process has closed descriptors of ours: the numbers may be those of other files by now. */
void btl_ib_udp_sockets_forget(btl_ib_udp_sockets_t *sockets);

/* Closes them all; those of `by` take their place. The range of ports stays: `by` may have been
 * opened at a part of it. */
static inline void btl_ib_udp_sockets_replace(btl_ib_udp_sockets_t *sockets,
                                              const btl_ib_udp_sockets_t *by)
{
    const uint32_t port_min = sockets->port_min;
    const uint32_t port_last = sockets->port_last;

    btl_ib_udp_sockets_close(sockets);
    *sockets = *by;
    sockets->port_min = port_min;
    sockets->port_last = port_last;
}

/* ---- many rails ---- */

/*
 * The rails of this process, which one thread at a time polls in turn. A look at both lanes of one
 * in vain is 0.8 us: 8 bytes one way took 14 us with three rails and 45 with sixteen. So if a turn
 * polls more than two, an epoll set of all of them is asked first, once a turn: 9 us, whatever
 * their number. Rails that stand by are open, but not polled in most turns.
 */

/* So many are open. */
extern bool btl_ib_udp_rails_many;

typedef enum btl_ib_udp_rail_state {
    BTL_IB_UDP_RAIL_EMPTY,   /* none of its sockets has something */
    BTL_IB_UDP_RAIL_READY,   /* some of them has; its own epoll set, which there is, knows which */
    BTL_IB_UDP_RAIL_UNKNOWN, /* few are polled; or it can't be watched, as looks poll a card */
} btl_ib_udp_rail_state_t;

/* Has any of a rail's sockets something at `now` (us)? The set is asked once for all rails that are
 * polled at one time, and anew when one is polled again. Only if there are many rails. */
btl_ib_udp_rail_state_t btl_ib_udp_rails_ask(btl_ib_udp_sockets_t *sockets, uint64_t now);

/* ---- names of both sides ---- */

/* The name by which peers know what a socket sends to or receives from. */
static inline btl_ib_udp_name_t btl_ib_udp_name_known(const btl_ib_udp_socket_t *socket,
                                                      const btl_ib_udp_name_t *name)
{
    return btl_ib_udp_name_shift(name, socket->latency ? -1 : 0);
}

/* ---- one socket ---- */

/* One UDP socket: its options, its buffers, its port (ip(7), ipv6(7), udp(7)). */

enum {
    /* How the kernel counts a datagram in a receive buffer: its bytes, headers and trailer, rounded
     * up to a power of two of at least so much, and a descriptor. */
    BTL_IB_UDP_COUNTED_MORE = 448,
    BTL_IB_UDP_COUNTED_LEAST = 576,
    BTL_IB_UDP_COUNTED_DESCRIPTOR = 256,
    BTL_IB_UDP_COUNTED_JOINED = 66 << 10, /* joined datagrams, as many as one message has */
};

/* Bytes of a buffer that the system is asked for: `buffer`; 0: what is good for us. */
uint32_t btl_ib_udp_socket_wanted(uint32_t buffer);

#endif
