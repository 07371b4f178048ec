/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios in which the address of a device changes (DHCP), or is another one for its peers (NAT):
 * they come to know it, and use it. */

#include "named.h"

#include <stdlib.h>

/* The first challenges are lost. */
static bool drop_challenges(sim_t *sim, const datagram_t *d)
{
    if (type_of(d) != BTL_IB_TYPE_PATH_RESPONSE || sim->scratch[0] == 0) {
        return false;
    }
    sim->scratch[0]--;
    return true;
}

static uint64_t rewritten(sim_t *sim)
{
    return sim_counters(sim, 0)->rewritten + sim_counters(sim, 1)->rewritten;
}

/* The first rail of a process loses its address, and gets another one once it is asked. */
static void readdress(sim_t *sim, uint32_t proc)
{
    const uint64_t before = sim_counters(sim, proc)->rebound;

    rail_lose_address(sim->procs[proc].rails[0]);
    for (uint32_t i = 0; i < 40 && sim_counters(sim, proc)->rebound == before; i++) {
        rails_in_traffic(sim);
        sim_run_until(sim, sim->now + SIM_MS(50));
    }
    must_be_within(sim, "addresses that were not followed",
                   before + 1 - sim_counters(sim, proc)->rebound, 0);
}

/* The only rail of a process: everything goes on, at whichever end it was. */
void address_changes(sim_t *sim)
{
    rails_acquainted(sim, 2, 1);
    for (uint32_t i = 0; i < 4; i++) {
        readdress(sim, i % 2);
        rails_in_traffic(sim);
        run_settle(sim, SIM_S(1));
        must_be_at_least(sim, "answered challenges", rewritten(sim), i + 1);
    }
    finish(sim);
}

void address_changes_protected(sim_t *sim)
{
    for (uint32_t kind = 0; kind < protection_kinds(); kind++) {
        protection_choose(sim, (btl_ib_protection_kind_t) kind);
        address_changes(sim);
        again(sim, kind + 2);
    }
    two(sim);
    run_defaults(sim);
    run_start(sim);
    finish(sim);
}

/* With another rail that carries everything meanwhile. */
void address_changes_of_two(sim_t *sim)
{
    rails_acquainted(sim, 2, 2);
    readdress(sim, 0);
    for (uint32_t i = 0; i < 4; i++) {
        rails_in_traffic(sim);
        sim_run_until(sim, sim->now + SIM_S(1));
    }
    run_settle(sim, SIM_S(1));
    rails_must_use_first(sim, true, "although its peer was asked from the new address");
    rails_survive(sim, SIM_S(1));
}

/* Challenges are lost, and whose address it is sends nothing else, it only waits for messages:
 * it is found all the same. */
void address_changes_unasked(sim_t *sim)
{
    rails_acquainted(sim, 2, 1);
    sim->scratch[0] = 3;
    sim->drop = drop_challenges;
    rail_lose_address(sim->procs[0].rails[0]);
    say(sim, 1, 0, 3000, 1000);
    for (uint32_t i = 0; i < 60; i++) {
        proc_wake(&sim->procs[0], sim->now);
        sim_run_until(sim, sim->now + SIM_MS(50));
    }
    must_be_within(sim, "challenges still to be lost", sim->scratch[0], 0);
    run_settle(sim, SIM_S(1));
    finish(sim);
}

static bool to_second(sim_t *sim, const datagram_t *d)
{
    return d->to == 1;
}

/* Both processes may be of one host, and bind anew at their own time: the peer's address is refused
 * until it has. For 2 s that is no death; later it is, as ever. */
void address_changes_refused(sim_t *sim)
{
    rails_acquainted(sim, 2, 1);
    readdress(sim, 0);
    const uint64_t before = sim->applied[F_REFUSED];
    sim->reject = to_second;
    say(sim, 0, 1, 3000, 1000);
    sim_run_until(sim, sim->now + SIM_MS(1700));
    must_be_at_least(sim, "refusals", sim->applied[F_REFUSED] - before, 4);
    must_be_within(sim, "connections given up", sim->applied[F_DEATH], 0);
    sim->reject = NULL;
    rails_in_traffic(sim);
    run_settle(sim, SIM_S(2));
    sim_run_until(sim, sim->now + SIM_S(2));
    const uint64_t from = sim->now;
    sim->death_ok = true;
    sim->reject = to_second;
    say(sim, 0, 1, 3000, 1000);
    while (sim->applied[F_DEATH] == 0 && sim_step(sim, from + SIM_S(4))) {
    }
    must_be_within(sim, "the death was reported after ns", sim->now - from, SIM_S(2));
    proc_stop(&sim->procs[0]);
    proc_stop(&sim->procs[1]);
}

/* It begins with a peer that knows only what was published: first contact says where it is. */
void address_changes_first_contact(sim_t *sim)
{
    two(sim);
    run_defaults(sim);
    run_start(sim);
    rail_lose_address(sim->procs[0].rails[0]);
    sim_run_until(sim, sim->now + SIM_S(1));
    say(sim, 0, 1, 3000, 1000);
    run_settle(sim, SIM_S(2));
    say(sim, 1, 0, 3000, 1000);
    run_settle(sim, SIM_S(1));
    finish(sim);
}

/* ---- routers that rewrite sources ---- */

/* Two processes whose transports name sources, not started. */
static void routable(sim_t *sim)
{
    two(sim);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].attr.knows_source = true;
    }
}

/* Messages of all sizes both ways arrive within `time`. */
static void both_talk(sim_t *sim, uint64_t time)
{
    for (uint32_t i = 0; i < 40; i++) {
        say(sim, i % 2, 1 - i % 2, i % 3 == 0 ? 60000 : 100, i * SIM_US(100));
    }
    run_settle(sim, time);
}

/* Only what a router has leads anywhere, as if it also hid its side. */
static bool hides(sim_t *sim, const datagram_t *d)
{
    return d->dst == sim->scratch[0] && d->dst < sim->addresses;
}

/* One end or both, with each kind of protection. protocol: R27 */
void sources_rewritten(sim_t *sim)
{
    for (uint32_t kind = 0; kind < protection_kinds(); kind++) {
        for (uint32_t routed = 1; routed <= 3; routed++) {
            protection_choose(sim, (btl_ib_protection_kind_t) kind);
            routable(sim);
            run_start(sim);
            for (uint32_t i = 0; i < 2; i++) {
                if (routed >> i & 1) {
                    rail_route(sim->procs[i].rails[0]);
                }
            }
            sim->scratch[0] =
                routed == 3 ? UINT32_MAX : rail_address(sim->procs[routed / 2].rails[0]);
            sim->drop = hides;
            both_talk(sim, SIM_S(1));
            must_be_at_least(sim, "answered challenges", rewritten(sim), 1);
            finish(sim);
            again(sim, 3 * kind + routed + 1);
        }
    }
    two(sim);
    run_start(sim);
    finish(sim);
}

/* A router has a new port at the same address: so does a spare flow look, but its sender answers. */
void sources_rewritten_ports(sim_t *sim)
{
    for (uint32_t end = 0; end < 2; end++) {
        routable(sim);
        sim->one_host = true;
        for (uint32_t i = 0; i < 2; i++) {
            sim->procs[i].attr.flows = 1;
            sim->procs[i].attr.spare_flow = true;
        }
        run_start(sim);
        both_talk(sim, SIM_S(1));
        sim->scratch[0] = rail_address(sim->procs[end].rails[0]);
        sim->drop = hides;
        rail_route(sim->procs[end].rails[0]);
        both_talk(sim, SIM_S(5));
        must_be_at_least(sim, "answered challenges", rewritten(sim), 1);
        finish(sim);
        again(sim, end + 2);
    }
    two(sim);
    run_start(sim);
    finish(sim);
}

void sources_rewritten_later(sim_t *sim)
{
    routable(sim);
    run_start(sim);
    both_talk(sim, SIM_S(1));
    for (uint32_t i = 0; i < 6; i++) {
        rail_t *rail = sim->procs[i % 2].rails[0];
        rail_route(rail);
        both_talk(sim, SIM_S(2));
        if (i % 3 != 0) {
            rail_unroute(rail);
            both_talk(sim, SIM_S(2));
        }
    }
    must_be_at_least(sim, "answered challenges", rewritten(sim), 2);
    finish(sim);
}

/*
 * Routers lead back only what answers, by a pair of ports that the inside has sent by. Before that,
 * what is sent to where a router has the peer begins a flow of its own, and then nothing comes in
 * by that pair but its answers (Linux' connection tracking: the two have one tuple in common).
 * Bits of pairs in `scratch`: by which each process was heard, by which it was too early.
 */
static bool is_no_answer(sim_t *sim, const datagram_t *d)
{
    const uint32_t to = 1 - d->from;
    const uint64_t pair = 1u << d->pair;
    uint64_t *heard = &sim->scratch[0];
    uint64_t *early = &sim->scratch[2];

    if (sim->now < sim->scratch[4] && ++sim->scratch[5] * 2654435761u >> 7 & 7) {
        return true;
    }
    if (d->dst == rail_address(sim->procs[to].rails[0])) {
        heard[d->from] |= early[to] & pair ? 0 : pair;
        return (early[to] & pair) != 0;
    }
    if (heard[to] & pair) {
        return false;
    }
    if (type_of(d) == BTL_IB_TYPE_PATH_RESPONSE && d->data[1] & BTL_IB_FLAG_ACK_NOW) {
        sim_fail(sim, "p%u asks by a flow that nothing came by", d->from);
    }
    early[d->from] |= pair;
    return (early[to] & pair) == 0;
}

/* Both ends send by several flows, of which few datagrams arrive at first. */
void sources_rewritten_lanes(sim_t *sim)
{
    for (uint32_t round = 0; round < 200; round++) {
        routable(sim);
        for (uint32_t i = 0; i < 2; i++) {
            sim->procs[i].attr.flows = 3;
            sim->procs[i].attr.bulk_lane = true;
        }
        run_start(sim);
        for (uint32_t i = 0; i < 2; i++) {
            rail_route(sim->procs[i].rails[0]);
        }
        memset(sim->scratch, 0, sizeof(sim->scratch));
        sim->scratch[4] = sim->now + SIM_MS(20 * round);
        sim->scratch[5] = round;
        sim->drop = is_no_answer;
        both_talk(sim, SIM_S(8));
        must_be_at_least(sim, "answered challenges", rewritten(sim), 1);
        sim->drop = NULL;
        finish(sim);
        again(sim, round + 2);
    }
    two(sim);
    run_start(sim);
    finish(sim);
}

/* A router that forgot the second process refuses what is for it, until that sends something, which
 * `scratch` tells. */
static bool forgot(sim_t *sim, const datagram_t *d)
{
    if (d->from == 1) {
        sim->scratch[0] = 1;
    }
    return d->to == 1 && sim->scratch[0] == 0;
}

/* Mappings that expire while nothing is sent: refusals by a router are no death, however long they
 * last, and all arrives once the peer sends something. If it is gone, its silence says so. */
void sources_rewritten_forgotten(sim_t *sim)
{
    routable(sim);
    sim->procs[0].config.silence_limit = 4000000;
    run_start(sim);
    rail_route(sim->procs[1].rails[0]);
    both_talk(sim, SIM_S(1));
    must_be_at_least(sim, "answered challenges", rewritten(sim), 1);
    for (uint32_t i = 0; i < 4; i++) {
        sim_run_until(sim, sim->now + SIM_S(5));
        const uint64_t before = sim->applied[F_REFUSED];
        sim->scratch[0] = 0;
        sim->reject = forgot;
        say(sim, 0, 1, 3000, 1000);
        sim_run_until(sim, sim->now + SIM_S(1));
        must_be_at_least(sim, "refusals", sim->applied[F_REFUSED] - before, 3);
        must_be_within(sim, "connections given up", sim->applied[F_DEATH], 0);
        say(sim, 1, 0, 3000, 1000);
        run_settle(sim, SIM_S(2));
        sim->reject = NULL;
    }
    proc_stop(&sim->procs[1]);
    sim->death_ok = true;
    sim->refuses = true;
    say(sim, 0, 1, 3000, 1000);
    const uint64_t from = sim->now;
    while (sim->applied[F_DEATH] == 0 && sim_step(sim, from + SIM_S(10))) {
    }
    must_be_at_least(sim, "ns until it was dead", sim->now - from, SIM_S(3));
    must_be_within(sim, "connections not given up", 1 - sim->applied[F_DEATH], 0);
    proc_stop(&sim->procs[0]);
}

static bool record_paths(sim_t *sim, const datagram_t *d)
{
    if (type_of(d) == BTL_IB_TYPE_PATH_RESPONSE && sim->scratch[0] < 7) {
        sim->scratch[++sim->scratch[0]] = (uintptr_t) net_copy(d);
    }
    return false;
}

/* Of the challenges and answers of two processes behind routers nothing is good from elsewhere. */
void sources_rewritten_replayed(sim_t *sim)
{
    routable(sim);
    run_start(sim);
    sim->drop = record_paths;
    rail_route(sim->procs[0].rails[0]);
    both_talk(sim, SIM_S(1));
    sim->drop = NULL;
    must_be_at_least(sim, "challenges and answers", sim->scratch[0], 2);
    const uint64_t before = rewritten(sim);
    for (uint32_t i = 1; i <= sim->scratch[0]; i++) {
        datagram_t *d = (datagram_t *) (uintptr_t) sim->scratch[i];
        sim_run_until(sim, sim->now + SIM_MS(300)); /* so that nobody is heard any more */
        d->src = UINT32_MAX;
        net_again(sim, d);
        sim_run_until(sim, sim->now + SIM_MS(10));
        both_talk(sim, SIM_S(1));
        free(d);
    }
    must_be_within(sim, "answered challenges", rewritten(sim) - before, 0);
    finish(sim);
}
