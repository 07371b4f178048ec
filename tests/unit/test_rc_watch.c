/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: connections that stand still without an error, on a device that is
 * none. */

#include <errno.h>
#include <string.h>

#undef stop /* cmocka 2.0 has a macro of that name */

#include "rdma_sides.h"
#include "said.h"
#include "unit.h"

enum {
    ALL_OF_IT = MEMORY / 2,
    RDMA_CHANNEL = BTL_IB_RC_RDMA_CHANNEL,
};

static void listen_to_both(void)
{
    forget_said();
    for (int i = 0; i < 2; i++) {
        rc_set_log(sides[i].t, (btl_ib_log_t){.print = listen_to, .diagnostic = note_diagnostic});
    }
}

/* ---- what lies unseen at the other end ---- */

/* The first message of a connection and a read are seen once something else comes: so that is
 * sent, a second later. */
RDMA_TEST(read_is_roused)
{
    begin_on_iwarp(state);
    listen_to_both();
    fake.unseen = 2;
    fill(there, 64, 5);
    assert_int_equal(start_read(&ops[0], 0, 64), -EAGAIN);
    settle();
    assert_int_equal(start_read(&ops[0], 0, 64), 0);
    pass(3);
    assert_int_equal(ops[0].events, 0);
    assert_true(conn_of(1, 0, RDMA_CHANNEL).accepted);
    pass(2);
    assert_int_equal(ops[0].events, 1);
    assert_int_equal(ops[0].error, 0);
    assert_memory_equal(here, there, 64);
    assert_true(conn_of(1, 0, RDMA_CHANNEL).open);
    assert_string_equal(said, "");
    const uint32_t posts = fake.posts;
    pass(50);
    assert_int_equal(fake.posts, posts); /* nothing is sent on connections that wait for nothing */
}

/* A write like it does not count as done before it is placed. */
RDMA_TEST(write_is_roused)
{
    begin_on_iwarp(state);
    fake.unseen = 3; /* with the read that flushes it */
    fill(here, 64, 5);
    assert_int_equal(start_write(&ops[0], 0, 64), -EAGAIN);
    settle();
    assert_int_equal(start_write(&ops[0], 0, 64), 0);
    pass(3);
    assert_int_equal(ops[0].events, 0);
    pass(2);
    assert_int_equal(ops[0].events, 1);
    assert_int_equal(ops[0].error, 0);
    assert_memory_equal(here, there, 64);
}

/* A connection by which nothing follows the first message opens on both sides, whatever it is
 * for. */
RC_TEST(first_message_is_roused)
{
    for (uint8_t channel = 0; channel < 2; channel++) {
        fake.unseen = 1;
        assert_int_equal(send_one(0, 1, SMALL, channel), EAGAIN);
        settle();
        assert_true(conn_of(1, 0, channel).accepted);
        pass(5);
        assert_true(conn_of(1, 0, channel).open);
        fake.unseen = 0;
        assert_int_equal(send_one(1, 0, SMALL, channel), 0);
        settle();
        assert_int_equal(sides[0].received, channel + 1);
        const uint32_t posts = fake.posts;
        pass(50);
        assert_int_equal(fake.posts, posts);
    }
}

/* ---- what never ends ---- */

static void begin_stalled(int count, uint64_t size)
{
    memset(ops, 0, sizeof(ops));
    for (int i = 0; i < count; i++) {
        assert_int_equal(start_read(&ops[i], 0, size), 0);
    }
}

static void assert_stalled(int count)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(ops[i].events, 1);
        assert_int_equal(ops[i].error, EPIPE);
    }
    assert_non_null(strstr(said, "peer 10.0.0.1"));
    assert_non_null(strstr(said, "RDMA: the connection stands still and is given up: no operation "
                                 "ended for "));
    forget_said();
}

/* The connection is given up after ten seconds, with one line, and the next operation makes
 * another. Only if that one is no better there is none for a minute, and nobody waits for it. */
RDMA_TEST(given_up)
{
    begin_on_iwarp(state);
    join();
    listen_to_both();
    fake.hold_ops = true;
    for (int i = 0; i < 2; i++) {
        const uint32_t posts = fake.posts;
        begin_stalled(2, 64);
        pass(38);
        assert_int_equal(ops[0].events + ops[1].events, 0);
        assert_in_range(fake.posts - posts, 2 + 9, 2 + 10); /* roused each second */
        assert_string_equal(said, "");
        pass(3);
        assert_stalled(2);
        assert_int_equal(start_read(&ops[0], 0, 64), i == 0 ? -EAGAIN : -EHOSTUNREACH);
        settle();
    }
    pass(4 * 50);
    assert_int_equal(start_read(&ops[0], 0, 64), -EHOSTUNREACH);
    pass(4 * 10);
    assert_int_equal(start_read(&ops[0], 0, 64), -EAGAIN);
    fake.hold_ops = false;
    settle();
    begin_stalled(1, 64);
    settle();
    assert_int_equal(ops[0].error, 0);
    assert_int_equal(ops[0].events, 1);
}

/* A connection that ended something is replaced at once, however often. */
RDMA_TEST(given_up_after_use)
{
    begin_on_iwarp(state);
    listen_to_both();
    for (int i = 0; i < 3; i++) {
        join();
        fake.hold_ops = true;
        begin_stalled(1, 64);
        pass(41);
        assert_stalled(1);
        fake.hold_ops = false;
    }
}

/* Where operations end one after the other, each has its time. */
RDMA_TEST(slow_ones)
{
    begin_on_iwarp(state);
    join();
    listen_to_both();
    fake.hold_ops = true;
    begin_stalled(4, 64);
    for (int i = 0; i < 4; i++) {
        pass(36);
        while (ops[i].events == 0 && fake_rdma_work(1) > 0) { /* or it was one that rouses */
            look(0);
        }
        assert_int_equal(ops[i].events, 1);
        assert_int_equal(ops[i].error, 0);
    }
    assert_string_equal(said, "");
}

/* Half a megabyte has half a second more. */
RDMA_TEST(long_ones)
{
    begin_on_iwarp(state);
    join();
    listen_to_both();
    fake.hold_ops = true;
    begin_stalled(4, ALL_OF_IT);
    pass(41);
    assert_int_equal(ops[0].events, 0);
    pass(2);
    assert_stalled(4);
}

/* A device that repeats by itself has its time first: four times 8 x 4.3 s. */
RDMA_TEST(device_goes_first)
{
    end_first(state);
    params.rc.timeout = 20;
    begin_again();
    join();
    listen_to_both();
    fake.hold_ops = true;
    begin_stalled(1, 64);
    pass(4 * 145);
    assert_int_equal(ops[0].events, 0);
    pass(4 * 4);
    assert_stalled(1);
}

/* A pause of our own is none of the peer's. */
RDMA_TEST(paused)
{
    join();
    listen_to_both();
    fake.hold_ops = true;
    begin_stalled(1, 64);
    for (int i = 0; i < 30; i++) {
        fake.now += 60 * 1000 * 1000;
        settle();
    }
    assert_int_equal(ops[0].events, 0);
    assert_string_equal(said, "");
    assert_in_range(fake_rdma_work(ALL), 1, 8);
    settle();
    assert_int_equal(ops[0].error, 0);
}

/* ---- accepted, and never heard of ---- */

static void assert_not_opened(void)
{
    assert_non_null(strstr(said, "queue 0: the connection stands still and is given up: its first "
                                 "message did not come for "));
    forget_said();
}

/* The side whose request was accepted says nothing. While there is nothing to send that is nobody's
 * business; then, after ten seconds, this side asks, however often that happened. */
RC_TEST(accepted_and_silent)
{
    listen_to_both();
    fake.unseen = 100;
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    pass(100);
    assert_true(conn_of(1, 0, 0).accepted);
    assert_int_equal(fake.requests, 1);
    assert_string_equal(said, "");
    assert_int_not_equal(send_one(1, 0, SMALL, 0), 0);
    pass(1);
    assert_not_opened();
    assert_int_equal(sides[0].broken, 1);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_true(conn_of(1, 0, 0).accepted);
    pass(38);
    assert_string_equal(said, "");
    pass(2);
    assert_not_opened();
    pass(1);
    fake.unseen = 0;
    assert_int_equal(send_one(1, 0, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(fake.requests, 3);
    assert_int_equal(send_one(1, 0, SMALL, 0), 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    settle();
    assert_int_equal(sides[0].received, 1);
    assert_int_equal(sides[1].received, 1);
}

UNIT_MAIN(NULL, NULL)
