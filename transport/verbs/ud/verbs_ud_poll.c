/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The device puts 40 bytes (a GRH, or nothing) before each datagram. */

#include "verbs_ud_poll.h"

#include <errno.h>

#include "verbs_ud_port.h"
#include "verbs_ud_rail.h"

static void fail(btl_ib_ud_t *ud, const char *what, int error)
{
    btl_ib_ud_port_fail(&ud->port, &ud->state, what, error);
}

static void post_idle(btl_ib_ud_t *ud)
{
    const int error = btl_ib_ud_qps_post_idle(&ud->qps);

    if (error != 0) {
        fail(ud, "receive buffers cannot be posted", error);
    }
    ud->port.verbs.base.overflows = ud->qps.emptied;
}

void btl_ib_ud_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        btl_ib_verbs_rx_pool_put(buffers[i]);
    }
    post_idle(btl_ib_ud_of(t));
}

static void drop(btl_ib_ud_t *ud, btl_ib_verbs_rx_buffer_t *buffer, const char *why)
{
    ud->polling.rx_dropped++;
    BTL_IB_VERBS_LOG(&ud->port.verbs, 10, "%s: datagram dropped: %s (%llu so far)",
                     ud->port.verbs.base.name, why, (unsigned long long) ud->polling.rx_dropped);
    btl_ib_verbs_rx_pool_put(buffer);
}

/* The next poll reads the events of the device: it may know more about a failure. */
static void read_events_soon(btl_ib_ud_t *ud)
{
    ud->polling.polls = BTL_IB_UD_EVENTS_EVERY;
}

static void read_events(btl_ib_ud_t *ud)
{
    ud->polling.polls = 0;
    if (btl_ib_ud_port_events(&ud->port, &ud->state) && btl_ib_ud_peers_renew(&ud->peers)) {
        btl_ib_verbs_state_up(&ud->state);
    }
}

/* A receive completed. Returns how many events that makes. */
static int received(btl_ib_ud_t *ud, const struct ibv_wc *wc, btl_ib_event_t *event)
{
    btl_ib_verbs_rx_buffer_t *buffer = (btl_ib_verbs_rx_buffer_t *) (uintptr_t) wc->wr_id;

    btl_ib_verbs_rx_pool_taken(buffer->pool);
    if (wc->status == IBV_WC_WR_FLUSH_ERR) {
        btl_ib_ud_qp_flushed(buffer);
        read_events_soon(ud);
        return 0;
    }
    if (wc->status != IBV_WC_SUCCESS || wc->byte_len <= BTL_IB_VERBS_GRH) {
        drop(ud, buffer,
             wc->status != IBV_WC_SUCCESS ? ibv_wc_status_str(wc->status) : "nothing in it");
        return 0;
    }
    uint8_t *payload = btl_ib_verbs_rx_data(buffer) + BTL_IB_VERBS_GRH;
    *event = (btl_ib_event_t){
        .type = BTL_IB_EVENT_RECV,
        .size = wc->byte_len - BTL_IB_VERBS_GRH,
        .from = btl_ib_ud_peers_source(&ud->peers, wc, payload),
        .data = payload,
        .buffer = buffer,
    };
    return 1;
}

/* Are completions at hand? They are kept for the next poll. */
static bool has_completions(btl_ib_ud_t *ud)
{
    btl_ib_ud_polling_t *polling = &ud->polling;

    if (polling->wc_count > 0) {
        return true;
    }
    const int n = ibv_poll_cq(ud->qps.cq, BTL_IB_UD_POLL, polling->wc);
    if (n < 0) {
        fail(ud, "ibv_poll_cq", EIO);
    }
    polling->wc_first = 0;
    polling->wc_count = n > 0 ? (uint32_t) n : 0;
    return polling->wc_count > 0;
}

/* Returns how many events there are. */
static int take_completions(btl_ib_ud_t *ud, btl_ib_event_t *events, int max)
{
    btl_ib_ud_polling_t *polling = &ud->polling;
    int n = 0;

    while (n < max && polling->wc_count > 0) {
        const struct ibv_wc *wc = &polling->wc[polling->wc_first++];
        polling->wc_count--;
        if (!btl_ib_ud_is_send(wc)) {
            n += received(ud, wc, &events[n]);
        } else if (!btl_ib_ud_qps_sent(&ud->qps, wc)) {
            read_events_soon(ud);
        }
    }
    return n;
}

/* The descriptor does not stay readable for what was polled meanwhile. */
static void disarm(btl_ib_ud_t *ud)
{
    if (btl_ib_verbs_comp_read(&ud->comp)) {
        ud->polling.armed = false;
    }
}

int btl_ib_ud_poll(btl_ib_transport_t *t, btl_ib_event_t *events, int max)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);
    int n = 0;

    if (++ud->polling.polls >= BTL_IB_UD_EVENTS_EVERY) {
        read_events(ud);
    }
    if (has_completions(ud)) {
        if (ud->polling.armed) {
            disarm(ud);
        }
        n = take_completions(ud, events, max);
        post_idle(ud); /* of what was dropped */
        btl_ib_ud_qps_grow_low(&ud->qps);
        if (ud->peers.leaving != 0) {
            btl_ib_ud_peers_clean(&ud->peers);
        }
    }
    n += btl_ib_ud_qps_report(&ud->qps, events + n, max - n);
    const int rc = ud->state.error == 0 ? btl_ib_ud_qps_repair(&ud->qps) : 0;
    if (rc != 0) {
        fail(ud, "a queue pair that failed cannot be used again", -rc);
    }
    if (btl_ib_verbs_state_changed(&ud->state)) {
        n += btl_ib_verbs_state_report(&ud->state, events + n, max - n);
    }
    return n;
}

int btl_ib_ud_wait_fd(btl_ib_transport_t *t)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);

    disarm(ud);
    read_events(ud);
    if (!ud->polling.armed && ibv_req_notify_cq(ud->qps.cq, 0) != 0) {
        return -1;
    }
    ud->polling.armed = true;
    /* What came before the queue was armed makes no event of the channel. */
    return ud->state.error != 0 || has_completions(ud) ? -1 : ud->comp.fd;
}
