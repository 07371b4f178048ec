/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* memory_estimate() of transport verbs over UD, and what is allocated: within 5 percent. */

#undef stop /* cmocka 2.0 has a macro of that name */

#include "allocations.h"
#include "transport.h"
#include "ud_pair.h"
#include "unit.h"

enum { MANY = 60 };

static uint64_t told(const btl_ib_open_params_t *params, const btl_ib_transport_t *t,
                     uint32_t peers)
{
    btl_ib_memory_estimate_t estimate = {.count = 0};

    type->memory_estimate(params, &t->attr, peers, &estimate);
    return estimate.all[BTL_IB_ESTIMATE_PROCESS].held;
}

/* Buffers of a queue of type P grow with peers, those of type S do not. */
UD_TEST(test_queues)
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

static uint64_t told_of_device(const btl_ib_open_params_t *params, const btl_ib_transport_t *t)
{
    btl_ib_memory_estimate_t estimate = {.count = 0};

    type->memory_estimate(params, &t->attr, 0, &estimate);
    return estimate.all[BTL_IB_ESTIMATE_DEVICE].held;
}

/* Each completion queue has cq_num entries: two queues have twice as many as one for both. */
UD_TEST(test_completion_queues)
{
    enum { ENTRIES = 4000, LINE = 64 };
    btl_ib_open_params_t params = usual;

    params.queue[SMALL].per_peer = 0; /* else it grows into what entries there are */
    params.cq_num = ENTRIES;
    btl_ib_transport_t *t = open_one(params);
    const uint64_t shared = told_of_device(&params, t);
    close_one(t);
    params.cq_own = true;
    t = open_one(params);
    assert_int_equal(ud_completion_queues(t), CHANNELS);
    assert_int_equal(ud_completions(t), ENTRIES);
    assert_int_equal(told_of_device(&params, t), shared + ENTRIES * LINE);
    close_one(t);
}

/* The same of 10, 100, 1,000 and 10,000 peers, which are addresses only. */
UD_TEST(test_many)
{
    const btl_ib_open_params_t params = {
        .queue_count = 2,
        .queue = {{.size = 256, .num = 128, .init = 128, .per_peer = 16},
                  {.size = 4096, .num = 256, .init = 64, .limit = 12, .shared = true}},
        .log = log_all,
    };
    btl_ib_transport_t *other = open_one(params);
    const uint64_t none = allocated();
    btl_ib_transport_t *t = open_one(params);
    btl_ib_ud_address_t address = ud_address(other);
    uint32_t peers = 0;

    for (uint32_t many = 10; many <= 10000; many *= 10) {
        for (; peers < many; peers++) {
            uint8_t bytes[BTL_IB_ADDR_BYTES];
            btl_ib_addr_t addr;
            address.qpn[0] = 1000 + 2 * peers;
            address.qpn[1] = 1001 + 2 * peers;
            address.gid.raw[14] = (uint8_t) (1 + peers / 250); /* each on a host of its own */
            address.gid.raw[15] = (uint8_t) (1 + peers % 250);
            const uint32_t len = btl_ib_ud_address_pack(&address, bytes);
            assert_int_equal(t->ops->addr_add(t, bytes, len, &addr), 0);
        }
        assert_told(allocated() - none, told(&params, t, many));
    }
    close_one(t);
    close_one(other);
}

UNIT_MAIN(NULL, NULL)
