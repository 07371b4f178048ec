/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_param_parse.h"

#include <string.h>
#include <strings.h>

enum {
    SHARE_WHOLE = 1000000,
    LIST_MAX = 16, /* numbers of a list */
};

#define EMPTY     "it is empty"
#define NO_NUMBER "it is no number"

/* A unit that may follow a number: `factor` bytes or microseconds. */
typedef struct suffix {
    const char *text;
    uint64_t factor;
} suffix_t;

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

/* kB is left out: it is 1000 bytes for some and 1024 for others. */
static const suffix_t sizes[] = {
    {"k", KIB}, {"K", KIB}, {"KiB", KIB}, {"m", MIB}, {"M", MIB},   {"MiB", MIB},
    {"g", GIB}, {"G", GIB}, {"GiB", GIB}, {"T", TIB}, {"TiB", TIB}, {NULL, 0},
};

/* m is left out: it is a minute for some and a millisecond for others. */
static const suffix_t times[] = {
    {"us", 1}, {"ms", 1000}, {"s", 1000000}, {"min", 60000000}, {NULL, 0},
};

/* Facts about each unit, by btl_ib_value_unit_t. */
static const struct {
    const char *word;
    const suffix_t *suffixes;
    uint64_t factor; /* of a number without a suffix */
    const char *help;
    const char *fraction; /* the problem of a number that is no multiple of `factor` */
} units[] = {
    [BTL_IB_VALUE_COUNT] = {"", NULL, 1, "", NO_NUMBER},
    [BTL_IB_VALUE_BYTES] = {"bytes", sizes, 1, ", or with k, M, G or KiB, MiB, GiB after it",
                            NO_NUMBER},
    [BTL_IB_VALUE_MICROSECONDS] = {"microseconds", times, 1, ", or with us, ms, s or min after it",
                                   NO_NUMBER},
    [BTL_IB_VALUE_MILLISECONDS] = {"milliseconds", times, 1000,
                                   ", or with us, ms, s or min after it",
                                   "it is no whole number of milliseconds"},
    [BTL_IB_VALUE_SECONDS] = {"seconds", times, 1000000, ", or with us, ms, s or min after it",
                              "it is no whole number of seconds"},
};

#define UNITS (sizeof(units) / sizeof(units[0]))

btl_ib_value_unit_t btl_ib_value_unit(const char *word)
{
    for (size_t i = 1; word != NULL && i < UNITS; ++i) {
        if (strcmp(word, units[i].word) == 0) {
            return (btl_ib_value_unit_t) i;
        }
    }
    return BTL_IB_VALUE_COUNT;
}

const char *btl_ib_value_unit_help(btl_ib_value_unit_t unit)
{
    return units[unit].help;
}

/* ---- numbers ---- */

/* Returns the value of a hexadecimal digit; 16 for any other character. (isdigit() depends on the
 * locale.) */
static unsigned digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return (unsigned) (c - '0');
    }
    if (c >= 'a' && c <= 'f') {
        return (unsigned) (c - 'a') + 10;
    }
    return c >= 'A' && c <= 'F' ? (unsigned) (c - 'A') + 10 : 16;
}

/* Reads the digits at *at, and moves *at behind them. A number that is too large becomes
 * UINT64_MAX, and sets *overflow. */
static const char *digits(const char **at, uint64_t *value, bool *overflow)
{
    const bool hexadecimal = (*at)[0] == '0' && ((*at)[1] == 'x' || (*at)[1] == 'X');
    const unsigned base = hexadecimal ? 16 : 10;
    const char *first = *at + (hexadecimal ? 2 : 0);
    const char *c = first;

    *value = 0;
    *overflow = false;
    for (; digit_of(*c) < base; ++c) {
        const unsigned digit = digit_of(*c);

        if (*overflow || *value > (UINT64_MAX - digit) / base) {
            *overflow = true;
            *value = UINT64_MAX;
        } else {
            *value = *value * base + digit;
        }
    }
    if (c == first) {
        return NO_NUMBER;
    }
    if (!hexadecimal && first[0] == '0' && c > first + 1) {
        return "it begins with 0, which may be meant as octal";
    }
    *at = c;
    return NULL;
}

/* Returns the factor of the unit `text`, which stood behind a number; 0 if it is no unit. */
static uint64_t factor_of(const char *text, btl_ib_value_unit_t unit)
{
    const suffix_t *suffix = units[unit].suffixes;

    if (*text == '\0') {
        return units[unit].factor;
    }
    while (suffix != NULL && suffix->text != NULL && strcmp(text, suffix->text) != 0) {
        ++suffix;
    }
    return suffix != NULL ? suffix->factor : 0;
}

/* Returns the problem of a number that is out of range; NULL: it is in range. */
static const char *out_of_range(const btl_ib_value_range_t *range, uint64_t magnitude,
                                bool negative)
{
    if (negative && magnitude > 0) {
        const uint64_t most = range->low < 0 ? -(uint64_t) range->low : 0;

        return magnitude > most ? "it is too small" : NULL;
    }
    if (range->low > 0 && magnitude < (uint64_t) range->low) {
        return "it is too small";
    }
    return magnitude > range->high ? "it is too large" : NULL;
}

const char *btl_ib_value_number(const char *text, const btl_ib_value_range_t *range,
                                uint64_t *value)
{
    const bool negative = text[0] == '-';
    const char *at = text + (negative ? 1 : 0);
    uint64_t magnitude;
    uint64_t factor;
    bool overflow;
    const char *problem;

    if (*text == '\0') {
        return EMPTY;
    }
    problem = digits(&at, &magnitude, &overflow);
    if (problem != NULL) {
        return problem;
    }
    factor = factor_of(at, range->unit);
    if (factor == 0) {
        return range->unit == BTL_IB_VALUE_COUNT ? "something follows the number"
                                                 : "what follows the number is none of its units";
    }
    if (overflow || magnitude > UINT64_MAX / factor) {
        return negative ? "it is too small" : "it is too large";
    }
    magnitude *= factor;
    if (magnitude % units[range->unit].factor != 0) {
        return units[range->unit].fraction;
    }
    magnitude /= units[range->unit].factor;
    problem = out_of_range(range, magnitude, negative);
    if (problem == NULL) {
        *value = negative ? -magnitude : magnitude;
    }
    return problem;
}

const char *btl_ib_value_list(const char *text, const btl_ib_value_range_t *range, size_t most,
                              uint64_t *values, size_t *count)
{
    uint64_t read[LIST_MAX];
    const char *problem = NULL;
    size_t n = 0;
    bool more = true;

    while (problem == NULL && more) {
        const size_t len = strcspn(text, ",");
        char entry[32];

        if (n == most || n == LIST_MAX) {
            return "it has too many numbers";
        }
        if (len >= sizeof(entry)) {
            return "an entry is too long for a number";
        }
        memcpy(entry, text, len);
        entry[len] = '\0';
        problem = btl_ib_value_number(entry, range, &read[n++]);
        more = text[len] == ',';
        text += len + more;
    }
    if (problem == NULL) {
        memcpy(values, read, n * sizeof(read[0]));
        *count = n;
    }
    return problem;
}

/* Reads a fraction such as "0.25", in millionths. It needs at least one digit after the point; the
 * seventh and later ones are ignored. */
static const char *fraction(const char *text, uint64_t *value)
{
    const char *digits = text + 2;
    uint64_t sum = 0;

    if ((text[0] != '0' && text[0] != '1') || text[1] != '.' || *digits == '\0'
        || strspn(digits, "0123456789") != strlen(digits)) {
        return "it is no fraction from 0.0 to 1.0";
    }
    for (int i = 0; i < 6; ++i) {
        sum = 10 * sum + (uint64_t) (*digits != '\0' ? *digits++ - '0' : 0);
    }
    sum += text[0] == '1' ? SHARE_WHOLE : 0;
    if (sum > SHARE_WHOLE) {
        return "it is more than 1.0";
    }
    *value = sum;
    return NULL;
}

/* Reads a quotient such as "2/3", of numbers up to a million, in millionths. */
static const char *quotient(const char *text, uint64_t *value)
{
    uint64_t part;
    uint64_t whole = 0;
    bool overflow;
    const char *problem = digits(&text, &part, &overflow);

    if (problem == NULL && *text++ == '/') {
        problem = digits(&text, &whole, &overflow);
    }
    if (problem != NULL || *text != '\0' || whole == 0 || part > whole || whole > SHARE_WHOLE) {
        return problem != NULL ? problem : "it is no fraction from 0/1 to 1/1";
    }
    *value = part * SHARE_WHOLE / whole;
    return NULL;
}

const char *btl_ib_value_bytes_or_share(const char *text, uint64_t *value, bool *is_share)
{
    static const btl_ib_value_range_t any = {BTL_IB_VALUE_BYTES, 0, UINT64_MAX};
    static const btl_ib_value_range_t percent = {BTL_IB_VALUE_COUNT, 0, 100};
    const size_t len = strlen(text);
    const bool is_percent = len > 0 && text[len - 1] == '%';
    const char *problem;
    char number[32];

    *is_share = is_percent || strpbrk(text, "./") != NULL;
    if (!*is_share) {
        return btl_ib_value_number(text, &any, value);
    }
    if (!is_percent && strchr(text, '/') != NULL) {
        return quotient(text, value);
    }
    if (!is_percent) {
        return fraction(text, value);
    }
    if (len > sizeof(number)) {
        return "it is too long";
    }
    memcpy(number, text, len - 1);
    number[len - 1] = '\0';
    problem = btl_ib_value_number(number, &percent, value);
    if (problem == NULL) {
        *value *= SHARE_WHOLE / 100;
    }
    return problem;
}

/* ---- bools, flags, lists of words ---- */

const char *btl_ib_value_bool(const char *text, bool *value)
{
    /* Open MPI takes the same, and numbers beyond 1. */
    static const char *const words[2][6] = {
        {"0", "f", "false", "n", "no", "disabled"},
        {"1", "t", "true", "y", "yes", "enabled"},
    };

    if (*text == '\0') {
        return EMPTY;
    }
    for (size_t truth = 0; truth < 2; ++truth) {
        for (size_t i = 0; i < sizeof(words[0]) / sizeof(words[0][0]); ++i) {
            if (strcmp(text, words[truth][i]) == 0) {
                *value = truth == 1;
                return NULL;
            }
        }
    }
    return "it is none of these";
}

const char *btl_ib_value_truth_or_seconds(const char *text, bool *value, uint64_t *seconds)
{
    static const btl_ib_value_range_t day = {BTL_IB_VALUE_SECONDS, 1, 86400};
    const char *problem = btl_ib_value_bool(text, value);

    if (problem == NULL) {
        *seconds = 0;
    } else if ('0' <= text[0] && text[0] <= '9') {
        problem = btl_ib_value_number(text, &day, seconds);
        *value = problem == NULL || *value;
    }
    return problem;
}

/* Adds the bits of one entry, a name or a number, which has `len` characters. Returns false if it
 * is neither. */
static bool add_flag(const char *entry, size_t len, const btl_ib_value_flag_t *flags,
                     uint32_t *value)
{
    static const btl_ib_value_range_t any = {BTL_IB_VALUE_COUNT, 0, UINT32_MAX};
    uint32_t known = 0;
    uint64_t number;
    char text[16];

    for (; flags->name != NULL; ++flags) {
        if (len == strlen(flags->name) && strncasecmp(entry, flags->name, len) == 0) {
            *value |= flags->bit;
            return true;
        }
        known |= flags->bit;
    }
    if (len >= sizeof(text)) {
        return false;
    }
    memcpy(text, entry, len);
    text[len] = '\0';
    if (btl_ib_value_number(text, &any, &number) != NULL || (number & ~(uint64_t) known) != 0) {
        return false;
    }
    *value |= (uint32_t) number;
    return true;
}

const char *btl_ib_value_flags(const char *text, const btl_ib_value_flag_t *flags, uint32_t *value)
{
    uint32_t sum = 0;

    if (*text == '\0') {
        return EMPTY;
    }
    for (;;) {
        const size_t len = strcspn(text, ",");

        if (!add_flag(text, len, flags, &sum)) {
            return "an entry is none of these";
        }
        if (text[len] == '\0') {
            *value = sum;
            return NULL;
        }
        text += len + 1;
    }
}

bool btl_ib_value_lists(const char *list, const char *word)
{
    const size_t size = strlen(word);

    while (*list != '\0') {
        const size_t len = strcspn(list, ",");

        if (size == len && strncmp(list, word, len) == 0) {
            return true;
        }
        list += len + (list[len] == ',');
    }
    return false;
}

void btl_ib_value_show(const char *text, char *out, size_t size)
{
    size_t i = 0;

    for (; text[i] != '\0' && i + 1 < size; ++i) {
        const bool control = (unsigned char) text[i] < ' ' || text[i] == '\177';

        out[i] = control ? '?' : text[i];
    }
    out[i] = '\0';
    if (text[i] != '\0') {
        memcpy(out + size - 4, "...", 4);
    }
}
