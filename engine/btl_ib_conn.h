/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A connection: its life from the first datagram to the last, what peers may ask for, the log of
 * datagrams that were dropped, keepalive, and what connections and rails tell for statistics
 * (btl_ib_conn_levels() and others in btl_ib_engine.h).
 */

#ifndef BTL_IB_CONN_H
#define BTL_IB_CONN_H

#include <stdint.h>

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* Log of dropped datagrams: btl_ib_conn.c. */
typedef struct btl_ib_drops btl_ib_drops_t;

/* Connections that peers ask for. */
typedef struct btl_ib_admission {
    uint32_t passive;   /* connections not adopted by the user */
    uint32_t lookups;   /* of unknown senders, in the second that began at lookups_at */
    uint32_t responses; /* PATH_RESPONSEs sent to them, in the same second */
    uint32_t paths;     /* lookups of other paths to known peers, in the same second */
    uint64_t lookups_at;
    bool closed;       /* unknown senders get no connection any more */
    bool told_passive; /* it was logged that there are passive_max */
} btl_ib_admission_t;

/* ---- the life of a connection ---- */

/* The life cycle of a connection: made, reset, drained, closed, dead. Writes those fields of struct
 * btl_ib_conn that are in no structure of their own. */

/* As btl_ib_conn_create(), for a connection that the peer asked for. */
int btl_ib_conn_make(btl_ib_engine_t *engine, btl_ib_rail_t *rail, const btl_ib_peer_info_t *info,
                     btl_ib_conn_t **conn);

/* The peer closed the connection or began a new incarnation. Messages that left count as
 * acknowledged; what was not sent yet, and operations, fail. The connection is as if just made. */
void btl_ib_conn_reset(btl_ib_conn_t *conn);

/* The peer's incarnation ended: forget what came from it. What goes to it stays, because the peer's
 * next incarnation may have it if the last one saw nothing of it. */
void btl_ib_conn_lose_peer(btl_ib_conn_t *conn);

/* Is nothing due to the peer, and nothing that came from it incomplete? */
bool btl_ib_conn_is_quiet(const btl_ib_conn_t *conn);

/* The idle timer expired: release memory. False if the connection is not idle; then the timer was
 * set again. */
bool btl_ib_conn_shrink(btl_ib_conn_t *conn);

/* The connection takes a route of which nothing is known: congestion control, pacing and the
 * estimates of loss begin anew. */
void btl_ib_conn_begin_route(btl_ib_conn_t *conn);

/* Send the next CLOSE of a connection that is closing; after the last one it ends. */
void btl_ib_conn_linger(btl_ib_conn_t *conn);

/* Release all that a connection holds; no callback follows. */
void btl_ib_conn_strip(btl_ib_conn_t *conn);

/* ---- unknown senders ---- */

/*
 * Limits how many unknown senders are looked up, answered and given a connection, because anybody
 * can ask for that. Writes engine->admission.
 */

/* Take one of the lookups that are allowed now. False: none is left, or there are passive_max
 * connections already, and it does not take the place of a `known` peer. */
bool btl_ib_admission_take_lookup(btl_ib_engine_t *engine, bool known);

/* The same for another path to a known peer, by which a datagram of it came: a share of the lookups
 * is for that. */
bool btl_ib_admission_take_path_lookup(btl_ib_engine_t *engine);

/* Take one of the responses that are allowed now, by which an unknown sender is told that its
 * datagram got here. False: none is left. */
bool btl_ib_admission_take_response(btl_ib_engine_t *engine);

/* From now on no unknown sender gets a connection. */
static inline void btl_ib_admission_close(btl_ib_admission_t *admission)
{
    admission->closed = true;
}

/* There is one connection more, or less, that the component has not adopted. */
static inline void btl_ib_admission_passive(btl_ib_admission_t *admission, int32_t more)
{
    admission->passive += (uint32_t) more;
}

/* ---- dropped datagrams ---- */

/* For engine->drops. NULL if config.log wants no details, or without memory: nothing is shown. */
btl_ib_drops_t *btl_ib_drops_new(const btl_ib_engine_t *engine);

/* The rest may be called only where engine->drops is set. */

/* Prints how many datagrams have no line, and frees engine->drops. */
void btl_ib_drops_end(btl_ib_engine_t *engine);

/* A datagram was taken in or dropped. Each drop counter that grew since the last call gets a line,
 * 20 a second at most. Call it before the datagram's buffer is reposted. */
void btl_ib_drops_note(btl_ib_rail_t *rail, const btl_ib_event_t *event);

/* In each turn of the application's own progress: print how many datagrams have no line. */
void btl_ib_drops_turn(btl_ib_engine_t *engine);

/* ---- keepalive: peers that are silent while nothing waits for them ---- */

/*
 * Questions to connected peers that are silent while nothing waits for them: else a process that
 * only receives would never learn that a peer is no more. Its host answers for a process that has
 * ended (REFUSED). Of a host that is gone the network says that it is unreachable: that counts
 * after four questions without an answer. Silence alone never does: a process that computes, is
 * stopped or suspended is silent, too.
 */

struct btl_ib_engine;

/* us between two looks. In each of them one peer is asked that was not, and one that did not
 * answer; with some thousand peers more of both, so that all are asked in 16 pauses. */
#define BTL_IB_KEEPALIVE_EACH 250000u

/* Of a connection. */
typedef struct btl_ib_keepalive {
    uint64_t asked_at; /* us */
    uint64_t awake;    /* the same by the engine's `awake` */
    uint32_t asked;    /* questions since it was heard; more are not counted */
} btl_ib_keepalive_t;

/* A look is due; not in progress by the thread. May end a connection. */
void btl_ib_keepalive_look(struct btl_ib_engine *engine);

#endif
