/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the files of the engine call of each other, by file. Those that send (btl_ib_submit.c, _company, _batch, _resend, _park,
 * _limits, _flight, _out) share more, which is in btl_ib_submit.h. Files that know no connection (queues, wire, window, credit, hotel,
 * pool and others: docs/architecture.md lists all) have headers of their own. Which file does what:
 *
 *   btl_ib_engine.c   rails, progress
 *   btl_ib_rail.c     what transports say of peers and of themselves
 *   btl_ib_conn.c     a connection's life: made, reset, drained, closed, dead
 *   btl_ib_handshake.c  who sent this datagram? first contact, tokens, restarts
 *   btl_ib_submit.c       what callers send: at once where nothing stops it, else when its turn has come
 *   btl_ib_packetize*.c     messages, operations, answers -> segments (btl_ib_packetize.h says which file does what)
 *   btl_ib_transmit.c segments -> datagrams -> transport
 *   btl_ib_input.c       datagrams -> messages, operations, answers
 *   btl_ib_drops.c    datagrams that were dropped, for whoever looks for a fault
 *   btl_ib_initiator.c       one-sided operations of ours
 *   btl_ib_offload.c   those of them that the device does by itself
 *   btl_ib_target.c    one-sided operations of peers
 *   btl_ib_rnr.c  what we refused, and when it may come again
 *   btl_ib_deferred.c     what the peer refused
 *   btl_ib_pmtud.c     what size of datagrams the path carries
 *   btl_ib_ack_tx.c      acknowledgements and credit limits, both directions
 *   btl_ib_recovery.c     what was lost, when to probe, when to give up
 *   btl_ib_failover.c by which rail a connection goes on when its own fails
 *   btl_ib_icmp.c    may what the network says be believed?
 *   btl_ib_validation.c  does a pair of rails lead to the peer at all?
 */

#ifndef BTL_IB_CALLS_H
#define BTL_IB_CALLS_H

#include <string.h>

#include "btl_ib_ack_tx.h"
#include "btl_ib_ack_rx.h"
#include "btl_ib_ack_send.h"
#include "btl_ib_transmit.h"
#include "btl_ib_completion.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_lifetime.h"
#include "btl_ib_recovery.h"
#include "btl_ib_probe.h"
#include "btl_ib_initiator.h"
#include "btl_ib_op_slots.h"
#include "btl_ib_packet.h"
#include "btl_ib_packetize.h"
#include "btl_ib_route.h"
#include "btl_ib_accept.h"
#include "btl_ib_answers.h"
#include "btl_ib_offload.h"
#include "btl_ib_rnr.h"
#include "btl_ib_input.h"
#include "btl_ib_target.h"
#include "btl_ib_sched.h"
#include "btl_ib_state.h"

/* ---- sending: btl_ib_submit.h says which file does what ---- */

/* All messages and operations of the connection come back with `status`; messages all of which left
 * with `flight_status`. */
void btl_ib_send_give_back(btl_ib_conn_t *conn, int flight_status, int status);

/* Send whatever the limits let go. */
void btl_ib_send_push(btl_ib_conn_t *conn);

/* Give back the credits of a P channel beyond what an idle peer holds. Nothing is in flight. */
void btl_ib_send_skip(btl_ib_conn_t *conn, uint32_t space);

/* ---- btl_ib_deferred.c ---- */

/* Sequences [from, to) of a space came and were refused, as an ACK says: what of them is on its way
 * is not any more. */
void btl_ib_deferred_add(btl_ib_conn_t *conn, uint32_t space, uint32_t from, uint32_t to,
                 const btl_ib_view_t *view);

/* A segment was acknowledged: if it had been refused the cause is gone, perhaps of others, too. */
void btl_ib_deferred_acked(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* Acknowledgements were taken in: has what is parked waited long enough? */
void btl_ib_deferred_retry(btl_ib_conn_t *conn);

#endif
