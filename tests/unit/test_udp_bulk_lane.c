/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The transport `udp`: bulk has a socket for itself, and what else there is does not wait
 * behind it. */

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transports.h"
#include "udp_calls.h"
#include "udp_inside.h"
#include "unit.h"

static sa_family_t family;

static int ipv4(void **state)
{
    family = AF_INET;
    return 0;
}

static int ipv6(void **state)
{
    family = AF_INET6;
    return 0;
}

static pair_t open_two_lanes(uint32_t connected_max)
{
    need_udp(family);
    return open_pair(two_lanes(connected_max));
}

static void send_one(const pair_t *pair, uint32_t slot, uint32_t size, bool bulk)
{
    btl_ib_tx_t tx = make_tx(pair->a, &pair->slots, slot, pair->b_at_a, size, 1);

    tx.bulk = bulk;
    assert_int_equal(send_all(pair->a, &tx, 1), 0);
}

/* Is there something in it? */
static bool has_some(const btl_ib_transport_t *t, uint32_t socket)
{
    struct pollfd one = {
        .fd = udp_fd(t, socket),
        .events = POLLIN,
    };

    return poll(&one, 1, 0) > 0;
}

static uint32_t take(const pair_t *pair)
{
    const btl_ib_event_t event = wait_recv(pair->b);
    const uint32_t slot = assert_intact(&event);

    assert_int_equal(event.from, pair->a_at_b);
    repost(pair->b, &event);
    return slot;
}

/* ---- two lanes ---- * protocol: R2, R3 */
static void test_lanes(void **state)
{
    const pair_t pair = open_two_lanes(0);

    assert_true(pair.a->attr.bulk_lane);
    assert_int_equal(udp_inside(pair.b).shared, 2);
    send_one(&pair, 0, 100, true);
    assert_true(has_some(pair.b, 0));
    assert_false(has_some(pair.b, 1));
    assert_int_equal(take(&pair), 0);
    send_one(&pair, 1, 100, false);
    assert_false(has_some(pair.b, 0));
    assert_true(has_some(pair.b, 1));
    assert_int_equal(take(&pair), 1);
    assert_int_equal(calls.worst, 10);
    close_pair((pair_t *) &pair);
}

/* Channels may have bulk's socket whatever btl_ib_bulk_lane says, for all bulk; or share one. */
static void test_channels(void **state)
{
    static const struct {
        btl_ib_open_channels_t channels;
        bool asked, lane, apart;
    } cases[] = {
        {BTL_IB_CHANNELS_AUTO, true, true, false},    {BTL_IB_CHANNELS_AUTO, false, false, false},
        {BTL_IB_CHANNELS_OWN, false, true, true},     {BTL_IB_CHANNELS_OWN, true, true, true},
        {BTL_IB_CHANNELS_SHARED, true, false, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        btl_ib_open_params_t params = two_lanes(0);

        need_udp(family);
        params.channels = cases[i].channels;
        params.bulk_lane = cases[i].asked;
        btl_ib_transport_t *t = open_with(params);
        assert_int_equal(t->attr.bulk_lane, cases[i].lane);
        assert_int_equal(t->attr.bulk_apart, cases[i].apart);
        assert_int_equal(udp_inside(t).shared, cases[i].lane ? 2 : 1);
        close_transport(t);
    }
}

/* All of one batch, in calls of one lane. */
static void test_mixed_batch(void **state)
{
    const pair_t pair = open_two_lanes(0);
    btl_ib_tx_t batch[30];
    uint32_t seen = 0;

    for (uint32_t i = 0; i < 30; i++) {
        batch[i] = make_tx(pair.a, &pair.slots, i, pair.b_at_a, 200, 1);
        batch[i].bulk = i / 10 == 1;
    }
    calls.sends = 0;
    assert_int_equal(send_all(pair.a, batch, 30), 0);
    assert_int_equal(calls.sends, 3);
    for (int i = 0; i < 30; i++) {
        seen ^= 1u << take(&pair);
    }
    assert_int_equal(seen, (1u << 30) - 1);
    assert_idle(pair.b);
    close_pair((pair_t *) &pair);
}

static void test_overtakes(void **state)
{
    const pair_t pair = open_two_lanes(0);

    for (uint32_t i = 0; i < 5; i++) {
        send_one(&pair, i, 1000, true);
    }
    assert_int_equal(take(&pair), 0); /* there is something, as there was lately */
    send_one(&pair, 10, 50, false);
    uint32_t before = 0;
    while (take(&pair) != 10) {
        before++;
    }
    assert_in_range(before, 0, 1); /* now and then any of them has its turn */
    for (uint32_t i = before + 1; i < 5; i++) {
        assert_int_equal(take(&pair), i);
    }
    close_pair((pair_t *) &pair);
}

/* Though there is always something else. */
static void test_bulk_has_its_turn(void **state)
{
    const pair_t pair = open_two_lanes(0);
    uint32_t polls = 0, longest = 0;

    send_one(&pair, 0, 50, false);
    for (int i = 0; i < 50; i++) {
        send_one(&pair, 1, 1000, true);
        for (polls = 1, send_one(&pair, 0, 50, false); take(&pair) != 1; polls++) {
            send_one(&pair, 0, 50, false);
        }
        longest = polls > longest ? polls : longest;
    }
    assert_in_range(longest, 1, 9 * UDP_RECV_BATCH); /* those of so many calls */
    close_pair((pair_t *) &pair);
}

static void poll_empty(const pair_t *pair, int polls)
{
    btl_ib_event_t event;

    calls.receives = 0;
    for (int i = 0; i < polls; i++) {
        assert_int_equal(poll_now(pair->b, &event, 1), 0);
    }
}

/* Of bulk alone every second look costs no other. */
static void test_bulk_alone(void **state)
{
    const pair_t pair = open_two_lanes(0);

    calls.now = LATER; /* and stands still: no sweeps */
    poll_empty(&pair, 1000);
    for (int i = 0; i < 100; i++) {
        send_one(&pair, 1, 1000, true);
        if (i == 0) { /* it is not looked at often, idle */
            calls.now += 20000;
        }
        calls.receives = i == 10 ? 0 : calls.receives;
        assert_int_equal(take(&pair), 1);
    }
    assert_in_range(calls.receives, 130, 145); /* 1.5 for each of 90 */
    close_pair((pair_t *) &pair);
}

/* Idle, a poll is one look, but each 2 us: a process that polls seldom finds all that is there at
 * once. */
static void test_idle_looks(void **state)
{
    const pair_t pair = open_two_lanes(0);
    btl_ib_event_t event;

    calls.now = LATER;
    poll_empty(&pair, 1000);
    poll_empty(&pair, 1000);
    assert_int_equal(calls.receives, 1000);
    calls.now += 20000;
    send_one(&pair, 3, 1000, true);
    assert_int_equal(poll_now(pair.b, &event, 1), 1);
    repost(pair.b, &event);
    close_pair((pair_t *) &pair);
}

static void test_wait_fd(void **state)
{
    const pair_t pair = open_two_lanes(0);
    struct pollfd one = {.fd = pair.b->ops->wait_fd(pair.b), .events = POLLIN};

    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(poll(&one, 1, 0), 0);
        send_one(&pair, i, 300, i % 2 == 0);
        assert_int_equal(poll(&one, 1, 0), 1);
        assert_int_equal(take(&pair), i);
    }
    close_pair((pair_t *) &pair);
}

/* ---- messages that stay in the buffer ---- */

/* One that the kernel hands over as it was sent, in four datagrams. */
static void send_long(const pair_t *pair)
{
    btl_ib_tx_t batch[4];

    for (uint32_t i = 0; i < 4; i++) {
        batch[i] = make_tx(pair->a, &pair->slots, i, pair->b_at_a, pair->a->attr.max_datagram, 1);
        batch[i].bulk = true;
    }
    assert_int_equal(send_all(pair->a, batch, 4), 0);
}

static void take_long(const pair_t *pair)
{
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(take(pair), i);
    }
}

/* Time passes, of which so much was on a processor; and long messages come. */
static void take_many(const pair_t *pair, uint64_t cpu)
{
    calls.now += 20000000;
    calls.cpu += cpu;
    for (int i = 0; i < 16; i++) {
        send_long(pair);
        take_long(pair);
    }
}

/* A pair whose long messages stay in the buffer from now on. */
static pair_t open_keeping(void)
{
    const pair_t pair = open_two_lanes(0);

    if (udp_inside(pair.b).keep_most == 0) {
        print_message("skipped: net.core.rmem_max is small\n");
        close_pair((pair_t *) &pair);
        skip();
    }
    calls.now = LATER;
    take_many(&pair, 20000000);
    assert_int_equal(udp_inside(pair.b).kept, 0); /* it is not known yet */
    take_many(&pair, 20000000);
    assert_true(has_some(pair.b, 0));
    poll_empty(&pair, 2000);
    assert_int_equal(udp_inside(pair.b).kept, 0);
    return pair;
}

/* Each comes once, however many stay; and those that come after shorter ones do, too. */
static void test_kept(void **state)
{
    const pair_t pair = open_keeping();
    const uint32_t most = udp_inside(pair.b).keep_most;

    for (uint32_t i = 1; i <= most; i++) {
        send_long(&pair);
        take_long(&pair);
        assert_int_equal(udp_inside(pair.b).kept, i);
    }
    for (int i = 0; i < 100; i++) {
        send_long(&pair);
        if (i % 10 == 0) {
            send_one(&pair, 5, 100, true);
            send_one(&pair, 6, 1000, true);
        }
        take_long(&pair);
        if (i % 10 == 0) {
            assert_int_equal(take(&pair), 5);
            assert_int_equal(take(&pair), 6);
        }
        assert_in_range(udp_inside(pair.b).kept, most / 2, most);
    }
    for (uint32_t i = 0; i < 20; i++) {
        send_one(&pair, i, 300, true);
        assert_int_equal(take(&pair), i);
    }
    assert_int_equal(udp_inside(pair.b).kept, 0);
    assert_false(has_some(pair.b, 0));
    close_pair((pair_t *) &pair);
}

/* Nothing stays where nothing comes any more, or where a process is about to sleep. */
static void test_kept_idle(void **state)
{
    const pair_t pair = open_keeping();

    send_long(&pair);
    take_long(&pair);
    assert_true(has_some(pair.b, 0));
    (void) pair.b->ops->wait_fd(pair.b);
    assert_false(has_some(pair.b, 0));
    send_long(&pair);
    take_long(&pair);
    assert_true(has_some(pair.b, 0));
    poll_empty(&pair, 2000);
    assert_false(has_some(pair.b, 0));
    send_long(&pair);
    take_long(&pair);
    close_pair((pair_t *) &pair);
}

/* An error that the kernel has to tell keeps messages where they are, but none comes twice. */
static void test_kept_error(void **state)
{
    const pair_t pair = open_keeping();

    send_long(&pair);
    take_long(&pair);
    calls.recv_error = ECONNREFUSED;
    (void) pair.b->ops->wait_fd(pair.b);
    assert_int_equal(udp_inside(pair.b).kept, 1);
    for (uint32_t i = 0; i < 20; i++) {
        send_one(&pair, i, 300, true);
        assert_int_equal(take(&pair), i);
    }
    assert_int_equal(udp_inside(pair.b).kept, 0);
    close_pair((pair_t *) &pair);
}

/* Where processes share a processor nothing stays. */
static void test_kept_crowded(void **state)
{
    const pair_t pair = open_keeping();

    take_many(&pair, 20000000);
    assert_true(has_some(pair.b, 0));
    take_many(&pair, 10000000);
    assert_int_equal(udp_inside(pair.b).kept, 0);
    assert_false(has_some(pair.b, 0));
    take_many(&pair, 20000000);
    assert_true(has_some(pair.b, 0));
    close_pair((pair_t *) &pair);
}

static void *take_many_elsewhere(void *pair)
{
    take_many(pair, 20000000);
    return NULL;
}

/* Processor times of different threads say nothing: one that polls after another is not alone. */
static void test_kept_threads(void **state)
{
    pair_t pair = open_keeping();
    pthread_t thread;

    take_many(&pair, 20000000);
    assert_true(has_some(pair.b, 0));
    assert_int_equal(pthread_create(&thread, NULL, take_many_elsewhere, &pair), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(udp_inside(pair.b).kept, 0);
    take_many(&pair, 20000000);
    assert_int_equal(udp_inside(pair.b).kept, 0);
    take_many(&pair, 20000000);
    assert_true(has_some(pair.b, 0));
    close_pair(&pair);
}

/* ---- with sockets of single peers ---- */

/* They belong to the latency lane; bulk neither makes a peer hot nor uses them. */
static void test_hot(void **state)
{
    const pair_t pair = open_two_lanes(4);

    for (int i = 0; i < 2 * UDP_CONNECT_AFTER; i++) {
        send_one(&pair, 1, 100, true);
        assert_int_equal(take(&pair), 1);
    }
    assert_int_equal(udp_inside(pair.a).sockets, 2);
    make_connected(pair.a, pair.b_at_a, pair.b);
    make_connected(pair.b, pair.a_at_b, pair.a);
    assert_int_equal(udp_inside(pair.a).sockets, 3);
    assert_int_equal(udp_socket_of(pair.a, pair.b_at_a), 2);
    calls.named = 0;
    send_one(&pair, 2, 100, false);
    assert_int_equal(calls.named, 0);
    assert_true(has_some(pair.b, 2));
    assert_int_equal(take(&pair), 2);
    send_one(&pair, 3, 100, true);
    assert_int_equal(calls.named, 1);
    assert_true(has_some(pair.b, 0));
    assert_int_equal(take(&pair), 3);
    close_pair((pair_t *) &pair);
}

/* ---- peers that have one socket ---- */

static void test_old_peer(void **state)
{
    need_udp(family);
    for (int i = 0; i < 2; i++) {
        pair_t pair = {
            .a = open_with(i == 0 ? two_lanes(0) : heard_params()),
            .b = open_with(i == 0 ? heard_params() : two_lanes(0)),
        };
        pair.b_at_a = add(pair.a, pair.b);
        pair.a_at_b = add(pair.b, pair.a);
        pair.slots = make_slots(pair.a);
        send_one(&pair, 1, 100, true);
        assert_int_equal(take(&pair), 1);
        send_one(&pair, 2, 100, false);
        assert_true(has_some(pair.b, 0));
        assert_int_equal(take(&pair), 2);
        close_pair(&pair);
    }
}

/* ---- what the network says ---- */

static void test_refused(void **state)
{
    for (int bulk = 0; bulk < 2; bulk++) {
        pair_t pair = open_two_lanes(0);
        close_transport(pair.b);
        send_one(&pair, 1, 100, bulk);
        const btl_ib_event_t event = wait_event(pair.a);
        assert_int_equal(event.type, BTL_IB_EVENT_REFUSED);
        assert_int_equal(event.from, pair.b_at_a);
        pair.b = open_with(two_lanes(0));
        close_pair(&pair);
    }
}

/* ---- ports ---- */

static uint32_t port_of(const btl_ib_transport_t *t)
{
    return (uint32_t) t->address[2] << 8 | t->address[3];
}

/* They are taken two by two, and the last that is left over serves all. */
static void test_ports(void **state)
{
    btl_ib_open_params_t params;
    btl_ib_transport_t *t[3], *none = NULL;

    need_udp(family);
    params = two_lanes(0);
    params.port_count = 5;
    for (params.port_min = 21003; params.port_min < 60000; params.port_min += 103) {
        btl_ib_open_params_t probe = params;
        int free = 0;

        probe.bulk_lane = false;
        btl_ib_transport_t *all[5];
        while (free < 5 && bed.type->open(bed.device, &probe, &all[free]) == 0) {
            free++;
        }
        for (int i = 0; i < free; i++) {
            close_transport(all[i]);
        }
        if (free == 5) {
            break;
        }
    }
    forget_calls();
    for (uint32_t i = 0; i < 3; i++) {
        t[i] = open_with(params);
        assert_int_equal(port_of(t[i]), params.port_min + 2 * i);
        assert_int_equal(t[i]->attr.bulk_lane, i < 2);
        assert_int_equal(udp_inside(t[i]).shared, i < 2 ? 2 : 1);
        assert_int_equal(calls.worst, i < 2 ? 10 : 1);
    }
    forget_calls();
    assert_int_equal(bed.type->open(bed.device, &params, &none), -EADDRINUSE);
    assert_int_equal(calls.worst, 1);
    for (int i = 0; i < 3; i++) {
        close_transport(t[i]);
    }
}

/* Somebody has the port above: the next two are tried. */
static void test_port_above_taken(void **state)
{
    btl_ib_open_params_t params;
    btl_ib_udp_name_t name;

    need_udp(family);
    params = two_lanes(0);
    btl_ib_transport_t *first = open_with(params);
    params.port_min = (uint16_t) port_of(first);
    params.port_count = 8;
    name = udp_name(first);
    name = btl_ib_udp_name_shift(&name, 1);
    close_transport(first);
    const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, &name.any, btl_ib_udp_name_len(&name)), 0);
    btl_ib_transport_t *t = open_with(params);
    assert_true(t->attr.bulk_lane);
    assert_in_range(port_of(t), params.port_min + 2u, params.port_min + 6u);
    close_transport(t);
    assert_null(strstr(calls.heard, "btl_ib_bulk_lane"));
    params.port_count = 2;
    t = open_with(params);
    assert_false(t->attr.bulk_lane);
    assert_non_null(strstr(calls.heard, "btl_ib_bulk_lane"));
    assert_int_equal(port_of(t), params.port_min);
    close_transport(t);
    close(fd);
}

int main(void)
{
#define TESTS                                                                                      \
    cmocka_unit_test(test_lanes), cmocka_unit_test(test_channels),                                 \
        cmocka_unit_test(test_mixed_batch), cmocka_unit_test(test_overtakes),                      \
        cmocka_unit_test(test_bulk_alone), cmocka_unit_test(test_bulk_has_its_turn),               \
        cmocka_unit_test(test_idle_looks), cmocka_unit_test(test_wait_fd),                         \
        cmocka_unit_test(test_kept), cmocka_unit_test(test_kept_idle),                             \
        cmocka_unit_test(test_kept_error), cmocka_unit_test(test_kept_crowded),                    \
        cmocka_unit_test(test_kept_threads), cmocka_unit_test(test_hot),                           \
        cmocka_unit_test(test_old_peer), cmocka_unit_test(test_refused),                           \
        cmocka_unit_test(test_ports), cmocka_unit_test(test_port_above_taken)
    const struct CMUnitTest with_ipv4[] = {TESTS};
    const struct CMUnitTest with_ipv6[] = {TESTS};

    return cmocka_run_group_tests(with_ipv4, ipv4, free_devices)
           + cmocka_run_group_tests(with_ipv6, ipv6, free_devices);
}
