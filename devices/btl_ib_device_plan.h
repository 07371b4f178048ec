/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * With what a device would be opened: its wire, settings and receive queues, and what the
 * transport is asked for; or why it is not to be. Opens nothing, so that ib_info can use it.
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
 * Which wire of a transport that has two (btl_ib_wire): rc, whose connections cost queue pairs and
 * memory for each peer, or ud; and whether peers share receive queues there.
 *
 * Processes that are to talk to each other must choose alike, and each chooses before it hears of
 * any other. So what counts is what they have in common: parameters, the number of slots of the
 * runtime, and the kind of device; not how many processes a host runs.
 */

#define BTL_IB_WIRE_TRIES 3

/* A look at the devices. */
typedef struct btl_ib_wire_try {
    const char *wire; /* "rc" or "ud" */
    bool sized;       /* only devices that have connections for all processes */
} btl_ib_wire_try_t;

/*
 * Plans what to look for, one after the other until there is a device. `wire` is btl_ib_wire:
 * "auto", "ud" or "rc". `processes`: slots of the runtime, 0 if not known. `rc_max_peers`: rc is
 * for at most so many of them. Returns how many of `tries` are set, at least 1.
 */
int btl_ib_wire_plan(const char *wire, uint32_t processes, uint32_t rc_max_peers,
                     btl_ib_wire_try_t tries[BTL_IB_WIRE_TRIES]);

/*
 * True if `connections_max` connections of a device (0: it needs none) are enough for so many
 * processes with so many queues, and so many rails over each port. At worst all of them are on one
 * host, and each talks to each, itself included, over each queue, and by one more connection for
 * operations on memory, of each rail.
 */
static inline bool btl_ib_wire_suffices(uint32_t connections_max, uint32_t processes,
                                        uint32_t queues, uint32_t rails)
{
    const uint64_t pairs = (uint64_t) processes * processes;

    return connections_max == 0 || pairs <= connections_max / (((uint64_t) queues + 1) * rails);
}

/* True if the default queues shall be those that all peers share: from `srq_min_peers` processes
 * on, 0: never. */
static inline bool btl_ib_wire_shares(uint32_t processes, uint32_t srq_min_peers)
{
    return srq_min_peers != 0 && processes >= srq_min_peers;
}

/* ---- receive buffers ---- */

/* Asks for as many as the queues say, or of each queue for its share of `rx_depth` if that is not
 * 0. Where a device has one pool for all peers, each adds to a queue of type P what a new one may
 * send: `credit_init`, 0: the least that the engine grants; but no more than the queue's num. */
void btl_ib_want_buffers(const btl_ib_queue_table_t *table, uint32_t rx_depth, uint32_t credit_init,
                         btl_ib_open_params_t *open);

/* Writes, as "queue 2: init, limit; queue 3: ...", which numbers govern nothing over a transport,
 * and beside such parameters, of those that are written in a valid `spec`, parsed as `table`.
 * Returns how many there are. */
uint32_t btl_ib_queues_without_effect(const char *spec, const btl_ib_queue_table_t *table,
                                      const btl_ib_transport_type_t *type,
                                      const btl_ib_params_t *params, char *out, size_t len);

/* The user's wishes for devices, as parameters say. */
typedef struct btl_ib_device_wishes {
    const btl_ib_params_t *params;
    uint32_t processes;               /* places of the runtime, 0: not known */
    btl_ib_kernel_t kernel;           /* of this host, some of whose faults are avoided */
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

/* Reads what says which devices are wanted, and how. Returns false after a help text, which rank 0
 * of the job shows where all have it in common. */
bool btl_ib_device_wishes_read(btl_ib_device_wishes_t *wishes, const btl_ib_params_t *params,
                               uint32_t processes, uint32_t rank);

/*
 * Plans for a device that `type` listed. `sized`: it must have connections for so many processes,
 * 0: it need not. Returns whether it may be opened.
 */
bool btl_ib_device_plan(const btl_ib_device_wishes_t *wishes, const btl_ib_transport_type_t *type,
                        const btl_ib_device_t *device, uint32_t sized, btl_ib_device_plan_t *plan);

/* Changes the plan, as the last thing before the device is opened, so that known faults of the
 * kernel do no harm. */
void btl_ib_device_plan_avoid_faults(const btl_ib_device_wishes_t *wishes,
                                     const btl_ib_transport_type_t *type,
                                     btl_ib_device_plan_t *plan);

/* Writes what the table of known faults is asked about a device. The answer refers to all of it. */
void btl_ib_device_fault_query(const btl_ib_device_wishes_t *wishes, const btl_ib_device_t *device,
                               const btl_ib_facts_t *facts, btl_ib_fault_query_t *query);

/* Fills in what a transport is asked for, to have these queues: as many buffers as they say, or
 * each its share of btl_ib_rx_depth; and what parameters say. Without `log`. */
void btl_ib_device_plan_open(const btl_ib_params_t *params, const btl_ib_queue_table_t *table,
                             btl_ib_open_params_t *open);

/* Fits the queues of a plan to its datagrams, and to btl_ib_am_credits_slack. Returns how many were
 * too large. */
static inline uint32_t btl_ib_device_plan_fit(const btl_ib_params_t *params,
                                              btl_ib_device_plan_t *plan)
{
    const uint32_t clamped = btl_ib_queues_clamp(&plan->queues, plan->attr.max_datagram);

    if (params->am_credits_slack >= 0) {
        btl_ib_queues_set_slack(&plan->queues, (uint32_t) params->am_credits_slack);
    }
    return clamped;
}

/* Gives a plan other queues, fitted. A process talks to as many peers at a time as before. */
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

/* Plans for a device that is not there, with such attributes and queues, which are fitted to it. A
 * process talks to `busy` peers at a time (0: to all). */
static inline void btl_ib_device_plan_for(const btl_ib_params_t *params,
                                          const btl_ib_transport_attr_t *attr,
                                          const btl_ib_queue_table_t *queues, uint32_t busy,
                                          btl_ib_device_plan_t *plan)
{
    *plan = (btl_ib_device_plan_t){.attr = *attr, .open.rc.busy = busy};
    btl_ib_device_plan_use(params, queues, plan);
}

/* ---- what devices take ---- */

/* What memory a device takes, opened as planned: the transport, the engine and the component's free
 * lists. Both btl_ib_memory_report and ib_info tell what this computes. */

/* Facts that are alike for all devices of a process. */
typedef struct btl_ib_process_sizes {
    const btl_ib_params_t *params;
    const mca_btl_base_module_t *limits;
    size_t fragment; /* bytes of a fragment without data, its room for headers included */
} btl_ib_process_sizes_t;

/* Adds a device's memory, with so many peers. With several devices the engine's own part counts
 * only once, as a little too much. */
void btl_ib_device_memory_estimate(const btl_ib_process_sizes_t *sizes,
                                   const btl_ib_transport_type_t *type,
                                   const btl_ib_device_plan_t *plan, uint32_t peers,
                                   btl_ib_memory_estimate_t *estimate);

/* ---- limit ---- */

/*
 * Receive queues for a limit on memory (btl_ib_memory_max, ib_info --budget). Queues of each peer
 * grow with the job, shared ones do not: where the first would take too much the others take over.
 */

/* The result of btl_ib_memory_max_fit(). */
typedef struct btl_ib_memory_max_info {
    uint64_t wanted;  /* bytes of this process with the queues that were planned; 0: none were */
    uint64_t taken;   /* with those that are chosen; more than the limit: none fit */
    const char *spec; /* those, as text; NULL: made of those that were planned */
} btl_ib_memory_max_info_t;

/*
 * Chooses queues with which a device takes at most `bytes` of this process in a job with so many
 * peers, once shared queues are as large as they may grow. The first that fit are taken, of: those
 * planned, if there are any; the same, all but the smallest shared; those of the transport; a few
 * with ever fewer buffers. If none fit those that take least are. Changes plan->queues and
 * plan->open.
 */
btl_ib_memory_max_info_t btl_ib_memory_max_fit(const btl_ib_process_sizes_t *sizes,
                                               const btl_ib_transport_type_t *type, uint32_t peers,
                                               uint64_t bytes, btl_ib_device_plan_t *plan);

#endif
