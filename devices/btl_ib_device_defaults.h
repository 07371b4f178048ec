/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Defaults by device: the tables of btl_ib_device_param_files, then the component's own. */

#ifndef BTL_IB_DEVICE_DEFAULTS_H
#define BTL_IB_DEVICE_DEFAULTS_H

#include "btl_ib_device_table.h"
#include "btl_ib_params.h"
#include "transport.h"

#define BTL_IB_DEVICE_FILES_MAX 8

typedef struct btl_ib_device_defaults {
    const btl_ib_params_t *params; /* what the user says */
    uint32_t count;                /* of files */
    char *path[BTL_IB_DEVICE_FILES_MAX];
    char *text[BTL_IB_DEVICE_FILES_MAX];
} btl_ib_device_defaults_t;

/* Read the files. Returns false after a help text if one cannot be read or is wrong; then, too,
 * they are to be freed. */
bool btl_ib_device_defaults_read(btl_ib_device_defaults_t *defaults, const btl_ib_params_t *params);

void btl_ib_device_defaults_free(btl_ib_device_defaults_t *defaults);

/*
 * What a device is to be opened with: numbers are the user's where they are set, or else those of
 * its section, or the defaults; texts are empty where the user sets them or the section does not.
 * The section's name is empty if there is none. Tells of it at verbose level 1, if asked to.
 */
void btl_ib_device_defaults_apply(const btl_ib_device_defaults_t *defaults,
                                  const btl_ib_device_t *device, bool tell,
                                  btl_ib_device_config_t *config);

#endif
