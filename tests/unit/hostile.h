/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A small job on the bench, for tests that send hostile datagrams to it. After cmocka.h. */

#ifndef BTL_IB_TEST_HOSTILE_H
#define BTL_IB_TEST_HOSTILE_H

#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "unit.h"

enum { SECOND = 1000 * 1000 };

static inline bench_t *new_bench(void)
{
    bench_t *bench = malloc(sizeof(*bench));

    assert_non_null(bench);
    bench_init(bench, 8192);
    return bench;
}

static inline void end(bench_t *bench)
{
    bench_fini(bench);
    free(bench);
}

/* Has all hosts receive into these queues. */
static inline void use_queues(bench_t *bench, const char *queues)
{
    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        strcpy(bench->hosts[i].queues, queues);
    }
}

/* Hosts 0 and 1 from now on: they know each other, and have nothing under way. */
static inline void acquaint(bench_t *bench)
{
    bench_start(bench, 0);
    bench_start(bench, 1);
    bench_send(bench, 0, 1, 20, 1);
    bench_send(bench, 1, 0, 20, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
}

/* Small and large messages in both directions between hosts 0 and 1. */
static inline void talk(bench_t *bench, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        bench_send(bench, 0, 1, 20 + (uint32_t) i, 1);
        bench_send(bench, 1, 0, 600, 2);
        bench_send(bench, 0, 1, 5000, 3);
        bench_send(bench, 1, 0, 9000, 4);
        bench_op(bench, 0, 1, BTL_IB_OP_PUT, 3000);
        bench_op(bench, 1, 0, BTL_IB_OP_GET, 3000);
        bench_op(bench, 0, 1, BTL_IB_OP_ATOMIC, 0);
    }
    assert_true(bench_settle(bench, 10 * SECOND));
    bench_run(bench, 3000);
}

static inline bench_t *job_of(bench_t *bench)
{
    for (uint32_t i = 0; i < 3; i++) {
        bench_start(bench, i);
    }
    talk(bench, 3);
    bench_send(bench, 2, 0, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 3000);
    return bench;
}

static inline bench_t *job(void)
{
    return job_of(new_bench());
}

static inline void each_delivered_once(bench_t *bench)
{
    for (uint32_t i = 0; i < bench->message_count; i++) {
        assert_int_equal(bench->messages[i].delivered, 1);
    }
    bench_check_ops(bench);
    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        assert_int_equal(bench->hosts[i].strange, 0);
    }
}

/* What was thrown did no harm: all that is sent afterwards arrives. */
static inline void still_works(bench_t *bench)
{
    talk(bench, 2);
    each_delivered_once(bench);
}

/* How most tests end: the engines stop and give all memory back, after all that was sent has been
 * delivered... */
static inline void end_delivered(bench_t *bench)
{
    each_delivered_once(bench);
    end(bench);
}

/* ...which takes at most `us`... */
static inline void end_settled(bench_t *bench, uint64_t us)
{
    assert_true(bench_settle(bench, us));
    end_delivered(bench);
}

/* ...or after it was seen that they still carry messages. */
static inline void end_working(bench_t *bench)
{
    still_works(bench);
    end(bench);
}

#endif
