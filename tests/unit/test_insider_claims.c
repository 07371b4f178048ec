/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A peer with the token claims what nobody can check at once: clocks, tags, lives, and any field at
 * random. */

#include <stdlib.h>
#include <string.h>

#include "insider.h"
#include "support.h"
#include "unit.h"

static test_random_t numbers = TEST_RANDOM_SEED;

/* ---- clocks ---- */

static void throw_echo(bench_t *bench, uint32_t echo, uint16_t hold, const char *cause)
{
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_ACK);

    forgery.header.flags = BTL_IB_FLAG_ECHO;
    forgery.header.echo = BTL_IB_LE32(echo);
    forgery.header.hold = BTL_IB_LE16(hold);
    if (cause != NULL) {
        without_effect(bench, &forgery, cause);
    } else {
        bench_throw_forgery(bench, 0, 1, &forgery);
    }
}

TEST(clocks_that_cannot_be)
{
    bench_t *bench = job();

    bench_run(bench, SECOND);
    uint32_t now = (uint32_t) bench->now;
    throw_echo(bench, now + 1, 0, "received_acks");            /* from the future */
    throw_echo(bench, now + 1000000, 0, "received_acks");      /* far */
    throw_echo(bench, now + (1u << 31), 0, "received_acks");   /* as far as can be */
    throw_echo(bench, now - 100, 101, "received_acks");        /* held for longer than it took */
    throw_echo(bench, now - 100, UINT16_MAX, "received_acks"); /* held for an unknown time */
    throw_echo(bench, 0, 0, "received_acks");                  /* of long ago */
    end_working(bench);
}

static bool loses_one(bench_t *bench, const bench_datagram_t *datagram)
{
    return bench->scratch[0] > 0 && bench->scratch[0]-- > 0;
}

/* Round trips of any length are claimed: the timeout stays within its bounds, and the truth
 * returns. */
TEST(round_trips_that_never_were)
{
    bench_t *bench = job();

    bench_run(bench, 30 * SECOND);
    throw_echo(bench, (uint32_t) bench->now - 20 * SECOND, 0, NULL); /* one lie is not believed */
    assert_true(victim(bench).srtt < 1000);
    for (uint32_t i = 0; i < 2000; i++) { /* each doubles what was believed, as far as it may */
        bench->now += 10;
        throw_echo(bench, (uint32_t) bench->now - 500000 + i * 5, 0, NULL);
    }
    uint32_t believed = victim(bench).srtt;
    assert_true(believed <= 500000);
    bench->loses = loses_one;
    bench->scratch[0] = 1;
    bench_send(bench, 0, 1, 100, 1);
    /* Lost: asked for again within the longest timeout all the same. */
    assert_true(bench_settle(bench, 2 * bench->hosts[0].config.rto_max));
    for (int i = 0; i < 200; i++) {
        bench_send(bench, 0, 1, 100, 1);
        assert_true(bench_settle(bench, SECOND));
        bench_run(bench, 100);
    }
    assert_true(victim(bench).srtt < 1000);
    end_working(bench);
}

/* A stamp from far ahead hides the true ones: then there are no samples for a while, but no
 * harm. */
TEST(a_stamp_from_the_future)
{
    bench_t *bench = job();
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_ACK);
    uint32_t srtt = bench_peer(bench, 1, 0).srtt;

    forgery.header.stamp = BTL_IB_LE32((uint32_t) bench->now + (1u << 30));
    bench_throw_forgery(bench, 0, 1, &forgery);
    still_works(bench);
    assert_int_equal(bench_peer(bench, 1, 0).srtt, srtt);
    end(bench);
}

/* ---- claims ---- */

/* "Nobody listens to that tag" explains a death; it brings none about, and news takes it back. */
TEST(a_tag_that_has_its_receiver)
{
    bench_t *bench = job_in_flight();
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_ACK);

    forgery.header.flags = BTL_IB_FLAG_NO_TAG;
    for (int i = 0; i < 100; i++) {
        without_effect(bench, &forgery, "received_acks");
    }
    assert_true(victim(bench).no_tag);
    assert_true(bench_settle(bench, SECOND));
    assert_false(victim(bench).no_tag);
    end_working(bench);
}

/* A CONNECT of host 1 for host 0 with the token that its epoch calls for. */
static bench_forgery_t contact(bench_t *bench, uint32_t epoch, uint32_t floor)
{
    const bench_host_t *liar = &bench->hosts[1];
    bench_forgery_t forgery = data(bench, 0);
    btl_ib_wire_connect_t connect = {
        .name = BTL_IB_LE64(liar->config.name),
        .connection = BTL_IB_LE32(bench_peer(bench, 1, 0).id),
        .epoch = BTL_IB_LE32(epoch),
        .floor = BTL_IB_LE32(floor),
    };

    forgery.header.connection = 0;
    forgery.header.flags = BTL_IB_FLAG_CONNECT;
    forgery.header.token = BTL_IB_LE64(btl_ib_token(
        &bench->hosts[0].config.secret, liar->config.name, &liar->config.secret, epoch, 0));
    bench_append(&forgery, &connect, sizeof(connect));
    return forgery;
}

TEST(lives_that_never_were)
{
    bench_t *bench = job_in_flight();
    uint32_t epoch = victim(bench).peer_epoch;
    uint32_t ours = bench_totals(&bench->hosts[0]).epoch;
    bench_forgery_t forgery;

    forgery = contact(bench, epoch - 1, 0); /* older than the present */
    without_effect(bench, &forgery, "dropped_stale");
    forgery = contact(bench, epoch - (1u << 30), 0);
    without_effect(bench, &forgery, "dropped_stale");
    forgery = contact(bench, epoch + 1, ours + 2); /* lives of ours that never began have ended */
    without_effect(bench, &forgery, "dropped_stale");
    forgery = contact(bench, epoch + 1, ours + (1u << 30));
    without_effect(bench, &forgery, "dropped_stale");
    forgery = contact(bench, epoch, ours + 2); /* of the present life the same is no better */
    without_effect(bench, &forgery, "dropped_stale");
    end_working(bench);
}

/* The own name in a CONNECT, with a token that only we could have made. */
TEST(our_own_name)
{
    bench_t *bench = job();
    const bench_host_t *host = &bench->hosts[0];
    bench_forgery_t forgery = contact(bench, 5, 0);
    btl_ib_wire_connect_t connect = {
        .name = BTL_IB_LE64(host->config.name),
        .connection = BTL_IB_LE32(77),
        .epoch = BTL_IB_LE32(5),
    };

    memcpy(forgery.body, &connect, sizeof(connect));
    without_effect(bench, &forgery, "dropped_token"); /* made with the secret of another */
    end_working(bench);
}

/* Random fields under a valid token: sums agree, nothing is delivered that was not sent but what
 * the liar could have sent himself, and the others do not notice. */
TEST(any_fields)
{
    bench_t *bench = job();
    bench_host_t *host = &bench->hosts[0];

    for (int i = 0; i < 20000; i++) {
        if (bench_conn(bench, 0, 1) == NULL) {
            bench_connect(bench, 0, 1);
        }
        bench_forgery_t forgery = lie(bench, (btl_ib_type_t) (1 + i % 4)); /* all but CLOSE */
        uint64_t noise[4] = {test_random64(&numbers), test_random64(&numbers),
                             test_random64(&numbers), test_random64(&numbers)};
        bench_append(&forgery, noise, test_random_below(&numbers, sizeof(noise)));
        uint8_t *bytes = (uint8_t *) &forgery.header;
        uint32_t at = test_random_below(&numbers, sizeof(forgery.header));
        if (at != 0 && (at < 4 || at >= 16) && at != 26 && at != 27) {
            bytes[at] = (uint8_t) noise[0];
        }
        bench_throw_forgery(bench, 0, 1, &forgery);
        bench_check_counters(host);
        bench_check_accounts(host);
        bench_clear(&bench->wire);
    }
    bench_send(bench, 2, 0, 30000, 1);
    bench_send(bench, 0, 2, 30000, 1);
    bench_run(bench, SECOND);
    assert_int_equal(bench->messages[bench->message_count - 2].delivered, 1);
    assert_int_equal(bench->messages[bench->message_count - 1].delivered, 1);
    end(bench);
}

UNIT_MAIN(NULL, NULL)
