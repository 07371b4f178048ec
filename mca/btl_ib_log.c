/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What engine and transports have to say: lines of the verbose output, and help texts.
 */

#include "btl_ib.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *text_or_empty(const char *text)
{
    return NULL != text ? text : "";
}

static void log_print(void *context, int level, const char *format, ...)
{
    char line[512];
    va_list args;

    (void) context;
    /* Open MPI's output keeps others out only if it knows of threads. */
    if (mca_btl_ib_component.kicker.kicking && !opal_using_threads()) {
        return;
    }
    if (!btl_ib_verbose(level)) {
        return;
    }
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    BTL_IB_VERBOSE(level, "%s", line);
}

/* `peer`: who it is about, if that is anybody. What befalls a device one process of a host tells; with
 * a peer the others may have nothing to do. */
static void show_trouble(btl_ib_diagnostic_t what, const char *device, const char *detail,
                         const char *peer)
{
    static const char *const topics[BTL_IB_DIAGS] = {
        [BTL_IB_DIAG_NO_FILES] = "no device file",    [BTL_IB_DIAG_NO_PERMISSION] = "no permission",
        [BTL_IB_DIAG_PORT_DOWN] = "port not active",  [BTL_IB_DIAG_LOCKED_MEMORY] = "locked memory",
        [BTL_IB_DIAG_PARTITION] = "not in partition", [BTL_IB_DIAG_PORT_ERROR] = "port error",
        [BTL_IB_DIAG_IDENTITY] = "address lost",      [BTL_IB_DIAG_FATAL] = "device error",
        [BTL_IB_DIAG_MIGRATED] = "path migrated",
    };
    static const char *const peer_topics[BTL_IB_DIAGS] = {
        [BTL_IB_DIAG_UNREACHABLE] = "address unreachable",
        [BTL_IB_DIAG_SUBNET] = "no common subnet",
        [BTL_IB_DIAG_MTU] = "MTU differs",
    };

    if (NULL != peer_topics[what]) {
        btl_ib_show_help(peer_topics[what], opal_process_info.nodename, device, peer, detail);
    } else {
        BTL_IB_SHOW_HELP(topics[what], opal_process_info.nodename, device, detail);
    }
}

/* Each trouble once. Ports without a cable are many machines' normal state: only who named a device, or
 * transport verbs, hears of them. The kicker cannot show anything: the next turn does. */
static void tell_trouble(void *context, btl_ib_diagnostic_t what, const char *device,
                         const char *detail)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const btl_ib_params_t *params = &component->params;
    const bool asked = '\0' != text_or_empty(params->if_include)[0]
                       || 0 == strcmp(text_or_empty(params->transport), "verbs");
    btl_ib_late_trouble_t *late = &component->late_trouble[what];

    (void) context;
    if (component->told_troubles & 1u << what || (BTL_IB_DIAG_PORT_DOWN == what && !asked)) {
        return;
    }
    component->told_troubles |= 1u << what;
    (void) btl_ib_report_peer_at(detail, late->peer, sizeof(late->peer));
    if (!component->kicker.kicking) {
        show_trouble(what, device, detail, late->peer);
        return;
    }
    snprintf(late->device, sizeof(late->device), "%s", device);
    snprintf(late->detail, sizeof(late->detail), "%s", detail);
    component->late_troubles |= 1u << what;
}

void btl_ib_log_late(btl_ib_component_t *component)
{
    const uint32_t late = component->late_troubles;

    component->late_troubles = 0;
    for (unsigned what = 0; what < BTL_IB_DIAGS; ++what) {
        if (late & 1u << what) {
            show_trouble((btl_ib_diagnostic_t) what, component->late_trouble[what].device,
                         component->late_trouble[what].detail, component->late_trouble[what].peer);
        }
    }
}

const btl_ib_log_t btl_ib_logger = {
    .print = log_print,
    .diagnostic = tell_trouble,
    .context = NULL,
};
