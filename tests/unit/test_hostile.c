/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What somebody without the present token can do to an engine: forge, guess, replay, cut,
 * flood. Nothing may change, and each datagram is counted once, by its cause. For somebody with
 * the token see test_insider.c.
 */

#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "support.h"
#include "unit.h"

enum {
    TOKEN_AT = offsetof(btl_ib_wire_header_t, token),
    CONNECTION_AT = offsetof(btl_ib_wire_header_t, connection),
};

static test_random_t numbers = TEST_RANDOM_SEED;

/* Throw one datagram: nothing changes but the counter of its cause. */
static void without_effect(bench_t *bench, uint32_t to, uint32_t source, const void *data,
                           uint32_t size, const char *cause)
{
    bench_watch_t watch;
    uint64_t sent = bench->hosts[to].datagrams;

    bench_watch(&bench->hosts[to], true, &watch);
    bench_throw(bench, to, source, data, size);
    bench_unchanged(&watch, cause, 1);
    assert_int_equal(bench->hosts[to].datagrams, sent);
}

/* A genuine datagram from host 0 to 1 that never arrived, of a message of `size` bytes. */
static bench_datagram_t *intercept(bench_t *bench, uint32_t size)
{
    bench_send(bench, 0, 1, size, 1);
    bench_datagram_t *datagram = bench_copy(bench->wire.first);
    return datagram;
}

/* ---- forgery ---- */

TEST(a_wrong_source)
{
    bench_t *bench = job();
    bench_datagram_t *genuine = intercept(bench, 100);

    without_effect(bench, 1, BENCH_UNKNOWN, genuine->data, genuine->size, "dropped_source");
    without_effect(bench, 1, bench_address(2, 0), genuine->data, genuine->size, "dropped_source");
    without_effect(bench, 1, bench_address(0, 1), genuine->data, genuine->size, "dropped_source");
    free(genuine);
    end_working(bench);
}

/* protocol: R78 */
TEST(a_wrong_token)
{
    bench_t *bench = job();
    bench_datagram_t *genuine = intercept(bench, 100);

    for (uint32_t bit = 0; bit < 64; bit++) {
        genuine->data[TOKEN_AT + bit / 8] ^= (uint8_t) (1u << bit % 8);
        without_effect(bench, 1, genuine->source, genuine->data, genuine->size, "dropped_token");
        genuine->data[TOKEN_AT + bit / 8] ^= (uint8_t) (1u << bit % 8);
    }
    memset(genuine->data + TOKEN_AT, 0, 8);
    without_effect(bench, 1, genuine->source, genuine->data, genuine->size, "dropped_token");
    free(genuine);
    end_working(bench);
}

/* A response to a first contact, by a sender that does not know what the real one would prove. */
TEST(a_forged_response)
{
    bench_t *bench = job();
    bench_send(bench, 0, 1, 100, 1); /* on the wire, and not answered */
    const uint32_t id = bench_peer(bench, 0, 1).id;
    const uint64_t token = bench_peer(bench, 1, 0).token;
    btl_ib_wire_header_t response = {
        .version_type = BTL_IB_WIRE_VERSION << 4 | BTL_IB_TYPE_PATH_RESPONSE,
        .connection = BTL_IB_LE32(id),
    };
    const uint64_t right = btl_ib_token_of_response(&bench->hosts[1].config.secret, token, id);

    for (uint32_t bit = 0; bit < 64; bit++) {
        response.token = BTL_IB_LE64(right ^ UINT64_C(1) << bit);
        without_effect(bench, 0, bench_address(1, 0), &response, sizeof(response), "dropped_token");
    }
    response.token = BTL_IB_LE64(token);
    without_effect(bench, 0, bench_address(1, 0), &response, sizeof(response), "dropped_token");
    response.token = BTL_IB_LE64(right);
    without_effect(bench, 0, bench_address(1, 0), &response, sizeof(response), "dropped_stale");
    response.connection = BTL_IB_LE32(id ^ 0x40000000u); /* an earlier user of its place */
    without_effect(bench, 0, bench_address(1, 0), &response, sizeof(response), "dropped_unknown");
    end_working(bench);
}

/* The token of one connection under the number of another, or of none. */
TEST(a_wrong_connection)
{
    bench_t *bench = job();
    bench_datagram_t *genuine = intercept(bench, 100);
    uint32_t id = bench_peer(bench, 1, 0).id;

    for (uint32_t bit = 0; bit < 32; bit++) {
        uint32_t wrong = BTL_IB_LE32(id ^ 1u << bit);
        memcpy(genuine->data + CONNECTION_AT, &wrong, sizeof(wrong));
        without_effect(bench, 1, genuine->source, genuine->data, genuine->size, "dropped_unknown");
    }
    memset(genuine->data + CONNECTION_AT, 0, sizeof(id));
    without_effect(bench, 1, genuine->source, genuine->data, genuine->size, "dropped_unknown");
    /* Host 0 has two connections; what is right for one is wrong for the other. */
    bench_forgery_t forgery = bench_forge(bench, 0, 1, BTL_IB_TYPE_ACK);
    forgery.header.connection = BTL_IB_LE32(bench_peer(bench, 0, 2).id);
    without_effect(bench, 0, bench_address(1, 0), &forgery, forgery.size, "dropped_token");
    free(genuine);
    end_working(bench);
}

/* Every type, with sequences around what is expected, but without the token. */
TEST(a_guessed_sequence)
{
    bench_t *bench = job();

    for (uint32_t type = BTL_IB_TYPE_DATA; type <= BTL_IB_TYPE_CLOSE; type++) {
        for (uint32_t i = 0; i < 50; i++) {
            bench_forgery_t forgery = bench_forge(bench, 1, 0, (btl_ib_type_t) type);
            uint32_t body[3] = {BTL_IB_LE32(1), BTL_IB_LE32(4), BTL_IB_LE32(4u << 16)};
            uint32_t sizes[] = {0, 12, 12 + 4, 4, 0, 0};
            forgery.header.token = BTL_IB_LE64(test_random64(&numbers));
            forgery.header.seq = BTL_IB_LE32(BTL_IB_LE32(forgery.header.seq) + i);
            bench_append(&forgery, body, sizes[type] < 12 ? sizes[type] : 12);
            if (type == BTL_IB_TYPE_CHUNK) {
                bench_append(&forgery, body, 4);
            }
            without_effect(bench, 1, bench_address(0, 0), &forgery, forgery.size, "dropped_token");
        }
    }
    end_working(bench);
}

TEST(a_forged_close)
{
    bench_t *bench = job();
    bench_forgery_t forgery = bench_forge(bench, 1, 0, BTL_IB_TYPE_CLOSE);
    btl_ib_wire_connect_t connect = {
        .name = BTL_IB_LE64(bench->hosts[0].config.name),
        .connection = BTL_IB_LE32(bench_peer(bench, 0, 1).id),
        .epoch = BTL_IB_LE32(bench_peer(bench, 0, 1).epoch + 1),
        .floor = BTL_IB_LE32(100),
    };

    bench_send(bench, 1, 0, 5000, 1); /* something that it would lose */
    without_effect(bench, 1, BENCH_UNKNOWN, &forgery, forgery.size, "dropped_source");
    forgery.header.token ^= 1;
    without_effect(bench, 1, bench_address(0, 0), &forgery, forgery.size, "dropped_token");
    forgery.header.flags = BTL_IB_FLAG_CONNECT;
    bench_append(&forgery, &connect, sizeof(connect));
    without_effect(bench, 1, bench_address(0, 0), &forgery, forgery.size, "dropped_token");
    forgery.header.connection = 0;
    without_effect(bench, 1, bench_address(0, 0), &forgery, forgery.size, "dropped_token");
    end_working(bench);
}

/* A first contact of nobody, and two that would close what it opens. All are kept until the turn
 * ends; then each of the two finds the other kept still. */
TEST(a_forged_contact_and_closes)
{
    bench_t *bench = job();
    bench_datagram_t *datagram = intercept(bench, 100);
    const btl_ib_counters_t *count = btl_ib_engine_counters(bench->hosts[1].engine);
    const uint64_t unknown = count->dropped_unknown;
    const btl_ib_wire_connect_t connect = {
        .name = BTL_IB_LE64(12345),
        .connection = BTL_IB_LE32(1),
        .epoch = BTL_IB_LE32(1),
    };
    static const btl_ib_type_t types[] = {BTL_IB_TYPE_DATA, BTL_IB_TYPE_CLOSE, BTL_IB_TYPE_CLOSE};

    for (uint32_t i = 0; i < 3; i++) {
        bench_forgery_t forgery = bench_forge(bench, 1, 0, types[i]);
        forgery.header.flags = BTL_IB_FLAG_CONNECT;
        forgery.header.connection = 0;
        forgery.header.token = i + 1;
        bench_append(&forgery, &connect, sizeof(connect));
        assert_true(forgery.size <= datagram->size);
        bench_datagram_t *copy = bench_copy(datagram);
        copy->source = BENCH_UNKNOWN;
        copy->size = forgery.size;
        memcpy(copy->data, &forgery, forgery.size);
        bench_deliver(bench, copy);
    }
    bench_turn(bench, 1);
    assert_int_equal(count->dropped_unknown - unknown, 3);
    assert_int_equal(count->received_unidentified, 3);
    free(datagram);
    end_working(bench);
}

/* First contacts of nobody, as many as a turn takes in: `token` counts them. */
static void flood(bench_t *bench, uint64_t *token)
{
    bench_forgery_t forgery = bench_forge(bench, 1, 0, BTL_IB_TYPE_DATA);
    const btl_ib_wire_connect_t connect = {
        .name = BTL_IB_LE64(12345),
        .connection = BTL_IB_LE32(1),
        .epoch = BTL_IB_LE32(1),
    };

    forgery.header.flags = BTL_IB_FLAG_CONNECT;
    forgery.header.connection = 0;
    bench_append(&forgery, &connect, sizeof(connect));
    for (uint32_t i = 0; i < BENCH_BURST; i++) {
        bench_datagram_t *datagram = calloc(1, sizeof(*datagram) + forgery.size);

        assert_non_null(datagram);
        forgery.header.token = ++*token;
        datagram->source = BENCH_UNKNOWN;
        datagram->to = bench_address(1, 0);
        datagram->size = forgery.size;
        memcpy(datagram->data, &forgery, forgery.size);
        bench_deliver(bench, datagram);
    }
}

/* While the application is away first contacts are kept, up to 1 MiB of them, and each that comes
 * is compared with all. Once it is back it looks up more than come, so that a quarter is left
 * whatever comes. */
TEST(a_flood_of_contacts)
{
    bench_t *bench = job();
    const btl_ib_counters_t *count = btl_ib_engine_counters(bench->hosts[1].engine);
    const size_t before = bench->hosts[1].bytes;
    uint64_t token = 0;

    for (int i = 0; i < 200; i++) {
        flood(bench, &token);
        btl_ib_engine_async_progress(bench->hosts[1].engine, ++bench->now, BENCH_BURST);
    }
    assert_in_range(count->received_unidentified, 3000, 10000);
    assert_in_range(bench->hosts[1].bytes - before, 1000 * 1000, 1100 * 1000);
    for (int i = 0; i < 300; i++) {
        flood(bench, &token);
        bench->now++;
        bench_turn(bench, 1);
        bench_clear(&bench->wire);
    }
    assert_in_range(bench->hosts[1].bytes - before, 0, 300 * 1000);
    end_working(bench);
}

/* ---- replay ---- */

/* A job whose datagrams are all written down. */
static void tape(bench_t *bench)
{
    bench->taping = true;
    for (uint32_t i = 0; i < 3; i++) {
        bench_start(bench, i);
    }
    talk(bench, 4);
    bench_run(bench, 3 * SECOND); /* idle peers give credits back */
    talk(bench, 2);
    bench->taping = false;
}

static bench_t *taped_job(void)
{
    bench_t *bench = new_bench();

    tape(bench);
    return bench;
}

/* The tape as an array, in one of several orders. */
static bench_datagram_t **order(const bench_t *bench, int which, uint32_t *count)
{
    bench_datagram_t **list = malloc((bench->tape.count + 1) * sizeof(*list));
    uint32_t n = 0;

    assert_non_null(list);
    for (bench_datagram_t *d = bench->tape.first; d != NULL; d = d->next) {
        list[n++] = d;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = which == 1 ? n - 1 - i : which == 2 ? test_random_below(&numbers, n) : i;
        if (which == 2 || (which == 1 && k > i)) {
            bench_datagram_t *other = list[i];
            list[i] = list[k];
            list[k] = other;
        }
    }
    *count = n;
    return list;
}

static void replay(bench_t *bench, int which, bool clocks, const char *cause)
{
    uint32_t count;
    bench_datagram_t **list = order(bench, which, &count);

    assert_true(count > 50);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t to = list[i]->to / BENCH_RAILS;
        bench_watch_t watch;
        bench_watch(&bench->hosts[to], clocks, &watch);
        bench_throw(bench, to, list[i]->source, list[i]->data, list[i]->size);
        if (cause != NULL) {
            bench_unchanged(&watch, cause, 1);
        }
        bench_check_counters(&bench->hosts[to]);
        bench_check_accounts(&bench->hosts[to]);
        bench_clear(&bench->wire); /* what it answers with is of no interest */
    }
    free(list);
}

/* Into a new incarnation of the same processes, before and after they know each other. */
TEST(replay_of_an_earlier_job)
{
    for (int which = 0; which < 3; which++) {
        bench_t *bench = taped_job();
        for (uint32_t i = 0; i < 2; i++) {
            bench_stop(bench, i);
            bench_start(bench, i);
        }
        replay(bench, which, true, "dropped_");
        talk(bench, 2);
        replay(bench, which, true, "dropped_");
        bench_send(bench, 0, 1, 5000,
                   1); /* with something in flight, to be acknowledged by no replay */
        bench_clear(&bench->wire);
        replay(bench, which, true, "dropped_");
        end_working(bench);
    }
}

/* One of two was restarted: the other must not take its earlier self for it. */
TEST(replay_after_one_restarted)
{
    bench_t *bench = taped_job();

    bench_stop(bench, 1);
    bench_start(bench, 1);
    bench_send(bench, 1, 0, 100, 1);
    bench_run(bench, SECOND);
    assert_int_equal(bench->hosts[0].deaths[BTL_IB_DEATH_RESTARTED], 1);
    replay(bench, 2, true, "dropped_");
    end_working(bench);
}

/* Later in the same life: all of it is known already. */
TEST(replay_in_the_same_life)
{
    for (int which = 0; which < 3; which++) {
        bench_t *bench = taped_job();
        replay(bench, which, false, NULL);
        each_delivered_once(bench);
        bench_send(bench, 0, 1, 5000, 1);
        bench_clear(&bench->wire);
        replay(bench, which, false, NULL);
        bench_run(bench, 3000);
        end_working(bench);
    }
}

/* Closed and opened again, more often than the engine keeps memories of. */
TEST(replay_of_an_ended_life)
{
    bench_t *bench = taped_job();

    for (int life = 0; life < 600; life++) {
        uint32_t who = (uint32_t) life % 2;
        btl_ib_conn_destroy(bench_conn(bench, who, 1 - who), bench->now);
        bench_run(bench, 5000);
        if (life % 200 == 0 || life == 599) {
            replay(bench, 0, false, "dropped_"); /* may be told of the new life */
            replay(bench, 2, false, "dropped_");
        }
        bench_send(bench, who, 1 - who, 100, 1);
        assert_true(bench_settle(bench, SECOND));
    }
    each_delivered_once(bench);
    end_working(bench);
}

/* The peer closed, and so did hundreds of others since: a connection that is still there knows by
 * itself what ended, also after it was reset once more. */
TEST(replay_of_a_life_before_many)
{
    bench_t *bench = taped_job();

    btl_ib_conn_destroy(bench_conn(bench, 1, 0), bench->now);
    bench_run(bench, 5000);
    for (int i = 0; i < 2; i++) {
        bench_forget_ended(&bench->hosts[0]);
        replay(bench, 0, false, "dropped_");
        replay(bench, 2, false, "dropped_");
        btl_ib_conn_drain(bench_conn(bench, 0, 1));
        bench->hosts[0].rails[0].refused = bench_address(1, 0);
        bench->hosts[0].rails[0].refusal = true; /* that resets one that drains */
        bench_turn(bench, 0);
    }
    end_delivered(bench);
}

/* ---- damage ---- */

/* One datagram of each kind there is on a tape: by type and whether it carries a CONNECT. */
static uint32_t kinds(const bench_t *bench, const bench_datagram_t *found[32])
{
    bool seen[32] = {false};
    uint32_t n = 0;

    for (const bench_datagram_t *d = bench->tape.first; d != NULL; d = d->next) {
        uint32_t kind = (d->data[0] & 0xfu) * 2 + (d->data[1] & BTL_IB_FLAG_CONNECT);
        if (!seen[kind]) {
            seen[kind] = true;
            found[n++] = d;
        }
    }
    return n;
}

TEST(cut_at_every_length)
{
    const bench_datagram_t *found[32];
    bench_t *bench = taped_job();
    uint32_t n = kinds(bench, found);

    assert_true(n >= 5);
    for (uint32_t i = 0; i < n; i++) {
        const bench_datagram_t *d = found[i];
        for (uint32_t size = 0; size < d->size; size++) {
            without_effect(bench, d->to / BENCH_RAILS, d->source, d->data, size,
                           size < sizeof(btl_ib_wire_header_t) ? "dropped_short"
                                                               : "dropped_length");
        }
    }
    end_working(bench);
}

/* Cut, with a length field that agrees: the headers behind it say what is missing. */
TEST(cut_with_the_length_to_match)
{
    const bench_datagram_t *found[32];
    bench_t *bench = taped_job();
    uint32_t n = kinds(bench, found);

    for (uint32_t i = 0; i < n; i++) {
        bench_datagram_t *d = bench_copy(found[i]);
        for (uint32_t size = sizeof(btl_ib_wire_header_t); size < d->size; size++) {
            uint16_t length = BTL_IB_LE16(size - sizeof(btl_ib_wire_header_t));
            uint32_t to = d->to / BENCH_RAILS;
            memcpy(d->data + offsetof(btl_ib_wire_header_t, length), &length, sizeof(length));
            bench_throw(bench, to, d->source, d->data, size);
            bench_check_counters(&bench->hosts[to]);
            bench_check_accounts(&bench->hosts[to]);
        }
        free(d);
    }
    bench_run(bench, 3000);
    end_working(bench);
}

TEST(longer_than_it_says)
{
    const bench_datagram_t *found[32];
    bench_t *bench = taped_job();
    uint32_t n = kinds(bench, found);
    uint64_t data[200] = {0};

    for (uint32_t i = 0; i < n; i++) {
        const bench_datagram_t *d = found[i];
        memcpy(data, d->data, d->size);
        for (uint32_t size = d->size + 1; size < d->size + 40 && size <= 1472; size++) {
            without_effect(bench, d->to / BENCH_RAILS, d->source, data, size, "dropped_length");
        }
    }
    end_working(bench);
}

static void flip_each_bit(bench_t *bench, const char *cause)
{
    const bench_datagram_t *found[32];
    uint32_t n = kinds(bench, found);

    for (uint32_t i = 0; i < n; i++) {
        bench_datagram_t *d = bench_copy(found[i]);
        for (uint32_t bit = 0; bit < d->size * 8; bit++) {
            d->data[bit / 8] ^= (uint8_t) (1u << bit % 8);
            without_effect(bench, d->to / BENCH_RAILS, d->source, d->data, d->size, cause);
            d->data[bit / 8] ^= (uint8_t) (1u << bit % 8);
        }
        free(d);
    }
}

/* With a checksum every damaged bit is found, wherever it is, and however far the datagram got. */
TEST(a_flipped_bit_under_a_checksum)
{
    bench_t *bench = new_bench();

    assert_true(bench_protection(bench, BTL_IB_PROTECTION_CRC32C));
    tape(bench);
    flip_each_bit(bench, "dropped_checksum");
    end_working(bench);
}

/* Under authentication nothing that was changed, or comes again, does so much as prolong a
 * silence. */
static void authenticated(btl_ib_protection_kind_t kind)
{
    bench_t *bench = new_bench();

    if (!bench_protection(bench, kind)) {
        end(bench);
        skip();
    }
    tape(bench);
    flip_each_bit(bench, "dropped_");
    replay(bench, 0, true, "dropped_");
    replay(bench, 2, true, "dropped_");
    for (uint32_t i = 0; i < 1000;
         i++) { /* token, connection and sequence are known, the key is not */
        bench_forgery_t forgery = bench_forge(bench, 0, 1, (btl_ib_type_t) (1 + i % 5));
        bench_watch_t watch;
        bench_watch(&bench->hosts[0], true, &watch);
        bench_throw_forgery(bench, 0, 1, &forgery);
        bench_unchanged(&watch, "dropped_", 1); /* forged, or too old to look */
    }
    end_working(bench);
}

TEST(integrity)
{
    authenticated(BTL_IB_PROTECTION_INTEGRITY);
}

TEST(encryption)
{
    authenticated(BTL_IB_PROTECTION_ENCRYPT);
}

/* Without one the rest of the header is checked all the same: sums agree, whatever is believed. */
TEST(a_flipped_bit)
{
    const bench_datagram_t *found[32];
    bench_t *bench = taped_job();
    uint32_t n = kinds(bench, found);

    for (uint32_t i = 0; i < n; i++) {
        bench_datagram_t *d = bench_copy(found[i]);
        uint32_t to = d->to / BENCH_RAILS;
        for (uint32_t bit = 0; bit < d->size * 8 && bit < 100 * 8; bit++) {
            d->data[bit / 8] ^= (uint8_t) (1u << bit % 8);
            bench_throw(bench, to, d->source, d->data, d->size);
            bench_check_counters(&bench->hosts[to]);
            bench_check_accounts(&bench->hosts[to]);
            d->data[bit / 8] ^= (uint8_t) (1u << bit % 8);
        }
        free(d);
    }
    bench_run(bench, 3000);
    end(bench);
}

/* ---- floods ---- */

/* A first contact that nobody vouches for. */
static bench_forgery_t forged_contact(uint64_t name)
{
    bench_forgery_t forgery = {
        .size = sizeof(btl_ib_wire_header_t),
        .header =
            {
                .version_type = BTL_IB_WIRE_VERSION << 4 | BTL_IB_TYPE_DATA,
                .flags = BTL_IB_FLAG_CONNECT,
                .seq = BTL_IB_LE32(1),
                .token = BTL_IB_LE64(test_random64(&numbers)),
            },
    };
    btl_ib_wire_connect_t connect = {
        .name = BTL_IB_LE64(name),
        .connection = BTL_IB_LE32(1 + test_random_below(&numbers, 1000)),
        .epoch = BTL_IB_LE32(1),
    };

    bench_append(&forgery, &connect, sizeof(connect));
    return forgery;
}

TEST(contacts_of_unknown_names)
{
    bench_t *bench = job();
    bench_host_t *host = &bench->hosts[0];
    uint64_t before = host->lookups;
    uint32_t asked = 0;

    bench_run(bench, SECOND); /* what was looked up before does not count */
    for (int i = 0; i < 20000; i++) {
        bench_forgery_t forgery = forged_contact(test_random64(&numbers));
        bool may_ask = asked < host->config.lookups_max;
        without_effect(bench, 0, BENCH_UNKNOWN, &forgery, forgery.size,
                       may_ask ? "dropped_unknown" : "dropped_lookup");
        asked += may_ask;
    }
    assert_int_equal(host->lookups - before, asked);
    /* Known peers are not disturbed, and the next second a newcomer is heard. */
    still_works(bench);
    bench_start(bench, 3);
    bench_send(bench, 3, 0, 100, 1);
    assert_true(bench_settle(bench, 3 * SECOND));
    end_working(bench);
}

/* The name of a peer, but not its token: neither lookups without end nor the end of the peer. */
TEST(contacts_in_a_known_name)
{
    bench_t *bench = job();
    bench_host_t *host = &bench->hosts[0];
    uint64_t before = host->lookups;
    bench_watch_t watch;

    bench_watch(host, true, &watch);
    for (int i = 0; i < 20000; i++) {
        bench_forgery_t forgery = forged_contact(bench->hosts[1].config.name);
        bench_throw(bench, 0, bench_address(1, 0), &forgery, forgery.size);
        bench_check_counters(host);
    }
    bench_unchanged(&watch, "dropped_", 20000);
    assert_true(host->lookups - before <= host->config.lookups_max);
    end_working(bench);
}

TEST(more_newcomers_than_allowed)
{
    bench_t *bench = new_bench();

    bench->hosts[0].config.passive_max = 2;
    for (uint32_t i = 0; i < 4; i++) {
        bench_start(bench, i);
    }
    for (uint32_t i = 1; i < 4; i++) {
        bench_send(bench, i, 0, 100, 1);
    }
    bench_run(bench, SECOND);
    int passive = 0;
    for (uint32_t i = 1; i < 4; i++) {
        passive += bench_conn(bench, 0, i) != NULL;
    }
    assert_int_equal(passive, 2);
    assert_true(bench_counters(bench, 0)->dropped_lookup > 0);
    assert_false(bench_settle(bench, 0));
    bench_connect(bench, 0, 1); /* adopted: there is room for another */
    end_settled(bench, SECOND);
}

UNIT_MAIN(NULL, NULL)
