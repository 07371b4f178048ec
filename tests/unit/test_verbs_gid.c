/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The addresses of RDMA ports. */

#include "verbs_device.c" /* what is static there */

#include "fake_verbs.h"
#include "unit.h"

static unsigned rank_of(const char *ip, uint32_t gid_type)
{
    fake_port_t port = {.gids = 0};

    fake_gid(&port, ip, gid_type);
    return gid_rank(&port.gid[0]);
}

TEST(test_gid_rank)
{
    const unsigned order[] = {
        rank_of("10.0.0.1", IBV_GID_TYPE_ROCE_V2),    rank_of("fd00::1", IBV_GID_TYPE_ROCE_V2),
        rank_of("fe80::1", IBV_GID_TYPE_ROCE_V2),     rank_of("10.0.0.1", IBV_GID_TYPE_ROCE_V1),
        rank_of("2001:db8::1", IBV_GID_TYPE_ROCE_V1), rank_of("fe80::1", IBV_GID_TYPE_ROCE_V1),
    };

    for (size_t i = 1; i < sizeof(order) / sizeof(order[0]); i++) {
        assert_true(order[i - 1] < order[i]);
    }
    assert_int_equal(rank_of("fe80::1", IBV_GID_TYPE_IB), rank_of("fd00::1", IBV_GID_TYPE_IB));
}

/* Whether packets get from one address to another, as far as addresses tell. */
TEST(test_subnets)
{
    static const struct {
        const char *own, *peer;
        uint32_t type;
        uint8_t bits;
        bool reaches;
    } cases[] = {
        {"10.0.0.1", "10.9.0.1", IBV_GID_TYPE_ROCE_V2, 24, true},
        {"10.0.0.1", "fd00::1", IBV_GID_TYPE_ROCE_V2, 24, false},
        {"fe80::1", "10.0.0.1", IBV_GID_TYPE_ROCE_V2, 64, false},
        {"10.0.0.1", "10.0.0.9", IBV_GID_TYPE_ROCE_V1, 24, true},
        {"10.0.0.1", "10.0.1.9", IBV_GID_TYPE_ROCE_V1, 24, false},
        {"10.0.0.1", "10.0.1.9", IBV_GID_TYPE_ROCE_V1, 23, true},
        {"10.0.0.1", "10.0.2.9", IBV_GID_TYPE_ROCE_V1, 23, false},
        {"10.0.0.1", "10.0.1.9", IBV_GID_TYPE_ROCE_V1, 32, true}, /* nobody knew the mask */
        {"fe80::1", "fe80::2", IBV_GID_TYPE_ROCE_V1, 64, true},
        {"fd00::1", "fd00:0:0:1::1", IBV_GID_TYPE_ROCE_V1, 64, false},
        {"fe80::1", "fe80::2", IBV_GID_TYPE_IB, 64, true},
        {"fe80::1", "fec0::2", IBV_GID_TYPE_IB, 64, false},
        {"fec0::1", "fe80::2", IBV_GID_TYPE_IB, 64, false},
        {"fec0::1", "fec0:0:0:7::2", IBV_GID_TYPE_IB, 64, true}, /* by a router */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_port_t port = {.gids = 0};
        fake_gid(&port, cases[i].own, cases[i].type);
        fake_gid(&port, cases[i].peer, cases[i].type);
        const btl_ib_verbs_gid_t own = {
            .gid = port.gid[0].gid, .type = cases[i].type, .prefix_bits = cases[i].bits};
        assert_int_equal(btl_ib_verbs_gid_reaches(&own, &port.gid[1].gid), cases[i].reaches);
    }
}

UNIT_MAIN(NULL, NULL)
