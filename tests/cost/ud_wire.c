/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport verbs over UD, on a device that is not there (tests/unit/fake_verbs.h). */

#include "ud_pair.h"
#include "wire.h"

const char wire_queues[] = "P,256,256,128,32:S,1024,1024,512,64";

btl_ib_transport_t *wire_open(void)
{
    static bool begun;

    if (!begun) {
        (void) set_up(NULL);
        begun = true;
    }
    return open_one((btl_ib_open_params_t){
        .queue_count = 2,
        .queue = {{.size = 256, .num = 256, .init = 256, .per_peer = 16},
                  {.size = 1024, .num = 1024, .init = 512, .shared = true}},
    });
}
