/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* On which channel waits what is to be sent. */

#include "btl_ib_sched.h"
#include "btl_ib_state.h"
#include "hostile.h"
#include "unit.h"

/* What has no end goes on the channel of the largest segments, like what is merely long. */
TEST(what_has_no_end)
{
    bench_t *bench = job();
    btl_ib_conn_t *conn = bench_conn(bench, 1, 0);
    uint32_t last = conn->peer_queues->count - 1;

    for (uint64_t i = 0; i < 200; i++) {
        btl_ib_out_t out = {.conn = conn, .size = UINT64_MAX - i, .kind = BTL_IB_OUT_STREAM};
        btl_ib_list_init(&out.link);
        btl_ib_pending_add(conn, &out, 40);
        assert_ptr_equal(btl_ib_list_last(&conn->tx[last].submit.pending), &out.link);
        btl_ib_list_remove(&out.link);
    }
    end(bench);
}

UNIT_MAIN(NULL, NULL)
