/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Verdicts of the connectivity map, and its file. */

#include "btl_ib_connectivity.c" /* what is static there */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

static btl_ib_pair_info_t good(void)
{
    return (btl_ib_pair_info_t){
        .name = 3,
        .host = "node3",
        .device = "udp/eth0",
        .address = "10.0.0.1:4000",
        .remote = "10.0.0.3:4001",
        .path = {.own = true,
                 .heard = true,
                 .answered = true,
                 .contact = 64,
                 .sent = 1472,
                 .came = 1472,
                 .most = 1472,
                 .rtt = 30},
    };
}

static void must_be(const btl_ib_pair_info_t *pair, const char *verdict)
{
    assert_string_equal(verdict_of(pair), verdict);
}

TEST(verdicts)
{
    btl_ib_pair_info_t pair = good();

    must_be(&pair, "ok");
    pair.path.sent = 1400;
    must_be(&pair, "mtu");
    pair.path.checking = true;
    must_be(&pair, "unfinished");
    pair.path.own = false; /* it was answered over other rails */
    must_be(&pair, "one-way");
    pair.path.own = true;
    pair.path.answered = false;
    must_be(&pair, "one-way");
    pair.path.heard = false;
    must_be(&pair, "no-answer");
    pair.path.refused = true;
    must_be(&pair, "refused");
    strcpy(pair.why, "Network is unreachable");
    must_be(&pair, "no-path");
}

/* After the last answer the map waits for peers' probes a little longer. */
TEST(waits_for_peers)
{
    btl_ib_pair_info_t pair = good();
    const btl_ib_connectivity_t map = {.pairs = &pair, .count = 1};
    uint64_t until = 0;

    pair.path.checking = true;
    pair.path.came = 0;
    assert_true(find_open(&map, 1000, &until));
    assert_int_equal(until, 1000 + PEERS_TIME);
    pair.path.checking = false;
    assert_true(find_open(&map, until - 1, &until));
    assert_false(find_open(&map, until, &until));
    pair.path.came = 1472;
    assert_false(find_open(&map, 1000, &until));
}

static void *get_memory(void *context, size_t size)
{
    return calloc(1, size);
}

static void free_memory(void *context, void *memory)
{
    free(memory);
}

/* Also if all of ours was found before: until the time is up, or the last probe came. */
TEST(waits_from_the_beginning)
{
    static const btl_ib_engine_ops_t ops = {.zalloc = get_memory, .free = free_memory};
    btl_ib_pair_info_t pair = good();
    btl_ib_engine_config_t config;
    btl_ib_biased_lock_t lock;
    btl_ib_connectivity_t map = {.pairs = &pair, .count = 1, .started = btl_ib_now()};

    btl_ib_engine_config_default(&config);
    map.config = (btl_ib_connectivity_config_t){
        .engine = btl_ib_engine_create(&config, &ops, NULL),
        .lock = &lock,
        .timeout = 20 * 1000,
        .burst = 64,
    };
    assert_non_null(map.config.engine);
    assert_int_equal(btl_ib_biased_lock_init(&lock, false), 0);
    pair.rail = UINT32_MAX; /* no connection tells anything new */
    pair.path.came = 0;
    assert_false(wait_for_answers(&map));
    assert_true(btl_ib_now() - map.started >= map.config.timeout);
    pair.path.came = 1472;
    map.started = btl_ib_now();
    map.config.timeout = 10 * 1000 * 1000;
    assert_true(wait_for_answers(&map));
    btl_ib_engine_destroy(map.config.engine);
}

/* Line number `n`, from 0, without its end. */
static char *line_of(const char *name, int n)
{
    static char line[512];
    FILE *in = fopen(name, "r");

    assert_non_null(in);
    for (int i = 0; i <= n; i++) {
        assert_non_null(fgets(line, sizeof(line), in));
    }
    fclose(in);
    line[strcspn(line, "\n")] = '\0';
    return line;
}

TEST(file)
{
    char name[] = "/tmp/btl_ib_map.XXXXXX";
    btl_ib_pair_info_t pairs[] = {good(), good(), good()};
    static const btl_ib_modex_t self = {.host = "node1"};
    btl_ib_connectivity_t map = {
        .config = {.self = &self, .name = {0xab, 1}, .processes = 4, .file = name},
        .pairs = pairs,
        .count = 3,
        .started = btl_ib_now() - 7000000,
    };
    char nowhere[] = "/nowhere/at/all";
    static const char head[] = "# btl_ib connectivity map, version 1: job 000000ab, rank 1 of 4, "
                               "host node1, after 7.";

    pairs[1].path.answered = false;
    pairs[1].path.came = 0;
    pairs[2].path.own = false;
    pairs[2].path.heard = false;
    close(mkstemp(name));
    assert_int_equal(file_write(&map, true), 0);
    assert_memory_equal(line_of(name, 0), head, sizeof(head) - 1);
    assert_string_equal(line_of(name, 0) + sizeof(head) - 1 + 3, " s, complete");
    assert_string_equal(line_of(name, 3), "     3  node3             udp/eth0          "
                                          "10.0.0.1:4000           10.0.0.3:4001           "
                                          "ok          64-1472     64-1472      1472      30");
    assert_non_null(strstr(line_of(name, 4), "one-way     -           64-64        1472      30"));
    assert_non_null(
        strstr(line_of(name, 5),
               "no-answer   -           -            1472       -  messages go over other rails"));
    unlink(name);
    map.config.file = nowhere;
    assert_int_equal(file_write(&map, true), ENOENT);
}

UNIT_MAIN(NULL, NULL)
