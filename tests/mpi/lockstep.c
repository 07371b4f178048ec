/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Traffic of which each step can be counted, for tests/mpi/budget. Shared memory says whose turn it
 * is, so that no rank looks for what was not sent yet, and that the other rank's speed is of no
 * consequence. what=pingpong: 8 bytes there and back what=rate: `window` messages of 8 bytes, and
 * one back what=stream: a message of `bytes`; the ranks take turns of some progress calls each
 * until it is there what=idle: progress calls that find nothing Two ranks of one host. iterations=N
 * (100), window=N (64), bytes=N (1048576), pause=N (0): microseconds before each step, in which a
 * device that works by itself gets done Time stands nearly still in the steps: what a message costs
 * must not depend on the speed of a machine or of valgrind, and ib does more after a pause of its
 * process.
 */

#include "common.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    WINDOW_MAX = 1024,
    CALLS = 4,  /* of progress in one turn of a stream */
    WARMUP = 20 /* iterations that do not count */
};

/* In memory that both ranks see. */
typedef struct shared {
    atomic_int step; /* how many steps were done */
    atomic_int sent; /* long messages of which rank 0 has done its part */
    atomic_int over; /* and rank 1, too */
} shared_t;

static shared_t *shared;
static MPI_Win memory_window;
static useconds_t pause_us;

/* ns: when the steps began; 0: time goes on as it does. And how often it was asked since then. */
static atomic_llong stopped_at, asked;

/* In the place of the C library's, also for the component: a microsecond for each question. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    const int status = (int) syscall(SYS_clock_gettime, clock, now);
    long long ns = atomic_load(&stopped_at);

    if (status == 0 && ns != 0 && clock == CLOCK_MONOTONIC) {
        ns += 1000 * (1 + atomic_fetch_add(&asked, 1));
        now->tv_sec = (time_t) (ns / 1000000000);
        now->tv_nsec = (long) (ns % 1000000000);
    }
    return status;
}

/* Forward again at the end: the drain of MPI_Finalize waits by the clock. */
static void stop_clock(int on)
{
    struct timespec now;

    atomic_store(&stopped_at, 0);
    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    if (on) {
        atomic_store(&stopped_at, now.tv_sec * 1000000000LL + now.tv_nsec);
    }
}

static void share_memory(void)
{
    MPI_Aint bytes;
    int unit;
    void *memory;

    MPI_Win_allocate_shared(rank == 0 ? sizeof(*shared) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                            &memory, &memory_window);
    MPI_Win_shared_query(memory_window, 0, &bytes, &unit, &memory);
    shared = memory;
    if (rank == 0) {
        atomic_store(&shared->step, 0);
        atomic_store(&shared->sent, 0);
        atomic_store(&shared->over, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void wait_for_step(int step)
{
    while (atomic_load(&shared->step) < step) {
        sched_yield();
    }
    if (pause_us > 0) {
        usleep(pause_us);
    }
}

static void step_done(void)
{
    atomic_fetch_add(&shared->step, 1);
}

static void send_all(char (*bytes)[8], int count)
{
    MPI_Request requests[WINDOW_MAX];

    for (int i = 0; i < count; i++) {
        MPI_Isend(bytes[i], 8, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static void receive_all(char (*bytes)[8], int count)
{
    MPI_Request requests[WINDOW_MAX];

    for (int i = 0; i < count; i++) {
        MPI_Irecv(bytes[i], 8, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

typedef struct work {
    int idle;   /* nothing: progress calls */
    int stream; /* long messages, else windows of small ones */
    int window, bytes;
    int step;  /* the next one */
    int count; /* of messages streamed */
    char *buffer;
    MPI_Request request; /* of what is idle */
} work_t;

/* A window of small messages in one step, the answer in another. */
static void exchange(work_t *w)
{
    static char bytes[WINDOW_MAX][8];

    wait_for_step(w->step + rank);
    if (rank == 0) {
        send_all(bytes, w->window);
        step_done();
        wait_for_step(w->step + 2);
        receive_all(bytes, 1);
    } else {
        receive_all(bytes, w->window);
        send_all(bytes, 1);
        step_done();
    }
    w->step += 2;
}

/* A long message to rank 1, a turn of each rank after the other. */
static void stream_one(work_t *w)
{
    MPI_Request request;
    int done = 0, n = ++w->count;

    if (rank == 0) {
        MPI_Isend(w->buffer, w->bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
    } else {
        MPI_Irecv(w->buffer, w->bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
    }
    do {
        wait_for_step(w->step + rank);
        for (int i = 0; i < CALLS; i++) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
        if (rank == 0 && done) {
            atomic_store(&shared->sent, n);
        } else if (done && n == atomic_load(&shared->sent)) {
            atomic_store(&shared->over, n);
        }
        step_done();
        w->step += 2;
        wait_for_step(w->step);
    } while (atomic_load(&shared->over) < n);
}

/* One progress call, for a message that comes in the last step. */
static void idle_one(work_t *w)
{
    int done = 0;

    MPI_Test(&w->request, &done, MPI_STATUS_IGNORE);
}

static void do_work(work_t *w, int iterations)
{
    for (int i = 0; i < iterations; i++) {
        if (w->idle) {
            idle_one(w);
        } else if (w->stream) {
            stream_one(w);
        } else {
            exchange(w);
        }
    }
}

/* What callgrind collects is in here: known by its name. */
__attribute__((noinline)) void counted(work_t *w, int iterations);
void counted(work_t *w, int iterations)
{
    do_work(w, iterations);
}

/* Begins or ends the counting of tests/rdma/verbs_count.c, if that was preloaded. */
static void count_verbs(int on)
{
    void (*count)(int) = NULL;

    /* As POSIX wants it: a function pointer out of a data pointer. */
    *(void **) &count = dlsym(RTLD_DEFAULT, "btl_ib_verbs_count");
    if (count != NULL) {
        count(on);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "lockstep");
    const int iterations = (int) arg(argc, argv, "iterations", 100);
    const char *what = arg_text(argc, argv, "what", "pingpong");
    work_t w = {
        .idle = strcmp(what, "idle") == 0,
        .stream = strcmp(what, "stream") == 0,
        .window = strcmp(what, "rate") == 0 ? (int) arg(argc, argv, "window", 64) : 1,
        .bytes = (int) arg(argc, argv, "bytes", 1 << 20),
    };
    pause_us = (useconds_t) arg(argc, argv, "pause", 0);
    if (size != 2 || w.window < 1 || w.window > WINDOW_MAX || w.bytes < 1) {
        fail("2 ranks, a window of 1 to %d, and bytes", WINDOW_MAX);
    }
    w.buffer = get_memory((size_t) w.bytes);
    memset(w.buffer, 1, (size_t) w.bytes);
    share_memory();
    stop_clock(1);
    if (w.idle) {
        exchange(&w); /* connects */
        MPI_Irecv(w.buffer, 1, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD, &w.request);
    }
    do_work(&w, WARMUP);
    count_verbs(1);
    counted(&w, iterations);
    count_verbs(0);
    stop_clock(0);
    if (w.idle) { /* neither finds what the other sends now */
        step_done();
        wait_for_step(w.step + 2);
        MPI_Send(w.buffer, 1, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD);
        MPI_Wait(&w.request, MPI_STATUS_IGNORE);
    }
    free(w.buffer);
    MPI_Win_free(&memory_window);
    finish();
    return 0;
}
