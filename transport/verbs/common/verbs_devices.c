/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which ports of RDMA devices there are, and what they carry. */

#include "verbs_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_filter.h"
#include "device_info.h"
#include "net_interfaces.h"

/* The list as it grows. */
typedef struct found {
    btl_ib_device_t *list;
    int count;
    int room;
    const char *firmware; /* of the device in hand */
    const btl_ib_search_t *search;
} found_t;

static void turn_down(const found_t *found, const char *name, const char *why)
{
    btl_ib_devices_turn_down(&found->search->log, "verbs", name, why);
}

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

static btl_ib_device_t *append(found_t *found)
{
    if (found->count == found->room) {
        const int room = found->room == 0 ? 8 : 2 * found->room;
        btl_ib_device_t *list = realloc(found->list, (size_t) room * sizeof(*list));
        if (list == NULL) {
            return NULL;
        }
        found->list = list;
        found->room = room;
    }
    btl_ib_verbs_device_t *handle = calloc(1, sizeof(*handle));
    if (handle == NULL) {
        return NULL;
    }
    btl_ib_device_t *device = &found->list[found->count++];
    memset(device, 0, sizeof(*device));
    device->handle = handle;
    return device;
}

/* What one port is with one of its addresses. Returns 0 or -ENOMEM. */
static int add(found_t *found, const char *name, const char *shown, uint8_t port,
               const struct ibv_port_attr *attr, const btl_ib_verbs_gid_t *gid)
{
    btl_ib_device_t *device = append(found);

    if (device == NULL) {
        return -ENOMEM;
    }
    btl_ib_verbs_device_t *handle = device->handle;
    snprintf(handle->name, sizeof(handle->name), "%s", name);
    handle->port = port;
    handle->gid = *gid;
    handle->mtu = 128u << attr->active_mtu; /* IBV_MTU_256 is 1 */
    snprintf(handle->firmware, sizeof(handle->firmware), "%s", found->firmware);
    snprintf(device->transport, sizeof(device->transport), "verbs");
    snprintf(device->provider, sizeof(device->provider), "ud");
    snprintf(device->name, sizeof(device->name), "%s", shown);
    memcpy(device->interface, gid->interface, sizeof(device->interface));
    device->ip = gid->ip;
    device->prefix_bits = gid->prefix_bits;
    device->port = port;
    device->bandwidth = btl_ib_verbs_bandwidth(attr);
    return 0;
}

static int add_port(found_t *found, struct ibv_context *context, const char *shown, uint8_t port)
{
    const char *name = ibv_get_device_name(context->device);
    btl_ib_verbs_gid_t gids[BTL_IB_VERBS_GIDS_MAX];
    struct ibv_port_attr attr;
    int rc = 0;

    if (ibv_query_port(context, port, &attr) != 0) {
        turn_down(found, shown, "its port cannot be queried");
        return 0;
    }
    if (attr.state != IBV_PORT_ACTIVE) {
        turn_down(found, shown, ibv_port_state_str(attr.state));
        btl_ib_verbs_trouble(&found->search->log, BTL_IB_DIAG_PORT_DOWN, shown,
                             ibv_port_state_str(attr.state));
        return 0;
    }
    const int count =
        btl_ib_verbs_gids(context, port, found->search->gid_index, gids, BTL_IB_VERBS_GIDS_MAX);
    if (count <= 0) {
        turn_down(found, shown,
                  count < 0 ? strerror(-count)
                  : found->search->gid_index >= 0
                      ? "it has no GID at the place that btl_ib_gid_index says"
                      : "it has no GID");
        return 0;
    }
    for (int i = 0; i < count && rc == 0; i++) {
        rc = add(found, name, shown, port, &attr, &gids[i]);
    }
    return rc;
}

static int add_device(found_t *found, struct ibv_device *device)
{
    const char *name = ibv_get_device_name(device);
    struct ibv_device_attr attr;
    char shown[sizeof(((btl_ib_device_t *) NULL)->name)];
    int rc = 0;

    if (device->transport_type != IBV_TRANSPORT_IB) {
        turn_down(found, name, "it has no UD");
        return 0;
    }
    struct ibv_context *context = ibv_open_device(device);
    if (context == NULL || ibv_query_device(context, &attr) != 0) {
        const int error = errno;
        turn_down(found, name, strerror(error));
        btl_ib_verbs_trouble_open(&found->search->log, name, device->dev_name, error);
        attr.phys_port_cnt = 0;
    }
    found->firmware = attr.fw_ver;
    for (unsigned port = 1; port <= attr.phys_port_cnt && rc == 0; port++) {
        if (attr.phys_port_cnt == 1) {
            snprintf(shown, sizeof(shown), "%s", name);
        } else {
            snprintf(shown, sizeof(shown), "%.58s:%u", name, port);
        }
        rc = add_port(found, context, shown, (uint8_t) port);
    }
    found->firmware = NULL;
    if (context != NULL) {
        (void) ibv_close_device(context);
    }
    return rc;
}

int btl_ib_verbs_devices(const btl_ib_search_t *search, btl_ib_device_t **list)
{
    found_t found = {.search = search};
    int count = 0;
    int rc = 0;

    *list = NULL;
    if (search->provider != NULL
        && search->provider[0] != '\0') { /* of libfabric's was asked for one */
        return 0;
    }
    struct ibv_device **all = ibv_get_device_list(&count);
    const int error = errno;
    if (count == 0
        && btl_ib_rdma_present()) { /* without files of theirs they are not in the list */
        btl_ib_verbs_trouble_open(&search->log, "all", "", ENOENT);
    }
    if (count == 0) {
        btl_ib_devices_turn_down(&search->log, "verbs", "",
                                 btl_ib_rdma_present()
                                     ? "/dev/infiniband lacks what is in /sys/class/infiniband"
                                     : BTL_IB_VERBS_NO_DEVICE);
    }
    if (all == NULL) {
        return error == ENOSYS ? 0 : -error; /* ENOSYS: the kernel knows nothing of RDMA */
    }
    if (count
        > 0) { /* before memory is registered, and not where there is nothing to register it with */
        btl_ib_verbs_prepare_fork(search);
    }
    for (int i = 0; i < count && rc == 0; i++) {
        rc = add_device(&found, all[i]);
    }
    ibv_free_device_list(all);
    if (rc != 0) {
        btl_ib_verbs_devices_free(found.list, found.count);
        return rc;
    }
    *list = found.list;
    return found.count;
}

/* Of what is no device of a bus (rxe, siw) that of its network interface. */
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
