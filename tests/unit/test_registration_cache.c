/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The registration cache: Open MPI's own (rcache grdma) over a device that is none (fake_rdma.h),
 * whose count of ibv_reg_mr() and ibv_dereg_mr() is compared with what the cache says.
 */

#include "btl_ib_registration_cache.c" /* what is static there */

#include "opal_config.h"

#undef stop /* cmocka 2.0 has a macro of that name */
#include <errno.h>
#include <sys/mman.h>

#include "opal/mca/btl/btl.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/memoryhooks/memory.h"
#include "opal/runtime/opal.h"
#include "unit.h"

#include "rc_sides.h"

uint64_t btl_ib_now(void) /* instead of the component's, for handles */
{
    return 0;
}

enum {
    CACHES = 2,
    PAGE = 4096,
    REGION = 4 * PAGE,
    REGIONS = 8,
    HELD = 8,
    LOCAL = MCA_BTL_REG_FLAG_LOCAL_WRITE,
    ALL = LOCAL | MCA_BTL_REG_FLAG_REMOTE_READ | MCA_BTL_REG_FLAG_REMOTE_WRITE,
    MIB = 1 << 20,
    LARGE = 6 * MIB,
    SIZE = 32 * MIB,
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
static uint8_t *mapped, *memory;
static uint32_t regs, deregs; /* of the device, before */
static int mrs;
static size_t mr_bytes;

/* Region `i`; there is a page between it and the next. */
static uint8_t *region(int i)
{
    return memory + (size_t) i * (REGION + PAGE);
}

/* What a test got it gives back, also when it fails: the rcache hangs otherwise. */
static btl_ib_registration_t *ask(int cache, uint8_t *at, size_t size, uint32_t flags)
{
    btl_ib_registration_t *got = btl_ib_registration_get(&caches[cache], at, size, flags);

    if (got != NULL) {
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
    return registration != NULL;
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
        sum.withdrawn += caches[i].counts.withdrawn;
        sum.failures += caches[i].counts.failures;
    }
    assert_int_equal(sum.hits, hits);
    assert_int_equal(sum.misses, misses);
    assert_int_equal(sum.evictions, evictions);
    assert_int_equal(btl_ib_registration_unmapped(&sum), unmapped);
    assert_int_equal(sum.failures, failures);
    assert_int_equal(fake.regs - regs, misses);
    assert_int_equal(fake.deregs - deregs, evictions + unmapped);
    assert_int_equal(limit.regions, fake.mrs - mrs);
    assert_int_equal(limit.bytes, fake.mr_bytes - mr_bytes);
}

/* So much may be registered: `text` as btl_ib_max_pinned, `regions` as btl_ib_pin_max_regions,
 * `at_once` as btl_ib_pin_max_region; `keeps` as btl_ib_registration_cache. */
static void begin_with(const char *text, uint64_t regions, uint64_t at_once, bool keeps)
{
    const btl_ib_registration_host_t host = {
        .memory = 1u << 30, .lockable = UINT64_MAX, .processes = 1};

    btl_ib_registration_limit_init(&limit, text, &host, regions);
    for (uint32_t i = 0; i < CACHES; ++i) {
        memset(&caches[i], 0, sizeof(caches[i]));
        if (btl_ib_registration_cache_init(&caches[i], i, sides[i].t, &lock, &limit, at_once, keeps)
            != OPAL_SUCCESS) {
            skip(); /* Open MPI is not installed: this is in its source tree */
        }
    }
    /* Known once there is a cache. Where nobody says that memory is unmapped it keeps nothing. */
    if ((OPAL_MEMORY_MUNMAP_SUPPORT & opal_mem_hooks_support_level()) == 0) {
        print_message("skipped: Open MPI has no memory patcher here\n");
        skip();
    }
    regs = fake.regs;
    deregs = fake.deregs;
    mrs = fake.mrs;
    mr_bytes = fake.mr_bytes;
}

static void begin(const char *text, uint64_t regions)
{
    begin_with(text, regions, UINT64_C(1) << 46, true);
}

static int begin_all(void **state)
{
    (void) set_up(state);
    mapped = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true((void *) mapped != MAP_FAILED);
    /* Where pieces begin is known, and a large region begins within one. */
    memory = mapped + 8 * MIB - (uintptr_t) mapped % (8 * MIB) + 3 * PAGE;
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
    (void) munmap(mapped, SIZE);
    return tear_down(state);
}

TEST_WITH(test_hits_and_misses, begin_all, end_all)
{
    btl_ib_registration_t *first, *again, *within;

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

/* Of no bytes there is nothing to register. */
TEST_WITH(test_nothing, begin_all, end_all)
{
    begin("100%", 0);
    assert_null(ask(0, region(0), 0, LOCAL));
    compare(0, 0, 0, 0, 0);
}

/* What was not used for longest goes first, when there are too many. */
TEST_WITH(test_regions_make_room, begin_all, end_all)
{
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

TEST_WITH(test_bytes_make_room, begin_all, end_all)
{
    begin("40000", 0); /* two regions, and some */
    assert_true(use(0, 0));
    assert_true(use(0, 1));
    assert_true(use(0, 2));
    compare(0, 3, 1, 0, 0);
    assert_true(use(0, 1));
    compare(1, 3, 1, 0, 0);
}

/* What is in use stays: processors move the rest. */
TEST_WITH(test_nothing_can_go, begin_all, end_all)
{
    btl_ib_registration_t *a, *b;

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
TEST_WITH(test_other_devices_make_room, begin_all, end_all)
{
    btl_ib_registration_t *a;

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

TEST_WITH(test_device_has_no_more, begin_all, end_all)
{
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

TEST_WITH(test_memory_goes_away, begin_all, end_all)
{
    begin("100%", 0);
    assert_true(use(0, 0));
    (void) munmap(region(0), REGION);
    assert_true(use(0, 1));
    compare(0, 2, 0, 1, 0);
}

/* It is registered anew with the rights of both. */
TEST_WITH(test_other_rights, begin_all, end_all)
{
    begin("100%", 0);
    assert_true(use(0, 0));
    put(ask(0, region(0), REGION, MCA_BTL_REG_FLAG_REMOTE_READ));
    compare(0, 2, 0, 0, 0); /* the rcache gives the old one back when it is asked next */
    assert_true(use(0, 0));
    compare(1, 2, 0, 1, 0);
}

/* Each request registers, also what another has registered, and nothing stays. */
TEST_WITH(test_nothing_is_kept, begin_all, end_all)
{
    btl_ib_registration_t *first, *again;

    begin_with("100%", 0, UINT64_C(1) << 46, false);
    first = get(0, 0);
    again = get(0, 0);
    assert_non_null(first);
    assert_non_null(again);
    assert_ptr_not_equal(first, again);
    compare(0, 2, 0, 0, 0);
    put(first);
    compare(0, 2, 0, 1, 0);
    put(again);
    compare(0, 2, 0, 2, 0);
    assert_int_equal(limit.regions, 0);
    assert_true(use(0, 0));
    compare(0, 3, 0, 3, 0);
}

/* ---- in pieces ---- */

/* Each end of each piece, and where two meet. */
static void check_pieces(const btl_ib_registration_t *registration, uint8_t *base, size_t size,
                         size_t piece, int count)
{
    uint32_t keys[BTL_IB_PIECES_MAX] = {0};
    uint8_t *at = base;

    assert_int_equal(UINT64_C(1) << btl_ib_registration_keys(registration, base, size, keys),
                     piece);
    for (int i = 0; i < count; ++i) {
        const uintptr_t next = ((uintptr_t) at / piece + 1) * piece;
        const size_t length =
            (next < (uintptr_t) (base + size) ? next : (uintptr_t) (base + size)) - (uintptr_t) at;
        const struct ibv_mr *mr = btl_ib_registration_mem(registration, at, length);

        assert_non_null(mr);
        assert_int_equal(mr->rkey, keys[i]);
        assert_true((uint8_t *) mr->addr <= at && (uint8_t *) mr->addr + mr->length >= at + length);
        assert_ptr_equal(btl_ib_registration_mem(registration, at + length - 1, 1), mr);
        if (i < count - 1) {
            assert_null(btl_ib_registration_mem(registration, at + length - 1, 2));
        }
        at += length;
    }
    assert_ptr_equal(at, base + size);
}

/* A device that takes 2 MiB at once, and says so only when it is asked for more. */
TEST_WITH(test_pieces, begin_all, end_all)
{
    uint32_t keys[BTL_IB_PIECES_MAX];
    btl_ib_registration_t *large;

    begin("100%", 0);
    fake.mr_max = 2 * MIB;
    large = ask(0, memory, LARGE, LOCAL);
    assert_non_null(large);
    assert_int_equal(fake.reg_failures, 1);
    assert_int_equal(fake.mrs - mrs, 4); /* from within one to within another */
    assert_int_equal(limit.regions, 4);
    assert_int_equal(limit.bytes, LARGE);
    assert_int_equal(fake.mr_bytes - mr_bytes, LARGE);
    check_pieces(large, memory, LARGE, 2 * MIB, 4);
    assert_null(btl_ib_registration_mem(large, memory + LARGE - 1, 2));
    check_pieces(large, memory + 2 * MIB, 3 * MIB, 2 * MIB, 2);
    /* What lies within one piece has one key. */
    assert_int_equal(btl_ib_registration_keys(large, memory + 2 * MIB, 1000, keys), 0);
    assert_ptr_equal(ask(0, memory + MIB, 4 * MIB, LOCAL), large);
    /* It knows for the next time. */
    assert_non_null(ask(0, memory + 10 * MIB, LARGE, LOCAL));
    assert_int_equal(fake.reg_failures, 1);
    /* Room is made for all pieces. */
    assert_int_equal(limit.regions, 8);
}

/* What the device says beforehand. */
TEST_WITH(test_pieces_as_device_says, begin_all, end_all)
{
    fake.mr_max = 2 * MIB - 1;
    sides[0].t->attr.rdma_region_max = fake.mr_max;
    begin("100%", 0);
    check_pieces(ask(0, memory, LARGE, LOCAL), memory, LARGE, MIB, 7);
    assert_int_equal(fake.reg_failures, 0);
}

/* What the user says is a limit of pieces: a longer region is registered in several, at most as
 * many as a handle has keys for. */
TEST_WITH(test_pieces_as_user_says, begin_all, end_all)
{
    begin_with("100%", 0, 2 * MIB - 1, true);
    check_pieces(ask(0, memory, LARGE, LOCAL), memory, LARGE, MIB, 7);
    uint32_t keys[BTL_IB_PIECES_MAX];

    assert_int_equal(fake.mrs - mrs, 7);
    assert_non_null(ask(0, memory + 10 * MIB, 8 * MIB, LOCAL));
    assert_null(ask(0, memory + 10 * MIB, 8 * MIB + 1, LOCAL));
    /* The pages that it lies on may be more, and the pieces are no longer for that. */
    uint8_t *at = memory + 20 * MIB + 100;
    assert_int_equal(btl_ib_registration_keys(ask(0, at, 8 * MIB, LOCAL), at, 8 * MIB, keys), 20);
    assert_int_equal(caches[0].counts.failures, 1);
    assert_int_equal(limit.told, 1u << BTL_IB_REJECTED_REGION);
    assert_int_equal(fake.reg_failures, 0);
}

TEST_WITH(test_user_allows_no_region, begin_all, end_all)
{
    begin_with("100%", 0, 0, true);
    assert_null(ask(0, region(0), 1, LOCAL));
    compare(0, 0, 0, 0, 1);
}

/* After a refusal pieces are as large as two of them fit, whatever the device would take. */
TEST_WITH(test_pieces_are_large, begin_all, end_all)
{
    uint32_t keys[BTL_IB_PIECES_MAX];

    begin("100%", 0);
    fake.mr_max = 4 * MIB - 1;
    assert_int_equal(
        btl_ib_registration_keys(ask(0, memory, 4 * MIB, LOCAL), memory, 4 * MIB, keys),
        21); /* 2 MiB */
    assert_int_equal(fake.reg_failures, 1);
}

/* Not even in pieces: nothing is left of the attempts, and the next may be larger again. */
TEST_WITH(test_no_pieces, begin_all, end_all)
{
    begin("100%", 0);
    fake.mr_max = 64 * PAGE;
    assert_null(ask(0, memory, LARGE, LOCAL));
    assert_int_equal(fake.reg_failures, 3); /* all at once, 2 MiB, 1 MiB */
    compare(0, 0, 0, 0, 1);
    fake.mr_max = 0;
    assert_non_null(ask(0, memory, LARGE, LOCAL));
    compare(0, 1, 0, 0, 1);
}

/* There is no room for the second piece. */
TEST_WITH(test_pieces_without_room, begin_all, end_all)
{
    begin("100%", 0);
    assert_true(use(0, 0));
    fake.mr_max = 2 * MIB;
    fake.mrs_left = 1;
    assert_null(ask(0, memory + 8 * MIB, LARGE, LOCAL));
    assert_int_equal(fake.mrs - mrs, limit.regions);
    assert_int_equal(fake.mr_bytes - mr_bytes, limit.bytes);
    assert_int_equal(caches[0].counts.failures, 1);
    fake.mrs_left = -1;
}

/* Pieces count as regions. */
TEST_WITH(test_pieces_are_regions, begin_all, end_all)
{
    fake.mr_max = sides[0].t->attr.rdma_region_max = 2 * MIB;
    begin("100%", 4);
    assert_true(use(0, 0));
    put(ask(0, memory + 8 * MIB, LARGE, LOCAL));
    assert_int_equal(caches[0].counts.evictions, 1);
    assert_int_equal(limit.regions, 4);
    assert_true(use(0, 0));
    assert_int_equal(caches[0].counts.evictions, 2);
    assert_int_equal(limit.regions, 1);
}

/* The device, which checks keys and bounds, writes from one piece to another. */
TEST_WITH(test_write_by_pieces, begin_all, end_all)
{
    uint8_t *to = memory + 16 * MIB, *from = memory;
    btl_ib_registration_t *here, *there;
    uint32_t keys[BTL_IB_PIECES_MAX];
    op_t op = {0};

    begin("100%", 0);
    fake.mr_max = 2 * MIB;
    here = ask(0, from, LARGE, LOCAL);
    there = ask(1, to, LARGE, ALL);
    const uint8_t shift = btl_ib_registration_keys(there, to, LARGE, keys);
    for (size_t at = 0; at < LARGE; at += 1000 * 1000) {
        const uintptr_t remote = (uintptr_t) (to + at);
        const btl_ib_rdma_work_t work = {
            .to = sides[0].to[1],
            .kind = BTL_IB_RDMA_WRITE,
            .local = from + at,
            .mem = btl_ib_registration_mem(here, from + at, 1000),
            .remote = remote,
            .key = keys[btl_ib_device_region_piece((uintptr_t) to, remote, shift)],
            .size = 1000,
            .context = &op,
        };
        memset(from + at, (int) (at / 1000000 + 1), 1000);
        while (-EAGAIN == sides[0].t->ops->rdma->start(sides[0].t, &work)) {
            settle();
        }
        settle();
        assert_memory_equal(to + at, from + at, 1000);
    }
    assert_int_equal(op.events, 7);
    assert_int_equal(op.error, 0);
    for (int i = 0; i < 2; ++i) {
        sides[i].t->ops->stop(sides[i].t);
    }
}

TEST(test_plan)
{
    for (uint64_t size = PAGE; size < UINT64_C(1) << 40; size = size * 3 / 2 / PAGE * PAGE + PAGE) {
        for (uint64_t most = PAGE; most < UINT64_C(1) << 42; most *= 2) {
            const uintptr_t base = most - PAGE; /* a piece begins soon after it */
            const uint8_t shift = region_plan(base, size, most - 1);

            if (size <= most - 1) {
                assert_int_equal(shift, 0);
                continue;
            }
            assert_true(shift >= 12);
            assert_true(UINT64_C(1) << shift < most || size > UINT64_C(4) << shift || shift == 12);
            /* pieces are as large as they may be */
            assert_true(UINT64_C(2) << region_plan(base, 2 * size, size) > size);
            assert_in_range(region_pieces(base, size, shift), 1, BTL_IB_PIECES_MAX);
        }
    }
}

/* What Open MPI 4.1 forgets when it closes its components is not ours (LeakSanitizer asks this). */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:mca_base_component_repository_open\n";
}

int main(int argc, char **argv)
{
    int failed;

    if (opal_init(&argc, &argv) != OPAL_SUCCESS
        || mca_base_framework_open(&opal_rcache_base_framework, 0) != OPAL_SUCCESS) {
        return 1;
    }
    (void) btl_ib_biased_lock_init(&lock, false);
    failed = unit_run(NULL, NULL);
    (void) mca_base_framework_close(&opal_rcache_base_framework);
    (void) opal_finalize();
    return failed;
}
