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

/* Are the IP addresses of two rails in one subnet? Rails without any count as such. */
bool btl_ib_rails_same_subnet(const btl_ib_modex_rail_t *a, const btl_ib_modex_rail_t *b);

/*
 * Can these two rails be joined? Only rails of one transport, provider and family can; loopback
 * only with loopback and on one host; equal IP addresses only on one host (of RDMA ports: one
 * machine, as its containers share them). `same_host` is the runtime's opinion, which counts where
 * either side does not know its host.
 */
bool btl_ib_rails_fit(const btl_ib_modex_t *ours, uint32_t rail, const btl_ib_modex_t *theirs,
                      uint32_t remote_rail, bool same_host);

/*
 * Which rail of `theirs` each rail of ours talks to: choice[i] is for our rail i, -1: none. Of
 * those that fit, rails of one subnet are paired first; only if there is no such pair at all, rails
 * that would have to be routed between. No rail of theirs serves twice. Both sides come to matching
 * results.
 */
void btl_ib_rails_match(const btl_ib_modex_t *ours, const btl_ib_modex_t *theirs, bool same_host,
                        int choice[BTL_IB_RAILS_MAX]);

#endif
