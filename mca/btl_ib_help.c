/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* asprintf */
#endif

#include "btl_ib_help.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <inttypes.h>
#include <stdbool.h>

/* ---- devices that were turned down ---- */

void btl_ib_turned_down_devices_add(btl_ib_turned_down_devices_t *turned_down,
                                    const char *transport, const char *device, const char *reason)
{
    btl_ib_turned_down_device_t entry;

    btl_ib_turned_down_devices_name(transport, device, entry.name, sizeof(entry.name));
    snprintf(entry.reason, sizeof(entry.reason), "%s", reason);
    for (uint32_t i = 0; i < turned_down->count; ++i) {
        if (strcmp(turned_down->device[i].name, entry.name) == 0
            && strcmp(turned_down->device[i].reason, entry.reason) == 0) {
            return;
        }
    }
    if (turned_down->count == BTL_IB_TURNED_DOWN_MAX) {
        ++turned_down->more;
        return;
    }
    turned_down->device[turned_down->count++] = entry;
}

/* Appends a line. Returns false if it does not fit: then `out` is as before. */
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

void btl_ib_turned_down_devices_format(const btl_ib_turned_down_devices_t *turned_down, char *out,
                                       size_t size)
{
    size_t len = 0;
    bool fits = true;

    out[0] = '\0';
    if (turned_down->count == 0) {
        (void) add_line(out, size, &len, "  (nothing)\n");
    }
    for (uint32_t i = 0; i < turned_down->count && fits; ++i) {
        fits = add_line(out, size, &len, "  %s: %s\n", turned_down->device[i].name,
                        turned_down->device[i].reason);
    }
    if (fits && turned_down->more > 0) {
        (void) add_line(out, size, &len, "  and %" PRIu32 " more\n", turned_down->more);
    }
}

/* ---- lines that wait until somebody may print them ---- */

/* Returns the place for one more line; NULL: there is none, and the line is counted as lost. */
static btl_ib_kept_line_t *kept_lines_add(btl_ib_kept_lines_t *lines)
{
    if (lines->count == BTL_IB_KEPT_LINES) {
        lines->lost++;
        return NULL;
    }
    return &lines->line[lines->count++];
}

/* ---- help texts ---- */

/* As Open MPI frames its own. */
#define FRAME "--------------------------------------------------------------------------\n"

/* Stands in a text before the part that is shown at verbose 1 only. */
#define DETAILS '\f'
#define MORE    "More: --mca btl_base_verbose 1, and docs/guide/troubleshooting.md.\n"

static const struct {
    const char *topic;
    const char *text;
} texts[] = {
#include "btl_ib_help_texts.h" /* made of help-btl-ib.txt */
};

void btl_ib_show_help(const char *topic, ...)
{
    const char *text = "";
    char *filled = NULL;
    char *framed = NULL;
    char *details = NULL;
    const char *shown = "";
    va_list args;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
        if (strcmp(texts[i].topic, topic) == 0) {
            text = texts[i].text;
        }
    }
    va_start(args, topic);
    filled = vasprintf(&filled, text, args) >= 0 ? filled : NULL;
    va_end(args);
    if (filled != NULL) {
        details = strchr(filled, DETAILS);
    }
    if (details != NULL) {
        *details++ = '\0';
        shown = btl_ib_is_verbose(1) ? details : MORE;
    }
    /* Write it by one call, so that the output of other processes does not mix with it. */
    if (filled != NULL && asprintf(&framed, FRAME "%s%s" FRAME, filled, shown) >= 0) {
        fputs(framed, stderr);
        free(framed);
    }
    free(filled);
}

void btl_ib_help_cannot_start(const char *cause, int error, const char *step)
{
    const char *what = error != 0 ? strerror(error) : "";
    const char *colon = error != 0 ? ": " : "";

    BTL_IB_VERBOSE(1, "cannot start: %s%s%s", cause, colon, what);
    BTL_IB_SHOW_HELP("cannot start", opal_process_info.nodename, cause, colon, what, step);
}

/* ---- log of transports and engine ---- */

#define BTL_IB_LOG_LINES (1u << 31) /* lines are to be printed */

static const char *const topics[BTL_IB_DIAGS] = {
    [BTL_IB_DIAG_NO_LIBRARY] = "no library",       [BTL_IB_DIAG_NO_FILES] = "no device file",
    [BTL_IB_DIAG_NO_PERMISSION] = "no permission", [BTL_IB_DIAG_PORT_DOWN] = "port not active",
    [BTL_IB_DIAG_LOCKED_MEMORY] = "locked memory", [BTL_IB_DIAG_PARTITION] = "not in partition",
    [BTL_IB_DIAG_PORT_ERROR] = "port error",       [BTL_IB_DIAG_IDENTITY] = "address lost",
    [BTL_IB_DIAG_FATAL] = "device error",          [BTL_IB_DIAG_MIGRATED] = "path migrated",
    [BTL_IB_DIAG_REFUSED] = "connections refused",
};

/* Diagnostics about a peer. */
static const char *const peer_topics[BTL_IB_DIAGS] = {
    [BTL_IB_DIAG_UNREACHABLE] = "address unreachable",
    [BTL_IB_DIAG_SUBNET] = "no common subnet",
    [BTL_IB_DIAG_MTU] = "MTU differs",
};

static_assert(BTL_IB_DIAGS < 31, "each diagnostic has a bit beside BTL_IB_LOG_LINES");

static void print_kept(btl_ib_log_state_t *state)
{
    btl_ib_kept_lines_t *lines = &state->lines;

    state->pending &= ~BTL_IB_LOG_LINES;
    for (uint32_t i = 0; i < lines->count; ++i) {
        BTL_IB_VERBOSE(lines->line[i].level, "%s", lines->line[i].text);
    }
    if (lines->lost > 0) {
        BTL_IB_VERBOSE(1, "%u lines of the progress thread found no room", lines->lost);
    }
    lines->count = 0;
    lines->lost = 0;
}

static void log_print(void *context, int level, const char *format, ...)
{
    btl_ib_log_state_t *state = context;
    btl_ib_kept_line_t now, *line = &now;
    va_list args;

    if (!btl_ib_is_verbose(level)) {
        return;
    }
    /* Open MPI's output is thread-safe only if Open MPI was told that there are threads. */
    const bool keep = *state->async && !opal_using_threads();
    if (keep) {
        state->pending |= BTL_IB_LOG_LINES;
        line = kept_lines_add(&state->lines);
    } else if (state->pending & BTL_IB_LOG_LINES) {
        print_kept(state); /* earlier lines first */
    }
    if (line == NULL) {
        return;
    }
    line->level = level;
    va_start(args, format);
    vsnprintf(line->text, sizeof(line->text), format, args);
    va_end(args);
    if (!keep) {
        BTL_IB_VERBOSE(level, "%s", line->text);
    }
}

static void log_diagnostic(void *context, btl_ib_diagnostic_t what, const char *device,
                           const char *detail)
{
    btl_ib_log_state_t *state = context;
    btl_ib_pending_diagnostic_t *diagnostic = &state->diagnostic[what];

    if (state->known & 1u << what || (what == BTL_IB_DIAG_PORT_DOWN && !state->ports_down)) {
        return;
    }
    state->known |= 1u << what;
    diagnostic->what = what;
    diagnostic->of_peer = peer_topics[what] != NULL;
    snprintf(diagnostic->device, sizeof(diagnostic->device), "%s", device);
    snprintf(diagnostic->detail, sizeof(diagnostic->detail), "%s", detail);
    if (diagnostic->of_peer || *state->async) {
        state->pending |= 1u << what;
    } else {
        btl_ib_log_show(diagnostic, "");
    }
}

static void log_turned_down(void *context, const char *transport, const char *device,
                            const char *reason)
{
    const btl_ib_log_state_t *state = context;

    if (state->turned_down != NULL) {
        btl_ib_turned_down_devices_add(state->turned_down, transport, device, reason);
    }
}

btl_ib_log_t btl_ib_log_table(btl_ib_log_state_t *state)
{
    return (btl_ib_log_t){
        .print = log_print,
        .diagnostic = log_diagnostic,
        .turned_down = log_turned_down,
        .context = state,
    };
}

bool btl_ib_log_next(btl_ib_log_state_t *state, btl_ib_pending_diagnostic_t *diagnostic)
{
    if (state->pending & BTL_IB_LOG_LINES) {
        print_kept(state);
    }
    if (state->pending == 0) {
        return false;
    }
    *diagnostic = state->diagnostic[__builtin_ctz(state->pending)];
    state->pending &= state->pending - 1;
    return true;
}

void btl_ib_log_show(const btl_ib_pending_diagnostic_t *diagnostic, const char *peer)
{
    /* Processes of a host share its devices, so one of them reports; each has peers of its own. */
    if (diagnostic->of_peer) {
        btl_ib_show_help(peer_topics[diagnostic->what], opal_process_info.nodename,
                         diagnostic->device, peer, diagnostic->detail);
    } else if (diagnostic->what == BTL_IB_DIAG_REFUSED) { /* limits are each process's own */
        btl_ib_show_help(topics[diagnostic->what], opal_process_info.nodename, diagnostic->device,
                         diagnostic->detail);
    } else {
        BTL_IB_SHOW_HELP(topics[diagnostic->what], opal_process_info.nodename, diagnostic->device,
                         diagnostic->detail);
    }
}
