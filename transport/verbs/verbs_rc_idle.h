/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Connections that were not used for a while are closed, to free their memory and queue pairs; the
 * next message connects anew. Both sides have to agree, and nothing that was sent is lost:
 *
 *      a side for which it is time              the other
 *      OPEN
 *      ASK number ------------------------->    nothing new since its last look, nothing held or
 *                                               under way?
 *           <-------------------- AGREE number  AGREED: it sends no more data
 *      closes it, if nothing was sent since
 *      disconnects ------------------------>    closes it, and reports nothing
 *
 * These messages are sends on the same queue pair, in order with all datagrams: when AGREE arrives,
 * all that was sent before it has arrived. The connection stays if the answer is DECLINE. It stays
 * also if the first side has sent something since it asked; then it answers AGREE with RESUME. In
 * both cases it asks again after another silence of the same length. Anything that arrives makes an
 * AGREED connection OPEN again. If both sides ask at once, each agrees, and both close.
 *
 * A side agrees only if it was itself silent for half of its own time. For the target of operations
 * on memory sees nothing of them, as a device executes them without a completion: it may ask while
 * they are under way.
 *
 * A side has at most one unanswered question, however long the other side computes. So at most
 * three of its messages are unread: RESUME, ASK and an answer. A connection without datagrams has
 * buffers for them. A message for which there is no room is sent at a later look.
 *
 * A side that agreed, and then has messages to send, waits until the connection is closed, and
 * connects anew; if the other side is silent for ten seconds it closes the connection itself.
 * Operations on memory always wait for the other side (the engine moves what it can by messages).
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

/* Notes whether an open connection was used since the last look. If it was silent for as long as
 * connections may be, and `may_ask`, asks the peer. Returns the number of questions asked, 0 or 1.
 * The connection may be gone after the call. */
uint32_t btl_ib_rc_idle_look(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, bool may_ask);

/* Takes a control message, of BTL_IB_RC_CONTROL_BYTES. The connection may be gone after the
 * call. */
void btl_ib_rc_idle_received(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const void *bytes);

#endif
