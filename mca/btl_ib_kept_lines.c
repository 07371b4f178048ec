/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_kept_lines.h"

#include <stddef.h>

btl_ib_kept_line_t *btl_ib_kept_lines_add(btl_ib_kept_lines_t *lines)
{
    if (lines->count == BTL_IB_KEPT_LINES) {
        lines->lost++;
        return NULL;
    }
    return &lines->line[(lines->first + lines->count++) % BTL_IB_KEPT_LINES];
}

const btl_ib_kept_line_t *btl_ib_kept_lines_take(btl_ib_kept_lines_t *lines)
{
    if (lines->count == 0) {
        return NULL;
    }
    const btl_ib_kept_line_t *line = &lines->line[lines->first];
    lines->first = (lines->first + 1) % BTL_IB_KEPT_LINES;
    lines->count--;
    return line;
}

uint32_t btl_ib_kept_lines_take_lost(btl_ib_kept_lines_t *lines)
{
    const uint32_t lost = lines->lost;

    lines->lost = 0;
    return lost;
}
