/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The sockets of a rail of transport "udp", their addresses, and how these are published. */

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
 * A socket address (IP address and port) is called a name here. A rail has one port, or two in a
 * row: then the first is that of the bulk lane, the second that of the latency lane. Peers know a
 * rail by the name with its first port.
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

/* True if two names have the same IP address; ports are ignored. */
bool btl_ib_udp_name_same_host(const btl_ib_udp_name_t *a, const btl_ib_udp_name_t *b);

/* Returns the name with a port that is `by` higher. */
btl_ib_udp_name_t btl_ib_udp_name_shift(const btl_ib_udp_name_t *name, int by);

/* True if address and port are equal. Scope and flow label of IPv6 are ignored: those of a received
 * name differ. */
bool btl_ib_udp_name_same(const btl_ib_udp_name_t *a, const btl_ib_udp_name_t *b);

/*
 * Writes the published form of a name, integers in network order: version, family (4 or 6) with the
 * bit L (there is a latency lane at the next port), port, bytes of the largest datagram of the
 * interface, address.
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

/* Reads the published form. Returns 0; or -EINVAL: it is malformed, has port 0, or not the address
 * of a single host that others can reach. The scope of a link-local IPv6 address is 0: the caller
 * sets it to an interface of its own host. */
int btl_ib_udp_name_unpack(const void *bytes, size_t len, btl_ib_udp_name_t *name,
                           uint32_t *max_datagram, bool *latency_lane);

/* ---- log of a rail ---- */

/* The log of a rail. Each line begins with the rail's name. */
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
 * One or two sockets serve all peers ("shared"). With two, the first is the bulk lane; the second,
 * on the next port, is the latency lane, which has everything else, so that no short datagram waits
 * behind long messages in one buffer.
 *
 * Further sockets can be added, bound to the port of the last shared one, and connected to one peer
 * each: then the kernel looks up no route for each message.
 */

enum {
    BTL_IB_UDP_CONNECTED_MAX = 16,
    BTL_IB_UDP_SOCKETS_MAX = 2 + BTL_IB_UDP_CONNECTED_MAX,
};

typedef struct btl_ib_udp_socket {
    int fd;
    bool latency;   /* of the latency lane: its port, and the ports it sends to, are one higher */
    bool ect;       /* messages without a traffic class of their own leave with ECT(0) */
    uint8_t unlike; /* calls whose first datagram wanted the other codepoint, less those that did
                     * not; at least 0 */
} btl_ib_udp_socket_t;

/*
 * A socket that only sends, for the spare flow or for one of the paths of bulk, bound to a port
 * that no peer knows. It is not polled, which would cost each message 0.16 us: datagrams that
 * arrive at it are dropped, and its errors are read when a send fails.
 */
typedef struct btl_ib_udp_sender {
    btl_ib_udp_socket_t socket; /* fd -1: none */
    btl_ib_udp_name_t name;
    uint64_t renewed_at; /* us: when another port was last tried */
    bool failed;         /* the last try got no socket, which was logged */
} btl_ib_udp_sender_t;

/* One for the spare flow, and one for each path (BTL_IB_FLOWS_MAX less the usual flow). */
enum { BTL_IB_UDP_SENDERS_MAX = BTL_IB_FLOWS_MAX };

typedef struct btl_ib_udp_sockets {
    const btl_ib_udp_log_t *log;
    const char *refused; /* after an open that failed: what the system refused (a literal) */
    btl_ib_udp_socket_t socket[BTL_IB_UDP_SOCKETS_MAX];
    uint32_t count;        /* open sockets */
    uint32_t shared;       /* the first ones, which serve all peers: 1, or 2 with two lanes */
    btl_ib_udp_name_t own; /* the name of the first socket */
    btl_ib_udp_sender_t sender[BTL_IB_UDP_SENDERS_MAX];
    uint32_t sender_tries;        /* ports of the range that were tried for senders */
    uint32_t port_min, port_last; /* ports that may be used; 0: any */
    uint32_t buffer_wanted;       /* bytes of each socket's buffers; 0: the default */
    uint8_t traffic_class;        /* of datagrams sent; 0: the default */
    uint8_t priority;             /* of datagrams sent, in this host; 0: the default */
    bool ecn;                     /* datagrams may leave with ECT(0), and codepoints be asked for */
    bool tells_codepoints;        /* codepoints are asked for (BTL_IB_ECT_LEAST) */
    uint32_t busy_poll;           /* us; 0: the system's value */
    uint32_t buffer_bytes;        /* of each receive buffer, as the kernel counts */
    uint32_t keep_most;   /* messages that stay in a buffer after reading (udp_recv.h); 0: none */
    bool within;          /* all that arrives at this interface was sent on this host */
    btl_ib_limit_t limit; /* of the system, which keeps the buffers small */
    bool gso;             /* the kernel splits messages that are sent (UDP_SEGMENT) */
    bool gro;             /* the kernel joins received datagrams (UDP_GRO, Linux 5.0 and later) */
    bool no_gro;          /* the kernel is not asked to join them */
    int epoll_fd;         /* readable when a socket is; -1: there is no such set */
    struct {              /* private to "many rails" */
        uint32_t bit;     /* identifies the rail in this process; 0: no bit was left */
        bool watched;     /* the rail is in the epoll set of all rails */
        bool apart;       /* the rail cannot be in that set */
    } rail;
} btl_ib_udp_sockets_t;

/* Initializes a rail without open sockets. */
static inline void btl_ib_udp_sockets_init(btl_ib_udp_sockets_t *sockets,
                                           const btl_ib_udp_log_t *log)
{
    *sockets = (btl_ib_udp_sockets_t){.log = log, .epoll_fd = -1};
    for (uint32_t i = 0; i < BTL_IB_UDP_SENDERS_MAX; i++) {
        sockets->sender[i].socket.fd = -1;
    }
}

/* True if bulk is to have a socket of its own. */
static inline bool btl_ib_udp_wants_lane(const btl_ib_open_params_t *params)
{
    return params->channels == BTL_IB_CHANNELS_OWN
           || (params->channels == BTL_IB_CHANNELS_AUTO && params->bulk_lane);
}

/* Opens the shared sockets at the device's address; only one, without lanes, if no two ports in a
 * row are free. Returns 0, or a negative errno after logging why. */
int btl_ib_udp_sockets_open(btl_ib_udp_sockets_t *sockets, const btl_ib_device_t *device,
                            const btl_ib_open_params_t *params);

/* Opens one more socket, which the caller connects at once: until then it gets datagrams of any
 * peer. Returns 0 or a negative errno. */
int btl_ib_udp_sockets_add(btl_ib_udp_sockets_t *sockets);

/* Returns the socket of sender `i`, and opens it at the first call; the first shared socket if no
 * port is free, or all sockets were closed. */
btl_ib_udp_socket_t *btl_ib_udp_sockets_sender(btl_ib_udp_sockets_t *sockets, uint32_t i);

/* Counts a call whose first datagram is to leave with ECT(0) (`ect`) or without. Once most calls
 * differ from the socket's option, changes the option. Need not be called for a call that does not
 * differ while socket->unlike is 0. */
void btl_ib_udp_sockets_count_ect(const btl_ib_udp_sockets_t *sockets, btl_ib_udp_socket_t *socket,
                                  bool ect);

/* Asks the system for the codepoints of what all sockets receive, later ones included. */
void btl_ib_udp_sockets_tell_codepoints(btl_ib_udp_sockets_t *sockets);

/* flow_renew() of btl_ib_transport_ops_t, for the flow of sender `i`. */
void btl_ib_udp_sockets_renew_sender(btl_ib_udp_sockets_t *sockets, uint32_t i, uint64_t now);

/* Returns the epoll set of all sockets, later ones included. The first call makes it. -1: that
 * failed, or there is no socket. */
int btl_ib_udp_sockets_epoll(btl_ib_udp_sockets_t *sockets);

/* Asks the epoll set which sockets have something. Returns a bit for each; *errors has a bit for
 * each with an error to be read. */
uint32_t btl_ib_udp_sockets_ready(const btl_ib_udp_sockets_t *sockets, uint32_t *errors);

void btl_ib_udp_sockets_close(btl_ib_udp_sockets_t *sockets);

/* Forgets all descriptors without closing them, as the application has closed some: their numbers
 * may be those of other files by now. */
void btl_ib_udp_sockets_forget(btl_ib_udp_sockets_t *sockets);

/* Closes all sockets, and takes over those of `by`. The range of ports stays as it was: `by` may
 * have been opened with a part of it. */
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
 * A turn of the engine polls the rails of this process one by one; only one thread does so at a
 * time. A look at both empty lanes of a rail takes 0.8 us: 8 bytes one way took 14 us with three
 * rails and 45 with sixteen. So if a turn polls more than two rails, an epoll set of all rails is
 * asked first, once a turn: 9 us for any number of rails. Rails that stand by are open, but not
 * polled in most turns.
 */

/* True while more than two rails are open. */
extern bool btl_ib_udp_rails_many;

typedef enum btl_ib_udp_rail_state {
    BTL_IB_UDP_RAIL_EMPTY,   /* none of its sockets has something */
    BTL_IB_UDP_RAIL_READY,   /* one of them has; the rail's own epoll set knows which */
    BTL_IB_UDP_RAIL_UNKNOWN, /* not asked: few rails are polled, or this one cannot be watched */
} btl_ib_udp_rail_state_t;

/* Asks whether any of a rail's sockets has something. `now`, us, is the same in all calls of a
 * turn: the set is asked at the first one, and again if a rail is polled twice. Called only if
 * btl_ib_udp_rails_many. */
btl_ib_udp_rail_state_t btl_ib_udp_rails_ask(btl_ib_udp_sockets_t *sockets, uint64_t now);

/* ---- names of peers ---- */

/* Returns the name by which a peer is known, with its first port, from the one that a socket sends
 * to or receives from. */
static inline btl_ib_udp_name_t btl_ib_udp_name_known(const btl_ib_udp_socket_t *socket,
                                                      const btl_ib_udp_name_t *name)
{
    return btl_ib_udp_name_shift(name, socket->latency ? -1 : 0);
}

/* ---- buffers of a socket ---- */

enum {
    /* Bytes for which the kernel counts a datagram in a receive buffer: the datagram and MORE
     * (headers, trailer), rounded up to a power of two, at least LEAST; and a DESCRIPTOR. */
    BTL_IB_UDP_COUNTED_MORE = 448,
    BTL_IB_UDP_COUNTED_LEAST = 576,
    BTL_IB_UDP_COUNTED_DESCRIPTOR = 256,
    BTL_IB_UDP_COUNTED_JOINED = 66 << 10, /* a message of 64 KiB that it joined */
};

/* Returns the bytes to ask the system for as the buffer of a socket: `buffer`, or, if that is 0,
 * the default. */
uint32_t btl_ib_udp_socket_wanted(uint32_t buffer);

#endif
