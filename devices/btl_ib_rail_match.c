/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rail_match.h"

#include "net_interfaces.h"

#include <string.h>

/* True if the IP addresses of two rails are in one subnet, or neither rail has an address. */
static bool same_subnet(const btl_ib_modex_rail_t *a, const btl_ib_modex_rail_t *b)
{
    const unsigned bits = a->prefix_bits < b->prefix_bits ? a->prefix_bits : b->prefix_bits;

    return a->family == b->family && btl_ib_ip_same_bits(a->ip, b->ip, bits);
}

/* Things that two processes have in common. */
typedef struct shared {
    bool machine;
    bool network; /* namespace */
} shared_t;

static shared_t what_is_shared(const btl_ib_modex_t *ours, const btl_ib_modex_t *theirs,
                               bool same_host)
{
    const btl_ib_host_t *a = &ours->where;
    const btl_ib_host_t *b = &theirs->where;

    return (shared_t){
        .machine = a->machine != 0 && b->machine != 0 ? a->machine == b->machine : same_host,
        .network = a->network != 0 && b->network != 0 ? a->network == b->network : same_host,
    };
}

/* True if one rail reaches the other, as far as addresses tell. Equal addresses on different hosts
 * belong to networks within each host: what is sent there reaches the sender's own host. An
 * InfiniBand port's address is unique in the world, and the same in all containers of its
 * machine. */
static bool reaches_peer(const btl_ib_modex_rail_t *a, const btl_ib_modex_rail_t *b,
                         const shared_t *shared)
{
    if (shared->network) {
        return true;
    }
    if (a->loopback) {
        return false;
    }
    return a->family == 0 || memcmp(a->ip, b->ip, a->family == 4 ? 4 : sizeof(a->ip)) != 0
           || (shared->machine && strcmp(a->transport, "verbs") == 0);
}

/* True for a link-local address of IPv6, which only link-local addresses can reach. */
static bool is_link_local(const btl_ib_modex_rail_t *rail)
{
    return rail->family == 6 && rail->ip[0] == 0xfe && (rail->ip[1] & 0xc0) == 0x80;
}

static bool are_compatible(const btl_ib_modex_rail_t *a, const btl_ib_modex_rail_t *b,
                           const shared_t *shared)
{
    return strcmp(a->transport, b->transport) == 0 && strcmp(a->provider, b->provider) == 0
           && a->family == b->family && a->loopback == b->loopback
           && is_link_local(a) == is_link_local(b) && reaches_peer(a, b, shared);
}

bool btl_ib_rails_fit(const btl_ib_modex_t *ours, uint32_t rail, const btl_ib_modex_t *theirs,
                      uint32_t remote_rail)
{
    const shared_t shared = what_is_shared(ours, theirs, true);

    return are_compatible(&ours->rails[rail], &theirs->rails[remote_rail], &shared);
}

/* ---- how promising ---- */

/* Returns how many bits the addresses begin with in common. */
static unsigned common_bits(const btl_ib_modex_rail_t *a, const btl_ib_modex_rail_t *b)
{
    const unsigned bytes = a->family == 4 ? 4 : a->family == 6 ? 16 : 0;
    unsigned bits = 0;

    while (bits < 8 * bytes && ((a->ip[bits / 8] ^ b->ip[bits / 8]) & 0x80 >> bits % 8) == 0) {
        ++bits;
    }
    return bits;
}

typedef struct pair {
    const btl_ib_modex_rail_t *ours;
    const btl_ib_modex_rail_t *theirs;
} pair_t;

/* True if a pair that has to be routed is more promising than another. `ours_first` is true on one
 * of the two sides only, so that both find the same. */
static bool is_better(const pair_t *a, const pair_t *b, bool ours_first)
{
    const unsigned ranks = (unsigned) a->ours->rank + a->theirs->rank;
    const unsigned other = (unsigned) b->ours->rank + b->theirs->rank;
    const unsigned bits = common_bits(a->ours, a->theirs);
    const unsigned other_bits = common_bits(b->ours, b->theirs);
    const size_t size = sizeof(a->ours->ip);
    /* by the addresses of the one of the two hosts, then of the other */
    const int ours = memcmp(a->ours->ip, b->ours->ip, size);
    const int theirs = memcmp(a->theirs->ip, b->theirs->ip, size);

    if (ranks != other) {
        return ranks < other;
    }
    if (bits != other_bits) {
        return bits > other_bits;
    }
    return (ours_first ? ours != 0 : theirs == 0) ? ours < 0 : theirs < 0;
}

/* ---- matching ---- */

/* A pass over the rails, and which pairs it joins. */
typedef struct pass {
    uint8_t rank;     /* joins rails with at most this btl_ib_rank_t */
    bool same_subnet; /* joins rails of one subnet only */
    bool in_order;    /* in the order of the rails; else the most promising pair first */
    bool single;      /* joins one pair at most: others may be addresses of the same interface */
} pass_t;

static const pass_t passes[] = {
    {.rank = BTL_IB_RANK_FIRST, .same_subnet = true, .in_order = true},
    {.rank = BTL_IB_RANK_ADDRESS, .same_subnet = true, .single = true},
    {.rank = BTL_IB_RANK_FIRST},
    {.rank = BTL_IB_RANK_LAST, .single = true},
};

typedef struct matching {
    const btl_ib_modex_t *ours;
    const btl_ib_modex_t *theirs;
    shared_t shared;
    int *choice;
    bool taken[BTL_IB_RAILS_MAX];
} matching_t;

static bool may_join(const matching_t *m, const pass_t *pass, uint32_t i, uint32_t j)
{
    const btl_ib_modex_rail_t *a = &m->ours->rails[i];
    const btl_ib_modex_rail_t *b = &m->theirs->rails[j];

    return m->choice[i] < 0 && !m->taken[j] && a->rank <= pass->rank && b->rank <= pass->rank
           && are_compatible(a, b, &m->shared) && (!pass->same_subnet || same_subnet(a, b));
}

/* Joins the next pair of a pass. Returns whether there was one. */
static bool join_one(matching_t *m, const pass_t *pass)
{
    const bool ours_first = m->ours->secret.k[0] < m->theirs->secret.k[0]; /* they differ */
    btl_ib_rail_pair_t best = {0};
    pair_t of_best = {0};

    for (uint32_t i = 0; i < m->ours->rail_count; ++i) {
        for (uint32_t j = 0; j < m->theirs->rail_count; ++j) {
            const pair_t pair = {&m->ours->rails[i], &m->theirs->rails[j]};

            if (may_join(m, pass, i, j)
                && (of_best.ours == NULL
                    || (!pass->in_order && is_better(&pair, &of_best, ours_first)))) {
                best = (btl_ib_rail_pair_t){i, j};
                of_best = pair;
            }
        }
    }
    if (of_best.ours == NULL) {
        return false;
    }
    m->choice[best.ours] = (int) best.theirs;
    m->taken[best.theirs] = true;
    return true;
}

void btl_ib_rails_match(const btl_ib_modex_t *ours, const btl_ib_modex_t *theirs, bool same_host,
                        int choice[BTL_IB_RAILS_MAX])
{
    matching_t m = {
        .ours = ours,
        .theirs = theirs,
        .shared = what_is_shared(ours, theirs, same_host),
        .choice = choice,
    };
    bool found = false;

    for (uint32_t i = 0; i < BTL_IB_RAILS_MAX; ++i) {
        choice[i] = -1;
    }
    for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]) && !found; ++i) {
        while (join_one(&m, &passes[i])) {
            found = true;
            if (passes[i].single) {
                break;
            }
        }
    }
}

/* ---- all that could be ---- */

/* Inserts a pair into a sorted list of at most `max`. */
static uint32_t insert_pair(const btl_ib_modex_t *ours, const btl_ib_modex_t *theirs,
                            btl_ib_rail_pair_t *pairs, uint32_t count, uint32_t max,
                            btl_ib_rail_pair_t new)
{
    const pair_t pair = {&ours->rails[new.ours], &theirs->rails[new.theirs]};
    const bool near = same_subnet(pair.ours, pair.theirs);
    uint32_t place = 0;

    for (; place < count; ++place) {
        const pair_t other = {&ours->rails[pairs[place].ours], &theirs->rails[pairs[place].theirs]};
        const bool other_near = same_subnet(other.ours, other.theirs);

        if (near != other_near ? near : is_better(&pair, &other, true)) {
            break;
        }
    }
    if (place == max) {
        return count;
    }
    count += count < max;
    memmove(&pairs[place + 1], &pairs[place], (count - 1 - place) * sizeof(*pairs));
    pairs[place] = new;
    return count;
}

uint32_t btl_ib_rails_rank(const btl_ib_modex_t *ours, const btl_ib_modex_t *theirs,
                           btl_ib_rail_pair_t *pairs, uint32_t max)
{
    const shared_t shared = what_is_shared(ours, theirs, true);
    uint32_t count = 0;

    for (uint32_t i = 0; i < ours->rail_count; ++i) {
        for (uint32_t j = 0; j < theirs->rail_count; ++j) {
            if (are_compatible(&ours->rails[i], &theirs->rails[j], &shared)
                && ours->rails[i].atomics == theirs->rails[j].atomics) {
                count = insert_pair(ours, theirs, pairs, count, max, (btl_ib_rail_pair_t){i, j});
            }
        }
    }
    return count;
}
