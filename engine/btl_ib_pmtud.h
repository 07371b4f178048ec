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

#include "btl_ib_engine.h"
#include "btl_ib_pool.h"

enum {
    BTL_IB_SIZE_LOSSES = 2,
};

/* Losses of `suspect` to `largest` bytes in a row, while smaller datagrams get through. */
typedef struct btl_ib_size_losses {
    uint32_t losses;    /* at different times */
    uint32_t shown;     /* of them, losses shown by answers to questions */
    uint32_t suspect;   /* larger than `carried` */
    uint32_t largest;   /* the streak is over if a datagram as large as this gets through */
    uint32_t carried;   /* the largest that got through since the streak began */
    uint64_t since;     /* us: the first loss */
    uint64_t struck_at; /* us: the last loss; what was sent before it proves nothing further */
} btl_ib_size_losses_t;

/* The path MTU and the search for it (RFC 8899). All sizes are bytes of datagrams, with header and
 * trailer. */
typedef struct btl_ib_pmtud {
    /* largest datagram to be sent: the path carries it, as far as is known */
    uint32_t datagram_max;
    uint32_t carries; /* what both directions carried when the connection was made */
    uint32_t home;    /* what the connection's own two rails carry */
    uint32_t most;    /* what the rails of the present route carry: at most `home` */
    bool parts;       /* segments exist that are larger than datagram_max */

    /* Black hole detection. Losses of a size that got through in the first streak count in the
     * second: mostly they are chance, but the path may carry less since. */
    btl_ib_size_losses_t streaks[BTL_IB_SIZE_LOSSES];

    /* A timer's probe was sent together with a smaller question (asked_*). A peer that answers the
     * question, but does not have the probe, shows a loss. */
    bool asked;
    uint8_t asked_channel;
    /* The search (two members are here to save channel). */
    bool probing; /* a probe, sent since the sizes were last set back, is in flight */
    uint8_t probe_channel;
    uint32_t asked_seq;
    uint64_t asked_at; /* us */
    uint32_t probe_seq;
    uint32_t too_large; /* smallest size known not to get through, or most + 1 */
    uint32_t next;      /* size to try next; 0: halfway */
    uint32_t failures;  /* consecutive ones of that size */
    uint64_t search_at; /* us: not earlier; UINT64_MAX: nothing to find */

    /* The check of the path (btl_ib_pmtud_check()), and what it found. */
    bool checking;
    uint32_t proven;   /* the largest probe that got there since the check began */
    uint32_t received; /* the largest probe that came from the peer */
} btl_ib_pmtud_t;

/* True if losses are counted, so that the path may carry less than it did. */
static inline bool btl_ib_pmtud_has_losses(const btl_ib_pmtud_t *sizes)
{
    for (int i = 0; i < BTL_IB_SIZE_LOSSES; i++) {
        if (sizes->streaks[i].losses > 0) {
            return true;
        }
    }
    return false;
}

/* Prepares a connection that is made; its rails carry datagrams of `carries` bytes, and the peer's
 * queues take datagrams of `most` bytes. */
void btl_ib_pmtud_init(btl_ib_conn_t *conn, uint32_t carries, uint32_t most);

/* Begins a new incarnation: nothing is in flight. What is known of the path stays. */
void btl_ib_pmtud_begin(btl_ib_conn_t *conn);

/* Takes over the route of `other`, or the connection's own again. */
void btl_ib_pmtud_moved(btl_ib_conn_t *conn, const btl_ib_conn_t *other);

/* Notes that the network says that the path carries datagrams of at most `size` bytes. */
void btl_ib_pmtud_narrowed(btl_ib_conn_t *conn, uint32_t size);

/* Notes that the last copy of a segment was lost, as what came shows; `shown`: as the answer to a
 * question does. Returns true if that shows a black hole: what is sent from now on is smaller, and
 * may well be answered. */
bool btl_ib_pmtud_lost(btl_ib_conn_t *conn, const btl_ib_segment_t *segment, bool shown);

/* Notes that the last copy of a segment got through: it was acknowledged. */
void btl_ib_pmtud_arrived(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* Notes that the recovery timer has sent a copy of this segment as a probe. Returns true if it is
 * so large that a small question is to be sent too, whose answer shows whether the path drops large
 * ones; it is noted as asked. */
bool btl_ib_pmtud_ask(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

/* Notes that an ACK was taken in: if it answers that question it may show a loss. Returns the same
 * as btl_ib_pmtud_lost(). */
bool btl_ib_pmtud_answered(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Notes that some of the segments that are not acknowledged arrived and got RNR, so it is not known
 * which are lost. */
void btl_ib_pmtud_unknown(btl_ib_conn_t *conn);

/* Notes that a segment is about to be sent again. Of a probe of the search only the sequence still
 * has to arrive. */
void btl_ib_pmtud_retransmitting(btl_ib_conn_t *conn, btl_ib_segment_t *segment);

/* Finds out from now on which size the path carries, without waiting for losses: first contact, if
 * there was none, by a VOID without zeros; then datagrams of the present size are proven, and the
 * search begins if they are lost. */
void btl_ib_pmtud_check(btl_ib_conn_t *conn);

/* Takes in a VOID from the peer, perhaps one of its probes. */
void btl_ib_pmtud_received(btl_ib_conn_t *conn, const btl_ib_view_t *view);

/* Returns the bytes of the datagram of a first contact. */
uint32_t btl_ib_pmtud_contact_size(const btl_ib_conn_t *conn);

/* Begins a probe of the search, for which it is time. Returns the size of its datagram; 0: send
 * none. */
uint32_t btl_ib_pmtud_next_probe(btl_ib_conn_t *conn);
void btl_ib_pmtud_probe_left(btl_ib_conn_t *conn, const btl_ib_segment_t *segment);

#endif
