/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The example of docs/protocol.md: what two engines say to each other must be these bytes, and
 * tools/check (test docs) demands that the document shows the same. And what the document says that
 * no engine of ours makes use of.
 */

#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "hostile.h"
#include "unit.h"

enum { LINE = 8 };

/* Datagram by datagram, eight bytes in a line; NULL ends each. */
static const char *const example[] = {
    "11 01 00 01 00 00 00 00",
    "b7 dd 67 d1 16 b4 68 b0",
    "01 00 00 00 00 00 00 00",
    "00 00 1d 00 40 42 0f 00",
    "00 00 00 00 00 00 00 00",
    "00 00 00 00 01 00 00 00",
    "00 00 10 00 01 00 00 00",
    "00 00 00 00 00 00 00 00",
    "68 65 6c 6c 6f",
    NULL,
    "14 09 00 00 00 00 10 00",
    "5e 33 13 97 82 c5 60 82",
    "00 00 00 00 00 00 00 00",
    "00 00 24 00 7c 42 0f 00",
    "40 42 0f 00 32 00 0a 00",
    "01 00 00 00 01 00 00 00",
    "00 00 10 00 01 00 00 00",
    "00 00 00 00 00 00 00 00",
    "00 00 00 00 02 00 00 00",
    "0a 00 00 00",
    NULL,
    "11 0c 00 01 00 00 10 00",
    "b7 dd 67 d1 16 b4 68 b0",
    "02 00 00 00 01 00 00 00",
    "08 00 05 00 7c 42 0f 00",
    "7c 42 0f 00 00 00 3c 00",
    "61 67 61 69 6e",
    NULL,
    "15 01 00 00 00 00 00 00",
    "b7 dd 67 d1 16 b4 68 b0",
    "00 00 00 00 00 00 00 00",
    "00 00 18 00 7c 42 0f 00",
    "00 00 00 00 00 00 00 00",
    "00 00 00 00 01 00 00 00",
    "00 00 10 00 01 00 00 00",
    "00 00 00 00 00 00 00 00",
    NULL,
};

static const char *const *expected = example;

/* The next datagram on the wire is the next of the example. It is handed over. */
static void next_is_as_written(bench_t *bench)
{
    bench_datagram_t *datagram = bench_pop(&bench->wire);

    assert_non_null(datagram);
    for (uint32_t at = 0; at < datagram->size; at += LINE) {
        char line[3 * LINE + 1] = "";
        for (uint32_t i = at; i < at + LINE && i < datagram->size; i++) {
            snprintf(line + 3 * (i - at), sizeof(line) - 3 * (i - at), "%02x ", datagram->data[i]);
        }
        line[strlen(line) - 1] = '\0';
        assert_non_null(*expected);
        assert_string_equal(line, *expected++);
    }
    assert_null(*expected++);
    bench_deliver(bench, datagram);
}

static void say(bench_t *bench, btl_ib_conn_t *conn, const char *text)
{
    void *body = btl_ib_sendi_begin(conn, 1, (uint32_t) strlen(text));

    assert_non_null(body);
    memcpy(body, text, strlen(text));
    assert_int_equal(btl_ib_sendi_commit(conn, bench->now), 0);
}

/* "hello" with the first datagram, its acknowledgement, "again", and a farewell. */
TEST(test_example)
{
    bench_t *bench = new_bench();

    for (uint32_t i = 0; i < 2; i++) {
        bench->hosts[i].config.name = (UINT64_C(1) << 32) + i;
        strcpy(bench->hosts[i].queues, "P,256,8:S,1472,64");
        bench_start(bench, i);
    }
    bench_turn(bench, 0);
    bench_turn(bench, 1);
    btl_ib_conn_t *conn = bench_connect(bench, 0, 1);
    assert_non_null(conn);
    say(bench, conn, "hello");
    bench->now += BENCH_DELAY;
    next_is_as_written(bench);
    bench_turn(bench, 1);
    assert_int_equal(bench->wire.count, 0);             /* the acknowledgement waits for company */
    bench->now += bench->hosts[1].config.ack_delay / 3; /* no answer is expected */
    bench_turn(bench, 1);
    next_is_as_written(bench);
    bench_turn(bench, 0);
    say(bench, conn, "again");
    next_is_as_written(bench);
    bench_turn(bench, 1);
    bench_clear(&bench->wire);
    btl_ib_conn_destroy(conn, bench->now);
    next_is_as_written(bench);
    assert_ptr_equal(expected, example + sizeof(example) / sizeof(example[0]));
    end(bench);
}

/* A published `init` of 0 counts as 1: a peer that gave all credits back could never be taken at
 * its word, for the receiver keeps one. */
TEST(test_init_0_counts_as_1)
{
    bench_t *bench = new_bench();
    btl_ib_conn_t *conn;

    bench_start(bench, 0);
    bench_start(bench, 1);
    btl_ib_peer_info_t info = bench_info(bench, 1, 0);
    info.queues.q[0].init = 0;
    assert_int_equal(btl_ib_conn_create(bench->hosts[0].engine, 0, &info, NULL, &conn), 0);
    for (int i = 0; i < 8; i++) { /* so many are reposted at once: none is used now */
        bench_send(bench, 0, 1, 20, 1);
    }
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 3 * SECOND);
    assert_int_equal(bench_counters(bench, 1)->received_skips, 1);
    assert_int_equal(bench_counters(bench, 1)->dropped_sequence, 0);
    end_working(bench);
}

static bool loses_skips(bench_t *bench, const bench_datagram_t *datagram)
{
    return (datagram->data[0] & 0xf) == BTL_IB_TYPE_SKIP;
}

/* A SKIP that no copy of arrived lies at the begin of the window and rests. A sender that has no
 * window left for it must ask again, as engine/model/window.pml shows (BUG_WINDOW). */
TEST(test_skip_does_not_rest_in_the_way)
{
    bench_t *bench = new_bench();

    bench->hosts[0].config.window_max = 2;
    bench_start(bench, 0);
    bench_start(bench, 1);
    for (int i = 0; i < 20; i++) {
        bench_send(bench, 0, 1, 20, 1);
        assert_true(bench_settle(bench, SECOND)); /* each in a segment of its own */
    }
    bench->loses = loses_skips;
    bench_run(bench, 100 * (uint64_t) SECOND);
    for (int i = 0; i < 3; i++) { /* two leave; several that waited could go on another channel */
        bench_send(bench, 0, 1, 20, 1);
        bench_turn(bench, 0);
    }
    bench_run(bench, 100 * (uint64_t) SECOND);
    assert_int_equal(bench_counters(bench, 1)->received_skips, 0);
    assert_false(bench_settle(bench, SECOND));
    bench->loses = NULL;
    assert_true(bench_settle(bench, SECOND));
    end_working(bench);
}

UNIT_MAIN(NULL, NULL)
