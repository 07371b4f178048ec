/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What size of datagrams the path of a connection carries. Its MTU may be smaller than that of the
 * interfaces at its ends. Where the network says so (BTL_IB_EVENT_PATH_MTU) that is simple. Where datagrams
 * vanish and nobody says a word (a switch with a smaller MTU than both hosts, a firewall that drops
 * ICMP: a black hole) it shows: large ones are lost in a row while smaller ones get through. Then
 * segments are cut smaller, what was cut before travels in parts (btl_ib_refragment.h), and a search finds
 * the largest size that gets through (RFC 4821, RFC 8899). Its probes are VOIDs made long by zeros:
 * sequenced, so that their acknowledgement proves what it is asked, and worth nothing if they are lost.
 */

#ifndef BTL_IB_PMTUD_H
#define BTL_IB_PMTUD_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_state.h"

/* A connection is made; its rails carry datagrams of `carries` bytes, the peer's queues hold those of `most`. */
void btl_ib_pmtud_init(btl_ib_conn_t *conn, uint32_t carries, uint32_t most);

/* A new life: nothing is on its way. What is known of the path stays. */
void btl_ib_pmtud_begin(btl_ib_conn_t *conn);

/* It goes by the way of `other` now, or (NULL) by its own again. */
void btl_ib_pmtud_moved(btl_ib_conn_t *conn, const btl_ib_conn_t *other);

/* The network says that the path carries no more than `size` bytes. */
void btl_ib_pmtud_narrowed(btl_ib_conn_t *conn, uint32_t size);

/* The last copy of a segment was lost. True if that shows a black hole: what is sent from now on is
 * smaller, and may well be answered. */
bool btl_ib_pmtud_lost(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* The last copy of a segment got through: it was acknowledged. */
void btl_ib_pmtud_arrived(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* The timer has sent a copy of this segment: is it large enough that the peer had better be asked with
 * something small, too? */
bool btl_ib_pmtud_asks(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* An ACK was taken in: does it answer that question? Returns the same as btl_ib_pmtud_lost(). */
bool btl_ib_pmtud_answered(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Of what the peer has not taken in some came and was refused: what is lost nobody knows. */
void btl_ib_pmtud_unknown(btl_ib_conn_t *conn);

/* A segment is about to go again: of a probe only its sequence is to arrive. */
void btl_ib_pmtud_again(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* It is time for a probe: the size of the datagram to send, 0 for none; and: that segment of it has left. */
uint32_t btl_ib_pmtud_next_probe(btl_ib_conn_t *conn);
void btl_ib_pmtud_probe_left(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* Segments of the size that it sends now that go through both hosts as one, at least 1. */
uint32_t btl_ib_pmtud_gso_segments(const btl_ib_conn_t *conn);

#endif
