/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * libFuzzer target: any bytes as a datagram. What is accepted lies within the datagram and keeps
 * what btl_ib_wire.h promises of chunks and ranges.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_wire.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_chunk(const btl_ib_view_t *view)
{
    uint64_t end = (uint64_t) view->chunk.offset + view->size;

    REQUIRE(view->chunk.unit > 0);
    REQUIRE((uint64_t) view->chunk.index * view->chunk.unit == view->chunk.offset);
    REQUIRE(view->size > 0 && view->size <= view->chunk.unit);
    REQUIRE(end <= view->chunk.total);
    REQUIRE(view->size == view->chunk.unit || end == view->chunk.total);
}

static void check_ack(const btl_ib_view_t *view)
{
    btl_ib_ack_block_t block;
    uint32_t offset = 0;
    uint32_t before = 0;

    for (; btl_ib_wire_next_block(view, &offset, &block); before = offset) {
        uint32_t least = block.rnr ? 0 : 1; /* what is missing first may have been refused */
        REQUIRE(offset > before && offset <= view->size);
        REQUIRE(block.range + block.ranges * sizeof(btl_ib_wire_range_t) == view->payload + offset);
        for (uint32_t i = 0; i < block.ranges; i++) {
            uint32_t from, to;
            btl_ib_wire_range(&block, i, &from, &to);
            REQUIRE(from - block.ack >= least);
            REQUIRE(to - block.ack > from - block.ack);
            REQUIRE(to - block.ack <= BTL_IB_WINDOW_LIMIT);
            least = to - block.ack + 1;
        }
    }
    REQUIRE(offset == view->size);
}

/* One-sided: what the checks of regions and operations rely on. */
static void check_op(const btl_ib_view_t *view, size_t body)
{
    btl_ib_reply_t reply;
    uint32_t offset = 0;

    REQUIRE(view->tag == 0);
    switch (view->type) {
    case BTL_IB_TYPE_PUT:
        REQUIRE(view->size == body - sizeof(btl_ib_wire_target_t));
        REQUIRE((int64_t) view->op.offset <= (int64_t) view->op.end);
        REQUIRE(view->size <= view->op.end - view->op.offset);
        REQUIRE(view->size > 0 || view->op.offset == view->op.end);
        break;
    case BTL_IB_TYPE_GET:
        REQUIRE(body == sizeof(btl_ib_wire_target_t));
        REQUIRE((int64_t) view->op.offset <= (int64_t) view->op.end);
        break;
    case BTL_IB_TYPE_ATOMIC:
        REQUIRE(body == sizeof(btl_ib_wire_atomic_t));
        REQUIRE(btl_ib_atomic_supported(view->op.code, view->op.type));
        break;
    case BTL_IB_TYPE_GOT:
        REQUIRE(view->size > 0 && view->size == body - sizeof(btl_ib_wire_got_t));
        break;
    case BTL_IB_TYPE_REPLY:
        while (btl_ib_wire_next_reply(view, &offset, &reply)) {
            REQUIRE(reply.status <= BTL_IB_REPLY_REJECTED);
        }
        REQUIRE(offset > 0 && offset == body);
        break;
    default:
        REQUIRE(body == (view->type == BTL_IB_TYPE_REJECTED ? sizeof(uint32_t) : 0));
        break;
    }
}

/* A walk finds messages that lie in the datagram, one behind the other. */
static void check_bundle(const btl_ib_view_t *view, const uint8_t *datagram, size_t size)
{
    btl_ib_bundled_t message;
    uint32_t offset = 0, bytes = 0;

    while (btl_ib_wire_next_message(view, &offset, &message)) {
        REQUIRE(message.data >= datagram && message.data + message.size <= datagram + size);
        REQUIRE(message.tag <= view->tag);
        bytes += message.size;
    }
    REQUIRE(offset > 0 && offset == view->size && bytes == view->bytes);
}

/* A part lies in what it is a part of, in whole units but the last. */
static void check_part(const btl_ib_view_t *view, size_t body)
{
    const uint64_t end = (uint64_t) view->part.offset + view->size;

    REQUIRE(view->size > 0 && view->size == body - sizeof(btl_ib_wire_part_t));
    REQUIRE(end <= view->part.total && view->part.offset % BTL_IB_PART_UNIT == 0);
    REQUIRE(view->size % BTL_IB_PART_UNIT == 0 || end == view->part.total);
}

static void check_zeros(const btl_ib_view_t *view, const uint8_t *body, size_t size)
{
    REQUIRE(view->size == 0 && view->bytes == size);
    for (size_t i = 0; i < size; i++) {
        REQUIRE(body[i] == 0);
    }
}

static void check(const btl_ib_view_t *view, const uint8_t *datagram, size_t size)
{
    size_t headers = sizeof(btl_ib_wire_header_t);

    REQUIRE(size >= headers && size <= BTL_IB_DATAGRAM_MAX);
    REQUIRE((view->flags & ~BTL_IB_FLAGS_ALL) == 0 || view->type == BTL_IB_TYPE_PATH_RESPONSE);
    REQUIRE(view->channel < BTL_IB_QUEUES_MAX && view->ack_channel < BTL_IB_QUEUES_MAX);
    REQUIRE(view->limit - view->ack <= UINT16_MAX);
    if (view->flags & BTL_IB_FLAG_CONNECT) {
        headers += sizeof(btl_ib_wire_connect_t);
        REQUIRE(view->connect.connection != 0);
    }
    REQUIRE(view->payload >= datagram + headers && view->payload + view->size <= datagram + size);
    switch (view->type) {
    case BTL_IB_TYPE_DATA:
        REQUIRE(view->payload == datagram + headers && view->size == size - headers);
        break;
    case BTL_IB_TYPE_CHUNK:
        headers += sizeof(btl_ib_wire_chunk_t);
        REQUIRE(view->size <= size - headers && size - headers - view->size <= BTL_IB_PAD_MAX);
        check_chunk(view);
        break;
    case BTL_IB_TYPE_SKIP:
        REQUIRE(view->skip > 0 && view->size == 0);
        break;
    case BTL_IB_TYPE_ACK:
        check_ack(view);
        break;
    case BTL_IB_TYPE_CLOSE:
    case BTL_IB_TYPE_PATH_RESPONSE:
        REQUIRE(size == headers);
        break;
    case BTL_IB_TYPE_BUNDLE:
        check_bundle(view, datagram, size);
        break;
    case BTL_IB_TYPE_PART:
        check_part(view, size - headers);
        break;
    case BTL_IB_TYPE_VOID:
        check_zeros(view, datagram + headers, size - headers);
        break;
    default:
        REQUIRE(view->type >= BTL_IB_TYPE_PUT && view->type <= BTL_IB_TYPE_REJECTED);
        check_op(view, size - headers);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Aligned, and of the exact size, so that the address sanitizer sees a read beyond it. */
    uint8_t *datagram = malloc(size > 0 ? size : 1);
    btl_ib_view_t view;

    if (datagram == NULL) {
        return 0;
    }
    if (size > 0) {
        memcpy(datagram, data, size);
    }
    memset(&view, 0, sizeof(view));
    btl_ib_wire_error_t error = btl_ib_wire_parse(datagram, (uint32_t) size, &view);
    REQUIRE((int) error >= BTL_IB_WIRE_OK && error <= BTL_IB_WIRE_OP_WRONG);
    if (error == BTL_IB_WIRE_OK) {
        check(&view, datagram, size);
    }
    REQUIRE(size == 0 || memcmp(datagram, data, size) == 0);
    free(datagram);
    return 0;
}
