/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Sockets of a rail of transport "udp", their addresses and how those are published. */

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

/* True if both are addresses of one host, whatever their ports. */
bool btl_ib_udp_name_same_host(const btl_ib_udp_name_t *a, const btl_ib_udp_name_t *b);

/* Returns the address `by` ports further. */
btl_ib_udp_name_t btl_ib_udp_name_shift(const btl_ib_udp_name_t *name, int by);

/* True if address and port are equal. Scope and flow of IPv6 do not count: a received name has its
 * own. */
bool btl_ib_udp_name_same(const btl_ib_udp_name_t *a, const btl_ib_udp_name_t *b);

/*
 * Writes the published form, integers in network order: version, family (4 or 6) with the bit L
 * (there is a latency lane at the next port), port, the largest datagram of the interface, address.
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

/* Reads the published form. Returns 0, or -EINVAL: malformed, port 0, or no address of a single
 * host that others can reach. A link-local address of IPv6 lacks its scope, which is an interface
 * of the host that uses it. */
int btl_ib_udp_name_unpack(const void *bytes, size_t len, btl_ib_udp_name_t *name,
                           uint32_t *max_datagram, bool *latency_lane);

/* ---- log of a rail ---- */

/* Each line begins with the rail's name. */
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
 * on the next port, is the latency lane, which has everything else: a short datagram does not lie
 * behind long messages in one buffer.
 *
 * More can be added, bound to the port of the last shared one, to be connected to one peer each:
 * the kernel looks up no route for each message of a connected socket.
 */

enum {
    BTL_IB_UDP_CONNECTED_MAX = 16,
    BTL_IB_UDP_SOCKETS_MAX = 2 + BTL_IB_UDP_CONNECTED_MAX,
};

typedef struct btl_ib_udp_socket {
    int fd;
    bool latency;   /* in the latency lane: its port, and those that it sends to, are one further */
    bool ect;       /* what leaves without a traffic class of its own has ECT(0) */
    uint8_t unlike; /* calls whose first datagram was to leave otherwise, less the others; 0.. */
} btl_ib_udp_socket_t;

/*
 * A socket that only sends, bound to a port that no peer knows: of the spare flow, or of one of the
 * paths by which bulk leaves at once. It is not polled, which would cost each message 0.16 us, so
 * what comes to it is dropped; errors are read by the next send.
 */
typedef struct btl_ib_udp_sender {
    btl_ib_udp_socket_t socket; /* fd -1: none */
    btl_ib_udp_name_t name;
    uint64_t renewed_at; /* us: when another port was last tried */
    bool failed;         /* the last try got no socket, which was logged */
} btl_ib_udp_sender_t;

/* The spare flow's, and those of paths: of the flows at once all but the usual one. */
enum { BTL_IB_UDP_SENDERS_MAX = BTL_IB_FLOWS_MAX };

typedef struct btl_ib_udp_sockets {
    const btl_ib_udp_log_t *log;
    const char *refused; /* of an open that failed: the system call */
    btl_ib_udp_socket_t socket[BTL_IB_UDP_SOCKETS_MAX];
    uint32_t count;        /* open sockets */
    uint32_t shared;       /* the first of them, which serve all peers: 1, or 2 with two lanes */
    btl_ib_udp_name_t own; /* the name of the first */
    btl_ib_udp_sender_t sender[BTL_IB_UDP_SENDERS_MAX];
    uint32_t sender_tries;        /* ports of the range that were tried for them */
    uint32_t port_min, port_last; /* that may be used; 0: any */
    uint32_t buffer_wanted;       /* bytes of each socket's buffers; 0: the default */
    uint8_t traffic_class;        /* of datagrams sent; 0: the default */
    uint8_t priority;             /* of datagrams sent, in this host; 0: the default */
    bool ecn;                     /* datagrams may leave with ECT(0); codepoints can be told */
    bool tells_codepoints;        /* they are: one came that may have had ECT(0) */
    uint32_t busy_poll;           /* us; 0: as the system does */
    uint32_t buffer_bytes;        /* of each receive buffer, as the kernel counts */
    uint32_t keep_most;   /* messages that stay in a buffer once read (udp_recv.h); 0: none */
    bool within;          /* all that comes by this interface was sent on this host */
    btl_ib_limit_t limit; /* the system's, which keep the buffers small */
    bool gso;             /* the kernel cuts datagrams to be sent out of one buffer (UDP_SEGMENT) */
    bool gro;             /* it joins received ones (UDP_GRO, Linux 5.0 and later) */
    bool no_gro;          /* it is not asked to */
    int epoll_fd;         /* readable when a socket is; -1: there is no such set */
    struct {              /* private to "many rails" */
        uint32_t bit;     /* names the rail among those of this process; 0: no bit was left */
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

/* Opens the shared sockets at the device's address. Without two free ports in a row there is one
 * lane only. Returns 0, or a negative errno after saying why. */
int btl_ib_udp_sockets_open(btl_ib_udp_sockets_t *sockets, const btl_ib_device_t *device,
                            const btl_ib_open_params_t *params);

/* Opens one more socket, to be connected next: until then it gets datagrams of any peer. Returns 0,
 * or a negative errno. */
int btl_ib_udp_sockets_add(btl_ib_udp_sockets_t *sockets);

/* Returns a socket that only sends, which is opened at the first call; the first shared socket if
 * no port is free, or all sockets were closed. */
btl_ib_udp_socket_t *btl_ib_udp_sockets_sender(btl_ib_udp_sockets_t *sockets, uint32_t i);

/* Counts a call whose first datagram is to leave with ECT(0) (`ect`) or without: unlike what leaves
 * by the socket otherwise, or while such calls are counted. Once they are the majority everything
 * leaves as they do. */
void btl_ib_udp_sockets_count_ect(const btl_ib_udp_sockets_t *sockets, btl_ib_udp_socket_t *socket,
                                  bool ect);

/* Has all sockets, later ones included, tell codepoints. */
void btl_ib_udp_sockets_tell_codepoints(btl_ib_udp_sockets_t *sockets);

/* flow_renew() of btl_ib_transport_ops_t, of the flow that leaves by that one. */
void btl_ib_udp_sockets_renew_sender(btl_ib_udp_sockets_t *sockets, uint32_t i, uint64_t now);

/* Returns the epoll set of all sockets, later ones included, which is made at the first call; -1 if
 * that fails, or there is no socket. */
int btl_ib_udp_sockets_epoll(btl_ib_udp_sockets_t *sockets);

/* Asks the epoll set which sockets have something. Returns them as bits; `errors` are those with an
 * error to be read. */
uint32_t btl_ib_udp_sockets_ready(const btl_ib_udp_sockets_t *sockets, uint32_t *errors);

void btl_ib_udp_sockets_close(btl_ib_udp_sockets_t *sockets);

/* Forgets all descriptors without closing them: this process has closed some, and the numbers may
 * be those of other files by now. */
void btl_ib_udp_sockets_forget(btl_ib_udp_sockets_t *sockets);

/* Closes all sockets; those of `by` take their place. The range of ports stays: `by` may have been
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
 * One thread at a time polls the rails of this process in turn. A look at both empty lanes of a
 * rail takes 0.8 us: 8 bytes one way took 14 us with three rails and 45 with sixteen. So if a turn
 * polls more than two, an epoll set of all of them is asked first, once a turn: 9 us, whatever
 * their number. Rails that stand by are open, but not polled in most turns.
 */

/* True while more than two rails are open. */
extern bool btl_ib_udp_rails_many;

typedef enum btl_ib_udp_rail_state {
    BTL_IB_UDP_RAIL_EMPTY,   /* none of its sockets has something */
    BTL_IB_UDP_RAIL_READY,   /* some socket has; the rail's own epoll set knows which */
    BTL_IB_UDP_RAIL_UNKNOWN, /* few rails are polled, or this one cannot be watched */
} btl_ib_udp_rail_state_t;

/* Asks whether any of a rail's sockets has something at `now` (us). The set is asked once for all
 * rails that are polled at one time, and anew when one is polled again. To be called only if there
 * are many rails. */
btl_ib_udp_rail_state_t btl_ib_udp_rails_ask(btl_ib_udp_sockets_t *sockets, uint64_t now);

/* ---- names of both sides ---- */

/* Returns the name, with the first port, of a peer that a socket sends to or receives from. */
static inline btl_ib_udp_name_t btl_ib_udp_name_known(const btl_ib_udp_socket_t *socket,
                                                      const btl_ib_udp_name_t *name)
{
    return btl_ib_udp_name_shift(name, socket->latency ? -1 : 0);
}

/* ---- buffers of a socket ---- */

enum {
    /* The kernel counts a datagram in a receive buffer as its bytes, headers and trailer, rounded
     * up to a power of two or the least, and a descriptor. */
    BTL_IB_UDP_COUNTED_MORE = 448,
    BTL_IB_UDP_COUNTED_LEAST = 576,
    BTL_IB_UDP_COUNTED_DESCRIPTOR = 256,
    BTL_IB_UDP_COUNTED_JOINED = 66 << 10, /* joined datagrams, as many as one message has */
};

/* Returns the bytes of a buffer that the system is asked for: `buffer`, or the default if it is
 * 0. */
uint32_t btl_ib_udp_socket_wanted(uint32_t buffer);

#endif
