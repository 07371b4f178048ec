/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_about.h"

#include <stdio.h>
#include <string.h>

/* The same on all processes of a host: one tells. */
static bool is_told(void)
{
    return btl_ib_verbose(1) && 0 == opal_process_info.my_local_rank;
}

static void print_transports(void)
{
    char list[128] = "";

    for (size_t i = 0; NULL != btl_ib_transport_types[i]; ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];
        const size_t len = strlen(list);

        snprintf(list + len, sizeof(list) - len, "%s%s%s%s", i > 0 ? ", " : "", type->name,
                 NULL != type->wire ? "/" : "", NULL != type->wire ? type->wire : "");
    }
    BTL_IB_VERBOSE(1, "transports built: %s", list);
}

/* Types of one library are neighbours. */
static void print_libraries(void)
{
    void (*last)(char *out, size_t len) = NULL;
    char text[160];

    for (size_t i = 0; NULL != btl_ib_transport_types[i]; ++i) {
        const btl_ib_transport_type_t *type = btl_ib_transport_types[i];

        if (NULL != type->library && last != type->library) {
            type->library(text, sizeof(text));
            BTL_IB_VERBOSE(1, "%s", text);
        }
        last = type->library;
    }
}

void btl_ib_about_versions(void)
{
    if (!is_told()) {
        return;
    }
    BTL_IB_VERBOSE(1,
                   "version " BTL_IB_VERSION ", built for Open MPI " BTL_IB_BUILT_FOR_VERSION
                   ", running in Open MPI %s, on host %s",
                   opal_version_string, opal_process_info.nodename);
    print_transports();
    print_libraries();
}

void btl_ib_about_device(const btl_ib_transport_type_t *type, const btl_ib_device_t *device,
                         uint32_t rail)
{
    char text[320];

    if (is_told()) {
        type->describe(device, text, sizeof(text));
        BTL_IB_VERBOSE(1, "rail %u: device %s on host %s: %s", rail, device->name,
                       opal_process_info.nodename, text);
    }
}
