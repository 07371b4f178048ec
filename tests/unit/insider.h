/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What somebody that knows the token sends to host 0, in the name of host 1. After cmocka.h. */

#ifndef BTL_IB_TEST_INSIDER_H
#define BTL_IB_TEST_INSIDER_H

#include <string.h>

#include "hostile.h"
#include "unit.h"

/* Host 1 lies, host 0 is lied to. */
static inline bench_forgery_t lie(bench_t *bench, btl_ib_type_t type)
{
    return bench_forge(bench, 0, 1, type);
}

static inline void without_effect(bench_t *bench, const bench_forgery_t *forgery, const char *cause)
{
    bench_watch_t watch;

    bench_watch(&bench->hosts[0], false, &watch);
    bench_throw_forgery(bench, 0, 1, forgery);
    bench_unchanged(&watch, cause, 1);
}

static inline bench_peer_t victim(bench_t *bench)
{
    return bench_peer(bench, 0, 1);
}

/* Of the one lied to. */
static inline bench_channel_t channel_of(bench_t *bench, uint32_t channel)
{
    return bench_channel(bench, 0, 1, channel);
}

/* A DATA segment that would be delivered if nothing else were wrong with it. */
static inline bench_forgery_t data(bench_t *bench, uint32_t size)
{
    static const uint8_t zeros[1500];
    bench_forgery_t forgery = lie(bench, BTL_IB_TYPE_DATA);

    bench_append(&forgery, zeros, size);
    return forgery;
}

/* A job in which host 0 has 20 segments in flight in channel 2, which the network holds. */
static inline bench_t *job_in_flight(void)
{
    bench_t *bench = job();

    for (int i = 0; i < 20; i++) {
        bench_send(bench, 0, 1, 1400, 1);
    }
    bench_turn(bench, 0); /* what waited to be coalesced */
    assert_int_equal(channel_of(bench, 2).next - channel_of(bench, 2).first, 20);
    return bench;
}

#endif
