/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Plans how a device is opened: its wire, settings, receive queues and the parameters for the
 * transport; or why it is not to be opened. Opens nothing, so that ib_info can use it.
 */

#ifndef BTL_IB_DEVICE_PLAN_H
#define BTL_IB_DEVICE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_known_faults.h"
#include "btl_ib_params.h"
#include "btl_ib_receive_queues.h"
#include "device_filter.h"
#include "net_interfaces.h"
#include "transport.h"

/* ---- wire ---- */

/*
 * The wire of a transport that has two (btl_ib_wire) is chosen here: rc, whose connections take
 * queue pairs and memory for each peer, or ud; and whether peers share receive queues over rc.
 *
 * Processes that talk to each other must choose alike, and each chooses before it knows of any
 * other. So the choice depends only on what all have in common: parameters, the number of slots of
 * the runtime, and the kind of device; not on how many processes a host runs.
 */

#define BTL_IB_WIRE_TRIES 3

/* One search for devices. */
typedef struct btl_ib_wire_try {
    const char *wire; /* "rc" or "ud" */
    bool sized;       /* only devices that have connections for all processes */
} btl_ib_wire_try_t;

/*
 * Plans the searches, which are made one after the other until one finds a device. `wire` is the
 * value of btl_ib_wire: "auto", "ud" or "rc". `processes`: slots of the runtime; 0: not known.
 * `rc_max_peers`: with more processes auto means ud. Returns how many of `tries` are set, at least
 * 1.
 */
int btl_ib_wire_plan(const char *wire, uint32_t processes, uint32_t rc_max_peers,
                     btl_ib_wire_try_t tries[BTL_IB_WIRE_TRIES]);

/*
 * True if `connections_max` connections of a device (0: it uses none) are enough for this many
 * processes, queues, and rails of each port. In the worst case all processes are on one host, and
 * each connects to each, itself included, on each rail: once for each queue, and once for
 * operations on memory.
 */
static inline bool btl_ib_wire_suffices(uint32_t connections_max, uint32_t processes,
                                        uint32_t queues, uint32_t rails)
{
    const uint64_t pairs = (uint64_t) processes * processes;

    return connections_max == 0 || pairs <= connections_max / (((uint64_t) queues + 1) * rails);
}

/* True if the default queues are those that all peers share: from `srq_min_peers` processes on; 0:
 * never. */
static inline bool btl_ib_wire_shares(uint32_t processes, uint32_t srq_min_peers)
{
    return srq_min_peers != 0 && processes >= srq_min_peers;
}

/* ---- receive buffers ---- */

/* Sets in *open how many buffers each queue gets: as many as the table says; or, if `rx_depth` is
 * not 0, its share of that. For devices with one pool for all peers, it also sets how many buffers
 * each peer adds to a queue of type P: as many as a new peer may send, `credit_init` (0: the least
 * that the engine grants), but at most the queue's num. */
void btl_ib_want_buffers(const btl_ib_queue_table_t *table, uint32_t rx_depth, uint32_t credit_init,
                         btl_ib_open_params_t *open);

/* Writes, as "queue 2: init, limit; queue 3: ...", which numbers of the user's `spec` have no
 * effect over this transport with these parameters. `spec` is valid, and `table` is what it means.
 * Returns how many there are. */
uint32_t btl_ib_queues_without_effect(const char *spec, const btl_ib_queue_table_t *table,
                                      const btl_ib_transport_type_t *type,
                                      const btl_ib_params_t *params, char *out, size_t len);

/* What the user wants of devices, and what else a plan depends on. */
typedef struct btl_ib_device_wishes {
    const btl_ib_params_t *params;
    uint32_t processes;               /* slots of the runtime; 0: not known */
    btl_ib_kernel_t kernel;           /* of this host; some kernels' faults are avoided */
    btl_ib_queue_table_t user_queues; /* if params->queues_by_user */
    btl_ib_device_filter_t filter;
} btl_ib_device_wishes_t;

typedef struct btl_ib_device_plan {
    btl_ib_transport_attr_t attr; /* of query(): some are known only once the device is open */
    btl_ib_queue_table_t queues;
    btl_ib_open_params_t open; /* without `log` */
    bool clamped;              /* queues that the user wrote exceeded the largest datagram */
    char why_not[192];         /* why it may not be opened; "": it may */
} btl_ib_device_plan_t;

/* Fills in *wishes from the parameters. Returns false after a help text, which is shown by rank 0
 * alone if all processes have the problem in common. */
bool btl_ib_device_wishes_read(btl_ib_device_wishes_t *wishes, const btl_ib_params_t *params,
                               uint32_t processes, uint32_t rank);

/*
 * Plans for a device that `type` listed. `sized`: the device must have connections for this many
 * processes; 0: any number will do. Returns whether it may be opened.
 */
bool btl_ib_device_plan(const btl_ib_device_wishes_t *wishes, const btl_ib_transport_type_t *type,
                        const btl_ib_device_t *device, uint32_t sized, btl_ib_device_plan_t *plan);

/* Changes a plan so that known faults of the kernel do no harm. Called last, just before the device
 * is opened. */
void btl_ib_device_plan_avoid_faults(const btl_ib_device_wishes_t *wishes,
                                     const btl_ib_transport_type_t *type,
                                     btl_ib_device_plan_t *plan);

/* Fills in *query, with which the table of known faults is asked about a device. *query points into
 * the other arguments, which must live as long. */
void btl_ib_device_fault_query(const btl_ib_device_wishes_t *wishes, const btl_ib_device_t *device,
                               const btl_ib_facts_t *facts, btl_ib_fault_query_t *query);

/* Fills in *open, except `log`, for these queues and parameters (buffers:
 * btl_ib_want_buffers()). */
void btl_ib_device_plan_open(const btl_ib_params_t *params, const btl_ib_queue_table_t *table,
                             btl_ib_open_params_t *open);

/* Clamps the queues of a plan to its largest datagram, and applies btl_ib_am_credits_slack. Returns
 * how many queues were too large. */
static inline uint32_t btl_ib_device_plan_fit(const btl_ib_params_t *params,
                                              btl_ib_device_plan_t *plan)
{
    const uint32_t clamped = btl_ib_queues_clamp(&plan->queues, plan->attr.max_datagram);

    if (params->am_credits_slack >= 0) {
        btl_ib_queues_set_slack(&plan->queues, (uint32_t) params->am_credits_slack);
    }
    return clamped;
}

/* Gives a plan other queues, which are fitted to it. open.rc.busy stays. */
static inline void btl_ib_device_plan_use(const btl_ib_params_t *params,
                                          const btl_ib_queue_table_t *queues,
                                          btl_ib_device_plan_t *plan)
{
    const uint32_t busy = plan->open.rc.busy;

    plan->queues = *queues;
    (void) btl_ib_device_plan_fit(params, plan);
    btl_ib_device_plan_open(params, &plan->queues, &plan->open);
    plan->open.rc.busy = busy;
}

/* Plans for a device that is not there, with these attributes and queues, which are fitted to it. A
 * process talks to at most `busy` peers at a time (0: to all). */
static inline void btl_ib_device_plan_for(const btl_ib_params_t *params,
                                          const btl_ib_transport_attr_t *attr,
                                          const btl_ib_queue_table_t *queues, uint32_t busy,
                                          btl_ib_device_plan_t *plan)
{
    *plan = (btl_ib_device_plan_t){.attr = *attr, .open.rc.busy = busy};
    btl_ib_device_plan_use(params, queues, plan);
}

/* ---- what devices take ---- */

/* The memory of a device that is opened as planned: of the transport, the engine and the
 * component's free lists. btl_ib_memory_report and ib_info print it. */

/* What is the same for all devices of a process. */
typedef struct btl_ib_process_sizes {
    const btl_ib_params_t *params;
    const mca_btl_base_module_t *limits;
    size_t fragment; /* bytes of a fragment without data, its room for headers included */
} btl_ib_process_sizes_t;

/* Adds a device's memory with this many peers. The engine's own part is included each time, so that
 * a sum over several devices is a little too large. */
void btl_ib_device_memory_estimate(const btl_ib_process_sizes_t *sizes,
                                   const btl_ib_transport_type_t *type,
                                   const btl_ib_device_plan_t *plan, uint32_t peers,
                                   btl_ib_memory_estimate_t *estimate);

/* ---- limit ---- */

/*
 * Finds receive queues for a limit on memory (btl_ib_memory_max, ib_info --budget). Queues for each
 * peer grow with the job, shared ones do not: so these are chosen where the former would take too
 * much.
 */

/* The result of btl_ib_memory_max_fit(). */
typedef struct btl_ib_memory_max_info {
    uint64_t wanted;  /* bytes of this process with the planned queues; 0: none were planned */
    uint64_t taken;   /* bytes with the chosen queues; more than the limit: no queues fit */
    const char *spec; /* the chosen queues as text; NULL: they were made of the planned ones */
} btl_ib_memory_max_info_t;

/*
 * Chooses queues with which a device takes at most `bytes` of this process in a job with this many
 * peers, when shared queues have grown as large as they may. Takes the first that fit of: the
 * planned queues, if there are any; the same, with all but the smallest shared; the transport's
 * defaults; some with ever fewer buffers. If none fit, takes those that need least. Changes
 * plan->queues and plan->open.
 */
btl_ib_memory_max_info_t btl_ib_memory_max_fit(const btl_ib_process_sizes_t *sizes,
                                               const btl_ib_transport_type_t *type, uint32_t peers,
                                               uint64_t bytes, btl_ib_device_plan_t *plan);

#endif
