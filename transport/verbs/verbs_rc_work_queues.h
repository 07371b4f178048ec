/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Work queues of RC connections: send queues, receive queues, shared receive queues (SRQ) with
 * their low-watermark event, and completion queues; and the port that they are on. */

#ifndef BTL_IB_VERBS_RC_WORK_QUEUES_H
#define BTL_IB_VERBS_RC_WORK_QUEUES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "verbs_device.h"
#include "verbs_formats.h"

/* ---- the port ---- */

/*
 * The open port of an RC transport and its settings. Written while it is opened (verbs_rc.c,
 * verbs_rc_cm.c), read by all files.
 */

enum {
    BTL_IB_RC_BATCH = 64,        /* work requests that one call posts */
    BTL_IB_RC_TX_DEPTH = 128,    /* requests that a send queue holds, by default */
    BTL_IB_RC_TX_DEPTH_MIN = 16, /* and at least: the transport needs some for its own messages */
    BTL_IB_RC_CQ_DEPTH = 4096,   /* entries of the first completion queue, by default */
};

typedef struct btl_ib_rc_port {
    btl_ib_verbs_t verbs; /* its context is rdma_cm's */
    bool iwarp;
    uint32_t cq_num; /* entries of the first completion queue at least */
    uint32_t channel_tx_depth[BTL_IB_RC_QUEUES_MAX]; /* depth of the send queue, by channel */
    uint32_t tx_depth;    /* the largest of these; for connections for operations on memory */
    uint8_t ack_timeout;  /* 4.096 us x 2^n; 0: what the connection manager takes */
    uint8_t retry;        /* 0..7 */
    uint8_t rnr_retry;    /* 0..7, 7: without end */
    uint8_t rnr_timer;    /* code of a time (IBTA 9.7.5.2.8) */
    uint8_t tos;          /* traffic class; 0: the default */
    uint8_t level;        /* service level; 0: the route's */
    uint8_t reads;        /* reads and atomics at once: most that are served, and asked, per peer */
    bool relaxed;         /* exposed memory may be written in any order */
    uint32_t bounce_size; /* bytes of the largest operation that is copied */
    uint32_t bounce_num;  /* operations of that size that a connection's bounce buffers hold */
    uint64_t bounce_total; /* bytes of all connections' bounce buffers; 0: no bound */
    uint32_t unknown_max;  /* peers that may connect before they are added */
    uint32_t idle;         /* seconds of silence after which a connection is closed; 0: never */
    bool idle_first;       /* connections of the first channel are closed, too */
} btl_ib_rc_port_t;

/* Chooses how many requests the send queues of connections hold; the device takes at most
 * `most`. */
void btl_ib_rc_plan_send_depths(btl_ib_rc_port_t *port, const btl_ib_open_params_t *params,
                                uint32_t most);

/* Chooses the sizes of bounce buffers, for operations on memory that are copied. */
void btl_ib_rc_plan_bounces(btl_ib_rc_port_t *port, const btl_ib_open_rc_t *open);

/* Returns microseconds of a clock that never goes back. */
static inline uint64_t btl_ib_rc_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000u + (uint64_t) now.tv_nsec / 1000u;
}

/* ---- completion queues ---- */

/*
 * Completion queues of an RC transport, and sleeping on them. A queue that overflows ends all
 * connections that use it, so each connection reserves as many entries as it can ever fill. Some
 * devices cannot resize a queue (siw). So there are several queues, each twice as large as the one
 * before: few have to be polled even for thousands of peers.
 */

enum { BTL_IB_RC_CQ_MAX = 24 };

typedef struct btl_ib_rc_cq {
    struct ibv_cq *cq;
    uint32_t free;    /* entries that no connection has reserved */
    uint32_t leaving; /* entries of closed connections: free once the queue was read until empty */
} btl_ib_rc_cq_t;

typedef struct btl_ib_rc_cqs {
    const btl_ib_rc_port_t *port;
    btl_ib_verbs_comp_t comp;
    btl_ib_rc_cq_t cq[BTL_IB_RC_CQ_MAX];
    uint32_t count;
    uint32_t shared_entries; /* entries of each queue that are kept for shared receive queues; set
                              * before connections reserve any */
    /* Completions that were read and not taken yet. They are taken before any queue is read
     * again. */
    struct ibv_wc wc[BTL_IB_RC_BATCH];
    uint32_t wc_first;
    uint32_t wc_count;
} btl_ib_rc_cqs_t;

void btl_ib_rc_cqs_close(btl_ib_rc_cqs_t *cqs);

/* Reserves entries of one queue, which is made if no other has so many. Returns NULL, with errno,
 * after logging why. */
btl_ib_rc_cq_t *btl_ib_rc_cq_reserve(btl_ib_rc_cqs_t *cqs, uint32_t entries);

/* Reads completions of one queue into cqs->wc, which is empty. Returns how many, or a negative
 * number if the queue cannot be read. */
static inline int btl_ib_rc_cqs_read(btl_ib_rc_cqs_t *cqs, const btl_ib_rc_cq_t *cq)
{
    const int n = ibv_poll_cq(cq->cq, BTL_IB_RC_BATCH, cqs->wc);

    if (n > 0) {
        cqs->wc_first = 0;
        cqs->wc_count = (uint32_t) n;
    }
    return n;
}

/* Arms all queues, so that their descriptor becomes readable with the next completion, and reads
 * completions that came before. Returns the descriptor; -1 if arming failed, or there are
 * completions to take. */
int btl_ib_rc_cqs_arm(btl_ib_rc_cqs_t *cqs);

/* True if `cq` is one of the queues. */
bool btl_ib_rc_cqs_has(const btl_ib_rc_cqs_t *cqs, const struct ibv_cq *cq);

/* ---- receive queues ---- */

enum { BTL_IB_RC_SLABS_MAX = 24 }; /* each as large as all before it */

/* Buffers of a connection, or of a shared queue. */
typedef struct btl_ib_rc_rx {
    btl_ib_verbs_rx_pool_t pool; /* its owner is the connection; NULL: a shared queue */
    btl_ib_verbs_rx_buffer_t *buffer;
    uint32_t count;
    uint32_t size; /* bytes that each holds */
    uint32_t low;  /* idle buffers are posted when at most this many are posted */
} btl_ib_rc_rx_t;

/*
 * A receive queue of btl_ib_receive_queues. If it is not shared each connection has `num` buffers
 * of its own (`rx` of btl_ib_rc_conn_t). A shared queue begins with some buffers, which are
 * doubled:
 *
 *      limit > 1    `made` < `num`: the device reports when fewer than `limit` are posted, and
 *                   `made` is doubled
 *      limit == 1   no more can be made (`full`): the device reports when none is posted, which is
 *                   counted
 *      limit == 0   the device cannot report
 *
 * A report disarms the device; it is armed again after the next post that reaches `limit`.
 */
typedef struct btl_ib_rc_rxq {
    uint32_t size;
    uint32_t num;     /* buffers: of each connection, the reserve included; or of all */
    uint32_t low;     /* low watermark: idle buffers are posted when at most this many are posted */
    uint32_t window;  /* buffers posted again after which the peer is told; not if shared */
    uint32_t reserve; /* buffers of `num` for control traffic */
    bool shared;

    /* Of a shared queue only: */
    btl_ib_rc_rx_t rx;
    uint32_t limit;
    uint32_t made;          /* buffers that there are */
    bool full;              /* no more can be made */
    bool armed;             /* the device will report */
    uint64_t refused_since; /* us: since when the device, which has none, takes none; 0: it has
                             * taken some since */
    uint32_t slabs;
    struct ibv_mr *slab[BTL_IB_RC_SLABS_MAX];

    /* Totals, for the log: */
    uint64_t refills;  /* calls that posted idle buffers, of all connections */
    uint64_t refilled; /* buffers that these calls posted */
    uint32_t doubled;  /* times that `made` was doubled */
    uint64_t emptied;  /* times that the device reported that none was left: senders got RNR */
} btl_ib_rc_rxq_t;

typedef struct btl_ib_rc_rxqs {
    uint32_t count;
    bool any_shared;
    bool unposted; /* the device did not take all buffers of a shared queue for want of memory */
    btl_ib_rc_rxq_t queue[BTL_IB_RC_QUEUES_MAX];
} btl_ib_rc_rxqs_t;

/* Returns the bytes from one buffer to the next: whole cache lines. */
static inline uint32_t btl_ib_rc_rx_stride(uint32_t size)
{
    return (size + BTL_IB_VERBS_LINE - 1) / BTL_IB_VERBS_LINE * BTL_IB_VERBS_LINE;
}

/* Returns how many buffers each connection has for a queue that is not shared: one more than num
 * and reserve, for the message that opens a connection. */
static inline uint64_t btl_ib_rc_rx_own(const btl_ib_open_queue_t *wanted)
{
    return (uint64_t) wanted->num + wanted->reserve + 1;
}

/* Makes `count` buffers of `size` bytes in `memory`, registered with `key`, all of them idle. Their
 * work requests have the ids from `id` on. Returns 0 or -ENOMEM. */
int btl_ib_rc_rx_make(btl_ib_rc_rx_t *rx, void *owner, uint32_t count, uint32_t size, uint32_t low,
                      uint8_t *memory, uint32_t key, uint64_t id);

/* Opens the queues that were asked for, if the device can have them. Returns 0 or a negative errno
 * after logging why; free follows in either case. */
int btl_ib_rc_rxqs_open(btl_ib_rc_rxqs_t *rxqs, const btl_ib_rc_port_t *port,
                        const btl_ib_open_params_t *params);

/* True if there are idle buffers and it is time to post them: at most `low` are posted. */
static inline bool btl_ib_rc_rx_is_low(const btl_ib_rc_rx_t *rx)
{
    return rx->pool.posted <= rx->low && rx->pool.idle_count > 0;
}

/* Posts the idle buffers of one connection, or of the shared queue with that pool, if it is time to
 * (btl_ib_rc_rx_is_low()). Returns how many it posted, or a negative errno. A device that has no
 * memory for those of a shared queue is no error: `unposted` is set. */
int btl_ib_rc_rxqs_post_own(btl_ib_rc_rxqs_t *rxqs, uint8_t channel, btl_ib_rc_rx_t *rx);
int btl_ib_rc_rxqs_post_shared(btl_ib_rc_rxqs_t *rxqs, const btl_ib_verbs_rx_pool_t *pool);

/* Notes which shared queues have idle buffers and none posted after they were to be posted, which
 * left `unposted` set. Returns true if one had none for so long that what refuses them will not
 * pass: the device has failed. */
bool btl_ib_rc_rxqs_note_refused(btl_ib_rc_rxqs_t *rxqs, uint64_t now);

/* Handles the device's report on a shared queue: doubles its buffers; or counts, if no more can be
 * made, that none was left, and logs that once. Returns 0 or a negative errno. */
int btl_ib_rc_rxqs_ran_low(btl_ib_rc_rxqs_t *rxqs, const btl_ib_verbs_t *verbs,
                           const struct ibv_srq *srq);

/* Destroys shared queues: the device touches their buffers no more. Logs the totals. */
void btl_ib_rc_rxqs_stop(btl_ib_rc_rxqs_t *rxqs, const btl_ib_verbs_t *verbs);
void btl_ib_rc_rxqs_free(btl_ib_rc_rxqs_t *rxqs);

/* Returns how often a shared queue had no buffer left. */
uint64_t btl_ib_rc_rxqs_emptied(const btl_ib_rc_rxqs_t *rxqs);

/* Returns how many buffers all shared queues have. */
uint32_t btl_ib_rc_rxqs_shared(const btl_ib_rc_rxqs_t *rxqs);

/* rx_depth() of btl_ib_transport_ops_t. */
uint32_t btl_ib_rc_rxqs_depth(const btl_ib_rc_rxqs_t *rxqs, uint32_t size);

/* Sets the sizes and kinds of the queues only, for a forecast. */
void btl_ib_rc_plan_rxqs(btl_ib_rc_rxqs_t *rxqs, const btl_ib_open_params_t *open);

/* Returns the number of the queue that `srq` belongs to, rxqs->count if there is none. */
uint32_t btl_ib_rc_rxqs_find(const btl_ib_rc_rxqs_t *rxqs, const struct ibv_srq *srq);

/* ---- ids of work requests ---- */

/*
 * Ids of work requests. A completion may come after its connection was closed, and another one may
 * have its slot in the table of connections then. So an id has the slot and the slot's epoch, which
 * counts its users.
 *
 *      63    52 51      32 31     30       0
 *     | epoch  | slot    | recv | number   |
 *
 * number: of a send in its ring, or of a receive buffer. Shared buffers have an epoch of their own,
 * slot 0, and the queue's number in the bits above the buffer's.
 */

enum {
    BTL_IB_RC_SLOT_BITS = 20,
    BTL_IB_RC_EPOCH_BITS = 12,
    BTL_IB_RC_SHARED_EPOCH = (1 << BTL_IB_RC_EPOCH_BITS) - 1,
    BTL_IB_RC_INDEX_BITS = 24, /* of a shared buffer */
};

#define BTL_IB_RC_RECV (1u << 31)

/* Returns the upper half, common to all requests of a connection. */
static inline uint64_t btl_ib_rc_wr_id_base(uint32_t epoch, uint32_t slot)
{
    return (uint64_t) epoch << 52 | (uint64_t) slot << 32;
}

/* Returns the id of the first buffer of a shared queue. */
static inline uint64_t btl_ib_rc_wr_id_shared(uint32_t queue)
{
    return btl_ib_rc_wr_id_base(BTL_IB_RC_SHARED_EPOCH, 0) | BTL_IB_RC_RECV
           | (uint64_t) queue << BTL_IB_RC_INDEX_BITS;
}

static inline uint32_t btl_ib_rc_wr_id_epoch(uint64_t id)
{
    return (uint32_t) (id >> 52);
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
 * The send queue of a connection. Few sends ask for a completion (are "signaled"): one in each
 * fourth of the ring, so that places become free; and the last one of a batch, if many unsignaled
 * sends before it hold memory of the engine.
 */

/* The common part of all send queues of a transport. */
typedef struct btl_ib_rc_sqs {
    uint32_t held; /* sends that hold memory of the engine, and that no signaled send follows */
    /* The batch that is being posted: */
    struct ibv_send_wr wr[BTL_IB_RC_BATCH];
    struct ibv_sge sge[BTL_IB_RC_BATCH];
} btl_ib_rc_sqs_t;

typedef struct btl_ib_rc_sq {
    btl_ib_rc_sqs_t *all;
    btl_ib_verbs_send_ring_t ring;
    struct ibv_qp *qp;
    uint64_t id;          /* upper half of the ids of the queue's requests */
    uint32_t inline_size; /* bytes that a request can carry itself */
    uint32_t held;        /* this queue's share of all->held */
} btl_ib_rc_sq_t;

/* Returns the id of the request with that number. */
static inline uint64_t btl_ib_rc_sq_id(const btl_ib_rc_sq_t *sq, uint32_t number)
{
    return sq->id | (number & ~BTL_IB_RC_RECV);
}

/* Returns the number of the request that a completion is about. The id lacks the uppermost bit of
 * it, which follows from ring.completed: the number is less than a ring's length above that. */
static inline uint32_t btl_ib_rc_sq_number(const btl_ib_rc_sq_t *sq, uint64_t id)
{
    const uint32_t completed = sq->ring.completed;

    return completed + (((uint32_t) id - completed) & (BTL_IB_RC_RECV - 1));
}

/* Returns the flag of a request that is signaled as the last of a fourth of the ring; else 0. */
static inline unsigned btl_ib_rc_sq_signaled(const btl_ib_rc_sq_t *sq, uint32_t number)
{
    return ((number + 1) & (sq->ring.depth / 4 - 1)) == 0 ? IBV_SEND_SIGNALED : 0u;
}

/* Makes request `i` of the batch, a send of that datagram. Returns the request. */
static inline struct ibv_send_wr *btl_ib_rc_sq_fill(btl_ib_rc_sq_t *sq, int i,
                                                    const btl_ib_tx_t *tx)
{
    struct ibv_send_wr *wr = &sq->all->wr[i];
    const uint32_t number = sq->ring.posted + (uint32_t) i;
    const struct ibv_mr *mr = tx->mem;

    sq->all->sge[i] = (struct ibv_sge){
        .addr = (uintptr_t) tx->iov[0].iov_base,
        .length = tx->size,
        .lkey = mr != NULL ? mr->lkey : 0, /* inline data need no key */
    };
    wr->wr_id = btl_ib_rc_sq_id(sq, number);
    wr->next = wr + 1;
    wr->sg_list = &sq->all->sge[i];
    wr->num_sge = 1;
    wr->opcode = IBV_WR_SEND;
    wr->send_flags =
        btl_ib_rc_sq_signaled(sq, number) | (tx->size <= sq->inline_size ? IBV_SEND_INLINE : 0u);
    return wr;
}

/* Posts the first `n` requests of the batch, 1 or more, which were made of `txs`. Returns how many
 * the device took; *error is 0, or the errno of the next one. */
int btl_ib_rc_sq_post_batch(btl_ib_rc_sq_t *sq, const btl_ib_tx_t *txs, int n, int *error);

/* Posts a request of the transport's own, which makes no event. The queue has room. Returns 0 or an
 * errno. */
int btl_ib_rc_sq_post_own(btl_ib_rc_sq_t *sq, struct ibv_send_wr *wr);

/* Takes the queue's share out of all->held: it holds nothing, or is not used any more. */
void btl_ib_rc_sq_close(btl_ib_rc_sq_t *sq);

#endif
