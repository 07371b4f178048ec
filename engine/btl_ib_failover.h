/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Rails that fail, come back, or carry too little, and connections that go on by others. */

#ifndef BTL_IB_FAILOVER_H
#define BTL_IB_FAILOVER_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* A device that failed or whose port is down. */
typedef struct btl_ib_rail_health {
    uint64_t down_since; /* awake */
    int error;           /* errno of the failure, or of the port's going down */
    uint32_t moved;      /* connections that went on by other rails */
    uint32_t not_moved;  /* connections that could not */
    bool failed;         /* nothing waits for it any more */
    bool reported;       /* the user was told */
    bool down;           /* it may come back, failed or not: its transport says so */
} btl_ib_rail_health_t;

/* Addresses of a device that change. */
typedef struct btl_ib_rail_moves {
    uint64_t look_at;    /* us: when its transport is asked next */
    uint64_t heard;      /* datagrams received when it was asked, or was not as there were more */
    uint64_t changed_at; /* awake */
    uint64_t ask_at;     /* us: when peers that have not answered at the new one are asked next */
    uint32_t ask_pause;  /* us from there to the next time */
    uint32_t asks;       /* how often they are asked still */
    bool told;           /* the user was told of one that does not answer there */
} btl_ib_rail_moves_t;

/* ---- failover ---- */

/* Something came from the peer by the connection's own two rails for the first time. What waited
 * for that may leave. Pairs of rails to the same peer that are not validated are probed again, with
 * short intervals. */
void btl_ib_failover_validated(btl_ib_conn_t *conn);

/* If its datagrams go by the rails of another connection, and the peer may not know that connection
 * yet: send a CONNECT by that. */
void btl_ib_failover_send_connect(const btl_ib_conn_t *conn);

/* Go on by another rail by which there is a connection with the same process, and tell the peer.
 * False if none carries what is in flight. Runs no callback. */
bool btl_ib_failover(btl_ib_conn_t *conn);

/* A peer made this connection, for a rail that cannot be used here, by a datagram from `from` that
 * came by `rail`: it goes by that one. */
void btl_ib_failover_made(btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from);

/* Probe the connection's own route, if it uses another: does it work again? */
void btl_ib_failover_home(btl_ib_conn_t *conn);

/* A valid datagram with time stamp `stamp` came by another route than the one in use. If it is not
 * late, the peer's route is ours from now on. */
void btl_ib_failover_follow(btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from,
                            uint32_t stamp);

/* The peer is silent, and is to be probed. Silence alone is no reason to move: it may compute.
 * But if its process answers by another rail, this route is broken. A peer that answers by this
 * route needs no other as a rule: what does not get through is too large (btl_ib_pmtud.h), or was
 * deferred. True: the connection goes on by another rail. */
bool btl_ib_failover_on_silence(btl_ib_conn_t *conn);

/* ---- rail ---- */

/* Handles what transports say of peers, and of the device itself. Writes rail->health
 * and rail->moves. */

/* Handle an event that is neither a datagram nor the end of a send or operation. True if the device
 * failed and btl_ib_rail_report_failure() is still to be called, because this is progress by the
 * thread. */
bool btl_ib_rail_event(btl_ib_rail_t *rail, const btl_ib_event_t *event);

/* A part of a second has passed: has its device another address now? Peers are asked until they
 * answer there. */
void btl_ib_rail_look(btl_ib_rail_t *rail);

/* Has a port been down for too long? Then the device counts as failed. Returns as above. */
bool btl_ib_rail_check_down(btl_ib_rail_t *rail);

/* A device failed: report it, and end the connections that could not go on. Not in progress by the
 * thread. */
void btl_ib_rail_report_failure(btl_ib_rail_t *rail);

/* ---- rails that are too slow, by their goodput ---- */

/*
 * Finds connections whose two rails carry far less than others to the same process. A user of
 * several rails divides its messages by what devices claim, so one that claims 10 Gbit/s and
 * carries 20 Mbit/s holds all of them up. Sampled, because counting would cost each message.
 */

/* us between two samples. */
#define BTL_IB_GOODPUT_EACH 2000u

/* What a connection carries by its own two rails, in a period common to all connections with the
 * same process. */
typedef struct btl_ib_goodput {
    uint64_t bytes;      /* count.sent_bytes when the period began */
    uint64_t slow_until; /* us: until then it goes by others, as those carry far more */
    uint64_t sampled_at; /* us: the last sample */
    uint32_t acked;      /* segments, by the last sample; wraps */
    uint16_t busy;       /* samples in the period in which something waited for the network */
    uint8_t waited;      /* samples in which something waited, since ACKs came; 0: nothing waits */
    uint8_t times_left : 7; /* times in a row that it was found slow, as far as that counts */
    bool away : 1;          /* it went by others at the last sample */
} btl_ib_goodput_t;

/* Sample connections, at most 64 in a call. One that is found slow goes by the rails of a better
 * one, for 10 s, and twice as long each time that it is found slow again. May call up. */
void btl_ib_goodput_sample(btl_ib_engine_t *engine);

#endif
