/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Decides whether to believe what the network says of our datagrams. */

#ifndef BTL_IB_ICMP_H
#define BTL_IB_ICMP_H

#include "btl_ib_engine.h"

/*
 * What the network says of datagrams that we sent: nobody is there, or the path carries less.
 * Anybody who knows two addresses and ports can send such a message (ICMP). So it counts only if it
 * quotes what such a sender cannot know: the token of a connection that goes there, in its present
 * incarnation. The token is in the clear with each kind of protection. A message that quotes less
 * is no evidence (RFC 792 requires only 8 bytes behind the IP header, which hold nothing of ours).
 */

/* Checks whether a REFUSED, UNREACHABLE or PATH_MTU event may be believed. If not, it is counted
 * and logged; nothing else changes. */
bool btl_ib_icmp_check(btl_ib_rail_t *rail, const btl_ib_event_t *event);

#endif
