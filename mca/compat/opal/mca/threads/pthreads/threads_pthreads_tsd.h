/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* In the place of an installed one that is missing: see threads_pthreads_mutex.h. */

#include "threads_pthreads_mutex.h"
