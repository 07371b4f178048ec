/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What btl_ib_max_pinned says. No OPAL in here, so that it can be tested by itself. */

#ifndef BTL_IB_PIN_LIMIT_H
#define BTL_IB_PIN_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* What there is to be shared. */
typedef struct btl_ib_pin_host {
    uint64_t memory;    /* bytes of the host */
    uint64_t lockable;  /* bytes that this process may lock, UINT64_MAX: any number */
    uint32_t processes; /* of the job that the host runs, at least 1 */
} btl_ib_pin_host_t;

/*
 * Bytes that a process may pin: `text` is a number of bytes (0 to 2^64 - 1, also with a unit, see
 * btl_ib_param_values.h), or a part of the host's memory, which the processes share, as "50%" (0% to
 * 100%). Never more than it may lock. Returns NULL; or what is wrong with `text`, a literal, and
 * *bytes is as before then.
 */
const char *btl_ib_pin_limit(const char *text, const btl_ib_pin_host_t *host, uint64_t *bytes);

/* This host, as its system tells. */
btl_ib_pin_host_t btl_ib_pin_host(uint32_t processes);

#endif
