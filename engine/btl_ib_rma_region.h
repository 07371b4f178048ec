/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Memory that peers may access: a table of regions, found by id. All operations take constant time
 * (adding: on average).
 *
 * id = number of the registration (40 bits) | slot (24 bits): never used again.
 *
 * secret = SipHash of the id, with a key that no other process knows.
 *
 * A request names id, secret and offset. Only what this table holds becomes an address.
 *
 * Regions of windows (BTL_IB_ACCESS_WINDOW) are also in a list. An offset outside of the region
 * that is named may be inside another one of them (btl_ib_rma.h). Only such a request searches the
 * list, in time proportional to its length. A removed one stays for a while as a name for others:
 * it is "retired", with no bytes and no rights of its own.
 */

#ifndef BTL_IB_RMA_REGION_H
#define BTL_IB_RMA_REGION_H

#include <stdint.h>

#include "btl_ib_counters.h"
#include "btl_ib_pool.h"
#include "btl_ib_rma.h"
#include "btl_ib_protection.h"

#define BTL_IB_REGION_SLOT_BITS 24

/* How many removed regions of windows are remembered. A process that attaches and detaches memory
 * during a whole time slice of another one (some ms; each takes 2 us) reaches this number. */
#define BTL_IB_REGIONS_RETIRED_MAX 4096u

typedef struct btl_ib_region {
    uint64_t id; /* 0: the slot is free */
    uint64_t secret;
    uint8_t *base;
    uint64_t size;
    uint32_t access; /* only BTL_IB_ACCESS_WINDOW: retired */
    uint32_t lent;   /* segments in flight that are sent from it */
    /* Neighbours in the list of free slots, of windows, or of retired ones: slot + 1; 0: none. */
    uint32_t next;
    uint32_t previous; /* of windows only */
} btl_ib_region_t;

typedef struct btl_ib_regions {
    const btl_ib_mem_t *mem;
    btl_ib_secret_t secret;
    btl_ib_region_t *slots;
    uint32_t count;         /* slots that there are */
    uint32_t free;          /* slot + 1 of the first free one; 0: none */
    uint32_t used;          /* slots that hold a region */
    uint32_t windows;       /* slot + 1 of the first region of a window; 0: none */
    uint32_t retired;       /* slots that hold one that is retired */
    uint32_t retired_first; /* slot + 1; the oldest; 0: none */
    uint32_t retired_last;  /* slot + 1 */
    uint64_t serial;        /* of the last registration */
} btl_ib_regions_t;

typedef enum btl_ib_region_result {
    BTL_IB_REGION_OK,
    BTL_IB_REGION_ELSEWHERE, /* it may, but the bytes are in another region of a window */
    BTL_IB_REGION_UNKNOWN,   /* no region has this id and secret (any more) */
    BTL_IB_REGION_BOUNDS,    /* not all of the bytes are in it, nor in another that would do */
    BTL_IB_REGION_RIGHT,     /* peers may not do that with it */
} btl_ib_region_result_t;

static inline void btl_ib_regions_init(btl_ib_regions_t *regions, const btl_ib_mem_t *mem,
                                       const btl_ib_secret_t *secret)
{
    *regions = (btl_ib_regions_t){.mem = mem, .secret = *secret};
}

static inline void btl_ib_regions_fini(btl_ib_regions_t *regions)
{
    btl_ib_free(regions->mem, regions->slots);
    *regions = (btl_ib_regions_t){.mem = regions->mem};
}

/* Adds and removes regions, as btl_ib_region_add() and btl_ib_region_remove() say. */
int btl_ib_regions_add(btl_ib_regions_t *regions, void *base, uint64_t size, uint32_t access,
                       btl_ib_region_key_t *key);
void btl_ib_regions_remove(btl_ib_regions_t *regions, const btl_ib_region_key_t *key);

/* Counts `count` segments that are sent from a region (which exists), or are not any more. */
void btl_ib_regions_lend(btl_ib_regions_t *regions, uint64_t id, uint32_t count);
void btl_ib_regions_return(btl_ib_regions_t *regions, uint64_t id, uint32_t count);

/* True if segments are sent from a region. */
bool btl_ib_regions_lent(const btl_ib_regions_t *regions, const btl_ib_region_key_t *key);

/*
 * Says whether a peer may do `access` (one of BTL_IB_ACCESS_READ, _WRITE, _ATOMIC) to the `size`
 * bytes at `offset`, a number in two's complement. If BTL_IB_REGION_OK or _ELSEWHERE *memory is
 * where they are. All but `access` may be anything.
 */
btl_ib_region_result_t btl_ib_regions_check(const btl_ib_regions_t *regions,
                                            const btl_ib_region_key_t *key, uint64_t offset,
                                            uint64_t size, uint32_t access, uint8_t **memory);

/* Checks as btl_ib_regions_check(); sets *key and *offset to the region that holds the bytes. */
btl_ib_region_result_t btl_ib_regions_resolve(const btl_ib_regions_t *regions,
                                              btl_ib_region_key_t *key, uint64_t *offset,
                                              uint64_t size, uint32_t access, uint8_t **memory);

/* True if the access of a peer is allowed. If not, or if it is elsewhere, that is counted. */
static inline bool btl_ib_region_judge(btl_ib_counters_t *count, btl_ib_region_result_t result)
{
    count->served_elsewhere += result == BTL_IB_REGION_ELSEWHERE;
    count->rejected_region += result == BTL_IB_REGION_UNKNOWN;
    count->rejected_bounds += result == BTL_IB_REGION_BOUNDS;
    count->rejected_right += result == BTL_IB_REGION_RIGHT;
    return result <= BTL_IB_REGION_ELSEWHERE;
}

static inline bool btl_ib_region_allows(btl_ib_region_result_t result)
{
    return result <= BTL_IB_REGION_ELSEWHERE;
}

#endif
