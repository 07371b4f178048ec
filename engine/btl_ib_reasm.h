/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What was received and is not delivered yet: bursts of segments, fragments that are reassembled,
 * segments that come in parts, and the backlog of messages. */

#ifndef BTL_IB_REASM_H
#define BTL_IB_REASM_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_list.h"
#include "btl_ib_pool.h"
#include "btl_ib_seq_window.h"
#include "btl_ib_wire.h"
#include "transport.h"

/* ---- bursts: segments that arrive as one call's ---- */

/*
 * What a peer sends in one call (UDP_SEGMENT) mostly arrives in one: segments of one message or
 * operation, one behind the other, whose headers differ in sequence and offset only. The first of
 * them is checked as any; those that continue it are placed and accepted with it, at once.
 */

/* A segment is alone, until more is known. */
static inline void btl_ib_burst_none(btl_ib_burst_t *burst)
{
    burst->count = 0;
}

/* `view` is the segment in the datagram of `first`. Sets view->more: of the `most` events behind
 * that one as many as continue it without an exception. */
void btl_ib_burst_find(btl_ib_view_t *view, const btl_ib_event_t *first, uint32_t most);

/* Segments of a burst, at least 1, and bytes in all of them. */
static inline uint32_t btl_ib_burst_count(const btl_ib_view_t *view)
{
    return 1 + view->more.count;
}

static inline uint64_t btl_ib_burst_bytes(const btl_ib_view_t *view)
{
    return (uint64_t) view->size * btl_ib_burst_count(view);
}

/* Copy the bytes of all to `to`. Returns how many. */
uint64_t btl_ib_burst_place(const btl_ib_view_t *view, uint8_t *to);

/* ---- reasm ---- */

/*
 * Reassembly of fragments that arrive in chunks.
 *
 * Chunks come in any order. A buffer for the whole fragment is taken with its first chunk, so that
 * a fragment that was begun can be finished. Memory is bounded: each peer has one buffer of its
 * own, and all peers share a number of further ones. Behind a lost segment all that follow wait, so
 * that a window of short messages takes many buffers at once: these are no larger than needed.
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

enum { BTL_IB_REASM_KINDS = 6 }; /* sizes of buffers; the last one holds the longest message */

/* The buffers of one engine. */
typedef struct btl_ib_reasm_pool {
    const btl_ib_mem_t *mem;
    uint32_t size;       /* bytes of the longest message */
    uint32_t extra_max;  /* buffers beyond the one of each peer */
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
                                          uint32_t size, uint32_t extra_max)
{
    *pool = (btl_ib_reasm_pool_t){.mem = mem, .size = size, .extra_max = extra_max};
    for (int kind = 0; kind < BTL_IB_REASM_KINDS; kind++) {
        btl_ib_list_init(&pool->idle[kind]);
    }
}

/* Bytes of a buffer that holds `size`; and of the smallest, if messages have `longest` at most. */
uint64_t btl_ib_reasm_bytes(uint32_t size);
uint64_t btl_ib_reasm_bytes_least(uint32_t longest);

/* Free the idle buffers; the peers' were put back before. */
void btl_ib_reasm_pool_fini(btl_ib_reasm_pool_t *pool);

void btl_ib_reasm_peer_init(btl_ib_reasm_peer_t *peer);

/* Does a fragment have a buffer, or could it get one, if there is memory? */
bool btl_ib_reasm_room(const btl_ib_reasm_pool_t *pool, const btl_ib_reasm_peer_t *peer,
                       uint32_t fragment);

/* Add a chunk (as parsed) to the fragments of one peer. Nothing is changed on RNR and WRONG. */
btl_ib_reasm_result_t btl_ib_reasm_add(btl_ib_reasm_pool_t *pool, btl_ib_reasm_peer_t *peer,
                                       const btl_ib_view_t *view);

/* The fragment whose turn it is, if it is complete and none is being delivered, removed from its
 * list (btl_ib_reasm_put() when it is no longer needed); else NULL. */
btl_ib_reasm_t *btl_ib_reasm_next(btl_ib_reasm_peer_t *peer);

/* Is one being handed up? No other of this peer is meanwhile. */
static inline void btl_ib_reasm_set_busy(btl_ib_reasm_peer_t *peer, bool busy)
{
    peer->busy = busy;
}

/* Give a buffer back to the pool. */
void btl_ib_reasm_put(btl_ib_reasm_pool_t *pool, btl_ib_reasm_t *reasm);

/* An incarnation of the connection ended: give up what is not complete, and number from 0 again. */
void btl_ib_reasm_end(btl_ib_reasm_pool_t *pool, btl_ib_reasm_peer_t *peer);

/* The same, and give up all else. */
void btl_ib_reasm_drop(btl_ib_reasm_pool_t *pool, btl_ib_reasm_peer_t *peer);

/* ---- backlog ---- */

/*
 * Messages of one segment that arrived in btl_ib_engine_async_progress(): acknowledged, but not
 * delivered yet. The next progress call delivers them in the order of their arrival. Their memory
 * is bounded by the configuration's backlog_max. Messages in chunks wait where they are
 * reassembled.
 */

struct btl_ib_conn;

/* One message. */
typedef struct btl_ib_backlog_entry {
    btl_ib_list_t link;
    struct btl_ib_conn *conn;
    uint32_t size;
    uint32_t cost; /* bytes of memory */
    uint8_t tag;
    uint8_t data[] __attribute__((aligned(8)));
} btl_ib_backlog_entry_t;

typedef struct btl_ib_backlog {
    const btl_ib_mem_t *mem;
    uint64_t bytes_max;
    uint64_t bytes; /* of memory that the messages in it take */
    btl_ib_list_t messages;
} btl_ib_backlog_t;

static inline void btl_ib_backlog_init(btl_ib_backlog_t *backlog, const btl_ib_mem_t *mem,
                                       uint64_t bytes_max)
{
    *backlog = (btl_ib_backlog_t){.mem = mem, .bytes_max = bytes_max};
    btl_ib_list_init(&backlog->messages);
}

/* Free all that is in it. */
void btl_ib_backlog_fini(btl_ib_backlog_t *backlog);

/*
 * An entry for a message of `size` bytes from `conn`; the caller copies it to `data`. NULL if there
 * is no room or no memory: then the message must be sent again. It becomes part of the backlog by
 * btl_ib_backlog_add().
 */
btl_ib_backlog_entry_t *btl_ib_backlog_get(btl_ib_backlog_t *backlog, struct btl_ib_conn *conn,
                                           uint8_t tag, uint32_t size);

static inline void btl_ib_backlog_add(btl_ib_backlog_t *backlog, btl_ib_backlog_entry_t *entry)
{
    backlog->bytes += entry->cost;
    btl_ib_list_push_tail(&backlog->messages, &entry->link);
}

/* Add all messages of `from`, which uses the same memory and is empty then. */
static inline void btl_ib_backlog_take_over(btl_ib_backlog_t *backlog, btl_ib_backlog_t *from)
{
    backlog->bytes += from->bytes;
    from->bytes = 0;
    btl_ib_list_splice_tail(&backlog->messages, &from->messages);
}

/* Remove the oldest message; NULL if there is none. */
btl_ib_backlog_entry_t *btl_ib_backlog_pop(btl_ib_backlog_t *backlog);

/* Free a message that is not part of the backlog, or no longer. */
static inline void btl_ib_backlog_put(btl_ib_backlog_t *backlog, btl_ib_backlog_entry_t *entry)
{
    btl_ib_free(backlog->mem, entry);
}

/* Free all that came from `conn`. */
void btl_ib_backlog_drop(btl_ib_backlog_t *backlog, const struct btl_ib_conn *conn);

/* ---- segments in parts ---- */

/*
 * Segments that arrive in parts, because they were packetized before the sender knew that the path
 * carries less. Parts come in any order, several times, and from copies that were divided
 * differently. A segment of which parts are missing is not accepted: nothing is promised, and its
 * parts may be dropped.
 */

/* Segments of one peer of which some parts are kept. The oldest have the places: the peer repeats
 * them first, so it makes progress. */
#define BTL_IB_PARTS_KEPT 8

/* One of them. */
typedef struct btl_ib_parts {
    btl_ib_list_t link;
    uint32_t seq;
    uint32_t total;   /* bytes of its body */
    uint32_t missing; /* pieces of BTL_IB_PART_UNIT bytes */
    uint8_t channel;
    uint8_t type;
    uint8_t tag;
    uint64_t *have; /* a bit for each piece */
    uint8_t data[] __attribute__((aligned(8)));
} btl_ib_refragment_t;

typedef enum btl_ib_refragment_result {
    BTL_IB_PARTS_KEPT_IT,  /* others are still missing */
    BTL_IB_PARTS_COMPLETE, /* *whole is taken off the list; its memory is the caller's */
    BTL_IB_PARTS_RNR,      /* no room, or no memory */
} btl_ib_refragment_result_t;

/* Add a PART to those of a peer, which are in `list`. */
btl_ib_refragment_result_t btl_ib_refragment_add(btl_ib_list_t *list, const btl_ib_mem_t *mem,
                                                 const btl_ib_view_t *part,
                                                 btl_ib_refragment_t **whole);

/* A segment was accepted otherwise, or is given up: drop its parts. */
void btl_ib_refragment_forget(btl_ib_list_t *list, const btl_ib_mem_t *mem, uint32_t channel,
                              uint32_t seq);

/* Drop all. */
void btl_ib_refragment_drop(btl_ib_list_t *list, const btl_ib_mem_t *mem);

#endif
