/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The component and its modules: what Open MPI sees of btl ib. The component owns one engine. A
 * module is one rail of that engine, which is one device. A comment beside each part of the two
 * structures names the file that changes it.
 *
 * Threads. One lock guards the engine and everything here, against the application's threads and
 * the progress thread. Every BTL function and progress take it at their entry, and release it
 * around every call up (receive callbacks, completions, the error callback), for two reasons:
 *  - bml r2 holds mca_bml_lock while it calls add_procs, which takes our lock; and a receive
 *    callback takes mca_bml_lock if it answers a process that was not added yet
 *    (mca_bml_base_get_endpoint). If we held our lock across the callback, the two locks would be
 *    taken in both orders: a deadlock. coll/adapt does the same with the mutex of a request. (ob1
 *    itself calls us with none of its locks held.)
 *  - Another thread can receive while one thread is in a callback that takes long.
 * The progress thread makes no call up, so the PML never runs in a thread that it does not know,
 * unless the user wants that (btl_ib_progress deliver): then we tell Open MPI that there are
 * threads, before it does anything else with us. To the engine a call of another thread during a
 * callback looks like a callback that calls the engine again, with one difference: such calls need
 * not return in the reverse order of their beginning. That is why the engine's guards are counters.
 */

#ifndef BTL_IB_H
#define BTL_IB_H

#include <signal.h>
#include <string.h>

#include "btl_ib_ompi_compat.h"

#include "btl_ib_biased_lock.h"
#include "btl_ib_connectivity.h"
#include "btl_ib_engine.h"
#include "btl_ib_exit_timeout.h"
#include "btl_ib_peer_report.h"
#include "btl_ib_help.h"
#include "btl_ib_device_plan.h"
#include "btl_ib_modex_codec.h"
#include "btl_ib_osc.h"
#include "btl_ib_params.h"
#include "btl_ib_poll_throttle.h"
#include "btl_ib_progress_thread.h"
#include "btl_ib_registration_cache.h"
#include "btl_ib_registration_limit.h"
#include "btl_ib_open_devices.h"
#include "btl_ib_stats.h"
#include "btl_ib_trace_file.h"

/* us: two drains with at most this time between them belong to one shutdown. */
#define BTL_IB_DRAIN_GAP 10000

/* Endpoints of a module; btl_ib_endpoint.c. */
typedef struct btl_ib_endpoints {
    opal_list_t all;
    struct mca_btl_base_endpoint_t *self; /* the own process's endpoint; NULL: none */
    btl_ib_conn_t *loopback; /* to the own process, for atomics by the device; made on demand */
} btl_ib_endpoints_t;

/* A free list of fragments; btl_ib_frag.c. */
typedef struct btl_ib_frag_list {
    opal_free_list_t items;
    uint32_t due; /* fragments of it that were sent and will call back; guarded by the lock */
} btl_ib_frag_list_t;

typedef struct btl_ib_frag_lists {
    btl_ib_frag_list_t header; /* for a header; the data stay in the user's memory */
    btl_ib_frag_list_t eager;  /* for eager_limit */
    btl_ib_frag_list_t max;    /* for max_send_size */
} btl_ib_frag_lists_t;

/* One-sided operations of a module; btl_ib_rdma.c. */
typedef struct btl_ib_rdma_lists {
    opal_free_list_t ops;
    btl_ib_list_t active; /* operations under way, in the order of their start */
    uint64_t started;     /* operations started so far: the number of the newest one */
} btl_ib_rdma_lists_t;

/* A device. */
typedef struct btl_ib_module {
    mca_btl_base_module_t super; /* first: Open MPI casts */
    uint32_t rail;               /* its number in the engine */
    char name[64];               /* "ofi/udp:eth0" */
    mca_btl_base_module_error_cb_fn_t error_cb;
    bool device_atomics; /* devices, not processors, do atomics on memory that peers reach by it */
    btl_ib_registration_cache_t cache;
    btl_ib_endpoints_t endpoints;
    btl_ib_frag_lists_t frags;
    btl_ib_rdma_lists_t rdma;
    opal_free_list_t memory; /* registered regions; btl_ib_register_mem.c */
} btl_ib_module_t;

/* Drains, which wait until peers that leave have acknowledged all; btl_ib_module.c. */
typedef struct btl_ib_drain {
    uint32_t active;  /* del_procs or finalize calls under way: a peer's death is no failure then */
    uint64_t started; /* us: when the first drain of this shutdown began; all share its bound */
    uint64_t ended;   /* us: when the last drain ended */
} btl_ib_drain_t;

/* The component. */
typedef struct btl_ib_component {
    mca_btl_base_component_t super; /* first: Open MPI casts */
    btl_ib_params_t params;
    mca_btl_base_module_t limits; /* what the parameters set; every module starts as a copy */
    struct {                      /* btl_ib_module.c */
        bool reported;            /* logged that ib carries what a BTL for shared memory could */
    } local;
    struct {         /* btl_ib_module.c */
        bool chosen; /* settled whether ib offers atomics, and so which osc component is used */
    } osc;
    struct {            /* btl_ib_register_mem.c */
        uint32_t hosts; /* hosts of this job, if this release's osc/rdma mistakes ranks
                         * (btl_ib_osc.h); 0: it does not, or the runtime does not say */
        bool reported;  /* warned of that */
    } osc_ranks;
    struct {           /* btl_ib_rdma.c */
        bool watched;  /* this release's osc/rdma may wait for a lock that it has (btl_ib_osc.h) */
        bool reported; /* logged that it did */
        btl_ib_osc_locks_t words;
    } osc_locks;
    struct {        /* btl_ib_register_mem.c */
        bool begun; /* connections to all processes of the job are made (expect_job()) */
    } expecting;
    bool mpi_threads; /* MPI_THREAD_MULTIPLE */
    bool named;       /* the selection of BTLs names ib: help texts tell why it is not used */
    btl_ib_engine_t *engine;
    btl_ib_aead_t *aead;      /* the engine's, if btl_ib_protection needs one */
    btl_ib_modex_t *self;     /* what this process published */
    opal_process_name_t name; /* of this process; Open MPI forgets it before we are finalized */
    uint32_t processes;       /* of this job, this one included; 0: the runtime does not say */
    btl_ib_module_t *modules[BTL_IB_RAILS_MAX]; /* by rail; NULL: finalized */
    uint32_t module_count;                      /* made */
    uint32_t modules_in_use;                    /* not finalized yet */
    opal_hash_table_t known; /* by name: what peers published that several pairs of rails reach */
    opal_hash_table_t hosts; /* by host: endpoints of its processes; btl_ib_endpoint.c */
    btl_ib_biased_lock_t lock;
    btl_ib_progress_thread_t progress_thread;
    btl_ib_poll_throttle_t throttle;
    btl_ib_poll_sleep_t poll_sleep;
    btl_ib_poll_yield_t poll_yield;
    uint64_t rare_work_at; /* us: when do_rare_work() is called even if a turn found nothing */
    btl_ib_log_state_t log;
    btl_ib_peer_reports_t reports;
    btl_ib_registration_limit_t registered;
    btl_ib_stats_t stats;
    btl_ib_trace_file_t *trace; /* NULL: none */
    struct {                    /* btl_ib_component.c */
        bool watched;           /* report_at_exit() is registered with atexit() */
        pid_t pid;              /* the process that reports (not its children); 0: it has */
        bool abort_waits;       /* an abort waits for a debugger: btl_ib_ompi_abort_waits() */
    } exit;
    btl_ib_opened_device_t *opened; /* array by rail; freed with the engine */
    btl_ib_connectivity_t connectivity;
    btl_ib_drain_t drain;
    btl_ib_exit_timeout_t exit_timeout;
    struct {                 /* btl_ib_frag.c */
        uint32_t calling;    /* callbacks of fragments that have not returned */
        btl_ib_list_t ready; /* fragments that were sent meanwhile, whose callbacks wait */
    } callbacks;
    btl_ib_list_t gone; /* endpoints whose host said that the process is gone, in the order of
                         * gone_at, to be reported later; btl_ib_failures.c */
} btl_ib_component_t;

extern btl_ib_component_t mca_btl_ib_component;

static inline void btl_ib_lock(void)
{
    btl_ib_biased_lock_acquire(&mca_btl_ib_component.lock);
}

static inline void btl_ib_unlock(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    if (OPAL_UNLIKELY(component->progress_thread.asleep)) {
        btl_ib_progress_thread_wake(&component->progress_thread);
    }
    btl_ib_biased_lock_release(&component->lock);
}

/* Tells the engine that a call ends, if it has sent much. */
static inline void btl_ib_end_call(btl_ib_engine_t *engine)
{
    if (OPAL_UNLIKELY(btl_ib_engine_has_sent_much(engine))) {
        btl_ib_engine_call_ended(engine, btl_ib_now());
    }
}

/* Makes turns, after one that had so many `events`, until all is read that came while this process
 * made no call. Tells the progress thread how much that was, where operations are under way: what
 * was received, and what these turns sent. Returns the number of events of all turns. */
static inline int btl_ib_catch_up(int events)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_engine_t *engine = component->engine;
    const uint64_t away = btl_ib_engine_away(engine);
    const uint64_t before = btl_ib_engine_datagrams(engine) - (uint64_t) events;
    const bool rma = btl_ib_engine_has_rma(engine);

    do {
        events += btl_ib_engine_progress(engine, btl_ib_now(), component->params.poll_burst);
    } while (btl_ib_engine_behind(engine));
    if (rma) {
        btl_ib_progress_thread_waited(&component->progress_thread, btl_ib_now(), away,
                                      btl_ib_engine_datagrams(engine) - before);
    }
    return events;
}

/* Runs a turn of the engine; after a pause of this process as many as it takes to read all that
 * came meanwhile. Returns the number of events, as btl_ib_engine_progress(). */
static inline int btl_ib_run_engine(uint64_t now)
{
    btl_ib_engine_t *engine = mca_btl_ib_component.engine;
    const int burst = mca_btl_ib_component.params.poll_burst;
    int events = btl_ib_engine_progress(engine, now, burst);

    if (OPAL_UNLIKELY(btl_ib_engine_behind(engine))) {
        events = btl_ib_catch_up(events);
    }
    btl_ib_end_call(engine);
    return events;
}

/* Runs the engine in a progress call, and tells the poll throttle what that found. Called after
 * btl_ib_poll_throttle_count(). */
static inline int btl_ib_poll_engine(uint64_t now)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const int events = btl_ib_run_engine(now);
    /* The throttle reads `busy` of an empty poll beside other BTLs only: else save the question. */
    const bool counts = events == 0 && !component->throttle.alone;

    btl_ib_poll_throttle_polled(&component->throttle, now, events > 0,
                                counts && btl_ib_engine_busy(component->engine));
    return events;
}

/* Begins a stage of an exit (btl_ib_exit_timeout.h) that may take `bound` us. The caller ends it by
 * btl_ib_exit_timeout_end(). */
static inline void btl_ib_exit_stage(const char *stage, uint64_t bound)
{
    const int rc =
        btl_ib_exit_timeout_begin(&mca_btl_ib_component.exit_timeout, stage, SIGTERM, bound);

    if (rc != 0) {
        BTL_IB_VERBOSE(1, "btl_ib_exit_timeout watches nothing: no thread: %s", strerror(rc));
    }
}

/* Our version; configure.ac reads it here. A test may define another one. */
#ifndef BTL_IB_VERSION
#define BTL_IB_VERSION "0.3.0"
#endif

/* Atomics that devices have, where they have any. */
#define BTL_IB_ATOMIC_FLAGS_DEVICE (MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_CSWAP)

/* Constructs a free list of elements of `class` with `size` bytes, at most `most` of them, -1: any
 * number. Returns an OPAL status. */
static inline int btl_ib_free_list_init(opal_free_list_t *list, size_t size, opal_class_t *class,
                                        int most)
{
    const btl_ib_params_t *params = &mca_btl_ib_component.params;
    const int first = most < 0 || params->free_list_num < most ? params->free_list_num : most;

    OBJ_CONSTRUCT(list, opal_free_list_t);
    return opal_free_list_init(list, size, (size_t) opal_cache_line_size, class, 0, 0, first, most,
                               params->free_list_inc, NULL, 0, NULL, NULL, NULL);
}

/* ---- btl_ib_module.c ---- */

/* Sets all functions of a module, except finalize. */
void btl_ib_module_functions(mca_btl_base_module_t *module);

/* Makes the module of a rail, on `transport`. Returns NULL if memory is short. */
btl_ib_module_t *btl_ib_module_create(uint32_t rail, btl_ib_transport_t *transport,
                                      uint32_t bandwidth);
void btl_ib_module_destroy(btl_ib_module_t *module);

/* Removes all endpoints without callbacks, and what is registered. Called without the lock. */
void btl_ib_module_close(btl_ib_module_t *module);

/* Polls until no CLOSE is due, within the bound of drains. Called with the lock held, which is
 * released meanwhile. */
void btl_ib_module_linger(void);

/* Prints what this process waits for: connections that have something to do, a limited number of
 * them, and how many there are. Called with the lock held. */
void btl_ib_module_dump_busy(void);

/* ---- btl_ib_send.c ---- */

void btl_ib_send_functions(mca_btl_base_module_t *module);

/* ---- btl_ib_recv.c ---- */

/* The engine's calls up. */
extern const btl_ib_engine_ops_t btl_ib_engine_ops;

/* ---- btl_ib_failures.c ---- */

/* Callbacks of the engine about peers and rails, as in btl_ib_engine_ops_t. */
void btl_ib_failures_dead(void *context, btl_ib_conn_t *conn, btl_ib_death_t reason);
void btl_ib_failures_unanswered(void *context, btl_ib_conn_t *conn, bool heard);
void btl_ib_failures_silent(void *context, btl_ib_conn_t *conn, const btl_ib_silence_t *silence);
void btl_ib_failures_unsent(void *context, btl_ib_conn_t *conn, int error);
void btl_ib_failures_moved_unanswered(void *context, btl_ib_conn_t *conn);
void btl_ib_failures_slow_rail(void *context, const btl_ib_conn_t *conn,
                               const btl_ib_conn_t *better, const btl_ib_slow_rail_t *found);
void btl_ib_failures_black_hole(void *context, btl_ib_conn_t *conn, uint32_t lost, uint32_t most,
                                uint32_t carries);
void btl_ib_failures_gso_lost(void *context, btl_ib_conn_t *conn, uint32_t lost, bool refused);
void btl_ib_failures_rail_failed(void *context, uint32_t rail, const char *refused, int error,
                                 uint32_t moved, uint32_t left);

/* Reports peers that failed, as their hosts or the runtime said meanwhile. Called in progress calls
 * with the lock held, which is released around calls up. */
void btl_ib_failures_look(uint64_t now);

/* ---- btl_ib_register_mem.c ---- */

void btl_ib_register_functions(mca_btl_base_module_t *module);

/* Constructs the list of a module. Returns an OPAL status. */
int btl_ib_register_init(btl_ib_module_t *module);

/* True if processors may change words that devices change, too (IBV_ATOMIC_GLOB). */
static inline bool btl_ib_register_is_global(const btl_ib_module_t *module)
{
    return (module->super.btl_atomic_flags & MCA_BTL_ATOMIC_SUPPORTS_GLOB) != 0;
}

/* Returns the transport's handle of these bytes, which are in the region of `handle`; NULL: the
 * device does not reach them, and processors move them. */
void *btl_ib_device_memory_of(const struct mca_btl_base_registration_handle_t *handle,
                              const void *address, uint64_t size);

/* ---- btl_ib_rdma.c ---- */

void btl_ib_rdma_functions(mca_btl_base_module_t *module);

/* Constructs the lists of a module. Returns an OPAL status. */
int btl_ib_rdma_init(btl_ib_module_t *module);

/* Ends an operation that the engine finished, with status 0 or a negative errno. Called with the
 * lock held. */
void btl_ib_rdma_done(btl_ib_op_t *op, int status);

/* Completes the operations that died with the endpoint's connection, once that was reported,
 * without their callbacks if `quiet`. Called with the lock held, which is released during
 * callbacks. */
void btl_ib_rdma_fail_all(struct mca_btl_base_endpoint_t *endpoint, bool quiet);

/* Forgets those operations of a closed endpoint whose parts other rails still carry: the parts end
 * without a callback. Called with the lock held. */
void btl_ib_rdma_abandon(struct mca_btl_base_endpoint_t *endpoint);

#endif
