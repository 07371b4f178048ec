/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Connections that were idle for so long that 32-bit stamps of microseconds went round: once in
 * 71.6 minutes, and half of that is as far as two of them tell which is older. */

#include <stdlib.h>

#include "btl_ib_clock.h"
#include "hostile.h"
#include "unit.h"

#define MINUTE (UINT64_C(60) * SECOND)

static const uint64_t idle[] = {
    SECOND,      17 * MINUTE, 19 * MINUTE, 35 * MINUTE,  36 * MINUTE,
    50 * MINUTE, 71 * MINUTE, 72 * MINUTE, 110 * MINUTE, 25 * 60 * MINUTE,
};

enum { IDLE = sizeof(idle) / sizeof(idle[0]) };

static void nothing_happens(bench_t *bench, uint64_t us)
{
    bench->now += us;
    for (uint32_t i = 0; i < 2; i++) {
        bench_turn(bench, i);
    }
    bench_run(bench, 1000);
}

/* The time of a stamp, however old, and that of one in the future, which is none of ours. */
TEST(stamps)
{
    const uint64_t range = UINT64_C(1) << 32;
    btl_ib_clock_t clock = {0};

    for (uint64_t now = 1; now < 10 * range; now += range / 7) {
        btl_ib_clock_set(&clock, now);
        for (uint64_t age = 0; age < range && age < now; age += range / 11) {
            assert_int_equal(btl_ib_clock_stamped_at(&clock, (uint32_t) (now - age)), now - age);
        }
        assert_true(btl_ib_clock_stamped_at(&clock, (uint32_t) (now + 1000)) < now);
    }
}

/* A route was refused, and then nothing was sent for long. The first answer shows that it leads
 * there: then its messages go the short way again (header prediction). */
TEST(refused_long_ago)
{
    for (int i = 0; i < IDLE; i++) {
        bench_t *bench = new_bench();
        acquaint(bench);
        bench->hosts[0].rails[0].refused = bench_address(1, 0);
        bench->hosts[0].rails[0].refusal = true;
        bench_run(bench, 1000);
        assert_true(bench_peer(bench, 0, 1).doubted);
        nothing_happens(bench, idle[i]);
        bench_send(bench, 0, 1, 20, 1);
        bench_send(bench, 1, 0, 20, 1);
        assert_true(bench_settle(bench, SECOND));
        bench_run(bench, 1000);
        assert_false(bench_peer(bench, 0, 1).doubted);
        end(bench);
    }
}

/* What host 1 sends first after it was idle: does it echo the stamp that came before? */
static bool echoes_after(uint64_t us)
{
    bench_t *bench = new_bench();

    acquaint(bench);
    nothing_happens(bench, us);
    bench->taping = true;
    bench_send(bench, 1, 0, 20, 1);
    bench_turn(bench, 1);
    assert_int_equal(bench->tape.count, 1);
    const btl_ib_wire_header_t *header = (const void *) bench->tape.first->data;
    const bool echoes = (header->flags & BTL_IB_FLAG_ECHO) != 0;
    assert_true(bench_settle(bench, SECOND));
    end(bench);
    return echoes;
}

TEST(old_stamps_are_not_echoed)
{
    for (int i = 0; i < IDLE; i++) {
        assert_int_equal(echoes_after(idle[i]), idle[i] < 18 * MINUTE);
    }
}

/* A flow was left long ago. When it is checked again, answers prove the other one as before: what
 * was sent after that was taken is not older than that. */
TEST(flow_left_long_ago)
{
    for (int i = 0; i < IDLE; i++) {
        bench_t *bench = new_bench();
        bench->hosts[0].attr.flows = 3;
        acquaint(bench);
        bench->hosts[0].rails[0].dead_flows = 1;
        bench_send(bench, 0, 1, 20, 1);
        assert_true(bench_settle(bench, SECOND));
        bench_run(bench, 100000);
        const btl_ib_counters_t *count = btl_ib_engine_counters(bench->hosts[0].engine);
        for (int more = 0; more < 100 && count->flows_left == 0; more++) {
            bench_send(bench, 0, 1, 20, 1);
            assert_true(bench_settle(bench, SECOND));
            bench_run(bench, 10000);
        }
        assert_int_equal(count->flows_left, 1);
        const uint64_t tried = count->flows_tried;
        nothing_happens(bench, idle[i]);
        for (int more = 0; more < 100; more++) {
            bench_send(bench, 0, 1, 20, 1);
            assert_true(bench_settle(bench, SECOND));
            bench_run(bench, 10000);
        }
        assert_int_equal(count->flows_tried, tried);
        end(bench);
    }
}

/* Stamps go round while bulk waits for a peer that was never heard of: no stamp is taken for an
 * answer, and the peer is found to be dead. */
TEST(round_while_nobody_answers)
{
    bench_t *bench = new_bench();

    bench->now = 3 * (UINT64_C(1) << 32) - 10 * SECOND;
    bench->hosts[0].attr.bulk_lane = true;
    bench->hosts[0].config.silence_limit = 60 * SECOND;
    bench_start(bench, 0);
    bench_start(bench, 1);
    bench->hosts[0].rails[0].dead_flows = 1;
    bench_send(bench, 0, 1, 5000, 1);
    for (int i = 0; i < 120 && bench_counters(bench, 0)->connections_dead == 0; i++) {
        bench_run(bench, SECOND);
    }
    assert_int_equal(bench_counters(bench, 0)->connections_dead, 1);
    end(bench);
}

UNIT_MAIN(NULL, NULL)
