/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Chooses which rails of two processes talk to each other. No OPAL in here, so that it can be
 * tested
 * by itself.
 */

#ifndef BTL_IB_RAIL_MATCH_H
#define BTL_IB_RAIL_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_modex_codec.h"

/*
 * True if these two rails can be joined. Only rails of one transport, provider and address family
 * can; loopback only with loopback, on one host; equal IP addresses only on one host (for RDMA
 * ports: one machine, as its containers share them). If either side does not know its host, they
 * may
 * be on one.
 */
bool btl_ib_rails_fit(const btl_ib_modex_t *ours, uint32_t rail, const btl_ib_modex_t *theirs,
                      uint32_t remote_rail);

/*
 * Chooses which rail of `theirs` each rail of ours talks to: choice[i] is for our rail i; -1: none.
 * Pairs rails that fit, do not stand by, and are in one subnet. If there is no such pair, takes the
 * first that exists of: one pair of other addresses in one subnet; pairs between which there has to
 * be a router, first those whose addresses have the longest prefix in common, as these most likely
 * are parts of one network (RFC 6724, 5, rule 9); one pair of any. No rail of theirs is used twice.
 * Both sides get matching results. `same_host` is what the runtime says; it is used if either side
 * does not know its host.
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
