/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Acknowledgements and credit limits: what we owe the peer, and what it tells us. */

#include "btl_ib_state.h"

#include <string.h>

enum {
    ACK_EVERY = 16,   /* segments received: acknowledge at once, the peer's window may be small */
    IDLE_CALLS = 32,  /* progress calls that received nothing: nobody comes to carry it. After the
                       * second, as one might, costs a tenth of streaming: a receiver that is
                       * faster than its sender is idle between any two segments */
    ACK_SEGMENTS = 4, /* at most, in a row, to tell all ranges */
};

/* ---- what the peer tells us ---- */

static bool check_one(btl_ib_conn_t *conn, uint32_t space, uint32_t ack, uint32_t highest,
                      uint32_t limit)
{
    btl_ib_counters_t *count = &conn->engine->count;

    if (space >= conn->peer_queues->count) {
        count->dropped_channel++;
        return false;
    }
    const btl_ib_tx_window_t *window = &conn->tx[space].window;
    if (btl_ib_seq_before(window->next, ack) || btl_ib_seq_before(window->next, highest)) {
        count->dropped_ack++;
        return false;
    }
    const btl_ib_queue_t *queue = &conn->peer_queues->q[space];
    if (queue->type == BTL_IB_QUEUE_PER_PEER
        && btl_ib_seq_before(window->next + queue->num, limit)) {
        count->dropped_credit++;
        return false;
    }
    return true;
}

bool btl_ib_ack_check(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    if (view->type != BTL_IB_TYPE_ACK) {
        return !(view->flags & BTL_IB_FLAG_ACK)
               || check_one(conn, view->ack_space, view->ack, view->ack, view->limit);
    }
    btl_ib_ack_block_t block;
    uint32_t offset = 0;
    while (btl_ib_wire_next_block(view, &offset, &block)) {
        uint32_t from, to = block.ack;
        if (block.ranges > 0) { /* ascending: the last is the highest */
            btl_ib_wire_range(&block, block.ranges - 1, &from, &to);
        }
        if (!check_one(conn, block.space, block.ack, to, block.limit)) {
            return false;
        }
    }
    return true;
}

/* Sequences [from, to) of a space arrived. Returns how many of them are news. */
static uint32_t arrived(btl_ib_conn_t *conn, uint32_t space, uint32_t from, uint32_t to,
                        const btl_ib_view_t *view)
{
    btl_ib_tx_window_t *window = &conn->tx[space].window;
    bool echo_valid = view->flags & BTL_IB_FLAG_ECHO;
    uint32_t news = 0;

    if (btl_ib_seq_before(from, window->first)) {
        from = window->first;
    }
    for (uint32_t seq = from; btl_ib_seq_before(seq, to); seq++) {
        btl_ib_segment_t *segment = btl_ib_tx_window_at(window, seq);
        if (segment != NULL) {
            btl_ib_loss_arrived(conn, segment, echo_valid, view->echo);
            btl_ib_send_acked(conn, segment);
            news++;
        }
    }
    return news;
}

/* Take a limit in. Returns true if it gives more credit. */
static bool credited(btl_ib_conn_t *conn, uint32_t space, uint32_t limit)
{
    btl_ib_tx_space_t *tx = &conn->tx[space];

    if (conn->peer_queues->q[space].type != BTL_IB_QUEUE_PER_PEER
        || !btl_ib_seq_before(tx->limit, limit)) {
        return false;
    }
    tx->limit = limit;
    conn->blocked_since = 0;
    return true;
}

void btl_ib_ack_process(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    bool limited = conn->in_flight >= conn->cc.window;
    bool credit = false;
    uint32_t news = 0;

    if (view->type == BTL_IB_TYPE_ACK) {
        btl_ib_ack_block_t block;
        uint32_t offset = 0;
        while (btl_ib_wire_next_block(view, &offset, &block)) {
            uint32_t first = conn->tx[block.space].window.first;
            news += arrived(conn, block.space, first, block.ack, view);
            for (uint32_t i = 0; i < block.ranges; i++) {
                uint32_t from, to;
                btl_ib_wire_range(&block, i, &from, &to);
                news += arrived(conn, block.space, from, to, view);
            }
            credit |= credited(conn, block.space, block.limit);
        }
    } else if (view->flags & BTL_IB_FLAG_ACK) {
        uint32_t first = conn->tx[view->ack_space].window.first;
        news = arrived(conn, view->ack_space, first, view->ack, view);
        credit = credited(conn, view->ack_space, view->limit);
    }
    if (news > 0 || credit) {
        conn->probes = 0;
        btl_ib_conn_ready(conn);
    }
    if (news > 0) {
        conn->peer_no_tag = false;
        btl_ib_loss_acked(conn, news, limited);
        btl_ib_loss_detect(conn);
    }
}

/* ---- what we owe the peer ---- */

void btl_ib_ack_owe(btl_ib_conn_t *conn, uint32_t space, bool now)
{
    btl_ib_engine_t *engine = conn->engine;

    conn->ack_due |= 1u << space;
    conn->ack_space = space;
    if (++conn->ack_count >= ACK_EVERY) {
        now = true;
    }
    if (btl_ib_list_empty(&conn->acks)) {
        conn->ack_at = engine->now + engine->config.ack_delay;
        btl_ib_list_push_tail(&engine->acks, &conn->acks);
    }
    if (now && !conn->ack_now) {
        conn->ack_now = true;
        btl_ib_list_remove(&conn->acks);
        btl_ib_list_push_head(&engine->acks, &conn->acks);
    }
}

/* `spaces` were acknowledged: what is still due? */
static void settled(btl_ib_conn_t *conn, uint32_t spaces)
{
    conn->ack_due &= ~spaces;
    if (conn->ack_due == 0) {
        conn->ack_count = 0;
        conn->ack_now = false;
        btl_ib_list_remove(&conn->acks);
    }
}

uint32_t btl_ib_ack_pick(btl_ib_conn_t *conn)
{
    if (conn->ack_due != 0 && !(conn->ack_due >> conn->ack_space & 1)) {
        conn->ack_space = (uint32_t) __builtin_ctz(conn->ack_due);
    }
    return conn->ack_space;
}

void btl_ib_ack_left(btl_ib_conn_t *conn, uint32_t space)
{
    btl_ib_rx_space_t *rx = &conn->rx[space];

    if (conn->rail->queues.q[space].type == BTL_IB_QUEUE_PER_PEER) {
        uint32_t credits = rx->credit.limit - rx->window.next;
        rx->credit.told = rx->window.next + (credits < UINT16_MAX ? credits : UINT16_MAX);
    }
    if (rx->window.above == 0) { /* else the ranges are still to be told */
        settled(conn, 1u << space);
    }
}

/* Write the block of one space, with as many ranges as fit, from *from on. Returns its size, or 0
 * if not even its head fits; *from is where to go on, or window.top if all was told. */
static uint32_t write_block(const btl_ib_conn_t *conn, uint32_t space, uint32_t *from, uint8_t *to,
                            uint32_t room)
{
    const btl_ib_rx_space_t *rx = &conn->rx[space];
    btl_ib_wire_ack_t block = {
        .space = (uint8_t) space,
        .ack = BTL_IB_LE32(rx->window.next),
        .limit = BTL_IB_LE32(rx->credit.limit),
    };
    uint32_t size = sizeof(block);
    uint32_t end;

    if (room < size + (rx->window.above > 0 ? sizeof(btl_ib_wire_range_t) : 0)) {
        return 0;
    }
    while (room - size >= sizeof(btl_ib_wire_range_t) && block.ranges < UINT8_MAX
           && btl_ib_rx_window_range(&rx->window, from, &end)) {
        btl_ib_wire_range_t range = {
            .offset = BTL_IB_LE16(*from - rx->window.next),
            .count = BTL_IB_LE16(end - *from),
        };
        memcpy(to + size, &range, sizeof(range));
        size += (uint32_t) sizeof(range);
        block.ranges++;
        *from = end;
    }
    memcpy(to, &block, sizeof(block));
    return size;
}

/* Where an acknowledgement stands that takes more than one segment. */
typedef struct progress {
    uint32_t spaces; /* still to be told */
    uint32_t from;   /* ranges of the lowest of them already told up to here */
    bool begun;
} progress_t;

/* Fill one ACK segment. */
static void fill(const btl_ib_conn_t *conn, btl_ib_segment_t *segment, uint32_t room,
                 progress_t *at)
{
    uint8_t *body = btl_ib_send_body(segment);
    uint32_t used = 0;

    while (at->spaces != 0) {
        uint32_t space = (uint32_t) __builtin_ctz(at->spaces);
        const btl_ib_rx_window_t *window = &conn->rx[space].window;
        if (!at->begun) {
            at->from = window->next;
            at->begun = true;
        }
        uint32_t size = write_block(conn, space, &at->from, body + used, room - used);
        used += size;
        if (size == 0 || at->from != window->top) {
            break;
        }
        at->spaces &= at->spaces - 1;
        at->begun = false;
    }
    segment->size = segment->size - room + used;
}

/* P limits that the peer does not know yet go along with whatever else is due. */
static uint32_t spaces_to_tell(const btl_ib_conn_t *conn)
{
    uint32_t spaces = conn->ack_due;

    for (uint32_t i = 0; i < conn->rail->queues.count; i++) {
        if (conn->rail->queues.q[i].type == BTL_IB_QUEUE_PER_PEER
            && conn->rx[i].credit.limit != conn->rx[i].credit.told) {
            spaces |= 1u << i;
        }
    }
    return spaces;
}

static void told(btl_ib_conn_t *conn, uint32_t spaces)
{
    for (uint32_t rest = spaces; rest != 0; rest &= rest - 1) {
        btl_ib_rx_space_t *rx = &conn->rx[__builtin_ctz(rest)];
        rx->credit.told = rx->credit.limit;
    }
    settled(conn, spaces);
}

/* Send one ACK segment. False if memory or the transport did not allow it. */
static bool send_one(btl_ib_conn_t *conn, uint8_t flags, uint32_t room, progress_t *at)
{
    progress_t before = *at;
    btl_ib_segment_t *segment = btl_ib_send_prepare(conn, BTL_IB_TYPE_ACK, room);

    if (segment == NULL) {
        conn->engine->count.blocked_memory++;
        return false;
    }
    segment->flags |= flags;
    fill(conn, segment, room, at);
    bool taken = btl_ib_send_segments(conn, &segment, 1) == 1;
    btl_ib_pool_put(&conn->rail->pool, segment);
    if (taken) {
        conn->engine->count.sent_acks++;
        told(conn, before.spaces & ~at->spaces);
    } else {
        *at = before;
    }
    return taken;
}

/* What is still due after a row of segments waits for the next: others want to send as well. */
static void put_off(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;

    if (conn->ack_due != 0 && !btl_ib_list_empty(&conn->acks)) {
        conn->ack_now = false;
        conn->ack_at = engine->now + engine->config.ack_delay;
        btl_ib_list_remove(&conn->acks);
        btl_ib_list_push_tail(&engine->acks, &conn->acks);
    }
}

bool btl_ib_ack_send(btl_ib_conn_t *conn, uint8_t flags)
{
    uint32_t headers = (uint32_t) (sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t))
                       + conn->engine->guard.ops->trailer;
    uint32_t room = conn->peer_queues->q[0].size;
    progress_t at = {.spaces = spaces_to_tell(conn)};
    int sent = 0;

    /* An ACK goes on the command channel, from a small buffer. */
    room = room < BTL_IB_SEGMENT_SMALL ? room : BTL_IB_SEGMENT_SMALL;
    room = (room < conn->datagram_max ? room : conn->datagram_max) - headers;
    while (sent < ACK_SEGMENTS && (sent == 0 || at.spaces != 0)
           && send_one(conn, flags, room, &at)) {
        sent++;
    }
    if (sent == 0) {
        return false;
    }
    if (at.begun && at.from != conn->rx[__builtin_ctz(at.spaces)].window.next) {
        told(conn, at.spaces & -at.spaces); /* more gaps than is useful to know at once */
    }
    put_off(conn);
    return true;
}

static bool is_due(const btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;

    return conn->ack_now || engine->now >= conn->ack_at || engine->idle_calls >= IDLE_CALLS;
}

void btl_ib_ack_turn(btl_ib_engine_t *engine)
{
    /* What is put off goes behind this one, to wait for the next turn. */
    const btl_ib_list_t *last = btl_ib_list_last(&engine->acks);
    btl_ib_list_t *item = btl_ib_list_first(&engine->acks);
    uint32_t full = 0; /* rails that take nothing now; the others must not wait for them */

    while (item != NULL) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, acks);
        uint32_t rail = 1u << conn->rail->index;

        item = item == last ? NULL : btl_ib_list_next(&engine->acks, item);
        if (!is_due(conn)) {
            return;
        }
        if (!(full & rail) && !btl_ib_ack_send(conn, 0)) {
            full |= rail;
        }
    }
}
