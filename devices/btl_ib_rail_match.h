/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which rails of two processes talk to each other. No OPAL in here, so that it can be tested by
 * itself.
 */

#ifndef BTL_IB_RAIL_MATCH_H
#define BTL_IB_RAIL_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_modex_codec.h"

/*
 * True if these two rails can be joined. Only rails of one transport, provider and family can;
 * loopback only with loopback and on one host; equal IP addresses only on one host (of RDMA ports:
 * one machine, as its containers share them). Where either side does not know its host both may be
 * on one.
 */
bool btl_ib_rails_fit(const btl_ib_modex_t *ours, uint32_t rail, const btl_ib_modex_t *theirs,
                      uint32_t remote_rail);

/*
 * Chooses which rail of `theirs` each rail of ours talks to: choice[i] is for our rail i, -1: none.
 * Of those that fit, and do not stand by, rails of one subnet are paired first. Only if there is no
 * such pair at all: one of other addresses in one subnet; then rails that would have to be routed
 * between, those whose addresses have most in common first, which are most likely parts of one
 * network (RFC 6724, 5, rule 9); then one pair of any. No rail of theirs serves twice. Both sides
 * come to matching results. `same_host` is the runtime's opinion, which counts where either side
 * does not know its host.
 */
void btl_ib_rails_match(const btl_ib_modex_t *ours, const btl_ib_modex_t *theirs, bool same_host,
                        int choice[BTL_IB_RAILS_MAX]);

/* A rail of ours and one of a peer's. */
typedef struct btl_ib_rail_pair {
    uint32_t ours;
    uint32_t theirs;
} btl_ib_rail_pair_t;

/* Lists all pairs that can be joined, on whatever host the peer is, the most promising `max` of
 * them first. Returns how many. */
uint32_t btl_ib_rails_rank(const btl_ib_modex_t *ours, const btl_ib_modex_t *theirs,
                           btl_ib_rail_pair_t *pairs, uint32_t max);

#endif
