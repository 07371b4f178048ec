/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Does a pair of rails lead to the peer? (RFC 9000, 8.2: path validation.) An address that a peer
 * published may be another host's, too, or behind a bridge or a firewall that lets nothing through. So
 * what came under the peer's token validates a pair, and nothing else does. Until then, if another pair
 * of the same two processes is validated, no data go by it, only the question. A refusal, or a few
 * questions without an answer, close it, and it alone.
 */

#ifndef BTL_IB_VALIDATION_H
#define BTL_IB_VALIDATION_H

#include "btl_ib_state.h"

/* A connection is made; `promised`: the peer answers a first contact also while its owner computes. */
void btl_ib_validation_init(btl_ib_conn_t *conn, bool promised);

/* A new incarnation of the connection. What is known of its rails stays. */
void btl_ib_validation_begin(btl_ib_conn_t *conn);

/* Something of the peer's came by the connection's own two rails. That what is sent by them gets there
 * it proves only where it is an answer. True if it is the first time. */
static inline bool btl_ib_validation_heard(btl_ib_conn_t *conn)
{
    const bool first = !conn->validation.valid;

    if (first) {
        conn->validation.valid = true;
    }
    return first;
}

/* After refusals: does it show that something gets there by the present way? */
void btl_ib_validation_echoed(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* The present way was refused once more: is it to be left, because nothing got there for BTL_IB_REFUSED_LONG? */
bool btl_ib_validation_refused_again(btl_ib_conn_t *conn);

/* The connection takes another way; and: a question goes by its own two rails. */
void btl_ib_validation_moved(btl_ib_conn_t *conn);
void btl_ib_validation_asked(btl_ib_conn_t *conn);

/* It is believed that nobody is there, by them; and was that said lately, with nothing getting there since? */
void btl_ib_validation_refused(btl_ib_conn_t *conn);
bool btl_ib_validation_refuses(const btl_ib_conn_t *conn);

/* Something showed that what we send gets there. */
void btl_ib_validation_answered(btl_ib_conn_t *conn);

/* A probe is due, not in a kick. If the peer never answered for long that is told. True if it is to be given up. */
bool btl_ib_validation_overdue(btl_ib_conn_t *conn);

/* Something would be sent by them if the peer had answered. True if it is to be asked now (noted as done), which is
 * not too often. */
bool btl_ib_validation_asks(btl_ib_conn_t *conn);

/* A probe went by them, while they are not validated. */
void btl_ib_validation_probed(btl_ib_conn_t *conn);

/* Do data wait until the peer has answered by them? Only where another connection with it is validated. */
bool btl_ib_validation_waits(const btl_ib_conn_t *conn);

/* Is what carries it now validated? */
bool btl_ib_validation_is_valid(const btl_ib_conn_t *conn);

/* Was any connection with the same process refused lately? */
bool btl_ib_validation_any_refused(const btl_ib_conn_t *conn);

#endif
