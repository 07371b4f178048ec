/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Lines of the log that must wait until somebody may print them. */

#ifndef BTL_IB_KEPT_LINES_H
#define BTL_IB_KEPT_LINES_H

#include <stdbool.h>
#include <stdint.h>

enum { BTL_IB_KEPT_LINES = 32, BTL_IB_LINE_BYTES = 512 };

typedef struct btl_ib_kept_line {
    int level;
    char text[BTL_IB_LINE_BYTES];
} btl_ib_kept_line_t;

/* All zero: there are none. */
typedef struct btl_ib_kept_lines {
    uint32_t first;
    uint32_t count;
    uint32_t lost; /* lines that found no room */
    btl_ib_kept_line_t line[BTL_IB_KEPT_LINES];
} btl_ib_kept_lines_t;

/* Where the next line is to be written; NULL: there is no room, and that one more is lost is
 * noted. */
btl_ib_kept_line_t *btl_ib_kept_lines_add(btl_ib_kept_lines_t *lines);

/* Take the oldest; what it is does not change until one is added. NULL: there is none. */
const btl_ib_kept_line_t *btl_ib_kept_lines_take(btl_ib_kept_lines_t *lines);

/* How many were lost since this was asked last. */
uint32_t btl_ib_kept_lines_take_lost(btl_ib_kept_lines_t *lines);

#endif
