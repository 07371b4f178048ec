/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#undef stop /* cmocka 2.0 has a macro of that name */

#include "rdma_sides.h"
#include "unit.h"

uint8_t *there, *here;
void *handle_there, *handle_here;
uint32_t key;
op_t ops[OPS_MAX];

int expose(int i, uint8_t *at, unsigned access, void **handle, uint32_t *its_key)
{
    return sides[i].t->ops->rdma->expose(sides[i].t, at, MEMORY / 2, access, handle, its_key);
}

void withdraw(int i, void *handle)
{
    sides[i].t->ops->rdma->withdraw(sides[i].t, handle);
}

void expose_both(void)
{
    const unsigned atomic =
        sides[1].t->attr.rdma_atomics != BTL_IB_RDMA_ATOMICS_NONE ? BTL_IB_RDMA_MAY_ATOMIC : 0;
    uint32_t unused;

    there = sides[1].memory;
    here = sides[0].memory;
    memset(there, 0, MEMORY);
    memset(here, 0, MEMORY);
    assert_int_equal(expose(1, there, BTL_IB_RDMA_MAY_READ | BTL_IB_RDMA_MAY_WRITE | atomic,
                            &handle_there, &key),
                     0);
    assert_int_equal(expose(0, here, 0, &handle_here, &unused), 0);
}

int begin_all(void **state)
{
    (void) set_up(state);
    expose_both();
    memset(ops, 0, sizeof(ops));
    return 0;
}

int end_all(void **state)
{
    for (int i = 0; i < 2; i++) { /* nothing of ours may be in use */
        if (sides[i].t != NULL) {
            sides[i].t->ops->stop(sides[i].t);
        }
    }
    if (handle_here != NULL) {
        withdraw(0, handle_here);
    }
    if (handle_there != NULL) {
        withdraw(1, handle_there);
    }
    handle_here = NULL;
    handle_there = NULL;
    return tear_down(state);
}

void end_first(void **state)
{
    (void) end_all(state);
    fake_rdma_reset();
}

void begin_again(void)
{
    open_side(0);
    open_side(1);
    add(0, 1);
    add(1, 0);
    expose_both();
    memset(ops, 0, sizeof(ops));
}

void begin_on_iwarp(void **state)
{
    end_first(state);
    fake.iwarp = true;
    begin_again();
}

int start(op_t *op, btl_ib_rdma_kind_t kind, void *local, bool registered, uint64_t offset,
          uint64_t size)
{
    const btl_ib_rdma_work_t work = {
        .to = sides[0].to[1],
        .kind = kind,
        .local = local,
        .mem = registered ? handle_here : NULL,
        .remote = (uintptr_t) there + offset,
        .key = key,
        .size = size,
        .operand = 3,
        .compare = 7,
        .context = op,
    };

    return sides[0].t->ops->rdma->start(sides[0].t, &work);
}

int start_write(op_t *op, uint64_t offset, uint64_t size)
{
    return start(op, BTL_IB_RDMA_WRITE, here + offset, true, offset, size);
}

int start_read(op_t *op, uint64_t offset, uint64_t size)
{
    return start(op, BTL_IB_RDMA_READ, here + offset, true, offset, size);
}

void join(void)
{
    const bool hold = fake.hold_ops;

    fake.hold_ops = false;
    memset(ops, 0, sizeof(ops));
    assert_int_equal(start_write(&ops[0], 0, 8), -EAGAIN);
    settle();
    assert_int_equal(start_write(&ops[0], 0, 8), 0);
    settle();
    assert_int_equal(ops[0].events, 1);
    assert_int_equal(ops[0].error, 0);
    memset(ops, 0, sizeof(ops));
    fake.writes = 0;
    fake.read = 0;
    fake.posts = 0;
    fake.completions = 0;
    fake.hold_ops = hold;
}

void pass(int quarters)
{
    while (quarters-- > 0) {
        fake.now += QUARTER;
        settle();
    }
}

void fill(uint8_t *at, uint32_t size, uint32_t seed)
{
    for (uint32_t i = 0; i < size; i++) {
        at[i] = (uint8_t) (seed + i * 7);
    }
}
