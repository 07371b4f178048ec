/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The file of btl_ib_trace: what it is in JSON, padded to BTL_IB_TRACE_HEADER bytes, the last eight
 * of which count the events that were ever written; then the events, in a ring: when there is no
 * room for more the oldest go. It is mapped, so that a process that is killed loses nothing. No
 * OPAL in here: the simulator writes such files as well.
 */

#ifndef BTL_IB_TRACE_FILE_H
#define BTL_IB_TRACE_FILE_H

#include <stdint.h>

#include "btl_ib_trace_event.h"

/* Bytes: as mappings, they begin at pages, of up to 64 KiB. */
#define BTL_IB_TRACE_HEADER 65536u
#define BTL_IB_TRACE_WINDOW (1u << 20)
/* of events in a file: a million, as long as a stream of 1 GB/s takes a second or more */
#define BTL_IB_TRACE_MAX (64u << 20)

/* The process that writes it. */
typedef struct btl_ib_trace_file_info {
    const char *component; /* its version */
    const char *host;
    uint32_t job;
    uint32_t rank;
    long pid;
    uint64_t began;    /* the first moment, on the clock of the events: ns */
    uint64_t realtime; /* the same on that of the calendar: ns since 1970; 0: there is none */
    uint64_t size_max; /* bytes of events, at least BTL_IB_TRACE_WINDOW */
} btl_ib_trace_file_info_t;

typedef struct btl_ib_trace_file btl_ib_trace_file_t;

/* Create the file. Returns NULL and *error, an errno, if that is not possible. */
btl_ib_trace_file_t *btl_ib_trace_file_open(const char *name, const btl_ib_trace_file_info_t *info,
                                            int *error);

/* Add an event, with the time in ns. After an error (no space) events are only counted. */
void btl_ib_trace_file_add(btl_ib_trace_file_t *file, const btl_ib_trace_event_t *event,
                           uint64_t time);

/* Closes it. Returns 0 or the errno of the first error, after which events are missing. */
int btl_ib_trace_file_close(btl_ib_trace_file_t *file);

#endif
