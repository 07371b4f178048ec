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

struct btl_ib_conn;
struct btl_ib_segment;
struct btl_ib_view;

/* All sizes are bytes of datagrams, with header and trailer. */
typedef struct btl_ib_pmtud {
    uint32_t datagram_max; /* what is sent is no larger: as far as known, the path carries it */
    uint32_t carries; /* both ways, in one datagram, as was known when the connection was made */
    uint32_t home;    /* what the rails carry that the connection joins */
    uint32_t most;    /* what those carry that it goes by: the same, or less */
    bool parts;       /* segments were cut that are larger than what the path carries */

    /* A row of losses of `suspect` to `largest` bytes, while what is smaller got through. */
    uint32_t losses;    /* at different times */
    uint32_t shown;     /* of them, that answers to questions showed */
    uint32_t suspect;   /* larger than `carried` */
    uint32_t largest;   /* if one as large as that gets through the row is over */
    uint32_t carried;   /* the largest that got through since the row began */
    uint64_t since;     /* us: the first loss */
    uint64_t struck_at; /* us: the last one; what was sent before tells nothing new */

    /* A probe of the timer went with a question that is smaller: who answers that, and has not got the
     * probe, shows a loss. */
    bool asked;
    uint8_t asked_space;
    /* The search; here is room for these two. */
    bool probing; /* one is on its way, sent since the sizes were last set back: */
    uint8_t probe_space;
    uint32_t asked_seq;
    uint64_t asked_at; /* us */
    uint32_t probe_seq;
    uint32_t too_large; /* the smallest known not to get through, or one above `most` */
    uint32_t next;      /* to be tried next; 0: in the middle */
    uint32_t failures;  /* of that size in a row */
    uint64_t search_at; /* us: not before; UINT64_MAX: there is nothing to be found */
} btl_ib_pmtud_t;

/* A connection is made; its rails carry datagrams of `carries` bytes, the peer's queues hold those of `most`. */
void btl_ib_pmtud_init(struct btl_ib_conn *conn, uint32_t carries, uint32_t most);

/* A new life: nothing is on its way. What is known of the path stays. */
void btl_ib_pmtud_begin(struct btl_ib_conn *conn);

/* It goes by the way of `other` now, or (NULL) by its own again. */
void btl_ib_pmtud_moved(struct btl_ib_conn *conn, const struct btl_ib_conn *other);

/* The network says that the path carries no more than `size` bytes. */
void btl_ib_pmtud_narrowed(struct btl_ib_conn *conn, uint32_t size);

/* The last copy of a segment was lost, or got through: it was acknowledged. */
void btl_ib_pmtud_lost(struct btl_ib_conn *conn, const struct btl_ib_segment *segment);
void btl_ib_pmtud_arrived(struct btl_ib_conn *conn, const struct btl_ib_segment *segment);

/* The timer has sent a copy of this segment: is it large enough that the peer had better be asked with
 * something small, too? */
bool btl_ib_pmtud_asks(struct btl_ib_conn *conn, const struct btl_ib_segment *segment);

/* An ACK was taken in: does it answer that question? */
void btl_ib_pmtud_answered(struct btl_ib_conn *conn, const struct btl_ib_view *view);

/* Of what the peer has not taken in some came and was refused: what is lost nobody knows. */
void btl_ib_pmtud_unknown(struct btl_ib_conn *conn);

/* A segment is about to go again: of a probe only its sequence is to arrive. */
void btl_ib_pmtud_again(struct btl_ib_conn *conn, struct btl_ib_segment *segment);

/* It is time for a probe: the size of the datagram to send, 0 for none; and: that segment of it has left. */
uint32_t btl_ib_pmtud_next_probe(struct btl_ib_conn *conn);
void btl_ib_pmtud_probe_left(struct btl_ib_conn *conn, const struct btl_ib_segment *segment);

/* Segments of the size that it sends now that go through both hosts as one, at least 1. */
uint32_t btl_ib_pmtud_gso_segments(const struct btl_ib_conn *conn);

#endif
