/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "ofi_peers.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* ---- the published address ---- */

enum {
    VERSION = 1,
    MORE_HEAD = 3, /* bytes before what differs */
};

/* Finds the range of bytes in which addresses differ from the last one. Returns false if they are
 * equal. */
static bool address_find_difference(const btl_ib_ofi_address_t *address, uint32_t *first,
                                    uint32_t *end)
{
    const uint8_t *last = (const uint8_t *) address->name[address->count - 1];

    *first = address->size;
    *end = 0;
    for (uint32_t i = 0; i + 1 < address->count; i++) {
        const uint8_t *name = (const uint8_t *) address->name[i];
        for (uint32_t at = 0; at < address->size; at++) {
            if (name[at] != last[at]) {
                *first = at < *first ? at : *first;
                *end = at + 1 > *end ? at + 1 : *end;
            }
        }
    }
    return *first < *end;
}

uint32_t btl_ib_ofi_address_pack(const btl_ib_ofi_address_t *address, uint8_t *out, uint32_t *base)
{
    const uint32_t others = address->count - 1;
    uint32_t first, end;

    *base = BTL_IB_OFI_ADDRESS_HEAD + address->size;
    out[0] = VERSION;
    out[1] = address->format;
    memcpy(out + BTL_IB_OFI_ADDRESS_HEAD, address->name[others], address->size);
    if (others == 0) {
        return *base;
    }
    if (!address_find_difference(address, &first, &end)
        || *base + MORE_HEAD + others * (end - first) > BTL_IB_ADDR_BYTES) {
        return 0;
    }
    uint8_t *at = out + *base;
    *at++ = (uint8_t) others;
    *at++ = (uint8_t) first;
    *at++ = (uint8_t) (end - first);
    for (uint32_t i = 0; i < others; i++, at += end - first) {
        memcpy(at, (const uint8_t *) address->name[i] + first, end - first);
    }
    return (uint32_t) (at - out);
}

/* True if an address of IP is of another family than ours. */
static bool address_is_foreign(uint8_t format, const uint8_t *name, const uint8_t *own)
{
    struct sockaddr ours, theirs; /* unaligned in the blob */

    if (format != FI_SOCKADDR_IN && format != FI_SOCKADDR_IN6) {
        return false;
    }
    memcpy(&ours, own, sizeof(ours));
    memcpy(&theirs, name, sizeof(theirs));
    return ours.sa_family != theirs.sa_family;
}

int btl_ib_ofi_address_unpack(const uint8_t *bytes, size_t len, const uint8_t *own, uint32_t base,
                              btl_ib_ofi_address_t *address)
{
    const uint32_t size = base - BTL_IB_OFI_ADDRESS_HEAD;

    if (len < base || len > BTL_IB_ADDR_BYTES || bytes[0] != VERSION
        || memcmp(bytes, own, BTL_IB_OFI_ADDRESS_HEAD) != 0
        || address_is_foreign(bytes[1], bytes + BTL_IB_OFI_ADDRESS_HEAD,
                              own + BTL_IB_OFI_ADDRESS_HEAD)) {
        return -EINVAL;
    }
    const uint8_t *more = bytes + base;
    const size_t more_len = len - base;
    const uint32_t others = more_len >= MORE_HEAD ? more[0] : 0;
    const uint32_t first = others > 0 ? more[1] : 0;
    const uint32_t width = others > 0 ? more[2] : 0;
    if (more_len > 0
        && (others == 0 || others >= BTL_IB_OFI_ENDPOINTS_MAX || width == 0 || first + width > size
            || more_len != MORE_HEAD + (size_t) others * width)) {
        return -EINVAL;
    }
    memset(address, 0, sizeof(*address));
    address->format = bytes[1];
    address->count = others + 1;
    address->size = size;
    for (uint32_t i = 0; i <= others; i++) {
        memcpy(address->name[i], bytes + BTL_IB_OFI_ADDRESS_HEAD, size);
        if (i < others) {
            memcpy((uint8_t *) address->name[i] + first, more + MORE_HEAD + i * width, width);
        }
    }
    return 0;
}

/* ---- peers ---- */

static uint32_t *peer_bucket(const btl_ib_ofi_peers_t *peers, fi_addr_t to)
{
    const uint32_t hash = (uint32_t) (to * UINT64_C(0x9e3779b97f4a7c15) >> 32); /* Knuth's */

    return &peers->bucket[hash & (peers->room * BTL_IB_OFI_ENDPOINTS_MAX - 1)];
}

static btl_ib_addr_t peer_at(uint32_t place)
{
    return place == 0 ? BTL_IB_ADDR_UNKNOWN : (place - 1) / BTL_IB_OFI_ENDPOINTS_MAX;
}

/* Returns the link to the place that follows `place` in its bucket. */
static uint32_t *peer_next(const btl_ib_ofi_peers_t *peers, uint32_t place)
{
    return &peers->peer[peer_at(place)].next[(place - 1) % BTL_IB_OFI_ENDPOINTS_MAX];
}

static bool peer_fits(const btl_ib_ofi_peers_t *peers, uint32_t place, fi_addr_t to)
{
    return peers->peer[peer_at(place)].to[(place - 1) % BTL_IB_OFI_ENDPOINTS_MAX] == to;
}

/* Returns the place of an endpoint; 0: no peer has it. */
static uint32_t peer_find(const btl_ib_ofi_peers_t *peers, fi_addr_t to)
{
    uint32_t place = peers->room == 0 ? 0 : *peer_bucket(peers, to);

    while (place != 0 && !peer_fits(peers, place, to)) {
        place = *peer_next(peers, place);
    }
    return place;
}

static void peer_link(btl_ib_ofi_peers_t *peers, uint32_t index)
{
    btl_ib_ofi_peer_t *peer = &peers->peer[index];

    peers->recent = 0;
    for (uint32_t i = 0; i < peer->count; i++) {
        uint32_t *first = peer_bucket(peers, peer->to[i]);
        peer->next[i] = *first;
        *first = index * BTL_IB_OFI_ENDPOINTS_MAX + i + 1;
    }
}

static void peer_unlink(btl_ib_ofi_peers_t *peers, uint32_t index)
{
    const btl_ib_ofi_peer_t *peer = &peers->peer[index];

    peers->recent = 0;
    for (uint32_t i = 0; i < peer->count; i++) {
        uint32_t *link = peer_bucket(peers, peer->to[i]);
        while (*link != index * BTL_IB_OFI_ENDPOINTS_MAX + i + 1) {
            link = peer_next(peers, *link);
        }
        *link = peer->next[i];
    }
}

static bool peers_grow(btl_ib_ofi_peers_t *peers)
{
    btl_ib_addr_table_t room = {
        .count = peers->room, .entry = peers->peer, .bucket = peers->bucket};

    if (!btl_ib_addr_table_grow(&room, sizeof(*peers->peer),
                                BTL_IB_OFI_ENDPOINTS_MAX * sizeof(*peers->bucket))) {
        return false;
    }
    peers->room = room.count;
    peers->peer = room.entry;
    peers->bucket = room.bucket;
    for (uint32_t i = 0; i < peers->count; i++) { /* none is free: only then the table grows */
        peer_link(peers, i);
    }
    return true;
}

/* Enters a peer whose endpoints were inserted into libfabric's table; or adds a user to the peer
 * with the same endpoints. Returns 0 or -ENOMEM. */
static int peer_enter(btl_ib_ofi_peers_t *peers, const btl_ib_ofi_peer_t *peer, btl_ib_addr_t *addr)
{
    const uint32_t known = peer_find(peers, peer->to[0]);

    /* For an address that was inserted before libfabric may return the same handle. */
    if (known != 0) {
        btl_ib_ofi_peer_t *before = &peers->peer[peer_at(known)];
        if (before->count == peer->count
            && memcmp(before->to, peer->to, peer->count * sizeof(peer->to[0])) == 0) {
            before->users++;
            *addr = peer_at(known);
            return 0;
        }
    }
    if (peers->free == 0 && peers->count == peers->room && !peers_grow(peers)) {
        return -ENOMEM;
    }
    const uint32_t index = peers->free != 0 ? peers->free - 1 : peers->count++;
    peers->free = peers->free != 0 ? peers->peer[index].next[0] : 0;
    peers->peer[index] = *peer;
    peer_link(peers, index);
    *addr = index;
    return 0;
}

/* Removes a peer's endpoints from libfabric's table, once for each time they were inserted. */
static void peer_forget(btl_ib_ofi_peers_t *peers, const btl_ib_ofi_peer_t *peer)
{
    fi_addr_t gone[BTL_IB_OFI_ENDPOINTS_MAX];

    memcpy(gone, peer->to, sizeof(gone));
    for (uint32_t i = 0; i < peer->count; i++) {
        (void) fi_av_remove(peers->av, &gone[i], 1, 0);
    }
}

int btl_ib_ofi_peers_add(btl_ib_ofi_peers_t *peers, const btl_ib_ofi_address_t *address,
                         btl_ib_addr_t *addr, int *refused)
{
    btl_ib_ofi_peer_t peer = {.users = 1};
    int rc = 0;

    *refused = 0;
    while (rc == 0 && peer.count < address->count) {
        fi_addr_t found = FI_ADDR_NOTAVAIL;
        const int count = fi_av_insert(peers->av, address->name[peer.count], 1, &found, 0, NULL);
        if (count != 1 || found == FI_ADDR_NOTAVAIL) {
            *refused = count < 0 ? count : 0;
            rc = -EHOSTUNREACH;
        } else {
            peer.to[peer.count++] = found;
        }
    }
    rc = rc != 0 ? rc : peer_enter(peers, &peer, addr);
    if (rc != 0) {
        peer_forget(peers, &peer);
    }
    return rc;
}

void btl_ib_ofi_peers_remove(btl_ib_ofi_peers_t *peers, btl_ib_addr_t addr)
{
    btl_ib_ofi_peer_t *peer = &peers->peer[addr];

    peer_forget(peers, peer);
    if (--peer->users > 0) {
        return;
    }
    peer_unlink(peers, (uint32_t) addr);
    peer->next[0] = peers->free;
    peers->free = (uint32_t) addr + 1;
}

btl_ib_addr_t btl_ib_ofi_peers_source(btl_ib_ofi_peers_t *peers, fi_addr_t from)
{
    if (from == FI_ADDR_NOTAVAIL) {
        return BTL_IB_ADDR_UNKNOWN;
    }
    if (peers->recent == 0 || !peer_fits(peers, peers->recent, from)) {
        peers->recent = peer_find(peers, from);
    }
    return peer_at(peers->recent);
}

void btl_ib_ofi_peers_free(btl_ib_ofi_peers_t *peers)
{
    free(peers->peer);
    free(peers->bucket);
}
