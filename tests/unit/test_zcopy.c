/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Messages that leave from their sender's memory, by host 0 to host 1. */

#include <errno.h>
#include <string.h>

#include "btl_ib_completion.h"
#include "btl_ib_state.h"
#include "btl_ib_submit.h"
#include "btl_ib_zcopy.h"
#include "hostile.h"
#include "unit.h"

enum {
    HEAD = 40,
    LONG = 39000, /* 28 chunks */
    MESSAGES = 4,
    IDLE_CALLS = 4, /* after which a process is taken for one that waits */
};

typedef struct message {
    btl_ib_msg_t msg;
    uint8_t head[HEAD];
    uint8_t bytes[LONG]; /* the sender's memory */
    uint8_t spare[LONG];
    uint32_t size;
    uint32_t sent, done; /* callbacks */
    int status;
    bool arrived;
} message_t;

static bench_t *bench;
static btl_ib_engine_t *engine; /* of host 0 */
static btl_ib_conn_t *conn;
static btl_ib_engine_ops_t ops[2];
static message_t messages[MESSAGES];

static void on_sent(void *context, btl_ib_msg_t *msg)
{
    message_t *m = BTL_IB_CONTAINER(msg, message_t, msg);

    assert_int_equal(m->sent + m->done, 0);
    m->sent++;
    memset(m->bytes, 0xee, LONG); /* its memory is for something else now */
}

static void on_done(void *context, btl_ib_msg_t *msg, int status)
{
    message_t *m = BTL_IB_CONTAINER(msg, message_t, msg);

    assert_true(m->done == 0 && (status != 0 || m->sent == 1));
    m->done++;
    m->status = status;
}

static uint8_t byte_of(uint32_t message, uint32_t at)
{
    return (uint8_t) (message * 59 + at * 7 + at / 253);
}

static void deliver(void *context, btl_ib_conn_t *from, uint8_t tag, void *data, uint32_t size)
{
    const uint8_t *bytes = data;
    message_t *m = &messages[tag - 1];

    assert_false(m->arrived);
    assert_int_equal(size, HEAD + m->size);
    for (uint32_t i = 0; i < size; i++) {
        assert_int_equal(bytes[i], byte_of(tag, i));
    }
    m->arrived = true;
}

static void begin(uint32_t inline_size)
{
    bench = new_bench();
    bench->hosts[0].attr.inline_size = inline_size;
    use_queues(bench, "P,128,256,128,16:S,1472,2048,1024,500");
    acquaint(bench);
    memset(messages, 0, sizeof(messages));
    for (uint32_t i = 0; i < 2; i++) {
        btl_ib_engine_t *one = bench->hosts[i].engine;
        ops[i] = *one->ops;
        ops[i].on_sent = on_sent;
        ops[i].on_done = on_done;
        ops[i].deliver = deliver;
        one->ops = &ops[i];
    }
    engine = bench->hosts[0].engine;
    conn = bench_conn(bench, 0, 1);
    bench_set_window(bench, 0, 1, 500);
    bench_turn(bench, 0);
}

static int set_up(void **state)
{
    begin(65536);
    return 0;
}

static int tear_down(void **state)
{
    bench_run(bench, 2 * SECOND);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const message_t *m = &messages[i];
        assert_true(m->msg.tag == 0
                    || (m->done == 1 && (m->status != 0 || (m->sent == 1 && m->arrived))));
    }
    assert_int_equal(engine->zcopy.count, 0);
    end(bench);
    return 0;
}

/* Sends message `i`, and what the window allows of it leaves. */
static void send_message(uint32_t i, uint32_t size)
{
    message_t *m = &messages[i];

    m->size = size;
    m->msg.tag = (uint8_t) (i + 1);
    m->msg.spare = m->spare;
    m->msg.want_ack_now = true;
    m->msg.iov[0] = (struct iovec){.iov_base = m->head, .iov_len = HEAD};
    m->msg.iov[1] = (struct iovec){.iov_base = m->bytes, .iov_len = size};
    for (uint32_t k = 0; k < HEAD + size; k++) {
        *(k < HEAD ? &m->head[k] : &m->bytes[k - HEAD]) = byte_of(m->msg.tag, k);
    }
    memset(m->spare, 0x55, LONG);
    assert_int_equal(btl_ib_engine_send(conn, &m->msg, bench->now), 0);
    btl_ib_flush(conn);
    assert_int_equal(m->msg.out.offset, HEAD + size);
}

/* What is acknowledged soon is never copied. */
TEST_WITH(in_place, set_up, tear_down)
{
    const uint64_t before = engine->count.copied_out;

    send_message(0, LONG - HEAD);
    assert_int_equal(engine->zcopy.count, 1);
    for (int i = 0; i < 2; i++) { /* there, and the acknowledgement back */
        while (bench->wire.first != NULL) {
            bench_deliver(bench, bench_pop(&bench->wire));
        }
        bench_turn(bench, 1 - (uint32_t) i);
    }
    assert_int_equal(messages[0].sent, 1);
    assert_int_equal(messages[0].done, 1);
    assert_int_equal(engine->count.zcopy_kept, 0);
    assert_true(engine->count.copied_out - before <= 1472); /* the head, and what is in its chunk */
    assert_int_equal(messages[0].spare[0], 0x55);
}

/* The sender of one message waits for it: its memory is free after the turn, and what the network
 * lost afterwards leaves from the copy. */
TEST_WITH(copied_for_who_waits, set_up, tear_down)
{
    send_message(0, LONG - HEAD);
    assert_int_equal(btl_ib_zcopy_due(engine), engine->clock.now);
    bench_clear(&bench->wire);
    bench_turn(bench, 0);
    assert_int_equal(messages[0].sent, 1);
    assert_int_equal(messages[0].done, 0);
    assert_int_equal(engine->count.zcopy_kept, 1);
    assert_int_equal(btl_ib_zcopy_due(engine), UINT64_MAX);
}

/* Also of segments that are lost or deferred, and only of this message. */
TEST_WITH(copied_wherever_they_are, set_up, tear_down)
{
    send_message(0, LONG - HEAD);
    send_message(1, LONG - HEAD);
    bench_clear(&bench->wire);
    btl_ib_list_t *bulk = &conn->sentmap.sent[BTL_IB_SENT_BULK];
    for (int i = 0; i < 30; i++) { /* all of the first message */
        btl_ib_segment_t *segment = BTL_IB_LIST_FIRST(btl_ib_segment_t, bulk, link);
        if (i % 2 == 0) {
            btl_ib_sentmap_to_lost(conn, segment);
        } else {
            assert_true(btl_ib_sentmap_defer(conn, segment, 99));
        }
    }
    engine->turn.idle_calls = IDLE_CALLS;
    const btl_ib_msg_t *first = btl_ib_zcopy_release(engine);
    assert_ptr_equal(first, &messages[0].msg);
    assert_int_equal(messages[1].spare[LONG / 2], 0x55);
    btl_ib_completion_sent(&messages[0].msg.out);
    const btl_ib_msg_t *second = btl_ib_zcopy_release(engine);
    assert_ptr_equal(second, &messages[1].msg);
    btl_ib_completion_sent(&messages[1].msg.out);
    assert_null(btl_ib_zcopy_release(engine));
    for (uint32_t i = 0; i < 2; i++) { /* the copies are whole, but for the head */
        for (uint32_t k = 0; k < LONG - HEAD; k++) {
            assert_int_equal(messages[i].spare[k], byte_of(i + 1, HEAD + k));
        }
    }
}

/* Of several a sender may have other work: it is seen to wait after four calls that received
 * nothing... */
TEST_WITH(one_of_several, set_up, tear_down)
{
    send_message(0, LONG - HEAD);
    send_message(1, 10000);
    bench_clear(&bench->wire);
    for (uint32_t idle = 0; idle < IDLE_CALLS; idle++) {
        engine->turn.idle_calls = idle;
        assert_int_equal(btl_ib_zcopy_due(engine), engine->clock.now);
        assert_null(btl_ib_zcopy_release(engine));
    }
    const uint64_t now = engine->clock.now;
    engine->turn.idle_calls = 0;
    engine->clock.now = messages[0].msg.zcopy.until - 1;
    assert_null(btl_ib_zcopy_release(engine));
    engine->clock.now = now;
    for (uint32_t i = 0; i <= IDLE_CALLS; i++) {
        bench_turn(bench, 0);
    }
    assert_int_equal(messages[0].sent + messages[1].sent, 2);
}

/* ...or after a timeout, where so much is in flight that the peer acknowledges soon. */
TEST_WITH(of_many_after_a_timeout, set_up, tear_down)
{
    for (uint32_t i = 0; i < 3; i++) {
        send_message(i, LONG - HEAD);
    }
    assert_true(conn->sentmap.in_flight >= 64);
    bench_clear(&bench->wire);
    const uint64_t until = messages[0].msg.zcopy.until;
    assert_true(until > engine->clock.now + conn->identity.peer_ack_delay);
    engine->turn.idle_calls = 99;
    const uint32_t in_flight = conn->sentmap.in_flight;
    conn->sentmap.in_flight = 63; /* so little that the peer may wait */
    assert_int_equal(btl_ib_zcopy_due(engine), engine->clock.now);
    conn->sentmap.in_flight = 64;
    assert_int_equal(btl_ib_zcopy_due(engine), until);
    conn->sentmap.in_flight = in_flight;
    assert_int_equal(btl_ib_zcopy_due(engine), until);
    assert_null(btl_ib_zcopy_release(engine));
    engine->turn.idle_calls = 0;
    engine->clock.now = until;
    assert_ptr_equal(btl_ib_zcopy_release(engine), &messages[0].msg);
    btl_ib_completion_sent(&messages[0].msg.out);
    assert_int_equal(engine->zcopy.count, 2);
}

/* Where the device would read the sender's memory later it is copied at once, and nothing waits. */
TEST(copied_at_once)
{
    begin(0);
    messages[0].msg.refers = true; /* as it was used before */
    send_message(0, LONG - HEAD);
    assert_int_equal(engine->zcopy.count, 0);
    bench_turn(bench, 0);
    assert_int_equal(messages[0].sent, 1);
    assert_int_equal(engine->count.zcopy_kept, 0);
    tear_down(NULL);
}

/* A message that fails is done, and was not sent; one that left may count as sent. */
TEST(failed)
{
    static const int left[] = {-EPIPE, 0};

    for (int way = 0; way < 2; way++) {
        begin(65536);
        send_message(0, LONG - HEAD);
        send_message(1, LONG - HEAD);
        bench_clear(&bench->wire);
        btl_ib_send_give_back(conn, left[way], -EPIPE);
        assert_int_equal(engine->zcopy.count, 0);
        assert_int_equal(btl_ib_zcopy_due(engine), UINT64_MAX);
        btl_ib_completion_callbacks(engine);
        btl_ib_conn_destroy(conn, bench->now);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(messages[i].done, 1);
            assert_int_equal(messages[i].status, left[way]);
            assert_int_equal(messages[i].sent, way);
            messages[i].arrived = true; /* nobody will know */
        }
        tear_down(NULL);
    }
}

UNIT_MAIN(NULL, NULL)
