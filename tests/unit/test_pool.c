/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <errno.h>
#include <string.h>

#include "btl_ib_pool.h"
#include "support.h"
#include "unit.h"

enum { REGIONS = 64, MANY = 1000 };

/* A transport of which only the registration works. */
typedef struct fake {
    btl_ib_transport_t transport;
    struct {
        uint8_t *base;
        size_t size;
    } region[REGIONS];
    uint32_t registered;
    uint32_t deregistered;
    int error; /* what mem_register() returns */
} fake_t;

static fake_t fake;
static test_memory_t memory;
static btl_ib_pool_t pool;
static btl_ib_segment_t *got[MANY];

static int fake_register(btl_ib_transport_t *t, void *base, size_t size, void **handle)
{
    assert_ptr_equal(t, &fake.transport);
    if (fake.error != 0) {
        return fake.error;
    }
    assert_true(fake.registered < REGIONS);
    assert_int_equal((uintptr_t) base % t->attr.registered_page, 0);
    assert_int_equal(size % t->attr.registered_page, 0);
    memset(base, 0, size); /* all of it is there */
    fake.region[fake.registered].base = base;
    fake.region[fake.registered].size = size;
    *handle = &fake.region[fake.registered++];
    return 0;
}

static void fake_deregister(btl_ib_transport_t *t, void *handle)
{
    uint8_t *base = fake.region[fake.deregistered].base;

    assert_ptr_equal(handle, &fake.region[fake.deregistered]);
    fake.deregistered++;
    *base = 1; /* the memory is there until now, as the sanitizer knows */
}

static const btl_ib_transport_ops_t ops = {
    .mem_register = fake_register,
    .mem_deregister = fake_deregister,
};

/* `page`: of registered memory, 0: nothing is registered. */
static void start(uint32_t max_datagram, uint32_t headroom, uint32_t page, uint32_t limit)
{
    memset(&fake, 0, sizeof(fake));
    fake.transport.ops = &ops;
    fake.transport.attr.max_datagram = max_datagram;
    fake.transport.attr.headroom = headroom;
    fake.transport.attr.registered_page = page;
    test_memory_init(&memory);
    btl_ib_pool_init(&pool, &memory.mem, &fake.transport, limit);
}

/* Of one kind: made, and not on the list of the free ones. */
static uint32_t in_use(int kind)
{
    uint32_t count = pool.kind[kind].made;

    for (const btl_ib_list_t *item = btl_ib_list_first(&pool.kind[kind].free); item != NULL;
         item = btl_ib_list_next(&pool.kind[kind].free, item)) {
        count--;
    }
    return count;
}

static void finish(void)
{
    btl_ib_pool_fini(&pool);
    assert_int_equal(memory.live, 0);
    assert_int_equal(fake.registered, fake.deregistered);
}

/* Take segments of `size` until there are no more. */
static uint32_t take_all(uint32_t size)
{
    uint32_t count = 0;

    while ((got[count] = btl_ib_pool_get(&pool, size)) != NULL) {
        count++;
        assert_true(count < MANY);
    }
    return count;
}

/* Several at once: as many as there are, and no new memory. */
TEST(test_take)
{
    btl_ib_segment_t *taken[MANY];
    uint8_t bytes[5 * MANY + 5];

    start(1472, 0, 0, 100);
    btl_ib_segment_t *like = btl_ib_pool_get(&pool, BTL_IB_SEGMENT_SMALL);
    like->tag = 3;
    like->iov[0] = (struct iovec){.iov_base = bytes, .iov_len = 5};
    assert_int_equal(btl_ib_pool_take(like, 1472, 5, taken, 10), 0);
    got[0] = btl_ib_pool_get(&pool, 1472);
    const uint32_t there = pool.kind[1].made - 1;
    assert_true(there >= 20 && there < 99);
    got[0]->seq = 7;
    got[0]->order = 9;
    btl_ib_pool_put(got[0]);
    assert_int_equal(btl_ib_pool_take(like, 1472, 5, taken, 10), 10);
    assert_ptr_equal(taken[0], got[0]); /* what was used last */
    assert_int_equal(taken[0]->seq, 0);
    assert_int_equal(in_use(1), 10);
    for (uint32_t i = 0; i < 10; i++) {
        assert_true(btl_ib_list_empty(&taken[i]->link));
        assert_false(taken[i]->done);
        assert_int_equal(taken[i]->kind, 1);
        assert_int_equal(taken[i]->tag, 3);
        assert_int_equal(taken[i]->iov[0].iov_len, 5);
        assert_ptr_equal(taken[i]->iov[0].iov_base,
                         bytes + 5 * (i + 1)); /* the bytes that follow */
        assert_true(taken[i]->continues);
        assert_ptr_equal(taken[i]->ahead, i < 2 ? taken[i + 8] : NULL);
    }
    assert_int_equal(btl_ib_pool_take(like, 1472, 5, taken + 10, MANY - 10), there + 1 - 10);
    assert_int_equal(pool.kind[1].made, there + 1);
    assert_int_equal(btl_ib_pool_take(like, 1472, 5, taken, 1), 0);
    got[1] = btl_ib_pool_get(&pool, 1472); /* which finds memory */
    assert_non_null(got[1]);
    btl_ib_pool_put(got[1]);
    for (uint32_t i = 0; i <= there; i++) {
        btl_ib_pool_put(taken[i]);
    }
    btl_ib_pool_put(like);
    finish();
}

/* Neighbours on a list go together, the others stay. */
TEST(test_put_run)
{
    btl_ib_list_t all;

    start(1472, 0, 0, 100);
    btl_ib_list_init(&all);
    for (uint32_t i = 0; i < 5; i++) {
        got[i] = btl_ib_pool_get(&pool, 1472);
        btl_ib_list_push_tail(&all, &got[i]->link);
    }
    assert_int_equal(in_use(1), 5);
    btl_ib_pool_put_run(got[1], got[3]);
    assert_int_equal(in_use(1), 2);
    assert_ptr_equal(btl_ib_list_pop(&all), &got[0]->link);
    assert_ptr_equal(btl_ib_list_pop(&all), &got[4]->link);
    assert_true(btl_ib_list_empty(&all));
    for (uint32_t i = 1; i < 4; i++) { /* in their order */
        assert_ptr_equal(btl_ib_pool_get(&pool, 1472), got[i]);
        assert_true(btl_ib_list_empty(&got[i]->link));
    }
    for (uint32_t i = 0; i < 5; i++) {
        btl_ib_pool_put(got[i]);
    }
    assert_int_equal(in_use(1), 0);
    finish();
}

/* Every byte of every buffer, and the headroom before it, is that buffer's alone. */
TEST(test_buffers)
{
    static const uint32_t datagrams[] = {80, 255, 256, 257, 1471, 1472, 8973, 65507};
    static const uint32_t headrooms[] = {0, 1, 8, 40};

    for (int i = 0; i < 32; i++) {
        uint32_t size = datagrams[i / 4];
        uint32_t headroom = headrooms[i % 4];
        start(size, headroom, 0, 70);
        uint32_t count = 0;
        for (; count < 140 && size > 256; count++) {
            got[count] = btl_ib_pool_get(&pool, count % 2 == 0 ? 256 : size);
        }
        count = count > 0 ? count : take_all(size);
        for (uint32_t k = 0; k < count; k++) {
            uint32_t room = got[k]->kind > 0 || size < 256 ? size : 256;
            assert_int_equal((uintptr_t) got[k]->wire % 8, 0);
            memset(got[k]->wire - headroom, (int) k, headroom + room);
            got[k]->order = k; /* the descriptors are elsewhere */
        }
        for (uint32_t k = 0; k < count; k++) {
            uint32_t room = got[k]->kind > 0 || size < 256 ? size : 256;
            for (uint32_t b = 0; b < headroom + room; b++) {
                assert_int_equal(*(got[k]->wire - headroom + b), (uint8_t) k);
            }
            assert_int_equal(got[k]->order, k);
        }
        finish();
    }
}

/* All that is sent from is in registered memory, which is whole pages (fake_register() looks),
 * whatever else is in a block is before it. */
static void registration(uint32_t page)
{
    start(1472, 40, page, 200);
    uint32_t count = take_all(1472);
    assert_int_equal(count, 200);
    assert_true(fake.registered > 1);
    got[count] = btl_ib_pool_get(&pool, 1);
    for (uint32_t i = 0; i <= count; i++) {
        bool found = false;
        for (uint32_t k = 0; k < fake.registered; k++) {
            if (got[i]->mem == &fake.region[k]) {
                found = true;
                assert_true(got[i]->wire - 40 >= fake.region[k].base);
                assert_true((uint8_t *) (got[i] + 1) <= fake.region[k].base
                            || (uint8_t *) got[i] >= fake.region[k].base + fake.region[k].size);
                assert_true(got[i]->wire + (got[i]->kind > 0 ? 1472 : 256)
                            <= fake.region[k].base + fake.region[k].size);
            }
        }
        assert_true(found);
    }
    finish();
}

TEST(test_registration)
{
    registration(4096);
    registration(65536);
    /* Nobody asks where it is not wanted. */
    start(1472, 0, 0, 200);
    got[0] = btl_ib_pool_get(&pool, 1472);
    assert_null(got[0]->mem);
    assert_int_equal(fake.registered, 0);
    finish();
}

/* A slab that cannot be had or registered is no slab; what there is goes on working. */
TEST(test_no_memory)
{
    for (int registration = 0; registration < 2; registration++) {
        start(1472, 0, 4096, 200);
        if (registration) {
            fake.error = -ENOMEM;
        } else {
            memory.allowed = 0;
        }
        assert_null(btl_ib_pool_get(&pool, 1472));
        assert_null(btl_ib_pool_get(&pool, 1));
        assert_int_equal(memory.live, 0);
        assert_int_equal(pool.kind[0].made + pool.kind[1].made, 0);
        assert_int_equal(in_use(0) + in_use(1), 0);
        fake.error = 0;
        memory.allowed = 1;
        uint32_t count = take_all(1472);
        assert_in_range(count, 1, 199);
        assert_int_equal(memory.live, 1);
        memory.allowed = UINT64_MAX;
        fake.error = -ENOSPC;
        assert_null(btl_ib_pool_get(&pool, 1472));
        assert_int_equal(memory.live, 1);
        btl_ib_pool_put(got[0]);
        assert_ptr_equal(btl_ib_pool_get(&pool, 1472), got[0]);
        fake.error = 0;
        assert_non_null(btl_ib_pool_get(&pool, 1472));
        finish();
    }
}

/* What the transport still reads is not used for something else. */
TEST(test_busy)
{
    start(1472, 0, 0, 2);
    assert_int_equal(take_all(1472), 2);
    got[0]->busy = true;
    btl_ib_pool_put(got[0]);
    assert_int_equal(in_use(1), 2);
    assert_null(btl_ib_pool_get(&pool, 1472));
    btl_ib_pool_sent(got[0]);
    assert_int_equal(in_use(1), 1);
    assert_ptr_equal(btl_ib_pool_get(&pool, 1472), got[0]);
    assert_false(got[0]->busy);
    assert_false(got[0]->done);
    /* The other way round: sent, and later put. */
    got[0]->busy = true;
    btl_ib_pool_sent(got[0]);
    assert_null(btl_ib_pool_get(&pool, 1472));
    btl_ib_pool_put(got[0]);
    assert_ptr_equal(btl_ib_pool_get(&pool, 1472), got[0]);
    finish();
}

/* Nothing of its former life is left in a segment. */
TEST(test_cleared)
{
    int something;

    start(1472, 0, 0, 1);
    btl_ib_segment_t *segment = btl_ib_pool_get(&pool, 1472);
    segment->out = (struct btl_ib_out *) (void *) &something;
    segment->copies = 5;
    segment->outside = 6;
    segment->payload = 7;
    segment->last = true;
    segment->flags = 8;
    segment->tag = 9;
    segment->lost = true;
    segment->probe = true;
    btl_ib_pool_put(segment);
    assert_ptr_equal(btl_ib_pool_get(&pool, 300), segment);
    assert_null(segment->out);
    assert_int_equal(segment->copies + segment->outside + segment->payload, 0);
    assert_int_equal(segment->flags + segment->tag, 0);
    assert_false(segment->last || segment->lost || segment->probe);
    assert_false(segment->busy || segment->done);
    finish();
}

/* What is estimated is what is taken: once some of each kind were sent, and at most. */
TEST(test_estimate)
{
    static const uint32_t datagrams[] = {200, 256, 1472, 8973, 65507};

    for (uint32_t i = 0; i < 10; i++) {
        const uint32_t largest = datagrams[i / 2], limit = i < 5 ? 70 : 128;
        const uint32_t sizes[] = {1, 257, 4000};
        btl_ib_memory_estimate_t estimate = {.count = 0};
        uint64_t taken = 0, most = 0;

        start(largest, 40, i % 2 == 0 ? 0 : 4096, limit);
        btl_ib_pool_memory_estimate(&fake.transport.attr, limit, true, &estimate);
        for (int k = 0; k < 3; k++) {
            if (sizes[k] <= largest) { /* the first slab of this kind, and all of them */
                memory.largest = 0;
                assert_non_null(btl_ib_pool_get(&pool, sizes[k]));
                taken += memory.largest;
                const uint64_t slabs = memory.live;
                const uint64_t bytes = memory.largest;
                (void) take_all(sizes[k]);
                most += bytes * (1 + memory.live - slabs);
            }
        }
        assert_int_equal(estimate.all[BTL_IB_ESTIMATE_PROCESS].held, taken);
        assert_int_equal(estimate.all[BTL_IB_ESTIMATE_PROCESS].most, most);
        estimate = (btl_ib_memory_estimate_t){.count = 0};
        btl_ib_pool_memory_estimate(&fake.transport.attr, limit, false, &estimate);
        assert_int_equal(estimate.all[BTL_IB_ESTIMATE_PROCESS].held, 0);
        assert_int_equal(estimate.all[BTL_IB_ESTIMATE_PROCESS].most, most);
        finish();
    }
}

UNIT_MAIN(NULL, NULL)
