/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Segments that arrive in parts. */

#include <stdlib.h>
#include <string.h>

#include "btl_ib_refragment.h"
#include "unit.h"

static int allocations; /* that are not freed */
static int fail_after;  /* so many more succeed; negative: all */

static void *get_memory(void *context, size_t size)
{
    if (fail_after == 0) {
        return NULL;
    }
    fail_after--;
    allocations++;
    return calloc(1, size);
}

static void put_memory(void *context, void *memory)
{
    allocations--;
    free(memory);
}

static const btl_ib_mem_t memory = {get_memory, put_memory, NULL};
static btl_ib_list_t list;
static uint8_t body[65535];
static btl_ib_refragment_t *whole;

static int setup(void **state)
{
    btl_ib_list_init(&list);
    fail_after = -1;
    for (size_t i = 0; i < sizeof(body); i++) {
        body[i] = (uint8_t) (i * 7 + i / 251);
    }
    return 0;
}

static int teardown(void **state)
{
    btl_ib_refragment_drop(&list, &memory);
    assert_int_equal(allocations, 0);
    return 0;
}

static btl_ib_refragment_result_t add(uint32_t seq, uint32_t offset, uint32_t size, uint32_t total)
{
    btl_ib_view_t view = {
        .type = BTL_IB_TYPE_PART,
        .channel = 1,
        .seq = seq,
        .part = {.offset = offset, .total = total, .type = BTL_IB_TYPE_DATA, .tag = 9},
        .payload = body + offset,
        .size = size,
    };
    return btl_ib_refragment_add(&list, &memory, &view, &whole);
}

static void check_whole(uint32_t seq, uint32_t total)
{
    assert_int_equal(whole->seq, seq);
    assert_int_equal(whole->total, total);
    assert_int_equal(whole->type, BTL_IB_TYPE_DATA);
    assert_int_equal(whole->tag, 9);
    assert_memory_equal(whole->data, body, total);
    btl_ib_free(&memory, whole);
}

TEST_WITH(in_any_order, setup, teardown)
{
    static const uint32_t totals[] = {9, 16, 100, 1001, 8928, 65535};

    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        const uint32_t total = totals[i], step = 8 * (1 + total / 40);
        const uint32_t last = (total - 1) / step * step;
        for (uint32_t at = last; at > 0; at -= step) {
            const uint32_t size = total - at < step ? total - at : step;
            assert_int_equal(add(5, at, size, total), BTL_IB_PARTS_KEPT_IT);
            assert_int_equal(add(5, at, size, total), BTL_IB_PARTS_KEPT_IT); /* and again */
        }
        assert_int_equal(add(5, 0, total < step ? total : step, total), BTL_IB_PARTS_COMPLETE);
        check_whole(5, total);
    }
}

/* A later copy is divided otherwise. */
TEST_WITH(of_two_copies, setup, teardown)
{
    assert_int_equal(add(5, 0, 400, 1003), BTL_IB_PARTS_KEPT_IT);
    assert_int_equal(add(5, 800, 203, 1003), BTL_IB_PARTS_KEPT_IT);
    assert_int_equal(add(5, 304, 304, 1003), BTL_IB_PARTS_KEPT_IT);
    assert_int_equal(add(5, 608, 304, 1003), BTL_IB_PARTS_COMPLETE);
    check_whole(5, 1003);
}

/* What is said last counts. protocol: R61 */
TEST_WITH(of_something_else, setup, teardown)
{
    assert_int_equal(add(5, 0, 400, 1000), BTL_IB_PARTS_KEPT_IT);
    assert_int_equal(add(5, 400, 100, 500), BTL_IB_PARTS_KEPT_IT);
    assert_int_equal(add(5, 0, 400, 500), BTL_IB_PARTS_COMPLETE);
    check_whole(5, 500);
}

/* The oldest have the places: so what is repeated first is complete in the end. */
TEST_WITH(old_ones_first, setup, teardown)
{
    const uint32_t first = UINT32_MAX - 3; /* across the wrap */

    for (uint32_t i = 0; i < BTL_IB_PARTS_KEPT; i++) {
        assert_int_equal(add(first + 1 + i, 0, 8, 16), BTL_IB_PARTS_KEPT_IT);
    }
    assert_int_equal(add(first + 50, 0, 8, 16), BTL_IB_PARTS_RNR);
    assert_int_equal(add(first, 0, 8, 16), BTL_IB_PARTS_KEPT_IT);
    assert_int_equal(allocations, BTL_IB_PARTS_KEPT);
    assert_int_equal(add(first, 8, 8, 16), BTL_IB_PARTS_COMPLETE);
    check_whole(first, 16);
    assert_int_equal(add(first + BTL_IB_PARTS_KEPT, 8, 8, 16), BTL_IB_PARTS_KEPT_IT); /* gave way */
    btl_ib_refragment_forget(&list, &memory, 1, first + 1);
    btl_ib_refragment_forget(&list, &memory, 0, first + 2); /* of another channel */
    assert_int_equal(allocations, BTL_IB_PARTS_KEPT - 1);
    assert_int_equal(add(first + 2, 8, 8, 16), BTL_IB_PARTS_COMPLETE);
    check_whole(first + 2, 16);
}

/* Other than in length: of another type, or for another receiver. */
TEST_WITH(of_another_kind, setup, teardown)
{
    for (int way = 0; way < 2; way++) {
        btl_ib_view_t view = {
            .type = BTL_IB_TYPE_PART,
            .channel = 1,
            .seq = 5,
            .part = {.offset = 0, .total = 16, .type = BTL_IB_TYPE_DATA, .tag = 9},
            .payload = body,
            .size = 8,
        };
        if (way == 0) {
            view.part.type = BTL_IB_TYPE_BUNDLE;
        } else {
            view.part.tag = 8;
        }
        assert_int_equal(btl_ib_refragment_add(&list, &memory, &view, &whole),
                         BTL_IB_PARTS_KEPT_IT);
        assert_int_equal(add(5, 8, 8, 16), BTL_IB_PARTS_KEPT_IT);
        assert_int_equal(allocations, 1);
        assert_int_equal(add(5, 0, 8, 16), BTL_IB_PARTS_COMPLETE);
        check_whole(5, 16);
    }
}

/* A part in the middle is missed, wherever that is. */
TEST_WITH(with_a_gap, setup, teardown)
{
    for (uint32_t total = 24; total < 1100; total += total < 200 ? 1 : 61) {
        for (uint32_t gap = 0; gap < total; gap += 8) {
            const uint32_t behind = gap + 8;
            if (gap > 0) {
                assert_int_equal(add(5, 0, gap, total), BTL_IB_PARTS_KEPT_IT);
            }
            if (behind < total) {
                assert_int_equal(add(5, behind, total - behind, total), BTL_IB_PARTS_KEPT_IT);
            }
            assert_int_equal(add(5, gap, behind < total ? 8 : total - gap, total),
                             BTL_IB_PARTS_COMPLETE);
            check_whole(5, total);
        }
    }
}

TEST_WITH(without_memory, setup, teardown)
{
    fail_after = 0;
    assert_int_equal(add(5, 0, 8, 16), BTL_IB_PARTS_RNR);
    fail_after = -1;
    assert_int_equal(add(5, 0, 8, 16), BTL_IB_PARTS_KEPT_IT);
    assert_int_equal(add(5, 8, 8, 16), BTL_IB_PARTS_COMPLETE);
    check_whole(5, 16);
}

UNIT_MAIN(NULL, NULL)
