/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Reassembly of fragments that arrive in chunks.
 *
 * Chunks come in any order. A buffer for the whole fragment is taken with its first chunk, so that
 * a fragment that was begun can be finished. Memory is bounded: each peer has one buffer of its
 * own, and all peers share a number of further ones, of which one peer may be given only a part.
 * Behind a lost segment all that follow wait, so that a window of short messages takes many buffers
 * at once: these are no larger than needed.
 *
 * The peer's own buffer is reserved for the oldest of its fragments. If a younger one got it the
 * older one's chunks could fill the window, with RNR again and again, and the rest of the younger
 * one would never be sent. Fragments are numbered from 0 in the order of sending.
 *
 * They are delivered in that order, the next one after the last was returned: Open MPI's convertor
 * (4.1) cannot unpack the pieces of one message in another order if one ends inside a basic
 * datatype. A fragment that is complete before its turn waits in its buffer. It was acknowledged,
 * so it outlives the incarnation of the connection: what is missing before it will never arrive
 * then, and it is delivered without that.
 */

#ifndef BTL_IB_REASM_H
#define BTL_IB_REASM_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_list.h"
#include "btl_ib_pool.h"
#include "btl_ib_seq_window.h"
#include "btl_ib_wire.h"

enum { BTL_IB_REASM_KINDS = 6 }; /* sizes of buffers; the last one holds the longest message */

/* The buffers of one engine. */
typedef struct btl_ib_reasm_pool {
    const btl_ib_mem_t *mem;
    uint32_t size;       /* bytes of the longest message */
    uint32_t extra_max;  /* buffers beyond the one of each peer, */
    uint32_t peer_max;   /* of them for one peer; 0: all */
    uint32_t extra;      /* of them in use */
    uint64_t idle_bytes; /* kept for the next fragments */
    btl_ib_list_t idle[BTL_IB_REASM_KINDS];
} btl_ib_reasm_pool_t;

/* The unfinished fragments of one peer. */
typedef struct btl_ib_reasm_peer {
    btl_ib_list_t fragments;
    btl_ib_list_t of_ended;      /* complete, of ended incarnations, in the order of sending */
    btl_ib_rx_window_t finished; /* by number; what is complete but waits is not among them */
    bool busy;                   /* one is being handed up */
} btl_ib_reasm_peer_t;

typedef struct btl_ib_reasm {
    btl_ib_list_t link; /* of the peer's list, or of the pool's idle ones */
    uint32_t fragment;
    uint32_t total;
    uint32_t unit;
    uint32_t missing; /* chunks that are still to come */
    uint8_t tag;      /* once there are none */
    bool extra;
    uint8_t kind;   /* its size */
    uint64_t *have; /* a bit for each chunk, behind the data */
    uint8_t data[] __attribute__((aligned(8)));
} btl_ib_reasm_t;

typedef enum btl_ib_reasm_result {
    BTL_IB_REASM_STORED,   /* its fragment is not complete, or waits for its turn */
    BTL_IB_REASM_COMPLETE, /* and its turn: btl_ib_reasm_next() */
    BTL_IB_REASM_RNR,      /* no buffer or memory: the chunk must come again */
    BTL_IB_REASM_WRONG,    /* contradicts its fragment, or longer than any message */
} btl_ib_reasm_result_t;

static inline void btl_ib_reasm_pool_init(btl_ib_reasm_pool_t *pool, const btl_ib_mem_t *mem,
                                          uint32_t size, uint32_t extra_max, uint32_t peer_max)
{
    *pool = (btl_ib_reasm_pool_t){
        .mem = mem, .size = size, .extra_max = extra_max, .peer_max = peer_max};
    for (int kind = 0; kind < BTL_IB_REASM_KINDS; kind++) {
        btl_ib_list_init(&pool->idle[kind]);
    }
}

/* Returns the bytes of a buffer that holds `size`; and of the smallest, if messages have `longest`
 * at most. */
uint64_t btl_ib_reasm_bytes(uint32_t size);
uint64_t btl_ib_reasm_bytes_least(uint32_t longest);

/* Frees the idle buffers; the peers' were put back before. */
void btl_ib_reasm_pool_fini(btl_ib_reasm_pool_t *pool);

void btl_ib_reasm_peer_init(btl_ib_reasm_peer_t *peer);

/* True if a fragment has a buffer, or could get one, if there is memory. */
bool btl_ib_reasm_room(const btl_ib_reasm_pool_t *pool, const btl_ib_reasm_peer_t *peer,
                       uint32_t fragment);

/* Adds a chunk (as parsed) to the fragments of one peer. Nothing is changed on RNR and WRONG. */
btl_ib_reasm_result_t btl_ib_reasm_add(btl_ib_reasm_pool_t *pool, btl_ib_reasm_peer_t *peer,
                                       const btl_ib_view_t *view);

/* Returns the fragment whose turn it is, if it is complete and none is being delivered, removed
 * from its list (btl_ib_reasm_put() when it is no longer needed); else NULL. */
btl_ib_reasm_t *btl_ib_reasm_next(btl_ib_reasm_peer_t *peer);

/* Notes whether a fragment of the peer is being handed up. No other of this peer is meanwhile. */
static inline void btl_ib_reasm_set_busy(btl_ib_reasm_peer_t *peer, bool busy)
{
    peer->busy = busy;
}

/* Gives a buffer back to the pool. */
void btl_ib_reasm_put(btl_ib_reasm_pool_t *pool, btl_ib_reasm_t *reasm);

/* Ends an incarnation of the connection: gives up what is not complete, and numbers from 0
 * again. */
void btl_ib_reasm_end(btl_ib_reasm_pool_t *pool, btl_ib_reasm_peer_t *peer);

/* Ends an incarnation as btl_ib_reasm_end(), and also gives up what is complete. */
void btl_ib_reasm_drop(btl_ib_reasm_pool_t *pool, btl_ib_reasm_peer_t *peer);

#endif
