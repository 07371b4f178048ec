/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which messages and operations wait for others to travel with.
 *
 * The first of a turn leave at once: they have nobody to wait for. Those that follow before progress is
 * called are a burst: they wait for that call, or until they are many, and leave together, in few datagrams
 * and one call of the transport. How many leave at once is learned: two at first, and one where company
 * came. Twice as many where the one that waited was alone, as with blocking sends, or where the call was
 * long in coming: who computes between sending and waiting wants all of it to be on its way.
 *
 * Where the transport joins datagrams a train costs nearly as much if it is short, so of long messages in a
 * burst only full ones leave before the turn ends: what is left of one message travels with the next.
 */

#include "btl_ib_min.h"
#include "btl_ib_tx.h"

enum {
    ALONE_MOST = 16,
    AWAY =
        20, /* us for each that waits, since the last that left at once: longer than it took to be made */
    /* So many, or full datagrams (or as many of them as are joined), wait at most: their receiver is to
     * have something to do while more are made. */
    HELD_MOST = 128,
    HELD_DATAGRAMS = 16,
};

bool btl_ib_company_hold(btl_ib_conn_t *conn, uint64_t size)
{
    const uint64_t most =
        (uint64_t) btl_ib_max_u32(HELD_DATAGRAMS, conn->cc.train) * conn->pmtud.datagram_max;

    if (conn->coalesce.held + 1 >= HELD_MOST || size >= most
        || conn->coalesce.held_bytes + size >= most) {
        return false;
    }
    conn->coalesce.held++;
    conn->coalesce.held_bytes += size;
    btl_ib_conn_ready(conn);
    return true;
}

bool btl_ib_company_fills_train(const btl_ib_conn_t *conn, uint64_t size)
{
    const uint32_t train = conn->cc.train;

    return train > 1
           && conn->coalesce.held_bytes + size >= (uint64_t) train * conn->pmtud.datagram_max;
}

void btl_ib_company_trains_left(btl_ib_conn_t *conn, uint64_t size, uint64_t left)
{
    const uint64_t held = conn->coalesce.held_bytes + size;

    conn->coalesce.held_bytes = held > left ? held - left : 0;
    conn->coalesce.held = 2; /* the last train, which is not full, had company */
    conn->coalesce.alone_at = conn->engine->clock.now;
    btl_ib_conn_ready(conn);
}

void btl_ib_company_let_go(btl_ib_conn_t *conn)
{
    if (conn->coalesce.held == 0) {
        return;
    }
    if (conn->coalesce.held > 1
        && conn->engine->clock.now - conn->coalesce.alone_at
               <= (uint64_t) AWAY * conn->coalesce.held) {
        conn->coalesce.alone = 1;
    } else if (conn->coalesce.alone < ALONE_MOST) {
        conn->coalesce.alone *= 2;
    }
    conn->coalesce.held = 0;
    conn->coalesce.held_bytes = 0;
}
