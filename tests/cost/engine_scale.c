/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One engine, the hub, with many connected peers: what each takes of memory and timers, and whether
 * anything the hub does takes longer because there are many.
 *
 *   engine_scale PEERS              bytes and timers of a peer, in each part of its life; checked
 *   engine_scale PEERS WAY COUNT    that way, COUNT times, between contact with all and their end:
 *                                   for a tool that counts instructions (see budget)
 */

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_state.h"
#include "memory_transport.h"
#include "stand_ins.h"

enum {
    BURST = 64,
    SMALL = 64,
    MEDIUM = 1000,
    LARGE = 8000,
    HUB = 0,
    PEERS_MAX = 1 << 17,
    IDLE_US = 10 * 1000 * 1000,   /* after which a peer has given back what it can */
    KEEPALIVE = 30 * 1000 * 1000, /* us */
    EACH_MAX = 2784,              /* bytes of an idle peer */
};

typedef struct datagram {
    struct datagram *next;
    uint32_t from, size;
    uint8_t data[DATAGRAM] __attribute__((aligned(8)));
} datagram_t;

typedef struct station {
    btl_ib_transport_t transport;
    btl_ib_engine_t *engine;
    btl_ib_conn_t *conn; /* of a stub, with the hub */
    datagram_t *first, **last;
    uint32_t index;
    bool gone; /* the process ended: its host refuses what is sent there */
    uint64_t delivered;
    uint64_t bytes; /* of its engine */
} station_t;

static struct {
    station_t *stations; /* the hub and its peers */
    uint32_t peers;
    uint64_t now;
    datagram_t *free;
    btl_ib_queue_table_t queues;
    /* the datagram that a host refused last */
    uint32_t refuser;
    uint8_t quoted[BTL_IB_QUOTED_MAX];
    bool refusal;
    uint64_t dead;
} net;

static uint8_t bytes[LARGE];

static void fail(const char *what)
{
    fprintf(stderr, "engine_scale: %s\n", what);
    exit(1);
}

/* ---- memory as a transport; a station's number is its address, and the handle of that ---- */

static int wire_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    const station_t *from = (station_t *) (void *) t;

    for (int i = 0; i < n; i++) {
        station_t *to = &net.stations[batch[i].to];
        if (to->gone) {
            net.refusal = true;
            net.refuser = to->index;
            memcpy(net.quoted, batch[i].iov[0].iov_base, BTL_IB_QUOTED_MAX);
            continue;
        }
        datagram_t *datagram = net.free;
        if (datagram != NULL) {
            net.free = datagram->next;
        } else if ((datagram = malloc(sizeof(*datagram))) == NULL) {
            fail("no memory");
        }
        uint8_t *at = datagram->data;
        for (uint32_t k = 0; k < batch[i].niov; k++) {
            memcpy(at, batch[i].iov[k].iov_base, batch[i].iov[k].iov_len);
            at += batch[i].iov[k].iov_len;
        }
        datagram->next = NULL;
        datagram->from = from->index;
        datagram->size = batch[i].size;
        *to->last = datagram;
        to->last = &datagram->next;
    }
    return n;
}

static int wire_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    station_t *station = (station_t *) (void *) t;
    int n = 0;

    if (station->index == HUB && net.refusal) {
        net.refusal = false;
        events[n] = (btl_ib_event_t){.type = BTL_IB_EVENT_REFUSED,
                                     .error = ECONNREFUSED,
                                     .origin = BTL_IB_ORIGIN_NETWORK,
                                     .quoted_size = BTL_IB_QUOTED_MAX,
                                     .from = net.refuser};
        memcpy(events[n++].quoted, net.quoted, BTL_IB_QUOTED_MAX);
    }
    while (station->first != NULL && n < max) {
        datagram_t *datagram = station->first;
        station->first = datagram->next;
        station->last = station->first == NULL ? &station->first : station->last;
        events[n++] = (btl_ib_event_t){.type = BTL_IB_EVENT_RECV,
                                       .size = datagram->size,
                                       .from = datagram->from,
                                       .data = datagram->data,
                                       .buffer = datagram};
    }
    return n;
}

static void wire_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        datagram_t *datagram = buffers[i];
        datagram->next = net.free;
        net.free = datagram;
    }
}

/* ---- the owner of an engine ---- */

static bool on_lookup(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                      btl_ib_peer_info_t *info)
{
    btl_ib_engine_rail_info(net.stations[name].engine, 0, info);
    return true;
}

static void on_passive(void *context, btl_ib_conn_t *conn)
{
}

static void on_deliver(void *context, btl_ib_conn_t *conn, uint8_t tag, void *data, uint32_t size)
{
    ((station_t *) context)->delivered++;
}

static void on_done(void *context, btl_ib_msg_t *msg, int status)
{
    free(msg);
}

static void on_dead(void *context, btl_ib_conn_t *conn, btl_ib_death_t reason)
{
    net.dead++;
    btl_ib_conn_destroy(conn, net.now);
}

static void *counted_zalloc(void *context, size_t size)
{
    void *memory = calloc(1, size);

    ((station_t *) context)->bytes += memory != NULL ? malloc_usable_size(memory) : 0;
    return memory;
}

static void counted_free(void *context, void *memory)
{
    ((station_t *) context)->bytes -= memory != NULL ? malloc_usable_size(memory) : 0;
    free(memory);
}

static const btl_ib_engine_ops_t owner_ops = {
    .lookup = on_lookup,
    .passive = on_passive,
    .deliverable = on_deliverable,
    .deliver = on_deliver,
    .on_sent = on_sent,
    .on_done = on_done,
    .dead = on_dead,
    .zalloc = counted_zalloc,
    .free = counted_free,
};

static btl_ib_engine_config_t config_of(uint32_t index)
{
    btl_ib_engine_config_t config;

    btl_ib_engine_config_default(&config);
    config.name = index;
    config.secret.k[0] = index + 1;
    config.peers = index == HUB ? net.peers : 1;
    config.passive_max = net.peers;
    config.keepalive = KEEPALIVE;
    return config;
}

static void make(uint32_t index)
{
    const btl_ib_engine_config_t config = config_of(index);
    station_t *station = &net.stations[index];

    station->index = index;
    station->last = &station->first;
    station->transport = wire_transport(index, 1024);
    station->engine = btl_ib_engine_create(&config, &owner_ops, station);
    if (station->engine == NULL
        || btl_ib_engine_add_rail(station->engine, &station->transport, &net.queues) != 0) {
        fail("no engine");
    }
}

static void turn(station_t *station)
{
    net.now += 5;
    btl_ib_engine_progress(station->engine, net.now, BURST);
}

static void say(station_t *from, btl_ib_conn_t *conn, uint32_t size)
{
    btl_ib_msg_t *msg = calloc(1, sizeof(*msg));

    if (msg == NULL) {
        fail("no memory");
    }
    *msg = (btl_ib_msg_t){
        .iov[0] = {.iov_base = bytes, .iov_len = size}, .tag = 1, .want_ack_now = size > SMALL};
    if (btl_ib_engine_send(conn, msg, net.now) == 1) {
        free(msg);
    }
}

static btl_ib_conn_t *hub_conn(uint32_t peer)
{
    btl_ib_conn_t *conn = btl_ib_conn_find(net.stations[HUB].engine, 0, peer, 0);

    if (conn == NULL) {
        fail("the hub has no connection with a peer");
    }
    return conn;
}

/* Until the hub and that stub owe each other nothing. */
static void settle(uint32_t peer)
{
    station_t *stub = &net.stations[peer];
    const btl_ib_conn_t *conn = hub_conn(peer);

    for (int i = 0; i < 2 || !btl_ib_conn_drained(conn) || !btl_ib_conn_drained(stub->conn); i++) {
        if (i > 10000) {
            fail("nothing moves");
        }
        turn(stub);
        turn(&net.stations[HUB]);
    }
}

/* ---- ways ---- */

/* A message each way. */
static void ping_pong(uint32_t peer)
{
    station_t *hub = &net.stations[HUB], *stub = &net.stations[peer];
    const uint64_t delivered = stub->delivered;

    say(hub, hub_conn(peer), SMALL);
    turn(hub);
    turn(stub);
    say(stub, stub->conn, SMALL);
    turn(stub);
    turn(hub);
    if (stub->delivered != delivered + 1) {
        fail("a message did not arrive");
    }
}

static void one(uint32_t round)
{
    ping_pong(net.peers / 2);
}

/* Each time with another, as long as there are others. */
static void in_turn(uint32_t round)
{
    ping_pong(1 + (uint32_t) (round * UINT64_C(7919)) % net.peers);
}

/* Progress that finds nothing, 250 ms apart: timers and what is done now and then are included. */
static void idle(uint32_t round)
{
    net.now += 250000;
    turn(&net.stations[HUB]);
}

/* A peer has ended, and its host says so: half of them, one after the other. */
static void refused(uint32_t round)
{
    const uint32_t peer = 1 + round % (net.peers - 1);

    net.stations[peer].gone = true;
    say(&net.stations[HUB], hub_conn(peer), SMALL);
    turn(&net.stations[HUB]);
    turn(&net.stations[HUB]);
}

static const struct {
    const char *name;
    void (*run)(uint32_t round);
} ways[] = {
    {"one", one},
    {"in-turn", in_turn},
    {"idle", idle},
    {"refused", refused},
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* ---- the life of all ---- */

static void show(const char *when, uint64_t none)
{
    const station_t *hub = &net.stations[HUB];

    printf("%s: %llu bytes each, %llu timers\n", when,
           (unsigned long long) (hub->bytes - none) / net.peers,
           (unsigned long long) hub->engine->hotel.count);
}

/* As add_procs does, but only half of them: the others come by themselves. */
static void add_half(void)
{
    btl_ib_peer_info_t info;
    btl_ib_conn_t *conn;

    for (uint32_t i = 1; i <= net.peers; i += 2) {
        btl_ib_engine_rail_info(net.stations[i].engine, 0, &info);
        if (btl_ib_conn_create(net.stations[HUB].engine, 0, &info, &net, &conn) != 0) {
            fail("the hub makes no connection");
        }
    }
}

/* All speak with the hub, which answers. */
static void contact_all(void)
{
    btl_ib_peer_info_t info;

    btl_ib_engine_rail_info(net.stations[HUB].engine, 0, &info);
    for (uint32_t i = 1; i <= net.peers; i++) {
        station_t *stub = &net.stations[i];
        if (btl_ib_conn_create(stub->engine, 0, &info, stub, &stub->conn) != 0) {
            fail("a stub makes no connection");
        }
        say(stub, stub->conn, SMALL);
        turn(stub);
        turn(&net.stations[HUB]);
        say(&net.stations[HUB], hub_conn(i), SMALL);
        if (i % 64 == 1) { /* few, as this takes memory of the stub */
            say(&net.stations[HUB], hub_conn(i), MEDIUM);
            say(&net.stations[HUB], hub_conn(i), LARGE);
            say(stub, stub->conn, LARGE);
        }
        settle(i);
        net.now += 1000000 / 4096; /* so many unknown ones may be looked up in a second */
    }
}

static void idle_all(void)
{
    for (int i = 0; i < 100; i++) {
        net.now += IDLE_US / 100;
        for (uint32_t k = 0; k < 2 + net.peers / 32; k++) { /* 64 timers in each turn */
            turn(&net.stations[HUB]);
        }
    }
}

/* What the same function says that `ib_info --queues` asks. */
static void check_memory(uint64_t held)
{
    const btl_ib_engine_config_t config = config_of(HUB);
    btl_ib_memory_estimate_t told = {.count = 0};

    btl_ib_engine_memory_estimate(&config, &net.stations[HUB].transport.attr, &net.queues,
                                  net.peers, &told);
    const uint64_t most = told.all[BTL_IB_ESTIMATE_PROCESS].held;
    printf("%u peers: %llu bytes, %llu were foretold\n", net.peers, (unsigned long long) held,
           (unsigned long long) most);
    if (held > most + most / 20 || held < most - most / 20) {
        fail("memory is not what was foretold");
    }
}

/* What was sent last needs a timer for no longer. Then each peer that was busy has one, which waits
 * until it is idle. */
static void check_timers(const char *when, uint64_t none)
{
    const station_t *hub = &net.stations[HUB];

    net.now += 50000;
    turn(&net.stations[HUB]);
    show(when, none);
    if (hub->engine->hotel.count > net.peers) {
        fail("more than one timer for each peer that was busy lately");
    }
}

/* All are silent and are asked, and all but one answer. Each has its turn within 16 pauses, and who
 * does not answer is asked again after one each. */
static void check_keepalive(void)
{
    station_t *hub = &net.stations[HUB];
    const uint32_t silent = net.peers / 3 + 1;
    const uint64_t begun = net.now;

    while (net.now - begun < (16 + 5) * (uint64_t) KEEPALIVE) {
        net.now += BTL_IB_KEEPALIVE_EACH;
        turn(hub);
        for (uint32_t i = 1; i <= net.peers; i++) {
            if (i != silent && net.stations[i].first != NULL) {
                turn(&net.stations[i]);
            }
        }
        turn(hub);
    }
    for (uint32_t i = 1; i <= net.peers; i++) {
        if (hub_conn(i)->keepalive.asked_at <= begun) {
            fail("a silent peer was not asked");
        }
    }
    if (hub_conn(silent)->keepalive.asked < 4) {
        fail("a peer that does not answer was not asked four times");
    }
}

static void live(void)
{
    const station_t *hub = &net.stations[HUB];
    const uint64_t none = hub->bytes;

    add_half();
    contact_all();
    check_timers("connected", none);
    for (int i = 0; i < 2; i++) {
        idle_all();
        show("idle", none);
        if (hub->engine->hotel.count != 0 || btl_ib_engine_next_due(hub->engine) != UINT64_MAX) {
            fail("idle peers have timers");
        }
        if ((hub->bytes - none) / net.peers > EACH_MAX && net.peers >= 1000) {
            fail("idle peers take more than they may");
        }
        for (uint32_t peer = 1; peer <= net.peers; peer++) {
            ping_pong(peer);
            settle(peer);
        }
        check_timers("all busy", none);
    }
    check_memory(hub->bytes);
    check_keepalive();
}

static int run(int argc, char **argv)
{
    if (argc == 2) {
        live();
        return 0;
    }
    add_half();
    contact_all();
    idle_all();
    for (size_t i = 0; i < WAYS; i++) {
        if (strcmp(ways[i].name, argv[2]) == 0) {
            const uint32_t count = (uint32_t) strtoul(argv[3], NULL, 10);
            for (uint32_t k = 0; k < count; k++) {
                ways[i].run(k);
            }
            return 0;
        }
    }
    fprintf(stderr, "engine_scale: no way %s\n", argv[2]);
    return 1;
}

int main(int argc, char **argv)
{
    btl_ib_queues_error_t error;

    net.peers = argc > 1 ? (uint32_t) strtoul(argv[1], NULL, 10) : 0;
    if (net.peers < 2 || net.peers > PEERS_MAX || (argc != 2 && argc != 4)) {
        fprintf(stderr, "usage: engine_scale PEERS [WAY COUNT]\n");
        return 2;
    }
    net.now = 1000000;
    net.stations = calloc(net.peers + 1, sizeof(*net.stations));
    if (net.stations == NULL
        || btl_ib_queues_parse("P,256,256,128,32:S,1472,1024,512,64", &net.queues, &error) != 0) {
        fail("no memory, or no queues");
    }
    for (uint32_t i = 0; i <= net.peers; i++) {
        make(i);
    }
    const int status = run(argc, argv);
    for (uint32_t i = 0; i <= net.peers; i++) {
        btl_ib_engine_destroy(net.stations[i].engine);
        while (net.stations[i].first != NULL) {
            datagram_t *datagram = net.stations[i].first;
            net.stations[i].first = datagram->next;
            free(datagram);
        }
        if (net.stations[i].bytes != 0) {
            fail("an engine did not give all its memory back");
        }
    }
    while (net.free != NULL) {
        datagram_t *datagram = net.free;
        net.free = datagram->next;
        free(datagram);
    }
    free(net.stations);
    return status;
}
