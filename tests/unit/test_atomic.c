/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "btl_ib_rma.h"
#include "unit.h"

/* A word with neighbours, which nobody may touch. */
static union {
    uint8_t bytes[24];
    uint64_t words[3];
} row;

/* A number into the word, and out of it. */
static void store(uint64_t value, uint32_t size)
{
    uint32_t small = (uint32_t) value;

    memcpy(row.bytes + 8, size == sizeof(small) ? (void *) &small : (void *) &value, size);
}

static uint64_t load(uint32_t size)
{
    uint32_t small;

    memcpy(&small, row.bytes + 8, sizeof(small));
    return size == sizeof(small) ? small : row.words[1];
}

static uint64_t execute(uint32_t code, uint32_t type, uint64_t word, uint64_t operand,
                        uint64_t compare, uint64_t *after)
{
    uint32_t size = btl_ib_atomic_size(type);
    uint64_t before = 0;

    memset(&row, 0x5a, sizeof(row));
    store(word, size);
    assert_int_equal(btl_ib_atomic_execute(row.bytes + 8, code, type, operand, compare, &before),
                     0);
    *after = load(size);
    for (uint32_t i = 0; i < sizeof(row.bytes); i++) {
        if (i < 8 || i >= 8 + size) {
            assert_int_equal(row.bytes[i], 0x5a);
        }
    }
    return before;
}

/* ---- integers ---- */

static int64_t wanted(uint32_t code, int64_t a, int64_t b, int64_t compare)
{
    switch (code) {
    case BTL_IB_ATOMIC_ADD:
        return (int64_t) ((uint64_t) a + (uint64_t) b);
    case BTL_IB_ATOMIC_AND:
        return a & b;
    case BTL_IB_ATOMIC_OR:
        return a | b;
    case BTL_IB_ATOMIC_XOR:
        return a ^ b;
    case BTL_IB_ATOMIC_LAND:
        return a && b;
    case BTL_IB_ATOMIC_LOR:
        return a || b;
    case BTL_IB_ATOMIC_LXOR:
        return !a != !b;
    case BTL_IB_ATOMIC_SWAP:
        return b;
    case BTL_IB_ATOMIC_MIN:
        return a < b ? a : b;
    case BTL_IB_ATOMIC_MAX:
        return a > b ? a : b;
    default:
        return a == compare ? b : a;
    }
}

TEST(test_integers)
{
    static const int64_t values[] = {0,         1,         -1,        2,         7,
                                     INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 0x100000000};
    enum { VALUES = sizeof(values) / sizeof(values[0]) };
    uint64_t after;

    for (uint32_t code = BTL_IB_ATOMIC_ADD; code <= BTL_IB_ATOMIC_CSWAP; code++) {
        for (uint32_t i = 0; i < VALUES * VALUES * VALUES; i++) {
            int64_t a = values[i % VALUES], b = values[i / VALUES % VALUES];
            int64_t c = values[i / VALUES / VALUES];
            uint64_t before = execute(code, BTL_IB_ATOMIC_INT64, (uint64_t) a, (uint64_t) b,
                                      (uint64_t) c, &after);
            assert_int_equal(before, (uint64_t) a);
            assert_int_equal(after, (uint64_t) wanted(code, a, b, c));
            /* Of 32 bits, what lies above is not looked at. */
            before = execute(code, BTL_IB_ATOMIC_INT32, (uint64_t) a, (uint64_t) b, (uint64_t) c,
                             &after);
            assert_int_equal(before, (uint32_t) a);
            assert_int_equal(after, (uint32_t) wanted(code, (int32_t) a, (int32_t) b, (int32_t) c));
        }
    }
}

/* ---- floating point ---- */

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static uint64_t float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static double wanted_double(uint32_t code, double a, double b, double compare)
{
    switch (code) {
    case BTL_IB_ATOMIC_ADD:
        return a + b;
    case BTL_IB_ATOMIC_SWAP:
        return b;
    case BTL_IB_ATOMIC_MIN:
        return b < a ? b : a;
    case BTL_IB_ATOMIC_MAX:
        return b < a ? a : b;
    default:
        return bits_of(a) == bits_of(compare) ? b : a;
    }
}

TEST(test_floating)
{
    static const uint32_t codes[] = {BTL_IB_ATOMIC_ADD, BTL_IB_ATOMIC_SWAP, BTL_IB_ATOMIC_MIN,
                                     BTL_IB_ATOMIC_MAX, BTL_IB_ATOMIC_CSWAP};
    static const double values[] = {0.0, -0.0, 1.5, -2.25, 1e30, -1e-30, INFINITY, -INFINITY};
    enum { VALUES = sizeof(values) / sizeof(values[0]) };
    uint64_t after;

    for (int k = 0; k < 5; k++) {
        for (uint32_t i = 0; i < VALUES * VALUES * VALUES; i++) {
            double a = values[i % VALUES], b = values[i / VALUES % VALUES];
            double c = values[i / VALUES / VALUES];
            if (isinf(a) && isinf(b) && a != b) {
                continue; /* which NaN that makes is not said */
            }
            assert_int_equal(
                execute(codes[k], BTL_IB_ATOMIC_DOUBLE, bits_of(a), bits_of(b), bits_of(c), &after),
                bits_of(a));
            assert_int_equal(after, bits_of(wanted_double(codes[k], a, b, c)));
            float fa = (float) a, fb = (float) b, fc = (float) c;
            assert_int_equal(execute(codes[k], BTL_IB_ATOMIC_FLOAT, float_bits(fa), float_bits(fb),
                                     float_bits(fc), &after),
                             float_bits(fa));
            float sum = fa + fb;
            assert_int_equal(after, float_bits(codes[k] == BTL_IB_ATOMIC_ADD
                                                   ? sum
                                                   : (float) wanted_double(codes[k], fa, fb, fc)));
        }
    }
}

/* ---- what is refused ---- */

TEST(test_refused)
{
    uint64_t result = 77;

    memset(&row, 0x5a, sizeof(row));
    for (uint32_t code = 0; code < 300; code++) {
        for (uint32_t type = 0; type < 300; type++) {
            bool floating = type == BTL_IB_ATOMIC_FLOAT || type == BTL_IB_ATOMIC_DOUBLE;
            bool bits = code >= BTL_IB_ATOMIC_AND && code <= BTL_IB_ATOMIC_LXOR;
            bool there = code >= BTL_IB_ATOMIC_ADD && code <= BTL_IB_ATOMIC_CSWAP
                         && type >= BTL_IB_ATOMIC_INT32 && type <= BTL_IB_ATOMIC_DOUBLE
                         && !(floating && bits);
            assert_int_equal(btl_ib_atomic_supported(code, type), there);
            if (!there) {
                assert_int_equal(btl_ib_atomic_execute(row.words, code, type, 1, 1, &result),
                                 -EINVAL);
            }
        }
    }
    for (uint32_t type = BTL_IB_ATOMIC_INT32; type <= BTL_IB_ATOMIC_DOUBLE; type++) {
        for (uint32_t at = 1; at < 8; at++) {
            if (at % btl_ib_atomic_size(type) != 0) {
                assert_int_equal(
                    btl_ib_atomic_execute(row.bytes + at, BTL_IB_ATOMIC_SWAP, type, 0, 0, &result),
                    -EINVAL);
            }
        }
    }
    assert_int_equal(result, 77);
    for (uint32_t i = 0; i < sizeof(row.bytes); i++) {
        assert_int_equal(row.bytes[i], 0x5a);
    }
}

/* ---- threads ---- */

enum { THREADS = 4, TIMES = 20000 };

typedef struct shared {
    uint64_t sum;
    uint32_t halves[2];
    double real;
    uint64_t bits;
    uint64_t swapped;
    uint64_t counted; /* by compare-and-swap */
} shared_t;

static shared_t shared;

typedef struct worker {
    uint64_t index;
    uint64_t swaps; /* exclusive or of all that was put in and taken out */
} worker_t;

static uint64_t on(void *word, uint32_t code, uint32_t type, uint64_t operand, uint64_t compare)
{
    uint64_t before = 0;

    if (btl_ib_atomic_execute(word, code, type, operand, compare, &before) != 0) {
        fail_msg("code %u type %u", code, type);
    }
    return before;
}

/* Half of the additions are the CPU's own, as another process' would be. */
static void *work(void *arg)
{
    worker_t *worker = arg;
    uint64_t mine = UINT64_C(1) << worker->index;

    for (uint64_t i = 0; i < TIMES; i++) {
        if (i % 2) {
            __atomic_fetch_add(&shared.sum, 3, __ATOMIC_RELAXED);
        } else {
            on(&shared.sum, BTL_IB_ATOMIC_ADD, BTL_IB_ATOMIC_INT64, 3, 0);
        }
        on(&shared.halves[worker->index % 2], BTL_IB_ATOMIC_ADD, BTL_IB_ATOMIC_INT32, 1, 0);
        on(&shared.real, BTL_IB_ATOMIC_ADD, BTL_IB_ATOMIC_DOUBLE, bits_of(0.5), 0);
        on(&shared.bits, BTL_IB_ATOMIC_XOR, BTL_IB_ATOMIC_INT64, mine, 0);
        uint64_t token = (i << 8 | worker->index) * UINT64_C(0x9e3779b97f4a7c15);
        worker->swaps ^= token;
        worker->swaps ^= on(&shared.swapped, BTL_IB_ATOMIC_SWAP, BTL_IB_ATOMIC_INT64, token, 0);
        uint64_t seen = __atomic_load_n(&shared.counted, __ATOMIC_RELAXED), before;
        while (
            (before = on(&shared.counted, BTL_IB_ATOMIC_CSWAP, BTL_IB_ATOMIC_INT64, seen + 1, seen))
            != seen) {
            seen = before;
        }
    }
    return NULL;
}

TEST(test_threads)
{
    pthread_t threads[THREADS];
    worker_t workers[THREADS] = {{0}};
    uint64_t swaps = 0;

    memset(&shared, 0, sizeof(shared));
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i].index = i;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        swaps ^= workers[i].swaps;
    }
    assert_int_equal(shared.sum, 3 * THREADS * TIMES);
    assert_int_equal(shared.halves[0], THREADS / 2 * TIMES);
    assert_int_equal(shared.halves[1], THREADS / 2 * TIMES);
    assert_true(shared.real == 0.5 * THREADS * TIMES);
    assert_int_equal(shared.bits, 0);
    assert_int_equal(swaps, shared.swapped);
    assert_int_equal(shared.counted, THREADS * TIMES);
}

UNIT_MAIN(NULL, NULL)
