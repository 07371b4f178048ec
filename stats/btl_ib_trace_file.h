/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The file of btl_ib_trace begins with a header of BTL_IB_TRACE_HEADER bytes: a description in
 * JSON, padding, and in the last eight bytes the number of all events that were ever written. The
 * events follow, in a ring: when it is full, new events overwrite the oldest. The file is mapped,
 * so that a process that is killed loses nothing. No OPAL in here: the simulator writes such files,
 * too.
 */

#ifndef BTL_IB_TRACE_FILE_H
#define BTL_IB_TRACE_FILE_H

#include <stdint.h>

#include "btl_ib_trace_event.h"

/* Bytes of the mapped header and of a mapped window of events. Mappings begin at page boundaries,
 * and pages have up to 64 KiB. */
#define BTL_IB_TRACE_HEADER 65536u
#define BTL_IB_TRACE_WINDOW (1u << 20)
/* Bytes of events in a file: a million events, a second or more of a stream of 1 GB/s. */
#define BTL_IB_TRACE_MAX (64u << 20)

/* The process that writes a file. */
typedef struct btl_ib_trace_file_info {
    const char *component; /* version of the component */
    const char *host;
    uint32_t job;
    uint32_t rank;
    long pid;
    uint64_t began;    /* the start, ns on the clock of the events */
    uint64_t realtime; /* the start, ns since 1970; 0: not known (simulator) */
    uint64_t size_max; /* bytes of events, at least BTL_IB_TRACE_WINDOW */
} btl_ib_trace_file_info_t;

typedef struct btl_ib_trace_file btl_ib_trace_file_t;

/* Creates the file. Returns NULL if that fails; then *error is the errno. */
btl_ib_trace_file_t *btl_ib_trace_file_open(const char *name, const btl_ib_trace_file_info_t *info,
                                            int *error);

/* Adds an event; `time` in ns. After an error (no space) events are only counted. */
void btl_ib_trace_file_add(btl_ib_trace_file_t *file, const btl_ib_trace_event_t *event,
                           uint64_t time);

/* Closes and frees the file. Returns 0; or the errno of the first error, from which on events are
 * missing. */
int btl_ib_trace_file_close(btl_ib_trace_file_t *file);

#endif
