/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Memory that devices may use by themselves, of every kind of page, and children of fork() that use
 * the same pages meanwhile. Messages and one-sided operations begin and end at odd bytes, and also
 * at the very end of what is mapped. While they are on their way each rank writes to the bytes
 * beside them, and has children: one that reads and writes all of the memory as it sees it, one
 * that runs another program, one made by system(). No child sees anything but what was there, none
 * changes what arrives, and no byte beside it changes. rounds=N (6): of each kind of page; huge=B
 * (0): it is an error if the system has no huge pages for us (vm.nr_hugepages)
 */

#include "common.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONGEST 300001 /* bytes */
#define BESIDE  61     /* bytes beside each part, an odd number */
#define PARTS   3
#define BEFORE  0xb7 /* of all bytes that are beside */
#define HUGE    ((size_t) 2 << 20)

typedef struct memory {
    const char *name;
    unsigned char *base; /* BESIDE, a part, BESIDE, a part... */
    size_t bytes;
    bool shared; /* what a child writes is written */
} memory_t;

enum { OUT, IN, WINDOW };

static unsigned char *part(const memory_t *memory, int which)
{
    return memory->base + BESIDE + (size_t) which * (LONGEST + BESIDE);
}

/* ---- kinds of pages ---- */

static void *map(size_t bytes, int flags)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);

    return base == MAP_FAILED ? NULL : base;
}

static unsigned char *rounded(unsigned char *base, size_t to)
{
    return base + (to - (uintptr_t) base % to) % to;
}

/* The last byte is the last of a page, and the next one may not be touched. */
static unsigned char *at_the_edge(size_t bytes)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    const size_t whole = (bytes + page - 1) / page * page;
    unsigned char *base = map(whole + page, MAP_PRIVATE);

    if (base == NULL || mprotect(base + whole, page, PROT_NONE) != 0) {
        fail("no memory");
    }
    return base + whole - bytes;
}

static unsigned char *transparently_huge(size_t bytes)
{
    unsigned char *base = map(bytes + 2 * HUGE, MAP_PRIVATE);

    if (base == NULL) {
        fail("no memory");
    }
    base = rounded(base, HUGE);
    (void) madvise(base, bytes / HUGE * HUGE + HUGE, MADV_HUGEPAGE); /* a kernel without them is fine */
    return base + 1;
}

/* NULL: the system has none for us. */
static unsigned char *huge(size_t bytes)
{
    unsigned char *base = map((bytes / HUGE + 1) * HUGE, MAP_PRIVATE | MAP_HUGETLB);

    return base == NULL ? NULL : base + 5;
}

/* ---- children ---- */

static void await(pid_t child, const char *what)
{
    int status;

    if (child != waitpid(child, &status, 0) || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail("a child that %s: status %#x", what, (unsigned) status);
    }
}

/* Nothing of it may change but what is received at this time; and who writes there changes his own
 * copy. */
static void be_a_child(const memory_t *memory, size_t bytes, uint64_t seed)
{
    const unsigned char *out = part(memory, OUT);
    volatile unsigned char sum = 0;

    for (size_t at = 0; at < bytes; at += 8) {
        const uint64_t word = pattern_word(seed, at);
        if (memcmp(out + at, &word, bytes - at < 8 ? bytes - at : 8) != 0) {
            _exit(1);
        }
    }
    for (size_t at = 0; at < memory->bytes; ++at) {
        sum = (unsigned char) (sum + memory->base[at]);
    }
    if (!memory->shared) {
        memset(memory->base, 0x5a, memory->bytes);
    }
    _exit(0);
}

static pid_t make_child(const memory_t *memory, size_t bytes, uint64_t seed)
{
    const pid_t child = fork();

    if (child == 0) {
        be_a_child(memory, bytes, seed);
    }
    return child;
}

static pid_t run_true(void)
{
    const pid_t child = fork();

    if (child == 0) {
        execlp("true", "true", (char *) NULL);
        _exit(127);
    }
    return child;
}

/* As long as these are on their way, the first to write after a fork has to get the copy. */
static void have_children(const memory_t *memory, size_t bytes, uint64_t seed)
{
    const pid_t one = make_child(memory, bytes, seed);
    const pid_t other = run_true();

    if (one < 0 || other < 0) {
        fail("no child");
    }
    for (int i = 0; i <= PARTS; ++i) {
        memset(memory->base + (size_t) i * (LONGEST + BESIDE), BEFORE, BESIDE);
    }
    if (system("true") != 0) {
        fail("system() fails");
    }
    await(one, "uses the same memory");
    await(other, "runs another program");
}

static void check_beside(const memory_t *memory)
{
    for (int i = 0; i <= PARTS; ++i) {
        const unsigned char *beside = memory->base + (size_t) i * (LONGEST + BESIDE);
        for (int at = 0; at < BESIDE; ++at) {
            if (beside[at] != BEFORE) {
                fail("%s: byte %d beside part %d was changed", memory->name, at, i);
            }
        }
    }
}

/* ---- what is on its way ---- */

static uint64_t seed_of(int from, int round)
{
    return ((uint64_t) from << 32) ^ (uint64_t) round ^ UINT64_C(0x9a6e);
}

static void messages(const memory_t *memory, size_t bytes, int round)
{
    const int next = (rank + 1) % size;
    const int before = (rank + size - 1) % size;
    MPI_Request requests[2];

    pattern_fill(part(memory, OUT), bytes, seed_of(rank, round));
    MPI_Irecv(part(memory, IN), (int) bytes, MPI_BYTE, before, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(part(memory, OUT), (int) bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD, &requests[1]);
    have_children(memory, bytes, seed_of(rank, round));
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    pattern_check(part(memory, IN), bytes, seed_of(before, round), memory->name);
    check_beside(memory);
}

/* Put to the next rank's memory, then get that of the one before, which was put to by the one
 * before that. */
static void operations(const memory_t *memory, MPI_Win window, size_t bytes, int round)
{
    const int next = (rank + 1) % size;
    const int before = (rank + size - 1) % size;
    const int first = (rank + 2 * size - 2) % size;
    const MPI_Aint at = (MPI_Aint) (LONGEST - bytes);

    pattern_fill(part(memory, OUT), bytes, seed_of(rank, round));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Put(part(memory, OUT), (int) bytes, MPI_BYTE, next, at, (int) bytes, MPI_BYTE, window);
    have_children(memory, bytes, seed_of(rank, round));
    MPI_Win_flush_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window);
    pattern_check(part(memory, WINDOW) + at, bytes, seed_of(before, round), memory->name);
    MPI_Get(part(memory, IN), (int) bytes, MPI_BYTE, before, at, (int) bytes, MPI_BYTE, window);
    have_children(memory, bytes, seed_of(rank, round));
    MPI_Win_flush_all(window);
    pattern_check(part(memory, IN), bytes, seed_of(first, round), memory->name);
    check_beside(memory);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void try(const memory_t *memory, int rounds)
{
    static const size_t fixed[] = {LONGEST, 1, 4097, 65535};
    uint64_t state = 1;
    MPI_Win window;

    memset(memory->base, BEFORE, memory->bytes);
    MPI_Win_create(part(memory, WINDOW), LONGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_lock_all(0, window);
    for (int round = 0; round < rounds; ++round) {
        const size_t bytes = round < 4 ? fixed[round] : 1 + random_size(&state, LONGEST - 1);
        messages(memory, bytes, round);
        operations(memory, window, bytes, round);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

/* All ranks have them, or nobody uses them. */
static bool all_have(const unsigned char *memory)
{
    int have = memory != NULL;

    MPI_Allreduce(MPI_IN_PLACE, &have, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return have != 0;
}

int main(int argc, char **argv)
{
    const size_t bytes = BESIDE + PARTS * (size_t) (LONGEST + BESIDE);

    begin(&argc, &argv, "pages");
    need_ranks(2);
    const int rounds = (int) arg(argc, argv, "rounds", 6);
    const bool must = arg(argc, argv, "huge", 0) != 0;
    memory_t kinds[] = {
        {.name = "heap", .base = (unsigned char *) get_memory(bytes + 3) + 3},
        {.name = "edge", .base = at_the_edge(bytes)},
        {.name = "shared", .base = map(bytes, MAP_SHARED), .shared = true},
        {.name = "transparently huge", .base = transparently_huge(bytes)},
        {.name = "huge", .base = huge(bytes)},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
        kinds[i].bytes = bytes;
        if (all_have(kinds[i].base)) {
            try(&kinds[i], rounds);
        } else if (must) {
            fail("no %s pages", kinds[i].name);
        } else if (rank == 0) {
            printf("pages: no %s ones, they are not tried\n", kinds[i].name);
        }
    }
    finish();
}
