/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios with one-sided operations. Each operation checks its own outcome and the memory
 * (onesided.c); here is said what must come of them in these situations. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "named.h"

static void must_be(sim_t *sim, const char *what, uint64_t value, uint64_t wanted)
{
    if (value != wanted) {
        sim_fail(sim, "%s: %llu, it must be %llu", what, (unsigned long long) value,
                 (unsigned long long) wanted);
    }
}

static void must_end(sim_t *sim, const onesided_t *op, int status)
{
    if (!op->done || op->status != status) {
        sim_fail(sim, "operation %u ends with %d (done: %d), it must be %d", op->id, op->status,
                 op->done, status);
    }
}

static onesided_t *work(sim_t *sim, uint32_t src, btl_ib_op_kind_t kind, uint64_t bytes)
{
    return op_plan(sim, src, 1 - src, kind, bytes, sim->now + 1000);
}

static onesided_t *coming(sim_t *sim, uint32_t src, btl_ib_op_kind_t kind, uint64_t bytes)
{
    onesided_t *op = work(sim, src, kind, bytes);

    op->area = AREA_COMING;
    return op;
}

/* ---- what goes well ---- */

void ops_clean(sim_t *sim)
{
    static const uint32_t sizes[] = {0, 1, 7, 88, 89, 1000, 1472, 9000, 16000};

    two(sim);
    sim->clean = true;
    run_start(sim);
    for (uint32_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        work(sim, i % 2, BTL_IB_OP_PUT, sizes[i / 2]);
        work(sim, i % 2, BTL_IB_OP_GET, sizes[i / 2]);
        work(sim, i % 2, BTL_IB_OP_ATOMIC, 8)->area = i % 4 < 2 ? AREA_SHARED : AREA_WORDS;
    }
    run_settle(sim, SIM_MS(50));
    for (uint32_t i = 0; i < sim->nops; i++) {
        must_end(sim, sim->ops[i], 0);
    }
    finish(sim);
}

/* Many GETs at once, and then a message in pieces on the same channel: it does not wait for all
 * of them. */
void ops_take_turns(sim_t *sim)
{
    two(sim);
    sim->procs[0].config.depth_peer = 16;
    start_warm(sim);
    uint32_t first = sim->nmessages;
    for (int i = 0; i < 8; i++) {
        work(sim, 1, BTL_IB_OP_GET, 16000); /* what 0 has to send */
    }
    say(sim, 0, 1, 30000, SIM_US(20));
    run_settle(sim, SIM_S(1));
    uint64_t last = 0;
    for (uint32_t i = 0; i < sim->nops; i++) {
        last = sim->ops[i]->done_at > last ? sim->ops[i]->done_at : last;
    }
    if (sim->messages[first].delivered_at >= last) {
        sim_fail(sim, "a message waits for all GETs: %llu ns after the last",
                 (unsigned long long) (sim->messages[first].delivered_at - last));
    }
    finish(sim);
}

/* ---- loss ---- */

/* Each datagram of a few operations of all kinds, some of them refused, is lost in turn. */
void ops_each_lost(sim_t *sim)
{
    for (uint64_t k = 0;; k++) {
        two(sim);
        run_start(sim);
        sim->drop = drop_nth;
        sim->scratch[1] = k;
        for (uint32_t src = 0; src < 2; src++) {
            work(sim, src, BTL_IB_OP_PUT, 3000);
            work(sim, src, BTL_IB_OP_GET, 3000);
            work(sim, src, BTL_IB_OP_ATOMIC, 8)->area = AREA_SHARED;
            work(sim, src, BTL_IB_OP_PUT, 2000)->flaw = FLAW_BOUNDS;
        }
        run_settle(sim, SIM_S(1));
        bool dropped = sim->scratch[0] > k;
        sim->drop = NULL;
        for (uint32_t i = 0; i < sim->nops; i++) {
            must_end(sim, sim->ops[i], sim->ops[i]->flaw == FLAW_NONE ? 0 : -EACCES);
            must_be_within(sim, "an operation took ns",
                           sim->ops[i]->done_at - sim->ops[i]->started_at, SIM_MS(10));
        }
        finish(sim);
        if (!dropped) {
            break;
        }
        again(sim, k + 2);
    }
}

void ops_duplicated(sim_t *sim)
{
    two(sim);
    run_start(sim);
    fault_add(sim, F_DUPLICATE, 0, SIM_NEVER, 1000000, SIM_MS(1));
    for (uint32_t i = 0; i < 60; i++) {
        onesided_t *op = work(sim, i % 2, i % 3, i % 3 == BTL_IB_OP_ATOMIC ? 8 : 50 * i);
        op->area = i % 3 == BTL_IB_OP_ATOMIC ? AREA_SHARED : op->area;
    }
    run_settle(sim, SIM_S(1));
    run_heal(sim);
    finish(sim);
}

/* ---- what is refused ---- */

static void refuse_one(sim_t *sim, btl_ib_op_kind_t kind, flaw_t flaw)
{
    uint64_t bytes = kind == BTL_IB_OP_ATOMIC ? 8 : 5000;
    onesided_t *op = work(sim, 0, kind, bytes);

    op->flaw = flaw;
    say(sim, 0, 1, 5000, 1000); /* the channel that it leaves is closed, or this would not come */
    work(sim, 0, BTL_IB_OP_PUT, 5000);
    run_settle(sim, SIM_S(1));
    must_end(sim, op, -EACCES);
    must_end(sim, sim->ops[sim->nops - 1], 0);
    arena_check(&sim->procs[1]);
}

/* Every kind with everything that can be wrong with it: an error for the initiator, nothing
 * changed, the cause counted, and what goes on beside it is not disturbed. */
void ops_refused(sim_t *sim)
{
    two(sim);
    run_start(sim);
    for (uint32_t kind = BTL_IB_OP_PUT; kind <= BTL_IB_OP_ATOMIC; kind++) {
        uint64_t region = sim_counters(sim, 1)->rejected_region;
        uint64_t bounds = sim_counters(sim, 1)->rejected_bounds;
        refuse_one(sim, kind, FLAW_SECRET);
        refuse_one(sim, kind, FLAW_STALE);
        must_be(sim, "causes counted besides",
                sim_counters(sim, 1)->rejected_region - region < 2
                    || sim_counters(sim, 1)->rejected_bounds != bounds,
                0);
        refuse_one(sim, kind, FLAW_BOUNDS);
        must_be(sim, "requests beyond a region not counted",
                sim_counters(sim, 1)->rejected_bounds == bounds, 0);
        if (kind != BTL_IB_OP_GET) {
            refuse_one(sim, kind, FLAW_RIGHT);
        }
    }
    refuse_one(sim, BTL_IB_OP_ATOMIC, FLAW_ALIGNED);
    must_be(sim, "requests without a right not counted", sim_counters(sim, 1)->rejected_right == 0,
            0);
    must_be(sim, "words not aligned", sim_counters(sim, 1)->rejected_aligned, 1);
    finish(sim);
}

/* Both sides' windows and credits are full of PUTs that the other one refuses. */
void ops_refused_both(sim_t *sim)
{
    two(sim);
    for (uint32_t i = 0; i < 2; i++) {
        memcpy(sim->procs[i].queues, "P,144,2,1", sizeof("P,144,2,1"));
        sim->procs[i].config.depth_peer = 1;
    }
    run_start(sim);
    for (uint32_t i = 0; i < 20; i++) {
        work(sim, i % 2, BTL_IB_OP_PUT, 300)->flaw = FLAW_SECRET;
        work(sim, i % 2, BTL_IB_OP_ATOMIC, 8);
    }
    run_settle(sim, SIM_S(2));
    finish(sim);
}

static bool drop_refused(sim_t *sim, const datagram_t *d)
{
    return type_of(d) == BTL_IB_TYPE_REJECTED && sim->scratch[0]-- > 0;
}

/* The news that a long PUT is refused is lost three times. */
void ops_refusal_lost(sim_t *sim)
{
    two(sim);
    start_warm(sim);
    sim->scratch[0] = 3;
    sim->drop = drop_refused;
    onesided_t *op = work(sim, 0, BTL_IB_OP_PUT, 40000);
    op->flaw = FLAW_BOUNDS;
    for (uint32_t i = 0; i < 10; i++) {
        say(sim, 0, 1, 3000, SIM_US(10) * i);
    }
    run_settle(sim, SIM_S(1));
    must_end(sim, op, -EACCES);
    must_be(sim, "segments of it placed", sim_counters(sim, 1)->placed_puts, 0);
    finish(sim);
}

/* ---- regions that go ---- */

static bool keep_put(sim_t *sim, const datagram_t *d)
{
    if (type_of(d) == BTL_IB_TYPE_PUT && sim->scratch[0] == 0) {
        sim->scratch[0] = (uint64_t) (uintptr_t) datagram_copy(d, d->size);
    }
    return false;
}

/* A second copy of a PUT comes after its region was removed and its memory used for something
 * else, and once more when another region has its place. */
void ops_late_put(sim_t *sim)
{
    for (int times = 0; times < 2; times++) {
        two(sim);
        run_start(sim);
        sim->drop = keep_put;
        onesided_t *op = coming(sim, 0, BTL_IB_OP_PUT, 500);
        run_settle(sim, SIM_S(1));
        must_end(sim, op, 0);
        sim->drop = NULL;
        for (int i = 0; i <= times; i++) {
            arena_swap(&sim->procs[1]);
        }
        net_send(sim, (datagram_t *) (uintptr_t) sim->scratch[0]);
        sim_run_until(sim, sim->now + SIM_MS(1));
        must_be(sim, "PUTs placed", sim_counters(sim, 1)->placed_puts, 1);
        arena_check(&sim->procs[1]);
        finish(sim);
        again(sim, 2);
    }
    two(sim);
    run_start(sim);
    say(sim, 0, 1, 10, 1000);
    finish(sim);
}

static void swap_event(sim_t *sim, void *arg, uint64_t value)
{
    arena_swap(arg);
}

/* The region goes while a GET of it streams, and while a PUT to it is on its way. */
void ops_region_removed(sim_t *sim)
{
    two(sim);
    sim->delay = SIM_US(100);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].config.depth_peer = 2; /* some round trips for each */
    }
    start_warm(sim);
    onesided_t *get = coming(sim, 0, BTL_IB_OP_GET, 12000);
    sim_at(sim, sim->now + SIM_US(600), swap_event, &sim->procs[1], 0);
    run_settle(sim, SIM_S(1));
    must_end(sim, get, -EACCES);
    must_be(sim, "GETs cut off before they began", get->op.got == 0, 0);
    arena_swap(&sim->procs[1]);

    onesided_t *put = coming(sim, 0, BTL_IB_OP_PUT, 12000);
    sim_at(sim, sim->now + SIM_US(600), swap_event, &sim->procs[1], 0);
    run_settle(sim, SIM_S(1));
    must_end(sim, put, -EACCES);
    must_be(sim, "PUTs cut off before they began", sim_counters(sim, 1)->placed_puts == 0, 0);
    arena_check(&sim->procs[1]);
    finish(sim);
}

/* ---- connections that end ---- */

static void work_of_all_kinds(sim_t *sim)
{
    for (uint32_t i = 0; i < 300; i++) { /* more than may run */
        work(sim, i % 2, i % 3, i % 3 == BTL_IB_OP_ATOMIC ? 8 : 200);
    }
}

/* With operations under way one side destroys the connection, drains it, or restarts: each of
 * them ends once, and those that come later work again. */
void ops_cut_off(sim_t *sim)
{
    for (uint32_t how = DESTROYED; how <= RESTARTED; how++) {
        two(sim);
        sim->delay = SIM_US(50);
        sim->procs[0].config.silence_limit = 2000000;
        sim->procs[1].config.silence_limit = 2000000;
        start_warm(sim);
        work_of_all_kinds(sim);
        end_connection(sim, 1, SIM_US(130), (ending_t) how);
        run_settle(sim, SIM_S(20));
        must_be(sim, "operations that nothing cut off", sim->applied[F_OP_CUT_OFF] == 0, 0);
        sim_run_until(sim, sim->now + SIM_S(3)); /* until both know */
        onesided_t *op = work(sim, 0, BTL_IB_OP_GET, 3000);
        run_settle(sim, SIM_S(5));
        must_end(sim, op, 0);
        finish(sim);
        again(sim, how + 2);
    }
    ops_clean(sim);
}

static bool drop_of_0(sim_t *sim, const datagram_t *d)
{
    return sim->now < sim->scratch[0] && (d->from == 0 || type_of(d) == BTL_IB_TYPE_CLOSE);
}

/* The asker closes, which its peer does not hear, and asks anew: it must not take what is still
 * under way to its first life for the answer. */
void ops_old_answers(sim_t *sim)
{
    two(sim);
    run_start(sim);
    sim->scratch[0] = sim->now + SIM_MS(3);
    sim->drop = drop_of_0;
    work(sim, 1, BTL_IB_OP_GET, 3000);
    work(sim, 1, BTL_IB_OP_ATOMIC, 8);
    sim_run_until(sim, sim->now + SIM_US(300));
    must_be(sim, "GETs served", sim_counters(sim, 0)->served_gets, 1);
    app_close(&sim->procs[1], 0, 0, false);
    work(sim, 1, BTL_IB_OP_GET, 2900);
    work(sim, 1, BTL_IB_OP_ATOMIC, 8);
    run_settle(sim, SIM_S(1));
    must_end(sim, sim->ops[0], -ECANCELED);
    must_end(sim, sim->ops[2], 0);
    must_end(sim, sim->ops[3], 0);
    finish(sim);
}

static bool drop_answers(sim_t *sim, const datagram_t *d)
{
    bool answer = type_of(d) == BTL_IB_TYPE_REPLY || type_of(d) == BTL_IB_TYPE_GOT;

    return answer || (d->from == 1 && sim->now >= sim->scratch[0]);
}

/* The peer acknowledges a request, and dies before its answer comes: with nothing of ours on the
 * way, the silence has to be noticed all the same. */
void ops_answer_never(sim_t *sim)
{
    two(sim);
    sim->death_ok = true;
    sim->procs[0].config.silence_limit = 2000000;
    start_warm(sim);
    sim->scratch[0] = sim->now + SIM_MS(100);
    sim->drop = drop_answers;
    onesided_t *op = work(sim, 0, BTL_IB_OP_GET, 100);
    run_settle(sim, SIM_S(10));
    must_end(sim, op, -EPIPE);
    must_be_within(sim, "ns until the peer is given up", op->done_at - op->started_at, SIM_S(5));
    run_farewell(sim);
}

/* As long as the peer lives its answer is waited for, whatever time that takes. */
void ops_answer_late(sim_t *sim)
{
    two(sim);
    sim->procs[0].config.silence_limit = 2000000;
    start_warm(sim);
    sim->scratch[0] = SIM_NEVER;
    sim->drop = drop_answers;
    onesided_t *op = work(sim, 0, BTL_IB_OP_ATOMIC, 8);
    sim_run_until(sim, sim->now + SIM_S(8));
    sim->drop = NULL;
    run_settle(sim, SIM_S(2));
    must_end(sim, op, 0);
    finish(sim);
}

/* ---- memory ---- */

void ops_no_memory(sim_t *sim)
{
    for (uint32_t k = 1; k <= 12; k++) {
        for (uint32_t who = 0; who < 2; who++) {
            two(sim);
            start_warm(sim);
            sim->procs[who].fail_at = k;
            work(sim, 0, BTL_IB_OP_PUT, 4000);
            work(sim, 0, BTL_IB_OP_PUT, 4000)->flaw = FLAW_BOUNDS;
            work(sim, 0, BTL_IB_OP_GET, 4000);
            work(sim, 0, BTL_IB_OP_ATOMIC, 8);
            run_settle(sim, SIM_S(2));
            finish(sim);
            again(sim, k + 1);
        }
    }
    ops_clean(sim);
}
