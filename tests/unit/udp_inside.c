/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_inside.h"
#include "udp.h"
#include "unit.h"

_Static_assert((int) UDP_CONNECT_AFTER == BTL_IB_UDP_CONNECT_AFTER, "as in udp_peers.h");
_Static_assert((int) UDP_CONNECTED_MAX == BTL_IB_UDP_CONNECTED_MAX, "as in udp_sockets.h");
_Static_assert((int) UDP_RECV_BATCH == BTL_IB_UDP_RECV_BATCH, "as in udp_recv.h");
_Static_assert((int) UDP_BUFFERS_MAX == BTL_IB_UDP_BUFFERS_MAX, "as in udp_recv.h");

static const btl_ib_udp_t *of(const btl_ib_transport_t *t)
{
    return (const btl_ib_udp_t *) t;
}

/* Free, or ready for the next call. */
static uint32_t unused(const btl_ib_udp_rx_t *rx)
{
    uint32_t n = 0;

    for (const btl_ib_udp_buffer_t *b = rx->free; b != NULL; b = b->next) {
        n++;
    }
    for (int i = 0; i < BTL_IB_UDP_RECV_BATCH; i++) {
        n += rx->call.buffer[i] != NULL;
    }
    return n;
}

static uint32_t count_kept(const btl_ib_udp_rx_t *rx)
{
    uint32_t n = 0;

    for (int i = 0; i < BTL_IB_UDP_SOCKETS_MAX; i++) {
        n += rx->kept[i].count;
    }
    return n;
}

udp_inside_t udp_inside(const btl_ib_transport_t *t)
{
    return (udp_inside_t){
        .sockets = of(t)->sockets.count,
        .shared = of(t)->sockets.shared,
        .vacant = of(t)->connected.vacant,
        .buffer_bytes = of(t)->sockets.buffer_bytes,
        .buffers = of(t)->rx.buffers,
        .unused = unused(&of(t)->rx),
        .keep_most = of(t)->sockets.keep_most,
        .kept = count_kept(&of(t)->rx),
        .errors = of(t)->errors.count,
    };
}

uint32_t udp_socket_of(const btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    const uint32_t place = of(t)->peers.peer[addr].socket;

    assert_true(place == 0 || of(t)->connected.peer[place] == addr);
    return place;
}

int udp_fd(const btl_ib_transport_t *t, uint32_t socket)
{
    assert_true(socket < of(t)->sockets.count);
    return of(t)->sockets.socket[socket].fd;
}

btl_ib_udp_name_t udp_name(const btl_ib_transport_t *t)
{
    btl_ib_udp_name_t name;
    uint32_t carries;
    bool latency_lane;

    assert_int_equal(
        btl_ib_udp_name_unpack(t->address, t->address_len, &name, &carries, &latency_lane), 0);
    return name;
}

uint32_t udp_ready(const btl_ib_transport_t *t, uint32_t *errors)
{
    return btl_ib_udp_sockets_ready(&of(t)->sockets, errors);
}
