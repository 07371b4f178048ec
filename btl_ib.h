/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The component and its modules: what Open MPI sees of btl ib. The component owns one engine; a
 * module is one rail of it, that is one device.
 *
 * Threads. One lock (btl_ib_biased_lock.h) guards the engine and everything here. It is taken at the entry of
 * every BTL function and of progress; besides other threads of the application it keeps out the kicker
 * (btl_ib_progress_thread.h). It is released around every call up (receive callbacks, completions, the error callback), for two
 * reasons:
 *  - ob1 does not call us with one of its own locks held (its matching, request and pending
 *    lists are locked for list operations only), but bml r2 does: mca_bml_lock is held while
 *    add_procs is called, and taken in receive callbacks when an answer goes to a process that was
 *    not added yet (mca_bml_base_get_endpoint). With our lock held across the callback, the two
 *    would be taken in both orders. coll/adapt does alike with the mutex of a request.
 *  - another thread can receive while one is in a callback that takes its time.
 * The kicker makes no call up at all, so the PML never runs in a thread that it does not know.
 * To the engine this looks like a callback that calls back in, except that calls need not end in
 * the reverse order of their beginning; its guards are counters for that reason.
 */

#ifndef BTL_IB_H
#define BTL_IB_H

#include "btl_ib_compat.h"

#include <errno.h>

#include "btl_ib_failed_procs.h"
#include "btl_ib_engine.h"
#include "btl_ib_biased_lock.h"
#include "btl_ib_help.h"
#include "btl_ib_progress_thread.h"
#include "btl_ib_diagnostics.h"
#include "btl_ib_modex_codec.h"
#include "btl_ib_poll_throttle.h"
#include "btl_ib_params.h"
#include "btl_ib_registration_cache.h"

/*
 * Room beyond the limits that the user sets, in fragments and in reassembly: a PML header and a
 * registration handle of the largest size allowed.
 */
#define BTL_IB_HEADER_ROOM (MCA_BTL_REG_HANDLE_MAX_SIZE + 256u)

/* One device. */
typedef struct btl_ib_module {
    mca_btl_base_module_t super; /* first: Open MPI casts */
    uint32_t rail;               /* its number in the engine */
    char name[64];               /* "ofi/udp:eth0" */
    mca_btl_base_module_error_cb_fn_t error_cb;
    opal_list_t endpoints;
    struct mca_btl_base_endpoint_t *self; /* that of the own process, if there is one */
    opal_free_list_t frags_eager;         /* descriptors with room for eager_limit */
    opal_free_list_t frags_max;           /* with room for max_send_size */
    opal_free_list_t frags_user;    /* with room for a header; the data stay in the user's memory */
    opal_free_list_t rdmas;         /* descriptors of one-sided operations */
    opal_free_list_t registrations; /* and of memory for them */
    btl_ib_list_t rdmas_active;     /* those on their way, in the order of their beginning */
    uint64_t rdma_number;           /* of the newest */
    btl_ib_pins_t pins;             /* memory that its device may use by itself */
    bool device_atomics; /* atomics on memory that peers reach by it are done by devices */
    btl_ib_conn_t *loop; /* to the own process by the device, for these; NULL: not needed yet */
} btl_ib_module_t;

/* Something that befell a device, to be told later. */
typedef struct btl_ib_late_trouble {
    char device[64];
    char detail[128];
    char peer[96];
} btl_ib_late_trouble_t;

typedef struct btl_ib_component {
    mca_btl_base_component_t super; /* first: Open MPI casts */
    btl_ib_params_t params;
    bool named;                   /* in the selection of BTLs: who asks for ib wants to hear */
    mca_btl_base_module_t limits; /* what the parameters set; every module begins as a copy */
    btl_ib_engine_t *engine;
    btl_ib_aead_t *aead;      /* the engine's, if btl_ib_auth wants one */
    btl_ib_modex_t *self;     /* what we published */
    opal_process_name_t name; /* our own; Open MPI forgets it before we are finalized */
    btl_ib_module_t *modules[BTL_IB_RAILS_MAX];
    uint32_t module_count;   /* made */
    uint32_t modules_in_use; /* not finalized yet */
    uint32_t endpoint_count; /* of all modules */
    bool told_limits;        /* that a peer has other limits */
    bool told_guard;         /* that a peer protects its datagrams otherwise */
    bool told_atomics;       /* that a peer leaves the changing of words to others */
    bool told_network;       /* that a peer has no device that fits one of ours */
    char adding[96];         /* "rank N on host H": whose address is given to the engine now */
    btl_ib_report_hole_t hole;    /* that large datagrams vanish on the way to a peer */
    btl_ib_reported_t unanswered; /* hosts of which it was told that they do not answer */
    bool told_local;         /* that ib carries what shared memory could */
    uint32_t told_troubles;  /* bits: what keeps devices from being used (btl_ib_diagnostic_t) */
    uint32_t late_troubles;  /* bits: those that the kicker heard of, which are to be told */
    btl_ib_late_trouble_t late_trouble[BTL_IB_DIAGS];
    uint64_t pinned;         /* bytes, by all modules */
    uint64_t pinned_max;     /* as btl_ib_max_pinned says */
    uint64_t not_pinned;     /* times that memory was not */
    bool told_region;        /* that some was longer than btl_ib_pin_max_region */
    bool told_pinned;        /* that pinned_max was reached */
    uint32_t draining;       /* del_procs or finalize calls going on: a death is no news then */
    uint64_t drain_started;  /* us: procs deleted one after the other share one bound */
    uint64_t drain_ended;
    btl_ib_list_t departed; /* endpoints whose hosts said during a drain that nobody is there */
    btl_ib_ended_t ended;   /* processes of which the runtime says so */
    btl_ib_gate_t gate;     /* the lock */
    btl_ib_kicker_t kicker;
    btl_ib_pace_t pace;
} btl_ib_component_t;

extern btl_ib_component_t mca_btl_ib_component;

/* Microseconds of a monotonic clock. */
uint64_t btl_ib_now(void);

static inline void btl_ib_lock(void)
{
    btl_ib_gate_enter(&mca_btl_ib_component.gate);
}

/* For progress: returns whether the caller may go on. */
static inline bool btl_ib_trylock(void)
{
    return btl_ib_gate_try(&mca_btl_ib_component.gate);
}

static inline void btl_ib_unlock(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    if (OPAL_UNLIKELY(component->kicker.asleep)) {
        btl_ib_kicker_wake();
    }
    btl_ib_gate_leave(&component->gate);
}

/* One turn of the engine, after btl_ib_pace_due(). Returns as btl_ib_engine_progress(). */
static inline int btl_ib_turn(uint64_t now)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const int events = btl_ib_engine_progress(component->engine, now, component->params.poll_burst);

    btl_ib_pace_looked(&component->pace, now, events > 0, btl_ib_engine_busy(component->engine));
    return events;
}

/* Our version; configure.ac reads it here. */
#define BTL_IB_VERSION "0.1.0"

/* One fact for the verbose output: 1 what was chosen and why, 10 what was turned down, 100 each
 * datagram. To be called with a literal format. */
#define BTL_IB_VERBOSE(level, ...)                                                                 \
    opal_output_verbose((level), opal_btl_base_framework.framework_output, "btl:ib: " __VA_ARGS__)

/* Does anybody see what is said at that level? For what costs something to find out. */
static inline bool btl_ib_verbose(int level)
{
    return opal_output_get_verbosity(opal_btl_base_framework.framework_output) >= level;
}

/*
 * A help text about the configuration, which the processes of a host share: one of them prints it.
 */
#define BTL_IB_SHOW_HELP(topic, ...)                                                               \
    do {                                                                                           \
        if (0 == opal_process_info.my_local_rank) {                                                \
            btl_ib_show_help((topic), __VA_ARGS__);                                                \
        }                                                                                          \
    } while (0)

/*
 * What Open MPI hands to peers of a registered region; copied into packets as it is. All processes
 * of a job have the same byte order: bml r2 offers no RDMA between others.
 */
struct mca_btl_base_registration_handle_t {
    uint64_t base; /* the address of the first byte in its owner's memory */
    btl_ib_region_key_t key;
    uint64_t size;       /* bytes; the device knows whole pages */
    uint32_t device_key; /* what the device of that rail wants to hear */
    uint16_t rail;       /* of the owner's */
    uint8_t pinned; /* BTL_IB_ACCESS_*: what it may be asked for; 0: processors move the region */
    uint8_t device_atomic; /* its words are changed by devices only; else by processors only */
    uint64_t check;        /* of all before: osc/rdma reads some while their owner moves them */
};

/* Of devices: by themselves they know no others. */
#define BTL_IB_ATOMIC_FLAGS_DEVICE (MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_CSWAP)

/* What is true of us, and what a user may choose from by btl_ib_flags. */
#define BTL_IB_FLAGS                                                                               \
    (MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_RDMA | MCA_BTL_FLAGS_ATOMIC_OPS                            \
     | MCA_BTL_FLAGS_ATOMIC_FOPS | MCA_BTL_FLAGS_RDMA_FLUSH)

/* Executed by the processor at the target, so that it and local processes may work on a word at
 * the same time: GLOB. */
#define BTL_IB_ATOMIC_FLAGS                                                                        \
    (MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND | MCA_BTL_ATOMIC_SUPPORTS_OR        \
     | MCA_BTL_ATOMIC_SUPPORTS_XOR | MCA_BTL_ATOMIC_SUPPORTS_LAND | MCA_BTL_ATOMIC_SUPPORTS_LOR    \
     | MCA_BTL_ATOMIC_SUPPORTS_LXOR | MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_32BIT \
     | MCA_BTL_ATOMIC_SUPPORTS_CSWAP | MCA_BTL_ATOMIC_SUPPORTS_GLOB)

/*
 * Only with btl_ib_atomics_all. The interface has no word for unsigned integers, and osc/rdma (4.1,
 * 5.0) asks for MIN and MAX of both kinds alike; it calls a complex number of two floats a
 * double. Without these flags it computes such results itself, under a lock.
 */
#define BTL_IB_ATOMIC_FLAGS_MORE                                                                   \
    (MCA_BTL_ATOMIC_SUPPORTS_MIN | MCA_BTL_ATOMIC_SUPPORTS_MAX | MCA_BTL_ATOMIC_SUPPORTS_FLOAT)

/* Where engine and transports say what they have to say; btl_ib_log.c. */
extern const btl_ib_log_t btl_ib_logger;

/* Show what the kicker heard and could not show. Called with the lock held. */
void btl_ib_log_late(btl_ib_component_t *component);

/* The functions of a module, filled in by btl_ib_module.c. */
void btl_ib_module_functions(mca_btl_base_module_t *module);

/* Make the module of a rail. Returns NULL if memory is short. */
btl_ib_module_t *btl_ib_module_create(uint32_t rail, const char *name, uint32_t bandwidth);
void btl_ib_module_destroy(btl_ib_module_t *module);

/* The engine's calls up; btl_ib_recv.c. */
extern const btl_ib_engine_ops_t btl_ib_engine_ops;

/* 0 or an error of the engine as Open MPI understands it. Only OUT_OF_RESOURCE is tried again. */
static inline int btl_ib_opal_status(int error)
{
    switch (error) {
    case 0:
        return OPAL_SUCCESS;
    case -EPIPE:
    case -ECANCELED:
        return OPAL_ERR_UNREACH;
    case -EMSGSIZE:
        return OPAL_ERR_BAD_PARAM;
    case -ENOMEM:
        return OPAL_ERR_OUT_OF_RESOURCE;
    case -EOPNOTSUPP:
        return OPAL_ERR_NOT_SUPPORTED;
    default:
        return OPAL_ERROR;
    }
}

/* Names of processes as the engine knows them. */
static inline uint64_t btl_ib_name_pack(opal_process_name_t name)
{
    return (uint64_t) name.jobid << 32 | name.vpid;
}

static inline opal_process_name_t btl_ib_name_unpack(uint64_t name)
{
    return (opal_process_name_t){.jobid = (opal_jobid_t) (name >> 32), .vpid = (opal_vpid_t) name};
}

/* BTL functions. */
int btl_ib_add_procs(mca_btl_base_module_t *btl, size_t nprocs, struct opal_proc_t **procs,
                     struct mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable);
int btl_ib_del_procs(mca_btl_base_module_t *btl, size_t nprocs, struct opal_proc_t **procs,
                     struct mca_btl_base_endpoint_t **endpoints);
mca_btl_base_descriptor_t *btl_ib_alloc(mca_btl_base_module_t *btl,
                                        struct mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                        size_t size, uint32_t flags);
int btl_ib_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des);
mca_btl_base_descriptor_t *btl_ib_prepare_src(mca_btl_base_module_t *btl,
                                              struct mca_btl_base_endpoint_t *endpoint,
                                              opal_convertor_t *convertor, uint8_t order,
                                              size_t reserve, size_t *size, uint32_t flags);
int btl_ib_send(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                mca_btl_base_descriptor_t *des, mca_btl_base_tag_t tag);
int btl_ib_sendi(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                 opal_convertor_t *convertor, void *header, size_t header_size, size_t payload_size,
                 uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                 mca_btl_base_descriptor_t **descriptor);

/*
 * One-sided operations; btl_ib_rdma.c. One is complete, which its callback tells, when every byte is
 * where it belongs and acknowledged; until then the caller's memory is used in place. The callback is
 * called once, without the lock, never after del_procs; for the own process before the call returns.
 * The functions never return 1, "complete and no callback": ob1 and osc/rdma of Open MPI 4.1 take
 * that for an error of put and get.
 */
struct mca_btl_base_registration_handle_t *
btl_ib_register_mem(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                    void *base, size_t size, uint32_t flags);
int btl_ib_deregister_mem(mca_btl_base_module_t *btl,
                          struct mca_btl_base_registration_handle_t *handle);
int btl_ib_put(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
               void *local_address, uint64_t remote_address,
               struct mca_btl_base_registration_handle_t *local_handle,
               struct mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
               int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata);
int btl_ib_get(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
               void *local_address, uint64_t remote_address,
               struct mca_btl_base_registration_handle_t *local_handle,
               struct mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
               int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata);
int btl_ib_atomic_op(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                     uint64_t remote_address,
                     struct mca_btl_base_registration_handle_t *remote_handle,
                     mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                     mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata);
int btl_ib_atomic_fop(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                      void *local_address, uint64_t remote_address,
                      struct mca_btl_base_registration_handle_t *local_handle,
                      struct mca_btl_base_registration_handle_t *remote_handle,
                      mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                      mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata);
int btl_ib_atomic_cswap(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                        void *local_address, uint64_t remote_address,
                        struct mca_btl_base_registration_handle_t *local_handle,
                        struct mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                        uint64_t value, int flags, int order,
                        mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata);
int btl_ib_flush(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint);

/* Construct and destruct a module's lists of operations and registrations. Returns an OPAL status. */
int btl_ib_rdma_init(btl_ib_module_t *module);
void btl_ib_rdma_fini(btl_ib_module_t *module);

/* The engine finished an operation: status 0 or a negative errno. Called with the lock held. */
void btl_ib_rdma_done(btl_ib_op_t *op, int status);

/* The endpoint's connection is dead, and it was told: give back what died with it, without their
 * callbacks if `quiet`. Called with the lock held. */
void btl_ib_rdma_fail(struct mca_btl_base_endpoint_t *endpoint, bool quiet);

/* Give an end to what is left of connections: poll until no CLOSE is due, within the drain's
 * bound. Called with the lock held. */
void btl_ib_linger(void);

/* Close what nobody adopted, let the CLOSEs go, print the counters if asked for, free the engine.
 * Called with the lock held, when the last module goes. */
void btl_ib_component_stop(void);

#endif
