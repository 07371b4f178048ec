/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Engines over a transport that loses nothing while its connections last (verbs RC). */

#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "unit.h"

/* Two hosts that have nothing to do with each other yet. */
static bench_t *unknown_peers(void)
{
    bench_t *bench = new_bench();

    for (uint32_t i = 0; i < 2; i++) {
        bench->hosts[i].attr.reliable = true;
        strcpy(bench->hosts[i].queues, "P,256,64:P,1024,64");
        bench_start(bench, i);
    }
    return bench;
}

static bench_t *reliable_job(void)
{
    bench_t *bench = unknown_peers();

    bench_send(bench, 0, 1, 20, 1);
    bench_send(bench, 1, 0, 600, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    return bench;
}

static bool loses_from_0(bench_t *bench, const bench_datagram_t *datagram)
{
    return datagram->source == bench_address(0, 0);
}

static bool loses_channel_1(bench_t *bench, const bench_datagram_t *datagram)
{
    const btl_ib_wire_header_t *header =
        (const btl_ib_wire_header_t *) (const void *) datagram->data;

    return datagram->source == bench_address(0, 0) && (header->channels & 0xf) == 1
           && (header->version_type & 0xf) != BTL_IB_TYPE_ACK;
}

static void break_connection(bench_t *bench, uint32_t host, uint32_t peer)
{
    bench->hosts[host].rails[0].refused = bench_address(peer, 0);
    bench->hosts[host].rails[0].broken = true;
    bench_turn(bench, host);
}

/* A peer that does not answer computes: it is asked after rto_max, not after two round trips, then
 * after twice as much each time, at last each 16 rto_max. */
TEST(patient)
{
    bench_t *bench = reliable_job();
    const uint64_t probes = bench_counters(bench, 0)->sent_probes;
    const uint64_t timeouts = bench_counters(bench, 0)->timeouts;
    const uint64_t longest = bench->hosts[0].config.rto_max;

    bench->loses = loses_from_0;
    bench_send(bench, 0, 1, 20, 1);
    bench_run(bench, longest - 1000);
    assert_int_equal(bench_counters(bench, 0)->sent_probes, probes);
    bench_run(bench, 14 * longest); /* at 1, 3, 7 */
    assert_int_equal(bench_counters(bench, 0)->sent_probes - probes, 3);
    assert_int_equal(bench_counters(bench, 0)->timeouts - timeouts, 2);
    bench_run(bench, 16 * longest); /* 15 */
    assert_int_equal(bench_counters(bench, 0)->sent_probes - probes, 4);
    bench_run(bench, 32 * longest); /* 31, 47 */
    assert_int_equal(bench_counters(bench, 0)->sent_probes - probes, 6);
    bench->loses = NULL;
    end_settled(bench, 17 * longest);
}

/* A peer that answered slowly before is given as much time again, then twice as much each time, but
 * never more than 16 rto_max. */
TEST(patient_with_the_slow)
{
    bench_t *bench = reliable_job();
    const uint64_t longest = bench->hosts[0].config.rto_max;

    bench_set_srtt(bench, 0, 1, (uint32_t) (3 * longest));
    const uint64_t probes = bench_counters(bench, 0)->sent_probes;
    bench->loses = loses_from_0;
    bench_send(bench, 0, 1, 20, 1);
    bench_run(bench, 3 * longest - 1000);
    assert_int_equal(bench_counters(bench, 0)->sent_probes, probes);
    bench_run(bench, 2 * longest);
    assert_int_equal(bench_counters(bench, 0)->sent_probes, probes + 1);
    bench_run(bench, 34 * longest); /* at 9, 21, 37 */
    assert_int_equal(bench_counters(bench, 0)->sent_probes, probes + 4);
    end(bench);
}

/* One that had no room for an unknown peer said nothing: it is asked each rto_max. */
TEST(unknown_peers_ask_on)
{
    bench_t *bench = unknown_peers();
    const uint64_t longest = bench->hosts[0].config.rto_max;

    bench->loses = loses_from_0;
    bench_send(bench, 0, 1, 20, 1);
    bench_run(bench, 10 * longest + longest / 2);
    assert_int_equal(bench_counters(bench, 0)->sent_probes, 10);
    bench->loses = NULL;
    end_settled(bench, 2 * longest);
}

/* Channels overtake each other: what arrived of one says nothing of another. */
TEST(channels_overtake)
{
    bench_t *bench = reliable_job();

    bench->loses = loses_channel_1; /* it is only late */
    bench_send(bench, 0, 1, 600, 1);
    bench->loses = loses_channel_1;
    bench_run(bench, 100);
    for (int i = 0; i < 10; i++) {
        bench_send(bench, 0, 1, 20, 1);
        bench_run(bench, 1000);
    }
    assert_int_equal(bench_counters(bench, 0)->losses, 0);
    assert_int_equal(bench_counters(bench, 0)->retransmits, 0);
    bench->loses = NULL;
    end_settled(bench, SECOND);
}

/* With its connection all in flight is lost, and sent again at once. */
TEST(broken_with_segments_in_flight)
{
    bench_t *bench = reliable_job();

    bench->loses = loses_from_0;
    for (int i = 0; i < 5; i++) {
        bench_send(bench, 0, 1, 600, 1);
        bench_send(bench, 0, 1, 20, 1);
    }
    bench_run(bench, 1000);
    bench->loses = NULL;
    break_connection(bench, 0, 1);
    const uint64_t begun = bench->now;
    assert_true(bench_settle(bench, SECOND));
    assert_true(bench->now - begun < 10000);
    assert_true(bench_counters(bench, 0)->retransmits >= 5);
    each_delivered_once(bench);
    assert_false(bench_peer(bench, 0, 1).disconnected);
    end(bench);
}

/* A process that only waits asks, too: a peer that lives says so. */
TEST(broken_while_waiting)
{
    bench_t *bench = reliable_job();
    const uint64_t probes = bench_counters(bench, 0)->sent_probes;

    break_connection(bench, 0, 1);
    assert_true(bench_peer(bench, 0, 1).disconnected);
    bench_run(bench, 20000);
    assert_in_range(bench_counters(bench, 0)->sent_probes - probes, 1, 2);
    assert_false(bench_peer(bench, 0, 1).disconnected);
    end(bench);
}

/* One that died is refused often enough to be believed. */
TEST(broken_by_death)
{
    bench_t *bench = reliable_job();
    uint64_t probes = bench_counters(bench, 0)->sent_probes;

    bench->loses = loses_from_0;
    break_connection(bench, 0, 1);
    for (int i = 0; i < 1000 && bench->hosts[0].deaths[BTL_IB_DEATH_REFUSED] == 0; i++) {
        bench_run(bench, 1000);
        if (bench_counters(bench, 0)->sent_probes != probes) { /* each question is refused */
            probes = bench_counters(bench, 0)->sent_probes;
            bench->hosts[0].rails[0].refusal = true;
            bench_turn(bench, 0);
        }
    }
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_REFUSED], 1);
    end(bench);
}

/* One that is silent computes: the questions end. */
TEST(broken_and_silent)
{
    bench_t *bench = reliable_job();

    bench->loses = loses_from_0;
    break_connection(bench, 0, 1);
    bench_run(bench, 2 * SECOND);
    const uint64_t probes = bench_counters(bench, 0)->sent_probes;
    bench_run(bench, 100 * SECOND);
    assert_int_equal(bench_counters(bench, 0)->sent_probes, probes);
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_SILENCE], 0);
    end(bench);
}

UNIT_MAIN(NULL, NULL)
