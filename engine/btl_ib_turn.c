/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A turn, which is one progress call: receives what transports have, runs timers, sends what may
 * leave. */

#include "btl_ib_engine.h"

#include "btl_ib_completion.h"
#include "btl_ib_failover.h"
#include "btl_ib_goodput.h"
#include "btl_ib_latency.h"
#include "btl_ib_predict.h"
#include "btl_ib_rail.h"
#include "btl_ib_sched.h"
#include "btl_ib_ack_send.h"
#include "btl_ib_ack_write.h"
#include "btl_ib_drops.h"
#include "btl_ib_keepalive.h"
#include "btl_ib_probe.h"
#include "btl_ib_receive.h"
#include "btl_ib_conn.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_input.h"
#include "btl_ib_send_limits.h"
#include "btl_ib_deferred_free.h"
#include "btl_ib_list.h"
#include "btl_ib_loss.h"
#include "btl_ib_rnr_receiver.h"
#include "btl_ib_state.h"
#include "btl_ib_submit.h"
#include "btl_ib_zcopy.h"

#include <assert.h>
#include <errno.h>

enum {
    EVICTIONS = 64,        /* timers that expire in one turn, at most */
    RETRY_AFTER = 10,      /* us after which a full transport is tried again */
    CATCH_UP_MOST = 20000, /* us of turns after a pause; less after a shorter one */
    SENT_MUCH = 128,       /* datagrams, which may take longer than BTL_IB_PAUSE_MIN */
    STANDBY_EACH = 50000,  /* us between polls of rails that stand by: first contacts come */
};

/* Does what is done only now and then. Returns whether rails that stand by are polled. */
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
    if (now >= turn->sample_at && !turn->async && engine->clock.gap < BTL_IB_GOODPUT_EACH
        && !btl_ib_is_behind(engine)) {
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

/* Polls rails in rotation, so that one that is flooded does not starve the others. */
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
            datagrams += btl_ib_rail_poll(rail, burst - datagrams, 0);
        }
    }
    return datagrams;
}

/* ---- progress ---- */

/* Serves a guest that was evicted. Not inlined, and neither is do_deferred_work(): with all that
 * they call in it, the compiler keeps nothing of btl_ib_engine_progress() in registers, where every
 * message passes. */
__attribute__((noinline)) static void evicted(btl_ib_hotel_guest_t *guest)
{
    btl_ib_timer_t *timer = BTL_IB_CONTAINER(guest, btl_ib_timer_t, guest);
    btl_ib_conn_t *conn = timer->conn;

    if (timer->kind == BTL_IB_TIMER_IDLE) {
        if (!btl_ib_conn_shrink(conn)) {
            btl_ib_failover_probe_own(conn);
        }
    } else if (timer->kind == BTL_IB_TIMER_PACE) {
        btl_ib_conn_ready(conn);
    } else if (conn->state == BTL_IB_CONN_CLOSING) {
        btl_ib_conn_linger(conn);
    } else {
        btl_ib_on_timeout(conn);
    }
}

/* True if there is room for connections that wait for the limits on all of them. */
static bool starved_may_go(const btl_ib_engine_t *engine)
{
    return !btl_ib_list_empty(&engine->starved) && !btl_ib_send_limits_full(engine);
}

static void push_ready(btl_ib_engine_t *engine)
{
    btl_ib_list_t turn;
    btl_ib_conn_t *conn;

    if (btl_ib_list_empty(&engine->ready) && btl_ib_list_empty(&engine->starved)) {
        return;
    }
    if (starved_may_go(engine)) {
        btl_ib_list_splice_head(&engine->ready, &engine->starved);
    }
    btl_ib_list_init(&turn); /* a connection that becomes ready again waits for the next turn */
    btl_ib_list_splice_tail(&turn, &engine->ready);
    engine->turn.sending = true;
    while ((conn = btl_ib_sched_pop(&turn)) != NULL) {
        btl_ib_flush(conn);
    }
    engine->turn.sending = false;
}

__attribute__((noinline)) static void evict_due(btl_ib_engine_t *engine)
{
    btl_ib_hotel_guest_t *guest;

    for (int i = 0; i < EVICTIONS && (guest = btl_ib_hotel_evict(&engine->hotel)) != NULL; i++) {
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

/* Sends what was coalesced: it has waited long enough. */
static void release_coalesced(btl_ib_engine_t *engine)
{
    btl_ib_conn_t *conn;

    while ((conn = BTL_IB_LIST_FIRST(btl_ib_conn_t, &engine->ready, ready)) != NULL
           && conn->coalesce.held > 0) {
        btl_ib_list_remove(&conn->ready);
        btl_ib_flush(conn);
    }
}

/* True if there is anything that only the application's own progress may do, because it runs
 * callbacks. */
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

/* ---- pauses of our own ---- */

/* Begins a turn. After a pause, during which more may have come than one turn receives, the engine
 * is behind for a while. */
static inline void begin_turn(btl_ib_engine_t *engine, uint64_t now)
{
    btl_ib_clock_turn(&engine->clock, now);
    if (btl_ib_pause_of(engine->clock.away) > 0 && !btl_ib_is_behind(engine)) {
        engine->turn.behind_until =
            engine->clock.now + btl_ib_min_u32(engine->clock.away, CATCH_UP_MOST);
        btl_ib_work_note(&engine->work);
    }
}

/* True if acknowledgements may be among what is still to be received: timers that wait for them
 * wait. */
static bool has_more_to_receive(const btl_ib_engine_t *engine, int received)
{
    return received > 0 && engine->clock.now < engine->turn.behind_until;
}

/* Ends a turn after a pause. If nothing is left to be done, or no time, the next pause may begin at
 * once: so what waits to be coalesced leaves now. */
__attribute__((noinline)) static void catch_up(btl_ib_engine_t *engine, int received)
{
    const bool more = received > 0 || !btl_ib_list_empty(&engine->ready);
    const uint32_t pause = btl_ib_pause_of(engine->clock.away);

    if (received > 0 && pause > 0
        && engine->clock.turns > 1) { /* they may have waited for this turn */
        engine->count.pauses++;
        engine->count.paused_us += pause;
    }
    if (!more || engine->clock.now >= engine->turn.behind_until) {
        engine->turn.behind_until = 0;
        release_coalesced(engine);
        btl_ib_ack_turn(engine, true);
    }
}

uint64_t btl_ib_engine_away(const btl_ib_engine_t *engine)
{
    return engine->clock.away;
}

uint64_t btl_ib_engine_datagrams(const btl_ib_engine_t *engine)
{
    return engine->count.sent_datagrams + engine->count.received_datagrams;
}

bool btl_ib_engine_behind(const btl_ib_engine_t *engine)
{
    return btl_ib_is_behind(engine);
}

/* ---- turns ---- */

/* True if anything waits that engine->work stands for. */
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

/* True if an acknowledgement of a list, of which the most urgent is the first, is due after
 * `idle_calls` calls that received nothing. */
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

/* True if a turn has nothing to do but to receive from the only rail, and what follows from that.
 * If it receives nothing, no acknowledgement is due either. */
static inline bool is_quiet(const btl_ib_engine_t *engine)
{
    return !engine->work.waits && !has_any_ack_due(engine, engine->turn.idle_calls + 1)
           && engine->clock.now < engine->turn.tick_at
           && engine->clock.now < btl_ib_hotel_next_due(&engine->hotel) && !engine->polled.in_hand;
}

/* Does what waits for a turn, in one that received so many datagrams, but for timers. */
__attribute__((noinline)) static void do_work(btl_ib_engine_t *engine, int received)
{
    btl_ib_msg_t *msg;

    if (!has_more_to_receive(engine, received)) {
        btl_ib_probe_retry(engine);
    }
    push_ready(engine);
    while ((msg = btl_ib_zcopy_release(engine)) != NULL) { /* its sender may go on */
        btl_ib_completion_sent(&msg->out);
    }
    btl_ib_completion_callbacks(engine);
    if (!btl_ib_list_empty(&engine->rnr)) {
        btl_ib_rnr_turn(engine);
    }
}

/* Ends a turn in which work waited. */
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

/* Does what follows in a turn that received so many datagrams. */
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

/* Takes the one event of a turn that had nothing to do but to receive from the only rail: the
 * message that comes next, as it mostly is. Returns what that counts for; 0: it is something else,
 * and nothing was done. */
__attribute__((noinline)) static int turn_predicted(btl_ib_engine_t *engine)
{
    const uint32_t finished = engine->completion.finished;
    const uint64_t messages = engine->count.received_messages;
    const uint64_t bytes = engine->count.received_bytes;
    btl_ib_rail_t *rail = engine->rails[0];
    const btl_ib_event_t *event = &engine->polled.events[0]; /* which stays while in hand */
    const btl_ib_polled_batch_t batch = btl_ib_rail_begin_batch(rail);
    int done = 0;

    engine->turn.batch = batch.number;
    engine->turn.poll_gap = batch.poll_gap;
    engine->turn.pause = batch.pause;
    btl_ib_engine_enter(engine);
    engine->polled.in_hand = true;
    const bool taken = event->type == BTL_IB_EVENT_RECV && btl_ib_predict(rail, event);
    engine->polled.in_hand = false;
    if (taken) {
        rail->transport->ops->repost(rail->transport, &event->buffer, 1);
        if (!btl_ib_list_empty(&engine->events)) {
            btl_ib_completion_callbacks(engine);
        }
        if (engine->latency.lane) {
            btl_ib_latency_turn(engine, messages, bytes);
        }
        finish_turn(engine, 1);
        done = 1 + (int) (engine->completion.finished - finished);
    }
    btl_ib_engine_leave(engine);
    return done;
}

/* Makes a turn of the application's own. If it had nothing to do but to receive, `polled` events of
 * the only rail are in hand already; else 0. */
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
        polled > 0 ? btl_ib_rail_poll(engine->rails[0], burst, polled) : poll_rails(engine, burst);
    if (!btl_ib_list_empty(&engine->unidentified.messages)) {
        /* of many fewer are left, whatever comes */
        const bool many = engine->unidentified.bytes > engine->unidentified.bytes_max / 4;
        btl_ib_receive_unidentified(engine, burst + (many ? received : 0));
    }
    if (engine->latency.lane) {
        btl_ib_latency_turn(engine, messages, bytes);
    }
    finish_turn(engine, received);
    late += engine->completion.finished - finished;
    btl_ib_engine_leave(engine);
    return received + (int) late;
}

/* Makes one turn. Most turns find nothing and have nothing to do: these end here. */
int btl_ib_engine_progress(btl_ib_engine_t *engine, uint64_t now, int burst)
{
    int polled = 0;
    int done = 0;

    btl_ib_account(engine);
    begin_turn(engine, now);
    if (burst > 0 && is_quiet(engine)) {
        btl_ib_rail_t *rail = engine->rails[0];
        engine->turn.more = false;
        polled = btl_ib_rail_poll_transport(engine, rail, engine->polled.events,
                                            btl_ib_rail_batch_max(engine, burst));
        if (polled == 0) {
            btl_ib_rail_note_empty(rail, &engine->clock);
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
    btl_ib_account(engine);
    begin_turn(engine, now);
    btl_ib_engine_enter(engine);
    engine->turn.async = true;
    btl_ib_latency_release_bulk(&engine->latency);
    engine->count.async_turns++;
    int received = poll_rails(engine, burst);
    if (!has_more_to_receive(engine, received)) {
        evict_guests(engine);
        btl_ib_probe_retry(engine);
    }
    push_ready(engine);
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

bool btl_ib_engine_has_sent_much(const btl_ib_engine_t *engine)
{
    return engine->count.sent_datagrams - engine->turn.sent_told > SENT_MUCH;
}

void btl_ib_engine_call_ended(btl_ib_engine_t *engine, uint64_t now)
{
    engine->turn.sent_told = engine->count.sent_datagrams;
    btl_ib_clock_advance(&engine->clock, now);
}

/* Returns when a turn of either kind has something to do. */
static uint64_t turn_due(const btl_ib_engine_t *engine)
{
    uint64_t due = btl_ib_hotel_next_due(&engine->hotel);
    const btl_ib_conn_t *conn = btl_ib_ack_tx_first(engine);

    if (btl_ib_has_unaccounted(engine)) {
        return engine->clock.now;
    }
    if (conn != NULL) {
        uint64_t at = conn->ack.at_once ? engine->clock.now + RETRY_AFTER : conn->ack.at;
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
           || btl_ib_ack_tx_first(engine) != NULL || !btl_ib_list_empty(&engine->ready)
           || btl_ib_has_unaccounted(engine);
}

bool btl_ib_engine_has_rma(const btl_ib_engine_t *engine)
{
    return engine->op_ids.running > 0 || btl_ib_engine_serves(engine);
}

bool btl_ib_engine_awaits(const btl_ib_engine_t *engine)
{
    return engine->budget.unacked > 0 || btl_ib_engine_has_rma(engine);
}

uint64_t btl_ib_engine_async_due(const btl_ib_engine_t *engine)
{
    if (engine->turn.more) {
        return engine->clock.now;
    }
    return btl_ib_engine_busy(engine) ? turn_due(engine) : UINT64_MAX;
}
