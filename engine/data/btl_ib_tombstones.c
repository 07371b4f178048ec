/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_tombstones.h"

#include <errno.h>
#include <stdbool.h>

#include "btl_ib_window.h"

enum { GRAVES = 512 };

void btl_ib_tombstones_init(btl_ib_tombstones_t *graves, const btl_ib_mem_t *mem)
{
    *graves = (btl_ib_tombstones_t){.mem = mem};
}

void btl_ib_tombstones_fini(btl_ib_tombstones_t *graves)
{
    btl_ib_free(graves->mem, graves->list);
    btl_ib_tombstones_init(graves, graves->mem);
}

int btl_ib_tombstones_prepare(btl_ib_tombstones_t *graves)
{
    if (graves->list == NULL) {
        graves->list = btl_ib_zalloc(graves->mem, GRAVES * sizeof(*graves->list));
    }
    return graves->list == NULL ? -ENOMEM : 0;
}

static bool same_peer(const btl_ib_tombstone_t *a, const btl_ib_tombstone_t *b)
{
    return a->name == b->name && a->secret == b->secret && a->rail == b->rail
           && a->remote_rail == b->remote_rail;
}

static btl_ib_tombstone_t *find(const btl_ib_tombstones_t *graves, const btl_ib_tombstone_t *peer)
{
    for (uint32_t i = 0; i < graves->count; i++) {
        if (same_peer(&graves->list[i], peer)) {
            return &graves->list[i];
        }
    }
    return NULL;
}

/* An empty place, or that of the peer whose last burial was longest ago. */
static btl_ib_tombstone_t *place(btl_ib_tombstones_t *graves)
{
    btl_ib_tombstone_t *oldest = &graves->list[0];

    if (graves->count < GRAVES) {
        return &graves->list[graves->count++];
    }
    for (uint32_t i = 1; i < graves->count; i++) {
        if (graves->list[i].order < oldest->order) {
            oldest = &graves->list[i];
        }
    }
    return oldest;
}

void btl_ib_tombstones_add(btl_ib_tombstones_t *graves, const btl_ib_tombstone_t *grave)
{
    btl_ib_tombstone_t *old = find(graves, grave);

    if (old == NULL) {
        old = place(graves);
        *old = *grave;
    } else if (btl_ib_seq_before(old->epoch, grave->epoch)) {
        old->epoch = grave->epoch;
    }
    old->order = ++graves->order;
}

uint32_t btl_ib_tombstones_floor(const btl_ib_tombstones_t *graves, const btl_ib_tombstone_t *peer)
{
    const btl_ib_tombstone_t *grave = find(graves, peer);

    return grave == NULL ? 0 : grave->epoch + 1;
}
