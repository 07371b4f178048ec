/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* When acknowledgements leave, and when they wait for what carries them. */

#include <string.h>

#include "hostile.h"
#include "unit.h"

enum {
    LONG = 40000,       /* bytes: more than 16 chunks, fewer than 64 */
    LONGEST = 64 << 10, /* what an engine takes */
    MESSAGES = 12,      /* of bulk each way */
};

/* `joins`: bytes of datagrams that their transports join; `credits`: of each peer from the
 * first. */
static bench_t *pair_that(const char *queues, uint32_t joins, uint32_t credits)
{
    bench_t *bench = new_bench();

    for (uint32_t i = 0; i < 4; i++) {
        strcpy(bench->hosts[i].queues, queues);
        bench->hosts[i].attr.gso_bytes = joins;
        bench->hosts[i].attr.max_batch = 64;
        bench->hosts[i].config.credit_init = credits;
        bench_start(bench, i);
    }
    bench_send(bench, 0, 1, 20, 1);
    bench_send(bench, 1, 0, 20, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    return bench;
}

static bench_t *pair(const char *queues)
{
    return pair_that(queues, 0, 16);
}

static uint64_t acks_of(const bench_t *bench, uint32_t host)
{
    return bench_counters(bench, host)->sent_acks;
}

/* How many acknowledgements the receiver of a message sends while it comes and right after. */
static uint64_t acks_for(bench_t *bench, uint32_t from, uint32_t to, uint32_t size)
{
    const uint64_t before = acks_of(bench, to);

    if (bench->message_count % 4 == 0) { /* the bench asks for an ACK of each fourth message */
        assert_int_not_equal(bench_send(bench, 2, 3, 20, 1), UINT32_MAX);
    }
    assert_int_not_equal(bench_send(bench, from, to, size, 1), UINT32_MAX);
    bench_flow(bench);
    return acks_of(bench, to) - before;
}

/* A message and its answer. */
static uint64_t acks_of_exchange(bench_t *bench, uint32_t size)
{
    uint64_t acks = acks_for(bench, 0, 1, size);

    return acks + acks_for(bench, 1, 0, size);
}

/* Is what 0 sent to 1 acknowledged when 1 polls so many us later? */
static bool acked_after(bench_t *bench, uint64_t time)
{
    bench->now += time;
    bench_turn(bench, 1);
    bench_flow(bench);
    return bench_peer(bench, 0, 1).unacked == 0;
}

/* For so long that no grant grows any more, which is told at once. */
static void get_used_to_answers(bench_t *bench)
{
    for (int i = 0; i < 100; i++) {
        (void) acks_of_exchange(bench, LONG);
    }
}

/* A receiver that has nothing to send acknowledges messages at once. protocol: R46 */
TEST(one_way_at_once)
{
    bench_t *bench = pair("P,256,256:P,1472,1024,512,64");

    bench_run(bench, 1000);
    for (int i = 0; i < 20; i++) {
        assert_true(acks_for(bench, 0, 1, LONG) > 0);
    }
    end_delivered(bench);
}

/* What arrives in bursts needs no acknowledgement for each: one for two, of which one may be
 * short. */
TEST(one_for_two_bursts)
{
    for (uint32_t joins = 0; joins <= 65487; joins += 65487) {
        bench_t *bench = pair_that("P,256,256:P,1472,1024", joins, 1024);

        bench_run(bench, 1000);
        (void) acks_for(bench, 0, 1, 20);
        bench_run(bench, 1000); /* and it was not answered */
        bench_set_window(bench, 0, 1, 200);
        assert_int_equal(acks_for(bench, 0, 1, LONG) > 0, joins == 0);
        assert_int_equal(acks_for(bench, 0, 1, LONG) > 0, joins == 0);
        assert_true(acks_for(bench, 0, 1, LONG) > 0);
        end_delivered(bench);
    }
}

/* A window that is smaller than that would wait for it to no end but that of the delay: its sender
 * asks. */
TEST(smaller_than_two_bursts)
{
    for (uint32_t halves = 2; halves <= 3; halves++) {
        bench_t *bench = pair_that("P,256,256:P,1472,1024", 65487, 1024);

        bench_run(bench, 1000);
        bench_set_window(bench, 0, 1, halves * bench_peer(bench, 0, 1).gso_segments / 2 - 1);
        const uint64_t acks = acks_for(bench, 0, 1, LONG);
        assert_true(acks + acks_for(bench, 0, 1, LONG) > 0);
        end_delivered(bench);
    }
}

/* Where messages are answered at once the answer acknowledges them. */
TEST(answers_carry_them)
{
    bench_t *bench = pair("P,256,256:P,1472,1024,512,64");

    get_used_to_answers(bench);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(acks_of_exchange(bench, LONG), 0);
        assert_int_equal(bench_peer(bench, 0, 1).unacked, 0); /* the answer told */
    }
    end_delivered(bench);
}

/* No answer comes: the acknowledgement is no later than any, and those after it are not held
 * back. */
TEST(no_answer)
{
    bench_t *bench = pair("P,256,256:P,1472,1024,512,64");

    get_used_to_answers(bench);
    assert_int_equal(acks_for(bench, 0, 1, LONG), 0);
    const uint64_t delay = bench->hosts[1].config.ack_delay;
    assert_false(acked_after(bench, delay / 2));
    assert_true(acked_after(bench, delay - delay / 2));
    for (int i = 0; i < 5; i++) {
        assert_true(acks_for(bench, 0, 1, LONG) > 0);
    }
    /* A late answer is none. */
    bench->now += 2 * delay;
    (void) acks_for(bench, 1, 0, 20);
    assert_true(acks_for(bench, 0, 1, LONG) > 0);
    end_delivered(bench);
}

/* Where no answer is expected what is too little for an ACK at once waits for a third of the delay,
 * and is not held up by what waits for an answer. protocol: R45 */
TEST(soon_without_answers)
{
    bench_t *bench = pair("P,256,256:P,1472,1024,512,64");

    get_used_to_answers(bench);
    const uint64_t third = bench->hosts[1].config.ack_delay / 3;
    assert_int_equal(acks_for(bench, 0, 1, LONG), 0); /* 1 owes one to 0, and then to 2 */
    assert_int_equal(acks_for(bench, 2, 1, 20), 0);
    bench->now += third;
    bench_turn(bench, 1);
    bench_flow(bench);
    assert_int_equal(bench_peer(bench, 2, 1).unacked, 0);
    assert_true(bench_peer(bench, 0, 1).unacked > 0);
    assert_true(acked_after(bench, 2 * third));
    end_delivered(bench);
}

/* More than one message is in need of it before the answer: what is much is acknowledged at
 * once. */
TEST(several_messages)
{
    bench_t *bench = pair("P,256,256:P,1472,1024,512,64");

    get_used_to_answers(bench);
    assert_int_equal(acks_for(bench, 0, 1, LONG), 0);
    assert_true(acks_for(bench, 0, 1, LONG) > 0);
    end_delivered(bench);
}

/* A sender that is out of credits is told of new ones, answer or not. */
TEST(credits_do_not_wait)
{
    bench_t *bench = pair("P,256,256:P,1472,16");

    for (int i = 0; i < 5; i++) {
        (void) acks_of_exchange(bench, 8000);
    }
    assert_true(acks_for(bench, 0, 1, LONGEST) > 0);
    end_delivered(bench);
}

/* Bulk both ways: a process that waits for an acknowledgement sends none of its own while there is
 * more to receive, because the burst that it lets go carries one. */
TEST(bulk_carries_them)
{
    bench_t *bench = pair_that("P,256,256:P,1472,1024", 65487, 1024);
    const uint32_t burst = bench_peer(bench, 0, 1).gso_segments;
    uint64_t acks = acks_of(bench, 0) + acks_of(bench, 1);

    bench->burst = (int) burst;
    bench_set_window(bench, 0, 1, 3 * burst);
    bench_set_window(bench, 1, 0, 3 * burst);
    for (int i = 0; i < MESSAGES; i++) {
        assert_int_not_equal(bench_send(bench, 0, 1, LONGEST, 1), UINT32_MAX);
        assert_int_not_equal(bench_send(bench, 1, 0, LONGEST, 1), UINT32_MAX);
    }
    bench_flow(bench);
    acks = acks_of(bench, 0) + acks_of(bench, 1) - acks;
    assert_in_range(acks, 1, MESSAGES); /* each is more than a burst */
    end_delivered(bench);
}

UNIT_MAIN(NULL, NULL)
