/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_predict.h"

#include "btl_ib_accept.h"
#include "btl_ib_ack_read.h"
#include "btl_ib_ack_write.h"
#include "btl_ib_state.h"
#include "btl_ib_loss.h"
#include "btl_ib_packet.h"
#include "btl_ib_pmtud.h"
#include "btl_ib_sched.h"
#include "btl_ib_sentmap.h"

/* True if a header says nothing new, gives credit, or acknowledges the oldest segment of a channel
 * alone: a message that was sent once, with nothing deferred or suspect. */
static inline bool predict_ack(const btl_ib_conn_t *conn, const btl_ib_wire_header_at_t *header,
                               btl_ib_predicted_ack_t *out)
{
    const uint32_t channel = header->channels >> 4;
    const uint32_t ack = BTL_IB_LE32(header->ack);

    if (channel >= conn->peer_queues->count) {
        return false;
    }
    const btl_ib_tx_window_t *window = &conn->tx[channel].sentmap.window;
    out->channel = channel;
    out->limit = ack + BTL_IB_LE16(header->credits);
    out->more = btl_ib_ack_is_more_credit(conn, channel, out->limit);
    out->segment = NULL;
    if (out->more && !btl_ib_ack_is_limit_possible(conn, channel, out->limit)) {
        return false;
    }
    if (ack == window->first) {
        return true;
    }
    if (ack != window->first + 1 || window->first == window->next) {
        return false;
    }
    out->segment = btl_ib_tx_window_get(window, window->first);
    return btl_ib_sentmap_is_message(out->segment) && conn->sentmap.deferred_count == 0
           && !btl_ib_pmtud_has_losses(&conn->pmtud) && conn->gso.losses == 0;
}

/* Takes in what a header acknowledges: as btl_ib_ack_received(). */
static inline void take_ack(btl_ib_conn_t *conn, const btl_ib_predicted_ack_t *ack)
{
    const bool limited = btl_ib_ack_is_limited(conn);
    const bool new = ack->more || ack->segment != NULL;

    if (ack->more) {
        btl_ib_ack_raise_limit(conn, ack->channel, ack->limit);
    }
    if (new) {
        btl_ib_loss_restart_pto(&conn->loss);
    }
    if (ack->segment != NULL) {
        btl_ib_loss_arrived(&conn->loss, &conn->tx[ack->channel].loss.arrived, ack->segment,
                            conn->engine->clock.now);
        btl_ib_sentmap_acked(conn, ack->segment, ack->segment, 1);
        btl_ib_loss_acked_by_header(&conn->loss, true);
    }
    if (new) {
        btl_ib_pending_wake(conn);
    }
    if (ack->segment != NULL) {
        btl_ib_loss_acked(conn, 1, limited);
        /* Where no answer is awaited nothing can be lost, and no timer is to be set. */
        if (conn->sentmap.unacked > 0 || conn->loss.blocked_since != 0 || conn->ops.answers > 0) {
            btl_ib_loss_detect(conn);
        }
    } else {
        btl_ib_loss_timer_by_sample(conn);
    }
}

/* True if nothing came of a connection that the general way would have to look at, and the datagram
 * comes from where its own go to. */
static inline bool is_settled(const btl_ib_conn_t *conn, const btl_ib_rail_t *rail,
                              btl_ib_addr_t from)
{
    const btl_ib_validation_t *validation = &conn->validation;

    return btl_ib_conn_alive(conn) && conn->identity.peer_knows /* so it is bound, too */
           && rail == conn->rail && btl_ib_route_is_own(conn)
           && (from == conn->route.to
               || (from == BTL_IB_ADDR_UNKNOWN ? !rail->transport->attr.knows_source
                                               : btl_ib_route_is_inside(conn, from)))
           && validation->valid && validation->route_refused == 0 && validation->refused_at == 0
           && !conn->draining && !conn->rnr.any && btl_ib_list_empty(&conn->input.parts);
}

/* True if it is the next sequence of a channel without gaps, within credits and buffers. */
static inline bool is_next(const btl_ib_conn_t *conn, uint32_t channel, uint32_t seq,
                           uint32_t datagram)
{
    const btl_ib_queue_table_t *queues = &conn->rail->queues;
    const btl_ib_rx_channel_t *rx = &conn->rx[channel];

    return channel < queues->count && datagram <= queues->q[channel].size && seq == rx->window.next
           && rx->window.above == 0
           && (queues->q[channel].type != BTL_IB_QUEUE_PER_PEER
               || btl_ib_seq_before(seq, rx->credit.limit));
}

/* Asks nothing again: whatever could end the connection, or change what was asked before the
 * delivery, has this done first. Calls nobody. */
void btl_ib_predict_account(btl_ib_engine_t *engine)
{
    btl_ib_predicted_t *predicted = &engine->predicted;
    btl_ib_conn_t *conn = predicted->conn;

    predicted->conn = NULL;
    btl_ib_loss_datagram_received(conn, BTL_IB_FLAG_ACK | BTL_IB_FLAG_ECHO, predicted->stamp,
                                  predicted->echo, predicted->hold, predicted->poll_gap);
    btl_ib_ack_tx_heard(&conn->ack, predicted->stamp, engine->clock.now, engine->turn.poll_gap);
    take_ack(conn, &predicted->ack);
    engine->count.received_datagrams++;
    conn->rail->count.received_datagrams++;
    btl_ib_accept_next(conn, predicted->channel, predicted->size);
    engine->count.received_messages++;
    btl_ib_ack_tx_delivered(&conn->ack, engine->clock.now);
}

void btl_ib_engine_account(btl_ib_engine_t *engine)
{
    btl_ib_account(engine);
}

bool btl_ib_predict(btl_ib_rail_t *rail, const btl_ib_event_t *event)
{
    btl_ib_engine_t *engine = rail->engine;
    btl_ib_predicted_t *predicted = &engine->predicted;
    const btl_ib_wire_header_at_t *header = (const void *) event->data;

    if (event->size < sizeof(*header) || (header->version_type & 0xf) != BTL_IB_TYPE_DATA
        || header->flags != (BTL_IB_FLAG_ACK | BTL_IB_FLAG_ECHO)
        || BTL_IB_LE16(header->length) != event->size - sizeof(*header)
        || header->tag > BTL_IB_TAG_MAX) {
        return false;
    }
    btl_ib_conn_t *conn = btl_ib_table_by_id(&engine->table, BTL_IB_LE32(header->connection));
    const uint32_t channel = header->channels & 0xf;
    if (conn == NULL || BTL_IB_LE64(header->token) != conn->identity.rx_token
        || header->version_type >> 4 != conn->identity.version
        || !is_settled(conn, rail, event->from)
        || !is_next(conn, channel, BTL_IB_LE32(header->seq), event->size)
        || !engine->ops->deliverable(engine->ops_context, conn, header->tag)
        || !predict_ack(conn, header, &predicted->ack)) {
        return false;
    }
    const uint32_t size = event->size - (uint32_t) sizeof(*header);
    predicted->conn = conn;
    predicted->channel = channel;
    predicted->size = size;
    predicted->stamp = BTL_IB_LE32(header->stamp);
    predicted->echo = BTL_IB_LE32(header->echo);
    predicted->hold = BTL_IB_LE16(header->hold);
    predicted->poll_gap = BTL_IB_LE16(header->poll_gap);
    engine->ops->deliver(engine->ops_context, conn, header->tag, event->data + sizeof(*header),
                         size);
    btl_ib_account(engine);
    return true;
}
