/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: operations on memory, and when they are done, on a device that is
 * none. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdma_sides.h"
#include "unit.h"

/* ---- the good case ---- */

/* Short ones of all lengths, many at once: the ring of bytes goes round, and nobody's piece is
 * another's. */
RDMA_TEST(pieces_go_round)
{
    uint32_t size[64], at[64];
    int full = 0;

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

/* Nothing that was sent waits for a connection of operations: that it was long in coming is no
 * loss. */
RDMA_TEST(late_connection_is_no_loss)
{
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

RDMA_TEST(both_directions_use_one_connection)
{
    void *handle;
    uint32_t its_key;
    btl_ib_rdma_work_t work = {.to = sides[1].to[0],
                               .kind = BTL_IB_RDMA_WRITE,
                               .local = there,
                               .size = 100,
                               .context = &ops[1]};

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
RDMA_TEST(with_oneself)
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
            fake_rdma_break(rc_conn(t, self, BTL_IB_RC_RDMA_CHANNEL).qp->qp_num,
                            IBV_WC_RETRY_EXC_ERR);
            settle();
        }
    }
    t->ops->addr_remove(t, self);
    settle();
    assert_int_equal(fake.qps, 0);
    assert_int_equal(rc_inside(t).peers, 1); /* the other side */
    assert_int_equal(sides[1].broken + sides[1].refused, 0);
    begin_on_iwarp(state);
    t = sides[1].t;
    assert_int_equal(t->ops->addr_add(t, t->address, t->address_len, &self), -EHOSTUNREACH);
}

RDMA_TEST(attributes)
{
    assert_true(sides[0].t->attr.rdma);
    assert_int_equal(sides[0].t->attr.rdma_max, 1 << 20); /* what the port says */
    assert_int_equal(sides[0].t->attr.rdma_region_max, 0);
    assert_int_equal(start_write(&ops[0], 0, 0), -EINVAL);
    assert_int_equal(start_write(&ops[0], 0, (1 << 20) + 1), -EINVAL);
    assert_int_equal(start(&ops[0], BTL_IB_RDMA_WRITE, here, false, 0, COPIED + 1), -EINVAL);
    assert_int_equal(sides[0].t->attr.rdma_atomics, BTL_IB_RDMA_ATOMICS_DEVICE);
    end_first(state);
    fake.atomics = IBV_ATOMIC_GLOB;
    fake.mr_told = (1u << 31) - 1;
    begin_again();
    assert_int_equal(sides[0].t->attr.rdma_atomics, BTL_IB_RDMA_ATOMICS_GLOBAL);
    assert_int_equal(sides[0].t->attr.rdma_region_max, (1u << 31) - 1);
}

/* Operations up to the size that was asked for are copied, with as much memory for each connection
 * as they need; none at all, but for atomics. */
RDMA_TEST(copied)
{
    static const uint32_t sizes[] = {0, 100, 8192, 65536, 1000000};
    static const uint32_t most[] = {0, 100, 8192, 65536, 65536};
    static const uint32_t rings[] = {4096, 4096, 128 << 10, 1 << 20, 1 << 20};
    size_t rest = 0;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        end_first(state);
        params.rc.bounce_size = sizes[i];
        begin_again();
        assert_int_equal(sides[0].t->attr.rdma_copied, most[i]);
        const size_t before = fake.mr_bytes;
        join();
        rest = i == 0 ? fake.mr_bytes - before - 2 * rings[0] : rest;
        assert_int_equal(fake.mr_bytes - before, 2 * rings[i] + rest); /* of both ends */
        for (uint32_t size = most[i]; size > 0; size /= 3) {
            for (int n = 0; n < 40; n++) { /* more than there is memory for at once */
                fill(sides[0].memory + MEMORY / 2, size, n);
                while (
                    start(&ops[0], BTL_IB_RDMA_WRITE, sides[0].memory + MEMORY / 2, false, 0, size)
                    == -EAGAIN) {
                    settle();
                }
            }
            settle();
            assert_memory_equal(there, sides[0].memory + MEMORY / 2, size);
        }
        assert_int_equal(start(&ops[0], BTL_IB_RDMA_WRITE, sides[0].memory, false, 0, most[i] + 1),
                         -EINVAL);
        assert_int_equal(ops[0].error, 0);
        uint64_t old = 7;
        assert_int_equal(start(&ops[1], BTL_IB_RDMA_ADD, &old, false, 0, 8), 0);
        settle();
        assert_int_equal(ops[1].events, 1);
        assert_int_equal(ops[1].error, 0);
    }
}

/* The least memory there is for copies: 64 cache lines, also where only single bytes are copied.
 * What finds none waits, and nobody's bytes are another's. */
RDMA_TEST(copied_by_the_least_memory)
{
    enum { LINES = 64 };

    end_first(state);
    fake.inline_max = 0; /* else so short ones go in the request */
    params.inline_max = -1;
    params.rc.bounce_size = 1;
    begin_again();
    assert_int_equal(sides[0].t->attr.rdma_copied, 1);
    fake.hold_ops = true;
    assert_int_equal(start_write(&ops[0], 0, 8), -EAGAIN);
    settle();
    for (uint8_t round = 1; round <= 3; round++) {
        uint8_t byte;
        for (uint32_t i = 0; i < LINES; i++) {
            byte = (uint8_t) (round * LINES + i);
            assert_int_equal(start(&ops[i], BTL_IB_RDMA_WRITE, &byte, false, i, 1), 0);
        }
        assert_int_equal(start(&ops[LINES], BTL_IB_RDMA_WRITE, &byte, false, LINES, 1), -EAGAIN);
        assert_int_equal(fake_rdma_work(1), 1);
        settle();
        /* One line is free: one more goes, and no other. */
        byte = round;
        assert_int_equal(start(&ops[LINES], BTL_IB_RDMA_WRITE, &byte, false, LINES, 1), 0);
        assert_int_equal(start(&ops[0], BTL_IB_RDMA_WRITE, &byte, false, 0, 1), -EAGAIN);
        (void) fake_rdma_work(ALL);
        settle();
        for (uint32_t i = 0; i < LINES; i++) {
            assert_int_equal(there[i], (uint8_t) (round * LINES + i));
        }
        assert_int_equal(there[LINES], round);
    }
    for (uint32_t i = 0; i <= LINES; i++) {
        assert_int_equal(ops[i].events, 3);
        assert_int_equal(ops[i].error, 0);
    }
    assert_int_equal(start(&ops[0], BTL_IB_RDMA_WRITE, here, false, 0, 2), -EINVAL);
}

/* Begins again with these limits of bounce buffers. Returns the bytes of a connection's ring. */
static size_t bounce_ring(void **state, uint32_t size, uint32_t num, uint64_t total)
{
    size_t least;

    end_first(state);
    params.rc.bounce_size = 0;
    params.rc.bounce_num = 0;
    params.rc.bounce_total = 0;
    begin_again();
    least = fake.mr_bytes;
    join();
    least = fake.mr_bytes - least;
    end_first(state);
    params.rc.bounce_size = size;
    params.rc.bounce_num = num;
    params.rc.bounce_total = total;
    begin_again();
    const size_t before = fake.mr_bytes;
    join();
    return (fake.mr_bytes - before - least) / 2 + 4096; /* both ends have one */
}

/* As many buffers as are asked for, of the size that is. */
RDMA_TEST(number_of_bounce_buffers)
{
    assert_int_equal(bounce_ring(state, 8192, 0, 0), 16 * 8192);
    assert_int_equal(bounce_ring(state, 8192, 2, 0), 2 * 8192);
    assert_int_equal(bounce_ring(state, 8192, 64, 0), 64 * 8192);
}

/* Within a bound on all: what the ring that is left cannot hold is for processors, also when a
 * connection has come and gone. */
RDMA_TEST(bytes_of_bounce_buffers)
{
    assert_int_equal(bounce_ring(state, 8192, 16, 8192), 8192);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(start(&ops[0], BTL_IB_RDMA_READ, here, false, 0, 4097), -EOPNOTSUPP);
        assert_int_equal(start(&ops[0], BTL_IB_RDMA_WRITE, here, false, 0, 8192), -EOPNOTSUPP);
        fill(there, 4096, (uint32_t) i);
        assert_int_equal(start(&ops[0], BTL_IB_RDMA_READ, here, false, 0, 4096), 0);
        settle();
        assert_memory_equal(here, there, 4096);
        fake_rdma_break(rc_conn(sides[0].t, sides[0].to[1], BTL_IB_RC_RDMA_CHANNEL).qp->qp_num,
                        IBV_WC_RETRY_EXC_ERR);
        settle();
        for (int n = 0; n < 100 && start_write(&ops[1], 0, 8) == -EAGAIN; n++) {
            fake.now += 100 * 1000;
            settle();
        }
        settle();
        assert_int_equal(ops[1].events, i + 1);
        assert_int_equal(ops[1].error, 0);
    }
    assert_int_equal(ops[0].events, 3);
    assert_int_equal(ops[0].error, 0);
}

/* ---- atomics ---- */

RDMA_TEST(no_atomics_where_the_device_has_none)
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

/* Soft-iWARP's answers are wrong then; the caller has another way. */
RDMA_TEST(no_short_reads_of_two_pages_over_iwarp)
{
    for (int iwarp = 0; iwarp < 2; iwarp++) {
        end_first(state);
        fake.iwarp = iwarp == 1;
        begin_again();
        join();
        const uint64_t edge = 4096 - (uintptr_t) there % 4096;
        const int refused = iwarp == 1 ? -EOPNOTSUPP : 0;
        assert_int_equal(start_read(&ops[0], edge - 1, 2), refused);
        assert_int_equal(start_read(&ops[1], edge - 63, 64), refused);
        settle();
        assert_int_equal(start_read(&ops[2], edge - 64, 64), 0);
        assert_int_equal(start_read(&ops[3], edge, 64), 0);
        settle();
        assert_int_equal(start_read(&ops[4], edge - 1, 65), 0);
        assert_int_equal(start_write(&ops[5], edge - 1, 2), 0);
        settle();
    }
}

/* ---- how many at once ---- */

/* As many reads as the peer serves; writes are not bound by that. */
RDMA_TEST(reads_are_bounded)
{
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
RDMA_TEST(reads_are_bounded_by_the_peer)
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

RDMA_TEST(full_queue)
{
    int begun = 0;

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

RDMA_TEST(strict_writes_need_no_read)
{
    write_is_placed();
    assert_int_equal(fake.read, 0);
}

RDMA_TEST(writes_over_iwarp_are_confirmed)
{
    begin_on_iwarp(state);
    write_is_placed();
    assert_int_equal(fake.read, 1);
    assert_int_equal(fake.posts, 1); /* both by one doorbell, and one completion */
    assert_int_equal(fake.completions, 1);
}

/* It is the peer's memory that is relaxed, or not. */
RDMA_TEST(writes_to_relaxed_memory_are_confirmed)
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
RDMA_TEST(one_read_confirms_many)
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

/* ---- completions that were read when nobody polled ---- */

enum { ROW = 20 };

/* Write what is at each 64 bytes from number `first` on, and let the device do it. */
static void write_row(int first)
{
    for (int i = first; i < first + ROW; i++) {
        assert_int_equal(start_write(&ops[i], (uint64_t) i * 64, 64), 0);
    }
    assert_int_equal(fake_rdma_work(ALL), ROW);
}

/* How many are over: the first ones, each without an error and told of once. */
static int over(int begun)
{
    int count = 0;

    while (count < begun && ops[count].events > 0) {
        count++;
    }
    for (int i = 0; i < begun; i++) {
        assert_int_equal(ops[i].events, i < count);
        assert_int_equal(ops[i].error, 0);
    }
    return count;
}

/* What wait_fd() has read is handed up before all that completes later, however few events a poll
 * may return. */
RDMA_TEST(set_aside_goes_first)
{
    fake.hold_ops = true;
    for (look_at_most = 1; look_at_most <= 32; look_at_most++) {
        join();
        write_row(0);
        assert_int_equal(sides[0].t->ops->wait_fd(sides[0].t), -1); /* there is something */
        write_row(ROW);
        for (int before = 0; before < 2 * ROW;) {
            look(0);
            const int now = over(2 * ROW);
            assert_in_range(now - before, 1, look_at_most);
            before = now;
        }
        end_first(state);
        fake.hold_ops = true;
        begin_again();
    }
    look_at_most = 32;
}

/* The same of datagrams, which stand behind completions that make no event. */
RDMA_TEST(datagrams_set_aside_go_first)
{
    fake.hold_ops = true;
    join();
    connect_sides(1, 0, 0);
    look_at_most = 4;
    write_row(0);
    assert_int_equal(send_one(1, 0, SMALL, 0), 0);
    assert_int_equal(sides[0].t->ops->wait_fd(sides[0].t), -1); /* there is something */
    assert_int_equal(send_one(1, 0, SMALL, 0), 0);
    settle();
    look_at_most = 32;
    assert_int_equal(sides[0].received, 3);
    assert_int_equal(sides[0].disorder, 0);
    assert_int_equal(over(ROW), ROW);
}

UNIT_MAIN(NULL, NULL)
