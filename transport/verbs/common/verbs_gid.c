/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_gid.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net_addresses.h"
#include "net_interfaces.h"

enum {
    IB_PREFIX = 64, /* bits of a GID that name the subnet, on InfiniBand */
    IPOIB_GID = 4,  /* where in the hardware address of IPoIB the GID begins (RFC 4391, 9.1.1) */
    IPOIB_BYTES = 20,
    INDEX_MAX = 255, /* an address handle names its source by a byte (struct ibv_global_route) */
};

static const struct in6_addr *as_ip(const union ibv_gid *gid)
{
    return (const struct in6_addr *) (const void *) gid->raw;
}

bool btl_ib_verbs_gid_is_v4(const union ibv_gid *gid)
{
    return IN6_IS_ADDR_V4MAPPED(as_ip(gid));
}

static bool is_link_local(const union ibv_gid *gid)
{
    return IN6_IS_ADDR_LINKLOCAL(as_ip(gid));
}

unsigned btl_ib_verbs_gid_rank(const struct ibv_gid_entry *entry)
{
    const unsigned local = is_link_local(&entry->gid);
    const unsigned v6 = !btl_ib_verbs_gid_is_v4(&entry->gid);

    if (entry->gid_type == IBV_GID_TYPE_IB) { /* one is as good as another: the first */
        return 0;
    }
    return (entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? 0u : 4u) + 2 * local + v6;
}

static void set_ip(btl_ib_verbs_gid_t *gid)
{
    if (btl_ib_verbs_gid_is_v4(&gid->gid)) {
        struct sockaddr_in *in4 = (struct sockaddr_in *) &gid->ip;
        in4->sin_family = AF_INET;
        memcpy(&in4->sin_addr, gid->gid.raw + BTL_IB_VERBS_GID_IPV4, sizeof(in4->sin_addr));
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *) &gid->ip;
        in6->sin6_family = AF_INET6;
        memcpy(&in6->sin6_addr, gid->gid.raw, sizeof(in6->sin6_addr));
    }
}

/* How long the prefix of an interface's address is; that of a host alone if no interface has it. */
static uint8_t prefix_of(const struct ifaddrs *all, const struct sockaddr *ip)
{
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        if (i->ifa_addr != NULL && i->ifa_netmask != NULL && btl_ib_ip_same(i->ifa_addr, ip)) {
            return btl_ib_ip_prefix(i->ifa_netmask);
        }
    }
    return ip->sa_family == AF_INET ? 32 : 128;
}

/* On InfiniBand the table names no interface. That of IPoIB has the port's GID in its hardware
 * address, of which getifaddrs() tells all bytes although struct sockaddr_ll has but 8. */
static void set_ipoib(const struct ifaddrs *all, btl_ib_verbs_gid_t *gid)
{
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        const struct sockaddr_ll *hardware = (const void *) i->ifa_addr;
        const size_t at = offsetof(struct sockaddr_ll, sll_addr) + IPOIB_GID;

        if (hardware != NULL && hardware->sll_family == AF_PACKET
            && hardware->sll_hatype == ARPHRD_INFINIBAND && hardware->sll_halen == IPOIB_BYTES
            && memcmp((const uint8_t *) hardware + at, gid->gid.raw, sizeof(gid->gid.raw)) == 0) {
            strncpy(gid->interface, i->ifa_name, sizeof(gid->interface) - 1);
            return;
        }
    }
}

static void describe(const struct ibv_gid_entry *entry, const struct ifaddrs *all,
                     btl_ib_verbs_gid_t *gid)
{
    char name[IF_NAMESIZE] = "";

    memset(gid, 0, sizeof(*gid));
    gid->gid = entry->gid;
    gid->index = entry->gid_index;
    gid->type = entry->gid_type;
    if (entry->ndev_ifindex != 0 && if_indextoname(entry->ndev_ifindex, name) != NULL) {
        memcpy(gid->interface, name, sizeof(name));
    }
    if (entry->gid_type == IBV_GID_TYPE_IB) {
        set_ipoib(all, gid);
    }
    set_ip(gid);
    gid->prefix_bits = entry->gid_type == IBV_GID_TYPE_IB
                           ? IB_PREFIX
                           : prefix_of(all, (const struct sockaddr *) &gid->ip);
}

static int by_rank(const void *a, const void *b)
{
    const struct ibv_gid_entry *x = a;
    const struct ibv_gid_entry *y = b;
    const unsigned rank_x = btl_ib_verbs_gid_rank(x);
    const unsigned rank_y = btl_ib_verbs_gid_rank(y);

    if (rank_x != rank_y) {
        return rank_x < rank_y ? -1 : 1;
    }
    return x->gid_index < y->gid_index ? -1 : 1;
}

/* The addresses of all ports, all that the device has. Returns how many, or a negative errno. */
static int read_table(struct ibv_context *context, uint8_t port, struct ibv_gid_entry **entries)
{
    struct ibv_device_attr device;
    struct ibv_port_attr attr;
    size_t room = 0;

    *entries = NULL;
    if (ibv_query_device(context, &device) != 0) {
        return -EIO;
    }
    for (unsigned p = 1; p <= device.phys_port_cnt; p++) {
        if (ibv_query_port(context, (uint8_t) p, &attr) != 0) {
            return -EIO;
        }
        room += attr.gid_tbl_len > 0 ? (size_t) attr.gid_tbl_len : 0;
    }
    *entries = calloc(room + 1, sizeof(**entries));
    if (*entries == NULL) {
        return -ENOMEM;
    }
    const ssize_t found = ibv_query_gid_table(context, *entries, room, 0);
    int count = 0;
    for (ssize_t i = 0; i < found; i++) {
        if ((*entries)[i].port_num == port) {
            (*entries)[count++] = (*entries)[i];
        }
    }
    return found < 0 ? (int) found : count;
}

/* Keep those that are wanted and can be used, the best first. Returns how many. */
static int choose(struct ibv_gid_entry *entries, int count, int index)
{
    int wanted = 0;

    for (int i = 0; i < count; i++) {
        if (entries[i].gid_index <= INDEX_MAX
            && (index < 0 || entries[i].gid_index == (uint32_t) index)) {
            entries[wanted++] = entries[i];
        }
    }
    qsort(entries, (size_t) wanted, sizeof(*entries), by_rank);
    return wanted > 0 && entries[0].gid_type == IBV_GID_TYPE_IB ? 1 : wanted;
}

int btl_ib_verbs_gids(struct ibv_context *context, uint8_t port, int index,
                      btl_ib_verbs_gid_t **list)
{
    struct ibv_gid_entry *entries;
    btl_ib_net_addresses_t all;
    int count = read_table(context, port, &entries);

    *list = NULL;
    if (count > 0) {
        (void) btl_ib_net_addresses_get(&all, NULL); /* without it prefixes are those of hosts */
        count = choose(entries, count, index);
        count = count < BTL_IB_VERBS_GIDS_MAX ? count : BTL_IB_VERBS_GIDS_MAX;
        *list = calloc(count > 0 ? (size_t) count : 1, sizeof(**list));
        count = *list != NULL ? count : -ENOMEM;
        for (int i = 0; i < count; i++) {
            describe(&entries[i], all.first, &(*list)[i]);
        }
        btl_ib_net_addresses_free(&all);
    }
    free(entries);
    return count;
}

/* Do they begin with the same bits? */
static bool same_prefix(const union ibv_gid *a, const union ibv_gid *b, unsigned bits)
{
    const unsigned whole = bits / 8;
    const unsigned rest = bits % 8;

    return memcmp(a->raw, b->raw, whole) == 0
           && (rest == 0 || (a->raw[whole] ^ b->raw[whole]) >> (8 - rest) == 0);
}

/*
 * No packet has an IPv4 address on one end and IPv6 on the other. RoCE v2 goes wherever IP goes,
 * which ibv_create_ah(3) finds out. RoCE v1 stays on its link (IBA annex 16). On InfiniBand routers
 * join subnets, but none that has the default prefix (IBA 4.1.1, fe80::). A prefix of all bits
 * means that the netmask is not known.
 */
bool btl_ib_verbs_gid_reaches(const btl_ib_verbs_gid_t *own, const union ibv_gid *gid)
{
    const bool v4 = btl_ib_verbs_gid_is_v4(gid);
    const unsigned bits = own->prefix_bits + (v4 ? BTL_IB_VERBS_GID_IPV4 * 8u : 0u);

    if (v4 != btl_ib_verbs_gid_is_v4(&own->gid)) {
        return false;
    }
    if (own->type == IBV_GID_TYPE_ROCE_V2 || bits >= 8 * sizeof(gid->raw)
        || same_prefix(gid, &own->gid, bits)) {
        return true;
    }
    return own->type == IBV_GID_TYPE_IB && !is_link_local(gid) && !is_link_local(&own->gid);
}

const char *btl_ib_verbs_gid_format(const union ibv_gid *gid, char *out, size_t len)
{
    const bool v4 = btl_ib_verbs_gid_is_v4(gid);

    snprintf(out, len, "?");
    (void) inet_ntop(v4 ? AF_INET : AF_INET6, gid->raw + (v4 ? BTL_IB_VERBS_GID_IPV4 : 0), out,
                     (socklen_t) len);
    return out;
}
