/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Makes datagrams of segments and hands them to the transport. Headers are written, and datagrams
 * protected, anew for each copy. Writes conn->transmit. */

#ifndef BTL_IB_TRANSMIT_H
#define BTL_IB_TRANSMIT_H

#include "btl_ib_min.h"
#include "btl_ib_state.h"

/* Send `count` segments: sequenced ones (new or again), or a single one that has no sequence.
 * Returns how many left. */
int btl_ib_transmit(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count);

/* Segments worth handing to the transport in one call: a multiple of a GSO burst. */
static inline int btl_ib_transmit_max(const btl_ib_conn_t *conn)
{
    const uint32_t most = btl_ib_min_u32(conn->route.via->transport->attr.max_batch, BTL_IB_BATCH);
    const uint32_t burst = btl_ib_min_u32(conn->cc.gso_segments, most);

    return (int) (most - most % burst);
}

#endif
