/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport verbs over UD: datagrams, both ways. */

#include <errno.h>
#include <string.h>

#include "said.h"
#include "ud_pair.h"
#include "unit.h"

/* Contexts come back once each, in order, as many as there is room for. */
UD_TEST(test_sent_accounting)
{
    btl_ib_event_t events[8];
    uint32_t next = 0;
    int n;

    pair_t pair = open_pair(usual);
    fake.hold = true;
    send_all(&pair, 0, 60, SIZE, LARGE);
    assert_int_equal(poll_all(pair.a, BTL_IB_EVENT_SENT), 0);
    fake_release();
    while ((n = poll_for(pair.a, BTL_IB_EVENT_SENT, events, 7)) > 0) {
        for (int i = 0; i < n; i++) {
            assert_ptr_equal(events[i].context, memory[next++]);
        }
    }
    assert_int_equal(next, 60);
    close_pair(&pair);
}

/* The queue is full: the rest is for later. */
UD_TEST(test_full)
{
    int error;
    int sent = 0;

    pair_t pair = open_pair(usual);
    fake.hold = true;
    fake.lose = true;
    for (int n = 1; n > 0;) {
        n = send_some(&pair, (uint32_t) sent, 50, SIZE, LARGE, &error);
        sent += n;
    }
    assert_int_equal(error, EAGAIN);
    assert_int_equal(sent, 256);
    fake.lose = false;
    send_all(&pair, 0, 5, 100, SMALL); /* each channel has a send queue of its own */
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 5);
    fake.lose = true;
    fake_release();
    assert_int_equal(poll_all(pair.a, BTL_IB_EVENT_SENT), 250); /* the last row asked for nothing */
    fake.hold = false;
    send_all(&pair, 0, 50, SIZE, LARGE);
    close_pair(&pair);
}

/* Places are free again when their datagrams were reported, not before. */
UD_TEST(test_full_of_news)
{
    btl_ib_event_t event;
    int error;

    pair_t pair = open_pair(usual);
    fake.hold = true;
    fake.lose = true;
    for (uint32_t i = 0; i < 256; i += 64) { /* the last of each row asks for a completion */
        send_all(&pair, i, 64, SIZE, LARGE);
    }
    fake_release();
    fake.hold = false;
    for (uint32_t i = 0; i < 256; i++) {
        assert_int_equal(poll_for(pair.a, BTL_IB_EVENT_SENT, &event, 1), 1);
        assert_ptr_equal(event.context, memory[i]);
        assert_int_equal(send_some(&pair, 256 + i, 50, SIZE, LARGE, &error), 1);
        assert_int_equal(error, EAGAIN);
    }
    close_pair(&pair);
}

/* The device takes a part: that has gone, once, and later completions count right. */
UD_TEST(test_partial_post)
{
    int error;
    int sent = 0;
    int back = 0;

    pair_t pair = open_pair(usual);
    for (int take = 0; take < 40; take++) {
        fake.take = take;
        const int n = send_some(&pair, (uint32_t) sent, 40, SIZE, LARGE, &error);
        assert_int_equal(n, take);
        assert_int_equal(error, ENOBUFS); /* its queue has room */
        sent += n;
        back += poll_all(pair.a, BTL_IB_EVENT_SENT);
        assert_in_range(sent - back, 0, 31);
        assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), n);
    }
    fake.take = 3;
    fake.post_error = EINVAL;
    assert_int_equal(send_some(&pair, 0, 40, SIZE, LARGE, &error), 3);
    assert_int_equal(error, EINVAL);
    assert_non_null(strstr(said, "a send failed"));
    close_pair(&pair);
}

UD_TEST(test_too_long)
{
    btl_ib_tx_t tx[2] = {{.niov = 1, .size = SIZE}, {.niov = 1, .size = 1025}};
    int error;

    pair_t pair = open_pair(usual);
    for (int i = 0; i < 2; i++) {
        tx[i].to = pair.to_b;
        tx[i].iov[0].iov_base = memory;
        tx[i].mem = pair.mem;
        tx[i].channel = 7; /* more than either has: the last */
    }
    assert_int_equal(pair.a->ops->send(pair.a, tx, 2, &error), 1);
    assert_int_equal(error, EMSGSIZE);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 1);
    close_pair(&pair);
}

/* A send fails: all of them come back, and the queue pair sends again. */
UD_TEST(test_failed_send)
{
    int error;

    pair_t pair = open_pair(usual);
    fake.hold = true;
    fake.fail_at = 3;
    send_all(&pair, 0, 10, SIZE, LARGE);
    assert_int_equal(poll_all(pair.a, BTL_IB_EVENT_SENT), 0);
    fake.hold = false;
    fake_release();
    assert_int_equal(poll_all(pair.a, BTL_IB_EVENT_SENT), 10);
    assert_non_null(strstr(said, "local protection error"));
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 2);
    send_all(&pair, 10, 32, SIZE, LARGE);
    assert_int_equal(poll_all(pair.a, BTL_IB_EVENT_SENT), 32);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 32);

    /* While some of them are still there it takes no others. */
    fake.fail_at = 1;
    send_all(&pair, 0, 1, SIZE, LARGE);
    fake.hold = true;
    send_all(&pair, 1, 1, SIZE, LARGE);
    assert_int_equal(poll_all(pair.a, BTL_IB_EVENT_SENT), 1);
    assert_int_equal(send_some(&pair, 2, 1, SIZE, LARGE, &error), 0);
    assert_int_equal(error, EAGAIN);
    send_all(&pair, 2, 1, 64, SMALL); /* the other one is well */
    fake_release();
    assert_int_equal(poll_all(pair.a, BTL_IB_EVENT_SENT), 1);
    send_all(&pair, 2, 1, SIZE, LARGE);
    close_pair(&pair);
}

/* A device that failed says so sooner than it would be asked. */
UD_TEST(test_failed_device)
{
    btl_ib_event_t events[4];

    pair_t pair = open_pair(usual);
    fake.fail_at = 1;
    send_all(&pair, 0, 1, SIZE, LARGE);
    assert_int_equal(poll_for(pair.a, BTL_IB_EVENT_SENT, events, 4), 1);
    fake_event(IBV_EVENT_DEVICE_FATAL, 0);
    assert_failed(pair.a, ENODEV);
    close_pair(&pair);
}

UD_TEST(test_cannot_be_mended)
{
    btl_ib_event_t events[4];
    int error;

    pair_t pair = open_pair(usual);
    fake.mend_error = EINVAL;
    fake.fail_at = 1;
    send_all(&pair, 0, 1, SIZE, LARGE);
    assert_int_equal(pair.a->ops->poll(pair.a, 0, events, 4), 2);
    assert_int_equal(events[0].type, BTL_IB_EVENT_SENT);
    assert_int_equal(events[1].type, BTL_IB_EVENT_FAILED);
    assert_int_equal(send_some(&pair, 0, 1, SIZE, LARGE, &error), 0);
    assert_int_equal(error, ENETDOWN);
    close_pair(&pair);
}

/* One of `side` fails; its buffers come back, not all at once. Returns how many events of that type
 * there were. */
static int break_one(btl_ib_transport_t *side, btl_ib_event_type_t expected)
{
    int n = 0;

    fake_break(qpn_of(side, LARGE));
    for (int i = 0; i < 8; i++) {
        n += poll_all(side, expected);
    }
    return n;
}

/* A queue pair fails as a whole: it is made as new, with its buffers, but not for ever. */
UD_TEST(test_revived)
{
    btl_ib_event_t events[8];
    void *held;

    pair_t pair = open_pair(usual);
    const uint32_t qpn = qpn_of(pair.b, LARGE);
    const uint32_t posted = fake_posted(qpn);
    send_all(&pair, 0, 1, SIZE, LARGE);
    assert_int_equal(poll_for(pair.b, BTL_IB_EVENT_RECV, events, 8), 1);
    held = events[0].buffer; /* it comes back later */
    assert_int_equal(break_one(pair.b, BTL_IB_EVENT_RECV), 0);
    assert_non_null(strstr(said, "was made as new (1 of"));
    assert_int_equal(fake_posted(qpn), posted - 1);
    pair.b->ops->repost(pair.b, &held, 1);
    send_all(&pair, 0, 32, SIZE, LARGE);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 32);

    /* That of a sender: what was on its way is lost, and its memory free. */
    (void) poll_all(pair.a, BTL_IB_EVENT_SENT);
    send_all(&pair, 0, 3, SIZE, LARGE);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 3);
    fake_break(qpn_of(pair.a, LARGE));
    send_all(&pair, 3, 3, SIZE, LARGE);
    int sent = 0;
    for (int i = 0; i < 8; i++) {
        sent += poll_all(pair.a, BTL_IB_EVENT_SENT);
    }
    assert_in_range(sent, 6, 39); /* and those of before that nobody had been told of */
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 0);
    send_all(&pair, 6, 3, SIZE, LARGE);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 3);
    for (int i = 2; i <= 64; i++) {
        assert_int_equal(break_one(pair.b, BTL_IB_EVENT_RECV), 0);
    }
    assert_int_equal(break_one(pair.b, BTL_IB_EVENT_FAILED), 1);
    close_pair(&pair);
}

/* What is not to be handed up: its buffer is used again. */
UD_TEST(test_dropped)
{
    static const uint8_t data[1024];
    btl_ib_event_t event;

    pair_t pair = open_pair(usual);
    add(pair.b, pair.a);
    const uint32_t qpn = qpn_of(pair.b, LARGE);
    const uint32_t from = qpn_of(pair.a, LARGE);
    for (int i = 0; i < 3 * NUM_LARGE; i++) {
        fake_arrive(qpn, from, "10.0.0.1", data, 0, 40, IBV_WC_SUCCESS);
        fake_arrive(qpn, from, "10.0.0.1", data, 0, 39, IBV_WC_SUCCESS);
        fake_arrive(qpn, from, "10.0.0.1", data, 100, 140, IBV_WC_LOC_LEN_ERR);
        assert_int_equal(pair.b->ops->poll(pair.b, 0, &event, 1), 0);
    }
    assert_int_equal(fake.dropped, 0);
    /* Known only by all of its address. */
    fake_arrive(qpn, from, "10.0.0.2", data, 100, 140, IBV_WC_SUCCESS);
    assert_int_equal(poll_for(pair.b, BTL_IB_EVENT_RECV, &event, 1), 1);
    assert_int_equal(event.from, BTL_IB_ADDR_UNKNOWN);
    fake_arrive(qpn, from + 40, "10.0.0.1", data, 100, 140, IBV_WC_SUCCESS);
    assert_int_equal(poll_for(pair.b, BTL_IB_EVENT_RECV, &event, 1), 1);
    assert_int_equal(event.from, BTL_IB_ADDR_UNKNOWN);
    fake_arrive(qpn, from, "10.0.0.1", data, 100, 140, IBV_WC_SUCCESS);
    assert_int_equal(poll_for(pair.b, BTL_IB_EVENT_RECV, &event, 1), 1);
    assert_int_equal(event.from, 0);
    close_pair(&pair);
}

/* Buffers are posted again by one call when so many are left as `low` says: of P beside those that
 * credits promise, of S of its num. A device with few buffers takes each at once. */
UD_TEST(test_low_watermark)
{
    static const struct {
        uint32_t num, low;
        bool shared;
        uint32_t most;  /* buffers that the device takes */
        uint32_t batch; /* posted by each call */
        uint32_t left;  /* posted at least: 9 of them, as handlers may have as many */
    } cases[] = {
        {64, 55, false, 1024, 9, 73}, {64, 16, false, 1024, 48, 73}, {64, 63, false, 1024, 1, 73},
        {64, 0, false, 1024, 32, 73}, {64, 55, true, 1024, 9, 64},   {64, 16, true, 1024, 48, 25},
        {64, 0, true, 1024, 32, 41},  {64, 16, false, 70, 1, 64},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        btl_ib_open_params_t params = usual;
        params.queue[LARGE].num = params.queue[LARGE].init = cases[i].num;
        params.queue[LARGE].low = cases[i].low;
        params.queue[LARGE].shared = cases[i].shared;
        fake.max_qp_wr = (int) cases[i].most;
        pair_t pair = open_pair(params);
        const uint32_t qpn = qpn_of(pair.b, LARGE);
        const int posts = fake.recv_posts, requests = fake.recv_requests;
        uint32_t least = fake_posted(qpn);
        for (uint32_t n = 0; n < 500; n++) {
            send_all(&pair, n % SLOTS, 1, SIZE, LARGE);
            least = fake_posted(qpn) < least ? fake_posted(qpn) : least;
            assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 1);
            (void) poll_all(pair.a, BTL_IB_EVENT_SENT);
        }
        const uint32_t calls = (uint32_t) (fake.recv_posts - posts);
        assert_in_range(fake.recv_requests - requests, 500 - 64 - 9, 500);
        assert_in_range(calls, 500 / cases[i].batch - 2, 500 / cases[i].batch + 1);
        assert_in_range(least, cases[i].left, cases[i].left + 1);
        assert_int_equal(fake.dropped, 0);
        close_pair(&pair);
    }
}

/* However long handlers take: what they have, and what waits to be posted again, is spare, and what
 * is more than that is replaced before they run. */
UD_TEST(test_replaced_before_the_handler)
{
    btl_ib_event_t events[16];

    pair_t pair = open_pair(usual);
    const uint32_t qpn = qpn_of(pair.b, LARGE);
    assert_int_equal(fake_posted(qpn), NUM_LARGE + 9 + 9);
    for (uint32_t i = 0; i < 8; i++) {
        send_all(&pair, i, 1, SIZE, LARGE);
        assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 1);
    }
    assert_int_equal(fake_posted(qpn), NUM_LARGE + 10);
    send_all(&pair, 0, 16, SIZE, LARGE);
    assert_int_equal(poll_for(pair.b, BTL_IB_EVENT_RECV, events, 16), 16);
    assert_int_equal(fake_posted(qpn), NUM_LARGE + 2); /* not 6 too few */
    for (int i = 0; i < 16; i++) {
        pair.b->ops->repost(pair.b, &events[i].buffer, 1);
    }
    assert_int_equal(fake_posted(qpn), NUM_LARGE + 9 + 1);
    close_pair(&pair);
}

/* Buffers that cannot be posted now are posted later, each once. */
UD_TEST(test_partial_repost)
{
    btl_ib_event_t events[64];
    void *seen[64];

    pair_t pair = open_pair(usual);
    const uint32_t qpn = qpn_of(pair.b, LARGE);
    const uint32_t made = fake_posted(qpn);
    for (int take = 0; take < 5; take++) {
        const uint32_t before = fake_posted(qpn);
        fake.recv_take = take;
        send_all(&pair, 0, 20, SIZE, LARGE);
        assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 20);
        assert_int_equal(fake_posted(qpn), before - 20 + (uint32_t) take);
        fake.recv_take = -1;
        send_all(&pair, 0, 1, SIZE, LARGE);
        assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 1);
        assert_int_equal(fake_posted(qpn), made - 1); /* the last waits for others */
    }
    send_all(&pair, 0, 64, SIZE, LARGE);
    int n = 0;
    for (int got = 1; got > 0; n += got) {
        got = poll_for(pair.b, BTL_IB_EVENT_RECV, events, 16);
        for (int i = 0; i < got; i++) {
            seen[n + i] = events[i].buffer;
            for (int k = 0; k < n + i; k++) {
                assert_ptr_not_equal(seen[k], seen[n + i]);
            }
        }
    }
    assert_int_equal(n, 64);
    close_pair(&pair);
}

/* Where the device took none of the buffers for long, and all that were posted were used, no
 * completion comes that would have others posted: a poll that finds nothing tries again. */
UD_TEST(test_repost_without_traffic)
{
    pair_t pair = open_pair(usual);
    const uint32_t qpn = qpn_of(pair.b, LARGE);
    const uint32_t made = fake_posted(qpn);

    fake.recv_take = 0;
    send_all(&pair, 0, (int) made, SIZE, LARGE);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), made);
    assert_int_equal(fake_posted(qpn), 0);
    const uint64_t overflows = pair.b->overflows;
    assert_true(overflows > 0);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 0);
    assert_int_equal(pair.b->overflows, overflows);
    assert_int_equal(pair.b->ops->wait_fd(pair.b), -1);
    fake.recv_take = -1;
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 0);
    assert_int_equal(fake_posted(qpn), made);
    const int posts = fake.recv_posts; /* once */
    assert_int_not_equal(pair.b->ops->wait_fd(pair.b), -1);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 0);
    assert_int_equal(fake.recv_posts, posts);
    send_all(&pair, 0, 1, SIZE, LARGE);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 1);
    close_pair(&pair);
}

/* What ends a receiving queue. A failure is told once, and only where there is room for it. */
UD_TEST(test_receiving_ends)
{
    static const uint8_t data[100];
    btl_ib_event_t events[8];

    pair_t pair = open_pair(usual);
    fake.recv_take = 0;
    fake.recv_error = EINVAL;
    send_all(&pair, 0, 20, SIZE, LARGE);
    int n = 0;
    while (n == 0 || events[0].type == BTL_IB_EVENT_RECV) {
        n = pair.b->ops->poll(pair.b, 0, events, 1);
        assert_int_equal(n, 1);
        if (events[0].type == BTL_IB_EVENT_RECV) {
            pair.b->ops->repost(pair.b, &events[0].buffer, 1);
        }
    }
    assert_int_equal(events[0].type, BTL_IB_EVENT_FAILED);
    assert_int_equal(events[0].error, EINVAL);
    close_pair(&pair);
    fake.recv_take = -1;

    pair = open_pair(usual);
    fake_arrive(qpn_of(pair.b, SMALL), 17, "10.0.0.1", data, 100, 140, IBV_WC_SUCCESS);
    fake_event(IBV_EVENT_DEVICE_FATAL, 0);
    (void) pair.b->ops->wait_fd(pair.b);
    events[1].type = BTL_IB_EVENT_SENT;
    assert_int_equal(pair.b->ops->poll(pair.b, 0, events, 1), 1);
    assert_int_equal(events[0].type, BTL_IB_EVENT_RECV);
    assert_int_equal(events[1].type, BTL_IB_EVENT_SENT); /* not touched */
    assert_failed(pair.b, ENODEV);
    close_pair(&pair);

    pair = open_pair(usual);
    fake_poll_fails = true;
    assert_failed(pair.b, EIO);
    fake_poll_fails = false;
    close_pair(&pair);
}

/* A shared queue begins with a part of its buffers, and gets the others when it runs low. */
UD_TEST(test_grows_when_low)
{
    btl_ib_open_params_t params = usual;
    btl_ib_event_t events[64];
    int taken = 0;

    params.queue[LARGE].init = 16;
    params.queue[LARGE].limit = 12;
    pair_t pair = open_pair(params);
    const uint32_t qpn = qpn_of(pair.b, LARGE);
    const uint32_t first = fake_posted(qpn);
    assert_in_range(first, 16, 34);
    /* 10 by 10, none given back: it doubles until all are there. */
    for (int i = 0; i < 6; i++) {
        send_all(&pair, 0, 10, SIZE, LARGE);
        taken += poll_for(pair.b, BTL_IB_EVENT_RECV, events, 64);
        assert_true(fake_posted(qpn) >= 10);
    }
    assert_int_equal(taken, 60);
    assert_int_equal(fake.dropped, 0);
    assert_in_range(taken + (int) fake_posted(qpn), NUM_LARGE, NUM_LARGE + 32);
    close_pair(&pair);
}

/* How often no buffer was left is counted, and told once: what came meanwhile was dropped. */
UD_TEST(test_none_left)
{
    btl_ib_open_params_t params = usual;
    btl_ib_event_t events[64];
    void *buffers[64];

    params.queue[LARGE].num = params.queue[LARGE].init = 8;
    params.queue[LARGE].per_peer = 0;
    params.log = log_all;
    pair_t pair = open_pair(params);
    const int all = (int) fake_posted(qpn_of(pair.b, LARGE));
    assert_in_range(all, 9, 20);
    forget_said();
    for (int round = 0; round < 6; round++) {
        const int count = round % 2 == 0 ? all - 1 : all; /* one left, none left */
        send_all(&pair, 0, count, SIZE, LARGE);
        assert_int_equal(poll_for(pair.b, BTL_IB_EVENT_RECV, events, 64), count);
        for (int i = 0; i < count; i++) {
            buffers[i] = events[i].buffer;
        }
        pair.b->ops->repost(pair.b, buffers, count);
        (void) poll_all(pair.a, BTL_IB_EVENT_SENT);
        assert_int_equal(pair.b->overflows, (round + 1) / 2);
    }
    assert_int_equal(fake.dropped, 0);
    assert_non_null(strstr(said, "queue 2 had none of its"));
    assert_null(strstr(strstr(said, "had none of its") + 1, "had none of its"));
    assert_int_equal(pair.a->overflows, 0);
    close_pair(&pair);
}

UNIT_MAIN(NULL, NULL)
