/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Fuzz target: bytes that another process published. What is accepted must say exactly what its
 * bytes say, that is, packing it gives the same bytes, unless a later version has more to say; and
 * a process matches itself rail by rail.
 */

#include <stdlib.h>
#include <string.h>

#include "btl_ib_modex_codec.h"
#include "btl_ib_rail_match.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static btl_ib_modex_t modex;
    static uint8_t again[BTL_IB_MODEX_SIZE_MAX];
    int choice[BTL_IB_RAILS_MAX];

    if (btl_ib_modex_unpack(&modex, data, size) != 0 || modex.rail_count == 0) {
        return 0;
    }
    const bool ours = modex.version == BTL_IB_MODEX_VERSION && modex.oldest == BTL_IB_MODEX_OLDEST;
    /* version 5 has no length, nor ecn, behind the queues of a rail */
    const int more = modex.version < 6 ? 2 * (int) modex.rail_count : 0;
    const int packed = btl_ib_modex_pack(&modex, again, sizeof(again));
    if (packed <= 0 || packed > (int) size + more
        || (ours && (packed != (int) size || memcmp(data, again, size) != 0))) {
        abort();
    }
    btl_ib_rails_match(&modex, &modex, true, choice);
    /* A rail joins itself, or stands by: one of a later rank, where another has joined. */
    uint32_t joined = 0;
    for (uint32_t i = 0; i < modex.rail_count; ++i) {
        if (choice[i] >= 0 && choice[i] != (int) i) {
            abort();
        }
        joined += choice[i] >= 0;
    }
    if (joined == 0) {
        abort();
    }
    return 0;
}
