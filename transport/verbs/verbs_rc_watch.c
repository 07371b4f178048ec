/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_rc_watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    LOOKS = 4,                  /* a second */
    GIVEN_UP = 10 * LOOKS,      /* what waits for longer */
    LEAST = 1000 * 1000 / LOOKS /* bytes that move from one look to the next */
};

/* Looks until the device itself reports that the peer does not answer: it may take four times what
 * it was told (IBTA 9.7.6.1.3). 0: never, where TCP does it. */
static uint64_t device_looks(const btl_ib_rc_port_t *port)
{
    enum { USUAL = 18 }; /* 1 s: what connection managers take */
    const unsigned timeout = port->ack_timeout != 0 ? port->ack_timeout : USUAL;

    return port->iwarp
               ? 0
               : ((4096u * 4ull * (port->retry + 1u)) << timeout) / 1000 / BTL_IB_RC_LOOK_US;
}

/* `what` is text, and followed by for how long. */
static void give_up(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const char *what, uint32_t looks)
{
    char text[96];

    snprintf(text, sizeof(text), "%s for %u s", what, looks / LOOKS);
    btl_ib_rc_cm_stalled(rc, conn, text);
}

/* A side that accepted must not be the first to send (iWARP). */
static void watch_accepted(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, uint32_t looks)
{
    if (looks >= GIVEN_UP && conn->peer->channel[conn->channel].backoff.wanted_at != 0) {
        give_up(rc, conn, "its first message did not come", looks);
    }
}

static void rouse(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, uint32_t looks)
{
    const btl_ib_verbs_t *verbs = &rc->port.verbs;
    char text[BTL_IB_RC_ADDRESS_TEXT];

    if (btl_ib_rc_conn_under_way(conn) > 0) {
        BTL_IB_VERBS_LOG(verbs, 10, "%s: peer %s, RDMA: no operation ended for %u s: it is roused",
                         verbs->base.name,
                         btl_ib_rc_address_format(&conn->peer->addr, text, sizeof(text)),
                         looks / LOOKS);
    }
    const int error = btl_ib_rc_conn_rouse(conn);
    if (error != 0 && error != ENOMEM) { /* ENOMEM: the queue is full */
        btl_ib_rc_cm_broke(rc, conn, strerror(error));
    }
}

static void watch_open(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, uint32_t looks)
{
    if (looks >= GIVEN_UP + device_looks(&rc->port) + btl_ib_rc_conn_under_way(conn) / LEAST) {
        give_up(rc, conn, "no operation ended", looks);
    } else if (looks % LOOKS == 0) {
        rouse(rc, conn, looks);
    }
}

void btl_ib_rc_watch_look(btl_ib_rc_t *rc, uint64_t now)
{
    rc->watch.looked_at = now;
    for (uint32_t i = 0; i < rc->conns.slots && rc->state.error == 0 && !rc->state.down; i++) {
        btl_ib_rc_conn_t *conn = rc->conns.slot[i].conn;
        const uint32_t looks = conn != NULL ? btl_ib_rc_conn_look(conn) : 0;
        if (looks > 0 && conn->stage == BTL_IB_RC_ACCEPTED) {
            watch_accepted(rc, conn, looks);
        } else if (looks > 0) {
            watch_open(rc, conn, looks);
        }
    }
}
