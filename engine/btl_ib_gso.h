/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * GSO bursts that a path does not carry. A transport joins neighbours of one size, and its device
 * or the end of the kernel's stack segments them (UDP_SEGMENT). A driver, a tunnel or a firewall
 * may drop what is joined, or the host refuse it (ENOBUFS), while datagrams as large that are sent
 * alone get through. That looks like loss: all of a burst is lost each time. So each connection
 * counts bursts that were lost or refused in a row, none as large having got through meanwhile.
 * After two what is retransmitted goes alone; if that arrives, and the row goes on, bursts get
 * shorter, down to none. Longer ones are tried again after a while, later each time that fails.
 */

#ifndef BTL_IB_GSO_H
#define BTL_IB_GSO_H

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

/* The bursts of a connection's present route. */
typedef struct btl_ib_gso {
    bool watched;    /* something of the rest is set, so arrivals matter */
    bool alone;      /* a datagram as large as those lost got through alone meanwhile */
    bool refused;    /* the last of the row was refused by this host */
    bool raised;     /* `most` was raised, and nothing as large got through yet */
    uint32_t most;   /* bytes of a burst; 0: as many as the transport joins; 1: nothing is joined */
    uint32_t proven; /* `most` before it was raised */
    uint32_t losses; /* bursts lost or refused in a row, at different times */
    uint32_t suspect;    /* bytes of the shortest of them */
    uint32_t datagram;   /* bytes of the largest datagram in them */
    uint32_t carried;    /* bytes of the longest burst that got through meanwhile */
    uint32_t retry_wait; /* us from the last verdict until longer ones are tried again */
    uint64_t since;      /* us: the first of them */
    uint64_t struck_at;  /* us: the last of them */
    uint64_t retry_at;   /* us: from then on longer ones are tried again */
} btl_ib_gso_t;

/* From so many bursts lost in a row on what is retransmitted goes alone. */
enum { BTL_IB_GSO_DOUBTS = 2 };

/* Returns the segments of the present size that one burst carries, at least 1. */
uint32_t btl_ib_gso_segments(const btl_ib_conn_t *conn);

/* Forgets what was lost, as datagrams have another size from now on. */
void btl_ib_gso_resized(btl_ib_conn_t *conn);

/* Returns the bytes of a burst that a copy of `segment` may be joined in now; 0: as many as the
 * transport joins. */
static inline uint32_t btl_ib_gso_most(const btl_ib_gso_t *gso, const btl_ib_segment_t *segment)
{
    return gso->losses >= BTL_IB_GSO_DOUBTS && segment->copies > 0 ? 1 : gso->most;
}

/* Notes of each of `count` segments, at least 2, whose datagrams left in one call, with which
 * others it was joined. */
void btl_ib_gso_left(const btl_ib_conn_t *conn, const btl_ib_tx_t *tx,
                     btl_ib_segment_t *const *segments, int count);

/* Notes that a segment is about to be sent again, alone unless btl_ib_gso_left() says otherwise. */
static inline void btl_ib_gso_retransmitting(btl_ib_segment_t *segment)
{
    segment->burst = 0;
}

/* Returns how many of `count` datagrams, from the first on, the transport may have joined. */
int btl_ib_gso_joined(const btl_ib_conn_t *conn, const btl_ib_tx_t *tx, int count);

/* Notes that the host refused the first `count` datagrams as joined ones for want of buffers
 * (ENOBUFS), and took all of them alone at once behind that: so most likely no queue of its was
 * full. That counts as a loss. */
void btl_ib_gso_refused(btl_ib_conn_t *conn, const btl_ib_tx_t *tx, int count);

/* Notes that the last copy of a segment was lost. Returns true if it was joined with others: then
 * the loss says nothing of the size of datagrams. */
bool btl_ib_gso_lost(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* Notes that the last copy of a segment got through, while conn->gso.watched. */
void btl_ib_gso_watched_arrived(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

#endif
