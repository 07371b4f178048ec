/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the engine costs, from send to acknowledged, both sides together: two engines with memory
 * between them (engine_cost), transport udp (udp_cost), or transport verbs over devices that are
 * not there (ud_cost, rc_cost, rc_ring_cost): wire.h.
 *
 *   engine_cost             a table: ns for each way, the best of many rounds
 *   engine_cost WAY COUNT   that one only, COUNT rounds: for a tool that counts instructions
 *                           (what COUNT and 2 COUNT take differs by COUNT rounds; see budget)
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stand_ins.h"
#include "wire.h"

enum {
    BURST = 64,
    SMALL = 8,
    KILOBYTE = 1024,
    LARGE = 65536,
    IDLE = 16,
    ROUNDS = 200,
    ROUND_NS = 100000,
};

/* One process. */
typedef struct side {
    btl_ib_engine_t *engine;
    btl_ib_conn_t *conn; /* with the other side */
    struct side *other;
    uint64_t now;
    uint64_t delivered;
    uint64_t done;
    btl_ib_msg_t messages[BURST];
} side_t;

static uint8_t bytes[LARGE];
static bool marks; /* deliveries are marked: marked_delivery() */

/* Counted, so that no compiler makes one of the functions that budget knows by name. */
static volatile struct {
    uint64_t receipts, deliveries;
} marked;

static void fail(const char *what)
{
    fprintf(stderr, "engine_cost: %s\n", what);
    exit(1);
}

/* ---- the owner of an engine ---- */

static bool on_lookup(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                      btl_ib_peer_info_t *info)
{
    return false;
}

__attribute__((noinline)) void wire_received(void)
{
    marked.receipts++;
}

/* The owner has the message. What was spent since wire_received() is written down by budget. */
__attribute__((noinline)) static void marked_delivery(void)
{
    marked.deliveries++;
}

static void on_deliver(void *context, btl_ib_conn_t *conn, uint8_t tag, void *data, uint32_t size)
{
    if (marks) {
        marked_delivery();
    }
    ((side_t *) context)->delivered++;
}

static void on_done(void *context, btl_ib_msg_t *msg, int status)
{
    ((side_t *) context)->done += status == 0;
}

static void on_dead(void *context, btl_ib_conn_t *conn, btl_ib_death_t reason)
{
    fail(btl_ib_death_string(reason));
}

static const btl_ib_engine_ops_t owner_ops = {
    .lookup = on_lookup,
    .deliverable = on_deliverable,
    .deliver = on_deliver,
    .on_sent = on_sent,
    .on_done = on_done,
    .dead = on_dead,
    .zalloc = on_zalloc,
    .free = on_free,
};

static void make_side(side_t *side, side_t *other, uint64_t name)
{
    btl_ib_engine_config_t config;
    btl_ib_queue_table_t queues;
    btl_ib_queues_error_t error;

    side->other = other;
    side->now = 1000000;
    btl_ib_engine_config_default(&config);
    config.name = name;
    config.secret.k[0] = name;
    side->engine = btl_ib_engine_create(&config, &owner_ops, side);
    if (side->engine == NULL || btl_ib_queues_parse(wire_queues, &queues, &error) != 0
        || btl_ib_engine_add_rail(side->engine, wire_open(), &queues) != 0) {
        fail("no engine");
    }
}

static void join(side_t *side)
{
    btl_ib_peer_info_t info;

    btl_ib_engine_rail_info(side->other->engine, 0, &info);
    if (btl_ib_conn_create(side->engine, 0, &info, NULL, &side->conn) != 0) {
        fail("no connection");
    }
}

static void turn(side_t *side)
{
    side->now += 5;
    side->other->now = side->now;
    btl_ib_engine_progress(side->engine, side->now, 64);
}

/* A message of `size` bytes, by sendi if the engine lets it leave at once. */
static void say(side_t *side, uint32_t i, uint32_t size)
{
    void *out = size <= KILOBYTE ? btl_ib_sendi_begin(side->conn, 1, size) : NULL;

    if (out != NULL) {
        memcpy(out, bytes, size);
        if (btl_ib_sendi_commit(side->conn, side->now) == 0) {
            side->done++;
            return;
        }
    }
    btl_ib_msg_t *msg = &side->messages[i];
    *msg = (btl_ib_msg_t){
        .iov[0] = {.iov_base = bytes, .iov_len = size}, .tag = 1, .want_ack_now = size > KILOBYTE};
    side->done += btl_ib_engine_send(side->conn, msg, side->now) == 1;
}

/* ---- ways ---- */

/* Until all that `side` sent was delivered and is acknowledged. */
static void finish(side_t *side, uint64_t delivered)
{
    for (int i = 0; side->other->delivered < delivered || !btl_ib_conn_drained(side->conn); i++) {
        if (i > 10000) {
            fail("nothing moves");
        }
        turn(side->other);
        turn(side);
    }
}

/* One message each way, as in a ping-pong; the acknowledgement rides along. */
static void ping_pong(side_t *side)
{
    say(side, 0, SMALL);
    turn(side->other);
    say(side->other, 0, SMALL);
    turn(side);
}

/* The same, of which what comes before each callback is counted. */
static void callback(side_t *side)
{
    marks = true;
    ping_pong(side);
    marks = false;
}

/* The same with messages that go into no request itself, as headers and payload are copied. */
static void kilobyte(side_t *side)
{
    say(side, 0, KILOBYTE);
    turn(side->other);
    say(side->other, 0, KILOBYTE);
    turn(side);
}

/* What an application sends before it waits for an answer. */
static void burst(side_t *side)
{
    for (uint32_t i = 0; i < BURST; i++) {
        say(side, i, SMALL);
    }
    turn(side);
    finish(side, side->other->delivered + BURST);
}

/* A message in 47 segments, sent from where it is. */
static void large(side_t *side)
{
    uint64_t delivered = side->other->delivered;

    say(side, 0, LARGE);
    finish(side, delivered + 1);
}

/* Progress that finds nothing. */
static void idle(side_t *side)
{
    for (int i = 0; i < IDLE; i++) {
        side->now += 1;
        btl_ib_engine_progress(side->engine, side->now, 64);
    }
}

static const struct {
    const char *name;
    void (*run)(side_t *side);
    uint32_t parts; /* messages, or segments */
    const char *text;
} ways[] = {
    {"ping-pong", ping_pong, 2, "an 8-byte message, one after the other"},
    {"callback", callback, 2, "an 8-byte message, one after the other, with marks"},
    {"kilobyte", kilobyte, 2, "a message of 1 KiB, one after the other"},
    {"burst", burst, BURST, "an 8-byte message, in bursts of 64"},
    {"large", large, 47, "a segment of 64 KiB messages"},
    {"idle", idle, IDLE, "a progress call that finds nothing"},
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* ns for one round, the best of all: what others do on the machine only adds. */
static double measure(side_t *side, void (*run)(side_t *side))
{
    uint32_t count = 1;
    double best = 1e12;

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t begun = now_ns();
        for (uint32_t i = 0; i < count; i++) {
            run(side);
        }
        uint64_t took = now_ns() - begun;
        best = (double) took / count < best ? (double) took / count : best;
        if (took < ROUND_NS) {
            count *= 2;
        }
    }
    return best;
}

static void print_table(side_t *side)
{
    printf("| both sides, send to acknowledged | ns |\n|---|---|\n");
    for (size_t i = 0; i < WAYS; i++) {
        printf("| %s | %.0f |\n", ways[i].text, measure(side, ways[i].run) / ways[i].parts);
    }
}

static int run_one(side_t *side, const char *name, unsigned long count)
{
    for (size_t i = 0; i < WAYS; i++) {
        if (strcmp(ways[i].name, name) == 0) {
            for (; count > 0; count--) {
                ways[i].run(side);
            }
            return 0;
        }
    }
    fprintf(stderr, "engine_cost: no way %s\n", name);
    return 1;
}

int main(int argc, char **argv)
{
    static side_t sides[2];
    int status = 2;

    for (int i = 0; i < 2; i++) {
        make_side(&sides[i], &sides[1 - i], 10 + (uint64_t) i);
    }
    for (int i = 0; i < 2; i++) {
        join(&sides[i]);
    }
    for (int i = 0; i < 2; i++) { /* they know each other, */
        say(&sides[i], 0, SMALL);
        finish(&sides[i], sides[1 - i].delivered + 1);
    }
    for (int i = 0; i < 20; i++) { /* and have what memory they need */
        ping_pong(&sides[0]);
        burst(&sides[0]);
        large(&sides[0]);
    }
    if (argc == 1) {
        print_table(&sides[0]);
        status = 0;
    } else if (argc == 3) {
        status = run_one(&sides[0], argv[1], strtoul(argv[2], NULL, 10));
    } else {
        fprintf(stderr, "usage: engine_cost [WAY COUNT]\n");
    }
    for (int i = 0; i < 2; i++) {
        btl_ib_engine_destroy(sides[i].engine);
    }
    return status;
}
