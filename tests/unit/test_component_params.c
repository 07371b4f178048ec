/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Parameters that the component itself obeys, each by what it changes. There is no runtime, and a
 * transport that takes all, and brings as much as a test wants. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include "lone_peer.h"

static btl_ib_transport_ops_t ops;

static struct {
    int left;  /* datagrams that the network still has */
    int calls; /* polls of the device */
} network;

/* Brings datagrams that are none of the protocol's. */
static int poll_network(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    static uint64_t nothing[16];
    const int n = network.left < max ? network.left : max;

    network.calls++;
    for (int i = 0; i < n; i++) {
        events[i] = (btl_ib_event_t){.type = BTL_IB_EVENT_RECV,
                                     .size = sizeof(nothing),
                                     .from = BTL_IB_ADDR_UNKNOWN,
                                     .data = (uint8_t *) nothing,
                                     .buffer = nothing};
    }
    network.left -= n;
    return n;
}

static int set_up(void **state)
{
    begin_lone_component();
    ops = *transport.ops;
    ops.poll = poll_network;
    transport.ops = &ops;
    return 0;
}

/* ---- poll_burst ---- */

/* Makes one turn. All are made at the same time, so that none is followed by those that make up for
 * a pause. */
static void make_turn(uint64_t now)
{
    btl_ib_lock();
    (void) btl_ib_run_engine(now);
    btl_ib_unlock();
}

/* A turn takes poll_burst datagrams of a network that has more, and the rest waits. */
TEST(turn_receives_poll_burst)
{
    static const int bursts[] = {1, 7, 64, 1000};
    const uint64_t now = btl_ib_now();

    make_turn(now);
    for (size_t i = 0; i < sizeof(bursts) / sizeof(bursts[0]); i++) {
        mca_btl_ib_component.params.poll_burst = bursts[i];
        network.left = 5000;
        make_turn(now);
        assert_int_equal(5000 - network.left, bursts[i]);
    }
    network.left = 0;
}

/* ---- a process that never answers ---- */

/* Adds a process that never answers, and sends it a message. */
static btl_ib_endpoint_t *add_silent_peer(void)
{
    btl_ib_endpoint_t *endpoint = add_peer();

    send_short(endpoint);
    return endpoint;
}

/* Deletes the process, as no part of an earlier shutdown. Returns how long it took, us. */
static uint64_t leave_silent_peer(btl_ib_endpoint_t *endpoint)
{
    const uint64_t began = btl_ib_now();

    mca_btl_ib_component.drain.ended = 0;
    network.calls = 0;
    delete_peer(endpoint);
    assert_null(btl_ib_endpoint_next(NULL));
    return btl_ib_now() - began;
}

/* ---- the progress thread ---- */

/* It sleeps while nothing is due, and is woken by a message that may have to be sent again. */
TEST(thread_is_woken_for_what_is_due)
{
    btl_ib_progress_thread_t *thread = &mca_btl_ib_component.progress_thread;
    btl_ib_endpoint_t *endpoint;
    uint64_t woken;

    (void) btl_ib_progress_thread_attach(thread, mca_btl_ib_component.engine);
    thread->started = true;
    thread->wake_fd = eventfd(0, EFD_NONBLOCK);
    assert_true(thread->wake_fd >= 0);
    thread->asleep = true;
    make_turn(btl_ib_now());
    assert_true(thread->asleep);
    assert_true(read(thread->wake_fd, &woken, sizeof(woken)) < 0);
    endpoint = add_silent_peer();
    assert_false(thread->asleep);
    assert_int_equal(read(thread->wake_fd, &woken, sizeof(woken)), sizeof(woken));
    close(thread->wake_fd);
    thread->started = false;
    mca_btl_ib_component.params.drain_ms = 0;
    (void) leave_silent_peer(endpoint);
}

/* ---- drain_ms ---- */

TEST(leaving_waits_drain_ms)
{
    mca_btl_ib_component.params.drain_ms = 40;
    assert_true(leave_silent_peer(add_silent_peer()) >= 40 * 1000);
    assert_true(network.calls > 0);
    mca_btl_ib_component.params.drain_ms = 0;
    (void) leave_silent_peer(add_silent_peer());
    assert_int_equal(network.calls, 0);
}

/* ---- free_list_num, free_list_inc, free_list_max ---- */

enum { LONG = 32768 }; /* bytes: more than a datagram has */

static int called_back;

static void note_callback(mca_btl_base_module_t *btl, btl_ib_endpoint_t *endpoint,
                          mca_btl_base_descriptor_t *des, int status)
{
    called_back++;
}

static void make_lists(int num, int inc, int max)
{
    mca_btl_ib_component.params.free_list_num = num;
    mca_btl_ib_component.params.free_list_inc = inc;
    mca_btl_ib_component.params.free_list_max = max;
    module->super.btl_eager_limit = 4096;
    module->super.btl_max_send_size = LONG;
    assert_int_equal(btl_ib_frag_lists_init(module), OPAL_SUCCESS);
}

static void free_lists(void)
{
    OBJ_DESTRUCT(&module->frags.header.items);
    OBJ_DESTRUCT(&module->frags.eager.items);
    OBJ_DESTRUCT(&module->frags.max.items);
}

static mca_btl_base_descriptor_t *allocate(btl_ib_endpoint_t *endpoint)
{
    return module->super.btl_alloc(&module->super, endpoint, MCA_BTL_NO_ORDER, LONG,
                                   MCA_BTL_DES_FLAGS_BTL_OWNERSHIP
                                       | MCA_BTL_DES_SEND_ALWAYS_CALLBACK);
}

/* Number of descriptors for long fragments that were made. */
static size_t made(void)
{
    return module->frags.max.items.fl_num_allocated;
}

TEST(lists_grow_as_told)
{
    mca_btl_base_descriptor_t *taken[4];

    make_lists(3, 5, -1);
    assert_int_equal(made(), 3);
    for (int i = 0; i < 4; i++) {
        taken[i] = allocate(NULL);
        assert_non_null(taken[i]);
    }
    assert_int_equal(made(), 3 + 5);
    for (int i = 0; i < 4; i++) {
        module->super.btl_free(&module->super, taken[i]);
    }
    free_lists();
}

/* Once as many are made as may be the PML has to wait for a callback. */
TEST(list_is_bounded)
{
    enum { MOST = 5 };
    mca_btl_base_descriptor_t *taken[MOST];
    int sent = 0;

    mca_btl_ib_component.params.drain_ms = 0;
    btl_ib_endpoint_t *endpoint = add_silent_peer();
    make_lists(32, 32, MOST);
    assert_int_equal(made(), MOST);
    for (int i = 0; i < MOST; i++) {
        taken[i] = allocate(endpoint);
        assert_non_null(taken[i]);
        taken[i]->des_cbfunc = note_callback;
    }
    while (called_back == sent) { /* until one has to wait for acknowledgements */
        assert_true(sent < MOST);
        assert_int_equal(module->super.btl_send(&module->super, endpoint, taken[sent++], TAG),
                         OPAL_SUCCESS);
    }
    assert_null(allocate(endpoint));
    assert_int_equal(made(), MOST);
    (void) leave_silent_peer(endpoint); /* what was sent is back in its list */
    while (sent < MOST) {
        module->super.btl_free(&module->super, taken[sent++]);
    }
    free_lists();
}

/* If no fragment will call back nobody would tell the PML when to try again: there are more. */
TEST(list_goes_beyond_its_bound)
{
    mca_btl_base_descriptor_t *taken[3];

    make_lists(1, 32, 2);
    for (int i = 0; i < 3; i++) {
        taken[i] = allocate(NULL);
        assert_non_null(taken[i]);
    }
    assert_int_equal(made(), 3);
    for (int i = 0; i < 3; i++) {
        module->super.btl_free(&module->super, taken[i]);
    }
    free_lists();
}

/* A fragment takes the smaller buffer that holds it, also where the eager limit is the larger one,
 * as over udp. */
TEST(fragments_take_the_smaller_buffer)
{
    mca_btl_base_descriptor_t *taken;

    for (int eager_larger = 0; eager_larger <= 1; eager_larger++) {
        make_lists(0, 1, -1);
        if (eager_larger) {
            module->super.btl_eager_limit = 4 * LONG;
        }
        taken = allocate(NULL);
        assert_non_null(taken);
        assert_int_equal(made(), 1);
        assert_int_equal(module->frags.eager.items.fl_num_allocated, 0);
        module->super.btl_free(&module->super, taken);
        free_lists();
    }
}

/* Up to a limit, and the room for headers beyond it. */
TEST(fragments_of_exact_sizes)
{
    static const struct {
        size_t size;
        bool eager_larger, from_eager, from_max;
    } rows[] = {
        {4096 + BTL_IB_HEADER_ROOM, false, true, false},
        {4096 + BTL_IB_HEADER_ROOM + 1, false, false, true},
        {LONG + BTL_IB_HEADER_ROOM, false, false, true},
        {LONG + BTL_IB_HEADER_ROOM + 1, false, false, false}, /* none is that large */
        {LONG + BTL_IB_HEADER_ROOM, true, false, true},
        {LONG + BTL_IB_HEADER_ROOM + 1, true, true, false},
        {2 * LONG + BTL_IB_HEADER_ROOM, true, true, false},
        {2 * LONG + BTL_IB_HEADER_ROOM + 1, true, false, false},
        {BTL_IB_HEADER_ROOM, false, false, false}, /* that of headers */
    };
    mca_btl_base_module_t *btl = &module->super;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        make_lists(0, 1, -1);
        btl->btl_eager_limit = rows[i].eager_larger ? 2 * LONG : 4096;
        mca_btl_base_descriptor_t *des =
            btl->btl_alloc(btl, NULL, MCA_BTL_NO_ORDER, rows[i].size, 0);
        const bool from_header = rows[i].size <= BTL_IB_HEADER_ROOM;
        assert_int_equal(des != NULL, rows[i].from_eager || rows[i].from_max || from_header);
        assert_int_equal(module->frags.header.items.fl_num_allocated, from_header);
        assert_int_equal(module->frags.eager.items.fl_num_allocated, rows[i].from_eager);
        assert_int_equal(made(), rows[i].from_max);
        if (des != NULL) {
            btl->btl_free(btl, des);
        }
        free_lists();
    }
}

/* ---- calls that poll ---- */

/* As after a long time without anything: many calls go by until one polls. */
static void expect_few_polls(void)
{
    const uint64_t now = btl_ib_now();

    btl_ib_poll_throttle_set_alone(&mca_btl_ib_component.throttle, false);
    for (int i = 0; i < 2; i++) { /* at the same time: the second follows the first at once */
        mca_btl_ib_component.throttle.interval = BTL_IB_POLL_CALLS_IDLE;
        btl_ib_poll_throttle_empty(&mca_btl_ib_component.throttle, now, false);
    }
    network.calls = 0;
    (void) mca_btl_ib_component.super.btl_progress();
    assert_int_equal(network.calls, 0);
}

static void expect_poll(void)
{
    (void) mca_btl_ib_component.super.btl_progress();
    assert_int_equal(network.calls, 1);
}

static void note_rdma(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                      void *local_address, mca_btl_base_registration_handle_t *local_handle,
                      void *context, void *cbdata, int status)
{
    called_back++;
}

/* Whatever is begun, the next call looks for its answer. */
TEST(begun_is_polled_for)
{
    static uint64_t words[8];
    mca_btl_base_module_t *btl = &module->super;
    btl_ib_endpoint_t *endpoint = add_silent_peer();
    mca_btl_base_registration_handle_t *handle;
    mca_btl_base_descriptor_t *des;

    mca_btl_ib_component.stats.due = UINT64_MAX;
    btl->btl_put_limit = SIZE_MAX;
    make_lists(3, 5, -1);
    assert_int_equal(btl_ib_rdma_init(module), OPAL_SUCCESS);
    assert_int_equal(btl_ib_register_init(module), OPAL_SUCCESS);
    handle =
        btl->btl_register_mem(btl, endpoint, words, sizeof(words), MCA_BTL_REG_FLAG_ACCESS_ANY);
    assert_non_null(handle);
    expect_few_polls();
    (void) btl->btl_sendi(btl, endpoint, NULL, words, 8, 0, 0, 0, TAG, NULL);
    expect_poll();
    expect_few_polls();
    des = allocate(endpoint);
    assert_non_null(des);
    assert_true(btl->btl_send(btl, endpoint, des, TAG) >= 0);
    expect_poll();
    expect_few_polls();
    assert_int_equal(btl->btl_put(btl, endpoint, words, (uintptr_t) words, handle, handle, 8, 0, 0,
                                  note_rdma, NULL, NULL),
                     OPAL_SUCCESS);
    expect_poll();
    assert_int_equal(btl->btl_deregister_mem(btl, handle), OPAL_SUCCESS);
    mca_btl_ib_component.params.drain_ms = 0;
    (void) leave_silent_peer(endpoint);
    btl_ib_poll_throttle_set_alone(&mca_btl_ib_component.throttle, true);
    OBJ_DESTRUCT(&module->memory);
    OBJ_DESTRUCT(&module->rdma.ops);
    free_lists();
}

/* ---- what transports are asked for ---- */

/* What each transport then does is shown by udp_socket/test_busy_poll, rc_device/completion_queue,
 * rc_rdma/writes_to_relaxed_memory_are_confirmed and rc_eager. */
TEST(transports_are_asked)
{
    btl_ib_params_t params = {.udp_gso = "auto",
                              .ordering = "strict",
                              .channels = "auto",
                              .cq = "shared",
                              .rx_depth = 64};
    btl_ib_queue_table_t shared;
    btl_ib_queues_error_t error;
    btl_ib_open_params_t open;

    assert_int_equal(btl_ib_queues_parse("S,1472,1024", &shared, &error), 0);
    btl_ib_device_plan_open(&params, &shared, &open);
    assert_int_equal(open.busy_poll, 0);
    assert_int_equal(open.cq_num, 0);
    assert_int_equal(open.rc.eager_slots, 0);
    assert_false(open.rc.relaxed);
    params.udp_busy_poll = 50;
    params.cq_num = 7000;
    params.eager_rdma_num = 32;
    params.ordering = "relaxed";
    btl_ib_device_plan_open(&params, &shared, &open);
    assert_int_equal(open.busy_poll, 50);
    assert_int_equal(open.cq_num, 7000);
    assert_int_equal(open.rc.eager_slots, 32);
    assert_true(open.rc.relaxed);
}

UNIT_MAIN(set_up, NULL)
