/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <string.h>

#include "btl_ib_protection.h"
#include "btl_ib_wire.h"
#include "support.h"
#include "with_aead.h"
#include "unit.h"

enum { SIZE_MAX_HERE = 300 };

static const btl_ib_auth_key_t alice = {{1, 2, 3}};
static const btl_ib_auth_key_t bob = {{4, 5, 6}};

/* One end of a connection. */
typedef struct end {
    btl_ib_protection_t protection;
    btl_ib_counters_t count;
    btl_ib_protection_keys_t keys;
} end_t;

static btl_ib_protection_path_t path(void)
{
    return (btl_ib_protection_path_t){
        .sender_key = &alice,
        .receiver_key = &bob,
        .sender = 7,
        .receiver = 8,
        .epoch = 9,
        .from_rail = 1,
        .to_rail = 2,
    };
}

static void make_end(end_t *end, uint32_t kind, btl_ib_aead_t *aead)
{
    btl_ib_protection_path_t way = path();

    memset(end, 0, sizeof(*end));
    btl_ib_protection_init(&end->protection, (btl_ib_protection_kind_t) kind, aead, &end->count);
    if (end->protection.ops->keyed) {
        assert_true(btl_ib_protection_begin(&end->protection, &end->keys.tx, &way));
        assert_true(btl_ib_protection_begin(&end->protection, &end->keys.rx, &way));
    }
}

static uint32_t kinds(void **state)
{
    if (*state == NULL) {
        print_message("built without libcrypto\n");
    }
    return *state != NULL ? BTL_IB_PROTECTION_KINDS : BTL_IB_PROTECTION_INTEGRITY;
}

/* A datagram with something in every byte. */
static void fill(uint8_t *data, uint32_t size, bool connect)
{
    for (uint32_t i = 0; i < size; i++) {
        data[i] = (uint8_t) (i * 7 + 1);
    }
    data[offsetof(btl_ib_wire_header_t, flags)] = connect ? BTL_IB_FLAG_CONNECT : 0;
}

static void seal(end_t *end, const uint8_t *data, uint8_t *out, uint32_t size)
{
    if (!end->protection.ops->apart) {
        memcpy(out, data, size);
        data = out;
    }
    assert_true(btl_ib_protection_seal(&end->protection, &end->keys, data, out, size));
}

static bool open_at(end_t *end, uint8_t *data, uint32_t size)
{
    return btl_ib_protection_open(&end->protection, &end->keys.rx, &end->keys.replay, data, size);
}

static uint64_t dropped(const end_t *end)
{
    return end->count.dropped_checksum + end->count.dropped_forged + end->count.dropped_replay;
}

TEST(test_names)
{
    static const char *const names[] = {"none", "crc32c", "integrity", "encrypt"};

    for (uint32_t kind = 0; kind < BTL_IB_PROTECTION_KINDS; kind++) {
        assert_string_equal(btl_ib_protection_ops(kind)->name, names[kind]);
        assert_true(btl_ib_protection_ops(kind)->trailer <= BTL_IB_TRAILER_MAX);
    }
    assert_null(btl_ib_protection_ops(BTL_IB_PROTECTION_KINDS));
    assert_null(btl_ib_protection_ops(UINT32_MAX));
}

/* protocol: R21 */
TEST(test_round_trip)
{
    for (uint32_t kind = 0; kind < kinds(state); kind++) {
        for (int connect = 0; connect < 2; connect++) {
            end_t end;
            make_end(&end, kind, *state);
            for (uint32_t size = connect ? 64 : 40; size < 200; size++) {
                uint8_t data[SIZE_MAX_HERE], out[SIZE_MAX_HERE];
                fill(data, size, connect);
                seal(&end, data, out, size);
                assert_true(open_at(&end, out, size));
                assert_memory_equal(out, data, size);
            }
            assert_int_equal(dropped(&end), 0);
        }
    }
}

/* Every bit of what travels is covered, the trailer itself included. */
TEST(test_every_bit)
{
    for (uint32_t kind = BTL_IB_PROTECTION_CRC32C; kind < kinds(state); kind++) {
        for (int connect = 0; connect < 2; connect++) {
            const uint32_t size = 90;
            uint8_t data[SIZE_MAX_HERE], out[SIZE_MAX_HERE];
            uint64_t changed = 0;
            end_t end;

            make_end(&end, kind, *state);
            fill(data, size, connect);
            for (uint32_t bit = 0; bit < 8 * (size + end.protection.ops->trailer); bit++) {
                seal(&end, data, out, size);
                out[bit / 8] ^= (uint8_t) (1u << bit % 8);
                assert_false(open_at(&end, out, size));
                assert_int_equal(dropped(&end), ++changed);
            }
            assert_int_equal(end.keys.replay.highest, 0); /* nothing of it was noted */
        }
    }
}

/* Nor is a shorter one taken, wherever it was cut. */
TEST(test_truncated)
{
    for (uint32_t kind = BTL_IB_PROTECTION_CRC32C; kind < kinds(state); kind++) {
        uint8_t data[SIZE_MAX_HERE], out[SIZE_MAX_HERE];
        end_t end;

        make_end(&end, kind, *state);
        fill(data, 120, false);
        for (uint32_t size = 40; size < 120; size++) {
            seal(&end, data, out, 120);
            assert_false(open_at(&end, out, size));
        }
    }
}

/* What is encrypted can be read nowhere, what finds the key stays. */
TEST(test_hidden)
{
    for (int connect = 0; connect < 2; connect++) {
        const uint32_t size = 200, clear = connect ? 64 : 16;
        uint8_t data[SIZE_MAX_HERE], out[SIZE_MAX_HERE];
        uint32_t same = 0;
        end_t end;

        if (kinds(state) <= BTL_IB_PROTECTION_ENCRYPT) {
            skip();
        }
        make_end(&end, BTL_IB_PROTECTION_ENCRYPT, *state);
        fill(data, size, connect);
        seal(&end, data, out, size);
        assert_memory_equal(out, data, clear);
        for (uint32_t i = clear; i < size; i++) {
            same += out[i] == data[i];
        }
        assert_true(same < 8);
    }
}

/* Sealed twice it is two datagrams, and each is taken once. */
TEST(test_numbers)
{
    for (uint32_t kind = BTL_IB_PROTECTION_INTEGRITY; kind < kinds(state); kind++) {
        uint8_t data[SIZE_MAX_HERE], first[SIZE_MAX_HERE], second[SIZE_MAX_HERE];
        uint8_t again[SIZE_MAX_HERE];
        end_t end;

        make_end(&end, kind, *state);
        fill(data, 100, false);
        seal(&end, data, first, 100);
        seal(&end, data, second, 100);
        memcpy(again, first, sizeof(again));
        assert_int_equal(btl_ib_protection_number(first, 100) + 1,
                         btl_ib_protection_number(second, 100));
        assert_true(open_at(&end, second, 100));
        assert_true(open_at(&end, first, 100));
        assert_false(open_at(&end, again, 100));
        assert_int_equal(end.count.dropped_replay, 1);
        assert_int_equal(end.count.dropped_forged, 0);
    }
}

/* A key serves one direction, of one life, between two rails of two processes, for one purpose. */
TEST(test_separation)
{
    for (uint32_t kind = BTL_IB_PROTECTION_INTEGRITY; kind < kinds(state); kind++) {
        for (int what = 0; what < 9; what++) {
            uint8_t data[SIZE_MAX_HERE], out[SIZE_MAX_HERE];
            btl_ib_auth_key_t other = alice;
            btl_ib_protection_path_t way = path();
            end_t end;

            make_end(&end, kind, *state);
            other.bytes[31] ^= 1;
            switch (what) {
            case 0: /* none: it does open */
                break;
            case 1: /* the other direction */
                way = (btl_ib_protection_path_t){&bob, &alice, 8, 7, 9, 2, 1};
                break;
            case 2:
                way.sender_key = &other;
                break;
            case 3:
                way.receiver_key = &other;
                break;
            case 4:
                way.sender++;
                break;
            case 5:
                way.receiver++;
                break;
            case 6:
                way.epoch++;
                break;
            case 7:
                way.from_rail++;
                break;
            default:
                way.to_rail++;
                break;
            }
            assert_true(btl_ib_protection_begin(&end.protection, &end.keys.rx, &way));
            fill(data, 80, false);
            seal(&end, data, out, 80);
            assert_int_equal(open_at(&end, out, 80), what == 0);
        }
    }
}

/* The same bytes for another kind of protection are another key. */
TEST(test_kinds_differ)
{
    end_t integrity, encrypt;

    if (kinds(state) <= BTL_IB_PROTECTION_ENCRYPT) {
        skip();
    }
    make_end(&integrity, BTL_IB_PROTECTION_INTEGRITY, *state);
    make_end(&encrypt, BTL_IB_PROTECTION_ENCRYPT, *state);
    assert_memory_not_equal(integrity.keys.tx.key.key, encrypt.keys.tx.key.key,
                            BTL_IB_AEAD_KEY_BYTES);
}

/* A key serves its time, and then the next; what is late comes through all the same. */
TEST(test_rekey)
{
    for (uint32_t kind = BTL_IB_PROTECTION_INTEGRITY; kind < kinds(state); kind++) {
        const uint64_t last = (UINT64_C(1) << BTL_IB_PROTECTION_KEY_SHIFT) - 1;
        uint8_t data[SIZE_MAX_HERE], out[6][SIZE_MAX_HERE];
        btl_ib_aead_key_t before;
        end_t end;

        make_end(&end, kind, *state);
        before = end.keys.tx.key;
        end.keys.number = last - 3;
        fill(data, 80, false);
        for (int i = 0; i < 6; i++) {
            seal(&end, data, out[i], 80);
        }
        assert_int_equal(end.count.rekeys, 1);
        assert_memory_not_equal(before.key, end.keys.tx.key.key, sizeof(before.key));
        assert_true(open_at(&end, out[1], 80));
        assert_int_equal(end.keys.rx.generation, 0);
        out[5][50] ^= 1; /* a forged one does not change the key */
        assert_false(open_at(&end, out[5], 80));
        assert_int_equal(end.keys.rx.generation, 0);
        assert_true(open_at(&end, out[4], 80));
        assert_int_equal(end.keys.rx.generation, 1);
        assert_true(open_at(&end, out[0], 80));
        assert_int_equal(end.keys.rx.generation, 1);
        assert_true(open_at(&end, out[3], 80));
        assert_true(open_at(&end, out[2], 80));
        assert_int_equal(dropped(&end), 1);
    }
}

static uint32_t derivations; /* that succeed, before one that does not */
static const btl_ib_aead_ops_t *working;

static bool derive(btl_ib_aead_t *aead, const void *secret, size_t secret_size, const void *info,
                   size_t info_size, void *out, size_t size)
{
    return derivations-- > 0
           && working->derive(aead, secret, secret_size, info, info_size, out, size);
}

/* Without memory for a key nothing begins, and nothing is sealed or opened that needs the next one,
 * until there is. */
TEST(test_no_key)
{
    if (*state == NULL) {
        skip();
    }
    const uint64_t last = (UINT64_C(1) << BTL_IB_PROTECTION_KEY_SHIFT) - 1;
    btl_ib_aead_t *aead = *state;
    btl_ib_protection_path_t way = path();
    uint8_t data[SIZE_MAX_HERE], out[SIZE_MAX_HERE];
    btl_ib_aead_ops_t failing = *aead->ops;
    end_t end;

    working = aead->ops;
    make_end(&end, BTL_IB_PROTECTION_INTEGRITY, aead);
    fill(data, 80, false);
    memcpy(out, data, 80);
    failing.derive = derive;
    aead->ops = &failing;
    for (uint32_t n = 0; n < 2; n++) {
        btl_ib_protection_way_t begun = {0};
        derivations = n;
        assert_false(btl_ib_protection_begin(&end.protection, &begun, &way));
    }
    end.keys.number = last;
    derivations = 0;
    assert_false(btl_ib_protection_seal(&end.protection, &end.keys, out, out, 80));
    assert_int_equal(end.keys.tx.generation, 0);
    assert_int_equal(end.count.rekeys, 0);
    aead->ops = working;
    seal(&end, data, out, 80);
    assert_int_equal(end.keys.tx.generation, 1);
    aead->ops = &failing;
    derivations = 0;
    assert_false(open_at(&end, out, 80));
    assert_int_equal(end.keys.rx.generation, 0);
    aead->ops = working;
    assert_true(open_at(&end, out, 80));
    assert_int_equal(end.keys.rx.generation, 1);
}

/* A first contact opens without a window of numbers; the number of it is noted later. */
TEST(test_first_contact)
{
    for (uint32_t kind = BTL_IB_PROTECTION_INTEGRITY; kind < kinds(state); kind++) {
        uint8_t data[SIZE_MAX_HERE], out[SIZE_MAX_HERE], zero[SIZE_MAX_HERE];
        end_t end;

        make_end(&end, kind, *state);
        fill(data, 100, true);
        seal(&end, data, out, 100);
        memcpy(zero, out, sizeof(zero));
        memset(zero + 100, 0, 8);
        assert_false(btl_ib_protection_open(&end.protection, &end.keys.rx, NULL, zero, 100));
        assert_true(btl_ib_protection_open(&end.protection, &end.keys.rx, NULL, out, 100));
        assert_int_equal(btl_ib_protection_number(out, 100), 1);
        assert_int_equal(end.keys.replay.highest, 0);
    }
}

UNIT_MAIN(open_aead, close_aead)
