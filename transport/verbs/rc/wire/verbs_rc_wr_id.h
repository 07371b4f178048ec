/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Ids of work requests. A completion may come after its connection was closed, so an id names a
 * slot of the table of connections and which of its users in turn it belongs to.
 *
 *      63    52 51      32 31     30       0
 *     | epoch  | slot    | recv | number   |
 *
 * number: of a send in its ring, or of a receive buffer. Buffers that all peers share have an epoch
 * of their own, and their queue's number above that of the buffer.
 */

#ifndef BTL_IB_VERBS_RC_WR_ID_H
#define BTL_IB_VERBS_RC_WR_ID_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BTL_IB_RC_SLOT_BITS = 20,
    BTL_IB_RC_EPOCH_BITS = 12,
    BTL_IB_RC_SHARED_EPOCH = (1 << BTL_IB_RC_EPOCH_BITS) - 1,
    BTL_IB_RC_INDEX_BITS = 24, /* of a shared buffer */
};

#define BTL_IB_RC_RECV (1u << 31)

/* The upper half, common to all requests of a connection. */
static inline uint64_t btl_ib_rc_wr_id_base(uint32_t epoch, uint32_t slot)
{
    return (uint64_t) epoch << 52 | (uint64_t) slot << 32;
}

static inline uint64_t btl_ib_rc_wr_id_shared(uint32_t queue)
{
    return btl_ib_rc_wr_id_base(BTL_IB_RC_SHARED_EPOCH, 0) | BTL_IB_RC_RECV
           | (uint64_t) queue << BTL_IB_RC_INDEX_BITS;
}

static inline uint32_t btl_ib_rc_wr_id_epoch(uint64_t id)
{
    return (uint32_t) (id >> 52);
}

static inline uint32_t btl_ib_rc_wr_id_slot(uint64_t id)
{
    return id >> 32 & ((1u << BTL_IB_RC_SLOT_BITS) - 1);
}

static inline bool btl_ib_rc_wr_id_is_recv(uint64_t id)
{
    return (id & BTL_IB_RC_RECV) != 0;
}

static inline bool btl_ib_rc_wr_id_is_shared(uint64_t id)
{
    return btl_ib_rc_wr_id_epoch(id) == BTL_IB_RC_SHARED_EPOCH;
}

#endif
