/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What engines trace, in files as btl_ib_trace makes them: one of each process, for all its
 * lives. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_trace_file.h"
#include "sim.h"

void trace_event(void *context, const btl_ib_trace_event_t *event)
{
    const proc_t *proc = context;

    if (proc->trace != NULL) {
        btl_ib_trace_file_add(proc->trace, event, proc->sim->now);
    }
}

void trace_open(proc_t *proc)
{
    const sim_t *sim = proc->sim;
    char host[16], path[4096];
    int error;

    if (sim->trace_files == NULL || proc->trace != NULL) {
        return;
    }
    snprintf(host, sizeof(host), "p%u", proc->index);
    snprintf(path, sizeof(path), "%s.%u", sim->trace_files, proc->index);
    const btl_ib_trace_file_info_t info = {
        .component = "simulator",
        .host = host,
        .job = (uint32_t) (proc->name >> 32), /* as peers know it */
        .rank = (uint32_t) proc->name,
        .began = sim->now,
        .size_max = UINT64_C(1) << 40,
    };
    proc->trace = btl_ib_trace_file_open(path, &info, &error);
    if (proc->trace == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(error));
        exit(2);
    }
}

void trace_close(proc_t *proc)
{
    const int error = proc->trace == NULL ? 0 : btl_ib_trace_file_close(proc->trace);

    if (error != 0) {
        fprintf(stderr, "%s.%u is not complete: %s\n", proc->sim->trace_files, proc->index,
                strerror(error));
    }
}
