/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Event counters of an engine. The list is a macro, so that the struct, the names and whatever
 * prints them cannot disagree: X(field, "what it counts").
 */

#ifndef BTL_IB_COUNTERS_H
#define BTL_IB_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#define BTL_IB_COUNTERS(X)                                                                         \
    X(sent_messages, "messages sent")                                                              \
    X(sent_segments, "sequenced segments sent for the first time")                                 \
    X(sent_bytes, "payload bytes sent for the first time")                                         \
    X(copied_out, "payload bytes copied into datagrams, or kept as their sender waited")           \
    X(sent_datagrams, "datagrams of any kind handed to the transport")                             \
    X(sent_acks, "explicit acknowledgements sent")                                                 \
    X(sent_bundles, "segments that carried several messages")                                      \
    X(zcopy_kept,                                                                                  \
      "messages sent from the user's memory and copied after that, as their sender waited")        \
    X(sent_parts, "parts of segments that are larger than the path MTU")                           \
    X(sent_connects, "segments that carried a CONNECT")                                            \
    X(sent_ready, "acknowledgements that named what got RNR and may come again")                   \
    X(sent_probes, "probes sent: tail loss, timeout or lack of credit")                            \
    X(deferred, "segments not retransmitted for a while, because the peer was not ready (RNR)")    \
    X(retransmits, "segments retransmitted")                                                       \
    X(retransmits_spurious, "segments retransmitted although the first copy arrived")              \
    X(losses, "segments found lost by acknowledgements of later ones")                             \
    X(timeouts, "retransmission timeouts")                                                         \
    X(queued_rounds, "round trips of more than a message that a queue in the network made longer") \
    X(host_rounds,                                                                                 \
      "round trips made longer by a receiver that polls, but is slower than its network")          \
    X(pauses, "times that datagrams came while this process made no call for more than 100 us")    \
    X(paused_us, "us of these times")                                                              \
    X(incasts, "times that many to one was bounded: of what several peers sent a part was lost")   \
    X(paths_tried, "times that bulk left by one more flow at once, as it seemed to be capped")     \
    X(paths_kept, "of these, those that carried more")                                             \
    X(paths_renewed, "dead or slow flows of bulk that got another port")                           \
    X(flows_tried, "times that another flow was tried, as nothing was answered")                   \
    X(flows_left, "of them, those where the usual flow was left: only another one was answered")   \
    X(black_holes,                                                                                 \
      "times that large datagrams were found not to get through, without an ICMP message")         \
    X(short_bursts,                                                                                \
      "times that GSO bursts were found not to get through while single datagrams did")            \
    X(ecn_sent, "datagrams sent with ECT(0): the network may mark them (CE), not only drop them")  \
    X(ecn_ce_received, "datagrams received with CE: the network marked them")                      \
    X(ecn_ce_told, "datagrams sent that arrived with CE, as peers told")                           \
    X(ecn_cuts, "times that a window was reduced for that")                                        \
    X(ecn_paths, "paths found to carry ECT(0)")                                                    \
    X(ecn_paths_off, "paths found to clear it, to drop what has it, or to mark all")               \
    X(blocked_transport, "sends put off because the transport was full")                           \
    X(blocked_credit, "sends put off for want of credit")                                          \
    X(blocked_window, "sends put off by the window or a depth limit")                              \
    X(blocked_share, "sends put off by what the peer allows, as many send to it")                  \
    X(blocked_pace, "sends put off by pacing of congestion control")                               \
    X(blocked_memory, "sends put off for want of memory")                                          \
    X(received_unidentified, "first contacts that were kept until their sender was looked up")     \
    X(sent_responses,                                                                              \
      "PATH_RESPONSEs sent: first contacts whose sender could not be looked up yet")               \
    X(received_responses, "PATH_RESPONSEs received")                                               \
    X(sent_challenges, "challenges sent to addresses that nobody published")                       \
    X(received_challenges, "challenges received: a router rewrites our source")                    \
    X(rewritten, "answers to challenges: a peer is behind a router that rewrites its source")      \
    X(received_messages, "messages delivered")                                                     \
    X(received_segments, "sequenced segments accepted")                                            \
    X(received_bytes, "payload bytes accepted")                                                    \
    X(copied_in, "payload bytes copied to where messages are put together, or operations go")      \
    X(received_datagrams, "datagrams of any kind that the transport delivered")                    \
    X(received_parts, "parts of segments that were kept until the others come")                    \
    X(received_acks, "explicit acknowledgements received")                                         \
    X(received_ready, "acknowledgements received that named what we may send again")               \
    X(received_skips, "credits that an idle peer gave back")                                       \
    X(received_out_of_order, "segments accepted ahead of a gap")                                   \
    X(rnr_tag, "RNR: no receiver for their tag yet")                                               \
    X(rnr_reassembly, "RNR of chunks: no reassembly buffer")                                       \
    X(rnr_memory, "RNR: no memory to note them")                                                   \
    X(rnr_backlog, "RNR in asynchronous progress: the backlog is full")                            \
    X(undelivered, "messages acknowledged but not delivered: the connection is closing")           \
    X(unplaced_puts, "segments of puts that are rejected: not placed, and not acknowledged")       \
    X(rnr_operations, "RNR of requests: too many of the peer's are being served")                  \
    X(started_puts, "puts started")                                                                \
    X(started_gets, "gets started")                                                                \
    X(started_atomics, "atomic operations started")                                                \
    X(offload_puts, "puts executed by the device")                                                 \
    X(offload_gets, "gets executed by it")                                                         \
    X(offload_atomics, "atomic operations executed by it")                                         \
    X(offload_returned, "operations handed to it that it did not complete")                        \
    X(failed_ops, "one-sided operations that ended with an error")                                 \
    X(sent_rejections, "REJECTED sent")                                                            \
    X(received_rejections, "REJECTED received")                                                    \
    X(stale_answers, "answers to operations that are over, or that none can have")                 \
    X(voided, "segments whose contents were given up, because the peer rejected them")             \
    X(placed_puts, "segments of puts placed in registered memory")                                 \
    X(served_gets, "gets of peers that were begun")                                                \
    X(served_atomics, "atomic operations executed for peers")                                      \
    X(served_elsewhere, "requests of peers served in another region of a window than they named")  \
    X(rejected_region, "requests of peers for a region that is not, or no longer, registered")     \
    X(rejected_bounds, "requests of peers beyond the bounds of a region")                          \
    X(rejected_right, "requests of peers for what they may not do with a region")                  \
    X(rejected_aligned, "atomic operations of peers on words that are not aligned")                \
    X(rejected_icmp,                                                                               \
      "ICMP messages about datagrams that no connection sent in its present incarnation")          \
    X(rejected_icmp_short, "ICMP messages that quote too little of a datagram to be checked")      \
    X(dropped_duplicate, "segments received again")                                                \
    X(dropped_short, "datagrams shorter than their headers say")                                   \
    X(dropped_checksum, "datagrams whose checksum is wrong")                                       \
    X(dropped_forged, "datagrams that the key of their sender does not authenticate")              \
    X(dropped_replay, "genuine datagrams received again, or too old to know")                      \
    X(dropped_version, "datagrams of another protocol version")                                    \
    X(dropped_type, "datagrams of an unknown type")                                                \
    X(dropped_length, "datagrams whose length does not add up")                                    \
    X(dropped_unknown, "datagrams for a connection that does not exist")                           \
    X(dropped_token, "datagrams with a wrong token")                                               \
    X(dropped_source, "datagrams from an address that the peer never published")                   \
    X(dropped_stale, "datagrams of an earlier incarnation of a connection")                        \
    X(dropped_channel, "segments of a channel that does not exist")                                \
    X(dropped_sequence, "segments with a sequence outside the window or beyond their credit")      \
    X(dropped_ack, "acknowledgements of what was never sent")                                      \
    X(dropped_credit, "credit limits beyond what the queue can grant")                             \
    X(dropped_chunk, "chunks that disagree with their fragment")                                   \
    X(dropped_op,                                                                                  \
      "segments of one-sided operations that contradict themselves or their operation")            \
    X(dropped_lookup, "CONNECTs from unknown senders in asynchronous progress, or above a limit")  \
    X(async_turns, "turns of the thread, while the application did not call progress")             \
    X(rekeys, "keys changed because enough was sent with the one before")                          \
    X(failovers, "times that a connection went on over another rail")                              \
    X(slow_rails, "of them, those from a rail that carried far less than another to that peer")    \
    X(rebound, "addresses of devices that changed")                                                \
    X(connections, "connections made")                                                             \
    X(connections_passive, "connections made by a peer that was never added")                      \
    X(connections_closed, "connections closed by the peer")                                        \
    X(connections_dead, "connections given up")

typedef struct btl_ib_counters {
#define BTL_IB_COUNTER_FIELD(field, text) uint64_t field;
    BTL_IB_COUNTERS(BTL_IB_COUNTER_FIELD)
#undef BTL_IB_COUNTER_FIELD
} btl_ib_counters_t;

/* Lists the counters that each connection has as well; the list above says what they are. */
#define BTL_IB_CONN_COUNTERS(X)                                                                    \
    X(sent_segments)                                                                               \
    X(sent_bytes)                                                                                  \
    X(received_segments)                                                                           \
    X(received_bytes)                                                                              \
    X(retransmits)                                                                                 \
    X(retransmits_spurious)                                                                        \
    X(losses)                                                                                      \
    X(timeouts)                                                                                    \
    X(queued_rounds)                                                                               \
    X(host_rounds)                                                                                 \
    X(dropped_duplicate)

/* Counters of a rail: those of its connections, and its own. */
#define BTL_IB_RAIL_COUNTERS(X)                                                                    \
    BTL_IB_CONN_COUNTERS(X)                                                                        \
    X(sent_datagrams)                                                                              \
    X(received_datagrams)

/* Counters of a channel of a rail. Sends that wait to be repeated are not in blocked_*. */
#define BTL_IB_CHANNEL_COUNTERS(X)                                                                 \
    X(sent_segments)                                                                               \
    X(received_segments)                                                                           \
    X(blocked_credit)                                                                              \
    X(blocked_window)

/* What a connection is at: no counts, but what is so now. */
#define BTL_IB_CONN_LEVELS(X)                                                                      \
    X(in_flight, "segments in flight")                                                             \
    X(window, "congestion window, in segments")                                                    \
    X(srtt, "smoothed round-trip time, in microseconds; 0: not measured yet")                      \
    X(rto, "retransmission timeout before it is doubled, in microseconds")                         \
    X(datagram_max, "largest datagram that the path carries, as far as is known, in bytes")        \
    X(share, "segments in flight that the peer, as many send to it, allows; 0: as many as fit")

#define BTL_IB_COUNTER_FIELD(field, ...) uint64_t field;
typedef struct btl_ib_conn_counters {
    BTL_IB_CONN_COUNTERS(BTL_IB_COUNTER_FIELD)
} btl_ib_conn_counters_t;

typedef struct btl_ib_rail_counters {
    BTL_IB_RAIL_COUNTERS(BTL_IB_COUNTER_FIELD)
} btl_ib_rail_counters_t;

typedef struct btl_ib_channel_counters {
    BTL_IB_CHANNEL_COUNTERS(BTL_IB_COUNTER_FIELD)
} btl_ib_channel_counters_t;

typedef struct btl_ib_conn_levels_info {
    BTL_IB_CONN_LEVELS(BTL_IB_COUNTER_FIELD)
} btl_ib_conn_levels_info_t;
#undef BTL_IB_COUNTER_FIELD

/* One counter as a name, the place in its struct, and what it counts. */
typedef struct btl_ib_counter_info {
    const char *name;
    size_t offset;
    const char *text; /* NULL: as of the counter of that name in btl_ib_counter_infos */
} btl_ib_counter_info_t;

/* All of the struct that the comment names, in its order; each ends with a NULL name. */
extern const btl_ib_counter_info_t btl_ib_counter_infos[];         /* btl_ib_counters_t */
extern const btl_ib_counter_info_t btl_ib_conn_counter_infos[];    /* btl_ib_conn_counters_t */
extern const btl_ib_counter_info_t btl_ib_rail_counter_infos[];    /* btl_ib_rail_counters_t */
extern const btl_ib_counter_info_t btl_ib_channel_counter_infos[]; /* btl_ib_channel_counters_t */
extern const btl_ib_counter_info_t btl_ib_conn_level_infos[];      /* btl_ib_conn_levels_info_t */

/* Returns what a counter counts. */
const char *btl_ib_counter_text(const btl_ib_counter_info_t *info);

/* Returns the counter of dropped datagrams after `info` (NULL: the first) of which `before` and
 * `after` differ; NULL: none. */
const btl_ib_counter_info_t *btl_ib_counter_next_drop(const btl_ib_counter_info_t *info,
                                                      const btl_ib_counters_t *before,
                                                      const btl_ib_counters_t *after);

/* Returns the value in `counters`, a struct that the counter belongs to. */
static inline uint64_t btl_ib_counter_value(const btl_ib_counter_info_t *info, const void *counters)
{
    return *(const uint64_t *) (const void *) ((const char *) counters + info->offset);
}

#endif
