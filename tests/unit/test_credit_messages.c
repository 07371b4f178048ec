/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Explicit credit messages: how many a receiver sends that has nothing else to send. */

#include <string.h>

#include "hostile.h"
#include "unit.h"

enum {
    JOINED = 65487,         /* bytes of a GSO burst: its segments need no acknowledgement each */
    SHORT = 20,             /* bytes: one segment of the first queue, */
    LONG = 1200,            /* and of the second */
    ANSWER_DELAY = 1000000, /* us: no acknowledgement leaves only because it is time */
};

/* All peers have all credits of their queues from the first. */
static bench_t *pair(const char *queues)
{
    bench_t *bench = new_bench();

    bench->delay = 1;
    for (uint32_t i = 0; i < 4; i++) {
        strcpy(bench->hosts[i].queues, queues);
        bench->hosts[i].attr.gso_bytes = JOINED;
        bench->hosts[i].attr.max_batch = 64;
        bench->hosts[i].config.credit_init = 65536;
        bench->hosts[i].config.ack_delay = ANSWER_DELAY;
        bench_start(bench, i);
    }
    bench_send(bench, 0, 1, SHORT, 1);
    bench_send(bench, 1, 0, SHORT, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 2 * ANSWER_DELAY);
    return bench;
}

static void send_one(bench_t *bench, uint32_t from, uint32_t to, uint32_t size)
{
    if (bench->message_count % 4 == 0) { /* the bench asks for an ACK of each fourth message */
        assert_int_not_equal(bench_send(bench, 2, 3, SHORT, 1), UINT32_MAX);
    }
    assert_int_not_equal(bench_send(bench, from, to, size, 1), UINT32_MAX);
    bench_flow(bench);
}

static uint64_t acks(const bench_t *bench)
{
    return bench_counters(bench, 1)->sent_acks;
}

/* How many ACK segments the receiver of `count` messages sends, of which each `every`-th is
 * answered by a message; 0: none. */
static uint64_t acks_for(const char *queues, uint32_t size, uint32_t count, uint32_t every)
{
    bench_t *bench = pair(queues);
    const uint64_t before = acks(bench);

    for (uint32_t n = 1; n <= count; n++) {
        send_one(bench, 0, 1, size);
        if (every > 0 && n % every == 0) {
            send_one(bench, 1, 0, SHORT);
        }
    }
    const uint64_t sent = acks(bench) - before;
    bench_run(bench, 2 * ANSWER_DELAY);
    end_delivered(bench);
    return sent;
}

/* Queues, bytes of a message, how many of them are received, and by how many messages credits go
 * back. */
static const struct {
    const char *queues;
    uint32_t size, received;
    uint64_t messages;
} CASES[] = {
    /* After `window`, though a batch has num - low. */
    {"P,128,256,128,16", SHORT, 160, 10},
    {"P,128,256,128,60", SHORT, 180, 3},
    {"P,128,256,240,16", SHORT, 160, 10},
    {"P,128,16,4,2", SHORT, 40, 20},
    {"P,128,16,8,8", SHORT, 40, 5},
    {"P,128,4,3,1", SHORT, 20, 20},
    /* Of each queue by its own. */
    {"P,256,256,128,32:P,1472,256,128,16", LONG, 160, 10},
    {"P,256,256,128,32:P,1472,256,128,16", SHORT, 160, 5},
    /* By default a quarter of num. */
    {"P,128,64", SHORT, 64, 4},
    /* A quarter is left to the peer. */
    {"P,128,16,12,16", SHORT, 36, 3},
    /* What acknowledges 96 segments, 3/2 bursts, carries credits, too. */
    {"P,128,256,128,128", SHORT, 192, 2},
    {"P,128,256", SHORT, 192, 3},
    /* S has none. */
    {"S,128,256,128,256", SHORT, 192, 2},
};

TEST(after_window_buffers)
{
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        const uint64_t sent = acks_for(CASES[i].queues, CASES[i].size, CASES[i].received, 0);

        if (sent != CASES[i].messages) {
            fail_msg("%s, %u bytes: %u segments made %u messages", CASES[i].queues, CASES[i].size,
                     CASES[i].received, (unsigned) sent);
        }
    }
}

/* Messages to the peer carry credits: it needs no others. */
TEST(carried_by_messages)
{
    assert_int_equal(acks_for("P,128,256,128,16", SHORT, 160, 15), 0);
    assert_int_equal(acks_for("P,128,256,128,16", SHORT, 160, 1), 0);
    assert_int_equal(acks_for("P,128,256,128,16", SHORT, 144, 24),
                     6); /* 8 of each 24 are carried */
}

/* btl_ib_am_credits_slack N: up to N are banked, whatever the window says. */
TEST(after_slack)
{
    static const struct {
        uint32_t slack;
        uint64_t messages;
    } cases[] = {{0, 144}, {1, 72}, {15, 9}, {47, 3}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        btl_ib_queue_table_t table;
        btl_ib_queues_error_t error;
        char queues[64];

        assert_int_equal(btl_ib_queues_parse("P,128,256,128,24", &table, &error), 0);
        btl_ib_queues_set_slack(&table, cases[i].slack);
        btl_ib_queues_format(&table, queues, sizeof(queues));
        assert_int_equal(acks_for(queues, SHORT, 144, 0), cases[i].messages);
    }
}

UNIT_MAIN(NULL, NULL)
