/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <string.h>

#include "btl_ib_burst.h"
#include "unit.h"

enum { COUNT = 10, BYTES = 96, HEADER = sizeof(btl_ib_wire_header_t), ROOM = 256 };

static struct {
    btl_ib_type_t type;
    uint32_t head; /* bytes of the header of its type */
    uint64_t data[COUNT][ROOM / 8];
    btl_ib_event_t events[COUNT];
    btl_ib_view_t view;
} burst;

static uint8_t *datagram(uint32_t i)
{
    return (uint8_t *) burst.data[i];
}

static void write_header(uint32_t i)
{
    const btl_ib_wire_header_t header = {
        .version_type = (uint8_t) (BTL_IB_WIRE_VERSION << 4 | burst.type),
        .flags = BTL_IB_FLAG_ACK | BTL_IB_FLAG_ECHO,
        .channels = 1,
        .tag = burst.type == BTL_IB_TYPE_CHUNK ? 7 : 0,
        .connection = BTL_IB_LE32(3),
        .token = BTL_IB_LE64(UINT64_C(0x123456789abcdef0)),
        .seq = BTL_IB_LE32(UINT32_MAX - 2 + i), /* wraps within the burst */
        .ack = BTL_IB_LE32(77),
        .credits = BTL_IB_LE16(64),
        .length = BTL_IB_LE16(burst.head + BYTES),
        .stamp = BTL_IB_LE32(1000),
        .echo = BTL_IB_LE32(900),
        .hold = BTL_IB_LE16(5),
        .poll_gap = BTL_IB_LE16(6),
    };
    memcpy(datagram(i), &header, sizeof(header));
}

/* Of a message or operation whose segments from `first` on these are, `total` bytes in all. */
static void write_body(uint32_t i, uint32_t first, uint64_t total)
{
    const uint64_t offset = (uint64_t) (first + i) * BYTES;
    const btl_ib_wire_chunk_t chunk = {
        .fragment = BTL_IB_LE32(12),
        .total = BTL_IB_LE32((uint32_t) total),
        .index = BTL_IB_LE16(first + i),
        .unit = BTL_IB_LE16(BYTES),
    };
    const btl_ib_wire_target_t target = {
        .region = BTL_IB_LE64(5),
        .secret = BTL_IB_LE64(6),
        .offset = BTL_IB_LE64(4096 + offset),
        .end = BTL_IB_LE64(4096 + total),
        .operation = BTL_IB_LE32(9),
    };
    const uint64_t from = UINT64_C(0xffffff00) + offset; /* passes 4 GiB */
    const btl_ib_wire_got_t got = {
        .offset_low = BTL_IB_LE32(from & UINT32_MAX),
        .offset_high = BTL_IB_LE32(from >> 32),
        .operation = BTL_IB_LE32(9),
    };
    const void *head = burst.type == BTL_IB_TYPE_CHUNK ? (const void *) &chunk
                       : burst.type == BTL_IB_TYPE_PUT ? (const void *) &target
                                                       : (const void *) &got;

    memcpy(datagram(i) + HEADER, head, burst.head);
    for (uint32_t k = 0; k < BYTES; k++) {
        datagram(i)[HEADER + burst.head + k] = (uint8_t) (i * 37 + k);
    }
}

static void make(btl_ib_type_t type, uint32_t first, uint64_t total)
{
    memset(&burst, 0, sizeof(burst));
    burst.type = type;
    burst.head = type == BTL_IB_TYPE_CHUNK ? sizeof(btl_ib_wire_chunk_t)
                 : type == BTL_IB_TYPE_PUT ? sizeof(btl_ib_wire_target_t)
                                           : sizeof(btl_ib_wire_got_t);
    for (uint32_t i = 0; i < COUNT; i++) {
        write_header(i);
        write_body(i, first, total);
        burst.events[i] = (btl_ib_event_t){
            .type = BTL_IB_EVENT_RECV,
            .size = HEADER + burst.head + BYTES,
            .from = 4,
            .data = datagram(i),
        };
    }
}

/* How many follow the first, of at most `most`. */
static uint32_t found(uint32_t most)
{
    const btl_ib_event_t *first = &burst.events[0];

    assert_int_equal(btl_ib_wire_parse(first->data, first->size, &burst.view), BTL_IB_WIRE_OK);
    btl_ib_burst_find(&burst.view, first, most);
    return burst.view.more.count;
}

static const btl_ib_type_t types[] = {BTL_IB_TYPE_CHUNK, BTL_IB_TYPE_PUT, BTL_IB_TYPE_GOT};

TEST(test_all_follow)
{
    for (int t = 0; t < 3; t++) {
        make(types[t], 2, 100 * BYTES);
        assert_int_equal(found(COUNT - 1), COUNT - 1);
        assert_int_equal(btl_ib_burst_count(&burst.view), COUNT);
        assert_int_equal(btl_ib_burst_bytes(&burst.view), COUNT * BYTES);
        assert_int_equal(found(3), 3);
        assert_int_equal(found(0), 0);
    }
}

/* Any other bit of the headers ends the burst before that segment. */
TEST(test_each_bit_counts)
{
    for (int t = 0; t < 3; t++) {
        make(types[t], 2, 100 * BYTES);
        for (uint32_t bit = 0; bit < 8 * (HEADER + burst.head); bit++) {
            const uint32_t at = 1 + bit % (COUNT - 1);
            datagram(at)[bit / 8] ^= (uint8_t) (1u << bit % 8);
            assert_int_equal(found(COUNT - 1), at - 1);
            datagram(at)[bit / 8] ^= (uint8_t) (1u << bit % 8);
        }
        assert_int_equal(found(COUNT - 1), COUNT - 1);
    }
}

TEST(test_each_event_counts)
{
    make(BTL_IB_TYPE_PUT, 0, 100 * BYTES);
    burst.events[7].size--;
    assert_int_equal(found(COUNT - 1), 6);
    burst.events[5].from++;
    assert_int_equal(found(COUNT - 1), 4);
    burst.events[3].type = BTL_IB_EVENT_SENT;
    assert_int_equal(found(COUNT - 1), 2);
}

/* What goes beyond the end, or is the shorter segment of a PUT there, is looked at by itself. */
TEST(test_ends)
{
    for (int t = 0; t < 2; t++) {
        make(types[t], 0, 5 * BYTES);
        assert_int_equal(found(COUNT - 1), 4);
        make(types[t], 0, 5 * BYTES - 1);
        assert_int_equal(found(COUNT - 1), t == 0 ? 4 : 3);
        make(types[t], 0, 5 * BYTES + 1);
        assert_int_equal(found(COUNT - 1), t == 0 ? 5 : 4);
        make(types[t], 4, 5 * BYTES);
        assert_int_equal(found(COUNT - 1), 0);
    }
    make(BTL_IB_TYPE_CHUNK, 4, 5 * BYTES - 8); /* padded: shorter than its unit */
    assert_int_equal(found(COUNT - 1), 0);
}

/* Makes the message end with segment `i`, which has `bytes` of it and then zeros up to `size`. */
static void end_with(uint32_t i, uint32_t bytes, uint32_t size)
{
    make(BTL_IB_TYPE_CHUNK, 0, i * BYTES + bytes);
    ((btl_ib_wire_header_t *) (void *) datagram(i))->length = BTL_IB_LE16(burst.head + size);
    burst.events[i].size = HEADER + burst.head + size;
}

/* The last chunk of a message belongs to the burst: shorter, padded or whole; it may ask. */
TEST(test_last_chunk)
{
    uint8_t to[COUNT * BYTES];

    for (uint32_t bytes = 1; bytes <= BYTES; bytes++) {
        for (uint32_t size = bytes; size <= BYTES; size++) {
            for (uint32_t asks = 0; asks < 2; asks++) {
                end_with(4, bytes, size);
                datagram(4)[1] |= asks ? BTL_IB_FLAG_ACK_NOW : 0;
                assert_int_equal(found(COUNT - 1), 4);
                assert_int_equal(burst.view.more.asks, asks);
                assert_int_equal(btl_ib_burst_bytes(&burst.view), 4 * BYTES + bytes);
                memset(to, 0xee, sizeof(to));
                assert_int_equal(btl_ib_burst_place(&burst.view, to), 4 * BYTES + bytes);
                assert_int_equal(to[4 * BYTES + bytes - 1], (uint8_t) (4 * 37 + bytes - 1));
                assert_int_equal(to[4 * BYTES + bytes], 0xee);
                assert_int_equal(found(3), 3); /* of those that there are */
                assert_false(burst.view.more.asks);
                assert_int_equal(btl_ib_burst_bytes(&burst.view), 4 * BYTES);
            }
        }
    }
    end_with(1, 5, 5); /* the only one behind the first */
    assert_int_equal(found(COUNT - 1), 1);
    assert_int_equal(btl_ib_burst_bytes(&burst.view), BYTES + 5);
}

/* Any other bit of its headers, or another size, leaves it to be looked at by itself. */
TEST(test_no_last_chunk)
{
    end_with(4, 50, 50);
    for (uint32_t bit = 0; bit < 8 * (HEADER + burst.head); bit++) {
        datagram(4)[bit / 8] ^= (uint8_t) (1u << bit % 8);
        const bool asks = bit / 8 == 1 && 1u << bit % 8 == BTL_IB_FLAG_ACK_NOW;
        assert_int_equal(found(COUNT - 1), asks ? 4 : 3);
        datagram(4)[bit / 8] ^= (uint8_t) (1u << bit % 8);
    }
    end_with(4, 50, 49);
    assert_int_equal(found(COUNT - 1), 3);
    end_with(4, 50, BYTES + 1);
    assert_int_equal(found(COUNT - 1), 3);
    for (int way = 0; way < 3; way++) {
        end_with(4, 50, 50);
        burst.events[4].type = way == 0 ? BTL_IB_EVENT_SENT : BTL_IB_EVENT_RECV;
        burst.events[4].from += way == 1;
        burst.events[4].codepoint += way == 2;
        assert_int_equal(found(COUNT - 1), 3);
    }
}

TEST(test_others_are_alone)
{
    make(BTL_IB_TYPE_GOT, 0, 100 * BYTES);
    burst.type = BTL_IB_TYPE_DATA;
    for (uint32_t i = 0; i < COUNT; i++) {
        write_header(i);
    }
    assert_int_equal(found(COUNT - 1), 0);
}

TEST(test_placed)
{
    uint8_t to[COUNT * BYTES + 1];

    for (int t = 0; t < 3; t++) {
        make(types[t], 3, 100 * BYTES);
        assert_int_equal(found(COUNT - 1), COUNT - 1);
        memset(to, 0xee, sizeof(to));
        assert_int_equal(btl_ib_burst_place(&burst.view, to), COUNT * BYTES);
        for (uint32_t i = 0; i < COUNT * BYTES; i++) {
            assert_int_equal(to[i], (uint8_t) (i / BYTES * 37 + i % BYTES));
        }
        assert_int_equal(to[COUNT * BYTES], 0xee);
    }
}

UNIT_MAIN(NULL, NULL)
