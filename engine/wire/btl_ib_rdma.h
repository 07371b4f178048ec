/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations: a process reads, writes or atomically changes memory that another one has
 * registered; the other one's part is done by its engine, without its user.
 *
 * Memory is named by key and offset, never by address. A request is checked against the regions
 * that are registered when it arrives, and what fails the check changes nothing.
 */

#ifndef BTL_IB_RDMA_H
#define BTL_IB_RDMA_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_atomic.h"
#include "btl_ib_outgoing.h"

typedef struct btl_ib_engine btl_ib_engine_t;
typedef struct btl_ib_conn btl_ib_conn_t;

/* ---- memory that others may use ---- */

/* What peers may do with a region. */
enum {
    BTL_IB_ACCESS_READ = 1,   /* GET */
    BTL_IB_ACCESS_WRITE = 2,  /* PUT */
    BTL_IB_ACCESS_ATOMIC = 4, /* ATOMIC */
    BTL_IB_ACCESS_ALL = 7,
    /* Beside those: it is of a window, that is open to all peers. The key of one such region is
     * good for the bytes that lie wholly inside another one, if that is open to the same operation:
     * osc/rdma of Open MPI takes the wrong one of a window's handles at times
     * (docs/architecture.md, chapter 8). */
    BTL_IB_ACCESS_WINDOW = 8,
};

/* What a peer must know of a region to use it, from any rail. It means nothing to other processes than
 * the one that registered it, and never names another region, whatever is registered later. */
typedef struct btl_ib_region_key {
    uint64_t id;
    uint64_t secret;
} btl_ib_region_key_t;

/*
 * Let peers use the `size` bytes (0 is allowed) at `base`, as `access` says (BTL_IB_ACCESS_*, one
 * of the first three at least). The memory stays the caller's and must be there until
 * btl_ib_region_remove(). Returns 0 and *key, -ENOMEM, -ENOSPC (2^24 regions), or -EINVAL: no
 * access, or one that does not exist, or a region beyond the end of the address space.
 */
int btl_ib_region_add(btl_ib_engine_t *engine, void *base, uint64_t size, uint32_t access,
                      btl_ib_region_key_t *key);

/* From the return on no peer reads or writes it, whatever is on its way. Keys that are not (or no
 * more) registered are ignored. */
void btl_ib_region_remove(btl_ib_engine_t *engine, const btl_ib_region_key_t *key);

/* Where `offset` of one of our own regions is, for an owner who serves itself; NULL if a peer would be
 * refused `access` (one of BTL_IB_ACCESS_READ, _WRITE, _ATOMIC) to the `size` bytes there. */
void *btl_ib_region_find(btl_ib_engine_t *engine, const btl_ib_region_key_t *key, uint64_t offset,
                         uint64_t size, uint32_t access);

/* ---- operations ---- */

/* How many operations of one process may run on another one at a time, over one connection: part of the
 * protocol, because the target must always have room for their answers. Further ones wait. */
#define BTL_IB_OPS_MAX 256u

typedef enum btl_ib_op_kind {
    BTL_IB_OP_PUT,    /* local memory -> region */
    BTL_IB_OP_GET,    /* region -> local memory */
    BTL_IB_OP_ATOMIC, /* on one word of the region */
} btl_ib_op_kind_t;

/* Where a region is for a device of its owner's, which peers' devices can use by themselves; as the owner told. */
typedef struct btl_ib_place {
    uint64_t address; /* of the region's first byte */
    uint32_t key;
    uint32_t rail; /* which of the owner's */
    bool known;    /* else no device knows the region */
} btl_ib_place_t;

/*
 * An operation. The caller owns it and the local memory, and fills in the first part; the engine
 * keeps both from btl_ib_op_start() until op_done.
 */
typedef struct btl_ib_op {
    btl_ib_op_kind_t kind;
    btl_ib_region_key_t key;
    uint64_t
        offset;    /* bytes into the region, two's complement: beyond it there may be another one */
    void *local;   /* PUT: only read; GET: undefined after an error; may be NULL if size is 0 */
    uint64_t size; /* bytes, PUT and GET; 0 is checked like any other */

    /* What devices need to do it by themselves; all of it 0: they cannot. Who has to say is the caller; whether
     * they do is the engine's choice, but for `by_device`. */
    btl_ib_place_t place;
    void *
        mem; /* PUT, GET: what the expose() of the connection's rail returned for local memory; may be NULL */
    bool by_device; /* ATOMIC: the words of that region are changed by devices only */

    /* ATOMIC: as in btl_ib_atomic_execute(). */
    btl_ib_atomic_code_t code;
    btl_ib_atomic_type_t type;
    uint64_t operand;
    uint64_t compare;
    uint64_t result; /* set when op_done comes with status 0 */

    /* The engine's. */
    btl_ib_out_t out;
    uint64_t got; /* GET: bytes that arrived */
    uint32_t id;  /* in requests and answers; 0: it waits for its turn */
    bool asked;   /* GET, ATOMIC: the request is on its way */
} btl_ib_op_t;

/*
 * Start an operation. Returns 0: `op_done` comes exactly once, perhaps before this returns; or a
 * negative errno and the operation is the caller's: -EPIPE (the connection is dead, closed or
 * draining), -EINVAL (no such kind, code or type; offset + size is beyond 2^63 - 1; local memory
 * that is NULL or goes beyond the end of the address space), -EOPNOTSUPP (ATOMIC that only a device
 * may do, and none can).
 *
 * The status of op_done:
 *   0           done: all bytes placed in the region, or in local memory; the word changed
 *   -EACCES     the peer refused: no such region, or not that right, or not those bytes (also: the region
 *               was removed meanwhile; then a part of a PUT may be placed). ATOMIC: or not aligned
 *   -EPIPE      the connection died or was closed, by us or by the peer, before it was known to be
 *               done; what was done of it is not known. ATOMIC by_device: also if only the device's own connection broke,
 *               or it cannot reach the peer's
 *   -ECANCELED  the same, by btl_ib_conn_destroy()
 * Operations, and messages, that run at the same time are done in any order.
 */
int btl_ib_op_start(btl_ib_conn_t *conn, btl_ib_op_t *op, uint64_t now);

/* Operations of the connection that op_done has not come for. */
uint32_t btl_ib_conn_ops(const btl_ib_conn_t *conn);

#endif
