/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What can be seen of an engine, and what must agree in it. No other file of the tests of whole
 * engines includes its private headers. */

#include "bench.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "btl_ib_ack_read.h"
#include "btl_ib_sched.h"
#include "btl_ib_state.h"
#include "counted.h"

/* ---- what tests ask for ---- */

bench_channel_t bench_channel(bench_t *bench, uint32_t i, uint32_t peer, uint32_t channel)
{
    const btl_ib_conn_t *conn = bench_conn(bench, i, peer);

    bench_channel_t seen = {0};

    BENCH_REQUIRE(conn != NULL);
    if (channel < conn->peer_queues->count) {
        seen.first = conn->tx[channel].sentmap.window.first;
        seen.next = conn->tx[channel].sentmap.window.next;
        seen.limit = conn->tx[channel].limit;
        seen.in_flight = conn->tx[channel].sentmap.in_flight;
    }
    if (channel < conn->rail->queues.count) {
        seen.expected = conn->rx[channel].window.next;
        seen.granted = conn->rx[channel].credit.limit;
        seen.grant = conn->rx[channel].credit.grant;
        seen.used = conn->rx[channel].credit.used;
        seen.pool_granted = conn->rail->credit[channel].granted;
        seen.pool_depth = conn->rail->credit[channel].depth;
    }
    return seen;
}

bench_peer_t bench_peer(bench_t *bench, uint32_t i, uint32_t peer)
{
    const btl_ib_conn_t *conn = bench_conn(bench, i, peer);

    BENCH_REQUIRE(conn != NULL);
    return (bench_peer_t){
        .id = conn->identity.id,
        .token = conn->identity.rx_token,
        .epoch = conn->identity.epoch,
        .peer_epoch = conn->identity.peer_epoch,
        .rail = conn->route.via->index,
        .in_flight = conn->sentmap.in_flight,
        .unacked = conn->sentmap.unacked,
        .deferred = conn->sentmap.deferred_count,
        .refused = conn->rnr.runs == NULL ? 0 : conn->rnr.runs->count,
        .fragment = conn->input.fragments.finished.next,
        .replies = conn->replies.streams,
        .datagram_max = conn->pmtud.datagram_max,
        .gso_segments = conn->cc.gso_segments,
        .srtt = btl_ib_rtt_smoothed(&conn->loss.rtt, 0),
        .reo_wnd_mult = conn->loss.reo_wnd_mult,
        .poll_gap = conn->ack.echo_poll_gap,
        .answers = conn->replies.ring != NULL,
        .no_tag = conn->loss.no_tag_at != 0,
        .disconnected = conn->loss.disconnected,
        .doubted = conn->validation.route_refused != 0 || conn->validation.refused_at != 0,
        .shrunk = conn->idle.shrunk,
    };
}

uint32_t bench_datagram_max(bench_t *bench, uint32_t i, uint32_t peer)
{
    return bench_peer(bench, i, peer).datagram_max;
}

bench_totals_t bench_totals(const bench_host_t *host)
{
    return (bench_totals_t){
        .unacked = host->engine->budget.unacked,
        .bytes_unacked = host->engine->budget.bytes_unacked,
        .reassemblies = host->engine->reasm.extra,
        .epoch = host->engine->incarnations.newest,
    };
}

bool bench_region_lent(const bench_host_t *host, const btl_ib_region_key_t *key)
{
    return btl_ib_regions_lent(&host->engine->regions, key);
}

bool bench_rail_failed(const bench_host_t *host, uint32_t rail)
{
    return host->engine->rails[rail]->health.failed;
}

/* ---- what tests bring about ---- */

void bench_set_window(bench_t *bench, uint32_t i, uint32_t peer, uint32_t segments)
{
    btl_ib_conn_t *conn = bench_conn(bench, i, peer);

    conn->cc.window = segments;
    btl_ib_conn_ready(conn);
}

void bench_process_ack(bench_t *bench, uint32_t i, uint32_t peer, bench_forgery_t *forgery)
{
    const btl_ib_view_t view = {
        .type = BTL_IB_TYPE_ACK,
        .payload = forgery->body,
        .size = forgery->size - (uint32_t) sizeof(forgery->header),
    };

    btl_ib_ack_received(bench_conn(bench, i, peer), &view);
}

void bench_set_srtt(bench_t *bench, uint32_t i, uint32_t peer, uint32_t us)
{
    bench_conn(bench, i, peer)->loss.rtt.srtt8 = 8 * us;
}

void bench_search_mtu(bench_t *bench, uint32_t i, uint32_t peer)
{
    bench_conn(bench, i, peer)->pmtud.search_at = bench->now;
}

/* The same of the connection that joins a further rail of both. */
void bench_search_mtu_beside(bench_t *bench, uint32_t i, uint32_t peer, uint32_t rail)
{
    btl_ib_conn_t *conn = btl_ib_conn_find(bench->hosts[i].engine, rail,
                                           bench_conn(bench, i, peer)->identity.name, rail);

    BENCH_REQUIRE(conn != NULL);
    conn->pmtud.search_at = bench->now;
}

void bench_listen(bench_host_t *host, uint64_t us)
{
    host->engine->clock.awake += us;
}

void bench_forget_ended(bench_host_t *host)
{
    for (uint64_t i = 0; i < BTL_IB_TOMBSTONES; i++) {
        const btl_ib_tombstone_t other = {.name = UINT64_MAX - i, .epoch = 1};
        btl_ib_tombstones_add(&host->engine->tombstones, &other);
    }
}

static uint32_t undone;

static void count_undo(btl_ib_cc_t *cc)
{
    undone++;
}

const uint32_t *bench_count_undo(bench_t *bench, uint32_t i, uint32_t peer)
{
    static btl_ib_cc_ops_t counting;
    btl_ib_conn_t *conn = bench_conn(bench, i, peer);

    counting = *conn->cc.ops;
    counting.undo = count_undo;
    conn->cc.ops = &counting;
    undone = 0;
    return &undone;
}

/* ---- writing it down ---- */

typedef struct writer {
    char *to;
    size_t room;
} writer_t;

static void write_down(writer_t *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void write_down(writer_t *w, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int len = vsnprintf(w->to, w->room, format, args);
    va_end(args);
    BENCH_REQUIRE(len >= 0 && (size_t) len < w->room);
    w->to += len;
    w->room -= (size_t) len;
}

static uint32_t length(const btl_ib_list_t *list)
{
    uint32_t n = 0;

    for (const btl_ib_list_t *item = btl_ib_list_first(list); item != NULL;
         item = btl_ib_list_next(list, item)) {
        n++;
    }
    return n;
}

static void write_channels(writer_t *w, const btl_ib_conn_t *conn)
{
    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        const btl_ib_tx_channel_t *tx = &conn->tx[i];
        write_down(w, "  tx %u: first %u next %u limit %u in flight %u pending %u\n", i,
                   tx->sentmap.window.first, tx->sentmap.window.next, tx->limit,
                   tx->sentmap.in_flight, length(&tx->submit.pending));
    }
    for (uint32_t i = 0; i < conn->rail->queues.count; i++) {
        const btl_ib_rx_channel_t *rx = &conn->rx[i];
        write_down(w, "  rx %u: next %u top %u above %u grant %u used %u limit %u\n", i,
                   rx->window.next, rx->window.top, rx->window.above, rx->credit.grant,
                   rx->credit.used, rx->credit.limit);
    }
}

static uint32_t sent(const btl_ib_conn_t *conn)
{
    uint32_t n = 0;

    for (int i = 0; i < btl_ib_sent_lists(conn); i++) {
        n += length(btl_ib_sent_list(conn, i));
    }
    return n;
}

static void write_conn(writer_t *w, const btl_ib_conn_t *conn, bool clocks)
{
    write_down(
        w, "conn %x of %" PRIx64 ": state %d bound %d knows %d adopted %d epoch %u peer %x %u\n",
        conn->identity.id, conn->identity.name, (int) conn->state, conn->identity.bound,
        conn->identity.peer_knows, conn->adopted, conn->identity.epoch, conn->identity.peer_id,
        conn->identity.peer_epoch);
    write_down(w, "  in flight %u unacked %u sent %u lost %u probes %u window %u SRTT %u/%u\n",
               conn->sentmap.in_flight, conn->sentmap.unacked, sent(conn),
               length(&conn->sentmap.lost) + length(&conn->sentmap.deferred), conn->loss.probes,
               conn->cc.window, conn->loss.rtt.srtt8, conn->loss.rtt.rttvar4);
    write_down(w, "  fragments %u finished %u above %u\n", length(&conn->input.fragments.fragments),
               conn->input.fragments.finished.next, conn->input.fragments.finished.above);
    if (clocks) {
        write_down(
            w, "  heard %" PRIu64 " echo %u ack due %x no tag %" PRIu64 " %d refused %" PRIu64 "\n",
            conn->loss.heard_at, conn->ack.echo, conn->ack.due, conn->loss.no_tag_at,
            conn->ack.no_tag, conn->loss.refused_since);
    }
    write_channels(w, conn);
}

static void write_conns(writer_t *w, const btl_ib_list_t *conns, bool clocks)
{
    for (const btl_ib_list_t *item = btl_ib_list_first(conns); item != NULL;
         item = btl_ib_list_next(conns, item)) {
        write_conn(w, BTL_IB_CONTAINER(item, btl_ib_conn_t, all), clocks);
    }
}

void bench_state(const bench_host_t *host, bool clocks, char out[BENCH_STATE_BYTES])
{
    const btl_ib_engine_t *engine = host->engine;
    writer_t w = {.to = out, .room = BENCH_STATE_BYTES};

    write_down(&w,
               "memory %zu passive %u in flight %u bytes %" PRIu64 " reassembly %u strange %" PRIu64
               "\n",
               host->bytes, engine->admission.passive, engine->budget.unacked,
               engine->budget.bytes_unacked, engine->reasm.extra, host->strange);
    write_conns(&w, &engine->conns, clocks);
    write_conns(&w, &engine->closing, clocks);
}

/* ---- what must agree ---- */

void bench_check_counters(const bench_host_t *host)
{
    const btl_ib_counters_t *count = btl_ib_engine_counters(host->engine);

    BENCH_REQUIRE(bench_counted(count) == count->received_datagrams);
    BENCH_REQUIRE(bench_miscounted(host->engine) == NULL);
}

static void check_tx(const btl_ib_conn_t *conn, uint32_t *in_flight)
{
    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        const btl_ib_tx_channel_t *tx = &conn->tx[i];
        uint32_t span = tx->sentmap.window.next - tx->sentmap.window.first;
        BENCH_REQUIRE(span <= tx->sentmap.window.size && span <= BTL_IB_WINDOW_LIMIT);
        BENCH_REQUIRE(tx->sentmap.in_flight <= span);
        if (conn->peer_queues->q[i].type == BTL_IB_QUEUE_PER_PEER) {
            BENCH_REQUIRE(tx->limit - tx->sentmap.window.next <= conn->peer_queues->q[i].num);
        }
        *in_flight += tx->sentmap.in_flight;
    }
}

static void check_rx(const btl_ib_conn_t *conn, uint64_t *granted)
{
    for (uint32_t i = 0; i < conn->rail->queues.count; i++) {
        const btl_ib_rx_channel_t *rx = &conn->rx[i];
        uint32_t span = rx->window.top - rx->window.next;
        BENCH_REQUIRE(span <= rx->window.bits && rx->window.above <= span);
        BENCH_REQUIRE((span == 0) == (rx->window.above == 0));
        if (conn->rail->queues.q[i].type == BTL_IB_QUEUE_PER_PEER) {
            uint32_t received = rx->window.next + rx->window.above;
            BENCH_REQUIRE(rx->credit.grant <= conn->rail->queues.q[i].num);
            BENCH_REQUIRE(rx->credit.used <= rx->credit.grant);
            BENCH_REQUIRE(rx->credit.limit - received == rx->credit.grant - rx->credit.used);
            granted[conn->rail->index * BTL_IB_QUEUES_MAX + i] +=
                (uint64_t) rx->credit.grant * rx->credit.cost;
        }
    }
}

/* How many fragments are in buffers that all share; *own: how many are not. */
static uint32_t count_extra(const btl_ib_list_t *fragments, uint32_t *own)
{
    uint32_t extra = 0;

    for (const btl_ib_list_t *item = btl_ib_list_first(fragments); item != NULL;
         item = btl_ib_list_next(fragments, item)) {
        const btl_ib_reasm_t *reasm = BTL_IB_CONTAINER(item, btl_ib_reasm_t, link);
        extra += reasm->extra;
        *own += !reasm->extra;
    }
    return extra;
}

static uint32_t check_fragments(const btl_ib_conn_t *conn)
{
    uint32_t own = 0;
    uint32_t extra = count_extra(&conn->input.fragments.fragments, &own);

    extra += count_extra(&conn->input.fragments.of_ended, &own);
    BENCH_REQUIRE(own <= 1 && !conn->input.fragments.busy);
    return extra;
}

static void check_store(const btl_ib_backlog_t *store)
{
    uint64_t bytes = 0;

    for (const btl_ib_list_t *item = btl_ib_list_first(&store->messages); item != NULL;
         item = btl_ib_list_next(&store->messages, item)) {
        const btl_ib_backlog_entry_t *stored = BTL_IB_CONTAINER(item, btl_ib_backlog_entry_t, link);
        bytes += stored->cost;
    }
    BENCH_REQUIRE(bytes == store->bytes && bytes <= store->bytes_max);
}

void bench_check_accounts(const bench_host_t *host)
{
    const btl_ib_engine_t *engine = host->engine;
    uint64_t granted[BENCH_RAILS * BTL_IB_QUEUES_MAX] = {0};
    uint32_t unacked = 0, passive = 0, extra = 0;

    check_store(&engine->backlog);
    for (const btl_ib_list_t *item = btl_ib_list_first(&engine->conns); item != NULL;
         item = btl_ib_list_next(&engine->conns, item)) {
        const btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, all);
        uint32_t of_conn = 0;
        passive += !conn->adopted;
        check_tx(conn, &of_conn);
        check_rx(conn, granted);
        extra += check_fragments(conn);
        BENCH_REQUIRE(of_conn == conn->sentmap.in_flight);
        BENCH_REQUIRE(length(&conn->sentmap.deferred) == conn->sentmap.deferred_count);
        BENCH_REQUIRE(sent(conn) + length(&conn->sentmap.lost) + conn->sentmap.deferred_count
                      == conn->sentmap.unacked);
        unacked += conn->sentmap.unacked - conn->sentmap.skips;
    }
    BENCH_REQUIRE(unacked == engine->budget.unacked);
    BENCH_REQUIRE(passive == engine->admission.passive);
    BENCH_REQUIRE(extra == engine->reasm.extra && extra <= engine->reasm.extra_max);
    for (uint32_t r = 0; r < engine->rail_count; r++) {
        for (uint32_t i = 0; i < engine->rails[r]->queues.count; i++) {
            BENCH_REQUIRE(granted[r * BTL_IB_QUEUES_MAX + i]
                          == engine->rails[r]->credit[i].granted);
        }
    }
    BENCH_REQUIRE(engine->deferred_free.depth == 0 && engine->reserved.segment == NULL
                  && !engine->polled.in_hand);
}
