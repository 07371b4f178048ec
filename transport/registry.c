/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "transport.h"

#include <dirent.h>

#include "udp.h"

#ifdef BTL_IB_HAVE_OFI
#include "ofi.h"
#endif
#ifdef BTL_IB_HAVE_VERBS
#include "verbs.h"
#endif

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

bool btl_ib_rdma_present(void)
{
    DIR *dir = opendir("/sys/class/infiniband");
    const struct dirent *entry = NULL;

    while (dir != NULL && (entry = readdir(dir)) != NULL && entry->d_name[0] == '.') {
    }
    if (dir != NULL) {
        (void) closedir(dir);
    }
    return entry != NULL;
}
