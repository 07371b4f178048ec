/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The scenario that a seed stands for: every choice is drawn from it, in one order. So no call
 * draws two of its arguments: which is first would be the compiler's choice.
 */

#include <stdio.h>
#include <string.h>

#include "sim.h"

#define ARRAY(a) (sizeof(a) / sizeof((a)[0]))

static const char *const queue_strings[] = {
    "P,128,256,128,16:S,1024,256,128,32:S,4096,256,128,32:S,65536,256,128,32",
    "P,128,256,128,16:P,1024,32,16:P,4096,32,16:P,65536,32,16",
    "P,144,16,4",
    "P,104,4:P,144,4",
    "P,256,8",
    "S,256,16",
    "P,144,2,1",
    "S,128,64:S,2048,64",
    "P,128,64:P,512,64:P,1472,64:P,9000,64",
    "P,512,16,4:S,65000,4,2,1",
    "S,1472,1024",
};

static uint32_t pick(sim_t *sim, const uint32_t *from, size_t n)
{
    return from[rng_range(&sim->rng, 0, n - 1)];
}

#define PICK(sim, ...)                                                                             \
    pick(sim, (const uint32_t[]){__VA_ARGS__}, ARRAY(((const uint32_t[]){__VA_ARGS__})))

static void choose_attr(sim_t *sim, btl_ib_transport_attr_t *attr, uint32_t max_datagram)
{
    attr->max_datagram = max_datagram;
    attr->inline_size = PICK(sim, 0, 0, 64, 200, 65536);
    attr->max_iov = PICK(sim, 1, 2, 3);
    attr->gso_bytes = PICK(sim, 0, 0, 16, 64) * max_datagram;
    attr->max_batch = PICK(sim, 1, 4, 16, 64);
    attr->tx_depth = PICK(sim, 4, 16, 256);
    attr->headroom = PICK(sim, 0, 0, 40);
    attr->bulk_lane = rng_chance(&sim->rng, 500000);
    attr->knows_source = rng_chance(&sim->rng, 500000);
    attr->registered_page = rng_chance(&sim->rng, 300000) ? REGISTERED_PAGE : 0;
    if (attr->knows_source) {
        fault_applied(sim, F_SOURCE_KNOWN);
    }
}

/* Devices that move memory by themselves, in all processes or in some. */
static void choose_movers(sim_t *sim)
{
    const bool some = rng_chance(&sim->rng, 200000);

    if (!rng_chance(&sim->rng, 400000)) {
        return;
    }
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        btl_ib_transport_attr_t *attr = &sim->procs[i].attr;
        attr->rdma = !some || rng_chance(&sim->rng, 500000);
        attr->rdma_max = PICK(sim, 1u << 30, 1u << 30, 5000);
        attr->rdma_copied = PICK(sim, 0, 64, 4096);
        attr->rdma_atomics = BTL_IB_RDMA_ATOMICS_DEVICE;
    }
    sim->known_ppm = PICK(sim, 1000000, 1000000, 700000);
    sim->pinned_ppm = PICK(sim, 1000000, 800000, 300000);
    sim->device_atomics =
        !some && rng_chance(&sim->rng, 600000) && sim->protection.kind == BTL_IB_PROTECTION_NONE;
}

static void choose_limits(sim_t *sim, btl_ib_engine_config_t *config, bool small)
{
    config->ack_delay = PICK(sim, 25, 25, 5, 100);
    config->idle_after = PICK(sim, 2000000, 2000000, 20000);
    config->silence_limit = PICK(sim, 900000000, 900000000, 60000000, 5000000);
    if (!small) {
        return;
    }
    config->depth_peer = PICK(sim, 1, 2, 4, 16, 512);
    config->depth_total = PICK(sim, 1, 8, 64, 8192);
    config->depth_bytes = PICK(sim, 1, 4096, 65536, 16u << 20);
    config->window_max = PICK(sim, 1, 2, 16, 64, 4096);
    config->credit_pool = PICK(sim, 0, 16, 4096);
    config->reassembly_max = PICK(sim, 0, 1, 64);
    config->lookups_max = PICK(sim, 100, 2000);
    config->rto_max = PICK(sim, 20000, 200000);
    config->ops_max = PICK(sim, 1, 2, 16, 128, 256);
}

static const uint32_t sizes[] = {256, 576, 1472, 1472, 4096, 9000, 65000};

/* Any legal string: sizes ascend, most numbers are small, fields are left out now and then. */
static void any_queues(sim_t *sim, char *out, size_t len)
{
    const uint32_t queues = (uint32_t) rng_log(&sim->rng, 1, 5);
    uint32_t size = 144;
    size_t used = 0;

    for (uint32_t i = 0; i < queues; i++) {
        const bool per_peer = rng_chance(&sim->rng, 500000);
        const uint32_t num = (uint32_t) rng_log(&sim->rng, 2, 300);
        const uint32_t low = (uint32_t) rng_range(&sim->rng, 1, num - 1);
        const uint32_t window = num / (num - low) * (num - low);
        const uint32_t third = (uint32_t) rng_range(&sim->rng, 1, per_peer ? window : num);
        size += (uint32_t) rng_log(&sim->rng, 1, 9000);
        used += (size_t) snprintf(out + used, len - used, "%s%c,%u,%u", i > 0 ? ":" : "",
                                  per_peer ? 'P' : 'S', size, num);
        if (rng_chance(&sim->rng, 700000)) {
            used += (size_t) snprintf(out + used, len - used, ",%u,%u", low, third);
        } else if (rng_chance(&sim->rng, 500000)) {
            used += (size_t) snprintf(out + used, len - used, ",,1");
        }
    }
}

/* Transports of half of all seeds have flows. Not by the seed's generator, so that all else is what
 * it was. */
static uint64_t flow_bits(const sim_t *sim)
{
    return mix64(sim->seed ^ 0x666c6f77);
}

static void choose_flows(sim_t *sim)
{
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        sim->procs[i].attr.flows = flow_bits(sim) % 2 == 0 ? 3 : 1;
    }
}

/* In one seed of eight one flow of one process leads nowhere, in another one a pair of ports. It
 * lasts in every other one, also where a rail (or its device) is dead for good as well. */
static void kill_flow(sim_t *sim)
{
    const uint64_t bits = flow_bits(sim);

    if (bits % 4 == 0 && !sim->clean && sim->nfaults < SIM_FAULTS_MAX) {
        const bool pair = bits % 8 == 4;
        fault_t *fault =
            fault_add(sim, pair ? F_PAIR : F_FLOW, 0, SIM_NEVER, 0, bits / 8 % (pair ? 2 : 3));
        fault->src = (int) (bits / 32 % sim->nprocs);
        fault->lasts = bits >> 32 & 1;
    }
}

/* In one seed of eight the bursts of one process, or of all, that are longer than a tunnel or a
 * driver takes vanish; in another one its host refuses them. From the start, or from some time
 * on. */
static void break_bursts(sim_t *sim)
{
    const uint64_t bits = mix64(sim->seed ^ 0x67736f);

    if (bits % 4 == 0 && !sim->clean && sim->nfaults < SIM_FAULTS_MAX) {
        const bool refused = bits % 8 == 4;
        fault_t *fault =
            fault_add(sim, refused ? F_GSO_ENOBUFS : F_GSO_HOLE, bits / 8 % 2 == 0 ? 0 : SIM_MS(2),
                      SIM_NEVER, 0, bits / 16 % 2 == 0 ? 1600 : 20000);
        fault->src = bits / 32 % 2 == 0 ? (int) (bits / 64 % sim->nprocs) : -1;
    }
}

static void choose_processes(sim_t *sim)
{
    const char *queues = queue_strings[rng_range(&sim->rng, 0, ARRAY(queue_strings) - 1)];
    uint32_t max_datagram = pick(sim, sizes, ARRAY(sizes));
    bool mixed = rng_chance(&sim->rng, 300000);
    bool any = rng_chance(&sim->rng, 250000);
    bool small = rng_chance(&sim->rng, 400000);
    bool wrap = rng_chance(&sim->rng, 300000);
    uint32_t first_seq = wrap ? (uint32_t) -rng_log(&sim->rng, 1, 200) : 1;
    uint32_t eager_max = PICK(sim, 1000, 4096, 65536, 70000);
    uint32_t credit_init = PICK(sim, 8, 8, 1, 2, 64);

    if (wrap) {
        fault_applied(sim, F_SEQUENCE_WRAP);
    }
    if (rng_chance(&sim->rng, 300000)) {
        sim->beyond = pick(sim, sizes, ARRAY(sizes));
    }
    run_defaults(sim);
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_t *proc = &sim->procs[i];
        if (mixed && rng_chance(&sim->rng, 500000)) {
            queues = queue_strings[rng_range(&sim->rng, 0, ARRAY(queue_strings) - 1)];
            max_datagram = pick(sim, sizes, ARRAY(sizes));
        }
        choose_attr(sim, &proc->attr, max_datagram);
        choose_limits(sim, &proc->config, small);
        snprintf(proc->queues, sizeof(proc->queues), "%s", queues);
        if (any) {
            any_queues(sim, proc->queues, sizeof(proc->queues));
        }
        proc->config.first_seq = first_seq;
        proc->config.eager_max = eager_max;
        proc->config.credit_init = credit_init;
        proc->signals = proc->attr.tx_depth >= 64 ? PICK(sim, 0, 0, 0, 16) : 0;
        proc->burst = (int) PICK(sim, 16, 64, 1, 4);
        proc->step = PICK(sim, 200, 500, 2000);
        proc->idle_polls = PICK(sim, 4, 4, 0, 10);
        proc->thread_after = SIM_MS(PICK(sim, 0, 0, 1, 10, 10));
        proc->answers = proc->thread_after != 0 && rng_chance(&sim->rng, 500000);
        proc->config.backlog_max = PICK(sim, 4u << 20, 100000, 2000, 0);
        proc->idle_poll = rng_chance(&sim->rng, 500000) ? SIM_MS(5) : 0;
        if (rng_chance(&sim->rng, 200000)) {
            proc->clock_base = ((uint64_t) 3 << 32) - rng_log(&sim->rng, 1, 10000000);
            fault_applied(sim, F_STAMP_WRAP);
        }
    }
    choose_flows(sim);
    choose_movers(sim);
}

/* The second rail of some or all processes is another device than the first: another transport,
 * link and queues. */
static void choose_shape(sim_t *sim, const proc_t *proc, shape_t *shape)
{
    btl_ib_transport_attr_t *attr = &shape->attr;

    choose_attr(sim, attr,
                rng_chance(&sim->rng, 300000) ? proc->attr.max_datagram
                                              : pick(sim, sizes, ARRAY(sizes)));
    attr->tx_depth = proc->attr.tx_depth; /* what proc->signals was chosen for */
    if (rng_chance(&sim->rng, 300000)) {
        any_queues(sim, shape->queues, sizeof(shape->queues));
    } else if (rng_chance(&sim->rng, 700000)) {
        snprintf(shape->queues, sizeof(shape->queues), "%s",
                 queue_strings[rng_range(&sim->rng, 0, ARRAY(queue_strings) - 1)]);
    }
}

/* Its random numbers are a row of its own: the first rails, and all else, are what they would be
 * without it. */
static void vary_rails(sim_t *sim)
{
    const rng_t kept = sim->rng;

    rng_seed(&sim->rng, mix64(sim->seed ^ 0x7261696c73));
    const bool all = rng_chance(&sim->rng, 600000);
    for (uint32_t i = 0; i < sim->nprocs && sim->nrails > 1; i++) {
        proc_t *proc = &sim->procs[i];
        if (all || rng_chance(&sim->rng, 500000)) {
            proc_vary(proc);
            choose_shape(sim, proc, &proc->shapes[1]);
        }
    }
    sim->rng = kept;
}

/* ---- faults ---- */

typedef struct plan {
    uint64_t active; /* ns: messages begin in this time */
    uint64_t end;    /* ns: the last fault ends */
    bool ends_lives; /* restarts or closes: a lost CLOSE has to be found out by silence */
} plan_t;

static uint32_t any_proc(sim_t *sim)
{
    return (uint32_t) rng_range(&sim->rng, 0, sim->nprocs - 1);
}

static fault_t *window_fault(sim_t *sim, plan_t *plan, fault_kind_t kind, uint64_t longest,
                             uint32_t ppm, uint64_t value)
{
    uint64_t from = sim->now + rng_range(&sim->rng, 0, plan->active);
    uint64_t to = from + rng_log(&sim->rng, SIM_US(100), longest);

    if (rng_chance(&sim->rng, 400000)) {
        from = 0;
        to = to < sim->now + plan->active ? sim->now + plan->active : to;
    }
    plan->end = to > plan->end ? to : plan->end;
    fault_t *fault = fault_add(sim, kind, from, to, ppm, value);
    if (rng_chance(&sim->rng, 400000)) {
        fault->src = (int) any_proc(sim);
        fault->dst = fault->src;
        while (fault->dst == fault->src) {
            fault->dst = (int) any_proc(sim);
        }
        fault->both = rng_chance(&sim->rng, 500000);
    }
    return fault;
}

static void local_fault(sim_t *sim, plan_t *plan, fault_kind_t kind, uint64_t longest, uint32_t ppm,
                        uint64_t value)
{
    fault_t *fault = window_fault(sim, plan, kind, longest, ppm, value);

    fault->src = rng_chance(&sim->rng, 500000) ? -1 : (int) any_proc(sim);
    fault->dst = fault->src;
}

static void add_loss(sim_t *sim, plan_t *plan)
{
    uint32_t ppm = (uint32_t) rng_log(&sim->rng, 1000, 300000);

    switch (rng_range(&sim->rng, 0, 5)) {
    case 5:
        window_fault(sim, plan, F_LOSS_GSO, SIM_MS(100), ppm, 0);
        break;
    case 0:
        window_fault(sim, plan, F_LOSS_BURST, SIM_MS(100), ppm / 10, 0);
        break;
    case 1:
        window_fault(sim, plan, F_LOSS_ACK, SIM_MS(100), 3 * ppm, 0);
        break;
    case 2:
        window_fault(sim, plan, F_LOSS_CONTROL, SIM_MS(100), 2 * ppm, 0);
        break;
    case 3: {
        fault_t *fault = window_fault(sim, plan, F_LOSS_ONE_WAY, SIM_MS(100), ppm, 0);
        if (fault->src < 0) {
            fault->src = (int) any_proc(sim);
        }
        fault->both = false;
        break;
    }
    default:
        window_fault(sim, plan, F_LOSS, SIM_MS(100), ppm, 0);
        break;
    }
}

static void add_partition(sim_t *sim, plan_t *plan)
{
    bool both = rng_chance(&sim->rng, 500000);
    fault_t *fault =
        window_fault(sim, plan, both ? F_PARTITION : F_PARTITION_ONE_WAY, SIM_S(12), 1000000, 0);

    if (fault->src < 0) {
        fault->src = (int) any_proc(sim);
    }
    fault->both = both;
    sim->death_ok = sim->death_ok || fault->to - fault->from > SIM_S(2);
}

static void garbage_event(sim_t *sim, void *arg, uint64_t value)
{
    net_garbage(sim, (uint32_t) value);
}

static void replay_event(sim_t *sim, void *arg, uint64_t value)
{
    net_replay(sim);
}

/* About any process that this one has sent something to, or any other address. */
static void forge_event(sim_t *sim, void *arg, uint64_t value)
{
    rail_t *rail = sim->procs[value].rails[0];

    if (rail != NULL && sim->procs[value].engine != NULL) {
        const uint32_t address = (uint32_t) rng_range(&sim->rng, 0, sim->addresses - 1);
        net_forge(sim, rail, address, (forgery_t) rng_range(&sim->rng, 0, FORGERIES - 1));
    }
}

static void add_noise(sim_t *sim, plan_t *plan)
{
    bool replay = rng_chance(&sim->rng, 500000);

    for (int i = 0; i < 40; i++) {
        uint64_t at = sim->now + rng_range(&sim->rng, 0, plan->active * 2);
        sim_at(sim, at, replay ? replay_event : garbage_event, NULL, any_proc(sim));
        sim_at(sim, at, forge_event, NULL, any_proc(sim));
    }
    uint64_t end = sim->now + plan->active * 2;
    plan->end = end > plan->end ? end : plan->end;
    if (replay) {
        fault_add(sim, F_REPLAY, 0, sim->now + plan->active, 0, 0);
    }
}

static void compute_event(sim_t *sim, void *arg, uint64_t value)
{
    proc_compute(arg, sim->now + value);
}

static void add_compute(sim_t *sim, plan_t *plan)
{
    for (uint64_t n = rng_range(&sim->rng, 1, 3); n > 0; n--) {
        uint64_t at = sim->now + rng_range(&sim->rng, 0, plan->active);
        uint64_t time =
            rng_log(&sim->rng, SIM_MS(1), rng_chance(&sim->rng, 150000) ? SIM_S(300) : SIM_S(1));
        sim_at(sim, at, compute_event, &sim->procs[any_proc(sim)], time);
        plan->end = at + time > plan->end ? at + time : plan->end;
    }
}

static void leap_event(sim_t *sim, void *arg, uint64_t value)
{
    proc_t *proc = arg;
    int64_t us = (int64_t) value;

    if (us < 0 && (int64_t) (sim->now / 1000) + proc->clock_shift + us < 0) {
        return;
    }
    proc->clock_shift += us;
    proc->leaped += (uint64_t) (us < 0 ? -us : us);
    fault_applied(sim, us < 0 ? F_CLOCK_BACK : F_CLOCK_FORWARD);
    sim_trace(sim, T_PROC, proc->index, 3, proc->life, value, 0, 0);
    proc_wake(proc, sim->now);
}

static void add_clock(sim_t *sim, plan_t *plan)
{
    proc_t *proc = &sim->procs[any_proc(sim)];

    if (rng_chance(&sim->rng, 400000)) {
        proc->clock_grain = PICK(sim, 1000, 4000);
        fault_applied(sim, F_CLOCK_COARSE);
        return;
    }
    for (int i = 0; i < 3; i++) {
        int64_t us = (int64_t) rng_log(&sim->rng, 100, 1000000);
        us = rng_chance(&sim->rng, 400000) ? -us : us;
        sim_at(sim, sim->now + rng_range(&sim->rng, 0, plan->active), leap_event, proc,
               (uint64_t) us);
    }
}

static void restart_event(sim_t *sim, void *arg, uint64_t moved)
{
    proc_restart(arg, moved != 0);
}

static void close_event(sim_t *sim, void *arg, uint64_t value)
{
    proc_t *proc = arg;
    uint32_t peer = (uint32_t) (value >> 8) % sim->nprocs;

    if (peer != proc->index) {
        app_close(proc, peer, (uint32_t) (value >> 1) % sim->nrails, value & 1);
    }
}

static void add_destroy_event(sim_t *sim, void *arg, uint64_t value)
{
    proc_t *proc = arg;
    uint32_t peer = (uint32_t) value % sim->nprocs;

    if (peer == proc->index || !proc->up || proc->busy_until > sim->now) {
        return;
    }
    link_t *link = proc_link(proc, peer, 0);
    if (link->conn == NULL && link->passive == NULL && app_connect(proc, peer, 0)) {
        app_destroy(proc, link);
        fault_applied(sim, F_ADD_DESTROY);
    }
}

static void add_end_of_life(sim_t *sim, plan_t *plan)
{
    bool restart = rng_chance(&sim->rng, 400000);

    plan->ends_lives = true;
    sim->refuses = rng_chance(&sim->rng, 500000);
    sim->down_time = rng_log(&sim->rng, SIM_US(10), SIM_MS(500));
    for (uint64_t n = rng_range(&sim->rng, 1, restart ? 2 : 4); n > 0; n--) {
        uint64_t at = sim->now + rng_range(&sim->rng, 0, plan->active);
        proc_t *proc = &sim->procs[any_proc(sim)];
        if (restart) {
            sim_at(sim, at, restart_event, proc, rng_chance(&sim->rng, 500000));
            plan->end = at + sim->down_time > plan->end ? at + sim->down_time : plan->end;
        } else if (rng_chance(&sim->rng, 300000)) {
            sim_at(sim, at, add_destroy_event, proc, any_proc(sim));
        } else {
            sim_at(sim, at, close_event, proc, rng_next(&sim->rng) >> 8);
        }
    }
}

static void add_send_errors(sim_t *sim, plan_t *plan)
{
    uint32_t ppm = PICK(sim, 50000, 300000, 1000000);

    switch (rng_range(&sim->rng, 0, 4)) {
    case 0:
        local_fault(sim, plan, F_TX_PARTIAL, SIM_MS(10), ppm > 500000 ? 500000 : ppm, 0);
        break;
    case 1:
        local_fault(sim, plan, F_TX_EAGAIN, SIM_MS(10), ppm, 0);
        break;
    case 2:
        local_fault(sim, plan, F_TX_ENOBUFS, SIM_MS(10), ppm, 0);
        break;
    case 3:
        local_fault(sim, plan, F_TX_EMSGSIZE, SIM_MS(100), ppm, PICK(sim, 200, 600, 1400));
        break;
    default:
        local_fault(sim, plan, F_TX_LATE, SIM_MS(100), ppm, SIM_MS(20));
        break;
    }
}

static void add_device_errors(sim_t *sim, plan_t *plan)
{
    const fault_kind_t kinds[] = {F_RDMA_EAGAIN, F_RDMA_BROKEN, F_RDMA_UNREACH};

    const uint32_t ppm = PICK(sim, 10000, 200000, 1000000);
    const uint64_t longest = rng_chance(&sim->rng, 200000) ? SIM_S(5) : SIM_MS(100);
    const fault_kind_t kind = kinds[rng_range(&sim->rng, 0, ARRAY(kinds) - 1)];

    local_fault(sim, plan, kind, longest, ppm, 0);
}

/* What a receive buffer must hold at the least. */
static uint32_t largest_datagram(const sim_t *sim)
{
    uint32_t largest = 0;

    for (uint32_t i = 0; i < sim->nprocs * sim->nrails; i++) {
        const proc_t *proc = &sim->procs[i / sim->nrails];
        uint32_t size = proc_attr(proc, i % sim->nrails)->max_datagram;
        largest = size > largest ? size : largest;
    }
    return largest + 256;
}

static void add_fault(sim_t *sim, plan_t *plan)
{
    uint32_t value;

    switch (rng_range(&sim->rng, 0, 18)) {
    case 0:
    case 1:
    case 2:
        add_loss(sim, plan);
        break;
    case 3:
        value = PICK(sim, 10000, 5000000);
        window_fault(sim, plan, F_DUPLICATE, SIM_MS(100), PICK(sim, 10000, 300000), value);
        break;
    case 4:
        value = PICK(sim, 20000, 300000, 3000000);
        window_fault(sim, plan, F_REORDER, SIM_MS(100), PICK(sim, 10000, 300000), value);
        break;
    case 5:
        window_fault(sim, plan, F_JITTER, SIM_MS(100), 1000000, PICK(sim, 10000, 200000, 2000000));
        break;
    case 6:
        /* Without protection the payload is the network's business. */
        value = PICK(sim, 10000, 200000);
        window_fault(sim, plan,
                     sim->protection.kind != BTL_IB_PROTECTION_NONE && rng_chance(&sim->rng, 700000)
                         ? F_FLIP
                         : F_CORRUPT,
                     SIM_MS(100), value, 0);
        break;
    case 7:
        add_noise(sim, plan);
        break;
    case 8:
        add_partition(sim, plan);
        break;
    case 9:
        window_fault(sim, plan, F_HOLE, SIM_S(1), 0, PICK(sim, 200, 600, 1400));
        break;
    case 10:
        window_fault(sim, plan, F_BOTTLENECK, SIM_MS(100), 0, PICK(sim, 10, 100, 1000));
        break;
    case 11:
        sim->rx_bytes_max = PICK(sim, 4000, 16000, 66000) + largest_datagram(sim);
        break;
    case 12:
        local_fault(sim, plan, F_NO_MEMORY, SIM_MS(50), PICK(sim, 50000, 500000, 1000000), 0);
        break;
    case 13:
        add_compute(sim, plan);
        break;
    case 14:
        add_clock(sim, plan);
        break;
    case 15:
        add_end_of_life(sim, plan);
        break;
    case 16:
        add_send_errors(sim, plan);
        break;
    case 17:
        add_device_errors(sim, plan);
        break;
    default:
        local_fault(sim, plan, F_LOOKUP_FAILED, SIM_MS(20), 500000, 0);
        run_tag_from(sim, sim->now + rng_log(&sim->rng, SIM_US(10), SIM_MS(100)));
        plan->end = sim->tag_from > plan->end ? sim->tag_from : plan->end;
        break;
    }
}

/* ---- messages ---- */

static uint32_t choose_size(sim_t *sim, uint32_t eager_max)
{
    uint64_t dice = rng_range(&sim->rng, 0, 99);

    if (dice < 10) {
        return (uint32_t) rng_range(&sim->rng, 0, 3);
    }
    if (dice < 50) {
        return (uint32_t) rng_range(&sim->rng, 4, 100);
    }
    if (dice < 55) {
        return eager_max;
    }
    return (uint32_t) rng_log(&sim->rng, 64, eager_max);
}

/* The payload of the smallest full segment that anybody may have to use. */
static uint32_t smallest_unit(sim_t *sim)
{
    uint32_t unit = UINT32_MAX;

    for (uint32_t i = 0; i < sim->nprocs * sim->nrails; i++) {
        const proc_t *proc = &sim->procs[i / sim->nrails];
        const btl_ib_queue_table_t *table = &proc->published[i % sim->nrails].queues;
        uint32_t size = table->q[table->count - 1].size;
        unit = size - 76 - BTL_IB_TRAILER_MAX < unit ? size - 76 - BTL_IB_TRAILER_MAX : unit;
    }
    return unit;
}

static void plan_burst(sim_t *sim, const plan_t *plan, uint32_t *budget, uint32_t unit)
{
    proc_t *proc = &sim->procs[any_proc(sim)];
    uint32_t peer = any_proc(sim);
    uint64_t at = sim->now + rng_range(&sim->rng, 0, plan->active);

    if (rng_chance(&sim->rng, 300000)) {
        at = sim->now + SIM_US(1); /* all at once: both sides connect at the same time */
    }
    while (peer == proc->index) {
        peer = any_proc(sim);
    }
    for (uint64_t n = rng_log(&sim->rng, 1, 20); n > 0 && *budget > 0; n--) {
        uint32_t size = choose_size(sim, proc->config.eager_max);
        uint32_t rounds = rng_chance(&sim->rng, 200000) ? (uint32_t) rng_log(&sim->rng, 1, 16) : 0;
        uint32_t chain = rng_chance(&sim->rng, 100000) ? (uint32_t) rng_log(&sim->rng, 1, 8) : 0;
        uint32_t cost = size / unit + 1;
        if (cost > *budget / 4) {
            size = (uint32_t) rng_range(&sim->rng, 0, 100);
            cost = size / unit + 1;
        }
        rounds = cost * (rounds + 1) > *budget / 8 ? 0 : rounds;
        chain = cost * (chain + 1) > *budget / 8 ? 0 : chain;
        cost *= 1 + rounds + chain;
        *budget -= cost < *budget ? cost : *budget;
        message_t *m = app_plan(proc, peer, size, at);
        m->replies = (uint8_t) rounds;
        m->chain = chain;
        if (sim->tag_from != 0 && rng_chance(&sim->rng, 200000)) {
            m->tag = 200;
        }
    }
}

/* ---- one-sided operations ---- */

static void choose_atomic(sim_t *sim, onesided_t *op)
{
    op->area = rng_chance(&sim->rng, 500000) ? AREA_SHARED : AREA_WORDS;
    if (sim->device_atomics) {
        op->op.code = PICK(sim, BTL_IB_ATOMIC_ADD, BTL_IB_ATOMIC_CSWAP);
        return;
    }
    if (op->area == AREA_SHARED) { /* such that no value of the word comes twice */
        op->op.code = PICK(sim, BTL_IB_ATOMIC_ADD, BTL_IB_ATOMIC_SWAP, BTL_IB_ATOMIC_CSWAP);
        return;
    }
    do {
        op->op.code = (btl_ib_atomic_code_t) rng_range(&sim->rng, 1, BTL_IB_ATOMIC_CSWAP);
        op->op.type = (btl_ib_atomic_type_t) rng_range(&sim->rng, 1, BTL_IB_ATOMIC_DOUBLE);
    } while (!btl_ib_atomic_supported(op->op.code, op->op.type));
}

/* Some are wrong, and must change nothing. On a clean network none is: what is refused is sent
 * again. */
static void choose_flaw(sim_t *sim, onesided_t *op)
{
    if (sim->clean) {
        return;
    }
    if (op->op.kind != BTL_IB_OP_ATOMIC && rng_chance(&sim->rng, 200000)) {
        op->area = AREA_COMING;
    }
    if (rng_chance(&sim->rng, 100000)) {
        op->flaw = (flaw_t) rng_range(&sim->rng, 1, FLAWS - 1);
        bool right = op->flaw == FLAW_RIGHT && op->op.kind == BTL_IB_OP_GET;
        bool aligned = op->flaw == FLAW_ALIGNED && op->op.kind != BTL_IB_OP_ATOMIC;
        op->flaw = right || aligned ? FLAW_BOUNDS : op->flaw;
    }
}

static void plan_operation(sim_t *sim, const plan_t *plan, uint32_t *budget, uint32_t unit)
{
    uint32_t src = any_proc(sim), dst = any_proc(sim);
    uint64_t dice = rng_range(&sim->rng, 0, 99);
    btl_ib_op_kind_t kind = dice < 40   ? BTL_IB_OP_PUT
                            : dice < 70 ? BTL_IB_OP_GET
                                        : BTL_IB_OP_ATOMIC;
    uint64_t size = rng_chance(&sim->rng, 50000) ? 0 : rng_log(&sim->rng, 1, 12000);
    uint32_t follow = rng_chance(&sim->rng, 200000) ? (uint32_t) rng_log(&sim->rng, 1, 16) : 0;

    while (dst == src) {
        dst = any_proc(sim);
    }
    size = size / unit > *budget / 8 ? 8 : size;
    uint32_t cost = (uint32_t) (size / unit + 2) * (follow + 1);
    *budget -= cost < *budget ? cost : *budget;
    uint64_t at = sim->now + rng_range(&sim->rng, 0, plan->active);
    onesided_t *op = op_plan(sim, src, dst, kind, size, at);
    op->rail = (uint32_t) rng_range(&sim->rng, 0, sim->nrails - 1);
    op->follow = follow;
    if (kind == BTL_IB_OP_ATOMIC) {
        choose_atomic(sim, op);
    } else if (kind == BTL_IB_OP_GET && rng_chance(&sim->rng, 500000)) {
        op->area = AREA_SLICES;
    }
    choose_flaw(sim, op);
}

static void swap_event(sim_t *sim, void *arg, uint64_t value)
{
    arena_swap(arg);
}

static void plan_operations(sim_t *sim, const plan_t *plan, uint32_t budget, uint32_t unit)
{
    uint64_t swaps = sim->clean ? 0 : rng_range(&sim->rng, 0, 6);

    while (budget > 0) {
        plan_operation(sim, plan, &budget, unit);
    }
    for (; swaps > 0; swaps--) {
        uint64_t at = sim->now + rng_range(&sim->rng, 0, plan->active * 2);
        sim_at(sim, at, swap_event, &sim->procs[any_proc(sim)], 0);
    }
}

static void choose_faults(sim_t *sim, plan_t *plan)
{
    uint64_t dice = rng_range(&sim->rng, 0, 99);
    uint64_t faults = dice < 8 ? 0 : dice < 35 ? 1 : rng_range(&sim->rng, 2, 6);

    for (; faults > 0; faults--) {
        add_fault(sim, plan);
    }
    sim->clean = dice < 8 && sim->hole == 0;
    kill_flow(sim);
    break_bursts(sim);
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_t *proc = &sim->procs[i];
        if (plan->ends_lives && proc->config.silence_limit > 60000000) {
            proc->config.silence_limit = 5000000;
        }
        if (sim->clean) { /* what is slow to answer, or has no room, may be asked again */
            proc->burst = 64;
            proc->step = 200;
            proc->attr.tx_depth = 256;
            proc->config.ops_max = 128;
        }
    }
}

static void check_clean(sim_t *sim)
{
    uint64_t segments = 0, sent = 0;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        segments += sim_counters(sim, i)->sent_segments;
        sent += sim->procs[i].datagrams;
    }
    if (sent > 3 * segments + 16ull * sim->nprocs * sim->nprocs * sim->nrails) {
        sim_fail(sim, "%llu datagrams for %llu segments on a clean network",
                 (unsigned long long) sent, (unsigned long long) segments);
    }
    uint64_t bound = SIM_MS(5) + segments * (2 * sim->delay + SIM_US(60));
    for (uint32_t i = 0; i < sim->nmessages; i++) {
        const message_t *m = &sim->messages[i];
        if (m->delivered_at - m->accepted_at > bound) {
            sim_fail(sim, "message %u took %llu us on a clean network", i,
                     (unsigned long long) (m->delivered_at - m->accepted_at) / 1000);
        }
    }
}

static void device_event(sim_t *sim, void *arg, uint64_t rail)
{
    proc_t *proc = arg;

    if (proc->up) {
        rail_fail_device(proc->rails[rail]);
    }
}

/* Connects all with all over each rail. False: not, for want of memory. */
static bool connect_all(sim_t *sim)
{
    for (uint32_t i = 0; i < sim->nprocs * sim->nprocs * sim->nrails; i++) {
        uint32_t a = i / sim->nrails / sim->nprocs, b = i / sim->nrails % sim->nprocs;
        if (a != b && !app_connect(&sim->procs[a], b, i % sim->nrails)) {
            return false;
        }
    }
    return true;
}

/* Everybody knows everybody over both rails, and then devices of one of them fail: no connection
 * dies of it. */
static void fail_devices(sim_t *sim, const plan_t *plan)
{
    uint64_t rail = rng_range(&sim->rng, 0, 1);

    if (sim->nrails < 2 || plan->ends_lives || sim->clean || !rng_chance(&sim->rng, 600000)) {
        return;
    }
    if (!connect_all(sim)) {
        return;
    }
    sim->survives = true;
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        if (rng_chance(&sim->rng, i == 0 ? 1000000 : 300000)) {
            sim_at(sim, sim->now + rng_range(&sim->rng, 0, plan->active), device_event,
                   &sim->procs[i], rail);
        }
    }
}

static bool any_lasts(const sim_t *sim)
{
    bool lasts = false;

    for (uint32_t i = 0; i < sim->nfaults; i++) {
        lasts = lasts || sim->faults[i].lasts;
    }
    return lasts;
}

/* A rail of one process, of two, or of all, leads nowhere any more, in one direction or both: all
 * arrives by the other one. Not where connections end: a CLOSE that is lost is no way. */
static void kill_rail(sim_t *sim, const plan_t *plan)
{
    rng_t rng;

    rng_seed(&rng, mix64(sim->seed ^ 0x6465616472));
    if (sim->nrails < 2 || sim->clean || sim->survives || plan->ends_lives
        || sim->nfaults == SIM_FAULTS_MAX || rng_chance(&rng, 300000) || !connect_all(sim)) {
        return;
    }
    const uint64_t from = sim->now + rng_range(&rng, 0, plan->active);
    fault_t *fault = fault_add(sim, F_RAIL, from, SIM_NEVER, 0, rng_range(&rng, 0, 1));
    fault->src = rng_chance(&rng, 800000) ? (int) rng_range(&rng, 0, sim->nprocs - 1) : -1;
    fault->dst = fault->src >= 0 && rng_chance(&rng, 500000)
                     ? (int) ((uint32_t) fault->src + 1) % (int) sim->nprocs
                     : -1;
    fault->both = rng_chance(&rng, 500000);
    fault->lasts = true;
}

static void port_event(sim_t *sim, void *arg, uint64_t value)
{
    proc_t *proc = arg;

    if (proc->up) { /* a process that starts again has another rail, whose port is up */
        rail_set_port(proc->rails[value >> 1], value & 1);
    }
}

/* Ports go down, and come back: what was sent meanwhile is lost, and nobody dies of it, unless the
 * device of the other rail fails just then, or nobody waits as long as it takes and there is no
 * other. */
static void flap_ports(sim_t *sim, plan_t *plan)
{
    const bool flap = !sim->clean && !sim->survives && rng_chance(&sim->rng, 200000);

    if (!flap || any_lasts(sim)) {
        return;
    }
    for (uint64_t n = rng_range(&sim->rng, 1, 6); n > 0; n--) {
        proc_t *proc = &sim->procs[any_proc(sim)];
        const uint64_t rail = rng_range(&sim->rng, 0, sim->nrails - 1);
        const uint64_t at = sim->now + rng_range(&sim->rng, 0, plan->active);
        const uint64_t up_at = at + rng_log(&sim->rng, SIM_US(10), SIM_S(1));

        sim_at(sim, at, port_event, proc, rail << 1);
        sim_at(sim, up_at, port_event, proc, rail << 1 | 1);
        plan->end = up_at > plan->end ? up_at : plan->end;
    }
}

/* ECN, on the way of most processes, and what routers make of it: drawn apart, so that a seed
 * without is the same as ever. */
static void choose_ecn(sim_t *sim, const plan_t *plan)
{
    static const fault_kind_t kinds[] = {F_MARK_ALL, F_ECT_CLEARED, F_ECT_CHANGED, F_ECT_DROPPED};
    rng_t rng;

    rng_seed(&rng, mix64(sim->seed ^ 0xec0));
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_t *proc = &sim->procs[i];
        proc->attr.ecn = rng_chance(&rng, 900000);
        for (uint32_t j = 0; j < sim->nrails && proc->shapes != NULL; j++) {
            proc->shapes[j].attr.ecn = proc->attr.ecn;
        }
    }
    for (uint32_t i = 0; i < ARRAY(kinds) && !sim->clean && sim->nfaults < SIM_FAULTS_MAX; i++) {
        if (rng_chance(&rng, 200000)) {
            const uint64_t from = sim->now + rng_range(&rng, 0, plan->active);
            fault_t *fault =
                fault_add(sim, kinds[i], from, from + rng_log(&rng, 1000, SIM_S(1)), 0, 0);
            fault->src = rng_chance(&rng, 500000) ? (int) rng_range(&rng, 0, sim->nprocs - 1) : -1;
        }
    }
}

/* ---- several paths ---- */

enum {
    PATHS_EACH = 8,        /* in one seed of so many processes have several paths, */
    PATHS_LINK = 10000,    /* Mbit/s, */
    PATHS_TIME = 300,      /* ms of bulk between two of them */
    PATHS_BYTES = 6 << 20, /* and at most so much of it */
};

static bool has_paths(const sim_t *sim)
{
    return mix64(sim->seed ^ 0x7061746873) % PATHS_EACH == 0 && !sim->clean;
}

static void spine_event(sim_t *sim, void *arg, uint64_t value)
{
    sim->spine_dead = -1;
}

/* What an ECMP spine, or a policer of each flow, makes of what goes by them, and flows that lead
 * nowhere for a while. */
static void choose_flow_faults(sim_t *sim, rng_t *rng, plan_t *plan)
{
    static const uint64_t caps[] = {50, 100, 400};
    static const uint64_t slow[] = {20, 100, 1000};

    sim->spine_dead = -1;
    links_make(sim, PATHS_LINK, PATHS_LINK, 4 << 20);
    if (rng_chance(rng, 600000)) {
        sim->cap.rate = caps[rng_range(rng, 0, ARRAY(caps) - 1)];
        sim->cap.bytes = rng_chance(rng, 500000) ? 256 << 10 : 70 << 10;
    }
    if (rng_chance(rng, 600000)) {
        const uint64_t queue = rng_chance(rng, 500000) ? 0 : 256 << 10;
        sim->spine[0] = (wire_t){.rate = PATHS_LINK, .queue = queue};
        sim->spine[1] = (wire_t){.rate = slow[rng_range(rng, 0, ARRAY(slow) - 1)], .queue = queue};
        sim->spine_dead = rng_chance(rng, 200000) ? (int) rng_range(rng, 0, 1) : -1;
        sim_at(sim, sim->now + SIM_MS(PATHS_TIME), spine_event, NULL, 0);
    }
    for (uint64_t n = rng_range(rng, 0, 2); n > 0 && sim->nfaults < SIM_FAULTS_MAX; n--) {
        const uint64_t from = sim->now + SIM_MS(rng_range(rng, 0, PATHS_TIME));
        const uint64_t to = from + SIM_MS(rng_log(rng, 1, PATHS_TIME));
        fault_t *fault = fault_add(sim, F_PAIR, from, to, 0, rng_range(rng, 0, 5));
        fault->src = (int) rng_range(rng, 0, sim->nprocs - 1);
        plan->end = to > plan->end ? to : plan->end;
    }
}

/* Some seeds: drawn apart, so that all others are what they would be without. */
static void choose_paths(sim_t *sim, plan_t *plan)
{
    rng_t rng;

    if (!has_paths(sim)) {
        return;
    }
    rng_seed(&rng, mix64(sim->seed ^ 0x666c6f7773));
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        proc_t *proc = &sim->procs[i];
        proc->attr.spare_flow = true;
        proc->attr.paths = (uint8_t) rng_range(&rng, 0, 3);
        for (uint32_t j = 0; j < sim->nrails && proc->shapes != NULL; j++) {
            proc->shapes[j].attr.spare_flow = true;
            proc->shapes[j].attr.paths = proc->attr.paths;
        }
    }
    choose_flow_faults(sim, &rng, plan);
    const uint64_t end = sim->now + SIM_MS(PATHS_TIME);
    plan->end = end > plan->end ? end : plan->end;
}

/* Bulk from one process to the next, long enough for paths to be tried. */
static void plan_bulk(sim_t *sim)
{
    if (!has_paths(sim)) {
        return;
    }
    const uint32_t from = (uint32_t) (mix64(sim->seed ^ 0x62756c6b) % sim->nprocs);
    const uint32_t size = sim->procs[from].config.eager_max;
    for (uint32_t i = 0; i < 8; i++) {
        message_t *m = app_plan(&sim->procs[from], (from + 1) % sim->nprocs, size, sim->now + 1000);
        m->chain = PATHS_BYTES / 8 / size;
    }
}
/* Until all is delivered and done, once the faults have ended: 40 times rto_max at its longest. The
 * slowest of 1,500 seeds that has no death took 5.2 s: a rail was dead from the first contact
 * on. */
#define SETTLE_MOST SIM_S(8)

void scenario_random(sim_t *sim)
{
    static const uint32_t counts[] = {2, 2, 2, 2, 2, 3, 3, 4, 5, 8, 16};
    plan_t plan = {.active = rng_log(&sim->rng, SIM_US(200), SIM_MS(60))};

    const uint32_t rails = rng_chance(&sim->rng, 300000) ? 2 : 1;
    sim_procs(sim, pick(sim, counts, ARRAY(counts)), rails);
    sim->delay = rng_log(&sim->rng, 1000, SIM_US(400));
    protection_choose(sim,
                      (btl_ib_protection_kind_t) rng_range(&sim->rng, 0, protection_kinds() - 1));
    if (rng_chance(&sim->rng, 60000)) {
        sim->hole = PICK(sim, 560, 1000, 1210, 1300, 1460);
    }
    if (rng_chance(&sim->rng, 300000)) { /* a key soon serves its time */
        sim->first_number = (1u << BTL_IB_PROTECTION_KEY_SHIFT) - rng_log(&sim->rng, 1, 500);
    }
    choose_processes(sim);
    /* Some wait less than a port is down. */
    for (uint32_t i = 0; i < sim->nprocs && rails > 1; i++) {
        sim->procs[i].config.down_limit = UINT64_C(100) << mix64(sim->seed + i) % 18;
    }
    choose_faults(sim, &plan);
    vary_rails(sim);
    if (sim->ecn) {
        choose_ecn(sim, &plan);
    }
    choose_paths(sim, &plan);
    rare_options(sim);
    run_start(sim);
    fail_devices(sim, &plan);
    kill_rail(sim, &plan);
    rare_events(sim, plan.active, plan.ends_lives);

    uint32_t unit = smallest_unit(sim);
    uint32_t budget = (uint32_t) rng_log(&sim->rng, 50, 2500);
    sim->ordered_ppm = PICK(sim, 0, 100000, 500000);
    while (budget > 0) {
        plan_burst(sim, &plan, &budget, unit);
    }
    if (rng_chance(&sim->rng, 600000)) {
        plan_operations(sim, &plan, (uint32_t) rng_log(&sim->rng, 20, 1500), unit);
    }
    plan_bulk(sim);
    flap_ports(sim, &plan);
    uint64_t until = plan.end > sim->now + plan.active ? plan.end : sim->now + plan.active;
    sim_run_until(sim, until);
    sim->stopping = has_paths(sim); /* its bulk would go on for long */
    run_heal(sim);
    rare_end(sim);
    uint64_t patience = plan.ends_lives ? 2 * run_longest_silence(sim) : 0;
    const bool lasts = any_lasts(sim);
    if (lasts) { /* what begins only now has to find a way, too */
        uint32_t more = 100;
        while (more > 0) {
            plan_burst(sim, &plan, &more, unit);
        }
    }
    run_settle(sim, SETTLE_MOST + patience);
    if (lasts) {
        run_heal_rest(sim);
    }
    if (sim->clean) {
        check_clean(sim);
    }
    run_quiet(sim, SIM_S(300) + 2 * run_longest_silence(sim));
    run_rest_burst(sim);
    run_farewell(sim);
}
