/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* One-sided operations of the application: planned, started, and what became of them. arena.h has
 * what they work on. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"

enum {
    MARGIN = 16, /* bytes around local memory */
};

static void local_free(sim_t *sim, onesided_t *op)
{
    if (op->op.mem != NULL) {
        if (sim->procs[op->src].rails[op->rail] != NULL) { /* else it went with its rail */
            op->device->ops->rdma->withdraw(op->device, op->op.mem);
        }
        op->op.mem = NULL;
    }
    if (op->local != NULL) {
        memset(op->local, 0xdd, op->op.size + 2 * MARGIN);
        free(op->local);
        op->local = NULL;
    }
}

/* For the device of the rail that it goes by. */
static void expose_local(sim_t *sim, onesided_t *op)
{
    btl_ib_transport_t *t;
    const btl_ib_rdma_ops_t *ops = arena_mover(&sim->procs[op->src], op->rail, &t);
    uint32_t key;

    if (ops == NULL || op->op.kind == BTL_IB_OP_ATOMIC || !rng_chance(&sim->rng, sim->pinned_ppm)
        || ops->expose(t, op->op.local, op->op.size, 0, &op->op.mem, &key) != 0) {
        op->op.mem = NULL;
    }
    op->device = t;
}

static void local_make(sim_t *sim, onesided_t *op)
{
    op->local = malloc(op->op.size + 2 * MARGIN);
    memset(op->local, 0xa5, op->op.size + 2 * MARGIN);
    op->op.local = op->local + MARGIN;
    op->content = rng_next(&sim->rng);
    if (op->op.kind == BTL_IB_OP_PUT) {
        for (uint64_t i = 0; i < op->op.size; i++) {
            op->local[MARGIN + i] = arena_pattern(op->content, i);
        }
    }
    expose_local(sim, op);
}

/* Only readers may share. */
static bool in_use(const sim_t *sim, const onesided_t *who, const proc_t *target, uint64_t at,
                   uint64_t bytes)
{
    for (const onesided_t *op = sim->open; op != NULL; op = op->next) {
        bool both_read = op->op.kind == BTL_IB_OP_GET && who->op.kind == BTL_IB_OP_GET;
        if (arena_is_target(op, target) && at < op->at + op->bytes && op->at < at + bytes
            && !both_read) {
            return true;
        }
    }
    return false;
}

static bool is_tainted(const arena_t *arena, uint64_t at, uint64_t bytes)
{
    return memchr(arena->tainted + at, 1, bytes) != NULL;
}

/* Bytes from `from` to `to` that nobody uses meanwhile. */
static bool find_room(sim_t *sim, onesided_t *op, proc_t *target, uint64_t from, uint64_t to)
{
    uint64_t bytes = op->bytes > 0 ? op->bytes : 1;

    for (int i = 0; i < 20; i++) {
        uint64_t at = rng_range(&sim->rng, from, to - bytes);
        if (!in_use(sim, op, target, at, bytes) && !is_tainted(target->arena, at, bytes)) {
            op->at = at;
            return true;
        }
    }
    return false;
}

static bool choose_word(sim_t *sim, onesided_t *op, proc_t *target)
{
    bool shared = op->area == AREA_SHARED;

    op->op.offset = 0;
    op->bytes = 8;
    for (int i = 0; i < 20; i++) {
        op->word =
            (uint32_t) rng_range(&sim->rng, shared ? 0 : SHARED, (shared ? SHARED : WORDS) - 1);
        op->at = FIXED + SLICES + 8 * op->word;
        if (shared
            || (!in_use(sim, op, target, op->at, 8) && !is_tainted(target->arena, op->at, 8))) {
            if (shared && rng_chance(&sim->rng, 500000)) {
                op->op.compare = arena_word(target->arena, op->word);
            }
            return true;
        }
    }
    return false;
}

/* Where in the target's memory. False if there is no place for it now. */
static bool choose_place(sim_t *sim, onesided_t *op, proc_t *target)
{
    switch (op->area) {
    case AREA_FIXED:
        return find_room(sim, op, target, 0, FIXED);
    case AREA_SLICES:
        return find_room(sim, op, target, FIXED, FIXED + SLICES);
    case AREA_COMING:
        return find_room(sim, op, target, OPEN, ARENA);
    default:
        return choose_word(sim, op, target);
    }
}

static void use(sim_t *sim, onesided_t *op, const named_region_t *region)
{
    op->op.key = region->key;
    op->op.place = region->place[op->rail];
    if (op->op.kind != BTL_IB_OP_ATOMIC && !rng_chance(&sim->rng, sim->known_ppm)) {
        op->op.place.known = false;
    }
}

/* Key and offset of the place, or not quite. */
static void address(sim_t *sim, onesided_t *op, const proc_t *target)
{
    const arena_t *arena = target->arena;
    bool coming = op->area == AREA_COMING;

    const named_region_t *region = coming ? &arena->coming : &arena->open;

    use(sim, op, region);
    op->op.by_device = sim->device_atomics && op->op.kind == BTL_IB_OP_ATOMIC;
    op->op.offset = coming ? op->at - OPEN : op->at;
    switch (op->flaw) {
    case FLAW_BOUNDS: /* by one byte, or by any number */
        op->op.offset = (coming ? COMING : OPEN) + 1 - op->bytes;
        op->op.offset += rng_chance(&sim->rng, 300000) ? rng_next(&sim->rng) >> 1 : 0;
        break;
    case FLAW_RIGHT:
        use(sim, op, &arena->fixed);
        op->op.offset = 0;
        break;
    case FLAW_SECRET:
        op->op.key.secret ^= UINT64_C(1) << rng_range(&sim->rng, 0, 63);
        op->op.place.key ^= UINT32_C(1) << rng_range(&sim->rng, 24, 31);
        break;
    case FLAW_STALE:
        use(sim, op, &arena->gone);
        op->op.offset = 0;
        break;
    case FLAW_ALIGNED:
        op->op.offset += 1;
        break;
    default:
        break;
    }
}

static void enlist(sim_t *sim, onesided_t *op)
{
    op->next = sim->open;
    op->prev = NULL;
    if (op->next != NULL) {
        op->next->prev = op;
    }
    sim->open = op;
    op->started = true;
}

static void delist(sim_t *sim, onesided_t *op)
{
    if (op->prev != NULL) {
        op->prev->next = op->next;
    } else {
        sim->open = op->next;
    }
    if (op->next != NULL) {
        op->next->prev = op->prev;
    }
}

static void start_event(sim_t *sim, void *arg, uint64_t value);

static void later(sim_t *sim, onesided_t *op, uint64_t after)
{
    sim_at(sim, sim->now + after, start_event, op, 0);
}

/* Nothing came of it. */
static void abandon(sim_t *sim, onesided_t *op)
{
    op->done = true;
    op->status = -EACCES;
    sim->ops_waiting--;
}

static bool start(proc_t *proc, link_t *link, onesided_t *op)
{
    sim_t *sim = proc->sim;
    proc_t *target = &sim->procs[op->dst];

    op->src_life = proc->life;
    op->dst_life = target->life;
    op->peer_life = link->peer_life;
    op->link = link;
    op->link_made_at = link->made_at;
    op->started_at = sim->now;
    op->generation = target->arena->generation;
    op->was_there = target->arena->there;
    address(sim, op, target);
    local_make(sim, op);
    enlist(sim, op);
    link->kept++;
    sim->ops_waiting--;
    uint32_t id = op->id;
    int rc = btl_ib_op_start(link->conn, &op->op, proc_clock(proc));
    sim_trace(sim, T_OP, proc->index, target->index, id, op->op.kind, op->bytes, (uint64_t) rc);
    if (rc == 0) {
        fault_applied(sim, op->op.kind == BTL_IB_OP_PUT   ? F_PUT
                           : op->op.kind == BTL_IB_OP_GET ? F_GET
                                                          : F_ATOMIC);
        return true;
    }
    if (rc != -EPIPE || !btl_ib_conn_is_dead(link->conn)) {
        sim_fail(sim, "p%u: btl_ib_op_start returns %d", proc->index, rc);
    }
    delist(sim, op);
    op->started = false;
    link->kept--;
    sim->ops_waiting++;
    local_free(sim, op);
    return false;
}

static void start_now(proc_t *proc, proc_t *target, onesided_t *op)
{
    sim_t *sim = proc->sim;

    arena_begin(target);
    if (choose_place(sim, op, target)) {
        if (!start(proc, proc_link(proc, op->dst, op->rail), op)) {
            later(sim, op, SIM_MS(2));
        }
        proc_wake(proc, sim->now + proc->step);
    } else if (++op->attempts > 50) {
        abandon(sim, op);
    } else {
        later(sim, op, SIM_US(100));
    }
}

static void start_event(sim_t *sim, void *arg, uint64_t value)
{
    onesided_t *op = arg;
    proc_t *proc = &sim->procs[op->src];
    proc_t *target = &sim->procs[op->dst];

    if (sim->stopping) {
        abandon(sim, op);
    } else if (!proc->up || !target->up || proc->busy_until > sim->now) {
        later(sim, op, SIM_MS(1) + (proc->busy_until > sim->now ? proc->busy_until - sim->now : 0));
    } else if (!app_connect(proc, op->dst, op->rail)) {
        later(sim, op, rng_range(&sim->rng, SIM_US(50), SIM_MS(1)));
    } else {
        start_now(proc, target, op);
    }
}

onesided_t *op_plan(sim_t *sim, uint32_t src, uint32_t dst, btl_ib_op_kind_t kind, uint64_t bytes,
                    uint64_t at)
{
    onesided_t *op = calloc(1, sizeof(*op));

    if (sim->nops == sim->ops_cap) {
        sim->ops_cap = sim->ops_cap == 0 ? 64 : 2 * sim->ops_cap;
        sim->ops = realloc(sim->ops, sim->ops_cap * sizeof(onesided_t *));
    }
    op->id = sim->nops;
    sim->ops[sim->nops++] = op;
    op->src = src;
    op->dst = dst;
    op->op.kind = kind;
    op->op.size = kind == BTL_IB_OP_ATOMIC ? 0 : bytes;
    op->bytes = bytes;
    op->area = kind == BTL_IB_OP_PUT   ? AREA_SLICES
               : kind == BTL_IB_OP_GET ? AREA_FIXED
                                       : AREA_WORDS;
    op->op.code = BTL_IB_ATOMIC_ADD;
    op->op.type = BTL_IB_ATOMIC_INT64;
    op->op.operand = rng_next(&sim->rng);
    op->op.compare = rng_next(&sim->rng);
    sim->ops_waiting++;
    sim_at(sim, at, start_event, op, 0);
    return op;
}

/* ---- the end of operations ---- */

/* What happened to the connection, in terms of a message that was sent when this was started. */
static bool excused(const sim_t *sim, const onesided_t *op)
{
    const message_t m = {
        .src = op->src,
        .dst = op->dst,
        .rail = op->rail,
        .src_life = op->src_life,
        .dst_life = op->peer_life,
        .done = true,
        .status = op->status,
        .accepted_at = op->started_at,
        .link_made_at = op->link_made_at,
    };
    return op->peer_life != op->dst_life || ledger_excused(sim, &m);
}

/* The region that it was for came or went since it was started. */
static bool swapped(const onesided_t *op, const proc_t *target)
{
    return op->area == AREA_COMING
           && (!op->was_there || op->generation != target->arena->generation);
}

static void check_status(proc_t *proc, const onesided_t *op)
{
    sim_t *sim = proc->sim;
    const proc_t *target = &sim->procs[op->dst];
    bool there = target->up && arena_is_target(op, target);
    bool right = false;

    switch (op->status) {
    case 0:
        right = op->flaw == FLAW_NONE; /* also if the peer left: done is done */
        break;
    case -EACCES:
        fault_applied(sim, F_OP_REFUSED);
        right = op->flaw != FLAW_NONE || !there || swapped(op, target);
        break;
    case -EPIPE:
    case -ECANCELED:
        fault_applied(sim, F_OP_CUT_OFF);
        right = op->link->conn == NULL || btl_ib_conn_is_dead(op->link->conn) || excused(sim, op)
                || (op->op.by_device
                    && (op->broken || rail_failed(proc->rails[op->rail])
                        || rail_given_up(proc->rails[op->rail])));
        break;
    default:
        break;
    }
    if (!right) {
        sim_fail(sim, "p%u: operation %u (kind %d, flaw %d) on p%u ends with %d", proc->index,
                 op->id, (int) op->op.kind, (int) op->flaw, op->dst, op->status);
    }
}

static void check_margins(proc_t *proc, const onesided_t *op)
{
    for (uint32_t i = 0; i < MARGIN; i++) {
        if (op->local[i] != 0xa5 || op->local[MARGIN + op->op.size + i] != 0xa5) {
            sim_fail(proc->sim, "p%u: operation %u wrote beyond its local memory", proc->index,
                     op->id);
        }
    }
}

static void put_done(proc_t *proc, onesided_t *op, proc_t *target)
{
    arena_t *arena = target->arena;

    if (swapped(op, target)) {
        return; /* the memory has been used for something else since */
    }
    if (memcmp(arena->memory + op->at, op->op.local, op->bytes) != 0) {
        sim_fail(proc->sim, "p%u: PUT %u of %llu bytes on p%u is done, but not placed", proc->index,
                 op->id, (unsigned long long) op->bytes, op->dst);
    }
    memcpy(arena->shadow + op->at, op->op.local, op->bytes);
    memset(arena->known + op->at, 1, op->bytes);
}

static void get_done(proc_t *proc, const onesided_t *op, const proc_t *target)
{
    const arena_t *arena = target->arena;

    for (uint64_t i = 0; op->area != AREA_COMING && i < op->bytes; i++) {
        uint8_t got = op->local[MARGIN + i];
        if (arena->known[op->at + i] && got != arena->shadow[op->at + i]) {
            sim_fail(proc->sim, "p%u: GET %u brings %02x as byte %llu, it must be %02x",
                     proc->index, op->id, got, (unsigned long long) i, arena->shadow[op->at + i]);
        }
    }
}

static void atomic_done(proc_t *proc, const onesided_t *op, proc_t *target)
{
    uint64_t *model = &target->arena->model[op->word];
    uint64_t result = 0;

    if (op->area != AREA_WORDS) {
        return;
    }
    (void) btl_ib_atomic_execute(model, op->op.code, op->op.type, op->op.operand, op->op.compare,
                                 &result);
    if (result != op->op.result || arena_word(target->arena, op->word) != *model) {
        sim_fail(proc->sim,
                 "p%u: ATOMIC %u, code %d type %d, finds %016llx and leaves %016llx, it must be "
                 "%016llx and %016llx",
                 proc->index, op->id, (int) op->op.code, (int) op->op.type,
                 (unsigned long long) op->op.result,
                 (unsigned long long) arena_word(target->arena, op->word),
                 (unsigned long long) result, (unsigned long long) *model);
    }
}

static void settle(proc_t *proc, onesided_t *op)
{
    proc_t *target = &proc->sim->procs[op->dst];

    if (!target->up || !arena_is_target(op, target)) {
        return;
    }
    if (op->status == 0 && op->flaw == FLAW_NONE) {
        if (op->op.kind == BTL_IB_OP_PUT) {
            put_done(proc, op, target);
        } else if (op->op.kind == BTL_IB_OP_GET) {
            get_done(proc, op, target);
        } else {
            atomic_done(proc, op, target);
        }
    } else if (op->status != -EACCES && !swapped(op, target)) {
        arena_taint(target->arena, op);
    }
}

void app_op_done(void *context, btl_ib_op_t *done, int status)
{
    proc_t *proc = context;
    sim_t *sim = proc->sim;
    onesided_t *op = BTL_IB_CONTAINER(done, onesided_t, op);

    proc_called(proc, "op_done");
    for (uint32_t i = 0; i < sim->nrails; i++) {
        if (device_uses(rail_device(proc->rails[i]), done, UINT32_MAX)) {
            sim_fail(sim, "p%u: op_done of what its device still does", proc->index);
        }
    }
    if (!op->started || op->done || op->src != proc->index || op->src_life != proc->life) {
        sim_fail(sim, "p%u: op_done at the wrong time", proc->index);
    }
    sim_trace(sim, T_OP_DONE, op->src, op->dst, op->id, (uint64_t) (int64_t) status, 0, 0);
    op->done = true;
    op->done_at = sim->now;
    op->status = status;
    delist(sim, op);
    op->link->kept--;
    check_status(proc, op);
    check_margins(proc, op);
    settle(proc, op);
    local_free(sim, op);
    if (op->follow > 0 && status == 0 && !sim->stopping) {
        onesided_t *next = op_plan(sim, op->src, op->dst, op->op.kind, op->bytes, sim->now);
        next->follow = op->follow - 1;
        next->area = op->area;
        next->rail = op->rail;
    }
}

void ops_forget(proc_t *proc)
{
    sim_t *sim = proc->sim;
    onesided_t *next;

    for (onesided_t *op = sim->open; op != NULL; op = next) {
        next = op->next;
        if (op->src == proc->index) {
            op->done = true;
            op->status = -EPIPE;
            delist(sim, op);
            settle(proc, op);
            local_free(sim, op);
        }
    }
}

void ops_free(sim_t *sim)
{
    for (uint32_t i = 0; i < sim->nops; i++) {
        local_free(sim, sim->ops[i]);
        free(sim->ops[i]);
    }
    free(sim->ops);
}
