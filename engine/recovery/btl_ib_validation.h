/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Path validation: does a pair of rails lead to the peer (RFC 9000, 8.2)? Owns struct
 * btl_ib_validation. An address that a peer published may also belong to another host, or be behind
 * a bridge or a firewall that drops everything. So only what arrived under the peer's token
 * validates a pair. Until then, if another pair of the same two processes is validated, this one
 * carries no data, only the question. A refusal, or a few questions without an answer, close this
 * pair only.
 */

#ifndef BTL_IB_VALIDATION_H
#define BTL_IB_VALIDATION_H

#include "btl_ib_state.h"

/* A connection is made; `promised`: the peer answers a first contact even while its application
 * computes. */
void btl_ib_validation_init(btl_ib_conn_t *conn, bool promised);

/* A new incarnation of the connection. What is known of its rails stays. */
void btl_ib_validation_begin(btl_ib_conn_t *conn);

/* Something from the peer arrived by the connection's own two rails. That datagrams get there by
 * them it proves only if it is an answer. True if it is the first time. */
static inline bool btl_ib_validation_heard(btl_ib_conn_t *conn)
{
    const bool first = !conn->validation.valid;

    if (first) {
        conn->validation.valid = true;
    }
    return first;
}

/* After refusals: does this datagram show that something gets there by the present route? */
void btl_ib_validation_echoed(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* The present route was refused once more. True if the connection should leave it, because nothing
 * got there for BTL_IB_REFUSED_LONG. */
bool btl_ib_validation_refused_again(btl_ib_conn_t *conn);

/* The connection takes another route; and: a question is sent by its own two rails. */
void btl_ib_validation_moved(btl_ib_conn_t *conn);
void btl_ib_validation_asked(btl_ib_conn_t *conn);

/* One of its own two rails is at another address now: nothing is known of that. */
void btl_ib_validation_renew(btl_ib_conn_t *conn);

/* Refusals by its own two rails are believed. And: were they believed lately, with nothing getting
 * there since? */
void btl_ib_validation_refused(btl_ib_conn_t *conn);
bool btl_ib_validation_refuses(const btl_ib_conn_t *conn);

/* Other pairs of rails that may lead to the peer are asked for now. True once. */
bool btl_ib_validation_tries(btl_ib_conn_t *conn);

/* An answer showed that what is sent gets there. */
void btl_ib_validation_answered(btl_ib_conn_t *conn);

/* A probe is due, in a call that may run callbacks. If the peer has not answered for long that is
 * reported. True if the connection is to be given up. */
bool btl_ib_validation_overdue(btl_ib_conn_t *conn);

/* The transport took a datagram for it; and: it refused one with that errno, which does not say
 * "not now". */
static inline void btl_ib_validation_sent(btl_ib_conn_t *conn)
{
    if (conn->validation.unsent_since != 0) {
        conn->validation.unsent_since = 0;
        conn->validation.unsent_told = false;
    }
}
void btl_ib_validation_unsent(btl_ib_conn_t *conn, int error);

/* A probe is due, in a call that may run callbacks: if the transport has refused everything for
 * long that is reported. */
void btl_ib_validation_check_unsent(btl_ib_conn_t *conn);

/* The network says, with that errno, that nothing gets there. */
void btl_ib_validation_unreachable(btl_ib_conn_t *conn, int error);

/* Something would be sent by its own two rails if they were validated. True if a question is to be
 * sent now, which is then noted; questions are at least ASK_PAUSE apart. */
bool btl_ib_validation_asks(btl_ib_conn_t *conn);

/* A probe was sent by its own two rails, which are not validated. */
void btl_ib_validation_probed(btl_ib_conn_t *conn);

/* Must data wait until the peer has answered by its own two rails? Only if another connection with
 * it is validated. */
bool btl_ib_validation_waits(const btl_ib_conn_t *conn);

/* Is the connection whose route it uses validated? */
bool btl_ib_validation_is_valid(const btl_ib_conn_t *conn);

/* Was any connection with the same process refused lately? */
bool btl_ib_validation_any_refused(const btl_ib_conn_t *conn);

#endif
