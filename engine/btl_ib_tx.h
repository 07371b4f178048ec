/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the files that send share; the rest of the engine sees what btl_ib_calls.h names. From a caller
 * to the network:
 *
 *     btl_ib_tx.c       a message comes, leaves at once or waits in a channel
 *     btl_ib_company.c  ... although it might leave, because others may follow
 *     btl_ib_batch.c    what waits in a channel is cut into segments, and these are sent
 *     btl_ib_resend.c   what was lost goes again, before anything new
 *     btl_ib_park.c     what the peer refused waits
 *     btl_ib_limits.c   what keeps segments from leaving, and what is waited for then
 *     btl_ib_flight.c   segments between their making and their acknowledgement: the accounts
 *     btl_ib_out.c      the end: callbacks
 */

#ifndef BTL_IB_TX_H
#define BTL_IB_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_min.h"
#include "btl_ib_calls.h"

/* May a new segment leave, and if not, why? */
typedef enum btl_ib_verdict {
    BTL_IB_GO,
    BTL_IB_NO_CREDIT,
    BTL_IB_NO_WINDOW,
    BTL_IB_NO_DEPTH,  /* a limit on all connections together */
    BTL_IB_TOO_SOON,  /* congestion control sets a pace */
    BTL_IB_NO_ANSWER, /* the way is not validated yet, and there is one that is */
} btl_ib_verdict_t;

/* ---- btl_ib_company.c ---- */

/* Would what comes now wait for the next turn? */
static inline bool btl_ib_company_waits(btl_ib_conn_t *conn)
{
    if (conn->coalesce.turn != conn->engine->clock.turns) {
        conn->coalesce.turn = conn->engine->clock.turns;
        conn->coalesce.left_alone = 0;
    }
    return conn->coalesce.left_alone >= conn->coalesce.alone;
}

/* Something leaves by itself. */
static inline void btl_ib_company_none(btl_ib_conn_t *conn)
{
    conn->coalesce.left_alone++;
    conn->coalesce.alone_at = conn->engine->clock.now;
}

/* `size` bytes more would wait. Let them; false: they are many with those that wait already, and none
 * waits any longer. */
bool btl_ib_company_hold(btl_ib_conn_t *conn, uint64_t size);

/* Are those that were held, with `size` bytes more, enough to fill what the transport joins? */
bool btl_ib_company_fills_train(const btl_ib_conn_t *conn, uint64_t size);

/* Of these, `left` bytes did leave, in full trains; the rest does with the next turn. */
void btl_ib_company_trains_left(btl_ib_conn_t *conn, uint64_t size, uint64_t left);

/* Those that were held leave now. */
void btl_ib_company_let_go(btl_ib_conn_t *conn);

/* ---- btl_ib_batch.c ---- */

/* Datagrams that one call of the transport can make use of: as many whole trains as it takes. */
static inline int btl_ib_batch_max(const btl_ib_conn_t *conn)
{
    const uint32_t most = btl_ib_min_u32(conn->route.via->transport->attr.max_batch, BTL_IB_BATCH);
    const uint32_t train = btl_ib_min_u32(conn->cc.train, most);

    return (int) (most - most % train);
}

/* Do others overtake bulk, and are there short messages one after the other? */
bool btl_ib_batch_short_ones_come(const btl_ib_conn_t *conn);

/* Send what waits in a channel; if `trains` only as far as it fills whole ones. Returns what stopped it, BTL_IB_GO if
 * that was nothing; *full: the transport or memory stopped it. */
btl_ib_verdict_t btl_ib_batch_push(btl_ib_conn_t *conn, uint32_t space, bool trains, bool *full);

/* ---- btl_ib_resend.c ---- */

/* What was lost goes before anything new, within the window. As btl_ib_batch_push(). */
btl_ib_verdict_t btl_ib_resend_push(btl_ib_conn_t *conn, bool *full);

/* ---- btl_ib_limits.c ---- */

/* S: how many segments of a channel may be on the way. */
uint32_t btl_ib_limits_pending(const btl_ib_conn_t *conn, const btl_ib_queue_t *queue);

/* Must a segment behind `ahead` others, which have not spent their time yet, wait for its own? */
bool btl_ib_limits_too_soon(const btl_ib_conn_t *conn, uint32_t ahead);

/* How many new segments the windows and the peer's buffers for a channel let go. */
uint32_t btl_ib_limits_way(const btl_ib_conn_t *conn, uint32_t space);

/* How many new segments may leave on a channel. It may be fewer than all limits allow (one at a time where the congestion control
 * sets a pace), so whoever has sent them asks again. 0: none may, and *verdict says why. */
uint32_t btl_ib_limits_room(const btl_ib_conn_t *conn, uint32_t space, btl_ib_verdict_t *verdict);

/* May a new segment leave on a channel? */
static inline btl_ib_verdict_t btl_ib_limits_check(const btl_ib_conn_t *conn, uint32_t space)
{
    btl_ib_verdict_t verdict;

    (void) btl_ib_limits_room(conn, space, &verdict);
    return verdict;
}

/* Wait for the right thing: the transport or memory (try again in the next turn), the other
 * connections, or an acknowledgement, which makes the connection ready again by itself. */
void btl_ib_limits_wait(btl_ib_conn_t *conn, btl_ib_verdict_t verdict, bool full);

/* ---- btl_ib_flight.c ---- */

/* Give new segments, at least one, their sequences, for which there are places, and count them. A SKIP comes alone. */
void btl_ib_flight_enter(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count,
                         uint32_t space);

/* It cannot leave: as if it had never entered, and free. The last that entered goes first. */
void btl_ib_flight_withdraw(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* New segments have left, in this order. */
void btl_ib_flight_left(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count);

/* A later copy of a segment has left; `probe`: to ask, not because it seemed lost. */
void btl_ib_flight_left_again(btl_ib_conn_t *conn, btl_ib_segment_t *segment, bool probe);

/* Only the sequence of a segment is to arrive: it becomes a VOID. */
void btl_ib_flight_cut_off(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* The peer refused the last copy of a segment: it is not on its way. */
void btl_ib_flight_park(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* Take a segment off all accounts. Returns what it was a piece of, if that is finished with it. */
btl_ib_out_t *btl_ib_flight_end(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* ---- btl_ib_out.c ---- */

/* The last piece has left. What was copied whole is done with it. */
void btl_ib_out_left(btl_ib_conn_t *conn, btl_ib_out_t *out, bool copied);

/* The first `count` messages of the list have left in a BUNDLE, which is a copy of them: off the list. */
void btl_ib_out_left_bundled(btl_ib_conn_t *conn, btl_ib_list_t *bundled, uint32_t count);

#endif
