/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "rc_inside.h"

#include <endian.h>
#include <string.h>

#undef stop /* cmocka 2.0 has a macro of that name */

#include "transport.h"
#include "verbs_device.h"
#include "verbs_rc_cm.h"
#include "unit.h"

_Static_assert((int) RC_BATCH == BTL_IB_RC_BATCH, "as in verbs_rc_work_queues.h");
_Static_assert((int) RC_LINE == BTL_IB_VERBS_LINE, "as in verbs_device.h");
_Static_assert((int) RC_WORD == BTL_IB_RC_CREDIT_BYTES, "as in verbs_rc_credit.h");

static const btl_ib_rc_t *of(const btl_ib_transport_t *t)
{
    return (const btl_ib_rc_t *) t;
}

static btl_ib_rc_conn_t *conn_of(const btl_ib_transport_t *t, btl_ib_addr_t to, uint8_t channel)
{
    return of(t)->peers.peer[to]->channel[channel].conn;
}

/* ---- what is seen ---- */

static uint32_t longest_chain(const btl_ib_rc_peers_t *peers)
{
    uint32_t longest = 0;

    for (uint32_t i = 0; i < peers->room; i++) {
        uint32_t length = 0;
        for (const btl_ib_rc_peer_t *peer = peers->bucket[i]; peer != NULL; peer = peer->next) {
            length++;
        }
        longest = length > longest ? length : longest;
    }
    return longest;
}

rc_inside_t rc_inside(const btl_ib_transport_t *t)
{
    const btl_ib_rc_t *rc = of(t);

    return (rc_inside_t){
        .attempts = rc->conns.attempts,
        .pending = rc->conns.pending,
        .suspected = rc->conns.suspected,
        .slots = rc->conns.slots,
        .closed = rc->conns.closed != NULL,
        .cqs = rc->cqs.count,
        .peers = rc->peers.count,
        .unknown = rc->peers.unknown,
        .unknown_max = rc->port.unknown_max,
        .peer_room = rc->peers.room,
        .longest_chain = longest_chain(&rc->peers),
        .eagers = rc->eagers.count,
        .eagers_off = rc->eagers.off != NULL,
        .eagers_fading = rc->eagers.fading,
        .eager_copies = rc->eagers.copies_used,
    };
}

size_t rc_peer_bytes(const btl_ib_transport_t *t, uint32_t buffers)
{
    return sizeof(btl_ib_rc_peer_t) + sizeof(btl_ib_rc_conn_t)
           + of(t)->port.tx_depth * sizeof(void *) + buffers * sizeof(btl_ib_verbs_rx_buffer_t);
}

btl_ib_rc_address_t rc_address(const btl_ib_transport_t *t)
{
    btl_ib_rc_address_t addr;

    assert_int_equal(btl_ib_rc_address_unpack(t->address, t->address_len, &addr), 0);
    return addr;
}

rc_conn_t rc_conn(const btl_ib_transport_t *t, btl_ib_addr_t to, uint8_t channel)
{
    const btl_ib_rc_conn_t *conn = conn_of(t, to, channel);

    if (conn == NULL) {
        return (rc_conn_t){.qp = NULL};
    }
    rc_conn_t seen = {
        .open = conn->stage == BTL_IB_RC_OPEN,
        .accepted = conn->stage == BTL_IB_RC_ACCEPTED,
        .agreed = conn->stage == BTL_IB_RC_AGREED,
        .qp = conn->qp,
        .word = (uint32_t *) (void *) conn->memory,
        .reposted = conn->credit.reposted,
        .eager_used = conn->eager_tx.used,
        .eager_slots = conn->eager_tx.slots,
        .eager_slot = conn->eager_tx.slot,
        .may_write = conn->credit.line != NULL && conn->credit.line->in.eager_on != 0,
        .ring = conn->eager != NULL,
    };
    if (conn->eager != NULL) {
        seen.ring_slots = conn->eager->rx.count;
        seen.ring_sends = conn->eager->sends;
        seen.ring_held = conn->eager->taken - conn->eager->freed;
        seen.ring_off = of(t)->eagers.off == conn->eager;
    }
    return seen;
}

/* ---- what is open and may fail ---- */

int rc_open(const btl_ib_open_params_t *params, btl_ib_transport_t **t)
{
    btl_ib_verbs_device_t handle = {.name = "fake0", .port = 1};
    btl_ib_device_t device = {.name = "fake0", .handle = &handle};
    struct sockaddr_in *ip = (struct sockaddr_in *) (void *) &device.ip;

    ip->sin_family = AF_INET;
    ip->sin_addr.s_addr = htonl(0x0a000001);
    assert_true(btl_ib_verbs_prepare(&(btl_ib_search_t){.provider = NULL}, true));
    return btl_ib_verbs_rc_type.open(&device, params, t);
}

struct rdma_event_channel *rc_cm_events(const btl_ib_transport_t *t)
{
    return of(t)->cm.events;
}

struct rdma_cm_id *rc_listener(const btl_ib_transport_t *t)
{
    return of(t)->cm.listener;
}

struct ibv_cq *rc_cq(const btl_ib_transport_t *t)
{
    return of(t)->cqs.cq[0].cq;
}

struct ibv_srq *rc_srq(const btl_ib_transport_t *t, uint32_t channel)
{
    return of(t)->rxqs.queue[channel].rx.pool.srq;
}

/* ---- what is changed ---- */

void rc_set_log(btl_ib_transport_t *t, btl_ib_log_t log)
{
    btl_ib_rc_of(t)->port.verbs.log = log;
}

void rc_set_cookie(btl_ib_transport_t *t, uint64_t cookie)
{
    btl_ib_rc_of(t)->self.cookie = cookie;
    btl_ib_rc_address_pack(&of(t)->self, t->address);
}

void rc_set_unknown_max(btl_ib_transport_t *t, uint32_t max)
{
    btl_ib_rc_of(t)->port.unknown_max = max;
}

void rc_set_port(btl_ib_transport_t *t, uint8_t port)
{
    btl_ib_rc_of(t)->port.verbs.port = port;
}

void rc_set_iwarp(btl_ib_transport_t *t, bool iwarp)
{
    btl_ib_rc_of(t)->port.iwarp = iwarp;
}

void rc_set_link_layer(btl_ib_transport_t *t, uint8_t link_layer)
{
    btl_ib_rc_of(t)->port.verbs.port_attr.link_layer = link_layer;
}

/* ---- rings ---- */

void rc_allow_writes(const rc_ring_t *ring)
{
    conn_of(ring->from, ring->to_at, ring->channel)->credit.line->in.eager_on = 1;
}

void rc_eager_count_from(const rc_ring_t *ring, uint32_t number)
{
    btl_ib_rc_conn_t *writer = conn_of(ring->from, ring->to_at, ring->channel);
    btl_ib_rc_eager_t *eager = conn_of(ring->to, ring->from_at, ring->channel)->eager;

    eager->taken = number;
    eager->freed = number;
    eager->credit->freed = number;
    eager->credit->freed_told = number;
    writer->credit.line->in.eager_freed = htobe32(number);
    writer->eager_tx.used = number;
}

void rc_eager_forge(const rc_ring_t *ring, uint32_t number, uint32_t size)
{
    const btl_ib_rc_eager_t *eager = conn_of(ring->to, ring->from_at, ring->channel)->eager;
    const btl_ib_rc_rx_t *store = &eager->rx;
    uint64_t staged[BTL_IB_RC_EAGER_SLOT / sizeof(uint64_t)];
    uint8_t datagram[BTL_IB_RC_EAGER_SLOT] = {0};
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.sg_list = &sge, .send_flags = IBV_SEND_INLINE};
    const btl_ib_tx_t tx = {.size = size, .iov = {{datagram, size}}};

    btl_ib_rc_eager_fill(&conn_of(ring->from, ring->to_at, ring->channel)->eager_tx, &tx, number,
                         eager->sends, staged, 1, &wr);
    uint8_t *end = btl_ib_verbs_rx_data(&store->buffer[0])
                   + (size_t) (number % store->count + 1) * (store->size + BTL_IB_RC_EAGER_TRAILER);
    memcpy(end - sge.length, staged, sge.length);
}

uint8_t *rc_eager_first(const rc_ring_t *ring, uint32_t size)
{
    const btl_ib_rc_rx_t *store = &conn_of(ring->to, ring->from_at, ring->channel)->eager->rx;

    return btl_ib_verbs_rx_data(&store->buffer[0]) + store->size - size;
}
