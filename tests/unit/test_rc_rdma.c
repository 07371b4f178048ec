/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: operations on memory, on a device that is none (fake_rdma_ops.c). */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_device.h"
#include "rc_sides.h"
#include "said.h"

enum {
    OPS_MAX = 256,
    ALL = 0x7fffffff,
    COPIED = BTL_IB_RC_PIECE_MAX,
};

/* Memory of side 1 that side 0 works on, and side 0's own. */
static uint8_t *there, *here;
static void *handle_there, *handle_here;
static uint32_t key;
static op_t ops[OPS_MAX];

static int expose(int i, uint8_t *at, unsigned access, void **handle, uint32_t *its_key)
{
    return sides[i].t->ops->rdma->expose(sides[i].t, at, MEMORY / 2, access, handle, its_key);
}

static void withdraw(int i, void *handle)
{
    sides[i].t->ops->rdma->withdraw(sides[i].t, handle);
}

static void expose_both(void)
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

static int begin_all(void **state)
{
    (void) set_up(state);
    expose_both();
    memset(ops, 0, sizeof(ops));
    return 0;
}

static int end_all(void **state)
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

/* The same on a device that is set up otherwise: `fake` and `params` are set by the caller in between. */
static void end_first(void **state)
{
    (void) end_all(state);
    fake_rdma_reset();
}

static void begin_again(void)
{
    open_side(0);
    open_side(1);
    add(0, 1);
    add(1, 0);
    expose_both();
    memset(ops, 0, sizeof(ops));
}

static void begin_on_iwarp(void **state)
{
    end_first(state);
    fake.iwarp = true;
    begin_again();
}

static int start(op_t *op, btl_ib_rdma_kind_t kind, void *local, bool registered, uint64_t offset,
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

static int start_write(op_t *op, uint64_t offset, uint64_t size)
{
    return start(op, BTL_IB_RDMA_WRITE, here + offset, true, offset, size);
}

static int start_read(op_t *op, uint64_t offset, uint64_t size)
{
    return start(op, BTL_IB_RDMA_READ, here + offset, true, offset, size);
}

/* The first operation only asks for a connection. */
static void join(void)
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

static const btl_ib_rc_pipe_t *pipe_of(int i)
{
    return rc_of(i)->peers.peer[sides[i].to[1 - i]]->link[BTL_IB_RC_RDMA].pipe;
}

static void fill(uint8_t *at, uint32_t size, uint32_t seed)
{
    for (uint32_t i = 0; i < size; i++) {
        at[i] = (uint8_t) (seed + i * 7);
    }
}

/* ---- the good case ---- */

/* All sizes: in the request, by a copy, from registered memory. One doorbell and one completion each. */
static void writes_and_reads(void **state)
{
    const uint32_t sizes[] = {1, 8, 200, 256, 257, 4000, COPIED, COPIED + 1, 60000};

    (void) state;
    join();
    for (uint32_t i = 0; i < 9; i++) {
        const bool registered = sizes[i] > COPIED || i % 2 == 0;
        fill(here, sizes[i], i);
        fake.posts = 0;
        fake.completions = 0;
        assert_int_equal(start(&ops[0], BTL_IB_RDMA_WRITE, here, registered, 64, sizes[i]), 0);
        settle();
        assert_memory_equal(there + 64, here, sizes[i]);
        memset(here, 0, sizes[i]);
        assert_int_equal(start(&ops[0], BTL_IB_RDMA_READ, here, registered, 64, sizes[i]), 0);
        settle();
        assert_memory_equal(there + 64, here, sizes[i]);
        assert_int_equal(fake.posts, 2);
        assert_int_equal(fake.completions, 2);
    }
    assert_int_equal(ops[0].events, 18);
    assert_int_equal(ops[0].error, 0);
    assert_int_equal(fake.qps, 2);
}

/* What is written without registered memory may be changed as soon as start() returned. */
static void copied_writes_are_free_at_once(void **state)
{
    (void) state;
    fake.hold_ops = true;
    join();
    fill(here, 4000, 1);
    assert_int_equal(start(&ops[0], BTL_IB_RDMA_WRITE, here, false, 0, 4000), 0);
    fill(here, 4000, 2);
    (void) fake_rdma_work(ALL);
    settle();
    fill(here, 4000, 1);
    assert_memory_equal(there, here, 4000);
}

/* Short ones of all lengths, many at once: the ring of bytes goes round, and nobody's piece is another's. */
static void pieces_go_round(void **state)
{
    uint32_t size[64], at[64];
    int full = 0;

    (void) state;
    fake.reads = 64;
    end_first(state);
    fake.reads = 64;
    begin_again();
    fake.hold_ops = true;
    join();
    srand(7);
    for (int round = 0; round < 50; round++) {
        int begun = 0;
        uint32_t next = 0;
        while (begun < 60) {
            size[begun] = 257 + (uint32_t) rand() % (COPIED - 257);
            at[begun] = next;
            if (next + size[begun] > MEMORY / 2) {
                break;
            }
            fill(there + next, size[begun], (uint32_t) (round + begun));
            if (start(&ops[begun], BTL_IB_RDMA_READ, here + next, false, next, size[begun]) != 0) {
                full++;
                break;
            }
            next += size[begun++];
        }
        assert_in_range(begun, 20, 60);
        (void) fake_rdma_work(ALL);
        settle();
        assert_memory_equal(here, there, at[begun - 1] + size[begun - 1]);
        memset(here, 0, MEMORY / 2);
    }
    assert_int_equal(ops[0].error, 0);
    assert_true(full > 10);
}

/* Messages and operations have nothing to do with each other, but the peer. */
static void beside_messages(void **state)
{
    (void) state;
    join();
    connect_sides(0, 1, 1);
    assert_int_equal(fake.qps, 4);
    fake_rdma_break(pipe_of(0)->qp->qp_num, IBV_WC_RETRY_EXC_ERR);
    settle();
    assert_int_equal(sides[0].broken + sides[1].broken, 0);
    assert_int_equal(send_one(0, 1, LONG, 1), 0);
    settle();
    assert_int_equal(sides[1].received, 2);
}

/* Nothing that was sent waits for a connection of operations: that it was long in coming is no loss. */
static void late_connection_is_no_loss(void **state)
{
    (void) state;
    fake.hold_requests = true;
    assert_int_equal(start_write(&ops[0], 0, 8), -EAGAIN);
    settle();
    fake.now += 11 * 1000 * 1000;
    assert_int_equal(start_write(&ops[0], 0, 8), -EHOSTUNREACH);
    fake.hold_requests = false;
    fake_rdma_release();
    settle();
    assert_int_equal(start_write(&ops[0], 0, 8), 0);
    settle();
    assert_int_equal(ops[0].events, 1);
    assert_int_equal(sides[0].broken + sides[1].broken, 0);
}

static void both_directions_use_one_connection(void **state)
{
    void *handle;
    uint32_t its_key;
    btl_ib_rdma_work_t work = {.to = sides[1].to[0],
                               .kind = BTL_IB_RDMA_WRITE,
                               .local = there,
                               .size = 100,
                               .context = &ops[1]};

    (void) state;
    join();
    assert_int_equal(expose(0, here, BTL_IB_RDMA_MAY_WRITE, &handle, &its_key), 0);
    work.remote = (uintptr_t) here;
    work.key = its_key;
    fill(there, 100, 3);
    assert_int_equal(sides[1].t->ops->rdma->start(sides[1].t, &work), 0);
    settle();
    assert_int_equal(ops[1].events, 1);
    assert_memory_equal(here, there, 100);
    assert_int_equal(fake.qps, 2);
    withdraw(0, handle);
}

/* With oneself, by the device: for atomics, which are no atomics beside a processor's. */
static void with_oneself(void **state)
{
    btl_ib_transport_t *t = sides[1].t;
    btl_ib_addr_t self;
    uint64_t word = 5, old = 0;
    btl_ib_rdma_work_t work = {.kind = BTL_IB_RDMA_ADD,
                               .local = &old,
                               .remote = (uintptr_t) there,
                               .key = key,
                               .size = 8,
                               .operand = 3,
                               .context = &ops[0]};

    memcpy(there, &word, sizeof(word));
    assert_int_equal(t->ops->addr_add(t, t->address, t->address_len, &self), 0);
    work.to = self;
    for (int i = 0; i < 2; i++) { /* again after it broke */
        assert_int_equal(t->ops->rdma->start(t, &work), -EAGAIN);
        settle();
        assert_int_equal(t->ops->rdma->start(t, &work), 0);
        settle();
        assert_int_equal(ops[0].events, 1 + i);
        assert_int_equal(ops[0].error, 0);
        assert_int_equal(old, 5 + 3 * i);
        if (i == 0) {
            fake_rdma_break(rc_of(1)->peers.peer[self]->link[BTL_IB_RC_RDMA].pipe->qp->qp_num,
                            IBV_WC_RETRY_EXC_ERR);
            settle();
        }
    }
    t->ops->addr_remove(t, self);
    settle();
    assert_int_equal(fake.qps, 0);
    assert_int_equal(rc_of(1)->peers.count, 1); /* the other side */
    assert_int_equal(sides[1].broken + sides[1].refused, 0);
    begin_on_iwarp(state);
    t = sides[1].t;
    assert_int_equal(t->ops->addr_add(t, t->address, t->address_len, &self), -EHOSTUNREACH);
}

static void attributes(void **state)
{
    assert_true(sides[0].t->attr.rdma);
    assert_int_equal(sides[0].t->attr.rdma_max, 1 << 20); /* what the port says */
    assert_int_equal(start_write(&ops[0], 0, 0), -EINVAL);
    assert_int_equal(start_write(&ops[0], 0, (1 << 20) + 1), -EINVAL);
    assert_int_equal(start(&ops[0], BTL_IB_RDMA_WRITE, here, false, 0, COPIED + 1), -EINVAL);
    assert_int_equal(sides[0].t->attr.rdma_atomics, BTL_IB_RDMA_ATOMICS_DEVICE);
    end_first(state);
    fake.atomics = IBV_ATOMIC_GLOB;
    begin_again();
    assert_int_equal(sides[0].t->attr.rdma_atomics, BTL_IB_RDMA_ATOMICS_GLOBAL);
}

/* ---- atomics ---- */

static void atomics(void **state)
{
    uint64_t old = 0, word = 5;

    (void) state;
    join();
    memcpy(there + 16, &word, sizeof(word));
    assert_int_equal(start(&ops[0], BTL_IB_RDMA_ADD, &old, false, 16, 8), 0);
    settle();
    assert_int_equal(old, 5);
    assert_int_equal(start(&ops[0], BTL_IB_RDMA_CSWAP, &old, false, 16, 8), 0); /* 8 is not 7 */
    settle();
    assert_int_equal(old, 8);
    word = 7;
    memcpy(there + 16, &word, sizeof(word));
    assert_int_equal(start(&ops[0], BTL_IB_RDMA_CSWAP, &old, false, 16, 8), 0);
    settle();
    assert_int_equal(old, 7);
    memcpy(&word, there + 16, sizeof(word));
    assert_int_equal(word, 3);
    assert_int_equal(ops[0].events, 3);
    assert_int_equal(start(&ops[0], BTL_IB_RDMA_ADD, &old, false, 12, 8), -EINVAL);
    assert_int_equal(start(&ops[0], BTL_IB_RDMA_ADD, &old, false, 16, 4), -EINVAL);
}

static void no_atomics_where_the_device_has_none(void **state)
{
    uint64_t old;
    void *handle;
    uint32_t its_key;

    for (int iwarp = 0; iwarp < 2; iwarp++) {
        end_first(state);
        fake.iwarp = iwarp == 1; /* which has no standard ones, whatever a device says */
        fake.atomics = iwarp == 1 ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
        begin_again();
        assert_int_equal(sides[0].t->attr.rdma_atomics, BTL_IB_RDMA_ATOMICS_NONE);
        assert_int_equal(start(&ops[0], BTL_IB_RDMA_ADD, &old, false, 16, 8), -EOPNOTSUPP);
        assert_int_equal(expose(0, here, BTL_IB_RDMA_MAY_ATOMIC, &handle, &its_key), -EOPNOTSUPP);
    }
}

/* ---- how many at once ---- */

/* As many reads as the peer serves; writes are not bound by that. */
static void reads_are_bounded(void **state)
{
    (void) state;
    fake.hold_ops = true;
    join();
    for (int i = 0; i < 4; i++) {
        assert_int_equal(start_read(&ops[i], 0, 64), 0);
    }
    assert_int_equal(start_read(&ops[4], 0, 64), -EAGAIN);
    assert_int_equal(start(&ops[4], BTL_IB_RDMA_ADD, here, false, 0, 8), -EAGAIN);
    assert_int_equal(start_write(&ops[4], 0, 64), 0);
    assert_int_equal(fake_rdma_work(1), 1);
    look(0);
    assert_int_equal(start_read(&ops[5], 0, 64), 0);
    assert_int_equal(start_read(&ops[6], 0, 64), -EAGAIN);
    (void) fake_rdma_work(ALL);
    settle();
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ops[i].events, 1);
        assert_int_equal(ops[i].error, 0);
    }
}

/* The other's device may serve fewer than ours asks for, or none. */
static void reads_are_bounded_by_the_peer(void **state)
{
    for (int reads = 0; reads < 3; reads++) {
        end_first(state);
        open_side(0);
        fake.reads = reads;
        open_side(1);
        add(0, 1);
        add(1, 0);
        expose_both();
        join();
        fake.hold_ops = true;
        for (int i = 0; i < reads; i++) {
            assert_int_equal(start_read(&ops[i], 0, 64), 0);
        }
        assert_int_equal(start_read(&ops[3], 0, 64), reads == 0 ? -EOPNOTSUPP : -EAGAIN);
        (void) fake_rdma_work(ALL);
        settle();
    }
}

static void full_queue(void **state)
{
    int begun = 0;

    (void) state;
    fake.hold_ops = true;
    join();
    while (begun < OPS_MAX && start_write(&ops[begun], (uint64_t) begun, 1) == 0) {
        begun++;
    }
    assert_in_range(begun, 100, 128);
    assert_int_equal(start_write(&ops[begun], 0, 1), -EAGAIN);
    (void) fake_rdma_work(ALL);
    settle();
    assert_int_equal(start_write(&ops[begun], 0, 1), 0);
    (void) fake_rdma_work(ALL);
    settle();
    for (int i = 0; i <= begun; i++) {
        assert_int_equal(ops[i].events, 1);
        assert_int_equal(ops[i].error, 0);
    }
}

/* ---- when a write is done ---- */

/* The event of a write comes when its bytes are there, whatever completes before. */
static void write_is_placed(void)
{
    join();
    fill(here, 4000, 9);
    assert_int_equal(start_write(&ops[0], 0, 4000), 0);
    for (int i = 0; i < 200 && ops[0].events == 0; i++) {
        look(0);
    }
    assert_int_equal(ops[0].events, 1);
    assert_memory_equal(there, here, 4000);
}

static void strict_writes_need_no_read(void **state)
{
    (void) state;
    write_is_placed();
    assert_int_equal(fake.read, 0);
}

static void writes_over_iwarp_are_confirmed(void **state)
{
    begin_on_iwarp(state);
    write_is_placed();
    assert_int_equal(fake.read, 1);
    assert_int_equal(fake.posts, 1); /* both by one doorbell, and one completion */
    assert_int_equal(fake.completions, 1);
}

/* It is the peer's memory that is relaxed, or not. */
static void writes_to_relaxed_memory_are_confirmed(void **state)
{
    end_first(state);
    open_side(0);
    params.rc.relaxed = true;
    open_side(1);
    add(0, 1);
    add(1, 0);
    expose_both();
    assert_int_equal(fake_rdma_access(key) & IBV_ACCESS_RELAXED_ORDERING, 0);
    withdraw(1, handle_there); /* atomics are never relaxed */
    assert_int_equal(
        expose(1, there, BTL_IB_RDMA_MAY_READ | BTL_IB_RDMA_MAY_WRITE, &handle_there, &key), 0);
    assert_int_not_equal(fake_rdma_access(key) & IBV_ACCESS_RELAXED_ORDERING, 0);
    write_is_placed();
    assert_int_equal(fake.read, 1);
}

/* When no more can be read, writes go on, and the next read confirms all of them. */
static void one_read_confirms_many(void **state)
{
    begin_on_iwarp(state);
    fake.hold_ops = true;
    join();
    fill(here, 20 * 64, 5);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(start_write(&ops[i], (uint64_t) i * 64, 64), 0);
    }
    assert_int_equal(fake_rdma_work(1), 1);
    look(0);
    assert_int_equal(ops[0].events, 0);
    assert_int_equal(fake_rdma_work(1), 1);
    look(0);
    assert_int_equal(ops[0].events, 1); /* and a read is posted for the last ones */
    (void) fake_rdma_work(ALL);
    settle();
    (void) fake_rdma_work(ALL);
    settle();
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ops[i].events, 1);
        assert_int_equal(ops[i].error, 0);
    }
    assert_memory_equal(there, here, 20 * 64);
    assert_int_equal(fake.read, 5);
}

/* ---- rights ---- */

/* iWARP's reads go where the other side may write; but a key for reading is none for writing. */
static void rights_on_iwarp(void **state)
{
    void *handle;

    begin_on_iwarp(state);
    join();
    assert_int_equal(start_read(&ops[0], 0, 4000), 0);
    assert_int_equal(start(&ops[1], BTL_IB_RDMA_READ, here, false, 0, 4000), 0);
    settle();
    assert_int_equal(ops[0].error, 0);
    assert_int_equal(ops[1].error, 0);
    assert_int_equal(expose(1, there, BTL_IB_RDMA_MAY_READ, &handle, &key), 0);
    assert_int_equal(start_write(&ops[2], 0, 64), 0);
    settle();
    assert_int_equal(ops[2].events, 1);
    assert_int_equal(ops[2].error, EACCES);
    withdraw(1, handle);
}

static void refused(btl_ib_rdma_kind_t kind, uint64_t offset)
{
    memset(ops, 0, sizeof(ops));
    fake.hold_ops = true;
    assert_int_equal(start_write(&ops[0], 0, 64), 0);
    assert_int_equal(start(&ops[1], kind, here, true, offset, 8), 0);
    assert_int_equal(start_write(&ops[2], 0, 64), 0);
    (void) fake_rdma_work(ALL);
    fake.hold_ops = false;
    settle();
    assert_int_equal(ops[0].error, 0);
    assert_int_equal(ops[1].error, EACCES);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i].events, 1);
    }
    fake.now += 3000000;
    assert_int_equal(start_write(&ops[2], 0, 64), -EAGAIN);
    settle();
}

/* What the target's device refuses fails, and says so; what came after it ends with the connection. */
/* The device may change what somebody changes by it, and nothing else: memory may be such that nobody can. */
static void only_changed_memory_is_writable(void **state)
{
    (void) state;
    for (unsigned access = 0; access < 16; access++) {
        void *handle;
        const bool changed = access != BTL_IB_RDMA_MAY_READ;
        assert_int_equal(expose(1, there, access, &handle, &key), 0);
        assert_int_equal((fake_rdma_access(key) & IBV_ACCESS_LOCAL_WRITE) != 0, changed);
        withdraw(1, handle);
    }
}

static void refusals(void **state)
{
    void *handle;
    const uint32_t good = key;

    (void) state;
    join();
    refused(BTL_IB_RDMA_WRITE, MEMORY / 2 - 4); /* bounds */
    refused(BTL_IB_RDMA_READ, MEMORY / 2);
    refused(BTL_IB_RDMA_ADD, MEMORY / 2);
    key = good + 1000;
    assert_int_equal(start_read(&ops[0], 0, 8), 0);
    settle();
    assert_int_equal(ops[0].error, EACCES);
    fake.now += 3000000;
    for (unsigned access = 1; access < 8; access <<= 1) {
        assert_int_equal(expose(1, there, access, &handle, &key), 0);
        for (int kind = BTL_IB_RDMA_WRITE; kind <= BTL_IB_RDMA_ADD; kind++) {
            const unsigned needed[] = {BTL_IB_RDMA_MAY_WRITE, BTL_IB_RDMA_MAY_READ,
                                       BTL_IB_RDMA_MAY_ATOMIC};
            while (start(&ops[0], (btl_ib_rdma_kind_t) kind, here, true, 0, 8) == -EAGAIN) {
                settle();
            }
            settle();
            assert_int_equal(ops[0].error, needed[kind] == access ? 0 : EACCES);
            fake.now += 3000000;
        }
        withdraw(1, handle);
    }
}

/* ---- ends ---- */

/* What is begun ends, once, however the connection does. */
static void broken(void **state)
{
    (void) state;
    fake.hold_ops = true;
    join();
    for (int i = 0; i < 10; i++) {
        assert_int_equal(i % 3 == 0 ? start_read(&ops[i], 0, 64) : start_write(&ops[i], 0, 64), 0);
    }
    assert_int_equal(fake_rdma_work(3), 3);
    fake_rdma_break(pipe_of(0)->qp->qp_num, IBV_WC_RETRY_EXC_ERR);
    settle();
    for (int i = 0; i < 10; i++) {
        assert_int_equal(ops[i].events, 1);
        assert_int_equal(ops[i].error, i < 3 ? 0 : EPIPE);
    }
    fake.hold_ops = false;
    assert_int_equal(start_write(&ops[10], 0, 64), -EAGAIN);
    settle();
    assert_int_equal(start_write(&ops[10], 0, 64), 0);
    settle();
    assert_int_equal(ops[10].error, 0);
}

/* Writes that were over, but not confirmed, may not have been placed. */
static void broken_before_confirmed(void **state)
{
    begin_on_iwarp(state);
    fake.hold_ops = true;
    join();
    assert_int_equal(start_write(&ops[0], 0, 64), 0);
    assert_int_equal(fake_rdma_work(1), 1);
    fake_rdma_break(pipe_of(0)->qp->qp_num, IBV_WC_RETRY_EXC_ERR);
    settle();
    assert_int_equal(ops[0].events, 1);
    assert_int_equal(ops[0].error, EPIPE);
}

/* After the end of a peer nobody writes to the memory of a read, be it the device or we; and nobody is told, not even of
 * what was over already. */
static void end_with(void (*how)(void))
{
    fake.hold_ops = true;
    join();
    fill(there, 4000, 1);
    assert_int_equal(start(&ops[0], BTL_IB_RDMA_READ, here, false, 0, 4000), 0);
    assert_int_equal(start(&ops[1], BTL_IB_RDMA_READ, here + 8000, true, 0, 4000), 0);
    assert_int_equal(start_write(&ops[2], 0, 64), 0);
    assert_int_equal(fake_rdma_work(1), 1); /* which nobody looked for yet */
    how();
    memset(here, 0x5a, MEMORY);
    (void) fake_rdma_work(ALL);
    settle();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i].events, 0);
    }
    for (int i = 0; i < MEMORY; i++) {
        assert_int_equal(here[i], 0x5a);
    }
}

static void remove_peer(void)
{
    forget(0, 1);
}

static void removed(void **state)
{
    (void) state;
    end_with(remove_peer);
}

static void cancel_all(void)
{
    sides[0].t->ops->rdma->cancel(sides[0].t, sides[0].to[1]);
}

static void cancelled(void **state)
{
    (void) state;
    end_with(cancel_all);
    fake.hold_ops = false;
    memset(here, 0, MEMORY);
    join();
}

/* Those that ended with the connection, and were not told of yet. */
static void cancelled_when_broken(void **state)
{
    btl_ib_event_t event;

    (void) state;
    fake.hold_ops = true;
    join();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(start_write(&ops[i], 0, 64), 0);
    }
    fake_rdma_break(pipe_of(0)->qp->qp_num, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(sides[0].t->ops->poll(sides[0].t, &event, 1), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_RDMA);
    cancel_all();
    settle();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i].events, 0);
    }
}

static void stopped(void **state)
{
    (void) state;
    fake.hold_ops = true;
    join();
    assert_int_equal(start(&ops[0], BTL_IB_RDMA_READ, here, false, 0, 4000), 0);
    assert_int_equal(start_read(&ops[1], 0, 4000), 0);
    sides[0].t->ops->stop(sides[0].t);
    memset(here, 0x5a, MEMORY);
    (void) fake_rdma_work(ALL);
    for (int i = 0; i < MEMORY; i++) {
        assert_int_equal(here[i], 0x5a);
    }
}

/* Whoever hears that the device failed has heard of all operations. */
static void device_fails(void **state)
{
    const struct ibv_async_event fatal = {.event_type = IBV_EVENT_DEVICE_FATAL};

    (void) state;
    fake.hold_ops = true;
    join();
    for (int i = 0; i < 50; i++) {
        assert_int_equal(start_write(&ops[i], 0, 64), 0);
    }
    fake_say(&fatal);
    for (int i = 0; i < 200 && sides[0].failed == 0; i++) {
        look(0);
    }
    assert_int_equal(sides[0].failed, 1);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(ops[i].events, 1);
        assert_int_equal(ops[i].error, EPIPE);
    }
    assert_int_equal(start_write(&ops[0], 0, 64), -ENETDOWN);
    forget(0, 1);
}

static void nobody_there(void **state)
{
    (void) state;
    sides[1].t->ops->stop(sides[1].t);
    withdraw(1, handle_there);
    handle_there = NULL;
    close_side(1);
    assert_int_equal(start_write(&ops[0], 0, 64), -EAGAIN);
    settle();
    assert_int_equal(start_write(&ops[0], 0, 64), -EHOSTUNREACH);
    assert_int_equal(sides[0].refused, 1);
}

/* ---- shortage, and what the own device refuses ---- */

static void shortage(void **state)
{
    void *handle;
    uint32_t its_key;

    (void) state;
    join();
    fake.mrs_left = 0;
    assert_int_equal(expose(0, here, 0, &handle, &its_key), -ENOMEM);
    fake.mrs_left = -1;
    fake.post_error = ENOMEM;
    for (int i = 0; i < 100; i++) { /* of which nothing is left */
        fake.post_left = 0;
        assert_int_equal(start(&ops[0], BTL_IB_RDMA_WRITE, here, false, 0, 4000), -EAGAIN);
    }
    assert_int_equal(start(&ops[0], BTL_IB_RDMA_WRITE, here, false, 0, 4000), 0);
    settle();
    assert_int_equal(ops[0].events, 1);
    assert_int_equal(ops[0].error, 0);
}

static void refused_here(void **state)
{
    (void) state;
    fake.hold_ops = true;
    join();
    assert_int_equal(start_write(&ops[0], 0, 64), 0);
    fake.post_left = 0;
    fake.post_error = EINVAL;
    assert_int_equal(start_write(&ops[1], 0, 64), -EIO);
    settle();
    assert_int_equal(ops[0].events, 1);
    assert_int_equal(ops[0].error, EPIPE);
    assert_int_equal(ops[1].events, 0);
}

/* A write that is taken, and its read is not: it was begun, and ends. */
static void half_posted(void **state)
{
    begin_on_iwarp(state);
    join();
    fake.post_left = 1;
    fake.post_error = ENOMEM;
    assert_int_equal(start_write(&ops[0], 0, 64), 0);
    settle();
    assert_int_equal(ops[0].events, 1);
    assert_int_equal(ops[0].error, EPIPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define RDMA_TEST(name) cmocka_unit_test_setup_teardown(name, begin_all, end_all)
        RDMA_TEST(writes_and_reads),
        RDMA_TEST(copied_writes_are_free_at_once),
        RDMA_TEST(pieces_go_round),
        RDMA_TEST(beside_messages),
        RDMA_TEST(late_connection_is_no_loss),
        RDMA_TEST(both_directions_use_one_connection),
        RDMA_TEST(with_oneself),
        RDMA_TEST(attributes),
        RDMA_TEST(atomics),
        RDMA_TEST(no_atomics_where_the_device_has_none),
        RDMA_TEST(reads_are_bounded),
        RDMA_TEST(reads_are_bounded_by_the_peer),
        RDMA_TEST(full_queue),
        RDMA_TEST(strict_writes_need_no_read),
        RDMA_TEST(writes_over_iwarp_are_confirmed),
        RDMA_TEST(writes_to_relaxed_memory_are_confirmed),
        RDMA_TEST(one_read_confirms_many),
        RDMA_TEST(rights_on_iwarp),
        RDMA_TEST(only_changed_memory_is_writable),
        RDMA_TEST(refusals),
        RDMA_TEST(broken),
        RDMA_TEST(broken_before_confirmed),
        RDMA_TEST(removed),
        RDMA_TEST(cancelled),
        RDMA_TEST(cancelled_when_broken),
        RDMA_TEST(stopped),
        RDMA_TEST(device_fails),
        RDMA_TEST(nobody_there),
        RDMA_TEST(shortage),
        RDMA_TEST(refused_here),
        RDMA_TEST(half_posted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
