/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What opening devices is asked for, and what it returns. */

#ifndef BTL_IB_OPEN_REQUEST_H
#define BTL_IB_OPEN_REQUEST_H

#include "btl_ib_engine.h"
#include "btl_ib_help.h"
#include "btl_ib_params.h"
#include "btl_ib_queues.h"
#include "transport.h"

/* What is wanted, and what it takes. */
typedef struct btl_ib_open_request {
    const btl_ib_params_t *params;
    uint32_t bandwidth; /* Mbit/s of each device, 0: what it says */
    bool named;         /* ib is named in the selection of BTLs */
    uint32_t rank;      /* ours: rank 0 tells what all processes of the job have in common */
    uint32_t processes; /* the runtime has places for, 0: it does not say */
    uint32_t peers;     /* the other processes of the job, as far as the runtime says */
    const struct btl_ib_process_sizes *sizes;
    uint64_t memory_max; /* bytes of this process that devices may take together; 0: no limit */
    btl_ib_engine_t *engine;
    btl_ib_log_state_t *log;
    btl_ib_rejected_devices_t *rejected; /* devices that are turned down are put here */
} btl_ib_open_request_t;

/* A device that became a rail. Its number is its place in the list. */
typedef struct btl_ib_opened_device {
    btl_ib_device_t device;              /* without its handle */
    btl_ib_transport_t *transport;       /* the engine's */
    uint32_t bandwidth;                  /* Mbit/s */
    const btl_ib_transport_type_t *type; /* of the transport */
    btl_ib_queue_table_t queues;         /* it was opened for */
} btl_ib_opened_device_t;

#endif
