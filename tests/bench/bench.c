/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Hosts, their callbacks, messages and time. */

#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TURNS_MAX = 100000, /* in one bench_flow(): more would be for ever */
};

void bench_broken(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s does not hold\n", file, line, what);
    abort();
}

/* ---- memory, with its size in front ---- */

static void *host_zalloc(void *context, size_t size)
{
    bench_host_t *host = context;

    host->allocations++;
    if (host->fail_in > 0 && --host->fail_in == 0) {
        return NULL;
    }
    size_t *block = calloc(1, size + 2 * sizeof(size_t));
    if (block == NULL) {
        return NULL;
    }
    *block = size;
    host->bytes += size;
    host->bytes_peak = host->bytes > host->bytes_peak ? host->bytes : host->bytes_peak;
    return block + 2;
}

static void host_free(void *context, void *memory)
{
    bench_host_t *host = context;

    if (memory != NULL) {
        size_t *block = (size_t *) memory - 2;
        host->bytes -= *block;
        free(block);
    }
}

/* ---- messages ---- */

static uint8_t content(uint32_t id, uint32_t at)
{
    return (uint8_t) ((id * 2654435761u + at * 40503u) >> 13);
}

/* The same bytes on each processor: test_release records them on one and reads them on others. */
static void fill(bench_message_t *m)
{
    const uint32_t id = BTL_IB_LE32(m->id);

    memcpy(m->bytes, &id, sizeof(id));
    for (uint32_t i = sizeof(m->id); i < m->size; i++) {
        m->bytes[i] = content(m->id, i);
    }
}

static bool is_intact(const bench_message_t *m, const uint8_t *data)
{
    for (uint32_t i = sizeof(m->id); i < m->size; i++) {
        if (data[i] != content(m->id, i)) {
            return false;
        }
    }
    return true;
}

/* Callbacks may call back in, and release the owner's lock, so that other threads can. */
static void called(bench_host_t *host)
{
    if (host->bench->called != NULL && host->engine != NULL) {
        host->bench->called(host);
    }
}

static void host_deliver(void *context, btl_ib_conn_t *conn, uint8_t tag, void *data, uint32_t size)
{
    bench_host_t *host = context;
    bench_t *bench = host->bench;
    uint32_t id = UINT32_MAX;

    if (size >= BENCH_MESSAGE_MIN) {
        memcpy(&id, data, sizeof(id));
        id = BTL_IB_LE32(id);
    }
    bench_message_t *m = id < bench->message_count ? &bench->messages[id] : NULL;
    if (m == NULL || m->to != host->index || m->size != size || m->msg.tag != tag
        || btl_ib_conn_name(conn) != bench->hosts[m->from].config.name || !is_intact(m, data)) {
        host->strange++;
        return;
    }
    m->delivered++;
    if (bench->on_deliver != NULL) {
        bench->on_deliver(bench, id);
    }
    called(host);
}

static bool host_deliverable(void *context, const btl_ib_conn_t *conn, uint8_t tag)
{
    return !((bench_host_t *) context)->deaf[tag];
}

static void host_on_sent(void *context, btl_ib_msg_t *msg)
{
    bench_message_t *m = BTL_IB_CONTAINER(msg, bench_message_t, msg);

    BENCH_REQUIRE(m->kept && !m->sent && !m->done);
    m->sent = true;
    called(context);
}

static void host_op_done(void *context, btl_ib_op_t *op, int status)
{
    bench_op_over(BTL_IB_CONTAINER(op, bench_op_t, op), status);
    called(context);
}

static void forget_bytes(bench_message_t *m)
{
    free(m->bytes);
    m->bytes = NULL;
}

static void host_on_done(void *context, btl_ib_msg_t *msg, int status)
{
    bench_message_t *m = BTL_IB_CONTAINER(msg, bench_message_t, msg);

    BENCH_REQUIRE(m->kept && !m->done && (status != 0 || m->sent));
    m->kept = false;
    m->done = true;
    m->status = status;
    forget_bytes(m);
    called(context);
}

/* Where a message's bytes are cut in two pieces. */
static void describe(bench_message_t *m)
{
    uint32_t first = m->id % 3 == 0 ? m->size : m->size / 3;

    m->msg.iov[0] = (struct iovec){.iov_base = m->bytes, .iov_len = first};
    m->msg.iov[1] = (struct iovec){.iov_base = m->bytes + first, .iov_len = m->size - first};
    m->msg.want_ack_now = m->id % 4 == 0;
}

uint32_t bench_send(bench_t *bench, uint32_t from, uint32_t to, uint32_t size, uint8_t tag)
{
    btl_ib_conn_t *conn = bench_connect(bench, from, to);

    BENCH_REQUIRE(size >= BENCH_MESSAGE_MIN);
    if (conn == NULL || bench->message_count == bench->messages_max) {
        return UINT32_MAX;
    }
    bench_message_t *m = &bench->messages[bench->message_count];
    *m = (bench_message_t){
        .bench = bench,
        .id = bench->message_count,
        .from = from,
        .to = to,
        .size = size,
        .life = bench->hosts[to].life,
        .bytes = malloc(size),
        .msg = {.tag = tag},
    };
    BENCH_REQUIRE(m->bytes != NULL);
    fill(m);
    describe(m);
    m->kept = true;
    m->accepted = true;
    bench->message_count++;
    int rc = btl_ib_engine_send(conn, &m->msg, bench->now);
    if (rc == 0) {
        return m->id;
    }
    BENCH_REQUIRE(!m->sent && !m->done);
    m->kept = false;
    m->accepted = rc == 1;
    m->sent = m->done = rc == 1;
    m->status = rc < 0 ? rc : 0;
    forget_bytes(m);
    return rc == 1 ? m->id : UINT32_MAX;
}

/* ---- connections ---- */

btl_ib_peer_info_t bench_info(bench_t *bench, uint32_t i, uint32_t rail)
{
    btl_ib_peer_info_t info;

    btl_ib_engine_rail_info(bench->hosts[i].engine, rail, &info);
    return info;
}

static bool host_lookup(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                        btl_ib_peer_info_t *info)
{
    bench_host_t *host = context;
    bench_t *bench = host->bench;

    host->lookups++;
    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        if (bench->hosts[i].config.name == name && bench->hosts[i].engine != NULL
            && remote_rail < bench->rails) {
            *info = bench_info(bench, i, remote_rail);
            return true;
        }
    }
    return false;
}

static void host_passive(void *context, btl_ib_conn_t *conn)
{
}

static void host_dead(void *context, btl_ib_conn_t *conn, btl_ib_death_t reason)
{
    bench_host_t *host = context;

    host->deaths[reason]++;
    called(host);
    btl_ib_conn_destroy(conn, host->bench->now);
}

btl_ib_conn_t *bench_conn(bench_t *bench, uint32_t i, uint32_t peer)
{
    return btl_ib_conn_find(bench->hosts[i].engine, 0, bench->hosts[peer].config.name, 0);
}

btl_ib_conn_t *bench_connect(bench_t *bench, uint32_t i, uint32_t peer)
{
    btl_ib_conn_t *conn = bench_conn(bench, i, peer);

    if (conn != NULL) {
        btl_ib_conn_adopt(conn, &bench->hosts[peer]);
        return conn;
    }
    if (bench->hosts[peer].engine == NULL) {
        return NULL;
    }
    btl_ib_peer_info_t info = bench_info(bench, peer, 0);
    int rc = btl_ib_conn_create(bench->hosts[i].engine, 0, &info, &bench->hosts[peer], &conn);
    BENCH_REQUIRE(rc == 0 || rc == -ENOMEM || rc == -ENETDOWN);
    return rc == 0 ? conn : NULL;
}

/* ---- hosts ---- */

static void host_trace(void *context, const btl_ib_trace_event_t *event)
{
    bench_host_t *host = context;

    if (host->bench->on_event != NULL) {
        host->bench->on_event(host, event);
    }
}

static const btl_ib_engine_ops_t host_ops = {
    .lookup = host_lookup,
    .passive = host_passive,
    .deliverable = host_deliverable,
    .deliver = host_deliver,
    .on_sent = host_on_sent,
    .on_done = host_on_done,
    .op_done = host_op_done,
    .dead = host_dead,
    .trace = host_trace,
    .zalloc = host_zalloc,
    .free = host_free,
};

void bench_init(bench_t *bench, uint32_t messages_max)
{
    memset(bench, 0, sizeof(*bench));
    bench->now = 1000000;
    bench->delay = BENCH_DELAY;
    bench->burst = BENCH_BURST;
    bench->rails = 1;
    bench->first_seq = 1;
    bench->messages_max = messages_max;
    bench->ops = calloc(BENCH_OPS, sizeof(*bench->ops));
    BENCH_REQUIRE(bench->ops != NULL);
    bench->messages = calloc(messages_max, sizeof(*bench->messages));
    BENCH_REQUIRE(bench->messages != NULL);
    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        bench_host_t *host = &bench->hosts[i];
        host->bench = bench;
        host->index = i;
        btl_ib_engine_config_default(&host->config);
        host->config.name = (UINT64_C(7) << 32) + i;
        host->attr = (btl_ib_transport_attr_t){
            .max_datagram = 1472,
            .inline_size = 65536,
            .max_iov = 3,
            .max_batch = 16,
            .tx_depth = 256,
            .rx_depth = 4096,
            .knows_source = true,
        };
        memcpy(host->queues, "P,128,256,128,16:S,512,256,128,32:S,1472,256,128,32",
               sizeof("P,128,256,128,16:S,512,256,128,32:S,1472,256,128,32"));
    }
}

bool bench_protection(bench_t *bench, btl_ib_protection_kind_t kind)
{
    if (btl_ib_protection_ops(kind)->keyed && bench->aead == NULL) {
        bench->aead = btl_ib_aead_open();
        if (bench->aead == NULL) {
            return false;
        }
    }
    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        bench->hosts[i].config.protection = kind;
        bench->hosts[i].config.aead = bench->aead;
    }
    return true;
}

/* Everything that is new with each life of a process. */
static void make_secrets(bench_host_t *host)
{
    uint64_t word = host->life * UINT64_C(0x9e3779b97f4a7c15) + host->index;

    host->config.secret =
        (btl_ib_secret_t){{word, UINT64_C(0xd1b54a32d192ed03) ^ host->config.name}};
    host->config.region_secret = (btl_ib_secret_t){{~word, word * 3}};
    for (size_t i = 0; i < sizeof(host->config.key.bytes); i++) {
        word = word * UINT64_C(6364136223846793005) + 1;
        host->config.key.bytes[i] = (uint8_t) (word >> 56);
    }
}

void bench_start(bench_t *bench, uint32_t i)
{
    bench_host_t *host = &bench->hosts[i];
    btl_ib_queue_table_t table;
    btl_ib_queues_error_t error;

    host->life++;
    host->fail_in = 0;
    host->config.first_seq = bench->first_seq;
    make_secrets(host);
    BENCH_REQUIRE(btl_ib_queues_parse(host->queues, &table, &error) == 0);
    host->engine = btl_ib_engine_create(&host->config, &host_ops, host);
    BENCH_REQUIRE(host->engine != NULL);
    for (uint32_t r = 0; r < bench->rails; r++) {
        btl_ib_queue_table_t queues = table;
        bench_open_rail(host, r);
        if (bench->carries[r] != 0) {
            btl_ib_queues_clamp(&queues, bench->carries[r]);
        }
        BENCH_REQUIRE(btl_ib_engine_add_rail(host->engine, &host->rails[r].base, &queues)
                      == (int) r);
    }
    bench_register(host);
}

/* What the engine held when it went comes back by no callback. */
static void forget_messages(bench_t *bench, uint32_t from)
{
    for (uint32_t k = 0; k < bench->message_count; k++) {
        bench_message_t *m = &bench->messages[k];
        if (m->from == from && m->kept) {
            m->kept = false;
            m->done = true;
            m->status = -ECANCELED;
            forget_bytes(m);
        }
    }
    for (uint32_t k = 0; k < bench->op_count; k++) {
        if (bench->ops[k].from == from && bench->ops[k].kept) {
            bench_op_over(&bench->ops[k], -ECANCELED);
        }
    }
}

void bench_stop(bench_t *bench, uint32_t i)
{
    bench_host_t *host = &bench->hosts[i];

    btl_ib_engine_destroy(host->engine);
    host->engine = NULL;
    forget_messages(bench, i);
    free(host->memory);
    host->memory = NULL;
    BENCH_REQUIRE(host->bytes == 0);
}

void bench_fini(bench_t *bench)
{
    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        if (bench->hosts[i].engine != NULL) {
            bench_stop(bench, i);
        }
    }
    bench_clear(&bench->wire);
    bench_clear(&bench->tape);
    if (bench->aead != NULL) {
        bench->aead->ops->close(bench->aead);
    }
    free(bench->messages);
    for (uint32_t k = 0; k < bench->op_count; k++) {
        free(bench->ops[k].local);
    }
    free(bench->ops);
}

/* ---- time ---- */

void bench_turn(bench_t *bench, uint32_t i)
{
    if (bench->hosts[i].engine != NULL) {
        btl_ib_engine_progress(bench->hosts[i].engine, bench->now, bench->burst);
    }
}

/* Hand over all that is on the wire now. */
static void hand_over(bench_t *bench)
{
    for (uint32_t n = bench->wire.count; n > 0; n--) {
        bench_datagram_t *datagram = bench_pop(&bench->wire);
        if (bench->loses != NULL && bench->loses(bench, datagram)) {
            free(datagram);
        } else {
            bench_deliver(bench, datagram);
        }
    }
}

static bool moves(const bench_t *bench)
{
    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        for (uint32_t r = 0; r < bench->rails && bench->hosts[i].engine != NULL; r++) {
            const bench_rail_t *rail = &bench->hosts[i].rails[r];
            if (bench_rail_failed(&bench->hosts[i], r)) { /* never polled again */
                continue;
            }
            if (rail->arrived.count > 0 || rail->reading != NULL || rail->failure || rail->refusal
                || rail->news) {
                return true;
            }
        }
    }
    return bench->wire.count > 0;
}

void bench_flow(bench_t *bench)
{
    for (int n = 0; moves(bench); n++) {
        BENCH_REQUIRE(n < TURNS_MAX);
        if (bench->wire.count > 0) {
            bench->now += bench->delay;
        }
        hand_over(bench);
        for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
            bench_turn(bench, i);
        }
    }
}

static uint64_t next_due(const bench_t *bench)
{
    uint64_t due = UINT64_MAX;

    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        if (bench->hosts[i].engine != NULL) {
            uint64_t at = btl_ib_engine_next_due(bench->hosts[i].engine);
            due = at < due ? at : due;
        }
    }
    return due;
}

/* One step of time, not beyond `until`. */
static void step(bench_t *bench, uint64_t until)
{
    uint64_t due = next_due(bench);

    due = due > bench->now ? due : bench->now + 1;
    bench->now = due < until ? due : until;
    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        bench_turn(bench, i);
    }
    bench_flow(bench);
}

void bench_run(bench_t *bench, uint64_t us)
{
    uint64_t until = bench->now + us;

    bench_flow(bench);
    while (bench->now < until) {
        step(bench, until);
    }
}

static bool is_settled(const bench_t *bench)
{
    for (uint32_t i = bench->op_count; i > 0; i--) {
        if (!bench->ops[i - 1].done) {
            return false;
        }
    }
    for (uint32_t i = bench->message_count; i > 0; i--) {
        const bench_message_t *m = &bench->messages[i - 1];
        if (m->accepted && (!m->done || (m->status == 0 && m->delivered == 0))) {
            return false;
        }
    }
    return true;
}

bool bench_settle(bench_t *bench, uint64_t us)
{
    uint64_t until = bench->now + us;

    bench_flow(bench);
    while (!is_settled(bench) && bench->now < until) {
        step(bench, until);
    }
    return is_settled(bench);
}
