/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_open.h"

#include <errno.h>
#include <stdio.h>

#include "verbs_comp_channel.h"
#include "verbs_diagnostics.h"
#include "verbs_refusals.h"

void btl_ib_verbs_init(btl_ib_verbs_t *verbs, const btl_ib_transport_ops_t *ops,
                       const btl_ib_log_t *log, const char *wire, const char *name)
{
    verbs->base.ops = ops;
    verbs->log = *log;
    snprintf(verbs->base.name, sizeof(verbs->base.name), "verbs/%s:%.54s", wire, name);
}

int btl_ib_verbs_open(btl_ib_verbs_t *verbs, struct ibv_context *context, uint8_t port,
                      uint32_t mtu)
{
    int error;

    verbs->context = context;
    verbs->port = port;
    if ((error = btl_ib_verbs_nonblocking(verbs, context->async_fd)) != 0) {
        return error;
    }
    if ((error = ibv_query_device(context, &verbs->device)) != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_device", error);
    }
    if ((error = ibv_query_port(context, port, &verbs->port_attr)) != 0) {
        return btl_ib_verbs_failed(verbs, "ibv_query_port", error);
    }
    verbs->refusals = btl_ib_verbs_refusals_read(verbs);
    verbs->mtu = btl_ib_verbs_mtu(verbs->port_attr.active_mtu, mtu);
    verbs->pd = ibv_alloc_pd(context);
    return verbs->pd != NULL ? 0 : btl_ib_verbs_failed(verbs, "ibv_alloc_pd", errno);
}

void btl_ib_verbs_close(btl_ib_verbs_t *verbs)
{
    if (verbs->pd != NULL) {
        btl_ib_verbs_refusals_tell(verbs);
        (void) ibv_dealloc_pd(verbs->pd);
    }
}
