/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Datagrams to work requests. */

#ifndef BTL_IB_VERBS_UD_SEND_H
#define BTL_IB_VERBS_UD_SEND_H

#include "transport.h"

/* send() of btl_ib_transport_ops_t. */
int btl_ib_ud_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error);

#endif
