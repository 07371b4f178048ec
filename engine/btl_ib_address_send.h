/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Tell a peer where the own rail of a connection is now (ADDRESS). */

#ifndef BTL_IB_ADDRESS_SEND_H
#define BTL_IB_ADDRESS_SEND_H

#include "btl_ib_state.h"

/* Send it by the present route, which is another. It is repeated as long as the own rails are tried
 * in vain. False: a peer that does not know us yet, or to which only smaller datagrams get through,
 * is not told; or memory or the transport did not allow it. */
bool btl_ib_address_send(btl_ib_conn_t *conn);

#endif
