/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_protection.h"
#include "unit.h"

/*
 * SipHash-2-4 of the bytes 00, 01, 02, ... (0 to 63 of them) with the key 00 01 .. 0f: the vectors
 * of the authors' reference code, as `openssl mac -macopt size:8 ... SIPHASH` gives them too.
 */
static const uint64_t vectors[64] = {
    0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
    0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
    0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
    0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5,
    0x3f2acc7f57c29bdb, 0x699ae9f52cbe4794, 0x4bc1b3f0968dd39c, 0xbb6dc91da77961bd,
    0xbed65cf21aa2ee98, 0xd0f2cbb02e3b67c7, 0x93536795e3a33e88, 0xa80c038ccd5ccec8,
    0xb8ad50c6f649af94, 0xbce192de8a85b8ea, 0x17d835b85bbb15f3, 0x2f2e6163076bcfad,
    0xde4daaaca71dc9a5, 0xa6a2506687956571, 0xad87a3535c49ef28, 0x32d892fad841c342,
    0x7127512f72f27cce, 0xa7f32346f95978e3, 0x12e0b01abb051238, 0x15e034d40fa197ae,
    0x314dffbe0815a3b4, 0x027990f029623981, 0xcadcd4e59ef40c4d, 0x9abfd8766a33735c,
    0x0e3ea96b5304a7d0, 0xad0c42d6fc585992, 0x187306c89bc215a9, 0xd4a60abcf3792b95,
    0xf935451de4f21df2, 0xa9538f0419755787, 0xdb9acddff56ca510, 0xd06c98cd5c0975eb,
    0xe612a3cb9ecba951, 0xc766e62cfcadaf96, 0xee64435a9752fe72, 0xa192d576b245165a,
    0x0a8787bf8ecb74b2, 0x81b3e73d20b49b6f, 0x7fa8220ba3b2ecea, 0x245731c13ca42499,
    0xb78dbfaf3a8d83bd, 0xea1ad565322a1a0b, 0x60e61c23a3795013, 0x6606d7e446282b93,
    0x6ca4ecb15c5f91e1, 0x9f626da15c9625f3, 0xe51b38608ef25f57, 0x958a324ceb064572,
};

static const btl_ib_secret_t vector_key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};
static const btl_ib_secret_t alice = {{0x1122334455667788, 0x99aabbccddeeff00}};
static const btl_ib_secret_t bob = {{0x0123456789abcdef, 0xfedcba9876543210}};

TEST(test_vectors)
{
    /* At every alignment, the hash must not depend on it. */
    for (size_t shift = 0; shift < 8; shift++) {
        uint8_t bytes[72];

        for (size_t i = 0; i < 64; i++) {
            bytes[shift + i] = (uint8_t) i;
        }
        for (size_t len = 0; len < 64; len++) {
            assert_int_equal(btl_ib_siphash(&vector_key, bytes + shift, len), vectors[len]);
        }
    }
}

TEST(test_empty)
{
    assert_int_equal(btl_ib_siphash(&vector_key, NULL, 0), vectors[0]);
}

/* Beyond 255 bytes the length that is hashed wraps around, but every byte still counts. */
TEST(test_long)
{
    uint8_t bytes[1000] = {0};
    uint64_t before = btl_ib_siphash(&vector_key, bytes, sizeof bytes);

    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 0x80;
        assert_int_not_equal(btl_ib_siphash(&vector_key, bytes, sizeof bytes), before);
        bytes[i] ^= 0x80;
    }
}

/* The token is a promise between machines: its bytes are those of this little-endian record. */
TEST(test_token_layout)
{
    static const uint8_t record[32] = {
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* the sender's name */
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* its secret */
        0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0xd4, 0xc3, 0xb2, 0xa1, /* connection */
        0x0d, 0x0c, 0x0b, 0x0a,                                                 /* rail */
    };

    assert_int_equal(btl_ib_token(&bob, 0x0102030405060708, &alice, 0xa1b2c3d4, 0x0a0b0c0d),
                     btl_ib_siphash(&bob, record, sizeof record));
    /* Computed outside, by openssl. */
    assert_int_equal(btl_ib_token(&bob, 0x0102030405060708, &alice, 0xa1b2c3d4, 0x0a0b0c0d),
                     0x18519d22da18aabd);
}

TEST(test_response_depends_on_all)
{
    static const uint8_t record[12] = {0x08, 0x07, 0x06, 0x05, 0x04, 0x03,
                                       0x02, 0x01, 0xd4, 0xc3, 0xb2, 0xa1};
    const uint64_t proof = btl_ib_token_of_response(&bob, 0x0102030405060708, 0xa1b2c3d4);

    assert_int_equal(proof, btl_ib_siphash(&bob, record, sizeof record));
    assert_int_not_equal(btl_ib_token_of_response(&alice, 0x0102030405060708, 0xa1b2c3d4), proof);
    assert_int_not_equal(btl_ib_token_of_response(&bob, 0x0102030405060709, 0xa1b2c3d4), proof);
    assert_int_not_equal(btl_ib_token_of_response(&bob, 0x0102030405060708, 0xa1b2c3d5), proof);
}

TEST(test_challenge_layout)
{
    static const uint8_t record[40] = {
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* the sender's name */
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* its secret */
        0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, /* */
        0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* the challenge */
        0xd4, 0xc3, 0xb2, 0xa1,                         /* connection */
        0x82, 0x00, 0x00, 0x00,                         /* flags */
    };

    assert_int_equal(btl_ib_token_of_challenge(&bob, 0x0102030405060708, &alice, 0x1112131415161718,
                                               0xa1b2c3d4, 0x82),
                     btl_ib_siphash(&bob, record, sizeof record));
}

TEST(test_token_depends_on_all)
{
    uint64_t token = btl_ib_token(&bob, 1, &alice, 2, 3);

    for (unsigned bit = 0; bit < 64; bit++) {
        for (unsigned word = 0; word < 2; word++) {
            btl_ib_secret_t receiver = bob;
            btl_ib_secret_t sender = alice;

            receiver.k[word] ^= UINT64_C(1) << bit;
            sender.k[word] ^= UINT64_C(1) << bit;
            assert_int_not_equal(btl_ib_token(&receiver, 1, &alice, 2, 3), token);
            assert_int_not_equal(btl_ib_token(&bob, 1, &sender, 2, 3), token);
        }
        assert_int_not_equal(btl_ib_token(&bob, 1 ^ UINT64_C(1) << bit, &alice, 2, 3), token);
    }
    for (unsigned bit = 0; bit < 32; bit++) {
        assert_int_not_equal(btl_ib_token(&bob, 1, &alice, 2 ^ UINT32_C(1) << bit, 3), token);
        assert_int_not_equal(btl_ib_token(&bob, 1, &alice, 2, 3 ^ UINT32_C(1) << bit), token);
    }
    assert_int_not_equal(btl_ib_token(&alice, 1, &bob, 2, 3), token);
}

UNIT_MAIN(NULL, NULL)
