/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Bytes of a caller's memory -> a segment: copied behind its head, or sent from where they are. */

#include "btl_ib_cut.h"
#include "btl_ib_min.h"

#include <string.h>

/* What of `size` bytes from `offset` on of several pieces of memory is in this one: taken off both. */
static inline struct iovec part_of(const struct iovec *iov, uint64_t *offset, uint32_t *size)
{
    struct iovec part = {0};

    if (*offset >= iov->iov_len) {
        *offset -= iov->iov_len;
        return part;
    }
    part.iov_base = (uint8_t *) iov->iov_base + *offset;
    part.iov_len = btl_ib_clip_u32(iov->iov_len - *offset, *size);
    *size -= (uint32_t) part.iov_len;
    *offset = 0;
    return part;
}

void btl_ib_cut_copy(const struct iovec *iov, int count, uint64_t offset, uint32_t size,
                     uint8_t *to)
{
    for (int i = 0; i < count && size > 0; i++) {
        struct iovec part = part_of(&iov[i], &offset, &size);
        if (part.iov_len > 0) {
            memcpy(to, part.iov_base, part.iov_len);
            to += part.iov_len;
        }
    }
}

/* The same bytes are sent from where they are. */
static void refer(btl_ib_segment_t *segment, const struct iovec iov[2], uint64_t offset,
                  uint32_t size)
{
    segment->outside = size;
    segment->iov[0] = part_of(&iov[0], &offset, &size);
    segment->iov[1] = (struct iovec){0};
    if (size > 0) {
        segment->iov[segment->iov[0].iov_len > 0] = part_of(&iov[1], &offset, &size);
    }
}

/* Bytes of a region are sent from where they are, but there is room to copy them should it be removed. */
static void lend(btl_ib_conn_t *conn, const btl_ib_piece_t *piece, btl_ib_segment_t *segment)
{
    segment->size -= piece->size;
    segment->region = piece->region;
    btl_ib_regions_lend(&conn->engine->regions, piece->region);
}

/* Zeros behind bytes that are sent from where they are; if those are in two places there is no third. */
static void pad_outside(btl_ib_segment_t *segment, uint32_t size)
{
    static const uint8_t zeros[BTL_IB_PAD_MAX];

    if (segment->iov[1].iov_len == 0) {
        segment->iov[1] = (struct iovec){.iov_base = (void *) (uintptr_t) zeros, .iov_len = size};
        segment->outside += size;
    }
}

btl_ib_segment_t *btl_ib_cut_make(btl_ib_conn_t *conn, const btl_ib_piece_t *piece)
{
    const bool outside = piece->refers && piece->size > 0;
    const bool room = !outside || piece->region != 0;
    btl_ib_segment_t *segment =
        btl_ib_send_prepare(conn, piece->type, piece->head + (room ? piece->size + piece->pad : 0));

    if (segment == NULL) {
        return NULL;
    }
    segment->payload = piece->size;
    if (outside) {
        refer(segment, piece->iov, piece->offset, piece->size);
        pad_outside(segment, piece->pad);
        if (room) {
            lend(conn, piece, segment);
        }
    } else if (piece->size > 0) {
        uint8_t *bytes = btl_ib_send_body(segment) + piece->head;
        btl_ib_cut_copy(piece->iov, 2, piece->offset, piece->size, bytes);
        memset(bytes + piece->size, 0, piece->pad);
    }
    return segment;
}

void btl_ib_cut_own(btl_ib_segment_t *segment)
{
    memcpy(segment->wire + segment->size, segment->iov[0].iov_base, segment->outside);
    segment->size += segment->outside;
    segment->outside = 0;
    segment->region = 0;
}
