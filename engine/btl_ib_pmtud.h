/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Path MTU discovery: what size of datagrams the path of a connection carries. Owns struct
 * btl_ib_pmtud.
 *
 * The path MTU may be smaller than that of the interfaces at its ends. If the network says so
 * (BTL_IB_EVENT_PATH_MTU) that size is used. If large datagrams vanish silently (a switch with a
 * smaller MTU than both hosts, a firewall that drops ICMP: a black hole), large ones are lost in a
 * row while smaller ones get through. Then datagrams become smaller, segments that are too large
 * travel in parts (btl_ib_refragment.h), and a search finds the largest size that gets through (RFC
 * 4821, RFC 8899). Its probes are VOIDs padded with zeros: they have sequences, so their
 * acknowledgement proves that the size gets through, and their loss does no harm.
 */

#ifndef BTL_IB_PMTUD_H
#define BTL_IB_PMTUD_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_state.h"

/* A connection is made; its rails carry datagrams of `carries` bytes, and the peer's queues take
 * datagrams of `most` bytes. */
void btl_ib_pmtud_init(btl_ib_conn_t *conn, uint32_t carries, uint32_t most);

/* A new incarnation: nothing is in flight. What is known of the path stays. */
void btl_ib_pmtud_begin(btl_ib_conn_t *conn);

/* The connection takes the route of `other`, or (NULL) its own again. */
void btl_ib_pmtud_moved(btl_ib_conn_t *conn, const btl_ib_conn_t *other);

/* The network says that the path carries datagrams of at most `size` bytes. */
void btl_ib_pmtud_narrowed(btl_ib_conn_t *conn, uint32_t size);

/* The last copy of a segment was lost. True if that shows a black hole: what is sent from now on is
 * smaller, and may well be answered. */
bool btl_ib_pmtud_lost(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* The last copy of a segment got through: it was acknowledged. */
void btl_ib_pmtud_arrived(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* The recovery timer has sent a copy of this segment as a probe. True if it is so large that a
 * small question should be sent too, whose answer shows whether the path drops large ones. */
bool btl_ib_pmtud_asks(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* An ACK was taken in: if it answers that question it may show a loss. Returns the same as
 * btl_ib_pmtud_lost(). */
bool btl_ib_pmtud_answered(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Some of the segments that are not acknowledged arrived and were refused, so it is not known which
 * are lost. */
void btl_ib_pmtud_unknown(btl_ib_conn_t *conn);

/* A segment is about to be sent again. Of a probe of the search only the sequence still has to
 * arrive. */
void btl_ib_pmtud_again(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* From now on find out which size the path carries, without waiting for losses: first contact, if
 * there was none, by a VOID without zeros; then datagrams of the present size are proven, and the
 * search begins if they are lost. */
void btl_ib_pmtud_check(btl_ib_conn_t *conn);

/* A VOID arrived from the peer, perhaps one of its probes. */
void btl_ib_pmtud_received(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Bytes of the datagram of a first contact. */
uint32_t btl_ib_pmtud_contact_size(const btl_ib_conn_t *conn);

/* It is time for a probe of the search. Returns the size of its datagram; 0: send none. */
uint32_t btl_ib_pmtud_next_probe(btl_ib_conn_t *conn);
void btl_ib_pmtud_probe_left(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* Segments of the present size that one burst of the segmentation offload (GSO) carries, at least
 * 1. */
uint32_t btl_ib_pmtud_gso_segments(const btl_ib_conn_t *conn);

#endif
