/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Segments that arrive in parts, because they were packetized before the sender knew that the path
 * carries less. Parts come in any order, several times, and from copies that were divided
 * differently. A segment of which parts are missing is not accepted: nothing is promised, and its
 * parts may be dropped.
 */

#ifndef BTL_IB_REFRAGMENT_H
#define BTL_IB_REFRAGMENT_H

#include <stdint.h>

#include "btl_ib_list.h"
#include "btl_ib_pool.h"
#include "btl_ib_wire.h"

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

/* Adds a PART to those of a peer, which are in `list`. */
btl_ib_refragment_result_t btl_ib_refragment_add(btl_ib_list_t *list, const btl_ib_mem_t *mem,
                                                 const btl_ib_view_t *part,
                                                 btl_ib_refragment_t **whole);

/* Drops the parts of a segment that was accepted otherwise, or is given up. */
void btl_ib_refragment_forget(btl_ib_list_t *list, const btl_ib_mem_t *mem, uint32_t channel,
                              uint32_t seq);

void btl_ib_refragment_drop(btl_ib_list_t *list, const btl_ib_mem_t *mem);

#endif
