/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The devices that become rails: which transports and wires are looked at, in what order, what each device's queues
 * are, and the module made of it.
 */

#include "btl_ib_open_devices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "btl_ib_about.h"
#include "btl_ib_modex.h"
#include "btl_ib_registration_limit.h"
#include "btl_ib_wire_choice.h"
#include "device_filter.h"
#include "host_only_interfaces.h"

/* Bytes: what is longer a device that can is to fetch from where it is: in messages it is copied on both sides. */
#define EAGER_BY_DEVICE (12 * 1024)
/* Mbit/s of a device that does not say. */
#define BANDWIDTH_UNKNOWN 1000

static_assert(BTL_IB_OPEN_QUEUES_MAX == BTL_IB_QUEUES_MAX, "each channel's queue can be asked for");

/* What all steps of one attempt share. */
typedef struct opening {
    btl_ib_component_t *component;
    btl_ib_queue_table_t user_queues; /* if params.receive_queues was set */
    btl_ib_device_filter_t filter;
    uint32_t sized; /* devices must have connections for so many processes; 0: they need not */
    bool told_clamped;
    bool told_limit;
    bool ports_taken;     /* of those that may be used: nothing else is tried */
    btl_ib_seen_t seen;   /* devices that were turned down */
    btl_ib_seen_t failed; /* those that could not be opened */
} opening_t;

/* A btl_ib_turned_down_fn_t. */
static void collect(void *context, const char *transport, const char *device, const char *reason)
{
    opening_t *opening = context;

    btl_ib_seen_add(&opening->seen, transport, device, reason);
}

/* For the search: what it says is collected. */
static btl_ib_log_t search_log(opening_t *opening)
{
    btl_ib_log_t log = btl_ib_logger;

    log.turned_down = collect;
    log.context = opening;
    return log;
}

/* A device that was found cannot be used. */
__attribute__((format(printf, 3, 4))) static void
turn_down(opening_t *opening, const btl_ib_device_t *device, const char *format, ...)
{
    char reason[160];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    BTL_IB_VERBOSE(1, "device %s turned down: %s", device->name, reason);
    btl_ib_seen_add(&opening->seen, device->transport, device->name, reason);
}

static bool parse_queues(opening_t *opening)
{
    const btl_ib_params_t *params = &opening->component->params;
    const char *spec = NULL != params->receive_queues ? params->receive_queues : "";
    btl_ib_queues_error_t error;
    char queue[32] = "all";

    if (!params->queues_by_user
        || (0 == btl_ib_queues_parse(spec, &opening->user_queues, &error)
            && 0
                   == btl_ib_queues_holds(spec, &opening->user_queues,
                                          btl_ib_engine_datagram_min(btl_ib_params_guard(params)),
                                          &error))) {
        return true;
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

    if (0 == btl_ib_devices_parse(value, list, &error)) {
        return true;
    }
    BTL_IB_SHOW_HELP("bad device list", name, opal_process_info.nodename, value, error.position,
                     error.entry, error.problem, error.expected);
    return false;
}

/* The queues that a device shall have, fitted to its datagrams. Returns whether there are any. */
static bool device_queues(opening_t *opening, const btl_ib_transport_type_t *type,
                          const btl_ib_device_t *device, uint32_t max_datagram,
                          btl_ib_queue_table_t *table)
{
    const btl_ib_params_t *params = &opening->component->params;
    btl_ib_queues_error_t error;
    char used[512];

    if (max_datagram < BTL_IB_QUEUE_SIZE_MIN) {
        turn_down(opening, device, "its datagrams carry only %u bytes", max_datagram);
        return false;
    }
    if (params->queues_by_user) {
        *table = opening->user_queues;
    } else if (0 != btl_ib_queues_parse(type->default_queues, table, &error)) {
        turn_down(opening, device, "transport %s has no valid queues", type->name);
        return false;
    }
    if (btl_ib_queues_clamp(table, max_datagram) > 0 && params->queues_by_user
        && !opening->told_clamped && 0 == opening->component->name.vpid) {
        opening->told_clamped = true;
        btl_ib_queues_format(table, used, sizeof(used));
        BTL_IB_SHOW_HELP("queues clamped", opal_process_info.nodename, device->name, max_datagram,
                         params->receive_queues, used);
    }
    return true;
}

/* Buffers of all queues. */
static uint64_t queue_sum(const btl_ib_queue_table_t *table)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < table->count; ++i) {
        sum += table->q[i].num;
    }
    return sum;
}

static uint32_t rx_depth(const btl_ib_params_t *params, uint64_t sum)
{
    if (params->rx_depth > 0) {
        return (uint32_t) params->rx_depth;
    }
    return sum > BTL_IB_QUEUE_NUM_MAX ? BTL_IB_QUEUE_NUM_MAX : (uint32_t) sum;
}

/* One process a job tells what its system should be set to. */
static void tell_limit(opening_t *opening, const btl_ib_transport_t *transport)
{
    const btl_ib_limit_t *limit = &transport->limit;

    if (NULL == limit->sysctl) {
        return;
    }
    BTL_IB_VERBOSE(1, "%s: %s is %u, too little: set it to %u", transport->name, limit->sysctl,
                   limit->is, limit->needed);
    if (!opening->told_limit && 0 == opening->component->name.vpid) {
        opening->told_limit = true;
        BTL_IB_SHOW_HELP("system limit", opal_process_info.nodename, transport->name, limit->sysctl,
                         limit->is, limit->sysctl, limit->needed);
    }
}

/* What a transport is to have posted: as many as the queues say, or each its part of btl_ib_rx_depth. */
static void want_buffers(const btl_ib_params_t *params, const btl_ib_queue_table_t *table,
                         btl_ib_open_params_t *open)
{
    const uint64_t sum = queue_sum(table);

    open->rx_depth = rx_depth(params, sum);
    open->rx_size = table->q[table->count - 1].size;
    open->queue_count = table->count;
    for (uint32_t i = 0; i < table->count; ++i) {
        const btl_ib_queue_t *q = &table->q[i];
        const uint64_t part = (uint64_t) q->num * open->rx_depth / sum;
        const bool shared = BTL_IB_QUEUE_SHARED == q->type;

        open->queue[i].size = q->size;
        open->queue[i].num = part > 0 ? (uint32_t) part : 1;
        open->queue[i].shared = shared;
        open->queue[i].reserve = q->reserve;
        open->queue[i].per_peer = shared ? 0 : (uint32_t) params->credit_init;
        open->queue[i].init = shared ? q->init : open->queue[i].num;
        open->queue[i].limit = shared ? q->limit : 0;
    }
}

static btl_ib_open_rc_t rc_params(const btl_ib_params_t *params)
{
    return (btl_ib_open_rc_t){
        .timeout = (uint8_t) params->rc_timeout,
        .retry = (uint8_t) params->rc_retry,
        .rnr_retry = (uint8_t) params->rnr_retry,
        .eager_peers = (uint32_t) params->max_eager_rdma,
        .eager_slots = (uint32_t) params->eager_rdma_num,
        .eager_threshold = (uint32_t) params->eager_rdma_threshold,
        .eager_period_ms = (uint32_t) params->eager_rdma_period_ms,
        .relaxed = 0 == strcmp(params->ordering, "relaxed"),
    };
}

/*
 * A range of ports is for a firewall: what lies outside of it would only fail later. So that there
 * is no port is an error, not a reason to use something else.
 */
static bool out_of_ports(const btl_ib_params_t *params, const btl_ib_device_t *device, int error)
{
    return 0 != params->port_min && (EADDRINUSE == error || (EACCES == error && device->plain));
}

/* A device that ought to work does not. */
static void open_failed(opening_t *opening, const btl_ib_device_t *device, const char *wire,
                        int error)
{
    const btl_ib_params_t *params = &opening->component->params;
    char reason[128];

    if (out_of_ports(params, device, error)) {
        opening->ports_taken = true;
        btl_ib_open_tell_ports(params, device, error);
        return;
    }
    snprintf(reason, sizeof(reason), "%s%s%s", NULL != wire ? wire : "", NULL != wire ? ": " : "",
             strerror(error));
    btl_ib_seen_add(&opening->failed, device->transport, device->name, reason);
    turn_down(opening, device, "it could not be opened: %s", reason);
}

/* Those that the kernel's stack stands for take any port. */
static bool heeds_ports(const btl_ib_params_t *params, const btl_ib_transport_type_t *type,
                        const btl_ib_device_t *device)
{
    return 0 == params->port_min || !device->plain || 0 != strcmp(type->name, "ofi");
}

static btl_ib_transport_t *open_device(opening_t *opening, const btl_ib_transport_type_t *type,
                                       const btl_ib_device_t *device, btl_ib_queue_table_t *table)
{
    btl_ib_transport_attr_t attr;
    btl_ib_transport_t *transport = NULL;
    btl_ib_open_params_t open = {.log = btl_ib_logger};
    int rc = type->query(device, &attr);

    if (0 != rc) {
        turn_down(opening, device, "it cannot be asked: %s", strerror(-rc));
        return NULL;
    }
    if (!heeds_ports(&opening->component->params, type, device)) {
        turn_down(opening, device, "libfabric chooses its port, and btl_ib_port_min is set");
        return NULL;
    }
    if (!device_queues(opening, type, device, attr.max_datagram, table)) {
        return NULL;
    }
    if (opening->sized > 0
        && !btl_ib_wires_suffices(attr.connections_max, opening->sized, table->count)) {
        turn_down(opening, device,
                  "for %s it has %u connections, too few if all of %u processes were on this host "
                  "(btl_ib_wire rc takes it nevertheless)",
                  type->wire, attr.connections_max, opening->sized);
        return NULL;
    }
    BTL_IB_VERBOSE(1, "device %s: receive queues stand for %" PRIu64 " bytes with one active peer",
                   device->name, btl_ib_queues_memory(table, 1));
    want_buffers(&opening->component->params, table, &open);
    open.socket_buffer = (uint32_t) opening->component->params.socket_buffer;
    open.connected_max = (uint32_t) opening->component->params.connected_max;
    open.bulk_lane = opening->component->params.bulk_apart;
    open.port_min = (uint16_t) opening->component->params.port_min;
    open.port_count = (uint32_t) opening->component->params.port_range;
    open.pkey = (uint16_t) opening->component->params.pkey;
    open.service_level = (uint8_t) opening->component->params.service_level;
    open.traffic_class = (uint8_t) opening->component->params.traffic_class;
    open.rc = rc_params(&opening->component->params);
    rc = type->open(device, &open, &transport);
    if (0 != rc) {
        open_failed(opening, device, type->wire, -rc);
        return NULL;
    }
    tell_limit(opening, transport);
    return transport;
}

static uint32_t device_bandwidth(const btl_ib_component_t *component, const btl_ib_device_t *device,
                                 const btl_ib_transport_t *transport)
{
    if (component->limits.btl_bandwidth > 0) {
        return component->limits.btl_bandwidth;
    }
    if (transport->attr.bandwidth > 0) {
        return transport->attr.bandwidth;
    }
    return device->bandwidth > 0 ? device->bandwidth : BANDWIDTH_UNKNOWN;
}

/* Who changes words: the device, if it is to be so, or where it does as the processor would. */
static bool device_atomics(const btl_ib_params_t *params, const btl_ib_transport_attr_t *attr)
{
    if (!attr->rdma || BTL_IB_RDMA_ATOMICS_NONE == attr->rdma_atomics
        || 0 == strcmp(params->atomics, "host")) {
        return false;
    }
    return 0 == strcmp(params->atomics, "device")
           || BTL_IB_RDMA_ATOMICS_GLOBAL == attr->rdma_atomics;
}

static size_t least(size_t a, uint64_t b)
{
    return a < b ? a : (size_t) b;
}

/* What the device does by itself, and what Open MPI has to know of that: what is longer than it can it shall cut. */
static void use_memory(btl_ib_module_t *module, btl_ib_transport_t *transport)
{
    const btl_ib_transport_attr_t *attr = &transport->attr;
    const uint32_t atomics =
        BTL_IB_ATOMIC_FLAGS_DEVICE
        | (BTL_IB_RDMA_ATOMICS_GLOBAL == attr->rdma_atomics ? MCA_BTL_ATOMIC_SUPPORTS_GLOB : 0);

    if (!attr->rdma) {
        return;
    }
    if (BTL_IB_GUARD_NONE != btl_ib_params_guard(&mca_btl_ib_component.params)) {
        BTL_IB_VERBOSE(1,
                       "rail %u (%s): processors move memory: what the device moves is not "
                       "protected as btl_ib_auth or btl_ib_checksum demands",
                       module->rail, module->name);
        return;
    }
    if (OPAL_SUCCESS != btl_ib_pins_init(module, transport)) {
        BTL_IB_VERBOSE(
            1, "rail %u (%s): no registration cache (rcache grdma), so processors move memory",
            module->rail, module->name);
    }
    if (NULL == module->pins.cache) {
        return;
    }
    if (!mca_btl_ib_component.params.eager_by_user) {
        module->super.btl_eager_limit = least(module->super.btl_eager_limit, EAGER_BY_DEVICE);
    }
    module->super.btl_get_limit = least(module->super.btl_get_limit, attr->rdma_max);
    module->super.btl_put_limit = least(module->super.btl_put_limit, attr->rdma_max);
    module->super.btl_get_local_registration_threshold = attr->rdma_copied;
    module->super.btl_put_local_registration_threshold = attr->rdma_copied;
    module->device_atomics = device_atomics(&mca_btl_ib_component.params, attr);
    if (module->device_atomics) {
        module->super.btl_atomic_flags = atomics;
    }
    BTL_IB_VERBOSE(1,
                   "rail %u (%s): the device moves registered memory by itself, of %" PRIu64
                   " bytes at most; words are changed by %s",
                   module->rail, module->name, mca_btl_ib_component.pinned_max,
                   module->device_atomics ? "devices" : "processors");
}

/* As peers have to know it: only rails of one kind are joined. */
static btl_ib_atomics_t atomics_of(const btl_ib_module_t *module)
{
    if (!module->device_atomics) {
        return BTL_IB_ATOMICS_PROCESSOR;
    }
    return 0 != (module->super.btl_atomic_flags & MCA_BTL_ATOMIC_SUPPORTS_GLOB)
               ? BTL_IB_ATOMICS_GLOBAL
               : BTL_IB_ATOMICS_DEVICE;
}

/* Make a module of an open device. Closes the device if it cannot. */
static void add_module(opening_t *opening, const btl_ib_transport_type_t *type,
                       const btl_ib_device_t *device, btl_ib_transport_t *transport,
                       const btl_ib_queue_table_t *table)
{
    btl_ib_component_t *component = opening->component;
    const uint32_t bandwidth = device_bandwidth(component, device, transport);
    btl_ib_module_t *module =
        btl_ib_module_create(component->module_count, transport->name, bandwidth);
    char queues[512];
    int rail;

    if (NULL == module) {
        transport->ops->close(transport);
        return;
    }
    rail = btl_ib_engine_add_rail(component->engine, transport, table);
    if (rail != (int) component->module_count) {
        open_failed(opening, device, NULL, rail < 0 ? -rail : EINVAL);
        btl_ib_module_destroy(module);
        transport->ops->close(transport);
        return;
    }
    btl_ib_modex_add_rail(component->self, component->engine, (uint32_t) rail, device, bandwidth);
    use_memory(module, transport);
    component->self->rails[rail].atomics = atomics_of(module);
    component->modules[component->module_count++] = module;
    btl_ib_queues_format(table, queues, sizeof(queues));
    BTL_IB_VERBOSE(1, "rail %d is %s: %u bytes a datagram, %u Mbit/s%s, queues %s", rail,
                   transport->name, transport->attr.max_datagram, bandwidth,
                   device->loopback ? ", this host only" : "", queues);
    btl_ib_about_device(type, device, (uint32_t) rail);
}

/* Open the devices of one type of transport that are wanted. */
static void open_type(opening_t *opening, const btl_ib_transport_type_t *type)
{
    btl_ib_component_t *component = opening->component;
    btl_ib_device_t *list = NULL;
    btl_ib_queue_table_t table;
    const btl_ib_search_t search = {
        .provider = component->params.ofi_provider,
        .fork_safe = component->params.fork_safe,
        .gid_index = component->params.gid_index,
        .log = search_log(opening),
    };
    int count = type->devices(&search, &list);
    int wanted;

    if (count < 0) {
        BTL_IB_VERBOSE(1, "transport %s turned down: %s", type->name, strerror(-count));
        btl_ib_seen_add(&opening->seen, type->name, NULL, strerror(-count));
        btl_ib_seen_add(&opening->failed, type->name, NULL, strerror(-count));
        return;
    }
    if (0 == count && btl_ib_open_named_provider(&component->params)
        && 0 != strcmp("ofi", type->name)) {
        btl_ib_seen_add(&opening->seen, type->name, NULL,
                        "btl_ib_ofi_provider is set, which only transport ofi has");
    }
    btl_ib_links_mark_host_only(list, count, &search.log);
    wanted = btl_ib_devices_select(list, count, &opening->filter, &search.log);
    for (int i = 0;
         i < wanted && component->module_count < BTL_IB_RAILS_MAX && !opening->ports_taken; ++i) {
        btl_ib_transport_t *transport = open_device(opening, type, &list[i], &table);

        if (NULL != transport) {
            add_module(opening, type, &list[i], transport, &table);
        }
    }
    type->devices_free(list, count);
}

/* Is there nothing yet, and may more be tried? */
static bool still_none(const opening_t *opening)
{
    return 0 == opening->component->module_count && !opening->ports_taken;
}

/* Open a transport that has several wires. */
static void open_wires(opening_t *opening, const char *name)
{
    const btl_ib_params_t *params = &opening->component->params;
    const uint32_t processes = btl_ib_compat_universe_size();
    btl_ib_wires_try_t tries[BTL_IB_WIRES_TRIES];
    const int count =
        btl_ib_wires_plan(params->wire, processes, (uint32_t) params->rc_max_peers, tries);

    for (int pass = 0; pass < count; ++pass) {
        opening->sized = tries[pass].sized ? processes : 0;
        for (size_t i = 0; NULL != btl_ib_transport_types[i] && still_none(opening); ++i) {
            const btl_ib_transport_type_t *type = btl_ib_transport_types[i];

            if (0 == strcmp(name, type->name) && 0 == strcmp(tries[pass].wire, type->wire)) {
                open_type(opening, type);
            }
        }
    }
    opening->sized = 0;
}

/* Open transports of that name (NULL: any) until one has something to open. */
static void open_types(opening_t *opening, const char *name)
{
    const char *last = "";

    for (size_t i = 0; NULL != btl_ib_transport_types[i] && still_none(opening); ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];

        if (0 == strcmp(last, type->name) || (NULL != name && 0 != strcmp(name, type->name))) {
            continue;
        }
        last = type->name;
        if (NULL == type->wire) {
            open_type(opening, type);
        } else {
            open_wires(opening, type->name);
        }
    }
}

/* Open the first transport that has something to open: RDMA devices before others. */
static void open_any(opening_t *opening)
{
    for (int pass = btl_ib_rdma_present() ? 0 : 1; pass < 2; ++pass) {
        opening->filter.rdma_only = 0 == pass;
        if (still_none(opening)) {
            opening->seen.count = 0; /* what the first pass turned down the second looks at again */
            opening->seen.more = 0;
            open_types(opening, NULL);
        }
    }
}

static void open_transports(opening_t *opening)
{
    const btl_ib_params_t *params = &opening->component->params;

    if (btl_ib_open_any_transport(params)) {
        open_any(opening);
    } else {
        open_types(opening, params->transport);
    }
}

bool btl_ib_open_devices(btl_ib_component_t *component)
{
    const btl_ib_params_t *params = &component->params;
    const btl_ib_pin_host_t host = btl_ib_pin_host(btl_ib_compat_local_processes());
    opening_t opening = {.component = component};

    (void) btl_ib_pin_limit(params->max_pinned, &host, &component->pinned_max); /* was checked */
    if (!parse_queues(&opening)
        || !parse_list("if_include", params->if_include, &opening.filter.include)
        || !parse_list("if_exclude", params->if_exclude, &opening.filter.exclude)) {
        return false;
    }
    open_transports(&opening);
    if (opening.ports_taken) {
        return false;
    }
    if (0 == component->module_count) {
        btl_ib_open_tell_nothing(component, &opening.seen, &opening.failed);
        return false;
    }
    btl_ib_open_tell_failed(component, &opening.failed);
    btl_ib_open_tell_unmatched(component, &opening.filter.include, &opening.seen);
    return true;
}
