/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which peers the file of btl_ib_stats_file has, while a job runs and at its end. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "btl_ib_stats.h"
#include "hostile.h"
#include "unit.h"

#define NAME "test_stats_file.json"

static btl_ib_stats_t stats;

/* How often the file has `text`. */
static int count(const char *text)
{
    static char all[1 << 20];
    FILE *file = fopen(NAME, "r");
    int n = 0;

    assert_non_null(file);
    all[fread(all, 1, sizeof(all) - 1, file)] = '\0';
    fclose(file);
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

UNIT_MAIN(NULL, NULL)
