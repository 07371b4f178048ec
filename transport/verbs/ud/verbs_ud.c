/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs", wire UD: datagrams over unreliable queue pairs of one port. */

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "verbs.h"
#include "verbs_devices.h"
#include "verbs_diagnostics.h"
#include "verbs_memory.h"
#include "verbs_open.h"
#include "verbs_ud_devices.h"
#include "verbs_ud_poll.h"
#include "verbs_ud_port.h"
#include "verbs_ud_rail.h"
#include "verbs_ud_send.h"

/* The first bit of a Q_Key means "that of the queue pair, whatever was posted" (IBA 10.2.5). */
enum { QKEY_MASK = 0x7fffffff };

static uint32_t rx_depth(const btl_ib_transport_t *t, uint32_t size)
{
    const btl_ib_ud_t *ud = (const btl_ib_ud_t *) t;
    uint32_t i = 0;

    while (i + 1 < ud->qps.count && ud->qps.qp[i].size < size) {
        i++;
    }
    return btl_ib_ud_qp_rx_depth(&ud->qps.qp[i]);
}

static void stop(btl_ib_transport_t *t)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);

    btl_ib_verbs_state_fail(&ud->state, ENODEV);
    btl_ib_ud_qps_stop(&ud->qps);
}

static void close_ud(btl_ib_transport_t *t)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);

    stop(t);
    btl_ib_ud_qps_free(&ud->qps);
    btl_ib_verbs_comp_close(&ud->comp);
    btl_ib_ud_peers_free(&ud->peers);
    btl_ib_ud_port_close(&ud->port);
    free(ud);
}

static int addr_add(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr)
{
    return btl_ib_ud_peers_add(&btl_ib_ud_of(t)->peers, bytes, len, addr);
}

static void addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    btl_ib_ud_peers_remove(&btl_ib_ud_of(t)->peers, addr);
}

static const btl_ib_transport_ops_t ud_ops = {
    .send = btl_ib_ud_send,
    .poll = btl_ib_ud_poll,
    .repost = btl_ib_ud_repost,
    .addr_add = addr_add,
    .addr_remove = addr_remove,
    .address_text = btl_ib_ud_address_text,
    .mem_register = btl_ib_verbs_mem_register,
    .mem_deregister = btl_ib_verbs_mem_deregister,
    .rx_depth = rx_depth,
    .wait_fd = btl_ib_ud_wait_fd,
    .stop = stop,
    .close = close_ud,
};

static int query(const btl_ib_device_t *device, uint32_t mtu, btl_ib_transport_attr_t *attr)
{
    const btl_ib_verbs_device_t *handle = device->handle;

    *attr = (btl_ib_transport_attr_t){
        .max_datagram = btl_ib_verbs_mtu_bytes(btl_ib_verbs_mtu(handle->mtu, mtu)),
        .max_iov = 1, /* all of it is in the engine's registered memory */
        .max_batch = BTL_IB_UD_BATCH,
        .bandwidth = device->bandwidth,
        .registered_page = btl_ib_verbs_page(),
        .knows_source = true,
        .queue_max = handle->max_qp_wr,
    };
    return 0;
}

/* Write down what is published, and the depths as they came out. */
static void publish(btl_ib_ud_t *ud)
{
    btl_ib_transport_attr_t *attr = &ud->port.verbs.base.attr;
    btl_ib_ud_address_t address = {
        .gid = ud->port.gid.gid,
        .qkey = ud->qps.qkey,
        .pkey = ud->port.pkey,
        .lid = btl_ib_verbs_ethernet(&ud->port.verbs) ? 0 : ud->port.verbs.port_attr.lid,
        .mtu = ud->port.verbs.mtu,
        .count = (uint8_t) ud->qps.count,
    };

    attr->inline_size = ud->qps.inline_size;
    for (uint32_t i = 0; i < ud->qps.count; i++) {
        address.qpn[i] = ud->qps.qp[i].qp->qp_num;
        attr->tx_depth += ud->qps.qp[i].tx_depth;
        attr->rx_depth += btl_ib_ud_qp_rx_depth(&ud->qps.qp[i]);
    }
    ud->port.verbs.base.address_len = btl_ib_ud_address_pack(&address, ud->port.verbs.base.address);
}

static int open_parts(btl_ib_ud_t *ud, const btl_ib_device_t *device,
                      const btl_ib_open_params_t *params)
{
    btl_ib_verbs_t *verbs = &ud->port.verbs;
    uint32_t qkey;
    int rc = btl_ib_ud_port_open(&ud->port, device, params);

    rc = rc != 0 ? rc : query(device, params->mtu, &verbs->base.attr);
    if (rc != 0) {
        return rc;
    }
    if (getrandom(&qkey, sizeof(qkey), 0) != sizeof(qkey)) {
        return btl_ib_verbs_failed(verbs, "getrandom", errno);
    }
    rc = btl_ib_verbs_comp_open(&ud->comp, verbs, &verbs->context->async_fd, 1);
    if (rc != 0) {
        return rc;
    }
    return btl_ib_ud_qps_open(&ud->qps, &ud->port, &ud->state, params, qkey & QKEY_MASK,
                              ud->comp.channel);
}

static void footprint_ud(const btl_ib_open_params_t *open, const btl_ib_transport_attr_t *attr,
                         uint32_t peers, btl_ib_footprint_t *footprint)
{
    btl_ib_footprint_add(footprint, BTL_IB_FOOTPRINT_PROCESS, sizeof(btl_ib_ud_t), 0, "transport");
    btl_ib_ud_qps_footprint(open, attr, peers, footprint);
    btl_ib_ud_peers_footprint(peers, footprint);
}

static int open_ud(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                   btl_ib_transport_t **out)
{
    btl_ib_ud_t *ud = calloc(1, sizeof(*ud));

    if (ud == NULL) {
        return -ENOMEM;
    }
    btl_ib_verbs_init(&ud->port.verbs, &ud_ops, &params->log, device->provider, device->name);
    btl_ib_ud_peers_init(&ud->peers, &ud->port, &ud->qps);
    const int rc = open_parts(ud, device, params);
    if (rc != 0) {
        close_ud(&ud->port.verbs.base);
        return rc;
    }
    ud->port.verbs.base.attr.queue_buffers = params->queue_count <= BTL_IB_UD_QPS_MAX;
    publish(ud);
    *out = &ud->port.verbs.base;
    return 0;
}

const btl_ib_transport_type_t btl_ib_verbs_ud_type = {
    .name = "verbs",
    .wire = "ud",
    .default_queues = "P,256,256,128,32:S,65536,1024,512,64",
    .devices = btl_ib_ud_devices,
    .devices_free = btl_ib_verbs_devices_free,
    .query = query,
    .open = open_ud,
    .footprint = footprint_ud,
    .facts = btl_ib_verbs_facts,
    .describe = btl_ib_verbs_describe,
    .library = btl_ib_verbs_library,
};
