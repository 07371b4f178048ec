/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What a device reports without being asked, for RC. rdma_cm opens each device once for a process,
 * so all transports on one device have one stream of events, and whoever reads it hands each event
 * to all of them. (What another user of rdma_cm in the process reads is lost to us.)
 */

#ifndef BTL_IB_VERBS_RC_ASYNC_EVENTS_H
#define BTL_IB_VERBS_RC_ASYNC_EVENTS_H

#include "verbs_rc_rail.h"

/* A transport takes part until it leaves, which it may do without having joined. */
void btl_ib_rc_events_join(btl_ib_rc_t *rc);
void btl_ib_rc_events_leave(btl_ib_rc_t *rc);

/* Read the events of the device, for all transports on it: their states are set. Returns whether
 * this one's port came back up: its connections have to be made anew. */
bool btl_ib_rc_events_read(btl_ib_rc_t *rc);

/* Is the port down? What fails because of that may be seen before the event is: so the device is
 * asked, and the state set. */
bool btl_ib_rc_events_port_down(btl_ib_rc_t *rc);

/* The device has failed. */
void btl_ib_rc_events_fail(btl_ib_rc_t *rc, int error);

#endif
