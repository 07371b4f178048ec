/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Finds open connections that stand still: what they have under way does not end, and the device
 * reports no error.
 *
 * Linux's soft-iWARP does so, in one of twenty jobs that connect all processes. What arrives at the
 * side that accepts, while it changes the queue pair's state, stays in its socket until something
 * else arrives: the first message, and perhaps a read (siw_qp_llp_data_ready() does nothing if it
 * does not get the lock). Hardware repeats what is lost, and then reports an error; but the same
 * remedies help against causes that are not known.
 *
 * - A connection that we asked for is roused a second after it opened: a write that changes nothing
 *   lets the peer's device see the first message. It is roused again in each second in which
 *   operations on memory are under way and none ended. (Messages do not need that: the engine
 *   repeats those that are not acknowledged, in the same channel.)
 * - If no operation ends for ten seconds the connection is given up, with a line in the log. A
 *   peer's device is never silent for so long, as it serves operations even while its process is
 *   stopped or computes; and users wait longer before they end a job. To the ten seconds is added
 *   the time for which our device itself repeats, as that may still succeed; and a second for each
 *   megabyte under way, as no network with RDMA is slower than that. What was under way ends with
 *   EPIPE, and the engine moves that memory by messages.
 * - A connection that we accepted, and whose first message does not arrive in ten seconds, is given
 *   up if there is something to send on it. Then this side asks for a new one.
 *
 * Time is counted in looks at the connections: at most four a second, each after poll() has taken
 * what arrived. So a pause of this process counts as one look, however long it was.
 */

#ifndef BTL_IB_VERBS_RC_WATCH_H
#define BTL_IB_VERBS_RC_WATCH_H

#include <stdint.h>

#include "verbs_rc_cm.h"

enum { BTL_IB_RC_LOOK_US = 250 * 1000 };

/* Looks at all connections. To be called at most once in BTL_IB_RC_LOOK_US. `now`, us: poll()'s. */
void btl_ib_rc_watch_look(btl_ib_rc_t *rc, uint64_t now);

#endif
