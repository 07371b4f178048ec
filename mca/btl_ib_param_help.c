/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_param_help.h"

#include <inttypes.h>
#include <stdio.h>

#include "btl_ib_param_values.h"

void btl_ib_param_number_help(const btl_ib_param_number_t *number,
                              char help[BTL_IB_PARAM_HELP_MAX])
{
    const btl_ib_value_unit_t unit = btl_ib_value_unit(number->unit);
    const char *units = BTL_IB_VALUE_COUNT == unit   ? ""
                        : BTL_IB_VALUE_BYTES == unit ? " or with k, M, G"
                                                     : " or with us, ms, s, min";

    snprintf(help, BTL_IB_PARAM_HELP_MAX,
             "%s (%s%s, %" PRId64 " to %" PRId64 ", default: %" PRId64 ")", number->help,
             number->unit, units, number->low, number->high, number->standard);
}

void btl_ib_param_toggle_help(const btl_ib_param_toggle_t *toggle,
                              char help[BTL_IB_PARAM_HELP_MAX])
{
    snprintf(help, BTL_IB_PARAM_HELP_MAX, "%s (0 or 1, default: %d%s%s)", toggle->help,
             toggle->standard, NULL != toggle->note ? ", " : "",
             NULL != toggle->note ? toggle->note : "");
}
