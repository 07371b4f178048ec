/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Take over the open context of a device: what UD and RC do alike with it. */

#ifndef BTL_IB_VERBS_OPEN_H
#define BTL_IB_VERBS_OPEN_H

#include "verbs_port.h"

/* Set what needs no call that can fail; `name` is for people. */
void btl_ib_verbs_init(btl_ib_verbs_t *verbs, const btl_ib_transport_ops_t *ops,
                       const btl_ib_log_t *log, const char *wire, const char *name);

/* Query the port, make its events non-blocking, and allocate a protection domain. `mtu` is that of
 * the open parameters. Returns 0 or a negative errno after logging why; verbs->context is the
 * port's in either case. */
int btl_ib_verbs_open(btl_ib_verbs_t *verbs, struct ibv_context *context, uint8_t port,
                      uint32_t mtu);

/* Free the protection domain; log what the port refused meanwhile. */
void btl_ib_verbs_close(btl_ib_verbs_t *verbs);

#endif
