/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Addresses that peers use instead of those of our interfaces: which device gets which, and what is
 * no such address. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "published_address.h"
#include "unit.h"

/* What a device of that interface is known by, as "10.0.0.1:5000"; "": by its own address. */
static const char *published(const char *text, const char *interface, sa_family_t family)
{
    static char out[INET6_ADDRSTRLEN + 8];
    btl_ib_device_t device = {.transport = "udp", .ip.ss_family = family};
    const struct sockaddr_in *v4 = (const struct sockaddr_in *) (const void *) &device.published;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) (const void *) &device.published;
    char ip[INET6_ADDRSTRLEN];

    snprintf(device.interface, sizeof(device.interface), "%s", interface);
    assert_null(btl_ib_published_address(text, true, &device));
    out[0] = '\0';
    if (device.published.ss_family != AF_UNSPEC) {
        assert_int_equal(device.published.ss_family, family);
        assert_non_null(inet_ntop(family,
                                  family == AF_INET ? (const void *) &v4->sin_addr
                                                    : (const void *) &v6->sin6_addr,
                                  ip, sizeof(ip)));
        snprintf(out, sizeof(out), "%s:%u", ip, ntohs(v4->sin_port));
    }
    return out;
}

TEST(of_interfaces)
{
    static const char list[] = "eth0=10.0.0.1,eth1=10.0.0.2:65535,eth1=[fd00::2]:1,eth2=fd00::3";

    assert_string_equal(published("10.0.0.1", "eth0", AF_INET), "10.0.0.1:0");
    assert_string_equal(published("10.0.0.1", "eth0", AF_INET6), "");
    assert_string_equal(published("[fd00::1]", "any", AF_INET6), "fd00::1:0");
    assert_string_equal(published(list, "eth0", AF_INET), "10.0.0.1:0");
    assert_string_equal(published(list, "eth0", AF_INET6), "");
    assert_string_equal(published(list, "eth1", AF_INET), "10.0.0.2:65535");
    assert_string_equal(published(list, "eth1", AF_INET6), "fd00::2:1");
    assert_string_equal(published(list, "eth2", AF_INET6), "fd00::3:0");
    assert_string_equal(published(list, "eth", AF_INET), "");
    assert_string_equal(published("", "eth0", AF_INET), "");
    assert_string_equal(published(NULL, "eth0", AF_INET), "");
}

/* Only udp has such, and not within a host. */
TEST(of_others)
{
    btl_ib_device_t lo = {.transport = "udp", .ip.ss_family = AF_INET, .loopback = true};
    btl_ib_device_t verbs = {.transport = "verbs", .ip.ss_family = AF_INET};

    assert_null(btl_ib_published_address("10.0.0.1", false, &lo));
    assert_int_equal(lo.published.ss_family, AF_UNSPEC);
    assert_null(btl_ib_published_address("10.0.0.1", false, &verbs));
    assert_int_equal(verbs.published.ss_family, AF_UNSPEC);
}

TEST(wrong)
{
    static const char *const rows[][2] = {
        {"10.0.0", "it has no IP address in numbers"},
        {"eth0", "it has no IP address in numbers"},
        {"eth0=", "it has no IP address in numbers"},
        {"=10.0.0.1", "an interface has no name"},
        {",10.0.0.1", "an entry is empty"},
        {"10.0.0.1,", "an entry is empty"},
        {"10.0.0.1,,10.0.0.2", "an entry is empty"},
        {"10.0.0.1:", "the port is no number from 1 to 65535"},
        {"10.0.0.1:0", "the port is no number from 1 to 65535"},
        {"10.0.0.1:65536", "the port is no number from 1 to 65535"},
        {"10.0.0.1:+1", "the port is no number from 1 to 65535"},
        {"10.0.0.1:1x", "the port is no number from 1 to 65535"},
        {"[fd00::1]x", "after the bracket only a port may follow"},
        {"[fd00::1]:", "the port is no number from 1 to 65535"},
    };
    char text[200];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        btl_ib_device_t device = {.transport = "udp", .ip.ss_family = AF_INET};

        device.published.ss_family = AF_INET6; /* it is as before */
        assert_string_equal(btl_ib_published_address(rows[i][0], true, &device), rows[i][1]);
        assert_int_equal(device.published.ss_family, AF_INET6);
    }
    assert_string_equal(btl_ib_published_address("10.0.0.1:1", false, &(btl_ib_device_t){0}),
                        "it has a port, and btl_ib_port_min is not set");
    memset(text, 'a', 117);
    strcpy(text + 117, "=10.0.0.1"); /* 126 bytes */
    assert_null(btl_ib_published_address(text, false, &(btl_ib_device_t){0}));
    strcpy(text + 117, "=10.0.0.12");
    assert_null(btl_ib_published_address(text, false, &(btl_ib_device_t){0}));
    strcpy(text + 117, "=10.0.0.123");
    assert_string_equal(btl_ib_published_address(text, false, &(btl_ib_device_t){0}),
                        "an entry is too long");
}

UNIT_MAIN(NULL, NULL)
