/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Datagrams -> work requests. All of one send() that go to one queue of one peer are posted by one call.
 *
 * Not each send asks for a completion: each fourth of the ring does, so that places come free, and the last of a
 * batch while many are held by sends whose end nobody would hear of.
 */

#include "verbs_rc_rail.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum {
    SIGNALS = 4,      /* in one round of a ring, at least */
    UNHEARD_MAX = 64, /* pieces of memory that may be held because no completion was asked for */
    WORD_SOURCE =
        16, /* where in a pipe's memory the value stands that is written to the peer's word */
    EAGER_ROW =
        4, /* datagrams of a row that go by eager RDMA: it saves completions, which rows share anyway */
    RING_SHARE = 2, /* the same of the slots of a ring: there are buffers when they are used up */
    WORD_SHARE = 4, /* of a queue's buffers posted again: then the peer is told */
};

/* ---- the ring ---- */

static uint32_t in_ring(const btl_ib_rc_pipe_t *pipe)
{
    return pipe->posted - pipe->emitted;
}

static void **place(const btl_ib_rc_pipe_t *pipe, uint32_t number)
{
    return &pipe->ring[number & (pipe->ring_size - 1)];
}

/* Sends that nobody is to be told of are over at once. */
static void skip_silent(btl_ib_rc_pipe_t *pipe)
{
    while (pipe->emitted != pipe->completed && *place(pipe, pipe->emitted) == NULL) {
        pipe->emitted++;
    }
}

void btl_ib_rc_sent(btl_ib_rc_pipe_t *pipe, uint32_t completed)
{
    pipe->completed = completed;
    skip_silent(pipe);
    if (pipe->emitted != pipe->completed && !pipe->emitting) {
        pipe->emitting = true;
        pipe->next_emitting = pipe->rc->emitting;
        pipe->rc->emitting = pipe;
    }
}

static btl_ib_event_t event_of(const btl_ib_rc_pipe_t *pipe, void *context)
{
    const btl_ib_rc_op_t *op = context;

    if (pipe->rdma == NULL) {
        return (btl_ib_event_t){.type = BTL_IB_EVENT_SENT, .context = context};
    }
    return (btl_ib_event_t){.type = BTL_IB_EVENT_RDMA,
                            .error = op->error,
                            .from = BTL_IB_ADDR_UNKNOWN,
                            .context = op->context};
}

int btl_ib_rc_emit(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    int count = 0;

    while (rc->emitting != NULL && count < max) {
        btl_ib_rc_pipe_t *pipe = rc->emitting;
        if (pipe->emitted != pipe->completed) {
            events[count++] = event_of(pipe, *place(pipe, pipe->emitted));
            pipe->emitted++;
            skip_silent(pipe);
            continue;
        }
        rc->emitting = pipe->next_emitting;
        pipe->emitting = false;
        btl_ib_rc_send_word(pipe);
        btl_ib_rc_pipe_let_go(pipe);
    }
    return count;
}

/* ---- posting ---- */

/* Note a work request that was posted. */
static void note(btl_ib_rc_pipe_t *pipe, const struct ibv_send_wr *wr, void *context)
{
    *place(pipe, pipe->posted) = context;
    pipe->posted++;
    pipe->unheard += context != NULL;
    pipe->rc->unheard += context != NULL;
    pipe->unsignalled++;
    if (wr->send_flags & IBV_SEND_SIGNALED) {
        pipe->rc->unheard -= pipe->unheard;
        pipe->unheard = 0;
        pipe->unsignalled = 0;
    }
}

/* One of the transport's own. Returns 0 or an errno. */
static int post_own(btl_ib_rc_pipe_t *pipe, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;

    wr->wr_id = btl_ib_rc_pipe_id(pipe, pipe->posted & ~BTL_IB_RC_RECV);
    if (pipe->unsignalled + 1 >= pipe->ring_size / SIGNALS) {
        wr->send_flags |= IBV_SEND_SIGNALED;
    }
    int error = ibv_post_send(pipe->qp, wr, &bad);
    if (error == 0) {
        note(pipe, wr, NULL);
    }
    return error;
}

int btl_ib_rc_send_first(btl_ib_rc_pipe_t *pipe)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    int error = post_own(pipe, &wr);

    pipe->filled++;
    return -error;
}

/* Enough for the peer to be told. */
static bool has_news(const btl_ib_rc_pipe_t *pipe)
{
    const btl_ib_rc_eager_t *eager = pipe->eager;
    const uint32_t posted = pipe->reposted - pipe->told;
    const uint32_t freed = eager != NULL ? eager->freed - eager->told : 0;

    return (posted > 0 && posted >= pipe->store.count / WORD_SHARE)
           || (freed > 0 && freed >= eager->store.count / RING_SHARE)
           || (eager != NULL && eager->on != eager->told_on);
}

void btl_ib_rc_send_word(btl_ib_rc_pipe_t *pipe)
{
    if (pipe->stage != BTL_IB_RC_OPEN || pipe->rdma != NULL || !has_news(pipe)
        || in_ring(pipe) == pipe->ring_size) {
        return;
    }
    btl_ib_rc_eager_t *eager = pipe->eager;
    btl_ib_rc_word_t *source = (btl_ib_rc_word_t *) (void *) (pipe->memory + WORD_SOURCE);
    struct ibv_sge sge = {
        .addr = (uintptr_t) source, .length = sizeof(*source), .lkey = pipe->mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = pipe->rc->verbs.base.attr.inline_size >= sge.length ? IBV_SEND_INLINE : 0,
        .wr.rdma = {.remote_addr = pipe->peer_word, .rkey = pipe->peer_word_key},
    };
    *source = (btl_ib_rc_word_t){
        .reposted = htobe32(pipe->reposted),
        .eager_freed = htobe32(eager != NULL ? eager->freed : 0),
        .eager_on = htobe32(eager != NULL && eager->on),
    };
    const bool off = eager != NULL && eager->told_on && !eager->on;
    wr.send_flags |= off ? IBV_SEND_SIGNALED : 0;
    if (post_own(pipe, &wr) != 0) {
        return;
    }
    pipe->told = pipe->reposted;
    if (eager != NULL) {
        eager->off_sent = off ? pipe->posted : eager->off_sent;
        eager->told = eager->freed;
        eager->told_on = eager->on;
    }
}

/* How many datagrams a pipe can take now. */
static uint32_t room(const btl_ib_rc_pipe_t *pipe)
{
    const uint32_t used = in_ring(pipe) + BTL_IB_RC_CONTROL;
    uint32_t most = used < pipe->ring_size ? pipe->ring_size - used : 0;

    if (pipe->peer_depth > 0) {
        const uint32_t *word = &btl_ib_rc_word(pipe)->reposted;
        const uint32_t freed = be32toh(__atomic_load_n(word, __ATOMIC_RELAXED));
        const uint32_t left = pipe->peer_depth + freed - pipe->filled;
        const uint32_t buffers = left <= pipe->peer_depth ? left : 0;
        most = buffers < most ? buffers : most;
    }
    return most < BTL_IB_RC_BATCH ? most : BTL_IB_RC_BATCH;
}

static bool is_inline(const btl_ib_rc_pipe_t *pipe, const btl_ib_tx_t *tx)
{
    return tx->size <= pipe->rc->verbs.base.attr.inline_size;
}

static void fill(const btl_ib_rc_pipe_t *pipe, const btl_ib_tx_t *tx, uint32_t number,
                 struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    const struct ibv_mr *mr = tx->mem;

    *sge = (struct ibv_sge){
        .addr = (uintptr_t) tx->iov[0].iov_base,
        .length = tx->size,
        .lkey = mr != NULL ? mr->lkey : 0, /* what goes inline needs none */
    };
    wr->wr_id = btl_ib_rc_pipe_id(pipe, number & ~BTL_IB_RC_RECV);
    wr->sg_list = sge;
    wr->num_sge = 1;
    wr->opcode = IBV_WR_SEND;
    wr->send_flags = is_inline(pipe, tx) ? IBV_SEND_INLINE : 0;
}

/* Which of a row are to say that they are over. */
static void choose_signals(const btl_ib_rc_pipe_t *pipe, struct ibv_send_wr *wr, int n)
{
    uint32_t silent = pipe->unsignalled;
    uint32_t unheard = pipe->rc->unheard;

    for (int i = 0; i < n; i++) {
        unheard += (wr[i].send_flags & IBV_SEND_INLINE) == 0;
        if (++silent >= pipe->ring_size / SIGNALS || (i == n - 1 && unheard > UNHEARD_MAX)) {
            wr[i].send_flags |= IBV_SEND_SIGNALED;
            silent = 0;
        }
    }
}

/* Post a row that there is room for. Returns how many were taken; if not all, *error says why. */
static int post_row(btl_ib_rc_pipe_t *pipe, const btl_ib_tx_t *row, int n, int *error)
{
    struct ibv_send_wr *const wr = pipe->rc->wr;
    struct ibv_sge *const sge = pipe->rc->sge;
    uint64_t staged[EAGER_ROW][BTL_IB_RC_EAGER_SLOT / sizeof(uint64_t)];
    struct ibv_send_wr *bad = NULL;
    uint32_t eager = 0;

    for (int i = 0; i < n; i++) {
        fill(pipe, &row[i], pipe->posted + (uint32_t) i, &wr[i], &sge[i]);
        wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
        if (n <= EAGER_ROW && btl_ib_rc_eager_fits(pipe, row[i].size, eager)) {
            btl_ib_rc_eager_fill(pipe, &row[i], pipe->eager_filled + eager,
                                 pipe->filled + (uint32_t) i - eager, (uint8_t *) staged[i],
                                 &wr[i]);
            eager++;
        }
    }
    choose_signals(pipe, wr, n);
    *error = ibv_post_send(pipe->qp, wr, &bad);
    const int taken = *error == 0 ? n : bad != NULL ? (int) (bad - wr) : 0;
    for (int i = 0; i < taken; i++) {
        note(pipe, &wr[i], is_inline(pipe, &row[i]) ? NULL : row[i].context);
        pipe->filled += wr[i].opcode == IBV_WR_SEND;
        pipe->eager_filled += wr[i].opcode != IBV_WR_SEND;
    }
    if (*error == ENOMEM) { /* the queue is full */
        *error = EAGAIN;
    }
    return taken;
}

/* How many at the beginning of a batch go the same way. */
static int same_way(const btl_ib_tx_t *batch, int n)
{
    int count = 1;

    while (count < n && batch[count].to == batch[0].to
           && batch[count].channel == batch[0].channel) {
        count++;
    }
    return count;
}

/* Send what goes one way. Returns how many were taken; *error if not all. */
static int send_row(btl_ib_rc_t *rc, const btl_ib_tx_t *row, int n, int *error)
{
    btl_ib_rc_pipe_t *pipe = btl_ib_rc_cm_pipe(rc, rc->peers.peer[row->to], row->channel, error);

    if (pipe == NULL) {
        return 0;
    }
    const int fits = (int) room(pipe);
    const int wanted = fits < n ? fits : n;
    *error = EAGAIN;
    if (wanted == 0) {
        return 0;
    }
    const int taken = post_row(pipe, row, wanted, error);
    if (taken < wanted && *error != EAGAIN) {
        btl_ib_rc_cm_broke(pipe, strerror(*error));
        *error = EAGAIN;
    } else if (taken == wanted) {
        *error = EAGAIN; /* for the rest, if there is one */
    }
    return taken;
}

int btl_ib_rc_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    int done = 0;

    if (rc->failed != 0 || rc->down) {
        *error = ENETDOWN;
        return 0;
    }
    while (done < n) {
        const int row = same_way(batch + done, n - done);
        const int taken = send_row(rc, batch + done, row, error);
        done += taken;
        if (taken < row) {
            break;
        }
    }
    return done;
}
