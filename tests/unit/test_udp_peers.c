/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The transport `udp`: addresses of peers, as published and as handles. */

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net_interfaces.h"
#include "transports.h"
#include "udp_calls.h"
#include "udp_peers.h"
#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static btl_ib_udp_name_t name_of(const char *ip, uint16_t port)
{
    btl_ib_udp_name_t name;

    memset(&name, 0, sizeof(name));
    if (inet_pton(AF_INET, ip, &name.v4.sin_addr) == 1) {
        name.v4.sin_family = AF_INET;
        name.v4.sin_port = htons(port);
    } else {
        assert_int_equal(inet_pton(AF_INET6, ip, &name.v6.sin6_addr), 1);
        name.v6.sin6_family = AF_INET6;
        name.v6.sin6_port = htons(port);
    }
    return name;
}

/* ---- as published ---- */

static const struct {
    const char *ip;
    uint16_t port;
    const char *printed;
    uint32_t carries;
    uint8_t bytes[22];
    uint32_t len;
} good[] = {
    {"10.1.2.3", 0x1234, "10.1.2.3:4660", 1472, {1, 4, 0x12, 0x34, 5, 0xc0, 10, 1, 2, 3}, 10},
    {"127.0.0.1", 1, "127.0.0.1:1", 8968, {1, 4, 0, 1, 0x23, 8, 127, 0, 0, 1}, 10},
    {"223.255.255.255",
     65535,
     "223.255.255.255:65535",
     65535,
     {1, 4, 255, 255, 255, 255, 223, 255, 255, 255},
     10},
    {"::1", 258, "[::1]:258", 1, {1, 6, 1, 2, 0, 1, [21] = 1}, 22},
    {"fd00:1::5",
     65535,
     "[fd00:1::5]:65535",
     0,
     {1, 6, 255, 255, 0, 0, 0xfd, 0, 0, 1, [21] = 5},
     22},
};

TEST(test_names)
{
    for (size_t i = 0; i < COUNT(good); i++) {
        const btl_ib_udp_name_t name = name_of(good[i].ip, good[i].port);
        btl_ib_udp_name_t again;
        uint8_t bytes[BTL_IB_ADDR_BYTES];
        uint32_t carries = UINT32_MAX;
        bool quick = true;
        char text[64];

        assert_int_equal(btl_ib_udp_name_pack(&name, good[i].carries, false, bytes), good[i].len);
        assert_memory_equal(bytes, good[i].bytes, good[i].len);
        memset(&again, 0xa5, sizeof(again));
        assert_int_equal(btl_ib_udp_name_unpack(bytes, good[i].len, &again, &carries, &quick), 0);
        assert_int_equal(carries, good[i].carries);
        assert_memory_equal(&again, &name, sizeof(name));
        assert_false(quick);
        assert_int_equal(btl_ib_udp_name_pack(&name, good[i].carries, true, bytes), good[i].len);
        const int expected = good[i].port == 65535 ? -EINVAL : 0; /* there is none above */
        assert_int_equal(btl_ib_udp_name_unpack(bytes, good[i].len, &again, &carries, &quick),
                         expected);
        assert_true(quick);
        assert_true(expected != 0 || memcmp(&again, &name, sizeof(name)) == 0);
        bytes[1] ^= 0x80;
        assert_memory_equal(bytes, good[i].bytes, good[i].len);
        assert_string_equal(btl_ib_ip_port_text(&name.any, text, sizeof(text)), good[i].printed);
        assert_int_equal(btl_ib_udp_name_len(&name), good[i].len == 10
                                                         ? sizeof(struct sockaddr_in)
                                                         : sizeof(struct sockaddr_in6));
    }
}

static const struct {
    const char *ip;
    uint16_t port;
} bad[] = {
    {"10.1.2.3", 0}, {"0.0.0.0", 5}, {"255.255.255.255", 5}, {"224.0.0.1", 5}, {"239.1.2.3", 5},
    {"fd00::1", 0},  {"::", 5},      {"ff02::1", 5},         {"ff0e::1", 5},
};

static void assert_refused(btl_ib_transport_t *t, const void *bytes, size_t len)
{
    btl_ib_addr_t addr;

    assert_int_equal(t->ops->addr_add(t, bytes, len, &addr), -EINVAL);
}

TEST(test_refused)
{
    uint8_t bytes[BTL_IB_ADDR_BYTES + 1];
    btl_ib_addr_t addr;
    pair_t pair;

    need_udp(AF_INET);
    pair = open_pair(heard_params());
    for (size_t i = 0; i < COUNT(bad); i++) {
        const btl_ib_udp_name_t name = name_of(bad[i].ip, bad[i].port);

        assert_refused(pair.a, bytes, btl_ib_udp_name_pack(&name, 1472, false, bytes));
    }
    for (size_t i = 0; i < COUNT(good); i++) {
        const int expected = good[i].len == 10 ? 0 : -EHOSTUNREACH; /* from an IPv4 socket */

        for (size_t len = 0; len <= BTL_IB_ADDR_BYTES + 1; len++) {
            memset(bytes, 1, sizeof(bytes));
            memcpy(bytes, good[i].bytes, sizeof(good[i].bytes));
            if (len != good[i].len) {
                assert_refused(pair.a, bytes, len);
            }
        }
        assert_int_equal(pair.a->ops->addr_add(pair.a, bytes, good[i].len, &addr), expected);
        for (size_t at = 0; at < 2; at++) { /* version, family */
            for (unsigned flip = 1; flip < 256; flip++) {
                bytes[at] ^= (uint8_t) flip;
                if (at == 1 && flip == 0x80 && good[i].port != 65535) { /* two ports */
                    assert_int_equal(pair.a->ops->addr_add(pair.a, bytes, good[i].len, &addr),
                                     expected);
                } else {
                    assert_refused(pair.a, bytes, good[i].len);
                }
                bytes[at] ^= (uint8_t) flip;
            }
        }
    }
    assert_refused(pair.a, NULL, 0);
    assert_reaches(pair.a, pair.b_at_a, pair.b, 100);
    close_pair(&pair);
}

TEST(test_other_family)
{
    const btl_ib_udp_name_t name = name_of("127.0.0.1", 5);
    uint8_t bytes[BTL_IB_ADDR_BYTES];
    btl_ib_addr_t addr;

    need_udp(AF_INET6);
    btl_ib_transport_t *t = open_with(heard_params());
    assert_int_equal(
        t->ops->addr_add(t, bytes, btl_ib_udp_name_pack(&name, 1472, false, bytes), &addr),
        -EHOSTUNREACH);
    close_transport(t);
}

/* ---- as handles ---- */

TEST(test_twice)
{
    pair_t pair;

    need_udp(AF_INET);
    pair = open_pair(heard_params());
    const btl_ib_addr_t again = add(pair.a, pair.b);
    assert_int_equal(again, pair.b_at_a);
    pair.a->ops->addr_remove(pair.a, again); /* the other user still has it */
    assert_reaches(pair.a, pair.b_at_a, pair.b, 102);
    assert_int_equal(assert_reaches(pair.b, pair.a_at_b, pair.a, 103), pair.b_at_a);
    pair.a->ops->addr_remove(pair.a, pair.b_at_a);
    assert_int_equal(assert_reaches(pair.b, pair.a_at_b, pair.a, 104), BTL_IB_ADDR_UNKNOWN);
    pair.b_at_a = add(pair.a, pair.b);
    assert_int_equal(assert_reaches(pair.b, pair.a_at_b, pair.a, 105), pair.b_at_a);
    close_pair(&pair);
}

enum { MANY = 3000 };

/* Several of a bucket, of one address and of one port. */
static btl_ib_udp_name_t name_number(uint32_t i)
{
    btl_ib_udp_name_t name = name_of("10.0.0.0", (uint16_t) (1 + i % 1000));

    if (i % 3 == 2) {
        name = name_of("fd00::", (uint16_t) (1 + i % 1000));
        name.v6.sin6_addr.s6_addr[15] = (uint8_t) (i / 1000);
    } else {
        name.v4.sin_addr.s_addr = htonl(UINT32_C(0x0a000000) + i / 1000);
    }
    return name;
}

static void assert_all(btl_ib_udp_peers_t *peers, const btl_ib_addr_t *addr)
{
    for (uint32_t i = 0; i < MANY; i++) {
        const btl_ib_udp_name_t name = name_number(i);

        assert_int_equal(btl_ib_udp_peer_find(peers, &name), addr[i]);
        if (addr[i] != BTL_IB_ADDR_UNKNOWN) {
            assert_memory_equal(&peers->peer[addr[i]].name, &name, btl_ib_udp_name_len(&name));
        }
    }
}

/* More than there was room for; then some go, others take their handles, and nobody else
 * notices. */
TEST(test_many)
{
    static btl_ib_addr_t addr[MANY];
    static bool used[2 * MANY];
    btl_ib_udp_peers_t peers = {.peer = NULL};
    btl_ib_udp_name_t name = name_number(0);

    assert_int_equal(btl_ib_udp_peer_find(&peers, &name), BTL_IB_ADDR_UNKNOWN);
    for (uint32_t i = 0; i < MANY; i++) {
        name = name_number(i);
        assert_int_equal(btl_ib_udp_peer_add(&peers, &name, false, 1472, &addr[i]), 0);
        assert_in_range(addr[i], 0, COUNT(used) - 1);
        assert_false(used[addr[i]]);
        used[addr[i]] = true;
    }
    assert_all(&peers, addr);
    for (uint32_t round = 0; round < 5; round++) {
        const uint32_t size = peers.size;

        for (uint32_t i = round; i < MANY; i += 7) {
            assert_true(btl_ib_udp_peer_remove(&peers, addr[i]));
            addr[i] = BTL_IB_ADDR_UNKNOWN;
        }
        assert_all(&peers, addr);
        for (uint32_t i = round; i < MANY; i += 7) {
            name = name_number(i);
            assert_int_equal(btl_ib_udp_peer_add(&peers, &name, false, 1472, &addr[i]), 0);
        }
        assert_all(&peers, addr);
        assert_int_equal(peers.size, size); /* what is free again is used first */
    }
    btl_ib_udp_peers_free(&peers);
}

/* The one found last was removed, and somebody else has its handle. */
TEST(test_last_found)
{
    btl_ib_udp_peers_t peers = {.peer = NULL};
    const btl_ib_udp_name_t first = name_of("10.0.0.1", 1);
    const btl_ib_udp_name_t second = name_of("10.0.0.1", 2);
    btl_ib_addr_t addr, other;

    assert_int_equal(btl_ib_udp_peer_add(&peers, &first, false, 1472, &addr), 0);
    assert_int_equal(btl_ib_udp_peer_find(&peers, &first), addr);
    assert_true(btl_ib_udp_peer_remove(&peers, addr));
    assert_int_equal(btl_ib_udp_peer_find(&peers, &first), BTL_IB_ADDR_UNKNOWN);
    assert_int_equal(btl_ib_udp_peer_add(&peers, &second, false, 1472, &other), 0);
    assert_int_equal(other, addr);
    assert_int_equal(btl_ib_udp_peer_find(&peers, &first), BTL_IB_ADDR_UNKNOWN);
    assert_int_equal(btl_ib_udp_peer_find(&peers, &second), other);
    btl_ib_udp_peers_free(&peers);
}

/* A source that was seen, of a first contact that was kept, takes nothing from the peer; what is
 * published is taken over, whichever was there first. */
TEST(test_source_and_published)
{
    const btl_ib_udp_name_t name = name_of("10.0.0.1", 4000);
    btl_ib_addr_t addr, same;

    for (int source_first = 0; source_first < 2; source_first++) {
        btl_ib_udp_peers_t peers = {.peer = NULL};
        const uint32_t unknown = BTL_IB_UDP_INTERFACE_UNKNOWN;

        if (source_first) {
            assert_int_equal(btl_ib_udp_peer_add(&peers, &name, false, unknown, &addr), 0);
            assert_int_equal(peers.peer[addr].latency.any.sa_family, AF_UNSPEC);
        }
        assert_int_equal(btl_ib_udp_peer_add(&peers, &name, true, 1472, &addr), 0);
        assert_int_equal(btl_ib_udp_peer_add(&peers, &name, false, unknown, &same), 0);
        assert_int_equal(same, addr);
        assert_false(btl_ib_udp_peer_remove(&peers, same));
        assert_int_equal(peers.peer[addr].latency.v4.sin_port, htons(4001));
        assert_int_equal(peers.peer[addr].interface, 1472);
        /* a process that took its place publishes that it has no lane */
        assert_int_equal(btl_ib_udp_peer_add(&peers, &name, false, 9000, &same), 0);
        assert_int_equal(peers.peer[addr].latency.any.sa_family, AF_UNSPEC);
        assert_int_equal(peers.peer[addr].interface, 9000);
        btl_ib_udp_peers_free(&peers);
    }
}

UNIT_MAIN(NULL, free_devices)
