/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Checks what the network says of our datagrams (ICMP). */

#ifndef BTL_IB_ICMP_H
#define BTL_IB_ICMP_H

#include "btl_ib_state.h"

/* May a REFUSED, UNREACHABLE or PATH_MTU event be believed? If not, it is counted and logged.
 * Changes nothing else. */
bool btl_ib_icmp_is_genuine(btl_ib_rail_t *rail, const btl_ib_event_t *event);

#endif
