/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Devices that failed and come back (a driver that was reset, hot plug, a queue pair that broke for
 * good): they are looked for now and then, opened anew as they were before, and take their old
 * place in the engine.
 */

#ifndef BTL_IB_REOPEN_H
#define BTL_IB_REOPEN_H

#include "btl_ib_open_devices.h"

typedef struct btl_ib_reopen {
    uint64_t due;   /* us: the next look, UINT64_MAX: no device failed */
    uint64_t pause; /* us from there to the one after it */
    const btl_ib_params_t *params;
    btl_ib_engine_t *engine;
    btl_ib_log_state_t *log;
    uint32_t count;                   /* of rails */
    btl_ib_opened_device_t *opened;   /* as each was opened first */
    uint32_t times[BTL_IB_RAILS_MAX]; /* that it was opened anew */
} btl_ib_reopen_t;

/* Take over the list of what is open, which free() takes back. */
void btl_ib_reopen_init(btl_ib_reopen_t *reopen, const btl_ib_open_request_t *request,
                        btl_ib_opened_device_t *opened, uint32_t count);
void btl_ib_reopen_fini(btl_ib_reopen_t *reopen);

/* A device failed: look for it from now on. */
void btl_ib_reopen_begin(btl_ib_reopen_t *reopen, uint64_t now);

/* It is due. Returns a bit for each rail that has another transport now. */
uint32_t btl_ib_reopen_look(btl_ib_reopen_t *reopen, uint64_t now);

#endif
