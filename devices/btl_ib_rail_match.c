/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rail_match.h"

#include <string.h>

bool btl_ib_rails_same_subnet(const btl_ib_modex_rail_t *a, const btl_ib_modex_rail_t *b)
{
    const unsigned bits = a->prefix_bits < b->prefix_bits ? a->prefix_bits : b->prefix_bits;
    const unsigned whole = bits / 8;
    const unsigned rest = bits % 8;

    return a->family == b->family && 0 == memcmp(a->ip, b->ip, whole)
           && (0 == rest || 0 == (a->ip[whole] ^ b->ip[whole]) >> (8 - rest));
}

/* What two processes share. */
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
        .machine = 0 != a->machine && 0 != b->machine ? a->machine == b->machine : same_host,
        .network = 0 != a->network && 0 != b->network ? a->network == b->network : same_host,
    };
}

/* Equal addresses on different hosts are those of networks within each: what is sent there reaches
 * the sender's own host. An InfiniBand port has one name in the world, and in all containers of its
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
    return 0 == a->family || 0 != memcmp(a->ip, b->ip, 4 == a->family ? 4 : sizeof(a->ip))
           || (shared->machine && 0 == strcmp(a->transport, "verbs"));
}

static bool compatible(const btl_ib_modex_rail_t *a, const btl_ib_modex_rail_t *b,
                       const shared_t *shared)
{
    return 0 == strcmp(a->transport, b->transport) && 0 == strcmp(a->provider, b->provider)
           && a->family == b->family && a->loopback == b->loopback && reaches_peer(a, b, shared);
}

bool btl_ib_rails_fit(const btl_ib_modex_t *ours, uint32_t rail, const btl_ib_modex_t *theirs,
                      uint32_t remote_rail, bool same_host)
{
    const shared_t shared = what_is_shared(ours, theirs, same_host);

    return compatible(&ours->rails[rail], &theirs->rails[remote_rail], &shared);
}

void btl_ib_rails_match(const btl_ib_modex_t *ours, const btl_ib_modex_t *theirs, bool same_host,
                        int choice[BTL_IB_RAILS_MAX])
{
    const shared_t shared = what_is_shared(ours, theirs, same_host);
    bool taken[BTL_IB_RAILS_MAX] = {false};
    bool found = false;

    for (uint32_t i = 0; i < BTL_IB_RAILS_MAX; ++i) {
        choice[i] = -1;
    }
    for (int pass = 0; pass < 2 && !found; ++pass) {
        for (uint32_t i = 0; i < ours->rail_count; ++i) {
            for (uint32_t j = 0; j < theirs->rail_count && choice[i] < 0; ++j) {
                if (!taken[j] && compatible(&ours->rails[i], &theirs->rails[j], &shared)
                    && (1 == pass
                        || btl_ib_rails_same_subnet(&ours->rails[i], &theirs->rails[j]))) {
                    choice[i] = (int) j;
                    taken[j] = true;
                    found = true;
                }
            }
        }
    }
}
