/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* estimate(): parts and sums; of transports udp and ofi beside what is allocated. */

#undef stop /* cmocka 2.0 has a macro of that name */

#include "allocations.h"
#include "transport.h"
#include "transports.h"
#include "unit.h"

static const btl_ib_open_params_t params = {
    .queue_count = 2,
    .queue = {{.size = 256, .num = 256}, {.size = 1472, .num = 1024}},
    .rx_depth = 1280,
    .rx_size = 1472,
};

TEST(test_parts)
{
    btl_ib_memory_estimate_t estimate = {.count = 0};

    btl_ib_estimate_add(&estimate, BTL_IB_ESTIMATE_PROCESS, 10, 30, "one of %d", 2);
    btl_ib_estimate_add(&estimate, BTL_IB_ESTIMATE_KERNEL, 100, 0, "kernel");
    for (uint32_t i = 2; i < BTL_IB_ESTIMATE_PARTS + 5; i++) {
        btl_ib_estimate_add(&estimate, BTL_IB_ESTIMATE_PROCESS, 1, 2, "more");
    }
    assert_string_equal(estimate.part[0].what, "one of 2");
    assert_int_equal(estimate.count, BTL_IB_ESTIMATE_PARTS);
    assert_int_equal(estimate.all[BTL_IB_ESTIMATE_PROCESS].held, 10 + BTL_IB_ESTIMATE_PARTS + 3);
    assert_int_equal(estimate.all[BTL_IB_ESTIMATE_PROCESS].most,
                     30 + 2 * (BTL_IB_ESTIMATE_PARTS + 3));
    /* No less than is held. */
    assert_int_equal(estimate.all[BTL_IB_ESTIMATE_KERNEL].most, 100);
    assert_int_equal(estimate.all[BTL_IB_ESTIMATE_DEVICE].held, 0);
}

static uint64_t told(const btl_ib_transport_t *t, uint32_t peers)
{
    btl_ib_memory_estimate_t estimate = {.count = 0};

    bed.type->memory_estimate(&params, &t->attr, peers, &estimate);
    return estimate.all[BTL_IB_ESTIMATE_PROCESS].held;
}

/* A transport that knows itself, and has heard of itself. */
static void check(const char *type, const char *provider)
{
    btl_ib_event_t event;
    int error;

    find_device(type, provider, AF_INET);
    if (bed.device == NULL) {
        skip();
    }
    const uint64_t none = allocated();
    btl_ib_transport_t *t = open_with(params);
    assert_told(allocated() - none, told(t, 0));
    const btl_ib_addr_t self = add(t, t);
    const slots_t slots = make_slots(t);
    const btl_ib_tx_t tx = make_tx(t, &slots, 0, self, 100, 1);
    assert_int_equal(t->ops->send(t, &tx, 1, &error), 1);
    const uint64_t until = now_ms() + PATIENCE_MS;
    while (t->ops->poll(t, 0, &event, 1) == 0) {
        assert_true(now_ms() < until);
    }
    t->ops->repost(t, &event.buffer, 1);
    free_slots(t, &slots);
    assert_told(allocated() - none, told(t, 1));
    close_transport(t);
    assert_int_equal(allocated(), none);
}

TEST_WITH(test_udp, NULL, free_devices)
{
    check("udp", "");
}

TEST_WITH(test_ofi, NULL, free_devices)
{
    check("ofi", "udp");
}

UNIT_MAIN(NULL, NULL)
