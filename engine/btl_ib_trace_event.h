/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What a trace records: one event of the protocol in 64 bytes, all of the same kind of structure,
 * which goes into files as it is (docs/guide/trace.md). Names go into them, too, so that what reads
 * them needs no table of its own. The lists are macros: X(name, "what it is").
 */

#ifndef BTL_IB_TRACE_EVENT_H
#define BTL_IB_TRACE_EVENT_H

#include <stddef.h>
#include <stdint.h>

#define BTL_IB_TRACE_KINDS(X)                                                                      \
    X(sent, "a datagram that was handed to the transport")                                         \
    X(received, "a datagram that arrived")                                                         \
    X(dropped, "what arrived is not used; cause: the counter that counts it")                      \
    X(ack_sent, "one channel in an ACK: all before ack, and in gaps up to seq")                    \
    X(ack_received, "the same in an ACK that arrived")                                             \
    X(retransmitted, "a segment was sent again")                                                   \
    X(lost, "a segment in flight was found lost by what arrived after it")                         \
    X(spurious, "count retransmissions turn out to have arrived twice")                            \
    X(probe, "nothing came back: a probe was sent")                                                \
    X(timeout, "that was not the first one: a retransmission timeout")                             \
    X(deferred, "a segment got RNR: the peer cannot accept it for now")                            \
    X(blocked, "what waits cannot be sent now")                                                    \
    X(path_mtu, "the largest datagram is of size bytes from now on")                               \
    X(path_tried, "bulk leaves by a further flow, number count, to see what that carries")         \
    X(path_kept, "with it more was carried: it stays")                                             \
    X(path_left, "bulk leaves by it no more")                                                      \
    X(path_renewed, "it takes another port")                                                       \
    X(made, "a connection was made; nothing is sent by that")                                      \
    X(bound, "the peer was heard: its id and token are known")                                     \
    X(known, "the peer knows ours: handshake complete")                                            \
    X(validated, "its two rails reach each other")                                                 \
    X(moved, "it goes on by rail")                                                                 \
    X(reset, "it begins anew, because the peer did")                                               \
    X(peer_closed, "the peer closed it")                                                           \
    X(closed, "it was closed here")                                                                \
    X(dead, "the peer was given up")

/* Why. The last ones are those of btl_ib_death_t, in its order. */
#define BTL_IB_TRACE_CAUSES(X)                                                                     \
    X(none, "")                                                                                    \
    X(loss, "it was found lost")                                                                   \
    X(probing, "it asks a silent peer for an acknowledgement")                                     \
    X(rnr, "the peer could not take it in")                                                        \
    X(credit, "no credit")                                                                         \
    X(window, "congestion window, or the peer's")                                                  \
    X(depth, "limits on all connections together")                                                 \
    X(share, "what the peer allows, as many send to it")                                           \
    X(pace, "pacing of congestion control")                                                        \
    X(full, "the transport is full, or memory short")                                              \
    X(answer, "by these rails the peer has not answered yet, and others are known to work")        \
    X(capped, "losses without a queue, as where each flow is limited")                             \
    X(slow, "a queue all the time; or it carried far less than another one")                       \
    X(no_gain, "all together carried little more")                                                 \
    X(missed, "what left by it was not acknowledged, and what left later was")                     \
    X(silence, "nothing was heard for the silence limit")                                          \
    X(no_progress, "it answers, but some data were never acknowledged")                            \
    X(no_tag, "it has no receiver for a tag")                                                      \
    X(refused, "its host says that nobody is there")                                               \
    X(restarted, "a new process took its place")                                                   \
    X(device, "our device failed")                                                                 \
    X(unanswered, "it never answered")                                                             \
    X(ended, "the runtime says that it failed")                                                    \
    X(lost, "its host cannot be reached any more")

#define BTL_IB_TRACE_NAME(name, text) BTL_IB_TRACE_##name,
typedef enum btl_ib_trace_kind { BTL_IB_TRACE_KINDS(BTL_IB_TRACE_NAME) } btl_ib_trace_kind_t;
#undef BTL_IB_TRACE_NAME

#define BTL_IB_TRACE_NAME(name, text) BTL_IB_CAUSE_##name,
typedef enum btl_ib_trace_cause { BTL_IB_TRACE_CAUSES(BTL_IB_TRACE_NAME) } btl_ib_trace_cause_t;
#undef BTL_IB_TRACE_NAME

/* Fields: X(type, bits, name, "what it is"). What an event has not is 0. */
#define BTL_IB_TRACE_FIELDS(X)                                                                     \
    X(uint, 64, time, "ns of a clock that only runs; the first line tells what time it was")       \
    X(uint, 64, peer, "job << 32 | rank; all ones: unknown")                                       \
    X(uint, 32, connection, "number of the connection here, another after each reset")             \
    X(uint, 32, seq, "sequence of the segment in its channel")                                     \
    X(uint, 32, ack, "all before this one are acknowledged, in ack_channel")                       \
    X(uint, 32, limit, "credit: sequences before this one may be sent")                            \
    X(uint, 32, size, "bytes of the datagram")                                                     \
    X(uint, 32, count, "of what the event counts; else 1")                                         \
    X(uint, 32, window, "congestion window, in segments")                                          \
    X(uint, 32, in_flight, "segments that are on their way")                                       \
    X(uint, 32, srtt, "smoothed round-trip time in us; 0: not known yet")                          \
    X(uint, 32, rto, "retransmission timeout before it is doubled, us")                            \
    X(uint, 8, kind, "what happened: a place in `kinds`")                                          \
    X(uint, 8, cause, "why: a place in `causes`; of a drop in `counters`")                         \
    X(uint, 8, rail, "device of this process")                                                     \
    X(uint, 8, type, "of the datagram: a place in `types`")                                        \
    X(uint, 8, flags, "of its header")                                                             \
    X(uint, 8, channel, "that seq belongs to: the sender's of what is received")                   \
    X(uint, 8, ack_channel, "that ack and limit belong to; 255: they say nothing")                 \
    X(uint, 8, zero, "")

#define BTL_IB_TRACE_FIELD(type, bits, name, text) type##bits##_t name;
typedef struct btl_ib_trace_event {
    BTL_IB_TRACE_FIELDS(BTL_IB_TRACE_FIELD)
} btl_ib_trace_event_t;
#undef BTL_IB_TRACE_FIELD

#define BTL_IB_TRACE_PEER_UNKNOWN UINT64_MAX
#define BTL_IB_TRACE_NO_CHANNEL   UINT8_MAX

/* What reads traces is told: a list of each, fields, kinds, causes, and types (btl_ib_type_t). Ends
 * with NULL. */
typedef struct btl_ib_trace_list {
    const char *name;
    const char *entries; /* as JSON, with a comma before each */
} btl_ib_trace_list_t;

extern const btl_ib_trace_list_t btl_ib_trace_lists[];

#endif
