/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What engine and transports have to tell (btl_ib_log_t): verbose lines, help texts about devices,
 * and the devices that were turned down while some were looked for.
 *
 * Each diagnostic is shown once. Those about a peer are kept until progress shows them, because
 * only the caller knows whose address it is; so are those, and all lines, that come while the
 * progress thread runs the engine, which may not print.
 */

#ifndef BTL_IB_LOG_H
#define BTL_IB_LOG_H

#include "btl_ib_kept_lines.h"
#include "btl_ib_rejected_devices.h"
#include "transport.h"

/* One that is to be shown. */
typedef struct btl_ib_pending_diagnostic {
    btl_ib_diagnostic_t what;
    bool of_peer; /* `detail` begins with a peer's address */
    char device[64];
    char detail[128];
} btl_ib_pending_diagnostic_t;

#define BTL_IB_LOG_LINES (1u << 31) /* lines are to be printed */

typedef struct btl_ib_log_state {
    const bool *async; /* the progress thread runs the engine now */
    bool ports_down;   /* show ports that are down: many machines have some without a cable */
    uint32_t known;    /* bits: diagnostics that were shown or are pending */
    uint32_t pending;  /* bits: those that are to be shown, and BTL_IB_LOG_LINES */
    btl_ib_kept_lines_t lines; /* of the progress thread */
    btl_ib_pending_diagnostic_t diagnostic[BTL_IB_DIAGS];
    btl_ib_rejected_devices_t *rejected; /* devices that are turned down go here; or NULL */
} btl_ib_log_state_t;

void btl_ib_log_init(btl_ib_log_state_t *state, const bool *async, bool ports_down);

/* The table for engine and transports, which `state` has to outlive. */
btl_ib_log_t btl_ib_log_table(btl_ib_log_state_t *state);

/* Collect the devices that are turned down from now on; NULL: no longer. */
static inline void btl_ib_log_collect(btl_ib_log_state_t *state,
                                      btl_ib_rejected_devices_t *rejected)
{
    state->rejected = rejected;
}

static inline bool btl_ib_log_pending(const btl_ib_log_state_t *state)
{
    return 0 != state->pending;
}

/* Print the lines that were kept, and name the next diagnostic that is to be shown. Returns whether
 * there is one. */
bool btl_ib_log_next(btl_ib_log_state_t *state, btl_ib_pending_diagnostic_t *diagnostic);

/* Show it; `peer` says whose address it has, if it is about a peer. */
void btl_ib_log_show(const btl_ib_pending_diagnostic_t *diagnostic, const char *peer);

#endif
