/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Hands events to ops->trace, if config.trace asks for it: engine->trace is set then. Where it is
 * not each call costs that question only. The functions that record are for those below them.
 */

#ifndef BTL_IB_TRACE_H
#define BTL_IB_TRACE_H

#include "btl_ib_engine_internal.h"

/* For engine->trace. NULL if it is not wanted, or there is no memory for it. */
btl_ib_trace_t *btl_ib_trace_new(const btl_ib_engine_t *engine);

void btl_ib_trace_record_sent(const btl_ib_conn_t *conn, const btl_ib_wire_header_t *common,
                              btl_ib_segment_t *const *segments, const btl_ib_tx_t *tx, int count);
void btl_ib_trace_record_response(const btl_ib_rail_t *rail, uint64_t peer, uint32_t size);
void btl_ib_trace_record_received(const btl_ib_rail_t *rail, const btl_ib_event_t *events,
                                  int count);
void btl_ib_trace_record_segment(const btl_ib_conn_t *conn, btl_ib_trace_kind_t kind,
                                 btl_ib_trace_cause_t cause, const btl_ib_segment_t *segment);
void btl_ib_trace_record_conn(const btl_ib_conn_t *conn, btl_ib_trace_kind_t kind,
                              btl_ib_trace_cause_t cause, uint32_t count);
void btl_ib_trace_record_blocked(const btl_ib_conn_t *conn, uint32_t channel,
                                 btl_ib_trace_cause_t cause);
void btl_ib_trace_record_retransmitted(const btl_ib_conn_t *conn, const btl_ib_segment_t *segment,
                                       bool probe);

/* The transport took `count` datagrams, made of these segments; `common` is what their headers have
 * in common. */
static inline void btl_ib_trace_sent(const btl_ib_conn_t *conn, const btl_ib_wire_header_t *common,
                                     btl_ib_segment_t *const *segments, const btl_ib_tx_t *tx,
                                     int count)
{
    if (conn->engine->trace != NULL) {
        btl_ib_trace_record_sent(conn, common, segments, tx, count);
    }
}

/* A datagram of `size` bytes that belongs to no connection was sent. */
static inline void btl_ib_trace_response(const btl_ib_rail_t *rail, uint64_t peer, uint32_t size)
{
    if (rail->engine->trace != NULL) {
        btl_ib_trace_record_response(rail, peer, size);
    }
}

/* `count` datagrams were taken in or dropped. Call it before their buffers are reposted. */
static inline void btl_ib_trace_received(const btl_ib_rail_t *rail, const btl_ib_event_t *events,
                                         int count)
{
    if (rail->engine->trace != NULL) {
        btl_ib_trace_record_received(rail, events, count);
    }
}

/* Something happened to a segment; or to the connection, `count` times. */
static inline void btl_ib_trace_segment(const btl_ib_conn_t *conn, btl_ib_trace_kind_t kind,
                                        btl_ib_trace_cause_t cause, const btl_ib_segment_t *segment)
{
    if (conn->engine->trace != NULL) {
        btl_ib_trace_record_segment(conn, kind, cause, segment);
    }
}

static inline void btl_ib_trace_conn(const btl_ib_conn_t *conn, btl_ib_trace_kind_t kind,
                                     btl_ib_trace_cause_t cause, uint32_t count)
{
    if (conn->engine->trace != NULL) {
        btl_ib_trace_record_conn(conn, kind, cause, count);
    }
}

/* What waits on a channel (BTL_IB_TRACE_NO_CHANNEL: to be sent again, on any) is stopped. */
static inline void btl_ib_trace_blocked(const btl_ib_conn_t *conn, uint32_t channel,
                                        btl_ib_trace_cause_t cause)
{
    if (conn->engine->trace != NULL) {
        btl_ib_trace_record_blocked(conn, channel, cause);
    }
}

/* `segment` was sent again; `probe`: as a probe. Call it before that is noted. */
static inline void btl_ib_trace_retransmitted(const btl_ib_conn_t *conn,
                                              const btl_ib_segment_t *segment, bool probe)
{
    if (conn->engine->trace != NULL) {
        btl_ib_trace_record_retransmitted(conn, segment, probe);
    }
}

#endif
