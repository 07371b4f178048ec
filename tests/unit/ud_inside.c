/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "ud_inside.h"

#undef stop /* cmocka 2.0 has a macro of that name */

#include "verbs_ud.h"
#include "unit.h"

_Static_assert((int) UD_BATCH == BTL_IB_UD_BATCH, "as in verbs_ud.h");
_Static_assert((int) UD_EVENTS_EVERY == BTL_IB_UD_EVENTS_EVERY, "as in verbs_ud.h");

btl_ib_ud_address_t ud_address(const btl_ib_transport_t *t)
{
    btl_ib_ud_address_t address;

    assert_int_equal(btl_ib_ud_address_unpack(t->address, t->address_len, &address), 0);
    return address;
}

uint32_t ud_work_requests(const btl_ib_transport_t *t)
{
    const btl_ib_ud_t *ud = (const btl_ib_ud_t *) t;
    uint32_t n = 0;

    for (uint32_t i = 0; i < ud_address(t).count; i++) {
        n += ud->qps.qp[i].tx_depth + ud->qps.qp[i].made_max;
    }
    return n;
}

uint32_t ud_completion_queues(const btl_ib_transport_t *t)
{
    return ((const btl_ib_ud_t *) t)->qps.cq_count;
}

uint32_t ud_completions(const btl_ib_transport_t *t)
{
    return (uint32_t) ((const btl_ib_ud_t *) t)->qps.cq[0]->cqe;
}

void ud_set_gid_type(btl_ib_transport_t *t, uint32_t type, uint8_t prefix_bits)
{
    ((btl_ib_ud_t *) t)->port.gid.type = type;
    ((btl_ib_ud_t *) t)->port.gid.prefix_bits = prefix_bits;
}

void ud_set_gid_byte(btl_ib_transport_t *t, uint32_t at, uint8_t value)
{
    ((btl_ib_ud_t *) t)->port.gid.gid.raw[at] = value;
}
