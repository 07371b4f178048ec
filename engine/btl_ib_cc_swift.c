/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Congestion control by delay, after Swift (G. Kumar et al., "Swift: Delay is Simple and Effective
 * for Congestion Control in the Datacenter", SIGCOMM 2020): additive increase while the delay is
 * below a target, a decrease by the excess above it, once a round trip; windows below one segment,
 * which are paced. Marks are answered as by DCTCP. What differs, and why:
 *
 * - Fabrics here are not known: round trips are from 10 us to many ms. The target is the shortest
 *   round trip seen lately plus an allowance for the queue, not a constant. The shortest is
 *   forgotten after a while, as routes change.
 * - Delays are measured by processes that share processors. What may have been a host that did not
 *   poll is taken off, and the shortest delay of a round counts (as in CoDel, RFC 8289): a queue in
 *   the network delays all, a pause of a host some.
 * - A process that computes between its calls takes in a call what came during the pause, and then
 *   sends what the window allows: all that is carried until the next. So in rounds with pauses, and
 *   no queue in the network, the window doubles as at first, and what lies at a receiver is no
 *   reason to reduce it. Pauses hide a short queue: the window doubles up to where losses have cut
 *   it to, not beyond. Measured with 4 ranks on 2 cores behind 128 KiB at 200 Mbit/s: 7 % were sent
 *   again instead of 25 %.
 * - Many flows in one queue: instead of a target that is higher for small windows (Swift's flow
 *   scaling), each may have a few segments in it, as in Vegas (L. Brakmo and L. Peterson, "TCP
 *   Vegas", JSAC 1995): a sender with more of the path has more of the queue, and backs off first.
 * - The increase grows while no queue shows (hyperactive increase, R. Mittal et al., "TIMELY",
 *   SIGCOMM 2015), and starts by doubling: one segment a round trip fills no long path.
 * - Losses. Swift reduces the window for each. Here a link may lose 1 or 5 % at random, and a
 *   smaller window would cure nothing. But a queue may overflow without a delay that anybody sees
 *   (a receiver's small socket buffer, a shallow switch): then a good part of a window is lost, and
 *   only a smaller window helps. So the share of losses decides: up to an eighth is borne, more
 *   cuts the window by that share, to what evidently got through. If such a cut does not lower the
 *   share and no queue shows, the losses do not come from us: half as much again, up to 3/8, is
 *   borne from then on.
 * - Marks (CE) tell of a queue that is too short for its delay to be seen. They are answered as in
 *   DCTCP (RFC 8257), by their share: half of it, smoothed, so that a queue which is always there
 *   takes little at a time. If no delay shows, half of that: the marks may be another path's.
 * - Delay alone takes the window to four segments, not below: on a slow link the time that segments
 *   themselves take would look like a queue, and a loss is found by what was sent after it. Losses
 *   take it lower.
 */

#include "btl_ib_cc.h"
#include "btl_ib_list.h"

enum {
    SEGMENT = 256, /* unit of windows */

    WINDOW_MIN = SEGMENT / 64,
    DELAY_FLOOR = 4 * SEGMENT,

    ALLOWANCE_MIN = 20,      /* us of queue: below it is noise, and bursts of 16 segments */
    ALLOWANCE_SHARE = 8,     /* or that part of the base */
    QUEUE_OWN = 4 * SEGMENT, /* of the queue: as much may be ours, */
    QUEUE_BURSTS = 4,        /* or so much of what goes through hosts as one */
    PAUSE_ALLOWANCE = 100,   /* us more where a host paused, which was busy around that as well */
    HOST_ALLOWANCE = 50,     /* us that data may lie at their receiver, */
    HOST_LEAST = 128,      /* and segments that may always be in flight: enough for a short path, */
    HOST_BURSTS = 9,       /* or so many bursts: one in each call and in between, two without ACK */
    SAMPLES_START = 8,     /* that end the doubling within a round (RFC 9406) */
    BASE_PERIOD = 5000000, /* us */

    INCREASE_LEAST = SEGMENT / 4,
    CALM_ROUNDS = 5,    /* before the increase grows */
    INCREASE_SHARE = 8, /* to that part of the window in a round at most */
    CUT_MOST = 2,       /* in a round: leave at least that part of the window */
    DRAIN_CUTS = 4,
    DRAIN_SHARE = 2,           /* more than the queue: that part of the path, */
    DRAIN_MOST = 16 * SEGMENT, /* at most so much */

    JUDGE_LOSSES = 64, /* segments that a share of losses is taken of */
    LOSS_BORNE = SEGMENT / 8,
    LOSS_BORNE_MAX = SEGMENT * 3 / 8,

    ALPHA_SHARE = 16, /* of marks of the last round: that part of the smoothed share of marks */
    ALPHA_ALL = 65536,

    PACE_RTT = 50, /* us: shorter paths are paced enough by their acknowledgements */
    PACE_BURST = 16,
    PACE_MAX = 2000 * 1000 * 1000, /* ns */
};

/* ---- window and pace ---- */

/* Returns the ns between segments: twice the rate of the window while it doubles, else 5/4 of it;
 * exactly its rate below one segment. Clipped in 64 bits: a long path with a small window needs
 * more than 32. */
static uint32_t pace_of(const btl_ib_cc_swift_t *swift)
{
    uint64_t pace = (uint64_t) swift->base * 1000 * SEGMENT / swift->window;

    if (swift->window >= SEGMENT) {
        if (swift->base < PACE_RTT) {
            return 0;
        }
        pace = swift->window < swift->slow_start ? pace / 2 : pace * 4 / 5;
    }
    return btl_ib_clip_u32(pace, PACE_MAX);
}

static void set_window(btl_ib_cc_t *cc, uint64_t window)
{
    btl_ib_cc_swift_t *swift = &cc->swift;
    uint64_t max = (uint64_t) cc->max * SEGMENT;

    window = window > max ? max : window;
    swift->window = window < WINDOW_MIN ? WINDOW_MIN : (uint32_t) window;
    cc->window = btl_ib_max_u32(swift->window / SEGMENT, 1);
    cc->pace = pace_of(swift);
    cc->burst = swift->window < SEGMENT
                    ? 1
                    : btl_ib_min_u32(btl_ib_max_u32(cc->window / 4 + 1, 2),
                                     btl_ib_max_u32(PACE_BURST, cc->gso_segments));
}

static void swift_init(btl_ib_cc_t *cc)
{
    cc->swift.delay = UINT32_MAX;
    cc->swift.whole = UINT32_MAX;
    cc->swift.slow_start = UINT32_MAX;
    cc->swift.overflow = UINT32_MAX;
    cc->swift.alpha = ALPHA_ALL; /* a first mark, where a queue delays, halves the window */
    set_window(cc, (uint64_t) BTL_IB_CC_INIT * SEGMENT);
}

/* ---- delay ---- */

static void note_base(btl_ib_cc_t *cc, uint32_t rtt, uint64_t now)
{
    btl_ib_cc_swift_t *swift = &cc->swift;
    uint32_t before = swift->base;

    if (now >= swift->base_until) {
        swift->base = swift->base_next;
        swift->base_next = 0;
        swift->overflow = UINT32_MAX;
        swift->base_until = now + BASE_PERIOD;
    }
    if (swift->base_next == 0 || rtt < swift->base_next) {
        swift->base_next = rtt;
    }
    if (swift->base == 0 || swift->base_next < swift->base) {
        swift->base = swift->base_next;
    }
    if (swift->base != before) {
        cc->pace = pace_of(swift);
    }
}

static uint32_t allowance(const btl_ib_cc_swift_t *swift)
{
    return btl_ib_max_u32(ALLOWANCE_MIN, swift->base / ALLOWANCE_SHARE)
           + (swift->paused ? PAUSE_ALLOWANCE : 0);
}

/* True if all delays of this round were longer than the base by more than `by` us. */
static bool delayed(const btl_ib_cc_swift_t *swift, uint32_t by)
{
    return swift->delay != UINT32_MAX && swift->delay > swift->base + by;
}

/* True if there is a queue, with more than our part in it. */
static inline bool queueing(const btl_ib_cc_t *cc)
{
    const btl_ib_cc_swift_t *swift = &cc->swift;

    if (!delayed(swift, allowance(swift))) {
        return false;
    }
    uint64_t own = (uint64_t) swift->window * (swift->delay - swift->base) / swift->delay;
    return own > btl_ib_max_u32(QUEUE_OWN, QUEUE_BURSTS * cc->gso_segments * SEGMENT);
}

/*
 * Reduces the window for a queue: halves our part of it, and with each DRAIN_CUTS-th cut removes
 * all of it and a bit more. If all senders do so the queue is empty for a moment, and all measure
 * the true base. Until then a sender that began when the queue was there takes it for a part of the
 * path, and has more than its share.
 */
static void cut_for_delay(btl_ib_cc_t *cc)
{
    btl_ib_cc_swift_t *swift = &cc->swift;
    uint32_t path = (uint32_t) ((uint64_t) swift->window * swift->base / swift->delay);
    uint32_t window = swift->window / 2 + path / 2;

    swift->calm = 0;
    swift->slow_start = 0;
    if (++swift->cuts % DRAIN_CUTS == 0) {
        window = path - btl_ib_min_u32(path / DRAIN_SHARE, DRAIN_MOST);
    }
    window = btl_ib_max_u32(btl_ib_max_u32(window, swift->window / CUT_MOST), DELAY_FLOOR);
    set_window(cc, btl_ib_min_u32(window, swift->window));
}

static void begin_round(btl_ib_cc_swift_t *swift, uint64_t now)
{
    swift->round_at = now;
    swift->delay = UINT32_MAX;
    swift->whole = UINT32_MAX;
    swift->samples = 0;
    swift->limited = false;
    swift->paused = false;
}

/* Returns the segments that may always be in flight, in units of windows. */
static uint32_t host_least(const btl_ib_cc_t *cc)
{
    return btl_ib_max_u32(HOST_LEAST, HOST_BURSTS * cc->gso_segments) * SEGMENT;
}

/* True if more segments than those wait at a receiver that is slower than its network. */
static bool lies_at_host(const btl_ib_cc_t *cc)
{
    const btl_ib_cc_swift_t *swift = &cc->swift;

    if (swift->paused || swift->whole == UINT32_MAX
        || swift->whole <= swift->base + HOST_ALLOWANCE) {
        return false;
    }
    return (uint64_t) swift->window * (swift->whole - swift->base) / swift->whole > host_least(cc);
}

/* Bounds the window for a host that is slow. Swift has a second window for that. Here it is a
 * bound: more segments at the host make nothing faster, but small messages wait behind them. */
static void cut_for_host(btl_ib_cc_t *cc)
{
    btl_ib_cc_swift_t *swift = &cc->swift;
    uint64_t path = (uint64_t) swift->window * swift->base / swift->whole;

    swift->slow_start = 0;
    set_window(cc, path + host_least(cc));
}

/* Adds one segment; more, the longer there is no sign of a queue. Windows below one segment grow in
 * proportion to themselves, or many senders that share a queue would overflow it again at once. */
static void increase(btl_ib_cc_t *cc)
{
    btl_ib_cc_swift_t *swift = &cc->swift;
    uint32_t most = btl_ib_max_u32(swift->window / INCREASE_SHARE, INCREASE_LEAST);

    swift->calm = delayed(swift, allowance(swift) / 2) ? 0 : swift->calm + 1;
    uint32_t doublings = swift->calm > CALM_ROUNDS ? swift->calm - CALM_ROUNDS : 0;
    uint32_t more = (uint32_t) SEGMENT << btl_ib_min_u32(doublings, 20);
    set_window(cc, (uint64_t) swift->window
                       + btl_ib_min_u32(btl_ib_min_u32(more, most), swift->window));
}

/* ---- losses ---- */

static uint32_t borne(const btl_ib_cc_swift_t *swift)
{
    return btl_ib_max_u32(LOSS_BORNE, swift->bearable);
}

/* True if the window would be reduced if losses were judged now: then it must not grow until they
 * are. */
static bool losing(const btl_ib_cc_swift_t *swift)
{
    return (uint64_t) swift->lost * SEGMENT > (uint64_t) swift->seen * borne(swift);
}

static void judge_losses(btl_ib_cc_t *cc)
{
    btl_ib_cc_swift_t *swift = &cc->swift;
    uint32_t share = (uint32_t) ((uint64_t) swift->lost * SEGMENT / swift->seen);

    swift->seen = 0;
    swift->lost = 0;
    if (swift->share != 0 && !swift->queued && share >= swift->share / 4 * 3) { /* no help */
        swift->bearable = btl_ib_min_u32(share + share / 2, LOSS_BORNE_MAX);
    } else if (share < swift->bearable / 4) {
        swift->bearable = 0;
    }
    swift->queued = false;
    swift->share = 0;
    swift->undo = 0;
    if (share > borne(swift)) {
        swift->share = share;
        swift->undo = swift->window;
        swift->calm = 0;
        swift->slow_start = 0;
        set_window(cc, (uint64_t) swift->window
                           * (SEGMENT - btl_ib_min_u32(share, SEGMENT / CUT_MOST)) / SEGMENT);
        swift->overflow = swift->window;
    }
}

static void swift_lost(btl_ib_cc_t *cc, uint64_t sent_at, uint64_t now)
{
    (void) sent_at;
    (void) now;
    cc->swift.seen++;
    cc->swift.lost++;
}

static void swift_undo(btl_ib_cc_t *cc)
{
    btl_ib_cc_swift_t *swift = &cc->swift;

    if (swift->lost > 0) {
        swift->lost--;
    } else if (swift->undo != 0) { /* the window was reduced for it, too */
        set_window(cc, btl_ib_max_u32(swift->undo, swift->window));
        swift->overflow = UINT32_MAX;
        swift->undo = 0;
        swift->share = 0;
    }
}

/* ---- marks ---- */

/* Reduces the window by half of the smoothed share of marks, or by half of that if no queue delays
 * anything here: then it is short, or on another path than this one. The answer to the delay of a
 * queue may be the greater one. What comes of this round says nothing new. */
static void cut_for_marks(btl_ib_cc_t *cc, uint64_t now)
{
    btl_ib_cc_swift_t *swift = &cc->swift;
    const bool queue = delayed(swift, allowance(swift) / 2);
    const uint64_t off = ((uint64_t) swift->window * swift->alpha >> 17) / (queue ? 1 : 2);
    const uint32_t window =
        btl_ib_max_u32(swift->window - (uint32_t) off, btl_ib_min_u32(DELAY_FLOOR, swift->window));

    if (queueing(cc)) {
        cut_for_delay(cc);
    }
    swift->calm = 0;
    swift->slow_start = 0;
    set_window(cc, btl_ib_min_u32(window, swift->window));
    swift->overflow = swift->window;
    swift->queued = true;
    if (swift->seen >= JUDGE_LOSSES) { /* marks in each round would put it off for ever */
        judge_losses(cc);
    }
    begin_round(swift, now);
}

/* Answers marks as DCTCP does (RFC 8257, 3.3): their share is smoothed over rounds, and answered at
 * most once in each. */
static bool swift_marked(btl_ib_cc_t *cc, const btl_ib_cc_marks_t *marks)
{
    btl_ib_cc_swift_t *swift = &cc->swift;

    /* Clipped: a peer may tell whatever it likes. */
    swift->marked = btl_ib_clip_u32((uint64_t) swift->marked + marks->ce, UINT32_MAX);
    swift->markable = btl_ib_clip_u32((uint64_t) swift->markable + marks->count, UINT32_MAX);
    if (marks->sent_at >= swift->marks_at) {
        const uint32_t share = (uint32_t) (((uint64_t) swift->marked << 16) / swift->markable);
        swift->alpha += share / ALPHA_SHARE - swift->alpha / ALPHA_SHARE;
        swift->marked = 0;
        swift->markable = 0;
        swift->marks_at = marks->now;
        swift->answered = false;
    }
    if (marks->ce == 0 || swift->answered) {
        return false;
    }
    swift->marks_at = marks->now; /* what is on its way was sent with the window as it was */
    swift->answered = true;
    cut_for_marks(cc, marks->now);
    return true;
}

/* ---- rounds ---- */

/* True if this round was limited by the window. A sender of one message at a time never is. But a
 * late answer may be a busy host and not a queue, and small windows ask for immediate
 * acknowledgements: so any sender may grow back to its initial window. */
static bool may_grow(const btl_ib_cc_t *cc)
{
    return cc->swift.limited || cc->window < btl_ib_min_u32(BTL_IB_CC_INIT, cc->max);
}

/* Returns what made this round longer than the shortest one. */
static btl_ib_cc_round_t round_was(const btl_ib_cc_swift_t *swift)
{
    if (delayed(swift, allowance(swift))) {
        return BTL_IB_CC_ROUND_QUEUED;
    }
    return !swift->paused && swift->whole != UINT32_MAX
                   && swift->whole > swift->base + HOST_ALLOWANCE
               ? BTL_IB_CC_ROUND_HOST
               : BTL_IB_CC_ROUND_NONE;
}

static btl_ib_cc_round_t end_round(btl_ib_cc_t *cc, uint64_t now)
{
    btl_ib_cc_swift_t *swift = &cc->swift;
    const btl_ib_cc_round_t was = round_was(swift);

    if (delayed(swift, allowance(swift) / 2)) {
        swift->queued = true;
    }
    if (queueing(cc)) {
        cut_for_delay(cc);
    } else if (lies_at_host(cc)) {
        cut_for_host(cc);
    } else if (may_grow(cc) && swift->window >= swift->slow_start && !losing(swift)) {
        increase(cc);
    }
    if (swift->seen >= JUDGE_LOSSES) {
        judge_losses(cc);
    }
    begin_round(swift, now);
    return was;
}

static bool doubles(const btl_ib_cc_t *cc, const btl_ib_cc_ack_t *ack)
{
    return cc->swift.window < cc->swift.slow_start
           || (ack->paused && cc->swift.window < cc->swift.overflow && !queueing(cc));
}

/* True if a round has one acknowledgement that says nothing new, as of a sender of one message at a
 * time: no pause, no shorter base, no delay that the least allowance does not bear. Nothing follows
 * from it then. Without a sample `rtt` is 0, and so shorter than the base, which is never above
 * `base_next`. */
static inline bool is_calm_round(const btl_ib_cc_t *cc, const btl_ib_cc_ack_t *ack)
{
    const btl_ib_cc_swift_t *swift = &cc->swift;

    return swift->samples == 0 && ack->sent_at >= swift->round_at && ack->awake == ack->rtt
           && ack->rtt - swift->base <= ALLOWANCE_MIN / 2 && ack->rtt >= swift->base_next
           && ack->now < swift->base_until && !ack->limited && !swift->limited && !ack->paused
           && !swift->paused && cc->window >= BTL_IB_CC_INIT && swift->seen < JUDGE_LOSSES;
}

/* Takes in an acknowledgement of which something may follow. Not inlined: a calm round needs no
 * stack. */
__attribute__((noinline)) static btl_ib_cc_round_t swift_learn(btl_ib_cc_t *cc,
                                                               const btl_ib_cc_ack_t *ack)
{
    btl_ib_cc_swift_t *swift = &cc->swift;

    if (ack->limited) {
        swift->limited = true;
    }
    if (ack->rtt != 0) {
        if (ack->awake == ack->rtt || swift->base == 0 || ack->rtt < swift->base) {
            note_base(cc, ack->rtt, ack->now);
        }
        swift->delay = btl_ib_min_u32(swift->delay, ack->delay);
        swift->whole = btl_ib_min_u32(swift->whole, ack->awake);
        swift->samples++;
    }
    if (ack->paused) {
        swift->paused = true;
    }
    bool overshoots = false; /* doubling until the end of the round would */
    if (ack->limited && doubles(cc, ack) && !losing(swift)) {
        set_window(cc, swift->window + (uint64_t) ack->count * SEGMENT);
        overshoots = swift->samples >= SAMPLES_START && (queueing(cc) || lies_at_host(cc));
    }
    if (overshoots || ack->sent_at >= swift->round_at) {
        return end_round(cc, ack->now);
    }
    return BTL_IB_CC_ROUND_NONE;
}

static btl_ib_cc_round_t swift_acked(btl_ib_cc_t *cc, const btl_ib_cc_ack_t *ack)
{
    cc->swift.seen += ack->count;
    if (!is_calm_round(cc, ack)) {
        return swift_learn(cc, ack);
    }
    cc->swift.round_at = ack->now;
    return BTL_IB_CC_ROUND_NONE;
}

static void swift_restart(btl_ib_cc_t *cc)
{
    btl_ib_cc_swift_t *swift = &cc->swift;

    if (swift->window > BTL_IB_CC_INIT * SEGMENT) {
        swift->slow_start = btl_ib_max_u32(swift->slow_start, swift->window);
        set_window(cc, (uint64_t) BTL_IB_CC_INIT * SEGMENT);
    }
}

const btl_ib_cc_ops_t btl_ib_cc_swift = {
    .name = "swift",
    .init = swift_init,
    .acked = swift_acked,
    .lost = swift_lost,
    .marked = swift_marked,
    .undo = swift_undo,
    .restart = swift_restart,
};
