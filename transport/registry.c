/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "transport.h"

const btl_ib_transport_type_t *const btl_ib_transport_types[] = {
#ifdef BTL_IB_HAVE_VERBS
    &btl_ib_verbs_ud_type,
    &btl_ib_verbs_rc_type,
#endif
    &btl_ib_udp_type,
#ifdef BTL_IB_HAVE_OFI
    &btl_ib_ofi_type,
#endif
    NULL,
};
