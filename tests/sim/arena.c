/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The memory that operations work on: what it must be, and whether some order of its atomics
 * explains what it is. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"

uint64_t arena_word(const arena_t *arena, uint32_t word)
{
    uint64_t value;

    memcpy(&value, arena->memory + FIXED + SLICES + 8 * word, sizeof(value));
    return value;
}

uint8_t arena_pattern(uint64_t seed, uint64_t at)
{
    return (uint8_t) ((seed + at * 0x9e3779b97f4a7c15u) >> 29 ^ at);
}

const btl_ib_rdma_ops_t *arena_mover(const proc_t *proc, uint32_t rail,
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
        const btl_ib_rdma_ops_t *ops = arena_mover(proc, i, &t);
        btl_ib_place_t *place = &region->place[i];
        region->device[i] = ops == NULL ? NULL : t;
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
    btl_ib_region_remove(proc->engine, &region->key);
    for (uint32_t i = 0; i < proc->sim->nrails; i++) {
        if (proc->rails[i] != NULL && region->device[i] != NULL) {
            region->device[i]->ops->rdma->withdraw(region->device[i], region->handle[i]);
        }
    }
}

/* The memory of the region that comes and goes is used for something new. */
static void reuse(proc_t *proc)
{
    arena_t *arena = proc->arena;
    uint64_t seed = rng_next(&proc->sim->rng);

    for (uint32_t i = OPEN; i < ARENA; i++) {
        arena->memory[i] = arena_pattern(seed, i);
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
        arena->memory[i] = arena_pattern(seed, i);
    }
    memcpy(arena->shadow, arena->memory, ARENA);
    memset(arena->known, 1, ARENA);
    memset(arena->known + FIXED + SLICES, 0, 8 * WORDS);
    for (uint32_t i = 0; i < WORDS; i++) {
        arena->first[i] = arena_word(arena, i);
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

bool arena_is_target(const onesided_t *op, const proc_t *proc)
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
 * results? Operands are such that values do not repeat, so a known result has one place. Those
 * without an answer may be anywhere, or nowhere. */
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
    chain_t chain = {.last = arena_word(proc->arena, word)};
    uint32_t answered = 0;

    chain.ops = malloc((sim->nops + 1) * sizeof(*chain.ops));
    for (uint32_t i = 0; i < sim->nops; i++) {
        onesided_t *op = sim->ops[i];
        if (op->started && op->op.kind == BTL_IB_OP_ATOMIC && op->word == word
            && op->area == AREA_SHARED && op->flaw == FLAW_NONE && arena_is_target(op, proc)) {
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
        if (!arena->tainted[at] && arena_word(arena, i) != arena->model[i]) {
            sim_fail(proc->sim, "p%u: word %u is %016llx, it must be %016llx", proc->index, i,
                     (unsigned long long) arena_word(arena, i),
                     (unsigned long long) arena->model[i]);
        }
    }
}

void arena_taint(arena_t *arena, const onesided_t *op)
{
    if (op->op.kind != BTL_IB_OP_GET && op->flaw == FLAW_NONE) {
        memset(arena->known + op->at, 0, op->bytes);
        memset(arena->tainted + op->at, 1, op->bytes);
    }
}

void arena_check(proc_t *proc)
{
    for (onesided_t *op = proc->sim->open; op != NULL; op = op->next) {
        if (arena_is_target(op, proc)) {
            arena_taint(proc->arena, op);
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
