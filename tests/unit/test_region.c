/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "btl_ib_region.h"
#include "support.h"

static const btl_ib_secret_t secret = {{1, 2}};
static test_memory_t heap;
static btl_ib_regions_t regions;
static uint8_t memory[1000];

static int setup(void **state)
{
    (void) state;
    test_memory_init(&heap);
    btl_ib_regions_init(&regions, &heap.mem, &secret);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    btl_ib_regions_fini(&regions);
    assert_int_equal(heap.live, 0);
    return 0;
}

static uint32_t registered(void)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < regions.count; i++) {
        sum += regions.slots[i].id != 0;
    }
    assert_int_equal(regions.used, sum);
    return sum;
}

static btl_ib_region_key_t add(void *base, uint64_t size, uint32_t access)
{
    btl_ib_region_key_t key = {0};

    assert_int_equal(btl_ib_regions_add(&regions, base, size, access, &key), 0);
    return key;
}

static btl_ib_region_result_t check(btl_ib_region_key_t key, uint64_t offset, uint64_t size,
                                    uint32_t access)
{
    uint8_t *where = NULL;
    btl_ib_region_result_t result =
        btl_ib_regions_check(&regions, &key, offset, size, access, &where);

    if (result == BTL_IB_REGION_OK) {
        assert_ptr_equal(where, memory + offset);
    } else {
        assert_null(where);
    }
    return result;
}

static void test_bounds(void **state)
{
    btl_ib_region_key_t key = add(memory, sizeof(memory), BTL_IB_ACCESS_ALL);

    (void) state;
    assert_int_equal(check(key, 0, 1000, BTL_IB_ACCESS_READ), BTL_IB_REGION_OK);
    assert_int_equal(check(key, 999, 1, BTL_IB_ACCESS_WRITE), BTL_IB_REGION_OK);
    assert_int_equal(check(key, 1000, 0, BTL_IB_ACCESS_WRITE), BTL_IB_REGION_OK);
    assert_int_equal(check(key, 0, 1001, BTL_IB_ACCESS_READ), BTL_IB_REGION_BOUNDS);
    assert_int_equal(check(key, 1, 1000, BTL_IB_ACCESS_READ), BTL_IB_REGION_BOUNDS);
    assert_int_equal(check(key, 1000, 1, BTL_IB_ACCESS_READ), BTL_IB_REGION_BOUNDS);
    assert_int_equal(check(key, 1001, 0, BTL_IB_ACCESS_READ), BTL_IB_REGION_BOUNDS);
    /* Sums that wrap. */
    assert_int_equal(check(key, UINT64_MAX, 1, BTL_IB_ACCESS_READ), BTL_IB_REGION_BOUNDS);
    assert_int_equal(check(key, UINT64_MAX, 2, BTL_IB_ACCESS_READ), BTL_IB_REGION_BOUNDS);
    assert_int_equal(check(key, 2, UINT64_MAX, BTL_IB_ACCESS_READ), BTL_IB_REGION_BOUNDS);
    assert_int_equal(check(key, UINT64_MAX - 4, 5, BTL_IB_ACCESS_READ), BTL_IB_REGION_BOUNDS);
}

static void test_rights(void **state)
{
    static const uint32_t rights[] = {BTL_IB_ACCESS_READ, BTL_IB_ACCESS_WRITE,
                                      BTL_IB_ACCESS_ATOMIC};

    (void) state;
    for (uint32_t access = 1; access <= BTL_IB_ACCESS_ALL; access++) {
        btl_ib_region_key_t key = add(memory, 8, access);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(check(key, 0, 8, rights[i]),
                             access & rights[i] ? BTL_IB_REGION_OK : BTL_IB_REGION_RIGHT);
        }
    }
}

/* Neither half of a key is enough, and a key is good for one registration only. */
static void test_keys(void **state)
{
    btl_ib_region_key_t key = add(memory, 8, BTL_IB_ACCESS_ALL), other;

    (void) state;
    for (int bit = 0; bit < 64; bit++) {
        other = key;
        other.secret ^= UINT64_C(1) << bit;
        assert_int_equal(check(other, 0, 8, BTL_IB_ACCESS_READ), BTL_IB_REGION_UNKNOWN);
        other = key;
        other.id ^= UINT64_C(1) << bit;
        assert_int_equal(check(other, 0, 8, BTL_IB_ACCESS_READ), BTL_IB_REGION_UNKNOWN);
    }
    other = (btl_ib_region_key_t){0, 0}; /* as free slots look */
    assert_int_equal(check(other, 0, 0, BTL_IB_ACCESS_READ), BTL_IB_REGION_UNKNOWN);
    other.id = 1;
    assert_int_equal(check(other, 0, 0, BTL_IB_ACCESS_READ), BTL_IB_REGION_UNKNOWN);
    btl_ib_regions_remove(&regions, &key);
    assert_int_equal(check(key, 0, 8, BTL_IB_ACCESS_READ), BTL_IB_REGION_UNKNOWN);
    other = add(memory, 8, BTL_IB_ACCESS_ALL); /* in the same slot */
    assert_int_equal(other.id & 0xffffff, key.id & 0xffffff);
    assert_true(other.id != key.id && other.secret != key.secret);
    assert_int_equal(check(key, 0, 8, BTL_IB_ACCESS_READ), BTL_IB_REGION_UNKNOWN);
    btl_ib_regions_remove(&regions, &key); /* must not take the new one */
    assert_int_equal(check(other, 0, 8, BTL_IB_ACCESS_READ), BTL_IB_REGION_OK);
}

static void test_secret_of_another_process(void **state)
{
    static const btl_ib_secret_t others = {{1, 3}};
    btl_ib_region_key_t key = add(memory, 8, BTL_IB_ACCESS_ALL), theirs;
    btl_ib_regions_t second;

    (void) state;
    btl_ib_regions_init(&second, &heap.mem, &others);
    assert_int_equal(btl_ib_regions_add(&second, memory, 8, BTL_IB_ACCESS_ALL, &theirs), 0);
    assert_true(theirs.id == key.id && theirs.secret != key.secret);
    btl_ib_regions_fini(&second);
}

static void test_bad_regions(void **state)
{
    uint8_t *high = (uint8_t *) (UINTPTR_MAX - 10);
    btl_ib_region_key_t key;

    (void) state;
    assert_int_equal(btl_ib_regions_add(&regions, memory, 8, 0, &key), -EINVAL);
    assert_int_equal(btl_ib_regions_add(&regions, memory, 8, 8, &key), -EINVAL);
    assert_int_equal(btl_ib_regions_add(&regions, high, 11, BTL_IB_ACCESS_READ, &key), -EINVAL);
    assert_int_equal(btl_ib_regions_add(&regions, high, UINT64_MAX, BTL_IB_ACCESS_READ, &key),
                     -EINVAL);
    assert_int_equal(registered(), 0);
    assert_int_equal(btl_ib_regions_add(&regions, NULL, 0, BTL_IB_ACCESS_READ, &key), 0);
}

static void test_many(void **state)
{
    enum { MANY = 3000 };
    static btl_ib_region_key_t keys[MANY];

    (void) state;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < MANY; i++) {
            keys[i] = add(memory, 1 + i % 1000, BTL_IB_ACCESS_READ);
        }
        assert_int_equal(registered(), MANY);
        assert_int_equal(regions.count, 4096); /* slots are used again */
        for (uint32_t i = 0; i < MANY; i++) {
            assert_int_equal(check(keys[i], 0, 1 + i % 1000, BTL_IB_ACCESS_READ), BTL_IB_REGION_OK);
            assert_int_equal(check(keys[i], 0, 2 + i % 1000, BTL_IB_ACCESS_READ),
                             BTL_IB_REGION_BOUNDS);
        }
        for (uint32_t i = 0; i < MANY; i++) {
            btl_ib_regions_remove(&regions, &keys[(i * 7) % MANY]);
        }
        assert_int_equal(registered(), 0);
    }
}

static void test_no_memory(void **state)
{
    btl_ib_region_key_t keys[17];

    (void) state;
    for (int i = 0; i < 16; i++) {
        keys[i] = add(memory, 8, BTL_IB_ACCESS_READ);
    }
    heap.allowed = 0;
    assert_int_equal(btl_ib_regions_add(&regions, memory, 8, BTL_IB_ACCESS_READ, &keys[16]),
                     -ENOMEM);
    assert_int_equal(check(keys[15], 0, 8, BTL_IB_ACCESS_READ), BTL_IB_REGION_OK);
    assert_int_equal(registered(), 16);
    heap.allowed = 1;
    keys[16] = add(memory, 8, BTL_IB_ACCESS_READ);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_secret_of_another_process, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_regions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
