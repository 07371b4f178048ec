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

/* Keys are those of docs/protocol.md, 3.9, so that releases and other implementations open what
 * this one seals. These were computed outside, by Python's hmac: the first two of each kind. */
TEST(test_keys_of_the_protocol)
{
    static const struct {
        uint8_t key[BTL_IB_AEAD_KEY_BYTES], iv[BTL_IB_AEAD_IV_BYTES];
    } keys[2][2] = {
        {{{0x06, 0x5a, 0x74, 0xfa, 0x58, 0x11, 0x55, 0x7f, 0x0d, 0x82, 0x05,
           0x01, 0x2b, 0x7e, 0x5a, 0x4e, 0x11, 0x0f, 0xa5, 0x78, 0x81, 0x26,
           0x10, 0xbb, 0xbf, 0xc5, 0x46, 0x49, 0x1a, 0xb9, 0x82, 0xc0},
          {0xc7, 0xab, 0xc9, 0x05, 0xff, 0x65, 0x6c, 0xdb, 0xce, 0x66, 0x84, 0xb5}},
         {{0x71, 0x24, 0x3b, 0xfb, 0x37, 0x6f, 0x08, 0x42, 0x25, 0x0b, 0x28,
           0x64, 0xd3, 0x7c, 0xd1, 0x6c, 0x1a, 0x7e, 0xec, 0xef, 0x16, 0x08,
           0x30, 0x5f, 0x59, 0x46, 0xb3, 0x9f, 0x89, 0xfb, 0xf4, 0x51},
          {0xec, 0x35, 0xdd, 0x94, 0x5e, 0x44, 0xb7, 0x6c, 0x3f, 0xc2, 0x4f, 0x88}}},
        {{{0x80, 0xc2, 0x07, 0x20, 0x5a, 0xf7, 0xaf, 0xd7, 0x31, 0x17, 0xc2,
           0x57, 0xe6, 0x53, 0x01, 0xdc, 0xd9, 0x94, 0x1b, 0x43, 0xcc, 0x88,
           0xb2, 0xcd, 0x85, 0xe4, 0x4f, 0xc1, 0x36, 0xc0, 0x14, 0xf9},
          {0xa4, 0x42, 0xc3, 0x6c, 0x76, 0xa0, 0xf5, 0xd3, 0x4d, 0xce, 0x03, 0xae}},
         {{0xac, 0x9a, 0xe0, 0x75, 0x03, 0xa4, 0xaa, 0x48, 0xb8, 0x03, 0xad,
           0x34, 0x67, 0xd5, 0xa8, 0x09, 0x77, 0xe8, 0x7e, 0x4e, 0x78, 0x49,
           0x22, 0x93, 0xf7, 0xe9, 0x07, 0x73, 0x9e, 0x3b, 0x45, 0x6d},
          {0xae, 0xaa, 0x11, 0xd3, 0x43, 0xa6, 0x0d, 0x12, 0xe2, 0x7b, 0x53, 0xe9}}},
    };

    for (uint32_t kind = BTL_IB_PROTECTION_INTEGRITY; kind < kinds(state); kind++) {
        uint8_t data[SIZE_MAX_HERE] = {0};
        end_t end;

        make_end(&end, kind, *state);
        for (uint32_t i = 0; i < 2; i++) {
            const btl_ib_aead_key_t *key = &end.keys.tx.key;
            assert_memory_equal(key->key, keys[kind - BTL_IB_PROTECTION_INTEGRITY][i].key,
                                sizeof(key->key));
            assert_memory_equal(key->iv, keys[kind - BTL_IB_PROTECTION_INTEGRITY][i].iv,
                                sizeof(key->iv));
            end.keys.number = (UINT64_C(1) << BTL_IB_PROTECTION_KEY_SHIFT) - 1;
            seal(&end, data, data + 150, 80);
        }
    }
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
