/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What went wrong, for the log and for the help texts of who can change it. */

#ifndef BTL_IB_VERBS_DIAGNOSTICS_H
#define BTL_IB_VERBS_DIAGNOSTICS_H

#include "verbs_gid.h"
#include "verbs_port.h"

/* Log which call failed, and why. Returns -error, or -EIO if that is 0. */
int btl_ib_verbs_failed(const btl_ib_verbs_t *verbs, const char *call, int error);

/* Show the help text of `what`. */
void btl_ib_verbs_diag(const btl_ib_log_t *log, btl_ib_diagnostic_t what, const char *device,
                       const char *detail);

/* A device could not be opened by its file in /dev/infiniband ("uverbs0"). */
void btl_ib_verbs_diag_open(const btl_ib_log_t *log, const char *device, const char *file,
                            int error);

/* A GID cannot be reached: `what` says why. */
void btl_ib_verbs_diag_gid(const btl_ib_verbs_t *verbs, btl_ib_diagnostic_t what,
                           const union ibv_gid *gid);

/* Tell the user if the MTU of a peer's port differs from ours. `theirs` is an enum ibv_mtu, 0 if it
 * published none; `peer` is its address as text. */
void btl_ib_verbs_check_mtu(const btl_ib_verbs_t *verbs, uint8_t theirs, const char *peer);

#endif
