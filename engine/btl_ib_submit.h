/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* All that the files that send call of each other. */

#ifndef BTL_IB_SUBMIT_H
#define BTL_IB_SUBMIT_H

#include "btl_ib_batch.h"
#include "btl_ib_calls.h"
#include "btl_ib_coalesce.h"
#include "btl_ib_completion.h"
#include "btl_ib_sentmap.h"
#include "btl_ib_latency.h"
#include "btl_ib_limits.h"
#include "btl_ib_min.h"
#include "btl_ib_pending.h"
#include "btl_ib_retransmit.h"

#endif
