/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The transport `udp`: a process with many rails asks once for all of them which have something. */

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "own_network.h"
#include "transports.h"
#include "udp_calls.h"
#include "udp_inside.h"
#include "unit.h"

enum {
    RAILS = 4, /* that receive; with the one that sends they are many */
    LOOK = 20, /* us between two turns: a rail by itself would look at all its sockets in each */
};

static struct {
    btl_ib_transport_t *sender;
    slots_t slots;
    btl_ib_transport_t *rail[RAILS];
    btl_ib_addr_t at_sender[RAILS];
} process;

static void open_rail(int i, btl_ib_open_params_t params)
{
    process.rail[i] = open_with(params);
    process.at_sender[i] = add(process.sender, process.rail[i]);
    (void) add(process.rail[i], process.sender);
}

static void open_rails(void)
{
    need_udp(AF_INET);
    process.sender = open_with(two_lanes(2));
    process.slots = make_slots(process.sender);
    for (int i = 0; i < RAILS; i++) {
        open_rail(i, two_lanes(2));
    }
    calls.now = LATER;
}

static void close_rails(void)
{
    for (int i = 0; i < RAILS; i++) {
        close_transport(process.rail[i]);
    }
    free_slots(process.sender, &process.slots);
    close_transport(process.sender);
}

/* One turn, beginning with rail `first`, finds what `found` counts, by rail. */
static void turn(int first, int found[RAILS])
{
    btl_ib_event_t event;

    calls.now += LOOK * 1000;
    for (int n = 0; n < RAILS; n++) {
        const int i = (first + n) % RAILS;
        if (poll_now(process.rail[i], &event, 1) > 0) {
            (void) assert_intact(&event);
            repost(process.rail[i], &event);
            found[i]++;
        }
    }
}

/* So many turns, the first rail another one each time. Returns how much they found. */
static int turns(int count)
{
    int found[RAILS] = {0};
    int all = 0;

    calls.receives = 0;
    calls.asks = 0;
    for (int i = 0; i < count; i++) {
        turn(i % RAILS, found);
    }
    for (int i = 0; i < RAILS; i++) {
        all += found[i];
    }
    return all;
}

static void send_to(int i, bool bulk)
{
    btl_ib_tx_t tx = make_tx(process.sender, &process.slots, 0, process.at_sender[i], 100, 1);

    tx.bulk = bulk;
    assert_int_equal(send_all(process.sender, &tx, 1), 0);
}

/* What comes to any rail, by either lane, is found in the turn after it came. */
static void assert_found(void)
{
    for (int i = 0; i < RAILS; i++) {
        for (int bulk = 0; bulk < 2; bulk++) {
            int found[RAILS] = {0};
            send_to(i, bulk != 0);
            turn(i + bulk, found);
            for (int j = 0; j < RAILS; j++) {
                assert_int_equal(found[j], i == j);
            }
        }
    }
}

/* All are asked for at once, once a turn, and none is looked at for nothing. */
static void test_asks(void **state)
{
    open_rails();
    (void) turns(2); /* makes the sets */
    assert_int_equal(turns(100), 0);
    assert_int_equal(calls.receives, 0);
    assert_int_equal(calls.asks, 100);
    assert_found();
    send_to(1, false);
    assert_int_equal(turns(1), 1);
    assert_in_range(calls.receives, 1, 2); /* the bulk lane's turn may come first */
    assert_int_equal(calls.asks, 1);
    close_rails();
}

/* Rails that stand by are open, and polled now and then: the only other one is looked at by
 * itself. */
static void test_others_stand_by(void **state)
{
    btl_ib_event_t event;

    open_rails();
    assert_found();
    calls.asks = 0;
    calls.receives = 0;
    for (int i = 0; i < 300; i++) {
        calls.now += LOOK * 1000;
        assert_int_equal(poll_now(process.rail[0], &event, 1), 0);
        if (i % 100 == 50) {
            for (int n = 1; n < RAILS; n++) {
                assert_int_equal(poll_now(process.rail[n], &event, 1), 0);
            }
        }
    }
    assert_in_range(calls.asks, 0, 10);
    assert_true(calls.receives >= 290);
    send_to(0, false);
    assert_int_equal(turns(1), 1);
    close_rails();
}

/* One that always has something keeps none from its turn. */
static void test_fair(void **state)
{
    open_rails();
    for (int n = 0; n < 50; n++) {
        send_to(2, true);
        send_to(2, true);
        if (n % 10 == 9) {
            int found[RAILS] = {0};
            send_to(2, false);
            send_to(0, false);
            turn(n, found);
            assert_int_equal(found[0], 1);
            assert_int_equal(found[2], 1);
        }
    }
    assert_int_equal(turns(200), 100);
    close_rails();
}

/* Few are left: they are looked at one by one, until others open. */
static void test_closed(void **state)
{
    open_rails();
    assert_found();
    for (int i = 1; i < RAILS; i++) {
        close_transport(process.rail[i]);
        process.rail[i] = process.rail[0]; /* has its turn again and again */
    }
    assert_int_equal(turns(50), 0);
    assert_true(calls.receives >= 50);
    send_to(0, true);
    send_to(0, false);
    assert_int_equal(turns(3), 2);
    for (int i = 1; i < RAILS; i++) {
        open_rail(i, two_lanes(2));
    }
    assert_found();
    assert_int_equal(turns(10), 0);
    assert_int_equal(calls.asks, 10);
    assert_int_equal(calls.receives, 0);
    close_rails();
}

/* A socket for one peer alone is watched as well. */
static void test_connected(void **state)
{
    open_rails();
    assert_found();
    btl_ib_transport_t *rail = process.rail[1];
    const btl_ib_addr_t sender = add(rail, process.sender);
    make_connected(rail, sender, process.sender);
    make_connected(process.sender, process.at_sender[1], rail);
    assert_true(udp_socket_of(rail, sender) > 0);
    assert_found();
    close_rails();
}

/* A rail that cannot be watched is looked at by itself. */
static void test_apart(void **state)
{
    open_rails();
    calls.epoll_error = ENOMEM;
    int found[RAILS] = {0};
    turn(0, found);
    calls.epoll_error = 0;
    assert_found();
    (void) turns(100);
    assert_true(calls.receives >= 100);
    close_rails();
}

/* So is one whose looks are what gets datagrams out of a network card. */
static void test_busy_poll(void **state)
{
    btl_ib_open_params_t params = two_lanes(2);

    open_rails();
    close_transport(process.rail[0]);
    params.busy_poll = 50;
    open_rail(0, params);
    assert_found();
    assert_int_equal(turns(100), 0);
    assert_int_equal(calls.asks, 100);
    assert_true(calls.receives >= 100);
    close_rails();
}

/* The application closed descriptors of ours: each rail finds out by itself, and no descriptor that
 * the application has opened instead is closed. */
static void test_descriptors_closed(void **state)
{
    btl_ib_event_t event;

    open_rails();
    assert_found();
    const int first = udp_fd(process.rail[0], 0);
    const int behind = dup(first);
    assert_true(behind > first);
    for (int fd = first; fd < behind; fd++) {
        (void) close(fd);
    }
    for (int i = 0; i < RAILS; i++) {
        for (int n = 0; n < 20; n++) {
            (void) poll_now(process.rail[i], &event, 1);
        }
    }
    for (int fd = first; fd < behind; fd++) {
        assert_int_equal(dup2(behind, fd), fd);
    }
    close_rails();
    for (int fd = first; fd <= behind; fd++) {
        assert_int_equal(close(fd), 0);
    }
}

/* ---- an address that changes, in a network of its own ---- */

static int setup(void **state)
{
    need_own_network();
    find_device("udp", "", AF_INET);
    return 0;
}

/* The sockets of the new address are watched in place of the old ones. */
static void test_rebind(void **state)
{
    open_rails();
    assert_found();
    close_transport(process.rail[2]);
    set_lo_address("lo:1", "10.9.0.1");
    process.rail[2] = open_at("10.9.0.1", two_lanes(2));
    (void) turns(2);
    set_lo_address("lo:1", "10.9.0.2");
    assert_true(process.rail[2]->ops->rebind(process.rail[2]));
    process.at_sender[2] = add(process.sender, process.rail[2]);
    (void) add(process.rail[2], process.sender);
    assert_found();
    assert_int_equal(turns(100), 0);
    assert_int_equal(calls.asks, 100);
    assert_int_equal(calls.receives, 0);
    close_rails();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asks),      cmocka_unit_test(test_others_stand_by),
        cmocka_unit_test(test_fair),      cmocka_unit_test(test_closed),
        cmocka_unit_test(test_connected), cmocka_unit_test(test_apart),
        cmocka_unit_test(test_busy_poll), cmocka_unit_test(test_descriptors_closed),
    };
    const struct CMUnitTest changing[] = {
        cmocka_unit_test(test_rebind),
    };

    return cmocka_run_group_tests(tests, NULL, free_devices)
           + cmocka_run_group_tests(changing, setup, free_devices);
}
