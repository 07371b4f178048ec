/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <stdio.h>
#include <string.h>

#include "btl_ib_crc32c.h"
#include "support.h"
#include "unit.h"

/* Bit by bit, straight from the definition: polynomial 0x1EDC6F41, reflected. */
static uint32_t by_definition(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *at = data;

    crc = ~crc;
    for (; len > 0; at++, len--) {
        crc ^= *at;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

/* The ways to compute it that this machine has: 1, or 2 with an instruction for it. */
static int ways(void)
{
    if (btl_ib_crc32c_has_instruction()) {
        return 2;
    }
    print_message("this processor has no CRC-32C instruction\n");
    return 1;
}

/* RFC 3720, B.4, and the check value of the CRC catalogues. */
TEST(test_vectors)
{
    static const uint8_t command[48] = {
        0x01,        0xc0,        0x00,        0x00,        [16] = 0x14,
        [22] = 0x04, [27] = 0x14, [31] = 0x18, [32] = 0x28, [40] = 0x02,
    };
    uint8_t bytes[4][32];

    memset(bytes[0], 0, 32);
    memset(bytes[1], 0xff, 32);
    for (uint8_t i = 0; i < 32; i++) {
        bytes[2][i] = i;
        bytes[3][i] = (uint8_t) (31 - i);
    }
    for (int i = ways(); i-- > 0;) {
        assert_int_equal(btl_ib_crc32c(i > 0, 0, bytes[0], 32), 0x8a9136aau);
        assert_int_equal(btl_ib_crc32c(i > 0, 0, bytes[1], 32), 0x62a8ab43u);
        assert_int_equal(btl_ib_crc32c(i > 0, 0, bytes[2], 32), 0x46dd794eu);
        assert_int_equal(btl_ib_crc32c(i > 0, 0, bytes[3], 32), 0x113fdb5cu);
        assert_int_equal(btl_ib_crc32c(i > 0, 0, command, sizeof(command)), 0xd9963a56u);
        assert_int_equal(btl_ib_crc32c(i > 0, 0, "123456789", 9), 0xe3069283u);
        assert_int_equal(btl_ib_crc32c(i > 0, 0, NULL, 0), 0);
    }
}

static void fill(test_random_t *random, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t) test_random64(random);
    }
}

TEST(test_same_result)
{
    test_random_t random = TEST_RANDOM_SEED;
    static uint8_t bytes[70000];
    int count = ways();

    fill(&random, bytes, sizeof(bytes));
    for (int turn = 0; turn < 3000; turn++) {
        uint32_t limit = turn % 100 == 0 ? sizeof(bytes) - 16 : turn % 10 == 0 ? 6000 : 200;
        uint32_t len = test_random_below(&random, limit);
        const uint8_t *at = bytes + test_random_below(&random, 16);
        uint32_t before = (uint32_t) test_random64(&random);
        uint32_t right = by_definition(before, at, len);
        for (int i = 0; i < count; i++) {
            assert_int_equal(btl_ib_crc32c(i > 0, before, at, len), right);
        }
    }
}

/* In pieces it is the same as in one. */
TEST(test_continues)
{
    test_random_t random = TEST_RANDOM_SEED;
    uint8_t bytes[3000];

    fill(&random, bytes, sizeof(bytes));
    for (int i = ways(); i-- > 0;) {
        uint32_t whole = btl_ib_crc32c(i > 0, 0, bytes, sizeof(bytes));
        for (size_t cut = 0; cut <= sizeof(bytes); cut += 7) {
            assert_int_equal(btl_ib_crc32c(i > 0, btl_ib_crc32c(i > 0, 0, bytes, cut), bytes + cut,
                                           sizeof(bytes) - cut),
                             whole);
        }
    }
}

UNIT_MAIN(NULL, NULL)
