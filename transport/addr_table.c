/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "addr_table.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 16 };

bool btl_ib_room_double(btl_ib_room_t *room, size_t entry, size_t bucket)
{
    const uint32_t count = room->count == 0 ? FIRST_ROOM : 2 * room->count;
    void *buckets = calloc(count, bucket);
    char *entries = buckets == NULL ? NULL : realloc(room->entry, count * entry);

    if (entries == NULL) {
        free(buckets);
        return false;
    }
    memset(entries + room->count * entry, 0, (count - room->count) * entry);
    free(room->bucket);
    *room = (btl_ib_room_t){.count = count, .entry = entries, .bucket = buckets};
    return true;
}
