/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "verbs_rc_rail.h"

enum {
    DATAGRAM_MAX = 1 << 20, /* queues may be as large; a message of RC may be of 2^31 bytes */
    TX_DEPTH = 128,         /* of a pipe; a power of two */
    INLINE_WANTED = 256,    /* bytes */
    STRANGERS_MAX = 1024,
    READS_MAX = 64,     /* of each peer served at once */
    RDMA_MAX = 1 << 30, /* bytes; devices have 2^31 or less */
};

/* ---- peers ---- */

static int addr_add(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    btl_ib_rc_name_t name;
    char text[BTL_IB_RC_NAME_TEXT];
    const int error = btl_ib_rc_name_unpack(bytes, len, &name);

    if (error != 0) {
        return error;
    }
    if (name.cookie == rc->self.cookie && rc->iwarp) { /* whose devices need not reach themselves */
        return -EHOSTUNREACH;
    }
    if (name.any.sa_family != rc->self.any.sa_family) {
        btl_ib_verbs_trouble(&rc->verbs.log, BTL_IB_DIAG_SUBNET, rc->verbs.base.name,
                             btl_ib_rc_name_format(&name, text, sizeof(text)));
        return -EHOSTUNREACH;
    }
    btl_ib_rc_peer_t *peer = btl_ib_rc_peer_get(&rc->peers, name.cookie);
    if (peer == NULL) {
        return -ENOMEM;
    }
    if (!rc->iwarp /* which has TCP's segments */ && !btl_ib_verbs_same_mtu(&rc->verbs, name.mtu)) {
        btl_ib_verbs_trouble_mtu(&rc->verbs, name.mtu,
                                 btl_ib_rc_name_format(&name, text, sizeof(text)));
    }
    peer->name = name;
    rc->peers.strangers -= peer->users == 0;
    peer->users++;
    *addr = peer->index;
    return 0;
}

static bool address_text(const void *bytes, size_t len, char *out, size_t out_len)
{
    btl_ib_rc_name_t name;

    if (btl_ib_rc_name_unpack(bytes, len, &name) != 0) {
        return false;
    }
    (void) btl_ib_rc_name_format(&name, out, out_len);
    return true;
}

static void addr_remove(btl_ib_transport_t *t, btl_ib_addr_t addr)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    btl_ib_rc_peer_t *peer = rc->peers.peer[addr];

    if (--peer->users > 0) {
        return;
    }
    rc->peers.strangers++; /* until he is gone */
    btl_ib_rc_rdma_cancel(rc, peer);
    for (uint8_t i = 0; i < BTL_IB_RC_LINKS; i++) {
        if (peer->link[i].pipe != NULL) {
            btl_ib_rc_pipe_close(peer->link[i].pipe);
        }
    }
    btl_ib_rc_peer_let_go(&rc->peers, peer);
}

/* ---- beginning and end ---- */

static uint32_t rx_depth(const btl_ib_transport_t *t, uint32_t size)
{
    const btl_ib_rc_t *rc = (const btl_ib_rc_t *) t;
    uint32_t i = 0;

    while (i + 1 < rc->channels && rc->channel[i].size < size) {
        i++;
    }
    return rc->channel[i].shared ? rc->channel[i].num : UINT32_MAX;
}

static void free_shared(btl_ib_rc_channel_t *channel)
{
    if (channel->srq != NULL) {
        (void) ibv_destroy_srq(channel->srq);
        channel->srq = NULL;
    }
    free(channel->store.buffer);
    if (channel->memory != NULL) {
        btl_ib_verbs_slab_free(channel->memory, channel->mr);
    }
}

static void stop(btl_ib_transport_t *t)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);

    rc->stopped = true;
    rc->failed = ENODEV;
    btl_ib_rc_pipes_close(rc);
    for (uint32_t i = 0; i < rc->channels; i++) {
        if (rc->channel[i].srq != NULL) {
            (void) ibv_destroy_srq(rc->channel[i].srq);
            rc->channel[i].srq = NULL;
        }
    }
}

static void close_rc(btl_ib_transport_t *t)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);

    stop(t);
    for (uint32_t i = 0; i < rc->channels; i++) {
        free_shared(&rc->channel[i]);
    }
    btl_ib_rc_pipes_free(rc);
    btl_ib_rc_peers_free(&rc->peers);
    btl_ib_rc_wait_close(rc);
    btl_ib_rc_cqs_free(rc);
    if (rc->bell != NULL) {
        (void) ibv_destroy_comp_channel(rc->bell);
    }
    if (rc->verbs.pd != NULL) {
        (void) ibv_dealloc_pd(rc->verbs.pd);
    }
    btl_ib_rc_cm_close(rc);
    free(rc);
}

static const btl_ib_transport_ops_t rc_ops = {
    .send = btl_ib_rc_send,
    .poll = btl_ib_rc_poll,
    .repost = btl_ib_rc_repost,
    .addr_add = addr_add,
    .addr_remove = addr_remove,
    .address_text = address_text,
    .mem_register = btl_ib_verbs_mem_register,
    .mem_deregister = btl_ib_verbs_mem_deregister,
    .rx_depth = rx_depth,
    .wait_fd = btl_ib_rc_wait_fd,
    .stop = stop,
    .close = close_rc,
    .rdma = &btl_ib_rc_rdma_ops,
};

static int query(const btl_ib_device_t *device, btl_ib_transport_attr_t *attr)
{
    const btl_ib_verbs_device_t *handle = device->handle;

    *attr = (btl_ib_transport_attr_t){
        .max_datagram = DATAGRAM_MAX,
        .max_iov = 1, /* all of it is in the engine's registered memory */
        .max_batch = BTL_IB_RC_BATCH,
        .tx_depth = TX_DEPTH,
        .bandwidth = device->bandwidth,
        .registered_page = btl_ib_verbs_page(),
        .reliable = true,
        .knows_source = true,
        .rdma = true,
        .connections_max = handle->max_qp,
    };
    return 0;
}

/* How much of a send the device takes out of the work request itself: asked by trying. */
static uint32_t find_inline_size(const btl_ib_rc_t *rc, struct ibv_cq *cq)
{
    for (uint32_t size = INLINE_WANTED; size > 0; size /= 2) {
        struct ibv_qp_init_attr attr = {
            .send_cq = cq,
            .recv_cq = cq,
            .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = rc->tx_depth,
                    .max_recv_wr = 1,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = size},
        };
        struct ibv_qp *qp = ibv_create_qp(rc->verbs.pd, &attr);
        if (qp != NULL) {
            (void) ibv_destroy_qp(qp);
            return attr.cap.max_inline_data < INLINE_WANTED ? attr.cap.max_inline_data
                                                            : INLINE_WANTED;
        }
    }
    return 0;
}

static int open_shared(btl_ib_rc_t *rc, uint8_t number)
{
    btl_ib_rc_channel_t *channel = &rc->channel[number];
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = channel->num, .max_sge = 1}};

    channel->store.channel = number;
    channel->store.count = channel->num;
    channel->store.size = channel->size;
    channel->srq = ibv_create_srq(rc->verbs.pd, &attr);
    if (channel->srq == NULL) {
        return btl_ib_verbs_failed(&rc->verbs, "ibv_create_srq", errno);
    }
    channel->memory = btl_ib_verbs_slab_alloc(
        &rc->verbs, (size_t) channel->num * btl_ib_rc_stride(channel->size), &channel->mr);
    if (channel->memory == NULL
        || btl_ib_rc_store_make(&channel->store, channel->memory, channel->mr->lkey) != 0) {
        return -ENOMEM;
    }
    rc->srq_entries += channel->num;
    return btl_ib_rc_post_all(rc, &channel->store);
}

/* The queues that were asked for, if the device can have them. */
static int plan_channels(btl_ib_rc_t *rc, const btl_ib_open_params_t *params)
{
    const uint32_t most = (uint32_t) rc->verbs.device.max_qp_wr;
    const btl_ib_open_queue_t only = {
        .size = params->rx_size != 0 ? params->rx_size : rc->verbs.base.attr.max_datagram,
        .num = params->rx_depth,
    };

    rc->channels = params->queue_count > 0 ? params->queue_count : 1;
    for (uint32_t i = 0; i < rc->channels; i++) {
        const btl_ib_open_queue_t *wanted = params->queue_count > 0 ? &params->queue[i] : &only;
        const uint32_t limit = wanted->shared ? (uint32_t) rc->verbs.device.max_srq_wr : most;
        if (wanted->shared && rc->iwarp) {
            BTL_IB_VERBS_LOG(&rc->verbs, 1,
                             "%s: queue %u is shared (S), and an iWARP connection ends when no "
                             "buffer is left: only queues of each peer (P) are safe",
                             rc->verbs.base.name, i + 1);
            return -EINVAL;
        }
        /* One for the message that opens a pipe. */
        const uint64_t num = (uint64_t) wanted->num + wanted->reserve + 1;
        if (num > limit) {
            BTL_IB_VERBS_LOG(&rc->verbs, 1, "%s: queue %u has %u buffers, the device takes %u",
                             rc->verbs.base.name, i + 1, wanted->num + wanted->reserve, limit);
            return -EINVAL;
        }
        rc->channel[i] = (btl_ib_rc_channel_t){
            .size = wanted->size, .num = (uint32_t) num, .shared = wanted->shared};
    }
    return 0;
}

static int open_queues(btl_ib_rc_t *rc, const btl_ib_open_params_t *params)
{
    btl_ib_transport_attr_t *attr = &rc->verbs.base.attr;
    int error = plan_channels(rc, params);

    for (uint8_t i = 0; i < rc->channels && error == 0; i++) {
        error = rc->channel[i].shared ? open_shared(rc, i) : 0;
    }
    if (error != 0) {
        return error;
    }
    btl_ib_rc_cq_t *cq = btl_ib_rc_cq_take(rc, 0);
    if (cq == NULL) {
        return -ENOMEM;
    }
    attr->inline_size = find_inline_size(rc, cq->cq);
    attr->max_datagram = rc->channel[rc->channels - 1].size;
    attr->rx_depth = rx_depth(&rc->verbs.base, attr->max_datagram);
    return 0;
}

/* With kernels before 5.12 children of fork() do not get the pages that are registered, whatever else lies on them; so they
 * must not be the user's, whose child would crash. */
static bool keeps_from_children(const btl_ib_rc_t *rc)
{
    const bool keeps = ibv_is_fork_initialized() == IBV_FORK_ENABLED;

    if (keeps) {
        BTL_IB_VERBS_LOG(&rc->verbs, 1,
                         "%s: processors move memory: for the sake of fork() this kernel takes "
                         "registered pages from children (btl_ib_fork_safe)",
                         rc->verbs.base.name);
    }
    return keeps;
}

/* What of operations on memory the device does. iWARP has no atomics that all devices have alike. */
static void plan_rdma(btl_ib_rc_t *rc)
{
    const struct ibv_device_attr *device = &rc->verbs.device;
    btl_ib_transport_attr_t *attr = &rc->verbs.base.attr;
    const int reads = device->max_qp_rd_atom < device->max_qp_init_rd_atom
                          ? device->max_qp_rd_atom
                          : device->max_qp_init_rd_atom;
    const uint32_t max = rc->verbs.port_attr.max_msg_sz;

    attr->rdma = !keeps_from_children(rc);
    rc->reads = (uint8_t) (reads < 0 ? 0 : reads > READS_MAX ? READS_MAX : reads);
    attr->rdma_max = max < RDMA_MAX ? max : RDMA_MAX;
    attr->rdma_copied = BTL_IB_RC_PIECE_MAX;
    if (!rc->iwarp && device->atomic_cap == IBV_ATOMIC_GLOB) {
        attr->rdma_atomics = BTL_IB_RDMA_ATOMICS_GLOBAL;
    } else if (!rc->iwarp && device->atomic_cap == IBV_ATOMIC_HCA) {
        attr->rdma_atomics = BTL_IB_RDMA_ATOMICS_DEVICE;
    }
}

/* The largest power of two that is not above `number`, nor above BTL_IB_RC_EAGER_SLOTS: datagrams are numbered modulo 2^32, which a
 * ring has to divide. 0 of 0. */
static uint32_t plan_slots(uint32_t number)
{
    uint32_t slots = BTL_IB_RC_EAGER_SLOTS;

    while (slots > number) {
        slots /= 2;
    }
    return slots;
}

/* A slot holds what the first queue does, as far as it goes inline. */
static void plan_eager(btl_ib_rc_t *rc, const btl_ib_open_rc_t *wanted)
{
    const uint32_t peers = wanted->eager_peers;
    uint32_t bytes = rc->channel[0].size + BTL_IB_RC_TRAILER;

    bytes = bytes < rc->verbs.base.attr.inline_size ? bytes : rc->verbs.base.attr.inline_size;
    bytes = bytes < BTL_IB_RC_EAGER_SLOT ? bytes : BTL_IB_RC_EAGER_SLOT;
    rc->eager_slot = bytes / BTL_IB_RC_LINE * BTL_IB_RC_LINE;
    rc->eager_slots = plan_slots(wanted->eager_slots);
    rc->eager_peers = peers < BTL_IB_RC_EAGER_PEERS ? peers : BTL_IB_RC_EAGER_PEERS;
    rc->eager_threshold = wanted->eager_threshold;
    rc->eager_period_us = (uint64_t) wanted->eager_period_ms * 1000;
}

/* Who set them meant something by it, be it only that jobs are kept apart. */
static void tell_ignored(const btl_ib_rc_t *rc, const btl_ib_open_params_t *params)
{
    if (params->pkey != 0) {
        BTL_IB_VERBS_LOG(&rc->verbs, 1,
                         "%s: btl_ib_pkey 0x%x means nothing over rc: the partition is that of the "
                         "interface whose address is used (btl_ib_wire ud heeds it)",
                         rc->verbs.base.name, params->pkey);
    }
    if (params->service_level != 0) {
        BTL_IB_VERBS_LOG(
            &rc->verbs, 1,
            "%s: btl_ib_service_level %u means nothing over rc: the subnet manager, or "
            "on RoCE btl_ib_traffic_class, decides (btl_ib_wire ud heeds it)",
            rc->verbs.base.name, params->service_level);
    }
}

static int open_port(btl_ib_rc_t *rc, const btl_ib_device_t *device,
                     const btl_ib_open_params_t *params)
{
    const btl_ib_verbs_device_t *handle = device->handle;
    btl_ib_verbs_t *verbs = &rc->verbs;
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
    if ((error = btl_ib_rc_cm_open(rc, handle->name, params)) != 0) {
        return error;
    }
    if ((error = ibv_query_device(verbs->context, &verbs->device)) != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_device", error);
    }
    if ((error = ibv_query_port(verbs->context, verbs->port, &verbs->port_attr)) != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_port", error);
    }
    verbs->pd = ibv_alloc_pd(verbs->context);
    if (verbs->pd == NULL) {
        return btl_ib_verbs_failed(verbs, "ibv_alloc_pd", errno);
    }
    error = btl_ib_verbs_bell_open(verbs, &rc->bell);
    return error != 0 ? error : btl_ib_rc_wait_open(rc);
}

static int open_rc(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                   btl_ib_transport_t **out)
{
    btl_ib_rc_t *rc = calloc(1, sizeof(*rc));

    if (rc == NULL) {
        return -ENOMEM;
    }
    rc->verbs.base.ops = &rc_ops;
    rc->verbs.log = params->log;
    rc->tx_depth = TX_DEPTH;
    rc->strangers_max = STRANGERS_MAX;
    rc->ack_timeout = params->rc.timeout;
    rc->retry = params->rc.retry;
    rc->rnr_retry = params->rc.rnr_retry;
    rc->tos = params->traffic_class;
    rc->relaxed = params->rc.relaxed;
    rc->set = -1;
    rc->stirred = -1;
    snprintf(rc->verbs.base.name, sizeof(rc->verbs.base.name), "verbs/rc:%.54s", device->name);
    int error = query(device, &rc->verbs.base.attr);
    error = error == 0 ? open_port(rc, device, params) : error;
    error = error == 0 ? open_queues(rc, params) : error;
    if (error != 0) {
        close_rc(&rc->verbs.base);
        return error;
    }
    plan_rdma(rc);
    plan_eager(rc, &params->rc);
    tell_ignored(rc, params);
    rc->self.mtu = (uint8_t) rc->verbs.port_attr.active_mtu;
    btl_ib_rc_name_pack(&rc->self, rc->verbs.base.address);
    rc->verbs.base.address_len = BTL_IB_RC_NAME_BYTES;
    *out = &rc->verbs.base;
    return 0;
}

const btl_ib_transport_type_t btl_ib_verbs_rc_type = {
    .name = "verbs",
    .wire = "rc",
    .default_queues = "P,256,128:P,8192,64:P,65536,16",
    .devices = btl_ib_rc_devices,
    .devices_free = btl_ib_verbs_devices_free,
    .query = query,
    .open = open_rc,
    .describe = btl_ib_verbs_describe,
    .library = btl_ib_verbs_library,
};
