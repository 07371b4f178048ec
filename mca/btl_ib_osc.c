/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_osc.h"

#include <string.h>

#include "btl_ib_compat.h"
#include "btl_ib_param_values.h"

bool btl_ib_osc_has_pt2pt(void)
{
    return mca_base_var_find("ompi", "osc", "pt2pt", "no_locks") >= 0;
}

bool btl_ib_osc_takes_us_unasked(void)
{
    const int index = mca_base_var_find("ompi", "osc", "rdma", "btls");
    const char *const *names = NULL;

    return index >= 0 && mca_base_var_get_value(index, &names, NULL, NULL) == OPAL_SUCCESS
           && names != NULL && *names != NULL && btl_ib_value_lists(*names, "ib");
}
