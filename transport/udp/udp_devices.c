/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_devices.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "device_filter.h"
#include "device_info.h"
#include "net_addresses.h"
#include "net_interfaces.h"
#include "udp_path_mtu.h"

uint32_t btl_ib_udp_device_datagram(const btl_ib_device_t *device)
{
    struct ifreq request = {.ifr_mtu = 0};

    if (btl_ib_interface_ask(device->interface, SIOCGIFMTU, &request) != 0
        || request.ifr_mtu <= 0) {
        return 0;
    }
    return btl_ib_udp_mtu_datagram(device->ip.ss_family, (uint32_t) request.ifr_mtu);
}

/* ---- states of IPv6 addresses ---- */

typedef struct states {
    btl_ib_inet6_t *of;
    size_t count;
} states_t;

/* Of an address that is not there: it counts as good. */
static uint32_t flags_of(const states_t *states, const struct sockaddr *address)
{
    size_t len;
    const uint8_t *bytes = btl_ib_ip_bytes(address, &len);

    for (size_t i = 0; len == sizeof(struct in6_addr) && i < states->count; i++) {
        if (memcmp(&states->of[i].ip, bytes, len) == 0) {
            return states->of[i].flags;
        }
    }
    return 0;
}

/* ---- devices ---- */

/* Why an address is none to be used; NULL if it is. A link-local one means another interface
 * on each host. */
static const char *why_not(const struct ifaddrs *i, uint32_t flags)
{
    if (!(i->ifa_flags & IFF_UP)) {
        return "it is down";
    }
    if (!(i->ifa_flags & IFF_RUNNING)) {
        return "it has no carrier";
    }
    if (i->ifa_netmask == NULL) {
        return "its address is in no network";
    }
    if (btl_ib_ip_link_local(i->ifa_addr)) {
        return "its address is link-local";
    }
    if (flags & IFA_F_DADFAILED) {
        return "another host has its IPv6 address, too (dadfailed)";
    }
    if ((flags & (IFA_F_TENTATIVE | IFA_F_OPTIMISTIC)) == IFA_F_TENTATIVE) {
        return "its IPv6 address is not known to be its own yet (tentative)";
    }
    return NULL;
}

static void describe(const struct ifaddrs *i, btl_ib_device_t *device)
{
    const bool v4 = i->ifa_addr->sa_family == AF_INET;

    memset(device, 0, sizeof(*device));
    snprintf(device->transport, sizeof(device->transport), "udp");
    snprintf(device->name, sizeof(device->name), "%s", i->ifa_name);
    snprintf(device->interface, sizeof(device->interface), "%s", i->ifa_name);
    memcpy(&device->ip, i->ifa_addr, v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    device->plain = true;
    device->prefix_bits = btl_ib_ip_prefix(i->ifa_netmask);
    /* Of a VPN, which most often goes by another interface of this host; or of a host that routers
     * lead to by any of its links, which has it on "lo". */
    if (i->ifa_flags & (IFF_POINTOPOINT | IFF_LOOPBACK)) {
        device->rank = BTL_IB_RANK_LAST;
    }
    device->loopback = btl_ib_ip_loopback(i->ifa_addr);
    device->bandwidth = i->ifa_flags & IFF_LOOPBACK ? 0 : btl_ib_interface_speed(i->ifa_name);
}

/* Add the addresses of one family, in the system's order. Returns how many there are then. */
static int collect(const struct ifaddrs *all, sa_family_t family, const states_t *states,
                   const btl_ib_log_t *log, btl_ib_device_t *list, int count)
{
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != family) {
            continue;
        }
        const uint32_t flags = flags_of(states, i->ifa_addr);
        const char *why = why_not(i, flags);
        if (why == NULL) {
            describe(i, &list[count]);
            /* The system gives both kinds up by and by (RFC 4862, 5.5.4; RFC 8981). */
            if (flags & (IFA_F_DEPRECATED | IFA_F_TEMPORARY)) {
                list[count].rank = BTL_IB_RANK_LAST;
            }
            count++;
        } else {
            btl_ib_devices_turn_down(log, "udp", i->ifa_name, why);
        }
    }
    return count;
}

static bool has_ip(const struct ifaddrs *all, const char *name)
{
    size_t len;
    const struct ifaddrs *i = all;

    while (i != NULL
           && (i->ifa_addr == NULL || btl_ib_ip_bytes(i->ifa_addr, &len) == NULL
               || strcmp(i->ifa_name, name) != 0)) {
        i = i->ifa_next;
    }
    return i != NULL;
}

/* Interfaces without an IP address, which are seen by their hardware address, or by none. */
static void tell_without_ip(const struct ifaddrs *all, const btl_ib_log_t *log)
{
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        if (!has_ip(all, i->ifa_name)) {
            btl_ib_devices_turn_down(log, "udp", i->ifa_name,
                                     i->ifa_flags & IFF_UP ? "it has no IP address"
                                                           : "it is down and has no IP address");
        }
    }
}

void btl_ib_udp_facts(const btl_ib_device_t *device, btl_ib_facts_t *facts)
{
    btl_ib_facts_interface(device->interface, facts);
}

void btl_ib_udp_describe(const btl_ib_device_t *device, char *out, size_t len)
{
    btl_ib_facts_t facts;

    btl_ib_udp_facts(device, &facts);
    btl_ib_facts_format(&facts, out, len);
}

int btl_ib_udp_devices(const btl_ib_search_t *search, btl_ib_device_t **list)
{
    btl_ib_net_addresses_t all;
    int count = 0;

    *list = NULL;
    if (search->provider != NULL
        && search->provider[0] != '\0') { /* of libfabric's was asked for one */
        return 0;
    }
    const int rc = btl_ib_net_addresses_get(&all, &search->log);
    if (rc != 0) {
        return rc;
    }
    for (const struct ifaddrs *i = all.first; i != NULL; i = i->ifa_next) {
        count++;
    }
    *list = calloc((size_t) count + 1, sizeof(**list));
    if (*list == NULL) {
        btl_ib_net_addresses_free(&all);
        return -ENOMEM;
    }
    states_t states;
    (void) btl_ib_net_inet6_get(&states.of, &states.count);
    count = collect(all.first, AF_INET, &states, &search->log, *list, 0);
    count = collect(all.first, AF_INET6, &states, &search->log, *list, count);
    free(states.of);
    tell_without_ip(all.first, &search->log);
    btl_ib_net_addresses_free(&all);
    return count;
}

void btl_ib_udp_devices_free(btl_ib_device_t *list, int count)
{
    (void) count;
    free(list);
}
