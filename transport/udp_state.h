/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the files of transport "udp" share, nobody else's business:
 *
 *   udp_devices.c  which interfaces there are, and what they carry
 *   udp_peers.c    addresses of peers: as published, as handles, as found in what arrives
 *   udp_socket.c   making the socket: its options and buffers, and what the kernel can do
 *   udp_send.c     datagrams -> system calls
 *   udp_recv.c     system calls -> events
 *   udp_errors.c   what the network says of datagrams sent before: refused, too large
 *   udp.c          the transport made of them
 */

#ifndef BTL_IB_UDP_STATE_H
#define BTL_IB_UDP_STATE_H

#include <netinet/in.h>

#include "transport.h"

enum {
    BTL_IB_UDP_BATCH = 64,         /* datagrams in one send(): the kernel joins no more than that */
    BTL_IB_UDP_BYTES_MAX = 65487,  /* that one system call joins: what IPv6 lets through, too */
    BTL_IB_UDP_CALL_MAX = 16,      /* messages that one system call receives */
    BTL_IB_UDP_BUFFERS_MAX = 1024, /* that hold what was received and is not given back */
    BTL_IB_UDP_BYTES_LONGEST = 65536,                    /* that one message can have */
    BTL_IB_UDP_BUFFER = BTL_IB_UDP_BYTES_LONGEST + 1024, /* those, moved to multiples of 8 */
    BTL_IB_UDP_NEWS = 16, /* peers that there is news of, before somebody polls */
};

typedef union btl_ib_udp_name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} btl_ib_udp_name_t;

typedef struct btl_ib_udp_peer {
    btl_ib_udp_name_t name;
    uint32_t users; /* addr_add() less addr_remove(); 0: free */
    uint32_t next;  /* of the same hash, or of the free ones; index + 1, 0: none */
    bool told_fragments;
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
    _Alignas(64) uint8_t data[BTL_IB_UDP_BUFFER];
} btl_ib_udp_buffer_t;

/* Datagrams in a buffer that no event was made of yet. */
typedef struct btl_ib_udp_rest {
    btl_ib_udp_buffer_t *buffer;
    btl_ib_udp_name_t name; /* of who sent them */
    uint32_t at;            /* of the next */
    uint32_t end;           /* behind the last */
    uint32_t size;          /* of each but the last */
    uint32_t stride;        /* from one to the next */
} btl_ib_udp_rest_t;

typedef struct btl_ib_udp {
    btl_ib_transport_t base;
    btl_ib_log_t log;
    int fd;
    sa_family_t family;
    bool gso;         /* the kernel joins datagrams to be sent */
    bool told_error;  /* a send failed for a reason that was logged */
    uint32_t rx_size; /* larger datagrams are dropped */
    uint64_t rx_dropped;
    uint32_t buffer_bytes; /* of the socket, as the kernel counts */
    btl_ib_udp_peers_t peers;

    btl_ib_udp_buffer_t *free;
    btl_ib_udp_buffer_t *made; /* all that there are, whoever has them */
    uint32_t buffers;          /* how many */
    btl_ib_udp_rest_t rest[BTL_IB_UDP_CALL_MAX];
    uint32_t rest_first;
    uint32_t rest_count;
    uint32_t wide; /* messages that the next call asks for */

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

int btl_ib_udp_devices(const char *provider, const btl_ib_log_t *log, btl_ib_device_t **list);
void btl_ib_udp_devices_free(btl_ib_device_t *list, int count);

/* Bytes that one datagram can carry over a device's interface without being fragmented, 0 if nobody
 * knows. A multiple of 8. */
uint32_t btl_ib_udp_device_datagram(const btl_ib_device_t *device);

/* The same of a path with an MTU of `mtu` bytes. */
uint32_t btl_ib_udp_datagram(sa_family_t family, uint32_t mtu);

/* ---- udp_socket.c ---- */

/* Make the socket, bound to the device's address. Returns 0 or a negative errno after saying why. */
int btl_ib_udp_socket_open(btl_ib_udp_t *udp, const btl_ib_device_t *device,
                           const btl_ib_open_params_t *params);

/* From now on datagrams that are too large for the path are an error (true), or are sent in
 * fragments. */
void btl_ib_udp_socket_whole(const btl_ib_udp_t *udp, bool whole);

/* ---- udp_peers.c ---- */

socklen_t btl_ib_udp_name_len(const btl_ib_udp_name_t *name);

/* Printed as "10.1.2.3:4567" or "[fd00::1]:4567". */
const char *btl_ib_udp_name_format(const btl_ib_udp_name_t *name, char *out, size_t len);

/* What is published: version, family, port, address. Returns its length. */
uint32_t btl_ib_udp_name_pack(const btl_ib_udp_name_t *name, uint8_t *out);

/* Returns 0 or -EINVAL. */
int btl_ib_udp_name_unpack(const void *bytes, size_t len, btl_ib_udp_name_t *name);

/* The peer of that name: one user more. -ENOMEM if there is no memory. */
int btl_ib_udp_peer_add(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name,
                        btl_ib_addr_t *addr);

/* One user less. Returns whether it was the last one: the handle is free then. */
bool btl_ib_udp_peer_remove(btl_ib_udp_peers_t *peers, btl_ib_addr_t addr);

/* Its handle, or BTL_IB_ADDR_UNKNOWN. */
btl_ib_addr_t btl_ib_udp_peer_find(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name);
void btl_ib_udp_peers_free(btl_ib_udp_peers_t *peers);

/* ---- udp_errors.c ---- */

/* Read all that the network said of datagrams sent before, and keep it as events for poll(). `sent`: whom a call
 * that has just failed was about, or BTL_IB_ADDR_UNKNOWN. Returns whether there was anything. */
bool btl_ib_udp_errors(btl_ib_udp_t *udp, btl_ib_addr_t sent);

/* A datagram was too large, or one before it was (the error does not say): send it again, in fragments
 * if it must be. Returns 0 or an errno. */
int btl_ib_udp_send_fragmented(btl_ib_udp_t *udp, const btl_ib_tx_t *tx);

/* A handle is gone and may soon be somebody else's: forget what was kept of it. */
void btl_ib_udp_errors_forget(btl_ib_udp_t *udp, btl_ib_addr_t addr);

/* ---- udp_send.c, udp_recv.c ---- */

int btl_ib_udp_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error);
int btl_ib_udp_poll(btl_ib_transport_t *t, btl_ib_event_t *events, int max);
void btl_ib_udp_repost(btl_ib_transport_t *t, void *const *buffers, int n);
void btl_ib_udp_buffers_free(btl_ib_udp_t *udp);

#endif
