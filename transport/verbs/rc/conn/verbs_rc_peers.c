/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Peers of transport "verbs", wire RC: by handle, by cookie, and what there is to tell of them. */

#include "verbs_rc_rail.h"

#include <stdlib.h>

#include "addr_table.h"

/* Cookies are random, and only those that name one of ours are looked up. */
static btl_ib_rc_peer_t **bucket_of(const btl_ib_rc_peers_t *peers, uint64_t cookie)
{
    return &peers->bucket[cookie & (peers->room - 1)];
}

btl_ib_rc_peer_t *btl_ib_rc_peer_find(const btl_ib_rc_peers_t *peers, uint64_t cookie)
{
    btl_ib_rc_peer_t *peer = peers->room == 0 ? NULL : *bucket_of(peers, cookie);

    while (peer != NULL && peer->name.cookie != cookie) {
        peer = peer->next;
    }
    return peer;
}

static void put_in_bucket(const btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    btl_ib_rc_peer_t **first = bucket_of(peers, peer->name.cookie);

    peer->next = *first;
    *first = peer;
}

/* Twice the room, and everybody in a new bucket. */
static bool grow(btl_ib_rc_peers_t *peers)
{
    btl_ib_room_t room = {.count = peers->room, .entry = peers->peer, .bucket = peers->bucket};

    if (!btl_ib_room_double(&room, sizeof(*peers->peer), sizeof(*peers->bucket))) {
        return false;
    }
    peers->room = room.count;
    peers->peer = room.entry;
    peers->bucket = room.bucket;
    for (uint32_t i = 0; i < peers->room; i++) {
        if (peers->peer[i] != NULL) {
            put_in_bucket(peers, peers->peer[i]);
        }
    }
    return true;
}

btl_ib_rc_peer_t *btl_ib_rc_peer_get(btl_ib_rc_peers_t *peers, uint64_t cookie)
{
    btl_ib_rc_peer_t *peer = btl_ib_rc_peer_find(peers, cookie);

    if (peer != NULL) {
        return peer;
    }
    if (peers->count == peers->room && !grow(peers)) {
        return NULL;
    }
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return NULL;
    }
    while (peers->peer[peers->free] != NULL) {
        peers->free++;
    }
    peer->index = peers->free;
    peer->name.cookie = cookie;
    peers->peer[peer->index] = peer;
    peers->count++;
    peers->strangers++;
    put_in_bucket(peers, peer);
    return peer;
}

static void forget_news(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    btl_ib_rc_peer_t **at = &peers->news;

    while (peer->has_news && *at != peer) {
        at = &(*at)->next_news;
    }
    if (peer->has_news) {
        *at = peer->next_news;
    }
}

void btl_ib_rc_peer_let_go(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    btl_ib_rc_peer_t **at = bucket_of(peers, peer->name.cookie);

    if (peer->users > 0 || peer->pipes > 0) {
        return;
    }
    forget_news(peers, peer);
    while (*at != peer) {
        at = &(*at)->next;
    }
    *at = peer->next;
    peers->peer[peer->index] = NULL;
    peers->free = peer->index < peers->free ? peer->index : peers->free;
    peers->count--;
    peers->strangers--;
    free(peer);
}

void btl_ib_rc_peer_news(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    if (!peer->has_news && peer->users > 0) {
        peer->has_news = true;
        peer->next_news = peers->news;
        peers->news = peer;
    }
}

int btl_ib_rc_peers_emit(btl_ib_rc_peers_t *peers, btl_ib_event_t *events, int max)
{
    int count = 0;

    while (peers->news != NULL && count < max) {
        btl_ib_rc_peer_t *peer = peers->news;
        btl_ib_event_t *event = &events[count];

        if (peer->broken) {
            *event = (btl_ib_event_t){.type = BTL_IB_EVENT_BROKEN, .from = peer->index};
            peer->broken = false;
            count++;
        } else if (peer->refused != 0) {
            *event = (btl_ib_event_t){
                .type = BTL_IB_EVENT_REFUSED,
                .error = peer->refused,
                .origin = BTL_IB_ORIGIN_LOCAL,
                .from = peer->index,
            };
            peer->refused = 0;
            count++;
        } else {
            peers->news = peer->next_news;
            peer->has_news = false;
        }
    }
    return count;
}

void btl_ib_rc_peers_free(btl_ib_rc_peers_t *peers)
{
    for (uint32_t i = 0; i < peers->room; i++) {
        free(peers->peer[i]);
    }
    free(peers->peer);
    free(peers->bucket);
}
