/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Calls of libraries that are refused: by devices that are not there (fake_verbs.h, fake_rdma.h),
 * and by a provider that nobody has (fake_provider.h).
 */

#ifndef BTL_IB_TEST_REFUSALS_H
#define BTL_IB_TEST_REFUSALS_H

#include <stdbool.h>

#include "transport.h"

/* Refuses all calls of that name with an errno from now on, but for the first `after`. NULL: none
 * is refused any more. Forgets what was said. */
void refuse(const char *call, int error, int after);

/* Returns the errno, which errno becomes, too, with which a call of that name is refused now; 0: it
 * is not. */
int refusal_of(const char *call);

/* Returns how many calls were refused since refuse(). */
int refusals(void);

/* Whatever a log is told, of any level, and for what devices are turned down. */
extern char refusals_said[8192];
extern const btl_ib_log_t refusals_log;

/* True if both were said in one line: the call's name and what that errno means. */
bool refusals_named(const char *call, int error);

/* Lists the devices of a transport, and frees them. Returns how many, or a negative errno. */
int refusals_devices(const btl_ib_transport_type_t *type);

/* What systems, filters and limits answer. The last one is 0. */
extern const int refusals_errors[];

#endif
