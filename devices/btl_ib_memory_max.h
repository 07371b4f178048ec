/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The memory that devices take, and what is done if that is more than btl_ib_memory_max. */

#ifndef BTL_IB_MEMORY_MAX_H
#define BTL_IB_MEMORY_MAX_H

#include "btl_ib_device_plan.h"
#include "footprint.h"

/* ---- what devices take ---- */

/* What memory a device takes, opened as planned: the transport, the engine and the component's free
 * lists. Both btl_ib_memory_report and ib_info tell what this computes. */

/* Descriptors of each size of fragments, of operations and of registrations: so many at first, and
 * each time none is left. */
#define BTL_IB_FRAGS_AT_ONCE 32

/* What is alike for all devices of a process. */
typedef struct btl_ib_process_sizes {
    const btl_ib_params_t *params;
    const mca_btl_base_module_t *limits;
    size_t fragment; /* bytes of a fragment without data, its room for headers included */
} btl_ib_process_sizes_t;

/* Add it, with so many peers. With several devices the engine's own part counts only once, as a
 * little too much. */
void btl_ib_device_footprint(const btl_ib_process_sizes_t *sizes,
                             const btl_ib_transport_type_t *type, const btl_ib_device_plan_t *plan,
                             uint32_t peers, btl_ib_footprint_t *footprint);

/* Print it for a device that was opened: each part now, with `peers`, and at most. */
void btl_ib_device_footprint_report(const btl_ib_process_sizes_t *sizes,
                                    const btl_ib_transport_type_t *type, const char *name,
                                    const btl_ib_device_plan_t *plan, uint32_t peers);

/* ---- limit ---- */

/*
 * Receive queues for a limit on memory (btl_ib_memory_max, ib_info --budget). Queues of each peer
 * grow with the job, shared ones do not: where the first would take too much the others take over.
 */

/* What was found. */
typedef struct btl_ib_memory_max_info {
    uint64_t wanted;  /* bytes of this process with the queues that were planned; 0: none were */
    uint64_t taken;   /* with those that are chosen; more than the limit: none fit */
    const char *spec; /* those, as text; NULL: made of those that were planned */
} btl_ib_memory_max_info_t;

/*
 * Choose queues with which a device takes at most `bytes` of this process in a job with so many
 * peers, once shared queues are as large as they may grow. The first that fit are taken, of: those
 * planned, if there are any; the same, all but the smallest shared; those of the transport; a few
 * with ever fewer buffers. If none fit those that take least are. Changes plan->queues and
 * plan->open.
 */
btl_ib_memory_max_info_t btl_ib_memory_max_fit(const btl_ib_process_sizes_t *sizes,
                                               const btl_ib_transport_type_t *type, uint32_t peers,
                                               uint64_t bytes, btl_ib_device_plan_t *plan);

/* The same for a device about to be opened; where it changes anything or nothing fits that is told
 * of `name` (NULL: it was told of another rail of the device). */
void btl_ib_memory_max_apply(const btl_ib_process_sizes_t *sizes,
                             const btl_ib_transport_type_t *type, const char *name, uint32_t peers,
                             uint64_t bytes, btl_ib_device_plan_t *plan);

#endif
