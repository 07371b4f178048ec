/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Credits of a connection: the "credit word". Each side writes by RDMA into the other's memory how
 * many receive buffers it has posted again, in all, and how many slots of its eager ring it has
 * freed. That costs the other side no receive buffer. All numbers only grow (modulo 2^32).
 */

#ifndef BTL_IB_VERBS_RC_CREDIT_H
#define BTL_IB_VERBS_RC_CREDIT_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs_rc_work_queues.h"

/* The word that one side writes into the other's memory, big-endian. */
typedef struct btl_ib_rc_credit_word {
    uint32_t reposted;    /* receive buffers, in all */
    uint32_t eager_freed; /* slots of the eager ring, in all */
    uint32_t eager_on;    /* not 0: the ring may be written to */
    uint32_t zero;
} btl_ib_rc_credit_word_t;

/* The first cache line of a connection's memory. */
typedef struct btl_ib_rc_credit_line {
    btl_ib_rc_credit_word_t in;  /* the peer writes here, */
    btl_ib_rc_credit_word_t out; /* and we what goes to the peer */
    uint32_t control[3][2];      /* control messages that are on their way (verbs_rc_idle.h) */
    uint32_t flush;              /* the peer's word is read to here to flush writes */
    uint8_t rest[BTL_IB_VERBS_LINE - 60];
} btl_ib_rc_credit_line_t;

enum {
    BTL_IB_RC_CREDIT_BYTES = 12, /* of a word that are written */
    BTL_IB_RC_CONTROL_BYTES = 8, /* of a control message; no datagram of the engine is as short */
    BTL_IB_RC_SEND_RESERVED = 4, /* places of a send queue kept for the transport's own requests */
};

typedef struct btl_ib_rc_credit {
    btl_ib_rc_sq_t *sq;
    btl_ib_rc_credit_line_t *line;
    uint32_t lkey;     /* of the line */
    struct ibv_mr *mr; /* of line->in, which the peer may write */
    uint64_t remote;   /* where the peer's is, as it said when it connected */
    uint32_t remote_key;
    bool open; /* the peer can be told */
    /* The peer's buffers: */
    uint32_t peer_depth; /* 0: they are not counted */
    uint32_t used;       /* by us, in all */
    /* Ours: */
    uint32_t depth;  /* buffers that the peer may fill with data */
    uint32_t window; /* the peer is told of so many that are posted again, */
    uint32_t filled; /* or of any when it has filled all that it knows of: this many, in all */
    uint32_t reposted;
    uint32_t reposted_told;
    /* Our eager ring: */
    uint32_t slots; /* 0: none */
    uint32_t freed;
    uint32_t freed_told;
    bool eager_on;
    bool eager_on_told;
    uint32_t eager_off_sent; /* once our sends before this one are over the peer knows it is off */
} btl_ib_rc_credit_t;

/* Registers the word in `line` for the peer; the line is registered as `lkey` for our own use.
 * Returns 0 or a negative errno after logging why. */
int btl_ib_rc_credit_init(btl_ib_rc_credit_t *credit, btl_ib_rc_sq_t *sq,
                          const btl_ib_verbs_t *verbs, void *line, uint32_t lkey, uint32_t depth,
                          uint32_t window, bool rdma);

/* Returns how many datagrams the send queue and the peer's buffers can take now, of which `spare`
 * are left to others. */
uint32_t btl_ib_rc_credit_available(const btl_ib_rc_credit_t *credit, uint32_t spare);

/* True if the peer has filled all buffers that it knows of, but for the reserve: it can send no
 * data. */
static inline bool btl_ib_rc_credit_peer_is_out(const btl_ib_rc_credit_t *credit)
{
    return (int32_t) (credit->filled - credit->depth - credit->reposted_told) >= 0;
}

/* Sets the state of our eager ring, which the next word tells. */
void btl_ib_rc_credit_set_eager(btl_ib_rc_credit_t *credit, uint32_t slots, uint32_t freed,
                                bool on);

/* Fills in a request that writes our word into the peer's memory. */
void btl_ib_rc_credit_fill_write(btl_ib_rc_credit_t *credit, struct ibv_send_wr *wr,
                                 struct ibv_sge *sge);

/* Writes our word into the peer's memory, if the send queue has room. Returns 0 or an errno. */
int btl_ib_rc_credit_tell(btl_ib_rc_credit_t *credit);

/* Writes our word into the peer's memory if enough has changed and there is room. The caller comes
 * again whenever there may be room. */
void btl_ib_rc_credit_update(btl_ib_rc_credit_t *credit);

/* True if the peer knows for sure that it may not write to our ring any more. */
bool btl_ib_rc_credit_eager_off_known(const btl_ib_rc_credit_t *credit);

/* Returns a number of the peer's word, which the peer may write at any time. */
static inline uint32_t btl_ib_rc_credit_told(const uint32_t *word)
{
    return be32toh(__atomic_load_n(word, __ATOMIC_RELAXED));
}

#endif
