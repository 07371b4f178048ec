/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_file_name.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* True if the pattern has %`letter`. */
static bool pattern_names(const char *pattern, char letter)
{
    for (const char *at = strchr(pattern, '%'); at != NULL; at = strchr(at + 2, '%')) {
        if (letter == at[1]) {
            return true;
        }
    }
    return false;
}

const char *btl_ib_file_name_problem(const char *pattern)
{
    if (*pattern == '\0') {
        return "it is empty";
    }
    if (strlen(pattern) > BTL_IB_FILE_NAME_MAX / 4) {
        return "it is too long";
    }
    for (const char *at = strchr(pattern, '%'); at != NULL; at = strchr(at + 2, '%')) {
        if (at[1] == '\0' || strchr("hrjp%", at[1]) == NULL) {
            return "what follows a % is none of these";
        }
    }
    return NULL;
}

/* Appends what %`letter` stands for. Returns the new length, which may exceed the size of `out`. */
static size_t append_field(char *out, size_t len, char letter, const btl_ib_file_name_info_t *info)
{
    char *end = out + (len < BTL_IB_FILE_NAME_MAX ? len : BTL_IB_FILE_NAME_MAX - 1);
    const size_t room = BTL_IB_FILE_NAME_MAX - (size_t) (end - out);
    int more = 0;

    switch (letter) {
    case 'h':
        more = snprintf(end, room, "%s", info->host);
        break;
    case 'r':
        more = snprintf(end, room, "%" PRIu32, info->rank);
        break;
    case 'j':
        more = snprintf(end, room, "%08" PRIx32, info->job);
        break;
    case 'p':
        more = snprintf(end, room, "%ld", info->pid);
        break;
    default:
        more = snprintf(end, room, "%%");
        break;
    }
    return len + (size_t) more;
}

bool btl_ib_file_name_make(const char *pattern, const btl_ib_file_name_info_t *info, char *out)
{
    const bool is_folder = pattern[strlen(pattern) - 1] == '/';
    const bool differs = pattern_names(pattern, 'r') || pattern_names(pattern, 'p');
    char whole[BTL_IB_FILE_NAME_MAX / 2];
    size_t len = 0;

    snprintf(whole, sizeof(whole), "%s%s%s", pattern,
             is_folder ? "btl_ib-%j-%r"
             : differs ? ""
                       : ".%r",
             is_folder ? info->suffix : "");
    for (const char *at = whole; *at != '\0' && len < BTL_IB_FILE_NAME_MAX; ++at) {
        if (*at == '%') {
            len = append_field(out, len, *++at, info);
        } else {
            out[len++] = *at;
        }
    }
    if (len >= BTL_IB_FILE_NAME_MAX) {
        return false;
    }
    out[len] = '\0';
    return true;
}

/* ---- creating a file ---- */

/* Returns 0 if the file may be replaced; else the negative errno that says why not. */
static int replaceable(const struct stat *status)
{
    if (S_ISLNK(status->st_mode)) {
        return -ELOOP;
    }
    if (S_ISDIR(status->st_mode)) {
        return -EISDIR;
    }
    return S_ISREG(status->st_mode) && status->st_uid == geteuid() ? 0 : -EEXIST;
}

int btl_ib_file_create(const char *name)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(name, flags, 0600);
    struct stat status;
    int rc;

    if (fd < 0 && errno == EEXIST) {
        rc = lstat(name, &status) == 0 ? replaceable(&status) : -errno;
        if (rc != 0) {
            return rc;
        }
        fd = unlink(name) == 0 ? open(name, flags, 0600) : -1;
    }
    return fd < 0 ? -errno : fd;
}

FILE *btl_ib_file_open(const char *name, int *error)
{
    const int fd = btl_ib_file_create(name);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

    if (out == NULL) {
        *error = fd < 0 ? -fd : errno;
        if (fd >= 0) {
            (void) close(fd);
        }
        return NULL;
    }
    errno = 0;
    return out;
}

int btl_ib_file_close(FILE *out)
{
    int error = 0;

    if (ferror(out) != 0 || fflush(out) != 0) {
        error = errno != 0 ? errno : EIO;
    }
    if (fclose(out) != 0 && error == 0) {
        error = errno;
    }
    return error;
}
