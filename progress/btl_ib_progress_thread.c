/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

/* us between two kicks, at least: a lost segment does not wait for long, and the application keeps
 * its processor. */
#define KICK_PAUSE 1000
/* us without anything due before the deep sleep: longer than most pauses between two messages. */
#define DROWSY 1000000
/* us that it goes on kicking after every KICK_PAUSE when a peer was served, if nothing tells it that
 * something came. */
#define SERVED_LATELY 20000
/* us between two looks whether the application is there, when nothing is due: so long a peer that was never heard waits
 * for an answer, at most. */
#define ANSWER_PERIOD 1000000
/* us after the system refused the thread; twice as long after each time that follows, up to
 * RETRY_MOST. */
#define RETRY_PAUSE 100000
#define RETRY_MOST  60000000
/* Bytes of stack: ours takes a few kB, but what all libraries keep for each thread is taken off. */
#define STACK_SIZE (256 * 1024)

/* What the thread remembers from one look to the next. */
typedef struct watch {
    uint32_t turns;      /* of progress, as seen at the last look */
    uint64_t idle_since; /* us: nothing was due since; 0: something was */
    uint64_t served_at;  /* us: something came in a kick, while memory was registered for peers */
    bool rung;           /* the last sleep was ended by a device */
    uint32_t fds;        /* devices that may end the next one */
    int fd[BTL_IB_RAILS_MAX];
} watch_t;

static uint64_t period(void)
{
    return (uint64_t) mca_btl_ib_component.params.kicker_ms * 1000;
}

/* Is there anything that kicks would be good for? */
static bool is_needed(const btl_ib_engine_t *engine)
{
    return btl_ib_engine_serves(engine) || UINT64_MAX != btl_ib_engine_kick_due(engine);
}

/* Is the application there? Then everything is looked after. */
static bool was_called(watch_t *watch)
{
    const uint32_t turns =
        atomic_load_explicit(&mca_btl_ib_component.pace.turns, memory_order_relaxed);
    const bool called = turns != watch->turns;

    watch->turns = turns;
    return called;
}

/* Progress was called since the last look. Returns when to look whether it was for the last time. */
static uint64_t until_away(uint64_t now)
{
    const uint64_t away = btl_ib_engine_turned_at(mca_btl_ib_component.engine) + period();

    return away > now + KICK_PAUSE ? away - now : KICK_PAUSE;
}

/* Was nothing due for long? */
static bool is_drowsy(const watch_t *watch, uint64_t now)
{
    return 0 != watch->idle_since && now - watch->idle_since >= DROWSY;
}

static uint64_t sleep_deeply(void)
{
    mca_btl_ib_component.kicker.asleep = true;
    return UINT64_MAX;
}

/* Nothing is due. Returns how long to sleep, UINT64_MAX: until woken. */
static uint64_t grow_drowsy(watch_t *watch, uint64_t now)
{
    if (0 == watch->idle_since) {
        watch->idle_since = now;
    }
    if (!is_drowsy(watch, now)) {
        return period();
    }
    (void) sleep_deeply();
    if (mca_btl_ib_component.kicker.answers) {
        return ANSWER_PERIOD;
    }
    watch->idle_since = 0;
    return UINT64_MAX;
}

/* How long to sleep after a kick, if the engine wants the next one at `due`. */
static uint64_t until_due(uint64_t now, uint64_t due)
{
    if (due > now + period()) {
        return period();
    }
    return due > now + KICK_PAUSE ? due - now : KICK_PAUSE;
}

/* A kick is over, and peers may want more of us that nothing here knows of: let the devices wake us, or
 * look often while they do. Returns how long to sleep. */
static uint64_t serve(watch_t *watch, uint64_t now, int came)
{
    const btl_ib_engine_t *engine = mca_btl_ib_component.engine;
    const uint64_t due = btl_ib_engine_kick_due(engine);

    if (came > 0) {
        watch->served_at = now;
    }
    if (came >= mca_btl_ib_component.params.poll_burst) {
        return KICK_PAUSE; /* a transport may have more at hand, of which no device will tell */
    }
    if (came > 0 || !watch->rung) { /* else one of them rings for ever */
        watch->fds = btl_ib_engine_wait_fds(engine, watch->fd);
    }
    if (watch->fds > 0) {
        mca_btl_ib_component.kicker.listening = true;
        return UINT64_MAX == due ? sleep_deeply() : until_due(now, due);
    }
    return now - watch->served_at < SERVED_LATELY ? KICK_PAUSE : until_due(now, due);
}

/* Kick. Returns how long to sleep. */
static uint64_t kick(watch_t *watch, uint64_t now)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    int came;

    component->kicker.kicking = true;
    came = btl_ib_engine_kick(component->engine, now, component->params.poll_burst);
    component->kicker.kicking = false;
    if (came > 0) { /* who calls progress seldom is to see it in his next call */
        btl_ib_pace_hurry(&component->pace);
    }
    if (btl_ib_engine_serves(component->engine) || component->kicker.answers) {
        return serve(watch, now, came);
    }
    return until_due(now, btl_ib_engine_kick_due(component->engine));
}

/* One look. Returns how long to sleep, in us. */
static uint64_t look(watch_t *watch)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const bool called = was_called(watch);
    uint64_t sleep;

    watch->fds = 0;
    /* Whoever has the lock is there. Nobody must have to wait because we do. */
    if (!btl_ib_gate_visit(&component->gate)) {
        return period();
    }
    const uint64_t now = btl_ib_now();
    component->kicker.asleep = false;
    component->kicker.listening = false;
    if (!is_needed(component->engine)) {
        const bool listens = component->kicker.answers && !called && is_drowsy(watch, now);

        sleep = listens ? kick(watch, now) : grow_drowsy(watch, now);
    } else {
        watch->idle_since = 0;
        sleep = called ? until_away(now) : kick(watch, now);
    }
    btl_ib_gate_leave(&component->gate);
    return sleep;
}

/* Sleep for `us`, or until woken by us or by a device. */
static void rest(watch_t *watch, uint64_t us)
{
    struct pollfd wake[1 + BTL_IB_RAILS_MAX] = {
        {.fd = mca_btl_ib_component.kicker.wake_fd, .events = POLLIN}};
    uint64_t count;
    int ready;

    for (uint32_t i = 0; i < watch->fds; ++i) {
        wake[1 + i] = (struct pollfd){.fd = watch->fd[i], .events = POLLIN};
    }
    ready = poll(wake, 1 + watch->fds, UINT64_MAX == us ? -1 : (int) (us / 1000));
    watch->rung = ready > 0 && 0 == wake[0].revents;
    if (ready > 0 && !watch->rung) {
        /* It is there; and if not, the next poll finds it. */
        (void) !read(wake[0].fd, &count, sizeof(count));
    }
}

static void *run(void *unused)
{
    btl_ib_kicker_t *kicker = &mca_btl_ib_component.kicker;
    watch_t watch = {0};
    uint64_t sleep = UINT64_MAX;

    (void) unused;
    prctl(PR_SET_NAME, "btl_ib kicker");
    while (!atomic_load(&kicker->leave)) {
        if (UINT64_MAX == sleep && !watch.rung) {
            /* Just made, or just woken by the application: give it time. */
            (void) was_called(&watch);
            watch.fds = 0;
            sleep = period();
        } else {
            sleep = look(&watch);
        }
        rest(&watch, sleep);
    }
    return NULL;
}

/* A child of fork() has no such thread, and the lock may have been taken by it just then. It must not
 * use MPI, but what it does at its end must not wait for either. */
static void in_child(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    component->kicker.started = false;
    component->kicker.asleep = false;
    component->kicker.listening = false;
    (void) btl_ib_gate_init(&component->gate, false);
}

/* The process ends without MPI_Finalize: libraries whose memory the thread uses are about to be closed. It
 * only ever tries the lock, so that it ends whoever has that. */
static void at_exit(void)
{
    btl_ib_kicker_stop();
}

/* Make the thread, with all signals blocked: they are for the application's own. Returns 0 or an
 * errno. */
static int make_thread(btl_ib_kicker_t *kicker)
{
    const long least = sysconf(_SC_THREAD_STACK_MIN);
    pthread_attr_t attr;
    sigset_t all;
    sigset_t before;
    int rc = pthread_attr_init(&attr);

    if (0 != rc) {
        return rc;
    }
    pthread_attr_setstacksize(&attr, (size_t) (least > STACK_SIZE ? least : STACK_SIZE));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&kicker->thread, &attr, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

/* Both stay until the process ends, or the component is closed. Returns 0 or an errno. */
static int prepare_for_ends(btl_ib_kicker_t *kicker, const char **what)
{
    int rc = 0;

    if (!kicker->for_fork) {
        *what = "pthread_atfork";
        rc = pthread_atfork(NULL, NULL, in_child);
        kicker->for_fork = 0 == rc;
    }
    if (0 == rc && !kicker->for_exit) {
        *what = "atexit";
        kicker->for_exit = 0 == atexit(at_exit);
        rc = kicker->for_exit ? 0 : ENOMEM;
    }
    return rc;
}

/* Returns 0 or an errno, *what says of which call. */
static int start(btl_ib_kicker_t *kicker, const char **what)
{
    int rc = prepare_for_ends(kicker, what);

    if (0 != rc) {
        return rc;
    }
    *what = "eventfd";
    kicker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (kicker->wake_fd < 0) {
        return errno;
    }
    *what = "pthread_create";
    rc = make_thread(kicker);
    if (0 != rc) {
        close(kicker->wake_fd);
        return rc;
    }
    kicker->started = true;
    return 0;
}

/* What to look at when the system refuses a thread or a descriptor. */
static const char *limit_of(int error)
{
    switch (error) {
    case EAGAIN:
        return "the limits on processes and threads (ulimit -u, pids.max of the cgroup)";
    case EMFILE:
        return "the limit on open files (ulimit -n)";
    case ENFILE:
        return "the system's limit on open files (fs.file-max)";
    default:
        return "the memory that there is and may be used (ulimit -v, memory.max of the cgroup)";
    }
}

/* It cannot be made. Who computes for long pays for that, so the user is told, but only once. */
static void refused(btl_ib_kicker_t *kicker, const char *what, int error)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;
    uint64_t pause = RETRY_PAUSE;

    for (uint32_t i = 0; i < kicker->failures && pause < RETRY_MOST; ++i) {
        pause *= 2;
    }
    pause = pause < RETRY_MOST ? pause : RETRY_MOST;
    kicker->retry_at = btl_ib_now() + pause;
    if (0 == kicker->failures++) {
        opal_output(0,
                    "btl:ib: rank %u on host %s: no helper thread: %s: %s. Until there is one, "
                    "nothing is sent again or acknowledged, and no window is served, while this "
                    "rank computes without calling MPI: peers may have to wait that long. It is "
                    "tried again by itself. Please look at %s.",
                    component->name.vpid, opal_process_info.nodename, what, strerror(error),
                    limit_of(error));
    }
    BTL_IB_VERBOSE(1, "no helper thread: %s: %s; tried %u times, again in %.1f s", what,
                   strerror(error), kicker->failures, (double) pause * 1e-6);
}

/* Make it, unless it is too soon after a failure: it stays asleep then, so that we are called
 * again. */
static void make_if_due(btl_ib_kicker_t *kicker, const btl_ib_engine_t *engine)
{
    const char *what;

    if (btl_ib_engine_turned_at(engine) < kicker->retry_at) {
        return;
    }
    const int rc = start(kicker, &what);
    if (0 != rc) {
        refused(kicker, what, rc);
        return;
    }
    kicker->asleep = false;
    kicker->listening = false;
    if (kicker->failures > 0) {
        BTL_IB_VERBOSE(1, "there is a helper thread now, which was refused %u times",
                       kicker->failures);
    }
}

static void ring(const btl_ib_kicker_t *kicker)
{
    const uint64_t one = 1;

    /* Fails only if it was rung 2^64 times and never heard. */
    (void) !write(kicker->wake_fd, &one, sizeof(one));
}

void btl_ib_kicker_prepare(void)
{
    btl_ib_kicker_t *kicker = &mca_btl_ib_component.kicker;

    kicker->on = mca_btl_ib_component.params.kicker;
    kicker->asleep = kicker->on;
    kicker->answers = false;
    kicker->failures = 0;
    kicker->retry_at = 0;
    atomic_store(&kicker->leave, false);
}

bool btl_ib_kicker_answer(void)
{
    btl_ib_kicker_t *kicker = &mca_btl_ib_component.kicker;
    const btl_ib_engine_t *engine = mca_btl_ib_component.engine;

    if (!kicker->on || !btl_ib_engine_answers(engine)) {
        return false;
    }
    kicker->answers = true; /* it looks at that from its beginning */
    make_if_due(kicker, engine);
    if (!kicker->started) { /* if it is made later nobody knows of it */
        kicker->answers = false;
    }
    return kicker->answers;
}

void btl_ib_kicker_wake(void)
{
    btl_ib_kicker_t *kicker = &mca_btl_ib_component.kicker;
    const btl_ib_engine_t *engine = mca_btl_ib_component.engine;

    if (NULL == engine || !is_needed(engine)
        || (kicker->listening && UINT64_MAX == btl_ib_engine_kick_due(engine))) {
        return;
    }
    if (!kicker->started) {
        make_if_due(kicker, engine);
        return;
    }
    kicker->asleep = false;
    kicker->listening = false;
    ring(kicker);
}

void btl_ib_kicker_stop(void)
{
    btl_ib_kicker_t *kicker = &mca_btl_ib_component.kicker;

    kicker->asleep = false;
    if (!kicker->started) {
        return;
    }
    atomic_store(&kicker->leave, true);
    ring(kicker);
    pthread_join(kicker->thread, NULL);
    close(kicker->wake_fd);
    kicker->listening = false;
    kicker->started = false;
}
