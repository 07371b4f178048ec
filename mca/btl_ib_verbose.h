/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Verbose output (--mca btl_base_verbose N): lines that begin with "btl:ib: ". */

#ifndef BTL_IB_VERBOSE_H
#define BTL_IB_VERBOSE_H

#include "btl_ib_compat.h"

/* One fact: level 1 what was chosen and why, 10 what was rejected, 100 each datagram. The format
 * must be a literal. */
#define BTL_IB_VERBOSE(level, ...)                                                                 \
    opal_output_verbose((level), opal_btl_base_framework.framework_output, "btl:ib: " __VA_ARGS__)

/* Is that level shown? For what costs something to find out. */
static inline bool btl_ib_is_verbose(int level)
{
    return opal_output_get_verbosity(opal_btl_base_framework.framework_output) >= level;
}

#endif
