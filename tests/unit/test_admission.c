/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* How many unknown senders are looked up, answered and let in. */

#include <string.h>

#include "btl_ib_admission.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum { FIRST = 5 * SECOND }; /* us: what an engine began with is long ago */

static bench_t *bench;
static btl_ib_engine_t *engine;

static int set_up(void **state)
{
    bench = new_bench();
    bench_start(bench, 0);
    engine = bench->hosts[0].engine;
    engine->clock.now += FIRST;
    return 0;
}

static int tear_down(void **state)
{
    engine->admission.passive = 0;
    end(bench);
    return 0;
}

/* How many of `most` unknown senders are looked up, and how many are answered. */
static uint32_t lookups(uint32_t most)
{
    uint32_t count = 0;

    while (count < most && btl_ib_admission_take_lookup(engine, false)) {
        count++;
    }
    return count;
}

static uint32_t responses(uint32_t most)
{
    uint32_t count = 0;

    while (count < most && btl_ib_admission_take_response(engine)) {
        count++;
    }
    return count;
}

/* A second begins with the first that asks, and ends a second later; each has as many. */
TEST_WITH(in_each_second, set_up, tear_down)
{
    engine->config.lookups_max = 3;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lookups(9), 3);
        assert_int_equal(responses(99), 3 * 8); /* which cost less */
        engine->clock.now += SECOND - 1;
        assert_int_equal(lookups(1), 0);
        assert_int_equal(responses(1), 0);
        engine->clock.now += 1;
    }
    engine->clock.now += SECOND; /* of what was not used nothing is kept */
    assert_int_equal(lookups(9), 3);
}

/* A share of the lookups is for other paths of known peers, but one at least. */
TEST_WITH(of_paths, set_up, tear_down)
{
    engine->config.lookups_max = 17;
    for (int i = 0; i < 2; i++) {
        assert_true(btl_ib_admission_take_path_lookup(engine));
        assert_true(btl_ib_admission_take_path_lookup(engine));
        assert_false(btl_ib_admission_take_path_lookup(engine));
        assert_int_equal(lookups(99), 15);
        engine->clock.now += SECOND;
    }
    engine->config.lookups_max = 7;
    assert_true(btl_ib_admission_take_path_lookup(engine));
    assert_false(btl_ib_admission_take_path_lookup(engine));
    engine->clock.now += SECOND;
    assert_int_equal(lookups(99), 7); /* none are left for paths */
    assert_false(btl_ib_admission_take_path_lookup(engine));
}

/* There are so many connections that nobody here asked for, and no more; one that takes the place
 * of another is none more. */
TEST_WITH(those_that_came_by_themselves, set_up, tear_down)
{
    engine->config.passive_max = 2;
    btl_ib_admission_passive(&engine->admission, 1);
    assert_true(btl_ib_admission_take_lookup(engine, false));
    btl_ib_admission_passive(&engine->admission, 1);
    assert_false(engine->admission.told_passive);
    assert_false(btl_ib_admission_take_lookup(engine, false));
    assert_true(engine->admission.told_passive);
    assert_false(btl_ib_admission_take_path_lookup(engine));
    assert_true(btl_ib_admission_take_lookup(engine, true));
    btl_ib_admission_passive(&engine->admission, -1);
    assert_true(btl_ib_admission_take_lookup(engine, false));
}

/* Near its end a process lets nobody in, known or not; it may still answer. */
TEST_WITH(closed, set_up, tear_down)
{
    btl_ib_admission_close(&engine->admission);
    assert_false(btl_ib_admission_take_lookup(engine, false));
    assert_false(btl_ib_admission_take_lookup(engine, true));
    assert_true(btl_ib_admission_take_response(engine));
}

UNIT_MAIN(NULL, NULL)
