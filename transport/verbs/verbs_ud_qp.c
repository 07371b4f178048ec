/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_ud_qp.h"

#include "verbs_device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TX_DEPTH = 256,
    TX_DEPTH_MIN = 128,
    ROOM_MIN = 2 * TX_DEPTH_MIN, /* entries of a completion queue: for few sends, as many buffers */
    HANDED_UP = 32,              /* buffers that handlers have at once: those of one poll, */
    HANDED_UP_SHARE = 8,         /* but at most 1/8 of the queue's depth, and one */
    GROWN_MAX = 4096,            /* buffers of a queue that grows with the number of peers */
    RESERVE_PART = 4,  /* the reserve takes at most 1/4 of the buffers, where these are few */
    RESTARTS_MAX = 64, /* of a queue pair; after that the device has failed */
};

/* Buffers that were made together. */
typedef struct btl_ib_ud_slab {
    struct btl_ib_ud_slab *next;
    struct ibv_mr *mr;
    btl_ib_verbs_rx_buffer_t buffer[];
} btl_ib_ud_slab_t;

/* ---- sizes ---- */

/* Chooses how many buffers a queue pair has; `reserve` of them are for what needs no credit. The
 * device takes at most `most`. */
static void qp_plan_depth(btl_ib_ud_qp_t *qp, uint32_t reserve, uint32_t most)
{
    qp->handed_up = btl_ib_verbs_min(HANDED_UP, 1 + qp->depth / HANDED_UP_SHARE);
    qp->spare += qp->handed_up + reserve;
    qp->made_max = qp->depth;
    if (qp->per_peer > 0 && qp->made_max < GROWN_MAX) {
        qp->made_max = GROWN_MAX;
    }
    qp->made_max = btl_ib_verbs_min(qp->made_max + qp->spare, most);
    if (qp->depth + qp->spare > qp->made_max) {
        qp->batch = 1;
        qp->batch_shared = 0;
        qp->handed_up = 0;
        qp->spare = 1 + btl_ib_verbs_min(reserve, qp->made_max / RESERVE_PART);
        qp->depth = qp->made_max > qp->spare ? qp->made_max - qp->spare : 1;
    }
    btl_ib_verbs_rx_pool_init(&qp->rx, qp);
}

/* Adds a queue's buffers that may lie idle until its low watermark is reached. A credit of P
 * promises a posted buffer, so the idle ones are spare; S promises nothing, so they are a part of
 * its num. */
static void qp_plan_batch(btl_ib_ud_qp_t *qp, const btl_ib_open_queue_t *wanted)
{
    const uint32_t batch = btl_ib_open_batch(wanted);

    qp->batch += batch;
    qp->spare += wanted->shared ? 0 : batch;
    qp->batch_shared += wanted->shared ? batch : 0;
}

/* Chooses the lengths of a queue pair's send and receive queue. The device takes at most `most`
 * requests in each. `room`: entries of a completion queue for both, at least ROOM_MIN; 0: as many
 * as they need. `reserve`: buffers for what needs no credit. */
static void qp_plan_depths(btl_ib_ud_qp_t *qp, uint32_t reserve, uint32_t most, uint32_t room)
{
    uint32_t sends = qp->tx_depth < TX_DEPTH_MIN ? (uint32_t) TX_DEPTH_MIN : qp->tx_depth;

    if (room != 0) {
        sends = btl_ib_verbs_min(sends, room / 2);
    }
    qp->tx_depth = btl_ib_verbs_power_below(btl_ib_verbs_min(most, sends));
    if (room != 0) {
        most = btl_ib_verbs_min(most, room - qp->tx_depth);
    }
    qp_plan_depth(qp, reserve, most);
}

/* Chooses which queue pair serves which receive queues, and how many buffers it has. Queues beyond
 * the last queue pair share it, and its buffers fit the largest of them. Then the engine itself
 * keeps the reserve, out of the buffers that rx_depth() tells it of, so `depth` includes it. */
static void qps_plan(btl_ib_ud_qps_t *qps, const btl_ib_open_params_t *params, uint32_t max_size,
                     uint32_t most)
{
    const uint32_t count_max =
        params->channels == BTL_IB_CHANNELS_SHARED ? 1 : (uint32_t) BTL_IB_UD_QPS_MAX;

    qps->count = btl_ib_verbs_min(params->queue_count, count_max);
    const bool apart = params->queue_count <= qps->count;
    for (uint32_t i = 0; i < params->queue_count; i++) {
        const btl_ib_open_queue_t *wanted = &params->queue[i];
        const uint32_t sends = btl_ib_open_tx_depth(params, i, TX_DEPTH);
        btl_ib_ud_qp_t *qp = &qps->qp[btl_ib_ud_qp_of(i, qps->count)];
        qp->tx_depth = sends > qp->tx_depth ? sends : qp->tx_depth;
        qp->size = btl_ib_verbs_min(wanted->size, max_size);
        qp->depth += wanted->num + (apart ? 0 : wanted->reserve);
        qp->per_peer += wanted->per_peer;
        qp->first += wanted->init + (apart ? 0 : wanted->reserve);
        qp->limit += wanted->init < wanted->num ? wanted->limit : 0;
        qp_plan_batch(qp, wanted);
    }
    if (qps->count == 0) {
        const uint32_t size = params->rx_size != 0 ? params->rx_size : max_size;
        qps->count = 1;
        qps->qp[0] = (btl_ib_ud_qp_t){.size = btl_ib_verbs_min(size, max_size),
                                      .tx_depth = btl_ib_open_tx_depth(params, 0, TX_DEPTH),
                                      .depth = params->rx_depth,
                                      .first = params->rx_depth};
        qp_plan_batch(&qps->qp[0], &(btl_ib_open_queue_t){.num = params->rx_depth});
    }
    qps->cq_count = params->cq_own ? qps->count : 1;
    const uint32_t part = params->cq_num * qps->cq_count / qps->count;
    const uint32_t room = params->cq_num == 0 ? 0 : part < ROOM_MIN ? (uint32_t) ROOM_MIN : part;
    for (uint32_t i = 0; i < qps->count; i++) {
        qp_plan_depths(&qps->qp[i], apart ? params->queue[i].reserve : 0, most, room);
    }
}

/* Returns how many buffers a queue pair begins with. */
static uint32_t qp_first_buffers(const btl_ib_ud_qp_t *qp)
{
    return btl_ib_verbs_min(qp->first, qp->depth) + qp->spare;
}

/* Adds a new peer's buffers to the depth. Returns how many are to be made. */
static uint32_t qp_expect_peer(btl_ib_ud_qp_t *qp)
{
    const uint32_t quarter = qp->made / 4; /* few large registrations cost less than many */

    qp->depth += qp->per_peer;
    if (qp->per_peer == 0 || qp->depth + qp->spare <= qp->made) {
        return 0;
    }
    return btl_ib_verbs_min(quarter > qp->per_peer ? quarter : qp->per_peer,
                            qp->made_max - qp->made);
}

/* ---- receive buffers ---- */

/* Returns the bytes from one buffer to the next. The GRH of each ends where a cache line begins, so
 * that payloads are aligned. */
static size_t qp_stride(const btl_ib_ud_qp_t *qp)
{
    const size_t line = BTL_IB_VERBS_LINE;

    return line + (qp->size + line - 1) / line * line;
}

/* Sets the low watermark. While not all buffers are made, it is in proportion to those that are,
 * but at least `limit`: else buffers would be doubled only because idle ones were not posted. */
static void qp_set_watermark(btl_ib_ud_qp_t *qp)
{
    const uint32_t all = qp->depth + qp->spare;
    const uint32_t batch =
        qp->made < all ? (uint32_t) ((uint64_t) qp->batch * qp->made / all) : qp->batch;
    const uint32_t most = qp->made > qp->limit ? qp->made - qp->limit : 0;

    qp->watermark = qp->made - btl_ib_verbs_min(batch > 0 ? batch : 1, most);
    qp->urgent = qp->watermark - btl_ib_verbs_min(qp->handed_up, qp->watermark);
}

/* Returns the bytes that `count` buffers take if they are made together. */
static uint64_t qp_slab_bytes(const btl_ib_ud_qp_t *qp, uint32_t count, uint32_t page)
{
    const uint64_t memory = qp_stride(qp) * count;

    return (memory + page - 1) / page * page + sizeof(btl_ib_ud_slab_t)
           + count * sizeof(btl_ib_verbs_rx_buffer_t);
}

/* Posts idle buffers. Returns 0, or an errno: some of them may be posted nevertheless. */
static int qp_post(btl_ib_ud_qp_t *qp)
{
    const int error = btl_ib_verbs_rx_pool_post(&qp->rx);

    qp->empty = qp->empty && qp->rx.posted == 0;
    return error;
}

/* Makes and posts buffers. Returns 0 or a negative errno. */
static int qp_make_buffers(btl_ib_ud_qps_t *qps, btl_ib_ud_qp_t *qp, uint32_t count)
{
    const size_t line = BTL_IB_VERBS_LINE;
    const size_t stride = qp_stride(qp);
    btl_ib_ud_slab_t *slab = calloc(1, sizeof(*slab) + count * sizeof(slab->buffer[0]));

    if (slab == NULL) {
        return -ENOMEM;
    }
    slab->mr = btl_ib_verbs_slab_alloc(qps->verbs, stride * count, 0);
    if (slab->mr == NULL) {
        const int error = errno;
        free(slab);
        return -error;
    }
    slab->next = qp->slabs;
    qp->slabs = slab;
    qp->made += count;
    qp_set_watermark(qp);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *payload = (uint8_t *) slab->mr->addr + i * stride + line;
        btl_ib_verbs_rx_pool_add(&qp->rx, &slab->buffer[i], (uintptr_t) &slab->buffer[i],
                                 payload - BTL_IB_VERBS_GRH, qp->size + BTL_IB_VERBS_GRH,
                                 slab->mr->lkey);
    }
    const int error = qp_post(qp);
    return error == 0 ? 0 : btl_ib_verbs_failed(qps->verbs, "ibv_post_recv", error);
}

/* Makes `more` buffers, or as many as the queue pair takes. Switches `limit` off if no more can be
 * made: the queue pair has as many as it takes, or memory is short. */
static void qp_grow(btl_ib_ud_qps_t *qps, btl_ib_ud_qp_t *qp, uint32_t more)
{
    more = btl_ib_verbs_min(more, qp->made_max - qp->made);
    if (more == 0 || qp_make_buffers(qps, qp, more) != 0 || qp->made == qp->made_max) {
        qp->limit = 0;
        qp_set_watermark(qp);
    }
}

void btl_ib_ud_qps_add_peer(btl_ib_ud_qps_t *qps)
{
    for (uint32_t i = 0; i < qps->count && qps->state->error == 0; i++) {
        const uint32_t more = qp_expect_peer(&qps->qp[i]);
        if (more > 0) {
            qp_grow(qps, &qps->qp[i], more);
        }
    }
}

void btl_ib_ud_qps_remove_peer(btl_ib_ud_qps_t *qps)
{
    for (uint32_t i = 0; i < qps->count && qps->state->error == 0; i++) {
        qps->qp[i].depth -= qps->qp[i].per_peer;
    }
}

/* Counts that the device had no buffer of a queue pair left, so that it drops what comes. `error`:
 * with which it refuses to take some; 0: it has some again, or there are none. Logs the first time
 * that more of them would help. */
__attribute__((noinline)) static void qp_note_empty(btl_ib_ud_qps_t *qps, btl_ib_ud_qp_t *qp,
                                                    int error)
{
    qp->empty = qp->rx.posted == 0;
    qp->refused_since = 0;
    qps->emptied++;
    if (error == 0 && !qps->empty_logged) {
        qps->empty_logged = true;
        BTL_IB_VERBS_LOG(qps->verbs, 1,
                         "%s: queue %u had none of its %u buffers left: what comes then is dropped "
                         "and sent again. More of them (num in btl_ib_receive_queues), or less on "
                         "the way from each peer (max_pending_sends, btl_ib_credit_init), would "
                         "help",
                         qps->verbs->base.name, (uint32_t) (qp - qps->qp) + 1, qp->made);
    }
}

void btl_ib_ud_qps_grow_low(btl_ib_ud_qps_t *qps)
{
    for (uint32_t i = 0; i < qps->count && qps->state->error == 0; i++) {
        btl_ib_ud_qp_t *qp = &qps->qp[i];
        if (qp->rx.posted < qp->limit && !qp->flushed) {
            if (qp->rx.posted == 0 && !qp->empty) {
                qp_note_empty(qps, qp, 0);
            }
            qp_grow(qps, qp, qp->made);
        }
    }
}

/* Posts idle buffers of a queue pair that has few posted, or none. Returns 0 or an errno. */
__attribute__((noinline)) static int qp_post_few(btl_ib_ud_qps_t *qps, btl_ib_ud_qp_t *qp)
{
    const bool found_empty = qp->rx.posted == 0 && !qp->empty;
    const int error = qp_post(qp);

    if (found_empty) {
        qp_note_empty(qps, qp, error);
    }
    return error;
}

int btl_ib_ud_qps_post_idle(btl_ib_ud_qps_t *qps, bool polling)
{
    qps->unposted = false;
    for (uint32_t i = 0; i < qps->count && qps->state->error == 0; i++) {
        btl_ib_ud_qp_t *qp = &qps->qp[i];
        const uint32_t few = polling ? qp->urgent : qp->watermark;
        if (qp->rx.posted <= few && qp->rx.idle_count > 0 && !qp->flushed) {
            const int error = qp_post_few(qps, qp);
            if (error != 0 && error != ENOMEM) {
                return error;
            }
            qps->unposted |= error != 0;
        }
    }
    return 0;
}

bool btl_ib_ud_qps_note_refused(btl_ib_ud_qps_t *qps, uint64_t now)
{
    bool lasts = false;

    for (uint32_t i = 0; i < qps->count; i++) {
        btl_ib_ud_qp_t *qp = &qps->qp[i];
        if (qp->rx.posted > 0 || qp->rx.idle_count == 0 || qp->flushed) {
            continue; /* it receives, or will when buffers are given back */
        }
        qp->refused_since = qp->refused_since == 0 ? now : qp->refused_since;
        lasts = lasts || now - qp->refused_since >= BTL_IB_VERBS_SHORTAGE_MAX;
    }
    return lasts;
}

static void qp_note_broken(btl_ib_ud_qps_t *qps, btl_ib_ud_qp_t *qp)
{
    qp->broken = true;
    qps->broken = true;
}

void btl_ib_ud_qp_flushed(btl_ib_ud_qps_t *qps, btl_ib_verbs_rx_buffer_t *buffer)
{
    btl_ib_ud_qp_t *qp = buffer->pool->owner;

    btl_ib_verbs_rx_pool_put(buffer);
    qp_note_broken(qps, qp);
    qp->flushed = true;
}

/* ---- opening ---- */

static int qp_set_state(btl_ib_ud_qps_t *qps, btl_ib_ud_qp_t *qp, struct ibv_qp_attr attr, int mask)
{
    const int error = ibv_modify_qp(qp->qp, &attr, mask | IBV_QP_STATE);

    return error == 0 ? 0 : btl_ib_verbs_failed(qps->verbs, "ibv_modify_qp", error);
}

static int qp_to_init(btl_ib_ud_qps_t *qps, btl_ib_ud_qp_t *qp)
{
    const struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = qps->port->pkey_index,
        .port_num = qps->verbs->port,
        .qkey = qps->qkey,
    };

    return qp_set_state(qps, qp, attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
}

static int qp_to_rts(btl_ib_ud_qps_t *qps, btl_ib_ud_qp_t *qp)
{
    const int rc = qp_set_state(qps, qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR}, 0);

    return rc != 0 ? rc
                   : qp_set_state(qps, qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS},
                                  IBV_QP_SQ_PSN);
}

static int qp_create(btl_ib_ud_qps_t *qps, btl_ib_ud_qp_t *qp, uint32_t inline_wanted)
{
    struct ibv_qp_init_attr init = {
        .send_cq = qp->cq,
        .recv_cq = qp->cq,
        .cap = {.max_send_wr = qp->tx_depth,
                .max_recv_wr = qp->made_max,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = inline_wanted},
        .qp_type = IBV_QPT_UD,
    };

    qp->qp = btl_ib_verbs_create_qp(qps->verbs, &init);
    if (qp->qp == NULL) {
        return btl_ib_verbs_failed(qps->verbs, "ibv_create_qp", errno);
    }
    btl_ib_verbs_rx_pool_attach(&qp->rx, qp->qp, NULL);
    qps->inline_size = btl_ib_verbs_min(qps->inline_size, init.cap.max_inline_data);
    return 0;
}

static int qp_open(btl_ib_ud_qps_t *qps, btl_ib_ud_qp_t *qp, uint32_t inline_wanted)
{
    int rc = qp_create(qps, qp, inline_wanted);

    if (rc == 0) {
        rc = btl_ib_verbs_send_ring_init(&qp->ring, qp->tx_depth) ? qp_to_init(qps, qp) : -ENOMEM;
    }
    if (rc == 0) {
        rc = qp_make_buffers(qps, qp, qp_first_buffers(qp));
    }
    return rc != 0 ? rc : qp_to_rts(qps, qp);
}

/* Returns the entries that completion queue `index` is to have: as many as its queue pair can fill,
 * or all queue pairs if they share it, and at least `least`. */
static uint32_t cq_entries(const btl_ib_ud_qps_t *qps, uint32_t index, uint32_t least)
{
    uint32_t entries = 0;

    for (uint32_t i = 0; i < qps->count; i++) {
        if (qps->cq_count == 1 || i == index) {
            entries += qps->qp[i].tx_depth + qps->qp[i].made_max;
        }
    }
    return entries < least ? least : entries;
}

/* Opens completion queue `index`, for its queue pair or for all, with at least `least` entries if
 * the device can have so many. Returns 0 or a negative errno after logging why. */
static int cq_open(btl_ib_ud_qps_t *qps, uint32_t index, uint32_t least,
                   struct ibv_comp_channel *channel)
{
    const btl_ib_verbs_t *verbs = qps->verbs;
    const uint32_t entries =
        btl_ib_verbs_min(cq_entries(qps, index, least), (uint32_t) verbs->device.max_cqe);

    qps->cq[index] = ibv_create_cq(verbs->context, (int) entries, NULL, channel, 0);
    if (qps->cq[index] == NULL) {
        return btl_ib_verbs_failed(verbs, "ibv_create_cq", errno);
    }
    for (uint32_t i = 0; i < qps->count; i++) {
        if (qps->cq_count == 1 || i == index) {
            qps->qp[i].cq = qps->cq[index];
        }
    }
    return 0;
}

int btl_ib_ud_qps_open(btl_ib_ud_qps_t *qps, const btl_ib_ud_port_t *port,
                       const btl_ib_verbs_state_t *state, const btl_ib_open_params_t *params,
                       uint32_t qkey, struct ibv_comp_channel *channel)
{
    const btl_ib_verbs_t *verbs = &port->verbs;
    const uint32_t inline_wanted = btl_ib_verbs_inline_wanted(params);
    int rc = 0;

    *qps = (btl_ib_ud_qps_t){
        .port = port, .verbs = verbs, .state = state, .qkey = qkey, .inline_size = inline_wanted};
    qps_plan(qps, params, verbs->base.attr.max_datagram, (uint32_t) verbs->device.max_qp_wr);
    for (uint32_t i = 0; i < qps->cq_count && rc == 0; i++) {
        rc = cq_open(qps, i, params->cq_num, channel);
    }
    for (uint32_t i = 0; i < qps->count && rc == 0; i++) {
        rc = qp_open(qps, &qps->qp[i], inline_wanted);
    }
    return rc;
}

void btl_ib_ud_qps_memory_estimate(const btl_ib_open_params_t *params,
                                   const btl_ib_transport_attr_t *attr, uint32_t peers,
                                   btl_ib_memory_estimate_t *estimate)
{
    btl_ib_ud_qps_t qps = {.count = 0};
    uint64_t requests = 0, completions = 0;

    qps_plan(&qps, params, attr->max_datagram, attr->queue_max > 0 ? attr->queue_max : INT32_MAX);
    btl_ib_estimate_queues(estimate, qps.count, qps.cq_count);
    for (uint32_t i = 0; i < qps.count; i++) {
        btl_ib_ud_qp_t *qp = &qps.qp[i];
        uint64_t held = 0;
        uint32_t more = qp_first_buffers(qp);
        for (uint32_t n = 0; n <= peers; n++) {
            held += more > 0 ? qp_slab_bytes(qp, more, attr->registered_page) : 0;
            qp->made += more;
            more = qp_expect_peer(qp);
        }
        const uint32_t rest = qp->made_max - qp->made;
        btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, held,
                            held + qp_slab_bytes(qp, rest, attr->registered_page),
                            "queue %u: buffers of %u bytes", i + 1, qp->size);
        btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, qp->tx_depth * sizeof(void *), 0,
                            "queue %u: sends", i + 1);
        requests += qp->tx_depth + qp->made_max;
    }
    for (uint32_t i = 0; i < qps.cq_count; i++) {
        completions += cq_entries(&qps, i, params->cq_num);
    }
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_DEVICE,
                        BTL_IB_VERBS_LINE * (requests + completions), 0,
                        "queue pairs and completions");
}

void btl_ib_ud_qps_stop(btl_ib_ud_qps_t *qps)
{
    for (uint32_t i = 0; i < qps->count; i++) {
        if (qps->qp[i].qp != NULL) {
            (void) ibv_destroy_qp(qps->qp[i].qp);
            qps->qp[i].qp = NULL;
        }
    }
}

void btl_ib_ud_qps_free(btl_ib_ud_qps_t *qps)
{
    for (uint32_t i = 0; i < qps->count; i++) {
        btl_ib_ud_qp_t *qp = &qps->qp[i];
        while (qp->slabs != NULL) {
            btl_ib_ud_slab_t *slab = qp->slabs;
            qp->slabs = slab->next;
            btl_ib_verbs_slab_free(slab->mr);
            free(slab);
        }
        btl_ib_verbs_send_ring_free(&qp->ring);
    }
    for (uint32_t i = 0; i < qps->cq_count; i++) {
        if (qps->cq[i] != NULL) {
            (void) ibv_destroy_cq(qps->cq[i]);
        }
    }
}

/* ---- completion of sends ---- */

bool btl_ib_ud_qps_sent(btl_ib_ud_qps_t *qps, const struct ibv_wc *wc)
{
    btl_ib_ud_qp_t *qp = &qps->qp[(uint32_t) wc->wr_id >> 1];
    const uint32_t completed = (uint32_t) (wc->wr_id >> 32) + 1;

    /* A completion from before a restart is older than what the ring knows. */
    if ((int32_t) (completed - qp->ring.completed) > 0) {
        qps->completed |= btl_ib_verbs_send_ring_complete(&qp->ring, completed);
    }
    if (wc->status == IBV_WC_SUCCESS) {
        return true;
    }
    qp_note_broken(qps, qp);
    if (wc->status != IBV_WC_WR_FLUSH_ERR) {
        char text[96];
        snprintf(text, sizeof(text), "%s (vendor's code 0x%x)", ibv_wc_status_str(wc->status),
                 wc->vendor_err);
        btl_ib_ud_qps_log_error(qps, text);
    }
    return false;
}

int btl_ib_ud_qps_report(btl_ib_ud_qps_t *qps, btl_ib_event_t *events, int max)
{
    int n = 0;

    for (uint32_t i = 0; i < qps->count; i++) {
        void *context;
        while (n < max && (context = btl_ib_verbs_send_ring_next(&qps->qp[i].ring)) != NULL) {
            events[n++] = (btl_ib_event_t){
                .type = BTL_IB_EVENT_SENT, .from = BTL_IB_ADDR_UNKNOWN, .context = context};
        }
    }
    qps->completed = n == max;
    return n;
}

/* Resets a queue pair that failed as a whole and has returned all its buffers, and posts them
 * again. Datagrams that were being sent are lost, and their memory is free. Returns 0 or a negative
 * errno. */
static int qp_restart(btl_ib_ud_qps_t *qps, btl_ib_ud_qp_t *qp)
{
    const struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    int rc = ++qp->restarts <= RESTARTS_MAX ? qp_set_state(qps, qp, reset, 0) : -EIO;

    rc = rc != 0 ? rc : qp_to_init(qps, qp);
    if (rc != 0) {
        return rc;
    }
    qps->completed |= btl_ib_verbs_send_ring_complete(&qp->ring, qp->ring.posted);
    const int error = qp_post(qp);
    qps->unposted |= error == ENOMEM;
    rc = error == 0 || error == ENOMEM ? qp_to_rts(qps, qp) : -error;
    if (rc == 0) {
        qp->flushed = false;
        BTL_IB_VERBS_LOG(qps->verbs, 1,
                         "%s: queue pair %u had failed and was made as new (%u of %d)",
                         qps->verbs->base.name, qp->qp->qp_num, qp->restarts, RESTARTS_MAX);
    }
    return rc;
}

int btl_ib_ud_qps_repair(btl_ib_ud_qps_t *qps)
{
    const struct ibv_qp_attr sends_again = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};
    bool broken = false;

    for (uint32_t i = 0; i < qps->count; i++) {
        btl_ib_ud_qp_t *qp = &qps->qp[i];
        if (!qp->broken
            || (qp->flushed ? qp->rx.posted > 0 : qp->ring.completed != qp->ring.posted)) {
            broken = broken || qp->broken;
            continue; /* it works, or the device is not done with it */
        }
        const int rc = qp->flushed ? qp_restart(qps, qp)
                                   : qp_set_state(qps, qp, sends_again, IBV_QP_CUR_STATE);
        if (rc != 0) {
            return rc;
        }
        qp->broken = false;
        qp->unsignaled = 0;
    }
    qps->broken = broken;
    return 0;
}
