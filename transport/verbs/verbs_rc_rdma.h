/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Operations on memory that a connection's device does: writes, reads and atomics. They have a
 * channel of their own, so that bulk does not stand before messages.
 *
 * Each operation completes by itself, and all before it with it, as a queue pair works in order. A
 * write over iWARP is not yet placed when it completes (RFC 5040, 5.5: that says only that the
 * local memory is free again), nor is one to memory that the device may fill in any order. There a
 * read of the peer's credit word follows ("flush"): when it is back the writes before it are
 * placed. Reads and atomics are bounded by what the peer serves at once; where that is used up the
 * flush comes as soon as another read is over, for all writes until then.
 *
 * Short operations need no registered memory: they are copied through a ring of bounce buffers,
 * which is free again in the order of posting. None takes more than half of the ring: where it
 * begins is then no matter. All rings of a device together have a bound (btl_ib_bounce_size): a
 * connection that would exceed it has the least, and processors move what does not fit there.
 */

#ifndef BTL_IB_VERBS_RC_RDMA_H
#define BTL_IB_VERBS_RC_RDMA_H

#include "verbs_rc_credit.h"
#include "verbs_rc_work_queues.h"

/* An operation, or a flush. */
typedef struct btl_ib_rc_op {
    void *context;
    bool reads;    /* counts against what the peer serves at once */
    uint64_t size; /* bytes that it moves */
    int error;
    uint32_t bounce;      /* where its bounce buffer begins */
    uint32_t bounce_size; /* 0: it has none */
    uint32_t taken;       /* rdma->freed once the operation is over */
    void *sink;           /* where to copy the bounce buffer then, NULL: nowhere */
} btl_ib_rc_op_t;

typedef struct btl_ib_rc_rdma {
    btl_ib_rc_sq_t *sq;
    btl_ib_rc_credit_t *credit;
    btl_ib_rc_op_t *op; /* beside the ring of sends */
    uint8_t *bounce;
    uint32_t bounce_bytes; /* of that ring: a power of two */
    uint32_t lkey;
    uint32_t taken; /* bytes of the bounce ring, in all */
    uint32_t freed;
    uint32_t reads;     /* under way */
    uint32_t reads_max; /* 0: the peer serves none */
    bool flushes;       /* a write is done when a read after it is */
    bool unflushed;     /* there are writes that no read follows */
} btl_ib_rc_rdma_t;

/* Returns the part of a connection that is for operations on memory, NULL if memory is short. */
btl_ib_rc_rdma_t *btl_ib_rc_rdma_new(btl_ib_rc_sq_t *sq, btl_ib_rc_credit_t *credit,
                                     uint32_t depth);
void btl_ib_rc_rdma_free(btl_ib_rc_rdma_t *rdma);

/* Returns the bytes of a connection's ring of bounce buffers, a power of two: room for `num` of
 * `size` at least, or as much of that as `left` bytes hold; room for atomics in any case. */
uint32_t btl_ib_rc_rdma_bounce_bytes(uint32_t size, uint32_t num, uint64_t left);

/*
 * Begins an operation. Returns 0, or a negative errno and nothing was begun: -EAGAIN (no room),
 * -EOPNOTSUPP (the peer serves no reads, or it would have to be copied and is longer than half
 * of the connection's ring), -EIO. *broken is the errno with which the connection
 * became useless, or 0.
 */
int btl_ib_rc_rdma_post(btl_ib_rc_rdma_t *rdma, const btl_ib_rdma_work_t *work, int *broken);

/* Operations that devices took, but for atomics: in registered memory, or copied. */
typedef struct btl_ib_rc_moved {
    uint64_t writes, writes_copied, reads, reads_copied;
} btl_ib_rc_moved_t;

/* Counts one that was begun; and logs all, at level 10: for those who set the limits of copying. */
void btl_ib_rc_rdma_count(btl_ib_rc_moved_t *moved, const btl_ib_rdma_work_t *work);
void btl_ib_rc_rdma_log(const btl_ib_rc_moved_t *moved, const btl_ib_verbs_t *verbs);

/* Posts a flush if writes wait for one and the peer serves one more read. Returns 0, or an errno if
 * the connection is of no use any more. */
int btl_ib_rc_rdma_flush(btl_ib_rc_rdma_t *rdma);

/* Operations that wait for the peer, flushes included, and the bytes that they move. */
typedef struct btl_ib_rc_under_way {
    uint32_t count;
    uint64_t bytes;
} btl_ib_rc_under_way_t;

btl_ib_rc_under_way_t btl_ib_rc_rdma_under_way(const btl_ib_rc_rdma_t *rdma);

/* Posts a write of the peer's credit word, which nobody reads there: the peer's device gets
 * something while others are under way. Returns 0 or an errno. */
int btl_ib_rc_rdma_rouse(btl_ib_rc_rdma_t *rdma);

/* Posts a message between the operations, if there is room. Returns 0 or an errno. */
int btl_ib_rc_rdma_post_control(btl_ib_rc_rdma_t *rdma, struct ibv_send_wr *wr);

/* Ends operations before number `completed`, those that had not failed yet with `error` (0:
 * done). */
void btl_ib_rc_rdma_complete(btl_ib_rc_rdma_t *rdma, uint32_t completed, int error);

/* Notes that operation `number` failed by itself; the connection is about to be closed. */
void btl_ib_rc_rdma_failed(btl_ib_rc_rdma_t *rdma, uint32_t number, enum ibv_wc_status status);

#endif
