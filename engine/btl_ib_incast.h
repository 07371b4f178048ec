/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Many to one: what all peers of a rail together may have in flight.
 *
 * Each sender knows its own losses and delays only, and begins with a window that suits a path of
 * its own. Fifteen of them overflow the queue before a receiver's port, in each gather anew. Their
 * receiver sees them all. Once a part of what several peers send is missing, it bounds what they
 * have in flight together, and each ACK tells its peer a share of that bound, which limits the
 * peer's window beside its congestion control. So receivers govern many to one, as by Homa's grants
 * (B. Montazeri et al., SIGCOMM 2018) and RCCC of Ultra Ethernet. But a share permits nothing: one
 * that is lost or old holds nobody up, and small messages, on the first channel, need none.
 *
 * The bound follows what arrives, in periods of a millisecond or longer:
 *
 *   a queue, and a quarter missing,  7/8 of what was in flight and arrived: rate times round trip;
 *   or a part at full rate           not less than half of the bound before
 *   less than full rate              1/8 more: the bound, or something else, costs rate;
 *                                    1/64 if a part is missing and there is a queue
 *   full rate, a queue               1/16 less: a smaller bound may carry as much
 *   full rate, no queue              1/64 more: the path may hold more again
 *
 * It is never less than what the path holds without a queue, and three segments.
 *
 * "Full" is the best rate of the last seconds, about: a bound that costs rate grows. Losses
 * without a queue come from elsewhere, and bound nobody. Where delays vary there may seem to be
 * one: so what is missing while the rate is less than full, and the bound therefore fills no
 * queue, is borne for some seconds, and half as much again. What got RNR is not missing.
 *
 * Where processes wait for a processor they send in bursts, which overflow a short queue whatever
 * all may have in flight, and a bound only keeps the link idle meanwhile. So where more than a 16th
 * is missing in a second with a bound, half a second without one follows. If that carries 9 % more
 * there is no bound for 10 s. If not the next trial comes after 10 s, and then later each time.
 *
 * Round trips are those of the segments that came, in the mean: one sender that is far away makes
 * no queue, and the bound of the others no larger. How many send is counted as by E. Simpson
 * ("Measurement of Diversity", Nature 1949), sum squared by sum of squares: of two that send much
 * and many that send little the two have shares as if they were alone.
 *
 * Where the bound is smaller than the number of senders they take turns, as with Homa's
 * overcommitment: as many as it has segments may send, one each or more; the others may have
 * nothing in flight on data channels until an ACK begins their turn. One segment of each of fifteen
 * would be a queue that small messages wait behind. A turn ends after some segments, or when
 * nothing comes. If the ACK that begins one is lost it ends unused; the peer's probe is answered
 * with what holds now. Peers that send a few segments at a time need no turn. Those that are away
 * between their polls take none: they would not begin it when they are told, and nobody else may
 * send meanwhile.
 *
 * A single sender gets no share: its own congestion control suffices.
 */

#ifndef BTL_IB_INCAST_H
#define BTL_IB_INCAST_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_list.h"

struct btl_ib_conn;

/* What arrives in the long run. */
typedef struct btl_ib_incast_rate {
    uint64_t time[2];     /* us: of the last periods, and of the 8 before */
    uint64_t renewed_at;  /* us: when best[0] began */
    uint32_t segments[2]; /* that came in that time */
    uint32_t best[2];     /* segments a second: the most of late, and in the second before */
    uint32_t periods;     /* in time[0] */
} btl_ib_incast_rate_t;

/* Whether the bound costs rate: what arrived in all since that was last judged, while there was
 * one, or in a trial without one. */
typedef struct btl_ib_incast_cost {
    uint64_t since; /* us: when the first period of the sum ended, */
    uint64_t time;  /* and how long all of them were */
    uint32_t received, missing;
    uint32_t bounded;    /* segments a second with a bound, before the trial */
    bool on_trial;       /* there is none, to compare */
    uint8_t failed;      /* trials in a row that carried no more */
    uint64_t free_until; /* us: there is none until then, as it costs rate */
    uint64_t next_at;    /* us: no trial begins before */
} btl_ib_incast_cost_t;

/* The receiver's side, of one rail. Segments are those of data channels. */
typedef struct btl_ib_incast {
    uint64_t from;     /* us: when the period began */
    uint16_t period;   /* its number; wraps */
    uint32_t received; /* segments in the period, */
    uint32_t missing;  /* and those that were passed over and did not come late */
    uint64_t squares;  /* of what each peer sent of them: their sum */
    uint32_t before;   /* peers that sent in the period before */
    btl_ib_incast_rate_t rate;
    uint64_t trips;       /* us: smoothed round trips of the segments: their sum, */
    uint64_t trips_least; /* and that of the shortest ones of the same peers */
    uint64_t crowd_at;    /* us: when several last sent */
    uint32_t bound;       /* segments that all may have in flight; 0: no bound */
    struct {              /* while the bound costs rate: */
        uint32_t received, missing;
    } costly;
    btl_ib_incast_cost_t cost;
    uint32_t trip; /* us: in the mean of the last period */
    btl_ib_list_t
        granted;          /* peers whose turn it is; that which is silent for longest comes first */
    btl_ib_list_t held;   /* peers that wait for theirs, in their order */
    uint32_t grants;      /* peers on the first list */
    uint32_t borne;       /* 1/256 of the segments that may be missing: no bound cures that, */
    uint64_t borne_until; /* us: until then */
} btl_ib_incast_t;

/* Both sides, of one connection. */
typedef struct btl_ib_incast_share {
    uint64_t received_at; /* sender: us: when `segments` was received, */
    uint32_t stamp;       /* and the peer's time of that ACK: an older one may come later */
    uint32_t segments;    /* sender: of data channels that may be in flight; UINT32_MAX: no bound;
                           * 0: it is not our turn */
    uint32_t sent;        /* receiver: segments that the peer sent in the period, */
    uint16_t period;      /* the last one in which it did */
    uint16_t turn;        /* receiver: segments of its turn, or in a row without one, */
    uint64_t heard_at;    /* us: and when the last one came */
    btl_ib_list_t link;   /* receiver: on `granted` or `held`, or on neither */
    bool held;            /* receiver: on `held` */
    uint8_t told;         /* receiver: what the last ACK told, as on the wire */
} btl_ib_incast_share_t;

/* Begins a route of a connection: nothing was told of it. */
static inline void btl_ib_incast_begin(btl_ib_incast_share_t *share)
{
    share->segments = UINT32_MAX;
    share->received_at = 0;
    share->stamp = 0;
    share->told = 0;
}

/* Notes that segments of a data channel arrive: `count` from `seq` on, not marked yet in the window
 * of their channel; `again`: retransmitted. */
void btl_ib_incast_arriving(struct btl_ib_conn *conn, uint32_t channel, uint32_t seq,
                            uint32_t count, bool again);

/* Returns the share of a peer as an ACK tells it (btl_ib_wire.h); 0: there is no bound. */
uint8_t btl_ib_incast_share(const struct btl_ib_conn *conn);

/* Notes that an ACK told that share. */
void btl_ib_incast_told(struct btl_ib_conn *conn, uint8_t share);

/* True if the peer was told far more or less than its share: an ACK is to be sent. */
bool btl_ib_incast_is_due(const struct btl_ib_conn *conn);

/* Notes the share that an ACK of the peer tells, which it sent at `stamp` (its time, us). It holds
 * until a newer ACK comes, or for a second: an ACK that takes it back may be lost. Returns whether
 * the turn of a peer that waited for it begins. */
bool btl_ib_incast_received(struct btl_ib_conn *conn, uint8_t share, uint32_t stamp);

/* Ends the turn of a peer that does not use it, and begins those for which there is room. */
void btl_ib_incast_pass_turns(struct btl_ib_conn *conn);

/* Forgets the turn of a peer whose incarnation ends. */
void btl_ib_incast_end(struct btl_ib_conn *conn);

/* Forgets the share if it is too old: segments wait for a window. */
void btl_ib_incast_expire(struct btl_ib_conn *conn);

#endif
