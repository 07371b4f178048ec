/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What the texts of parameters stand for, and which stand for nothing. */

#include <stdio.h>
#include <string.h>

#include "btl_ib_old_values.h"
#include "btl_ib_param_parse.h"
#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define N  BTL_IB_VALUE_COUNT
#define B  BTL_IB_VALUE_BYTES
#define US BTL_IB_VALUE_MICROSECONDS
#define MS BTL_IB_VALUE_MILLISECONDS
#define S  BTL_IB_VALUE_SECONDS

static const struct {
    const char *text;
    btl_ib_value_unit_t unit;
    int64_t low;
    uint64_t high;
    uint64_t value;
} good[] = {
    {"0", N, 0, 10, 0},
    {"10", N, 0, 10, 10},
    {"-1", N, -1, 255, (uint64_t) -1},
    {"-0", N, 0, 10, 0},
    {"-9223372036854775808", N, INT64_MIN, 0, UINT64_C(1) << 63},
    {"18446744073709551615", N, 0, UINT64_MAX, UINT64_MAX},
    {"0x8001", N, 0, 65535, 0x8001},
    {"0XfF", N, 0, 255, 255},
    {"0xffffffffffffffff", B, 0, UINT64_MAX, UINT64_MAX},
    {"4096", B, 0, 1 << 30, 4096},
    {"4k", B, 0, 1 << 30, 4096},
    {"4K", B, 0, 1 << 30, 4096},
    {"4KiB", B, 0, 1 << 30, 4096},
    {"0x4k", B, 0, 1 << 30, 4096},
    {"3m", B, 0, 1 << 30, 3 << 20},
    {"3M", B, 0, 1 << 30, 3 << 20},
    {"3MiB", B, 0, 1 << 30, 3 << 20},
    {"1g", B, 0, 1 << 30, 1 << 30},
    {"1G", B, 0, 1 << 30, 1 << 30},
    {"1GiB", B, 0, 1 << 30, 1 << 30},
    {"64T", B, 0, UINT64_C(1) << 46, UINT64_C(1) << 46},
    {"64TiB", B, 0, UINT64_C(1) << 46, UINT64_C(1) << 46},
    {"16777215T", B, 0, UINT64_MAX, UINT64_C(0xffffff) << 40},
    {"250", US, 50, 1000000, 250},
    {"250us", US, 50, 1000000, 250},
    {"3ms", US, 50, 1000000, 3000},
    {"1s", US, 50, 1000000, 1000000},
    {"1min", US, 50, 60000000, 60000000},
    {"2000", MS, 1, 3600000, 2000},
    {"3000us", MS, 1, 3600000, 3},
    {"3000ms", MS, 1, 3600000, 3000},
    {"3s", MS, 1, 3600000, 3000},
    {"60min", MS, 1, 3600000, 3600000},
    {"900", S, 0, 86400, 900},
    {"900s", S, 0, 86400, 900},
    {"5min", S, 0, 86400, 300},
    {"900000ms", S, 0, 86400, 900},
    {"1440min", S, 0, 86400, 86400},
    {"2000000us", S, 0, 86400, 2},
    {"0min", S, 0, 86400, 0},
};

TEST(test_good_numbers)
{
    for (size_t i = 0; i < COUNT(good); ++i) {
        const btl_ib_value_range_t range = {good[i].unit, good[i].low, good[i].high};
        uint64_t value = 77;
        const char *problem = btl_ib_value_number(good[i].text, &range, &value);

        if (problem != NULL || value != good[i].value) {
            fail_msg("%s: %s, %llu", good[i].text, problem != NULL ? problem : "taken",
                     (unsigned long long) value);
        }
    }
}

static const struct {
    const char *text;
    btl_ib_value_unit_t unit;
    int64_t low;
    uint64_t high;
    const char *problem;
} bad[] = {
    {"", N, 0, 10, "it is empty"},
    {"", S, 0, 10, "it is empty"},
    {"abc", N, 0, 10, "it is no number"},
    {"-", N, -1, 10, "it is no number"},
    {"--1", N, -1, 10, "it is no number"},
    {"+1", N, 0, 10, "it is no number"},
    {" 1", N, 0, 10, "it is no number"},
    {"0x", N, 0, 10, "it is no number"},
    {"0xg", N, 0, 10, "it is no number"},
    {".5", S, 0, 10, "it is no number"},
    {"k", B, 0, 10, "it is no number"},
    {"nan", N, 0, 10, "it is no number"},
    {"010", N, 0, 10, "it begins with 0, which may be meant as octal"},
    {"00", N, 0, 10, "it begins with 0, which may be meant as octal"},
    {"1 ", N, 0, 10, "something follows the number"},
    {"1k", N, 0, 65536, "something follows the number"},
    {"1s", N, 0, 10, "something follows the number"},
    {"1.5", N, 0, 10, "something follows the number"},
    {"1e3", N, 0, 10000, "something follows the number"},
    {"9f", N, 0, 10000, "something follows the number"},
    {"5m", S, 0, 86400, "what follows the number is none of its units"},
    {"5h", S, 0, 86400, "what follows the number is none of its units"},
    {"5S", S, 0, 86400, "what follows the number is none of its units"},
    {"5 s", S, 0, 86400, "what follows the number is none of its units"},
    {"5ss", S, 0, 86400, "what follows the number is none of its units"},
    {"5k", S, 0, 86400, "what follows the number is none of its units"},
    {"1.5s", MS, 0, 86400, "what follows the number is none of its units"},
    {"4kB", B, 0, 65536, "what follows the number is none of its units"},
    {"4KB", B, 0, 65536, "what follows the number is none of its units"},
    {"4kib", B, 0, 65536, "what follows the number is none of its units"},
    {"4Mi", B, 0, 65536, "what follows the number is none of its units"},
    {"4 KiB", B, 0, 65536, "what follows the number is none of its units"},
    {"4s", B, 0, 65536, "what follows the number is none of its units"},
    {"4t", B, 0, UINT64_MAX, "what follows the number is none of its units"},
    {"500ms", S, 0, 86400, "it is no whole number of seconds"},
    {"500us", MS, 0, 86400, "it is no whole number of milliseconds"},
    {"-1", N, 0, 10, "it is too small"},
    {"-2", N, -1, 10, "it is too small"},
    {"-1s", S, 0, 10, "it is too small"},
    {"-9223372036854775809", N, INT64_MIN, 0, "it is too small"},
    {"-99999999999999999999", N, INT64_MIN, 0, "it is too small"},
    {"0", N, 1, 10, "it is too small"},
    {"49us", US, 50, 1000000, "it is too small"},
    {"11", N, 0, 10, "it is too large"},
    {"2s", US, 50, 1000000, "it is too large"},
    {"18446744073709551616", N, 0, UINT64_MAX, "it is too large"},
    {"99999999999999999999", N, 0, UINT64_MAX, "it is too large"},
    {"0x10000000000000000", N, 0, UINT64_MAX, "it is too large"},
    {"16777216T", B, 0, UINT64_MAX, "it is too large"},
    {"18446744073709551615k", B, 0, UINT64_MAX, "it is too large"},
    {"18446744073709551615min", S, 0, UINT64_MAX, "it is too large"},
    {"1min", S, 0, 59, "it is too large"},
};

TEST(test_bad_numbers)
{
    for (size_t i = 0; i < COUNT(bad); ++i) {
        const btl_ib_value_range_t range = {bad[i].unit, bad[i].low, bad[i].high};
        uint64_t value = 77;
        const char *problem = btl_ib_value_number(bad[i].text, &range, &value);

        if (problem == NULL || strcmp(problem, bad[i].problem) != 0 || value != 77) {
            fail_msg("'%s': %s", bad[i].text, problem != NULL ? problem : "taken");
        }
    }
}

TEST(test_units)
{
    assert_int_equal(btl_ib_value_unit("bytes"), B);
    assert_int_equal(btl_ib_value_unit("microseconds"), US);
    assert_int_equal(btl_ib_value_unit("milliseconds"), MS);
    assert_int_equal(btl_ib_value_unit("seconds"), S);
    assert_int_equal(btl_ib_value_unit("segments"), N);
    assert_int_equal(btl_ib_value_unit(""), N);
    assert_string_equal(btl_ib_value_unit_help(N), "");
    assert_non_null(strstr(btl_ib_value_unit_help(B), "KiB"));
    assert_non_null(strstr(btl_ib_value_unit_help(S), "min"));
}

TEST(test_bools)
{
    static const char *const no[] = {"0", "f", "false", "n", "no", "disabled"};
    static const char *const yes[] = {"1", "t", "true", "y", "yes", "enabled"};
    static const char *const neither[] = {"", "2", "-1", "maybe", "TRUE", " 1", "1 ", "00", "on"};

    for (size_t i = 0; i < COUNT(no); ++i) {
        bool value = true;

        assert_null(btl_ib_value_bool(no[i], &value));
        assert_false(value);
        assert_null(btl_ib_value_bool(yes[i], &value));
        assert_true(value);
    }
    for (size_t i = 0; i < COUNT(neither); ++i) {
        bool value = true;

        assert_non_null(btl_ib_value_bool(neither[i], &value));
        assert_true(value);
    }
}

TEST(test_truth_or_seconds)
{
    static const char *const nonsense[] = {"", "maybe", "0s", "-1", "86401", "500ms", "1.5", "2x"};
    uint64_t seconds = 77;
    bool value = false;

    assert_null(btl_ib_value_truth_or_seconds("yes", &value, &seconds));
    assert_true(value && seconds == 0);
    assert_null(btl_ib_value_truth_or_seconds("0", &value, &seconds));
    assert_true(!value && seconds == 0);
    assert_null(btl_ib_value_truth_or_seconds("1", &value, &seconds));
    assert_true(value && seconds == 0);
    value = false;
    assert_null(btl_ib_value_truth_or_seconds("1s", &value, &seconds));
    assert_true(value && seconds == 1);
    assert_null(btl_ib_value_truth_or_seconds("30", &value, &seconds));
    assert_true(value && seconds == 30);
    assert_null(btl_ib_value_truth_or_seconds("5min", &value, &seconds));
    assert_true(value && seconds == 300);
    for (size_t i = 0; i < COUNT(nonsense); ++i) {
        value = i % 2 != 0;
        assert_non_null(btl_ib_value_truth_or_seconds(nonsense[i], &value, &seconds));
        assert_true(seconds == 300 && (i % 2 != 0) == value);
    }
}

TEST(test_list)
{
    static const btl_ib_value_range_t range = {BTL_IB_VALUE_COUNT, 0, 16384};
    static const char *const nonsense[] = {
        "",    ",",        "1,",        ",1",   "1,,2",
        "abc", "64,16385", "1,2,3,4,5", "1, 2", "0000000000000000000000000000000000000001",
    };
    uint64_t values[4] = {7, 7, 7, 7};
    size_t count = 7;

    for (size_t i = 0; i < COUNT(nonsense); ++i) {
        assert_non_null(btl_ib_value_list(nonsense[i], &range, 4, values, &count));
        assert_true(count == 7 && values[0] == 7);
    }
    assert_null(btl_ib_value_list("512", &range, 4, values, &count));
    assert_true(count == 1 && values[0] == 512 && values[1] == 7);
    assert_null(btl_ib_value_list("0,0x10,16384,1", &range, 4, values, &count));
    assert_true(count == 4 && values[0] == 0 && values[1] == 16 && values[2] == 16384);
}

TEST(test_flags)
{
    static const btl_ib_value_flag_t flags[] = {{"send", 1}, {"put", 2}, {"rdma-flush", 8}, {0}};
    static const char *const nonsense[] = {
        "",          ",",     "send,",    ",send",  "send,,put",  "get",
        "sen",       "sendd", "send put", "4",      "15x",        "0x10",
        "0x1000000", "-1",    "01",       "send,4", "4294967297", "11111111111111111111111",
    };
    uint32_t value;

    assert_null(btl_ib_value_flags("send", flags, &value));
    assert_int_equal(value, 1);
    assert_null(btl_ib_value_flags("put,SEND,send", flags, &value));
    assert_int_equal(value, 3);
    assert_null(btl_ib_value_flags("0xb", flags, &value));
    assert_int_equal(value, 11);
    assert_null(btl_ib_value_flags("2,rdma-flush", flags, &value));
    assert_int_equal(value, 10);
    assert_null(btl_ib_value_flags("0", flags, &value));
    assert_int_equal(value, 0);
    for (size_t i = 0; i < COUNT(nonsense); ++i) {
        value = 77;
        if (btl_ib_value_flags(nonsense[i], flags, &value) == NULL || value != 77) {
            fail_msg("'%s' is taken", nonsense[i]);
        }
    }
}

TEST(test_shares)
{
    static const struct {
        const char *text;
        uint64_t millionths;
    } shares[] = {
        {"50%", 500000}, {"0.25", 250000}, {"2/3", 666666},
        {"5/8", 625000}, {"0/1", 0},       {"1/1", 1000000},
    };
    static const char *const nonsense[] = {
        "/",    "2/",   "/3",    "3/2",  "0/0",
        "2/3x", "2x/3", "2/3/4", "-2/3", "1/99999999999999999999",
        "2/3%", "0.5/1"};
    uint64_t value;
    bool is_share;

    for (size_t i = 0; i < COUNT(shares); ++i) {
        assert_null(btl_ib_value_bytes_or_share(shares[i].text, &value, &is_share));
        assert_true(is_share && value == shares[i].millionths);
    }
    assert_null(btl_ib_value_bytes_or_share("8G", &value, &is_share));
    assert_true(!is_share && value == UINT64_C(8) << 30);
    for (size_t i = 0; i < COUNT(nonsense); ++i) {
        value = 77;
        assert_non_null(btl_ib_value_bytes_or_share(nonsense[i], &value, &is_share));
        assert_int_equal(value, 77);
    }
    assert_string_equal(
        btl_ib_value_bytes_or_share("1111111111111111111111111111111%", &value, &is_share),
        "it is too large"); /* 32 bytes */
    assert_string_equal(
        btl_ib_value_bytes_or_share("11111111111111111111111111111111%", &value, &is_share),
        "it is too long");
}

/* A setting of openib, usnic or GASNet means what it meant, and nothing else is touched. */
TEST(test_old_values)
{
    assert_string_equal(btl_ib_old_value("mtu", "4"), "2048");
    assert_string_equal(btl_ib_old_value("mtu", "5"), "4096");
    assert_string_equal(btl_ib_old_value("mtu", "2048"), "2048");
    assert_string_equal(btl_ib_old_value("mtu", "6"), "6");
    assert_string_equal(btl_ib_old_value("max_btls", "-1"), "0");
    assert_string_equal(btl_ib_old_value("gid_index", "-1"), "-1");
    assert_string_equal(btl_ib_old_value("flags", "310"), "send,put,get");
}

TEST(test_show)
{
    char out[8];

    btl_ib_value_show("", out, sizeof(out));
    assert_string_equal(out, "");
    btl_ib_value_show("a\nb\033\177", out, sizeof(out));
    assert_string_equal(out, "a?b??");
    btl_ib_value_show("1234567", out, sizeof(out));
    assert_string_equal(out, "1234567");
    btl_ib_value_show("12345678", out, sizeof(out));
    assert_string_equal(out, "1234...");
}

TEST(test_lists)
{
    assert_true(btl_ib_value_lists("ib", "ib"));
    assert_true(btl_ib_value_lists("openib,ib,self", "ib"));
    assert_true(btl_ib_value_lists("self,ib", "ib"));
    assert_false(btl_ib_value_lists("", "ib"));
    assert_false(btl_ib_value_lists("openib,ibx,i,,b", "ib"));
}

UNIT_MAIN(NULL, NULL)
