/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef BTL_IB_POOL_H
#define BTL_IB_POOL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "btl_ib_list.h"
#include "transport.h"

/* ---- mem ---- */

/* Memory from the engine's user. Any allocation may fail. */

typedef struct btl_ib_mem {
    void *(*zalloc)(void *context, size_t size); /* cleared; NULL if there is none */
    void (*free)(void *context, void *memory);   /* NULL is allowed */
    void *context;
} btl_ib_mem_t;

static inline void *btl_ib_zalloc(const btl_ib_mem_t *mem, size_t size)
{
    return mem->zalloc(mem->context, size);
}

static inline void btl_ib_free(const btl_ib_mem_t *mem, void *memory)
{
    if (memory != NULL) {
        mem->free(mem->context, memory);
    }
}

/* ---- pool ---- */

/*
 * Send buffers of one rail: small ones (headers, short messages, acknowledgements), medium ones
 * (the MTU of most networks) and large ones (the largest datagram, if that is more). They come in
 * slabs, registered with the transport if it asks for that. Slabs are freed with the rail.
 */

struct btl_ib_out;
struct btl_ib_pool;

/* Bytes of the smallest kind of segment: headers and short messages. */
#define BTL_IB_SEGMENT_SMALL 256u

enum { BTL_IB_SEGMENT_KINDS = 3 };

/* A segment that was sent, or is about to be. It passes from module to module: each group of its
 * members has one writer, beside the pool, which makes and clears it. */
typedef struct btl_ib_segment {
    /* free, in flight (by time of sending), lost or deferred; aligned, as buffers follow */
    btl_ib_list_t link __attribute__((aligned(8)));
    struct btl_ib_pool *pool; /* whose it is */
    void *mem;                /* the slab's registration */
    uint8_t *wire;            /* the datagram, aligned to 8, with headroom before it */

    /* From here to `copies`: those that are taken out at once get the same as another. */

    struct iovec iov[2]; /* btl_ib_packet.h: payload sent from the user's memory (zero copy) */

    /* From here to `copies`: cleared when it is taken out by itself. */

    /* What it holds and its header says: btl_ib_packet.h, which others call. */
    struct btl_ib_out *out; /* what it is a piece of, if that waits for its acknowledgement */
    uint64_t region;        /* GOT: id of our region that iov[] is in; 0: none */
    uint32_t seq;
    uint32_t rnr_copy; /* btl_ib_sentmap.c: the copy that got RNR last; 0: none */
    uint32_t size;     /* bytes from wire[] on: headers and copied payload */
    uint32_t outside;  /* bytes of payload in iov[] */
    uint32_t payload;  /* bytes of the message in it, wherever they are */
    uint32_t parted;   /* bytes of parts of the last copy that were sent; 0: all or none */
    uint32_t in_parts; /* copies of which all parts were sent */
    uint32_t burst;   /* bytes of the GSO burst that the last copy was joined in; 0: it was alone */
    uint32_t bundled; /* btl_ib_out_message.c: messages in a BUNDLE; of other types 0 */
    uint8_t type;
    uint8_t flags; /* header flags that all copies have */
    uint8_t tag;
    uint8_t channel;
    bool last; /* btl_ib_packetize.c: the message ends with it */
    /* btl_ib_pool.c: first sent behind the one before, with as many bytes, those that follow; all
     * else is the same, but the flags. */
    bool continues;

    /* What became of its copies: btl_ib_sentmap.c. */
    bool lost;     /* to be retransmitted, or deferred; not in flight */
    bool deferred; /* the last copy got RNR */
    bool probe;    /* the last copy asks for an answer: it is a probe, or sent for a READY */
    bool busy;     /* the pool's: the transport still reads it */
    bool done;     /* the pool's: to be freed once it is not busy */
    uint8_t path;  /* btl_ib_paths.c: that it is in flight by; 0: the usual one, or none */
    /* btl_ib_loss.c: the copy that was found lost last, as congestion control was told; 0: none */
    uint32_t cc_lost_copy;
    uint32_t copies; /* how often it was sent */

    uint8_t kind; /* of the pool's */
    /* Of the last copy that is no probe, once a probe followed it: last_sent as a stamp, order. */
    uint32_t unprobed_stamp;
    uint64_t unprobed_order;
    uint64_t first_sent; /* us of clock.awake */
    uint64_t last_sent;  /* us */
    uint64_t order;      /* place among all segments sent by the connection */
    /* The pool's: a guess which one is taken out some places after it; may be NULL. */
    struct btl_ib_segment *ahead;
} btl_ib_segment_t;

typedef struct btl_ib_pool {
    const btl_ib_mem_t *mem;
    btl_ib_transport_t *transport;
    uint32_t limit; /* the most segments of each kind */
    struct {
        uint32_t size; /* bytes of a buffer */
        uint32_t made;
        btl_ib_list_t free;
    } kind[BTL_IB_SEGMENT_KINDS]; /* small, medium, large */
    btl_ib_list_t slabs;
} btl_ib_pool_t;

void btl_ib_pool_init(btl_ib_pool_t *pool, const btl_ib_mem_t *mem, btl_ib_transport_t *transport,
                      uint32_t limit);

/* Changes the limit by `count`, which may be negative. Segments beyond the limit stay. */
static inline void btl_ib_pool_change_limit(btl_ib_pool_t *pool, int count)
{
    pool->limit += (uint32_t) count;
}

/* Adds a pool's segments: once some were sent (`used`), and at most. */
void btl_ib_pool_memory_estimate(const btl_ib_transport_attr_t *attr, uint32_t limit, bool used,
                                 btl_ib_memory_estimate_t *estimate);

/* Frees all slabs, whatever they hold. */
void btl_ib_pool_fini(btl_ib_pool_t *pool);

/* Returns the kind of the smallest segments that hold `size` bytes. */
static inline int btl_ib_pool_kind(const btl_ib_pool_t *pool, uint32_t size)
{
    assert(size <= pool->kind[2].size);
    return size <= pool->kind[0].size ? 0 : size <= pool->kind[1].size ? 1 : 2;
}

/* Does the part of btl_ib_pool_get() that needs memory. Returns false if there is none, or the
 * limit is reached. */
bool btl_ib_pool_grow(btl_ib_pool_t *pool, int kind);

/* Returns a cleared segment for `size` bytes, or NULL: no memory, or the limit is reached. */
static inline btl_ib_segment_t *btl_ib_pool_get(btl_ib_pool_t *pool, uint32_t size)
{
    const int kind = btl_ib_pool_kind(pool, size);
    btl_ib_list_t *free = &pool->kind[kind].free;

    if (btl_ib_list_empty(free) && !btl_ib_pool_grow(pool, kind)) {
        return NULL;
    }
    btl_ib_segment_t *segment = BTL_IB_CONTAINER(free->next, btl_ib_segment_t, link);
    const size_t from = offsetof(btl_ib_segment_t, out);
    const size_t to = offsetof(btl_ib_segment_t, copies) + sizeof(segment->copies);

    btl_ib_list_remove(&segment->link);
    memset((uint8_t *) segment + from, 0, to - from);
    return segment;
}

/* Takes segments of the pool of `like`, for `size` bytes, that hold the same as it, but that each
 * continues the one before with the next `step` bytes of iov[0]; as many as there are without new
 * memory, at most `most`. Returns how many. */
uint32_t btl_ib_pool_take(const btl_ib_segment_t *like, uint32_t size, uint32_t step,
                          btl_ib_segment_t **segments, uint32_t most);

/* Lets a segment be taken out again. The one used last is first, as its memory is in the cache. */
static inline void btl_ib_pool_free(btl_ib_segment_t *segment)
{
    btl_ib_list_push_head(&segment->pool->kind[segment->kind].free, &segment->link);
}

/* Gives a segment back to its pool. If the transport still reads it, that is done with its SENT
 * event. */
static inline void btl_ib_pool_put(btl_ib_segment_t *segment)
{
    assert(btl_ib_list_empty(&segment->link) && !segment->done);
    segment->done = true;
    if (!segment->busy) {
        btl_ib_pool_free(segment);
    }
}

/* Gives back `first` to `last`, neighbours on a list, of one pool and one kind, which no transport
 * reads. */
static inline void btl_ib_pool_put_run(btl_ib_segment_t *first, btl_ib_segment_t *last)
{
    const btl_ib_list_t *free = &first->pool->kind[first->kind].free;

    assert(!first->busy && !last->busy);
    btl_ib_list_move_tail(free->next, &first->link, &last->link); /* before those: used last */
}

/* Notes that a segment was given to the transport, which reads it until its SENT event if
 * `busy`. */
static inline void btl_ib_pool_given(btl_ib_segment_t *segment, bool busy)
{
    segment->busy = busy;
}

/* Notes that the transport is done with the segment. */
void btl_ib_pool_sent(btl_ib_segment_t *segment);

#endif
