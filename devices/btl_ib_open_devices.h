/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Opens the devices of this process, and reports which it found, used and turned down. */

#ifndef BTL_IB_OPEN_DEVICES_H
#define BTL_IB_OPEN_DEVICES_H

#include "btl_ib_engine.h"
#include "btl_ib_help.h"
#include "btl_ib_params.h"
#include "btl_ib_receive_queues.h"
#include "btl_ib_locality.h"
#include "device_filter.h"
#include "transport.h"

/* ---- near devices ---- */

/* At most this many devices have a rail that is used from the beginning. Further rails stand by:
 * other addresses of these devices, or devices beyond them. */
#define BTL_IB_FIRST_RAILS_MAX 16

typedef struct btl_ib_near_devices {
    const btl_ib_params_t *params;
    btl_ib_turned_down_devices_t *turned_down; /* gets devices that are not used */
    btl_ib_topology_t topology;
    bool looked; /* the topology was opened, which is done when it is first needed */
} btl_ib_near_devices_t;

static inline void btl_ib_near_devices_init(btl_ib_near_devices_t *near,
                                            const btl_ib_params_t *params,
                                            btl_ib_turned_down_devices_t *turned_down)
{
    *near = (btl_ib_near_devices_t){.params = params, .turned_down = turned_down};
}

static inline void btl_ib_near_devices_fini(btl_ib_near_devices_t *near)
{
    btl_ib_topology_close(&near->topology);
}

/* Returns the NUMA node of a device; -1: unknown, or near to several. */
int btl_ib_near_devices_node(btl_ib_near_devices_t *near, const btl_ib_device_t *device);

/* ---- the request ---- */

/* A request to open devices. */
typedef struct btl_ib_open_request {
    const btl_ib_params_t *params;
    uint32_t bandwidth; /* Mbit/s of each device; 0: what the device says */
    bool named;         /* ib is named in the selection of BTLs */
    uint32_t rank;      /* ours: rank 0 reports what all processes of the job have in common */
    uint32_t processes; /* slots of the runtime; 0: it does not say */
    uint32_t peers;     /* other processes of the job; 0: none, or the runtime does not say */
    const struct btl_ib_process_sizes *sizes;
    uint64_t memory_max; /* bytes of this process that devices may take together; 0: no limit */
    btl_ib_engine_t *engine;
    btl_ib_log_state_t *log;
    btl_ib_turned_down_devices_t *turned_down; /* gets devices that are turned down */
    uint32_t *left_aside; /* counts, from 0, devices for which no rail was left; or NULL */
} btl_ib_open_request_t;

/* A device that became a rail. Its index in the array is the number of the rail. */
typedef struct btl_ib_opened_device {
    btl_ib_device_t device;              /* its `handle` is not valid */
    btl_ib_transport_t *transport;       /* owned by the engine */
    uint32_t bandwidth;                  /* Mbit/s */
    const btl_ib_transport_type_t *type; /* of the transport */
    btl_ib_queue_table_t queues;         /* with which it was opened */
} btl_ib_opened_device_t;

/* ---- opening ---- */

/*
 * Opens the devices that the user wants, and adds them to the engine as rails. Returns how many; 0
 * if there is none, or a parameter is wrong, after help texts or verbose output said why. Rails
 * that were added until then end with the engine.
 */
uint32_t btl_ib_open_devices(const btl_ib_open_request_t *request,
                             btl_ib_opened_device_t opened[BTL_IB_RAILS_MAX]);

/* ---- texts about transports ---- */

/* True if any transport may be used. */
bool btl_ib_any_transport(const btl_ib_params_t *params);

/* Writes the names of the transports that were built: "udp, verbs/ud, verbs/rc". */
void btl_ib_transports_text(char *out, size_t size);

/* Writes which library transport `number` (of btl_ib_transport_types) uses, "libfabric: built with
 * ..."; loads it first if `load`. Returns false if the transport uses none, or the same as the
 * transport before it. */
bool btl_ib_library_text(size_t number, bool load, char *out, size_t size);

#endif
