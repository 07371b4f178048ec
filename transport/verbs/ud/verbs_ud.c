/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "verbs_ud_rail.h"

enum {
    QKEY_MASK = 0x7fffffff, /* the first bit means: that of the queue pair, whatever was posted */
};

static uint32_t rx_depth(const btl_ib_transport_t *t, uint32_t size)
{
    const btl_ib_ud_t *ud = (const btl_ib_ud_t *) t;
    uint32_t i = 0;

    while (i + 1 < ud->queue_count && ud->queue[i].size < size) {
        i++;
    }
    return btl_ib_ud_queue_promise(&ud->queue[i]);
}

static void stop(btl_ib_transport_t *t)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);

    ud->dead = true;
    btl_ib_ud_queues_stop(ud);
}

static void close_ud(btl_ib_transport_t *t)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);

    stop(t);
    btl_ib_ud_queues_free(ud);
    btl_ib_ud_wake_close(ud);
    btl_ib_ud_peers_free(&ud->peers);
    btl_ib_verbs_port_close(&ud->verbs);
    free(ud);
}

static bool address_text(const void *bytes, size_t len, char *out, size_t out_len)
{
    char gid[INET6_ADDRSTRLEN];
    btl_ib_ud_address_t address;

    if (btl_ib_ud_address_unpack(bytes, len, &address) != 0) {
        return false;
    }
    snprintf(out, out_len, "%s, QPN 0x%06x",
             btl_ib_verbs_gid_format(&address.gid, gid, sizeof(gid)), address.qpn[0]);
    return true;
}

static const btl_ib_transport_ops_t ud_ops = {
    .send = btl_ib_ud_send,
    .poll = btl_ib_ud_poll,
    .repost = btl_ib_ud_repost,
    .addr_add = btl_ib_ud_addr_add,
    .addr_remove = btl_ib_ud_addr_remove,
    .address_text = address_text,
    .mem_register = btl_ib_verbs_mem_register,
    .mem_deregister = btl_ib_verbs_mem_deregister,
    .rx_depth = rx_depth,
    .wait_fd = btl_ib_ud_wait_fd,
    .stop = stop,
    .close = close_ud,
};

static int query(const btl_ib_device_t *device, btl_ib_transport_attr_t *attr)
{
    const btl_ib_verbs_device_t *handle = device->handle;

    *attr = (btl_ib_transport_attr_t){
        .max_datagram = handle->mtu,
        .max_iov = 1, /* all of it is in the engine's registered memory */
        .max_batch = BTL_IB_UD_BATCH,
        .bandwidth = device->bandwidth,
        .registered_page = btl_ib_verbs_page(),
        .knows_source = true,
    };
    return 0;
}

static void publish(btl_ib_ud_t *ud)
{
    btl_ib_ud_address_t address = {
        .gid = ud->verbs.gid.gid,
        .qkey = ud->qkey,
        .pkey = ud->verbs.pkey,
        .lid = btl_ib_verbs_ethernet(&ud->verbs) ? 0 : ud->verbs.port_attr.lid,
        .mtu = (uint8_t) ud->verbs.port_attr.active_mtu,
        .count = (uint8_t) ud->queue_count,
    };

    for (uint32_t i = 0; i < ud->queue_count; i++) {
        address.qpn[i] = ud->queue[i].qp->qp_num;
    }
    ud->verbs.base.address_len = btl_ib_ud_address_pack(&address, ud->verbs.base.address);
}

/* Depths in all, as they came out. */
static void count_depths(btl_ib_ud_t *ud)
{
    btl_ib_transport_attr_t *attr = &ud->verbs.base.attr;

    for (uint32_t i = 0; i < ud->queue_count; i++) {
        attr->tx_depth += ud->queue[i].tx_depth;
        attr->rx_depth += btl_ib_ud_queue_promise(&ud->queue[i]);
    }
}

static int open_ud(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                   btl_ib_transport_t **out)
{
    btl_ib_ud_t *ud = calloc(1, sizeof(*ud));

    if (ud == NULL) {
        return -ENOMEM;
    }
    ud->verbs.base.ops = &ud_ops;
    ud->wake_fd = -1;
    int rc = btl_ib_verbs_port_open(&ud->verbs, device, params);
    if (rc == 0) {
        rc = query(device, &ud->verbs.base.attr);
    }
    if (rc == 0 && getrandom(&ud->qkey, sizeof(ud->qkey), 0) != sizeof(ud->qkey)) {
        rc = btl_ib_verbs_failed(&ud->verbs, "getrandom", errno);
    }
    ud->qkey &= QKEY_MASK;
    if (rc == 0) {
        rc = btl_ib_ud_wake_open(ud);
    }
    if (rc == 0) {
        rc = btl_ib_ud_queues_open(ud, params);
    }
    if (rc != 0) {
        close_ud(&ud->verbs.base);
        return rc;
    }
    ud->verbs.base.attr.queue_buffers = params->queue_count <= BTL_IB_UD_QPS_MAX;
    count_depths(ud);
    publish(ud);
    *out = &ud->verbs.base;
    return 0;
}

const btl_ib_transport_type_t btl_ib_verbs_ud_type = {
    .name = "verbs",
    .wire = "ud",
    .default_queues = "P,256,256,128,32:S,65536,1024,512,64",
    .devices = btl_ib_verbs_devices,
    .devices_free = btl_ib_verbs_devices_free,
    .query = query,
    .open = open_ud,
    .describe = btl_ib_verbs_describe,
    .library = btl_ib_verbs_library,
};
