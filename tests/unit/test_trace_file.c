/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The file of btl_ib_trace: what is in it, also when it is full, not closed, or out of space. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "btl_ib_trace_file.h"
#include "btl_ib_wire.h"
#include "unit.h"

enum { PER_WINDOW = BTL_IB_TRACE_WINDOW / sizeof(btl_ib_trace_event_t) };

static const btl_ib_trace_file_info_t info = {
    .component = "test",
    .host = "a \"host\"",
    .job = 0x12ab,
    .rank = 7,
    .pid = 42,
    .began = 1000,
    .size_max = 2 * BTL_IB_TRACE_WINDOW,
};

static char path[] = "/tmp/test_trace_file.XXXXXX";
static char *bytes; /* of the file */
static size_t size;

/* Its events, and how many there are room for. */
static const btl_ib_trace_event_t *events;
static size_t room;

static uint64_t written(void)
{
    uint64_t number;

    memcpy(&number, bytes + BTL_IB_TRACE_HEADER - sizeof(number), sizeof(number));
    return number;
}

static void look(void)
{
    FILE *in = fopen(path, "r");

    assert_non_null(in);
    free(bytes);
    bytes = malloc(4 << 20);
    assert_non_null(bytes);
    size = fread(bytes, 1, 4 << 20, in);
    fclose(in);
    assert_true(size >= BTL_IB_TRACE_HEADER);
    events = (const btl_ib_trace_event_t *) (const void *) (bytes + BTL_IB_TRACE_HEADER);
    room = (size - BTL_IB_TRACE_HEADER) / sizeof(*events);
}

static btl_ib_trace_file_t *begin(void)
{
    int error = -1;
    btl_ib_trace_file_t *file = btl_ib_trace_file_open(path, &info, &error);

    assert_non_null(file);
    assert_int_equal(error, 0);
    return file;
}

/* `count` events, which are numbered by their sequence from `first` on. */
static void add(btl_ib_trace_file_t *file, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        const btl_ib_trace_event_t event = {.seq = i, .kind = BTL_IB_TRACE_sent};
        btl_ib_trace_file_add(file, &event, 1000 + i);
    }
}

TEST(few)
{
    btl_ib_trace_file_t *file = begin();

    add(file, 0, 3);
    assert_int_equal(btl_ib_trace_file_close(file), 0);
    look();
    assert_int_equal(size, BTL_IB_TRACE_HEADER + 3 * sizeof(*events));
    assert_int_equal(written(), 3);
    assert_int_equal(events[2].seq, 2);
    assert_int_equal(events[2].time, 1002);
    assert_int_equal(strncmp(bytes, "{\"schema\": \"btl_ib trace\", \"version\": 1,\n", 41), 0);
    assert_non_null(strstr(bytes, "\"host\": \"a??host?\", \"job\": \"000012ab\", \"rank\": 7"));
    assert_non_null(strstr(bytes, "\"counters\": [\"sent_messages\", "));
    assert_string_equal(bytes + strlen(bytes) - 3, "]}\n");
}

/* A number in an event is a place in a table, which has no gap. */
TEST(tables)
{
    unsigned types = 0;

    assert_int_equal(btl_ib_trace_file_close(begin()), 0);
    look();
    const char *name = strstr(bytes, "\"types\": [");
    assert_non_null(name);
    const char *end = strchr(name, ']');
    assert_non_null(end);
    while ((name = strstr(name, "\"name\"")) != NULL && name < end) {
        ++types;
        ++name;
    }
    assert_int_equal(types, BTL_IB_TYPE_PATH_RESPONSE + 1);
}

TEST(none)
{
    assert_int_equal(btl_ib_trace_file_close(begin()), 0);
    look();
    assert_int_equal(size, BTL_IB_TRACE_HEADER);
    assert_int_equal(written(), 0);
}

/* The oldest go. */
TEST(round_it_goes)
{
    btl_ib_trace_file_t *file = begin();

    add(file, 0, 2 * PER_WINDOW + 5);
    assert_int_equal(btl_ib_trace_file_close(file), 0);
    look();
    assert_int_equal(room, 2 * PER_WINDOW);
    assert_int_equal(written(), 2 * PER_WINDOW + 5);
    assert_int_equal(events[4].seq, 2 * PER_WINDOW + 4);
    assert_int_equal(events[5].seq, 5);
    assert_int_equal(events[room - 1].seq, 2 * PER_WINDOW - 1);
}

/* What a process that was killed leaves. */
TEST(not_closed)
{
    btl_ib_trace_file_t *file = begin();

    add(file, 0, 10);
    look();
    assert_int_equal(written(), 10);
    assert_int_equal(room, PER_WINDOW);
    assert_int_equal(events[9].seq, 9);
    assert_int_equal(events[10].time, 0);
    assert_int_equal(btl_ib_trace_file_close(file), 0);
}

TEST(no_place)
{
    int error = 0;

    assert_null(btl_ib_trace_file_open("/proc/none/x", &info, &error));
    assert_int_equal(error, ENOENT);
}

/* Where space ends so does the trace, but not the process; what is missing is counted. */
TEST(no_space)
{
    btl_ib_trace_file_t *file = begin();
    struct rlimit limit, before;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = BTL_IB_TRACE_HEADER + BTL_IB_TRACE_WINDOW;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    add(file, 0, PER_WINDOW + 10);
    assert_int_equal(btl_ib_trace_file_close(file), EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    look();
    assert_int_equal(room, PER_WINDOW);
    assert_int_equal(written(), PER_WINDOW + 10);
    assert_int_equal(events[room - 1].seq, PER_WINDOW - 1);
}

static int make_place(void **state)
{
    const int fd = mkstemp(path);

    return fd < 0 ? -1 : close(fd);
}

static int clear_place(void **state)
{
    free(bytes);
    return unlink(path);
}

UNIT_MAIN(make_place, clear_place)
