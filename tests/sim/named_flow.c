/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios of one flow (a 5-tuple) that leads nowhere from some time on, while others between the
 * same two processes are healthy. */

#include "named.h"

enum { FLOWS = 3 };

static void begin(sim_t *sim)
{
    two(sim);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].attr.flows = FLOWS;
    }
    start_warm(sim);
}

/* From now on flow `flow` of p`from` leads nowhere. */
static fault_t *kill_flow(sim_t *sim, int from, uint32_t flow)
{
    fault_t *fault = fault_add(sim, F_FLOW, 0, SIM_NEVER, 0, flow);

    fault->src = from;
    return fault;
}

/* Messages of all lengths from p0, one each ms, for `time`; the first that is late is an error. */
static void talk(sim_t *sim, uint64_t time, uint64_t bound)
{
    const uint32_t first = sim->nmessages;

    for (uint64_t at = 0; at < time; at += SIM_MS(1)) {
        say(sim, 0, 1, at % SIM_MS(3) == 0 ? 60000 : 100, at);
    }
    run_settle(sim, time + SIM_S(2));
    must_be_within(sim, "a message took ns", slowest(sim, first), bound);
}

static void end(sim_t *sim)
{
    run_heal(sim);
    finish(sim);
}

static void must_have_left(sim_t *sim, uint32_t proc, uint64_t times)
{
    must_be_at_least(sim, "flows left", sim_counters(sim, proc)->flows_left, times);
    must_be_within(sim, "flows left", sim_counters(sim, proc)->flows_left, times);
}

/* Only its sender can find that out. */
void flow_dies(sim_t *sim)
{
    begin(sim);
    (void) kill_flow(sim, 0, 0);
    talk(sim, SIM_S(2), SIM_MS(20));
    must_have_left(sim, 0, 1);
    must_have_left(sim, 1, 0);
    end(sim);
}

/* What p1 sends is nothing but answers. */
void flow_of_answers_dies(sim_t *sim)
{
    begin(sim);
    (void) kill_flow(sim, 1, 0);
    talk(sim, SIM_S(2), SIM_MS(60));
    must_have_left(sim, 1, 1);
    end(sim);
}

void flows_of_both_die(sim_t *sim)
{
    begin(sim);
    (void) kill_flow(sim, 0, 0);
    (void) kill_flow(sim, 0, 1);
    (void) kill_flow(sim, 1, 0);
    talk(sim, SIM_S(2), SIM_MS(100));
    must_have_left(sim, 0, 1);
    must_have_left(sim, 1, 1);
    end(sim);
}

/* The usual flow is used again, once it leads there. */
void flow_comes_back(sim_t *sim)
{
    begin(sim);
    fault_t *fault = kill_flow(sim, 0, 0);
    talk(sim, SIM_MS(500), SIM_MS(20));
    fault->to = sim->now;
    sim_run_until(sim, sim->now + SIM_S(8));
    talk(sim, SIM_MS(500), SIM_MS(1));
    (void) kill_flow(sim, 0, 1);
    (void) kill_flow(sim, 0, 2);
    talk(sim, SIM_MS(500), SIM_MS(1));
    must_have_left(sim, 0, 1);
    end(sim);
}

/* A first contact meets a flow that never led there. */
void flow_never_led(sim_t *sim)
{
    two(sim);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].attr.flows = FLOWS;
    }
    run_start(sim);
    (void) kill_flow(sim, 0, 0);
    (void) kill_flow(sim, 1, 0);
    say(sim, 0, 1, 100, 1000);
    say(sim, 1, 0, 60000, SIM_MS(1));
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "the first messages took ns", slowest(sim, 0), SIM_MS(1000));
    end(sim);
}

/* First contacts with several peers at once: probes that had to wait for the budget of copies take
 * another flow as well. */
void flow_never_led_to_many(sim_t *sim)
{
    enum { PEERS = 5 };

    sim_procs(sim, PEERS + 1, 1);
    run_defaults(sim);
    sim->delay = SIM_US(10);
    for (uint32_t i = 0; i <= PEERS; i++) {
        sim->procs[i].attr.flows = FLOWS;
    }
    run_start(sim);
    (void) kill_flow(sim, 0, 0);
    for (uint32_t i = 1; i <= PEERS; i++) {
        say(sim, 0, i, 100, 1000);
    }
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "the first messages took ns", slowest(sim, 0), SIM_MS(1000));
    end(sim);
}

/* A peer that computes leaves each flow unanswered alike: no flow is left for it. */
void flow_to_peer_that_computes(sim_t *sim)
{
    begin(sim);
    for (uint64_t i = 0; i < 100; i++) {
        proc_compute(&sim->procs[1], sim->now + SIM_MS(1 + i * 7 % 40));
        say(sim, 0, 1, i % 2 == 0 ? 100 : 20000, 1000);
        run_settle(sim, SIM_MS(100));
    }
    must_have_left(sim, 0, 0);
    must_have_left(sim, 1, 0);
    finish(sim);
}

/* A first contact over two rails: nothing of `mute` arrives over one, and its usual flow is dead over
 * both. It is asked over one every 20 ms, over the other less often, and follows: to where nothing of
 * its own arrives, and to where it must not begin with the dead flow each time. */
static void flow_never_led_beside(sim_t *sim, uint32_t rail, uint32_t mute)
{
    sim_procs(sim, 2, 2);
    run_defaults(sim);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].attr.flows = FLOWS;
        sim->procs[i].config.rto_initial = 50000;
        sim->procs[i].config.idle_after = 20000;
    }
    sim->survives = true;
    run_start(sim);
    fault_add(sim, F_RAIL, 0, SIM_NEVER, 0, rail)->src = (int) mute;
    (void) kill_flow(sim, (int) mute, 0);
    for (uint32_t i = 0; i < 2; i++) {
        say(sim, 1 - mute, mute, 100, 1000)->rail = i;
        say(sim, mute, 1 - mute, 100, 1000)->rail = i;
    }
    run_settle(sim, SIM_S(8));
    must_be_within(sim, "the first messages took ns", slowest(sim, 0), SIM_S(1));
    end(sim);
}

void flow_never_led_beside_rail(sim_t *sim)
{
    for (uint32_t how = 0; how < 4; how++) {
        if (how > 0) {
            again(sim, how);
        }
        flow_never_led_beside(sim, how & 1, how >> 1);
    }
}

/* A rail dies in both directions, and the usual flow of the other one has been dead for its sender
 * since nothing goes by it: who asks over that by the usual flow only is never answered. */
void flow_dies_of_rail_that_is_asked(sim_t *sim)
{
    sim_procs(sim, 2, 2);
    run_defaults(sim);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].attr.flows = FLOWS;
    }
    sim->survives = true;
    run_start(sim);
    for (uint32_t i = 0; i < 4; i++) {
        say(sim, i % 2, 1 - i % 2, 100, SIM_MS(i))->rail = i / 2;
    }
    sim_run_until(sim, sim->now + SIM_MS(50)); /* nothing is in flight over either */
    fault_add(sim, F_RAIL, 0, SIM_NEVER, 0, 0);
    (void) kill_flow(sim, 0, 0);
    say(sim, 0, 1, 100, 1000)->rail = 0;
    run_settle(sim, SIM_S(8));
    must_be_within(sim, "a message took ns", slowest(sim, 4), SIM_S(2));
    end(sim);
}

/* ---- one of two lanes ---- */

enum { LATENCY_LANE, BULK_LANE };

/* From now on a lane's pair of ports leads nowhere, from p0 to p1 or both ways. */
static void kill_pair(sim_t *sim, uint32_t lane, bool both)
{
    fault_t *fault = fault_add(sim, F_PAIR, 0, SIM_NEVER, 0, lane);

    fault->src = both ? -1 : 0;
}

/* Short messages both ways and so often that bulk has its own lane, and that, for `time`. Of a
 * `busy` host each process has no processor for 2 of 20 ms. */
static void talk_and_stream(sim_t *sim, uint64_t time, bool busy)
{
    for (uint64_t at = 0; at < time; at += SIM_US(250)) {
        say(sim, 0, 1, 100, at);
        say(sim, 1, 0, 100, at + SIM_US(30));
        if (at % SIM_MS(5) == 0) {
            say(sim, 0, 1, 60000, at);
        }
    }
    const uint64_t end = sim->now + time;
    for (uint32_t i = 0; sim->now < end; i++) {
        sim_run_until(sim, sim->now + SIM_MS(10));
        if (busy) {
            proc_compute(&sim->procs[i % 2], sim->now + SIM_MS(2));
        }
    }
}

/* A lane's pair of ports leads nowhere, from the start or in mid-job, while both lanes are used:
 * no message takes longer than `bound`. */
static void lane_dies(sim_t *sim, uint32_t lane, bool both, bool start, bool busy, uint64_t bound)
{
    two(sim);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].attr.flows = FLOWS;
        sim->procs[i].attr.bulk_lane = true;
    }
    run_start(sim);
    if (!start) {
        warm_up(sim, 0, 1);
        talk_and_stream(sim, SIM_MS(50), busy);
    }
    kill_pair(sim, lane, both);
    const uint32_t first = sim->nmessages;
    talk_and_stream(sim, SIM_MS(1500), busy);
    run_settle(sim, SIM_S(5));
    must_have_left(sim, 0, 1);
    must_be_within(sim, "a message took ns", slowest(sim, first), bound);
    end(sim);
}

static void lane_dies_always(sim_t *sim, uint32_t lane)
{
    for (uint32_t how = 0; how < 8; how++) {
        if (how > 0) {
            again(sim, how);
        }
        lane_dies(sim, lane, how & 1, how & 2, how & 4, SIM_MS(250));
    }
}

void latency_lane_dies(sim_t *sim)
{
    lane_dies_always(sim, LATENCY_LANE);
}

void bulk_lane_dies(sim_t *sim)
{
    lane_dies_always(sim, BULK_LANE);
}

/* The end of bulk is lost while short messages go on: it does not wait for these to end. */
void bulk_tail_lost(sim_t *sim)
{
    two(sim);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].attr.flows = FLOWS;
        sim->procs[i].attr.bulk_lane = true;
    }
    start_warm(sim);
    const uint32_t first = sim->nmessages;
    fault_t *fault =
        fault_add(sim, F_PAIR, sim->now + SIM_MS(5), sim->now + SIM_MS(6), 0, BULK_LANE);
    fault->src = 0;
    say(sim, 0, 1, 60000, SIM_MS(5));
    for (uint64_t at = 0; at < SIM_MS(500); at += SIM_US(100)) {
        say(sim, 0, 1, 100, at);
        say(sim, 1, 0, 100, at + SIM_US(30));
    }
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "a message took ns", slowest(sim, first), SIM_MS(50));
    must_have_left(sim, 0, 0);
    end(sim);
}

/* ---- the spare flow ---- */

/* All pairs of ports die but those of the spare flow, of p0 only or of both ways; at once or one
 * after the other. */
static void pairs_die(sim_t *sim, uint32_t flows, bool both, bool stream, bool at_once)
{
    two(sim);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].attr.flows = (uint8_t) flows;
        sim->procs[i].attr.bulk_lane = flows > 1;
        sim->procs[i].attr.spare_flow = true;
    }
    start_warm(sim);
    kill_pair(sim, LATENCY_LANE, both);
    if (!at_once) {
        talk(sim, SIM_S(1), SIM_MS(100));
    }
    kill_pair(sim, BULK_LANE, both);
    const uint32_t first = sim->nmessages;
    if (stream) {
        talk_and_stream(sim, SIM_MS(1500), false);
        run_settle(sim, SIM_S(5));
        must_be_within(sim, "a message took ns", slowest(sim, first), SIM_MS(100));
    } else {
        talk(sim, SIM_S(2), SIM_MS(100));
    }
}

static void must_have_no_stranger(sim_t *sim)
{
    for (uint32_t i = 0; i < 2; i++) {
        must_be_within(sim, "foreign datagrams", sim_counters(sim, i)->dropped_source, 0);
        must_be_within(sim, "addresses taken", sim_counters(sim, i)->rewritten, 0);
    }
}

void flow_spare(sim_t *sim)
{
    for (uint32_t how = 0; how < 16; how++) {
        if (how > 0) {
            again(sim, how);
        }
        pairs_die(sim, how & 4 ? 1 : 3, how & 1, how & 2, how & 8);
        must_have_left(sim, 0, 1);
        must_have_left(sim, 1, how & 1);
        must_have_no_stranger(sim);
        must_be_within(sim, "challenges", sim_counters(sim, 0)->sent_challenges, 0);
        must_be_within(sim, "challenges", sim_counters(sim, 1)->sent_challenges, 0);
        end(sim);
    }
}

/* Of ports that the spare flow takes the first two of each process lead nowhere, too. */
static bool drop_first_ports(sim_t *sim, const datagram_t *d)
{
    uint64_t *last = &sim->scratch[d->from];
    uint64_t *ports = &sim->scratch[2 + d->from];

    if (d->pair != 2) {
        return false;
    }
    *ports += d->src != *last;
    *last = d->src;
    return *ports <= 2;
}

void flow_spare_dies(sim_t *sim)
{
    two(sim);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].attr.flows = FLOWS;
        sim->procs[i].attr.spare_flow = true;
    }
    start_warm(sim);
    kill_pair(sim, LATENCY_LANE, true);
    kill_pair(sim, BULK_LANE, true);
    sim->drop = drop_first_ports;
    say(sim, 0, 1, 100, 1000);
    say(sim, 1, 0, 60000, 1000);
    run_settle(sim, SIM_S(60));
    must_be_at_least(sim, "ports of p0", sim->scratch[2], 3);
    must_be_at_least(sim, "ports of p1", sim->scratch[3], 3);
    must_have_no_stranger(sim);
    sim->drop = NULL;
    end(sim);
}

/* Every flow dies: that is told after 5 s, once, although both heard each other before. */
void flows_all_die(sim_t *sim)
{
    begin(sim);
    const btl_ib_silence_t *silence = &sim->procs[0].silence;
    for (uint32_t i = 0; i < FLOWS; i++) {
        (void) kill_flow(sim, 0, i);
    }
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_MS(4900));
    must_be_within(sim, "told before 5 s", sim->procs[0].silent, 0);
    sim_run_until(sim, sim->now + SIM_S(20)); /* of each pause of ours only 50 ms count */
    must_be_within(sim, "told", sim->procs[0].silent, 1);
    must_be_at_least(sim, "told", sim->procs[0].silent, 1);
    must_be_at_least(sim, "other flows tried", silence->others_tried, 1);
    must_be_at_least(sim, "us since the last answer", silence->answered_ago, 5000000);
    must_be_at_least(sim, "us since it was heard", silence->heard_ago, 4000000);
    end(sim);
}

/* A peer is silent, by whatever flow: over udp there are seven, each of which asks twice in each
 * of two rounds, at most 16 ms apart, as any of them may be the one that leads there. From then on
 * questions are as rare as where there is one flow. */
void flows_to_silent_peer(sim_t *sim)
{
    two(sim);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].attr.flows = FLOWS;
        sim->procs[i].attr.bulk_lane = true;
        sim->procs[i].attr.spare_flow = true;
        sim->procs[i].attr.paths = 3;
    }
    start_warm(sim);
    proc_compute(&sim->procs[1], sim->now + SIM_S(5));
    const btl_ib_counters_t *count = sim_counters(sim, 0);
    const uint64_t before = count->sent_probes;
    const uint64_t copies = count->retransmits;
    say(sim, 0, 1, 100, 1000);
    sim_run_until(sim, sim->now + SIM_MS(500));
    must_be_at_least(sim, "flows tried", count->flows_tried, 14);
    must_be_within(sim, "probes in half a second", count->sent_probes - before, 30);
    must_be_within(sim, "copies in half a second", count->retransmits - copies, 20);
    sim_run_until(sim, sim->now + SIM_MS(500));
    must_be_within(sim, "probes in a second", count->sent_probes - before, 33);
    end(sim);
}
