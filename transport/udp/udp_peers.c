/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_peers.h"

#include "net_interfaces.h"
#include "transport.h"
#include "udp_sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- peers ---- */

/* Returns the list that a name belongs to, by FNV-1a of 32 bits. The table has no addresses of
 * strangers, so nobody can fill one list on purpose. */
static uint32_t *peer_bucket(const btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name)
{
    uint8_t bytes[BTL_IB_UDP_NAME_BYTES];
    const uint32_t len = btl_ib_udp_name_pack(name, 0, false, bytes);
    uint32_t hash = 2166136261u;

    for (uint32_t i = 2; i < len; i++) {
        hash = (hash ^ bytes[i]) * 16777619u;
    }
    return &peers->bucket[hash & (peers->size - 1)];
}

btl_ib_addr_t btl_ib_udp_peer_find(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name)
{
    if (peers->size == 0) {
        return BTL_IB_ADDR_UNKNOWN;
    }
    const btl_ib_udp_peer_t *last = &peers->peer[peers->last];
    if (last->users > 0 && btl_ib_udp_name_same(&last->name, name)) {
        return peers->last;
    }
    for (uint32_t i = *peer_bucket(peers, name); i != 0; i = peers->peer[i - 1].next) {
        if (btl_ib_udp_name_same(&peers->peer[i - 1].name, name)) {
            peers->last = i - 1;
            return i - 1;
        }
    }
    return BTL_IB_ADDR_UNKNOWN;
}

static void peer_link(btl_ib_udp_peers_t *peers, uint32_t index)
{
    uint32_t *first = peer_bucket(peers, &peers->peer[index].name);

    peers->peer[index].next = *first;
    *first = index + 1;
}

/* Doubles the table, whose places are all in use, and links every peer anew. Returns false if
 * memory is short. */
static bool peers_grow(btl_ib_udp_peers_t *peers)
{
    btl_ib_addr_table_t table = {
        .count = peers->size, .entry = peers->peer, .bucket = peers->bucket};

    if (!btl_ib_addr_table_grow(&table, sizeof(*peers->peer), sizeof(*peers->bucket))) {
        return false;
    }
    peers->size = table.count;
    peers->peer = table.entry;
    peers->bucket = table.bucket;
    for (uint32_t i = 0; i < peers->count; i++) {
        peer_link(peers, i);
    }
    return true;
}

int btl_ib_udp_peer_add(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name, bool latency_lane,
                        uint32_t interface, btl_ib_addr_t *addr)
{
    uint32_t index = peers->count;

    *addr = btl_ib_udp_peer_find(peers, name);
    if (*addr == BTL_IB_ADDR_UNKNOWN) {
        if (peers->free != 0) {
            index = peers->free - 1;
            peers->free = peers->peer[index].next;
        } else if (peers->count == peers->size && !peers_grow(peers)) {
            return -ENOMEM;
        } else {
            peers->count++;
        }
        peers->peer[index] = (btl_ib_udp_peer_t){.name = *name};
        peer_link(peers, index);
        *addr = index;
    }
    btl_ib_udp_peer_t *peer = &peers->peer[*addr];
    const bool published = latency_lane || interface != BTL_IB_UDP_INTERFACE_UNKNOWN;
    if (peer->users++ == 0 || published) {
        peer->interface = interface;
        peer->latency = (btl_ib_udp_name_t){.any.sa_family = AF_UNSPEC};
        if (latency_lane) {
            peer->latency = btl_ib_udp_name_shift(name, 1);
        }
    }
    return 0;
}

static void peer_unlink(btl_ib_udp_peers_t *peers, uint32_t index)
{
    uint32_t *link = peer_bucket(peers, &peers->peer[index].name);

    while (*link != index + 1) {
        link = &peers->peer[*link - 1].next;
    }
    *link = peers->peer[index].next;
}

bool btl_ib_udp_peer_remove(btl_ib_udp_peers_t *peers, btl_ib_addr_t addr)
{
    btl_ib_udp_peer_t *peer = &peers->peer[addr];

    if (--peer->users > 0) {
        return false;
    }
    peer_unlink(peers, (uint32_t) addr);
    peer->next = peers->free;
    peers->free = (uint32_t) addr + 1;
    return true;
}

/* Returns the name with the address of `host` and the port of `name`. */
static btl_ib_udp_name_t name_at_host(const btl_ib_udp_name_t *name, const btl_ib_udp_name_t *host)
{
    btl_ib_udp_name_t moved = *host;

    btl_ib_udp_name_set_port(&moved, ntohs(name->v4.sin_port));
    return moved;
}

void btl_ib_udp_peers_rebound(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *before,
                              const btl_ib_udp_name_t *now)
{
    for (uint32_t i = 0; i < peers->count; i++) {
        btl_ib_udp_peer_t *peer = &peers->peer[i];

        peer->socket = 0;
        peer->sent = 0;
        if (peer->users == 0 || !btl_ib_udp_name_same_host(&peer->name, before)) {
            continue;
        }
        peer_unlink(peers, i);
        peer->name = name_at_host(&peer->name, now);
        if (peer->latency.any.sa_family != AF_UNSPEC) {
            peer->latency = name_at_host(&peer->latency, now);
        }
        peer_link(peers, i);
    }
}

void btl_ib_udp_peers_free(btl_ib_udp_peers_t *peers)
{
    free(peers->peer);
    free(peers->bucket);
}

/* ---- connected sockets ---- */

/*
 * A vacant socket gets another peer by a second connect() (connect(2)). Datagrams of the earlier
 * peer that it still holds are not lost, as each names its source. So no socket is closed before
 * the end.
 */

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
                   btl_ib_ip_port_text(&name->any, text, sizeof(text)),
                   done ? "connected" : strerror(errno));
    if (done) {
        connected->peer[index] = to;
        connected->vacant--;
        connected->peers->peer[to].socket = index;
    }
}

void btl_ib_udp_connected_forget(btl_ib_udp_connected_t *connected, btl_ib_addr_t addr)
{
    const uint32_t socket = connected->peers->peer[addr].socket;

    if (socket != 0) {
        connected->peer[socket] = BTL_IB_ADDR_UNKNOWN;
        connected->vacant++;
        connected->peers->peer[addr].socket = 0;
    }
}
