/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <string.h>

#include "btl_ib_reasm.h"
#include "transport.h"
#include "support.h"
#include "unit.h"

enum { SIZE = 5003, PEERS = 4 };

static test_memory_t memory;
static btl_ib_reasm_pool_t pool;
static btl_ib_reasm_peer_t peer[PEERS];
static btl_ib_reasm_t *whole;

static int setup_sizes(uint32_t size, uint32_t extra_max)
{
    test_memory_init(&memory);
    btl_ib_reasm_pool_init(&pool, &memory.mem, size, extra_max, 0);
    memset(peer, 0xee, sizeof(peer)); /* it may be any memory */
    for (int i = 0; i < PEERS; i++) {
        btl_ib_reasm_peer_init(&peer[i]);
    }
    whole = NULL;
    return 0;
}

static int setup_extra(uint32_t extra_max)
{
    return setup_sizes(SIZE, extra_max);
}

static int setup(void **state)
{
    return setup_extra(3);
}

static int teardown(void **state)
{
    for (int i = 0; i < PEERS; i++) {
        btl_ib_reasm_drop(&pool, &peer[i]);
    }
    btl_ib_reasm_pool_fini(&pool);
    return memory.live == 0 && pool.extra == 0 ? 0 : -1;
}

/* Buffers that are kept. */
static uint32_t idle_count(void)
{
    uint32_t count = 0;

    for (int kind = 0; kind < BTL_IB_REASM_KINDS; kind++) {
        BTL_IB_LIST_FOREACH (const btl_ib_reasm_t, reasm, &pool.idle[kind], link) {
            count++;
        }
    }
    return count;
}

/* Byte `at` of a fragment: no two fragments, and no two chunks of one, are alike. */
static uint8_t byte_of(uint32_t fragment, uint32_t at)
{
    return (uint8_t) (fragment * 31 + at * 7 + at / 256 * 13 + 1);
}

static uint32_t chunks_of(uint32_t total, uint32_t unit)
{
    return (total + unit - 1) / unit;
}

static btl_ib_reasm_result_t add(int from, uint32_t fragment, uint32_t total, uint32_t unit,
                                 uint32_t index)
{
    static uint8_t payload[UINT16_MAX];
    uint32_t offset = index * unit;
    uint32_t size = total - offset < unit ? total - offset : unit;
    btl_ib_view_t view = {
        .type = BTL_IB_TYPE_CHUNK,
        .chunk = {fragment, total, offset, index, unit},
        .payload = payload,
        .size = size,
    };

    for (uint32_t i = 0; i < size; i++) {
        payload[i] = byte_of(fragment, offset + i);
    }
    whole = NULL;
    btl_ib_reasm_result_t result = btl_ib_reasm_add(&pool, &peer[from], &view);
    whole = result == BTL_IB_REASM_COMPLETE ? btl_ib_reasm_next(&peer[from]) : NULL;
    return result;
}

/* `whole` is that fragment, byte by byte; give it back. */
static void check_whole(uint32_t fragment, uint32_t total)
{
    assert_non_null(whole);
    assert_int_equal(whole->fragment, fragment);
    assert_int_equal(whole->total, total);
    assert_int_equal((uintptr_t) whole->data % 8, 0);
    assert_true(btl_ib_list_empty(&whole->link));
    for (uint32_t i = 0; i < total; i++) {
        assert_int_equal(whole->data[i], byte_of(fragment, i));
    }
    /* The owner may write into it. */
    memset(whole->data, 0xee, total);
    btl_ib_reasm_put(&pool, whole);
}

/* The next one that waited for its turn is that fragment. */
static void check_next(int p, uint32_t fragment, uint32_t total)
{
    whole = btl_ib_reasm_next(&peer[p]);
    check_whole(fragment, total);
}

static void shuffle(uint32_t *order, uint32_t count, test_random_t *r)
{
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = test_random_below(r, i);
        uint32_t swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
}

/* Fragments of a peer are numbered from `first` on. */
static void number_from(int p, uint32_t first)
{
    btl_ib_rx_window_init(&peer[p].finished, first);
}

/* Every edge of chunks, words of the bitmap and bytes of the buffer; numbers wrap underway. */
TEST_WITH(test_any_order, setup, teardown)
{
    static const uint32_t totals[] = {1, 3, 4, 5, 63, 64, 255, 256, 257, 260, 4999, 5002, 5003};
    static const uint32_t units[] = {4, 5, 7, 64, 79, 1000, 5002, 5003, 65535};
    const uint32_t ways = 3; /* up, down, anyhow */
    test_random_t r = TEST_RANDOM_SEED;
    uint32_t order[SIZE];
    uint32_t fragment = 0xffffff80;

    number_from(0, fragment);
    for (size_t n = 0; n < sizeof(totals) / sizeof(totals[0]) * sizeof(units) / sizeof(units[0]);
         n++) {
        uint32_t total = totals[n % (sizeof(totals) / sizeof(totals[0]))];
        uint32_t unit = units[n / (sizeof(totals) / sizeof(totals[0]))];
        uint32_t count = chunks_of(total, unit);
        for (uint32_t way = 0; way < ways; way++, fragment++) {
            shuffle(order, count, &r);
            for (uint32_t i = 0; i < count; i++) {
                uint32_t index = way == 0 ? i : way == 1 ? count - 1 - i : order[i];
                assert_int_equal(add(0, fragment, total, unit, index),
                                 i + 1 < count ? BTL_IB_REASM_STORED : BTL_IB_REASM_COMPLETE);
                assert_int_equal(whole != NULL, i + 1 == count);
            }
            check_whole(fragment, total);
            assert_true(btl_ib_list_empty(&peer[0].fragments));
        }
    }
    assert_int_equal(memory.live, 1); /* one buffer did it all */
}

/* A buffer that was used before has nothing of any number of chunks, also where the last one is the
 * first of a word of the bitmap. */
TEST_WITH(test_used_again, setup, teardown)
{
    for (uint32_t fragment = 0; fragment < 400; fragment++) {
        const bool full = fragment % 2 == 0;
        const uint32_t total = full ? SIZE : 4 * (fragment / 2) + 1 + fragment % 3;
        for (uint32_t i = 0; i < chunks_of(total, 4); i++) {
            assert_int_not_equal(add(0, fragment, total, 4, i), BTL_IB_REASM_WRONG);
        }
        check_whole(fragment, total);
    }
    assert_int_equal(memory.calls, 1); /* one buffer did it all */
}

TEST_WITH(test_interleaved, setup, teardown)
{
    for (uint32_t i = 0; i < 49; i++) {
        assert_int_equal(add(0, 0, 500, 10, i), BTL_IB_REASM_STORED);
        assert_int_equal(add(0, 1, 400, 8, 49 - i), BTL_IB_REASM_STORED);
        assert_int_equal(add(1, 0, 5000, 100, i), BTL_IB_REASM_STORED); /* of another peer */
    }
    assert_int_equal(add(0, 1, 400, 8, 0), BTL_IB_REASM_STORED); /* not its turn */
    assert_int_equal(add(1, 0, 5000, 100, 49), BTL_IB_REASM_COMPLETE);
    check_whole(0, 5000);
    assert_int_equal(add(0, 0, 500, 10, 49), BTL_IB_REASM_COMPLETE);
    check_whole(0, 500);
    check_next(0, 1, 400);
    assert_null(btl_ib_reasm_next(&peer[0]));
}

/* What was complete when a life ended comes before anything of the next one, in order, over
 * gaps. protocol: R58 */
TEST_WITH(test_end_of_life, setup, teardown)
{
    number_from(0, 0xffffffff);
    assert_int_equal(add(0, 3, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(add(0, 1, 100, 100, 0), BTL_IB_REASM_STORED); /* waits for two others */
    peer[0].busy = true;
    assert_int_equal(add(0, 0xffffffff, 100, 100, 0), BTL_IB_REASM_COMPLETE);
    btl_ib_reasm_end(&pool, &peer[0]);
    assert_true(btl_ib_list_empty(&peer[0].fragments));
    assert_null(btl_ib_reasm_next(&peer[0])); /* the one before has not come back */
    assert_int_equal(pool.extra, 1);
    /* The own buffer is not free yet, so the new life's first takes another. */
    assert_int_equal(add(0, 0, 300, 300, 0), BTL_IB_REASM_COMPLETE);
    assert_int_equal(pool.extra, 2);
    peer[0].busy = false;
    check_next(0, 0xffffffff, 100);
    check_next(0, 1, 100);
    check_next(0, 0, 300);
    assert_null(btl_ib_reasm_next(&peer[0]));
    assert_int_equal(add(0, 1, 100, 100, 0), BTL_IB_REASM_COMPLETE);
    check_whole(1, 100);
}

TEST_WITH(test_wrong, setup, teardown)
{
    number_from(0, 0xffffffff);
    assert_int_equal(add(0, 0xffffffff, 300, 100, 1), BTL_IB_REASM_STORED);
    assert_int_equal(add(0, 0xffffffff, 300, 100, 1), BTL_IB_REASM_WRONG); /* twice */
    assert_int_equal(add(0, 0xffffffff, 299, 100, 2), BTL_IB_REASM_WRONG); /* another total */
    assert_int_equal(add(0, 0xffffffff, 301, 100, 3), BTL_IB_REASM_WRONG);
    assert_int_equal(add(0, 0xffffffff, 300, 99, 2), BTL_IB_REASM_WRONG); /* another unit */
    assert_int_equal(add(0, 0xffffffff, 300, 4, 74), BTL_IB_REASM_WRONG);
    assert_int_equal(add(0, 0xffffffff, SIZE + 1, 100, 2), BTL_IB_REASM_WRONG);
    assert_int_equal(add(0, 0, SIZE + 1, 100, 0), BTL_IB_REASM_WRONG); /* longer than any */
    assert_int_equal(add(1, 0, UINT32_MAX, 65535, 0), BTL_IB_REASM_WRONG);
    assert_int_equal(add(0, 0, 300, 3, 0), BTL_IB_REASM_WRONG); /* no queue cuts that small */
    assert_int_equal(add(1, 0, 300, 1, 299), BTL_IB_REASM_WRONG);
    assert_int_equal(add(0, 0xfffffffe, 300, 100, 0), BTL_IB_REASM_WRONG); /* was finished */
    assert_int_equal(add(0, 0x80000000, 300, 100, 0), BTL_IB_REASM_WRONG); /* no such number */
    assert_int_equal(add(0, BTL_IB_WINDOW_LIMIT - 1, 300, 100, 0), BTL_IB_REASM_WRONG);
    assert_true(btl_ib_list_empty(&peer[1].fragments));
    assert_int_equal(pool.extra, 0);
    assert_int_equal(memory.live, 1);
    /* None of that left a trace. */
    assert_int_equal(add(0, 0xffffffff, 300, 100, 2), BTL_IB_REASM_STORED);
    assert_int_equal(add(0, 0xffffffff, 300, 100, 2), BTL_IB_REASM_WRONG);
    assert_int_equal(add(0, 0xffffffff, 300, 100, 0), BTL_IB_REASM_COMPLETE);
    check_whole(0xffffffff, 300);
}

/* No chunk of a fragment that is finished opens it again, however late it comes. */
TEST_WITH(test_finished, setup, teardown)
{
    number_from(0, 0xfffffffe);
    assert_int_equal(add(0, 0, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(add(0, 0, 200, 100, 1), BTL_IB_REASM_STORED); /* waits */
    assert_int_equal(add(0, 0, 200, 100, 1), BTL_IB_REASM_WRONG);
    assert_int_equal(add(0, 0xfffffffe, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(add(0, 0xffffffff, 50, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(add(0, 0xfffffffe, 200, 100, 1), BTL_IB_REASM_COMPLETE);
    check_whole(0xfffffffe, 200);
    check_next(0, 0xffffffff, 50);
    check_next(0, 0, 200);
    for (uint32_t fragment = 0xfffffff0; fragment != 1; fragment++) {
        assert_int_equal(add(0, fragment, 200, 100, 0), BTL_IB_REASM_WRONG);
    }
    assert_int_equal(add(0, 1, 200, 100, 0), BTL_IB_REASM_STORED);
}

/* One buffer for each peer and three more, of which no peer gets more than two. */
TEST_WITH(test_bounded_for_one_peer, setup, teardown)
{
    pool.peer_max = 2;
    assert_int_equal(add(0, 0, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(add(0, 1, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(add(0, 2, 200, 100, 1), BTL_IB_REASM_STORED);
    assert_false(btl_ib_reasm_room(&pool, &peer[0], 3));
    assert_int_equal(add(0, 3, 200, 100, 0), BTL_IB_REASM_RNR);
    assert_true(btl_ib_reasm_room(&pool, &peer[1], 3));
    assert_int_equal(add(1, 3, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(pool.extra, 3);
    /* What is complete and waits for its turn counts, as does what outlived its incarnation. */
    assert_int_equal(add(0, 2, 200, 100, 0), BTL_IB_REASM_STORED);
    btl_ib_reasm_end(&pool, &peer[1]);
    assert_int_equal(add(0, 3, 200, 100, 0), BTL_IB_REASM_RNR);
    btl_ib_reasm_end(&pool, &peer[0]);
    assert_int_equal(pool.extra, 1);
    assert_int_equal(add(0, 1, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(add(0, 2, 200, 100, 0), BTL_IB_REASM_RNR);
}

/* One buffer for each peer and three more for all. */
TEST_WITH(test_bounded, setup, teardown)
{
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(add(i, 0, 200, 100, 0), BTL_IB_REASM_STORED);
    }
    assert_int_equal(pool.extra, 0);
    assert_int_equal(add(0, 1, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(add(0, 2, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(add(1, 1, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(pool.extra, 3);
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(add(i, 7, 200, 100, 0), BTL_IB_REASM_RNR);
        assert_null(whole);
    }
    assert_int_equal(pool.extra, 3);
    assert_int_equal(memory.live, PEERS + 3);
    /* A fragment that began can finish, and then makes room. */
    assert_int_equal(add(0, 2, 200, 100, 1), BTL_IB_REASM_STORED);
    assert_int_equal(add(2, 7, 200, 100, 1), BTL_IB_REASM_RNR);
    assert_int_equal(add(0, 0, 200, 100, 1), BTL_IB_REASM_COMPLETE);
    check_whole(0, 200);
    assert_int_equal(add(0, 1, 200, 100, 1), BTL_IB_REASM_COMPLETE);
    btl_ib_reasm_t *finished = whole;
    assert_int_equal(add(2, 7, 200, 100, 1), BTL_IB_REASM_RNR); /* it is still in use */
    whole = finished;
    check_whole(1, 200);
    check_next(0, 2, 200);
    assert_int_equal(add(2, 7, 200, 100, 1), BTL_IB_REASM_STORED);
    assert_int_equal(add(2, 8, 200, 100, 1), BTL_IB_REASM_STORED);
    assert_int_equal(add(2, 9, 200, 100, 1), BTL_IB_REASM_RNR);
    for (int i = 1; i < PEERS; i++) {
        assert_int_equal(add(i, 0, 200, 100, 1), BTL_IB_REASM_COMPLETE);
        check_whole(0, 200);
    }
    assert_int_equal(memory.live, PEERS + 3); /* nothing was allocated since */
}

/* A peer's own buffer is kept for its oldest fragment, whatever came first. protocol: R60 */
TEST_WITH(test_oldest_first, setup, teardown)
{
    number_from(0, 0xffffffff);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(add(0, i, 200, 100, 0), BTL_IB_REASM_STORED);
        assert_int_equal(pool.extra, i + 1);
    }
    assert_int_equal(add(0, 3, 200, 100, 0), BTL_IB_REASM_RNR);
    assert_int_equal(add(1, 1, 200, 100, 0), BTL_IB_REASM_RNR);
    assert_int_equal(add(1, 0, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(add(0, 0xffffffff, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(pool.extra, 3);
    assert_int_equal(add(0, 0xffffffff, 200, 100, 1), BTL_IB_REASM_COMPLETE);
    check_whole(0xffffffff, 200);
    /* 0 to 2 have one of the others, so the own one waits for 3, which is not the oldest yet. */
    assert_int_equal(add(0, 3, 200, 100, 0), BTL_IB_REASM_RNR);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(add(0, i, 200, 100, 1), BTL_IB_REASM_COMPLETE);
        check_whole(i, 200);
    }
    assert_int_equal(add(0, 3, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(pool.extra, 0);
}

/* protocol: R59 */
TEST_WITH(test_no_memory, setup, teardown)
{
    memory.allowed = 0;
    assert_int_equal(add(0, 0, 200, 100, 0), BTL_IB_REASM_RNR);
    assert_true(btl_ib_list_empty(&peer[0].fragments));
    memory.allowed = 1;
    assert_int_equal(add(0, 0, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(add(0, 1, 200, 100, 0), BTL_IB_REASM_RNR);
    assert_int_equal(add(1, 0, 200, 100, 0), BTL_IB_REASM_RNR);
    assert_int_equal(pool.extra, 0);
    assert_int_equal(add(0, 0, 200, 100, 1), BTL_IB_REASM_COMPLETE);
    check_whole(0, 200);
    /* What came back is used again, for another peer and another kind, without memory. */
    assert_int_equal(idle_count(), 1);
    assert_int_equal(add(1, 64, 200, 100, 0), BTL_IB_REASM_RNR); /* so far ahead takes some */
    assert_int_equal(idle_count(), 1);
    assert_int_equal(add(1, 0, SIZE, 4, 1250), BTL_IB_REASM_STORED);
    assert_int_equal(idle_count(), 0);
}

/* Many at once do not stay allocated for ever after. */
TEST_WITH(test_idle_bounded, setup, teardown)
{
    btl_ib_reasm_pool_fini(&pool);
    setup_extra(99);
    for (uint32_t i = 0; i < 60; i++) {
        assert_int_equal(add(0, i, 200, 100, 0), BTL_IB_REASM_STORED);
    }
    assert_int_equal(memory.live, 60);
    for (uint32_t i = 59; i > 0; i--) {
        assert_int_equal(add(0, i, 200, 100, 1), BTL_IB_REASM_STORED);
    }
    assert_int_equal(add(0, 0, 200, 100, 1), BTL_IB_REASM_COMPLETE);
    check_whole(0, 200);
    for (uint32_t i = 1; i < 60; i++) {
        check_next(0, i, 200);
    }
    assert_int_equal(pool.extra, 0);
    assert_in_range(memory.live, 1, 32);
    assert_int_equal(memory.live, idle_count());
    uint64_t calls = memory.calls;
    for (uint32_t i = 60; i < 160; i++) {
        assert_int_equal(add(0, i, 200, 100, 0), BTL_IB_REASM_STORED);
        assert_int_equal(add(0, i, 200, 100, 1), BTL_IB_REASM_COMPLETE);
        check_whole(i, 200);
    }
    assert_int_equal(memory.calls, calls);
}

/* Where nothing is shared there is room for the oldest only, and for what was begun. */
TEST_WITH(test_room, setup, teardown)
{
    pool.extra_max = 0;
    assert_true(btl_ib_reasm_room(&pool, &peer[0], 0));
    assert_false(btl_ib_reasm_room(&pool, &peer[0], 1));
    assert_int_equal(add(0, 0, 200, 100, 0), BTL_IB_REASM_STORED);
    assert_true(btl_ib_reasm_room(&pool, &peer[0], 0));
    assert_false(btl_ib_reasm_room(&pool, &peer[0], 1));
    assert_int_equal(add(0, 0, 200, 100, 1), BTL_IB_REASM_COMPLETE);
    check_whole(0, 200);
    assert_true(btl_ib_reasm_room(&pool, &peer[0], 1));
}

/* The numbers of what is finished take memory if one is far ahead: it ends with the incarnation. */
TEST_WITH(test_end_far_ahead, setup, teardown)
{
    assert_int_equal(add(0, 1000, 100, 100, 0), BTL_IB_REASM_STORED);
    assert_int_equal(memory.live, 2);
    btl_ib_reasm_end(&pool, &peer[0]);
    assert_int_equal(memory.live, 1);
    check_next(0, 1000, 100);
}

/* Buffers are of a few sizes, each no larger than it must be, and the largest holds any message. */
TEST_WITH(test_sizes, setup, teardown)
{
    enum { LONGEST = 600000 };
    static const uint32_t totals[] = {8192, 8193, 16384, 70000, 131072, 131073, LONGEST};

    for (uint32_t size = 4000; size < 4016; size++) { /* data, and a bit for each 4 bytes of it */
        assert_in_range(btl_ib_reasm_bytes(size), sizeof(btl_ib_reasm_t) + size + size / 32,
                        sizeof(btl_ib_reasm_t) + size + size / 32 + 16);
    }
    assert_in_range(btl_ib_reasm_bytes(LONGEST), LONGEST + LONGEST / 32,
                    sizeof(btl_ib_reasm_t) + LONGEST + LONGEST / 32 + 16);
    btl_ib_reasm_pool_fini(&pool);
    setup_sizes(LONGEST, 99);
    assert_int_equal(btl_ib_reasm_bytes_least(LONGEST), btl_ib_reasm_bytes(8192));
    assert_int_equal(btl_ib_reasm_bytes_least(SIZE), btl_ib_reasm_bytes(SIZE));
    for (uint32_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        uint32_t size = 8192;
        while (size < totals[i]) {
            size *= 2;
        }
        memory.largest = 0;
        assert_int_equal(add(0, i, totals[i], 65535, 0),
                         totals[i] > 65535 ? BTL_IB_REASM_STORED : BTL_IB_REASM_COMPLETE);
        assert_int_equal(memory.largest, btl_ib_reasm_bytes(size > 131072 ? LONGEST : size));
        if (whole != NULL) {
            check_whole(i, totals[i]);
            btl_ib_reasm_pool_fini(&pool); /* and the next one asks for memory */
        }
    }
}

/* ---- against a model that cannot be wrong ---- */

enum { OPEN_MAX = 3 };

typedef struct model {
    bool open[PEERS][OPEN_MAX];
    bool extra[PEERS][OPEN_MAX];
    uint32_t fragment[PEERS][OPEN_MAX];
    uint32_t total[PEERS][OPEN_MAX];
    uint32_t unit[PEERS][OPEN_MAX];
    bool got[PEERS][OPEN_MAX][SIZE];
    uint32_t missing[PEERS][OPEN_MAX];
    bool finished[PEERS][50000];
    uint32_t oldest[PEERS];
    uint32_t extras;
    uint32_t refused;
    uint32_t completed;
} model_t;

/* All chunks of one that is open are there: it is handed up if it is its turn, and what waited for
 * it. */
static void model_finish(model_t *m, int p, int f, btl_ib_reasm_result_t result)
{
    bool turn = m->fragment[p][f] == m->oldest[p];

    assert_int_equal(result, turn ? BTL_IB_REASM_COMPLETE : BTL_IB_REASM_STORED);
    while (turn) {
        check_whole(m->fragment[p][f], m->total[p][f]);
        m->open[p][f] = false;
        m->extras -= m->extra[p][f];
        m->finished[p][m->fragment[p][f]] = true;
        m->oldest[p]++;
        m->completed++;
        whole = btl_ib_reasm_next(&peer[p]);
        turn = false;
        for (int i = 0; i < OPEN_MAX; i++) {
            if (m->open[p][i] && m->missing[p][i] == 0 && m->fragment[p][i] == m->oldest[p]) {
                f = i;
                turn = true;
            }
        }
        assert_int_equal(whole != NULL, turn);
    }
}

static void model_begin(model_t *m, int p, int f, test_random_t *r)
{
    uint32_t number = m->oldest[p] + test_random_below(r, 4);
    bool extra = number != m->oldest[p];

    for (int i = 0; i < OPEN_MAX; i++) {
        if (m->open[p][i] && m->fragment[p][i] == number) {
            return;
        }
        extra = extra || (m->open[p][i] && !m->extra[p][i]);
    }
    uint32_t total = 1 + test_random_below(r, SIZE);
    uint32_t unit = 4 + test_random_below(r, total / (1 + test_random_below(r, 20)) + 1);
    uint32_t index = test_random_below(r, chunks_of(total, unit));
    btl_ib_reasm_result_t result = add(p, number, total, unit, index);

    if (m->finished[p][number]) {
        assert_int_equal(result, BTL_IB_REASM_WRONG);
        return;
    }
    if (extra && m->extras == pool.extra_max) {
        assert_int_equal(result, BTL_IB_REASM_RNR);
        m->refused++;
        return;
    }
    m->open[p][f] = true;
    m->extra[p][f] = extra;
    m->extras += extra;
    m->fragment[p][f] = number;
    m->total[p][f] = total;
    m->unit[p][f] = unit;
    m->missing[p][f] = chunks_of(total, unit) - 1;
    memset(m->got[p][f], 0, sizeof(m->got[p][f]));
    m->got[p][f][index] = true;
    if (m->missing[p][f] == 0) {
        model_finish(m, p, f, result);
    } else {
        assert_int_equal(result, BTL_IB_REASM_STORED);
    }
}

static void model_continue(model_t *m, int p, int f, test_random_t *r)
{
    uint32_t total = m->total[p][f];
    uint32_t unit = m->unit[p][f];
    uint32_t index = test_random_below(r, chunks_of(total, unit));
    btl_ib_reasm_result_t result = add(p, m->fragment[p][f], total, unit, index);

    if (m->got[p][f][index]) {
        assert_int_equal(result, BTL_IB_REASM_WRONG);
        return;
    }
    m->got[p][f][index] = true;
    m->missing[p][f]--;
    if (m->missing[p][f] > 0) {
        assert_int_equal(result, BTL_IB_REASM_STORED);
        return;
    }
    model_finish(m, p, f, result);
}

/* Of a window of short messages whose first one has a gap: no buffer is as large as that of a long
 * one, and the next such window finds them all. */
TEST_WITH(test_short_ones_wait, setup, teardown)
{
    enum { LONGEST = 262144, SHORT = 4096, UNIT = 2048, WINDOW = 64, ALL = 12 * WINDOW };
    uint64_t calls = 0;

    btl_ib_reasm_pool_fini(&pool);
    setup_sizes(LONGEST, WINDOW);
    for (uint32_t first = 0; first < ALL; first += WINDOW) {
        for (uint32_t i = first; i < first + WINDOW; i++) {
            assert_int_equal(add(0, i, SHORT, UNIT, 0), BTL_IB_REASM_STORED);
        }
        for (uint32_t i = first + 1; i < first + WINDOW; i++) {
            assert_int_equal(add(0, i, SHORT, UNIT, 1), BTL_IB_REASM_STORED);
        }
        assert_int_equal(add(0, first, SHORT, UNIT, 1), BTL_IB_REASM_COMPLETE);
        check_whole(first, SHORT);
        for (uint32_t i = first + 1; i < first + WINDOW; i++) {
            check_next(0, i, SHORT);
        }
        assert_int_equal(idle_count(), WINDOW);
        assert_true(first == 0 || memory.calls == calls);
        calls = memory.calls;
    }
    assert_in_range(memory.largest, SHORT, 4 * SHORT);
    assert_int_equal(add(0, ALL, LONGEST, LONGEST / 8, 0), BTL_IB_REASM_STORED);
    assert_in_range(memory.largest, LONGEST, 2 * LONGEST);
}

TEST_WITH(test_model, setup, teardown)
{
    static model_t m;
    test_random_t r = TEST_RANDOM_SEED;

    memset(&m, 0, sizeof(m));
    for (int step = 0; step < 100000; step++) {
        int p = (int) test_random_below(&r, PEERS);
        int f = (int) test_random_below(&r, OPEN_MAX);
        if (test_random_below(&r, 3000) == 0) {
            btl_ib_reasm_drop(&pool, &peer[p]);
            for (int i = 0; i < OPEN_MAX; i++) {
                m.extras -= m.open[p][i] && m.extra[p][i];
                m.open[p][i] = false;
            }
            memset(m.finished[p], 0, sizeof(m.finished[p]));
            m.oldest[p] = 0;
        } else if (!m.open[p][f]) {
            model_begin(&m, p, f, &r);
        } else {
            model_continue(&m, p, f, &r);
        }
        assert_int_equal(pool.extra, m.extras);
    }
    assert_true(m.completed > 200 && m.refused > 1000); /* the test tests something */
}

/* Chunks of one burst, in three: none of one that has a chunk twice is taken. */
TEST_WITH(test_burst, setup, teardown)
{
    enum { UNIT = 64, CHUNKS = 70 };
    uint8_t bytes[CHUNKS][8 + UNIT];
    btl_ib_event_t events[CHUNKS];

    for (uint32_t i = 0; i < CHUNKS; i++) {
        for (uint32_t k = 0; k < UNIT; k++) {
            bytes[i][8 + k] = byte_of(0, i * UNIT + k);
        }
        events[i].data = bytes[i];
    }
    const struct {
        uint32_t first, count;
        btl_ib_reasm_result_t result;
    } parts[] = {{60, 6, BTL_IB_REASM_STORED},
                 {58, 3, BTL_IB_REASM_WRONG},
                 {66, 4, BTL_IB_REASM_STORED},
                 {0, 60, BTL_IB_REASM_COMPLETE}};
    for (int i = 0; i < 4; i++) {
        const uint32_t first = parts[i].first;
        const btl_ib_view_t view = {
            .type = BTL_IB_TYPE_CHUNK,
            .chunk = {0, CHUNKS * UNIT, first * UNIT, first, UNIT},
            .payload = bytes[first] + 8,
            .size = UNIT,
            .more = {.events = &events[first + 1], .count = parts[i].count - 1, .head = 8},
        };
        assert_int_equal(btl_ib_reasm_add(&pool, &peer[0], &view), parts[i].result);
    }
    check_next(0, 0, CHUNKS * UNIT);
}

UNIT_MAIN(NULL, NULL)
