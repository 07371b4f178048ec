/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_peers.h"

#include "addr_table.h"

#include <stdlib.h>

/* ---- peers ---- */

/* ---- the table ---- */

/* Cookies are random, and only those that name one of ours are looked up. */
static btl_ib_rc_peer_t **bucket_of(const btl_ib_rc_peers_t *peers, uint64_t cookie)
{
    return &peers->bucket[cookie & (peers->room - 1)];
}

btl_ib_rc_peer_t *btl_ib_rc_peer_find(const btl_ib_rc_peers_t *peers, uint64_t cookie)
{
    btl_ib_rc_peer_t *peer = peers->room == 0 ? NULL : *bucket_of(peers, cookie);

    while (peer != NULL && peer->addr.cookie != cookie) {
        peer = peer->next;
    }
    return peer;
}

static void put_in_bucket(const btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    btl_ib_rc_peer_t **first = bucket_of(peers, peer->addr.cookie);

    peer->next = *first;
    *first = peer;
}

static bool grow(btl_ib_rc_peers_t *peers)
{
    btl_ib_addr_table_t room = {
        .count = peers->room, .entry = peers->peer, .bucket = peers->bucket};

    if (!btl_ib_addr_table_grow(&room, sizeof(*peers->peer), sizeof(*peers->bucket))) {
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
    peer->addr.cookie = cookie;
    peers->peer[peer->index] = peer;
    peers->count++;
    peers->unknown++;
    put_in_bucket(peers, peer);
    return peer;
}

btl_ib_rc_peer_t *btl_ib_rc_peer_add(btl_ib_rc_peers_t *peers, const btl_ib_rc_address_t *addr)
{
    btl_ib_rc_peer_t *peer = btl_ib_rc_peer_get(peers, addr->cookie);

    if (peer != NULL) {
        peer->addr = *addr;
        peers->unknown -= peer->users == 0;
        peer->users++;
    }
    return peer;
}

void btl_ib_rc_peer_remove(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    if (--peer->users > 0) {
        return;
    }
    peers->unknown++; /* until it is gone */
    btl_ib_rc_peer_cancel_rdma(peers, peer);
    for (uint8_t i = 0; i < BTL_IB_RC_CHANNELS; i++) {
        if (peer->channel[i].conn != NULL) {
            btl_ib_rc_peer_close(peer->channel[i].conn);
        }
    }
    btl_ib_rc_peer_free_unused(peers, peer);
}

void btl_ib_rc_peer_free_unused(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    btl_ib_rc_peer_t **at;

    if (peer->users > 0 || peer->conns > 0) {
        return;
    }
    if (peer->pending) {
        for (at = &peers->pending; *at != peer; at = &(*at)->next_pending) {
        }
        *at = peer->next_pending;
    }
    for (at = bucket_of(peers, peer->addr.cookie); *at != peer; at = &(*at)->next) {
    }
    *at = peer->next;
    peers->peer[peer->index] = NULL;
    peers->free = btl_ib_verbs_min(peer->index, peers->free);
    peers->count--;
    peers->unknown--;
    free(peer);
}

void btl_ib_rc_peers_free(btl_ib_rc_peers_t *peers)
{
    for (uint32_t i = 0; i < peers->room; i++) {
        free(peers->peer[i]);
    }
    free(peers->peer);
    free(peers->bucket);
}

/* ---- connections ---- */

btl_ib_rc_conn_t *btl_ib_rc_peer_connect(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer,
                                         uint8_t channel, struct rdma_cm_id *id)
{
    btl_ib_rc_conn_t *conn = btl_ib_rc_conn_new(peers->conns, peer, peer->addr.cookie, channel, id);

    if (conn != NULL) {
        peer->channel[channel].conn = conn;
        peer->conns++;
    }
    return conn;
}

void btl_ib_rc_peer_close(btl_ib_rc_conn_t *conn)
{
    conn->peer->channel[conn->channel].conn = NULL;
    conn->peer->conns--;
    btl_ib_rc_conn_close(conn);
}

void btl_ib_rc_peers_close_all(btl_ib_rc_peers_t *peers, bool rdma_only)
{
    for (uint32_t i = 0; i < peers->conns->slots; i++) {
        btl_ib_rc_conn_t *conn = peers->conns->slot[i].conn;
        if (conn != NULL && (conn->rdma != NULL || !rdma_only)) {
            btl_ib_rc_peer_close(conn);
        }
    }
}

void btl_ib_rc_peer_cancel_rdma(btl_ib_rc_peers_t *peers, const btl_ib_rc_peer_t *peer)
{
    btl_ib_rc_conn_t *conn = peer->channel[BTL_IB_RC_RDMA_CHANNEL].conn;

    if (conn != NULL && conn->stage == BTL_IB_RC_OPEN) {
        btl_ib_rc_peer_close(conn);
    }
    btl_ib_rc_conns_forget_rdma(peers->conns, peer->addr.cookie);
}

/* ---- events ---- */

static void add_pending(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    if (!peer->pending && peer->users > 0) {
        peer->pending = true;
        peer->next_pending = peers->pending;
        peers->pending = peer;
    }
}

void btl_ib_rc_peer_report_broken(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer)
{
    peer->broken = true;
    add_pending(peers, peer);
}

void btl_ib_rc_peer_report_refused(btl_ib_rc_peers_t *peers, btl_ib_rc_peer_t *peer, int error)
{
    peer->refused = error;
    add_pending(peers, peer);
}

int btl_ib_rc_peers_report(btl_ib_rc_peers_t *peers, btl_ib_event_t *events, int max)
{
    int count = 0;

    while (peers->pending != NULL && count < max) {
        btl_ib_rc_peer_t *peer = peers->pending;

        if (peer->broken) {
            events[count++] = (btl_ib_event_t){.type = BTL_IB_EVENT_BROKEN, .from = peer->index};
            peer->broken = false;
        } else if (peer->refused != 0) {
            events[count++] = (btl_ib_event_t){
                .type = BTL_IB_EVENT_REFUSED,
                .error = peer->refused,
                .origin = BTL_IB_ORIGIN_LOCAL,
                .from = peer->index,
            };
            peer->refused = 0;
        } else {
            peers->pending = peer->next_pending;
            peer->pending = false;
        }
    }
    return count;
}

/* ---- when to connect again ---- */

enum {
    RETRY_US = 10 * 1000, /* after a failure; twice as long after each that follows */
    RETRY_DOUBLINGS = 7,
    CROSSING_US = 100 * 1000,    /* the peer's request is on its way */
    WARN_AFTER = 2,              /* failures without an answer in between */
    SHORT_LIFE_US = 1000 * 1000, /* a connection that breaks sooner is likely to break again */
    /* What waits for longer may as well have been lost. The kernel repeats what the network loses
     * of a request each 4.3 s, and many processes that share a processor are slow to answer. */
    PATIENCE_US = 10 * 1000 * 1000,
};

void btl_ib_rc_backoff_wanted(btl_ib_rc_backoff_t *backoff, uint64_t now)
{
    backoff->wanted_at = backoff->wanted_at == 0 ? now : backoff->wanted_at;
}

bool btl_ib_rc_backoff_give_up(btl_ib_rc_backoff_t *backoff, uint64_t now, uint64_t begun_at)
{
    const bool hopeless =
        begun_at != 0 ? now >= begun_at + PATIENCE_US
                      : backoff->failures > 0
                            && (backoff->hopeless || now >= backoff->wanted_at + PATIENCE_US);

    backoff->gave_up = backoff->gave_up || hopeless;
    return hopeless;
}

void btl_ib_rc_backoff_crossed(btl_ib_rc_backoff_t *backoff, uint64_t now)
{
    backoff->retry_at = now + CROSSING_US;
}

void btl_ib_rc_backoff_failed(btl_ib_rc_backoff_t *backoff, uint64_t now, bool passes)
{
    backoff->retry_at = now + ((uint64_t) RETRY_US << backoff->failures);
    backoff->failures += backoff->failures < RETRY_DOUBLINGS;
    backoff->hopeless = !passes;
}

bool btl_ib_rc_backoff_should_warn(const btl_ib_rc_backoff_t *backoff)
{
    return backoff->failures == WARN_AFTER;
}

bool btl_ib_rc_backoff_opened(btl_ib_rc_backoff_t *backoff)
{
    const bool gave_up = backoff->gave_up;

    backoff->failures = 0;
    backoff->wanted_at = 0;
    backoff->gave_up = false;
    return gave_up;
}

/* The next connection comes at once, unless the last ones broke as soon as they were open:
 * connecting and sending all anew must not become a tight loop. */
void btl_ib_rc_backoff_broke(btl_ib_rc_backoff_t *backoff, uint64_t now, uint64_t opened_at)
{
    if (opened_at != 0 && now - opened_at >= SHORT_LIFE_US) {
        backoff->short_lives = 0;
        return;
    }
    if (backoff->short_lives > 0) {
        backoff->retry_at = now + ((uint64_t) RETRY_US << (backoff->short_lives - 1));
    }
    backoff->short_lives += backoff->short_lives <= RETRY_DOUBLINGS;
}
