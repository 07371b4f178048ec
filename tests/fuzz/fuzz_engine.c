/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* libFuzzer target: engines among which somebody knows tokens and does what he likes, processes
 * come and go, devices fail. No crash, no leak, bounded memory, sums that agree, each datagram
 * counted once. As long as nothing was forged under a valid token nothing is delivered twice or
 * made up, and if nothing ended either, everything gets through. */

#include <stdlib.h>
#include <string.h>

#include "script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the fuzzer did so far, and thereby may have spoilt. */
typedef struct sins {
    bool forged; /* something came under a valid token that its owner did not send */
    bool ended;  /* a connection, process or device */
} sins_t;

static uint32_t host_of(uint8_t byte)
{
    return byte % SCRIPT_HOSTS;
}

static uint32_t peer_of(uint32_t host, uint8_t byte)
{
    return (host + 1 + (byte >> 4) % (SCRIPT_HOSTS - 1)) % SCRIPT_HOSTS;
}

/* ---- forging ---- */

/* The receiver, and the sender that is named. */
typedef struct route {
    uint32_t to, from;
} route_t;

/* The connection with that victim, or zeros. */
static bench_peer_t peer(script_t *script, const route_t *route)
{
    return bench_conn(&script->bench, route->to, route->from) == NULL
               ? (bench_peer_t){0}
               : bench_peer(&script->bench, route->to, route->from);
}

/* A channel of it, or zeros. */
static bench_channel_t channel_of(script_t *script, const route_t *route, uint32_t channel)
{
    return bench_conn(&script->bench, route->to, route->from) == NULL
               ? (bench_channel_t){0}
               : bench_channel(&script->bench, route->to, route->from, channel);
}

static void add_connect(script_t *script, bench_forgery_t *forgery, uint32_t to, uint32_t from)
{
    const bench_host_t *sender = &script->bench.hosts[from];
    const btl_ib_conn_t *conn = bench_conn(&script->bench, to, from);
    uint32_t epoch =
        (conn != NULL ? bench_peer(&script->bench, to, from).peer_epoch : 1) + script_near(script);
    uint32_t ours = conn != NULL ? bench_peer(&script->bench, to, from).epoch : 1;
    btl_ib_wire_connect_t connect = {
        .name = BTL_IB_LE64(sender->config.name),
        .connection = BTL_IB_LE32(1 + script_u8(script)),
        .epoch = BTL_IB_LE32(epoch),
        .floor = BTL_IB_LE32(ours + script_near(script)),
    };

    forgery->header.flags |= BTL_IB_FLAG_CONNECT;
    forgery->header.token =
        BTL_IB_LE64(btl_ib_token(&script->bench.hosts[to].config.secret, sender->config.name,
                                 &sender->config.secret, epoch, 0));
    bench_append(forgery, &connect, sizeof(connect));
}

static void add_acks(script_t *script, bench_forgery_t *forgery, const route_t *route)
{
    uint8_t what = script_u8(script);

    if (what & 0x80) { /* names something that may come again */
        forgery->header.flags |= BTL_IB_FLAG_READY;
        forgery->header.channels = what >> 4 & 3;
        forgery->header.seq = BTL_IB_LE32(channel_of(script, route, 0).first + script_near(script));
    }
    for (uint32_t n = what % 5; n > 0; n--) {
        uint8_t channel = script_u8(script) % 8;
        const bench_channel_t sent = channel_of(script, route, channel);
        btl_ib_wire_ack_t block = {
            .channel = channel,
            .ranges = script_u8(script) % 4,
            .ack = BTL_IB_LE32(sent.first + script_near(script)),
            .limit = BTL_IB_LE32(sent.limit + script_near(script)),
        };
        bench_append(forgery, &block, sizeof(block));
        for (uint32_t i = 0; i < block.ranges; i++) {
            btl_ib_wire_range_t range = {.offset = script_u8(script), .count = script_u8(script)};
            bench_append(forgery, &range, sizeof(range));
        }
    }
}

static void add_chunk(script_t *script, bench_forgery_t *forgery, const route_t *route)
{
    static const uint8_t zeros[1400];
    btl_ib_wire_chunk_t chunk = {
        .fragment = BTL_IB_LE32(peer(script, route).fragment + script_near(script)),
        .total = BTL_IB_LE32(script_u16(script)),
        .index = script_u8(script),
        .unit = BTL_IB_LE16(script_u16(script) % 1400),
    };
    uint32_t total = BTL_IB_LE32(chunk.total), unit = BTL_IB_LE16(chunk.unit);
    uint32_t offset = (uint32_t) chunk.index * unit;
    uint32_t size = offset >= total ? 0 : total - offset < unit ? total - offset : unit;

    bench_append(forgery, &chunk, sizeof(chunk));
    bench_append(forgery, zeros, size); /* as much as its fields call for */
}

/* Whose regions are named: mostly those of the one it goes to. */
static btl_ib_region_key_t a_key(script_t *script, const route_t *route)
{
    uint8_t choice = script_u8(script);
    uint32_t host = choice % SCRIPT_HOSTS;

    if (choice < 0x80 && bench_conn(&script->bench, route->to, route->from) != NULL) {
        host = route->to;
    }
    btl_ib_region_key_t key = script->bench.hosts[host].key;
    if (choice & 0x40) {
        key.id += script_near(script);
        key.secret ^= script_u8(script);
    }
    return key;
}

static void add_target(script_t *script, bench_forgery_t *forgery, const route_t *route)
{
    static const uint8_t zeros[256];
    btl_ib_region_key_t key = a_key(script, route);
    uint64_t offset = script_near(script);
    btl_ib_wire_target_t target = {
        .region = BTL_IB_LE64(key.id),
        .secret = BTL_IB_LE64(key.secret),
        .offset = BTL_IB_LE64(offset),
        .end = BTL_IB_LE64(offset + script_near(script)),
        .operation = BTL_IB_LE32(script_u16(script)),
    };

    bench_append(forgery, &target, sizeof(target));
    bench_append(forgery, zeros, script_u8(script));
}

static void add_atomic(script_t *script, bench_forgery_t *forgery, const route_t *route)
{
    btl_ib_region_key_t key = a_key(script, route);
    btl_ib_wire_atomic_t atomic = {
        .region = BTL_IB_LE64(key.id),
        .secret = BTL_IB_LE64(key.secret),
        .offset = BTL_IB_LE64((uint64_t) script_near(script)),
        .operand = script_u32(script),
        .operation = BTL_IB_LE32(script_u16(script)),
        .code = script_u8(script) % 16,
        .type = script_u8(script) % 6,
    };

    bench_append(forgery, &atomic, sizeof(atomic));
}

static void add_got(script_t *script, bench_forgery_t *forgery)
{
    static const uint8_t zeros[256];
    btl_ib_wire_got_t got = {
        .offset_low = BTL_IB_LE32(script_near(script)),
        .operation = BTL_IB_LE32(script_u16(script)),
    };

    bench_append(forgery, &got, sizeof(got));
    bench_append(forgery, zeros, script_u8(script));
}

static void add_reply(script_t *script, bench_forgery_t *forgery)
{
    for (uint32_t n = 1 + script_u8(script) % 3; n > 0; n--) {
        btl_ib_wire_reply_t reply = {
            .result = script_u32(script),
            .operation = BTL_IB_LE32(script_u16(script)),
            .status = BTL_IB_LE32(script_u8(script) % 3),
        };
        bench_append(forgery, &reply, sizeof(reply));
    }
}

/* Messages that lie about their length now and then. */
static void add_bundle(script_t *script, bench_forgery_t *forgery)
{
    static const uint8_t zeros[256];

    for (uint32_t n = 1 + script_u8(script) % 4; n > 0; n--) {
        uint8_t size = script_u8(script);
        uint8_t lie = script_u8(script);
        btl_ib_wire_entry_t entry = {
            .size = BTL_IB_LE16(size + (lie & 0xf0 ? 0 : lie)),
            .tag = script_u8(script),
            .zero = lie == 0xff,
        };
        bench_append(forgery, &entry, sizeof(entry));
        bench_append(forgery, zeros, (size + 3u) / 4 * 4);
    }
}

static void add_body(script_t *script, bench_forgery_t *forgery, uint32_t type,
                     const route_t *route)
{
    uint64_t rest;
    uint32_t count;

    switch (type) {
    case BTL_IB_TYPE_ACK:
        add_acks(script, forgery, route);
        break;
    case BTL_IB_TYPE_CHUNK:
        add_chunk(script, forgery, route);
        break;
    case BTL_IB_TYPE_PUT:
    case BTL_IB_TYPE_GET:
        add_target(script, forgery, route);
        break;
    case BTL_IB_TYPE_ATOMIC:
        add_atomic(script, forgery, route);
        break;
    case BTL_IB_TYPE_GOT:
        add_got(script, forgery);
        break;
    case BTL_IB_TYPE_REPLY:
        add_reply(script, forgery);
        break;
    case BTL_IB_TYPE_BUNDLE:
        add_bundle(script, forgery);
        break;
    case BTL_IB_TYPE_SKIP:
    case BTL_IB_TYPE_REJECTED:
        count = BTL_IB_LE32(script_near(script));
        bench_append(forgery, &count, sizeof(count));
        break;
    default:
        rest = script_u32(script);
        bench_append(forgery, &rest, script_u8(script) % sizeof(rest));
        break;
    }
}

/* Fields that lie, each by a little, or by a lot. */
static void bend(script_t *script, bench_forgery_t *forgery)
{
    uint8_t which = script_u8(script);
    btl_ib_wire_header_t *header = &forgery->header;

    if (which & 1) {
        header->seq = BTL_IB_LE32(BTL_IB_LE32(header->seq) + script_near(script));
    }
    if (which & 2) {
        header->ack = BTL_IB_LE32(BTL_IB_LE32(header->ack) + script_near(script));
        header->credits = BTL_IB_LE16(script_u16(script));
    }
    if (which & 4) {
        header->channels = script_u8(script);
    }
    if (which & 8) {
        header->flags = script_u8(script);
    }
    if (which & 16) {
        header->tag = script_u8(script);
    }
    if (which & 32) {
        header->echo = BTL_IB_LE32((uint32_t) script->bench.now - script_near(script));
        header->hold = BTL_IB_LE16(script_u16(script));
    }
    if (which & 64) {
        header->stamp = BTL_IB_LE32((uint32_t) script->bench.now + script_near(script));
    }
    if (which & 128) {
        header->connection = BTL_IB_LE32(script_near(script));
    }
}

static void step_forge(script_t *script, sins_t *sins)
{
    bench_t *bench = &script->bench;
    uint8_t who = script_u8(script);
    uint32_t to = host_of(who), from = peer_of(to, who);
    uint32_t type = script_u8(script) % 16;
    const route_t route = {.to = to, .from = from};
    bench_forgery_t forgery = {
        .header.version_type = (uint8_t) (BTL_IB_WIRE_VERSION << 4 | type),
        .size = sizeof(forgery.header),
    };

    sins->forged = true;
    sins->ended = true; /* a CLOSE, or a floor */
    if (bench_conn(bench, to, from) != NULL) {
        forgery = bench_forge(bench, to, from, (btl_ib_type_t) type);
    }
    bend(script, &forgery);
    if (who & 8 || forgery.header.flags & BTL_IB_FLAG_CONNECT) {
        add_connect(script, &forgery, to, from);
    }
    add_body(script, &forgery, type, &route);
    bench_throw_forgery(bench, to, from, &forgery);
}

/* ---- senders that are not known ---- */

/* Bytes from anybody. */
static void step_raw(script_t *script, sins_t *sins)
{
    uint8_t who = script_u8(script);
    uint32_t to = host_of(who), size = script_u8(script) % 100;
    uint8_t data[100];

    (void) sins;
    for (uint32_t i = 0; i < size; i++) {
        data[i] = script_u8(script);
    }
    bench_throw(&script->bench, to, who & 0x80 ? BENCH_UNKNOWN : bench_address(peer_of(to, who), 0),
                data, size);
}

/* A genuine datagram with a few bytes changed arrives before it. */
static void step_mutate(script_t *script, sins_t *sins)
{
    bench_t *bench = &script->bench;
    uint8_t how = script_u8(script);

    if (bench->wire.first == NULL) {
        return;
    }
    bench_datagram_t *copy = bench_copy(bench->wire.first);
    for (uint32_t n = 1 + how % 4; n > 0; n--) {
        copy->data[script_u16(script) % (how & 0x80 ? copy->size : 64) % copy->size] ^=
            script_u8(script);
    }
    uint8_t *token = copy->data + offsetof(btl_ib_wire_header_t, token);
    if (how & 0x40) {
        token[how % 8] ^= 1;
    }
    if (how & 0x20) {
        bench_reseal(bench, copy);
    }
    if (memcmp(token, bench->wire.first->data + offsetof(btl_ib_wire_header_t, token), 8) == 0) {
        sins->forged = true;
        sins->ended = true;
    } /* else it must not matter */
    bench_deliver(bench, copy);
}

/* Something of long ago comes again. */
static void step_replay(script_t *script, sins_t *sins)
{
    bench_t *bench = &script->bench;
    uint32_t n = script_u16(script);

    (void) sins;
    if (bench->tape.count == 0) {
        return;
    }
    const bench_datagram_t *datagram = bench->tape.first;
    for (n %= bench->tape.count; n > 0; n--) {
        datagram = datagram->next;
    }
    bench_deliver(bench, bench_copy(datagram));
}

/* ---- ends ---- */

static void step_connection(script_t *script, sins_t *sins)
{
    bench_t *bench = &script->bench;
    uint8_t choice = script_u8(script);
    uint32_t host = host_of(choice);
    btl_ib_conn_t *conn = bench_conn(bench, host, peer_of(host, choice));

    if (conn == NULL) {
        return;
    }
    sins->ended = true;
    switch ((choice >> 2) % 4) {
    case 0:
        bench_connect(bench, host, peer_of(host, choice)); /* adopts it */
        btl_ib_conn_drain(conn);
        break;
    case 1:
        btl_ib_conn_destroy(conn, bench->now);
        break;
    case 2:
        btl_ib_conn_kill(conn, BTL_IB_DEATH_SILENCE);
        break;
    default:
        btl_ib_engine_refuse_new(bench->hosts[host].engine, bench->now);
        break;
    }
}

static void step_host(script_t *script, sins_t *sins)
{
    bench_t *bench = &script->bench;
    uint8_t choice = script_u8(script);
    uint32_t host = host_of(choice);
    bench_rail_t *rail = &bench->hosts[host].rails[0];

    sins->ended = true;
    switch ((choice >> 2) % 4) {
    case 0:
        bench_stop(bench, host);
        bench_start(bench, host);
        break;
    case 1:
        rail->failure = true;
        break;
    default:
        rail->refusal = true;
        rail->refused = bench_address(peer_of(host, choice), 0);
        break;
    }
}

static void hostile_step(script_t *script, sins_t *sins)
{
    static void (*const steps[])(script_t *, sins_t *) = {
        step_forge,  step_forge,  step_forge,      step_raw,
        step_mutate, step_replay, step_connection, step_host,
    };

    steps[script_u8(script) % (sizeof(steps) / sizeof(steps[0]))](script, sins);
}

static void nothing_made_up(bench_t *bench)
{
    for (uint32_t i = 0; i < bench->message_count; i++) {
        BENCH_REQUIRE(bench->messages[i].delivered <= 1);
    }
    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        BENCH_REQUIRE(bench->hosts[i].strange == 0);
    }
    bench_check_ops(bench);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static script_t script;
    sins_t sins = {0};

    script_begin(&script, data, size);
    script.bench.taping = true;
    for (int i = 0; i < SCRIPT_STEPS && !script_over(&script); i++) {
        if (script_u8(&script) & 1) {
            hostile_step(&script, &sins);
        } else {
            script_honest_step(&script);
        }
        script_check(&script);
    }
    if (!sins.forged) {
        nothing_made_up(&script.bench);
    }
    if (!sins.ended) {
        script_converge(&script);
    } else {
        bench_run(&script.bench, SCRIPT_SECOND);
    }
    script_check(&script);
    script_end(&script);
    return 0;
}
