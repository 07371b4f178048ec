/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The whole help text of a parameter whose range and default the table has as numbers: what
 * ompi_info shows, and the manual page.
 */

#ifndef BTL_IB_PARAM_HELP_H
#define BTL_IB_PARAM_HELP_H

#include "btl_ib_param_table.h"

#define BTL_IB_PARAM_HELP_MAX 512 /* bytes, with the end of the string */

/* Of a number: the sentence, and in brackets its unit, what else may follow, range, default. */
void btl_ib_param_number_help(const btl_ib_param_number_t *number,
                              char help[BTL_IB_PARAM_HELP_MAX]);

/* Of a switch: the sentence, and in brackets its values and its default. */
void btl_ib_param_toggle_help(const btl_ib_param_toggle_t *toggle,
                              char help[BTL_IB_PARAM_HELP_MAX]);

#endif
