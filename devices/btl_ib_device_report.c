/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_device_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_help.h"
#include "btl_ib_verbose.h"
#include "rdma_present.h"

/* Bytes for so many lines with a name and a reason of full length. */
#define LIST_SIZE (BTL_IB_REJECTED_MAX * sizeof(btl_ib_rejected_device_t) + 64)

void btl_ib_report_transports(void)
{
    char text[160] = "";

    if (!btl_ib_is_verbose(1)) {
        return;
    }
    for (size_t i = 0; NULL != btl_ib_transport_types[i]; ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];
        const size_t len = strlen(text);

        snprintf(text + len, sizeof(text) - len, "%s%s%s%s", i > 0 ? ", " : "", type->name,
                 NULL != type->wire ? "/" : "", NULL != type->wire ? type->wire : "");
    }
    BTL_IB_VERBOSE(1, "transports built: %s", text);
}

void btl_ib_report_libraries(void)
{
    void (*last)(bool load, char *out, size_t len) = NULL; /* types of one library are neighbours */
    char text[256];

    if (!btl_ib_is_verbose(1) || 0 != opal_process_info.my_local_rank) {
        return;
    }
    for (size_t i = 0; NULL != btl_ib_transport_types[i]; ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];

        if (NULL != type->library && last != type->library) {
            type->library(false, text, sizeof(text));
            BTL_IB_VERBOSE(1, "%s", text);
        }
        last = type->library;
    }
}

static bool is_set(const char *value)
{
    return NULL != value && '\0' != value[0];
}

static const char *shown(const char *value)
{
    return is_set(value) ? value : "(not set)";
}

bool btl_ib_any_transport(const btl_ib_params_t *params)
{
    return !is_set(params->transport) || 0 == strcmp(params->transport, "auto");
}

bool btl_ib_named_provider(const btl_ib_params_t *params)
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

/* What to do about it. */
static const char *advice(const btl_ib_params_t *params, const btl_ib_rejected_devices_t *failed)
{
    const bool any = btl_ib_any_transport(params);

    if (failed->count > 0) {
        return "What could not be opened may be in use, or this process may not use it: a\n"
               "container has to be given devices and rights (docker run --device=,\n"
               "--cap-add=, --ulimit memlock=-1).";
    }
    if (!any && 0 == strcmp(params->transport, "verbs")) {
        return advice_on_verbs();
    }
    if ((!any && 0 == strcmp(params->transport, "ofi")) || btl_ib_named_provider(params)) {
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

void btl_ib_report_no_device(const btl_ib_open_request_t *request,
                             const btl_ib_rejected_devices_t *rejected,
                             const btl_ib_rejected_devices_t *failed)
{
    const btl_ib_params_t *params = request->params;
    char *list = malloc(LIST_SIZE);

    BTL_IB_VERBOSE(1, "no device fits: not used");
    /* btl_ib_auto only allows ib: then nobody asked for it, unless for a transport or a device. */
    if (NULL != list
        && (request->named || is_set(params->if_include) || !btl_ib_any_transport(params)
            || btl_ib_named_provider(params))) {
        btl_ib_rejected_devices_format(rejected, list, LIST_SIZE);
        BTL_IB_SHOW_HELP("nothing left", opal_process_info.nodename, shown(params->transport),
                         shown(params->if_include), shown(params->if_exclude),
                         shown(params->ofi_provider), list, advice(params, failed));
    }
    free(list);
}

void btl_ib_report_unused(const btl_ib_open_request_t *request,
                          const btl_ib_opened_device_t *opened, uint32_t count,
                          const btl_ib_device_list_t *include,
                          const btl_ib_rejected_devices_t *rejected,
                          const btl_ib_rejected_devices_t *failed)
{
    char *list = malloc(LIST_SIZE);
    char used[512] = "";

    if (NULL == list) {
        return;
    }
    for (uint32_t i = 0; i < count; ++i) {
        const size_t len = strlen(used);

        snprintf(used + len, sizeof(used) - len, "%s%s", i > 0 ? ", " : "",
                 opened[i].transport->name);
    }
    if (failed->count > 0) {
        btl_ib_rejected_devices_format(failed, list, LIST_SIZE);
        BTL_IB_SHOW_HELP("passed over", opal_process_info.nodename, used, list);
    }
    btl_ib_rejected_devices_format(rejected, list, LIST_SIZE);
    for (uint32_t i = 0; i < include->count; ++i) {
        if (!include->entry[i].matched) {
            BTL_IB_SHOW_HELP("include in vain", opal_process_info.nodename, include->entry[i].text,
                             request->params->if_include, used, list);
        }
    }
    free(list);
}

void btl_ib_report_ports_taken(const btl_ib_params_t *params, const btl_ib_device_t *device,
                               int error)
{
    const bool pairs = 0 == strcmp(device->transport, "udp") && params->bulk_lane;
    const unsigned needed = (pairs ? 2u : 1u) * (unsigned) params->qps_per_port;
    const unsigned ranks = btl_ib_compat_local_processes();
    const unsigned last = (unsigned) params->port_min + (unsigned) params->port_range - 1;

    /* Not only by the first process of the host: it may be the one that found a port. */
    btl_ib_show_help("ports taken", opal_process_info.nodename, device->transport, device->name,
                     (unsigned) params->port_min, last < UINT16_MAX ? last : UINT16_MAX,
                     strerror(error), needed, ranks, ranks * needed);
}
