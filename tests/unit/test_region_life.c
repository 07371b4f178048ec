/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Memory that peers read and write while its regions come and go, at any moment: between turns, and
 * in each callback, where other threads may have the engine as well. What no region holds any more
 * the application overwrites at once. No GET may bring such bytes, and no PUT may change them.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "unit.h"

enum {
    SEEDS = 24,
    ARENA = 24 * 1024, /* bytes of each host that regions may hold */
    KEYS = 8,          /* regions of each host that peers know, of which some are gone */
    OPS = 64,          /* that may run at once, both ways */
    LARGEST = 9000,    /* bytes of an operation or a message */
    STEPS = 2000,      /* of the network and the processes, in each run */
    ATOMIC = 8,        /* bytes of a word */
    NARROW = 800,      /* bytes that the second rail carries */
};

static const uint32_t WINDOW = BTL_IB_ACCESS_ALL | BTL_IB_ACCESS_WINDOW;

typedef struct named {
    btl_ib_region_key_t key;
    uint32_t at, size;
    bool there;
    bool window;
} named_t;

typedef struct side {
    uint8_t arena[ARENA] __attribute__((aligned(8)));
    uint8_t held[ARENA]; /* by so many regions */
    named_t named[KEYS];
} side_t;

typedef struct running {
    bench_op_t op;
    uint32_t at; /* in the target's arena */
    bool used;
} running_t;

/* All of a run. The callbacks of the bench have no argument of ours. */
static struct {
    bench_t *bench;
    side_t sides[2];
    running_t ops[OPS];
    uint64_t random;
    uint32_t loss; /* of 100 datagrams */
    uint32_t depth;
    uint32_t removed_in_callbacks;
    uint32_t done, rejected, broken;
} run;

static uint32_t some(uint32_t below)
{
    run.random ^= run.random << 13;
    run.random ^= run.random >> 7;
    run.random ^= run.random << 17;
    return (uint32_t) (run.random >> 32) % below;
}

static bool chance(uint32_t percent)
{
    return some(100) < percent;
}

/* What a byte is while some region holds it, and what the application makes of it afterwards. */
static uint8_t shared(uint32_t host, uint32_t at)
{
    return (uint8_t) ((at * 167 + host * 13 + (at >> 8)) & 0x7f);
}

static uint8_t own(uint32_t at)
{
    return (uint8_t) (0x80 | at);
}

static void check_arena(uint32_t host)
{
    const side_t *side = &run.sides[host];

    for (uint32_t at = 0; at < ARENA; at++) {
        assert_int_equal(side->arena[at], side->held[at] > 0 ? shared(host, at) : own(at));
    }
}

/* One region more, or (-1) less, holds those bytes. */
static void hold(uint32_t host, uint32_t at, uint32_t size, int more)
{
    side_t *side = &run.sides[host];

    for (uint32_t i = at; i < at + size; i++) {
        side->held[i] = (uint8_t) (side->held[i] + more);
        side->arena[i] = side->held[i] > 0 ? shared(host, i) : own(i);
    }
}

static void add_region(uint32_t host)
{
    side_t *side = &run.sides[host];
    named_t *named = &side->named[some(KEYS)];

    if (named->there) {
        return;
    }
    check_arena(host);
    named->size = 1 + some(chance(70) ? ARENA : LARGEST);
    named->at = some(ARENA - named->size + 1);
    named->window = chance(80);
    named->there = true;
    hold(host, named->at, named->size, 1);
    assert_int_equal(btl_ib_region_add(run.bench->hosts[host].engine, side->arena + named->at,
                                       named->size, named->window ? WINDOW : BTL_IB_ACCESS_ALL,
                                       &named->key),
                     0);
}

static void remove_region(uint32_t host)
{
    named_t *named = &run.sides[host].named[some(KEYS)];

    if (!named->there) {
        return;
    }
    check_arena(host);
    btl_ib_region_remove(run.bench->hosts[host].engine, &named->key);
    named->there = false;
    hold(host, named->at, named->size, -1);
    run.removed_in_callbacks += run.depth > 0;
}

/* ---- operations ---- */

/* A PUT writes what is there already, so that GETs may read it meanwhile; but its own memory, too,
 * is overwritten once it is over. */
static void end_op(running_t *o, uint32_t host)
{
    const uint32_t size = (uint32_t) o->op.op.size;

    for (uint32_t i = 0; i < size && o->op.op.kind == BTL_IB_OP_GET && o->op.status == 0; i++) {
        assert_int_equal(o->op.local[i], shared(1 - host, o->at + i));
    }
    run.done += o->op.status == 0;
    run.rejected += o->op.status == -EACCES;
    run.broken += o->op.status == -EPIPE || o->op.status == -ECANCELED;
    memset(o->op.local, 0xee, size);
    free(o->op.local);
    o->used = false;
}

static void end_ops(void)
{
    for (int i = 0; i < OPS; i++) {
        if (run.ops[i].used && run.ops[i].op.done) {
            end_op(&run.ops[i], run.ops[i].op.from);
        }
    }
}

static void fill_op(running_t *o, uint32_t host, const named_t *named)
{
    btl_ib_op_t *op = &o->op.op;

    *op = (btl_ib_op_t){.kind = chance(60) ? BTL_IB_OP_GET : (btl_ib_op_kind_t) some(3),
                        .key = named->key};
    op->size = 1 + some(chance(60) ? ARENA : 200);
    o->at = named->at + some(named->size);
    if (op->kind == BTL_IB_OP_ATOMIC) { /* changes nothing */
        op->size = 0;
        op->code = BTL_IB_ATOMIC_OR;
        op->type = BTL_IB_ATOMIC_INT64;
        o->at &= ~(uint32_t) (ATOMIC - 1);
    } else if (o->at + op->size > ARENA) {
        op->size = ARENA - o->at;
    }
    /* perhaps before the region: bytes of another, if both are of windows */
    op->offset = (uint64_t) o->at - named->at;
    o->op.local = malloc(op->size + 1);
    assert_non_null(o->op.local);
    for (uint32_t i = 0; i < op->size; i++) {
        o->op.local[i] = op->kind == BTL_IB_OP_PUT ? shared(1 - host, o->at + i) : 0xee;
    }
    op->local = o->op.local;
}

static void start_op(uint32_t host)
{
    running_t *o = &run.ops[some(OPS)];
    const named_t *named = &run.sides[1 - host].named[some(KEYS)];
    btl_ib_conn_t *conn = bench_connect(run.bench, host, 1 - host);

    if (o->used || named->size == 0 || conn == NULL) {
        return;
    }
    fill_op(o, host, named);
    o->used = true;
    o->op.kept = true;
    o->op.done = false;
    o->op.from = host;
    const int rc = btl_ib_op_start(conn, &o->op.op, run.bench->now);
    if (rc != 0 && !o->op.done) {
        assert_int_equal(rc, -EPIPE);
        free(o->op.local);
        o->used = false;
    }
}

/* ---- what else happens ---- */

static void end_connection(uint32_t host)
{
    btl_ib_conn_t *conn = bench_conn(run.bench, host, 1 - host);

    if (conn != NULL) {
        btl_ib_conn_destroy(conn, run.bench->now);
    }
}

/* The first port of a host goes down, or comes back. */
static void change_port(uint32_t host)
{
    bench_rail_t *rail = &run.bench->hosts[host].rails[0];

    rail->news = true;
    rail->what = chance(50) ? BTL_IB_EVENT_DOWN : BTL_IB_EVENT_UP;
    rail->error = ENETDOWN;
}

/* What another thread, or a callback, may do while the engine is in the middle of something. */
static void meddle(uint32_t host)
{
    const uint32_t what = some(100);

    if (what < 40) {
        remove_region(host);
    } else if (what < 60) {
        add_region(host);
    } else if (what < 95) {
        start_op(host);
    } else if (what < 98) {
        bench_send(run.bench, host, 1 - host, BENCH_MESSAGE_MIN + some(LARGEST), 1);
    } else if (what == 98 && chance(20)) {
        end_connection(host);
    }
}

static void called(bench_host_t *host)
{
    if (run.depth == 0) {
        run.depth++;
        meddle(host->index);
        run.depth--;
    }
}

/* ---- runs ---- */

static void begin(uint64_t seed)
{
    memset(&run, 0, sizeof(run));
    run.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    run.bench = new_bench();
    bench_t *bench = run.bench;
    btl_ib_conn_t *beside;

    bench->rails = 2;
    bench->carries[1] = seed % 3 == 0 ? NARROW : 0;
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t at = 0; at < ARENA; at++) {
            run.sides[i].arena[at] = own(at);
        }
        bench_start(bench, i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const btl_ib_peer_info_t info = bench_info(bench, 1 - i, 1);
        assert_int_equal(
            btl_ib_conn_create(bench->hosts[i].engine, 1, &info, &bench->hosts[1 - i], &beside), 0);
    }
    bench->called = called;
}

/* Some of what is on its way arrives or is lost, and some time passes. */
static void move(void)
{
    bench_t *bench = run.bench;

    for (uint32_t n = some(bench->wire.count + 1); n > 0; n--) {
        bench_datagram_t *datagram = bench_pop(&bench->wire);
        if (chance(run.loss)) {
            free(datagram);
        } else {
            bench_deliver(bench, datagram);
        }
    }
    bench->now += some(chance(95) ? 100 : 20000);
    bench_turn(bench, some(2));
}

static void step(void)
{
    bench_t *bench = run.bench;

    if (chance(2)) {
        run.loss = chance(20) ? 0 : some(chance(80) ? 30 : 95);
    }
    if (chance(60)) {
        meddle(some(2));
    }
    if (chance(1)) {
        change_port(some(2));
    }
    for (uint32_t i = 0; i < 2; i++) { /* so that what is long takes many steps */
        if (chance(60) && bench_conn(bench, i, 1 - i) != NULL) {
            bench_set_window(bench, i, 1 - i, 2 + some(chance(70) ? 6 : 60));
        }
    }
    move();
    end_ops();
}

static void finish(void)
{
    bench_t *bench = run.bench;

    run.loss = 0;
    run.depth = 1; /* callbacks do no more */
    for (uint32_t i = 0; i < 2; i++) {
        bench->hosts[i].rails[0].news = true;
        bench->hosts[i].rails[0].what = BTL_IB_EVENT_UP;
    }
    bench_run(bench, 60 * SECOND);
    end_ops();
    for (int i = 0; i < OPS; i++) {
        assert_false(run.ops[i].used);
    }
    for (uint32_t i = 0; i < 2; i++) {
        check_arena(i);
        bench_check_counters(&bench->hosts[i]);
        bench_check_accounts(&bench->hosts[i]);
        for (uint32_t k = 0; k < KEYS; k++) {
            assert_false(bench_region_lent(&bench->hosts[i], &run.sides[i].named[k].key));
        }
    }
    end(bench);
}

TEST(test_any_moment)
{
    uint64_t in_callbacks = 0, rejected = 0, done = 0, broken = 0, elsewhere = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        begin(seed);
        for (int i = 0; i < STEPS; i++) {
            step();
        }
        in_callbacks += run.removed_in_callbacks;
        rejected += run.rejected;
        done += run.done;
        broken += run.broken;
        elsewhere += bench_counters(run.bench, 0)->served_elsewhere;
        finish();
    }
    assert_true(done > 1000 && rejected > 1000 && broken > 100 && in_callbacks > 1000
                && elsewhere > 1000);
}

static bool loses_got(bench_t *bench, const bench_datagram_t *datagram)
{
    return bench->scratch[0] != 0 && (datagram->data[0] & 0xf) == BTL_IB_TYPE_GOT;
}

/* The region that a GET names goes while its stream is on the way, and another holds the bytes;
 * when that one goes as well, what is lost must not be read again from there. */
TEST(test_second_region_goes)
{
    static uint8_t memory[8192], local[sizeof(memory)];
    bench_t *bench = job();
    btl_ib_engine_t *target = bench->hosts[0].engine;
    btl_ib_region_key_t first, second;

    memset(memory, 1, sizeof(memory));
    assert_int_equal(btl_ib_region_add(target, memory, sizeof(memory), WINDOW, &first), 0);
    bench_op_t get = {
        .op = {.kind = BTL_IB_OP_GET, .key = first, .local = local, .size = sizeof(local)},
        .kept = true,
    };
    bench_connect(bench, 0, 1);
    bench_set_window(bench, 0, 1, 2);
    bench->loses = loses_got;
    bench->scratch[0] = 1;
    assert_int_equal(btl_ib_op_start(bench_connect(bench, 1, 0), &get.op, bench->now), 0);
    bench_run(bench, 100);
    assert_true(bench_region_lent(&bench->hosts[0], &first));
    btl_ib_region_remove(target, &first);
    assert_false(bench_region_lent(&bench->hosts[0], &first));
    assert_int_equal(btl_ib_region_add(target, memory, sizeof(memory), WINDOW, &second), 0);
    bench_set_window(bench, 0, 1, 64);
    bench_run(bench, 100);
    assert_true(bench_region_lent(&bench->hosts[0], &second));
    assert_false(bench_region_lent(&bench->hosts[0], &first));
    btl_ib_region_remove(target, &second);
    memset(memory, 2, sizeof(memory)); /* the application's again */
    bench->scratch[0] = 0;
    bench_run(bench, SECOND);
    assert_true(get.done);
    for (size_t i = 0; i < sizeof(local) && get.status == 0; i++) {
        assert_int_equal(local[i], 1);
    }
    end(bench);
}

UNIT_MAIN(NULL, NULL)
