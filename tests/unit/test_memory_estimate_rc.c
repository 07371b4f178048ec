/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* memory_estimate() of transport verbs over RC, and what is allocated: within 5 percent. */

#undef stop /* cmocka 2.0 has a macro of that name */

#include "allocations.h"
#include "transport.h"
#include "rc_sides.h"
#include "unit.h"

static uint64_t told(uint32_t peers)
{
    btl_ib_memory_estimate_t estimate = {.count = 0};

    btl_ib_verbs_rc_type.memory_estimate(&params, &sides[0].t->attr, peers, &estimate);
    return estimate.all[BTL_IB_ESTIMATE_PROCESS].held;
}

/* Three sides with these queues: 1 and 2 are connected with 0, by all of them. */
static void check(const btl_ib_open_queue_t *queues, uint32_t count)
{
    const uint64_t before = allocated();

    close_side(0);
    close_side(1);
    const uint64_t none = allocated();
    assert_true(none < before);
    params.queue_count = count;
    for (uint32_t i = 0; i < count; i++) {
        params.queue[i] = queues[i];
    }
    for (int i = 0; i < SIDES; i++) {
        open_side(i);
    }
    assert_told(allocated() - none, SIDES * told(0));
    for (int i = 1; i < SIDES; i++) {
        add(0, i);
        add(i, 0);
        for (uint32_t channel = 0; channel < count; channel++) {
            (void) send_one(i, 0, SMALL, (uint8_t) channel);
        }
    }
    settle();
    for (int i = 1; i < SIDES; i++) {
        for (uint32_t channel = 0; channel < count; channel++) {
            assert_int_equal(send_one(i, 0, SMALL, (uint8_t) channel), 0);
        }
    }
    assert_told(allocated() - none, told(2) + 2 * told(1));
}

RC_TEST(test_own_queues)
{
    const btl_ib_open_queue_t queues[] = {
        {.size = 256, .num = 128, .reserve = 15, .low = 64, .window = 32},
        {.size = 8192, .num = 32, .reserve = 7, .low = 16, .window = 8},
        {.size = 65536, .num = 16, .reserve = 3, .low = 8, .window = 4},
    };

    check(queues, 3);
}

RC_TEST(test_shared_queue)
{
    const btl_ib_open_queue_t queues[] = {
        {.size = 256, .num = 128, .reserve = 15, .low = 64, .window = 32},
        {.size = 8192, .num = 512, .init = 128, .limit = 24, .low = 256, .shared = true},
    };

    check(queues, 2);
}

/* All of its buffers at once, and a ring for each peer's short messages. */
RC_TEST(test_rings)
{
    const btl_ib_open_queue_t queues[] = {
        {.size = 512, .num = 64, .reserve = 15, .low = 32, .window = 16},
        {.size = 4096, .num = 64, .shared = true},
    };

    params.rc.eager_peers = 4;
    params.rc.eager_slots = 64;
    check(queues, 2);
}

UNIT_MAIN(NULL, NULL)
