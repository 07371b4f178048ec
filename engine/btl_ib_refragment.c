/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_refragment.h"

#include "btl_ib_seq_window.h"

#include <string.h>

static uint32_t pieces(uint32_t bytes)
{
    return (bytes + BTL_IB_PART_UNIT - 1) / BTL_IB_PART_UNIT;
}

static void discard(const btl_ib_mem_t *mem, btl_ib_refragment_t *parts)
{
    btl_ib_list_remove(&parts->link);
    btl_ib_free(mem, parts);
}

static btl_ib_refragment_t *find_whole(const btl_ib_list_t *list, uint32_t channel, uint32_t seq)
{
    BTL_IB_LIST_FOREACH (btl_ib_refragment_t, parts, list, link) {
        if (parts->channel == channel && parts->seq == seq) {
            return parts;
        }
    }
    return NULL;
}

/* Makes room for a segment: the youngest of its channel is dropped, if it is younger than this one.
 * False if there is no room. */
static bool make_room(btl_ib_list_t *list, const btl_ib_mem_t *mem, const btl_ib_view_t *part)
{
    btl_ib_refragment_t *youngest = NULL;
    uint32_t count = 0;

    BTL_IB_LIST_FOREACH (btl_ib_refragment_t, parts, list, link) {
        if (parts->channel == part->channel) {
            count++;
            if (youngest == NULL || btl_ib_seq_before(youngest->seq, parts->seq)) {
                youngest = parts;
            }
        }
    }
    if (count < BTL_IB_PARTS_KEPT) {
        return true;
    }
    if (btl_ib_seq_before(youngest->seq, part->seq)) {
        return false;
    }
    discard(mem, youngest);
    return true;
}

static btl_ib_refragment_t *begin_whole(btl_ib_list_t *list, const btl_ib_mem_t *mem,
                                        const btl_ib_view_t *part)
{
    const uint32_t count = pieces(part->part.total);
    const size_t bytes = ((size_t) part->part.total + 7) & ~(size_t) 7;
    btl_ib_refragment_t *parts;

    if (!make_room(list, mem, part)
        || (parts = btl_ib_zalloc(mem, sizeof(*parts) + bytes + (count + 63) / 64 * 8)) == NULL) {
        return NULL;
    }
    btl_ib_list_init(&parts->link);
    parts->seq = part->seq;
    parts->channel = part->channel;
    parts->type = part->part.type;
    parts->tag = part->part.tag;
    parts->total = part->part.total;
    parts->missing = count;
    parts->have = (uint64_t *) (void *) (parts->data + bytes);
    btl_ib_list_push_tail(list, &parts->link);
    return parts;
}

btl_ib_refragment_result_t btl_ib_refragment_add(btl_ib_list_t *list, const btl_ib_mem_t *mem,
                                                 const btl_ib_view_t *part,
                                                 btl_ib_refragment_t **whole)
{
    btl_ib_refragment_t *parts = find_whole(list, part->channel, part->seq);

    if (parts != NULL
        && (parts->total != part->part.total || parts->type != part->part.type
            || parts->tag != part->part.tag)) { /* what its sender says now is what counts */
        discard(mem, parts);
        parts = NULL;
    }
    if (parts == NULL && (parts = begin_whole(list, mem, part)) == NULL) {
        return BTL_IB_PARTS_RNR;
    }
    const uint32_t first = part->part.offset / BTL_IB_PART_UNIT;
    const uint32_t end = first + pieces(part->size);
    for (uint32_t i = first; i < end; i++) {
        const uint64_t bit = UINT64_C(1) << (i % 64);
        parts->missing -= !(parts->have[i / 64] & bit);
        parts->have[i / 64] |= bit;
    }
    memcpy(parts->data + part->part.offset, part->payload, part->size);
    if (parts->missing > 0) {
        return BTL_IB_PARTS_KEPT_IT;
    }
    btl_ib_list_remove(&parts->link);
    *whole = parts;
    return BTL_IB_PARTS_COMPLETE;
}

void btl_ib_refragment_forget(btl_ib_list_t *list, const btl_ib_mem_t *mem, uint32_t channel,
                              uint32_t seq)
{
    btl_ib_refragment_t *parts = find_whole(list, channel, seq);

    if (parts != NULL) {
        discard(mem, parts);
    }
}

void btl_ib_refragment_drop(btl_ib_list_t *list, const btl_ib_mem_t *mem)
{
    btl_ib_refragment_t *parts;

    while ((parts = BTL_IB_LIST_POP(btl_ib_refragment_t, list, link)) != NULL) {
        btl_ib_free(mem, parts);
    }
}
