/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_info_output.h"

#include <inttypes.h>
#include <stdio.h>

enum { WIDTH_OUTSIDE = 22 }; /* of names outside of blocks, for people */

void btl_ib_info_begin(btl_ib_info_out_t *out, const char *subject, const char *heading,
                       uint32_t width)
{
    snprintf(out->subject, sizeof(out->subject), "%s", subject);
    out->width = width;
    if (!out->parsable) {
        printf("%s%s\n", width > 0 || out->after_facts ? "\n" : "", heading);
        out->after_facts = width > 0;
    }
}

void btl_ib_info_end(btl_ib_info_out_t *out)
{
    out->subject[0] = '\0';
}

void btl_ib_info_text(const btl_ib_info_out_t *out, const char *name, const char *value)
{
    const bool in_block = out->subject[0] != '\0';

    if (out->parsable) {
        printf("%s%s%s: %s\n", out->subject, in_block ? " " : "", name,
               value[0] != '\0' ? value : "unknown");
    } else if (value[0] != '\0') {
        printf("%s%-*s%s\n", in_block ? "  " : "", in_block ? (int) out->width : WIDTH_OUTSIDE,
               name, value);
    }
}

void btl_ib_info_number(const btl_ib_info_out_t *out, const char *name, uint64_t value,
                        const char *unit)
{
    char text[64];

    snprintf(text, sizeof(text), "%" PRIu64 "%s%s", value, unit[0] != '\0' ? " " : "", unit);
    btl_ib_info_text(out, name, text);
}

const char *btl_ib_info_size(uint64_t bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double) bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        ++unit;
    }
    snprintf(out, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return out;
}
