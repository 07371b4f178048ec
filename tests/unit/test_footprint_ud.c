/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* footprint() of transport verbs over UD, and what is allocated: within 5 percent. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#undef stop /* cmocka 2.0 has a macro of that name */

#include "allocations.h"
#include "footprint.h"
#include "ud_pair.h"

enum { MANY = 60 };

static uint64_t told(const btl_ib_open_params_t *params, const btl_ib_transport_t *t,
                     uint32_t peers)
{
    btl_ib_footprint_t footprint = {.count = 0};

    type->footprint(params, &t->attr, peers, &footprint);
    return btl_ib_footprint_held(&footprint, BTL_IB_FOOTPRINT_PROCESS);
}

/* Buffers of a queue of type P grow with peers, those of type S do not. */
static void test_queues(void **state)
{
    const btl_ib_open_params_t params = {
        .queue_count = 2,
        .queue = {{.size = 256, .num = 128, .init = 128, .per_peer = 16},
                  {.size = 4096, .num = 256, .init = 64, .limit = 12, .shared = true}},
        .log = log_all,
    };
    btl_ib_transport_t *others[MANY];
    const uint64_t none = allocated();
    btl_ib_transport_t *t = open_one(params);

    (void) state;
    assert_told(allocated() - none, told(&params, t, 0));
    for (int i = 0; i < MANY; i++) {
        others[i] = open_one(params);
    }
    const uint64_t alone = allocated() - told(&params, t, 0);
    for (int i = 0; i < MANY; i++) {
        (void) add(t, others[i]);
    }
    assert_told(allocated() - alone, told(&params, t, MANY));
    for (int i = 0; i < MANY; i++) {
        close_one(others[i]);
    }
    close_one(t);
    assert_int_equal(allocated(), none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UD_TEST(test_queues),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
