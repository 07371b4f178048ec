/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_ack_send.h"

#include "btl_ib_ack_write.h"
#include "btl_ib_state.h"
#include "btl_ib_flow.h"
#include "btl_ib_incast.h"
#include "btl_ib_list.h"
#include "btl_ib_packet.h"
#include "btl_ib_rnr_receiver.h"
#include "btl_ib_sched.h"
#include "btl_ib_transmit.h"

enum {
    ACK_SEGMENTS = 4, /* ACK segments sent at once, at most, to tell all channels */
};

/* Sends one ACK segment with what is due of *channels, and removes from *channels what it told.
 * False if memory or the transport did not allow it; *all: nothing is left to tell. A segment that
 * was deferred here, and may be sent again, is named in each ACK until it is there. */
static bool ack_segment_send(btl_ib_conn_t *conn, uint8_t flags, uint32_t room, uint32_t *channels,
                             bool *all)
{
    btl_ib_segment_t *segment = btl_ib_packet_make(conn, BTL_IB_TYPE_ACK, room);

    if (segment == NULL) {
        conn->engine->count.blocked_memory++;
        return false;
    }
    btl_ib_rnr_entry_t *entry = conn->rnr.any ? btl_ib_rnr_pick(conn) : NULL;
    if (!btl_ib_list_empty(&conn->incast.link)) { /* it may have asked whether it is its turn */
        btl_ib_incast_pass_turns(conn);
    }
    const uint8_t share = btl_ib_incast_share(conn);
    segment->flags |= flags;
    segment->tag = share;
    if (entry != NULL) {
        segment->flags |= BTL_IB_FLAG_READY;
        segment->channel = entry->channel;
        segment->seq = entry->seq;
    }
    const btl_ib_ack_filled_t filled = btl_ib_ack_tx_fill(conn, segment, room, *channels);
    bool taken = btl_ib_transmit_one(conn, segment);
    btl_ib_pool_put(segment);
    if (!taken) {
        return false;
    }
    if (entry != NULL) {
        btl_ib_rnr_told(conn, entry);
    }
    conn->engine->count.sent_acks++;
    btl_ib_ack_tx_told(conn, &filled);
    btl_ib_incast_told(conn, share);
    *channels &= ~filled.told;
    *all = filled.all;
    return true;
}

/* Returns the channels that an explicit ACK covers: those that are due, and those whose credit
 * limit the peer does not know yet. */
static uint32_t channels_to_tell(btl_ib_conn_t *conn)
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

bool btl_ib_ack_send(btl_ib_conn_t *conn, uint8_t flags)
{
    uint32_t headers = (uint32_t) (sizeof(btl_ib_wire_header_t) + sizeof(btl_ib_wire_connect_t))
                       + conn->engine->protection.ops->trailer;
    uint32_t room = conn->peer_queues->q[0].size;
    uint32_t channels = channels_to_tell(conn);
    bool all = false;
    int sent = 0;

    btl_ib_flow_expire(conn);
    /* An ACK travels on the first channel, in a small buffer. */
    room = room < BTL_IB_SEGMENT_SMALL ? room : BTL_IB_SEGMENT_SMALL;
    room = (room < conn->pmtud.datagram_max ? room : conn->pmtud.datagram_max) - headers;
    const bool deferred_apart =
        channels != 0 && btl_ib_ack_tx_has_rnr(conn) && !btl_ib_ack_tx_has_room_for_both(room);
    while (sent < ACK_SEGMENTS && !all && ack_segment_send(conn, flags, room, &channels, &all)) {
        sent++;
    }
    if (sent == 0) {
        return false;
    }
    if (deferred_apart) {
        channels = 0;
        (void) ack_segment_send(conn, flags, room, &channels, &all);
    }
    btl_ib_ack_tx_put_off(conn);
    return true;
}

/*
 * True if an acknowledgement is better put off until the next turn: bulk of ours waits for one of
 * the peer's, and there is something to receive. That may be among it, and the burst that it lets
 * go carries ours. An ACK costs both sides together a quarter of a burst. It is not put off if two
 * bursts are unacknowledged, as the peer may have nothing else on its way, nor if something was
 * lost.
 */
static bool may_ride_on_bulk(const btl_ib_conn_t *conn)
{
    const btl_ib_engine_t *engine = conn->engine;
    const btl_ib_rx_channel_t *rx = &conn->rx[conn->ack.channel];

    return engine->turn.idle_calls == 0 && engine->clock.now < conn->ack.at
           && conn->ack.count < 2 * conn->cc.gso_segments && btl_ib_bulk_in_flight(conn)
           && btl_ib_pending_any(conn) && rx->window.above == 0
           && rx->ack.duplicates == rx->ack.duplicates_reported;
}

/* Sends the acknowledgements of a list that are due, or all if `all`. *full has a bit for each rail
 * that takes nothing now; connections of other rails go on. */
static void ack_turn_of(btl_ib_engine_t *engine, btl_ib_list_t *acks, bool all, uint32_t *full)
{
    /* An acknowledgement that is put off moves behind this one, and waits for the next turn. */
    const btl_ib_list_t *last = btl_ib_list_last(acks);
    btl_ib_list_t *item = btl_ib_list_first(acks);

    while (item != NULL) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, ack.link);
        uint32_t rail = 1u << conn->route.via->index;

        item = item == last ? NULL : btl_ib_list_next(acks, item);
        if (!all && !btl_ib_ack_tx_is_due(&conn->ack, engine->clock.now, engine->turn.idle_calls)) {
            return;
        }
        if (!all && may_ride_on_bulk(conn)) {
            continue;
        }
        if (!(*full & rail) && !btl_ib_ack_send(conn, 0)) {
            *full |= rail;
        }
    }
}

void btl_ib_ack_turn(btl_ib_engine_t *engine, bool all)
{
    uint32_t full = 0;

    ack_turn_of(engine, &engine->acks, all, &full);
    /* These ride on answers, also of an application that calls seldom. */
    ack_turn_of(engine, &engine->acks_answered, false, &full);
}
