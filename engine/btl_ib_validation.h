/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Path validation: do the two rails of a connection lead to its peer? */

#ifndef BTL_IB_VALIDATION_H
#define BTL_IB_VALIDATION_H

#include "btl_ib_engine.h"

/*
 * Path validation: does a pair of rails lead to the peer (RFC 9000, 8.2)? Owns struct
 * btl_ib_validation. An address that a peer published may also belong to another host, or be behind
 * a bridge or a firewall that drops everything. So only what arrived under the peer's token
 * validates a pair. Until then, if another pair of the same two processes is validated, this one
 * carries no data, only the question. A refusal, or a few questions without an answer, close this
 * pair only.
 */

/* us: the longest gap between two refusals (ICMP, ECONNREFUSED) of one series, and how long
 * refusals count after the last one. */
#define BTL_IB_REFUSED_GAP 10000000u

/* us: how long a series of refusals must last before it is believed. Until then the peer's port may
 * still be about to open. */
#define BTL_IB_REFUSED_LONG 100000u

/* us between two questions over the own two rails of a connection that goes by others. */
#define BTL_IB_ASK_PAUSE 100000u

/* Do the connection's own two rails reach the peer (path validation, RFC 9000, 8.2), and what does
 * the network report about them? */
typedef struct btl_ib_validation {
    bool valid : 1;         /* a datagram of the peer with its token came by them */
    bool answered : 1;      /* something of ours reached the peer, over any route */
    bool promised : 1;      /* the peer answers a first contact even if its application computes */
    bool told : 1;          /* it was reported that the peer does not answer */
    bool silent_told : 1;   /* the same of one that had answered, since it last did */
    bool unsent_told : 1;   /* `unsent_error` was reported, since the transport took something */
    bool tried : 1;         /* other pairs of rails that may lead there were asked for */
    uint8_t unsent_error;   /* errno that the transport answers; valid with unsent_since */
    uint8_t net_error;      /* errno: what the network said last of datagrams to it; 0: nothing */
    uint8_t flow;           /* by which the next user of the own two rails begins (btl_ib_flow.h) */
    uint32_t foreign;       /* datagrams with its token from addresses that it did not publish */
    uint32_t challenged_at; /* stamp: the last challenge to such an address; 0: none */
    uint32_t questions; /* unanswered probes by them, since another pair of rails was validated */
    uint64_t net_error_at;  /* awake: when */
    uint64_t refused_at;    /* us: when refusals by them were last believed */
    uint64_t asked_at;      /* ran: the first probe, if nothing had reached the peer */
    uint64_t silent_at;     /* ran: the first probe of those that are unanswered */
    uint64_t answered_at;   /* us: the last answer that brought no RTT sample */
    uint64_t question_at;   /* us: the last question that was no probe */
    uint64_t route_refused; /* us: first refusal by the present route since something got through */
    uint64_t unsent_since;  /* awake: since then the transport took nothing for it; 0: it does */
} btl_ib_validation_t;

/* Notes that something from the peer arrived by the connection's own two rails. That datagrams get
 * there by them it proves only if it is an answer. Returns true if it is the first time. */
static inline bool btl_ib_validation_heard(btl_ib_validation_t *validation)
{
    const bool first = !validation->valid;

    validation->valid = true;
    return first;
}

/* True if this datagram shows, after refusals, that something gets there by the present route. */
void btl_ib_validation_echoed(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Notes that the present route was refused once more. Returns true if the connection should leave
 * it, because nothing got there for BTL_IB_REFUSED_LONG. */
bool btl_ib_validation_refused_again(btl_ib_conn_t *conn);

/* Notes that a question is sent over its own two rails. */
static inline void btl_ib_validation_asked(btl_ib_validation_t *validation, uint64_t now)
{
    validation->question_at = now;
}

/* True if refusals by a connection's own two rails were believed lately, and nothing got there
 * since. */
bool btl_ib_validation_refuses(const btl_ib_conn_t *conn);

/* Notes that an answer showed that what is sent gets there. */
static inline void btl_ib_validation_answered(btl_ib_validation_t *validation, uint64_t now)
{
    validation->answered = true;
    validation->answered_at = now;
    validation->asked_at = 0;
}

/* Looks, when a probe is due, in a call that may run callbacks, whether the peer answers. The wait
 * for an answer begins with the first one; if the peer has not answered for long that is reported.
 * Returns true if the connection is to be given up. */
bool btl_ib_validation_expire(btl_ib_conn_t *conn);

/* Reports that a peer that has answered before has not for long; called when a probe is due, in a
 * call that may run callbacks. */
void btl_ib_validation_check_silent(btl_ib_conn_t *conn);

/* Notes that the transport took a datagram for it; and: that it refused one with that errno, which
 * does not say "not now". */
static inline void btl_ib_validation_sent(btl_ib_validation_t *validation)
{
    if (validation->unsent_since != 0) {
        validation->unsent_since = 0;
        validation->unsent_told = false;
    }
}

static inline void btl_ib_validation_unsent(btl_ib_validation_t *validation, int error,
                                            uint64_t awake)
{
    if (validation->unsent_since == 0) {
        validation->unsent_since = awake;
    }
    validation->unsent_error = (uint8_t) error; /* Linux has none above 133 */
}

/* Reports that the transport has refused everything for long; called when a probe is due, in a call
 * that may run callbacks. */
void btl_ib_validation_check_unsent(btl_ib_conn_t *conn);

/* Notes that a datagram with the peer's token came by `rail` from an address that the peer did not
 * publish. */
void btl_ib_validation_foreign(btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                               const btl_ib_event_t *event);

/* True if a question may be sent now for what would be sent over its own two rails if they were
 * validated. Questions are at least BTL_IB_ASK_PAUSE apart. */
static inline bool btl_ib_validation_may_ask(const btl_ib_validation_t *validation, uint64_t now)
{
    return validation->question_at == 0 || now - validation->question_at >= BTL_IB_ASK_PAUSE;
}

/* Notes that a probe was sent over its own two rails, which are not validated. */
void btl_ib_validation_probed(btl_ib_conn_t *conn);

/* True if data must wait until the peer has answered by the connection's own two rails. Only if
 * another connection with it is validated. */
bool btl_ib_validation_waits(const btl_ib_conn_t *conn);

/* True if any connection with the same process was refused lately. */
bool btl_ib_validation_any_refused(const btl_ib_conn_t *conn);

#endif
