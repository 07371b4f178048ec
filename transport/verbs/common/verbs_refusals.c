/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_refusals.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

/* What drivers of Linux call them: mlx5, mlx4, bnxt_re, soft-RoCE. */
static const char *const refused_here[] = {
    "out_of_buffer", "rq_num_rnr", "rx_out_of_buffer", "send_rnr_err",
};
static const char *const refused_there[] = {
    "rnr_nak_retry_err", "sq_num_rnr", "rnr_naks_rcvd", "rcvd_rnr_err",
};

enum { NAMES = sizeof(refused_here) / sizeof(refused_here[0]) };

static bool read_count(const btl_ib_verbs_t *verbs, const char *name, uint64_t *count)
{
    char path[sizeof(verbs->context->device->ibdev_path) + 64];

    snprintf(path, sizeof(path), "%s/ports/%u/hw_counters/%s", verbs->context->device->ibdev_path,
             verbs->port, name);
    FILE *file = fopen(path, "re");
    const bool there = file != NULL && fscanf(file, "%" SCNu64, count) == 1;
    if (file != NULL) {
        (void) fclose(file);
    }
    return there;
}

/* The first of the names that the port has: no driver has two. */
btl_ib_verbs_refusals_t btl_ib_verbs_refusals_read(const btl_ib_verbs_t *verbs)
{
    btl_ib_verbs_refusals_t counts = {.known = false};

    for (int i = 0; i < NAMES && !counts.known; i++) {
        counts.known = read_count(verbs, refused_here[i], &counts.here)
                       && read_count(verbs, refused_there[i], &counts.there);
    }
    return counts;
}

void btl_ib_verbs_refusals_tell(const btl_ib_verbs_t *verbs)
{
    if (!verbs->refusals.known) {
        return;
    }
    const btl_ib_verbs_refusals_t now = btl_ib_verbs_refusals_read(verbs);
    const uint64_t here = now.here - verbs->refusals.here;
    const uint64_t there = now.there - verbs->refusals.there;
    if (now.known) {
        const char *help =
            here > 0 ? ": more buffers (num in btl_ib_receive_queues) would help" : "";
        BTL_IB_VERBS_LOG(verbs, here + there > 0 ? 1 : 10,
                         "%s: its port refused %" PRIu64 " messages for want of a receive buffer, "
                         "and %" PRIu64 " that it sent were, of all processes%s",
                         verbs->base.name, here, there, help);
    }
}
