/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Datagrams made by somebody else, and whether they changed anything. */

#include "bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- forging ---- */

bench_forgery_t bench_forge(bench_t *bench, uint32_t to, uint32_t from, btl_ib_type_t type)
{
    const bench_peer_t victim = bench_peer(bench, to, from);
    const bench_channel_t channel = bench_channel(bench, to, from, 0);
    bench_forgery_t forgery = {.size = sizeof(btl_ib_wire_header_t)};

    forgery.header = (btl_ib_wire_header_t){
        .version_type = (uint8_t) (BTL_IB_WIRE_VERSION << 4 | type),
        .connection = BTL_IB_LE32(victim.id),
        .token = BTL_IB_LE64(victim.token),
        .seq = BTL_IB_LE32(channel.expected),
        .ack = BTL_IB_LE32(channel.first),
        .stamp = BTL_IB_LE32((uint32_t) bench->now),
    };
    return forgery;
}

void bench_append(bench_forgery_t *forgery, const void *data, uint32_t size)
{
    uint32_t used = forgery->size - (uint32_t) sizeof(forgery->header);

    BENCH_REQUIRE(used + size <= sizeof(forgery->body));
    memcpy(forgery->body + used, data, size);
    forgery->size += size;
    forgery->header.length = BTL_IB_LE16(used + size);
}

/* Where datagrams for that host have a checksum, put it behind the `size` bytes at `data`. Returns
 * the bytes of any trailer. */
static uint32_t seal(const bench_host_t *host, uint8_t *data, uint32_t size)
{
    btl_ib_protection_t protection;

    btl_ib_protection_init(&protection, host->config.protection, NULL, NULL);
    if (!protection.ops->keyed) {
        (void) btl_ib_protection_seal(&protection, NULL, data, data, size);
    }
    return protection.ops->trailer;
}

void bench_throw_forgery(bench_t *bench, uint32_t to, uint32_t from, const bench_forgery_t *forgery)
{
    uint8_t data[sizeof(*forgery) + BTL_IB_TRAILER_MAX] = {0};

    memcpy(data, forgery, forgery->size);
    const uint32_t trailer = seal(&bench->hosts[to], data, forgery->size);
    bench_throw(bench, to, bench_address(from, 0), data, forgery->size + trailer);
}

void bench_reseal(const bench_t *bench, bench_datagram_t *datagram)
{
    const bench_host_t *host = &bench->hosts[datagram->to / BENCH_RAILS];
    const uint32_t trailer = btl_ib_protection_ops(host->config.protection)->trailer;

    if (datagram->size >= trailer) {
        (void) seal(host, datagram->data, datagram->size - trailer);
    }
}

/* ---- watching ---- */

void bench_watch(const bench_host_t *host, bool clocks, bench_watch_t *watch)
{
    watch->host = host;
    watch->clocks = clocks;
    watch->count = *btl_ib_engine_counters(host->engine);
    bench_state(host, clocks, watch->state);
}

static void compare_states(const char *before, const char *after)
{
    while (*before != '\0' && *before == *after) {
        before++;
        after++;
    }
    if (*before != *after) {
        fprintf(stderr, "before: ...%.100s\nafter:  ...%.100s\n", before, after);
        BENCH_REQUIRE(!"the state is as before");
    }
}

/* May this counter differ? What a valid token brought may be answered. What looks like a first
 * contact is received twice: kept, and handled. */
static bool is_excused(const char *name, bool clocks)
{
    static const char *const answers[] = {"sent_datagrams", "sent_acks", "sent_connects"};

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]) && !clocks; i++) {
        if (strcmp(name, answers[i]) == 0) {
            return true;
        }
    }
    return strcmp(name, "received_datagrams") == 0 || strcmp(name, "received_unidentified") == 0;
}

static bool is_of(const char *name, const char *cause)
{
    size_t len = strlen(cause);

    return cause[len - 1] == '_' ? strncmp(name, cause, len) == 0 : strcmp(name, cause) == 0;
}

void bench_unchanged(const bench_watch_t *watch, const char *cause, uint64_t times)
{
    const char *before = (const char *) &watch->count;
    const char *after = (const char *) btl_ib_engine_counters(watch->host->engine);
    char state[BENCH_STATE_BYTES];
    uint64_t counted = 0;

    for (const btl_ib_counter_info_t *info = btl_ib_counter_infos; info->name != NULL; info++) {
        uint64_t was = *(const uint64_t *) (const void *) (before + info->offset);
        uint64_t is = *(const uint64_t *) (const void *) (after + info->offset);
        if (is_of(info->name, cause)) {
            counted += is - was;
        } else if (is != was && !is_excused(info->name, watch->clocks)) {
            fprintf(stderr, "%s is %" PRIu64 ", was %" PRIu64 "\n", info->name, is, was);
            BENCH_REQUIRE(!"the counters are as before, but for the cause");
        }
    }
    if (counted != times) {
        fprintf(stderr, "%s: counted %" PRIu64 ", expected %" PRIu64 "\n", cause, counted, times);
        BENCH_REQUIRE(!"the cause was counted");
    }
    bench_state(watch->host, watch->clocks, state);
    compare_states(watch->state, state);
    bench_check_counters(watch->host);
    bench_check_accounts(watch->host);
}
