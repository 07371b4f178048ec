/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What is known of why datagrams do not get to a peer, in words: what this host's own system
 * refuses, what the network says (ICMP), whose firewall that is, and what became of the interface
 * that they leave by. */

#ifndef BTL_IB_TROUBLE_H
#define BTL_IB_TROUBLE_H

#include "btl_ib_engine.h"

/* One sentence without its full stop, "" if nothing is known. `ours` and `theirs` are the addresses
 * of both ends, with or without a port. */
void btl_ib_trouble_format(const btl_ib_trouble_t *trouble, const char *ours, const char *theirs,
                           char *out, size_t size);

/* What to look at, in lines of a help text. */
const char *btl_ib_unsent_advice(int error);
const char *btl_ib_said_advice(int error);

/* What became of a device's interface and address: asked of the system now. */
void btl_ib_trouble_interface(const btl_ib_device_t *device, char *out, size_t size);

#endif
