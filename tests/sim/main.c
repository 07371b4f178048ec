/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * btl_ib_sim: runs named scenarios and seeds in worker processes, so that a failure or a crash ends
 * one of them and not the run. Only this file looks at a real clock, for the report.
 */

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

#define JOBS_MAX     64
#define FAILURES_MAX 20 /* kept for the summary */
#define DUMPS_MAX    3  /* failures shown with their trace */
#define SEED_SECONDS                                                                               \
    60 /* processor time, which a busy machine does not make longer: then a scenario hangs */

/* Shared by all workers. */
typedef struct totals {
    uint64_t next; /* the next item of work: named scenarios first, then seeds */
    uint64_t passed, failed, events;
    uint64_t applied[F_COUNT];
    uint64_t current[JOBS_MAX];
    uint64_t failures[FAILURES_MAX];
    uint64_t hashes[]; /* of each item of work */
} totals_t;

typedef struct options {
    uint64_t seeds, first;
    uint64_t until; /* real seconds, 0: as many seeds as asked for */
    uint32_t jobs;
    bool named;
    bool ecn;    /* seeds have ECN */
    bool both;   /* run each item with and without header prediction: the same must happen */
    bool hashes; /* print what happened as a hash for each item, and the summary to stderr */
    bool sum;    /* as one hash for all of them */
} options_t;

static sim_t *current_sim; /* for the signal handler only */

static void on_signal(int number)
{
    fprintf(stderr, "\nFAILED scenario %s seed %llu at %.3f us: signal %d%s\n",
            current_sim->scenario, (unsigned long long) current_sim->seed,
            (double) current_sim->now / 1000.0, number, number == SIGPROF ? " (hangs)" : "");
    sim_trace_dump(current_sim, 60);
    fflush(stderr);
    _exit(1);
}

/* SIGPROF after so many seconds of processor time; 0: never. */
static void limit_time(int seconds)
{
    const struct itimerval timer = {.it_value.tv_sec = seconds};

    if (setitimer(ITIMER_PROF, &timer, NULL) != 0) {
        perror("setitimer");
        exit(1);
    }
}

/* How a scenario runs, and what is shown of one that runs by itself. */
typedef struct shown {
    bool general;      /* without header prediction */
    bool ecn;          /* of seeds: with ECN */
    bool events;       /* as text */
    const char *trace; /* files of what the engines trace begin with this; NULL: none */
} shown_t;

/* What happened in a scenario. */
typedef struct happened {
    uint64_t hash;     /* of all that was sent, received, lost, delivered or timed */
    uint64_t counters; /* of all engines, as a hash */
} happened_t;

/* One scenario, from a fresh start. */
static happened_t run_one(uint64_t seed, const named_scenario_t *named, const shown_t *shown,
                          totals_t *totals)
{
    sim_t *sim = malloc(sizeof(*sim));

    sim_init(sim, seed, named == NULL ? "random" : named->name);
    sim->general = shown->general;
    sim->ecn = shown->ecn;
    sim->verbose = shown->events;
    sim->trace_files = shown->trace;
    sim->terse = totals != NULL && __atomic_load_n(&totals->failed, __ATOMIC_RELAXED) >= DUMPS_MAX;
    current_sim = sim;
    limit_time(SEED_SECONDS);
    (named == NULL ? scenario_random : named->run)(sim);
    limit_time(0);
    const happened_t happened = {.hash = sim->hash, .counters = sim->counted};
    if (totals != NULL) {
        for (int i = 0; i < F_COUNT; i++) {
            __atomic_fetch_add(&totals->applied[i], sim->applied[i], __ATOMIC_RELAXED);
        }
        __atomic_fetch_add(&totals->events, sim->events, __ATOMIC_RELAXED);
    }
    sim_free(sim);
    free(sim);
    return happened;
}

/* One item of work. With `both` it runs twice; a difference ends the worker. */
static happened_t run_item(uint64_t seed, const named_scenario_t *named, const options_t *options,
                           totals_t *totals)
{
    const shown_t short_ways = {.ecn = options->ecn};
    const shown_t general = {.general = true, .ecn = options->ecn};
    const happened_t happened = run_one(seed, named, &short_ways, totals);

    if (options->both) {
        const happened_t other = run_one(seed, named, &general, NULL);
        if (other.hash != happened.hash || other.counters != happened.counters) {
            fprintf(stderr, "\nFAILED scenario %s seed %llu: %s without header prediction\n",
                    named == NULL ? "random" : named->name, (unsigned long long) seed,
                    other.hash != happened.hash ? "something else happens"
                                                : "something else is counted");
            exit(1);
        }
    }
    return happened;
}

static uint64_t named_count(void)
{
    uint64_t n = 0;

    while (named_scenarios[n].name != NULL) {
        n++;
    }
    return n;
}

static uint64_t items(const options_t *options)
{
    return options->seeds + (options->named ? named_count() : 0);
}

static void work(totals_t *totals, const options_t *options, uint32_t worker)
{
    uint64_t named = options->named ? named_count() : 0;

    signal(SIGABRT, on_signal);
    signal(SIGPROF, on_signal);
    setvbuf(stderr, NULL, _IOFBF, 1 << 16);
    for (;;) {
        uint64_t item = __atomic_fetch_add(&totals->next, 1, __ATOMIC_RELAXED);
        bool more = options->until != 0 ? (uint64_t) time(NULL) < options->until
                                        : item < named + options->seeds;
        if (!more || totals->failed > FAILURES_MAX) { /* more of them teach nothing */
            exit(0); /* not _exit(): sanitizers and coverage have a last word */
        }
        totals->current[worker] = item;
        const happened_t happened =
            item < named ? run_item(1, &named_scenarios[item], options, totals)
                         : run_item(options->first + item - named, NULL, options, totals);
        if (options->hashes) {
            totals->hashes[item] = happened.hash;
        }
        __atomic_fetch_add(&totals->passed, 1, __ATOMIC_RELAXED);
    }
}

static pid_t start_worker(totals_t *totals, const options_t *options, uint32_t worker)
{
    fflush(stdout);
    pid_t pid = fork();

    if (pid == 0) {
        work(totals, options, worker);
    }
    return pid;
}

static void show_progress(const totals_t *totals, uint64_t total, bool last)
{
    if (isatty(STDOUT_FILENO)) {
        printf("\r%llu of %llu, %llu failed %s", (unsigned long long) totals->passed,
               (unsigned long long) total, (unsigned long long) totals->failed, last ? "\n" : "");
    } else if (last) {
        printf("%llu scenarios, %llu events\n",
               (unsigned long long) (totals->passed + totals->failed),
               (unsigned long long) totals->events);
    }
    fflush(stdout);
}

static void note_failure(totals_t *totals, const options_t *options, uint64_t item, int status)
{
    uint64_t named = options->named ? named_count() : 0;

    if (totals->failed < FAILURES_MAX) {
        totals->failures[totals->failed] = item;
    }
    if (++totals->failed > FAILURES_MAX) {
        return;
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "\nFAILED item %llu: signal %d\n", (unsigned long long) item,
                WTERMSIG(status));
    }
    if (item < named) {
        fprintf(stderr, "  replay: btl_ib_sim --scenario %s --trace\n", named_scenarios[item].name);
    } else {
        fprintf(stderr, "  replay: btl_ib_sim --seed %llu --trace\n",
                (unsigned long long) (options->first + item - named));
    }
}

static void supervise(totals_t *totals, const options_t *options)
{
    uint64_t total = items(options);
    pid_t pids[JOBS_MAX];
    uint32_t running = options->jobs;

    for (uint32_t i = 0; i < options->jobs; i++) {
        pids[i] = start_worker(totals, options, i);
    }
    while (running > 0) {
        for (uint32_t i = 0; i < options->jobs; i++) {
            int status;
            if (pids[i] <= 0 || waitpid(pids[i], &status, WNOHANG) != pids[i]) {
                continue;
            }
            pids[i] = 0;
            running--;
            if (status != 0) {
                note_failure(totals, options, totals->current[i], status);
                if (totals->failed > FAILURES_MAX) {
                    continue;
                }
                pids[i] = start_worker(totals, options, i);
                running++;
            }
        }
        if (!options->hashes) {
            show_progress(totals, total, false);
        }
        usleep(20000);
    }
    if (!options->hashes) {
        show_progress(totals, total, true);
    }
}

static void report(const totals_t *totals)
{
    printf("how often each fault was really applied:\n");
    for (int i = 0; i < F_COUNT; i++) {
        printf("  %12llu  %s%s\n", (unsigned long long) totals->applied[i], fault_texts[i],
               totals->applied[i] == 0 ? "  <-- never" : "");
    }
}

/* In the order of the work, which is the same however many workers there are. */
static void print_hashes(const totals_t *totals, const options_t *options)
{
    uint64_t named = options->named ? named_count() : 0;
    uint64_t sum = 0;

    if (protection_kinds() != BTL_IB_PROTECTION_KINDS) {
        printf("without libcrypto\n");
    }
    for (uint64_t i = 0; i < items(options); i++) {
        unsigned long long hash = totals->hashes[i];
        sum = (sum ^ hash) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 32;
        if (options->sum) {
            continue;
        }
        if (i < named) {
            printf("%s %016llx\n", named_scenarios[i].name, hash);
        } else {
            printf("%llu %016llx\n", (unsigned long long) (options->first + i - named), hash);
        }
    }
    if (options->sum) {
        printf("sum %016llx\n", (unsigned long long) sum);
    }
}

/* A seed that does not replay to the same events is no use: run a few twice. */
static bool replays(const options_t *options)
{
    const shown_t nothing = {.ecn = options->ecn};

    for (uint64_t seed = options->first; seed < options->first + 5; seed++) {
        int fds[2];
        uint64_t hash[2] = {0, 0};
        if (pipe(fds) != 0) {
            return false;
        }
        pid_t pid = fork();
        if (pid == 0) {
            for (int i = 0; i < 2; i++) {
                hash[i] = run_one(seed, NULL, &nothing, NULL).hash;
            }
            _exit(write(fds[1], hash, sizeof(hash)) == (ssize_t) sizeof(hash) ? 0 : 1);
        }
        int status;
        close(fds[1]);
        bool got = read(fds[0], hash, sizeof(hash)) == (ssize_t) sizeof(hash);
        close(fds[0]);
        waitpid(pid, &status, 0);
        if (got && hash[0] != hash[1]) {
            fprintf(stderr, "\nFAILED: seed %llu does not replay: %016llx, then %016llx\n",
                    (unsigned long long) seed, (unsigned long long) hash[0],
                    (unsigned long long) hash[1]);
            return false;
        }
    }
    return true;
}

static int run_many(const options_t *options)
{
    size_t size = sizeof(totals_t) + (options->hashes ? items(options) * sizeof(uint64_t) : 0);
    totals_t *totals = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct timespec from, to;

    if (totals == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &from);
    supervise(totals, options);
    if (options->named) {
        *(replays(options) ? &totals->passed : &totals->failed) += 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    if (options->hashes) {
        print_hashes(totals, options);
        fprintf(stderr, "%llu passed, %llu failed\n", (unsigned long long) totals->passed,
                (unsigned long long) totals->failed);
        return totals->failed == 0 ? 0 : 1;
    }
    report(totals);
    printf("%.1f s\n",
           (double) (to.tv_sec - from.tv_sec) + (double) (to.tv_nsec - from.tv_nsec) / 1e9);
    if (totals->failed > FAILURES_MAX) {
        printf("stopped: too many failures\n");
    }
    printf("%llu passed, %llu failed\n", (unsigned long long) totals->passed,
           (unsigned long long) totals->failed);
    return totals->failed == 0 ? 0 : 1;
}

static int usage(int status)
{
    fputs(
        "btl_ib_sim [--seeds N] [--first S] [--minutes M] [--jobs J] [--no-named]\n"
        "           run the named scenarios, then N random ones (100) from seed S (1),\n"
        "           or as many as M minutes allow\n"
        "btl_ib_sim [--seeds N] ... --hashes [--sum]  print the hash of each, or one of all\n"
        "btl_ib_sim [--seeds N] ... --both     run each also without header prediction: "
        "deliveries,\n"
        "                                      the wire's bytes, times and counters are the same\n"
        "btl_ib_sim [--seeds N] ... --ecn      seeds have ECN, and networks that mark, or spoil "
        "it\n"
        "btl_ib_sim --seed S [--trace] [--trace-file F]\n"
        "                                      run one seed, here, and print its hash\n"
        "btl_ib_sim --scenario NAME ...        run one named scenario, here\n"
        "           --no-prediction: all messages go the engine's general way\n"
        "           --trace prints what happens; --trace-file writes F.0, F.1, ... of each\n"
        "           process, as btl_ib_trace does: for ib_trace\n"
        "btl_ib_sim --small N [--scenario NAME[:FATES] [--trace]]\n"
        "                                      every treatment of the first N datagrams of short\n"
        "                                      situations; or of one, or one run of it\n"
        "btl_ib_sim --self-test                does it notice the errors of self_test.c?\n"
        "btl_ib_sim --list                     list the named scenarios\n"
        "btl_ib_sim --grid [--quick] [--out F] goodput over loss, round trip and rate; a table "
        "for\n"
        "                                      tests/sim/plot_grid\n",
        status == 0 ? stdout : stderr);
    return status;
}

static int run_here(uint64_t seed, const char *name, const shown_t *shown)
{
    const named_scenario_t *named = NULL;

    for (const named_scenario_t *s = named_scenarios; name != NULL && s->name != NULL; s++) {
        if (strcmp(s->name, name) == 0) {
            named = s;
        }
    }
    if (name != NULL && named == NULL) {
        fprintf(stderr, "no scenario %s: see --list\n", name);
        return 2;
    }
    signal(SIGABRT, on_signal);
    signal(SIGPROF, on_signal);
    uint64_t hash = run_one(seed, named, shown, NULL).hash;
    printf("seed %llu passed, hash %016llx\n", (unsigned long long) seed,
           (unsigned long long) hash);
    return 0;
}

static int list(void)
{
    for (const named_scenario_t *s = named_scenarios; s->name != NULL; s++) {
        printf("%-24s %s\n", s->name, s->text);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"seeds", required_argument, NULL, 'n'},
                                          {"first", required_argument, NULL, 'f'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"trace", no_argument, NULL, 't'},
                                          {"scenario", required_argument, NULL, 'c'},
                                          {"list", no_argument, NULL, 'l'},
                                          {"minutes", required_argument, NULL, 'm'},
                                          {"jobs", required_argument, NULL, 'j'},
                                          {"no-named", no_argument, NULL, 'x'},
                                          {"grid", no_argument, NULL, 'g'},
                                          {"quick", no_argument, NULL, 'q'},
                                          {"out", required_argument, NULL, 'o'},
                                          {"hashes", no_argument, NULL, 'H'},
                                          {"sum", no_argument, NULL, 'S'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"trace-file", required_argument, NULL, 'T'},
                                          {"both", no_argument, NULL, 'b'},
                                          {"no-prediction", no_argument, NULL, 'p'},
                                          {"ecn", no_argument, NULL, 'e'},
                                          {"small", required_argument, NULL, 'y'},
                                          {"self-test", no_argument, NULL, 'z'},
                                          {NULL, 0, NULL, 0}};
    options_t options = {.seeds = 100, .first = 1, .jobs = 1, .named = true};
    uint64_t seed = 1;
    const char *scenario = NULL;
    const char *out = NULL;
    shown_t shown = {0};
    bool here = false, grid = false, quick = false;
    uint32_t small = 0;

    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        uint64_t number = optarg == NULL ? 0 : strtoull(optarg, NULL, 10);
        switch (c) {
        case 'n':
            options.seeds = number;
            break;
        case 'f':
            options.first = number;
            break;
        case 's':
            seed = number;
            here = true;
            break;
        case 't':
            shown.events = true;
            break;
        case 'b':
            options.both = true;
            break;
        case 'p':
            shown.general = true;
            break;
        case 'e':
            options.ecn = true;
            shown.ecn = true;
            break;
        case 'T':
            shown.trace = optarg;
            break;
        case 'c':
            scenario = optarg;
            here = true;
            break;
        case 'm':
            options.until = (uint64_t) time(NULL) + 60 * number;
            break;
        case 'j':
            options.jobs = number < 1 ? 1 : number > JOBS_MAX ? JOBS_MAX : (uint32_t) number;
            break;
        case 'x':
            options.named = false;
            break;
        case 'g':
            grid = true;
            break;
        case 'q':
            quick = true;
            break;
        case 'o':
            out = optarg;
            break;
        case 'y':
            small = (uint32_t) number;
            break;
        case 'z':
            return self_test_run();
        case 'H':
            options.hashes = true;
            break;
        case 'S':
            options.sum = true;
            break;
        case 'l':
            return list();
        case 'h':
            return usage(0);
        default:
            return usage(2);
        }
    }
    if (grid) {
        return grid_run(quick, out);
    }
    if (small > 0) {
        return small_run(scenario, small, shown.events);
    }
    return here ? run_here(seed, scenario, &shown) : run_many(&options);
}
