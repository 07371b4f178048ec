/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The addresses of this host's network interfaces, also where netlink is denied: getifaddrs(3) has
 * no other source, and systemd's RestrictAddressFamilies= or a filter of system calls may leave a
 * service AF_INET and AF_INET6 only.
 */

#ifndef BTL_IB_NET_ADDRESSES_H
#define BTL_IB_NET_ADDRESSES_H

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "transport.h"

struct btl_ib_own_address;

/* All zero: none. */
typedef struct btl_ib_net_addresses {
    struct ifaddrs *first;          /* NULL: there are none */
    struct btl_ib_own_address *own; /* malloced, if they do not come from getifaddrs() */
} btl_ib_net_addresses_t;

/*
 * List them as getifaddrs() does, or, if it fails, those of IPv4 by SIOCGIFCONF (netdevice(7)) and
 * those of IPv6 by /proc/self/net/if_inet6 (proc(5)); then interfaces without an IP address and
 * hardware addresses are missing, and `log` (NULL: nobody) hears of it (level 10). Returns 0, or a
 * negative errno and none: that of getifaddrs() if the others fail as well.
 * btl_ib_net_addresses_free() follows.
 */
int btl_ib_net_addresses_get(btl_ib_net_addresses_t *all, const btl_ib_log_t *log);
void btl_ib_net_addresses_free(btl_ib_net_addresses_t *all);

/* An IPv6 address of this host. */
typedef struct btl_ib_inet6 {
    struct in6_addr ip;
    unsigned index; /* of its interface */
    unsigned prefix_bits;
    unsigned flags; /* the low 8 bits of IFA_FLAGS (linux/if_addr.h), which getifaddrs() does not
                     * tell */
    char name[IF_NAMESIZE];
} btl_ib_inet6_t;

/* Those that /proc/self/net/if_inet6 has (proc(5)), in *list, to be freed; none without IPv6 or
 * that file. Returns 0 or -ENOMEM, with those that there was memory for. */
int btl_ib_net_inet6_get(btl_ib_inet6_t **list, size_t *count);

#endif
