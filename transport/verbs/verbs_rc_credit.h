/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Credits of a connection, in a "credit word". Each side writes by RDMA into the other's memory how
 * many receive buffers it has posted again, and how many slots of its eager ring it has freed. Such
 * a write takes no receive buffer of the other side. Both are totals, which only grow (modulo
 * 2^32).
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
    uint32_t eager_on;    /* not 0: the other side may write to the ring */
    uint32_t zero;
} btl_ib_rc_credit_word_t;

/* The first cache line of a connection's memory. */
typedef struct btl_ib_rc_credit_line {
    btl_ib_rc_credit_word_t in;  /* the peer's word, which the peer writes */
    btl_ib_rc_credit_word_t out; /* our word, from which the device writes it to the peer */
    uint32_t control[3][2];      /* control messages that are on their way (verbs_rc_idle.h) */
    uint32_t flush;              /* gets what is read to flush writes (verbs_rc_rdma.h) */
    uint8_t rest[BTL_IB_VERBS_LINE - 60];
} btl_ib_rc_credit_line_t;

enum {
    BTL_IB_RC_CREDIT_BYTES = 12, /* bytes of a word that are written */
    BTL_IB_RC_CONTROL_BYTES = 8, /* of a control message; datagrams of the engine are longer */
    BTL_IB_RC_SEND_RESERVED = 4, /* places of a send queue kept for the transport's own requests */
};

typedef struct btl_ib_rc_credit {
    btl_ib_rc_sq_t *sq;
    btl_ib_rc_credit_line_t *line;
    uint32_t lkey;     /* of the line */
    struct ibv_mr *mr; /* of line->in, which the peer may write */
    uint64_t remote; /* address of the word in the peer's memory, from its connection parameters */
    uint32_t remote_key;
    bool open; /* the connection is open, so that the word can be written */
    /* The peer's buffers: */
    uint32_t peer_depth; /* 0: they are not counted */
    uint32_t used;       /* total that we have used */
    /* Our buffers: */
    uint32_t depth;         /* buffers that the peer may fill with data */
    uint32_t window;        /* the word is written after this many are posted again, */
    uint32_t filled;        /* or after any, if the peer has filled all it knows of. Total filled */
    uint32_t reposted;      /* total posted again */
    uint32_t reposted_told; /* of these, the total that the last word said */
    /* Our eager ring: */
    uint32_t slots;          /* 0: none */
    uint32_t freed;          /* total of slots freed */
    uint32_t freed_told;     /* the total that the last word said */
    bool eager_on;           /* the peer may write to the ring */
    bool eager_on_told;      /* as the last word said */
    uint32_t eager_off_sent; /* the peer knows that the ring is off when sends before this number
                              * have completed */
} btl_ib_rc_credit_t;

/* Registers the word in `line` for the peer to write. `lkey` is that of the line, which is
 * registered for our own use. Returns 0, or a negative errno after logging why. */
int btl_ib_rc_credit_init(btl_ib_rc_credit_t *credit, btl_ib_rc_sq_t *sq,
                          const btl_ib_verbs_t *verbs, void *line, uint32_t lkey, uint32_t depth,
                          uint32_t window, bool rdma);

/* Returns how many datagrams the send queue and the peer's buffers can take now, if `spare` buffers
 * are to stay free. */
uint32_t btl_ib_rc_credit_available(const btl_ib_rc_credit_t *credit, uint32_t spare);

/* True if the peer can send no data, as it has filled all buffers that it knows of, except the
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

/* Writes our word into the peer's memory, if the send queue has room. Returns 0 or an errno. */
int btl_ib_rc_credit_tell(btl_ib_rc_credit_t *credit);

/* Writes our word into the peer's memory if enough has changed, and the send queue has room. The
 * caller calls it again whenever there may be room. */
void btl_ib_rc_credit_update(btl_ib_rc_credit_t *credit);

/* True if the word that switches our ring off has certainly reached the peer. */
bool btl_ib_rc_credit_eager_off_known(const btl_ib_rc_credit_t *credit);

/* Returns a number of the peer's word, which the peer may write at any time. */
static inline uint32_t btl_ib_rc_credit_told(const uint32_t *word)
{
    return be32toh(__atomic_load_n(word, __ATOMIC_RELAXED));
}

#endif
