/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Closes connections by which nothing went for a while, so that their memory and queue pairs are
 * free again; the next message connects anew. Both sides have to be ready for it, and nothing that
 * was sent is lost:
 *
 *      a side for which it is time              the other
 *      OPEN
 *      ASK number ------------------------->    nothing new since its last look, nothing held or
 *                                               under way?
 *           <-------------------- AGREE number  AGREED: it sends no more data
 *      closes it, if nothing was sent since
 *      disconnects ------------------------>    closes it, and reports nothing
 *
 * These messages are sends of the same queue pair, in order with all datagrams: so with AGREE all
 * that went before has come. If the answer is DECLINE, or something went meanwhile (then the first
 * side answers AGREE with RESUME), the connection stays, and it asks again after as long a silence.
 * Whatever comes ends AGREED. Both may ask at once: each agrees, and both close. A side agrees only
 * if it was silent for half of its own time itself: a device executes a peer's operations on memory
 * without a completion, so their target asks in the midst of them.
 *
 * A question is under way until it is answered, however long the other side computes and whatever
 * goes meanwhile: there is one at most. So no more than three messages of a side are ever unread,
 * RESUME, ASK and an answer, for which a connection without datagrams has buffers. A message for
 * which there is no room comes with a later look.
 *
 * A side that agreed, and has messages to send, waits for the end, and then connects; if the other
 * side stays silent for ten seconds it ends the connection itself. Operations on memory wait for
 * the other side in any case (the engine moves by messages what it can).
 *
 *      0      1      4        8
 *      | what | zero | number |      a control message, big-endian
 *
 * Silence is counted in the looks of verbs_rc_watch.h. What the engine asks silent peers goes by
 * the first channel (btl_ib_keepalive): where it asks, that one stays open.
 */

#ifndef BTL_IB_VERBS_RC_IDLE_H
#define BTL_IB_VERBS_RC_IDLE_H

#include <stdint.h>

#include "verbs_rc_cm.h"

enum { BTL_IB_RC_LOOKS = 4 }; /* a second */

/* Looks at an open connection, as verbs_rc_watch.h does. Asks the peer if looks in a row, for as
 * long as connections may be silent, found nothing and it `may_ask`. Returns how many questions
 * that made. The connection may be gone after that. */
uint32_t btl_ib_rc_idle_look(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, bool may_ask);

/* Takes a control message, of BTL_IB_RC_CONTROL_BYTES. The connection may be gone after that. */
void btl_ib_rc_idle_received(btl_ib_rc_t *rc, btl_ib_rc_conn_t *conn, const void *bytes);

#endif
