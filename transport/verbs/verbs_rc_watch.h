/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Finds connections that are open and stand still: what they have under way never ends, and the
 * device reports no error.
 *
 * Linux's soft-iWARP was seen to do so (one job in twenty of those that connect all processes): the
 * side that accepts leaves in its socket what arrives while it changes the queue pair's state, the
 * first message and perhaps a read, until something else arrives (siw_qp_llp_data_ready() does
 * nothing where it does not get the lock). Hardware repeats what is lost, and then reports an
 * error; for what nobody has thought of the same remedies hold.
 *
 * - Each connection of ours is roused once, a second after it opened, by a write that changes
 *   nothing, so that its first message is seen. It is roused again each second in which no
 *   operation on memory ended while some are under way. (Messages need no more: the engine repeats
 *   those that are not acknowledged, in the same channel.)
 * - If no operation ends for ten seconds the connection is given up, with a line in the log. That
 *   is longer than a peer's device is silent for, as it serves operations also while its process is
 *   stopped or computes, and shorter than a user waits before he ends a job. The time in which a
 *   device repeats by itself comes on top, as it may still succeed and knows more; and a second for
 *   each megabyte under way: no network with RDMA is that slow, and a gigabyte must not be taken
 *   for a stall. What was under way ends with EPIPE: the engine moves memory by messages.
 * - A connection that was accepted, and whose first message does not come in ten seconds, is given
 *   up if there is something to send by it; then it is this side that asks.
 *
 * Time is counted in looks at the connections, four a second at most, and only after poll() has
 * taken what had arrived. So a pause of this process counts as one look, however long it was.
 */

#ifndef BTL_IB_VERBS_RC_WATCH_H
#define BTL_IB_VERBS_RC_WATCH_H

#include <stdint.h>

#include "verbs_rc_cm.h"

enum { BTL_IB_RC_LOOK_US = 250 * 1000 };

/* Looks at all connections, at most each BTL_IB_RC_LOOK_US. `now`, us: of poll(). */
void btl_ib_rc_watch_look(btl_ib_rc_t *rc, uint64_t now);

#endif
