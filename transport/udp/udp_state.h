/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the files of transport "udp" share, nobody else's business:
 *
 *   udp_devices.c  which interfaces there are, and what they carry
 *   udp_path.c     what the path to a peer carries
 *   udp_route.c    the same, without what was only learned
 *   udp_peers.c    addresses of peers: as published, as handles, as found in what arrives
 *   udp_socket.c   making sockets: their options and buffers, and what the kernel can do
 *   udp_hot.c      which peers have sockets of their own
 *   udp_send.c     datagrams -> system calls
 *   udp_recv.c     system calls -> events
 *   udp_turns.c    which socket is looked at next
 *   udp_watch.c    which of them have something, by one call
 *   udp_errors.c   what the network says of datagrams sent before: refused, too large
 *   udp.c          the transport made of them
 */

#ifndef BTL_IB_UDP_STATE_H
#define BTL_IB_UDP_STATE_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "transport.h"

enum {
    BTL_IB_UDP_BATCH = 64,         /* datagrams in one send(): the kernel joins no more than that */
    BTL_IB_UDP_BYTES_MAX = 65487,  /* that one system call joins: what IPv6 lets through, too */
    BTL_IB_UDP_CALL_MAX = 16,      /* messages that one system call receives */
    BTL_IB_UDP_BUFFERS_MAX = 1024, /* that hold what was received and is not given back */
    BTL_IB_UDP_BYTES_LONGEST = 65536,                    /* that one message can have */
    BTL_IB_UDP_BUFFER = BTL_IB_UDP_BYTES_LONGEST + 1024, /* those, moved to multiples of 8 */
    BTL_IB_UDP_NEWS = 16,          /* peers that there is news of, before somebody polls */
    BTL_IB_UDP_SHARED_MAX = 2,     /* sockets that serve everybody */
    BTL_IB_UDP_CONNECTED_MAX = 16, /* sockets of single peers */
    BTL_IB_UDP_SOCKETS_MAX = BTL_IB_UDP_SHARED_MAX + BTL_IB_UDP_CONNECTED_MAX,
    BTL_IB_UDP_WINDOW = 4096, /* messages sent to all peers, after which they are counted anew */
    BTL_IB_UDP_HOT = 512,     /* of them to one peer: it gets a socket of its own */
    /* How the kernel counts a datagram in a receive buffer: its bytes, headers, and what stands behind
     * them, in a power of two (of at least so much), and a description. */
    BTL_IB_UDP_COUNTED_MORE = 448,
    BTL_IB_UDP_COUNTED_LEAST = 576,
    BTL_IB_UDP_COUNTED_DESCRIPTION = 256,
};

typedef union btl_ib_udp_name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} btl_ib_udp_name_t;

typedef struct btl_ib_udp_peer {
    btl_ib_udp_name_t name;
    btl_ib_udp_name_t
        quick; /* where it wants what is no bulk, if both of us have a socket for that; else AF_UNSPEC */
    uint32_t users; /* addr_add() less addr_remove(); 0: free */
    uint32_t next;  /* of the same hash, or of the free ones; index + 1, 0: none */
    uint32_t
        path; /* bytes that a datagram carries between it and us, as was known when it was added */
    uint32_t socket; /* that sends to it; 0: the shared one */
    uint32_t window; /* that the next two are of */
    uint32_t sent;   /* messages in it */
    uint32_t before; /* and in the window before */
} btl_ib_udp_peer_t;

typedef struct btl_ib_udp_peers {
    btl_ib_udp_peer_t *peer;
    uint32_t *bucket; /* a power of two of them; index + 1 of the first, 0: none */
    uint32_t count;   /* of `peer` that were ever used */
    uint32_t room;    /* of `peer`; that many buckets */
    uint32_t free;    /* index + 1 of the first free one, 0: none */
    uint32_t last;    /* index of the one found last: most traffic comes in rows */
} btl_ib_udp_peers_t;

/* What one receiving system call filled. Its datagrams are handed up one by one. */
typedef struct btl_ib_udp_buffer {
    struct btl_ib_udp_buffer *next;  /* of free ones */
    struct btl_ib_udp_buffer *older; /* of all */
    uint32_t users; /* events handed up and not reposted, and one if there are more to come */
    btl_ib_udp_name_t name; /* who sent it all, as peers know it */
    bool quick;             /* it came to that socket: the sender's port is the one above */
    _Alignas(64) uint8_t data[BTL_IB_UDP_BUFFER];
} btl_ib_udp_buffer_t;

/* Datagrams in a buffer that no event was made of yet. */
typedef struct btl_ib_udp_rest {
    btl_ib_udp_buffer_t *buffer;
    uint32_t at;            /* of the next */
    uint32_t end;           /* behind the last */
    uint32_t size;          /* of each but the last */
    uint32_t stride;        /* from one to the next */
} btl_ib_udp_rest_t;

/*
 * The first one serves everybody: all that there is, or only bulk if there is a second one, which is bound to the next
 * port and has the rest (`quick`). So a short datagram does not lie behind long messages in one buffer.
 *
 * The others are bound to the port of the last of these, and each is connected to one peer, so that the kernel need not
 * look up a route for each message. What comes to any of them says whom it is from.
 */
typedef struct btl_ib_udp_socket {
    int fd;
    bool quick;         /* between ports that are one above those that name us and the peer */
    uint32_t wide;      /* messages that the next call asks for */
    uint32_t seen;      /* btl_ib_udp_t.looks when something came last */
    btl_ib_addr_t peer; /* that it sends to; BTL_IB_ADDR_UNKNOWN: none, or all */
} btl_ib_udp_socket_t;

/* What one receiving system call needs; it stays ready for the next. */
typedef struct btl_ib_udp_call {
    struct mmsghdr msg[BTL_IB_UDP_CALL_MAX];
    struct iovec iov[BTL_IB_UDP_CALL_MAX];
    btl_ib_udp_name_t name[BTL_IB_UDP_CALL_MAX];
    btl_ib_udp_buffer_t *buffer[BTL_IB_UDP_CALL_MAX]; /* NULL: the last call filled it */
    _Alignas(struct cmsghdr) uint8_t control[BTL_IB_UDP_CALL_MAX][CMSG_SPACE(sizeof(int))];
} btl_ib_udp_call_t;

typedef struct btl_ib_udp {
    btl_ib_transport_t base;
    btl_ib_log_t log;
    btl_ib_udp_socket_t socket[BTL_IB_UDP_SOCKETS_MAX];
    uint32_t sockets;       /* that are open */
    uint32_t shared;        /* of those, the ones that serve everybody */
    uint32_t sockets_max;   /* that may be */
    uint32_t buffer_wanted; /* bytes of each of their buffers; 0: what we like */
    int epoll_fd;           /* readable when one of them is; -1: nobody asked for it */
    bool unwatchable;       /* and there cannot be one for who looks */
    uint32_t
        ready; /* bits: those that had something when that was asked, and were not looked at since */
    uint32_t window;      /* that is counted now */
    uint32_t window_sent; /* messages in it */
    uint32_t turn;        /* the socket asked last because it was its turn */
    uint32_t round;       /* the same, of those that had nothing lately, too */
    uint32_t looks;       /* at any */
    uint32_t busy;        /* sockets that something came to lately, when that was last counted */
    uint32_t swept_at;    /* `looks` when all were looked at in vain, */
    uint32_t in_vain;     /* so many times in a row, with few looks between */
    uint32_t seen_quick;  /* the last of them that found something that is no bulk */
    bool straight;        /* the look before was at bulk first */
    uint32_t passed;      /* the one for bulk since something was in it or it was empty */
    uint64_t swept;       /* ns: all were asked then */
    uint64_t sweep;       /* ns from that to the next time */
    sa_family_t family;
    btl_ib_udp_name_t own;       /* what the first socket is bound to */
    btl_ib_udp_name_t own_quick; /* the second */
    bool gso;                    /* the kernel joins datagrams to be sent */
    bool told_error;             /* a send failed for a reason that was logged */
    uint32_t rx_size;            /* larger datagrams are dropped */
    uint64_t rx_dropped;
    uint32_t buffer_bytes; /* of each socket, as the kernel counts */
    btl_ib_udp_peers_t peers;

    btl_ib_udp_buffer_t *free;
    btl_ib_udp_buffer_t *made; /* all that there are, whoever has them */
    uint32_t buffers;          /* how many */
    btl_ib_udp_call_t call;
    btl_ib_udp_rest_t rest[BTL_IB_UDP_CALL_MAX];
    uint32_t rest_first;
    uint32_t rest_count;

    btl_ib_event_t news[BTL_IB_UDP_NEWS]; /* REFUSED, PATH */
    uint32_t news_count;
} btl_ib_udp_t;

static inline btl_ib_udp_t *btl_ib_udp_of(btl_ib_transport_t *t)
{
    return (btl_ib_udp_t *) t;
}

#define BTL_IB_UDP_LOG(udp, level, ...)                                                            \
    do {                                                                                           \
        if ((udp)->log.print != NULL) {                                                            \
            (udp)->log.print((udp)->log.context, (level), __VA_ARGS__);                            \
        }                                                                                          \
    } while (0)

/* ---- udp_devices.c ---- */

int btl_ib_udp_devices(const btl_ib_search_t *search, btl_ib_device_t **list);
void btl_ib_udp_devices_free(btl_ib_device_t *list, int count);
void btl_ib_udp_describe(const btl_ib_device_t *device, char *out, size_t len);

/* Bytes that one datagram can carry over a device's interface without being fragmented, 0 if nobody
 * knows. A multiple of 8. */
uint32_t btl_ib_udp_device_datagram(const btl_ib_device_t *device);

/* ---- udp_path.c ---- */

/* The same of a path with an MTU of `mtu` bytes. */
uint32_t btl_ib_udp_datagram(sa_family_t family, uint32_t mtu);

/* The same of the path from `own`, an address of ours, to `to`, of the same family. `beyond`: what the peer's
 * interface carries, which counts if it is on another host; also the answer if the kernel does not know. */
uint32_t btl_ib_udp_path(const btl_ib_udp_name_t *own, const btl_ib_udp_name_t *to,
                         uint32_t beyond);

/* ---- udp_route.c ---- */

/* The MTU of the route between two addresses of one family, where a socket tells that it is `told`:
 * more than that if it had only been learned from an ICMP message. `fd`: any socket. */
uint32_t btl_ib_udp_route_mtu(int fd, const btl_ib_udp_name_t *from, const btl_ib_udp_name_t *to,
                              uint32_t told);

/* ---- udp_socket.c ---- */

/* Make those that serve everybody, bound to the device's address. Without two ports side by side bulk has none of its own.
 * Returns 0 or a negative errno after saying why. */
int btl_ib_udp_socket_open(btl_ib_udp_t *udp, const btl_ib_device_t *device,
                           const btl_ib_open_params_t *params);

/* Make another one, bound to the address and port of the last that serves everybody, the last of udp->socket: until it is
 * connected it gets datagrams of anybody. Returns 0 or a negative errno. */
int btl_ib_udp_socket_beside(btl_ib_udp_t *udp);

/* A descriptor that is readable when a socket is, those made later included; -1: there is none. */
int btl_ib_udp_sockets_wait(btl_ib_udp_t *udp);
void btl_ib_udp_sockets_close(btl_ib_udp_t *udp);

/* ---- udp_watch.c ---- */

/* From now on sockets are watched, those made later included. Returns whether they are. */
bool btl_ib_udp_watch(btl_ib_udp_t *udp);

/* A socket that is to be udp->socket[index]: watch it, if they are. Returns 0 or a negative errno. */
int btl_ib_udp_watch_add(const btl_ib_udp_t *udp, int fd, uint32_t index);

/* Bits: sockets that have something, now. They are watched. */
uint32_t btl_ib_udp_watch_ask(btl_ib_udp_t *udp);
void btl_ib_udp_watch_close(btl_ib_udp_t *udp);

/* ---- udp_turns.c ---- */

/* Look at one socket or several, until something is found. */
void btl_ib_udp_look_around(btl_ib_udp_t *udp);

/* ---- udp_hot.c ---- */

/* A message goes to that peer: count it, and give the peer a socket of its own if it is time to. */
void btl_ib_udp_hot(btl_ib_udp_t *udp, btl_ib_addr_t to);

/* A handle is gone: its socket is free for somebody else. */
void btl_ib_udp_hot_forget(btl_ib_udp_t *udp, btl_ib_addr_t addr);

/* ---- udp_peers.c ---- */

socklen_t btl_ib_udp_name_len(const btl_ib_udp_name_t *name);

/* Printed as "10.1.2.3:4567" or "[fd00::1]:4567". */
const char *btl_ib_udp_name_format(const btl_ib_udp_name_t *name, char *out, size_t len);

uint16_t btl_ib_udp_name_port(const btl_ib_udp_name_t *name);
void btl_ib_udp_name_set_port(btl_ib_udp_name_t *name, uint16_t port);

/* The name as peers know it of one that a socket sends to, or got something from. */
static inline btl_ib_udp_name_t btl_ib_udp_name_known(const btl_ib_udp_socket_t *socket,
                                                      const btl_ib_udp_name_t *name)
{
    btl_ib_udp_name_t known = *name;

    if (socket->quick) {
        btl_ib_udp_name_set_port(&known, (uint16_t) (btl_ib_udp_name_port(name) - 1));
    }
    return known;
}

/*
 * What is published, integers in network order: version, family (4 or 6) and Q (the port above is ours, too, for what is
 * no bulk), port, what a datagram carries over the interface (at most UINT16_MAX), address. Returns its length.
 *
 *       0         1         2                   4                   6
 *      +---------+-+-------+-------------------+-------------------+------------------ - -
 *      | version |Q| family|       port        |      carries      | address, 4 or 16 bytes
 *      +---------+-+-------+-------------------+-------------------+------------------ - -
 */
uint32_t btl_ib_udp_name_pack(const btl_ib_udp_name_t *name, uint32_t carries, bool quick,
                              uint8_t *out);

/* Returns 0 or -EINVAL. */
int btl_ib_udp_name_unpack(const void *bytes, size_t len, btl_ib_udp_name_t *name,
                           uint32_t *carries, bool *quick);

/* The peer of that name: one user more. -ENOMEM if there is no memory. */
int btl_ib_udp_peer_add(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name,
                        btl_ib_addr_t *addr);

/* One user less. Returns whether it was the last one: the handle is free then. */
bool btl_ib_udp_peer_remove(btl_ib_udp_peers_t *peers, btl_ib_addr_t addr);

/* Its handle, or BTL_IB_ADDR_UNKNOWN. */
btl_ib_addr_t btl_ib_udp_peer_find(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name);
void btl_ib_udp_peers_free(btl_ib_udp_peers_t *peers);

/* ---- udp_errors.c ---- */

/* Read all that the network said of datagrams sent before by a socket, and keep it as events for poll(). `sent`: whom a
 * call that has just failed was about, or BTL_IB_ADDR_UNKNOWN. Returns whether there was anything. */
bool btl_ib_udp_errors(btl_ib_udp_t *udp, const btl_ib_udp_socket_t *socket, btl_ib_addr_t sent);

/* A datagram was too large, or one before it was (the error does not say): send it again. Returns 0 or an
 * errno: EMSGSIZE if it is this one, and news of the path for poll(). */
int btl_ib_udp_send_one(btl_ib_udp_t *udp, const btl_ib_udp_socket_t *socket,
                        const btl_ib_tx_t *tx);

/* A handle is gone and may soon be somebody else's: forget what was kept of it. */
void btl_ib_udp_errors_forget(btl_ib_udp_t *udp, btl_ib_addr_t addr);

/* ---- udp_send.c, udp_recv.c ---- */

int btl_ib_udp_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error);
int btl_ib_udp_poll(btl_ib_transport_t *t, btl_ib_event_t *events, int max);
void btl_ib_udp_repost(btl_ib_transport_t *t, void *const *buffers, int n);

uint32_t btl_ib_udp_source(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                           uint8_t address[BTL_IB_ADDR_BYTES]);
bool btl_ib_udp_source_text(const btl_ib_transport_t *t, const btl_ib_event_t *event, char *out,
                            size_t len);

/* Look once, at one socket; poll() hands up what was found. */
void btl_ib_udp_look(btl_ib_udp_t *udp, btl_ib_udp_socket_t *from);
void btl_ib_udp_buffers_free(btl_ib_udp_t *udp);

#endif
