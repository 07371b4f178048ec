/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The filter of devices: btl_ib_if_include and btl_ib_if_exclude.
 *
 *   list := [ entry { ',' entry } ] entry := name { '+' ( name | port ) } | address '/' prefix name
 *   := device (mlx5_0: all its ports; mlx5_0:1) | network interface (eth0)
 *
 * A subnet is IPv4 (10.77.0.0/24) or IPv6 (fd00::/64); bits after its prefix are ignored. It
 * matches devices whose own address is in it. Names are compared exactly; there are no spaces.
 * Names joined by '+' belong together: if a device is missing, none of them is used (in an include
 * list). A number after '+' is a further port of the device before: mlx5_0:1+2+mlx5_1.
 */

#ifndef BTL_IB_DEVICE_FILTER_H
#define BTL_IB_DEVICE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "transport.h"

#define BTL_IB_DEVICE_ENTRIES_MAX 64
#define BTL_IB_DEVICE_ENTRY_SIZE  128 /* eight devices of long names that belong together */

typedef struct btl_ib_device_entry {
    char text[BTL_IB_DEVICE_ENTRY_SIZE]; /* as the user wrote it */
    sa_family_t family;                  /* AF_UNSPEC: a name */
    uint8_t prefix_bits;                 /* of a subnet */
    uint8_t ip[16];                      /* of a subnet, in network order */
    bool matched;                        /* btl_ib_devices_select() saw a device that it fits */
    /* It joins names by '+', of which btl_ib_devices_select() last saw only some. */
    bool incomplete;
} btl_ib_device_entry_t;

typedef struct btl_ib_device_list {
    uint32_t count;
    btl_ib_device_entry_t entry[BTL_IB_DEVICE_ENTRIES_MAX];
} btl_ib_device_list_t;

/* Invariant: only one of the lists has entries (btl_ib_params_check()). All zero: any device. */
typedef struct btl_ib_device_filter {
    btl_ib_device_list_t include;
    btl_ib_device_list_t exclude;
    bool rdma_only; /* turns down plain devices (btl_ib_device_t) */
} btl_ib_device_filter_t;

/* The reason why a list was refused. */
typedef struct btl_ib_devices_error {
    char entry[BTL_IB_DEVICE_ENTRY_SIZE]; /* as the user wrote it, cut to fit, with control
                                           * characters shown as '?' */
    uint32_t position;                    /* of the entry, counted from 1 */
    const char *problem;                  /* what is wrong with it; a literal */
    char expected[128];                   /* what would be right, in words */
} btl_ib_devices_error_t;

/*
 * Parses `text` into `list`; NULL and "" give an empty list. Nothing is skipped or guessed. Returns
 * 0, or -EINVAL: then `error` is filled in, and `list` undefined.
 */
int btl_ib_devices_parse(const char *text, btl_ib_device_list_t *list,
                         btl_ib_devices_error_t *error);

/* Reports that a device of `transport`, or the transport itself (`device` ""), is not used, and
 * why: at level 10, and to log->turned_down. */
void btl_ib_devices_turn_down(const btl_ib_log_t *log, const char *transport, const char *device,
                              const char *reason);

/*
 * Moves the devices that are wanted to the front of `list`; the others follow, so that
 * devices_free() can take the whole list. Wanted devices are sorted by rank, which is set here
 * (btl_ib_rank_t): those that stand by come last. Otherwise their order stays. Without an include
 * list devices with `last_resort` are wanted only if no other is left, and loopback devices only if
 * nothing else is. Returns how many are wanted, 0..count.
 *
 * Sets `matched` of each entry that fits a device, and never clears it: an include entry that has
 * it not set after all transports were searched matched nothing, which the user has to know. Logs
 * devices that are turned down and include entries that match no device of this list (level 10), or
 * only some of their devices (level 1).
 */
int btl_ib_devices_select(btl_ib_device_t *list, int count, btl_ib_device_filter_t *filter,
                          const btl_ib_log_t *log);

/* Returns how many devices, at the front of a selected list, do not only stand by. */
int btl_ib_devices_first(const btl_ib_device_t *list, int count);

/*
 * Sorts devices, of which not all will be used, by rank, then by network (IPv4 first, devices
 * without an address last), then by address. So hosts in the same networks use the same ones,
 * whatever order they list their interfaces in.
 */
void btl_ib_devices_sort(btl_ib_device_t *list, int count);

#endif
