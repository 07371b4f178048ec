/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Finding what libfabric's datagram providers offer, and which network interface that is. */

#include "ofi_devices.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_filter.h"
#include "device_info.h"
#include "net_interfaces.h"

/* Hardware first. Of several providers only the best is offered: they share the same wires. */
static const char *const preferred[] = {"usnic", "efa", "verbs", "udp"};
enum {
    PREFERRED = sizeof(preferred) / sizeof(preferred[0]),
    PLAIN = 3, /* from here on they use the kernel's network stack */
};

static int rank_of(const char *provider)
{
    int rank = 0;

    while (rank < PREFERRED && strcmp(provider, preferred[rank]) != 0) {
        rank++;
    }
    return rank;
}

/* What an address is worth to us: IPv4, then IPv6. */
static int address_rank(const struct sockaddr *address)
{
    return address == NULL || address->sa_family == AF_INET ? 0 : 1;
}

static const struct sockaddr *sockaddr_of(const struct fi_info *info)
{
    bool is_ip = info->addr_format == FI_SOCKADDR || info->addr_format == FI_SOCKADDR_IN
                 || info->addr_format == FI_SOCKADDR_IN6;
    return is_ip ? info->src_addr : NULL;
}

/* The interface that has an address; NULL if none does. */
static const struct ifaddrs *interface_of(const struct ifaddrs *interfaces,
                                          const struct sockaddr *ip)
{
    const struct ifaddrs *i = interfaces;

    while (i != NULL
           && (i->ifa_addr == NULL || i->ifa_netmask == NULL || !btl_ib_ip_same(i->ifa_addr, ip))) {
        i = i->ifa_next;
    }
    return i;
}

/* Name, subnet and speed of the interface that has the device's address. */
static void describe_interface(btl_ib_device_t *device, const struct ifaddrs *interfaces)
{
    const struct ifaddrs *i = interface_of(interfaces, (const struct sockaddr *) &device->ip);

    if (i == NULL) {
        return;
    }
    snprintf(device->interface, sizeof(device->interface), "%s", i->ifa_name);
    device->prefix_bits = btl_ib_ip_prefix(i->ifa_netmask);
    device->loopback = device->loopback || (i->ifa_flags & IFF_LOOPBACK) != 0;
    if (device->bandwidth == 0) {
        device->bandwidth = btl_ib_interface_speed(i->ifa_name);
    }
}

/* As users know it: mlx5_0, where libfabric's domain may have another name (mlx5_0-dgram). */
static const char *device_name(const struct fi_info *info)
{
    const struct fid_nic *nic = info->nic;

    if (nic != NULL && nic->device_attr != NULL && nic->device_attr->name != NULL) {
        return nic->device_attr->name;
    }
    return info->domain_attr->name;
}

/* Of a text as "0x1d0f"; 0 if there is none. */
static uint32_t number_of(const char *text)
{
    return text != NULL ? (uint32_t) strtoul(text, NULL, 0) : 0;
}

static void describe(btl_ib_device_t *device, const struct fi_info *info,
                     const struct ifaddrs *interfaces)
{
    const struct sockaddr *address = sockaddr_of(info);

    memset(device, 0, sizeof(*device));
    snprintf(device->transport, sizeof(device->transport), "ofi");
    snprintf(device->provider, sizeof(device->provider), "%s", info->fabric_attr->prov_name);
    device->plain = rank_of(device->provider) >= PLAIN;
    snprintf(device->name, sizeof(device->name), "%s", device_name(info));
    device->ip.ss_family = AF_UNSPEC;
    if (info->nic != NULL && info->nic->device_attr != NULL) {
        device->vendor_id = number_of(info->nic->device_attr->vendor_id);
        device->part_id = number_of(info->nic->device_attr->device_id);
    }
    if (info->nic != NULL && info->nic->link_attr != NULL) {
        device->bandwidth = (uint32_t) (info->nic->link_attr->speed / 1000000);
    }
    if (address != NULL && info->src_addrlen <= sizeof(device->ip)) {
        memcpy(&device->ip, address, info->src_addrlen);
        device->loopback = btl_ib_ip_loopback(address);
        describe_interface(device, interfaces);
    }
}

struct fi_info *btl_ib_ofi_hints(const char *provider)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL) {
        return NULL;
    }
    hints->ep_attr->type = FI_EP_DGRAM;
    hints->caps = FI_MSG;
    /* RX_CQ_DATA says what remote completion data cost, which we never send. */
    hints->mode = FI_MSG_PREFIX | FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
    /* All but LOCAL are about memory that others reach, or keep to what we do anyway: verbs
     * wants them. */
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN; /* the engine's owner serialises */
    if (provider != NULL && provider[0] != '\0') {
        hints->fabric_attr->prov_name = strdup(provider);
    }
    return hints;
}

/*
 * Why not to list it; NULL if it is worth it. Layers over another provider are reliable already, at
 * a price. A link-local address means another interface on each host. An interface without a
 * carrier (a bridge without members) leads nowhere, and often has one address on all hosts.
 */
static const char *why_not(const struct fi_info *info, const struct ifaddrs *interfaces)
{
    const struct sockaddr *address = sockaddr_of(info);

    if (strchr(info->fabric_attr->prov_name, ';') != NULL) {
        return "a layer over another provider";
    }
    if (address == NULL) {
        return NULL;
    }
    if (btl_ib_ip_link_local(address)) {
        return "a link-local address";
    }
    const struct ifaddrs *interface = interface_of(interfaces, address);
    return interface != NULL && !(interface->ifa_flags & IFF_RUNNING) ? "it has no carrier" : NULL;
}

/* The entry of the same device found earlier, or the next free one. */
static int place_of(const btl_ib_device_t *list, int count, const struct fi_info *info)
{
    int i = 0;

    while (i < count
           && (strcmp(list[i].name, device_name(info)) != 0
               || strcmp(list[i].provider, info->fabric_attr->prov_name) != 0)) {
        i++;
    }
    return i;
}

/* The rank of the best provider that has something to offer. */
static int best_rank(const struct fi_info *all, const struct ifaddrs *interfaces)
{
    int best = PREFERRED;

    for (const struct fi_info *info = all; info != NULL; info = info->next) {
        int rank = rank_of(info->fabric_attr->prov_name);
        best = rank < best && why_not(info, interfaces) == NULL ? rank : best;
    }
    return best;
}

static void tell_turned_down(const struct fi_info *info, const char *why, const btl_ib_log_t *log)
{
    char name[160];

    snprintf(name, sizeof(name), "%s:%s on %s", info->fabric_attr->prov_name, device_name(info),
             info->fabric_attr->name);
    btl_ib_devices_turn_down(log, "ofi", name, why);
}

/* Put a device on the list unless it is there with an address as good. Returns the new count. */
static int enter(struct fi_info *info, btl_ib_device_t *list, int count,
                 const struct ifaddrs *interfaces)
{
    int i = place_of(list, count, info);

    if (i < count && address_rank(sockaddr_of(list[i].handle)) <= address_rank(sockaddr_of(info))) {
        fi_freeinfo(info);
        return count;
    }
    if (i < count) {
        fi_freeinfo(list[i].handle);
    }
    describe(&list[i], info, interfaces);
    list[i].handle = info;
    return i < count ? count : count + 1;
}

static int collect(struct fi_info *all, btl_ib_device_t *list, const struct ifaddrs *interfaces,
                   const btl_ib_log_t *log)
{
    int best = best_rank(all, interfaces);
    int count = 0;

    for (struct fi_info *info = all; info != NULL; info = info->next) {
        const char *why = why_not(info, interfaces);
        if (why == NULL && rank_of(info->fabric_attr->prov_name) != best) {
            why = "there is a better provider";
        }
        if (why != NULL) {
            tell_turned_down(info, why, log);
            continue;
        }
        struct fi_info *copy = fi_dupinfo(info);
        if (copy == NULL) {
            return count;
        }
        count = enter(copy, list, count, interfaces);
    }
    return count;
}

/* Of hardware the provider knows, of other devices their network interface. */
void btl_ib_ofi_facts(const btl_ib_device_t *device, btl_ib_facts_t *facts)
{
    const struct fi_info *info = device->handle;
    const struct fid_nic *nic = info->nic;

    *facts = (btl_ib_facts_t){.speed = device->bandwidth};
    if (device->interface[0] != '\0') {
        btl_ib_facts_interface(device->interface, facts);
    }
    if (nic != NULL && nic->device_attr != NULL && nic->device_attr->driver != NULL) {
        snprintf(facts->driver, sizeof(facts->driver), "%s", nic->device_attr->driver);
    }
    if (nic != NULL && nic->device_attr != NULL && nic->device_attr->firmware != NULL) {
        snprintf(facts->firmware, sizeof(facts->firmware), "%s", nic->device_attr->firmware);
    }
    if (nic != NULL && nic->link_attr != NULL && nic->link_attr->mtu > 0) {
        facts->mtu = (uint32_t) nic->link_attr->mtu;
    }
}

void btl_ib_ofi_describe(const btl_ib_device_t *device, char *out, size_t len)
{
    btl_ib_facts_t facts;
    char text[192];

    btl_ib_ofi_facts(device, &facts);
    btl_ib_facts_format(&facts, text, sizeof(text));
    snprintf(out, len, "libfabric provider %s, %s", device->provider, text);
}

int btl_ib_ofi_devices(const btl_ib_search_t *search, btl_ib_device_t **out)
{
    const char *provider = search->provider;
    const btl_ib_log_t *log = &search->log;
    btl_ib_net_addresses_t interfaces;
    struct fi_info *all = NULL;
    char reason[192];
    int total = 0;

    *out = NULL;
    if (!btl_ib_ofi_load(reason, sizeof(reason))) {
        btl_ib_devices_turn_down(log, "ofi", "", reason);
        return 0;
    }
    struct fi_info *hints = btl_ib_ofi_hints(provider);
    if (hints == NULL) {
        return -ENOMEM;
    }
    int rc = fi_getinfo(BTL_IB_OFI_VERSION, NULL, NULL, 0, hints, &all);
    fi_freeinfo(hints);
    if (rc != 0) {
        snprintf(reason, sizeof(reason), "no datagram provider%s%.64s: fi_getinfo: %s",
                 provider != NULL && provider[0] != '\0' ? " named " : "",
                 provider != NULL ? provider : "", fi_strerror(-rc));
        btl_ib_devices_turn_down(log, "ofi", "", reason);
        return rc == -FI_ENODATA ? 0 : -EIO;
    }
    for (struct fi_info *info = all; info != NULL; info = info->next) {
        total++;
    }
    *out = calloc((size_t) total, sizeof(**out));
    if (*out == NULL) {
        fi_freeinfo(all);
        return -ENOMEM;
    }
    (void) btl_ib_net_addresses_get(&interfaces, log); /* else they stay nameless */
    int count = collect(all, *out, interfaces.first, log);
    btl_ib_net_addresses_free(&interfaces);
    fi_freeinfo(all);
    return count;
}

void btl_ib_ofi_devices_free(btl_ib_device_t *list, int count)
{
    for (int i = 0; i < count; i++) {
        fi_freeinfo(list[i].handle);
    }
    free(list);
}
