/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <stdlib.h>
#include <string.h>

#include "sim.h"

uint64_t mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void rng_seed(rng_t *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        rng->s[i] = mix64(seed);
    }
}

static uint64_t rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

uint64_t rng_next(rng_t *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t rng_range(rng_t *rng, uint64_t lo, uint64_t hi)
{
    return lo + rng_next(rng) % (hi - lo + 1);
}

bool rng_chance(rng_t *rng, uint32_t ppm)
{
    return ppm != 0 && rng_next(rng) % 1000000 < ppm;
}

uint64_t rng_log(rng_t *rng, uint64_t lo, uint64_t hi)
{
    uint32_t octaves = 0;

    while (octaves < 63 && lo << octaves < hi && lo << octaves >> octaves == lo) {
        octaves++;
    }
    if (octaves == 0) {
        return lo;
    }
    uint32_t octave = (uint32_t) rng_range(rng, 0, octaves - 1);
    uint64_t from = lo << octave;
    uint64_t to = from * 2 - 1 < hi ? from * 2 - 1 : hi;
    return rng_range(rng, from, to);
}

static bool earlier(const event_t *a, const event_t *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void sim_at(sim_t *sim, uint64_t at, event_fn_t fn, void *arg, uint64_t value)
{
    if (sim->heap_len == sim->heap_cap) {
        sim->heap_cap = sim->heap_cap == 0 ? 1024 : 2 * sim->heap_cap;
        sim->heap = realloc(sim->heap, sim->heap_cap * sizeof(*sim->heap));
    }
    event_t event = {
        .at = at < sim->now ? sim->now : at,
        .order = sim->event_order++,
        .fn = fn,
        .arg = arg,
        .value = value,
    };
    uint32_t i = sim->heap_len++;
    while (i > 0 && earlier(&event, &sim->heap[(i - 1) / 2])) {
        sim->heap[i] = sim->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    sim->heap[i] = event;
}

static event_t pop(sim_t *sim)
{
    event_t first = sim->heap[0];
    event_t last = sim->heap[--sim->heap_len];
    uint32_t i = 0;

    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= sim->heap_len) {
            break;
        }
        if (child + 1 < sim->heap_len && earlier(&sim->heap[child + 1], &sim->heap[child])) {
            child++;
        }
        if (!earlier(&sim->heap[child], &last)) {
            break;
        }
        sim->heap[i] = sim->heap[child];
        i = child;
    }
    sim->heap[i] = last;
    return first;
}

bool sim_step(sim_t *sim, uint64_t until)
{
    if (sim->heap_len == 0 || sim->heap[0].at > until) {
        return false;
    }
    event_t event = pop(sim);
    sim->now = event.at;
    if (++sim->events > sim->events_max) {
        sim_fail(sim, "livelock: %llu events", (unsigned long long) sim->events);
    }
    event.fn(sim, event.arg, event.value);
    return true;
}

void sim_run_until(sim_t *sim, uint64_t until)
{
    while (sim_step(sim, until)) {
    }
    sim->now = until;
}

void sim_init(sim_t *sim, uint64_t seed, const char *scenario)
{
    memset(sim, 0, sizeof(*sim));
    sim->seed = seed;
    sim->scenario = scenario;
    rng_seed(&sim->rng, seed);
    sim->now = SIM_MS(1);
    sim->hash = mix64(seed);
    sim->events_max = 8000000;
    sim->delay = SIM_US(10);
    protection_choose(sim, BTL_IB_PROTECTION_NONE);
}

void sim_procs(sim_t *sim, uint32_t nprocs, uint32_t nrails)
{
    sim->nprocs = nprocs;
    sim->nrails = nrails;
    sim->procs = calloc(nprocs, sizeof(*sim->procs));
    sim->link_free = calloc(nprocs, sizeof(*sim->link_free));
    sim->promises = calloc((size_t) nprocs * nprocs * nrails, sizeof(*sim->promises));
    for (uint32_t i = 0; i < nprocs; i++) {
        proc_t *proc = &sim->procs[i];
        proc->sim = sim;
        proc->index = i;
        proc->name = mix64(sim->seed) >> 32 << 32 | mix64(sim->seed * 1000003 + i) >> 32;
        proc->links = calloc((size_t) nprocs * nrails, sizeof(*proc->links));
    }
}

void sim_free(sim_t *sim)
{
    net_release(sim);
    protection_release(sim);
    ops_free(sim);
    for (uint32_t i = 0; i < sim->nprocs; i++) {
        for (uint32_t k = 0; k < sim->nprocs * sim->nrails; k++) {
            free(sim->procs[i].links[k].fragments);
        }
        free(sim->procs[i].links);
        free(sim->procs[i].shapes);
        trace_close(&sim->procs[i]);
    }
    wiretap_release(sim);
    for (size_t i = 0; i < (size_t) sim->nprocs * sim->nprocs * sim->nrails; i++) {
        free(sim->promises[i]);
    }
    free(sim->promises);
    free(sim->out);
    free(sim->in);
    free(sim->link_free);
    free(sim->procs);
    free(sim->bound);
    free(sim->heap);
    free(sim->messages);
}
