/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The component: register, open, init, progress, close.
 */

#include "btl_ib.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "btl_ib_about.h"
#include "btl_ib_endpoint.h"
#include "btl_ib_modex.h"
#include "btl_ib_open_devices.h"

static int component_register(void);
static int component_open(void);
static int component_close(void);
static mca_btl_base_module_t **component_init(int *count, bool progress_threads, bool mpi_threads);
static int component_progress(void);

OPAL_DECLSPEC btl_ib_component_t mca_btl_ib_component = {
    .super =
        {
            .btl_version =
                {
                    MCA_BTL_DEFAULT_VERSION("ib"),
                    .mca_open_component = component_open,
                    .mca_close_component = component_close,
                    .mca_register_component_params = component_register,
                },
            .btl_data = {.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT},
            .btl_init = component_init,
            .btl_progress = component_progress,
        },
    .gate = BTL_IB_GATE_INITIALIZER,
};

uint64_t btl_ib_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000u + (uint64_t) now.tv_nsec / 1000u;
}

/* Does the selection of BTLs name us ("ib,self")? A list of those that are not wanted does not. */
static bool named_by_user(void)
{
    const char *at = opal_btl_base_framework.framework_selection;

    if (NULL == at || '^' == at[0]) {
        return false;
    }
    while ('\0' != *at) {
        const size_t len = strcspn(at, ",");

        if (2 == len && 0 == strncmp(at, "ib", 2)) {
            return true;
        }
        at += len + (',' == at[len]);
    }
    return false;
}

static int component_register(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    char why[256];

    if (!btl_ib_compat_usable(why, sizeof(why))) {
        /* Not even a help text: nothing of another series is certain to be where we expect it. */
        if (named_by_user()) {
            opal_output(0, "btl:ib: %s: not used; please rebuild it", why);
        }
        return OPAL_ERR_NOT_AVAILABLE;
    }
    (void) mca_base_var_group_component_register(&component->super.btl_version,
                                                 "Reliable messages over any datagram fabric");
    return btl_ib_params_register(&component->params, &component->limits);
}

static int component_open(void)
{
    return OPAL_SUCCESS;
}

static int component_close(void)
{
    return OPAL_SUCCESS;
}

/* ---- init ---- */

/* The longest message that any limit lets through. ob1 sends no more than eager_limit with the question
 * about a longer one, whatever rndv_eager_limit says. */
static uint32_t message_max(const mca_btl_base_module_t *limits)
{
    size_t max = limits->btl_eager_limit;

    if (limits->btl_max_send_size > max) {
        max = limits->btl_max_send_size;
    }
    return (uint32_t) max + BTL_IB_HEADER_ROOM;
}

static void describe_self(btl_ib_modex_t *self, const mca_btl_base_module_t *limits)
{
    self->message_max = message_max(limits);
    self->where = btl_ib_host(BTL_IB_HOST_BOOT_ID, BTL_IB_HOST_NETWORK);
    snprintf(self->host, sizeof(self->host), "%s", opal_process_info.nodename);
    for (char *c = self->host; '\0' != *c; ++c) {
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
    btl_ib_report_cannot_start("the system gives no random numbers (getrandom)", errno,
                               "Is the system call forbidden here (seccomp, a container's\n"
                               "profile)?");
    return false;
}

/* Always false, for the caller to return. */
static bool no_memory(void)
{
    btl_ib_report_cannot_start("there is no memory", ENOMEM,
                               "Is there a limit on it (ulimit -v, memory.max of the cgroup)?");
    return false;
}

/* What our peers shall know us by, and what it takes to make use of theirs. */
static bool make_secrets(btl_ib_component_t *component)
{
    btl_ib_modex_t *self = component->self;
    char cause[128];

    if (!random_bytes(&self->secret, sizeof(self->secret))) {
        return false;
    }
    if (!btl_ib_guard_ops(self->guard)->keyed) {
        return true;
    }
    component->aead = btl_ib_aead_open();
    if (NULL == component->aead) {
        snprintf(cause, sizeof(cause),
                 "libcrypto does not give AES-256-GCM, which btl_ib_auth %s needs",
                 component->params.auth);
        btl_ib_report_cannot_start(cause, 0,
                                   "\"openssl list -cipher-algorithms\" shows what it has; its\n"
                                   "providers are chosen in openssl.cnf. btl_ib_auth none (the\n"
                                   "default) goes without.");
        return false;
    }
    return random_bytes(&self->key, sizeof(self->key));
}

/* What the parameters make of it. */
static void configure(const btl_ib_component_t *component, btl_ib_engine_config_t *config)
{
    const btl_ib_params_t *params = &component->params;

    config->name = btl_ib_name_pack(component->name);
    config->secret = component->self->secret;
    config->guard = component->self->guard;
    config->aead = component->aead;
    config->key = component->self->key;
    config->eager_max = component->self->message_max;
    config->ack_delay = (uint32_t) params->ack_delay;
    config->rto_min = (uint32_t) params->rto_min;
    config->rto_max = (uint32_t) params->rto_max;
    config->rto_initial = (uint32_t) params->rto_initial;
    config->silence_limit = (uint64_t) params->silence_limit * 1000000u;
    config->connect_timeout = (uint64_t) params->connect_timeout * 1000000u;
    config->down_limit = (uint64_t) params->down_limit * 1000000u;
    config->depth_peer = (uint32_t) params->depth_peer;
    config->depth_total = (uint32_t) params->depth_total;
    config->depth_bytes = params->depth_bytes;
    config->window_max = (uint32_t) params->window_max;
    config->passive_max = (uint32_t) params->passive_max;
    config->lookups_max = (uint32_t) params->lookups_max;
    config->idle_after = (uint64_t) params->idle_ms * 1000u;
    config->ops_max = (uint32_t) params->ops_max;
    config->reassembly_max = (uint32_t) params->reassembly_max;
    config->store_max = params->kicker_store;
    config->credit_init = (uint32_t) params->credit_init;
    config->credit_pool = (uint32_t) params->credit_pool;
    (void) btl_ib_cc_parse(params->cc, &config->cc); /* it was checked */
    config->log = btl_ib_logger;
    config->log.detailed = btl_ib_verbose(BTL_IB_LOG_DETAILED);
}

static bool create_engine(btl_ib_component_t *component)
{
    btl_ib_engine_config_t config;
    char problem[128];

    component->self = calloc(1, sizeof(*component->self));
    if (NULL == component->self) {
        return no_memory();
    }
    describe_self(component->self, &component->limits);
    component->self->guard = btl_ib_params_guard(&component->params);
    btl_ib_engine_config_default(&config);
    if (!make_secrets(component)
        || !random_bytes(&config.region_secret, sizeof(config.region_secret))) {
        return false;
    }
    configure(component, &config);
    if (!btl_ib_engine_config_check(&config, problem, sizeof(problem))) {
        btl_ib_report_cannot_start(
            problem, 0,
            "The MCA parameters that it is made of do not fit together: does\n"
            "it start without them?");
        return false;
    }
    component->engine = btl_ib_engine_create(&config, &btl_ib_engine_ops, component);
    return NULL != component->engine || no_memory();
}

static bool start_modules(btl_ib_component_t *component)
{
    int rc;

    if (!create_engine(component) || !btl_ib_open_devices(component)) {
        return false;
    }
    btl_ib_lock(); /* from here on the thread looks at what this notes */
    component->self->answers = btl_ib_kicker_answer();
    btl_ib_unlock();
    rc = btl_ib_modex_publish(component->self);
    if (OPAL_SUCCESS != rc) {
        btl_ib_report_cannot_start(opal_strerror(rc), 0,
                                   "The runtime (PMIx) did not take what other processes have to\n"
                                   "know: look at what it says, and at its daemons' memory.");
    }
    return OPAL_SUCCESS == rc;
}

/* The engine and what belongs to it, as far as there is any. */
static void free_engine(btl_ib_component_t *component)
{
    if (NULL != component->engine) {
        btl_ib_engine_destroy(component->engine);
        component->engine = NULL;
    }
    if (NULL != component->aead) {
        component->aead->ops->close(component->aead);
        component->aead = NULL;
    }
    free(component->self);
    component->self = NULL;
    component->module_count = 0;
}

static void stop_modules(btl_ib_component_t *component)
{
    for (uint32_t i = 0; i < component->module_count; ++i) {
        if (NULL != component->modules[i]) {
            btl_ib_module_destroy(component->modules[i]);
            component->modules[i] = NULL;
        }
    }
    free_engine(component);
}

static void prepare_pace(btl_ib_component_t *component)
{
    const btl_ib_pace_limits_t limits = {
        .busy = (uint32_t) component->params.poll_busy,
        .recent = (uint32_t) component->params.poll_recent,
        .idle = (uint32_t) component->params.poll_idle,
    };

    btl_ib_pace_init(&component->pace, &limits);
}

static mca_btl_base_module_t **component_init(int *count, bool progress_threads, bool mpi_threads)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    mca_btl_base_module_t **modules;

    (void) progress_threads;
    (void) mpi_threads;
    *count = 0;
    component->named = named_by_user();
    if (!component->named && !component->params.use_auto) {
        BTL_IB_VERBOSE(1, "not used: neither named (--mca btl ib,self) nor btl_ib_auto");
        return NULL;
    }
    if (!btl_ib_params_check(&component->params, &component->limits)) {
        return NULL;
    }
    btl_ib_about_versions();
    if (!btl_ib_gate_init(&component->gate, true)) {
        BTL_IB_VERBOSE(1, "the system refuses membarrier: each call takes a mutex");
    }
    btl_ib_kicker_prepare();
    prepare_pace(component);
    btl_ib_list_init(&component->departed);
    component->name = OPAL_PROC_MY_NAME;
    modules = calloc(BTL_IB_RAILS_MAX, sizeof(*modules));
    if (NULL == modules ? !no_memory() : !start_modules(component)) {
        btl_ib_kicker_stop();
        stop_modules(component);
        free(modules);
        return NULL;
    }
    for (uint32_t i = 0; i < component->module_count; ++i) {
        modules[i] = &component->modules[i]->super;
    }
    component->modules_in_use = component->module_count;
    btl_ib_compat_ends_listen();
    *count = (int) component->module_count;
    return modules;
}

/* Not inlined: then progress calls that are skipped need no stack. */
__attribute__((noinline)) static int look(btl_ib_component_t *component)
{
    int events = 0;

    if (!btl_ib_pace_due(&component->pace, btl_ib_now) || !btl_ib_trylock()) {
        return 0;
    }
    if (OPAL_LIKELY(NULL != component->engine)) {
        const uint64_t now = btl_ib_now();

        events = btl_ib_turn(now);
        if (OPAL_UNLIKELY(!btl_ib_list_empty(&component->departed))) {
            btl_ib_endpoint_mourn_departed(now);
        }
        if (OPAL_UNLIKELY(btl_ib_ended_any(&component->ended))) {
            btl_ib_ended_report(now);
        }
        if (OPAL_UNLIKELY(0 != component->late_troubles)) {
            btl_ib_log_late(component);
        }
        if (OPAL_UNLIKELY(component->hole.pending)) {
            btl_ib_report_late();
        }
    }
    btl_ib_unlock();
    return events;
}

static int component_progress(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    return btl_ib_pace_skip(&component->pace) ? 0 : look(component);
}

/* ---- the end ---- */

static uint64_t counter(const btl_ib_counters_t *counters, const btl_ib_counter_info_t *info)
{
    return *(const uint64_t *) (const void *) ((const char *) counters + info->offset);
}

/* The sum of all counters that begin so, and each of them: "12 (stranger 10, token 2)", or "0". */
static void format_causes(const btl_ib_counters_t *counters, const char *prefix, char *out,
                          size_t size)
{
    const size_t skip = strlen(prefix);
    uint64_t sum = 0;
    char causes[512] = "";
    size_t len = 0;

    for (const btl_ib_counter_info_t *info = btl_ib_counter_infos; NULL != info->name; ++info) {
        const uint64_t value = counter(counters, info);

        if (0 == value || 0 != strncmp(info->name, prefix, skip) || len >= sizeof(causes)) {
            continue;
        }
        sum += value;
        len += (size_t) snprintf(causes + len, sizeof(causes) - len, "%s%s %" PRIu64,
                                 len > 0 ? ", " : "", info->name + skip, value);
    }
    if (0 == sum) {
        snprintf(out, size, "0");
    } else {
        snprintf(out, size, "%" PRIu64 " (%s)", sum, causes);
    }
}

static void print_stats(const btl_ib_component_t *component)
{
    const btl_ib_counters_t *c = btl_ib_engine_counters(component->engine);
    char rejected[576];
    char dropped[576];
    char blocked[576];

    format_causes(c, "rejected_", rejected, sizeof(rejected));
    format_causes(c, "dropped_", dropped, sizeof(dropped));
    format_causes(c, "blocked_", blocked, sizeof(blocked));
    fprintf(stderr,
            "btl_ib: rank %u host %s sent %" PRIu64 " segments %" PRIu64 " bytes, received %" PRIu64
            " segments %" PRIu64 " bytes, retransmitted %" PRIu64 " (%" PRIu64
            " spurious), timeouts %" PRIu64 ", failovers %" PRIu64 ", kicks %" PRIu64
            ", puts %" PRIu64 ", gets %" PRIu64 ", atomics %" PRIu64 ", by device: puts %" PRIu64
            " gets %" PRIu64 " atomics %" PRIu64 " returned %" PRIu64 ", not pinned %" PRIu64
            ", served elsewhere %" PRIu64 ", blocked %s, rejected %s, dropped %s\n",
            component->name.vpid, component->self->host, c->sent_segments, c->sent_bytes,
            c->received_segments, c->received_bytes, c->retransmits, c->retransmits_spurious,
            c->timeouts, c->failovers, c->kicks, c->started_puts, c->started_gets,
            c->started_atomics, c->direct_puts, c->direct_gets, c->direct_atomics,
            c->direct_returned, component->not_pinned, c->served_elsewhere, blocked, rejected,
            dropped);
}

void btl_ib_component_stop(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    btl_ib_kicker_stop();
    btl_ib_compat_ends_ignore();
    btl_ib_ended_fini(&component->ended);
    btl_ib_engine_refuse_new(component->engine, btl_ib_now());
    btl_ib_linger();
    btl_ib_report_late();
    btl_ib_report_rest();
    if (component->params.stats) {
        print_stats(component);
    }
    free_engine(component);
}
