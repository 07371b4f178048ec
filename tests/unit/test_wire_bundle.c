/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Several messages in one datagram. */

#include <stdlib.h>
#include <string.h>

#include "wire_bytes.h"
#include "unit.h"

/* The header of one, and CONNECT or not. Returns where the body begins. */
static uint32_t begin_bundle(bool connect)
{
    begin(BTL_IB_TYPE_BUNDLE, connect ? BTL_IB_FLAG_CONNECT : 0);
    bytes[3] = 0; /* no tag */
    if (connect) {
        put_connect();
    }
    return used;
}

static void put_message(uint32_t size, uint8_t tag)
{
    put(size, 2);
    put(tag, 1);
    put(0, 1);
    for (uint32_t i = 0; i < size; i++) {
        put(0x80 + size, 1);
    }
    put(0, (4 - size % 4) % 4);
}

/* Messages of all lengths in a datagram, and what a walk over them finds. */
TEST_WITH(test_bundle, NULL, teardown)
{
    for (uint32_t count = 0; count < 12; count++) {
        begin_bundle(count % 2 != 0);
        for (uint32_t i = 0; i < count; i++) {
            put_message(i, (uint8_t) (i == 3 ? 200 : i));
        }
        assert_int_equal(parse(), count == 0 ? BTL_IB_WIRE_LENGTH : BTL_IB_WIRE_OK);
        btl_ib_bundled_t message;
        uint32_t offset = 0;
        for (uint32_t i = 0; i < count; i++) {
            assert_true(btl_ib_wire_next_message(&view, &offset, &message));
            assert_int_equal(message.size, i);
            assert_int_equal(message.tag, i == 3 ? 200 : i);
            assert_int_equal((uintptr_t) message.data % 4, 0);
            for (uint32_t k = 0; k < i; k++) {
                assert_int_equal(message.data[k], 0x80 + i);
            }
        }
        assert_true(count == 0 || !btl_ib_wire_next_message(&view, &offset, &message));
        assert_true(count == 0 || view.bytes == count * (count - 1) / 2);
        assert_true(count == 0 || view.tag == (count > 3 ? 200 : count - 1));
        assert_true(count == 0 || view.lowest == 0);
    }
}

/* Cut off anywhere, longer by anything, a length that is not the message's, bits that must be 0.
 * protocol: R77 */
TEST_WITH(test_bundle_wrong, NULL, teardown)
{
    uint32_t body = begin_bundle(false);
    put_message(5, 1);
    put_message(0, 2);
    put_message(8, 3);
    const uint32_t whole = used;
    for (uint32_t end = body; end <= whole; end++) {
        bool at_entry = end == body + 12 || end == body + 16 || end == whole;
        assert_int_equal(parse_cut(end), at_entry ? BTL_IB_WIRE_OK : BTL_IB_WIRE_LENGTH);
    }
    for (uint32_t at = body + 9; at < body + 12; at++) { /* behind the first message */
        bytes[at] = 1;
        assert_int_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
        bytes[at] = 0;
    }
    for (uint32_t at = body + 3; at <= body + 19; at += at == body + 3 ? 12 : 4) {
        bytes[at] = 0x40; /* the last byte of each entry */
        assert_int_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
        bytes[at] = 0;
    }
    assert_int_equal(parse(), BTL_IB_WIRE_OK);
    const uint16_t sizes[] = {9, 12, 13, 255, 256, 0x8000, 0xfffc, 0xffff};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        poke16(body + 16, sizes[i]); /* of the last message */
        assert_int_equal(parse(), BTL_IB_WIRE_LENGTH);
    }
    poke16(body + 16, 7); /* whose last byte is no padding then */
    assert_int_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
}

/* The bytes behind a message of less than four are zeros, too. */
TEST_WITH(test_short_padding, NULL, teardown)
{
    for (uint32_t size = 1; size < 4; size++) {
        const uint32_t body = begin_bundle(false);
        put_message(size, 1);
        assert_int_equal(parse(), BTL_IB_WIRE_OK);
        bytes[body + 7] = 1;
        assert_int_equal(parse(), BTL_IB_WIRE_TYPE_UNKNOWN);
    }
}

/* What is written can be read, also behind bytes that are not 0. */
TEST(test_entry)
{
    uint8_t to[32];

    for (uint32_t size = 0; size < 12; size++) {
        memset(to, 0xee, sizeof(to));
        uint8_t *data = btl_ib_wire_put_entry(to, size, 77);
        memset(data, 0x55, size);
        assert_ptr_equal(data, to + 4);
        btl_ib_view_t written = {.payload = to, .size = (uint32_t) btl_ib_wire_bundled_size(size)};
        btl_ib_bundled_t message;
        uint32_t offset = 0;
        assert_true(btl_ib_wire_next_message(&written, &offset, &message));
        assert_true(message.size == size && message.tag == 77 && to[3] == 0);
        for (uint32_t at = 4 + size; at < written.size; at++) {
            assert_int_equal(to[at], 0);
        }
        assert_int_equal(to[written.size], 0xee);
    }
}

UNIT_MAIN(NULL, NULL)
