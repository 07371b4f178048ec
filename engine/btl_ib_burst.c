/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_burst.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Returns how many segments, each as long as the first, may follow before the message or operation
 * ends. A shorter one at the end does not count. */
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

/* Returns the 64 bits there, as a number. */
static inline uint64_t word_at(const uint8_t *header, size_t offset)
{
    uint64_t word;

    memcpy(&word, header + offset, sizeof(word));
    return BTL_IB_LE64(word);
}

/* Compares `size` bytes of two headers. Returns 0 if they are equal, except that the last 64 bits
 * of the second are `more` higher. */
static inline uint64_t difference(const uint8_t *first, const uint8_t *other, size_t size,
                                  uint64_t more)
{
    const size_t last = size - sizeof(uint64_t); /* may overlap the word before */
    uint64_t all = word_at(other, last) ^ (word_at(first, last) + more);

    for (size_t at = 0; at < last; at += sizeof(uint64_t)) {
        all |= word_at(other, at) ^ word_at(first, at);
    }
    return all;
}

/* True if everything in the header is the same, but the sequence, which is `n` higher. */
static inline bool continues(const uint8_t *first, const uint8_t *other, uint32_t n)
{
    const size_t end = offsetof(btl_ib_wire_header_t, seq) + sizeof(uint32_t);

    return (difference(first, other, end, (uint64_t) n << 32)
            | difference(first + end, other + end, sizeof(btl_ib_wire_header_t) - end, 0))
           == 0;
}

/* True if the chunk is the `n`-th after the first: the index is the lower part of the upper
 * half. */
static inline bool chunk_continues(const uint8_t *first, const uint8_t *other, uint32_t n)
{
    return difference(first, other, sizeof(btl_ib_wire_chunk_t), (uint64_t) n << 32) == 0;
}

static bool target_continues(const uint8_t *first, const uint8_t *other, uint64_t bytes)
{
    const size_t end = offsetof(btl_ib_wire_target_t, offset) + sizeof(uint64_t);

    return (difference(first, other, end, bytes)
            | difference(first + end, other + end, sizeof(btl_ib_wire_target_t) - end, 0))
           == 0;
}

static bool got_continues(const btl_ib_view_t *view, const uint8_t *other, uint64_t bytes)
{
    btl_ib_wire_got_t b;

    memcpy(&b, other, sizeof(b));
    return BTL_IB_LE32(b.operation) == view->op.id
           && ((uint64_t) BTL_IB_LE32(b.offset_high) << 32 | BTL_IB_LE32(b.offset_low))
                  == view->op.offset + bytes;
}

/* True if the header of its type says, too, that these are the bytes `n` segments behind the
 * first. */
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
    const btl_ib_burst_t more = view->more;
    const uint32_t size = view->size;

    memcpy(to, view->payload, size);
    for (uint32_t i = 1; i < more.count; i++) {
        to += size;
        memcpy(to, more.events[i - 1].data + more.head, size);
    }
    if (more.count > 0) {
        memcpy(to + size, more.events[more.count - 1].data + more.head, size - more.less);
    }
    return btl_ib_burst_bytes(view);
}

static uint8_t flags_of(const btl_ib_event_t *datagram)
{
    return datagram->data[offsetof(btl_ib_wire_header_t, flags)];
}

/* True if the `n`-th datagram after the first has the last chunk of its message: all else in its
 * header is the same. It may ask for its acknowledgement, and be shorter than the others, or have
 * zeros behind its bytes. */
static bool ends_message(const btl_ib_view_t *view, const btl_ib_event_t *first, uint32_t n)
{
    const size_t header = sizeof(btl_ib_wire_header_t);
    const btl_ib_event_t *last = first + n;
    const uint64_t offset = view->chunk.offset + (uint64_t) n * view->chunk.unit;
    const uint64_t end = view->chunk.total - offset + (uint64_t) (view->payload - first->data);
    btl_ib_wire_header_t like;

    if (view->type != BTL_IB_TYPE_CHUNK || offset >= view->chunk.total
        || last->type != BTL_IB_EVENT_RECV || last->size > first->size || last->size < end
        || last->size > end + BTL_IB_PAD_MAX || last->from != first->from
        || last->codepoint != first->codepoint) {
        return false;
    }
    memcpy(&like, first->data, header);
    like.flags |= flags_of(last) & BTL_IB_FLAG_ACK_NOW;
    like.length = BTL_IB_LE16(last->size - header);
    return continues((const uint8_t *) &like, last->data, n)
           && chunk_continues(first->data + header, last->data + header, n);
}

void btl_ib_burst_find(btl_ib_view_t *view, const btl_ib_event_t *first, uint32_t events)
{
    const size_t header = sizeof(btl_ib_wire_header_t);
    const uint32_t most = btl_ib_min_u32(events, segments_left(view));
    uint32_t n = 0;

    while (n < most) {
        const btl_ib_event_t *next = first + n + 1;
        if (next->type != BTL_IB_EVENT_RECV || next->size != first->size
            || next->from != first->from || next->codepoint != first->codepoint
            || !continues(first->data, next->data, n + 1)
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
    if (n < events && ends_message(view, first, n + 1)) {
        view->more.count = n + 1;
        view->more.less = view->chunk.offset + (n + 2) * view->size - view->chunk.total;
        view->more.asks = flags_of(&first[n + 1]) & BTL_IB_FLAG_ACK_NOW;
    }
}
