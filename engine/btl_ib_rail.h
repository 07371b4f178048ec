/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Rails that fail, go down, come back, or get another address. */

#ifndef BTL_IB_RAIL_H
#define BTL_IB_RAIL_H

#include "btl_ib_engine.h"

/*
 * What transports say of peers and of themselves, besides datagrams.
 *
 * A device that failed is gone until the user puts another transport in its place. A port that is
 * down may come up again: its connections go on over other rails or, where there is none, wait, as
 * behind a network that loses everything. When it is up they go back. A port that stays down for
 * `down_limit`, or lacks more than its link, counts as failed: nothing waits for it any more. But
 * its transport is still asked, and when it is back it is used again as after any other time down.
 */

/* A device that failed or whose port is down. */
typedef struct btl_ib_rail_health {
    uint64_t down_since; /* awake */
    int error;           /* errno of the failure, or of the port's going down */
    uint32_t moved;      /* connections that went on over other rails */
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

/* Handles an event that is neither a datagram nor the end of a send or operation. True if the
 * device failed and btl_ib_rail_report_failure() is still to be called, because this is progress by
 * the thread. */
bool btl_ib_rail_event(btl_ib_rail_t *rail, const btl_ib_event_t *event);

/* Looks whether the rail's device has another address now; called each part of a second. Peers are
 * asked until they answer there. */
void btl_ib_rail_look(btl_ib_rail_t *rail);

/* Looks whether a port has been down for too long. Then the device counts as failed. Returns as
 * above. */
bool btl_ib_rail_check_down(btl_ib_rail_t *rail);

/* Reports that a device failed, and ends the connections that could not go on. Not in progress by
 * the thread. */
void btl_ib_rail_report_failure(btl_ib_rail_t *rail);

#endif
