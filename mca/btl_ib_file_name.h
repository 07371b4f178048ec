/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Names of files of which each process writes its own, made from one pattern that the user gave for
 * all processes:
 *
 *   %h  the host        %r  the rank in the job     %j  the job      %p  the process id     %%  %
 *
 * A name that ends with / is a directory, in which the file is "btl_ib-%j-%r" and a suffix. Any
 * other without %r and %p gets ".%r" at its end, so that no process overwrites what another one
 * wrote. No OPAL in here, so that it can be tested by itself.
 */

#ifndef BTL_IB_FILE_NAME_H
#define BTL_IB_FILE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes of the longest name, with its terminating zero. */
#define BTL_IB_FILE_NAME_MAX 4096

/* What the letters of a pattern stand for in a process. */
typedef struct btl_ib_file_name_info {
    const char *host;
    const char *suffix; /* of files in a directory, as ".json" */
    uint32_t job;
    uint32_t rank;
    long pid;
} btl_ib_file_name_info_t;

/* Returns NULL if `pattern` is valid; else what is wrong, a literal that follows "Problem:". */
const char *btl_ib_file_name_problem(const char *pattern);

/* Writes the name that a valid pattern stands for into `out`, which has BTL_IB_FILE_NAME_MAX bytes.
 * Returns whether it fits. */
bool btl_ib_file_name_make(const char *pattern, const btl_ib_file_name_info_t *info, char *out);

/*
 * Creates a file for this user only (mode 0600). A regular file of this user with that name is
 * removed first, not overwritten; anything else is left alone, so that nothing is followed or
 * truncated that others put there, as they may in /tmp. Returns a descriptor to read and write,
 * which the caller closes, or a negative errno: -ELOOP (a symbolic link is there), -EISDIR, -EEXIST
 * (another kind of file, or another user's), or what open(2) and unlink(2) say.
 */
int btl_ib_file_create(const char *name);

/* Creates a file as btl_ib_file_create() does, and returns a stream to write it; NULL: *error is
 * the errno. */
FILE *btl_ib_file_open(const char *name, int *error);

/* Closes such a stream. Returns 0, or the errno of the first write that failed. (It is taken from
 * errno: between open and close call nothing that sets errno, except to write.) */
int btl_ib_file_close(FILE *out);

#endif
