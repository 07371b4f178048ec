/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Scenarios of loss, duplication and reordering on a path of 20 us. Each bounds the time until all
 * is there, and what was sent again. Most have exact masks of what is lost (loss_t), which look at
 * data segments in the order in which they are sent for the first time, from the end of warm-up on.
 */

#include <string.h>

#include "named.h"

/* What is lost of p0's messages, all said at once, and what that may cost. */
typedef struct loss {
    bool (*drop)(sim_t *sim, const datagram_t *d);
    uint64_t first, count; /* segments that are lost: the first of them, and how many in a row */
    uint64_t copies;       /* how many copies of the first one */
    uint32_t messages, size;
    uint64_t within; /* ns until all is there */
    uint64_t again;  /* segments sent again, at most */
} loss_t;

enum {
    FIRST,  /* as in loss_t */
    COUNT,  /* likewise */
    COPIES, /* likewise */
    SEEN,   /* first copies until now */
    SEQ,    /* of the first segment taken; 0: not sent yet */
    GONE,   /* copies of it that were lost */
};

static bool is_data(const datagram_t *d)
{
    uint8_t type = type_of(d);

    return d->from == 0
           && (type == BTL_IB_TYPE_DATA || type == BTL_IB_TYPE_CHUNK || type == BTL_IB_TYPE_BUNDLE);
}

static bool is_again(const datagram_t *d)
{
    return d->data[1] & BTL_IB_FLAG_RETRANSMISSION;
}

static uint32_t seq_of(const datagram_t *d)
{
    uint32_t seq;

    memcpy(&seq, d->data + offsetof(btl_ib_wire_header_t, seq), sizeof(seq));
    return BTL_IB_LE32(seq);
}

/* COUNT segments from number FIRST on, and of the first of them COPIES copies. */
static bool drop_mask(sim_t *sim, const datagram_t *d)
{
    uint64_t *mask = sim->scratch;

    if (!is_data(d)) {
        return false;
    }
    if (is_again(d)) {
        return mask[SEQ] == seq_of(d) && ++mask[GONE] < mask[COPIES];
    }
    uint64_t number = mask[SEEN]++;
    if (number == mask[FIRST]) {
        mask[SEQ] = seq_of(d);
    }
    return number >= mask[FIRST] && number < mask[FIRST] + mask[COUNT];
}

static bool drop_every_tenth(sim_t *sim, const datagram_t *d)
{
    return is_data(d) && !is_again(d) && sim->scratch[SEEN]++ % 10 == 9;
}

static bool drop_acks(sim_t *sim, const datagram_t *d)
{
    return type_of(d) == BTL_IB_TYPE_ACK && sim->scratch[SEEN]++ < sim->scratch[COUNT];
}

static uint64_t retransmits(const sim_t *sim)
{
    return sim_counters(sim, 0)->retransmits;
}

static uint64_t spurious(const sim_t *sim)
{
    return sim_counters(sim, 0)->retransmits_spurious;
}

static void begin(sim_t *sim)
{
    two(sim);
    start_warm(sim);
}

/* Lose this, and finish. */
static void lose(sim_t *sim, const loss_t *loss)
{
    uint32_t first = sim->nmessages;
    uint64_t before = retransmits(sim);
    uint64_t lost = sim->applied[F_LOSS];

    memset(sim->scratch, 0, sizeof(sim->scratch));
    sim->scratch[FIRST] = loss->first;
    sim->scratch[COUNT] = loss->count;
    sim->scratch[COPIES] = loss->copies;
    sim->drop = loss->drop;
    for (uint32_t i = 0; i < loss->messages; i++) {
        say(sim, 0, 1, loss->size, 1000);
    }
    run_settle(sim, SIM_S(2));
    lost = sim->applied[F_LOSS] - lost;
    if (lost != loss->count + (loss->copies > 0 ? loss->copies - 1 : 0)) {
        sim_fail(sim, "%llu datagrams were lost, not those that were meant",
                 (unsigned long long) lost);
    }
    must_be_within(sim, "all was there after ns", slowest(sim, first), loss->within);
    must_be_within(sim, "segments sent again", retransmits(sim) - before, loss->again);
    sim->drop = NULL;
    finish(sim);
}

static bool drop_every_second(sim_t *sim, const datagram_t *d)
{
    return is_data(d) && !is_again(d) && sim->scratch[SEEN]++ % 2 == 1;
}

/* So many gaps that it takes several ACKs to tell them, of which the transport does not take most.
 * Each tells what those before it did not, and when all is told there are no more: the sender
 * computes and answers none. protocol: R43 */
void acks_of_many_gaps(sim_t *sim)
{
    two(sim);
    for (uint32_t i = 0; i < 2; i++) {
        proc_t *proc = &sim->procs[i];
        snprintf(proc->queues, sizeof(proc->queues), "P,128,256:P,1472,512");
        proc->config.cc = BTL_IB_CC_NONE;
        proc->config.credit_init = 256;
    }
    start_warm(sim);
    sim->drop = drop_every_second;
    fault_add(sim, F_TX_EAGAIN, 0, sim->now + SIM_MS(9), 600000, 0)->src = 1;
    for (uint32_t i = 0; i < 100; i++) {
        say(sim, 0, 1, 1000, 1000);
    }
    sim_run_until(sim, sim->now + SIM_US(5));
    const uint64_t acks = sim->procs[1].acks;
    proc_compute(&sim->procs[0], sim->now + SIM_MS(10));
    sim_run_until(sim, sim->now + SIM_MS(9));
    must_be_within(sim, "ACKs of 50 gaps", sim->procs[1].acks - acks, 12);
    run_settle(sim, SIM_S(1));
    sim->drop = NULL;
    finish(sim);
}

/* The same between two that know each other. */
static void begin_and_lose(sim_t *sim, const loss_t *loss)
{
    begin(sim);
    lose(sim, loss);
}

/* Found by what was sent after it: about one round trip of 20 us, the time that reordering is given
 * (20 us), and one way. */
void loss_one(sim_t *sim)
{
    begin_and_lose(sim, &(loss_t){drop_mask, 3, 1, 1, 40, 900, SIM_US(70), 1});
}

/* The retransmission is lost, too: again by what was sent after it, while there is something to
 * send. */
void loss_of_retransmission(sim_t *sim)
{
    begin_and_lose(sim, &(loss_t){drop_mask, 3, 1, 2, 20, 65536, SIM_US(450), 2});
}

void loss_three_times(sim_t *sim)
{
    begin_and_lose(sim, &(loss_t){drop_mask, 3, 1, 3, 40, 65536, SIM_US(900), 3});
}

/* With nothing after it: by the tail probe, which is sooner than the shortest timeout. */
void tail_loss(sim_t *sim)
{
    begin_and_lose(sim, &(loss_t){drop_mask, 19, 1, 1, 20, 900, SIM_US(245), 3});
}

static bool drop_bundles(sim_t *sim, const datagram_t *d)
{
    return type_of(d) == BTL_IB_TYPE_BUNDLE && !is_again(d) && drop_mask(sim, d);
}

/* The same of messages that travel together: the two that left alone arrive, the bundle does not;
 * or three bundles that others follow. */
void tail_loss_of_bundle(sim_t *sim)
{
    begin_and_lose(sim, &(loss_t){drop_bundles, 0, 1, 1, 20, 50, SIM_US(245), 3});
    again(sim, 2);
    begin_and_lose(sim, &(loss_t){drop_bundles, 0, 3, 1, 300, 30, SIM_US(150), 3});
}

/* Probe, then timeouts that double. */
void loss_of_tail_and_probe(sim_t *sim)
{
    begin_and_lose(sim, &(loss_t){drop_mask, 9, 1, 2, 10, 900, SIM_US(600), 4});
}

void loss_of_burst(sim_t *sim)
{
    begin_and_lose(sim, &(loss_t){drop_mask, 10, 44, 1, 3, 65536, SIM_US(150), 45});
}

/* All that is sent before the first acknowledgement. */
void loss_of_first_flight(sim_t *sim)
{
    two(sim);
    run_start(sim);
    lose(sim, &(loss_t){drop_mask, 0, 20, 1, 20, 900, SIM_MS(3), 24});
}

void loss_of_every_tenth(sim_t *sim)
{
    const uint64_t tenth = 20 * 47 / 10;

    begin_and_lose(sim,
                   &(loss_t){drop_every_tenth, 0, tenth, 0, 20, 65536, SIM_US(600), tenth + 3});
}

/* Nothing of the data is lost; the next ACK tells the same. */
void loss_of_acks(sim_t *sim)
{
    begin_and_lose(sim, &(loss_t){drop_acks, 0, 4, 0, 20, 20000, SIM_US(500), 6});
}

/* Segments are overtaken and none is lost: at first some are sent again, after a while none.
 * protocol: R35 */
void reorder_only(sim_t *sim)
{
    begin(sim);
    fault_add(sim, F_REORDER, 0, SIM_NEVER, 50000, SIM_US(100));
    for (int i = 0; i < 30; i++) {
        say(sim, 0, 1, 65536, 1000 + SIM_US(200) * (uint64_t) i);
    }
    run_settle(sim, SIM_S(2));
    uint64_t before = retransmits(sim);
    for (int i = 0; i < 60; i++) {
        say(sim, 0, 1, 65536, 1000 + SIM_US(200) * (uint64_t) i);
    }
    run_settle(sim, SIM_S(2));
    must_be_within(sim, "segments of 2800 sent again after adaptation", retransmits(sim) - before,
                   30);
    run_heal(sim);
    finish(sim);
}

/* What the sender calls spurious is what the receiver saw twice, to the last one. protocol: R19 */
void spurious_count(sim_t *sim)
{
    begin(sim);
    fault_add(sim, F_REORDER, 0, SIM_NEVER, 100000, SIM_US(300));
    fault_add(sim, F_LOSS, 0, SIM_NEVER, 20000, 0);
    for (int i = 0; i < 40; i++) {
        say(sim, 0, 1, 30000, 1000 + SIM_US(300) * (uint64_t) i);
        say(sim, 1, 0, 700, 1000 + SIM_US(300) * (uint64_t) i);
    }
    run_settle(sim, SIM_S(2));
    run_heal(sim);
    say(sim, 0, 1, 100, 1000); /* its acknowledgement tells what was lost of the last ones */
    run_settle(sim, SIM_S(2));
    sim_run_until(sim, sim->now + SIM_MS(5));
    uint64_t seen = sim_counters(sim, 1)->dropped_duplicate;
    must_be_within(sim, "spurious, beyond what came twice", spurious(sim), seen);
    must_be_within(sim, "came twice, beyond spurious", seen, spurious(sim) + 1);
    finish(sim);
}

void each_lost(sim_t *sim)
{
    for (uint64_t k = 0;; k++) {
        two(sim);
        run_start(sim);
        sim->drop = drop_nth;
        sim->scratch[1] = k;
        for (uint32_t i = 0; i < 3; i++) {
            say(sim, 0, 1, 40 + 2500 * i, 1000 + SIM_US(100) * i)->replies = 1;
            say(sim, 1, 0, 300, SIM_US(150) * i);
        }
        run_settle(sim, SIM_S(1));
        bool dropped = sim->scratch[0] > k;
        sim->drop = NULL;
        must_be_within(sim, "repair took ns", slowest(sim, 0), SIM_MS(10));
        must_be_within(sim, "datagrams sent again", again_sum(sim), 6);
        finish(sim);
        if (!dropped) {
            break;
        }
        again(sim, k + 2);
    }
}

/* Single messages, and some that travel together. protocol: R36 */
void each_duplicated(sim_t *sim)
{
    two(sim);
    run_start(sim);
    fault_add(sim, F_DUPLICATE, 0, SIM_NEVER, 1000000, SIM_MS(1));
    for (uint32_t i = 0; i < 50; i++) {
        say(sim, i % 2, 1 - i % 2, i * 100, SIM_US(20) * i)->replies = 2;
    }
    run_settle(sim, SIM_S(1));
    for (uint32_t i = 0; i < 50; i++) {
        say(sim, 0, 1, 30, 1000);
    }
    run_settle(sim, SIM_S(1));
    if (sim_counters(sim, 0)->sent_bundles == 0) {
        sim_fail(sim, "nothing travelled together");
    }
    run_heal(sim);
    finish(sim);
}

static bool drop_tenth(sim_t *sim, const datagram_t *d)
{
    return d->to == 1 && type_of(d) == BTL_IB_TYPE_DATA && sim->scratch[0]++ == 10;
}

/* An ACK tells of the gap; the headers that come behind it tell nothing new, and must not make its
 * sender wait for more. */
void loss_both_ways(sim_t *sim)
{
    two(sim);
    start_warm(sim);
    uint32_t first = sim->nmessages;
    sim->drop = drop_tenth;
    for (uint32_t i = 0; i < 40; i++) {
        say(sim, 0, 1, 100, 1000 + SIM_US(6) * i);
        say(sim, 1, 0, 100, 1000 + SIM_US(6) * i + SIM_US(3));
    }
    run_settle(sim, SIM_S(1));
    must_be_within(sim, "repair took ns", slowest(sim, first), SIM_US(70));
    finish(sim);
}

void pingpong_loss(sim_t *sim)
{
    uint64_t sum = 0, slow = 0, n = 0;

    two(sim);
    start_warm(sim);
    uint32_t first = sim->nmessages;
    fault_add(sim, F_LOSS, 0, SIM_NEVER, 10000, 0);
    for (int i = 0; i < 100; i++) {
        say(sim, 0, 1, 8, SIM_US(500) * (uint64_t) i)->replies = 40;
    }
    run_settle(sim, SIM_S(10));
    for (uint32_t i = first; i < sim->nmessages; i++, n++) {
        uint64_t time = sim->messages[i].delivered_at - sim->messages[i].accepted_at;
        sum += time;
        slow += time > SIM_MS(2);
    }
    must_be_within(sim, "mean latency at 1 % loss, ns", sum / n, SIM_US(40));
    must_be_within(sim, "messages that took 2 ms", slow, n / 100);
    run_heal(sim);
    finish(sim);
}

static bool drop_first_of_0(sim_t *sim, const datagram_t *d)
{
    return d->from == 0 && sim->scratch[0]++ == 0;
}

/* The path was long, and is short now: the peer's stream, which acknowledges nothing as our only
 * message is lost, brings that to light, and the probe need not wait for the long one's time. */
void probe_by_new_round_trips(sim_t *sim)
{
    two(sim);
    sim->delay = SIM_MS(5);
    start_warm(sim);
    sim->delay = SIM_US(10);
    sim_run_until(sim, sim->now + SIM_S(1));
    sim->scratch[0] = 0;
    sim->drop = drop_first_of_0;
    say(sim, 0, 1, 100, 1000);
    const uint32_t lost = sim->nmessages - 1;
    for (uint64_t i = 0; i < 400; i++) {
        say(sim, 1, 0, 100, SIM_US(10 + 10 * i));
    }
    sim_run_until(sim, sim->now + SIM_MS(100));
    must_be_within(sim, "the lost one took ns",
                   sim->messages[lost].delivered_at - sim->messages[lost].accepted_at, SIM_MS(2));
    sim->drop = NULL;
    finish(sim);
}
