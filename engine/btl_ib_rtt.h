/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Round trip times, and pauses of processes that make them longer. */

#ifndef BTL_IB_RTT_H
#define BTL_IB_RTT_H

#include <stdbool.h>
#include <stdint.h>

/* ---- rtt ---- */

/*
 * Round-trip time estimation: RFC 6298 with the standard gains (1/8, 1/4). Samples come from echoed
 * timestamps with the peer's holding time taken off, so retransmissions give exact ones as well and
 * Karn's rule is not needed.
 */

typedef struct btl_ib_rtt {
    uint32_t srtt8;   /* 8 * SRTT, us; 0: no sample yet */
    uint32_t rttvar4; /* 4 * RTTVAR, us */
    uint32_t min;     /* the shortest seen, us */
} btl_ib_rtt_t;

/* us: longer samples say nothing more; bounding them keeps 8 * SRTT within 32 bits. */
#define BTL_IB_RTT_SAMPLE_MAX (60u * 1000 * 1000)

/* The variance term never counts for less than this, us: the granularity G of RFC 6298. */
#define BTL_IB_RTT_TICK 50u

/* Forgets all samples: they are another path's. */
static inline void btl_ib_rtt_reset(btl_ib_rtt_t *rtt)
{
    *rtt = (btl_ib_rtt_t){0};
}

/* Adds a sample of `us` microseconds; 0 counts as 1. In the averages it counts for at most `bound`,
 * which is not 0. Invariant: srtt8 is 8 or more, as no sample counts for less than 1. */
static inline void btl_ib_rtt_sample(btl_ib_rtt_t *rtt, uint32_t us, uint32_t bound)
{
    us = us == 0 ? 1 : us > BTL_IB_RTT_SAMPLE_MAX ? BTL_IB_RTT_SAMPLE_MAX : us;
    if (rtt->srtt8 == 0 || us < rtt->min) {
        rtt->min = us;
    }
    us = us < bound ? us : bound;
    if (rtt->srtt8 == 0) { /* RFC 6298, 2.2 */
        rtt->srtt8 = us * 8;
        rtt->rttvar4 = us * 2;
        return;
    }
    /* RFC 6298, 2.3: RTTVAR = 3/4 RTTVAR + 1/4 |SRTT - R'|; then SRTT = 7/8 SRTT + 1/8 R' */
    uint32_t srtt = rtt->srtt8 / 8;
    uint32_t error = srtt > us ? srtt - us : us - srtt;
    rtt->rttvar4 += error - rtt->rttvar4 / 4;
    rtt->srtt8 += us - rtt->srtt8 / 8;
}

/* Returns SRTT in us, or `initial` before the first sample. */
static inline uint32_t btl_ib_rtt_smoothed(const btl_ib_rtt_t *rtt, uint32_t initial)
{
    return rtt->srtt8 == 0 ? initial : rtt->srtt8 / 8;
}

/* Returns SRTT + max(4 * RTTVAR, tick) in us (RFC 6298, 2.3), or `initial` before the first
 * sample. */
static inline uint32_t btl_ib_rtt_timeout(const btl_ib_rtt_t *rtt, uint32_t initial)
{
    if (rtt->srtt8 == 0) {
        return initial;
    }
    return rtt->srtt8 / 8 + (rtt->rttvar4 > BTL_IB_RTT_TICK ? rtt->rttvar4 : BTL_IB_RTT_TICK);
}

/* ---- pauses ---- */

/*
 * For how long a peer's process is away between polls: a program that computes between its messages
 * is silent for milliseconds though nothing was lost, again and again. Timeouts shorter than that
 * are spurious, so they wait for it. Not where losses are frequent: there the second copy of a
 * segment may be lost, too, and its repair would wait.
 */

/* us without a call, or of a peer without a poll, from which on that process did something else, or
 * had no processor */
#define BTL_IB_PAUSE_MIN 100u
/* us that a datagram may wait for a busy receiver, which does not pause, without being a sign of a
 * queue in the network */
#define BTL_IB_QUEUE_BORNE 250u

typedef struct btl_ib_pauses {
    uint64_t until;   /* us: when `longest` is no longer expected */
    uint32_t longest; /* us: bounded, see btl_ib_rtt.c */
    uint32_t lossy;   /* grows with series of probes that repaired a loss, shrinks with others */
} btl_ib_pauses_t;

/* Returns `poll_gap` us, if that is a pause; else 0. */
static inline uint32_t btl_ib_pause_of(uint32_t poll_gap)
{
    return poll_gap > BTL_IB_PAUSE_MIN ? poll_gap : 0;
}

/* Notes that the peer told at `now` (us) that it had not polled for `poll_gap` us, more than
 * BTL_IB_PAUSE_MIN. */
void btl_ib_pauses_add(btl_ib_pauses_t *pauses, uint32_t poll_gap, uint64_t now);

/* Notes that the peer told at `now` (us) that it had not polled for `poll_gap` us, if it is a
 * pause. */
static inline void btl_ib_pauses_note(btl_ib_pauses_t *pauses, uint32_t poll_gap, uint64_t now)
{
    if (poll_gap > BTL_IB_PAUSE_MIN) {
        btl_ib_pauses_add(pauses, poll_gap, now);
    }
}

/* Judges a series of probes that is over; `repaired`: the peer did not have all that they
 * carried. */
void btl_ib_pauses_judge(btl_ib_pauses_t *pauses, bool repaired);

/* Returns how long the peer may be silent at `now` without a loss, us; 0: nothing is known. */
uint32_t btl_ib_pauses_expected(const btl_ib_pauses_t *pauses, uint64_t now);

#endif
