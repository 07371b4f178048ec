/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the files of the engine call of each other, by file. Those that send (btl_ib_tx.c, _company, _batch, _resend, _park,
 * _limits, _flight, _out) share more, which is in btl_ib_tx.h. Files that know no connection (queues, wire, window, credit, hotel,
 * pool and others: docs/architecture.md lists all) have headers of their own. Which file does what:
 *
 *   btl_ib_engine.c   rails, progress
 *   btl_ib_rail.c     what transports say of peers and of themselves
 *   btl_ib_conn.c     a connection's life: made, reset, drained, closed, dead
 *   btl_ib_contact.c  who sent this datagram? first contact, tokens, restarts
 *   btl_ib_tx.c       what callers send: at once where nothing stops it, else when its turn has come
 *   btl_ib_packetize*.c     messages, operations, answers -> segments (btl_ib_packetize.h says which file does what)
 *   btl_ib_datagram.c segments -> datagrams -> transport
 *   btl_ib_rx.c       datagrams -> messages, operations, answers
 *   btl_ib_drops.c    datagrams that were dropped, for whoever looks for a fault
 *   btl_ib_op.c       one-sided operations of ours
 *   btl_ib_direct.c   those of them that the device does by itself
 *   btl_ib_serve.c    one-sided operations of peers
 *   btl_ib_refusal.c  what we refused, and when it may come again
 *   btl_ib_park.c     what the peer refused
 *   btl_ib_path.c     what size of datagrams the path carries
 *   btl_ib_ack.c      acknowledgements and credit limits, both directions
 *   btl_ib_loss.c     what was lost, when to probe, when to give up
 *   btl_ib_failover.c by which rail a connection goes on when its own fails
 *   btl_ib_quote.c    may what the network says be believed?
 *   btl_ib_validation.c  does a pair of rails lead to the peer at all?
 */

#ifndef BTL_IB_CALLS_H
#define BTL_IB_CALLS_H

#include <string.h>

#include "btl_ib_ack.h"
#include "btl_ib_ack_rx.h"
#include "btl_ib_ack_send.h"
#include "btl_ib_datagram.h"
#include "btl_ib_finish.h"
#include "btl_ib_flight.h"
#include "btl_ib_lifetime.h"
#include "btl_ib_loss.h"
#include "btl_ib_probe.h"
#include "btl_ib_packet.h"
#include "btl_ib_packetize.h"
#include "btl_ib_route.h"
#include "btl_ib_sched.h"
#include "btl_ib_state.h"

/* ---- sending: btl_ib_tx.h says which file does what ---- */

/* Send whatever the limits let go. */
void btl_ib_send_push(btl_ib_conn_t *conn);

/* Give back the credits of a P channel beyond what an idle peer holds. Nothing is in flight. */
void btl_ib_send_skip(btl_ib_conn_t *conn, uint32_t space);

/* ---- btl_ib_op.c ---- */

/* Let waiting operations run, as far as there are places. */
void btl_ib_op_run(btl_ib_conn_t *conn);

/* A PUT or GET that the device was to do goes as segments. It is on no list. */
void btl_ib_op_emulate(btl_ib_conn_t *conn, btl_ib_op_t *op);

/* The request of an operation has left, or it went into the device; it came back unanswered. */
void btl_ib_op_asked(btl_ib_op_t *op);
void btl_ib_op_not_asked(btl_ib_op_t *op);

/* The peer, or its device, works for us: it is not silent, and we wait anew. */
void btl_ib_op_answered(btl_ib_conn_t *conn);

/* An operation is over: off all accounts. */
void btl_ib_op_leaves(btl_ib_op_t *op, int status);

/* Those that wait for a place, or for an answer, are over. */
void btl_ib_op_give_up(btl_ib_conn_t *conn, int status);
void btl_ib_op_give_up_answers(btl_ib_conn_t *conn, int status);

/* Free what idle connections do not need. */
void btl_ib_op_shrink(btl_ib_conn_t *conn);

void btl_ib_op_recv_got(btl_ib_conn_t *conn, const btl_ib_view_t *view);
void btl_ib_op_recv_refused(btl_ib_conn_t *conn, const btl_ib_view_t *view);
void btl_ib_op_recv_replies(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* ---- btl_ib_direct.c ---- */

/* Could the device do it? And is it to be asked to: because it can, or because nobody else may? */
bool btl_ib_direct_possible(const btl_ib_conn_t *conn, const btl_ib_op_t *op);
bool btl_ib_direct_wanted(const btl_ib_conn_t *conn, const btl_ib_op_t *op);

/* Begin one that is wanted and possible. */
void btl_ib_direct_begin(btl_ib_conn_t *conn, btl_ib_op_t *op);

/* Hand over what waits, as far as the transport takes it. */
void btl_ib_direct_push(btl_ib_conn_t *conn);

/* One is over, as the transport says. Calls nothing up, and ends no connection. */
void btl_ib_direct_event(const btl_ib_event_t *event);

/* All come back with `status`: their memory is no longer in use. */
void btl_ib_direct_give_up(btl_ib_conn_t *conn, int status);

/* The connection's own rail failed: what can goes on another way. */
void btl_ib_direct_device_failed(btl_ib_conn_t *conn);

/* ---- btl_ib_serve.c ---- */

void btl_ib_serve_init(btl_ib_conn_t *conn);

/* Requests of the peer. False if one was not taken in: it must come again. */
bool btl_ib_serve_put(btl_ib_conn_t *conn, const btl_ib_view_t *view);
bool btl_ib_serve_get(btl_ib_conn_t *conn, const btl_ib_view_t *view);
bool btl_ib_serve_atomic(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Copy the next `size` bytes of replies. */
void btl_ib_serve_write(const btl_ib_conn_t *conn, uint8_t *to, uint32_t size);

/* Find the memory of a stream. False if peers may not read it any more: the stream is gone. */
bool btl_ib_serve_find(btl_ib_stream_t *stream);

/* A stream is over: free it. */
void btl_ib_serve_end(btl_ib_stream_t *stream);

/* Forget what the peer asked for. */
void btl_ib_serve_drop(btl_ib_conn_t *conn);

/* Free what idle connections do not need. */
void btl_ib_serve_shrink(btl_ib_conn_t *conn);

/* ---- btl_ib_rx.c ---- */

/* A new sequence was accepted: placed, or about to be within this call. */
void btl_ib_recv_take_in(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* As much of a datagram as can be looked at before the sender is known: all of it, or only what finds
 * its key. False: it is dropped, and counted. */
bool btl_ib_recv_look_at(btl_ib_engine_t *engine, btl_ib_arrival_t *arrival);

/* Are space, sequence, size and tag of a sequenced segment, which came in `datagram` bytes, what this
 * connection allows? Else it is counted. */
bool btl_ib_recv_check(btl_ib_conn_t *conn, const btl_ib_view_t *view, uint32_t datagram);

/* It is the peer's, and possible: take it in. `news`: its acknowledgements, too. True: it is a CLOSE, with which
 * this incarnation of the connection ends. */
bool btl_ib_recv_take(btl_ib_conn_t *conn, const btl_ib_view_t *view, bool news);

/* Take a genuine datagram apart, and check all that needs no connection. False: counted. */
bool btl_ib_recv_parse(btl_ib_engine_t *engine, btl_ib_arrival_t *arrival);

/* The next progress call is to hand up what is complete of the connection's fragments. */
void btl_ib_recv_hand_up_later(btl_ib_conn_t *conn);

/* Deliver what came in kicks or was left by lives that ended. Returns how many messages that were. */
uint32_t btl_ib_recv_stored(btl_ib_engine_t *engine);

/* ---- btl_ib_refusal.c ---- */

/* A segment was refused, for a message with that tag: its sender is to be told when the cause is gone. */
void btl_ib_refusal_note(btl_ib_conn_t *conn, const btl_ib_view_t *view, uint8_t tag,
                         btl_ib_refusal_cause_t cause);

/* A segment that is still missing is here, and about to be taken in, refused or dropped. */
void btl_ib_refusal_here(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* The one that the acknowledgement now leaving is to name, or NULL. `told` is the caller's to set. */
btl_ib_refusal_t *btl_ib_refusal_pick(btl_ib_conn_t *conn);

/* In this turn: whose cause is gone is acknowledged at once. */
void btl_ib_refusal_turn(btl_ib_engine_t *engine);

/* The peer's part of the connection ended. */
void btl_ib_refusal_forget(btl_ib_conn_t *conn);

/* Free what idle connections do not need. */
void btl_ib_refusal_shrink(btl_ib_conn_t *conn);

/* ---- btl_ib_park.c ---- */

/* Sequences [from, to) of a space came and were refused, as an ACK says: what of them is on its way
 * is not any more. */
void btl_ib_park(btl_ib_conn_t *conn, uint32_t space, uint32_t from, uint32_t to,
                 const btl_ib_view_t *view);

/* A segment was acknowledged: if it had been refused the cause is gone, perhaps of others, too. */
void btl_ib_park_acked(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* Acknowledgements were taken in: has what is parked waited long enough? */
void btl_ib_park_look(btl_ib_conn_t *conn);

#endif
