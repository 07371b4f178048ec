/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EAGER_MAX = 12000,
    MESSAGES = 256,
    MEMORY_MAX = 8 << 20, /* bytes that an engine with these limits never needs */
};

/* ---- reading ---- */

uint8_t script_u8(script_t *script)
{
    return script->at < script->size ? script->data[script->at++] : 0;
}

uint16_t script_u16(script_t *script)
{
    uint32_t low = script_u8(script);

    return (uint16_t) (low | (uint32_t) script_u8(script) << 8);
}

uint32_t script_u32(script_t *script)
{
    uint32_t low = script_u16(script);

    return low | (uint32_t) script_u16(script) << 16;
}

uint32_t script_near(script_t *script)
{
    uint8_t byte = script_u8(script);

    if (byte < 0xf0) {
        return (uint32_t) (byte >> 4) - (byte & 0xf);
    }
    return script_u32(script);
}

bool script_over(const script_t *script)
{
    return script->at >= script->size;
}

/* ---- beginning ---- */

static void choose_host(script_t *script, bench_host_t *host)
{
    static const char *const queues[] = {
        "P,128,256,128,16:S,512,256,128,32:S,1472,256,128,32",
        "P,128,4,2,1:P,1472,8,4",
        "S,1472,64,32,4",
        "P,200,64:S,600,64,32,8:P,1472,16",
    };
    uint8_t choice = script_u8(script);

    strcpy(host->queues, queues[choice & 3]);
    host->attr.inline_size = choice & 4 ? 0 : 65536;
    host->attr.max_iov = choice & 8 ? 1 : 3;
    host->attr.knows_source = !(choice & 16);
    host->attr.max_batch = choice & 32 ? 3 : 16;
    host->config.reassembly_max = choice & 128 ? 0 : 4;
}

static void choose_limits(script_t *script, bench_host_t *host, uint8_t choice)
{
    btl_ib_engine_config_t *config = &host->config;

    (void) script;
    config->eager_max = EAGER_MAX;
    config->depth_total = choice & 1 ? 20 : 128;
    config->window_max = choice & 2 ? 8 : 256;
    config->credit_init = choice & 4 ? 1 : 16;
    config->passive_max = choice & 8 ? SCRIPT_HOSTS - 1 : 8; /* all peers may come first */
    config->lookups_max = 20;
    config->depth_peer = choice & 16 ? 4 : 64;
    config->idle_after = 200 * 1000;
    config->backlog_max = 4000;
}

void script_begin(script_t *script, const uint8_t *data, size_t size)
{
    script->data = data;
    script->size = size;
    script->at = 0;
    bench_init(&script->bench, MESSAGES);
    uint8_t limits = script_u8(script);
    bool protected = (limits & 0xa0) == 0xa0; /* seldom: it only keeps things out */
    BENCH_REQUIRE(bench_protection(&script->bench,
                                   protected ? BTL_IB_PROTECTION_CRC32C : BTL_IB_PROTECTION_NONE));
    script->bench.first_seq = limits & 64 ? UINT32_MAX - 3 : 1;
    for (uint32_t i = 0; i < SCRIPT_HOSTS; i++) {
        choose_host(script, &script->bench.hosts[i]);
        choose_limits(script, &script->bench.hosts[i], limits);
        bench_start(&script->bench, i);
    }
}

/* ---- steps ---- */

static uint32_t other_host(uint32_t from, uint8_t byte)
{
    return (from + 1 + byte % (SCRIPT_HOSTS - 1)) % SCRIPT_HOSTS;
}

static void step_send(script_t *script)
{
    uint8_t who = script_u8(script);
    uint32_t from = who % SCRIPT_HOSTS;
    uint32_t size = script_u16(script);

    /* Most are small, some as long as can be. */
    size =
        BENCH_MESSAGE_MIN + (who & 0x80 ? size % (EAGER_MAX - BENCH_MESSAGE_MIN + 1) : size % 1500);
    bench_send(&script->bench, from, other_host(from, who >> 2), size, who & 0x40 ? 200 : 1);
}

static void step_op(script_t *script)
{
    static const btl_ib_op_kind_t kinds[] = {BTL_IB_OP_PUT, BTL_IB_OP_GET, BTL_IB_OP_ATOMIC};
    uint8_t who = script_u8(script);
    uint32_t from = who % SCRIPT_HOSTS;

    bench_op(&script->bench, from, other_host(from, who >> 2), kinds[(who >> 4) % 3],
             script_u16(script) % 6000);
}

/* The `n`th datagram on the wire, taken off it, or NULL. */
static bench_datagram_t *take(bench_t *bench, uint32_t n)
{
    bench_datagram_t *taken = NULL;
    uint32_t count = bench->wire.count;

    for (uint32_t i = 0; i < count; i++) {
        bench_datagram_t *datagram = bench_pop(&bench->wire);
        if (i == n % count) {
            taken = datagram;
        } else {
            bench_push(&bench->wire, datagram);
        }
    }
    return taken;
}

/* Something happens to one datagram: it arrives now, twice, late, or never. */
static void step_network(script_t *script)
{
    bench_t *bench = &script->bench;
    uint8_t choice = script_u8(script);
    bench_datagram_t *datagram = take(bench, choice >> 2);

    if (datagram == NULL) {
        return;
    }
    switch (choice & 3) {
    case 0:
        free(datagram);
        break;
    case 1:
        bench_push(&bench->wire, bench_copy(datagram));
        bench_deliver(bench, datagram);
        break;
    case 2:
        bench_push(&bench->wire, datagram);
        break;
    default:
        bench_deliver(bench, datagram);
        break;
    }
}

static void step_deliver(script_t *script)
{
    bench_t *bench = &script->bench;

    for (uint32_t n = 1 + script_u8(script) % 32; n > 0 && bench->wire.count > 0; n--) {
        bench_deliver(bench, bench_pop(&bench->wire));
    }
}

static void step_time(script_t *script)
{
    bench_t *bench = &script->bench;
    uint8_t choice = script_u8(script);

    bench->now += UINT64_C(1) << choice % 24; /* up to 8 s */
    for (uint32_t i = 0; i < SCRIPT_HOSTS; i++) {
        if (choice & 0x20u << i) {
            bench_turn(bench, i);
        }
    }
}

static void step_turn(script_t *script)
{
    uint8_t who = script_u8(script);
    bench_host_t *host = &script->bench.hosts[who % SCRIPT_HOSTS];

    if (who & 0x80) {
        btl_ib_engine_async_progress(host->engine, script->bench.now, 1 + (who >> 2) % 16);
    } else {
        btl_ib_engine_progress(host->engine, script->bench.now, 1 + (who >> 2) % 16);
    }
}

/* A host that lacks something: room in its transport, memory, a receiver for a tag. */
static void step_want(script_t *script)
{
    uint8_t choice = script_u8(script);
    bench_host_t *host = &script->bench.hosts[choice % SCRIPT_HOSTS];
    uint32_t value = choice >> 4;

    switch ((choice >> 2) % 4) {
    case 0:
        host->rails[0].busy = value;
        break;
    case 1:
        host->fail_in = value;
        break;
    case 2:
        host->deaf[200] = true;
        break;
    default:
        host->deaf[200] = false;
        break;
    }
}

void script_honest_step(script_t *script)
{
    static void (*const steps[])(script_t *) = {
        step_send, step_network, step_deliver, step_time,
        step_turn, step_want,    step_op,      step_deliver,
    };

    steps[script_u8(script) % (sizeof(steps) / sizeof(steps[0]))](script);
}

/* ---- demands ---- */

void script_check(script_t *script)
{
    for (uint32_t i = 0; i < SCRIPT_HOSTS; i++) {
        const bench_host_t *host = &script->bench.hosts[i];
        bench_check_counters(host);
        bench_check_accounts(host);
        BENCH_REQUIRE(host->bytes_peak <= MEMORY_MAX);
    }
}

static void each_delivered_once(bench_t *bench)
{
    for (uint32_t i = 0; i < bench->message_count; i++) {
        const bench_message_t *m = &bench->messages[i];
        BENCH_REQUIRE(m->delivered == m->accepted && m->done == m->accepted);
    }
    for (uint32_t i = 0; i < SCRIPT_HOSTS; i++) {
        BENCH_REQUIRE(bench->hosts[i].strange == 0);
    }
    for (uint32_t i = 0; i < bench->op_count; i++) {
        BENCH_REQUIRE(bench->ops[i].done && bench->ops[i].status == 0);
    }
    bench_check_ops(bench);
}

/* What the engines look like that do not get on. */
static void print_states(const bench_t *bench)
{
    char text[BENCH_STATE_BYTES];

    for (uint32_t i = 0; i < SCRIPT_HOSTS; i++) {
        bench_state(&bench->hosts[i], true, text);
        fprintf(stderr, "host %u, queues %s\n%s", i, bench->hosts[i].queues, text);
    }
}

void script_converge(script_t *script)
{
    bench_t *bench = &script->bench;

    for (uint32_t i = 0; i < SCRIPT_HOSTS; i++) {
        bench->hosts[i].rails[0].busy = 0;
        bench->hosts[i].fail_in = 0;
        bench->hosts[i].deaf[200] = false;
    }
    if (!bench_settle(bench, 60 * SCRIPT_SECOND)) {
        print_states(bench);
        BENCH_REQUIRE(!"all messages get through");
    }
    bench_run(bench, 20 * SCRIPT_SECOND);
    each_delivered_once(bench);
    for (uint32_t i = 0; i < SCRIPT_HOSTS; i++) {
        const bench_totals_t totals = bench_totals(&bench->hosts[i]);
        BENCH_REQUIRE(totals.unacked == 0 && totals.bytes_unacked == 0);
        BENCH_REQUIRE(totals.reassemblies == 0);
        BENCH_REQUIRE(btl_ib_engine_next_due(bench->hosts[i].engine) == UINT64_MAX);
    }
}

void script_end(script_t *script)
{
    bench_fini(&script->bench);
}
