/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "ofi_devices.h"

#include "device_filter.h"
#include "net_interfaces.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Providers by preference, hardware first. Only devices of the best provider that has any are
 * offered, as the others would use the same wires. */
static const char *const preferred[] = {"usnic", "efa", "verbs", "udp"};
enum {
    PREFERRED = sizeof(preferred) / sizeof(preferred[0]),
    PLAIN = 3, /* providers from this index on use the kernel's network stack */
};

static int provider_rank(const char *provider)
{
    int rank = 0;

    while (rank < PREFERRED && strcmp(provider, preferred[rank]) != 0) {
        rank++;
    }
    return rank;
}

/* Returns the rank of an address: IPv4 comes before IPv6. */
static int address_rank(const struct sockaddr *address)
{
    return address == NULL || address->sa_family == AF_INET ? 0 : 1;
}

static const struct sockaddr *info_sockaddr(const struct fi_info *info)
{
    bool is_ip = info->addr_format == FI_SOCKADDR || info->addr_format == FI_SOCKADDR_IN
                 || info->addr_format == FI_SOCKADDR_IN6;
    return is_ip ? info->src_addr : NULL;
}

/* Returns the interface that has an address; NULL if none does. */
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

/* Fills in name, subnet and speed of the interface that has the device's address. */
static void device_describe_interface(btl_ib_device_t *device, const struct ifaddrs *interfaces)
{
    const struct ifaddrs *i = interface_of(interfaces, (const struct sockaddr *) &device->ip);

    if (i == NULL) {
        return;
    }
    btl_ib_device_set_interface(device, i->ifa_name);
    device->prefix_bits = btl_ib_ip_prefix(i->ifa_netmask);
    device->loopback = device->loopback || (i->ifa_flags & IFF_LOOPBACK) != 0;
    if (device->bandwidth == 0) {
        device->bandwidth = btl_ib_interface_speed(device->interface);
    }
}

/* Returns the name that users know, as mlx5_0; libfabric's domain may be called mlx5_0-dgram. */
static const char *device_name(const struct fi_info *info)
{
    const struct fid_nic *nic = info->nic;

    if (nic != NULL && nic->device_attr != NULL && nic->device_attr->name != NULL) {
        return nic->device_attr->name;
    }
    return info->domain_attr->name;
}

/* Returns the number of a text as "0x1d0f"; 0 if there is none. */
static uint32_t number_of(const char *text)
{
    return text != NULL ? (uint32_t) strtoul(text, NULL, 0) : 0;
}

static void device_describe(btl_ib_device_t *device, const struct fi_info *info,
                            const struct ifaddrs *interfaces)
{
    const struct sockaddr *address = info_sockaddr(info);

    memset(device, 0, sizeof(*device));
    snprintf(device->transport, sizeof(device->transport), "ofi");
    snprintf(device->provider, sizeof(device->provider), "%s", info->fabric_attr->prov_name);
    device->plain = provider_rank(device->provider) >= PLAIN;
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
        device_describe_interface(device, interfaces);
    }
}

/* Returns the hints for fi_getinfo(): what we can work with. The caller frees them. NULL if memory
 * is short. */
static struct fi_info *ofi_hints(const char *provider)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL) {
        return NULL;
    }
    hints->ep_attr->type = FI_EP_DGRAM;
    hints->caps = FI_MSG;
    /* RX_CQ_DATA is about remote completion data, which we never send: accept it. */
    hints->mode = FI_MSG_PREFIX | FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
    /* verbs wants all of these. All but LOCAL are about memory that peers reach, or ask for what we
     * do anyway. */
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN; /* the component's lock serialises calls */
    if (provider != NULL && provider[0] != '\0') {
        hints->fabric_attr->prov_name = strdup(provider);
    }
    return hints;
}

/*
 * Returns why a device is not listed; NULL: it is. Layers over another provider are not, as they
 * pay for a reliability of their own; nor link-local addresses, which are valid on one link only;
 * nor interfaces without a carrier (a bridge without members), which lead nowhere, and often have
 * the same address on all hosts.
 */
static const char *info_why_not(const struct fi_info *info, const struct ifaddrs *interfaces)
{
    const struct sockaddr *address = info_sockaddr(info);

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
    return interface != NULL ? btl_ib_interface_why_not(interface->ifa_flags) : NULL;
}

/* Returns the index of a device that is on the list with another address; `count` if it is not. */
static int devices_place(const btl_ib_device_t *list, int count, const struct fi_info *info)
{
    int i = 0;

    while (i < count
           && (strcmp(list[i].name, device_name(info)) != 0
               || strcmp(list[i].provider, info->fabric_attr->prov_name) != 0)) {
        i++;
    }
    return i;
}

/* Returns the rank of the best provider that has a usable device. */
static int provider_best_rank(const struct fi_info *all, const struct ifaddrs *interfaces)
{
    int best = PREFERRED;

    for (const struct fi_info *info = all; info != NULL; info = info->next) {
        int rank = provider_rank(info->fabric_attr->prov_name);
        best = rank < best && info_why_not(info, interfaces) == NULL ? rank : best;
    }
    return best;
}

/* Adds a device to the list, which takes over `info`; unless the list has the device with an
 * address that is as good. Returns the new count. */
static int devices_enter(struct fi_info *info, btl_ib_device_t *list, int count,
                         const struct ifaddrs *interfaces)
{
    int i = devices_place(list, count, info);

    if (i < count
        && address_rank(info_sockaddr(list[i].handle)) <= address_rank(info_sockaddr(info))) {
        fi_freeinfo(info);
        return count;
    }
    if (i < count) {
        fi_freeinfo(list[i].handle);
    }
    device_describe(&list[i], info, interfaces);
    list[i].handle = info;
    return i < count ? count : count + 1;
}

static int devices_collect(struct fi_info *all, btl_ib_device_t *list,
                           const struct ifaddrs *interfaces, const btl_ib_log_t *log)
{
    int best = provider_best_rank(all, interfaces);
    int count = 0;
    char name[160];

    for (struct fi_info *info = all; info != NULL; info = info->next) {
        const char *why = info_why_not(info, interfaces);
        if (why == NULL && provider_rank(info->fabric_attr->prov_name) != best) {
            why = "there is a better provider";
        }
        if (why != NULL) {
            snprintf(name, sizeof(name), "%s:%s on %s", info->fabric_attr->prov_name,
                     device_name(info), info->fabric_attr->name);
            btl_ib_devices_turn_down(log, "ofi", name, why);
            continue;
        }
        struct fi_info *copy = fi_dupinfo(info);
        if (copy == NULL) {
            return count;
        }
        count = devices_enter(copy, list, count, interfaces);
    }
    return count;
}

/* facts() of btl_ib_transport_type_t: what the network interface says, and over that what the
 * provider says of hardware. */
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

/* devices() of btl_ib_transport_type_t. */
int btl_ib_ofi_devices(const btl_ib_search_t *search, btl_ib_device_t **out)
{
    const char *provider = search->provider;
    const btl_ib_log_t *log = &search->log;
    struct ifaddrs *interfaces = NULL;
    struct fi_info *all = NULL;
    char reason[192];
    int total = 0;

    *out = NULL;
    if (!btl_ib_ofi_load(reason, sizeof(reason))) {
        btl_ib_devices_turn_down(log, "ofi", "", reason);
        return 0;
    }
    struct fi_info *hints = ofi_hints(provider);
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
    (void) btl_ib_net_addresses_get(&interfaces, log); /* else devices have no interface */
    int count = devices_collect(all, *out, interfaces, log);
    free(interfaces);
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
