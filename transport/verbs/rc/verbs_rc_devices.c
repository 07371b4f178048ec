/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_devices.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_filter.h"
#include "net_addresses.h"
#include "net_interfaces.h"
#include "verbs_cm_library.h"
#include "verbs_devices.h"
#include "verbs_gid.h"
#include "verbs_diagnostics.h"
#include "verbs_memory.h"

static void turn_down(const btl_ib_search_t *search, const char *name, const char *why)
{
    char reason[128];

    snprintf(reason, sizeof(reason), "for RC: %s", why);
    btl_ib_devices_turn_down(&search->log, "verbs", name, reason);
}

static bool gids_are_addresses(const struct rdma_cm_id *id, const struct ibv_port_attr *port)
{
    return port->link_layer == IBV_LINK_LAYER_ETHERNET
           && id->verbs->device->transport_type != IBV_TRANSPORT_IWARP;
}

/* Does the user want the GID that is this address? Where ports are on Ethernet their GIDs are the
 * addresses of interfaces. */
static bool gid_wanted(const btl_ib_search_t *search, const struct ifaddrs *i,
                       const struct rdma_cm_id *id, const struct ibv_port_attr *port)
{
    btl_ib_verbs_gid_t *gid;

    if (search->gid_index < 0 || !gids_are_addresses(id, port)) {
        return true;
    }
    const bool wanted = btl_ib_verbs_gids(id->verbs, id->port_num, search->gid_index, &gid) == 1
                        && btl_ib_ip_same((const struct sockaddr *) &gid->ip, i->ifa_addr);
    free(gid);
    return wanted;
}

/* List the device that an address belongs to, if any. Returns 0 or -ENOMEM. */
static int add(btl_ib_verbs_list_t *list, const btl_ib_search_t *search, const struct ifaddrs *i,
               const struct rdma_cm_id *id)
{
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    size_t len;

    if (id->verbs == NULL) {
        return 0;
    }
    const char *name = ibv_get_device_name(id->verbs->device);
    if (ibv_query_device(id->verbs, &attr) != 0
        || ibv_query_port(id->verbs, id->port_num, &port) != 0) {
        turn_down(search, name, "it cannot be queried");
        return 0;
    }
    if (port.state != IBV_PORT_ACTIVE) {
        turn_down(search, name, ibv_port_state_str(port.state));
        return 0;
    }
    if (!gid_wanted(search, i, id, &port)) {
        turn_down(search, i->ifa_name, "its address is not the GID at btl_ib_gid_index");
        return 0;
    }
    if (search->gid_index >= 0 && !gids_are_addresses(id, &port) && search->log.print != NULL) {
        search->log.print(
            search->log.context, 1,
            "%s: btl_ib_gid_index %d means nothing over rc: the address is that of an "
            "interface (btl_ib_if_include chooses; btl_ib_wire ud heeds it)",
            name, search->gid_index);
    }
    btl_ib_device_t *device =
        btl_ib_verbs_list_append(list, "rc", id->verbs, id->port_num, &attr, &port, NULL);
    if (device == NULL) {
        return -ENOMEM;
    }
    snprintf(device->interface, sizeof(device->interface), "%s", i->ifa_name);
    memcpy(&device->ip, i->ifa_addr,
           i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                             : sizeof(struct sockaddr_in6));
    device->prefix_bits = i->ifa_netmask != NULL ? btl_ib_ip_prefix(i->ifa_netmask) : 0;
    if (device->prefix_bits == 0) { /* the host alone */
        (void) btl_ib_ip_bytes(i->ifa_addr, &len);
        device->prefix_bits = (uint8_t) (8 * len);
    }
    return 0;
}

/* Ask about one address. Returns 0 or -ENOMEM. */
static int ask(btl_ib_verbs_list_t *list, const btl_ib_search_t *search,
               struct rdma_event_channel *events, const struct ifaddrs *i)
{
    struct rdma_cm_id *id;
    int rc = 0;

    if (rdma_create_id(events, &id, NULL, RDMA_PS_TCP) != 0) {
        turn_down(search, i->ifa_name, strerror(errno));
        return 0;
    }
    if (rdma_bind_addr(id, i->ifa_addr) == 0) {
        rc = add(list, search, i, id);
    }
    (void) rdma_destroy_id(id);
    return rc;
}

/* Ask about all usable addresses of a family. Returns 0 or -ENOMEM. */
static int ask_family(btl_ib_verbs_list_t *list, const btl_ib_search_t *search,
                      struct rdma_event_channel *events, const struct ifaddrs *all,
                      sa_family_t family)
{
    int rc = 0;

    for (const struct ifaddrs *i = all; i != NULL && rc == 0; i = i->ifa_next) {
        if (i->ifa_addr != NULL && i->ifa_addr->sa_family == family && (i->ifa_flags & IFF_UP) != 0
            && (i->ifa_flags & IFF_LOOPBACK) == 0 && !btl_ib_ip_link_local(i->ifa_addr)) {
            rc = ask(list, search, events, i);
        }
    }
    return rc;
}

int btl_ib_rc_devices(const btl_ib_search_t *search, btl_ib_device_t **list)
{
    btl_ib_verbs_list_t found = {.count = 0};
    btl_ib_net_addresses_t all;
    int rc = 0;

    *list = NULL;
    if (!btl_ib_verbs_ready(search, true)) {
        return 0;
    }
    btl_ib_verbs_prepare_fork(search);
    struct rdma_event_channel *events = rdma_create_event_channel();
    if (events == NULL) {
        rc = -errno;
        btl_ib_verbs_diag_open(&search->log, "all", "rdma_cm", -rc);
        return rc;
    }
    rc = btl_ib_net_addresses_get(&all, &search->log);
    rc = rc != 0 ? rc : ask_family(&found, search, events, all.first, AF_INET);
    rc = rc != 0 ? rc : ask_family(&found, search, events, all.first, AF_INET6);
    btl_ib_net_addresses_free(&all);
    rdma_destroy_event_channel(events);
    if (rc != 0) {
        btl_ib_verbs_devices_free(found.device, found.count);
        return rc;
    }
    if (found.count == 0) {
        turn_down(search, "",
                  "no interface that is up and has an IP address belongs to an RDMA device");
    }
    *list = found.device;
    return found.count;
}
