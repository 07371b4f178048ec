/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_wire_choice.h"

#include <string.h>

int btl_ib_wire_plan(const char *wire, uint32_t processes, uint32_t rc_max_peers,
                     btl_ib_wire_try_t tries[BTL_IB_WIRE_TRIES])
{
    int count = 0;

    if (0 != strcmp(wire, "auto")) {
        tries[count++] = (btl_ib_wire_try_t){.wire = wire};
        return count;
    }
    if (0 < processes && processes <= rc_max_peers) {
        tries[count++] = (btl_ib_wire_try_t){.wire = "rc", .sized = true};
    }
    tries[count++] = (btl_ib_wire_try_t){.wire = "ud"};
    /* iWARP has no other. A connection that the device has no room for is refused, and retried. */
    tries[count++] = (btl_ib_wire_try_t){.wire = "rc"};
    return count;
}

bool btl_ib_wire_suffices(uint32_t connections_max, uint32_t processes, uint32_t queues,
                          uint32_t rails)
{
    const uint64_t pairs = (uint64_t) processes * processes;

    return 0 == connections_max || pairs <= connections_max / (((uint64_t) queues + 1) * rails);
}

bool btl_ib_wire_shares(uint32_t processes, uint32_t srq_min_peers)
{
    return 0 != srq_min_peers && processes >= srq_min_peers;
}
