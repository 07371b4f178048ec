/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Pipes: queue pairs with their buffers and rings, made and given back. */

#include "verbs_rc_rail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    FIRST_SLOTS = 16,
    RNR_TIMER = 8, /* 0.16 ms (IBTA 9.7.5.2.8): the connection manager leaves it at 655 ms */
    SLOTS_MAX = 1 << BTL_IB_RC_SLOT_BITS,
    DRAIN_US = 200 * 1000, /* for devices that never say that they are done */
    LAZY_SHARE = 16,       /* of a pipe's buffers that may lie idle */
    FIRST_ONLY = 8, /* bytes of a buffer where the peer only sends the message that opens a pipe */
};

/* ---- buffers ---- */

uint32_t btl_ib_rc_stride(uint32_t size)
{
    return (size + BTL_IB_RC_LINE - 1) / BTL_IB_RC_LINE * BTL_IB_RC_LINE;
}

int btl_ib_rc_store_make(btl_ib_rc_store_t *store, uint8_t *memory, uint32_t key)
{
    store->buffer = calloc(store->count, sizeof(*store->buffer));
    if (store->buffer == NULL) {
        return -ENOMEM;
    }
    store->base = memory;
    store->key = key;
    store->stride = btl_ib_rc_stride(store->size);
    for (uint32_t i = 0; i < store->count; i++) {
        store->buffer[i].store = store;
    }
    return 0;
}

/* How many buffers of what size a pipe has to itself. */
static void plan_store(const btl_ib_rc_t *rc, btl_ib_rc_store_t *store)
{
    if (store->channel
        >= rc->channels) { /* operations on memory; or the peer has more channels than we */
        store->count = 1;
        store->size = FIRST_ONLY;
    } else if (rc->channel[store->channel].srq == NULL) {
        store->count = rc->channel[store->channel].num;
        store->size = rc->channel[store->channel].size;
    }
    store->lazy = 1 + store->count / LAZY_SHARE;
}

static int make_memory(btl_ib_rc_pipe_t *pipe)
{
    const btl_ib_verbs_t *verbs = &pipe->rc->verbs;
    btl_ib_rc_store_t *store = &pipe->store;
    const bool rdma = pipe->rdma != NULL;
    /* What iWARP reads is written by the other side, as far as rights go. */
    const int sink = rdma && pipe->rc->iwarp ? IBV_ACCESS_REMOTE_WRITE : 0;

    plan_store(pipe->rc, store);
    const size_t ring = btl_ib_rc_eager_bytes(pipe);
    const size_t before = BTL_IB_RC_LINE + ring;
    const size_t buffers = before + (size_t) store->count * btl_ib_rc_stride(store->size);
    pipe->memory_size = buffers + (rdma ? BTL_IB_RC_PIECES : 0);
    void *memory =
        mmap(NULL, pipe->memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return btl_ib_verbs_failed(verbs, "mmap", errno);
    }
    pipe->memory = memory;
    if (rdma) {
        pipe->rdma->pieces = pipe->memory + buffers;
    }
    pipe->mr = ibv_reg_mr(verbs->pd, memory, pipe->memory_size, IBV_ACCESS_LOCAL_WRITE | sink);
    if (pipe->mr == NULL) {
        return btl_ib_verbs_failed(verbs, "ibv_reg_mr", errno);
    }
    pipe->word_mr = ibv_reg_mr(verbs->pd, memory, sizeof(btl_ib_rc_word_t),
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
                                   | (rdma ? IBV_ACCESS_REMOTE_READ : 0));
    if (pipe->word_mr == NULL) {
        return btl_ib_verbs_failed(verbs, "ibv_reg_mr", errno);
    }
    if (ring > 0) {
        btl_ib_rc_eager_make(pipe, pipe->memory + BTL_IB_RC_LINE);
    }
    return store->count == 0 ? 0
                             : btl_ib_rc_store_make(store, pipe->memory + before, pipe->mr->lkey);
}

/* ---- slots: completions name a pipe by slot and life, because they may come late ---- */

static int grow_slots(btl_ib_rc_t *rc)
{
    const uint32_t slots = rc->slots == 0 ? FIRST_SLOTS : 2 * rc->slots;
    btl_ib_rc_slot_t *slot = slots > SLOTS_MAX ? NULL : realloc(rc->slot, slots * sizeof(*slot));

    if (slot == NULL) {
        return -ENOMEM;
    }
    rc->slot = slot;
    for (uint32_t i = slots; i-- > rc->slots;) {
        slot[i] = (btl_ib_rc_slot_t){.next_free = rc->free_slot};
        rc->free_slot = i + 1;
    }
    rc->slots = slots;
    return 0;
}

static void free_slot(btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_t *rc = pipe->rc;
    btl_ib_rc_slot_t *slot = &rc->slot[pipe->slot];

    slot->pipe = NULL;
    slot->life = (slot->life + 1) % BTL_IB_RC_SHARED_LIFE;
    slot->next_free = rc->free_slot;
    rc->free_slot = pipe->slot + 1;
}

/* ---- pipes by the number of their queue pair: completions of shared buffers name nothing else ---- */

static btl_ib_rc_pipe_t **qp_bucket(btl_ib_rc_t *rc, uint32_t number)
{
    return &rc->qp_bucket[number % BTL_IB_RC_QP_BUCKETS];
}

static void enter_bucket(btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_pipe_t **first = qp_bucket(pipe->rc, pipe->qp->qp_num);

    pipe->number = pipe->qp->qp_num;
    pipe->next_qp = *first;
    *first = pipe;
}

static void leave_bucket(btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_pipe_t **at = qp_bucket(pipe->rc, pipe->number);

    while (*at != pipe) {
        at = &(*at)->next_qp;
    }
    *at = pipe->next_qp;
}

btl_ib_rc_pipe_t *btl_ib_rc_pipe_of_shared(btl_ib_rc_t *rc, const struct ibv_wc *wc)
{
    btl_ib_rc_pipe_t *pipe = *qp_bucket(rc, wc->qp_num);

    while (pipe != NULL && pipe->number != wc->qp_num) {
        pipe = pipe->next_qp;
    }
    return pipe;
}

/* ---- life of a pipe ---- */

static void free_pipe(btl_ib_rc_pipe_t *pipe)
{
    if (pipe->memory != NULL) {
        (void) munmap(pipe->memory, pipe->memory_size);
    }
    if (pipe->rdma != NULL) {
        free(pipe->rdma->op);
        free(pipe->rdma);
    }
    btl_ib_rc_eager_free(pipe);
    free(pipe->store.buffer);
    free(pipe->ring);
    free(pipe);
}

static bool make_rdma(btl_ib_rc_pipe_t *pipe, uint32_t depth)
{
    pipe->rdma = calloc(1, sizeof(*pipe->rdma));
    if (pipe->rdma == NULL) {
        return false;
    }
    pipe->rdma->op = calloc(depth, sizeof(*pipe->rdma->op));
    return pipe->rdma->op != NULL;
}

btl_ib_rc_pipe_t *btl_ib_rc_pipe_new(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel)
{
    btl_ib_rc_pipe_t *pipe = calloc(1, sizeof(*pipe));

    if (pipe == NULL) {
        return NULL;
    }
    pipe->ring = calloc(rc->tx_depth, sizeof(*pipe->ring));
    if (pipe->ring == NULL || (channel == BTL_IB_RC_RDMA && !make_rdma(pipe, rc->tx_depth))
        || (rc->free_slot == 0 && grow_slots(rc) != 0)) {
        free_pipe(pipe);
        return NULL;
    }
    pipe->rc = rc;
    pipe->peer = peer;
    pipe->channel = channel;
    if (pipe->rdma != NULL) {
        pipe->rdma->cookie = peer->name.cookie;
    }
    pipe->begun_at = btl_ib_rc_now_us();
    pipe->ring_size = rc->tx_depth;
    pipe->store.pipe = pipe;
    pipe->store.channel = channel;
    pipe->slot = rc->free_slot - 1;
    rc->free_slot = rc->slot[pipe->slot].next_free;
    rc->slot[pipe->slot].pipe = pipe;
    peer->link[channel].pipe = pipe;
    peer->pipes++;
    rc->pending++;
    return pipe;
}

static int make_qp(btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_t *rc = pipe->rc;
    const bool shared = pipe->store.count == 0;
    struct ibv_qp_init_attr attr = {
        .send_cq = pipe->cq->cq,
        .recv_cq = pipe->cq->cq,
        .srq = shared ? rc->channel[pipe->channel].srq : NULL,
        .qp_type = IBV_QPT_RC,
        .cap =
            {
                .max_send_wr = pipe->ring_size,
                .max_recv_wr = shared ? 0 : pipe->store.count,
                .max_send_sge = 1,
                .max_recv_sge = shared ? 0 : 1,
                .max_inline_data = rc->verbs.base.attr.inline_size,
            },
    };

    if (rdma_create_qp(pipe->id, rc->verbs.pd, &attr) != 0) {
        return btl_ib_verbs_failed(&rc->verbs, "rdma_create_qp", errno);
    }
    pipe->qp = pipe->id->qp;
    if (shared) {
        enter_bucket(pipe);
    }
    return 0;
}

int btl_ib_rc_pipe_equip(btl_ib_rc_pipe_t *pipe)
{
    int rc = make_memory(pipe);

    if (rc == 0) {
        pipe->cq_entries = pipe->ring_size + pipe->store.count;
        pipe->cq = btl_ib_rc_cq_take(pipe->rc, pipe->cq_entries);
        rc = pipe->cq != NULL ? make_qp(pipe) : -ENOSPC;
    }
    return rc == 0 && pipe->store.count > 0 ? btl_ib_rc_post_all(pipe->rc, &pipe->store) : rc;
}

void btl_ib_rc_pipe_describe(const btl_ib_rc_pipe_t *pipe, btl_ib_rc_hello_t *hello)
{
    *hello = (btl_ib_rc_hello_t){
        .channel = pipe->channel,
        .to = pipe->peer->mirror ? pipe->rc->self.cookie : pipe->peer->name.cookie,
        .from = pipe->rc->self.cookie,
        .attempt = pipe->rc->attempts,
        .depth = pipe->store.count,
        .word = (uintptr_t) pipe->memory,
        .word_key = pipe->word_mr->rkey,
        .reads = pipe->rc->reads,
        .relaxed = pipe->rc->relaxed,
    };
    if (pipe->eager != NULL) {
        hello->eager_key = pipe->eager->mr->rkey;
        hello->eager_slots = (uint16_t) pipe->rc->eager_slots;
        hello->eager_slot = (uint16_t) pipe->rc->eager_slot;
    }
}

void btl_ib_rc_pipe_join(btl_ib_rc_pipe_t *pipe, const btl_ib_rc_hello_t *hello)
{
    pipe->peer_depth = hello->depth;
    pipe->peer_word = hello->word;
    pipe->peer_word_key = hello->word_key;
    pipe->peer_eager_key = hello->eager_key;
    pipe->peer_slots = hello->eager_slots;
    pipe->peer_slot = hello->eager_slot;
    if (pipe->rdma != NULL) {
        pipe->rdma->reads_max = hello->reads < pipe->rc->reads ? hello->reads : pipe->rc->reads;
        pipe->rdma->confirms = pipe->rc->iwarp || hello->relaxed;
    }
}

void btl_ib_rc_pipe_open(btl_ib_rc_pipe_t *pipe)
{
    struct ibv_qp_attr attr = {.min_rnr_timer = RNR_TIMER};

    if (pipe->store.count == 0 && !pipe->rc->iwarp
        && ibv_modify_qp(pipe->qp, &attr, IBV_QP_MIN_RNR_TIMER) != 0) {
        (void) btl_ib_verbs_failed(&pipe->rc->verbs, "ibv_modify_qp", errno);
    }
    pipe->stage = BTL_IB_RC_OPEN;
    pipe->opened_at = btl_ib_rc_now_us();
    pipe->rc->pending--;
}

static void leave_link(btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_eager_end(pipe);
    if (pipe->stage != BTL_IB_RC_OPEN) {
        pipe->rc->pending--;
    }
    pipe->rc->doubted -= pipe->doubt_until != 0;
    pipe->stage = BTL_IB_RC_CLOSED;
    pipe->peer->link[pipe->channel].pipe = NULL;
    pipe->peer->pipes--;
    pipe->peer = NULL;
    free_slot(pipe);
}

/* The device is done with it. */
static void release(btl_ib_rc_pipe_t *pipe)
{
    pipe->rc->draining -= pipe->draining;
    pipe->draining = false;
    if (pipe->qp != NULL) {
        rdma_destroy_qp(pipe->id);
        pipe->qp = NULL;
    }
    if (pipe->id != NULL) {
        (void) rdma_destroy_id(pipe->id);
        pipe->id = NULL;
    }
    if (pipe->cq != NULL) {
        pipe->cq->leaving += pipe->cq_entries;
        pipe->cq = NULL;
    }
    btl_ib_rc_eager_release(pipe);
    if (pipe->word_mr != NULL) {
        (void) ibv_dereg_mr(pipe->word_mr);
        pipe->word_mr = NULL;
    }
    if (pipe->mr != NULL) {
        (void) ibv_dereg_mr(pipe->mr);
        pipe->mr = NULL;
    }
    if (pipe->rdma != NULL) {
        btl_ib_rc_rdma_over(pipe, pipe->posted, EPIPE);
    } else {
        btl_ib_rc_sent(pipe, pipe->posted);
    }
}

/* A queue pair that is destroyed takes along the shared buffers that it has and whose completions were not read: all
 * peers would be short of them for good. So it is made to fail first, and stays until they have come back
 * (IBTA 10.3.1, "Last WQE Reached"). Returns whether it has to. */
static bool drain(btl_ib_rc_pipe_t *pipe)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (pipe->qp == NULL || pipe->qp->srq == NULL || pipe->rc->failed != 0
        || pipe->stage < BTL_IB_RC_ACCEPTED
        || (rdma_disconnect(pipe->id) != 0 && ibv_modify_qp(pipe->qp, &attr, IBV_QP_STATE) != 0)) {
        return false;
    }
    pipe->drain_until = btl_ib_rc_now_us() + DRAIN_US;
    pipe->rc->draining++;
    return true;
}

void btl_ib_rc_pipe_last_words(btl_ib_rc_t *rc, const struct ibv_qp *qp)
{
    for (btl_ib_rc_pipe_t *pipe = *qp_bucket(rc, qp->qp_num); pipe != NULL; pipe = pipe->next_qp) {
        pipe->last_words = pipe->last_words || pipe->qp == qp;
    }
    for (btl_ib_rc_pipe_t *pipe = rc->closed; pipe != NULL; pipe = pipe->next_closed) {
        pipe->last_words = pipe->last_words || pipe->qp == qp;
    }
}

void btl_ib_rc_pipes_drained(btl_ib_rc_t *rc, const btl_ib_rc_cq_t *cq)
{
    const uint64_t now = btl_ib_rc_now_us();

    for (btl_ib_rc_pipe_t *pipe = rc->closed, *next; pipe != NULL; pipe = next) {
        next = pipe->next_closed;
        if (pipe->draining && pipe->cq == cq && (pipe->last_words || now >= pipe->drain_until)) {
            release(pipe);
            btl_ib_rc_pipe_let_go(pipe);
        }
    }
}

void btl_ib_rc_pipe_close(btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_t *rc = pipe->rc;

    pipe->draining = drain(pipe);
    if (pipe->qp != NULL && pipe->store.count == 0) {
        leave_bucket(pipe);
    }
    leave_link(pipe);
    rc->unheard -= pipe->unheard;
    pipe->next_closed = rc->closed;
    rc->closed = pipe;
    if (!pipe->answer_due) {
        btl_ib_rc_pipe_answered(pipe);
    }
}

void btl_ib_rc_pipe_answered(btl_ib_rc_pipe_t *pipe)
{
    pipe->answer_due = false;
    if (pipe->stage == BTL_IB_RC_CLOSED && !pipe->draining) {
        release(pipe);
        btl_ib_rc_pipe_let_go(pipe);
    }
}

void btl_ib_rc_pipe_let_go(btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_pipe_t **at = &pipe->rc->closed;

    if (pipe->stage != BTL_IB_RC_CLOSED || pipe->id != NULL || pipe->held > 0 || pipe->emitting) {
        return;
    }
    while (*at != pipe) {
        at = &(*at)->next_closed;
    }
    *at = pipe->next_closed;
    free_pipe(pipe);
}

void btl_ib_rc_pipes_fail(btl_ib_rc_t *rc)
{
    for (uint32_t i = 0; i < rc->slots; i++) {
        if (rc->slot[i].pipe != NULL && rc->slot[i].pipe->rdma != NULL) {
            btl_ib_rc_pipe_close(rc->slot[i].pipe);
        }
    }
}

void btl_ib_rc_pipes_close(btl_ib_rc_t *rc)
{
    for (uint32_t i = 0; i < rc->slots; i++) {
        if (rc->slot[i].pipe != NULL) {
            btl_ib_rc_pipe_close(rc->slot[i].pipe);
        }
    }
    for (btl_ib_rc_pipe_t *pipe = rc->closed; pipe != NULL; pipe = pipe->next_closed) {
        release(pipe);
    }
}

void btl_ib_rc_pipes_free(btl_ib_rc_t *rc)
{
    while (rc->closed != NULL) {
        btl_ib_rc_pipe_t *pipe = rc->closed;
        rc->closed = pipe->next_closed;
        free_pipe(pipe);
    }
    free(rc->slot);
}
