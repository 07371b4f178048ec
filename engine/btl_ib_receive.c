/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_receive.h"

#include "btl_ib_ack_read.h"
#include "btl_ib_burst.h"
#include "btl_ib_challenge.h"
#include "btl_ib_completion.h"
#include "btl_ib_conn.h"
#include "btl_ib_drops.h"
#include "btl_ib_state.h"
#include "btl_ib_ecn.h"
#include "btl_ib_failover.h"
#include "btl_ib_flow.h"
#include "btl_ib_handshake.h"
#include "btl_ib_input.h"
#include "btl_ib_list.h"
#include "btl_ib_predict.h"
#include "btl_ib_rail.h"
#include "btl_ib_rma_offload.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_trace.h"
#include "btl_ib_validation.h"

/* Follows the peer to where its datagrams come from, and notes that its path is one that works. */
static void receive_follow(btl_ib_conn_t *conn, btl_ib_rail_t *rail,
                           const btl_ib_arrival_t *arrival)
{
    const btl_ib_addr_t from = arrival->from;

    if (from != arrival->event->from) {
        btl_ib_flow_came_by_spare(conn, &arrival->view);
    }
    if (rail != conn->route.via || (from != conn->route.to && from != BTL_IB_ADDR_UNKNOWN)) {
        if (rail == conn->rail && btl_ib_route_is_inside(conn, from)) {
            btl_ib_challenge_inside(conn);
        }
        btl_ib_failover_follow(conn, rail, from, arrival->view.stamp);
    }
    if (btl_ib_route_owns(conn, rail, from) && btl_ib_validation_heard(&conn->validation)) {
        btl_ib_failover_validated(conn);
    }
}

/* Ends the incarnation, as the peer says (CLOSE). What was acknowledged until now stays valid. */
static void receive_end(btl_ib_conn_t *conn)
{
    conn->engine->count.connections_closed++;
    BTL_IB_LOG(conn->engine, 10, "peer %u.%u: closed by the peer",
               BTL_IB_NAME_ARGS(conn->identity.name));
    btl_ib_trace(conn, BTL_IB_TRACE_peer_closed, BTL_IB_CAUSE_none, NULL, 1);
    btl_ib_conn_reset(conn);
}

static inline void count_datagrams(btl_ib_rail_t *rail, uint32_t count)
{
    rail->engine->count.received_datagrams += count;
    rail->count.received_datagrams += count;
}

/* Receives the datagram of an event, behind which there are `count` - 1 others: what becomes of it.
 * Returns how many events were handled: it, and the datagrams that continue it (btl_ib_burst.h).
 * May run callbacks, and end connections. */
static int receive(btl_ib_rail_t *rail, const btl_ib_event_t *event, int count)
{
    btl_ib_engine_t *engine = rail->engine;
    const uint32_t trailer = engine->protection.ops->trailer;
    btl_ib_arrival_t arrival;
    btl_ib_view_t *view = &arrival.view;

    /* Parse it: is it a datagram of this protocol? */
    if (event->size < trailer) {
        count_datagrams(rail, 1);
        engine->count.dropped_short++;
        return 1;
    }
    arrival.data = event->data;
    arrival.size = event->size - trailer;
    arrival.from = event->from;
    arrival.event = event;
    arrival.kept = false;
    btl_ib_burst_none(&view->more);
    const bool parsed = btl_ib_input_look_at(engine, &arrival);

    /* Find its connection, and prove that it is its peer's. */
    btl_ib_conn_t *conn = parsed ? btl_ib_handshake_accept(rail, &arrival) : NULL;
    if (!arrival.kept) { /* else it is counted when it is handled again */
        count_datagrams(rail, 1);
    }
    if (conn == NULL) {
        return 1;
    }

    /* Check it against what this side knows: what it acknowledges, if that is new, and what it
     * brings. */
    const bool acks = btl_ib_ack_rx_is_new(conn, view);
    const bool sequenced = btl_ib_type_is_sequenced(view->type);
    if ((acks && !btl_ib_ack_rx_check(conn, view))
        || (sequenced && !btl_ib_input_check(conn, view, event->size))) {
        return 1;
    }
    if (count > 1 && sequenced) {
        btl_ib_input_burst(conn, &arrival, (uint32_t) count - 1);
    }

    receive_follow(conn, rail, &arrival);
    if (event->codepoint != BTL_IB_CODEPOINT_NOT_ECT && btl_ib_type_is_sequenced(view->type)) {
        btl_ib_ecn_arrived(conn, view->channel, event->codepoint, 1 + view->more.count);
    }

    /* Take it in: what it acknowledges, then what it brings. */
    if (btl_ib_input_take(conn, view, acks)) {
        receive_end(conn);
    }
    count_datagrams(rail, view->more.count);
    return 1 + (int) view->more.count;
}

/* ---- events of the transports ---- */

/* Notes that a device failed: its connections are told by the application's own progress. */
static void note_failure(btl_ib_engine_t *engine)
{
    engine->turn.failure_pending = true;
    btl_ib_work_note(&engine->work);
}

/* Shows received datagrams to traces and to the list of drops. */
__attribute__((noinline)) static void inspect(btl_ib_rail_t *rail, const btl_ib_event_t *events,
                                              int count)
{
    if (rail->engine->drops != NULL) {
        btl_ib_drops_note(rail, events);
    }
    btl_ib_trace_received(rail, events, count);
}

/* Handles events: all datagrams but those that turn_predicted() takes (btl_ib_turn.c), also those
 * that were kept. While receive() has only one caller the compiler inlines it, which makes a stream
 * 12 % cheaper. */
static inline void handle_events(btl_ib_rail_t *rail, const btl_ib_event_t *events, int count,
                                 const btl_ib_polled_batch_t *polled)
{
    btl_ib_engine_t *engine = rail->engine;
    const bool predicts = engine->predicts && !engine->turn.async;

    for (int i = 0, handled; i < count; i += handled) {
        /* each time: a callback, or another thread in it, may have polled */
        engine->turn.batch = polled->number;
        engine->turn.poll_gap = polled->poll_gap;
        engine->turn.pause = polled->pause;
        handled = 1;
        switch (events[i].type) {
        case BTL_IB_EVENT_RECV:
            if (predicts && btl_ib_predict(rail, &events[i])) {
                break;
            }
            handled = receive(rail, &events[i], count - i);
            if (engine->inspected) {
                inspect(rail, &events[i], handled);
            }
            break;
        case BTL_IB_EVENT_SENT:
            btl_ib_pool_sent(events[i].context);
            break;
        case BTL_IB_EVENT_RDMA: /* handled before the others */
            break;
        default:
            if (btl_ib_rail_event(rail, &events[i])) {
                note_failure(engine);
            }
        }
    }
}

/* Gives the buffers of the datagrams among some events back. Returns how many there are. */
static int repost_buffers(btl_ib_rail_t *rail, const btl_ib_event_t *events, int count)
{
    void **buffers = rail->engine->polled.buffers;
    int n = 0;

    for (int i = 0; i < count; i++) {
        if (events[i].type == BTL_IB_EVENT_RECV) {
            buffers[n++] = events[i].buffer;
        }
    }
    if (n > 0) {
        rail->transport->ops->repost(rail->transport, buffers, n);
    }
    return n;
}

/* Handles a batch of events. Returns how many of them were datagrams. */
__attribute__((noinline)) static int handle_batch(btl_ib_rail_t *rail, const btl_ib_event_t *events,
                                                  int count)
{
    const btl_ib_transport_t *transport = rail->transport;
    btl_ib_engine_t *engine = rail->engine;
    const bool outer = !engine->polled.in_hand;

    const btl_ib_polled_batch_t polled = btl_ib_rail_begin_batch(rail);
    /* One-sided operations of the device come first: a datagram may end a connection, and then its
     * operations belong to the caller. */
    for (int i = 0; transport->ops->rdma != NULL && i < count; i++) {
        if (events[i].type == BTL_IB_EVENT_RDMA) {
            btl_ib_offload_event(&events[i]);
        }
    }
    engine->polled.in_hand = true;
    handle_events(rail, events, count, &polled);
    if (outer) {
        engine->polled.in_hand = false;
    }
    const int received = repost_buffers(rail, events, count);
    if (received > 0 && !engine->turn.async && !btl_ib_list_empty(&engine->events)) {
        btl_ib_completion_callbacks(engine);
    }
    return received;
}

/* Receives a first contact that was kept, whose sender is known by now. Its address holds while it
 * is handled: that is known, or becomes known, if there is a connection. */
static void receive_kept(btl_ib_rail_t *rail, btl_ib_backlog_entry_t *stored,
                         btl_ib_sender_t *sender, uint32_t batch)
{
    const btl_ib_transport_ops_t *ops = rail->transport->ops;
    btl_ib_first_contact_t *contact = (void *) stored->data;
    const btl_ib_polled_batch_t polled = {
        .number = contact->batch != 0 ? contact->batch : batch,
        .poll_gap = contact->poll_gap,
    };
    btl_ib_event_t event = {
        .type = BTL_IB_EVENT_RECV,
        .size = stored->size - (uint32_t) sizeof(*contact),
        .from = BTL_IB_ADDR_UNKNOWN,
        .data = contact->datagram,
        .context = sender,
    };
    const bool known =
        contact->source_len > 0
        && ops->addr_add(rail->transport, contact->source, contact->source_len, &event.from) == 0;

    handle_events(rail, &event, 1, &polled);
    if (known) {
        ops->addr_remove(rail->transport, event.from);
    }
}

__attribute__((noinline)) void btl_ib_receive_unidentified(btl_ib_engine_t *engine, int most)
{
    btl_ib_sender_t *sender = btl_ib_zalloc(&engine->mem, sizeof(*sender));
    const uint32_t batch = ++engine->turn.batches;
    btl_ib_backlog_entry_t *stored;

    for (int i = 0; i < most && (stored = btl_ib_backlog_pop(&engine->unidentified)) != NULL; i++) {
        if (sender != NULL) {
            btl_ib_handshake_look_up(engine, (const void *) stored->data, sender);
            receive_kept(engine->rails[stored->tag], stored, sender, batch);
        } else { /* no memory: it comes again */
            engine->count.received_datagrams++;
            engine->rails[stored->tag]->count.received_datagrams++;
            engine->count.dropped_lookup++;
        }
        btl_ib_backlog_put(&engine->unidentified, stored);
    }
    btl_ib_free(&engine->mem, sender);
}

/* Looks whether a rail that failed, but may come back, is there again. What arrives meanwhile
 * counts as lost. Returns how many of at most `max` datagrams that are. */
__attribute__((noinline)) static int poll_lost(btl_ib_rail_t *rail, int max)
{
    btl_ib_event_t events[BTL_IB_FEW_EVENTS];
    int received = 0;
    int wanted, count;

    for (int left = max; left > 0; left = count < wanted ? 0 : left - count) {
        wanted = left < BTL_IB_FEW_EVENTS ? left : BTL_IB_FEW_EVENTS;
        count = btl_ib_rail_poll_transport(rail->engine, rail, events, wanted);
        for (int i = 0; i < count; i++) {
            if (events[i].type == BTL_IB_EVENT_RECV) {
                continue;
            }
            if (events[i].type == BTL_IB_EVENT_SENT) {
                btl_ib_pool_sent(events[i].context);
            } else if (events[i].type == BTL_IB_EVENT_RDMA) {
                btl_ib_offload_event(&events[i]);
            } else if (btl_ib_rail_event(rail, &events[i])) {
                note_failure(rail->engine);
            }
        }
        received += repost_buffers(rail, events, count);
    }
    return received;
}

int btl_ib_rail_poll(btl_ib_rail_t *rail, int left, int polled)
{
    btl_ib_engine_t *engine = rail->engine;
    const int most = left;
    btl_ib_event_t few[BTL_IB_FEW_EVENTS];
    int datagrams = 0;

    while (left > 0 && !rail->health.failed) {
        /* each time: another thread may have events in hand by now */
        btl_ib_event_t *events = engine->polled.in_hand ? few : engine->polled.events;
        const int max = btl_ib_rail_batch_max(engine, left);
        const int count =
            polled > 0 ? polled : btl_ib_rail_poll_transport(engine, rail, events, max);
        polled = 0;
        if (count == 0) {
            btl_ib_rail_note_empty(rail, &engine->clock);
            break;
        }
        datagrams += handle_batch(rail, events, count);
        if (count < max) {
            break;
        }
        left -= count;
        engine->turn.more = left <= 0;
    }
    if (rail->health.down) {
        if (rail->health.failed) {
            datagrams += datagrams < most ? poll_lost(rail, most - datagrams) : 0;
        } else if (btl_ib_rail_check_down(rail)) {
            note_failure(engine);
        }
    }
    return datagrams;
}
