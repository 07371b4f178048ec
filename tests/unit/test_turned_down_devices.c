/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The list of devices that were turned down. */

#include <stdio.h>
#include <string.h>

#include "btl_ib_help.h"
#include "unit.h"

static char out[16384];

static const char *format(const btl_ib_turned_down_devices_t *turned_down, size_t size)
{
    memset(out, 'x', sizeof(out));
    btl_ib_turned_down_devices_format(turned_down, out, size);
    assert_true(strlen(out) < size);
    return out;
}

TEST(test_lines)
{
    btl_ib_turned_down_devices_t turned_down = {0};

    assert_string_equal(format(&turned_down, sizeof(out)), "  (nothing)\n");
    btl_ib_turned_down_devices_add(&turned_down, "udp", "eth0", "it is down");
    btl_ib_turned_down_devices_add(&turned_down, "verbs", NULL, "no device");
    btl_ib_turned_down_devices_add(&turned_down, "verbs", "", "none at all");
    assert_string_equal(format(&turned_down, sizeof(out)),
                        "  udp/eth0: it is down\n  verbs: no device\n  verbs: none at all\n");
}

/* A device has several addresses and is looked at several times. */
TEST(test_once)
{
    btl_ib_turned_down_devices_t turned_down = {0};

    for (int i = 0; i < 3; ++i) {
        btl_ib_turned_down_devices_add(&turned_down, "udp", "eth0", "it is down");
        btl_ib_turned_down_devices_add(&turned_down, "udp", "eth0", "its address is link-local");
        btl_ib_turned_down_devices_add(&turned_down, "ofi", "eth0", "it is down");
    }
    assert_int_equal(turned_down.count, 3);
    assert_int_equal(turned_down.more, 0);
}

TEST(test_many)
{
    btl_ib_turned_down_devices_t turned_down = {0};
    char name[16];

    for (int i = 0; i < BTL_IB_TURNED_DOWN_MAX + 5; ++i) {
        snprintf(name, sizeof(name), "veth%d", i);
        btl_ib_turned_down_devices_add(&turned_down, "udp", name, "it has no IP address");
    }
    assert_int_equal(turned_down.count, BTL_IB_TURNED_DOWN_MAX);
    assert_non_null(strstr(format(&turned_down, sizeof(out)), "\n  and 5 more\n"));
}

/* Long texts are cut; what does not fit is left out in whole lines. */
TEST(test_bounds)
{
    btl_ib_turned_down_devices_t turned_down = {0};
    char text[1000];

    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    btl_ib_turned_down_devices_add(&turned_down, "udp", "eth0", "down");
    btl_ib_turned_down_devices_add(&turned_down, text, text, text);
    assert_int_equal(strlen(turned_down.device[1].name), sizeof(turned_down.device[1].name) - 1);
    assert_int_equal(strlen(turned_down.device[1].reason),
                     sizeof(turned_down.device[1].reason) - 1);
    for (size_t size = 1; size < 300; ++size) {
        const char *all = format(&turned_down, size);

        assert_true(all[0] == '\0' || all[strlen(all) - 1] == '\n');
    }
    assert_string_equal(format(&turned_down, strlen("  udp/eth0: down\n") + 1),
                        "  udp/eth0: down\n");
    assert_string_equal(format(&turned_down, strlen("  udp/eth0: down\n")), "");
}

UNIT_MAIN(NULL, NULL)
