/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Lines that wait: in their order, once each, and those that find no room are counted. */

#include "btl_ib_help.h"

static void note_line(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#undef BTL_IB_VERBOSE
#define BTL_IB_VERBOSE note_line

#include "btl_ib_help.c" /* what is static there */

#include <stdio.h>
#include <string.h>

#include "unit.h"

static btl_ib_log_state_t state_of_log;
static uint32_t printed;
static char last[BTL_IB_LINE_BYTES];

/* All but the count of lost lines are numbered by their level. */
static void note_line(int level, const char *format, ...)
{
    char expected[32];
    va_list args;

    va_start(args, format);
    vsnprintf(last, sizeof(last), format, args);
    va_end(args);
    if (strstr(last, "found no room") == NULL) {
        snprintf(expected, sizeof(expected), "line %d", level);
        assert_string_equal(last, expected);
        assert_int_equal(level, printed++);
    }
}

static bool add(uint32_t number)
{
    btl_ib_kept_line_t *line = kept_lines_add(&state_of_log.lines);

    state_of_log.pending |= BTL_IB_LOG_LINES;
    if (line != NULL) {
        line->level = (int) number;
        snprintf(line->text, sizeof(line->text), "line %u", number);
    }
    return line != NULL;
}

static void print_all(uint32_t expected)
{
    print_kept(&state_of_log);
    assert_int_equal(printed, expected);
    assert_false(btl_ib_log_pending(&state_of_log));
}

TEST(in_order)
{
    printed = 0;
    print_all(0);
    for (uint32_t i = 0; i < 5 * BTL_IB_KEPT_LINES; i++) {
        assert_true(add(2 * i));
        assert_true(add(2 * i + 1));
        print_all(2 * i + 2);
    }
    assert_string_equal(last, "line 319");
}

/* The oldest are kept: they say how it began. */
TEST(full)
{
    printed = 0;
    for (uint32_t i = 0; i < BTL_IB_KEPT_LINES; i++) {
        assert_true(add(i));
    }
    assert_false(add(1000));
    assert_false(add(1001));
    print_all(BTL_IB_KEPT_LINES);
    assert_string_equal(last, "2 lines of the progress thread found no room");
    assert_true(add(BTL_IB_KEPT_LINES)); /* there is room again, and none is lost */
    print_all(BTL_IB_KEPT_LINES + 1);
    assert_string_equal(last, "line 32");
}

/* Lines of the progress thread wait, with their text, until another one comes that may be printed;
 * where Open MPI knows of threads none waits. */
TEST(lines_of_the_thread)
{
    const int output = opal_btl_base_framework.framework_output;
    bool async = true;
    btl_ib_log_t log;

    printed = 0;
    btl_ib_log_init(&state_of_log, &async, false);
    log = btl_ib_log_table(&state_of_log);
    opal_btl_base_framework.framework_output = opal_output_open(NULL);
    opal_output_set_verbosity(opal_btl_base_framework.framework_output, 3);
    log.print(log.context, 0, "line %d", 0);
    log.print(log.context, 1, "%s 1", "line");
    log.print(log.context, 4, "too much for this level");
    assert_int_equal(printed, 0);
    assert_true(btl_ib_log_pending(&state_of_log));
    async = false;
    log.print(log.context, 2, "line %d", 2);
    assert_int_equal(printed, 3);
    assert_false(btl_ib_log_pending(&state_of_log));
    async = true;
    (void) opal_set_using_threads(true);
    log.print(log.context, 3, "line %d", 3);
    (void) opal_set_using_threads(false);
    assert_int_equal(printed, 4);
    assert_false(btl_ib_log_pending(&state_of_log));
    opal_output_close(opal_btl_base_framework.framework_output);
    opal_btl_base_framework.framework_output = output;
}

UNIT_MAIN(NULL, NULL)
