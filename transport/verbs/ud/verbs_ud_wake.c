/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Sleeping until there is something to poll: a descriptor that becomes readable with a completion, once the
 * completion queue was told to say so, or with an event of the device.
 */

#include "verbs_ud_rail.h"

#include <unistd.h>

int btl_ib_ud_wake_open(btl_ib_ud_t *ud)
{
    const int rc = btl_ib_verbs_bell_open(&ud->verbs, &ud->channel);
    if (rc != 0) {
        return rc;
    }
    const int fds[] = {ud->channel->fd, ud->verbs.context->async_fd};
    ud->wake_fd = btl_ib_verbs_watch(&ud->verbs, fds, 2);
    return ud->wake_fd < 0 ? ud->wake_fd : 0;
}

void btl_ib_ud_wake_close(btl_ib_ud_t *ud)
{
    if (ud->wake_fd >= 0) {
        (void) close(ud->wake_fd);
    }
    if (ud->channel != NULL) {
        (void) ibv_destroy_comp_channel(ud->channel);
    }
}

void btl_ib_ud_wake_heard(btl_ib_ud_t *ud)
{
    struct ibv_cq *cq;
    void *context;
    unsigned count = 0;

    while (ibv_get_cq_event(ud->channel, &cq, &context) == 0) {
        count++;
    }
    if (count > 0) {
        ibv_ack_cq_events(ud->cq, count);
        ud->armed = false;
    }
}

int btl_ib_ud_wait_fd(btl_ib_transport_t *t)
{
    btl_ib_ud_t *ud = btl_ib_ud_of(t);

    btl_ib_ud_wake_heard(ud);
    btl_ib_ud_ask_device(ud);
    if (!ud->armed && ibv_req_notify_cq(ud->cq, 0) != 0) {
        return -1;
    }
    ud->armed = true;
    /* What came before the queue was told rings nobody. */
    return ud->dead || btl_ib_ud_look(ud) ? -1 : ud->wake_fd;
}
