/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Paths: bulk of one connection that leaves by several flows at once. */

#ifndef BTL_IB_PATHS_H
#define BTL_IB_PATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_cc.h"
#include "btl_ib_list.h"
#include "btl_ib_rack.h"
#include "btl_ib_rtt.h"

struct btl_ib_conn;
struct btl_ib_segment;

/*
 * Clouds cap each flow (5-tuple), and fabrics put each on one link of several (ECMP). So where bulk
 * seems to be capped it leaves by further flows, which the transport opens by ports of their own
 * (attr.paths), a batch by one of them. A path is what is known of one such flow: its own
 * congestion control, and what arrived by it, so that what another path overtakes is not lost.
 * Short messages, probes and ACKs go by the usual flow as before. Nothing of it is on the wire: an
 * acknowledgement finds the path by the segments that it names.
 *
 * - A policer lets a constant rate pass and drops the rest, without a queue: losses at short round
 *   trips. After two periods of that a path is tried; it stays if the rate of all rose by half of
 *   what one more cap would add. Else it goes, and the next try comes after 1 s, then 2 s, up to a
 *   minute. So a link that loses at random, or is shared by all paths, has one most of the time.
 * - A path by which nothing is acknowledged for three timeouts, while others are answered, is dead:
 *   what is in flight by it leaves again by others, and its flow takes another port. If that was
 *   the usual flow everything else takes a path's flow (btl_ib_flow.h), and asks for the way
 *   back.
 * - One that carries less than a quarter of the best in half a second, though its window is full,
 *   has a slow link. It gets another port, and bulk does without it for 1 s, and then for longer.
 *   The usual one has no other port, and one by which all that is short goes keeps its own: bulk
 *   does without them for 4 s.
 * - Delay alone is no sign of a slow link: several flows take more of a queue that others share.
 *   But where bulk of the only path met a queue for half a second a path is tried, and stays if its
 *   shortest round trip is less than half of the others' in the same time: two flows in one queue
 *   have the same. So it is with several that carry less than a quarter of what they did; if there
 *   is no further one, one of them gets another port. Paths that delay four times as much as the
 *   best are slow, too.
 * - What is short does not count: an idle link has no queue, however slow it is.
 *
 * The connection has memory for paths only while it has more than one. Its own congestion control
 * (conn->cc) is the sum of theirs then. Invariant: a segment in flight whose `path` is not 0 is in
 * that path's list; all others are in sentmap.sent.
 */

typedef struct btl_ib_path {
    btl_ib_list_t sent; /* in flight by it, by time of last sending; of the usual one: unused */
    btl_ib_rack_t rack; /* what arrived by it; of the usual one: at */
    btl_ib_cc_t cc;
    btl_ib_rtt_t rtt; /* until what went by it was acknowledged */
    uint32_t
        shortest; /* us: the shortest of its bulk since paths were compared; UINT32_MAX: none */
    uint64_t off_until; /* us: bulk does without it until then: it is slow, or died again and again;
                           if that is over: it is used by its present port since then */
    uint32_t in_flight; /* of the usual one: unused */
    uint32_t newly;     /* segments that the acknowledgement in hand names */
    uint32_t acked;     /* segments of bulk since paths were compared */
    uint8_t flow;       /* btl_ib_tx_t.flow */
    uint8_t missed;     /* times in a row that what was in flight was not acknowledged in time */
    uint8_t deaths;     /* in a row */
    uint8_t slow;       /* times in a row that it was found slow */
    bool limited;       /* its window held bulk back since paths were compared */
} btl_ib_path_t;

typedef struct btl_ib_paths {
    uint32_t count;       /* the usual one is path[0] */
    uint32_t now;         /* that a batch of bulk leaves by; 0: also while none does */
    uint32_t sampled;     /* that the round trip of the acknowledgement in hand is of; UINT32_MAX:
                             none that is known */
    bool leaving;         /* the last one is not used any more */
    uint64_t looked_at;   /* us: when paths were last looked at, */
    uint64_t compared_at; /* us: and compared */
    uint64_t best_rate;   /* segments of bulk in a second, by all, of late */
    uint64_t acked;       /* segments, by all */
    uint64_t trial_at;    /* us: when the last one began to be measured; 0: it is no trial */
    uint64_t trial_acked; /* `acked` then */
    uint64_t needed;      /* segments in a second, for it to stay; 0: its delay decides */
    btl_ib_path_t path[]; /* attr.paths + 1 of them */
} btl_ib_paths_t;

/* Of any connection: its paths, and whether they seem to be capped, or slow. */
typedef struct btl_ib_capped {
    btl_ib_paths_t *paths; /* by which bulk leaves at once; NULL: by one */
    uint64_t since;        /* us: when the present period began */
    uint64_t next_at;      /* us: no path is tried before */
    uint32_t acked;        /* segments by then; wraps */
    uint32_t lost;         /* in the period */
    uint32_t delay;     /* us: the shortest that certainly the network took when some was found */
    uint32_t shortest;  /* us: the same of all acknowledgements of the period; if there are several
                           paths of all bulk, without what hosts took where that is known;
                           UINT32_MAX: none */
    uint64_t queued_at; /* us: since then all periods met a queue in the network; 0: the last did
                           not */
    uint8_t periods;    /* in a row in which it seemed so */
    uint8_t failed;     /* trials in a row */
    bool watched;       /* there is something to be judged, or several paths */
    bool limited;       /* the window held the sender back in the period */
} btl_ib_capped_t;

/* ---- what there is: btl_ib_path_health.c decides ---- */

/* Adds a path, of which nothing is known. The caller knows that the transport has one more flow.
 * Returns false if there is no memory. */
bool btl_ib_paths_add(struct btl_ib_conn *conn);

/* Removes the last path, by which nothing is in flight any more. */
void btl_ib_paths_remove_last(struct btl_ib_conn *conn);

/* Forgets what is known of a path: its flow has another port. */
void btl_ib_path_begin(struct btl_ib_conn *conn, uint32_t i);

/* True if the usual path has a flow of its own: not that of another one, as it has if its own was
 * left. */
bool btl_ib_paths_usual_has_flow(const struct btl_ib_conn *conn);

/* True if bulk may leave by a path. */
bool btl_ib_path_is_used(const struct btl_ib_conn *conn, uint32_t i);

/* Returns how long an answer to what is in flight by a path may take, us: of the usual one also if
 * there is no other. */
uint32_t btl_ib_path_timeout(const struct btl_ib_conn *conn, uint32_t i);

/* Sets the window, pace and burst of the connection: what all paths together allow. */
void btl_ib_paths_sum(struct btl_ib_conn *conn);

/* Ends all paths but the usual one: the route changed, or the connection ends. What is in flight by
 * them counts as that one's. */
void btl_ib_paths_end(struct btl_ib_conn *conn);

/* Ends paths by which nothing is in flight, after nothing was sent for long. */
void btl_ib_paths_idle(struct btl_ib_conn *conn);

/* ---- what leaves by them, and what becomes of it ---- */

/* Notes that the usual path takes another flow than conn->flow.now: if that is another path's, bulk
 * uses it from now on only. */
void btl_ib_paths_usual_moves(struct btl_ib_conn *conn);

/* Notes that the usual path has its own flow again, which was left: trials beside the other one say
 * nothing of it, and the next need not wait. */
void btl_ib_paths_usual_found(struct btl_ib_conn *conn);

/* Called before a segment is taken for lost: tells the congestion control of its path, and notes
 * what shows whether bulk is capped. */
void btl_ib_paths_lost(struct btl_ib_conn *conn, const struct btl_ib_segment *segment);

/* Chooses the path that the next batch of bulk leaves by (paths->now). Returns for how many
 * segments it has room; 0: none has enough. */
uint32_t btl_ib_paths_choose(struct btl_ib_conn *conn);

/* Has what follows leave by the usual one again. */
void btl_ib_paths_choose_usual(struct btl_ib_conn *conn);

/* Returns the flow of a datagram of bulk. */
uint8_t btl_ib_paths_flow(const struct btl_ib_conn *conn);

/* Moves segments of bulk, which were put into sentmap.sent as they left, to the path that was
 * chosen: `count` in a row, from `first` on. */
void btl_ib_paths_left(struct btl_ib_conn *conn, struct btl_ib_segment *first, uint32_t count);

/* Notes that a segment of a path is no more in flight by it: it was lost, or leaves by another
 * one. */
void btl_ib_paths_end_flight(struct btl_ib_conn *conn, struct btl_ib_segment *segment);

/* Notes that segments, `last` the last of them, are acknowledged. */
void btl_ib_paths_acked(struct btl_ib_conn *conn, const struct btl_ib_segment *last,
                        uint32_t count);

/* Notes that a segment arrived by its path. */
void btl_ib_paths_arrived(struct btl_ib_conn *conn, const struct btl_ib_segment *segment);

#endif
