/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "udp_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    REFUSALS = 8, /* the kernel does not do it */
    /* So many bursts have a trial: a few go the other way, as many after them do not, and the last
     * of both are compared, as by then the caches are as they are where nothing else is done. */
    EACH = 256,
    OTHER = 8,
    PAYS = BTL_IB_UDP_STAGE_EVEN * 15 / 16,
    PAYS_NO_MORE = BTL_IB_UDP_STAGE_EVEN * 17 / 16,
};

/* ---- slots ---- */

/* Its beginning, which has the sequence, comes last. */
static void copy_header(uint8_t *to, const struct iovec *header)
{
    const size_t first = header->iov_len < 32 ? header->iov_len : 32;
    const uint8_t *from = header->iov_base;

    memcpy(to + first, from + first, header->iov_len - first);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(to, from, first);
}

/* Returns the bytes of all. */
static size_t fill(uint8_t *slot, const btl_ib_tx_t *first, int run)
{
    uint8_t *to = slot;

    for (int i = 0; i < run; to += first[i++].size) {
        const struct iovec *iov = first[i].iov;
        uint8_t *body = to + iov[0].iov_len;
        memcpy(body, iov[1].iov_base, iov[1].iov_len);
        if (first[i].niov > 2) {
            memcpy(body + iov[1].iov_len, iov[2].iov_base, iov[2].iov_len);
        }
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    to = slot;
    for (int i = 0; i < run; to += first[i++].size) {
        copy_header(to, &first[i].iov[0]);
    }
    return (size_t) (to - slot);
}

static uint8_t *memory_of(const btl_ib_udp_stage_t *stage, uint32_t slot)
{
    return stage->memory + (size_t) slot * BTL_IB_UDP_STAGE_SLOT;
}

static void put_slot(btl_ib_udp_stage_t *stage, uint32_t slot)
{
    stage->free[(stage->first + stage->count++) % BTL_IB_UDP_STAGE_SLOTS] = (uint8_t) slot;
}

static uint32_t take_slot(btl_ib_udp_stage_t *stage)
{
    const uint32_t slot = stage->free[stage->first];

    stage->first = (stage->first + 1) % BTL_IB_UDP_STAGE_SLOTS;
    stage->count--;
    return slot;
}

/* It gets other pages; who still reads those that it had keeps them. */
static void renew_slot(const btl_ib_udp_stage_t *stage, uint32_t slot)
{
    (void) madvise(memory_of(stage, slot), BTL_IB_UDP_STAGE_SLOT, MADV_DONTNEED);
}

void btl_ib_udp_stage_done(btl_ib_udp_stage_t *stage, uint32_t staged, bool clean)
{
    const uint32_t slot = staged - 1;

    stage->slot[slot].spoiled = stage->slot[slot].spoiled || !clean;
    if (--stage->slot[slot].datagrams > 0 || stage->memory == NULL) {
        return;
    }
    if (stage->slot[slot].spoiled) {
        renew_slot(stage, slot);
        stage->slot[slot].spoiled = false;
    }
    put_slot(stage, slot);
}

/* ---- beginning and end ---- */

/* Before 6.5 the pages went to the socket one by one. */
static bool kernel_splices(void)
{
    struct utsname name;
    int major, minor;

    return uname(&name) == 0 && sscanf(name.release, "%d.%d", &major, &minor) == 2
           && (major > 6 || (major == 6 && minor >= 5));
}

static bool open_pipe(btl_ib_udp_stage_t *stage)
{
    if (pipe2(stage->pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        stage->pipe[0] = stage->pipe[1] = -1;
        return false;
    }
    /* who has many pipes gets small ones: pipe(7) */
    return fcntl(stage->pipe[1], F_GETPIPE_SZ) >= BTL_IB_UDP_STAGE_SLOT;
}

static bool map_slots(btl_ib_udp_stage_t *stage)
{
    void *memory = mmap(NULL, BTL_IB_UDP_STAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (memory == MAP_FAILED) {
        return false;
    }
    stage->memory = memory;
    for (uint32_t i = 0; i < BTL_IB_UDP_STAGE_SLOTS; i++) {
        put_slot(stage, i);
    }
    return true;
}

void btl_ib_udp_stage_close(btl_ib_udp_stage_t *stage)
{
    if (stage->memory != NULL) {
        (void) munmap(stage->memory, BTL_IB_UDP_STAGE_BYTES);
        stage->memory = NULL;
    }
    for (int i = 0; i < 2; i++) {
        if (stage->pipe[i] >= 0) {
            close(stage->pipe[i]);
            stage->pipe[i] = -1;
        }
    }
}

/* There is no staging, or no more. */
static void give_up(btl_ib_udp_stage_t *stage, const char *why)
{
    BTL_IB_UDP_LOG(stage->log, 10, "no staging of bursts: %s", why);
    btl_ib_udp_stage_close(stage);
}

/* With the first long burst. */
static void open_stage(btl_ib_udp_stage_t *stage)
{
    const char *why = !kernel_splices()   ? "needs Linux 6.5"
                      : !open_pipe(stage) ? "no pipe of 64 KiB"
                      : !map_slots(stage) ? "no memory"
                                          : NULL;

    stage->opened = true;
    if (why != NULL) {
        give_up(stage, why);
    }
}

/* ---- which way ---- */

bool btl_ib_udp_stage_turn(btl_ib_udp_stage_t *stage)
{
    const bool other = stage->turn++ % EACH < OTHER;

    if (!stage->opened && stage->wanted != BTL_IB_STAGING_NEVER) {
        open_stage(stage);
    }
    if (stage->memory == NULL || stage->count == 0 || stage->refused) {
        return false;
    }
    return stage->wanted == BTL_IB_STAGING_ALWAYS || other != stage->pays;
}

/* Bounded: what another process does to one burst, by taking the processor, decides nothing. */
static void judge(btl_ib_udp_stage_t *stage)
{
    const uint64_t ratio =
        (uint64_t) stage->tried[true] * BTL_IB_UDP_STAGE_EVEN / stage->tried[false];
    const uint32_t most = 2 * BTL_IB_UDP_STAGE_EVEN, least = BTL_IB_UDP_STAGE_EVEN / 2;
    const uint32_t now = ratio > most ? most : ratio < least ? least : (uint32_t) ratio;

    stage->ratio = (3 * stage->ratio + now) / 4;
    stage->pays = stage->ratio < (stage->pays ? PAYS_NO_MORE : PAYS);
}

void btl_ib_udp_stage_cost(btl_ib_udp_stage_t *stage, bool staged, uint64_t bytes, uint64_t ns)
{
    const uint32_t done = stage->turn % EACH;

    stage->refused = false;
    if (done == 0 || done > 2 * OTHER) {
        return;
    }
    stage->tried[staged] = (uint32_t) ((ns << 10) / bytes);
    if (done == 2 * OTHER) {
        if (stage->tried[false] != 0 && stage->tried[true] != 0) {
            judge(stage);
        }
        memset(stage->tried, 0, sizeof(stage->tried));
    }
}

/* ---- sending ---- */

/* What is left in the pipe goes with it. */
static bool renew_pipe(btl_ib_udp_stage_t *stage)
{
    close(stage->pipe[0]);
    close(stage->pipe[1]);
    return open_pipe(stage);
}

/* The size of datagrams is an option of the socket here; others are sent without it. */
static bool set_size(int fd, int size)
{
    return setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)) == 0;
}

/* Returns 0 or an errno. */
static int splice_to(const btl_ib_udp_stage_t *stage, int fd, uint8_t *memory, size_t bytes,
                     int size)
{
    const struct iovec iov = {.iov_base = memory, .iov_len = bytes};

    if (!set_size(fd, size)) {
        return errno;
    }
    errno = EIO; /* where less is taken than asked for */
    const bool sent =
        vmsplice(stage->pipe[1], &iov, 1, SPLICE_F_NONBLOCK) == (ssize_t) bytes
        && splice(stage->pipe[0], NULL, fd, NULL, bytes, SPLICE_F_NONBLOCK) == (ssize_t) bytes;
    const int error = sent ? 0 : errno;
    (void) set_size(fd, 0);
    return error;
}

/* The socket may be full, or the kernel unable. Part of the burst may have gone. */
static void refuse(btl_ib_udp_stage_t *stage, uint32_t slot, int error)
{
    stage->refused = true;
    if (error != EAGAIN && ++stage->refusals == REFUSALS) {
        give_up(stage, strerror(error));
    } else if (!renew_pipe(stage)) {
        give_up(stage, "no pipe of 64 KiB");
    } else {
        renew_slot(stage, slot);
        put_slot(stage, slot);
    }
}

bool btl_ib_udp_stage_send(btl_ib_udp_stage_t *stage, int fd, const btl_ib_tx_t *first, int run)
{
    const uint32_t slot = take_slot(stage);
    uint8_t *memory = memory_of(stage, slot);
    const size_t bytes = fill(memory, first, run);
    const int error = splice_to(stage, fd, memory, bytes, (int) first[0].size);

    if (error != 0) {
        refuse(stage, slot, error);
        return false;
    }
    stage->refusals = 0;
    stage->slot[slot].datagrams = (uint8_t) run;
    for (int i = 0; i < run; i++) {
        *first[i].staged = (uint8_t) (slot + 1);
    }
    return true;
}
