/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_tombstones.h"

#include <errno.h>

#include "btl_ib_seq_window.h"

int btl_ib_tombstones_prepare(btl_ib_tombstones_t *tombstones)
{
    if (tombstones->list == NULL) {
        tombstones->list = btl_ib_zalloc(tombstones->mem, BTL_IB_TOMBSTONES_BYTES);
    }
    return tombstones->list == NULL ? -ENOMEM : 0;
}

static bool same_rails(const btl_ib_tombstone_t *of, const btl_ib_tombstone_t *peer)
{
    return of->name == peer->name && of->rail == peer->rail && of->remote_rail == peer->remote_rail;
}

static btl_ib_tombstone_t *find_tombstone(const btl_ib_tombstones_t *tombstones,
                                          const btl_ib_tombstone_t *peer)
{
    for (uint32_t i = 0; i < tombstones->count; i++) {
        btl_ib_tombstone_t *of = &tombstones->list[i];
        if (same_rails(of, peer) && of->secret == peer->secret) {
            return of;
        }
    }
    return NULL;
}

/* Returns a free place, or that of the peer whose last connection ended longest ago. */
static btl_ib_tombstone_t *tombstone_place(btl_ib_tombstones_t *tombstones)
{
    btl_ib_tombstone_t *oldest = &tombstones->list[0];

    if (tombstones->count < BTL_IB_TOMBSTONES) {
        return &tombstones->list[tombstones->count++];
    }
    for (uint32_t i = 1; i < tombstones->count; i++) {
        if (tombstones->list[i].order < oldest->order) {
            oldest = &tombstones->list[i];
        }
    }
    return oldest;
}

void btl_ib_tombstones_add(btl_ib_tombstones_t *tombstones, const btl_ib_tombstone_t *tombstone)
{
    btl_ib_tombstone_t *old = find_tombstone(tombstones, tombstone);

    if (old == NULL) {
        old = tombstone_place(tombstones);
        *old = *tombstone;
    } else if (btl_ib_seq_before(old->epoch, tombstone->epoch)) {
        old->epoch = tombstone->epoch;
    }
    old->order = ++tombstones->order;
}

uint32_t btl_ib_tombstones_floor(const btl_ib_tombstones_t *tombstones,
                                 const btl_ib_tombstone_t *peer)
{
    const btl_ib_tombstone_t *tombstone = find_tombstone(tombstones, peer);

    return tombstone == NULL ? 0 : tombstone->epoch + 1;
}

bool btl_ib_tombstones_ended(const btl_ib_tombstones_t *tombstones, const btl_ib_tombstone_t *peer)
{
    for (uint32_t i = 0; i < tombstones->count; i++) {
        const btl_ib_tombstone_t *of = &tombstones->list[i];
        if (same_rails(of, peer) && !btl_ib_seq_before(of->epoch, peer->epoch)) {
            return true;
        }
    }
    return false;
}
