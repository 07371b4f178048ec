/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "refusals.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct {
    const char *call;
    int error, after, count;
} state;

char refusals_said[8192];

const int refusals_errors[] = {EPERM, ENOMEM, EINVAL, ENOSYS, EOPNOTSUPP, 0};

void refuse(const char *call, int error, int after)
{
    state.call = call;
    state.error = error;
    state.after = after;
    state.count = 0;
    refusals_said[0] = '\0';
}

int refusal_of(const char *call)
{
    if (state.call == NULL || strcmp(call, state.call) != 0 || state.after-- > 0) {
        return 0;
    }
    state.after = 0;
    state.count++;
    errno = state.error;
    return state.error;
}

int refusals(void)
{
    return state.count;
}

static void add_line(const char *line)
{
    const size_t len = strlen(refusals_said);

    snprintf(refusals_said + len, sizeof(refusals_said) - len, "%s\n", line);
}

__attribute__((format(printf, 3, 4))) static void print(void *context, int level,
                                                        const char *format, ...)
{
    char line[512];
    va_list args;

    (void) context;
    (void) level;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    add_line(line);
}

static void turned_down(void *context, const char *transport, const char *device,
                        const char *reason)
{
    (void) context;
    (void) transport;
    (void) device;
    add_line(reason);
}

const btl_ib_log_t refusals_log = {.print = print, .turned_down = turned_down};

int refusals_devices(const btl_ib_transport_type_t *type)
{
    const btl_ib_search_t search = {.gid_index = -1, .log = refusals_log};
    btl_ib_device_t *list;
    const int count = type->devices(&search, &list);

    if (count > 0) {
        type->devices_free(list, count);
    }
    return count;
}

bool refusals_named(const char *call, int error)
{
    for (const char *at = refusals_said; (at = strstr(at, call)) != NULL; at++) {
        const char *end = strchr(at, '\n');
        const char *why = strstr(at, strerror(error));
        if (why != NULL && (end == NULL || why < end)) {
            return true;
        }
    }
    return false;
}
