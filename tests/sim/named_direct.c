/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios with one-sided operations that devices do by themselves. */

#include <errno.h>

#include "named.h"

/* Two processes with devices that move memory, and change words. */
static void with_devices(sim_t *sim, uint32_t rails)
{
    sim_procs(sim, 2, rails);
    run_defaults(sim);
    sim->device_atomics = true;
    for (uint32_t i = 0; i < 2; i++) {
        btl_ib_transport_attr_t *attr = &sim->procs[i].attr;
        attr->rdma = true;
        attr->rdma_max = 1u << 30;
        attr->rdma_copied = 64;
        attr->rdma_atomics = BTL_IB_RDMA_ATOMICS_DEVICE;
    }
}

static void two_devices(sim_t *sim)
{
    with_devices(sim, 1);
}

static onesided_t *work(sim_t *sim, uint32_t src, btl_ib_op_kind_t kind, uint64_t bytes)
{
    return op_plan(sim, src, 1 - src, kind, bytes, sim->now + 1000);
}

/* A PUT, a GET and an ATOMIC of process 0. */
static void one_of_each(sim_t *sim)
{
    work(sim, 0, BTL_IB_OP_PUT, 5000);
    work(sim, 0, BTL_IB_OP_GET, 5000);
    work(sim, 0, BTL_IB_OP_ATOMIC, 8);
}

static void must_end_from(sim_t *sim, uint32_t first, int status, int atomics)
{
    for (uint32_t i = first; i < sim->nops; i++) {
        const onesided_t *op = sim->ops[i];
        const int wanted = op->op.kind == BTL_IB_OP_ATOMIC ? atomics : status;
        if (!op->done || op->status != wanted) {
            sim_fail(sim, "operation %u (kind %d) ends with %d (done: %d), it must be %d", op->id,
                     (int) op->op.kind, op->status, op->done, wanted);
        }
    }
}

/* So many of all that process 0 started were done by its device, the others in segments. */
static void must_be_direct(sim_t *sim, uint64_t direct)
{
    const btl_ib_counters_t *count = sim_counters(sim, 0);
    const uint64_t sum = count->offload_puts + count->offload_gets + count->offload_atomics;

    if (sum != direct) {
        sim_fail(sim, "%llu operations were done by the device, it must be %llu",
                 (unsigned long long) sum, (unsigned long long) direct);
    }
}

/* All that can go by the devices does: nothing of it travels in segments. */
void direct_clean(sim_t *sim)
{
    static const uint32_t sizes[] = {0, 1, 64, 65, 9000, 16000};
    const uint32_t count = sizeof(sizes) / sizeof(sizes[0]);

    two_devices(sim);
    sim->clean = true;
    run_start(sim);
    for (uint32_t i = 0; i < 2 * count; i++) {
        work(sim, i % 2, BTL_IB_OP_PUT, sizes[i / 2]);
        work(sim, i % 2, BTL_IB_OP_GET, sizes[i / 2]);
        work(sim, i % 2, BTL_IB_OP_ATOMIC, 8)->area = i % 4 < 2 ? AREA_SHARED : AREA_WORDS;
    }
    run_settle(sim, SIM_MS(50));
    must_end_from(sim, 0, 0, 0);
    must_be_direct(sim,
                   3 * count - 2); /* what has no bytes is only checked, by the peer's engine */
    if (sim_counters(sim, 1)->placed_puts != 1 || sim_counters(sim, 1)->served_gets != 1
        || sim_counters(sim, 1)->served_atomics != 0) {
        sim_fail(sim, "the peer's engine served what its device could");
    }
    finish(sim);
}

/* What is not exposed goes by the device up to what that copies; and nothing where the region is
 * not known. */
void direct_not_exposed(sim_t *sim)
{
    two_devices(sim);
    sim->pinned_ppm = 0;
    run_start(sim);
    for (uint64_t bytes = 63; bytes <= 65; bytes++) {
        work(sim, 0, BTL_IB_OP_PUT, bytes);
        work(sim, 0, BTL_IB_OP_GET, bytes);
    }
    run_settle(sim, SIM_S(1));
    must_be_direct(sim, 4);
    sim->known_ppm = 0;
    work(sim, 0, BTL_IB_OP_PUT, 10);
    work(sim, 0, BTL_IB_OP_GET, 10);
    run_settle(sim, SIM_S(1));
    must_be_direct(sim, 4);
    sim->known_ppm = 1000000;
    sim->pinned_ppm = 1000000;
    sim->procs[0].attr.rdma_max = 4096;
    proc_restart(&sim->procs[0], true); /* devices have other limits */
    sim_run_until(sim, sim->now + SIM_MS(1));
    work(sim, 0, BTL_IB_OP_PUT, 4096);
    work(sim, 0, BTL_IB_OP_PUT, 4097);
    run_settle(sim, SIM_S(1));
    must_be_direct(sim, 1);
    must_end_from(sim, 0, 0, 0);
    finish(sim);
}

/* Devices move what no protection protects: with any protection they are asked for nothing. */
void direct_protected(sim_t *sim)
{
    for (uint32_t kind = BTL_IB_PROTECTION_CRC32C; kind < protection_kinds(); kind++) {
        if (kind > BTL_IB_PROTECTION_CRC32C) {
            again(sim, kind);
        }
        two_devices(sim);
        sim->device_atomics = false;
        protection_choose(sim, (btl_ib_protection_kind_t) kind);
        run_start(sim);
        one_of_each(sim);
        run_settle(sim, SIM_S(1));
        must_end_from(sim, 0, 0, 0);
        must_be_direct(sim, 0);
        finish(sim);
    }
}

/* The peer computes: its device does what its engine could not. */
void direct_peer_computes(sim_t *sim)
{
    two_devices(sim);
    start_warm(sim);
    arena_begin(&sim->procs[1]);
    proc_compute(&sim->procs[1], sim->now + SIM_S(1));
    for (uint32_t i = 0; i < 3; i++) {
        one_of_each(sim);
    }
    const uint64_t before = sim->now;
    run_settle(sim, SIM_MS(500));
    must_end_from(sim, 0, 0, 0);
    must_be_within(sim, "ns for operations beside a peer that computes", sim->now - before,
                   SIM_MS(1));
    sim_run_until(sim, before + SIM_S(1));
    finish(sim);
}

/* The transport takes few at a time, and for a while none. */
void direct_full(sim_t *sim)
{
    two_devices(sim);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].attr.tx_depth = 4;
        sim->procs[i].config.ops_max = 3;
    }
    start_warm(sim);
    fault_add(sim, F_RDMA_EAGAIN, 0, sim->now + SIM_MS(5), 1000000, 0);
    for (uint32_t i = 0; i < 10; i++) {
        one_of_each(sim);
    }
    run_settle(sim, SIM_S(1));
    must_end_from(sim, 0, 0, 0);
    must_be_direct(sim, 30);
    finish(sim);
}

/* It takes nothing, and bursts of messages leave beside: some of these fill whole GSO bursts, so
 * that nothing of them is left for the next turn. */
void direct_full_beside_bursts(sim_t *sim)
{
    two_devices(sim);
    for (uint32_t i = 0; i < 2; i++) {
        sim->procs[i].attr.gso_bytes = 4 * sim->procs[i].attr.max_datagram;
        sim->procs[i].attr.max_batch = 16;
    }
    start_warm(sim);
    fault_add(sim, F_RDMA_EAGAIN, 0, sim->now + SIM_MS(50), 1000000, 0);
    work(sim, 0, BTL_IB_OP_ATOMIC, 8);
    for (uint32_t i = 0; i < 100; i++) {
        const uint64_t at = SIM_US(400) * (i + 1);
        for (uint32_t alone = 0; alone <= i % 2; alone++) { /* as many as leave at once, or not */
            say(sim, 0, 1, 8, at);
        }
        say(sim, 0, 1, 24000 + 100 * i, at);
    }
    run_settle(sim, SIM_S(1));
    must_end_from(sim, 0, 0, 0);
    must_be_direct(sim, 1);
    finish(sim);
}

/* It takes nothing for long: what can goes another way, atomics wait. */
void direct_never_connected(sim_t *sim)
{
    two_devices(sim);
    start_warm(sim);
    const uint64_t end = sim->now + SIM_S(3);
    fault_add(sim, F_RDMA_EAGAIN, 0, end, 1000000, 0);
    one_of_each(sim);
    run_settle(sim, SIM_S(5));
    must_end_from(sim, 0, 0, 0);
    must_be_direct(sim, 1);
    must_be_within(sim, "ns until a PUT goes another way",
                   sim->ops[0]->done_at - sim->ops[0]->started_at, SIM_MS(1100));
    must_be_within(sim, "ns until an ATOMIC went another way than it may",
                   end - sim->ops[2]->done_at + SIM_MS(1), SIM_MS(1));
    finish(sim);
}

/* Connections of the device break with operations in it: PUT and GET are done all the same, of
 * atomics nobody knows. */
void direct_broken(sim_t *sim)
{
    two_devices(sim);
    start_warm(sim);
    fault_add(sim, F_RDMA_BROKEN, 0, sim->now + SIM_MS(20), 1000000, 0);
    for (uint32_t i = 0; i < 10; i++) {
        one_of_each(sim);
    }
    run_settle(sim, SIM_S(1));
    must_end_from(sim, 0, 0, -EPIPE);
    must_be_direct(sim, 0);
    sim_run_until(sim, sim->now + SIM_MS(30));
    run_heal(sim);
    const uint32_t first = sim->nops;
    one_of_each(sim);
    run_settle(sim, SIM_S(1));
    must_end_from(sim, first, 0, 0);
    must_be_direct(sim, 3);
    finish(sim);
}

/* The device cannot reach the peer: an ATOMIC waits until it can, but not beyond the silence
 * limit. */
void direct_unreachable(sim_t *sim)
{
    two_devices(sim);
    sim->procs[0].config.silence_limit = 2000000;
    run_start(sim);
    fault_add(sim, F_RDMA_UNREACH, 0, sim->now + SIM_MS(1500), 1000000, 0);
    one_of_each(sim);
    run_settle(sim, SIM_S(2));
    must_end_from(sim, 0, 0, 0);
    must_be_direct(sim, 1);
    fault_add(sim, F_RDMA_UNREACH, 0, sim->now + SIM_MS(2500), 1000000, 0);
    one_of_each(sim);
    run_settle(sim, SIM_S(3));
    must_end_from(sim, 3, 0, -EPIPE);
    must_be_direct(sim, 1);
    fault_add(sim, F_RDMA_UNREACH, 0, sim->now + SIM_MS(1500), 1000000, 0);
    work(sim, 0, BTL_IB_OP_ATOMIC, 8);
    sim_run_until(sim, sim->now + SIM_MS(1));
    const uint32_t behind = sim->nops; /* need not wait for what has no other way */
    work(sim, 0, BTL_IB_OP_PUT, 5000);
    work(sim, 0, BTL_IB_OP_GET, 5000);
    sim_run_until(sim, sim->now + SIM_MS(100));
    must_end_from(sim, behind, 0, 0);
    finish(sim);
}

/* Whatever is wrong with an operation, the device finds it, and nothing is changed; what was in the
 * device beside it is done. */
void direct_refused(sim_t *sim)
{
    two_devices(sim);
    run_start(sim);
    for (flaw_t flaw = FLAW_BOUNDS; flaw < FLAWS; flaw++) {
        for (uint32_t kind = BTL_IB_OP_PUT; kind <= BTL_IB_OP_ATOMIC; kind++) {
            const bool atomic = kind == BTL_IB_OP_ATOMIC;
            if ((flaw == FLAW_RIGHT && kind == BTL_IB_OP_GET)
                || (flaw == FLAW_ALIGNED && !atomic)) {
                continue;
            }
            const uint32_t first = sim->nops;
            const uint64_t before = sim->applied[F_RDMA_REFUSED];
            onesided_t *bad = work(sim, 0, kind, atomic ? 8 : 5000);
            bad->flaw = flaw;
            work(sim, 0, BTL_IB_OP_PUT, 3000);
            run_settle(sim, SIM_S(1));
            if (bad->status != -EACCES) {
                sim_fail(sim, "flaw %d of kind %u: %d", (int) flaw, kind, bad->status);
            }
            if (flaw == FLAW_ALIGNED && sim->applied[F_RDMA_REFUSED] != before) {
                sim_fail(sim, "a word that is not aligned took a connection with it");
            }
            must_end_from(sim, first + 1, 0, 0);
            arena_check(&sim->procs[1]);
        }
    }
    finish(sim);
}

static void swap_event(sim_t *sim, void *arg, uint64_t value)
{
    arena_swap(arg);
}

/* A region goes while operations on it are in the device. */
void direct_region_removed(sim_t *sim)
{
    two_devices(sim);
    sim->delay = SIM_US(100);
    start_warm(sim);
    one_of_each(sim); /* so that they are connected */
    run_settle(sim, SIM_S(1));
    const uint32_t first = sim->nops;
    for (uint32_t i = 0; i < 2; i++) {
        work(sim, 0, (btl_ib_op_kind_t) i, 12000)->area = AREA_COMING;
    }
    sim_at(sim, sim->now + SIM_US(50), swap_event, &sim->procs[1], 0);
    run_settle(sim, SIM_S(1));
    arena_check(&sim->procs[1]);
    /* The first that is refused takes the connection with it, and the other with that. */
    must_end_from(sim, first, -EACCES, 0);
    finish(sim);
}

/* With operations in the device its owner destroys the connection, drains it, or the peer restarts:
 * each operation ends once, nothing of it is used after that (onesided.c sees to it), and those
 * that come later work. */
void direct_cut_off(sim_t *sim)
{
    for (uint32_t how = DESTROYED; how <= RESTARTED; how++) {
        two_devices(sim);
        sim->delay = SIM_US(50);
        sim->procs[0].config.silence_limit = 2000000;
        sim->procs[1].config.silence_limit = 2000000;
        start_warm(sim);
        for (uint32_t i = 0; i < 300; i++) { /* more than may run */
            work(sim, 0, (btl_ib_op_kind_t) (i % 3), i % 3 == BTL_IB_OP_ATOMIC ? 8 : 200);
        }
        end_connection(sim, how == RESTARTED ? 1 : 0, SIM_US(300), (ending_t) how);
        run_settle(sim, SIM_S(20));
        sim_run_until(sim, sim->now + SIM_S(3)); /* until both know */
        const uint32_t first = sim->nops;
        work(sim, 0, BTL_IB_OP_GET, 5000);
        run_settle(sim, SIM_S(5));
        must_end_from(sim, first, 0, 0);
        finish(sim);
        again(sim, how + 2);
    }
    direct_clean(sim);
}

static void device_event(sim_t *sim, void *arg, uint64_t rail)
{
    rail_fail_device(((proc_t *) arg)->rails[rail]);
}

/* Both have used both of their devices. */
static void acquainted_by_devices(sim_t *sim)
{
    with_devices(sim, 2);
    sim->survives = true;
    run_start(sim);
    for (uint32_t rail = 0; rail < 2; rail++) {
        app_connect(&sim->procs[0], 1, rail);
        app_connect(&sim->procs[1], 0, rail);
    }
    one_of_each(sim);
    run_settle(sim, SIM_S(1));
}

/* One of two devices fails with operations in it, at one end or the other: the other one carries on
 * with what may go by it. */
void direct_device_fails(sim_t *sim)
{
    for (uint32_t who = 0; who < 2; who++) {
        acquainted_by_devices(sim);
        sim->delay = SIM_US(100);
        const uint32_t first = sim->nops;
        for (uint32_t i = 0; i < 5; i++) {
            one_of_each(sim);
        }
        sim_at(sim, sim->now + SIM_US(50), device_event, &sim->procs[who], 0);
        run_settle(sim, SIM_S(5));
        must_end_from(sim, first, 0, -EPIPE);
        finish(sim);
        again(sim, who + 2);
    }
    direct_clean(sim);
}

/* A port goes down for a moment while its device has not taken an ATOMIC yet, and there is another:
 * the ATOMIC waits for it. */
void direct_port_flaps(sim_t *sim)
{
    with_devices(sim, 2);
    sim->survives = true;
    run_start(sim);
    for (uint32_t rail = 0; rail < 2; rail++) {
        app_connect(&sim->procs[0], 1, rail);
        app_connect(&sim->procs[1], 0, rail);
        say(sim, 0, 1, 100, 1000)->rail = rail;
    }
    run_settle(sim, SIM_S(1));
    fault_add(sim, F_RDMA_EAGAIN, 0, sim->now + SIM_MS(5), 1000000, 0);
    work(sim, 0, BTL_IB_OP_ATOMIC, 8)->rail = 0;
    sim_run_until(sim, sim->now + SIM_MS(1));
    rail_set_port(sim->procs[0].rails[0], false);
    sim_run_until(sim, sim->now + SIM_MS(100));
    rail_set_port(sim->procs[0].rails[0], true);
    run_settle(sim, SIM_S(5));
    must_end_from(sim, 0, 0, 0);
    must_be_direct(sim, 1);
    finish(sim);
}

/* The only device fails: every operation ends with its connection. */
void direct_last_device_fails(sim_t *sim)
{
    two_devices(sim);
    sim->death_ok = true;
    sim->delay = SIM_US(100);
    start_warm(sim);
    one_of_each(sim);
    run_settle(sim, SIM_S(1));
    const uint32_t first = sim->nops;
    for (uint32_t i = 0; i < 5; i++) {
        one_of_each(sim);
    }
    sim_at(sim, sim->now + SIM_US(50), device_event, &sim->procs[0], 0);
    run_settle(sim, SIM_S(5));
    must_end_from(sim, first, -EPIPE, -EPIPE);
    run_farewell(sim);
}

/* The peer is gone without a word while operations wait for its device. */
void direct_peer_gone(sim_t *sim)
{
    two_devices(sim);
    sim->death_ok = true;
    sim->delay = SIM_US(100);
    sim->procs[0].config.silence_limit = 2000000;
    start_warm(sim);
    one_of_each(sim);
    run_settle(sim, SIM_S(1));
    const uint32_t first = sim->nops;
    one_of_each(sim);
    sim_run_until(sim, sim->now + SIM_US(50));
    proc_stop(&sim->procs[1]);
    run_settle(sim, SIM_S(10));
    must_end_from(sim, first, -EPIPE, -EPIPE);
    run_farewell(sim);
}

static void start_and_compute(sim_t *sim, void *arg, uint64_t until)
{
    proc_compute(arg, until);
}

/* Their initiator computes: asynchronous progress hands them over, and their ends are kept for
 * it. */
void direct_in_async(sim_t *sim)
{
    two_devices(sim);
    sim->procs[0].thread_after = SIM_MS(1);
    sim->procs[0].attr.tx_depth = 4;
    start_warm(sim);
    for (uint32_t i = 0; i < 4; i++) {
        one_of_each(sim);
    }
    const uint64_t until = sim->now + SIM_MS(100);
    sim_at(sim, sim->now + 2000, start_and_compute, &sim->procs[0], until);
    sim_run_until(sim, until - 1);
    must_be_direct(sim, 12);
    run_settle(sim, SIM_S(1));
    must_end_from(sim, 0, 0, 0);
    finish(sim);
}
