/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_info.h"

/* Mbit/s of one lane, by the code of InfiniBand's PortInfo (IBA volume 1, 14.2.5.6). */
static uint32_t lane_speed(uint8_t code)
{
    switch (code) {
    case 1: /* SDR */
        return 2500;
    case 2: /* DDR */
        return 5000;
    case 4: /* QDR */
    case 8: /* FDR10 */
        return 10000;
    case 16: /* FDR */
        return 14000;
    case 32: /* EDR */
        return 25000;
    case 64: /* HDR */
        return 50000;
    case 128: /* NDR */
        return 100000;
    default:
        return 0;
    }
}

static uint32_t lanes(uint8_t code)
{
    switch (code) {
    case 1:
        return 1;
    case 2:
        return 4;
    case 4:
        return 8;
    case 8:
        return 12;
    case 16:
        return 2;
    default:
        return 0;
    }
}

uint32_t btl_ib_verbs_bandwidth(const struct ibv_port_attr *attr)
{
    return lane_speed(attr->active_speed) * lanes(attr->active_width);
}

void btl_ib_verbs_device_text(const char *name, unsigned ports, unsigned port, char *out,
                              size_t len)
{
    if (ports == 1) {
        snprintf(out, len, "%s", name);
    } else {
        snprintf(out, len, "%.58s:%u", name, port);
    }
}

btl_ib_device_t *btl_ib_verbs_list_append(btl_ib_verbs_list_t *list, const char *provider,
                                          struct ibv_context *context, uint8_t port,
                                          const struct ibv_device_attr *device_attr,
                                          const struct ibv_port_attr *port_attr)
{
    const char *name = ibv_get_device_name(context->device);
    btl_ib_device_t *all = realloc(list->device, (size_t) (list->count + 1) * sizeof(*all));

    if (all == NULL) {
        return NULL;
    }
    list->device = all;
    btl_ib_verbs_device_t *handle = calloc(1, sizeof(*handle));
    if (handle == NULL) {
        return NULL;
    }
    snprintf(handle->name, sizeof(handle->name), "%s", name);
    handle->port = port;
    handle->mtu = 128u << port_attr->active_mtu; /* IBV_MTU_256 is 1 */
    handle->max_qp = (uint32_t) device_attr->max_qp;
    snprintf(handle->firmware, sizeof(handle->firmware), "%s", device_attr->fw_ver);
    btl_ib_device_t *device = &all[list->count++];
    *device = (btl_ib_device_t){
        .port = port, .bandwidth = btl_ib_verbs_bandwidth(port_attr), .handle = handle};
    snprintf(device->transport, sizeof(device->transport), "verbs");
    snprintf(device->provider, sizeof(device->provider), "%s", provider);
    btl_ib_verbs_device_text(name, device_attr->phys_port_cnt, port, device->name,
                             sizeof(device->name));
    return device;
}

bool btl_ib_verbs_excluded(const btl_ib_search_t *search)
{
    return search->provider != NULL && search->provider[0] != '\0';
}

/* A software device (rxe, siw) has no driver of its own: the network interface below says more. */
void btl_ib_verbs_describe(const btl_ib_device_t *device, char *out, size_t len)
{
    const btl_ib_verbs_device_t *handle = device->handle;
    btl_ib_facts_t facts = {.speed = device->bandwidth, .mtu = handle->mtu};
    btl_ib_facts_t below = {.speed = 0};
    char text[192];

    btl_ib_facts_driver("infiniband", handle->name, facts.driver, sizeof(facts.driver));
    snprintf(facts.firmware, sizeof(facts.firmware), "%s", handle->firmware);
    btl_ib_facts_format(&facts, text, sizeof(text));
    if (device->interface[0] == '\0') {
        snprintf(out, len, "%s", text);
        return;
    }
    btl_ib_facts_interface(device->interface, &below);
    snprintf(out, len, "%s, interface %s (driver %s, MTU %u)", text, device->interface,
             below.driver[0] != '\0' ? below.driver : "unknown", below.mtu);
}

void btl_ib_verbs_library(char *out, size_t len)
{
    char file[64];

    btl_ib_facts_library((const void *) (uintptr_t) ibv_get_device_list, file, sizeof(file));
    snprintf(out, len, "rdma-core: built with libibverbs " BTL_IB_BUILT_FOR_VERBS ", running %s",
             file);
}

void btl_ib_verbs_devices_free(btl_ib_device_t *list, int count)
{
    for (int i = 0; i < count; i++) {
        free(list[i].handle);
    }
    free(list);
}
