/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios of messages that leave from their sender's memory (btl_ib_sentmap.h). The application
 * overwrites that memory as soon as it has it back. */

#include "named.h"

static bool drop_chunks(sim_t *sim, const datagram_t *d)
{
    return type_of(d) == BTL_IB_TYPE_CHUNK && sim->scratch[0] != 0 && sim->scratch[0]-- > 0;
}

/* `lost` chunks are lost first. Returns the number of the first message. */
static uint32_t say_with_spare(sim_t *sim, uint32_t count, uint64_t lost)
{
    two(sim);
    sim->clean = lost == 0;
    start_warm(sim);
    sim->drop = drop_chunks;
    sim->scratch[0] = lost;
    const uint32_t first = sim->nmessages;
    for (uint32_t i = 0; i < count; i++) {
        say(sim, 0, 1, 15000, 1000)->spare = true;
    }
    return first;
}

static uint64_t not_sent(const sim_t *sim, uint32_t first)
{
    uint64_t count = 0;

    for (uint32_t i = first; i < sim->nmessages; i++) {
        count += !sim->messages[i].sent;
    }
    return count;
}

/* They are copied in the next turn. */
static void copied_at_once(sim_t *sim, uint32_t count)
{
    const uint32_t first = say_with_spare(sim, count, 30);

    sim_run_until(sim, sim->now + SIM_US(30));
    must_be_within(sim, "memory is still in use", not_sent(sim, first), 0);
    must_be_within(sim, "not copied", count - sim_counters(sim, 0)->zcopy_kept, 0);
    run_settle(sim, SIM_S(1));
    finish(sim);
}

void zcopy_alone(sim_t *sim)
{
    copied_at_once(sim, 1);
}

void zcopy_few(sim_t *sim)
{
    copied_at_once(sim, 4);
}

void zcopy_many(sim_t *sim)
{
    say_with_spare(sim, 40, 0);
    run_settle(sim, SIM_S(1));
    must_be_within(sim, "copied", sim_counters(sim, 0)->zcopy_kept, 6); /* the last 64 segments */
    finish(sim);
}

/* All send to all, 20 times: who still receives copies less, as ACKs come meanwhile. */
void zcopy_exchange(sim_t *sim)
{
    enum { TIMES = 20, HOSTS = 4 };

    sim_procs(sim, HOSTS, 1);
    run_defaults(sim);
    for (uint32_t h = 0; h < HOSTS; h++) {
        sim->procs[h].step = SIM_US(100); /* cores are shared */
    }
    run_start(sim);
    for (uint32_t i = 0; i < TIMES; i++) {
        for (uint32_t pair = 0; pair < HOSTS * HOSTS; pair++) {
            if (pair % HOSTS != pair / HOSTS) {
                say(sim, pair % HOSTS, pair / HOSTS, 15000, 1000)->spare = true;
            }
        }
        run_settle(sim, SIM_MS(5));
    }
    uint64_t kept = 0;
    for (uint32_t h = 0; h < HOSTS; h++) {
        kept += sim_counters(sim, h)->zcopy_kept;
    }
    must_be_within(sim, "copied", kept, TIMES * HOSTS * (HOSTS - 1) * 2 / 3);
    finish(sim);
}

/* A process that receives all the time has the memory of messages to a silent peer back before the
 * timeout. */
void zcopy_receiving(sim_t *sim)
{
    sim_procs(sim, 3, 1);
    run_defaults(sim);
    sim->procs[0].idle_polls = 0; /* each of its calls receives something */
    start_warm(sim);
    warm_up(sim, 0, 2);
    sim->drop = drop_chunks;
    sim->scratch[0] = 1000;
    uint32_t first = 0;
    for (uint32_t i = 0; i < 100; i++) {
        if (i == 30) {
            first = sim->nmessages;
            say(sim, 0, 2, 15000, 1000)->spare = true;
            say(sim, 0, 2, 15000, 1000)->spare = true;
        }
        say(sim, 1, 0, 1400, 0);
        sim_run_until(sim, sim->now + SIM_US(1));
    }
    must_be_within(sim, "memory is still in use",
                   !sim->messages[first].sent + !sim->messages[first + 1].sent, 0);
    sim->scratch[0] = 0;
    run_settle(sim, SIM_S(1));
    finish(sim);
}

void zcopy_unanswered(sim_t *sim)
{
    const uint32_t first = say_with_spare(sim, 6, 1000); /* the window holds five and a half */

    sim_run_until(sim, sim->now + SIM_MS(1));
    must_be_within(sim, "memory is still in use", not_sent(sim, first), 1);
    sim->scratch[0] = 0;
    must_be_within(sim, "not copied", 5 - sim_counters(sim, 0)->zcopy_kept, 0);
    run_settle(sim, SIM_S(1));
    finish(sim);
}
