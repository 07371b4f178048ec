/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Tables of defaults by device: what is taken, what is refused and how, and our own table. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "btl_ib_device_table.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char own[] =
#include "btl_ib_device_params.h"
    ;

/* Returns the section's name, or "" if there is none. */
static const char *section_of(const char *table, uint32_t vendor, uint32_t part)
{
    static btl_ib_device_config_t config;
    btl_ib_device_table_error_t error;
    const int rc = btl_ib_device_table_find(table, vendor, part, &config, &error);

    if (0 > rc) {
        fail_msg("line %u: %s = %s: %s; expected %s", error.line, error.key, error.value,
                 error.problem, error.expected);
    }
    return 0 < rc ? config.section : "";
}

/* ---- what is accepted ---- */

static const char good[] = "# nothing yet\n"
                           "\n"
                           " \t \n"
                           "[ First one ]\r\n"
                           "vendor_id=1,0x2 , 5-0xA\n"
                           " vendor_part_id\t= 0x10-0x1F,7\n"
                           "   # and its settings\n"
                           "wire = rc\n"
                           "[Second]\n"
                           "vendor_part_id = any\n"
                           "receive_queues = P,128,256,,16:S,4096,64\n"
                           "vendor_id = 2\n"
                           "max_inline_data = 0\n"
                           "mtu = 0x400\n"
                           "[Third]\n"
                           "transport = ofi\n"
                           "mtu = 0\n"
                           "max_eager_rdma = 64\n"
                           "rc_reads = 1\n"
                           "vendor_id = 4294967295\n"
                           "vendor_part_id = 0xffffffff";

static void test_sections(void **state)
{
    (void) state;
    assert_string_equal(section_of(good, 1, 0x10), "First one");
    assert_string_equal(section_of(good, 2, 0x1f), "First one");
    assert_string_equal(section_of(good, 10, 7), "First one");
    assert_string_equal(section_of(good, 5, 0x11), "First one");
    assert_string_equal(section_of(good, 4, 0x10), "");
    assert_string_equal(section_of(good, 11, 0x10), "");
    assert_string_equal(section_of(good, 1, 0x20), "");
    assert_string_equal(section_of(good, 1, 0xf), "");
    assert_string_equal(section_of(good, 2, 0x20), "Second");
    assert_string_equal(section_of(good, 2, 0), "Second");
    assert_string_equal(section_of(good, UINT32_MAX, UINT32_MAX), "Third");
    assert_string_equal(section_of(good, 0, 0), "");
    assert_string_equal(section_of("", 0, 0), "");
    assert_string_equal(section_of("#", 0, 0), "");
    assert_string_equal(section_of("[a]\nvendor_id = any\nvendor_part_id = any", 9, 9), "a");
}

static void test_settings(void **state)
{
    static const struct {
        uint32_t vendor, part;
        const char *text;
    } cases[] = {
        {1, 7, "wire rc"},
        {2, 0, "receive_queues P,128,256,,16:S,4096,64, max_inline_data 0, mtu 1024"},
        {UINT32_MAX, UINT32_MAX, "transport ofi, mtu 0, max_eager_rdma 64, rc_reads 1"},
    };
    btl_ib_device_config_t config;
    btl_ib_device_table_error_t error;
    char text[512];

    (void) state;
    for (size_t i = 0; i < COUNT(cases); ++i) {
        memset(&config, 0xa5, sizeof(config));
        assert_int_equal(
            btl_ib_device_table_find(good, cases[i].vendor, cases[i].part, &config, &error), 1);
        btl_ib_device_config_format(&config, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
    }
    for (size_t size = 1; size < 40; ++size) { /* cut, never beyond its end */
        memset(text, '#', sizeof(text));
        btl_ib_device_config_format(&config, text, size);
        assert_int_equal(text[size], '#');
        assert_true(strlen(text) < size);
    }
    config = BTL_IB_DEVICE_CONFIG_NONE;
    btl_ib_device_config_format(&config, text, sizeof(text));
    assert_string_equal(text, "nothing");
}

/* ---- what is refused, and how ---- */

#define IDS    "[a]\nvendor_id = 1\nvendor_part_id = 1\n"
#define LONG63 "x23456789012345678901234567890123456789012345678901234567890123"

static const struct {
    const char *table;
    uint32_t line;
    const char *key;
    const char *value;
    const char *problem;  /* a part of it */
    const char *expected; /* a part of it */
} bad[] = {
    {"vendor_id = 1", 1, "vendor_id", "1", "no section", "[name]"},
    {"\n\nwire", 3, "wire", "", "no '='", "key = value"},
    {"[]", 1, "[]", "", "no beginning", "1 to 63"},
    {"[", 1, "[", "", "no beginning", "1 to 63"},
    {"[ ]", 1, "[ ]", "", "no beginning", "1 to 63"},
    {"[a", 1, "[a", "", "no beginning", "1 to 63"},
    {"[a] b", 1, "[a] b", "", "no beginning", "1 to 63"},
    {"[" LONG63 "4]", 1,
     "["
     "x2345678901234567890123456789012345678901234567890123456789012",
     "", "no beginning", "1 to 63"},
    {"[a]", 1, "a", "", "which devices", "vendor_part_id"},
    {"[a]\nvendor_id = 1\n[b]\nvendor_id = 2\nvendor_part_id = 2", 1, "a", "", "which devices",
     "vendor_part_id"},
    {IDS "\n[b]\nvendor_part_id = 1", 5, "b", "", "which devices", "vendor_id"},
    {"[a]\nvendor_id =", 2, "vendor_id", "", "no number", "any"},
    {"[a]\nvendor_id = x", 2, "vendor_id", "x", "no number", "0x101b-0x101f"},
    {"[a]\nvendor_id = 0x", 2, "vendor_id", "0x", "follows", "any"},
    {"[a]\nvendor_id = 0xg", 2, "vendor_id", "0xg", "no number", "any"},
    {"[a]\nvendor_id = -1", 2, "vendor_id", "-1", "no number", "any"},
    {"[a]\nvendor_id = 1,", 2, "vendor_id", "1,", "no number", "any"},
    {"[a]\nvendor_id = 1,,2", 2, "vendor_id", "1,,2", "no number", "any"},
    {"[a]\nvendor_id = 1 2", 2, "vendor_id", "1 2", "follows", "any"},
    {"[a]\nvendor_id = any,1", 2, "vendor_id", "any,1", "no number", "any"},
    {"[a]\nvendor_id = 4294967296", 2, "vendor_id", "4294967296", "no number", "32 bits"},
    {"[a]\nvendor_id = 99999999999999999999999", 2, "vendor_id", "99999999999999999999999",
     "no number", "32 bits"},
    {"[a]\nvendor_part_id = 2-1", 2, "vendor_part_id", "2-1", "no range", "any"},
    {"[a]\nvendor_part_id = 1-", 2, "vendor_part_id", "1-", "no range", "any"},
    {"[a]\nvendor_part_id = 1-x", 2, "vendor_part_id", "1-x", "no range", "any"},
    {"[a]\nvendor_part_id = 1-2-3", 2, "vendor_part_id", "1-2-3", "follows", "any"},
    {IDS "vendor_id = 1", 4, "vendor_id", "1", "already", "once"},
    {IDS "mtu = 512\nmtu = 512", 5, "mtu", "512", "already", "once"},
    {IDS "use_eager_rdma = 1", 4, "use_eager_rdma", "1", "no key", "max_eager_rdma"},
    {IDS "MTU = 512", 4, "MTU", "512", "no key", "mtu"},
    {IDS "= 512", 4, "", "512", "no key", "mtu"},
    {IDS "mtu = 255", 4, "mtu", "255", "no number in its range", "0, or 256 to 65535"},
    {IDS "mtu = 65536", 4, "mtu", "65536", "no number in its range", "0, or 256 to 65535"},
    {IDS "mtu = 1k", 4, "mtu", "1k", "no number in its range", "256 to 65535"},
    {IDS "mtu =", 4, "mtu", "", "no number in its range", "256 to 65535"},
    {IDS "max_inline_data = -1", 4, "max_inline_data", "-1", "no number in", "0 to 1024"},
    {IDS "max_inline_data = 1025", 4, "max_inline_data", "1025", "no number in", "0 to 1024"},
    {IDS "max_eager_rdma = 65", 4, "max_eager_rdma", "65", "no number in", "0 to 64"},
    {IDS "rc_reads = 0", 4, "rc_reads", "0", "no number in", "1 to 128"},
    {IDS "rc_reads = 129", 4, "rc_reads", "129", "no number in", "1 to 128"},
    {IDS "wire = xrc", 4, "wire", "xrc", "none of these", "ud or rc"},
    {IDS "wire = auto", 4, "wire", "auto", "none of these", "ud or rc"},
    {IDS "transport = udp", 4, "transport", "udp", "none of these", "verbs or ofi"},
    {IDS "receive_queues = P,128", 4, "receive_queues", "P,128", "no list", "num of queue 1"},
    {IDS "receive_queues =", 4, "receive_queues", "", "no list", "P"},
    {IDS "wire = r\1c\177", 4, "wire", "r?c?", "none of these", "ud or rc"},
    /* Also in sections of other devices, and behind the one that was looked for. */
    {"[a]\nvendor_id = 0\nvendor_part_id = 0\n[b]\nvendor_id = 9\nvendor_part_id = 9\nwire = x", 7,
     "wire", "x", "none of these", "ud or rc"},
};

static void test_bad(void **state)
{
    btl_ib_device_config_t config;
    btl_ib_device_table_error_t error;

    (void) state;
    for (size_t i = 0; i < COUNT(bad); ++i) {
        memset(&error, 0xa5, sizeof(error));
        if (-EINVAL != btl_ib_device_table_find(bad[i].table, 0, 0, &config, &error)) {
            fail_msg("accepted: %s", bad[i].table);
        }
        if (error.line != bad[i].line || 0 != strcmp(error.key, bad[i].key)
            || 0 != strcmp(error.value, bad[i].value)
            || NULL == strstr(error.problem, bad[i].problem)
            || NULL == strstr(error.expected, bad[i].expected)) {
            fail_msg("%s\nline %u: %s = %s: %s; expected %s", bad[i].table, error.line, error.key,
                     error.value, error.problem, error.expected);
        }
    }
}

/* ---- our own table ---- */

static void test_own(void **state)
{
    static const struct {
        uint32_t vendor, part;
        const char *section;
    } devices[] = {
        {0x2c9, 4099, "Mellanox ConnectX-3"},
        {0x2c9, 4103, "Mellanox ConnectX-3"},
        {0x15b3, 4115, "Mellanox ConnectX-4"},
        {0x2c9, 4117, "Mellanox ConnectX-4"},
        {0x2c9, 4119, "Mellanox ConnectX-5"},
        {0x2c9, 4121, "Mellanox ConnectX-5"},
        {0x119f, 4123, "Mellanox ConnectX-6"},
        {0x2c9, 4125, "Mellanox ConnectX-6"},
        {0x2c9, 4129, "NVIDIA ConnectX-7"},
        {0x2c9, 0xa2d6, "NVIDIA BlueField"},
        {0x2c9, 4113, ""},
        {0x2c9, 0, ""},
        {0x8086, 0x1592, "Intel E810"},
        {0x8086, 0x1593, "Intel E810"},
        {0x8086, 0x159b, "Intel E810"},
        {0x8086, 0x1594, ""},
        {0x1425, 0x6407, "Chelsio T6"},
        {0x1425, 0x5410, ""},
        {0x1077, 32880, "QLogic FastLinQ"},
        {0x1077, 0x1656, "QLogic FastLinQ"},
        {0x14e4, 0x16d7, "Broadcom BCM57XXX"},
        {0x14e4, 0xd802, "Broadcom BCM58XXX"},
        {0x1d0f, 0xefa0, "Amazon EFA"},
        {0x1d0f, 0xefa2, "Amazon EFA"},
        {0x1137, 0xcf, "Cisco usNIC"},
        {0xffffff, 0, "soft-RoCE"},
        {0, 0, "soft-RoCE"},
        {0x626d74, 0, "soft-iWARP"},
        {0x626d74, 1, "soft-iWARP"},
        {0x626d74, 2, "soft-iWARP"},
    };

    (void) state;
    for (size_t i = 0; i < COUNT(devices); ++i) {
        const char *section = section_of(own, devices[i].vendor, devices[i].part);

        if (0 != strcmp(section, devices[i].section)) {
            fail_msg("vendor 0x%x, part 0x%x: %s, not %s", devices[i].vendor, devices[i].part,
                     section, devices[i].section);
        }
    }
}

/* What hosts choose by it cannot differ where they could have chosen alike: a wire stands only
 * where devices have no other. */
static void test_own_wires(void **state)
{
    btl_ib_device_config_t config;
    btl_ib_device_table_error_t error;

    (void) state;
    assert_int_equal(btl_ib_device_table_find(own, 0x1425, 0x6407, &config, &error), 1);
    assert_string_equal(config.wire, "rc");
    assert_int_equal(btl_ib_device_table_find(own, 0x626d74, 0, &config, &error), 1);
    assert_string_equal(config.wire, "rc");
    for (const char *at = own; NULL != (at = strstr(at, "\nwire")); ++at) {
        assert_memory_equal(at, "\nwire = rc\n", 11);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sections),  cmocka_unit_test(test_settings),
        cmocka_unit_test(test_bad),       cmocka_unit_test(test_own),
        cmocka_unit_test(test_own_wires),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
