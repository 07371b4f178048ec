/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "verbs_ud_devices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device_filter.h"
#include "verbs_devices.h"
#include "verbs_diagnostics.h"
#include "verbs_memory.h"

static void turn_down(const btl_ib_search_t *search, const char *name, const char *why)
{
    btl_ib_devices_turn_down(&search->log, "verbs", name, why);
}

/* List a port once for each of its addresses. Returns 0 or -ENOMEM. */
static int add_port(btl_ib_verbs_list_t *list, const btl_ib_search_t *search,
                    struct ibv_context *context, const struct ibv_device_attr *attr, uint8_t port)
{
    btl_ib_verbs_gid_t *gids;
    char text[sizeof(((btl_ib_device_t *) NULL)->name)];
    struct ibv_port_attr port_attr;
    int rc = 0;

    btl_ib_verbs_device_text(ibv_get_device_name(context->device), attr->phys_port_cnt, port, text,
                             sizeof(text));
    if (ibv_query_port(context, port, &port_attr) != 0) {
        turn_down(search, text, "its port cannot be queried");
        return 0;
    }
    if (port_attr.state != IBV_PORT_ACTIVE) {
        turn_down(search, text, ibv_port_state_str(port_attr.state));
        btl_ib_verbs_diag(&search->log, BTL_IB_DIAG_PORT_DOWN, text,
                          ibv_port_state_str(port_attr.state));
        return 0;
    }
    const int count = btl_ib_verbs_gids(context, port, search->gid_index, &gids);
    if (count <= 0) {
        turn_down(search, text,
                  count < 0                ? strerror(-count)
                  : search->gid_index >= 0 ? "it has no GID at the place that btl_ib_gid_index says"
                                           : "it has no GID");
    }
    for (int i = 0; i < count && rc == 0; i++) {
        rc = btl_ib_verbs_list_append(list, "ud", context, port, attr, &port_attr, &gids[i]) != NULL
                 ? 0
                 : -ENOMEM;
    }
    free(gids);
    return rc;
}

static int add_device(btl_ib_verbs_list_t *list, const btl_ib_search_t *search,
                      struct ibv_device *device)
{
    const char *name = ibv_get_device_name(device);
    struct ibv_device_attr attr;
    int rc = 0;

    if (device->transport_type != IBV_TRANSPORT_IB) {
        turn_down(search, name, "it has no UD");
        return 0;
    }
    struct ibv_context *context = ibv_open_device(device);
    if (context == NULL || ibv_query_device(context, &attr) != 0) {
        const int error = errno;
        turn_down(search, name, strerror(error));
        btl_ib_verbs_diag_open(&search->log, name, device->dev_name, error);
        attr.phys_port_cnt = 0;
    }
    for (unsigned port = 1; port <= attr.phys_port_cnt && rc == 0; port++) {
        rc = add_port(list, search, context, &attr, (uint8_t) port);
    }
    if (context != NULL) {
        (void) ibv_close_device(context);
    }
    return rc;
}

/* No device was found. One that is known but without its file in /dev/infiniband is not in
 * libibverbs' list. */
static void tell_none(const btl_ib_search_t *search)
{
    btl_ib_verbs_diag_open(&search->log, "all", "", ENOENT);
    turn_down(search, "", "/dev/infiniband lacks what is in /sys/class/infiniband");
}

int btl_ib_ud_devices(const btl_ib_search_t *search, btl_ib_device_t **list)
{
    btl_ib_verbs_list_t found = {.count = 0};
    int count = 0;
    int rc = 0;

    *list = NULL;
    if (!btl_ib_verbs_ready(search, false)) {
        return 0;
    }
    struct ibv_device **all = ibv_get_device_list(&count);
    const int error = errno;
    if (count == 0) {
        tell_none(search);
    } else {
        btl_ib_verbs_prepare_fork(search);
    }
    if (all == NULL) {
        return error == ENOSYS ? 0 : -error; /* ENOSYS: the kernel knows nothing of RDMA */
    }
    for (int i = 0; i < count && rc == 0; i++) {
        rc = add_device(&found, search, all[i]);
    }
    ibv_free_device_list(all);
    if (rc != 0) {
        btl_ib_verbs_devices_free(found.device, found.count);
        return rc;
    }
    *list = found.device;
    return found.count;
}
