/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Lines that wait: in their order, once each, and those that find no room are counted. */

#include "btl_ib_help.c" /* what is static there */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static btl_ib_kept_lines_t lines;

static bool add(uint32_t number)
{
    btl_ib_kept_line_t *line = kept_lines_add(&lines);

    if (line != NULL) {
        line->level = (int) number;
        snprintf(line->text, sizeof(line->text), "line %u", number);
    }
    return line != NULL;
}

static void expect(uint32_t number)
{
    const btl_ib_kept_line_t *line = kept_lines_take(&lines);
    char text[32];

    assert_non_null(line);
    snprintf(text, sizeof(text), "line %u", number);
    assert_int_equal(line->level, number);
    assert_string_equal(line->text, text);
}

static void in_order(void **state)
{
    (void) state;
    assert_null(kept_lines_take(&lines));
    for (uint32_t i = 0; i < 5 * BTL_IB_KEPT_LINES; i++) {
        assert_true(add(2 * i));
        assert_true(add(2 * i + 1));
        expect(2 * i);
        expect(2 * i + 1);
        assert_null(kept_lines_take(&lines));
    }
    assert_int_equal(kept_lines_take_lost(&lines), 0);
}

/* The oldest are kept: they say how it began. */
static void full(void **state)
{
    (void) state;
    for (uint32_t i = 0; i < BTL_IB_KEPT_LINES; i++) {
        assert_true(add(i));
    }
    assert_false(add(1000));
    assert_false(add(1001));
    for (uint32_t i = 0; i < BTL_IB_KEPT_LINES; i++) {
        expect(i);
    }
    assert_null(kept_lines_take(&lines));
    assert_int_equal(kept_lines_take_lost(&lines), 2);
    assert_int_equal(kept_lines_take_lost(&lines), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
