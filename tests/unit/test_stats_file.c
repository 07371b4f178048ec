/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The line of btl_ib_stats; and which peers and samples the file of btl_ib_stats_file has, while a
 * job runs and at its end. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "btl_ib_state.h"
#include "btl_ib_stats.h"
#include "hostile.h"
#include "told.h"

#define NAME "test_stats_file.json"

static btl_ib_stats_t stats;

static const char *read_file(void)
{
    static char all[1 << 20];
    FILE *file = fopen(NAME, "r");

    assert_non_null(file);
    all[fread(all, 1, sizeof(all) - 1, file)] = '\0';
    fclose(file);
    return all;
}

/* How often the file has `text`. */
static int count(const char *text)
{
    const char *all = read_file();
    int n = 0;

    for (const char *at = strstr(all, text); at != NULL; at = strstr(at + 1, text)) {
        n++;
    }
    return n;
}

/* The file of an interval; one connection is still there. */
static void interval(const btl_ib_conn_t *conn)
{
    const uint32_t ended = stats.records.peer_count;

    btl_ib_stats_end_peer(&stats, conn, "here", "lives");
    btl_ib_stats_file_update(&stats, 0, ended);
    assert_int_equal(count("\"lives\""), 1);
}

/* A connection that ended is in the file of one interval, or else files would grow with processes
 * that come and go; and in the last one. */
TEST(ended_once)
{
    bench_t *bench = new_bench();

    acquaint(bench);
    const btl_ib_conn_t *conn = bench_conn(bench, 0, 1);
    btl_ib_stats_begin(&stats, &(btl_ib_stats_config_t){.engine = bench->hosts[0].engine,
                                                        .host = "here",
                                                        .component = "1",
                                                        .openmpi = "1",
                                                        .file = strdup(NAME)});
    interval(conn);
    btl_ib_stats_end_peer(&stats, conn, "here", "first");
    interval(conn);
    assert_int_equal(count("\"first\""), 1);
    interval(conn);
    assert_int_equal(count("\"first\""), 0);
    btl_ib_stats_end_peer(&stats, conn, "here", "second");
    btl_ib_stats_end_peer(&stats, conn, "here", "third");
    interval(conn);
    assert_int_equal(count("\"first\""), 0);
    assert_int_equal(count("\"second\""), 1);
    assert_int_equal(count("\"third\""), 1);
    interval(conn);
    assert_int_equal(count("\"third\""), 0);
    assert_int_equal(btl_ib_stats_file_last(&stats, 0), 0);
    assert_int_equal(count("\"first\""), 1);
    assert_int_equal(count("\"second\""), 1);
    assert_int_equal(count("\"third\""), 1);
    assert_int_equal(count("\"lives\""), 0);
    btl_ib_stats_end(&stats);
    end(bench);
    assert_int_equal(unlink(NAME), 0);
}

/* Two hosts with two rails, and what the first one counts, with this file and intervals of 500 ms
 * from 1 s on. */
static bench_t *begin_counting(bool prints, char *file)
{
    bench_t *bench = new_bench();

    bench->rails = 2;
    acquaint(bench);
    btl_ib_stats_begin(&stats, &(btl_ib_stats_config_t){.engine = bench->hosts[0].engine,
                                                        .host = "he\"re",
                                                        .component = "1",
                                                        .openmpi = "1",
                                                        .name = (UINT64_C(7) << 32) + 3,
                                                        .now = 1000 * 1000,
                                                        .interval = 500 * 1000,
                                                        .prints = prints,
                                                        .file = file});
    return bench;
}

/* The line has what the engine counted, and the end of the next interval lies ahead. */
TEST(line_of_an_interval)
{
    bench_t *bench = begin_counting(true, NULL);
    const btl_ib_counters_t *c = btl_ib_engine_counters(bench->hosts[0].engine);
    char expected[160];

    assert_int_equal(stats.due, 1500 * 1000);
    begin_told();
    btl_ib_stats_interval(&stats, 2650 * 1000); /* nobody looked for two intervals */
    end_told();
    assert_int_equal(stats.due, 3000 * 1000);
    snprintf(expected, sizeof(expected), "btl_ib: rank 3 host he\"re after 1.6 s, sent %u segments",
             (unsigned) c->sent_segments);
    assert_true(c->sent_segments > 0);
    expect_told(expected);
    begin_told();
    btl_ib_stats_interval(&stats, 3000 * 1000);
    btl_ib_stats_last(&stats);
    end_told();
    assert_int_equal(stats.due, 3500 * 1000);
    expect_told("btl_ib: rank 3 host he\"re sent ");
    stats.config.prints = false;
    begin_told();
    btl_ib_stats_interval(&stats, 3500 * 1000);
    btl_ib_stats_last(&stats);
    end_told();
    assert_string_equal(told, "");
    btl_ib_stats_end(&stats);
    end(bench);
}

static void expect_carried(const char *expected)
{
    begin_told();
    btl_ib_stats_last(&stats);
    end_told();
    expect_told(expected);
}

/* Shares of devices, in what they sent and received together. */
TEST(line_tells_who_carried)
{
    bench_t *bench = begin_counting(true, NULL);
    btl_ib_rail_t *const *rails = bench->hosts[0].engine->rails;
    btl_ib_rail_counters_t before;
    const char *first = btl_ib_engine_rail_name(bench->hosts[0].engine, 0);
    const char *second = btl_ib_engine_rail_name(bench->hosts[0].engine, 1);
    char expected[160];

    btl_ib_engine_rail_counters(bench->hosts[0].engine, 0, &before);
    rails[0]->count.sent_bytes += 600000 - before.sent_bytes;
    rails[0]->count.received_bytes -= before.received_bytes;
    snprintf(expected, sizeof(expected), "carried by %s 100 %%\n", first);
    expect_carried(expected);
    rails[1]->count.sent_bytes += 150000;
    rails[1]->count.received_bytes += 250000;
    snprintf(expected, sizeof(expected), "carried by %s 60 %%, %s 40 %%\n", first, second);
    expect_carried(expected);
    rails[1]->count.sent_bytes = 1;
    rails[1]->count.received_bytes = 2;
    snprintf(expected, sizeof(expected), "carried by %s 100 %%, %s <1 %%\n", first, second);
    expect_carried(expected);
    rails[0]->count.sent_bytes -= 600000;
    rails[1]->count.sent_bytes = rails[1]->count.received_bytes = 0;
    expect_carried("carried by none\n");
    btl_ib_stats_end(&stats);
    end(bench);
}

/* However long a job runs, less than a thousand samples are kept, all of them equally far apart:
 * the latest is no older than that. While it runs the file has the last two. */
TEST(samples)
{
    enum { INTERVALS = 4700 };
    bench_t *bench = begin_counting(false, strdup(NAME));
    const char *at;
    double time, last = 0, step = 0;
    int n = 0;

    for (int i = 1; i <= INTERVALS; i++) {
        btl_ib_stats_interval(&stats, (1000 + (uint64_t) i * 500) * 1000);
    }
    btl_ib_stats_file_update(&stats, 0, 0);
    assert_int_equal(count("\"running\": true"), 1);
    at = strstr(read_file(), "\"seconds\": [");
    assert_int_equal(sscanf(at, "\"seconds\": [%lf, %lf%n", &last, &time, &n), 2);
    assert_int_equal(at[n], ']');
    assert_int_equal(btl_ib_stats_file_last(&stats, 1250 * 1000), 0);
    assert_int_equal(count("\"running\": false"), 1);
    assert_int_equal(count("\"complete\": true, \"seconds\": 0.250"), 1);
    assert_int_equal(count("\"host\": \"he\\u0022re\", \"job\": \"00000007\", \"rank\": 3,"), 1);
    last = 0;
    n = 0;
    for (at = strstr(read_file(), "\"seconds\": [") + 11; *at != ']'; n++) {
        time = strtod(at + 1, (char **) &at);
        step = n == 0 ? time : step;
        assert_true(time > last + step - 0.001 && time < last + step + 0.001);
        last = time;
    }
    assert_in_range(n, 500, 999);
    assert_true(last + step > INTERVALS * 0.5);
    btl_ib_stats_end(&stats);
    end(bench);
    assert_int_equal(unlink(NAME), 0);
}

/* What a device counted stays when it is removed, and its memory is not read any more. */
TEST(removed_device)
{
    bench_t *bench = begin_counting(false, strdup(NAME));
    btl_ib_registration_cache_t cache = {.counts = {.hits = 5, .misses = 6}};

    btl_ib_stats_add_device(&stats, 1, &cache);
    assert_int_equal(btl_ib_stats_file_last(&stats, 0), 0);
    assert_int_equal(count("\"registration_hits\": 5, \"registration_misses\": 6"), 2);
    cache.counts.hits = 7;
    btl_ib_stats_remove_device(&stats, 1);
    cache.counts.hits = cache.counts.misses = 99;
    assert_int_equal(btl_ib_stats_file_last(&stats, 0), 0);
    assert_int_equal(count("\"registration_hits\": 7, \"registration_misses\": 6"), 2);
    btl_ib_stats_end(&stats);
    end(bench);
    assert_int_equal(unlink(NAME), 0);
}

UNIT_MAIN(NULL, NULL)
