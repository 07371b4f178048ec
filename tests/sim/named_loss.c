/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Scenarios of loss, duplication and reordering on a path of 20 us. Each bounds the time until all is there, and
 * what was sent again. Most have exact masks of what is lost (drop_mask()), which look at data segments in the order in which
 * they are sent for the first time, from the end of warm-up on.
 */

#include <string.h>

#include "named.h"

enum {
    FIRST,  /* the first segment that the mask takes */
    COUNT,  /* how many */
    COPIES, /* how many copies of each */
    SEEN,   /* first copies until now */
    SEQ,    /* of the first segment taken; 0: not sent yet */
    GONE,   /* copies of it that were lost */
};

static bool is_data(const datagram_t *d)
{
    uint8_t type = type_of(d);

    return d->from == 0 && (type == BTL_IB_TYPE_DATA || type == BTL_IB_TYPE_CHUNK);
}

static bool is_again(const datagram_t *d)
{
    return d->data[1] & BTL_IB_FLAG_AGAIN;
}

static uint32_t seq_of(const datagram_t *d)
{
    uint32_t seq;

    memcpy(&seq, d->data + offsetof(btl_ib_wire_header_t, seq), sizeof(seq));
    return seq;
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
    return btl_ib_engine_counters(sim->procs[0].engine)->retransmits;
}

static uint64_t spurious(const sim_t *sim)
{
    return btl_ib_engine_counters(sim->procs[0].engine)->retransmits_spurious;
}

/* `messages` of `size` bytes at once, with this mask, must all be there after `bound` ns, with at
 * most `again` segments sent again. */
static void run_mask(sim_t *sim, bool (*drop)(sim_t *, const datagram_t *), uint32_t messages,
                     uint32_t size, uint64_t bound, uint64_t again)
{
    uint32_t first = sim->nmessages;
    uint64_t before = retransmits(sim);

    sim->drop = drop;
    for (uint32_t i = 0; i < messages; i++) {
        say(sim, 0, 1, size, 1000);
    }
    run_settle(sim, SIM_S(2));
    must_be_within(sim, "all was there after ns", slowest(sim, first), bound);
    must_be_within(sim, "segments sent again", retransmits(sim) - before, again);
    sim->drop = NULL;
    finish(sim);
}

static void begin(sim_t *sim, uint64_t from, uint64_t count, uint64_t copies)
{
    two(sim);
    run_start(sim);
    warm_up(sim, 0, 1);
    memset(sim->scratch, 0, sizeof(sim->scratch));
    sim->scratch[FIRST] = from;
    sim->scratch[COUNT] = count;
    sim->scratch[COPIES] = copies;
}

/* Found by what was sent after it: about one round trip of 20 us, the time that reordering is given
 * (20 us), and one way. */
void loss_one(sim_t *sim)
{
    begin(sim, 3, 1, 1);
    run_mask(sim, drop_mask, 40, 900, SIM_US(70), 1);
}

/* The retransmission is lost, too: again by what was sent after it, while there is something to send. */
void loss_of_retransmission(sim_t *sim)
{
    begin(sim, 3, 1, 2);
    run_mask(sim, drop_mask, 20, 65536, SIM_US(450), 2);
}

void loss_three_times(sim_t *sim)
{
    begin(sim, 3, 1, 3);
    run_mask(sim, drop_mask, 40, 65536, SIM_US(900), 3);
}

/* With nothing after it: probe, then timeouts that double. */
void loss_of_tail_and_probe(sim_t *sim)
{
    begin(sim, 9, 1, 2);
    run_mask(sim, drop_mask, 10, 50, SIM_US(600), 4);
}

void loss_of_burst(sim_t *sim)
{
    begin(sim, 20, 30, 1);
    run_mask(sim, drop_mask, 3, 65536, SIM_US(150), 31);
}

/* All that is sent before the first acknowledgement. */
void loss_of_first_flight(sim_t *sim)
{
    two(sim);
    run_start(sim);
    memset(sim->scratch, 0, sizeof(sim->scratch));
    sim->scratch[COUNT] = 20;
    sim->scratch[COPIES] = 1;
    run_mask(sim, drop_mask, 20, 50, SIM_MS(3), 24);
}

void loss_of_every_tenth(sim_t *sim)
{
    begin(sim, 0, 0, 0);
    run_mask(sim, drop_every_tenth, 20, 65536, SIM_US(600), 20 * 47 / 10 + 3);
}

/* Nothing of the data is lost; the next ACK tells the same. */
void loss_of_acks(sim_t *sim)
{
    begin(sim, 0, 4, 0);
    run_mask(sim, drop_acks, 20, 20000, SIM_US(500), 6);
}

/* Segments are overtaken and none is lost: at first some are sent again, after a while none. */
void reorder_only(sim_t *sim)
{
    begin(sim, 0, 0, 0);
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

/* What the sender calls spurious is what the receiver saw twice, to the last one. */
void spurious_count(sim_t *sim)
{
    begin(sim, 0, 0, 0);
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
    uint64_t seen = btl_ib_engine_counters(sim->procs[1].engine)->dropped_duplicate;
    must_be_within(sim, "spurious, beyond what came twice", spurious(sim), seen);
    must_be_within(sim, "came twice, beyond spurious", seen, spurious(sim) + 1);
    finish(sim);
}

static bool drop_last_data(sim_t *sim, const datagram_t *d)
{
    return type_of(d) == BTL_IB_TYPE_DATA && sim->scratch[0] != 0 && --sim->scratch[0] == 0;
}

void tail_loss(sim_t *sim)
{
    two(sim);
    run_start(sim);
    warm_up(sim, 0, 1);
    uint32_t first = sim->nmessages;
    sim->scratch[0] = 20;
    sim->drop = drop_last_data;
    for (int i = 0; i < 20; i++) {
        say(sim, 0, 1, 50, 1000);
    }
    run_settle(sim, SIM_S(1));
    /* By the tail probe, which is sooner than the shortest timeout. */
    must_be_within(sim, "repair of a lost tail took ns", slowest(sim, first), SIM_US(245));
    must_be_within(sim, "datagrams sent again", again_sum(sim), 3);
    finish(sim);
}

static bool drop_nth(sim_t *sim, const datagram_t *d)
{
    (void) d;
    return sim->scratch[0]++ == sim->scratch[1];
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
        must_be_within(sim, "repair took ns", slowest(sim, 0), SIM_MS(10));
        must_be_within(sim, "datagrams sent again", again_sum(sim), 6);
        finish(sim);
        if (!dropped) {
            break;
        }
        again(sim, k + 2);
    }
}

void each_duplicated(sim_t *sim)
{
    two(sim);
    run_start(sim);
    fault_add(sim, F_DUPLICATE, 0, SIM_NEVER, 1000000, SIM_MS(1));
    for (uint32_t i = 0; i < 50; i++) {
        say(sim, i % 2, 1 - i % 2, i * 100, SIM_US(20) * i)->replies = 2;
    }
    run_settle(sim, SIM_S(1));
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
    run_start(sim);
    warm_up(sim, 0, 1);
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

static bool drop_44(sim_t *sim, const datagram_t *d)
{
    if (type_of(d) > BTL_IB_TYPE_CHUNK) {
        return false;
    }
    sim->scratch[0]++;
    return sim->scratch[0] > 10 && sim->scratch[0] <= 54;
}

void burst_loss(sim_t *sim)
{
    two(sim);
    run_start(sim);
    warm_up(sim, 0, 1);
    uint32_t first = sim->nmessages;
    sim->drop = drop_44;
    for (int i = 0; i < 3; i++) {
        say(sim, 0, 1, 65536, 1000);
    }
    run_settle(sim, SIM_S(1));
    must_be_within(sim, "repair of a lost burst took ns", slowest(sim, first), SIM_MS(5));
    must_be_within(sim, "datagrams sent again", again_sum(sim), 60);
    finish(sim);
}

void pingpong_loss(sim_t *sim)
{
    uint64_t sum = 0, slow = 0, n = 0;

    two(sim);
    run_start(sim);
    warm_up(sim, 0, 1);
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
