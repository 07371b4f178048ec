/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Opening a port. */

#include "verbs_port.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

int btl_ib_verbs_failed(const btl_ib_verbs_t *verbs, const char *call, int error)
{
    error = error != 0 ? error : EIO;
    BTL_IB_VERBS_LOG(verbs, 1, "%s: %s: %s", verbs->base.name, call, strerror(error));
    btl_ib_verbs_trouble_memory(&verbs->log, verbs->base.name, error);
    return -error;
}

static struct ibv_context *open_by_name(const char *name)
{
    int count = 0;
    struct ibv_device **all = ibv_get_device_list(&count);
    struct ibv_context *context = NULL;

    errno = ENODEV;
    for (int i = 0; i < count; i++) {
        if (strcmp(ibv_get_device_name(all[i]), name) == 0) {
            context = ibv_open_device(all[i]);
            break;
        }
    }
    const int error = errno;
    if (all != NULL) {
        ibv_free_device_list(all);
    }
    errno = error;
    return context;
}

/* Where a partition is in the port's table. Full members before limited ones, which reach full members only. */
static int find_pkey(btl_ib_verbs_t *verbs, uint16_t wanted)
{
    __be16 entry;
    bool found = false;
    char text[16];

    for (int i = 0; i < verbs->port_attr.pkey_tbl_len; i++) {
        if (ibv_query_pkey(verbs->context, verbs->port, i, &entry) != 0) {
            continue;
        }
        const uint16_t pkey = be16toh(entry);
        const bool fits =
            (pkey & BTL_IB_VERBS_PKEY_NUMBER) != 0
            && (wanted == 0
                || (pkey & BTL_IB_VERBS_PKEY_NUMBER) == (wanted & BTL_IB_VERBS_PKEY_NUMBER));
        if (fits
            && (!found
                || (pkey & BTL_IB_VERBS_PKEY_FULL && !(verbs->pkey & BTL_IB_VERBS_PKEY_FULL)
                    && wanted != 0))) {
            verbs->pkey_index = (uint16_t) i;
            verbs->pkey = pkey;
            found = true;
        }
    }
    if (!found) {
        BTL_IB_VERBS_LOG(verbs, 1, "%s: port %u is in no partition 0x%x (btl_ib_pkey)",
                         verbs->base.name, verbs->port, wanted);
        snprintf(text, sizeof(text), "0x%04x", wanted);
        btl_ib_verbs_trouble(&verbs->log, BTL_IB_DIAG_PARTITION, verbs->base.name, text);
    }
    return found ? 0 : -ENOENT;
}

int btl_ib_verbs_port_open(btl_ib_verbs_t *verbs, const btl_ib_device_t *device,
                           const btl_ib_open_params_t *params)
{
    const btl_ib_verbs_device_t *handle = device->handle;
    int rc;

    verbs->log = params->log;
    verbs->port = handle->port;
    verbs->gid = handle->gid;
    snprintf(verbs->base.name, sizeof(verbs->base.name), "verbs/%.4s:%.52s", device->provider,
             device->name);
    verbs->context = open_by_name(handle->name);
    if (verbs->context == NULL) {
        return btl_ib_verbs_failed(verbs, "ibv_open_device", errno);
    }
    if ((rc = btl_ib_verbs_never_wait(verbs, verbs->context->async_fd)) != 0) {
        return rc;
    }
    if ((rc = ibv_query_device(verbs->context, &verbs->device)) != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_device", rc);
    }
    if ((rc = ibv_query_port(verbs->context, verbs->port, &verbs->port_attr)) != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_port", rc);
    }
    verbs->pd = ibv_alloc_pd(verbs->context);
    if (verbs->pd == NULL) {
        return btl_ib_verbs_failed(verbs, "ibv_alloc_pd", errno);
    }
    verbs->service_level = params->service_level;
    verbs->traffic_class = params->traffic_class;
    return find_pkey(verbs, params->pkey);
}

void btl_ib_verbs_port_close(btl_ib_verbs_t *verbs)
{
    if (verbs->pd != NULL) {
        (void) ibv_dealloc_pd(verbs->pd);
    }
    if (verbs->context != NULL) {
        (void) ibv_close_device(verbs->context);
    }
}
