/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Open the port of a device, and watch whether it is still what peers know: its state, address and
 * partition. */

#ifndef BTL_IB_VERBS_UD_PORT_H
#define BTL_IB_VERBS_UD_PORT_H

#include "verbs_async_events.h"

/* Fill in all of `verbs` but ops and attr. Returns 0 or a negative errno after logging why; close
 * follows in either case. */
int btl_ib_ud_port_open(btl_ib_verbs_t *verbs, const btl_ib_device_t *device,
                        const btl_ib_open_params_t *params);
void btl_ib_ud_port_close(btl_ib_verbs_t *verbs);

/* Read and log the events of the device, and update `state`. */
void btl_ib_ud_port_events(const btl_ib_verbs_t *verbs, btl_ib_verbs_state_t *state);

/* Log that the device is of no use any more, and set `state`. */
void btl_ib_ud_port_fail(const btl_ib_verbs_t *verbs, btl_ib_verbs_state_t *state, const char *what,
                         int error);

#endif
