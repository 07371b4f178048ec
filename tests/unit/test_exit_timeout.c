/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Processes that are about to end, and do not: each case is a child of its own. All begin at once,
 * before the first test, as what they do is to wait. */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "btl_ib_exit_timeout.h"
#include "unit.h"

enum { TIMEOUT = 400, LONG = 60000 }; /* ms; nothing takes so long here */

static btl_ib_exit_timeout_t watch;
static int said[2]; /* a pipe: what a child tells */

static void nap(int ms)
{
    struct timespec left = {ms / 1000, (long) (ms % 1000) * 1000000};

    while (nanosleep(&left, &left) != 0) {
        continue;
    }
}

/* In place of the C library's, which waits for whoever hangs in memory or stdio: who calls it in a
 * child has told too much. */
FILE *fopen(const char *name, const char *mode)
{
    (void) !write(said[1], name, strlen(name));
    errno = EPERM;
    return NULL;
}

static void tell(const char *stage, int number)
{
    (void) !write(said[1], stage, strlen(stage));
}

static void begin(const char *stage, int bound_ms)
{
    if (btl_ib_exit_timeout_begin(&watch, stage, SIGTERM, (uint64_t) bound_ms * 1000) != 0) {
        _exit(100);
    }
}

static void end(void)
{
    btl_ib_exit_timeout_end(&watch);
}

static void watch_with(int timeout_ms, bool debugged, btl_ib_exit_tell_fn_t how)
{
    const btl_ib_exit_timeout_config_t config = {
        .timeout = (uint64_t) timeout_ms * 1000, .debugged = debugged, .tell = how};

    if (btl_ib_exit_timeout_init(&watch, &config) != 0) {
        _exit(101);
    }
}

/* A child. */
typedef struct process {
    void (*life)(void);
    pid_t pid;
    int said; /* reads what it told */
    uint64_t begun;
} process_t;

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static void nap_until(uint64_t ms)
{
    const uint64_t now = now_ms();

    nap(ms > now ? (int) (ms - now) : 0);
}

static void start(process_t *child, void (*life)(void))
{
    assert_int_equal(pipe(said), 0);
    *child = (process_t){.life = life, .pid = fork(), .said = said[0], .begun = now_ms()};
    assert_true(child->pid >= 0);
    if (child->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        life();
        _exit(0);
    }
    close(said[1]);
}

/* Returns how the child ended, as waitpid() says; `text` is what it told. */
static int wait_for(const process_t *child, char *text, size_t size)
{
    int status = 0;
    ssize_t got;

    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    got = read(child->said, text, size - 1);
    text[got > 0 ? got : 0] = '\0';
    close(child->said);
    return status;
}

static void must_end_by(const process_t *child, int number, const char *told)
{
    char text[100];
    const int status = wait_for(child, text, sizeof(text));

    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
    assert_string_equal(text, told);
}

static void must_end_well(const process_t *child)
{
    char text[100];

    assert_int_equal(wait_for(child, text, sizeof(text)), 0);
    assert_string_equal(text, "");
}

/* Returns the child that has begun this. */
static const process_t *child_of(void (*life)(void));

/* ---- who hangs is ended ---- */

static void hang(void)
{
    watch_with(TIMEOUT, false, tell);
    begin("a stage", 0);
    nap(LONG);
}

TEST(hanging_process_is_ended)
{
    must_end_by(child_of(hang), SIGTERM, "a stage");
}

static void handle(int number)
{
}

/* A program that handles the signal, and a thread that blocks it, do not keep it. */
static void hang_with_handler(void)
{
    sigset_t set;

    signal(SIGTERM, handle);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    hang();
}

TEST(handled_signal_ends_it)
{
    must_end_by(child_of(hang_with_handler), SIGTERM, "a stage");
}

static void tell_for_ever(const char *stage, int number)
{
    tell("begun", number);
    nap(LONG);
}

static void hang_in_telling(void)
{
    watch_with(TIMEOUT, false, tell_for_ever);
    begin("a stage", 0);
    nap(LONG);
}

TEST(telling_may_hang)
{
    must_end_by(child_of(hang_in_telling), SIGTERM, "begun");
}

/* ---- who does not hang is left alone ---- */

/* Each stage has its own time, and between stages there is none. */
static void go_on(void)
{
    struct sigaction now;

    signal(SIGTERM, handle);
    watch_with(TIMEOUT, false, tell);
    for (int i = 0; i < 8; i++) {
        begin("short", 0);
        begin("within", 0);
        nap(TIMEOUT / 4);
        end();
        end();
    }
    nap(2 * TIMEOUT);
    begin("with a bound", 3 * TIMEOUT);
    nap(2 * TIMEOUT);
    end();
    if (sigaction(SIGTERM, NULL, &now) != 0 || now.sa_handler != handle) {
        _exit(102);
    }
    begin("not ended", 0);
    btl_ib_exit_timeout_fini(&watch);
    btl_ib_exit_timeout_fini(&watch);
    begin("watched by nobody", 0);
    nap(2 * TIMEOUT);
}

TEST(stages_have_their_time)
{
    must_end_well(child_of(go_on));
}

static void hang_unwatched(void)
{
    watch_with(0, false, tell);
    begin("a stage", 0);
    nap(2 * TIMEOUT);
}

TEST(no_timeout_ends_nobody)
{
    must_end_well(child_of(hang_unwatched));
}

/* Nobody has a thread before something is to be watched. */
static void count_threads(void)
{
    watch_with(TIMEOUT, false, tell);
    if (watch.started) {
        _exit(103);
    }
    begin("a stage", 0);
    end();
    if (!watch.started) {
        _exit(104);
    }
    btl_ib_exit_timeout_fini(&watch);
    if (watch.started) {
        _exit(105);
    }
    begin("a stage", 0); /* nothing is watched any more */
    if (watch.started) {
        _exit(107);
    }
}

TEST(thread_is_made_for_stages)
{
    must_end_well(child_of(count_threads));
}

static void fork_within(void)
{
    int status = 0;

    watch_with(LONG, false, tell);
    begin("a stage", 0);
    const pid_t child = fork();
    if (child == 0) { /* as a handler of exit() does */
        btl_ib_exit_timeout_fini(&watch);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        _exit(106);
    }
}

TEST(child_has_no_thread)
{
    must_end_well(child_of(fork_within));
}

static void take_long(void)
{
    watch_with(TIMEOUT, false, tell);
    begin("a stage", 2 * TIMEOUT);
    nap(10);
    raise(SIGSTOP); /* the parent continues it much later */
    nap(10);
    end();
}

/* The time in which a process was stopped does not count. */
TEST(stopped_process_is_not_ended)
{
    const process_t *child = child_of(take_long);
    int status;

    assert_int_equal(waitpid(child->pid, &status, WUNTRACED), child->pid);
    assert_true(WIFSTOPPED(status));
    nap_until(child->begun + 5 * TIMEOUT);
    kill(child->pid, SIGCONT);
    must_end_well(child);
}

/* ---- debuggers ---- */

static void hang_with_debugger(void)
{
    hang();
}

static void hang_debugged(void)
{
    watch_with(TIMEOUT, true, tell);
    begin("a stage", 0);
    nap(LONG);
}

static bool attached; /* as a debugger does; else that is not allowed here */

TEST(debugger_stops_the_clock)
{
    const process_t *child = child_of(hang_with_debugger);
    int status;

    if (!attached) {
        skip();
    }
    nap_until(child->begun + 4 * TIMEOUT);
    assert_int_equal(waitpid(child->pid, &status, WNOHANG), 0);
    assert_int_equal(ptrace(PTRACE_INTERRUPT, child->pid, NULL, NULL), 0);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    assert_int_equal(ptrace(PTRACE_DETACH, child->pid, NULL, NULL), 0);
    must_end_by(child, SIGTERM, "a stage");
}

TEST(clock_goes_on_if_wanted)
{
    const process_t *child = child_of(hang_debugged);
    char text[100] = "";
    int status;

    if (!attached) {
        skip();
    }
    assert_true(read(child->said, text, sizeof(text) - 1) > 0);
    assert_string_equal(text, "a stage");
    kill(child->pid, SIGKILL);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    close(child->said);
}

/* ---- all of them ---- */

static void (*const lives[])(void) = {
    hang,          hang_with_handler, hang_in_telling,
    go_on,         hang_unwatched,    count_threads,
    fork_within,   take_long,         hang_with_debugger,
    hang_debugged,
};

enum { LIVES = sizeof(lives) / sizeof(lives[0]) };

static process_t children[LIVES];

static const process_t *child_of(void (*life)(void))
{
    int i = 0;

    while (children[i].life != life) {
        i++;
    }
    return &children[i];
}

static int start_all(void **state)
{
    attached = true;
    for (int i = 0; i < LIVES; i++) {
        start(&children[i], lives[i]);
        if (lives[i] == hang_with_debugger || lives[i] == hang_debugged) {
            attached &= ptrace(PTRACE_SEIZE, children[i].pid, NULL, NULL) == 0;
        }
    }
    return 0;
}

static int end_all(void **state)
{
    for (int i = 0; i < LIVES; i++) {
        if (waitpid(children[i].pid, NULL, WNOHANG) == 0) {
            kill(children[i].pid, SIGKILL);
            waitpid(children[i].pid, NULL, 0);
        }
    }
    return 0;
}

UNIT_MAIN(start_all, end_all)
