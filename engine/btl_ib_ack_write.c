/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_ack_write.h"

#include "btl_ib_state.h"
#include "btl_ib_list.h"
#include "btl_ib_packet.h"

#include <string.h>

/* ---- what is due to the peer ---- */

enum {
    /* Segments received, or two GSO bursts: acknowledge in this turn, the peer's window may be
     * small. Many that come at once are one turn, hence one acknowledgement. */
    ACK_EVERY = 16,
    /* The ACK delay is divided by it where no message is expected to carry the ACK. */
    SOON_SHARE = 3,
    BLOCK_LEAST = sizeof(btl_ib_wire_ack_t) + sizeof(btl_ib_wire_range_t), /* bytes */
    ECN_ROOM_LEAST = 5 * BLOCK_LEAST, /* where what was received is more than a number or two */
};

/* True if so many segments are due that they are acknowledged in this turn; the last one is of
 * `type`, in `channel`. */
static inline bool ack_is_many(const btl_ib_conn_t *conn, uint32_t channel, uint8_t type)
{
    /* A message is likely to be answered at once if the one before was. Then the answer carries its
     * acknowledgement. One of its own would only delay the answer: a datagram costs as much as a
     * tenth of a message of 64 KiB. */
    const bool answered =
        !conn->ack.unreplied
        && (type == BTL_IB_TYPE_CHUNK || type == BTL_IB_TYPE_DATA || type == BTL_IB_TYPE_BUNDLE);
    const uint32_t count = conn->ack.count;

    if (count >= ACK_EVERY /* the fewest */
        && count >= (answered ? BTL_IB_ACK_EVERY_ANSWERED
                              : btl_ib_max_u32(ACK_EVERY, btl_ib_cc_ack_every(&conn->cc)))) {
        return true;
    }
    return conn->rail->queues.q[channel].type == BTL_IB_QUEUE_PER_PEER
           && btl_ib_credit_due(&conn->rx[channel].credit, answered);
}

/* Schedules the acknowledgement: after the whole delay if the next message to the peer is expected
 * to carry it, as one of its own costs both processes as much as a message of some KiB. Else soon,
 * as the peer may wait for it. */
static void ack_schedule(btl_ib_conn_t *conn)
{
    btl_ib_engine_t *engine = conn->engine;
    const uint32_t delay = engine->config.ack_delay;
    const bool answered = !conn->ack.unreplied;

    conn->ack.at = engine->clock.now + (answered ? delay : delay / SOON_SHARE);
    btl_ib_list_push_tail(answered ? &engine->acks_answered : &engine->acks, &conn->ack.link);
}

const btl_ib_conn_t *btl_ib_ack_tx_first(const btl_ib_engine_t *engine)
{
    const btl_ib_conn_t *soon = BTL_IB_LIST_FIRST(btl_ib_conn_t, &engine->acks, ack.link);
    const btl_ib_conn_t *later = BTL_IB_LIST_FIRST(btl_ib_conn_t, &engine->acks_answered, ack.link);

    if (soon == NULL || later == NULL) {
        return soon != NULL ? soon : later;
    }
    return soon->ack.at_once || soon->ack.at <= later->ack.at ? soon : later;
}

/* Sets an acknowledgement of a channel pending, whose new segments ack.count has already. */
static inline void ack_set_pending(btl_ib_conn_t *conn, uint32_t channel, bool at_once)
{
    btl_ib_engine_t *engine = conn->engine;

    conn->ack.due |= 1u << channel;
    conn->ack.channel = channel;
    conn->rx[channel].ack.unreported = UINT32_MAX; /* all ranges may be new to it */
    if (btl_ib_list_empty(&conn->ack.link)) {
        ack_schedule(conn);
    }
    if (at_once && !conn->ack.at_once) {
        conn->ack.at_once = true;
        btl_ib_list_remove(&conn->ack.link);
        btl_ib_list_push_head(&engine->acks, &conn->ack.link);
    }
}

void btl_ib_ack_tx_set_pending(btl_ib_conn_t *conn, uint32_t channel, bool at_once)
{
    conn->ack.count++;
    ack_set_pending(conn, channel, at_once);
}

void btl_ib_ack_tx_accepted(btl_ib_conn_t *conn, uint32_t channel, uint8_t type, uint32_t count,
                            bool at_once)
{
    conn->ack.count += count;
    ack_set_pending(conn, channel, at_once || ack_is_many(conn, channel, type));
}

/* An ACK segment being written. */
typedef struct writer {
    uint8_t *body;
    uint32_t used;
    uint32_t room;
} writer_t;

/* The ranges of one block, ascending. Each may begin inside a run of received sequences, and ends
 * where the run does. */
typedef struct ranges {
    uint32_t count;
    uint32_t most;

    struct {
        uint32_t from; /* both from the oldest missing sequence on */
        uint32_t end;
    } range[BTL_IB_SEGMENT_SMALL / sizeof(btl_ib_wire_range_t)];
} ranges_t;

/* Puts a range in its place, if none of the same run is there. False if there is no room. */
static bool put_range(ranges_t *ranges, uint32_t from, uint32_t end)
{
    uint32_t at = ranges->count;

    while (at > 0 && ranges->range[at - 1].end > end) {
        at--;
    }
    if (at > 0 && ranges->range[at - 1].end == end) {
        if (from < ranges->range[at - 1].from) {
            ranges->range[at - 1].from = from;
        }
        return true;
    }
    if (ranges->count == ranges->most) {
        return false;
    }
    memmove(&ranges->range[at + 1], &ranges->range[at],
            (ranges->count - at) * sizeof(ranges->range[0]));
    ranges->range[at].from = from;
    ranges->range[at].end = end;
    ranges->count++;
    return true;
}

/* Puts all ranges of a window. False if they do not fit. */
static bool put_all(ranges_t *ranges, const btl_ib_rx_window_t *window)
{
    uint32_t from = window->next, end;

    while (btl_ib_rx_window_range(window, &from, &end)) {
        if (!put_range(ranges, from - window->next, end - window->next)) {
            return false;
        }
        from = end;
    }
    return true;
}

/* Puts the ranges that hold the newest arrivals, using at most half of the room. */
static void put_newest(ranges_t *ranges, const btl_ib_conn_t *conn, uint32_t channel)
{
    const btl_ib_rx_window_t *window = &conn->rx[channel].window;
    uint32_t seq = conn->rx[channel].ack.run, end;

    for (uint32_t i = 0; i <= BTL_IB_NEWEST_KEPT && ranges->count < ranges->most / 2; i++) {
        if (seq - window->next < window->top - window->next
            && btl_ib_rx_window_range(window, &seq, &end)) {
            (void) put_range(ranges, seq - window->next, end - window->next);
        }
        uint32_t kept = (conn->ack.newest_next - i - 1) % BTL_IB_NEWEST_KEPT;
        seq = conn->ack.newest_channel[kept] == channel ? conn->ack.newest_seq[kept] : window->top;
    }
}

/* Puts as many other ranges as fit. They take turns, beginning where the last ACK ended. */
static void put_in_turn(ranges_t *ranges, btl_ib_rx_channel_t *rx)
{
    const btl_ib_rx_window_t *window = &rx->window;
    uint32_t from = rx->ack.next_range, end;
    uint32_t unreported = btl_ib_min_u32(rx->ack.unreported, window->above);

    if (from - window->next >= window->top - window->next) {
        from = window->next;
    }
    while (btl_ib_rx_window_range(window, &from, &end)
           && put_range(ranges, from - window->next, end - window->next)) {
        unreported -= btl_ib_min_u32(end - from, unreported);
        from = end;
    }
    rx->ack.filled_range = from;
    rx->ack.filled_unreported = unreported;
}

static void write_block(writer_t *w, const btl_ib_rx_channel_t *rx, uint32_t channel,
                        const ranges_t *ranges)
{
    btl_ib_wire_ack_t block = {
        .channel = (uint8_t) channel,
        .ranges = (uint8_t) ranges->count,
        .duplicates = BTL_IB_LE16(rx->ack.duplicates),
        .ack = BTL_IB_LE32(rx->window.next),
        .limit = BTL_IB_LE32(rx->credit.limit),
    };

    memcpy(w->body + w->used, &block, sizeof(block));
    w->used += (uint32_t) sizeof(block);
    for (uint32_t i = 0; i < ranges->count; i++) {
        btl_ib_wire_range_t range = {
            .offset = BTL_IB_LE16(ranges->range[i].from),
            .count = BTL_IB_LE16(ranges->range[i].end - ranges->range[i].from),
        };
        memcpy(w->body + w->used, &range, sizeof(range));
        w->used += (uint32_t) sizeof(range);
    }
}

/* Writes the block of one channel. If not all ranges fit, those with the newest arrivals always go:
 * a gap that is not acknowledged longer than what was sent after it counts as lost. Of the others
 * as many go as fit, the next ones in the next ACK, until all were told. False if there is no room;
 * *whole: nothing is left. */
static bool write_channel(btl_ib_conn_t *conn, uint32_t channel, writer_t *w, bool *whole)
{
    btl_ib_rx_channel_t *rx = &conn->rx[channel];
    uint32_t need = (uint32_t) (sizeof(btl_ib_wire_ack_t)
                                + (rx->window.above > 0 ? sizeof(btl_ib_wire_range_t) : 0));
    ranges_t ranges;

    if (w->room - w->used < need) {
        return false;
    }
    btl_ib_credit_top_up(&rx->credit);
    ranges.count = 0;
    ranges.most =
        (uint32_t) ((w->room - w->used - sizeof(btl_ib_wire_ack_t)) / sizeof(btl_ib_wire_range_t));
    *whole = put_all(&ranges, &rx->window);
    if (*whole) {
        rx->ack.filled_range = rx->ack.next_range;
        rx->ack.filled_unreported = 0;
    } else {
        ranges.count = 0;
        put_newest(&ranges, conn, channel);
        put_in_turn(&ranges, rx);
        *whole = rx->ack.filled_unreported == 0;
    }
    write_block(w, rx, channel, &ranges);
    return true;
}

bool btl_ib_ack_tx_has_rnr(const btl_ib_conn_t *conn)
{
    return conn->rnr.runs != NULL && conn->rnr.runs->count > 0;
}

/* Writes the runs that got RNR and are still missing. If they do not all fit it begins with the run
 * of the last RNR. */
static void write_rnr(const btl_ib_conn_t *conn, writer_t *w)
{
    const btl_ib_rnr_runs_t *runs = conn->rnr.runs;
    const uint32_t first = runs == NULL ? 0 : btl_ib_rnr_runs_first(runs, w->room - w->used);
    uint32_t i = first;

    while (runs != NULL && i < runs->count && w->room - w->used >= BLOCK_LEAST) {
        const uint32_t channel = runs->run[i].channel;
        btl_ib_rx_channel_t rx = {.window.next = conn->rx[channel].window.next};
        ranges_t ranges = {.most = (uint32_t) ((w->room - w->used - sizeof(btl_ib_wire_ack_t))
                                               / sizeof(btl_ib_wire_range_t))};
        rx.ack.duplicates = runs->more || first > 0; /* 1: there are more runs (btl_ib_wire.h) */
        for (; i < runs->count && runs->run[i].channel == channel; i++) {
            if (!put_range(&ranges, runs->run[i].from - rx.window.next,
                           runs->run[i].end - rx.window.next)) {
                rx.ack.duplicates = 1;
            }
        }
        write_block(w, &rx, channel | BTL_IB_CHANNEL_RNR, &ranges);
    }
}

static void write_ecn(const btl_ib_ecn_t *ecn, writer_t *w)
{
    const btl_ib_wire_ecn_t block = {
        .channel = BTL_IB_CHANNEL_ECN,
        .ect0 = BTL_IB_LE32(ecn->ect),
        .ce = BTL_IB_LE32(ecn->ce),
    };

    memcpy(w->body + w->used, &block, sizeof(block));
    w->used += (uint32_t) sizeof(block);
}

/* True if an ACK segment holds a block of what got RNR beside another block. */
bool btl_ib_ack_tx_has_room_for_both(uint32_t room)
{
    return room >= 2 * BLOCK_LEAST;
}

btl_ib_ack_filled_t btl_ib_ack_tx_fill(btl_ib_conn_t *conn, btl_ib_segment_t *segment,
                                       uint32_t room, uint32_t channels)
{
    /* Some of its room is kept for what got RNR, and for counts of ECN. */
    const uint32_t kept =
        btl_ib_ack_tx_has_rnr(conn) && btl_ib_ack_tx_has_room_for_both(room) ? BLOCK_LEAST : 0;
    const bool ecn = conn->ecn.agreed && room >= ECN_ROOM_LEAST;
    const uint32_t of_ecn = ecn ? (uint32_t) sizeof(btl_ib_wire_ecn_t) : 0;
    writer_t w = {.body = btl_ib_packet_body(segment), .room = room - kept - of_ecn};
    btl_ib_ack_filled_t filled = {0};
    bool whole = true;

    for (; channels != 0 && whole; channels &= channels - 1) {
        uint32_t channel = (uint32_t) __builtin_ctz(channels);
        if (!write_channel(conn, channel, &w, &whole)) {
            break;
        }
        filled.channels |= 1u << channel;
        filled.told |= whole ? 1u << channel : 0;
    }
    filled.all = channels == 0 || !whole;
    if (ecn) {
        write_ecn(&conn->ecn, &w);
    }
    w.room = room;
    write_rnr(conn, &w);
    segment->size -= room - w.used;
    return filled;
}

void btl_ib_ack_tx_told(btl_ib_conn_t *conn, const btl_ib_ack_filled_t *filled)
{
    for (uint32_t rest = filled->channels; rest != 0; rest &= rest - 1) {
        const uint32_t channel = (uint32_t) __builtin_ctz(rest);
        btl_ib_rx_channel_t *rx = &conn->rx[channel];
        rx->ack.next_range = rx->ack.filled_range;
        rx->ack.unreported = rx->ack.filled_unreported;
        if (filled->told >> channel & 1) {
            btl_ib_credit_told(&rx->credit, rx->credit.limit);
            rx->ack.duplicates_reported = rx->ack.duplicates;
        }
    }
    btl_ib_ack_tx_settled(&conn->ack, filled->told);
}

void btl_ib_ack_tx_put_off(btl_ib_conn_t *conn)
{
    if (conn->ack.due != 0 && !btl_ib_list_empty(&conn->ack.link)) {
        conn->ack.at_once = false;
        btl_ib_list_remove(&conn->ack.link);
        ack_schedule(conn);
    }
}

static void keep_newest(btl_ib_conn_t *conn, uint8_t channel, uint32_t seq)
{
    uint32_t at = conn->ack.newest_next++ % BTL_IB_NEWEST_KEPT;

    conn->ack.newest_seq[at] = seq;
    conn->ack.newest_channel[at] = channel;
}

/* Keeps the sequences whose ranges ACKs must tell first: the highest range, a range in which a gap
 * was filled, and the range that was the highest before, whose last segments may not have been
 * told. */
static void keep_newest_range(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_rx_channel_t *rx = &conn->rx[view->channel];

    if (btl_ib_seq_before(view->seq, rx->window.top)) {
        keep_newest(conn, view->channel, view->seq);
    } else if (view->seq != rx->window.top) {
        keep_newest(conn, view->channel, rx->ack.run);
        rx->ack.run = view->seq;
    }
}

/* True if the sender retransmitted a segment of which a copy was accepted before; false if the
 * network duplicated it, which is not counted. */
static bool was_retransmitted(const btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    uint32_t kept = conn->ack.repaired_next < BTL_IB_REPAIRED_KEPT ? conn->ack.repaired_next
                                                                   : BTL_IB_REPAIRED_KEPT;

    if (view->flags & BTL_IB_FLAG_RETRANSMISSION) {
        return true;
    }
    for (uint32_t i = 0; i < kept; i++) {
        if (conn->ack.repaired_seq[i] == view->seq
            && conn->ack.repaired_channel[i] == view->channel) {
            return true;
        }
    }
    return false;
}

void btl_ib_ack_tx_begin(btl_ib_conn_t *conn)
{
    const uint32_t first = conn->engine->config.first_seq;

    for (uint32_t i = 0; i < conn->rail->queues.count; i++) {
        btl_ib_rx_channel_t *rx = &conn->rx[i];
        memset(&rx->ack, 0, sizeof(rx->ack));
        rx->ack.run = first;
        rx->ack.next_range = first;
    }
    conn->ack.unreplied = true;
}

void btl_ib_ack_tx_accepting(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    keep_newest_range(conn, view);
    if (view->flags & BTL_IB_FLAG_RETRANSMISSION) {
        /* If its first copy still comes this retransmission was unnecessary. */
        uint32_t at = conn->ack.repaired_next++ % BTL_IB_REPAIRED_KEPT;
        conn->ack.repaired_seq[at] = view->seq;
        conn->ack.repaired_channel[at] = view->channel;
    }
}

void btl_ib_ack_tx_duplicate(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    /* Of a copy in parts only the first part counts. */
    if ((view->type != BTL_IB_TYPE_PART || view->part.offset == 0)
        && was_retransmitted(conn, view)) {
        conn->rx[view->channel].ack.duplicates++;
    }
    btl_ib_ack_tx_set_pending(conn, view->channel, true); /* perhaps our acknowledgement was lost */
}
