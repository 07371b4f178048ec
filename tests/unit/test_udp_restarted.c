/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Engines over the transport `udp`: a process ends, and another one takes its name. The peer that
 * goes on has in use with that what it had with the first one. */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "btl_ib_engine.h"
#include "stand_ins.h"
#include "transports.h"
#include "udp_calls.h"
#include "udp_inside.h"
#include "unit.h"

enum { STAYS = 1, RESTARTS = 2, TAG = 1, MESSAGES = UDP_CONNECT_AFTER + 50 };

typedef struct process {
    btl_ib_engine_t *engine;
    btl_ib_conn_t *conn; /* with the other one */
    btl_ib_conn_t *dead; /* with the one before, unless `keeps_none` */
    bool keeps_none;
    struct process *other;
    uint32_t received, deaths;
    uint16_t port;
    char in_use[256]; /* by the connection that ended last, as the log says */
} process_t;

static uint8_t bytes[1000];

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000u + (uint64_t) now.tv_nsec / 1000u;
}

/* ---- the owner of an engine ---- */

static bool on_lookup(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                      btl_ib_peer_info_t *info)
{
    const process_t *process = context;

    assert_int_equal(rail, 0);
    btl_ib_engine_rail_info(process->other->engine, remote_rail, info);
    return info->name == name;
}

static void on_passive(void *context, btl_ib_conn_t *conn)
{
    process_t *process = context;

    btl_ib_conn_adopt(conn, NULL);
    process->conn = conn;
}

static void on_deliver(void *context, btl_ib_conn_t *conn, uint8_t tag, void *data, uint32_t size)
{
    process_t *process = context;

    assert_int_equal(tag, TAG);
    process->received += conn == process->conn;
}

static void on_done(void *context, btl_ib_msg_t *msg, int status)
{
    assert_int_equal(status, 0);
}

static void on_dead(void *context, btl_ib_conn_t *conn, btl_ib_death_t reason)
{
    process_t *process = context;

    assert_int_equal(reason, BTL_IB_DEATH_RESTARTED);
    assert_ptr_equal(conn, process->conn);
    process->deaths++;
    process->conn = NULL;
    process->dead = conn;
    if (process->keeps_none) {
        process->dead = NULL;
        btl_ib_conn_destroy(conn, now_us());
    }
}

static const btl_ib_engine_ops_t owner = {
    .lookup = on_lookup,
    .passive = on_passive,
    .deliverable = on_deliverable,
    .deliver = on_deliver,
    .on_sent = on_sent,
    .on_done = on_done,
    .dead = on_dead,
    .zalloc = on_zalloc,
    .free = on_free,
};

static void __attribute__((format(printf, 3, 4)))
hear(void *context, int level, const char *format, ...)
{
    process_t *process = context;
    char line[sizeof(process->in_use)];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (strstr(line, " went by ") != NULL) {
        memcpy(process->in_use, line, sizeof(line));
    }
}

/* ---- two processes ---- */

/* At ports from `port` on; 0: any. */
static void start(process_t *process, process_t *other, uint64_t name, uint64_t secret,
                  uint16_t port)
{
    btl_ib_open_params_t params = two_lanes(4);
    btl_ib_engine_config_t config;
    btl_ib_queue_table_t queues;
    btl_ib_queues_error_t error;

    params.port_min = port;
    params.port_count = port != 0 ? 2 : 0;
    btl_ib_transport_t *transport = open_with(params);
    *process = (process_t){.other = other, .port = ntohs(udp_name(transport).v4.sin_port)};
    btl_ib_engine_config_default(&config);
    config.name = name;
    config.secret.k[0] = secret;
    config.log = (btl_ib_log_t){.print = hear, .context = process, .detailed = true};
    process->engine = btl_ib_engine_create(&config, &owner, process);
    assert_non_null(process->engine);
    assert_int_equal(btl_ib_queues_parse("P,256,256,128,32:S,1472,1024,512,64", &queues, &error),
                     0);
    assert_int_equal(btl_ib_engine_add_rail(process->engine, transport, &queues), 0);
}

static void join(process_t *process)
{
    btl_ib_peer_info_t info;

    btl_ib_engine_rail_info(process->other->engine, 0, &info);
    assert_int_equal(btl_ib_conn_create(process->engine, 0, &info, NULL, &process->conn), 0);
}

/* One message after the other, each of which arrives. */
static void talk(process_t *process)
{
    process_t *other = process->other;

    for (uint32_t i = 0; i < MESSAGES; i++) {
        btl_ib_msg_t msg = {.iov[0] = {.iov_base = bytes, .iov_len = sizeof(bytes)}, .tag = TAG};
        const uint32_t before = other->received;
        const uint64_t limit = now_ms() + PATIENCE_MS;

        assert_in_range(btl_ib_engine_send(process->conn, &msg, now_us()), 0, 1);
        while (other->received == before || !btl_ib_conn_drained(process->conn)) {
            assert_true(now_ms() < limit);
            btl_ib_engine_progress(other->engine, now_us(), BTL_IB_BATCH);
            btl_ib_engine_progress(process->engine, now_us(), BTL_IB_BATCH);
        }
    }
}

/* The connection ends, and had all of it in use. */
static void assert_all_in_use(process_t *process)
{
    char expected[128];

    snprintf(expected, sizeof(expected),
             "latency lane 127.0.0.1:%u, connected, joined sends, long messages in place",
             process->other->port + 1u);
    process->in_use[0] = '\0';
    btl_ib_conn_destroy(process->conn, now_us());
    assert_non_null(strstr(process->in_use, expected));
}

/* ---- the tests ---- */

static void restart(bool keeps_none, bool same_ports)
{
    process_t stays, restarts;

    need_udp(AF_INET);
    memset(&restarts, 0, sizeof(restarts));
    start(&stays, &restarts, STAYS, 1, 0);
    start(&restarts, &stays, RESTARTS, 2, 0);
    stays.keeps_none = keeps_none;
    join(&stays);
    join(&restarts);
    talk(&stays);
    /* more often than there are sockets to be had */
    for (uint64_t secret = 3; secret < 8; secret++) {
        const uint16_t port = restarts.port;

        btl_ib_engine_destroy(restarts.engine);
        start(&restarts, &stays, RESTARTS, secret, same_ports ? port : 0);
        join(&restarts);
        talk(&restarts);
        assert_int_equal(stays.deaths, secret - 2);
        talk(&stays);
        if (stays.dead != NULL) {
            btl_ib_conn_destroy(stays.dead, now_us());
            stays.dead = NULL;
        }
    }
    assert_all_in_use(&stays);
    assert_all_in_use(&restarts);
    btl_ib_engine_destroy(restarts.engine);
    btl_ib_engine_destroy(stays.engine);
}

TEST(test_other_ports)
{
    restart(true, false);
}

TEST(test_same_ports)
{
    restart(true, true);
}

/* Whoever owns the connection with the process that ended closes it later. */
TEST(test_closed_later)
{
    restart(false, false);
    restart(false, true);
}

UNIT_MAIN(NULL, free_devices)
