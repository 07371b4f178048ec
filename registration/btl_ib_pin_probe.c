/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_pin_probe.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    TRIES = 1024,        /* registrations of the first size at most, */
    TRIES_MAX = 1 << 16, /* and in all: each size that is refused is followed by half of it */
    STEP_MIN = 16 << 20, /* bytes of the first size, at least */
};

static uint64_t probe(btl_ib_transport_t *transport, uint64_t wanted, void *memory, uint64_t step,
                      uint64_t page)
{
    const btl_ib_rdma_ops_t *ops = transport->ops->rdma;
    void **handles = calloc(TRIES_MAX, sizeof(*handles));
    uint64_t found = 0;
    uint32_t key;
    uint32_t n = 0;

    while (NULL != handles && n < TRIES_MAX && step >= page && found < wanted) {
        step = step > wanted - found ? wanted - found : step;
        if (0 == ops->expose(transport, memory, step, BTL_IB_RDMA_READ_INTO, &handles[n], &key)) {
            found += step;
            ++n;
        } else {
            step = step / 2 / page * page;
        }
    }
    while (n > 0) {
        ops->withdraw(transport, handles[--n]);
    }
    free(handles);
    return found;
}

uint64_t btl_ib_pin_probe(btl_ib_transport_t *transport, uint64_t wanted)
{
    const uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);
    uint64_t step = (wanted / TRIES / page + 1) * page;
    uint64_t found = 0;
    void *memory;

    wanted = wanted / page * page;
    step = step < STEP_MIN ? STEP_MIN : step;
    memory = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED != memory) {
        found = probe(transport, wanted, memory, step, page);
        (void) munmap(memory, step);
    }
    return found;
}

uint64_t btl_ib_pin_probe_once(btl_ib_transport_t *transport, uint64_t wanted, const char *path)
{
    const int fd = NULL == path ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    char text[32] = "";
    uint64_t found;

    /* The lock ends with the process that has it, whatever becomes of that. */
    if (fd < 0 || 0 != flock(fd, LOCK_EX)) {
        found = btl_ib_pin_probe(transport, wanted);
    } else if (pread(fd, text, sizeof(text) - 1, 0) <= 0 || 1 != sscanf(text, "%" SCNu64, &found)) {
        found = btl_ib_pin_probe(transport, wanted);
        const int length = snprintf(text, sizeof(text), "%" PRIu64 "\n", found);
        if (pwrite(fd, text, (size_t) length, 0) != length) {
            (void) ftruncate(fd, 0); /* the next one probes, too */
        }
    }
    if (fd >= 0) {
        (void) close(fd);
    }
    return found;
}
