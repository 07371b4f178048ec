/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* asprintf */
#endif

#include "btl_ib_help.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_verbose.h"

/* As Open MPI frames its own. */
#define FRAME "--------------------------------------------------------------------------\n"

static const struct {
    const char *topic;
    const char *text;
} texts[] = {
#include "btl_ib_help_texts.h" /* made of help-btl-ib.txt */
};

bool btl_ib_show_help(const char *topic, ...)
{
    const char *text = NULL;
    char *filled = NULL;
    char *framed = NULL;
    va_list args;
    int rc;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
        if (0 == strcmp(texts[i].topic, topic)) {
            text = texts[i].text;
        }
    }
    if (NULL == text) {
        return false;
    }
    va_start(args, topic);
    rc = vasprintf(&filled, text, args);
    va_end(args);
    if (0 > rc) {
        return false;
    }
    /* In one piece, so that the output of other processes comes before or after it. */
    rc = asprintf(&framed, FRAME "%s" FRAME, filled);
    free(filled);
    if (0 > rc) {
        return false;
    }
    fputs(framed, stderr);
    free(framed);
    return true;
}

void btl_ib_help_cannot_start(const char *cause, int error, const char *step)
{
    const char *what = 0 != error ? strerror(error) : "";
    const char *colon = 0 != error ? ": " : "";

    BTL_IB_VERBOSE(1, "cannot start: %s%s%s", cause, colon, what);
    BTL_IB_SHOW_HELP("cannot start", opal_process_info.nodename, cause, colon, what, step);
}
