/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What holds for every congestion control, and which one is chosen. */

#include "btl_ib_cc.h"
#include "support.h"
#include "unit.h"

static const btl_ib_cc_ops_t *const all[] = {&btl_ib_cc_none, &btl_ib_cc_swift, &btl_ib_cc_cubic};
#define ALL (sizeof(all) / sizeof(all[0]))

TEST(test_parse)
{
    static const char *const wrong[] = {"Swift", "swift ", " none", "cubi", "cubicc", "reno", "0"};
    btl_ib_cc_kind_t kind = BTL_IB_CC_CUBIC;

    assert_true(btl_ib_cc_parse(NULL, &kind));
    assert_int_equal(kind, BTL_IB_CC_AUTO);
    kind = BTL_IB_CC_CUBIC;
    assert_true(btl_ib_cc_parse("", &kind));
    assert_int_equal(kind, BTL_IB_CC_AUTO);
    assert_true(btl_ib_cc_parse("none", &kind));
    assert_int_equal(kind, BTL_IB_CC_NONE);
    assert_true(btl_ib_cc_parse("swift", &kind));
    assert_int_equal(kind, BTL_IB_CC_SWIFT);
    assert_true(btl_ib_cc_parse("cubic", &kind));
    assert_int_equal(kind, BTL_IB_CC_CUBIC);
    assert_true(btl_ib_cc_parse("auto", &kind));
    assert_int_equal(kind, BTL_IB_CC_AUTO);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(btl_ib_cc_parse(wrong[i], &kind));
    }
}

TEST(test_choose)
{
    for (int reliable = 0; reliable < 2; reliable++) {
        assert_ptr_equal(btl_ib_cc_choose(BTL_IB_CC_NONE, reliable), &btl_ib_cc_none);
        assert_ptr_equal(btl_ib_cc_choose(BTL_IB_CC_SWIFT, reliable), &btl_ib_cc_swift);
        assert_ptr_equal(btl_ib_cc_choose(BTL_IB_CC_CUBIC, reliable), &btl_ib_cc_cubic);
    }
    assert_ptr_equal(btl_ib_cc_choose(BTL_IB_CC_AUTO, true), &btl_ib_cc_none);
    assert_ptr_equal(btl_ib_cc_choose(BTL_IB_CC_AUTO, false), &btl_ib_cc_swift);
}

TEST(test_names)
{
    for (size_t i = 0; i < ALL; i++) {
        btl_ib_cc_kind_t kind;
        assert_true(btl_ib_cc_parse(all[i]->name, &kind));
        assert_ptr_equal(btl_ib_cc_choose(kind, false), all[i]);
    }
}

TEST(test_init)
{
    static const uint32_t maxes[] = {1, 2, 15, 63, 64, 65, 16384, 1u << 20};
    btl_ib_cc_t cc;

    for (size_t i = 0; i < sizeof(maxes) / sizeof(maxes[0]); i++) {
        for (size_t k = 0; k < ALL; k++) {
            btl_ib_cc_init(&cc, all[k], maxes[i], 1);
            bool open = all[k] == &btl_ib_cc_none || maxes[i] < BTL_IB_CC_INIT;
            assert_int_equal(cc.window, open ? maxes[i] : BTL_IB_CC_INIT);
            assert_int_equal(cc.pace, 0);
        }
    }
}

/* The window of a lossless fabric is always open. */
TEST(test_none)
{
    btl_ib_cc_t cc;

    btl_ib_cc_init(&cc, &btl_ib_cc_none, 700, 1);
    for (uint64_t now = 1; now < 1000; now++) {
        btl_ib_cc_ack_t ack = {now, now - 1, 1, 100000, 100000, 100000, true, false};
        cc.ops->acked(&cc, &ack);
        cc.ops->lost(&cc, now, now);
        cc.ops->undo(&cc);
        cc.ops->restart(&cc);
        const btl_ib_cc_marks_t marks = {.now = now, .sent_at = now, .count = 1, .ce = 1};
        assert_false(cc.ops->marked(&cc, &marks));
        assert_int_equal(cc.window, 700);
        assert_int_equal(cc.pace, 0);
    }
}

/* Whatever happens in whatever order: the window is at least one segment and at most the maximum,
 * and a pause between two segments ends. */
TEST(test_bounds)
{
    test_random_t r = TEST_RANDOM_SEED;

    for (int run = 0; run < 300; run++) {
        uint32_t max = 1 + test_random_below(&r, 1u << test_random_below(&r, 21));
        uint64_t now = 1;
        btl_ib_cc_t cc;

        btl_ib_cc_init(&cc, all[run % (int) ALL], max, 1);
        for (int step = 0; step < 2000; step++) {
            uint32_t before = cc.window;
            uint32_t rtt = test_random_below(&r, 1u << test_random_below(&r, 27));
            btl_ib_cc_ack_t ack = {
                .now = now,
                .sent_at = now - test_random_below(&r, (uint32_t) (now < 1000000 ? now : 1000000)),
                .count = 1 + test_random_below(&r, before),
                .rtt = rtt,
                .delay = rtt == 0 ? 0 : test_random_below(&r, rtt),
                .awake = rtt == 0 ? 0 : test_random_below(&r, rtt),
                .limited = test_random_below(&r, 2) == 0,
                .paused = test_random_below(&r, 4) == 0,
            };
            switch (test_random_below(&r, 8)) {
            case 0:
                cc.ops->lost(&cc, ack.sent_at, now);
                assert_true(cc.window <= before && cc.window >= before / 2);
                break;
            case 1:
                cc.ops->undo(&cc);
                assert_true(cc.window >= before);
                break;
            case 2:
                cc.ops->restart(&cc);
                assert_true(cc.window <= before);
                break;
            default:
                cc.ops->acked(&cc, &ack);
                assert_true(cc.window <= 3 * before);
                break;
            }
            assert_in_range(cc.window, 1, max);
            assert_true(cc.pace < INT32_MAX);
            now += test_random_below(&r, 1u << test_random_below(&r, 20));
        }
    }
}

UNIT_MAIN(NULL, NULL)
