/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* ---- memory ---- */

struct allocation {
    allocation_t *next, *prev;
    size_t size;
    proc_t *proc;
    uint8_t bytes[] __attribute__((aligned(16)));
};

static bool out_of_memory(proc_t *proc)
{
    if (proc->spared) {
        return false;
    }
    if (proc->fail_at > 0 && --proc->fail_at == 0) {
        return true;
    }
    const fault_t *fault = fault_active(proc->sim, F_NO_MEMORY, proc->index, proc->index);
    return fault != NULL && proc->engine != NULL && rng_chance(&proc->sim->rng, fault->ppm);
}

static void *proc_zalloc(void *context, size_t size)
{
    proc_t *proc = context;

    if (out_of_memory(proc)) {
        fault_applied(proc->sim, F_NO_MEMORY);
        return NULL;
    }
    allocation_t *a = calloc(1, sizeof(*a) + size);
    a->size = size;
    a->proc = proc;
    a->next = proc->allocations;
    if (a->next != NULL) {
        a->next->prev = a;
    }
    proc->allocations = a;
    proc->allocated++;
    proc->bytes += size;
    if (proc->bytes > proc->bytes_peak) {
        proc->bytes_peak = proc->bytes;
    }
    return a->bytes;
}

static void proc_free(void *context, void *memory)
{
    proc_t *proc = context;
    allocation_t *a = BTL_IB_CONTAINER(memory, allocation_t, bytes);

    if (a->proc != proc) {
        sim_fail(proc->sim, "p%u frees memory that is not its own", proc->index);
    }
    for (uint32_t i = 0; i < proc->sim->nrails; i++) {
        if (proc->rails[i] != NULL) {
            rail_check_free(proc->rails[i], a->bytes, a->size);
        }
    }
    proc->bytes -= a->size;
    if (a->prev != NULL) {
        a->prev->next = a->next;
    } else {
        proc->allocations = a->next;
    }
    if (a->next != NULL) {
        a->next->prev = a->prev;
    }
    a->proc = NULL;
    memset(a->bytes, 0xdd, a->size);
    free(a);
}

/* What is told for the log only. */
static void proc_unsent(void *context, btl_ib_conn_t *conn, int error)
{
    proc_called(context, "unsent");
}

static void proc_moved_unanswered(void *context, btl_ib_conn_t *conn)
{
    proc_called(context, "moved_unanswered");
}

static void proc_rail_failed(void *context, uint32_t rail, const char *refused, int error,
                             uint32_t moved, uint32_t left)
{
    proc_called(context, "rail_failed");
}

const btl_ib_engine_ops_t proc_ops = {
    .lookup = app_lookup,
    .passive = app_passive,
    .deliverable = app_deliverable,
    .deliver = app_deliver,
    .on_sent = app_on_sent,
    .on_done = app_on_done,
    .op_done = app_op_done,
    .dead = app_dead,
    .unanswered = app_unanswered,
    .silent = app_silent,
    .black_hole = app_black_hole,
    .gso_lost = app_gso_lost,
    .unsent = proc_unsent,
    .moved_unanswered = proc_moved_unanswered,
    .rail_failed = proc_rail_failed,
    .trace = trace_event,
    .zalloc = proc_zalloc,
    .free = proc_free,
};

/* ---- clock ---- */

static uint64_t clock_now(const proc_t *proc)
{
    uint64_t us = proc->sim->now / 1000 + (uint64_t) proc->clock_shift;

    return proc->clock_base + us - us % proc->clock_grain;
}

uint64_t proc_clock(proc_t *proc)
{
    uint64_t now = clock_now(proc);

    if (now > proc->clock_max) {
        proc->clock_max = now;
    }
    return now;
}

/* When does the process' clock show `due`? */
static uint64_t clock_reaches(const proc_t *proc, uint64_t due)
{
    if (due <= proc->clock_max || due <= proc->clock_base) {
        return proc->sim->now;
    }
    uint64_t us = due - proc->clock_base;
    us = (us + proc->clock_grain - 1) / proc->clock_grain * proc->clock_grain;
    us -= (uint64_t) proc->clock_shift;
    return us > UINT64_MAX / 2000 ? SIM_NEVER : us * 1000;
}

/* ---- polling ---- */

static bool pending(const proc_t *proc)
{
    for (uint32_t i = 0; i < proc->sim->nrails; i++) {
        if (proc->rails[i] != NULL && rail_pending(proc->rails[i])) {
            return true;
        }
    }
    return false;
}

static uint32_t held(const proc_t *proc)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < proc->sim->nrails; i++) {
        n += rail_held(proc->rails[i]);
    }
    return n;
}

bool proc_quiet(const proc_t *proc)
{
    return !proc->up || (btl_ib_engine_next_due(proc->engine) == UINT64_MAX && !pending(proc));
}

/* What is open so long after the last fault waits for somebody's silence limit, which may be 15
 * minutes: looks that find nothing would only use up the events of a scenario. */
static bool only_silence_left(const sim_t *sim)
{
    return sim->healed_at != 0 && sim->now - sim->healed_at > SIM_S(30);
}

/*
 * An application that waits polls all the time. Here it is polled a few times after each event (an
 * engine may count idle calls) and then when it said that something is due.
 */
static uint64_t next_poll(proc_t *proc, bool busy)
{
    sim_t *sim = proc->sim;

    if (busy || pending(proc)) {
        proc->idle_left = proc->idle_polls;
        proc->stuck = 0;
        return sim->now + proc->step;
    }
    if (proc->idle_left > 0) {
        proc->idle_left--;
        return sim->now + 1000;
    }
    uint64_t due = btl_ib_engine_next_due(proc->engine);
    uint64_t at = due == UINT64_MAX ? SIM_NEVER : clock_reaches(proc, due);
    if (at <= sim->now) {
        if (++proc->stuck > 40000) {
            sim_fail(sim, "p%u: something is due all the time and never done", proc->index);
        }
        return sim->now + (proc->stuck < 50 ? 1000 : 20000);
    }
    proc->stuck = 0;
    if (proc->idle_poll != 0 && !sim->clean && !sim->resting && !only_silence_left(sim)) {
        uint64_t idle = sim->now + rng_log(&sim->rng, 1000, proc->idle_poll);
        const bool waits = !ledger_settled(sim) || proc->config.keepalive != 0;
        at = idle < at && waits ? idle : at;
    }
    return at;
}

/* A process that computes between its calls stays in one until the engine has caught up, as the
 * glue does. */
static uint64_t next_call(proc_t *proc)
{
    if (!btl_ib_engine_behind(proc->engine)) {
        proc->calls++;
        proc_compute(proc, proc->sim->now + proc->seldom);
    }
    return proc->sim->now + proc->step;
}

enum { INVARIANTS_EACH = 16 };

static void check_invariants(proc_t *proc)
{
    const char *broken = proc->turns++ % INVARIANTS_EACH == 0 ? inside_broken(proc->engine) : NULL;

    if (broken != NULL) {
        sim_fail(proc->sim, "p%u: this does not hold: %s", proc->index, broken);
    }
}

static void poll_now(proc_t *proc)
{
    sim_t *sim = proc->sim;
    uint64_t clock = proc_clock(proc);

    proc->received_in_progress = 0;
    proc->in_progress = true;
    proc->async_received = false;
    int got = btl_ib_engine_progress(proc->engine, clock, proc->burst);
    proc->in_progress = false;
    if (got < 0 || proc->received_in_progress > proc->burst) {
        sim_fail(sim, "p%u: progress received %d datagrams of at most %d and returned %d",
                 proc->index, proc->received_in_progress, proc->burst, got);
    }
    check_invariants(proc);
    app_poll(proc);
    uint64_t due = btl_ib_engine_next_due(proc->engine);
    sim_trace(sim, T_POLL, proc->index, clock, (uint64_t) got,
              due == UINT64_MAX ? (uint64_t) -1 : due - clock,
              (uint64_t) proc->received_in_progress, held(proc));
    const bool busy = got > 0 || proc->received_in_progress > 0;
    proc_wake(proc, proc->seldom != 0 ? next_call(proc) : next_poll(proc, busy));
}

static void poll_event(sim_t *sim, void *arg, uint64_t generation)
{
    proc_t *proc = arg;

    if (!proc->up || generation != proc->poll_generation) {
        return;
    }
    proc->poll_at = SIM_NEVER;
    if (sim->now < proc->busy_until) {
        proc_wake(proc, proc->busy_until);
        return;
    }
    poll_now(proc);
}

/* ---- asynchronous turns, as the glue's thread makes them ---- */

#define ASYNC_PAUSE SIM_MS(1) /* between two, at least */

void proc_called(const proc_t *proc, const char *what)
{
    if (proc->in_async) {
        sim_fail(proc->sim, "p%u: %s is called in an asynchronous turn", proc->index, what);
    }
}

static void async_event(sim_t *sim, void *arg, uint64_t generation)
{
    proc_t *proc = arg;

    if (!proc->up || generation != proc->async_generation || sim->now >= proc->busy_until
        || (btl_ib_engine_async_due(proc->engine) == UINT64_MAX
            && !(proc->answers && pending(proc)))) {
        return; /* polled again, or nothing is due until it is */
    }
    uint64_t clock = proc_clock(proc);
    proc->received_in_progress = 0;
    proc->in_async = true;
    int got = btl_ib_engine_async_progress(proc->engine, clock, proc->burst);
    proc->in_async = false;
    proc->async_received = proc->async_received || got > 0;
    fault_applied(sim, F_ASYNC);
    if (got != proc->received_in_progress || got > proc->burst) {
        sim_fail(sim,
                 "p%u: an asynchronous turn received %d datagrams of at most %d and returned %d",
                 proc->index, proc->received_in_progress, proc->burst, got);
    }
    check_invariants(proc);
    uint64_t due = btl_ib_engine_async_due(proc->engine);
    sim_trace(sim, T_POLL, proc->index, clock, (uint64_t) got,
              due == UINT64_MAX ? (uint64_t) -1 : due - clock,
              (uint64_t) proc->received_in_progress, held(proc));
    uint64_t at = due == UINT64_MAX ? SIM_NEVER : clock_reaches(proc, due);
    at = at > sim->now + ASYNC_PAUSE ? at : sim->now + ASYNC_PAUSE;
    at = at < sim->now + proc->thread_after ? at : sim->now + proc->thread_after;
    sim_at(sim, at, async_event, proc, proc->async_generation);
}

void proc_stir(proc_t *proc)
{
    const uint64_t now = proc->sim->now;

    if (proc->up && proc->answers && now < proc->busy_until) {
        sim_at(proc->sim, now + ASYNC_PAUSE, async_event, proc, ++proc->async_generation);
    }
}

/* ---- polling, as the application does it ---- */

void proc_wake(proc_t *proc, uint64_t at)
{
    if (!proc->up || at == SIM_NEVER) {
        return;
    }
    at = at < proc->busy_until ? proc->busy_until : at;
    if (at < proc->poll_at) {
        proc->poll_at = at;
        sim_at(proc->sim, at, poll_event, proc, ++proc->poll_generation);
    }
}

void proc_look(proc_t *proc)
{
    if (proc->up && proc->sim->now >= proc->busy_until && !pending(proc)) {
        proc->in_progress = true;
        (void) btl_ib_engine_progress(proc->engine, proc_clock(proc), 0);
        proc->in_progress = false;
        app_poll(proc);
    }
}

uint64_t proc_refused(const proc_t *proc)
{
    const btl_ib_counters_t *count = proc->up ? btl_ib_engine_counters(proc->engine) : NULL;

    return count == NULL ? 0 : count->rnr_backlog + count->rnr_reassembly;
}

void proc_compute(proc_t *proc, uint64_t until)
{
    sim_t *sim = proc->sim;
    uint64_t from = proc->busy_until > sim->now ? proc->busy_until : sim->now;

    if (until > from) {
        /* Of a pause the engine counts the first second; with a progress thread there is none. */
        uint64_t unheard = until - from > SIM_S(1) ? until - from - SIM_S(1) : 0;
        proc->busy_total += proc->thread_after == 0 ? unheard : 0;
        if (from == sim->now) {
            proc->busy_from = from;
            proc->refused_then = proc_refused(proc);
        }
        proc->busy_until = until;
        if (proc->thread_after != 0) {
            sim_at(sim, from + proc->thread_after, async_event, proc, ++proc->async_generation);
        }
        sim_trace(sim, T_PROC, proc->index, 1, proc->life, until - sim->now, 0, 0);
        fault_applied(sim, F_COMPUTE);
    }
}

uint64_t proc_busy(const proc_t *proc)
{
    uint64_t now = proc->sim->now;

    uint64_t rest = proc->thread_after == 0 && proc->busy_until > now ? proc->busy_until - now : 0;

    return proc->busy_total > rest ? proc->busy_total - rest : 0;
}

/* ---- one processor for all ---- */

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

/* When a process has the processor in a round. Each round begins with another process. */
static uint64_t turn_begins(const proc_t *proc, uint64_t round)
{
    const sim_t *sim = proc->sim;
    const uint64_t first = mix64(sim->seed + round);
    const uint64_t place =
        ((uint64_t) proc->index * sim->stride + first % sim->nprocs) % sim->nprocs;

    return sim->shared_at + (round * sim->nprocs + place) * sim->slice;
}

static void turn_ends(sim_t *sim, void *arg, uint64_t round)
{
    proc_t *proc = arg;
    const uint64_t next = turn_begins(proc, round + 1);

    if (sim->slice != 0) {
        proc_compute(proc, next);
        sim_at(sim, next + sim->slice, turn_ends, proc, round + 1);
    }
}

void proc_share(sim_t *sim, uint64_t slice)
{
    sim->slice = slice;
    sim->shared_at = sim->now;
    sim->stride = (uint32_t) (mix64(sim->seed) % sim->nprocs);
    while (common_divisor(sim->stride, sim->nprocs) != 1) {
        sim->stride++;
    }
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        const uint64_t begins = turn_begins(&sim->procs[i], 0);
        proc_compute(&sim->procs[i], begins);
        sim_at(sim, begins + slice, turn_ends, &sim->procs[i], 0);
    }
}

/* ---- life ---- */

link_t *proc_link(proc_t *proc, uint32_t peer, uint32_t rail)
{
    link_t *link = &proc->links[peer * proc->sim->nrails + rail];

    link->peer = peer; /* not before it is needed: there may be a million of them */
    link->rail = rail;
    return link;
}

proc_t *proc_by_name(sim_t *sim, uint64_t name)
{
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        if (sim->procs[i].name == name) {
            return &sim->procs[i];
        }
    }
    return NULL;
}

static void engine_log(void *context, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void engine_log(void *context, int level, const char *format, ...)
{
    proc_t *proc = context;
    va_list args;

    if (proc->sim->verbose) {
        printf("  %13.3f us  log     p%u %d ", (double) proc->sim->now / 1000.0, proc->index,
               level);
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        putchar('\n');
    }
}

const btl_ib_transport_attr_t *proc_attr(const proc_t *proc, uint32_t rail)
{
    return proc->shapes != NULL ? &proc->shapes[rail].attr : &proc->attr;
}

void proc_vary(proc_t *proc)
{
    const uint32_t rails = proc->sim->nrails;

    proc->shapes = calloc(rails, sizeof(*proc->shapes));
    for (uint32_t i = 0; i < rails; i++) {
        proc->shapes[i].attr = proc->attr;
        memcpy(proc->shapes[i].queues, proc->queues, sizeof(proc->queues));
    }
}

static void parse_queues(const proc_t *proc, uint32_t rail, btl_ib_queue_table_t *table)
{
    const char *queues = proc->shapes != NULL ? proc->shapes[rail].queues : proc->queues;
    btl_ib_queues_error_t error;

    if (btl_ib_queues_parse(queues, table, &error) != 0) {
        sim_fail(proc->sim, "queues %s: %s of queue %u", queues, error.field, error.queue);
    }
    btl_ib_queues_clamp(table, proc_attr(proc, rail)->max_datagram);
}

static void add_rails(proc_t *proc, btl_ib_engine_t *engine, bool new_address)
{
    sim_t *sim = proc->sim;

    for (uint32_t i = 0; i < sim->nrails; i++) {
        uint32_t address = new_address ? UINT32_MAX : proc->index * sim->nrails + i;
        btl_ib_queue_table_t table;
        rail_t *rail = rail_open(proc, i, address);
        parse_queues(proc, i, &table);
        int n = btl_ib_engine_add_rail(engine, rail_transport(rail), &table);
        if (n != (int) i) {
            sim_fail(sim, "p%u: adding rail %u returned %d", proc->index, i, n);
        }
    }
    for (uint32_t i = 0; i < sim->nrails; i++) {
        btl_ib_engine_rail_info(engine, i, &proc->published[i]);
        if (sim->verbose) {
            rail_print(stdout, proc->rails[i]);
        }
    }
}

void proc_start(proc_t *proc, bool new_address)
{
    sim_t *sim = proc->sim;

    proc->life++;
    proc->forged = 0;
    proc->secret = (btl_ib_secret_t){{rng_next(&sim->rng), rng_next(&sim->rng)}};
    for (size_t i = 0; i < sizeof(proc->key.bytes); i++) {
        proc->key.bytes[i] = (uint8_t) rng_next(&sim->rng);
    }
    proc->config.name = proc->name;
    proc->config.secret = proc->secret;
    proc->config.region_secret = (btl_ib_secret_t){{mix64(proc->secret.k[0]), proc->life}};
    proc->config.protection = sim->protection.kind;
    proc->config.aead = sim->aead;
    proc->config.key = proc->key;
    proc->config.first_number = sim->first_number;
    proc->config.log =
        (btl_ib_log_t){.print = engine_log, .context = proc, .detailed = proc->traced};
    trace_open(proc);
    proc->config.trace = proc->traced || proc->trace != NULL;
    proc->config.predict = !sim->general;
    proc->poll_at = SIM_NEVER;
    proc->clock_max = 0;
    proc->async_received = false;
    proc->idle_left = proc->idle_polls;
    const btl_ib_engine_ops_t *ops = sim->self_test ? self_test_ops() : &proc_ops;
    btl_ib_engine_t *engine = btl_ib_engine_create(&proc->config, ops, proc);
    if (engine == NULL) {
        sim_fail(sim, "p%u: no engine", proc->index);
    }
    add_rails(proc, engine, new_address);
    proc->engine = engine;
    proc->up = true;
    sim_trace(sim, T_PROC, proc->index, 0, proc->life, 0, 0, 0);
    proc_wake(proc, sim->now + 1000);
}

/* Take an engine's counters into the hash of all. */
static void note_counters(sim_t *sim, const btl_ib_engine_t *engine)
{
    const btl_ib_counters_t *count = btl_ib_engine_counters(engine);

    for (const btl_ib_counter_info_t *info = btl_ib_counter_infos; info->name != NULL; info++) {
        sim->counted = mix64(sim->counted ^ btl_ib_counter_value(info, count));
    }
}

void proc_stop(proc_t *proc)
{
    sim_t *sim = proc->sim;

    proc->up = false;
    note_counters(sim, proc->engine);
    btl_ib_engine_destroy(proc->engine);
    proc->engine = NULL;
    app_forget_links(proc);
    arena_end(proc);
    sim_trace(sim, T_PROC, proc->index, 2, proc->life, proc->bytes, 0, 0);
    for (uint32_t i = 0; i < sim->nrails; i++) {
        if (proc->rails[i] != NULL) {
            sim_fail(sim, "p%u: the engine is gone, but rail %u is still open", proc->index, i);
        }
    }
    if (proc->bytes != 0 || proc->allocations != NULL) {
        sim_fail(sim, "p%u: the engine is gone, but %zu bytes of it are left (the newest has %zu)",
                 proc->index, proc->bytes, proc->allocations == NULL ? 0 : proc->allocations->size);
    }
}

static void start_again(sim_t *sim, void *arg, uint64_t new_address)
{
    proc_start(arg, new_address != 0);
}

void proc_restart(proc_t *proc, bool new_address)
{
    sim_t *sim = proc->sim;

    if (!proc->up) {
        return;
    }
    proc_stop(proc);
    fault_applied(sim, new_address ? F_RESTART_MOVED : F_RESTART);
    proc->busy_until = 0;
    sim_at(sim, sim->now + sim->down_time, start_again, proc, new_address);
}
