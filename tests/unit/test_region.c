/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_rma_region.h"
#include "support.h"
#include "unit.h"

static const btl_ib_secret_t secret = {{1, 2}};
static test_memory_t heap;
static btl_ib_regions_t regions;
static uint8_t memory[1000];

static int setup(void **state)
{
    test_memory_init(&heap);
    btl_ib_regions_init(&regions, &heap.mem, &secret);
    return 0;
}

static int teardown(void **state)
{
    btl_ib_regions_fini(&regions);
    assert_int_equal(heap.live, 0);
    return 0;
}

static uint32_t registered(void)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < regions.count; i++) {
        sum += regions.slots[i].id != 0 && regions.slots[i].access != BTL_IB_ACCESS_WINDOW;
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
        assert_int_equal((uintptr_t) where, (uintptr_t) memory + (uintptr_t) offset);
    } else {
        assert_null(where);
    }
    return result;
}

TEST_WITH(test_bounds, setup, teardown)
{
    btl_ib_region_key_t key = add(memory, sizeof(memory), BTL_IB_ACCESS_ALL);

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

/* protocol: R70 */
TEST_WITH(test_rights, setup, teardown)
{
    static const uint32_t rights[] = {BTL_IB_ACCESS_READ, BTL_IB_ACCESS_WRITE,
                                      BTL_IB_ACCESS_ATOMIC};

    for (uint32_t access = 1; access <= BTL_IB_ACCESS_ALL; access++) {
        btl_ib_region_key_t key = add(memory, 8, access);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(check(key, 0, 8, rights[i]),
                             access & rights[i] ? BTL_IB_REGION_OK : BTL_IB_REGION_RIGHT);
        }
    }
}

/* Neither half of a key is enough, and a key is good for one registration only. */
TEST_WITH(test_keys, setup, teardown)
{
    btl_ib_region_key_t key = add(memory, 8, BTL_IB_ACCESS_ALL), other;

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

TEST_WITH(test_secret_of_another_process, setup, teardown)
{
    static const btl_ib_secret_t others = {{1, 3}};
    btl_ib_region_key_t key = add(memory, 8, BTL_IB_ACCESS_ALL), theirs;
    btl_ib_regions_t second;

    btl_ib_regions_init(&second, &heap.mem, &others);
    assert_int_equal(btl_ib_regions_add(&second, memory, 8, BTL_IB_ACCESS_ALL, &theirs), 0);
    assert_true(theirs.id == key.id && theirs.secret != key.secret);
    btl_ib_regions_fini(&second);
}

TEST_WITH(test_bad_regions, setup, teardown)
{
    uint8_t *high = (uint8_t *) (UINTPTR_MAX - 10);
    btl_ib_region_key_t key;

    assert_int_equal(btl_ib_regions_add(&regions, memory, 8, 0, &key), -EINVAL);
    assert_int_equal(btl_ib_regions_add(&regions, memory, 8, BTL_IB_ACCESS_WINDOW, &key), -EINVAL);
    assert_int_equal(btl_ib_regions_add(&regions, memory, 8, 16, &key), -EINVAL);
    assert_int_equal(btl_ib_regions_add(&regions, high, 11, BTL_IB_ACCESS_READ, &key), -EINVAL);
    assert_int_equal(btl_ib_regions_add(&regions, high, UINT64_MAX, BTL_IB_ACCESS_READ, &key),
                     -EINVAL);
    assert_int_equal(registered(), 0);
    assert_int_equal(btl_ib_regions_add(&regions, NULL, 0, BTL_IB_ACCESS_READ, &key), 0);
}

TEST_WITH(test_no_memory, setup, teardown)
{
    btl_ib_region_key_t keys[17];

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

/* ---- windows ---- */

enum { WINDOW = BTL_IB_ACCESS_ALL | BTL_IB_ACCESS_WINDOW };

/* Asked by check() and by resolve(): `to` is what they find, or NULL. */
static void asked(btl_ib_region_key_t key, uint64_t offset, uint64_t size, uint32_t access,
                  btl_ib_region_result_t expected, const void *to)
{
    btl_ib_region_key_t resolved = key;
    uint64_t where = offset;
    uint8_t *found = NULL, *again = NULL;

    assert_int_equal(btl_ib_regions_check(&regions, &key, offset, size, access, &found), expected);
    assert_ptr_equal(found, to);
    assert_int_equal(btl_ib_regions_resolve(&regions, &resolved, &where, size, access, &again),
                     expected);
    assert_ptr_equal(again, to);
    if (to == NULL) {
        assert_int_equal(resolved.id, key.id);
        assert_int_equal(where, offset);
        return;
    }
    assert_int_equal(resolved.id != key.id, expected == BTL_IB_REGION_ELSEWHERE);
    assert_int_equal(btl_ib_regions_check(&regions, &resolved, where, size, access, &found),
                     BTL_IB_REGION_OK);
    assert_ptr_equal(found, to);
}

static void refused(btl_ib_region_key_t key, uint64_t offset, uint64_t size, uint32_t access)
{
    asked(key, offset, size, access, BTL_IB_REGION_BOUNDS, NULL);
}

static void served(btl_ib_region_key_t key, uint64_t offset, uint64_t size, const void *to)
{
    asked(key, offset, size, BTL_IB_ACCESS_READ, BTL_IB_REGION_ELSEWHERE, to);
    asked(key, offset, size, BTL_IB_ACCESS_WRITE, BTL_IB_REGION_ELSEWHERE, to);
    asked(key, offset, size, BTL_IB_ACCESS_ATOMIC, BTL_IB_REGION_ELSEWHERE, to);
}

TEST_WITH(test_ends_of_the_address_space, setup, teardown)
{
    uint8_t *top = (uint8_t *) (UINTPTR_MAX - 15);
    btl_ib_region_key_t near = add(top - 100, 8, WINDOW);
    btl_ib_region_key_t last = add(top, 15, WINDOW);
    btl_ib_region_key_t first = add(NULL, 8, WINDOW);
    btl_ib_region_key_t second = add((void *) (uintptr_t) 100, 8, WINDOW);
    btl_ib_region_key_t key = add(memory, 8, WINDOW);
    const uint64_t base = (uintptr_t) memory;

    served(near, 100, 15, top);
    served(second, (uint64_t) -96, 4, (void *) (uintptr_t) 4);
    served(key, -base + 4, 4, (void *) (uintptr_t) 4);
    refused(near, 100, 16, BTL_IB_ACCESS_READ);
    refused(near, 100, UINT64_MAX, BTL_IB_ACCESS_READ);
    refused(near, 116, 1, BTL_IB_ACCESS_READ); /* would wrap to address 0 */
    refused(near, 120, 4, BTL_IB_ACCESS_READ);
    refused(last, 16, 8, BTL_IB_ACCESS_READ);
    refused(first, (uint64_t) -8, 8, BTL_IB_ACCESS_READ); /* to the highest addresses */
    refused(second, (uint64_t) -110, 8, BTL_IB_ACCESS_READ);
    refused(key, -base - 16, 8, BTL_IB_ACCESS_READ);
    if (sizeof(void *) == sizeof(uint64_t)) { /* further than an offset leads */
        refused(key, (uintptr_t) top - base, 8, BTL_IB_ACCESS_READ);
    } else {
        served(key, (uintptr_t) top - base, 8, top);
    }
    refused(key, UINT64_C(1) << 63, 8, BTL_IB_ACCESS_READ);
    refused(key, UINT64_C(1) << 63, UINT64_C(1) << 63, BTL_IB_ACCESS_READ);
    refused(key, INT64_MAX, 8, BTL_IB_ACCESS_READ);
    refused(key, 8, UINT64_MAX - 8, BTL_IB_ACCESS_READ);
}

/* Registered for one message, or not for that: neither a way in nor a way out. */
TEST_WITH(test_not_a_window, setup, teardown)
{
    btl_ib_region_key_t window = add(memory, 100, WINDOW);
    btl_ib_region_key_t message = add(memory + 200, 100, BTL_IB_ACCESS_ALL);
    btl_ib_region_key_t constant =
        add(memory + 400, 100, BTL_IB_ACCESS_READ | BTL_IB_ACCESS_WINDOW);

    refused(window, 200, 8, BTL_IB_ACCESS_READ);
    refused(message, (uint64_t) -200, 8, BTL_IB_ACCESS_READ);
    refused(message, 200, 8, BTL_IB_ACCESS_READ);
    asked(window, 400, 8, BTL_IB_ACCESS_READ, BTL_IB_REGION_ELSEWHERE, memory + 400);
    refused(window, 400, 8, BTL_IB_ACCESS_WRITE);
    refused(window, 400, 8, BTL_IB_ACCESS_ATOMIC);
    /* Bytes of its own are its own matter, and where it leads the other one's rights count. */
    btl_ib_region_key_t same = add(memory + 400, 100, WINDOW);
    asked(constant, 0, 8, BTL_IB_ACCESS_WRITE, BTL_IB_REGION_RIGHT, NULL);
    asked(window, 400, 8, BTL_IB_ACCESS_WRITE, BTL_IB_REGION_ELSEWHERE, memory + 400);
    asked(constant, (uint64_t) -400, 8, BTL_IB_ACCESS_WRITE, BTL_IB_REGION_ELSEWHERE, memory);
    asked(constant, (uint64_t) -300, 8, BTL_IB_ACCESS_WRITE, BTL_IB_REGION_RIGHT, NULL);
    btl_ib_regions_remove(&regions, &same);
    refused(window, 400, 8, BTL_IB_ACCESS_WRITE);
    /* The secret is needed as ever. */
    window.secret ^= 1;
    asked(window, 400, 8, BTL_IB_ACCESS_READ, BTL_IB_REGION_UNKNOWN, NULL);
}

/* Of a window that was removed the key leads to others for a while, never to its own bytes. */
TEST_WITH(test_retired, setup, teardown)
{
    btl_ib_region_key_t gone = add(memory, 100, WINDOW);
    btl_ib_region_key_t live = add(memory + 200, 100, WINDOW);
    btl_ib_region_key_t message = add(memory + 400, 100, BTL_IB_ACCESS_ALL);

    btl_ib_regions_remove(&regions, &gone);
    btl_ib_regions_remove(&regions, &gone);
    btl_ib_regions_remove(&regions, &message);
    assert_int_equal(registered(), 1);
    asked(gone, 0, 8, BTL_IB_ACCESS_READ, BTL_IB_REGION_UNKNOWN, NULL);
    asked(gone, 0, 0, BTL_IB_ACCESS_READ, BTL_IB_REGION_UNKNOWN, NULL);
    asked(gone, 400, 8, BTL_IB_ACCESS_READ, BTL_IB_REGION_UNKNOWN, NULL);
    asked(message, (uint64_t) -200, 8, BTL_IB_ACCESS_READ, BTL_IB_REGION_UNKNOWN, NULL);
    served(gone, 200, 100, memory + 200);
    for (uint32_t i = 1; i < BTL_IB_REGIONS_RETIRED_MAX; i++) {
        btl_ib_region_key_t key = add(memory, 100, WINDOW);
        btl_ib_regions_remove(&regions, &key);
    }
    served(gone, 200, 100, memory + 200);
    btl_ib_regions_remove(&regions, &live);
    asked(gone, 200, 8, BTL_IB_ACCESS_READ, BTL_IB_REGION_UNKNOWN, NULL);
    live = add(memory + 200, 100, WINDOW);
    asked(gone, 200, 8, BTL_IB_ACCESS_READ, BTL_IB_REGION_UNKNOWN, NULL); /* forgotten */
    asked(live, 0, 8, BTL_IB_ACCESS_READ, BTL_IB_REGION_OK, memory + 200);
    assert_int_equal(regions.retired, BTL_IB_REGIONS_RETIRED_MAX);
}

/* What is remembered gives way to what is needed. */
TEST_WITH(test_retired_without_memory, setup, teardown)
{
    btl_ib_region_key_t keys[16];

    for (int i = 0; i < 16; i++) {
        keys[i] = add(memory + 8 * i, 8, WINDOW);
    }
    heap.allowed = 0;
    for (int i = 0; i < 16; i++) {
        btl_ib_regions_remove(&regions, &keys[i]);
        keys[i] = add(memory + 8 * i, 8, WINDOW);
    }
    assert_int_equal(regions.retired, 0);
    assert_int_equal(registered(), 16);
    assert_int_equal(btl_ib_regions_add(&regions, memory, 8, WINDOW, &keys[0]), -ENOMEM);
    for (int i = 1; i < 16; i++) {
        served(keys[i], (uint64_t) (-8 * i), 8, memory);
    }
}

/* Windows and others come and go at random; what is found is compared with what is there. */
TEST_WITH(test_random_windows, setup, teardown)
{
    enum { MOST = 40 };
    struct {
        btl_ib_region_key_t key;
        uint64_t at, size;
        bool there, window;
    } all[MOST] = {0};
    uint32_t dice = 12345, elsewhere = 0;

    for (int round = 0; round < 20000; round++) {
        dice = dice * 1664525 + 1013904223;
        const uint32_t one = dice >> 8, i = one % MOST, other = one / MOST % MOST;
        if (!all[i].there) {
            all[i].at = (one >> 3) % 900;
            all[i].size = (one >> 5) % 100;
            all[i].window = one / MOST % 3 != 0;
            all[i].key = add(memory + all[i].at, all[i].size,
                             all[i].window ? (uint32_t) WINDOW : (uint32_t) BTL_IB_ACCESS_ALL);
            all[i].there = true;
        } else if (one / MOST % 4 == 0) {
            btl_ib_regions_remove(&regions, &all[i].key);
            all[i].there = false;
        } else {
            const uint64_t from = all[other].at, size = 1 + one % 20;
            bool own = from >= all[i].at && from + size <= all[i].at + all[i].size, found = own;
            for (int k = 0; k < MOST && all[i].window; k++) {
                found |= all[k].there && all[k].window && from >= all[k].at
                         && from + size <= all[k].at + all[k].size;
            }
            elsewhere += found && !own;
            asked(all[i].key, from - all[i].at, size, BTL_IB_ACCESS_READ,
                  own     ? BTL_IB_REGION_OK
                  : found ? BTL_IB_REGION_ELSEWHERE
                          : BTL_IB_REGION_BOUNDS,
                  found ? memory + from : NULL);
        }
    }
    assert_true(elsewhere > 1000);
}

UNIT_MAIN(NULL, NULL)
