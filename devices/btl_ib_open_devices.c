/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_open_devices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "btl_ib_device_defaults.h"
#include "btl_ib_device_report.h"
#include "btl_ib_help.h"
#include "btl_ib_verbose.h"
#include "btl_ib_wanted_buffers.h"
#include "btl_ib_wire_choice.h"
#include "host_only_interfaces.h"

/* Mbit/s of a device that does not say. */
#define BANDWIDTH_UNKNOWN 1000

/* What all steps share. */
typedef struct search {
    const btl_ib_open_request_t *request;
    const btl_ib_params_t *params;
    btl_ib_opened_device_t *opened;
    uint32_t count;                   /* of them */
    btl_ib_queue_table_t user_queues; /* if params->receive_queues was set */
    btl_ib_device_filter_t filter;
    btl_ib_device_defaults_t defaults;
    uint32_t sized; /* devices must have connections for so many processes; 0: they need not */
    bool told_clamped;
    bool told_limit;
    bool ports_taken;                   /* of those that may be used: nothing else is tried */
    btl_ib_rejected_devices_t rejected; /* devices that were turned down */
    btl_ib_rejected_devices_t failed;   /* those that could not be opened */
} search_t;

/* A device that was found cannot be used. */
__attribute__((format(printf, 3, 4))) static void
turn_down(search_t *search, const btl_ib_device_t *device, const char *format, ...)
{
    char reason[160];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    BTL_IB_VERBOSE(1, "device %s turned down: %s", device->name, reason);
    btl_ib_rejected_devices_add(&search->rejected, device->transport, device->name, reason);
}

/* ---- parameters ---- */

static bool parse_queues(search_t *search)
{
    const btl_ib_params_t *params = search->params;
    const char *spec = NULL != params->receive_queues ? params->receive_queues : "";
    const uint32_t datagram_min = btl_ib_engine_datagram_min(btl_ib_params_guard(params));
    btl_ib_queues_error_t error;
    char queue[32] = "all";

    if (!params->queues_by_user) {
        return true;
    }
    if (0 == btl_ib_queues_parse(spec, &search->user_queues, &error)) {
        if (error.queue > 0 && 0 == search->request->rank) {
            BTL_IB_SHOW_HELP("queues reduced", opal_process_info.nodename, spec, error.queue,
                             error.field, error.value, error.expected);
        }
        if (0 == btl_ib_queues_holds(spec, &search->user_queues, datagram_min, &error)) {
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

    if (0 == btl_ib_devices_parse(value, list, &error)) {
        return true;
    }
    BTL_IB_SHOW_HELP("bad device list", name, opal_process_info.nodename, value, error.position,
                     error.entry, error.problem, error.expected);
    return false;
}

/* Has the device room for all queues of a table that peers share? */
static bool shares(const btl_ib_queue_table_t *table, const btl_ib_transport_attr_t *attr)
{
    for (uint32_t i = 0; i < table->count; ++i) {
        if (BTL_IB_QUEUE_SHARED == table->q[i].type && table->q[i].num > attr->shared_max) {
            return false;
        }
    }
    return true;
}

/* The transport's own queues: of many processes those that all peers share, if the device has such.
 * Other hosts may have other devices: each obeys the queues of the receiver. */
static int default_queues(const search_t *search, const btl_ib_transport_type_t *type,
                          const btl_ib_transport_attr_t *attr, btl_ib_queue_table_t *table)
{
    btl_ib_queues_error_t error;

    if (NULL != type->shared_queues
        && btl_ib_wire_shares(btl_ib_compat_universe_size(),
                              (uint32_t) search->params->rc_srq_min_peers)
        && 0 == btl_ib_queues_parse(type->shared_queues, table, &error) && shares(table, attr)) {
        return 0;
    }
    return btl_ib_queues_parse(type->default_queues, table, &error);
}

/* The queues that a device's section wants. Returns whether they will do. */
static bool section_queues(search_t *search, const btl_ib_device_t *device,
                           const btl_ib_device_config_t *config, btl_ib_queue_table_t *table)
{
    const uint32_t least = btl_ib_engine_datagram_min(btl_ib_params_guard(search->params));
    const char *spec = config->receive_queues;
    btl_ib_queues_error_t error;

    if (0 == btl_ib_queues_parse(spec, table, &error)
        && 0 == btl_ib_queues_holds(spec, table, least, &error)) {
        return true;
    }
    turn_down(search, device, "receive_queues of section [%s] will not do: %s: %s", config->section,
              error.field, error.expected);
    return false;
}

/* The queues that a device shall have, fitted to its datagrams. Returns whether there are any. */
static bool device_queues(search_t *search, const btl_ib_transport_type_t *type,
                          const btl_ib_device_t *device, const btl_ib_device_config_t *config,
                          const btl_ib_transport_attr_t *attr, btl_ib_queue_table_t *table)
{
    const btl_ib_params_t *params = search->params;
    const uint32_t max_datagram = attr->max_datagram;
    char used[512];

    if (max_datagram < BTL_IB_QUEUE_SIZE_MIN) {
        turn_down(search, device, "its datagrams carry only %u bytes", max_datagram);
        return false;
    }
    if (params->queues_by_user) {
        *table = search->user_queues;
    } else if ('\0' != config->receive_queues[0]) {
        if (!section_queues(search, device, config, table)) {
            return false;
        }
    } else if (0 != default_queues(search, type, attr, table)) {
        turn_down(search, device, "transport %s has no valid queues", type->name);
        return false;
    }
    if (btl_ib_queues_clamp(table, max_datagram) > 0 && params->queues_by_user
        && !search->told_clamped && 0 == search->request->rank) {
        search->told_clamped = true;
        btl_ib_queues_format(table, used, sizeof(used));
        BTL_IB_SHOW_HELP("queues clamped", opal_process_info.nodename, device->name, max_datagram,
                         params->receive_queues, used);
    }
    return true;
}

static void open_params(search_t *search, const btl_ib_device_config_t *config,
                        const btl_ib_queue_table_t *table, btl_ib_open_params_t *open)
{
    const btl_ib_params_t *params = search->params;

    *open = (btl_ib_open_params_t){
        .tx_depth = (uint32_t) params->send_depth,
        .cq_depth = (uint32_t) params->cq_depth,
        .inline_max = config->max_inline_data > 0 ? config->max_inline_data : -1,
        .socket_buffer = (uint32_t) params->socket_buffer,
        .connected_max = (uint32_t) params->connected_max,
        .bulk_lane = params->bulk_lane,
        .port_min = (uint16_t) params->port_min,
        .port_count = (uint32_t) params->port_range,
        .pkey = (uint16_t) params->pkey,
        .mtu = (uint32_t) config->mtu,
        .service_level = (uint8_t) params->service_level,
        .traffic_class = (uint8_t) params->traffic_class,
        .rc =
            {
                .timeout = (uint8_t) params->rc_timeout,
                .retry = (uint8_t) params->rc_retry,
                .rnr_retry = (uint8_t) params->rnr_retry,
                .rnr_timer = (uint8_t) params->rnr_timer,
                .reads = (uint8_t) config->rc_reads,
                .bounce_size = (uint32_t) params->rc_bounce_size,
                .eager_peers = (uint32_t) config->max_eager_rdma,
                .eager_slots = (uint32_t) params->eager_rdma_num,
                .eager_size = (uint32_t) params->eager_rdma_size,
                .eager_threshold = (uint32_t) params->eager_rdma_threshold,
                .eager_period_ms = (uint32_t) params->eager_rdma_period_ms,
                .eager_period_messages = (uint32_t) params->eager_rdma_period_messages,
                .relaxed = 0 == strcmp(params->ordering, "relaxed"),
            },
        .log = btl_ib_log_table(search->request->log),
    };
    const btl_ib_wanted_buffers_t wanted = btl_ib_wanted_buffers(
        table, (uint32_t) params->rx_depth, (uint32_t) params->credit_init);
    open->rx_depth = wanted.rx_depth;
    open->rx_size = table->q[table->count - 1].size;
    open->queue_count = table->count;
    memcpy(open->queue, wanted.queue, sizeof(open->queue));
}

/* ---- one device ---- */

/* A device that ought to work does not. */
static void open_failed(search_t *search, const btl_ib_device_t *device, const char *wire,
                        int error)
{
    char reason[128];

    /* A range of ports is for a firewall: what lies outside of it would only fail later. So that
     * there is no port is an error, not a reason to use something else. */
    if (0 != search->params->port_min
        && (EADDRINUSE == error || (EACCES == error && device->plain))) {
        search->ports_taken = true;
        btl_ib_report_ports_taken(search->params, device, error);
        return;
    }
    snprintf(reason, sizeof(reason), "%s%s%s", NULL != wire ? wire : "", NULL != wire ? ": " : "",
             strerror(error));
    btl_ib_rejected_devices_add(&search->failed, device->transport, device->name, reason);
    turn_down(search, device, "it could not be opened: %s", reason);
}

/* One process of the job tells what its system should be set to. */
static void report_system_limit(search_t *search, const btl_ib_transport_t *transport)
{
    const btl_ib_limit_t *limit = &transport->limit;

    if (NULL == limit->sysctl) {
        return;
    }
    BTL_IB_VERBOSE(1, "%s: %s is %u, too little: set it to %u", transport->name, limit->sysctl,
                   limit->is, limit->needed);
    if (!search->told_limit && 0 == search->request->rank) {
        search->told_limit = true;
        BTL_IB_SHOW_HELP("system limit", opal_process_info.nodename, transport->name, limit->sysctl,
                         limit->is, limit->sysctl, limit->needed);
    }
}

/* Is there a rail of this device already? */
static bool is_opened(const search_t *search, const btl_ib_device_t *device)
{
    bool found = false;

    for (uint32_t i = 0; i < search->count && !found; ++i) {
        const btl_ib_device_t *opened = &search->opened[i].device;

        found = 0 == strcmp(opened->name, device->name)
                && 0 == strcmp(opened->interface, device->interface)
                && opened->port == device->port;
    }
    return found;
}

/* Does its section want another transport or wire for a device, where the user leaves that open? */
static bool wants_other(search_t *search, const btl_ib_transport_type_t *type,
                        const btl_ib_device_t *device, const btl_ib_device_config_t *config)
{
    const char *other = NULL;

    if ('\0' == config->section[0]) {
        return false;
    }
    if ('\0' != config->transport[0] && 0 != strcmp(config->transport, type->name)) {
        other = config->transport;
    } else if (NULL != type->wire && '\0' != config->wire[0]
               && 0 != strcmp(config->wire, type->wire)) {
        other = config->wire;
    }
    if (NULL != other) {
        turn_down(search, device, "section [%s] of the device table wants %s for it, not %s",
                  config->section, other, NULL != type->wire ? type->wire : type->name);
    }
    return NULL != other;
}

static btl_ib_transport_t *open_device(search_t *search, const btl_ib_transport_type_t *type,
                                       const btl_ib_device_t *device, btl_ib_queue_table_t *table)
{
    const btl_ib_params_t *params = search->params;
    btl_ib_device_config_t config;
    btl_ib_transport_attr_t attr;
    btl_ib_transport_t *transport = NULL;
    btl_ib_open_params_t open;
    int rc;

    btl_ib_device_defaults_apply(&search->defaults, device, !is_opened(search, device), &config);
    if (wants_other(search, type, device, &config)) {
        return NULL;
    }
    rc = type->query(device, (uint32_t) config.mtu, &attr);
    if (0 != rc) {
        turn_down(search, device, "it cannot be asked: %s", strerror(-rc));
        return NULL;
    }
    /* libfabric's devices on the kernel's network stack take any port. */
    if (0 != params->port_min && device->plain && 0 == strcmp(type->name, "ofi")) {
        turn_down(search, device, "libfabric chooses its port, and btl_ib_port_min is set");
        return NULL;
    }
    if (!device_queues(search, type, device, &config, &attr, table)) {
        return NULL;
    }
    if (search->sized > 0
        && !btl_ib_wire_suffices(attr.connections_max, search->sized, table->count,
                                 (uint32_t) params->qps_per_port)) {
        turn_down(search, device,
                  "for %s it has %u connections, too few if all of %u processes were on this host "
                  "(btl_ib_wire rc takes it nevertheless)",
                  type->wire, attr.connections_max, search->sized);
        return NULL;
    }
    BTL_IB_VERBOSE(1, "device %s: receive queues stand for %" PRIu64 " bytes with one active peer",
                   device->name, btl_ib_queues_memory(table, 1));
    open_params(search, &config, table, &open);
    rc = type->open(device, &open, &transport);
    if (0 != rc) {
        open_failed(search, device, type->wire, -rc);
        return NULL;
    }
    report_system_limit(search, transport);
    return transport;
}

/* Make a rail of an open device. Closes the device if it cannot. */
static void add_rail(search_t *search, const btl_ib_transport_type_t *type,
                     const btl_ib_device_t *device, btl_ib_transport_t *transport,
                     const btl_ib_queue_table_t *table)
{
    btl_ib_opened_device_t *opened = &search->opened[search->count];
    const int rail = btl_ib_engine_add_rail(search->request->engine, transport, table);
    char text[512];

    if (rail != (int) search->count) {
        open_failed(search, device, NULL, rail < 0 ? -rail : EINVAL);
        transport->ops->close(transport);
        return;
    }
    ++search->count;
    opened->device = *device;
    opened->device.handle = NULL;
    opened->transport = transport;
    opened->bandwidth = device->bandwidth > 0 ? device->bandwidth : BANDWIDTH_UNKNOWN;
    if (search->request->bandwidth > 0) {
        opened->bandwidth = search->request->bandwidth;
    } else if (transport->attr.bandwidth > 0) {
        opened->bandwidth = transport->attr.bandwidth;
    }
    opened->bandwidth /= (uint32_t) search->params->qps_per_port; /* they share the port's */
    btl_ib_queues_format(table, text, sizeof(text));
    BTL_IB_VERBOSE(1, "rail %d is %s: %u bytes a datagram, %u Mbit/s%s, queues %s", rail,
                   transport->name, transport->attr.max_datagram, opened->bandwidth,
                   device->loopback ? ", this host only" : "", text);
    if (btl_ib_is_verbose(1) && 0 == opal_process_info.my_local_rank) {
        type->describe(device, text, sizeof(text));
        BTL_IB_VERBOSE(1, "rail %d: device %s on host %s: %s", rail, device->name,
                       opal_process_info.nodename, text);
    }
}

/* ---- which ones ---- */

/* Open each of these devices, then once more those that could be, as often as there are to be rails
 * over each port: a second rail of one device comes after the first of all others, so that peers
 * with fewer for each are joined port by port. */
static void open_all(search_t *search, const btl_ib_transport_type_t *type,
                     const btl_ib_device_t *list, int count)
{
    btl_ib_queue_table_t table;

    for (int n = 0; n < count * search->params->qps_per_port; ++n) {
        const btl_ib_device_t *device = &list[n % count];
        btl_ib_transport_t *transport;

        if (BTL_IB_RAILS_MAX == search->count || search->ports_taken) {
            BTL_IB_VERBOSE(1, "no rail over %s, as %s", device->name,
                           search->ports_taken ? "no port is left" : "there are 16 already");
            return;
        }
        transport = n < count || is_opened(search, device)
                        ? open_device(search, type, device, &table)
                        : NULL;
        if (NULL != transport) {
            add_rail(search, type, device, transport, &table);
        }
    }
}

/* Open the devices of one type of transport that are wanted. */
static void open_type(search_t *search, const btl_ib_transport_type_t *type)
{
    const btl_ib_params_t *params = search->params;
    btl_ib_device_t *list = NULL;
    const btl_ib_search_t wanted = {
        .provider = params->ofi_provider,
        .fork_safe = params->fork_safe,
        .gid_index = params->gid_index,
        .log = btl_ib_log_table(search->request->log),
    };
    const int count = type->devices(&wanted, &list);
    int selected;

    if (count < 0) {
        BTL_IB_VERBOSE(1, "transport %s turned down: %s", type->name, strerror(-count));
        btl_ib_rejected_devices_add(&search->rejected, type->name, NULL, strerror(-count));
        btl_ib_rejected_devices_add(&search->failed, type->name, NULL, strerror(-count));
        return;
    }
    if (0 == count && btl_ib_named_provider(params) && 0 != strcmp("ofi", type->name)) {
        btl_ib_rejected_devices_add(&search->rejected, type->name, NULL,
                                    "btl_ib_ofi_provider is set, which only transport ofi has");
    }
    btl_ib_links_mark_host_only(list, count, &wanted.log);
    selected = btl_ib_devices_select(list, count, &search->filter, &wanted.log);
    open_all(search, type, list, selected);
    type->devices_free(list, count);
}

/* Is there nothing yet, and may more be tried? */
static bool goes_on(const search_t *search)
{
    return 0 == search->count && !search->ports_taken;
}

/* Open a transport that has several wires. */
static void open_wires(search_t *search, const char *name)
{
    const btl_ib_params_t *params = search->params;
    const uint32_t processes = btl_ib_compat_universe_size();
    btl_ib_wire_try_t tries[BTL_IB_WIRE_TRIES];
    const int count =
        btl_ib_wire_plan(params->wire, processes, (uint32_t) params->rc_max_peers, tries);

    for (int pass = 0; pass < count; ++pass) {
        search->sized = tries[pass].sized ? processes : 0;
        for (size_t i = 0; NULL != btl_ib_transport_types[i] && goes_on(search); ++i) {
            const btl_ib_transport_type_t *type = btl_ib_transport_types[i];

            if (0 == strcmp(name, type->name) && 0 == strcmp(tries[pass].wire, type->wire)) {
                open_type(search, type);
            }
        }
    }
    search->sized = 0;
}

/* Open transports of that name (NULL: any) until one has something to open. */
static void open_types(search_t *search, const char *name)
{
    const char *last = "";

    for (size_t i = 0; NULL != btl_ib_transport_types[i] && goes_on(search); ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];

        if (0 == strcmp(last, type->name) || (NULL != name && 0 != strcmp(name, type->name))) {
            continue;
        }
        last = type->name;
        if (NULL == type->wire) {
            open_type(search, type);
        } else {
            open_wires(search, type->name);
        }
    }
}

/* Open the first transport that has something to open: RDMA devices before others. */
static void open_any(search_t *search)
{
    for (int pass = btl_ib_rdma_present() ? 0 : 1; pass < 2; ++pass) {
        search->filter.rdma_only = 0 == pass;
        if (goes_on(search)) {
            /* the second pass looks again at what the first rejected */
            btl_ib_rejected_devices_clear(&search->rejected);
            open_types(search, NULL);
        }
    }
}

/* Read what says which devices are wanted, and how. Returns false after a help text. */
static bool read_wishes(search_t *search)
{
    const btl_ib_params_t *params = search->params;

    return btl_ib_device_defaults_read(&search->defaults, params) && parse_queues(search)
           && parse_list("if_include", params->if_include, &search->filter.include)
           && parse_list("if_exclude", params->if_exclude, &search->filter.exclude);
}

/* Open what there is, and tell of the rest. */
static void open_wanted(search_t *search)
{
    const btl_ib_open_request_t *request = search->request;

    btl_ib_log_collect(request->log, &search->rejected);
    if (btl_ib_any_transport(search->params)) {
        open_any(search);
    } else {
        open_types(search, search->params->transport);
    }
    btl_ib_log_collect(request->log, NULL);
    if (search->ports_taken) {
        search->count = 0;
    } else if (0 == search->count) {
        btl_ib_report_no_device(request, &search->rejected, &search->failed);
    } else {
        btl_ib_report_unused(request, search->opened, search->count, &search->filter.include,
                             &search->rejected, &search->failed);
    }
}

uint32_t btl_ib_open_devices(const btl_ib_open_request_t *request,
                             btl_ib_opened_device_t opened[BTL_IB_RAILS_MAX])
{
    search_t search = {.request = request, .params = request->params, .opened = opened};

    if (read_wishes(&search)) {
        open_wanted(&search);
    }
    btl_ib_device_defaults_free(&search.defaults);
    return search.count;
}
