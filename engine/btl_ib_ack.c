/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_ack.h"

#include "btl_ib_reasm.h"
#include "btl_ib_list.h"
#include "btl_ib_loss.h"
#include "btl_ib_packet.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_engine_internal.h"

#include <assert.h>
#include <string.h>

/* ---- what is due to the peer ---- */

enum {
    /* Segments received, or two GSO bursts: acknowledge in this turn, the peer's window may be
     * small. Many that come at once are one turn, hence one acknowledgement. */
    ACK_EVERY = 16,
    SOON_SHARE = 3, /* of the ACK delay, where none is expected */
    BLOCK_LEAST = sizeof(btl_ib_wire_ack_t) + sizeof(btl_ib_wire_range_t), /* bytes */
};

/* So many segments that they are to be acknowledged in this turn? */
static inline bool is_many(const btl_ib_conn_t *conn, uint32_t channel, uint8_t type)
{
    /* Is a message likely to be answered at once, as the one before was? Then the answer carries
     * its acknowledgement. One of its own would only delay the answer: a datagram costs as much as
     * a tenth of a message of 64 KiB. */
    const bool answered =
        !conn->ack.unreplied
        && (type == BTL_IB_TYPE_CHUNK || type == BTL_IB_TYPE_DATA || type == BTL_IB_TYPE_BUNDLE);
    const uint32_t count = conn->ack.count + 1;

    if (count >= ACK_EVERY /* the fewest */
        && count >= (answered ? BTL_IB_ACK_EVERY_ANSWERED
                              : btl_ib_max_u32(ACK_EVERY, btl_ib_cc_ack_every(&conn->cc)))) {
        return true;
    }
    return conn->rail->queues.q[channel].type == BTL_IB_QUEUE_PER_PEER
           && btl_ib_credit_due(&conn->rx[channel].credit, btl_ib_cc_ack_every(&conn->cc),
                                answered);
}

/* The acknowledgement is due after the whole delay if the next message to the peer is expected to
 * carry it: one of its own costs both processes as much as a message of some KiB. Else soon, as the
 * peer may wait for it. */
static void schedule(btl_ib_conn_t *conn)
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
    return soon->ack.now || soon->ack.at <= later->ack.at ? soon : later;
}

static inline void owe(btl_ib_conn_t *conn, uint32_t channel, bool now)
{
    btl_ib_engine_t *engine = conn->engine;

    conn->ack.due |= 1u << channel;
    conn->ack.channel = channel;
    conn->rx[channel].ack.untold = UINT32_MAX; /* all ranges may be new to it */
    conn->ack.count++;
    if (btl_ib_list_empty(&conn->ack.link)) {
        schedule(conn);
    }
    if (now && !conn->ack.now) {
        conn->ack.now = true;
        btl_ib_list_remove(&conn->ack.link);
        btl_ib_list_push_head(&engine->acks, &conn->ack.link);
    }
}

void btl_ib_ack_tx_owe(btl_ib_conn_t *conn, uint32_t channel, bool now)
{
    owe(conn, channel, now);
}

/* It was marked, and its burst with it. It is to be acknowledged in this turn if `now`, or if so
 * much is due. */
static void ack_tx_accepted(btl_ib_conn_t *conn, const btl_ib_view_t *view, bool now)
{
    conn->ack.count += view->more.count;
    btl_ib_ack_tx_owe(conn, view->channel, now || is_many(conn, view->channel, view->type));
}

/* `channels` were acknowledged. If nothing else is due the connection leaves the engine's list. */
static void settled(btl_ib_conn_t *conn, uint32_t channels)
{
    conn->ack.due &= ~channels;
    if (conn->ack.due == 0) {
        conn->ack.count = 0;
        conn->ack.now = false;
        btl_ib_list_remove(&conn->ack.link);
    }
}

uint32_t btl_ib_ack_tx_pick(btl_ib_conn_t *conn)
{
    if (conn->ack.due != 0 && !(conn->ack.due >> conn->ack.channel & 1)) {
        conn->ack.channel = (uint32_t) __builtin_ctz(conn->ack.due);
    }
    btl_ib_credit_top_up(&conn->rx[conn->ack.channel].credit);
    return conn->ack.channel;
}

void btl_ib_ack_tx_left(btl_ib_conn_t *conn, uint32_t channel, uint32_t credits)
{
    btl_ib_rx_channel_t *rx = &conn->rx[channel];
    const btl_ib_engine_t *engine = conn->engine;

    if (engine->clock.now - conn->ack.delivered_at <= engine->config.ack_delay) {
        conn->ack.unreplied = false;
    }

    btl_ib_credit_told(&rx->credit, rx->window.next + credits); /* unused for S queues */
    /* Ranges and counts of duplicates travel in ACKs only. */
    if (rx->window.above == 0 && rx->ack.duplicates == rx->ack.duplicates_told) {
        settled(conn, 1u << channel);
    }
}

/* An ACK segment being written. */
typedef struct writer {
    uint8_t *body;
    uint32_t used;
    uint32_t room;
} writer_t;

/* The ranges of one block, ascending. Each is the end of a run of received sequences. */
typedef struct ranges {
    uint32_t count;
    uint32_t most;

    struct {
        uint32_t from; /* both from the oldest missing sequence on */
        uint32_t end;
    } range[BTL_IB_SEGMENT_SMALL / sizeof(btl_ib_wire_range_t)];
} ranges_t;

/* Put a range in its place, if none of the same run is there. False if there is no room. */
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

/* Put all ranges of a window. False if they do not fit. */
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

/* Put the ranges that hold the newest arrivals, using at most half of the room. */
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

/* Put as many other ranges as fit. They take turns: begin where the last ACK ended. */
static void put_in_turn(ranges_t *ranges, btl_ib_rx_channel_t *rx)
{
    const btl_ib_rx_window_t *window = &rx->window;
    uint32_t from = rx->ack.next_range, end;
    uint32_t untold = btl_ib_min_u32(rx->ack.untold, window->above);

    if (from - window->next >= window->top - window->next) {
        from = window->next;
    }
    while (btl_ib_rx_window_range(window, &from, &end)
           && put_range(ranges, from - window->next, end - window->next)) {
        untold -= btl_ib_min_u32(end - from, untold);
        from = end;
    }
    rx->ack.filled_range = from;
    rx->ack.filled_untold = untold;
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

/* Write the block of one channel. If not all ranges fit, those with the newest arrivals always
 * go: a gap that is not acknowledged longer than what was sent after it counts as lost. Of the
 * others as many go as fit, the next ones in the next ACK, until all were told. False if there
 * is no room; *whole: nothing is left. */
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
        rx->ack.filled_untold = 0;
    } else {
        ranges.count = 0;
        put_newest(&ranges, conn, channel);
        put_in_turn(&ranges, rx);
        *whole = rx->ack.filled_untold == 0;
    }
    write_block(w, rx, channel, &ranges);
    return true;
}

bool btl_ib_ack_tx_has_rnr(const btl_ib_conn_t *conn)
{
    return conn->rnr.runs != NULL && conn->rnr.runs->count > 0;
}

/* Write the runs that got RNR and are still missing. If they do not all fit begin with the run
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
        rx.ack.duplicates = runs->more || first > 0;
        for (; i < runs->count && runs->run[i].channel == channel; i++) {
            if (!put_range(&ranges, runs->run[i].from - rx.window.next,
                           runs->run[i].end - rx.window.next)) {
                rx.ack.duplicates = 1;
            }
        }
        write_block(w, &rx, channel | BTL_IB_CHANNEL_RNR, &ranges);
    }
}

/* Does an ACK segment hold a block of what got RNR beside another? */
bool btl_ib_ack_tx_has_room_for_both(uint32_t room)
{
    return room >= 2 * BLOCK_LEAST;
}

btl_ib_ack_filled_t btl_ib_ack_tx_fill(btl_ib_conn_t *conn, btl_ib_segment_t *segment,
                                       uint32_t room, uint32_t channels)
{
    /* Some of its room is kept for what got RNR. */
    const uint32_t kept =
        btl_ib_ack_tx_has_rnr(conn) && btl_ib_ack_tx_has_room_for_both(room) ? BLOCK_LEAST : 0;
    writer_t w = {.body = btl_ib_packet_body(segment), .room = room - kept};
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
    w.room = room;
    write_rnr(conn, &w);
    btl_ib_packet_trim(segment, room - w.used);
    return filled;
}

uint32_t btl_ib_ack_tx_channels_to_tell(btl_ib_conn_t *conn)
{
    uint32_t channels = conn->ack.due;

    for (uint32_t i = 0; i < conn->rail->queues.count; i++) {
        btl_ib_credit_t *credit = &conn->rx[i].credit;
        if (conn->rail->queues.q[i].type == BTL_IB_QUEUE_PER_PEER) {
            btl_ib_credit_top_up(credit);
            channels |= (uint32_t) (credit->limit != credit->told) << i;
        }
    }
    return channels;
}

void btl_ib_ack_tx_told(btl_ib_conn_t *conn, const btl_ib_ack_filled_t *filled)
{
    for (uint32_t rest = filled->channels; rest != 0; rest &= rest - 1) {
        const uint32_t channel = (uint32_t) __builtin_ctz(rest);
        btl_ib_rx_channel_t *rx = &conn->rx[channel];
        rx->ack.next_range = rx->ack.filled_range;
        rx->ack.untold = rx->ack.filled_untold;
        if (filled->told >> channel & 1) {
            btl_ib_credit_told(&rx->credit, rx->credit.limit);
            rx->ack.duplicates_told = rx->ack.duplicates;
        }
    }
    settled(conn, filled->told);
}

void btl_ib_ack_tx_put_off(btl_ib_conn_t *conn)
{
    if (conn->ack.due != 0 && !btl_ib_list_empty(&conn->ack.link)) {
        conn->ack.now = false;
        btl_ib_list_remove(&conn->ack.link);
        schedule(conn);
    }
}

static void keep_newest(btl_ib_conn_t *conn, uint8_t channel, uint32_t seq)
{
    uint32_t at = conn->ack.newest_next++ % BTL_IB_NEWEST_KEPT;

    conn->ack.newest_seq[at] = seq;
    conn->ack.newest_channel[at] = channel;
}

/* Keep the sequences whose ranges ACKs must tell first: the highest range, a range in which a gap
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

/* A copy of this segment was accepted before: did the sender retransmit it, or did the network
 * duplicate it? Only the former is counted. */
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

void btl_ib_ack_tx_end(btl_ib_conn_t *conn)
{
    btl_ib_list_remove(&conn->ack.link);
    btl_ib_ack_tx_init(&conn->ack);
}

/* A new segment is about to be marked in its window: keep what ACKs have to tell of it. */
static void ack_tx_accepting(btl_ib_conn_t *conn, const btl_ib_view_t *view)
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
    btl_ib_ack_tx_owe(conn, view->channel, true); /* perhaps our acknowledgement was lost */
}

/* ---- accepting a sequence ---- */

static bool is_per_peer(const btl_ib_conn_t *conn, uint32_t channel)
{
    return conn->rail->queues.q[channel].type == BTL_IB_QUEUE_PER_PEER;
}

void btl_ib_accept_begin(btl_ib_conn_t *conn)
{
    const btl_ib_engine_config_t *config = &conn->engine->config;
    btl_ib_rail_t *rail = conn->rail;

    for (uint32_t i = 0; i < rail->queues.count; i++) {
        const btl_ib_queue_t *queue = &rail->queues.q[i];
        btl_ib_rx_window_init(&conn->rx[i].window, config->first_seq);
        if (is_per_peer(conn, i)) {
            btl_ib_credit_init(&conn->rx[i].credit, &rail->credit[i], queue, queue->init,
                               config->first_seq,
                               btl_ib_credit_cost(&rail->credit[i], queue, rail->transport,
                                                  config->credit_pool, conn->pmtud.carries));
        }
    }
}

void btl_ib_accept_end(btl_ib_conn_t *conn)
{
    for (uint32_t i = 0; i < conn->rail->queues.count; i++) {
        btl_ib_rx_window_drop(&conn->rx[i].window, &conn->engine->mem);
        if (is_per_peer(conn, i)) {
            btl_ib_credit_fini(&conn->rx[i].credit, &conn->rail->credit[i]);
        }
    }
}

void btl_ib_accept_rest(btl_ib_conn_t *conn)
{
    for (uint32_t i = 0; i < conn->rail->queues.count; i++) {
        btl_ib_rx_window_shrink(&conn->rx[i].window, &conn->engine->mem);
        btl_ib_credit_rest(&conn->rx[i].credit, &conn->rail->credit[i]);
    }
}

bool btl_ib_accept_room(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;

    if (btl_ib_rx_window_reserve(&conn->rx[view->channel].window, view->seq, &engine->mem) != 0) {
        engine->count.rnr_memory++;
        return false;
    }
    return true;
}

void btl_ib_accept(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_rx_channel_t *rx = &conn->rx[view->channel];
    const uint32_t count = btl_ib_burst_count(view);
    bool now = view->flags & BTL_IB_FLAG_ACK_NOW;
    /* No gap is opened, and none is filled in part. (What fills the last one is acknowledged like
     * any other segment.) */
    bool in_order = view->seq == rx->window.top;

    ack_tx_accepting(conn, view);
    if (!btl_ib_list_empty(&conn->input.parts)) {
        btl_ib_refragment_forget(&conn->input.parts, &engine->mem, view->channel, view->seq);
    }
    btl_ib_rx_window_mark(&rx->window, view->seq);
    btl_ib_rx_window_advance(&rx->window, view->more.count);
    const uint64_t bytes =
        view->type == BTL_IB_TYPE_BUNDLE ? view->bytes : btl_ib_burst_bytes(view);

    engine->count.received_segments += count;
    engine->count.received_bytes += bytes;
    conn->count.received_bytes += bytes;
    rx->accept.received += count;
    btl_ib_idle_active(&conn->idle, conn, conn->engine->clock.now);
    if (rx->window.above > 0) {
        engine->count.received_out_of_order++;
        now = now || !in_order;
    }
    if (is_per_peer(conn, view->channel)) {
        btl_ib_credit_use(&rx->credit, &conn->rail->credit[view->channel],
                          &conn->rail->queues.q[view->channel], count, rx->window.above > 0);
    }
    ack_tx_accepted(conn, view, now);
}

void btl_ib_accept_skip(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    btl_ib_rx_channel_t *rx = &conn->rx[view->channel];
    uint32_t first = view->seq - view->skip + 1;
    uint32_t received = first, end;

    /* Later traffic may have overtaken it, but none of the sequences that it gives up can have
     * arrived. */
    bool clash = first == rx->window.next && btl_ib_rx_window_range(&rx->window, &received, &end)
                 && !btl_ib_seq_before(view->seq, received);
    if (!is_per_peer(conn, view->channel) || first != rx->window.next || clash
        || view->skip > rx->credit.grant - rx->credit.used || view->skip == rx->credit.grant) {
        conn->engine->count.dropped_sequence++;
        return;
    }
    for (uint32_t i = 0; i < view->skip; i++) {
        btl_ib_rx_window_mark(&rx->window, first + i);
    }
    conn->engine->count.received_skips++;
    btl_ib_credit_give_back(&rx->credit, &conn->rail->credit[view->channel],
                            &conn->rail->queues.q[view->channel], view->skip);
    btl_ib_ack_tx_owe(conn, view->channel, true);
}

/* ---- what the peer acknowledges ---- */

/* Was all that is acknowledged sent? */
static bool check_sent(btl_ib_conn_t *conn, uint32_t channel, uint32_t ack, uint32_t highest)
{
    btl_ib_counters_t *count = &conn->engine->count;

    if (channel >= conn->peer_queues->count) {
        count->dropped_channel++;
        return false;
    }
    const btl_ib_tx_window_t *window = &conn->tx[channel].sentmap.window;
    if (btl_ib_seq_before(window->next, ack) || btl_ib_seq_before(window->next, highest)) {
        count->dropped_ack++;
        return false;
    }
    return true;
}

static inline bool is_limit_possible(const btl_ib_conn_t *conn, uint32_t channel, uint32_t limit)
{
    const btl_ib_queue_t *queue = &conn->peer_queues->q[channel];

    return queue->type != BTL_IB_QUEUE_PER_PEER
           || !btl_ib_seq_before(conn->tx[channel].sentmap.window.next + queue->num, limit);
}

static bool check_limit(btl_ib_conn_t *conn, uint32_t channel, uint32_t limit)
{
    if (!is_limit_possible(conn, channel, limit)) {
        conn->engine->count.dropped_credit++;
        return false;
    }
    return true;
}

bool btl_ib_ack_rx_check(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    if (view->type != BTL_IB_TYPE_ACK) {
        return !(view->flags & BTL_IB_FLAG_ACK)
               || (check_sent(conn, view->ack_channel, view->ack, view->ack)
                   && check_limit(conn, view->ack_channel, view->limit));
    }
    if ((view->flags
         & BTL_IB_FLAG_READY) /* names a segment that got RNR, which must have been sent */
        && !check_sent(conn, view->channel, view->seq + 1, view->seq + 1)) {
        return false;
    }
    btl_ib_ack_block_t block;
    uint32_t offset = 0;
    while (btl_ib_wire_next_block(view, &offset, &block)) {
        uint32_t from, to = block.ack;
        if (block.ranges > 0) { /* ranges ascend: the last is the highest */
            btl_ib_wire_range(&block, block.ranges - 1, &from, &to);
        }
        if (!check_sent(conn, block.channel, block.ack, to)
            || (!block.rnr && !check_limit(conn, block.channel, block.limit))) {
            return false;
        }
    }
    return true;
}

/* Does the arrival of `next` say all that that of `segment` does? Both were sent once, `next`
 * later. */
static bool is_newer(const btl_ib_segment_t *next, const btl_ib_segment_t *segment)
{
    return next != NULL && next->type == segment->type && next->order > segment->order
           && segment->copies == 1 && !segment->lost && next->copies == 1 && !next->lost;
}

/* Sequences [from, to) of a channel arrived. Returns how many of them are acknowledged for the
 * first time. */
static uint32_t range_arrived(btl_ib_conn_t *conn, uint32_t channel, uint32_t from, uint32_t to,
                              const btl_ib_view_t *view)
{
    btl_ib_tx_window_t *window = &conn->tx[channel].sentmap.window;
    bool echo_valid = view->flags & BTL_IB_FLAG_ECHO;
    uint32_t acked = 0;

    if (btl_ib_seq_before(from, window->first)) {
        from = window->first;
    }
    btl_ib_segment_t *next = btl_ib_tx_window_at(window, from);
    for (uint32_t seq = from, run; btl_ib_seq_before(seq, to); seq += run) {
        btl_ib_segment_t *segment = next;
        btl_ib_segment_t *last = segment;
        run = 1;
        next = seq + 1 == to ? NULL : btl_ib_tx_window_at(window, seq + 1);
        if (segment == NULL) {
            continue;
        }
        if (next != NULL && next->continues) {
            run = btl_ib_sentmap_run(window, segment, to - seq, &last);
            next = seq + run == to ? NULL : btl_ib_tx_window_at(window, seq + run);
        }
        if (!is_newer(next, last)) {
            btl_ib_loss_update_rack(conn, last, echo_valid, view->echo);
        }
        btl_ib_deferred_acked(conn, last);
        btl_ib_pmtud_arrived(conn, last); /* which is as long as the others */
        if (conn->gso.watched) {
            btl_ib_gso_watched_arrived(conn, last);
        }
        if (run > 1) {
            btl_ib_sentmap_acked_run(conn, segment, last, run);
        } else {
            btl_ib_sentmap_acked(conn, segment);
        }
        acked += run;
    }
    return acked;
}

static inline bool is_more_credit(const btl_ib_conn_t *conn, uint32_t channel, uint32_t limit)
{
    return conn->peer_queues->q[channel].type == BTL_IB_QUEUE_PER_PEER
           && btl_ib_seq_before(conn->tx[channel].limit, limit);
}

static inline void take_credit(btl_ib_conn_t *conn, uint32_t channel, uint32_t limit)
{
    conn->tx[channel].limit = limit;
    btl_ib_loss_unblocked(&conn->loss);
}

/* Take in a credit limit. Returns true if it gives more credit. */
static bool credited(btl_ib_conn_t *conn, uint32_t channel, uint32_t limit)
{
    if (!is_more_credit(conn, channel, limit)) {
        return false;
    }
    take_credit(conn, channel, limit);
    return true;
}

bool btl_ib_ack_rx_is_new(const btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    if (view->type == BTL_IB_TYPE_ACK) {
        return true;
    }
    return (view->flags & BTL_IB_FLAG_ACK)
           && (view->ack_channel >= conn->peer_queues->count
               || view->ack != conn->tx[view->ack_channel].sentmap.window.first
               || is_more_credit(conn, view->ack_channel, view->limit));
}

/* Process one block of an ACK. Returns how many segments are newly acknowledged. Sets *credit if
 * there is more credit. */
static uint32_t process_block(btl_ib_conn_t *conn, const btl_ib_ack_block_t *block,
                              const btl_ib_view_t *view, bool *credit)
{
    uint32_t acked = 0;

    if (block->channel >= conn->peer_queues->count) { /* the block was checked, but is read anew */
        return 0;
    }
    if (!block->rnr) {
        btl_ib_loss_duplicates(conn, block->channel, block->duplicates);
        acked = range_arrived(conn, block->channel, conn->tx[block->channel].sentmap.window.first,
                              block->ack, view);
        *credit |= credited(conn, block->channel, block->limit);
    } else if (block->duplicates > 0) {
        btl_ib_pmtud_unknown(conn);
    }
    for (uint32_t i = 0; i < block->ranges; i++) {
        uint32_t from, to;
        btl_ib_wire_range(block, i, &from, &to);
        if (block->rnr) {
            btl_ib_deferred_add(conn, block->channel, from, to, view);
        } else {
            acked += range_arrived(conn, block->channel, from, to, view);
        }
    }
    return acked;
}

/* Is the window what holds the sender back? */
static inline bool is_limited(const btl_ib_conn_t *conn)
{
    const uint32_t in_flight = conn->sentmap.in_flight;

    /* room for less than a burst may not have been used: btl_ib_transmit.c */
    return in_flight + conn->cc.gso_segments > conn->cc.window
           && in_flight + in_flight / 3 >= conn->cc.window;
}

void btl_ib_ack_rx_process(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    const bool limited = is_limited(conn);
    bool credit = false;
    uint32_t acked = 0;

    if (view->type == BTL_IB_TYPE_ACK) {
        btl_ib_ack_block_t block;
        uint32_t offset = 0;
        while (btl_ib_wire_next_block(view, &offset, &block)) {
            acked += process_block(conn, &block, view, &credit);
        }
        if (btl_ib_pmtud_answered(conn, view)) {
            btl_ib_loss_restart_pto(&conn->loss); /* smaller datagrams may well be answered */
        }
    } else {
        uint32_t first = conn->tx[view->ack_channel].sentmap.window.first;
        acked = range_arrived(conn, view->ack_channel, first, view->ack, view);
        credit = credited(conn, view->ack_channel, view->limit);
    }
    /* A header acknowledges only what is below the first gap of one channel; the peer may report
     * the rest later. An ACK reports all, and a header with nothing new does not change that. */
    if (view->type == BTL_IB_TYPE_ACK || acked > 0) {
        btl_ib_loss_acked_by_header(&conn->loss, view->type != BTL_IB_TYPE_ACK);
    }
    if (acked > 0 || credit) {
        btl_ib_loss_restart_pto(&conn->loss);
        btl_ib_pending_wake(conn);
    }
    if (acked > 0) {
        btl_ib_loss_acked(conn, acked, limited);
        btl_ib_deferred_retry(conn);
        btl_ib_loss_detect(conn);
    }
}

void btl_ib_ack_tx_heard(btl_ib_conn_t *conn, uint32_t stamp)
{
    const btl_ib_engine_t *engine = conn->engine;
    btl_ib_ack_tx_t *ack = &conn->ack;

    if (!ack->echo_valid || btl_ib_seq_before(ack->echo, stamp)
        || engine->clock.now - ack->echo_at > BTL_IB_STAMP_AGE) {
        ack->echo_valid = engine->turn.away != BTL_IB_AWAY_UNKNOWN;
        ack->echo = stamp;
        ack->echo_at = engine->clock.now;
        ack->echo_away = engine->turn.away;
    }
}

/* Is no answer of the peer awaited, which was heard just now? Then nothing is lost, and no timer is
 * to be set. */
static inline bool is_at_rest(const btl_ib_conn_t *conn)
{
    return conn->sentmap.unacked == 0 && conn->loss.blocked_since == 0 && conn->ops.answers == 0;
}

/* Of a header that acknowledges one segment of `channel`, or (NULL) none, and gives credit or
 * not. */
static inline void take_predicted(btl_ib_conn_t *conn, uint32_t channel, btl_ib_segment_t *segment)
{
    const bool limited = is_limited(conn);

    btl_ib_loss_restart_pto(&conn->loss);
    if (segment == NULL) {
        btl_ib_pending_wake(conn);
        return;
    }
    btl_ib_loss_arrived(&conn->loss, &conn->tx[channel].loss.arrived, segment,
                        conn->engine->clock.now);
    btl_ib_sentmap_acked_one(conn, segment);
    btl_ib_loss_acked_by_header(&conn->loss, true);
    btl_ib_pending_wake(conn);
    btl_ib_loss_acked(conn, 1, limited);
    if (!is_at_rest(conn)) {
        btl_ib_loss_detect(conn);
    }
}

/* Accept one DATA segment with `size` bytes that is the next of its channel, where nothing is ahead
 * of a gap, no segment came in parts, and which is no retransmission. It needs no room. */
static inline void accept_next(btl_ib_conn_t *conn, uint32_t channel, uint32_t size)
{
    btl_ib_engine_t *engine = conn->engine;
    btl_ib_rx_channel_t *rx = &conn->rx[channel];

    btl_ib_rx_window_advance(&rx->window, 1);
    engine->count.received_segments++;
    engine->count.received_bytes += size;
    conn->count.received_bytes += size;
    rx->accept.received++;
    btl_ib_idle_active(&conn->idle, conn, conn->engine->clock.now);
    if (is_per_peer(conn, channel)) {
        btl_ib_credit_use(&rx->credit, &conn->rail->credit[channel], &conn->rail->queues.q[channel],
                          1, false);
    }
    owe(conn, channel, is_many(conn, channel, BTL_IB_TYPE_DATA));
}

bool btl_ib_ack_predicted(btl_ib_conn_t *conn, const btl_ib_wire_header_at_t *header)
{
    const uint32_t channel = header->channels >> 4;

    if (channel >= conn->peer_queues->count) {
        return false;
    }
    const btl_ib_tx_window_t *window = &conn->tx[channel].sentmap.window;
    const uint32_t ack = BTL_IB_LE32(header->ack);
    const uint32_t limit = ack + BTL_IB_LE16(header->credits);
    const bool credit = is_more_credit(conn, channel, limit);
    btl_ib_segment_t *segment = NULL;
    if (credit && !is_limit_possible(conn, channel, limit)) {
        return false;
    }
    if (ack != window->first) {
        if (ack != window->first + 1 || window->first == window->next) {
            return false;
        }
        segment = btl_ib_tx_window_get(window, window->first);
        if (!btl_ib_sentmap_is_message(segment) || conn->sentmap.deferred_count > 0
            || btl_ib_pmtud_has_losses(&conn->pmtud) || conn->gso.losses > 0) {
            return false;
        }
    }
    btl_ib_ack_tx_heard(conn, BTL_IB_LE32(header->stamp));
    btl_ib_loss_datagram_received(conn, header->flags, BTL_IB_LE32(header->echo),
                                  BTL_IB_LE16(header->hold), BTL_IB_LE16(header->away));
    if (credit) {
        take_credit(conn, channel, limit);
    }
    if (segment != NULL || credit) {
        take_predicted(conn, channel, segment);
    }
    accept_next(conn, header->channels & 0xf, BTL_IB_LE16(header->length));
    return true;
}

void btl_ib_ack_rx_begin_channel(btl_ib_tx_channel_t *channel, uint32_t limit)
{
    channel->limit = limit;
}
