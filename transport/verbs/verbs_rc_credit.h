/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Credits of a connection. Each side writes a "credit word" by RDMA into the other's memory: how
 * many receive buffers it has posted again, and how many slots of its eager ring it has freed. Such
 * a write takes no receive buffer. All numbers are totals, which only grow (modulo 2^32):
 *
 *      our side, which receives                              the peer, which sends
 *
 *      filled    a message arrived in a buffer               used    a message was sent
 *      reposted  a buffer was posted again
 *      reposted_told  the word was written ------------->    in.reposted
 *
 *      reposted_told <= reposted <= filled <= used <= peer_depth + in.reposted
 *
 * where the peer's `peer_depth` is our `depth` and the reserve. Slots of an eager ring are counted
 * likewise (freed_told <= freed). The peer may lie: a word that says too much counts as "no
 * buffer".
 */

#ifndef BTL_IB_VERBS_RC_CREDIT_H
#define BTL_IB_VERBS_RC_CREDIT_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs_rc_work_queues.h"

/* The word that one side writes into the other's memory, big-endian. */
typedef struct btl_ib_rc_credit_word {
    uint32_t reposted;    /* total of receive buffers posted again */
    uint32_t eager_freed; /* total of slots of the eager ring freed */
    uint32_t eager_on;    /* not 0: the side that gets the word may write to the ring */
    uint32_t zero;
} btl_ib_rc_credit_word_t;

/* The first cache line of a connection's memory. */
typedef struct btl_ib_rc_credit_line {
    btl_ib_rc_credit_word_t in;  /* the peer's word, which the peer writes */
    btl_ib_rc_credit_word_t out; /* our word, from which the device writes it to the peer */
    uint32_t control[3][2];      /* control messages that are being sent (verbs_rc_idle.h) */
    uint32_t flush;              /* gets what a flush reads (verbs_rc_rdma.h) */
    uint8_t rest[BTL_IB_VERBS_LINE - 60];
} btl_ib_rc_credit_line_t;

enum {
    BTL_IB_RC_CREDIT_BYTES = 12, /* bytes of a word that are written */
    BTL_IB_RC_CONTROL_BYTES = 8, /* of a control message; all datagrams of the engine are longer */
    BTL_IB_RC_SEND_RESERVED = 4, /* places of a send queue kept for the transport's own requests */
};

typedef struct btl_ib_rc_credit {
    btl_ib_rc_sq_t *sq;
    btl_ib_rc_credit_line_t *line;
    uint32_t lkey;     /* of the line */
    struct ibv_mr *mr; /* of line->in, which the peer may write */
    uint64_t remote; /* address of the word in the peer's memory, from its connection parameters */
    uint32_t remote_key;
    bool open; /* the connection is open: before that the word cannot be written */

    /* The peer's buffers: */
    uint32_t peer_depth; /* how many; 0: they are not counted, as all peers share them */
    uint32_t used;       /* total of messages sent into them */

    /* Our buffers: */
    uint32_t depth;    /* how many the peer may fill with data; the reserve is not among them */
    uint32_t filled;   /* total of buffers filled */
    uint32_t reposted; /* total of buffers posted again */
    uint32_t reposted_told; /* `reposted` in the last word */
    uint32_t window; /* the next word is due after this many are posted again; or after one, if the
                      * peer is out of buffers */

    /* Our eager ring: */
    uint32_t slots;      /* 0: there is no ring */
    uint32_t freed;      /* total of slots freed */
    uint32_t freed_told; /* `freed` in the last word */
    bool eager_on;       /* the peer may write to the ring */
    bool eager_on_told;  /* `eager_on` in the last word */
    /* The peer knows that the ring is off when all sends with a lower number have completed. */
    uint32_t eager_off_sent;
} btl_ib_rc_credit_t;

/* Registers the word in `line`, which the peer is to write; with `rdma` the peer may read it, too
 * (to flush its writes). `lkey` is that of the line, which is registered for our own use. `depth`
 * and `window` are buffers, as in btl_ib_rc_credit_t. Returns 0, or a negative errno after logging
 * why. The caller deregisters credit->mr. */
int btl_ib_rc_credit_init(btl_ib_rc_credit_t *credit, btl_ib_rc_sq_t *sq,
                          const btl_ib_verbs_t *verbs, void *line, uint32_t lkey, uint32_t depth,
                          uint32_t window, bool rdma);

/* Returns a number of a word that the peer may write at any time. */
static inline uint32_t btl_ib_rc_credit_told(const uint32_t *word)
{
    return be32toh(__atomic_load_n(word, __ATOMIC_RELAXED));
}

/* Returns how many datagrams can be sent now: as many as the send queue has room for, and the peer
 * has buffers for, `spare` of which are to stay free. */
static inline uint32_t btl_ib_rc_credit_available(const btl_ib_rc_credit_t *credit, uint32_t spare)
{
    const uint32_t room = btl_ib_verbs_send_ring_room(&credit->sq->ring);
    const uint32_t places = room > BTL_IB_RC_SEND_RESERVED ? room - BTL_IB_RC_SEND_RESERVED : 0;

    if (credit->peer_depth == 0) {
        return places;
    }
    const uint32_t reposted = btl_ib_rc_credit_told(&credit->line->in.reposted);
    const uint32_t left = credit->peer_depth + reposted - credit->used;
    /* If the peer claims more buffers than it has, its word is nonsense. */
    return btl_ib_verbs_min(places, left > spare && left <= credit->peer_depth ? left - spare : 0);
}

/* True if the peer can send no data: it has filled all buffers that it knows of, except the
 * reserve. */
static inline bool btl_ib_rc_credit_peer_is_out(const btl_ib_rc_credit_t *credit)
{
    return (int32_t) (credit->filled - credit->depth - credit->reposted_told) >= 0;
}

/* Sets the state of our eager ring for the next word. */
void btl_ib_rc_credit_set_eager(btl_ib_rc_credit_t *credit, uint32_t slots, uint32_t freed,
                                bool on);

/* Fills in a request that writes our word into the peer's memory. */
void btl_ib_rc_credit_fill_write(btl_ib_rc_credit_t *credit, struct ibv_send_wr *wr,
                                 struct ibv_sge *sge);

/* Writes our word into the peer's memory; does nothing if the send queue is full. Returns 0, or the
 * errno of the post. */
int btl_ib_rc_credit_tell(btl_ib_rc_credit_t *credit);

/* Writes our word into the peer's memory if enough has changed and the send queue has room. To be
 * called after each change, and again whenever there may be room. */
void btl_ib_rc_credit_update(btl_ib_rc_credit_t *credit);

/* True if the word that switched our ring off is known to be in the peer's memory. */
bool btl_ib_rc_credit_eager_off_known(const btl_ib_rc_credit_t *credit);

#endif
