/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <errno.h>
#include <string.h>

#include "btl_ib_table.h"
#include "support.h"
#include "unit.h"

enum { CONNS = 5000 };

static test_memory_t memory;
static btl_ib_table_t table;
static char conns[CONNS]; /* only their addresses are used */

static int setup(void **state)
{
    test_memory_init(&memory);
    btl_ib_table_init(&table, &memory.mem);
    return 0;
}

static int teardown(void **state)
{
    btl_ib_table_fini(&table);
    return memory.live == 0 ? 0 : -1;
}

static struct btl_ib_conn *conn(uint32_t i)
{
    return (struct btl_ib_conn *) (void *) &conns[i];
}

static uint32_t add(uint32_t i, uint64_t name, uint32_t rail, uint32_t remote_rail)
{
    uint32_t id = 0;

    assert_int_equal(btl_ib_table_add(&table, conn(i), name, rail, remote_rail, &id), 0);
    assert_int_not_equal(id, 0);
    assert_ptr_equal(btl_ib_table_by_id(&table, id), conn(i));
    assert_ptr_equal(btl_ib_table_by_name(&table, name, rail, remote_rail), conn(i));
    return id;
}

TEST_WITH(test_empty, setup, teardown)
{
    assert_null(btl_ib_table_by_id(&table, 0));
    assert_null(btl_ib_table_by_id(&table, 1u << 20));
    assert_null(btl_ib_table_by_id(&table, UINT32_MAX));
    assert_null(btl_ib_table_by_name(&table, 0, 0, 0));
    btl_ib_table_remove(&table, 5);
    btl_ib_table_unname(&table, 5);
    assert_int_equal(memory.live, 0);
}

TEST_WITH(test_growth, setup, teardown)
{
    static uint32_t id[CONNS];

    for (uint32_t i = 0; i < CONNS; i++) {
        uint32_t size = table.size;
        id[i] = add(i, UINT64_C(0x100000000) * (i / 100) + i % 100, i % 3, 0);
        assert_true(table.size == size || size == i); /* it grows when it is full, not before */
        assert_int_equal(table.size * (sizeof(*table.slots) + sizeof(*table.buckets)),
                         btl_ib_table_bytes(i + 1));
        if (i % 3 == 0) {
            btl_ib_table_unname(&table, id[i]);
        }
        for (uint32_t k = i & (i + 1) ? i : 0; k <= i; k++) { /* all at each power of two */
            assert_ptr_equal(btl_ib_table_by_id(&table, id[k]), conn(k));
            assert_ptr_equal(
                btl_ib_table_by_name(&table, UINT64_C(0x100000000) * (k / 100) + k % 100, k % 3, 0),
                k % 3 == 0 ? NULL : conn(k));
        }
    }
    for (uint32_t i = 0; i < CONNS; i++) {
        btl_ib_table_remove(&table, id[i]);
        assert_null(btl_ib_table_by_id(&table, id[i]));
    }
}

/* More users of one slot than there are generations: an id is never 0, and never that of one of
 * the last 4000 before. protocol: R24 */
TEST_WITH(test_generations, setup, teardown)
{
    static uint32_t ids[12345];

    for (uint32_t others = 0; others < 3; others++) {
        for (uint32_t n = 0; n < 12345; n++) {
            ids[n] = add(0, n, 0, 0);
            for (uint32_t back = 1; back <= 4000 && back <= n; back += back < 10 ? 1 : 173) {
                assert_int_not_equal(ids[n], ids[n - back]);
                assert_null(btl_ib_table_by_id(&table, ids[n - back]));
            }
            btl_ib_table_remove(&table, ids[n]);
            assert_null(btl_ib_table_by_id(&table, ids[n]));
        }
        add(1, UINT64_MAX - others, 0, 0); /* take this slot, go on with the next */
    }
}

TEST_WITH(test_no_memory, setup, teardown)
{
    uint32_t id[64];
    uint32_t count = 0;
    uint32_t none = 4711;

    for (uint64_t allowed = 0; allowed < 2; allowed++) {
        memory.allowed = allowed;
        assert_int_equal(btl_ib_table_add(&table, conn(0), 1, 0, 0, &none), -ENOMEM);
        assert_int_equal(memory.live, 0);
    }
    memory.allowed = UINT64_MAX;
    memory.fail_at = memory.calls + 1; /* the first of the two, not the second */
    assert_int_equal(btl_ib_table_add(&table, conn(0), 1, 0, 0, &none), -ENOMEM);
    assert_int_equal(memory.live, 0);
    memory.allowed = 2;
    while (btl_ib_table_add(&table, conn(count), count, 0, 0, &id[count]) == 0) {
        count++;
    }
    assert_in_range(count, 1, 63);
    for (uint64_t allowed = 0; allowed < 2; allowed++) {
        memory.allowed = allowed;
        assert_int_equal(btl_ib_table_add(&table, conn(0), 999, 0, 0, &none), -ENOMEM);
        assert_int_equal(memory.live, 2);
        assert_null(btl_ib_table_by_name(&table, 999, 0, 0));
        for (uint32_t i = 0; i < count; i++) {
            assert_ptr_equal(btl_ib_table_by_id(&table, id[i]), conn(i));
            assert_ptr_equal(btl_ib_table_by_name(&table, i, 0, 0), conn(i));
        }
    }
    /* A place that comes free needs no memory. */
    btl_ib_table_remove(&table, id[count / 2]);
    add(60, 999, 0, 0);
    memory.allowed = UINT64_MAX;
    add(61, 1000, 0, 0);
    assert_ptr_equal(btl_ib_table_by_id(&table, id[0]), conn(0));
}

/* Names of one job and of many spread over the buckets: a lookup looks at a few. */
TEST_WITH(test_spread, setup, teardown)
{
    for (uint32_t i = 0; i < 1024; i++) {
        add(i, i < 512 ? UINT64_C(0x700000000) + i : UINT64_C(0x100000000) * i, i % 2, 0);
    }
    assert_int_equal(table.size, 1024);
    for (uint32_t bucket = 0; bucket < table.size; bucket++) {
        uint32_t length = 0;
        for (uint32_t i = table.buckets[bucket]; i != table.size; i = table.slots[i].next) {
            length++;
        }
        assert_in_range(length, 0, 12);
    }
}

/* Nothing is found in one that ended, and it may begin again. */
TEST_WITH(test_ended, setup, teardown)
{
    const uint32_t id = add(0, 1, 0, 0);

    btl_ib_table_fini(&table);
    assert_int_equal(memory.live, 0);
    assert_null(btl_ib_table_by_id(&table, id));
    assert_null(btl_ib_table_by_name(&table, 1, 0, 0));
    btl_ib_table_init(&table, &memory.mem);
    add(0, 1, 0, 0);
}

/* An id has room for so many slots. */
TEST_WITH(test_most, setup, teardown)
{
    uint32_t none;

    table.size = table.free = 1u << BTL_IB_SLOT_BITS;
    assert_int_equal(btl_ib_table_add(&table, conn(0), 1, 0, 0, &none), -ENOMEM);
    assert_int_equal(memory.calls, 0);
    table.size = table.free = 1u << (BTL_IB_SLOT_BITS - 1);
    memory.allowed = 0;
    assert_int_equal(btl_ib_table_add(&table, conn(0), 1, 0, 0, &none), -ENOMEM);
    assert_true(memory.calls > 0); /* for as many slots as there may be */
    table.size = table.free = 0;
}

/* ---- against a model that cannot be wrong ---- */

enum { MODEL = 300, GONE = 256 };

typedef struct model {
    bool there[MODEL];
    bool named[MODEL];
    uint64_t name[MODEL];
    uint32_t rail[MODEL];
    uint32_t id[MODEL];
    uint32_t gone[GONE]; /* ids that were removed not long ago */
    uint32_t removed;
} model_t;

/* The entry with this name, or MODEL. */
static uint32_t model_find(const model_t *m, uint64_t name, uint32_t rail)
{
    for (uint32_t i = 0; i < MODEL; i++) {
        if (m->there[i] && m->named[i] && m->name[i] == name && m->rail[i] == rail) {
            return i;
        }
    }
    return MODEL;
}

static void model_check(const model_t *m, test_random_t *r)
{
    uint64_t name = test_random_below(r, 200);
    uint32_t rail = test_random_below(r, 3);
    uint32_t found = model_find(m, name, rail);
    uint32_t i = test_random_below(r, MODEL);

    assert_ptr_equal(btl_ib_table_by_name(&table, name, rail, 2 - rail),
                     found == MODEL ? NULL : conn(found));
    if (m->there[i]) {
        assert_ptr_equal(btl_ib_table_by_id(&table, m->id[i]), conn(i));
    }
    if (m->removed >= GONE) {
        assert_null(btl_ib_table_by_id(&table, m->gone[test_random_below(r, GONE)]));
    }
}

static void model_step(model_t *m, test_random_t *r, uint32_t crowd)
{
    uint32_t i = test_random_below(r, crowd);
    uint64_t name = test_random_below(r, 200);
    uint32_t rail = test_random_below(r, 3);

    if (!m->there[i]) {
        uint32_t holder = model_find(m, name, rail);
        if (holder != MODEL) { /* as an engine does: there is one of a name */
            btl_ib_table_unname(&table, m->id[holder]);
            m->named[holder] = false;
        }
        memory.allowed = test_random_below(r, 4) == 0 ? test_random_below(r, 2) : UINT64_MAX;
        if (btl_ib_table_add(&table, conn(i), name, rail, 2 - rail, &m->id[i]) == 0) {
            m->there[i] = true;
            m->named[i] = true;
            m->name[i] = name;
            m->rail[i] = rail;
        }
    } else if (test_random_below(r, 3) == 0) {
        btl_ib_table_unname(&table, m->id[i]);
        m->named[i] = false;
    } else {
        btl_ib_table_remove(&table, m->id[i]);
        m->there[i] = false;
        m->gone[m->removed++ % GONE] = m->id[i];
    }
}

TEST_WITH(test_model, setup, teardown)
{
    static model_t m;
    test_random_t r = TEST_RANDOM_SEED;

    for (int run = 0; run < 10; run++) {
        memset(&m, 0, sizeof(m));
        for (uint32_t step = 0; step < 20000; step++) {
            model_step(&m, &r, 1 + (MODEL - 1) * (step / 100 % 20 + 1) / 20);
            model_check(&m, &r);
        }
        btl_ib_table_fini(&table);
        assert_int_equal(memory.live, 0);
        btl_ib_table_init(&table, &memory.mem);
    }
}

UNIT_MAIN(NULL, NULL)
