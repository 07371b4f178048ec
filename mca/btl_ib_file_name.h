/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Names of files that each process writes one of, made of what the user gave for all:
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

/* Bytes of the longest, with its end. */
#define BTL_IB_FILE_NAME_MAX 4096

/* Values that a process fills in. */
typedef struct btl_ib_file_name_info {
    const char *host;
    const char *suffix; /* of files in a directory, as ".json" */
    uint32_t job;
    uint32_t rank;
    long pid;
} btl_ib_file_name_info_t;

/* Returns NULL if `pattern` is right, else what is wrong: a literal that follows "Problem:". */
const char *btl_ib_file_name_problem(const char *pattern);

/* Writes the name that a right pattern makes into `out` of BTL_IB_FILE_NAME_MAX bytes. Returns
 * whether it fits. */
bool btl_ib_file_name_make(const char *pattern, const btl_ib_file_name_info_t *info, char *out);

/*
 * Makes a file, for this user only (mode 0600). One of an earlier run is replaced by a new one,
 * not written over, if it is a regular file of this user; so nothing that others put there, as they
 * may in /tmp, is followed or truncated. Returns a descriptor to read and write, or a negative
 * errno: -ELOOP (a symbolic link is there), -EISDIR, -EEXIST (another kind of file, or another
 * user's), or what open(2) and unlink(2) say.
 */
int btl_ib_file_create(const char *name);

/* Makes such a file as a stream to be written (NULL: *error is the errno), and closes it: that
 * returns 0, or the errno of what went wrong since; call nothing that sets errno in between but to
 * write. */
FILE *btl_ib_file_open(const char *name, int *error);
int btl_ib_file_close(FILE *out);

#endif
