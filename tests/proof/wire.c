/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The parsers of datagrams, for any bytes: the header with its CONNECT block, and then the body of
 * each type but ACK, REPLY and VOID, at any length up to BODY. What is read lies inside the
 * datagram, and what a parser accepts keeps what btl_ib_wire.h promises.
 *
 * proof: header BODY=0
 * proof: chunk BODY=64
 * proof: numbers BODY=8
 * proof: operations BODY=64
 * proof: part BODY=64
 * proof: bundle BODY=16 --unwind 6
 *
 * fault: header engine/btl_ib_wire.c|if (view->size < size) { ==> if (view->size + 8 < size) {
 * fault: numbers engine/btl_ib_wire.c|view->skip == 0 ? ==> view->skip > 9 ?
 * fault: chunk engine/btl_ib_wire.c|offset >= view->chunk.total ==> offset > view->chunk.total
 * fault: bundle engine/btl_ib_wire.c|offset == view->size && offset > 0 ? ==> offset > 0 ?
 * fault: part engine/btl_ib_wire.c|end > view->part.total ==> end > view->part.total + 8u
 * fault: operations engine/btl_ib_wire.c|view->size <= rest && ( ==> (
 */

#include "proof.h"

#include "btl_ib_wire.c"

/* btl_ib_rma_atomic.c: which types and codes there are does not matter here. */
bool btl_ib_atomic_supported(uint32_t code, uint32_t type)
{
    (void) code;
    (void) type;
    return nondet_bool();
}

static void prove_bundle(const btl_ib_view_t *view)
{
    btl_ib_bundled_t message;
    uint32_t offset = 0, bytes = 0;

    while (btl_ib_wire_next_message(view, &offset, &message)) {
        PROVE(message.data + message.size <= view->payload + offset);
        PROVE(message.tag <= view->tag && message.tag >= view->lowest);
        bytes += message.size;
    }
    PROVE(offset == view->size && bytes == view->bytes);
}

/* Any bytes of any length, with nothing behind them. */
#define ANY_BYTES(name, most)                                                                      \
    uint64_t name##_memory[((most) + 7) / 8 + 1];                                                  \
    const uint32_t name##_size = any_between(0, most);                                             \
    uint8_t *const name##_end = (uint8_t *) name##_memory + sizeof(name##_memory);                 \
    uint8_t *const name = name##_end - name##_size

/* A body of that type, whose header was parsed. */
#define ANY_BODY(of)                                                                               \
    ANY_BYTES(body, BODY);                                                                         \
    btl_ib_view_t view;                                                                            \
    view.type = of;                                                                                \
    view.tag = nondet_u8();                                                                        \
    view.payload = body;                                                                           \
    view.size = body_size

#define PROVE_INSIDE PROVE(view.payload >= body && view.payload + view.size <= body_end)

void header(void)
{
    ANY_BYTES(data, sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t) + 8);
    btl_ib_wire_header_t wire;
    btl_ib_view_t view;

    if (parse_clear(data, data_size, &wire, &view) != BTL_IB_WIRE_OK
        || parse_rest_of_header(&wire, &view) != BTL_IB_WIRE_OK) {
        return;
    }
    PROVE(view.payload == data + sizeof(btl_ib_wire_header_t));
    PROVE(view.payload + view.size == data_end);
    PROVE(view.channel < BTL_IB_QUEUES_MAX && view.ack_channel < BTL_IB_QUEUES_MAX);
    PROVE(view.version >= BTL_IB_WIRE_VERSION_OLDEST && view.version <= BTL_IB_WIRE_VERSION);
    PROVE(!(view.flags & BTL_IB_FLAG_READY) || view.type == BTL_IB_TYPE_ACK);
    if ((view.flags & BTL_IB_FLAG_CONNECT) && parse_connect(&view) == BTL_IB_WIRE_OK) {
        PROVE(view.connect.connection != 0);
        PROVE(view.payload == data + sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t));
        PROVE(view.payload + view.size == data_end);
    }
}

void chunk(void)
{
    ANY_BODY(BTL_IB_TYPE_CHUNK);
    if (parse_chunk(&view) == BTL_IB_WIRE_OK) {
        PROVE_INSIDE;
        PROVE(view.size > 0 && view.size <= view.chunk.unit);
        PROVE((uint64_t) view.chunk.offset + view.size <= view.chunk.total);
    }
}

/* SKIP and REJECTED. */
void numbers(void)
{
    ANY_BODY(BTL_IB_TYPE_SKIP);
    const btl_ib_view_t before = view;

    PROVE(parse_skip(&view) != BTL_IB_WIRE_OK || (view.skip > 0 && body_size == sizeof(uint32_t)));
    view = before;
    PROVE(parse_u32(&view, &view.op.id) != BTL_IB_WIRE_OK || body_size == sizeof(uint32_t));
}

/* PUT, GET, ATOMIC, GOT. */
void operations(void)
{
    ANY_BODY(nondet_bool() ? BTL_IB_TYPE_PUT : BTL_IB_TYPE_GET);
    const btl_ib_view_t before = view;

    if (parse_target(&view) == BTL_IB_WIRE_OK) {
        PROVE_INSIDE;
        PROVE((int64_t) view.op.end >= (int64_t) view.op.offset);
        PROVE(view.size <= view.op.end - view.op.offset);
        PROVE(view.type == BTL_IB_TYPE_PUT || view.size == 0);
    }
    view = before;
    (void) parse_atomic(&view);
    view = before;
    if (parse_got(&view) == BTL_IB_WIRE_OK) {
        PROVE_INSIDE;
        PROVE(view.size > 0);
    }
}

void part(void)
{
    ANY_BODY(BTL_IB_TYPE_PART);
    if (parse_part(&view) == BTL_IB_WIRE_OK) {
        PROVE_INSIDE;
        PROVE(view.size > 0 && view.part.offset + view.size <= view.part.total);
        PROVE(view.part.offset % BTL_IB_PART_UNIT == 0);
    }
}

void bundle(void)
{
    ANY_BODY(BTL_IB_TYPE_BUNDLE);
    if (parse_bundle(&view) == BTL_IB_WIRE_OK) {
        prove_bundle(&view);
    }
}
