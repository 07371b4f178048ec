/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Congestion control: how many segments a connection may have in flight, and how far apart they
 * leave. An algorithm is a table of functions over a small state that each connection has. It is
 * told what was acknowledged, how long the network took, and what was lost, and sets `window` and
 * `pace`. It knows neither clocks nor connections.
 *
 *   none    lossless fabrics, which hold senders back by themselves: the window is always open
 *   swift   keeps the delay near a target; the default where datagrams can be lost
 *   cubic   fills the queue until it overflows: RFC 9438, for paths shared with TCP
 */

#ifndef BTL_IB_CC_H
#define BTL_IB_CC_H

#include <stdbool.h>
#include <stdint.h>

/* Segments in flight before anything is known of the path. */
#define BTL_IB_CC_INIT 64u

typedef enum btl_ib_cc_kind {
    BTL_IB_CC_AUTO, /* by the transport: none if it is reliable, else swift */
    BTL_IB_CC_NONE,
    BTL_IB_CC_SWIFT,
    BTL_IB_CC_CUBIC,
} btl_ib_cc_kind_t;

/* What an acknowledgement says. Times in us. */
typedef struct btl_ib_cc_ack {
    uint64_t now;
    uint64_t sent_at; /* when the newest segment known to have arrived was (last) sent */
    uint32_t count;   /* segments that it acknowledges, at least 1 */
    uint32_t rtt;     /* a round trip, without what the peer says it held it; 0: no sample came */
    uint32_t delay;   /* of it, the part that was certainly the network's, not a host's */
    uint32_t awake;   /* of it, the part in which no host may have paused for long */
    bool limited;     /* the window was what held the sender back */
    bool paused;      /* a host paused, or the sender still receives what came while it did */
} btl_ib_cc_ack_t;

/* What made a round trip longer than the shortest one. Not known of a sender of one message at a
 * time. */
typedef enum btl_ib_cc_round {
    BTL_IB_CC_ROUND_NONE,   /* nothing, or nothing that is known; none has ended */
    BTL_IB_CC_ROUND_QUEUED, /* a queue in the network */
    BTL_IB_CC_ROUND_HOST,   /* waiting at a receiver that polls, but is slower than its network */
} btl_ib_cc_round_t;

/* What was told of datagrams that left with ECT(0) (btl_ib_ecn.h). Times in us. */
typedef struct btl_ib_cc_marks {
    uint64_t now;
    uint64_t sent_at; /* as in btl_ib_cc_ack_t */
    uint32_t count;   /* datagrams that arrived with ECT(0) or CE, at least 1 */
    uint32_t ce;      /* of them those with CE */
} btl_ib_cc_marks_t;

/* State of btl_ib_cc_swift.c. Windows here are in 1/256 segment. */
typedef struct btl_ib_cc_swift {
    uint32_t window;
    uint32_t slow_start; /* below it the window doubles each round trip; 0: nowhere */
    uint32_t base;       /* us: the shortest round trip of the last two periods; 0: none yet */
    uint32_t base_next;  /* of the present period */
    uint64_t base_until; /* us: when that ends */
    uint64_t round_at;   /* us: the round trip ends when something sent since then arrives */
    uint32_t delay;      /* us: the shortest of this round; UINT32_MAX: none */
    uint32_t whole;      /* us: the same with hosts, but without long pauses of them */
    uint32_t samples;    /* of the delay in this round */
    uint32_t cuts;       /* reductions for delay; wraps */
    uint32_t calm;       /* rounds in a row that were limited and saw no queue */
    uint32_t seen, lost; /* segments since losses were last judged */
    uint32_t share;      /* of losses, 1/256, that the window was last reduced for */
    uint32_t bearable;   /* share that cutting did not cure, 1/256 */
    uint32_t undo;       /* the window before it was last reduced for losses; 0: none */
    uint32_t overflow;   /* what that reduced it to: pauses double it up to there */
    uint32_t marked;     /* datagrams that arrived with CE in this round of marks, */
    uint32_t markable;   /* and with ECT(0) or CE */
    uint32_t alpha;      /* smoothed share of those with CE, 1/65536 */
    uint64_t marks_at;   /* us: that round ends when something sent since then arrives */
    bool answered;       /* the window was reduced for marks of it */
    bool limited;        /* in this round */
    bool paused;         /* some host, in this round */
    bool queued;         /* a queue was seen since losses were last judged */
} btl_ib_cc_swift_t;

/* State of btl_ib_cc_cubic.c. */
typedef struct btl_ib_cc_cubic {
    uint32_t threshold; /* slow start below it, segments */
    uint32_t acked;     /* since the window last grew */
    uint32_t top;       /* W_max: the window at the last loss, segments */
    uint32_t friendly;  /* W_est, the window of a Reno sender, segments */
    uint32_t friendly_acked;
    uint32_t rtt;      /* us: smoothed */
    uint64_t epoch;    /* us: start of this epoch; 0: none */
    uint64_t k;        /* us: from there until the curve is back at `top` */
    uint64_t recovery; /* us: losses of what was sent before belong to the last reduction */
    uint32_t undo;     /* the window, threshold and top before it; 0: nothing to undo */
    uint32_t undo_threshold;
    uint32_t undo_top;
} btl_ib_cc_cubic_t;

typedef struct btl_ib_cc {
    const struct btl_ib_cc_ops *ops;
    uint32_t window;       /* segments that may be in flight, at least 1 */
    uint32_t max;          /* and at most */
    uint32_t pace;         /* ns between two segments on average; 0: as they come */
    uint32_t burst;        /* while paced: segments that may leave together, at least 1 */
    uint32_t gso_segments; /* segments that go through hosts as one, at least 1 */
    union {
        btl_ib_cc_swift_t swift;
        btl_ib_cc_cubic_t cubic;
    };
} btl_ib_cc_t;

typedef struct btl_ib_cc_ops {
    const char *name;

    /* Begin; `max` and `gso_segments` are set, all else zero. */
    void (*init)(btl_ib_cc_t *cc);

    /* Segments were acknowledged. Returns what was found out about a round trip that ended. */
    btl_ib_cc_round_t (*acked)(btl_ib_cc_t *cc, const btl_ib_cc_ack_t *ack);

    /* A segment last sent at `sent_at` (us) was found lost at `now`. */
    void (*lost)(btl_ib_cc_t *cc, uint64_t sent_at, uint64_t now);

    /* Datagrams arrived, and it is told with which codepoint. Comes before acked() of the same
     * acknowledgement. Returns whether the window was reduced. */
    bool (*marked)(btl_ib_cc_t *cc, const btl_ib_cc_marks_t *marks);

    /* A segment that was found lost was not. */
    void (*undo)(btl_ib_cc_t *cc);

    /* Nothing was in flight, or nothing was answered, for longer than a timeout: what is known of
     * the path is out of date. */
    void (*restart)(btl_ib_cc_t *cc);
} btl_ib_cc_ops_t;

extern const btl_ib_cc_ops_t btl_ib_cc_none;
extern const btl_ib_cc_ops_t btl_ib_cc_swift;
extern const btl_ib_cc_ops_t btl_ib_cc_cubic;

/* Finds the algorithm of that name: auto, none, swift or cubic (NULL or empty: auto). Returns false
 * if there is none. */
bool btl_ib_cc_parse(const char *name, btl_ib_cc_kind_t *kind);

/* Returns the algorithm for a rail whose transport is `reliable` or not. */
const btl_ib_cc_ops_t *btl_ib_cc_choose(btl_ib_cc_kind_t kind, bool reliable);

/* Begins, with windows of up to `max` segments, of which up to `gso_segments` form one burst of the
 * segmentation offload (GSO); both at least 1. */
static inline void btl_ib_cc_init(btl_ib_cc_t *cc, const btl_ib_cc_ops_t *ops, uint32_t max,
                                  uint32_t gso_segments)
{
    *cc = (btl_ib_cc_t){.ops = ops, .max = max, .gso_segments = gso_segments};
    ops->init(cc);
}

/* Has a sum of several stand for one: `ops` tells each of them, and btl_ib_cc_set_sum() says what
 * all allow together. */
static inline void btl_ib_cc_begin_sum(btl_ib_cc_t *cc, const btl_ib_cc_ops_t *ops)
{
    cc->ops = ops;
}

static inline void btl_ib_cc_set_sum(btl_ib_cc_t *cc, uint32_t window, uint32_t burst,
                                     uint32_t pace)
{
    cc->window = window;
    cc->burst = burst;
    cc->pace = pace;
}

/* Goes on as another one, with all that is known. */
static inline void btl_ib_cc_move(btl_ib_cc_t *cc, const btl_ib_cc_t *from)
{
    *cc = *from;
}

/* Returns the segments of bulk after which one acknowledgement is due: two bursts, where there are
 * any, the second of which may be short. */
static inline uint32_t btl_ib_cc_ack_every(const btl_ib_cc_t *cc)
{
    return 3 * cc->gso_segments / 2;
}

/* Segments of bulk after which one acknowledgement is due if the next message to the peer is
 * expected to carry it. */
enum { BTL_IB_ACK_EVERY_ANSWERED = 64 };

/* Sets how many segments form one burst from now on, as their size changed. */
static inline void btl_ib_cc_set_gso(btl_ib_cc_t *cc, uint32_t gso_segments)
{
    cc->gso_segments = gso_segments;
}

#endif
