/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What is sent in pieces: messages and one-sided operations. Atomic operations on memory. One-sided
 * operations as the engine's user sees them. */

#ifndef BTL_IB_RMA_H
#define BTL_IB_RMA_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_list.h"

/* ---- what is sent in pieces ---- */

/*
 * What is sent in pieces: a message, a one-sided operation, or an answer to one. Embedded in those.
 * All members are the engine's. It is made where the message, operation or answer begins.
 */

struct btl_ib_conn;

/* What becomes of each kind: out_ops in btl_ib_completion.c. */
typedef enum btl_ib_out_kind {
    BTL_IB_OUT_MESSAGE, /* btl_ib_msg_t */
    BTL_IB_OUT_PUT,     /* btl_ib_op_t: its bytes */
    BTL_IB_OUT_REQUEST, /* btl_ib_op_t: the request for a GET or an ATOMIC */
    BTL_IB_OUT_OFFLOAD, /* btl_ib_op_t: executed by the device */
    BTL_IB_OUT_STREAM,  /* btl_ib_stream_t: what a GET of the peer asked for */
    BTL_IB_OUT_REPLIES, /* btl_ib_replies_t: replies to the peer's operations */
} btl_ib_out_kind_t;

typedef struct btl_ib_out {
    btl_ib_list_t link; /* waits in a channel, or for its callbacks */
    struct btl_ib_conn *conn;
    uint64_t size;    /* bytes; of BTL_IB_OUT_REPLIES it grows: btl_ib_rma_replies.c */
    uint64_t offset;  /* bytes already in segments */
    uint32_t pending; /* segments not yet acknowledged, if that matters: btl_ib_out_count() */
    btl_ib_out_kind_t kind;

    /* What is due: btl_ib_completion.c, and btl_ib_out_message.c for a message that left. */
    int status;    /* for on_done or op_done */
    bool sent_due; /* on_sent is to be called */
    bool done_due; /* on_done or op_done is to be called */
} btl_ib_out_t;

/* True if it moves memory, whose segments carry their place and need no order. */
static inline bool btl_ib_out_is_memory(const btl_ib_out_t *out)
{
    return out->kind == BTL_IB_OUT_PUT || out->kind == BTL_IB_OUT_STREAM;
}

/* Counts `segments` more that are not acknowledged; negative: fewer. */
static inline void btl_ib_out_count(btl_ib_out_t *out, int segments)
{
    out->pending += (uint32_t) segments;
}

/* ---- atomic operations on memory ---- */

/*
 * Atomic operations on a word of memory by the CPU's atomic instructions: atomic also for other
 * processes and threads that use such instructions on the word.
 */

/* The new value, computed from the word `old`. The numbers are part of the protocol. */
typedef enum btl_ib_atomic_code {
    BTL_IB_ATOMIC_ADD = 1,    /* old + operand; integers wrap */
    BTL_IB_ATOMIC_AND = 2,    /* old & operand */
    BTL_IB_ATOMIC_OR = 3,     /* old | operand */
    BTL_IB_ATOMIC_XOR = 4,    /* old ^ operand */
    BTL_IB_ATOMIC_LAND = 5,   /* old && operand */
    BTL_IB_ATOMIC_LOR = 6,    /* old || operand */
    BTL_IB_ATOMIC_LXOR = 7,   /* !old != !operand */
    BTL_IB_ATOMIC_SWAP = 8,   /* operand */
    BTL_IB_ATOMIC_MIN = 9,    /* the smaller of old and operand */
    BTL_IB_ATOMIC_MAX = 10,   /* the larger of them */
    BTL_IB_ATOMIC_CSWAP = 11, /* operand, if old has the same bits as compare; else old */
} btl_ib_atomic_code_t;

/* Type of the word. The numbers are part of the protocol. */
typedef enum btl_ib_atomic_type {
    BTL_IB_ATOMIC_INT32 = 1,
    BTL_IB_ATOMIC_INT64 = 2,
    BTL_IB_ATOMIC_FLOAT = 3,  /* ADD, SWAP, MIN, MAX and CSWAP only */
    BTL_IB_ATOMIC_DOUBLE = 4, /* the same */
} btl_ib_atomic_type_t;

/* Returns the bytes of a word of this type: 4, 8, or 0 if there is no such type. */
uint32_t btl_ib_atomic_size(uint32_t type);

/* True if this is a valid operation on a valid type. Both may be any number. */
bool btl_ib_atomic_supported(uint32_t code, uint32_t type);

/*
 * Executes an operation on the word at `word`, sequentially consistent. Operand, compare and
 * *result (the old word) are in the low bytes of 64 bits. The bits above are ignored, and 0 in
 * *result. `result` must not be NULL. Returns 0, or -EINVAL if the operation is not supported or
 * the word is not aligned to its size; then nothing was changed.
 */
int btl_ib_atomic_execute(void *word, uint32_t code, uint32_t type, uint64_t operand,
                          uint64_t compare, uint64_t *result);

/* ---- one-sided operations ---- */

/*
 * One-sided operations: a process reads, writes or atomically changes memory that another one has
 * registered. The target's engine does its part without its user.
 *
 * Memory is named by key and offset, never by address. A request is checked against the regions
 * that are registered when it arrives; a request that fails changes nothing.
 */

typedef struct btl_ib_engine btl_ib_engine_t;
typedef struct btl_ib_conn btl_ib_conn_t;

/* ---- memory that others may use ---- */

/* What peers may do with a region. */
enum {
    BTL_IB_ACCESS_READ = 1,   /* GET */
    BTL_IB_ACCESS_WRITE = 2,  /* PUT */
    BTL_IB_ACCESS_ATOMIC = 4, /* ATOMIC */
    BTL_IB_ACCESS_ALL = 7,
    /* In addition: the region belongs to a window open to all peers. The key of one such region
     * is accepted for bytes wholly inside another one that allows the same operation, because
     * osc/rdma of Open MPI takes the wrong one of a window's handles at times
     * (docs/architecture.md, chapter 8). */
    BTL_IB_ACCESS_WINDOW = 8,
};

/* What a peer needs to use a region, over any rail. Only the process that registered it
 * understands it. It never names another region, whatever is registered later. */
typedef struct btl_ib_region_key {
    uint64_t id;
    uint64_t secret;
} btl_ib_region_key_t;

/*
 * Lets peers use the `size` bytes (0 is allowed) at `base`, as `access` says (BTL_IB_ACCESS_*, at
 * least one of the first three). The memory must stay until btl_ib_region_remove(). Returns 0 and
 * *key, -ENOMEM, -ENOSPC (2^24 regions), or -EINVAL: no or unknown access, or a region beyond the
 * end of the address space.
 */
int btl_ib_region_add(btl_ib_engine_t *engine, void *base, uint64_t size, uint32_t access,
                      btl_ib_region_key_t *key);

/* Removes a region: after it returns no peer reads or writes the region, whatever is on its way.
 * Unknown keys are ignored. */
void btl_ib_region_remove(btl_ib_engine_t *engine, const btl_ib_region_key_t *key);

/* Returns the address of `offset` in one of our own regions, for a user that accesses it directly.
 * NULL if a peer would be refused `access` (one of BTL_IB_ACCESS_READ, _WRITE, _ATOMIC) to the
 * `size` bytes there. */
void *btl_ib_region_find(btl_ib_engine_t *engine, const btl_ib_region_key_t *key, uint64_t offset,
                         uint64_t size, uint32_t access);

/* ---- operations ---- */

/* How many operations one process may have running on another one, over one connection. Part of
 * the protocol, because the target must have room for their answers. Further ones wait. */
#define BTL_IB_OPS_MAX 256u

typedef enum btl_ib_op_kind {
    BTL_IB_OP_PUT,    /* local memory -> region */
    BTL_IB_OP_GET,    /* region -> local memory */
    BTL_IB_OP_ATOMIC, /* on one word of the region */
} btl_ib_op_kind_t;

/* A region as a device of its owner knows it, by which peers' devices access it. From the
 * region's owner. */
typedef struct btl_ib_place {
    uint64_t address; /* of the first byte */
    uint32_t key;
    uint32_t rail; /* the owner's rail */
    bool known;    /* false: no device knows the region */
} btl_ib_place_t;

/*
 * An operation. The caller owns it and the local memory, and fills in the first part. The engine
 * uses both from btl_ib_op_start() until op_done.
 */
typedef struct btl_ib_op {
    btl_ib_op_kind_t kind;
    btl_ib_region_key_t key;
    /* Bytes into the region, two's complement: bytes outside it may be in another region. */
    uint64_t offset;
    void *local;   /* PUT: only read; GET: undefined after an error; may be NULL if size is 0 */
    uint64_t size; /* bytes, PUT and GET; 0 is checked like any other */

    /* What devices need to execute it; all 0: they cannot. Set by the caller. Whether the device
     * does it is the engine's choice, unless `by_device`. */
    btl_ib_place_t place;
    /* PUT, GET: what expose() of the connection's rail returned for local memory; may be NULL. */
    void *mem;
    bool by_device; /* ATOMIC: words of that region are changed by devices only */

    /* ATOMIC: as in btl_ib_atomic_execute(). */
    btl_ib_atomic_code_t code;
    btl_ib_atomic_type_t type;
    uint64_t operand;
    uint64_t compare;
    uint64_t result; /* set when op_done comes with status 0: by the reply, or by the device */

    /* The engine's: btl_ib_rma_requests.c. */
    btl_ib_out_t out;
    uint64_t got; /* GET: bytes that arrived */
    uint32_t id;  /* in requests and answers; 0: it waits for a slot */
    bool asked;   /* GET, ATOMIC, or offloaded: an answer is expected */
} btl_ib_op_t;

/*
 * Starts an operation. Returns 0: `op_done` comes exactly once, perhaps before this returns; or a
 * negative errno and the operation is the caller's: -EPIPE (the connection is dead, closed or
 * draining), -EINVAL (no such kind, code or type; offset + size is beyond 2^63 - 1; local memory
 * that is NULL or goes beyond the end of the address space), -EOPNOTSUPP (ATOMIC that only a device
 * may do, and none can).
 *
 * The status of op_done:
 *   0           done: all bytes placed in the region, or in local memory; the word changed
 *   -EACCES     the peer rejected it: no such region, right or bytes (also: the region was removed
 *               meanwhile; then a part of a PUT may be placed). ATOMIC: or not aligned
 *   -EPIPE      the connection died or was closed by either side before it was known to be done;
 *               what was done is unknown. ATOMIC by_device: also if only the device's connection
 *               broke, or cannot reach the peer's device
 *   -ECANCELED  the same, by btl_ib_conn_destroy()
 * Operations, and messages, that run at the same time are done in any order.
 */
int btl_ib_op_start(btl_ib_conn_t *conn, btl_ib_op_t *op, uint64_t now);

#endif
