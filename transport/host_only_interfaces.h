/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which network interfaces cannot lead off this host: bridges of containers and of virtual
 * machines, the latter's taps, veth pairs with both ends here, dummies. What they are is asked of
 * the kernel (rtnetlink(7)), not told from their names. Not of /sys either: that shows the
 * namespace it was mounted in, which need not be the process' own.
 */

#ifndef BTL_IB_LINKS_H
#define BTL_IB_LINKS_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport.h"

/* A network interface of this namespace. Indexes are those of the kernel; 0: none. */
typedef struct btl_ib_link {
    uint32_t index;
    uint32_t master; /* the bridge, bond... that it is a member of */
    uint32_t lower;  /* of a veth the other end; of others what it is on (vlan, macvlan...) */
    bool
        lower_elsewhere; /* that is in another network namespace, so its index means nothing here */
    bool tap;            /* kind "tun": Ethernet frames, not IP packets */
    bool vnet_hdr;       /* kind "tun": with virtio's header, as virtual machines have it */
    char name[IF_NAMESIZE];
    char kind[16]; /* "bridge", "veth"...; "": hardware, mostly */
    bool seen;     /* visited by the search for a path off the host */
} btl_ib_link_t;

/* All zero: none. */
typedef struct btl_ib_links {
    btl_ib_link_t *link; /* malloced */
    size_t count;
} btl_ib_links_t;

/* Read those of this process' namespace. Returns 0, or a negative errno and none.
 * btl_ib_links_free() follows. */
int btl_ib_links_read(btl_ib_links_t *links);
void btl_ib_links_free(btl_ib_links_t *links);

/*
 * Why the interface `name` cannot lead off this host, in words that end a sentence about it (a
 * literal); NULL if it may, as does every one that is not known.
 */
const char *btl_ib_links_host_only(const btl_ib_links_t *links, const char *name);

/* Set `last_resort` of devices on such interfaces, or with an IPv4 address that is link-local,
 * which have none yet. If the kernel tells nothing of interfaces `log` hears of it (level 10). */
void btl_ib_links_mark_host_only(btl_ib_device_t *list, int count, const btl_ib_log_t *log);

#endif
