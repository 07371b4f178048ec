/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Hands events to ops->trace, if config.trace asks for it: engine->trace is set then. Else a call
 * costs that question only, which is asked inline: another function records.
 */

#ifndef BTL_IB_TRACE_H
#define BTL_IB_TRACE_H

#include "btl_ib_state.h"

/* Makes engine->trace. Returns NULL if it is not wanted, or there is no memory for it. */
btl_ib_counters_t *btl_ib_trace_new(const btl_ib_engine_t *engine);

void btl_ib_trace_record(const btl_ib_conn_t *conn, btl_ib_trace_kind_t kind,
                         btl_ib_trace_cause_t cause, const btl_ib_segment_t *segment,
                         uint32_t number);
void btl_ib_trace_record_sent(const btl_ib_conn_t *conn, const btl_ib_wire_header_t *common,
                              btl_ib_segment_t *const *segments, const btl_ib_tx_t *tx, int count);

/* Records what happened to a segment; or (NULL) to the connection, `number` times. `number` of what
 * is blocked is the channel (BTL_IB_TRACE_NO_CHANNEL: what is to be sent again, on any). */
static inline void btl_ib_trace(const btl_ib_conn_t *conn, btl_ib_trace_kind_t kind,
                                btl_ib_trace_cause_t cause, const btl_ib_segment_t *segment,
                                uint32_t number)
{
    if (conn->engine->trace != NULL) {
        btl_ib_trace_record(conn, kind, cause, segment, number);
    }
}

/* Records `count` datagrams that the transport took, made of these segments; `common` is what their
 * headers have in common. */
static inline void btl_ib_trace_sent(const btl_ib_conn_t *conn, const btl_ib_wire_header_t *common,
                                     btl_ib_segment_t *const *segments, const btl_ib_tx_t *tx,
                                     int count)
{
    if (conn->engine->trace != NULL) {
        btl_ib_trace_record_sent(conn, common, segments, tx, count);
    }
}

/* Records that a datagram of `size` bytes that belongs to no connection was sent. */
void btl_ib_trace_response(const btl_ib_rail_t *rail, uint64_t peer, uint32_t size);

/* Records `count` datagrams that were taken in or dropped. Call it before their buffers are
 * reposted. */
void btl_ib_trace_received(const btl_ib_rail_t *rail, const btl_ib_event_t *events, int count);

#endif
