/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Closes connections that were not used for a while, to free their memory and queue pairs; the next
 * message connects anew. Both sides have to agree, and nothing that was sent is lost:
 *
 *      a side for which it is time              the other
 *      OPEN
 *      ASK number ------------------------->    nothing new since its last look, nothing held or
 *                                               under way?
 *           <-------------------- AGREE number  AGREED: it sends no more data
 *      closes it, if nothing was sent since
 *      disconnects ------------------------>    closes it, and reports nothing
 *
 * These messages are sends of the same queue pair, in order with all datagrams: when AGREE arrives,
 * all that was sent before it has arrived. The connection stays if the answer is DECLINE, or if the
 * first side has sent something meanwhile, and so answers AGREE with RESUME; the first side asks
 * again after another silence of the same length. Anything that arrives ends AGREED. If both ask at
 * once, each agrees, and both close. A side agrees only if it was itself silent for half of its own
 * time: a device executes a peer's operations on memory without a completion, so the target of
 * operations may ask while they are under way.
 *
 * A side has at most one question under way, until it is answered, however long the other side
 * computes. So at most three messages of a side are unread, RESUME, ASK and an answer; a connection
 * without datagrams has buffers for them. A message for which there is no room is sent at a later
 * look.
 *
 * A side that agreed, and has messages to send, waits until the connection is closed, and then
 * connects; if the other side is silent for ten seconds it closes the connection itself. Operations
 * on memory always wait for the other side (the engine moves what it can by messages).
 *
 *      0      1      4        8
 *      | what | zero | number |      a control message, big-endian
 *
 * Silence is counted in the looks of verbs_rc_watch.h. The engine's questions to silent peers
 * (btl_ib_keepalive) use the first channel, so with these its connection stays open.
 */

#ifndef BTL_IB_VERBS_RC_IDLE_H
#define BTL_IB_VERBS_RC_IDLE_H

#include <stdint.h>

#include "verbs_rc_cm.h"

enum { BTL_IB_RC_LOOKS = 4 }; /* a second */

/* Notes whether an open connection was used since the last look. Asks the peer, if it was not for
 * as long as connections may be silent, and `may_ask`. Returns the number of questions, 0 or 1. The
 * connection may be gone after the call. */
uint32_t btl_ib_rc_idle_look(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, bool may_ask);

/* Takes a control message, of BTL_IB_RC_CONTROL_BYTES. The connection may be gone after the
 * call. */
void btl_ib_rc_idle_received(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const void *bytes);

#endif
