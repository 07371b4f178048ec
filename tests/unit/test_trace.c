/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Events of a trace: as many of each kind as counters count. */

#include <string.h>

#include "btl_ib_rtt.h"
#include "btl_ib_state.h"
#include "btl_ib_trace.h"
#include "hostile.h"
#include "unit.h"

enum { KINDS = BTL_IB_TRACE_dead + 1, CAUSES = 256 };

static uint64_t seen[KINDS][CAUSES]; /* of host 0; by what events count, ACK blocks by one */
static btl_ib_trace_event_t last[KINDS];

static void note(bench_host_t *host, const btl_ib_trace_event_t *event)
{
    const bool block =
        event->kind == BTL_IB_TRACE_ack_sent || event->kind == BTL_IB_TRACE_ack_received;

    assert_int_equal(host->index, 0);
    assert_true(event->kind < KINDS);
    seen[event->kind][event->cause] += block ? 1 : event->count;
    last[event->kind] = *event;
}

static uint64_t count_of(btl_ib_trace_kind_t kind)
{
    uint64_t sum = 0;

    for (int i = 0; i < CAUSES; i++) {
        sum += seen[kind][i];
    }
    return sum;
}

/* Hosts 0, which is traced, and 1. */
static bench_t *traced(void)
{
    bench_t *bench = new_bench();

    memset(seen, 0, sizeof(seen));
    bench->on_event = note;
    bench->hosts[0].config.trace = true;
    acquaint(bench);
    return bench;
}

/* What the counters say of host 0. */
static void compare(bench_t *bench)
{
    const btl_ib_counters_t *count = bench_counters(bench, 0);

    assert_int_equal(count_of(BTL_IB_TRACE_sent), count->sent_datagrams);
    assert_int_equal(count_of(BTL_IB_TRACE_received), count->received_datagrams);
    assert_int_equal(count_of(BTL_IB_TRACE_retransmitted), count->retransmits);
    assert_int_equal(count_of(BTL_IB_TRACE_lost), count->losses);
    assert_int_equal(count_of(BTL_IB_TRACE_spurious), count->retransmits_spurious);
    assert_int_equal(count_of(BTL_IB_TRACE_probe), count->sent_probes);
    assert_int_equal(count_of(BTL_IB_TRACE_timeout), count->timeouts);
    assert_int_equal(count_of(BTL_IB_TRACE_deferred), count->deferred);
    assert_int_equal(seen[BTL_IB_TRACE_blocked][BTL_IB_CAUSE_credit], count->blocked_credit);
    assert_int_equal(seen[BTL_IB_TRACE_blocked][BTL_IB_CAUSE_window]
                         + seen[BTL_IB_TRACE_blocked][BTL_IB_CAUSE_depth],
                     count->blocked_window);
    assert_int_equal(seen[BTL_IB_TRACE_blocked][BTL_IB_CAUSE_share], count->blocked_share);
    assert_int_equal(seen[BTL_IB_TRACE_blocked][BTL_IB_CAUSE_pace], count->blocked_pace);
    for (const btl_ib_counter_info_t *info = btl_ib_counter_infos; info->name != NULL; info++) {
        if (strncmp(info->name, "dropped_", 8) == 0) {
            assert_int_equal(seen[BTL_IB_TRACE_dropped][info - btl_ib_counter_infos],
                             btl_ib_counter_value(info, count));
        }
    }
    assert_int_equal(count_of(BTL_IB_TRACE_made), count->connections);
    assert_int_equal(count_of(BTL_IB_TRACE_dead), count->connections_dead);
    assert_int_equal(count_of(BTL_IB_TRACE_peer_closed), count->connections_closed);
}

static bool loses_some(bench_t *bench, const bench_datagram_t *datagram)
{
    return ++bench->scratch[0] % 7 == 0;
}

/* With losses, and so with retransmissions, duplicates and ACKs in several blocks. */
TEST(counts)
{
    bench_t *bench = traced();

    bench->loses = loses_some;
    talk(bench, 40);
    for (int i = 0; i < 1000; i++) { /* more than there are credits for */
        bench_send(bench, 0, 1, 600, 1);
    }
    assert_true(bench_settle(bench, 10 * SECOND));
    bench->loses = NULL;
    const btl_ib_counters_t *count = bench_counters(bench, 0);
    assert_true(count->retransmits > 0 && count->losses > 0 && count->sent_probes > 0);
    assert_true(count->blocked_credit > 0 || count->blocked_window > 0);
    assert_true(seen[BTL_IB_TRACE_retransmitted][BTL_IB_CAUSE_loss] > 0);
    assert_true(seen[BTL_IB_TRACE_retransmitted][BTL_IB_CAUSE_probing] > 0);
    assert_true(count_of(BTL_IB_TRACE_ack_received) >= count->received_acks);
    assert_true(count_of(BTL_IB_TRACE_ack_sent) >= count->sent_acks);
    compare(bench);
    assert_int_equal(count_of(BTL_IB_TRACE_bound), 1);
    assert_int_equal(count_of(BTL_IB_TRACE_known), 1);
    assert_int_equal(count_of(BTL_IB_TRACE_validated), 1);
    end(bench);
}

/* What an event says of a datagram, of its sender, and of the connection. */
TEST(fields)
{
    bench_t *bench = traced();
    const btl_ib_trace_event_t *sent = &last[BTL_IB_TRACE_sent];

    bench_send(bench, 0, 1, 100, 1);
    bench_send(bench, 1, 0, 100, 1);
    bench_flow(bench);
    assert_int_equal(sent->peer, bench->hosts[1].config.name);
    assert_int_equal(sent->type, BTL_IB_TYPE_DATA);
    assert_int_equal(sent->size, 100 + sizeof(btl_ib_wire_header_t));
    assert_true(sent->window > 0 && sent->srtt > 0 && sent->rto > sent->srtt);
    const btl_ib_trace_event_t before = *sent;
    bench_send(bench, 0, 1, 100, 1);
    assert_int_equal(sent->seq, before.seq + 1);
    assert_int_equal(sent->channel, before.channel);
    /* The answer acknowledges it, by itself or with data: then nothing is in flight any more. */
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 5000);
    const btl_ib_trace_event_t *got = &last[BTL_IB_TRACE_received];
    assert_int_equal(got->type, BTL_IB_TYPE_ACK);
    assert_int_equal(got->seq, 0); /* it is not sequenced */
    assert_int_equal(got->peer, bench->hosts[1].config.name);
    assert_int_equal(got->in_flight, 0);
    assert_int_equal(last[BTL_IB_TRACE_ack_received].ack, sent->seq + 1);
    assert_int_equal(last[BTL_IB_TRACE_ack_received].ack_channel, sent->channel);
    assert_int_equal(last[BTL_IB_TRACE_ack_received].seq, sent->seq + 1);
    end(bench);
}

static bool loses_chosen(bench_t *bench, const bench_datagram_t *datagram)
{
    const bool chosen = (bench->scratch[0] & 1) != 0;

    if (datagram->source == bench_address(1, 0)) {
        bench->scratch[0] >>= 1;
    }
    return datagram->source == bench_address(1, 0) && chosen;
}

/* What an ACK says: the first that is missing, one above the highest that arrived, and how many
 * ranges are between them. */
TEST(ack_ranges)
{
    static const struct {
        uint32_t lost; /* a bit for each of six messages */
        uint32_t ranges;
    } cases[] = {{0x01, 1}, {0x05, 2}, {0x15, 3}, {0x0f, 1}};
    const btl_ib_trace_event_t *event = &last[BTL_IB_TRACE_ack_sent];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench_t *bench = traced();
        const uint32_t first = bench_channel(bench, 0, 1, 2).expected;
        bench->loses = loses_chosen;
        bench->scratch[0] = cases[i].lost;
        for (int n = 0; n < 6; n++) {
            bench_send(bench, 1, 0, 1400, 1);
        }
        bench_flow(bench);
        assert_int_equal(event->channel, 2);
        assert_int_equal(event->ack_channel, 2);
        assert_int_equal(event->ack, first);
        assert_int_equal(event->count, cases[i].ranges);
        assert_int_equal(event->seq, first + 6);
        assert_int_equal(event->cause, BTL_IB_CAUSE_none);
        bench->loses = NULL;
        assert_true(bench_settle(bench, SECOND));
        end(bench);
    }
}

/* What a header acknowledges, with the credit in it, as its sender and its receiver have it. */
TEST(headers)
{
    bench_t *bench = traced();
    const btl_ib_trace_event_t *sent = &last[BTL_IB_TRACE_sent];
    const btl_ib_trace_event_t *received = &last[BTL_IB_TRACE_received];

    for (int i = 0; i < 3; i++) {
        bench_send(bench, 1, 0, 20, 1);
        bench_deliver(bench, bench_pop(&bench->wire));
        bench_turn(bench, 0);
        const bench_channel_t channel = bench_channel(bench, 0, 1, 0);
        assert_int_equal(received->type, BTL_IB_TYPE_DATA);
        assert_int_equal(received->seq, channel.expected - 1);
        assert_int_equal(received->ack, channel.first);
        assert_int_equal(received->limit, channel.limit);
        assert_int_equal(received->ack_channel, 0);
        bench_send(bench, 0, 1, 20, 1);
        assert_int_equal(sent->ack, channel.expected);
        assert_int_equal(sent->limit, bench_channel(bench, 0, 1, 0).granted);
        assert_int_equal(sent->ack_channel, 0);
        assert_true(sent->flags & BTL_IB_FLAG_ACK);
        bench_deliver(bench, bench_pop(&bench->wire));
        bench_turn(bench, 1);
    }
    assert_true(bench_settle(bench, SECOND));
    end(bench);
}

/* The same of large messages, in another channel, under a checksum. */
TEST(other_channels)
{
    bench_t *bench = new_bench();
    const btl_ib_trace_event_t *sent = &last[BTL_IB_TRACE_sent];

    memset(seen, 0, sizeof(seen));
    bench->on_event = note;
    bench->hosts[0].config.trace = true;
    assert_true(bench_protection(bench, BTL_IB_PROTECTION_CRC32C));
    bench->hosts[1].config.ack_delay = 700;
    acquaint(bench);
    bench_send(bench, 1, 0, 1300, 1);
    bench_deliver(bench, bench_pop(&bench->wire));
    bench_turn(bench, 0);
    assert_int_equal(last[BTL_IB_TRACE_received].type, BTL_IB_TYPE_DATA);
    assert_int_equal(last[BTL_IB_TRACE_received].channel, 2);
    assert_int_equal(last[BTL_IB_TRACE_received].size, 1300 + sizeof(btl_ib_wire_header_t) + 4);
    const btl_ib_conn_t *conn = bench_conn(bench, 0, 1);
    assert_int_equal(last[BTL_IB_TRACE_received].rto,
                     btl_ib_rtt_timeout(&conn->loss.rtt, bench->hosts[0].config.rto_initial) + 700);
    bench_send(bench, 0, 1, 20, 1);
    assert_int_equal(sent->channel, 0);
    assert_int_equal(sent->ack_channel, 2);
    assert_int_equal(sent->ack, bench_channel(bench, 0, 1, 2).expected);
    assert_true(bench_settle(bench, SECOND));
    end(bench);
}

/* An ACK's block says the credit of its channel; one of what got RNR has none. */
TEST(credit_in_acks)
{
    bench_t *bench = traced();
    const btl_ib_trace_event_t *event = &last[BTL_IB_TRACE_ack_sent];

    bench_send(bench, 1, 0, 20, 1);
    bench_run(bench, 5000);
    assert_int_equal(event->channel, 0);
    assert_int_equal(event->limit, bench_channel(bench, 0, 1, 0).granted);
    bench->hosts[0].deaf[9] = true;
    bench_send(bench, 1, 0, 20, 9);
    bench_run(bench, 5000);
    assert_true(seen[BTL_IB_TRACE_ack_sent][BTL_IB_CAUSE_rnr] > 0);
    assert_int_equal(event->cause, BTL_IB_CAUSE_rnr);
    assert_int_equal(event->limit, 0);
    bench->hosts[0].deaf[9] = false;
    assert_true(bench_settle(bench, SECOND));
    end(bench);
}

/* What belongs to no connection: an answer to a peer that is unknown yet. */
TEST(responses)
{
    for (int on = 0; on < 2; on++) {
        bench_t *bench = new_bench();
        memset(seen, 0, sizeof(seen));
        bench->on_event = note;
        bench->hosts[0].config.trace = on == 1;
        acquaint(bench);
        const uint64_t sent = count_of(BTL_IB_TRACE_sent);
        btl_ib_trace_response(bench_conn(bench, 0, 1)->rail, 77, 64);
        assert_int_equal(count_of(BTL_IB_TRACE_sent), sent + (uint64_t) on);
        if (on == 1) {
            assert_int_equal(last[BTL_IB_TRACE_sent].peer, 77);
            assert_int_equal(last[BTL_IB_TRACE_sent].size, 64);
            assert_int_equal(last[BTL_IB_TRACE_sent].type, BTL_IB_TYPE_PATH_RESPONSE);
            assert_int_equal(last[BTL_IB_TRACE_sent].connection, 0);
        }
        end(bench);
    }
}

/* An unknown sender, and what no peer would send. */
TEST(drops)
{
    bench_t *bench = traced();

    bench_send(bench, 1, 0, 100, 1);
    bench_datagram_t *copy = bench_copy(bench->wire.first);
    bench_datagram_t *forgery = bench_copy(bench->wire.first);
    forgery->data[offsetof(btl_ib_wire_header_t, token)] ^= 1;
    assert_true(bench_settle(bench, SECOND));
    bench_throw(bench, 0, bench_address(1, 0), forgery->data, forgery->size);
    bench_throw(bench, 0, BENCH_UNKNOWN, forgery->data, 4);
    bench_turn(bench, 0);
    assert_int_equal(last[BTL_IB_TRACE_dropped].peer, BTL_IB_TRACE_PEER_UNKNOWN);
    assert_int_equal(last[BTL_IB_TRACE_dropped].size, 4);
    bench_throw(bench, 0, bench_address(1, 0), copy->data, copy->size);
    bench_turn(bench, 0);
    const btl_ib_counters_t *count = bench_counters(bench, 0);
    assert_int_equal(count->dropped_duplicate, 1);
    assert_int_equal(last[BTL_IB_TRACE_dropped].peer, bench->hosts[1].config.name);
    assert_int_equal(count->dropped_token, 1);
    assert_int_equal(count->dropped_short, 1);
    compare(bench);
    free(copy);
    free(forgery);
    end(bench);
}

/* Whose name is 0, as what nobody named, is not taken for the sender of anything. */
TEST(a_peer_named_0)
{
    static const uint8_t garbage[4];
    bench_t *bench = new_bench();

    bench->on_event = note;
    bench->hosts[0].config.trace = true;
    bench->hosts[1].config.name = 0;
    acquaint(bench);
    assert_int_equal(last[BTL_IB_TRACE_received].peer, 0);
    bench_throw(bench, 0, BENCH_UNKNOWN, garbage, sizeof(garbage));
    assert_int_equal(last[BTL_IB_TRACE_received].peer, BTL_IB_TRACE_PEER_UNKNOWN);
    assert_int_equal(last[BTL_IB_TRACE_dropped].peer, BTL_IB_TRACE_PEER_UNKNOWN);
    end(bench);
}

/* Ends of connections, and why. */
TEST(ends)
{
    bench_t *bench = traced();

    btl_ib_conn_destroy(bench_conn(bench, 1, 0), bench->now);
    bench_run(bench, 10000);
    assert_int_equal(count_of(BTL_IB_TRACE_reset), 1);
    compare(bench);
    btl_ib_conn_kill(bench_conn(bench, 0, 1), BTL_IB_DEATH_ENDED);
    assert_int_equal(last[BTL_IB_TRACE_dead].cause, BTL_IB_CAUSE_ended);
    compare(bench);
    end(bench);
}

/* Off, it gives nothing. */
TEST(off)
{
    bench_t *bench = new_bench();

    memset(seen, 0, sizeof(seen));
    bench->on_event = note;
    acquaint(bench);
    for (int kind = 0; kind < KINDS; kind++) {
        assert_int_equal(count_of((btl_ib_trace_kind_t) kind), 0);
    }
    end(bench);
}

UNIT_MAIN(NULL, NULL)
