/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What the simulator sees that is private in an engine: no other file of it includes those
 * headers. */

#include <string.h>

#include "btl_ib_state.h"
#include "btl_ib_failover.h"
#include "btl_ib_loss.h"
#include "btl_ib_predict.h"
#include "btl_ib_route.h"
#include "sim.h"

uint32_t inside_rail(const btl_ib_conn_t *conn)
{
    return conn->route.via->index;
}

bool inside_by_its_own(const btl_ib_conn_t *conn)
{
    return conn->route.via == conn->rail;
}

bool inside_own_is_valid(const btl_ib_conn_t *conn)
{
    return conn->validation.valid;
}

bool inside_fail_over(btl_ib_conn_t *conn)
{
    return btl_ib_failover(conn);
}

uint32_t inside_datagram_max(const btl_ib_conn_t *conn)
{
    return conn->pmtud.datagram_max;
}

uint64_t inside_token(const btl_ib_conn_t *conn)
{
    return conn->identity.tx_token;
}

void inside_ask_no_more(btl_ib_engine_t *engine)
{
    engine->config.keepalive = 0;
}

void inside_spoil(btl_ib_conn_t *conn, const char *error)
{
    btl_ib_engine_t *engine = conn->engine;

    if (strcmp(error, "BUDGET") == 0) {
        engine->budget.unacked++;
    } else if (strcmp(error, "GRANTED") == 0) {
        engine->rails[0]->credit[0].granted++;
    } else if (strcmp(error, "BUSY") == 0) {
        engine->rails[0]->credit[0].busy++;
    } else if (strcmp(error, "UNLISTED") == 0) {
        memset(engine->routes.to, 0, engine->routes.size * sizeof(engine->routes.to[0]));
    } else if (strcmp(error, "ADDRESS_LEFT") == 0) {
        btl_ib_addr_t address;
        (void) conn->rail->transport->ops->addr_add(conn->rail->transport, conn->route.published,
                                                    conn->route.published_len, &address);
    } else if (strcmp(error, "SEGMENT_LOST") == 0) {
        (void) btl_ib_pool_get(&conn->rail->pool, 64);
    } else if (strcmp(error, "OTHER_PEER") == 0) {
        conn->identity.peer_epoch++;
    } else if (strcmp(error, "IN_FLIGHT") == 0) {
        conn->sentmap.in_flight++;
    } else if (strcmp(error, "CREDIT_MADE") == 0) {
        conn->tx[0].limit += 1000;
    } else {
        conn->tx[0].limit--;
    }
}

/* ---- the invariants that btl_ib_state.h states ---- */

#define HOLDS(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return #condition;                                                                     \
        }                                                                                          \
    } while (0)

/* Segments of one connection, by the lists that they are in. */
typedef struct segments {
    uint32_t count, skips;
    uint32_t in_flight; /* without SKIPs */
    uint32_t of_channel[BTL_IB_QUEUES_MAX];
    uint64_t bytes;
} segments_t;

static const char *check_list(const btl_ib_conn_t *conn, const btl_ib_list_t *list, bool lost,
                              bool deferred, segments_t *sum)
{
    uint64_t before = 0;

    BTL_IB_LIST_FOREACH (const btl_ib_segment_t, segment, list, link) {
        const btl_ib_tx_window_t *window = &conn->tx[segment->channel].sentmap.window;
        const bool skip = segment->type == BTL_IB_TYPE_SKIP;
        HOLDS(segment->lost == lost && segment->deferred == deferred);
        HOLDS(lost || segment->order > before);
        before = segment->order;
        HOLDS(btl_ib_tx_window_at(window, segment->seq) == segment);
        sum->count++;
        sum->skips += skip;
        sum->bytes += skip ? 0 : segment->size + segment->outside;
        if (!lost && !skip) {
            sum->in_flight++;
            sum->of_channel[segment->channel]++;
        }
    }
    return NULL;
}

static const char *check_sentmap(const btl_ib_conn_t *conn, segments_t *sum)
{
    const btl_ib_sentmap_t *map = &conn->sentmap;
    const char *broken = NULL;

    for (int i = 0; i < btl_ib_sent_lists(conn) && broken == NULL; i++) {
        const int path = i < BTL_IB_SENT_LISTS ? 0 : i + 1 - BTL_IB_SENT_LISTS;
        const uint32_t earlier = sum->in_flight;
        broken = check_list(conn, btl_ib_sent_list(conn, i), false, false, sum);
        BTL_IB_LIST_FOREACH (const btl_ib_segment_t, segment, btl_ib_sent_list(conn, i), link) {
            HOLDS(segment->path == path);
        }
        HOLDS(path == 0 || conn->capped.paths->path[path].in_flight == sum->in_flight - earlier);
    }
    broken = broken == NULL ? check_list(conn, &map->lost, true, false, sum) : broken;
    const uint32_t before = sum->count;
    broken = broken == NULL ? check_list(conn, &map->deferred, true, true, sum) : broken;
    if (broken != NULL) {
        return broken;
    }
    HOLDS(map->deferred_count == sum->count - before);
    HOLDS(map->unacked == sum->count && map->skips == sum->skips);
    HOLDS(map->in_flight == sum->in_flight);
    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        HOLDS(conn->tx[i].sentmap.in_flight == sum->of_channel[i]);
        HOLDS(
            !btl_ib_seq_before(conn->tx[i].sentmap.window.next, conn->tx[i].sentmap.window.first));
        HOLDS(conn->peer_queues->q[i].type != BTL_IB_QUEUE_PER_PEER
              || !btl_ib_seq_before(conn->tx[i].limit, conn->tx[i].sentmap.window.next));
    }
    return NULL;
}

/* Both lookups by address find a connection, and what its datagrams name does. */
static const char *check_tables(const btl_ib_conn_t *conn)
{
    const btl_ib_route_t *route = &conn->route;
    const btl_ib_conn_t *of = NULL, *to = NULL;

    HOLDS(btl_ib_table_by_id(&conn->engine->table, conn->identity.id) == conn);
    while (route->address != BTL_IB_ADDR_UNKNOWN && of != conn) {
        of = btl_ib_route_of(conn->rail, route->address, of);
        HOLDS(of != NULL);
    }
    while (route->to != BTL_IB_ADDR_UNKNOWN && to != conn) {
        to = btl_ib_route_to(route->via, route->to, to);
        HOLDS(to != NULL);
    }
    return NULL;
}

static const char *check_loss(const btl_ib_conn_t *conn)
{
    const btl_ib_loss_t *loss = &conn->loss;

    HOLDS(!btl_ib_loss_waits(conn) || btl_ib_hotel_guest_is_in(&loss->timer.guest));
    HOLDS(loss->unanswered_probes <= loss->probes);
    HOLDS(loss->reo_wnd_mult <= 64 && loss->reo_wnd_persist < 16);
    return NULL;
}

static const char *check_conn(const btl_ib_conn_t *conn, segments_t *sum)
{
    const char *broken = check_sentmap(conn, sum);

    broken = broken == NULL ? check_tables(conn) : broken;
    broken = broken == NULL ? check_loss(conn) : broken;
    if (broken != NULL) {
        return broken;
    }
    BTL_IB_LIST_FOREACH (const btl_ib_refragment_t, parts, &conn->input.parts, link) {
        const btl_ib_rx_window_t *window = &conn->rx[parts->channel].window;
        HOLDS(btl_ib_rx_window_classify(window, parts->seq) == BTL_IB_SEQ_NEW);
    }
    HOLDS(conn->ack.due >> conn->rail->queues.count == 0);
    HOLDS(btl_ib_list_empty(&conn->ack.link) == (conn->ack.due == 0));
    HOLDS(conn->coalesce.held == 0 || !btl_ib_list_empty(&conn->ready));
    HOLDS(!conn->identity.peer_knows || conn->identity.bound);
    HOLDS(conn->route.own
          == (conn->route.via == conn->rail && conn->route.to == conn->route.address));
    for (uint32_t i = 0; i < conn->rail->queues.count; i++) {
        const btl_ib_rx_window_t *window = &conn->rx[i].window;
        const btl_ib_credit_t *credit = &conn->rx[i].credit;
        HOLDS(window->above < window->top - window->next || window->above == 0);
        HOLDS((window->above == 0) == (window->top == window->next));
        if (conn->rail->queues.q[i].type == BTL_IB_QUEUE_PER_PEER) {
            HOLDS(!btl_ib_seq_before(credit->limit, window->top));
            HOLDS(!btl_ib_seq_before(credit->limit, credit->told) && credit->used <= credit->grant);
            /* as window.pml: what was granted is outstanding or used */
            HOLDS(!btl_ib_conn_alive(conn)
                  || credit->limit - window->next - window->above + credit->used == credit->grant);
        }
    }
    return NULL;
}

/* The most urgent acknowledgement is the first, and none waits for longer than it may. */
static const char *check_acks(const btl_ib_engine_t *engine, const btl_ib_list_t *acks)
{
    uint64_t before = 0;
    bool at_once = true;

    BTL_IB_LIST_FOREACH (const btl_ib_conn_t, conn, acks, ack.link) {
        HOLDS(at_once || !conn->ack.at_once);
        at_once = conn->ack.at_once;
        HOLDS(at_once || conn->ack.at >= before);
        before = at_once ? before : conn->ack.at;
        HOLDS(conn->ack.at <= engine->clock.now + engine->config.ack_delay);
    }
    return NULL;
}

const char *inside_broken(const btl_ib_engine_t *engine)
{
    uint64_t granted[BTL_IB_RAILS_MAX][BTL_IB_QUEUES_MAX] = {{0}};
    uint32_t busy[BTL_IB_RAILS_MAX][BTL_IB_QUEUES_MAX] = {{0}};
    segments_t all = {0};

    HOLDS(!btl_ib_has_unaccounted(engine));
    BTL_IB_LIST_FOREACH (const btl_ib_conn_t, conn, &engine->conns, all) {
        segments_t sum = {0};
        const char *broken = check_conn(conn, &sum);
        if (broken != NULL) {
            return broken;
        }
        all.count += sum.count - sum.skips;
        all.bytes += sum.bytes;
    }
    HOLDS(engine->budget.unacked == all.count && engine->budget.bytes_unacked == all.bytes);
    const char *late = check_acks(engine, &engine->acks);
    late = late == NULL ? check_acks(engine, &engine->acks_answered) : late;
    if (late != NULL) {
        return late;
    }
    const btl_ib_list_t *lists[] = {&engine->conns, &engine->closing, &engine->deferred_free.gone};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        BTL_IB_LIST_FOREACH (const btl_ib_conn_t, conn, lists[i], all) {
            for (uint32_t q = 0; q < conn->rail->queues.count; q++) {
                const btl_ib_credit_t *credit = &conn->rx[q].credit;
                granted[conn->rail->index][q] += (uint64_t) credit->grant * credit->cost;
                busy[conn->rail->index][q] += credit->busy;
            }
        }
    }
    for (uint32_t i = 0; i < engine->rail_count; i++) {
        for (uint32_t q = 0; q < engine->rails[i]->queues.count; q++) {
            HOLDS(engine->rails[i]->credit[q].granted == granted[i][q]);
            HOLDS(engine->rails[i]->credit[q].busy == busy[i][q]);
        }
    }
    return NULL;
}

/* ---- rest: nothing is under way, nothing is owed ---- */

/* Buffers for fragments that a connection's incomplete messages have beside its own. */
static uint32_t extra_buffers(const btl_ib_conn_t *conn)
{
    const btl_ib_list_t *lists[] = {&conn->input.fragments.fragments,
                                    &conn->input.fragments.of_ended};
    uint32_t extra = 0;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        BTL_IB_LIST_FOREACH (const btl_ib_reasm_t, reasm, lists[i], link) {
            extra += reasm->extra;
        }
    }
    return extra;
}

/* Segments that are not in the lists of their pools. */
static uint32_t segments_out(const btl_ib_pool_t *pool)
{
    uint32_t out = 0;

    for (int i = 0; i < BTL_IB_SEGMENT_KINDS; i++) {
        out += pool->kind[i].made;
        BTL_IB_LIST_FOREACH (const btl_ib_segment_t, segment, &pool->kind[i].free, link) {
            out--;
        }
    }
    return out;
}

const char *inside_unfinished(const btl_ib_engine_t *engine)
{
    uint32_t extra = 0, out = 0, unacked = 0;

    HOLDS(btl_ib_list_empty(&engine->closing));
    HOLDS(btl_ib_list_empty(&engine->deferred_free.gone));
    HOLDS(btl_ib_list_empty(&engine->whole));
    HOLDS(btl_ib_list_empty(&engine->starved));
    HOLDS(btl_ib_list_empty(&engine->ready));
    HOLDS(btl_ib_list_empty(&engine->acks) && btl_ib_list_empty(&engine->acks_answered));
    HOLDS(btl_ib_list_empty(&engine->events));
    HOLDS(engine->backlog.bytes == 0 && btl_ib_list_empty(&engine->backlog.messages));
    HOLDS(engine->unidentified.bytes == 0);
    HOLDS(engine->zcopy.count == 0 && btl_ib_list_empty(&engine->zcopy.sent));
    HOLDS(engine->reserved.segment == NULL);
    HOLDS(engine->budget.unacked == 0 && engine->budget.bytes_unacked == 0);
    HOLDS(engine->op_ids.running == 0 && btl_ib_list_empty(&engine->op_ids.peers));
    BTL_IB_LIST_FOREACH (const btl_ib_conn_t, conn, &engine->conns, all) {
        extra += extra_buffers(conn);
        unacked += conn->sentmap.unacked;
    }
    for (uint32_t i = 0; i < engine->rail_count; i++) {
        unacked += rail_sending((const rail_t *) engine->rails[i]->transport);
        out += segments_out(&engine->rails[i]->pool);
    }
    HOLDS(out <= unacked);
    HOLDS(engine->reasm.extra == extra);
    return NULL;
}

static const char *sender_unfinished(const btl_ib_conn_t *conn)
{
    HOLDS(conn->sentmap.unacked == 0 && conn->sentmap.deferred_count == 0);
    HOLDS(conn->coalesce.held == 0);
    HOLDS(conn->ops.count == 0 && conn->ops.answers == 0 && conn->replies.streams == 0);
    HOLDS(!btl_ib_loss_waits(conn));
    for (uint32_t i = 0; i < conn->peer_queues->count; i++) {
        const btl_ib_tx_channel_t *tx = &conn->tx[i];
        HOLDS(btl_ib_list_empty(&tx->submit.pending));
        HOLDS(tx->sentmap.window.first == tx->sentmap.window.next);
    }
    return NULL;
}

static const char *receiver_unfinished(const btl_ib_conn_t *conn)
{
    HOLDS(conn->ack.due == 0);
    HOLDS(btl_ib_list_empty(&conn->input.fragments.fragments));
    HOLDS(btl_ib_list_empty(&conn->input.fragments.of_ended));
    HOLDS(btl_ib_list_empty(&conn->input.parts));
    HOLDS(btl_ib_list_empty(&conn->rnr.link));
    for (uint32_t i = 0; i < conn->rail->queues.count; i++) {
        HOLDS(conn->rx[i].window.above == 0);
        HOLDS(conn->rail->queues.q[i].type != BTL_IB_QUEUE_PER_PEER
              || !btl_ib_credit_due(&conn->rx[i].credit, false));
    }
    return NULL;
}

const char *inside_ends_differ(const btl_ib_conn_t *sender, const btl_ib_conn_t *receiver,
                               bool lossless)
{
    /* Credits that were given back: nobody asks for ever, the next traffic tells it. */
    if (!lossless && sender->sentmap.skips > 0) {
        return NULL;
    }
    const btl_ib_identity_t *identity = &sender->identity, *peer = &receiver->identity;
    const char *what = sender_unfinished(sender);

    HOLDS(!identity->bound
          || (identity->peer_id == peer->id && identity->peer_epoch == peer->epoch
              && identity->rx_token == peer->tx_token && identity->version == peer->version));
    what = what == NULL ? receiver_unfinished(receiver) : what;
    if (what != NULL) {
        return what;
    }
    for (uint32_t i = 0; i < sender->peer_queues->count; i++) {
        const btl_ib_tx_channel_t *tx = &sender->tx[i];
        const btl_ib_credit_t *credit = &receiver->rx[i].credit;
        HOLDS(tx->sentmap.window.next == receiver->rx[i].window.next);
        if (sender->peer_queues->q[i].type == BTL_IB_QUEUE_PER_PEER) {
            const uint32_t unreported = credit->limit - credit->told;
            HOLDS(!btl_ib_seq_before(credit->told, tx->limit));
            HOLDS(!lossless
                  || (tx->limit == credit->told
                      && tx->limit - tx->sentmap.window.next
                             == credit->grant - credit->used - unreported));
        }
    }
    return NULL;
}
