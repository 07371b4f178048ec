/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <errno.h>
#include <string.h>

#include "btl_ib_seq_window.h"
#include "btl_ib_wire.h"
#include "support.h"
#include "unit.h"

#define LIMIT BTL_IB_WINDOW_LIMIT

/* Where sequence spaces start in these tests: before, at and behind every kind of wrap. */
static const uint32_t starts[] = {
    0,          1,          63,         64,         12345,      0x7fffffc0,
    0x7fffffff, 0x80000000, 0xffffbfff, 0xffffffc0, 0xfffffffe, 0xffffffff,
};
enum { STARTS = sizeof(starts) / sizeof(starts[0]) };

static test_memory_t memory;
static const btl_ib_mem_t *mem = &memory.mem;
static char segments[40000]; /* only their addresses are used */

static int setup(void **state)
{
    test_memory_init(&memory);
    return 0;
}

static int teardown(void **state)
{
    return memory.live == 0 ? 0 : -1;
}

TEST_WITH(test_before, setup, teardown)
{
    for (int i = 0; i < STARTS; i++) {
        uint32_t s = starts[i];
        assert_false(btl_ib_seq_before(s, s));
        assert_true(btl_ib_seq_before(s, s + 1));
        assert_false(btl_ib_seq_before(s + 1, s));
        assert_true(btl_ib_seq_before(s, s + 0x7fffffff));
        assert_false(btl_ib_seq_before(s + 0x7fffffff, s));
    }
}

/* ---- the sending side ---- */

/* A place was reserved. */
static uint32_t push_reserved(btl_ib_tx_window_t *window, void *segment)
{
    const uint32_t seq = btl_ib_tx_window_extend(window, 1);

    btl_ib_tx_window_put(window, seq, segment);
    return seq;
}

static void push(btl_ib_tx_window_t *window, void *segment)
{
    uint32_t next = window->next;

    assert_int_equal(btl_ib_tx_window_reserve(window, 1, mem), 0);
    assert_int_equal(push_reserved(window, segment), next);
    assert_int_equal(window->next, next + 1);
}

/* The ring grows with what is in flight, not with what was ever sent. */
TEST_WITH(test_tx_memory_bounded, setup, teardown)
{
    btl_ib_tx_window_t window;

    btl_ib_tx_window_init(&window, 0xfffffff0);
    for (uint32_t n = 0; n < 10000; n++) {
        push(&window, &segments[n]);
        if (n >= 7) {
            btl_ib_tx_window_clear(&window, window.first, 1);
        }
    }
    assert_true(window.size >= 8 && window.size <= 16);
    assert_true(memory.calls <= 2);
    btl_ib_tx_window_drop(&window, mem);
}

/* The oldest one missing holds `first` back; with it all that were waiting go. */
TEST_WITH(test_tx_out_of_order, setup, teardown)
{
    for (int i = 0; i < STARTS; i++) {
        btl_ib_tx_window_t window;
        btl_ib_tx_window_init(&window, starts[i]);
        for (uint32_t n = 0; n < 100; n++) {
            push(&window, &segments[n]);
        }
        for (uint32_t n = 50; n > 0; n--) {
            btl_ib_tx_window_clear(&window, starts[i] + 2 * n - 1, 1);
            assert_int_equal(window.first, starts[i]);
        }
        btl_ib_tx_window_clear(&window, starts[i], 1);
        assert_int_equal(window.first, starts[i] + 2);
        for (uint32_t n = 98; n > 2; n -= 2) {
            btl_ib_tx_window_clear(&window, starts[i] + n, 1);
            assert_int_equal(window.first, starts[i] + 2);
        }
        /* Growing keeps the gaps. */
        for (uint32_t n = 100; n < 300; n++) {
            push(&window, &segments[n]);
        }
        assert_null(btl_ib_tx_window_at(&window, starts[i] + 3));
        assert_ptr_equal(btl_ib_tx_window_at(&window, starts[i] + 2), &segments[2]);
        btl_ib_tx_window_clear(&window, starts[i] + 2, 1);
        assert_int_equal(window.first, starts[i] + 100);
        assert_int_equal(window.next, starts[i] + 300);
        btl_ib_tx_window_drop(&window, mem);
        assert_int_equal(window.first, window.next);
        assert_null(btl_ib_tx_window_at(&window, starts[i] + 150));
        assert_int_equal(memory.live, 0);
    }
}

/* A shrink with somebody in flight, and growth without memory, change nothing. */
TEST_WITH(test_tx_memory, setup, teardown)
{
    btl_ib_tx_window_t window;

    btl_ib_tx_window_init(&window, 0xfffffffc);
    memory.allowed = 0;
    assert_int_equal(btl_ib_tx_window_reserve(&window, 1, mem), -ENOMEM);
    btl_ib_tx_window_shrink(&window, mem);
    memory.allowed = 1;
    uint32_t n = 0;
    while (btl_ib_tx_window_reserve(&window, 1, mem) == 0) {
        push_reserved(&window, &segments[n++]);
    }
    assert_int_equal(n, window.size);
    btl_ib_tx_window_shrink(&window, mem);
    for (uint32_t s = 0; s < n; s++) {
        assert_ptr_equal(btl_ib_tx_window_at(&window, 0xfffffffc + s), &segments[s]);
    }
    memory.allowed = UINT64_MAX;
    push(&window, &segments[n]);
    for (uint32_t s = 0; s <= n; s++) {
        assert_ptr_equal(btl_ib_tx_window_at(&window, 0xfffffffc + s), &segments[s]);
    }
    assert_int_equal(memory.live, 1);
    btl_ib_tx_window_drop(&window, mem);
}

/* The model: what is in flight under the n-th sequence of all, without any wrap. */
typedef struct tx_model {
    void *at[60000];
    uint32_t base;
    uint32_t first;
    uint32_t next;
} tx_model_t;

static void tx_model_clear(tx_model_t *m, btl_ib_tx_window_t *window, uint32_t n)
{
    if (m->at[n] == NULL) {
        return;
    }
    btl_ib_tx_window_clear(window, m->base + n, 1);
    m->at[n] = NULL;
    while (m->first < m->next && m->at[m->first] == NULL) {
        m->first++;
    }
}

/* All from that one on that are in flight one after the other, at most 5. */
static void tx_model_clear_run(tx_model_t *m, btl_ib_tx_window_t *window, uint32_t n)
{
    uint32_t run = 0;

    while (run < 5 && n + run < m->next && m->at[n + run] != NULL) {
        run++;
    }
    if (run == 0) {
        return;
    }
    btl_ib_tx_window_clear(window, m->base + n, run);
    memset(&m->at[n], 0, run * sizeof(m->at[0]));
    while (m->first < m->next && m->at[m->first] == NULL) {
        m->first++;
    }
}

static void tx_model_step(tx_model_t *m, btl_ib_tx_window_t *window, test_random_t *r)
{
    uint32_t flight = m->next - m->first;

    switch (test_random_below(r, 8)) {
    case 0:
        if (flight > 0 && m->at[m->next - 1] != NULL) {
            btl_ib_tx_window_unpush(window);
            m->at[--m->next] = NULL;
        }
        break;
    case 1:
        if (flight > 0) {
            tx_model_clear(m, window, m->first);
        } else {
            btl_ib_tx_window_jump(window, 3);
            m->first += 3;
            m->next += 3;
        }
        btl_ib_tx_window_shrink(window, mem);
        break;
    case 2:
        if (flight > 0) {
            tx_model_clear_run(m, window, m->first + test_random_below(r, flight));
        }
        break;
    case 3:
    case 4:
        if (flight > 0) {
            tx_model_clear(m, window, m->first + test_random_below(r, flight));
        }
        break;
    default:
        memory.allowed = test_random_below(r, 10) == 0 ? 0 : UINT64_MAX;
        if (btl_ib_tx_window_reserve(window, 1, mem) == 0) {
            assert_in_range(btl_ib_tx_window_room(window), 1, window->size);
            m->at[m->next] = &segments[test_random_below(r, sizeof(segments))];
            assert_int_equal(push_reserved(window, m->at[m->next]), m->base + m->next);
            m->next++;
        }
        break;
    }
}

TEST_WITH(test_tx_model, setup, teardown)
{
    static tx_model_t m;
    test_random_t r = TEST_RANDOM_SEED;
    btl_ib_tx_window_t window;

    memset(&m, 0, sizeof(m));
    m.base = 0xffffffff - 10000;
    btl_ib_tx_window_init(&window, m.base);
    for (int step = 0; step < 200000 && m.next < 59000; step++) {
        tx_model_step(&m, &window, &r);
        if (m.next - m.first > 1500) { /* the oldest was acknowledged at last */
            tx_model_clear(&m, &window, m.first);
        }
        assert_int_equal(window.first, m.base + m.first);
        assert_int_equal(window.next, m.base + m.next);
        uint32_t n = m.first + test_random_below(&r, m.next - m.first + 20);
        assert_ptr_equal(btl_ib_tx_window_at(&window, m.base + n), m.at[n]);
        for (n = step % 200 == 0 ? m.first : m.next; n < m.next; n++) {
            assert_ptr_equal(btl_ib_tx_window_at(&window, m.base + n), m.at[n]);
        }
    }
    assert_true(m.next > 20000); /* it did go through the wrap */
    btl_ib_tx_window_drop(&window, mem);
}

/* ---- the receiving side ---- */

static void receive(btl_ib_rx_window_t *window, uint32_t seq)
{
    assert_int_equal(btl_ib_rx_window_classify(window, seq), BTL_IB_SEQ_NEW);
    assert_int_equal(btl_ib_rx_window_reserve(window, seq, mem), 0);
    btl_ib_rx_window_mark(window, seq);
    assert_int_equal(btl_ib_rx_window_classify(window, seq), BTL_IB_SEQ_DUPLICATE);
}

/* The farthest one that is accepted, then everything else backwards. */
TEST_WITH(test_rx_farthest, setup, teardown)
{
    for (int i = 0; i < STARTS; i++) {
        btl_ib_rx_window_t window;
        uint32_t s = starts[i];
        uint32_t from = s;
        uint32_t to = 0;
        btl_ib_rx_window_init(&window, s);
        receive(&window, s + LIMIT - 1);
        assert_int_equal(window.next, s);
        assert_int_equal(window.top, s + LIMIT);
        assert_int_equal(window.above, 1);
        assert_true(btl_ib_rx_window_range(&window, &from, &to));
        assert_int_equal(from, s + LIMIT - 1);
        assert_int_equal(to, s + LIMIT);
        for (uint32_t n = LIMIT - 2; n > 0; n--) {
            receive(&window, s + n);
        }
        from = s;
        assert_true(btl_ib_rx_window_range(&window, &from, &to));
        assert_int_equal(from, s + 1);
        assert_int_equal(to, s + LIMIT);
        from = to;
        assert_false(btl_ib_rx_window_range(&window, &from, &to));
        receive(&window, s);
        assert_int_equal(window.next, s + LIMIT);
        assert_int_equal(window.top, s + LIMIT);
        assert_int_equal(window.above, 0);
        assert_int_equal(btl_ib_rx_window_classify(&window, s + LIMIT), BTL_IB_SEQ_NEW);
        btl_ib_rx_window_shrink(&window, mem);
        assert_int_equal(memory.live, 0);
        receive(&window, s + LIMIT + 63);
        assert_int_equal(memory.live, 0);
        btl_ib_rx_window_drop(&window, mem);
    }
}

/* 64 fit without memory; the 65th asks for some, and can be refused without harm. */
TEST_WITH(test_rx_no_memory, setup, teardown)
{
    for (int i = 0; i < STARTS; i++) {
        btl_ib_rx_window_t window;
        uint32_t s = starts[i];
        uint32_t from = s;
        uint32_t to = 0;
        btl_ib_rx_window_init(&window, s);
        memory.allowed = 0;
        receive(&window, s + 63);
        receive(&window, s + 5);
        for (uint32_t bits = 64; bits < LIMIT; bits *= 2) {
            assert_int_equal(btl_ib_rx_window_reserve(&window, s + bits, mem), -ENOMEM);
            assert_int_equal(btl_ib_rx_window_classify(&window, s + bits), BTL_IB_SEQ_NEW);
            assert_int_equal(btl_ib_rx_window_reserve(&window, s + bits - 1, mem), 0);
            memory.allowed = 1;
            assert_int_equal(btl_ib_rx_window_reserve(&window, s + bits, mem), 0);
            assert_int_equal(memory.live, 1);
            assert_int_equal(memory.allowed, 0);
            /* Reserved is not received. */
            assert_int_equal(btl_ib_rx_window_classify(&window, s + bits), BTL_IB_SEQ_NEW);
            from = s;
            assert_true(btl_ib_rx_window_range(&window, &from, &to));
            assert_int_equal(from, s + 5);
            assert_int_equal(to, s + 6);
            from = to;
            assert_true(btl_ib_rx_window_range(&window, &from, &to));
            assert_int_equal(from, s + 63);
            assert_int_equal(to, s + 64);
            from = to;
            assert_false(btl_ib_rx_window_range(&window, &from, &to));
        }
        btl_ib_rx_window_shrink(&window, mem); /* not while something is ahead of a gap */
        assert_int_equal(btl_ib_rx_window_classify(&window, s + 5), BTL_IB_SEQ_DUPLICATE);
        assert_int_equal(memory.live, 1);
        btl_ib_rx_window_drop(&window, mem);
        memory.allowed = UINT64_MAX;
    }
}

/* The model: has the n-th sequence of all arrived? No wrap, no ring. */
typedef struct rx_model {
    bool got[400000];
    uint32_t base;
    uint32_t next;
    uint32_t top;
    uint32_t above;
} rx_model_t;

static void rx_model_mark(rx_model_t *m, uint32_t n)
{
    m->got[n] = true;
    m->above++;
    m->top = n + 1 > m->top ? n + 1 : m->top;
    while (m->got[m->next]) {
        m->next++;
        m->above--;
    }
    m->top = m->top > m->next ? m->top : m->next;
}

static btl_ib_seq_class_t rx_model_classify(const rx_model_t *m, int64_t n)
{
    if (n < (int64_t) m->next - LIMIT || n >= (int64_t) m->next + LIMIT) {
        return BTL_IB_SEQ_OUTSIDE;
    }
    return n < (int64_t) m->next || m->got[n] ? BTL_IB_SEQ_DUPLICATE : BTL_IB_SEQ_NEW;
}

/* All ranges from `start` on, against the naive way. */
static void rx_model_ranges(const rx_model_t *m, const btl_ib_rx_window_t *window, uint32_t start)
{
    uint32_t from = m->base + start;
    uint32_t to = 0;
    uint32_t n = start;

    while (btl_ib_rx_window_range(window, &from, &to)) {
        while (!m->got[n]) {
            n++;
            assert_true(n < m->top);
        }
        assert_int_equal(from, m->base + n);
        while (m->got[n]) {
            n++;
        }
        assert_int_equal(to, m->base + n);
        from = to;
    }
    for (; n < m->top; n++) {
        assert_false(m->got[n]);
    }
}

/* How far ahead (or behind) the next one is: mostly near, sometimes anywhere. */
static int64_t rx_model_pick(const rx_model_t *m, uint32_t spread, test_random_t *r)
{
    switch (test_random_below(r, 16)) {
    case 0:
        return (int64_t) m->next + test_random_below(r, 2 * LIMIT + 20) - LIMIT - 10;
    case 1:
        return (int64_t) m->next + LIMIT - 2 + test_random_below(r, 4);
    case 2:
        return (int64_t) m->next - LIMIT - 2 + test_random_below(r, 4);
    case 3:
    case 4:
    case 5:
        return m->next;
    default:
        return (int64_t) m->next + test_random_below(r, spread);
    }
}

static void rx_model_run(rx_model_t *m, uint32_t base, uint32_t far, uint32_t steps)
{
    test_random_t r = TEST_RANDOM_SEED;
    btl_ib_rx_window_t window;

    memset(m, 0, sizeof(*m));
    m->base = base;
    btl_ib_rx_window_init(&window, base);
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t spread = step / 5000 % 2 == 0 ? 40 : far;
        int64_t n = rx_model_pick(m, spread, &r);
        btl_ib_seq_class_t class = rx_model_classify(m, n);
        uint32_t seq = base + (uint32_t) n;

        assert_int_equal(btl_ib_rx_window_classify(&window, seq), class);
        /* Far ones that only leave holes behind are taken less often. */
        bool take = n < (int64_t) m->next + far || test_random_below(&r, 50) == 0;
        memory.allowed = test_random_below(&r, 10) == 0 ? 0 : UINT64_MAX;
        if (class == BTL_IB_SEQ_NEW && take && btl_ib_rx_window_reserve(&window, seq, mem) == 0) {
            btl_ib_rx_window_mark(&window, seq);
            rx_model_mark(m, (uint32_t) n);
        }
        assert_int_equal(window.next, base + m->next);
        assert_int_equal(window.top, base + m->top);
        assert_int_equal(window.above, m->above);
        if (step % 100 == 0) {
            rx_model_ranges(m, &window, m->next + test_random_below(&r, m->top - m->next + 1));
            rx_model_ranges(m, &window, m->next);
            btl_ib_rx_window_shrink(&window, mem);
        }
        if (m->above == 0 && step % 7 == 0) {
            btl_ib_rx_window_shrink(&window, mem);
            assert_int_equal(memory.live, 0);
        }
    }
    btl_ib_rx_window_drop(&window, mem);
    assert_int_equal(memory.live, 0);
}

TEST_WITH(test_rx_model, setup, teardown)
{
    static rx_model_t m;

    rx_model_run(&m, 0xffffffff - 20000, 300, 300000);
    assert_true(m.next > 40000); /* it did go through the wrap */
    rx_model_run(&m, 0x7fffffff - 5000, 5000, 200000);
    assert_true(m.next > 10000);
    rx_model_run(&m, 0xffffffff - 30, 20, 20000);
    assert_true(m.next > 5000);
}

/* ---- runs of RNR ---- */

/* The model: which of the n-th sequences of each channel got RNR and are kept. */
enum { RUN_CHANNELS = 3, RUN_SEQS = 100 };

typedef struct runs_model {
    bool kept[RUN_CHANNELS][RUN_SEQS + 1]; /* the last one never */
    bool more;
    uint32_t base;
    uint32_t last, last_channel;
} runs_model_t;

static uint32_t runs_model_count(const runs_model_t *m)
{
    uint32_t count = 0;

    for (uint32_t channel = 0; channel < RUN_CHANNELS; channel++) {
        for (uint32_t n = 0; n < RUN_SEQS; n++) {
            count += m->kept[channel][n] && !m->kept[channel][n + 1];
        }
    }
    return count;
}

/* The runs are those of the model, in order, and as few as can be. */
static void runs_model_check(const runs_model_t *m, const btl_ib_rnr_runs_t *runs)
{
    uint32_t at = 0;
    uint32_t need = 0;
    uint32_t first = 0; /* the one with what got RNR last, or the next one behind it; else 0 */
    bool found = false;

    assert_int_equal(runs->count, runs_model_count(m));
    assert_int_equal(runs->more, m->more);
    for (uint32_t channel = 0; channel < RUN_CHANNELS; channel++) {
        bool any = false;
        for (uint32_t n = 0; n < RUN_SEQS; n++) {
            if (!m->kept[channel][n]) {
                continue;
            }
            assert_int_equal(runs->run[at].channel, channel);
            assert_int_equal(runs->run[at].from, m->base + n);
            while (m->kept[channel][n]) {
                n++;
            }
            assert_int_equal(runs->run[at].end, m->base + n);
            if (!found
                && (channel > m->last_channel || (channel == m->last_channel && n > m->last))) {
                found = true;
                first = at;
            }
            at++;
            any = true;
            need += sizeof(btl_ib_wire_range_t);
        }
        need += any ? sizeof(btl_ib_wire_ack_t) : 0;
    }
    assert_int_equal(btl_ib_rnr_runs_first(runs, need), 0);
    assert_int_equal(btl_ib_rnr_runs_first(runs, need + 100), 0);
    if (need > 0) {
        assert_int_equal(btl_ib_rnr_runs_first(runs, need - 1), first);
        assert_int_equal(btl_ib_rnr_runs_first(runs, 0), first);
    }
}

static void runs_model_within(const runs_model_t *m, const btl_ib_rnr_runs_t *runs,
                              test_random_t *r)
{
    const uint32_t channel = test_random_below(r, RUN_CHANNELS);
    const uint32_t from = test_random_below(r, RUN_SEQS);
    const uint32_t to = from + test_random_below(r, RUN_SEQS - from + 1);
    uint32_t count = 0;

    for (uint32_t n = from; n < to; n++) {
        count += m->more || m->kept[channel][n];
    }
    assert_int_equal(btl_ib_rnr_runs_within(runs, channel, m->base + from, m->base + to), count);
}

static void runs_model_add(runs_model_t *m, btl_ib_rnr_runs_t *runs, uint32_t channel, uint32_t n)
{
    const bool *kept = m->kept[channel];
    const bool touches = kept[n + 1] || (n > 0 && kept[n - 1]);

    btl_ib_rnr_runs_add(runs, channel, m->base + n);
    m->last = n;
    m->last_channel = channel;
    if (touches || runs_model_count(m) < BTL_IB_RNR_RUNS) {
        m->kept[channel][n] = true;
    } else {
        m->more = true;
    }
}

static void runs_model_take(runs_model_t *m, btl_ib_rnr_runs_t *runs, uint32_t channel, uint32_t n)
{
    bool *kept = m->kept[channel];

    btl_ib_rnr_runs_take(runs, channel, m->base + n);
    kept[n] = false;
    if (runs_model_count(m) > BTL_IB_RNR_RUNS) { /* there is no place for what was above it */
        m->more = true;
        for (n++; kept[n]; n++) {
            kept[n] = false;
        }
    }
    m->more = m->more && runs_model_count(m) > 0;
}

/* Some were not kept: all are taken for such until there is no run left. */
TEST_WITH(test_runs_model, setup, teardown)
{
    test_random_t r = TEST_RANDOM_SEED;
    uint32_t full = 0;
    uint32_t few = 0;

    for (uint32_t i = 0; i < STARTS; i++) {
        runs_model_t m = {.base = starts[i] - 50};
        btl_ib_rnr_runs_t runs = {0};
        for (uint32_t step = 0; step < 20000; step++) {
            /* Adds and takes anywhere, for one channel or all; from time to time all are taken. */
            const bool sweeps = step % 1000 >= 700;
            const uint32_t channels = step / 4000 % 2 == 0 ? 1 : RUN_CHANNELS;
            const uint32_t any = test_random_below(&r, channels * RUN_SEQS);
            const uint32_t at = sweeps ? step * 7 % (RUN_CHANNELS * RUN_SEQS) : any;
            const uint32_t channel = at / RUN_SEQS;
            const uint32_t n = at % RUN_SEQS;
            const bool adds = !sweeps && test_random_below(&r, 8) < 5;
            const bool had_more = m.more;
            if (adds && !m.kept[channel][n]) {
                runs_model_add(&m, &runs, channel, n);
            } else if (!adds) {
                runs_model_take(&m, &runs, channel, n);
            }
            runs_model_check(&m, &runs);
            runs_model_within(&m, &runs, &r);
            full += m.more && !had_more;
            few += !m.more && had_more;
        }
    }
    assert_true(full > 10 && few > 10); /* the test tests something */
}

UNIT_MAIN(NULL, NULL)
