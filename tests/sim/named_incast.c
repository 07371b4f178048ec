/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Scenarios of what a receiver tells many senders (btl_ib_incast.h): where some send little, where
 * it must not tell anything, as losses are not theirs; and what becomes of what it tells.
 */

#include <stdio.h>

#include "named.h"

#define LARGE 65536u

enum {
    RATE = 1000, /* Mbit/s of the receiver's link, */
    QUEUE = 256 << 10,
    MOST = 16, /* senders */
};

/* Process 0 receives by such a link; the others' are ten times as fast. Datagrams as the `udp`
 * transport has them. */
static void make(sim_t *sim, uint32_t senders, uint64_t rate, uint64_t queue)
{
    sim_procs(sim, senders + 1, 1);
    run_defaults(sim);
    for (uint32_t i = 0; i <= senders; i++) {
        proc_t *proc = &sim->procs[i];
        snprintf(proc->queues, sizeof(proc->queues), "P,256,512,256,64:P,65536,1024,512,64");
        proc->attr.max_batch = 64;
        proc->attr.gso_bytes = 65487;
        proc->burst = 64;
        proc->step = SIM_US(2);
    }
    sim->delay = SIM_US(10);
    sim->events_max = UINT64_MAX;
    links_make(sim, 10 * RATE, 10 * RATE, 4 << 20);
    sim->in[0].rate = rate;
    sim->in[0].queue = queue;
}

static void acquaint(sim_t *sim)
{
    run_start(sim);
    for (uint32_t i = 1; i < sim->nprocs; i++) {
        warm_up(sim, i, 0);
    }
}

static void begin_with(sim_t *sim, uint32_t senders, uint64_t rate, uint64_t queue)
{
    make(sim, senders, rate, queue);
    acquaint(sim);
}

/* A stream that has something to send until all is stopped. */
static void stream_from(sim_t *sim, uint32_t from)
{
    for (uint32_t i = 0; i < 8; i++) {
        say(sim, from, 0, LARGE, 1000)->chain = UINT32_MAX;
    }
}

static void stop(sim_t *sim)
{
    run_heal(sim);
    sim->stopping = true;
    run_settle(sim, SIM_S(5));
    run_farewell(sim);
}

/* The share that a sender was told of; 0: none. */
static uint32_t share_of(sim_t *sim, uint32_t from)
{
    return btl_ib_conn_levels(proc_link(&sim->procs[from], 0, 0)->conn).share;
}

/* What happens in some time. */
typedef struct seen {
    uint64_t bytes;       /* that process 0 received */
    uint64_t sent, again; /* segments */
} seen_t;

static seen_t seen_at(const sim_t *sim)
{
    seen_t seen = {.bytes = sim_counters(sim, 0)->received_bytes};

    for (uint32_t i = 1; i < sim->nprocs; i++) {
        seen.sent += sim_counters(sim, i)->sent_segments;
        seen.again += sim_counters(sim, i)->retransmits;
    }
    return seen;
}

static seen_t watch(sim_t *sim, uint64_t time)
{
    const seen_t before = seen_at(sim);

    sim_run_until(sim, sim->now + time);
    seen_t seen = seen_at(sim);
    seen.bytes -= before.bytes;
    seen.sent -= before.sent;
    seen.again -= before.again;
    return seen;
}

/* In thousandths of the receiver's link. */
static uint64_t use_of(const sim_t *sim, const seen_t *seen, uint64_t time)
{
    return seen->bytes * 8000 * 1000 / (time * sim->in[0].rate);
}

static void all_stream(sim_t *sim)
{
    for (uint32_t i = 1; i < sim->nprocs; i++) {
        stream_from(sim, i);
    }
}

/* ---- senders that differ ---- */

/* Two have much to send, the others little: the two have shares as if they were alone. */
void incast_light(sim_t *sim)
{
    const uint64_t time = SIM_MS(300);

    begin_with(sim, MOST, RATE, QUEUE / 8);
    stream_from(sim, 1);
    stream_from(sim, 2);
    for (uint64_t at = 0; at < 2 * time; at += SIM_MS(1)) {
        for (uint32_t i = 3; i < sim->nprocs; i++) {
            say(sim, i, 0, 2000, at);
        }
    }
    sim_run_until(sim, sim->now + time);
    const seen_t seen = watch(sim, time);
    must_be_at_least(sim, "thousandths of the link", use_of(sim, &seen, time), 940);
    must_be_within(sim, "segments sent again", seen.again, seen.sent / 25);
    stop(sim);
}

/* A sender has a processor for a part of the time only, as where ranks share them. */
static void shares_processor(sim_t *sim, void *arg, uint64_t value)
{
    if (!sim->stopping) {
        proc_compute(arg, sim->now + rng_range(&sim->rng, SIM_MS(6), SIM_MS(9)));
        sim_at(sim, sim->now + SIM_MS(10), shares_processor, arg, value);
    }
}

/* Who is told that it is its turn may have no processor then: others do not wait for that. They had
 * 896. */
void incast_pauses(sim_t *sim)
{
    const uint64_t time = SIM_MS(400);

    begin_with(sim, MOST, RATE / 5, QUEUE / 4);
    for (uint32_t i = 1; i < sim->nprocs; i++) {
        sim_at(sim, sim->now + SIM_US(600) * i, shares_processor, &sim->procs[i], 0);
    }
    all_stream(sim);
    sim_run_until(sim, sim->now + time);
    const seen_t seen = watch(sim, time);
    must_be_at_least(sim, "thousandths of the link", use_of(sim, &seen, time), 940);
    must_be_within(sim, "segments sent again", seen.again, seen.sent / 20);
    stop(sim);
}

/* All have one for a quarter of the time. */
static void waits_for_processor(sim_t *sim, void *arg, uint64_t value)
{
    if (!sim->stopping) {
        proc_compute(arg, sim->now + rng_range(&sim->rng, SIM_MS(12), SIM_MS(16)));
        sim_at(sim, sim->now + SIM_MS(18), waits_for_processor, arg, value);
    }
}

/* Eight senders and their receiver wait for processors. They send in bursts, which overflow the
 * queue whatever all may have in flight: 0.40 of the link with a bound, so there is none most of
 * the time. */
void incast_busy(sim_t *sim)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        again(sim, seed);
        begin_with(sim, 8, RATE / 5, QUEUE / 4);
        for (uint32_t i = 0; i < sim->nprocs; i++) {
            sim_at(sim, sim->now + SIM_MS(2) * i, waits_for_processor, &sim->procs[i], 0);
        }
        all_stream(sim);
        sim_run_until(sim, sim->now + SIM_S(4));
        const seen_t seen = watch(sim, SIM_S(2));
        must_be_at_least(sim, "thousandths of the link", use_of(sim, &seen, SIM_S(2)), 700);
        stop(sim);
    }
}

/* ---- losses that are not the senders' ---- */

/* How long the way is to all. */
static void varies(sim_t *sim, void *arg, uint64_t value)
{
    sim->delay = rng_range(&sim->rng, SIM_US(50), SIM_US(550));
    sim_at(sim, sim->now + rng_range(&sim->rng, SIM_US(500), SIM_MS(4)), varies, arg, value);
}

/* What four senders get through in half a second, behind half a second, where so many datagrams are
 * lost by chance, delays vary (with `reorder` that of each datagram), and nothing queues. `told`:
 * they hear of shares. */
static uint64_t through(sim_t *sim, uint32_t loss, bool reorder, bool told)
{
    make(sim, 4, 10 * RATE, 0);
    sim->tells_share = !told;
    if (reorder) {
        sim->delay = SIM_US(50);
        (void) fault_add(sim, F_JITTER, 0, SIM_NEVER, 1000000, SIM_US(500));
    } else {
        varies(sim, NULL, 0);
    }
    acquaint(sim);
    (void) fault_add(sim, F_LOSS, 0, SIM_NEVER, loss, 0);
    all_stream(sim);
    sim_run_until(sim, sim->now + SIM_MS(500));
    const seen_t seen = watch(sim, SIM_MS(500));
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_stop(&sim->procs[i]);
    }
    again(sim, sim->seed + 1);
    return seen.bytes;
}

/* A seventh may be chance, as delays are. */
void incast_jitter(sim_t *sim)
{
    for (uint32_t reorder = 0; reorder < 2; reorder++) {
        const uint64_t usual = through(sim, 20000, reorder != 0, false);
        const uint64_t told = through(sim, 20000, reorder != 0, true);
        must_be_at_least(sim, "bytes", told, usual * 6 / 7);
    }
    two(sim);
    sim->events_max = UINT64_MAX;
    run_start(sim);
    finish(sim);
}

/* A queue, but no loss: what got RNR, for want of a receiver for its tag, is not missing. */
void incast_rnr(sim_t *sim)
{
    begin_with(sim, 8, RATE, 0);
    run_tag_from(sim, sim->now + SIM_MS(80));
    for (uint64_t at = 1000; at < SIM_MS(60); at += SIM_MS(1)) {
        for (uint32_t i = 1; i < sim->nprocs; i++) {
            say(sim, i, 0, LARGE, at);
            say(sim, i, 0, 2000, at)->tag = 200;
            say(sim, i, 0, LARGE, at);
        }
    }
    run_settle(sim, SIM_S(5));
    must_be_at_least(sim, "segments that got RNR", sim_counters(sim, 0)->rnr_tag, 100);
    must_be_within(sim, "bounds", sim_counters(sim, 0)->incasts, 0);
    stop(sim);
}

/* ---- what senders hear ---- */

static bool is_ack(sim_t *sim, const datagram_t *d)
{
    return d->to == 1 && type_of(d) == BTL_IB_TYPE_ACK;
}

static void short_ones(sim_t *sim, uint32_t from, uint32_t to, uint64_t time, uint64_t each)
{
    for (uint64_t at = 0; at < time; at += each) {
        say(sim, from, to, 8, at);
    }
}

/* A share of one segment is one of data channels: short messages in flight take nothing of it. */
void incast_channels(sim_t *sim)
{
    const uint64_t time = SIM_MS(100);

    begin_with(sim, 1, RATE, QUEUE);
    sim->delay = SIM_US(500);
    sim->tells_share = true;
    sim->share = 1;
    stream_from(sim, 1);
    short_ones(sim, 1, 0, 2 * time, SIM_US(50));
    sim_run_until(sim, sim->now + time);
    must_be_at_least(sim, "segments of the share", share_of(sim, 1), 1);
    const seen_t seen = watch(sim, time);
    must_be_at_least(sim, "bytes", seen.bytes, 70 * 1400);
    must_be_at_least(sim, "times that the share stopped it", sim_counters(sim, 1)->blocked_share,
                     50);
    must_be_within(sim, "times that the window did", sim_counters(sim, 1)->blocked_window, 0);
    sim->tells_share = false;
    stop(sim);
}

/* ACKs overtake each other: the newest share holds. */
void incast_overtaken(sim_t *sim)
{
    begin_with(sim, 1, RATE, QUEUE);
    sim->tells_share = true;
    sim->share = 7;
    (void) fault_add(sim, F_REORDER, 0, SIM_NEVER, 700000, SIM_MS(3));
    stream_from(sim, 1);
    sim_run_until(sim, sim->now + SIM_MS(20));
    must_be_at_least(sim, "segments of the share", share_of(sim, 1), 7);
    sim->share = 0;
    for (uint32_t i = 0; share_of(sim, 1) != 0 && i < 1000; i++) {
        sim_run_until(sim, sim->now + SIM_US(10));
    }
    for (uint32_t i = 0; i < 1000; i++) {
        must_be_within(sim, "segments of the share", share_of(sim, 1), 0);
        sim_run_until(sim, sim->now + SIM_US(10));
    }
    stop(sim);
}

/* No ACK comes any more, as headers acknowledge all: the last share ends after a second. */
void incast_expires(sim_t *sim)
{
    begin_with(sim, 1, RATE, QUEUE);
    sim->tells_share = true;
    sim->share = 1;
    stream_from(sim, 1);
    sim_run_until(sim, sim->now + SIM_MS(5));
    sim->drop = is_ack;
    short_ones(sim, 0, 1, SIM_MS(1100), SIM_US(20));
    sim_run_until(sim, sim->now + SIM_MS(950));
    must_be_at_least(sim, "segments of the share", share_of(sim, 1), 1);
    sim_run_until(sim, sim->now + SIM_MS(100));
    must_be_within(sim, "segments of the share", share_of(sim, 1), 0);
    stop(sim);
}

/* Senders of much are bound; then the same ones send little, and nothing is lost. Headers
 * acknowledge that, so that no other ACK is due: all the same they are told that there is no bound
 * any more. */
void incast_told(sim_t *sim)
{
    const uint64_t time = SIM_MS(300);

    begin_with(sim, 8, RATE, QUEUE / 4);
    all_stream(sim);
    sim_run_until(sim, sim->now + SIM_MS(100));
    for (uint32_t i = 1; i < sim->nprocs; i++) {
        must_be_at_least(sim, "segments of a share", share_of(sim, i), 1);
    }
    sim->stopping = true;
    run_settle(sim, SIM_S(1));
    sim->stopping = false;
    for (uint32_t i = 1; i < sim->nprocs; i++) {
        for (uint64_t at = 0; at < time; at += SIM_US(200)) {
            say(sim, i, 0, 1000, at);
        }
        short_ones(sim, 0, i, time, SIM_US(10));
    }
    sim_run_until(sim, sim->now + time);
    for (uint32_t i = 1; i < sim->nprocs; i++) {
        must_be_within(sim, "segments of a share", share_of(sim, i), 0);
    }
    stop(sim);
}
