/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What every datagram has, and those of messages: headers, CONNECT, chunks, SKIP, CLOSE, ACK. */

#include <stdlib.h>
#include <string.h>

#include "wire_bytes.h"
#include "unit.h"

/* ---- the header ---- */

TEST_WITH(test_header, NULL, teardown)
{
    begin(BTL_IB_TYPE_DATA, 0x3e);
    put(0x636261, 3);
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    assert_int_equal(view.type, 1);
    assert_int_equal(view.flags, 0x3e);
    assert_int_equal(view.channel, 0x5);
    assert_int_equal(view.ack_channel, 0xa);
    assert_int_equal(view.tag, 0x77);
    assert_int_equal(view.connection, 0x01020304);
    assert_int_equal(view.token, 0x1112131415161718);
    assert_int_equal(view.seq, 0x21222324);
    assert_int_equal(view.ack, 0xfffffff4);
    assert_int_equal(view.limit, 0x1228); /* goes on behind the wrap */
    assert_int_equal(view.stamp, 0x41424344);
    assert_int_equal(view.echo, 0x51525354);
    assert_int_equal(view.hold, 0x6162);
    assert_int_equal(view.size, 3);
    assert_ptr_equal(view.payload, datagram + HEADER);
}

/* What finds the connection is seen although all else may be encrypted, and nothing else is
 * looked at. */
TEST_WITH(test_peek, NULL, teardown)
{
    begin(BTL_IB_TYPE_DATA, BTL_IB_FLAG_CONNECT | BTL_IB_FLAG_ACK);
    put_connect();
    for (uint32_t at = 16; at < HEADER; at++) {
        bytes[at] = 0xff;
    }
    for (uint32_t size = 0; size <= used; size++) {
        uint8_t *exact = malloc(size > 0 ? size : 1);
        assert_non_null(exact);
        memcpy(exact, bytes, size);
        memset(&view, 0, sizeof(view));
        assert_int_equal(btl_ib_wire_peek(exact, size, &view),
                         size < used ? BTL_IB_WIRE_SHORT : BTL_IB_WIRE_OK);
        free(exact);
    }
    assert_int_equal(view.type, BTL_IB_TYPE_DATA);
    assert_int_equal(view.flags, BTL_IB_FLAG_CONNECT | BTL_IB_FLAG_ACK);
    assert_int_equal(view.connection, 0x01020304);
    assert_int_equal(view.token, 0x1112131415161718);
    assert_int_equal(view.connect.name, 0x0102030405060708);
    assert_int_equal(view.connect.epoch, 0xdeadbeef);
    assert_int_equal(view.connect.from_rail, 0x21);
    assert_int_equal(view.connect.to_rail, 0x43);
    assert_int_equal(view.seq + view.ack + view.stamp, 0);
    bytes[1] |= 0x80;
    assert_int_equal(btl_ib_wire_peek(bytes, used, &view), BTL_IB_WIRE_TYPE_UNKNOWN);
    bytes[0] = 0x2f;
    assert_int_equal(btl_ib_wire_peek(bytes, used, &view), BTL_IB_WIRE_VERSION_UNKNOWN);
}

/* No byte of it is overlooked. */
TEST_WITH(test_header_every_byte, NULL, teardown)
{
    btl_ib_view_t before;

    begin(BTL_IB_TYPE_DATA, 0);
    put(0, 1);
    for (uint32_t i = 0; i < HEADER; i++) {
        assert_int_equal(parse(), BTL_IB_WIRE_OK);
        before = view;
        before.payload = NULL;
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t) (1 << bit);
            btl_ib_wire_error_t error = parse_raw(used);
            view.payload = NULL;
            assert_true(error != BTL_IB_WIRE_OK || memcmp(&view, &before, sizeof(view)) != 0);
            bytes[i] ^= (uint8_t) (1 << bit);
        }
    }
}

TEST_WITH(test_short, NULL, teardown)
{
    begin(BTL_IB_TYPE_CLOSE, 0);
    for (uint32_t size = 0; size < HEADER; size++) {
        assert_int_equal(parse_raw(size), BTL_IB_WIRE_SHORT);
    }
    assert_int_equal(parse_raw(HEADER), BTL_IB_WIRE_OK);
}

TEST_WITH(test_version, NULL, teardown)
{
    begin(BTL_IB_TYPE_DATA, 0);
    for (unsigned version = 0; version < 16; version++) {
        bytes[0] = (uint8_t) (version << 4 | BTL_IB_TYPE_DATA);
        assert_int_equal(parse(), version == 1 ? BTL_IB_WIRE_OK : BTL_IB_WIRE_VERSION_UNKNOWN);
    }
    /* Another version may mean anything by the rest: it is named first. */
    bytes[0] = 0x2f;
    bytes[1] = 0xff;
    poke16(26, 999);
    assert_int_equal(parse_raw(used), BTL_IB_WIRE_VERSION_UNKNOWN);
}

TEST_WITH(test_type, NULL, teardown)
{
    begin(0, 0);
    assert_int_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
    for (uint8_t type = 1; type < 16; type++) {
        begin(type, 0);
        bytes[3] = 0;
        assert_int_not_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
        begin(type, BTL_IB_FLAG_CONNECT);
        bytes[3] = 0;
        put_connect();
        assert_int_equal(parse() != BTL_IB_WIRE_TYPE_UNKNOWN, type != BTL_IB_TYPE_PATH_RESPONSE);
    }
}

/* It has a header, and nothing else. */
TEST_WITH(test_path_response, NULL, teardown)
{
    begin(BTL_IB_TYPE_PATH_RESPONSE, 0);
    bytes[3] = 0;
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    assert_false(btl_ib_type_is_sequenced(view.type));
    used++;
    assert_int_equal(parse(), BTL_IB_WIRE_LENGTH);
    for (int flags = 1; flags < 256; flags++) {
        const bool path =
            flags == BTL_IB_FLAG_PATH || flags == (BTL_IB_FLAG_PATH | BTL_IB_FLAG_ACK_NOW);
        begin(BTL_IB_TYPE_PATH_RESPONSE, (uint8_t) flags);
        bytes[3] = 0;
        if (flags & BTL_IB_FLAG_CONNECT) {
            put_connect();
        }
        assert_int_equal(parse(), path ? BTL_IB_WIRE_OK : BTL_IB_WIRE_TYPE_UNKNOWN);
        if (path) {
            assert_int_equal(used, sizeof(btl_ib_wire_path_t));
            used++;
            assert_int_equal(parse(), BTL_IB_WIRE_LENGTH);
        }
    }
}

/* What 0.2 and 0.3.0 drop: the flag, with whatever type, and of types that have it here only
 * one. */
TEST_WITH(test_path_flag_of_others, NULL, teardown)
{
    for (uint32_t type = 0; type < 16; type++) {
        begin((btl_ib_type_t) type, BTL_IB_FLAG_PATH);
        bytes[3] = 0;
        if (type != BTL_IB_TYPE_PATH_RESPONSE) {
            assert_int_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
            assert_int_equal(btl_ib_wire_peek(bytes, used, &view), BTL_IB_WIRE_TYPE_UNKNOWN);
        }
    }
}

TEST_WITH(test_flags_and_reserved, NULL, teardown)
{
    for (int bit = 0; bit < 8; bit++) { /* 6, READY, is for an ACK only */
        begin(BTL_IB_TYPE_ACK, (uint8_t) (1 << bit));
        if (bit == 0) {
            put_connect();
        }
        assert_int_equal(parse(), bit < 7 ? BTL_IB_WIRE_OK : BTL_IB_WIRE_TYPE_UNKNOWN);
        begin(BTL_IB_TYPE_DATA, (uint8_t) (1 << bit));
        put_connect(); /* just payload where the flag is another */
        assert_int_equal(parse(), bit < 6 ? BTL_IB_WIRE_OK : BTL_IB_WIRE_TYPE_UNKNOWN);
        if (bit < 6) {
            assert_int_equal(view.size, bit == 0 ? 0 : CONNECT);
        }
    }
    /* The time away belongs to an echo. */
    for (int bit = 0; bit < 16; bit++) {
        begin(BTL_IB_TYPE_DATA, 0);
        poke16(38, 1u << bit);
        assert_int_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
        begin(BTL_IB_TYPE_DATA, BTL_IB_FLAG_ECHO);
        poke16(38, 1u << bit);
        assert_int_equal(parse(), BTL_IB_WIRE_OK);
        assert_int_equal(view.poll_gap, 1u << bit);
    }
}

TEST_WITH(test_length, NULL, teardown)
{
    for (uint32_t size = 0; size < 200; size++) {
        begin(BTL_IB_TYPE_DATA, 0);
        used += size;
        assert_int_equal(parse(), BTL_IB_WIRE_OK);
        assert_int_equal(view.size, size);
        poke16(26, size + 1);
        assert_int_equal(parse_raw(used), BTL_IB_WIRE_LENGTH);
        poke16(26, size - 1);
        assert_int_equal(parse_raw(used), BTL_IB_WIRE_LENGTH);
        poke16(26, size + HEADER);
        assert_int_equal(parse_raw(used), BTL_IB_WIRE_LENGTH);
    }
    begin(BTL_IB_TYPE_DATA, 0);
    assert_int_equal(parse_cut(HEADER + 0xffff), BTL_IB_WIRE_OK);
    assert_int_equal(view.size, 0xffff);
    assert_int_equal(BTL_IB_DATAGRAM_MAX, HEADER + 0xffff);
    /* One more, of which 16 bits say nothing. */
    assert_int_equal(parse_cut(HEADER + 0x10000), BTL_IB_WIRE_LENGTH);
}

/* ---- the CONNECT block ---- */

TEST_WITH(test_connect, NULL, teardown)
{
    static const uint8_t types[] = {BTL_IB_TYPE_DATA, BTL_IB_TYPE_ACK, BTL_IB_TYPE_CLOSE};

    for (size_t i = 0; i < sizeof(types); i++) {
        begin(types[i], BTL_IB_FLAG_CONNECT);
        put_connect();
        assert_int_equal(parse(), BTL_IB_WIRE_OK);
        assert_int_equal(view.connect.name, 0x0102030405060708);
        assert_int_equal(view.connect.connection, 0x0a0b0c0d);
        assert_int_equal(view.connect.epoch, 0xdeadbeef);
        assert_int_equal(view.connect.from_rail, 0x21);
        assert_int_equal(view.connect.to_rail, 0x43);
        assert_int_equal(view.connect.floor, 0x73727170);
        assert_int_equal(view.size, 0);
        assert_ptr_equal(view.payload, datagram + HEADER + CONNECT);
        for (uint32_t size = HEADER; size < used; size++) {
            assert_int_equal(parse_cut(size), BTL_IB_WIRE_SHORT);
        }
    }
    begin(BTL_IB_TYPE_DATA, BTL_IB_FLAG_CONNECT);
    put_connect();
    put(0x6261, 2);
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    assert_int_equal(view.size, 2);
    assert_int_equal(view.payload[1], 'b');
}

/* protocol: R76 */
TEST_WITH(test_connect_wrong, NULL, teardown)
{
    begin(BTL_IB_TYPE_DATA, BTL_IB_FLAG_CONNECT);
    put_connect();
    for (uint32_t i = HEADER + 18; i < HEADER + 20; i++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] = (uint8_t) (1 << bit);
            assert_int_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
        }
        bytes[i] = 0;
    }
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    memset(bytes + HEADER + 8, 0, 4); /* there is no connection 0 */
    assert_int_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
    bytes[HEADER + 11] = 0x80;
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
}

/* ---- chunks ---- */

TEST_WITH(test_chunk, NULL, teardown)
{
    for (int connect = 0; connect < 2; connect++) {
        begin(BTL_IB_TYPE_CHUNK, connect ? BTL_IB_FLAG_CONNECT : 0);
        if (connect) {
            put_connect();
        }
        uint32_t body = used;
        put_chunk(0x00030303, 0x0102, 0x0203);
        memset(bytes + used, 0x5a, 0x203);
        used += 0x203;
        assert_int_equal(parse(), BTL_IB_WIRE_OK);
        assert_int_equal(view.chunk.fragment, 0x99887766);
        assert_int_equal(view.chunk.total, 0x00030303);
        assert_int_equal(view.chunk.index, 0x0102);
        assert_int_equal(view.chunk.unit, 0x0203);
        assert_int_equal(view.chunk.offset, 0x0102 * 0x0203);
        assert_int_equal(view.size, 0x203);
        assert_ptr_equal(view.payload, datagram + body + CHUNK);
        for (uint32_t size = body; size < used; size++) {
            assert_int_equal(parse_cut(size),
                             size < body + CHUNK ? BTL_IB_WIRE_SHORT : BTL_IB_WIRE_CHUNK_WRONG);
        }
        used++;
        assert_int_equal(parse(), BTL_IB_WIRE_CHUNK_WRONG);
    }
}

/* protocol: R12 */
TEST_WITH(test_chunk_arithmetic, NULL, teardown)
{
    static const struct {
        uint32_t total;
        uint32_t index;
        uint32_t unit;
        uint32_t size;
        bool right;
    } cases[] = {
        {0, 0, 0, 0, false},
        {0, 0, 100, 0, false},
        {100, 0, 0, 0, false},
        {100, 0, 0, 100, false},
        {1, 0, 1, 1, true},
        {1, 0, 1, 0, false},
        {1, 1, 1, 1, false},
        {1, 1, 1, 0, false},
        {100, 0, 100, 100, true},
        {100, 1, 100, 0, false},
        {100, 1, 100, 100, false},
        {101, 1, 100, 1, true},
        {101, 1, 100, 100, true}, /* zeros behind the last one */
        {101, 1, 100, 101, false},
        {301, 1, 300, 1 + BTL_IB_PAD_MAX, true},
        {301, 1, 300, 2 + BTL_IB_PAD_MAX, false},
        {101, 0, 100, 101, false},
        {199, 1, 100, 99, true},
        {199, 1, 100, 100, true},
        {199, 1, 100, 98, false},
        {200, 1, 100, 100, true},
        {200, 2, 100, 0, false},
        /* One chunk alone may be announced with a larger unit. */
        {50, 0, 100, 50, true},
        {50, 0, 100, 100, true},
        {65536, 65535, 1, 1, true},
        {65535, 65535, 1, 1, false},
        /* The largest offset that can be: 0xfffe0001. */
        {0xfffe0001, 0xffff, 0xffff, 0, false},
        {0xfffe0000, 0xffff, 0xffff, 100, false},
        {0xfffe0065, 0xffff, 0xffff, 100, true},
        {0xfffe0065, 0xffff, 0xffff, 101, true},
        {0xffffffff, 0xffff, 0xfff3, 0xfff3, true},
        {0xffffffff, 0xfffe, 0xfff3, 0xfff3, true},
        {0xffffffff, 0xffff, 0xffff, 0xfff3, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(BTL_IB_TYPE_CHUNK, 0);
        put_chunk(cases[i].total, cases[i].index, cases[i].unit);
        used += cases[i].size;
        assert_int_equal(parse(), cases[i].right ? BTL_IB_WIRE_OK : BTL_IB_WIRE_CHUNK_WRONG);
        if (cases[i].right) {
            assert_int_equal(view.chunk.offset, cases[i].index * cases[i].unit);
            assert_true((uint64_t) view.chunk.offset + view.size <= cases[i].total);
            assert_true(view.size <= cases[i].size);
        }
    }
}

/* ---- SKIP and CLOSE ---- */

TEST_WITH(test_skip, NULL, teardown)
{
    for (int connect = 0; connect < 2; connect++) {
        begin(BTL_IB_TYPE_SKIP, connect ? BTL_IB_FLAG_CONNECT : 0);
        if (connect) {
            put_connect();
        }
        uint32_t body = used;
        put(0xfedcba98, 4);
        put(0, 4);
        for (uint32_t size = 0; size <= 8; size++) {
            assert_int_equal(parse_cut(body + size),
                             size == 4 ? BTL_IB_WIRE_OK : BTL_IB_WIRE_LENGTH);
        }
        assert_int_equal(parse_cut(body + 4), BTL_IB_WIRE_OK);
        assert_int_equal(view.skip, 0xfedcba98);
        assert_int_equal(view.size, 0);
        memset(bytes + body, 0, 4);
        assert_int_equal(parse_cut(body + 4), BTL_IB_WIRE_LENGTH);
        bytes[body + 3] = 1;
        assert_int_equal(parse_cut(body + 4), BTL_IB_WIRE_OK);
        assert_int_equal(view.skip, 0x01000000);
    }
}

/* A part lies within its whole, in units; only what has a long body has parts. */
TEST_WITH(test_part, NULL, teardown)
{
    static const struct {
        uint32_t offset, total, size, type, tag;
        btl_ib_wire_error_t error;
    } cases[] = {
        {0, 100, 96, BTL_IB_TYPE_DATA, 7, BTL_IB_WIRE_OK},
        {96, 100, 4, BTL_IB_TYPE_CHUNK, 7, BTL_IB_WIRE_OK},
        {0, 5, 5, BTL_IB_TYPE_PUT, 0, BTL_IB_WIRE_OK},
        {65528, 65535, 7, BTL_IB_TYPE_BUNDLE, 0, BTL_IB_WIRE_OK},
        {0, 100, 95, BTL_IB_TYPE_DATA, 7, BTL_IB_WIRE_LENGTH},
        {4, 100, 96, BTL_IB_TYPE_DATA, 7, BTL_IB_WIRE_LENGTH},
        {8, 100, 96, BTL_IB_TYPE_DATA, 7, BTL_IB_WIRE_LENGTH},
        {0, 0, 0, BTL_IB_TYPE_DATA, 7, BTL_IB_WIRE_LENGTH},
        {0, 100, 0, BTL_IB_TYPE_DATA, 7, BTL_IB_WIRE_LENGTH},
        {65528, 65535, 8, BTL_IB_TYPE_DATA, 7, BTL_IB_WIRE_LENGTH},
        {0, 100, 96, BTL_IB_TYPE_PUT, 7, BTL_IB_WIRE_TYPE_UNKNOWN},
        {0, 100, 96, BTL_IB_TYPE_PART, 0, BTL_IB_WIRE_TYPE_UNKNOWN},
        {0, 100, 96, BTL_IB_TYPE_ACK, 0, BTL_IB_WIRE_TYPE_UNKNOWN},
        {0, 100, 96, BTL_IB_TYPE_SKIP, 0, BTL_IB_WIRE_TYPE_UNKNOWN},
        {0, 100, 96, BTL_IB_TYPE_VOID, 0, BTL_IB_WIRE_TYPE_UNKNOWN},
        {0, 100, 96, 0, 0, BTL_IB_WIRE_TYPE_UNKNOWN},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (uint32_t zero = 0; zero < 2; zero++) {
            begin(BTL_IB_TYPE_PART, 0);
            bytes[3] = 0;
            put(cases[i].offset, 2);
            put(cases[i].total, 2);
            put(cases[i].type, 1);
            put(cases[i].tag, 1);
            put(zero, 2);
            uint32_t head = used;
            assert_int_equal(parse_cut(head - 1), BTL_IB_WIRE_SHORT);
            used += cases[i].size;
            assert_int_equal(parse(), zero ? BTL_IB_WIRE_TYPE_UNKNOWN : cases[i].error);
        }
        if (cases[i].error == BTL_IB_WIRE_OK) {
            bytes[used - cases[i].size - 1] = 0;
            bytes[used - cases[i].size - 2] = 0;
            assert_int_equal(parse(), BTL_IB_WIRE_OK);
            assert_int_equal(view.part.offset, cases[i].offset);
            assert_int_equal(view.part.total, cases[i].total);
            assert_int_equal(view.part.type, cases[i].type);
            assert_int_equal(view.part.tag, cases[i].tag);
            assert_int_equal(view.size, cases[i].size);
        }
    }
}

/* A VOID may be as long as it likes, if there is nothing in it. */
TEST_WITH(test_void, NULL, teardown)
{
    begin(BTL_IB_TYPE_VOID, 0);
    bytes[3] = 0;
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    uint32_t at = used;
    memset(bytes + at, 0, 100);
    used += 100;
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    assert_int_equal(view.size, 0);
    assert_int_equal(view.bytes, 100);
    bytes[at + 99] = 1;
    assert_int_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
}

TEST_WITH(test_close, NULL, teardown)
{
    begin(BTL_IB_TYPE_CLOSE, 0);
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    assert_int_equal(view.type, BTL_IB_TYPE_CLOSE);
    put(0, 1);
    assert_int_equal(parse(), BTL_IB_WIRE_LENGTH);
    begin(BTL_IB_TYPE_CLOSE, BTL_IB_FLAG_CONNECT);
    put_connect();
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    put(0, 1);
    assert_int_equal(parse(), BTL_IB_WIRE_LENGTH);
}

/* ---- ACK ---- */

static void check_range(const btl_ib_ack_block_t *block, uint32_t i, uint32_t from, uint32_t to)
{
    uint32_t got_from = 0;
    uint32_t got_to = 0;

    btl_ib_wire_range(block, i, &got_from, &got_to);
    assert_int_equal(got_from, from);
    assert_int_equal(got_to, to);
}

static void check_blocks(uint32_t body)
{
    btl_ib_ack_block_t block;
    uint32_t offset = 0;

    assert_true(btl_ib_wire_next_block(&view, &offset, &block));
    assert_int_equal(offset, BLOCK + 8);
    assert_int_equal(block.channel, 3);
    assert_int_equal(block.ranges, 2);
    assert_int_equal(block.ack, 0xfffffffe);
    assert_int_equal(block.limit, 0x11223344);
    assert_ptr_equal(block.range, datagram + body + BLOCK);
    check_range(&block, 0, 0xffffffff, 1); /* across the wrap */
    check_range(&block, 1, 0x102, 0x306);
    assert_true(btl_ib_wire_next_block(&view, &offset, &block));
    assert_int_equal(block.channel, 4);
    assert_int_equal(block.ranges, 0);
    assert_int_equal(block.ack, 0x55667788);
    assert_int_equal(block.limit, 0x55667799);
    assert_true(btl_ib_wire_next_block(&view, &offset, &block));
    assert_int_equal(block.channel, 15);
    assert_int_equal(block.ranges, 1);
    check_range(&block, 0, 7, 8);
    assert_int_equal(offset, view.size);
    assert_false(btl_ib_wire_next_block(&view, &offset, &block));
    assert_false(btl_ib_wire_next_block(&view, &offset, &block));
    assert_int_equal(offset, view.size);
}

/* A block that is cut off anywhere is none, at whatever place. */
TEST(test_block_cut)
{
    enum { RANGES = 3, SIZE = BLOCK + RANGES * 4, LEAD = 20 };
    uint8_t body[LEAD + SIZE] = {0};
    btl_ib_view_t whole = {.payload = body};
    btl_ib_ack_block_t block;

    body[LEAD] = 5;
    body[LEAD + 1] = RANGES;
    for (uint32_t size = 0; size <= SIZE; size++) {
        uint32_t offset = LEAD;
        whole.size = LEAD + size;
        assert_int_equal(btl_ib_wire_next_block(&whole, &offset, &block), size == SIZE);
        assert_int_equal(offset, size == SIZE ? LEAD + SIZE : LEAD);
    }
    assert_int_equal(block.channel, 5);
    assert_int_equal(block.ranges, RANGES);
}

TEST_WITH(test_ack, NULL, teardown)
{
    for (int connect = 0; connect < 2; connect++) {
        begin(BTL_IB_TYPE_ACK, connect ? BTL_IB_FLAG_CONNECT : 0);
        if (connect) {
            put_connect();
        }
        uint32_t body = used;
        put_block(3, 2, 0xfffffffe, 0x11223344);
        put_range(1, 2);
        put_range(0x104, 0x204);
        uint32_t first = used;
        put_block(4, 0, 0x55667788, 0x55667799);
        uint32_t second = used;
        put_block(15, 1, 1, 1);
        put_range(6, 1);
        /* Cut off at every byte: right only between two blocks. */
        for (uint32_t size = body; size <= used; size++) {
            bool whole = size == body || size == first || size == second || size == used;
            assert_int_equal(parse_cut(size), whole ? BTL_IB_WIRE_OK : BTL_IB_WIRE_ACK_WRONG);
        }
        assert_int_equal(view.size, used - body);
        assert_ptr_equal(view.payload, datagram + body);
        check_blocks(body);
    }
}

TEST_WITH(test_ack_again, NULL, teardown)
{
    for (int bit = 0; bit < 16; bit++) {
        btl_ib_ack_block_t block;
        uint32_t offset = 0;

        begin(BTL_IB_TYPE_ACK, 0);
        put_block(1, 0, 5, 6);
        uint32_t second = used;
        put_block(2, 0, 5, 6);
        poke16(second + 2, 1u << bit);
        assert_int_equal(parse(), BTL_IB_WIRE_OK);
        assert_true(btl_ib_wire_next_block(&view, &offset, &block));
        assert_int_equal(block.duplicates, 0);
        assert_true(btl_ib_wire_next_block(&view, &offset, &block));
        assert_int_equal(block.duplicates, 1u << bit);
    }
}

/* Each channel at most once, in order: so the ranges of a datagram never add up to more than the
 * windows. protocol: R13 */
TEST_WITH(test_ack_channels_ascend, NULL, teardown)
{
    for (uint32_t a = 0; a < 16; a++) {
        for (uint32_t b = 0; b < 16; b++) {
            begin(BTL_IB_TYPE_ACK, 0);
            put_block((uint8_t) a, 0, 5, 6);
            put_block((uint8_t) b, 0, 5, 6);
            assert_int_equal(parse(), a < b ? BTL_IB_WIRE_OK : BTL_IB_WIRE_ACK_WRONG);
        }
    }
}

/* Blocks of refused ones stand behind all others, and say nothing but their ranges.
 * protocol: R14, R15 */
TEST_WITH(test_ack_refused, NULL, teardown)
{
    static const struct {
        uint8_t first, second, count;
        uint32_t limit, again;
        uint32_t range[2][2];
        bool right;
    } cases[] = {
        {3, 0x80, 1, 0, 0, {{0, 1}}, true},          {0x83, 0x84, 1, 0, 0, {{7, 3}}, true},
        {3, 0x82, 2, 0, 0, {{0, 1}, {2, 1}}, true},  {3, 0x82, 2, 0, 0, {{0, 1}, {1, 1}}, false},
        {3, 0x82, 2, 0, 0, {{5, 1}, {0, 1}}, false}, {0x83, 0x83, 1, 0, 0, {{0, 1}}, false},
        {0x83, 3, 0, 0, 0, {{0, 0}}, false},         {3, 0x80, 0, 0, 0, {{0, 0}}, false},
        {3, 0x80, 1, 0, 0, {{0, 0}}, false},         {3, 0x80, 1, 1, 0, {{0, 1}}, false},
        {3, 0x80, 1, 0, 1, {{0, 1}}, true},          {3, 0x80, 1, 0, 2, {{0, 1}}, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(BTL_IB_TYPE_ACK, 0);
        put_block(cases[i].first, cases[i].first >> 7, 70, 0);
        if (cases[i].first >> 7) {
            put_range(1, 1);
        }
        uint32_t at = used;
        put_block(cases[i].second, cases[i].count, 77, cases[i].limit);
        bytes[at + offsetof(btl_ib_wire_ack_t, duplicates)] = (uint8_t) cases[i].again;
        for (int r = 0; r < cases[i].count; r++) {
            put_range(cases[i].range[r][0], cases[i].range[r][1]);
        }
        assert_int_equal(parse(), cases[i].right ? BTL_IB_WIRE_OK : BTL_IB_WIRE_ACK_WRONG);
    }
    btl_ib_ack_block_t block;
    uint32_t offset = 0;
    begin(BTL_IB_TYPE_ACK, 0);
    put_block(0x85, 1, 9, 0);
    put_range(0, 2);
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    assert_true(btl_ib_wire_next_block(&view, &offset, &block));
    assert_true(block.rnr && block.channel == 5);
    check_range(&block, 0, 9, 11);
}

/* Counts of ECN stand between both kinds, once, without ranges or anything in the unused bytes. */
TEST_WITH(test_ack_ecn, NULL, teardown)
{
    for (uint32_t before = 0; before < 256; before++) {
        for (uint32_t after = 0; after < 256; after++) {
            const bool first_rnr = before >> 7, second_rnr = after >> 7;

            begin(BTL_IB_TYPE_ACK, 0);
            put_block((uint8_t) before, first_rnr, 5, 0);
            if (first_rnr) {
                put_range(0, 1);
            }
            put_block(BTL_IB_CHANNEL_ECN, 0, 0xffffffff, 0x80000001);
            put_block((uint8_t) after, second_rnr, 5, 0);
            if (second_rnr) {
                put_range(0, 1);
            }
            const bool right = before < BTL_IB_CHANNEL_ECN && after > BTL_IB_CHANNEL_ECN;
            assert_int_equal(parse(), right ? BTL_IB_WIRE_OK : BTL_IB_WIRE_ACK_WRONG);
        }
    }
    for (uint32_t at = 1; at < offsetof(btl_ib_wire_ecn_t, ect0); at++) {
        begin(BTL_IB_TYPE_ACK, 0);
        const uint32_t block = used;
        put_block(BTL_IB_CHANNEL_ECN, 0, 1, 2);
        assert_int_equal(parse(), BTL_IB_WIRE_OK);
        bytes[block + at] = 1;
        put_range(1, 1); /* as the first of these bytes asks for elsewhere */
        assert_int_equal(parse(), BTL_IB_WIRE_ACK_WRONG);
    }
    btl_ib_ack_block_t block;
    uint32_t offset = 0;
    begin(BTL_IB_TYPE_ACK, 0);
    put_block(BTL_IB_CHANNEL_ECN, 0, 0xffffffff, 0x80000001);
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    assert_true(btl_ib_wire_next_block(&view, &offset, &block));
    assert_int_equal(block.channel, BTL_IB_CHANNEL_ECN);
    assert_int_equal(block.ack, 0xffffffff);
    assert_int_equal(block.limit, 0x80000001);
    assert_false(btl_ib_wire_next_block(&view, &offset, &block));
}

TEST_WITH(test_ack_ranges, NULL, teardown)
{
    static const uint32_t acks[] = {0, 1, 0x7ffffffe, 0xffffc000, 0xfffffffe, 0xffffffff};
    static const struct {
        uint32_t range[2][2];
        uint8_t count;
        bool right;
    } cases[] = {
        {{{1, 1}}, 1, true},
        {{{0, 1}}, 1, false}, /* `ack` itself is what is missing */
        {{{0, 0}}, 1, false},
        {{{1, 0}}, 1, false},
        {{{1, 65535}}, 1, true}, /* up to the last that a receiver accepts */
        {{{2, 65535}}, 1, false},
        {{{65535, 1}}, 1, true},
        {{{65535, 2}}, 1, false},
        {{{65535, 0}}, 1, false},
        {{{65535, 65535}}, 1, false},
        {{{1, 1}, {3, 1}}, 2, true},
        {{{1, 1}, {2, 1}}, 2, false}, /* adjacent: that is one range */
        {{{1, 1}, {1, 1}}, 2, false},
        {{{5, 1}, {2, 1}}, 2, false}, /* descending */
        {{{2, 5}, {4, 9}}, 2, false}, /* overlapping */
        {{{2, 5}, {3, 1}}, 2, false},
        {{{2, 5}, {8, 65528}}, 2, true},
        {{{2, 5}, {8, 65529}}, 2, false},
        {{{2, 5}, {8, 0}}, 2, false},
        {{{2, 5}, {0, 1}}, 2, false},
    };

    for (size_t a = 0; a < sizeof(acks) / sizeof(acks[0]); a++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            begin(BTL_IB_TYPE_ACK, 0);
            put_block(0, 0, 77, 88); /* what is wrong in a later block counts as well */
            put_block(1, cases[i].count, acks[a], acks[a] + 9);
            for (int r = 0; r < cases[i].count; r++) {
                put_range(cases[i].range[r][0], cases[i].range[r][1]);
            }
            assert_int_equal(parse(), cases[i].right ? BTL_IB_WIRE_OK : BTL_IB_WIRE_ACK_WRONG);
        }
    }
}

TEST_WITH(test_ack_most_ranges, NULL, teardown)
{
    btl_ib_ack_block_t block;
    uint32_t offset = 0;

    begin(BTL_IB_TYPE_ACK, 0);
    put_block(1, 255, 0xffffff80, 0);
    for (uint32_t i = 0; i < 255; i++) {
        put_range(2 * i + 1, 1);
    }
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    assert_true(btl_ib_wire_next_block(&view, &offset, &block));
    assert_int_equal(block.ranges, 255);
    for (uint32_t i = 0; i < 255; i++) {
        check_range(&block, i, 0xffffff80 + 2 * i + 1, 0xffffff80 + 2 * i + 2);
    }
    assert_false(btl_ib_wire_next_block(&view, &offset, &block));
    assert_int_equal(parse_cut(used - 4), BTL_IB_WIRE_ACK_WRONG);
    /* More bytes than ranges: the next block begins, and is cut off. */
    put(0, 4);
    assert_int_equal(parse(), BTL_IB_WIRE_ACK_WRONG);
}

UNIT_MAIN(NULL, NULL)
