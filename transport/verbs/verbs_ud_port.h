/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Open the port of a device, and watch whether it is still what peers know: its state, address and
 * partition. */

#ifndef BTL_IB_VERBS_UD_PORT_H
#define BTL_IB_VERBS_UD_PORT_H

#include "verbs_open.h"
#include "verbs_device.h"

enum {
    BTL_IB_UD_PKEY_NUMBER = 0x7fff, /* the bits of a P_Key that name the partition */
    BTL_IB_UD_PKEY_FULL = 0x8000,   /* a full member, which may talk to all others */
};

typedef struct btl_ib_ud_port {
    btl_ib_verbs_t verbs;
    uint16_t pkey; /* of the partition, BTL_IB_UD_PKEY_FULL included */
    uint16_t pkey_index;
    uint8_t service_level;
    uint8_t traffic_class;
    btl_ib_verbs_gid_t gid; /* what peers know the port by */
} btl_ib_ud_port_t;

/* Open the port of a device; port->verbs is initialized. Returns 0 or a negative errno after
 * logging why; close follows in either case. */
int btl_ib_ud_port_open(btl_ib_ud_port_t *port, const btl_ib_device_t *device,
                        const btl_ib_open_params_t *params);
void btl_ib_ud_port_close(btl_ib_ud_port_t *port);

/* Read and log the events of the device, and update `state`. Returns whether a port that was down
 * could be used again, perhaps by another place in the device's table of addresses. */
bool btl_ib_ud_port_events(btl_ib_ud_port_t *port, btl_ib_verbs_state_t *state);

/* Log that the device is of no use any more, and set `state`. */
void btl_ib_ud_port_fail(const btl_ib_ud_port_t *port, btl_ib_verbs_state_t *state,
                         const char *what, int error);

#endif
