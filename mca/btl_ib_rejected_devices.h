/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The devices that were turned down while some were looked for, and why, as a help text shows
 * them. */

#ifndef BTL_IB_REJECTED_DEVICES_H
#define BTL_IB_REJECTED_DEVICES_H

#include <stddef.h>
#include <stdint.h>

#define BTL_IB_REJECTED_MAX 32

typedef struct btl_ib_rejected_device {
    char name[80]; /* "udp/eth0" */
    char reason[144];
} btl_ib_rejected_device_t;

/* All zero: none yet. */
typedef struct btl_ib_rejected_devices {
    uint32_t count; /* 0..BTL_IB_REJECTED_MAX */
    uint32_t more;  /* found no place */
    btl_ib_rejected_device_t device[BTL_IB_REJECTED_MAX];
} btl_ib_rejected_devices_t;

/*
 * Add a device of `transport`, or that itself (`device` NULL or ""), unless it is there with the
 * same reason. What is too long is cut.
 */
void btl_ib_rejected_devices_add(btl_ib_rejected_devices_t *rejected, const char *transport,
                                 const char *device, const char *reason);

/* The name that a device has there. */
void btl_ib_rejected_devices_name(const char *transport, const char *device, char *out,
                                  size_t size);

/* Forget them: they are looked for again. */
static inline void btl_ib_rejected_devices_clear(btl_ib_rejected_devices_t *rejected)
{
    rejected->count = 0;
    rejected->more = 0;
}

/*
 * One line for each: "  udp/eth0: it is down", and a last one for those that found no place;
 * "  (nothing)" if there are none. What does not fit into `size` bytes is left out, in whole lines.
 */
void btl_ib_rejected_devices_format(const btl_ib_rejected_devices_t *rejected, char *out,
                                    size_t size);

#endif
