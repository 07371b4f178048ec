/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What a port counts of messages that found no receive buffer, in files of the system. A sender
 * whose requests are repeated without end (btl_ib_rnr_retry 7) sees nothing of that, and a receiver
 * only that its buffers are used up. Ports count for all processes that use them, and not all count
 * the same: of some it is RNR NAKs only, or nothing.
 */

#ifndef BTL_IB_VERBS_REFUSALS_H
#define BTL_IB_VERBS_REFUSALS_H

#include "verbs_port.h"

/* The counts of now. */
btl_ib_verbs_refusals_t btl_ib_verbs_refusals_read(const btl_ib_verbs_t *verbs);

/* Log what was added since the port was opened: at level 1 if anything was. */
void btl_ib_verbs_refusals_tell(const btl_ib_verbs_t *verbs);

#endif
