/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <errno.h>

#include "btl_ib_tombstones.h"
#include "support.h"
#include "unit.h"

static test_memory_t memory;
static btl_ib_tombstones_t tombstones;

static int setup(void **state)
{
    test_memory_init(&memory);
    btl_ib_tombstones_init(&tombstones, &memory.mem);
    return 0;
}

static int teardown(void **state)
{
    btl_ib_tombstones_fini(&tombstones);
    return memory.live == 0 ? 0 : -1;
}

static btl_ib_tombstone_t tombstone_of(uint64_t name, uint32_t epoch)
{
    return (btl_ib_tombstone_t){
        .name = name,
        .secret = 7,
        .rail = 1,
        .remote_rail = 2,
        .epoch = epoch,
    };
}

static void bury(uint64_t name, uint32_t epoch)
{
    btl_ib_tombstone_t it = tombstone_of(name, epoch);
    btl_ib_tombstones_add(&tombstones, &it);
}

/* protocol: R25 */
TEST_WITH(test_each_peer_has_its_own, setup, teardown)
{
    assert_int_equal(btl_ib_tombstones_prepare(&tombstones), 0);
    bury(5, 9);
    for (int field = 0; field < 4; field++) {
        btl_ib_tombstone_t other = tombstone_of(5, 0);
        other.name += field == 0;
        other.secret += field == 1;
        other.rail += field == 2;
        other.remote_rail += field == 3;
        assert_int_equal(btl_ib_tombstones_floor(&tombstones, &other), 0);
    }
    btl_ib_tombstone_t same = tombstone_of(5, 0);
    assert_int_equal(btl_ib_tombstones_floor(&tombstones, &same), 10);
    for (uint32_t epoch = 8; epoch <= 10; epoch++) { /* of whatever secret */
        btl_ib_tombstone_t other = tombstone_of(5, epoch);
        other.secret++;
        assert_int_equal(btl_ib_tombstones_ended(&tombstones, &other), epoch <= 9);
        other.rail++;
        assert_false(btl_ib_tombstones_ended(&tombstones, &other));
    }
}

/* What is not there is nobody's: not that of a peer of zeros either. */
TEST_WITH(test_nothing_behind_the_last, setup, teardown)
{
    const btl_ib_tombstone_t zeros = {0};

    assert_int_equal(btl_ib_tombstones_prepare(&tombstones), 0);
    for (uint64_t name = 1; name < 5; name++) {
        assert_false(btl_ib_tombstones_ended(&tombstones, &zeros));
        assert_int_equal(btl_ib_tombstones_floor(&tombstones, &zeros), 0);
        bury(name, 1);
    }
}

TEST_WITH(test_floor_is_above_the_latest_life, setup, teardown)
{
    btl_ib_tombstone_t peer = tombstone_of(5, 0);

    assert_int_equal(btl_ib_tombstones_floor(&tombstones, &peer), 0);
    assert_int_equal(btl_ib_tombstones_prepare(&tombstones), 0);
    assert_int_equal(btl_ib_tombstones_floor(&tombstones, &peer), 0);
    bury(5, 9);
    bury(5, 11);
    bury(5, 10);
    bury(6, 99);
    assert_int_equal(btl_ib_tombstones_floor(&tombstones, &peer), 12);
    peer.secret++; /* a new process under the old name begins at the beginning */
    assert_int_equal(btl_ib_tombstones_floor(&tombstones, &peer), 0);
}

TEST_WITH(test_epochs_wrap, setup, teardown)
{
    btl_ib_tombstone_t peer = tombstone_of(5, 0);

    assert_int_equal(btl_ib_tombstones_prepare(&tombstones), 0);
    bury(5, 3);
    bury(5, UINT32_MAX - 1);
    assert_int_equal(btl_ib_tombstones_floor(&tombstones, &peer), 4);
}

TEST_WITH(test_the_last_hundreds_are_kept, setup, teardown)
{
    btl_ib_tombstone_t frequent = tombstone_of(5, 0);

    assert_int_equal(btl_ib_tombstones_prepare(&tombstones), 0);
    for (uint32_t epoch = 1; epoch <= 2000; epoch++) {
        bury(5, epoch); /* one peer, however often, takes one place */
        bury(1000 + epoch, epoch);
        assert_int_equal(btl_ib_tombstones_floor(&tombstones, &frequent), epoch + 1);
    }
    for (uint32_t epoch = 1; epoch <= 2000; epoch++) {
        btl_ib_tombstone_t it = tombstone_of(1000 + epoch, 0);
        assert_int_equal(btl_ib_tombstones_floor(&tombstones, &it),
                         epoch > 2000 - 511 ? epoch + 1 : 0);
    }
}

TEST_WITH(test_memory_is_had_before_it_is_needed, setup, teardown)
{
    memory.allowed = 0;
    assert_int_equal(btl_ib_tombstones_prepare(&tombstones), -ENOMEM);
    memory.allowed = 1;
    assert_int_equal(btl_ib_tombstones_prepare(&tombstones), 0);
    assert_int_equal(btl_ib_tombstones_prepare(&tombstones), 0);
    uint64_t calls = memory.calls;
    for (uint32_t epoch = 1; epoch <= 2000; epoch++) {
        bury(epoch, epoch);
    }
    assert_int_equal(memory.calls, calls);
}

UNIT_MAIN(NULL, NULL)
