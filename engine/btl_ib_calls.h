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
 *   btl_ib_cut*.c     messages, operations, answers -> segments (btl_ib_cut.h says which file does what)
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
#include "btl_ib_route.h"
#include "btl_ib_sched.h"
#include "btl_ib_state.h"

/* ---- btl_ib_conn.c ---- */

/* As btl_ib_conn_create(), for a connection that the peer asked for. */
int btl_ib_conn_make(btl_ib_engine_t *engine, btl_ib_rail_t *rail, const btl_ib_peer_info_t *info,
                     btl_ib_conn_t **conn);

/* The peer left or began anew: messages that left count as acknowledged, what was not sent yet and
 * operations fail, and the connection is as if just made. */
void btl_ib_conn_reset(btl_ib_conn_t *conn);

/* The peer's part of the connection ended: forget what came from it. What goes to it stays: if its
 * next part never saw any of that, it can have it. */
void btl_ib_conn_lose_peer(btl_ib_conn_t *conn);

/* Is nothing due to the peer, and nothing of its begun? */
bool btl_ib_conn_is_quiet(const btl_ib_conn_t *conn);

/* The idle timer went off: shrink, or look again later. */
void btl_ib_conn_idle(btl_ib_conn_t *conn);

/* Nothing is known of the way that carries it now: what it bears (congestion control, pace), how long it is and
 * whether it keeps the order. */
void btl_ib_conn_begin_way(btl_ib_conn_t *conn);

/* Send the next CLOSE of a connection that is leaving, or end its life after the last. */
void btl_ib_conn_linger(btl_ib_conn_t *conn);

/* Give back all that a connection holds, without callbacks to come. */
void btl_ib_conn_strip(btl_ib_conn_t *conn);

/* ---- btl_ib_contact.c ---- */

/*
 * Whose is this datagram? NULL if it is nobody's we know, its token is wrong or its key does not
 * open it (counted). Makes a passive connection if it is a good first contact. With a keyed guard it comes with
 * btl_ib_wire_peek()'s part of the view, and returns with all of it. What it says of an earlier life of
 * ours is taken out of the view.
 */
btl_ib_conn_t *btl_ib_contact(btl_ib_rail_t *rail, btl_ib_arrival_t *arrival);

/* Our token on what goes to the peer, for the connection's current epoch. */
void btl_ib_contact_begin(btl_ib_conn_t *conn);

/* ---- sending: btl_ib_tx.h says which file does what ---- */

/* Send whatever the limits let go. */
void btl_ib_send_push(btl_ib_conn_t *conn);

/* Give back the credits of a P channel beyond what an idle peer holds. Nothing is in flight. */
void btl_ib_send_skip(btl_ib_conn_t *conn, uint32_t space);

/* ---- cutting: btl_ib_cut.h says which file does what ---- */

/* btl_ib_cut.c: cut pieces of `out` for a channel, at most `most` (at least 1). Returns how many; fewer: its last is among them,
 * or there are no more buffers or places in the window. */
int btl_ib_cut(btl_ib_conn_t *conn, btl_ib_out_t *out, uint32_t space, btl_ib_segment_t **segments,
               int most);

/* As if it had never been cut. */
void btl_ib_cut_undo(btl_ib_segment_t *segment);

/* It has left: keep segment->out only if that waits for its acknowledgement. */
void btl_ib_cut_left(btl_ib_segment_t *segment);

/* btl_ib_cut_bundle.c: how many messages at the head of those that wait in a channel fit together into `room` bytes; *size:
 * what they take. 0 or 1: there is nothing to bundle. */
uint32_t btl_ib_cut_count(const btl_ib_list_t *pending, uint32_t room, uint32_t *size);

/* A BUNDLE of the first `count` of them, `size` bytes, for channel `space`; they move to the end of `bundled`. NULL: no
 * buffer, or no place in the window. */
btl_ib_segment_t *btl_ib_cut_bundle(btl_ib_conn_t *conn, btl_ib_list_t *pending, uint32_t count,
                                    uint32_t size, uint32_t space, btl_ib_list_t *bundled);

/* btl_ib_cut_piece.c: `size` bytes from `offset` on of `count` pieces of memory. */
void btl_ib_cut_copy(const struct iovec *iov, int count, uint64_t offset, uint32_t size,
                     uint8_t *to);

/* All of a message. */
static inline void btl_ib_cut_copy_all(const btl_ib_msg_t *msg, uint8_t *to)
{
    for (int i = 0; i < 2; i++) {
        if (msg->iov[i].iov_len > 0) {
            memcpy(to, msg->iov[i].iov_base, msg->iov[i].iov_len);
            to += msg->iov[i].iov_len;
        }
    }
}

/* Its bytes are in a region that is about to go: copy them into the segment, which has room for that. */
void btl_ib_cut_own(btl_ib_segment_t *segment);

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

/* ---- btl_ib_drops.c ---- */

/* Sets engine->drops if config.log wants details; without memory nothing is shown. */
void btl_ib_drops_init(btl_ib_engine_t *engine);

/* Prints what waits. */
void btl_ib_drops_fini(btl_ib_engine_t *engine);

/* The rest only where engine->drops is set. */

/* A datagram was taken in, or dropped: of a counter that grew since the last one there is a line, 20 a second at
 * most, in a kick with the next turn. The datagram's buffer is not reposted yet. */
void btl_ib_drops_note(btl_ib_rail_t *rail, const btl_ib_event_t *event);

/* In each turn of the owner's: what kicks left, and how many have no line. */
void btl_ib_drops_turn(btl_ib_engine_t *engine);

/* ---- btl_ib_rx.c ---- */

/* A new sequence was accepted: placed, or about to be within this call. */
void btl_ib_recv_take_in(btl_ib_conn_t *conn, const btl_ib_view_t *view);

void btl_ib_recv(btl_ib_rail_t *rail, const btl_ib_event_t *event);

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

/* ---- btl_ib_rail.c ---- */

/* Neither a datagram nor the end of a send or operation, but news of a peer, or of the device. */
void btl_ib_rail_event(btl_ib_rail_t *rail, const btl_ib_event_t *event);

/* A port that is down: has it been for too long? */
void btl_ib_rail_look(btl_ib_rail_t *rail);

/* A device failed: the owner is told, and the connections that could not go on are dead. Not in a kick. */
void btl_ib_rail_mourn(btl_ib_rail_t *rail);

/* ---- btl_ib_validation.c ---- */

/* us: refusals that follow each other so soon are one row, and so long they count after the last. */
#define BTL_IB_REFUSED_ROW 10000000u

/* us of nothing but refusals: believe them. A port may be late. */
#define BTL_IB_REFUSED_LONG 100000u

/* A new life of the connection. What is known of its rails stays. */
void btl_ib_validation_begin(btl_ib_conn_t *conn);

/* Something of the peer's came by the connection's own two rails for the first time. */
void btl_ib_validation_passed(btl_ib_conn_t *conn);

/* Something of the peer's came by them. That what is sent by them gets there it proves only where it is an answer. */
static inline void btl_ib_validation_heard(btl_ib_conn_t *conn)
{
    if (!conn->validation.valid) {
        btl_ib_validation_passed(conn);
    }
}

/* After refusals: does it show that something gets there by the present way? */
void btl_ib_validation_echoed(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* The present way was refused once more: is it to be left, because nothing got there for BTL_IB_REFUSED_LONG? */
bool btl_ib_validation_refused_again(btl_ib_conn_t *conn);

/* The connection takes another way; and: a question goes by its own two rails. */
void btl_ib_validation_moved(btl_ib_conn_t *conn);
void btl_ib_validation_asked(btl_ib_conn_t *conn);

/* It is believed that nobody is there, by them; and was that said lately, with nothing getting there since? */
void btl_ib_validation_refused(btl_ib_conn_t *conn);
bool btl_ib_validation_refuses(const btl_ib_conn_t *conn);

/* A datagram that names its sender got here, but it cannot be looked up now: tell it, if the transport can. */
void btl_ib_validation_respond(btl_ib_rail_t *rail, const btl_ib_arrival_t *arrival);

/* The peer told us that, by that rail; and something else showed that what we send gets there. */
void btl_ib_validation_responded(btl_ib_conn_t *conn, const btl_ib_rail_t *rail);
void btl_ib_validation_answered(btl_ib_conn_t *conn);

/* A probe is due, not in a kick. If the peer never answered for long that is told. True if it is to be given up. */
bool btl_ib_validation_overdue(btl_ib_conn_t *conn);

/* Something would be sent by them if the peer had answered: ask, but not too often. */
void btl_ib_validation_ask(btl_ib_conn_t *conn);

/* A probe went by them, while they are not validated. */
void btl_ib_validation_probed(btl_ib_conn_t *conn);

/* Do data wait until the peer has answered by them? Only where another connection with it is validated. */
bool btl_ib_validation_waits(const btl_ib_conn_t *conn);

/* ---- btl_ib_quote.c ---- */

/* May a REFUSED or PATH be believed? Else it is counted and logged. Changes nothing else. */
bool btl_ib_quote_proves(btl_ib_rail_t *rail, const btl_ib_event_t *event);

/* ---- btl_ib_failover.c ---- */

/* Of the connections with that process: is any of them validated, and not refused lately? Did
 * anything of ours get there by any? Was any refused lately? */
bool btl_ib_failover_any_valid(const btl_ib_conn_t *conn);
bool btl_ib_failover_any_answered(const btl_ib_conn_t *conn);
bool btl_ib_failover_any_refused(const btl_ib_conn_t *conn);

/* The peer is there: it is asked anew by pairs of rails that are not validated, with short
 * pauses. */
void btl_ib_failover_ask_anew(const btl_ib_conn_t *conn);

/* Is what carries it now validated? */
bool btl_ib_failover_is_valid(const btl_ib_conn_t *conn);

/* The way that it goes by is refused: go by another that is not. False if there is none. */
bool btl_ib_failover_refused(btl_ib_conn_t *conn);

/* What carries it belongs to a connection that the peer may not know yet: introduce that. */
void btl_ib_failover_introduce(const btl_ib_conn_t *conn);

/* Go on by another rail by which there is a connection with the same process, and tell the peer. False: there
 * is none that carries what is under way. Calls nothing up. */
bool btl_ib_failover(btl_ib_conn_t *conn);

/* The same, if the peer's process was heard by another connection after `since` (of engine->awake). */
bool btl_ib_failover_if_heard(btl_ib_conn_t *conn, uint64_t since);

/* Ask for a sign of life of the same process by all other rails. */
void btl_ib_failover_ask(btl_ib_conn_t *conn);

/* Is its own way well again? */
void btl_ib_failover_home(btl_ib_conn_t *conn);

/* Has the process `name` a connection with us by that rail, from that address (if it is known)? */
bool btl_ib_failover_knows(const btl_ib_rail_t *rail, uint64_t name, btl_ib_addr_t from);

/* May its datagrams come from there, by that rail? */
bool btl_ib_failover_is_way(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                            btl_ib_addr_t from);

/* A good datagram came, stamped so, by another way than what we send: if it is news, the peer's way is ours
 * from now on. */
void btl_ib_failover_follow(btl_ib_conn_t *conn, const btl_ib_rail_t *rail, btl_ib_addr_t from,
                            uint32_t stamp);

#endif
