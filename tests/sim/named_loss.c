/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Scenarios with exact masks of what is lost, one function each, on a path of 20 us. Each bounds the
 * time until all is there, and what was sent again. The masks look at data segments in the order in which
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
    uint8_t type = d->data[0] & 0xf;

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
    return (d->data[0] & 0xf) == BTL_IB_TYPE_ACK && sim->scratch[SEEN]++ < sim->scratch[COUNT];
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
