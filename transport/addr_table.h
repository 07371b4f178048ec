/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The room of a table whose entries are found by index, and by hash through the lists that begin in its buckets. */

#ifndef BTL_IB_ROOM_H
#define BTL_IB_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct btl_ib_room {
    uint32_t count; /* entries there is room for; 0 or a power of 2 */
    void *entry;
    void *bucket;
} btl_ib_room_t;

/*
 * Twice the room (or the first): entries of `entry` bytes, the new ones zero, and buckets of `bucket` bytes for each, all
 * of them zero: whoever is in the table must be put into the lists anew. False if memory is short; then all is as before.
 */
bool btl_ib_room_double(btl_ib_room_t *room, size_t entry, size_t bucket);

#endif
