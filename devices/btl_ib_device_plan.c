/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_device_plan.h"

#include "btl_ib_engine.h"
#include "btl_ib_help.h"
#include "btl_ib_params.h"

#include <stdio.h>
#include <string.h>
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- wire ---- */

int btl_ib_wire_plan(const char *wire, uint32_t processes, uint32_t rc_max_peers,
                     btl_ib_wire_try_t tries[BTL_IB_WIRE_TRIES])
{
    int count = 0;

    if (strcmp(wire, "auto") != 0) {
        tries[count++] = (btl_ib_wire_try_t){.wire = wire};
        return count;
    }
    if (processes > 0 && processes <= rc_max_peers) {
        tries[count++] = (btl_ib_wire_try_t){.wire = "rc", .sized = true};
    }
    tries[count++] = (btl_ib_wire_try_t){.wire = "ud"};
    /* rc all the same, as iWARP has no other wire: a connection for which the device has no room is
     * refused, and tried again. */
    tries[count++] = (btl_ib_wire_try_t){.wire = "rc"};
    return count;
}

/* ---- receive buffers ---- */

enum { PER_PEER = 16 }; /* buffers that a new peer adds, if the queue's num is not less */

static_assert(BTL_IB_OPEN_QUEUES_MAX == BTL_IB_QUEUES_MAX, "each channel's queue can be asked for");

static uint32_t at_most(uint32_t value, uint32_t most)
{
    return value < most ? value : most;
}

void btl_ib_want_buffers(const btl_ib_queue_table_t *table, uint32_t rx_depth, uint32_t credit_init,
                         btl_ib_open_params_t *open)
{
    const uint32_t per_peer = credit_init > 0 ? credit_init : PER_PEER;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < table->count; ++i) {
        sum += table->q[i].num;
    }
    open->rx_depth = rx_depth;
    if (rx_depth == 0) {
        rx_depth = sum > BTL_IB_QUEUE_NUM_MAX ? BTL_IB_QUEUE_NUM_MAX : (uint32_t) sum;
        open->rx_depth = rx_depth + table->q[0].reserve;
    }
    open->rx_size = table->q[table->count - 1].size;
    open->queue_count = table->count;
    for (uint32_t i = 0; i < table->count; ++i) {
        const btl_ib_queue_t *q = &table->q[i];
        const uint64_t part = (uint64_t) q->num * rx_depth / sum;
        const uint32_t num = part > 0 ? (uint32_t) part : 1;
        const bool shared = q->type == BTL_IB_QUEUE_SHARED;

        open->queue[i] = (btl_ib_open_queue_t){
            .size = q->size,
            .num = num,
            .shared = shared,
            .reserve = i == 0 ? q->reserve : 0, /* control traffic goes by the first queue */
            .per_peer = shared ? 0 : at_most(per_peer, q->num),
            .init = shared ? q->init : num,
            .limit = shared ? q->limit : 0,
            .low = at_most((uint32_t) ((uint64_t) q->low * num / q->num), num - 1),
            .window = shared ? 0 : q->window,
        };
    }
}

/* ---- numbers without effect ---- */

/* True if the user wrote `field` of queue `i`, and it governs nothing. A field from which
 * max_pending_sends follows governs that, unless the user wrote max_pending_sends, too. `unused`:
 * bits of fields that the transport does not use. `slack`: btl_ib_am_credits_slack sets the
 * windows. */
static bool is_without_effect(const char *spec, const btl_ib_queue_table_t *table, uint32_t i,
                              const char *field, unsigned unused, bool slack)
{
    const bool shared = table->q[i].type == BTL_IB_QUEUE_SHARED;
    const bool pending_written = btl_ib_queues_is_written(spec, i, "max_pending_sends");
    unsigned bit = 0;

    if (!btl_ib_queues_is_written(spec, i, field)) {
        return false;
    }
    if (!shared) {
        return strcmp(field, "window") == 0 ? slack : i > 0 && strcmp(field, "reserve") == 0;
    }
    if (strcmp(field, "num") == 0) {
        bit = pending_written ? BTL_IB_SHARED_NUM : 0u;
    } else if (strcmp(field, "low_watermark") == 0) {
        bit = pending_written ? BTL_IB_SHARED_LOW : 0u;
    } else if (strcmp(field, "max_pending_sends") != 0) {
        bit = BTL_IB_SHARED_GROWTH;
    }
    return (unused & bit) != 0;
}

uint32_t btl_ib_queues_without_effect(const char *spec, const btl_ib_queue_table_t *table,
                                      const btl_ib_transport_type_t *type,
                                      const btl_ib_params_t *params, char *out, size_t len)
{
    static const char *const names[] = {"num",     "low_watermark", "window",
                                        "reserve", "init",          "limit"};
    const bool slack = params->am_credits_slack >= 0;
    uint32_t count = 0;
    size_t used = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < table->count; ++i) {
        uint32_t here = 0;

        for (uint32_t n = 0; n < sizeof(names) / sizeof(names[0]); ++n) {
            char head[32] = ", ";

            if (!is_without_effect(spec, table, i, names[n], type->shared_unused, slack)) {
                continue;
            }
            if (here++ == 0) {
                snprintf(head, sizeof(head), "%squeue %" PRIu32 ": ", count > 0 ? "; " : "", i + 1);
            }
            count++;
            used +=
                used < len ? (size_t) snprintf(out + used, len - used, "%s%s", head, names[n]) : 0;
        }
    }
    return count;
}

/* ---- wishes ---- */

static bool parse_queues(btl_ib_device_wishes_t *wishes, uint32_t rank)
{
    const btl_ib_params_t *params = wishes->params;
    const char *spec = params->receive_queues;
    const uint32_t datagram_min = btl_ib_protection_datagram_min(btl_ib_params_protection(params));
    btl_ib_queues_error_t error;
    char queue[32] = "all";

    if (!params->queues_by_user) {
        return true;
    }
    if (btl_ib_queues_parse(spec, &wishes->user_queues, &error) == 0) {
        if (error.queue > 0 && rank == 0) {
            BTL_IB_SHOW_HELP("queues reduced", opal_process_info.nodename, spec, error.queue,
                             error.field, error.value, error.expected);
        }
        if (btl_ib_queues_holds(spec, &wishes->user_queues, datagram_min, &error) == 0) {
            return true;
        }
    }
    if (error.queue > 0) {
        snprintf(queue, sizeof(queue), "%u", error.queue);
    }
    BTL_IB_SHOW_HELP("bad receive_queues", opal_process_info.nodename, spec, queue, error.field,
                     error.value, error.column, error.expected);
    return false;
}

static bool parse_list(const char *name, const char *value, btl_ib_device_list_t *list)
{
    btl_ib_devices_error_t error;

    if (btl_ib_devices_parse(value, list, &error) == 0) {
        return true;
    }
    BTL_IB_SHOW_HELP("bad device list", name, opal_process_info.nodename, value, error.position,
                     error.entry, error.problem, error.expected);
    return false;
}

bool btl_ib_device_wishes_read(btl_ib_device_wishes_t *wishes, const btl_ib_params_t *params,
                               uint32_t processes, uint32_t rank)
{
    *wishes = (btl_ib_device_wishes_t){.params = params, .processes = processes};
    btl_ib_kernel_read(&wishes->kernel);
    return parse_queues(wishes, rank)
           && parse_list("if_include", params->if_include, &wishes->filter.include)
           && parse_list("if_exclude", params->if_exclude, &wishes->filter.exclude);
}

/* ---- receive queues ---- */

/* True if the device can share so many buffers. (A device without connections has one pool for all
 * peers anyway.) */
static bool can_share(const btl_ib_queue_table_t *table, const btl_ib_transport_attr_t *attr)
{
    for (uint32_t i = 0; attr->reliable && i < table->count; ++i) {
        if (table->q[i].type == BTL_IB_QUEUE_SHARED && table->q[i].num > attr->shared_max) {
            return false;
        }
    }
    return true;
}

/* Plans the transport's default queues; for many processes the shared ones, if the device can.
 * Hosts may differ in that, as a sender obeys the queues of its receiver. */
static int default_queues(const btl_ib_device_wishes_t *wishes, const btl_ib_transport_type_t *type,
                          btl_ib_device_plan_t *plan)
{
    btl_ib_queues_error_t error;

    if (type->shared_queues != NULL
        && btl_ib_wire_shares(wishes->processes, (uint32_t) wishes->params->rc_srq_min_peers)
        && btl_ib_queues_parse(type->shared_queues, &plan->queues, &error) == 0
        && can_share(&plan->queues, &plan->attr)) {
        return 0;
    }
    return btl_ib_queues_parse(type->default_queues, &plan->queues, &error);
}

/* Plans the queues of a device, fitted to its datagrams. Returns whether any fit. */
static bool plan_queues(const btl_ib_device_wishes_t *wishes, const btl_ib_transport_type_t *type,
                        btl_ib_device_plan_t *plan)
{
    const btl_ib_params_t *params = wishes->params;
    const uint32_t max_datagram = plan->attr.max_datagram;
    const uint32_t off_host = plan->attr.max_off_host != 0 ? plan->attr.max_off_host : max_datagram;
    const uint32_t segment = btl_ib_protection_datagram_min(btl_ib_params_protection(params));
    const uint32_t least = segment > BTL_IB_QUEUE_SIZE_MIN ? segment : BTL_IB_QUEUE_SIZE_MIN;

    if (off_host < least) {
        snprintf(plan->why_not, sizeof(plan->why_not),
                 "its MTU is too small: a datagram carries %u bytes, at least %u are needed",
                 off_host, least);
        return false;
    }
    if (params->queues_by_user) {
        plan->queues = wishes->user_queues;
    } else if (default_queues(wishes, type, plan) != 0) {
        snprintf(plan->why_not, sizeof(plan->why_not), "transport %s has no valid queues",
                 type->name);
        return false;
    }
    plan->clamped = btl_ib_device_plan_fit(params, plan) > 0 && params->queues_by_user;
    return true;
}

/* ---- what a transport is asked for ---- */

static btl_ib_open_channels_t channels_of(const char *word)
{
    return strcmp(word, "own") == 0      ? BTL_IB_CHANNELS_OWN
           : strcmp(word, "shared") == 0 ? BTL_IB_CHANNELS_SHARED
                                         : BTL_IB_CHANNELS_AUTO;
}

void btl_ib_device_plan_open(const btl_ib_params_t *params, const btl_ib_queue_table_t *table,
                             btl_ib_open_params_t *open)
{
    uint32_t depths[BTL_IB_QUEUES_MAX];

    (void) btl_ib_params_send_depth(params, depths); /* was checked before */
    *open = (btl_ib_open_params_t){
        .channels = channels_of(params->channels),
        .cq_own = strcmp(params->cq, "own") == 0,
        .cq_num = (uint32_t) params->cq_num,
        .inline_max = params->max_inline_data > 0 ? params->max_inline_data : -1,
        .socket_buffer = (uint32_t) params->socket_buffer,
        .connected_max = (uint32_t) params->connected_max,
        .udp_flows = (uint32_t) params->udp_flows,
        .busy_poll = (uint32_t) params->udp_busy_poll,
        .bulk_lane = params->bulk_lane,
        .no_gso = strcmp(params->udp_gso, "0") == 0,
        .ecn = params->ecn,
        .port_min = (uint16_t) params->port_min,
        .port_count = (uint32_t) params->port_range,
        .pkey = (uint16_t) params->pkey,
        .mtu = (uint32_t) params->mtu,
        .service_level = (uint8_t) params->service_level,
        .traffic_class = (uint8_t) params->traffic_class,
        .rc =
            {
                .timeout = (uint8_t) params->rc_timeout,
                .retry = (uint8_t) params->rc_retry,
                .rnr_retry = (uint8_t) params->rnr_retry,
                .rnr_timer = (uint8_t) params->rnr_timer,
                .reads = (uint8_t) params->rc_reads,
                .bounce_size = (uint32_t) params->rc_bounce_size,
                .bounce_num = (uint32_t) params->bounce_num,
                .bounce_total = params->bounce_size,
                .eager_peers = (uint32_t) params->max_eager_rdma,
                .eager_slots = (uint32_t) params->eager_rdma_num,
                .eager_size = (uint32_t) params->eager_rdma_size,
                .eager_threshold = (uint32_t) params->eager_rdma_threshold,
                .eager_period = (uint32_t) params->eager_rdma_period,
                .idle = (uint32_t) params->rc_idle,
                .idle_first = params->keepalive == 0, /* keepalive uses the first queue */
                .relaxed = strcmp(params->ordering, "relaxed") == 0,
            },
    };
    btl_ib_want_buffers(table, (uint32_t) params->rx_depth, (uint32_t) params->credit_init, open);
    for (uint32_t i = 0; i < table->count; ++i) {
        open->queue[i].tx_depth = depths[i];
    }
}

bool btl_ib_device_plan(const btl_ib_device_wishes_t *wishes, const btl_ib_transport_type_t *type,
                        const btl_ib_device_t *device, uint32_t sized, btl_ib_device_plan_t *plan)
{
    const btl_ib_params_t *params = wishes->params;
    int rc;

    memset(plan, 0, sizeof(*plan));
    rc = type->query(device, (uint32_t) params->mtu, &plan->attr);
    if (rc != 0) {
        snprintf(plan->why_not, sizeof(plan->why_not), "it cannot be asked: %s%s%s",
                 plan->attr.refused != NULL ? plan->attr.refused : "",
                 plan->attr.refused != NULL ? ": " : "", strerror(-rc));
        return false;
    }
    /* libfabric's devices on the kernel's network stack take any port. */
    if (params->port_min != 0 && device->plain && strcmp(type->name, "ofi") == 0) {
        snprintf(plan->why_not, sizeof(plan->why_not),
                 "libfabric chooses its port, and btl_ib_port_min is set");
        return false;
    }
    if (!plan_queues(wishes, type, plan)) {
        return false;
    }
    if (sized > 0
        && !btl_ib_wire_suffices(plan->attr.connections_max, sized, plan->queues.count,
                                 (uint32_t) params->qps_per_port)) {
        snprintf(plan->why_not, sizeof(plan->why_not),
                 "for %s it has %u connections, too few if all of %u processes were on "
                 "this host (btl_ib_wire rc takes it nevertheless)",
                 type->wire, plan->attr.connections_max, sized);
        return false;
    }
    btl_ib_device_plan_open(params, &plan->queues, &plan->open);
    return true;
}

void btl_ib_device_plan_avoid_faults(const btl_ib_device_wishes_t *wishes,
                                     const btl_ib_transport_type_t *type,
                                     btl_ib_device_plan_t *plan)
{
    btl_ib_known_faults_avoid(&wishes->kernel, type->name,
                              strcmp(wishes->params->udp_gso, "auto") == 0, &plan->open);
}

void btl_ib_device_fault_query(const btl_ib_device_wishes_t *wishes, const btl_ib_device_t *device,
                               const btl_ib_facts_t *facts, btl_ib_fault_query_t *query)
{
    *query = (btl_ib_fault_query_t){
        .kernel = &wishes->kernel,
        .transport = device->transport,
        .driver = facts->driver,
        .firmware = facts->firmware,
        .vendor = device->vendor_id,
        .part = device->part_id,
    };
}

/* ---- what devices take ---- */

static uint64_t aligned(uint64_t size)
{
    return (size + (uint64_t) opal_cache_line_size - 1) / (uint64_t) opal_cache_line_size
           * (uint64_t) opal_cache_line_size;
}

/* Adds the fragments that each list has from the start. A list's upper bound is not counted, as the
 * list may exceed it. */
static void add_fragments(const btl_ib_process_sizes_t *sizes, const btl_ib_transport_attr_t *attr,
                          btl_ib_memory_estimate_t *estimate)
{
    const uint64_t count = (uint64_t) sizes->params->free_list_num;
    const uint64_t eager =
        btl_ib_params_eager_limit(sizes->params, sizes->limits, attr, attr->rdma);

    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS,
                        count
                            * (aligned(sizes->fragment) + aligned(sizes->fragment + eager)
                               + aligned(sizes->fragment + sizes->limits->btl_max_send_size)),
                        0, "fragments, %" PRIu64 " of each size", count);
}

void btl_ib_device_memory_estimate(const btl_ib_process_sizes_t *sizes,
                                   const btl_ib_transport_type_t *type,
                                   const btl_ib_device_plan_t *plan, uint32_t peers,
                                   btl_ib_memory_estimate_t *estimate)
{
    btl_ib_transport_attr_t attr = plan->attr;
    btl_ib_engine_config_t config;

    btl_ib_params_engine(sizes->params, sizes->limits, &config);
    type->memory_estimate(&plan->open, &attr, peers, estimate);
    if (attr.reliable) { /* datagrams are as large as the queues */
        attr.max_datagram = plan->queues.q[plan->queues.count - 1].size;
    }
    btl_ib_engine_memory_estimate(&config, &attr, &plan->queues, peers, estimate);
    add_fragments(sizes, &attr, estimate);
}

/* ---- limit ---- */

/* Queues with ever fewer buffers. */
static const char *const fewer[] = {
    "P,256,128:S,8192,512,256,32:S,65536,128,64,8",   "P,256,64:S,8192,256,128,16:S,65536,64,32,4",
    "P,256,32:S,8192,128,64,8:S,65536,32,16,2",       "P,256,16:S,8192,64,32,4:S,65536,16,8,1",
    "S,256,256,128,32:S,8192,64,32,4:S,65536,16,8,1",
};

enum { PLANNED, PLANNED_SHARED, OWN, OWN_SHARED, FEWER };
enum { CANDIDATES = FEWER + sizeof(fewer) / sizeof(fewer[0]) };

/* Makes all queues of a table but the smallest shared, with the defaults that follow from num. */
static bool share_queues(const btl_ib_queue_table_t *table, btl_ib_queue_table_t *shared)
{
    btl_ib_queues_error_t error;
    char spec[512] = "";

    for (uint32_t i = 0; i < table->count; ++i) {
        const size_t len = strlen(spec);

        snprintf(spec + len, sizeof(spec) - len, "%s%c,%" PRIu32 ",%" PRIu32, i > 0 ? ":" : "",
                 i == 0 && table->q[i].type == BTL_IB_QUEUE_PER_PEER ? 'P' : 'S', table->q[i].size,
                 table->q[i].num);
    }
    return btl_ib_queues_parse(spec, shared, &error) == 0;
}

/* Makes candidate `i`: from a text, or from the planned queues. Returns false if there is none. */
static bool plan_candidate(const btl_ib_transport_type_t *type, const btl_ib_device_plan_t *plan,
                           int i, btl_ib_queue_table_t *table, const char **spec)
{
    btl_ib_queues_error_t error;

    *spec = i >= FEWER        ? fewer[i - FEWER]
            : i == OWN        ? type->default_queues
            : i == OWN_SHARED ? type->shared_queues
                              : NULL;
    if (i < OWN) {
        *table = plan->queues;
        return plan->queues.count > 0 && (i == PLANNED || share_queues(&plan->queues, table));
    }
    return *spec != NULL && btl_ib_queues_parse(*spec, table, &error) == 0;
}

/* Returns the bytes that this process takes when shared queues have grown as large as they may;
 * UINT64_MAX: there is no memory to find out. */
static uint64_t queues_cost(const btl_ib_process_sizes_t *sizes,
                            const btl_ib_transport_type_t *type, const btl_ib_queue_table_t *table,
                            uint32_t peers, const btl_ib_device_plan_t *plan)
{
    struct {
        btl_ib_memory_estimate_t estimate;
        btl_ib_device_plan_t grown;
    } *work = calloc(1, sizeof(*work)); /* too large for a stack of 64 KiB */
    uint64_t held;

    if (work == NULL) {
        return UINT64_MAX;
    }
    work->grown = *plan;
    work->grown.queues = *table;
    for (uint32_t i = 0; i < table->count; ++i) {
        btl_ib_queue_t *queue = &work->grown.queues.q[i];

        queue->init = queue->type == BTL_IB_QUEUE_SHARED ? queue->num : queue->init;
    }
    btl_ib_device_plan_use(sizes->params, &work->grown.queues, &work->grown);
    btl_ib_device_memory_estimate(sizes, type, &work->grown, peers, &work->estimate);
    held = work->estimate.all[BTL_IB_ESTIMATE_PROCESS].held;
    free(work);
    return held;
}

btl_ib_memory_max_info_t btl_ib_memory_max_fit(const btl_ib_process_sizes_t *sizes,
                                               const btl_ib_transport_type_t *type, uint32_t peers,
                                               uint64_t bytes, btl_ib_device_plan_t *plan)
{
    btl_ib_memory_max_info_t info = {.taken = UINT64_MAX};
    btl_ib_queue_table_t table, least;
    const char *spec;

    for (int i = 0; i < CANDIDATES && info.taken > bytes; ++i) {
        uint64_t taken;

        if (!plan_candidate(type, plan, i, &table, &spec)
            || (i != PLANNED && !can_share(&table, &plan->attr))) {
            continue;
        }
        taken = queues_cost(sizes, type, &table, peers, plan);
        info.wanted = i == PLANNED ? taken : info.wanted;
        if (taken < info.taken) {
            info.taken = taken;
            info.spec = spec;
            least = table;
        }
    }
    if (info.taken != UINT64_MAX) {
        btl_ib_device_plan_use(sizes->params, &least, plan);
    }
    return info;
}
