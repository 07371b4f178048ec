/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the tests of transport "verbs" over RC see of its inside: rc_inside.c is the only one of
 * their files that includes its private headers, but those of what travels. Sides are those of
 * rc_sides.h.
 */

#ifndef BTL_IB_TEST_RC_INSIDE_H
#define BTL_IB_TEST_RC_INSIDE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "transport.h"
#include "verbs_formats.h"

/* Limits of the transport; rc_inside.c demands that they are its own. */
enum {
    RC_BATCH = 64,         /* datagrams that one call sends */
    RC_BOUNCE_SIZE = 8192, /* bytes of an operation on memory that are copied, unless a test says */
    RC_LINE = 64,          /* bytes that a connection registers for its word, */
    RC_WORD = 12,          /* and of the word that its peer may write */
};

typedef struct rc_inside {
    uint32_t attempts; /* to connect */
    uint32_t pending;  /* connections that are neither open nor closed */
    uint32_t suspected;
    uint32_t slots; /* places for connections */
    bool closed;    /* is anything left of connections that are closed? */
    uint32_t cqs;
    uint32_t peers, unknown, unknown_max; /* unknown: that nobody added */
    uint32_t peer_room;
    uint32_t longest_chain; /* of peers with one hash */
    uint32_t eagers;        /* rings that peers write to */
    bool eagers_off;        /* some are not looked at */
    uint32_t eagers_fading; /* whose peers have yet to learn that */
    uint32_t eager_copies;  /* datagrams of rings that the engine has */
} rc_inside_t;

rc_inside_t rc_inside(const btl_ib_transport_t *t);

/* Bytes of our memory for a peer with one connection of so many receive buffers, without those. */
size_t rc_peer_bytes(const btl_ib_transport_t *t, uint32_t buffers);

/* The address that a transport publishes. */
btl_ib_rc_address_t rc_address(const btl_ib_transport_t *t);

/* A connection. */
typedef struct rc_conn {
    bool open, accepted;
    bool agreed;          /* nothing is sent any more: the peer may close it */
    struct ibv_qp *qp;    /* NULL: there is no connection */
    uint32_t *word;       /* that its peer writes */
    uint32_t reposted;    /* receive buffers */
    uint32_t eager_used;  /* slots of the peer's ring that were written, ever */
    uint32_t eager_slots; /* that it has */
    uint32_t eager_slot;  /* bytes of one */
    bool may_write;       /* to it */
    bool ring;            /* is there one for the peer? */
    uint32_t ring_slots;
    uint32_t ring_sends; /* of the peer, as its datagrams count them */
    uint32_t ring_held;  /* slots that were handed up */
    bool ring_off;       /* it is the first of those that are not looked at */
} rc_conn_t;

rc_conn_t rc_conn(const btl_ib_transport_t *t, btl_ib_addr_t to, uint8_t channel);

/* Open a device that is none. Returns what open() does. */
int rc_open(const btl_ib_open_params_t *params, btl_ib_transport_t **t);

/* What may fail below. */
struct rdma_event_channel *rc_cm_events(const btl_ib_transport_t *t);
struct rdma_cm_id *rc_listener(const btl_ib_transport_t *t);
struct ibv_cq *rc_cq(const btl_ib_transport_t *t);
struct ibv_srq *rc_srq(const btl_ib_transport_t *t, uint32_t channel);

/* The log from now on. */
void rc_set_log(btl_ib_transport_t *t, btl_ib_log_t log);
/* It has that cookie, and publishes it. */
void rc_set_cookie(btl_ib_transport_t *t, uint64_t cookie);
void rc_set_unknown_max(btl_ib_transport_t *t, uint32_t max);
/* What the device is: its port's number, whether it is iWARP, its link layer. */
void rc_set_port(btl_ib_transport_t *t, uint8_t port);
void rc_set_iwarp(btl_ib_transport_t *t, bool iwarp);
void rc_set_link_layer(btl_ib_transport_t *t, uint8_t link_layer);

/* The ring that `from` writes to, of a channel, and at which addresses the two have each other. */
typedef struct rc_ring {
    btl_ib_transport_t *from, *to;
    btl_ib_addr_t from_at, to_at;
    uint8_t channel;
} rc_ring_t;

/* The writer may write, whatever it was told. */
void rc_allow_writes(const rc_ring_t *ring);
/* As if so many had been written. */
void rc_eager_count_from(const rc_ring_t *ring, uint32_t number);
/* Write a datagram of `size` zeros as number `number`, as a peer would that keeps to no rule. */
void rc_eager_forge(const rc_ring_t *ring, uint32_t number, uint32_t size);
/* Where a datagram of `size` bytes is in the first slot. */
uint8_t *rc_eager_first(const rc_ring_t *ring, uint32_t size);

#endif
