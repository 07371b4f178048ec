/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_transmit.h"

#include "btl_ib_ack_write.h"
#include "btl_ib_ecn.h"
#include "btl_ib_gso.h"
#include "btl_ib_identity.h"
#include "btl_ib_incast.h"
#include "btl_ib_latency.h"
#include "btl_ib_sched.h"
#include "btl_ib_list.h"
#include "btl_ib_packet.h"
#include "btl_ib_paths.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_state.h"
#include "btl_ib_trace.h"
#include "btl_ib_validation.h"

#include <errno.h>
#include <string.h>

/* ---- datagrams ---- */

/* Segments -> datagrams -> transport. Headers are written, and datagrams protected, anew for each
 * copy. */

int btl_ib_transmit_max(const btl_ib_conn_t *conn)
{
    const uint32_t most = btl_ib_min_u32(conn->route.via->transport->attr.max_batch, BTL_IB_BATCH);
    const uint32_t burst = btl_ib_min_u32(conn->cc.gso_segments, most);

    return (int) (most - most % burst);
}

enum {
    NO_BUFFERS_LONG = 20000,  /* us: longer than a queue that others fill has no place */
    NO_BUFFERS_OLD = 5000000, /* us: then it is another matter */
};

/* ---- headers ---- */

/* Writes what the headers of a batch have in common, whether of first or later copies: all that
 * depends on the present moment. They acknowledge the channel to which something came last, or
 * another one if nothing is due of that; those of ACKs (`is_ack`) none: their body does. */
static inline void common_header(btl_ib_conn_t *conn, bool is_ack, btl_ib_wire_header_t *to)
{
    if (conn->ack.due != 0 && !(conn->ack.due >> conn->ack.channel & 1)) {
        conn->ack.channel = (uint32_t) __builtin_ctz(conn->ack.due);
    }
    const uint32_t ack_channel = conn->ack.channel;
    btl_ib_rx_channel_t *rx = &conn->rx[ack_channel];
    uint64_t now = conn->engine->clock.now;
    btl_ib_wire_header_t header = {
        .version_type = (uint8_t) (conn->identity.version << 4),
        .connection = BTL_IB_LE32(conn->identity.peer_id),
        .token = BTL_IB_LE64(conn->identity.tx_token),
        .stamp = BTL_IB_LE32((uint32_t) now),
    };

    btl_ib_credit_top_up(&rx->credit);
    if (!is_ack && conn->identity.bound) {
        header.flags |= BTL_IB_FLAG_ACK;
        header.channels |= (uint8_t) (ack_channel << 4);
        header.ack = BTL_IB_LE32(rx->window.next);
        if (conn->rail->queues.q[ack_channel].type == BTL_IB_QUEUE_PER_PEER) {
            uint32_t credits = rx->credit.limit - rx->window.next;
            header.credits = BTL_IB_LE16(credits < UINT16_MAX ? credits : UINT16_MAX);
        }
    }
    if (conn->ack.no_tag) {
        header.flags |= BTL_IB_FLAG_NO_TAG;
    }
    const uint64_t hold = now - conn->ack.echo_at;
    if (conn->ack.echo_valid && hold <= BTL_IB_STAMP_AGE) {
        header.flags |= BTL_IB_FLAG_ECHO;
        header.echo = BTL_IB_LE32(conn->ack.echo);
        header.hold = BTL_IB_LE16(hold < BTL_IB_HOLD_UNKNOWN ? hold : BTL_IB_HOLD_UNKNOWN);
        header.poll_gap = BTL_IB_LE16(conn->ack.echo_poll_gap < UINT16_MAX ? conn->ack.echo_poll_gap
                                                                           : UINT16_MAX);
    }
    *to = header;
}

/* Adds what its segment says to a header that has what is common. */
static inline void stamp(btl_ib_wire_header_t *header, const btl_ib_segment_t *segment)
{
    header->version_type |= segment->type;
    header->flags |= segment->flags;
    header->channels |= segment->channel;
    header->tag = segment->tag;
    header->seq = BTL_IB_LE32(segment->seq);
    header->length = BTL_IB_LE16(segment->size + segment->outside - sizeof(*header));
}

/* ---- sending them ---- */

/* Protects a segment whose header is written. Returns what is sent, or NULL if memory is short.
 * Encrypted data get a buffer of their own, because the segment is kept and may be sent again. */
static btl_ib_segment_t *protect(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    const btl_ib_protection_t *protection = &conn->engine->protection;
    btl_ib_segment_t *wire = segment;

    if (protection->ops->trailer == 0) {
        return segment;
    }
    btl_ib_protection_keys_t *keys = conn->identity.keys;
    if (keys != NULL && !keys->tx.begun) { /* of this incarnation, or memory was short before */
        const btl_ib_protection_path_t path = {
            .sender_key = &conn->engine->config.key,
            .receiver_key = &keys->peer,
            .sender = conn->engine->config.name,
            .receiver = conn->identity.name,
            .epoch = conn->identity.epoch,
            .from_rail = conn->rail->index,
            .to_rail = conn->identity.remote_rail,
        };
        if (!btl_ib_protection_begin(protection, &keys->tx, &path)) {
            return NULL;
        }
    }
    if (protection->ops->apart) {
        wire = btl_ib_pool_get(&conn->route.via->pool, segment->size + protection->ops->trailer);
        if (wire == NULL) {
            return NULL;
        }
    }
    if (!btl_ib_protection_seal(protection, keys, segment->wire, wire->wire, segment->size)) {
        if (wire != segment) {
            btl_ib_pool_put(wire);
        }
        return NULL;
    }
    return wire;
}

static void fill_tx(const btl_ib_conn_t *conn, const btl_ib_segment_t *segment,
                    btl_ib_segment_t *wire, btl_ib_tx_t *tx)
{
    uint32_t size = segment->size + conn->engine->protection.ops->trailer;

    tx->to = conn->route.to;
    tx->niov = 1;
    tx->size = size + segment->outside;
    tx->iov[0] = (struct iovec){.iov_base = wire->wire, .iov_len = size};
    tx->mem = wire->mem;
    tx->context = wire;
    tx->channel = segment->type == BTL_IB_TYPE_ACK ? 0 : segment->channel;
    tx->bulk = conn->transmit.bulk_lane && btl_ib_segment_is_bulk(segment);
    tx->ect = conn->transmit.ect && btl_ib_segment_is_bulk(segment)
              && !(segment->flags & BTL_IB_FLAG_RETRANSMISSION);
    tx->gso_most = btl_ib_gso_most(&conn->gso, segment);
    tx->flow = conn->capped.paths != NULL && btl_ib_segment_is_bulk(segment)
                   ? btl_ib_paths_flow(conn)
                   : conn->flow.now;
    tx->spare = btl_ib_type_is_sequenced(segment->type) ? conn->route.queues->q[0].reserve : 0;
    if (!btl_ib_route_is_own(conn)) {
        tx->channel = (uint8_t) btl_ib_queues_channel(conn->route.queues, tx->size);
    }
    if (segment->outside > 0) {
        tx->iov[tx->niov++] = segment->iov[0];
        if (segment->iov[1].iov_len > 0) {
            tx->iov[tx->niov++] = segment->iov[1];
        }
    }
}

/* Returns what is sent, which may be the segment itself; NULL: memory is short. It is a copy where
 * the transport still reads the memory of an earlier one, and may not say for long that it is
 * finished, or where the segment was made for another rail than the present one. */
static btl_ib_segment_t *make_datagram(btl_ib_conn_t *conn, btl_ib_segment_t *segment,
                                       const btl_ib_wire_header_t *common, btl_ib_tx_t *tx)
{
    bool apart = segment->busy || segment->pool != &conn->route.via->pool;
    btl_ib_segment_t *plain = apart ? btl_ib_packet_duplicate(conn, segment) : segment;

    if (plain == NULL) {
        return NULL;
    }
    btl_ib_wire_header_t *header = (btl_ib_wire_header_t *) (void *) plain->wire;
    *header = *common;
    stamp(header, plain);
    btl_ib_segment_t *wire = protect(conn, plain);
    if (wire != NULL) {
        fill_tx(conn, plain, wire, tx);
    }
    if (apart && wire != plain) {
        btl_ib_pool_put(plain);
    }
    return wire;
}

/* Makes the datagrams of those that continue the last one made, if that is the first copy of its
 * segment and no copy of that itself. Apart, as short messages do not come here. */
__attribute__((noinline)) static void make_run(btl_ib_segment_t *const *segments, int count,
                                               btl_ib_datagrams_t *batch)
{
    const btl_ib_segment_t *first = segments[batch->count - 1];
    const btl_ib_wire_header_t *like = (const btl_ib_wire_header_t *) (const void *) first->wire;
    const btl_ib_tx_t *same = &batch->tx[batch->count - 1];
    const uint8_t flags = batch->common->flags;
    int i = batch->count;

    if (batch->wire[i - 1] != first || first->copies > 0) {
        return;
    }
    for (; i < count && segments[i]->continues; i++) {
        btl_ib_segment_t *segment = segments[i];
        btl_ib_wire_header_t *header = (btl_ib_wire_header_t *) (void *) segment->wire;
        btl_ib_tx_t *tx = &batch->tx[i];
        *header = *like;
        header->flags = flags | segment->flags;
        header->seq = BTL_IB_LE32(segment->seq);
        memcpy(tx, same, offsetof(btl_ib_tx_t, iov));
        tx->iov[0] = (struct iovec){.iov_base = segment->wire, .iov_len = same->iov[0].iov_len};
        tx->iov[1] = segment->iov[0];
        tx->mem = segment->mem;
        tx->context = segment;
        batch->wire[i] = segment;
    }
    batch->count = i;
}

/* Makes as many datagrams as memory allows, at most `count`. */
static void make_datagrams(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count,
                           const btl_ib_wire_header_t *common, btl_ib_datagrams_t *batch)
{
    batch->common = common;
    batch->count = 0;
    batch->plain = true;
    while (batch->count < count) {
        btl_ib_segment_t *segment = segments[batch->count];
        btl_ib_tx_t *tx = &batch->tx[batch->count];
        btl_ib_segment_t *wire = make_datagram(conn, segment, common, tx);
        if (wire == NULL) {
            conn->engine->count.blocked_memory++;
            return;
        }
        batch->plain = batch->plain && wire == segment && !(segment->flags & BTL_IB_FLAG_CONNECT)
                       && tx->size <= conn->route.via->transport->attr.inline_size;
        batch->wire[batch->count++] = wire;
        if (batch->count < count && segments[batch->count]->continues) {
            make_run(segments, count, batch);
        }
    }
}

/* Notes that datagram `i` has left: the transport took it (`taken`), or failed to, which counts as
 * a loss. */
static void datagram_left(const btl_ib_conn_t *conn, const btl_ib_datagrams_t *batch, int i,
                          btl_ib_segment_t *segment, bool taken)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_segment_t *wire = batch->wire[i];

    engine->count.sent_connects += (segment->flags & BTL_IB_FLAG_CONNECT) != 0;
    btl_ib_pool_given(wire,
                      taken && batch->tx[i].size > conn->route.via->transport->attr.inline_size);
    if (wire != segment) {
        btl_ib_pool_put(wire);
    }
}

/* True if the error says "not now". Linux says ENOBUFS if the queue of an interface is full, but
 * also if what is behind it never takes a datagram of that size: a veth whose other end has a
 * smaller MTU. So a segment that is refused for that reason again and again counts as lost, and the
 * search for the path's size finds out. */
static bool is_for_now(const btl_ib_conn_t *conn, const btl_ib_segment_t *segment, int error)
{
    const uint64_t ago = conn->engine->clock.now - conn->transmit.no_buffers_since;

    if (error != ENOBUFS) {
        return error == EAGAIN || error == EWOULDBLOCK || error == ENOMEM;
    }
    return segment->seq != conn->transmit.no_buffers_seq
           || segment->channel != conn->transmit.no_buffers_channel || ago >= NO_BUFFERS_OLD
           || ago < NO_BUFFERS_LONG;
}

/* Remembers the segment of which ENOBUFS says "not now", unless that was said of another one
 * lately. */
static void note_no_buffers(btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    const uint64_t now = conn->engine->clock.now;

    if (now - conn->transmit.no_buffers_since >= NO_BUFFERS_LONG) {
        conn->transmit.no_buffers_seq = segment->seq;
        conn->transmit.no_buffers_channel = segment->channel;
        conn->transmit.no_buffers_since = now;
    }
}

/* Handles a datagram that the transport did not take. Returns whether that counts as a loss: if the
 * error does not say "not now". The segment is sent again then, and if that never helps, the
 * silence limit applies. */
__attribute__((noinline)) static bool lose_untaken(btl_ib_conn_t *conn, const btl_ib_tx_t *tx,
                                                   const btl_ib_segment_t *segment, int error)
{
    if (is_for_now(conn, segment, error)) {
        if (error == ENOBUFS) {
            note_no_buffers(conn, segment);
        }
        conn->engine->count.blocked_transport++;
        return false;
    }
    BTL_IB_LOG(conn->engine, 10, "peer %u.%u: %s cannot send %u bytes: %s",
               BTL_IB_NAME_ARGS(conn->identity.name), conn->route.via->transport->name, tx->size,
               strerror(error));
    if (error != EMSGSIZE && btl_ib_rail_usable(conn->route.via)) {
        btl_ib_validation_unsent(&conn->validation, error, conn->engine->clock.awake);
    }
    return true;
}

/* Has no datagram of a batch joined with others, from `from` on. */
static void join_none(btl_ib_datagrams_t *batch, int from)
{
    for (int i = from; i < batch->count; i++) {
        batch->tx[i].gso_most = 1;
    }
}

/* Hands a batch to the transport. Returns how many datagrams left, and in *taken how many of them
 * the transport took. */
static int send_datagrams(btl_ib_conn_t *conn, btl_ib_datagrams_t *batch,
                          btl_ib_segment_t *const *segments, int *taken)
{
    btl_ib_transport_t *transport = conn->route.via->transport;
    int done = 0;
    int refused = 0, joined = 0; /* a burst that the host refused: its first, and how many */

    *taken = 0;
    while (done < batch->count) {
        int error = ENETDOWN;
        int sent = btl_ib_route_leads(conn) ? transport->ops->send(transport, batch->tx + done,
                                                                   batch->count - done, &error)
                                            : 0;
        conn->engine->count.sent_datagrams += (uint64_t) sent;
        conn->route.via->count.sent_datagrams += (uint64_t) sent;
        btl_ib_trace_sent(conn, batch->common, segments + done, batch->tx + done, sent);
        *taken += sent;
        for (int i = 0; i < sent && !batch->plain; i++) {
            datagram_left(conn, batch, done + i, segments[done + i], true);
        }
        done += sent;
        if (done < batch->count && error == ENOBUFS) {
            const int run = btl_ib_gso_joined(conn, batch->tx + done, batch->count - done);
            if (run > 1) {
                refused = done;
                joined = run;
                join_none(batch, done);
                continue;
            }
        }
        if (done < refused + joined) { /* a queue that is full takes less of the burst alone, too */
            joined = 0;
        }
        if (done == batch->count || !lose_untaken(conn, &batch->tx[done], segments[done], error)) {
            break;
        }
        datagram_left(conn, batch, done, segments[done], false);
        done++;
    }
    if (joined > 0) {
        btl_ib_gso_refused(conn, batch->tx + refused, joined);
    }
    return done;
}

/* Notes that datagrams left whose header has that in common, and the transport took some of
 * them. */
static inline void header_left(btl_ib_conn_t *conn, const btl_ib_wire_header_t *header)
{
    btl_ib_validation_sent(&conn->validation);
    conn->ack.no_tag = false; /* they said so */
    if (!(header->flags & BTL_IB_FLAG_ACK)) {
        return;
    }
    const btl_ib_engine_t *engine = conn->engine;
    const uint32_t channel = header->channels >> 4;
    btl_ib_rx_channel_t *rx = &conn->rx[channel];
    if (engine->clock.now - conn->ack.delivered_at <= engine->config.ack_delay) {
        conn->ack.unreplied = false;
    }
    btl_ib_credit_told(&rx->credit, rx->window.next + BTL_IB_LE16(header->credits)); /* P queues */
    /* Ranges, counts of duplicates and shares of many to one travel in ACKs only. */
    if (rx->window.above == 0 && rx->ack.duplicates == rx->ack.duplicates_reported
        && (channel == 0 || !btl_ib_incast_is_due(conn))) {
        btl_ib_ack_tx_settled(&conn->ack, 1u << channel);
    }
}

/* True if a datagram, with data or an ACK, leaves as it is and from where it is: no protection adds
 * to it, it was made for the rail by which it goes, is no first contact, no transport reads it, and
 * it is no bulk, for which there are lanes. */
static inline bool is_simple(const btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    return conn->engine->predicts && segment->pool == &conn->route.via->pool && !conn->pmtud.parts
           && !(segment->flags & BTL_IB_FLAG_CONNECT) && !segment->busy && segment->outside == 0
           && !btl_ib_segment_is_bulk(segment) && btl_ib_route_is_own(conn)
           && btl_ib_route_leads(conn);
}

/* Transmits one simple segment as transmit_batch() would; most short messages are simple. `is_ack`:
 * of an ACK. */
static inline bool transmit_simple(btl_ib_conn_t *conn, btl_ib_segment_t *segment, bool is_ack)
{
    btl_ib_wire_header_t *header = (btl_ib_wire_header_t *) (void *) segment->wire;
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_transport_t *transport = conn->route.via->transport;
    btl_ib_tx_t *tx = &engine->datagrams.tx[0];
    int error = ENETDOWN;

    common_header(conn, is_ack, header);
    stamp(header, segment);
    tx->to = conn->route.to;
    tx->niov = 1;
    tx->size = segment->size;
    tx->iov[0] = (struct iovec){.iov_base = segment->wire, .iov_len = segment->size};
    tx->mem = segment->mem;
    tx->context = segment;
    tx->channel = is_ack ? 0 : segment->channel;
    tx->bulk = false;
    tx->flow = conn->flow.now;
    tx->spare = is_ack ? 0 : conn->route.queues->q[0].reserve;
    if (transport->ops->send(transport, tx, 1, &error) > 0) {
        engine->count.sent_datagrams++;
        conn->route.via->count.sent_datagrams++;
        btl_ib_pool_given(segment, tx->size > transport->attr.inline_size);
        header_left(conn, header);
    } else if (lose_untaken(conn, tx, segment, error)) {
        btl_ib_pool_given(segment, false);
    } else {
        return false;
    }
    btl_ib_identity_contacted(&conn->identity);
    return true;
}

static int transmit_batch(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count)
{
    btl_ib_datagrams_t *batch = &conn->engine->datagrams;
    btl_ib_wire_header_t common;
    int taken;

    common_header(conn, segments[0]->type == BTL_IB_TYPE_ACK, &common);
    /* Bulk leaves by its own lane only in latency mode, unless it is to be apart: without that mode
     * the common lane is faster, because it is polled anyway. It changes back when all bulk has
     * arrived, so that none overtakes what was sent before it. */
    if (count > 1 || btl_ib_segment_is_bulk(segments[0])) {
        const bool on_its_way = btl_ib_bulk_in_flight(conn);
        conn->transmit.bulk_lane =
            (conn->transmit.bulk_lane && on_its_way) || btl_ib_latency_wants_lane(conn);
        conn->transmit.ect =
            conn->ecn.marking && segments[0]->size + segments[0]->outside >= BTL_IB_ECT_LEAST;
    }
    make_datagrams(conn, segments, count, &common, batch);
    int done = send_datagrams(conn, batch, segments, &taken);
    for (int i = done; i < batch->count; i++) { /* copies made for what did not leave */
        if (batch->wire[i] != segments[i]) {
            btl_ib_pool_put(batch->wire[i]);
        }
    }
    if (conn->transmit.ect) {
        btl_ib_ecn_left(conn, batch->tx, done);
        batch->tx[0].ect = false; /* as it is there for transmit_simple() */
    }
    if (done > 1 && conn->cc.gso_segments > 1) {
        btl_ib_gso_left(conn, batch->tx, segments, done);
    }
    if (done > 0) {
        btl_ib_identity_contacted(&conn->identity);
    }
    if (taken > 0) {
        header_left(conn, &common);
    }
    return done;
}

/* ---- refragmenting: segments that are too large for the path leave in parts ---- */

/* True if a segment was made when the path MTU was larger. */
static bool is_too_large(const btl_ib_conn_t *conn, const btl_ib_segment_t *segment)
{
    return segment->size + segment->outside + conn->engine->protection.ops->trailer
               > conn->pmtud.datagram_max
           && !btl_ib_segment_is_mtu_probe(segment);
}

/* Makes the next part of a segment whose body has `total` bytes, `unit` of them in a part. Each
 * copy begins at another part: if only so many parts arrive as the peer has room for at a time,
 * they must not always be the same ones. Returns NULL without memory. */
static btl_ib_segment_t *make_part(btl_ib_conn_t *conn, const btl_ib_segment_t *segment,
                                   uint32_t total, uint32_t unit)
{
    const uint32_t turn = (segment->in_parts * UINT32_C(0x9E3779B1)) >> 16;
    const uint32_t offset = (segment->parted / unit + turn) % ((total + unit - 1) / unit) * unit;
    const uint32_t size = btl_ib_min_u32(unit, total - offset);
    const uint8_t *body = btl_ib_packet_body(segment);
    const struct iovec iov[3] = {
        {.iov_base = (void *) (uintptr_t) body,
         .iov_len = (size_t) (segment->wire + segment->size - body)},
        segment->iov[0],
        segment->iov[1],
    };
    btl_ib_wire_part_t part = {
        .offset = BTL_IB_LE16(offset),
        .total = BTL_IB_LE16(total),
        .type = segment->type,
        .tag = segment->tag,
    };

    btl_ib_segment_t *made =
        btl_ib_packet_make(conn, BTL_IB_TYPE_PART, (uint32_t) sizeof(part) + size);
    if (made == NULL) {
        return NULL;
    }
    uint8_t *to = btl_ib_packet_body(made);
    memcpy(to, &part, sizeof(part));
    btl_ib_packet_copy(iov, segment->outside > 0 ? 3 : 1, offset, size, to + sizeof(part));
    made->flags |= segment->flags & (BTL_IB_FLAG_ACK_NOW | BTL_IB_FLAG_RETRANSMISSION);
    made->channel = segment->channel;
    made->seq = segment->seq;
    return made;
}

/*
 * Sends one segment in parts. False if the transport or memory stopped it; the next call continues
 * from there. A new segment of which some parts have left counts as sent, because its sequence
 * cannot be withdrawn any more; the rest follows as if it had been lost.
 */
static bool send_parts(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    const uint32_t total =
        segment->size + segment->outside - (uint32_t) (btl_ib_packet_body(segment) - segment->wire);
    const uint32_t head = btl_ib_packet_overhead(conn) + (uint32_t) sizeof(btl_ib_wire_part_t);
    const uint32_t unit = (conn->pmtud.datagram_max - head) & ~(BTL_IB_PART_UNIT - 1);

    while (segment->parted < total) {
        btl_ib_segment_t *part = make_part(conn, segment, total, unit);
        bool left = part != NULL && transmit_batch(conn, &part, 1) == 1;
        if (part != NULL) {
            btl_ib_pool_put(part);
        } else {
            conn->engine->count.blocked_memory++;
        }
        if (!left) {
            return segment->copies == 0 && segment->parted > 0;
        }
        segment->parted += unit;
        conn->engine->count.sent_parts++;
    }
    segment->parted = 0;
    segment->in_parts++;
    return true;
}

int btl_ib_transmit_segments(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count)
{
    int done = 0;

    if (!conn->pmtud.parts) {
        return transmit_batch(conn, segments, count);
    }
    while (done < count) {
        int batch = 0;
        while (done + batch < count && !is_too_large(conn, segments[done + batch])) {
            batch++;
        }
        int left = batch > 0 ? transmit_batch(conn, segments + done, batch) : 0;
        done += left;
        if (left < batch || (batch == 0 && !send_parts(conn, segments[done]))) {
            break;
        }
        done += batch == 0;
    }
    return done;
}

bool btl_ib_transmit_one(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    return is_simple(conn, segment)
               ? transmit_simple(conn, segment, segment->type == BTL_IB_TYPE_ACK)
               : btl_ib_transmit_segments(conn, &segment, 1) == 1;
}
