/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Sleeping until a completion queue has something: a completion channel, and one descriptor (epoll)
 * that becomes readable with it or with other descriptors of the transport.
 */

#ifndef BTL_IB_VERBS_COMP_CHANNEL_H
#define BTL_IB_VERBS_COMP_CHANNEL_H

#include "verbs_port.h"

typedef struct btl_ib_verbs_comp {
    struct ibv_comp_channel *channel; /* of all completion queues */
    int fd;                           /* to sleep on */
} btl_ib_verbs_comp_t;

/* Make a descriptor non-blocking. Returns 0 or a negative errno after logging why. */
int btl_ib_verbs_nonblocking(const btl_ib_verbs_t *verbs, int fd);

/* Returns 0 or a negative errno after logging why; close follows in either case, if `fd` was -1
 * before. */
int btl_ib_verbs_comp_open(btl_ib_verbs_comp_t *comp, const btl_ib_verbs_t *verbs,
                           const int *others, int count);
void btl_ib_verbs_comp_close(btl_ib_verbs_comp_t *comp);

/* Read and acknowledge the events of the channel, so that it becomes readable again. Returns
 * whether any was there. */
bool btl_ib_verbs_comp_read(const btl_ib_verbs_comp_t *comp);

#endif
