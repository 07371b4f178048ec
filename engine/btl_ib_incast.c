/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_incast.h"

#include "btl_ib_ack_write.h"
#include "btl_ib_list.h"
#include "btl_ib_state.h"

enum {
    PERIOD = 1000,         /* us at least, */
    PERIOD_SEGMENTS = 64,  /* and segments: what a share of losses is taken of */
    PERIOD_MAX = 250000,   /* us: what is longer had a pause in it, and says nothing */
    BEST_KEPT = 1000000,   /* us */
    SHARE_KEPT = 1000000,  /* us */
    CROWD_KEPT = 10000000, /* us without several senders, after which the bound is forgotten */

    MISSING = 256 / 64,     /* 1/256 of the segments that may be missing, */
    MISSING_MOST = 256 / 4, /* and where the losses themselves may cost the rate */
    COSTLY = 1024,          /* segments that losses while a bound costs rate are judged by */
    BORNE_MOST = 256 / 5,   /* of them: more is worth the bound */
    BORNE_KEPT = 10000000,  /* us */
    CURED_MOST = 256 / 16,  /* 1/256 of the segments that may be missing where a bound helps */
    JUDGED = 1000000,       /* us with a bound that are judged together, */
    TRIAL = 500000,         /* and those without one that they are compared with */
    SUM_LONGEST = 4,        /* times that, until a sum of rare periods is given up */
    FREE_KEPT = 10000000,   /* us without one, or until the next trial, */
    DOUBLINGS_MAX = 5,      /* and how often that is doubled */
    RATE_PERIODS = 8,
    FULL_PERCENT = 92, /* of the best rate: it is full */

    QUEUE_LEAST = 20, /* us above 3/2 of the shortest round trip: there is a queue */
    QUEUED_LEAST = 3, /* segments beyond what the path holds: less would cost rate */

    HOLD = 0xff,        /* told to a peer that has to wait for its turn */
    TURN = 32,          /* segments */
    TURN_FREE = 2,      /* segments in a row of a peer that needs no turn: it sends little */
    UNUSED = 50,        /* us, and two round trips, after which a silent peer's turn ends, */
    PAUSE = PERIOD / 3, /* and, with four, in which a peer that sends little begins anew */

    /* In flight as many times what arrives in a round trip, the bound bounds nothing. */
    USELESS = 64,
};

/* ---- on the wire: a number of 3 bits and an exponent, as the picture in btl_ib_wire.h ---- */

static uint8_t encode(uint32_t segments)
{
    uint32_t exponent = 0;

    while (segments > 15) {
        segments /= 2;
        exponent++;
    }
    return (uint8_t) (segments < 8 ? segments : (exponent + 1) * 8 + segments - 8);
}

static uint32_t decode(uint8_t share)
{
    const uint32_t number = share % 8;

    return share < 8 ? number
                     : btl_ib_clip_u32((uint64_t) (8 + number) << (share / 8 - 1), UINT32_MAX);
}

/* ---- the receiver ---- */

/* Returns the peers that sent in this period: as many as would, if each sent as much. */
static uint32_t senders_now(const btl_ib_incast_t *incast)
{
    const uint64_t received = incast->received;

    return incast->squares == 0
               ? 0
               : btl_ib_clip_u32((received * received + incast->squares / 2) / incast->squares,
                                 UINT32_MAX);
}

/* Returns the peers that send at present; while some wait for a turn those whose turn it is. */
static uint32_t senders_of(const btl_ib_incast_t *incast)
{
    return !btl_ib_list_empty(&incast->held) ? btl_ib_max_u32(incast->grants, 2)
                                             : btl_ib_max_u32(senders_now(incast), incast->before);
}

/* Adds a period to what arrives in the long run, as single ones look far better or worse where a
 * host is busy. Returns whether the rate of the last 8 to 16 is about the best of late. */
static bool note_rate(btl_ib_incast_rate_t *rate, uint32_t segments, uint64_t time, uint64_t now)
{
    rate->segments[0] += segments;
    rate->time[0] += time;
    const uint64_t sum = (uint64_t) rate->segments[0] + rate->segments[1];
    const uint32_t recent =
        btl_ib_clip_u32(sum * 1000000 / (rate->time[0] + rate->time[1]), UINT32_MAX);
    const uint32_t best = btl_ib_max_u32(rate->best[0], rate->best[1]);

    if (++rate->periods == RATE_PERIODS) {
        if (now - rate->renewed_at > BEST_KEPT) {
            rate->best[1] = now - rate->renewed_at > 2 * BEST_KEPT ? 0 : rate->best[0];
            rate->best[0] = 0;
            rate->renewed_at = now;
        }
        rate->best[0] = btl_ib_max_u32(rate->best[0], recent);
        rate->segments[1] = rate->segments[0];
        rate->time[1] = rate->time[0];
        rate->segments[0] = 0;
        rate->time[0] = 0;
        rate->periods = 0;
    }
    return (uint64_t) recent * 100 >= (uint64_t) best * FULL_PERCENT;
}

/* True if more than 1/256 * `part` of the segments of a period are missing. With `chance`: so many
 * more that it is none (three standard deviations). */
static bool is_missing(const btl_ib_incast_t *incast, uint32_t part, bool chance)
{
    const uint64_t usual = ((uint64_t) incast->received + incast->missing) * part;
    const uint64_t missing = (uint64_t) incast->missing * 256;

    return missing > usual && (!chance || (missing - usual) * (missing - usual) > 9 * 256 * usual);
}

/* Bears, after a while, as many missing segments without a bound: they are missing although the
 * bound costs rate, so there is hardly a queue that it could shorten. */
static void bear(btl_ib_incast_t *incast, bool full, uint64_t now)
{
    if (full || incast->bound == 0) {
        return;
    }
    incast->costly.received += incast->received;
    incast->costly.missing += incast->missing;
    const uint64_t all = (uint64_t) incast->costly.received + incast->costly.missing;
    if (all < COSTLY) {
        return;
    }
    const uint32_t part = (uint32_t) ((uint64_t) incast->costly.missing * 256 / all);
    if (part >= MISSING && part <= BORNE_MOST) {
        incast->borne = part + part / 2;
        incast->borne_until = now + BORNE_KEPT;
        incast->bound = 0;
    }
    incast->costly.received = 0;
    incast->costly.missing = 0;
}

static void begin_sum(btl_ib_incast_cost_t *cost)
{
    cost->time = 0;
    cost->received = 0;
    cost->missing = 0;
}

/* Ends a trial in which `rate` segments a second came. */
static void end_trial(btl_ib_incast_cost_t *cost, uint64_t rate, uint64_t now)
{
    const bool costs = (uint64_t) cost->bounded * 100 < rate * FULL_PERCENT;

    cost->on_trial = false;
    cost->free_until = costs ? now + FREE_KEPT : 0;
    cost->next_at = costs ? 0 : now + ((uint64_t) FREE_KEPT << cost->failed);
    cost->failed = costs ? 0 : (uint8_t) btl_ib_min_u32(cost->failed + 1u, DOUBLINGS_MAX);
}

/* Adds a period of `time` us that ends `now`, with a bound or on trial, to the sum that is judged.
 * Begins a trial, or ends it, when that is enough. */
static void judge_cost(btl_ib_incast_t *incast, uint64_t time, uint64_t now)
{
    btl_ib_incast_cost_t *cost = &incast->cost;
    const uint64_t enough = cost->on_trial ? TRIAL : JUDGED;

    if (incast->bound == 0 && !cost->on_trial) {
        return;
    }
    cost->since = cost->time == 0 ? now : cost->since;
    cost->time += time;
    cost->received += incast->received;
    cost->missing += incast->missing;
    const bool rare = now - cost->since > SUM_LONGEST * enough;
    if (cost->time < enough && !rare) {
        return;
    }
    const uint64_t all = (uint64_t) cost->received + cost->missing;
    const uint64_t rate = rare ? 0 : (uint64_t) cost->received * 1000000 / cost->time;
    if (cost->on_trial) {
        end_trial(cost, rate, now);
    } else if (!rare && now >= cost->next_at && (uint64_t) cost->missing * 256 > all * CURED_MOST) {
        cost->on_trial = true;
        cost->bounded = btl_ib_clip_u32(rate, UINT32_MAX);
        incast->bound = 0;
    }
    begin_sum(cost);
}

/* Judges a period of `time` us that ends `now`: sets the bound. */
static void judge(btl_ib_incast_t *incast, uint64_t time, uint64_t now)
{
    const uint32_t senders = senders_of(incast);
    const uint32_t trip = btl_ib_clip_u32(incast->trips / incast->received, UINT32_MAX);
    const uint32_t least = btl_ib_clip_u32(incast->trips_least / incast->received, UINT32_MAX / 2);
    const bool full = note_rate(&incast->rate, incast->received, time, now);
    bear(incast, full, now);
    const bool bears = now < incast->borne_until;
    const bool queued = trip > least + least / 2 + QUEUE_LEAST;
    /* Losses without a queue are not the senders'. */
    const bool overflows = queued && is_missing(incast, bears ? incast->borne : MISSING, bears);
    const bool collapses = queued && is_missing(incast, MISSING_MOST, false);
    /* Segments in flight that arrived (J. Little). */
    const uint32_t flight = btl_ib_clip_u32(incast->trips / time + 1, UINT32_MAX / USELESS);
    const uint32_t path = btl_ib_clip_u32(incast->trips_least / time, UINT32_MAX / USELESS);

    incast->trip = trip;
    if (now - incast->crowd_at > CROWD_KEPT) {
        incast->bound = 0;
        incast->cost = (btl_ib_incast_cost_t){0};
    }
    incast->crowd_at = senders >= 2 ? now : incast->crowd_at;
    if (senders >= 2) {
        judge_cost(incast, time, now);
    }
    uint32_t bound = incast->bound;
    if (senders < 2 || trip == 0 || incast->cost.on_trial || now < incast->cost.free_until
        || (bound == 0 && !overflows && !collapses)) {
        return;
    }
    if (bound == 0) {
        bound = flight - flight / 8;
    } else if (collapses || (overflows && full)) {
        const uint32_t half = bound / 2; /* few segments arrive in a period of many losses */
        bound = btl_ib_min_u32(bound, flight);
        bound = btl_ib_max_u32(bound - bound / 8, half);
    } else if (!full) {
        bound += bound / (overflows ? 64 : 8) + 1;
    } else if (queued) {
        bound -= (bound + 15) / 16;
    } else {
        bound += bound / 64 + 1;
    }
    incast->bound = bound > flight * USELESS ? 0 : btl_ib_max_u32(bound, path + QUEUED_LEAST);
}

/* Ends the period, with datagrams of this connection. */
static void end_period(btl_ib_conn_t *conn, uint64_t now)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_incast_t *incast = &conn->rail->incast;
    const uint32_t before = incast->bound;

    judge(incast, now - incast->from, now);
    if (before == 0 && incast->bound != 0) {
        engine->count.incasts++;
        BTL_IB_LOG_DETAIL(engine,
                          "rail %u: %u peers send, and %u of %u segments are missing: "
                          "together they may have %u in flight",
                          conn->rail->index, senders_of(incast), incast->missing,
                          incast->missing + incast->received, incast->bound);
    }
}

static void begin_period(btl_ib_incast_t *incast, uint32_t before, uint64_t now)
{
    incast->before = before;
    incast->received = 0;
    incast->missing = 0;
    incast->squares = 0;
    incast->trips = 0;
    incast->trips_least = 0;
    incast->from = now;
    incast->period++;
}

/* ---- turns ---- */

/* Takes a peer off both lists. */
static void unlist(btl_ib_incast_t *incast, btl_ib_incast_share_t *share)
{
    if (!btl_ib_list_empty(&share->link)) {
        btl_ib_list_remove(&share->link);
        incast->grants -= !share->held;
        share->held = false;
    }
}

/* Begins the turn of a peer. */
static void grant(btl_ib_conn_t *conn, uint64_t now)
{
    btl_ib_incast_t *incast = &conn->rail->incast;

    unlist(incast, &conn->incast);
    conn->incast.turn = 0;
    conn->incast.heard_at = now;
    btl_ib_list_push_tail(&incast->granted, &conn->incast.link);
    incast->grants++;
}

/* Has a peer wait for its next turn, and be told so at once. */
static void hold(btl_ib_conn_t *conn)
{
    btl_ib_incast_t *incast = &conn->rail->incast;

    unlist(incast, &conn->incast);
    conn->incast.held = true;
    btl_ib_list_push_tail(&incast->held, &conn->incast.link);
    btl_ib_ack_tx_set_pending(conn, 1, true);
}

void btl_ib_incast_pass_turns(btl_ib_conn_t *conn)
{
    btl_ib_incast_t *incast = &conn->rail->incast;
    const uint64_t now = conn->engine->clock.now;
    btl_ib_conn_t *first = BTL_IB_LIST_FIRST(btl_ib_conn_t, &incast->granted, incast.link);

    if (first != NULL && now > first->incast.heard_at + 2 * (uint64_t) incast->trip + UNUSED) {
        unlist(incast, &first->incast);
    }
    while ((first = BTL_IB_LIST_FIRST(btl_ib_conn_t, &incast->held, incast.link)) != NULL
           && (incast->bound == 0 || incast->grants < incast->bound)) {
        grant(first, now);
        btl_ib_ack_tx_set_pending(first, 1, true);
    }
}

/* True if the peer was away between its polls in the last second: it would not begin its turn when
 * it is told so, and nobody else may meanwhile. */
static bool is_away_at_times(const btl_ib_conn_t *conn, uint64_t now)
{
    return now < conn->loss.pauses.until;
}

/* Counts segments of a peer for its turn: one that sends more than a few in a row takes turns, if
 * there are more such peers than segments that may be in flight. */
static void take_turn(btl_ib_conn_t *conn, uint32_t count, uint64_t now)
{
    btl_ib_incast_t *incast = &conn->rail->incast;
    btl_ib_incast_share_t *share = &conn->incast;
    const bool listed = !btl_ib_list_empty(&share->link);

    if (!listed && now > share->heard_at + 4 * (uint64_t) incast->trip + PAUSE) {
        share->turn = 0;
    }
    share->turn = (uint16_t) btl_ib_min_u32(share->turn + count, UINT16_MAX);
    share->heard_at = now;
    if (is_away_at_times(conn, now)) {
        unlist(incast, share);
    } else if (!listed && share->turn > TURN_FREE) {
        if (incast->grants < incast->bound) {
            grant(conn, now);
        } else {
            hold(conn);
        }
    } else if (listed && !share->held) {
        btl_ib_list_remove(&share->link);
        btl_ib_list_push_tail(&incast->granted, &share->link);
        if (share->turn >= TURN
            && (!btl_ib_list_empty(&incast->held) || incast->grants > incast->bound)) {
            hold(conn);
        }
    }
    btl_ib_incast_pass_turns(conn);
}

void btl_ib_incast_end(btl_ib_conn_t *conn)
{
    unlist(&conn->rail->incast, &conn->incast);
}

/* Counts what a peer sends in the period. */
static void add(btl_ib_conn_t *conn, uint32_t count)
{
    btl_ib_incast_t *incast = &conn->rail->incast;
    btl_ib_incast_share_t *share = &conn->incast;

    if (share->period != incast->period) {
        share->period = incast->period;
        share->sent = 0;
    }
    incast->received += count;
    incast->squares += (2 * (uint64_t) share->sent + count) * count; /* (sent + count)^2 - sent^2 */
    share->sent += count;
    incast->trips += (uint64_t) count * btl_ib_rtt_smoothed(&conn->loss.rtt, 0);
    incast->trips_least += (uint64_t) count * conn->loss.rtt.min;
}

/* Returns how many segments are passed over from `top` to `seq`, and did not get RNR. */
static uint32_t passed_over(const btl_ib_conn_t *conn, uint32_t channel, uint32_t top, uint32_t seq)
{
    const uint32_t rnr =
        conn->rnr.runs == NULL ? 0 : btl_ib_rnr_runs_within(conn->rnr.runs, channel, top, seq);

    /* A SKIP that comes late passes over many, which nobody sent. */
    return btl_ib_min_u32(seq - top - rnr, PERIOD_SEGMENTS);
}

void btl_ib_incast_arriving(btl_ib_conn_t *conn, uint32_t channel, uint32_t seq, uint32_t count,
                            bool again)
{
    btl_ib_incast_t *incast = &conn->rail->incast;
    const uint32_t top = conn->rx[channel].window.top;
    const uint64_t now = conn->engine->clock.now;
    const uint64_t time = now - incast->from;

    if (time > PERIOD_MAX) { /* it says nothing, and who sent may be done */
        begin_period(incast, 0, now);
    } else if (time >= PERIOD && incast->received + incast->missing >= PERIOD_SEGMENTS) {
        end_period(conn, now);
        begin_period(incast, senders_now(incast), now);
    }
    add(conn, count);
    if (incast->bound != 0 || conn->incast.held) {
        take_turn(conn, count, now);
    }
    if (btl_ib_seq_before(top, seq)) {
        incast->missing += passed_over(conn, channel, top, seq);
    } else if (seq != top && !again) {
        incast->missing -= btl_ib_min_u32(incast->missing, count); /* it was overtaken */
    }
}

uint8_t btl_ib_incast_share(const btl_ib_conn_t *conn)
{
    const btl_ib_incast_t *incast = &conn->rail->incast;

    if (conn->incast.held) {
        return HOLD;
    }
    if (incast->bound == 0) {
        return 0;
    }
    const uint32_t senders = senders_of(incast);
    if (senders < 2) {
        return 0;
    }
    const uint32_t sharing = btl_ib_list_empty(&conn->incast.link)
                                 ? btl_ib_max_u32(senders, incast->grants)
                                 : incast->grants;
    return encode(btl_ib_max_u32(incast->bound / sharing, 1));
}

void btl_ib_incast_told(btl_ib_conn_t *conn, uint8_t share)
{
    conn->incast.told = share;
}

bool btl_ib_incast_is_due(const btl_ib_conn_t *conn)
{
    const uint8_t told = conn->incast.told;

    if (told == 0 && conn->rail->incast.bound == 0) {
        return false;
    }
    const uint8_t now = btl_ib_incast_share(conn);
    if (told == HOLD || now == HOLD) {
        return told != now;
    }
    const uint32_t share = decode(now);
    const uint64_t before = decode(told);
    return (share == 0) != (before == 0) || share >= 2 * before || before >= 2 * (uint64_t) share;
}

/* ---- the sender ---- */

static bool is_expired(const btl_ib_conn_t *conn)
{
    return conn->engine->clock.now - conn->incast.received_at > SHARE_KEPT;
}

bool btl_ib_incast_received(btl_ib_conn_t *conn, uint8_t share, uint32_t stamp)
{
    const bool held = conn->incast.segments == 0;

    if (btl_ib_seq_before(stamp, conn->incast.stamp) && !is_expired(conn)) {
        return false;
    }
    conn->incast.segments = share == 0 ? UINT32_MAX : share == HOLD ? 0 : decode(share);
    conn->incast.received_at = conn->engine->clock.now;
    conn->incast.stamp = stamp;
    return held && share != HOLD;
}

void btl_ib_incast_expire(btl_ib_conn_t *conn)
{
    if (is_expired(conn)) {
        conn->incast.segments = UINT32_MAX;
    }
}
