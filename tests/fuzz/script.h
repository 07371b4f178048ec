/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A fuzzer's bytes as a script for the bench: what the first bytes choose, and the steps that both
 * targets know: applications that send, a network that does what it likes, hosts that are short of
 * something. Bytes that are missing at the end are zero.
 */

#ifndef BTL_IB_FUZZ_SCRIPT_H
#define BTL_IB_FUZZ_SCRIPT_H

#include "bench.h"

enum {
    SCRIPT_HOSTS = 3,
    SCRIPT_STEPS = 300, /* at most */
    SCRIPT_SECOND = 1000 * 1000,
};

typedef struct script {
    const uint8_t *data;
    size_t size, at;
    bench_t bench;
} script_t;

uint8_t script_u8(script_t *script);
uint16_t script_u16(script_t *script);
uint32_t script_u32(script_t *script);
/* A small number of either sign, mostly near 0, now and then far away. */
uint32_t script_near(script_t *script);
bool script_over(const script_t *script);

/* Make the bench as the first bytes say, its hosts started. */
void script_begin(script_t *script, const uint8_t *data, size_t size);

/* One step that honest engines must be able to bear. */
void script_honest_step(script_t *script);

/* What must hold at any time. */
void script_check(script_t *script);

/* The network is as it should be again: everything must get through and come to rest. */
void script_converge(script_t *script);

void script_end(script_t *script);

#endif
