/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A job that ends in one of many ways, as GASNet's tests of exits do. All ranks talk to each other
 * first, and rank 0 prints "exits: going". It never prints OK: tests/suite/test_exits.py looks at
 * exit codes, at what is left, and at what btl tcp does.
 * way=WORD: what rank 1 does, or all; pause=S (0): before that; late=S (1): how late. Words:
 *   return      all return 0 after MPI_Finalize     all7        all exit with code 7 after it
 *   unfinished  all return 0 without MPI_Finalize   one5        exits with code 5 while all wait
 *   abort       MPI_Abort with code 6               late        finalizes later than the others
 *   segv, quit, kill_talk, kill_wait, kill_finalize   a signal, while others talk to it, wait for
 *               it, or are in MPI_Finalize
 *   pending     exits with code 5 while its sends are pending
 *   thread5, thread_abort       the same as one5 and abort, from another thread
 *   callback5, callback_abort   the same, from a function that MPI calls
 *   child       a child of fork() exits; then all return
 *   stuck_leave   a system call of ib never comes back, while it takes leave in MPI_Finalize
 *   stuck_abort   kills itself while all wait for it, and from their abort none of them comes back
 *   talk, wait  all talk, or wait for rank 1, for ever: to be ended from outside
 */

#define _GNU_SOURCE /* RTLD_NEXT, dladdr() */

#include "common.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 4096

static const char *way;

static int is(const char *word)
{
    return strcmp(way, word) == 0;
}

static void nap(double seconds)
{
    const struct timespec pause = {(time_t) seconds,
                                   (long) (1e9 * (seconds - (double) (time_t) seconds))};

    nanosleep(&pause, NULL);
}

/* ---- calls that never come back ---- */

static volatile int stuck; /* they do not from now on */

__attribute__((noreturn)) static void hang(void)
{
    fprintf(stderr, "exits: rank %d hangs\n", rank);
    for (;;) {
        pause();
    }
}

/* The system's, from which ib does not come back. */
int usleep(useconds_t us)
{
    Dl_info info;

    if (stuck && is("stuck_leave") && dladdr(__builtin_return_address(0), &info) != 0
        && strstr(info.dli_fname, "mca_btl_ib") != NULL) {
        hang();
    }
    nap(1e-6 * (double) us);
    return 0;
}

/* By this Open MPI leaves at an abort. */
void _exit(int code)
{
    void (*system_exit)(int);

    if (stuck && is("stuck_abort")) {
        hang();
    }
    *(void **) (void *) &system_exit = dlsym(RTLD_NEXT, "_exit");
    system_exit(code);
    abort();
}

/* Each to each, so that all are connected. */
static void talk_once(void)
{
    static char out[64 * BYTES], in[64 * BYTES];

    if (size > 64) {
        fail("at most 64 ranks");
    }
    MPI_Alltoall(out, BYTES, MPI_BYTE, in, BYTES, MPI_BYTE, MPI_COMM_WORLD);
}

__attribute__((noreturn)) static void talk(void)
{
    for (;;) {
        talk_once();
        nap(0.001);
    }
}

/* For what never comes. */
__attribute__((noreturn)) static void wait_for(int other)
{
    char byte;

    MPI_Recv(&byte, 1, MPI_BYTE, other, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    fail("rank %d sent what it never sends", other);
}

/* Not MPI_Abort() alone, from which MPI_Finalize might come before. */
__attribute__((noreturn)) static void leave(void)
{
    if (strstr(way, "abort") != NULL) {
        MPI_Abort(MPI_COMM_WORLD, 6);
    }
    exit(5);
}

static void *in_thread(void *unused)
{
    nap(0.1);
    leave();
    return unused;
}

static void in_callback(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void) in;
    (void) inout;
    (void) count;
    (void) type;
    if (rank == 1) {
        leave();
    }
}

/* Rank 1 is the root, so that it combines what others sent. */
static void reduce_with_callback(void)
{
    int mine = rank, sum = 0;
    MPI_Request request;
    MPI_Op op;

    MPI_Op_create(in_callback, 1, &op);
    MPI_Ireduce(&mine, &sum, 1, MPI_INT, op, 1, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    wait_for(1);
}

static void leave_pending(void)
{
    static char out[1 << 20];
    MPI_Request request;

    for (int to = 0; to < size; to++) {
        if (to != rank) {
            MPI_Isend(out, sizeof(out), MPI_BYTE, to, 5, MPI_COMM_WORLD, &request);
            MPI_Isend(out, 100, MPI_BYTE, to, 6, MPI_COMM_WORLD, &request);
        }
    }
    leave();
}

/* What rank 1 does; it does not come back from most. */
static void be_rank_1(double late)
{
    pthread_t thread;

    if (is("segv")) {
        raise(SIGSEGV);
    } else if (is("quit")) {
        signal(SIGQUIT, SIG_DFL); /* shells let jobs in the background ignore it */
        raise(SIGQUIT);
    } else if (strncmp(way, "kill_", 5) == 0 || is("stuck_abort")) {
        nap(0.2);
        raise(SIGKILL);
    } else if (is("one5") || is("abort")) {
        leave();
    } else if (is("pending")) {
        leave_pending();
    } else if (is("late")) {
        nap(late);
    } else if (strncmp(way, "thread", 6) == 0) {
        pthread_create(&thread, NULL, in_thread, NULL);
        wait_for(0);
    }
}

static void fork_child(void)
{
    int status = 0;
    const pid_t child = fork();

    if (child == 0) {
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fail("the child ended with status %d", status);
    }
}

int main(int argc, char **argv)
{
    int provided;

    way = arg_text(argc, argv, "way", "return");
    program = "exits";
    /* A thread that calls MPI_Abort() makes it. */
    MPI_Init_thread(&argc, &argv, is("thread_abort") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    talk_once();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        fprintf(stderr, "exits: going\n");
    }
    nap(arg(argc, argv, "pause", 0));
    stuck = rank == 1 || is("stuck_abort");
    if (rank == 1) {
        be_rank_1(arg(argc, argv, "late", 1));
    }
    if (is("child")) {
        fork_child();
    } else if (is("unfinished")) {
        return 0;
    } else if (strncmp(way, "callback", 8) == 0) {
        reduce_with_callback();
    } else if (is("talk") || is("kill_talk")) {
        talk();
    } else if (!is("return") && !is("all7") && !is("late") && !is("kill_finalize")
               && !is("stuck_leave")) {
        wait_for(1);
    }
    MPI_Finalize();
    return is("all7") ? 7 : 0;
}
