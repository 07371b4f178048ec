/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * How much memory can a device really register (btl_ib_pin_probe)? Found by trying: the same memory
 * is registered again and again, which counts each time against what the process may lock and
 * takes room in the device's tables, but none of the host's memory. No OPAL in here.
 */

#ifndef BTL_IB_PIN_PROBE_H
#define BTL_IB_PIN_PROBE_H

#include <stdint.h>

#include "transport.h"

/* Bytes, up to `wanted`, rounded down to whole pages. Nothing stays registered. */
uint64_t btl_ib_pin_probe(btl_ib_transport_t *transport, uint64_t wanted);

/*
 * The same for all processes of a host that name the file `path`, and want as much: one of them
 * probes while the others wait, and leaves the result there. Whoever cannot open the file (NULL:
 * there is none) probes by itself.
 */
uint64_t btl_ib_pin_probe_once(btl_ib_transport_t *transport, uint64_t wanted, const char *path);

#endif
