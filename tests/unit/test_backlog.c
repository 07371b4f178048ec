/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <string.h>

#include "btl_ib_backlog.h"
#include "support.h"
#include "unit.h"

enum { ROOM = 4000, EMPTY = sizeof(btl_ib_backlog_entry_t) };

static test_memory_t memory;
static btl_ib_backlog_t store;

/* Connections are names only to the store. */
static int places[2];
#define CONN(i) ((struct btl_ib_conn *) (void *) &places[i])

static int setup(void **state)
{
    test_memory_init(&memory);
    btl_ib_backlog_init(&store, &memory.mem, ROOM);
    return 0;
}

static int teardown(void **state)
{
    btl_ib_backlog_fini(&store);
    return memory.live == 0 && store.bytes == 0 ? 0 : -1;
}

static bool keep(uint8_t tag, uint32_t size, int conn)
{
    btl_ib_backlog_entry_t *stored = btl_ib_backlog_get(&store, CONN(conn), tag, size);

    if (stored == NULL) {
        return false;
    }
    assert_int_equal((uintptr_t) stored->data % 8, 0);
    assert_int_equal(stored->size, size);
    memset(stored->data, tag, size);
    btl_ib_backlog_add(&store, stored);
    return true;
}

/* The next message is the one with this tag, whole. */
static void expect(uint8_t tag, uint32_t size)
{
    btl_ib_backlog_entry_t *stored = btl_ib_backlog_pop(&store);

    assert_non_null(stored);
    assert_int_equal(stored->tag, tag);
    assert_int_equal(stored->size, size);
    for (uint32_t i = 0; i < size; i++) {
        assert_int_equal(stored->data[i], tag);
    }
    btl_ib_backlog_put(&store, stored);
}

TEST_WITH(test_order, setup, teardown)
{
    assert_null(btl_ib_backlog_pop(&store));
    for (uint8_t i = 0; i < 10; i++) {
        assert_true(keep(i, i * 10u, i % 2));
    }
    for (uint8_t i = 0; i < 5; i++) {
        expect(i, i * 10u);
    }
    assert_true(keep(10, 0, 0));
    for (uint8_t i = 5; i < 10; i++) {
        expect(i, i * 10u);
    }
    expect(10, 0);
    assert_null(btl_ib_backlog_pop(&store));
    assert_int_equal(memory.live, 0);
}

/* protocol: R40 */
TEST_WITH(test_bounded, setup, teardown)
{
    uint32_t rest = ROOM - 2 * EMPTY;

    assert_false(keep(0, ROOM, 0));
    assert_false(keep(0, UINT32_MAX - EMPTY, 0));
    assert_true(keep(1, rest, 0));
    assert_false(keep(2, 1, 0));
    assert_true(keep(3, 0, 0));
    assert_false(keep(4, 0, 0)); /* an empty one takes memory, too */
    assert_int_equal(store.bytes, ROOM);
    expect(1, rest);
    assert_true(keep(5, rest, 0));
    expect(3, 0);
    expect(5, rest);
    assert_int_equal(store.bytes, 0);
}

TEST_WITH(test_no_room_at_all, setup, teardown)
{
    btl_ib_backlog_init(&store, &memory.mem, 0);
    assert_false(keep(1, 0, 0));
    assert_null(btl_ib_backlog_get(&store, CONN(0), 1, 0));
}

TEST_WITH(test_no_memory, setup, teardown)
{
    assert_true(keep(1, 5, 0));
    memory.allowed = 0;
    assert_false(keep(2, 5, 0));
    memory.allowed = UINT64_MAX;
    assert_true(keep(3, 5, 0));
    expect(1, 5);
    expect(3, 5);
}

TEST_WITH(test_drop, setup, teardown)
{
    for (uint8_t i = 0; i < 10; i++) {
        assert_true(keep(i, i, i % 3 == 0));
    }
    btl_ib_backlog_drop(&store, CONN(1));
    for (uint8_t i = 0; i < 10; i++) {
        if (i % 3 != 0) {
            expect(i, i);
        }
    }
    assert_int_equal(store.bytes, 0);
    btl_ib_backlog_drop(&store, CONN(0));
    assert_int_equal(memory.live, 0);
}

/* A place that was not needed after all. */
TEST_WITH(test_given_back, setup, teardown)
{
    btl_ib_backlog_entry_t *stored = btl_ib_backlog_get(&store, CONN(0), 1, 100);

    assert_non_null(stored);
    btl_ib_backlog_put(&store, stored);
    assert_int_equal(store.bytes, 0);
    assert_int_equal(memory.live, 0);
}

/* Readers of a header may read on to the end of 16 bytes. */
TEST_WITH(test_whole_pieces, setup, teardown)
{
    for (uint32_t size = 1; size < 40; size++) {
        btl_ib_backlog_entry_t *stored = btl_ib_backlog_get(&store, CONN(0), 1, size);
        assert_non_null(stored);
        assert_int_equal(stored->size, size);
        assert_true(stored->cost >= EMPTY + size);
        assert_int_equal((stored->cost - EMPTY) % 16, 0);
        btl_ib_backlog_put(&store, stored);
    }
}

UNIT_MAIN(NULL, NULL)
