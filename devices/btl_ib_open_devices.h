/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Opens the devices of this process, and says which it found, took and turned down. */

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

/* Devices that have a rail from the beginning, at most: further places are for more devices, and
 * for other addresses, which stand by. */
#define BTL_IB_FIRST_RAILS_MAX 16

typedef struct btl_ib_near_devices {
    const btl_ib_params_t *params;
    btl_ib_rejected_devices_t *rejected; /* those that are not used are added */
    btl_ib_topology_t topology;
    bool looked; /* for the topology, once it was wanted */
} btl_ib_near_devices_t;

static inline void btl_ib_near_devices_init(btl_ib_near_devices_t *near,
                                            const btl_ib_params_t *params,
                                            btl_ib_rejected_devices_t *rejected)
{
    *near = (btl_ib_near_devices_t){.params = params, .rejected = rejected};
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
    uint32_t *left_aside; /* 0 before; counts those that there is no place for. NULL: not wanted */
} btl_ib_open_request_t;

/* A device that became a rail. Its number is its place in the list. */
typedef struct btl_ib_opened_device {
    btl_ib_device_t device;              /* without its handle */
    btl_ib_transport_t *transport;       /* the engine's */
    uint32_t bandwidth;                  /* Mbit/s */
    const btl_ib_transport_type_t *type; /* of the transport */
    btl_ib_queue_table_t queues;         /* it was opened for */
} btl_ib_opened_device_t;

/* ---- opening ---- */

/*
 * Which devices become rails: which transports and wires are tried, in what order, and with what
 * receive queues each device is opened.
 */

/*
 * Opens the devices that are wanted, and makes rails of them. Returns how many. If there is none,
 * or a parameter is wrong, help texts or the verbose output say why, and 0 is returned; rails that
 * were added before end with the engine.
 */
uint32_t btl_ib_open_devices(const btl_ib_open_request_t *request,
                             btl_ib_opened_device_t opened[BTL_IB_RAILS_MAX]);

/* ---- what is said of devices ---- */

/* True if any transport may be used. */
bool btl_ib_any_transport(const btl_ib_params_t *params);

/* Writes the names of the transports that were built: "udp, verbs/ud, verbs/rc". */
void btl_ib_transports_text(char *out, size_t size);

/* Writes which library the transport of that number uses, "libfabric: built with ...", which `load`
 * loads first. Returns false if it uses none, or the library of the one before. */
bool btl_ib_library_text(size_t number, bool load, char *out, size_t size);

#endif
