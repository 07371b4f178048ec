/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Libraries that are loaded when they are needed: by libm, which every system has. */

#include <string.h>

#include "btl_ib_library.h"
#include "unit.h"

#define OURS 4711.0

/* As if LD_PRELOAD brought it. */
__attribute__((visibility("default"))) double cbrt(double x);
double cbrt(double x)
{
    (void) x;
    return OURS;
}

#ifdef __GLIBC__
#define MATHS "libm"
#else /* musl has it in one file with all else */
#define MATHS "libc"
#endif

static struct {
    double (*cbrt)(double);
    double (*ldexp)(double, int);
} calls;

static const char *const names[] = {"cbrt", "ldexp"};
static const char *const unknown[] = {"cbrt", "btl_ib_no_such_function"};

static btl_ib_library_t library_of(const char *file, const char *const *functions)
{
    calls.cbrt = NULL;
    return (btl_ib_library_t){
        .file = file, .package = "Debian: none", .names = functions, .count = 2, .calls = &calls};
}

TEST(test_load)
{
    btl_ib_library_t library = library_of("libm.so.6", names);
    char text[128] = "";

    assert_false(btl_ib_library_check(&library, false, text, sizeof(text)));
    assert_string_equal(text, "not loaded");
    btl_ib_library_file(&library, text, sizeof(text));
    assert_string_equal(text, "unknown");
    assert_true(btl_ib_library_load(&library, NULL, 0));
    assert_true(btl_ib_library_load(&library, NULL, 0));
    assert_true(calls.cbrt(27.0) < 3.1);
    assert_true(calls.ldexp(3.0, 2) == 12.0);
    assert_true(btl_ib_library_check(&library, false, text, sizeof(text)));
    btl_ib_library_file(&library, text, sizeof(text));
    assert_memory_equal(text, MATHS, 4);
}

TEST(test_preload)
{
    btl_ib_library_t library = library_of("libm.so.6", names);

    library.preload = true;
    assert_true(btl_ib_library_load(&library, NULL, 0));
    assert_true(calls.cbrt(27.0) == OURS);
    assert_true(calls.ldexp(3.0, 2) == 12.0);
}

TEST(test_missing)
{
    btl_ib_library_t library = library_of("libbtl_ib_none.so.1", names);
    char text[128] = "";

    assert_false(btl_ib_library_load(&library, text, sizeof(text)));
    assert_non_null(strstr(text, "libbtl_ib_none.so.1: ")); /* the loader's words */
    assert_non_null(strstr(text, " (Debian: none)"));
    assert_false(btl_ib_library_load(&library, NULL, 0));
    assert_false(btl_ib_library_check(&library, true, text, sizeof(text)));
    assert_memory_equal(text, "cannot be loaded: ", 18);
    assert_non_null(strstr(text, "libbtl_ib_none.so.1: "));

    library = library_of("libm.so.6", unknown);
    assert_false(btl_ib_library_load(&library, text, sizeof(text)));
    assert_string_equal(text, "libm.so.6 lacks btl_ib_no_such_function");
    assert_null(library.handle);
}

UNIT_MAIN(NULL, NULL)
