/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* One-sided operations of whole engines: calls that make no sense, peers that lie (about what
 * they want, and in what they answer), and sizes that 32 bits cannot hold. */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hostile.h"
#include "unit.h"

enum { SIZE = 256 };

/* Memory of host 0 that host 1 may use, in the middle of more that it may not. */
static uint8_t around[3 * SIZE];
static uint8_t *const memory = around + SIZE;
static btl_ib_region_key_t key;

static bench_t *registered(void)
{
    bench_t *bench = job();

    memset(around, 0x5a, sizeof(around));
    assert_int_equal(
        btl_ib_region_add(bench->hosts[0].engine, memory, SIZE, BTL_IB_ACCESS_ALL, &key), 0);
    return bench;
}

static void untouched(void)
{
    for (uint32_t i = 0; i < sizeof(around); i++) {
        assert_int_equal(around[i], 0x5a);
    }
}

/* An operation of this test's own, from host 1 on host 0. */
static int begin(bench_t *bench, bench_op_t *op)
{
    op->kept = true;
    op->done = false;
    return btl_ib_op_start(bench_connect(bench, 1, 0), &op->op, bench->now);
}

/* ---- the interface ---- */

static void test_impossible_operations(void **state)
{
    bench_t *bench = registered();
    uint8_t local[8];
    bench_op_t bad[] = {
        {.op = {.kind = (btl_ib_op_kind_t) 3, .local = local, .size = 8}},
        {.op = {.kind = BTL_IB_OP_PUT, .size = 1}},
        {.op = {.kind = BTL_IB_OP_GET, .size = 1}},
        {.op = {.kind = BTL_IB_OP_PUT, .local = local, .offset = INT64_MAX, .size = 1}},
        {.op = {.kind = BTL_IB_OP_GET, .local = local, .offset = 8, .size = UINT64_MAX - 7}},
        {.op = {.kind = BTL_IB_OP_PUT, .local = local, .size = UINT64_MAX - 100}},
        {.op = {.kind = BTL_IB_OP_ATOMIC, .type = BTL_IB_ATOMIC_INT64}},
        {.op = {.kind = BTL_IB_OP_ATOMIC, .code = BTL_IB_ATOMIC_AND, .type = BTL_IB_ATOMIC_FLOAT}},
        {.op = {.kind = BTL_IB_OP_ATOMIC,
                .code = BTL_IB_ATOMIC_ADD,
                .type = BTL_IB_ATOMIC_INT64,
                .offset = INT64_MAX - 6}},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(begin(bench, &bad[i]), -EINVAL);
        assert_int_equal(bad[i].done, false);
    }
    assert_true(btl_ib_conn_drained(bench_conn(bench, 1, 0)));
    end_working(bench);
}

static void test_zero_bytes(void **state)
{
    bench_t *bench = registered();
    const uint64_t puts = bench_counters(bench, 1)->started_puts;
    const uint64_t gets = bench_counters(bench, 1)->started_gets;
    const uint64_t atomics = bench_counters(bench, 1)->started_atomics;

    for (uint32_t kind = BTL_IB_OP_PUT; kind <= BTL_IB_OP_GET; kind++) {
        for (uint64_t offset = SIZE - 1; offset <= SIZE + 1; offset++) {
            bench_op_t op = {.op = {.kind = kind, .key = key, .offset = offset}};
            assert_int_equal(begin(bench, &op), 0);
            bench_run(bench, 1000);
            assert_int_equal(op.done, true);
            assert_int_equal(op.status, offset <= SIZE ? 0 : -EACCES);
        }
    }
    bench_op_t put = {.op = {.kind = BTL_IB_OP_PUT, .key = key}};
    assert_int_equal(begin(bench, &put), 0);
    bench_run(bench, 1000);
    assert_int_equal(bench_counters(bench, 1)->started_puts - puts, 4);
    assert_int_equal(bench_counters(bench, 1)->started_gets - gets, 3);
    assert_int_equal(bench_counters(bench, 1)->started_atomics, atomics);
    untouched();
    end(bench);
}

static void test_draining(void **state)
{
    bench_t *bench = registered();
    uint8_t local[8] = {0};
    bench_op_t op = {.op = {.kind = BTL_IB_OP_GET, .key = key, .local = local, .size = 8}};
    bench_op_t late = op;

    assert_int_equal(begin(bench, &op), 0);
    btl_ib_conn_drain(bench_conn(bench, 1, 0));
    btl_ib_conn_drain(bench_connect(bench, 0, 1)); /* serves nevertheless */
    assert_int_equal(begin(bench, &late), -EPIPE);
    assert_false(btl_ib_conn_drained(bench_conn(bench, 1, 0)));
    bench_run(bench, 1000);
    assert_int_equal(op.done, true);
    assert_int_equal(op.status, 0);
    assert_int_equal(local[7], 0x5a);
    assert_true(btl_ib_conn_drained(bench_conn(bench, 1, 0)));
    end(bench);
}

/* Host 1's turn is held back: hand over to host 0 only. */
static void to_host_0(bench_t *bench)
{
    bench->now += bench->delay;
    for (uint32_t n = bench->wire.count; n > 0; n--) {
        bench_datagram_t *datagram = bench_pop(&bench->wire);
        if (datagram->to == bench_address(0, 0)) {
            bench_deliver(bench, datagram);
        } else {
            bench_push(&bench->wire, datagram);
        }
    }
    bench_turn(bench, 0);
}

/* ---- what a peer may want ---- */

static bench_forgery_t request(bench_t *bench, btl_ib_type_t type, uint64_t offset, uint64_t end)
{
    bench_forgery_t forgery = bench_forge(bench, 0, 1, type);
    btl_ib_wire_target_t target = {
        .region = BTL_IB_LE64(key.id),
        .secret = BTL_IB_LE64(key.secret),
        .offset = BTL_IB_LE64(offset),
        .end = BTL_IB_LE64(end),
        .operation = BTL_IB_LE32(0x1234),
    };

    bench_append(&forgery, &target, sizeof(target));
    return forgery;
}

/* Thrown at host 0: what is counted, `cause` of *what, and that nothing was touched. */
static void refused(bench_t *bench, const bench_forgery_t *forgery, const uint64_t *what)
{
    uint64_t before = *what;

    bench_throw_forgery(bench, 0, 1, forgery);
    assert_int_equal(*what, before + 1);
    untouched();
}

static void test_lying_put(void **state)
{
    static const struct {
        uint64_t offset, end;
    } beyond[] = {{0, SIZE + 1},
                  {SIZE - 7, SIZE + 1},
                  {SIZE, SIZE + 8},
                  {SIZE + 1, SIZE + 9},
                  {UINT64_MAX - 8, UINT64_MAX},
                  {0, INT64_MAX},
                  {(uint64_t) INT64_MIN, INT64_MAX},
                  {(uint64_t) -SIZE, UINT64_MAX},
                  {(uint64_t) -4, 4}};
    bench_t *bench = registered();
    const btl_ib_counters_t *count = bench_counters(bench, 0);
    uint64_t zero = 0;

    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        bench_forgery_t forgery = request(bench, BTL_IB_TYPE_PUT, beyond[i].offset, beyond[i].end);
        bench_append(&forgery, &zero, sizeof(zero));
        refused(bench, &forgery, &count->rejected_bounds);
    }
    bench_forgery_t backwards = request(bench, BTL_IB_TYPE_PUT, 0, UINT64_MAX);
    bench_append(&backwards, &zero, sizeof(zero));
    refused(bench, &backwards, &count->dropped_op);
    bench_forgery_t forgery = request(bench, BTL_IB_TYPE_PUT, 0, 7); /* more than it says */
    bench_append(&forgery, &zero, sizeof(zero));
    refused(bench, &forgery, &count->dropped_op);
    for (uint32_t bit = 0; bit < 128; bit++) { /* guessed keys */
        forgery = request(bench, BTL_IB_TYPE_PUT, 0, 8);
        bench_append(&forgery, &zero, sizeof(zero));
        forgery.body[bit / 8] ^= (uint8_t) (1u << bit % 8);
        refused(bench, &forgery, &count->rejected_region);
    }
    btl_ib_region_remove(bench->hosts[0].engine, &key);
    forgery = request(bench, BTL_IB_TYPE_PUT, 0, 8);
    bench_append(&forgery, &zero, sizeof(zero));
    refused(bench, &forgery, &count->rejected_region);
    end_working(bench);
}

/* Of a peer that asks for more at once than the protocol allows only so much is kept.
 * protocol: R73 */
static void test_too_many_requests(void **state)
{
    bench_t *bench = registered();
    uint32_t seq = bench_channel(bench, 0, 1, 1).expected;
    uint64_t before = bench_counters(bench, 0)->served_gets;

    bench->hosts[0].rails[0].busy = UINT32_MAX; /* no answer leaves */
    for (uint32_t i = 0; i < BTL_IB_OPS_MAX + 10; i++) {
        bench_forgery_t forgery = request(bench, BTL_IB_TYPE_GET, i % 8, SIZE);
        forgery.header.channels = 1;
        forgery.header.seq = BTL_IB_LE32(seq + i);
        bench_throw_forgery(bench, 0, 1, &forgery);
    }
    assert_int_equal(bench_counters(bench, 0)->served_gets, before + BTL_IB_OPS_MAX);
    assert_int_equal(bench_counters(bench, 0)->rnr_operations, 10);
    assert_int_equal(bench_peer(bench, 0, 1).replies, BTL_IB_OPS_MAX);
    end(bench);
}

/* ---- what a peer may answer ---- */

/* Host 1 asks, host 0 lies: the datagrams of the true answer are lost meanwhile. */
static bool lose_answers(bench_t *bench, const bench_datagram_t *datagram)
{
    uint8_t type = datagram->data[0] & 0xf;

    return type == BTL_IB_TYPE_GOT || type == BTL_IB_TYPE_REPLY;
}

static bench_forgery_t got(bench_t *bench, uint32_t id, uint64_t offset, uint32_t size)
{
    static const uint8_t lies[SIZE] = {0};
    bench_forgery_t forgery = bench_forge(bench, 1, 0, BTL_IB_TYPE_GOT);
    btl_ib_wire_got_t wire = {
        .offset_low = BTL_IB_LE32(offset & UINT32_MAX),
        .offset_high = BTL_IB_LE32(offset >> 32),
        .operation = BTL_IB_LE32(id),
    };

    bench_append(&forgery, &wire, sizeof(wire));
    bench_append(&forgery, lies, size);
    return forgery;
}

static bench_forgery_t reply(bench_t *bench, uint32_t id, uint32_t status)
{
    bench_forgery_t forgery = bench_forge(bench, 1, 0, BTL_IB_TYPE_REPLY);
    btl_ib_wire_reply_t wire = {
        .result = 77, .operation = BTL_IB_LE32(id), .status = BTL_IB_LE32(status)};

    bench_append(&forgery, &wire, sizeof(wire));
    return forgery;
}

static bench_forgery_t refusal(bench_t *bench, uint32_t id)
{
    bench_forgery_t forgery = bench_forge(bench, 1, 0, BTL_IB_TYPE_REJECTED);
    uint32_t wire = BTL_IB_LE32(id);

    bench_append(&forgery, &wire, sizeof(wire));
    return forgery;
}

static void thrown(bench_t *bench, bench_forgery_t forgery, const uint64_t *what)
{
    uint64_t before = *what;

    bench_throw_forgery(bench, 1, 0, &forgery);
    assert_int_equal(*what, before + 1);
}

/* protocol: R71 */
static void test_lying_answers(void **state)
{
    static const uint64_t beyond[][2] = {
        {64, 1}, {63, 2}, {0, 65}, {UINT64_MAX, 1}, {UINT64_MAX - 3, 8}, {UINT64_C(1) << 32, 8}};
    bench_t *bench = registered();
    const btl_ib_counters_t *count = bench_counters(bench, 1);
    uint8_t local[192];
    bench_op_t op = {.op = {.kind = BTL_IB_OP_GET, .key = key, .local = local + 64, .size = 64}};

    memset(local, 0xa5, sizeof(local));
    bench->loses = lose_answers;
    assert_int_equal(begin(bench, &op), 0);
    bench_run(bench, 200);
    uint32_t id = op.op.id;
    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        thrown(bench, got(bench, id, beyond[i][0], (uint32_t) beyond[i][1]), &count->dropped_op);
    }
    thrown(bench, got(bench, id ^ 0x100, 0, 64), &count->stale_answers); /* an earlier one's */
    thrown(bench, got(bench, id ^ 1, 0, 64), &count->stale_answers);
    thrown(bench, got(bench, 0, 0, 64), &count->stale_answers);
    thrown(bench, reply(bench, id, BTL_IB_REPLY_DONE), &count->stale_answers);
    thrown(bench, reply(bench, id ^ 0x100, BTL_IB_REPLY_REJECTED), &count->stale_answers);
    thrown(bench, refusal(bench, id), &count->stale_answers);
    thrown(bench, refusal(bench, id ^ 1), &count->stale_answers);
    for (uint32_t i = 0; i < sizeof(local); i++) {
        assert_int_equal(local[i], 0xa5);
    }
    assert_int_equal(op.done, false);
    /* The same half twice is not the whole. */
    thrown(bench, got(bench, id, 0, 40), &count->received_segments);
    thrown(bench, got(bench, id, 0, 40), &count->dropped_op);
    assert_int_equal(op.done, false);
    end(bench);
}

/* ---- what leaves together ---- */

enum { SMALL = 64, BESIDE = 8 };

/* Short puts to memory that no device knows: nothing is asked for before, a put is one datagram,
 * and those of a turn leave with the messages of that turn in few calls of the transport. */
static void test_small_puts_leave_together(void **state)
{
    static uint8_t local[SMALL][8];
    static bench_op_t puts[SMALL];
    bench_t *bench = registered();

    bench_run(bench, SECOND);
    bench_turn(bench, 1);
    const bench_host_t ours = bench->hosts[1], theirs = bench->hosts[0];
    for (uint32_t i = 0; i < SMALL; i++) {
        memset(local[i], (int) i, 8);
        puts[i] = (bench_op_t){.op = {.kind = BTL_IB_OP_PUT,
                                      .key = key,
                                      .local = local[i],
                                      .offset = i % 32 * 8,
                                      .size = 8}};
        assert_int_equal(begin(bench, &puts[i]), 0);
        if (i % (SMALL / BESIDE) == 0) {
            bench_send(bench, 1, 0, 8, 1);
        }
    }
    bench_run(bench, 5000);
    for (uint32_t i = 0; i < SMALL; i++) {
        assert_true(puts[i].done);
    }
    /* The messages are bundled: two datagrams. */
    assert_in_range(bench->hosts[1].datagrams - ours.datagrams, SMALL, SMALL + 4);
    assert_in_range(bench->hosts[1].calls - ours.calls, 1, 16);
    assert_in_range(bench->hosts[0].datagrams - theirs.datagrams, 1, SMALL / 4);
    end(bench);
}

/* ---- how many run at once ---- */

enum { BOUND_PEERS = 3, BOUND_OPS = 8, TIMES = 100 };

/* Host 0 gets BOUND_OPS times from each of three others, while all that they answer is lost.
 * Returns how many of its requests arrived; all are done when the answers get through. */
static uint64_t bounded_gets(uint32_t ops_max, uint32_t ops_total)
{
    static bench_op_t gets[BOUND_PEERS][BOUND_OPS];
    static uint8_t local[BOUND_PEERS][BOUND_OPS][8];
    btl_ib_region_key_t keys[BOUND_PEERS];
    bench_t *bench = new_bench();
    uint64_t served = 0;
    uint32_t hurried = 0;

    bench->hosts[0].config.ops_max = ops_max;
    bench->hosts[0].config.ops_total = ops_total;
    for (uint32_t i = 0; i <= BOUND_PEERS; i++) {
        bench_start(bench, i);
    }
    for (uint32_t i = 1; i <= BOUND_PEERS; i++) {
        bench_send(bench, 0, i, 20, 1);
        bench_send(bench, i, 0, 20, 1);
    }
    assert_true(bench_settle(bench, SECOND));
    memset(around, 0x5a, sizeof(around));
    memset(local, 0, sizeof(local));
    bench->loses = lose_answers;
    for (uint32_t peer = 0; peer < BOUND_PEERS; peer++) {
        assert_int_equal(btl_ib_region_add(bench->hosts[peer + 1].engine, memory, SIZE,
                                           BTL_IB_ACCESS_ALL, &keys[peer]),
                         0);
        for (uint32_t i = 0; i < BOUND_OPS; i++) {
            gets[peer][i] = (bench_op_t){
                .kept = true,
                .op = {
                    .kind = BTL_IB_OP_GET, .key = keys[peer], .local = local[peer][i], .size = 8}};
            assert_int_equal(
                btl_ib_op_start(bench_connect(bench, 0, peer + 1), &gets[peer][i].op, bench->now),
                0);
        }
    }
    bench_run(bench, 1000);
    for (uint32_t peer = 0; peer < BOUND_PEERS; peer++) {
        served += bench_counters(bench, peer + 1)->served_gets;
    }
    /* What waits for others to end asks for no turns meanwhile. */
    for (uint32_t i = 0; i < TIMES; i++) {
        bench_run(bench, 100);
        hurried += btl_ib_engine_next_due(bench->hosts[0].engine) <= bench->now + 10;
    }
    assert_in_range(hurried, 0, TIMES / 10);
    bench->loses = NULL;
    bench_run(bench, 5 * SECOND);
    for (uint32_t peer = 0; peer < BOUND_PEERS; peer++) {
        for (uint32_t i = 0; i < BOUND_OPS; i++) {
            assert_true(gets[peer][i].done);
            assert_int_equal(local[peer][i][7], 0x5a);
        }
    }
    end(bench);
    return served;
}

static void test_operations_in_flight(void **state)
{
    assert_int_equal(bounded_gets(128, 0), BOUND_PEERS * BOUND_OPS);
    assert_int_equal(bounded_gets(3, 0), BOUND_PEERS * 3);
}

/* The limit on all together lets each peer have one, and no peer wait for ever. */
static void test_operations_in_flight_in_all(void **state)
{
    assert_in_range(bounded_gets(128, 10), 10, 10 + BOUND_PEERS - 1);
    assert_int_equal(bounded_gets(128, 1), BOUND_PEERS);
}

/* ---- refused half way ---- */

/* A refusal overtakes the acknowledgement of what was placed before the region went. So a
 * segment is made void that arrived: that is no loss that was none. */
static void test_void_that_arrived(void **state)
{
    bench_t *bench = registered();
    uint8_t local[SIZE] = {0};
    bench_op_t op = {.op = {.kind = BTL_IB_OP_PUT, .key = key, .local = local, .size = SIZE}};
    const uint32_t *undone = bench_count_undo(bench, 1, 0);

    assert_int_equal(begin(bench, &op), 0);
    to_host_0(bench);
    bench_queue_t late = bench->wire;
    bench->wire = (bench_queue_t){0};
    bench->hosts[1].rails[0].busy = 100; /* so that it still waits to be sent again then */
    bench_forgery_t news = refusal(bench, op.op.id);
    bench_throw_forgery(bench, 1, 0, &news);
    assert_int_equal(op.status, -EACCES);
    assert_int_equal(bench_counters(bench, 1)->voided, 1);
    uint32_t scale = bench_peer(bench, 1, 0).reo_wnd_mult;
    while (late.count > 0) {
        bench_deliver(bench, bench_pop(&late));
    }
    bench_turn(bench, 1);
    assert_int_equal(bench_peer(bench, 1, 0).unacked, 0);
    assert_int_equal(bench_peer(bench, 1, 0).reo_wnd_mult, scale);
    assert_int_equal(*undone, 0);
    end(bench);
}

/* ---- more than 32 bits ---- */

enum { PAGES = 769 }; /* no divisor of 2^32 bytes is a multiple of it */

/* A range of addresses that is the same little memory again and again. */
static uint8_t *unfold(uint64_t bytes, const char *name)
{
    size_t size = PAGES * (size_t) sysconf(_SC_PAGESIZE);
    int fd = memfd_create(name, 0);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t) size), 0);
    uint8_t *base =
        mmap(NULL, bytes + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    for (uint64_t at = 0; at < bytes; at += size) {
        assert_ptr_not_equal(mmap(base + at, size, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0),
                             MAP_FAILED);
    }
    close(fd);
    return base;
}

/* A byte that went to a place of its offset's low 32 bits would be at the wrong place of the
 * pattern. */
static void transfer(bench_t *bench, uint32_t kind, uint8_t *from, uint8_t *to, uint64_t bytes)
{
    size_t size = PAGES * (size_t) sysconf(_SC_PAGESIZE);
    uint8_t *remote = kind == BTL_IB_OP_PUT ? to : from;
    bench_op_t op = {.op = {.kind = kind, .local = remote == to ? from : to, .size = bytes}};

    for (size_t i = 0; i < size; i++) {
        from[i] = (uint8_t) (i * 2654435761u >> 19);
        to[i] = 0;
    }
    assert_int_equal(
        btl_ib_region_add(bench->hosts[0].engine, remote, bytes, BTL_IB_ACCESS_ALL, &op.op.key), 0);
    assert_int_equal(begin(bench, &op), 0);
    for (int i = 0; i < 100000 && !op.done; i++) {
        bench_run(bench, 1000);
    }
    assert_int_equal(op.done, true);
    assert_int_equal(op.status, 0);
    assert_memory_equal(from, to, size);

    /* The last byte, and the one behind it. */
    uint8_t byte = 0;
    bench_op_t last = {.op = {.kind = kind, .key = op.op.key, .local = &byte, .size = 1}};
    for (uint64_t i = 0; i < 2; i++) {
        last.op.offset = bytes - 1 + i;
        assert_int_equal(begin(bench, &last), 0);
        bench_run(bench, 10000);
        assert_int_equal(last.done, true);
        assert_int_equal(last.status, i == 0 ? 0 : -EACCES);
    }
    assert_int_equal(remote[bytes - 1], kind == BTL_IB_OP_PUT ? 0 : byte);
    btl_ib_region_remove(bench->hosts[0].engine, &op.op.key);
}

static void test_more_than_4_gib(void **state)
{
    if (sizeof(void *) < 8) {
        print_message("skipped: there is no such memory with 32 bits\n");
        skip();
    }
    uint64_t bytes = (UINT64_C(1) << 32) + 1000003;
    uint8_t *a = unfold(bytes, "a"), *b = unfold(bytes, "b");
    bench_t *bench = new_bench();

    for (uint32_t i = 0; i < 2; i++) {
        static const char queues[] = "P,128,256,128,16:S,65536,1024,512,256";
        memcpy(bench->hosts[i].queues, queues, sizeof(queues));
        bench->hosts[i].attr.max_datagram = 65536;
        bench->hosts[i].attr.inline_size = 1 << 20;
        bench_start(bench, i);
    }
    transfer(bench, BTL_IB_OP_PUT, a, b, bytes);
    transfer(bench, BTL_IB_OP_GET, a, b, bytes);
    end(bench);
}

/* ---- a region that goes while something is sent from it ---- */

extern void __asan_init(void) __attribute__((weak));

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_impossible_operations),
        cmocka_unit_test(test_zero_bytes),
        cmocka_unit_test(test_draining),
        cmocka_unit_test(test_lying_put),
        cmocka_unit_test(test_too_many_requests),
        cmocka_unit_test(test_small_puts_leave_together),
        cmocka_unit_test(test_operations_in_flight),
        cmocka_unit_test(test_operations_in_flight_in_all),
        cmocka_unit_test(test_lying_answers),
        cmocka_unit_test(test_void_that_arrived),
    };
    const struct CMUnitTest large[] = {
        cmocka_unit_test(test_more_than_4_gib),
    };

    /* With address sanitizer, which has nothing to find there, a million pages take minutes. */
    return cmocka_run_group_tests(tests, NULL, NULL)
           + (__asan_init == NULL ? cmocka_run_group_tests(large, NULL, NULL) : 0);
}
