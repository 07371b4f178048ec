/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <string.h>

#include "with_aead.h"
#include "unit.h"

/* D. McGrew and J. Viega, "The Galois/Counter Mode of Operation", test cases 13, 14 and 16. */
static const struct {
    btl_ib_aead_key_t key;
    uint8_t aad[20];
    uint32_t aad_size;
    uint8_t text[60];
    uint8_t sealed[60];
    uint32_t size;
    uint8_t tag[BTL_IB_AEAD_TAG_BYTES];
} vectors[] = {
    {
        .key = {.id = 13},
        .tag = {0x53, 0x0f, 0x8a, 0xfb, 0xc7, 0x45, 0x36, 0xb9, 0xa9, 0x63, 0xb4, 0xf1, 0xc4, 0xcb,
                0x73, 0x8b},
    },
    {
        .key = {.id = 14},
        .sealed = {0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e, 0x07, 0x4e, 0xc5, 0xd3, 0xba,
                   0xf3, 0x9d, 0x18},
        .size = 16,
        .tag = {0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99, 0x6b, 0xf0, 0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a,
                0xb9, 0x19},
    },
    {
        .key = {.id = 16,
                .key = {0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c, 0x6d, 0x6a, 0x8f,
                        0x94, 0x67, 0x30, 0x83, 0x08, 0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65,
                        0x73, 0x1c, 0x6d, 0x6a, 0x8f, 0x94, 0x67, 0x30, 0x83, 0x08},
                .iv = {0xca, 0xfe, 0xba, 0xbe, 0xfa, 0xce, 0xdb, 0xad, 0xde, 0xca, 0xf8, 0x88}},
        .aad = {0xfe, 0xed, 0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xfe, 0xed,
                0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xab, 0xad, 0xda, 0xd2},
        .aad_size = 20,
        .text = {0xd9, 0x31, 0x32, 0x25, 0xf8, 0x84, 0x06, 0xe5, 0xa5, 0x59, 0x09, 0xc5,
                 0xaf, 0xf5, 0x26, 0x9a, 0x86, 0xa7, 0xa9, 0x53, 0x15, 0x34, 0xf7, 0xda,
                 0x2e, 0x4c, 0x30, 0x3d, 0x8a, 0x31, 0x8a, 0x72, 0x1c, 0x3c, 0x0c, 0x95,
                 0x95, 0x68, 0x09, 0x53, 0x2f, 0xcf, 0x0e, 0x24, 0x49, 0xa6, 0xb5, 0x25,
                 0xb1, 0x6a, 0xed, 0xf5, 0xaa, 0x0d, 0xe6, 0x57, 0xba, 0x63, 0x7b, 0x39},
        .sealed = {0x52, 0x2d, 0xc1, 0xf0, 0x99, 0x56, 0x7d, 0x07, 0xf4, 0x7f, 0x37, 0xa3,
                   0x2a, 0x84, 0x42, 0x7d, 0x64, 0x3a, 0x8c, 0xdc, 0xbf, 0xe5, 0xc0, 0xc9,
                   0x75, 0x98, 0xa2, 0xbd, 0x25, 0x55, 0xd1, 0xaa, 0x8c, 0xb0, 0x8e, 0x48,
                   0x59, 0x0d, 0xbb, 0x3d, 0xa7, 0xb0, 0x8b, 0x10, 0x56, 0x82, 0x88, 0x38,
                   0xc5, 0xf6, 0x1e, 0x63, 0x93, 0xba, 0x7a, 0x0a, 0xbc, 0xc9, 0xf6, 0x62},
        .size = 60,
        .tag = {0x76, 0xfc, 0x6e, 0xce, 0x0f, 0x4e, 0x17, 0x68, 0xcd, 0xdf, 0x88, 0x53, 0xbb, 0x2d,
                0x55, 0x1b},
    },
};

#define VECTORS (sizeof(vectors) / sizeof(vectors[0]))

/* The aead, if this build has one. */
static btl_ib_aead_t *needed(void **state)
{
    if (*state == NULL) {
        print_message("built without libcrypto\n");
        skip();
    }
    return *state;
}

TEST(test_gcm)
{
    btl_ib_aead_t *aead = needed(state);

    for (size_t turn = 0; turn < 2 * VECTORS; turn++) { /* the second time with a prepared key */
        size_t i = turn % VECTORS;
        uint8_t tag[BTL_IB_AEAD_TAG_BYTES];
        uint8_t out[60] = {0};

        assert_true(aead->ops->seal(aead, &vectors[i].key, 0, vectors[i].aad, vectors[i].aad_size,
                                    vectors[i].text, out, vectors[i].size, tag));
        assert_memory_equal(out, vectors[i].sealed, sizeof(out));
        assert_memory_equal(tag, vectors[i].tag, sizeof(tag));
        assert_true(aead->ops->open(aead, &vectors[i].key, 0, vectors[i].aad, vectors[i].aad_size,
                                    out, vectors[i].size, tag));
        assert_memory_equal(out, vectors[i].text, sizeof(out));
    }
}

/* In place is the same. */
TEST(test_in_place)
{
    btl_ib_aead_t *aead = needed(state);
    uint8_t tag[BTL_IB_AEAD_TAG_BYTES];
    uint8_t bytes[60];

    memcpy(bytes, vectors[2].text, sizeof(bytes));
    assert_true(
        aead->ops->seal(aead, &vectors[2].key, 0, vectors[2].aad, 20, bytes, bytes, 60, tag));
    assert_memory_equal(bytes, vectors[2].sealed, sizeof(bytes));
    assert_memory_equal(tag, vectors[2].tag, sizeof(tag));
}

/* The nonce is iv XOR number, big-endian: taking the number out of the iv gives the vector
 * again. */
TEST(test_number)
{
    btl_ib_aead_t *aead = needed(state);
    const uint64_t number = UINT64_C(0x0123456789abcdef);
    btl_ib_aead_key_t key = vectors[2].key;
    uint8_t tag[BTL_IB_AEAD_TAG_BYTES];
    uint8_t out[60];

    key.id = 17;
    for (int i = 0; i < 8; i++) {
        key.iv[11 - i] ^= (uint8_t) (number >> (8 * i));
    }
    assert_true(
        aead->ops->seal(aead, &key, number, vectors[2].aad, 20, vectors[2].text, out, 60, tag));
    assert_memory_equal(tag, vectors[2].tag, sizeof(tag));
    assert_true(
        aead->ops->seal(aead, &key, number + 1, vectors[2].aad, 20, vectors[2].text, out, 60, tag));
    assert_memory_not_equal(tag, vectors[2].tag, sizeof(tag));
}

/* More keys than are kept prepared, in both directions, in turn: none is taken for another. */
TEST(test_many_keys)
{
    btl_ib_aead_t *aead = needed(state);
    static uint8_t tags[300][BTL_IB_AEAD_TAG_BYTES];
    btl_ib_aead_key_t key = {.id = 0};

    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < 300; i++) {
            uint8_t tag[BTL_IB_AEAD_TAG_BYTES];
            key.id = (uint64_t) i + 100;
            key.key[0] = (uint8_t) i;
            key.key[1] = (uint8_t) (i >> 8);
            if (turn % 2 == 0) {
                assert_true(aead->ops->seal(aead, &key, 5, "head", 4, NULL, NULL, 0, tag));
                assert_true(turn == 0 || memcmp(tag, tags[i], sizeof(tag)) == 0);
                memcpy(tags[i], tag, sizeof(tag));
            } else {
                assert_true(aead->ops->open(aead, &key, 5, "head", 4, NULL, 0, tags[i]));
                assert_false(
                    aead->ops->open(aead, &key, 5, "head", 4, NULL, 0, tags[(i + 1) % 300]));
            }
        }
    }
}

/* RFC 5869, A.3: no salt and no info. */
TEST(test_hkdf)
{
    static const uint8_t right[42] = {
        0x8d, 0xa4, 0xe7, 0x75, 0xa5, 0x63, 0xc1, 0x8f, 0x71, 0x5f, 0x80, 0x2a, 0x06, 0x3c,
        0x5a, 0x31, 0xb8, 0xa1, 0x1f, 0x5c, 0x5e, 0xe1, 0x87, 0x9e, 0xc3, 0x45, 0x4e, 0x5f,
        0x3c, 0x73, 0x8d, 0x2d, 0x9d, 0x20, 0x13, 0x95, 0xfa, 0xa4, 0xb6, 0x1a, 0x96, 0xc8,
    };
    btl_ib_aead_t *aead = needed(state);
    uint8_t secret[22], out[42];

    memset(secret, 0x0b, sizeof(secret));
    assert_true(aead->ops->derive(aead, secret, sizeof(secret), "", 0, out, sizeof(out)));
    assert_memory_equal(out, right, sizeof(out));
    assert_true(aead->ops->derive(aead, secret, sizeof(secret), "x", 1, out, sizeof(out)));
    assert_memory_not_equal(out, right, sizeof(out));
}

UNIT_MAIN(open_aead, close_aead)
