/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A model of one P channel in one direction, for spin (G. J. Holzmann, "The Spin Model Checker",
 * 2003): sequences, window, credits, acknowledgements, SKIP, probes. docs/protocol.md tells the same
 * rules in words.
 *
 * What in here is what in the engine:
 *
 *   proctype sender     btl_ib_submit.c, btl_ib_batch.c, btl_ib_loss.c: send_new is a batch with
 *                       btl_ib_sentmap_enter() under btl_ib_send_limits_room(), which NO_CREDIT and
 *                       NO_WINDOW stand for; send_skip is btl_ib_send_skip(); again and newest are
 *                       btl_ib_loss_probe_with(); BLOCKED is what btl_ib_send_limits_wait() notes
 *   ack_process         btl_ib_ack_received() and btl_ib_tx_window_clear()
 *   proctype receiver   btl_ib_input.c and btl_ib_accept.c
 *   ranges, send_ack    btl_ib_ack_tx_fill() and btl_ib_ack_tx_told(), or btl_ib_ack_tx_left() if it
 *                       rides along
 *   OUTSIDE, DUPLICATE  btl_ib_rx_window_classify(); mark is btl_ib_rx_window_mark()
 *   repost, recv_data   btl_ib_credit_use(); recv_skip: btl_ib_credit_give_back(); top_up:
 *                       btl_ib_credit_top_up()
 *   BEFORE              btl_ib_seq_before()
 *   NUM, LOW, INIT      a queue P,<size>,NUM,LOW of which a new or idle peer holds INIT
 *   WINDOW_MAX, WINDOW_LIMIT   config.window_max, BTL_IB_WINDOW_LIMIT
 *
 * What is left out: the congestion window and the depth limits (they only delay), the other
 * direction (what it acknowledges is what rides along here), other channels, reassembly, lives of
 * connections (contact.pml). The pool of credits that all peers share is a die: at a repost it bears twice as
 * much, or one more, or nothing, or others want back what is above their share. A batch is counted from when the peer was last told. What segment a timer repeats is left open.
 *
 * Time: there are no clocks. Without FAIR a retransmission and an acknowledgement may come at any
 * time, and the network may lose and repeat for ever: all orders of events that any timing could
 * make. With FAIR the network loses and repeats a bounded number of times, and a timer goes off only
 * when no answer is on its way, or too early a bounded number of times; then every run must end, with
 * everything delivered. With LATE buffers may be reposted later than at the low watermark. The engine
 * does not do that, but a transport could make it, and it is what makes the credit probe necessary:
 * the news of a credit can then be the only thing that is lost.
 *
 * What is checked
 *   always     the asserts of `invariant`: what was granted is what is outstanding plus what is used,
 *              and never more than there are buffers; the sender never believes in more than was
 *              granted, and uses no more than it believes in. In the steps: nothing is delivered
 *              twice; what is acknowledged was delivered; nothing arrives beyond the limit; nothing
 *              is acknowledged that was never sent
 *   with FAIR  there is no cycle, so every run ends, and it ends as the asserts behind `rest` say:
 *              everything delivered, every credit in the sender's hands or in an unfinished batch
 *
 * Each BUG_ is a mistake that spin must find, or the model would prove nothing. tests/model/run and
 * tools/check (test model/window) read these lines:
 *
 *   run: -DLATE -DMESSAGES=3
 *   run: -DFAIR -DMESSAGES=3
 *   run: -DFAIR -DLATE -DMESSAGES=3 -DLOSSES=1
 *   run: -DFAIR -DMESSAGES=4 -DWINDOW_MAX=1 -DLOSSES=1
 *   run: -DFAIR -DMESSAGES=3 -DNUM=2 -DLOW=1 -DINIT=1
 *   full: -DFAIR -DMESSAGES=3 -DNUM=4 -DLOW=3 -DINIT=3
 *   full: -DFAIR -DMESSAGES=3 -DNUM=2 -DLOW=1 -DINIT=1 -DLATE
 *   full: -DLATE
 *   full: -DFAIR -DLATE -DMESSAGES=3
 *   full: -DFAIR
 *   bug: -DBUG_DUPLICATE
 *   bug: -DBUG_NEW_SEQUENCE
 *   bug: -DBUG_NO_LIMIT
 *   bug: -DBUG_RANGE
 *   bug: -DBUG_CUMULATIVE
 *   bug: -DBUG_DELTA
 *   bug: -DBUG_REPOST_TWICE
 *   bug: -DBUG_SKIP_BUFFER
 *   bug: -DBUG_SHRINK
 *   bug: -DFAIR -DMESSAGES=3 -DBUG_SHRINK_GAP
 *   bug: -DFAIR -DMESSAGES=3 -DBUG_COMPARE
 *   bug: -DFAIR -DMESSAGES=3 -DBUG_SKIP_OVERTAKEN
 *   bug: -DFAIR -DMESSAGES=3 -DLATE -DBUG_NO_PROBE
 *   bug: -DFAIR -DMESSAGES=4 -DWINDOW_MAX=1 -DLOSSES=1 -DBUG_WINDOW
 */

/* ---- bounds ---- */

#ifndef MESSAGES
#define MESSAGES 4
#endif
#ifndef SKIPS
#define SKIPS 1
#endif
#ifndef NUM
#define NUM 4
#endif
#ifndef LOW
#define LOW 2
#endif
#ifndef INIT
#define INIT 2
#endif
#ifndef WINDOW_MAX
#define WINDOW_MAX 4
#endif
#define WINDOW_LIMIT 8
#define COPIES 2  /* of one segment on the way at once; more are lost */
#define ACKS 2    /* acknowledgements on the way at once; more have to wait */
#define SKIP_PROBES 1

#ifdef FAIR
#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef REPEATS
#define REPEATS 1
#endif
#ifndef EARLY
#define EARLY 1 /* timers that go off although an answer is on its way */
#endif
#ifndef REFUSALS
#define REFUSALS 1 /* no memory, no receiver for the tag */
#endif
byte losses = LOSSES, repeats = REPEATS, early = EARLY, refusals = REFUSALS;
#endif

/* ---- sequences: as uint32_t, but modulo 32; the first ones wrap soon ---- */

#define MOD 32
#define SEQUENCES 10 /* that any run uses */
#define FIRST 30
#define ADD(a, b) (((a) + (b)) % MOD)
#define SUB(a, b) (((a) + MOD - (b)) % MOD)
#ifdef BUG_COMPARE /* no wrap */
#define BEFORE(a, b) ((a) < (b))
#else
#define BEFORE(a, b) (SUB(a, b) >= MOD / 2)
#endif
#define HAS(set, seq) (((set) >> (seq)) & 1)
#define BIT(seq) (1 << (seq))

/* ---- what a segment says; written when it gets its sequence, the same in every copy ---- */

#define IS_SKIP 128
byte says[SEQUENCES]; /* message number, or IS_SKIP + count */
#define what(seq) says[SUB(seq, FIRST)]

/* ---- the network: sets of segments by sequence, a few acknowledgements, questions ---- */

int once, twice; /* one copy of it is on the way; a second one is */
byte asks;       /* ACK segments with ACK_NOW */
int acks[ACKS];  /* sorted, 0: none */

/* One acknowledgement as a number: ack, limit, and a bit for each sequence above ack, up to 8. */
#define ACK(ack, limit, sack) (1 + (ack) + MOD * (limit) + MOD * MOD * (sack))
#define ACK_OF(a) (((a) - 1) % MOD)
#define LIMIT_OF(a) (((a) - 1) / MOD % MOD)
#define SACK_OF(a) (((a) - 1) / (MOD * MOD))

/* ---- the two ends ---- */

byte unborn = MESSAGES; /* messages that nobody has asked to send yet */
byte pending = 0;
byte message = 0;       /* the number of the last one that left */
byte skips_left = SKIPS;
byte tx_first = FIRST, tx_next = FIRST;
byte tx_limit = (FIRST + INIT) % MOD;
int tx_ring = 0;        /* segments not acknowledged */
byte skip_at = MOD;     /* the sequence of one that is a SKIP; MOD: none */
byte probes = 0;        /* since the last progress; counted for resting SKIPs only */

byte rx_next = FIRST;
int rx_map = 0;         /* what arrived ahead of a gap */
byte grant = INIT, used = 0;
bool over = false; /* the grant was above the share at the last batch, or buffers were not free since */
byte rx_limit = (FIRST + INIT) % MOD, rx_told = (FIRST + INIT) % MOD;
bool ack_due = false;
int delivered = 0;      /* a bit for each message */
byte arrived = 0;       /* sequences, skipped ones included */

#define IN_FLIGHT (tx_ring != 0 && (skip_at == MOD || tx_ring != BIT(skip_at)))
#define ONLY_SKIP (skip_at != MOD && tx_ring == BIT(skip_at))
#define NO_CREDIT (!BEFORE(tx_next, tx_limit))
#define NO_WINDOW (SUB(tx_next, tx_first) >= WINDOW_MAX + (skip_at != MOD))
#ifdef BUG_WINDOW /* a SKIP that rests fills the window, and nobody asks */
#define BLOCKED (pending > 0 && NO_CREDIT && !IN_FLIGHT)
#else
#define BLOCKED (pending > 0 && (NO_CREDIT || NO_WINDOW) && !IN_FLIGHT)
#endif

inline invariant()
{
    assert(SUB(rx_limit, FIRST) - arrived + used == grant);
    assert(grant >= 1 && grant <= NUM && used <= grant);
    assert(SUB(rx_limit, tx_limit) < MOD / 2);
    assert(SUB(rx_limit, rx_told) < MOD / 2);
    assert(SUB(tx_limit, tx_next) < MOD / 2);
    assert(SUB(tx_next, tx_first) <= WINDOW_MAX + 1);
    assert(SUB(tx_next, FIRST) <= SEQUENCES);
}

/* ---- putting things on the way ---- */

inline send_copy(seq)
{
    if
    :: HAS(once, seq) -> twice = twice | BIT(seq)
    :: else -> once = once | BIT(seq)
    fi
}

inline take_copy(seq)
{
    if
    :: HAS(twice, seq) -> twice = twice & ~BIT(seq)
    :: else -> once = once & ~BIT(seq)
    fi
}

/* Sorted, so that the order in which they were sent makes no other state. */
inline put_ack(a)
{
    assert(acks[ACKS - 1] == 0);
    if
    :: a > acks[0] -> acks[1] = acks[0]; acks[0] = a
    :: else -> acks[1] = a
    fi
}

inline take_ack(i)
{
    if
    :: i == 0 -> acks[0] = acks[1]
    :: else
    fi;
    acks[1] = 0
}

/* ---- the sending side ---- */

inline send_new()
{
    pending--;
    message++;
    if
    :: ONLY_SKIP -> probes = 0
    :: else
    fi;
    what(tx_next) = message;
    tx_ring = tx_ring | BIT(tx_next);
    send_copy(tx_next);
    tx_next = ADD(tx_next, 1)
}

inline send_skip()
{
    n = SUB(tx_limit, tx_next) - INIT;
    skips_left--;
    tx_first = ADD(tx_first, n - 1);
    tx_next = ADD(tx_next, n - 1);
    what(tx_next) = IS_SKIP + n;
    tx_ring = tx_ring | BIT(tx_next);
    skip_at = tx_next;
    send_copy(tx_next);
    tx_next = ADD(tx_next, 1);
    n = 0
}

inline clear(seq)
{
    if
    :: HAS(tx_ring, seq) ->
        tx_ring = tx_ring & ~BIT(seq);
        news = true;
        if
        :: seq == skip_at -> skip_at = MOD
        :: else -> assert(HAS(delivered, what(seq))) /* acknowledged means placed */
        fi
    :: else
    fi
}

/* What check_one() would drop must never come from an honest receiver. */
inline ack_process(a)
{
    news = false;
    assert(!BEFORE(tx_next, ACK_OF(a)));
    assert(!BEFORE(ADD(tx_next, NUM), LIMIT_OF(a)));
    s = tx_first;
    do
    :: BEFORE(s, ACK_OF(a)) -> clear(s); s = ADD(s, 1)
    :: else -> break
    od;
    n = 1;
    do
    :: n < WINDOW_LIMIT ->
        if
        :: HAS(SACK_OF(a), n) -> assert(BEFORE(ADD(ACK_OF(a), n), tx_next)); clear(ADD(ACK_OF(a), n))
        :: else
        fi;
        n++
    :: else -> break
    od;
    do
    :: tx_first != tx_next && !HAS(tx_ring, tx_first) -> tx_first = ADD(tx_first, 1)
    :: else -> break
    od;
#ifdef BUG_DELTA /* a credit told is a credit more, each time it is told */
    if
    :: LIMIT_OF(a) != ADD(FIRST, INIT) -> tx_limit = ADD(tx_limit, 1); news = true
    :: else
    fi;
#else
    if
    :: BEFORE(tx_limit, LIMIT_OF(a)) -> tx_limit = LIMIT_OF(a); news = true
    :: else
    fi;
#endif
    if
    :: news -> probes = 0
    :: else
    fi;
    s = 0; n = 0; news = false
}

/* A timer goes off: at any time without FAIR; else if no answer is on its way, or a few times too
 * early. */
#define REPOSTABLE (used > 0 && grant - used <= LOW * grant / NUM)
#define UNDER_WAY (once != 0 || asks > 0 || acks[0] != 0 || ack_due || REPOSTABLE)
#ifdef FAIR
#define TIMER (early > 0 || !UNDER_WAY)
inline timer()
{
    if
    :: UNDER_WAY -> early--
    :: else
    fi
}
#else
#define TIMER true
inline timer()
{
    skip
}
#endif

/* As btl_ib_loss_waits(): a SKIP that was not answered is let rest. */
#define RESTING (ONLY_SKIP && probes >= SKIP_PROBES)
#ifdef BUG_NO_PROBE /* a sender without credit just waits */
#define WAITS (tx_ring != 0 && !RESTING)
#else
#define WAITS (BLOCKED || (tx_ring != 0 && !RESTING))
#endif

/* A segment that waits goes again. */
inline again(seq)
{
    timer();
#ifdef BUG_NEW_SEQUENCE /* under a number of its own */
    if
    :: seq != skip_at && !NO_CREDIT && !NO_WINDOW ->
        what(tx_next) = what(seq);
        tx_ring = tx_ring | BIT(tx_next);
        send_copy(tx_next);
        tx_next = ADD(tx_next, 1)
    :: else -> send_copy(seq)
    fi;
#else
    send_copy(seq);
#endif
    if
    :: ONLY_SKIP -> probes++
    :: else
    fi
}

/* to_probe_with(): the newest. */
inline newest()
{
    s = SUB(tx_next, 1);
    do
    :: !HAS(tx_ring, s) -> s = SUB(s, 1)
    :: else -> break
    od
}

/* It arrives, or does so and comes once more, or is lost. */
inline take_or_keep_ack(i)
{
    if
    :: take_ack(i)
#ifdef FAIR
    :: repeats > 0 -> repeats--
#else
    :: true
#endif
    fi
}

proctype sender()
{
    byte s = 0, n = 0;
    int a = 0;
    bool news = false;

    do
    :: d_step { unborn > 0 -> unborn--; pending++ }
    :: d_step {
#ifdef BUG_NO_LIMIT
            pending > 0 && !NO_WINDOW ->
#else
            pending > 0 && !NO_WINDOW && !NO_CREDIT ->
#endif
            send_new(); invariant() }
    :: d_step { skips_left > 0 && pending == 0 && tx_first == tx_next && !NO_CREDIT &&
            SUB(tx_limit, tx_next) > INIT ->
            send_skip(); invariant() }
    :: atomic { acks[0] != 0 -> a = acks[0]; take_or_keep_ack(0);
                d_step { ack_process(a); a = 0; invariant() } }
    :: atomic { acks[1] != 0 && acks[1] != acks[0] -> a = acks[1]; take_or_keep_ack(1);
                d_step { ack_process(a); a = 0; invariant() } }
    /* probe(): with the newest segment in flight, the oldest (lost or not), or a question. */
    :: d_step { TIMER && WAITS && tx_ring != 0 -> newest(); again(s); s = 0 }
    :: d_step { TIMER && WAITS && tx_ring != 0 -> again(tx_first) }
    :: d_step { TIMER && WAITS && tx_ring == 0 && asks < COPIES -> timer(); asks++ }
#ifdef FAIR
    :: timeout && !WAITS -> break
#endif
    od;
#ifdef FAIR
rest:
    assert(unborn == 0 && pending == 0);
    assert(delivered == BIT(MESSAGES + 1) - 2);
    assert(!IN_FLIGHT);
    assert(rx_map == 0 || skip_at != MOD);
    assert(skip_at != MOD || (rx_next == tx_next && tx_first == tx_next));
    /* Every credit is in the sender's hands, or a buffer that is not reposted yet. */
    assert(skip_at != MOD || SUB(rx_limit, tx_next) + used == grant);
#ifndef LATE /* else the last datagram that tells it may be lost: a sender that needs it asks */
    assert(skip_at != MOD || tx_limit == rx_limit)
#endif
#endif
}

/* ---- the receiving side ---- */

inline repost()
{
    if
    :: REPOSTABLE && !later ->
        n = 0;
        if
#ifdef BUG_SHRINK_GAP /* a SKIP that is still missing can give back more than is left then */
        :: poorer && grant > INIT -> n = (grant - INIT < used -> grant - INIT : used)
#else
        :: poorer && grant > INIT && rx_map == 0 -> n = (grant - INIT < used -> grant - INIT : used)
#endif
        :: else
        fi;
        grant = grant - n;
#ifdef BUG_SHRINK /* the limit as if nothing had been kept */
        n = 0;
#endif
        rx_limit = ADD(rx_limit, used - n);
        n = 0;
#ifndef BUG_REPOST_TWICE
        used = 0;
#endif
        over = poorer && grant > INIT;
        reposted = true
    :: else ->
        over = over || later; /* what is not free is not told either */
        reposted = false
    fi
}

inline mark(seq)
{
    arrived++;
    if
    :: seq != rx_next -> rx_map = rx_map | BIT(seq)
    :: else ->
        rx_next = ADD(rx_next, 1);
        do
        :: HAS(rx_map, rx_next) -> rx_map = rx_map & ~BIT(rx_next); rx_next = ADD(rx_next, 1)
        :: else -> break
        od
    fi
}

#define BEHIND_OR_FAR(seq) (SUB(seq, rx_next) >= WINDOW_LIMIT)
#define OUTSIDE(seq) (BEHIND_OR_FAR(seq) && SUB(rx_next, seq) > WINDOW_LIMIT)
#ifdef BUG_DUPLICATE /* what arrived ahead of a gap is not remembered */
#define DUPLICATE(seq) BEHIND_OR_FAR(seq)
#else
#define DUPLICATE(seq) (BEHIND_OR_FAR(seq) || HAS(rx_map, seq))
#endif

inline recv_data(seq)
{
    mark(seq);
    used++;
    repost();
    if
    :: reposted && richer ->
        n = (NUM - grant < grant -> NUM - grant : grant);
        n = (n > 1 && !rich -> 1 : n);
        grant = grant + n;
        rx_limit = ADD(rx_limit, n)
    :: else
    fi;
    assert(!HAS(delivered, what(seq))); /* once */
    delivered = delivered | BIT(what(seq));
    ack_due = true;
    n = 0
}

inline recv_skip(seq)
{
    n = what(seq) - IS_SKIP;
    c = SUB(seq, n - 1);
    if
#ifdef BUG_SKIP_OVERTAKEN /* refused while anything lies ahead of the gap */
    :: c == rx_next && n <= grant - used && n != grant && rx_map == 0 ->
#else
    :: c == rx_next && n <= grant - used && n != grant ->
#endif
        grant = grant - n;
        do
        :: n > 0 -> assert(!HAS(rx_map, c)); mark(c); c = ADD(c, 1); n--
        :: else -> break
        od;
#ifdef BUG_SKIP_BUFFER /* as if it had used a buffer */
        used++;
#endif
        repost();
        ack_due = true
    :: else
    fi;
    n = 0; c = 0
}

inline recv_sequenced(seq)
{
    assert(BEFORE(seq, rx_limit)); /* obedient senders stay below our limit */
    if
    :: OUTSIDE(seq)
    :: !OUTSIDE(seq) && DUPLICATE(seq) -> ack_due = true
    :: else ->
        if
        :: what(seq) >= IS_SKIP -> recv_skip(seq)
        :: else -> recv_data(seq)
        fi
    fi;
    richer = false; rich = false; poorer = false; later = false; reposted = false
}

/* The ranges of an acknowledgement. */
inline ranges()
{
    m = 0; n = 1;
    do
    :: n < WINDOW_LIMIT ->
        if
        :: HAS(rx_map, ADD(rx_next, n)) -> m = m | BIT(n)
        :: else
        fi;
        n++
    :: else -> break
    od;
#ifdef BUG_RANGE /* told one too long */
    m = (m | (m << 1)) & (BIT(WINDOW_LIMIT) - 1);
#endif
    n = 0
}

/* The limit that is told covers all free buffers. */
inline top_up()
{
    if
    :: !over -> rx_limit = ADD(rx_limit, used); used = 0
    :: else
    fi
}

inline send_ack()
{
    top_up();
#ifdef BUG_CUMULATIVE /* what lies behind the gap counts as received */
    if
    :: rx_map == 0 -> put_ack(ACK(rx_next, rx_limit, 0))
    :: else -> put_ack(ACK(ADD(rx_next, 1), rx_limit, 0))
    fi;
#else
    put_ack(ACK(rx_next, rx_limit, m));
#endif
    rx_told = rx_limit;
    m = 0
}

#define ON_ITS_WAY(i) HAS(once, ADD(FIRST, i)) -> s = ADD(FIRST, i)

proctype receiver()
{
    byte s = 0, n = 0, c = 0;
    int m = 0;
    bool richer = false, rich = false, poorer = false, later = false, reposted = false;

end:
    do
    /* Any segment on the way arrives, */
    :: atomic {
            if
            :: ON_ITS_WAY(0)
            :: ON_ITS_WAY(1)
            :: ON_ITS_WAY(2)
            :: ON_ITS_WAY(3)
            :: ON_ITS_WAY(4)
            :: ON_ITS_WAY(5)
            :: ON_ITS_WAY(6)
            :: ON_ITS_WAY(7)
            :: ON_ITS_WAY(8)
            :: ON_ITS_WAY(9)
            fi;
            if
#ifdef FAIR
            :: take_copy(s)
            :: repeats > 0 -> repeats-- /* and again, */
            :: losses > 0 -> losses--; take_copy(s); goto next /* or not at all, */
            :: refusals > 0 && !OUTSIDE(s) && !DUPLICATE(s) -> /* or cannot be taken in now. */
                refusals--; take_copy(s); goto next
#else
            :: true /* it may come again for ever, or never */
#endif
            fi;
            if
            :: richer = true; rich = true /* the pool can double the grant, */
            :: richer = true              /* or bear one more, */
            :: poorer = true              /* or others want their share of it, */
            :: true
#ifdef LATE
            :: later = true /* or the buffers are not free yet */
#endif
            fi;
            d_step { recv_sequenced(s); invariant() };
next:       s = 0
       }
    :: d_step { REPOSTABLE -> repost(); ack_due = true; reposted = false; invariant() }
    :: d_step { asks > 0 -> asks--; ack_due = true }
    /* An acknowledgement of its own, with all ranges. */
    :: d_step { ack_due && acks[ACKS - 1] == 0 -> ranges(); send_ack(); ack_due = false }
    /* One that rides along: without ranges, which stay due. */
#ifdef FAIR
    :: d_step { ack_due && rx_map != 0 && rx_told != rx_limit && acks[ACKS - 1] == 0 -> send_ack() }
    :: d_step { losses > 0 && asks > 0 -> losses--; asks-- }
    :: d_step { losses > 0 && acks[0] != 0 -> losses--; take_ack(0) }
    :: d_step { losses > 0 && acks[1] != 0 -> losses--; take_ack(1) }
#else
    :: d_step { acks[ACKS - 1] == 0 -> send_ack() }
    :: d_step { acks[0] != 0 -> take_ack(0) }
    :: d_step { acks[1] != 0 -> take_ack(1) }
#endif
    od
}

init
{
    atomic { run sender(); run receiver() }
}
