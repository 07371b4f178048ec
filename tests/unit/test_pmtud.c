/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Path MTU discovery, verb by verb: which losses show a black hole, which answers do, and what the
 * search tries next. */

#include "btl_ib_packet.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_state.h"
#include "btl_ib_submit.h"
#include "hostile.h"
#include "unit.h"

enum {
    MOST = 7744,  /* bytes that the rails carry */
    LARGE = 4000, /* of a datagram, with all that surrounds it */
    BASE = 1200,  /* what every path in use carries */
    LEAST = 512,  /* smaller ones are never suspected */
    MS = 1000,
};

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn;
static btl_ib_pmtud_t *sizes;
static uint64_t *now;
static btl_ib_engine_ops_t ops;
static uint32_t resized; /* lines of the trace */

/* The black holes that users were told of. */
static struct {
    uint32_t count, lost, size, most;
} told;

static void black_hole(void *context, btl_ib_conn_t *of, uint32_t lost, uint32_t size,
                       uint32_t most)
{
    assert_ptr_equal(of, conn);
    told.count++;
    told.lost = lost;
    told.size = size;
    told.most = most;
}

static void on_event(bench_host_t *host, const btl_ib_trace_event_t *event)
{
    if (event->kind == BTL_IB_TRACE_path_mtu) {
        assert_int_equal(event->count, 1);
        resized++;
    }
}

static int set_up(void **state)
{
    bench = new_bench();
    for (uint32_t i = 0; i < 2; i++) {
        strcpy(bench->hosts[i].queues, "P,256,512,256,64:P,7744,1024,512,64");
        bench->hosts[i].attr.max_datagram = MOST;
        bench->hosts[i].attr.max_batch = 64;
        bench->hosts[i].attr.gso_bytes = 65487;
    }
    bench->hosts[0].config.trace = true;
    bench->on_event = on_event;
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    sizes = &conn->pmtud;
    now = &engine->clock.now;
    ops = *engine->ops;
    ops.black_hole = black_hole;
    engine->ops = &ops;
    memset(&told, 0, sizeof(told));
    resized = 0;
    *now = bench->now;
    return 0;
}

static int tear_down(void **state)
{
    bench->now = bench->now > *now ? bench->now : *now;
    assert_true(bench_settle(bench, SECOND));
    end_working(bench);
    return 0;
}

/* A segment that left now as a datagram of so many bytes. */
static btl_ib_segment_t segment(uint32_t size)
{
    return (btl_ib_segment_t){.type = BTL_IB_TYPE_CHUNK,
                              .size = size - engine->protection.ops->trailer,
                              .last_sent = *now,
                              .copies = 1};
}

/* A VOID with zeros for that, of a search. */
static btl_ib_segment_t probe(uint32_t size)
{
    static uint8_t wire[MOST];
    btl_ib_segment_t made = segment(size);

    made.type = BTL_IB_TYPE_VOID;
    made.wire = wire;
    return made;
}

static bool lose(uint32_t size)
{
    const btl_ib_segment_t lost = segment(size);

    return btl_ib_pmtud_lost(conn, &lost, false);
}

static void arrive(uint32_t size)
{
    const btl_ib_segment_t arrived = segment(size);

    btl_ib_pmtud_arrived(conn, &arrived);
}

/* Loses as many, with so many ms between two; returns what the last one showed. */
static bool lose_each(uint32_t size, int count, uint64_t ms)
{
    bool found = false;

    for (int i = 0; i < count; i++) {
        assert_false(found);
        *now += i > 0 ? ms * MS : 0;
        found = lose(size);
    }
    return found;
}

/* Has a probe of that size leave, and get there or not. */
static void search(uint32_t size, bool arrives)
{
    const btl_ib_list_t *sent = &conn->sentmap.sent[BTL_IB_SENT_OTHERS];

    sizes->search_at = *now;
    btl_ib_flush(conn);
    btl_ib_segment_t *left = BTL_IB_CONTAINER(btl_ib_list_last(sent), btl_ib_segment_t, link);
    assert_true(btl_ib_segment_is_mtu_probe(left));
    assert_int_equal(btl_ib_packet_datagram_size(conn, left), size);
    assert_int_equal(btl_ib_pmtud_next_probe(conn), 0); /* one at a time */
    if (arrives) {
        btl_ib_pmtud_arrived(conn, left);
    }
    btl_ib_pmtud_retransmitting(conn, left);
    assert_false(btl_ib_segment_is_mtu_probe(left)); /* only its sequence must arrive */
    assert_false(sizes->probing);
}

/* ---- black holes ---- */

/* Five losses at different times over 20 ms; then datagrams are of the size that every path
 * carries, and the search begins 1 ms later, with the largest. */
TEST_WITH(a_black_hole, set_up, tear_down)
{
    const uint64_t before = engine->count.black_holes;

    assert_false(btl_ib_pmtud_has_losses(sizes));
    assert_false(lose_each(LARGE, 4, 5));
    assert_true(btl_ib_pmtud_has_losses(sizes));
    *now += 5 * MS;
    assert_true(lose(LARGE));
    assert_int_equal(sizes->datagram_max, BASE);
    assert_true(sizes->parts);
    assert_int_equal(engine->count.black_holes, before + 1);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.lost, LARGE);
    assert_int_equal(told.size, BASE);
    assert_int_equal(told.most, MOST);
    assert_int_equal(resized, 1);
    assert_false(btl_ib_pmtud_has_losses(sizes));
    assert_int_equal(sizes->search_at, *now + MS);
    assert_int_equal(btl_ib_pmtud_next_probe(conn), MOST);
}

/* Four losses are few, and those of less than 20 ms may be of one queue. */
TEST_WITH(too_few_or_too_soon, set_up, tear_down)
{
    assert_false(lose_each(LARGE, 4, 100));
    arrive(LARGE);
    assert_false(lose_each(LARGE, 20, 1));
    *now += MS - 1;
    assert_false(lose(LARGE));
    *now += 1;
    assert_true(lose(LARGE));
}

/* Copies that left before the last loss was found are of the same time. */
TEST_WITH(lost_together, set_up, tear_down)
{
    assert_false(lose(LARGE));
    btl_ib_segment_t earlier = segment(LARGE);
    earlier.last_sent--;
    for (int i = 0; i < 10; i++) {
        assert_false(btl_ib_pmtud_lost(conn, &earlier, false));
    }
    assert_int_equal(sizes->streaks[0].losses, 1);
    *now += 20 * MS;
    assert_true(lose_each(LARGE, 4, 0)); /* left when it was found, or later */
}

/* What cannot be of the size: what is small, a probe of a search, a copy that got RNR. */
TEST_WITH(not_of_the_size, set_up, tear_down)
{
    btl_ib_segment_t rnr = segment(LARGE);
    btl_ib_segment_t void_of = probe(LARGE);

    rnr.rnr_copy = rnr.copies;
    assert_false(lose(LEAST));
    assert_false(btl_ib_pmtud_lost(conn, &rnr, false));
    assert_false(btl_ib_pmtud_lost(conn, &void_of, false));
    assert_false(btl_ib_pmtud_has_losses(sizes));
    rnr.rnr_copy++;
    assert_false(btl_ib_pmtud_lost(conn, &rnr, false)); /* an earlier or later copy got it */
    assert_true(btl_ib_pmtud_has_losses(sizes));
}

TEST_WITH(the_least_suspected, set_up, tear_down)
{
    assert_false(lose(LEAST + 1));
    assert_true(btl_ib_pmtud_has_losses(sizes));
    arrive(LEAST);
    *now += 100 * MS;
    assert_true(lose_each(LEAST + 1, 4, 1));
    assert_int_equal(sizes->datagram_max, LEAST);
}

/* A transport that loses nothing has no black hole. */
TEST_WITH(reliable_transport, set_up, tear_down)
{
    btl_ib_transport_attr_t *attr = &bench->hosts[0].rails[0].base.attr;

    attr->reliable = true;
    assert_false(lose_each(LARGE, 20, 10));
    assert_false(btl_ib_pmtud_has_losses(sizes));
    attr->reliable = false;
}

/* Nothing is smaller than what a datagram must have. */
TEST_WITH(the_smallest_there_is, set_up, tear_down)
{
    const uint32_t least = btl_ib_protection_datagram_min(engine->protection.kind);

    btl_ib_pmtud_narrowed(conn, 1);
    assert_int_equal(sizes->datagram_max, least);
    assert_false(lose_each(LARGE, 20, 10));
    assert_int_equal(told.count, 0);
}

/* What got through meanwhile is a floor, rounded down to eights, and what is suspected is larger. A
 * datagram as large as the largest of those lost ends the streak. */
TEST_WITH(smaller_ones_get_through, set_up, tear_down)
{
    assert_false(lose_each(LARGE, 3, 10));
    *now += 10 * MS;
    assert_false(lose(LARGE + 1000));
    arrive(3003);
    arrive(2003);
    arrive(LARGE + 999);
    assert_true(btl_ib_pmtud_has_losses(sizes));
    *now += 10 * MS;
    assert_true(lose(LARGE + 1500));
    assert_int_equal(told.lost, LARGE + 1000);
    assert_int_equal(told.size, (LARGE + 999) & ~7u);
    assert_int_equal(sizes->datagram_max, (LARGE + 999) & ~7u);
}

TEST_WITH(one_as_large_gets_through, set_up, tear_down)
{
    assert_false(lose(LARGE + 1000));
    *now += 10 * MS;
    assert_false(lose_each(LARGE, 3, 10));
    arrive(LARGE + 1000);
    assert_false(btl_ib_pmtud_has_losses(sizes));
    assert_false(lose_each(LARGE, 4, 10));
    assert_int_equal(told.count, 0);
}

/* The smallest that was lost is suspected. */
TEST_WITH(the_smallest_that_was_lost, set_up, tear_down)
{
    assert_false(lose_each(LARGE, 2, 10));
    *now += 10 * MS;
    assert_false(lose(LARGE - 1000));
    *now += 10 * MS;
    assert_true(lose_each(LARGE, 2, 10));
    assert_int_equal(told.lost, LARGE - 1000);
}

/* Losses of a size that got through count beside the others: by chance, mostly, but the path may
 * carry less since. Both streaks end with what is as large. */
TEST_WITH(carries_less_since, set_up, tear_down)
{
    assert_false(lose_each(LARGE, 4, 10));
    arrive(LARGE - 1000);
    *now += 10 * MS;
    assert_false(lose_each(LARGE - 1000, 4, 10));
    assert_int_equal(sizes->streaks[0].losses, 4);
    assert_int_equal(sizes->streaks[1].losses, 4);
    arrive(LARGE - 2000);
    *now += 10 * MS;
    assert_true(lose(LARGE - 1000));
    assert_int_equal(told.lost, LARGE - 1000);
    assert_int_equal(told.size, (LARGE - 2000) & ~7u);
    assert_false(btl_ib_pmtud_has_losses(sizes));
}

/* In the second streak, too, what got through begins it anew. */
TEST_WITH(the_second_streak_begins_anew, set_up, tear_down)
{
    assert_false(lose_each(LARGE, 4, 10));
    arrive(LARGE - 1000);
    *now += 10 * MS;
    assert_false(lose_each(LARGE - 1000, 4, 10));
    arrive(LARGE - 2000);
    *now += 10 * MS;
    assert_false(lose(LARGE - 2000));
    assert_int_equal(sizes->streaks[0].losses, 4);
    assert_int_equal(sizes->streaks[1].losses, 1);
    assert_int_equal(sizes->streaks[1].suspect, LARGE - 2000);
}

/* If some arrived and got RNR it is not known what was lost, unless an answer showed it. */
TEST_WITH(not_known_which, set_up, tear_down)
{
    const btl_ib_segment_t lost = segment(LARGE);

    assert_false(btl_ib_pmtud_lost(conn, &lost, true));
    *now += 10 * MS;
    assert_false(lose_each(LARGE, 3, 10));
    btl_ib_pmtud_unknown(conn);
    assert_int_equal(sizes->streaks[0].losses, 1);
    *now += 10 * MS;
    assert_false(lose_each(LARGE, 3, 10));
    *now += 10 * MS;
    assert_true(lose(LARGE));
}

/* What is in flight and too large is sent again at once, in parts; probes are not. */
TEST_WITH(large_ones_in_flight, set_up, tear_down)
{
    const uint64_t delivered = bench->message_count;

    bench_send(bench, 0, 1, 3000, 1);
    bench_send(bench, 0, 1, 900, 1);
    assert_int_equal(conn->sentmap.in_flight, 2);
    btl_ib_pmtud_narrowed(conn, BASE);
    assert_int_equal(conn->sentmap.in_flight, 1);
    assert_int_equal(conn->sentmap.unacked, 2);
    bench_clear(&bench->wire);
    assert_true(bench_settle(bench, SECOND));
    assert_int_equal(bench->message_count, delivered + 2);
}

/* What is exactly as large as the path carries stays in flight. */
TEST_WITH(as_large_as_the_path_carries, set_up, tear_down)
{
    bench_send(bench, 0, 1, 3000, 1);
    assert_int_equal(conn->sentmap.in_flight, 1);
    const btl_ib_segment_t *sent =
        BTL_IB_LIST_FIRST(const btl_ib_segment_t, &conn->sentmap.sent[BTL_IB_SENT_OTHERS], link);
    btl_ib_pmtud_narrowed(conn, btl_ib_packet_datagram_size(conn, sent));
    assert_int_equal(conn->sentmap.in_flight, 1);
    btl_ib_pmtud_narrowed(conn, sizes->datagram_max - 1);
    assert_int_equal(conn->sentmap.in_flight, 0);
}

/* ---- what the network says ---- */

/* Smaller ones are believed, and for 10 minutes; nothing else is changed. */
TEST_WITH(the_network_says, set_up, tear_down)
{
    btl_ib_pmtud_narrowed(conn, MOST);
    assert_int_equal(resized, 0);
    assert_int_equal(sizes->search_at, UINT64_MAX);
    btl_ib_pmtud_narrowed(conn, 3001);
    assert_int_equal(sizes->datagram_max, 3001);
    assert_int_equal(sizes->search_at, *now + 600 * (uint64_t) SECOND);
    assert_int_equal(resized, 1);
    assert_int_equal(conn->cc.gso_segments, 65487 / 3001);
    btl_ib_pmtud_narrowed(conn, 3500);
    assert_int_equal(sizes->datagram_max, 3001);
    assert_int_equal(told.count, 0);
}

/* During a check it is proven at once, and nothing larger is tried. */
TEST_WITH(the_network_says_during_a_check, set_up, tear_down)
{
    btl_ib_pmtud_check(conn);
    btl_ib_pmtud_narrowed(conn, 3001);
    assert_int_equal(sizes->search_at, *now);
    search(3001, true);
    assert_int_equal(sizes->proven, 3001);
    assert_int_equal(btl_ib_pmtud_next_probe(conn), 0);
    assert_false(sizes->checking);
    assert_int_equal(sizes->search_at, *now + 600 * (uint64_t) SECOND);
}

/* ---- questions ---- */

/* Has a probe of the timer ask, and its answer come 1 ms later; as said. Returns whether the answer
 * counted as a loss. */
static bool ask(const btl_ib_segment_t *sent, bool echo, uint64_t stamp)
{
    const btl_ib_view_t answer = {.flags = echo ? BTL_IB_FLAG_ECHO : 0,
                                  .echo = (uint32_t) (*now + stamp)};
    const uint32_t before = sizes->streaks[0].losses;

    assert_true(btl_ib_pmtud_ask(conn, sent));
    assert_true(sizes->asked);
    *now += MS;
    assert_false(btl_ib_pmtud_answered(conn, &answer));
    return sizes->streaks[0].losses > before;
}

/* A peer that answers the small question, but has not got the large probe with it, shows a loss; an
 * older answer does not, nor one without an echo. */
TEST_WITH(answers_show_losses, set_up, tear_down)
{
    bench_send(bench, 0, 1, 3000, 1);
    btl_ib_segment_t *sent =
        BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.sent[BTL_IB_SENT_OTHERS], link);
    *now += MS;
    sent->last_sent = *now;
    conn->loss.probes = 1;
    assert_false(ask(sent, false, 0));
    assert_true(sizes->asked);
    sizes->asked = false;
    sent->last_sent = *now;
    assert_false(ask(sent, true, (uint64_t) -1));
    assert_true(sizes->asked);
    sizes->asked = false;
    sent->last_sent = *now;
    assert_true(ask(sent, true, 0));
    assert_false(sizes->asked);
    assert_int_equal(sizes->streaks[0].shown, 1);
    sent->last_sent = *now;
    assert_true(btl_ib_pmtud_ask(conn, sent));
    sent->last_sent++; /* another copy has left since: it may be on its way */
    sizes->asked = true;
    const btl_ib_view_t answer = {.flags = BTL_IB_FLAG_ECHO, .echo = (uint32_t) *now};
    assert_false(btl_ib_pmtud_answered(conn, &answer));
    assert_int_equal(sizes->streaks[0].losses, 1);
    assert_false(sizes->asked);
    sent->last_sent = 0;
}

/* The fifth answer tells the caller that datagrams are smaller now. */
TEST_WITH(answers_find_a_black_hole, set_up, tear_down)
{
    bench_send(bench, 0, 1, 3000, 1);
    btl_ib_segment_t *sent =
        BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.sent[BTL_IB_SENT_OTHERS], link);
    conn->loss.probes = 1;
    for (int i = 1; i <= 5; i++) {
        *now += 6 * MS;
        sent->last_sent = *now;
        assert_true(btl_ib_pmtud_ask(conn, sent));
        const btl_ib_view_t answer = {.flags = BTL_IB_FLAG_ECHO, .echo = (uint32_t) *now};
        assert_int_equal(btl_ib_pmtud_answered(conn, &answer), i == 5);
        assert_false(btl_ib_pmtud_answered(conn, &answer)); /* once */
    }
    assert_int_equal(sizes->datagram_max, BASE);
}

/* An acknowledged probe, or a deferred one, is no loss. */
TEST_WITH(answers_that_show_none, set_up, tear_down)
{
    btl_ib_segment_t gone = segment(LARGE);

    conn->loss.probes = 1;
    gone.channel = 1;
    gone.seq = conn->tx[1].sentmap.window.next - 1;
    assert_false(ask(&gone, true, 0));
    assert_false(sizes->asked);
    bench_send(bench, 0, 1, 3000, 1);
    btl_ib_segment_t *sent =
        BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.sent[BTL_IB_SENT_OTHERS], link);
    sent->last_sent = *now;
    sent->deferred = true;
    assert_false(ask(sent, true, 0));
    assert_false(sizes->asked);
    sent->deferred = false;
}

/* Nor is one that left as a larger datagram than are sent since. */
TEST_WITH(answers_of_before, set_up, tear_down)
{
    bench_send(bench, 0, 1, 3000, 1);
    btl_ib_segment_t *sent =
        BTL_IB_LIST_FIRST(btl_ib_segment_t, &conn->sentmap.sent[BTL_IB_SENT_OTHERS], link);
    const btl_ib_view_t answer = {.flags = BTL_IB_FLAG_ECHO, .echo = (uint32_t) *now};

    sent->last_sent = *now;
    conn->loss.probes = 1;
    assert_true(btl_ib_pmtud_ask(conn, sent));
    btl_ib_pmtud_narrowed(conn, BASE);
    assert_false(btl_ib_pmtud_answered(conn, &answer));
    assert_false(btl_ib_pmtud_has_losses(sizes));
}

/* Which probes ask: a peer that did not answer is asked by the first of four only; those that are
 * small, or of the search, or the next copy after one that got RNR, ask nothing. */
TEST_WITH(who_asks, set_up, tear_down)
{
    btl_ib_segment_t sent = segment(LARGE);
    btl_ib_segment_t small = segment(LEAST);
    btl_ib_segment_t searches = probe(LARGE);

    sent.copies = 2;
    for (uint32_t probes = 1; probes < 10; probes++) {
        conn->loss.probes = probes;
        sizes->asked = false;
        assert_true(btl_ib_pmtud_ask(conn, &sent));
        assert_int_equal(btl_ib_pmtud_ask(conn, &sent), probes % 4 == 1);
    }
    sizes->asked = false;
    assert_false(btl_ib_pmtud_ask(conn, &small));
    assert_false(btl_ib_pmtud_ask(conn, &searches));
    sent.rnr_copy = 1;
    assert_false(btl_ib_pmtud_ask(conn, &sent));
    assert_false(sizes->asked);
    sent.copies = 3;
    assert_true(btl_ib_pmtud_ask(conn, &sent));
    assert_true(sizes->asked);
    sizes->asked = false;
    sent.rnr_copy = 0;
    sent.copies = 1;
    assert_true(btl_ib_pmtud_ask(conn, &sent));
}

/* ---- the search ---- */

/* The largest first; then halfway, in eights, up to 32 bytes; then again after 10 minutes. */
TEST_WITH(halfway, set_up, tear_down)
{
    btl_ib_pmtud_narrowed(conn, BASE);
    for (int i = 0; i < 3; i++) {
        search(MOST, false);
    }
    search((BASE + MOST) / 2 & ~7u, true);
    assert_int_equal(sizes->datagram_max, (BASE + MOST) / 2 & ~7u);
    assert_int_equal(resized, 2);
    sizes->too_large = sizes->datagram_max + 33;
    const uint32_t next = (2 * sizes->datagram_max + 33) / 2 & ~7u;
    search(next, true);
    assert_int_equal(sizes->datagram_max, next);
    sizes->too_large = sizes->datagram_max + 32;
    assert_int_equal(btl_ib_pmtud_next_probe(conn), 0);
    assert_int_equal(sizes->search_at, *now + 600 * (uint64_t) SECOND);
    assert_int_equal(btl_ib_pmtud_next_probe(conn), MOST); /* then */
    search(MOST, true);
    assert_int_equal(sizes->datagram_max, MOST);
    assert_int_equal(sizes->search_at, UINT64_MAX);
    assert_int_equal(resized, 4);
}

/* A probe that arrives ends the count of failures of its size. */
TEST_WITH(failures_of_a_size, set_up, tear_down)
{
    btl_ib_pmtud_narrowed(conn, BASE);
    for (int i = 0; i < 3; i++) {
        search(MOST, false);
    }
    const uint32_t half = (BASE + MOST) / 2 & ~7u;
    search(half, false);
    search(half, false);
    search(half, true);
    assert_int_equal(sizes->failures, 0);
    assert_int_equal(sizes->next, 0);
}

/* What becomes of probes of before says nothing. */
TEST_WITH(probes_of_before, set_up, tear_down)
{
    btl_ib_segment_t old = probe(MOST), other;

    btl_ib_pmtud_narrowed(conn, BASE);
    old.seq = 7;
    old.channel = 1;
    btl_ib_pmtud_probe_left(conn, &old);
    other = old;
    other.seq = 8;
    btl_ib_pmtud_arrived(conn, &other);
    assert_int_equal(sizes->datagram_max, BASE);
    other = old;
    other.channel = 0;
    btl_ib_pmtud_arrived(conn, &other);
    assert_int_equal(sizes->datagram_max, BASE);
    btl_ib_pmtud_narrowed(conn, BASE - 8); /* the sizes are set back */
    btl_ib_pmtud_arrived(conn, &old);
    assert_int_equal(sizes->datagram_max, BASE - 8);
    btl_ib_pmtud_probe_left(conn, &old);
    btl_ib_pmtud_arrived(conn, &old);
    assert_int_equal(sizes->datagram_max, MOST);
}

/* Nothing of before is awaited any more; the size of datagrams stays. */
TEST_WITH(a_new_incarnation, set_up, tear_down)
{
    assert_false(lose(LARGE));
    sizes->parts = sizes->asked = sizes->probing = true;
    sizes->datagram_max = 3000;
    btl_ib_pmtud_begin(conn);
    assert_false(sizes->parts || sizes->asked || sizes->probing);
    assert_false(btl_ib_pmtud_has_losses(sizes));
    assert_int_equal(sizes->datagram_max, 3000);
    sizes->datagram_max = MOST;
}

/* ---- the check ---- */

/* The largest of the peer's probes, as whole datagrams; a VOID without zeros is none. */
TEST_WITH(what_came_of_the_peer, set_up, tear_down)
{
    const uint32_t trailer = engine->protection.ops->trailer;
    const uint32_t header = (uint32_t) sizeof(btl_ib_wire_header_t);
    btl_ib_view_t view = {.bytes = 0};

    btl_ib_pmtud_received(conn, &view);
    assert_int_equal(sizes->received, 0);
    view.bytes = 1;
    btl_ib_pmtud_received(conn, &view);
    assert_int_equal(sizes->received, header + 1 + trailer);
    view.bytes = 1000;
    view.flags = BTL_IB_FLAG_CONNECT;
    btl_ib_pmtud_received(conn, &view);
    assert_int_equal(sizes->received, btl_ib_pmtud_contact_size(conn) + 1000);
    view.flags = 0;
    btl_ib_pmtud_received(conn, &view);
    assert_int_equal(sizes->received, btl_ib_pmtud_contact_size(conn) + 1000);
}

/* A check proves the present size, and finds a black hole if that does not get through. Where none
 * is suspected it ends. */
TEST_WITH(a_check, set_up, tear_down)
{
    sizes->proven = MOST;
    btl_ib_pmtud_check(conn);
    assert_int_equal(sizes->search_at, *now);
    search(MOST, true);
    assert_int_equal(sizes->proven, MOST);
    assert_false(sizes->checking);
    assert_int_equal(sizes->search_at, UINT64_MAX);
    btl_ib_pmtud_check(conn);
    for (int i = 0; i < 3; i++) {
        search(MOST, false);
    }
    assert_int_equal(btl_ib_pmtud_next_probe(conn), 0);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.lost, MOST);
    assert_int_equal(sizes->datagram_max, BASE);
    assert_int_equal(sizes->search_at, *now);
    assert_true(sizes->checking);
}

/* What is small enough for any path is not suspected: the check ends, and larger sizes are searched
 * for later, as ever halfway to what the rails carry. */
TEST_WITH(a_check_that_finds_nothing, set_up, tear_down)
{
    btl_ib_pmtud_check(conn);
    btl_ib_pmtud_narrowed(conn, LEAST - 1);
    for (int i = 0; i < 3; i++) {
        search(LEAST - 1, false);
    }
    assert_int_equal(btl_ib_pmtud_next_probe(conn), 0);
    assert_int_equal(told.count, 0);
    assert_false(sizes->checking);
    assert_int_equal(sizes->search_at, *now + 600 * (uint64_t) SECOND);
    assert_int_equal(btl_ib_pmtud_next_probe(conn), (LEAST - 1 + MOST + 1) / 2 & ~7u);
}

/* A check of the connection's own rails ends when it goes over others. */
TEST_WITH(a_check_that_moves, set_up, tear_down)
{
    btl_ib_conn_t other = {.pmtud = {.datagram_max = 3000, .most = 5000, .search_at = 77}};

    btl_ib_pmtud_check(conn);
    sizes->proven = MOST;
    btl_ib_pmtud_moved(conn, &other);
    assert_false(sizes->checking);
    assert_int_equal(sizes->datagram_max, 3000);
    assert_int_equal(sizes->most, 5000);
    assert_int_equal(sizes->proven, 3000);
    assert_int_equal(sizes->search_at, 77);
    btl_ib_pmtud_moved(conn, conn);
    assert_int_equal(sizes->datagram_max, MOST);
    assert_int_equal(sizes->most, MOST);
    assert_int_equal(sizes->search_at, UINT64_MAX);
}

/* What was too large for a route says nothing of the next one: a check of that begins anew. */
TEST_WITH(a_check_of_another_route, set_up, tear_down)
{
    btl_ib_pmtud_narrowed(conn, BASE);
    for (int i = 0; i < 3; i++) {
        search(MOST, false);
    }
    for (int i = 0; i < 3; i++) {
        search((BASE + MOST) / 2 & ~7u, false);
    }
    btl_ib_pmtud_moved(conn, conn);
    assert_int_equal(sizes->datagram_max, MOST);
    btl_ib_pmtud_check(conn);
    search(MOST, true);
    assert_int_equal(told.count, 0);
    assert_int_equal(sizes->proven, MOST);
}

/* Nobody probes while the connection ends, nor before the peer knows it but for first contact. */
TEST_WITH(when_nothing_is_probed, set_up, tear_down)
{
    btl_ib_pmtud_narrowed(conn, BASE);
    conn->draining = true;
    assert_int_equal(btl_ib_pmtud_next_probe(conn), 0);
    conn->draining = false;
    conn->identity.peer_knows = false;
    assert_int_equal(btl_ib_pmtud_next_probe(conn), 0);
    btl_ib_pmtud_check(conn);
    assert_int_equal(btl_ib_pmtud_next_probe(conn), btl_ib_pmtud_contact_size(conn));
    conn->sentmap.unacked++;
    assert_int_equal(btl_ib_pmtud_next_probe(conn), 0);
    conn->sentmap.unacked--;
    conn->identity.peer_knows = true;
    assert_int_equal(btl_ib_pmtud_next_probe(conn), BASE);
}

UNIT_MAIN(NULL, NULL)
