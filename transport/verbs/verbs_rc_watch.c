/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_watch.h"

#include "verbs_rc_idle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    LOOKS = BTL_IB_RC_LOOKS,
    GIVEN_UP = 10 * LOOKS,       /* looks for which a connection may stand still */
    LEAST = 1000 * 1000 / LOOKS, /* bytes that any network moves from one look to the next */
    QUESTIONS = 8, /* to idle peers in one look: closing thousands at once would take long */
};

/* Returns after how many looks the device itself has reported that the peer does not answer: it may
 * take four times as long as it was told to (IBTA 9.7.6.1.3). 0: over iWARP, where TCP repeats. */
static uint64_t device_looks(const btl_ib_rc_port_t *port)
{
    enum { USUAL = 18 }; /* 1 s: the default of connection managers */
    const unsigned timeout = port->ack_timeout != 0 ? port->ack_timeout : USUAL;

    return port->iwarp
               ? 0
               : ((4096u * 4ull * (port->retry + 1u)) << timeout) / 1000 / BTL_IB_RC_LOOK_US;
}

/* Returns the bytes of operations on memory under way. */
static uint64_t bytes_under_way(const btl_ib_rc_conn_t *conn)
{
    return conn->rdma != NULL ? btl_ib_rc_rdma_under_way(conn->rdma).bytes : 0;
}

/* True if something waits to be sent until the channel has an open connection. */
static bool conn_is_wanted(const btl_ib_rc_conn_t *conn)
{
    return conn->peer->channel[conn->channel].backoff.wanted_at != 0;
}

/*
 * True if a connection waits for one of these:
 *
 *      ACCEPTED   its first message
 *      AGREED     that the peer closes it, as messages wait to be sent. (Operations on memory wait
 *                 for the peer however long it computes: it may begin some on this connection, and
 *                 if that broke nobody would know whether they were done.)
 *      OPEN       the end of operations on memory; or, on the side that asked, to be roused once
 */
static bool conn_is_waiting(const btl_ib_rc_conn_t *conn)
{
    if (conn->stage != BTL_IB_RC_OPEN) {
        return conn->stage == BTL_IB_RC_ACCEPTED
               || (conn->stage == BTL_IB_RC_AGREED && conn->rdma == NULL && conn_is_wanted(conn));
    }
    return (conn->initiator && !conn->roused)
           || (conn->rdma != NULL && btl_ib_rc_rdma_under_way(conn->rdma).count > 0);
}

/* Notes whether a connection waits and has completed nothing since the last look. Returns for how
 * many looks in a row that was so. */
static uint32_t conn_look(btl_ib_rc_conn_t *conn)
{
    const uint32_t over = conn->sq.ring.completed;

    conn->waits = !conn_is_waiting(conn) || over != conn->waits_from ? 0 : conn->waits + 1;
    conn->waits_from = over;
    return conn->waits;
}

/* Gives a connection up; `what` did not happen for `looks`, which is logged. */
static void conn_give_up(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *what, uint32_t looks)
{
    char text[96];

    snprintf(text, sizeof(text), "%s for %u s", what, looks / LOOKS);
    btl_ib_rc_cm_stalled(rc, conn, text);
}

/* Sends something that has no effect, so that the peer's device looks at what came before it. */
static void conn_rouse(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, uint32_t looks)
{
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    char text[BTL_IB_RC_ADDRESS_TEXT];

    if (bytes_under_way(conn) > 0) {
        BTL_IB_VERBS_LOG(verbs, 10, "%s: peer %s, RDMA: no operation ended for %u s: it is roused",
                         verbs->base.name,
                         btl_ib_rc_address_format(&conn->peer->addr, text, sizeof(text)),
                         looks / LOOKS);
    }
    conn->roused = true;
    const int error = conn->rdma != NULL ? btl_ib_rc_rdma_rouse(conn->rdma)
                                         : btl_ib_rc_credit_tell(&conn->credit);
    if (error != 0 && error != ENOMEM) { /* ENOMEM: the send queue is full */
        btl_ib_rc_cm_broke(rc, conn, strerror(error));
    }
}

void btl_ib_rc_watch_look(btl_ib_rc_t *rc, uint64_t now)
{
    uint32_t asked = 0;

    rc->watch.looked_at = now;
    btl_ib_rc_eagers_review(&rc->eagers, now);
    for (uint32_t i = 0; i < rc->conns.slots && rc->state.error == 0 && !rc->state.down; i++) {
        btl_ib_rc_conn_t *conn = rc->conns.slot[i].conn;
        const uint32_t looks = conn != NULL ? conn_look(conn) : 0;
        if (looks == 0) {
            if (conn != NULL && conn->stage == BTL_IB_RC_OPEN) {
                asked += btl_ib_rc_idle_look(rc, conn, asked < QUESTIONS);
            }
            continue;
        }
        if (conn->stage == BTL_IB_RC_ACCEPTED) {
            /* A side that accepted must not be the first to send (iWARP). */
            if (looks >= GIVEN_UP && conn_is_wanted(conn)) {
                conn_give_up(rc, conn, "its first message did not come", looks);
            }
        } else if (conn->stage == BTL_IB_RC_AGREED) {
            if (looks >= GIVEN_UP) {
                btl_ib_rc_cm_close_idle(rc, conn);
            }
        } else if (looks >= GIVEN_UP + device_looks(&rc->port) + bytes_under_way(conn) / LEAST) {
            conn_give_up(rc, conn, "no operation ended", looks);
        } else if (looks % LOOKS == 0) {
            conn_rouse(rc, conn, looks);
        }
    }
}
