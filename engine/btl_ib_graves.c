/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_graves.h"

#include <errno.h>

#include "btl_ib_window.h"

enum { GRAVES = 512 };

void btl_ib_graves_init(btl_ib_graves_t *graves, const btl_ib_mem_t *mem)
{
    *graves = (btl_ib_graves_t){.mem = mem};
}

void btl_ib_graves_fini(btl_ib_graves_t *graves)
{
    btl_ib_free(graves->mem, graves->ring);
    btl_ib_graves_init(graves, graves->mem);
}

int btl_ib_graves_prepare(btl_ib_graves_t *graves)
{
    if (graves->ring == NULL) {
        graves->ring = btl_ib_zalloc(graves->mem, GRAVES * sizeof(*graves->ring));
    }
    return graves->ring == NULL ? -ENOMEM : 0;
}

void btl_ib_graves_add(btl_ib_graves_t *graves, const btl_ib_grave_t *grave)
{
    graves->ring[graves->next] = *grave;
    graves->next = (graves->next + 1) % GRAVES;
    if (graves->count < GRAVES) {
        graves->count++;
    }
}

static bool same_peer(const btl_ib_grave_t *a, const btl_ib_grave_t *b)
{
    return a->name == b->name && a->rail == b->rail && a->remote_rail == b->remote_rail;
}

bool btl_ib_graves_has(const btl_ib_graves_t *graves, const btl_ib_grave_t *grave)
{
    for (uint32_t i = 0; i < graves->count; i++) {
        const btl_ib_grave_t *old = &graves->ring[i];
        if (old->token == grave->token && old->epoch == grave->epoch && same_peer(old, grave)) {
            return true;
        }
    }
    return false;
}

uint32_t btl_ib_graves_floor(const btl_ib_graves_t *graves, const btl_ib_grave_t *peer)
{
    uint32_t floor = 0;

    for (uint32_t i = 0; i < graves->count; i++) {
        const btl_ib_grave_t *old = &graves->ring[i];
        if (old->secret == peer->secret && same_peer(old, peer)
            && (floor == 0 || btl_ib_seq_before(floor, old->epoch + 1))) {
            floor = old->epoch + 1;
        }
    }
    return floor;
}
