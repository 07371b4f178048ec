/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The send queue of an RC connection, the credits that it needs, and the ids of its requests. */

#ifndef BTL_IB_VERBS_RC_SQ_H
#define BTL_IB_VERBS_RC_SQ_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs_rc_port.h"
#include "verbs_ring.h"

/* ---- ids of work requests ---- */

/*
 * Ids of work requests. A completion may come after its connection was closed, so an id names a
 * slot of the table of connections and which of its users in turn it belongs to.
 *
 *      63    52 51      32 31     30       0
 *     | epoch  | slot    | recv | number   |
 *
 * number: of a send in its ring, or of a receive buffer. Buffers that all peers share have an epoch
 * of their own, and their queue's number above that of the buffer.
 */

enum {
    BTL_IB_RC_SLOT_BITS = 20,
    BTL_IB_RC_EPOCH_BITS = 12,
    BTL_IB_RC_SHARED_EPOCH = (1 << BTL_IB_RC_EPOCH_BITS) - 1,
    BTL_IB_RC_INDEX_BITS = 24, /* of a shared buffer */
};

#define BTL_IB_RC_RECV (1u << 31)

/* The upper half, common to all requests of a connection. */
static inline uint64_t btl_ib_rc_wr_id_base(uint32_t epoch, uint32_t slot)
{
    return (uint64_t) epoch << 52 | (uint64_t) slot << 32;
}

static inline uint64_t btl_ib_rc_wr_id_shared(uint32_t queue)
{
    return btl_ib_rc_wr_id_base(BTL_IB_RC_SHARED_EPOCH, 0) | BTL_IB_RC_RECV
           | (uint64_t) queue << BTL_IB_RC_INDEX_BITS;
}

static inline uint32_t btl_ib_rc_wr_id_epoch(uint64_t id)
{
    return (uint32_t) (id >> 52);
}

static inline uint32_t btl_ib_rc_wr_id_slot(uint64_t id)
{
    return id >> 32 & ((1u << BTL_IB_RC_SLOT_BITS) - 1);
}

static inline bool btl_ib_rc_wr_id_is_recv(uint64_t id)
{
    return (id & BTL_IB_RC_RECV) != 0;
}

static inline bool btl_ib_rc_wr_id_is_shared(uint64_t id)
{
    return btl_ib_rc_wr_id_epoch(id) == BTL_IB_RC_SHARED_EPOCH;
}

/* ---- send queue ---- */

/*
 * The send queue of a connection. Not each send asks for a completion: each fourth of the ring
 * does, so that places come free, and the last of a batch while sends whose end nobody would hear
 * of hold much memory of the engine's.
 */

/* What all send queues of a transport have in common. */
typedef struct btl_ib_rc_sqs {
    uint32_t held; /* sends of the engine's memory that no signaled one follows */
    /* The batch that is being posted: */
    struct ibv_send_wr wr[BTL_IB_RC_BATCH];
    struct ibv_sge sge[BTL_IB_RC_BATCH];
} btl_ib_rc_sqs_t;

typedef struct btl_ib_rc_sq {
    btl_ib_rc_sqs_t *all;
    btl_ib_verbs_send_ring_t ring;
    struct ibv_qp *qp;
    uint64_t id;          /* upper half of the ids of its requests */
    uint32_t inline_size; /* bytes that a request can carry itself */
    uint32_t held;        /* its share of all->held */
} btl_ib_rc_sq_t;

/* Returns whether there was memory. */
bool btl_ib_rc_sq_init(btl_ib_rc_sq_t *sq, btl_ib_rc_sqs_t *all, uint32_t depth, uint64_t id);

static inline void btl_ib_rc_sq_attach(btl_ib_rc_sq_t *sq, struct ibv_qp *qp, uint32_t inline_size)
{
    sq->qp = qp;
    sq->inline_size = inline_size;
}

static inline uint64_t btl_ib_rc_sq_id(const btl_ib_rc_sq_t *sq, uint32_t number)
{
    return sq->id | (number & ~BTL_IB_RC_RECV);
}

/* The number that a completion is about. Of that in the id the uppermost bit is gone; less than a
 * ring is under way. */
static inline uint32_t btl_ib_rc_sq_number(const btl_ib_rc_sq_t *sq, uint64_t id)
{
    const uint32_t completed = sq->ring.completed;

    return completed + (((uint32_t) id - completed) & (BTL_IB_RC_RECV - 1));
}

/* Make request `i` of a batch of the datagram. Returns it. */
struct ibv_send_wr *btl_ib_rc_sq_fill(btl_ib_rc_sq_t *sq, int i, const btl_ib_tx_t *tx);

/* Post the first `n` requests of the batch, made of `txs`. Returns how many were taken; *error is 0
 * or an errno. */
int btl_ib_rc_sq_post_batch(btl_ib_rc_sq_t *sq, const btl_ib_tx_t *txs, int n, int *error);

/* Post a request of the transport's own, which makes no event. Returns 0 or an errno. */
int btl_ib_rc_sq_post_own(btl_ib_rc_sq_t *sq, struct ibv_send_wr *wr);

/* The queue is not used any more. */
static inline void btl_ib_rc_sq_close(btl_ib_rc_sq_t *sq)
{
    sq->all->held -= sq->held;
    sq->held = 0;
}

/* ---- credits ---- */

/*
 * Credits of a connection: the "credit word". Each side writes by RDMA into the other's memory how
 * many receive buffers it has posted again, in all, and the same of the slots of its eager ring.
 * That costs the other side no receive buffer. All numbers only grow (modulo 2^32).
 */

/* What one side tells the other, big-endian. */
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
    uint32_t flush;              /* the peer's word is read to here to flush writes */
    uint8_t rest[BTL_IB_VERBS_LINE - 36];
} btl_ib_rc_credit_line_t;

enum {
    BTL_IB_RC_CREDIT_BYTES = 12, /* of a word that are written */
    BTL_IB_RC_SEND_RESERVED =
        4, /* places of a send queue kept for what the transport itself sends */
};

typedef struct btl_ib_rc_credit {
    btl_ib_rc_sq_t *sq;
    btl_ib_rc_credit_line_t *line;
    uint32_t lkey;     /* of the line */
    struct ibv_mr *mr; /* of line->in, which the peer may write */
    uint64_t remote;   /* where the peer's is */
    uint32_t remote_key;
    bool open; /* the peer can be told */
    /* The peer's buffers: */
    uint32_t peer_depth; /* 0: they are not counted */
    uint32_t used;       /* by us, in all */
    /* Ours: */
    uint32_t depth;
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
    uint32_t
        eager_off_sent; /* the peer knows that it is off when our sends before this one are over */
} btl_ib_rc_credit_t;

/* `line` is registered as `lkey` for our own use. Returns 0 or a negative errno after logging
 * why. */
int btl_ib_rc_credit_init(btl_ib_rc_credit_t *credit, btl_ib_rc_sq_t *sq,
                          const btl_ib_verbs_t *verbs, void *line, uint32_t lkey, uint32_t depth,
                          uint32_t window, bool rdma);
void btl_ib_rc_credit_release(btl_ib_rc_credit_t *credit);

/* What the peer said when it connected. */
static inline void btl_ib_rc_credit_join(btl_ib_rc_credit_t *credit, uint32_t peer_depth,
                                         uint64_t remote, uint32_t remote_key)
{
    credit->peer_depth = peer_depth;
    credit->remote = remote;
    credit->remote_key = remote_key;
}

static inline void btl_ib_rc_credit_set_open(btl_ib_rc_credit_t *credit, bool open)
{
    credit->open = open;
}

/* Datagrams that the send queue and the peer's buffers can take now. */
uint32_t btl_ib_rc_credit_available(const btl_ib_rc_credit_t *credit);

/* Buffers of the peer's are used up. */
static inline void btl_ib_rc_credit_use(btl_ib_rc_credit_t *credit, uint32_t buffers)
{
    credit->used += buffers;
}

/* The peer has filled a buffer of ours. */
static inline void btl_ib_rc_credit_fill(btl_ib_rc_credit_t *credit)
{
    credit->filled++;
}

/* Buffers of ours are posted again. */
static inline void btl_ib_rc_credit_repost(btl_ib_rc_credit_t *credit, uint32_t buffers)
{
    credit->reposted += buffers;
}

/* Has the peer filled all buffers that it knows of? It can send nothing. */
static inline bool btl_ib_rc_credit_peer_is_out(const btl_ib_rc_credit_t *credit)
{
    return credit->filled == credit->depth + credit->reposted_told;
}

/* The state of our eager ring. */
static inline void btl_ib_rc_credit_set_eager(btl_ib_rc_credit_t *credit, uint32_t slots,
                                              uint32_t freed, bool on)
{
    if (credit->eager_on && !on) { /* if the peer was never told that it is on it knows */
        credit->eager_off_sent = credit->sq->ring.completed;
    }
    credit->slots = slots;
    credit->freed = freed;
    credit->eager_on = on;
}

/* Tell the peer if there is enough to tell, and room. Comes again whenever there may be room. */
void btl_ib_rc_credit_update(btl_ib_rc_credit_t *credit);

/* Does the peer know for sure that it may not write to our ring any more? */
static inline bool btl_ib_rc_credit_eager_off_known(const btl_ib_rc_credit_t *credit)
{
    return !credit->eager_on_told
           && (int32_t) (credit->sq->ring.completed - credit->eager_off_sent) >= 0;
}

/* What the peer told last. */
static inline uint32_t btl_ib_rc_credit_told(const uint32_t *word)
{
    return be32toh(__atomic_load_n(word, __ATOMIC_RELAXED));
}

#endif
