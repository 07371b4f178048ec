/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_open_devices.h"

#include "btl_ib_device_plan.h"
#include "btl_ib_help.h"
#include "btl_ib_locality.h"
#include "net_interfaces.h"
#include "published_address.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- near devices ---- */

/* A device on its way through the choice. */
typedef struct found {
    btl_ib_device_t device;
    btl_ib_device_place_t place;
} found_t;

static btl_ib_device_place_t place_of(btl_ib_near_devices_t *near, const btl_ib_device_t *device)
{
    if (!near->looked) {
        const char *why_not = btl_ib_topology_open(&near->topology, btl_ib_ompi_topology());

        near->looked = true;
        if (why_not != NULL) {
            BTL_IB_VERBOSE(1, "locality: nothing is known: %s", why_not);
        }
    }
    return btl_ib_topology_find(&near->topology, device->name, device->interface);
}

int btl_ib_near_devices_node(btl_ib_near_devices_t *near, const btl_ib_device_t *device)
{
    return place_of(near, device).node;
}

/* True if both lead to the same network, as far as this host can know. */
static bool same_network(const btl_ib_device_t *a, const btl_ib_device_t *b)
{
    const struct sockaddr *first = (const struct sockaddr *) (const void *) &a->ip;
    const struct sockaddr *second = (const struct sockaddr *) (const void *) &b->ip;
    const unsigned bits = a->prefix_bits < b->prefix_bits ? a->prefix_bits : b->prefix_bits;
    size_t len;

    if (a->loopback != b->loopback || a->ip.ss_family != b->ip.ss_family) {
        return false;
    }
    if (a->ip.ss_family == AF_UNSPEC) {
        return true;
    }
    return !btl_ib_ip_link_local(first) && !btl_ib_ip_link_local4(first)
           && btl_ib_ip_same_bits(btl_ib_ip_bytes(first, &len), btl_ib_ip_bytes(second, &len),
                                  bits);
}

static void fill_candidates(const found_t *found, uint32_t count, btl_ib_candidate_t *candidates)
{
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t network = 0;

        while (network < i && !same_network(&found[network].device, &found[i].device)) {
            ++network;
        }
        candidates[i] = (btl_ib_candidate_t){
            .distance = found[i].place.distance,
            .network = network,
            .bandwidth = found[i].device.bandwidth,
        };
    }
}

static uint32_t max_of(const btl_ib_params_t *params)
{
    return params->max_btls != 0 ? (uint32_t) params->max_btls : BTL_IB_FIRST_RAILS_MAX;
}

/* Logs what becomes of a device, and why. */
static void tell_choice(const btl_ib_near_devices_t *near, const found_t *found,
                        const btl_ib_locality_choice_t *choice)
{
    const found_t *one = &found[choice->device];
    const bool over = choice->verdict == BTL_IB_LOCALITY_OVER_MAX;
    const bool stands_by = over && near->params->max_btls == 0;
    char where[48] = "not asked for";
    char reason[128] = "";

    if (near->looked) {
        snprintf(where, sizeof(where), "%" PRIu32, one->place.distance);
    }
    if (one->place.node >= 0) {
        snprintf(where + strlen(where), sizeof(where) - strlen(where), ", NUMA node %d",
                 one->place.node);
    }
    if (choice->verdict == BTL_IB_LOCALITY_FARTHER) {
        snprintf(reason, sizeof(reason),
                 "farther than %s: distance %" PRIu32 " instead of %" PRIu32
                 " (btl_ib_locality near)",
                 found[choice->better].device.name, one->place.distance,
                 found[choice->better].place.distance);
    } else if (over) {
        snprintf(reason, sizeof(reason),
                 near->params->max_btls != 0 ? "btl_ib_max_btls is %d"
                                             : "there are %d that are nearer, faster or come first",
                 (int) max_of(near->params));
    }
    BTL_IB_VERBOSE(1, "locality: %s/%s: %s, distance %s%s%s", one->device.transport,
                   one->device.name,
                   reason[0] == '\0' ? "used"
                   : stands_by       ? "stands by"
                                     : "not used",
                   where, reason[0] == '\0' ? "" : ": ", reason);
    if (reason[0] != '\0' && !stands_by) {
        btl_ib_turned_down_devices_add(near->turned_down, one->device.transport, one->device.name,
                                       reason);
    }
}

/* Does the work of near_devices_choose(), with arrays of `count` for it. */
static int choose_near(btl_ib_near_devices_t *near, btl_ib_device_t *list, uint32_t count,
                       found_t *found, btl_ib_candidate_t *candidates,
                       btl_ib_locality_choice_t *choices)
{
    const btl_ib_params_t *params = near->params;
    const btl_ib_locality_rule_t rule = {
        .ranked = strcmp(params->locality, "ignore") != 0,
        .near_only = strcmp(params->locality, "near") == 0,
        .max = max_of(params),
        /* 65535 if the runtime does not say: any number will do. */
        .position = (uint32_t) opal_process_info.my_local_rank,
    };
    uint32_t used;

    for (uint32_t i = 0; i < count; ++i) {
        found[i] = (found_t){.device = list[i], .place = {.node = -1}};
        /* Reading the topology is worth it only where there is a choice. */
        if (rule.ranked && (count > 1 || btl_ib_is_verbose(1))) {
            found[i].place = place_of(near, &list[i]);
        }
    }
    fill_candidates(found, count, candidates);
    used = btl_ib_locality_choose(candidates, count, &rule, choices);
    for (uint32_t i = 0; i < count; ++i) {
        list[i] = found[choices[i].device].device;
        tell_choice(near, found, &choices[i]);
    }
    return (int) used;
}

/* Sorts `list` as btl_ib_locality and btl_ib_max_btls say: the devices to be used, in order, then
 * the others. Returns how many are to be used. */
static int near_devices_choose(btl_ib_near_devices_t *near, btl_ib_device_t *list, int count)
{
    const size_t size = count > 0 ? (size_t) count : 1;
    found_t *found = calloc(size, sizeof(*found));
    btl_ib_candidate_t *candidates = calloc(size, sizeof(*candidates));
    btl_ib_locality_choice_t *choices = calloc(size, sizeof(*choices));

    if (found != NULL && candidates != NULL && choices != NULL) {
        count = choose_near(near, list, (uint32_t) count, found, candidates, choices);
    }
    free(choices);
    free(candidates);
    free(found);
    return count;
}

/* ---- what is said of devices ---- */

/* Bytes for so many lines with a name and a reason of full length. */
#define LIST_SIZE (BTL_IB_TURNED_DOWN_MAX * sizeof(btl_ib_turned_down_device_t) + 64)

static bool is_set(const char *value)
{
    return value != NULL && value[0] != '\0';
}

static const char *shown(const char *value)
{
    return is_set(value) ? value : "(not set)";
}

bool btl_ib_any_transport(const btl_ib_params_t *params)
{
    return !is_set(params->transport) || strcmp(params->transport, "auto") == 0;
}

void btl_ib_transports_text(char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; btl_ib_transport_types[i] != NULL; ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];
        const size_t len = strlen(out);

        snprintf(out + len, size - len, "%s%s%s%s", i > 0 ? ", " : "", type->name,
                 type->wire != NULL ? "/" : "", type->wire != NULL ? type->wire : "");
    }
}

bool btl_ib_library_text(size_t number, bool load, char *out, size_t size)
{
    const btl_ib_transport_type_t *const *type = &btl_ib_transport_types[number];

    if ((*type)->library == NULL || (number > 0 && type[-1]->library == (*type)->library)) {
        return false;
    }
    (*type)->library(load, out, size);
    return true;
}

/* True if the user asked for a provider of libfabric, which only transport ofi has. */
static bool named_provider(const btl_ib_params_t *params)
{
    return is_set(params->ofi_provider);
}

static const char *advice_on_verbs(void)
{
    if (btl_ib_rdma_present()) {
        return "\"rdma link\" shows ports, their states and interfaces, ibv_devinfo what\n"
               "this process may use. A container needs the files of the devices (docker\n"
               "run --device=/dev/infiniband).";
    }
    return "\"rdma link\" is to show a device. Is the driver of the adapter loaded\n"
           "(lspci, dmesg; mlx5_ib, irdma, bnxt_re, qedr, ...)? In a container: does\n"
           "the host have one, and was it given to it (docker run\n"
           "--device=/dev/infiniband)? For a test without an adapter, as root:\n"
           "rdma link add rxe0 type rxe netdev <interface>.";
}

/* Returns what to do where there is no device. */
static const char *no_device_advice(const btl_ib_params_t *params,
                                    const btl_ib_turned_down_devices_t *failed)
{
    const bool any = btl_ib_any_transport(params);

    if (failed->count > 0) {
        return "What could not be opened may be in use, or this process may not use it: a\n"
               "container has to be given devices and rights (docker run --device=,\n"
               "--cap-add=, --ulimit memlock=-1).";
    }
    if (!any && strcmp(params->transport, "verbs") == 0) {
        return advice_on_verbs();
    }
    if ((!any && strcmp(params->transport, "ofi") == 0) || named_provider(params)) {
        return "\"fi_info -t FI_EP_DGRAM\" shows the datagram providers of libfabric and\n"
               "their domains; btl_ib_ofi_provider is the name of one.";
    }
    if (is_set(params->if_include) || is_set(params->if_exclude)) {
        return "\"ip address\" shows interfaces and their networks, \"rdma link\" RDMA\n"
               "devices; btl_ib_if_include and btl_ib_if_exclude choose among them.";
    }
    return "An interface has to be up, with an IP address (ip link set <interface> up;\n"
           "ip address).";
}

/* Reports that there is no device, with the reasons. `failed`: those of `turned_down` that could
 * not be opened. Only users that asked for ib are told. */
static void report_no_device(const btl_ib_open_request_t *request,
                             const btl_ib_turned_down_devices_t *turned_down,
                             const btl_ib_turned_down_devices_t *failed)
{
    const btl_ib_params_t *params = request->params;
    char *list = malloc(LIST_SIZE);

    BTL_IB_VERBOSE(1, "no device fits: not used");
    /* btl_ib_auto only allows ib. A user asked for it who named ib, a device or a transport. */
    if (list != NULL
        && (request->named || is_set(params->if_include) || !btl_ib_any_transport(params)
            || named_provider(params))) {
        btl_ib_turned_down_devices_format(turned_down, list, LIST_SIZE);
        BTL_IB_SHOW_HELP("nothing left", opal_process_info.nodename, shown(params->transport),
                         shown(params->if_include), shown(params->if_exclude),
                         shown(params->ofi_provider), list, no_device_advice(params, failed));
    }
    free(list);
}

/* Reports, though `count` devices are used, those that could not be opened, and entries of
 * btl_ib_if_include that match nothing. */
static void report_unused(const btl_ib_open_request_t *request,
                          const btl_ib_opened_device_t *opened, uint32_t count,
                          const btl_ib_device_list_t *include,
                          const btl_ib_turned_down_devices_t *turned_down,
                          const btl_ib_turned_down_devices_t *failed)
{
    char *list = malloc(LIST_SIZE);
    char used[512] = "";

    if (list == NULL) {
        return;
    }
    for (uint32_t i = 0; i < count; ++i) {
        const size_t len = strlen(used);

        snprintf(used + len, sizeof(used) - len, "%s%s", i > 0 ? ", " : "",
                 opened[i].transport->name);
    }
    if (failed->count > 0) {
        btl_ib_turned_down_devices_format(failed, list, LIST_SIZE);
        BTL_IB_SHOW_HELP("passed over", opal_process_info.nodename, used, list);
    }
    btl_ib_turned_down_devices_format(turned_down, list, LIST_SIZE);
    for (uint32_t i = 0; i < include->count; ++i) {
        if (!include->entry[i].matched) {
            BTL_IB_SHOW_HELP("include without effect", opal_process_info.nodename,
                             include->entry[i].text, request->params->if_include, used, list);
        }
    }
    free(list);
}

/* Reports that no port of the range can be had for a device; `error` is the errno. */
static void report_ports_taken(const btl_ib_params_t *params, const btl_ib_device_t *device,
                               int error)
{
    const bool pairs = strcmp(device->transport, "udp") == 0 && params->bulk_lane;
    const unsigned needed = (pairs ? 2u : 1u) * (unsigned) params->qps_per_port;
    const unsigned ranks = btl_ib_ompi_local_processes();
    const unsigned last = (unsigned) params->port_min + (unsigned) params->port_range - 1;

    /* Each process tells: the first one of the host may be the one that found a port. */
    btl_ib_show_help("ports taken", opal_process_info.nodename, device->transport, device->name,
                     (unsigned) params->port_min, last < UINT16_MAX ? last : UINT16_MAX,
                     strerror(error), needed, ranks, ranks * needed);
}

/* ---- opening ---- */

/* Mbit/s of a device that does not tell its bandwidth. */
#define BANDWIDTH_UNKNOWN 1000

/* Data that all steps share: too large for a stack, which may have 64 KiB (ulimit -s). */
typedef struct search {
    const btl_ib_open_request_t *request;
    const btl_ib_params_t *params;
    btl_ib_opened_device_t *opened;
    uint32_t count; /* of them */
    btl_ib_device_wishes_t wishes;
    btl_ib_near_devices_t near;
    btl_ib_device_plan_t plan; /* of the device in hand */
    uint64_t memory;           /* bytes that each device may take; 0: no limit */
    uint32_t sized; /* devices must have connections for so many processes; 0: they need not */
    bool told_clamped;
    bool told_without_effect;
    bool told_limit;
    uint32_t told_faults; /* bits: entries of the table of known faults */
    bool ports_taken;     /* of those that may be used: nothing else is tried */
    btl_ib_turned_down_devices_t *turned_down; /* the request's */
    btl_ib_turned_down_devices_t failed;       /* those that could not be opened */
} search_t;

/* Turns down a device that was found, but cannot be used. */
__attribute__((format(printf, 3, 4))) static void
turn_down(search_t *search, const btl_ib_device_t *device, const char *format, ...)
{
    char reason[160];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    BTL_IB_VERBOSE(1, "device %s turned down: %s", device->name, reason);
    btl_ib_turned_down_devices_add(search->turned_down, device->transport, device->name, reason);
}

/* ---- one device ---- */

/* Notes that a device that ought to work cannot be opened. `refused`: the system call that failed,
 * or NULL. */
static void open_failed(search_t *search, const btl_ib_device_t *device, const char *wire,
                        const char *refused, int error)
{
    char reason[128];

    /* A range of ports is for a firewall: a port outside of it would only fail later. So if no port
     * of the range is left, that is an error, no reason to use another device. */
    if (search->params->port_min != 0 && device->rank == BTL_IB_RANK_FIRST
        && (error == EADDRINUSE || (error == EACCES && device->plain))) {
        search->ports_taken = true;
        report_ports_taken(search->params, device, error);
        return;
    }
    snprintf(reason, sizeof(reason), "%s%s%s%s%s", wire != NULL ? wire : "",
             wire != NULL ? ": " : "", refused != NULL ? refused : "", refused != NULL ? ": " : "",
             strerror(error));
    if (device->rank == BTL_IB_RANK_FIRST) { /* one that stands by may never be needed */
        btl_ib_turned_down_devices_add(&search->failed, device->transport, device->name, reason);
    }
    turn_down(search, device, "it could not be opened: %s", reason);
}

/* Logs to what a limit of the system should be set, and reports it once, by rank 0. */
static void report_system_limit(search_t *search, const btl_ib_transport_t *transport)
{
    const btl_ib_limit_t *limit = &transport->limit;
    char now[96] = "";
    char wanted[96] = "";

    if (limit->sysctl[0] == NULL) {
        return;
    }
    for (int i = 0; i < 2 && limit->sysctl[i] != NULL; ++i) {
        const size_t len = strlen(now);
        const size_t wanted_len = strlen(wanted);

        snprintf(now + len, sizeof(now) - len, "%s%s = %u", i == 0 ? "" : ", ", limit->sysctl[i],
                 limit->is[i]);
        snprintf(wanted + wanted_len, sizeof(wanted) - wanted_len, " %s=%u", limit->sysctl[i],
                 limit->needed);
    }
    BTL_IB_VERBOSE(1, "%s: too little: %s; set%s", transport->name, now, wanted);
    if (!search->told_limit && search->request->rank == 0) {
        search->told_limit = true;
        BTL_IB_SHOW_HELP("system limit", opal_process_info.nodename, transport->name, now, wanted);
    }
}

/* True if there is a rail of this device already. */
static bool is_opened(const search_t *search, const btl_ib_device_t *device)
{
    bool found = false;

    for (uint32_t i = 0; i < search->count && !found; ++i) {
        const btl_ib_device_t *opened = &search->opened[i].device;

        found = strcmp(opened->name, device->name) == 0
                && strcmp(opened->interface, device->interface) == 0
                && opened->port == device->port;
    }
    return found;
}

/* Reports once, by rank 0, that the user's queues do not fit the device. */
static void report_clamped(search_t *search, const btl_ib_device_t *device,
                           const btl_ib_device_plan_t *plan)
{
    char used[512];

    if (plan->clamped && !search->told_clamped && search->request->rank == 0) {
        search->told_clamped = true;
        btl_ib_queues_format(&plan->queues, used, sizeof(used));
        BTL_IB_SHOW_HELP("queues clamped", opal_process_info.nodename, device->name,
                         plan->attr.max_datagram, search->params->receive_queues, used);
    }
}

/* Reports once, by rank 0, which numbers of the user's queues govern nothing over a transport. */
static void report_without_effect(search_t *search, const btl_ib_transport_type_t *type,
                                  const btl_ib_device_t *device)
{
    const char *spec = search->params->receive_queues;
    char text[256];

    if (search->params->queues_by_user && !search->told_without_effect && search->request->rank == 0
        && btl_ib_queues_without_effect(spec, &search->wishes.user_queues, type, search->params,
                                        text, sizeof(text))
               > 0) {
        search->told_without_effect = true;
        BTL_IB_SHOW_HELP("queues without effect", opal_process_info.nodename, device->name,
                         type->wire != NULL ? type->wire : type->name, spec, text);
    }
}

/* Fits the queues of a device that is about to be opened into `bytes`. Prints it if that changes
 * the queues, or none fit; `name`: the device; NULL: do not print, as it was for another rail of
 * the device. */
static void apply_memory_max(const btl_ib_process_sizes_t *sizes,
                             const btl_ib_transport_type_t *type, const char *name, uint32_t peers,
                             uint64_t bytes, btl_ib_device_plan_t *plan)
{
    char before[512], after[512];
    btl_ib_memory_max_info_t info;

    btl_ib_queues_format(&plan->queues, before, sizeof(before));
    info = btl_ib_memory_max_fit(sizes, type, peers, bytes, plan);
    btl_ib_queues_format(&plan->queues, after, sizeof(after));
    if (info.wanted > bytes && name != NULL && opal_process_info.my_local_rank == 0) {
        opal_output(0,
                    "btl_ib: %s: with %" PRIu32 " peers it takes %" PRIu64
                    " bytes of each process with receive queues %s; btl_ib_memory_max leaves it "
                    "%" PRIu64 ": %s are used, with which it takes %" PRIu64 "%s",
                    name, peers, info.wanted, before, bytes, after, info.taken,
                    info.taken > bytes ? ", as none take less" : "");
    }
}

static btl_ib_transport_t *open_device(search_t *search, const btl_ib_transport_type_t *type,
                                       const btl_ib_device_t *device, btl_ib_device_plan_t *plan)
{
    const bool tell = !is_opened(search, device);
    btl_ib_transport_t *transport = NULL;
    const char *refused = NULL;
    btl_ib_open_params_t open;
    int rc;

    if (!btl_ib_device_plan(&search->wishes, type, device, search->sized, plan)) {
        turn_down(search, device, "%s", plan->why_not);
        return NULL;
    }
    report_clamped(search, device, plan);
    report_without_effect(search, type, device);
    if (search->memory != 0) {
        apply_memory_max(search->request->sizes, type, tell ? device->name : NULL,
                         search->request->peers, search->memory, plan);
    }
    btl_ib_device_plan_avoid_faults(&search->wishes, type, plan);
    open = plan->open;
    open.log = btl_ib_log_table(search->request->log);
    open.refused = &refused;
    rc = type->open(device, &open, &transport);
    if (rc != 0) {
        open_failed(search, device, type->wire, refused, -rc);
        return NULL;
    }
    report_system_limit(search, transport);
    return transport;
}

/* Logs driver, firmware, speed and MTU of a device. An RDMA device of software (rxe, siw) has no
 * driver of its own: its interface says more. */
static void tell_facts(const btl_ib_transport_type_t *type, const btl_ib_device_t *device, int rail)
{
    char text[192];
    char below[144] = "";
    btl_ib_facts_t facts;

    type->facts(device, &facts);
    btl_ib_facts_format(&facts, text, sizeof(text));
    if (!device->plain && device->interface[0] != '\0') {
        btl_ib_facts_interface(device->interface, &facts);
        snprintf(below, sizeof(below), ", interface %s (driver %s, MTU %u)", device->interface,
                 facts.driver[0] != '\0' ? facts.driver : "unknown", facts.mtu);
    }
    BTL_IB_VERBOSE(1, "rail %d: device %s on host %s: %s%s", rail, device->name,
                   opal_process_info.nodename, text, below);
}

/* Gets the facts of a device that the table of known faults may need. Facts of a network interface
 * beyond its driver take sockets, so they are asked for only if the table names the driver. */
static void get_facts_of_faults(const btl_ib_transport_type_t *type, const btl_ib_device_t *device,
                                btl_ib_facts_t *facts)
{
    *facts = (btl_ib_facts_t){.speed = 0};
    if (device->plain) {
        btl_ib_facts_driver("net", device->interface, facts->driver, sizeof(facts->driver));
    }
    if (!device->plain || btl_ib_known_faults_name(facts->driver)) {
        type->facts(device, facts);
    }
}

/* Reports known faults of the kernel, or of the device's firmware: logs all, and shows a help text,
 * once, by rank 0, for those that cost something and are not the user's wish. */
static void report_known_faults(search_t *search, const btl_ib_transport_type_t *type,
                                const btl_ib_device_t *device)
{
    const bool gso_auto = strcmp(search->params->udp_gso, "auto") == 0;
    const btl_ib_known_fault_t *fault = NULL;
    btl_ib_fault_query_t query;
    btl_ib_facts_t facts;

    get_facts_of_faults(type, device, &facts);
    btl_ib_device_fault_query(&search->wishes, device, &facts, &query);
    while ((fault = btl_ib_known_fault_next(&query, fault)) != NULL) {
        const uint32_t bit = UINT32_C(1) << (fault - btl_ib_known_faults);
        char version[160];

        if ((search->told_faults & bit) != 0) {
            continue;
        }
        search->told_faults |= bit;
        btl_ib_known_fault_version(fault, &query, version, sizeof(version));
        BTL_IB_VERBOSE(1, "%s: %s: known to be bad: %s: %s (%s)", device->name, version, fault->bad,
                       fault->effect, fault->source);
        if (search->request->rank == 0 && search->params->warn_known_faults && !fault->log_only
            && (gso_auto || !fault->of_gso)) {
            BTL_IB_SHOW_HELP("known fault", opal_process_info.nodename, device->name, version,
                             fault->bad, fault->effect, fault->source, fault->remedy);
        }
    }
}

/* Makes a rail of an open device. Closes the device if it cannot. */
static void add_rail(search_t *search, const btl_ib_transport_type_t *type,
                     const btl_ib_device_t *device, btl_ib_transport_t *transport,
                     const btl_ib_device_plan_t *plan)
{
    btl_ib_opened_device_t *opened = &search->opened[search->count];
    const int rail = btl_ib_engine_add_rail(search->request->engine, transport, &plan->queues);
    char text[512];

    if (rail != (int) search->count) {
        open_failed(search, device, NULL, NULL, rail < 0 ? -rail : EINVAL);
        transport->ops->close(transport);
        return;
    }
    ++search->count;
    opened->device = *device;
    opened->device.handle = NULL;
    opened->transport = transport;
    opened->type = type;
    opened->queues = plan->queues;
    opened->bandwidth = device->bandwidth > 0 ? device->bandwidth : BANDWIDTH_UNKNOWN;
    if (search->request->bandwidth > 0) {
        opened->bandwidth = search->request->bandwidth;
    } else if (transport->attr.bandwidth > 0) {
        opened->bandwidth = transport->attr.bandwidth;
    }
    opened->bandwidth /= (uint32_t) search->params->qps_per_port; /* they share the port's */
    btl_ib_queues_format(&plan->queues, text, sizeof(text));
    if (device->rank != BTL_IB_RANK_FIRST) {
        btl_ib_engine_rail_stands_by(search->request->engine, (uint32_t) rail);
    }
    BTL_IB_VERBOSE(1, "rail %d is %s: %u bytes a datagram, %u Mbit/s%s%s, queues %s", rail,
                   transport->name, transport->attr.max_datagram, opened->bandwidth,
                   device->loopback ? ", this host only" : "",
                   device->rank != BTL_IB_RANK_FIRST ? ", stands by" : "", text);
    if (btl_ib_is_verbose(1) && opal_process_info.my_local_rank == 0) {
        tell_facts(type, device, rail);
    }
    if (search->request->rank == 0
        || (btl_ib_is_verbose(1) && opal_process_info.my_local_rank == 0)) {
        report_known_faults(search, type, device);
    }
}

static void print_memory(const char *device, const char *owner, const char *what, uint32_t peers,
                         uint64_t now, const btl_ib_estimate_bytes_t *then)
{
    opal_output(0,
                "btl_ib: memory of %s: %s: %s: %" PRIu64 " bytes now, %" PRIu64
                " with %u peers, %" PRIu64 " at most",
                device, owner, what, now, then->held, peers, then->most);
}

/* Reports what memory a device takes: in sum for the log, and by its parts if that was asked
 * for. */
static void report_memory(const search_t *search, const btl_ib_transport_type_t *type,
                          const btl_ib_device_t *device, const btl_ib_device_plan_t *plan)
{
    const bool parts = search->params->memory_report;
    const uint32_t peers = search->request->peers;
    /* One process tells, as all of a host are alike. */
    const bool told = (parts || btl_ib_is_verbose(1)) && opal_process_info.my_local_rank == 0;
    btl_ib_memory_estimate_t *now = told ? calloc(2, sizeof(*now)) : NULL; /* not on a stack */

    if (now == NULL) {
        return;
    }

    btl_ib_memory_estimate_t *const then = now + 1;
    btl_ib_device_memory_estimate(search->request->sizes, type, plan, 0, now);
    btl_ib_device_memory_estimate(search->request->sizes, type, plan, peers, then);
    for (uint32_t i = 0; parts && i < then->count; ++i) {
        const btl_ib_estimate_part_t *part = &then->part[i];

        print_memory(device->name, btl_ib_estimate_owners[part->owner], part->what, peers,
                     now->part[i].bytes.held, &part->bytes);
    }
    for (int i = 0; i < BTL_IB_ESTIMATE_OWNERS; ++i) {
        print_memory(device->name, btl_ib_estimate_owners[i], "all", peers, now->all[i].held,
                     &then->all[i]);
    }
    free(now);
}

/* ---- which ones ---- */

/* Opens `count` devices, and then again those that could be opened, until each has qps_per_port
 * rails. The first rails of all devices come before all second ones, so that a peer with fewer
 * rails of each port is joined port by port. */
static void open_all(search_t *search, const btl_ib_transport_type_t *type,
                     const btl_ib_device_t *list, int count)
{
    const int rails = count * search->params->qps_per_port;
    btl_ib_device_plan_t *plan = &search->plan;

    search->memory = rails > 0 ? search->request->memory_max / (uint64_t) rails : 0;
    if (search->request->memory_max != 0 && search->memory == 0) {
        search->memory = 1;
    }
    for (int n = 0; n < rails; ++n) {
        const btl_ib_device_t *device = &list[n % count];
        btl_ib_transport_t *transport;

        if (search->count == BTL_IB_FIRST_RAILS_MAX || search->ports_taken) {
            BTL_IB_VERBOSE(1, "no rail over %s, as %s", device->name,
                           search->ports_taken ? "no port is left" : "there are 16 already");
            return;
        }
        transport =
            n < count || is_opened(search, device) ? open_device(search, type, device, plan) : NULL;
        if (transport != NULL) {
            add_rail(search, type, device, transport, plan);
            report_memory(search, type, device, plan);
        }
    }
}

/* True if a device may stand by: any device does unless btl_ib_max_btls is set; then it has to be
 * another address of an interface that has a rail. */
static bool may_stand_by(const search_t *search, const btl_ib_device_t *device)
{
    bool found = device->rank != BTL_IB_RANK_FIRST && search->params->max_btls == 0;

    for (uint32_t i = 0; i < search->count && !found; ++i) {
        found = strcmp(search->opened[i].device.interface, device->interface) == 0;
    }
    return found;
}

/* Opens devices that stand by: each once, as long as there are less than BTL_IB_RAILS_MAX rails. */
static void open_standby(search_t *search, const btl_ib_transport_type_t *type,
                         btl_ib_device_t *list, int count)
{
    btl_ib_device_plan_t *plan = &search->plan;

    if (search->count + (uint32_t) count > BTL_IB_RAILS_MAX) {
        btl_ib_devices_sort(list, count);
    }
    for (int i = 0; i < count && !search->ports_taken; ++i) {
        btl_ib_transport_t *transport = NULL;

        if (!may_stand_by(search, &list[i])) {
            continue;
        }
        if (search->count == BTL_IB_RAILS_MAX) {
            turn_down(search, &list[i], "there are %u rails already", BTL_IB_RAILS_MAX);
            if (search->request->left_aside != NULL) {
                ++*search->request->left_aside;
            }
        } else if ((transport = open_device(search, type, &list[i], plan)) != NULL) {
            add_rail(search, type, &list[i], transport, plan);
        }
    }
}

/* True if no device was opened yet, and others may be tried. */
static bool goes_on(const search_t *search)
{
    return search->count == 0 && !search->ports_taken;
}

/* Opens the wanted devices of one type of transport: the near ones; if none of these can be opened,
 * others; and those that stand by. */
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
    int first;
    int near;

    if (count < 0) {
        BTL_IB_VERBOSE(1, "transport %s turned down: %s", type->name, strerror(-count));
        btl_ib_turned_down_devices_add(search->turned_down, type->name, NULL, strerror(-count));
        btl_ib_turned_down_devices_add(&search->failed, type->name, NULL, strerror(-count));
        return;
    }
    if (count == 0 && named_provider(params) && strcmp("ofi", type->name) != 0) {
        btl_ib_turned_down_devices_add(search->turned_down, type->name, NULL,
                                       "btl_ib_ofi_provider is set, which only transport ofi has");
    }
    btl_ib_links_mark_host_only(list, count, &wanted.log);
    selected = btl_ib_devices_select(list, count, &search->wishes.filter, &wanted.log);
    for (int i = 0; i < selected; ++i) {
        (void) btl_ib_published_address(params->udp_address, params->port_min != 0, &list[i]);
    }
    first = btl_ib_devices_first(list, selected);
    if (first > BTL_IB_FIRST_RAILS_MAX) {
        btl_ib_devices_sort(list, first);
    }
    near = near_devices_choose(&search->near, list, first);
    open_all(search, type, list, near);
    if (goes_on(search)) {
        open_all(search, type, list + near, first - near);
    } else if (near == BTL_IB_FIRST_RAILS_MAX) {
        /* Devices beyond the first 16 stand by, unless the user set a limit: perhaps only they lead
         * to some peer. */
        for (int i = near; i < first && params->max_btls == 0; ++i) {
            list[i].rank = BTL_IB_RANK_ADDRESS;
        }
        open_standby(search, type, list + near, first - near);
    }
    open_standby(search, type, list + first, selected - first);
    type->devices_free(list, count);
}

/* Opens a transport that has several wires. */
static void open_wires(search_t *search, const char *name)
{
    const btl_ib_params_t *params = search->params;
    const uint32_t processes = search->request->processes;
    btl_ib_wire_try_t tries[BTL_IB_WIRE_TRIES];
    const int count =
        btl_ib_wire_plan(params->wire, processes, (uint32_t) params->rc_max_peers, tries);

    for (int pass = 0; pass < count; ++pass) {
        search->sized = tries[pass].sized ? processes : 0;
        for (size_t i = 0; btl_ib_transport_types[i] != NULL && goes_on(search); ++i) {
            const btl_ib_transport_type_t *type = btl_ib_transport_types[i];

            if (strcmp(name, type->name) == 0 && strcmp(tries[pass].wire, type->wire) == 0) {
                open_type(search, type);
            }
        }
    }
    search->sized = 0;
}

/* Turns libfabric down for devices of the kernel's network stack, unless the user names a provider:
 * libfabric would reach no peer that uses udp. Returns whether it did. */
static bool turn_down_second_best(search_t *search, const btl_ib_transport_type_t *type)
{
    if (search->wishes.filter.rdma_only || strcmp("ofi", type->name) != 0
        || named_provider(search->params)) {
        return false;
    }
    btl_ib_turned_down_devices_add(search->turned_down, type->name, NULL,
                                   "it does not reach peers that use udp (btl_ib_transport ofi)");
    return true;
}

/* Tries the transports of that name (NULL: any) until a device is opened. */
static void open_types(search_t *search, const char *name)
{
    const char *last = "";

    for (size_t i = 0; btl_ib_transport_types[i] != NULL && goes_on(search); ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];

        if (strcmp(last, type->name) == 0
            || (name != NULL ? strcmp(name, type->name) != 0
                             : turn_down_second_best(search, type))) {
            continue;
        }
        last = type->name;
        if (type->wire == NULL) {
            open_type(search, type);
        } else {
            open_wires(search, type->name);
        }
    }
}

/* Tries all transports until a device is opened: first RDMA devices, then others. */
static void open_any(search_t *search)
{
    for (int pass = btl_ib_rdma_active() ? 0 : 1; pass < 2; ++pass) {
        search->wishes.filter.rdma_only = pass == 0;
        if (goes_on(search)) {
            /* the second pass looks again at what the first one turned down */
            btl_ib_turned_down_devices_clear(search->turned_down);
            open_types(search, NULL);
        }
    }
}

/* Opens the devices that the user wants, and reports what was not used. */
static void open_wanted(search_t *search)
{
    const btl_ib_open_request_t *request = search->request;

    btl_ib_log_collect(request->log, search->turned_down);
    if (btl_ib_any_transport(search->params)) {
        open_any(search);
    } else {
        open_types(search, search->params->transport);
    }
    btl_ib_log_collect(request->log, NULL);
    if (search->ports_taken) {
        search->count = 0;
    } else if (search->count == 0) {
        report_no_device(request, search->turned_down, &search->failed);
    } else {
        report_unused(request, search->opened, search->count, &search->wishes.filter.include,
                      search->turned_down, &search->failed);
    }
}

uint32_t btl_ib_open_devices(const btl_ib_open_request_t *request,
                             btl_ib_opened_device_t opened[BTL_IB_RAILS_MAX])
{
    search_t *search = calloc(1, sizeof(*search));
    uint32_t count;

    if (search == NULL) {
        BTL_IB_VERBOSE(1, "no memory to look for devices");
        return 0;
    }
    search->request = request;
    search->params = request->params;
    search->opened = opened;
    search->turned_down = request->turned_down;
    btl_ib_turned_down_devices_clear(search->turned_down);
    btl_ib_near_devices_init(&search->near, request->params, request->turned_down);
    if (btl_ib_device_wishes_read(&search->wishes, request->params, request->processes,
                                  request->rank)) {
        open_wanted(search);
    }
    btl_ib_near_devices_fini(&search->near);
    count = search->count;
    free(search);
    return count;
}
