/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which peers have sockets of their own. A socket that is connected knows the route, which the kernel looks up for
 * each message otherwise, has a buffer that nobody else fills, and hears of nobody else's errors.
 *
 * Where bulk has a socket for itself these have no part in it: what they save is little beside what it costs, and what is
 * quick would lie behind it in their buffers.
 *
 * Messages to each peer are counted in windows: BTL_IB_UDP_WINDOW messages to all peers. At BTL_IB_UDP_HOT in one of
 * them a peer gets a socket: one that nobody has, a new one, or that of a peer that had less than half as many. A
 * socket moves to another peer by a second connect() (connect(2)): it is never without a peer then, and what the old
 * one sent stays in it and says whom it is from. So none is closed before the end, and nothing is lost.
 */

#include "udp_state.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Bring its counts up to the window that is counted now. */
static void advance(const btl_ib_udp_t *udp, btl_ib_udp_peer_t *peer)
{
    if (peer->window != udp->window) {
        peer->before = peer->window + 1 == udp->window ? peer->sent : 0;
        peer->sent = 0;
        peer->window = udp->window;
    }
}

static uint32_t heat(const btl_ib_udp_t *udp, btl_ib_addr_t addr)
{
    btl_ib_udp_peer_t *peer = &udp->peers.peer[addr];

    advance(udp, peer);
    return peer->sent > peer->before ? peer->sent : peer->before;
}

/* One more socket, if there may be one. Without it the others do. */
static bool make(btl_ib_udp_t *udp)
{
    if (udp->sockets == udp->sockets_max) {
        return false;
    }
    const int rc = btl_ib_udp_socket_beside(udp);
    if (rc != 0) {
        udp->sockets_max = udp->sockets;
        BTL_IB_UDP_LOG(udp, 10, "%s: %u sockets of single peers and no more: %s", udp->base.name,
                       udp->sockets - udp->shared, strerror(-rc));
    }
    return rc == 0;
}

/* The socket of the peer that had least. 0: all had too much to lose it. */
static uint32_t coldest(const btl_ib_udp_t *udp)
{
    uint32_t least = BTL_IB_UDP_HOT / 2;
    uint32_t found = 0;

    for (uint32_t i = udp->shared; i < udp->sockets; i++) {
        const uint32_t had = heat(udp, udp->socket[i].peer);
        if (had < least) {
            least = had;
            found = i;
        }
    }
    return found;
}

static uint32_t find(btl_ib_udp_t *udp)
{
    for (uint32_t i = udp->shared; i < udp->sockets; i++) {
        if (udp->socket[i].peer == BTL_IB_ADDR_UNKNOWN) {
            return i;
        }
    }
    return make(udp) ? udp->sockets - 1 : coldest(udp);
}

void btl_ib_udp_hot_forget(btl_ib_udp_t *udp, btl_ib_addr_t addr)
{
    btl_ib_udp_peer_t *peer = &udp->peers.peer[addr];

    if (peer->socket != 0) {
        udp->socket[peer->socket].peer = BTL_IB_ADDR_UNKNOWN;
        peer->socket = 0;
    }
}

static void promote(btl_ib_udp_t *udp, btl_ib_addr_t to)
{
    btl_ib_udp_peer_t *peer = &udp->peers.peer[to];
    const uint32_t index = find(udp);
    char text[64];

    if (index == 0) {
        return;
    }
    btl_ib_udp_socket_t *own = &udp->socket[index];
    if (own->peer != BTL_IB_ADDR_UNKNOWN) {
        btl_ib_udp_hot_forget(udp, own->peer);
    }
    const btl_ib_udp_name_t *name = own->quick ? &peer->quick : &peer->name;
    const bool connected = connect(own->fd, &name->any, btl_ib_udp_name_len(name)) == 0;
    BTL_IB_UDP_LOG(udp, 10, "%s: socket %u for %s: %s", udp->base.name, index,
                   btl_ib_udp_name_format(name, text, sizeof(text)),
                   connected ? "connected" : strerror(errno));
    if (connected) {
        own->peer = to;
        peer->socket = index;
    }
}

void btl_ib_udp_hot(btl_ib_udp_t *udp, btl_ib_addr_t to)
{
    btl_ib_udp_peer_t *peer = &udp->peers.peer[to];

    if (udp->sockets_max == udp->shared) {
        return;
    }
    advance(udp, peer);
    if (++udp->window_sent == BTL_IB_UDP_WINDOW) {
        udp->window_sent = 0;
        udp->window++;
    }
    if (++peer->sent == BTL_IB_UDP_HOT && peer->socket == 0) {
        promote(udp, to);
    }
}
