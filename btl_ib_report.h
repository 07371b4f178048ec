/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What a user is told of peers that cannot be reached any more, or never could: both ends by rank, host, device, address and
 * port, what is known, and what to look at for this reason.
 */

#ifndef BTL_IB_REPORT_H
#define BTL_IB_REPORT_H

#include "btl_ib_engine.h"

struct mca_btl_base_endpoint_t;

/* Peers' hosts of which it was told that they do not answer, at most; the others are counted. */
#define BTL_IB_REPORT_HOSTS 10u

typedef struct btl_ib_reported {
    char host[BTL_IB_REPORT_HOSTS][64];
    uint32_t count; /* of them */
    uint32_t more;  /* peers of other hosts that were not told */
} btl_ib_reported_t;

/* A connection is dead: say so, once for each peer. Called with the lock held. */
void btl_ib_report_lost(const struct mca_btl_base_endpoint_t *endpoint, btl_ib_death_t reason);

/* Nothing has shown that what we send to that peer gets there; `heard`: what it sends gets here. Said once for
 * each host. Called with the lock held. */
void btl_ib_report_unanswered(const struct mca_btl_base_endpoint_t *endpoint, bool heard);

/* The end: of how many further hosts nothing was said. */
void btl_ib_report_rest(void);

#endif
