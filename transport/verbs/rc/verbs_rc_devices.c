/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which RDMA devices can be reached by rdma_cm. Which of them an IP address belongs to is known to it alone (IPoIB,
 * RoCE and iWARP each find out in their own way), so it is asked about each address of this host.
 */

#include "verbs_rc_rail.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_filter.h"
#include "net_interfaces.h"

typedef struct found {
    btl_ib_device_t *list;
    int count;
    const btl_ib_search_t *search;
} found_t;

/* The address of an interface is what a device is found by, so the table has no say. */
static void tell_ignored(const found_t *found)
{
    const btl_ib_log_t *log = &found->search->log;

    if (found->search->gid_index >= 0 && found->count > 0 && log->print != NULL) {
        log->print(log->context, 1,
                   "btl_ib_gid_index %d means nothing over rc: the address is that of an interface "
                   "(btl_ib_if_include chooses; btl_ib_wire ud heeds it)",
                   found->search->gid_index);
    }
}

static void turn_down(const found_t *found, const char *name, const char *why)
{
    char reason[128];

    snprintf(reason, sizeof(reason), "for RC: %s", why);
    btl_ib_devices_turn_down(&found->search->log, "verbs", name, reason);
}

static bool of_family(const struct ifaddrs *i, sa_family_t family)
{
    return i->ifa_addr != NULL && i->ifa_addr->sa_family == family && (i->ifa_flags & IFF_UP) != 0
           && (i->ifa_flags & IFF_LOOPBACK) == 0 && !btl_ib_ip_link_local(i->ifa_addr);
}

static void fill(btl_ib_device_t *device, btl_ib_verbs_device_t *handle, const struct ifaddrs *i,
                 const struct rdma_cm_id *id, const struct ibv_port_attr *attr,
                 const struct ibv_device_attr *all)
{
    size_t len;

    snprintf(handle->name, sizeof(handle->name), "%s", ibv_get_device_name(id->verbs->device));
    handle->port = id->port_num;
    handle->mtu = 128u << attr->active_mtu; /* IBV_MTU_256 is 1 */
    handle->max_qp = (uint32_t) all->max_qp;
    snprintf(handle->firmware, sizeof(handle->firmware), "%s", all->fw_ver);
    device->handle = handle;
    snprintf(device->transport, sizeof(device->transport), "verbs");
    snprintf(device->provider, sizeof(device->provider), "rc");
    snprintf(device->interface, sizeof(device->interface), "%s", i->ifa_name);
    if (all->phys_port_cnt == 1) {
        snprintf(device->name, sizeof(device->name), "%s", handle->name);
    } else {
        snprintf(device->name, sizeof(device->name), "%.58s:%u", handle->name, handle->port);
    }
    memcpy(&device->ip, i->ifa_addr,
           i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                             : sizeof(struct sockaddr_in6));
    device->prefix_bits = i->ifa_netmask != NULL ? btl_ib_ip_prefix(i->ifa_netmask) : 0;
    if (device->prefix_bits == 0) {
        (void) btl_ib_ip_bytes(i->ifa_addr, &len);
        device->prefix_bits = (uint8_t) (8 * len);
    }
    device->port = id->port_num;
    device->bandwidth = btl_ib_verbs_bandwidth(attr);
}

/* The device that an address belongs to, if any. Returns 0 or -ENOMEM. */
static int add(found_t *found, const struct ifaddrs *i, const struct rdma_cm_id *id)
{
    struct ibv_device_attr device;
    struct ibv_port_attr port;

    if (id->verbs == NULL) {
        return 0;
    }
    const char *name = ibv_get_device_name(id->verbs->device);
    if (ibv_query_device(id->verbs, &device) != 0
        || ibv_query_port(id->verbs, id->port_num, &port) != 0) {
        turn_down(found, name, "it cannot be queried");
        return 0;
    }
    if (port.state != IBV_PORT_ACTIVE) {
        turn_down(found, name, ibv_port_state_str(port.state));
        return 0;
    }
    btl_ib_device_t *list =
        realloc(found->list, (size_t) (found->count + 1) * sizeof(*found->list));
    if (list == NULL) {
        return -ENOMEM;
    }
    found->list = list;
    btl_ib_verbs_device_t *handle = calloc(1, sizeof(*handle));
    if (handle == NULL) {
        return -ENOMEM;
    }
    memset(&list[found->count], 0, sizeof(*list));
    fill(&list[found->count++], handle, i, id, &port, &device);
    return 0;
}

static int ask(found_t *found, struct rdma_event_channel *events, const struct ifaddrs *i)
{
    struct rdma_cm_id *id;
    int rc = 0;

    if (rdma_create_id(events, &id, NULL, RDMA_PS_TCP) != 0) {
        turn_down(found, i->ifa_name, strerror(errno));
        return 0;
    }
    if (rdma_bind_addr(id, i->ifa_addr) == 0) {
        rc = add(found, i, id);
    }
    (void) rdma_destroy_id(id);
    return rc;
}

int btl_ib_rc_devices(const btl_ib_search_t *search, btl_ib_device_t **list)
{
    found_t found = {.search = search};
    struct ifaddrs *all;
    int rc = 0;

    *list = NULL;
    if (search->provider != NULL
        && search->provider[0] != '\0') { /* of libfabric's was asked for one */
        return 0;
    }
    if (!btl_ib_rdma_present()) {
        btl_ib_devices_turn_down(&search->log, "verbs", "", BTL_IB_VERBS_NO_DEVICE);
        return 0;
    }
    btl_ib_verbs_prepare_fork(search);
    struct rdma_event_channel *events = rdma_create_event_channel();
    if (events == NULL) {
        rc = -errno;
        btl_ib_verbs_trouble_open(&search->log, "all", "rdma_cm", -rc);
        return rc;
    }
    if (getifaddrs(&all) != 0) {
        rc = -errno;
        rdma_destroy_event_channel(events);
        return rc;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (const struct ifaddrs *i = all; i != NULL && rc == 0; i = i->ifa_next) {
            if (of_family(i, pass == 0 ? AF_INET : AF_INET6)) {
                rc = ask(&found, events, i);
            }
        }
    }
    freeifaddrs(all);
    rdma_destroy_event_channel(events);
    if (rc != 0) {
        btl_ib_verbs_devices_free(found.list, found.count);
        return rc;
    }
    if (found.count == 0) {
        btl_ib_devices_turn_down(
            &search->log, "verbs", "",
            "for RC: no interface that is up and has an IP address belongs to an RDMA device");
    }
    tell_ignored(&found);
    *list = found.list;
    return found.count;
}
