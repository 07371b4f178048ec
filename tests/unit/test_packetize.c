/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments: what is in them, and where their bytes are. */

#include <string.h>

#include "btl_ib_packet.h"
#include "btl_ib_packetize.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum { BYTES = 64, LONG = 20000 };

static bench_t *bench;
static btl_ib_conn_t *conn; /* of host 0 */

static int set_up(void **state)
{
    bench = new_bench();
    use_queues(bench, "P,128,256,128,16:S,1472,2048,1024,500");
    acquaint(bench);
    conn = bench_conn(bench, 0, 1);
    bench_turn(bench, 0);
    return 0;
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

static void fill(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t) (i * 7 + i / 251 + 1);
    }
}

/* ---- pieces of memory ---- */

/* Any bytes of memory in three pieces, which may be empty; and nothing behind them. */
TEST(copied)
{
    static const size_t cuts[][2] = {{0, 0}, {0, 64}, {64, 64}, {10, 10}, {1, 63}, {20, 41}};
    uint8_t bytes[BYTES], to[BYTES + 1];

    fill(bytes, BYTES);
    for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
        const struct iovec iov[3] = {
            {bytes, cuts[c][0]},
            {bytes + cuts[c][0], cuts[c][1] - cuts[c][0]},
            {bytes + cuts[c][1], BYTES - cuts[c][1]},
        };
        for (uint32_t offset = 0; offset < BYTES; offset++) {
            for (uint32_t size = 0; size <= BYTES - offset; size++) {
                memset(to, 0xee, sizeof(to));
                btl_ib_packet_copy(iov, 3, offset, size, to);
                assert_memory_equal(to, bytes + offset, size);
                assert_int_equal(to[size], 0xee);
            }
        }
    }
}

/* Each piece gives its part, and takes that off what is still to be found. */
TEST(a_part_of_each)
{
    uint8_t bytes[BYTES];
    const struct iovec iov = {bytes, BYTES};

    for (uint64_t offset = 0; offset < 2 * BYTES; offset++) {
        for (uint32_t size = 0; size < 2 * BYTES; size++) {
            uint64_t off = offset;
            uint32_t rest = size;
            const struct iovec part = btl_ib_packet_part(&iov, &off, &rest);
            if (offset >= BYTES) {
                assert_int_equal(part.iov_len, 0);
                assert_int_equal(off, offset - BYTES);
                assert_int_equal(rest, size);
            } else {
                const uint32_t expected = btl_ib_min_u32(size, BYTES - (uint32_t) offset);
                assert_int_equal(part.iov_len, expected);
                assert_ptr_equal(part.iov_base, bytes + offset);
                assert_int_equal(off, 0);
                assert_int_equal(rest, size - expected);
            }
        }
    }
}

/* Of a segment only what lies in the memory that is copied refers to the copy then. */
TEST(moved)
{
    uint8_t head[BYTES], bytes[BYTES], copy[BYTES];
    const struct iovec from = {bytes, BYTES};

    fill(bytes, BYTES);
    for (int way = 0; way < 5; way++) {
        btl_ib_segment_t segment = {.outside = 30, .iov = {{head + 44, 20}, {bytes, 10}}};
        memset(copy, 0, sizeof(copy));
        if (way == 1) {
            segment.iov[0] = (struct iovec){bytes + 5, 20};
            segment.iov[1] = (struct iovec){head, 10}; /* zeros behind it */
        } else if (way == 2) {
            segment.outside = 0;
        } else if (way == 3) {
            segment.iov[1] = (struct iovec){bytes + BYTES, 10}; /* what happens to lie behind it */
        } else if (way == 4) {
            segment.iov[1] = (struct iovec){bytes + 3, 0};
        }
        const btl_ib_segment_t before = segment;
        const uint64_t moved = btl_ib_packet_move_bytes(&segment, &from, copy);
        assert_int_equal(moved, way == 0 ? 10 : way == 1 ? 20 : 0);
        assert_ptr_equal(segment.iov[0].iov_base, way == 1 ? copy + 5 : before.iov[0].iov_base);
        assert_ptr_equal(segment.iov[1].iov_base, way == 0 ? copy : before.iov[1].iov_base);
        if (way == 0) {
            assert_memory_equal(copy, bytes, 10);
        } else if (way == 1) {
            assert_memory_equal(copy + 5, bytes + 5, 20);
        }
    }
}

/* ---- segments ---- */

static btl_ib_segment_t *sent(int list, uint32_t n)
{
    btl_ib_list_t *item = btl_ib_list_first(&conn->sentmap.sent[list]);

    for (; item != NULL && n > 0; n--) {
        item = btl_ib_list_next(&conn->sentmap.sent[list], item);
    }
    return item == NULL ? NULL : BTL_IB_CONTAINER(item, btl_ib_segment_t, link);
}

/* A copy is what would be sent, in one piece; of a VOID nothing but the header. */
TEST_WITH(duplicates, set_up, tear_down)
{
    bench_send(bench, 0, 1, LONG, 1);
    bench_turn(bench, 0);
    for (uint32_t i = 0; i < 14; i++) {
        btl_ib_segment_t *segment = sent(BTL_IB_SENT_BULK, i);
        btl_ib_segment_t *copy = btl_ib_packet_duplicate(conn, segment);
        uint8_t datagram[1472];
        assert_non_null(copy);
        assert_true(segment->outside > 0);
        const bench_datagram_t *d = bench->wire.first;
        for (uint32_t k = 0; k < i; k++) {
            d = d->next;
        }
        assert_int_equal(copy->size, d->size);
        assert_int_equal(copy->outside, 0);
        memcpy(datagram, d->data, d->size);
        memcpy(datagram, copy->wire, sizeof(btl_ib_wire_header_t)); /* written for each copy */
        assert_memory_equal(datagram, copy->wire, d->size);
        assert_int_equal(copy->type, segment->type);
        assert_int_equal(copy->flags, segment->flags);
        assert_int_equal(copy->tag, segment->tag);
        assert_int_equal(copy->channel, segment->channel);
        assert_int_equal(copy->seq, segment->seq);
        btl_ib_pool_put(copy);
    }
    btl_ib_segment_t *one = btl_ib_packet_make(conn, BTL_IB_TYPE_DATA, 100);
    one->outside = 5;
    one->payload = 6;
    one->parted = 7;
    one->out = &bench->messages[0].msg.out;
    btl_ib_packet_make_void(one);
    assert_int_equal(one->type, BTL_IB_TYPE_VOID);
    assert_int_equal(one->size, sizeof(btl_ib_wire_header_t));
    assert_int_equal(one->outside + one->payload + one->parted, 0);
    assert_null(one->out);
    assert_false(btl_ib_segment_is_mtu_probe(one));
    btl_ib_pool_put(one);
}

/* A first contact has its block, which says who is meant; others have none. */
TEST_WITH(first_contact, set_up, tear_down)
{
    btl_ib_segment_t *segment = btl_ib_packet_make(conn, BTL_IB_TYPE_DATA, 100);
    const uint32_t overhead = btl_ib_packet_overhead(conn);
    btl_ib_wire_connect_t connect;

    assert_int_equal(segment->flags, 0);
    assert_int_equal(segment->size, overhead + 100);
    assert_ptr_equal(btl_ib_packet_body(segment), segment->wire + overhead);
    btl_ib_pool_put(segment);
    conn->identity.force_connect = true;
    segment = btl_ib_packet_make(conn, BTL_IB_TYPE_DATA, 100);
    assert_int_equal(segment->flags, BTL_IB_FLAG_CONNECT);
    assert_int_equal(segment->size, overhead + sizeof(connect) + 100);
    assert_ptr_equal(btl_ib_packet_body(segment), segment->wire + overhead + sizeof(connect));
    assert_int_equal(btl_ib_conn_segment_max(conn),
                     conn->pmtud.datagram_max - overhead - sizeof(connect));
    memcpy(&connect, segment->wire + overhead, sizeof(connect));
    assert_int_equal(BTL_IB_LE64(connect.name), bench->hosts[0].config.name);
    assert_int_equal(BTL_IB_LE32(connect.connection), conn->identity.id);
    assert_int_equal(BTL_IB_LE32(connect.epoch), conn->identity.epoch);
    assert_int_equal(BTL_IB_LE32(connect.floor), conn->identity.peer_floor);
    btl_ib_pool_put(segment);
    conn->identity.force_connect = false;
}

/* Sent in place is what the transport reads before it returns, in three pieces, from memory that it
 * has not registered, and without protection. */
TEST_WITH(in_place_or_not, set_up, tear_down)
{
    btl_ib_transport_attr_t *attr = &conn->route.via->transport->attr;
    const btl_ib_transport_attr_t before = *attr;

    attr->inline_size = 1000;
    assert_true(btl_ib_packetize_can_refer(conn, 1000));
    assert_false(btl_ib_packetize_can_refer(conn, 1001));
    attr->max_iov = 2;
    assert_false(btl_ib_packetize_can_refer(conn, 1000));
    attr->max_iov = 3;
    attr->registered_page = 4096;
    assert_false(btl_ib_packetize_can_refer(conn, 1000));
    *attr = before;
    assert_int_equal(btl_ib_packetize_room(conn, 0, 10), 128 - sizeof(btl_ib_wire_header_t) - 10);
    assert_int_equal(btl_ib_packetize_room(conn, 1, 0),
                     conn->pmtud.datagram_max - sizeof(btl_ib_wire_header_t));
}

/* ---- series ---- */

static bool with_room; /* for segments that continue others */

/* Makes all segments of `size` bytes in two places, the first of `first` bytes, and looks where
 * their bytes are. */
static void check_series(uint32_t size, uint32_t first, bool in_place, uint32_t pad_most)
{
    static uint8_t bytes[LONG];
    const struct iovec iov[2] = {{bytes, first}, {bytes + first, size - first}};
    btl_ib_out_t out = {.conn = conn, .size = size, .kind = BTL_IB_OUT_PUT};
    btl_ib_series_t series = {
        .piece = {.type = BTL_IB_TYPE_PUT, .head = 40, .iov = iov},
        .unit = 1000,
        .pad_most = pad_most,
        .tag = 3,
        .ask_ack = true,
    };
    btl_ib_segment_t *made[32];
    uint8_t got[1472];
    uint32_t at = 0;

    fill(bytes, sizeof(bytes));
    btl_ib_list_init(&out.link);
    conn->route.via->transport->attr.max_iov = in_place ? 3 : 2;
    const int count = btl_ib_packetize_series(conn, &out, 1, &series, made, 32);
    const uint32_t pieces = (size + 999) / 1000, rest = size - (pieces - 1) * 1000;
    const uint32_t pad = 1000 - rest <= pad_most ? 1000 - rest : 0;
    assert_int_equal(count, pieces);
    assert_int_equal(series.refers, in_place);
    assert_int_equal(out.offset, size);
    for (uint32_t i = 0; i < pieces; i++) {
        const bool last = i + 1 == pieces;
        btl_ib_segment_t *segment = made[i];
        const uint32_t payload = last ? rest : 1000;
        const bool two = at < first && at + payload > first;
        assert_int_equal(segment->payload, payload);
        assert_int_equal(segment->last, last);
        assert_int_equal(segment->flags, last ? BTL_IB_FLAG_ACK_NOW : 0);
        assert_int_equal(segment->tag, 3);
        /* those that are like the one before are made of it at once */
        assert_true(!with_room || !in_place || i == 0 || i + 2 > pieces || first > 0
                    || segment->continues);
        assert_int_equal(segment->size + segment->outside - btl_ib_packet_overhead(conn) - 40,
                         payload + (last && !(in_place && two) ? pad : 0));
        const uint32_t inside = segment->size - btl_ib_packet_overhead(conn) - 40;
        memcpy(got, btl_ib_packet_body(segment) + 40, inside);
        btl_ib_packet_copy(segment->iov, 2, 0, segment->outside, got + inside);
        assert_int_equal(inside == 0, in_place);
        assert_memory_equal(got, bytes + at, payload);
        for (uint32_t k = payload; k < inside + segment->outside; k++) {
            assert_int_equal(got[k], 0);
        }
        at += payload;
    }
    assert_int_equal(out.pending, pieces);
    for (uint32_t i = pieces; i > 0; i--) { /* the last could not leave, nor the one before, ... */
        btl_ib_packetize_undo(made[i - 1]);
        assert_int_equal(out.offset, (i - 1) * 1000);
        btl_ib_pool_put(made[i - 1]);
    }
    assert_int_equal(out.pending, 0);
    conn->route.via->transport->attr.max_iov = 3;
}

TEST_WITH(all_of_a_series, set_up, tear_down)
{
    static const uint32_t sizes[] = {1, 999, 1000, 1001, 1930, 5000, 9999, 16000, 19900};

    for (int again = 0; again < 2; again++) { /* with new memory, and with what is there */
        with_room = again;
        if (again) {
            assert_int_equal(
                btl_ib_tx_window_reserve(&conn->tx[1].sentmap.window, 32, &conn->engine->mem), 0);
        }
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            const uint32_t size = sizes[i];
            const uint32_t cuts[] = {0, 1, size / 3, size / 1000 * 1000, size - 1, size};
            for (size_t c = 0; c < 6; c++) {
                for (int way = 0; way < 4; way++) {
                    check_series(size, cuts[c], way & 1, way & 2 ? 100 : 0);
                }
            }
        }
    }
}

UNIT_MAIN(NULL, NULL)
