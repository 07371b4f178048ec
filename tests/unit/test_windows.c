/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Operations that name one region of a window and mean another one, as osc/rdma's do when it takes
 * the wrong handle: of whole engines, and of a peer that knows the keys and tries what else they
 * open.
 */

#include <errno.h>
#include <string.h>

#include "insider.h"
#include "unit.h"

/* Memory of host 0: parts that host 1 may use as `access` says, with gaps between them. */
enum { BYTES = 16384 };
enum { LOW, HIGH, TOUCHING, CONSTANT, MESSAGE, PARTS };
static _Alignas(8) uint8_t memory[BYTES];
static btl_ib_region_key_t keys[PARTS];
static const struct {
    uint32_t at, size, access;
} parts[PARTS] = {
    [LOW] = {1024, 1024, BTL_IB_ACCESS_ALL | BTL_IB_ACCESS_WINDOW},
    [HIGH] = {4096, 4096, BTL_IB_ACCESS_ALL | BTL_IB_ACCESS_WINDOW},
    [TOUCHING] = {8192, 1024, BTL_IB_ACCESS_ALL | BTL_IB_ACCESS_WINDOW},
    [CONSTANT] = {10240, 1024, BTL_IB_ACCESS_READ | BTL_IB_ACCESS_WINDOW},
    [MESSAGE] = {12288, 1024, BTL_IB_ACCESS_ALL},
};

static uint8_t content(uint32_t at)
{
    return (uint8_t) (at * 167 + (at >> 8) * 13);
}

static bench_t *windows(void)
{
    bench_t *bench = job();

    for (uint32_t i = 0; i < BYTES; i++) {
        memory[i] = content(i);
    }
    for (int i = 0; i < PARTS; i++) {
        assert_int_equal(btl_ib_region_add(bench->hosts[0].engine, memory + parts[i].at,
                                           parts[i].size, parts[i].access, &keys[i]),
                         0);
    }
    return bench;
}

static void untouched(void)
{
    for (uint32_t i = 0; i < BYTES; i++) {
        assert_int_equal(memory[i], content(i));
    }
}

/* The offset that leads from the region `named` to `at`. */
static uint64_t offset_of(int named, uint32_t at)
{
    return (uint64_t) at - parts[named].at;
}

static void run(bench_t *bench, bench_op_t *op, int named, uint32_t at, int status)
{
    op->op.key = keys[named];
    op->op.offset = offset_of(named, at);
    op->kept = true;
    op->done = false;
    assert_int_equal(btl_ib_op_start(bench_connect(bench, 1, 0), &op->op, bench->now), 0);
    bench_run(bench, 20000);
    assert_int_equal(op->done, true);
    assert_int_equal(op->status, status);
}

static void get(bench_t *bench, int named, uint32_t at, uint32_t size, int status)
{
    uint8_t local[4096] = {0};
    bench_op_t op = {.op = {.kind = BTL_IB_OP_GET, .local = local, .size = size}};

    run(bench, &op, named, at, status);
    for (uint32_t i = 0; i < size && status == 0; i++) {
        assert_int_equal(local[i], content(at + i));
    }
}

/* And what was there before is put back. */
static void put(bench_t *bench, int named, uint32_t at, uint32_t size, int status)
{
    uint8_t local[4096];
    bench_op_t op = {.op = {.kind = BTL_IB_OP_PUT, .local = local, .size = size}};

    memset(local, 0x11, sizeof(local));
    run(bench, &op, named, at, status);
    for (uint32_t i = 0; i < size && status == 0; i++) {
        assert_int_equal(memory[at + i], 0x11);
        memory[at + i] = content(at + i);
    }
    untouched();
}

static void add(bench_t *bench, int named, uint32_t at, int status)
{
    bench_op_t op = {.op = {.kind = BTL_IB_OP_ATOMIC,
                            .code = BTL_IB_ATOMIC_ADD,
                            .type = BTL_IB_ATOMIC_INT64,
                            .operand = 1}};
    uint64_t before, after;

    memcpy(&before, memory + at, sizeof(before));
    run(bench, &op, named, at, status);
    memcpy(&after, memory + at, sizeof(after));
    assert_int_equal(after, before + (status == 0));
    if (status == 0) {
        assert_int_equal(op.op.result, before);
    }
    memcpy(memory + at, &before, sizeof(before));
}

/* ---- what is served ---- */

TEST(test_behind_and_before)
{
    bench_t *bench = windows();
    const btl_ib_counters_t *count = bench_counters(bench, 0);

    get(bench, LOW, 1024, 1024, 0);
    assert_int_equal(count->served_elsewhere, 0);
    get(bench, LOW, 4096, 16, 0);
    get(bench, LOW, 4096, 4096, 0); /* several segments */
    get(bench, HIGH, 1024, 1024, 0);
    get(bench, TOUCHING, 8176, 16, 0);
    get(bench, HIGH, 10240, 1024, 0);
    assert_int_equal(count->served_elsewhere, 5);
    put(bench, LOW, 8176, 16, 0);
    put(bench, HIGH, 1024, 16, 0);
    assert_int_equal(count->served_elsewhere, 7);
    put(bench, LOW, 4096, 4096, 0); /* each burst of segments by itself */
    put(bench, TOUCHING, 4096, 4096, 0);
    add(bench, LOW, 8184, 0);
    add(bench, HIGH, 1024, 0);
    assert_true(count->served_elsewhere >= 7 + 2 + 2);
    assert_int_equal(count->rejected_bounds + count->rejected_right + count->rejected_region, 0);
    untouched();
    end_working(bench);
}

/* From before the named region into it, in another one that has both. */
TEST(test_across_the_beginning)
{
    bench_t *bench = windows();
    btl_ib_region_key_t both;

    get(bench, TOUCHING, 8000, 1000, -EACCES);
    put(bench, TOUCHING, 8000, 1000, -EACCES);
    assert_int_equal(btl_ib_region_add(bench->hosts[0].engine, memory + 6144, 3072,
                                       BTL_IB_ACCESS_ALL | BTL_IB_ACCESS_WINDOW, &both),
                     0);
    get(bench, TOUCHING, 6144, 3072, 0);
    put(bench, TOUCHING, 6144, 3072, 0);
    get(bench, HIGH, 6144, 3072, 0); /* and across its end */
    put(bench, HIGH, 6144, 3072, 0);
    end(bench);
}

TEST(test_not_served)
{
    static const struct {
        int named;
        uint32_t at, size;
    } tries[] = {
        {LOW, 2040, 16},       /* into the gap */
        {LOW, 2048, 8},        /* there */
        {LOW, 4088, 16},       /* into another one's beginning */
        {HIGH, 1016, 16},      /* the same before the named one */
        {HIGH, 8184, 16},      /* across a seam */
        {LOW, 8184, 16},       /* the same seam from elsewhere */
        {LOW, 1024, 4000},     /* two and the gap */
        {LOW, 12288, 8},       /* a message */
        {MESSAGE, 4096, 8},    /* from a message */
        {MESSAGE, 12280, 8},   /* beside it */
        {TOUCHING, 9216, 16},  /* behind the last */
        {HIGH, 0, 16},         /* before the first */
        {CONSTANT, 11264, 16}, /* beside it */
    };
    bench_t *bench = windows();
    const btl_ib_counters_t *count = bench_counters(bench, 0);

    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        get(bench, tries[i].named, tries[i].at, tries[i].size, -EACCES);
        put(bench, tries[i].named, tries[i].at, tries[i].size, -EACCES);
        assert_true(count->rejected_bounds >= 2 * (i + 1)); /* a put may be several segments */
    }
    put(bench, HIGH, 10240, 8, -EACCES); /* it may be read only */
    add(bench, HIGH, 10240, -EACCES);
    put(bench, CONSTANT, 10240, 8, -EACCES);
    add(bench, LOW, 4097, -EACCES); /* not aligned */
    assert_int_equal(count->rejected_aligned, 1);
    assert_int_equal(count->rejected_region, 0);
    untouched();
    end_working(bench);
}

/* ---- regions that go ---- */

/* Of one that went the key still leads to what is there, as long as it is, and to nothing of its
 * own. */
TEST(test_removed_before)
{
    bench_t *bench = windows();
    btl_ib_engine_t *target = bench->hosts[0].engine;
    const btl_ib_counters_t *count = bench_counters(bench, 0);

    btl_ib_region_remove(target, &keys[LOW]);
    btl_ib_region_remove(target, &keys[MESSAGE]);
    get(bench, LOW, 4096, 16, 0);
    put(bench, LOW, 4096, 16, 0);
    add(bench, LOW, 4096, 0);
    get(bench, LOW, 1024, 16, -EACCES);
    put(bench, LOW, 1024, 16, -EACCES);
    add(bench, LOW, 1024, -EACCES);
    get(bench, MESSAGE, 4096, 16, -EACCES);
    get(bench, HIGH, 1024, 16, -EACCES);
    assert_int_equal(count->rejected_region, 4);
    assert_int_equal(count->rejected_bounds, 1);
    btl_ib_region_remove(target, &keys[HIGH]);
    get(bench, LOW, 4096, 16, -EACCES);
    untouched();
    end(bench);
}

/* ---- a peer that knows a key tries what it opens ---- */

static void forged(bench_t *bench, btl_ib_type_t type, uint64_t offset, uint64_t end,
                   const uint64_t *cause)
{
    const uint64_t before = *cause;
    bench_forgery_t forgery = lie(bench, type);
    const btl_ib_wire_target_t target = {
        .region = BTL_IB_LE64(keys[LOW].id),
        .secret = BTL_IB_LE64(keys[LOW].secret),
        .offset = BTL_IB_LE64(offset),
        .end = BTL_IB_LE64(end),
        .operation = BTL_IB_LE32(77 * BTL_IB_OPS_MAX),
    };

    forgery.header.channels = 2;
    forgery.header.seq = BTL_IB_LE32(channel_of(bench, 2).expected);
    bench_append(&forgery, &target, sizeof(target));
    bench_append(&forgery, "12345678", type == BTL_IB_TYPE_PUT ? 8 : 0);
    bench_throw_forgery(bench, 0, 1, &forgery);
    bench_flow(bench);
    assert_int_equal(*cause, before + 1);
    untouched();
    bench_check_counters(&bench->hosts[0]);
    bench_check_accounts(&bench->hosts[0]);
}

TEST(test_forged_offsets)
{
    const uint64_t base = (uint64_t) (uintptr_t) memory + parts[LOW].at;
    const uint64_t high = parts[HIGH].at - parts[LOW].at;
    const uint64_t last = INT64_MAX, first = (uint64_t) INT64_MIN;
    const struct {
        uint64_t offset, end;
    } bounds[] = {
        {-base, -base + 8},     /* address 0 */
        {-base - 8, -base},     /* below it */
        {-base - 4, -base + 4}, /* across it */
        {first, first + 8},     /* the lowest offset */
        {last - 8, last},       /* the highest */
        {first, last},          /* all of them */
        {high, last},           /* from another region on */
        {high, high + 4097},    /* one byte more than it has */
        {(uint64_t) -8, 1032},  /* around the named one */
        {high + (UINT64_C(1) << 32), high + (UINT64_C(1) << 32) + 8},
    };
    const struct {
        uint64_t offset, end;
    } backwards[] = {
        {8, 0}, {0, (uint64_t) -8}, {last, first}, {high + 8, high}, {last - 3, first + 4}};
    bench_t *bench = windows();
    const btl_ib_counters_t *count = bench_counters(bench, 0);

    for (int type = BTL_IB_TYPE_PUT; type <= BTL_IB_TYPE_GET; type++) {
        for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
            forged(bench, type, bounds[i].offset, bounds[i].end, &count->rejected_bounds);
        }
        for (size_t i = 0; i < sizeof(backwards) / sizeof(backwards[0]); i++) {
            forged(bench, type, backwards[i].offset, backwards[i].end, &count->dropped_op);
        }
    }
    keys[LOW].secret ^= 1;
    forged(bench, BTL_IB_TYPE_PUT, high, high + 8, &count->rejected_region);
    assert_int_equal(count->served_elsewhere, 0);
    end(bench);
}

UNIT_MAIN(NULL, NULL)
