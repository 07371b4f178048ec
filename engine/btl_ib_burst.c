/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_burst.h"

#include "btl_ib_list.h"

#include <string.h>

/* So many segments may follow before the message or operation ends, each as long as the first. A
 * shorter one at the end does not count. */
static uint32_t segments_left(const btl_ib_view_t *view)
{
    uint64_t bytes;

    switch (view->type) {
    case BTL_IB_TYPE_CHUNK:
        bytes = view->size == view->chunk.unit ? view->chunk.total - view->chunk.offset : 0;
        break;
    case BTL_IB_TYPE_PUT:
        bytes = view->op.end - view->op.offset;
        break;
    case BTL_IB_TYPE_GOT: /* its end is checked with the operation */
        return UINT32_MAX;
    default:
        return 0;
    }
    return view->size == 0 || bytes <= view->size
               ? 0
               : btl_ib_clip_u32(bytes / view->size - 1, UINT32_MAX);
}

/* Are `size` bytes of two headers the same, but for those from `from` to `to`? */
static inline bool same_beside(const uint8_t *a, const uint8_t *b, size_t size, size_t from,
                               size_t to)
{
    return memcmp(a, b, from) == 0 && memcmp(a + to, b + to, size - to) == 0;
}

/* Everything in the header is the same, but the sequence, which is `n` higher. */
static bool continues(const uint8_t *first, const uint8_t *other, uint32_t n)
{
    const size_t seq = offsetof(btl_ib_wire_header_t, seq);
    uint32_t a, b;

    memcpy(&a, first + seq, sizeof(a));
    memcpy(&b, other + seq, sizeof(b));
    return BTL_IB_LE32(b) == BTL_IB_LE32(a) + n
           && same_beside(first, other, sizeof(btl_ib_wire_header_t), seq, seq + sizeof(a));
}

static bool chunk_continues(const uint8_t *first, const uint8_t *other, uint32_t n)
{
    const size_t index = offsetof(btl_ib_wire_chunk_t, index);
    uint16_t a, b;

    memcpy(&a, first + index, sizeof(a));
    memcpy(&b, other + index, sizeof(b));
    return BTL_IB_LE16(b) == BTL_IB_LE16(a) + n
           && same_beside(first, other, sizeof(btl_ib_wire_chunk_t), index, index + sizeof(a));
}

static bool target_continues(const uint8_t *first, const uint8_t *other, uint64_t bytes)
{
    const size_t offset = offsetof(btl_ib_wire_target_t, offset);
    uint64_t a, b;

    memcpy(&a, first + offset, sizeof(a));
    memcpy(&b, other + offset, sizeof(b));
    return BTL_IB_LE64(b) == BTL_IB_LE64(a) + bytes
           && same_beside(first, other, sizeof(btl_ib_wire_target_t), offset, offset + sizeof(a));
}

static bool got_continues(const btl_ib_view_t *view, const uint8_t *other, uint64_t bytes)
{
    btl_ib_wire_got_t b;

    memcpy(&b, other, sizeof(b));
    return BTL_IB_LE32(b.operation) == view->op.id
           && ((uint64_t) BTL_IB_LE32(b.offset_high) << 32 | BTL_IB_LE32(b.offset_low))
                  == view->op.offset + bytes;
}

/* Does the header of its type, too, say that these are the bytes `n` segments behind the first? */
static bool body_continues(const btl_ib_view_t *view, const uint8_t *first, const uint8_t *other,
                           uint32_t n)
{
    const uint64_t bytes = (uint64_t) n * view->size;

    return view->type == BTL_IB_TYPE_CHUNK ? chunk_continues(first, other, n)
           : view->type == BTL_IB_TYPE_PUT ? target_continues(first, other, bytes)
                                           : got_continues(view, other, bytes);
}

uint64_t btl_ib_burst_place(const btl_ib_view_t *view, uint8_t *to)
{
    for (uint32_t i = 0; i < btl_ib_burst_count(view); i++) {
        memcpy(to, btl_ib_burst_payload(view, i), view->size);
        to += view->size;
    }
    return btl_ib_burst_bytes(view);
}

void btl_ib_burst_find(btl_ib_view_t *view, const btl_ib_event_t *first, uint32_t most)
{
    const size_t header = sizeof(btl_ib_wire_header_t);
    uint32_t n = 0;

    most = btl_ib_min_u32(most, segments_left(view));
    while (n < most) {
        const btl_ib_event_t *next = first + n + 1;
        if (next->type != BTL_IB_EVENT_RECV || next->size != first->size
            || next->from != first->from || !continues(first->data, next->data, n + 1)
            || !body_continues(view, first->data + header, next->data + header, n + 1)) {
            break;
        }
        n++;
    }
    view->more = (btl_ib_burst_t){
        .events = first + 1,
        .count = n,
        .head = (uint32_t) (view->payload - first->data),
    };
}
