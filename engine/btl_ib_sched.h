/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which connections have something to send, and in which order it leaves: turns, priorities. */

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
    /* The application's next turn must do more than poll its only rail, run timers and send
     * acknowledgements. Invariant: it is set if there are several rails, the only one is not usable
     * or stands by, or drops are logged. */
    bool waits;
} btl_ib_work_t;

/* Notes that something joins what waits. */
static inline void btl_ib_work_note(btl_ib_work_t *work)
{
    work->waits = true;
}

/* Notes that a turn ended. `waits`: something was left for the next one. */
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

/* Begins a new connection: nothing to send, and idle. */
void btl_ib_sched_init(btl_ib_conn_t *conn);

/* Notes that `conn` may have something to send. */
void btl_ib_conn_ready(btl_ib_conn_t *conn);

/* Lets a connection wait for the limits on all connections. Until it has nothing unacknowledged it
 * becomes ready only together with all that do. */
void btl_ib_conn_starve(btl_ib_conn_t *conn);

/* Ends a connection's wait for these limits: btl_ib_conn_ready() makes it ready. */
void btl_ib_conn_fed(btl_ib_conn_t *conn);

/* Takes the next of a list of ready connections; NULL: there is none. */
btl_ib_conn_t *btl_ib_sched_pop(btl_ib_list_t *turn);

/* Starts the timer of a connection that was idle and is not any more. */
void btl_ib_idle_end(btl_ib_conn_t *conn);

/* Starts the idle timer again: a sequenced segment was sent or received. */
static inline void btl_ib_idle_active(btl_ib_idle_t *idle, btl_ib_conn_t *conn, uint64_t now)
{
    idle->active_at = now;
    if (idle->shrunk) {
        btl_ib_idle_end(conn);
    }
}

/* Handles the idle timer, which expired. Returns true if nothing happened for config.idle_after and
 * `drained` says that nothing is left to do, so the connection is idle now; false: the timer was
 * set again. */
bool btl_ib_conn_rest(btl_ib_conn_t *conn, bool drained);

/* Ends an incarnation of the connection: nothing to send, and no timer runs. */
void btl_ib_conn_unschedule(btl_ib_conn_t *conn);

/* ---- what waits in a connection ---- */

/* Queues it on the smallest channel whose segment holds what is left of it behind `head` bytes,
 * else on the channel of the largest datagram. */
void btl_ib_pending_add(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t head);

/* Moves messages that must be split now, as datagrams are smaller from now on, to the channel of
 * the largest datagram. */
void btl_ib_pending_shrunk(btl_ib_conn_t *conn);

/* True if something waits that was never sent, for whatever reason. */
bool btl_ib_pending_any(const btl_ib_conn_t *conn);

/* Schedules the connection if something may be sendable now: acknowledgements or credits came. */
void btl_ib_pending_wake(btl_ib_conn_t *conn);

/* True if there is anything to send: never sent, lost, or an operation that waits for a slot. */
bool btl_ib_pending_work(const btl_ib_conn_t *conn);

/* True if it is time to search for a larger path MTU. */
bool btl_ib_pending_mtu_search(const btl_ib_conn_t *conn);

#endif
