/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Operations on memory by a connection's device: writes, reads and atomics. They have a channel,
 * and so a connection, of their own, so that messages do not wait behind them.
 *
 * The completion of an operation completes all operations before it as well, because a queue pair
 * works in order. But the completion of a write may say only that the local memory is free, not
 * that the data are in place: over iWARP (RFC 5040, 5.5), and where the device fills the peer's
 * memory in any order. After such writes the peer's credit word is read (a "flush"): when the read
 * is done, the writes before it are in place. The peer serves only some reads and atomics at once.
 * If all of these are under way, the flush is posted as soon as one is done, for all writes until
 * then.
 *
 * Short operations need no registered memory: they are copied through a ring of bounce buffers,
 * which are freed in the order of posting. No operation takes more than half of the ring, so that
 * it fits wherever it begins. The rings of all connections together are limited (bounce_total): a
 * connection that would exceed the limit has the smallest ring, and processors move what does not
 * fit.
 */

#ifndef BTL_IB_VERBS_RC_RDMA_H
#define BTL_IB_VERBS_RC_RDMA_H

#include "verbs_rc_credit.h"
#include "verbs_rc_work_queues.h"

/* An operation, or a flush. */
typedef struct btl_ib_rc_op {
    void *context;
    bool reads;           /* a read or atomic: counted in rdma->reads */
    uint64_t size;        /* bytes that it moves */
    int error;            /* errno, if the device says that this operation failed; else 0 */
    uint32_t bounce;      /* offset of its bounce buffer */
    uint32_t bounce_size; /* bytes; 0: it has no bounce buffer */
    uint32_t taken;       /* becomes rdma->freed when the operation is over */
    void *sink;           /* where its bounce buffer is copied to then; NULL: nowhere */
} btl_ib_rc_op_t;

typedef struct btl_ib_rc_rdma {
    btl_ib_rc_sq_t *sq;
    btl_ib_rc_credit_t *credit;
    btl_ib_rc_op_t *op;    /* by place in the send ring */
    uint8_t *bounce;       /* the ring of bounce buffers */
    uint32_t bounce_bytes; /* of that ring: a power of two */
    uint32_t lkey;         /* of that ring */
    uint32_t taken;        /* total of bytes of the ring taken */
    uint32_t freed;        /* total of bytes of the ring freed */
    uint32_t reads;        /* reads and atomics under way, flushes included */
    uint32_t reads_max;    /* reads and atomics that the peer serves at once; 0: none */
    bool flushes;          /* writes need a flush */
    bool unflushed;        /* writes were posted that no read follows yet */
} btl_ib_rc_rdma_t;

/* Returns what a connection for operations on memory has in addition; NULL: memory is short.
 * `depth` is that of the send queue. */
btl_ib_rc_rdma_t *btl_ib_rc_rdma_new(btl_ib_rc_sq_t *sq, btl_ib_rc_credit_t *credit,
                                     uint32_t depth);
void btl_ib_rc_rdma_free(btl_ib_rc_rdma_t *rdma);

/* Returns the bytes of a connection's ring of bounce buffers, a power of two: for at least `num`
 * buffers of `size` bytes; for fewer if only `left` bytes are left of the limit; but always enough
 * for atomics. */
uint32_t btl_ib_rc_rdma_bounce_bytes(uint32_t size, uint32_t num, uint64_t left);

/*
 * Begins an operation. Returns 0; or a negative errno, and nothing was begun: -EAGAIN (no room),
 * -EOPNOTSUPP (the peer serves no reads; or the operation has to be copied and is longer than half
 * of the ring), -EIO. *broken is the errno with which the connection broke; 0: it did not.
 */
int btl_ib_rc_rdma_post(btl_ib_rc_rdma_t *rdma, const btl_ib_rdma_work_t *work, int *broken);

/* Counters of writes and reads that devices took: from registered memory, and copied. */
typedef struct btl_ib_rc_moved {
    uint64_t writes, writes_copied, reads, reads_copied;
} btl_ib_rc_moved_t;

/* Counts an operation that was begun. */
void btl_ib_rc_rdma_count(btl_ib_rc_moved_t *moved, const btl_ib_rdma_work_t *work);

/* Logs the counters, at level 10, for users who tune the limits of copying. */
void btl_ib_rc_rdma_log(const btl_ib_rc_moved_t *moved, const btl_ib_verbs_t *verbs);

/* Posts a flush if writes wait for one and the peer serves one more read now. Returns 0, or the
 * errno with which the connection broke. */
int btl_ib_rc_rdma_flush(btl_ib_rc_rdma_t *rdma);

/* The number of operations under way, flushes included, and the bytes that they move. */
typedef struct btl_ib_rc_under_way {
    uint32_t count;
    uint64_t bytes;
} btl_ib_rc_under_way_t;

btl_ib_rc_under_way_t btl_ib_rc_rdma_under_way(const btl_ib_rc_rdma_t *rdma);

/* Posts a write to the peer's memory that changes nothing, so that something arrives at the peer's
 * device (verbs_rc_watch.h). Returns 0 or an errno. */
int btl_ib_rc_rdma_rouse(btl_ib_rc_rdma_t *rdma);

/* Posts a control message (verbs_rc_idle.h) on the operations' queue pair, if there is room.
 * Returns 0 or an errno. */
int btl_ib_rc_rdma_post_control(btl_ib_rc_rdma_t *rdma, struct ibv_send_wr *wr);

/* Ends the operations with numbers below `completed`: with `error` (0: done), or with the error
 * that the device gave for an operation itself. */
void btl_ib_rc_rdma_complete(btl_ib_rc_rdma_t *rdma, uint32_t completed, int error);

/* Notes that the device gave an error for operation `number`. The caller is about to close the
 * connection. */
void btl_ib_rc_rdma_failed(btl_ib_rc_rdma_t *rdma, uint32_t number, enum ibv_wc_status status);

#endif
