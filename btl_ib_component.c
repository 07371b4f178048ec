/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The component: register, open, init, progress, finalize of its modules, close. */

#define _GNU_SOURCE /* ppoll */

#include "btl_ib.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "btl_ib_device_plan.h"
#include "btl_ib_open_devices.h"
#include "btl_ib_stats.h"
#include "btl_ib_endpoint.h"
#include "btl_ib_file_name.h"
#include "btl_ib_frag.h"
#include "btl_ib_help.h"
#include "btl_ib_modex.h"
#include "btl_ib_param_parse.h"
#include "btl_ib_params.h"

enum { TABLE_AT_FIRST = 64 }; /* processes, and hosts; both tables grow */

static int thread_turn(void);
static int module_finalize(mca_btl_base_module_t *btl);

/* True if the selection of BTLs names us ("ib,self"). A list of unwanted BTLs ("^tcp") names
 * nobody. */
static bool named_by_user(void)
{
    const char *selection = opal_btl_base_framework.framework_selection;

    return selection != NULL && selection[0] != '^' && btl_ib_value_lists(selection, "ib");
}

/* Sets the component's version, which ompi_info shows: MCA_BTL_DEFAULT_VERSION wrote Open MPI's.
 * Open MPI compares it with nothing. */
static void set_version(mca_base_component_t *component)
{
    int part[3];

    if (sscanf(BTL_IB_VERSION, "%d.%d.%d", &part[0], &part[1], &part[2]) == 3) {
        component->mca_component_major_version = part[0];
        component->mca_component_minor_version = part[1];
        component->mca_component_release_version = part[2];
    }
}

static int component_register(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    mca_base_component_t *version = &component->super.btl_version;
    char why[256];

    if (!btl_ib_ompi_check(why, sizeof(why))) {
        /* A help text would need structures of Open MPI, which may differ in another series. */
        if (named_by_user()) {
            opal_output(0, "btl:ib: %s: not used; please rebuild it", why);
        }
        return OPAL_ERR_NOT_AVAILABLE;
    }
    set_version(version);
    (void) mca_base_var_group_component_register(version,
                                                 "Reliable messages over any datagram fabric");
    btl_ib_module_functions(&component->limits);
    component->limits.btl_finalize = module_finalize;
    btl_ib_params_register(&component->params, &component->limits, version);
    btl_ib_params_read(&component->params, &component->limits);
    btl_ib_pvars_register(version, &component->stats);
    return OPAL_SUCCESS;
}

/* ---- names of files, and the trace ---- */

/* Returns the name that a pattern of a parameter stands for in this process, to be freed. NULL: no
 * pattern is set, the name is too long, or memory is short. */
static char *make_name(const btl_ib_component_t *component, const char *pattern, const char *suffix)
{
    char *name = pattern != NULL && pattern[0] != '\0' ? malloc(BTL_IB_FILE_NAME_MAX) : NULL;
    const btl_ib_file_name_info_t info = {
        .host = component->self->host,
        .suffix = suffix,
        .job = component->name.jobid,
        .rank = component->name.vpid,
        .pid = (long) getpid(),
    };

    if (name != NULL && !btl_ib_file_name_make(pattern, &info, name)) {
        free(name);
        return NULL;
    }
    return name;
}

/* Opens the file of btl_ib_trace, before the engine is created, so that it has all events. NULL: no
 * trace is wanted, or the file cannot be made: then one process of a host says so, and the job goes
 * on. */
static btl_ib_trace_file_t *open_trace(const btl_ib_component_t *component)
{
    const uint64_t began = btl_ib_now_ns();
    const btl_ib_trace_file_info_t info = {
        .component = BTL_IB_VERSION,
        .host = component->self->host,
        .job = component->name.jobid,
        .rank = component->name.vpid,
        .pid = (long) getpid(),
        .began = began,
        .realtime = (uint64_t) time(NULL) * 1000000000u,
        .size_max = BTL_IB_TRACE_MAX,
    };
    char *name = make_name(component, component->params.trace, ".trace");
    btl_ib_trace_file_t *file;
    int error;

    if (name == NULL) {
        return NULL;
    }
    file = btl_ib_trace_file_open(name, &info, &error);
    if (file == NULL) {
        BTL_IB_SHOW_HELP("cannot write", "trace", "trace", component->name.vpid,
                         component->self->host, name, strerror(error));
    }
    free(name);
    return file;
}

static void close_trace(btl_ib_component_t *component)
{
    int error;

    if (component->trace == NULL) {
        return;
    }
    error = btl_ib_trace_file_close(component->trace);
    component->trace = NULL;
    if (error != 0) {
        btl_ib_show_help("cannot write", "trace", "trace", component->name.vpid,
                         component->self->host, "(some events are missing)", strerror(error));
    }
}

/* ---- the engine ---- */

/* Fills in what this process publishes of itself, except secrets, rails and protection. The name of
 * the host is shown to users of other hosts, so it keeps printable characters only. */
static void describe_self(btl_ib_modex_t *self, const mca_btl_base_module_t *limits)
{
    self->wire = btl_ib_versions_here();
    snprintf(self->release, sizeof(self->release), "%s", BTL_IB_VERSION);
    self->message_max = btl_ib_params_message_max(limits);
    self->where = btl_ib_host(BTL_IB_HOST_BOOT_ID, BTL_IB_HOST_NETWORK);
    snprintf(self->host, sizeof(self->host), "%s", opal_process_info.nodename);
    for (char *c = self->host; *c != '\0'; ++c) {
        if (*c <= ' ' || *c > '~') {
            *c = '?';
        }
    }
}

static bool random_bytes(void *out, size_t size)
{
    if (getrandom(out, size, 0) == (ssize_t) size) {
        return true;
    }
    btl_ib_help_cannot_start("the system gives no random numbers (getrandom)", errno,
                             "Do: allow the system call here (seccomp, a container's\n"
                             "profile).");
    return false;
}

static void report_no_memory(void)
{
    btl_ib_help_cannot_start("there is no memory", ENOMEM,
                             "Do: raise its limit (ulimit -v, memory.max of the cgroup).");
}

/* Makes our secret and key, which peers get through the modex, and opens the cipher, if
 * btl_ib_protection needs one. */
static bool make_secrets(btl_ib_component_t *component)
{
    btl_ib_modex_t *self = component->self;
    char cause[128];

    if (!random_bytes(&self->secret, sizeof(self->secret))) {
        return false;
    }
    if (!btl_ib_protection_ops(self->protection)->keyed) {
        return true;
    }
    component->aead = btl_ib_aead_open();
    if (component->aead == NULL) {
        snprintf(cause, sizeof(cause),
                 "libcrypto does not give AES-256-GCM, which btl_ib_protection %s needs",
                 component->params.protection);
        btl_ib_help_cannot_start(cause, 0,
                                 "Do: choose a provider that has it in openssl.cnf\n"
                                 "(\"openssl list -cipher-algorithms\" shows them), or\n"
                                 "btl_ib_protection none (the default).");
        return false;
    }
    return random_bytes(&self->key, sizeof(self->key));
}

/* Fills in the engine's configuration, except region_secret. */
static void configure_engine(btl_ib_component_t *component, btl_ib_engine_config_t *config)
{
    btl_ib_params_engine(&component->params, &component->limits, config);
    config->name = btl_ib_name_pack(component->name);
    config->secret = component->self->secret;
    config->protection = component->self->protection;
    config->aead = component->aead;
    config->key = component->self->key;
    config->peers = component->processes;
    if (config->passive_max < config->peers) { /* all of a job may send to one */
        config->passive_max = config->peers;
    }
    config->log = btl_ib_log_table(&component->log);
    config->log.detailed = btl_ib_is_verbose(BTL_IB_LOG_DETAILED);
    config->trace = component->trace != NULL;
}

static bool create_engine(btl_ib_component_t *component)
{
    btl_ib_engine_config_t config;
    char problem[128];

    if (!make_secrets(component)) {
        return false;
    }
    configure_engine(component, &config);
    if (!random_bytes(&config.region_secret, sizeof(config.region_secret))) {
        return false;
    }
    if (!btl_ib_engine_config_check(&config, problem, sizeof(problem))) {
        btl_ib_help_cannot_start(problem, 0,
                                 "Do: start without the MCA parameters that it is made of, which\n"
                                 "do not fit together.");
        return false;
    }
    component->engine = btl_ib_engine_create(&config, &btl_ib_engine_ops, component);
    if (component->engine == NULL) {
        report_no_memory();
    }
    return component->engine != NULL;
}

/* Frees the engine and what belongs to it; also after an initialization that failed half-way. */
static void free_engine(btl_ib_component_t *component)
{
    free(component->opened);
    component->opened = NULL;
    if (component->engine != NULL) {
        btl_ib_connectivity_end(&component->connectivity);
        btl_ib_stats_end(&component->stats);
        btl_ib_engine_destroy(component->engine);
        component->engine = NULL;
    }
    close_trace(component);
    if (component->aead != NULL) {
        component->aead->ops->close(component->aead);
        component->aead = NULL;
    }
    btl_ib_modex_forget_all(&component->known);
    OBJ_DESTRUCT(&component->known);
    OBJ_DESTRUCT(&component->hosts); /* empty: no endpoint is left */
    free(component->self);
    component->self = NULL;
    component->module_count = 0;
}

/* ---- init ---- */

/* Returns what executes atomics on memory that peers reach by that device. Peers have to know: only
 * rails of one kind are joined. */
static btl_ib_atomics_t atomics_of(const btl_ib_module_t *module)
{
    if (!module->device_atomics) {
        return BTL_IB_ATOMICS_PROCESSOR;
    }
    return (module->super.btl_atomic_flags & MCA_BTL_ATOMIC_SUPPORTS_GLOB) != 0
               ? BTL_IB_ATOMICS_GLOBAL
               : BTL_IB_ATOMICS_DEVICE;
}

/* Returns how many bytes ib may use in this process (btl_ib_memory_max); 0: no limit. */
static uint64_t memory_max(const btl_ib_component_t *component)
{
    btl_ib_registration_host_t host = btl_ib_registration_host(btl_ib_ompi_local_processes());
    uint64_t bytes = 0;

    host.lockable = UINT64_MAX;
    (void) btl_ib_registration_limit_parse(component->params.memory_max, &host, &bytes);
    return bytes;
}

/* Logs the libraries that transports loaded, in one process of each host. Called after the search
 * for devices, which loads them. */
static void report_libraries(void)
{
    char text[256];

    if (!btl_ib_is_verbose(1) || opal_process_info.my_local_rank != 0) {
        return;
    }
    for (size_t i = 0; btl_ib_transport_types[i] != NULL; ++i) {
        if (btl_ib_library_text(i, false, text, sizeof(text))) {
            BTL_IB_VERBOSE(1, "%s", text);
        }
    }
}

/* Opens the devices, makes a module of each, and adds them to what we publish. Returns false if
 * there are none, or memory is short. */
static bool make_modules(btl_ib_component_t *component)
{
    const uint32_t processes = component->processes;
    const btl_ib_process_sizes_t sizes = {
        .params = &component->params,
        .limits = &component->limits,
        .fragment = BTL_IB_FRAG_BYTES,
    };
    btl_ib_turned_down_devices_t *turned_down = calloc(1, sizeof(*turned_down));
    uint32_t left_aside = 0;
    const btl_ib_open_request_t request = {
        .params = &component->params,
        .bandwidth = component->limits.btl_bandwidth,
        .named = component->named,
        .rank = component->name.vpid,
        .processes = btl_ib_ompi_universe_size(),
        .peers = 1 < processes ? processes - 1 : 0,
        .sizes = &sizes,
        .memory_max = memory_max(component),
        .engine = component->engine,
        .log = &component->log,
        .turned_down = turned_down,
        .left_aside = &left_aside,
    };
    btl_ib_opened_device_t *opened = calloc(BTL_IB_RAILS_MAX, sizeof(*opened));
    uint32_t count = 0;

    component->opened = opened; /* freed with the engine */
    if (opened == NULL || turned_down == NULL) {
        report_no_memory();
    } else {
        count = btl_ib_open_devices(&request, opened);
        btl_ib_peer_reports_note_left_aside(&component->reports, left_aside);
        btl_ib_turned_down_devices_format(turned_down, component->reports.not_used,
                                          sizeof(component->reports.not_used));
    }
    free(turned_down);
    report_libraries();
    for (uint32_t i = 0; i < count; ++i) {
        btl_ib_module_t *module = btl_ib_module_create(i, opened[i].transport, opened[i].bandwidth);

        if (module == NULL) {
            report_no_memory();
            return false;
        }
        component->modules[component->module_count++] = module;
        btl_ib_stats_add_device(&component->stats, i, &module->cache);
        btl_ib_modex_add_rail(component->self, component->engine, i, &opened[i].device,
                              opened[i].bandwidth, atomics_of(module));
    }
    return count > 0;
}

/* ---- counters and the map ---- */

/* A file that is created now, so that errors show early, and written later. */
typedef struct file {
    const char *what;      /* what it holds, for a help text */
    const char *parameter; /* that names it */
    const char *pattern;   /* value of that parameter */
    const char *suffix;    /* of its name, if the pattern is a directory */
} file_t;

/* Creates such a file. Returns its name, to be freed; NULL: no file is wanted, or it cannot be
 * made, which a help text says. */
static char *create_file(const btl_ib_component_t *component, const file_t *file)
{
    char *name = make_name(component, file->pattern, file->suffix);
    int error;

    if (name == NULL) {
        return NULL;
    }
    error = btl_ib_stats_file_create(name);
    if (error != 0) {
        BTL_IB_SHOW_HELP("cannot write", file->what, file->parameter, component->name.vpid,
                         component->self->host, name, strerror(error));
        free(name);
        return NULL;
    }
    return name;
}

static void begin_connectivity(btl_ib_component_t *component)
{
    const uint64_t wait =
        component->params.connect_timeout != 0 ? (uint64_t) component->params.connect_timeout : 60;
    const file_t file = {
        .what = "connectivity map",
        .parameter = "connectivity_map",
        .pattern = component->params.connectivity_map,
        .suffix = ".map",
    };
    const btl_ib_connectivity_config_t config = {
        .engine = component->engine,
        .lock = &component->lock,
        .self = component->self,
        .name = component->name,
        .processes = component->processes,
        .timeout = wait * 1000000,
        .burst = component->params.poll_burst,
        .file = create_file(component, &file),
    };

    btl_ib_connectivity_init(&component->connectivity, &config);
}

static void begin_stats(btl_ib_component_t *component)
{
    const file_t file = {
        .what = "counters",
        .parameter = "stats_file",
        .pattern = component->params.stats_file,
        .suffix = ".json",
    };
    btl_ib_stats_config_t config = {
        .engine = component->engine,
        .lock = &component->lock,
        .name = btl_ib_name_pack(component->name),
        .host = component->self->host,
        .component = BTL_IB_VERSION,
        .openmpi = opal_version_string,
        .processes = component->processes,
        .now = btl_ib_now(),
        .file = create_file(component, &file),
    };
    uint64_t seconds = 0;

    (void) btl_ib_value_truth_or_seconds(component->params.stats, &config.prints, &seconds);
    config.interval = seconds * 1000000;
    btl_ib_stats_begin(&component->stats, &config);
}

/* Prints the last line of statistics, and writes their file for the last time. */
static void report_last_stats(const btl_ib_component_t *component)
{
    int error;

    btl_ib_stats_last(&component->stats);
    error = btl_ib_stats_file_last(&component->stats, btl_ib_now());
    if (error != 0) {
        btl_ib_show_help("cannot write", "counters", "stats_file", component->name.vpid,
                         component->self->host, component->stats.config.file, strerror(error));
    }
}

/* Records the counters of all connections that are still there, for the file. */
static void record_peers(btl_ib_component_t *component)
{
    for (btl_ib_endpoint_t *each = NULL; (each = btl_ib_endpoint_next(each)) != NULL;) {
        if (each->conn != NULL) {
            btl_ib_stats_end_peer(&component->stats, each->conn, each->host, each->address);
        }
    }
}

/* Reports an interval of statistics that has ended: prints its line, and updates the file for those
 * that read it while the job runs. */
__attribute__((noinline)) static void report_stats_interval(btl_ib_component_t *component,
                                                            uint64_t now)
{
    const uint32_t ended = component->stats.records.peer_count;

    btl_ib_stats_interval(&component->stats, now);
    if (component->stats.config.file != NULL) {
        record_peers(component);
        btl_ib_stats_file_update(&component->stats, now, ended);
    }
}

/* ---- an exit without MPI_Finalize ---- */

/* How often the lock is tried, 1 ms apart, at an exit, and before a process that hangs is ended. */
#define EXIT_TRIES 100
#define HANG_TRIES 500

/*
 * Reports counters and map when the process ends without MPI_Finalize (by MPI_Abort, exit() or an
 * error of ours), which would have reported them. The trace is on disk already. Reports nothing in
 * a child of fork(), nor where the lock cannot be had: in another thread than MPI's, or in a signal
 * handler that interrupted the engine.
 */
static void report_at_exit(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    if (component->engine == NULL || getpid() != component->exit.pid) {
        return;
    }
    for (int i = 0; i < EXIT_TRIES; ++i) {
        if (btl_ib_biased_lock_borrow(&component->lock)) {
            component->exit.pid = 0;
            btl_ib_connectivity_end(&component->connectivity);
            record_peers(component);
            report_last_stats(component);
            btl_ib_biased_lock_release(&component->lock);
            return;
        }
        usleep(1000);
    }
}

/* Ends the thread of exit_timeout, whose code may be about to be unloaded. */
static void stop_exit_timeout(void)
{
    btl_ib_exit_timeout_fini(&mca_btl_ib_component.exit_timeout);
}

/* Arranges that report_at_exit() is called. If that fails such an exit reports nothing. */
static void watch_exit(btl_ib_component_t *component)
{
    component->exit.pid = getpid();
    btl_ib_ompi_abort_watch(report_at_exit);
    if (!component->exit.watched) {
        component->exit.watched = atexit(stop_exit_timeout) == 0 && atexit(report_at_exit) == 0;
    }
}

static void watch_dump_signal(const btl_ib_component_t *component)
{
    const int number = component->params.dump_signal;
    const char *why = number == 0 ? NULL : btl_ib_dump_signal_watch(number);

    if (why != NULL && opal_process_info.my_local_rank == 0) {
        opal_output(0, "btl:ib: btl_ib_dump_signal %d on host %s is not used: %s", number,
                    opal_process_info.nodename, why);
    }
}

/* Reports where this process hangs, which signal `number` is about to end. */
static void report_hang(const char *stage, int number)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const char *does = "nothing is known of what ib waits for: one of its calls has not come back.";

    for (int i = 0; i < HANG_TRIES; ++i) {
        if (btl_ib_biased_lock_borrow(&component->lock)) {
            if (component->engine != NULL) {
                btl_ib_module_dump_busy();
                does = "see above what ib waits for, and which peers.";
            }
            btl_ib_biased_lock_release(&component->lock);
            break;
        }
        usleep(1000);
    }
    btl_ib_show_help("does not end", component->name.vpid, opal_process_info.nodename,
                     (long) getpid(), stage, component->params.exit_timeout, number, does);
}

/* Prepares exit_timeout. If that fails nothing will end a process that hangs at its exit. */
static void init_exit_timeout(btl_ib_component_t *component)
{
    const btl_ib_exit_timeout_config_t config = {
        .timeout = (uint64_t) component->params.exit_timeout * 1000000,
        .debugged = btl_ib_params_by_user(&component->params, "exit_timeout"),
        .tell = report_hang,
    };
    const int rc = btl_ib_exit_timeout_init(&component->exit_timeout, &config);

    component->exit.abort_waits = btl_ib_ompi_abort_waits();
    if (rc != 0) {
        BTL_IB_VERBOSE(1, "no btl_ib_exit_timeout: %s", strerror(rc));
    }
}

/* Creates the engine, its devices and modules, and publishes what peers need. Returns false after a
 * help text said why it failed. */
static bool start_modules(btl_ib_component_t *component)
{
    int rc;

    component->trace = open_trace(component);
    if (!create_engine(component)) {
        return false;
    }
    begin_stats(component);
    begin_connectivity(component);
    if (!make_modules(component)) {
        return false;
    }
    btl_ib_lock(); /* from here on the progress thread runs */
    component->self->answers =
        btl_ib_progress_thread_attach(&component->progress_thread, component->engine);
    btl_ib_unlock();
    rc = btl_ib_modex_publish(component->self);
    if (rc != OPAL_SUCCESS) {
        btl_ib_help_cannot_start(opal_strerror(rc), 0,
                                 "Do: look at what the runtime (PMIx) says, and at its daemons'\n"
                                 "memory: it did not take what other processes have to know.");
    }
    return rc == OPAL_SUCCESS;
}

/* True if MPI_Init ends without a barrier (--mca async_mpi_init 1). */
static bool init_is_async(void)
{
    const int index = mca_base_var_find("ompi", "async", "mpi", "init");
    const bool *set = NULL;

    return index >= 0 && mca_base_var_get_value(index, &set, NULL, NULL) == OPAL_SUCCESS
           && set != NULL && *set;
}

/* Initializes all parts that need no engine. */
static bool init_parts(btl_ib_component_t *component)
{
    const btl_ib_params_t *params = &component->params;
    const bool wanted = strcmp(params->progress, "deliver") == 0;
    /* With async_mpi_init a peer may send while this process still makes its communicators, and ob1
     * takes no lock for that: no thread may deliver then. */
    const bool delivers = wanted && !init_is_async();
    const btl_ib_progress_thread_config_t thread = {
        .enabled = strcmp(params->progress, "polling") != 0,
        .period = (uint64_t) params->progress_thread_ms * 1000,
        .burst = params->poll_burst,
        .deliver = delivers ? thread_turn : NULL,
        .wakeup_gap = 1000000 / (uint64_t) params->progress_wakeups,
        .rank = OPAL_PROC_MY_NAME.vpid,
        .lock = &component->lock,
        .throttle = &component->throttle,
        .yield = &component->poll_yield,
    };
    const btl_ib_registration_host_t host = btl_ib_registration_host(btl_ib_ompi_local_processes());
    /* Many machines have ports without a cable: report them only if the user named a device, or
     * transport verbs. */
    const bool ports_down =
        (params->if_include != NULL && params->if_include[0] != '\0')
        || (params->transport != NULL && strcmp(params->transport, "verbs") == 0);

    if (!btl_ib_biased_lock_init(&component->lock, true)) {
        BTL_IB_VERBOSE(1, "the system refuses membarrier: each call takes a mutex");
    }
    if (delivers) {
        /* From now on a thread calls the PML: all of Open MPI is to take its locks. */
        (void) opal_set_using_threads(true);
        component->limits.btl_flags |= MCA_BTL_FLAGS_BTL_PROGRESS_THREAD_ENABLED;
    } else if (wanted && opal_process_info.my_local_rank == 0) {
        opal_output(0,
                    "btl:ib: btl_ib_progress is serve, not deliver, on host %s: with "
                    "async_mpi_init peers may send before Open MPI can receive in a thread.",
                    opal_process_info.nodename);
    }
    component->name = OPAL_PROC_MY_NAME;
    component->processes = btl_ib_ompi_job_size();
    component->osc_ranks.hosts = btl_ib_ompi_osc_mistakes_ranks() ? btl_ib_ompi_job_hosts() : 0;
    init_exit_timeout(component);
    btl_ib_list_init(&component->gone);
    btl_ib_list_init(&component->callbacks.ready);
    btl_ib_poll_throttle_init(&component->throttle);
    btl_ib_progress_thread_init(&component->progress_thread, &thread);
    btl_ib_log_init(&component->log, &component->progress_thread.in_engine, ports_down);
    btl_ib_registration_limit_init(&component->registered, params->max_pinned, &host,
                                   (uint64_t) params->pin_max_regions);
    component->self = calloc(1, sizeof(*component->self));
    if (component->self == NULL
        || opal_hash_table_init(&component->known, TABLE_AT_FIRST) != OPAL_SUCCESS
        || opal_hash_table_init(&component->hosts, TABLE_AT_FIRST) != OPAL_SUCCESS) {
        report_no_memory();
        return false;
    }
    describe_self(component->self, &component->limits);
    component->self->protection = btl_ib_params_protection(params);
    btl_ib_peer_reports_init(&component->reports, component->name.vpid, params, &component->limits,
                             component->self);
    return true;
}

static mca_btl_base_module_t **component_init(int *count, bool progress_threads, bool mpi_threads)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    mca_btl_base_module_t **modules;

    (void) progress_threads;
    *count = 0;
    component->mpi_threads = mpi_threads;
    component->named = named_by_user();
    if (!component->named && !component->params.use_auto) {
        BTL_IB_VERBOSE(1, "not used: neither named (--mca btl ib,self) nor btl_ib_auto");
        return NULL;
    }
    if (!btl_ib_params_check(&component->params, &component->limits)) {
        return NULL;
    }
    if (btl_ib_is_verbose(1) && opal_process_info.my_local_rank == 0) {
        char transports[160];

        btl_ib_transports_text(transports, sizeof(transports));
        BTL_IB_VERBOSE(1,
                       "version " BTL_IB_VERSION ", built for Open MPI " BTL_IB_BUILT_FOR_VERSION
                       ", running in Open MPI %s, on host %s",
                       opal_version_string, opal_process_info.nodename);
        BTL_IB_VERBOSE(1, "transports built: %s", transports);
    }
    OBJ_CONSTRUCT(&component->known, opal_hash_table_t);
    OBJ_CONSTRUCT(&component->hosts, opal_hash_table_t);
    modules = calloc(BTL_IB_RAILS_MAX, sizeof(*modules));
    if (modules == NULL) {
        report_no_memory();
        return NULL;
    }
    if (!init_parts(component) || !start_modules(component)) {
        goto failed;
    }
    for (uint32_t i = 0; i < component->module_count; ++i) {
        modules[i] = &component->modules[i]->super;
    }
    component->modules_in_use = component->module_count;
    btl_ib_ompi_failures_listen();
    watch_exit(component);
    watch_dump_signal(component);
    *count = (int) component->module_count;
    return modules;

failed:
    btl_ib_progress_thread_stop(&component->progress_thread);
    for (uint32_t i = 0; i < component->module_count; ++i) {
        btl_ib_module_destroy(component->modules[i]);
        component->modules[i] = NULL;
    }
    free_engine(component);
    free(modules);
    return NULL;
}

/* ---- progress ---- */

/* us between two calls of do_rare_work() while turns of the engine find nothing */
#define RARE_WORK_EACH 20

/* Does the work that is seldom there after a turn of the engine: callbacks that were put off,
 * failures, statistics, diagnostics, a dump. */
__attribute__((noinline)) static void do_rare_work(btl_ib_component_t *component, uint64_t now)
{
    component->rare_work_at = now + RARE_WORK_EACH;
    if (!btl_ib_list_empty(&component->callbacks.ready)) {
        btl_ib_frag_complete_ready();
    }
    if (!btl_ib_list_empty(&component->gone) || btl_ib_ompi_failures_any()) {
        btl_ib_failures_look(now);
    }
    if (now >= component->stats.due) {
        report_stats_interval(component, now);
    }
    if (btl_ib_log_pending(&component->log)) {
        btl_ib_endpoint_show_diagnostics(NULL);
    }
    if (btl_ib_report_is_pending(&component->reports)) {
        btl_ib_report_pending(&component->reports);
    }
    if (btl_ib_dump_signal_take()) {
        btl_ib_module_dump_busy();
    }
}

/* Does the work that follows a turn of the engine. Kept short for the many turns that found
 * nothing. */
static inline void finish_turn(btl_ib_component_t *component, uint64_t now, int events)
{
    if (events > 0 || now >= component->rare_work_at) {
        do_rare_work(component, now);
    }
}

/* Returns the processor time of the calling thread, ns. */
static uint64_t thread_cpu(void)
{
    struct timespec time = {0};

    (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t) time.tv_sec * 1000000000u + (uint64_t) time.tv_nsec;
}

/* Fills in the descriptors that become readable when a device receives something. Returns how many
 * there are; 0: some device has none, or none now as it has something to be polled. */
static uint32_t watch_devices(const btl_ib_component_t *component, struct pollfd *devices)
{
    int fd[BTL_IB_RAILS_MAX];
    const uint32_t count = btl_ib_engine_wait_fds(component->engine, fd);

    for (uint32_t i = 0; i < count; ++i) {
        devices[i] = (struct pollfd){.fd = fd[i], .events = POLLIN};
    }
    return count;
}

/* Sleeps until something arrives, at most BTL_IB_POLL_SLEEP_MAX ms, if the application only waits
 * and no timer is due before. Called when nothing arrived for long, with the lock held, which is
 * released meanwhile. */
__attribute__((noinline)) static void wait_idle(btl_ib_component_t *component, uint64_t now)
{
    struct pollfd devices[BTL_IB_RAILS_MAX];
    uint32_t count = 0;

    if (btl_ib_poll_sleep_count(&component->poll_sleep, now, thread_cpu())
        && btl_ib_engine_next_due(component->engine) >= now + BTL_IB_POLL_SLEEP_MAX * 1000) {
        count = watch_devices(component, devices);
    }
    if (count > 0) {
        btl_ib_unlock();
        (void) poll(devices, count, BTL_IB_POLL_SLEEP_MAX);
        btl_ib_lock();
    }
    btl_ib_poll_sleep_end(&component->poll_sleep, thread_cpu());
}

/* Yields the processor, and notes how long another thread used it. Called without the lock. */
static void yield_processor(btl_ib_component_t *component)
{
    const uint64_t begun = btl_ib_now();

    (void) sched_yield();
    btl_ib_poll_yield_took(&component->poll_yield, begun, btl_ib_now());
}

/* Releases the lock after an empty poll, and leaves the processor to another thread, as several
 * communicate: one of these may be about to send, and have no processor of its own. Returns how
 * many events came meanwhile: a device that received something since the poll gives no descriptor,
 * so it is polled again, since nothing would end the sleep. */
__attribute__((noinline)) static int release_and_give_way(btl_ib_component_t *component,
                                                          uint64_t now)
{
    const struct timespec most = {.tv_nsec = BTL_IB_POLL_YIELD_SLEEP};
    /* Nothing that comes by another BTL would end the sleep. */
    const bool sleeps =
        component->throttle.alone && btl_ib_poll_yield_is_crowded(&component->poll_yield, now);
    struct pollfd devices[BTL_IB_RAILS_MAX];
    const uint32_t count = sleeps ? watch_devices(component, devices) : 0;
    int events = 0;

    if (sleeps && count == 0) {
        events = btl_ib_poll_engine(now);
        finish_turn(component, now, events);
    }
    btl_ib_unlock();
    if (!sleeps) {
        yield_processor(component);
    } else if (events == 0) {
        (void) ppoll(devices, count, &most, NULL);
    }
    return events;
}

/* Acquires the lock, which another thread has, if that is the progress thread: it gives the lock
 * back after its present turn, and an application that calls seldom would lose a call. Where
 * threads of the application may have it, leaves the processor to them. Returns whether the caller
 * has the lock. */
__attribute__((noinline)) static bool lock_from_thread(btl_ib_component_t *component)
{
    if (component->mpi_threads) {
        yield_processor(component);
        return false;
    }
    if (component->progress_thread.config.deliver != NULL) {
        return false;
    }
    if (btl_ib_biased_lock_borrowed(&component->lock)) {
        btl_ib_lock();
        return true;
    }
    return btl_ib_biased_lock_try(&component->lock); /* it has given it back meanwhile */
}

/* Polls unless the poll throttle says no. Returns the number of events. Not inlined, so that
 * progress calls that are skipped need no stack. */
__attribute__((noinline)) static int poll_if_due(btl_ib_component_t *component)
{
    const uint64_t now = btl_ib_now();
    bool gives_way = false;
    int events = 0;

    if (!btl_ib_poll_throttle_count(&component->throttle, now)) {
        return 0;
    }
    if (OPAL_UNLIKELY(!btl_ib_biased_lock_try(&component->lock)) && !lock_from_thread(component)) {
        return 0;
    }
    if (OPAL_LIKELY(component->engine != NULL)) {
        events = btl_ib_poll_engine(now);
        finish_turn(component, now, events);
        if (events > 0) {
            btl_ib_poll_sleep_reset(&component->poll_sleep, now);
        } else if (OPAL_UNLIKELY(opal_progress_yield_when_idle && component->throttle.alone
                                 && !component->mpi_threads
                                 && btl_ib_poll_sleep_is_long(&component->poll_sleep, now))) {
            wait_idle(component, now);
        }
        gives_way = events == 0 && btl_ib_biased_lock_shared(&component->lock);
    }
    if (OPAL_UNLIKELY(gives_way)) {
        events = release_and_give_way(component, now);
    } else {
        btl_ib_unlock();
    }
    return events;
}

/* Runs a turn of the engine in the progress thread (btl_ib_progress deliver); not while processes
 * are deleted, as the deleting thread runs all turns then. */
static int thread_turn(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const uint64_t now = btl_ib_now();
    int events = 0;

    if (component->engine != NULL && component->drain.active == 0) {
        events = btl_ib_run_engine(now);
        finish_turn(component, now, events);
    }
    return events;
}

static int component_progress(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    return btl_ib_poll_throttle_skip(&component->throttle) ? 0 : poll_if_due(component);
}

/* ---- the end ---- */

/* Ends everything with the last module: closes connections that nobody adopted, waits until the
 * CLOSEs have left, frees the engine. Called with the lock held. */
static void component_stop(btl_ib_component_t *component)
{
    btl_ib_dump_signal_ignore();
    btl_ib_progress_thread_stop(&component->progress_thread);
    btl_ib_ompi_failures_ignore();
    btl_ib_ompi_abort_ignore();
    btl_ib_connectivity_end(&component->connectivity);
    btl_ib_engine_refuse_new(component->engine, btl_ib_now());
    btl_ib_module_linger();
    btl_ib_endpoint_show_diagnostics(NULL);
    btl_ib_report_pending(&component->reports);
    btl_ib_report_unanswered_rest(&component->reports);
    if (component->exit.pid != 0) {
        report_last_stats(component);
    }
    free_engine(component);
}

static int module_finalize(mca_btl_base_module_t *btl)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_module_t *module = (btl_ib_module_t *) btl;

    btl_ib_exit_stage("closing devices, in MPI_Finalize", 0);
    if (component->progress_thread.config.deliver != NULL) { /* from here on, no callback */
        btl_ib_progress_thread_stop(&component->progress_thread);
    }
    btl_ib_module_close(module);
    btl_ib_lock();
    component->modules[module->rail] = NULL;
    btl_ib_stats_remove_device(&component->stats, module->rail);
    if (--component->modules_in_use == 0) {
        component_stop(component);
    }
    btl_ib_unlock();
    btl_ib_module_destroy(module);
    btl_ib_exit_timeout_end(&component->exit_timeout);
    if (component->modules_in_use == 0) {
        stop_exit_timeout();
    }
    return OPAL_SUCCESS;
}

OPAL_DECLSPEC btl_ib_component_t mca_btl_ib_component = {
    .super =
        {
            .btl_version =
                {
                    MCA_BTL_DEFAULT_VERSION("ib"),
                    .mca_register_component_params = component_register,
                },
            .btl_data = {.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT},
            .btl_init = component_init,
            .btl_progress = component_progress,
        },
    .lock = BTL_IB_BIASED_LOCK_INITIALIZER,
};
