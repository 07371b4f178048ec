/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_conn.h"
#include "btl_ib_engine.h"
#include "btl_ib_deferred_free.h"
#include "btl_ib_latency.h"
#include "btl_ib_list.h"
#include "btl_ib_state.h"
#include "btl_ib_trace.h"
#include "transport.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- making an engine ---- */

enum {
    CREDIT_INIT = 16, /* the least that a new peer is granted of its own accord */
    NEW_PART = 4,     /* a new peer holds that part of its share */
    /* bytes of first contacts that are kept: all that one turn receives, in frames of 9000 bytes */
    UNIDENTIFIED_MAX = 1024 * 1024,
};

void btl_ib_engine_config_default(btl_ib_engine_config_t *config)
{
    *config = (btl_ib_engine_config_t){
        .wire = btl_ib_versions_here(),
        .eager_max = 64 * 1024,
        .ack_delay = 150,
        .rto_min = 250,
        .rto_max = 200 * 1000,
        .rto_initial = 2000,
        .silence_limit = UINT64_C(900) * 1000 * 1000,
        .unanswered_after = UINT64_C(5) * 1000 * 1000,
        .connect_timeout = UINT64_C(60) * 1000 * 1000,
        .down_limit = UINT64_C(180) * 1000 * 1000,
        .depth_peer = 16384,
        .depth_total = 24576,
        .depth_bytes = 32 * 1024 * 1024,
        .window_max = 49152,
        .passive_max = 4096,
        .lookups_max = 2000,
        .reassembly_max = 512,
        .ops_max = 128,
        .backlog_max = 4 * 1024 * 1024,
        .credit_pool = 4096,
        .first_seq = 1,
        .idle_after = 2 * 1000 * 1000,
        .predict = true,
    };
}

bool btl_ib_engine_config_check(const btl_ib_engine_config_t *config, char *problem, size_t size)
{
    const btl_ib_protection_ops_t *protection = btl_ib_protection_ops(config->protection);
    const struct {
        const char *name;
        uint64_t value, low, high;
    } limits[] = {
        {"eager_max", config->eager_max, 1, UINT32_MAX},
        {"rto_min", config->rto_min, 1, config->rto_max},
        {"rto_initial", config->rto_initial, 1, UINT32_MAX},
        {"depth_peer", config->depth_peer, 1, UINT32_MAX},
        {"depth_total", config->depth_total, 1, UINT32_MAX},
        {"depth_bytes", config->depth_bytes, 1, UINT64_MAX},
        {"window_max", config->window_max, 1, BTL_IB_WINDOW_LIMIT - BTL_IB_SKIP_MAX},
        {"ops_max", config->ops_max, 1, BTL_IB_OPS_MAX},
        {"idle_after", config->idle_after, 1, UINT64_MAX},
        {"protection", config->protection, 0, BTL_IB_PROTECTION_KINDS - 1},
    };

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (limits[i].value < limits[i].low || limits[i].value > limits[i].high) {
            snprintf(problem, size, "the engine's %s is %llu, not %llu to %llu", limits[i].name,
                     (unsigned long long) limits[i].value, (unsigned long long) limits[i].low,
                     (unsigned long long) limits[i].high);
            return false;
        }
    }
    if (protection->keyed && config->aead == NULL) {
        snprintf(problem, size, "the engine has no cipher for protection %s", protection->name);
        return false;
    }
    return true;
}

btl_ib_engine_t *btl_ib_engine_create(const btl_ib_engine_config_t *config,
                                      const btl_ib_engine_ops_t *ops, void *ops_context)
{
    char problem[128];

    if (!btl_ib_engine_config_check(config, problem, sizeof(problem))) {
        if (config->log.print != NULL) {
            config->log.print(config->log.context, 1, "%s", problem);
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
    engine->clock.awake = 1; /* 0 means "never" */
    engine->clock.ran = 1;
    engine->mem = (btl_ib_mem_t){ops->zalloc, ops->free, ops_context};
    btl_ib_protection_init(&engine->protection, config->protection, config->aead, &engine->count);
    btl_ib_hotel_init(&engine->hotel, 0);
    btl_ib_table_init(&engine->table, &engine->mem);
    btl_ib_reasm_pool_init(&engine->reasm, &engine->mem, config->eager_max, config->reassembly_max,
                           config->reassembly_peer);
    btl_ib_backlog_init(&engine->backlog, &engine->mem, config->backlog_max);
    btl_ib_backlog_init(&engine->unidentified, &engine->mem, UNIDENTIFIED_MAX);
    btl_ib_tombstones_init(&engine->tombstones, &engine->mem);
    btl_ib_regions_init(&engine->regions, &engine->mem, &config->region_secret);
    btl_ib_list_init(&engine->conns);
    btl_ib_list_init(&engine->ready);
    btl_ib_list_init(&engine->starved);
    btl_ib_list_init(&engine->acks);
    btl_ib_list_init(&engine->acks_answered);
    btl_ib_list_init(&engine->whole);
    btl_ib_list_init(&engine->rnr);
    btl_ib_list_init(&engine->closing);
    btl_ib_list_init(&engine->deferred_free.gone);
    btl_ib_list_init(&engine->events);
    btl_ib_list_init(&engine->zcopy.sent);
    btl_ib_list_init(&engine->tables);
    btl_ib_list_init(&engine->op_ids.peers);
    btl_ib_retry_budget_init(&engine->retries);
    engine->drops = btl_ib_drops_new(engine);
    engine->trace = btl_ib_trace_new(engine);
    engine->inspected = engine->drops != NULL || engine->trace != NULL;
    engine->predicts =
        config->predict && !engine->inspected && engine->protection.ops->trailer == 0;
    btl_ib_work_note(&engine->work); /* there is no rail yet */
    return engine;
}

void btl_ib_engine_destroy(btl_ib_engine_t *engine)
{
    btl_ib_table_entry_t *table;

    if (engine->drops != NULL) {
        btl_ib_drops_end(engine);
        engine->drops = NULL;
    }
    BTL_IB_LIST_FOREACH (btl_ib_conn_t, conn, &engine->conns, all) {
        btl_ib_conn_strip(conn);
    }
    while (btl_ib_list_pop(&engine->events) != NULL) {
    }
    btl_ib_conn_free_all(&engine->conns);
    btl_ib_conn_free_all(&engine->closing);
    btl_ib_conn_free_all(&engine->deferred_free.gone);
    btl_ib_tombstones_fini(&engine->tombstones);
    btl_ib_regions_fini(&engine->regions);
    btl_ib_backlog_fini(&engine->backlog);
    btl_ib_backlog_fini(&engine->unidentified);
    btl_ib_reasm_pool_fini(&engine->reasm);
    btl_ib_table_fini(&engine->table);
    btl_ib_routes_fini(engine);
    while ((table = BTL_IB_LIST_POP(btl_ib_table_entry_t, &engine->tables, link)) != NULL) {
        btl_ib_free(&engine->mem, table);
    }
    for (uint32_t i = 0; i < engine->rail_count; i++) {
        btl_ib_rail_t *rail = engine->rails[i];
        rail->transport->ops->stop(rail->transport);
        btl_ib_pool_fini(&rail->pool);
        rail->transport->ops->close(rail->transport);
        btl_ib_free(&engine->mem, rail);
    }
    btl_ib_free(&engine->mem, engine->trace);
    engine->ops->free(engine->ops_context, engine);
}

/* Returns the datagrams of a queue that the receive buffers hold, of all peers. */
static uint64_t queue_buffers(const btl_ib_rail_t *rail, uint32_t i)
{
    const btl_ib_transport_t *transport = rail->transport;

    return rail->credit[i].depth
           / btl_ib_credit_cost(&rail->credit[i], &rail->queues.q[i], transport,
                                rail->engine->config.credit_pool, transport->attr.max_datagram);
}

/* Returns the credits of a queue that a new peer holds, were `num` without end: of an equal share
 * for each peer that is expected a part, so that the rest is there for those that are busy. */
static uint32_t first_credits(const btl_ib_rail_t *rail, uint32_t i)
{
    const btl_ib_engine_config_t *config = &rail->engine->config;

    if (config->credit_init > 0) {
        return config->credit_init;
    }
    const uint64_t share =
        config->peers == 0 ? 0 : queue_buffers(rail, i) / config->peers / NEW_PART;
    return btl_ib_max_u32(btl_ib_clip_u32(share, UINT32_MAX), CREDIT_INIT);
}

int btl_ib_engine_add_rail(btl_ib_engine_t *engine, btl_ib_transport_t *transport,
                           const btl_ib_queue_table_t *queues)
{
    uint32_t least = btl_ib_protection_datagram_min(engine->protection.kind);

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
    btl_ib_list_init(&rail->incast.granted);
    btl_ib_list_init(&rail->incast.held);
    rail->cc = btl_ib_cc_choose(engine->config.cc, transport->attr.reliable);
    btl_ib_credit_share(rail->credit, &rail->queues, transport);
    for (uint32_t i = 0; i < queues->count; i++) {
        if (queues->q[i].type == BTL_IB_QUEUE_PER_PEER) {
            btl_ib_queue_t *queue = &rail->queues.q[i];
            queue->init = btl_ib_credit_initial(queue, first_credits(rail, i));
            BTL_IB_LOG(engine, 10,
                       "%s: queue %u: %" PRIu64 " buffers for all peers, num %u, a new peer holds "
                       "%u",
                       transport->name, i, queue_buffers(rail, i), queue->num, queue->init);
        }
    }
    btl_ib_pool_init(
        &rail->pool, &engine->mem, transport,
        btl_ib_rail_segments(&engine->config, &transport->attr, engine->deferred_free.conns));
    engine->latency.lane |= transport->attr.bulk_lane;
    engine->rails[engine->rail_count] = rail;
    btl_ib_work_note(&engine->work);
    return (int) engine->rail_count++;
}

const char *btl_ib_engine_rail_name(const btl_ib_engine_t *engine, uint32_t rail)
{
    return engine->rails[rail]->transport->name;
}

void btl_ib_engine_rail_info(const btl_ib_engine_t *engine, uint32_t rail, btl_ib_peer_info_t *info)
{
    const btl_ib_transport_t *transport = engine->rails[rail]->transport;

    memset(info, 0, sizeof(*info));
    info->name = engine->config.name;
    info->secret = engine->config.secret;
    info->wire = engine->config.wire;
    info->protection = engine->config.protection;
    info->key = engine->config.key;
    info->rail = rail;
    info->ack_delay = engine->config.ack_delay;
    info->ecn = transport->attr.ecn;
    info->max_datagram = transport->attr.max_datagram;
    info->address_len = transport->address_len;
    info->address_base = transport->address_base;
    memcpy(info->address, transport->address, transport->address_len);
    info->queues = engine->rails[rail]->queues;
}

bool btl_ib_engine_address_text(const btl_ib_engine_t *engine, uint32_t rail, char *out, size_t len)
{
    const btl_ib_transport_t *t = engine->rails[rail]->transport;

    return t->ops->address_text != NULL
           && t->ops->address_text(t->address, t->address_len, out, len);
}

void btl_ib_engine_refuse_new(btl_ib_engine_t *engine, uint64_t now)
{
    btl_ib_admission_close(&engine->admission);
    btl_ib_list_t *item = btl_ib_list_first(&engine->conns);
    while (item != NULL) {
        btl_ib_conn_t *conn = BTL_IB_CONTAINER(item, btl_ib_conn_t, all);
        if (conn->user != NULL) {
            item = btl_ib_list_next(&engine->conns, item);
        } else {
            btl_ib_conn_destroy(conn, now); /* callbacks may change the list */
            item = btl_ib_list_first(&engine->conns);
        }
    }
}

bool btl_ib_engine_lingering(const btl_ib_engine_t *engine)
{
    return !btl_ib_list_empty(&engine->closing);
}

const btl_ib_counters_t *btl_ib_engine_counters(const btl_ib_engine_t *engine)
{
    return &engine->count;
}

bool btl_ib_engine_answers(const btl_ib_engine_t *engine)
{
    uint32_t i = 0;

    while (i < engine->rail_count && engine->rails[i]->transport->ops->source != NULL) {
        i++;
    }
    return i > 0 && i == engine->rail_count;
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
        if (engine->rails[i]->health.failed) {
            continue; /* its descriptor might be readable for ever */
        }
        fds[count] = transport->ops->wait_fd(transport);
        if (fds[count] < 0) {
            return 0;
        }
        count++;
    }
    return count;
}

/* ---- its memory ---- */

enum { TX_RING = 8 * sizeof(void *) }; /* of a channel that sends; btl_ib_seq_window.c */

void btl_ib_engine_memory_estimate(const btl_ib_engine_config_t *config,
                                   const btl_ib_transport_attr_t *attr,
                                   const btl_ib_queue_table_t *queues, uint32_t peers,
                                   btl_ib_memory_estimate_t *estimate)
{
    const bool keyed = btl_ib_protection_ops(config->protection)->keyed;
    /* Peers are taken to have the same queues. */
    const uint64_t conn =
        sizeof(btl_ib_conn_t)
        + queues->count * (sizeof(btl_ib_tx_channel_t) + sizeof(btl_ib_rx_channel_t))
        + (keyed ? sizeof(btl_ib_protection_keys_t) : 0);
    const uint64_t shared = peers > 0 ? sizeof(btl_ib_table_entry_t) + BTL_IB_TOMBSTONES_BYTES : 0;
    const uint64_t windows = (uint64_t) peers * queues->count
                             * (config->window_max * sizeof(void *) + config->window_max / 8);
    const uint64_t reassembled = btl_ib_reasm_bytes(config->eager_max);

    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS,
                        sizeof(btl_ib_engine_t) + sizeof(btl_ib_rail_t), 0, "engine");
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS,
                        peers * conn + btl_ib_table_bytes(peers) + btl_ib_routes_bytes(peers)
                            + shared,
                        0, "connections");
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS,
                        (uint64_t) peers * queues->count * TX_RING, windows, "windows");
    btl_ib_pool_memory_estimate(attr, btl_ib_rail_segments(config, attr, peers), peers > 0,
                                estimate);
    const uint64_t of_peers = (uint64_t) peers * config->reassembly_peer;
    const uint64_t extra = config->reassembly_peer == 0 || of_peers > config->reassembly_max
                               ? config->reassembly_max
                               : of_peers;
    /* One buffer for a short message is kept for the next. */
    const uint64_t kept = peers > 0 ? btl_ib_reasm_bytes_least(config->eager_max) : 0;
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, kept, (peers + extra) * reassembled,
                        "reassembly, %llu bytes each", (unsigned long long) reassembled);
    btl_ib_estimate_add(estimate, BTL_IB_ESTIMATE_PROCESS, 0, config->backlog_max,
                        "backlog of the progress thread");
}
