/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The registration cache: Open MPI's own (rcache grdma) over a device that is none (fake_rdma.h),
 * whose count of ibv_reg_mr() and ibv_dereg_mr() is compared with what the cache says.
 */

#include "opal_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/mman.h>

#include "opal/mca/btl/btl.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/memoryhooks/memory.h"
#include "opal/runtime/opal.h"

#include "btl_ib_registration_cache.h"
#include "rc_sides.h"

enum {
    CACHES = 2,
    PAGE = 4096,
    REGION = 4 * PAGE,
    REGIONS = 8,
    HELD = 8,
    LOCAL = MCA_BTL_REG_FLAG_LOCAL_WRITE,
};

typedef struct held {
    int cache;
    btl_ib_registration_t *registration;
} held_t;

static held_t held[HELD];
static int held_count;
static btl_ib_biased_lock_t lock;
static btl_ib_registration_limit_t limit;
static btl_ib_registration_cache_t caches[CACHES];
static uint8_t *memory;
static uint32_t regs, deregs; /* of the device, before */
static int mrs;
static size_t mr_bytes;

/* Region `i`; there is a page between it and the next. */
static uint8_t *region(int i)
{
    return memory + (size_t) i * (REGION + PAGE);
}

/* Whoever got something gives it back, also when a test fails: the rcache hangs otherwise. */
static btl_ib_registration_t *ask(int cache, uint8_t *at, size_t size, uint32_t flags)
{
    btl_ib_registration_t *got = btl_ib_registration_get(&caches[cache], at, size, flags);

    if (NULL != got) {
        assert_true(held_count < HELD);
        held[held_count++] = (held_t){.cache = cache, .registration = got};
    }
    return got;
}

static btl_ib_registration_t *get(int cache, int i)
{
    return ask(cache, region(i), REGION, LOCAL);
}

static void put(const btl_ib_registration_t *registration)
{
    for (int i = 0; i < held_count; ++i) {
        if (held[i].registration == registration) {
            const held_t it = held[i];
            held[i] = held[--held_count];
            btl_ib_registration_put(&caches[it.cache], it.registration);
            return;
        }
    }
    assert_null(registration);
}

/* Get it and put it back. Returns whether it was registered. */
static bool use(int cache, int i)
{
    btl_ib_registration_t *registration = get(cache, i);

    put(registration);
    return NULL != registration;
}

/* What all caches count is what the device saw. */
static void compare(uint64_t hits, uint64_t misses, uint64_t evictions, uint64_t unmapped,
                    uint64_t failures)
{
    btl_ib_registration_counts_t sum = {0};

    for (int i = 0; i < CACHES; ++i) {
        sum.hits += caches[i].counts.hits;
        sum.misses += caches[i].counts.misses;
        sum.evictions += caches[i].counts.evictions;
        sum.unmapped += caches[i].counts.unmapped;
        sum.failures += caches[i].counts.failures;
    }
    assert_int_equal(sum.hits, hits);
    assert_int_equal(sum.misses, misses);
    assert_int_equal(sum.evictions, evictions);
    assert_int_equal(sum.unmapped, unmapped);
    assert_int_equal(sum.failures, failures);
    assert_int_equal(limit.rejected, failures);
    assert_int_equal(fake.regs - regs, misses);
    assert_int_equal(fake.deregs - deregs, evictions + unmapped);
    assert_int_equal(limit.regions, fake.mrs - mrs);
    assert_int_equal(limit.bytes, fake.mr_bytes - mr_bytes);
}

/* So much may be registered: `text` as btl_ib_max_pinned, `regions` as btl_ib_pin_max_regions. */
static void begin(const char *text, uint64_t regions)
{
    const btl_ib_registration_host_t host = {
        .memory = 1u << 30, .lockable = UINT64_MAX, .processes = 1};

    btl_ib_registration_limit_init(&limit, text, &host, regions);
    for (uint32_t i = 0; i < CACHES; ++i) {
        memset(&caches[i], 0, sizeof(caches[i]));
        if (OPAL_SUCCESS
            != btl_ib_registration_cache_init(&caches[i], i, sides[i].t, &lock, &limit,
                                              UINT64_C(1) << 46)) {
            skip(); /* Open MPI is not installed: this is in its source tree */
        }
    }
    regs = fake.regs;
    deregs = fake.deregs;
    mrs = fake.mrs;
    mr_bytes = fake.mr_bytes;
}

static int begin_all(void **state)
{
    (void) set_up(state);
    memory = mmap(NULL, REGIONS * (REGION + PAGE), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(MAP_FAILED != (void *) memory);
    return 0;
}

static int end_all(void **state)
{
    while (held_count > 0) {
        put(held[0].registration);
    }
    for (int i = 0; i < CACHES; ++i) {
        btl_ib_registration_cache_fini(&caches[i]);
    }
    assert_int_equal(limit.regions, 0);
    assert_int_equal(limit.bytes, 0);
    (void) munmap(memory, REGIONS * (REGION + PAGE));
    return tear_down(state);
}

static void test_hits_and_misses(void **state)
{
    btl_ib_registration_t *first, *again, *within;

    (void) state;
    begin("100%", 0);
    first = get(0, 0);
    assert_non_null(first);
    compare(0, 1, 0, 0, 0);
    again = get(0, 0);
    within = ask(0, region(0) + PAGE, 1, LOCAL);
    assert_ptr_equal(again, first);
    assert_ptr_equal(within, first);
    compare(2, 1, 0, 0, 0);
    put(first);
    put(again);
    put(within);
    assert_true(use(0, 0)); /* it stays registered */
    assert_true(use(0, 1));
    assert_true(use(1, 0)); /* another device knows nothing of it */
    compare(3, 3, 0, 0, 0);
}

/* What was not used for longest goes first, when there are too many. */
static void test_regions_make_room(void **state)
{
    (void) state;
    begin("100%", 2);
    assert_true(use(0, 0));
    assert_true(use(0, 1));
    assert_true(use(0, 0));
    compare(1, 2, 0, 0, 0);
    assert_true(use(0, 2));
    compare(1, 3, 1, 0, 0);
    assert_true(use(0, 0));
    compare(2, 3, 1, 0, 0);
    assert_true(use(0, 1));
    compare(2, 4, 2, 0, 0);
}

static void test_bytes_make_room(void **state)
{
    (void) state;
    begin("40000", 0); /* two regions, and some */
    assert_true(use(0, 0));
    assert_true(use(0, 1));
    assert_true(use(0, 2));
    compare(0, 3, 1, 0, 0);
    assert_true(use(0, 1));
    compare(1, 3, 1, 0, 0);
}

/* What is in use stays: processors move the rest. */
static void test_nothing_can_go(void **state)
{
    btl_ib_registration_t *a, *b;

    (void) state;
    begin("100%", 2);
    a = get(0, 0);
    b = get(0, 1);
    assert_null(get(0, 2));
    compare(0, 2, 0, 0, 1);
    put(b);
    assert_true(use(0, 2));
    compare(0, 3, 1, 0, 1);
    put(a);
}

/* The limits are for all devices together, and so is what makes room. */
static void test_other_devices_make_room(void **state)
{
    btl_ib_registration_t *a;

    (void) state;
    begin("100%", 2);
    a = get(0, 0);
    assert_true(use(0, 1));
    assert_true(use(1, 0));
    compare(0, 3, 1, 0, 0);
    assert_int_equal(caches[0].counts.evictions, 1);
    assert_true(use(0, 0)); /* it is in use, and stays */
    compare(1, 3, 1, 0, 0);
    put(a);
}

static void test_device_has_no_more(void **state)
{
    (void) state;
    begin("100%", 0);
    assert_true(use(0, 0));
    assert_true(use(1, 0));
    fake.mrs_left = 0;
    assert_false(use(0, 1));
    compare(0, 2, 2, 0, 1); /* all that was unused went before it gave up */
    fake.mrs_left = -1;
    assert_true(use(0, 1));
    compare(0, 3, 2, 0, 1);
}

static void test_memory_goes_away(void **state)
{
    (void) state;
    begin("100%", 0);
    if (0 == (OPAL_MEMORY_MUNMAP_SUPPORT & opal_mem_hooks_support_level())) {
        skip();
    }
    assert_true(use(0, 0));
    (void) munmap(region(0), REGION);
    assert_true(use(0, 1));
    compare(0, 2, 0, 1, 0);
}

/* It is registered anew with the rights of both. */
static void test_other_rights(void **state)
{
    (void) state;
    begin("100%", 0);
    assert_true(use(0, 0));
    put(ask(0, region(0), REGION, MCA_BTL_REG_FLAG_REMOTE_READ));
    compare(0, 2, 0, 0, 0); /* the rcache gives the old one back when it is asked next */
    assert_true(use(0, 0));
    compare(1, 2, 0, 1, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_all, end_all)
        TEST(test_hits_and_misses),         TEST(test_regions_make_room),
        TEST(test_bytes_make_room),         TEST(test_nothing_can_go),
        TEST(test_other_devices_make_room), TEST(test_device_has_no_more),
        TEST(test_memory_goes_away),        TEST(test_other_rights),
    };
    int failed;

    if (OPAL_SUCCESS != opal_init(&argc, &argv)
        || OPAL_SUCCESS != mca_base_framework_open(&opal_rcache_base_framework, 0)) {
        return 1;
    }
    (void) btl_ib_biased_lock_init(&lock, false);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void) mca_base_framework_close(&opal_rcache_base_framework);
    (void) opal_finalize();
    return failed;
}
