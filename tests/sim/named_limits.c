/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios at the limits: of credit, buffers, memory. */

#include <stdio.h>

#include "transport.h"
#include "named.h"

static bool drop_some_acks(sim_t *sim, const datagram_t *d)
{
    return type_of(d) == BTL_IB_TYPE_ACK && sim->scratch[0] != 0 && sim->scratch[0]-- > 0;
}

void credit_update_lost(sim_t *sim)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "P,144,4,2,1");
    }
    run_start(sim);
    sim->drop = drop_some_acks;
    for (uint64_t lost = 1; lost < 6; lost++) {
        sim->scratch[0] = lost;
        for (int i = 0; i < 20; i++) {
            say(sim, 0, 1, 20, 1000);
        }
        run_settle(sim, SIM_MS(300));
    }
    finish(sim);
}

void both_out_of_credit(sim_t *sim)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "P,144,2,1");
        sim->procs[i].config.credit_init = 1;
    }
    sim->clean = true;
    run_start(sim);
    for (int i = 0; i < 100; i++) {
        say(sim, 0, 1, 20, 1000);
        say(sim, 1, 0, 500, 1000);
    }
    run_settle(sim, SIM_MS(200));
    finish(sim);
}

/* On a clean link a sender that waits for nothing but credit needs no timer, however small the
 * legal queues are: pairs of processes, each with a string of its own. */
void small_queues(sim_t *sim)
{
    static const char *const strings[] = {
        "P,256,2",
        "P,144,2,1,2,1",
        "P,104,4:P,144,4",
        "P,256,8,2,1,1:S,4096,4,2,1",
        "P,512,3,2,1,1",
        "S,256,2,1,1",
        "P,128,2:P,1472,2,1,1,1",
        "P,128,16,15,1:S,1024,2,1,1,1,1",
    };
    const uint32_t pairs = sizeof(strings) / sizeof(strings[0]);

    sim_procs(sim, 2 * pairs, 1);
    run_defaults(sim);
    for (uint32_t i = 0; i < 2 * pairs; i++) {
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "%s", strings[i / 2]);
    }
    sim->clean = true;
    run_start(sim);
    for (uint32_t n = 0; n < 10 * pairs; n++) {
        const uint32_t a = 2 * (n % pairs);
        say(sim, a, a + 1, 20, 1000);
        say(sim, a, a + 1, 65536, 1000);
        say(sim, a + 1, a, n % 3 == 0 ? 65536 : 200, 1000);
    }
    run_settle(sim, SIM_S(5));
    for (uint32_t i = 0; i < 2 * pairs; i++) {
        must_be_within(sim, strings[i / 2], sim_counters(sim, i)->timeouts, 0);
        must_be_within(sim, strings[i / 2], sim_counters(sim, i)->retransmits, 0);
    }
    finish(sim);
}

/* A sender that may have eight segments in flight asks for acknowledgements, so
 * that it does not wait for each until the receiver's delay is over: 125 windows of 20 us. */
void small_pending(sim_t *sim)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "P,256,64:S,1472,64,48,8");
    }
    sim->clean = true;
    start_warm(sim);
    const uint64_t begun = sim->now;
    for (uint32_t n = 0; n < 1000; n++) {
        say(sim, 0, 1, 1400, 1000);
    }
    run_settle(sim, SIM_S(1));
    must_be_within(sim, "us for 125 windows", (sim->now - begun) / 1000, 5000);
    finish(sim);
}

/* A stream that nothing answers, and whose messages come one by one: its receiver sends a credit
 * message for each `window` buffers, whatever the low watermark is. */
void one_way_windows(sim_t *sim)
{
    enum { MESSAGES = 480 };
    static const struct {
        const char *queues;
        uint32_t window;
    } pairs[] = {
        {"P,256,256,128,4", 4},   {"P,256,256,128,12", 12}, {"P,256,256,250,6", 6},
        {"P,256,256,250,12", 12}, {"P,256,32,1,10", 10},
    };
    const uint32_t count = sizeof(pairs) / sizeof(pairs[0]);
    uint64_t acks[sizeof(pairs) / sizeof(pairs[0])];

    sim_procs(sim, 2 * count, 1);
    run_defaults(sim);
    for (uint32_t i = 0; i < 2 * count; i++) {
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "%s", pairs[i / 2].queues);
        sim->procs[i].config.credit_init = 256;
        sim->procs[i].config.ack_delay = 2000; /* they are not told of messages before */
    }
    sim->clean = true;
    run_start(sim);
    for (uint32_t i = 0; i < count; i++) {
        say(sim, 2 * i, 2 * i + 1, 20, 1000);
    }
    run_settle(sim, SIM_S(5));
    for (uint32_t i = 0; i < count; i++) {
        acks[i] = sim_counters(sim, 2 * i + 1)->sent_acks;
    }
    for (uint32_t n = 0; n < MESSAGES; n++) {
        for (uint32_t i = 0; i < count; i++) {
            say(sim, 2 * i, 2 * i + 1, 20, 1000);
        }
        sim_run_until(sim, sim->now + SIM_US(20));
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t sent = sim_counters(sim, 2 * i + 1)->sent_acks - acks[i];
        must_be_within(sim, pairs[i].queues, sent, MESSAGES / pairs[i].window);
        must_be_at_least(sim, pairs[i].queues, sent, MESSAGES / pairs[i].window);
    }
    run_settle(sim, SIM_S(5));
    finish(sim);
}

/* Nothing stands still with them among 16 processes that lose 1 %, either. */
void small_queues_many(sim_t *sim)
{
    sim_procs(sim, 16, 1);
    run_defaults(sim);
    for (uint32_t i = 0; i < 16; i++) {
        snprintf(sim->procs[i].queues, sizeof(sim->procs[i].queues), "%s",
                 i % 2 == 0 ? "P,144,2,1,1,1" : "P,128,2:S,256,2,1,1,1,1");
        sim->procs[i].config.reassembly_max = 0;
    }
    fault_add(sim, F_LOSS, 0, sim->now + SIM_S(15), 10000, 0);
    run_start(sim);
    for (uint32_t n = 0; n < 16 * 15; n++) {
        const uint32_t a = n % 16;
        say(sim, a, (a + 1 + n / 16) % 16, n % 5 == 0 ? 20000 : 100, 1000);
    }
    run_settle(sim, SIM_S(20));
    finish(sim);
}

void reassembly_exhausted(sim_t *sim)
{
    sim_procs(sim, 6, 1);
    run_defaults(sim);
    for (uint32_t i = 0; i < 6; i++) {
        sim->procs[i].config.reassembly_max = 0;
    }
    run_start(sim);
    for (uint32_t i = 1; i < 6; i++) {
        for (int n = 0; n < 6; n++) {
            say(sim, i, 0, 30000, 1000);
        }
    }
    run_settle(sim, SIM_S(5));
    finish(sim);
}

void incast(sim_t *sim)
{
    sim_procs(sim, 17, 1);
    run_defaults(sim);
    sim->rx_bytes_max = 40000;
    run_start(sim);
    for (uint32_t i = 1; i < 17; i++) {
        for (int n = 0; n < 10; n++) {
            say(sim, i, 0, n == 5 ? 65536 : 900, 1000);
        }
    }
    run_settle(sim, SIM_S(5));
    must_be_within(sim, "16 senders to one took ns", slowest(sim, 0), SIM_S(1));
    finish(sim);
}

void stream(sim_t *sim)
{
    two(sim);
    sim->clean = true;
    run_start(sim);
    for (int i = 0; i < 32; i++) {
        say(sim, 0, 1, 65536, 1000);
    }
    run_settle(sim, SIM_S(1));
    uint64_t segments = sim_counters(sim, 0)->sent_segments;
    must_be_within(sim, "datagrams for a stream of 2 MiB",
                   sim->procs[0].datagrams + sim->procs[1].datagrams, segments + segments / 2 + 50);
    finish(sim);
}

/* Fail the k-th allocation, once, for each k: nothing may be lost, leaked or left unfinished. */
void each_allocation_fails(sim_t *sim)
{
    for (uint32_t k = 1;; k++) {
        two(sim);
        sim->procs[0].attr.registered_page = REGISTERED_PAGE;
        run_start(sim);
        proc_t *proc = &sim->procs[k % 2];
        proc->fail_at = (k + 1) / 2;
        fault_applied(sim, F_NO_MEMORY);
        for (uint32_t i = 0; i < 6; i++) {
            say(sim, 0, 1, 2000 * i, 1000 * i)->replies = 1;
            say(sim, 1, 0, 20000, 1000 * i);
        }
        run_settle(sim, SIM_S(2));
        bool reached = proc->fail_at == 0;
        proc->fail_at = 0;
        finish(sim);
        if (!reached && k % 2 == 0) {
            break;
        }
        again(sim, k + 2);
    }
}

/* The same while an engine is made: it says so and leaves nothing behind. */
void no_memory_at_start(sim_t *sim)
{
    two(sim);
    for (uint32_t k = 1;; k++) {
        proc_t *proc = &sim->procs[0];
        proc->fail_at = k;
        proc->config.name = 1;
        btl_ib_engine_t *engine = btl_ib_engine_create(&proc->config, &proc_ops, proc);
        if (engine != NULL) {
            btl_ib_engine_destroy(engine);
        }
        if (proc->bytes != 0) {
            sim_fail(sim, "%zu bytes are left of an engine", proc->bytes);
        }
        if (proc->fail_at != 0) {
            if (engine == NULL) {
                sim_fail(sim, "no engine, but memory was there");
            }
            break;
        }
        fault_applied(sim, F_NO_MEMORY);
    }
    sim->procs[0].fail_at = 0;
    run_start(sim);
    finish(sim);
}

#define IDLE_PEERS 1000u

void idle_memory(sim_t *sim)
{
    size_t half = 0;

    sim_procs(sim, IDLE_PEERS + 1, 1);
    run_defaults(sim);
    run_start(sim);
    for (uint32_t i = 1; i <= IDLE_PEERS; i++) {
        say(sim, i, 0, 200, 1000)->replies = 3;
        say(sim, i, 0, 8000, 1000);
        say(sim, 0, i, 8000, SIM_US(50));
        if (i % 50 == 0) {
            run_settle(sim, SIM_S(2));
        }
        if (i == IDLE_PEERS / 2) {
            sim_run_until(sim, sim->now + SIM_S(10));
            half = sim->procs[0].bytes;
        }
    }
    sim_run_until(sim, sim->now + SIM_S(10));
    size_t all = sim->procs[0].bytes;
    uint64_t each = all <= half ? 0 : (all - half) / (IDLE_PEERS / 2);
    printf("idle_memory: %llu bytes for each idle connected peer, %zu bytes with %u of them\n",
           (unsigned long long) each, all, IDLE_PEERS);
    must_be_within(sim, "bytes for each idle connected peer", each, 4096);
    const proc_t *proc = &sim->procs[0];
    btl_ib_memory_estimate_t told = {.count = 0};
    btl_ib_engine_memory_estimate(&proc->config, &rail_transport(proc->rails[0])->attr,
                                  &proc->published[0].queues, IDLE_PEERS, &told);
    const uint64_t held = told.all[BTL_IB_ESTIMATE_PROCESS].held;
    printf("idle_memory: %llu bytes were foretold\n", (unsigned long long) held);
    must_be_within(sim, "bytes beyond what was foretold", all > held ? all - held : held - all,
                   all / 20);
    for (uint32_t i = 0; i <= IDLE_PEERS; i++) {
        proc_stop(&sim->procs[i]);
    }
}
