/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_ud_peers.h"

#include <errno.h>
#include <stdio.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "transport.h"
#include "verbs_device.h"

enum {
    HOP_LIMIT = 64,
    GRH_SOURCE = 8, /* offset of the source's GID in a GRH */
    /* offset of the source's IPv4 address: the IP header is in the last 20 bytes */
    GRH_SOURCE_4 = 20 + 12,
};

/* ---- hosts ---- */

/* Returns a hash of `x` (Knuth's multiplicative hashing). */
static uint32_t hash_mix(uint64_t x)
{
    return (uint32_t) (x * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* Hashes a host by its LID where datagrams come without a GRH, else by its GID. */
static uint32_t host_hash(const union ibv_gid *gid, uint16_t lid)
{
    uint64_t half[2];

    memcpy(half, gid->raw, sizeof(half));
    return hash_mix(lid != 0 ? lid : half[0] ^ (half[1] << 1 | half[1] >> 63));
}

static bool host_is_same(const btl_ib_ud_host_t *host, const union ibv_gid *gid, uint16_t lid)
{
    return host->lid == lid && (lid != 0 || memcmp(&host->gid, gid, sizeof(*gid)) == 0);
}

/* Returns index + 1 of a host, 0 if there is none. */
static uint32_t host_find(const btl_ib_ud_peers_t *peers, const union ibv_gid *gid, uint16_t lid)
{
    if (peers->host_room == 0) {
        return 0;
    }
    uint32_t i = peers->host_bucket[host_hash(gid, lid) & (peers->host_room - 1)];
    while (i != 0 && !host_is_same(&peers->host[i - 1], gid, lid)) {
        i = peers->host[i - 1].next;
    }
    return i;
}

static void host_link(btl_ib_ud_peers_t *peers, uint32_t index)
{
    btl_ib_ud_host_t *host = &peers->host[index];
    uint32_t *first =
        &peers->host_bucket[host_hash(&host->gid, host->lid) & (peers->host_room - 1)];

    host->next = *first;
    *first = index + 1;
}

static bool hosts_grow(btl_ib_ud_peers_t *peers)
{
    btl_ib_addr_table_t room = {
        .count = peers->host_room, .entry = peers->host, .bucket = peers->host_bucket};

    if (!btl_ib_addr_table_grow(&room, sizeof(*peers->host), sizeof(*peers->host_bucket))) {
        return false;
    }
    peers->host_room = room.count;
    peers->host = room.entry;
    peers->host_bucket = room.bucket;
    for (uint32_t i = 0; i < peers->hosts; i++) { /* none is free, but some may be leaving */
        if (peers->host[i].users > 0) {
            host_link(peers, i);
        }
    }
    return true;
}

/* Shows the help text for a GID that cannot be reached; `what` says why. `error` is the errno of
 * ibv_create_ah(); 0: it was not asked. */
static void diagnose_gid(const btl_ib_verbs_t *verbs, btl_ib_diagnostic_t what,
                         const union ibv_gid *gid, int error)
{
    char address[INET6_ADDRSTRLEN];
    char text[INET6_ADDRSTRLEN + 96];

    snprintf(text, sizeof(text), "%s%s%s%s", btl_ib_verbs_gid_format(gid, address, sizeof(address)),
             error != 0 ? " (ibv_create_ah: " : "", error != 0 ? strerror(error) : "",
             error != 0 ? ")" : "");
    btl_ib_verbs_diag(&verbs->log, what, verbs->base.name, text);
}

/* Makes the address handle of a host. Returns 0, or a negative errno after telling why. */
static int host_make_handle(const btl_ib_ud_port_t *port, btl_ib_ud_host_t *host)
{
    const btl_ib_verbs_t *verbs = &port->verbs;
    struct ibv_ah_attr attr = {
        .dlid = host->lid,
        .sl = port->service_level,
        .port_num = verbs->port,
    };

    if (host->lid == 0) {
        attr.is_global = 1;
        attr.grh = (struct ibv_global_route){
            .dgid = host->gid,
            .sgid_index = (uint8_t) port->gid.index,
            .hop_limit = HOP_LIMIT,
            .traffic_class = port->traffic_class,
        };
    }
    struct ibv_ah *ah = ibv_create_ah(verbs->pd, &attr);
    if (ah != NULL) {
        host->ah = ah;
        host->own_index = port->gid.index;
        return 0;
    }
    const int error = errno;
    (void) btl_ib_verbs_failed(verbs, "ibv_create_ah", error);
    diagnose_gid(verbs, BTL_IB_DIAG_UNREACHABLE, &host->gid, error);
    return error == ENOMEM ? -ENOMEM : -EHOSTUNREACH;
}

/* Makes room for one more host. That may move all hosts in memory. Returns false if memory is
 * short. */
static bool hosts_make_room(btl_ib_ud_peers_t *peers)
{
    return peers->host_free != 0 || peers->hosts < peers->host_room || hosts_grow(peers);
}

/* Puts a host where there is room. Returns its index. */
static uint32_t host_place(btl_ib_ud_peers_t *peers, const btl_ib_ud_host_t *host)
{
    const uint32_t index = peers->host_free != 0 ? peers->host_free - 1 : peers->hosts++;

    if (peers->host_free != 0) {
        peers->host_free = peers->host[index].next;
    }
    peers->host[index] = *host;
    return index;
}

/* Adds a user of a host. Returns the host's index, or a negative errno. */
static int64_t host_get(btl_ib_ud_peers_t *peers, const union ibv_gid *gid, uint16_t lid)
{
    uint32_t index = host_find(peers, gid, lid);
    int rc;

    if (index != 0) {
        peers->host[index - 1].users++;
        return index - 1;
    }
    if (!hosts_make_room(peers)) {
        return -ENOMEM;
    }
    btl_ib_ud_host_t host = {.gid = *gid, .lid = lid, .users = 1};
    if ((rc = host_make_handle(peers->port, &host)) != 0) {
        return rc;
    }
    index = host_place(peers, &host);
    host_link(peers, index);
    return index;
}

/* True if a send to the host is on its way: the device may look at the host's handle until the send
 * is over, and ibv_destroy_ah(3) does not wait. As numbers are modulo 2^32, a very old send may
 * seem to be on its way again, which only delays the end of the handle. */
static bool host_in_flight(const btl_ib_ud_qps_t *qps, const btl_ib_ud_host_t *host)
{
    for (uint32_t i = 0; i < qps->count; i++) {
        const btl_ib_verbs_send_ring_t *ring = &qps->qp[i].ring;
        if (qps->qp[i].qp != NULL
            && host->last[i] - ring->completed < ring->posted - ring->completed) {
            return true;
        }
    }
    return false;
}

void btl_ib_ud_peers_clean(btl_ib_ud_peers_t *peers)
{
    for (uint32_t *link = &peers->leaving; *link != 0;) {
        const uint32_t index = *link - 1;
        btl_ib_ud_host_t *host = &peers->host[index];
        if (host_in_flight(peers->qps, host)) {
            link = &host->next;
            continue;
        }
        *link = host->next;
        (void) ibv_destroy_ah(host->ah);
        host->ah = NULL;
        host->next = peers->host_free;
        peers->host_free = index + 1;
    }
}

/* Makes the handle of a host anew. The old handle goes to a copy of the host without users, which
 * joins `leaving`, as sends may still use it. Returns false if memory is short or the device
 * refuses. */
static bool host_renew(btl_ib_ud_peers_t *peers, uint32_t index)
{
    if (!hosts_make_room(peers)) {
        return false;
    }
    btl_ib_ud_host_t before = peers->host[index];
    if (host_make_handle(peers->port, &peers->host[index]) != 0) {
        return false;
    }
    before.users = 0;
    before.next = peers->leaving;
    peers->leaving = host_place(peers, &before) + 1;
    return true;
}

bool btl_ib_ud_peers_renew(btl_ib_ud_peers_t *peers)
{
    bool all = true;

    for (uint32_t i = 0; i < peers->hosts && all; i++) {
        const btl_ib_ud_host_t *host = &peers->host[i];
        if (host->users > 0 && host->lid == 0 && host->own_index != peers->port->gid.index) {
            all = host_renew(peers, i);
        }
    }
    btl_ib_ud_peers_clean(peers);
    return all;
}

/* Removes a user of a host. */
static void host_put(btl_ib_ud_peers_t *peers, uint32_t index)
{
    btl_ib_ud_host_t *host = &peers->host[index];

    if (--host->users > 0) {
        return;
    }
    uint32_t *link = &peers->host_bucket[host_hash(&host->gid, host->lid) & (peers->host_room - 1)];
    while (*link != index + 1) {
        link = &peers->host[*link - 1].next;
    }
    *link = host->next;
    host->next = peers->leaving;
    peers->leaving = index + 1;
    btl_ib_ud_peers_clean(peers);
}

/* ---- peers ---- */

static uint32_t *peer_bucket(const btl_ib_ud_peers_t *peers, uint32_t host, uint32_t qpn)
{
    return &peers->bucket[hash_mix((uint64_t) host << 24 | qpn)
                          & (peers->room * BTL_IB_UD_QPS_MAX - 1)];
}

/* Returns the link to the place that follows `place` in its bucket. */
static uint32_t *peer_next(btl_ib_ud_peers_t *peers, uint32_t place)
{
    return &peers->peer[(place - 1) / BTL_IB_UD_QPS_MAX].next[(place - 1) % BTL_IB_UD_QPS_MAX];
}

static bool peer_fits(const btl_ib_ud_peers_t *peers, uint32_t place, uint32_t host, uint32_t qpn)
{
    const btl_ib_ud_peer_t *peer = &peers->peer[(place - 1) / BTL_IB_UD_QPS_MAX];

    return peer->host == host && peer->qpn[(place - 1) % BTL_IB_UD_QPS_MAX] == qpn;
}

static btl_ib_addr_t peer_at(uint32_t place)
{
    return place == 0 ? BTL_IB_ADDR_UNKNOWN : (place - 1) / BTL_IB_UD_QPS_MAX;
}

/* Returns the place of a peer's queue pair; 0: there is none. */
static uint32_t peer_find(const btl_ib_ud_peers_t *peers, uint32_t host, uint32_t qpn)
{
    uint32_t place = peers->room == 0 ? 0 : *peer_bucket(peers, host, qpn);

    while (place != 0 && !peer_fits(peers, place, host, qpn)) {
        place = *peer_next((btl_ib_ud_peers_t *) peers, place);
    }
    return place;
}

static void peer_link(btl_ib_ud_peers_t *peers, uint32_t index)
{
    btl_ib_ud_peer_t *peer = &peers->peer[index];

    peers->recent = 0;
    for (uint32_t i = 0; i < peer->count; i++) {
        uint32_t *first = peer_bucket(peers, peer->host, peer->qpn[i]);
        peer->next[i] = *first;
        *first = index * BTL_IB_UD_QPS_MAX + i + 1;
    }
}

static void peer_unlink(btl_ib_ud_peers_t *peers, uint32_t index)
{
    btl_ib_ud_peer_t *peer = &peers->peer[index];

    peers->recent = 0;
    for (uint32_t i = 0; i < peer->count; i++) {
        uint32_t *link = peer_bucket(peers, peer->host, peer->qpn[i]);
        while (*link != index * BTL_IB_UD_QPS_MAX + i + 1) {
            link = peer_next(peers, *link);
        }
        *link = peer->next[i];
    }
}

static bool peers_grow(btl_ib_ud_peers_t *peers)
{
    btl_ib_addr_table_t room = {
        .count = peers->room, .entry = peers->peer, .bucket = peers->bucket};

    if (!btl_ib_addr_table_grow(&room, sizeof(*peers->peer),
                                BTL_IB_UD_QPS_MAX * sizeof(*peers->bucket))) {
        return false;
    }
    peers->room = room.count;
    peers->peer = room.entry;
    peers->bucket = room.bucket;
    for (uint32_t i = 0; i < peers->count; i++) { /* none is free: only then the table grows */
        peer_link(peers, i);
    }
    return true;
}

static int peer_add(btl_ib_ud_peers_t *peers, uint32_t host, const btl_ib_ud_address_t *address,
                    btl_ib_addr_t *addr)
{
    if (peers->free == 0 && peers->count == peers->room && !peers_grow(peers)) {
        return -ENOMEM;
    }
    const uint32_t index = peers->free != 0 ? peers->free - 1 : peers->count++;
    btl_ib_ud_peer_t *peer = &peers->peer[index];
    peers->free = peers->free != 0 ? peer->next[0] : 0;
    *peer = (btl_ib_ud_peer_t){
        .host = host,
        .users = 1,
        .qkey = address->qkey,
        .count = address->count,
    };
    memcpy(peer->qpn, address->qpn, sizeof(peer->qpn));
    peer_link(peers, index);
    *addr = index;
    return 0;
}

/* True if a peer is the process at that address: its queue pairs and key are the same. */
static bool peer_is_same(const btl_ib_ud_peer_t *peer, const btl_ib_ud_address_t *address)
{
    return peer->qkey == address->qkey && peer->count == address->count
           && memcmp(peer->qpn, address->qpn, sizeof(peer->qpn)) == 0;
}

/* Returns the LID to send to; 0: a GRH is needed. Within a subnet of InfiniBand the LID is enough,
 * unless the port wants a GRH on all packets (IBV_QPF_GRH_REQUIRED). */
static uint16_t lid_for(const btl_ib_ud_port_t *port, const btl_ib_ud_address_t *address)
{
    const bool near = address->gid.global.subnet_prefix == port->gid.gid.global.subnet_prefix;

    if (btl_ib_verbs_ethernet(&port->verbs) || !near
        || port->verbs.port_attr.flags & IBV_QPF_GRH_REQUIRED) {
        return 0;
    }
    return address->lid;
}

/* True if ports with these P_Keys may talk: the number is the same, and at least one of the two is
 * a full member. */
static bool pkeys_match(uint16_t a, uint16_t b)
{
    return (a & BTL_IB_UD_PKEY_NUMBER) == (b & BTL_IB_UD_PKEY_NUMBER)
           && ((a | b) & BTL_IB_UD_PKEY_FULL) != 0;
}

/* Checks that a peer can be reached. Returns 0, or -EHOSTUNREACH after telling the user why. */
static int peer_check_reachable(const btl_ib_ud_port_t *port, const btl_ib_ud_address_t *address)
{
    if (!btl_ib_verbs_gid_reaches(&port->gid, &address->gid)) {
        diagnose_gid(&port->verbs, BTL_IB_DIAG_SUBNET, &address->gid, 0);
        return -EHOSTUNREACH;
    }
    if (!pkeys_match(port->pkey, address->pkey)) {
        BTL_IB_VERBS_LOG(&port->verbs, 1, "%s: a peer is in partition 0x%x, and we in 0x%x",
                         port->verbs.base.name, address->pkey, port->pkey);
        return -EHOSTUNREACH;
    }
    return 0;
}

int btl_ib_ud_peers_add(btl_ib_ud_peers_t *peers, const void *bytes, size_t len,
                        btl_ib_addr_t *addr)
{
    btl_ib_ud_address_t address;
    char text[INET6_ADDRSTRLEN];
    int rc = btl_ib_ud_address_unpack(bytes, len, &address);

    rc = rc != 0 ? rc : peer_check_reachable(peers->port, &address);
    if (rc != 0) {
        return rc;
    }
    const int64_t host = host_get(peers, &address.gid, lid_for(peers->port, &address));
    if (host < 0) {
        return (int) host;
    }
    btl_ib_verbs_check_mtu(&peers->port->verbs, address.mtu,
                           btl_ib_verbs_gid_format(&address.gid, text, sizeof(text)));
    const btl_ib_addr_t known = peer_at(peer_find(peers, (uint32_t) host, address.qpn[0]));
    if (known != BTL_IB_ADDR_UNKNOWN && peer_is_same(&peers->peer[known], &address)) {
        peers->peer[known].users++;
        host_put(peers, (uint32_t) host);
        *addr = known;
        return 0;
    }
    rc = peer_add(peers, (uint32_t) host, &address, addr);
    if (rc != 0) {
        host_put(peers, (uint32_t) host);
        return rc;
    }
    btl_ib_ud_qps_add_peer(peers->qps);
    return 0;
}

void btl_ib_ud_peers_remove(btl_ib_ud_peers_t *peers, btl_ib_addr_t addr)
{
    btl_ib_ud_peer_t *peer = &peers->peer[addr];

    if (--peer->users > 0) {
        return;
    }
    peer_unlink(peers, (uint32_t) addr);
    host_put(peers, peer->host);
    peer->next[0] = peers->free;
    peers->free = (uint32_t) addr + 1;
    btl_ib_ud_qps_remove_peer(peers->qps);
}

/* Reads the GID of a datagram's source from the 40 bytes before the payload. RoCE v2 over IPv4 has
 * an IP header in the last 20 of them (IBA annex 17, A17.4.5.1). Our own address says which it is,
 * as both ends have the same family. */
static void source_gid(const btl_ib_ud_port_t *port, const uint8_t *payload, union ibv_gid *gid)
{
    const uint8_t *grh = payload - BTL_IB_VERBS_GRH;

    if (port->gid.type == IBV_GID_TYPE_ROCE_V2 && btl_ib_verbs_gid_is_v4(&port->gid.gid)) {
        *gid = port->gid.gid; /* ::ffff: */
        memcpy(gid->raw + BTL_IB_VERBS_GID_IPV4, grh + GRH_SOURCE_4, 4);
    } else {
        memcpy(gid->raw, grh + GRH_SOURCE, sizeof(gid->raw));
    }
}

btl_ib_addr_t btl_ib_ud_peers_source(btl_ib_ud_peers_t *peers, const struct ibv_wc *wc,
                                     const uint8_t *payload)
{
    const bool global = wc->wc_flags & IBV_WC_GRH;
    const uint16_t lid = global ? 0 : (uint16_t) wc->slid;
    union ibv_gid gid = {{0}};

    if (global) {
        source_gid(peers->port, payload, &gid);
    } else if (wc->slid == 0) {
        return BTL_IB_ADDR_UNKNOWN;
    }
    if (peers->recent != 0) { /* most datagrams come from the source of the one before */
        const uint32_t host = peers->peer[peer_at(peers->recent)].host;
        if (host_is_same(&peers->host[host], &gid, lid)
            && peer_fits(peers, peers->recent, host, wc->src_qp)) {
            return peer_at(peers->recent);
        }
    }
    const uint32_t host = host_find(peers, &gid, lid);
    peers->recent = host == 0 ? 0 : peer_find(peers, host - 1, wc->src_qp);
    return peer_at(peers->recent);
}

void btl_ib_ud_peers_free(btl_ib_ud_peers_t *peers)
{
    for (uint32_t i = 0; i < peers->hosts; i++) {
        if (peers->host[i].ah != NULL) {
            (void) ibv_destroy_ah(peers->host[i].ah);
        }
    }
    free(peers->host);
    free(peers->host_bucket);
    free(peers->peer);
    free(peers->bucket);
}
