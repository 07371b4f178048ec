/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_locality.h"

/* What the steps share. */
typedef struct choosing {
    const btl_ib_candidate_t *candidates;
    const btl_ib_locality_rule_t *rule;
    btl_ib_locality_choice_t *choices; /* of which candidate i has place i, until they are sorted */
    uint32_t count;
} choosing_t;

static uint32_t distance(const choosing_t *all, uint32_t i)
{
    return all->rule->ranked ? all->candidates[i].distance : 0;
}

static bool same_network(const choosing_t *all, uint32_t a, uint32_t b)
{
    return all->candidates[a].network == all->candidates[b].network;
}

/* Leave out what is farther than another device on its network that is no slower. */
static void leave_out_farther(choosing_t *all)
{
    for (uint32_t i = 0; i < all->count; ++i) {
        for (uint32_t j = 0; j < all->count; ++j) {
            const uint32_t best = all->choices[i].better;

            if (same_network(all, i, j) && distance(all, j) < distance(all, best)
                && all->candidates[j].bandwidth >= all->candidates[i].bandwidth) {
                all->choices[i].verdict = BTL_IB_LOCALITY_FARTHER;
                all->choices[i].better = j;
            }
        }
    }
}

/* Is it one of those that the limit is for, whether it keeps to it or not? */
static bool competes(const choosing_t *all, uint32_t i)
{
    return all->choices[i].verdict != BTL_IB_LOCALITY_FARTHER;
}

static bool alike(const choosing_t *all, uint32_t a, uint32_t b)
{
    return same_network(all, a, b) && distance(all, a) == distance(all, b)
           && all->candidates[a].bandwidth == all->candidates[b].bandwidth;
}

/* The place of a device among those that are alike, where this process begins at one of its own.
 * Runtimes number processes through a socket, or by turns through all: plain numbers would give
 * all of a socket the same of two devices in the second case. */
static uint32_t turn_among_alike(const choosing_t *all, uint32_t device)
{
    const uint32_t position = all->rule->position;
    uint32_t before = 0;
    uint32_t size = 0;

    for (uint32_t i = 0; i < all->count; ++i) {
        if (alike(all, i, device)) {
            before += i < device;
            ++size;
        }
    }
    return (before + size - (position + position / size) % size) % size;
}

/* Of one network: is `a` taken before `b`? */
static bool comes_first(const choosing_t *all, uint32_t a, uint32_t b)
{
    const btl_ib_candidate_t *first = &all->candidates[a];
    const btl_ib_candidate_t *second = &all->candidates[b];

    if (distance(all, a) != distance(all, b)) {
        return distance(all, a) < distance(all, b);
    }
    if (first->bandwidth != second->bandwidth) {
        return first->bandwidth > second->bandwidth;
    }
    return turn_among_alike(all, a) < turn_among_alike(all, b);
}

/* How many of its network are taken before it. */
static uint32_t turn_of(const choosing_t *all, uint32_t device)
{
    uint32_t turn = 0;

    for (uint32_t i = 0; i < all->count; ++i) {
        turn += i != device && competes(all, i) && same_network(all, i, device)
                && comes_first(all, i, device);
    }
    return turn;
}

/* How many are taken before it: the first of each network, in the order in which networks were
 * found, then the second of each, ... */
static uint32_t place_of(const choosing_t *all, uint32_t device)
{
    const uint32_t turn = turn_of(all, device);
    uint32_t place = 0;

    for (uint32_t i = 0; i < all->count; ++i) {
        uint32_t other;

        if (i == device || !competes(all, i)) {
            continue;
        }
        other = turn_of(all, i);
        place += other < turn
                 || (other == turn && all->candidates[i].network < all->candidates[device].network);
    }
    return place;
}

/* Keep to the limit. */
static void leave_out_over_max(choosing_t *all)
{
    for (uint32_t i = 0; i < all->count; ++i) {
        if (competes(all, i) && place_of(all, i) >= all->rule->max) {
            all->choices[i].verdict = BTL_IB_LOCALITY_OVER_MAX;
        }
    }
}

/* Those that are used first, and the nearest first; else as they were. */
static void sort(choosing_t *all)
{
    for (uint32_t i = 1; i < all->count; ++i) {
        const btl_ib_locality_choice_t choice = all->choices[i];
        const bool used = choice.verdict == BTL_IB_LOCALITY_USED;
        uint32_t place = i;

        while (place > 0) {
            const btl_ib_locality_choice_t *before = &all->choices[place - 1];
            const bool before_used = before->verdict == BTL_IB_LOCALITY_USED;

            if (before_used != used
                    ? before_used
                    : distance(all, before->device) <= distance(all, choice.device)) {
                break;
            }
            all->choices[place] = *before;
            --place;
        }
        all->choices[place] = choice;
    }
}

uint32_t btl_ib_locality_choose(const btl_ib_candidate_t *candidates, uint32_t count,
                                const btl_ib_locality_rule_t *rule,
                                btl_ib_locality_choice_t *choices)
{
    choosing_t all = {candidates, rule, choices, count};
    uint32_t used = 0;

    for (uint32_t i = 0; i < count; ++i) {
        choices[i] = (btl_ib_locality_choice_t){.device = i, .better = i};
    }
    if (rule->near_only) {
        leave_out_farther(&all);
    }
    if (rule->max != 0) {
        leave_out_over_max(&all);
    }
    sort(&all);
    while (used < count && choices[used].verdict == BTL_IB_LOCALITY_USED) {
        ++used;
    }
    return used;
}
