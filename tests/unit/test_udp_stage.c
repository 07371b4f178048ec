/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Staging memory of transport `udp`: what leaves from it, and when a slot is used again. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "udp_stage.h"

enum {
    DATAGRAMS = 44, /* of a burst */
    HEADER = 56,
    SIZE = 1472,
    BODY = SIZE - HEADER,
    TURNS = 6400,
};

static const btl_ib_udp_log_t quiet = {.name = "udp/test"};

/* One burst, and where it goes. */
typedef struct stand {
    btl_ib_udp_stage_t stage;
    int from, to; /* sockets */
    uint8_t headers[DATAGRAMS][HEADER];
    uint8_t body[DATAGRAMS][BODY];
    uint8_t staged[DATAGRAMS];
    btl_ib_tx_t tx[DATAGRAMS];
} stand_t;

static stand_t *stand;

static int bound_socket(struct sockaddr_in *name)
{
    const int fd = socket(AF_INET, SOCK_DGRAM, 0), bytes = 4 << 20;
    socklen_t size = sizeof(*name);

    *name = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    (void) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    assert_int_equal(bind(fd, (struct sockaddr *) name, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *) name, &size), 0);
    return fd;
}

static int set_up(void **state)
{
    struct sockaddr_in name;

    (void) state;
    stand = calloc(1, sizeof(*stand));
    assert_non_null(stand);
    stand->from = bound_socket(&name);
    stand->to = bound_socket(&name);
    assert_int_equal(connect(stand->from, (struct sockaddr *) &name, sizeof(name)), 0);
    btl_ib_udp_stage_init(&stand->stage, &quiet, BTL_IB_STAGING_ALWAYS);
    for (int i = 0; i < DATAGRAMS; i++) {
        stand->tx[i] = (btl_ib_tx_t){
            .niov = 2,
            .size = SIZE,
            .iov = {{stand->headers[i], HEADER}, {stand->body[i], BODY}},
            .staged = &stand->staged[i],
        };
    }
    return 0;
}

static int tear_down(void **state)
{
    (void) state;
    btl_ib_udp_stage_close(&stand->stage);
    close(stand->from);
    close(stand->to);
    free(stand);
    return 0;
}

/* The kernel may not be fit for it. */
static void need_stage(void)
{
    if (!btl_ib_udp_stage_turn(&stand->stage)) {
        skip();
    }
}

/* Send a burst, each byte of which is `value`. */
static void send_burst(uint8_t value)
{
    memset(stand->headers, value, sizeof(stand->headers));
    memset(stand->body, value, sizeof(stand->body));
    memset(stand->staged, 0, sizeof(stand->staged));
    assert_true(btl_ib_udp_stage_turn(&stand->stage));
    assert_true(btl_ib_udp_stage_send(&stand->stage, stand->from, stand->tx, DATAGRAMS));
    for (int i = 0; i < DATAGRAMS; i++) {
        assert_int_not_equal(stand->staged[i], 0);
        assert_int_equal(stand->staged[i], stand->staged[0]);
    }
}

static void end_burst(uint8_t staged, int spoiled)
{
    for (int i = 0; i < DATAGRAMS; i++) {
        btl_ib_udp_stage_done(&stand->stage, staged, i != spoiled);
    }
}

static void receive_burst(uint8_t value)
{
    uint8_t data[SIZE + 1], wanted[SIZE];

    memset(wanted, value, sizeof(wanted));
    for (int i = 0; i < DATAGRAMS; i++) {
        assert_int_equal(recv(stand->to, data, sizeof(data), MSG_DONTWAIT), SIZE);
        assert_memory_equal(data, wanted, SIZE);
    }
}

/* Datagrams arrive as they were, and a slot is not used before all of its datagrams are done. */
static void in_order(void **state)
{
    uint8_t staged[BTL_IB_UDP_STAGE_SLOTS];

    (void) state;
    need_stage();
    for (int i = 0; i < BTL_IB_UDP_STAGE_SLOTS; i++) {
        send_burst((uint8_t) i);
        receive_burst((uint8_t) i);
        staged[i] = stand->staged[0];
        for (int j = 0; j < i; j++) {
            assert_int_not_equal(staged[i], staged[j]);
        }
    }
    assert_false(btl_ib_udp_stage_turn(&stand->stage)); /* none is free */
    for (int i = 1; i < DATAGRAMS; i++) {
        btl_ib_udp_stage_done(&stand->stage, staged[7], true);
        assert_false(btl_ib_udp_stage_turn(&stand->stage));
    }
    btl_ib_udp_stage_done(&stand->stage, staged[7], true);
    send_burst(99);
    assert_int_equal(stand->staged[0], staged[7]);
    receive_burst(99);
}

/* The last piece of a message has zeros behind it, in a third place. */
static void three_places(void **state)
{
    static uint8_t zeros[8];

    (void) state;
    need_stage();
    for (int i = 0; i < DATAGRAMS; i++) {
        stand->tx[i].niov = 3;
        stand->tx[i].iov[1].iov_len = BODY - sizeof(zeros);
        stand->tx[i].iov[2] = (struct iovec){zeros, sizeof(zeros)};
    }
    memset(zeros, 5, sizeof(zeros));
    send_burst(5);
    receive_burst(5);
}

/* A burst that is still under way when its slot is used again, because the peer has another copy of
 * one of its datagrams, stays as it was. */
static void another_copy(void **state)
{
    (void) state;
    need_stage();
    send_burst(1);
    const uint8_t first = stand->staged[0];
    end_burst(first, 3);
    for (int i = 0; i < BTL_IB_UDP_STAGE_SLOTS; i++) { /* so that its turn comes */
        send_burst(2);
        end_burst(stand->staged[0], -1);
    }
    assert_int_equal(stand->staged[0], first);
    receive_burst(1);
}

/* What cannot be sent is not: the next burst goes another way then, and if the kernel says no again
 * and again, all do. */
static void refused(void **state)
{
    int tries = 0;

    (void) state;
    need_stage();
    send_burst(3);
    const uint8_t first = stand->staged[0];
    for (int i = 0; i < 100 && stand->stage.memory != NULL; i++) {
        assert_int_equal(btl_ib_udp_stage_turn(&stand->stage), i % 2 == 0);
        if (i % 2 != 0) {
            btl_ib_udp_stage_cost(&stand->stage, false, 1, 1);
            continue;
        }
        stand->staged[0] = 0;
        assert_false(btl_ib_udp_stage_send(&stand->stage, -1, stand->tx, DATAGRAMS));
        assert_int_equal(stand->staged[0], 0);
        tries++;
    }
    assert_int_equal(tries, 8);
    assert_false(btl_ib_udp_stage_turn(&stand->stage));
    end_burst(first, 4);
    receive_burst(3);
}

/* The socket's other datagrams are not cut. */
static void other_datagrams(void **state)
{
    uint8_t data[2 * SIZE];

    (void) state;
    need_stage();
    send_burst(4);
    receive_burst(4);
    assert_int_equal(send(stand->from, data, sizeof(data), 0), sizeof(data));
    assert_int_equal(recv(stand->to, data, sizeof(data), MSG_DONTWAIT), sizeof(data));
}

/* How many of TURNS bursts are staged, if they take so many ns. */
static int staged_of(uint64_t ns, uint64_t ns_staged)
{
    int count = 0;

    for (int i = 0; i < TURNS; i++) {
        const bool staged = btl_ib_udp_stage_turn(&stand->stage);
        btl_ib_udp_stage_cost(&stand->stage, staged, 64 << 10, staged ? ns_staged : ns);
        count += staged;
    }
    return count;
}

/* It is done where it costs less, and the other way is tried now and then. */
static void where_it_pays(void **state)
{
    const int few = TURNS / 16, most = TURNS - few;

    (void) state;
    need_stage();
    stand->stage.wanted = BTL_IB_STAGING_AUTO;
    assert_in_range(staged_of(16000, 16000), TURNS / 64, few); /* no reason to begin */
    assert_in_range(staged_of(16000, 12000), TURNS - TURNS / 4, TURNS - TURNS / 64);
    assert_in_range(staged_of(16000, 12000), most, TURNS - TURNS / 64);
    assert_in_range(staged_of(16000, 16000), most, TURNS - TURNS / 64); /* nor to end */
    assert_in_range(staged_of(12000, 16000), TURNS / 64, TURNS / 4);
    stand->stage.wanted = BTL_IB_STAGING_ALWAYS;
    assert_int_equal(staged_of(12000, 16000), TURNS);
}

/* One burst that took a second, because its process lost the processor, changes nothing. */
static void interrupted(void **state)
{
    (void) state;
    need_stage();
    stand->stage.wanted = BTL_IB_STAGING_AUTO;
    (void) staged_of(12000, 16000);
    for (int i = 0; i < TURNS / 16; i++) {
        const bool staged = btl_ib_udp_stage_turn(&stand->stage);
        btl_ib_udp_stage_cost(&stand->stage, staged, 64 << 10,
                              staged    ? 16000
                              : i < 300 ? UINT64_C(1000000000)
                                        : 12000);
    }
    assert_in_range(staged_of(12000, 16000), TURNS / 64, TURNS / 16);
}

static void never(void **state)
{
    (void) state;
    btl_ib_udp_stage_init(&stand->stage, &quiet, BTL_IB_STAGING_NEVER);
    assert_false(btl_ib_udp_stage_turn(&stand->stage));
    assert_null(stand->stage.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(three_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_copy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_datagrams, set_up, tear_down),
        cmocka_unit_test_setup_teardown(where_it_pays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(interrupted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(never, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
