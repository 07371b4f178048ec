/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The transport `udp`: what the way to each peer carries. In a network of its own, whose only
 * device is lo: routes through it lead to other hosts, as far as the kernel knows. */

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "own_network.h"
#include "transports.h"
#include "udp_calls.h"
#include "udp_path_mtu.h"
#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { WITHIN = 15936 }; /* the largest within a host */

static int setup(void **state)
{
    need_own_network();
    add_route("10.8.0.0", 1300);
    add_route("10.9.0.0", 0);
    return 0;
}

static int set_down(void **state)
{
    set_lo_mtu(65536);
    return free_devices(state);
}

static btl_ib_udp_name_t name_of(const char *ip)
{
    btl_ib_udp_name_t name;

    memset(&name, 0, sizeof(name));
    name.any.sa_family = strchr(ip, ':') == NULL ? AF_INET : AF_INET6;
    assert_int_equal(inet_pton(name.any.sa_family, ip,
                               name.any.sa_family == AF_INET ? (void *) &name.v4.sin_addr
                                                             : (void *) &name.v6.sin6_addr),
                     1);
    btl_ib_udp_name_set_port(&name, 4711);
    return name;
}

static const struct {
    const char *own, *to;
    int lo_mtu;
    uint32_t beyond;
    uint32_t carries;
} ways[] = {
    /* Within a host the peer's interface does not count. */
    {"127.0.0.1", "127.0.0.1", 65536, 1472, WITHIN},
    {"127.0.0.1", "127.0.0.2", 65536, 1472, WITHIN},
    {"::1", "::1", 65536, 1448, WITHIN},
    {"127.0.0.1", "127.0.0.1", 1500, 1472, 1472},
    {"127.0.0.1", "127.0.0.1", 1500, 600, 1472},
    {"127.0.0.1", "127.0.0.1", 16384, 1472, WITHIN},
    {"127.0.0.1", "127.0.0.1", 8192, 1472, 8160},
    {"127.0.0.1", "127.0.0.1", 7000, 1472, 6968},
    /* Beyond it the least counts: the route's own MTU, the device's, the peer's interface. */
    {"127.0.0.1", "10.8.0.1", 65536, 8968, 1272},
    {"127.0.0.1", "10.8.0.1", 65536, 1000, 1000},
    {"127.0.0.1", "10.9.0.1", 65536, 8968, 8968},
    {"127.0.0.1", "10.9.0.1", 65536, 1472, 1472},
    {"127.0.0.1", "10.9.0.1", 2000, 8968, 1968},
    /* There is no way, or nothing to begin with. */
    {"127.0.0.1", "10.7.0.1", 65536, 1472, 1472},
    {"198.51.100.9", "10.9.0.1", 65536, 1400, 1400},
    {"::1", "fd00::1", 65536, 1448, 1448},
};

static void test_ways(void **state)
{
    for (size_t i = 0; i < COUNT(ways); i++) {
        const btl_ib_udp_name_t own = name_of(ways[i].own);
        const btl_ib_udp_name_t to = name_of(ways[i].to);

        set_lo_mtu(ways[i].lo_mtu);
        assert_int_equal(btl_ib_udp_path_datagram(&own, &to, ways[i].beyond), ways[i].carries);
    }
    set_lo_mtu(65536);
}

static uint32_t added(btl_ib_transport_t *t, const char *ip, uint32_t beyond)
{
    const btl_ib_udp_name_t name = name_of(ip);
    uint8_t bytes[BTL_IB_ADDR_BYTES];
    btl_ib_addr_t addr;

    assert_int_equal(
        t->ops->addr_add(t, bytes, btl_ib_udp_name_pack(&name, beyond, false, bytes), &addr), 0);
    return t->ops->path_datagram(t, addr);
}

/* Each peer has its own, and one that comes again with another interface has another. */
static void test_peers(void **state)
{
    need_udp(AF_INET);
    const pair_t pair = open_pair(heard_params());
    assert_int_equal(pair.a->attr.max_datagram, WITHIN);
    assert_int_equal(pair.a->ops->path_datagram(pair.a, pair.b_at_a), WITHIN);
    assert_int_equal(added(pair.a, "10.8.0.1", 8968), 1272);
    assert_int_equal(added(pair.a, "10.9.0.1", 1400), 1400);
    assert_int_equal(added(pair.a, "10.9.0.1", 1200), 1200);
    assert_int_equal(added(pair.a, "10.9.0.2", 65000), 8968); /* nor more than any card carries */
    assert_int_equal(pair.a->ops->path_datagram(pair.a, pair.b_at_a), WITHIN);
    close_pair((pair_t *) &pair);
}

/* An unknown sender that is only answered is not asked about: that takes system calls, and anybody
 * can make us answer. */
static void test_unasked(void **state)
{
    const btl_ib_udp_name_t name = name_of("10.9.0.1");
    uint8_t bytes[BTL_IB_ADDR_BYTES];
    btl_ib_addr_t addr;

    need_udp(AF_INET);
    const uint32_t size = btl_ib_udp_name_pack(&name, 1472, false, bytes);
    btl_ib_transport_t *t = open_with(heard_params());
    forget_calls();
    assert_int_equal(t->ops->addr_add(t, bytes, size, &addr), 0);
    assert_int_equal(calls.connects, 0);
    assert_int_equal(t->ops->path_datagram(t, addr), 1472);
    assert_int_equal(calls.connects, 1);
    close_transport(t);
}

/* What is published is what the interface carries to others, not what this host can do within. */
static void test_published(void **state)
{
    btl_ib_udp_name_t name;
    btl_ib_transport_attr_t attr;
    uint32_t carries = 0;
    bool quick;

    need_udp(AF_INET);
    set_lo_mtu(1500);
    btl_ib_transport_t *t = open_with(heard_params());
    assert_int_equal(btl_ib_udp_name_unpack(t->address, t->address_len, &name, &carries, &quick),
                     0);
    assert_int_equal(carries, 1472);
    close_transport(t);
    set_lo_mtu(65536);
    btl_ib_device_t device = *bed.device; /* as if it had no part in what lo can do */
    device.loopback = false;
    assert_int_equal(bed.type->query(&device, 0, &attr), 0);
    assert_int_equal(attr.max_datagram, WITHIN); /* to processes of this host */
    assert_int_equal(attr.max_off_host, 8968);
    assert_int_equal(bed.type->query(bed.device, 0, &attr), 0);
    assert_int_equal(attr.max_datagram, WITHIN);
    assert_int_equal(attr.max_off_host, 0);
}

/* The user wants no larger packets, whatever lo can do: of what is sent, and of what peers are told
 * that they may send. */
static void test_wanted(void **state)
{
    btl_ib_open_params_t params = heard_params();
    btl_ib_transport_attr_t attr;
    btl_ib_udp_name_t name;
    uint32_t carries = 0;
    bool quick;

    need_udp(AF_INET);
    assert_int_equal(bed.type->query(bed.device, 1000, &attr), 0);
    assert_int_equal(attr.max_datagram, 968);
    assert_int_equal(bed.type->query(bed.device, 65535, &attr), 0);
    assert_int_equal(attr.max_datagram, WITHIN);
    params.mtu = 1000;
    const pair_t pair = open_pair(params);
    assert_int_equal(pair.a->attr.max_datagram, 968);
    assert_int_equal(pair.a->attr.inline_size, 968);
    assert_int_equal(pair.a->ops->path_datagram(pair.a, pair.b_at_a), 968);
    assert_int_equal(
        btl_ib_udp_name_unpack(pair.a->address, pair.a->address_len, &name, &carries, &quick), 0);
    assert_int_equal(carries, 968);
    assert_int_equal(added(pair.a, "10.9.0.2", 8968), 968);
    close_pair((pair_t *) &pair);
}

/* What an interface of that MTU carries. */
static void test_datagram(void **state)
{
    assert_int_equal(btl_ib_udp_mtu_datagram(AF_INET, 1500), 1472);
    assert_int_equal(btl_ib_udp_mtu_datagram(AF_INET6, 1500), 1448);
    assert_int_equal(btl_ib_udp_mtu_datagram(AF_INET, 9000), 8968);
    assert_int_equal(btl_ib_udp_mtu_datagram(AF_INET6, 9000), 8952);
    assert_int_equal(btl_ib_udp_mtu_datagram(AF_INET, 65536), WITHIN);
    assert_int_equal(btl_ib_udp_mtu_datagram(AF_INET6, 65536), WITHIN);
    assert_int_equal(btl_ib_udp_mtu_datagram(AF_INET, 28), 0);
    assert_int_equal(btl_ib_udp_mtu_datagram(AF_INET6, 47), 0);
    assert_int_equal(btl_ib_udp_mtu_datagram(AF_INET, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),    cmocka_unit_test(test_peers),
        cmocka_unit_test(test_unasked), cmocka_unit_test(test_published),
        cmocka_unit_test(test_wanted),
    };

    const struct CMUnitTest anywhere[] = {
        cmocka_unit_test(test_datagram),
    };

    return cmocka_run_group_tests(anywhere, NULL, NULL)
           + cmocka_run_group_tests(tests, setup, set_down);
}
