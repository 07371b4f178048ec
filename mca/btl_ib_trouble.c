/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_trouble.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "net_interfaces.h"

/* ---- what is known ---- */

/* Is `ip` the address in "10.1.2.3:4567" or "[fd00::1]:4567", or without a port? */
static bool is_of(const char *ip, const char *address)
{
    const char *text = address + ('[' == address[0]);
    const size_t len = strlen(ip);

    return len > 0 && 0 == strncmp(ip, text, len)
           && ('\0' == text[len] || ']' == text[len]
               || (':' == text[len] && NULL == strchr(ip, ':')));
}

/* Whose word it is, and so whose firewall, if it is one. */
static const char *whose(const char *by, const char *ours, const char *theirs, int error)
{
    if (is_of(by, theirs)) {
        return EACCES == error ? ": a firewall of that host" : ", that host itself";
    }
    if (is_of(by, ours)) {
        return EHOSTUNREACH == error
                   ? ", this host: nobody in its network answers for that address (ARP)"
               : EACCES == error ? ": a firewall of this host"
                                 : ", this host itself";
    }
    return EACCES == error ? ": a firewall on the way" : ", a router or a firewall on the way";
}

void btl_ib_trouble_format(const btl_ib_trouble_t *trouble, const char *ours, const char *theirs,
                           char *out, size_t size)
{
    const char *what = ECONNREFUSED == trouble->said  ? "port unreachable"
                       : EACCES == trouble->said      ? "administratively prohibited"
                       : ENETUNREACH == trouble->said ? "network unreachable"
                                                      : "host unreachable";

    if (0 != trouble->unsent) {
        snprintf(out, size, "this host's own system refuses to send: %s (errno %d)",
                 strerror(trouble->unsent), trouble->unsent);
    } else if (0 == trouble->said) {
        out[0] = '\0';
    } else if ('\0' == trouble->by[0]) {
        snprintf(out, size, "the network says: %s", what);
    } else {
        snprintf(out, size, "%s, says %s%s", what, trouble->by,
                 whose(trouble->by, ours, theirs, trouble->said));
    }
}

/* ---- what to look at ---- */

const char *btl_ib_unsent_advice(int error)
{
    switch (error) {
    case EPERM:
    case EACCES:
        return "A firewall of this host rejects what it sends itself, or a route prohibits it\n"
               "(nft list ruleset, iptables -S OUTPUT, ip route get <address>).";
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
    case EINVAL:
        return "This host has no route to that address, or no longer the address that it sends\n"
               "from: was a route or an interface taken away, or did DHCP give it another address\n"
               "(ip route get <address>, ip address)? It must be as before for the job to go on.";
    case ENODEV:
    case ENXIO:
    case ENETDOWN:
        return "The interface is down or gone (ip link).";
    case EBADF:
    case ENOTSOCK:
        return "The application closed descriptors that are not its own (closefrom(), or a loop\n"
               "over close()).";
    default:
        return "The kernel's log may say more; so may \"ip -s link\", \"ip route get <address>\".";
    }
}

const char *btl_ib_said_advice(int error)
{
    switch (error) {
    case EACCES:
        return "Open the ports in that firewall: btl_ib_port_min and btl_ib_port_range choose\n"
               "them; btl_ib_if_include chooses another network.";
    case ECONNREFUSED:
        return "A firewall of that host rejects UDP (nft, iptables: reject), or the process has\n"
               "ended, or closed descriptors that are not its own: look at its output, its exit\n"
               "status and the kernel's log of its host (out of memory?).";
    default:
        return "Is the host up, the cable in, and the address routed from here (ping, ip route\n"
               "get <address>, ip neigh)? btl_ib_if_include chooses another network.";
    }
}

/* ---- the interface ---- */

static const char *text_of(const struct sockaddr *address, char *out, size_t size)
{
    size_t len;
    const uint8_t *bytes = btl_ib_ip_bytes(address, &len);

    return NULL != bytes && NULL != inet_ntop(address->sa_family, bytes, out, (socklen_t) size)
               ? out
               : "none";
}

/* Its first address of that family other than one that means another interface on each host; NULL:
 * it has none. */
static const struct sockaddr *find_other(const struct ifaddrs *all, const btl_ib_device_t *device)
{
    const struct ifaddrs *i = all;

    while (NULL != i
           && (NULL == i->ifa_addr || i->ifa_addr->sa_family != device->ip.ss_family
               || 0 != strcmp(i->ifa_name, device->interface)
               || btl_ib_ip_link_local(i->ifa_addr))) {
        i = i->ifa_next;
    }
    return NULL != i ? i->ifa_addr : NULL;
}

static bool has(const struct ifaddrs *all, const struct sockaddr *ip)
{
    const struct ifaddrs *i = all;

    while (NULL != i && (NULL == i->ifa_addr || !btl_ib_ip_same(i->ifa_addr, ip))) {
        i = i->ifa_next;
    }
    return NULL != i;
}

void btl_ib_trouble_interface(const btl_ib_device_t *device, char *out, size_t size)
{
    const struct sockaddr *ip = (const struct sockaddr *) (const void *) &device->ip;
    struct ifreq request = {.ifr_flags = 0};
    btl_ib_net_addresses_t all;
    char now[INET6_ADDRSTRLEN];
    char before[INET6_ADDRSTRLEN];

    if ('\0' == device->interface[0]
        || 0 != btl_ib_interface_ask(device->interface, SIOCGIFFLAGS, &request)) {
        snprintf(out, size, "there is no interface %s any more",
                 '\0' != device->interface[0] ? device->interface : "of that device");
        return;
    }
    if (0 == (request.ifr_flags & IFF_UP)) {
        snprintf(out, size, "interface %s is down", device->interface);
        return;
    }
    if (0 != btl_ib_net_addresses_get(&all, NULL)) {
        snprintf(out, size, "interface %s is up", device->interface);
        return;
    }
    if (has(all.first, ip)) {
        snprintf(out, size, "interface %s is up and has its address", device->interface);
    } else {
        const struct sockaddr *other = find_other(all.first, device);

        snprintf(out, size, "interface %s has no longer the address %s, now: %s", device->interface,
                 text_of(ip, before, sizeof(before)),
                 NULL != other ? text_of(other, now, sizeof(now)) : "none");
    }
    btl_ib_net_addresses_free(&all);
}
