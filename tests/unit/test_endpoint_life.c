/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The component without a runtime: endpoints that are deleted and added again, and messages whose
 * module is finalized. A transport takes all and brings nothing. */

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lone_peer.h"

enum { NEIGHBOUR = 2 };

static btl_ib_transport_t second_transport;
static int received;

/* Gives a process one more rail, in a network of its own. */
static void add_second_rail(btl_ib_modex_t *modex)
{
    modex->rails[1] = modex->rails[0];
    modex->rails[1].ip[0] = 11;
    modex->rail_count = 2;
}

static int set_up(void **state)
{
    begin_lone_component();
    return 0;
}

TEST(added_twice)
{
    btl_ib_endpoint_t *endpoint = add_peer();

    assert_ptr_equal(add_peer(), endpoint);
    delete_peer(endpoint);
    assert_null(btl_ib_endpoint_next(NULL));
}

static void *delete_in_thread(void *endpoint)
{
    delete_peer(endpoint);
    return NULL;
}

static void wait_for_drain(const btl_ib_endpoint_t *endpoint)
{
    for (bool closing = false; !closing;) {
        btl_ib_lock();
        closing = endpoint->closing;
        btl_ib_unlock();
    }
}

/* del_procs drains the connection, which takes all of its time as nobody acknowledges, and gives up
 * the lock meanwhile. Who adds the process then gets another endpoint, which stays when the first
 * one is gone. */
TEST(added_while_it_is_deleted)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_endpoint_t *leaving = add_peer();
    pthread_t thread;

    send_short(leaving);
    OBJ_RETAIN(leaving); /* to look at it */
    assert_int_equal(pthread_create(&thread, NULL, delete_in_thread, leaving), 0);
    wait_for_drain(leaving);
    btl_ib_endpoint_t *endpoint = add_peer();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ptr_not_equal(endpoint, leaving);
    assert_true(leaving->closed);
    OBJ_RELEASE(leaving);
    btl_ib_lock();
    assert_ptr_equal(btl_ib_endpoint_find(module, btl_ib_name_pack(name_of(PEER))), endpoint);
    assert_ptr_equal(btl_ib_conn_user(endpoint->conn), endpoint);
    btl_ib_unlock();
    assert_ptr_equal(add_peer(), endpoint);
    delete_peer(endpoint);
    assert_null(btl_ib_endpoint_next(NULL));
    assert_int_equal(opal_hash_table_get_size(&component->hosts), 0);
    assert_int_equal(opal_hash_table_get_size(&component->known), 0);
}

#if OPAL_MAJOR_VERSION >= 5
static void receive(mca_btl_base_module_t *btl, const mca_btl_base_receive_descriptor_t *descriptor)
{
    received++;
}
#else
static void receive(mca_btl_base_module_t *btl, mca_btl_base_tag_t tag,
                    mca_btl_base_descriptor_t *descriptor, void *data)
{
    received++;
}
#endif

/* A message that was kept is delivered when its receiver is gone: to nobody. */
TEST(nobody_is_there)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_endpoint_t *endpoint = add_peer();
    uint32_t data[4] = {0};

    btl_ib_lock();
    mca_btl_base_active_message_trigger[TAG].cbfunc = receive;
    btl_ib_engine_ops.deliver(component, endpoint->conn, TAG, data, sizeof(data));
    assert_int_equal(received, 1);
    mca_btl_base_active_message_trigger[TAG].cbfunc = NULL;
    btl_ib_engine_ops.deliver(component, endpoint->conn, TAG, data, sizeof(data));
    mca_btl_base_active_message_trigger[TAG].cbfunc = receive;
    component->modules[0] = NULL;
    btl_ib_engine_ops.deliver(component, endpoint->conn, TAG, data, sizeof(data));
    assert_int_equal(received, 1);
    component->modules[0] = module;
    btl_ib_unlock();
    delete_peer(endpoint);
}

/* Messages of a process that was not added yet are delivered, whether there are threads or not. */
TEST(not_added_yet)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const opal_process_name_t name = name_of(PEER);
    uint32_t data[4] = {0};
    btl_ib_conn_t *conn;

    btl_ib_lock();
    btl_ib_endpoint_expect(&name, published);
    conn = btl_ib_conn_find(component->engine, 0, btl_ib_name_pack(name), 0);
    assert_non_null(conn);
    assert_null(btl_ib_conn_user(conn));
    mca_btl_base_active_message_trigger[TAG].cbfunc = receive;
    received = 0;
    for (int threads = 0; threads < 2; threads++) {
        (void) opal_set_using_threads(threads == 1);
        btl_ib_engine_ops.deliver(component, conn, TAG, data, sizeof(data));
        assert_int_equal(received, 1 + threads);
    }
    (void) opal_set_using_threads(false);
    btl_ib_unlock();
    delete_peer(add_peer());
}

/* While a message is delivered its endpoint is kept, and not for longer. */
TEST(endpoint_is_kept_for_callbacks)
{
    btl_ib_endpoint_t *endpoint = add_peer();
    const int references = endpoint->super.super.obj_reference_count;
    uint32_t data[4] = {0};

    btl_ib_lock();
    mca_btl_base_active_message_trigger[TAG].cbfunc = receive;
    for (int threads = 0; threads < 2; threads++) {
        (void) opal_set_using_threads(threads == 1);
        btl_ib_engine_ops.deliver(&mca_btl_ib_component, endpoint->conn, TAG, data, sizeof(data));
        assert_int_equal(endpoint->super.super.obj_reference_count, references);
    }
    (void) opal_set_using_threads(false);
    btl_ib_unlock();
    delete_peer(endpoint);
}

/* ---- a lost process ---- */

static uint32_t told, watched;

static void survive(mca_btl_base_module_t *btl, int32_t flags, opal_proc_t *lost, char *what)
{
    told++;
    watched = mca_btl_ib_component.exit_timeout.stages;
}

static void tell_nobody(const char *stage, int number)
{
}

/* The PML comes back from what it is told, as with ULFM: then nothing is to end this process. */
TEST(survivor_is_not_ended)
{
    const btl_ib_exit_timeout_config_t config = {.timeout = 100 * 1000, .tell = tell_nobody};
    btl_ib_exit_timeout_t *timeout = &mca_btl_ib_component.exit_timeout;
    btl_ib_endpoint_t *endpoint = add_peer();

    assert_int_equal(btl_ib_exit_timeout_init(timeout, &config), 0);
    module->super.btl_register_error(&module->super, survive);
    btl_ib_lock();
    btl_ib_endpoint_tell_lost(endpoint, "a test loses it");
    btl_ib_unlock();
    assert_int_equal(told, 1);
    assert_int_equal(watched, 1);
    assert_int_equal(timeout->stages, 0);
    usleep(5 * 100 * 1000);
    delete_peer(endpoint);
    assert_int_equal(timeout->stages, 0);
    btl_ib_exit_timeout_fini(timeout);
    module->super.btl_register_error(&module->super, NULL);
}

/* That the host of a silent process can be reached another process of it shows, and no other rail
 * of the silent one. */
TEST(host_can_be_reached)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_modex_t *neighbour;
    btl_ib_module_t *second;
    opal_proc_t *other = OBJ_NEW(opal_proc_t);
    btl_ib_endpoint_t *endpoint, *by_second = NULL, *next_door = NULL;

    neighbour = new_process(NEIGHBOUR, &queues);
    second = begin_rail(&second_transport, &queues);
    assert_non_null(second);
    add_second_rail(component->self);
    add_second_rail(published);
    endpoint = add_peer();
    neighbour->where = published->where;
    other->proc_name = name_of(NEIGHBOUR);
    btl_ib_modex_keep(&component->known, btl_ib_name_pack(name_of(PEER)), published);
    btl_ib_modex_keep(&component->known, btl_ib_name_pack(name_of(NEIGHBOUR)), neighbour);
    second->super.btl_add_procs(&second->super, 1, &proc, &by_second, NULL);
    module->super.btl_add_procs(&module->super, 1, &other, &next_door, NULL);
    assert_non_null(by_second);
    assert_non_null(next_door);
    btl_ib_lock();
    assert_false(btl_ib_endpoint_is_reachable(endpoint, UINT64_MAX));
    peer_answers(by_second->conn);
    assert_false(btl_ib_endpoint_is_reachable(endpoint, UINT64_MAX));
    peer_answers(next_door->conn);
    assert_true(btl_ib_endpoint_is_reachable(endpoint, UINT64_MAX));
    assert_true(btl_ib_endpoint_is_reachable(endpoint, 1));
    time_passes(10);
    assert_false(btl_ib_endpoint_is_reachable(endpoint, 10));
    btl_ib_unlock();
    free(neighbour);
}

/* ---- several threads on one processor ---- */

static int sleeps, polls;
static bool has_data, has_fd;
static uint8_t junk[8] __attribute__((aligned(8)));

/* In place of the system's, which threads call that leave their processor to others. */
int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    assert_int_equal(count > 0, has_fd);
    sleeps++;
    return 0;
}

/* A device that gets something between a poll and the look for its descriptor. */
static int poll_late(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    if (++polls != 2 || !has_data) {
        return 0;
    }
    events[0] = (btl_ib_event_t){.type = BTL_IB_EVENT_RECV,
                                 .data = junk,
                                 .size = sizeof(junk),
                                 .from = BTL_IB_ADDR_UNKNOWN,
                                 .buffer = junk};
    return 1;
}

static int wait_fd(btl_ib_transport_t *t)
{
    return has_fd ? 0 : -1;
}

/* A thread whose processor others use sleeps after an empty poll; not where a device has no
 * descriptor because something has come since. */
TEST(crowd_takes_what_came)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const btl_ib_transport_ops_t *const before = transport.ops;
    btl_ib_transport_ops_t ops = *before, second = *before;
    static const struct {
        bool data, fd;
        int events, sleeps, polls;
    } cases[] = {{true, false, 1, 0, 2}, {false, false, 0, 1, 2}, {false, true, 0, 1, 1}};

    ops.poll = poll_late;
    ops.wait_fd = wait_fd;
    second.wait_fd = wait_fd;
    transport.ops = &ops;
    second_transport.ops = &second;
    component->lock.shared = true;
    component->stats.due = UINT64_MAX;
    atomic_store(&component->poll_yield.crowded_until, UINT64_MAX);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sleeps = polls = 0;
        has_data = cases[i].data;
        has_fd = cases[i].fd;
        btl_ib_poll_throttle_reset(&component->throttle);
        assert_int_equal(component->super.btl_progress(), cases[i].events);
        assert_int_equal(sleeps, cases[i].sleeps);
        assert_int_equal(polls, cases[i].polls);
    }
    atomic_store(&component->poll_yield.crowded_until, 0);
    component->lock.shared = false;
    transport.ops = second_transport.ops = before;
}

UNIT_MAIN(set_up, NULL)
