/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the tests of operations on memory over RC have in common: side 0 of rc_sides.h works on
 * memory of side 1. Whatever can go wrong in these functions fails the test.
 */

#ifndef BTL_IB_TEST_RDMA_SIDES_H
#define BTL_IB_TEST_RDMA_SIDES_H

#include "fake_device.h"
#include "rc_sides.h"

enum {
    OPS_MAX = 256,
    ALL = 0x7fffffff, /* work requests */
    COPIED = RC_BOUNCE_SIZE,
};

/* Memory of side 1 that side 0 works on, and side 0's own; both registered. NULL: a test has
 * withdrawn it. */
extern uint8_t *there, *here;
extern void *handle_there, *handle_here;
extern uint32_t key; /* of `there`: what start() names */
extern op_t ops[OPS_MAX];

/* Register the first half of MEMORY for side `i`, with the rights BTL_IB_RDMA_MAY_... Returns 0 or
 * a negative errno. */
int expose(int i, uint8_t *at, unsigned access, void **handle, uint32_t *its_key);
void withdraw(int i, void *handle);

/* What begin_all() and begin_again() do with memory. */
void expose_both(void);

/* Two sides whose memory is registered, without a connection. At the end nothing is left
 * of anything. */
int begin_all(void **state);
int end_all(void **state);

/* The same on a device that is set up otherwise: `fake` and `params` are set by the caller in
 * between. */
void end_first(void **state);
void begin_again(void);
void begin_on_iwarp(void **state);

/* Begin one of side 0, `offset` bytes into `there`; `registered`: the local end is within `here`.
 * Returns 0 or a negative errno. */
int start(op_t *op, btl_ib_rdma_kind_t kind, void *local, bool registered, uint64_t offset,
          uint64_t size);
int start_write(op_t *op, uint64_t offset, uint64_t size);
int start_read(op_t *op, uint64_t offset, uint64_t size);

/* Connected: the first operation only asks for a connection. */
void join(void);

enum { QUARTER = 250 * 1000 }; /* us */

/* All look, four times a second. */
void pass(int quarters);

void fill(uint8_t *at, uint32_t size, uint32_t seed);

#define RDMA_TEST(name) TEST_WITH(name, begin_all, end_all)

#endif
