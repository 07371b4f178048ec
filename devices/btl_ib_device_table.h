/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Tables of defaults by device, as text. No OPAL in here, so that it can be tested by itself.
 *
 *   table   := { line }
 *   line    := nothing | '#' comment | '[' name ']' | key '=' value
 *   numbers := number [ '-' number ] { ',' number [ '-' number ] } | 'any'
 *
 * Lines belong to the section whose name is above them. Each section has vendor_id and
 * vendor_part_id, which are numbers (decimal, or hexadecimal with 0x); further keys are those of
 * btl_ib_device_config_t. Blanks around names, keys and values do not count. What
 * btl-ib-device-params.ini says of the keys is for users.
 */

#ifndef BTL_IB_DEVICE_TABLE_H
#define BTL_IB_DEVICE_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* What a section sets. Texts are empty, numbers negative if it does not. */
typedef struct btl_ib_device_config {
    char section[64];
    char transport[8];
    char wire[4];
    char receive_queues[256];
    int max_inline_data;
    int mtu;
    int max_eager_rdma;
    int rc_reads;
} btl_ib_device_config_t;

#define BTL_IB_DEVICE_CONFIG_NONE                                                                  \
    ((btl_ib_device_config_t){                                                                     \
        .max_inline_data = -1, .mtu = -1, .max_eager_rdma = -1, .rc_reads = -1})

/* Why a table was refused. */
typedef struct btl_ib_device_table_error {
    uint32_t line;       /* counted from 1 */
    char key[64];        /* what stands before '=', or all of a line that has none; cut to fit,
                          * controls shown as '?' */
    char value[128];     /* what stands behind it, the same */
    const char *problem; /* a literal */
    char expected[192];  /* what would have been right, in words */
} btl_ib_device_table_error_t;

/*
 * Read all of a table, and look for the first section that names a device. Strict: nothing is
 * skipped or guessed, in sections of other devices, either. Returns 1 and *found, 0 if no section
 * names it, or -EINVAL and *error.
 */
int btl_ib_device_table_find(const char *table, uint32_t vendor, uint32_t part,
                             btl_ib_device_config_t *found, btl_ib_device_table_error_t *error);

/* What was set, as text: "wire rc, mtu 1024", or "nothing". */
void btl_ib_device_config_format(const btl_ib_device_config_t *config, char *out, size_t size);

#endif
