/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Asks the kernel about network interfaces and RDMA devices of this host: their addresses, speed
 * and drivers, and which of them cannot lead off this host. */

#ifndef BTL_IB_NET_INTERFACES_H
#define BTL_IB_NET_INTERFACES_H

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "transport.h"

/* ---- interfaces ---- */

/* Returns the bytes of an IP address, in network order, and sets *len to their number, 4 or 16.
 * NULL and 0: it is no IP address. */
const uint8_t *btl_ib_ip_bytes(const struct sockaddr *address, size_t *len);

/* True if both are the same IP address; ports are ignored. */
bool btl_ib_ip_same(const struct sockaddr *a, const struct sockaddr *b);

/* True if the first `bits` of two addresses are the same. */
bool btl_ib_ip_same_bits(const uint8_t *a, const uint8_t *b, unsigned bits);

/* Writes an IP address as text, as "10.1.2.3" or "fd00::1"; "none" if it is no IP address. Returns
 * `out`, which has at least INET6_ADDRSTRLEN bytes. */
const char *btl_ib_ip_text(const struct sockaddr *address, char *out, size_t len);

/* Writes an IP address with its port, as "10.1.2.3:4567" or "[fd00::1]:4567". Returns `out`, which
 * has at least INET6_ADDRSTRLEN + 8 bytes. */
const char *btl_ib_ip_port_text(const struct sockaddr *address, char *out, size_t len);

/* Returns the number of bits that a network mask has set; 0 if it is none. */
uint8_t btl_ib_ip_prefix(const struct sockaddr *mask);

/* True for a link-local address of IPv6 (fe80::/10), which is valid on one link only. */
static inline bool btl_ib_ip_link_local(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6
           && IN6_IS_ADDR_LINKLOCAL(
               &((const struct sockaddr_in6 *) (const void *) address)->sin6_addr);
}

/* True for a link-local address of IPv4 (169.254.0.0/16). */
bool btl_ib_ip_link_local4(const struct sockaddr *address);

/* True for an address that reaches this host only, on any interface: 127.0.0.0/8, ::1 (RFC 1122,
 * 3.2.1.3; RFC 4291, 2.5.3). */
bool btl_ib_ip_loopback(const struct sockaddr *address);

/*
 * Returns the length of the interface's name in ifa_name of struct ifaddrs. For IPv4 ifa_name is
 * the label of the address: the interface's name with something behind it (ip-address(8)), as
 * "eth0:1" or "eth0vip". Asks the kernel which part of it names an interface.
 */
int btl_ib_interface_name_len(const char *label);

/* Sets the interface of a device whose address has that label. */
static inline void btl_ib_device_set_interface(btl_ib_device_t *device, const char *label)
{
    snprintf(device->interface, sizeof(device->interface), "%.*s", btl_ib_interface_name_len(label),
             label);
}

/* True if `label` is `name`, or the label of an address of the interface `name`. */
static inline bool btl_ib_interface_same(const char *label, const char *name)
{
    const size_t len = strlen(name);

    return strncmp(label, name, len) == 0
           && (label[len] == '\0' || (size_t) btl_ib_interface_name_len(label) == len);
}

/* Asks an interface by ioctl(2) (netdevice(7)). The caller fills in `request`, except the name.
 * Returns NULL, or the system call that failed, with errno. */
const char *btl_ib_interface_ask(const char *interface, unsigned long question,
                                 struct ifreq *request);

/*
 * Returns why an interface in the state `flags` (ifa_flags of struct ifaddrs) carries nothing: "it
 * is down", "it has no carrier"; NULL if it carries. Reads IFF_LOWER_UP besides IFF_RUNNING, as the
 * kernel sets the latter up to a second after the carrier is there (linkwatch). But a port with
 * IFF_DORMANT has a carrier and still waits to be let in (IEEE 802.1X).
 */
const char *btl_ib_interface_why_not(unsigned flags);

/* Returns the speed of an interface, Mbit/s; 0: the driver does not know. */
uint32_t btl_ib_interface_speed(const char *interface);

/* ---- addresses ---- */

/*
 * Lists the addresses of this host's interfaces as getifaddrs(3) does. That needs netlink, which
 * systemd's RestrictAddressFamilies= or a filter of system calls may deny. If it fails, lists those
 * of IPv4 by SIOCGIFCONF (netdevice(7)) and those of IPv6 by /proc/self/net/if_inet6 (proc(5)):
 * then interfaces without an IP address and hardware addresses are missing, and IPv6 addresses come
 * in any order (docs/kept.md). An IPv4 address whose label does not begin with the name of an
 * interface (rtnetlink takes any label) gets the name of its interface in place of the label. Both
 * are logged to `log` (level 10; NULL: not). Returns 0 and *all, to be freed with free(); or a
 * negative errno, that of getifaddrs(), and NULL.
 */
int btl_ib_net_addresses_get(struct ifaddrs **all, const btl_ib_log_t *log);

/* An IPv6 address of this host. */
typedef struct btl_ib_inet6 {
    struct in6_addr ip;
    unsigned index; /* of its interface */
    unsigned prefix_bits;
    unsigned flags; /* the low 8 bits of IFA_FLAGS (linux/if_addr.h), which getifaddrs() lacks */
    char name[IF_NAMESIZE];
} btl_ib_inet6_t;

/* Lists the IPv6 addresses of /proc/self/net/if_inet6 (proc(5)) in *list, which the caller frees in
 * any case; none without IPv6 or that file. Returns 0; or -ENOMEM, and the list is incomplete. */
int btl_ib_net_inet6_get(btl_ib_inet6_t **list, size_t *count);

/* ---- interfaces that cannot lead off this host ---- */

/*
 * Some network interfaces cannot lead off this host: bridges of containers and virtual machines,
 * taps of virtual machines, veth pairs with both ends here, dummies. We ask the kernel what an
 * interface is (rtnetlink(7)): names do not tell, and /sys shows the namespace in which it was
 * mounted, which need not be that of the process.
 */

/* Sets `last_resort`, unless it is set, of devices on such interfaces, and of devices whose address
 * is link-local IPv6 on an interface that serves a bridge or a container. Logs it (level 10) if the
 * kernel does not describe the interfaces. */
void btl_ib_links_mark_host_only(btl_ib_device_t *list, int count, const btl_ib_log_t *log);

/* ---- files of /proc and /sys ---- */

/* Reads the number that a file begins with. Returns false if there is none. */
bool btl_ib_file_number(const char *path, uint64_t *number);

/* ---- RDMA devices ---- */

/* True if this host has an RDMA device (InfiniBand, RoCE, iWARP, usNIC, EFA). Asks the kernel
 * (/sys/class/infiniband) before a library is loaded: libfabric takes 0.2 s, and of hardware it
 * finds such devices only. */
bool btl_ib_rdma_present(void);

/* True if this host has an RDMA device with a port that is active. */
bool btl_ib_rdma_active(void);

/* ---- facts for diagnosis ---- */

/* Facts about a device. An empty text or a 0 is unknown. */
typedef struct btl_ib_facts {
    char driver[64];
    char firmware[64];
    uint32_t speed; /* Mbit/s */
    uint32_t mtu;   /* bytes */
} btl_ib_facts_t;

/* Fills in what the kernel knows of a network interface. */
void btl_ib_facts_interface(const char *interface, btl_ib_facts_t *facts);

/* Fills in driver and firmware of a network interface only, by one system call instead of four. */
void btl_ib_facts_interface_driver(const char *interface, btl_ib_facts_t *facts);

/* Writes the driver of `name` in /sys/class/`class`; "" if it is no device of a bus (rxe, siw,
 * veth). */
void btl_ib_facts_driver(const char *class, const char *name, char *out, size_t len);

/* Writes facts as "driver mlx5_core, firmware 16.35.2000, link 100000 Mbit/s, MTU 4096". */
void btl_ib_facts_format(const btl_ib_facts_t *facts, char *out, size_t len);

#endif
