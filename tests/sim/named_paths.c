/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios of bulk that may leave by several flows (5-tuples) at once. */

#include <stdio.h>

#include "named.h"

enum {
    PATHS = 4,
    LINK = 10000, /* Mbit/s */
    CAP = 400,    /* Mbit/s, of each flow */
    BUCKET = 256 << 10,
    LARGE = 65536,
    SLOW = 100, /* Mbit/s, of a link that loses nothing */
};

static void begin_joined(sim_t *sim, uint32_t paths, uint32_t joined)
{
    sim_procs(sim, 2, 1);
    run_defaults(sim);
    for (uint32_t i = 0; i < 2; i++) {
        proc_t *proc = &sim->procs[i];
        snprintf(proc->queues, sizeof(proc->queues), "P,256,256,128,32:S,65536,4096,2048,2048");
        proc->attr.flows = 1;
        proc->attr.spare_flow = true;
        proc->attr.paths = (uint8_t) (paths - 1);
        proc->attr.gso_bytes = joined;
        proc->attr.max_batch = 64;
    }
    sim->delay = SIM_US(50);
    sim->spine_dead = -1;
    sim->events_max = UINT64_MAX;
    links_make(sim, LINK, LINK, 4 << 20);
    start_warm(sim);
}

static void begin(sim_t *sim, uint32_t paths)
{
    begin_joined(sim, paths, 0);
}

/* Of the two links of the spine, the one that the usual flow takes. */
static uint32_t usual_link(const sim_t *sim)
{
    const datagram_t usual = {
        .src = rail_address(sim->procs[0].rails[0]),
        .dst = rail_address(sim->procs[1].rails[0]),
    };

    return links_spine(sim, &usual);
}

static void stream_bulk(sim_t *sim)
{
    for (uint32_t i = 0; i < 16; i++) {
        say(sim, 0, 1, LARGE, 1000)->chain = UINT32_MAX;
    }
}

/* Streams for `time` more; returns how many Mbit/s arrived. */
static uint64_t rate_of(sim_t *sim, uint64_t time)
{
    const uint64_t before = sim_counters(sim, 1)->received_bytes;

    sim_run_until(sim, sim->now + time);
    return (sim_counters(sim, 1)->received_bytes - before) * 8000 / time;
}

/* The longest that a message took, or has taken so far, of those from number `from` on. */
static uint64_t longest(const sim_t *sim, uint32_t from)
{
    uint64_t worst = 0;

    for (uint32_t i = from; i < sim->nmessages; i++) {
        const message_t *m = &sim->messages[i];
        const uint64_t end = m->delivered_at != 0 ? m->delivered_at : sim->now;
        const uint64_t time = m->accepted_at != 0 ? end - m->accepted_at : 0;
        worst = time > worst ? time : worst;
    }
    return worst;
}

static void stop(sim_t *sim)
{
    sim->stopping = true;
    sim->cap.rate = 0;
    run_heal(sim);
    finish(sim);
}

static uint64_t rate_with(sim_t *sim, uint32_t paths)
{
    begin(sim, paths);
    sim->cap = (cap_t){.rate = CAP, .bytes = BUCKET};
    stream_bulk(sim);
    sim_run_until(sim, sim->now + SIM_MS(500));
    const uint64_t rate = rate_of(sim, SIM_MS(500));
    must_be_within(sim, "paths kept", sim_counters(sim, 0)->paths_kept, paths - 1);
    must_be_at_least(sim, "paths kept", sim_counters(sim, 0)->paths_kept, paths - 1);
    stop(sim);
    return rate;
}

void paths_capped(sim_t *sim)
{
    const uint64_t one = rate_with(sim, 1);

    again(sim, 1);
    must_be_at_least(sim, "Mbit/s", rate_with(sim, PATHS), one * 7 / 2);
}

/* Bulk goes by one flow most of the time: a link that loses at random, one with a short queue, and
 * one that is slow for all carry no more by several. */
void paths_not_capped(sim_t *sim)
{
    static const uint64_t times[] = {SIM_MS(300), SIM_S(1), SIM_S(2), SIM_S(2)};

    for (uint32_t how = 0; how < 4; how++) {
        if (how > 0) {
            again(sim, how);
        }
        begin(sim, PATHS);
        if (how == 1) {
            fault_add(sim, F_LOSS, 0, SIM_NEVER, 50000, 0);
        } else if (how == 2) {
            sim->core = (wire_t){.rate = LINK / 10, .queue = 64 << 10};
        } else if (how == 3) {
            sim->core = (wire_t){.rate = SLOW};
        }
        stream_bulk(sim);
        (void) rate_of(sim, times[how]);
        must_be_within(sim, "paths kept", sim_counters(sim, 0)->paths_kept, 0);
        must_be_within(sim, "paths tried", sim_counters(sim, 0)->paths_tried, how < 3 ? how : 2);
        stop(sim);
    }
}

/* A connection ends while it has several paths: nothing of them is left. */
void paths_end(sim_t *sim)
{
    begin(sim, PATHS);
    sim->cap = (cap_t){.rate = CAP, .bytes = BUCKET};
    stream_bulk(sim);
    sim_run_until(sim, sim->now + SIM_MS(300));
    must_be_at_least(sim, "paths kept", sim_counters(sim, 0)->paths_kept, 1);
    sim->stopping = true;
    end_connection(sim, 0, 1000, DESTROYED);
    sim_run_until(sim, sim->now + SIM_MS(50));
    stop(sim);
}

/* Loses what leaves from the address that path 1 had first, and, after that, by the usual flow. */
static bool drop_path(sim_t *sim, const datagram_t *d)
{
    if (d->from != 0) {
        return false;
    }
    if (d->pair == 3 && sim->scratch[0] == 0) {
        sim->scratch[0] = d->src;
    }
    return (sim->scratch[1] >= 1 && d->pair == 3 && d->src == sim->scratch[0])
           || (sim->scratch[1] >= 2 && d->pair < 2);
}

void path_dies(sim_t *sim)
{
    begin(sim, PATHS);
    sim->cap = (cap_t){.rate = CAP, .bytes = BUCKET};
    sim->drop = drop_path;
    stream_bulk(sim);
    sim_run_until(sim, sim->now + SIM_MS(500));
    const uint64_t all = rate_of(sim, SIM_MS(500));
    uint32_t first = sim->nmessages;
    sim->scratch[1] = 1;
    (void) rate_of(sim, SIM_MS(500));
    must_be_within(sim, "a message took ns", longest(sim, first), SIM_MS(100));
    must_be_at_least(sim, "paths renewed", sim_counters(sim, 0)->paths_renewed, 1);
    must_be_at_least(sim, "Mbit/s by another port", rate_of(sim, SIM_MS(500)), all * 9 / 10);
    first = sim->nmessages;
    sim->scratch[1] = 2;
    for (uint64_t at = 0; at < SIM_MS(500); at += SIM_MS(1)) {
        say(sim, 0, 1, 100, at);
    }
    (void) rate_of(sim, SIM_MS(500));
    must_be_within(sim, "a message took ns", longest(sim, first), SIM_MS(200));
    must_be_at_least(sim, "Mbit/s without the usual one", rate_of(sim, SIM_MS(500)), all * 7 / 10);
    sim->drop = NULL;
    stop(sim);
}

/* Each flow takes one of two links. The usual one takes the fast link; a path that takes the slow
 * one is no use, and gets another port. */
void paths_of_spine(sim_t *sim)
{
    begin(sim, PATHS);
    const uint32_t fast = usual_link(sim);
    sim->cap = (cap_t){.rate = CAP, .bytes = BUCKET};
    sim->spine[fast] = (wire_t){.rate = LINK, .queue = 256 << 10};
    sim->spine[1 - fast] = (wire_t){.rate = CAP / 10, .queue = 256 << 10};
    stream_bulk(sim);
    sim_run_until(sim, sim->now + SIM_S(4));
    must_be_at_least(sim, "Mbit/s beside a slow link", rate_of(sim, SIM_MS(500)), 2 * CAP);
    const uint32_t first = sim->nmessages;
    sim->spine_dead = (int) (1 - fast);
    must_be_at_least(sim, "Mbit/s beside a dead link", rate_of(sim, SIM_MS(500)), 2 * CAP);
    must_be_within(sim, "a message took ns", longest(sim, first), SIM_MS(200));
    sim->spine_dead = -1;
    stop(sim);
}

/* The usual flow takes the slow one of two links, which loses nothing: bulk leaves it for another
 * one. Where each port leads, and so how many are tried, is the seed's choice. */
void paths_of_slow_spine(sim_t *sim)
{
    for (uint64_t seed = 3; seed <= 6; seed++) {
        again(sim, seed);
        begin_joined(sim, PATHS, 65487);
        const uint32_t slow = usual_link(sim);
        sim->spine[slow] = (wire_t){.rate = SLOW};
        sim->spine[1 - slow] = (wire_t){.rate = 10 * SLOW, .queue = 1 << 20};
        stream_bulk(sim);
        sim_run_until(sim, sim->now + SIM_MS(300));
        must_be_within(sim, "Mbit/s by a slow link", rate_of(sim, SIM_MS(100)), SLOW);
        sim_run_until(sim, sim->now + SIM_S(4));
        const uint32_t first = sim->nmessages;
        must_be_at_least(sim, "Mbit/s by the other link", rate_of(sim, SIM_MS(500)), 8 * SLOW);
        must_be_within(sim, "a message took ns", longest(sim, first), SIM_MS(100));
        must_be_at_least(sim, "paths kept", sim_counters(sim, 0)->paths_kept, 1);
        stop(sim);
    }
}

/* The same, beside short messages. */
static uint64_t rate_beside(sim_t *sim, uint64_t time)
{
    for (uint64_t at = 0; at < time; at += SIM_MS(20)) {
        say(sim, 0, 1, 100, at);
    }
    return rate_of(sim, time);
}

/* Bulk left a slow link, which is idle now: what is short, and still goes by it, takes less time
 * than bulk by the fast one, which has a queue. That is no reason to leave the fast one. Then the
 * links change places, again and again: bulk finds the fast one each time, also where all paths
 * have the slow one. Where each port leads is the seed's choice. */
void paths_beside_idle(sim_t *sim)
{
    enum { LINK_SLOW = SLOW / 5, LINK_FAST = 2 * SLOW, TURNS = 4 };
    uint64_t tried = 0;

    for (uint64_t seed = 1; seed <= 2; seed++) {
        again(sim, seed);
        begin_joined(sim, PATHS, 65487);
        uint32_t slow = usual_link(sim);
        stream_bulk(sim);
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            uint32_t seconds = 0;
            sim->spine[slow] = (wire_t){.rate = LINK_SLOW, .queue = 1 << 18};
            sim->spine[1 - slow] = (wire_t){.rate = LINK_FAST, .queue = 1 << 18};
            while (rate_beside(sim, SIM_S(4)) < LINK_FAST * 8 / 10 && seconds < 60) {
                seconds += 4;
            }
            must_be_within(sim, "seconds until the fast link is found", seconds, 12);
            slow = 1 - slow;
        }
        tried += sim_counters(sim, 0)->paths_tried;
        stop(sim);
    }
    must_be_at_least(sim, "paths tried", tried, 2 + 4);
}

/* So few messages at once fill no window, and no path is tried. The link that the usual flow takes
 * dies, as routers of a fabric do not notice: of all ports of both processes half lead nowhere, so
 * each goes on with another one, and another, until both have one of the other link. */
void flow_of_dead_spine(sim_t *sim)
{
    uint32_t late = 0;

    for (uint64_t seed = 1; seed <= 24; seed++) {
        again(sim, seed);
        begin(sim, PATHS);
        sim->spine[0] = sim->spine[1] = (wire_t){.rate = 2 * SLOW, .queue = 1 << 20};
        for (uint32_t i = 0; i < 4; i++) {
            say(sim, 0, 1, LARGE, 1000)->chain = UINT32_MAX;
        }
        sim_run_until(sim, sim->now + SIM_MS(100));
        const uint32_t first = sim->nmessages - 4; /* what is on its way */
        sim->spine_dead = (int) usual_link(sim);
        sim_run_until(sim, sim->now + SIM_S(3));
        must_be_within(sim, "paths tried", sim_counters(sim, 0)->paths_tried, 0);
        must_be_within(sim, "a message took ns", longest(sim, first), SIM_MS(2500));
        late += longest(sim, first) > SIM_MS(300);
        sim->spine_dead = -1;
        stop(sim);
    }
    must_be_within(sim, "messages that took longer than 300 ms", late, 1);
}

/* A peer of a release before paths drops what comes from ports that nobody published. */
static bool drop_unknown_ports(sim_t *sim, const datagram_t *d)
{
    return d->from == 0 && d->pair >= 2;
}

void paths_to_older_peer(sim_t *sim)
{
    begin(sim, PATHS);
    sim->cap = (cap_t){.rate = CAP, .bytes = BUCKET};
    sim->drop = drop_unknown_ports;
    stream_bulk(sim);
    sim_run_until(sim, sim->now + SIM_S(1));
    const uint32_t first = sim->nmessages;
    must_be_at_least(sim, "Mbit/s", rate_of(sim, SIM_S(2)), CAP * 8 / 10);
    must_be_within(sim, "a message took ns", longest(sim, first), SIM_MS(200));
    must_be_at_least(sim, "paths tried", sim_counters(sim, 0)->paths_tried, 1);
    must_be_within(sim, "paths tried", sim_counters(sim, 0)->paths_tried, 3);
    must_be_within(sim, "paths kept", sim_counters(sim, 0)->paths_kept, 0);
    must_be_within(sim, "flows left", sim_counters(sim, 0)->flows_left, 0);
    const uint64_t tried = sim_counters(sim, 0)->paths_tried;
    for (uint32_t i = 0; i < 5000 && sim_counters(sim, 0)->paths_tried == tried; i++) {
        sim_run_until(sim, sim->now + SIM_MS(1));
    }
    sim->cap.rate = 4 * CAP; /* the rate rises, but not by the path that is on trial */
    sim_run_until(sim, sim->now + SIM_MS(500));
    must_be_at_least(sim, "paths tried", sim_counters(sim, 0)->paths_tried, tried + 1);
    must_be_within(sim, "paths kept", sim_counters(sim, 0)->paths_kept, 0);
    stop(sim);
}
