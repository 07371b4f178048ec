/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Whole engines in exact situations that a simulator hardly brings about by chance. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "unit.h"

/* ---- devices ---- */

/* While no device is open turns find nothing. */
TEST(turns_without_rails)
{
    bench_t *bench = new_bench();

    bench->rails = 0;
    bench_start(bench, 0);
    for (uint64_t now = 1; now < 4; now++) { /* no pause before any of them */
        assert_int_equal(btl_ib_engine_progress(bench->hosts[0].engine, now, 64), 0);
    }
    end(bench);
}

/* ---- credit ---- */

/* One-way traffic beyond the credits there are: they come back by themselves, although no
 * acknowledgement would be due for long, and before the sender asks. */
TEST(explicit_return_of_credit)
{
    bench_t *bench = new_bench();

    use_queues(bench, "P,200,8,4,2");
    bench->hosts[0].config.credit_init = 8;
    bench->hosts[1].config.credit_init = 8;
    bench->hosts[1].config.ack_delay = 10 * SECOND;
    acquaint(bench);
    uint64_t probes = bench_counters(bench, 0)->sent_probes;
    for (int i = 0; i < 40; i++) {
        bench_send(bench, 0, 1, 20, 1);
    }
    uint64_t begun = bench->now;
    bench_flow(bench);
    for (uint32_t i = 0; i < bench->message_count; i++) {
        assert_int_equal(bench->messages[i].delivered, 1);
    }
    assert_true(bench->now - begun < 40 * 2 * BENCH_DELAY);
    assert_int_equal(bench_counters(bench, 0)->sent_probes, probes);
    end(bench);
}

static bool loses_all_from_1(bench_t *bench, const bench_datagram_t *datagram)
{
    return datagram->source == bench_address(1, 0);
}

static bool loses_all_to_0(bench_t *bench, const bench_datagram_t *datagram)
{
    return datagram->to / BENCH_RAILS == 0;
}

/* ---- pace ---- */

/* ---- deaths ---- */

/* Why host 0 gives host 1 up: each reason has its own situation. */
TEST(reasons_of_death)
{
    for (int reason = 0; reason < 3; reason++) {
        static const btl_ib_death_t expected[] = {BTL_IB_DEATH_NO_TAG, BTL_IB_DEATH_NO_PROGRESS,
                                                  BTL_IB_DEATH_SILENCE};
        bench_t *bench = new_bench();
        bench->hosts[0].config.silence_limit = 2 * SECOND;
        bench->hosts[1].config.eager_max = 20000; /* takes nothing longer */
        acquaint(bench);
        bench->hosts[1].deaf[200] = reason == 0;
        bench->loses = reason == 2 ? loses_all_from_1 : NULL;
        bench_send(bench, 0, 1, reason == 1 ? 30000 : 100, reason == 0 ? 200 : 1);
        bench_run(bench, 1900 * 1000);
        for (int other = 0; other <= BTL_IB_DEATH_DEVICE; other++) {
            assert_int_equal(bench->hosts[0].deaths[other], 0);
        }
        bench_run(bench, 2 * SECOND);
        for (int other = 0; other <= BTL_IB_DEATH_DEVICE; other++) {
            assert_int_equal(bench->hosts[0].deaths[other], other == (int) expected[reason]);
        }
        end(bench);
    }
}

/* A message that the receiver finds too long is dropped chunk by chunk, and those in chunks
 * behind it wait; shorter ones, and the other way, get through. */
TEST(peers_with_other_limits)
{
    bench_t *bench = new_bench();

    bench->hosts[1].config.eager_max = 20000;
    acquaint(bench);
    uint32_t too_long = bench_send(bench, 0, 1, 30000, 1);
    uint32_t behind = bench_send(bench, 0, 1, 20000, 1);
    bench_send(bench, 0, 1, 200, 1);
    bench_send(bench, 1, 0, 20000, 1);
    assert_int_equal(bench_send(bench, 1, 0, 30000, 1), UINT32_MAX);
    bench_run(bench, SECOND);
    for (uint32_t i = 0; i < bench->message_count - 1; i++) {
        assert_int_equal(bench->messages[i].delivered, i != too_long && i != behind);
    }
    assert_false(bench->messages[too_long].done);
    assert_true(bench_counters(bench, 1)->dropped_chunk > 0);
    end(bench);
}

/* The longest message must fit in as many chunks as an index can count, or there is no connection.
 * protocol: R6 */
TEST(more_chunks_than_can_be)
{
    bench_t *bench = new_bench();
    btl_ib_conn_t *conn = NULL;

    bench->hosts[0].config.eager_max = 4000000;
    acquaint(bench);
    btl_ib_peer_info_t info = bench_info(bench, 1, 0);
    info.name++;
    info.max_datagram = BTL_IB_DATAGRAM_MIN;
    assert_int_equal(btl_ib_conn_create(bench->hosts[0].engine, 0, &info, NULL, &conn), -EINVAL);
    info.max_datagram = 2 * BTL_IB_DATAGRAM_MIN;
    assert_int_equal(btl_ib_conn_create(bench->hosts[0].engine, 0, &info, NULL, &conn), 0);
    btl_ib_conn_destroy(conn, bench->now);
    end(bench);
}

/* ---- fragments that wait for their turn ---- */

enum { IN_CALLBACK, NEXT, CLOSES };

/* Three fragments. Returns the number of the first. */
static uint32_t send_three(bench_t *bench)
{
    uint32_t first = bench_send(bench, 0, 1, 5000, 1);

    bench_send(bench, 0, 1, 1500, 2);
    bench_send(bench, 0, 1, 5000, 3);
    return first;
}

/* A receiver of a fragment looks for more, and finds all, perhaps the end of the connection as
 * well. */
static void looks_on(bench_t *bench, uint32_t message)
{
    assert_int_equal(bench->scratch[IN_CALLBACK], 0);
    assert_int_equal(message, bench->scratch[NEXT]++);
    bench->scratch[IN_CALLBACK] = 1;
    bench_run(bench, 1000);
    assert_true(bench->messages[bench->message_count - 1].done);
    if (bench->scratch[CLOSES] && bench_conn(bench, 0, 1) != NULL) {
        btl_ib_conn_destroy(bench_conn(bench, 0, 1), bench->now);
        bench_run(bench, 1000);
        assert_true(bench_counters(bench, 1)->connections_closed > 0);
    }
    bench->scratch[IN_CALLBACK] = 0;
}

/* All that is on its way comes to host 1 in asynchronous turns. */
static void async_1(bench_t *bench)
{
    for (int i = 0; i < 10; i++) {
        bench->now += BENCH_DELAY;
        while (bench->wire.count > 0) {
            bench_deliver(bench, bench_pop(&bench->wire));
        }
        btl_ib_engine_async_progress(bench->hosts[1].engine, bench->now, 64);
        bench_turn(bench, 0);
    }
}

/* Fragments are handed up one after the other, whatever comes while one is in its callback, and
 * what was acknowledged outlives its connection. */
TEST(one_callback_after_the_other)
{
    for (uint64_t way = 0; way < 4; way++) {
        bench_t *bench = new_bench();
        acquaint(bench);
        uint32_t first = send_three(bench);
        bench->scratch[NEXT] = first;
        bench->scratch[CLOSES] = way / 2;
        bench->on_deliver = looks_on;
        if (way % 2 == 1) {
            async_1(bench);
        }
        bench_run(bench, 20000);
        for (uint32_t i = first; i < bench->message_count; i++) {
            assert_int_equal(bench->messages[i].delivered, 1);
            assert_int_equal(bench->messages[i].status, 0);
        }
        bench->on_deliver = NULL;
        end(bench);
    }
}

static bool loses_fragment_0(bench_t *bench, const bench_datagram_t *datagram)
{
    uint32_t fragment;

    if ((datagram->data[0] & 0xf) != BTL_IB_TYPE_CHUNK) {
        return false;
    }
    memcpy(&fragment, datagram->data + sizeof(btl_ib_wire_header_t), sizeof(fragment));
    return fragment == 0;
}

/* The first of three never comes. When the peer closes the others are handed up: it was told
 * that they are there. When the connection dies they are not: nobody is there who was told, and
 * a message of which a piece is missing had better not go on before the death is known. */
TEST(an_end_over_a_gap)
{
    for (int dies = 0; dies < 2; dies++) {
        bench_t *bench = new_bench();
        acquaint(bench);
        bench->loses = loses_fragment_0;
        uint32_t first = send_three(bench);
        bench_run(bench, 20000);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(bench->messages[first + i].delivered, 0);
            assert_int_equal(bench->messages[first + i].done, i > 0);
        }
        if (dies) {
            btl_ib_conn_kill(bench_conn(bench, 1, 0), BTL_IB_DEATH_SILENCE);
        } else {
            btl_ib_conn_destroy(bench_conn(bench, 0, 1), bench->now);
        }
        bench_run(bench, 20000);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(bench->messages[first + i].delivered, !dies && i > 0);
        }
        bench_check_accounts(&bench->hosts[1]);
        end(bench);
    }
}

/* ---- ends ---- */

/* The peer closes while fragments wait, some of them partly sent: each comes back once. */
TEST(a_close_while_fragments_wait)
{
    bench_t *bench = new_bench();

    bench->hosts[0].config.depth_peer = 4;
    acquaint(bench);
    uint32_t first = bench->message_count;
    for (int i = 0; i < 5; i++) {
        bench_send(bench, 0, 1, 12000, 1);
        bench_op(bench, 0, 1, BTL_IB_OP_PUT, 9000);
    }
    assert_false(bench->messages[first].sent); /* cut up in part */
    btl_ib_conn_destroy(bench_conn(bench, 1, 0), bench->now);
    bench_clear(&bench->wire); /* all of host 0's is lost, and the first CLOSE */
    bench_run(bench, 5000);
    for (uint32_t i = first; i < bench->message_count; i++) {
        assert_true(bench->messages[i].done);
        assert_int_equal(bench->messages[i].status, -EPIPE);
        assert_int_equal(bench->messages[i].delivered, 0);
    }
    for (uint32_t i = 0; i < bench->op_count; i++) {
        assert_true(bench->ops[i].done);
    }
    bench_check_accounts(&bench->hosts[0]);
    assert_int_equal(bench_totals(&bench->hosts[0]).unacked, 0);
    bench_send(bench, 0, 1, 12000, 1); /* and there is a next life */
    assert_true(bench_settle(bench, SECOND));
    end(bench);
}

/* Both close at once, with data on the way; neither waits for the other, and both can begin
 * anew. */
TEST(both_close_at_once)
{
    for (int again = 0; again < 2; again++) {
        bench_t *bench = new_bench();
        acquaint(bench);
        for (uint32_t i = 0; i < 4; i++) {
            bench_send(bench, i % 2, 1 - i % 2, 9000, 1);
        }
        btl_ib_conn_destroy(bench_conn(bench, 0, 1), bench->now);
        btl_ib_conn_destroy(bench_conn(bench, 1, 0), bench->now);
        for (uint32_t i = 0; i < bench->message_count; i++) {
            assert_true(bench->messages[i].done);
        }
        if (again) { /* begun anew before the other's CLOSE comes */
            bench_send(bench, 0, 1, 100, 1);
            bench_send(bench, 1, 0, 100, 1);
        }
        bench_run(bench, 10000);
        for (uint32_t i = 0; i < 2; i++) {
            assert_false(btl_ib_engine_lingering(bench->hosts[i].engine));
            bench_check_accounts(&bench->hosts[i]);
            for (int reason = 0; reason <= BTL_IB_DEATH_DEVICE; reason++) {
                assert_int_equal(bench->hosts[i].deaths[reason], 0);
            }
        }
        bench_send(bench, 0, 1, 9000, 1);
        bench_send(bench, 1, 0, 9000, 1);
        bench_run(bench, SECOND);
        for (uint32_t i = 0; i < bench->message_count; i++) {
            const bench_message_t *m = &bench->messages[i];
            assert_true(m->done && m->delivered <= 1);
            assert_true(m->delivered == 1 || i < 6);
        }
        end(bench);
    }
}

/* ---- rails ---- */

/* A rail that is flooded does not keep the other from being looked at. */
TEST(a_flooded_rail)
{
    bench_t *bench = new_bench();

    bench->rails = 2;
    acquaint(bench);
    bench_rail_t *rails = bench->hosts[0].rails;
    bench_datagram_t garbage = {.source = BENCH_UNKNOWN, .to = bench_address(0, 0)};
    for (int i = 0; i < 1000; i++) {
        bench_deliver(bench, bench_copy(&garbage));
    }
    garbage.to = bench_address(0, 1);
    bench_deliver(bench, bench_copy(&garbage));
    for (int i = 0; i < 2; i++) {
        btl_ib_engine_progress(bench->hosts[0].engine, bench->now, 16);
    }
    assert_int_equal(rails[1].arrived.count, 0);
    assert_true(rails[0].arrived.count > 900);
    bench_flow(bench);
    end(bench);
}

/* ---- callers ---- */

/* What cannot be is refused with a reason, and changes nothing. protocol: R5 */
TEST(calls_that_cannot_be)
{
    bench_t *bench = new_bench();
    acquaint(bench);
    btl_ib_engine_t *engine = bench->hosts[0].engine;
    btl_ib_peer_info_t right = bench_info(bench, 1, 0), wrong = right;
    btl_ib_conn_t *conn = bench_conn(bench, 0, 1), *none = NULL;
    size_t before = bench->hosts[0].bytes;
    char text[300];

    assert_int_equal(btl_ib_conn_create(engine, 1, &right, NULL, &none),
                     -EINVAL); /* no such rail */
    assert_int_equal(btl_ib_conn_create(engine, 0, &right, NULL, &none), -EEXIST);
    wrong.name++;
    wrong.rail = BTL_IB_RAILS_MAX;
    assert_int_equal(btl_ib_conn_create(engine, 0, &wrong, NULL, &none), -EINVAL);
    wrong.rail = 0;
    wrong.queues.q[0].num = 0;
    assert_int_equal(btl_ib_conn_create(engine, 0, &wrong, NULL, &none), -EINVAL);
    wrong.queues = right.queues;
    wrong.max_datagram = 50;
    assert_int_equal(btl_ib_conn_create(engine, 0, &wrong, NULL, &none), -EINVAL);
    wrong.max_datagram = right.max_datagram;
    wrong.protection = BTL_IB_PROTECTION_CRC32C;
    assert_int_equal(btl_ib_conn_create(engine, 0, &wrong, NULL, &none), -EINVAL);
    wrong.protection = right.protection;
    wrong.address_len = 0;
    assert_int_equal(btl_ib_conn_create(engine, 0, &wrong, NULL, &none), -EINVAL);
    assert_null(none);
    assert_int_equal(bench->hosts[0].bytes, before);
    assert_true(btl_ib_conn_format(conn, bench->now, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "open, connected"));
    assert_non_null(btl_ib_sendi_begin(conn, 1, 20));
    btl_ib_sendi_abort(conn);
    end_working(bench);
}

/* What is said of a connection is as of now, also where the process has not polled since. */
TEST(described_as_of_now)
{
    bench_t *bench = job();
    char text[512];

    bench_send(bench, 1, 0, 20, 1);
    bench_flow(bench); /* 0 has heard 1 */
    bench_send(bench, 0, 1, 20, 1);
    bench->now += 100;
    bench_turn(bench, 0);
    (void) btl_ib_conn_format(bench_conn(bench, 0, 1), bench->now + 5000, text, sizeof(text));
    assert_non_null(strstr(text, "1 segments in flight (oldest 5100 us)"));
    assert_non_null(strstr(text, "heard 5100 us ago"));
    end(bench);
}

/* ---- limits on all connections ---- */

/* Host 3's network is good. Every twelfth segment of host 0 comes to host 1, and what host 2
 * answers is lost; later (scratch[1]) everything is. */
static bool loses_most(bench_t *bench, const bench_datagram_t *datagram)
{
    uint32_t from = datagram->source / BENCH_RAILS, to = datagram->to / BENCH_RAILS;

    if (from == 3 || to == 3) {
        return false;
    }
    return bench->scratch[1] != 0 || from == 2
           || (from == 0 && to == 1 && bench->scratch[0]++ % 12 != 11);
}

/* What is lost to some peers, and waits to go again, leaves room for acknowledgements to others. */
TEST(losses_to_others)
{
    bench_t *bench = new_bench();

    use_queues(bench, "S,1472,1024,512,500");
    for (uint32_t i = 0; i < 4; i++) {
        bench->hosts[i].config.cc = BTL_IB_CC_CUBIC;
        bench->hosts[i].config.depth_peer = 200;
        bench->hosts[i].config.depth_total = 210;
        bench->hosts[i].attr.tx_depth = 4;
        bench_start(bench, i);
    }
    for (uint32_t i = 1; i < 4; i++) {
        bench_send(bench, i, 0, 20, 1);
    }
    assert_true(bench_settle(bench, SECOND));
    for (uint32_t peer = 1; peer < 3; peer++) { /* so that windows are open */
        for (int i = 0; i < 1000; i++) {
            bench_send(bench, 0, peer, 100, 1);
        }
        assert_true(bench_settle(bench, SECOND));
    }
    bench->loses = loses_most;
    for (uint32_t peer = 1; peer < 3; peer++) {
        for (int i = 0; i < 800; i++) {
            bench_send(bench, 0, peer, 100, 1);
        }
    }
    bench_run(bench, 500);
    bench->scratch[1] = 1;
    assert_true(bench_peer(bench, 0, 1).unacked > bench_peer(bench, 0, 1).in_flight);
    uint32_t message = bench_send(bench, 3, 0, 100, 1);
    bench_run(bench, 5000);
    assert_int_equal(bench->messages[message].delivered, 1);
    assert_int_equal(bench_peer(bench, 3, 0).unacked, 0);
    bench->loses = NULL;
    assert_true(bench_settle(bench, 60 * SECOND));
    end(bench);
}

/* What the limits on all connections leave of long messages to two peers, none of which answers. */
static bench_totals_t fill_depth(bench_t *bench, uint32_t segments, uint64_t bytes)
{
    bench->hosts[0].config.depth_total = segments;
    bench->hosts[0].config.depth_bytes = bytes;
    for (uint32_t i = 0; i < 3; i++) {
        bench_start(bench, i);
    }
    for (uint32_t peer = 1; peer < 3; peer++) {
        bench_send(bench, 0, peer, 20, 1);
    }
    assert_true(bench_settle(bench, SECOND));
    bench->loses = loses_all_to_0;
    for (uint32_t peer = 1; peer < 3; peer++) {
        bench_send(bench, 0, peer, 60000, 1);
    }
    bench_run(bench, 1000);
    return bench_totals(&bench->hosts[0]);
}

/* Rows of segments are cut no longer than the limits on all connections let go. One segment of each
 * connection is not counted. */
TEST(depth_in_segments)
{
    bench_t *bench = new_bench();

    assert_int_equal(fill_depth(bench, 7, 1u << 20).unacked, 7 + 2);
    bench->loses = NULL;
    assert_true(bench_settle(bench, 10 * SECOND));
    end(bench);
}

/* The last may go beyond the limit in bytes, no other. */
TEST(depth_in_bytes)
{
    bench_t *bench = new_bench();
    const bench_totals_t totals = fill_depth(bench, 1000, 4000);

    assert_true(totals.bytes_unacked >= 4000);
    assert_true(totals.bytes_unacked < 4000 + 1472);
    bench->loses = NULL;
    assert_true(bench_settle(bench, 10 * SECOND));
    end(bench);
}

/* Where datagrams of one size are joined all chunks are of one size, whatever the length of the
 * message, and what is behind the last one is not delivered. */
TEST(chunks_of_one_size)
{
    static const uint32_t sizes[] = {1500, 4110, 8200, 12288, 20000, 32782, 49166};
    bench_t *bench = new_bench();

    bench->hosts[0].attr.gso_bytes = 44 * bench->hosts[0].attr.max_datagram;
    bench_start(bench, 0);
    bench_start(bench, 1);
    bench_send(bench, 0, 1, 100, 1);
    assert_true(bench_settle(bench, SECOND));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint32_t size = 0, chunks = 0;
        bench_clear(&bench->tape);
        bench->taping = true;
        bench_send(bench, 0, 1, sizes[i], 1);
        assert_true(bench_settle(bench, SECOND));
        for (const bench_datagram_t *d = bench->tape.first; d != NULL; d = d->next) {
            if ((d->data[0] & 0xf) == BTL_IB_TYPE_CHUNK) {
                assert_true(size == 0 || d->size == size);
                assert_int_equal(d->size % 8, 0);
                size = d->size;
                chunks++;
            }
        }
        assert_true(chunks > 1);
    }
    end(bench);
}

/* A process that took in as much as it was to, and no more, has to come again at once: what is left
 * rings for nobody. */
TEST(comes_again_for_the_rest)
{
    bench_t *bench = job();
    btl_ib_engine_t *engine = bench->hosts[1].engine;

    for (int i = 0; i < 2; i++) {
        bench_send(bench, 0, 1, 1000, 1);
        bench_turn(bench, 0);
    }
    while (bench->wire.count > 0) {
        bench_push(&bench->hosts[1].rails[0].arrived, bench_pop(&bench->wire));
    }
    bench->now += BENCH_DELAY;
    assert_int_equal(btl_ib_engine_progress(engine, bench->now, 1), 1);
    assert_int_equal(btl_ib_engine_next_due(engine), bench->now);
    assert_int_equal(btl_ib_engine_async_due(engine), bench->now);
    assert_int_equal(btl_ib_engine_progress(engine, bench->now, 64), 1);
    assert_true(btl_ib_engine_next_due(engine) > bench->now);
    bench_settle(bench, SECOND);
    end(bench);
}

static void refuse(bench_t *bench)
{
    bench->hosts[0].rails[0].refused = bench_address(1, 0);
    bench->hosts[0].rails[0].refusal = true;
    bench_turn(bench, 0);
}

/* One refusal now and one much later are two strays (anybody can send them), a row of them is
 * evidence. */
TEST(refusals_in_a_row)
{
    bench_t *bench = job();
    const uint64_t *deaths = &bench->hosts[0].deaths[BTL_IB_DEATH_REFUSED];

    for (int i = 0; i < 5; i++) {
        refuse(bench);
        bench_run(bench, 15 * SECOND);
    }
    assert_int_equal(*deaths, 0);
    refuse(bench);
    bench_run(bench, 60 * 1000);
    refuse(bench);
    assert_int_equal(*deaths, 0);
    bench_run(bench, 60 * 1000);
    refuse(bench);
    assert_int_equal(*deaths, 1);
    end(bench);
}

/* What is wrong with a configuration is said with its name, the value and what is allowed. */
TEST(configurations)
{
    btl_ib_engine_config_t config;
    char problem[128];
    char expected[128];

    btl_ib_engine_config_default(&config);
    config.eager_max = 1000;
    assert_true(btl_ib_engine_config_check(&config, problem, sizeof(problem)));
    config.rto_min = config.rto_max + 1;
    assert_false(btl_ib_engine_config_check(&config, problem, sizeof(problem)));
    snprintf(expected, sizeof(expected), "the engine's rto_min is %u, not 1 to %u", config.rto_min,
             config.rto_max);
    assert_string_equal(problem, expected);
    config.rto_min = config.rto_max;
    config.ops_max = BTL_IB_OPS_MAX + 1;
    assert_false(btl_ib_engine_config_check(&config, problem, sizeof(problem)));
    snprintf(expected, sizeof(expected), "the engine's ops_max is %u, not 1 to %u", config.ops_max,
             (unsigned) BTL_IB_OPS_MAX);
    assert_string_equal(problem, expected);
    config.ops_max = 1;
    config.protection = BTL_IB_PROTECTION_ENCRYPT;
    assert_false(btl_ib_engine_config_check(&config, problem, sizeof(problem)));
    assert_string_equal(problem, "the engine has no cipher for protection encrypt");
    config.protection = BTL_IB_PROTECTION_KINDS;
    assert_false(btl_ib_engine_config_check(&config, problem, sizeof(problem)));
}

/* What a new peer holds: `credit_init`, or a part of its share of the buffers, but at least 16,
 * and no more than num. */
TEST(credits_of_a_new_peer)
{
    enum { RESERVE = 7 }; /* of all these queues: no buffers for credits */
    static const struct {
        uint32_t credit_init, peers, num, depth, holds;
    } cases[] = {
        {8, 4, 256, 4096, 8},     {300, 4, 256, 4096, 256}, {0, 0, 256, 4096, 16},
        {0, 4, 256, 4096, 256},   {0, 16, 256, 4096, 64},   {0, 64, 256, 4096, 16},
        {0, 1000, 256, 4096, 16}, {0, 4, 8, 4096, 8},       {0, 4, 256, 320, 20},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench_t *bench = new_bench();
        btl_ib_peer_info_t info;
        bench->hosts[0].config.credit_init = cases[i].credit_init;
        bench->hosts[0].config.peers = cases[i].peers;
        bench->hosts[0].config.credit_pool = 0;
        bench->hosts[0].attr.rx_depth = cases[i].depth + RESERVE;
        snprintf(bench->hosts[0].queues, sizeof(bench->hosts[0].queues), "P,1472,%u", cases[i].num);
        bench_start(bench, 0);
        btl_ib_engine_rail_info(bench->hosts[0].engine, 0, &info);
        assert_int_equal(info.queues.q[0].init, cases[i].holds);
        end(bench);
    }
}

/* Datagrams that leave in the first turn of a process that was away for `poll_gap` us, of 215 that
 * waited for the transport. */
static uint64_t left_after(bench_t *bench, uint32_t poll_gap)
{
    use_queues(bench, "P,256,256:S,1472,1024,512,500");
    bench_start(bench, 0);
    bench_start(bench, 1);
    bench_send(bench, 0, 1, 20, 1);
    assert_true(bench_settle(bench, SECOND));
    bench_run(bench, 1000);
    bench_set_window(bench, 0, 1, 1000);
    bench->hosts[0].rails[0].full = ~1u;
    for (int i = 0; i < 5; i++) {
        bench_send(bench, 0, 1, 60000, 1);
    }
    bench->hosts[0].rails[0].full = 0;
    const uint64_t before = bench->hosts[0].datagrams;
    bench->now += poll_gap;
    bench_turn(bench, 0);
    return bench->hosts[0].datagrams - before;
}

/* After a pause a turn sends one burst of bulk, and another turn follows, so that what comes
 * meanwhile is received and each burst has a stamp of its own. Else one sends what it may. */
TEST(a_burst_a_turn_after_a_pause)
{
    bench_t *bench = new_bench();

    assert_true(left_after(bench, 20) > 200);
    assert_false(btl_ib_engine_behind(bench->hosts[0].engine));
    assert_true(bench_settle(bench, SECOND));
    end(bench);
    bench = new_bench();
    assert_in_range(left_after(bench, 5000), 1, 64);
    for (int i = 0; i < 30 && btl_ib_engine_behind(bench->hosts[0].engine); i++) {
        bench_turn(bench, 0);
    }
    assert_false(btl_ib_engine_behind(bench->hosts[0].engine));
    assert_true(bench_peer(bench, 0, 1).in_flight > 200);
    assert_true(bench_settle(bench, SECOND));
    end(bench);
}

UNIT_MAIN(NULL, NULL)
