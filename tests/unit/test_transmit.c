/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Datagrams of host 0 as its transport gets them: their headers, how they are to leave, and what
 * becomes of those that it does not take. */

#include <errno.h>
#include <string.h>

#include "btl_ib_ack_send.h"
#include "btl_ib_packet.h"
#include "btl_ib_state.h"
#include "btl_ib_transmit.h"
#include "hostile.h"
#include "pool_segments.h"
#include "unit.h"

enum { MOST = 128, NO_BUFFERS_LONG = 20000, NO_BUFFERS_OLD = 5 * SECOND };

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn;
static btl_ib_transport_ops_t ops;
static const btl_ib_transport_ops_t *real_ops;

/* What was given to the transport. */
static struct {
    uint32_t count, calls;
    btl_ib_tx_t tx[MOST];
    btl_ib_wire_header_t header[MOST];
    btl_ib_wire_part_t part[MOST]; /* the beginning of their bodies */
    uint32_t takes;                /* so many more, and then fails: */
    int error;
    bool refuses_joined; /* a datagram that may be joined with the next one is not taken, */
    uint32_t refuses;    /* nor are so many others; then it takes some */
} given;

static int take(btl_ib_transport_t *transport, const btl_ib_tx_t *batch, int n, int *error)
{
    const bool joined = given.refuses_joined && n > 1 && batch->gso_most != 1;
    const bool refused = joined || given.refuses > 0;
    const int most = refused ? 0 : (int) btl_ib_min_u32((uint32_t) n, given.takes);

    given.refuses -= !joined && given.refuses > 0;

    given.calls++;
    for (int i = 0; i < most; i++) {
        if (given.count < MOST) {
            given.tx[given.count] = batch[i];
            const uint8_t *at = batch[i].iov[0].iov_base;
            memcpy(&given.header[given.count], at, sizeof(given.header[0]));
            if (batch[i].iov[0].iov_len >= sizeof(given.header[0]) + sizeof(given.part[0])) {
                memcpy(&given.part[given.count], at + sizeof(given.header[0]),
                       sizeof(given.part[0]));
            }
        }
        given.count++;
    }
    given.takes -= (uint32_t) most;
    if (most > 0) {
        (void) real_ops->send(transport, batch, most, error);
    }
    *error = given.error;
    return most;
}

/* Begins with that protection. Returns whether there is one. */
static bool begin_protected(uint32_t inline_size, btl_ib_protection_kind_t kind)
{
    memset(&given, 0, sizeof(given));
    given.takes = UINT32_MAX;
    bench = new_bench();
    bench->hosts[0].attr.inline_size = inline_size;
    bench->hosts[0].config.cc = BTL_IB_CC_NONE;
    use_queues(bench, "P,128,256,128,16:S,1472,2048,1024,500");
    if (!bench_protection(bench, kind)) {
        end(bench);
        return false;
    }
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    bench_turn(bench, 0);
    btl_ib_transport_t *transport = conn->rail->transport;
    real_ops = transport->ops;
    ops = *real_ops;
    ops.send = take;
    transport->ops = &ops;
    return true;
}

static void begin(uint32_t inline_size)
{
    assert_true(begin_protected(inline_size, BTL_IB_PROTECTION_NONE));
}

static int set_up(void **state)
{
    begin(65536);
    return 0;
}

static int tear_down(void **state)
{
    given.takes = UINT32_MAX;
    end_settled(bench, 30 * SECOND);
    return 0;
}

static const btl_ib_wire_header_t *sent_header(uint32_t size)
{
    given.count = 0;
    bench_send(bench, 0, 1, size, 1);
    bench_turn(bench, 0);
    assert_int_equal(given.count, 1);
    return &given.header[0];
}

/* ---- headers ---- */

/* A stamp is echoed with the time since it came, as long as that means something. */
TEST_WITH(echo, set_up, tear_down)
{
    static const uint64_t holds[] = {0,
                                     1,
                                     1000,
                                     BTL_IB_HOLD_UNKNOWN - 1,
                                     BTL_IB_HOLD_UNKNOWN,
                                     BTL_IB_HOLD_UNKNOWN + 1,
                                     BTL_IB_STAMP_AGE,
                                     BTL_IB_STAMP_AGE + 1};

    for (size_t i = 0; i < sizeof(holds) / sizeof(holds[0]); i++) {
        const bool old = holds[i] > BTL_IB_STAMP_AGE;
        bench->now += 10 * (uint64_t) SECOND; /* nothing is before the engine began */
        conn->ack.echo_valid = true;
        conn->ack.echo = 12345;
        conn->ack.echo_poll_gap = i % 2 == 0 ? 70000 : 7;
        conn->ack.echo_at = bench->now - holds[i];
        const btl_ib_wire_header_t *header = sent_header(1000);
        assert_int_equal(BTL_IB_LE32(header->stamp), (uint32_t) bench->now);
        assert_int_equal((header->flags & BTL_IB_FLAG_ECHO) != 0, !old);
        assert_int_equal(BTL_IB_LE32(header->echo), old ? 0 : 12345);
        assert_int_equal(BTL_IB_LE16(header->hold),
                         old ? 0 : btl_ib_clip_u32(holds[i], BTL_IB_HOLD_UNKNOWN));
        assert_int_equal(BTL_IB_LE16(header->poll_gap), old ? 0 : i % 2 == 0 ? UINT16_MAX : 7);
        assert_true(bench_settle(bench, SECOND));
    }
    conn->ack.echo_valid = false;
    assert_false(sent_header(1000)->flags & BTL_IB_FLAG_ECHO);
}

/* It acknowledges the channel to which something came last, unless only another one is due. */
TEST_WITH(acknowledges, set_up, tear_down)
{
    for (uint32_t channel = 0; channel < 2; channel++) {
        for (uint32_t due = 0; due < 4; due++) {
            const uint32_t expected = due == 0 || (due >> channel & 1) != 0 ? channel : 1 - channel;
            conn->ack.channel = channel;
            conn->ack.due = due;
            const btl_ib_wire_header_t *header = sent_header(1000);
            assert_true(header->flags & BTL_IB_FLAG_ACK);
            assert_int_equal(header->channels >> 4, expected);
            assert_int_equal(header->channels & 15, 1);
            assert_int_equal(BTL_IB_LE32(header->ack), conn->rx[expected].window.next);
            if (expected == 0) {
                assert_int_equal(BTL_IB_LE16(header->credits),
                                 conn->rx[0].credit.limit - conn->rx[0].window.next);
            } else {
                assert_int_equal(header->credits, 0); /* of a shared queue none are given */
            }
            conn->ack.due = 0;
            assert_true(bench_settle(bench, SECOND));
        }
    }
}

/* A tag without a receiver is told once. */
TEST_WITH(no_tag, set_up, tear_down)
{
    conn->ack.no_tag = true;
    assert_true(sent_header(1000)->flags & BTL_IB_FLAG_NO_TAG);
    assert_false(conn->ack.no_tag);
    assert_false(sent_header(1000)->flags & BTL_IB_FLAG_NO_TAG);
}

/* ---- how they leave ---- */

/* Data leave the reserve to acknowledgements, by their own channel; ACKs by the first. */
TEST_WITH(by_which_queue, set_up, tear_down)
{
    const uint32_t reserve = conn->route.queues->q[0].reserve;

    assert_true(reserve > 0);
    (void) sent_header(1000);
    assert_int_equal(given.tx[0].channel, 1);
    assert_int_equal(given.tx[0].spare, reserve);
    assert_int_equal(given.tx[0].niov, 1);
    assert_int_equal(given.tx[0].size, 1000 + btl_ib_packet_overhead(conn));
    assert_int_equal(given.tx[0].to, conn->route.to);
    assert_false(given.tx[0].bulk || given.tx[0].ect);
    (void) sent_header(20);
    assert_int_equal(given.tx[0].channel, 0);
    bench_send(bench, 0, 1, 20000, 1); /* there is memory then for those that continue others */
    assert_true(bench_settle(bench, SECOND));
    for (int kind = 0; kind < BTL_IB_SEGMENT_KINDS; kind++) { /* as if each were registered */
        BTL_IB_LIST_FOREACH (btl_ib_segment_t, one, &conn->rail->pool.kind[kind].free, link) {
            one->mem = one;
        }
    }
    given.count = 0;
    conn->flow.now = 1;
    memset(engine->datagrams.tx, 0xff, sizeof(engine->datagrams.tx));
    bench_send(bench, 0, 1, 20000, 1); /* in chunks, from where it is */
    bench_turn(bench, 0);
    assert_int_equal(given.count, 15);
    for (uint32_t i = 0; i < 15; i++) {
        const btl_ib_tx_t *tx = &given.tx[i];
        size_t size = 0;
        for (uint32_t k = 0; k < tx->niov; k++) {
            size += tx->iov[k].iov_len;
        }
        assert_int_equal(size, tx->size);
        assert_true(tx->niov >= 2);
        assert_ptr_equal(tx->mem, tx->context);
        assert_int_equal(tx->to, conn->route.to);
        assert_false(tx->bulk || tx->ect);
        assert_int_equal(tx->channel, 1);
        assert_int_equal(tx->spare, reserve);
        assert_int_equal(tx->flow, 1);
        assert_int_equal(given.header[i].version_type & 15, BTL_IB_TYPE_CHUNK);
        assert_int_equal(BTL_IB_LE32(given.header[i].seq), BTL_IB_LE32(given.header[0].seq) + i);
        assert_int_equal(BTL_IB_LE16(given.header[i].length), tx->size - sizeof(given.header[0]));
    }
    conn->flow.now = 0;
    given.count = 0;
    btl_ib_ack_send(conn, 0);
    assert_int_equal(given.count, 1);
    assert_int_equal(given.header[0].version_type & 15, BTL_IB_TYPE_ACK);
    assert_int_equal(given.tx[0].channel, 0);
    assert_int_equal(given.tx[0].spare, 0);
    assert_false(given.header[0].flags & BTL_IB_FLAG_ACK);
}

/* What is not simple leaves the same way: ACKs and short messages neither by the lane of bulk, nor
 * with ECT(0). */
TEST_WITH(the_long_way, set_up, tear_down)
{
    conn->pmtud.parts = true;
    conn->transmit.bulk_lane = true;
    conn->transmit.ect = true;
    (void) sent_header(1000);
    assert_int_equal(given.tx[0].channel, 1);
    assert_false(given.tx[0].bulk || given.tx[0].ect);
    assert_true(given.tx[0].spare > 0);
    (void) sent_header(btl_ib_conn_segment_max(conn)); /* not too large for the path */
    assert_int_equal(given.tx[0].size, conn->pmtud.datagram_max);
    given.count = 0;
    btl_ib_ack_send(conn, 0);
    assert_int_equal(given.count, 1);
    assert_int_equal(given.tx[0].channel, 0);
    assert_int_equal(given.tx[0].spare, 0);
    assert_false(given.tx[0].bulk || given.tx[0].ect);
    conn->pmtud.parts = false;
    conn->transmit.bulk_lane = conn->transmit.ect = false;
}

/* What is sent soon after something was delivered is the answer to that. */
TEST_WITH(answers, set_up, tear_down)
{
    for (uint64_t late = 0; late < 2; late++) {
        conn->ack.unreplied = true;
        conn->ack.delivered_at = bench->now - engine->config.ack_delay - late;
        (void) sent_header(1000);
        assert_int_equal(conn->ack.unreplied, late);
    }
}

/* A batch is of whole bursts, of what the transport takes at once. */
TEST_WITH(how_many_at_once, set_up, tear_down)
{
    btl_ib_transport_attr_t *attr = &conn->route.via->transport->attr;
    static const uint32_t tries[][3] = {{16, 1, 16},  {16, 5, 15},  {16, 16, 16}, {16, 44, 16},
                                        {64, 44, 44}, {64, 21, 63}, {1, 44, 1},   {1000, 1, 64}};

    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        attr->max_batch = tries[i][0];
        conn->cc.gso_segments = tries[i][1];
        assert_int_equal(btl_ib_transmit_max(conn), tries[i][2]);
    }
    attr->max_batch = 16;
    conn->cc.gso_segments = 1;
}

/* While a transport reads a segment another copy is sent from other memory. */
TEST(read_by_the_transport)
{
    begin(100);
    const uint32_t before = segments_in_use(&conn->rail->pool);
    bench_send(bench, 0, 1, 1000, 1); /* it leaves at once */
    assert_int_equal(given.count, 1);
    btl_ib_segment_t *segment =
        BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.sent[BTL_IB_SENT_OTHERS], link);
    assert_true(segment->busy);
    assert_ptr_equal(given.tx[0].context, segment);
    assert_true(btl_ib_transmit_one(conn, segment));
    assert_ptr_not_equal(given.tx[1].context, segment);
    assert_int_equal(given.tx[1].size, given.tx[0].size);
    assert_int_equal(segments_in_use(&conn->rail->pool), before + 2);
    bench_turn(bench, 0); /* it says that it has read both */
    assert_false(segment->busy);
    assert_int_equal(segments_in_use(&conn->rail->pool), before + 1); /* the copy is free again */
    assert_true(btl_ib_transmit_one(conn, segment));
    assert_ptr_equal(given.tx[2].context, segment);
    bench_turn(bench, 0);
    given.takes = 0; /* nothing reads what was not taken */
    given.error = EMSGSIZE;
    assert_true(btl_ib_transmit_segments(conn, &segment, 1) == 1);
    assert_false(segment->busy);
    tear_down(NULL);
}

/* ---- without memory ---- */

/* A segment of host 0 that is in flight is sent again. Returns whether that left. */
static bool is_sent_again(btl_ib_segment_t *segment)
{
    const uint32_t before = given.count;
    const uint64_t blocked = engine->count.blocked_memory;
    const bool sent = btl_ib_transmit_one(conn, segment);

    assert_int_equal(given.count, before + sent);
    assert_int_equal(engine->count.blocked_memory, blocked + !sent);
    return sent;
}

static btl_ib_segment_t *one_in_flight(void)
{
    bench_send(bench, 0, 1, 1000, 1);
    return BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.sent[BTL_IB_SENT_OTHERS], link);
}

/* What needs memory of its own while the device reads the last copy waits for that, and loses
 * nothing. */
TEST(no_memory_for_a_copy)
{
    hidden_t hidden;

    begin(100);
    btl_ib_segment_t *segment = one_in_flight();
    const uint32_t before = segments_in_use(&conn->rail->pool);
    assert_true(segment->busy);
    hide_segments(&hidden, &conn->rail->pool);
    assert_false(is_sent_again(segment));
    show_segments(&hidden);
    assert_int_equal(segments_in_use(&conn->rail->pool), before);
    assert_true(is_sent_again(segment));
    assert_true(bench_settle(bench, SECOND));
    tear_down(NULL);
}

static bool makes_no_key(btl_ib_aead_t *aead, const void *secret, size_t secret_size,
                         const void *info, size_t info_size, void *out, size_t size)
{
    return false;
}

static bool seals_nothing(btl_ib_aead_t *aead, const btl_ib_aead_key_t *key, uint64_t number,
                          const void *aad, size_t aad_size, const uint8_t *text, uint8_t *out,
                          size_t size, uint8_t tag[BTL_IB_AEAD_TAG_BYTES])
{
    return false;
}

/* Nothing leaves in the clear where there is no memory for a key, for what is encrypted, or within
 * the library; all of it leaves afterwards. */
TEST(no_memory_to_encrypt)
{
    hidden_t hidden;

    if (!begin_protected(65536, BTL_IB_PROTECTION_ENCRYPT)) {
        skip();
    }
    btl_ib_segment_t *segment = one_in_flight();
    const uint32_t before = segments_in_use(&conn->rail->pool);
    const btl_ib_aead_ops_t *const working = bench->aead->ops;
    btl_ib_aead_ops_t failing = *working;
    hide_segments(&hidden, &conn->rail->pool);
    assert_false(is_sent_again(segment));
    show_segments(&hidden);
    bench->aead->ops = &failing;
    failing.seal = seals_nothing;
    assert_false(is_sent_again(segment));
    failing.seal = working->seal;
    failing.derive = makes_no_key;
    conn->identity.keys->tx.begun = false; /* as of a new incarnation */
    assert_false(is_sent_again(segment));
    assert_int_equal(segments_in_use(&conn->rail->pool), before);
    bench->aead->ops = working;
    assert_true(is_sent_again(segment));
    tear_down(NULL);
}

/* ---- what is not taken ---- */

/* "Not now" leaves it where it is; anything else counts as a loss, and what follows is sent. */
TEST_WITH(errors, set_up, tear_down)
{
    static const int for_now[] = {EAGAIN, ENOMEM, ENOBUFS};
    btl_ib_segment_t *segments[3];
    btl_ib_segment_t *segment;
    uint32_t n = 0;

    for (int i = 0; i < 3; i++) {
        (void) sent_header(1000);
    }
    BTL_IB_LIST_FOREACH (btl_ib_segment_t, one, &conn->sentmap.sent[BTL_IB_SENT_OTHERS], link) {
        segments[n++] = one;
    }
    assert_int_equal(n, 3);
    segment = segments[0];
    for (int i = 0; i < 3; i++) {
        const uint64_t blocked = engine->count.blocked_transport;
        const uint64_t sent = engine->count.sent_datagrams;
        given.takes = 0;
        given.error = for_now[i];
        conn->ack.no_tag = true;
        conn->identity.contacted = false;
        assert_false(btl_ib_transmit_one(conn, segment));
        assert_int_equal(btl_ib_transmit_segments(conn, segments, 3), 0);
        assert_false(conn->identity.contacted);
        assert_true(conn->ack.no_tag); /* nothing that said so has left */
        given.takes = 2;
        assert_int_equal(btl_ib_transmit_segments(conn, segments, 3), 2);
        assert_true(conn->identity.contacted);
        assert_int_equal(engine->count.blocked_transport, blocked + 3);
        assert_int_equal(engine->count.sent_datagrams, sent + 2);
    }
    const uint64_t blocked = engine->count.blocked_transport;
    const uint64_t sent = engine->count.sent_datagrams;
    given.takes = 0;
    given.error = EMSGSIZE;
    assert_true(btl_ib_transmit_one(conn, segment));
    assert_int_equal(conn->validation.unsent_since, 0); /* it says nothing of the route */
    given.error = EPERM;
    assert_true(btl_ib_transmit_one(conn, segment));
    assert_int_not_equal(conn->validation.unsent_since, 0);
    given.calls = 0;
    assert_int_equal(btl_ib_transmit_segments(conn, segments, 3), 3);
    assert_int_equal(given.calls, 3);
    assert_int_equal(engine->count.blocked_transport, blocked);
    assert_int_equal(engine->count.sent_datagrams, sent);
    given.takes = 1;
    given.count = 0;
    assert_int_equal(btl_ib_transmit_segments(conn, segments, 3), 3);
    assert_int_equal(given.count, 1);
    const btl_ib_addr_t to = conn->route.to; /* a route that leads nowhere takes nothing */
    const uint64_t before = engine->count.sent_datagrams;
    conn->route.to = BTL_IB_ADDR_UNKNOWN;
    given.takes = 9;
    assert_int_equal(btl_ib_transmit_segments(conn, segments, 3), 3);
    assert_int_equal(given.count, 1);
    assert_int_equal(engine->count.sent_datagrams, before);
    conn->route.to = to;
}

/* A segment for which there are never buffers is lost after 20 ms; any other one is not, nor is it
 * if that was long ago. */
TEST_WITH(never_buffers, set_up, tear_down)
{
    (void) sent_header(1000);
    (void) sent_header(1000);
    btl_ib_segment_t *segment =
        BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.sent[BTL_IB_SENT_OTHERS], link);
    btl_ib_segment_t *other = BTL_IB_CONTAINER(segment->link.next, btl_ib_segment_t, link);
    const uint64_t first = engine->clock.now + NO_BUFFERS_OLD;

    given.takes = 0;
    given.error = ENOBUFS;
    engine->clock.now = first;
    assert_false(btl_ib_transmit_one(conn, segment));
    assert_int_equal(conn->transmit.no_buffers_since, first);
    assert_int_equal(conn->transmit.no_buffers_seq, segment->seq);
    assert_int_equal(conn->transmit.no_buffers_channel, segment->channel);
    engine->clock.now = first + NO_BUFFERS_LONG - 1;
    assert_false(btl_ib_transmit_one(conn, segment));
    assert_false(btl_ib_transmit_one(conn, other)); /* which is not remembered yet */
    assert_int_equal(conn->transmit.no_buffers_seq, segment->seq);
    engine->clock.now = first + NO_BUFFERS_LONG;
    assert_true(btl_ib_transmit_one(conn, segment));
    segment->channel = 0; /* the same sequence of another channel */
    assert_false(btl_ib_transmit_one(conn, segment));
    segment->channel = 1;
    assert_int_equal(conn->transmit.no_buffers_channel, 0);
    assert_int_equal(conn->transmit.no_buffers_since, engine->clock.now);
    conn->transmit.no_buffers_channel = 1;
    engine->clock.now += NO_BUFFERS_OLD - 1;
    assert_true(btl_ib_transmit_one(conn, segment));
    engine->clock.now += 1;
    assert_false(btl_ib_transmit_one(conn, segment));
    engine->clock.now = bench->now;
}

/* ---- bulk ---- */

/* Segments in flight of that kind, of which there are `count`. */
static void in_flight(int list, btl_ib_segment_t **segments, uint32_t count)
{
    uint32_t n = 0;

    BTL_IB_LIST_FOREACH (btl_ib_segment_t, one, &conn->sentmap.sent[list], link) {
        assert_true(n < count);
        segments[n++] = one;
    }
    assert_int_equal(n, count);
}

/* Where congestion is marked first copies of full bulk segments leave with ECT(0), and are counted;
 * nothing else does. */
TEST_WITH(marked_as_capable, set_up, tear_down)
{
    btl_ib_segment_t *bulk[15], *others[3];

    (void) sent_header(1000);
    bench_send(bench, 0, 1, 20000, 1);
    bench_turn(bench, 0);
    in_flight(BTL_IB_SENT_BULK, bulk, 15);
    in_flight(BTL_IB_SENT_OTHERS, others, 1);
    others[1] = bulk[0];
    others[2] = bulk[1];
    conn->ecn.marking = true;
    const uint64_t before = engine->count.ecn_sent;
    given.count = 0;
    assert_int_equal(btl_ib_transmit_segments(conn, others, 3), 3);
    assert_false(given.tx[0].ect);
    assert_true(given.tx[1].ect && given.tx[2].ect);
    assert_int_equal(engine->count.ecn_sent, before + 2);
    bulk[0]->flags |= BTL_IB_FLAG_RETRANSMISSION;
    assert_int_equal(btl_ib_transmit_segments(conn, bulk, 2), 2);
    assert_false(given.tx[3].ect);
    assert_true(given.tx[4].ect);
    bulk[0]->flags &= (uint8_t) ~BTL_IB_FLAG_RETRANSMISSION;
    assert_true(btl_ib_transmit_one(conn, bulk[0]));
    assert_true(given.tx[5].ect);
    assert_true(btl_ib_transmit_one(conn, others[0])); /* as if there had been no bulk */
    assert_false(given.tx[6].ect);
    const uint32_t outside = bulk[0]->outside;
    for (uint32_t less = 0; less < 2; less++) { /* a short rest is not worth it */
        bulk[0]->outside = BTL_IB_ECT_LEAST - less - bulk[0]->size;
        bulk[0]->iov[0].iov_len = bulk[0]->outside;
        assert_true(btl_ib_transmit_one(conn, bulk[0]));
        assert_int_equal(given.tx[7 + less].ect, less == 0);
    }
    bulk[0]->outside = outside;
    bulk[0]->iov[0].iov_len = outside;
    conn->ecn.marking = false;
    assert_true(btl_ib_transmit_one(conn, bulk[0]));
    assert_false(given.tx[9].ect);
}

/* A burst that the host refuses leaves as single datagrams. If the host takes all of these it has
 * something against bursts; if not, its queue was full. */
TEST_WITH(burst_refused, set_up, tear_down)
{
    btl_ib_segment_t *bulk[15];

    bench_send(bench, 0, 1, 20000, 1);
    bench_turn(bench, 0);
    in_flight(BTL_IB_SENT_BULK, bulk, 15);
    conn->route.via->transport->attr.gso_bytes = 4 * 1472;
    given.error = ENOBUFS;
    given.refuses_joined = true;
    for (uint32_t takes = 3; takes <= 4; takes++) {
        given.count = 0;
        given.takes = takes;
        assert_int_equal(btl_ib_transmit_segments(conn, bulk, 15), takes);
        assert_int_equal(given.count, takes);
        for (uint32_t i = 0; i < takes; i++) {
            assert_int_equal(given.tx[i].gso_most, 1);
        }
        assert_int_equal(conn->gso.losses, takes == 4);
        assert_int_equal(conn->gso.refused, takes == 4);
    }
    given.takes = UINT32_MAX;
    given.refuses_joined = false;
    engine->clock.now++;
    assert_int_equal(btl_ib_transmit_segments(conn, bulk, 15), 15);
    assert_int_equal(conn->gso.losses, 1);
    engine->clock.now += NO_BUFFERS_LONG;
    given.refuses_joined = true;
    given.refuses = 1; /* the first is refused alone for so long that it counts as lost */
    assert_int_equal(btl_ib_transmit_segments(conn, bulk, 15), 0);
    engine->clock.now += NO_BUFFERS_LONG;
    given.refuses = 1;
    assert_int_equal(btl_ib_transmit_segments(conn, bulk, 15), 15);
    assert_int_equal(conn->gso.losses, 1);
}

/* Bulk that leaves by a lane of its own does so until all of it has arrived; short messages never
 * do. */
TEST_WITH(lane_of_bulk, set_up, tear_down)
{
    btl_ib_segment_t *bulk[15], *others[2];

    (void) sent_header(1000);
    (void) sent_header(1000);
    in_flight(BTL_IB_SENT_OTHERS, others, 2);
    conn->transmit.bulk_lane = true;
    given.count = 0;
    assert_int_equal(btl_ib_transmit_segments(conn, others, 2), 2);
    assert_false(conn->transmit.bulk_lane); /* no bulk is on its way */
    bench_send(bench, 0, 1, 20000, 1);
    bench_turn(bench, 0);
    in_flight(BTL_IB_SENT_BULK, bulk, 15);
    conn->transmit.bulk_lane = true;
    given.count = 0;
    assert_true(btl_ib_transmit_one(conn, bulk[0]));
    assert_true(given.tx[0].bulk);
    assert_int_equal(btl_ib_transmit_segments(conn, others, 2), 2);
    assert_false(given.tx[1].bulk || given.tx[2].bulk);
    assert_true(btl_ib_transmit_one(conn, bulk[1]));
    assert_true(given.tx[3].bulk);
    conn->transmit.bulk_lane = false; /* as long as nothing asks for it it is not used */
    assert_true(btl_ib_transmit_one(conn, bulk[0]));
    assert_false(given.tx[4].bulk);
}

/* Over another rail a datagram takes the smallest queue there that holds it. */
TEST_WITH(queues_of_another_route, set_up, tear_down)
{
    btl_ib_queue_table_t table = *conn->route.queues;
    const btl_ib_queue_table_t *before = conn->route.queues;
    btl_ib_segment_t *segment;

    (void) sent_header(1000);
    in_flight(BTL_IB_SENT_OTHERS, &segment, 1);
    table.count = 3;
    table.q[2] = table.q[1];
    table.q[1].size = 600;
    table.q[0].reserve = 77;
    conn->route.queues = &table;
    conn->route.own = false;
    given.count = 0;
    assert_true(btl_ib_transmit_one(conn, segment));
    assert_int_equal(given.tx[0].channel, 2);
    assert_int_equal(given.tx[0].spare, 77);
    conn->route.queues = before;
    conn->route.own = true;
    assert_true(btl_ib_transmit_one(conn, segment));
    assert_int_equal(given.tx[1].channel, 1);
}

/* Copies that were made for what the transport did not take are free again. */
TEST(copies_not_taken)
{
    btl_ib_segment_t *segments[2];

    begin(100);
    (void) sent_header(1000);
    (void) sent_header(1000);
    in_flight(BTL_IB_SENT_OTHERS, segments, 2);
    segments[0]->busy = segments[1]->busy = true;
    const uint32_t before = segments_in_use(&conn->rail->pool);
    given.takes = 0;
    given.error = EAGAIN;
    assert_int_equal(btl_ib_transmit_segments(conn, segments, 2), 0);
    assert_int_equal(segments_in_use(&conn->rail->pool), before);
    given.error = EMSGSIZE; /* and those that are lost: nobody reads them */
    assert_int_equal(btl_ib_transmit_segments(conn, segments, 2), 2);
    assert_int_equal(segments_in_use(&conn->rail->pool), before);
    segments[0]->busy = segments[1]->busy = false;
    given.takes = 2; /* those that are read are segments, so they stay */
    assert_int_equal(btl_ib_transmit_segments(conn, segments, 2), 2);
    for (int i = 0; i < 2; i++) {
        assert_true(segments[i]->busy && !segments[i]->done);
    }
    assert_int_equal(segments_in_use(&conn->rail->pool), before);
    tear_down(NULL);
}

/* What protection adds to leaves from memory of its own where it encrypts, which is free again
 * unless the transport reads it. */
TEST(protected_copies)
{
    for (uint32_t kind = 0; kind < BTL_IB_PROTECTION_KINDS; kind++) {
        btl_ib_segment_t *segment;

        if (!begin_protected(100, (btl_ib_protection_kind_t) kind)) {
            continue;
        }
        const uint32_t trailer = engine->protection.ops->trailer;
        (void) sent_header(1000);
        bench_turn(bench, 0); /* the transport has read it */
        in_flight(BTL_IB_SENT_OTHERS, &segment, 1);
        assert_int_equal(given.tx[0].size, 1000 + sizeof(btl_ib_wire_header_t) + trailer);
        const uint32_t before = segments_in_use(&conn->rail->pool);
        given.error = EAGAIN;
        given.takes = 0;
        assert_false(btl_ib_transmit_one(conn, segment));
        assert_int_equal(segments_in_use(&conn->rail->pool), before);
        given.error = EMSGSIZE;
        assert_true(btl_ib_transmit_one(conn, segment));
        assert_int_equal(segments_in_use(&conn->rail->pool), before);
        given.takes = 1;
        assert_true(btl_ib_transmit_one(conn, segment));
        assert_int_equal(segments_in_use(&conn->rail->pool),
                         before + engine->protection.ops->apart);
        bench_turn(bench, 0);
        assert_int_equal(segments_in_use(&conn->rail->pool), before);
        tear_down(NULL);
    }
}

/* Bulk leaves by the flow of its path, all else by the usual one. */
TEST_WITH(flows_of_paths, set_up, tear_down)
{
    btl_ib_segment_t *bulk[15], *other;
    btl_ib_paths_t *paths = calloc(1, sizeof(*paths) + 2 * sizeof(paths->path[0]));

    assert_non_null(paths);
    (void) sent_header(1000);
    bench_send(bench, 0, 1, 20000, 1);
    bench_turn(bench, 0);
    in_flight(BTL_IB_SENT_OTHERS, &other, 1);
    in_flight(BTL_IB_SENT_BULK, bulk, 15);
    paths->count = 1; /* lists of more are not needed here */
    paths->path[1].flow = 5;
    conn->capped.paths = paths;
    for (paths->now = 0; paths->now < 2; paths->now++) {
        given.count = 0;
        assert_true(btl_ib_transmit_one(conn, bulk[0]));
        assert_int_equal(given.tx[0].flow, paths->now == 0 ? 0 : 5);
        conn->pmtud.parts = true; /* the long way */
        assert_true(btl_ib_transmit_one(conn, other));
        assert_int_equal(given.tx[1].flow, 0);
        conn->pmtud.parts = false;
    }
    conn->capped.paths = NULL;
    free(paths);
}

/* ---- in parts ---- */

enum { NARROW = 600 };

/* A segment that is too large for the path leaves in parts that fill datagrams, and that have all
 * of it; soon each of them was the first of a copy. */
TEST_WITH(parts, set_up, tear_down)
{
    const uint32_t wide = conn->pmtud.datagram_max;
    btl_ib_segment_t *segment;
    uint32_t begun = 0;

    (void) sent_header(1400);
    in_flight(BTL_IB_SENT_OTHERS, &segment, 1);
    segment->flags |= BTL_IB_FLAG_ACK_NOW;
    conn->pmtud.parts = true;
    conn->pmtud.datagram_max = NARROW;
    const uint32_t head = btl_ib_packet_overhead(conn) + (uint32_t) sizeof(btl_ib_wire_part_t);
    const uint32_t unit = (NARROW - head) & ~7u;
    for (uint32_t copy = 0; copy < 12; copy++) {
        const uint64_t before = engine->count.sent_parts;
        uint32_t bytes = 0, seen = 0;
        given.count = 0;
        assert_true(btl_ib_transmit_one(conn, segment));
        assert_int_equal(given.count, 3);
        assert_int_equal(engine->count.sent_parts, before + 3);
        assert_int_equal(segment->in_parts, copy + 1);
        assert_int_equal(segment->parted, 0);
        for (uint32_t i = 0; i < 3; i++) {
            const uint32_t offset = BTL_IB_LE16(given.part[i].offset);
            assert_int_equal(given.header[i].version_type & 15, BTL_IB_TYPE_PART);
            assert_int_equal(BTL_IB_LE32(given.header[i].seq), segment->seq);
            assert_true(given.header[i].flags & BTL_IB_FLAG_ACK_NOW);
            assert_int_equal(given.header[i].channels & 15, segment->channel);
            assert_int_equal(BTL_IB_LE16(given.part[i].total), 1400);
            assert_int_equal(given.part[i].type, BTL_IB_TYPE_DATA);
            assert_int_equal(given.part[i].tag, segment->tag);
            assert_int_equal(offset % unit, 0);
            assert_int_equal(given.tx[i].size, head + btl_ib_min_u32(unit, 1400 - offset));
            bytes += given.tx[i].size - head;
            seen |= 1u << offset / unit;
        }
        assert_int_equal(bytes, 1400);
        assert_int_equal(seen, 7);
        begun |= 1u << BTL_IB_LE16(given.part[0].offset) / unit;
    }
    assert_int_equal(begun, 7);
    conn->pmtud.parts = false;
    conn->pmtud.datagram_max = wide;
}

/* Without memory for a part no more leaves; the next call goes on with that one. */
TEST_WITH(no_memory_for_parts, set_up, tear_down)
{
    const uint32_t wide = conn->pmtud.datagram_max;
    btl_ib_segment_t *segment;
    hidden_t hidden;
    uint32_t bytes = 0;

    (void) sent_header(1400);
    in_flight(BTL_IB_SENT_OTHERS, &segment, 1);
    const uint32_t before = segments_in_use(&conn->rail->pool);
    const uint64_t blocked = engine->count.blocked_memory, parts = engine->count.sent_parts;
    conn->pmtud.parts = true;
    conn->pmtud.datagram_max = NARROW;
    given.count = 0;
    for (uint32_t left = 0; left < 2; left++) {
        hide_segments(&hidden, &conn->rail->pool);
        assert_false(btl_ib_transmit_one(conn, segment));
        show_segments(&hidden);
        assert_int_equal(engine->count.blocked_memory, blocked + left + 1);
        assert_int_equal(engine->count.sent_parts, parts + left);
        assert_int_equal(given.count, left);
        given.takes = left == 0 ? 1 : UINT32_MAX;
        given.error = EAGAIN;
        assert_int_equal(btl_ib_transmit_one(conn, segment), left);
    }
    assert_int_equal(given.count, 3);
    assert_int_equal(engine->count.sent_parts, parts + 3);
    for (uint32_t i = 0; i < 3; i++) {
        bytes +=
            given.tx[i].size - btl_ib_packet_overhead(conn) - (uint32_t) sizeof(btl_ib_wire_part_t);
    }
    assert_int_equal(bytes, 1400);
    assert_int_equal(segments_in_use(&conn->rail->pool), before);
    conn->pmtud.parts = false;
    conn->pmtud.datagram_max = wide;
}

/* What is sent from where it is travels in parts as well: the peer gets all of it by them alone. */
TEST_WITH(parts_of_bulk, set_up, tear_down)
{
    const uint32_t wide = conn->pmtud.datagram_max;
    const uint64_t blocked = engine->count.blocked_memory;
    btl_ib_segment_t *bulk[15];

    bench_send(bench, 0, 1, 20000, 1);
    bench_turn(bench, 0);
    in_flight(BTL_IB_SENT_BULK, bulk, 15);
    assert_true(bulk[0]->outside > 0);
    bench_clear(&bench->wire);
    const uint32_t before = segments_in_use(&conn->rail->pool);
    conn->pmtud.parts = true;
    conn->pmtud.datagram_max = NARROW;
    assert_int_equal(btl_ib_transmit_segments(conn, bulk, 15), 15);
    conn->pmtud.parts = false;
    conn->pmtud.datagram_max = wide;
    assert_int_equal(segments_in_use(&conn->rail->pool), before);
    assert_int_equal(engine->count.blocked_memory, blocked);
    const uint64_t again = engine->count.retransmits;
    bench_flow(bench);
    assert_int_equal(bench->messages[bench->message_count - 1].delivered, 1);
    assert_int_equal(engine->count.retransmits, again);
}

/* Parts that are all full are no more than that. */
TEST_WITH(full_parts, set_up, tear_down)
{
    const uint32_t wide = conn->pmtud.datagram_max;
    const uint32_t head = btl_ib_packet_overhead(conn) + (uint32_t) sizeof(btl_ib_wire_part_t);
    const uint32_t unit = (NARROW - head) & ~7u;
    btl_ib_segment_t *segment;

    (void) sent_header(2 * unit);
    in_flight(BTL_IB_SENT_OTHERS, &segment, 1);
    conn->pmtud.parts = true;
    conn->pmtud.datagram_max = NARROW;
    for (uint32_t copy = 0; copy < 8; copy++) {
        given.count = 0;
        assert_true(btl_ib_transmit_one(conn, segment));
        assert_int_equal(given.count, 2);
        assert_int_equal(given.tx[0].size, head + unit);
        assert_int_equal(given.tx[1].size, head + unit);
    }
    conn->pmtud.parts = false;
    conn->pmtud.datagram_max = wide;
}

/* What stopped goes on where it was. A new segment of which parts have left has been sent. */
TEST_WITH(parts_that_are_stopped, set_up, tear_down)
{
    const uint32_t wide = conn->pmtud.datagram_max;
    btl_ib_segment_t *segment;

    (void) sent_header(1400);
    in_flight(BTL_IB_SENT_OTHERS, &segment, 1);
    conn->pmtud.parts = true;
    conn->pmtud.datagram_max = NARROW;
    given.count = 0;
    given.takes = 1;
    given.error = EAGAIN;
    assert_false(btl_ib_transmit_one(conn, segment));
    assert_int_equal(given.count, 1);
    assert_true(segment->parted > 0);
    segment->copies = 0;
    assert_true(btl_ib_transmit_one(conn, segment));
    segment->copies = 1;
    given.takes = UINT32_MAX;
    assert_true(btl_ib_transmit_one(conn, segment));
    assert_int_equal(given.count, 3);
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_not_equal(given.part[i].offset, given.part[0].offset);
        assert_int_not_equal(given.part[i].offset, given.part[3 - i].offset);
    }
    given.takes = 0;
    segment->copies = 0; /* none of it has left */
    assert_false(btl_ib_transmit_one(conn, segment));
    segment->copies = 1;
    conn->pmtud.parts = false;
    conn->pmtud.datagram_max = wide;
}

/* Others leave as they are, in order, before and behind it; up to the one that is stopped. */
TEST_WITH(parts_between_others, set_up, tear_down)
{
    const uint32_t wide = conn->pmtud.datagram_max;
    btl_ib_segment_t *segments[5];
    static const uint32_t sizes[] = {300, 310, 1400, 320, 330};

    for (int i = 0; i < 5; i++) {
        (void) sent_header(sizes[i]);
    }
    in_flight(BTL_IB_SENT_OTHERS, segments, 5);
    conn->pmtud.parts = true;
    conn->pmtud.datagram_max = NARROW;
    given.count = 0;
    assert_int_equal(btl_ib_transmit_segments(conn, segments, 5), 5);
    assert_int_equal(given.count, 7);
    for (uint32_t i = 0; i < 7; i++) {
        const uint32_t of = i < 2 ? i : i < 5 ? 2 : i - 2;
        assert_int_equal(BTL_IB_LE32(given.header[i].seq), segments[of]->seq);
    }
    given.error = EAGAIN;
    for (uint32_t takes = 0; takes < 7; takes++) {
        given.takes = takes;
        segments[2]->parted = 0;
        assert_int_equal(btl_ib_transmit_segments(conn, segments, 5), takes < 2   ? takes
                                                                      : takes < 5 ? 2
                                                                                  : takes - 2);
    }
    segments[2]->parted = 0;
    conn->pmtud.parts = false;
    conn->pmtud.datagram_max = wide;
}

UNIT_MAIN(NULL, NULL)
