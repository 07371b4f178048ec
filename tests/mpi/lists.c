/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Linked lists in a dynamic window. All ranks attach small elements, neighbours in memory, push
 * them on lists by MPI_Compare_and_swap and walk the lists by MPI_Get, at the same time, under
 * shared locks that nobody checks. Each element lies below the ones before, so that the regions of
 * its owner's memory move up in the table that osc/rdma keeps of them; between them pages come and
 * go that are in no list, so that the regions above move up and down again while others look for
 * them.
 * rounds=N (20) windows, elements=N (1500) of each rank in a window, spare=N (8) pages that come
 * and go, moves=N (128) of them after each element, seed=N (1)
 */

#include "common.h"

#include <unistd.h>

#define BYTES_MIN   24
#define BYTES_MAX   64
#define REGIONS_MAX 64 /* osc_rdma_max_attach as Open MPI has it */
#define STEPS       6  /* of a walk while others attach */
#define TOGETHER    32 /* elements that all push on the same list, one after the other */
#define ADDRESS     48 /* bits of a pointer that are the address, below the rank */

typedef struct element {
    uint64_t next; /* a pointer; 0: it is the last */
    uint64_t value;
} element_t;

static MPI_Win win;
static uint64_t state; /* of the random numbers */
static char *memory;   /* spare pages, one that stays, then the elements, the first at the end */
static size_t page, pages, spare, spares_attached, moves;
static char *lowest; /* of the elements */
static element_t *heads;
static uint64_t *elements; /* addresses of ours, in the order of their making */
static uint64_t seen;      /* elements that walks passed */

static uint64_t value_of(uint64_t pointer)
{
    return pattern_word(pointer, 0);
}

static void attach(void *from, size_t bytes)
{
    if (MPI_Win_attach(win, from, (MPI_Aint) bytes) != MPI_SUCCESS) {
        fail("cannot attach %zu bytes at %p", bytes, from);
    }
}

static MPI_Aint address_of(const void *of)
{
    MPI_Aint address;

    MPI_Get_address(of, &address);
    return address;
}

/* The next element of ours: below the last one. */
static element_t *make_element(size_t bytes, uint64_t *pointer)
{
    element_t *element = (element_t *) (void *) (lowest -= bytes);

    *pointer = (uint64_t) rank << ADDRESS | (uint64_t) address_of(element);
    element->next = 0;
    element->value = value_of(*pointer);
    attach(element, bytes);
    return element;
}

static element_t get_element(uint64_t pointer)
{
    const int owner = (int) (pointer >> ADDRESS);
    const MPI_Aint at = (MPI_Aint) (pointer & ((UINT64_C(1) << ADDRESS) - 1));
    element_t got = {UINT64_MAX, 0};

    MPI_Get(&got, sizeof(got), MPI_BYTE, owner, at, sizeof(got), MPI_BYTE, win);
    MPI_Win_flush(owner, win);
    if (got.value != value_of(pointer)) {
        fail("element %#llx of rank %d has the value %#llx, should have %#llx",
             (unsigned long long) at, owner, (unsigned long long) got.value,
             (unsigned long long) value_of(pointer));
    }
    return got;
}

/* From the head of a list on; at most so many. Returns how many there were. */
static uint64_t walk(uint64_t pointer, uint64_t most)
{
    uint64_t count = 0;

    for (; pointer != 0 && count < most; count++) {
        pointer = get_element(pointer).next;
    }
    seen += count;
    return count;
}

/* Put it before the first of a list, whose head may be another rank's. */
static void push(element_t *element, uint64_t pointer, uint64_t head)
{
    const int owner = (int) (head >> ADDRESS);
    const MPI_Aint at = (MPI_Aint) (head & ((UINT64_C(1) << ADDRESS) - 1));
    uint64_t first = get_element(head).next, was;

    do {
        was = first;
        element->next = was;
        MPI_Win_sync(win);
        MPI_Compare_and_swap(&pointer, &was, &first, MPI_UINT64_T, owner, at, win);
        MPI_Win_flush(owner, win);
    } while (first != was);
}

/* One page more or, when all are attached, the oldest less and more again. */
static void move_regions(void)
{
    char *at = memory + spares_attached % spare * page;

    if (spares_attached >= spare) {
        MPI_Win_detach(win, at);
    }
    attach(at, page);
    spares_attached++;
}

static void begin_window(size_t count, uint64_t *all_heads)
{
    uint64_t mine;

    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    spares_attached = 0;
    lowest = memory + pages * page;
    attach(memory + spare * page, page);
    heads = make_element(BYTES_MIN, &mine);
    elements = get_memory(count * sizeof(*elements));
    MPI_Allgather(&mine, 1, MPI_UINT64_T, all_heads, 1, MPI_UINT64_T, MPI_COMM_WORLD);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
}

static void end_window(size_t count)
{
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < spare && i < spares_attached; i++) {
        MPI_Win_detach(win, memory + i * page);
    }
    MPI_Win_detach(win, memory + spare * page);
    for (size_t i = 0; i < count; i++) {
        MPI_Win_detach(win, (void *) (uintptr_t) elements[i]);
    }
    MPI_Win_detach(win, heads);
    MPI_Win_free(&win);
    free(elements);
}

static void one_window(size_t count)
{
    uint64_t *all_heads = get_memory((size_t) size * sizeof(*all_heads));

    begin_window(count, all_heads);
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = BYTES_MIN + 8 * random_below(&state, (BYTES_MAX - BYTES_MIN) / 8 + 1);
        const uint64_t list = i / TOGETHER % (uint64_t) size;
        uint64_t pointer;
        element_t *element = make_element(bytes, &pointer);

        elements[i] = (uint64_t) (uintptr_t) element;
        push(element, pointer, all_heads[list]);
        for (size_t moved = 0; spare > 0 && moved < moves; moved++) {
            move_regions();
        }
        walk(all_heads[(list + 1) % (uint64_t) size], STEPS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* Each list by one rank, to its end: all is there, and once. */
    uint64_t mine = walk(all_heads[(rank + 1) % size], UINT64_MAX) - 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (sum != (uint64_t) size * count) {
        fail("%llu elements are in the lists, should be %llu", (unsigned long long) sum,
             (unsigned long long) size * count);
    }
    end_window(count);
    free(all_heads);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "lists");
    need_ranks(2);
    const int rounds = (int) arg(argc, argv, "rounds", 20);
    const size_t count = (size_t) arg(argc, argv, "elements", 1500);

    spare = (size_t) arg(argc, argv, "spare", 8);
    moves = (size_t) arg(argc, argv, "moves", 128);
    state = (uint64_t) arg(argc, argv, "seed", 1) * 1000 + (uint64_t) rank;
    page = (size_t) sysconf(_SC_PAGESIZE);
    pages = spare + 1 + ((count + 1) * BYTES_MAX + page - 1) / page;
    if (pages > REGIONS_MAX) {
        fail("%zu pages would be more regions than the %d that osc/rdma keeps", pages, REGIONS_MAX);
    }
    if (posix_memalign((void **) &memory, page, pages * page) != 0) {
        fail("no memory for %zu pages", pages);
    }
    for (int round = 0; round < rounds; round++) {
        one_window(count);
    }
    uint64_t all = 0;
    MPI_Reduce(&seen, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("lists: %d windows, %zu elements of each rank, walks passed %llu\n", rounds, count,
               (unsigned long long) all);
    }
    free(memory);
    finish();
    return 0;
}
