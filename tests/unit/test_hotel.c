/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <stdlib.h>

#include "btl_ib_hotel.h"
#include "unit.h"

/* Called with each guest that expires. */
typedef void (*evicted_fn_t)(void *context, btl_ib_hotel_guest_t *guest);

/* Take at most `budget` guests. Returns how many were. */
static uint32_t evict(btl_ib_hotel_t *hotel, uint64_t now, uint32_t budget, evicted_fn_t taken,
                      void *context)
{
    btl_ib_hotel_guest_t *guest;
    uint32_t count = 0;

    if (!btl_ib_hotel_evictions_begin(hotel, now)) {
        return 0;
    }
    while (count < budget && (guest = btl_ib_hotel_evict(hotel)) != NULL) {
        count++;
        taken(context, guest);
    }
    btl_ib_hotel_evictions_end(hotel);
    return count;
}

#define NO_BUDGET UINT32_MAX
#define HOUR      UINT64_C(3600000000)

static uint64_t random_state;

/* xorshift64*, so that a failure repeats. */
static uint64_t random64(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(2685821657736338717);
}

static uint64_t random_below(uint64_t limit)
{
    return random64() % limit;
}

/* ---- one behaviour after the other ---- */

#define LOG_MAX 1000

/* Who was evicted, in order. */
typedef struct evicted {
    btl_ib_hotel_guest_t *guest[LOG_MAX];
    uint32_t count;
} evicted_t;

static void note(void *context, btl_ib_hotel_guest_t *guest)
{
    evicted_t *evicted = context;

    assert_true(evicted->count < LOG_MAX);
    assert_false(btl_ib_hotel_guest_is_in(guest));
    evicted->guest[evicted->count++] = guest;
}

static void must_not_happen(void *context, btl_ib_hotel_guest_t *guest)
{
    fail_msg("somebody was evicted");
}

static btl_ib_hotel_t hotel;
static btl_ib_hotel_guest_t guests[LOG_MAX];

static int setup(void **state)
{
    random_state = 88172645463325252u;
    btl_ib_hotel_init(&hotel, 0);
    for (size_t i = 0; i < LOG_MAX; i++) {
        btl_ib_hotel_guest_init(&guests[i]);
    }
    return 0;
}

TEST_WITH(test_empty, setup, NULL)
{
    assert_int_equal(btl_ib_hotel_next_due(&hotel), UINT64_MAX);
    assert_int_equal(evict(&hotel, 5, NO_BUDGET, must_not_happen, NULL), 0);
    assert_int_equal(evict(&hotel, UINT64_MAX, NO_BUDGET, must_not_happen, NULL), 0);
    assert_int_equal(btl_ib_hotel_next_due(&hotel), UINT64_MAX);
    assert_false(btl_ib_hotel_guest_is_in(&guests[0]));
    btl_ib_hotel_checkout(&hotel, &guests[0]);
    assert_false(btl_ib_hotel_guest_is_in(&guests[0]));
}

/* Around every digit boundary of the hotel, from starts on either side of it: not one microsecond
 * early, not one late, wherever the clock stopped on its way. */
TEST_WITH(test_exact, setup, NULL)
{
    static const int64_t near[] = {-65, -64, -63, -2, -1, 0, 1, 2, 63, 64, 65};
    const size_t nears = sizeof near / sizeof near[0];

    for (unsigned bits = 7; bits < 64; bits++) {
        for (size_t i = 0; i < nears * nears; i++) {
            uint64_t start = (UINT64_C(1) << bits) + (uint64_t) near[i / nears];
            uint64_t due = start + (UINT64_C(1) << (bits - 1)) + (uint64_t) near[i % nears];
            evicted_t evicted = {.count = 0};

            if (due <= start) {
                continue;
            }
            btl_ib_hotel_init(&hotel, start);
            btl_ib_hotel_checkin(&hotel, &guests[0], due);
            assert_true(btl_ib_hotel_guest_is_in(&guests[0]));
            assert_true(btl_ib_hotel_next_due(&hotel) <= due);
            evict(&hotel, start + (due - start) / 2 - 1, 9, must_not_happen, NULL);
            evict(&hotel, due - 1, 9, must_not_happen, NULL);
            assert_true(btl_ib_hotel_next_due(&hotel) <= due);
            assert_int_equal(evict(&hotel, due, 9, note, &evicted), 1);
            assert_ptr_equal(evicted.guest[0], &guests[0]);
            assert_int_equal(guests[0].due, due);
            assert_int_equal(btl_ib_hotel_next_due(&hotel), UINT64_MAX);
        }
    }
}

/* A caller that sleeps until next_due() gets to every guest, on time and in few steps. */
TEST_WITH(test_sleeping, setup, NULL)
{
    uint64_t now = 0;
    uint32_t steps = 0;
    evicted_t evicted = {.count = 0};

    for (size_t i = 0; i < LOG_MAX; i++) {
        btl_ib_hotel_checkin(&hotel, &guests[i], random64() >> random_below(60));
    }
    while (btl_ib_hotel_next_due(&hotel) != UINT64_MAX) {
        uint32_t before = evicted.count;

        assert_true(btl_ib_hotel_next_due(&hotel) > now || steps == 0);
        now = btl_ib_hotel_next_due(&hotel);
        evict(&hotel, now, NO_BUDGET, note, &evicted);
        for (uint32_t i = before; i < evicted.count; i++) {
            assert_int_equal(evicted.guest[i]->due, now);
        }
        steps++;
    }
    assert_int_equal(evicted.count, LOG_MAX);
    assert_true(steps <= LOG_MAX * BTL_IB_HOTEL_FLOORS);
}

/* One jump over everything: all of it, the earliest first. A hotel that went through its ticks
 * would not come back. */
TEST_WITH(test_jump, setup, NULL)
{
    evicted_t evicted = {.count = 0};

    for (size_t i = 0; i < LOG_MAX; i++) {
        btl_ib_hotel_checkin(&hotel, &guests[i], 1 + (random64() >> 1 >> random_below(60)));
    }
    assert_int_equal(evict(&hotel, UINT64_C(1) << 63, NO_BUDGET, note, &evicted), LOG_MAX);
    for (size_t i = 1; i < LOG_MAX; i++) {
        assert_true(evicted.guest[i - 1]->due <= evicted.guest[i]->due);
    }
    for (uint64_t i = 1; i < 100000; i++) {
        evicted.count = 0;
        btl_ib_hotel_checkin(&hotel, &guests[0], (UINT64_C(1) << 63) + i * HOUR);
        assert_int_equal(evict(&hotel, (UINT64_C(1) << 63) + i * HOUR, NO_BUDGET, note, &evicted),
                         1);
    }
}

TEST_WITH(test_remove, setup, NULL)
{
    evicted_t evicted = {.count = 0};

    /* Two in one room: the one that is left must be found. */
    btl_ib_hotel_checkin(&hotel, &guests[0], 7777);
    btl_ib_hotel_checkin(&hotel, &guests[1], 7777);
    btl_ib_hotel_checkout(&hotel, &guests[0]);
    assert_false(btl_ib_hotel_guest_is_in(&guests[0]));
    assert_true(btl_ib_hotel_guest_is_in(&guests[1]));
    btl_ib_hotel_checkout(&hotel, &guests[0]);
    assert_int_equal(evict(&hotel, 8000, NO_BUDGET, note, &evicted), 1);
    assert_ptr_equal(evicted.guest[0], &guests[1]);
    /* With the last one nothing is due any more. */
    btl_ib_hotel_checkin(&hotel, &guests[0], 9000);
    btl_ib_hotel_checkin(&hotel, &guests[1], 10);
    btl_ib_hotel_checkout(&hotel, &guests[1]);
    btl_ib_hotel_checkout(&hotel, &guests[0]);
    assert_int_equal(btl_ib_hotel_next_due(&hotel), UINT64_MAX);
    evict(&hotel, 9000, NO_BUDGET, must_not_happen, NULL);
    /* A time that nobody waits for any more brings one call, not a call every microsecond. */
    btl_ib_hotel_checkin(&hotel, &guests[0], 9100);
    btl_ib_hotel_checkin(&hotel, &guests[1], 2 * HOUR);
    btl_ib_hotel_checkout(&hotel, &guests[0]);
    evict(&hotel, 9100, NO_BUDGET, must_not_happen, NULL);
    assert_true(btl_ib_hotel_next_due(&hotel) > HOUR);
}

TEST_WITH(test_clock_goes_back, setup, NULL)
{
    evicted_t evicted = {.count = 0};

    btl_ib_hotel_checkin(&hotel, &guests[0], 5000);
    btl_ib_hotel_checkin(&hotel, &guests[1], 6000);
    assert_int_equal(evict(&hotel, 5500, NO_BUDGET, note, &evicted), 1);
    evict(&hotel, 100, NO_BUDGET, must_not_happen, NULL);
    /* Taken as 5500, so this is due. */
    btl_ib_hotel_checkin(&hotel, &guests[0], 5400);
    assert_int_equal(evict(&hotel, 200, NO_BUDGET, note, &evicted), 1);
    evict(&hotel, 5999, NO_BUDGET, must_not_happen, NULL);
    assert_int_equal(evict(&hotel, 6000, NO_BUDGET, note, &evicted), 1);
    /* The same after a call that had nothing to do. */
    evict(&hotel, 7000, NO_BUDGET, must_not_happen, NULL);
    btl_ib_hotel_checkin(&hotel, &guests[0], 6999);
    assert_int_equal(evict(&hotel, 6500, NO_BUDGET, note, &evicted), 1);
}

TEST_WITH(test_budget, setup, NULL)
{
    evicted_t evicted = {.count = 0};

    for (size_t i = 0; i < 10; i++) {
        btl_ib_hotel_checkin(&hotel, &guests[i], 100 + 7 * i);
    }
    assert_int_equal(evict(&hotel, 200, 0, note, &evicted), 0);
    assert_int_equal(evict(&hotel, 200, 3, note, &evicted), 3);
    assert_true(btl_ib_hotel_next_due(&hotel) <= 121);
    /* One that waits for budget can still be cancelled, or moved. */
    btl_ib_hotel_checkout(&hotel, &guests[4]);
    btl_ib_hotel_checkin(&hotel, &guests[5], 300);
    assert_int_equal(evict(&hotel, 200, 3, note, &evicted), 3);
    assert_int_equal(evict(&hotel, 200, 3, note, &evicted), 2);
    for (size_t i = 0, expected = 0; i < 8; i++, expected++) {
        expected += expected == 4 ? 2 : 0;
        assert_ptr_equal(evicted.guest[i], &guests[expected]);
    }
    assert_true(btl_ib_hotel_guest_is_in(&guests[5]));
    assert_true(btl_ib_hotel_next_due(&hotel) > 200);
}

/* ---- callbacks that come back ---- */

static void come_back(void *context, btl_ib_hotel_guest_t *guest)
{
    btl_ib_hotel_checkin(&hotel, guest, *(uint64_t *) context);
}

TEST_WITH(test_come_back_late, setup, NULL)
{
    /* Before, at, and between the last time and this one: always one round a call. */
    uint64_t dues[] = {0, 2000, 1999, 1001};

    for (size_t i = 0; i < sizeof dues / sizeof dues[0]; i++) {
        btl_ib_hotel_init(&hotel, 1000);
        btl_ib_hotel_checkin(&hotel, &guests[0], 1500);
        btl_ib_hotel_checkin(&hotel, &guests[1], 1600);
        for (int call = 0; call < 5; call++) {
            assert_int_equal(evict(&hotel, 2000, NO_BUDGET, come_back, &dues[i]), 2);
            assert_true(btl_ib_hotel_next_due(&hotel) <= dues[i]);
        }
        btl_ib_hotel_checkout(&hotel, &guests[0]);
        btl_ib_hotel_checkout(&hotel, &guests[1]);
        assert_int_equal(btl_ib_hotel_next_due(&hotel), UINT64_MAX);
    }
}

static void remove_neighbour(void *context, btl_ib_hotel_guest_t *guest)
{
    btl_ib_hotel_guest_t *neighbour = guest + (guest == &guests[0] ? 1 : -1);

    ++*(int *) context;
    btl_ib_hotel_checkout(&hotel, neighbour);
}

TEST_WITH(test_remove_another, setup, NULL)
{
    int count = 0;

    btl_ib_hotel_checkin(&hotel, &guests[0], 70);
    btl_ib_hotel_checkin(&hotel, &guests[1], 70);
    assert_int_equal(evict(&hotel, 100, NO_BUDGET, remove_neighbour, &count), 1);
    assert_int_equal(count, 1);
    assert_int_equal(btl_ib_hotel_next_due(&hotel), UINT64_MAX);
}

/* As an engine does: the guest is freed with its owner (the sanitizer watches). */
static void free_owner(void *context, btl_ib_hotel_guest_t *guest)
{
    free(guest);
}

TEST_WITH(test_owner_dies, setup, NULL)
{
    for (uint64_t i = 0; i < 100; i++) {
        btl_ib_hotel_guest_t *guest = malloc(sizeof *guest);

        assert_non_null(guest);
        btl_ib_hotel_guest_init(guest);
        btl_ib_hotel_checkin(&hotel, guest, i * i);
    }
    assert_int_equal(evict(&hotel, 5000, NO_BUDGET, free_owner, NULL), 71);
    assert_int_equal(evict(&hotel, 10000, NO_BUDGET, free_owner, NULL), 29);
}

static void expire_more(void *context, btl_ib_hotel_guest_t *guest)
{
    note(context, guest);
    evict(&hotel, guest->due + 50, 2, expire_more, context);
}

TEST_WITH(test_nested, setup, NULL)
{
    evicted_t evicted = {.count = 0};

    for (size_t i = 0; i < 100; i++) {
        btl_ib_hotel_checkin(&hotel, &guests[i], 10 * i + 1);
    }
    evict(&hotel, 1, 2, expire_more, &evicted);
    assert_int_equal(evicted.count, 100);
    for (size_t i = 0; i < 100; i++) {
        assert_ptr_equal(evicted.guest[i], &guests[i]);
    }
    assert_int_equal(btl_ib_hotel_next_due(&hotel), UINT64_MAX);
}

/* ---- against a model that cannot be wrong ---- */

#define MODEL_TIMERS 60

typedef struct model {
    btl_ib_hotel_guest_t guest[MODEL_TIMERS];
    bool is_in[MODEL_TIMERS];
    uint64_t due[MODEL_TIMERS];
    uint32_t since[MODEL_TIMERS]; /* the expire call during which it came; even: between calls */
    uint64_t now;
    uint32_t call; /* odd while a call runs */
    uint32_t taken;
} model_t;

static uint64_t random_due(const model_t *m)
{
    switch (random_below(8)) {
    case 0:
        return m->now - random_below(m->now < 1000 ? m->now + 1 : 1000);
    case 1:
        return m->now + random_below(10);
    case 2:
        return m->now + random_below(10 * HOUR);
    case 3:
        return m->now + (random64() >> 20 >> random_below(40));
    default:
        return m->now + random_below(20000);
    }
}

static void model_act(model_t *m)
{
    size_t i = random_below(MODEL_TIMERS);

    if (random_below(3) > 0) {
        m->is_in[i] = true;
        m->due[i] = random_due(m);
        m->since[i] = m->call;
        btl_ib_hotel_checkin(&hotel, &m->guest[i], m->due[i]);
    } else {
        m->is_in[i] = false;
        btl_ib_hotel_checkout(&hotel, &m->guest[i]);
    }
    assert_int_equal(btl_ib_hotel_guest_is_in(&m->guest[i]), m->is_in[i]);
}

static bool model_is_due(const model_t *m, size_t i)
{
    return m->is_in[i] && m->due[i] <= m->now && m->since[i] != m->call;
}

static void model_expired(void *context, btl_ib_hotel_guest_t *guest)
{
    model_t *m = context;
    size_t i = (size_t) (guest - m->guest);

    assert_true(i < MODEL_TIMERS);
    assert_int_equal(guest->due, m->due[i]);
    assert_true(model_is_due(m, i));
    assert_false(btl_ib_hotel_guest_is_in(guest));
    m->is_in[i] = false;
    m->taken++;
    for (uint64_t acts = random_below(4); acts > 0; acts--) {
        model_act(m);
    }
}

static void model_expire(model_t *m)
{
    uint32_t budget = random_below(4) > 0 ? NO_BUDGET : (uint32_t) random_below(4);
    uint32_t count;

    m->call++;
    m->taken = 0;
    count = evict(&hotel, m->now, budget, model_expired, m);
    assert_int_equal(count, m->taken);
    assert_true(count <= budget);
    for (size_t i = 0; i < MODEL_TIMERS; i++) {
        assert_true(count == budget || !model_is_due(m, i));
    }
    m->call++;
}

static void model_check_next(const model_t *m)
{
    uint64_t next = btl_ib_hotel_next_due(&hotel);
    bool any = false;

    for (size_t i = 0; i < MODEL_TIMERS; i++) {
        assert_int_equal(btl_ib_hotel_guest_is_in(&m->guest[i]), m->is_in[i]);
        if (m->is_in[i]) {
            any = true;
            assert_true(next <= m->due[i]);
        }
    }
    assert_true(any || next == UINT64_MAX);
}

TEST_WITH(test_model, setup, NULL)
{
    static model_t m;
    uint64_t total = 0;

    for (size_t i = 0; i < MODEL_TIMERS; i++) {
        btl_ib_hotel_guest_init(&m.guest[i]);
    }
    for (int turn = 0; turn < 200000; turn++) {
        for (uint64_t acts = random_below(4); acts > 0; acts--) {
            model_act(&m);
        }
        switch (random_below(10)) {
        case 0:
            m.now += random_below(2) > 0 ? random_below(3 * HOUR) : 0;
            break;
        case 1:
            /* As the simulator jumps. */
            if (btl_ib_hotel_next_due(&hotel) != UINT64_MAX
                && btl_ib_hotel_next_due(&hotel) > m.now) {
                m.now = btl_ib_hotel_next_due(&hotel);
            }
            break;
        default:
            m.now += random_below(200);
            break;
        }
        model_expire(&m);
        model_check_next(&m);
        total += m.taken;
    }
    /* The test tests something. */
    assert_true(total > 100000);
}

UNIT_MAIN(NULL, NULL)
