/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Chooses which rails of two processes talk to each other. No OPAL in here, so that it can be
 * tested by itself. */

#ifndef BTL_IB_RAIL_MATCH_H
#define BTL_IB_RAIL_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_modex_codec.h"

/*
 * True if two rails can be joined. They must have the same transport, provider and address family.
 * Loopback fits loopback only, on one host. Equal IP addresses fit on one host only (for RDMA
 * ports: on one machine, as its containers share them). If either side does not know its host, both
 * may be on the same.
 */
bool btl_ib_rails_fit(const btl_ib_modex_t *ours, uint32_t rail, const btl_ib_modex_t *theirs,
                      uint32_t remote_rail);

/*
 * Chooses which rail of `theirs` each rail of ours talks to: choice[i] is for our rail i; -1: none.
 * Pairs rails that fit (btl_ib_rails_fit()), in the first of these ways that gives a pair:
 *
 *      1. rails that do not stand by, in one subnet
 *      2. one pair of rails that stand by because they are other addresses, in one subnet
 *      3. rails that do not stand by, though there has to be a router between them; the longest
 *         common prefix first, as such addresses most likely are in one network (RFC 6724, 5,
 *         rule 9)
 *      4. one pair of any rails
 *
 * No rail of theirs is used twice. Both sides get matching results. `same_host` is what the runtime
 * says; it counts if either side does not know its host.
 */
void btl_ib_rails_match(const btl_ib_modex_t *ours, const btl_ib_modex_t *theirs, bool same_host,
                        int choice[BTL_IB_RAILS_MAX]);

/* A rail of ours and one of a peer. */
typedef struct btl_ib_rail_pair {
    uint32_t ours;
    uint32_t theirs;
} btl_ib_rail_pair_t;

/* Lists the pairs that can be joined, at most `max`, the most promising ones first; the peer's host
 * does not matter. Returns how many. */
uint32_t btl_ib_rails_rank(const btl_ib_modex_t *ours, const btl_ib_modex_t *theirs,
                           btl_ib_rail_pair_t *pairs, uint32_t max);

#endif
