/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_device_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_queues.h"
#include "transport.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A part of a line. */
typedef struct span {
    const char *at;
    size_t len;
} span_t;

/* A table on its way through. */
typedef struct reader {
    uint32_t vendor; /* whom to look for */
    uint32_t part;
    btl_ib_device_config_t *found;
    btl_ib_device_table_error_t *error;
    btl_ib_device_config_t section; /* that the line belongs to */
    uint32_t line;
    uint32_t begun; /* the section's line; 0: there is none yet */
    uint32_t keys;  /* seen in it; a bit for each entry of keys[] */
    bool vendor_fits;
    bool part_fits;
    bool done; /* found was filled in */
} reader_t;

/* ---- words ---- */

static bool is_blank(char c)
{
    return ' ' == c || '\t' == c || '\r' == c;
}

static span_t trim(span_t span)
{
    while (span.len > 0 && is_blank(*span.at)) {
        ++span.at;
        --span.len;
    }
    while (span.len > 0 && is_blank(span.at[span.len - 1])) {
        --span.len;
    }
    return span;
}

static bool is_word(span_t span, const char *word)
{
    return span.len == strlen(word) && 0 == memcmp(span.at, word, span.len);
}

static void show(span_t span, char *out, size_t size)
{
    const size_t len = span.len < size ? span.len : size - 1;

    for (size_t i = 0; i < len; ++i) {
        const unsigned char c = (unsigned char) span.at[i];

        out[i] = c < ' ' || '\177' == c ? '?' : span.at[i];
    }
    out[len] = '\0';
}

/* Always -EINVAL. */
static int refuse(const reader_t *reader, const char *problem, const char *expected)
{
    reader->error->line = reader->line;
    reader->error->problem = problem;
    snprintf(reader->error->expected, sizeof(reader->error->expected), "%s", expected);
    return -EINVAL;
}

/* ---- values ---- */

/* A number of up to 32 bits, and what is behind it. Returns whether there is one. */
static bool parse_number(span_t *span, uint32_t *number)
{
    const bool hex = span->len > 2 && '0' == span->at[0] && 'x' == span->at[1];
    const char *const digits = hex ? "0123456789abcdefABCDEF" : "0123456789";
    uint64_t value = 0;
    size_t i = hex ? 2 : 0;
    const size_t first = i;

    for (; i < span->len && NULL != strchr(digits, span->at[i]) && value <= UINT32_MAX; ++i) {
        const char c = span->at[i];

        value = value * (hex ? 16 : 10) + (unsigned) (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    span->at += i;
    span->len -= i;
    *number = (uint32_t) value;
    return i > first && value <= UINT32_MAX;
}

/* Is `wanted` one of these numbers? */
static int parse_numbers(const reader_t *reader, span_t value, uint32_t wanted, bool *fits)
{
    static const char expected[] =
        "numbers and ranges of up to 32 bits with commas, as 4119,0x101b-0x101f, or any";
    uint32_t low;
    uint32_t high;

    *fits = is_word(value, "any");
    if (*fits) {
        return 0;
    }
    for (;;) {
        value = trim(value);
        if (!parse_number(&value, &low)) {
            return refuse(reader, "it is no number of a vendor or part", expected);
        }
        high = low;
        if (value.len > 0 && '-' == *value.at) {
            value = (span_t){value.at + 1, value.len - 1};
            if (!parse_number(&value, &high) || high < low) {
                return refuse(reader, "it is no range of numbers", expected);
            }
        }
        *fits = *fits || (low <= wanted && wanted <= high);
        value = trim(value);
        if (0 == value.len) {
            return 0;
        }
        if (',' != *value.at) {
            return refuse(reader, "something follows a number", expected);
        }
        value = (span_t){value.at + 1, value.len - 1};
    }
}

static int parse_queues(const reader_t *reader, span_t value, char *out, size_t size)
{
    btl_ib_queue_table_t table;
    btl_ib_queues_error_t error;

    if (value.len >= size) {
        return refuse(reader, "it is too long", "255 characters at most");
    }
    memcpy(out, value.at, value.len);
    out[value.len] = '\0';
    if (0 == btl_ib_queues_parse(out, &table, &error)) {
        return 0;
    }
    (void) refuse(reader, "it is no list of receive queues", "");
    snprintf(reader->error->expected, sizeof(reader->error->expected),
             "%s of queue %" PRIu32 ": %s", error.field, error.queue, error.expected);
    return -EINVAL;
}

/* ---- keys ---- */

enum { VENDOR, PART, IDS };

static const struct {
    const char *name;
    const char *words[2]; /* that the value may be */
    size_t offset;        /* in btl_ib_device_config_t */
    uint32_t low;
    uint32_t high; /* 0: it is no number */
    uint32_t least_but_0;
} keys[] = {
    [VENDOR] = {.name = "vendor_id"},
    [PART] = {.name = "vendor_part_id"},
    {.name = "transport",
     .words = {"verbs", "ofi"},
     .offset = offsetof(btl_ib_device_config_t, transport)},
    {.name = "wire", .words = {"ud", "rc"}, .offset = offsetof(btl_ib_device_config_t, wire)},
    {.name = "receive_queues", .offset = offsetof(btl_ib_device_config_t, receive_queues)},
    {.name = "max_inline_data",
     .offset = offsetof(btl_ib_device_config_t, max_inline_data),
     .high = BTL_IB_INLINE_MAX},
    {.name = "mtu",
     .offset = offsetof(btl_ib_device_config_t, mtu),
     .high = BTL_IB_MTU_MAX,
     .least_but_0 = BTL_IB_MTU_LEAST},
    {.name = "max_eager_rdma",
     .offset = offsetof(btl_ib_device_config_t, max_eager_rdma),
     .high = BTL_IB_EAGER_PEERS_MAX},
    {.name = "rc_reads",
     .offset = offsetof(btl_ib_device_config_t, rc_reads),
     .low = 1,
     .high = BTL_IB_READS_MAX},
};

static int parse_setting(reader_t *reader, size_t key, span_t value)
{
    char *field = (char *) &reader->section + keys[key].offset;
    char expected[64];
    uint32_t number;

    if (NULL != keys[key].words[0]) {
        for (size_t i = 0; i < 2; ++i) {
            if (is_word(value, keys[key].words[i])) {
                strcpy(field, keys[key].words[i]);
                return 0;
            }
        }
        snprintf(expected, sizeof(expected), "%s or %s", keys[key].words[0], keys[key].words[1]);
        return refuse(reader, "it is none of these", expected);
    }
    if (0 == keys[key].high) {
        return parse_queues(reader, value, field, sizeof(reader->section.receive_queues));
    }
    if (!parse_number(&value, &number) || value.len > 0 || number < keys[key].low
        || number > keys[key].high || (number > 0 && number < keys[key].least_but_0)) {
        snprintf(expected, sizeof(expected), "%s%" PRIu32 " to %" PRIu32,
                 keys[key].least_but_0 > 0 ? "0, or " : "",
                 keys[key].least_but_0 > 0 ? keys[key].least_but_0 : keys[key].low, keys[key].high);
        return refuse(reader, "it is no number in its range", expected);
    }
    *(int *) (void *) field = (int) number;
    return 0;
}

static int parse_key(reader_t *reader, span_t name, span_t value)
{
    size_t key = 0;

    while (key < COUNT(keys) && !is_word(name, keys[key].name)) {
        ++key;
    }
    if (COUNT(keys) == key) {
        return refuse(reader, "it is no key",
                      "vendor_id, vendor_part_id, transport, wire, receive_queues, "
                      "max_inline_data, mtu, max_eager_rdma or rc_reads");
    }
    if (0 != (reader->keys & 1u << key)) {
        return refuse(reader, "the section has it already", "each key once");
    }
    reader->keys |= 1u << key;
    switch (key) {
    case VENDOR:
        return parse_numbers(reader, value, reader->vendor, &reader->vendor_fits);
    case PART:
        return parse_numbers(reader, value, reader->part, &reader->part_fits);
    default:
        return parse_setting(reader, key, value);
    }
}

/* ---- sections ---- */

static int end_section(reader_t *reader)
{
    const uint32_t ids = 1u << VENDOR | 1u << PART;

    if (0 != reader->begun && ids != (reader->keys & ids)) {
        reader->line = reader->begun;
        show((span_t){reader->section.section, strlen(reader->section.section)}, reader->error->key,
             sizeof(reader->error->key));
        reader->error->value[0] = '\0';
        return refuse(reader, "nobody knows which devices it is for",
                      "vendor_id and vendor_part_id");
    }
    if (0 != reader->begun && !reader->done && reader->vendor_fits && reader->part_fits) {
        *reader->found = reader->section;
        reader->done = true;
    }
    return 0;
}

static int begin_section(reader_t *reader, span_t line)
{
    const uint32_t number = reader->line;
    const span_t name = line.len > 1 ? trim((span_t){line.at + 1, line.len - 2}) : line;
    const int rc = end_section(reader);

    if (0 != rc) {
        return rc;
    }
    reader->line = number;
    if (line.len < 3 || ']' != line.at[line.len - 1] || 0 == name.len
        || name.len >= sizeof(reader->section.section)) {
        return refuse(reader, "it is no beginning of a section",
                      "a name of 1 to 63 characters between [ and ]");
    }
    reader->section = BTL_IB_DEVICE_CONFIG_NONE;
    show(name, reader->section.section, sizeof(reader->section.section));
    reader->begun = number;
    reader->keys = 0;
    reader->vendor_fits = false;
    reader->part_fits = false;
    return 0;
}

static int parse_line(reader_t *reader, span_t line)
{
    const char *equals = memchr(line.at, '=', line.len);
    const size_t before = NULL != equals ? (size_t) (equals - line.at) : line.len;
    const span_t name = trim((span_t){line.at, before});
    const span_t value =
        NULL != equals ? trim((span_t){equals + 1, line.len - before - 1}) : (span_t){"", 0};

    show(name, reader->error->key, sizeof(reader->error->key));
    show(value, reader->error->value, sizeof(reader->error->value));
    if ('[' == *line.at) {
        return begin_section(reader, line);
    }
    if (NULL == equals) {
        return refuse(reader, "there is no '='", "key = value, [name], or # and a comment");
    }
    if (0 == reader->begun) {
        return refuse(reader, "it belongs to no section", "[name] above it");
    }
    return parse_key(reader, name, value);
}

int btl_ib_device_table_find(const char *table, uint32_t vendor, uint32_t part,
                             btl_ib_device_config_t *found, btl_ib_device_table_error_t *error)
{
    reader_t reader = {.vendor = vendor, .part = part, .found = found, .error = error};
    int rc = 0;

    memset(error, 0, sizeof(*error));
    while ('\0' != *table && 0 == rc) {
        const size_t len = strcspn(table, "\n");
        const span_t line = trim((span_t){table, len});

        ++reader.line;
        if (line.len > 0 && '#' != *line.at) {
            rc = parse_line(&reader, line);
        }
        table += len + ('\n' == table[len]);
    }
    rc = 0 == rc ? end_section(&reader) : rc;
    return 0 != rc ? rc : reader.done ? 1 : 0;
}

/* ---- for people ---- */

void btl_ib_device_config_format(const btl_ib_device_config_t *config, char *out, size_t size)
{
    size_t len = 0;

    snprintf(out, size, "nothing");
    for (size_t key = IDS; key < COUNT(keys); ++key) {
        const char *field = (const char *) config + keys[key].offset;
        const char *comma = len > 0 ? ", " : "";

        if (len >= size) {
            return;
        }
        if (0 == keys[key].high && '\0' != *field) {
            len +=
                (size_t) snprintf(out + len, size - len, "%s%s %s", comma, keys[key].name, field);
        } else if (0 != keys[key].high && 0 <= *(const int *) (const void *) field) {
            len += (size_t) snprintf(out + len, size - len, "%s%s %d", comma, keys[key].name,
                                     *(const int *) (const void *) field);
        }
    }
}
