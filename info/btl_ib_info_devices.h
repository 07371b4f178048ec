/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What ib_info prints of this build, of devices and of memory. */

#ifndef BTL_IB_INFO_DEVICES_H
#define BTL_IB_INFO_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_device_plan.h"

/*
 * What ib_info prints: facts, in tables for people, with one a line for grep, or as JSON.
 *
 *   lines:  device udp eth0 mtu: 1500         JSON:  {"devices": [{"name": "eth0", "mtu": 1500}]}
 *   tables: udp eth0: rail 0
 *             mtu       1500 bytes
 *
 * A line begins with the names of the objects around its fact. Lists and objects without text in
 * front of their facts have none. In tables that is a heading, and what is unknown is left out.
 */
typedef enum btl_ib_info_form {
    BTL_IB_INFO_TABLES,
    BTL_IB_INFO_LINES,
    BTL_IB_INFO_JSON,
} btl_ib_info_form_t;

/*
 * Print what was built, and the devices. They are opened, and closed again, as a process of a job
 * of `processes` (0: any number) would do that names ib; help texts go to stderr. Returns how many
 * it would use.
 */
uint32_t btl_ib_info_devices(btl_ib_info_form_t form, const btl_ib_process_sizes_t *sizes,
                             uint32_t processes);

/* ---- memory ---- */

/* The command line of ib_info. What it means is in ib_info.txt, which --help prints. */

#define BTL_IB_INFO_QUEUES_MAX 8

typedef enum btl_ib_info_action {
    BTL_IB_INFO_SHOW,   /* devices */
    BTL_IB_INFO_MEMORY, /* what queues cost */
    BTL_IB_INFO_HELP,
    BTL_IB_INFO_VERSION,
} btl_ib_info_action_t;

typedef struct btl_ib_info_args {
    btl_ib_info_action_t action;
    btl_ib_info_form_t form;
    uint32_t processes; /* of a job; 0: not said */
    uint32_t per_node;  /* of them on one host */
    const char *queues[BTL_IB_INFO_QUEUES_MAX];
    uint32_t queue_count;
    const char *transport; /* udp, ud, rc, ofi or verbs; NULL: all */
    uint64_t budget;       /* bytes of a process; 0: none was said */
} btl_ib_info_args_t;

/* Print it. Returns the exit status: 1 if queues are wrong or nothing fits the budget, which is
 * said on stderr. */
int btl_ib_info_memory(const btl_ib_process_sizes_t *sizes, const btl_ib_info_args_t *args);

#endif
