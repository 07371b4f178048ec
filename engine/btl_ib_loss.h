/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Loss: which segments are lost (RACK), and when a probe asks (PTO). btl_ib_probe.c asks. */

#ifndef BTL_IB_LOSS_H
#define BTL_IB_LOSS_H

#include "btl_ib_clock.h"
#include "btl_ib_engine.h"
#include "btl_ib_pool.h"
#include "btl_ib_rack.h"
#include "btl_ib_retry_budget.h"
#include "btl_ib_rtt.h"
#include "btl_ib_validation.h"

/* What arrived is noted of all segments, and of bulk apart, as others may overtake that. */
enum {
    BTL_IB_RACK_ALL,
    BTL_IB_RACK_BULK,
    BTL_IB_RACKS,
};

/* Loss recovery: round trip times, losses, probes, silence. */
typedef struct btl_ib_loss {
    btl_ib_timer_t timer;
    btl_ib_rtt_t rtt;
    btl_ib_pauses_t pauses;
    btl_ib_rack_t rack[BTL_IB_RACKS];
    uint64_t probe_base;    /* us: when something that asks for an answer was last sent */
    uint64_t blocked_since; /* awake: stopped by credit or window with nothing in flight */
    uint64_t heard_at;      /* awake: the last valid datagram of the peer */
    uint64_t refused_at;    /* us: the last refusal (ICMP, ECONNREFUSED) */
    uint64_t refused_since; /* us: first refusal of this series; 0: none since the peer was heard */
    uint64_t no_tag_at; /* awake: a tag has no receiver at the peer; 0: none since the last ACK */
    uint64_t silent_since;      /* awake: the first probe of those that are unanswered */
    uint64_t asked_at;          /* us: the same */
    uint64_t sample_at;         /* us: when the last RTT sample was taken */
    uint32_t sample_echo;       /* the echoed stamp that gave it */
    uint32_t sample;            /* us: RTT sample of the datagram being processed; 0: none */
    uint32_t sample_hosts;      /* us: part of it that may be waiting at a host that did not poll */
    uint32_t sample_pauses;     /* us: the same, of hosts that did not poll for long */
    uint32_t probes;            /* since the last progress */
    uint32_t unanswered_probes; /* of them, the last ones that nothing answered */
    uint32_t probed;            /* segments sent as probes in this series of probes or the last */
    uint32_t reo_wnd_mult;      /* the reordering window, in quarters of the shortest RTT */
    uint32_t reo_wnd_persist;   /* losses found since reordering was seen last */
    uint64_t reorder_at;        /* us: when the reordering window last grew */
    uint32_t least;             /* us: the shortest time after which a probe is ever due */
    bool acked_by_header;       /* the peer may have received more than it has reported */
    bool half_probed;           /* the next probe continues what the last one began */
    bool disconnected;          /* the transport's connection ended; the peer was not heard since */
    bool path_response;    /* the peer sent one: it keeps our first datagrams, and handles them once
                         * it can accept us */
    btl_ib_list_t in_line; /* of engine->retries.waiting */
} btl_ib_loss_t;

/* ---- a connection, its route and its peer begin and end ---- */

/* Makes the next probe the first of a series (RFC 9002: pto_count = 0): something new was learned
 * of what was sent, or a new incarnation begins. */
static inline void btl_ib_loss_restart_pto(btl_ib_loss_t *loss)
{
    loss->probes = 0;
    loss->unanswered_probes = 0;
    loss->half_probed = false;
}

/* Ends an incarnation of the connection: nothing is in flight, nor stopped. */
static inline void btl_ib_loss_end(btl_ib_loss_t *loss)
{
    loss->blocked_since = 0;
    loss->probed = 0;
    loss->path_response = false;
    btl_ib_list_remove(&loss->in_line);
    btl_ib_loss_restart_pto(loss);
}

/* Forgets the route, of which nothing is known: neither its length nor whether it reorders. */
static inline void btl_ib_loss_begin_route(btl_ib_loss_t *loss)
{
    loss->reo_wnd_mult = 0;
    loss->reo_wnd_persist = 0;
    loss->reorder_at = 0;
}

/* Forgets the round-trip times of the old route: they say nothing of the new one. */
static inline void btl_ib_loss_moved(btl_ib_loss_t *loss, uint64_t now)
{
    loss->rtt = (btl_ib_rtt_t){0};
    loss->path_response = false;
    loss->probe_base = now;
    btl_ib_loss_restart_pto(loss);
}

/* Forgets what the peer said, as its incarnation ended. */
static inline void btl_ib_loss_end_peer(btl_ib_loss_t *loss)
{
    loss->no_tag_at = 0;
    loss->refused_since = 0;
    loss->disconnected = false;
}

/* ---- what was sent ---- */

/* Notes new segments, the first of which is `first`, that are about to enter the sent map. If
 * nothing but SKIPs waited for an acknowledgement the next probe is the first of a series. */
void btl_ib_loss_sending(btl_ib_conn_t *conn, const btl_ib_segment_t *first);

/* Times the next probe from now on, as segments have left again. */
static inline void btl_ib_loss_retransmitted(btl_ib_loss_t *loss, uint64_t now)
{
    loss->probe_base = now;
}

/* Notes that new segments have left. */
static inline void btl_ib_loss_sent(btl_ib_loss_t *loss, uint64_t now)
{
    btl_ib_loss_retransmitted(loss, now);
    loss->blocked_since = 0;
}

/* Notes that segments are stopped by credit, window or validation, with nothing in flight whose
 * acknowledgement would change that: probes ask, the first one timed from `base` (us) on. */
static inline void btl_ib_loss_blocked(btl_ib_loss_t *loss, uint64_t awake, uint64_t base)
{
    loss->blocked_since = awake;
    loss->probe_base = base;
}

/* Notes that what was stopped may go now, is given up, or waits for something else from now on. */
static inline void btl_ib_loss_unblocked(btl_ib_loss_t *loss)
{
    loss->blocked_since = 0;
}

/* ---- what the peer and its host say ---- */

/* Notes that the peer's host refuses our datagrams. Refusals within BTL_IB_REFUSED_GAP of each
 * other belong together. Returns true if they have lasted for BTL_IB_REFUSED_LONG with nothing
 * heard from the peer. */
static inline bool btl_ib_loss_refused(btl_ib_loss_t *loss, uint64_t now)
{
    if (loss->refused_since == 0 || now - loss->refused_at > BTL_IB_REFUSED_GAP) {
        loss->refused_since = now;
    }
    loss->refused_at = now;
    return now - loss->refused_since >= BTL_IB_REFUSED_LONG;
}

/* Forgets the refusals, as the route changed. */
static inline void btl_ib_loss_refusals_over(btl_ib_loss_t *loss)
{
    loss->refused_since = 0;
}

/* Makes the next probe a late one: the peer says that our datagrams arrive, but that it cannot
 * accept the connection now. It keeps the first of them, as far as it has room. */
static inline void btl_ib_loss_responded(btl_ib_loss_t *loss, uint64_t awake)
{
    loss->heard_at = awake;
    loss->refused_since = 0;
    loss->unanswered_probes = 0;
    if (!loss->path_response && !loss->half_probed) {
        loss->path_response = true;
        loss->probes = 0;
    }
}

/* Notes that acknowledgements were taken in. `by_header`: a header brought them, which acknowledges
 * only what is below the first gap of one channel, so more may have arrived than it says. */
static inline void btl_ib_loss_acked_by_header(btl_ib_loss_t *loss, bool by_header)
{
    loss->acked_by_header = by_header;
}

/* Notes that the peer works on our operations. If nothing else waits for an acknowledgement that is
 * progress, and the next probe is timed from now on. */
void btl_ib_loss_answered(btl_ib_conn_t *conn);

/* Prepares the timer of a new connection. */
void btl_ib_loss_init(btl_ib_conn_t *conn);

/* Notes a datagram of the connection, which shows that the peer is there. If it echoes a stamp of
 * ours that is an answer, and a round-trip sample. `flags` and the others are of its header. */
void btl_ib_loss_datagram_received(btl_ib_conn_t *conn, uint32_t flags, uint32_t stamp,
                                   uint32_t echo, uint32_t hold, uint32_t poll_gap);

/* Does the part of btl_ib_loss_update_rack() that is all of it for what is no bulk and was sent
 * once. `newest`: of its channel. */
static inline void btl_ib_loss_arrived(btl_ib_loss_t *loss, uint64_t *newest,
                                       const btl_ib_segment_t *segment, uint64_t now)
{
    if (segment->order > *newest) {
        *newest = segment->order;
    }
    btl_ib_rack_note(&loss->rack[BTL_IB_RACK_ALL], segment->order, segment->last_sent, now);
}

/* Notes that a segment was acknowledged by a datagram that echoes `echo` (if `echo_valid`). */
void btl_ib_loss_update_rack(btl_ib_conn_t *conn, const btl_ib_segment_t *segment, bool echo_valid,
                             uint32_t echo);

/* Notes that the peer has counted `duplicates` retransmissions that came twice in a channel so
 * far. */
void btl_ib_loss_duplicates(btl_ib_conn_t *conn, uint32_t channel, uint16_t duplicates);

/* Tells the congestion control that a datagram acknowledged `count` segments; `limited`: the window
 * was what held the sender back. */
void btl_ib_loss_acked(btl_ib_conn_t *conn, uint32_t count, bool limited);

/* Notes that the transport's connection ended: all segments in flight may be lost, and the peer may
 * be gone. */
void btl_ib_loss_disconnected(btl_ib_conn_t *conn);

/* Finds what is lost, and sets the timer: after acknowledgements were taken in, or when the timer
 * is due. */
void btl_ib_loss_detect(btl_ib_conn_t *conn);

/* Sets the timer for what is in flight now. */
void btl_ib_loss_set_timer(btl_ib_conn_t *conn);

/* Sets it anew once the ACKs of a datagram were taken in, if that gave a round trip, which may make
 * probes due sooner, and something is unacknowledged. */
void btl_ib_loss_timer_by_sample(btl_ib_conn_t *conn);

/* True if the loss timer is set as early as the first probe may be due for a message that is alone
 * in flight, by a transport that is `reliable` or not. Mostly it was set for something sent
 * earlier. `rto_max` is the configuration's. */
static inline bool btl_ib_loss_timer_is_set(const btl_ib_loss_t *loss, bool reliable,
                                            uint32_t rto_max)
{
    const btl_ib_hotel_guest_t *entry = &loss->timer.guest;
    const uint32_t least = reliable && !loss->disconnected ? rto_max : loss->least;

    return btl_ib_hotel_guest_is_in(entry) && entry->due <= loss->probe_base + least;
}

enum {
    BTL_IB_SILENT_PROBES = 4, /* probes until silence is believed */
    BTL_IB_ASK_PROBES = 10, /* probes without an answer until the peer is asked over other rails */
};

/* Returns when to check for losses again (us): at lost_at(), or when a new mark is to be set for
 * what arrived after the last one. */
uint64_t btl_ib_loss_check_at(const btl_ib_conn_t *conn);

/* Returns how long to wait for an answer before the next probe (us). */
uint64_t btl_ib_loss_probe_timeout(const btl_ib_conn_t *conn);

/* True if anything waits for an answer. Probes for SKIPs that are not acknowledged stop after a
 * while: SKIPs are sent again with the next traffic. */
bool btl_ib_loss_waits(const btl_ib_conn_t *conn);

/* True if everything is acknowledged, so that only answers of the peer to operations are
 * awaited. */
bool btl_ib_loss_only_answers(const btl_ib_conn_t *conn);

/* Returns when the oldest thing that still waits was first sent, or began to wait for credit (us,
 * of the awake clock); UINT64_MAX: nothing waits. */
uint64_t btl_ib_loss_waiting_since(const btl_ib_conn_t *conn);

#endif
