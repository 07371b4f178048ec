/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Rails, progress, and the events of the transports. */

#include "btl_ib_min.h"
#include "btl_ib_state.h"

#include <errno.h>
#include <string.h>

enum {
    LONG_PAUSE = 1000 * 1000,   /* us between two turns: for the rest it was we who were away */
    REFUSED_LONG = 100 * 1000,  /* us of nothing but refusals: believe them, */
    REFUSED_ROW = 10000 * 1000, /* us: if one follows the other so soon */
    EVICTIONS = 64,             /* timers in one turn */
    QUEUE_BORNE =
        250, /* us of what a receiver has yet to take in that are no sign of a network's queue */
    RETRY_AFTER = 10,    /* us: when a full transport is worth another try */
    SEGMENTS_EXTRA = 64, /* buffers for what is not counted in flight: ACK, CLOSE */
};

/* ---- making and unmaking ---- */

void btl_ib_engine_config_default(btl_ib_engine_config_t *config)
{
    *config = (btl_ib_engine_config_t){
        .eager_max = 64 * 1024,
        .ack_delay = 50,
        .rto_min = 250,
        .rto_max = 200 * 1000,
        .rto_initial = 2000,
        .silence_limit = UINT64_C(900) * 1000 * 1000,
        .depth_peer = 16384,
        .depth_total = 24576,
        .depth_bytes = 32 * 1024 * 1024,
        .window_max = 49152,
        .passive_max = 4096,
        .lookups_max = 2000,
        .reassembly_max = 512,
        .ops_max = 128,
        .store_max = 4 * 1024 * 1024,
        .credit_init = 16,
        .credit_pool = 4096,
        .first_seq = 1,
        .idle_after = 2 * 1000 * 1000,
    };
}

static bool config_is_possible(const btl_ib_engine_config_t *config)
{
    return config->eager_max > 0 && config->rto_min > 0 && config->rto_min <= config->rto_max
           && config->rto_initial > 0 && config->depth_peer > 0 && config->depth_total > 0
           && config->depth_bytes > 0 && config->window_max > 0
           && config->window_max <= BTL_IB_WINDOW_LIMIT - BTL_IB_SKIP_MAX && config->credit_init > 0
           && config->ops_max > 0 && config->ops_max <= BTL_IB_OPS_MAX && config->idle_after > 0
           && btl_ib_guard_ops(config->guard) != NULL
           && (config->aead != NULL || !btl_ib_guard_ops(config->guard)->keyed);
}

btl_ib_engine_t *btl_ib_engine_create(const btl_ib_engine_config_t *config,
                                      const btl_ib_engine_ops_t *ops, void *ops_context)
{
    if (!config_is_possible(config)) {
        if (config->log.print != NULL) {
            config->log.print(config->log.context, 1, "the engine's limits are impossible");
        }
        return NULL;
    }
    btl_ib_engine_t *engine = ops->zalloc(ops_context, sizeof(*engine));
    if (engine == NULL) {
        return NULL;
    }
    engine->config = *config;
    engine->ops = ops;
    engine->ops_context = ops_context;
    engine->awake = 1;
    engine->mem = (btl_ib_mem_t){ops->zalloc, ops->free, ops_context};
    btl_ib_guard_init(&engine->guard, config->guard, config->aead, &engine->count);
    btl_ib_hotel_init(&engine->hotel, 0);
    btl_ib_table_init(&engine->table, &engine->mem);
    btl_ib_reasm_pool_init(&engine->reasm, &engine->mem, config->eager_max, config->reassembly_max);
    btl_ib_store_init(&engine->store, &engine->mem, config->store_max);
    btl_ib_graves_init(&engine->graves, &engine->mem);
    btl_ib_regions_init(&engine->regions, &engine->mem, &config->region_secret);
    btl_ib_list_init(&engine->conns);
    btl_ib_list_init(&engine->ready);
    btl_ib_list_init(&engine->starved);
    btl_ib_list_init(&engine->acks);
    btl_ib_list_init(&engine->whole);
    btl_ib_list_init(&engine->refused);
    btl_ib_list_init(&engine->closing);
    btl_ib_list_init(&engine->gone);
    btl_ib_list_init(&engine->events);
    btl_ib_list_init(&engine->tables);
    return engine;
}

static void free_all(btl_ib_list_t *conns)
{
    btl_ib_list_t *item;

    while ((item = btl_ib_list_first(conns)) != NULL) {
        btl_ib_conn_free(BTL_IB_CONTAINER(item, btl_ib_conn_t, all));
    }
}

/* What a connection still holds, without telling anybody. */
static void strip_all(btl_ib_engine_t *engine)
{
    for (btl_ib_list_t *item = btl_ib_list_first(&engine->conns); item != NULL;
         item = btl_ib_list_next(&engine->conns, item)) {
        btl_ib_conn_strip(BTL_IB_CONTAINER(item, btl_ib_conn_t, all));
    }
    while (btl_ib_list_pop(&engine->events) != NULL) {
    }
}

void btl_ib_engine_destroy(btl_ib_engine_t *engine)
{
    btl_ib_list_t *item;

    strip_all(engine);
    free_all(&engine->conns);
    free_all(&engine->closing);
    free_all(&engine->gone);
    btl_ib_graves_fini(&engine->graves);
    btl_ib_regions_fini(&engine->regions);
    btl_ib_store_fini(&engine->store);
    btl_ib_reasm_pool_fini(&engine->reasm);
    btl_ib_table_fini(&engine->table);
    while ((item = btl_ib_list_pop(&engine->tables)) != NULL) {
        btl_ib_free(&engine->mem, BTL_IB_CONTAINER(item, btl_ib_table_entry_t, link));
    }
    for (uint32_t i = 0; i < engine->rail_count; i++) {
        btl_ib_rail_t *rail = engine->rails[i];
        rail->transport->ops->stop(rail->transport);
        btl_ib_pool_fini(&rail->pool);
        rail->transport->ops->close(rail->transport);
        btl_ib_free(&engine->mem, rail);
    }
    engine->ops->free(engine->ops_context, engine);
}

static uint32_t rx_depth(const btl_ib_transport_t *transport, uint32_t size)
{
    return transport->ops->rx_depth != NULL ? transport->ops->rx_depth(transport, size)
                                            : transport->attr.rx_depth;
}

/* Credits are promises of buffers: as many for each queue as the transport can hold if all of them are
 * full, and no more than the configuration allows. */
static uint32_t credit_depth(const btl_ib_engine_t *engine, const btl_ib_transport_t *transport,
                             const btl_ib_queue_table_t *queues)
{
    const uint64_t whole = UINT64_C(1) << 32;
    uint64_t each = 0; /* of the whole: what one datagram of each queue takes */
    uint32_t limit = engine->config.credit_pool;

    for (uint32_t i = 0; i < queues->count; i++) {
        uint32_t depth = rx_depth(transport, queues->q[i].size);
        each += whole / (depth > 0 ? depth : 1);
    }
    uint32_t share = (uint32_t) (whole / each);

    share = share == 0 ? 1 : share;
    return limit != 0 && limit < share ? limit : share;
}

/* Segments not acknowledged, and what is not counted there: ACKs, CLOSEs, and sealed copies that the
 * transport still reads. */
static uint32_t segments_max(const btl_ib_engine_t *engine, const btl_ib_transport_t *transport)
{
    uint32_t copies = engine->guard.ops->apart ? transport->attr.tx_depth + BTL_IB_BATCH : 0;

    return engine->config.depth_total + SEGMENTS_EXTRA + copies;
}

int btl_ib_engine_add_rail(btl_ib_engine_t *engine, btl_ib_transport_t *transport,
                           const btl_ib_queue_table_t *queues)
{
    uint32_t least = btl_ib_engine_datagram_min(engine->guard.kind);

    if (engine->rail_count == BTL_IB_RAILS_MAX) {
        return -ENOSPC;
    }
    if (btl_ib_queues_check(queues) != 0
        || queues->q[queues->count - 1].size > transport->attr.max_datagram
        || queues->q[queues->count - 1].size < least) {
        BTL_IB_LOG(engine, 1,
                   "%s: the largest receive queue must hold at least %u bytes, and no more than a "
                   "datagram, which is %u",
                   transport->name, least, transport->attr.max_datagram);
        return -EINVAL;
    }
    btl_ib_rail_t *rail = btl_ib_zalloc(&engine->mem, sizeof(*rail));
    if (rail == NULL) {
        return -ENOMEM;
    }
    rail->engine = engine;
    rail->transport = transport;
    rail->index = engine->rail_count;
    rail->queues = *queues;
    rail->cc = btl_ib_cc_choose(engine->config.cc, transport->attr.reliable);
    const uint32_t depth = credit_depth(engine, transport, queues);
    for (uint32_t i = 0; i < queues->count; i++) {
        if (queues->q[i].type == BTL_IB_QUEUE_PER_PEER) {
            rail->queues.q[i].init =
                btl_ib_credit_initial(&queues->q[i], engine->config.credit_init);
            rail->credit[i].depth = depth;
        }
    }
    btl_ib_pool_init(&rail->pool, &engine->mem, transport, segments_max(engine, transport));
    engine->rails[engine->rail_count] = rail;
    return (int) engine->rail_count++;
}

void btl_ib_engine_rail_info(const btl_ib_engine_t *engine, uint32_t rail, btl_ib_peer_info_t *info)
{
    const btl_ib_transport_t *transport = engine->rails[rail]->transport;

    memset(info, 0, sizeof(*info));
    info->name = engine->config.name;
    info->secret = engine->config.secret;
    info->guard = engine->config.guard;
    info->key = engine->config.key;
    info->rail = rail;
    info->ack_delay = engine->config.ack_delay;
    info->max_datagram = transport->attr.max_datagram;
    info->address_len = transport->address_len;
    memcpy(info->address, transport->address, transport->address_len);
    info->queues = engine->rails[rail]->queues;
}

/* ---- events of the transports ---- */

/* The next living connection of a rail, to any address if `from` is unknown. Whoever gives one up
 * must ask again from the start: the callback may have changed everything. */
static btl_ib_conn_t *living(const btl_ib_rail_t *rail, btl_ib_addr_t from, btl_ib_list_t *after)
{
    const btl_ib_list_t *conns = &rail->engine->conns;

    for (btl_ib_list_t *item = after != NULL ? btl_ib_list_next(conns, after)
                                             : btl_ib_list_first(conns);
         item != NULL; item = btl_ib_list_next(conns, item)) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, all);
        if (conn->rail == rail && btl_ib_conn_alive(conn)
            && (from == BTL_IB_ADDR_UNKNOWN || conn->address == from)) {
            return conn;
        }
    }
    return NULL;
}

/* The host at `from` says that nobody is there. Believed if it lasts: a port may be late. */
static void refused(btl_ib_rail_t *rail, btl_ib_addr_t from)
{
    btl_ib_engine_t *engine = rail->engine;
    btl_ib_conn_t *conn = from == BTL_IB_ADDR_UNKNOWN ? NULL : living(rail, from, NULL);

    while (conn != NULL) {
        btl_ib_list_t *after = &conn->all;
        if (conn->draining) {
            btl_ib_conn_reset(conn);
        } else if (conn->refused_since == 0 || engine->now - conn->refused_at > REFUSED_ROW) {
            conn->refused_since = engine->now;
        } else if (!engine->kicking && engine->now - conn->refused_since >= REFUSED_LONG) {
            btl_ib_conn_kill(conn, BTL_IB_DEATH_REFUSED);
            after = NULL;
        }
        if (after != NULL) {
            conn->refused_at = engine->now;
        }
        conn = living(rail, from, after);
    }
}

/* The path to `from` carries less than the rails at its ends. What was cut before is the transport's
 * concern. */
static void narrowed(btl_ib_rail_t *rail, btl_ib_addr_t from, uint32_t size)
{
    const uint32_t least = btl_ib_engine_datagram_min(rail->engine->guard.kind);
    btl_ib_conn_t *conn = NULL;

    size = size > least ? size : least;
    while ((conn = living(rail, from, conn != NULL ? &conn->all : NULL)) != NULL) {
        if (conn->datagram_max > size) {
            conn->datagram_max = size;
            BTL_IB_LOG(rail->engine, 1,
                       "peer %u.%u: the path carries datagrams of %u bytes, not of %u",
                       BTL_IB_NAME_ARGS(conn->name), size, rail->transport->attr.max_datagram);
        }
    }
}

/* The device is gone, and with it all its connections. */
static void mourn(const btl_ib_rail_t *rail)
{
    btl_ib_conn_t *conn;

    while ((conn = living(rail, BTL_IB_ADDR_UNKNOWN, NULL)) != NULL) {
        btl_ib_conn_kill(conn, BTL_IB_DEATH_DEVICE);
    }
}

static void failed(btl_ib_rail_t *rail, int error)
{
    BTL_IB_LOG(rail->engine, 1, "%s: the device failed: %s", rail->transport->name,
               strerror(error));
    rail->failed = true;
    if (rail->engine->kicking) {
        rail->engine->mourning = true;
    } else {
        mourn(rail);
    }
}

static void sent(btl_ib_rail_t *rail, btl_ib_segment_t *segment)
{
    btl_ib_conn_t *conn = segment->conn;

    btl_ib_pool_sent(&rail->pool, segment);
    if (conn != NULL && segment->lost) { /* it waited to be sent again */
        btl_ib_conn_ready(conn);
    }
}

/*
 * How long at most a datagram found now may have lain there: since the turn before; or, if a turn takes in a
 * part only of what there is, since nothing was there. That is a queue, too, but the receiver's own: credits
 * limit it, and who sends makes it no shorter by sending late. A long one he shall know of.
 */
static uint32_t away_from(const btl_ib_rail_t *rail)
{
    uint64_t busy = rail->engine->now - rail->empty_at;

    if (!rail->transport->attr.sips) {
        return rail->engine->gap;
    }
    return btl_ib_max_u32(rail->engine->gap, busy < QUEUE_BORNE ? (uint32_t) busy : QUEUE_BORNE);
}

/* Take in one batch. Returns how many events there were; *datagrams counts. */
static int poll_batch(btl_ib_rail_t *rail, int max, int *datagrams)
{
    btl_ib_transport_t *transport = rail->transport;
    btl_ib_event_t events[BTL_IB_BATCH];
    void *buffers[BTL_IB_BATCH];
    int received = 0;
    int count = transport->ops->poll(transport, events, max);
    btl_ib_engine_t *engine = rail->engine;
    const uint32_t batch = ++engine->batches;
    const uint32_t away = away_from(rail);

    if (count == 0) {
        rail->empty_at = engine->now;
    }

    for (int i = 0; i < count; i++) {
        engine->batch = batch; /* a callback may have polled, or let another thread do so */
        engine->away = away;
        switch (events[i].type) {
        case BTL_IB_EVENT_RECV:
            btl_ib_recv(rail, &events[i]);
            buffers[received++] = events[i].buffer;
            break;
        case BTL_IB_EVENT_SENT:
            sent(rail, events[i].context);
            break;
        case BTL_IB_EVENT_REFUSED:
            refused(rail, events[i].from);
            break;
        case BTL_IB_EVENT_PATH:
            narrowed(rail, events[i].from, events[i].size);
            break;
        case BTL_IB_EVENT_FAILED:
            failed(rail, events[i].error);
            break;
        }
    }
    if (received > 0) {
        transport->ops->repost(transport, buffers, received);
        if (!engine->kicking) {
            btl_ib_send_callbacks(engine);
        }
    }
    *datagrams += received;
    return count;
}

static int poll_rails(btl_ib_engine_t *engine, int burst)
{
    int datagrams = 0;

    engine->more = false;
    engine->first_rail++; /* in turn, so that a rail that is flooded does not starve the others */
    for (uint32_t i = 0; i < engine->rail_count; i++) {
        btl_ib_rail_t *rail = engine->rails[(engine->first_rail + i) % engine->rail_count];
        int left = burst - datagrams;
        while (left > 0 && !rail->failed) {
            int max = left < BTL_IB_BATCH ? left : BTL_IB_BATCH;
            int count = poll_batch(rail, max, &datagrams);
            if (count < max) {
                break;
            }
            left -= count;
            engine->more = left <= 0;
        }
    }
    return datagrams;
}

/* ---- progress ---- */

static void evicted(void *context, btl_ib_guest_t *guest)
{
    btl_ib_timer_t *timer = BTL_IB_CONTAINER(guest, btl_ib_timer_t, guest);
    btl_ib_conn_t *conn = timer->conn;

    (void) context;
    if (timer->kind == BTL_IB_TIMER_IDLE) {
        btl_ib_conn_idle(conn);
    } else if (timer->kind == BTL_IB_TIMER_PACE) {
        btl_ib_conn_ready(conn);
    } else if (conn->state == BTL_IB_CONN_CLOSING) {
        btl_ib_conn_linger(conn);
    } else {
        btl_ib_loss_timer(conn);
    }
}

static void push_ready(btl_ib_engine_t *engine)
{
    btl_ib_list_t turn;
    btl_ib_list_t *item;

    if (!btl_ib_list_empty(&engine->starved) && engine->unacked < engine->config.depth_total
        && engine->bytes_unacked < engine->config.depth_bytes) {
        btl_ib_list_splice_tail(&engine->ready, &engine->starved);
    }
    btl_ib_list_init(&turn); /* who becomes ready again has to wait for the next turn */
    btl_ib_list_splice_tail(&turn, &engine->ready);
    while ((item = btl_ib_list_pop(&turn)) != NULL) {
        btl_ib_send_push(BTL_IB_CONTAINER(item, btl_ib_conn_t, ready));
    }
}

void btl_ib_engine_leave(btl_ib_engine_t *engine)
{
    if (--engine->depth == 0) {
        free_all(&engine->gone);
    }
}

/* Of a pause we were there for LONG_PAUSE at most, so that whoever comes seldom counts silence slowly,
 * but does count it. Before the first turn there was none: nobody knows how long the clock ran before. */
static uint64_t awake_at(const btl_ib_engine_t *engine, uint64_t now)
{
    uint64_t away = now > engine->turned_at ? now - engine->turned_at : 0;

    if (engine->turned_at == 0) {
        return engine->awake;
    }
    return engine->awake + (away < LONG_PAUSE ? away : LONG_PAUSE);
}

uint64_t btl_ib_engine_awake_later(const btl_ib_engine_t *engine)
{
    return awake_at(engine, engine->now);
}

static void turn_begins(btl_ib_engine_t *engine, uint64_t now)
{
    uint64_t away = now > engine->turned_at ? now - engine->turned_at : 0;

    engine->turns++;
    engine->awake = awake_at(engine, now);
    engine->gap = away < UINT32_MAX ? (uint32_t) away : UINT32_MAX;
    engine->turned_at += away;
    btl_ib_engine_clock(engine, now);
}

static void evict_and_push(btl_ib_engine_t *engine)
{
    btl_ib_hotel_evict(&engine->hotel, engine->now, EVICTIONS, evicted, NULL);
    if (!btl_ib_list_empty(&engine->ready) || !btl_ib_list_empty(&engine->starved)) {
        push_ready(engine);
    }
}

/* What was left to be done by kicks, because only the owner's own turn may call up, or by lives that
 * ended. */
static bool work_is_left(const btl_ib_engine_t *engine)
{
    return !btl_ib_list_empty(&engine->store.messages) || !btl_ib_list_empty(&engine->whole)
           || engine->mourning;
}

static uint32_t do_what_is_left(btl_ib_engine_t *engine)
{
    uint32_t count = btl_ib_recv_stored(engine);

    if (engine->mourning) {
        engine->mourning = false;
        for (uint32_t i = 0; i < engine->rail_count; i++) {
            if (engine->rails[i]->failed) {
                mourn(engine->rails[i]);
                count++;
            }
        }
    }
    return count;
}

int btl_ib_engine_progress(btl_ib_engine_t *engine, uint64_t now, int burst)
{
    uint32_t late = 0;

    turn_begins(engine, now);
    engine->depth++;
    uint32_t finished = engine->finished;
    if (work_is_left(engine)) {
        late = do_what_is_left(engine);
    }
    int received = poll_rails(engine, burst);
    engine->idle_calls = received > 0 ? 0 : engine->idle_calls + 1;
    evict_and_push(engine);
    btl_ib_send_callbacks(engine);
    if (!btl_ib_list_empty(&engine->refused)) {
        btl_ib_refusal_turn(engine);
    }
    if (!btl_ib_list_empty(&engine->acks)) {
        btl_ib_ack_turn(engine);
    }
    finished = engine->finished - finished;
    btl_ib_engine_leave(engine);
    return received + (int) (finished + late);
}

int btl_ib_engine_kick(btl_ib_engine_t *engine, uint64_t now, int burst)
{
    turn_begins(engine, now);
    engine->depth++;
    engine->kicking = true;
    engine->count.kicks++;
    int received = poll_rails(engine, burst);
    evict_and_push(engine);
    btl_ib_ack_turn(engine);
    engine->kicking = false;
    btl_ib_engine_leave(engine);
    return received;
}

uint64_t btl_ib_engine_turned_at(const btl_ib_engine_t *engine)
{
    return engine->turned_at;
}

/* When there is something to do for a turn of either kind. */
static uint64_t turn_due(const btl_ib_engine_t *engine)
{
    uint64_t due = btl_ib_hotel_next_due(&engine->hotel);
    btl_ib_list_t *item = btl_ib_list_first(&engine->acks);

    if (item != NULL) {
        const btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, acks);
        uint64_t at = conn->ack_now ? engine->now + RETRY_AFTER : conn->ack_at;
        due = at < due ? at : due;
    }
    if (!btl_ib_list_empty(&engine->ready) && engine->now + RETRY_AFTER < due) {
        due = engine->now + RETRY_AFTER;
    }
    return due;
}

uint64_t btl_ib_engine_next_due(const btl_ib_engine_t *engine)
{
    return engine->more || work_is_left(engine) || !btl_ib_list_empty(&engine->events)
               ? engine->now
               : turn_due(engine);
}

bool btl_ib_engine_busy(const btl_ib_engine_t *engine)
{
    return btl_ib_hotel_guests(&engine->hotel) != engine->lively
           || !btl_ib_list_empty(&engine->acks) || !btl_ib_list_empty(&engine->ready);
}

uint64_t btl_ib_engine_kick_due(const btl_ib_engine_t *engine)
{
    if (engine->more) {
        return engine->now;
    }
    return btl_ib_engine_busy(engine) ? turn_due(engine) : UINT64_MAX;
}

bool btl_ib_engine_serves(const btl_ib_engine_t *engine)
{
    return engine->regions.used > 0;
}

uint32_t btl_ib_engine_wait_fds(const btl_ib_engine_t *engine, int *fds)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < engine->rail_count; i++) {
        btl_ib_transport_t *transport = engine->rails[i]->transport;
        if (engine->rails[i]->failed) {
            continue; /* might be readable for ever */
        }
        fds[count] = transport->ops->wait_fd(transport);
        if (fds[count] < 0) {
            return 0;
        }
        count++;
    }
    return count;
}

static btl_ib_conn_t *unadopted(const btl_ib_engine_t *engine)
{
    for (btl_ib_list_t *item = btl_ib_list_first(&engine->conns); item != NULL;
         item = btl_ib_list_next(&engine->conns, item)) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, all);
        if (!conn->adopted) {
            return conn;
        }
    }
    return NULL;
}

void btl_ib_engine_refuse_new(btl_ib_engine_t *engine, uint64_t now)
{
    btl_ib_conn_t *conn;

    engine->refuse_new = true;
    while ((conn = unadopted(engine)) != NULL) {
        btl_ib_conn_destroy(conn, now);
    }
}

bool btl_ib_engine_lingering(const btl_ib_engine_t *engine)
{
    return !btl_ib_list_empty(&engine->closing);
}

uint32_t btl_ib_engine_datagram_min(btl_ib_guard_kind_t guard)
{
    return BTL_IB_DATAGRAM_MIN + btl_ib_guard_ops(guard)->trailer;
}

const btl_ib_counters_t *btl_ib_engine_counters(const btl_ib_engine_t *engine)
{
    return &engine->count;
}
