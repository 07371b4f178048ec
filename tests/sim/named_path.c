/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Scenarios of paths that carry less than the rails at their ends (1472 bytes), where nobody says
 * so: everything must get through, also what was cut before, and soon the largest datagrams that
 * the path carries are used.
 */

#include <stdio.h>

#include "named.h"

static uint32_t datagram_max(sim_t *sim, uint32_t from, uint32_t to)
{
    const link_t *link = proc_link(&sim->procs[from], to, 0);

    return inside_datagram_max(link->conn != NULL ? link->conn : link->passive);
}

/* From now on nothing above `bytes` gets through, in either direction. */
static fault_t *make_hole(sim_t *sim, uint32_t bytes)
{
    return fault_add(sim, F_HOLE, 0, SIM_NEVER, 0, bytes);
}

/* What is sent now is nearly as large as the path carries. */
static void must_use(sim_t *sim, uint32_t bytes)
{
    uint32_t is = datagram_max(sim, 0, 1);

    if (is > bytes || is + 40 < bytes) {
        sim_fail(sim, "the path carries %u bytes, %u are used", bytes, is);
    }
}

static void begin(sim_t *sim)
{
    two(sim);
    start_warm(sim);
}

static void end(sim_t *sim)
{
    run_heal(sim);
    finish(sim);
}

/* Messages for the search to go along with. */
static void chat(sim_t *sim, uint64_t time)
{
    for (uint64_t at = 0; at < time; at += SIM_US(500)) {
        say(sim, 0, 1, 100, 1000 + at);
    }
    run_settle(sim, time + SIM_S(1));
}

/* The sender hears of it so often, with sizes on both sides of what gets through. */
static void must_be_told(sim_t *sim, uint32_t times, uint32_t size)
{
    const proc_t *proc = &sim->procs[0];

    if (proc->holes_told != times || proc->hole_lost <= size || proc->hole_most > size
        || proc->hole_most == 0 || proc->hole_carries < proc->hole_lost) {
        sim_fail(sim, "told %u times: %u bytes vanish, at most %u of %u are sent", proc->holes_told,
                 proc->hole_lost, proc->hole_most, proc->hole_carries);
    }
}

void hole(sim_t *sim)
{
    begin(sim);
    make_hole(sim, 1300);
    uint32_t large = sim->nmessages;
    for (uint32_t i = 0; i < 10; i++) {
        say(sim, 0, 1, 20000, 1000);
    }
    uint32_t small = sim->nmessages;
    for (uint32_t i = 0; i < 400; i++) {
        say(sim, 0, 1, 20, SIM_US(500) * i);
    }
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "large messages took ns", slowest(sim, large), SIM_MS(60));
    must_be_within(sim, "small ones took ns", slowest(sim, small), SIM_MS(60));
    must_use(sim, 1300);
    if (sim_counters(sim, 0)->black_holes != 1 || sim_counters(sim, 0)->sent_parts == 0) {
        sim_fail(sim, "%llu black holes", (unsigned long long) sim_counters(sim, 0)->black_holes);
    }
    must_be_told(sim, 1, 1300);
    end(sim);
}

void hole_alone(sim_t *sim)
{
    begin(sim);
    make_hole(sim, 1300);
    uint32_t first = sim->nmessages;
    say(sim, 0, 1, 65536, 1000);
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "a large message took ns", slowest(sim, first), SIM_MS(400));
    chat(sim, SIM_MS(100));
    must_use(sim, 1300);
    first = sim->nmessages;
    say(sim, 0, 1, 65536, 1000);
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "the next one took ns", slowest(sim, first), SIM_US(300));
    end(sim);
}

/* Both know nothing of each other, and begin with something large. */
void hole_first_contact(sim_t *sim)
{
    two(sim);
    run_start(sim);
    make_hole(sim, 1400);
    say(sim, 0, 1, 40000, 1000);
    say(sim, 1, 0, 1400, SIM_MS(1));
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "the first messages took ns", slowest(sim, 0), SIM_MS(1000));
    chat(sim, SIM_MS(100));
    must_use(sim, 1400);
    end(sim);
}

void hole_appears(sim_t *sim)
{
    begin(sim);
    uint32_t first = sim->nmessages;
    for (uint32_t i = 0; i < 8; i++) {
        say(sim, 0, 1, 60000, 1000)->chain = 40;
        say(sim, 1, 0, 60000, 1000)->chain = 40;
    }
    sim_run_until(sim, sim->now + SIM_MS(2));
    make_hole(sim, 1350);
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "messages of a stream took ns", slowest(sim, first), SIM_MS(600));
    chat(sim, SIM_MS(100));
    must_use(sim, 1350);
    end(sim);
}

/* It becomes smaller before it is found: what has arrived meanwhile, larger than all that is still
 * on its way, does not get through any more. Nothing else is sent. */
void hole_shrinks(sim_t *sim)
{
    begin(sim);
    fault_t *fault = make_hole(sim, 1445);
    say(sim, 0, 1, 1410, 1000);
    say(sim, 0, 1, 1380, SIM_US(500));
    sim_run_until(sim, sim->now + SIM_MS(1));
    must_be_within(sim, "lost were", sim_counters(sim, 0)->losses, 4);
    fault->value = 1300;
    const uint32_t first = sim->nmessages;
    for (uint32_t i = 0; i < 40; i++) {
        say(sim, 0, 1, 1300, 1000);
    }
    run_settle(sim, SIM_S(20));
    must_be_within(sim, "messages took ns", slowest(sim, first), SIM_MS(600));
    end(sim);
}

/* Many smaller messages get through, and some are lost by chance: what the hole swallowed is still
 * counted, and not from one again after each of these. */
void hole_among_losses(sim_t *sim)
{
    begin(sim);
    make_hole(sim, 1300);
    fault_add(sim, F_LOSS, 0, sim->now + SIM_MS(600), 100000, 0);
    const uint32_t first = sim->nmessages;
    say(sim, 0, 1, 1400, 1000);
    for (uint32_t i = 0; i < 3000; i++) {
        say(sim, 0, 1, 1000, SIM_US(20) * i);
    }
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "messages took ns", slowest(sim, first), SIM_MS(30));
    must_use(sim, 1300);
    end(sim);
}

void hole_heals(sim_t *sim)
{
    begin(sim);
    fault_t *fault = make_hole(sim, 1300);
    say(sim, 0, 1, 65536, 1000);
    run_settle(sim, SIM_S(5));
    chat(sim, SIM_MS(100));
    must_use(sim, 1300);
    fault->to = sim->now;
    sim_run_until(sim, sim->now + SIM_S(590));
    chat(sim, SIM_MS(10));
    must_use(sim, 1300);
    sim_run_until(sim, sim->now + SIM_S(15));
    chat(sim, SIM_MS(10));
    must_use(sim, 1472);
    must_be_within(sim, "black holes", sim_counters(sim, 0)->black_holes, 1);
    end(sim);
}

/* Smaller than 1200 bytes, which nobody should meet: what is found first is too large as well. */
void hole_narrow(sim_t *sim)
{
    begin(sim);
    make_hole(sim, 600);
    uint32_t first = sim->nmessages;
    say(sim, 0, 1, 65536, 1000);
    for (uint32_t i = 0; i < 100; i++) {
        say(sim, 0, 1, i * 14, SIM_MS(1) * i);
    }
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "messages took ns", slowest(sim, first), SIM_MS(600));
    chat(sim, SIM_MS(200));
    must_use(sim, 600);
    end(sim);
}

void hole_for_operations(sim_t *sim)
{
    begin(sim);
    for (uint32_t i = 0; i < 20; i++) {
        op_plan(sim, 0, 1, BTL_IB_OP_PUT, 9000, sim->now + SIM_US(2) * i);
        op_plan(sim, 0, 1, BTL_IB_OP_GET, 9000, sim->now + SIM_US(2) * i);
        op_plan(sim, 0, 1, BTL_IB_OP_ATOMIC, 8, sim->now + SIM_US(2) * i);
    }
    sim_run_until(sim, sim->now + SIM_US(15));
    make_hole(sim, 1300);
    uint64_t from = sim->now;
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "operations took ns", sim->now - from, SIM_MS(600));
    end(sim);
}

/* What was refused at first, and may come once the path carries less. Nothing else is sent. */
void hole_after_refusal(sim_t *sim)
{
    begin(sim);
    run_tag_from(sim, sim->now + SIM_S(1));
    const uint32_t first = sim->nmessages;
    say(sim, 0, 1, 1400, 1000)->tag = 200;
    sim_run_until(sim, sim->tag_from - SIM_MS(10));
    if (sim_counters(sim, 0)->deferred == 0) {
        sim_fail(sim, "it was not refused");
    }
    make_hole(sim, 1300);
    run_settle(sim, SIM_S(20));
    must_be_within(sim, "after its tag had a receiver it took ns",
                   sim->messages[first].delivered_at - sim->tag_from, SIM_S(3));
    end(sim);
}

/* Random losses, whatever the sizes; a full receive buffer that has room for small ones only;
 * refusals. */
void no_hole(sim_t *sim)
{
    begin(sim);
    fault_add(sim, F_LOSS, 0, SIM_NEVER, 50000, 0);
    for (uint32_t i = 0; i < 4000; i++) { /* one at a time, each of one large segment */
        say(sim, 0, 1, i % 2 == 0 ? 1400 : 20, SIM_US(400) * i);
    }
    run_settle(sim, SIM_S(10));
    for (uint32_t i = 0; i < 20; i++) {
        say(sim, 0, 1, 65536, 1000)->chain = 50;
    }
    run_settle(sim, SIM_S(10));
    run_tag_from(sim, sim->now + SIM_S(1));
    for (uint32_t i = 0; i < 10; i++) {
        say(sim, 0, 1, 1400, 1000)->tag = 200;
    }
    chat(sim, SIM_MS(500));
    run_settle(sim, SIM_S(10));
    must_be_within(sim, "black holes where there are none", sim_counters(sim, 0)->black_holes, 0);
    end(sim);
}

void path_told(sim_t *sim)
{
    begin(sim);
    uint32_t first = sim->nmessages;
    for (uint32_t i = 0; i < 8; i++) {
        say(sim, 0, 1, 60000, 1000)->chain = 20;
    }
    sim_run_until(sim, sim->now + SIM_US(500));
    make_hole(sim, 1400);
    sim_run_until(sim, sim->now + SIM_US(100));
    rail_narrowed(sim->procs[0].rails[0], rail_address(sim->procs[1].rails[0]), 1400);
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "messages of a stream took ns", slowest(sim, first), SIM_MS(5));
    must_be_within(sim, "black holes", sim_counters(sim, 0)->black_holes, 0);
    must_use(sim, 1400);
    end(sim);
}

/* More segments in parts than the peer has room for, of which every second part is lost for a
 * while: it has pieces of those with the lowest sequences, and only they bring it on. */
void hole_many_parts(sim_t *sim)
{
    begin(sim);
    fault_t *fault = make_hole(sim, 300);
    uint32_t first = sim->nmessages;
    for (uint32_t i = 0; i < 60; i++) {
        say(sim, 0, 1, 700, 1000);
    }
    sim_run_until(sim, sim->now + SIM_S(1));
    fault->to = sim->now;
    run_settle(sim, SIM_S(20));
    must_be_within(sim, "messages took ns", slowest(sim, first), SIM_MS(1500));
    end(sim);
}

/* One segment makes more parts than the transport's queue has room for: the second step of the
 * search has to look at whole segments, too. */
void hole_little_queue(sim_t *sim)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        sim->procs[i].attr.max_datagram = 65000;
        sim->procs[i].attr.tx_depth = 4;
        sim->procs[i].attr.inline_size = 0;
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "P,256,16:P,65000,16");
    }
    start_warm(sim);
    make_hole(sim, 1000);
    uint32_t first = sim->nmessages;
    for (int i = 0; i < 4; i++) {
        say(sim, 0, 1, 64000, 1000);
    }
    run_settle(sim, SIM_S(30));
    must_be_within(sim, "messages took ns", slowest(sim, first), SIM_MS(500));
    end(sim);
}

/* One segment makes more parts than its receiver has room for at a time, and each copy leaves in
 * one burst. */
void hole_little_room(sim_t *sim)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        sim->procs[i].attr.max_datagram = 9000;
        sim->procs[i].attr.rx_depth = 12;
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "P,256,4:P,9000,4");
    }
    start_warm(sim);
    make_hole(sim, 600);
    uint32_t first = sim->nmessages;
    say(sim, 0, 1, 8900, 1000);
    run_settle(sim, SIM_S(10));
    must_be_within(sim, "a message took ns", slowest(sim, first), SIM_S(3));
    end(sim);
}
