/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_host_id.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

/* Computes FNV-1a, but 1 instead of 0, which means unknown. */
static uint64_t fnv_hash(uint64_t seed, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t sum = seed ^ UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; ++i) {
        sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return sum != 0 ? sum : 1;
}

btl_ib_host_t btl_ib_host(const char *boot_id, const char *network)
{
    btl_ib_host_t host = {.machine = 0, .network = 0};
    struct stat namespace;
    char text[64];
    const int fd = open(boot_id, O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text));

    if (fd >= 0) {
        (void) close(fd);
    }
    if (size <= 0) {
        return host;
    }
    host.machine = fnv_hash(0, text, (size_t) size);
    if (stat(network, &namespace) == 0) {
        const uint64_t number[] = {namespace.st_dev, namespace.st_ino};

        host.network = fnv_hash(host.machine, number, sizeof(number));
    }
    return host;
}
