/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What users are told: all that is written to stderr from begin_told() to end_told(). Included by
 * one source of a test. */

#ifndef BTL_IB_TEST_TOLD_H
#define BTL_IB_TEST_TOLD_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

static char told[1 << 18];
static FILE *told_file;
static int told_stderr;

static inline void begin_told(void)
{
    told_file = tmpfile();
    assert_non_null(told_file);
    fflush(stderr);
    told_stderr = dup(STDERR_FILENO);
    assert_true(told_stderr >= 0 && dup2(fileno(told_file), STDERR_FILENO) >= 0);
}

static inline void end_told(void)
{
    fflush(stderr);
    assert_true(dup2(told_stderr, STDERR_FILENO) >= 0);
    close(told_stderr);
    rewind(told_file);
    told[fread(told, 1, sizeof(told) - 1, told_file)] = '\0';
    fclose(told_file);
}

static inline void expect_told(const char *text)
{
    if (strstr(told, text) == NULL) {
        fail_msg("told is:\n%s\nexpected in it: %s", told, text);
    }
}

static inline void expect_untold(const char *text)
{
    if (strstr(told, text) != NULL) {
        fail_msg("told is:\n%s\nnot expected in it: %s", told, text);
    }
}

#endif
