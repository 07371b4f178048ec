/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#define _GNU_SOURCE /* ppoll */

#include "btl_ib_progress_thread.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "btl_ib_help.h"
#include "btl_ib_thread.h"

/* us between two runs of the engine, at least: short, so that a lost segment does not wait long;
 * long enough to leave the processor to the application. */
#define RUN_PAUSE 1000
/* us after an arrival for which devices may wake the thread though nothing is due here: pauses in a
 * stream are shorter. A device that woke it later would do so when a message comes that the
 * application waits for at that moment, and take its processor: 30 us. */
#define LISTEN_AFTER 300
/* us without progress after which devices may wake it all the same, so that it need not wake up by
 * itself: who computes that long has 30 us to lose */
#define LONG_AWAY 250000
/* us with nothing due until the thread sleeps until it is woken: longer than most pauses between
 * two messages. */
#define IDLE_BEFORE_SLEEP 1000000
/* us for which the engine is run at a time, at most, however much comes */
#define RUN_MOST 10000
/* us after serving a peer in which the engine is run every RUN_PAUSE, if no device reports
 * arrivals. */
#define SERVED_LATELY 20000
/* us without progress after which the application is away, for a thread that delivers: more than a
 * call of another BTL takes. */
#define AWAY_AFTER 20
/* us for which the thread steps aside at first, and at most. Meanwhile communication does not
 * overlap computation; but each wake-up costs the application two switches of context. */
#define ASIDE_FIRST 20
#define ASIDE_MAX   500
/* us: the wake-ups of this time may come one right after the other. */
#define WAKEUPS_AT_ONCE 10000
/* ns by which the system may delay the thread's wake-ups. */
#define TIMER_SLACK 1000
/* us after which a refused thread is tried again; doubled each time, up to RETRY_MAX */
#define RETRY_PAUSE 100000
#define RETRY_MAX   60000000
/* a sleep that only a wake-up ends */
#define UNTIL_WOKEN UINT64_MAX

/* What the thread remembers from one check to the next. */
typedef struct watch {
    uint64_t idle_since;  /* us: nothing was due since; 0: something was */
    uint64_t served_at;   /* us: when the thread last received something */
    bool by_device;       /* a device ended the last sleep */
    bool by_caller;       /* the application ended the last sleep */
    bool delivers;        /* the PML is ready */
    uint64_t aside;       /* us: for how long the thread last stepped aside; 0: it did not */
    uint64_t woken_until; /* us: when the wake-ups so far may have ended, one each wakeup_gap */
    uint32_t fds;         /* number of devices that may end the next sleep */
    int fd[BTL_IB_RAILS_MAX];
} watch_t;

/* For handlers of fork() and exit(), which get no argument. */
static btl_ib_progress_thread_t *of_process;

/* True if the engine has something due, or memory registered for peers. */
static bool is_needed(const btl_ib_engine_t *engine)
{
    return btl_ib_engine_serves(engine) || btl_ib_engine_async_due(engine) != UINT64_MAX;
}

/* Returns the time from now until `at`, but at least RUN_PAUSE. */
static uint64_t pause_until(uint64_t now, uint64_t at)
{
    return at > now + RUN_PAUSE ? at - now : RUN_PAUSE;
}

static uint64_t pause_until_due(const btl_ib_progress_thread_t *self, uint64_t now, uint64_t due)
{
    return due > now + self->config.period ? self->config.period : pause_until(now, due);
}

/* Notes that nothing is due. Returns how long to sleep, us. */
static uint64_t grow_idle(btl_ib_progress_thread_t *self, watch_t *watch, uint64_t now)
{
    if (watch->idle_since == 0) {
        watch->idle_since = now;
    }
    btl_ib_app_watch_ran(&self->app, now, 0);
    if (self->answers
        || (now - watch->idle_since < IDLE_BEFORE_SLEEP
            && !btl_ib_app_watch_is_seldom(&self->app))) {
        return self->config.period;
    }
    self->asleep = true;
    watch->idle_since = 0;
    return UNTIL_WOKEN;
}

/*
 * Prepares to sleep until peers send more, after the engine received `came` datagrams, `last` of
 * them in its last turn. Returns how long to sleep, us:
 *
 *      more may wait in a transport   RUN_PAUSE
 *      nothing is waited for here     a period: what comes can wait that long; LISTEN_AFTER, if
 *                                     something has just come; but as the next row if the
 *                                     application has been away for LONG_AWAY
 *      devices can wake the thread    until one does, or the engine has something due
 *      devices cannot                 RUN_PAUSE while peers were served lately, else a period
 */
static uint64_t wait_for_peers(btl_ib_progress_thread_t *self, watch_t *watch, uint64_t now,
                               int came, int last)
{
    const uint64_t due = btl_ib_engine_async_due(self->engine);
    const bool awaits = btl_ib_engine_awaits(self->engine);

    if (came > 0) {
        watch->served_at = now;
    }
    const bool came_lately = now - watch->served_at < LISTEN_AFTER;
    if (last >= self->config.burst) {
        return RUN_PAUSE; /* a transport may hold more, of which no device will tell */
    }
    if (!awaits && !came_lately && btl_ib_app_watch_since_poll(&self->app, now) < LONG_AWAY) {
        /* If it calls seldom, the next call is to tell that a pause begins. */
        self->asleep = btl_ib_app_watch_is_seldom(&self->app);
        return pause_until_due(self, now, due);
    }
    /* A device that woke the thread though nothing came would do so for ever: do not wait for
     * it. */
    if (came > 0 || !watch->by_device) {
        watch->fds = btl_ib_engine_wait_fds(self->engine, watch->fd);
    }
    if (watch->fds > 0 && !awaits && came_lately) {
        return LISTEN_AFTER;
    }
    if (watch->fds > 0) {
        self->listening = true;
        self->asleep = due == UINT64_MAX;
        return self->asleep ? UNTIL_WOKEN : pause_until_due(self, now, due);
    }
    return now - watch->served_at < SERVED_LATELY ? RUN_PAUSE : pause_until_due(self, now, due);
}

/* Runs the engine until nothing arrives any more, or the application calls. Returns how long to
 * sleep. */
static uint64_t run_engine(btl_ib_progress_thread_t *self, watch_t *watch, uint64_t began)
{
    const uint64_t before = btl_ib_engine_datagrams(self->engine);
    const uint32_t calls = btl_ib_poll_throttle_calls(self->config.throttle);
    uint64_t now = began;
    int came = 0;
    int last;

    self->in_engine = true;
    do {
        last = btl_ib_engine_async_progress(self->engine, now, self->config.burst);
        came += last;
        now = btl_ib_now();
    } while ((last > 0 || btl_ib_engine_behind(self->engine)) && now - began < RUN_MOST
             && btl_ib_poll_throttle_calls(self->config.throttle) == calls
             && !btl_ib_biased_lock_wanted(self->config.lock) && !atomic_load(&self->leave));
    self->in_engine = false;
    btl_ib_app_watch_ran(&self->app, now, btl_ib_engine_datagrams(self->engine) - before);
    if (came > 0) { /* an application that seldom calls progress must poll in its next call */
        btl_ib_poll_throttle_reset(self->config.throttle);
    }
    if (btl_ib_engine_awaits(self->engine) || self->answers) {
        return wait_for_peers(self, watch, now, came, last);
    }
    return pause_until_due(self, now, btl_ib_engine_async_due(self->engine));
}

/* Checks whether to run the engine. Returns how long to sleep, us. */
static uint64_t check_engine(btl_ib_progress_thread_t *self, watch_t *watch)
{
    const bool called = btl_ib_app_watch_note_calls(&self->app);
    const bool seldom = btl_ib_app_watch_is_seldom(&self->app);
    const uint64_t alone =
        btl_ib_app_watch_check(&self->app, btl_ib_now(), called, watch->by_caller);
    uint64_t now;
    uint64_t sleep;

    watch->fds = 0;
    if (alone > 0) {
        return alone;
    }
    /* If the lock is taken, its holder makes progress. */
    if (!btl_ib_biased_lock_borrow(self->config.lock)) {
        return btl_ib_app_watch_in_call(&self->app);
    }
    now = btl_ib_now();
    self->asleep = false;
    self->listening = false;
    if (is_needed(self->engine)) {
        watch->idle_since = 0;
        sleep = called && !seldom
                    ? pause_until(now, btl_ib_engine_turned_at(self->engine) + self->config.period)
                    : run_engine(self, watch, now);
    } else if (self->answers && (seldom || !called)) {
        sleep = run_engine(self, watch, now);
    } else {
        sleep = grow_idle(self, watch, now);
    }
    btl_ib_biased_lock_release(self->config.lock);
    return sleep;
}

/* ---- in the application's place ---- */

/* Steps aside, as the application polls, or has the lock. Returns for how long, us. */
static uint64_t step_aside(watch_t *watch)
{
    watch->aside = watch->aside == 0 ? ASIDE_FIRST : 2 * watch->aside;
    watch->aside = watch->aside < ASIDE_MAX ? watch->aside : ASIDE_MAX;
    return watch->aside;
}

/* Sleeps if devices wake the thread too often. */
static void pace_wakeups(const btl_ib_progress_thread_t *self, watch_t *watch, uint64_t now)
{
    if (watch->woken_until + WAKEUPS_AT_ONCE < now) {
        watch->woken_until = now - WAKEUPS_AT_ONCE;
    }
    watch->woken_until += self->config.wakeup_gap;
    if (watch->woken_until > now) {
        usleep((useconds_t) (watch->woken_until - now));
    }
}

/* Prepares to wait for events, as nothing is left to be done. `came`: something arrived in these
 * turns. Returns how long to sleep, us. */
static uint64_t wait_for_events(btl_ib_progress_thread_t *self, watch_t *watch, bool came)
{
    const uint64_t now = btl_ib_now();
    const uint64_t due = btl_ib_engine_next_due(self->engine);
    const uint64_t pause = due > now ? due - now : 0;

    if (came) {
        watch->served_at = now;
    }
    if (came || !watch->by_device) { /* as in wait_for_peers() */
        watch->fds = btl_ib_engine_wait_fds(self->engine, watch->fd);
    }
    if (watch->fds == 0) {
        return now - watch->served_at < SERVED_LATELY ? RUN_PAUSE : self->config.period;
    }
    self->listening = due == UINT64_MAX;
    self->asleep = pause > self->config.period;
    if (due == UINT64_MAX) {
        return UNTIL_WOKEN;
    }
    return pause > self->config.wakeup_gap ? pause : self->config.wakeup_gap;
}

/* Makes turns until nothing arrives any more, or the application is back. Returns how long to
 * sleep, us. */
static uint64_t deliver_turns(btl_ib_progress_thread_t *self, watch_t *watch)
{
    bool came = false;
    bool called = false;
    int events;

    self->asleep = false;
    self->listening = false;
    do {
        events = self->config.deliver();
        came = came || events > 0;
        called =
            btl_ib_app_watch_note_calls(&self->app) || btl_ib_biased_lock_wanted(self->config.lock);
    } while (events > 0 && !called && !atomic_load(&self->leave));
    if (came) {
        btl_ib_poll_throttle_reset(self->config.throttle);
    }
    return called ? step_aside(watch) : wait_for_events(self, watch, came);
}

/* Checks whether to make turns, for a thread that delivers. Returns how long to sleep, us. */
static uint64_t check_delivering(btl_ib_progress_thread_t *self, watch_t *watch)
{
    bool called;
    uint64_t now = btl_ib_now();
    uint64_t sleep;

    if (watch->by_device) {
        pace_wakeups(self, watch, now);
        now = btl_ib_now();
    }
    called = btl_ib_app_watch_note_calls(&self->app);
    if (called) {
        btl_ib_app_watch_attended(&self->app, now);
    }
    watch->fds = 0;
    if (watch->by_caller || (called && btl_ib_app_watch_since_poll(&self->app, now) < AWAY_AFTER)
        || btl_ib_app_watch_is_preempted(&self->app, now, AWAY_AFTER)
        || !btl_ib_biased_lock_begin_shift(self->config.lock)) {
        return step_aside(watch);
    }
    watch->aside = 0;
    sleep = deliver_turns(self, watch);
    btl_ib_biased_lock_end_shift(self->config.lock);
    btl_ib_biased_lock_release(self->config.lock);
    return sleep;
}

/* True if the PML is ready for messages; until then the thread does not deliver. */
static bool check_pml(btl_ib_progress_thread_t *self)
{
    bool ready;

    if (!btl_ib_biased_lock_borrow(self->config.lock)) {
        return false;
    }
    ready = self->procs_added
            && self->calls_before != btl_ib_poll_throttle_calls(self->config.throttle);
    btl_ib_biased_lock_release(self->config.lock);
    return ready;
}

/* ---- the thread ---- */

/* Sleeps for `us`, or until woken by the application or by a device. */
static void thread_sleep(const btl_ib_progress_thread_t *self, watch_t *watch, uint64_t us)
{
    struct pollfd wake[1 + BTL_IB_RAILS_MAX] = {{.fd = self->wake_fd, .events = POLLIN}};
    uint64_t left = us;
    uint64_t count;
    int ready;

    for (uint32_t i = 0; i < watch->fds; ++i) {
        wake[1 + i] = (struct pollfd){.fd = watch->fd[i], .events = POLLIN};
    }
    do {
        const bool ticks = left > BTL_IB_POLL_YIELD_TICK
                           && btl_ib_poll_yield_is_crowded(self->config.yield, btl_ib_now());
        const uint64_t step = ticks ? BTL_IB_POLL_YIELD_TICK : left;
        const struct timespec time = {
            .tv_sec = (time_t) (step / 1000000),
            .tv_nsec = (long) (step % 1000000) * 1000,
        };

        ready = ppoll(wake, 1 + watch->fds, step == UNTIL_WOKEN ? NULL : &time, NULL);
        if (ready < 0 && errno != EINTR) {
            (void) usleep(RUN_PAUSE); /* a filter refuses ppoll(): do not spin */
        }
        left -= us == UNTIL_WOKEN ? 0 : step;
    } while (ready == 0 && left > 0);
    watch->by_device = ready > 0 && wake[0].revents == 0;
    watch->by_caller = ready > 0 && !watch->by_device;
    if (watch->by_caller) {
        /* If it fails the next ppoll() returns at once, and it is read then. */
        (void) !read(self->wake_fd, &count, sizeof(count));
    }
}

static void *thread_run(void *arg)
{
    btl_ib_progress_thread_t *self = arg;
    watch_t watch = {0};
    uint64_t sleep = UNTIL_WOKEN;

    prctl(PR_SET_NAME, "btl_ib progress");
    btl_ib_biased_lock_register_process();
    if (self->config.deliver != NULL) {
        prctl(PR_SET_TIMERSLACK, TIMER_SLACK);
    }
    while (!atomic_load(&self->leave)) {
        if (!watch.delivers && self->config.deliver != NULL) {
            watch.delivers = check_pml(self);
        }
        if (watch.delivers) {
            sleep = check_delivering(self, &watch);
        } else if (sleep == UNTIL_WOKEN && !watch.by_device) {
            /* Just started, or woken by the application, which is not away: give it time. */
            const bool called = btl_ib_app_watch_note_calls(&self->app);
            watch.fds = 0;
            sleep = btl_ib_app_watch_is_seldom(&self->app)
                        ? btl_ib_app_watch_check(&self->app, btl_ib_now(), called, true)
                        : self->config.period;
        } else {
            sleep = check_engine(self, &watch);
        }
        if (!watch.delivers && self->config.deliver != NULL && sleep > self->config.period) {
            sleep = self->config.period;
        }
        thread_sleep(self, &watch, sleep);
    }
    return NULL;
}

/* Forgets the thread in a child of fork(), which does not have it. The lock is made anew, as the
 * thread may have had it at that moment. The child must not use MPI, but functions that run at its
 * exit must not wait for thread or lock. */
static void in_child(void)
{
    of_process->started = false;
    of_process->asleep = false;
    of_process->listening = false;
    (void) btl_ib_biased_lock_init(of_process->config.lock, false);
}

/* Stops the thread, as the process exits without MPI_Finalize, and libraries that the thread uses
 * are about to be unloaded. The thread ends even if another one has the lock, as it only tries
 * it. */
static void at_exit(void)
{
    btl_ib_progress_thread_stop(of_process);
}

/* Registers both handlers, which stay until the process ends or the component is unloaded. Returns
 * 0 or an errno; *what names the call that failed. */
static int register_handlers(btl_ib_progress_thread_t *self, const char **what)
{
    int rc = 0;

    of_process = self;
    if (!self->at_fork) {
        *what = "pthread_atfork";
        rc = pthread_atfork(NULL, NULL, in_child);
        self->at_fork = rc == 0;
    }
    if (rc == 0 && !self->at_exit) {
        *what = "atexit";
        self->at_exit = atexit(at_exit) == 0;
        rc = self->at_exit ? 0 : ENOMEM;
    }
    return rc;
}

static void close_files(btl_ib_progress_thread_t *self)
{
    close(self->wake_fd);
    btl_ib_app_watch_end(&self->app);
}

/* Starts the thread. Returns 0 or an errno; *what names the call that failed. */
static int thread_start(btl_ib_progress_thread_t *self, const char **what)
{
    int rc = register_handlers(self, what);
    btl_ib_thread_setup_t setup;

    if (rc != 0) {
        return rc;
    }
    *what = "eventfd";
    self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->wake_fd < 0) {
        return errno;
    }
    btl_ib_app_watch_begin(&self->app, btl_ib_now());
    *what = "pthread_create";
    /* With `deliver` functions of the PML run in the thread, and need a large stack. */
    rc = btl_ib_thread_prepare(&setup, self->config.deliver == NULL);
    if (rc == 0) {
        rc = pthread_create(&self->thread, &setup.attr, thread_run, self);
        btl_ib_thread_created(&setup);
    }
    if (rc != 0) {
        close_files(self);
    }
    self->started = rc == 0;
    return rc;
}

/* Returns, for a text, what may have refused the thread: a limit, or a filter of system calls. */
static const char *cause_of(int error)
{
    switch (error) {
    case EAGAIN:
        return "the limits on processes and threads (ulimit -u, pids.max of the cgroup)";
    case EMFILE:
        return "the limit on open files (ulimit -n)";
    case ENFILE:
        return "the system's limit on open files (fs.file-max)";
    case EPERM:
    case ENOSYS:
        return "the filter of system calls that forbids it (seccomp, a container's profile)";
    default:
        return "the memory that there is and may be used (ulimit -v, memory.max of the cgroup)";
    }
}

/* Reports, once at level 0, that the system refused the thread, as applications that compute for
 * long pay for that. Sets when to try again. */
static void report_refused(btl_ib_progress_thread_t *self, const char *what, int error)
{
    uint64_t pause = RETRY_PAUSE;

    for (uint32_t i = 0; i < self->failures && pause < RETRY_MAX; ++i) {
        pause *= 2;
    }
    pause = pause < RETRY_MAX ? pause : RETRY_MAX;
    self->retry_at = btl_ib_now() + pause;
    if (self->failures++ == 0) {
        opal_output(0,
                    "btl:ib: rank %u on host %s: no helper thread: %s: %s. Until there is one, "
                    "nothing is sent again or acknowledged, and no window is served, while this "
                    "rank computes without calling MPI: peers may have to wait that long. It is "
                    "tried again by itself. Please look at %s.",
                    self->config.rank, opal_process_info.nodename, what, strerror(error),
                    cause_of(error));
    }
    BTL_IB_VERBOSE(1, "no helper thread: %s: %s; tried %u times, again in %" PRIu64 " ms", what,
                   strerror(error), self->failures, (uint64_t) pause / 1000);
}

/* Starts the thread, unless it is too soon after a failure. */
static void start_if_due(btl_ib_progress_thread_t *self)
{
    const char *what;
    int rc;

    if (btl_ib_engine_turned_at(self->engine) < self->retry_at) {
        return;
    }
    rc = thread_start(self, &what);
    if (rc != 0) {
        report_refused(self, what, rc);
        return;
    }
    self->asleep = false;
    self->listening = false;
    if (self->failures > 0) {
        BTL_IB_VERBOSE(1, "there is a helper thread now, which was refused %u times",
                       self->failures);
    }
}

static void write_wake_fd(const btl_ib_progress_thread_t *self)
{
    const uint64_t one = 1;

    (void) !write(self->wake_fd, &one, sizeof(one)); /* fails only after 2^64 unread ones */
}

void btl_ib_progress_thread_init(btl_ib_progress_thread_t *self,
                                 const btl_ib_progress_thread_config_t *config)
{
    *self = (btl_ib_progress_thread_t){
        .config = *config,
        .at_fork = self->at_fork,
        .at_exit = self->at_exit,
    };
    btl_ib_app_watch_init(&self->app, config->period, config->throttle);
}

bool btl_ib_progress_thread_attach(btl_ib_progress_thread_t *self, btl_ib_engine_t *engine)
{
    self->engine = engine;
    self->asleep = self->config.enabled;
    if (self->config.enabled && btl_ib_engine_answers(engine)) {
        self->answers = true; /* before the thread starts, which reads it */
        start_if_due(self);
        self->answers = self->started; /* a later start would not be published any more */
    } else if (self->config.deliver != NULL) {
        start_if_due(self);
    }
    return self->answers;
}

void btl_ib_progress_thread_procs_added(btl_ib_progress_thread_t *self)
{
    if (!self->procs_added) {
        self->procs_added = true;
        self->calls_before = btl_ib_poll_throttle_calls(self->config.throttle);
    }
}

void btl_ib_progress_thread_waited(btl_ib_progress_thread_t *self, uint64_t now, uint64_t us,
                                   uint64_t datagrams)
{
    if (self->started && self->config.deliver == NULL
        && btl_ib_app_watch_waited(&self->app, now, us, datagrams)) {
        self->asleep = false;
        self->listening = false;
        write_wake_fd(self);
    }
}

void btl_ib_progress_thread_wake(btl_ib_progress_thread_t *self)
{
    if (!is_needed(self->engine)
        || (self->listening && btl_ib_engine_async_due(self->engine) == UINT64_MAX)) {
        return;
    }
    if (!self->started) {
        start_if_due(self);
        return;
    }
    self->asleep = false;
    self->listening = false;
    write_wake_fd(self);
}

void btl_ib_progress_thread_stop(btl_ib_progress_thread_t *self)
{
    /* The thread cannot join itself, if one of its callbacks exits. */
    if (self->started && !pthread_equal(self->thread, pthread_self())) {
        atomic_store(&self->leave, true);
        write_wake_fd(self);
        pthread_join(self->thread, NULL);
        close_files(self);
        self->started = false;
    }
    self->asleep = false;
    self->listening = false;
}
