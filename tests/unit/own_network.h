/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A network of a test's own: a loopback device that it may change as it likes, and nothing else. */

#ifndef BTL_IB_TEST_OWN_NETWORK_H
#define BTL_IB_TEST_OWN_NETWORK_H

#include <stdint.h>

/* This process is in such a network from now on; or the test is skipped. Also for users other
 * than root, where they may have one. The loopback device is up, with its usual MTU. */
void need_own_network(void);

void set_lo_mtu(int mtu);

/* The address that the loopback device has under a label: "lo", which begins with 127.0.0.1, or
 * "lo:1". In a network of 32 bits, as all of a larger one would be this host. NULL: none. */
void set_lo_address(const char *label, const char *ip);

/* Gives the loopback device one more address, of 32 bits, with any label. */
void add_lo_address(const char *label, const char *ip);

/* Datagrams to a network of 16 bits ("10.9.0.0") leave by the loopback device; `mtu` 0: its own. */
void add_route(const char *network, uint32_t mtu);

#endif
