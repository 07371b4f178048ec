/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which devices a process uses, by their distances, networks and speeds, and by its place among the
 * processes of its host. */

#include <stdio.h>
#include <string.h>

#include "btl_ib_locality.h"
#include "unit.h"

#define MAX 20

static const btl_ib_locality_rule_t near = {.ranked = true, .near_only = true};
static const btl_ib_locality_rule_t rank = {.ranked = true};
static const btl_ib_locality_rule_t ignore = {.ranked = false};

static btl_ib_locality_rule_t at_most(btl_ib_locality_rule_t rule, uint32_t max, uint32_t position)
{
    rule.max = max;
    rule.position = position;
    return rule;
}

/* The choice in one line: "0 2 | 1<0 3-": devices 0 and 2 are used, 1 is farther than 0, and 3 is
 * one too many. */
static void expect(const btl_ib_candidate_t *candidates, uint32_t count,
                   btl_ib_locality_rule_t rule, const char *expected)
{
    btl_ib_locality_choice_t choices[MAX];
    const uint32_t used = btl_ib_locality_choose(candidates, count, &rule, choices);
    char text[256] = "";

    for (uint32_t i = 0; i < count; ++i) {
        char *end = text + strlen(text);

        assert_int_equal(i < used, choices[i].verdict == BTL_IB_LOCALITY_USED);
        end += sprintf(end, "%s%s%u", i > 0 ? " " : "", i == used ? "| " : "", choices[i].device);
        if (choices[i].verdict == BTL_IB_LOCALITY_FARTHER) {
            sprintf(end, "<%u", choices[i].better);
        } else if (choices[i].verdict == BTL_IB_LOCALITY_OVER_MAX) {
            sprintf(end, "-");
        }
    }
    assert_string_equal(text, expected);
}

#define EXPECT(list, rule, expected) expect(list, sizeof(list) / sizeof((list)[0]), rule, expected)

/* Near ones alone, near ones first, or as they are found. */
TEST(test_distance)
{
    const btl_ib_candidate_t list[] = {{21, 0, 100}, {0, 0, 100}, {31, 0, 100}, {0, 0, 100}};
    const btl_ib_candidate_t far[] = {{31, 0, 100}, {21, 0, 100}, {21, 0, 100}};

    EXPECT(list, near, "1 3 | 0<1 2<1");
    EXPECT(list, rank, "1 3 0 2");
    EXPECT(list, ignore, "0 1 2 3");
    EXPECT(far, near, "1 2 | 0<1"); /* none is near: the nearest */
    expect(list, 1, near, "0");
    expect(list, 0, near, "");
}

/* A device that alone leads somewhere stays, as does one that is faster. */
TEST(test_alone)
{
    const btl_ib_candidate_t networks[] = {{21, 0, 100}, {0, 1, 100}, {21, 1, 100}};
    const btl_ib_candidate_t speeds[] = {{0, 0, 10}, {21, 0, 100}, {21, 0, 10}, {31, 0, 100}};

    EXPECT(networks, near, "1 0 | 2<1");
    EXPECT(speeds, near, "0 1 | 2<0 3<1");
}

/* A limit is spent on each network in turn, and there on the nearest, then on the fastest. */
TEST(test_limit)
{
    const btl_ib_candidate_t list[] = {
        {21, 0, 100}, {0, 0, 10}, {0, 0, 100}, {21, 3, 100}, {0, 3, 100}};

    EXPECT(list, at_most(rank, 1, 0), "2 | 1- 4- 0- 3-");
    EXPECT(list, at_most(rank, 2, 0), "2 4 | 1- 0- 3-");
    EXPECT(list, at_most(rank, 3, 0), "1 2 4 | 0- 3-");
    EXPECT(list, at_most(rank, 5, 0), "1 2 4 0 3");
    EXPECT(list, at_most(rank, 16, 0), "1 2 4 0 3");
    EXPECT(list, at_most(near, 2, 0), "2 4 | 1- 0<2 3<4");
    EXPECT(list, at_most(ignore, 2, 0), "0 3 | 1- 2- 4-");

    /* One that is not used as it is farther takes no place. */
    const btl_ib_candidate_t farther[] = {{0, 0, 100}, {21, 0, 100}, {0, 1, 100}, {0, 1, 100}};
    EXPECT(farther, at_most(near, 3, 0), "0 2 3 | 1<0");
}

/* Where devices are alike each process of a host begins at another: also where every second or
 * fourth process is on the same socket. */
TEST(test_spread)
{
    const btl_ib_candidate_t two[] = {{0, 0, 100}, {0, 0, 100}};
    const btl_ib_candidate_t four[] = {{0, 0, 1}, {0, 0, 1}, {0, 0, 1}, {0, 0, 1}};

    EXPECT(two, at_most(near, 1, 0), "0 | 1-");
    EXPECT(two, at_most(near, 1, 1), "1 | 0-");
    EXPECT(two, at_most(near, 2, 1), "0 1"); /* nothing to choose */
    EXPECT(two, at_most(near, 0, 1), "0 1");
    EXPECT(four, at_most(near, 2, 3), "0 3 | 1- 2-");
    for (uint32_t step = 1; step <= 2; ++step) {
        uint32_t users[2][4] = {{0}};

        for (uint32_t position = 0; position < 32 * step; position += step) {
            const btl_ib_locality_rule_t rule = at_most(near, 1, position);
            btl_ib_locality_choice_t choices[4];

            assert_int_equal(btl_ib_locality_choose(two, 2, &rule, choices), 1);
            ++users[0][choices[0].device];
            assert_int_equal(btl_ib_locality_choose(four, 4, &rule, choices), 1);
            ++users[1][choices[0].device];
        }
        assert_int_equal(users[0][0], 16);
        for (int i = 0; i < 4; ++i) {
            assert_int_equal(users[1][i], 8);
        }
    }
}

/* Any candidates at all: each device once, no more than the limit, one at least, none used where a
 * better one is not, and never a network without a device that had one, if nothing limits. */
static void check_any(const btl_ib_candidate_t *list, uint32_t count, btl_ib_locality_rule_t rule)
{
    btl_ib_locality_choice_t choices[MAX];
    const uint32_t used = btl_ib_locality_choose(list, count, &rule, choices);
    uint32_t seen = 0;
    uint32_t networks = 0;
    uint32_t reached = 0;

    for (uint32_t i = 0; i < count; ++i) {
        const btl_ib_locality_choice_t *choice = &choices[i];
        const btl_ib_candidate_t *one = &list[choice->device];

        seen |= UINT32_C(1) << choice->device;
        networks |= UINT32_C(1) << one->network;
        reached |= i < used ? UINT32_C(1) << one->network : 0;
        if (choice->verdict == BTL_IB_LOCALITY_FARTHER) {
            assert_true(rule.near_only);
            assert_true(list[choice->better].distance < one->distance);
            assert_true(list[choice->better].bandwidth >= one->bandwidth);
            assert_int_equal(list[choice->better].network, one->network);
        }
    }
    assert_int_equal(seen, (UINT32_C(1) << count) - 1);
    assert_int_equal(used > 0, count > 0);
    assert_true(rule.max == 0 || used <= rule.max);
    assert_true(rule.max != 0 || reached == networks);
}

TEST(test_any)
{
    uint32_t random = 1;

    for (int round = 0; round < 20000; ++round) {
        btl_ib_candidate_t list[MAX];
        btl_ib_locality_rule_t rule;
        uint32_t drawn[4];

        for (int i = 0; i < 4; ++i) {
            random = random * 1103515245 + 12345;
            drawn[i] = random >> 16;
        }
        for (uint32_t i = 0; i < drawn[0] % 9; ++i) {
            random = random * 1103515245 + 12345;
            list[i] = (btl_ib_candidate_t){random >> 16 & 3, random >> 18 & 3, random >> 20 & 1};
        }
        rule = at_most(drawn[1] % 2 ? near : drawn[1] % 3 ? rank : ignore, drawn[2] % 6, drawn[3]);
        check_any(list, drawn[0] % 9, rule);
    }
}

UNIT_MAIN(NULL, NULL)
