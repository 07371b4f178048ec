/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * How much stack do calls of MPI take? User-level threads (HPX, Argobots, Boost.Fiber) have 16
 * KiB. All ranks exchange checked messages and one-sided operations on a stack of their own, with
 * a guard page at its end, that was painted before: first of all each rank with each other one,
 * which it does not know until then. Nothing must have changed the paint beyond `bound` bytes.
 * Prints "stack: going" when it begins: tests/mpi/run cuts links then, if asked to.
 * kb=N (64): KiB of that stack; bound=N (8192): bytes that may be used; seconds=S (1): how long
 * each kind of traffic is repeated at least; kinds=MASK (15): 1 small, 2 eager and 4 long
 * messages, 8 put and get; limit=N: KiB of the stack of the process itself (ulimit -s)
 */

#include "common.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#define PAINT     0xa5
#define BYTES_MAX 3000000
#define CELL      200000 /* bytes of the window that each rank writes, and reads */
#define BATCH     40     /* messages that are on their way at once */
#define PEERS     20     /* of one rank */
#define EAGER     1000   /* bytes of the first message to each of them, */
#define LONG      100000 /* and of the second */

typedef struct stack {
    unsigned char *memory; /* its lowest byte: it grows towards that */
    size_t size;
} painted_stack_t;

typedef struct kind {
    const char *name;
    void (*round)(uint64_t seed);
} kind_t;

static ucontext_t back, on;
static const kind_t *kind;
static double seconds;
static unsigned char *out, *in, *shared;
static MPI_Win window;
static int next, before;

/* Messages around the ring, all ranks at once. */
static void exchange(uint64_t seed, int count, size_t bytes_max)
{
    MPI_Request request[2 * BATCH];
    size_t place = 0;
    uint64_t state = seed;
    size_t bytes[BATCH];
    int done = 0;

    for (int i = 0; i < count; i++) {
        bytes[i] = (size_t) random_below(&state, bytes_max);
        pattern_fill(out + place, bytes[i], seed * 1000 + (uint64_t) (i + BATCH * rank));
        MPI_Irecv(in + place, (int) bytes[i], MPI_BYTE, before, i, MPI_COMM_WORLD, &request[i]);
        MPI_Isend(out + place, (int) bytes[i], MPI_BYTE, next, i, MPI_COMM_WORLD,
                  &request[count + i]);
        place += bytes[i];
    }
    while (!done) {
        MPI_Testall(2 * count, request, &done, MPI_STATUSES_IGNORE);
    }
    place = 0;
    for (int i = 0; i < count; i++) {
        pattern_check(in + place, bytes[i], seed * 1000 + (uint64_t) (i + BATCH * before),
                      "message");
        place += bytes[i];
    }
}

static void exchange_small(uint64_t seed)
{
    exchange(seed, BATCH, 100);
}

static void exchange_eager(uint64_t seed)
{
    exchange(seed, BATCH, 9000);
}

static void exchange_long(uint64_t seed)
{
    exchange(seed, 1, BYTES_MAX);
}

/* Each rank has a place in the window of the next. */
static void put_and_get(uint64_t seed)
{
    const MPI_Aint at = (MPI_Aint) rank * CELL;

    pattern_fill(out, CELL, seed + (uint64_t) rank);
    MPI_Put(out, CELL, MPI_BYTE, next, at, CELL, MPI_BYTE, window);
    MPI_Put(out, 8, MPI_BYTE, next, at, 8, MPI_BYTE, window);
    MPI_Win_flush(next, window);
    MPI_Get(in, CELL, MPI_BYTE, next, at, CELL, MPI_BYTE, window);
    MPI_Win_flush(next, window);
    pattern_check(in, CELL, seed + (uint64_t) rank, "window");
}

/* A short and a long message from `from` to `to`, with a request for each on both sides. Returns
 * how many requests that are. */
static int begin_pair(int from, int to, size_t place, MPI_Request *request)
{
    unsigned char *at = (rank == from ? out : in) + place;

    if (rank == from) {
        pattern_fill(at, EAGER + LONG, (uint64_t) (from * size + to));
        MPI_Isend(at, EAGER, MPI_BYTE, to, 0, MPI_COMM_WORLD, &request[0]);
        MPI_Isend(at + EAGER, LONG, MPI_BYTE, to, 1, MPI_COMM_WORLD, &request[1]);
    } else {
        MPI_Irecv(at, EAGER, MPI_BYTE, from, 0, MPI_COMM_WORLD, &request[0]);
        MPI_Irecv(at + EAGER, LONG, MPI_BYTE, from, 1, MPI_COMM_WORLD, &request[1]);
    }
    return 2;
}

/* Each rank sends to all above it, which do not know it, and answer. Unknown peers that send a
 * long message are added from within the callback that receives it. */
static void contact_peers(uint64_t seed)
{
    static MPI_Request request[2 * PEERS];

    (void) seed;
    for (int up = 1; up >= 0; up--) {
        int count = 0;
        int done = 0;
        for (int other = 0; other < size; other++) {
            if (other != rank) {
                const bool sends = (other > rank) == (up == 1);
                count += begin_pair(sends ? rank : other, sends ? other : rank,
                                    (size_t) other * (EAGER + LONG), &request[count]);
            }
        }
        while (!done) {
            MPI_Testall(count, request, &done, MPI_STATUSES_IGNORE);
        }
        for (int other = 0; other < size; other++) {
            if (other != rank && (other > rank) != (up == 1)) {
                pattern_check(in + (size_t) other * (EAGER + LONG), EAGER + LONG,
                              (uint64_t) (other * size + rank), "first contact");
            }
        }
    }
}

static const kind_t contact = {"first contact", contact_peers};
static const kind_t kinds[] = {
    {"small", exchange_small},
    {"eager", exchange_eager},
    {"long", exchange_long},
    {"put and get", put_and_get},
};

/* What runs on the painted stack. */
static void body(void)
{
    const double end = seconds_now() + seconds;
    int goes_on = 1;

    for (uint64_t round = 1; goes_on; round++) {
        kind->round(round);
        goes_on = seconds_now() < end;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
}

static painted_stack_t make_stack(size_t size_wanted)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    unsigned char *memory =
        mmap(NULL, page + size_wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) {
        fail("no memory for a stack of %zu bytes", size_wanted);
    }
    return (painted_stack_t){memory + page, size_wanted};
}

static void run_on(const painted_stack_t *stack)
{
    memset(stack->memory, PAINT, stack->size);
    getcontext(&on);
    on.uc_stack.ss_sp = stack->memory;
    on.uc_stack.ss_size = stack->size;
    on.uc_link = &back;
    makecontext(&on, body, 0);
    swapcontext(&back, &on);
}

/* Returns how many bytes of it were used, on the rank with most. */
static int used_of(const painted_stack_t *stack)
{
    size_t untouched = 0;
    int used, most;

    while (untouched < stack->size && stack->memory[untouched] == PAINT) {
        untouched++;
    }
    used = (int) (stack->size - untouched);
    MPI_Allreduce(&used, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* The limit holds for programs that are started from then on. */
static void start_again(char **argv, rlim_t kb)
{
    const struct rlimit limit = {.rlim_cur = kb * 1024, .rlim_max = kb * 1024};

    if (kb > 0 && getenv("STACK_IS_LIMITED") == NULL) {
        setenv("STACK_IS_LIMITED", "1", 1);
        setrlimit(RLIMIT_STACK, &limit);
        execv("/proc/self/exe", argv);
    }
}

/* Returns whether more than `bound` bytes were used. */
static bool measure(const kind_t *what, const painted_stack_t *stack, int bound)
{
    kind = what;
    run_on(stack);
    const int used = used_of(stack);
    if (rank == 0) {
        printf("stack: %s: %d bytes\n", kind->name, used);
        fflush(stdout);
    }
    return used > bound;
}

int main(int argc, char **argv)
{
    start_again(argv, (rlim_t) arg(argc, argv, "limit", 0));
    begin(&argc, &argv, "stack");
    need_ranks(2);
    seconds = arg(argc, argv, "seconds", 1);
    const int bound = (int) arg(argc, argv, "bound", 8192);
    const unsigned mask = (unsigned) arg(argc, argv, "kinds", 15);
    const painted_stack_t stack = make_stack((size_t) arg(argc, argv, "kb", 64) * 1024);
    bool too_much;

    if (size > PEERS) {
        fail("at most %d ranks", PEERS);
    }
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    out = get_memory(BYTES_MAX);
    in = get_memory(BYTES_MAX);
    shared = get_memory((size_t) size * CELL);
    too_much = measure(&contact, &stack, bound); /* before anything else is said */
    if ((mask & 8) != 0) {
        MPI_Win_create(shared, (MPI_Aint) size * CELL, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_lock_all(0, window);
    }
    if (rank == 0) {
        printf("stack: going\n");
        fflush(stdout);
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if ((mask & 1u << i) == 0) {
            continue;
        }
        too_much = measure(&kinds[i], &stack, bound) || too_much;
    }
    if ((mask & 8) != 0) {
        MPI_Win_unlock_all(window);
        MPI_Win_free(&window);
    }
    if (too_much && rank == 0) {
        fail("more than %d bytes of stack were used", bound);
    }
    finish();
    free(out);
    free(in);
    free(shared);
    return 0;
}
