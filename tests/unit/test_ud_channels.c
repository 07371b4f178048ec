/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over UD: the sends, queue pairs and completion queues of channels, on devices
 * that are not there (fake_verbs.h). */

#include <errno.h>
#include <string.h>
#undef stop /* cmocka 2.0 has a macro of that name */

#include "said.h"
#include "ud_pair.h"

/* Sends until nothing more is taken, and nothing arrives. Returns how many left. */
static int fill(const pair_t *pair, uint8_t channel)
{
    int sent = 0;
    int error;

    fake.hold = true;
    fake.lose = true;
    for (int n = 1; n > 0; sent += n) {
        n = send_some(pair, 0, 50, 100, channel, &error);
    }
    assert_int_equal(error, EAGAIN);
    fake.lose = false;
    return sent;
}

/* Each channel has as many sends as it was given, and its own. */
UD_TEST(test_depth_of_channels)
{
    btl_ib_open_params_t params = usual;

    params.queue[SMALL].tx_depth = 128;
    params.queue[LARGE].tx_depth = 600;
    pair_t pair = open_pair(params);
    assert_int_equal(pair.a->attr.tx_depth, 128 + 512);
    assert_true(pair.a->attr.send_queues);
    assert_int_equal(fill(&pair, LARGE), 512);
    assert_int_equal(fill(&pair, SMALL), 128);
    fake_release();
    fake.hold = false;
    (void) poll_all(pair.a, BTL_IB_EVENT_SENT);
    close_pair(&pair);
}

/* All channels share a queue pair, as large as the largest of them: bulk takes all of it. */
UD_TEST(test_shared_queue_pair)
{
    btl_ib_open_params_t params = usual;
    int error;

    params.channels = BTL_IB_CHANNELS_SHARED;
    params.queue[LARGE].tx_depth = 512;
    pair_t pair = open_pair(params);
    assert_int_equal(ud_address(pair.a).count, 1);
    assert_false(pair.a->attr.queue_buffers);
    assert_false(pair.a->attr.send_queues);
    assert_int_equal(pair.a->attr.rx_depth, NUM_SMALL + NUM_LARGE);
    send_all(&pair, 0, 5, SIZE, SMALL); /* any datagram fits */
    send_all(&pair, 0, 5, SIZE, LARGE);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 10);
    (void) poll_all(pair.a, BTL_IB_EVENT_SENT);
    assert_true(fill(&pair, LARGE) > 512 - 32);
    assert_int_equal(send_some(&pair, 0, 1, 100, SMALL, &error), 0);
    assert_int_equal(error, EAGAIN);
    fake_release();
    fake.hold = false;
    (void) poll_all(pair.a, BTL_IB_EVENT_SENT);
    close_pair(&pair);
    /* It talks to one that has several, as it does to a release that has no choice. */
    btl_ib_transport_t *one = open_one(params);
    pair = open_pair(usual);
    (void) add(one, pair.a);
    const btl_ib_addr_t there = add(pair.a, one);
    btl_ib_tx_t tx = {.to = there, .niov = 1, .size = 100, .mem = pair.mem};
    for (uint8_t channel = SMALL; channel <= LARGE; channel++) {
        btl_ib_event_t event;

        tx.channel = channel;
        tx.iov[0] = (struct iovec){.iov_base = memory[0], .iov_len = tx.size};
        assert_int_equal(pair.a->ops->send(pair.a, &tx, 1, &error), 1);
        assert_int_equal(poll_for(one, BTL_IB_EVENT_RECV, &event, 1), 1);
        assert_int_not_equal(event.from, BTL_IB_ADDR_UNKNOWN);
        one->ops->repost(one, &event.buffer, 1);
    }
    close_one(one);
    close_pair(&pair);
}

/* In queues of their own completions of commands are found before those of bulk that came earlier,
 * and bulk has its turn after each batch of them. */
UD_TEST(test_own_completion_queues)
{
    for (int own = 0; own < 2; own++) {
        btl_ib_open_params_t params = usual;
        btl_ib_event_t events[8];

        params.cq_own = own;
        pair_t pair = open_pair(params);
        assert_int_equal(ud_completion_queues(pair.a), own ? CHANNELS : 1);
        for (int i = 0; i < 3; i++) {
            send_all(&pair, 0, 1, SIZE, LARGE);
        }
        send_all(&pair, 0, 1, 100, SMALL);
        assert_int_equal(poll_for(pair.b, BTL_IB_EVENT_RECV, events, 1), 1);
        assert_int_equal(events[0].size, own ? 100 : SIZE);
        send_all(&pair, 0, 1, 100, SMALL);
        assert_int_equal(poll_for(pair.b, BTL_IB_EVENT_RECV, events + 1, 1), 1);
        assert_int_equal(events[1].size, SIZE);
        pair.b->ops->repost(pair.b, &events[0].buffer, 1);
        pair.b->ops->repost(pair.b, &events[1].buffer, 1);
        assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 3);
        close_pair(&pair);
    }
}

/* A completion queue has the entries asked for; what may be under way fits it. */
UD_TEST(test_cq_num)
{
    btl_ib_open_params_t params = usual;

    params.cq_num = 3000;
    btl_ib_transport_t *t = open_one(params);
    assert_int_equal(ud_completions(t), 3000);
    close_one(t);
    params.cq_num = 512;
    t = open_one(params);
    assert_int_equal(ud_completions(t), 512);
    assert_in_range(ud_work_requests(t), 2 * 128 + 2, 512);
    assert_int_equal(t->attr.tx_depth, 2 * 128);
    close_one(t);
    params.cq_own = true;
    t = open_one(params);
    assert_int_equal(ud_completions(t), 512);
    assert_int_equal(t->attr.tx_depth, 2 * 256);
    close_one(t);
    params.cq_own = false;
    params.cq_num = 1; /* what the fewest sends need, and as many buffers, comes first */
    t = open_one(params);
    assert_int_equal(t->attr.tx_depth, 2 * 128);
    assert_int_equal(t->ops->rx_depth(t, 128), NUM_SMALL);
    assert_int_equal(t->ops->rx_depth(t, SIZE), NUM_LARGE);
    assert_int_equal(ud_completions(t), ud_work_requests(t));
    close_one(t);
}

UNIT_MAIN(NULL, NULL)
