/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "udp_state.h"

enum {
    PIECES_MAX = 3,
    TX_DEPTH = 1024, /* nothing counts them: what does not fit the socket's buffer is not taken */
};

static int addr_add(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);
    btl_ib_udp_name_t name;
    uint32_t beyond;
    bool quick;
    int rc = btl_ib_udp_name_unpack(bytes, len, &name, &beyond, &quick);

    if (rc == 0 && name.any.sa_family != udp->family) {
        rc = -EHOSTUNREACH;
    }
    if (rc == 0) {
        rc = btl_ib_udp_peer_add(&udp->peers, &name, addr);
    }
    if (rc == 0) {
        const uint32_t carries = btl_ib_udp_path(&udp->own, &name, beyond);
        const uint32_t most = udp->base.attr.max_datagram;
        btl_ib_udp_peer_t *peer = &udp->peers.peer[*addr];
        peer->path = carries < most ? carries : most;
        peer->quick.any.sa_family = AF_UNSPEC;
        if (quick && udp->shared > 1) {
            peer->quick = name;
            btl_ib_udp_name_set_port(&peer->quick, (uint16_t) (btl_ib_udp_name_port(&name) + 1));
        }
    }
    return rc;
}

static bool address_text(const void *bytes, size_t len, char *out, size_t out_len)
{
    btl_ib_udp_name_t name;
    uint32_t beyond;
    bool quick;

    if (btl_ib_udp_name_unpack(bytes, len, &name, &beyond, &quick) != 0) {
        return false;
    }
    (void) btl_ib_udp_name_format(&name, out, out_len);
    return true;
}

static uint32_t path_datagram(const btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    return ((const btl_ib_udp_t *) t)->peers.peer[addr].path;
}

static void addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);

    if (btl_ib_udp_peer_remove(&udp->peers, addr)) {
        btl_ib_udp_errors_forget(udp, addr);
        btl_ib_udp_hot_forget(udp, addr);
    }
}

static int mem_register(btl_ib_transport_t *t, void *base, size_t size, void **handle)
{
    (void) t;
    (void) base;
    (void) size;
    *handle = NULL;
    return 0;
}

static void mem_deregister(btl_ib_transport_t *t, void *handle)
{
    (void) t;
    (void) handle;
}

static int wait_fd(btl_ib_transport_t *t)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);

    udp->swept = 0; /* whoever is woken finds why in his first poll */
    return btl_ib_udp_sockets_wait(udp);
}

static uint32_t rx_depth(const btl_ib_transport_t *t, uint32_t size)
{
    const btl_ib_udp_t *udp = (const btl_ib_udp_t *) t;
    uint32_t counted = BTL_IB_UDP_COUNTED_LEAST;

    if (size + BTL_IB_UDP_COUNTED_MORE > BTL_IB_UDP_COUNTED_LEAST) {
        for (counted = 1024; counted < size + BTL_IB_UDP_COUNTED_MORE; counted *= 2) {
        }
    }
    return udp->buffer_bytes / (counted + BTL_IB_UDP_COUNTED_DESCRIPTION);
}

static void stop(btl_ib_transport_t *t)
{
    btl_ib_udp_sockets_close(btl_ib_udp_of(t));
}

static void close_udp(btl_ib_transport_t *t)
{
    btl_ib_udp_t *udp = btl_ib_udp_of(t);

    stop(t);
    btl_ib_udp_buffers_free(udp);
    btl_ib_udp_peers_free(&udp->peers);
    free(udp);
}

static const btl_ib_transport_ops_t udp_ops = {
    .send = btl_ib_udp_send,
    .poll = btl_ib_udp_poll,
    .source = btl_ib_udp_source,
    .source_text = btl_ib_udp_source_text,
    .repost = btl_ib_udp_repost,
    .addr_add = addr_add,
    .addr_remove = addr_remove,
    .address_text = address_text,
    .mem_register = mem_register,
    .mem_deregister = mem_deregister,
    .rx_depth = rx_depth,
    .path_datagram = path_datagram,
    .wait_fd = wait_fd,
    .stop = stop,
    .close = close_udp,
};

static int query(const btl_ib_device_t *device, btl_ib_transport_attr_t *attr)
{
    const uint32_t beyond = btl_ib_udp_device_datagram(device);
    btl_ib_udp_name_t own;

    if (beyond == 0) {
        return -ENODEV;
    }
    memcpy(&own, &device->ip, sizeof(own));
    const uint32_t within = btl_ib_udp_path(&own, &own, beyond);
    const uint32_t largest = device->loopback || within > beyond ? within : beyond;
    *attr = (btl_ib_transport_attr_t){
        .max_datagram = largest,
        .inline_size = largest,
        .max_iov = PIECES_MAX,
        .max_batch = BTL_IB_UDP_BATCH,
        .tx_depth = TX_DEPTH,
        .bandwidth = device->bandwidth,
        .partial_poll = true,
        .knows_source = true,
    };
    return 0;
}

static int open_udp(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                    btl_ib_transport_t **out)
{
    btl_ib_udp_t *udp = calloc(1, sizeof(*udp));

    if (udp == NULL) {
        return -ENOMEM;
    }
    udp->base.ops = &udp_ops;
    udp->log = params->log;
    udp->epoll_fd = -1;
    snprintf(udp->base.name, sizeof(udp->base.name), "udp/%.58s", device->name);
    int rc = query(device, &udp->base.attr);
    if (rc == 0) {
        rc = btl_ib_udp_socket_open(udp, device, params);
    }
    if (rc != 0) {
        close_udp(&udp->base);
        return rc;
    }
    udp->sockets_max =
        udp->shared
        + (params->connected_max < BTL_IB_UDP_CONNECTED_MAX ? params->connected_max
                                                            : BTL_IB_UDP_CONNECTED_MAX);
    udp->base.attr.bulk_lane = udp->shared > 1;
    const uint32_t largest = udp->base.attr.max_datagram;
    udp->base.attr.gso_bytes = udp->gso ? BTL_IB_UDP_BYTES_MAX : 0;
    udp->rx_size = params->rx_size != 0 && params->rx_size < largest ? params->rx_size : largest;
    udp->base.attr.rx_depth = rx_depth(&udp->base, udp->rx_size);
    *out = &udp->base;
    return 0;
}

const btl_ib_transport_type_t btl_ib_udp_type = {
    .name = "udp",
    .default_queues = "P,256,512,256,64:P,65536,1024,512,64",
    .devices = btl_ib_udp_devices,
    .devices_free = btl_ib_udp_devices_free,
    .query = query,
    .open = open_udp,
    .describe = btl_ib_udp_describe,
};
