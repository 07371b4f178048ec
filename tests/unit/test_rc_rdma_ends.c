/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: operations on memory that are refused, break off or find no room, on a
 * device that is none. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#undef stop /* cmocka 2.0 has a macro of that name */

#include "rdma_sides.h"
#include "unit.h"

/* ---- rights ---- */

/* iWARP's reads go where the other side may write; but a key for reading is none for writing. */
RDMA_TEST(rights_on_iwarp)
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

/* The device may change what somebody changes by it, and nothing else: memory may be such that
 * nobody can. */
RDMA_TEST(only_changed_memory_is_writable)
{
    for (unsigned access = 0; access < 16; access++) {
        void *handle;
        const bool changed = access != BTL_IB_RDMA_MAY_READ;
        assert_int_equal(expose(1, there, access, &handle, &key), 0);
        assert_int_equal((fake_rdma_access(key) & IBV_ACCESS_LOCAL_WRITE) != 0, changed);
        withdraw(1, handle);
    }
}

/* What the target's device refuses fails, and says so; what came after it ends with the
 * connection. */
RDMA_TEST(refusals)
{
    void *handle;
    const uint32_t good = key;

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

/* From withdraw() on its key opens nothing, not even to what was begun before; and another key for
 * the same memory does. */
RDMA_TEST(withdrawn_key)
{
    const uint32_t usual = key;
    void *handle;

    join();
    assert_int_equal(expose(1, there, BTL_IB_RDMA_MAY_READ | BTL_IB_RDMA_MAY_WRITE, &handle, &key),
                     0);
    const uint32_t gone = key;
    assert_int_equal(start_write(&ops[0], 0, 64), 0);
    settle();
    assert_int_equal(ops[0].error, 0);
    memset(there, 0x11, 64);
    memset(here, 0x22, 64);
    fake.hold_ops = true;
    assert_int_equal(start_write(&ops[1], 0, 64), 0);
    withdraw(1, handle);
    (void) fake_rdma_work(ALL);
    fake.hold_ops = false;
    settle();
    assert_int_equal(ops[1].error, EACCES);
    for (int kind = BTL_IB_RDMA_WRITE; kind <= BTL_IB_RDMA_READ; kind++) {
        fake.now += 3000000;
        key = gone;
        while (start(&ops[2], (btl_ib_rdma_kind_t) kind, here, true, 0, 64) == -EAGAIN) {
            settle();
        }
        settle();
        assert_int_equal(ops[2].error, EACCES);
    }
    assert_int_equal(((const uint8_t *) there)[0], 0x11);
    assert_int_equal(((const uint8_t *) here)[0], 0x22);
    fake.now += 3000000;
    key = usual;
    while (start_write(&ops[3], 0, 64) == -EAGAIN) {
        settle();
    }
    settle();
    assert_int_equal(ops[3].error, 0);
    assert_int_equal(((const uint8_t *) there)[0], 0x22);
}

/* ---- ends ---- */

/* What is begun ends, once, however the connection does. */
RDMA_TEST(broken)
{
    fake.hold_ops = true;
    join();
    for (int i = 0; i < 10; i++) {
        assert_int_equal(i % 3 == 0 ? start_read(&ops[i], 0, 64) : start_write(&ops[i], 0, 64), 0);
    }
    assert_int_equal(fake_rdma_work(3), 3);
    fake_rdma_break(qp_of(0, 1, BTL_IB_RC_RDMA_CHANNEL), IBV_WC_RETRY_EXC_ERR);
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

/* iWARP devices say so of what they could not send any more when the other side has ended the
 * connection: the operation itself may be as good as any. */
RDMA_TEST(broken_before_sent)
{
    begin_on_iwarp(state);
    fake.hold_ops = true;
    join();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(start_write(&ops[i], 0, 64), 0);
    }
    fake_rdma_fail(qp_of(0, 1, BTL_IB_RC_RDMA_CHANNEL), IBV_WC_LOC_QP_OP_ERR);
    settle();
    fake.now += 300000; /* waited for the port's state, in case it is down */
    settle();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ops[i].events, 1);
        assert_int_equal(ops[i].error, EPIPE);
    }
}

/* Writes that were over, but not confirmed, may not have been placed. */
RDMA_TEST(broken_before_confirmed)
{
    begin_on_iwarp(state);
    fake.hold_ops = true;
    join();
    assert_int_equal(start_write(&ops[0], 0, 64), 0);
    assert_int_equal(fake_rdma_work(1), 1);
    fake_rdma_break(qp_of(0, 1, BTL_IB_RC_RDMA_CHANNEL), IBV_WC_RETRY_EXC_ERR);
    settle();
    assert_int_equal(ops[0].events, 1);
    assert_int_equal(ops[0].error, EPIPE);
}

/* After the end of a peer nobody writes to the memory of a read, be it the device or we; and nobody
 * is told, not even of what was over already. */
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

RDMA_TEST(removed)
{
    end_with(remove_peer);
}

static void cancel_all(void)
{
    sides[0].t->ops->rdma->cancel(sides[0].t, sides[0].to[1]);
}

RDMA_TEST(cancelled)
{
    end_with(cancel_all);
    fake.hold_ops = false;
    memset(here, 0, MEMORY);
    join();
}

/* Those that ended with the connection, and were not told of yet. */
RDMA_TEST(cancelled_when_broken)
{
    btl_ib_event_t event;

    fake.hold_ops = true;
    join();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(start_write(&ops[i], 0, 64), 0);
    }
    fake_rdma_break(qp_of(0, 1, BTL_IB_RC_RDMA_CHANNEL), IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(sides[0].t->ops->poll(sides[0].t, 0, &event, 1), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_RDMA);
    cancel_all();
    settle();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i].events, 0);
    }
}

RDMA_TEST(stopped)
{
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

/* A caller that hears that the device failed has heard of all operations. */
RDMA_TEST(device_fails)
{
    const struct ibv_async_event fatal = {.event_type = IBV_EVENT_DEVICE_FATAL};

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

RDMA_TEST(nobody_there)
{
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

RDMA_TEST(shortage)
{
    void *handle;
    uint32_t its_key;

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

RDMA_TEST(refused_here)
{
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
RDMA_TEST(half_posted)
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

UNIT_MAIN(NULL, NULL)
