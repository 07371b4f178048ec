/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Receive queues with few buffers: messages pass as fast as the credits let them, a round trip for
 * each set of credits. No credit comes back by a timer.
 */

#include <stdio.h>
#include <string.h>

#include "hostile.h"
#include "unit.h"

enum { MESSAGES = 100 };

/* Answers with a message of the same size, until there were enough. */
static void answer(bench_t *bench, uint32_t message)
{
    const bench_message_t *m = &bench->messages[message];
    const uint32_t from = m->from, to = m->to, size = m->size;

    if (bench->message_count < bench->scratch[0]) {
        bench_send(bench, to, from, size, 1);
    }
}

static bench_t *job_with(const char *queues)
{
    bench_t *bench = new_bench();

    for (uint32_t i = 0; i < 2; i++) {
        snprintf(bench->hosts[i].queues, sizeof(bench->hosts[i].queues), "%s", queues);
        bench_start(bench, i);
    }
    return bench;
}

/* What a message takes in a ping-pong, and in a stream of one direction, in us. A round trip is 20,
 * so one way of a ping-pong is 10 where the credits suffice for the whole message. */
static const struct {
    const char *queues;
    uint32_t size;
    uint32_t ping_pong, stream;
} CASES[] = {
    {"P,256,2", 8, 10, 1},
    {"P,256,2", 100, 10, 6},
    {"P,256,2", 1024, 51, 60}, /* five segments, two in a round trip */
    {"P,256,2,1,1,1", 8, 10, 1},
    {"P,256,2,1,1,1", 1024, 51, 60},
    {"P,256,3", 100, 10, 4},
    {"P,256,3", 1024, 31, 40},
    {"P,256,4", 1024, 31, 30},
    {"P,256,4,1,1", 1024, 31, 30},
    {"P,256,4,3,1", 1024, 31, 30},
    {"P,256,16", 1024, 11, 8},
    {"S,256,2", 8, 11, 2},
    {"S,256,2", 1024, 111, 120}, /* one at a time may be on its way */
    {"S,256,4", 1024, 111, 120},
    {"P,256,2:P,1472,2", 1024, 10, 10},
    {"P,256,2:S,1472,2", 1024, 11, 20},
};

static uint64_t timeouts(const bench_t *bench)
{
    return bench_counters(bench, 0)->timeouts + bench_counters(bench, 1)->timeouts;
}

TEST(test_as_fast_as_credits_let)
{
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        bench_t *bench = job_with(CASES[i].queues);
        const uint32_t size = CASES[i].size;

        bench_send(bench, 0, 1, size, 1);
        assert_true(bench_settle(bench, SECOND));
        bench_run(bench, 1000);

        bench->on_deliver = answer;
        bench->scratch[0] = bench->message_count + MESSAGES;
        uint64_t begin = bench->now;
        bench_send(bench, 0, 1, size, 1);
        assert_true(bench_settle(bench, SECOND));
        if (bench->now - begin > (uint64_t) MESSAGES * CASES[i].ping_pong + 100) {
            fail_msg("%s, %u bytes: ping-pong takes %u us each", CASES[i].queues, size,
                     (uint32_t) (bench->now - begin) / MESSAGES);
        }
        bench->on_deliver = NULL;
        bench_run(bench, 10000);

        begin = bench->now;
        for (int n = 0; n < MESSAGES; n++) {
            bench_send(bench, 0, 1, size, 1);
        }
        assert_true(bench_settle(bench, SECOND));
        if (bench->now - begin > (uint64_t) MESSAGES * CASES[i].stream + 100) {
            fail_msg("%s, %u bytes: stream takes %u us each", CASES[i].queues, size,
                     (uint32_t) (bench->now - begin) / MESSAGES);
        }
        assert_int_equal(timeouts(bench), 0);
        end(bench);
    }
}

UNIT_MAIN(NULL, NULL)
