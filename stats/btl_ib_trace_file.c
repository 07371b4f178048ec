/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "btl_ib_counters.h"
#include "btl_ib_file_name.h"

/* To be raised when something changes its meaning or goes. */
#define SCHEMA_VERSION 1

enum { WINDOW_EVENTS = BTL_IB_TRACE_WINDOW / sizeof(btl_ib_trace_event_t) };

struct btl_ib_trace_file {
    int fd;
    int error;
    char *header;                 /* mapped */
    btl_ib_trace_event_t *window; /* mapped; NULL: none yet, or no more after an error */
    uint64_t windows;             /* that the ring has at most */
    uint64_t begun;               /* windows that were begun, each time round */
    uint32_t used;                /* events in the present one */
};

/* ---- what stands first ---- */

static void put_header(FILE *out, const btl_ib_trace_file_info_t *info)
{
    const uint16_t probe = 1;

    fprintf(out, "{\"schema\": \"btl_ib trace\", \"version\": %d,\n", SCHEMA_VERSION);
    fprintf(out, "\"header\": %u, \"record\": %zu, \"ring\": %" PRIu64 ", \"bytes\": \"%s\",\n",
            BTL_IB_TRACE_HEADER, sizeof(btl_ib_trace_event_t),
            info->size_max / BTL_IB_TRACE_WINDOW * WINDOW_EVENTS,
            *(const uint8_t *) &probe == 1 ? "little" : "big");
    fprintf(out, "\"component\": \"%s\", \"host\": \"", info->component);
    for (const char *c = info->host; *c != '\0'; ++c) {
        fputc(*c > ' ' && *c <= '~' && *c != '"' && *c != '\\' ? *c : '?', out);
    }
    fprintf(out,
            "\", \"job\": \"%08" PRIx32 "\", \"rank\": %" PRIu32 ", \"pid\": %ld,\n\"began\": "
            "%" PRIu64 ", \"realtime\": %" PRIu64,
            info->job, info->rank, info->pid, info->began, info->realtime);
    for (const btl_ib_trace_list_t *list = btl_ib_trace_lists; list->name != NULL; ++list) {
        fprintf(out, ",\n\"%s\": [%s]", list->name, list->entries + 1);
    }
    fprintf(out, ",\n\"counters\": [");
    for (const btl_ib_counter_info_t *counter = btl_ib_counter_infos; counter->name != NULL;
         ++counter) {
        fprintf(out, "%s\"%s\"", counter > btl_ib_counter_infos ? ", " : "", counter->name);
    }
    fprintf(out, "]}\n");
}

/* ---- the ring ---- */

static void *map_file(const btl_ib_trace_file_t *file, uint64_t offset, size_t size, int *error)
{
    void *memory;

    /* Without space for it a store into the mapping would kill the process (SIGBUS). */
    *error = posix_fallocate(file->fd, (off_t) offset, (off_t) size);
    if (*error != 0) {
        return NULL;
    }
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, (off_t) offset);
    if (memory == MAP_FAILED) {
        *error = errno;
        return NULL;
    }
    return memory;
}

static void next_window(btl_ib_trace_file_t *file)
{
    const uint64_t place = file->begun % file->windows;

    if (file->window != NULL) {
        munmap(file->window, BTL_IB_TRACE_WINDOW);
    }
    file->window = map_file(file, BTL_IB_TRACE_HEADER + place * BTL_IB_TRACE_WINDOW,
                            BTL_IB_TRACE_WINDOW, &file->error);
    ++file->begun;
    file->used = 0;
}

void btl_ib_trace_file_add(btl_ib_trace_file_t *file, const btl_ib_trace_event_t *event,
                           uint64_t time)
{
    uint64_t *written = (uint64_t *) (void *) (file->header + BTL_IB_TRACE_HEADER) - 1;
    btl_ib_trace_event_t *to;

    if (file->error == 0 && (file->window == NULL || file->used == WINDOW_EVENTS)) {
        next_window(file);
    }
    if (file->window != NULL) {
        to = &file->window[file->used++];
        *to = *event;
        to->time = time;
    }
    ++*written;
}

/* ---- the file ---- */

static int create_file(btl_ib_trace_file_t *file, const char *name,
                       const btl_ib_trace_file_info_t *info)
{
    FILE *out;
    int error;

    file->fd = btl_ib_file_create(name);
    if (file->fd < 0) {
        return -file->fd;
    }
    file->header = map_file(file, 0, BTL_IB_TRACE_HEADER, &error);
    if (file->header == NULL) {
        return error;
    }
    out = fmemopen(file->header, BTL_IB_TRACE_HEADER - sizeof(uint64_t), "w");
    if (out == NULL) {
        return errno;
    }
    put_header(out, info);
    return fclose(out) == 0 ? 0 : errno;
}

btl_ib_trace_file_t *btl_ib_trace_file_open(const char *name, const btl_ib_trace_file_info_t *info,
                                            int *error)
{
    btl_ib_trace_file_t *file = calloc(1, sizeof(*file));

    if (file == NULL) {
        *error = ENOMEM;
        return NULL;
    }
    file->windows = info->size_max / BTL_IB_TRACE_WINDOW;
    *error = create_file(file, name, info);
    if (*error != 0) {
        (void) btl_ib_trace_file_close(file);
        return NULL;
    }
    return file;
}

int btl_ib_trace_file_close(btl_ib_trace_file_t *file)
{
    int error = file->error;

    if (file->window != NULL) {
        munmap(file->window, BTL_IB_TRACE_WINDOW);
        if (file->begun <= file->windows
            && ftruncate(file->fd,
                         (off_t) (BTL_IB_TRACE_HEADER + (file->begun - 1) * BTL_IB_TRACE_WINDOW
                                  + file->used * sizeof(*file->window)))
                   != 0) {
            error = errno; /* else the last window is full of zeros, which is as right */
        }
    }
    if (file->header != NULL) {
        munmap(file->header, BTL_IB_TRACE_HEADER);
    }
    if (file->fd >= 0 && close(file->fd) != 0 && error == 0) {
        error = errno;
    }
    free(file);
    return error;
}
