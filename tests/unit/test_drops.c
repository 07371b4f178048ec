/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the log says of dropped datagrams and of connections (level 100), and that it costs nothing
 * at lower levels.
 */

#include <stdio.h>
#include <string.h>

#include "btl_ib_route.h"
#include "hostile.h"
#include "unit.h"

enum { LINES = 512, SHOWN = 20 };

static char lines[LINES][320];
static uint32_t line_count;

__attribute__((format(printf, 3, 4))) static void listen_to(void *context, int level,
                                                            const char *format, ...)
{
    va_list args;

    (void) context;
    if (level != BTL_IB_LOG_DETAILED) {
        return;
    }
    assert_true(line_count < LINES);
    va_start(args, format);
    vsnprintf(lines[line_count++], sizeof(lines[0]), format, args);
    va_end(args);
}

static uint32_t count_of(const char *text)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < line_count; i++) {
        count += strstr(lines[i], text) != NULL;
    }
    return count;
}

/* Hosts 0 and 1, of which 1 is listened to. */
static bench_t *listened_on(uint32_t rails, bool detailed)
{
    bench_t *bench = new_bench();

    bench->rails = rails;
    line_count = 0;
    bench->hosts[1].config.log = (btl_ib_log_t){.print = listen_to, .detailed = detailed};
    acquaint(bench);
    line_count = 0;
    return bench;
}

static bench_t *listened(bool detailed)
{
    return listened_on(1, detailed);
}

/* A datagram to host 1 with a token that is wrong. */
static bench_datagram_t *forge(bench_t *bench)
{
    bench_send(bench, 0, 1, 100, 1);
    bench_datagram_t *forgery = bench_copy(bench->wire.first);
    forgery->data[offsetof(btl_ib_wire_header_t, token)] ^= 1;
    assert_true(bench_settle(bench, SECOND));
    return forgery;
}

/* So many of them. */
static void throw_forged(bench_t *bench, uint32_t count)
{
    bench_datagram_t *forgery = forge(bench);

    for (uint32_t i = 0; i < count; i++) {
        bench_throw(bench, 1, bench_address(0, 0), forgery->data, forgery->size);
    }
    free(forgery);
}

static void disconnect(bench_t *bench, uint32_t i, uint32_t peer)
{
    btl_ib_conn_destroy(bench_conn(bench, i, peer), bench->now);
}

TEST(a_line_for_each)
{
    static const uint8_t garbage[] = {0x1f, 0xab, 0x00};
    bench_t *bench = listened(true);

    throw_forged(bench, 1);
    assert_int_equal(line_count, 1);
    /* reason, rail, size, source (by the address that the transport knows), 16 bytes */
    assert_int_equal(strncmp(lines[0], "dropped_token: bench: ", 22), 0);
    assert_non_null(strstr(lines[0], " bytes from peer 7.0: "));
    const char *bytes = strstr(lines[0], "peer 7.0:") + strlen("peer 7.0:");
    assert_int_equal(strlen(bytes), 16 * 3 + strlen(" ..."));
    bench_throw(bench, 1, BENCH_UNKNOWN, garbage, sizeof(garbage));
    assert_string_equal(lines[1], "dropped_short: bench: 3 bytes from unknown: 1f ab 00");
    bench_throw(bench, 1, BENCH_UNKNOWN, garbage, 0);
    assert_string_equal(lines[2], "dropped_short: bench: 0 bytes from unknown:");
    assert_int_equal(line_count, 3);
    end_working(bench);
}

TEST(no_more_than_so_many)
{
    bench_t *bench = listened(true);

    throw_forged(bench, SHOWN + 30);
    assert_int_equal(count_of("dropped_token"), SHOWN);
    assert_int_equal(count_of("more datagrams"), 0);
    bench_run(bench, 2 * SECOND);
    assert_int_equal(count_of("30 more datagrams were dropped than are shown (20 a second)"), 1);
    assert_int_equal(line_count, SHOWN + 1);
    throw_forged(bench, SHOWN + 5); /* another second */
    assert_int_equal(count_of("dropped_token"), 2 * SHOWN);
    end(bench); /* what is left is said at the end */
    assert_int_equal(count_of("5 more datagrams were dropped than are shown"), 1);
}

/* Those without a line are counted in one when their second is over, not before, although nothing
 * else is to be done then, nor was there a pause. */
TEST(told_after_a_second)
{
    bench_t *bench = listened(true);

    bench_run(bench, 2 * SECOND);
    const uint64_t begun = bench->now;
    throw_forged(bench, SHOWN + 1);
    while (count_of("more datagrams") == 0 && bench->now < begun + 2 * SECOND) {
        bench->now += BENCH_DELAY;
        bench_turn(bench, 1);
    }
    assert_int_equal(bench->now - begun, SECOND + BENCH_DELAY); /* since the first one came */
    assert_int_equal(count_of("1 more datagrams"), 1);
    end(bench);
    assert_int_equal(count_of("more datagrams"), 1); /* none is left */
}

/* A peer is named by its own address, also while its datagrams take another route. */
TEST(a_peer_that_goes_elsewhere)
{
    bench_t *bench = listened_on(2, true);
    bench_datagram_t *forgery = forge(bench);
    const btl_ib_peer_info_t info = bench_info(bench, 0, 1);
    btl_ib_conn_t *other = NULL;

    assert_int_equal(btl_ib_conn_create(bench->hosts[1].engine, 1, &info, NULL, &other), 0);
    assert_true(btl_ib_route_take(bench_conn(bench, 1, 0), other));
    line_count = 0;
    bench_throw(bench, 1, bench_address(0, 0), forgery->data, forgery->size);
    assert_int_equal(count_of("dropped_token"), 1);
    assert_int_equal(count_of("bytes from peer 7.0"), 1);
    free(forgery);
    end(bench);
}

TEST(nothing_without_a_listener)
{
    bench_t *bench = listened(false);

    throw_forged(bench, 3);
    assert_true(bench_counters(bench, 1)->dropped_token >= 3);
    disconnect(bench, 1, 0);
    bench_run(bench, 2 * SECOND);
    end(bench);
    assert_int_equal(line_count, 0);
}

/* An asynchronous turn tells as well: a listener that may not print then keeps the lines. */
TEST(dropped_in_async)
{
    bench_t *bench = listened(true);
    bench_host_t *host = &bench->hosts[1];
    bench_datagram_t *forgery = forge(bench);

    for (uint32_t i = 0; i < SHOWN + 7; i++) {
        bench_deliver(bench, bench_copy(forgery));
    }
    free(forgery);
    (void) btl_ib_engine_async_progress(host->engine, bench->now, 1000);
    assert_int_equal(bench_counters(bench, 1)->dropped_token, SHOWN + 7);
    assert_int_equal(count_of("dropped_token"), SHOWN);
    assert_int_equal(count_of("more datagrams"), 0);
    bench->now += 2 * SECOND;
    (void) btl_ib_engine_progress(host->engine, bench->now, 16);
    assert_int_equal(count_of("dropped_token"), SHOWN);
    assert_int_equal(count_of("7 more datagrams"), 1);
    end(bench);
}

TEST(what_becomes_of_a_connection)
{
    bench_t *bench = new_bench();

    line_count = 0;
    bench->hosts[1].config.log = (btl_ib_log_t){.print = listen_to, .detailed = true};
    bench_start(bench, 0);
    bench_start(bench, 1);
    bench_send(bench, 0, 1, 20, 1);
    assert_true(bench_settle(bench, SECOND));
    assert_int_equal(count_of("peer 7.0: made: from bench to its rail 0 at "), 1);
    assert_int_equal(count_of("peer 7.0: passive"), 1);
    bench_connect(bench, 1, 0);
    assert_int_equal(count_of("peer 7.0: added"), 1);
    btl_ib_conn_t *conn = bench_conn(bench, 1, 0);
    const uint32_t before = bench_datagram_max(bench, 1, 0);
    bench->hosts[1].rails[0].what = BTL_IB_EVENT_PATH_MTU;
    bench->hosts[1].rails[0].about = bench_address(0, 0);
    bench->hosts[1].rails[0].size = 1000;
    bench->hosts[1].rails[0].news = true;
    bench_turn(bench, 1);
    char text[80];
    snprintf(text, sizeof(text), "peer 7.0: datagrams of at most 1000 bytes, before of %u", before);
    assert_int_equal(count_of(text), 1);
    disconnect(bench, 0, 1);
    bench_run(bench, SECOND);
    assert_int_equal(count_of("peer 7.0: reset"), 1); /* the peer closed it */
    btl_ib_conn_drain(conn);
    assert_int_equal(count_of("peer 7.0: drains"), 1);
    disconnect(bench, 1, 0);
    assert_int_equal(count_of("peer 7.0: closed here, drained"), 1);
    bench_run(bench, SECOND);
    end(bench);
}

UNIT_MAIN(NULL, NULL)
