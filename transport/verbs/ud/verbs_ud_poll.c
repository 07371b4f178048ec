/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Completions -> events, and buffers back to the device. The device puts 40 bytes before each datagram (the GRH,
 * whether it had one or not); buffers begin so that what follows is aligned. Buffers that come back wait until
 * there are some of one queue: they are linked and posted by one call.
 */

#include "verbs_ud_rail.h"

#include <errno.h>
#include <string.h>

/* ---- buffers back to the device ---- */

int btl_ib_ud_post_idle(btl_ib_ud_queue_t *queue)
{
    struct ibv_recv_wr *bad = NULL;

    if (queue->idle_count == 0) {
        return 0;
    }
    *queue->idle_last = NULL;
    const int rc = ibv_post_recv(queue->qp, queue->idle, &bad);
    if (rc == 0) {
        queue->posted_buffers += queue->idle_count;
        queue->idle = NULL;
        queue->idle_last = &queue->idle;
        queue->idle_count = 0;
        return 0;
    }
    while (bad != NULL && queue->idle != bad) {
        queue->idle = queue->idle->next;
        queue->idle_count--;
        queue->posted_buffers++;
    }
    return rc;
}

void btl_ib_ud_give_back(btl_ib_ud_buffer_t *buffer)
{
    btl_ib_ud_queue_t *queue = buffer->queue;

    *queue->idle_last = &buffer->wr;
    queue->idle_last = &buffer->wr.next;
    queue->idle_count++;
}

/* Those of the queues that have enough to post. What a device does not take now it takes with the next. */
static void post_back(btl_ib_ud_t *ud)
{
    for (uint32_t i = 0; i < ud->queue_count && !ud->dead; i++) {
        btl_ib_ud_queue_t *queue = &ud->queue[i];
        if (queue->idle_count >= queue->lazy && !queue->flushed) {
            const int rc = btl_ib_ud_post_idle(queue);
            if (rc != 0 && rc != ENOMEM) {
                btl_ib_ud_fail(ud, "receive buffers cannot be posted", rc);
            }
        }
    }
}

void btl_ib_ud_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        btl_ib_ud_give_back(buffers[i]);
    }
    post_back(btl_ib_ud_of(t));
}

/* ---- what arrived ---- */

void btl_ib_ud_fail(btl_ib_ud_t *ud, const char *what, int error)
{
    if (!ud->dead) {
        ud->dead = true;
        ud->failed = error != 0 ? error : EIO;
        BTL_IB_VERBS_LOG(&ud->verbs, 1, "%s: %s: %s", ud->verbs.base.name, what,
                         strerror(ud->failed));
    }
}

static void drop(btl_ib_ud_t *ud, btl_ib_ud_buffer_t *buffer, const char *why)
{
    ud->rx_dropped++;
    BTL_IB_VERBS_LOG(&ud->verbs, 10, "%s: datagram dropped: %s (%llu so far)", ud->verbs.base.name,
                     why, (unsigned long long) ud->rx_dropped);
    btl_ib_ud_give_back(buffer);
}

/* Turn a completion of a receive into an event. Returns how many that makes. */
static int arrived(btl_ib_ud_t *ud, const struct ibv_wc *wc, btl_ib_event_t *event)
{
    btl_ib_ud_buffer_t *buffer = (btl_ib_ud_buffer_t *) (uintptr_t) wc->wr_id;

    buffer->queue->posted_buffers--;
    if (wc->status == IBV_WC_WR_FLUSH_ERR) {
        btl_ib_ud_give_back(buffer);
        buffer->queue->broken = true;
        buffer->queue->flushed = true;
        ud->unasked = BTL_IB_UD_ASK; /* the device may know more */
        return 0;
    }
    if (wc->status != IBV_WC_SUCCESS) {
        drop(ud, buffer, ibv_wc_status_str(wc->status));
        return 0;
    }
    if (wc->byte_len <= BTL_IB_VERBS_GRH) {
        drop(ud, buffer, "nothing in it");
        return 0;
    }
    *event = (btl_ib_event_t){
        .type = BTL_IB_EVENT_RECV,
        .size = wc->byte_len - BTL_IB_VERBS_GRH,
        .from = btl_ib_ud_source(ud, wc, buffer->data),
        .data = buffer->data,
        .buffer = buffer,
    };
    return 1;
}

bool btl_ib_ud_look(btl_ib_ud_t *ud)
{
    if (ud->wc_count > 0) {
        return true;
    }
    const int n = ibv_poll_cq(ud->cq, BTL_IB_UD_POLL, ud->wc);
    if (n < 0) {
        btl_ib_ud_fail(ud, "ibv_poll_cq", EIO);
    }
    ud->wc_first = 0;
    ud->wc_count = n > 0 ? (uint32_t) n : 0;
    return ud->wc_count > 0;
}

void btl_ib_ud_ask_device(btl_ib_ud_t *ud)
{
    ud->unasked = 0;
    if (ud->dead) {
        return;
    }
    const int error = btl_ib_verbs_async(&ud->verbs);
    const bool for_good = error == ENODEV || error == EIO;
    if (for_good || (error != 0 && error != ENETDOWN && !ud->down)) {
        btl_ib_ud_fail(ud, "the device failed", error);
    } else if (error != 0) {
        ud->down = true;
    } else if (ud->down) {
        ud->down = !btl_ib_verbs_is_back(&ud->verbs);
    }
}

/* Queues that began small and ran low get more buffers: twice as many. */
static void grow_low(btl_ib_ud_t *ud)
{
    for (uint32_t i = 0; i < ud->queue_count && !ud->dead; i++) {
        btl_ib_ud_queue_t *queue = &ud->queue[i];
        if (queue->posted_buffers < queue->low && !queue->flushed) {
            btl_ib_ud_queue_grow(ud, queue, queue->made);
        }
    }
}

/* Returns how many events there are. */
static int take_completions(btl_ib_ud_t *ud, btl_ib_event_t *events, int max)
{
    int n = 0;

    while (n < max && ud->wc_count > 0) {
        const struct ibv_wc *wc = &ud->wc[ud->wc_first++];
        ud->wc_count--;
        if (btl_ib_ud_is_send(wc)) {
            btl_ib_ud_send_completed(ud, wc);
        } else {
            n += arrived(ud, wc, &events[n]);
        }
    }
    return n;
}

int btl_ib_ud_poll(btl_ib_transport_t *t, btl_ib_event_t *events, int max)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);
    int n = 0;

    if (++ud->unasked >= BTL_IB_UD_ASK) {
        btl_ib_ud_ask_device(ud);
    }
    if (btl_ib_ud_look(ud)) {
        if (ud->armed) {
            btl_ib_ud_wake_heard(ud);
        }
        n = take_completions(ud, events, max);
        post_back(ud); /* of what was dropped */
        grow_low(ud);
        if (ud->peers.leaving != 0) {
            btl_ib_ud_peers_clean(ud);
        }
    }
    n += btl_ib_ud_sent(ud, events + n, max - n);
    if (ud->down != ud->told_down && n < max) {
        ud->told_down = ud->down;
        events[n++] = (btl_ib_event_t){.type = ud->down ? BTL_IB_EVENT_DOWN : BTL_IB_EVENT_UP,
                                       .from = BTL_IB_ADDR_UNKNOWN,
                                       .error = ud->down ? ENETDOWN : 0};
    }
    if (ud->failed != 0 && n < max) {
        events[n++] = (btl_ib_event_t){
            .type = BTL_IB_EVENT_FAILED, .from = BTL_IB_ADDR_UNKNOWN, .error = ud->failed};
        ud->failed = 0;
    }
    return n;
}
