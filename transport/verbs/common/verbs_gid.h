/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The addresses (GIDs) of a port: which there are, which is the best, whom they reach. */

#ifndef BTL_IB_VERBS_GID_H
#define BTL_IB_VERBS_GID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "verbs_library.h"

enum {
    BTL_IB_VERBS_GIDS_MAX = 64, /* of one port that are looked at */
    BTL_IB_VERBS_GID_IPV4 = 12, /* offset of the IPv4 address in a mapped GID */
};

/* One address of a port. */
typedef struct btl_ib_verbs_gid {
    union ibv_gid gid;
    uint32_t index; /* in the port's table */
    uint32_t type;  /* enum ibv_gid_type */
    char interface[32];
    struct sockaddr_storage ip; /* the same as an IP address */
    uint8_t prefix_bits;        /* of its subnet */
} btl_ib_verbs_gid_t;

/*
 * How good an address is; 0 is the best. On Ethernet RoCE v2 comes before v1, then routable before
 * link-local, then IPv4 before IPv6. On InfiniBand all are equal.
 */
unsigned btl_ib_verbs_gid_rank(const struct ibv_gid_entry *entry);

/* Is it an IPv4 address (::ffff:a.b.c.d)? */
bool btl_ib_verbs_gid_is_v4(const union ibv_gid *gid);

/*
 * List the addresses of a port, the best first; on InfiniBand, where all lead to the same place,
 * only the best. With `index` >= 0 only the one at that place of the port's table. Places beyond
 * 255 cannot be used and are left out. Returns how many, at most BTL_IB_VERBS_GIDS_MAX, or a
 * negative errno; *list is to be freed in any case.
 */
int btl_ib_verbs_gids(struct ibv_context *context, uint8_t port, int index,
                      btl_ib_verbs_gid_t **list);

/* Can packets from `own` get to `gid`, as far as addresses tell? */
bool btl_ib_verbs_gid_reaches(const btl_ib_verbs_gid_t *own, const union ibv_gid *gid);

/* An address as text; `len` is at least INET6_ADDRSTRLEN. Returns `out`. */
const char *btl_ib_verbs_gid_format(const union ibv_gid *gid, char *out, size_t len);

#endif
