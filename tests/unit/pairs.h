/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Four connections of host 0 with host 1, one for each pair of rails; all are validated. Included
 * by one source of a test, after btl_ib_state.h. */

#ifndef PAIRS_H
#define PAIRS_H

#include "hostile.h"
#include "unit.h"

static bench_t *bench;
static btl_ib_engine_t *engine;
static btl_ib_conn_t *pair[BENCH_RAILS][BENCH_RAILS]; /* by our rail and the peer's */

static inline btl_ib_conn_t *make(uint32_t peer, uint32_t rail, uint32_t remote)
{
    const btl_ib_peer_info_t info = bench_info(bench, peer, remote);
    btl_ib_conn_t *conn = NULL;

    assert_int_equal(btl_ib_conn_create(engine, rail, &info, NULL, &conn), 0);
    return conn;
}

static inline int set_up(void **state)
{
    bench = new_bench();
    bench->rails = BENCH_RAILS;
    for (uint32_t i = 0; i < BENCH_HOSTS; i++) {
        bench_start(bench, i);
    }
    engine = bench->hosts[0].engine;
    bench_turn(bench, 0);
    for (uint32_t i = 0; i < BENCH_RAILS; i++) {
        for (uint32_t k = 0; k < BENCH_RAILS; k++) {
            pair[i][k] = make(1, i, k);
            pair[i][k]->validation.valid = true;
        }
    }
    return 0;
}

static inline int tear_down(void **state)
{
    end(bench);
    return 0;
}

/* How many datagrams went from host 0's rail to host 1's, of those on the wire, which is empty
 * then. */
static inline uint32_t sent_by(uint32_t rail, uint32_t remote)
{
    uint32_t count = 0;

    for (const bench_datagram_t *d = bench->wire.first; d != NULL; d = d->next) {
        count += d->source == bench_address(0, rail) && d->to == bench_address(1, remote);
    }
    bench_clear(&bench->wire);
    return count;
}

#endif
