/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What stands before the bytes of a segment: of each type one function, which writes it to `to`. Pictures of them are in
 * btl_ib_wire.h. */

#ifndef BTL_IB_CUT_HEADS_H
#define BTL_IB_CUT_HEADS_H

#include <stdint.h>
#include <string.h>

#include "btl_ib_state.h"

static inline void btl_ib_head_chunk(const btl_ib_msg_t *msg, uint64_t offset, uint8_t *to)
{
    const btl_ib_wire_chunk_t chunk = {
        .fragment = BTL_IB_LE32(msg->id),
        .total = BTL_IB_LE32(msg->out.size),
        .index = BTL_IB_LE16(offset / msg->unit),
        .unit = BTL_IB_LE16(msg->unit),
    };
    memcpy(to, &chunk, sizeof(chunk));
}

/* From byte `offset` of the operation on. */
static inline void btl_ib_head_target(const btl_ib_op_t *op, uint64_t offset, uint8_t *to)
{
    const btl_ib_wire_target_t target = {
        .region = BTL_IB_LE64(op->key.id),
        .secret = BTL_IB_LE64(op->key.secret),
        .offset = BTL_IB_LE64(op->offset + offset),
        .end = BTL_IB_LE64(op->offset + op->size),
        .operation = BTL_IB_LE32(op->id),
    };
    memcpy(to, &target, sizeof(target));
}

static inline void btl_ib_head_atomic(const btl_ib_op_t *op, uint8_t *to)
{
    const btl_ib_wire_atomic_t atomic = {
        .region = BTL_IB_LE64(op->key.id),
        .secret = BTL_IB_LE64(op->key.secret),
        .offset = BTL_IB_LE64(op->offset),
        .operand = BTL_IB_LE64(op->operand),
        .compare = BTL_IB_LE64(op->compare),
        .operation = BTL_IB_LE32(op->id),
        .code = (uint8_t) op->code,
        .type = (uint8_t) op->type,
    };
    memcpy(to, &atomic, sizeof(atomic));
}

static inline void btl_ib_head_got(const btl_ib_stream_t *stream, uint64_t offset, uint8_t *to)
{
    const btl_ib_wire_got_t got = {
        .offset_low = BTL_IB_LE32(offset & UINT32_MAX),
        .offset_high = BTL_IB_LE32(offset >> 32),
        .operation = BTL_IB_LE32(stream->id),
    };
    memcpy(to, &got, sizeof(got));
}

#endif
