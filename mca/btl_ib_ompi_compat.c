/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr */
#endif

#include "btl_ib_ompi_compat.h"

#include <ctype.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t btl_ib_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

uint64_t btl_ib_now(void)
{
    return btl_ib_now_ns() / 1000;
}

/* Returns the number in a version such as "4.1.4", "v4.1.4rc1" or "Open MPI v4.1.4". */
static const char *number_of(const char *version)
{
    while (*version != '\0' && !isdigit((unsigned char) *version)) {
        ++version;
    }
    return version;
}

/* True if `version` belongs to the series we are for. */
static bool is_our_series(const char *version)
{
    const size_t len = strlen(BTL_IB_BUILT_FOR_SERIES);

    version = number_of(version);
    return strncmp(version, BTL_IB_BUILT_FOR_SERIES, len) == 0
           && !isdigit((unsigned char) version[len]);
}

/*
 * True if the classes that we share with libopen-pal have the sizes that the headers say, in
 * particular those with a lock inside, whose headers may be ours (compat/). If not, `why` names the
 * first class that differs. configure checks the same.
 */
static bool compat_layout(char *why, size_t size)
{
    static const struct {
        const opal_class_t *class;
        size_t size;
    } shared[] = {
        {OBJ_CLASS(opal_object_t), sizeof(opal_object_t)},
        {OBJ_CLASS(opal_mutex_t), sizeof(opal_mutex_t)},
        {OBJ_CLASS(opal_list_t), sizeof(opal_list_t)},
        {OBJ_CLASS(opal_list_item_t), sizeof(opal_list_item_t)},
        {OBJ_CLASS(opal_free_list_t), sizeof(opal_free_list_t)},
        {OBJ_CLASS(opal_free_list_item_t), sizeof(opal_free_list_item_t)},
        {OBJ_CLASS(opal_bitmap_t), sizeof(opal_bitmap_t)},
        {OBJ_CLASS(opal_convertor_t), sizeof(opal_convertor_t)},
        {OBJ_CLASS(opal_proc_t), sizeof(opal_proc_t)},
        {OBJ_CLASS(mca_btl_base_descriptor_t), sizeof(mca_btl_base_descriptor_t)},
    };

    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); ++i) {
        if (shared[i].class->cls_sizeof != shared[i].size) {
            snprintf(why, size,
                     "%s has %zu bytes in this Open MPI's libopen-pal, %zu in the headers that it "
                     "was built with",
                     shared[i].class->cls_name, shared[i].class->cls_sizeof, shared[i].size);
            return false;
        }
    }
    return true;
}

typedef struct {
    const char *first;
    const char *second; /* NULL if there is one only */
} opal_libraries_t;

static int find_opal(struct dl_phdr_info *info, size_t size, void *arg)
{
    opal_libraries_t *found = arg;

    (void) size;
    if (strstr(info->dlpi_name, "/libopen-pal.so") != NULL) {
        if (found->first == NULL) {
            found->first = info->dlpi_name;
        } else {
            found->second = info->dlpi_name;
        }
    }
    return 0;
}

bool btl_ib_ompi_check(char *why, size_t size)
{
    opal_libraries_t loaded = {NULL, NULL};

    if (!is_our_series(opal_version_string)) {
        snprintf(why, size, "built for Open MPI " BTL_IB_BUILT_FOR_SERIES ", but this is %s",
                 opal_version_string);
        return false;
    }
    /* With two libraries loaded, the version may be that of the one that nobody but us uses. */
    dl_iterate_phdr(find_opal, &loaded);
    if (loaded.second != NULL) {
        snprintf(why, size,
                 "built for Open MPI " BTL_IB_BUILT_FOR_SERIES
                 ", and this process has two, %s and %s",
                 loaded.first, loaded.second);
        return false;
    }
    return compat_layout(why, size);
}

/* Returns the release within series 4.1: 4 for 4.1.4; -1: another series. */
static int release_of_4_1(void)
{
    int release = -1;

    (void) sscanf(number_of(opal_version_string), "4.1.%d", &release);
    return release;
}

bool btl_ib_ompi_osc_waits_for_itself(void)
{
    return release_of_4_1() >= 1 && release_of_4_1() <= 4;
}

bool btl_ib_ompi_osc_mistakes_ranks(void)
{
    return release_of_4_1() >= 0 && release_of_4_1() <= 4;
}

/* The type to which OPAL_MODEX_SEND_STRING() and OPAL_MODEX_RECV_STRING() convert sizes. */
#if OPAL_MAJOR_VERSION >= 5
typedef size_t modex_size_t;
#else
typedef int32_t modex_size_t;
#endif

/* The key under which processes publish. All releases use the one that OPAL_MODEX_SEND() made of
 * the first release's version: with a version of their own in it they would not find each other. */
static char modex_key[] = "btl.ib.0.2";

int btl_ib_ompi_modex_send(const void *data, size_t size)
{
    int rc;

    /* The macro ends in a semicolon of its own, so it stands alone. */
    OPAL_MODEX_SEND_STRING(rc, BTL_IB_MODEX_SCOPE, modex_key, data, (modex_size_t) size);
    return rc;
}

void *btl_ib_ompi_topology(void)
{
#if HWLOC_SYM_TRANSFORM
    return NULL;
#else
    return opal_hwloc_topology;
#endif
}

#if OPAL_MAJOR_VERSION >= 5
#define JOB_SIZE      PMIX_JOB_SIZE
#define JOB_HOSTS     PMIX_NUM_NODES
#define UNIVERSE_SIZE PMIX_UNIV_SIZE
#define SIZE_TYPE     PMIX_UINT32
#else
#define JOB_SIZE      OPAL_PMIX_JOB_SIZE
#define JOB_HOSTS     OPAL_PMIX_NUM_NODES
#define UNIVERSE_SIZE OPAL_PMIX_UNIV_SIZE
#define SIZE_TYPE     OPAL_UINT32
#endif

/* Returns a number that the runtime has of our job; 0 if it has none. */
static uint32_t runtime_size(const char *key)
{
    opal_process_name_t job = {OPAL_PROC_MY_NAME.jobid, OPAL_VPID_WILDCARD};
    uint32_t size = 0;
    uint32_t *at = &size;
    int rc;

    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, key, &job, &at, SIZE_TYPE);
    return rc == OPAL_SUCCESS ? size : 0;
}

uint32_t btl_ib_ompi_universe_size(void)
{
    return runtime_size(UNIVERSE_SIZE);
}

uint32_t btl_ib_ompi_job_size(void)
{
    return runtime_size(JOB_SIZE);
}

uint32_t btl_ib_ompi_job_hosts(void)
{
    return runtime_size(JOB_HOSTS);
}

uint32_t btl_ib_ompi_local_processes(void)
{
    const uint32_t processes = 1 + (uint32_t) opal_process_info.num_local_peers;

#if OPAL_MAJOR_VERSION >= 5
    /* 5.0 assumes one local peer where the runtime reports none, as for a singleton. */
    if (opal_process_info.num_procs > 0 && opal_process_info.num_procs < processes) {
        return opal_process_info.num_procs;
    }
#endif
    return processes;
}

#if OPAL_MAJOR_VERSION >= 5

/* Receives what a process published, without waiting: the runtime's servers exchange everything at
 * start-up or on demand, and answer at once in both cases. */
static int recv_immediate(const opal_process_name_t *name, void **data, size_t *size)
{
    int rc;

    OPAL_MODEX_RECV_STRING(rc, modex_key, name, data, size);
    return rc;
}

#else

static int recv_immediate(const opal_process_name_t *name, void **data, size_t *size)
{
    opal_byte_object_t *object = NULL;
    int rc;

    OPAL_MODEX_RECV_VALUE_IMMEDIATE(rc, modex_key, name, (void **) &object, OPAL_BYTE_OBJECT);
    if (rc != OPAL_SUCCESS) {
        return rc;
    }
    if (object == NULL) {
        return OPAL_ERR_NOT_FOUND;
    }
    *data = object->bytes;
    *size = (size_t) object->size;
    free(object);
    return OPAL_SUCCESS;
}

#endif

int btl_ib_ompi_modex_recv(const opal_process_name_t *name, bool wait, void **data, size_t *size)
{
    /* If two threads ask PMIx at once, one of them may wait for ever (5.0.7). */
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    int rc;

    *data = NULL;
    *size = 0;
    pthread_mutex_lock(&one_at_a_time);
    if (wait) {
        modex_size_t bytes = 0;

        OPAL_MODEX_RECV_STRING(rc, modex_key, name, data, &bytes);
        *size = (size_t) bytes;
    } else {
        rc = recv_immediate(name, data, size);
    }
    pthread_mutex_unlock(&one_at_a_time);
    if (rc == OPAL_SUCCESS && *data == NULL) {
        rc = OPAL_ERR_NOT_FOUND;
    }
    return rc;
}

/* ---- processes that failed ---- */

#if OPAL_MAJOR_VERSION >= 5

/* A failure that the runtime's thread recorded. */
typedef struct failure {
    struct failure *next;
    pmix_proc_t proc;
    uint64_t name; /* valid in `reported` only */
} failure_t;

/* Failures that btl_ib_ompi_failures_next() has not returned yet. Any thread may push. */
static _Atomic(failure_t *) failures;

/* Failures that it has returned, in case that their processes are added later. Guarded by the
 * component's lock. */
static failure_t *reported;

/* The event handler that we registered with the runtime. */
static struct {
    bool registered;
    size_t reference;
} listener;

static void push_failure(failure_t *failure)
{
    failure->next = atomic_load(&failures);
    while (!atomic_compare_exchange_weak(&failures, &failure->next, failure)) {
        continue;
    }
}

/* Records a failure. Runs in the runtime's thread, which must not wait for us, nor convert the name
 * of the process: Open MPI's list of jobs has no lock, so only progress may. */
static void record_failure(const pmix_proc_t *proc)
{
    failure_t *failure = malloc(sizeof(*failure));

    if (failure == NULL) {
        return; /* the silence limit will find the failure */
    }
    failure->proc = *proc;
    push_failure(failure);
}

/* Records which processes failed. Reports NO_ACTION_TAKEN, so that further handlers are called:
 * Open MPI's own, which comes after ours, ends the chain. */
static void on_event(size_t reference, pmix_status_t status, const pmix_proc_t *source,
                     pmix_info_t info[], size_t ninfo, pmix_info_t *results, size_t nresults,
                     pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
    (void) reference;
    (void) status;
    (void) source;
    (void) results;
    (void) nresults;
    for (size_t i = 0; i < ninfo; ++i) {
        /* The event also names the group that is notified, by a process whose rank is a
         * wildcard. */
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) && info[i].value.type == PMIX_PROC
            && info[i].value.data.proc != NULL
            && PMIX_RANK_IS_VALID(info[i].value.data.proc->rank)) {
            record_failure(info[i].value.data.proc);
        }
    }
    if (cbfunc != NULL) {
        cbfunc(PMIX_EVENT_NO_ACTION_TAKEN, NULL, 0, NULL, NULL, cbdata);
    }
}

static void on_registered(pmix_status_t status, size_t reference, void *cbdata)
{
    opal_pmix_lock_t *lock = cbdata;

    listener.registered = status == PMIX_SUCCESS;
    listener.reference = reference;
    OPAL_PMIX_WAKEUP_THREAD(lock);
}

void btl_ib_ompi_failures_listen(void)
{
    /* What mpirun sends when a process ended by a signal, by an exit without MPI_Finalize, by
     * mpirun or by MPI_Abort; the last one may come to stand for all of them. */
    pmix_status_t codes[] = {PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_TERM_WO_SYNC,
                             PMIX_ERR_PROC_KILLED_BY_CMD, PMIX_ERR_PROC_REQUESTED_ABORT,
                             PMIX_ERR_PROC_ABORTED};
    pmix_info_t info[2];
    opal_pmix_lock_t lock;

    if (listener.registered || !PMIx_Initialized()) {
        return;
    }
    /* Go before Open MPI's handler, which calls no later one. */
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_HDLR_PREPEND, NULL, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_EVENT_HDLR_NAME, "btl ib", PMIX_STRING);
    OPAL_PMIX_CONSTRUCT_LOCK(&lock);
    /* Without a callback PMIx 5.0 would change its lists in this thread. */
    if (PMIx_Register_event_handler(codes, sizeof(codes) / sizeof(codes[0]), info, 2, on_event,
                                    on_registered, &lock)
        == PMIX_SUCCESS) {
        OPAL_PMIX_WAIT_THREAD(&lock);
    }
    OPAL_PMIX_DESTRUCT_LOCK(&lock);
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
}

static void free_failures(failure_t *failure)
{
    while (failure != NULL) {
        failure_t *next = failure->next;

        free(failure);
        failure = next;
    }
}

void btl_ib_ompi_failures_ignore(void)
{
    /* Open MPI usually ends PMIx, and with it the thread of on_event(), before it finalizes BTLs.
     * If a BTL is closed earlier, this waits for that thread. */
    if (listener.registered && PMIx_Initialized()) {
        (void) PMIx_Deregister_event_handler(listener.reference, NULL, NULL);
    }
    listener.registered = false;
    free_failures(atomic_exchange(&failures, NULL));
    free_failures(reported);
    reported = NULL;
}

bool btl_ib_ompi_failures_any(void)
{
    return atomic_load_explicit(&failures, memory_order_relaxed) != NULL;
}

bool btl_ib_ompi_failures_next(opal_jobid_t jobid, uint64_t *name)
{
    failure_t *failure;

    while ((failure = atomic_load(&failures)) != NULL) {
        opal_process_name_t proc;
        int rc;

        /* Only this thread takes failures off, so the first one cannot be freed meanwhile. */
        while (!atomic_compare_exchange_weak(&failures, &failure, failure->next)) {
            continue;
        }
        OPAL_PMIX_CONVERT_PROCT(rc, &proc, &failure->proc);
        /* 6.0 also reports processes of connected jobs, even if they ended well: drop those. */
        if (rc == OPAL_SUCCESS && proc.jobid == jobid) {
            *name = failure->name = btl_ib_name_pack(proc);
            failure->next = reported;
            reported = failure;
            return true;
        }
        free(failure);
    }
    return false;
}

void btl_ib_ompi_failures_added(uint64_t name)
{
    failure_t **at = &reported;

    while (*at != NULL && (*at)->name != name) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        failure_t *failure = *at;

        *at = failure->next;
        push_failure(failure);
    }
}

#else

void btl_ib_ompi_failures_listen(void)
{
}

void btl_ib_ompi_failures_ignore(void)
{
}

bool btl_ib_ompi_failures_any(void)
{
    return false;
}

bool btl_ib_ompi_failures_next(opal_jobid_t jobid, uint64_t *name)
{
    (void) jobid;
    (void) name;
    return false;
}

void btl_ib_ompi_failures_added(uint64_t name)
{
    (void) name;
}

#endif

/* Returns where Open MPI keeps the value of its own parameter, which is of a type that the caller
 * knows; NULL: there is no such parameter. */
static const void *value_of(const char *project, const char *framework, const char *name)
{
    const int index = mca_base_var_find(project, framework, NULL, name);
    const void *value = NULL;

    return index >= 0 && mca_base_var_get_value(index, &value, NULL, NULL) == OPAL_SUCCESS ? value
                                                                                           : NULL;
}

/* ---- processors that are shared ---- */

bool btl_ib_ompi_yields_when_idle(void)
{
    const bool *yields = value_of("ompi", "mpi", "yield_when_idle");

    return yields != NULL && *yields;
}

/* ---- an abort ---- */

bool btl_ib_ompi_abort_waits(void)
{
    const int *seconds = value_of("opal", "opal", "abort_delay");

    return seconds != NULL && *seconds != 0;
}

#if OPAL_MAJOR_VERSION >= 5

void btl_ib_ompi_abort_watch(btl_ib_ompi_abort_fn_t report)
{
    (void) report;
}

void btl_ib_ompi_abort_ignore(void)
{
}

#else

static struct {
    btl_ib_ompi_abort_fn_t report;
    opal_pmix_base_module_abort_fn_t abort; /* Open MPI's own; NULL: not watched */
} watched;

static int report_and_abort(int status, const char *message, opal_list_t *procs)
{
    watched.report();
    return watched.abort(status, message, procs);
}

void btl_ib_ompi_abort_watch(btl_ib_ompi_abort_fn_t report)
{
    if (watched.abort == NULL && opal_pmix.abort != NULL) {
        watched.report = report;
        watched.abort = opal_pmix.abort;
        opal_pmix.abort = report_and_abort;
    }
}

void btl_ib_ompi_abort_ignore(void)
{
    if (watched.abort != NULL && report_and_abort == opal_pmix.abort) {
        opal_pmix.abort = watched.abort;
        watched.abort = NULL;
    }
}

#endif

/* ---- parameters ---- */

/* Finds the text of a parameter in the environment, where mpirun puts its --mca options. */
static const char *text_in_environment(const char *name, char *where, size_t size)
{
    const char *text = NULL;
    char *variable = NULL;

    if (mca_base_var_env_name(name, &variable) == OPAL_SUCCESS) {
        text = getenv(variable);
        snprintf(where, size, "the environment or by --mca (%s)", variable);
        free(variable);
    }
    return text;
}

const char *btl_ib_ompi_param_text(const mca_base_component_t *component, const char *name,
                                   char *where, size_t size)
{
    const int index = mca_base_var_find(component->mca_project_name, component->mca_type_name,
                                        component->mca_component_name, name);
    const mca_base_var_t *var = NULL;
    const mca_base_var_file_value_t *line;
    const char *text;

    snprintf(where, size, "(nowhere)");
    if (index < 0 || mca_base_var_get(index, &var) != OPAL_SUCCESS
        || var->mbv_source == MCA_BASE_VAR_SOURCE_DEFAULT) {
        return NULL;
    }
    line = var->mbv_file_value;
    /* If mpirun has read the file, the text and the file's name are in the environment. */
    if ((var->mbv_source == MCA_BASE_VAR_SOURCE_FILE
         || var->mbv_source == MCA_BASE_VAR_SOURCE_OVERRIDE)
        && line != NULL && var->mbv_source_file == NULL) {
        snprintf(where, size, "%s", line->mbvfv_file);
        return line->mbvfv_value != NULL ? line->mbvfv_value : "";
    }
    text = text_in_environment(var->mbv_long_name, where, size);
    if (text == NULL) {
        text = text_in_environment(var->mbv_full_name, where, size);
    }
    if (text != NULL && var->mbv_source_file != NULL) {
        snprintf(where, size, "%s", var->mbv_source_file);
    }
    return text;
}

/* Returns the value of a word of an enumeration; 0 for any other text. */
static int value_from_text(mca_base_var_enum_t *self, const char *text, int *value)
{
    *value = 0;
    for (int i = 0; i < self->enum_value_count; ++i) {
        if (strcmp(self->enum_values[i].string, text) == 0) {
            *value = self->enum_values[i].value;
        }
    }
    return OPAL_SUCCESS;
}

static int time_to_text(mca_base_var_enum_t *self, const int value, char **text)
{
    char number[16];

    (void) self;
    if (text == NULL) {
        return OPAL_SUCCESS;
    }
    snprintf(number, sizeof(number), "%d", value);
    *text = strdup(number);
    return *text != NULL ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
}

static int time_dump(mca_base_var_enum_t *self, char **text
#if OPAL_MAJOR_VERSION >= 5
                     ,
                     mca_base_var_enum_dump_type_t type
#endif
)
{
#if OPAL_MAJOR_VERSION >= 5
    (void) type;
#endif
    (void) self;
    *text = strdup("a whole number, also with us, ms, s or min after it");
    return *text != NULL ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
}

mca_base_var_enum_t *btl_ib_ompi_time_enum(void)
{
    static const mca_base_var_enum_value_t none[] = {{0, NULL}};
    mca_base_var_enum_t *time = NULL;

    if (mca_base_var_enum_create("time", none, &time) == OPAL_SUCCESS) {
        time->value_from_string = value_from_text;
        time->string_from_value = time_to_text;
        time->dump = time_dump;
    }
    return time;
}

mca_base_var_enum_t *btl_ib_ompi_choice_enum(const char *name, const char *const *words)
{
    mca_base_var_enum_value_t values[32] = {{0, NULL}};
    mca_base_var_enum_t *choice = NULL;

    for (int i = 0; i < 31 && words[i] != NULL; ++i) {
        values[i] = (mca_base_var_enum_value_t){i, words[i]};
    }
    if (mca_base_var_enum_create(name, values, &choice) == OPAL_SUCCESS) {
        choice->value_from_string = value_from_text;
    }
    return choice;
}
