/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What becomes of the events of a transport, and in which order: datagrams, sends that ended,
 * operations of the device, news of it; also of one that failed and may come back. */

#include <errno.h>
#include <string.h>

#include "btl_ib_receive.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

/* ---- a transport that hands over what a test gives ---- */

enum { POLLS = 4, GIVEN = 4 };

static struct {
    btl_ib_event_t event[GIVEN];
    int count;
} given[POLLS]; /* by each poll, in this order; then what is on the bench's rail */
static int polls, polls_given;
static const btl_ib_transport_ops_t *real;
static btl_ib_transport_ops_t ops;
static int reposted;

static void give(int poll, btl_ib_event_t event)
{
    given[poll].event[given[poll].count++] = event;
    polls_given = poll + 1;
}

static int poll_given(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    if (polls >= polls_given) {
        return real->poll(t, now, events, max);
    }
    const int count = given[polls].count;
    assert_true(count <= max);
    memcpy(events, given[polls].event, sizeof(*events) * (size_t) count);
    polls++;
    return count;
}

/* Buffers of given datagrams belong to the test. */
static void repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        if (buffers[i] == (void *) given) {
            reposted++;
        } else {
            real->repost(t, &buffers[i], 1);
        }
    }
}

/* The device takes each operation, and tells nothing of it. */
static int start(btl_ib_transport_t *t, const btl_ib_rdma_work_t *work)
{
    return 0;
}

static void cancel(btl_ib_transport_t *t, btl_ib_addr_t to)
{
}

static const btl_ib_rdma_ops_t device = {.start = start, .cancel = cancel};

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1 */
static btl_ib_rail_t *rail;
static const btl_ib_counters_t *count;
static bench_op_t op; /* that the device executes */

static int set_up(void **state)
{
    bench = new_bench();
    bench->hosts[0].attr.inline_size = 0; /* each send ends with an event */
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    rail = conn->rail;
    count = bench_counters(bench, 0);
    memset(given, 0, sizeof(given));
    polls = polls_given = reposted = 0;
    real = rail->transport->ops;
    ops = *real;
    ops.poll = poll_given;
    ops.repost = repost;
    ops.rdma = &device;
    rail->transport->ops = &ops;
    rail->transport->attr.rdma_max = rail->transport->attr.rdma_copied = 64;
    return 0;
}

static int tear_down(void **state)
{
    rail->transport->ops = real;
    end(bench);
    return 0;
}

static btl_ib_event_t datagram_event(void *data, uint32_t size)
{
    return (btl_ib_event_t){.type = BTL_IB_EVENT_RECV,
                            .data = data,
                            .size = size,
                            .from = conn->route.to,
                            .buffer = given};
}

/* The event by which the device ends the operation that it has. */
static btl_ib_event_t begin_operation(void)
{
    static uint8_t local[8];

    op = (bench_op_t){.op = {.kind = BTL_IB_OP_GET, .local = local, .size = 8}, .kept = true};
    op.op.place.known = true;
    assert_int_equal(btl_ib_op_start(conn, &op.op, bench->now), 0);
    assert_int_equal(conn->offload.count, 1);
    return (btl_ib_event_t){.type = BTL_IB_EVENT_RDMA, .context = &op.op};
}

/* ---- one batch ---- */

/* A datagram that ends the connection comes in the same batch as the end of an operation: that has
 * ended, and did not fail with the connection. */
TEST_WITH(operations_first, set_up, tear_down)
{
    bench_forgery_t close = bench_forge(bench, 0, 1, BTL_IB_TYPE_CLOSE);
    const btl_ib_event_t ended = begin_operation();

    close.header.flags = BTL_IB_FLAG_ACK;
    give(0, datagram_event(&close, close.size));
    give(0, ended);
    bench_turn(bench, 0);
    assert_int_equal(count->connections_closed, 1);
    assert_true(op.done);
    assert_int_equal(op.status, 0);
    assert_int_equal(count->offload_gets, 1);
    assert_int_equal(reposted, 1);
}

/* All buffers are given back, whatever is in them. */
TEST_WITH(buffers, set_up, tear_down)
{
    uint8_t garbage[3] = {0};

    for (int i = 0; i < 3; i++) {
        give(0, datagram_event(garbage, sizeof(garbage)));
    }
    assert_int_equal(btl_ib_engine_progress(engine, bench->now, 64), 3);
    assert_int_equal(reposted, 3);
    assert_int_equal(count->dropped_short, 3);
    bench_check_counters(&bench->hosts[0]);
}

/* Marks of congestion are counted for each segment, and told to the peer at once. */
TEST_WITH(marks, set_up, tear_down)
{
    conn->ecn.agreed = true;
    for (uint32_t i = 0; i < 2; i++) {
        bench_forgery_t data = bench_forge(bench, 0, 1, BTL_IB_TYPE_DATA);
        bench_append(&data, "12345678", 8);
        btl_ib_event_t event = datagram_event(&data, data.size);
        event.codepoint = i == 0 ? BTL_IB_CODEPOINT_ECT0 : BTL_IB_CODEPOINT_CE;
        give((int) i, event);
        bench_turn(bench, 0);
        assert_int_equal(conn->ecn.ect, 1);
        assert_int_equal(conn->ecn.ce, i);
    }
    bench_forgery_t ack = bench_forge(bench, 0, 1, BTL_IB_TYPE_ACK);
    btl_ib_event_t event = datagram_event(&ack, ack.size);
    event.codepoint = BTL_IB_CODEPOINT_CE; /* is no segment */
    give(2, event);
    bench_turn(bench, 0);
    assert_int_equal(conn->ecn.ce, 1);
}

/* With a trailer a datagram that is shorter than that is none. */
TEST(shorter_than_its_trailer)
{
    static const uint8_t zeros[8];

    bench = new_bench();
    assert_true(bench_protection(bench, BTL_IB_PROTECTION_CRC32C));
    acquaint(bench);
    count = bench_counters(bench, 0);
    for (uint32_t size = 0; size < 4; size++) {
        bench_throw(bench, 0, bench_address(1, 0), zeros, size);
        assert_int_equal(count->dropped_short, size + 1);
    }
    bench_check_counters(&bench->hosts[0]);
    end_working(bench);
}

/* A peer whose datagrams come by another of its rails is followed there; ours is the same. */
TEST_WITH(another_rail_of_the_peer, set_up, tear_down)
{
    btl_ib_peer_info_t info = bench_info(bench, 1, 0);
    const uint32_t address = bench_address(1, 1);
    btl_ib_conn_t *other = NULL;

    info.rail = 1;
    memcpy(info.address, &address, sizeof(address));
    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &other), 0);
    assert_true(other->route.to != conn->route.to);
    bench->now += 1000;
    bench_send(bench, 1, 0, 20, 1);
    bench_datagram_t *datagram = bench_pop(&bench->wire);
    datagram->source = address;
    bench_deliver(bench, datagram);
    bench_turn(bench, 0);
    assert_ptr_equal(conn->route.via, rail);
    assert_true(conn->route.to == other->route.to);
    btl_ib_conn_destroy(other, bench->now);
}

/* ---- a device that fails ---- */

static const btl_ib_event_t down = {.type = BTL_IB_EVENT_DOWN, .error = EADDRNOTAVAIL};
static const btl_ib_event_t up = {.type = BTL_IB_EVENT_UP};

static uint64_t deaths(void)
{
    return bench->hosts[0].deaths[BTL_IB_DEATH_DEVICE];
}

/* The progress thread finds out: only the application's own turn tells, which has to come. */
TEST_WITH(told_by_the_own_turn, set_up, tear_down)
{
    give(0, down);
    assert_int_equal(btl_ib_engine_async_progress(engine, bench->now, 64), 0);
    assert_true(rail->health.failed);
    assert_int_equal(deaths(), 0);
    assert_true(engine->work.waits);
    assert_int_equal(btl_ib_engine_next_due(engine), bench->now);
    assert_int_equal(btl_ib_engine_progress(engine, bench->now, 64), 1);
    assert_int_equal(deaths(), 1);
    assert_false(engine->turn.failure_pending);
    assert_int_equal(btl_ib_engine_progress(engine, bench->now, 64), 0);
    assert_int_equal(deaths(), 1);
}

/* The same of a port that was down for too long. */
TEST_WITH(down_for_long, set_up, tear_down)
{
    bench_send(bench, 1, 0, 20, 1);
    give(0, (btl_ib_event_t){.type = BTL_IB_EVENT_DOWN, .error = ENETDOWN});
    bench_turn(bench, 0);
    assert_true(rail->health.down && !rail->health.failed);
    engine->clock.awake += engine->config.down_limit;
    assert_int_equal(btl_ib_engine_async_progress(engine, bench->now, 64), 0);
    assert_true(rail->health.failed);
    assert_int_equal(deaths(), 0);
    assert_int_equal(btl_ib_engine_progress(engine, bench->now, 64), 1);
    assert_int_equal(deaths(), 1);
}

/* One that may come back is looked at: what arrives is lost, what was sent and what it executed is
 * over, and if it comes back before the application heard of it, nobody does. */
TEST_WITH(back_before_it_was_told, set_up, tear_down)
{
    bench_forgery_t data = bench_forge(bench, 0, 1, BTL_IB_TYPE_DATA);
    const uint64_t segments = count->received_segments;

    bench_append(&data, "12345678", 8);
    bench_send(bench, 0, 1, 1000, 1);
    bench_rail_t *on_bench = &bench->hosts[0].rails[0];
    assert_non_null(on_bench->reading);
    btl_ib_segment_t *segment = on_bench->reading->context;
    assert_true(segment->busy);
    const btl_ib_event_t sent = {.type = BTL_IB_EVENT_SENT, .context = segment};
    give(0, down);
    give(1, datagram_event(&data, data.size));
    give(1, sent);
    give(1, datagram_event(&data, data.size));
    give(1, up);
    bench_reading_t *reading = on_bench->reading;
    on_bench->reading = reading->next;
    free(reading);
    assert_int_equal(btl_ib_engine_async_progress(engine, bench->now, 64), 2);
    assert_int_equal(reposted, 2);
    assert_int_equal(count->received_segments, segments);
    assert_true(btl_ib_rail_usable(rail));
    bench_turn(bench, 0);
    assert_int_equal(deaths(), 0);
    assert_true(bench_settle(bench, 10 * SECOND));
}

/* What it executed meanwhile, too, is no failure. */
TEST_WITH(executed_before_it_failed, set_up, tear_down)
{
    give(0, down);
    btl_ib_engine_async_progress(engine, bench->now, 64);
    rail->health.failed = false; /* begun and not given up */
    rail->health.down = false;
    const btl_ib_event_t ended = begin_operation();
    rail->health.failed = true;
    rail->health.down = true;
    given[1].event[0] = ended;
    given[1].count = 1;
    polls_given = 2;
    btl_ib_engine_async_progress(engine, bench->now, 64);
    assert_int_equal(conn->offload.count, 0);
    give(2, up);
    btl_ib_engine_async_progress(engine, bench->now, 64);
    bench_turn(bench, 0);
    assert_true(op.done);
    assert_int_equal(op.status, 0);
    assert_int_equal(deaths(), 0);
}

/* One that fails for good while it is looked at, is no more. */
TEST_WITH(failed_for_good, set_up, tear_down)
{
    give(0, down);
    btl_ib_engine_async_progress(engine, bench->now, 64);
    give(1, (btl_ib_event_t){.type = BTL_IB_EVENT_FAILED, .error = EIO});
    give(2, up);
    btl_ib_engine_async_progress(engine, bench->now, 64);
    assert_int_equal(polls, 2);
    bench_turn(bench, 0);
    bench_turn(bench, 0);
    assert_int_equal(polls, 2);
    assert_int_equal(deaths(), 1);
}

/* No more is taken in than a turn may, of lost ones either. */
TEST_WITH(lost_but_limited, set_up, tear_down)
{
    uint8_t garbage[3] = {0};

    give(0, datagram_event(garbage, sizeof(garbage)));
    give(0, down);
    for (int i = 0; i < 30; i++) {
        bench_datagram_t *datagram = calloc(1, sizeof(*datagram) + sizeof(garbage));
        datagram->source = bench_address(1, 0);
        datagram->size = sizeof(garbage);
        bench_push(&bench->hosts[0].rails[0].arrived, datagram);
    }
    assert_int_equal(btl_ib_engine_async_progress(engine, bench->now, 10), 10);
    assert_int_equal(count->dropped_short, 1); /* before it failed */
    assert_int_equal(bench->hosts[0].rails[0].arrived.count, 21);
    assert_int_equal(btl_ib_engine_async_progress(engine, bench->now, 0), 0);
    assert_int_equal(btl_ib_engine_async_progress(engine, bench->now, 10), 10);
    assert_int_equal(bench->hosts[0].rails[0].arrived.count, 11);
    assert_int_equal(btl_ib_engine_async_progress(engine, bench->now, 64), 11);
    assert_int_equal(count->dropped_short, 1);
    assert_int_equal(bench->hosts[0].rails[0].held, 0);
}

/* ---- first contacts ---- */

static uint32_t unidentified(void)
{
    uint32_t n = 0;

    BTL_IB_LIST_FOREACH (const btl_ib_backlog_entry_t, entry, &engine->unidentified.messages,
                         link) {
        n++;
    }
    return n;
}

/* Three others begin, and their first datagrams come in a turn of the progress thread. */
static void contacts(void)
{
    bench = new_bench();
    for (uint32_t i = 0; i < 4; i++) {
        bench_start(bench, i);
    }
    engine = bench->hosts[0].engine;
    count = bench_counters(bench, 0);
    for (uint32_t i = 1; i < 4; i++) {
        bench_send(bench, i, 0, 20, 1);
        bench_turn(bench, i);
    }
    while (bench->wire.count > 0) {
        bench_deliver(bench, bench_pop(&bench->wire));
    }
    assert_int_equal(btl_ib_engine_async_progress(engine, bench->now, 64), 3);
    assert_int_equal(unidentified(), 3);
    assert_int_equal(count->received_datagrams, 0); /* each is counted when it is handled */
    assert_int_equal(btl_ib_engine_next_due(engine), bench->now);
}

/* A turn handles as many as it may receive; of many, as many more as it received. */
TEST(some_contacts_a_turn)
{
    contacts();
    for (uint32_t left = 2; left < 3; left--) {
        btl_ib_engine_progress(engine, bench->now, 1);
        assert_int_equal(unidentified(), left);
        assert_int_equal(count->connections, 3 - left);
        bench_check_counters(&bench->hosts[0]);
    }
    end_settled(bench, SECOND);
}

/* Without memory to look them up they are lost, and come again. */
TEST(contacts_without_memory)
{
    contacts();
    bench->hosts[0].fail_in = 1;
    bench_turn(bench, 0);
    assert_int_equal(unidentified(), 0);
    assert_int_equal(count->dropped_lookup, 3);
    assert_int_equal(count->received_datagrams, 3);
    bench_check_counters(&bench->hosts[0]);
    assert_int_equal(count->connections, 0);
    end_settled(bench, 10 * SECOND);
}

UNIT_MAIN(NULL, NULL)
