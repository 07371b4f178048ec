/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setname_np */
#endif

#include "btl_ib_exit_timeout.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "btl_ib_thread.h"

/* The timeout passes in slices: at least SLICES, each of at most SLICE_MAX us. Of a pause in which
 * the process was stopped two slices at most are counted. */
#define SLICE_MAX 1000000
#define SLICES    8
/* us that the report may take: the output may be what hangs. */
#define REPORT_MAX 3000000

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000u + (uint64_t) now.tv_nsec / 1000u;
}

/* Waits for `changed`, at most `us`. Called with the mutex held. Returns how long it took, us. */
static uint64_t wait_for_change(btl_ib_exit_timeout_t *self, uint64_t us)
{
    const uint64_t began = now_us();
    const uint64_t until = began + us;
    const struct timespec time = {.tv_sec = (time_t) (until / 1000000u),
                                  .tv_nsec = (long) (until % 1000000u) * 1000};

    (void) pthread_cond_timedwait(&self->changed, &self->mutex, &time);
    return now_us() - began;
}

/* Returns the process that traces this one: a debugger or strace (TracerPid of proc_pid_status(5));
 * 0: none does. Uses neither malloc() nor stdio, whose locks the thread that hangs may hold. */
static long read_tracer(void)
{
    static const char key[] = "\nTracerPid:";
    char status[512]; /* the first lines, of which TracerPid is one */
    const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd >= 0 ? read(fd, status, sizeof(status) - 1) : 0;

    if (fd >= 0) {
        (void) close(fd);
    }
    status[size > 0 ? size : 0] = '\0';
    const char *tracer = strstr(status, key);
    return tracer != NULL ? strtol(tracer + strlen(key), NULL, 10) : 0;
}

/* ---- the end of the process ---- */

static void *report_run(void *arg)
{
    btl_ib_exit_timeout_t *self = arg;

    self->config.tell(self->stage, self->number);
    pthread_mutex_lock(&self->mutex);
    self->reported = true;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
    return NULL;
}

/* Reports the hang, in another thread, as what the report calls may be what hangs. Called with the
 * mutex held. */
static void report(btl_ib_exit_timeout_t *self)
{
    pthread_t reporter;
    uint64_t waited = 0;

    self->reported = pthread_create(&reporter, NULL, report_run, self) != 0;
    if (self->reported) { /* there is no thread that will report */
        return;
    }
    (void) pthread_detach(reporter);
    while (!self->reported && waited < REPORT_MAX) {
        waited += wait_for_change(self, REPORT_MAX - waited);
    }
}

/* Ends the process by a signal as if nobody handled it. */
static void end_process(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t set;

    sigemptyset(&action.sa_mask);
    (void) sigaction(number, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, number);
    (void) pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    (void) raise(number);
    _exit(128 + number); /* raise() does nothing to the first process of a container */
}

/* ---- the thread ---- */

/* Lets a slice of time pass. Returns true if the time is up. */
static bool pass_slice(btl_ib_exit_timeout_t *self)
{
    const uint64_t share = self->config.timeout / SLICES;
    const uint64_t slice = share < SLICE_MAX ? share : SLICE_MAX;
    const uint64_t waited = wait_for_change(self, slice < self->left ? slice : self->left);

    if (self->stages == 0 || self->leave || (!self->config.debugged && read_tracer() != 0)) {
        return false;
    }
    const uint64_t counts = waited < 2 * slice ? waited : 2 * slice;
    self->left -= counts < self->left ? counts : self->left;
    return self->left == 0;
}

static void *clock_run(void *arg)
{
    btl_ib_exit_timeout_t *self = arg;

    (void) pthread_setname_np(pthread_self(), "btl_ib exit");
    pthread_mutex_lock(&self->mutex);
    while (!self->leave) {
        if (self->stages == 0) {
            self->waits = true;
            pthread_cond_wait(&self->changed, &self->mutex);
            self->waits = false;
        } else if (pass_slice(self)) {
            report(self);
            if (self->stages > 0 && !self->leave) {
                end_process(self->number);
            }
            while (!self->reported) { /* the stage has ended, and so will the report */
                (void) wait_for_change(self, REPORT_MAX);
            }
        }
    }
    pthread_mutex_unlock(&self->mutex);
    return NULL;
}

/* Creates the thread, unless there is one. Called with the mutex held. Returns 0 or an errno. */
static int start_thread(btl_ib_exit_timeout_t *self)
{
    btl_ib_thread_setup_t setup;
    int rc;

    if (self->started) {
        return 0;
    }
    rc = btl_ib_thread_prepare(&setup, true);
    if (rc != 0) {
        return rc;
    }
    rc = pthread_create(&self->thread, &setup.attr, clock_run, self);
    btl_ib_thread_created(&setup);
    self->started = rc == 0;
    self->pid = getpid();
    return rc;
}

int btl_ib_exit_timeout_init(btl_ib_exit_timeout_t *self,
                             const btl_ib_exit_timeout_config_t *config)
{
    pthread_condattr_t attr;
    int rc;

    *self = (btl_ib_exit_timeout_t){.mutex = PTHREAD_MUTEX_INITIALIZER};
    rc = pthread_condattr_init(&attr);
    if (rc != 0) {
        return rc;
    }
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0) {
        rc = pthread_cond_init(&self->changed, &attr);
    }
    pthread_condattr_destroy(&attr);
    if (rc == 0) {
        self->config = *config;
    }
    return rc;
}

int btl_ib_exit_timeout_begin(btl_ib_exit_timeout_t *self, const char *stage, int number,
                              uint64_t bound)
{
    int rc;

    if (self->config.timeout == 0) {
        return 0;
    }
    pthread_mutex_lock(&self->mutex);
    ++self->stages;
    self->stage = stage;
    self->number = number;
    /* An outer stage may have more time left. */
    if (self->stages == 1 || bound + self->config.timeout > self->left) {
        self->left = bound + self->config.timeout;
    }
    rc = start_thread(self);
    if (self->waits) {
        pthread_cond_signal(&self->changed);
    }
    pthread_mutex_unlock(&self->mutex);
    return rc;
}

void btl_ib_exit_timeout_end(btl_ib_exit_timeout_t *self)
{
    if (self->config.timeout == 0) {
        return;
    }
    pthread_mutex_lock(&self->mutex);
    --self->stages;
    pthread_mutex_unlock(&self->mutex);
}

void btl_ib_exit_timeout_fini(btl_ib_exit_timeout_t *self)
{
    const bool started = self->started && self->pid == getpid();

    if (started) {
        pthread_mutex_lock(&self->mutex);
        self->leave = true;
        pthread_cond_signal(&self->changed);
        pthread_mutex_unlock(&self->mutex);
        pthread_join(self->thread, NULL);
    }
    self->started = false;
    self->config.timeout = 0;
}
