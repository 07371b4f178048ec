/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The progress thread of btl ib: there is one (over udp from the start), it takes no signals, it
 * sleeps without ever waking up when nothing was on the way for a while, a child of fork() can end
 * without it, and MPI_Finalize ends it. Linux only, for it looks into /proc. thread=1: 0: there
 * must be none; window=0: 1: with a window that peers may use it looks for what they want, but
 * seldom; without one it sleeps again; exit=1: a process that ends without MPI_Finalize ends its
 * progress thread first (each rank says so; mpirun takes that for an error of the job); refused=0:
 * the system refuses the thread so often before there is one, and it is asked again, later each
 * time; wakes_most=N, wakes_least=N: only that the thread of a rank that computes, to which another
 * sends 2000 messages in a second, wakes up at most, or at least, so often in a second (with
 * btl_ib_progress deliver); waits=1: only that who waits in MPI uses little of its processor (mpi_yield_when_idle)
 */

#define _GNU_SOURCE /* RTLD_NEXT, dladdr() */

#include "common.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "btl_ib progress"

static int refusals_wanted, refusals;
static double refused_at[16]; /* s */

/* The system's, which refuses threads of btl ib for a while. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    int (*system_create)(pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);
    Dl_info info;

    if (refusals < refusals_wanted && dladdr((void *) (size_t) run, &info) != 0
        && strstr(info.dli_fname, "mca_btl_ib") != NULL) {
        refused_at[refusals++ % 16] = seconds_now();
        return EAGAIN;
    }
    *(void **) (void *) &system_create = dlsym(RTLD_NEXT, "pthread_create");
    return system_create(thread, attr, run, arg);
}

/* One line of a file of a thread of ours into `line`. False if there is none that begins so. */
static int read_line(const char *thread, const char *file, const char *begin, char *line, int room)
{
    char path[300];
    int found = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%s/%s", thread, file);
    FILE *in = fopen(path, "r");
    while (in != NULL && !found && fgets(line, room, in) != NULL) {
        found = strncmp(line, begin, strlen(begin)) == 0;
    }
    if (in != NULL) {
        fclose(in);
    }
    return found;
}

/* The progress thread's number into `thread`. False if there is none. */
static int find_thread(char *thread, size_t room)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    char line[100];
    int found = 0;

    if (tasks == NULL) {
        fail("no /proc/self/task");
    }
    while (!found && (entry = readdir(tasks)) != NULL) {
        found = read_line(entry->d_name, "comm", NAME "\n", line, sizeof(line));
        snprintf(thread, room, "%s", entry->d_name);
    }
    closedir(tasks);
    return found;
}

static long wakeups(const char *thread)
{
    static const char key[] = "voluntary_ctxt_switches:";
    char line[200];

    if (!read_line(thread, "status", key, line, sizeof(line))) {
        fail("thread %s has no %s", thread, key);
    }
    return strtol(line + sizeof(key) - 1, NULL, 10);
}

static void must_block_signals(const char *thread)
{
    static const char key[] = "SigBlk:";
    char line[200];

    if (!read_line(thread, "status", key, line, sizeof(line))) {
        fail("thread %s has no %s", thread, key);
    }
    unsigned long long blocked = strtoull(line + sizeof(key) - 1, NULL, 16);
    if (!(blocked >> (SIGALRM - 1) & 1) || !(blocked >> (SIGTERM - 1) & 1)) {
        fail("the progress thread takes signals: blocked are %llx", blocked);
    }
}

static void must_let_children_go(void)
{
    for (int i = 0; i < 20; i++) {
        int status, tries = 0;
        pid_t pid = fork();

        if (pid == 0) {
            exit(0);
        }
        while (waitpid(pid, &status, WNOHANG) == 0) {
            if (++tries > 5000) {
                kill(pid, SIGKILL);
                fail("a child of fork() did not end");
            }
            usleep(1000);
        }
    }
}

static void exchange(void)
{
    char byte = 0;

    for (int i = 0; i < 50; i++) {
        MPI_Sendrecv_replace(&byte, 1, MPI_BYTE, (rank + 1) % size, 0, (rank + size - 1) % size, 0,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* The job goes on without the thread until all have it, and the pauses between two attempts to make
 * it grow. */
static void must_ask_again(void)
{
    const double end = seconds_now() + 20;
    char thread[300];
    int have, all;

    do {
        exchange();
        have = find_thread(thread, sizeof(thread));
        MPI_Allreduce(&have, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (seconds_now() > end) {
            fail("no progress thread after %d refusals", refusals);
        }
    } while (!all);
    if (refusals != refusals_wanted) {
        fail("%d refusals instead of %d", refusals, refusals_wanted);
    }
    for (int i = 3; i < refusals && i < 16; i++) { /* MPI_Init asks first, and takes its time */
        const double before = refused_at[i - 1] - refused_at[i - 2];
        const double pause = refused_at[i] - refused_at[i - 1];
        if (pause < 1.5 * before) {
            fail("asked again after %.3f s, and then after %.3f s", before, pause);
        }
    }
}

/* Over btl ib nothing wakes the progress thread more often than each btl_ib_progress_thread_ms (10)
 * while no peer wants anything. */
static void must_be_calm_with_a_window(const char *thread)
{
    char memory[64] = {0};
    MPI_Win win;

    MPI_Win_create(memory, sizeof(memory), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock(MPI_LOCK_SHARED, (rank + 1) % size, 0, win);
    MPI_Win_unlock((rank + 1) % size, win);
    MPI_Barrier(MPI_COMM_WORLD);
    compute_for(1);
    long before = wakeups(thread);
    compute_for(1);
    long woken = wakeups(thread) - before;
    if (woken > 120) {
        fail("the progress thread woke up %ld times in a second for a window that nobody used",
             woken);
    }
    MPI_Win_free(&win);
}

static void must_sleep(const char *thread)
{
    MPI_Barrier(MPI_COMM_WORLD);
    /* It notices that we are away, and from then on devices wake it; one that did not start with the
     * component sleeps after a second. */
    compute_for(refusals > 0 ? 2.5 : 0.5);
    long before = wakeups(thread);
    compute_for(1);
    long woken = wakeups(thread) - before;
    compute_for(1); /* what the other sends next does wake it */
    if (woken > 0) {
        fail("the progress thread woke up %ld times although nothing was due", woken);
    }
}

/* The last rank computes while the first sends to it: devices wake the thread of the last. */
static void must_wake(const char *thread, double most, double least)
{
    enum { MESSAGES = 3000 };
    const struct timespec pause = {0, 500000};
    char byte = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        for (int i = 0; i < MESSAGES; i++) {
            MPI_Send(&byte, 1, MPI_BYTE, size - 1, 0, MPI_COMM_WORLD);
            nanosleep(&pause, NULL);
        }
    }
    if (rank < size - 1) {
        return;
    }
    compute_for(0.2);
    const double began = seconds_now();
    const long before = wakeups(thread);
    compute_for(1);
    const double woken = (double) (wakeups(thread) - before) / (seconds_now() - began);
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Recv(&byte, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if ((most > 0 && woken > most) || woken < least) {
        fail("the progress thread woke up %.0f times in a second", woken);
    }
}

/* The last rank waits for a message while the others sleep for a second. It sleeps as well, 1 ms at
 * a time, unless others leave it so little of the processor that it need not. Where a look is dear
 * it may use much between two sleeps. */
static void must_use_little(void)
{
    const struct timespec pause = {1, 0};
    struct timespec before, after;
    char thread[30];
    char byte = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank < size - 1) {
        nanosleep(&pause, NULL);
        if (rank == 0) {
            MPI_Send(&byte, 1, MPI_BYTE, size - 1, 0, MPI_COMM_WORLD);
        }
        return;
    }
    snprintf(thread, sizeof(thread), "%ld", (long) getpid());
    const long slept_before = wakeups(thread);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    MPI_Recv(&byte, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const long slept = wakeups(thread) - slept_before;
    const double used =
        (double) (after.tv_sec - before.tv_sec) + 1e-9 * (double) (after.tv_nsec - before.tv_nsec);
    if (used > 0.5 && slept < 50) {
        fail("used %.3f s of its processor while it waited for one, and slept %ld times", used,
             slept);
    }
}

/* Runs after all that MPI and its components do at the end of the process. */
static void must_have_ended(void)
{
    char thread[300];

    if (find_thread(thread, sizeof(thread))) {
        fprintf(stderr, "FAIL sleeper: there is a progress thread at the end of the process\n");
    } else {
        fprintf(stderr, "sleeper: no progress thread at the end of the process\n");
    }
}

int main(int argc, char **argv)
{
    char thread[300];
    const int just_exit = arg(argc, argv, "exit", 0) != 0;

    if (just_exit && atexit(must_have_ended) != 0) {
        return 1;
    }
    refusals_wanted = (int) arg(argc, argv, "refused", 0);
    begin(&argc, &argv, "sleeper");
    need_ranks(2);
    if (arg(argc, argv, "waits", 0) != 0) {
        must_use_little();
        finish();
        return 0;
    }
    int wanted = arg(argc, argv, "thread", 1) != 0;
    exchange();
    if (refusals_wanted > 0) {
        must_ask_again();
    }
    /* It names itself when it first runs. */
    for (int i = 0; i < (wanted ? 500 : 10) && !find_thread(thread, sizeof(thread)); i++) {
        compute_for(0.01);
    }
    if (find_thread(thread, sizeof(thread)) != wanted) {
        fail(wanted ? "there is no progress thread" : "there is a progress thread");
    }
    if (just_exit) {
        exit(0);
    }
    const double most = arg(argc, argv, "wakes_most", 0);
    const double least = arg(argc, argv, "wakes_least", 0);
    if (most > 0 || least > 0) {
        must_wake(thread, most, least);
        finish();
        return 0;
    }
    if (wanted) {
        must_block_signals(thread);
        must_let_children_go();
        exchange();
        if (arg(argc, argv, "window", 0) != 0) {
            must_be_calm_with_a_window(thread);
        }
        must_sleep(thread);
        exchange();
    }
    finish();
    if (find_thread(thread, sizeof(thread))) {
        fprintf(stderr, "FAIL sleeper: rank %d: there is a progress thread after MPI_Finalize\n",
                rank);
        return 1;
    }
    return 0;
}
