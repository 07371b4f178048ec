/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A peer with the token, but without the keys of regions: one-sided requests and answers that
 * cannot be. */

#include <stdlib.h>
#include <string.h>

#include "insider.h"
#include "unit.h"

/* A PUT (GET) of `size` bytes into host 0's memory at `offset`. */
static bench_forgery_t one_sided(bench_t *bench, btl_ib_type_t type, const btl_ib_region_key_t *key,
                                 uint64_t offset, uint32_t size)
{
    static const uint8_t zeros[1400];
    bench_forgery_t forgery = lie(bench, type);
    btl_ib_wire_target_t target = {
        .region = BTL_IB_LE64(key->id),
        .secret = BTL_IB_LE64(key->secret),
        .offset = BTL_IB_LE64(offset),
        .end = BTL_IB_LE64(offset + size),
        .operation = BTL_IB_LE32(77 * BTL_IB_OPS_MAX),
    };

    forgery.header.channels = 2;
    forgery.header.seq = BTL_IB_LE32(channel_of(bench, 2).expected);
    bench_append(&forgery, &target, sizeof(target));
    bench_append(&forgery, zeros, type == BTL_IB_TYPE_PUT ? size : 0);
    return forgery;
}

/* Everything in host 0's memory stays as it is, and the cause is counted. */
static void put_without_effect(bench_t *bench, const btl_ib_region_key_t *key, uint64_t offset,
                               const uint64_t *cause)
{
    bench_host_t *host = &bench->hosts[0];
    uint8_t *before = malloc(BENCH_MEMORY);
    bench_forgery_t forgery = one_sided(bench, BTL_IB_TYPE_PUT, key, offset, 1000);
    uint64_t counted = *cause;
    uint64_t left_alone = btl_ib_engine_counters(host->engine)->unplaced_puts;

    assert_non_null(before);
    memcpy(before, host->memory, BENCH_MEMORY);
    bench_throw_forgery(bench, 0, 1, &forgery);
    assert_int_equal(*cause, counted + 1);
    assert_int_equal(btl_ib_engine_counters(host->engine)->unplaced_puts, left_alone + 1);
    assert_memory_equal(before, host->memory, BENCH_MEMORY);
    bench_check_counters(host);
    bench_check_accounts(host);
    free(before);
}

TEST(puts_with_guessed_keys)
{
    bench_t *bench = job();
    const bench_host_t *host = &bench->hosts[0];
    const btl_ib_counters_t *count = btl_ib_engine_counters(host->engine);
    btl_ib_region_key_t key = host->key;

    for (uint32_t bit = 0; bit < 64; bit++) {
        key.secret ^= UINT64_C(1) << bit;
        put_without_effect(bench, &key, 0, &count->rejected_region);
        key.secret ^= UINT64_C(1) << bit;
        key.id ^= UINT64_C(1) << bit;
        put_without_effect(bench, &key, 0, &count->rejected_region);
        key.id ^= UINT64_C(1) << bit;
    }
    put_without_effect(bench, &bench->hosts[1].key, 0,
                       &count->rejected_region); /* a key of another process */
    key = (btl_ib_region_key_t){0};
    put_without_effect(bench, &key, 0, &count->rejected_region);
    end_working(bench);
}

TEST(puts_beyond_a_region)
{
    static const uint64_t offsets[] = {
        BENCH_MEMORY - 999, BENCH_MEMORY,      BENCH_MEMORY + 1,
        UINT64_C(1) << 32,  UINT64_C(1) << 63, UINT64_MAX - 1000,
    };
    bench_t *bench = job();
    const bench_host_t *host = &bench->hosts[0];
    const btl_ib_counters_t *count = btl_ib_engine_counters(host->engine);
    btl_ib_region_key_t constant;

    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        put_without_effect(bench, &host->key, offsets[i], &count->rejected_bounds);
    }
    assert_int_equal(btl_ib_region_add(host->engine, host->memory, BENCH_MEMORY,
                                       BTL_IB_ACCESS_READ | BTL_IB_ACCESS_ATOMIC, &constant),
                     0);
    put_without_effect(bench, &constant, 0, &count->rejected_right);
    end_working(bench);
}

/* A put was done, its region is taken back, and its datagrams come again: as duplicates, or as a
 * new segment under the stale key. */
TEST(puts_after_deregistration)
{
    bench_t *bench = job();
    bench_host_t *host = &bench->hosts[0];
    const btl_ib_counters_t *count = btl_ib_engine_counters(host->engine);
    btl_ib_region_key_t stale = host->key, fresh;

    bench->taping = true;
    bench_op(bench, 1, 0, BTL_IB_OP_PUT, 5000);
    assert_true(bench_settle(bench, SECOND));
    bench->taping = false;
    bench_run(bench, 3000);
    bench_check_ops(bench);
    btl_ib_region_remove(host->engine, &stale);
    memset(host->memory, 0x5a, BENCH_MEMORY);
    uint64_t placed = count->placed_puts;
    for (const bench_datagram_t *d = bench->tape.first; d != NULL; d = d->next) {
        if (d->to == bench_address(0, 0) && (d->data[0] & 0xf) == BTL_IB_TYPE_PUT) {
            bench_watch_t watch;
            bench_watch(host, false, &watch);
            bench_throw(bench, 0, d->source, d->data, d->size);
            bench_unchanged(&watch, "dropped_duplicate", 1);
        }
    }
    put_without_effect(bench, &stale, 0, &count->rejected_region);
    /* Something else is registered where it was, perhaps at the same place in the table. */
    assert_int_equal(
        btl_ib_region_add(host->engine, host->memory, BENCH_MEMORY, BTL_IB_ACCESS_ALL, &fresh), 0);
    put_without_effect(bench, &stale, 0, &count->rejected_region);
    assert_int_equal(count->placed_puts, placed);
    for (uint32_t i = 0; i < BENCH_MEMORY; i++) {
        assert_int_equal(host->memory[i], 0x5a);
    }
    bench_clear(&bench->wire);
    end(bench);
}

/* Reading is refused as well: what comes back says so, and carries no byte of memory. */
TEST(gets_that_are_refused)
{
    bench_t *bench = job();
    bench_host_t *host = &bench->hosts[0];
    const btl_ib_counters_t *count = btl_ib_engine_counters(host->engine);
    btl_ib_region_key_t guessed = host->key, sink;

    guessed.secret ^= 1;
    assert_int_equal(
        btl_ib_region_add(host->engine, host->memory, BENCH_MEMORY, BTL_IB_ACCESS_WRITE, &sink), 0);
    const struct {
        const btl_ib_region_key_t *key;
        uint64_t offset;
        const uint64_t *cause;
    } tries[] = {
        {&guessed, 0, &count->rejected_region},
        {&host->key, BENCH_MEMORY - 10, &count->rejected_bounds},
        {&host->key, UINT64_MAX - 1000, &count->rejected_bounds},
        {&sink, 0, &count->rejected_right},
    };
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        uint64_t counted = *tries[i].cause, served = count->served_gets;
        bench_forgery_t forgery =
            one_sided(bench, BTL_IB_TYPE_GET, tries[i].key, tries[i].offset, 1000);
        bench_throw_forgery(bench, 0, 1, &forgery);
        bench_flow(bench);
        assert_int_equal(*tries[i].cause, counted + 1);
        assert_int_equal(count->served_gets, served);
        bench_check_counters(host);
        bench_check_accounts(host);
    }
    end(bench);
}

/* An ATOMIC on a word of host 0's memory. */
static bench_forgery_t atomic(bench_t *bench, const btl_ib_region_key_t *key, uint8_t code,
                              btl_ib_atomic_type_t type)
{
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_ATOMIC);
    const btl_ib_wire_atomic_t body = {
        .region = BTL_IB_LE64(key->id),
        .secret = BTL_IB_LE64(key->secret),
        .offset = BTL_IB_LE64(64),
        .operand = BTL_IB_LE64(1),
        .operation = BTL_IB_LE32(77 * BTL_IB_OPS_MAX),
        .code = code,
        .type = (uint8_t) type,
    };

    forgery.header.channels = 2;
    forgery.header.seq = BTL_IB_LE32(channel_of(bench, 2).expected);
    bench_append(&forgery, &body, sizeof(body));
    return forgery;
}

/* Words that the device alone may change are registered without that right; a peer with the key
 * asks for it nevertheless, of each kind of word, and when the region is gone. */
TEST(atomics_on_words_of_the_device)
{
    bench_t *bench = job();
    bench_host_t *host = &bench->hosts[0];
    const btl_ib_counters_t *count = btl_ib_engine_counters(host->engine);
    const uint64_t served = count->served_atomics;
    uint8_t *before = malloc(BENCH_MEMORY);
    btl_ib_region_key_t words;

    assert_non_null(before);
    memcpy(before, host->memory, BENCH_MEMORY);
    for (int gone = 0; gone < 2; gone++) {
        const uint64_t *cause = gone ? &count->rejected_region : &count->rejected_right;
        assert_int_equal(btl_ib_region_add(host->engine, host->memory, BENCH_MEMORY,
                                           BTL_IB_ACCESS_READ | BTL_IB_ACCESS_WRITE, &words),
                         0);
        if (gone) {
            btl_ib_region_remove(host->engine, &words);
        }
        for (uint8_t code = BTL_IB_ATOMIC_ADD; code <= BTL_IB_ATOMIC_CSWAP; code++) {
            const uint64_t counted = *cause;
            bench_forgery_t forgery = atomic(
                bench, &words, code, code % 2 != 0 ? BTL_IB_ATOMIC_INT64 : BTL_IB_ATOMIC_INT32);
            bench_throw_forgery(bench, 0, 1, &forgery);
            bench_flow(bench);
            assert_int_equal(*cause, counted + 1);
            bench_check_counters(host);
            bench_check_accounts(host);
        }
    }
    assert_int_equal(count->served_atomics, served);
    assert_memory_equal(before, host->memory, BENCH_MEMORY);
    free(before);
    end(bench);
}

/* Answers to what was never asked: counted, and nothing written. */
TEST(answers_to_nothing)
{
    bench_t *bench = job();
    bench_host_t *host = &bench->hosts[0];
    const btl_ib_counters_t *count = btl_ib_engine_counters(host->engine);
    uint8_t *before = malloc(BENCH_MEMORY);

    assert_non_null(before);
    memcpy(before, host->memory, BENCH_MEMORY);
    for (uint32_t id = 0; id < 600; id++) {
        uint64_t stale = count->stale_answers;
        uint32_t wire = BTL_IB_LE32(id);
        btl_ib_wire_got_t got = {.operation = wire};
        btl_ib_wire_reply_t reply = {.operation = wire, .result = 1};
        bench_forgery_t forgery = lie(bench, id % 3 == 0   ? BTL_IB_TYPE_GOT
                                             : id % 3 == 1 ? BTL_IB_TYPE_REPLY
                                                           : BTL_IB_TYPE_REJECTED);
        forgery.header.channels = 2;
        forgery.header.seq = BTL_IB_LE32(channel_of(bench, 2).expected);
        if (id % 3 == 0) {
            bench_append(&forgery, &got, sizeof(got));
            bench_append(&forgery, "12345678", 8);
        } else if (id % 3 == 1) {
            bench_append(&forgery, &reply, sizeof(reply));
        } else {
            bench_append(&forgery, &wire, sizeof(wire));
        }
        bench_throw_forgery(bench, 0, 1, &forgery);
        assert_int_equal(count->stale_answers, stale + 1);
        bench_check_counters(host);
    }
    assert_memory_equal(before, host->memory, BENCH_MEMORY);
    free(before);
    end(bench);
}

UNIT_MAIN(NULL, NULL)
