/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_filter.h"
#include "device_info.h"
#include "rdma_present.h"
#include "verbs_cm_library.h"
#include "verbs_diagnostics.h"

/* The entry of a table for a code with one bit set, 0 for others. */
static uint32_t by_bit(uint8_t code, const uint32_t *table, int count)
{
    const int bit = __builtin_ctz(code | 0x100u);

    return bit < count && code == 1u << bit ? table[bit] : 0;
}

/* The codes are those of InfiniBand's PortInfo (IBA volume 1, 14.2.5.6). */
uint32_t btl_ib_verbs_bandwidth(const struct ibv_port_attr *attr)
{
    /* Of a lane: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR. */
    static const uint32_t speed[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000};
    static const uint32_t lanes[] = {1, 4, 8, 12, 2};

    return by_bit(attr->active_speed, speed, 8) * by_bit(attr->active_width, lanes, 5);
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
                                          const struct ibv_port_attr *port_attr,
                                          const btl_ib_verbs_gid_t *gid)
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
    handle->mtu = port_attr->active_mtu;
    handle->max_qp = (uint32_t) device_attr->max_qp;
    handle->max_qp_wr = (uint32_t) device_attr->max_qp_wr;
    /* an iWARP connection ends when no buffer is left */
    handle->max_srq_wr =
        context->device->transport_type == IBV_TRANSPORT_IWARP || device_attr->max_srq <= 0
            ? 0
            : (uint32_t) device_attr->max_srq_wr;
    snprintf(handle->firmware, sizeof(handle->firmware), "%s", device_attr->fw_ver);
    btl_ib_device_t *device = &all[list->count++];
    *device = (btl_ib_device_t){
        .port = port,
        .bandwidth = btl_ib_verbs_bandwidth(port_attr),
        .vendor_id = device_attr->vendor_id,
        .part_id = device_attr->vendor_part_id,
        .handle = handle};
    snprintf(device->transport, sizeof(device->transport), "verbs");
    snprintf(device->provider, sizeof(device->provider), "%s", provider);
    btl_ib_verbs_device_text(name, device_attr->phys_port_cnt, port, device->name,
                             sizeof(device->name));
    if (gid != NULL) {
        handle->gid = *gid;
        memcpy(device->interface, gid->interface, sizeof(device->interface));
        device->ip = gid->ip;
        device->prefix_bits = gid->prefix_bits;
    }
    return device;
}

bool btl_ib_verbs_ready(const btl_ib_search_t *search, bool cm)
{
    char why[128];

    if (search->provider != NULL && search->provider[0] != '\0') {
        return false; /* of libfabric's one was asked for */
    }
    if (!btl_ib_rdma_present()) {
        btl_ib_devices_turn_down(&search->log, "verbs", "", BTL_IB_VERBS_NO_DEVICE);
        return false;
    }
    if (!btl_ib_verbs_load(why, sizeof(why)) || (cm && !btl_ib_verbs_cm_load(why, sizeof(why)))) {
        btl_ib_devices_turn_down(&search->log, "verbs", "", why);
        btl_ib_verbs_diag(&search->log, BTL_IB_DIAG_NO_LIBRARY, cm ? "verbs/rc" : "verbs/ud", why);
        return false;
    }
    return true;
}

/* A software device (rxe, siw) has no driver of its own: the network interface below says more. */
void btl_ib_verbs_facts(const btl_ib_device_t *device, btl_ib_facts_t *facts)
{
    const btl_ib_verbs_device_t *handle = device->handle;

    *facts = (btl_ib_facts_t){
        .speed = device->bandwidth,
        .mtu = btl_ib_verbs_mtu_bytes((uint8_t) handle->mtu),
    };
    btl_ib_facts_driver("infiniband", handle->name, facts->driver, sizeof(facts->driver));
    snprintf(facts->firmware, sizeof(facts->firmware), "%s", handle->firmware);
}

void btl_ib_verbs_describe(const btl_ib_device_t *device, char *out, size_t len)
{
    btl_ib_facts_t facts;
    btl_ib_facts_t below = {.speed = 0};
    char text[192];

    btl_ib_verbs_facts(device, &facts);
    btl_ib_facts_format(&facts, text, sizeof(text));
    if (device->interface[0] == '\0') {
        snprintf(out, len, "%s", text);
        return;
    }
    btl_ib_facts_interface(device->interface, &below);
    snprintf(out, len, "%s, interface %s (driver %s, MTU %u)", text, device->interface,
             below.driver[0] != '\0' ? below.driver : "unknown", below.mtu);
}

void btl_ib_verbs_devices_free(btl_ib_device_t *list, int count)
{
    for (int i = 0; i < count; i++) {
        free(list[i].handle);
    }
    free(list);
}
