/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What an engine does when nothing comes: with what it asks, how often, and when it gives a peer
 * up. */

#include <errno.h>

#include "btl_ib_loss.h"
#include "btl_ib_probe.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum { DEAF = 200 }; /* a tag without a receiver at host 1 */

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *conn; /* of host 0 with host 1: they know each other */
static btl_ib_loss_t *loss;

/* Two hosts without timers of their own: only what a test calls happens. */
static int set_up(void **state)
{
    bench = new_bench();
    acquaint(bench);
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    loss = &conn->loss;
    return 0;
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

/* Sends messages of these sizes, which are lost. */
static void lose(const uint32_t *sizes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bench_send(bench, 0, 1, sizes[i], 1);
    }
    bench_turn(bench, 0);
    bench_clear(&bench->wire);
}

/* The next probe becomes due. Returns how many datagrams leave. */
static uint32_t expire(void)
{
    engine->clock.now = loss->probe_base + btl_ib_loss_probe_timeout(conn);
    btl_ib_on_timeout(conn);
    return bench->wire.count;
}

static btl_ib_type_t type_of(const bench_datagram_t *datagram)
{
    return (btl_ib_type_t) (datagram->data[0] & 0xf);
}

/* The same. Returns how large the payload is of the one that leaves, which asks for an answer: that
 * of the message or chunk which it repeats; 0: it is an ACK. */
static uint32_t probed_size(void)
{
    assert_int_equal(expire(), 1);
    bench_datagram_t *probe = bench_pop(&bench->wire);
    const uint32_t size = type_of(probe) == BTL_IB_TYPE_ACK
                              ? 0
                              : probe->size - (uint32_t) sizeof(btl_ib_wire_header_t);

    assert_true(probe->data[1] & BTL_IB_FLAG_ACK_NOW);
    free(probe);
    return size;
}

/* The same of a copy that may be too large for the path: an ACK, which is not, asks too, if nothing
 * answered the probes before. */
static uint32_t probed_large(void)
{
    const uint32_t count = expire();
    bench_datagram_t *probe = bench_pop(&bench->wire);
    const uint32_t size = probe->size - (uint32_t) sizeof(btl_ib_wire_header_t);

    if (count > 1) {
        assert_int_equal(type_of(bench->wire.first), BTL_IB_TYPE_ACK);
        assert_true(bench->wire.first->data[1] & BTL_IB_FLAG_ACK_NOW);
        bench_clear(&bench->wire);
    }
    assert_true(probe->data[1] & BTL_IB_FLAG_ACK_NOW);
    free(probe);
    return size;
}

/* ---- with what ---- */

/* First the newest that is in flight, whose acknowledgement covers all before; then that which was
 * sent longest ago. From the fifth on every second one introduces us instead. */
TEST_WITH(newest_then_oldest, set_up, tear_down)
{
    static const uint32_t sizes[] = {30, 50, 70};
    static const uint32_t probed[] = {70, 30, 50, 70, 0, 30, 0, 50, 0, 70};

    lose(sizes, 3);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(loss->probes, i);
        assert_int_equal(loss->unanswered_probes, i);
        assert_int_equal(probed_size(), probed[i]);
    }
    assert_int_equal(bench_counters(bench, 0)->sent_probes, 10);
}

/* None is sent before it is due. */
TEST_WITH(not_before, set_up, tear_down)
{
    static const uint32_t size = 300;

    lose(&size, 1);
    engine->clock.now = loss->probe_base + btl_ib_loss_probe_timeout(conn) - 1;
    btl_ib_on_timeout(conn);
    assert_int_equal(bench->wire.count, 0);
    assert_int_equal(loss->probes, 0);
    engine->clock.now++;
    btl_ib_on_timeout(conn);
    assert_int_equal(bench->wire.count, 1);
    assert_true(btl_ib_hotel_guest_is_in(&loss->timer.guest)); /* for the answer */
    assert_int_equal(loss->probe_base, engine->clock.now);
}

/* If nothing is in flight an ACK asks, and one that introduces us says who we are. */
TEST_WITH(without_segments, set_up, tear_down)
{
    for (uint32_t i = 0; i < 8; i++) {
        btl_ib_loss_blocked(loss, engine->clock.awake, loss->probe_base);
        conn->pmtud.checking = true; /* so that it is not over */
        assert_int_equal(expire(), 1);
        bench_datagram_t *probe = bench_pop(&bench->wire);
        assert_true(probe->data[1] & BTL_IB_FLAG_ACK_NOW);
        assert_int_equal(type_of(probe), BTL_IB_TYPE_ACK);
        assert_int_equal((probe->data[1] & BTL_IB_FLAG_CONNECT) != 0, i >= 4 && i % 2 == 0);
        free(probe);
    }
    conn->pmtud.checking = false;
    assert_int_equal(expire(), 0); /* nothing waits any more */
    assert_int_equal(loss->blocked_since, 0);
}

/* Sends a message of so many bytes that the peer has no receiver for, and says so. */
static void defer(uint32_t size)
{
    bench->hosts[1].deaf[DEAF] = true;
    bench_send(bench, 0, 1, size, DEAF);
    for (uint32_t i = 0; conn->sentmap.deferred_count == 0 && i < 10; i++) {
        bench_turn(bench, i % 2);
        bench->now += 20;
        while (bench->wire.count > 0) {
            bench_deliver(bench, bench_pop(&bench->wire));
        }
    }
    bench_clear(&bench->wire);
    assert_int_equal(conn->sentmap.deferred_count, 1);
}

/* What the peer refused is asked with if there is nothing else. */
TEST_WITH(only_deferred_ones, set_up, tear_down)
{
    defer(70);
    loss->probes = 1;
    assert_int_equal(probed_size(), 70);
}

/* It has every fourth turn. */
TEST_WITH(deferred_ones, set_up, tear_down)
{
    static const uint32_t sizes[] = {30, 50};
    static const struct {
        uint32_t probes, size;
    } cases[] = {{0, 50}, {1, 30}, {2, 50}, {5, 30}, {9, 50}, {3, 70}};

    lose(sizes, 2);
    defer(70);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        loss->probes = cases[i].probes;
        assert_int_equal(probed_size(), cases[i].size);
    }
}

/* While anything is deferred every third one is for the oldest chunk: a peer without free buffers
 * accepts no other. */
TEST_WITH(the_oldest_chunk, set_up, tear_down)
{
    static const uint32_t sizes[] = {30, 3000};

    lose(sizes, 2);
    assert_int_equal(expire(), 1); /* its end */
    assert_in_range(bench->wire.first->size, 100, 1000);
    bench_clear(&bench->wire);
    loss->probes = 2;
    assert_int_equal(probed_size(), 30);
    defer(70);
    loss->probes = 1;
    assert_int_equal(probed_large(), 1472 - sizeof(btl_ib_wire_header_t)); /* sent long ago */
    loss->probes = 2; /* it was sent last by now */
    assert_int_equal(probed_large(), 1472 - sizeof(btl_ib_wire_header_t));
    loss->probes = 5;
    assert_int_equal(probed_large(), 1472 - sizeof(btl_ib_wire_header_t));
    loss->probes = 3;
    assert_int_equal(probed_size(), 70);
}

/* Where segments travel in parts the peer has room for the lowest of each channel only: they have
 * their turn, channel by channel, but not those that it refused. */
TEST_WITH(lowest_of_each_channel, set_up, tear_down)
{
    static const uint32_t sizes[] = {30, 1000, 50, 1200};

    lose(sizes, 4);
    const btl_ib_tx_window_t *window = &conn->tx[0].sentmap.window;
    btl_ib_segment_t *first = btl_ib_tx_window_at(window, window->first);
    conn->pmtud.parts = true;
    loss->probes = 1; /* from the first channel on */
    assert_int_equal(probed_size(), 30);
    loss->probes = 1;
    assert_int_equal(probed_size(), 30);
    loss->probes = 3; /* from the second on, where nothing is */
    assert_int_equal(probed_large(), 1000);
    loss->probes = 5;
    assert_int_equal(probed_large(), 1000);
    first->deferred = true;
    loss->probes = 1;
    assert_int_equal(probed_large(), 1000);
    first->deferred = false;
    conn->pmtud.parts = false;
}

/* A copy may be too large for the path: if nothing answers it an ACK asks as well. */
TEST_WITH(large_ones, set_up, tear_down)
{
    static const uint32_t size = 1400;

    lose(&size, 1);
    assert_int_equal(expire(), 1);
    bench_clear(&bench->wire);
    assert_int_equal(expire(), 2);
    assert_int_equal(type_of(bench->wire.first), BTL_IB_TYPE_DATA);
    assert_int_equal(type_of(bench->wire.first->next), BTL_IB_TYPE_ACK);
    assert_true(bench->wire.first->next->data[1] & BTL_IB_FLAG_ACK_NOW);
    bench_clear(&bench->wire);
}

/* A device that takes nothing has an ACK asked for. */
TEST_WITH(a_busy_device, set_up, tear_down)
{
    static const uint32_t size = 300;

    lose(&size, 1);
    bench->hosts[0].rails[0].busy = 1;
    assert_int_equal(probed_size(), 0);
    assert_int_equal(loss->probes, 1);
}

/* Bulk in a lane of its own that nothing answers, while other things are answered: the newest of it
 * asks, and an ACK, as it may be too large. */
TEST_WITH(only_bulk_is_missed, set_up, tear_down)
{
    static const uint32_t size =
        2 * (1472 - sizeof(btl_ib_wire_header_t) - sizeof(btl_ib_wire_chunk_t));

    lose(&size, 1);
    assert_false(btl_ib_list_empty(&conn->sentmap.sent[BTL_IB_SENT_BULK]));
    engine->clock.now += SECOND;
    loss->probe_base = loss->sample_at = engine->clock.now;
    loss->sample_echo = (uint32_t) engine->clock.now;
    btl_ib_on_timeout(conn);
    assert_int_equal(bench->wire.count, 0); /* there is one lane for all */
    engine->rails[0]->transport->attr.bulk_lane = true;
    btl_ib_on_timeout(conn);
    engine->rails[0]->transport->attr.bulk_lane = false;
    assert_int_equal(bench->wire.count, 2);
    assert_int_equal(bench->wire.first->size, 1472);
    assert_true(bench->wire.first->data[1] & BTL_IB_FLAG_ACK_NOW);
    assert_int_equal(type_of(bench->wire.first->next), BTL_IB_TYPE_ACK);
    assert_int_equal(bench_counters(bench, 0)->sent_probes, 0);
    bench_clear(&bench->wire);
}

/* ---- timeouts ---- */

static uint32_t restarts;

static void count_restart(btl_ib_cc_t *cc)
{
    restarts++;
}

/* From the second probe in a row on it is a timeout, which congestion control is told; of a peer
 * that pauses now and then from the third on. */
TEST_WITH(timeouts, set_up, tear_down)
{
    static const uint32_t size = 300;
    const btl_ib_cc_ops_t *const before = conn->cc.ops;
    btl_ib_cc_ops_t counting = *before;
    const uint64_t *timeouts = &bench_counters(bench, 0)->timeouts;

    counting.restart = count_restart;
    conn->cc.ops = &counting;
    loss->pauses = (btl_ib_pauses_t){0};
    lose(&size, 1);
    restarts = 0;
    (void) probed_size();
    assert_int_equal(*timeouts, 0);
    (void) probed_size();
    assert_int_equal(*timeouts, 1);
    assert_int_equal(conn->count.timeouts, 1);
    assert_int_equal(restarts, 1);
    (void) probed_size();
    assert_int_equal(restarts, 2);
    btl_ib_loss_restart_pto(loss);
    btl_ib_pauses_note(&loss->pauses, 3000, engine->clock.now);
    (void) probed_size();
    (void) probed_size();
    assert_int_equal(*timeouts, 3);
    assert_int_equal(restarts, 2);
    (void) probed_size();
    assert_int_equal(*timeouts, 4);
    assert_int_equal(restarts, 3);
    const uint32_t segments = conn->incast.segments;
    conn->incast.segments = 0; /* it only asks whether it is our turn */
    (void) probed_size();
    conn->incast.segments = segments;
    assert_int_equal(*timeouts, 4);
    assert_int_equal(restarts, 3);
    conn->cc.ops = before;
}

/* The silence begins with the first probe that nothing answers. */
TEST_WITH(silence_begins, set_up, tear_down)
{
    static const uint32_t size = 300;

    lose(&size, 1);
    engine->clock.awake += 1000;
    (void) probed_size();
    const uint64_t began = engine->clock.now, awake = engine->clock.awake;
    assert_int_equal(loss->silent_since, awake);
    assert_int_equal(loss->asked_at, began);
    engine->clock.awake += 1000;
    (void) probed_size();
    assert_int_equal(loss->silent_since, awake);
    assert_int_equal(loss->asked_at, began);
    loss->unanswered_probes = 0; /* it answers, but what waits does not go on */
    engine->clock.awake += 1000;
    (void) probed_size();
    assert_int_equal(loss->silent_since, awake + 2000);
}

/* ---- death ---- */

static uint64_t deaths_by(btl_ib_death_t reason)
{
    return bench->hosts[0].deaths[reason];
}

static uint64_t deaths(void)
{
    uint64_t sum = 0;

    for (int i = 0; i <= BTL_IB_DEATH_HOST_LOST; i++) {
        sum += deaths_by((btl_ib_death_t) i);
    }
    return sum;
}

/* A probe becomes due after so many that nothing answered. */
static void expire_after(uint32_t probes)
{
    loss->probes = loss->unanswered_probes = probes;
    (void) expire();
    bench_clear(&bench->wire);
}

/* Nobody counts as dead after fewer than four probes, without a limit, before it, or in a turn of
 * the thread, which can tell nobody. */
TEST_WITH(silence_limit, set_up, tear_down)
{
    static const uint32_t size = 300;
    const uint64_t limit = engine->config.silence_limit;

    lose(&size, 1);
    engine->clock.awake += limit - 1;
    expire_after(BTL_IB_SILENT_PROBES);
    engine->clock.awake++;
    expire_after(BTL_IB_SILENT_PROBES - 1);
    engine->config.silence_limit = 0;
    expire_after(BTL_IB_SILENT_PROBES);
    engine->config.silence_limit = limit;
    engine->turn.async = true;
    expire_after(BTL_IB_SILENT_PROBES);
    engine->turn.async = false;
    assert_int_equal(deaths(), 0);
    expire_after(BTL_IB_SILENT_PROBES);
    assert_int_equal(deaths_by(BTL_IB_DEATH_SILENCE), 1);
}

/* It was heard in the second half of the limit: then its receiver does not go on. But one that does
 * not know us yet says nothing else while it computes. */
TEST_WITH(heard_lately, set_up, tear_down)
{
    static const uint32_t size = 300;
    const uint64_t limit = engine->config.silence_limit;

    lose(&size, 1);
    engine->clock.awake += limit;
    loss->heard_at = engine->clock.awake - limit / 2 + 1;
    conn->identity.bound = false;
    expire_after(BTL_IB_SILENT_PROBES);
    assert_int_equal(deaths(), 0);
    conn->identity.bound = true;
    expire_after(BTL_IB_SILENT_PROBES);
    assert_int_equal(deaths_by(BTL_IB_DEATH_NO_PROGRESS), 1);
}

/* Heard in the first half it was silent for long. */
TEST_WITH(heard_long_ago, set_up, tear_down)
{
    static const uint32_t size = 300;
    const uint64_t limit = engine->config.silence_limit;

    lose(&size, 1);
    engine->clock.awake += limit;
    loss->heard_at = engine->clock.awake - limit / 2;
    conn->identity.bound = false;
    expire_after(BTL_IB_SILENT_PROBES);
    assert_int_equal(deaths_by(BTL_IB_DEATH_SILENCE), 1);
}

/* One that answers even while it computes, and does not, is dead if a route says that nobody is
 * there. */
TEST_WITH(refused, set_up, tear_down)
{
    static const uint32_t size = 300;

    lose(&size, 1);
    engine->clock.awake += BTL_IB_REFUSED_GAP;
    conn->validation.promised = true;
    conn->validation.refused_at = engine->clock.now;
    loss->silent_since = engine->clock.awake - BTL_IB_REFUSED_GAP + 1;
    expire_after(BTL_IB_ASK_PROBES);
    loss->silent_since--;
    expire_after(BTL_IB_ASK_PROBES - 1);
    conn->validation.promised = false;
    expire_after(BTL_IB_ASK_PROBES);
    conn->validation.promised = true;
    conn->validation.refused_at = 0;
    expire_after(BTL_IB_ASK_PROBES);
    assert_int_equal(deaths(), 0);
    conn->validation.refused_at = engine->clock.now;
    loss->silent_since = engine->clock.awake - BTL_IB_REFUSED_GAP;
    expire_after(BTL_IB_ASK_PROBES);
    assert_int_equal(deaths_by(BTL_IB_DEATH_REFUSED), 1);
}

/* One that has never answered, though it promised to, is given up after the timeout for that. */
TEST_WITH(never_answered, set_up, tear_down)
{
    static const uint32_t size = 300;

    lose(&size, 1);
    engine->clock.ran += 10 * SECOND;
    conn->validation.promised = true;
    conn->validation.answered = true; /* it did */
    conn->validation.asked_at = engine->clock.ran - 10 * SECOND;
    engine->config.connect_timeout = 10 * SECOND;
    expire_after(1);
    conn->validation.answered = false;
    engine->turn.async = true;
    expire_after(1);
    engine->turn.async = false;
    assert_int_equal(deaths(), 0);
    expire_after(1);
    assert_int_equal(deaths_by(BTL_IB_DEATH_UNANSWERED), 1);
}

/* ---- callbacks ---- */

static btl_ib_engine_ops_t ending; /* the bench's, but for what a test sets */
static uint32_t told_unsent, told_silent;

static void end_unsent(void *context, btl_ib_conn_t *unsent, int error)
{
    told_unsent++;
    btl_ib_conn_destroy(unsent, engine->clock.now);
}

static void note_silent(void *context, btl_ib_conn_t *silent, const btl_ib_silence_t *silence)
{
    told_silent++;
}

/* Nothing is told, and no probe sent, of a connection that its user ended when it was told that
 * nothing can be sent. */
TEST_WITH(ended_by_its_user, set_up, tear_down)
{
    static const uint32_t size = 300;
    const uint64_t after = engine->config.unanswered_after;

    lose(&size, 1);
    ending = *engine->ops;
    ending.unsent = end_unsent;
    ending.silent = note_silent;
    engine->ops = &ending;
    told_unsent = told_silent = 0;
    engine->clock.awake += after;
    engine->clock.ran += after;
    conn->validation.unsent_since = engine->clock.awake - after;
    conn->validation.unsent_error = EPERM;
    conn->validation.silent_at = engine->clock.ran - after;
    const uint64_t sent = engine->count.sent_probes;
    expire_after(BTL_IB_SILENT_PROBES);
    assert_int_equal(told_unsent, 1);
    assert_int_equal(told_silent, 0);
    assert_int_equal(engine->count.sent_probes, sent);
}

/* ---- the budget of copies for peers that never answered ---- */

/* The next probe becomes due, and the budget has earned nothing since. */
static uint32_t expire_for_budget(void)
{
    engine->retries.filled_at = loss->probe_base + btl_ib_loss_probe_timeout(conn);
    return expire();
}

/* After some probes that nothing answered others go by another flow, also those that waited for the
 * budget. */
TEST_WITH(another_flow, NULL, tear_down)
{
    static const uint32_t size = 300;

    for (int waits = 0; waits < 2; waits++) {
        bench = new_bench();
        bench->hosts[0].attr.flows = 2;
        acquaint(bench);
        engine = bench->hosts[0].engine;
        conn = bench_conn(bench, 0, 1);
        loss = &conn->loss;
        lose(&size, 1);
        bench->hosts[0].rails[0].dead_flows = 1; /* the usual one */
        conn->identity.peer_knows = waits == 0;
        uint32_t probes = 0;
        while (bench->wire.count == 0 && probes < 10) {
            if (waits == 1) {
                engine->retries.shares = 0;
                assert_int_equal(expire_for_budget(), 0);
                btl_ib_retry_budget_add(&engine->retries, BTL_IB_RETRY_SHARE, 1);
                btl_ib_probe_retry(engine);
            } else {
                (void) expire();
            }
            probes++;
        }
        assert_in_range(probes, 2, 5);
        bench_clear(&bench->wire);
        conn->identity.peer_knows = true;
        if (waits == 0) {
            end(bench);
        }
    }
}

/* If it is empty a probe waits in line, and leaves when the budget has one. */
TEST_WITH(budget, set_up, tear_down)
{
    static const uint32_t size = 300;
    uint32_t copies = 0;

    lose(&size, 1);
    conn->identity.peer_knows = false;
    engine->clock.awake += 77;
    while (expire_for_budget() > 0 && copies < 1000) {
        bench_clear(&bench->wire);
        copies++;
    }
    assert_in_range(copies, 1, BTL_IB_RETRIES_SAVED);
    assert_ptr_equal(btl_ib_list_first(&engine->retries.waiting), &loss->in_line);
    assert_true(btl_ib_hotel_guest_is_in(&loss->timer.guest)); /* is the peer dead? */
    assert_int_equal(loss->probes, copies);
    assert_int_equal(expire_for_budget(), 0); /* it waits already */
    const uint64_t looks_at = loss->timer.guest.due;
    btl_ib_loss_set_timer(conn); /* as what is sent meanwhile does */
    assert_int_equal(loss->timer.guest.due, looks_at);
    btl_ib_probe_retry(engine);
    assert_int_equal(bench->wire.count, 0);
    assert_false(btl_ib_list_empty(&engine->retries.waiting));
    btl_ib_retry_budget_add(&engine->retries, 2 * BTL_IB_RETRY_SHARE, BTL_IB_RETRIES_SAVED);
    btl_ib_probe_retry(engine);
    assert_int_equal(bench->wire.count, 1);
    assert_true(btl_ib_list_empty(&engine->retries.waiting));
    assert_int_equal(loss->probes, copies + 1);
    bench_clear(&bench->wire);
    assert_int_equal(expire_for_budget(), 1); /* of the other one */
    bench_clear(&bench->wire);
    assert_int_equal(expire_for_budget(), 0);
    conn->identity.peer_knows = true; /* it answered, so nothing is due */
    btl_ib_probe_retry(engine);
    assert_int_equal(bench->wire.count, 0);
    assert_true(btl_ib_list_empty(&engine->retries.waiting));
    assert_int_equal(expire(), 1); /* and it needs no budget */
    bench_clear(&bench->wire);
}

/* Who comes later does not take what others wait for. */
TEST_WITH(budget_in_order, set_up, tear_down)
{
    static const uint32_t size = 300;
    btl_ib_list_t earlier;

    lose(&size, 1);
    conn->identity.peer_knows = false;
    btl_ib_list_init(&earlier);
    btl_ib_list_push_tail(&engine->retries.waiting, &earlier);
    assert_int_equal(expire(), 0);
    assert_false(btl_ib_list_empty(&loss->in_line));
    btl_ib_list_remove(&earlier);
    btl_ib_probe_retry(engine);
    assert_int_equal(bench->wire.count, 1);
    bench_clear(&bench->wire);
    conn->identity.peer_knows = true;
}

UNIT_MAIN(NULL, NULL)
