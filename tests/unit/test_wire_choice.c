/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which wire is looked for: connections where there are enough of them, datagrams beyond. */

#include <string.h>

#include "btl_ib_device_plan.h"
#include "unit.h"

/* The plan in one word: "rc+ ud rc", where + means that only devices with enough connections are
 * taken. */
static void expect(const char *wire, uint32_t processes, uint32_t most, const char *expected)
{
    btl_ib_wire_try_t tries[BTL_IB_WIRE_TRIES];
    const int count = btl_ib_wire_plan(wire, processes, most, tries);
    char plan[64] = "";

    assert_true(count <= BTL_IB_WIRE_TRIES);
    for (int i = 0; i < count; ++i) {
        strcat(plan, i > 0 ? " " : "");
        strcat(plan, tries[i].wire);
        strcat(plan, tries[i].sized ? "+" : "");
    }
    assert_string_equal(plan, expected);
}

TEST(test_plan)
{
    expect("rc", 1000000, 64, "rc"); /* one that is named is taken, or none */
    expect("ud", 2, 64, "ud");
    expect("auto", 2, 64, "rc+ ud rc");
    expect("auto", 64, 64, "rc+ ud rc");
    expect("auto", 65, 64, "ud rc");
    expect("auto", 1, 0, "ud rc");
    expect("auto", 0, 64, "ud rc"); /* nobody knows how many there will be */
    expect("auto", UINT32_MAX, 1048576, "ud rc");
}

TEST(test_shares)
{
    assert_false(btl_ib_wire_shares(15, 16));
    assert_true(btl_ib_wire_shares(16, 16));
    assert_true(btl_ib_wire_shares(1, 1));
    assert_false(btl_ib_wire_shares(0, 16)); /* nobody knows how many there will be */
    assert_false(btl_ib_wire_shares(UINT32_MAX, 0));
}

TEST(test_connections)
{
    assert_true(btl_ib_wire_suffices(0, UINT32_MAX, 16, 1)); /* datagrams need none */
    assert_true(btl_ib_wire_suffices(16384, 64, 3, 1));
    assert_false(btl_ib_wire_suffices(16383, 64, 3, 1));
    assert_false(btl_ib_wire_suffices(16384, 65, 3, 1));
    assert_false(btl_ib_wire_suffices(16384, 64, 4, 1));
    assert_true(btl_ib_wire_suffices(2, 1, 1, 1));
    assert_true(btl_ib_wire_suffices(32768, 64, 3, 2));
    assert_false(btl_ib_wire_suffices(32767, 64, 3, 2));
    assert_false(btl_ib_wire_suffices(1, 1, 1, 1));
    assert_false(btl_ib_wire_suffices(UINT32_MAX, UINT32_MAX, 16, 1));
    assert_false(btl_ib_wire_suffices(UINT32_MAX, 65536, 1, 1)); /* 2^33 */
}

UNIT_MAIN(NULL, NULL)
