/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What each unit test begins with. */

#ifndef BTL_IB_TEST_UNIT_H
#define BTL_IB_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

/* cmocka hands each test a state, which few use; what tests hand to code under test is called with
 * more than it uses, too. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* The tests of a program, in the order in which they stand in its file. */
static struct {
    size_t count;
    int line[64];
    struct CMUnitTest test[64];
} unit_tests __attribute__((unused));

/* Enters a test, which stands in that line. */
static inline void unit_enter(int line, const struct CMUnitTest *test)
{
    size_t at = unit_tests.count++;

    if (unit_tests.count > sizeof(unit_tests.line) / sizeof(unit_tests.line[0])) {
        abort();
    }
    for (; at > 0 && unit_tests.line[at - 1] > line; at--) {
        unit_tests.line[at] = unit_tests.line[at - 1];
        unit_tests.test[at] = unit_tests.test[at - 1];
    }
    unit_tests.line[at] = line;
    unit_tests.test[at] = *test;
}

/* Begins a test: TEST(name) { ... }. Nobody need call it. */
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* The same, with what is called before and after it, whether it fails or not. */
#define TEST_WITH(name, set_up, tear_down)                                                         \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void enter_##name(void)                                    \
    {                                                                                              \
        unit_enter(__LINE__, &(struct CMUnitTest){#name, name, set_up, tear_down, NULL});          \
    }                                                                                              \
    static void name(void **state)

/* Runs all tests, `first` before them, `last` after them. Returns how many failed. */
static inline int unit_run(CMFixtureFunction first, CMFixtureFunction last)
{
    return _cmocka_run_group_tests("tests", unit_tests.test, unit_tests.count, first, last);
}

/* Ends the file of a program that does no more than that. */
#define UNIT_MAIN(first, last)                                                                     \
    int main(void)                                                                                 \
    {                                                                                              \
        return unit_run(first, last);                                                              \
    }

#endif
