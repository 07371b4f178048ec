/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Datagrams of one-sided operations. */

#include <stdlib.h>
#include <string.h>

#include "wire_bytes.h"
#include "unit.h"

/* The header of one, and CONNECT or not. Returns where the body begins. */
static uint32_t begin_op(uint8_t type, bool connect)
{
    begin(type, connect ? BTL_IB_FLAG_CONNECT : 0);
    bytes[3] = 0; /* no tag */
    if (connect) {
        put_connect();
    }
    return used;
}

static void put_target(uint64_t offset, uint64_t end, uint32_t reserved)
{
    put(0x1112131415161718, 8);
    put(0x2122232425262728, 8);
    put(offset, 8);
    put(end, 8);
    put(0x31323334, 4);
    put(reserved, 4);
}

static btl_ib_wire_error_t parse_put(uint64_t offset, uint64_t end, uint32_t size)
{
    begin_op(BTL_IB_TYPE_PUT, size % 2 != 0);
    put_target(offset, end, 0);
    for (uint32_t i = 0; i < size; i++) {
        put(i, 1);
    }
    return parse();
}

TEST_WITH(test_put, NULL, teardown)
{
    for (uint32_t size = 1; size < 20; size++) {
        assert_int_equal(parse_put(0x4142434445464748, 0x4142434445464800, size), BTL_IB_WIRE_OK);
        assert_int_equal(view.op.key.id, 0x1112131415161718);
        assert_int_equal(view.op.key.secret, 0x2122232425262728);
        assert_int_equal(view.op.offset, 0x4142434445464748);
        assert_int_equal(view.op.end, 0x4142434445464800);
        assert_int_equal(view.op.id, 0x31323334);
        assert_int_equal(view.size, size);
        assert_ptr_equal(view.payload, datagram + used - size);
    }
    for (uint32_t size = 0; size < 40; size++) { /* cut off */
        begin_op(BTL_IB_TYPE_PUT, false);
        put_target(0, 8, 0);
        assert_int_equal(parse_cut(HEADER + size), BTL_IB_WIRE_SHORT);
    }
}

/* What a segment brings is never more than the operation still has to bring; sums do not wrap. */
TEST_WITH(test_put_arithmetic, NULL, teardown)
{
    assert_int_equal(parse_put(5, 5, 0), BTL_IB_WIRE_OK);
    assert_int_equal(parse_put(UINT64_MAX, UINT64_MAX, 0), BTL_IB_WIRE_OK);
    assert_int_equal(parse_put(5, 6, 0), BTL_IB_WIRE_OP_WRONG);
    assert_int_equal(parse_put(5, 5, 1), BTL_IB_WIRE_OP_WRONG);
    assert_int_equal(parse_put(5, 15, 10), BTL_IB_WIRE_OK);
    assert_int_equal(parse_put(5, 15, 11), BTL_IB_WIRE_OP_WRONG);
    assert_int_equal(parse_put(5, 4, 0), BTL_IB_WIRE_OP_WRONG);
    assert_int_equal(parse_put(UINT64_MAX - 5, UINT64_MAX, 5), BTL_IB_WIRE_OK);
    assert_int_equal(parse_put(UINT64_MAX - 5, UINT64_MAX, 6), BTL_IB_WIRE_OP_WRONG);
    /* Both are in two's complement: from 6 bytes before the region to its 4th byte. */
    assert_int_equal(parse_put(UINT64_MAX - 5, 4, 10), BTL_IB_WIRE_OK);
    assert_int_equal(parse_put(UINT64_MAX - 5, 4, 11), BTL_IB_WIRE_OP_WRONG);
    assert_int_equal(parse_put(4, UINT64_MAX - 5, 1), BTL_IB_WIRE_OP_WRONG);
    assert_int_equal(parse_put(INT64_MAX - 5, (uint64_t) INT64_MIN + 4, 10), BTL_IB_WIRE_OP_WRONG);
    assert_int_equal(parse_put((uint64_t) INT64_MIN, INT64_MAX, 10), BTL_IB_WIRE_OK);
    begin_op(BTL_IB_TYPE_PUT, false);
    put_target(0, 8, 1);
    put(0, 8);
    assert_int_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
}

TEST_WITH(test_get, NULL, teardown)
{
    for (uint32_t size = 0; size < 50; size++) {
        uint32_t body = begin_op(BTL_IB_TYPE_GET, size % 2 != 0);
        put_target(0x100000005, 0x300000000, 0);
        put(0, 8);
        put(0, 2);
        assert_int_equal(parse_cut(body + size), size < 40    ? BTL_IB_WIRE_SHORT
                                                 : size == 40 ? BTL_IB_WIRE_OK
                                                              : BTL_IB_WIRE_LENGTH);
    }
    begin_op(BTL_IB_TYPE_GET, false);
    put_target(0x100000005, 0x300000000, 0);
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    assert_int_equal(view.op.offset, 0x100000005);
    assert_int_equal(view.op.end, 0x300000000);
    assert_int_equal(view.op.id, 0x31323334);
    begin_op(BTL_IB_TYPE_GET, false);
    put_target(5, 4, 0);
    assert_int_equal(parse(), BTL_IB_WIRE_OP_WRONG);
}

static btl_ib_wire_error_t parse_atomic_of(uint32_t code, uint32_t type, uint32_t reserved)
{
    begin_op(BTL_IB_TYPE_ATOMIC, code % 2 != 0);
    for (uint64_t i = 1; i <= 5; i++) {
        put(i * 0x0102030405060708, 8);
    }
    put(0x31323334, 4);
    put(code, 1);
    put(type, 1);
    put(reserved, 2);
    return parse();
}

TEST_WITH(test_atomic, NULL, teardown)
{
    for (uint32_t code = 0; code < 256; code++) {
        for (uint32_t type = 0; type < 256; type++) {
            assert_int_equal(parse_atomic_of(code, type, 0), btl_ib_atomic_supported(code, type)
                                                                 ? BTL_IB_WIRE_OK
                                                                 : BTL_IB_WIRE_OP_WRONG);
        }
    }
    assert_int_equal(parse_atomic_of(11, 2, 0), BTL_IB_WIRE_OK);
    assert_int_equal(view.op.key.id, 0x0102030405060708);
    assert_int_equal(view.op.key.secret, 2 * 0x0102030405060708);
    assert_int_equal(view.op.offset, 3 * 0x0102030405060708);
    assert_int_equal(view.op.operand, 4 * 0x0102030405060708);
    assert_int_equal(view.op.compare, 5 * 0x0102030405060708);
    assert_int_equal(view.op.id, 0x31323334);
    assert_int_equal(view.op.code, 11);
    assert_int_equal(view.op.type, 2);
    assert_int_equal(view.size, 0);
    assert_int_equal(parse_atomic_of(11, 2, 1), BTL_IB_WIRE_TYPE_UNKNOWN);
    assert_int_equal(parse_cut(used - 1), BTL_IB_WIRE_LENGTH);
    put(0, 1);
    assert_int_equal(parse(), BTL_IB_WIRE_LENGTH);
}

TEST_WITH(test_got, NULL, teardown)
{
    for (uint32_t size = 0; size < 30; size++) {
        uint32_t body = begin_op(BTL_IB_TYPE_GOT, size % 2 != 0);
        put(0x0102030405060708, 8);
        put(0x31323334, 4);
        put(0x5a5a5a5a5a5a5a5a, 8);
        put(0x5a5a5a5a5a5a5a5a, 8);
        put(0x5a, 2);
        assert_int_equal(parse_cut(body + size), size < 12    ? BTL_IB_WIRE_SHORT
                                                 : size == 12 ? BTL_IB_WIRE_OP_WRONG
                                                              : BTL_IB_WIRE_OK);
        if (size > 12) {
            assert_int_equal(view.op.offset, 0x0102030405060708);
            assert_int_equal(view.op.id, 0x31323334);
            assert_int_equal(view.size, size - 12);
            assert_ptr_equal(view.payload, datagram + body + 12);
        }
    }
}

TEST_WITH(test_reply, NULL, teardown)
{
    for (uint32_t count = 0; count < 6; count++) {
        begin_op(BTL_IB_TYPE_REPLY, count % 2 != 0);
        for (uint32_t i = 0; i < count; i++) {
            put(0x1000000000000001 * (i + 1), 8);
            put(100 + i, 4);
            put(i % 2, 4);
        }
        assert_int_equal(parse(), count == 0 ? BTL_IB_WIRE_LENGTH : BTL_IB_WIRE_OK);
        btl_ib_reply_t reply;
        uint32_t offset = 0;
        for (uint32_t i = 0; i < count; i++) {
            assert_true(btl_ib_wire_next_reply(&view, &offset, &reply));
            assert_int_equal(reply.result, 0x1000000000000001 * (i + 1));
            assert_int_equal(reply.id, 100 + i);
            assert_int_equal(reply.status, i % 2);
        }
        assert_true(count == 0 || !btl_ib_wire_next_reply(&view, &offset, &reply));
        put(0, 3);
        assert_int_equal(parse(), BTL_IB_WIRE_LENGTH);
    }
    begin_op(BTL_IB_TYPE_REPLY, false);
    put(0, 8);
    put(1, 4);
    put(2, 4); /* no such status */
    assert_int_equal(parse(), BTL_IB_WIRE_OP_WRONG);
}

TEST_WITH(test_void_and_refused, NULL, teardown)
{
    for (uint32_t size = 0; size < 8; size++) {
        uint32_t body = begin_op(BTL_IB_TYPE_VOID, size % 2 != 0);
        put(0x31323334, 8);
        assert_int_equal(parse_cut(body + size),
                         size == 0 ? BTL_IB_WIRE_OK : BTL_IB_WIRE_TYPE_UNKNOWN);
        bytes[0] = (uint8_t) (0x10 | BTL_IB_TYPE_REJECTED);
        assert_int_equal(parse_cut(body + size), size == 4 ? BTL_IB_WIRE_OK : BTL_IB_WIRE_LENGTH);
    }
    begin_op(BTL_IB_TYPE_REJECTED, false);
    put(0x31323334, 4);
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    assert_int_equal(view.op.id, 0x31323334);
}

/* One-sided segments have no tag, and which segments are numbered is part of the protocol. */
TEST_WITH(test_op_types, NULL, teardown)
{
    for (uint8_t type = BTL_IB_TYPE_PUT; type <= BTL_IB_TYPE_BUNDLE; type++) {
        begin_op(type, false);
        bytes[3] = 1;
        assert_int_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
    }
    for (uint32_t type = 1; type <= BTL_IB_TYPE_BUNDLE; type++) {
        assert_int_equal(btl_ib_type_is_sequenced(type), type != 4 && type != 5 && type != 12);
    }
}

UNIT_MAIN(NULL, NULL)
