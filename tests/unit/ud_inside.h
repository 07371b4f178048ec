/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What the tests of transport "verbs" over UD see of its inside: ud_inside.c is the only one of
 * their files that includes its private headers, but that of what it publishes. */

#ifndef BTL_IB_TEST_UD_INSIDE_H
#define BTL_IB_TEST_UD_INSIDE_H

#include "transport.h"
#include "verbs_formats.h"

/* Limits of the transport; ud_inside.c demands that they are its own. */
enum {
    UD_BATCH = 64,          /* datagrams that one call posts */
    UD_EVENTS_EVERY = 1024, /* polls between two looks at the events of the device */
};

/* The address that a transport publishes. */
btl_ib_ud_address_t ud_address(const btl_ib_transport_t *t);

/* Work requests that all queue pairs have room for, completion queues, and entries of the first. */
uint32_t ud_work_requests(const btl_ib_transport_t *t);
uint32_t ud_completion_queues(const btl_ib_transport_t *t);
uint32_t ud_completions(const btl_ib_transport_t *t);

/* The port's address is of that kind, in such a subnet; and has a byte that is another. */
void ud_set_gid_type(btl_ib_transport_t *t, uint32_t type, uint8_t prefix_bits);
void ud_set_gid_byte(btl_ib_transport_t *t, uint32_t at, uint8_t value);

#endif
