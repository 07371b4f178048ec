/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Parses the text of a parameter, or says what is wrong with it. Open MPI's own parser is not
 * strict: it takes "abc" for 0 and "5m" for 5242880. No OPAL in here, so that it can be tested by
 * itself.
 *
 *   number := ( [ '-' ] digits | '0x' hexadecimal digits ) [ unit ]
 *   bytes  := number with k, K, KiB, m, M, MiB, g, G, GiB, T, TiB (powers of 1024)
 *   time   := number with us, ms, s, min
 *   bool   := 0, f, false, n, no, disabled, 1, t, true, y, yes, enabled
 *   flags  := entry { ',' entry }; an entry is a name, in any case, or a number
 *   list   := number { ',' number }
 *
 * No octal numbers, no fractions, no spaces anywhere.
 *
 * Functions without a comment on what they return: NULL if the text is valid, and *value is set;
 * else what is wrong, a literal that follows "Problem:", and *value is as before.
 */

#ifndef BTL_IB_PARAM_PARSE_H
#define BTL_IB_PARAM_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a number without a unit counts, which also says which units may follow. */
typedef enum btl_ib_value_unit {
    BTL_IB_VALUE_COUNT, /* no unit may follow */
    BTL_IB_VALUE_BYTES,
    BTL_IB_VALUE_MICROSECONDS,
    BTL_IB_VALUE_MILLISECONDS,
    BTL_IB_VALUE_SECONDS,
} btl_ib_value_unit_t;

typedef struct btl_ib_value_range {
    btl_ib_value_unit_t unit;
    int64_t low;   /* in `unit` */
    uint64_t high; /* in `unit`; at least `low` */
} btl_ib_value_range_t;

/* A flag. A list of flags ends with one whose name is NULL. */
typedef struct btl_ib_value_flag {
    const char *name;
    uint32_t bit;
} btl_ib_value_flag_t;

/* Returns the unit that parameters call "bytes", "microseconds", "milliseconds" or "seconds"; COUNT
 * for any other word, and NULL. */
btl_ib_value_unit_t btl_ib_value_unit(const char *word);

/* Returns a literal that says what may follow a number, as ", or with k, M, G after it"; "" if
 * nothing may. */
const char *btl_ib_value_unit_help(btl_ib_value_unit_t unit);

/* Reads a number. *value is in the range's unit; a negative number is converted to uint64_t. */
const char *btl_ib_value_number(const char *text, const btl_ib_value_range_t *range,
                                uint64_t *value);

/* Reads a list of at most `most` numbers in the range into `values`; *count is how many. */
const char *btl_ib_value_list(const char *text, const btl_ib_value_range_t *range, size_t most,
                              uint64_t *values, size_t *count);

/* Reads a number of bytes, 0 to 2^64 - 1; or a share: a percentage ("50%", 0 to 100) or a fraction
 * ("0.5", 0.0 to 1.0; "2/3"). Then *is_share is true, and *value is in millionths. */
const char *btl_ib_value_bytes_or_share(const char *text, uint64_t *value, bool *is_share);

const char *btl_ib_value_bool(const char *text, bool *value);

/* Reads a bool, or a time of 1 to 86400 s, as "10" or "1s". Sets *seconds, 0 for a bool; a time is
 * true. */
const char *btl_ib_value_truth_or_seconds(const char *text, bool *value, uint64_t *seconds);

const char *btl_ib_value_flags(const char *text, const btl_ib_value_flag_t *flags, uint32_t *value);

/* True if `word` is one of `list`, whose words are separated by commas. */
bool btl_ib_value_lists(const char *list, const char *word);

/* Copies what a user wrote, to be shown: control characters become '?', and a text that does not
 * fit is cut and ends in "...". `size` is at least 4. */
void btl_ib_value_show(const char *text, char *out, size_t size);

#endif
