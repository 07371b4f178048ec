/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Progress: receives what transports have, runs timers, sends what may leave. */

#include "btl_ib_engine.h"

#include "btl_ib_sched.h"
#include "btl_ib_transmit.h"
#include "btl_ib_ack.h"
#include "btl_ib_conn.h"
#include "btl_ib_failover.h"
#include "btl_ib_flow.h"
#include "btl_ib_handshake.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_input.h"
#include "btl_ib_send_limits.h"
#include "btl_ib_deferred_free.h"
#include "btl_ib_list.h"
#include "btl_ib_rma_initiator.h"
#include "btl_ib_loss.h"
#include "btl_ib_path.h"
#include "btl_ib_rnr.h"
#include "btl_ib_engine_internal.h"
#include "btl_ib_submit.h"
#include "btl_ib_trace.h"
#include "btl_ib_zcopy.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    EVICTIONS = 64,      /* timers that expire in one turn, at most */
    RETRY_AFTER = 10,      /* us after which a full transport is tried again */
    FEW = 8,               /* events that a poll takes onto the stack, at most */
    CATCH_UP_MOST = 20000, /* us of turns after a pause; less after a shorter one */
    STANDBY_EACH = 50000,  /* us between polls of rails that stand by: first contacts come */
};

/* ---- a datagram ---- */

static bool check_told(const btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    const bool genuine = btl_ib_failover_is_told(conn, view);

    conn->engine->count.dropped_token += !genuine;
    return genuine;
}

/* It was taken in, and ends something: the connection's incarnation, or an address of the peer. */
static void peer_ended(btl_ib_conn_t *conn, const btl_ib_view_t *view)
{
    if (view->type == BTL_IB_TYPE_ADDRESS) {
        btl_ib_failover_told(conn, view);
        return;
    }
    /* It closed. What was acknowledged until now stays valid; this incarnation ends. */
    conn->engine->count.connections_closed++;
    BTL_IB_LOG(conn->engine, 10, "peer %u.%u: closed by the peer",
               BTL_IB_NAME_ARGS(conn->identity.name));
    btl_ib_trace_conn(conn, BTL_IB_TRACE_peer_closed, BTL_IB_CAUSE_none, 1);
    btl_ib_conn_reset(conn);
}

static inline void count_datagrams(btl_ib_rail_t *rail, uint32_t count)
{
    rail->engine->count.received_datagrams += count;
    rail->count.received_datagrams += count;
}

/* A datagram came by `rail`, and `count` - 1 other events behind it: parse it, find its connection,
 * check it, take it in. Returns how many of them were handled: it, and the datagrams that continue
 * it (btl_ib_reasm.h). May run callbacks, and end connections. */
static int receive(btl_ib_rail_t *rail, const btl_ib_event_t *event, int count)
{
    btl_ib_engine_t *engine = rail->engine;
    uint32_t trailer = engine->protection.ops->trailer;
    btl_ib_arrival_t arrival;

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
    btl_ib_burst_none(&arrival.view.more);
    btl_ib_conn_t *conn =
        btl_ib_input_look_at(engine, &arrival) ? btl_ib_handshake_accept(rail, &arrival) : NULL;
    btl_ib_view_t *view = &arrival.view;
    if (!arrival.kept) { /* else it is counted when it is handled again */
        count_datagrams(rail, 1);
    }
    if (conn == NULL) {
        return 1;
    }
    const bool acks = btl_ib_ack_rx_is_new(conn, view);
    const bool sequenced = btl_ib_type_is_sequenced(view->type);
    if ((acks && !btl_ib_ack_rx_check(conn, view))
        || (sequenced ? !btl_ib_input_check(conn, view, event->size)
                      : view->type == BTL_IB_TYPE_ADDRESS && !check_told(conn, view))) {
        return 1;
    }
    if (sequenced && count > 1) {
        btl_ib_input_burst(conn, &arrival, (uint32_t) count - 1);
    }
    /* of a source that nobody published only an ADDRESS gets here */
    const bool published = arrival.from != BTL_IB_ADDR_UNKNOWN || view->type != BTL_IB_TYPE_ADDRESS;
    if (published
        && (rail != conn->route.via
            || (arrival.from != conn->route.to && arrival.from != BTL_IB_ADDR_UNKNOWN))) {
        btl_ib_failover_follow(conn, rail, arrival.from, view->stamp);
    }
    if (published && btl_ib_route_owns(conn, rail, arrival.from)
        && btl_ib_validation_heard(&conn->validation)) {
        btl_ib_failover_validated(conn);
    }
    if (btl_ib_input_take(conn, view, acks)) {
        peer_ended(conn, view);
    }
    count_datagrams(rail, view->more.count);
    return 1 + (int) view->more.count;
}

/* ---- events of the transports ---- */

/*
 * How long at most a datagram found now may have waited here, in us: since the turn before; or, if
 * a turn receives only a part of what there is (attr.partial_poll), since the rail was last found
 * empty. The latter is a queue, too, but the receiver's own, which credits limit: the sender makes
 * it no shorter by sending later. The sender is to know only of a long one, unless we paused.
 */
static uint32_t waited_for(const btl_ib_rail_t *rail)
{
    const uint64_t busy = rail->engine->clock.now - rail->polled.empty_at;

    if (!rail->transport->attr.partial_poll) {
        return rail->engine->clock.gap;
    }
    return btl_ib_max_u32(rail->engine->clock.gap,
                          btl_ib_clip_u32(busy, BTL_IB_QUEUE_BORNE + rail->polled.pause));
}

/* What came during a pause takes several turns to be received, but no longer than the pause. */
static void note_pause(btl_ib_rail_t *rail)
{
    const btl_ib_clock_t *clock = &rail->engine->clock;

    if (clock->now > rail->polled.pause_until) {
        rail->polled.pause = 0;
    }
    if (clock->gap > rail->polled.pause) {
        rail->polled.pause = clock->gap;
        rail->polled.pause_until = clock->now + clock->gap;
    }
}

/* A rail was found empty: what came during any pause but the last is all received. */
static inline void note_empty(btl_ib_rail_t *rail, const btl_ib_clock_t *clock)
{
    rail->polled.empty_at = clock->now;
    rail->polled.pause = clock->gap;
    rail->polled.pause_until = clock->now + clock->gap;
}

/* Events polled in one batch, which may have waited for `away` us. */
typedef struct polled {
    uint32_t number;
    uint32_t away;
} polled_t;

/* A device failed: its connections are told by the application's own progress. */
static void note_failure(btl_ib_engine_t *engine)
{
    engine->turn.failure_pending = true;
    btl_ib_work_note(&engine->work);
}

/* Collect up to `max` events of a rail. Returns how many. */
static inline int poll_transport(const btl_ib_engine_t *engine, const btl_ib_rail_t *rail,
                                 btl_ib_event_t *events, int max)
{
    btl_ib_transport_t *transport = rail->transport;

    return transport->ops->poll(transport, engine->clock.now, events, max);
}

/* For traces and filters of received datagrams. */
__attribute__((noinline)) static void inspect(btl_ib_rail_t *rail, const btl_ib_event_t *events,
                                              int count)
{
    if (rail->engine->drops != NULL) {
        btl_ib_drops_note(rail, events);
    }
    btl_ib_trace_received(rail, events, count);
}

/* Handle events. All datagrams are handled here, also those that were kept: while receive() has
 * only one caller, the compiler inlines it, which makes a stream 12 % cheaper. */
static inline void handle_events(btl_ib_rail_t *rail, const btl_ib_event_t *events, int count,
                                 const polled_t *polled)
{
    btl_ib_engine_t *engine = rail->engine;
    const bool predicts = engine->predicts && !engine->turn.async;

    for (int i = 0, handled; i < count; i += handled) {
        /* each time: a callback, or another thread in it, may have polled */
        engine->turn.batch = polled->number;
        engine->turn.away = polled->away;
        handled = 1;
        switch (events[i].type) {
        case BTL_IB_EVENT_RECV:
            if (predicts && btl_ib_input_predicted(rail, &events[i])) {
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

/* Give the buffers of the datagrams among some events back. Returns how many there are. */
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

/* How many events a batch may have, if `left` datagrams may still be received. */
static inline int batch_max(const btl_ib_engine_t *engine, int left)
{
    const int most = engine->polled.in_hand ? FEW : BTL_IB_BATCH;

    return left < most ? left : most;
}

/* Events were polled. */
static inline polled_t begin_batch(btl_ib_rail_t *rail)
{
    note_pause(rail);
    return (polled_t){.number = ++rail->engine->turn.batches, .away = waited_for(rail)};
}

/* Handle a batch of events. Returns how many of them were datagrams. */
__attribute__((noinline)) static int handle_batch(btl_ib_rail_t *rail, const btl_ib_event_t *events,
                                                  int count)
{
    const btl_ib_transport_t *transport = rail->transport;
    btl_ib_engine_t *engine = rail->engine;
    const bool outer = !engine->polled.in_hand;

    const polled_t polled = begin_batch(rail);
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

/* The first and only event in hand is the message that comes next, as most are: take it in without
 * what is asked of a batch. False: it is something else, and nothing was done. */
static inline bool handle_predicted(btl_ib_rail_t *rail)
{
    btl_ib_engine_t *engine = rail->engine;
    const btl_ib_event_t *event = &engine->polled.events[0];
    void *buffer = event->buffer;
    const polled_t polled = begin_batch(rail);

    engine->turn.batch = polled.number;
    engine->turn.away = polled.away;
    engine->polled.in_hand = true;
    const bool taken = event->type == BTL_IB_EVENT_RECV && btl_ib_input_predicted(rail, event);
    engine->polled.in_hand = false;
    if (!taken) {
        return false;
    }
    rail->transport->ops->repost(rail->transport, &buffer, 1);
    if (!btl_ib_list_empty(&engine->events)) {
        btl_ib_completion_callbacks(engine);
    }
    return true;
}

/* A first contact that was kept, whose sender is known by now. Its address holds while
 * it is handled: that is known, or becomes known, if there is a connection. */
static void receive_kept(btl_ib_rail_t *rail, btl_ib_backlog_entry_t *stored,
                         btl_ib_sender_t *sender, uint32_t batch)
{
    const btl_ib_transport_ops_t *ops = rail->transport->ops;
    btl_ib_first_contact_t *contact = (void *) stored->data;
    const polled_t polled = {
        .number = contact->batch != 0 ? contact->batch : batch,
        .away = contact->away,
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

/* First contacts that were kept, `most` of them: here the runtime can be asked, as little of the
 * stack is used. */
__attribute__((noinline)) static void receive_unidentified(btl_ib_engine_t *engine, int most)
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

/* Is a rail that failed, but may come back, there again? What arrives meanwhile counts as lost.
 * Returns how many of at most `max` datagrams that are. */
__attribute__((noinline)) static int poll_lost(btl_ib_rail_t *rail, int max)
{
    btl_ib_event_t events[FEW];
    int received = 0;
    int wanted, count;

    for (int left = max; left > 0; left = count < wanted ? 0 : left - count) {
        wanted = left < FEW ? left : FEW;
        count = poll_transport(rail->engine, rail, events, wanted);
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

/* What is done only now and then. Returns whether rails that stand by are polled. */
__attribute__((noinline)) static bool tick(btl_ib_engine_t *engine)
{
    btl_ib_turn_t *turn = &engine->turn;
    const uint64_t now = engine->clock.now;
    const bool standby = now >= turn->standby_at;

    if (standby) {
        turn->standby_at = now + STANDBY_EACH;
        for (uint32_t i = 0; i < engine->rail_count; i++) {
            btl_ib_rail_look(engine->rails[i]);
        }
    }
    /* What is found calls up. After a pause of ours there are ACKs to be received first. */
    if (now >= turn->sample_at && !turn->async && engine->clock.gap < BTL_IB_GOODPUT_EACH) {
        turn->sample_at = now + BTL_IB_GOODPUT_EACH;
        if (engine->rail_count > 1) {
            btl_ib_goodput_sample(engine);
        }
    }
    turn->tick_at = turn->standby_at < turn->sample_at ? turn->standby_at : turn->sample_at;
    if (engine->config.keepalive != 0 && !turn->async) {
        if (now >= turn->ask_at) {
            turn->ask_at = now + BTL_IB_KEEPALIVE_EACH;
            btl_ib_keepalive_look(engine);
        }
        turn->tick_at = turn->ask_at < turn->tick_at ? turn->ask_at : turn->tick_at;
    }
    return standby;
}

/* Poll a rail, for at most `left` datagrams. `polled` events are in hand already. Returns how many
 * datagrams there were. */
static int poll_rail(btl_ib_rail_t *rail, int left, int polled)
{
    btl_ib_engine_t *engine = rail->engine;
    const int most = left;
    btl_ib_event_t few[FEW];
    int datagrams = 0;

    while (left > 0 && !rail->health.failed) {
        /* each time: another thread may have events in hand by now */
        btl_ib_event_t *events = engine->polled.in_hand ? few : engine->polled.events;
        const int max = batch_max(engine, left);
        const int count = polled > 0 ? polled : poll_transport(engine, rail, events, max);
        polled = 0;
        if (count == 0) {
            note_empty(rail, &engine->clock);
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

/* Poll rails in rotation, so that one that is flooded does not starve the others. */
static int poll_rails(btl_ib_engine_t *engine, int burst)
{
    const bool standby = engine->clock.now >= engine->turn.tick_at && tick(engine);
    const uint32_t count = engine->rail_count;
    uint32_t next = engine->turn.first_rail + 1;
    int datagrams = 0;

    engine->turn.more = false;
    next = next < count ? next : 0;
    engine->turn.first_rail = next;
    for (uint32_t i = 0; i < count; i++) {
        btl_ib_rail_t *rail = engine->rails[next];
        next = next + 1 < count ? next + 1 : 0;
        if (!rail->use.stands_by || standby) {
            datagrams += poll_rail(rail, burst - datagrams, 0);
        }
    }
    return datagrams;
}

/* ---- progress ---- */

static void probe(btl_ib_conn_t *conn)
{
    btl_ib_loss_probe_begins(conn);
    if (!conn->validation.valid) { /* what data wait for may have changed */
        btl_ib_conn_ready(conn);
        btl_ib_validation_probed(conn);
        btl_ib_failover_tell(conn);
    }
    btl_ib_failover_send_connect(conn);
    btl_ib_probe_send(conn);
}

/* The loss timer of a connection expired. May end the connection. */
static void loss_expired(btl_ib_conn_t *conn)
{
    btl_ib_death_t reason;

    btl_ib_flow_expire(conn);
    if (btl_ib_loss_timer(conn) == BTL_IB_LOSS_NOTHING) {
        return;
    }
    if (btl_ib_loss_find_death(conn, &reason)) {
        btl_ib_conn_kill(conn, reason);
        return;
    }
    if (!conn->validation.answered && !conn->engine->turn.async && btl_ib_validation_expire(conn)) {
        if (btl_ib_conn_alive(conn)) { /* a callback may have ended it */
            btl_ib_conn_kill(conn, BTL_IB_DEATH_UNANSWERED);
        }
        return;
    }
    if (!conn->engine->turn.async) {
        btl_ib_validation_check_unsent(conn);
        btl_ib_validation_check_silent(conn);
        if (!btl_ib_conn_alive(conn)) { /* the callback ended it */
            return;
        }
    }
    const bool begun = conn->loss.half_probed;
    if (begun || !btl_ib_failover_on_silence(conn)) {
        if (!begun && !btl_ib_retry_take(conn)) {
            return;
        }
        if (!begun) {
            btl_ib_flow_probing(conn);
        }
        probe(conn);
    }
    btl_ib_loss_set_timer(conn);
}

/* Connections that waited for the budget of copies ask their peers. */
static void retry(btl_ib_engine_t *engine)
{
    btl_ib_conn_t *conn;

    while ((conn = btl_ib_retry_next(engine)) != NULL) {
        probe(conn);
        btl_ib_loss_set_timer(conn);
    }
}

/* Not inlined, and neither is do_deferred_work(): with all that they call in it, the compiler keeps
 * nothing of btl_ib_engine_progress() in registers, where every message passes. */
__attribute__((noinline)) static void evicted(btl_ib_hotel_guest_t *guest)
{
    btl_ib_timer_t *timer = BTL_IB_CONTAINER(guest, btl_ib_timer_t, guest);
    btl_ib_conn_t *conn = timer->conn;

    if (timer->kind == BTL_IB_TIMER_IDLE) {
        if (!btl_ib_conn_shrink(conn)) {
            btl_ib_failover_home(conn);
        }
    } else if (timer->kind == BTL_IB_TIMER_PACE) {
        btl_ib_conn_ready(conn);
    } else if (conn->state == BTL_IB_CONN_CLOSING) {
        btl_ib_conn_linger(conn);
    } else {
        loss_expired(conn);
    }
}

/* Is there room for connections that wait for the limits on all of them? */
static bool starved_may_go(const btl_ib_engine_t *engine)
{
    return !btl_ib_list_empty(&engine->starved) && !btl_ib_send_limits_full(engine);
}

static void push_ready(btl_ib_engine_t *engine)
{
    btl_ib_list_t turn;
    btl_ib_conn_t *conn;

    if (starved_may_go(engine)) {
        btl_ib_list_splice_head(&engine->ready, &engine->starved);
    }
    btl_ib_list_init(&turn); /* a connection that becomes ready again waits for the next turn */
    btl_ib_list_splice_tail(&turn, &engine->ready);
    engine->turn.sending = true;
    while ((conn = btl_ib_sched_pop(&turn)) != NULL) {
        btl_ib_send_push(conn);
    }
    engine->turn.sending = false;
}

__attribute__((noinline)) static void evict_due(btl_ib_engine_t *engine)
{
    btl_ib_hotel_guest_t *guest;

    for (int i = 0; i < EVICTIONS && (guest = btl_ib_hotel_evict(&engine->hotel)) != NULL;
         i++) {
        evicted(guest);
    }
    btl_ib_hotel_evictions_end(&engine->hotel);
}

static inline void evict_guests(btl_ib_engine_t *engine)
{
    if (btl_ib_hotel_evictions_begin(&engine->hotel, engine->clock.now)) {
        evict_due(engine);
    }
}

static void push_all(btl_ib_engine_t *engine)
{
    if (!btl_ib_list_empty(&engine->ready) || !btl_ib_list_empty(&engine->starved)) {
        push_ready(engine);
    }
}

/* Send what was coalesced: it has waited long enough. */
static void release_coalesced(btl_ib_engine_t *engine)
{
    btl_ib_conn_t *conn;

    while ((conn = BTL_IB_LIST_FIRST(btl_ib_conn_t, &engine->ready, ready)) != NULL
           && conn->coalesce.held > 0) {
        btl_ib_list_remove(&conn->ready);
        btl_ib_send_push(conn);
    }
}

/* Is there anything that only the application's own progress may do, because it runs callbacks? */
static bool has_deferred_work(const btl_ib_engine_t *engine)
{
    return !btl_ib_list_empty(&engine->backlog.messages) || !btl_ib_list_empty(&engine->whole)
           || !btl_ib_list_empty(&engine->unidentified.messages) || engine->turn.failure_pending;
}

__attribute__((noinline)) static uint32_t do_deferred_work(btl_ib_engine_t *engine)
{
    uint32_t count = btl_ib_input_stored(engine);

    if (engine->turn.failure_pending) {
        engine->turn.failure_pending = false;
        for (uint32_t i = 0; i < engine->rail_count; i++) {
            if (engine->rails[i]->health.failed && !engine->rails[i]->health.reported) {
                btl_ib_rail_report_failure(engine->rails[i]);
                count++;
            }
        }
    }
    return count;
}

static void release_senders(btl_ib_engine_t *engine)
{
    btl_ib_msg_t *msg;

    while ((msg = btl_ib_zcopy_release(engine)) != NULL) {
        btl_ib_completion_sent(&msg->out);
    }
}

/* ---- pauses of our own ---- */

/* A turn begins. Does it follow a pause, during which more may have come than one turn receives? */
static inline void begin_turn(btl_ib_engine_t *engine, uint64_t now)
{
    btl_ib_clock_turn(&engine->clock, now);
    if (btl_ib_pause_of(engine->clock.gap) > 0 && !btl_ib_is_behind(engine)) {
        engine->turn.behind_until =
            engine->clock.now + btl_ib_min_u32(engine->clock.gap, CATCH_UP_MOST);
        btl_ib_work_note(&engine->work);
    }
}

/* Acknowledgements may be among what is still to be received: timers that wait for them wait. */
static bool has_more_to_receive(const btl_ib_engine_t *engine, int received)
{
    return received > 0 && engine->clock.now < engine->turn.behind_until;
}

/* A turn after a pause ends. If nothing is left to be done, or no time, the next pause may begin at
 * once: so what waits to be coalesced leaves now. */
__attribute__((noinline)) static void catch_up(btl_ib_engine_t *engine, int received)
{
    const bool more = received > 0 || !btl_ib_list_empty(&engine->ready);

    if (!more || engine->clock.now >= engine->turn.behind_until) {
        engine->turn.behind_until = 0;
        release_coalesced(engine);
        btl_ib_ack_turn(engine, true);
    }
}

bool btl_ib_engine_behind(const btl_ib_engine_t *engine)
{
    return btl_ib_is_behind(engine);
}

/* ---- turns ---- */

/* What engine->work says, by all that it stands for. */
static bool work_waits(const btl_ib_engine_t *engine)
{
    return !btl_ib_list_empty(&engine->ready) || !btl_ib_list_empty(&engine->events)
           || !btl_ib_list_empty(&engine->starved) || !btl_ib_list_empty(&engine->rnr)
           || !btl_ib_list_empty(&engine->zcopy.sent)
           || !btl_ib_list_empty(&engine->deferred_free.gone)
           || !btl_ib_list_empty(&engine->retries.waiting) || has_deferred_work(engine)
           || btl_ib_is_behind(engine) || engine->drops != NULL || engine->rail_count != 1
           || engine->rails[0]->use.stands_by || !btl_ib_rail_usable(engine->rails[0]);
}

/* Is an acknowledgement of a list due, of which the most urgent is the first, after so many calls
 * that received nothing? */
static inline bool has_ack_due(const btl_ib_list_t *acks, uint64_t now, uint32_t idle_calls)
{
    return !btl_ib_list_empty(acks)
           && btl_ib_ack_tx_is_due(BTL_IB_CONTAINER(acks->next, btl_ib_ack_tx_t, link), now,
                                   idle_calls);
}

static inline bool has_any_ack_due(const btl_ib_engine_t *engine, uint32_t idle_calls)
{
    return has_ack_due(&engine->acks, engine->clock.now, idle_calls)
           || has_ack_due(&engine->acks_answered, engine->clock.now, idle_calls);
}

/* Has a turn nothing to do but to receive from the only rail, and what follows from that? If it
 * receives nothing, no acknowledgement is due either. */
static inline bool is_quiet(const btl_ib_engine_t *engine)
{
    return !engine->work.waits && !has_any_ack_due(engine, engine->turn.idle_calls + 1)
           && engine->clock.now < engine->turn.tick_at
           && engine->clock.now < btl_ib_hotel_next_due(&engine->hotel)
           && !engine->polled.in_hand;
}

/* What waits for a turn, in one that received so many datagrams, but for timers. */
__attribute__((noinline)) static void do_work(btl_ib_engine_t *engine, int received)
{
    if (!has_more_to_receive(engine, received)) {
        retry(engine);
    }
    push_all(engine);
    release_senders(engine);
    btl_ib_completion_callbacks(engine);
    if (!btl_ib_list_empty(&engine->rnr)) {
        btl_ib_rnr_turn(engine);
    }
}

/* A turn in which work waited ends. */
__attribute__((noinline)) static void end_work(btl_ib_engine_t *engine, int received)
{
    if (btl_ib_is_behind(engine)) {
        catch_up(engine, received);
    }
    if (engine->drops != NULL) {
        btl_ib_drops_turn(engine);
    }
    btl_ib_work_left(&engine->work, work_waits(engine));
}

/* What follows in a turn that received so many datagrams. */
static inline void finish_turn(btl_ib_engine_t *engine, int received)
{
    engine->turn.idle_calls = received > 0 ? 0 : engine->turn.idle_calls + 1;
    if (btl_ib_is_behind(engine)) {
        btl_ib_latency_release_bulk(&engine->latency);
    }
    if (!has_more_to_receive(engine, received)) {
        evict_guests(engine);
    }
    if (engine->work.waits) {
        do_work(engine, received);
    }
    if (has_any_ack_due(engine, engine->turn.idle_calls)) {
        btl_ib_ack_turn(engine, false);
    }
    if (engine->work.waits) {
        end_work(engine, received);
    }
}

/* A turn that had nothing to do but to receive from the only rail, and found one event: the message
 * that comes next, as it mostly is. Returns what that counts for; 0: it is something else, and
 * nothing was done. */
__attribute__((noinline)) static int turn_predicted(btl_ib_engine_t *engine)
{
    const uint32_t finished = engine->completion.finished;
    const uint64_t messages = engine->count.received_messages;
    const uint64_t bytes = engine->count.received_bytes;
    int done = 0;

    btl_ib_engine_enter(engine);
    if (handle_predicted(engine->rails[0])) {
        if (engine->latency.lane) {
            btl_ib_latency_turn(engine, messages, bytes);
        }
        finish_turn(engine, 1);
        done = 1 + (int) (engine->completion.finished - finished);
    }
    btl_ib_engine_leave(engine);
    return done;
}

/* A turn of the application's own. If it had nothing to do but to receive, `polled` events of the
 * only rail are in hand already; else 0. */
__attribute__((noinline)) static int turn(btl_ib_engine_t *engine, int burst, int polled)
{
    const uint32_t finished = engine->completion.finished;
    uint32_t late = 0;

    btl_ib_engine_enter(engine);
    if (polled == 0) {
        if (has_deferred_work(engine)) {
            late = do_deferred_work(engine);
        }
        /* its receiver may be idle, and what is received now need not wait for it */
        release_coalesced(engine);
    }
    const uint64_t messages = engine->count.received_messages;
    const uint64_t bytes = engine->count.received_bytes;
    const int received =
        polled > 0 ? poll_rail(engine->rails[0], burst, polled) : poll_rails(engine, burst);
    if (!btl_ib_list_empty(&engine->unidentified.messages)) {
        /* of many fewer are left, whatever comes */
        const bool many = engine->unidentified.bytes > engine->unidentified.bytes_max / 4;
        receive_unidentified(engine, burst + (many ? received : 0));
    }
    if (engine->latency.lane) {
        btl_ib_latency_turn(engine, messages, bytes);
    }
    finish_turn(engine, received);
    late += engine->completion.finished - finished;
    btl_ib_engine_leave(engine);
    return received + (int) late;
}

/* Most turns find nothing and have nothing to do: these end here. */
int btl_ib_engine_progress(btl_ib_engine_t *engine, uint64_t now, int burst)
{
    int polled = 0;
    int done = 0;

    begin_turn(engine, now);
    if (burst > 0 && is_quiet(engine)) {
        btl_ib_rail_t *rail = engine->rails[0];
        engine->turn.more = false;
        polled = poll_transport(engine, rail, engine->polled.events, batch_max(engine, burst));
        if (polled == 0) {
            note_empty(rail, &engine->clock);
            engine->turn.idle_calls++;
            btl_ib_latency_release_bulk(&engine->latency);
            return 0;
        }
        if (polled == 1 && burst > 1 && engine->predicts) {
            done = turn_predicted(engine);
        }
    }
    return done > 0 ? done : turn(engine, burst, polled);
}

int btl_ib_engine_async_progress(btl_ib_engine_t *engine, uint64_t now, int burst)
{
    begin_turn(engine, now);
    btl_ib_engine_enter(engine);
    engine->turn.async = true;
    btl_ib_latency_release_bulk(&engine->latency);
    engine->count.async_turns++;
    int received = poll_rails(engine, burst);
    if (!has_more_to_receive(engine, received)) {
        evict_guests(engine);
        retry(engine);
    }
    push_all(engine);
    btl_ib_ack_turn(engine, false);
    if (btl_ib_is_behind(engine)) {
        catch_up(engine, received);
    }
    engine->turn.async = false;
    btl_ib_engine_leave(engine);
    return received;
}

uint64_t btl_ib_engine_turned_at(const btl_ib_engine_t *engine)
{
    return engine->clock.turned_at;
}

/* When a turn of either kind has something to do. */
static uint64_t turn_due(const btl_ib_engine_t *engine)
{
    uint64_t due = btl_ib_hotel_next_due(&engine->hotel);
    const btl_ib_conn_t *conn = btl_ib_ack_tx_first(engine);

    if (conn != NULL) {
        uint64_t at = conn->ack.now ? engine->clock.now + RETRY_AFTER : conn->ack.at;
        due = at < due ? at : due;
    }
    if ((!btl_ib_list_empty(&engine->ready) || starved_may_go(engine))
        && engine->clock.now + RETRY_AFTER < due) {
        due = engine->clock.now + RETRY_AFTER;
    }
    return due;
}

uint64_t btl_ib_engine_next_due(const btl_ib_engine_t *engine)
{
    assert(engine->work.waits || !work_waits(engine));
    if (engine->turn.more || has_deferred_work(engine) || !btl_ib_list_empty(&engine->events)) {
        return engine->clock.now;
    }
    uint64_t due = turn_due(engine);
    const uint64_t zcopy_due = btl_ib_zcopy_due(engine);
    due = zcopy_due < due ? zcopy_due : due;
    /* Turns must come to notice that a port is down for too long: that time is measured by a clock
     * which only turns advance. */
    const uint64_t latest = engine->clock.now + BTL_IB_CLOCK_LONG_PAUSE;
    for (uint32_t i = 0; engine->config.down_limit != 0 && i < engine->rail_count; i++) {
        if (engine->rails[i]->health.down && !engine->rails[i]->health.failed && latest < due) {
            due = latest;
        }
    }
    return due;
}

bool btl_ib_engine_busy(const btl_ib_engine_t *engine)
{
    return btl_ib_hotel_guests(&engine->hotel) != engine->sched.active
           || btl_ib_ack_tx_first(engine) != NULL || !btl_ib_list_empty(&engine->ready);
}

uint64_t btl_ib_engine_async_due(const btl_ib_engine_t *engine)
{
    if (engine->turn.more) {
        return engine->clock.now;
    }
    return btl_ib_engine_busy(engine) ? turn_due(engine) : UINT64_MAX;
}
