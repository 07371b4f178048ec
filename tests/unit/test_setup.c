/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Engines and their rails are made, asked and ended. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

/* ---- configurations ---- */

/* Sets the field of that number to a value. Returns its name; NULL: there are no more. */
static const char *set_field(btl_ib_engine_config_t *config, int field, uint64_t value)
{
    switch (field) {
    case 0:
        config->eager_max = (uint32_t) value;
        return "eager_max";
    case 1:
        config->rto_min = (uint32_t) value;
        return "rto_min";
    case 2:
        config->rto_initial = (uint32_t) value;
        return "rto_initial";
    case 3:
        config->depth_peer = (uint32_t) value;
        return "depth_peer";
    case 4:
        config->depth_total = (uint32_t) value;
        return "depth_total";
    case 5:
        config->depth_bytes = value;
        return "depth_bytes";
    case 6:
        config->window_max = (uint32_t) value;
        return "window_max";
    case 7:
        config->ops_max = (uint32_t) value;
        return "ops_max";
    case 8:
        config->idle_after = (uint32_t) value;
        return "idle_after";
    default:
        return NULL;
    }
}

/* Nothing of that may be 0, and 1 is enough of each. The default is right. */
TEST(nothing_is_zero)
{
    btl_ib_engine_config_t config;
    char problem[128];
    const char *name;

    btl_ib_engine_config_default(&config);
    assert_true(btl_ib_engine_config_check(&config, problem, sizeof(problem)));
    for (int field = 0; (name = set_field(&config, field, 0)) != NULL; field++) {
        assert_false(btl_ib_engine_config_check(&config, problem, sizeof(problem)));
        assert_non_null(strstr(problem, name));
        (void) set_field(&config, field, 1);
        assert_true(btl_ib_engine_config_check(&config, problem, sizeof(problem)));
    }
}

/* A window may be as large as sequences allow beside those that are given up, and no larger. */
TEST(the_largest_window)
{
    btl_ib_engine_config_t config;
    char problem[128];

    btl_ib_engine_config_default(&config);
    config.window_max = BTL_IB_WINDOW_LIMIT - BTL_IB_SKIP_MAX;
    assert_true(btl_ib_engine_config_check(&config, problem, sizeof(problem)));
    config.window_max++;
    assert_false(btl_ib_engine_config_check(&config, problem, sizeof(problem)));
    assert_non_null(strstr(problem, "window_max"));
}

static char said[256];

static void note_said(void *context, int level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(said, sizeof(said), format, args);
    va_end(args);
}

static void *zalloc(void *context, size_t size)
{
    return calloc(1, size);
}

static void release(void *context, void *memory)
{
    free(memory);
}

static void *no_memory(void *context, size_t size)
{
    return NULL;
}

/* There is no engine of a wrong configuration, which is said, nor without memory. */
TEST(no_engine)
{
    btl_ib_engine_ops_t ops = {.zalloc = zalloc, .free = release};
    btl_ib_engine_config_t config;

    btl_ib_engine_config_default(&config);
    config.eager_max = 0;
    assert_null(btl_ib_engine_create(&config, &ops, NULL));
    config.log.print = note_said;
    said[0] = '\0';
    assert_null(btl_ib_engine_create(&config, &ops, NULL));
    assert_non_null(strstr(said, "eager_max"));
    btl_ib_engine_config_default(&config);
    ops.zalloc = no_memory;
    assert_null(btl_ib_engine_create(&config, &ops, NULL));
    ops.zalloc = zalloc;
    btl_ib_engine_t *engine = btl_ib_engine_create(&config, &ops, NULL);
    assert_non_null(engine);
    btl_ib_engine_destroy(engine);
}

/* Header prediction is for messages that nothing else looks at. */
TEST(prediction)
{
    bench_t *bench = new_bench();

    bench->hosts[1].config.predict = false;
    assert_true(bench_protection(bench, BTL_IB_PROTECTION_NONE));
    bench_start(bench, 0);
    bench_start(bench, 1);
    bench->hosts[2].config.protection = BTL_IB_PROTECTION_CRC32C;
    bench_start(bench, 2);
    bench->hosts[3].config.trace = true;
    bench_start(bench, 3);
    assert_true(bench->hosts[0].engine->predicts);
    assert_false(bench->hosts[1].engine->predicts);
    assert_false(bench->hosts[2].engine->predicts);
    assert_false(bench->hosts[3].engine->predicts);
    assert_false(bench->hosts[0].engine->inspected);
    assert_true(bench->hosts[3].engine->inspected);
    end(bench);
}

/* ---- rails ---- */

static bench_t *bench;
static btl_ib_engine_t *engine;
static bench_rail_t more; /* a further rail of host 0 */

static int set_up(void **state)
{
    bench = new_bench();
    bench_start(bench, 0);
    engine = bench->hosts[0].engine;
    bench_open_rail(&bench->hosts[0], 1);
    more = bench->hosts[0].rails[1];
    bench->hosts[0].rails[1].base.ops = NULL;
    return 0;
}

static int tear_down(void **state)
{
    end(bench);
    return 0;
}

/* Adds `more` with these queues. Returns its number, or an error. */
static int add(const char *queues)
{
    btl_ib_queue_table_t table;
    btl_ib_queues_error_t error;

    assert_int_equal(btl_ib_queues_parse(queues, &table, &error), 0);
    return btl_ib_engine_add_rail(engine, &more.base, &table);
}

/* The largest queue holds what must travel in one piece, and no more than a datagram; a table of
 * nobody's grammar is none. What is wrong is said. */
TEST_WITH(queues_that_do_not_fit, set_up, tear_down)
{
    const uint32_t least = btl_ib_protection_datagram_min(BTL_IB_PROTECTION_NONE);
    const btl_ib_queue_table_t empty = {0};
    char queues[64];

    engine->config.log.print = note_said;
    said[0] = '\0';
    snprintf(queues, sizeof(queues), "P,104,16:S,%u,16", least - 1);
    assert_int_equal(add(queues), -EINVAL);
    assert_non_null(strstr(said, "bench"));
    assert_int_equal(add("P,104,16:S,1473,16"), -EINVAL);
    assert_int_equal(btl_ib_engine_add_rail(engine, &more.base, &empty), -EINVAL);
    bench->hosts[0].fail_in = 1;
    assert_int_equal(add("P,104,16:S,1472,16"), -ENOMEM);
    assert_int_equal(engine->rail_count, 1);
    snprintf(queues, sizeof(queues), "P,104,16:S,%u,16", least);
    assert_int_equal(add(queues), 1);
}

/* There are so many rails at most. */
TEST_WITH(too_many_rails, set_up, tear_down)
{
    bench_rail_t *rails = calloc(BTL_IB_RAILS_MAX, sizeof(*rails));
    btl_ib_queue_table_t table;
    btl_ib_queues_error_t error;

    assert_non_null(rails);
    assert_int_equal(btl_ib_queues_parse("P,104,16:S,1472,16", &table, &error), 0);
    for (int i = 1; i < BTL_IB_RAILS_MAX; i++) {
        rails[i] = more;
        assert_int_equal(btl_ib_engine_add_rail(engine, &rails[i].base, &table), i);
    }
    assert_int_equal(btl_ib_engine_add_rail(engine, &rails[0].base, &table), -ENOSPC);
    bench_stop(bench, 0);
    for (int i = 1; i < BTL_IB_RAILS_MAX; i++) { /* each was closed */
        assert_true(rails[i].stopped);
    }
    free(rails);
}

/* A new engine has nothing to do, for anybody. */
TEST_WITH(nothing_to_do, set_up, tear_down)
{
    const btl_ib_list_t *const lists[] = {
        &engine->conns,
        &engine->ready,
        &engine->starved,
        &engine->acks,
        &engine->acks_answered,
        &engine->whole,
        &engine->rnr,
        &engine->closing,
        &engine->events,
        &engine->zcopy.sent,
        &engine->tables,
        &engine->op_ids.peers,
        &engine->retries.waiting,
        &engine->deferred_free.gone,
        &engine->backlog.messages,
        &engine->unidentified.messages,
    };

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        assert_true(btl_ib_list_empty(lists[i]));
    }
    assert_false(btl_ib_engine_lingering(engine));
}

/* What a rail publishes is of that rail. */
TEST_WITH(what_a_rail_publishes, set_up, tear_down)
{
    btl_ib_peer_info_t info;

    more.base.attr.max_datagram = 2000;
    more.base.attr.ecn = true;
    more.base.address_base = 2;
    engine->config.ack_delay = 99;
    strcpy(more.base.name, "other");
    assert_int_equal(add("P,104,16:P,2000,16"), 1);
    btl_ib_engine_rail_info(engine, 1, &info);
    assert_int_equal(info.name, engine->config.name);
    assert_memory_equal(&info.secret, &engine->config.secret, sizeof(info.secret));
    assert_memory_equal(&info.wire, &engine->config.wire, sizeof(info.wire));
    assert_memory_equal(&info.key, &engine->config.key, sizeof(info.key));
    assert_int_equal(info.protection, BTL_IB_PROTECTION_NONE);
    assert_int_equal(info.rail, 1);
    assert_int_equal(info.ack_delay, 99);
    assert_true(info.ecn);
    assert_int_equal(info.max_datagram, 2000);
    assert_int_equal(info.address_len, more.base.address_len);
    assert_int_equal(info.address_base, 2);
    assert_memory_equal(info.address, more.base.address, info.address_len);
    assert_int_equal(info.queues.count, 2);
    assert_int_equal(info.queues.q[1].size, 2000);
    assert_int_equal(info.queues.q[0].init, 16); /* credits of a new peer, of each queue */
    assert_int_equal(info.queues.q[1].init, 16);
    assert_string_equal(btl_ib_engine_rail_name(engine, 1), "other");
    assert_string_equal(btl_ib_engine_rail_name(engine, 0), "bench");
}

/* Shares `more`'s functions with the bench, but for those that a test sets. */
static btl_ib_transport_ops_t ops_of_more;

static void add_more(void)
{
    ops_of_more = *more.base.ops;
    more.base.ops = &ops_of_more;
    assert_int_equal(add("P,104,16:S,1472,16"), 1);
}

static bool address_text(const void *address, size_t len, char *out, size_t size)
{
    snprintf(out, size, "%zu bytes", len);
    return true;
}

/* An address is told where the transport has words for it. */
TEST_WITH(addresses_in_words, set_up, tear_down)
{
    char text[64];

    add_more();
    assert_false(btl_ib_engine_address_text(engine, 1, text, sizeof(text)));
    ops_of_more.address_text = address_text;
    assert_true(btl_ib_engine_address_text(engine, 1, text, sizeof(text)));
    assert_string_equal(text, "4 bytes");
    assert_false(btl_ib_engine_address_text(engine, 0, text, sizeof(text)));
}

static uint32_t source(btl_ib_transport_t *transport, const btl_ib_event_t *event, uint8_t *address)
{
    return 0;
}

/* First contacts are answered while the application computes if all rails tell where they come
 * from. */
TEST_WITH(answers, set_up, tear_down)
{
    btl_ib_transport_ops_t telling = *engine->rails[0]->transport->ops;
    const btl_ib_transport_ops_t *const before = engine->rails[0]->transport->ops;

    assert_false(btl_ib_engine_answers(engine));
    telling.source = (__typeof__(telling.source)) source;
    engine->rails[0]->transport->ops = &telling;
    assert_true(btl_ib_engine_answers(engine));
    add_more();
    assert_false(btl_ib_engine_answers(engine));
    ops_of_more.source = telling.source;
    assert_true(btl_ib_engine_answers(engine));
    engine->rails[0]->transport->ops = before;
    assert_false(btl_ib_engine_answers(engine));
    engine->rail_count = 0;
    assert_false(btl_ib_engine_answers(engine));
    engine->rail_count = 2;
}

static int fd_of_more;

static int wait_fd(btl_ib_transport_t *transport)
{
    return fd_of_more;
}

static int wait_fd_of_first(btl_ib_transport_t *transport)
{
    return 0;
}

/* A process can sleep if each rail that works has a descriptor. */
TEST_WITH(descriptors, set_up, tear_down)
{
    btl_ib_transport_ops_t waking = *engine->rails[0]->transport->ops;
    const btl_ib_transport_ops_t *const before = engine->rails[0]->transport->ops;
    int fds[BTL_IB_RAILS_MAX];

    waking.wait_fd = wait_fd_of_first;
    engine->rails[0]->transport->ops = &waking;
    assert_int_equal(btl_ib_engine_wait_fds(engine, fds), 1);
    assert_int_equal(fds[0], 0);
    add_more();
    ops_of_more.wait_fd = wait_fd;
    fd_of_more = 44;
    assert_int_equal(btl_ib_engine_wait_fds(engine, fds), 2);
    assert_int_equal(fds[0], 0);
    assert_int_equal(fds[1], 44);
    fd_of_more = -1;
    assert_int_equal(btl_ib_engine_wait_fds(engine, fds), 0);
    engine->rails[1]->health.failed = true;
    assert_int_equal(btl_ib_engine_wait_fds(engine, fds), 1);
    engine->rails[1]->health.failed = false;
    engine->rails[0]->health.failed = true;
    fd_of_more = 44;
    assert_int_equal(btl_ib_engine_wait_fds(engine, fds), 1);
    assert_int_equal(fds[0], 44);
    engine->rails[0]->health.failed = false;
    engine->rails[0]->transport->ops = before;
}

/* Any rail with a lane for bulk counts; the first turn after one is added finds it. */
TEST_WITH(a_rail_is_noticed, set_up, tear_down)
{
    assert_false(engine->latency.lane);
    more.base.attr.bulk_lane = true;
    bench_turn(bench, 0);
    add_more();
    assert_true(engine->latency.lane);
    assert_int_equal(btl_ib_engine_progress(engine, bench->now, 64), 0);
    bench_push(&more.arrived, calloc(1, sizeof(bench_datagram_t)));
    assert_int_equal(btl_ib_engine_progress(engine, bench->now, 64), 1);
}

/* ---- the end ---- */

/* Memory that peers may use is served until it is withdrawn. */
TEST_WITH(serves, set_up, tear_down)
{
    assert_true(btl_ib_engine_serves(engine)); /* the bench registered some */
    btl_ib_region_remove(engine, &bench->hosts[0].key);
    assert_false(btl_ib_engine_serves(engine));
}

/* From some time on nobody new is let in, and those whom nobody here knows go. They are told, which
 * takes until their answer. */
TEST_WITH(nobody_new, set_up, tear_down)
{
    bench_start(bench, 1);
    bench_start(bench, 2);
    bench_start(bench, 3);
    bench_send(bench, 1, 0, 100, 1);
    bench_send(bench, 2, 0, 100, 1);
    bench_send(bench, 0, 2, 100, 1); /* that adopts it */
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    assert_non_null(bench_conn(bench, 0, 1));
    assert_false(btl_ib_engine_lingering(engine));
    btl_ib_engine_refuse_new(engine, bench->now);
    assert_null(bench_conn(bench, 0, 1));
    assert_non_null(bench_conn(bench, 0, 2));
    assert_true(btl_ib_engine_lingering(engine));
    bench_run(bench, SECOND);
    assert_false(btl_ib_engine_lingering(engine));
    bench_send(bench, 3, 0, 100, 1);
    bench_run(bench, SECOND);
    assert_null(bench_conn(bench, 0, 3));
    bench_send(bench, 2, 0, 100, 1);
    bench_run(bench, SECOND);
    assert_int_equal(bench->messages[bench->message_count - 1].delivered, 1);
    assert_int_equal(bench->messages[bench->message_count - 2].delivered, 0);
}

/* What was received by the thread, or kept until its sender is known, ends with the engine. */
TEST_WITH(ends_with_messages, set_up, tear_down)
{
    bench_start(bench, 1);
    bench_start(bench, 2);
    bench_send(bench, 1, 0, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_send(bench, 1, 0, 100, 1);
    bench_send(bench, 2, 0, 100, 1);
    while (bench->wire.count > 0) {
        bench_deliver(bench, bench_pop(&bench->wire));
    }
    btl_ib_engine_async_progress(engine, bench->now, 64);
    assert_true(engine->backlog.bytes > 0);
    assert_true(engine->unidentified.bytes > 0);
    bench_stop(bench, 0); /* which demands all memory back */
}

/* ---- its memory ---- */

/* What it says to hold for so many peers. */
static btl_ib_memory_estimate_t told(uint32_t peers)
{
    btl_ib_memory_estimate_t estimate = {.count = 0};
    const bench_host_t *host = &bench->hosts[0];

    btl_ib_engine_memory_estimate(&host->config, &host->attr, &engine->rails[0]->queues, peers,
                                  &estimate);
    return estimate;
}

/* An engine, and each connection, take about what was said of them. */
TEST_WITH(memory_is_as_told, set_up, tear_down)
{
    enum { PEERS = 64, SENDS = 8 * sizeof(void *) /* bytes of a channel, once it has sent */ };
    const uint64_t none = told(0).all[BTL_IB_ESTIMATE_PROCESS].held;
    btl_ib_conn_t *conn;

    assert_in_range(bench->hosts[0].bytes, none, none + none / 20); /* and a registered region */
    bench_start(bench, 1);
    btl_ib_peer_info_t info = bench_info(bench, 1, 0);
    assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &conn), 0);
    const size_t one = bench->hosts[0].bytes;
    for (int i = 1; i < PEERS; i++) {
        info.name++;
        assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &conn), 0);
    }
    const uint64_t growth = told(PEERS).all[BTL_IB_ESTIMATE_PROCESS].held
                            - told(1).all[BTL_IB_ESTIMATE_PROCESS].held
                            - (PEERS - 1) * engine->rails[0]->queues.count * SENDS;
    assert_in_range(bench->hosts[0].bytes - one, growth - growth / 50, growth + growth / 50);
}

/* The most that may be held grows with windows, the longest message, and what is reassembled for
 * each peer, as far as all may have it. */
TEST_WITH(memory_at_most, set_up, tear_down)
{
    bench_host_t *host = &bench->hosts[0];
    const uint64_t each = btl_ib_reasm_bytes(host->config.eager_max);
    const uint64_t before = told(2).all[BTL_IB_ESTIMATE_PROCESS].most;

    host->config.reassembly_max--;
    assert_int_equal(told(2).all[BTL_IB_ESTIMATE_PROCESS].most, before - each);
    host->config.reassembly_max++;
    host->config.reassembly_peer = host->config.reassembly_max / 2;
    assert_int_equal(told(2).all[BTL_IB_ESTIMATE_PROCESS].most, before);
    host->config.reassembly_peer++;
    assert_int_equal(told(2).all[BTL_IB_ESTIMATE_PROCESS].most, before);
    host->config.reassembly_peer = 1;
    assert_int_equal(told(2).all[BTL_IB_ESTIMATE_PROCESS].most,
                     before - (host->config.reassembly_max - 2) * each);
    host->config.backlog_max += 1000;
    host->config.reassembly_peer = 0;
    assert_int_equal(told(2).all[BTL_IB_ESTIMATE_PROCESS].most, before + 1000);
    host->config.backlog_max -= 1000;
    host->config.window_max += 64;
    assert_int_equal(told(2).all[BTL_IB_ESTIMATE_PROCESS].most,
                     before + 2 * engine->rails[0]->queues.count * (64 * sizeof(void *) + 8));
    host->config.window_max -= 64;
    const uint64_t held = told(2).all[BTL_IB_ESTIMATE_PROCESS].held;
    host->config.protection = BTL_IB_PROTECTION_ENCRYPT;
    assert_true(told(2).all[BTL_IB_ESTIMATE_PROCESS].held
                >= held + 2 * sizeof(btl_ib_protection_keys_t));
    host->config.protection = BTL_IB_PROTECTION_NONE;
}

UNIT_MAIN(NULL, NULL)
