/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What the user gave for the parameters: values made of it, and whether they can be used. */

#ifndef BTL_IB_PARAMS_CHECK_H
#define BTL_IB_PARAMS_CHECK_H

#include "btl_ib_params.h"

/*
 * Make values of the texts that the user gave, in place of those that Open MPI made of them. A text
 * that is wrong leaves the default of our own numbers, and btl_ib_params_check() will say so. To be
 * called when all are registered.
 */
void btl_ib_params_read(btl_ib_params_t *params, mca_btl_base_module_t *limits);

/*
 * Is every value in its range, and do they fit together? If not, a help text says which and what
 * was expected. To be called only when ib was asked for.
 */
bool btl_ib_params_check(const btl_ib_params_t *params, const mca_btl_base_module_t *limits);

#endif
