/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs", wire RC: reliable connections, made by rdma_cm when there is something to
 * send. */

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "verbs.h"
#include "verbs_devices.h"
#include "verbs_diagnostics.h"
#include "verbs_memory.h"
#include "verbs_open.h"
#include "verbs_rc_async_events.h"
#include "verbs_rc_cm.h"
#include "verbs_rc_devices.h"
#include "verbs_rc_footprint.h"
#include "verbs_rc_poll.h"
#include "verbs_rc_rail.h"
#include "verbs_rc_rdma_ops.h"
#include "verbs_rc_send.h"

enum {
    DATAGRAM_MAX = 1 << 20, /* queues may be as large; a message of RC may be of 2^31 bytes */
    RNR_TIMER = 8,          /* 0.16 ms */
    UNKNOWN_MAX = 1024,     /* peers */
    DEFAULT_PKEY = 0xffff,  /* the partition that all ports are in, */
    PKEY_NUMBER = 0x7fff,   /* and the bits that name one */
    READS = 64,             /* of each peer served at once */
    RDMA_MAX = 1 << 30,     /* bytes; devices have 2^31 or less */
};

/* ---- peers ---- */

static int addr_add(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    btl_ib_rc_address_t theirs;
    char text[BTL_IB_RC_ADDRESS_TEXT];
    const int error = btl_ib_rc_address_unpack(bytes, len, &theirs);

    if (error != 0) {
        return error;
    }
    if (theirs.cookie == rc->self.cookie && rc->port.iwarp) { /* need not reach itself */
        return -EHOSTUNREACH;
    }
    (void) btl_ib_rc_address_format(&theirs, text, sizeof(text));
    if (theirs.any.sa_family != rc->self.any.sa_family) {
        btl_ib_verbs_diag(&verbs->log, BTL_IB_DIAG_SUBNET, verbs->base.name, text);
        return -EHOSTUNREACH;
    }
    const btl_ib_rc_peer_t *peer = btl_ib_rc_peer_add(&rc->peers, &theirs);
    if (peer == NULL) {
        return -ENOMEM;
    }
    if (!rc->port.iwarp) { /* which has TCP's segments */
        btl_ib_verbs_check_mtu(verbs, theirs.mtu, text);
    }
    *addr = peer->index;
    return 0;
}

static void addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    btl_ib_rc_peers_t *peers = &btl_ib_rc_of(t)->peers;

    btl_ib_rc_peer_remove(peers, peers->peer[addr]);
}

static uint32_t rx_depth(const btl_ib_transport_t *t, uint32_t size)
{
    return btl_ib_rc_rxqs_depth(&((const btl_ib_rc_t *) t)->rxqs, size);
}

/* ---- end ---- */

static void stop(btl_ib_transport_t *t)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);

    btl_ib_verbs_state_fail(&rc->state, ENODEV);
    btl_ib_rc_peers_close_all(&rc->peers, false);
    btl_ib_rc_conns_release(&rc->conns);
    btl_ib_rc_rxqs_stop(&rc->rxqs, &rc->port.verbs);
    btl_ib_rc_eagers_stop(&rc->eagers);
}

static void close_rc(btl_ib_transport_t *t)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);

    stop(t);
    btl_ib_rc_rxqs_free(&rc->rxqs);
    btl_ib_rc_conns_free(&rc->conns);
    btl_ib_rc_peers_free(&rc->peers);
    btl_ib_rc_cqs_close(&rc->cqs);
    btl_ib_verbs_close(&rc->port.verbs);
    btl_ib_rc_events_leave(rc);
    btl_ib_rc_cm_close(rc);
    free(rc);
}

static const btl_ib_transport_ops_t rc_ops = {
    .send = btl_ib_rc_send,
    .poll = btl_ib_rc_poll,
    .repost = btl_ib_rc_repost,
    .addr_add = addr_add,
    .addr_remove = addr_remove,
    .address_text = btl_ib_rc_address_text,
    .mem_register = btl_ib_verbs_mem_register,
    .mem_deregister = btl_ib_verbs_mem_deregister,
    .rx_depth = rx_depth,
    .wait_fd = btl_ib_rc_wait_fd,
    .stop = stop,
    .close = close_rc,
    .rdma = &btl_ib_rc_rdma_ops,
};

/* ---- opening ---- */

static int query(const btl_ib_device_t *device, uint32_t mtu, btl_ib_transport_attr_t *attr)
{
    const btl_ib_verbs_device_t *handle = device->handle;

    (void) mtu; /* the device makes packets of its messages */
    *attr = (btl_ib_transport_attr_t){
        .max_datagram = DATAGRAM_MAX,
        .max_iov = 1, /* all of it is in the engine's registered memory */
        .max_batch = BTL_IB_RC_BATCH,
        .tx_depth = BTL_IB_RC_TX_DEPTH,
        .bandwidth = device->bandwidth,
        .registered_page = btl_ib_verbs_page(),
        .reliable = true,
        .knows_source = true,
        .rdma = true,
        .connections_max = handle->max_qp,
        .shared_max = handle->max_srq_wr,
        .queue_max = handle->max_qp_wr,
    };
    return 0;
}

/* How much of a send the device takes out of the work request itself, up to `wanted`: found by
 * trying. */
static uint32_t find_inline_size(const btl_ib_rc_t *rc, struct ibv_cq *cq, uint32_t wanted)
{
    for (uint32_t size = wanted; size > 0; size /= 2) {
        struct ibv_qp_init_attr attr = {
            .send_cq = cq,
            .recv_cq = cq,
            .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = rc->port.tx_depth,
                    .max_recv_wr = 1,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = size},
        };
        struct ibv_qp *qp = ibv_create_qp(rc->port.verbs.pd, &attr);
        if (qp != NULL) {
            (void) ibv_destroy_qp(qp);
            return btl_ib_verbs_min(attr.cap.max_inline_data, wanted);
        }
    }
    return 0;
}

static int open_queues(btl_ib_rc_t *rc, const btl_ib_open_params_t *params)
{
    btl_ib_transport_attr_t *attr = &rc->port.verbs.base.attr;
    const int error = btl_ib_rc_rxqs_open(&rc->rxqs, &rc->port, params);

    if (error != 0) {
        return error;
    }
    btl_ib_rc_cqs_set_shared(&rc->cqs, btl_ib_rc_rxqs_shared(&rc->rxqs));
    const btl_ib_rc_cq_t *cq = btl_ib_rc_cq_reserve(&rc->cqs, 0);
    if (cq == NULL) {
        return -ENOMEM;
    }
    attr->inline_size = find_inline_size(rc, cq->cq, btl_ib_verbs_inline_wanted(params));
    attr->max_datagram = rc->rxqs.queue[rc->rxqs.count - 1].size;
    attr->rx_depth = btl_ib_rc_rxqs_depth(&rc->rxqs, attr->max_datagram);
    return 0;
}

/* With kernels before 5.12 children of fork() do not get registered pages, whatever else lies on
 * them. So they must not be the user's, whose child would crash. */
static bool keeps_from_children(const btl_ib_rc_t *rc)
{
    const bool keeps = ibv_is_fork_initialized() == IBV_FORK_ENABLED;

    if (keeps) {
        BTL_IB_VERBS_LOG(&rc->port.verbs, 1,
                         "%s: processors move memory: for the sake of fork() this kernel takes "
                         "registered pages from children (btl_ib_fork_safe)",
                         rc->port.verbs.base.name);
    }
    return keeps;
}

/* What operations on memory the device does; of each peer `wanted` reads at once at most. iWARP has
 * no atomics that all devices have alike. */
static void plan_rdma(btl_ib_rc_t *rc, int wanted)
{
    const struct ibv_device_attr *device = &rc->port.verbs.device;
    btl_ib_transport_attr_t *attr = &rc->port.verbs.base.attr;
    const int reads = device->max_qp_rd_atom < device->max_qp_init_rd_atom
                          ? device->max_qp_rd_atom
                          : device->max_qp_init_rd_atom;

    attr->rdma = !keeps_from_children(rc);
    rc->port.reads = (uint8_t) (reads < 0 ? 0 : reads > wanted ? wanted : reads);
    attr->rdma_max = btl_ib_verbs_min(rc->port.verbs.port_attr.max_msg_sz, RDMA_MAX);
    attr->rdma_copied = rc->port.bounce_size;
    attr->rdma_region_max = device->max_mr_size;
    if (!rc->port.iwarp && device->atomic_cap == IBV_ATOMIC_GLOB) {
        attr->rdma_atomics = BTL_IB_RDMA_ATOMICS_GLOBAL;
    } else if (!rc->port.iwarp && device->atomic_cap == IBV_ATOMIC_HCA) {
        attr->rdma_atomics = BTL_IB_RDMA_ATOMICS_DEVICE;
    }
}

/* The partition is that of the interface whose address is used: is it the one that was asked for?
 * Ethernet has only the default one, iWARP none. Returns 0 or a negative errno. */
static int check_partition(const btl_ib_rc_t *rc, uint16_t wanted)
{
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    const uint16_t pkey = btl_ib_verbs_ethernet(verbs)
                              ? DEFAULT_PKEY
                              : be16toh(rc->cm.listener->route.addr.addr.ibaddr.pkey);
    char text[16];

    if (wanted == 0 || rc->port.iwarp || ((pkey ^ wanted) & PKEY_NUMBER) == 0) {
        return 0;
    }
    BTL_IB_VERBS_LOG(verbs, 1,
                     "%s: its interface is in partition 0x%04x, not in 0x%04x (btl_ib_pkey)",
                     verbs->base.name, pkey, wanted);
    snprintf(text, sizeof(text), "0x%04x", wanted);
    btl_ib_verbs_diag(&verbs->log, BTL_IB_DIAG_PARTITION, verbs->base.name, text);
    return -ENOENT;
}

/* Who sets these meant something by it, be it only that jobs are kept apart. */
static void log_ignored(const btl_ib_rc_t *rc, const btl_ib_open_params_t *params)
{
    if (rc->port.iwarp && (params->pkey != 0 || params->service_level != 0 || params->mtu != 0)) {
        BTL_IB_VERBS_LOG(&rc->port.verbs, 1,
                         "%s: btl_ib_pkey, btl_ib_service_level and btl_ib_mtu mean nothing over "
                         "iWARP",
                         rc->port.verbs.base.name);
    }
}

static int open_port(btl_ib_rc_t *rc, const btl_ib_device_t *device,
                     const btl_ib_open_params_t *params)
{
    const btl_ib_verbs_device_t *handle = device->handle;
    btl_ib_verbs_t *verbs = &rc->port.verbs;
    int error;

    if (device->ip.ss_family != AF_INET && device->ip.ss_family != AF_INET6) {
        return btl_ib_verbs_failed(verbs, "it has no IP address, which rdma_cm needs",
                                   EADDRNOTAVAIL);
    }
    memcpy(&rc->self, &device->ip,
           device->ip.ss_family == AF_INET ? sizeof(rc->self.v4) : sizeof(rc->self.v6));
    if (getrandom(&rc->self.cookie, sizeof(rc->self.cookie), 0) != sizeof(rc->self.cookie)) {
        return btl_ib_verbs_failed(verbs, "getrandom", errno);
    }
    error = btl_ib_rc_cm_open(rc, handle->name, params);
    if (error != 0) {
        return error;
    }
    struct ibv_context *context = rc->cm.listener->verbs;
    rc->port.iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
    error = btl_ib_verbs_open(verbs, context, rc->cm.listener->port_num, params->mtu);
    if (error != 0) {
        return error;
    }
    rc->port.tx_depth = btl_ib_rc_send_depth(params, (uint32_t) verbs->device.max_qp_wr);
    verbs->base.attr.tx_depth = rc->port.tx_depth;
    error = check_partition(rc, params->pkey);
    if (error != 0) {
        return error;
    }
    btl_ib_rc_events_join(rc);
    return btl_ib_rc_cqs_open(&rc->cqs, &rc->port, params->cq_depth, rc->cm.events->fd);
}

/* Set all that needs no call that can fail. */
static void init(btl_ib_rc_t *rc, const btl_ib_device_t *device, const btl_ib_open_params_t *params)
{
    btl_ib_rc_port_t *port = &rc->port;

    btl_ib_verbs_init(&port->verbs, &rc_ops, &params->log, "rc", device->name);
    port->unknown_max = UNKNOWN_MAX;
    port->ack_timeout = params->rc.timeout;
    port->retry = params->rc.retry;
    port->rnr_retry = params->rc.rnr_retry;
    port->rnr_timer = params->rc.rnr_timer != 0 ? params->rc.rnr_timer : RNR_TIMER;
    port->tos = params->traffic_class;
    port->level = params->service_level;
    port->relaxed = params->rc.relaxed;
    port->bounce_size = btl_ib_verbs_min(params->rc.bounce_size, BTL_IB_BOUNCE_MAX);
    btl_ib_rc_conns_init(&rc->conns, port, &rc->state, &rc->self, &rc->rxqs, &rc->cqs, &rc->eagers);
    btl_ib_rc_peers_init(&rc->peers, &rc->conns);
}

static int open_rc(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                   btl_ib_transport_t **out)
{
    btl_ib_rc_t *rc = calloc(1, sizeof(*rc));

    if (rc == NULL) {
        return -ENOMEM;
    }
    btl_ib_verbs_t *verbs = &rc->port.verbs;
    init(rc, device, params);
    int error = query(device, params->mtu, &verbs->base.attr);
    error = error == 0 ? open_port(rc, device, params) : error;
    error = error == 0 ? open_queues(rc, params) : error;
    if (error != 0) {
        close_rc(&verbs->base);
        return error;
    }
    plan_rdma(rc, params->rc.reads != 0 ? params->rc.reads : READS);
    btl_ib_rc_eagers_plan(&rc->eagers, &rc->port, &rc->rxqs.queue[0], &params->rc);
    log_ignored(rc, params);
    rc->self.mtu = verbs->mtu;
    btl_ib_rc_address_pack(&rc->self, verbs->base.address);
    verbs->base.address_len = BTL_IB_RC_ADDRESS_BYTES;
    *out = &verbs->base;
    return 0;
}

const btl_ib_transport_type_t btl_ib_verbs_rc_type = {
    .name = "verbs",
    .wire = "rc",
    .default_queues = "P,256,128:P,8192,64:P,65536,16",
    /* What is in flight to each peer is as much. Twenty busy ones fill them: more wait (RNR). */
    .shared_queues = "P,256,128:S,8192,1024,512,64:S,65536,256,128,16",
    .devices = btl_ib_rc_devices,
    .devices_free = btl_ib_verbs_devices_free,
    .query = query,
    .open = open_rc,
    .footprint = btl_ib_rc_footprint,
    .facts = btl_ib_verbs_facts,
    .describe = btl_ib_verbs_describe,
    .library = btl_ib_verbs_library,
};
