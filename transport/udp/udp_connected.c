/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A socket that lost its peer moves to another one by a second connect() (connect(2)). What it
 * still holds says whom it is from. So none is closed before the end, and nothing is lost.
 */

#include "udp_connected.h"

#include <errno.h>
#include <string.h>

void btl_ib_udp_connected_init(btl_ib_udp_connected_t *connected, btl_ib_udp_sockets_t *sockets,
                               btl_ib_udp_peers_t *peers, uint32_t max)
{
    *connected = (btl_ib_udp_connected_t){
        .sockets = sockets,
        .peers = peers,
        .vacant = max < BTL_IB_UDP_CONNECTED_MAX ? max : BTL_IB_UDP_CONNECTED_MAX,
    };
    for (uint32_t i = 0; i < BTL_IB_UDP_SOCKETS_MAX; i++) {
        connected->peer[i] = BTL_IB_ADDR_UNKNOWN;
    }
}

void btl_ib_udp_connected_promote(btl_ib_udp_connected_t *connected, btl_ib_addr_t to)
{
    btl_ib_udp_sockets_t *sockets = connected->sockets;
    const btl_ib_udp_peer_t *peer = &connected->peers->peer[to];
    uint32_t index = sockets->shared;
    char text[64];

    if (peer->socket != 0) {
        return;
    }
    while (index < sockets->count && connected->peer[index] != BTL_IB_ADDR_UNKNOWN) {
        index++;
    }
    if (index == sockets->count) {
        const int rc = btl_ib_udp_sockets_add(sockets);
        if (rc != 0) {
            connected->vacant = 0;
            BTL_IB_UDP_LOG(sockets->log, 10, "%u connected sockets and no more: %s",
                           index - sockets->shared, strerror(-rc));
            return;
        }
    }
    const btl_ib_udp_socket_t *own = &sockets->socket[index];
    const btl_ib_udp_name_t *name = own->latency ? &peer->latency : &peer->name;
    const bool done = connect(own->fd, &name->any, btl_ib_udp_name_len(name)) == 0;
    BTL_IB_UDP_LOG(sockets->log, 10, "socket %u for %s: %s", index,
                   btl_ib_udp_name_format(name, text, sizeof(text)),
                   done ? "connected" : strerror(errno));
    if (done) {
        connected->peer[index] = to;
        connected->vacant--;
        btl_ib_udp_peer_set_socket(connected->peers, to, index);
    }
}

void btl_ib_udp_connected_forget(btl_ib_udp_connected_t *connected, btl_ib_addr_t addr)
{
    const uint32_t socket = connected->peers->peer[addr].socket;

    if (socket != 0) {
        connected->peer[socket] = BTL_IB_ADDR_UNKNOWN;
        connected->vacant++;
        btl_ib_udp_peer_set_socket(connected->peers, addr, 0);
    }
}
