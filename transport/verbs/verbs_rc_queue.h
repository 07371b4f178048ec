/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The queues of an RC transport: completions, and receive buffers. */

#ifndef BTL_IB_VERBS_RC_QUEUE_H
#define BTL_IB_VERBS_RC_QUEUE_H

#include "verbs_open.h"
#include "verbs_rc_port.h"
#include "verbs_rc_wire.h"
#include "verbs_ring.h"

/* ---- completion queues ---- */

/*
 * Completion queues of an RC transport, and sleeping on them. A queue that overflows ends all
 * connections that use it, so each connection reserves as many entries as it can ever fill. Not all
 * devices can resize one (siw cannot): there are several, each twice as large as the one before, so
 * that thousands of peers need few to be polled.
 */

enum { BTL_IB_RC_CQ_MAX = 24 };

typedef struct btl_ib_rc_cq {
    struct ibv_cq *cq;
    uint32_t free;    /* entries that no connection can fill */
    uint32_t leaving; /* of closed connections: free once all that is in it was read */
} btl_ib_rc_cq_t;

typedef struct btl_ib_rc_cqs {
    const btl_ib_rc_port_t *port;
    btl_ib_verbs_comp_t comp;
    btl_ib_rc_cq_t cq[BTL_IB_RC_CQ_MAX];
    uint32_t count;
    uint32_t shared_entries; /* that any queue may get for shared receive queues */
    /* Completions that were read and go before all that the queues have: */
    struct ibv_wc saved[BTL_IB_RC_BATCH];
    uint32_t saved_first;
    uint32_t saved_count;
    int saved_fd; /* eventfd: readable while there are some */
} btl_ib_rc_cqs_t;

/* `other_fd` is a descriptor to sleep on as well. Returns 0 or a negative errno after logging why;
 * close follows in either case. */
int btl_ib_rc_cqs_open(btl_ib_rc_cqs_t *cqs, const btl_ib_rc_port_t *port, int other_fd);
void btl_ib_rc_cqs_close(btl_ib_rc_cqs_t *cqs);

/* Shared receive queues of that many buffers in all are about to be used. Call this before the
 * first reservation. */
static inline void btl_ib_rc_cqs_set_shared(btl_ib_rc_cqs_t *cqs, uint32_t entries)
{
    cqs->shared_entries = entries;
}

/* Reserve entries of one queue. Returns NULL after logging why. */
btl_ib_rc_cq_t *btl_ib_rc_cq_reserve(btl_ib_rc_cqs_t *cqs, uint32_t entries);

/* A queue pair is destroyed. Its entries are free once the queue was found empty. */
static inline void btl_ib_rc_cq_release(btl_ib_rc_cq_t *cq, uint32_t entries)
{
    cq->leaving += entries;
}

static inline void btl_ib_rc_cq_found_empty(btl_ib_rc_cq_t *cq)
{
    cq->free += cq->leaving;
    cq->leaving = 0;
}

/* Keep completions for the next poll. There are none yet. */
void btl_ib_rc_cqs_save(btl_ib_rc_cqs_t *cqs, const struct ibv_wc *wc, int count);

/* The first of the saved ones were handled. */
void btl_ib_rc_cqs_saved_done(btl_ib_rc_cqs_t *cqs, int count);

/* Make the descriptor readable with the next completion, and read what came before that. Returns
 * it, -1 if that cannot be done. */
int btl_ib_rc_cqs_arm(btl_ib_rc_cqs_t *cqs);

bool btl_ib_rc_cqs_has(const btl_ib_rc_cqs_t *cqs, const struct ibv_cq *cq);

/* ---- receive queues ---- */

/* Receive queues: those that all peers share (SRQ), and buffers of single connections. */

enum { BTL_IB_RC_SLABS_MAX = 24 }; /* each as large as all before it */

/* Buffers of a connection, or of a shared queue. */
typedef struct btl_ib_rc_rx {
    btl_ib_verbs_rx_pool_t pool; /* its owner is the connection; NULL: shared */
    btl_ib_verbs_rx_buffer_t *buffer;
    uint32_t count;
    uint32_t size; /* bytes that each holds */
    uint32_t low;  /* while more than this are posted no others are */
} btl_ib_rc_rx_t;

/* A receive queue as it was asked for. Of a peer's own ones each connection has `num` buffers; of a
 * shared one there are `made`, which are doubled up to `num` when the device says that fewer than
 * `limit` are posted; once there are no more to come it says so when none is left. */
typedef struct btl_ib_rc_rxq {
    uint32_t size;
    uint32_t num;
    uint32_t low;
    uint32_t window; /* of a peer's own */
    bool shared;
    btl_ib_rc_rx_t rx; /* the following are of a shared one */
    uint32_t limit;    /* 0: the device does not say so */
    uint32_t made;
    bool full;  /* there will not be more */
    bool armed; /* the device will say so */
    uint32_t slabs;

    struct {
        void *memory;
        struct ibv_mr *mr;
    } slab[BTL_IB_RC_SLABS_MAX];

    uint64_t refills;  /* how often buffers were posted again, */
    uint64_t refilled; /* and how many; of all connections */
    uint32_t doubled;  /* how often, because of the limit */
    uint64_t emptied;  /* how often none was left, as far as that was told: messages were refused */
} btl_ib_rc_rxq_t;

typedef struct btl_ib_rc_rxqs {
    uint32_t count;
    bool any_shared;
    btl_ib_rc_rxq_t queue[BTL_IB_RC_QUEUES_MAX];
} btl_ib_rc_rxqs_t;

/* Bytes from one buffer to the next: whole cache lines. */
static inline uint32_t btl_ib_rc_rx_stride(uint32_t size)
{
    return (size + BTL_IB_VERBS_LINE - 1) / BTL_IB_VERBS_LINE * BTL_IB_VERBS_LINE;
}

/* Buffers of each connection for a queue that peers do not share: one more than they may fill, for
 * the message that opens a connection. */
static inline uint64_t btl_ib_rc_rx_own(const btl_ib_open_queue_t *wanted)
{
    return (uint64_t) wanted->num + wanted->reserve + 1;
}

/* Make `count` buffers of `size` bytes in `memory`, all idle. `id` is that of the first one's work
 * request. Returns 0 or -ENOMEM. */
int btl_ib_rc_rx_make(btl_ib_rc_rx_t *rx, void *owner, uint32_t count, uint32_t size, uint32_t low,
                      uint8_t *memory, uint32_t key, uint64_t id);

/* Open the queues that were asked for, if the device can have them. Returns 0 or a negative errno
 * after logging why; free follows in either case. */
int btl_ib_rc_rxqs_open(btl_ib_rc_rxqs_t *rxqs, const btl_ib_rc_port_t *port,
                        const btl_ib_open_params_t *params);

/* Are so few posted that the idle ones are to be? */
static inline bool btl_ib_rc_rx_is_low(const btl_ib_rc_rx_t *rx)
{
    return rx->pool.posted <= rx->low && rx->pool.idle_count > 0;
}

/* Post the idle buffers of one connection, or of a shared queue, if few enough are posted. Returns
 * how many that were, or a negative errno. */
int btl_ib_rc_rxqs_post_own(btl_ib_rc_rxqs_t *rxqs, uint8_t channel, btl_ib_rc_rx_t *rx);
int btl_ib_rc_rxqs_post_shared(btl_ib_rc_rxqs_t *rxqs, const btl_ib_verbs_rx_pool_t *pool);

/* The device says that a shared queue runs low: there are twice as many buffers, as far as there
 * may be. If there may not, none was left, which is counted and told once. Returns 0 or a negative
 * errno. */
int btl_ib_rc_rxqs_ran_low(btl_ib_rc_rxqs_t *rxqs, const btl_ib_verbs_t *verbs,
                           const struct ibv_srq *srq);

/* The device touches no buffer of a shared queue after stop, which logs what became of them all. */
void btl_ib_rc_rxqs_stop(btl_ib_rc_rxqs_t *rxqs, const btl_ib_verbs_t *verbs);
void btl_ib_rc_rxqs_free(btl_ib_rc_rxqs_t *rxqs);

/* How often a shared queue had no buffer left. */
uint64_t btl_ib_rc_rxqs_emptied(const btl_ib_rc_rxqs_t *rxqs);

/* Buffers of all shared queues. */
uint32_t btl_ib_rc_rxqs_shared(const btl_ib_rc_rxqs_t *rxqs);

/* rx_depth() of btl_ib_transport_ops_t. */
uint32_t btl_ib_rc_rxqs_depth(const btl_ib_rc_rxqs_t *rxqs, uint32_t size);

bool btl_ib_rc_rxqs_has(const btl_ib_rc_rxqs_t *rxqs, const struct ibv_srq *srq);

#endif
