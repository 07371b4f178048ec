/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_registration_limit.h"

#include "btl_ib_param_parse.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- limit ---- */

enum { WHOLE = 1000000 }; /* shares are in millionths */

const char *btl_ib_registration_limit_parse(const char *text,
                                            const btl_ib_registration_host_t *host, uint64_t *bytes)
{
    uint64_t value;
    bool is_share;
    const char *problem = btl_ib_value_bytes_or_share(text, &value, &is_share);

    if (problem == NULL) {
        if (is_share) {
            value = host->memory / WHOLE * value + host->memory % WHOLE * value / WHOLE;
        }
        value /= host->processes;
        *bytes = value < host->lockable ? value : host->lockable;
    }
    return problem;
}

btl_ib_registration_host_t btl_ib_registration_host(uint32_t processes)
{
    struct rlimit locked;
    btl_ib_registration_host_t host = {
        .memory = (uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE),
        .lockable = UINT64_MAX,
        .processes = processes,
    };

    if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY) {
        host.lockable = locked.rlim_cur;
    }
    return host;
}

void btl_ib_registration_limit_init(btl_ib_registration_limit_t *limit, const char *text,
                                    const btl_ib_registration_host_t *host, uint64_t regions_max)
{
    *limit = (btl_ib_registration_limit_t){
        .regions_max = regions_max != 0 ? regions_max : UINT64_MAX,
        .processes = host->processes,
        .lockable = host->lockable,
    };
    btl_ib_list_init(&limit->caches);
    (void) btl_ib_registration_limit_parse(text, host, &limit->max); /* the text was checked */
}

void btl_ib_registration_limit_found(btl_ib_registration_limit_t *limit, uint64_t found)
{
    const bool by_all = limit->max <= limit->lockable / limit->processes;
    const uint64_t share = by_all ? found / limit->processes : found;

    if (found < btl_ib_registration_limit_wanted(limit) && share < limit->max) {
        limit->max = share;
    }
}

bool btl_ib_registration_limit_reserve(btl_ib_registration_limit_t *limit, uint64_t bytes,
                                       uint32_t regions)
{
    const bool fits = bytes <= limit->max && limit->bytes <= limit->max - bytes
                      && regions <= limit->regions_max
                      && limit->regions <= limit->regions_max - regions;

    if (fits) {
        limit->bytes += bytes;
        limit->regions += regions;
    }
    return fits;
}

/* ---- probe ---- */

enum {
    TRIES = 1024,        /* registrations, if none is refused */
    TRIES_MAX = 1 << 16, /* registrations in all; after a refusal the size is halved */
    STEP_MIN = 16 << 20, /* bytes of the first size, at least */
};

/* Registers `memory`, of `step` bytes, again and again; after a refusal half as much of it. Returns
 * how many bytes were registered; all are withdrawn. */
static uint64_t probe_device(btl_ib_transport_t *transport, uint64_t wanted, void *memory,
                             uint64_t step, uint64_t page)
{
    const btl_ib_rdma_ops_t *ops = transport->ops->rdma;
    void **handles = calloc(TRIES_MAX, sizeof(*handles));
    uint64_t found = 0;
    uint32_t key;
    uint32_t n = 0;

    while (handles != NULL && n < TRIES_MAX && step >= page && found < wanted) {
        step = step > wanted - found ? wanted - found : step;
        if (ops->expose(transport, memory, step, BTL_IB_RDMA_READ_INTO, &handles[n], &key) == 0) {
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

/* Returns how many bytes can be registered, up to `wanted`, rounded down to whole pages. Nothing
 * stays registered. */
static uint64_t pin_probe(btl_ib_transport_t *transport, uint64_t wanted)
{
    const uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);
    uint64_t step = (wanted / TRIES / page + 1) * page;
    uint64_t found = 0;
    void *memory;

    wanted = wanted / page * page;
    step = step < STEP_MIN ? STEP_MIN : step;
    memory = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
        found = probe_device(transport, wanted, memory, step, page);
        (void) munmap(memory, step);
    }
    return found;
}

uint64_t btl_ib_pin_probe_once(btl_ib_transport_t *transport, uint64_t wanted, const char *path)
{
    const int fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    char text[32] = "";
    uint64_t found;

    /* The kernel releases the lock when its holder ends, in any way. */
    if (fd < 0 || flock(fd, LOCK_EX) != 0) {
        found = pin_probe(transport, wanted);
    } else if (pread(fd, text, sizeof(text) - 1, 0) <= 0 || sscanf(text, "%" SCNu64, &found) != 1) {
        found = pin_probe(transport, wanted);
        const int length = snprintf(text, sizeof(text), "%" PRIu64 "\n", found);
        if (pwrite(fd, text, (size_t) length, 0) != length && ftruncate(fd, 0) != 0) {
            (void) unlink(path); /* the next process probes, too */
        }
    }
    if (fd >= 0) {
        (void) close(fd);
    }
    return found;
}
