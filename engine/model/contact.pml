/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A model of first contact and farewell, for spin: two processes whose owners open and close the
 * connection between them as they like, over a network that loses, repeats and reorders.
 * docs/protocol.md tells the same rules in words. For the inside of one life see window.pml.
 *
 * What in here is what in the engine:
 *
 *   begin, reset, lose_peer, close_it   begin(), btl_ib_conn_reset(), btl_ib_conn_lose_peer(),
 *                                       btl_ib_conn_destroy() in btl_ib_conn.c
 *   ended[], floor[]                   btl_ib_tombstones_floor(), conn->peer_floor
 *   contact, by_connect, bind_peer      the functions of these names in btl_ib_handshake.c (btl_ib_handshake_accept
 *                                       itself is contact); found: there is a connection; mine: what
 *                                       the datagram acknowledges is of this life of ours
 *   receive                             receive() in btl_ib_receive.c: then acknowledgements, then the type's part
 *   epoch[], bound[], peer[], knows[]   epoch (and id: both are new in each life), bound, peer_epoch
 *                                       (and peer_id), peer_knows of btl_ib_conn_t
 *   introduce                           introduce() in btl_ib_loss.c
 *   LATE                                is_late() in btl_ib_handshake.c
 *   send_data                           stamp(): the destination and what is acknowledged are of this
 *                                       moment, the CONNECT block of the moment when it was cut
 *
 * A message is what one life sends: the names of messages are pairs of side and epoch, so a segment
 * of an old life can never pass for another one. Tokens are epochs here: what a wrong token does
 * depends on no order of events. The network holds at most NET datagrams in each direction, but any
 * one of them for ever, and delivers it again and again.
 *
 * What is checked: no message is delivered twice, though either side closes and reopens at any time;
 * a message that an acknowledgement confirms was delivered; a life that ends because the peer began a
 * new one was known to the part of the peer that ended, so that nothing is dropped silently that the
 * new one would still have taken. With FAIR, losses, repetitions and closings are bounded and timers
 * go off only when nothing is on its way: then every run ends, and if both sides are open at its end,
 * nothing of either is left unacknowledged.
 *
 * tests/model/run and tools/check (test model/contact) read these lines:
 *
 *   run: -DLIVES=2
 *   run: -DFAIR -DLIVES=2 -DLOSSES=1 -DREPEATS=0
 *   full: -DLIVES=3
 *   full: -DFAIR -DLIVES=2 -DLOSSES=1 -DREPEATS=1
 *   full: -DFAIR -DLIVES=2 -DLOSSES=2 -DREPEATS=0
 *   full: -DFAIR -DLIVES=2 -DLOSSES=1 -DREPEATS=0 -DCLOSES=2
 *   bug: -DBUG_NO_GRAVES
 *   bug: -DBUG_EXACT
 *   bug: -DBUG_OLD_ACK
 *   bug: -DBUG_ALWAYS_RESET
 *   bug: -DBUG_STALE
 *   bug: -DFAIR -DLIVES=2 -DLOSSES=1 -DREPEATS=0 -DBUG_NO_FLOOR
 *   bug: -DFAIR -DLIVES=2 -DLOSSES=1 -DREPEATS=0 -DBUG_NO_INTRODUCTION
 */

#ifndef LIVES
#define LIVES 3 /* of each side */
#endif
#ifdef FAIR
#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef REPEATS
#define REPEATS 1
#endif
#ifndef CLOSES
#define CLOSES 1
#endif
byte losses = LOSSES, repeats = REPEATS, closes = CLOSES, chatter = 1;
#endif
#define NET 2 /* datagrams on the way in each direction */

#define DATA 0
#define ACK 1
#define CLOSE 2

/* One datagram as a number: type, the sender's epoch, the receiver's that it is for (0: not known),
 * whether it acknowledges the message of that life, CONNECT, and the floor if so. 0 is none. */
#define DATAGRAM(type, from, to, acks, connect, floor) \
    (1 + (type) + 3 * ((from) + 8 * ((to) + 8 * ((acks) + 2 * ((connect) + 2 * (connect) * (floor))))))
#define TYPE(d) (((d) - 1) % 3)
#define FROM(d) (((d) - 1) / 3 % 8)
#define TO(d) (((d) - 1) / 24 % 8)
#define ACKS(d) (((d) - 1) / 192 % 2)
#define CONNECT(d) (((d) - 1) / 384 % 2)
#define FLOOR(d) (((d) - 1) / 768)

/* Seen when a trail is replayed (spin -k TRAIL). */
#define TELL(what, d) \
    printf(what, me, TYPE(d), FROM(d), TO(d), ACKS(d), CONNECT(d), FLOOR(d))

#define HAS(set, n) (((set) >> (n)) & 1)
#define BIT(n) (1 << (n))

short net[2 * NET];     /* to side 0, then to side 1; sorted */
bool open[2];
byte epoch[2];          /* of the present life, or the last */
bool bound[2];
byte peer[2];           /* the peer's epoch; 0: not bound */
bool knows[2];
byte ended[2];         /* one more than the highest of the peer's epochs that ended here */
byte floor[2];          /* the same when this life began: what its CONNECTs say */
bool known[2];          /* a part of the peer that has ended knew this life */
bool cut[2];            /* this life has cut its message */
bool cut_connect[2];    /* with a CONNECT block */
bool unacked[2];
bool got[2];            /* the message of the peer's present life arrived */
bool owes[2];           /* an acknowledgement, or an answer */
byte delivered[2];      /* by side that sent it, a bit for each epoch */

/* ---- the network ---- */

#define FULL(to) (net[(to) * NET + NET - 1] != 0)

/* Sorted, and what is there already can come twice anyway. */
inline put(to, datagram)
{
    i = (to) * NET;
    new = datagram;
    TELL("%d sends type %d of life %d to life %d, acks %d, CONNECT %d, floor %d\n", new);
    do
    :: i < (to) * NET + NET && new != 0 ->
        if
        :: new == net[i] -> new = 0
        :: new > net[i] -> old = net[i]; net[i] = new; new = old
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0; new = 0; old = 0
}

inline drop(to, place)
{
    i = (to) * NET + place;
    do
    :: i < (to) * NET + NET - 1 -> net[i] = net[i + 1]; i++
    :: else -> break
    od;
    net[(to) * NET + NET - 1] = 0;
    i = 0
}

/* ---- lives ---- */

inline bury()
{
    if
    :: bound[me] ->
        if
        :: peer[me] >= ended[me] -> ended[me] = peer[me] + 1
        :: else
        fi;
        if
        :: peer[me] == epoch[1 - me] -> known[1 - me] = true
        :: else
        fi
    :: else
    fi
}

inline end_rx()
{
    bound[me] = false; peer[me] = 0; knows[me] = false; got[me] = false; owes[me] = false
}

inline begin()
{
    epoch[me]++;
    printf("%d begins life %d\n", me, epoch[me]);
    floor[me] = ended[me];
    known[me] = false;
    open[me] = true;
    cut[me] = false; cut_connect[me] = false; unacked[me] = false
}

/* What is in flight counts as acknowledged. */
inline reset()
{
    bury();
    end_rx();
    begin()
}

inline lose_peer()
{
    printf("%d loses its peer, life %d goes on\n", me, epoch[me]);
    bury();
    end_rx()
}

inline close_it()
{
    printf("%d closes life %d\n", me, epoch[me]);
    bury();
    if
    :: bound[me] || cut[me] -> put(1 - me, DATAGRAM(CLOSE, epoch[me], 0, false, true, floor[me]))
    :: else
    fi;
    end_rx();
    open[me] = false; cut[me] = false; cut_connect[me] = false; unacked[me] = false
}

/* ---- sending ---- */

inline send_data()
{
    put(1 - me, DATAGRAM(DATA, epoch[me], peer[me], got[me], cut_connect[me], floor[me]))
}

inline send_ack()
{
    put(1 - me, DATAGRAM(ACK, epoch[me], peer[me], got[me], !knows[me], floor[me]))
}

/* A process that waits for long identifies itself again: the peer may be a new incarnation. */
inline introduce()
{
#ifdef BUG_NO_INTRODUCTION
    skip
#else
    if
    :: knows[me] -> put(1 - me, DATAGRAM(ACK, epoch[me], peer[me], got[me], true, floor[me]))
    :: else
    fi
#endif
}

/* ---- receiving ---- */

inline bind_peer()
{
#ifndef BUG_NO_FLOOR
    if
    :: epoch[me] < FLOOR(d) -> assert(known[me]); reset()
    :: else
    fi;
#endif
    bound[me] = true;
    peer[me] = FROM(d)
}

inline reopened()
{
#ifdef BUG_ALWAYS_RESET
    assert(!unacked[me] || known[me]);
    reset();
#else
    if
    :: knows[me] -> assert(known[me]); reset()
    :: else -> lose_peer()
    fi;
#endif
    bind_peer()
}

#ifdef BUG_NO_GRAVES
#define LATE false
#else
#ifdef BUG_EXACT /* of the last that ended only */
#define LATE (!bound[me] && FROM(d) + 1 == ended[me])
#else
#define LATE (!bound[me] && FROM(d) < ended[me])
#endif
#endif

inline by_connect()
{
    if
    :: LATE -> /* our new life, if there is one, answers */
        if
        :: open[me] && TYPE(d) != CLOSE -> owes[me] = true
        :: else
        fi
    :: !LATE && !open[me] ->
        if
        :: TYPE(d) != CLOSE -> begin(); bind_peer(); found = true
        :: else
        fi
    :: !LATE && open[me] && !bound[me] -> bind_peer(); found = true
    :: bound[me] && FROM(d) == peer[me] -> found = true
    :: bound[me] && FROM(d) > peer[me] -> reopened(); found = true
#ifdef BUG_STALE
    :: bound[me] && FROM(d) < peer[me] -> reopened(); found = true
#else
    :: bound[me] && FROM(d) < peer[me]
#endif
    fi
}

inline contact()
{
    if
    :: open[me] && bound[me] && TO(d) == epoch[me] && FROM(d) == peer[me] -> found = true
    :: else ->
        if
        :: CONNECT(d) -> by_connect()
        :: else
        fi
    fi;
    if
    :: found && TO(d) == epoch[me] -> mine = true; knows[me] = true
    :: found && TO(d) != epoch[me] && TYPE(d) == ACK -> found = false
    :: else
    fi;
#ifdef BUG_OLD_ACK
    mine = true
#endif
}

inline receive()
{
    TELL("%d receives type %d of life %d to life %d, acks %d, CONNECT %d, floor %d\n", d);
    contact();
    if
    :: found && mine && ACKS(d) && unacked[me] ->
        assert(HAS(delivered[me], epoch[me])); /* acknowledged means placed */
        unacked[me] = false
    :: else
    fi;
    if
    :: found && TYPE(d) == DATA ->
        if
        :: !got[me] ->
            assert(!HAS(delivered[1 - me], FROM(d))); /* once */
            delivered[1 - me] = delivered[1 - me] | BIT(FROM(d));
            got[me] = true
        :: else
        fi;
        owes[me] = true
    :: found && TYPE(d) == CLOSE -> reset()
    :: else
    fi;
    d = 0; found = false; mine = false
}

#ifdef FAIR
#define MAY_OPEN (epoch[me] < LIVES)
#define MAY_CLOSE (closes > 0)
#define CLOSING closes--
#define CAN_RECEIVE true
#define QUIET (net[0] == 0 && net[NET] == 0 && !owes[0] && !owes[1])
#define AGAIN (QUIET && open[1 - me]) /* else only the silence limit ends it */
#else
#define MAY_OPEN (epoch[me] < LIVES)
#define MAY_CLOSE true
#define CLOSING skip
#define CAN_RECEIVE (epoch[me] < LIVES) /* a datagram may need a new life */
#define AGAIN true
#endif

/* It arrives, and may do so again, or is lost. */
inline arrives(place)
{
#ifdef FAIR
    if
    :: drop(me, place)
    :: repeats > 0 -> repeats--
    fi
#else
    skip
#endif
}

#ifdef FAIR
#define LOSSES_LEFT (losses > 0)
#define LOSING losses--
#else
#define LOSSES_LEFT true
#define LOSING skip
#endif

proctype side(byte me)
{
    byte i = 0;
    short d = 0, new = 0, old = 0;
    bool found = false, mine = false;

end:
    do
    /* The owner. */
    :: d_step { !open[me] && MAY_OPEN -> begin() }
    :: d_step { open[me] && MAY_CLOSE && !FULL(1 - me) -> CLOSING; close_it() }
    /* A message, again and again. */
    :: d_step { open[me] && !cut[me] && !FULL(1 - me) ->
                cut[me] = true; cut_connect[me] = !knows[me]; unacked[me] = true; send_data() }
    :: d_step { open[me] && !cut[me] -> cut[me] = true } /* or none */
    :: d_step { open[me] && unacked[me] && !FULL(1 - me) && AGAIN -> send_data(); introduce() }
    :: d_step { open[me] && owes[me] && !FULL(1 - me) -> send_ack(); owes[me] = false }
#ifdef FAIR
    :: d_step { bound[me] && chatter > 0 -> chatter--; owes[me] = true } /* for other traffic */
#endif
    /* The network. */
    :: atomic { net[me * NET] != 0 && CAN_RECEIVE -> d = net[me * NET]; arrives(0);
                d_step { receive() } }
    :: atomic { net[me * NET + 1] != 0 && CAN_RECEIVE -> d = net[me * NET + 1]; arrives(1);
                d_step { receive() } }
    :: d_step { net[me * NET] != 0 && LOSSES_LEFT -> LOSING; drop(me, 0) }
    :: d_step { net[me * NET + 1] != 0 && LOSSES_LEFT -> LOSING; drop(me, 1) }
#ifdef FAIR
    :: timeout -> assert(!(unacked[me] && open[1 - me])); break
#endif
    od
}

init
{
    atomic { run side(0); run side(1) }
}
