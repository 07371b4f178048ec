/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios about what protects datagrams: nothing that was changed or repeated by others is
 * believed. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "named.h"

/* How many datagrams the engines dropped because something was wrong with them. */
static uint64_t all_dropped(const sim_t *sim)
{
    uint64_t dropped = 0;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        const void *count = sim_counters(sim, i);
        for (const btl_ib_counter_info_t *info = btl_ib_counter_infos; info->name != NULL; info++) {
            if (strncmp(info->name, "dropped_", 8) == 0
                && strcmp(info->name, "dropped_duplicate") != 0) {
                dropped += *(const uint64_t *) (const void *) ((const char *) count + info->offset);
            }
        }
    }
    return dropped;
}

/* Two processes under protection, not started. */
static void protected(sim_t *sim, uint32_t kind)
{
    two(sim);
    protection_choose(sim, (btl_ib_protection_kind_t) kind);
}

/* Traffic both ways while every fifth datagram is damaged: each of them is dropped, and everything
 * gets there. */
static void damage(sim_t *sim, uint32_t kind, fault_kind_t fault, uint64_t value)
{
    protected(sim, kind);
    run_start(sim);
    uint64_t before = sim->applied[fault] - sim->applied[F_RX_OVERFLOW];
    fault_add(sim, fault, 0, sim->now + SIM_MS(50), 200000, value);
    for (uint32_t i = 0; i < 300; i++) {
        say(sim, 0, 1, 13 * i, SIM_US(30) * i)->replies = i % 3;
        say(sim, 1, 0, 7 * i, SIM_US(30) * i);
    }
    run_settle(sim, SIM_S(2));
    run_quiet(sim, SIM_S(300));
    /* What became too long for any buffer did not even get there. */
    uint64_t damaged = sim->applied[fault] - sim->applied[F_RX_OVERFLOW] - before;
    if (damaged == 0 || all_dropped(sim) != damaged) {
        sim_fail(sim, "%llu datagrams were changed on the way, %llu were dropped",
                 (unsigned long long) damaged, (unsigned long long) all_dropped(sim));
    }
    run_heal(sim);
    finish(sim);
}

void flipped(sim_t *sim)
{
    for (uint32_t kind = BTL_IB_PROTECTION_CRC32C; kind < protection_kinds(); kind++) {
        if (kind > BTL_IB_PROTECTION_CRC32C) {
            again(sim, kind);
        }
        damage(sim, kind, F_FLIP, 0);
    }
}

void insider(sim_t *sim)
{
    for (uint32_t kind = BTL_IB_PROTECTION_CRC32C; kind < protection_kinds(); kind++) {
        for (uint64_t which = 1; which <= SIM_CORRUPTIONS; which++) {
            if (kind > BTL_IB_PROTECTION_CRC32C || which > 1) {
                again(sim, kind * 100 + which);
            }
            damage(sim, kind, F_CORRUPT, which);
        }
    }
}

/* ---- replay ---- */

typedef struct tape {
    uint32_t count, cap;
    datagram_t **datagrams;
} tape_t;

static tape_t *tape_of(const sim_t *sim)
{
    return (tape_t *) (uintptr_t) sim->scratch[0];
}

static bool record(sim_t *sim, const datagram_t *d)
{
    tape_t *tape = tape_of(sim);

    if (tape->count == tape->cap) {
        tape->cap = 2 * tape->cap + 64;
        tape->datagrams = realloc(tape->datagrams, tape->cap * sizeof(*tape->datagrams));
    }
    tape->datagrams[tape->count++] = net_copy(d);
    return false;
}

static uint64_t sum(const sim_t *sim, size_t offset)
{
    uint64_t result = 0;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        const void *count = sim_counters(sim, i);
        result += *(const uint64_t *) (const void *) ((const char *) count + offset);
    }
    return result;
}

/* Everything on the tape comes again, in its order, as it was or with its last bit changed. Nobody
 * may do anything about it but count. */
static void play(sim_t *sim, const char *when, bool forged)
{
    const tape_t *tape = tape_of(sim);
    const size_t made = offsetof(btl_ib_counters_t, connections);
    const size_t sent = offsetof(btl_ib_counters_t, sent_datagrams);
    const size_t taken = offsetof(btl_ib_counters_t, received_segments);

    run_quiet(sim, SIM_S(60));
    uint64_t dropped = all_dropped(sim);
    uint64_t before[] = {sum(sim, made), sum(sim, sent), sum(sim, taken)};
    for (uint32_t i = 0; i < tape->count; i++) {
        datagram_t *d = tape->datagrams[i];
        d->data[d->size - 1] ^= forged;
        net_again(sim, d);
        d->data[d->size - 1] ^= forged;
        sim_run_until(sim, sim->now + SIM_US(2));
    }
    run_quiet(sim, SIM_S(60));
    if (all_dropped(sim) - dropped != tape->count) {
        sim_fail(sim, "replayed %s: %llu of %u datagrams were dropped", when,
                 (unsigned long long) (all_dropped(sim) - dropped), tape->count);
    }
    if (sum(sim, made) != before[0] || sum(sim, sent) != before[1]
        || sum(sim, taken) != before[2]) {
        sim_fail(sim, "replayed %s: somebody did something about it", when);
    }
}

static void talk(sim_t *sim)
{
    for (uint32_t i = 0; i < 20; i++) {
        say(sim, 0, 1, 100 * i, SIM_US(10) * i)->replies = 1;
        say(sim, 1, 0, 3000, SIM_US(10) * i);
    }
    run_settle(sim, SIM_S(2));
    sim_run_until(sim, sim->now + SIM_MS(5));
}

/* The same life, after its end, the next life, and the next run under the same names. */
static void replay_all(sim_t *sim, uint32_t kind)
{
    tape_t tape = {.count = 0};

    protected(sim, kind);
    sim->down_time = SIM_MS(1);
    run_start(sim);
    sim->scratch[0] = (uintptr_t) &tape;
    sim->drop = record;
    talk(sim);
    sim->drop = NULL;
    play(sim, "in the same life", true);
    play(sim, "in the same life", false);
    app_close(&sim->procs[0], 1, 0, true);
    app_close(&sim->procs[1], 0, 0, true);
    sim_run_until(sim, sim->now + SIM_S(2));
    play(sim, "after the end", true);
    play(sim, "after the end", false);
    app_connect(&sim->procs[0], 1, 0);
    app_connect(&sim->procs[1], 0, 0);
    play(sim, "before the next life", true);
    talk(sim);
    play(sim, "in the next life", true);
    play(sim, "in the next life", false);
    proc_restart(&sim->procs[0], false);
    proc_restart(&sim->procs[1], false);
    sim_run_until(sim, sim->now + SIM_MS(5));
    play(sim, "to the next run", false);
    talk(sim);
    play(sim, "to the next run, which is connected", false);
    sim->scratch[0] = 0;
    for (uint32_t i = 0; i < tape.count; i++) {
        free(tape.datagrams[i]);
    }
    free(tape.datagrams);
    finish(sim);
}

void replayed(sim_t *sim)
{
    for (uint32_t kind = BTL_IB_PROTECTION_INTEGRITY; kind < protection_kinds(); kind++) {
        if (kind > BTL_IB_PROTECTION_INTEGRITY) {
            again(sim, kind);
        }
        replay_all(sim, kind);
    }
}

/* ---- keys ---- */

void rekeyed(sim_t *sim)
{
    for (uint32_t kind = BTL_IB_PROTECTION_INTEGRITY; kind < protection_kinds(); kind++) {
        for (uint32_t before = 0; before < 200; before += 13) {
            if (kind > BTL_IB_PROTECTION_INTEGRITY || before > 0) {
                again(sim, kind * 1000 + before);
            }
            protected(sim, kind);
            sim->first_number = (1u << BTL_IB_PROTECTION_KEY_SHIFT) - before;
            run_start(sim);
            fault_add(sim, F_LOSS, 0, sim->now + SIM_MS(2), 20000, 0);
            fault_add(sim, F_REORDER, 0, sim->now + SIM_MS(2), 200000, SIM_US(100));
            for (uint32_t i = 0; i < 200; i++) {
                say(sim, 0, 1, 1000, SIM_US(5) * i);
                say(sim, 1, 0, 1000, SIM_US(5) * i);
            }
            run_settle(sim, SIM_S(2));
            if (sum(sim, offsetof(btl_ib_counters_t, rekeys)) != 2
                || sum(sim, offsetof(btl_ib_counters_t, dropped_forged)) != 0) {
                sim_fail(sim, "keys were not changed once on each side");
            }
            run_heal(sim);
            finish(sim);
        }
    }
}

/* Each kind of damage by itself, to what comes back, while data are lost on the way there: a
 * process that believes a forged acknowledgement loses messages, one that believes a forged limit
 * breaks a promise. */
void forged(sim_t *sim)
{
    for (uint32_t which = 1; which <= SIM_CORRUPTIONS; which++) {
        if (which > 1) {
            again(sim, which);
        }
        two(sim);
        for (int i = 0; i < 2; i++) {
            snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues),
                     "P,128,16,4:S,512,64:P,1472,16");
        }
        start_warm(sim);
        fault_add(sim, F_LOSS_ONE_WAY, 0, sim->now + SIM_MS(5), 300000, 0)->src = 0;
        fault_add(sim, F_CORRUPT, 0, sim->now + SIM_MS(5), 500000, which)->src = 1;
        for (uint32_t i = 0; i < 200; i++) {
            say(sim, 0, 1, 20 + 30 * (i % 50), SIM_US(10) * i);
            say(sim, 1, 0, 20 + 30 * (i % 50), SIM_US(20) * i);
        }
        run_settle(sim, SIM_S(2));
        run_heal(sim);
        finish(sim);
    }
}
