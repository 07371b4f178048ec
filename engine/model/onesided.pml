/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A model of one-sided operations between two processes, for spin: can they come to wait for each other
 * for ever? Requests, answers and refused PUTs share windows that may be full. docs/protocol.md, chapter
 * 13, tells the same rules in words; window.pml is about what is inside a window.
 *
 * What in here is what in the engine:
 *
 *   slot[]              the window of one direction: segments that are not acknowledged. Which one
 *                       arrives next, and how often it is repeated before, is left open
 *   GOOD, BAD, REQUEST  btl_ib_cut(): a PUT that will be placed, one that will not, a GET or ATOMIC
 *   ANSWER, GONE        GOT or REPLY; VOID
 *   running             conn->ops.running, at most OPS (config.ops_max, BTL_IB_OPS_MAX)
 *   due                 replies and streams that have not left: replies_due() + streams of
 *                       btl_ib_rma_target.c, at most ROOM of them (BTL_IB_OPS_MAX), has_room()
 *   take                btl_ib_target_put(), _get(), _atomic(), btl_ib_op_recv_got(), _replies()
 *   refused             the REJECTED that is under way: reject_put(), btl_ib_op_recv_rejected()
 *
 * What is checked: every run ends with every operation of both sides answered and both windows empty, at
 * whatever order segments, REJECTED and operations come, and every PUT that cannot be placed failed. Less
 * room for answers than operations may run (ROOM < OPS) must be found to be a deadlock, and so must
 * refusals that need a place in a window. FAIR only tells tests/model/run to look for cycles.
 *
 *   run: -DFAIR
 *   run: -DFAIR -DWINDOW=1
 *   full: -DFAIR -DOPERATIONS=4 -DOPS=3 -DROOM=3
 *   bug: -DFAIR -DBUG_IN_SEQUENCE
 *   bug: -DFAIR -DOPS=3 -DROOM=1
 *   bug: -DFAIR -DBUG_NO_VOID
 *   bug: -DFAIR -DBUG_ACKNOWLEDGED
 */

#ifndef OPERATIONS
#define OPERATIONS 3 /* that each side starts in all */
#endif
#ifndef WINDOW
#define WINDOW 2
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef ROOM
#define ROOM OPS
#endif
#define LOSSES 2 /* of REJECTED; what is sequenced comes again by itself */

#define NONE 0
#define GOOD 1
#define BAD 2
#define REQUEST 3
#define ANSWER 4
#define GONE 5
#define REFUSAL 6 /* only with BUG_IN_SEQUENCE: a refusal that takes a sequence */

byte slot[2 * WINDOW];          /* of side 0, then of side 1 */
byte left[2] = OPERATIONS;      /* to be started */
byte running[2];
byte due[2];                    /* answers that side owes */
byte owed[2];                   /* refusals that side has to tell; with BUG_IN_SEQUENCE they wait */
byte refused[2];                /* REJECTED on their way to that side */
byte bad[2];                    /* PUTs started that must fail */
byte failed[2], done[2];
byte losses = LOSSES;

#define OTHER (1 - me)
#define MINE(i) slot[me * WINDOW + i]
#define THEIRS(i) slot[OTHER * WINDOW + i]

inline send(what)
{
    i = 0;
    do
    :: MINE(i) != NONE -> i++
    :: else -> break
    od;
    MINE(i) = what;
    i = 0
}

#if WINDOW == 1
#define FREE (MINE(0) == NONE)
#define EMPTY (slot[0] == NONE && slot[1] == NONE)
#else
#define FREE (MINE(0) == NONE || MINE(1) == NONE)
#define EMPTY (slot[0] == NONE && slot[1] == NONE && slot[2] == NONE && slot[3] == NONE)
#endif

/* Segment i of the other side arrives. What is taken in is acknowledged and leaves its window. */
inline take(i)
{
    if
    :: THEIRS(i) == GOOD -> THEIRS(i) = NONE; running[OTHER]--; done[OTHER]++
    :: THEIRS(i) == GONE -> THEIRS(i) = NONE
    :: THEIRS(i) == REQUEST && due[me] < ROOM -> THEIRS(i) = NONE; due[me]++
    :: THEIRS(i) == ANSWER -> THEIRS(i) = NONE; running[me]--; done[me]++
    :: THEIRS(i) == BAD && refused[OTHER] == 0 && owed[me] == 0 ->
#ifdef BUG_ACKNOWLEDGED /* taken in although it is not placed */
        THEIRS(i) = NONE; running[OTHER]--; done[OTHER]++
#else
#ifdef BUG_IN_SEQUENCE /* to be told by a segment, which needs a place in the window */
        owed[me]++
#else
        if
        :: refused[OTHER]++
        :: losses > 0 -> losses-- /* lost: the segment will come again */
        fi
#endif
#endif
    :: THEIRS(i) == REFUSAL -> THEIRS(i) = NONE; refused[me]++
    fi
}

/* A REJECTED of one of our PUTs arrived: give its segment up. */
inline give_up()
{
    refused[me]--;
    i = 0;
    do
    :: i < WINDOW && MINE(i) != BAD -> i++
    :: else -> break
    od;
    if
    :: i < WINDOW ->
        running[me]--; failed[me]++;
#ifndef BUG_NO_VOID /* it stays what it was */
        MINE(i) = GONE
#endif
    :: else
    fi;
    i = 0
}

#define CAN_START (left[me] > 0 && running[me] < OPS && FREE)
#define TAKES(i) (THEIRS(i) == GOOD || THEIRS(i) == GONE || THEIRS(i) == ANSWER || \
    THEIRS(i) == REFUSAL || (THEIRS(i) == REQUEST && due[me] < ROOM) || \
    (THEIRS(i) == BAD && refused[OTHER] == 0 && owed[me] == 0))

proctype side(byte me)
{
    byte i = 0;

end:
    do
    :: d_step { CAN_START -> left[me]--; running[me]++; send(GOOD) }
    :: d_step { CAN_START -> left[me]--; running[me]++; bad[me]++; send(BAD) }
    :: d_step { CAN_START -> left[me]--; running[me]++; send(REQUEST) }
    :: d_step { due[me] > 0 && FREE -> due[me]--; send(ANSWER) }
#ifdef BUG_IN_SEQUENCE
    :: d_step { owed[me] > 0 && FREE -> owed[me]--; send(REFUSAL) }
#endif
    :: d_step { refused[me] > 0 -> give_up() }
    :: atomic { TAKES(0) -> take(0) }
#if WINDOW > 1
    :: atomic { TAKES(1) -> take(1) }
#endif
    :: timeout -> break
    od;
    assert(left[me] == 0 && running[me] == 0 && due[me] == 0 && EMPTY);
    assert(done[me] + failed[me] == OPERATIONS && failed[me] == bad[me])
}

init
{
    atomic { run side(0); run side(1) }
}
