/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * With what a device would be opened: its settings, its receive queues, and what the transport is
 * asked for; or why it is not to be. Opens nothing, so that ib_info can use it.
 */

#ifndef BTL_IB_DEVICE_PLAN_H
#define BTL_IB_DEVICE_PLAN_H

#include "btl_ib_params.h"
#include "btl_ib_receive_queues.h"
#include "device_filter.h"
#include "transport.h"

/* What the user wants of devices, as parameters say. */
typedef struct btl_ib_device_wishes {
    const btl_ib_params_t *params;
    uint32_t processes;               /* places of the runtime, 0: not known */
    btl_ib_queue_table_t user_queues; /* if params->queues_by_user */
    btl_ib_device_filter_t filter;
} btl_ib_device_wishes_t;

typedef struct btl_ib_device_plan {
    btl_ib_transport_attr_t attr; /* as query() tells them: some are known only once it is open */
    btl_ib_queue_table_t queues;
    btl_ib_open_params_t open; /* without `log` */
    bool clamped;              /* queues that the user wrote are larger than its datagrams */
    char why_not[192];         /* empty: it may be opened */
} btl_ib_device_plan_t;

/* Read what says which devices are wanted, and how. Returns false after a help text, which rank 0
 * of the job shows where all have it in common. */
bool btl_ib_device_wishes_read(btl_ib_device_wishes_t *wishes, const btl_ib_params_t *params,
                               uint32_t processes, uint32_t rank);

/*
 * Plan for a device that `type` listed. `sized`: it must have connections for so many processes, 0:
 * it need not. Returns whether it may be opened.
 */
bool btl_ib_device_plan(const btl_ib_device_wishes_t *wishes, const btl_ib_transport_type_t *type,
                        const btl_ib_device_t *device, uint32_t sized, btl_ib_device_plan_t *plan);

/* What a transport is asked for, to have these queues: as many buffers as they say, or each its
 * share of btl_ib_rx_depth; and what parameters say. Without `log`. */
void btl_ib_device_plan_open(const btl_ib_params_t *params, const btl_ib_queue_table_t *table,
                             btl_ib_open_params_t *open);

/* Change a plan: these queues, clamped to its datagrams. */
void btl_ib_device_plan_use(const btl_ib_params_t *params, const btl_ib_queue_table_t *queues,
                            btl_ib_device_plan_t *plan);

/* Plan for a device that is not there, with such attributes and queues, which are clamped to
 * its datagrams. */
void btl_ib_device_plan_for(const btl_ib_params_t *params, const btl_ib_transport_attr_t *attr,
                            const btl_ib_queue_table_t *queues, btl_ib_device_plan_t *plan);

#endif
