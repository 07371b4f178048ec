/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Filter of the devices that a user wants: btl_ib_if_include and btl_ib_if_exclude.
 *
 *   list  := [ entry { ',' entry } ]
 *   entry := name { '+' ( name | port ) } | address '/' prefix
 *   name  := device (mlx5_0: all its ports; mlx5_0:1) | network interface (eth0)
 *
 * A subnet is IPv4 (10.77.0.0/24) or IPv6 (fd00::/64); bits after its prefix don't count. It
 * matches devices whose own address is in it. Names are compared exactly; no spaces anywhere.
 * Names joined by '+' belong together: if one is missing, none of them in an include list is used.
 * A number there is a further port of the device before: mlx5_0:1+2+mlx5_1.
 */

#ifndef BTL_IB_DEVICES_H
#define BTL_IB_DEVICES_H

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
    bool torn; /* names joined by '+' of which the devices last seen had only some */
} btl_ib_device_entry_t;

typedef struct btl_ib_device_list {
    uint32_t count;
    btl_ib_device_entry_t entry[BTL_IB_DEVICE_ENTRIES_MAX];
} btl_ib_device_list_t;

/* At most one of the two may have entries; the reader of the parameters checks that. All zero: no
 * wishes. */
typedef struct btl_ib_device_filter {
    btl_ib_device_list_t include;
    btl_ib_device_list_t exclude;
    bool rdma_only; /* plain devices are not wanted */
} btl_ib_device_filter_t;

/* The reason why a list was refused. */
typedef struct btl_ib_devices_error {
    char entry[BTL_IB_DEVICE_ENTRY_SIZE]; /* as it stands in the list, cut to fit, controls shown
                                           * as '?' */
    uint32_t position;                    /* which entry, counted from 1 */
    const char *problem;                  /* what is wrong with it; a literal */
    char expected[128];                   /* what would have been right, in words */
} btl_ib_devices_error_t;

/*
 * Parses `text` (NULL and "" are lists without entries) into `list`. Strict: nothing is skipped or
 * guessed. Returns 0, or -EINVAL with `error` filled in and `list` undefined.
 */
int btl_ib_devices_parse(const char *text, btl_ib_device_list_t *list,
                         btl_ib_devices_error_t *error);

/* Logs at level 10, and tells the collector of such devices if there is one, that a device of
 * `transport`, or the transport itself (""), is not used. */
void btl_ib_devices_turn_down(const btl_ib_log_t *log, const char *transport, const char *device,
                              const char *reason);

/*
 * Moves the devices that are wanted to the front of `list`, in the order that they had, but those
 * that stand by (btl_ib_rank_t) behind the first address of each interface; the others follow, so
 * that the list can be given back whole. Without an include list devices with
 * `last_resort` are wanted only if no other is left, a loopback device only if nothing else is.
 * Returns how many are wanted, 0..count (count is at least 0).
 *
 * Sets `matched` of each entry that fits a device and never clears it: after all transports had
 * their turn, an include entry without it was for nothing, which the user has to be told. `log`
 * hears of devices turned down (level 10) and of include entries without a device in this list
 * (level 1).
 */
int btl_ib_devices_select(btl_ib_device_t *list, int count, btl_ib_device_filter_t *filter,
                          const btl_ib_log_t *log);

/* Returns how many of the devices that are wanted, the first ones, do not only stand by. */
int btl_ib_devices_first(const btl_ib_device_t *list, int count);

/*
 * Sorts devices of which not all will be used, by rank, then by their networks (IPv4 first, without
 * an address last), then by their addresses. So hosts that are in the same networks use the same
 * ones, in whatever order they list their interfaces.
 */
void btl_ib_devices_sort(btl_ib_device_t *list, int count);

#endif
