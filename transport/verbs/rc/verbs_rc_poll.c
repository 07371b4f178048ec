/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Completions -> events, and buffers back to where they came from. */

#include "verbs_rc_rail.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    SLOT_SHARED = 0, /* of a work request's id: shared buffers have no slot */
    FULL_POLLS = 64, /* that found something, between two looks at the connection manager */
};

/* ---- posting buffers ---- */

static uint32_t index_of(const btl_ib_rc_buffer_t *buffer)
{
    return (uint32_t) (buffer - buffer->store->buffer);
}

static uint64_t id_of(const btl_ib_rc_buffer_t *buffer)
{
    const btl_ib_rc_store_t *store = buffer->store;
    const uint32_t index = index_of(buffer);

    return store->pipe != NULL
               ? btl_ib_rc_pipe_id(store->pipe, BTL_IB_RC_RECV | index)
               : btl_ib_rc_id(BTL_IB_RC_SHARED_LIFE, SLOT_SHARED,
                              BTL_IB_RC_RECV | (uint32_t) store->channel << BTL_IB_RC_INDEX_BITS
                                  | index);
}

/* What posts a buffer is made once. */
static void fill(btl_ib_rc_buffer_t *buffer)
{
    const btl_ib_rc_store_t *store = buffer->store;

    buffer->sge = (struct ibv_sge){
        .addr = (uintptr_t) store->base + (uint64_t) index_of(buffer) * store->stride,
        .length = store->size,
        .lkey = store->key,
    };
    buffer->wr =
        (struct ibv_recv_wr){.wr_id = id_of(buffer), .sg_list = &buffer->sge, .num_sge = 1};
}

static void lay_by(btl_ib_rc_buffer_t *buffer)
{
    btl_ib_rc_store_t *store = buffer->store;

    buffer->wr.next = store->idle;
    store->idle = &buffer->wr;
    store->idle_count++;
}

/* All that are idle, by one call. Returns 0 or an errno. */
static int post_idle(const btl_ib_rc_t *rc, btl_ib_rc_store_t *store)
{
    struct ibv_recv_wr *bad;
    const int error = store->pipe != NULL
                          ? ibv_post_recv(store->pipe->qp, store->idle, &bad)
                          : ibv_post_srq_recv(rc->channel[store->channel].srq, store->idle, &bad);

    store->idle = NULL;
    store->idle_count = 0;
    return error;
}

int btl_ib_rc_post_all(btl_ib_rc_t *rc, btl_ib_rc_store_t *store)
{
    for (uint32_t i = store->count; i-- > 0;) { /* the first is to be the first */
        fill(&store->buffer[i]);
        lay_by(&store->buffer[i]);
    }
    const int error = post_idle(rc, store);
    return error == 0 ? 0 : btl_ib_verbs_failed(&rc->verbs, "posting receive buffers", error);
}

/* What all peers share is short of them for good if that fails. */
static void repost_shared(btl_ib_rc_t *rc, btl_ib_rc_store_t *store)
{
    const int error = rc->stopped ? 0 : post_idle(rc, store);

    if (error != 0) {
        (void) btl_ib_verbs_failed(&rc->verbs, "ibv_post_srq_recv", error);
        rc->failed = error;
    }
}

/* A peer's own wait until there are some: whoever answers the message in one does so before it is posted. */
static void repost_own(btl_ib_rc_pipe_t *pipe)
{
    const uint32_t count = pipe->store.idle_count;

    if (count < pipe->store.lazy) {
        return;
    }
    if (post_idle(pipe->rc, &pipe->store) != 0) {
        btl_ib_rc_cm_broke(pipe, "a receive buffer cannot be posted");
        return;
    }
    pipe->reposted += count;
    btl_ib_rc_send_word(pipe);
}

/* Give back buffers of one store. */
static void repost_row(btl_ib_rc_t *rc, void *const *buffers, int n)
{
    btl_ib_rc_store_t *store = ((btl_ib_rc_buffer_t *) buffers[0])->store;
    btl_ib_rc_pipe_t *pipe = store->pipe;

    if (pipe != NULL) {
        pipe->held -= (uint32_t) n;
        if (pipe->stage == BTL_IB_RC_CLOSED) {
            btl_ib_rc_pipe_let_go(pipe);
            return;
        }
        if (pipe->eager != NULL && store == &pipe->eager->store) {
            btl_ib_rc_eager_repost(pipe, buffers, n);
            return;
        }
    }
    for (int i = 0; i < n; i++) {
        lay_by(buffers[i]);
    }
    if (pipe != NULL) {
        repost_own(pipe);
    } else {
        repost_shared(rc, store);
    }
}

void btl_ib_rc_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    for (int first = 0, next; first < n; first = next) {
        const btl_ib_rc_store_t *store = ((btl_ib_rc_buffer_t *) buffers[first])->store;
        next = first + 1;
        while (next < n && next - first < BTL_IB_RC_BATCH
               && ((btl_ib_rc_buffer_t *) buffers[next])->store == store) {
            next++;
        }
        repost_row(btl_ib_rc_of(t), buffers + first, next - first);
    }
}

/* ---- completions ---- */

static btl_ib_rc_buffer_t *buffer_of(btl_ib_rc_t *rc, btl_ib_rc_pipe_t *pipe, uint64_t id)
{
    const uint32_t number = (uint32_t) id & ~BTL_IB_RC_RECV;
    const uint32_t channel = number >> BTL_IB_RC_INDEX_BITS;

    if (id >> 52 != BTL_IB_RC_SHARED_LIFE) {
        return &pipe->store.buffer[number];
    }
    return &rc->channel[channel].store.buffer[number & ((1u << BTL_IB_RC_INDEX_BITS) - 1)];
}

static bool is_shared(const struct ibv_wc *wc)
{
    return wc->wr_id >> 52 == BTL_IB_RC_SHARED_LIFE;
}

/* A shared buffer that nobody gets. */
static void put_back(btl_ib_rc_t *rc, const struct ibv_wc *wc)
{
    void *buffer = buffer_of(rc, NULL, wc->wr_id);

    repost_row(rc, &buffer, 1);
}

/* A message came. Returns whether it makes an event. */
static bool received(btl_ib_rc_pipe_t *pipe, const struct ibv_wc *wc, btl_ib_event_t *event)
{
    btl_ib_rc_t *rc = pipe->rc;
    btl_ib_rc_buffer_t *buffer = buffer_of(rc, pipe, wc->wr_id);
    const btl_ib_rc_store_t *store = buffer->store;

    if (pipe->stage == BTL_IB_RC_ACCEPTED) {
        btl_ib_rc_cm_heard(pipe);
    }
    if (store->pipe != NULL) {
        pipe->held++;
    }
    pipe->heard++;
    if (wc->byte_len == 0) { /* the one that opens the pipe */
        void *empty = buffer;
        repost_row(rc, &empty, 1);
        return false;
    }
    if (pipe->eager != NULL) {
        btl_ib_rc_eager_heard(pipe);
    }
    *event = (btl_ib_event_t){
        .type = BTL_IB_EVENT_RECV,
        .size = wc->byte_len,
        .from = btl_ib_rc_peer_handle(pipe->peer),
        .data = store->base + (size_t) index_of(buffer) * store->stride,
        .buffer = buffer,
    };
    return true;
}

/* The number in the ring that an id is about. Of that in the id the uppermost bit is gone; less than a ring is on its way. */
static uint32_t number_of(const btl_ib_rc_pipe_t *pipe, const struct ibv_wc *wc)
{
    return pipe->completed + (((uint32_t) wc->wr_id - pipe->completed) & (BTL_IB_RC_RECV - 1));
}

/* What was posted up to this one is over. */
static void posted_is_over(btl_ib_rc_pipe_t *pipe, const struct ibv_wc *wc)
{
    const uint32_t completed = number_of(pipe, wc) + 1;

    if (pipe->rdma != NULL) {
        btl_ib_rc_rdma_over(pipe, completed, 0);
        btl_ib_rc_rdma_confirm(pipe);
    } else {
        btl_ib_rc_sent(pipe, completed);
        btl_ib_rc_send_word(pipe);
    }
}

/* Something of a pipe failed; then all that follows does. */
static void ended(btl_ib_rc_pipe_t *pipe, enum ibv_wc_status status)
{
    if (status == IBV_WC_LOC_QP_OP_ERR || pipe->doubt_until != 0) {
        btl_ib_rc_cm_doubt(pipe);
    } else {
        btl_ib_rc_cm_broke(pipe, ibv_wc_status_str(status));
    }
}

/* Returns whether it makes an event. */
static bool complete(btl_ib_rc_t *rc, const struct ibv_wc *wc, btl_ib_event_t *event)
{
    btl_ib_rc_pipe_t *pipe = btl_ib_rc_pipe_of(rc, wc);
    const bool recv = (wc->wr_id & BTL_IB_RC_RECV) != 0;

    if (pipe == NULL || wc->status != IBV_WC_SUCCESS) {
        if (recv && is_shared(wc)) {
            put_back(rc, wc);
        }
        /* While it is being connected the connection manager has the word, and knows more. */
        if (pipe != NULL && pipe->stage >= BTL_IB_RC_ACCEPTED) {
            if (pipe->rdma != NULL && !recv) {
                btl_ib_rc_rdma_failed(pipe, number_of(pipe, wc), wc->status);
            }
            ended(pipe, wc->status);
        }
        return false;
    }
    if (recv) {
        return received(pipe, wc, event);
    }
    posted_is_over(pipe, wc);
    return false;
}

/* Datagrams in the ring of the same pipe that were sent before. Returns how many; if there is no room for what completed
 * after them, *full is set. */
static int come_before(btl_ib_rc_t *rc, const struct ibv_wc *wc, btl_ib_event_t *events, int max,
                       bool *full)
{
    btl_ib_rc_pipe_t *pipe = btl_ib_rc_pipe_of(rc, wc);
    int count = 0;

    if (pipe != NULL && pipe->eager != NULL && (wc->wr_id & BTL_IB_RC_RECV) != 0) {
        count = btl_ib_rc_eager_take(pipe, events, max);
    }
    *full = count == max;
    return count;
}

/* Turn completions into at most `max` events, of which there is at least one. Returns how many; *done says how many
 * completions that took: all, but where rings of peers have something to say before them. */
static int complete_all(btl_ib_rc_t *rc, const struct ibv_wc *wc, int n, btl_ib_event_t *events,
                        int max, int *done)
{
    bool full = false;
    int count = 0;

    for (*done = 0; *done < n && !full; *done += !full) {
        count += come_before(rc, &wc[*done], events + count, max - count, &full);
        count += full ? 0 : complete(rc, &wc[*done], &events[count]);
    }
    return count;
}

/* Found by wait_fd(), when nobody polled; or left over. What the queues have is newer: none of
 * them is read before all of this was taken. If some of it stays `max` events are there. */
static int take_early(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    const struct ibv_wc *first = &rc->early[rc->early_first];
    uint64_t value;
    int done;

    if (rc->early_count == 0) {
        return 0;
    }
    const int count = complete_all(rc, first, (int) rc->early_count, events, max, &done);
    rc->early_first += (uint32_t) done;
    rc->early_count -= (uint32_t) done;
    if (rc->early_count == 0) {
        (void) !read(rc->stirred, &value, sizeof(value));
    }
    return count;
}

/* All that one queue has, up to `max` events. */
static int drain(btl_ib_rc_t *rc, btl_ib_rc_cq_t *cq, btl_ib_event_t *events, int max)
{
    struct ibv_wc wc[BTL_IB_RC_BATCH];
    int count = 0;

    while (count < max) {
        const int wanted = max - count < BTL_IB_RC_BATCH ? max - count : BTL_IB_RC_BATCH;
        const int n = ibv_poll_cq(cq->cq, wanted, wc);
        if (n < 0) {
            (void) btl_ib_verbs_failed(&rc->verbs, "ibv_poll_cq", EIO);
            rc->failed = EIO;
            break;
        }
        int done;
        count += complete_all(rc, wc, n, events + count, max - count, &done);
        if (done < n) { /* then max events are there */
            assert(rc->early_count == 0);
            rc->early_first = 0;
            rc->early_count = (uint32_t) (n - done);
            memcpy(rc->early, wc + done, (size_t) (n - done) * sizeof(*wc));
            break;
        }
        if (n < wanted) {
            cq->room += cq->leaving;
            cq->leaving = 0;
            if (rc->draining > 0) {
                btl_ib_rc_pipes_drained(rc, cq);
            }
            break;
        }
    }
    return count;
}

static int tell_failed(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    if (rc->failed == 0 || rc->told_failed || max == 0) {
        return 0;
    }
    rc->told_failed = true;
    *events = (btl_ib_event_t){
        .type = BTL_IB_EVENT_FAILED, .error = rc->failed, .from = BTL_IB_ADDR_UNKNOWN};
    return 1;
}

/* Of a device that failed nobody wants to hear more. */
static int tell_state(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    if (rc->down == rc->told_down || rc->failed != 0 || max == 0) {
        return tell_failed(rc, events, max);
    }
    rc->told_down = rc->down;
    *events = (btl_ib_event_t){.type = rc->down ? BTL_IB_EVENT_DOWN : BTL_IB_EVENT_UP,
                               .error = rc->down ? ENETDOWN : 0,
                               .from = BTL_IB_ADDR_UNKNOWN};
    return 1;
}

int btl_ib_rc_poll(btl_ib_transport_t *t, btl_ib_event_t *events, int max)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    /* While the port is down nothing is looked at: connections that ended could not be taken leave of. */
    int count = rc->down ? 0 : take_early(rc, events, max);

    for (uint32_t i = 0; i < rc->cqs && count < max && !rc->down; i++) {
        count += drain(rc, &rc->cq[i], events + count, max - count);
    }
    if (rc->eager_count + rc->eager_fading > 0 && !rc->down) {
        count += btl_ib_rc_eager_poll(rc, events + count, max - count);
    }
    /* What arrived before a connection ended goes up before that, unless there is always more; and whoever waits for it
     * is not kept waiting. */
    if (count == 0 || ++rc->full_polls >= FULL_POLLS) {
        rc->full_polls = 0;
        count +=
            btl_ib_rc_cm_progress(rc) ? btl_ib_rc_eager_late(rc, events + count, max - count) : 0;
    }
    if (rc->failed != 0 && !rc->told_failed) { /* nobody polls after that */
        btl_ib_rc_pipes_fail(rc);
    }
    if (rc->emitting != NULL) {
        count += btl_ib_rc_emit(rc, events + count, max - count);
    }
    if (rc->peers.news != NULL) {
        count += btl_ib_rc_peers_emit(&rc->peers, events + count, max - count);
    }
    return count + tell_state(rc, events + count, max - count);
}

/* ---- sleeping ---- */

int btl_ib_rc_wait_open(btl_ib_rc_t *rc)
{
    rc->stirred = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (rc->stirred < 0) {
        return btl_ib_verbs_failed(&rc->verbs, "eventfd", errno);
    }
    const int fds[] = {rc->stirred, rc->bell->fd, rc->events->fd};
    rc->set = btl_ib_verbs_watch(&rc->verbs, fds, 3);
    return rc->set < 0 ? rc->set : 0;
}

void btl_ib_rc_wait_close(btl_ib_rc_t *rc)
{
    if (rc->stirred >= 0) {
        (void) close(rc->stirred);
    }
    if (rc->set >= 0) {
        (void) close(rc->set);
    }
}

/* Take in what the bell rang for, so that it can ring again. */
static void silence_bell(btl_ib_rc_t *rc)
{
    struct ibv_cq *cq;
    void *context;

    while (ibv_get_cq_event(rc->bell, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
    }
}

int btl_ib_rc_wait_fd(btl_ib_transport_t *t)
{
    btl_ib_rc_t *rc = btl_ib_rc_of(t);
    const uint64_t one = 1;

    if (rc->down) { /* what is there stays there */
        return -1;
    }
    if (!btl_ib_rc_eager_quiet(rc)) { /* a ring rings no bell */
        return -1;
    }
    silence_bell(rc);
    for (uint32_t i = 0; i < rc->cqs; i++) {
        if (ibv_req_notify_cq(rc->cq[i].cq, 0) != 0) {
            return -1;
        }
    }
    /* What came before that rings no bell. */
    for (uint32_t i = 0; i < rc->cqs && rc->early_count == 0; i++) {
        const int n = ibv_poll_cq(rc->cq[i].cq, BTL_IB_RC_BATCH, rc->early);
        rc->early_first = 0;
        rc->early_count = n > 0 ? (uint32_t) n : 0;
    }
    if (rc->early_count > 0) {
        (void) !write(rc->stirred, &one, sizeof(one));
    }
    return rc->set;
}
