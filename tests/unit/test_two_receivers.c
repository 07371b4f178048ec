/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The component with two threads that receive: each in a callback of the PML, where the lock is
 * free, and the one whose callback began first goes on first. A peer's engine, in the same process,
 * has sent a long message and a short one, which is the next that is expected; the network repeats
 * the short one.
 *
 *   first thread    takes the long message, and the short one behind it; delivers the long one
 *   second thread   takes the repeated short message; delivers it
 *   first thread    its callback returns, and it goes on with the short one
 *   second thread   its callback returns
 */

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lone_peer.h"

enum { SHORT = 20, LONG = 2000, SLOTS = 256, PATIENCE = 20 };

typedef struct slot {
    uint32_t size;
    uint8_t data[DATAGRAM] __attribute__((aligned(8)));
} slot_t;

/* What is on its way to a process, in slots that are used once. */
typedef struct way {
    uint32_t first, next;
    uint32_t most; /* datagrams that the next polls bring together */
    slot_t slot[SLOTS];
} way_t;

static way_t ways[2]; /* to SELF, to PEER */
static btl_ib_transport_t peer_transport;
static btl_ib_engine_t *peer;
static btl_ib_conn_t *peer_conn;
static btl_ib_endpoint_t *endpoint;

static pthread_t first, second;
static sem_t second_delivers, first_is_done;
static bool overlaps, failed;
static uint32_t shorts, longs; /* that were delivered */

/* ---- the network ---- */

static uint32_t process_of(const btl_ib_transport_t *t)
{
    return t == &peer_transport ? PEER : SELF;
}

static slot_t *new_slot(way_t *way)
{
    assert_true(way->next < SLOTS);
    return &way->slot[way->next++];
}

static int network_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    for (int i = 0; i < n; i++) {
        slot_t *slot = new_slot(&ways[1 - process_of(t)]);

        for (uint32_t k = 0; k < batch[i].niov; k++) {
            memcpy(slot->data + slot->size, batch[i].iov[k].iov_base, batch[i].iov[k].iov_len);
            slot->size += (uint32_t) batch[i].iov[k].iov_len;
        }
    }
    return n;
}

static int network_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    way_t *way = &ways[process_of(t)];
    int n = 0;

    for (; way->first != way->next && way->most > 0 && n < max; way->most--, n++) {
        slot_t *slot = &way->slot[way->first++];

        events[n] = (btl_ib_event_t){.type = BTL_IB_EVENT_RECV,
                                     .size = slot->size,
                                     .from = 1 - process_of(t),
                                     .data = slot->data,
                                     .buffer = slot};
    }
    return n;
}

static btl_ib_transport_ops_t network_ops;

static void join_network(btl_ib_transport_t *t)
{
    network_ops = *t->ops;
    network_ops.send = network_send;
    network_ops.poll = network_poll;
    t->ops = &network_ops;
}

/* ---- the peer ---- */

static bool deliverable(void *context, const btl_ib_conn_t *conn, uint8_t tag)
{
    return true;
}

static void deliver(void *context, btl_ib_conn_t *conn, uint8_t tag, void *data, uint32_t size)
{
}

static void ignore_sent(void *context, btl_ib_msg_t *msg)
{
}

static void ignore_done(void *context, btl_ib_msg_t *msg, int status)
{
}

static void no_death(void *context, btl_ib_conn_t *conn, btl_ib_death_t reason)
{
    fail();
}

static void *get_memory(void *context, size_t size)
{
    return calloc(1, size);
}

static void free_memory(void *context, void *memory)
{
    free(memory);
}

static void begin_peer(void)
{
    static const btl_ib_engine_ops_t owner = {
        .deliverable = deliverable,
        .deliver = deliver,
        .on_sent = ignore_sent,
        .on_done = ignore_done,
        .dead = no_death,
        .zalloc = get_memory,
        .free = free_memory,
    };
    btl_ib_engine_config_t config;
    btl_ib_peer_info_t info;

    btl_ib_engine_config_default(&config);
    config.name = btl_ib_name_pack(name_of(PEER));
    config.secret = published->secret;
    peer = btl_ib_engine_create(&config, &owner, NULL);
    assert_non_null(peer);
    peer_transport = wire_transport(PEER, 1024);
    join_network(&peer_transport);
    assert_int_equal(btl_ib_engine_add_rail(peer, &peer_transport, &queues), 0);
    btl_ib_engine_rail_info(mca_btl_ib_component.engine, 0, &info);
    assert_int_equal(btl_ib_conn_create(peer, 0, &info, NULL, &peer_conn), 0);
}

static void peer_sends(uint32_t size)
{
    static uint8_t bytes[LONG];
    static btl_ib_msg_t messages[SLOTS];
    static uint32_t count;
    btl_ib_msg_t *msg = &messages[count++];

    *msg = (btl_ib_msg_t){.iov[0] = {.iov_base = bytes, .iov_len = size}, .tag = TAG};
    assert_true(btl_ib_engine_send(peer_conn, msg, btl_ib_now()) >= 0);
}

/* ---- the process ---- */

static void turn(void)
{
    btl_ib_lock();
    (void) btl_ib_run_engine(btl_ib_now());
    btl_ib_unlock();
}

static void both_turn(void)
{
    ways[SELF].most = ways[PEER].most = SLOTS;
    turn();
    btl_ib_engine_progress(peer, btl_ib_now(), 64);
    ways[SELF].most = ways[PEER].most = 0;
}

/* What ends neither here nor in time is a failure that the test tells. */
static void wait_for(sem_t *what)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE;
    while (sem_timedwait(what, &until) != 0) {
        if (errno == ETIMEDOUT) {
            failed = true;
            return;
        }
    }
}

static void *receive_in_second(void *unused)
{
    btl_ib_lock();
    ways[SELF].most = 1;
    btl_ib_unlock();
    turn();
    return unused;
}

/* The callback of the PML. */
static void received(size_t size)
{
    if (size == LONG) {
        longs++;
        if (overlaps) {
            failed |= pthread_create(&second, NULL, receive_in_second, NULL) != 0;
            wait_for(&second_delivers);
        }
        return;
    }
    shorts++;
    if (overlaps && !pthread_equal(first, pthread_self())) {
        sem_post(&second_delivers);
        wait_for(&first_is_done);
    }
}

#if OPAL_MAJOR_VERSION >= 5
static void receive(mca_btl_base_module_t *btl, const mca_btl_base_receive_descriptor_t *descriptor)
{
    received(descriptor->des_segments[0].seg_len);
}
#else
static void receive(mca_btl_base_module_t *btl, mca_btl_base_tag_t tag,
                    mca_btl_base_descriptor_t *descriptor, void *data)
{
    received(descriptor->des_segments[0].seg_len);
}
#endif

static int set_up(void **state)
{
    begin_lone_component();
    join_network(&transport);
    (void) opal_set_using_threads(true);
    mca_btl_base_active_message_trigger[TAG].cbfunc = receive;
    begin_peer();
    endpoint = add_peer();
    for (int i = 0; i < 20; i++) { /* they know each other, and all that was sent is acknowledged */
        peer_sends(SHORT);
        both_turn();
        send_short(endpoint);
        both_turn();
    }
    assert_int_equal(shorts, 20);
    return 0;
}

/* Repeats the last datagram on its way to the process. */
static void repeat_last(void)
{
    const slot_t *last = &ways[SELF].slot[ways[SELF].next - 1];

    *new_slot(&ways[SELF]) = *last;
}

TEST(short_message_comes_once)
{
    const btl_ib_counters_t *counters = btl_ib_engine_counters(mca_btl_ib_component.engine);
    const btl_ib_counters_t before = *counters;

    assert_int_equal(sem_init(&second_delivers, 0, 0), 0);
    assert_int_equal(sem_init(&first_is_done, 0, 0), 0);
    while (ways[SELF].first != ways[SELF].next) {
        both_turn();
    }
    shorts = 0;
    first = pthread_self();
    peer_sends(LONG);
    btl_ib_engine_progress(peer, btl_ib_now(), 64);
    peer_sends(SHORT);
    btl_ib_engine_progress(peer, btl_ib_now(), 64);
    ways[SELF].most = ways[SELF].next - ways[SELF].first;
    assert_int_equal(ways[SELF].most, 3); /* two parts of the long one */
    repeat_last();
    overlaps = true;
    turn();
    sem_post(&first_is_done);
    assert_int_equal(pthread_join(second, NULL), 0);
    overlaps = false;
    assert_false(failed);
    assert_int_equal(longs, 1);
    assert_int_equal(shorts, 1);
    assert_int_equal(counters->received_messages - before.received_messages, 2);
    assert_int_equal(counters->dropped_duplicate - before.dropped_duplicate, 1);
    assert_int_equal(counters->received_datagrams - before.received_datagrams, 4);
    for (int i = 0; i < 20; i++) { /* and all goes on */
        peer_sends(SHORT);
        both_turn();
        send_short(endpoint);
        both_turn();
    }
    assert_int_equal(shorts, 21);
}

UNIT_MAIN(set_up, NULL)
