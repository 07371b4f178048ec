/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * For a program that is no MPI process: the part of Open MPI that knows parameters, and the
 * framework of BTLs, without any component and without a runtime. What asks the runtime must not be
 * called then.
 */

#ifndef BTL_IB_INFO_OPAL_H
#define BTL_IB_INFO_OPAL_H

/* Begin. Returns an OPAL status. */
int btl_ib_info_opal_begin(void);
void btl_ib_info_opal_end(void);

#endif
