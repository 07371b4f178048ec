/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "btl_ib_receive_queues.h"
#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static btl_ib_queue_table_t parse(const char *spec)
{
    btl_ib_queue_table_t table;
    btl_ib_queues_error_t error;

    if (btl_ib_queues_parse(spec, &table, &error) != 0) {
        fail_msg("%s: queue %u, column %u, %s '%s': expected %s", spec, error.queue, error.column,
                 error.field, error.value, error.expected);
    }
    assert_int_equal(btl_ib_queues_check(&table), 0);
    return table;
}

static void assert_formats(const btl_ib_queue_table_t *table, const char *expected)
{
    char out[1024];

    assert_int_equal(btl_ib_queues_format(table, out, sizeof out), strlen(expected));
    assert_string_equal(out, expected);
}

/* ---- what is accepted, and the defaults ---- */

/* What is harmless if it is too large is reduced, and the first such one is named. */
TEST(test_reduced)
{
    static const struct {
        const char *spec, *full;
        uint32_t queue, column;
        const char *field, *value, *used;
    } cases[] = {
        {"S,128,16,4,2,17", "S,128,16,4,2,16,3", 1, 14, "init", "17", "16: not more than num"},
        {"S,128,16,4,2,4,5", "S,128,16,4,2,4,4", 1, 16, "limit", "5", "4: not more than init"},
        {"P,128,16:S,256,8,4,2,99,98", "P,128,16,8,4,7:S,256,8,4,2,8,8", 2, 22, "init", "99",
         "8: not more than num"},
        {"S,128,16,4,2,4,4", "S,128,16,4,2,4,4", 0, 0, NULL, "", ""},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        btl_ib_queue_table_t table;
        btl_ib_queues_error_t error;
        assert_int_equal(btl_ib_queues_parse(cases[i].spec, &table, &error), 0);
        assert_formats(&table, cases[i].full);
        assert_int_equal(error.queue, cases[i].queue);
        assert_int_equal(error.column, cases[i].column);
        if (error.queue > 0) {
            assert_string_equal(error.field, cases[i].field);
            assert_string_equal(error.value, cases[i].value);
            assert_string_equal(error.expected, cases[i].used);
        }
    }
}

static const struct {
    const char *spec;
    const char *full;
} good[] = {
    /* The strings that users have in their files. */
    {"P,128,256,128,16:S,1024,256,128,32:S,4096,256,128,32:S,65536,256,128,32",
     "P,128,256,128,16,31:S,1024,256,128,32,64,12:S,4096,256,128,32,64,12:"
     "S,65536,256,128,32,64,12"},
    {"P,128,256,128,16:P,1024,32,16:P,4096,32,16:P,65536,32,16",
     "P,128,256,128,16,31:P,1024,32,16,8,7:P,4096,32,16,8,7:P,65536,32,16,8,7"},
    {"P,128,16,4", "P,128,16,4,2,15"},
    /* Each default by its formula, rounded down. */
    {"P,128,17", "P,128,17,8,4,8"},
    {"P,128,127", "P,128,127,63,31,8"},
    {"S,128,127", "S,128,127,63,15,31,5"},
    {"S,128,128,100", "S,128,128,100,25,32,6"},
    {"S,128,128,100,7,35", "S,128,128,100,7,35,6"},
    {"P,128,100,50,3", "P,128,100,50,3,66"},
    /* ... but at least 1. */
    {"P,104,2", "P,104,2,1,1,3"},
    {"P,104,3", "P,104,3,1,1,5"},
    {"S,104,2", "S,104,2,1,1,1,1"},
    {"S,104,21,3,9,5", "S,104,21,3,9,5,1"},
    /* The bounds. */
    {"P,104,2,1,2,1", "P,104,2,1,2,1"},
    {"P,1048576,1048576,1048575,1048576,2097151", "P,1048576,1048576,1048575,1048576,2097151"},
    {"P,104,1048576,1", "P,104,1048576,1,1,2097151"},
    {"S,1048576,1048576,1048575,1048576,1048576,1048576",
     "S,1048576,1048576,1048575,1048576,1048576,1048576"},
    {"S,104,2,1,1,2,2", "S,104,2,1,1,2,2"},
    {"P,128,16,4,12", "P,128,16,4,12,2"},
    {"P,128,100,70,90", "P,128,100,70,90,2"},
    {"P,104,2:S,105,2", "P,104,2,1,1,3:S,105,2,1,1,1,1"},
    {"P,00128,016", "P,128,16,8,4,7"},
    /* Empty fields have their defaults, which follow from those before them. */
    {"P,128,256,,16", "P,128,256,128,16,31"},
    {"P,128,256,64,,", "P,128,256,64,32,15"},
    {"P,128,16,", "P,128,16,8,4,7"},
    {"P,128,16,,,9:S,256,64,,,32,", "P,128,16,8,4,9:S,256,64,32,8,32,6"},
    /* openib's own default; low is 3/4 of num there if it is left out. */
    {"P,128,256,192,128:S,2048,1024,1008,64:S,12288,1024,1008,64:S,65536,1024,1008,64",
     "P,128,256,192,128,3:S,2048,1024,1008,64,256,48:S,12288,1024,1008,64,256,48:"
     "S,65536,1024,1008,64,256,48"},
    {"S,104,2:S,105,2:S,106,2:S,107,2:S,108,2:S,109,2:S,110,2:S,111,2:"
     "S,112,2:S,113,2:S,114,2:S,115,2:S,116,2:S,117,2:S,118,2:S,119,2",
     "S,104,2,1,1,1,1:S,105,2,1,1,1,1:S,106,2,1,1,1,1:S,107,2,1,1,1,1:"
     "S,108,2,1,1,1,1:S,109,2,1,1,1,1:S,110,2,1,1,1,1:S,111,2,1,1,1,1:"
     "S,112,2,1,1,1,1:S,113,2,1,1,1,1:S,114,2,1,1,1,1:S,115,2,1,1,1,1:"
     "S,116,2,1,1,1,1:S,117,2,1,1,1,1:S,118,2,1,1,1,1:S,119,2,1,1,1,1"},
};

TEST(test_good)
{
    for (size_t i = 0; i < COUNT(good); i++) {
        btl_ib_queue_table_t table = parse(good[i].spec);
        btl_ib_queue_table_t again;

        assert_formats(&table, good[i].full);
        again = parse(good[i].full);
        assert_memory_equal(&table, &again, sizeof table);
    }
}

/* Each number lands in its own field, and the other type's fields are 0. */
TEST(test_fields)
{
    btl_ib_queue_table_t table = parse("P,111,102,95,97,99:S,201,202,103,104,105,94");
    const btl_ib_queue_t *p = &table.q[0];
    const btl_ib_queue_t *s = &table.q[1];

    assert_int_equal(table.count, 2);
    assert_int_equal(p->type, BTL_IB_QUEUE_PER_PEER);
    assert_int_equal(p->size, 111);
    assert_int_equal(p->num, 102);
    assert_int_equal(p->low, 95);
    assert_int_equal(p->window, 97);
    assert_int_equal(p->reserve, 99);
    assert_int_equal(p->max_pending, 0);
    assert_int_equal(p->init, 0);
    assert_int_equal(p->limit, 0);
    assert_int_equal(s->type, BTL_IB_QUEUE_SHARED);
    assert_int_equal(s->size, 201);
    assert_int_equal(s->num, 202);
    assert_int_equal(s->low, 103);
    assert_int_equal(s->window, 0);
    assert_int_equal(s->reserve, 0);
    assert_int_equal(s->max_pending, 104);
    assert_int_equal(s->init, 105);
    assert_int_equal(s->limit, 94);
}

/* What the user wrote is told from what is a default, for each queue and field. */
TEST(test_written)
{
    static const char spec[] = "P,128,16,4:S,256,64,,8,,3:S,1472,64";
    static const struct {
        uint32_t queue;
        const char *field;
        bool written;
    } cases[] = {
        {0, "size", true},
        {0, "num", true},
        {0, "low_watermark", true},
        {0, "window", false},
        {0, "reserve", false},
        {0, "init", false},
        {1, "num", true},
        {1, "limit", true},
        {1, "low_watermark", false},
        {1, "init", false},
        {1, "window", false},
        {2, "num", true},
        {1, "max_pending_sends", true},
        {2, "low_watermark", false},
        {2, "max_pending_sends", false},
        {2, "limit", false},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(btl_ib_queues_is_written(spec, cases[i].queue, cases[i].field),
                         cases[i].written);
    }
}

/* ---- what is refused, and what the user is told ---- */

#define GOOD_Q "S,128,16"
#define GOOD_16                                                                                    \
    "S,104,2:S,105,2:S,106,2:S,107,2:S,108,2:S,109,2:S,110,2:S,111,2:"                             \
    "S,112,2:S,113,2:S,114,2:S,115,2:S,116,2:S,117,2:S,118,2:S,119,2"

static const struct {
    const char *spec;
    uint32_t queue;
    const char *field;
    const char *value;
    uint32_t column;
    const char *expected; /* a part of it */
} bad[] = {
    /* the string as a whole */
    {NULL, 0, "receive_queues", "", 1, "at least one queue"},
    {"", 0, "receive_queues", "", 1, "at least one queue"},
    {":", 1, "type", "", 1, "P (per peer) or S (shared), for ':' joins"},
    {":" GOOD_Q, 1, "type", "", 1, "P (per peer) or S (shared)"},
    {GOOD_Q ":", 2, "type", "", 10, "P (per peer) or S (shared), for ':' joins"},
    {GOOD_Q "::S,256,16", 2, "type", "", 10, "P (per peer) or S (shared)"},
    {GOOD_16 ":S,120,2", 17, "type", "S", 129, "at most 16 queues"},
    {GOOD_16 ":", 17, "type", "", 129, "at most 16 queues"},
    /* type */
    {"p,128,16", 1, "type", "p", 1, "P (per peer) or S (shared)"},
    {"s,128,16", 1, "type", "s", 1, "P (per peer) or S (shared)"},
    {"X,128,16", 1, "type", "X", 1,
     "P (per peer) or S (shared); XRC (X) is not supported, S serves"},
    {"PP,128,16", 1, "type", "PP", 1, "P (per peer) or S (shared)"},
    {" P,128,16", 1, "type", " P", 1, "P (per peer) or S (shared)"},
    {"P ,128,16", 1, "type", "P ", 1, "P (per peer) or S (shared)"},
    {",128,16", 1, "type", "", 1, "P (per peer) or S (shared)"},
    {"128,16", 1, "type", "128", 1, "P (per peer) or S (shared)"},
    {GOOD_Q ":x", 2, "type", "x", 10, "P (per peer) or S (shared)"},
    {GOOD_Q ": S,256,16", 2, "type", " S", 10, "P (per peer) or S (shared)"},
    {"\033[31m\n\377P,128,16", 1, "type", "?[31m??P", 1, "P (per peer) or S (shared)"},
    {"Xabcdefghijklmnopqrstuvwxyzabcdefghijkl", 1, "type", "Xabcdefghijklmnopqrstuvwxyzabcd", 1,
     "P (per peer) or S (shared)"},
    /* too few, too many */
    {"P", 1, "size", "", 2, "all fields that P,<size>,<num>[,<low_watermark>"},
    {"S:P,128,16", 1, "size", "", 2, "all fields that S,<size>,<num>[,<low_watermark>"},
    {"P,128", 1, "num", "", 6, "all fields that P,<size>,<num>"},
    {GOOD_Q ":S,256", 2, "num", "", 15, "all fields that S,<size>,<num>"},
    {"P,128,16,4,2,15,1", 1, "extra field", "1", 17, "no more fields than P,<size>"},
    {"P,128,16,4,2,15,", 1, "extra field", "", 17, "no more fields than P,<size>"},
    {"S,128,16,8,2,4,1,9,9", 1, "extra field", "9", 18, "no more fields than S,<size>"},
    /* not a number, in every field */
    {"P,,16", 1, "size", "", 3, "a whole number from 104 to 1048576"},
    {"P,12abc,16", 1, "size", "12abc", 3, "a whole number from 104 to 1048576"},
    {"P,-128,16", 1, "size", "-128", 3, "a whole number from 104 to 1048576"},
    {"P,+128,16", 1, "size", "+128", 3, "a whole number from 104 to 1048576"},
    {"P, 128,16", 1, "size", " 128", 3, "a whole number from 104 to 1048576"},
    {"P,128 ,16", 1, "size", "128 ", 3, "a whole number from 104 to 1048576"},
    {"P,128k,16", 1, "size", "128k", 3, "a whole number from 104 to 1048576"},
    {"P,0x80,16", 1, "size", "0x80", 3, "a whole number from 104 to 1048576"},
    {"P,1e3,16", 1, "size", "1e3", 3, "a whole number from 104 to 1048576"},
    {"P,128.0,16", 1, "size", "128.0", 3, "a whole number from 104 to 1048576"},
    {"P,128;16", 1, "size", "128;16", 3, "a whole number from 104 to 1048576"},
    {"P,128,", 1, "num", "", 7, "a whole number from 2 to 1048576"},
    {"P,128,16\n", 1, "num", "16?", 7, "a whole number from 2 to 1048576"},
    {"P,128,16,x", 1, "low_watermark", "x", 10, "a whole number from 1 to 15"},
    {"P,128,16,4,-1", 1, "window", "-1", 12, "a whole number from 1 to 12"},
    {"P,128,16,4,2,1x", 1, "reserve", "1x", 14, "a whole number from 1 to 2097151"},
    {"S,128,16,4,*", 1, "max_pending_sends", "*", 12, "a whole number from 1 to 1048576"},
    {"S,128,16,4,2,?", 1, "init", "?", 14, "a whole number from 1 to 16: not more than num"},
    {"S,128,16,4,2,4,/", 1, "limit", "/", 16, "a whole number from 1 to 4: not more than init"},
    /* out of range, zero, overflow */
    {"P,103,16", 1, "size", "103", 3, "a whole number from 104 to 1048576"},
    {"P,0,16", 1, "size", "0", 3, "a whole number from 104 to 1048576"},
    {"P,1048577,16", 1, "size", "1048577", 3, "a whole number from 104 to 1048576"},
    {"P,4294967424,16", 1, "size", "4294967424", 3, "a whole number from 104 to 1048576"},
    {"P,18446744073709551744,16", 1, "size", "18446744073709551744", 3, "a whole number"},
    {"P,128,99999999999999999999999999999999999999", 1, "num", "9999999999999999999999999999999", 7,
     "a whole number from 2 to 1048576"},
    {"P,128,0", 1, "num", "0", 7, "a whole number from 2 to 1048576"},
    {"P,128,1", 1, "num", "1", 7, "a whole number from 2 to 1048576"},
    {"S,128,1048577", 1, "num", "1048577", 7, "a whole number from 2 to 1048576"},
    {"P,128,16,0", 1, "low_watermark", "0", 10, "a whole number from 1 to 15"},
    {"P,128,16,16", 1, "low_watermark", "16", 10, "a whole number from 1 to 15"},
    {"S,128,16,17", 1, "low_watermark", "17", 10, "a whole number from 1 to 15"},
    {"S,128,2,2", 1, "low_watermark", "2", 9, "1: less than num"},
    {"P,128,16,4,0", 1, "window", "0", 12, "a whole number from 1 to 12"},
    {"P,128,16,4,13", 1, "window", "13", 12, "a whole number from 1 to 12: the most that whole"},
    {"P,128,100,70,91", 1, "window", "91", 14, "a whole number from 1 to 90"},
    {"P,128,100,30,71", 1, "window", "71", 14, "a whole number from 1 to 70"},
    {"P,128,100,50,101", 1, "window", "101", 14, "a whole number from 1 to 100"},
    {"P,128,16,4,2,0", 1, "reserve", "0", 14, "a whole number from 1 to 2097151"},
    {"P,128,16,4,2,2097152", 1, "reserve", "2097152", 14, "a whole number from 1 to 2097151"},
    {"S,128,16,4,0", 1, "max_pending_sends", "0", 12, "a whole number from 1 to 1048576"},
    {"S,128,16,4,1048577", 1, "max_pending_sends", "1048577", 12, "a whole number from 1 to"},
    {"S,128,16,4,2,0", 1, "init", "0", 14, "a whole number from 1 to 16"},
    {"S,128,16,4,2,4,0", 1, "limit", "0", 16, "a whole number from 1 to 4"},
    /* order */
    {GOOD_Q ":S,128,16", 2, "size", "128", 12, "a whole number from 129 to 1048576: sizes ascend"},
    {GOOD_Q ":P,127,16", 2, "size", "127", 12, "a whole number from 129 to 1048576: sizes ascend"},
    {"P,104,16:S,104,16", 2, "size", "104", 12, "a whole number from 105 to 1048576: sizes ascend"},
    {"S,1048575,2:S,1048575,2", 2, "size", "1048575", 15, "1048576: sizes ascend"},
    {"S,1048576,2:S,1048577,2", 2, "size", "1048577", 15, "no queue after one of the largest"},
    {"P,110,16:P,300,16:P,200,16", 3, "size", "200", 21, "a whole number from 301 to 1048576"},
};

TEST(test_bad)
{
    for (size_t i = 0; i < COUNT(bad); i++) {
        btl_ib_queue_table_t table;
        btl_ib_queues_error_t error;

        memset(&error, 'Z', sizeof error);
        if (-EINVAL != btl_ib_queues_parse(bad[i].spec, &table, &error)) {
            fail_msg("accepted: %s", bad[i].spec);
        }
        assert_string_equal(error.field, bad[i].field);
        assert_string_equal(error.value, bad[i].value);
        if (error.queue != bad[i].queue || error.column != bad[i].column) {
            fail_msg("%s: queue %u, column %u", bad[i].spec, error.queue, error.column);
        }
        if (strstr(error.expected, bad[i].expected) == NULL) {
            fail_msg("%s: expected %s", bad[i].spec, error.expected);
        }
        /* The first queue has none before it. */
        assert_true(error.queue > 1 || strstr(error.expected, "ascend") == NULL);
        /* Only who wanted XRC is told of it. */
        assert_int_equal(strstr(error.expected, "XRC") != NULL, strcmp(bad[i].value, "X") == 0);
        /* Nothing of it was cut. */
        assert_true(strlen(error.expected) < sizeof error.expected - 1);
    }
}

/* Credits are banked up to a number, or as many as the grammar allows; S queues have none. */
TEST(test_slack)
{
    btl_ib_queue_table_t table = parse("P,128,16,4:P,256,256,128,16:S,512,64");
    const uint32_t of_shared = table.q[2].window;

    btl_ib_queues_set_slack(&table, 20);
    assert_int_equal(table.q[0].window, 12); /* whole batches of 16 - 4 */
    assert_int_equal(table.q[1].window, 21);
    assert_int_equal(table.q[2].window, of_shared);
    btl_ib_queues_set_slack(&table, 11);
    assert_int_equal(table.q[0].window, 12);
    btl_ib_queues_set_slack(&table, 10);
    assert_int_equal(table.q[0].window, 11);
    btl_ib_queues_set_slack(&table, 0);
    assert_int_equal(table.q[0].window, 1);
    assert_int_equal(btl_ib_queues_check(&table), 0);
}

/* ---- fitting a transport ---- */

static const struct {
    const char *spec;
    uint32_t max;
    uint32_t cut;
    const char *result;
} clamps[] = {
    {"P,128,16,4:S,1024,16", 1024, 0, "P,128,16,4,2,15:S,1024,16,8,2,4,1"},
    {"P,128,16,4:S,1024,16", 1023, 1, "P,128,16,4,2,15:S,1023,16,8,2,4,1"},
    /* one into an equal one that fitted */
    {"S,128,16,8,2,4,1:S,256,32,10,5,9,7", 128, 1, "S,128,48,18,7,13,8"},
    /* three into one */
    {"P,128,256,128,16:S,1024,256,128,32:S,4096,256,128,32:S,65536,256,128,32", 1472, 2,
     "P,128,256,128,16,31:S,1024,256,128,32,64,12:S,1472,512,256,64,128,24"},
    {"P,128,256,128,16:P,1024,32,16:P,4096,32,16:P,65536,32,16", 1000, 3,
     "P,128,256,128,16,31:P,1000,96,48,24,21"},
    /* the type of the first; the others with that type's defaults: P,32,20,10,6 */
    {"P,128,16,4,3,9:S,1024,32,20,7,8,8", 110, 2, "P,110,48,24,13,15"},
    /* S,16,4,1,4,1 */
    {"S,128,32,20,7,8,8:P,1024,16,4,3,9", 110, 2, "S,110,48,24,8,12,9"},
    /* windows 12 of 6 and 2 of 2: floor(15 / 8) * 8 is what is possible */
    {"P,128,12,6,12,1:P,256,3,1,2,1", 128, 1, "P,128,15,7,8,2"},
    /* sums beyond the bounds */
    {"P,128,1048576,1048575,1048576,2097151:P,256,1048576,1048575,1048576,2097151", 128, 1,
     "P,128,1048576,1048575,1048576,2097151"},
    {"S,128,1048576,1048575,1048576,1048576,1048576:S,256,1048576,1048575,1048576,1048576,1048576",
     128, 1, "S,128,1048576,1048575,1048576,1048576,1048576"},
    {"S,128,2,1,1,2,2:S,256,2,1,1,2,2", 128, 1, "S,128,4,2,2,4,4"},
    /* a transport that should have been refused */
    {"P,128,16,4:S,1024,16", 0, 2, "P,104,32,12,6,22"},
    {"P,128,16,4:S,1024,16", 103, 2, "P,104,32,12,6,22"},
    {"P,128,16,4:S,1024,16", UINT32_MAX, 0, "P,128,16,4,2,15:S,1024,16,8,2,4,1"},
};

TEST(test_clamp)
{
    for (size_t i = 0; i < COUNT(clamps); i++) {
        btl_ib_queue_table_t table = parse(clamps[i].spec);
        btl_ib_queue_table_t expected = parse(clamps[i].result);

        assert_int_equal(btl_ib_queues_clamp(&table, clamps[i].max), clamps[i].cut);
        assert_formats(&table, clamps[i].result);
        assert_memory_equal(&table, &expected, sizeof table);
        /* What was fitted fits. */
        assert_int_equal(btl_ib_queues_clamp(&table, clamps[i].max), 0);
        assert_memory_equal(&table, &expected, sizeof table);
    }
}

/* Sixteen of the largest queues into one: no sum may overflow. */
TEST(test_clamp_all)
{
    btl_ib_queue_table_t table = {.count = BTL_IB_QUEUES_MAX};

    for (uint32_t i = 0; i < BTL_IB_QUEUES_MAX; i++) {
        table.q[i] = (btl_ib_queue_t){
            .type = i % 2 > 0 ? BTL_IB_QUEUE_SHARED : BTL_IB_QUEUE_PER_PEER,
            .size = 1000 + i,
            .num = BTL_IB_QUEUE_NUM_MAX,
            .low = i + 1,
            .window = i % 2 > 0 ? 0 : 1,
            .reserve = i % 2 > 0 ? 0 : BTL_IB_QUEUE_RESERVE_MAX,
            .max_pending = i % 2 > 0 ? BTL_IB_QUEUE_NUM_MAX : 0,
            .init = i % 2 > 0 ? BTL_IB_QUEUE_NUM_MAX : 0,
            .limit = i % 2 > 0 ? 1 : 0,
        };
    }
    assert_int_equal(btl_ib_queues_check(&table), 0);
    assert_int_equal(btl_ib_queues_clamp(&table, 110), 16);
    assert_int_equal(btl_ib_queues_check(&table), 0);
    /* lows 1 to 16; windows 1 of each P, and low/2, at least 1, of each S */
    assert_formats(&table, "P,110,1048576,136,44,2097151");
}

/* ---- small questions ---- */

TEST(test_channel)
{
    btl_ib_queue_table_t table = parse("P,128,16:S,1024,16:S,4096,16");

    assert_int_equal(btl_ib_queues_channel(&table, 0), 0);
    assert_int_equal(btl_ib_queues_channel(&table, 128), 0);
    assert_int_equal(btl_ib_queues_channel(&table, 129), 1);
    assert_int_equal(btl_ib_queues_channel(&table, 1024), 1);
    assert_int_equal(btl_ib_queues_channel(&table, 4096), 2);
    assert_int_equal(btl_ib_queues_channel(&table, 4097), 3);
    assert_int_equal(btl_ib_queues_channel(&table, UINT32_MAX), 3);
}

TEST(test_format_cut)
{
    btl_ib_queue_table_t table = parse("P,128,16,4:S,1024,16");
    const char *full = "P,128,16,4,2,15:S,1024,16,8,2,4,1";
    int needed = (int) strlen(full);

    assert_int_equal(btl_ib_queues_format(&table, NULL, 0), needed);
    for (size_t len = 1; len < strlen(full) + 3; len++) {
        char out[64];

        memset(out, '#', sizeof out);
        assert_int_equal(btl_ib_queues_format(&table, out, len), needed);
        assert_memory_equal(out, full, len - 1 < strlen(full) ? len - 1 : strlen(full));
        assert_int_equal(strlen(out), len - 1 < strlen(full) ? len - 1 : strlen(full));
        assert_int_equal(out[len], '#');
    }
}

/* ---- tables from elsewhere ---- */

static void assert_refused(const btl_ib_queue_table_t *table, const char *what)
{
    if (-EINVAL != btl_ib_queues_check(table)) {
        fail_msg("accepted: %s", what);
    }
}

/* Every field of a good table, one beyond what is right, in both directions. */
TEST(test_check_fields)
{
    static const struct {
        uint32_t queue;
        size_t offset;
        uint32_t low, high;
    } cases[] = {
        {0, offsetof(btl_ib_queue_t, size), 104, 999},
        {1, offsetof(btl_ib_queue_t, size), 111, 1048576},
        {0, offsetof(btl_ib_queue_t, num), 5, 1048576},
        {1, offsetof(btl_ib_queue_t, num), 9, 1048576},
        {0, offsetof(btl_ib_queue_t, low), 1, 15},
        {1, offsetof(btl_ib_queue_t, low), 1, 15},
        {0, offsetof(btl_ib_queue_t, window), 1, 12},
        {1, offsetof(btl_ib_queue_t, window), 0, 0},
        {0, offsetof(btl_ib_queue_t, reserve), 1, 2097151},
        {1, offsetof(btl_ib_queue_t, reserve), 0, 0},
        {0, offsetof(btl_ib_queue_t, max_pending), 0, 0},
        {1, offsetof(btl_ib_queue_t, max_pending), 1, 1048576},
        {0, offsetof(btl_ib_queue_t, init), 0, 16},
        {1, offsetof(btl_ib_queue_t, init), 3, 16},
        {0, offsetof(btl_ib_queue_t, limit), 0, 0},
        {1, offsetof(btl_ib_queue_t, limit), 1, 6},
    };
    /* P: a window of 1 is possible with any num > low. */
    const btl_ib_queue_table_t origin = parse("P,110,16,4,1,15:S,1000,16,8,2,6,3");

    for (size_t i = 0; i < COUNT(cases); i++) {
        btl_ib_queue_table_t table = origin;
        char *at = (char *) &table.q[cases[i].queue] + cases[i].offset;
        uint32_t values[] = {cases[i].low - 1, cases[i].high + 1, UINT32_MAX, UINT32_MAX / 2 + 1};

        memcpy(at, &cases[i].low, sizeof cases[i].low);
        assert_int_equal(btl_ib_queues_check(&table), 0);
        memcpy(at, &cases[i].high, sizeof cases[i].high);
        assert_int_equal(btl_ib_queues_check(&table), 0);
        for (size_t j = 0; j < COUNT(values); j++) {
            char what[64];

            snprintf(what, sizeof what, "queue %u, offset %zu: %u", cases[i].queue, cases[i].offset,
                     values[j]);
            memcpy(at, &values[j], sizeof values[j]);
            assert_refused(&table, what);
        }
    }
}

TEST(test_check_garbage)
{
    const btl_ib_queue_table_t origin = parse("P,110,16,4,1,15:S,1000,16,8,2,6,3");
    btl_ib_queue_table_t table = origin;
    struct {
        btl_ib_queue_table_t table;
        btl_ib_queue_t beyond;
    } overlong;
    uint64_t random = 1;

    table.count = 0;
    assert_refused(&table, "no queue");
    for (uint32_t count = 3; count <= BTL_IB_QUEUES_MAX + 1; count++) {
        table.count = count;
        assert_refused(&table, "more queues than there are");
    }
    table.count = UINT32_MAX;
    assert_refused(&table, "4 billion queues");
    /* Sixteen good ones and, in the memory behind them, one more. */
    overlong.table = parse(GOOD_16);
    overlong.beyond = overlong.table.q[BTL_IB_QUEUES_MAX - 1];
    overlong.beyond.size++;
    overlong.table.count++;
    assert_refused(&overlong.table, "one queue too many");
    table.count = 1;
    assert_int_equal(btl_ib_queues_check(&table), 0);
    for (int type = 0; type < 256; type++) {
        table = origin;
        table.q[0].type = (btl_ib_queue_type_t) type;
        if (type != BTL_IB_QUEUE_PER_PEER) {
            assert_refused(&table, "type");
        }
    }
    for (int turn = 0; turn < 100000; turn++) {
        unsigned char *bytes = (unsigned char *) &table;

        for (size_t i = 0; i < sizeof table; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            bytes[i] = (unsigned char) (random >> 56);
        }
        table.count &= 31;
        assert_refused(&table, "garbage");
    }
}

/* What must fit the last queue is told at its place in the string. */
TEST(test_holds)
{
    static const char spec[] = "P,104,16:S,110,16";
    btl_ib_queue_table_t table;
    btl_ib_queues_error_t error;

    assert_int_equal(btl_ib_queues_parse(spec, &table, &error), 0);
    assert_int_equal(btl_ib_queues_holds(spec, &table, 110, &error), 0);
    assert_int_equal(btl_ib_queues_holds(spec, &table, 111, &error), -EINVAL);
    assert_int_equal(error.queue, 2);
    assert_int_equal(error.column, 12);
    assert_string_equal(error.field, "size");
    assert_string_equal(error.value, "110");
    assert_non_null(strstr(error.expected, "at least 111"));
    assert_int_equal(btl_ib_queues_parse("P,128,16,4", &table, &error), 0);
    assert_int_equal(btl_ib_queues_holds("P,128,16,4", &table, 129, &error), -EINVAL);
    assert_int_equal(error.column, 3);
}

UNIT_MAIN(NULL, NULL)
