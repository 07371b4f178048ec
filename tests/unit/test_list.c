/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <string.h>

#include "btl_ib_list.h"
#include "support.h"
#include "unit.h"

#define ITEMS 40

typedef struct item {
    uint64_t before;
    btl_ib_list_t link;
    uint64_t after;
} item_t;

static item_t items[ITEMS];
static btl_ib_list_t list;

static int setup(void **state)
{
    btl_ib_list_init(&list);
    for (int i = 0; i < ITEMS; i++) {
        btl_ib_list_init(&items[i].link);
    }
    return 0;
}

/* The list holds exactly `expected[0..count)`, seen from both ends. */
static void check(const btl_ib_list_t *head, const int *expected, int count)
{
    btl_ib_list_t *at = btl_ib_list_first(head);

    assert_int_equal(btl_ib_list_empty(head), count == 0);
    for (int i = 0; i < count; i++, at = btl_ib_list_next(head, at)) {
        assert_ptr_equal(at, &items[expected[i]].link);
        assert_false(btl_ib_list_empty(at));
    }
    assert_null(at);
    const btl_ib_list_t *back = head->prev;
    for (int i = count - 1; i >= 0; i--, back = back->prev) {
        assert_ptr_equal(back, &items[expected[i]].link);
    }
    assert_ptr_equal(back, head);
    assert_ptr_equal(btl_ib_list_last(head), count == 0 ? NULL : &items[expected[count - 1]].link);
}

TEST_WITH(test_splice_head, setup, NULL)
{
    btl_ib_list_t other;

    btl_ib_list_init(&other);
    btl_ib_list_splice_head(&list, &other);
    check(&list, NULL, 0);
    btl_ib_list_push_tail(&other, &items[0].link);
    btl_ib_list_push_tail(&other, &items[1].link);
    btl_ib_list_splice_head(&list, &other); /* into an empty one */
    check(&list, (int[]){0, 1}, 2);
    check(&other, NULL, 0);
    btl_ib_list_push_tail(&other, &items[2].link);
    btl_ib_list_push_tail(&other, &items[3].link);
    btl_ib_list_splice_head(&list, &other);
    check(&list, (int[]){2, 3, 0, 1}, 4);
    check(&other, NULL, 0);
}

TEST_WITH(test_move_tail, setup, NULL)
{
    btl_ib_list_t other;

    btl_ib_list_init(&other);
    for (int i = 0; i < 6; i++) {
        btl_ib_list_push_tail(&list, &items[i].link);
    }
    btl_ib_list_move_tail(&other, &items[1].link, &items[3].link); /* from the middle, to nothing */
    check(&list, (int[]){0, 4, 5}, 3);
    check(&other, (int[]){1, 2, 3}, 3);
    btl_ib_list_move_tail(&other, &items[0].link, &items[0].link); /* one, the first */
    check(&list, (int[]){4, 5}, 2);
    check(&other, (int[]){1, 2, 3, 0}, 4);
    btl_ib_list_move_tail(&other, &items[4].link, &items[5].link); /* all that there is */
    check(&list, NULL, 0);
    check(&other, (int[]){1, 2, 3, 0, 4, 5}, 6);
}

/* The model: two arrays of numbers. */
typedef struct model {
    int at[2][ITEMS];
    int count[2];
} model_t;

static void model_insert(model_t *m, int which, int position, int item)
{
    int *at = m->at[which];

    memmove(at + position + 1, at + position, (size_t) (m->count[which] - position) * sizeof(*at));
    at[position] = item;
    m->count[which]++;
}

static void model_remove(model_t *m, int which, int position)
{
    int *at = m->at[which];

    m->count[which]--;
    memmove(at + position, at + position + 1, (size_t) (m->count[which] - position) * sizeof(*at));
}

/* Take `item` off whichever list it is on. */
static void model_take_off(model_t *m, int item)
{
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < m->count[which]; i++) {
            if (m->at[which][i] == item) {
                model_remove(m, which, i);
                return;
            }
        }
    }
}

static void model_step(model_t *m, btl_ib_list_t heads[2], test_random_t *r)
{
    int which = (int) test_random_below(r, 2);
    int item = (int) test_random_below(r, ITEMS);

    switch (test_random_below(r, 6)) {
    case 0:
        if (m->count[which] > 0) {
            assert_ptr_equal(btl_ib_list_pop(&heads[which]), &items[m->at[which][0]].link);
            model_remove(m, which, 0);
        }
        return;
    case 1:
        if (test_random_below(r, 10) == 0) {
            while (m->count[!which] > 0) {
                model_insert(m, which, m->count[which], m->at[!which][0]);
                model_remove(m, !which, 0);
            }
            btl_ib_list_splice_tail(&heads[which], &heads[!which]);
        }
        return;
    case 2:
        btl_ib_list_remove(&items[item].link);
        model_take_off(m, item);
        return;
    default:
        break;
    }
    btl_ib_list_remove(&items[item].link);
    model_take_off(m, item);
    int position = (int) test_random_below(r, (uint32_t) m->count[which] + 1);
    if (position == 0) {
        btl_ib_list_push_head(&heads[which], &items[item].link);
    } else if (position == m->count[which]) {
        btl_ib_list_push_tail(&heads[which], &items[item].link);
    } else {
        btl_ib_list_insert_before(&items[m->at[which][position]].link, &items[item].link);
    }
    model_insert(m, which, position, item);
}

TEST_WITH(test_model, setup, NULL)
{
    test_random_t r = TEST_RANDOM_SEED;
    model_t m = {.count = {0, 0}};
    btl_ib_list_t heads[2];

    btl_ib_list_init(&heads[0]);
    btl_ib_list_init(&heads[1]);
    for (int step = 0; step < 50000; step++) {
        model_step(&m, heads, &r);
        check(&heads[0], m.at[0], m.count[0]);
        check(&heads[1], m.at[1], m.count[1]);
    }
}

UNIT_MAIN(NULL, NULL)
