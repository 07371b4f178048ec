/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_list.h"
#include "btl_ib_wire.h"

#include <string.h>

/* Takes the first `size` bytes off the payload. False: it is shorter. */
static inline bool take(btl_ib_view_t *view, void *to, size_t size)
{
    if (view->size < size) {
        return false;
    }
    memcpy(to, view->payload, size);
    view->payload += size;
    view->size -= (uint32_t) size;
    return true;
}

/* Parses a chunk, whose offset and size follow from its index: all else is wrong. */
static btl_ib_wire_error_t parse_chunk(btl_ib_view_t *view)
{
    btl_ib_wire_chunk_t chunk;

    if (!take(view, &chunk, sizeof(chunk))) {
        return BTL_IB_WIRE_SHORT;
    }
    view->chunk.fragment = BTL_IB_LE32(chunk.fragment);
    view->chunk.total = BTL_IB_LE32(chunk.total);
    view->chunk.index = BTL_IB_LE16(chunk.index);
    view->chunk.unit = BTL_IB_LE16(chunk.unit);

    uint64_t offset = (uint64_t) view->chunk.index * view->chunk.unit;
    if (view->chunk.unit == 0 || offset >= view->chunk.total) {
        return BTL_IB_WIRE_CHUNK_WRONG;
    }
    uint64_t rest = view->chunk.total - offset;
    view->chunk.offset = (uint32_t) offset;
    const uint32_t bytes = btl_ib_clip_u32(rest, view->chunk.unit);
    if (view->size < bytes || view->size - bytes > BTL_IB_PAD_MAX
        || view->size > view->chunk.unit) {
        return BTL_IB_WIRE_CHUNK_WRONG;
    }
    view->size = bytes;
    return BTL_IB_WIRE_OK;
}

/* Parses a body of one 32-bit number. */
static btl_ib_wire_error_t parse_u32(btl_ib_view_t *view, uint32_t *number)
{
    uint32_t wire;

    if (view->size != sizeof(wire)) {
        return BTL_IB_WIRE_LENGTH;
    }
    memcpy(&wire, view->payload, sizeof(wire));
    *number = BTL_IB_LE32(wire);
    view->size = 0;
    return BTL_IB_WIRE_OK;
}

static btl_ib_wire_error_t parse_skip(btl_ib_view_t *view)
{
    btl_ib_wire_error_t error = parse_u32(view, &view->skip);

    return error == BTL_IB_WIRE_OK && view->skip == 0 ? BTL_IB_WIRE_LENGTH : error;
}

/* Ranges ascend with gaps between them, else they would be one range. The sequence `ack` itself
 * did not arrive, or got RNR. */
static bool are_ranges(const btl_ib_ack_block_t *block)
{
    uint64_t least = block->rnr ? 0 : 1;

    for (uint32_t i = 0; i < block->ranges; i++) {
        uint32_t from, to;
        btl_ib_wire_range(block, i, &from, &to);
        from -= block->ack;
        to -= block->ack;
        if (from < least || to <= from || to > BTL_IB_WINDOW_LIMIT) {
            return false;
        }
        least = (uint64_t) to + 1;
    }
    return true;
}

static btl_ib_wire_error_t parse_ack(const btl_ib_view_t *view)
{
    btl_ib_ack_block_t block;
    uint32_t offset = 0, channel = 0;

    while (btl_ib_wire_next_block(view, &offset, &block)) {
        uint32_t name = block.channel | (block.rnr ? BTL_IB_CHANNEL_RNR : 0);
        if (name < channel || !are_ranges(&block)
            || (block.rnr && (block.ranges == 0 || block.duplicates > 1 || block.limit != 0))
            || (name == BTL_IB_CHANNEL_ECN && (block.ranges != 0 || block.duplicates != 0))) {
            return BTL_IB_WIRE_ACK_WRONG;
        }
        channel = name + 1; /* each channel once: that bounds the work for a datagram */
    }
    return offset == view->size ? BTL_IB_WIRE_OK : BTL_IB_WIRE_ACK_WRONG;
}

/* True if a < b, of offsets into regions, which are in two's complement. */
static bool is_before(uint64_t a, uint64_t b)
{
    const uint64_t sign = UINT64_C(1) << 63;

    return (a ^ sign) < (b ^ sign);
}

/* Parses where the bytes of a segment of a PUT lie: within the whole of it, which ends at `end`. */
static btl_ib_wire_error_t parse_target(btl_ib_view_t *view)
{
    btl_ib_wire_target_t target;

    if (!take(view, &target, sizeof(target))) {
        return BTL_IB_WIRE_SHORT;
    }
    view->op.key.id = BTL_IB_LE64(target.region);
    view->op.key.secret = BTL_IB_LE64(target.secret);
    view->op.offset = BTL_IB_LE64(target.offset);
    view->op.end = BTL_IB_LE64(target.end);
    view->op.id = BTL_IB_LE32(target.operation);
    if (target.reserved != 0) {
        return BTL_IB_WIRE_TYPE_UNKNOWN;
    }
    if (is_before(view->op.end, view->op.offset)) {
        return BTL_IB_WIRE_OP_WRONG;
    }
    if (view->type == BTL_IB_TYPE_GET) {
        return view->size == 0 ? BTL_IB_WIRE_OK : BTL_IB_WIRE_LENGTH;
    }
    uint64_t rest = view->op.end - view->op.offset;
    bool fits = view->size <= rest && (view->size > 0 || rest == 0);
    return fits ? BTL_IB_WIRE_OK : BTL_IB_WIRE_OP_WRONG;
}

static btl_ib_wire_error_t parse_atomic(btl_ib_view_t *view)
{
    btl_ib_wire_atomic_t atomic;

    if (view->size != sizeof(atomic)) {
        return BTL_IB_WIRE_LENGTH;
    }
    memcpy(&atomic, view->payload, sizeof(atomic));
    view->size = 0;
    view->op.key.id = BTL_IB_LE64(atomic.region);
    view->op.key.secret = BTL_IB_LE64(atomic.secret);
    view->op.offset = BTL_IB_LE64(atomic.offset);
    view->op.operand = BTL_IB_LE64(atomic.operand);
    view->op.compare = BTL_IB_LE64(atomic.compare);
    view->op.id = BTL_IB_LE32(atomic.operation);
    view->op.code = atomic.code;
    view->op.type = atomic.type;
    if (atomic.reserved != 0) {
        return BTL_IB_WIRE_TYPE_UNKNOWN;
    }
    return btl_ib_atomic_supported(atomic.code, atomic.type) ? BTL_IB_WIRE_OK
                                                             : BTL_IB_WIRE_OP_WRONG;
}

static btl_ib_wire_error_t parse_got(btl_ib_view_t *view)
{
    btl_ib_wire_got_t got;

    if (!take(view, &got, sizeof(got))) {
        return BTL_IB_WIRE_SHORT;
    }
    view->op.offset = (uint64_t) BTL_IB_LE32(got.offset_high) << 32 | BTL_IB_LE32(got.offset_low);
    view->op.id = BTL_IB_LE32(got.operation);
    return view->size > 0 ? BTL_IB_WIRE_OK : BTL_IB_WIRE_OP_WRONG;
}

static btl_ib_wire_error_t parse_reply(const btl_ib_view_t *view)
{
    btl_ib_reply_t reply;
    uint32_t offset = 0;

    if (view->size == 0 || view->size % sizeof(btl_ib_wire_reply_t) != 0) {
        return BTL_IB_WIRE_LENGTH;
    }
    while (btl_ib_wire_next_reply(view, &offset, &reply)) {
        if (reply.status > BTL_IB_REPLY_REJECTED) {
            return BTL_IB_WIRE_OP_WRONG;
        }
    }
    return BTL_IB_WIRE_OK;
}

/* True if the bytes between two messages, at most 3, are zero. */
static bool is_padding(const uint8_t *from, const uint8_t *end)
{
    while (from < end && *from == 0) {
        from++;
    }
    return from == end;
}

/* Parses a BUNDLE. All messages are checked first: nothing of a malformed datagram is delivered. */
static btl_ib_wire_error_t parse_bundle(btl_ib_view_t *view)
{
    uint32_t offset = 0, before = 0, bytes = 0;
    uint8_t highest = view->tag, lowest = UINT8_MAX;
    btl_ib_bundled_t message;

    while (btl_ib_wire_next_message(view, &offset, &message)) {
        if (view->payload[before + offsetof(btl_ib_wire_entry_t, zero)] != 0
            || (message.size % 4 != 0
                && !is_padding(message.data + message.size, view->payload + offset))) {
            return BTL_IB_WIRE_TYPE_UNKNOWN;
        }
        highest = message.tag > highest ? message.tag : highest;
        lowest = message.tag < lowest ? message.tag : lowest;
        bytes += message.size;
        before = offset;
    }
    view->tag = highest;
    view->lowest = lowest;
    view->bytes = bytes;
    return offset == view->size && offset > 0 ? BTL_IB_WIRE_OK : BTL_IB_WIRE_LENGTH;
}

/* Parses a VOID. A probe of the path MTU search carries zeros. */
static btl_ib_wire_error_t parse_void(btl_ib_view_t *view)
{
    for (uint32_t i = 0; i < view->size; i++) {
        if (view->payload[i] != 0) {
            return BTL_IB_WIRE_TYPE_UNKNOWN;
        }
    }
    view->bytes = view->size;
    view->size = 0;
    return BTL_IB_WIRE_OK;
}

/* True if segments of a type may be sent in parts: those whose body may be long. */
static bool has_parts(uint8_t type)
{
    return type == BTL_IB_TYPE_DATA || type == BTL_IB_TYPE_CHUNK || type == BTL_IB_TYPE_PUT
           || type == BTL_IB_TYPE_GOT || type == BTL_IB_TYPE_REPLY || type == BTL_IB_TYPE_BUNDLE;
}

static btl_ib_wire_error_t parse_part(btl_ib_view_t *view)
{
    btl_ib_wire_part_t part;

    if (!take(view, &part, sizeof(part))) {
        return BTL_IB_WIRE_SHORT;
    }
    view->part.offset = BTL_IB_LE16(part.offset);
    view->part.total = BTL_IB_LE16(part.total);
    view->part.type = part.type;
    view->part.tag = part.tag;
    if (part.zero != 0 || !has_parts(part.type)
        || (part.tag != 0 && part.type >= BTL_IB_TYPE_PUT)) {
        return BTL_IB_WIRE_TYPE_UNKNOWN;
    }
    const uint32_t end = view->part.offset + view->size;
    if (view->size == 0 || end > view->part.total || view->part.offset % BTL_IB_PART_UNIT != 0
        || (view->size % BTL_IB_PART_UNIT != 0 && end != view->part.total)) {
        return BTL_IB_WIRE_LENGTH;
    }
    return BTL_IB_WIRE_OK;
}

static btl_ib_wire_error_t parse_connect(btl_ib_view_t *view)
{
    btl_ib_wire_connect_t connect;

    if (!take(view, &connect, sizeof(connect))) {
        return BTL_IB_WIRE_SHORT;
    }
    view->connect.name = BTL_IB_LE64(connect.name);
    view->connect.connection = BTL_IB_LE32(connect.connection);
    view->connect.epoch = BTL_IB_LE32(connect.epoch);
    view->connect.from_rail = connect.from_rail;
    view->connect.to_rail = connect.to_rail;
    view->connect.floor = BTL_IB_LE32(connect.floor);
    if (connect.reserved != 0 || view->connect.connection == 0) {
        return BTL_IB_WIRE_TYPE_UNKNOWN;
    }
    return BTL_IB_WIRE_OK;
}

static btl_ib_wire_error_t parse_body(btl_ib_view_t *view)
{
    switch (view->type) {
    case BTL_IB_TYPE_DATA:
        return BTL_IB_WIRE_OK;
    case BTL_IB_TYPE_CHUNK:
        return parse_chunk(view);
    case BTL_IB_TYPE_SKIP:
        return parse_skip(view);
    case BTL_IB_TYPE_ACK:
        return parse_ack(view);
    case BTL_IB_TYPE_PUT:
    case BTL_IB_TYPE_GET:
        return parse_target(view);
    case BTL_IB_TYPE_ATOMIC:
        return parse_atomic(view);
    case BTL_IB_TYPE_GOT:
        return parse_got(view);
    case BTL_IB_TYPE_REPLY:
        return parse_reply(view);
    case BTL_IB_TYPE_REJECTED:
        return parse_u32(view, &view->op.id);
    case BTL_IB_TYPE_BUNDLE:
        return parse_bundle(view);
    case BTL_IB_TYPE_PART:
        return parse_part(view);
    case BTL_IB_TYPE_VOID:
        return parse_void(view);
    case BTL_IB_TYPE_CLOSE:
        return view->size == 0 ? BTL_IB_WIRE_OK : BTL_IB_WIRE_LENGTH;
    case BTL_IB_TYPE_PATH_RESPONSE:
        if ((view->flags & ~(BTL_IB_FLAG_PATH | BTL_IB_FLAG_ACK_NOW)) != 0
            || view->flags == BTL_IB_FLAG_ACK_NOW) {
            return BTL_IB_WIRE_TYPE_UNKNOWN;
        }
        return view->size == 0 ? BTL_IB_WIRE_OK : BTL_IB_WIRE_LENGTH;
    default:
        return BTL_IB_WIRE_TYPE_UNKNOWN;
    }
}

/* Parses the part of a header that is never encrypted. */
static inline btl_ib_wire_error_t parse_clear(uint8_t *data, uint32_t size,
                                              btl_ib_wire_header_t *header, btl_ib_view_t *view)
{
    if (size < sizeof(*header)) {
        return BTL_IB_WIRE_SHORT;
    }
    memcpy(header, data, sizeof(*header));
    view->version = header->version_type >> 4;
    if (view->version < BTL_IB_WIRE_VERSION_OLDEST || view->version > BTL_IB_WIRE_VERSION) {
        return BTL_IB_WIRE_VERSION_UNKNOWN;
    }
    view->type = header->version_type & 0xf;
    if ((header->flags & BTL_IB_FLAG_PATH) && view->type != BTL_IB_TYPE_PATH_RESPONSE) {
        return BTL_IB_WIRE_TYPE_UNKNOWN;
    }
    view->flags = header->flags;
    view->connection = BTL_IB_LE32(header->connection);
    view->token = BTL_IB_LE64(header->token);
    view->payload = data + sizeof(*header);
    view->size = size - (uint32_t) sizeof(*header);
    return BTL_IB_WIRE_OK;
}

static inline btl_ib_wire_error_t parse_rest_of_header(const btl_ib_wire_header_t *header,
                                                       btl_ib_view_t *view)
{
    if (BTL_IB_LE16(header->length) != view->size) {
        return BTL_IB_WIRE_LENGTH;
    }
    if (header->poll_gap != 0 && !(header->flags & BTL_IB_FLAG_ECHO)) {
        return BTL_IB_WIRE_TYPE_UNKNOWN;
    }
    view->channel = header->channels & 0xf;
    view->ack_channel = header->channels >> 4;
    view->tag = header->tag;
    view->seq = BTL_IB_LE32(header->seq);
    view->ack = BTL_IB_LE32(header->ack);
    view->limit = view->ack + BTL_IB_LE16(header->credits);
    view->stamp = BTL_IB_LE32(header->stamp);
    view->echo = BTL_IB_LE32(header->echo);
    view->hold = BTL_IB_LE16(header->hold);
    view->poll_gap = BTL_IB_LE16(header->poll_gap);
    if ((view->tag != 0 && view->type >= BTL_IB_TYPE_PUT)
        || ((view->flags & BTL_IB_FLAG_READY) && view->type != BTL_IB_TYPE_ACK)) {
        return BTL_IB_WIRE_TYPE_UNKNOWN;
    }
    return BTL_IB_WIRE_OK;
}

btl_ib_wire_error_t btl_ib_wire_parse_whole(btl_ib_view_t *view)
{
    return parse_body(view);
}

btl_ib_wire_error_t btl_ib_wire_peek(uint8_t *data, uint32_t size, btl_ib_view_t *view)
{
    btl_ib_wire_header_t header;
    btl_ib_wire_error_t error = parse_clear(data, size, &header, view);

    return error == BTL_IB_WIRE_OK && (view->flags & BTL_IB_FLAG_CONNECT) ? parse_connect(view)
                                                                          : error;
}

btl_ib_wire_error_t btl_ib_wire_parse(uint8_t *data, uint32_t size, btl_ib_view_t *view)
{
    btl_ib_wire_header_t header;
    btl_ib_wire_error_t error = parse_clear(data, size, &header, view);

    if (error == BTL_IB_WIRE_OK) {
        error = parse_rest_of_header(&header, view);
    }
    if (error == BTL_IB_WIRE_OK && (view->flags & BTL_IB_FLAG_CONNECT)) {
        error = parse_connect(view);
    }
    if (error != BTL_IB_WIRE_OK
        || view->type == BTL_IB_TYPE_DATA) { /* whose body may be anything */
        return error;
    }
    return parse_body(view);
}

bool btl_ib_wire_next_block(const btl_ib_view_t *view, uint32_t *offset, btl_ib_ack_block_t *block)
{
    btl_ib_wire_ack_t wire;

    if (view->size - *offset < sizeof(wire)) {
        return false;
    }
    memcpy(&wire, view->payload + *offset, sizeof(wire));
    uint32_t ranges = wire.ranges * (uint32_t) sizeof(btl_ib_wire_range_t);
    if (view->size - *offset - sizeof(wire) < ranges) {
        return false;
    }
    block->channel = wire.channel & ~BTL_IB_CHANNEL_RNR;
    block->rnr = wire.channel & BTL_IB_CHANNEL_RNR;
    block->ack = BTL_IB_LE32(wire.ack);
    block->limit = BTL_IB_LE32(wire.limit);
    block->duplicates = BTL_IB_LE16(wire.duplicates);
    block->ranges = wire.ranges;
    block->range = view->payload + *offset + sizeof(wire);
    *offset += (uint32_t) sizeof(wire) + ranges;
    return true;
}

void btl_ib_wire_range(const btl_ib_ack_block_t *block, uint32_t i, uint32_t *from, uint32_t *to)
{
    btl_ib_wire_range_t range;

    memcpy(&range, block->range + i * sizeof(range), sizeof(range));
    *from = block->ack + BTL_IB_LE16(range.offset);
    *to = *from + BTL_IB_LE16(range.count);
}

bool btl_ib_wire_next_reply(const btl_ib_view_t *view, uint32_t *offset, btl_ib_reply_t *reply)
{
    btl_ib_wire_reply_t wire;

    if (view->size - *offset < sizeof(wire)) {
        return false;
    }
    memcpy(&wire, view->payload + *offset, sizeof(wire));
    *offset += (uint32_t) sizeof(wire);
    *reply = (btl_ib_reply_t){
        .result = BTL_IB_LE64(wire.result),
        .id = BTL_IB_LE32(wire.operation),
        .status = BTL_IB_LE32(wire.status),
    };
    return true;
}
