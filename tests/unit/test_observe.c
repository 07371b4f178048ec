/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What statistics show of connections and rails. */

#include "counted.h"
#include "hostile.h"
#include "unit.h"

/* Is there a description of each, and no name twice? */
static void described(const btl_ib_counter_info_t *table)
{
    for (const btl_ib_counter_info_t *info = table; info->name != NULL; info++) {
        assert_true(strlen(btl_ib_counter_text(info)) > 8);
        for (const btl_ib_counter_info_t *other = table; other != info; other++) {
            assert_string_not_equal(info->name, other->name);
        }
    }
}

TEST(descriptions)
{
    described(btl_ib_counter_infos);
    described(btl_ib_conn_counter_infos);
    described(btl_ib_rail_counter_infos);
    described(btl_ib_conn_level_infos);
    /* The description of another table's counter. */
    assert_string_equal(btl_ib_counter_text(&btl_ib_conn_counter_infos[0]),
                        "sequenced segments sent for the first time");
}

static bool loses_some(bench_t *bench, const bench_datagram_t *datagram)
{
    return ++bench->scratch[0] % 7 == 0;
}

/* With losses, what peers and rails count adds up; when a connection has ended its rail keeps
 * it. */
TEST(sums)
{
    bench_t *bench = new_bench();

    acquaint(bench);
    bench->loses = loses_some;
    talk(bench, 20);
    bench->loses = NULL;
    const btl_ib_engine_t *engine = bench->hosts[0].engine;
    const btl_ib_counters_t *all = bench_counters(bench, 0);
    const btl_ib_conn_t *conn = btl_ib_engine_next_conn(engine, NULL);
    assert_ptr_equal(conn, bench_conn(bench, 0, 1));
    assert_null(btl_ib_engine_next_conn(engine, conn));
    assert_true(all->retransmits > 0 && all->losses > 0 && all->dropped_duplicate > 0);
    assert_int_equal(btl_ib_conn_counters(conn).retransmits, all->retransmits);
    assert_int_equal(btl_ib_conn_counters(conn).received_bytes, all->received_bytes);
    assert_null(bench_miscounted(engine));

    const btl_ib_conn_levels_info_t levels = btl_ib_conn_levels(conn);
    assert_int_equal(levels.srtt, bench_peer(bench, 0, 1).srtt);
    assert_true(levels.srtt > 0 && levels.rto >= bench->hosts[0].config.rto_min);
    assert_int_equal(levels.datagram_max, bench_peer(bench, 0, 1).datagram_max);
    assert_int_equal(levels.in_flight, 0);

    btl_ib_conn_destroy(bench_conn(bench, 0, 1), bench->now);
    bench_run(bench, 10000);
    assert_null(btl_ib_engine_next_conn(engine, NULL));
    assert_null(bench_miscounted(engine));
    end(bench);
}

/* Where a transport takes a datagram from one place only, each byte is copied once by each side. */
TEST(copies)
{
    bench_t *bench = new_bench();

    bench->hosts[0].attr.max_iov = 1;
    acquaint(bench);
    const uint64_t out = bench_counters(bench, 0)->copied_out;
    const uint64_t in = bench_counters(bench, 1)->copied_in;
    bench_send(bench, 0, 1, 5000, 1);
    assert_true(bench_settle(bench, SECOND));
    assert_int_equal(bench_counters(bench, 0)->copied_out - out, 5000);
    assert_int_equal(bench_counters(bench, 1)->copied_in - in, 5000);
    end(bench);
}

UNIT_MAIN(NULL, NULL)
