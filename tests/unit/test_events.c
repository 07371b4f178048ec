/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What an engine does at events of its transports that are no datagrams. */

#include <errno.h>
#include <stdlib.h>

#include "hostile.h"
#include "unit.h"

/* The transport of host 0 says that of its way to host 1. */
static void tell(bench_t *bench, btl_ib_event_type_t what, uint32_t size)
{
    bench_rail_t *rail = &bench->hosts[0].rails[0];

    rail->what = what;
    rail->about = bench_address(1, 0);
    rail->size = size;
    rail->news = true;
    bench_turn(bench, 0);
}

/* ---- PATH ---- */

TEST(a_path_gets_narrower)
{
    bench_t *bench = new_bench();

    acquaint(bench);
    const uint32_t before = bench_datagram_max(bench, 0, 1);
    tell(bench, BTL_IB_EVENT_PATH_MTU, before + 100);
    assert_int_equal(bench_datagram_max(bench, 0, 1), before);
    tell(bench, BTL_IB_EVENT_PATH_MTU, 600);
    assert_int_equal(bench_datagram_max(bench, 0, 1), 600);
    bench->hosts[0].path[1] = 600;
    bench_send(bench, 0, 1, 20000, 1);
    assert_true(bench_settle(bench, SECOND));
    tell(bench, BTL_IB_EVENT_PATH_MTU, 1);
    assert_int_equal(bench_datagram_max(bench, 0, 1),
                     btl_ib_protection_datagram_min(BTL_IB_PROTECTION_NONE));
    bench_send(bench, 0, 1, 2000, 1);
    assert_true(bench_settle(bench, SECOND));
    end(bench);
}

/* ---- BROKEN ---- */

static bool loses_data(bench_t *bench, const bench_datagram_t *datagram)
{
    return bench->scratch[0] != 0 && datagram->source == bench_address(0, 0);
}

/* What was on its way goes again at once, not when it is taken for lost. */
TEST(a_connection_breaks)
{
    bench_t *bench = new_bench();

    acquaint(bench);
    const btl_ib_counters_t *count = bench_counters(bench, 0);
    bench->loses = loses_data;
    bench->scratch[0] = 1;
    for (int i = 0; i < 2; i++) {
        bench_send(bench, 0, 1, 100, 1);
    }
    bench_flow(bench);
    bench->scratch[0] = 0;
    const uint64_t probes = count->sent_probes;
    const uint64_t begun = bench->now;
    tell(bench, BTL_IB_EVENT_BROKEN, 0);
    bench_flow(bench);
    for (uint32_t i = 0; i < bench->message_count; i++) {
        assert_int_equal(bench->messages[i].delivered, 1);
    }
    assert_true(bench->now - begun < 6 * BENCH_DELAY);
    assert_int_equal(count->sent_probes, probes);
    assert_true(bench_settle(bench, SECOND));
    end(bench);
}

/* Nothing was on its way: nothing is sent for it, and nobody dies. */
TEST(an_idle_connection_breaks)
{
    bench_t *bench = new_bench();

    acquaint(bench);
    tell(bench, BTL_IB_EVENT_BROKEN, 0);
    bench_run(bench, 10 * SECOND);
    bench_send(bench, 0, 1, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    for (int i = 0; i <= BTL_IB_DEATH_DEVICE; i++) {
        assert_int_equal(bench->hosts[0].deaths[i], 0);
    }
    end(bench);
}

/* ---- FAILED ---- */

/* A device that is gone does not come back, whatever else it says before it is polled for the last
 * time: nothing waits for it, and its peers were reported. */
TEST(a_failed_device_goes_down)
{
    static const int errors[] = {ENETDOWN, EADDRNOTAVAIL};

    for (int i = 0; i < 2; i++) {
        bench_t *bench = new_bench();
        acquaint(bench);
        bench_rail_t *rail = &bench->hosts[0].rails[0];
        rail->failure = true;
        rail->error = errors[i];
        tell(bench, BTL_IB_EVENT_DOWN, 0);
        assert_false(rail->failure);
        assert_false(rail->news);
        assert_true(bench_rail_failed(&bench->hosts[0], 0));
        assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_DEVICE], 1);
        tell(bench, BTL_IB_EVENT_UP, 0);
        assert_true(bench_rail_failed(&bench->hosts[0], 0));
        assert_true(rail->news); /* nobody asks any more */
        end(bench);
    }
}

UNIT_MAIN(NULL, NULL)
