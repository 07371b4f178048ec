/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations, and a model of the memory that they work on. Each life of a process has an
 * arena:
 *
 *   fixed | slices            | words        || volatile
 *   ------ region `open`, all rights --------||- region `coming`: removed and registered again
 *   - region `fixed`: READ
 *
 * fixed     never written: what a GET must bring is known
 * slices    PUTs get bytes that no other operation uses meanwhile; GETs read what is known to be there
 * words     ATOMICs: some are used by one operation at a time, so that every result is known; some by
 *           all, and then the results must tell of one order in which each was executed once
 * volatile  once it is removed the application uses the memory for something else
 *
 * `shadow` is what the memory must be, where `known` says so. What an operation without an answer left
 * behind is not known, nor when it comes: its bytes are tainted, and not used again in this life.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum {
    FIXED = 16 << 10,
    SLICES = 96 << 10,
    WORDS = 64,
    SHARED = 8, /* of the words: used by all */
    OPEN = FIXED + SLICES + 8 * WORDS,
    COMING = 16 << 10,
    ARENA = OPEN + COMING,
    MARGIN = 16, /* bytes around local memory */
};

/* A region, as its owner's engine and devices know it. */
typedef struct named_region {
    btl_ib_region_key_t key;
    btl_ib_place_t place[BTL_IB_RAILS_MAX];
    void *handle[BTL_IB_RAILS_MAX];
} named_region_t;

struct arena {
    uint8_t *memory, *shadow, *known, *tainted; /* ARENA bytes each */
    uint64_t first[WORDS];                      /* of the words, at the beginning */
    uint64_t model[WORDS];                      /* of those used by one at a time */
    named_region_t open, fixed, coming, gone;
    bool there;          /* `coming` is registered */
    uint32_t generation; /* how often that changed */
};

static uint64_t word_at(const arena_t *arena, uint32_t word)
{
    uint64_t value;

    memcpy(&value, arena->memory + FIXED + SLICES + 8 * word, sizeof(value));
    return value;
}

static uint8_t pattern(uint64_t seed, uint64_t at)
{
    return (uint8_t) ((seed + at * 0x9e3779b97f4a7c15u) >> 29 ^ at);
}

/* ---- arenas ---- */

/* What moves memory for a rail of the process by itself; NULL: nothing does. */
static const btl_ib_rdma_ops_t *mover(const proc_t *proc, uint32_t rail,
                                      btl_ib_transport_t **transport)
{
    *transport = proc->rails[rail] == NULL ? NULL : rail_transport(proc->rails[rail]);
    return *transport == NULL ? NULL : (*transport)->ops->rdma;
}

static void must_register(proc_t *proc, uint32_t from, uint32_t size, uint32_t access,
                          named_region_t *region)
{
    uint8_t *base = proc->arena->memory + from;
    btl_ib_transport_t *t;

    proc->spared = true;
    int rc = btl_ib_region_add(proc->engine, base, size, access, &region->key);
    for (uint32_t i = 0; rc == 0 && i < proc->sim->nrails; i++) {
        const btl_ib_rdma_ops_t *ops = mover(proc, i, &t);
        btl_ib_place_t *place = &region->place[i];
        *place = (btl_ib_place_t){
            .address = (uint64_t) (uintptr_t) base,
            .rail = i,
            .known = ops != NULL,
        };
        rc = ops == NULL ? 0 : ops->expose(t, base, size, access, &region->handle[i], &place->key);
    }
    proc->spared = false;
    if (rc != 0) {
        sim_fail(proc->sim, "p%u: cannot register memory: %d", proc->index, rc);
    }
}

static void unregister(proc_t *proc, named_region_t *region)
{
    btl_ib_transport_t *t;

    btl_ib_region_remove(proc->engine, &region->key);
    for (uint32_t i = 0; i < proc->sim->nrails; i++) {
        const btl_ib_rdma_ops_t *ops = mover(proc, i, &t);
        if (ops != NULL) {
            ops->withdraw(t, region->handle[i]);
        }
    }
}

/* The memory of the region that comes and goes is used for something new. */
static void reuse(proc_t *proc)
{
    arena_t *arena = proc->arena;
    uint64_t seed = rng_next(&proc->sim->rng);

    for (uint32_t i = OPEN; i < ARENA; i++) {
        arena->memory[i] = pattern(seed, i);
    }
    memcpy(arena->shadow + OPEN, arena->memory + OPEN, COMING);
    memset(arena->known + OPEN, 1, COMING);
    memset(arena->tainted + OPEN, 0, COMING);
}

void arena_swap(proc_t *proc)
{
    arena_t *arena = proc->arena;

    if (!proc->up || arena == NULL) {
        return;
    }
    arena->generation++;
    arena->there = !arena->there;
    if (arena->there) {
        must_register(proc, OPEN, COMING, BTL_IB_ACCESS_ALL, &arena->coming);
        return;
    }
    fault_applied(proc->sim, F_REGION_REMOVED);
    unregister(proc, &arena->coming);
    arena->gone = arena->coming;
    reuse(proc);
}

void arena_begin(proc_t *proc)
{
    if (proc->arena != NULL) {
        return;
    }
    arena_t *arena = calloc(1, sizeof(*arena));
    uint64_t seed = rng_next(&proc->sim->rng);
    proc->arena = arena;
    arena->memory = malloc(ARENA);
    arena->shadow = malloc(ARENA);
    arena->known = malloc(ARENA);
    arena->tainted = calloc(1, ARENA);
    for (uint32_t i = 0; i < ARENA; i++) {
        arena->memory[i] = pattern(seed, i);
    }
    memcpy(arena->shadow, arena->memory, ARENA);
    memset(arena->known, 1, ARENA);
    memset(arena->known + FIXED + SLICES, 0, 8 * WORDS);
    for (uint32_t i = 0; i < WORDS; i++) {
        arena->first[i] = word_at(arena, i);
        arena->model[i] = arena->first[i];
    }
    must_register(proc, 0, OPEN, BTL_IB_ACCESS_ALL, &arena->open);
    must_register(proc, 0, FIXED, BTL_IB_ACCESS_READ, &arena->fixed);
    arena_swap(proc);
    arena->gone = arena->coming;
    arena->gone.key.id ^= 1u << 24;
    for (uint32_t i = 0; i < proc->sim->nrails; i++) {
        arena->gone.place[i].key ^= 1u << 24;
    }
}

static bool targets(const onesided_t *op, const proc_t *proc)
{
    return op->dst == proc->index && op->dst_life == proc->life;
}

/* ---- words that all use ---- */

/* The value after an operation that found `value`; false if it would not have changed it. */
static bool step(const onesided_t *op, uint64_t value, uint64_t *next)
{
    uint64_t found;

    *next = value;
    (void) btl_ib_atomic_execute(next, op->op.code, op->op.type, op->op.operand, op->op.compare,
                                 &found);
    return *next != value;
}

typedef struct chain {
    onesided_t **ops;
    uint32_t count;
    uint64_t last;
} chain_t;

static bool answered_at(const onesided_t *op, uint64_t value)
{
    return op->done && op->status == 0 && op->op.result == value;
}

/* Those that found this value and left it: note so, or undo that. Returns how many there are. */
static uint32_t readers(chain_t *chain, uint64_t value, bool note)
{
    uint32_t count = 0;
    uint64_t next;

    for (uint32_t i = 0; i < chain->count; i++) {
        onesided_t *op = chain->ops[i];
        if (op->explained != note && answered_at(op, value) && !step(op, value, &next)) {
            op->explained = note;
            count++;
        }
    }
    return count;
}

static bool explain(chain_t *chain, uint64_t value, uint32_t left);

/* Was the next operation one of these: those whose answer is known, or the others? */
static bool explain_next(chain_t *chain, uint64_t value, uint32_t left, bool known)
{
    uint64_t next;

    for (uint32_t i = 0; i < chain->count; i++) {
        onesided_t *op = chain->ops[i];
        bool maybe = !op->done || (op->status != 0 && op->status != -EACCES);
        if (!op->explained && (known ? answered_at(op, value) : maybe) && step(op, value, &next)) {
            op->explained = true;
            if (explain(chain, next, left - known)) {
                return true;
            }
            op->explained = false;
        }
    }
    return false;
}

/* From `value` on, in which order may the operations have been executed, `left` of them with known
 * results? Operands are such that values do not repeat, so a known result has one place. Those without
 * an answer may be anywhere, or nowhere. */
static bool explain(chain_t *chain, uint64_t value, uint32_t left)
{
    left -= readers(chain, value, true);
    if ((left == 0 && value == chain->last) || explain_next(chain, value, left, true)
        || explain_next(chain, value, left, false)) {
        return true;
    }
    readers(chain, value, false);
    return false;
}

static void check_shared(proc_t *proc, uint32_t word)
{
    sim_t *sim = proc->sim;
    chain_t chain = {.last = word_at(proc->arena, word)};
    uint32_t answered = 0;

    chain.ops = malloc((sim->nops + 1) * sizeof(*chain.ops));
    for (uint32_t i = 0; i < sim->nops; i++) {
        onesided_t *op = sim->ops[i];
        if (op->started && op->op.kind == BTL_IB_OP_ATOMIC && op->word == word
            && op->area == AREA_SHARED && op->flaw == FLAW_NONE && targets(op, proc)) {
            chain.ops[chain.count++] = op;
            answered += op->done && op->status == 0;
        }
    }
    if (!explain(&chain, proc->arena->first[word], answered)) {
        sim_fail(sim, "p%u: word %u is %016llx, and no order of %u atomics explains it and them",
                 proc->index, word, (unsigned long long) chain.last, chain.count);
    }
    free(chain.ops);
}

/* ---- the end of a life ---- */

static void check_bytes(proc_t *proc)
{
    const arena_t *arena = proc->arena;

    for (uint32_t i = 0; i < ARENA; i++) {
        if (arena->known[i] && arena->memory[i] != arena->shadow[i]) {
            sim_fail(proc->sim, "p%u: byte %u of its memory is %02x, it must be %02x", proc->index,
                     i, arena->memory[i], arena->shadow[i]);
        }
    }
    for (uint32_t i = SHARED; i < WORDS; i++) {
        uint32_t at = FIXED + SLICES + 8 * i;
        if (!arena->tainted[at] && word_at(arena, i) != arena->model[i]) {
            sim_fail(proc->sim, "p%u: word %u is %016llx, it must be %016llx", proc->index, i,
                     (unsigned long long) word_at(arena, i), (unsigned long long) arena->model[i]);
        }
    }
}

/* What an operation may have done, or may still do, is not known. */
static void taint(arena_t *arena, const onesided_t *op)
{
    if (op->op.kind != BTL_IB_OP_GET && op->flaw == FLAW_NONE) {
        memset(arena->known + op->at, 0, op->bytes);
        memset(arena->tainted + op->at, 1, op->bytes);
    }
}

void arena_check(proc_t *proc)
{
    for (onesided_t *op = proc->sim->open; op != NULL; op = op->next) {
        if (targets(op, proc)) {
            taint(proc->arena, op);
        }
    }
    check_bytes(proc);
    for (uint32_t i = 0; i < SHARED; i++) {
        check_shared(proc, i);
    }
}

void arena_end(proc_t *proc)
{
    arena_t *arena = proc->arena;

    if (arena == NULL) {
        return;
    }
    arena_check(proc);
    free(arena->memory);
    free(arena->shadow);
    free(arena->known);
    free(arena->tainted);
    free(arena);
    proc->arena = NULL;
}

/* ---- operations ---- */

static void local_free(sim_t *sim, onesided_t *op)
{
    btl_ib_transport_t *t;

    if (op->op.mem != NULL) {
        const btl_ib_rdma_ops_t *ops = mover(&sim->procs[op->src], op->rail, &t);
        if (ops != NULL) { /* else it went with its rail */
            ops->withdraw(t, op->op.mem);
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
    const btl_ib_rdma_ops_t *ops = mover(&sim->procs[op->src], op->rail, &t);
    uint32_t key;

    if (ops == NULL || op->op.kind == BTL_IB_OP_ATOMIC || !rng_chance(&sim->rng, sim->pinned_ppm)
        || ops->expose(t, op->op.local, op->op.size, 0, &op->op.mem, &key) != 0) {
        op->op.mem = NULL;
    }
}

static void local_make(sim_t *sim, onesided_t *op)
{
    op->local = malloc(op->op.size + 2 * MARGIN);
    memset(op->local, 0xa5, op->op.size + 2 * MARGIN);
    op->op.local = op->local + MARGIN;
    op->content = rng_next(&sim->rng);
    if (op->op.kind == BTL_IB_OP_PUT) {
        for (uint64_t i = 0; i < op->op.size; i++) {
            op->local[MARGIN + i] = pattern(op->content, i);
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
        if (targets(op, target) && at < op->at + op->bytes && op->at < at + bytes && !both_read) {
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
                op->op.compare = word_at(target->arena, op->word);
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

    (void) value;
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
    bool there = target->up && targets(op, target);
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
                || (op->op.by_device && (op->broken || rail_failed(proc->rails[op->rail])));
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
    if (result != op->op.result || word_at(target->arena, op->word) != *model) {
        sim_fail(proc->sim,
                 "p%u: ATOMIC %u, code %d type %d, finds %016llx and leaves %016llx, it must be "
                 "%016llx and %016llx",
                 proc->index, op->id, (int) op->op.code, (int) op->op.type,
                 (unsigned long long) op->op.result,
                 (unsigned long long) word_at(target->arena, op->word), (unsigned long long) result,
                 (unsigned long long) *model);
    }
}

static void settle(proc_t *proc, onesided_t *op)
{
    proc_t *target = &proc->sim->procs[op->dst];

    if (!target->up || !targets(op, target)) {
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
        taint(target->arena, op);
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
