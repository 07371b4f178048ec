/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the text of a parameter stands for, or what is wrong with it. Strict: Open MPI's own parser
 * takes "abc" for 0 and "5m" for 5242880. No OPAL in here, so that it can be tested by itself.
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
 * All functions return NULL if the text is right and set *value then; else what is wrong, a literal
 * that follows "Problem:", and *value is as before.
 */

#ifndef BTL_IB_PARAM_PARSE_H
#define BTL_IB_PARAM_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Meanings of a number without a unit, and so which units may follow. */
typedef enum btl_ib_value_unit {
    BTL_IB_VALUE_COUNT, /* none may */
    BTL_IB_VALUE_BYTES,
    BTL_IB_VALUE_MICROSECONDS,
    BTL_IB_VALUE_MILLISECONDS,
    BTL_IB_VALUE_SECONDS,
} btl_ib_value_unit_t;

typedef struct btl_ib_value_range {
    btl_ib_value_unit_t unit;
    int64_t low;   /* in that unit, as `high` */
    uint64_t high; /* at least `low` */
} btl_ib_value_range_t;

/* A flag; the one that ends a list has no name. */
typedef struct btl_ib_value_flag {
    const char *name;
    uint32_t bit;
} btl_ib_value_flag_t;

/* Returns the unit that parameters call "bytes", "microseconds", "milliseconds" or "seconds"; COUNT
 * for any other word, and NULL. */
btl_ib_value_unit_t btl_ib_value_unit(const char *word);

/* Returns what may follow a number, as ", or with ... after it"; "" if nothing may. A literal. */
const char *btl_ib_value_unit_help(btl_ib_value_unit_t unit);

/* Reads a number: *value is in the range's unit; a negative one is what (uint64_t) makes of it. */
const char *btl_ib_value_number(const char *text, const btl_ib_value_range_t *range,
                                uint64_t *value);

/* Reads a list of at most `most` numbers, which are in the range; *count says how many. */
const char *btl_ib_value_list(const char *text, const btl_ib_value_range_t *range, size_t most,
                              uint64_t *values, size_t *count);

/* Reads a number of bytes, 0 to 2^64 - 1; or a share, as "50%", 0 to 100, or as a fraction, "0.5",
 * 0.0 to 1.0, or "2/3", of which *value is in millionths. */
const char *btl_ib_value_bytes_or_share(const char *text, uint64_t *value, bool *is_share);

const char *btl_ib_value_bool(const char *text, bool *value);

/* Reads a truth, or else a time of 1 to 86400 s, as "10" or "1s": *seconds, 0 if it is no time. */
const char *btl_ib_value_truth_or_seconds(const char *text, bool *value, uint64_t *seconds);

const char *btl_ib_value_flags(const char *text, const btl_ib_value_flag_t *flags, uint32_t *value);

/* True if `word` is one of `list`, whose words are separated by commas. */
bool btl_ib_value_lists(const char *list, const char *word);

/* Copies what a user wrote, to be shown: controls become '?', and what does not fit is cut, which
 * "..." tells. `size` is at least 4. */
void btl_ib_value_show(const char *text, char *out, size_t size);

#endif
