/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "said.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

char said[1024];

void listen_to(void *context, int level, const char *format, ...)
{
    va_list args;
    const size_t len = strlen(said);

    va_start(args, format);
    if (level == 1 && len + 1 < sizeof(said)) {
        vsnprintf(said + len, sizeof(said) - len, format, args);
    }
    va_end(args);
}

uint32_t diagnostics;
char diagnostic_detail[64];

void note_diagnostic(void *context, btl_ib_diagnostic_t what, const char *device,
                     const char *detail)
{
    assert_true(device[0] != 0);
    diagnostics |= 1u << what;
    snprintf(diagnostic_detail, sizeof(diagnostic_detail), "%s", detail);
}

void forget_said(void)
{
    said[0] = '\0';
    diagnostic_detail[0] = '\0';
    diagnostics = 0;
}
