/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A port of an RDMA device, and the states of its queue pairs, for floor_verbs.c.
 */

#ifndef BTL_IB_TESTS_FLOOR_PORT_H
#define BTL_IB_TESTS_FLOOR_PORT_H

#include <errno.h>
#include <infiniband/verbs.h>

#include "common.h"

enum {
    GRH = 40,          /* bytes in front of what comes over UD */
    QKEY = 0x0b7b1b0f, /* of all queue pairs here; the highest bit is the kernel's */
    HOP_LIMIT = 64,
    TIMEOUT = 14,  /* 4.096 us * 2^14: 67 ms */
    RETRIES = 7,   /* of RNR: for ever */
    RNR_TIMER = 1, /* 10 us */
};

typedef struct port {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_port_attr attr;
    uint8_t number;
    int is_ethernet;
    uint8_t gid_index;
    union ibv_gid gid;
} port_t;

/* What one rank tells the other. */
typedef struct card {
    int is_rc, is_ethernet, mtu; /* an enum ibv_mtu */
    uint32_t qpn, psn;
    uint16_t lid;
    union ibv_gid gid;
} card_t;

__attribute__((noreturn)) static void fail_at(const char *call, int error)
{
    fail("%s: %s%s", call, strerror(error),
         error == ENOMEM ? " (ulimit -l limits the memory that a device may use)" : "");
}

static void must_be_0(const char *call, int error)
{
    if (error != 0) {
        fail_at(call, error > 0 ? error : errno);
    }
}

static int bytes_of(int mtu)
{
    return 128 << mtu; /* IBV_MTU_256 is 1 */
}

static struct ibv_mr *expose(port_t *port, void *memory, size_t bytes)
{
    struct ibv_mr *mr =
        ibv_reg_mr(port->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

    if (mr == NULL) {
        fail_at("ibv_reg_mr", errno);
    }
    return mr;
}

/* ---- which port ---- */

/* The lower the better: RoCE v2 before v1, addresses that can be routed before link-local ones,
 * IPv4 before IPv6. On InfiniBand the first is as good as any. */
static unsigned gid_rank(const struct ibv_gid_entry *entry)
{
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
    const uint8_t *raw = entry->gid.raw;
    unsigned is_local = raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;

    if (entry->gid_type == IBV_GID_TYPE_IB) {
        return 0;
    }
    return (entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? 0u : 4u) + 2 * is_local
           + (memcmp(raw, v4, sizeof(v4)) != 0);
}

/* Returns 0 if the port has none. */
static int choose_gid(port_t *port)
{
    struct ibv_gid_entry entry;
    unsigned best = UINT32_MAX;

    for (int i = 0; i < port->attr.gid_tbl_len && i <= UINT8_MAX; i++) {
        if (ibv_query_gid_ex(port->context, port->number, (uint32_t) i, &entry, 0) == 0
            && gid_rank(&entry) < best) {
            best = gid_rank(&entry);
            port->gid = entry.gid;
            port->gid_index = (uint8_t) i;
        }
    }
    return best != UINT32_MAX;
}

/* Is this port of an open device active, and the one that is wanted (or is any, 0)? */
static int choose_port(port_t *port, int ports, int wanted)
{
    for (int number = 1; number <= ports; number++) {
        port->number = (uint8_t) number;
        if ((wanted == 0 || number == wanted)
            && ibv_query_port(port->context, port->number, &port->attr) == 0
            && port->attr.state == IBV_PORT_ACTIVE && choose_gid(port)) {
            return 1;
        }
    }
    return 0;
}

static int try_device(port_t *port, struct ibv_device *device, int wanted, const char *named)
{
    struct ibv_device_attr attr;

    port->context = ibv_open_device(device);
    if (port->context == NULL) {
        fail_at(ibv_get_device_name(device), errno);
    }
    if (device->transport_type == IBV_TRANSPORT_IB && ibv_query_device(port->context, &attr) == 0
        && choose_port(port, attr.phys_port_cnt, wanted)) {
        return 1;
    }
    if (named[0] && device->transport_type != IBV_TRANSPORT_IB) {
        fail("%s is not InfiniBand or RoCE: there is no floor of it", named);
    }
    ibv_close_device(port->context);
    return 0;
}

/* `named` is NAME[:PORT], or empty: the first that is active. */
static void port_open(port_t *port, const char *named)
{
    const char *colon = strchr(named, ':');
    size_t length = colon != NULL ? (size_t) (colon - named) : strlen(named);
    int found = 0, there = 0, wanted = colon != NULL ? atoi(colon + 1) : 0;
    struct ibv_device **all = ibv_get_device_list(NULL);

    for (int i = 0; all != NULL && all[i] != NULL && !found; i++) {
        const char *name = ibv_get_device_name(all[i]);
        if (length == 0 || (length == strlen(name) && memcmp(name, named, length) == 0)) {
            there = 1;
            found = try_device(port, all[i], wanted, named);
        }
    }
    if (!there) {
        fail("there is no RDMA device %s", named);
    }
    if (!found) {
        fail("RDMA device %s: no active port with an address", named);
    }
    ibv_free_device_list(all);
    port->is_ethernet = port->attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    port->pd = ibv_alloc_pd(port->context);
    if (port->pd == NULL) {
        fail_at("ibv_alloc_pd", errno);
    }
}

static void port_close(port_t *port)
{
    ibv_dealloc_pd(port->pd);
    ibv_close_device(port->context);
}

/* ---- queue pairs ---- */

static card_t card_of(const port_t *port, const struct ibv_qp *qp, int is_rc)
{
    return (card_t){
        .is_rc = is_rc,
        .is_ethernet = port->is_ethernet,
        .mtu = port->attr.active_mtu,
        .qpn = qp->qp_num,
        .psn = 0,
        .lid = port->attr.lid,
        .gid = port->gid,
    };
}

static void to_init(const port_t *port, struct ibv_qp *qp, int is_rc)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = port->number,
                               .qkey = QKEY,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

    must_be_0("ibv_modify_qp", ibv_modify_qp(qp, &attr,
                                             IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT
                                                 | (is_rc ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY)));
}

/* The way to the other rank: RoCE goes by GIDs, InfiniBand by LIDs. */
static struct ibv_ah_attr way_to(const port_t *port, const card_t *peer)
{
    struct ibv_ah_attr attr = {.dlid = peer->lid, .port_num = port->number};

    if (port->is_ethernet) {
        attr.is_global = 1;
        attr.grh = (struct ibv_global_route){
            .dgid = peer->gid, .sgid_index = port->gid_index, .hop_limit = HOP_LIMIT};
    }
    return attr;
}

static void connect_rc(const port_t *port, struct ibv_qp *qp, const card_t *peer, int mtu)
{
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = (enum ibv_mtu) mtu,
                              .dest_qp_num = peer->qpn,
                              .rq_psn = peer->psn,
                              .max_dest_rd_atomic = 1,
                              .min_rnr_timer = RNR_TIMER,
                              .ah_attr = way_to(port, peer)};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                              .sq_psn = 0,
                              .timeout = TIMEOUT,
                              .retry_cnt = RETRIES,
                              .rnr_retry = RETRIES,
                              .max_rd_atomic = 1};

    must_be_0("ibv_modify_qp",
              ibv_modify_qp(qp, &rtr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN
                                | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC
                                | IBV_QP_MIN_RNR_TIMER));
    must_be_0("ibv_modify_qp",
              ibv_modify_qp(qp, &rts,
                            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT
                                | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ibv_ah *ready_ud(const port_t *port, struct ibv_qp *qp, const card_t *peer)
{
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = 0};
    struct ibv_ah_attr attr = way_to(port, peer);

    must_be_0("ibv_modify_qp", ibv_modify_qp(qp, &rtr, IBV_QP_STATE));
    must_be_0("ibv_modify_qp", ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN));
    struct ibv_ah *ah = ibv_create_ah(port->pd, &attr);
    if (ah == NULL) {
        fail_at("ibv_create_ah", errno);
    }
    return ah;
}

#endif
