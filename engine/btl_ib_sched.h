/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which connections have something to send, and when it may leave: turns, priorities, pacing, and
 * bulk that waits for short messages.
 */

#ifndef BTL_IB_SCHED_H
#define BTL_IB_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_cc.h"
#include "btl_ib_engine.h"
#include "btl_ib_rma.h"
#include "btl_ib_clock.h"

/* ---- what waits for a turn ---- */

/* Turns ask for all of it at once. */
typedef struct btl_ib_work {
    /* False: nothing waits for the application's next turn but what transports have, timers and
     * acknowledgements; there is one rail, which is usable and does not stand by, and no log of
     * drops. */
    bool waits;
} btl_ib_work_t;

/* Something joins what waits. */
static inline void btl_ib_work_note(btl_ib_work_t *work)
{
    work->waits = true;
}

/* A turn ended. `waits`: something was left for the next one. */
static inline void btl_ib_work_left(btl_ib_work_t *work, bool waits)
{
    work->waits = waits;
}

/* ---- connections that are ready, starved or idle ---- */

/* Frees memory of connections that are not used. */
typedef struct btl_ib_idle {
    btl_ib_timer_t timer;
    uint64_t active_at; /* us: when the last sequenced segment was sent or received */
    bool shrunk;        /* idle; no timer runs */
} btl_ib_idle_t;

/* Which connections may have something to send (engine->ready), and which have been idle for
 * long. */

/* A new connection: nothing to send, and idle. */
void btl_ib_sched_init(btl_ib_conn_t *conn);

/* Note that `conn` may have something to send. */
void btl_ib_conn_ready(btl_ib_conn_t *conn);

/* It waits for the limits on all connections. Until it has nothing unacknowledged it becomes ready
 * only together with all that do. */
void btl_ib_conn_starve(btl_ib_conn_t *conn);

/* It need not wait for them any more: btl_ib_conn_ready() makes it ready. */
void btl_ib_conn_fed(btl_ib_conn_t *conn);

/* The next of a list of ready connections; NULL: there is none. */
btl_ib_conn_t *btl_ib_sched_pop(btl_ib_list_t *turn);

/* A connection that was idle is not any more: its timer starts. */
void btl_ib_idle_end(btl_ib_conn_t *conn);

/* A sequenced segment was sent or received: the idle timer starts again. */
static inline void btl_ib_idle_active(btl_ib_idle_t *idle, btl_ib_conn_t *conn, uint64_t now)
{
    idle->active_at = now;
    if (idle->shrunk) {
        btl_ib_idle_end(conn);
    }
}

/* The idle timer expired. True: nothing happened for config.idle_after and `drained` says that
 * nothing is left to do, so the connection is idle now. False: the timer was set again. */
bool btl_ib_conn_rest(btl_ib_conn_t *conn, bool drained);

/* An incarnation of the connection ends: nothing to send, and no timer runs. */
void btl_ib_conn_unschedule(btl_ib_conn_t *conn);

/* ---- what waits in a connection ---- */

/* Queue it on the smallest channel whose segment holds what is left of it behind `head` bytes,
 * else on the channel of the largest datagram. */
void btl_ib_pending_add(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t head);

/* Datagrams are smaller from now on: messages that must be split now move to that channel, too. */
void btl_ib_pending_shrunk(btl_ib_conn_t *conn);

/* Does something wait that was never sent, for whatever reason? */
bool btl_ib_pending_any(const btl_ib_conn_t *conn);

/* Acknowledgements or credits came: schedule the connection if something may be sendable now. */
void btl_ib_pending_wake(btl_ib_conn_t *conn);

/* Is there anything to send: never sent, lost, or an operation that waits for a slot? */
bool btl_ib_pending_work(const btl_ib_conn_t *conn);

/* Is it time to search for a larger path MTU? */
bool btl_ib_pending_mtu_search(const btl_ib_conn_t *conn);

/* ---- pacing ---- */

/* Pacing: when the next segment may leave, if the congestion control sets a pace (cc.pace: ns
 * between segments; cc.burst: segments that may leave at once). */

typedef struct btl_ib_pacer {
    btl_ib_timer_t timer; /* BTL_IB_TIMER_PACE */
    uint64_t at;          /* ns: when the next segment would leave without bursts */
} btl_ib_pacer_t;

/* The timer of a new connection. */
static inline void btl_ib_pacer_init(btl_ib_pacer_t *pacer, struct btl_ib_conn *conn)
{
    btl_ib_timer_init(&pacer->timer, BTL_IB_TIMER_PACE, conn);
}

/* A new route: nothing was sent by it yet. */
static inline void btl_ib_pacer_begin(btl_ib_pacer_t *pacer)
{
    pacer->at = 0;
}

/* `count` segments leave; or: the last one did not. `now` in us. */
static inline void btl_ib_pacer_spend(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc, uint64_t now,
                                      int count)
{
    if (cc->pace != 0) {
        now *= 1000;
        pacer->at = (pacer->at > now ? pacer->at : now) + (uint64_t) count * cc->pace;
    }
}

static inline void btl_ib_pacer_take_back(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc)
{
    pacer->at -= cc->pace;
}

/* How many segments may leave now. `behind`: our process was away and may be again at once, so that
 * nothing would leave later. Then only windows of less than one segment are paced. */
uint32_t btl_ib_pacer_room(const btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc, uint64_t now,
                           bool behind);

/* Set the timer for when a whole burst may leave. */
static inline void btl_ib_pacer_wait(btl_ib_pacer_t *pacer, btl_ib_hotel_t *hotel)
{
    btl_ib_hotel_checkin(hotel, &pacer->timer.guest, pacer->at / 1000 + 1);
}

/* The pace may have become faster: what waits by a slower one leaves at the present one. */
static inline void btl_ib_pacer_forgive(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc,
                                        btl_ib_hotel_t *hotel, uint64_t now)
{
    uint64_t most = now * 1000;

    if (pacer->at <= most) {
        return;
    }
    most += (uint64_t) cc->burst * cc->pace;
    if (pacer->at > most) {
        pacer->at = most;
        if (btl_ib_hotel_guest_is_in(&pacer->timer.guest)) {
            btl_ib_pacer_wait(pacer, hotel);
        }
    }
}

/* ---- latency mode: bulk waits for short messages ---- */

/*
 * Latency mode: while short messages follow each other, bulk leaves in short bursts, after them,
 * and by its own lane where the transport has one. Writes engine->latency.
 */

/* Latency mode: bulk waits for short messages. */
typedef struct btl_ib_latency {
    bool lane;        /* some transport has a lane for bulk; else there is no latency mode */
    bool hold_bulk;   /* in this turn bulk waits, because a short message came */
    uint32_t streak;  /* consecutive turns with short messages, each soon after the one before */
    uint64_t at;      /* us: the last turn with short messages */
    uint64_t before;  /* us: the one before */
    uint64_t ops;     /* one-sided operations that short messages belonged to */
    uint64_t excused; /* of these messages, those that may still come */
} btl_ib_latency_t;

/* A transport is used, which has a `lane` for bulk or not. */
static inline void btl_ib_latency_offer_lane(btl_ib_latency_t *latency, bool lane)
{
    latency->lane = latency->lane || lane;
}

/* Is latency mode on, where the transport has a lane for bulk? Then bulk leaves by that lane. */
bool btl_ib_latency_wants_lane(const btl_ib_conn_t *conn);

/* The same with a shorter time limit: short messages follow each other so soon that bulk is to
 * leave in short bursts, one in a turn. */
bool btl_ib_latency_wants_short_bursts(const btl_ib_conn_t *conn);

/* Is bulk to wait in this turn, so that the application has the short message that came before bulk
 * leaves? */
bool btl_ib_latency_holds_bulk(const btl_ib_conn_t *conn);

/* A turn has received, where there is a lane. `messages` and `bytes` are what the engine's counters
 * received_messages and received_bytes were before it. */
void btl_ib_latency_turn(btl_ib_engine_t *engine, uint64_t messages, uint64_t bytes);

/* Bulk need not wait: this is a turn of the progress thread, or no message came. */
static inline void btl_ib_latency_release_bulk(btl_ib_latency_t *latency)
{
    latency->hold_bulk = false;
}

#endif
