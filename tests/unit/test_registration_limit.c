/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* How much memory a process may pin, and in how many regions. */

#include "btl_ib_registration_limit.h"
#include "unit.h"

static const btl_ib_registration_host_t large = {
    .memory = 400000, .lockable = UINT64_MAX, .processes = 4};

static uint64_t limit(const char *text, const btl_ib_registration_host_t *host)
{
    uint64_t bytes = 77;

    assert_null(btl_ib_registration_limit_parse(text, host, &bytes));
    return bytes;
}

/* A number of bytes, as a part of the memory, is that of all processes together. */
TEST(test_amounts)
{
    assert_int_equal(0, limit("0", &large));
    assert_int_equal(1, limit("5", &large));
    assert_int_equal(250000, limit("1000000", &large));
    assert_true(UINT64_MAX / 4 == limit("18446744073709551615", &large));
    assert_int_equal(2, limit("0x8", &large));
    assert_int_equal(16384, limit("64k", &large));
    assert_true(UINT64_C(2) << 30 == limit("8GiB", &large));
    assert_int_equal(0, limit("0%", &large));
    assert_int_equal(50000, limit("50%", &large));
    assert_int_equal(100000, limit("100%", &large));
    assert_int_equal(50000, limit("0.5", &large));
    assert_int_equal(100000, limit("1.0", &large));
    assert_int_equal(0, limit("0.0", &large));
    assert_int_equal(12500, limit("0.125", &large));
    assert_int_equal(33333, limit("0.3333333333", &large)); /* six digits count */
}

TEST(test_what_may_be_locked_is_the_most)
{
    const btl_ib_registration_host_t small = {.memory = 400000, .lockable = 30000, .processes = 4};

    assert_int_equal(30000, limit("50%", &small));
    assert_int_equal(30000, limit("120004", &small)); /* the limit is that of each process */
    assert_int_equal(29999, limit("119996", &small));
    assert_int_equal(20000, limit("20%", &small));
}

TEST(test_counts)
{
    btl_ib_registration_limit_t of_bytes, of_regions;

    btl_ib_registration_limit_init(&of_bytes, "4000", &large, 0);
    assert_true(btl_ib_registration_limit_reserve(&of_bytes, 600, 1));
    assert_false(btl_ib_registration_limit_reserve(&of_bytes, 401, 1));
    assert_true(btl_ib_registration_limit_reserve(&of_bytes, 400, 1));
    assert_false(btl_ib_registration_limit_reserve(&of_bytes, UINT64_MAX - 10, 1));
    btl_ib_registration_limit_release(&of_bytes, 600, 1);
    assert_int_equal(400, of_bytes.bytes);
    assert_int_equal(1, of_bytes.regions);

    btl_ib_registration_limit_init(&of_regions, "100%", &large, 2);
    assert_true(btl_ib_registration_limit_reserve(&of_regions, 1, 1));
    assert_true(btl_ib_registration_limit_reserve(&of_regions, 1, 1));
    assert_false(btl_ib_registration_limit_reserve(&of_regions, 1, 1));
    assert_int_equal(2, of_regions.bytes);
    btl_ib_registration_limit_release(&of_regions, 1, 1);
    assert_true(btl_ib_registration_limit_reserve(&of_regions, 1, 1));
}

/* What the probe is to try, and what follows from what it found. */
TEST(test_probe)
{
    btl_ib_registration_host_t host = large; /* four processes, each of which has 50000 */
    btl_ib_registration_limit_t limits;

    btl_ib_registration_limit_init(&limits, "50%", &host, 0);
    assert_int_equal(200000, btl_ib_registration_limit_wanted(&limits));
    btl_ib_registration_limit_found(&limits, 200000);
    assert_int_equal(50000, limits.max);
    btl_ib_registration_limit_found(&limits, 100000);
    assert_int_equal(25000, limits.max);
    assert_int_equal(100000, btl_ib_registration_limit_wanted(&limits));

    host.lockable = 70000; /* what one can try tells nothing of the others */
    btl_ib_registration_limit_init(&limits, "50%", &host, 0);
    assert_int_equal(70000, btl_ib_registration_limit_wanted(&limits));
    btl_ib_registration_limit_found(&limits, 60000);
    assert_int_equal(50000, limits.max);
    btl_ib_registration_limit_found(&limits, 40000);
    assert_int_equal(40000, limits.max);
}

TEST(test_nonsense)
{
    static const char *const texts[] = {
        "",     "%",
        "101%", "5x",
        "-1",   "+1",
        " 1",   "50%%",
        "50 %", "18446744073709551616",
        "half", "1.5",
        "-1%",  "5k%",
        "1kB",  "00%",
        "%%",   "1000000000000000000000000000000000%",
        "1.1",  "1.000001",
        "0.",   ".5",
        "0.5%", "0.5G",
        "2.0",  "-0.5",
        "0.5.", "0,5",
    };
    uint64_t bytes = 77;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
        assert_non_null(btl_ib_registration_limit_parse(texts[i], &large, &bytes));
        assert_int_equal(77, bytes);
    }
}

TEST(test_host_has_memory)
{
    const btl_ib_registration_host_t host = btl_ib_registration_host(3);

    assert_true(host.memory > 1000000);
    assert_true(host.lockable > 0);
    assert_int_equal(3, host.processes);
}

UNIT_MAIN(NULL, NULL)
