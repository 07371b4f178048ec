/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What users hear of devices that are not opened.
 */

#include <stdio.h>
#include <string.h>

#include "btl_ib_open_devices.h"

/* Bytes: so many lines with a name and a reason of full length. */
#define LIST_SIZE (BTL_IB_SEEN_MAX * sizeof(btl_ib_seen_device_t) + 64)

static bool is_set(const char *value)
{
    return NULL != value && '\0' != value[0];
}

static const char *shown(const char *value)
{
    return is_set(value) ? value : "(not set)";
}

bool btl_ib_open_any_transport(const btl_ib_params_t *params)
{
    return !is_set(params->transport) || 0 == strcmp(params->transport, "auto");
}

bool btl_ib_open_named_provider(const btl_ib_params_t *params)
{
    return is_set(params->ofi_provider);
}

/* Who named ib, a transport or a device wants to hear; who only allows ib (btl_ib_auto) does not. */
static bool asked_for_device(const btl_ib_component_t *component)
{
    const btl_ib_params_t *params = &component->params;

    return component->named || is_set(params->if_include) || !btl_ib_open_any_transport(params)
           || btl_ib_open_named_provider(params);
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
static const char *advice(const btl_ib_params_t *params, const btl_ib_seen_t *failed)
{
    const bool any = btl_ib_open_any_transport(params);

    if (failed->count > 0) {
        return "What could not be opened may be in use, or this process may not use it: a\n"
               "container has to be given devices and rights (docker run --device=,\n"
               "--cap-add=, --ulimit memlock=-1).";
    }
    if (!any && 0 == strcmp(params->transport, "verbs")) {
        return advice_on_verbs();
    }
    if ((!any && 0 == strcmp(params->transport, "ofi")) || btl_ib_open_named_provider(params)) {
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

void btl_ib_open_tell_nothing(const btl_ib_component_t *component, const btl_ib_seen_t *seen,
                              const btl_ib_seen_t *failed)
{
    const btl_ib_params_t *params = &component->params;
    char list[LIST_SIZE];

    BTL_IB_VERBOSE(1, "no device fits: not used");
    if (!asked_for_device(component)) {
        return;
    }
    btl_ib_seen_format(seen, list, sizeof(list));
    BTL_IB_SHOW_HELP("nothing left", opal_process_info.nodename, shown(params->transport),
                     shown(params->if_include), shown(params->if_exclude),
                     shown(params->ofi_provider), list, advice(params, failed));
}

/* What is used, by name. */
static void list_used(const btl_ib_component_t *component, char *out, size_t size)
{
    out[0] = '\0';
    for (uint32_t i = 0; i < component->module_count; ++i) {
        const size_t len = strlen(out);

        snprintf(out + len, size - len, "%s%s", i > 0 ? ", " : "", component->modules[i]->name);
    }
}

void btl_ib_open_tell_unmatched(const btl_ib_component_t *component,
                                const btl_ib_device_list_t *include, const btl_ib_seen_t *seen)
{
    char list[LIST_SIZE];
    char used[512];

    list_used(component, used, sizeof(used));
    btl_ib_seen_format(seen, list, sizeof(list));
    for (uint32_t i = 0; i < include->count; ++i) {
        if (!include->entry[i].matched) {
            BTL_IB_SHOW_HELP("include in vain", opal_process_info.nodename, include->entry[i].text,
                             component->params.if_include, used, list);
        }
    }
}

void btl_ib_open_tell_failed(const btl_ib_component_t *component, const btl_ib_seen_t *failed)
{
    char list[LIST_SIZE];
    char used[512];

    if (0 == failed->count) {
        return;
    }
    list_used(component, used, sizeof(used));
    btl_ib_seen_format(failed, list, sizeof(list));
    BTL_IB_SHOW_HELP("passed over", opal_process_info.nodename, used, list);
}

void btl_ib_open_tell_ports(const btl_ib_params_t *params, const btl_ib_device_t *device, int error)
{
    const bool pairs = 0 == strcmp(device->transport, "udp") && params->bulk_apart;
    const unsigned needed = pairs ? 2 : 1;
    const unsigned ranks = btl_ib_compat_local_processes();
    const unsigned last = (unsigned) params->port_min + (unsigned) params->port_range - 1;

    /* Not only by the first process of the host: it may be the one that found a port. */
    btl_ib_show_help("ports taken", opal_process_info.nodename, device->transport, device->name,
                     (unsigned) params->port_min, last < UINT16_MAX ? last : UINT16_MAX,
                     strerror(error), needed, ranks, ranks * needed);
}
