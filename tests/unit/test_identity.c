/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Who the two ends of a connection are, verb by verb, of a connection that is no more than that. */

#include <string.h>

#include "btl_ib_identity.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

enum { RAIL = 0, REMOTE = 1, EPOCH = 41, PEER_ID = 0x123456 };

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t conn;
static btl_ib_protection_keys_t keys;
static btl_ib_peer_info_t info;

/* Of a process whose name nobody else has; with keys if `protection` has any. False: it is not
 * there. */
static bool begin_with(btl_ib_protection_kind_t protection)
{
    bench = new_bench();
    if (!bench_protection(bench, protection)) {
        end(bench);
        return false;
    }
    bench_start(bench, 0);
    bench_start(bench, 1);
    engine = bench->hosts[0].engine;
    info = bench_info(bench, 1, 0);
    info.name += 1000;
    info.rail = REMOTE;
    info.ack_delay = 77;
    conn = (btl_ib_conn_t){.engine = engine, .rail = engine->rails[RAIL]};
    memset(&keys, 0, sizeof(keys));
    btl_ib_identity_init(&conn, &info, engine->protection.ops->keyed ? &keys : NULL);
    assert_int_equal(btl_ib_tombstones_prepare(&engine->tombstones), 0);
    assert_int_equal(btl_ib_identity_register(&conn), 0);
    return true;
}

static void begin(void)
{
    assert_true(begin_with(BTL_IB_PROTECTION_NONE));
}

static void finish(void)
{
    btl_ib_identity_fini(&conn);
    end(bench);
}

/* Datagrams of the peer name the connection by its id, others look for its name and both rails. */
TEST(is_found)
{
    begin();
    assert_int_equal(conn.identity.name, info.name);
    assert_memory_equal(&conn.identity.secret, &info.secret, sizeof(info.secret));
    assert_int_equal(conn.identity.remote_rail, REMOTE);
    assert_int_equal(conn.identity.peer_ack_delay, 77);
    assert_int_equal(conn.identity.version, btl_ib_versions_common(engine->config.wire, info.wire));
    assert_int_not_equal(conn.identity.version, 0);
    assert_null(conn.identity.keys);
    assert_ptr_equal(btl_ib_table_by_id(&engine->table, conn.identity.id), &conn);
    assert_ptr_equal(btl_ib_table_by_name(&engine->table, info.name, RAIL, REMOTE), &conn);
    assert_null(btl_ib_table_by_name(&engine->table, info.name, REMOTE, RAIL));
    btl_ib_identity_fini(&conn);
    assert_null(btl_ib_table_by_id(&engine->table, conn.identity.id));
    assert_null(btl_ib_table_by_name(&engine->table, info.name, RAIL, REMOTE));
    end(bench);
}

/* Each incarnation has an epoch that no other of this process had, and a token of its own, which
 * the peer computes as well. */
TEST(incarnations)
{
    begin();
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t before = engine->incarnations.newest;
        conn.identity.contacted = true;
        btl_ib_identity_begin(&conn);
        assert_int_equal(engine->incarnations.newest, before + 1);
        assert_int_equal(conn.identity.epoch, before + 1);
        assert_false(conn.identity.contacted);
        assert_int_equal(conn.identity.peer_floor, 0);
        assert_int_equal(conn.identity.tx_token,
                         btl_ib_token(&info.secret, engine->config.name, &engine->config.secret,
                                      before + 1, btl_ib_rails_of(RAIL, REMOTE)));
    }
    finish();
}

/* What the peer's first datagram says is what it is known by. */
static void bind_peer(uint32_t epoch)
{
    btl_ib_arrival_t arrival = {0};

    arrival.view.connect.connection = PEER_ID;
    arrival.view.connect.epoch = epoch;
    arrival.view.token = 0x1122334455667788;
    btl_ib_identity_bind(&conn, &arrival);
    assert_true(conn.identity.bound);
    assert_int_equal(conn.identity.peer_id, PEER_ID);
    assert_int_equal(conn.identity.peer_epoch, epoch);
    assert_int_equal(conn.identity.rx_token, 0x1122334455667788);
}

/* An incarnation of the peer that ended does not come back: of the same process over the same two
 * rails. One that nobody was bound to leaves nothing. */
TEST(ended_ones_stay_ended)
{
    btl_ib_tombstone_t ended;

    begin();
    conn.identity.peer_epoch = EPOCH;
    btl_ib_identity_add_tombstone(&conn);
    btl_ib_identity_begin(&conn);
    assert_int_equal(conn.identity.peer_floor, 0);
    bind_peer(EPOCH);
    btl_ib_identity_add_tombstone(&conn);
    btl_ib_identity_unbind(&conn.identity);
    btl_ib_identity_begin(&conn);
    assert_int_equal(conn.identity.peer_floor, EPOCH + 1);
    ended = (btl_ib_tombstone_t){.name = info.name,
                                 .secret = info.secret.k[0],
                                 .rail = RAIL,
                                 .remote_rail = REMOTE,
                                 .epoch = EPOCH};
    assert_int_equal(btl_ib_tombstones_floor(&engine->tombstones, &ended), EPOCH + 1);
    ended.secret++;
    assert_int_equal(btl_ib_tombstones_floor(&engine->tombstones, &ended), 0);
    finish();
}

/* The tombstone's place may be another's by now: what was known stays. */
TEST(forgotten_tombstone)
{
    begin();
    bind_peer(EPOCH);
    btl_ib_identity_add_tombstone(&conn);
    btl_ib_identity_begin(&conn);
    bench_forget_ended(&bench->hosts[0]);
    btl_ib_identity_begin(&conn);
    assert_int_equal(conn.identity.peer_floor, EPOCH + 1);
    finish();
}

static bool is_zero(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (((const uint8_t *) bytes)[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Keys are made of what the peer published, anew for each incarnation, and nothing is left of
 * them. */
TEST(keys_live_as_long_as_the_connection)
{
    static uint8_t datagram[256];
    btl_ib_arrival_t arrival = {.data = datagram, .size = 200}; /* and its trailer */

    if (!begin_with(BTL_IB_PROTECTION_INTEGRITY)) {
        skip();
    }
    assert_ptr_equal(conn.identity.keys, &keys);
    assert_memory_equal(&keys.peer, &info.key, sizeof(info.key));
    engine->config.first_number = 55;
    keys.number = 1000;
    keys.tx.begun = true;
    btl_ib_identity_begin(&conn);
    assert_int_equal(keys.number, 55);
    assert_false(keys.tx.begun);
    const uint64_t number = BTL_IB_LE64(UINT64_C(9));
    memcpy(datagram + arrival.size, &number, sizeof(number));
    arrival.way.begun = true;
    arrival.way.secret[0] = 0x77;
    btl_ib_identity_bind(&conn, &arrival);
    assert_true(keys.rx.begun);
    assert_int_equal(keys.rx.secret[0], 0x77);
    assert_false(btl_ib_replay_fresh(&keys.replay, 9)); /* that datagram is not taken again */
    assert_true(btl_ib_replay_fresh(&keys.replay, 10));
    btl_ib_identity_fini(&conn);
    assert_true(is_zero(&keys, sizeof(keys)));
    end(bench);
}

UNIT_MAIN(NULL, NULL)
