/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Explicit congestion notification (ECN, RFC 3168): bulk leaves with the codepoint ECT(0), which
 * says that its sender understands CE; a switch whose queue grows changes it to CE instead of
 * dropping the datagram; the receiver counts both, and ACKs tell the counts; congestion control
 * answers.
 *
 * Bulk alone is marked, as nothing else fills queues: short messages cost what they cost without,
 * and an acknowledgement that a router drops for its codepoint would leave its sender unheard
 * without either side seeing why. So are first copies alone: whatever becomes of the codepoint, a
 * copy sent again gets through.
 *
 * Networks clear codepoints, change them, or drop what has them. So they are tested for ever
 * (RFC 9000, 13.4.2): once TEST datagrams have left with ECT(0), and something sent no earlier has
 * arrived, the counts must have grown. On a path where they have not yet no more than TEST leave
 * so. Three tests in a row without any turn ECN off for that path; so do many in a row in which all
 * came with CE, as that tells nothing any more, but for half a minute only: a switch whose queue is
 * another's may mark all for long. What a receiver counts besides, as a network may
 * set the codepoint of datagrams that left without, is of no harm.
 */

#ifndef BTL_IB_ECN_H
#define BTL_IB_ECN_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

typedef enum btl_ib_ecn_state {
    BTL_IB_ECN_OFF,     /* a side does not want it, or cannot; or the path does not carry it */
    BTL_IB_ECN_TESTING, /* it is not known whether the path carries it */
    BTL_IB_ECN_CAPABLE, /* it does */
} btl_ib_ecn_state_t;

/* Invariant: `marking` only in TESTING, while `test_order` is 0, and in CAPABLE. */
typedef struct btl_ib_ecn {
    uint64_t retry_at;   /* us: when a path is tested again on which all came with CE; 0: never */
    uint64_t test_order; /* segment->order of the last segment of the present test; 0: not sent */
    uint32_t sent;       /* datagrams of the present test that left with ECT(0) */
    uint32_t tested;     /* the sum of `told_ect` and `told_ce` when that began, */
    uint32_t tested_ce;  /* and `told_ce` */
    uint32_t ect, ce;    /* segments that came with each, in this incarnation of the peer; wrap */
    uint32_t told_ect;   /* the same of ours, as the peer told last */
    uint32_t told_ce;
    uint8_t state;          /* btl_ib_ecn_state_t */
    uint8_t unmarked_tests; /* tests in a row in which nothing came with ECT(0) or CE */
    uint8_t all_ce;         /* tests in a row in which all came with CE */
    bool agreed;            /* both sides count and tell what comes */
    bool marking;           /* bulk leaves with ECT(0) now */
} btl_ib_ecn_t;

/* Begins an incarnation of the peer, which counts anew. */
void btl_ib_ecn_begin_peer(btl_ib_conn_t *conn);

/* Begins a test of the connection's route, of which nothing is known. */
void btl_ib_ecn_begin_route(btl_ib_conn_t *conn);

/* Notes that datagrams, some of them with ECT(0), were handed to the transport; the segments that
 * they are of get their order next. */
void btl_ib_ecn_left(btl_ib_conn_t *conn, const btl_ib_tx_t *tx, int count);

/* Counts `count` segments of a channel that came with a codepoint other than "not ECT". */
void btl_ib_ecn_arrived(btl_ib_conn_t *conn, uint32_t channel, btl_ib_codepoint_t codepoint,
                        uint32_t count);

/* Takes in the counts of an ACK: how many of our segments came with ECT(0) and with CE. What it
 * acknowledges was taken in before. */
void btl_ib_ecn_told(btl_ib_conn_t *conn, uint32_t ect, uint32_t ce);

#endif
