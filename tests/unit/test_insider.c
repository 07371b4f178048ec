/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What somebody with the present token can do to an engine: a peer that is broken, or
 * somebody that listens where nothing is authenticated. What cannot be is found out, dropped and
 * counted by cause; what could be costs no more than any peer may. */

#include <stdlib.h>
#include <string.h>

#include "insider.h"
#include "unit.h"

static void add_block(bench_forgery_t *forgery, uint32_t channel, uint32_t ack, uint32_t limit,
                      const uint16_t (*ranges)[2], uint32_t count)
{
    btl_ib_wire_ack_t block = {
        .channel = (uint8_t) channel,
        .ranges = (uint8_t) count,
        .ack = BTL_IB_LE32(ack),
        .limit = BTL_IB_LE32(limit),
    };

    bench_append(forgery, &block, sizeof(block));
    for (uint32_t i = 0; i < count; i++) {
        btl_ib_wire_range_t range = {.offset = BTL_IB_LE16(ranges[i][0]),
                                     .count = BTL_IB_LE16(ranges[i][1])};
        bench_append(forgery, &range, sizeof(range));
    }
}

static void ack_without_effect(bench_t *bench, uint32_t channel, uint32_t ack, uint32_t limit,
                               const uint16_t (*ranges)[2], uint32_t count, const char *cause)
{
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_ACK);

    add_block(&forgery, channel, ack, limit, ranges, count);
    without_effect(bench, &forgery, cause);
}

/* ---- acknowledgements ---- */

TEST(acks_of_what_was_never_sent)
{
    static const uint32_t ahead[] = {1, 2, 1000, 70000, 1u << 30, (1u << 31) - 1};
    bench_t *bench = job_in_flight();

    for (uint32_t channel = 0; channel < 3; channel++) {
        const bench_channel_t tx = channel_of(bench, channel);
        for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
            uint32_t ack = tx.next + ahead[i];
            ack_without_effect(bench, channel, ack, tx.limit, NULL, 0, "dropped_ack");
            bench_forgery_t forgery = data(bench, 8); /* its message is not taken either */
            forgery.header.flags = BTL_IB_FLAG_ACK;
            forgery.header.channels = (uint8_t) (channel << 4);
            forgery.header.ack = BTL_IB_LE32(ack);
            without_effect(bench, &forgery, "dropped_ack");
        }
        uint16_t one_more[1][2] = {{1, (uint16_t) (tx.next == tx.first ? 1 : tx.next - tx.first)}};
        ack_without_effect(bench, channel, tx.first, tx.limit, one_more, 1, "dropped_ack");
    }
    end_working(bench);
}

/* Far behind is no lie: an acknowledgement that was long on its way. */
TEST(acks_of_long_ago)
{
    static const uint32_t behind[] = {0, 1, 5, 70000, 1u << 30};
    bench_t *bench = job_in_flight();

    for (uint32_t channel = 0; channel < 3; channel++) {
        const bench_channel_t tx = channel_of(bench, channel);
        for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++) {
            ack_without_effect(bench, channel, tx.first - behind[i], tx.first, NULL, 0,
                               "received_acks");
        }
    }
    end_working(bench);
}

/* To refuse what was never sent, or together with credit, is impossible; what was sent may be
 * refused. */
TEST(lies_of_refusals)
{
    static const uint16_t first[1][2] = {{0, 1}}, beyond[1][2] = {{0, 100}};
    bench_t *bench = job_in_flight();
    const bench_channel_t tx = channel_of(bench, 2);

    ack_without_effect(bench, 2 | BTL_IB_CHANNEL_RNR, tx.first, 0, beyond, 1, "dropped_ack");
    ack_without_effect(bench, 2 | BTL_IB_CHANNEL_RNR, tx.first, 1, first, 1, "dropped_ack");
    ack_without_effect(bench, 2 | BTL_IB_CHANNEL_RNR, tx.first, 0, NULL, 0, "dropped_ack");
    /* Without an echo nobody knows of which copy it speaks. */
    ack_without_effect(bench, 2 | BTL_IB_CHANNEL_RNR, tx.first, 0, first, 1, "received_acks");
    end_working(bench);
}

TEST(absurd_ranges)
{
    static const uint16_t absurd[][3][2] = {
        {{0, 1}, {4, 1}, {8, 1}},         /* begins where the acknowledged ends: would be one */
        {{2, 0}, {4, 1}, {8, 1}},         /* nothing */
        {{2, 4}, {4, 1}, {8, 1}},         /* overlap */
        {{8, 1}, {4, 1}, {2, 1}},         /* descend */
        {{2, 2}, {4, 1}, {8, 1}},         /* touch: would be one */
        {{2, 1}, {4, 1}, {8, 65535}},     /* beyond all windows */
        {{2, 1}, {4, 1}, {65535, 65535}}, /* and further */
        {{2, 1}, {4, 1}, {8, 100}},       /* beyond what was sent */
        {{2, 1}, {4, 1}, {20, 1}},        /* by one */
    };
    bench_t *bench = job_in_flight();
    const bench_channel_t tx = channel_of(bench, 2);

    for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
        ack_without_effect(bench, 2, tx.first, tx.limit, absurd[i], 3, "dropped_ack");
    }
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_ACK);
    add_block(&forgery, 2, tx.first, tx.limit, absurd[4], 3);
    forgery.size -= 4; /* the last range is missing */
    forgery.header.length = BTL_IB_LE16(forgery.size - sizeof(forgery.header));
    without_effect(bench, &forgery, "dropped_ack");
    end_working(bench);
}

/* The work that one datagram can ask for is bounded by the windows: no space comes twice. */
TEST(floods_of_ranges)
{
    static const uint16_t all[1][2] = {{1, 19}};
    bench_t *bench = job_in_flight();
    const bench_channel_t tx = channel_of(bench, 2);
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_ACK);

    for (int i = 0; i < 80; i++) {
        add_block(&forgery, 2, tx.first, tx.limit, all, 1);
    }
    without_effect(bench, &forgery, "dropped_ack");
    forgery = lie(bench, BTL_IB_TYPE_ACK);
    add_block(&forgery, 2, tx.first, tx.limit, all, 1);
    add_block(&forgery, 1, channel_of(bench, 1).first, 0, NULL, 0);
    without_effect(bench, &forgery, "dropped_ack");

    /* The lawful most: what it says is believed once, and is no news after that. */
    uint16_t odd[9][2];
    for (uint16_t i = 0; i < 9; i++) {
        odd[i][0] = (uint16_t) (2 * i + 1);
        odd[i][1] = 1;
    }
    forgery = lie(bench, BTL_IB_TYPE_ACK);
    add_block(&forgery, 2, tx.first, tx.limit, odd, 9);
    bench_throw_forgery(bench, 0, 1, &forgery);
    assert_int_equal(victim(bench).unacked, 11);
    for (int i = 0; i < 1000; i++) {
        without_effect(bench, &forgery, "received_acks");
    }
    end(bench);
}

/* Each question gets one short answer: nobody is flooded through us. */
TEST(floods_of_questions)
{
    bench_t *bench = job();
    bench_host_t *host = &bench->hosts[0];
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_ACK);
    uint64_t datagrams = host->datagrams, bytes = host->bytes_sent;

    forgery.header.flags = BTL_IB_FLAG_ACK_NOW;
    for (int i = 0; i < 1000; i++) {
        bench_throw_forgery(bench, 0, 1, &forgery);
    }
    assert_true(host->datagrams - datagrams <= 1000);
    assert_true(host->bytes_sent - bytes <= 1000u * 128);
    end_working(bench);
}

/* ---- credit ---- */

/* At most all that was sent may have arrived, and the queue has `num` buffers beyond that. */
TEST(limits_beyond_the_queue)
{
    bench_t *bench = job();
    const bench_channel_t tx = channel_of(bench, 0);
    uint32_t most = tx.next + bench_info(bench, 1, 0).queues.q[0].num;
    static const uint32_t beyond[] = {1, 2, 100000, (1u << 31) - 300};

    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        ack_without_effect(bench, 0, tx.first, most + beyond[i], NULL, 0, "dropped_credit");
    }
    bench_forgery_t forgery = data(bench, 8);
    forgery.header.flags = BTL_IB_FLAG_ACK;
    forgery.header.ack = BTL_IB_LE32(tx.first);
    forgery.header.credits = BTL_IB_LE16(most + 1 - tx.first);
    without_effect(bench, &forgery, "dropped_credit");
    forgery.header.credits = UINT16_MAX;
    without_effect(bench, &forgery, "dropped_credit");
    ack_without_effect(bench, 0, tx.first, tx.limit - 1, NULL, 0, "received_acks"); /* late news */
    end_working(bench);
}

/* The most that can be believed: what is sent on that false credit is dropped, and comes again. */
TEST(credit_that_was_never_granted)
{
    bench_t *bench = job();
    const bench_channel_t tx = channel_of(bench, 0);
    uint32_t most = tx.next + bench_info(bench, 1, 0).queues.q[0].num;
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_ACK);

    add_block(&forgery, 0, tx.first, most, NULL, 0);
    bench_throw_forgery(bench, 0, 1, &forgery);
    assert_int_equal(channel_of(bench, 0).limit, most);
    for (int i = 0; i < 300; i++) {
        bench_send(bench, 0, 1, 10, 1);
        bench_turn(bench, 0); /* each in a segment of its own */
    }
    for (uint32_t n = bench->wire.count; n > 0;
         n--) { /* the last first: furthest beyond the grant */
        for (uint32_t i = 1; i < n; i++) {
            bench_push(&bench->wire, bench_pop(&bench->wire));
        }
        bench_deliver(bench, bench_pop(&bench->wire));
    }
    bench_run(bench, 100);
    assert_true(bench_counters(bench, 1)->dropped_sequence > 0);
    assert_true(bench_settle(bench, 10 * SECOND));
    end_working(bench);
}

TEST(false_returns_of_credit)
{
    bench_t *bench = job();
    const bench_channel_t rx = channel_of(bench, 0);
    uint32_t grant = rx.grant - rx.used;

    static const struct {
        uint32_t channel, count;
        int32_t seq; /* beyond the last of `count` from the next expected */
        const char *cause;
    } lies[] = {
        {0, 0, 0, "dropped_length"},             /* no sequence at all */
        {1, 1, 0, "dropped_sequence"},           /* of a queue without credits */
        {0, 1, 1, "dropped_sequence"},           /* leaves one out */
        {0, 5, -1, "dropped_sequence"},          /* begins with one that was used */
        {0, 70000, 0, "dropped_sequence"},       /* more than there are */
        {0, UINT32_MAX, 0, "dropped_duplicate"}, /* all the way around */
        {9, 1, 0, "dropped_channel"},
    };
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_SKIP);
        uint32_t count = BTL_IB_LE32(lies[i].count);
        uint32_t next = channel_of(bench, lies[i].channel % 3).expected;
        forgery.header.channels = (uint8_t) lies[i].channel;
        forgery.header.seq = BTL_IB_LE32(next + lies[i].count - 1 + (uint32_t) lies[i].seq);
        bench_append(&forgery, &count, sizeof(count));
        without_effect(bench, &forgery, lies[i].cause);
    }
    for (uint32_t count = grant; count <= grant + 1; count++) { /* all of them, and one more */
        bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_SKIP);
        uint32_t wire = BTL_IB_LE32(count);
        forgery.header.seq = BTL_IB_LE32(rx.expected + count - 1);
        bench_append(&forgery, &wire, sizeof(wire));
        if (rx.used == 0 || count > grant) {
            without_effect(bench, &forgery, "dropped_sequence");
        }
    }
    end_working(bench);
}

/* ---- sequences, channels, tags ---- */

TEST(sequences_outside_the_window)
{
    static const uint32_t begins[] = {1, UINT32_MAX - 30, UINT32_MAX, 0x7ffffff0};

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        bench_t *bench = new_bench();
        bench->first_seq = begins[i];
        for (uint32_t k = 0; k < 3; k++) {
            bench_start(bench, k);
        }
        talk(bench, 10); /* across the wrap */
        uint32_t next = channel_of(bench, 1).expected;
        const struct {
            uint32_t seq;
            const char *cause;
        } tries[] = {
            {next + BTL_IB_WINDOW_LIMIT, "dropped_sequence"},
            {next + (1u << 30), "dropped_sequence"},
            {next + (1u << 31) - 1, "dropped_sequence"},
            {next + (1u << 31), "dropped_sequence"},
            {next - BTL_IB_WINDOW_LIMIT - 1, "dropped_sequence"},
            {next - BTL_IB_WINDOW_LIMIT, "dropped_duplicate"},
            {next - 1, "dropped_duplicate"},
        };
        for (size_t k = 0; k < sizeof(tries) / sizeof(tries[0]); k++) {
            bench_forgery_t forgery = data(bench, 8);
            forgery.header.channels = 1;
            forgery.header.seq = BTL_IB_LE32(tries[k].seq);
            without_effect(bench, &forgery, tries[k].cause);
        }
        bench_forgery_t forgery = data(bench, 8);
        forgery.header.seq = BTL_IB_LE32(channel_of(bench, 0).granted);
        without_effect(bench, &forgery, "dropped_sequence"); /* the first without a credit */
        end_working(bench);
    }
}

TEST(channels_that_do_not_exist)
{
    static const uint16_t one[1][2] = {{1, 1}};
    bench_t *bench = job();

    for (uint32_t channel = 3; channel < 16; channel++) {
        bench_forgery_t forgery = data(bench, 8);
        forgery.header.channels = (uint8_t) channel;
        without_effect(bench, &forgery, "dropped_channel");
        forgery = data(bench, 8);
        forgery.header.channels = (uint8_t) (channel << 4);
        forgery.header.flags = BTL_IB_FLAG_ACK;
        without_effect(bench, &forgery, "dropped_channel");
        ack_without_effect(bench, channel, 1, 1, NULL, 0, "dropped_channel");
    }
    ack_without_effect(bench, 127, 1, 1, NULL, 0, "dropped_channel");
    ack_without_effect(bench, 255, 1, 0, one, 1, "dropped_channel");
    bench_forgery_t forgery = data(bench, 128 - (uint32_t) sizeof(btl_ib_wire_header_t) + 1);
    without_effect(bench, &forgery, "dropped_channel"); /* larger than the queue's buffers */
    end_working(bench);
}

/* Blocks are read again after they were checked; should they differ, channels that are none are
 * still none. */
TEST(unchecked_blocks)
{
    static const uint16_t one[1][2] = {{1, 1}};
    bench_t *bench = job_in_flight();
    const uint32_t first = channel_of(bench, 2).first;

    for (uint32_t channel = 3; channel < 256; channel++) {
        if ((channel & ~BTL_IB_CHANNEL_RNR) < 3) {
            continue;
        }
        bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_ACK);
        bench_watch_t watch;
        add_block(&forgery, channel, first + 5, first + 1000, one, 1);
        bench_watch(&bench->hosts[0], false, &watch);
        bench_process_ack(bench, 0, 1, &forgery);
        bench_unchanged(&watch, "received_acks", 0);
    }
    end(bench);
}

TEST(headers_that_do_not_exist)
{
    bench_t *bench = job();

    for (uint32_t version = 0; version < 16; version++) {
        bench_forgery_t forgery = data(bench, 8);
        forgery.header.version_type = (uint8_t) (version << 4 | BTL_IB_TYPE_DATA);
        if (version != BTL_IB_WIRE_VERSION) {
            without_effect(bench, &forgery, "dropped_version");
        }
    }
    for (uint32_t bit = 1; bit < 0x100; bit <<= 1) {
        bench_forgery_t forgery = data(bench, 8);
        forgery.header.flags = (uint8_t) bit;
        if ((bit & BTL_IB_FLAGS_ALL) == 0) {
            without_effect(bench, &forgery, "dropped_type");
        }
    }
    bench_forgery_t forgery = data(bench, 8);
    forgery.header.version_type = BTL_IB_WIRE_VERSION << 4; /* the only type there is none of */
    without_effect(bench, &forgery, "dropped_type");
    forgery.header.version_type = BTL_IB_WIRE_VERSION << 4 | BTL_IB_TYPE_PATH_RESPONSE;
    without_effect(bench, &forgery, "dropped_length");
    forgery = data(bench, 8);
    forgery.header.tag = BTL_IB_TAG_MAX + 1;
    without_effect(bench, &forgery, "dropped_type");
    forgery = lie(bench, BTL_IB_TYPE_CLOSE);
    bench_append(&forgery, "1234", 4);
    without_effect(bench, &forgery, "dropped_length");
    end_working(bench);
}

/* ---- fragments ---- */

static bench_forgery_t chunk(bench_t *bench, uint32_t seq, const btl_ib_wire_chunk_t *fields,
                             uint32_t size)
{
    static const uint8_t zeros[1500];
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_CHUNK);
    btl_ib_wire_chunk_t wire = {
        .fragment = BTL_IB_LE32(fields->fragment),
        .total = BTL_IB_LE32(fields->total),
        .index = BTL_IB_LE16(fields->index),
        .unit = BTL_IB_LE16(fields->unit),
    };

    forgery.header.channels = 2;
    forgery.header.seq = BTL_IB_LE32(seq);
    bench_append(&forgery, &wire, sizeof(wire));
    bench_append(&forgery, zeros, size);
    return forgery;
}

/* A message of which one chunk has come is contradicted in every way, and then goes on. */
TEST(fragments_that_disagree)
{
    bench_t *bench = job();
    btl_ib_wire_chunk_t first;

    bench_send(bench, 1, 0, 5000, 1);
    assert_true(bench->wire.count >= 4);
    bench_datagram_t *genuine = bench_pop(&bench->wire);
    memcpy(&first, genuine->data + sizeof(btl_ib_wire_header_t), sizeof(first));
    uint32_t unit = BTL_IB_LE16(first.unit), id = BTL_IB_LE32(first.fragment);
    bench_deliver(bench, genuine);
    bench_turn(bench, 0);

    const struct {
        uint32_t fragment, total, index, unit, size;
    } lies[] = {
        {id, 5001, 1, unit, unit},         /* another total */
        {id, 4999, 1, unit, unit},         /* and less */
        {id, 5000, 1, unit - 1, unit - 1}, /* another unit: it would overlap */
        {id, 5000, 2, unit - 8, unit - 8}, /* and so would this */
        {id, 5000, 0, unit, unit},         /* there already, under another sequence */
        {id, 5000, 4, unit, 1},            /* behind the end */
        {id, 5000, 1, unit, unit - 1},     /* short */
        {id, 5000, 65535, unit, unit},     /* far behind the end */
        {id, UINT32_MAX, 1, unit, unit},   /* longer than any message */
        {id, 5000, 0, 0, 0},               /* chunks of nothing */
        {id, 0, 0, unit, 0},               /* a message of nothing */
        {id + 1, 70000, 0, unit, unit},    /* longer than messages may be */
        {id + 1, 5, 0, 3, 3},              /* smaller pieces than anybody makes */
        {id - 1, 5000, 0, unit, unit},     /* finished long ago */
        {id + 2 * BTL_IB_WINDOW_LIMIT, 5000, 0, unit, unit}, /* of a far future */
    };
    uint32_t seq = channel_of(bench, 2).expected;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        btl_ib_wire_chunk_t fields = {.fragment = lies[i].fragment,
                                      .total = lies[i].total,
                                      .index = (uint16_t) lies[i].index,
                                      .unit = (uint16_t) lies[i].unit};
        bench_forgery_t forgery = chunk(bench, seq, &fields, lies[i].size);
        without_effect(bench, &forgery, "dropped_chunk");
    }
    assert_true(bench_settle(bench, SECOND));
    end_working(bench);
}

/* Begins everything that can be begun and finishes nothing: memory is bounded, by `most` buffers,
 * and others have theirs. Ends the job. */
static void exhaust_reassembly(bench_t *bench, uint32_t most)
{
    bench_host_t *host = &bench->hosts[0];
    btl_ib_wire_chunk_t fields = {
        .fragment = victim(bench).fragment, .total = host->config.eager_max, .unit = 1000};
    uint32_t seq = channel_of(bench, 2).expected;
    size_t before = host->bytes;
    size_t each = host->config.eager_max + host->config.eager_max / 32 + 256;

    for (uint32_t i = 0; i < 1000; i++, fields.fragment++) {
        bench_forgery_t forgery = chunk(bench, seq + i, &fields, fields.unit);
        bench_throw_forgery(bench, 0, 1, &forgery);
        bench_check_accounts(host);
    }
    assert_int_equal(btl_ib_engine_counters(host->engine)->rnr_reassembly, 1000 - 1 - most);
    assert_int_equal(bench_totals(host).reassemblies, most);
    assert_true(host->bytes - before <= (most + 1) * each + 65536);

    for (int i = 0; i < 3; i++) { /* a peer that has nothing to do with it is not held up */
        bench_send(bench, 2, 0, 30000, 1);
    }
    assert_true(bench_settle(bench, SECOND));
    each_delivered_once(bench);
    btl_ib_conn_kill(bench_conn(bench, 0, 1), BTL_IB_DEATH_SILENCE);
    assert_int_equal(bench_totals(host).reassemblies, 0);
    assert_true(host->bytes - before <= 20 * each + 65536); /* a few are kept for the next */
    end(bench);
}

TEST(reassembly_exhausted)
{
    bench_t *bench = job();

    exhaust_reassembly(bench, bench->hosts[0].config.reassembly_max);
}

TEST(share_of_reassembly_exhausted)
{
    bench_t *bench = new_bench();

    bench->hosts[0].config.reassembly_peer = 3;
    exhaust_reassembly(job_of(bench), 3);
}

/* ---- bundles ---- */

static void add_message(bench_forgery_t *forgery, uint32_t says, uint32_t has, uint8_t tag,
                        uint8_t zero)
{
    static const uint8_t zeros[1500];
    btl_ib_wire_entry_t entry = {.size = BTL_IB_LE16(says), .tag = tag, .zero = zero};

    bench_append(forgery, &entry, sizeof(entry));
    bench_append(forgery, zeros, has);
}

/* The first messages are as they should be. Nothing is delivered of a bundle that is wrong
 * anywhere. */
TEST(bundles_that_lie)
{
    static const struct {
        uint32_t says, has; /* bytes of the third message */
        uint8_t tag, zero;
        const char *cause;
    } lies[] = {
        {8, 10, 1, 0, "dropped_length"},       {8, 4, 1, 0, "dropped_length"},
        {8, 7, 1, 0, "dropped_length"},        {8, 9, 1, 0, "dropped_length"},
        {65535, 1200, 1, 0, "dropped_length"}, {0, 1, 1, 0, "dropped_length"},
        {8, 8, 255, 0, "dropped_type"},        {8, 8, 1, 1, "dropped_type"},
        {8, 8, 1, 0x80, "dropped_type"},
    };
    bench_t *bench = job();

    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_BUNDLE);
        forgery.header.channels = 2;
        forgery.header.seq = BTL_IB_LE32(channel_of(bench, 2).expected);
        add_message(&forgery, 8, 8, 1, 0);
        add_message(&forgery, 0, 0, 254, 0);
        add_message(&forgery, lies[i].says, lies[i].has, lies[i].tag, lies[i].zero);
        without_effect(bench, &forgery, lies[i].cause);
    }
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_BUNDLE);
    without_effect(bench, &forgery, "dropped_length"); /* of nothing */
    add_message(&forgery, 8, 8, 1, 0);
    forgery.header.tag = 1; /* it has none itself */
    without_effect(bench, &forgery, "dropped_type");
    end_working(bench);
}

/* A segment that is whole with its only part, and cannot be: it is no cause to answer at once. */
TEST(parts_of_nothing)
{
    static const uint8_t zeros[64];
    const btl_ib_wire_part_t part = {
        .total = BTL_IB_LE16(sizeof(zeros)), .type = BTL_IB_TYPE_DATA, .tag = UINT8_MAX};
    bench_t *bench = job();
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_PART);

    forgery.header.channels = 2;
    forgery.header.flags = BTL_IB_FLAG_ACK_NOW;
    forgery.header.seq = BTL_IB_LE32(channel_of(bench, 2).expected);
    bench_append(&forgery, &part, sizeof(part));
    bench_append(&forgery, zeros, sizeof(zeros));
    const uint64_t sent = bench_counters(bench, 0)->sent_datagrams;
    without_effect(bench, &forgery, "dropped_type");
    bench_turn(bench, 0);
    assert_int_equal(bench_counters(bench, 0)->sent_datagrams, sent);
    end_working(bench);
}

UNIT_MAIN(NULL, NULL)
