/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments -> datagrams -> transport: headers are written and protected anew for each copy. */

#include "btl_ib_state.h"

#include <errno.h>
#include <string.h>

/* ---- making segments ---- */

static bool says_connect(const btl_ib_conn_t *conn)
{
    return !conn->peer_knows || conn->introduce;
}

static uint32_t header_bytes(const btl_ib_conn_t *conn)
{
    return (uint32_t) sizeof(btl_ib_wire_header_t)
           + (says_connect(conn) ? (uint32_t) sizeof(btl_ib_wire_connect_t) : 0);
}

uint32_t btl_ib_send_overhead(const btl_ib_conn_t *conn)
{
    return header_bytes(conn) + conn->engine->guard.ops->trailer;
}

uint32_t btl_ib_conn_segment_max(const btl_ib_conn_t *conn)
{
    return conn->datagram_max - btl_ib_send_overhead(conn);
}

static void write_connect(const btl_ib_conn_t *conn, uint8_t *to)
{
    btl_ib_wire_connect_t connect = {
        .name = BTL_IB_LE64(conn->engine->config.name),
        .connection = BTL_IB_LE32(conn->id),
        .epoch = BTL_IB_LE32(conn->epoch),
        .from_rail = (uint8_t) conn->rail->index,
        .to_rail = (uint8_t) conn->remote_rail,
        .floor = BTL_IB_LE32(conn->peer_floor),
    };
    memcpy(to, &connect, sizeof(connect));
}

btl_ib_segment_t *btl_ib_send_prepare(btl_ib_conn_t *conn, btl_ib_type_t type, uint32_t size)
{
    uint32_t header = header_bytes(conn);
    btl_ib_segment_t *segment =
        btl_ib_pool_get(&conn->rail->pool, btl_ib_send_overhead(conn) + size);

    if (segment == NULL) {
        return NULL;
    }
    segment->conn = conn;
    segment->type = (uint8_t) type;
    segment->size = header + size;
    segment->space = 0;
    if (says_connect(conn)) {
        segment->flags = BTL_IB_FLAG_CONNECT;
        write_connect(conn, segment->wire + sizeof(btl_ib_wire_header_t));
    }
    return segment;
}

uint8_t *btl_ib_send_body(const btl_ib_segment_t *segment)
{
    return segment->wire + sizeof(btl_ib_wire_header_t)
           + (segment->flags & BTL_IB_FLAG_CONNECT ? sizeof(btl_ib_wire_connect_t) : 0);
}

/* Everything in the header that is news of this moment, for a first or a later copy alike. */
static void stamp(btl_ib_conn_t *conn, btl_ib_segment_t *segment, uint32_t ack_space)
{
    const btl_ib_rx_space_t *rx = &conn->rx[ack_space];
    uint64_t now = conn->engine->now;
    btl_ib_wire_header_t header = {
        .version_type = (uint8_t) (BTL_IB_WIRE_VERSION << 4 | segment->type),
        .flags = segment->flags,
        .spaces = segment->space,
        .tag = segment->tag,
        .connection = BTL_IB_LE32(conn->peer_id),
        .token = BTL_IB_LE64(conn->tx_token),
        .seq = BTL_IB_LE32(segment->seq),
        .length = BTL_IB_LE16(segment->size + segment->outside - sizeof(header)),
        .stamp = BTL_IB_LE32((uint32_t) now),
    };

    if (segment->type != BTL_IB_TYPE_ACK && conn->bound) {
        header.flags |= BTL_IB_FLAG_ACK;
        header.spaces |= (uint8_t) (ack_space << 4);
        header.ack = BTL_IB_LE32(rx->window.next);
        if (conn->rail->queues.q[ack_space].type == BTL_IB_QUEUE_PER_PEER) {
            uint32_t credits = rx->credit.limit - rx->window.next;
            header.credits = BTL_IB_LE16(credits < UINT16_MAX ? credits : UINT16_MAX);
        }
    }
    if (conn->no_tag) {
        header.flags |= BTL_IB_FLAG_NO_TAG;
    }
    if (conn->echo_valid) {
        uint64_t hold = now - conn->echo_at;
        header.flags |= BTL_IB_FLAG_ECHO;
        header.echo = BTL_IB_LE32(conn->echo);
        header.hold = BTL_IB_LE16(hold < BTL_IB_HOLD_UNKNOWN ? hold : BTL_IB_HOLD_UNKNOWN);
        header.away = BTL_IB_LE16(conn->echo_away < UINT16_MAX ? conn->echo_away : UINT16_MAX);
    }
    memcpy(segment->wire, &header, sizeof(header));
}

/* ---- sending them ---- */

/* Datagrams about to be sent. */
typedef struct row {
    int count;
    btl_ib_tx_t tx[BTL_IB_BATCH];
    btl_ib_segment_t *wire[BTL_IB_BATCH]; /* what travels: the segment, or a copy that is sealed */
} row_t;

/* Before the first datagram of a life, and again if memory was short then. */
static bool have_key(btl_ib_conn_t *conn)
{
    btl_ib_guard_keys_t *keys = conn->keys;

    if (keys == NULL || keys->tx.begun) {
        return true;
    }
    btl_ib_guard_path_t path = {
        .sender_key = &conn->engine->config.key,
        .receiver_key = &keys->peer,
        .sender = conn->engine->config.name,
        .receiver = conn->name,
        .epoch = conn->epoch,
        .from_rail = conn->rail->index,
        .to_rail = conn->remote_rail,
    };
    return btl_ib_guard_begin(&conn->engine->guard, &keys->tx, &path);
}

/* What travels of a segment whose header is written; NULL if memory is short. What is encrypted goes into a
 * buffer of its own, because the segment is kept and may be sent again. */
static btl_ib_segment_t *protect(btl_ib_conn_t *conn, btl_ib_segment_t *segment)
{
    const btl_ib_guard_t *guard = &conn->engine->guard;
    btl_ib_segment_t *wire = segment;

    if (guard->ops->trailer == 0) {
        return segment;
    }
    if (!have_key(conn)) {
        return NULL;
    }
    if (guard->ops->apart) {
        wire = btl_ib_pool_get(&conn->rail->pool, segment->size + guard->ops->trailer);
        if (wire == NULL) {
            return NULL;
        }
    }
    if (!btl_ib_guard_seal(guard, conn->keys, segment->wire, wire->wire, segment->size)) {
        if (wire != segment) {
            btl_ib_pool_put(&conn->rail->pool, wire);
        }
        return NULL;
    }
    return wire;
}

static void fill_tx(const btl_ib_conn_t *conn, const btl_ib_segment_t *segment,
                    btl_ib_segment_t *wire, btl_ib_tx_t *tx)
{
    uint32_t size = segment->size + conn->engine->guard.ops->trailer;

    tx->to = conn->address;
    tx->niov = 1;
    tx->size = size + segment->outside;
    tx->iov[0] = (struct iovec){.iov_base = wire->wire, .iov_len = size};
    tx->mem = wire->mem;
    tx->context = wire;
    tx->channel = segment->type == BTL_IB_TYPE_ACK ? 0 : segment->space;
    if (segment->outside > 0) {
        tx->iov[tx->niov++] = segment->iov[0];
        if (segment->iov[1].iov_len > 0) {
            tx->iov[tx->niov++] = segment->iov[1];
        }
    }
}

/* Make as many datagrams as memory allows, at most `count`. */
static void make_row(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count,
                     uint32_t ack_space, row_t *row)
{
    row->count = 0;
    while (row->count < count) {
        btl_ib_segment_t *segment = segments[row->count];
        stamp(conn, segment, ack_space);
        btl_ib_segment_t *wire = protect(conn, segment);
        if (wire == NULL) {
            conn->engine->count.blocked_memory++;
            return;
        }
        fill_tx(conn, segment, wire, &row->tx[row->count]);
        row->wire[row->count++] = wire;
    }
}

/* The transport took a datagram (`taken`), or it is as if it had and the network lost it. */
static void left(btl_ib_conn_t *conn, const row_t *row, int i, btl_ib_segment_t *segment,
                 uint32_t ack_space, bool taken)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_segment_t *wire = row->wire[i];

    conn->contacted = true;
    engine->count.sent_datagrams++;
    engine->count.sent_connects += (segment->flags & BTL_IB_FLAG_CONNECT) != 0;
    wire->busy = taken && row->tx[i].size > conn->rail->transport->attr.inline_size;
    if (wire != segment) {
        btl_ib_pool_put(&conn->rail->pool, wire);
    }
    if (!taken) {
        return;
    }
    conn->no_tag = false;
    if (segment->type != BTL_IB_TYPE_ACK && conn->bound) {
        btl_ib_ack_left(conn, ack_space);
    }
}

/* The rest of a row did not leave: copies that were made for it are not used again. */
static void drop_rest(btl_ib_conn_t *conn, const row_t *row, btl_ib_segment_t *const *segments,
                      int from)
{
    for (int i = from; i < row->count; i++) {
        if (row->wire[i] != segments[i]) {
            btl_ib_pool_put(&conn->rail->pool, row->wire[i]);
        }
    }
}

/* Errors that say "not now"; all others are as good as a loss: what was sent is repeated, and if
 * that never helps the silence limit says so. */
static bool is_full(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM;
}

int btl_ib_send_segments(btl_ib_conn_t *conn, btl_ib_segment_t *const *segments, int count)
{
    btl_ib_transport_t *transport = conn->rail->transport;
    uint32_t ack_space = btl_ib_ack_pick(conn);
    row_t row;
    int done = 0;

    make_row(conn, segments, count, ack_space, &row);
    while (done < row.count) {
        int error = 0;
        int taken = transport->ops->send(transport, row.tx + done, row.count - done, &error);
        for (; taken > 0; taken--, done++) {
            left(conn, &row, done, segments[done], ack_space, true);
        }
        if (done == row.count) {
            break;
        }
        if (is_full(error)) {
            conn->engine->count.blocked_transport++;
            break;
        }
        BTL_IB_LOG(conn->engine, 10, "peer %u.%u: %s cannot send %u bytes: %s",
                   BTL_IB_NAME_ARGS(conn->name), transport->name, row.tx[done].size,
                   strerror(error));
        left(conn, &row, done, segments[done], ack_space, false);
        done++;
    }
    drop_rest(conn, &row, segments, done);
    return done;
}
