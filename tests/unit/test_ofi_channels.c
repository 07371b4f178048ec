/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Channels of the transport `ofi` with endpoints of their own, over a provider that nobody has
 * (fake_provider.h): by which endpoint a datagram leaves and arrives, with old peers as well, how
 * many of each channel are under way, and in which order completion queues are read.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#undef stop /* cmocka 2.0 has a macro of that name */

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "fake_provider.h"
#include "transport.h"
#include "unit.h"

enum {
    COMMANDS = 0,
    DATA = 1,
    SHORT = 80,      /* bytes that a buffer of the command channel holds */
    COMMAND_NUM = 8, /* its buffers */
    DATA_NUM = 4,    /* those of data */
    COMMAND_SENDS = 6,
    DATA_SENDS = 3,
    LONG = INJECT + 1, /* more than goes inline */
};

static const offer_t only_fake[] = {{"verbs", "fake0-dgram", "fake0", NULL}};

/* Two queues, with so many sends. */
static const btl_ib_open_params_t two_channels = {
    .queue_count = 2,
    .queue = {{.size = SHORT, .num = COMMAND_NUM, .tx_depth = COMMAND_SENDS},
              {.size = LARGEST, .num = DATA_NUM, .tx_depth = DATA_SENDS}},
    .rx_depth = COMMAND_NUM + DATA_NUM,
    .rx_size = LARGEST,
    .channels = BTL_IB_CHANNELS_OWN,
};

static char said[256]; /* the last line of the log */

static void note_line(void *context, int level, const char *format, ...)
{
    va_list args;

    (void) context, (void) level;
    va_start(args, format);
    vsnprintf(said, sizeof(said), format, args);
    va_end(args);
}

static btl_ib_transport_t *open_with(btl_ib_open_params_t params)
{
    const btl_ib_log_t log = {.print = note_line};
    btl_ib_device_t *list = NULL;
    btl_ib_transport_t *t = NULL;

    offers = only_fake;
    offer_count = COUNT(only_fake);
    params.log = log;
    assert_int_equal(btl_ib_ofi_type.devices(&(btl_ib_search_t){.provider = "", .log = log}, &list),
                     1);
    assert_int_equal(btl_ib_ofi_type.open(&list[0], &params, &t), 0);
    btl_ib_ofi_type.devices_free(list, 1);
    return t;
}

static void close_one(btl_ib_transport_t *t)
{
    t->ops->stop(t);
    t->ops->close(t);
}

static btl_ib_addr_t add(btl_ib_transport_t *t, const btl_ib_transport_t *peer, uint32_t len)
{
    btl_ib_addr_t addr = BTL_IB_ADDR_UNKNOWN;

    assert_int_equal(t->ops->addr_add(t, peer->address, len, &addr), 0);
    return addr;
}

static int send_one(btl_ib_transport_t *t, btl_ib_addr_t to, uint8_t channel, uint32_t size,
                    int *error)
{
    static uint8_t data[LARGEST];
    const btl_ib_tx_t tx = {
        .to = to,
        .niov = 1,
        .size = size,
        .iov = {{.iov_base = data, .iov_len = size}},
        .context = data,
        .channel = channel,
    };

    return t->ops->send(t, &tx, 1, error);
}

static void must_send(btl_ib_transport_t *t, btl_ib_addr_t to, uint8_t channel, uint32_t size)
{
    int error = 0;

    assert_int_equal(send_one(t, to, channel, size, &error), 1);
}

/* The next datagram arrives, from there, and of this size. What was sent or dropped takes a poll. */
static void must_receive(btl_ib_transport_t *t, btl_ib_addr_t from, uint32_t size)
{
    btl_ib_event_t event = {.type = BTL_IB_EVENT_SENT};

    for (int polls = 0; polls < 2 * QUEUE && event.type == BTL_IB_EVENT_SENT; polls++) {
        (void) t->ops->poll(t, 0, &event, 1);
    }
    assert_int_equal(event.type, BTL_IB_EVENT_RECV);
    assert_int_equal(event.size, size);
    assert_int_equal(event.from, from);
    t->ops->repost(t, &event.buffer, 1);
}

static unsigned waiting(const queue_t *queue)
{
    return queue->tail - queue->head;
}

static int forget(void **state)
{
    memset(&fake, 0, sizeof(fake));
    fake.source = true;
    said[0] = '\0';
    return 0;
}

/* ---- tests ---- */

/* Each channel has its endpoint, with its buffers, and both are known as one peer's. */
TEST_WITH(test_own_endpoints, forget, NULL)
{
    btl_ib_transport_t *a = open_with(two_channels); /* endpoints 0 and 1 */
    btl_ib_transport_t *b = open_with(two_channels); /* 2 and 3 */
    const btl_ib_addr_t b_at_a = add(a, b, b->address_len);
    const btl_ib_addr_t a_at_b = add(b, a, a->address_len);

    assert_true(a->attr.queue_buffers);
    assert_true(a->attr.send_queues);
    assert_int_equal(a->attr.rx_depth, COMMAND_NUM + DATA_NUM);
    assert_int_equal(a->attr.tx_depth, COMMAND_SENDS + DATA_SENDS);
    assert_int_equal(a->ops->rx_depth(a, SHORT), COMMAND_NUM);
    assert_int_equal(a->ops->rx_depth(a, SHORT + 1), DATA_NUM);
    assert_int_equal(waiting(&endpoints[2].posted), COMMAND_NUM);
    assert_int_equal(waiting(&endpoints[3].posted), DATA_NUM);
    assert_int_equal(endpoints[2].posted.item[0].size, SHORT + 1);
    assert_int_equal(endpoints[3].posted.item[0].size, LARGEST + 1);
    must_send(a, b_at_a, COMMANDS, 20);
    must_send(a, b_at_a, DATA, LARGEST);
    must_send(a, b_at_a, 5, 30); /* channels beyond the last share it */
    assert_int_equal(waiting(&endpoints[2].wire), 1);
    assert_int_equal(waiting(&endpoints[3].wire), 2);
    assert_int_equal(endpoints[2].wire.item[0].from, 0);
    assert_int_equal(endpoints[3].wire.item[0].from, 1);
    must_receive(b, a_at_b, LARGEST);
    must_receive(b, a_at_b, 30);
    must_receive(b, a_at_b, 20);
    /* What does not fit the channel that it names is dropped, and costs no buffer. */
    must_send(a, b_at_a, COMMANDS, SHORT + 1);
    must_send(a, b_at_a, COMMANDS, SHORT);
    must_receive(b, a_at_b, SHORT);
    assert_int_equal(waiting(&endpoints[2].posted), COMMAND_NUM);
    close_one(a);
    close_one(b);
    assert_int_equal(live, 0);
}

/* What the first queue keeps for what needs no credit is posted beside its num, and no credit
 * promises it: where the queue has its endpoint the transport leaves it out, where queues share one
 * the engine does (test_reserve of test_credit). */
TEST_WITH(test_reserve, forget, NULL)
{
    enum { RESERVE = 2, QUEUES = 5 };
    btl_ib_open_params_t params = two_channels;

    params.queue[COMMANDS].reserve = RESERVE;
    btl_ib_transport_t *t = open_with(params);
    assert_true(t->attr.queue_buffers);
    assert_int_equal(waiting(&endpoints[0].posted), COMMAND_NUM + RESERVE);
    assert_int_equal(waiting(&endpoints[1].posted), DATA_NUM);
    assert_int_equal(t->ops->rx_depth(t, SHORT), COMMAND_NUM);
    assert_int_equal(t->ops->rx_depth(t, LARGEST), DATA_NUM);
    assert_int_equal(t->attr.rx_depth, COMMAND_NUM + DATA_NUM);
    close_one(t);
    /* It is a quarter at most of what a small completion queue leaves. */
    params.queue[COMMANDS].reserve = 3 * COMMAND_NUM;
    params.cq_own = true;
    params.cq_num = 2 * COMMAND_NUM;
    t = open_with(params);
    const uint32_t posted = waiting(&endpoints[0].posted);
    assert_in_range(posted, COMMAND_NUM, 2 * COMMAND_NUM);
    assert_int_equal(t->ops->rx_depth(t, SHORT), posted - posted / 4);
    close_one(t);
    params = two_channels;
    params.queue_count = QUEUES;
    for (uint32_t i = 0; i < QUEUES; i++) {
        params.queue[i] = (btl_ib_open_queue_t){.size = SHORT + i, .num = COMMAND_NUM};
    }
    params.queue[COMMANDS].reserve = RESERVE;
    t = open_with(params);
    assert_false(t->attr.queue_buffers);
    assert_int_equal(waiting(&endpoints[0].posted), COMMAND_NUM + RESERVE);
    assert_int_equal(t->ops->rx_depth(t, SHORT), COMMAND_NUM + RESERVE);
    close_one(t);
    assert_int_equal(live, 0);
}

/* Buffers of a queue that all peers share are posted again in batches, when no more than its low
 * watermark are posted; what credits promise is posted at least. */
TEST_WITH(test_low_watermark, forget, NULL)
{
    enum { NUM = 12, LOW = 8, BATCH = NUM - LOW };

    for (int own = 0; own < 2; own++) {
        btl_ib_open_params_t params = two_channels;
        const uint32_t all = own ? NUM : NUM + COMMAND_NUM;

        params.channels = own ? BTL_IB_CHANNELS_OWN : BTL_IB_CHANNELS_SHARED;
        params.queue[DATA] =
            (btl_ib_open_queue_t){.size = LARGEST, .num = NUM, .low = LOW, .shared = true};
        params.rx_depth = NUM + COMMAND_NUM;
        btl_ib_transport_t *a = open_with(params);
        btl_ib_transport_t *b = open_with(params);
        const btl_ib_addr_t b_at_a = add(a, b, b->address_len);
        const btl_ib_addr_t a_at_b = add(b, a, a->address_len);
        const queue_t *posted = &endpoints[own ? 3 : 1].posted;
        assert_int_equal(b->ops->rx_depth(b, LARGEST), all - BATCH);
        assert_int_equal(b->ops->rx_depth(b, SHORT), own ? COMMAND_NUM : all - BATCH);
        for (uint32_t n = 1; n <= 5 * BATCH; n++) {
            must_send(a, b_at_a, DATA, 20);
            must_receive(b, a_at_b, 20);
            assert_int_equal(waiting(posted), all - n % BATCH);
        }
        /* Others are posted at once. */
        must_send(a, b_at_a, COMMANDS, 20);
        must_receive(b, a_at_b, 20);
        assert_int_equal(waiting(&endpoints[own ? 2 : 1].posted), own ? COMMAND_NUM : all - 1);
        close_one(a);
        close_one(b);
        assert_int_equal(live, 0);
    }
}

/* Bulk that fills the data channel's sends leaves those of the command channel alone. */
TEST_WITH(test_depth_of_channels, forget, NULL)
{
    btl_ib_transport_t *a = open_with(two_channels);
    btl_ib_transport_t *b = open_with(two_channels);
    const btl_ib_addr_t b_at_a = add(a, b, b->address_len);
    int error = 0;

    for (int i = 0; i < DATA_SENDS; i++) {
        must_send(a, b_at_a, DATA, LONG);
    }
    assert_int_equal(send_one(a, b_at_a, DATA, LONG, &error), 0);
    assert_int_equal(error, EAGAIN);
    for (int i = 0; i < COMMAND_SENDS; i++) {
        must_send(a, b_at_a, COMMANDS, LONG);
    }
    assert_int_equal(send_one(a, b_at_a, COMMANDS, LONG, &error), 0);
    assert_int_equal(error, EAGAIN);
    close_one(a);
    close_one(b);
    assert_int_equal(live, 0);
}

/* Where all channels share one endpoint bulk is in the way. */
TEST_WITH(test_shared_endpoint, forget, NULL)
{
    btl_ib_open_params_t params = two_channels;
    int error = 0;

    params.channels = BTL_IB_CHANNELS_SHARED;
    btl_ib_transport_t *a = open_with(params);
    btl_ib_transport_t *b = open_with(params);
    const btl_ib_addr_t b_at_a = add(a, b, b->address_len);
    const btl_ib_addr_t a_at_b = add(b, a, a->address_len);

    assert_int_equal(a->address_len, a->address_base);
    assert_false(a->attr.queue_buffers);
    assert_false(a->attr.send_queues);
    assert_int_equal(a->ops->rx_depth(a, SHORT), COMMAND_NUM + DATA_NUM);
    for (int i = 0; i < COMMAND_SENDS; i++) { /* the most of any channel */
        must_send(a, b_at_a, DATA, LONG);
    }
    assert_int_equal(send_one(a, b_at_a, COMMANDS, LONG, &error), 0);
    assert_int_equal(error, EAGAIN);
    assert_int_equal(waiting(&endpoints[1].wire), COMMAND_SENDS);
    must_receive(b, a_at_b, LONG);
    close_one(a);
    close_one(b);
    assert_int_equal(live, 0);
}

/* A release up to 0.3.0 reads the base of an address. It has one endpoint and knows one of ours,
 * which is all that travels between the two. */
TEST_WITH(test_old_peer, forget, NULL)
{
    btl_ib_open_params_t params = two_channels;

    btl_ib_transport_t *a = open_with(two_channels); /* endpoints 0 and 1 */
    params.channels = BTL_IB_CHANNELS_SHARED;
    btl_ib_transport_t *old = open_with(params); /* 2 */
    const btl_ib_addr_t old_at_a = add(a, old, old->address_len);
    const btl_ib_addr_t a_at_old = add(old, a, a->address_base);

    assert_true(a->address_base < a->address_len);
    assert_int_equal(a->address_base, old->address_len);
    for (uint8_t channel = COMMANDS; channel <= DATA; channel++) {
        must_send(a, old_at_a, channel, 20);
        must_receive(old, a_at_old, 20);
        must_send(old, a_at_old, channel, LARGEST); /* the largest on any channel fits */
        must_receive(a, old_at_a, LARGEST);
        assert_int_equal(waiting(&endpoints[0].wire), 0);
    }
    /* One that reads all of it sends by channel, from its one endpoint. */
    const btl_ib_addr_t a_at_new = add(old, a, a->address_len);
    must_send(old, a_at_new, COMMANDS, 20);
    assert_int_equal(waiting(&endpoints[0].wire), 1);
    must_receive(a, old_at_a, 20);
    close_one(a);
    close_one(old);
    assert_int_equal(live, 0);
}

/* No bytes but those that another transport publishes are an address. */
TEST_WITH(test_addresses, forget, NULL)
{
    btl_ib_transport_t *a = open_with(two_channels);
    btl_ib_transport_t *b = open_with(two_channels);
    uint8_t bytes[BTL_IB_ADDR_BYTES + 1];
    const uint32_t base = b->address_base;
    btl_ib_addr_t addr, first, again;

    assert_int_equal(b->address_len, base + 3 + 1); /* the two differ in one byte */
    for (uint32_t len = 0; len <= BTL_IB_ADDR_BYTES + 1; len++) {
        const bool right = len == base || len == b->address_len;

        memset(bytes, 0, sizeof(bytes));
        memcpy(bytes, b->address, b->address_len);
        assert_int_equal(a->ops->addr_add(a, bytes, len, &addr), right ? 0 : -EINVAL);
        if (right) {
            a->ops->addr_remove(a, addr);
        }
    }
    static const struct {
        uint8_t others, first, width;
    } wrong[] = {{0, 0, 1}, {2, 0, 1}, {1, 8, 1}, {1, 0, 0}, {1, 0, 2}, {255, 255, 255}};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        memcpy(bytes, b->address, b->address_len);
        bytes[base] = wrong[i].others;
        bytes[base + 1] = wrong[i].first;
        bytes[base + 2] = wrong[i].width;
        assert_int_equal(a->ops->addr_add(a, bytes, b->address_len, &addr), -EINVAL);
    }
    /* Added twice it is one peer, until it was removed twice. */
    first = add(a, b, b->address_len);
    again = add(a, b, b->address_len);
    assert_int_equal(first, again);
    a->ops->addr_remove(a, again);
    const btl_ib_addr_t a_at_b = add(b, a, a->address_len);
    must_send(b, a_at_b, COMMANDS, 20);
    must_receive(a, first, 20);
    a->ops->addr_remove(a, first);
    must_send(b, a_at_b, COMMANDS, 20);
    must_receive(a, BTL_IB_ADDR_UNKNOWN, 20);
    close_one(a);
    close_one(b);
    assert_int_equal(live, 0);
}

/* A shared completion queue costs a poll one read however many endpoints there are, and tells of
 * commands when its turn comes; queues of their own cost one each, and commands come first. */
TEST_WITH(test_completion_queues, forget, NULL)
{
    for (int own = 0; own < 2; own++) {
        btl_ib_open_params_t params = two_channels;
        btl_ib_event_t events[4];

        params.cq_own = own;
        btl_ib_transport_t *a = open_with(params);
        btl_ib_transport_t *b = open_with(params);
        const btl_ib_addr_t b_at_a = add(a, b, b->address_len);
        fake.reads = 0;
        assert_int_equal(b->ops->poll(b, 0, events, 4), 0);
        assert_int_equal(fake.reads, own ? 2 : 1);
        for (int i = 0; i < DATA_NUM; i++) {
            must_send(a, b_at_a, DATA, 20);
        }
        must_send(a, b_at_a, COMMANDS, 10);
        assert_int_equal(b->ops->poll(b, 0, events, 4), 1); /* at once after a silence */
        assert_int_equal(events[0].size, own ? 10 : 20);
        b->ops->repost(b, &events[0].buffer, 1);
        /* A batch that commands fill ends where the next one begins. */
        for (int i = 0; i < 2; i++) {
            must_send(a, b_at_a, COMMANDS, 10);
        }
        assert_int_equal(b->ops->poll(b, 0, events, 2), 2);
        assert_int_equal(events[0].size, own ? 10 : 20);
        assert_int_equal(b->ops->poll(b, 0, events + 2, 1), 1);
        assert_int_equal(events[2].size, 20);
        close_one(a);
        close_one(b);
        assert_int_equal(live, 0);
    }
}

/* cq_num is the size of each queue; what may be under way fits it. */
TEST_WITH(test_cq_num, forget, NULL)
{
    btl_ib_open_params_t params = two_channels;
    btl_ib_transport_t *t = open_with(params);
    const size_t needed = fake.cq_size;

    assert_true(needed >= COMMAND_NUM + DATA_NUM + COMMAND_SENDS + DATA_SENDS);
    close_one(t);
    params.cq_num = 1000;
    t = open_with(params);
    assert_int_equal(fake.cq_size, 1000);
    assert_int_equal(t->attr.rx_depth, COMMAND_NUM + DATA_NUM);
    close_one(t);
    params.cq_num = 10;
    t = open_with(params);
    assert_true(fake.cq_size < needed);
    assert_in_range(t->attr.rx_depth, 5, 8);
    assert_in_range(t->attr.tx_depth, 4, 6);
    close_one(t);
    params.cq_own = true;
    params.cq_num = DATA_NUM + DATA_SENDS; /* enough for data, half of what commands need */
    t = open_with(params);
    assert_int_equal(t->ops->rx_depth(t, LARGEST), DATA_NUM);
    assert_in_range(t->ops->rx_depth(t, SHORT), COMMAND_NUM / 2, COMMAND_NUM / 2 + 1);
    close_one(t);
    assert_int_equal(live, 0);
}

/* Where a provider has no second endpoint, or none whose address can be told, all share one. */
TEST_WITH(test_no_own_endpoints, forget, NULL)
{
    for (int unlike = 0; unlike < 2; unlike++) {
        fake.no_endpoint = unlike ? 0 : 2;
        fake.unlike = unlike;
        btl_ib_transport_t *t = open_with(two_channels);
        assert_non_null(strstr(said, unlike ? "all channels share one endpoint: their addresses"
                                            : "all channels share one endpoint: No space"));
        assert_int_equal(t->address_len, t->address_base);
        assert_int_equal(t->ops->rx_depth(t, SHORT), COMMAND_NUM + DATA_NUM);
        close_one(t);
        assert_int_equal(live, 0);
    }
}

UNIT_MAIN(NULL, NULL)
