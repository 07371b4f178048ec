/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_info_opal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "btl_ib_compat.h"

int btl_ib_info_opal_begin(void)
{
    char host[256] = "";
    mca_base_framework_t *framework = &opal_btl_base_framework;
    int rc;

    /* Those that the user names would be looked for. */
    if (0 != setenv("OMPI_MCA_btl", "^ib", 1)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rc = opal_init_util(NULL, NULL);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    if (NULL == opal_process_info.nodename) { /* 4.1: the runtime would set it */
        (void) gethostname(host, sizeof(host) - 1);
        opal_process_info.nodename = strdup(host);
    }
    return mca_base_framework_register(framework, MCA_BASE_REGISTER_STATIC_ONLY);
}

void btl_ib_info_opal_end(void)
{
    (void) mca_base_framework_close(&opal_btl_base_framework);
    (void) opal_finalize_util();
}
