/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: datagrams, and the buffers they need. */

#include <endian.h>
#include <errno.h>

#include "rc_sides.h"
#include "unit.h"

/* ---- sending ---- */

/* Only what is not inline makes SENT events, and each of it one. */
RC_TEST(sent_events)
{
    connect_sides(0, 1, 1);
    for (int i = 0; i < 500; i++) {
        while (send_one(0, 1, i % 2 == 0 ? SMALL : LONG, 1) != 0) {
            look(0);
            look(1);
        }
    }
    settle();
    assert_int_equal(sides[1].received, 501);
    assert_int_equal(sides[1].disorder, 0);
    assert_in_range(sides[0].sent, 250 - 64, 250); /* some wait for a later one that is signalled */
    assert_true(fake.completions < 40);
    forget(0, 1);
    settle();
    assert_int_equal(sides[0].sent, 250);
}

/* Nor is it held for long if it is many connections' together. */
RC_TEST(much_is_asked_for)
{
    open_side(2);
    add(0, 2);
    connect_sides(0, 1, 1);
    connect_sides(0, 2, 1);
    for (int i = 0; i < 80; i++) { /* not so many to one that it asks for itself */
        assert_int_equal(send_one(0, 1 + i % 2, LONG, 1), 0);
        look(1 + i % 2);
    }
    look(0);
    assert_in_range(sides[0].sent, 32, 80);
}

/* What the peer says that he took is beyond what he was sent: he is not believed. */
RC_TEST(word_of_nonsense)
{
    connect_sides(0, 1, 0);
    uint32_t *word = conn_of(0, 1, 0).word;
    const uint32_t right = *word;
    *word = htobe32(0x80000000u);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    *word = right;
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    settle();
}

/* Memory that is held because nobody asked for a completion is no more when its connection is
 * over. */
RC_TEST(silence_ends_with_the_connection)
{
    for (int i = 0; i < 6; i++) {
        sides[1].received = 0;
        connect_sides(0, 1, 1);
        for (int k = 0; k < 16; k++) {
            assert_int_equal(send_one(0, 1, LONG, 1), 0);
        }
        settle();
        if (i == 5) {
            break;
        }
        forget(0, 1);
        settle();
        fake.now += 2000000;
        add(0, 1);
    }
    fake.completions = 0;
    assert_int_equal(send_one(0, 1, LONG, 1), 0);
    assert_int_equal(fake.completions, 0);
}

/* One doorbell a row; what does not fit is not taken. */
RC_TEST(rows)
{
    int error;

    connect_sides(0, 1, 0);
    sides[1].received = 0;
    connect_sides(0, 1, 1);
    fake.posts = 0;
    assert_int_equal(send_row(0, 1, LONG, 1, 10, &error), 10);
    assert_int_equal(fake.posts, 1);
    const int rest = send_row(0, 1, LONG, 1, 30, &error);
    assert_in_range(rest, NUM + RESERVE - 12, NUM + RESERVE - 10);
    assert_int_equal(error, EAGAIN);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0); /* each channel has a queue pair of its own */
    settle();
    assert_int_equal(sides[1].received, 12 + rest);
    assert_int_equal(sides[1].disorder, 0);
}

RC_TEST(partial_posts)
{
    int error;

    connect_sides(0, 1, 1);
    fake.post_left = 3;
    fake.post_error = ENOMEM;
    assert_int_equal(send_row(0, 1, LONG, 1, 8, &error), 3);
    assert_int_equal(error, ENOBUFS); /* its queue has room */
    assert_int_equal(sides[0].broken, 0);
    assert_int_equal(send_row(0, 1, LONG, 1, 5, &error), 5);
    settle();
    assert_int_equal(sides[1].received, 9);
    assert_int_equal(sides[1].disorder, 0);
    fake.post_left = 2;
    fake.post_error = EIO; /* no shortage: the queue pair is spoilt */
    assert_int_equal(send_row(0, 1, LONG, 1, 8, &error), 2);
    assert_int_equal(error, EAGAIN);
    settle();
    assert_int_equal(sides[0].broken, 1);
    assert_int_equal(sides[0].sent, 10);
}

/* A device that does not say how far it came took nothing. */
RC_TEST(silent_post_took_nothing)
{
    int error;

    connect_sides(0, 1, 1);
    fake.post_left = 0;
    fake.post_error = ENOMEM;
    fake.post_silent = true;
    assert_int_equal(send_row(0, 1, LONG, 1, 8, &error), 0);
    assert_int_equal(error, ENOBUFS);
    assert_int_equal(send_row(0, 1, LONG, 1, 8, &error), 8);
    settle();
    assert_int_equal(sides[1].received, 9);
    assert_int_equal(sides[1].disorder, 0);
    assert_int_equal(sides[0].broken, 0);
}

/* A batch that goes several ways ends at the first that cannot go. */
RC_TEST(mixed_batches)
{
    side_t *side = &sides[0];
    btl_ib_tx_t tx[3];
    int error;

    connect_sides(0, 1, 0);
    for (int i = 0; i < 3; i++) {
        tx[i] = (btl_ib_tx_t){.to = side->to[1],
                              .niov = 1,
                              .size = 4,
                              .iov = {{slot(side, 1), 4}},
                              .mem = side->mem,
                              .channel = i == 1};
    }
    assert_int_equal(side->t->ops->send(side->t, tx, 3, &error), 1);
    assert_int_equal(error, EAGAIN);
}

/* A receiver that does not look has buffers for all that comes, whatever is sent; then it goes
 * on. */
RC_TEST(never_without_buffer)
{
    int taken = 0;

    connect_sides(0, 1, 1);
    for (int i = 0; i < 1000; i++) {
        taken += send_one(0, 1, LONG, 1) == 0;
        look(0);
    }
    assert_in_range(taken, NUM, NUM + RESERVE);
    for (int i = 0; i < 1000; i++) {
        taken += send_one(0, 1, LONG, 1) == 0;
        look(0);
        look(1);
    }
    settle();
    assert_int_equal(sides[1].received, 1 + taken);
    assert_true(taken > 900);
    assert_in_range(fake.writes, taken / 8 - 1, taken / (NUM / 4));
}

/* ---- shared queues ---- */

RC_TEST(shared_queue)
{
    (void) tear_down(state);
    fake_rdma_reset();
    params.queue[1].shared = true;
    open_side(0);
    open_side(1);
    add(0, 1);
    add(1, 0);
    connect_sides(0, 1, 1);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
        look(0);
        look(1);
    }
    settle();
    assert_int_equal(sides[1].received, 101);
    assert_int_equal(fake.writes, 0);
    assert_int_equal(sides[1].from, sides[1].to[0]);
    sides[1].keeps = true;
    assert_int_equal(send_one(0, 1, LONG, 1), 0);
    settle();
    forget(1, 0); /* the buffer is everybody's */
    sides[1].t->ops->repost(sides[1].t, sides[1].held, 1);
}

/* Peers come and go under traffic: the buffers that all share are all there afterwards. Some
 * devices do not say when a queue pair took its last one. */
RC_TEST(shared_buffers_come_back)
{
    int error;

    (void) tear_down(state);
    for (int says = 0; says < 2; says++) {
        fake_rdma_reset();
        fake.never_last = says == 0;
        params.queue[1].shared = true;
        params.queue[1].low = NUM - 1;
        open_side(0);
        open_side(1);
        add(0, 1);
        add(1, 0);
        const struct ibv_srq *srq = rc_srq(sides[1].t, 1);
        const uint32_t all = fake_rdma_posted(srq);
        for (int i = 0; i < 4; i++) {
            sides[1].received = 0;
            connect_sides(0, 1, 1);
            assert_int_equal(send_row(0, 1, LONG, 1, 5, &error), 5);
            forget(1, 0); /* before it looked */
            settle();
            fake.now += says == 0 ? 1000000 : 0;
            settle();
            assert_int_equal(fake_rdma_posted(srq), all);
            assert_int_equal(fake.qps, 0);
            fake.now += 1000000;
            add(1, 0);
        }
        close_side(0);
        close_side(1);
    }
}

RC_TEST(shared_queues_not_on_iwarp)
{
    (void) tear_down(state);
    fake_rdma_reset();
    fake.iwarp = true;
    params.queue[1].shared = true;
    assert_int_equal(try_open(0), -EINVAL);
}

UNIT_MAIN(NULL, NULL)
