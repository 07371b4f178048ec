/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Addresses of peers. */

#include "udp_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr_table.h"

enum {
    VERSION = 1,
    FAMILY_4 = 4,
    FAMILY_6 = 6,
    QUICK = 0x80,
    HEAD = 6, /* before the address */
    LEN_4 = HEAD + 4,
    LEN_6 = HEAD + 16,
};

socklen_t btl_ib_udp_name_len(const btl_ib_udp_name_t *name)
{
    return name->any.sa_family == AF_INET ? sizeof(name->v4) : sizeof(name->v6);
}

const char *btl_ib_udp_name_format(const btl_ib_udp_name_t *name, char *out, size_t len)
{
    char ip[INET6_ADDRSTRLEN] = "?";

    if (name->any.sa_family == AF_INET) {
        (void) inet_ntop(AF_INET, &name->v4.sin_addr, ip, sizeof(ip));
        snprintf(out, len, "%s:%u", ip, ntohs(name->v4.sin_port));
    } else {
        (void) inet_ntop(AF_INET6, &name->v6.sin6_addr, ip, sizeof(ip));
        snprintf(out, len, "[%s]:%u", ip, ntohs(name->v6.sin6_port));
    }
    return out;
}

uint16_t btl_ib_udp_name_port(const btl_ib_udp_name_t *name)
{
    return ntohs(name->any.sa_family == AF_INET ? name->v4.sin_port : name->v6.sin6_port);
}

void btl_ib_udp_name_set_port(btl_ib_udp_name_t *name, uint16_t port)
{
    if (name->any.sa_family == AF_INET) {
        name->v4.sin_port = htons(port);
    } else {
        name->v6.sin6_port = htons(port);
    }
}

uint32_t btl_ib_udp_name_pack(const btl_ib_udp_name_t *name, uint32_t carries, bool quick,
                              uint8_t *out)
{
    const bool v4 = name->any.sa_family == AF_INET;
    const uint16_t size = htons((uint16_t) carries);

    out[0] = VERSION;
    out[1] = (uint8_t) ((v4 ? FAMILY_4 : FAMILY_6) | (quick ? QUICK : 0));
    memcpy(out + 4, &size, 2);
    if (v4) {
        memcpy(out + 2, &name->v4.sin_port, 2);
        memcpy(out + HEAD, &name->v4.sin_addr, 4);
        return LEN_4;
    }
    memcpy(out + 2, &name->v6.sin6_port, 2);
    memcpy(out + HEAD, &name->v6.sin6_addr, 16);
    return LEN_6;
}

int btl_ib_udp_name_unpack(const void *bytes, size_t len, btl_ib_udp_name_t *name,
                           uint32_t *carries, bool *quick)
{
    const uint8_t *in = bytes;
    uint16_t size, port;

    memset(name, 0, sizeof(*name));
    if (len < HEAD || in[0] != VERSION) {
        return -EINVAL;
    }
    memcpy(&port, in + 2, 2);
    memcpy(&size, in + 4, 2);
    *carries = ntohs(size);
    *quick = in[1] & QUICK;
    if (*quick && port == UINT16_MAX) {
        return -EINVAL;
    }
    const uint8_t family = in[1] & (uint8_t) ~QUICK;
    if (len == LEN_4 && family == FAMILY_4) {
        name->v4.sin_family = AF_INET;
        memcpy(&name->v4.sin_port, in + 2, 2);
        memcpy(&name->v4.sin_addr, in + HEAD, 4);
        uint32_t ip = ntohl(name->v4.sin_addr.s_addr);
        bool wrong = ip == INADDR_ANY || ip == INADDR_BROADCAST || IN_MULTICAST(ip);
        return wrong || name->v4.sin_port == 0 ? -EINVAL : 0;
    }
    if (len == LEN_6 && family == FAMILY_6) {
        name->v6.sin6_family = AF_INET6;
        memcpy(&name->v6.sin6_port, in + 2, 2);
        memcpy(&name->v6.sin6_addr, in + HEAD, 16);
        bool wrong = IN6_IS_ADDR_UNSPECIFIED(&name->v6.sin6_addr)
                     || IN6_IS_ADDR_MULTICAST(&name->v6.sin6_addr)
                     || IN6_IS_ADDR_LINKLOCAL(&name->v6.sin6_addr);
        return wrong || name->v6.sin6_port == 0 ? -EINVAL : 0;
    }
    return -EINVAL;
}

/* ---- handles ---- */

/* Address and port only: of an IPv6 name that came in, scope and flow are the kernel's affair. */
static bool same(const btl_ib_udp_name_t *a, const btl_ib_udp_name_t *b)
{
    if (a->any.sa_family == AF_INET) {
        return b->any.sa_family == AF_INET && a->v4.sin_port == b->v4.sin_port
               && a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    }
    return b->any.sa_family == AF_INET6 && a->v6.sin6_port == b->v6.sin6_port
           && memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0;
}

/* FNV-1a, 32 bits. Only published addresses are in the table, so nobody can fill one bucket. */
static uint32_t hash(const btl_ib_udp_name_t *name)
{
    uint8_t bytes[LEN_6];
    uint32_t len = btl_ib_udp_name_pack(name, 0, false, bytes);
    uint32_t h = 2166136261u;

    for (uint32_t i = 2; i < len; i++) {
        h = (h ^ bytes[i]) * 16777619u;
    }
    return h;
}

static uint32_t *bucket_of(const btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name)
{
    return &peers->bucket[hash(name) & (peers->room - 1)];
}

btl_ib_addr_t btl_ib_udp_peer_find(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name)
{
    if (peers->room == 0) {
        return BTL_IB_ADDR_UNKNOWN;
    }
    const btl_ib_udp_peer_t *last = &peers->peer[peers->last];
    if (last->users > 0 && same(&last->name, name)) {
        return peers->last;
    }
    for (uint32_t i = *bucket_of(peers, name); i != 0; i = peers->peer[i - 1].next) {
        if (same(&peers->peer[i - 1].name, name)) {
            peers->last = i - 1;
            return i - 1;
        }
    }
    return BTL_IB_ADDR_UNKNOWN;
}

/* Twice the room, and everybody in a new bucket. */
static bool grow(btl_ib_udp_peers_t *peers)
{
    btl_ib_room_t room = {.count = peers->room, .entry = peers->peer, .bucket = peers->bucket};

    if (!btl_ib_room_double(&room, sizeof(*peers->peer), sizeof(*peers->bucket))) {
        return false;
    }
    peers->room = room.count;
    peers->peer = room.entry;
    peers->bucket = room.bucket;
    for (uint32_t i = 0; i < peers->count; i++) { /* all are in use, or nobody would grow */
        uint32_t *first = bucket_of(peers, &peers->peer[i].name);
        peers->peer[i].next = *first;
        *first = i + 1;
    }
    return true;
}

static uint32_t take(btl_ib_udp_peers_t *peers)
{
    if (peers->free == 0) {
        return peers->count++;
    }
    uint32_t index = peers->free - 1;
    peers->free = peers->peer[index].next;
    return index;
}

int btl_ib_udp_peer_add(btl_ib_udp_peers_t *peers, const btl_ib_udp_name_t *name,
                        btl_ib_addr_t *addr)
{
    btl_ib_addr_t known = btl_ib_udp_peer_find(peers, name);

    if (known != BTL_IB_ADDR_UNKNOWN) {
        peers->peer[known].users++;
        *addr = known;
        return 0;
    }
    if (peers->free == 0 && peers->count == peers->room && !grow(peers)) {
        return -ENOMEM;
    }
    uint32_t index = take(peers);
    uint32_t *first = bucket_of(peers, name);
    peers->peer[index] = (btl_ib_udp_peer_t){.name = *name, .users = 1, .next = *first};
    *first = index + 1;
    *addr = index;
    return 0;
}

bool btl_ib_udp_peer_remove(btl_ib_udp_peers_t *peers, btl_ib_addr_t addr)
{
    btl_ib_udp_peer_t *peer = &peers->peer[addr];

    if (--peer->users > 0) {
        return false;
    }
    uint32_t *link = bucket_of(peers, &peer->name);
    while (*link != addr + 1) {
        link = &peers->peer[*link - 1].next;
    }
    *link = peer->next;
    peer->next = peers->free;
    peers->free = (uint32_t) addr + 1;
    return true;
}

void btl_ib_udp_peers_free(btl_ib_udp_peers_t *peers)
{
    free(peers->peer);
    free(peers->bucket);
}
