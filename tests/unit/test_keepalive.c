/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Whom an engine asks that is silent, when, and what it takes for the end of a host. */

#include <errno.h>

#include "btl_ib_keepalive.h"
#include "btl_ib_state.h"
#include "pairs.h"

enum { KEEPALIVE = 30 * SECOND, QUESTIONS = 4 };

static btl_ib_conn_t *conn; /* the only one that is watched, unless a test says else */

static int set_up_one(void **state)
{
    (void) set_up(state);
    engine->config.keepalive = KEEPALIVE;
    engine->clock.awake = engine->clock.now = 1000 * (uint64_t) SECOND;
    for (uint32_t i = 0; i < BENCH_RAILS; i++) {
        for (uint32_t k = 0; k < BENCH_RAILS; k++) {
            pair[i][k]->loss.heard_at = engine->clock.awake;
        }
    }
    conn = pair[0][0];
    conn->identity.bound = true;
    bench_clear(&bench->wire);
    return 0;
}

/* So many us pass, and nothing comes. */
static void pass(uint64_t us)
{
    engine->clock.awake += us;
    engine->clock.now += us;
}

/* Returns how many datagrams one look sends, each of which asks. */
static uint32_t look(void)
{
    btl_ib_keepalive_look(engine);
    const uint32_t count = bench->wire.count;
    for (const bench_datagram_t *d = bench->wire.first; d != NULL; d = d->next) {
        assert_true(d->data[1] & BTL_IB_FLAG_ACK_NOW);
    }
    bench_clear(&bench->wire);
    return count;
}

/* One that is silent for the pause is asked, once in each, until it is heard. */
TEST_WITH(asks_who_is_silent, set_up_one, tear_down)
{
    pass(KEEPALIVE - 1);
    assert_int_equal(look(), 0);
    pass(1);
    assert_int_equal(look(), 1);
    assert_int_equal(look(), 0);
    pass(KEEPALIVE - 1);
    assert_int_equal(look(), 0);
    pass(1);
    assert_int_equal(look(), 1);
    assert_int_equal(conn->keepalive.asked, 2);
    pass(1);
    conn->loss.heard_at = engine->clock.awake;
    assert_int_equal(look(), 0);
    assert_int_equal(conn->keepalive.asked, 0);
    pass(KEEPALIVE - 1);
    assert_int_equal(look(), 0);
    pass(1);
    assert_int_equal(look(), 1);
    conn->loss.heard_at = engine->clock.awake; /* the answer came at once */
    assert_int_equal(look(), 0);
    assert_int_equal(conn->keepalive.asked, 0);
}

/* While something is unacknowledged probes ask. It counts as asked nevertheless. */
TEST_WITH(probes_ask, set_up_one, tear_down)
{
    bench_send(bench, 0, 1, 100, 1);
    bench_clear(&bench->wire);
    engine->clock.awake = engine->clock.now = 2000 * (uint64_t) SECOND;
    assert_true(conn->sentmap.unacked > 0);
    assert_int_equal(look(), 0);
    assert_int_equal(conn->keepalive.asked, 1);
    assert_int_equal(conn->keepalive.asked_at, engine->clock.now);
}

/* Those that are over, that nobody knows yet, or that go by rails of others are not asked for. */
TEST_WITH(who_is_not_watched, set_up_one, tear_down)
{
    pass(KEEPALIVE);
    conn->draining = true;
    assert_int_equal(look(), 0);
    conn->draining = false;
    conn->identity.bound = false;
    assert_int_equal(look(), 0);
    conn->identity.bound = true;
    conn->state = BTL_IB_CONN_DEAD;
    assert_int_equal(look(), 0);
    conn->state = BTL_IB_CONN_OPEN;
    engine->rails[0]->health.down = true;
    assert_int_equal(look(), 0);
    engine->rails[0]->health.down = false;
    assert_true(btl_ib_route_take(conn, pair[1][1]));
    assert_int_equal(look(), 0);
    assert_true(btl_ib_route_take(conn, conn));
    assert_int_equal(look(), 1);
}

/* One that was refused is asked again soon, as one refusal is not believed: three times. */
TEST_WITH(asks_again_soon, set_up_one, tear_down)
{
    pass(KEEPALIVE);
    assert_int_equal(look(), 1);
    conn->loss.refused_since = engine->clock.now;
    for (int i = 1; i < QUESTIONS; i++) {
        pass(BTL_IB_REFUSED_LONG - 1);
        assert_int_equal(look(), 0);
        pass(1);
        assert_int_equal(look(), 1);
    }
    pass(BTL_IB_REFUSED_LONG);
    assert_int_equal(look(), 0);
    pass(KEEPALIVE);
    assert_int_equal(look(), 1);
    assert_int_equal(conn->keepalive.asked, QUESTIONS);
}

/* The network says that the host cannot be reached, at this time. */
static void unreachable(int error, uint64_t at)
{
    conn->validation.net_error = (uint8_t) error;
    conn->validation.net_error_at = at;
}

/* A host is gone after four questions that nothing answered if the network said so since the
 * last. */
TEST_WITH(a_host_is_gone, set_up_one, tear_down)
{
    const uint64_t *gone = &bench->hosts[0].deaths[BTL_IB_DEATH_HOST_LOST];

    for (int i = 0; i < QUESTIONS; i++) {
        pass(KEEPALIVE);
        assert_int_equal(look(), 1);
        unreachable(EHOSTUNREACH, engine->clock.awake);
        if (i < QUESTIONS - 1) {
            assert_int_equal(look(), 0);
        }
    }
    unreachable(EHOSTUNREACH, engine->clock.awake - 1); /* of a question before */
    (void) look();
    unreachable(ECONNREFUSED, engine->clock.awake); /* the host is there */
    (void) look();
    unreachable(EHOSTUNREACH, engine->clock.awake);
    conn->loss.heard_at++; /* not long enough */
    conn->keepalive.awake++;
    unreachable(EHOSTUNREACH, engine->clock.awake + 1);
    (void) look();
    conn->loss.heard_at--;
    assert_int_equal(*gone, 0);
    pair[1][1]->identity.bound = true; /* another that is silent has its turn afterwards */
    (void) look();
    assert_int_equal(*gone, 1);
    assert_int_equal(pair[1][1]->keepalive.asked, 0);
    assert_int_equal(look(), 1);
    assert_int_equal(pair[1][1]->keepalive.asked, 1);
}

/* A network that is unreachable counts like the host. */
TEST_WITH(a_network_is_gone, set_up_one, tear_down)
{
    for (int i = 0; i < QUESTIONS; i++) {
        pass(KEEPALIVE);
        assert_int_equal(look(), 1);
    }
    unreachable(ENETUNREACH, engine->clock.awake);
    (void) look();
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_HOST_LOST], 1);
}

/* Each look asks one peer for the first time and one again, in turn, so that neither keeps the
 * others from being asked. */
TEST_WITH(one_after_the_other, set_up_one, tear_down)
{
    uint32_t asked = 0;

    for (uint32_t i = 0; i < BENCH_RAILS; i++) {
        for (uint32_t k = 0; k < BENCH_RAILS; k++) {
            pair[i][k]->identity.bound = true;
        }
    }
    pass(KEEPALIVE);
    for (int n = 1; n <= 4; n++) {
        assert_int_equal(look(), 1);
        asked = 0;
        for (uint32_t i = 0; i < 4; i++) {
            asked += pair[i / 2][i % 2]->keepalive.asked;
        }
        assert_int_equal(asked, n);
    }
    assert_int_equal(look(), 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(pair[i / 2][i % 2]->keepalive.asked, 1);
    }
    pass(KEEPALIVE);
    pair[1][0]->keepalive.asked = 0; /* as if it had not been asked */
    assert_int_equal(look(), 2);
    assert_int_equal(pair[1][0]->keepalive.asked, 1);
    pass(BTL_IB_KEEPALIVE_EACH);
    assert_int_equal(look(), 1);
    assert_int_equal(look(), 1);
    assert_int_equal(look(), 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(pair[i / 2][i % 2]->keepalive.asked, i == 2 ? 1 : 2);
    }
}

/* A pause that is shorter than the time between looks is as long as that. */
TEST_WITH(short_pause, set_up_one, tear_down)
{
    engine->config.keepalive = 1000;
    pass(1000);
    assert_int_equal(look(), 1);
    pass(1000);
    assert_int_equal(look(), 1);
}

/* With few looks in a pause each asks more: all are asked within 16 pauses. */
TEST_WITH(many_for_one_look, set_up_one, tear_down)
{
    enum { PEERS = 60 };
    uint32_t asked = 0, looks = 0;
    btl_ib_conn_t *more[PEERS];

    engine->config.keepalive = BTL_IB_KEEPALIVE_EACH;
    for (uint32_t i = 0; i < PEERS; i++) {
        btl_ib_peer_info_t info = bench_info(bench, 1, 0);
        info.name += 100 + i;
        assert_int_equal(btl_ib_conn_create(engine, 0, &info, NULL, &more[i]), 0);
        more[i]->identity.bound = true;
    }
    engine->clock.awake += BTL_IB_KEEPALIVE_EACH;
    while (asked < PEERS + 1 && looks < 16) {
        asked += look();
        looks++;
    }
    assert_int_equal(asked, PEERS + 1);
    assert_true(looks > 4); /* not all at once */
}

UNIT_MAIN(NULL, NULL)
