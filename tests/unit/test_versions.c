/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Processes that speak different versions of datagrams. The parser of this program knows versions 1
 * and 2 (tests/local.mk), which differ in nothing else.
 */

#include <stdlib.h>
#include <string.h>

#include <errno.h>

#include "bench.h"
#include "unit.h"

static const btl_ib_versions_t first = {1, 1}, both = {1, 2}, second = {2, 2};

/* Datagrams of each version that each host sent. */
static uint32_t seen[BENCH_HOSTS][16];

static bool note_version(bench_t *bench, const bench_datagram_t *datagram)
{
    seen[datagram->source / BENCH_RAILS][datagram->data[0] >> 4]++;
    return false;
}

/* Two hosts that run. */
static void begin(bench_t *bench, btl_ib_versions_t a, btl_ib_versions_t b)
{
    bench_init(bench, 16);
    memset(seen, 0, sizeof(seen));
    bench->loses = note_version;
    bench->hosts[0].config.wire = a;
    bench->hosts[1].config.wire = b;
    bench_start(bench, 0);
    bench_start(bench, 1);
}

/* protocol: R75 */
TEST(test_common)
{
    static const btl_ib_versions_t none = {0, 0}, later = {3, 4};

    assert_int_equal(btl_ib_versions_common(first, first), 1);
    assert_int_equal(btl_ib_versions_common(first, both), 1);
    assert_int_equal(btl_ib_versions_common(both, first), 1);
    assert_int_equal(btl_ib_versions_common(both, both), 2);
    assert_int_equal(btl_ib_versions_common(first, second), 0);
    assert_int_equal(btl_ib_versions_common(both, later), 0);
    assert_int_equal(btl_ib_versions_common(none, both), 0);
    assert_int_equal(btl_ib_versions_here().oldest, 1);
    assert_int_equal(btl_ib_versions_here().newest, 2);
}

/* Messages of one segment and of many both ways, in the newest version that both speak. */
static void test_pair(btl_ib_versions_t a, btl_ib_versions_t b, uint32_t version)
{
    bench_t bench;

    begin(&bench, a, b);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_not_equal(bench_send(&bench, i % 2, 1 - i % 2, 16 + 1200 * i, 1), UINT32_MAX);
    }
    assert_true(bench_settle(&bench, 100000));
    for (uint32_t host = 0; host < 2; host++) {
        assert_true(seen[host][version] > 0);
        assert_int_equal(seen[host][3 - version], 0);
        assert_int_equal(bench_counters(&bench, host)->dropped_version, 0);
    }
    bench_fini(&bench);
}

TEST(test_pairs)
{
    test_pair(first, first, 1);
    test_pair(first, both, 1);
    test_pair(both, first, 1);
    test_pair(both, both, 2);
    test_pair(both, second, 2);
}

TEST(test_none_in_common)
{
    bench_t bench;
    btl_ib_conn_t *conn;

    begin(&bench, first, second);
    const btl_ib_peer_info_t info = bench_info(&bench, 1, 0);
    assert_int_equal(btl_ib_conn_create(bench.hosts[0].engine, 0, &info, NULL, &conn), -EINVAL);
    bench_fini(&bench);
}

/* What is not of the version that is spoken is thrown away, whether its sender is known or not, and
 * changes nothing. */
TEST(test_other_version)
{
    bench_t bench;

    begin(&bench, first, both);
    bench.taping = true;
    assert_int_not_equal(bench_send(&bench, 0, 1, 16, 1), UINT32_MAX);
    bench_datagram_t *contact = bench_pop(&bench.tape);
    assert_non_null(contact);
    contact->data[0] ^= 0x30; /* version 2 */
    bench_throw(&bench, 1, contact->source, contact->data, contact->size);
    assert_int_equal(bench_counters(&bench, 1)->dropped_version, 1);
    assert_null(bench_conn(&bench, 1, 0));
    assert_true(bench_settle(&bench, 100000));
    bench_throw(&bench, 1, contact->source, contact->data, contact->size);
    assert_int_equal(bench_counters(&bench, 1)->dropped_version, 2);
    free(contact);

    bench_clear(&bench.tape);
    assert_int_not_equal(bench_send(&bench, 0, 1, 16, 1), UINT32_MAX);
    bench_datagram_t *later = bench_pop(&bench.tape);
    assert_non_null(later);
    later->data[0] ^= 0x30;
    bench_throw(&bench, 1, later->source, later->data, later->size);
    assert_int_equal(bench_counters(&bench, 1)->dropped_version, 3);
    later->data[0] = (uint8_t) (0x40 | (later->data[0] & 0xf)); /* that nobody here speaks */
    bench_throw(&bench, 1, later->source, later->data, later->size);
    assert_int_equal(bench_counters(&bench, 1)->dropped_version, 4);
    free(later);
    assert_true(bench_settle(&bench, 100000));
    bench_check_counters(&bench.hosts[1]);
    bench_fini(&bench);
}

UNIT_MAIN(NULL, NULL)
