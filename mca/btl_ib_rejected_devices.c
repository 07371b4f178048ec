/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rejected_devices.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void btl_ib_rejected_devices_name(const char *transport, const char *device, char *out,
                                  size_t size)
{
    const bool named = device != NULL && device[0] != '\0';

    snprintf(out, size, "%s%s%s", transport, named ? "/" : "", named ? device : "");
}

void btl_ib_rejected_devices_add(btl_ib_rejected_devices_t *rejected, const char *transport,
                                 const char *device, const char *reason)
{
    btl_ib_rejected_device_t entry;

    btl_ib_rejected_devices_name(transport, device, entry.name, sizeof(entry.name));
    snprintf(entry.reason, sizeof(entry.reason), "%s", reason);
    for (uint32_t i = 0; i < rejected->count; ++i) {
        if (strcmp(rejected->device[i].name, entry.name) == 0
            && strcmp(rejected->device[i].reason, entry.reason) == 0) {
            return;
        }
    }
    if (rejected->count == BTL_IB_REJECTED_MAX) {
        ++rejected->more;
        return;
    }
    rejected->device[rejected->count++] = entry;
}

/* Returns whether the line fits, and what is before is kept if it does not. */
__attribute__((format(printf, 4, 5))) static bool add_line(char *out, size_t size, size_t *len,
                                                           const char *format, ...)
{
    va_list args;
    int added;

    va_start(args, format);
    added = vsnprintf(out + *len, size - *len, format, args);
    va_end(args);
    if (added < 0 || (size_t) added >= size - *len) {
        out[*len] = '\0';
        return false;
    }
    *len += (size_t) added;
    return true;
}

void btl_ib_rejected_devices_format(const btl_ib_rejected_devices_t *rejected, char *out,
                                    size_t size)
{
    size_t len = 0;
    bool fits = true;

    out[0] = '\0';
    if (rejected->count == 0) {
        (void) add_line(out, size, &len, "  (nothing)\n");
    }
    for (uint32_t i = 0; i < rejected->count && fits; ++i) {
        fits = add_line(out, size, &len, "  %s: %s\n", rejected->device[i].name,
                        rejected->device[i].reason);
    }
    if (fits && rejected->more > 0) {
        (void) add_line(out, size, &len, "  and %" PRIu32 " more\n", rejected->more);
    }
}
