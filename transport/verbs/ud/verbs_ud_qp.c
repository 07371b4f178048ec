/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Making the queue pairs and their buffers. */

#include "verbs_ud_rail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TX_DEPTH = 256,
    TX_DEPTH_MIN = 128,
    INLINE = 256, /* asked for; a device may have less */
    LINE = 64,    /* bytes of a cache line */
    LAZY_MAX = 32,
    GROWN_MAX = 4096, /* buffers of a queue that grows with the number of peers */
    REVIVALS_MAX = 64,
};

/* ---- sizes ---- */

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The largest power of two that is not above x. */
static uint32_t power_below(uint32_t x)
{
    uint32_t power = 1;

    while (power <= x / 2) {
        power *= 2;
    }
    return power;
}

/* How many buffers there may be. */
static void size_queue(const btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue)
{
    const uint32_t most = (uint32_t) ud->verbs.device.max_qp_wr;

    queue->depth_max = queue->depth;
    if (queue->per_peer > 0 && queue->depth_max < GROWN_MAX) {
        queue->depth_max = GROWN_MAX;
    }
    queue->lazy = min_u32(LAZY_MAX, 1 + queue->depth / 8);
    queue->depth_max = min_u32(queue->depth_max + queue->lazy, most);
    if (queue->depth + queue->lazy > queue->depth_max) {
        queue->lazy = 1;
        queue->depth = queue->depth_max > 1 ? queue->depth_max - 1 : 1;
    }
}

/* Which queue pair serves which of the receive queues: those beyond the last share it, and its buffers are as large
 * as the largest of them needs. */
static void share_out(btl_ib_ud_t *ud, const btl_ib_open_params_t *params)
{
    const uint32_t largest = ud->verbs.base.attr.max_datagram;

    for (uint32_t i = 0; i < params->queue_count; i++) {
        const btl_ib_open_queue_t *wanted = &params->queue[i];
        if (ud->queue_count < BTL_IB_UD_QPS_MAX) {
            ud->queue_count++;
        }
        btl_ib_ud_queue_t *queue = &ud->queue[ud->queue_count - 1];
        queue->size = min_u32(wanted->size, largest);
        queue->depth += wanted->num;
        queue->per_peer += wanted->per_peer;
        queue->first += wanted->init;
        queue->low += wanted->init < wanted->num ? wanted->limit : 0;
    }
    if (ud->queue_count == 0) {
        ud->queue_count = 1;
        ud->queue[0].size = params->rx_size != 0 ? min_u32(params->rx_size, largest) : largest;
        ud->queue[0].depth = params->rx_depth;
        ud->queue[0].first = params->rx_depth;
    }
}

static void size_queues(btl_ib_ud_t *ud, const btl_ib_open_params_t *params)
{
    const uint32_t most = (uint32_t) ud->verbs.device.max_qp_wr;
    const uint32_t wanted = params->tx_depth != 0 ? params->tx_depth : TX_DEPTH;

    for (uint32_t i = 0; i < ud->queue_count; i++) {
        ud->queue[i].tx_depth =
            power_below(min_u32(most, wanted < TX_DEPTH_MIN ? TX_DEPTH_MIN : wanted));
        ud->queue[i].idle_last = &ud->queue[i].idle;
        size_queue(ud, &ud->queue[i]);
    }
}

/* ---- buffers ---- */

/* Each begins so that what follows the GRH is on a cache line of its own. */
static void make_buffer(btl_ib_ud_queue_t *queue, btl_ib_ud_slab_t *slab, size_t stride, uint32_t i)
{
    btl_ib_ud_buffer_t *buffer = &slab->buffer[i];

    buffer->queue = queue;
    buffer->data = (uint8_t *) slab->memory + i * stride + LINE;
    buffer->sge = (struct ibv_sge){
        .addr = (uintptr_t) buffer->data - BTL_IB_VERBS_GRH,
        .length = queue->size + BTL_IB_VERBS_GRH,
        .lkey = slab->mr->lkey,
    };
    buffer->wr = (struct ibv_recv_wr){
        .wr_id = (uintptr_t) buffer,
        .sg_list = &buffer->sge,
        .num_sge = 1,
    };
    btl_ib_ud_give_back(buffer);
}

/* Returns 0 or a negative errno. */
static int make_buffers(btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue, uint32_t count)
{
    const size_t stride = LINE + (queue->size + LINE - 1) / LINE * LINE;
    btl_ib_ud_slab_t *slab = calloc(1, sizeof(*slab) + count * sizeof(slab->buffer[0]));

    if (slab == NULL) {
        return -ENOMEM;
    }
    slab->memory = btl_ib_verbs_slab_alloc(&ud->verbs, stride * count, &slab->mr);
    if (slab->memory == NULL) {
        free(slab);
        return -ENOMEM;
    }
    slab->next = queue->slabs;
    queue->slabs = slab;
    queue->made += count;
    for (uint32_t i = 0; i < count; i++) {
        make_buffer(queue, slab, stride, i);
    }
    const int rc = btl_ib_ud_post_idle(queue);
    return rc == 0 ? 0 : btl_ib_verbs_failed(&ud->verbs, "ibv_post_recv", rc);
}

uint32_t btl_ib_ud_queue_promise(const btl_ib_ud_queue_t *queue)
{
    const uint32_t buffers = queue->low > 0 ? queue->depth_max : queue->made;

    return min_u32(queue->depth, buffers - queue->lazy);
}

void btl_ib_ud_queue_grow(btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue, uint32_t more)
{
    more = min_u32(more, queue->depth_max - queue->made);
    if (more == 0 || make_buffers(ud, queue, more) != 0 || queue->made == queue->depth_max) {
        queue->low = 0;
    }
}

/* ---- queue pairs ---- */

static int set_state(btl_ib_ud_t *ud, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    const int rc = ibv_modify_qp(qp, attr, mask | IBV_QP_STATE);

    return rc == 0 ? 0 : btl_ib_verbs_failed(&ud->verbs, "ibv_modify_qp", rc);
}

static int to_init(btl_ib_ud_t *ud, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = ud->verbs.pkey_index,
        .port_num = ud->verbs.port,
        .qkey = ud->qkey,
    };

    return set_state(ud, qp, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
}

static int to_rts(btl_ib_ud_t *ud, struct ibv_qp *qp)
{
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = 0};
    const int rc = set_state(ud, qp, &rtr, 0);

    return rc != 0 ? rc : set_state(ud, qp, &rts, IBV_QP_SQ_PSN);
}

/* Devices differ in how much they send inline: ask for less until one agrees. */
static int create_qp(btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue)
{
    struct ibv_qp_init_attr init;

    for (uint32_t size = INLINE; queue->qp == NULL; size /= 2) {
        init = (struct ibv_qp_init_attr){
            .send_cq = ud->cq,
            .recv_cq = ud->cq,
            .cap = {.max_send_wr = queue->tx_depth,
                    .max_recv_wr = queue->depth_max,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = size},
            .qp_type = IBV_QPT_UD,
        };
        queue->qp = ibv_create_qp(ud->verbs.pd, &init);
        if (queue->qp == NULL && size == 0) {
            return btl_ib_verbs_failed(&ud->verbs, "ibv_create_qp", errno);
        }
    }
    ud->verbs.base.attr.inline_size =
        min_u32(ud->verbs.base.attr.inline_size, init.cap.max_inline_data);
    return 0;
}

static int open_queue(btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue)
{
    int rc = create_qp(ud, queue);

    if (rc == 0) {
        queue->sent = calloc(queue->tx_depth, sizeof(*queue->sent));
        rc = queue->sent != NULL ? to_init(ud, queue->qp) : -ENOMEM;
    }
    if (rc == 0) {
        rc = make_buffers(ud, queue, min_u32(queue->first, queue->depth) + queue->lazy);
    }
    return rc != 0 ? rc : to_rts(ud, queue->qp);
}

static int open_completions(btl_ib_ud_t *ud)
{
    uint32_t size = 0;

    for (uint32_t i = 0; i < ud->queue_count; i++) {
        size += ud->queue[i].tx_depth + ud->queue[i].depth_max;
    }
    ud->cq =
        ibv_create_cq(ud->verbs.context, (int) min_u32(size, (uint32_t) ud->verbs.device.max_cqe),
                      NULL, ud->channel, 0);
    return ud->cq != NULL ? 0 : btl_ib_verbs_failed(&ud->verbs, "ibv_create_cq", errno);
}

int btl_ib_ud_queues_open(btl_ib_ud_t *ud, const btl_ib_open_params_t *params)
{
    int rc;

    share_out(ud, params);
    size_queues(ud, params);
    ud->verbs.base.attr.inline_size = UINT32_MAX;
    rc = open_completions(ud);
    for (uint32_t i = 0; i < ud->queue_count && rc == 0; i++) {
        rc = open_queue(ud, &ud->queue[i]);
    }
    return rc;
}

int btl_ib_ud_queue_mend(btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};
    const int rc = set_state(ud, queue->qp, &attr, IBV_QP_CUR_STATE);

    if (rc == 0) {
        queue->broken = false;
        queue->unsignaled = 0;
    }
    return rc;
}

void btl_ib_ud_queues_stop(btl_ib_ud_t *ud)
{
    for (uint32_t i = 0; i < ud->queue_count; i++) {
        if (ud->queue[i].qp != NULL) {
            (void) ibv_destroy_qp(ud->queue[i].qp);
            ud->queue[i].qp = NULL;
        }
    }
}

void btl_ib_ud_queues_free(btl_ib_ud_t *ud)
{
    for (uint32_t i = 0; i < ud->queue_count; i++) {
        btl_ib_ud_queue_t *queue = &ud->queue[i];
        while (queue->slabs != NULL) {
            btl_ib_ud_slab_t *slab = queue->slabs;
            queue->slabs = slab->next;
            btl_ib_verbs_slab_free(slab->memory, slab->mr);
            free(slab);
        }
        free(queue->sent);
    }
    if (ud->cq != NULL) {
        (void) ibv_destroy_cq(ud->cq);
    }
}

int btl_ib_ud_queue_revive(btl_ib_ud_t *ud, btl_ib_ud_queue_t *queue)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    int rc = ++queue->revivals <= REVIVALS_MAX ? set_state(ud, queue->qp, &attr, 0) : -EIO;

    rc = rc != 0 ? rc : to_init(ud, queue->qp);
    if (rc != 0) {
        return rc;
    }
    queue->completed = queue->posted; /* what is lost is lost; its memory is free */
    queue->unsignaled = 0;
    rc = btl_ib_ud_post_idle(queue);
    rc = rc != 0 ? -rc : to_rts(ud, queue->qp);
    if (rc == 0) {
        queue->broken = false;
        queue->flushed = false;
        BTL_IB_VERBS_LOG(&ud->verbs, 1,
                         "%s: queue pair %u had failed and was made as new (%u of %d)",
                         ud->verbs.base.name, queue->qp->qp_num, queue->revivals, REVIVALS_MAX);
    }
    return rc;
}
