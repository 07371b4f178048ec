/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The transport `udp`: which peers get sockets of their own, and what becomes of datagrams
 * meanwhile. */

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transports.h"
#include "udp_calls.h"
#include "udp_inside.h"
#include "unit.h"

/* One with two peers. */
typedef struct trio {
    pair_t pair; /* `a` and `b` */
    btl_ib_transport_t *c;
    btl_ib_addr_t c_at_a, a_at_c;
} trio_t;

static trio_t trio;

static void open_trio(uint32_t connected_max)
{
    btl_ib_open_params_t params = heard_params();

    need_udp(AF_INET);
    params.connected_max = connected_max;
    trio.pair = open_pair(params);
    trio.c = open_with(heard_params());
    trio.c_at_a = add(trio.pair.a, trio.c);
    trio.a_at_c = add(trio.c, trio.pair.a);
    calls.connects = 0; /* those that ask for paths */
}

static void close_trio(void)
{
    close_transport(trio.c);
    close_pair(&trio.pair);
}

static udp_inside_t of_a(void)
{
    return udp_inside(trio.pair.a);
}

/* The place of the socket that sends to a peer. */
static uint32_t socket_of(btl_ib_addr_t addr)
{
    return udp_socket_of(trio.pair.a, addr);
}

static void send_b(int n)
{
    for (int i = 0; i < n; i++) {
        (void) assert_reaches(trio.pair.a, trio.pair.b_at_a, trio.pair.b, 64);
    }
}

static void send_c(int n)
{
    for (int i = 0; i < n; i++) {
        (void) assert_reaches(trio.pair.a, trio.c_at_a, trio.c, 64);
    }
}

/* Both ways, with both. */
static void assert_all_reach(void)
{
    const pair_t *pair = &trio.pair;

    for (uint32_t size = 8; size < 1000; size += 111) {
        assert_int_equal(assert_reaches(pair->a, pair->b_at_a, pair->b, size), pair->a_at_b);
        assert_int_equal(assert_reaches(pair->b, pair->a_at_b, pair->a, size), pair->b_at_a);
        assert_int_equal(assert_reaches(pair->a, trio.c_at_a, trio.c, size), trio.a_at_c);
        assert_int_equal(assert_reaches(trio.c, trio.a_at_c, pair->a, size), trio.c_at_a);
    }
    assert_idle(pair->a);
}

/* ---- which peers get one ---- */

TEST(test_promotion)
{
    open_trio(4);
    send_b(UDP_CONNECT_AFTER - 1);
    send_c(1);
    assert_int_equal(of_a().sockets, 1);
    send_b(1);
    assert_int_equal(of_a().sockets, 2);
    assert_int_equal(socket_of(trio.pair.b_at_a), 1);
    assert_int_equal(socket_of(trio.c_at_a), 0);
    assert_all_reach();
    calls.named = 0;
    send_b(1);
    assert_int_equal(calls.named, 0);
    send_c(UDP_CONNECT_AFTER);
    assert_int_equal(socket_of(trio.c_at_a), 2);
    assert_int_equal(socket_of(trio.pair.b_at_a), 1);
    assert_all_reach();
    assert_int_equal(calls.connects, 2);
    assert_int_equal(calls.worst, 10);
    close_trio();
}

TEST(test_none_wanted)
{
    open_trio(0);
    send_b(2 * UDP_CONNECT_AFTER);
    assert_int_equal(of_a().sockets, 1);
    assert_int_equal(calls.connects, 0);
    assert_int_equal(trio.pair.a->ops->wait_fd(trio.pair.a), udp_fd(trio.pair.a, 0));
    close_trio();
}

/* No more than the array has places for, whatever is asked for. */
TEST(test_too_many_wanted)
{
    open_trio(1000);
    assert_int_equal(of_a().vacant, UDP_CONNECTED_MAX);
    close_trio();
}

/* There is one socket: the first peer keeps it, however many messages others get. */
TEST(test_first_keeps_it)
{
    open_trio(1);
    send_c(UDP_CONNECT_AFTER - 1);
    send_b(UDP_CONNECT_AFTER);
    send_c(4 * UDP_CONNECT_AFTER);
    assert_int_equal(socket_of(trio.pair.b_at_a), 1);
    assert_int_equal(socket_of(trio.c_at_a), 0);
    assert_int_equal(calls.connects, 1);
    assert_all_reach();
    close_trio();
}

/* A peer that is gone leaves its socket to the next, with all that is in it. */
TEST(test_removed)
{
    const pair_t *pair = &trio.pair;

    open_trio(1);
    send_b(UDP_CONNECT_AFTER);
    const slots_t slots = make_slots(pair->b);
    for (uint32_t i = 0; i < 20; i++) { /* nobody takes them in meanwhile */
        const btl_ib_tx_t tx = make_tx(pair->b, &slots, i, pair->a_at_b, 100 + i, 1);

        assert_int_equal(send_all(pair->b, &tx, 1), 0);
    }
    pair->a->ops->addr_remove(pair->a, pair->b_at_a);
    send_c(UDP_CONNECT_AFTER);
    assert_int_equal(socket_of(trio.c_at_a), 1);
    trio.pair.b_at_a = add(pair->a, pair->b); /* the same handle, another life */
    assert_int_equal(socket_of(pair->b_at_a), 0);
    for (uint32_t i = 0; i < 20; i++) {
        const btl_ib_event_t event = wait_recv(pair->a);

        assert_int_equal(assert_intact(&event), i);
        assert_int_equal(event.from, pair->b_at_a);
        repost(pair->a, &event);
    }
    free_slots(pair->b, &slots);
    assert_all_reach();
    assert_int_equal(of_a().sockets, 2);
    assert_int_equal(calls.connects, 2);
    close_trio();
}

/* A call to several peers goes by the socket that serves all, as one. */
TEST(test_mixed_call)
{
    btl_ib_tx_t batch[8];

    open_trio(2);
    send_b(UDP_CONNECT_AFTER);
    send_c(UDP_CONNECT_AFTER);
    calls.sends = 0;
    for (uint32_t i = 0; i < 8; i++) {
        batch[i] = make_tx(trio.pair.a, &trio.pair.slots, i,
                           i % 2 == 0 ? trio.pair.b_at_a : trio.c_at_a, 300, 1);
    }
    assert_int_equal(send_all(trio.pair.a, batch, 8), 0);
    assert_int_equal(calls.sends, 1);
    for (uint32_t i = 0; i < 8; i++) {
        btl_ib_transport_t *at = i % 2 == 0 ? trio.pair.b : trio.c;
        const btl_ib_event_t event = wait_recv(at);

        assert_int_equal(assert_intact(&event), i);
        repost(at, &event);
    }
    assert_all_reach();
    close_trio();
}

/* ---- the port ---- */

/* Nobody else may be bound to it, before and after, whatever he sets. */
static void assert_port_is_ours(void)
{
    static const int options[] = {SO_REUSEPORT, SO_REUSEADDR};
    const int one = 1;

    for (int i = 0; i < 2; i++) {
        const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        assert_int_equal(setsockopt(fd, SOL_SOCKET, options[i], &one, sizeof(one)), 0);
        const btl_ib_udp_name_t own = udp_name(trio.pair.a);
        assert_int_equal(bind(fd, &own.any, sizeof(own.v4)), -1);
        assert_int_equal(errno, EADDRINUSE);
        close(fd);
    }
}

TEST(test_port)
{
    open_trio(2);
    assert_port_is_ours();
    send_b(UDP_CONNECT_AFTER);
    assert_port_is_ours();
    send_c(UDP_CONNECT_AFTER);
    assert_port_is_ours();
    close_trio();
}

static void send_in_the_gap(void)
{
    const pair_t *pair = &trio.pair;

    calls.at_connect = NULL;
    for (uint32_t i = 0; i < 32; i++) {
        btl_ib_transport_t *from = i % 2 == 0 ? pair->b : trio.c;
        const slots_t slots = make_slots(from);
        const btl_ib_tx_t tx =
            make_tx(from, &slots, i, i % 2 == 0 ? pair->a_at_b : trio.a_at_c, 200, 1);

        assert_int_equal(send_all(from, &tx, 1), 0);
        free_slots(from, &slots);
    }
}

/* Between bind() and connect() the new socket gets anybody's datagrams; none is lost, or taken
 * for another's. */
TEST(test_gap)
{
    uint32_t seen = 0;

    open_trio(2);
    for (int who = 0; who < 2; who++) {
        calls.at_connect = send_in_the_gap;
        if (who == 0) {
            send_b(UDP_CONNECT_AFTER);
        } else {
            send_c(UDP_CONNECT_AFTER);
        }
        assert_null(calls.at_connect);
        for (int i = 0; i < 32; i++) {
            const btl_ib_event_t event = wait_recv(trio.pair.a);
            const uint32_t slot = assert_intact(&event);

            seen ^= 1u << slot;
            assert_int_equal(event.from, slot % 2 == 0 ? trio.pair.b_at_a : trio.c_at_a);
            repost(trio.pair.a, &event);
        }
        assert_int_equal(seen, who == 0 ? UINT32_MAX : 0);
        assert_idle(trio.pair.a);
    }
    assert_all_reach();
    close_trio();
}

/* ---- polling ---- */

/* One that always has something does not keep us from another that had nothing for long. */
TEST(test_fair)
{
    enum { MANY = 3000 };
    const pair_t *pair = &trio.pair;
    btl_ib_event_t event;
    int found = 0;

    open_trio(1);
    send_b(UDP_CONNECT_AFTER);
    const slots_t slots = make_slots(pair->b);
    const btl_ib_tx_t by_b = make_tx(pair->b, &slots, 0, pair->a_at_b, 50, 1);
    const btl_ib_tx_t by_c = make_tx(trio.c, &slots, 1, trio.a_at_c, 60, 1);
    assert_int_equal(send_all(pair->b, &by_b, 1), 0);
    for (int i = 0; i < 2 * MANY; i++) {
        if (i == MANY) {
            assert_int_equal(send_all(trio.c, &by_c, 1), 0);
        }
        assert_int_equal(send_all(pair->b, &by_b, 1), 0); /* there is always one more */
        assert_int_equal(poll_now(pair->a, &event, 1), 1);
        if (event.from == trio.c_at_a) {
            found = i;
        }
        repost(pair->a, &event);
    }
    assert_in_range(found, MANY, MANY + 200);
    free_slots(pair->b, &slots);
    close_trio();
}

/* Nothing comes. */
static void poll_empty(int polls)
{
    btl_ib_event_t event;

    calls.receives = calls.asks = 0;
    for (int i = 0; i < polls; i++) {
        assert_int_equal(poll_now(trio.pair.a, &event, 1), 0);
    }
}

/* An empty poll sweeps over all sockets if this passes before each. */
enum { LONG = 20000 }; /* ns */

/* Each of these polls comes so long after the one before. */
static void poll_seldom(int polls)
{
    uint32_t receives = 0, asks = 0;

    for (int i = 0; i < polls; i++) {
        calls.now += LONG;
        poll_empty(1);
        receives += calls.receives;
        asks += calls.asks;
    }
    calls.receives = receives;
    calls.asks = asks;
}

/* Nothing came to any of three sockets for long, and time stands still. */
static void open_quiet_trio(int epoll_error)
{
    open_trio(2);
    send_b(UDP_CONNECT_AFTER);
    send_c(UDP_CONNECT_AFTER);
    calls.epoll_error = epoll_error;
    calls.now = LATER;
    poll_empty(1000);
}

/* Idle, all sockets are looked at, but not often: each by itself, or by epoll. */
TEST(test_idle_looks)
{
    for (int epoll = 0; epoll < 2; epoll++) {
        open_quiet_trio(epoll ? 0 : ENOMEM);
        poll_empty(1000);
        assert_int_equal(calls.receives, 1000);
        calls.now += LONG;
        poll_empty(1);
        assert_int_equal(calls.receives, epoll ? 1 : 3);
        assert_int_equal(calls.asks, epoll);
        if (!epoll) {
            close_trio();
        }
    }
    close_trio();
}

/* Each way to get at what is in several sockets: all of it, in as many polls. */
static void assert_all_found(void)
{
    const pair_t *pair = &trio.pair;
    const slots_t slots = make_slots(pair->b);
    const btl_ib_tx_t by_b = make_tx(pair->b, &slots, 0, pair->a_at_b, 50, 1);
    const btl_ib_tx_t by_c = make_tx(trio.c, &slots, 1, trio.a_at_c, 60, 1);
    btl_ib_event_t event;
    int from_b = 0, from_c = 0;

    for (int i = 0; i < 6; i++) {
        assert_int_equal(send_all(i % 3 == 0 ? trio.c : pair->b, i % 3 == 0 ? &by_c : &by_b, 1), 0);
    }
    for (int i = 0; i < 100; i++) {
        if (poll_now(trio.pair.a, &event, 1) > 0) {
            from_b += event.from == pair->b_at_a;
            from_c += event.from == trio.c_at_a;
            repost(trio.pair.a, &event);
        }
    }
    assert_int_equal(from_b, 4);
    assert_int_equal(from_c, 2);
    free_slots(pair->b, &slots);
}

/* A process that polls seldom asks which sockets have something by one call, until one has. */
TEST(test_seldom)
{
    open_quiet_trio(0);
    poll_seldom(10);
    poll_seldom(100);
    assert_int_equal(calls.receives, 0);
    assert_int_equal(calls.asks, 100);
    const btl_ib_tx_t tx = make_tx(trio.c, &trio.pair.slots, 0, trio.a_at_c, 77, 1);
    btl_ib_event_t event;
    assert_int_equal(send_all(trio.c, &tx, 1), 0);
    assert_int_equal(poll_now(trio.pair.a, &event, 1), 1); /* at once */
    repost(trio.pair.a, &event);
    assert_int_equal(calls.receives, 1);
    poll_empty(1); /* sweeps */
    poll_empty(1);
    assert_int_equal(calls.receives, 1); /* as before */
    assert_int_equal(calls.asks, 0);
    assert_all_found();
    close_trio();
}

/* One with several busy peers does so at each poll. */
TEST(test_many_busy)
{
    open_quiet_trio(0);
    btl_ib_transport_t *other = open_with(heard_params()); /* comes by the shared socket */
    const btl_ib_addr_t a_at_other = add(other, trio.pair.a);
    (void) add(trio.pair.a, other);
    for (int i = 0; i < 100; i++) {
        (void) assert_reaches(other, a_at_other, trio.pair.a, 64);
        assert_all_found();
    }
    (void) assert_reaches(other, a_at_other, trio.pair.a, 64);
    poll_empty(10);
    assert_int_equal(calls.receives, 0);
    assert_int_equal(calls.asks, 10);
    poll_empty(1000); /* then none is busy any more */
    assert_in_range(calls.asks, 100, 300);
    assert_all_found();
    close_transport(other);
    close_trio();
}

/* There can be no epoll set: that is tried once, and sockets are swept over. */
TEST(test_seldom_without_epoll)
{
    open_quiet_trio(ENOMEM);
    poll_seldom(10);
    calls.epoll_error = 0;
    poll_seldom(10);
    assert_int_equal(calls.asks, 0);
    assert_int_equal(calls.receives, 30);
    assert_all_found();
    close_trio();
}

static bool readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    return poll(&one, 1, 0) > 0;
}

/* Whichever socket it comes to, asked for before it was made or not; and the next poll finds it. */
TEST(test_wait_fd)
{
    btl_ib_event_t event;

    open_trio(2);
    send_c(UDP_CONNECT_AFTER);
    const int fd = trio.pair.a->ops->wait_fd(trio.pair.a);
    assert_in_range(fd, 0, INT32_MAX);
    send_b(UDP_CONNECT_AFTER);
    btl_ib_transport_t *d = open_with(heard_params());
    const btl_ib_addr_t d_at_a = add(trio.pair.a, d);
    const btl_ib_addr_t a_at_d = add(d, trio.pair.a);
    for (int i = 0; i < 12; i++) {
        btl_ib_transport_t *from[] = {trio.pair.b, trio.c, d};
        const btl_ib_addr_t to[] = {trio.pair.a_at_b, trio.a_at_c, a_at_d};
        const btl_ib_addr_t at_a[] = {trio.pair.b_at_a, trio.c_at_a, d_at_a};
        const btl_ib_tx_t tx = make_tx(trio.pair.a, &trio.pair.slots, 0, to[i % 3], 77, 1);

        assert_int_equal(trio.pair.a->ops->wait_fd(trio.pair.a), fd);
        assert_false(readable(fd));
        assert_int_equal(send_all(from[i % 3], &tx, 1), 0);
        assert_true(readable(fd));
        assert_int_equal(poll_now(trio.pair.a, &event, 1), 1);
        assert_int_equal(event.from, at_a[i % 3]);
        repost(trio.pair.a, &event);
    }
    close_transport(d);
    close_trio();
}

/* ---- what goes wrong ---- */

static int poll_some(btl_ib_event_t *event)
{
    for (int i = 0; i < 100; i++) {
        if (poll_now(trio.pair.a, event, 1) > 0) {
            return 1;
        }
    }
    return 0;
}

/* Found by the next look, and by the next send; others notice nothing. */
TEST(test_refused)
{
    btl_ib_event_t event;

    open_trio(2);
    send_b(UDP_CONNECT_AFTER);
    send_c(UDP_CONNECT_AFTER);
    close_transport(trio.c);
    const btl_ib_tx_t to_c = make_tx(trio.pair.a, &trio.pair.slots, 0, trio.c_at_a, 200, 1);
    for (int sends = 1; sends < 4; sends++) {
        for (int i = 0; i < sends; i++) {
            assert_int_equal(send_all(trio.pair.a, &to_c, 1), 0);
        }
        (void) assert_reaches(trio.pair.a, trio.pair.b_at_a, trio.pair.b, 99);
        event = wait_event(trio.pair.a);
        for (int told = 1; told > 0; told = poll_some(&event)) {
            assert_int_equal(event.type, BTL_IB_EVENT_REFUSED);
            assert_int_equal(event.error, ECONNREFUSED);
            assert_int_equal(event.from, trio.c_at_a);
        }
    }
    assert_int_equal(calls.worst, 10);
    trio.c = open_with(heard_params());
    close_trio();
}

/* Refused, and an earlier call took the error away, but did not read what it was about: told,
 * and then gone. */
TEST(test_refused_asking)
{
    btl_ib_event_t event;
    int told = 0, error = 0;

    open_trio(2);
    send_b(UDP_CONNECT_AFTER);
    send_c(UDP_CONNECT_AFTER);
    assert_in_range(trio.pair.a->ops->wait_fd(trio.pair.a), 0, INT32_MAX); /* epoll from now on */
    poll_empty(10);
    close_transport(trio.c);
    const btl_ib_tx_t to_c = make_tx(trio.pair.a, &trio.pair.slots, 0, trio.c_at_a, 200, 1);
    assert_int_equal(send_all(trio.pair.a, &to_c, 1), 0);
    socklen_t len = sizeof(error);
    assert_int_equal(
        getsockopt(udp_fd(trio.pair.a, socket_of(trio.c_at_a)), SOL_SOCKET, SO_ERROR, &error, &len),
        0);
    assert_int_equal(error, ECONNREFUSED); /* now only the queue has it */
    for (int i = 0; i < 100; i++) {
        if (poll_now(trio.pair.a, &event, 1) > 0) {
            assert_int_equal(event.type, BTL_IB_EVENT_REFUSED);
            assert_int_equal(event.from, trio.c_at_a);
            told++;
        }
    }
    assert_int_equal(told, 1);
    uint32_t errors;
    assert_int_equal(udp_ready(trio.pair.a, &errors), 0);
    assert_int_equal(errors, 0);
    trio.c = open_with(heard_params());
    close_trio();
}

/* How many this process has open, and the one to look. */
static uint32_t descriptors(void)
{
    DIR *const directory = opendir("/proc/self/fd");
    uint32_t count = 0;

    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

/* A call of the kernel fails: no more sockets than there are, none that is left open, and all goes
 * on. */
TEST(test_errors)
{
    int *const errors[] = {&calls.socket_error, &calls.option_error, &calls.reuse_error,
                           &calls.bind_error, &calls.epoll_error};

    for (int first = 0; first < 2; first++) { /* the first that there would be, or the second */
        for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
            open_trio(2);
            assert_in_range(trio.pair.a->ops->wait_fd(trio.pair.a), 0, INT32_MAX);
            if (first == 0) {
                send_b(UDP_CONNECT_AFTER);
            }
            const uint32_t before = descriptors();
            *errors[i] = EMFILE;
            send_c(UDP_CONNECT_AFTER);
            *errors[i] = 0;
            assert_int_equal(descriptors(), before);
            assert_int_equal(of_a().sockets, 2 - first);
            assert_int_equal(of_a().vacant, 0);
            assert_int_equal(socket_of(trio.c_at_a), 0);
            assert_non_null(strstr(calls.heard, strerror(EMFILE)));
            assert_int_equal(calls.worst, 10);
            assert_all_reach();
            assert_port_is_ours();
            close_trio();
        }
    }
}

/* A buffer that is smaller than what the peers were promised. */
TEST(test_small_buffer)
{
    open_trio(2);
    calls.small_buffers = 10000;
    send_b(UDP_CONNECT_AFTER);
    assert_int_equal(of_a().sockets, 1);
    assert_all_reach();
    close_trio();
}

/* It is not connected: datagrams of all come to it, too, until it is. */
TEST(test_connect_fails)
{
    open_trio(1);
    calls.connect_error = ENETUNREACH;
    send_b(UDP_CONNECT_AFTER);
    assert_int_equal(of_a().sockets, 2);
    assert_int_equal(socket_of(trio.pair.b_at_a), 0);
    assert_all_reach();
    calls.connect_error = 0;
    send_c(UDP_CONNECT_AFTER);
    assert_int_equal(socket_of(trio.c_at_a), 1);
    assert_all_reach();
    close_trio();
}

TEST(test_no_epoll)
{
    open_trio(1);
    calls.epoll_error = ENOMEM;
    assert_int_equal(trio.pair.a->ops->wait_fd(trio.pair.a), -1);
    calls.epoll_error = 0;
    assert_in_range(trio.pair.a->ops->wait_fd(trio.pair.a), 0, INT32_MAX);
    close_trio();
}

UNIT_MAIN(NULL, free_devices)
