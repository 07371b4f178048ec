/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Scenarios with links that have a rate and a queue: many senders to one, a bottleneck that several
 * share, a receiver that is slow, small messages beside large ones. What is demanded: no collapse,
 * shares that differ by a quarter at most (where windows are a few segments that is chance), small
 * messages that are not held up.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "named.h"

#define FLOWS_MAX 64
#define LARGE     65536u
#define SHARES    1250 /* the largest, in thousandths of the least */

typedef struct share {
    uint64_t bytes[FLOWS_MAX]; /* delivered, by sender */
    uint64_t sum, least, most;
} share_t;

/* As many processes as the `ofi` transport has them, with links of `rate` Mbit/s. */
static void make(sim_t *sim, uint32_t count, uint64_t rate, uint64_t queue, btl_ib_cc_kind_t cc)
{
    sim_procs(sim, count, 1);
    run_defaults(sim);
    for (uint32_t i = 0; i < count; i++) {
        proc_t *proc = &sim->procs[i];
        snprintf(proc->queues, sizeof(proc->queues), "P,256,256,128,32:S,65536,1024,512,64");
        proc->config.cc = cc;
    }
    sim->delay = SIM_US(5);
    sim->events_max = UINT64_MAX;
    links_make(sim, rate, rate, queue);
}

/* A stream that has something to send until all is stopped. */
static void stream_from(sim_t *sim, uint32_t from, uint32_t to, uint64_t after)
{
    for (uint32_t i = 0; i < 8; i++) {
        say(sim, from, to, LARGE, 1000 + after)->chain = UINT32_MAX;
    }
}

/* What `count` senders from number `first` on got through in the next `time` ns. */
static share_t measure(sim_t *sim, uint32_t first, uint32_t count, uint64_t time)
{
    uint64_t from = sim->now;
    share_t share = {.least = UINT64_MAX};

    sim_run_until(sim, from + time);
    for (uint32_t i = 0; i < sim->nmessages; i++) {
        const message_t *m = &sim->messages[i];
        if (m->delivered > 0 && m->delivered_at >= from && m->size == LARGE) {
            share.bytes[m->src] += m->size;
        }
    }
    for (uint32_t i = first; i < first + count; i++) {
        share.sum += share.bytes[i];
        share.least = share.bytes[i] < share.least ? share.bytes[i] : share.least;
        share.most = share.bytes[i] > share.most ? share.bytes[i] : share.most;
    }
    return share;
}

/* In thousandths of `rate` Mbit/s. */
static uint64_t use_of(const share_t *share, uint64_t time, uint64_t rate)
{
    return share->sum * 8000 * 1000 / (time * rate);
}

static void must_be_fair(sim_t *sim, const share_t *share)
{
    must_be_within(sim, "the most that one sender got, in thousandths of the least",
                   share->most * 1000 / (share->least + 1), SHARES);
}

/* Segments sent again in thousandths of all that were sent. */
static uint64_t repeated(const sim_t *sim)
{
    uint64_t again = 0, all = 0;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        const btl_ib_counters_t *count = sim_counters(sim, i);
        again += count->retransmits;
        all += count->retransmits + count->sent_segments;
    }
    return again * 1000 / all;
}

static void stop(sim_t *sim)
{
    sim->stopping = true;
    run_settle(sim, SIM_S(5));
    run_farewell(sim);
}

/* ---- many to one ---- */

static void many_to_one(sim_t *sim, uint64_t rate, uint64_t queue)
{
    uint64_t time = SIM_MS(20) * (10000 / rate);

    make(sim, 17, rate, queue, BTL_IB_CC_AUTO);
    run_start(sim);
    for (uint32_t i = 1; i < 17; i++) {
        stream_from(sim, i, 0, 0);
    }
    sim_run_until(sim, sim->now + time / 4);
    share_t share = measure(sim, 1, 16, time);
    must_be_at_least(sim, "thousandths of the receiver's link", use_of(&share, time, rate), 850);
    must_be_fair(sim, &share);
    must_be_within(sim, "thousandths sent again", repeated(sim), 100);
    stop(sim);
}

void incast_16(sim_t *sim)
{
    many_to_one(sim, 10000, 512u << 10);
}

/* protocol: R65 */
void incast_shallow(sim_t *sim)
{
    many_to_one(sim, 10000, 96u << 10);
}

void incast_slow_link(sim_t *sim)
{
    many_to_one(sim, 1000, 128u << 10);
}

/* ---- a bottleneck between pairs ---- */

static void bottleneck_of(sim_t *sim, btl_ib_cc_kind_t cc, uint32_t pairs, uint64_t rate,
                          uint64_t queue, uint64_t time, uint64_t stagger)
{
    make(sim, 2 * pairs, 10000, 1u << 20, cc);
    sim->delay = SIM_US(50);
    sim->core = (wire_t){.rate = rate, .queue = queue};
    run_start(sim);
    for (uint32_t i = 0; i < pairs; i++) { /* one after the other: late ones get their share */
        stream_from(sim, i, pairs + i, stagger * i);
    }
    sim_run_until(sim, sim->now + stagger * pairs + time);
    share_t share = measure(sim, 0, pairs, time);
    must_be_at_least(sim, "thousandths of the bottleneck", use_of(&share, time, rate), 850);
    must_be_fair(sim, &share);
    stop(sim);
}

void bottleneck_2(sim_t *sim)
{
    bottleneck_of(sim, BTL_IB_CC_SWIFT, 2, 1000, 256u << 10, SIM_MS(100), SIM_MS(7));
}

void bottleneck_4(sim_t *sim)
{
    bottleneck_of(sim, BTL_IB_CC_SWIFT, 4, 10000, 512u << 10, SIM_MS(200), SIM_MS(7));
}

void bottleneck_8(sim_t *sim)
{
    bottleneck_of(sim, BTL_IB_CC_SWIFT, 8, 10000, 512u << 10, SIM_MS(200), 0);
}

/* A queue that overflows before its delay says anything. */
void bottleneck_shallow(sim_t *sim)
{
    bottleneck_of(sim, BTL_IB_CC_SWIFT, 4, 1000, 40000, SIM_MS(200), 0);
}

void bottleneck_cubic(sim_t *sim)
{
    bottleneck_of(sim, BTL_IB_CC_CUBIC, 4, 1000, 128u << 10, SIM_MS(500), SIM_MS(7));
}

/* ---- a slow receiver ---- */

/* It looks every 50 us only, and its device holds 64 datagrams: 1.28 a us are the most. */
void slow_receiver(sim_t *sim)
{
    make(sim, 2, 10000, 1u << 20, BTL_IB_CC_AUTO);
    sim->procs[1].attr.rx_depth = 64;
    sim->procs[1].burst = 64;
    sim->procs[1].step = SIM_US(50);
    run_start(sim);
    stream_from(sim, 0, 1, 0);
    sim_run_until(sim, sim->now + SIM_MS(10));
    share_t share = measure(sim, 0, 1, SIM_MS(50));
    uint64_t most = 1420ull * 64 * 1000; /* bytes in 50 ms */
    must_be_at_least(sim, "thousandths of what the receiver can take", share.sum * 1000 / most,
                     500);
    must_be_within(sim, "thousandths sent again", repeated(sim), 150);
    stop(sim);
}

/* ---- small messages beside large ones ---- */

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

/* So many thousandths of all messages of 8 bytes from number `first` on took no longer; ns. */
static uint64_t small_took(const sim_t *sim, uint32_t first, uint32_t thousandths)
{
    uint64_t *times = calloc(sim->nmessages + 1, sizeof(*times));
    uint32_t n = 0;

    for (uint32_t i = first; i < sim->nmessages; i++) {
        const message_t *m = &sim->messages[i];
        if (m->size == 8 && m->delivered > 0) {
            times[n++] = m->delivered_at - m->accepted_at;
        }
    }
    qsort(times, n, sizeof(*times), by_size);
    uint64_t took = n == 0 ? UINT64_MAX : times[n * thousandths / 1000];
    free(times);
    return took;
}

static void small_ones(sim_t *sim, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        say(sim, 0, 1, 8, SIM_US(37) * (i + 1));
    }
}

static void small_beside_large(sim_t *sim, uint32_t loss)
{
    make(sim, 2, 10000, 1u << 20, BTL_IB_CC_AUTO);
    sim->delay = SIM_US(10);
    start_warm(sim);
    uint32_t first = sim->nmessages;
    small_ones(sim, 500);
    sim_run_until(sim, sim->now + SIM_MS(20));
    uint64_t idle = small_took(sim, first, 990);
    if (loss > 0) {
        fault_add(sim, F_LOSS, 0, SIM_NEVER, loss, 0);
    }
    stream_from(sim, 0, 1, 0);
    sim_run_until(sim, sim->now + SIM_MS(2));
    first = sim->nmessages;
    small_ones(sim, 2000);
    share_t share = measure(sim, 0, 1, SIM_MS(80));
    must_be_within(sim, "99 % of small messages beside large ones took ns",
                   small_took(sim, first, 990), 5 * idle);
    must_be_at_least(sim, "thousandths of the link", use_of(&share, SIM_MS(80), 10000), 900);
    run_heal(sim);
    stop(sim);
}

void mixed(sim_t *sim)
{
    small_beside_large(sim, 0);
}

/* ---- datagrams as the kernel moves them: many in one call, which are lost together ---- */

/* As the `udp` transport has them, with links of `rate` Mbit/s, polled each `step` ns. */
static void make_udp_of(sim_t *sim, uint32_t count, uint64_t rate, btl_ib_cc_kind_t cc,
                        uint64_t step)
{
    make(sim, count, rate, 4u << 20, cc);
    for (uint32_t i = 0; i < count; i++) {
        proc_t *proc = &sim->procs[i];
        snprintf(proc->queues, sizeof(proc->queues), "P,256,512,256,64:P,65536,1024,512,64");
        proc->attr.max_batch = 64;
        proc->attr.gso_bytes = 65487;
        proc->burst = 64;
        proc->step = step;
    }
}

static void make_udp(sim_t *sim, uint32_t count, btl_ib_cc_kind_t cc, uint64_t step)
{
    make_udp_of(sim, count, 40000, cc, step);
}

/* ---- what held a stream up, by counters ---- */

enum { OBSERVED = 100 }; /* ms */

/* The receiver computes for nine tenths of its time. */
static void is_away(sim_t *sim, void *arg, uint64_t value)
{
    if (!sim->stopping) {
        proc_compute(arg, sim->now + SIM_US(1800));
        sim_at(sim, sim->now + SIM_US(2000), is_away, arg, value);
    }
}

static void observe_stream(sim_t *sim, bool pauses, uint64_t step, uint64_t rate)
{
    make_udp(sim, 2, BTL_IB_CC_AUTO, SIM_US(2));
    sim->procs[0].attr.partial_poll = sim->procs[1].attr.partial_poll = true;
    sim->core = (wire_t){.rate = rate, .queue = 4u << 20};
    sim->procs[1].burst = 64;
    sim->procs[1].step = step;
    run_start(sim);
    if (pauses) {
        sim_at(sim, SIM_MS(1), is_away, &sim->procs[1], 0);
    }
    stream_from(sim, 0, 1, 0);
    sim_run_until(sim, sim->now + SIM_MS(OBSERVED));
}

void held_by_pauses(sim_t *sim)
{
    observe_stream(sim, true, SIM_US(2), 0);
    must_be_at_least(sim, "us away", sim_counters(sim, 1)->paused_us, OBSERVED * 1000 / 2);
    must_be_within(sim, "us away", sim_counters(sim, 1)->paused_us, OBSERVED * 1000);
    must_be_within(sim, "round trips with a queue", sim_counters(sim, 0)->queued_rounds, 5);
    stop(sim);
}

void held_by_host(sim_t *sim)
{
    observe_stream(sim, false, SIM_US(90), 0);
    must_be_within(sim, "us away", sim_counters(sim, 1)->paused_us, OBSERVED * 1000 / 100);
    must_be_at_least(sim, "round trips with data at the host", sim_counters(sim, 0)->host_rounds,
                     20);
    must_be_within(sim, "round trips with a queue", sim_counters(sim, 0)->queued_rounds, 5);
    stop(sim);
}

void held_by_network(sim_t *sim)
{
    observe_stream(sim, false, SIM_US(2), 1000);
    must_be_within(sim, "us away", sim_counters(sim, 1)->paused_us, OBSERVED * 1000 / 100);
    must_be_at_least(sim, "round trips with a queue", sim_counters(sim, 0)->queued_rounds, 20);
    must_be_within(sim, "round trips with data at the host", sim_counters(sim, 0)->host_rounds, 5);
    stop(sim);
}

/* MB/s between two processes of which each has a processor in one of three slots of `slot` ns, the
 * receiver in the one after the sender's. */
static uint64_t in_turns(sim_t *sim, btl_ib_cc_kind_t cc, uint64_t slot)
{
    uint64_t bytes = 0, begun = 0;

    make_udp(sim, 2, cc, SIM_US(2));
    sim->procs[0].attr.partial_poll = sim->procs[1].attr.partial_poll = true;
    sim->delay = SIM_US(10);
    start_warm(sim);
    for (uint32_t i = 0; i < 8; i++) {
        stream_from(sim, 0, 1, 0);
    }
    for (uint32_t n = 0; n < 300; n++) {
        if (n == 150) {
            bytes = sim_counters(sim, 1)->received_bytes;
            begun = sim->now;
        }
        for (uint32_t i = 0; i < 2; i++) {
            if (n % 3 != i) {
                proc_compute(&sim->procs[i], sim->now + slot);
            }
        }
        sim_run_until(sim, sim->now + slot);
    }
    bytes = sim_counters(sim, 1)->received_bytes - bytes;
    begun = sim->now - begun;
    stop(sim);
    return bytes * SIM_US(1) / begun;
}

/* Processes that share processors: what waits for one that has none is no queue, so the window may
 * be what credits allow. It was an eighth of that. */
void shared_processors(sim_t *sim)
{
    for (uint64_t slot = SIM_MS(1); slot <= SIM_MS(8); slot *= 2) {
        const uint64_t most = in_turns(sim, BTL_IB_CC_NONE, slot);

        again(sim, 2 * slot);
        must_be_at_least(sim, "MB/s", in_turns(sim, BTL_IB_CC_AUTO, slot), most * 9 / 10);
        again(sim, 2 * slot + 1);
    }
    two(sim);
    run_start(sim);
    finish(sim);
}

/* A loss takes a whole burst, up to 44 segments in a row: not much worse than as many single ones.
 * By which bursts are lost it is 0.889 to 0.913 of the link, in the mean 0.90. */
void burst_loss(sim_t *sim)
{
    make_udp(sim, 2, BTL_IB_CC_AUTO, SIM_US(10));
    sim->delay = SIM_US(10);
    start_warm(sim);
    fault_add(sim, F_LOSS_GSO, 0, SIM_NEVER, 10000, 0);
    stream_from(sim, 0, 1, 0);
    sim_run_until(sim, sim->now + SIM_MS(2));
    uint32_t first = sim->nmessages;
    small_ones(sim, 2000);
    share_t share = measure(sim, 0, 1, SIM_MS(80));
    must_be_at_least(sim, "thousandths of the link", use_of(&share, SIM_MS(80), 40000), 875);
    must_be_within(sim, "99.9 % of small messages took ns", small_took(sim, first, 999),
                   SIM_US(200));
    must_be_within(sim, "thousandths sent again", repeated(sim), 15);
    must_be_within(sim, "times that bursts were found not to pass", sim->procs[0].gso_told, 0);
    run_heal(sim);
    stop(sim);
}

/* Datagrams in 10 bursts of the next `time` ns, those of acknowledgements, which are alone,
 * included. */
static uint64_t joined_in(sim_t *sim, uint64_t time)
{
    const uint64_t sent = sim_counters(sim, 0)->sent_datagrams;
    const uint64_t bursts = sim->bursts;

    sim_run_until(sim, sim->now + time);
    return (sim_counters(sim, 0)->sent_datagrams - sent) * 10 / (sim->bursts - bursts);
}

/* From mid-job on `kind` happens to bursts above `bytes`, one way and for 300 ms. The
 * stream goes on without them, and is told of once; later bursts are as long as before. */
static void no_bursts(sim_t *sim, fault_kind_t kind, uint64_t bytes)
{
    make_udp_of(sim, 2, 1000, BTL_IB_CC_NONE, SIM_US(20));
    sim->delay = SIM_US(10);
    start_warm(sim);
    stream_from(sim, 0, 1, 0);
    const uint64_t before = joined_in(sim, SIM_MS(20));
    fault_t *fault = fault_add(sim, kind, sim->now, sim->now + SIM_MS(300), 1000000, bytes);
    fault->src = kind == F_GSO_HOLE ? 0 : -1;
    fault->dst = kind == F_GSO_HOLE ? 1 : -1;
    sim_run_until(sim, sim->now + SIM_MS(150));
    share_t share = measure(sim, 0, 1, SIM_MS(80));
    must_be_at_least(sim, "thousandths of the link", use_of(&share, SIM_MS(80), 1000), 800);
    if (sim->procs[0].gso_told == 0 || sim->procs[1].gso_told != 0
        || (sim->procs[0].gso_refused > 0) != (kind == F_GSO_ENOBUFS)) {
        sim_fail(sim, "told %u times, %u of the receiver, %u of bursts that are refused",
                 sim->procs[0].gso_told, sim->procs[1].gso_told, sim->procs[0].gso_refused);
    }
    must_be_within(sim, "black holes", sim_counters(sim, 0)->black_holes, 0);
    const uint32_t told = sim->procs[0].gso_told;
    sim_run_until(sim, fault->to + SIM_MS(1100));
    const uint64_t applied = sim->applied[kind];
    must_be_at_least(sim, "datagrams in 10 bursts", joined_in(sim, SIM_MS(20)), before * 8 / 10);
    must_be_within(sim, "lost behind the end", sim->applied[kind] - applied, 0);
    must_be_within(sim, "times told behind the first verdict", sim->procs[0].gso_told - told, 0);
    run_heal(sim);
    stop(sim);
}

void burst_hole(sim_t *sim)
{
    no_bursts(sim, F_GSO_HOLE, 1600);
    again(sim, 2);
    no_bursts(sim, F_GSO_HOLE, 20000);
}

void burst_refused(sim_t *sim)
{
    no_bursts(sim, F_GSO_ENOBUFS, 1600);
    again(sim, 2);
    no_bursts(sim, F_GSO_ENOBUFS, 20000);
}

/* ---- gathers: many begin at once, again and again ---- */

enum { GATHERED = 16 }; /* messages of each sender, 1 MiB together */

/* Segments sent, and sent again, by all processes. */
static uint64_t sent_segments(const sim_t *sim, uint64_t *again)
{
    uint64_t sent = 0;

    *again = 0;
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        sent += sim_counters(sim, i)->sent_segments;
        *again += sim_counters(sim, i)->retransmits;
    }
    return sent;
}

/* 15 processes send 1 MiB each to one, whose link has `rate` Mbit/s and a queue, and begin anew
 * when all of it is there. Messages of 8 bytes go beside. `again`: thousandths that may be sent
 * again; `p99`: ns that 99 % of the small messages may take; 0: five times what they take alone.
 * Measured behind the first gather, in which the receiver learns what its link holds. */
static void gather(sim_t *sim, uint64_t rate, uint64_t queue, uint32_t loss, uint64_t again,
                   uint64_t p99)
{
    const uint32_t rounds = 6;
    uint64_t begun = 0, before = 0, repeated_before = 0, bytes = 0, repeated_after;
    uint32_t first = 0;

    make_udp_of(sim, 16, 10000, BTL_IB_CC_AUTO, SIM_US(2));
    sim->in[0].rate = rate;
    sim->in[0].queue = queue;
    sim->delay = SIM_US(10);
    run_start(sim);
    for (uint32_t i = 1; i < sim->nprocs; i++) {
        warm_up(sim, i, 0);
    }
    first = sim->nmessages;
    for (uint32_t i = 0; i < 400; i++) {
        say(sim, 1 + i % 15, 0, 8, SIM_US(30) * (i + 1));
    }
    run_settle(sim, SIM_S(5));
    const uint64_t most = p99 > 0 ? p99 : 5 * small_took(sim, first, 990);
    if (loss > 0) {
        fault_add(sim, F_LOSS, 0, SIM_NEVER, loss, 0);
    }
    for (uint32_t round = 0; round < rounds; round++) {
        if (round == 1) {
            begun = sim->now;
            first = sim->nmessages;
            before = sent_segments(sim, &repeated_before);
        }
        for (uint32_t i = 0; i < 15 * GATHERED; i++) {
            say(sim, 1 + i % 15, 0, LARGE, 1000);
            bytes += round > 0 ? LARGE : 0;
        }
        for (uint32_t i = 0; i < 400; i++) {
            say(sim, 1 + i % 15, 0, 8, SIM_US(300) * 1000 / rate * (i + 1));
        }
        run_settle(sim, SIM_S(5));
    }
    const uint64_t sent = sent_segments(sim, &repeated_after) - before;
    must_be_at_least(sim, "thousandths of the link",
                     bytes * 8000 * 1000 / ((sim->now - begun) * rate), loss > 0 ? 930 : 950);
    must_be_within(sim, "thousandths sent again", (repeated_after - repeated_before) * 1000 / sent,
                   again);
    must_be_within(sim, "ns that small messages took, 99 %", small_took(sim, first, 990), most);
    run_heal(sim);
    stop(sim);
}

/* 33, 26 and 19 % were sent again, and small messages took 92, 2.5 and 3 ms; then, with a segment of
 * each sender in flight, 160 us, and 76 at 10 Gbit/s. protocol: R68 */
void gather_slow_link(sim_t *sim)
{
    gather(sim, 1000, 64u << 10, 0, 10, 0);
    again(sim, 2);
    gather(sim, 1000, 256u << 10, 0, 10, 0);
}

void gather_fast_link(sim_t *sim)
{
    gather(sim, 10000, 256u << 10, 0, 10, 0);
}

/* Losses that nobody can help: no sender is held back for them. */
void gather_loses(sim_t *sim)
{
    gather(sim, 1000, 128u << 10, 10000, 30, SIM_US(700));
    again(sim, 2);
    gather(sim, 10000, 256u << 10, 10000, 25, SIM_US(300));
}

/* ---- a receive buffer of a few segments ---- */

enum { HELD = 184 }; /* datagrams of 1472 bytes that a buffer of 212992 bytes holds */

static void goes_away(sim_t *sim, void *arg, uint64_t value)
{
    if (!sim->stopping) {
        proc_compute(arg, sim->now + SIM_US(100));
        sim_at(sim, sim->now + SIM_US(700) + rng_range(&sim->rng, 0, SIM_US(600)), goes_away, arg,
               value);
    }
}

/* It computes for a tenth of its time, and its buffer overflows in an eighth of each such pause if
 * nobody holds the senders back. */
static void small_buffer(sim_t *sim, btl_ib_cc_kind_t cc, uint32_t senders)
{
    make_udp(sim, senders + 1, cc, SIM_US(5));
    for (uint32_t i = 0; i <= senders; i++) {
        sim->procs[i].attr.rx_depth = 270; /* 135 for each queue: what fits if both are full */
        sim->procs[i].config.credit_init = 8;
    }
    sim->rx_bytes_max = HELD * (1472 + 256);
    run_start(sim);
    sim_at(sim, SIM_MS(1), goes_away, &sim->procs[0], 0);
    for (uint32_t i = 1; i <= senders; i++) {
        stream_from(sim, i, 0, 0);
    }
    sim_run_until(sim, sim->now + SIM_MS(2));
    share_t share = measure(sim, 1, senders, SIM_MS(20));
    must_be_at_least(sim, "thousandths of the link", use_of(&share, SIM_MS(20), 40000), 850);
    must_be_within(sim, "thousandths sent again", repeated(sim), 1);
    stop(sim);
}

/* Credits alone keep the buffer from overflowing, and congestion control does not spoil that. */
void small_buffers(sim_t *sim)
{
    static const uint32_t senders[] = {1, 4, 16};

    for (uint32_t i = 0; i < 6; i++) {
        if (i > 0) {
            again(sim, i + 1);
        }
        small_buffer(sim, i % 2 == 0 ? BTL_IB_CC_NONE : BTL_IB_CC_SWIFT, senders[i / 2]);
    }
    if (sim->applied[F_RX_OVERFLOW] > 0) {
        sim_fail(sim, "%llu datagrams overflowed",
                 (unsigned long long) sim->applied[F_RX_OVERFLOW]);
    }
}
