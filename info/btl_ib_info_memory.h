/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Memory that queues of receive buffers take, as ib_info --queues prints it. */

#ifndef BTL_IB_INFO_MEMORY_H
#define BTL_IB_INFO_MEMORY_H

#include "btl_ib_device_plan.h"
#include "btl_ib_info_output.h"

/* The command line of ib_info. ib_info.txt, which --help prints, explains it. */

#define BTL_IB_INFO_QUEUES_MAX 8

typedef struct btl_ib_info_args {
    bool parsable;
    uint64_t processes; /* of a job; 0: not said */
    uint64_t per_node;  /* of them on one host */
    uint64_t busy;      /* peers that a process talks to at a time; 0: all */
    const char *queues[BTL_IB_INFO_QUEUES_MAX];
    uint32_t queue_count;
    const char *transport; /* udp, ud, rc, ofi or verbs; NULL: all */
    uint64_t budget;       /* bytes of a process; 0: none was said */
} btl_ib_info_args_t;

/* True if the user asks what queues cost; else the user asks for devices. */
static inline bool btl_ib_info_of_memory(const btl_ib_info_args_t *args)
{
    return args->queue_count > 0 || args->budget > 0;
}

/* Prints the memory that queues take. Returns the exit status: 1, after a line on stderr, if queues
 * are wrong or none fit the budget. */
int btl_ib_info_memory(const btl_ib_process_sizes_t *sizes, const btl_ib_info_args_t *args);

#endif
