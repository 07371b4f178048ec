/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "transport.h"

#if BTL_IB_HAVE_OFI
#include "ofi.h"
#endif

const btl_ib_transport_type_t *const btl_ib_transport_types[] = {
#if BTL_IB_HAVE_OFI
    &btl_ib_ofi_type,
#endif
    NULL,
};
