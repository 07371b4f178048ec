/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_receive_queues.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * One description of the fields is used by the parser, the check, the printer and the joining of
 * queues. The bounds and the default of a field depend only on fields to its left, so all of them
 * work from left to right.
 */

typedef enum field {
    FIELD_SIZE,
    FIELD_NUM,
    FIELD_LOW,
    FIELD_WINDOW,
    FIELD_RESERVE,
    FIELD_MAX_PENDING,
    FIELD_INIT,
    FIELD_LIMIT,
    FIELDS,
} field_t;

/* The first field that may be omitted. */
#define FIRST_OPTIONAL 2u
#define FIELDS_OF_TYPE 6u

static const struct {
    const char *name;
    const char *why; /* reason for the upper bound, if it is not a plain limit */
    size_t offset;
} fields[FIELDS] = {
    [FIELD_SIZE] = {"size", "", offsetof(btl_ib_queue_t, size)},
    [FIELD_NUM] = {"num", "", offsetof(btl_ib_queue_t, num)},
    [FIELD_LOW] = {"low_watermark", ": less than num", offsetof(btl_ib_queue_t, low)},
    [FIELD_WINDOW] = {"window", ": the most that whole batches of num - low buffers give back",
                      offsetof(btl_ib_queue_t, window)},
    [FIELD_RESERVE] = {"reserve", "", offsetof(btl_ib_queue_t, reserve)},
    [FIELD_MAX_PENDING] = {"max_pending_sends", "", offsetof(btl_ib_queue_t, max_pending)},
    [FIELD_INIT] = {"init", ": not more than num", offsetof(btl_ib_queue_t, init)},
    [FIELD_LIMIT] = {"limit", ": not more than init", offsetof(btl_ib_queue_t, limit)},
};

typedef struct grammar {
    uint32_t count;
    field_t field[FIELDS_OF_TYPE];
    const char *text;
} grammar_t;

static const grammar_t grammar_p = {
    5,
    {FIELD_SIZE, FIELD_NUM, FIELD_LOW, FIELD_WINDOW, FIELD_RESERVE},
    "P,<size>,<num>[,<low_watermark>[,<window>[,<reserve>]]]",
};
static const grammar_t grammar_s = {
    6,
    {FIELD_SIZE, FIELD_NUM, FIELD_LOW, FIELD_MAX_PENDING, FIELD_INIT, FIELD_LIMIT},
    "S,<size>,<num>[,<low_watermark>[,<max_pending_sends>[,<init>[,<limit>]]]]",
};

static const grammar_t *grammar_of(btl_ib_queue_type_t type)
{
    return type == BTL_IB_QUEUE_PER_PEER ? &grammar_p : &grammar_s;
}

static uint32_t get(const btl_ib_queue_t *queue, field_t field)
{
    uint32_t value;

    memcpy(&value, (const char *) queue + fields[field].offset, sizeof value);
    return value;
}

static void set(btl_ib_queue_t *queue, field_t field, uint32_t value)
{
    memcpy((char *) queue + fields[field].offset, &value, sizeof value);
}

/* Returns the bounds of a field. The fields to its left must be in bounds. */
static uint32_t field_min(field_t field, uint32_t size_before)
{
    switch (field) {
    case FIELD_SIZE:
        return size_before < BTL_IB_QUEUE_SIZE_MIN ? BTL_IB_QUEUE_SIZE_MIN : size_before + 1;
    case FIELD_NUM:
        return 2; /* there must be a watermark below it */
    default:
        return 1;
    }
}

static uint32_t field_max(const btl_ib_queue_t *queue, field_t field)
{
    uint32_t batch;

    switch (field) {
    case FIELD_SIZE:
        return BTL_IB_QUEUE_SIZE_MAX;
    case FIELD_LOW:
        return queue->num - 1;
    case FIELD_WINDOW:
        batch = queue->num - queue->low;
        return queue->num / batch * batch;
    case FIELD_RESERVE:
        return BTL_IB_QUEUE_RESERVE_MAX;
    case FIELD_INIT:
        return queue->num;
    case FIELD_LIMIT:
        return queue->init;
    default:
        return BTL_IB_QUEUE_NUM_MAX;
    }
}

static uint32_t field_default(const btl_ib_queue_t *queue, field_t field)
{
    uint32_t value = 0;

    switch (field) {
    case FIELD_LOW:
        value = queue->num / 2;
        break;
    case FIELD_WINDOW:
        value = queue->low / 2;
        break;
    case FIELD_RESERVE:
        value = (2 * queue->num - 1) / queue->window;
        break;
    case FIELD_MAX_PENDING:
        value = queue->low / 4;
        break;
    case FIELD_INIT:
        value = queue->num / 4;
        break;
    default:
        assert(field == FIELD_LIMIT); /* sizes and nums have none */
        value = queue->init * 3 / 16;
        break;
    }
    return value > 0 ? value : 1;
}

/* Sets the fields of the queue's type from the `from`-th on to their defaults, and those of the
 * other type to 0. */
static void set_defaults(btl_ib_queue_t *queue, uint32_t from)
{
    const grammar_t *grammar = grammar_of(queue->type);
    btl_ib_queue_t fresh = {.type = queue->type};

    for (uint32_t i = 0; i < grammar->count; i++) {
        field_t field = grammar->field[i];

        set(&fresh, field, i < from ? get(queue, field) : field_default(&fresh, field));
    }
    *queue = fresh;
}

/* ---- the parser ---- */

/* Text between two separators. */
typedef struct token {
    const char *text;
    size_t len;
} token_t;

typedef struct parser {
    const char *spec;
    const char *at;
    uint32_t queue; /* counts from 1 */
    btl_ib_queues_error_t *error;
} parser_t;

/* Fills in the error; `expected` is a format for what would have been right. Returns -EINVAL. */
__attribute__((format(printf, 5, 6))) static int
fail(const parser_t *p, uint32_t queue, const char *field, token_t token, const char *expected, ...)
{
    btl_ib_queues_error_t *error = p->error;
    size_t len = token.len < sizeof error->value ? token.len : sizeof error->value - 1;
    va_list args;

    memset(error, 0, sizeof *error);
    error->queue = queue;
    error->field = field;
    error->column = (uint32_t) (token.text - p->spec) + 1;
    for (size_t i = 0; i < len; i++) { /* for a terminal: printable characters only */
        error->value[i] = token.text[i] >= ' ' && token.text[i] <= '~' ? token.text[i] : '?';
    }
    va_start(args, expected);
    vsnprintf(error->expected, sizeof error->expected, expected, args);
    va_end(args);
    return -EINVAL;
}

/* Takes the text up to the next separator, but not that. */
static token_t next_token(parser_t *p)
{
    token_t token = {p->at, strcspn(p->at, ",:")};

    p->at += token.len;
    return token;
}

/* Digits only, saturating. */
static bool parse_digits(token_t token, uint32_t *number)
{
    uint64_t value = 0;

    for (size_t i = 0; i < token.len; i++) {
        if (token.text[i] < '0' || token.text[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t) (token.text[i] - '0');
        value = value > UINT32_MAX ? UINT32_MAX : value;
    }
    *number = (uint32_t) value;
    return token.len > 0;
}

static int parse_field(parser_t *p, btl_ib_queue_t *queue, field_t field, uint32_t size_before)
{
    uint32_t min = field_min(field, size_before);
    uint32_t max = field_max(queue, field);
    token_t token = next_token(p);
    const char *why = fields[field].why;
    uint32_t number;

    if (token.len == 0 && field != FIELD_SIZE && field != FIELD_NUM) {
        set(queue, field, field_default(queue, field));
        return 0;
    }
    if (parse_digits(token, &number) && number >= min) {
        if (number <= max) {
            set(queue, field, number);
            return 0;
        }
        if (field == FIELD_INIT || field == FIELD_LIMIT) {
            if (p->error->queue == 0) { /* the first one */
                (void) fail(p, p->queue, fields[field].name, token, "%" PRIu32 "%s", max, why);
            }
            set(queue, field, max);
            return 0;
        }
    }
    if (field == FIELD_SIZE && size_before > 0) {
        why = ": sizes ascend";
    }
    if (min > max) {
        return fail(p, p->queue, fields[field].name, token,
                    "no queue after one of the largest size, %" PRIu32, max);
    }
    if (min == max) {
        return fail(p, p->queue, fields[field].name, token, "%" PRIu32 "%s", min, why);
    }
    return fail(p, p->queue, fields[field].name, token,
                "a whole number from %" PRIu32 " to %" PRIu32 "%s", min, max, why);
}

static int parse_type(parser_t *p, btl_ib_queue_t *queue)
{
    token_t token = next_token(p);

    if (token.len == 1
        && (token.text[0] == BTL_IB_QUEUE_PER_PEER || token.text[0] == BTL_IB_QUEUE_SHARED)) {
        queue->type = (btl_ib_queue_type_t) token.text[0];
        return 0;
    }
    const bool xrc = token.len == 1 && token.text[0] == 'X';
    return fail(p, p->queue, "type", token, "P (per peer) or S (shared)%s",
                xrc ? "; XRC (X) is not supported, S serves many peers with few buffers"
                : token.len == 0 ? ", for ':' joins two queues"
                                 : "");
}

static int parse_queue(parser_t *p, btl_ib_queue_t *queue, uint32_t size_before)
{
    const grammar_t *grammar;
    uint32_t given = 0;
    int rc = parse_type(p, queue);

    if (rc != 0) {
        return rc;
    }
    grammar = grammar_of(queue->type);
    while (*p->at == ',' && given < grammar->count) {
        p->at++;
        rc = parse_field(p, queue, grammar->field[given++], size_before);
        if (rc != 0) {
            return rc;
        }
    }
    if (*p->at == ',') {
        p->at++;
        return fail(p, p->queue, "extra field", next_token(p), "no more fields than %s",
                    grammar->text);
    }
    if (given < FIRST_OPTIONAL) {
        return fail(p, p->queue, fields[grammar->field[given]].name, next_token(p),
                    "all fields that %s demands", grammar->text);
    }
    set_defaults(queue, given);
    return 0;
}

int btl_ib_queues_parse(const char *spec, btl_ib_queue_table_t *table, btl_ib_queues_error_t *error)
{
    uint32_t size_before = 0;
    parser_t p = {.error = error};

    p.spec = p.at = spec != NULL ? spec : "";
    memset(table, 0, sizeof *table);
    memset(error, 0, sizeof *error);
    if (*p.spec == '\0') {
        return fail(&p, 0, "receive_queues", next_token(&p),
                    "at least one queue, such as P,<size>,<num> or S,<size>,<num>");
    }
    for (;;) {
        int rc;

        p.queue = table->count + 1;
        if (p.queue > BTL_IB_QUEUES_MAX) {
            return fail(&p, p.queue, "type", next_token(&p), "at most %d queues",
                        BTL_IB_QUEUES_MAX);
        }
        rc = parse_queue(&p, &table->q[table->count], size_before);
        if (rc != 0) {
            return rc;
        }
        size_before = table->q[table->count++].size;
        if (*p.at == '\0') {
            return 0;
        }
        p.at++;
    }
}

bool btl_ib_queues_is_written(const char *spec, uint32_t queue, const char *field)
{
    for (; queue > 0; queue--) {
        spec = strchr(spec, ':') + 1;
    }
    const grammar_t *grammar = grammar_of((btl_ib_queue_type_t) *spec);
    uint32_t i = 0;
    for (spec += strcspn(spec, ",:"); *spec == ',' && i < grammar->count; i++) {
        const size_t len = strcspn(spec + 1, ",:");
        if (strcmp(fields[grammar->field[i]].name, field) == 0) {
            return len > 0;
        }
        spec += 1 + len;
    }
    return false;
}

/* ---- tables ---- */

/* Joins `into` and `from` to one queue of the type of `into`. */
static void join_queues(btl_ib_queue_t *into, const btl_ib_queue_t *from)
{
    const grammar_t *grammar = grammar_of(into->type);
    btl_ib_queue_t other = *from;

    if (other.type != into->type) {
        other.type = into->type;
        set_defaults(&other, FIELD_LOW + 1);
    }
    for (uint32_t i = FIELD_NUM; i < grammar->count; i++) {
        field_t field = grammar->field[i];
        uint32_t sum = get(into, field) + get(&other, field);
        uint32_t max = field_max(into, field);

        set(into, field, sum < max ? sum : max);
    }
}

uint32_t btl_ib_queues_clamp(btl_ib_queue_table_t *table, uint32_t max_datagram)
{
    uint32_t largest = max_datagram < BTL_IB_QUEUE_SIZE_MIN ? BTL_IB_QUEUE_SIZE_MIN : max_datagram;
    uint32_t kept = 0;
    uint32_t cut = 0;

    for (uint32_t i = 0; i < table->count; i++) {
        btl_ib_queue_t queue = table->q[i];

        if (queue.size > largest) {
            queue.size = largest;
            cut++;
        }
        if (kept > 0 && table->q[kept - 1].size == queue.size) {
            join_queues(&table->q[kept - 1], &queue);
        } else {
            table->q[kept++] = queue;
        }
    }
    memset(&table->q[kept], 0, (table->count - kept) * sizeof table->q[0]);
    table->count = kept;
    return cut;
}

void btl_ib_queues_set_slack(btl_ib_queue_table_t *table, uint32_t slack)
{
    for (uint32_t i = 0; i < table->count; i++) {
        btl_ib_queue_t *queue = &table->q[i];

        if (queue->type == BTL_IB_QUEUE_PER_PEER) {
            const uint32_t most = field_max(queue, FIELD_WINDOW);
            queue->window = slack < most ? slack + 1 : most;
        }
    }
}

int btl_ib_queues_holds(const char *spec, const btl_ib_queue_table_t *table, uint32_t least,
                        btl_ib_queues_error_t *error)
{
    if (table->q[table->count - 1].size >= least) {
        return 0;
    }
    /* The size is behind the type and its comma. */
    const char *last = strrchr(spec, ':');
    parser_t p = {.spec = spec, .at = (last == NULL ? spec : last + 1) + 2, .error = error};

    return fail(&p, table->count, "size", next_token(&p),
                "at least %" PRIu32 " in the last queue, for what travels in one piece", least);
}

static bool queue_fits(const btl_ib_queue_t *queue, uint32_t size_before)
{
    const grammar_t *grammar;
    uint32_t used = 0;

    if (queue->type != BTL_IB_QUEUE_PER_PEER && queue->type != BTL_IB_QUEUE_SHARED) {
        return false;
    }
    grammar = grammar_of(queue->type);
    for (uint32_t i = 0; i < grammar->count; i++) {
        field_t field = grammar->field[i];
        uint32_t value = get(queue, field);

        if (value < field_min(field, size_before) || value > field_max(queue, field)) {
            return false;
        }
        used |= 1u << field;
    }
    for (uint32_t field = 0; field < FIELDS; field++) {
        /* Only the idle credits of a P queue are set by engines, not by the parser. */
        uint32_t max = field == FIELD_INIT ? queue->num : 0;

        if ((used & 1u << field) == 0 && get(queue, (field_t) field) > max) {
            return false;
        }
    }
    return true;
}

int btl_ib_queues_check(const btl_ib_queue_table_t *table)
{
    uint32_t size_before = 0;

    if (table->count < 1 || table->count > BTL_IB_QUEUES_MAX) {
        return -EINVAL;
    }
    for (uint32_t i = 0; i < table->count; i++) {
        if (!queue_fits(&table->q[i], size_before)) {
            return -EINVAL;
        }
        size_before = table->q[i].size;
    }
    return 0;
}

int btl_ib_queues_format(const btl_ib_queue_table_t *table, char *out, size_t len)
{
    size_t used = 0;

    if (len > 0) {
        out[0] = '\0';
    }
    for (uint32_t i = 0; i < table->count; i++) {
        const btl_ib_queue_t *queue = &table->q[i];
        const grammar_t *grammar = grammar_of(queue->type);
        /* A piece is a separator and a field; the first field is the type. */
        for (uint32_t piece = 0; piece <= grammar->count; piece++) {
            char text[16];
            int width;

            if (piece == 0) {
                width = snprintf(text, sizeof text, "%s%c", i > 0 ? ":" : "", (int) queue->type);
            } else {
                width =
                    snprintf(text, sizeof text, ",%" PRIu32, get(queue, grammar->field[piece - 1]));
            }
            if (used < len) {
                snprintf(out + used, len - used, "%s", text);
            }
            used += (size_t) width;
        }
    }
    return (int) used;
}
