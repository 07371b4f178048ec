/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A module, which is a device: what it offers, and the processes that it reaches. */

#include "btl_ib.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "btl_ib_endpoint.h"
#include "btl_ib_frag.h"
#include "btl_ib_modex.h"
#include "btl_ib_osc.h"
#include "btl_ib_params.h"
#include "btl_ib_registration_limit.h"

/* us between two polls while a drain waits for the network */
#define DRAIN_PAUSE 50
/* Where a device registers regions in pieces, one operation may have a PIECE_SHARE'th of a piece,
 * and at least OPERATION_LEAST bytes. */
#define PIECE_SHARE     64
#define OPERATION_LEAST (64 * 1024)

/* ---- drains ---- */

/* Begins a drain. Returns when it has to end, us. Drains that follow each other closely are one
 * shutdown, and share one bound: bml r2 deletes processes one by one. */
static uint64_t drain_begin(void)
{
    btl_ib_drain_t *drain = &mca_btl_ib_component.drain;
    const uint64_t now = btl_ib_now();
    const uint64_t most = (uint64_t) mca_btl_ib_component.params.drain_ms * 1000;

    ++drain->active;
    btl_ib_exit_stage("taking leave of other processes, as long as btl_ib_drain_ms says", most);
    if (now - drain->ended > BTL_IB_DRAIN_GAP) {
        drain->started = now;
    }
    return drain->started + most;
}

static void drain_end(void)
{
    btl_ib_exit_timeout_end(&mca_btl_ib_component.exit_timeout);
    --mca_btl_ib_component.drain.active;
    mca_btl_ib_component.drain.ended = btl_ib_now();
}

/* Polls once during a drain, and sleeps for a moment if nothing came. Returns false, without a
 * poll, if the time is over. Called with the lock held, which is released meanwhile. */
static bool drain_poll(uint64_t deadline)
{
    const uint64_t now = btl_ib_now();
    int events;

    if (now >= deadline) {
        return false;
    }
    (void) btl_ib_poll_throttle_count(&mca_btl_ib_component.throttle, now);
    events = btl_ib_poll_engine(now);
    btl_ib_frag_complete_ready();
    if (events == 0) {
        btl_ib_unlock();
        usleep(DRAIN_PAUSE);
        btl_ib_lock();
    }
    return true;
}

void btl_ib_module_linger(void)
{
    const uint64_t deadline = drain_begin();

    while (btl_ib_engine_lingering(mca_btl_ib_component.engine) && drain_poll(deadline)) {
        continue;
    }
    drain_end();
}

/* ---- adding processes ---- */

/* True if opal_progress() polls another BTL besides ib. */
static bool others_poll(void)
{
    mca_btl_base_selected_module_t *each;

    OPAL_LIST_FOREACH(each, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        if (&mca_btl_ib_component.super != each->btl_component
            && each->btl_component->btl_progress != NULL) {
            return true;
        }
    }
    return false;
}

/* True if a BTL for shared memory is selected, and preferred to ib within a host. */
static bool shared_memory_selected(const btl_ib_module_t *module)
{
    mca_btl_base_selected_module_t *each;

    OPAL_LIST_FOREACH(each, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        if (strcmp(each->btl_component->btl_version.mca_component_name, BTL_IB_SHARED_MEMORY) == 0
            && each->btl_module->btl_exclusivity >= module->super.btl_exclusivity) {
            return true;
        }
    }
    return false;
}

/* Logs once that ib carries messages within this host. A user with several processes on a host
 * wants shared memory there, and may not know that its BTL has to be named. */
static void log_local(const btl_ib_module_t *module, const struct opal_proc_t *proc)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    if (component->local.reported || !OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags)
        || shared_memory_selected(module)) {
        return;
    }
    component->local.reported = true;
    BTL_IB_VERBOSE(1,
                   "messages to processes of this host (as %s) go by ib, as no BTL for shared "
                   "memory is selected: --mca btl ib," BTL_IB_SHARED_MEMORY ",self is faster there",
                   opal_process_name_print(proc->proc_name));
}

/*
 * True if ib is to offer atomics: then osc/rdma takes ib for windows between hosts. Open MPI 4.1
 * has osc/pt2pt as well, which does all that works over tcp, and whose accumulates are faster
 * (docs/guide/tuning.md). So ib leaves windows to osc/pt2pt where that may be used, unless the user
 * asks for osc/rdma over ib. osc/pt2pt refuses MPI_THREAD_MULTIPLE, and a progress thread that
 * delivers does not serve its windows.
 */
static bool offers_atomics(const btl_ib_component_t *component)
{
    return component->mpi_threads || component->progress_thread.config.deliver != NULL
           || !btl_ib_osc_has_pt2pt() || btl_ib_osc_takes_us_unasked()
           || btl_ib_params_by_user(&component->params, "flags");
}

/* Withdraws the flags of atomics if they are not to be offered. Called at the first add_procs: the
 * osc components are loaded by then, and have not read the flags yet. */
static void choose_osc(btl_ib_component_t *component)
{
    component->osc.chosen = true;
    if (offers_atomics(component)) {
        return;
    }
    for (uint32_t i = 0; i < component->module_count; ++i) {
        if (component->modules[i] != NULL) {
            component->modules[i]->super.btl_flags &=
                ~(uint32_t) (MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS);
        }
    }
    BTL_IB_VERBOSE(1, "windows between hosts go by osc/pt2pt: --mca osc rdma,sm is for windows by "
                      "ib's put, get and atomics");
}

/* Drains and closes the endpoint of a process that is added again while del_procs deletes it: in
 * another thread, or in a call up the stack, which released the lock during its drain. */
static void end_leaving(btl_ib_endpoint_t *leaving)
{
    const uint64_t deadline = drain_begin();

    OBJ_RETAIN(leaving); /* del_procs may release it during our drain */
    while (!leaving->closed && !btl_ib_conn_drained(leaving->conn) && drain_poll(deadline)) {
        continue;
    }
    btl_ib_endpoint_close(leaving);
    OBJ_RELEASE(leaving);
    drain_end();
}

/* Returns an endpoint for another process; NULL if the module cannot reach it. */
static btl_ib_endpoint_t *add_peer(btl_ib_module_t *module, struct opal_proc_t *proc)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_endpoint_t *endpoint, *leaving;
    btl_ib_modex_t *peer;

    btl_ib_lock();
    peer = btl_ib_modex_recall(&component->known, btl_ib_name_pack(proc->proc_name));
    btl_ib_unlock();
    if (peer == NULL) { /* may wait for the runtime, so without the lock */
        peer = btl_ib_modex_get(&proc->proc_name, true);
    }
    if (peer == NULL) {
        return NULL;
    }
    btl_ib_lock();
    while ((endpoint = btl_ib_endpoint_add(module, proc, peer, &leaving)) == NULL
           && leaving != NULL) {
        end_leaving(leaving);
    }
    if (endpoint != NULL) {
        log_local(module, proc);
    }
    btl_ib_unlock();
    free(peer);
    return endpoint;
}

static int module_add_procs(mca_btl_base_module_t *btl, size_t nprocs, struct opal_proc_t **procs,
                            struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    btl_ib_module_t *module = (btl_ib_module_t *) btl;

    if (!mca_btl_ib_component.osc.chosen) {
        choose_osc(&mca_btl_ib_component);
    }
    btl_ib_lock();
    btl_ib_poll_throttle_set_alone(&mca_btl_ib_component.throttle, !others_poll());
    btl_ib_progress_thread_procs_added(&mca_btl_ib_component.progress_thread);
    btl_ib_unlock();
    if (btl_ib_connectivity_due(&mca_btl_ib_component.connectivity)) {
        btl_ib_connectivity_run(&mca_btl_ib_component.connectivity);
    }
    for (size_t i = 0; i < nprocs; ++i) {
        if (procs[i] == opal_proc_local_get()) {
            btl_ib_lock();
            endpoints[i] = btl_ib_endpoint_self(module, procs[i]);
            btl_ib_unlock();
        } else {
            endpoints[i] = add_peer(module, procs[i]);
        }
        if (endpoints[i] != NULL && reachable != NULL) {
            opal_bitmap_set_bit(reachable, (int) i);
        }
    }
    return OPAL_SUCCESS;
}

/* ---- deleting processes ---- */

/* True if the endpoint has a connection that is to be drained. It has none if it is that of the own
 * process, or if end_leaving() closed it. */
static bool has_conn(const btl_ib_endpoint_t *endpoint)
{
    return endpoint != NULL && endpoint->conn != NULL && !endpoint->closed;
}

static bool all_drained(struct mca_btl_base_endpoint_t *const *endpoints, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (has_conn(endpoints[i]) && !btl_ib_conn_drained(endpoints[i]->conn)) {
            return false;
        }
    }
    return true;
}

/* Destroys an endpoint and its connection, without its callbacks. Those of other endpoints that
 * were put off are called before, as they may refer to this one. */
static void remove_endpoint(btl_ib_endpoint_t *endpoint)
{
    btl_ib_endpoint_close(endpoint);
    btl_ib_frag_complete_ready();
    btl_ib_frag_fail_all(endpoint, true);
    btl_ib_rdma_fail_all(endpoint, true);
    btl_ib_rdma_abandon(endpoint);
    btl_ib_endpoint_remove(endpoint);
}

static int module_del_procs(mca_btl_base_module_t *btl, size_t nprocs, struct opal_proc_t **procs,
                            struct mca_btl_base_endpoint_t **endpoints)
{
    uint64_t deadline;

    (void) btl;
    (void) procs;
    btl_ib_lock();
    deadline = drain_begin();
    for (size_t i = 0; i < nprocs; ++i) {
        if (endpoints[i] != NULL) {
            endpoints[i]->closing = true;
        }
        if (has_conn(endpoints[i])) {
            btl_ib_conn_drain(endpoints[i]->conn);
        }
    }
    while (!all_drained(endpoints, nprocs) && drain_poll(deadline)) {
        continue;
    }
    for (size_t i = 0; i < nprocs; ++i) {
        if (endpoints[i] != NULL) {
            remove_endpoint(endpoints[i]);
        }
    }
    drain_end();
    if (btl_ib_endpoint_next(NULL) == NULL) {
        btl_ib_module_linger();
    }
    btl_ib_unlock();
    return OPAL_SUCCESS;
}

/* ---- what Open MPI asks of a module ---- */

static void dump_endpoint(const btl_ib_endpoint_t *endpoint)
{
    char line[320] = "this process itself";

    if (endpoint->conn != NULL) {
        btl_ib_conn_format(endpoint->conn, btl_ib_now(), line, sizeof(line));
    }
    opal_output(0, "btl:ib: %s by rail %u (%s): %s",
                opal_process_name_print(endpoint->proc->proc_name), endpoint->module->rail,
                endpoint->module->name, line);
}

static int module_register_error(mca_btl_base_module_t *btl,
                                 mca_btl_base_module_error_cb_fn_t callback)
{
    ((btl_ib_module_t *) btl)->error_cb = callback;
    return OPAL_SUCCESS;
}

static void module_dump(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                        int verbose)
{
    btl_ib_module_t *module = (btl_ib_module_t *) btl;
    btl_ib_endpoint_t *each;

    (void) verbose;
    btl_ib_lock();
    if (endpoint != NULL) {
        dump_endpoint(endpoint);
    } else {
        OPAL_LIST_FOREACH(each, &module->endpoints.all, btl_ib_endpoint_t)
        {
            dump_endpoint(each);
        }
    }
    btl_ib_unlock();
}

/* A dump shows at most this many connections. */
enum { DUMP_MAX = 64 };

void btl_ib_module_dump_busy(void)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;
    uint32_t busy = 0, idle = 0;

    for (btl_ib_endpoint_t *each = NULL; (each = btl_ib_endpoint_next(each)) != NULL;) {
        const bool is_busy = each->conn != NULL && btl_ib_conn_is_busy(each->conn);

        busy += is_busy;
        idle += !is_busy;
        if (is_busy && busy <= DUMP_MAX) {
            dump_endpoint(each);
        }
    }
    opal_output(0,
                "btl:ib: rank %u on host %s (pid %ld): %u connections have something to do, of "
                "which at most %u are shown, %u have nothing",
                component->name.vpid, opal_process_info.nodename, (long) getpid(), busy,
                (uint32_t) DUMP_MAX, idle);
}

#ifdef BTL_IB_HAVE_FT_EVENT
static int module_ft_event(int state)
{
    (void) state;
    return OPAL_SUCCESS;
}
#endif

void btl_ib_module_functions(mca_btl_base_module_t *module)
{
    module->btl_component = &mca_btl_ib_component.super;
    module->btl_add_procs = module_add_procs;
    module->btl_del_procs = module_del_procs;
    module->btl_dump = module_dump;
    module->btl_register_error = module_register_error;
#ifdef BTL_IB_HAVE_FT_EVENT
    module->btl_ft_event = module_ft_event;
#endif
    btl_ib_send_functions(module);
    btl_ib_register_functions(module);
    btl_ib_rdma_functions(module);
}

/* ---- creation ---- */

/* True if the device is to execute atomics: if btl_ib_atomics says so, or by default if they are
 * atomic towards processors, too. */
static bool device_atomics(const btl_ib_params_t *params, const btl_ib_transport_attr_t *attr)
{
    if (!attr->rdma || attr->rdma_atomics == BTL_IB_RDMA_ATOMICS_NONE
        || strcmp(params->atomics, "host") == 0) {
        return false;
    }
    return strcmp(params->atomics, "device") == 0
           || attr->rdma_atomics == BTL_IB_RDMA_ATOMICS_GLOBAL;
}

static size_t least(size_t a, uint64_t b)
{
    return a < b ? a : (size_t) b;
}

/* Returns the bytes of the largest operation for the device. Where it registers large regions in
 * pieces (btl_ib_registration_cache.h), operations are so small that few of them cross from one
 * piece to the next. */
static uint64_t operation_max(const btl_ib_transport_attr_t *attr, uint64_t piece_max)
{
    const uint64_t share = piece_max / PIECE_SHARE;

    if (piece_max == 0 || share > attr->rdma_max) {
        return attr->rdma_max;
    }
    return share > OPERATION_LEAST ? share : OPERATION_LEAST;
}

/* Finds out how much the device can register, and lowers the limit to that. One process of a host
 * probes for all, by a file. */
static void probe_limit(const btl_ib_module_t *module, btl_ib_transport_t *transport)
{
    btl_ib_registration_limit_t *limit = &mca_btl_ib_component.registered;
    const uint64_t wanted = btl_ib_registration_limit_wanted(limit);
    const char *directory = opal_process_info.job_session_dir;
    char *path = NULL;
    uint64_t found;

    if (directory != NULL && asprintf(&path, "%s/btl_ib_pinned.%u", directory, module->rail) < 0) {
        path = NULL; /* then each process finds out for itself */
    }
    found = btl_ib_pin_probe_once(transport, wanted, path);
    free(path);
    btl_ib_registration_limit_found(limit, found);
    BTL_IB_VERBOSE(
        1, "rail %u (%s): the device registers %" PRIu64 " of %" PRIu64 " bytes (btl_ib_pin_probe)",
        module->rail, module->name, found, wanted);
}

/* Lets the device access memory by itself, if it can, and sets the limits, thresholds and flags of
 * the module that follow from that. */
static void use_memory(btl_ib_module_t *module, btl_ib_transport_t *transport)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const btl_ib_params_t *params = &component->params;
    const btl_ib_transport_attr_t *attr = &transport->attr;
    mca_btl_base_module_t *super = &module->super;

    if (!attr->rdma) {
        return;
    }
    if (btl_ib_params_protection(params) != BTL_IB_PROTECTION_NONE) {
        BTL_IB_VERBOSE(1,
                       "rail %u (%s): processors move memory: what the device moves is not "
                       "protected as btl_ib_protection demands",
                       module->rail, module->name);
        return;
    }
    if (btl_ib_registration_cache_init(&module->cache, module->rail, transport, &component->lock,
                                       &component->registered, params->pin_max_region,
                                       params->registration_cache)
        != OPAL_SUCCESS) {
        BTL_IB_VERBOSE(
            1, "rail %u (%s): no registration cache (rcache grdma), so processors move memory",
            module->rail, module->name);
    }
    if (module->cache.rcache == NULL) {
        return;
    }
    if (params->pin_probe) {
        probe_limit(module, transport);
    }
    super->btl_get_limit =
        least(super->btl_get_limit, operation_max(attr, module->cache.piece_max));
    super->btl_put_limit =
        least(super->btl_put_limit, operation_max(attr, module->cache.piece_max));
    super->btl_get_local_registration_threshold =
        least(params->get_bounce_cutover, attr->rdma_copied);
    super->btl_put_local_registration_threshold =
        least(params->put_bounce_cutover, attr->rdma_copied);
    module->device_atomics = device_atomics(params, attr);
    if (module->device_atomics) {
        super->btl_atomic_flags = BTL_IB_ATOMIC_FLAGS_DEVICE;
        if (attr->rdma_atomics == BTL_IB_RDMA_ATOMICS_GLOBAL) {
            super->btl_atomic_flags |= MCA_BTL_ATOMIC_SUPPORTS_GLOB;
        }
    }
    BTL_IB_VERBOSE(1,
                   "rail %u (%s): the device moves registered memory by itself, of %" PRIu64
                   " bytes at most, and copies puts up to %zu and gets up to %zu bytes; words are "
                   "changed by %s",
                   module->rail, module->name, component->registered.max,
                   super->btl_put_local_registration_threshold,
                   super->btl_get_local_registration_threshold,
                   module->device_atomics ? "devices" : "processors");
}

btl_ib_module_t *btl_ib_module_create(uint32_t rail, btl_ib_transport_t *transport,
                                      uint32_t bandwidth)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_module_t *module = calloc(1, sizeof(*module));
    int rc;
    int rc_rdma;
    int rc_register;

    if (module == NULL) {
        return NULL;
    }
    module->super = component->limits;
    /* Set here and not in btl_ib_flags, as Open MPI has no name to print this flag by. */
    module->super.btl_flags |= BTL_IB_FLAGS_REMOTE_COMPLETION;
    module->super.btl_bandwidth = bandwidth;
    module->rail = rail;
    snprintf(module->name, sizeof(module->name), "%s", transport->name);
    OBJ_CONSTRUCT(&module->endpoints.all, opal_list_t);
    use_memory(module, transport);
    module->super.btl_eager_limit = btl_ib_params_eager_limit(
        &component->params, &component->limits, &transport->attr, module->cache.rcache != NULL);
    rc = btl_ib_frag_lists_init(module);
    rc_rdma = btl_ib_rdma_init(module);
    rc_register = btl_ib_register_init(module);
    if (rc != OPAL_SUCCESS || rc_rdma != OPAL_SUCCESS || rc_register != OPAL_SUCCESS) {
        btl_ib_module_destroy(module);
        return NULL;
    }
    return module;
}

void btl_ib_module_close(btl_ib_module_t *module)
{
    btl_ib_endpoint_t *endpoint;
    btl_ib_endpoint_t *next;

    btl_ib_lock();
    OPAL_LIST_FOREACH_SAFE(endpoint, next, &module->endpoints.all, btl_ib_endpoint_t)
    {
        remove_endpoint(endpoint);
    }
    btl_ib_unlock();
    btl_ib_registration_cache_fini(&module->cache);
}

void btl_ib_module_destroy(btl_ib_module_t *module)
{
    btl_ib_registration_cache_fini(&module->cache); /* does nothing if the module was closed */
    OBJ_DESTRUCT(&module->frags.header.items);
    OBJ_DESTRUCT(&module->frags.eager.items);
    OBJ_DESTRUCT(&module->frags.max.items);
    OBJ_DESTRUCT(&module->memory);
    OBJ_DESTRUCT(&module->rdma.ops);
    OBJ_DESTRUCT(&module->endpoints.all);
    free(module);
}
