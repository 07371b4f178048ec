/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Completions to events, buffers back to where they came from, and sleeping until there is
 * something to poll. */

#ifndef BTL_IB_VERBS_RC_POLL_H
#define BTL_IB_VERBS_RC_POLL_H

#include "transport.h"

/* poll(), repost() and wait_fd() of btl_ib_transport_ops_t. */
int btl_ib_rc_poll(btl_ib_transport_t *t, btl_ib_event_t *events, int max);
void btl_ib_rc_repost(btl_ib_transport_t *t, void *const *buffers, int n);
int btl_ib_rc_wait_fd(btl_ib_transport_t *t);

#endif
