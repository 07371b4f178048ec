/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What was lost, and when to ask the peer (RFC 8985). */

#ifndef BTL_IB_RECOVERY_H
#define BTL_IB_RECOVERY_H

#include "btl_ib_state.h"

/* A datagram of the connection came: its peer is there. Perhaps it echoes a clock reading of ours, which
 * is an answer and a round-trip sample. */
void btl_ib_recovery_heard(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* A segment was acknowledged by a datagram that echoes `echo` (if `echo_valid`). */
void btl_ib_recovery_arrived(btl_ib_conn_t *conn, const btl_ib_segment_t *segment, bool echo_valid,
                             uint32_t echo);

/* The peer says that so many segments of a space came again although a copy had come before. */
void btl_ib_recovery_again(btl_ib_conn_t *conn, uint32_t space, uint16_t again);

/* All news of a datagram, `count` segments, were taken in; `limited`: the window was what held us
 * back. For the congestion control. */
void btl_ib_recovery_acked(btl_ib_conn_t *conn, uint32_t count, bool limited);

/* The transport's connection ended: all in flight may be lost, and the peer may be gone. */
void btl_ib_recovery_broken(btl_ib_conn_t *conn);

/* After acknowledgements were taken in: find what is lost, set the timer. */
void btl_ib_recovery_detect(btl_ib_conn_t *conn);

/* Set the timer for what is in flight now. */
void btl_ib_recovery_arm(btl_ib_conn_t *conn);

/* What the timer asks for when it goes off. */
typedef enum btl_ib_recovery_action {
    BTL_IB_RECOVERY_NOTHING, /* what there was to do was done */
    BTL_IB_RECOVERY_PROBE, /* nothing was heard for long enough: ask, or give up. btl_ib_recovery_probed() hears the result */
} btl_ib_recovery_action_t;

btl_ib_recovery_action_t btl_ib_recovery_timer(btl_ib_conn_t *conn);

/* Is everything of ours acknowledged, and only the peer's answer to an operation still to come? */
bool btl_ib_recovery_only_answers(const btl_ib_conn_t *conn);

/* A probe is about to leave; a copy of a segment went as one; and: it has left, if `whole` all of it, else for want of
 * room in the transport only some parts of a segment that travels in parts. */
void btl_ib_recovery_probe_begins(btl_ib_conn_t *conn);
void btl_ib_recovery_probed_with_copy(btl_ib_conn_t *conn);
void btl_ib_recovery_probed(btl_ib_conn_t *conn, bool whole);

/* Which segment to probe with; NULL: there is none. */
btl_ib_segment_t *btl_ib_recovery_probe_with(const btl_ib_conn_t *conn);

/* When the oldest thing that still waits was first sent, or began to wait for credit; UINT64_MAX: nothing waits. */
uint64_t btl_ib_recovery_waiting_since(const btl_ib_conn_t *conn);

#endif
