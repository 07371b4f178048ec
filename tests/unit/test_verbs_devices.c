/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What RDMA ports are able to. */

#include "verbs_device.c" /* what is static there */

#include "unit.h"

/* Mbit/s of a lane by the code of its speed, and lanes by the code of the width
 * (ibv_query_port(3)). */
TEST(test_bandwidth)
{
    static const uint32_t speeds[][2] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                                         {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
    static const uint32_t widths[][2] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    struct ibv_port_attr attr = {.active_speed = 32};

    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        attr.active_width = (uint8_t) widths[i][0];
        assert_int_equal(port_bandwidth(&attr), 25000 * widths[i][1]);
    }
    attr.active_width = 1;
    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
        attr.active_speed = (uint8_t) speeds[i][0];
        assert_int_equal(port_bandwidth(&attr), speeds[i][1]);
    }
}

UNIT_MAIN(NULL, NULL)
