/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Operations on memory that a device executes: which ones, what becomes of those that it does not
 * take, or does not bring to an end. The device is the test. */

#include <errno.h>
#include <string.h>

#include "btl_ib_conn.h"
#include "btl_ib_loss.h"
#include "btl_ib_rma_offload.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum { OPS = 4, BYTES = 4096, DEVICE_MAX = 8192, COPIED = 256 };

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1: they know each other */
static btl_ib_op_t op;
static uint8_t local[2 * DEVICE_MAX];

/* What the engine asked of the device, and what that answers. */
static uint32_t started, cancelled;
static btl_ib_rdma_work_t work; /* the last one */
static int answer;

/* What the engine said of operations. */
static uint32_t over;
static int status;

static int start(btl_ib_transport_t *transport, const btl_ib_rdma_work_t *asked)
{
    started++;
    work = *asked;
    return answer;
}

static void cancel(btl_ib_transport_t *transport, btl_ib_addr_t to)
{
    cancelled++;
    assert_int_equal(to, conn->route.address);
}

static void op_done(void *context, btl_ib_op_t *done, int how)
{
    over++;
    status = how;
}

static const btl_ib_rdma_ops_t device = {.start = start, .cancel = cancel};
static btl_ib_transport_ops_t transport_ops;
static btl_ib_engine_ops_t ops;

/* A PUT that the device can execute. */
static void put(void)
{
    op = (btl_ib_op_t){
        .kind = BTL_IB_OP_PUT,
        .key = bench->hosts[1].key,
        .offset = 20000,
        .local = local,
        .size = BYTES,
        .mem = local,
        .place = {.known = true, .rail = 0, .address = 0x10000, .key = 55},
    };
}

/* An atomic operation that only the device may execute. */
static void atomic(btl_ib_atomic_code_t code)
{
    put();
    op.kind = BTL_IB_OP_ATOMIC;
    op.offset = 24;
    op.by_device = true;
    op.code = code;
    op.type = BTL_IB_ATOMIC_INT64;
    op.operand = 7;
    op.compare = 8;
}

static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    btl_ib_transport_t *transport = engine->rails[0]->transport;
    transport_ops = *transport->ops;
    transport_ops.rdma = &device;
    transport->ops = &transport_ops;
    transport->attr.rdma_max = DEVICE_MAX;
    transport->attr.rdma_copied = COPIED;
    transport->attr.rdma_atomics = BTL_IB_RDMA_ATOMICS_NONE + 1;
    ops = *engine->ops;
    ops.op_done = op_done;
    engine->ops = &ops;
    started = cancelled = over = 0;
    answer = 0;
    put();
    return 0;
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

static int begin(void)
{
    return btl_ib_op_start(conn, &op, bench->now);
}

/* The device says that it is over. */
static void ends(int error)
{
    const btl_ib_event_t event = {.type = BTL_IB_EVENT_RDMA, .context = &op, .error = error};

    btl_ib_offload_event(&event);
    bench_turn(bench, 0); /* which calls back */
}

/* ---- selection ---- */

static bool possible(void)
{
    return btl_ib_offload_possible(conn, &op);
}

/* The device does what it is able to, if it knows the memory, and datagrams are not protected. */
TEST_WITH(what_a_device_can_do, set_up, tear_down)
{
    btl_ib_transport_t *transport = engine->rails[0]->transport;

    assert_true(possible());
    transport_ops.rdma = NULL;
    assert_false(possible());
    transport_ops.rdma = &device;
    op.place.known = false;
    assert_false(possible());
    op.place.known = true;
    op.place.rail = 1;
    assert_false(possible());
    op.place.rail = 0;
    engine->protection.kind = BTL_IB_PROTECTION_CRC32C;
    assert_false(possible());
    engine->protection.kind = BTL_IB_PROTECTION_NONE;
    op.size = DEVICE_MAX;
    assert_true(possible());
    op.size++;
    assert_false(possible());
    op.size = 0;
    assert_false(possible());
    op.size = COPIED;
    op.mem = NULL;
    assert_true(possible());
    op.size++;
    assert_false(possible());
    atomic(BTL_IB_ATOMIC_ADD);
    assert_true(possible());
    op.type = BTL_IB_ATOMIC_INT32;
    assert_false(possible());
    op.type = BTL_IB_ATOMIC_INT64;
    op.by_device = false;
    assert_false(possible());
    op.by_device = true;
    transport->attr.rdma_atomics = BTL_IB_RDMA_ATOMICS_NONE;
    assert_false(possible());
    transport->attr.rdma_atomics = BTL_IB_RDMA_ATOMICS_NONE + 1;
    op.code = BTL_IB_ATOMIC_CSWAP;
    assert_true(possible());
    op.code = BTL_IB_ATOMIC_AND;
    assert_false(possible());
}

/* It is wanted by the connection's own rails, while they work; an atomic operation wherever only a
 * device may change the word. */
TEST_WITH(what_is_wanted, set_up, tear_down)
{
    assert_true(btl_ib_offload_wanted(conn, &op));
    engine->rails[0]->health.down = true;
    assert_false(btl_ib_offload_wanted(conn, &op));
    engine->rails[0]->health.down = false;
    op.size = 0;
    assert_false(btl_ib_offload_wanted(conn, &op));
    op.size = 1;
    conn->route.own = false;
    assert_false(btl_ib_offload_wanted(conn, &op));
    atomic(BTL_IB_ATOMIC_AND);
    assert_true(btl_ib_offload_wanted(conn, &op));
    assert_int_equal(begin(), -EOPNOTSUPP);
    op.by_device = false;
    assert_false(btl_ib_offload_wanted(conn, &op));
    conn->route.own = true;
}

/* ---- start ---- */

/* It is handed over as it is, and is over when the device says so. */
TEST_WITH(by_the_device, set_up, tear_down)
{
    const btl_ib_counters_t *count = &engine->count;

    assert_int_equal(begin(), 0);
    assert_int_equal(started, 1);
    assert_int_equal(work.kind, BTL_IB_RDMA_WRITE);
    assert_int_equal(work.to, conn->route.address);
    assert_ptr_equal(work.local, local);
    assert_ptr_equal(work.mem, local);
    assert_int_equal(work.remote, 0x10000 + 20000);
    assert_int_equal(work.key, 55);
    assert_int_equal(work.size, BYTES);
    assert_ptr_equal(work.context, &op);
    assert_int_equal(over, 0);
    assert_int_equal(conn->offload.count, 1);
    assert_int_equal(engine->op_ids.running, 1);
    assert_int_equal(conn->ops.answers, 1); /* silence would be noticed */
    ends(0);
    assert_int_equal(over, 1);
    assert_int_equal(status, 0);
    assert_int_equal(conn->offload.count, 0);
    assert_int_equal(engine->op_ids.running, 0);
    assert_int_equal(conn->ops.answers, 0);
    assert_int_equal(conn->ops.count, 0);
    assert_int_equal(count->offload_puts, 1);
    put();
    op.kind = BTL_IB_OP_GET;
    assert_int_equal(begin(), 0);
    assert_int_equal(work.kind, BTL_IB_RDMA_READ);
    ends(0);
    assert_int_equal(count->offload_gets, 1);
    atomic(BTL_IB_ATOMIC_ADD);
    assert_int_equal(begin(), 0);
    assert_int_equal(work.kind, BTL_IB_RDMA_ADD);
    assert_ptr_equal(work.local, &op.result);
    assert_null(work.mem);
    assert_int_equal(work.size, 8);
    assert_int_equal(work.operand, 7);
    ends(0);
    atomic(BTL_IB_ATOMIC_CSWAP);
    assert_int_equal(begin(), 0);
    assert_int_equal(work.kind, BTL_IB_RDMA_CSWAP);
    assert_int_equal(work.compare, 8);
    ends(EACCES);
    assert_int_equal(over, 4);
    assert_int_equal(status, -EACCES);
    assert_int_equal(count->offload_puts, 1);
    assert_int_equal(count->offload_gets, 1);
    assert_int_equal(count->offload_atomics, 1);
    assert_int_equal(count->offload_returned, 0);
    assert_int_equal(conn->sentmap.unacked, 0); /* no datagram was needed */
}

/* A word that is not aligned is rejected before the device breaks its connection for it. */
TEST_WITH(misaligned, set_up, tear_down)
{
    atomic(BTL_IB_ATOMIC_ADD);
    op.place.address += 4;
    assert_int_equal(begin(), 0);
    bench_turn(bench, 0);
    assert_int_equal(started, 0);
    assert_int_equal(over, 1);
    assert_int_equal(status, -EACCES);
    put();
    op.place.address += 3; /* of bytes any is right */
    assert_int_equal(begin(), 0);
    assert_int_equal(started, 1);
    ends(0);
}

/* Nobody waits for an answer of its own process. */
TEST_WITH(to_itself, set_up, tear_down)
{
    const uint64_t name = engine->config.name;

    engine->config.name = conn->identity.name;
    assert_int_equal(begin(), 0);
    assert_int_equal(conn->ops.answers, 0);
    ends(0);
    engine->config.name = name;
    assert_int_equal(over, 1);
}

/* ---- what the device does not take ---- */

/* It is done by messages. */
static void is_emulated(void)
{
    assert_int_equal(engine->count.offload_returned, 1);
    for (int i = 0; over == 0 && i < 100; i++) {
        bench_run(bench, 100);
    }
    assert_int_equal(over, 1);
    assert_int_equal(status, 0);
    assert_memory_equal(bench->hosts[1].memory + 20000, local, BYTES);
    assert_int_equal(engine->count.offload_puts, 0);
}

/* One that the device refuses is done by messages, but an atomic one cannot be. */
TEST_WITH(refused, set_up, tear_down)
{
    static const int refusals[] = {-EINVAL, -ENETDOWN, -EOPNOTSUPP};

    memset(local, 0x33, sizeof(local));
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        engine->count.offload_returned = 0;
        over = 0;
        memset(local, 0x33 + (int) i, sizeof(local));
        put();
        answer = refusals[i];
        assert_int_equal(begin(), 0);
        is_emulated();
    }
    atomic(BTL_IB_ATOMIC_ADD);
    over = 0;
    assert_int_equal(begin(), 0);
    bench_turn(bench, 0);
    assert_int_equal(over, 1);
    assert_int_equal(status, -EPIPE);
}

/* The device has no room: it waits, in order; and is done by messages if that lasts for a second
 * without anything that it took. */
TEST_WITH(busy_for_long, set_up, tear_down)
{
    memset(local, 0x44, sizeof(local));
    answer = -EAGAIN;
    assert_int_equal(begin(), 0);
    const uint64_t began = engine->clock.awake;
    while (engine->clock.awake - began < SECOND - 100) {
        bench->now += 100;
        bench_turn(bench, 0);
    }
    assert_int_equal(engine->count.offload_returned, 0);
    assert_true(started > 100); /* it asks again and again */
    assert_int_equal(conn->offload.count, 0);
    assert_int_equal(conn->ops.answers, 1);
    bench->now += 300;
    bench_turn(bench, 0);
    assert_int_equal(conn->ops.answers, 0); /* from now on acknowledgements are expected */
    is_emulated();
}

/* That others are begun meanwhile changes nothing. */
TEST_WITH(busy_for_all, set_up, tear_down)
{
    btl_ib_op_t second = op;

    memset(local, 0x45, sizeof(local));
    answer = -EAGAIN;
    assert_int_equal(begin(), 0);
    engine->clock.awake += SECOND - 1;
    assert_int_equal(btl_ib_op_start(conn, &second, bench->now), 0);
    assert_int_equal(engine->count.offload_returned, 0);
    engine->clock.awake += 2;
    btl_ib_offload_push(conn);
    assert_int_equal(engine->count.offload_returned, 2);
    bench_run(bench, SECOND);
    assert_int_equal(over, 2);
}

/* The wait for an answer begins with the first of them. */
TEST_WITH(expected_answers, set_up, tear_down)
{
    btl_ib_op_t second = op;

    conn->loss.probes = 3;
    conn->loss.probe_base = 0;
    assert_int_equal(begin(), 0);
    assert_int_equal(conn->loss.probes, 0);
    assert_int_equal(conn->loss.probe_base, engine->clock.now);
    assert_true(btl_ib_hotel_guest_is_in(&conn->loss.timer.guest));
    conn->loss.probes = 3;
    assert_int_equal(btl_ib_op_start(conn, &second, bench->now), 0);
    assert_int_equal(conn->loss.probes, 3);
    ends(0); /* that is a sign of life */
    assert_int_equal(conn->loss.probes, 0);
    btl_ib_conn_kill(conn, BTL_IB_DEATH_ENDED);
}

/* It takes it later. */
TEST_WITH(busy_for_a_while, set_up, tear_down)
{
    answer = -EAGAIN;
    assert_int_equal(begin(), 0);
    bench_run(bench, 1000);
    assert_in_range(engine->count.blocked_transport, 1, 10000);
    answer = 0;
    bench_turn(bench, 0);
    assert_int_equal(conn->offload.count, 1);
    assert_true(btl_ib_list_empty(&conn->offload.waiting));
    const uint32_t before = started;
    bench_run(bench, 1000);
    assert_int_equal(started, before);
    ends(0);
    assert_int_equal(over, 1);
}

/* While it has others it is not late, however long one waits. */
TEST_WITH(busy_with_others, set_up, tear_down)
{
    btl_ib_op_t second = op;

    assert_int_equal(begin(), 0);
    answer = -EAGAIN;
    assert_int_equal(btl_ib_op_start(conn, &second, bench->now), 0);
    engine->clock.awake += 10 * SECOND;
    bench_turn(bench, 0);
    assert_int_equal(engine->count.offload_returned, 0);
    answer = 0;
    ends(0);
    assert_int_equal(over, 1);
    assert_ptr_equal(work.context, &second);
    const btl_ib_event_t event = {.type = BTL_IB_EVENT_RDMA, .context = &second};
    btl_ib_offload_event(&event);
    bench_turn(bench, 0);
    assert_int_equal(over, 2);
}

/* An atomic one has nothing else: it waits as long as for an answer; if the peer's device is not
 * reached, too, unless the connection goes by others. */
TEST_WITH(atomic_waits, set_up, tear_down)
{
    static const int refusals[] = {-EAGAIN, -EHOSTUNREACH};

    for (int i = 0; i < 2; i++) {
        atomic(BTL_IB_ATOMIC_ADD);
        over = 0;
        answer = refusals[i];
        assert_int_equal(begin(), 0);
        engine->clock.awake += engine->config.silence_limit - SECOND;
        btl_ib_offload_push(conn);
        assert_int_equal(over, 0);
        const uint64_t limit = engine->config.silence_limit;
        engine->config.silence_limit = 0; /* there is none */
        engine->clock.awake += 2 * SECOND;
        btl_ib_offload_push(conn);
        assert_false(btl_ib_list_empty(&conn->offload.waiting));
        engine->config.silence_limit = limit;
        btl_ib_offload_push(conn);
        assert_true(btl_ib_list_empty(&conn->offload.waiting));
        bench_turn(bench, 0);
        assert_int_equal(over, 1);
        assert_int_equal(status, -EPIPE);
    }
    atomic(BTL_IB_ATOMIC_ADD);
    conn->route.own = false;
    over = 0;
    assert_int_equal(begin(), 0);
    conn->route.own = true;
    bench_turn(bench, 0);
    assert_int_equal(over, 1);
    assert_int_equal(status, -EPIPE);
}

/* What waits behind an atomic one need not wait with it for a peer that is not reached. */
TEST_WITH(waits_behind_an_atomic, set_up, tear_down)
{
    btl_ib_op_t behind;

    memset(local, 0x55, sizeof(local));
    behind = op;
    atomic(BTL_IB_ATOMIC_ADD);
    answer = -EAGAIN;
    assert_int_equal(begin(), 0);
    assert_int_equal(btl_ib_op_start(conn, &behind, bench->now), 0);
    assert_int_equal(engine->count.offload_returned, 0);
    answer = -EHOSTUNREACH;
    btl_ib_offload_push(conn);
    is_emulated();
    assert_ptr_equal(BTL_IB_LIST_FIRST(btl_ib_op_t, &conn->offload.waiting, out.link), &op);
    answer = 0;
    btl_ib_offload_push(conn);
    assert_int_equal(conn->offload.count, 1);
    ends(0);
    assert_int_equal(over, 2);
}

/* A port that is down may come back, which an atomic one waits for; a failed device, or an address
 * that the transport did not take, does not. */
TEST_WITH(no_device, set_up, tear_down)
{
    atomic(BTL_IB_ATOMIC_ADD);
    engine->rails[0]->health.down = true;
    assert_int_equal(begin(), 0);
    assert_int_equal(over, 0);
    engine->rails[0]->health.down = false;
    assert_int_equal(started, 0);
    btl_ib_offload_push(conn);
    assert_int_equal(started, 1);
    ends(0);
    assert_int_equal(status, 0);
    const btl_ib_addr_t address = conn->route.address;
    for (int i = 0; i < 2; i++) {
        atomic(BTL_IB_ATOMIC_ADD);
        engine->rails[0]->health.failed = i == 0;
        conn->route.address = i == 0 ? address : BTL_IB_ADDR_UNKNOWN;
        assert_int_equal(begin(), 0);
        engine->rails[0]->health.failed = false;
        conn->route.address = address;
        bench_turn(bench, 0);
        assert_int_equal(status, -EPIPE);
    }
    assert_int_equal(started, 1);
    assert_int_equal(over, 3);
}

/* So many are in the device at once. */
TEST_WITH(at_most_so_many, set_up, tear_down)
{
    btl_ib_op_t others[OPS];

    engine->config.ops_max = 2;
    for (int i = 0; i < OPS; i++) {
        others[i] = op;
        assert_int_equal(btl_ib_op_start(conn, &others[i], bench->now), 0);
    }
    assert_int_equal(started, 2);
    for (int i = 0; i < OPS; i++) {
        const btl_ib_event_t event = {.type = BTL_IB_EVENT_RDMA, .context = &others[i]};
        btl_ib_offload_event(&event);
        bench_turn(bench, 0);
        assert_int_equal(over, i + 1);
        assert_int_equal(started, i + 3 < OPS ? i + 3 : OPS);
    }
}

/* Beside what the process has under way it waits, but for one: that a peer may always have. */
TEST_WITH(at_most_so_many_of_all, set_up, tear_down)
{
    btl_ib_op_t others[3];

    engine->config.ops_total = 2;
    for (int i = 0; i < 3; i++) {
        others[i] = op;
        assert_int_equal(btl_ib_op_start(conn, &others[i], bench->now), 0);
    }
    assert_int_equal(started, 2);
    engine->config.ops_total = 1; /* the next one would be the second */
    for (int i = 0; i < 3; i++) {
        const btl_ib_event_t event = {.type = BTL_IB_EVENT_RDMA, .context = &others[i]};
        btl_ib_offload_event(&event);
        bench_turn(bench, 0);
        assert_int_equal(over, i + 1);
        assert_int_equal(started, i == 0 ? 2 : 3);
    }
    engine->op_ids.running++; /* another peer has all */
    for (int i = 0; i < 2; i++) {
        others[i] = op;
        assert_int_equal(btl_ib_op_start(conn, &others[i], bench->now), 0);
        assert_int_equal(started, 4);
    }
    engine->op_ids.running--;
    for (int i = 0; i < 2; i++) {
        const btl_ib_event_t event = {.type = BTL_IB_EVENT_RDMA, .context = &others[i]};
        btl_ib_offload_event(&event);
        bench_turn(bench, 0);
        assert_int_equal(started, 5);
    }
    assert_int_equal(over, 5);
}

/* ---- the end ---- */

/* The device does not bring it to an end: then messages do, but not what may have been executed. */
TEST_WITH(broken, set_up, tear_down)
{
    memset(local, 0x66, sizeof(local));
    assert_int_equal(begin(), 0);
    ends(EIO);
    assert_int_equal(conn->ops.answers, 0); /* from now on acknowledgements are expected */
    is_emulated();
    atomic(BTL_IB_ATOMIC_ADD);
    over = 0;
    assert_int_equal(begin(), 0);
    ends(EIO);
    assert_int_equal(over, 1);
    assert_int_equal(status, -EPIPE);
    assert_int_equal(conn->offload.count, 0);
}

/* A device that failed is told to touch no memory any more, and all that it had, or that waited for
 * it, is done by messages. */
TEST_WITH(failed, set_up, tear_down)
{
    btl_ib_op_t waiting;

    memset(local, 0x77, sizeof(local));
    btl_ib_offload_device_failed(conn, EIO);
    assert_int_equal(cancelled, 0); /* it has none */
    assert_int_equal(begin(), 0);
    waiting = op;
    answer = -EAGAIN;
    waiting.offset = 60000;
    assert_int_equal(btl_ib_op_start(conn, &waiting, bench->now), 0);
    btl_ib_offload_device_failed(conn, EIO);
    assert_int_equal(cancelled, 1);
    assert_int_equal(engine->count.offload_returned, 2);
    bench_run(bench, SECOND);
    assert_int_equal(over, 2);
    assert_int_equal(status, 0);
    assert_memory_equal(bench->hosts[1].memory + 20000, local, BYTES);
    assert_memory_equal(bench->hosts[1].memory + 60000, local, BYTES);
    assert_int_equal(conn->ops.answers, 0);
}

/* With the connection all of them end. */
TEST_WITH(connection_ends, set_up, tear_down)
{
    btl_ib_op_t waiting;

    assert_int_equal(begin(), 0);
    waiting = op;
    answer = -EAGAIN;
    assert_int_equal(btl_ib_op_start(conn, &waiting, bench->now), 0);
    btl_ib_conn_kill(conn, BTL_IB_DEATH_ENDED);
    assert_int_equal(cancelled, 1);
    assert_int_equal(over, 2);
    assert_int_equal(status, -EPIPE);
    assert_int_equal(engine->op_ids.running, 0);
}

UNIT_MAIN(NULL, NULL)
