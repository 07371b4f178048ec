/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What becomes of GSO bursts that a path does not carry: how many have to be lost, how much shorter
 * they get, and when longer ones are tried again. */

#include "btl_ib_gso.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum {
    MOST = 60000, /* bytes that the transport joins */
    SIZE = 1000,  /* of a datagram, with all that surrounds it */
    LONG = 40000, /* bytes of a burst */
    MS = 1000,
    FIRST_WAIT = 1000 * MS, /* until longer ones are tried again */
};

static bench_t *bench;
static btl_ib_conn_t *conn;
static btl_ib_gso_t *gso;
static uint64_t *now;
static btl_ib_engine_ops_t ops;

/* The verdicts that users were told. */
static struct {
    uint32_t count, lost;
    bool refused;
} told;

static void gso_lost(void *context, btl_ib_conn_t *of, uint32_t lost, bool refused)
{
    assert_ptr_equal(of, conn);
    told.count++;
    told.lost = lost;
    told.refused = refused;
}

static int set_up(void **state)
{
    bench = new_bench();
    for (uint32_t i = 0; i < 2; i++) {
        bench->hosts[i].attr.gso_bytes = MOST;
        bench->hosts[i].attr.max_batch = 64;
    }
    acquaint(bench);
    conn = bench_conn(bench, 0, 1);
    gso = &conn->gso;
    now = &conn->engine->clock.now;
    ops = *conn->engine->ops;
    ops.gso_lost = gso_lost;
    conn->engine->ops = &ops;
    memset(&told, 0, sizeof(told));
    assert_false(gso->watched);
    return 0;
}

static int tear_down(void **state)
{
    end_working(bench);
    return 0;
}

/* A segment that left at `sent` in a burst of so many bytes, 0: alone, in a datagram of `size`. */
static btl_ib_segment_t segment(uint32_t burst, uint32_t size, uint64_t sent)
{
    return (btl_ib_segment_t){.size = size - conn->engine->protection.ops->trailer,
                              .burst = burst,
                              .last_sent = sent,
                              .copies = 1};
}

static bool lose(uint32_t burst)
{
    const btl_ib_segment_t lost = segment(burst, SIZE, *now);

    return btl_ib_gso_lost(conn, &lost);
}

static void arrive(uint32_t burst, uint32_t size)
{
    const btl_ib_segment_t arrived = segment(burst, size, *now);

    btl_ib_gso_watched_arrived(conn, &arrived);
}

/* Loses as many, with so many ms between two. */
static void lose_each(uint32_t burst, int count, uint64_t ms)
{
    for (int i = 0; i < count; i++) {
        *now += i > 0 ? ms * MS : 0;
        assert_true(lose(burst));
    }
}

/* Has bursts of LONG found too long. */
static void find_lost(void)
{
    lose_each(LONG, 5, 5);
    arrive(0, SIZE);
    assert_int_equal(gso->most, LONG / 4);
}

/* ---- shorter ---- */

/* Five lost in a row over 20 ms, while a single one gets through: then bursts are a quarter. */
TEST_WITH(shortened, set_up, tear_down)
{
    const uint64_t before = conn->engine->count.short_bursts;

    assert_int_equal(conn->cc.gso_segments, MOST / conn->pmtud.datagram_max);
    lose_each(LONG, 5, 5);
    assert_true(gso->watched);
    assert_int_equal(told.count, 0); /* all may be lost here */
    arrive(0, SIZE);
    assert_int_equal(gso->most, LONG / 4);
    assert_true(gso->watched);
    assert_int_equal(conn->cc.gso_segments, LONG / 4 / conn->pmtud.datagram_max);
    assert_int_equal(conn->engine->count.short_bursts, before + 1);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.lost, LONG);
    assert_false(told.refused);
    assert_int_equal(gso->losses, 0);
}

/* The order of what arrives and of what is lost does not matter. */
TEST_WITH(a_single_one_came_earlier, set_up, tear_down)
{
    assert_true(lose(LONG));
    arrive(0, SIZE);
    for (int i = 0; i < 4; i++) {
        *now += 5 * MS;
        assert_int_equal(gso->most, 0);
        assert_true(lose(LONG));
    }
    assert_int_equal(gso->most, LONG / 4);
}

/* Four are too few, and a queue that overflows for less than 20 ms is no proof either. */
TEST_WITH(too_few_or_too_soon, set_up, tear_down)
{
    lose_each(LONG, 4, 50);
    arrive(0, SIZE);
    assert_int_equal(gso->most, 0);
    arrive(LONG, SIZE);
    lose_each(LONG, 10, 2);
    arrive(0, SIZE);
    assert_int_equal(gso->most, 0);
    *now += 2 * MS - 1;
    assert_true(lose(LONG));
    assert_int_equal(gso->most, 0);
    *now += 1;
    assert_true(lose(LONG));
    assert_int_equal(gso->most, LONG / 4);
}

/* What was lost at the same time counts once: all of one burst, and what left before the last
 * loss was found. */
TEST_WITH(lost_together, set_up, tear_down)
{
    assert_true(lose(LONG));
    *now += 100 * MS;
    assert_true(lose(LONG));
    assert_int_equal(gso->losses, 2);
    const btl_ib_segment_t earlier = segment(LONG, SIZE, *now - 1);
    *now += 100 * MS;
    assert_true(btl_ib_gso_lost(conn, &earlier));
    assert_int_equal(gso->losses, 2);
}

/* A segment that was alone says nothing of bursts, but of the size of datagrams. */
TEST_WITH(lost_alone, set_up, tear_down)
{
    for (int i = 0; i < 10; i++) {
        *now += 10 * MS;
        assert_false(lose(0));
    }
    assert_false(gso->watched);
    assert_int_equal(gso->losses, 0);
}

/* A row ends if a burst as long gets through, as the path carries it. */
TEST_WITH(one_gets_through, set_up, tear_down)
{
    lose_each(LONG, 4, 10);
    assert_true(lose(LONG - SIZE)); /* the shortest of the row */
    arrive(LONG - SIZE, SIZE);
    assert_int_equal(gso->losses, 0);
    assert_false(gso->watched);
    lose_each(LONG, 4, 10);
    arrive(0, SIZE);
    assert_int_equal(gso->most, 0);
}

/* Bursts become no shorter than one that got through meanwhile; and if one that is no longer is
 * lost that is another row. */
TEST_WITH(shorter_ones_get_through, set_up, tear_down)
{
    lose_each(LONG, 4, 10);
    arrive(LONG / 2, SIZE);
    arrive(LONG / 8, SIZE);
    assert_int_equal(gso->losses, 4);
    arrive(0, SIZE);
    *now += 10 * MS;
    assert_true(lose(LONG));
    assert_int_equal(gso->most, LONG / 2);
}

TEST_WITH(no_longer_than_one_that_came, set_up, tear_down)
{
    lose_each(LONG, 4, 10);
    arrive(0, SIZE);
    arrive(LONG / 2, SIZE);
    *now += 10 * MS;
    assert_true(lose(LONG / 2));
    assert_int_equal(gso->losses, 1);
    assert_int_equal(gso->suspect, LONG / 2);
    lose_each(LONG / 2, 3, 10); /* the first at the same time as the one before */
    arrive(0, SIZE);
    assert_int_equal(gso->most, 0);
    *now += 10 * MS;
    assert_true(lose(LONG / 2));
    assert_int_equal(gso->most, LONG / 8);
}

/* Only datagrams as large as the largest of those lost, sent since, are beside them. */
TEST_WITH(what_is_beside_them, set_up, tear_down)
{
    const uint64_t first = *now;
    const btl_ib_segment_t larger = segment(LONG, SIZE + 8, *now);
    const btl_ib_segment_t before = segment(0, SIZE + 8, first - 1);
    const btl_ib_segment_t since = segment(0, SIZE + 8, first);

    assert_true(btl_ib_gso_lost(conn, &larger));
    *now += 10 * MS;
    lose_each(LONG, 5, 10);
    arrive(0, SIZE + 7);
    assert_int_equal(gso->most, 0);
    btl_ib_gso_watched_arrived(conn, &before);
    assert_int_equal(gso->most, 0);
    btl_ib_gso_watched_arrived(conn, &since);
    assert_int_equal(gso->most, LONG / 4);
}

/* Further down three are enough, at any time. A burst of less than two datagrams is none. */
TEST_WITH(further_down, set_up, tear_down)
{
    find_lost();
    const uint64_t retry_at = gso->retry_at;

    assert_int_equal(retry_at, *now + FIRST_WAIT);
    lose_each(LONG, 5, 10); /* the last of those that left before */
    arrive(0, SIZE);
    assert_int_equal(gso->most, LONG / 4);
    assert_int_equal(gso->losses, 0);
    *now += MS;
    lose_each(LONG / 4, 2, 1);
    arrive(0, SIZE);
    assert_int_equal(gso->most, LONG / 4);
    *now += 1;
    assert_true(lose(LONG / 4));
    const uint32_t quarter = LONG / 4 / 4 < 2 * conn->pmtud.datagram_max ? 1 : LONG / 4 / 4;
    assert_int_equal(gso->most, quarter);
    assert_int_equal(told.count, 2);
    assert_int_equal(gso->retry_at, *now + FIRST_WAIT); /* the first time that one waits */
}

TEST_WITH(down_to_two_datagrams, set_up, tear_down)
{
    const uint32_t two = 2 * conn->pmtud.datagram_max;

    lose_each(4 * two, 5, 5);
    arrive(0, SIZE);
    assert_int_equal(gso->most, two);
    assert_int_equal(conn->cc.gso_segments, 2);
    *now += MS;
    lose_each(two, 3, 1);
    arrive(0, SIZE);
    assert_int_equal(gso->most, 1);
    assert_int_equal(conn->cc.gso_segments, 1);
}

/* ---- refused ---- */

static void make_tx(btl_ib_tx_t tx[4], uint32_t last)
{
    for (int i = 0; i < 4; i++) {
        tx[i] = (btl_ib_tx_t){.size = i == 3 ? last : SIZE};
    }
}

/* A host that has no buffers for a burst: that counts as a loss, once at a time. */
TEST_WITH(refused_by_the_host, set_up, tear_down)
{
    btl_ib_tx_t tx[4];

    make_tx(tx, 500);
    assert_int_equal(btl_ib_gso_joined(conn, tx, 1), 1);
    assert_int_equal(btl_ib_gso_joined(conn, tx, 4), 4);
    for (uint32_t i = 1; i <= 5; i++) {
        btl_ib_gso_refused(conn, tx, 4);
        btl_ib_gso_refused(conn, tx, 4);
        assert_int_equal(gso->losses, i);
        *now += i < 5 ? 5 * MS : 0;
    }
    assert_int_equal(gso->suspect, 3 * SIZE + 500);
    assert_int_equal(gso->datagram, SIZE);
    arrive(0, SIZE);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.lost, 3 * SIZE + 500);
    assert_true(told.refused);
    assert_int_equal(gso->most, 1);
    *now += MS;
    for (int i = 0; i < 4; i++) {
        tx[i].gso_most = gso->most;
    }
    assert_int_equal(btl_ib_gso_joined(conn, tx, 4), 1);
}

/* Each segment knows with how many bytes it was joined, and those alone know that. */
TEST_WITH(joined_with, set_up, tear_down)
{
    static const uint32_t bursts[] = {3500, 3500, 3500, 3500, 2 * SIZE, 2 * SIZE, 0};
    btl_ib_tx_t tx[7];
    btl_ib_segment_t segments[7], *at[7];

    make_tx(tx, 500);
    tx[4] = tx[5] = tx[6] = tx[0];
    tx[6].flow = 1;
    for (int i = 0; i < 7; i++) {
        segments[i] = segment(0, SIZE, *now);
        at[i] = &segments[i];
    }
    btl_ib_gso_left(conn, tx, at, 7);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(segments[i].burst, bursts[i]);
    }
}

/* From two losses on only what is sent the first time is joined. */
TEST_WITH(in_doubt, set_up, tear_down)
{
    btl_ib_segment_t fresh = segment(0, SIZE, 0), again = fresh;

    fresh.copies = 0;
    lose_each(LONG, 1, 0);
    assert_int_equal(btl_ib_gso_most(gso, &again), 0);
    *now += MS;
    lose_each(LONG, 1, 0);
    assert_int_equal(btl_ib_gso_most(gso, &again), 1);
    assert_int_equal(btl_ib_gso_most(gso, &fresh), 0);
    gso->most = LONG;
    assert_int_equal(btl_ib_gso_most(gso, &fresh), LONG);
}

/* ---- longer again ---- */

/* After a second bursts are four times as long, and again once one that is longer than before, and
 * not far shorter than now, got through; until the transport's own limit is back. */
TEST_WITH(longer_again, set_up, tear_down)
{
    find_lost();
    *now += FIRST_WAIT - 1;
    arrive(0, SIZE);
    assert_int_equal(gso->most, LONG / 4);
    *now += 1;
    arrive(0, SIZE);
    assert_int_equal(gso->most, LONG);
    assert_int_equal(conn->cc.gso_segments, LONG / conn->pmtud.datagram_max);
    arrive(LONG / 4, SIZE);
    arrive(LONG / 2 - 1, SIZE);
    assert_int_equal(gso->most, LONG);
    assert_true(gso->raised);
    arrive(LONG / 2, SIZE);
    assert_int_equal(gso->most, 0); /* four times LONG are more than MOST */
    assert_true(gso->watched);
    arrive(LONG, SIZE);
    assert_true(gso->watched);
    arrive(LONG + 1, SIZE);
    assert_false(gso->watched);
    assert_false(gso->raised);
    assert_int_equal(told.count, 1);
}

/* Four times the bytes that are exactly the transport's: its limit is none of ours. */
TEST_WITH(as_long_as_the_transport_joins, set_up, tear_down)
{
    lose_each(MOST, 5, 5);
    arrive(0, SIZE);
    assert_int_equal(gso->most, MOST / 4);
    *now += FIRST_WAIT;
    arrive(0, SIZE);
    assert_int_equal(gso->most, 0);
    assert_true(gso->raised);
}

/* From single ones it goes up by datagrams. */
TEST_WITH(up_from_single_ones, set_up, tear_down)
{
    lose_each(2 * SIZE, 5, 5);
    arrive(0, SIZE);
    assert_int_equal(gso->most, 1);
    *now += FIRST_WAIT;
    arrive(0, SIZE);
    assert_int_equal(gso->most, 4 * conn->pmtud.datagram_max);
    assert_int_equal(conn->cc.gso_segments, 4);
}

/* Longer ones that are lost again are given up after three, at once down to what got through, and
 * nobody is told again; they are tried later each time, at most after 512 s. */
TEST_WITH(later_each_time, set_up, tear_down)
{
    uint32_t wait = FIRST_WAIT;

    find_lost();
    for (int i = 0; i < 12; i++) {
        assert_int_equal(gso->retry_at, *now + wait);
        *now += wait;
        arrive(0, SIZE);
        assert_int_equal(gso->most, LONG);
        lose_each(LONG, 3, 1);
        assert_true(gso->raised);
        arrive(0, SIZE);
        assert_int_equal(gso->most, LONG / 4);
        assert_false(gso->raised);
        wait = 2 * wait < 512 * FIRST_WAIT ? 2 * wait : 512 * FIRST_WAIT;
    }
    assert_int_equal(told.count, 1);
}

/* While a row goes on nothing is raised. */
TEST_WITH(not_during_a_row, set_up, tear_down)
{
    find_lost();
    *now += FIRST_WAIT;
    assert_true(lose(LONG / 4));
    arrive(0, SIZE);
    assert_int_equal(gso->most, LONG / 4);
    arrive(LONG / 4, SIZE); /* ends it */
    assert_int_equal(gso->most, LONG);
}

UNIT_MAIN(NULL, NULL)
