/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport verbs over RC, on a device that is not there (tests/unit/fake_rdma.h). With RINGS 1
 * short messages go by eager RDMA. */

#include "fake_rdma.h"
#include "rc_inside.h"
#include "wire.h"

enum { TICK = 10 }; /* us between two looks at the clock: the connection manager's */

const char wire_queues[] = "P,256,128:P,8192,64";

btl_ib_transport_t *wire_open(void)
{
    static bool begun;
    btl_ib_transport_t *t;
    const btl_ib_open_params_t params = {
        .queue_count = 2,
        .queue = {{.size = 256, .num = 128, .reserve = 7, .low = 64, .window = 32},
                  {.size = 8192, .num = 64, .reserve = 7, .low = 32, .window = 16}},
        .rc = {.timeout = 14,
               .retry = 7,
               .rnr_retry = 7,
               .bounce_size = 8192,
               .eager_peers = RINGS,
               .eager_slots = 16,
               .eager_size = RINGS * 2032},
    };

    if (!begun) {
        fake_rdma_reset();
        fake.tick = TICK;
        begun = true;
    }
    return rc_open(&params, &t) == 0 ? t : NULL;
}
