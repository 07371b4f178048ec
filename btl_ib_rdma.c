/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations: put, get, atomics, flush.
 *
 * An operation is complete when every byte is where it belongs and acknowledged; its callback says
 * so. Until then the caller's memory is used in place. The callback is called once, without the
 * lock, never after del_procs; for the own process before the call returns. The functions never
 * return 1 ("complete, no callback"): ob1 and osc/rdma of Open MPI 4.1 take that for an error of
 * put and get.
 *
 * A long operation that processors carry out is divided among the rails to the peer, because
 * osc/rdma uses one module for all of a window, and ob1 one for a get. An operation of devices is
 * not divided: a handle has the keys of one device.
 */

#include "btl_ib.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "btl_ib_endpoint.h"
#include "btl_ib_memory_handle.h"

/* Bytes of a part of a divided operation: at least PART_MIN, as each part costs a request and its
 * answers, or acknowledgements; and a multiple of PART_UNIT. */
enum { PART_MIN = 128 * 1024, PART_UNIT = 4096 };

/* An operation under way, or a part of one that another rail carries. The whole counts its parts in
 * `parts`; what it carries itself is one of them. It is complete when `parts` is 0. */
typedef struct btl_ib_rdma {
    opal_free_list_item_t super; /* first: Open MPI casts */
    btl_ib_op_t op;
    btl_ib_endpoint_t *endpoint;
    void *target; /* the target, if it has no handle and so is an address of ours; else NULL */
    void *local_address;
    btl_ib_memory_handle_t *local_handle;
    mca_btl_base_rdma_completion_fn_t cbfunc; /* may be NULL */
    void *cbcontext;
    void *cbdata;
    uint64_t remote_address; /* as Open MPI named it */
    btl_ib_osc_atomic_t osc; /* of an atomic, if osc_locks.watched */
    bool in_callback;        /* `caller` is in its callback; the operation is over */
    pthread_t caller;
    uint64_t number;           /* in the order of starts, in the module */
    btl_ib_list_t link;        /* in the module's list, in the order of the numbers */
    btl_ib_list_t failed_link; /* in its endpoint's failed_ops */
    int status;                /* while it is in failed_ops: why it failed */
    struct btl_ib_rdma *whole; /* whose part this is; NULL: this is a whole */
    uint32_t parts;            /* of a whole: parts that are not over */
    int failed;                /* of a whole: status of the first part that failed; 0: none did */
    bool divides;              /* its bytes may go over several rails */
    bool over;                 /* of a whole: what it carries itself is over */
} btl_ib_rdma_t;

static void rdma_constructor(btl_ib_rdma_t *rdma)
{
    memset(&rdma->op, 0, sizeof(rdma->op));
    btl_ib_list_init(&rdma->link);
    btl_ib_list_init(&rdma->failed_link);
}

OBJ_CLASS_INSTANCE(btl_ib_rdma_t, opal_free_list_item_t, rdma_constructor, NULL);

int btl_ib_rdma_init(btl_ib_module_t *module)
{
    mca_btl_ib_component.osc_locks.watched = btl_ib_ompi_osc_waits_for_itself();
    btl_ib_list_init(&module->rdma.active);
    return btl_ib_free_list_init(&module->rdma.ops, sizeof(btl_ib_rdma_t), OBJ_CLASS(btl_ib_rdma_t),
                                 -1);
}

/* ---- under way ---- */

/* Puts an operation, or a part of one, into its module's list, where flush() finds it. */
static void rdma_enter(btl_ib_rdma_t *rdma)
{
    btl_ib_module_t *module = rdma->endpoint->module;

    rdma->number = ++module->rdma.started;
    btl_ib_list_push_tail(&module->rdma.active, &rdma->link);
    OBJ_RETAIN(rdma->endpoint); /* until rdma_forget() */
}

/* Forgets an operation that is no longer under way. */
static void rdma_forget(btl_ib_rdma_t *rdma)
{
    btl_ib_endpoint_t *endpoint = rdma->endpoint;

    btl_ib_list_remove(&rdma->link);
    opal_free_list_return(&endpoint->module->rdma.ops, &rdma->super);
    OBJ_RELEASE(endpoint); /* retained by rdma_enter() */
}

/* Starts a part of an operation over another endpoint: `size` bytes from byte `offset` on. Returns
 * false if that does not start it. */
static bool start_part(btl_ib_rdma_t *whole, btl_ib_endpoint_t *endpoint, uint64_t offset,
                       uint64_t size)
{
    const btl_ib_op_t *op = &whole->op;
    btl_ib_rdma_t *part;

    if (endpoint->closing) {
        return false;
    }
    part = (btl_ib_rdma_t *) opal_free_list_get(&endpoint->module->rdma.ops);
    if (part == NULL) {
        return false;
    }
    part->endpoint = endpoint;
    part->whole = whole;
    part->in_callback = false;
    part->over = false;
    part->op = (btl_ib_op_t){
        .kind = op->kind,
        .key = op->key,
        .offset = op->offset + offset,
        .size = size,
        .local = (char *) op->local + offset,
    };
    rdma_enter(part);
    ++whole->parts;
    if (btl_ib_op_start(endpoint->conn, &part->op, btl_ib_now()) != 0) {
        --whole->parts;
        rdma_forget(part);
        return false;
    }
    btl_ib_end_call(mca_btl_ib_component.engine);
    return true;
}

/* ---- completion ---- */

static const char *const kind_names[] = {
    [BTL_IB_OP_PUT] = "put",
    [BTL_IB_OP_GET] = "get",
    [BTL_IB_OP_ATOMIC] = "atomic",
};

/*
 * Ends the job if an atomic of a device is lost: nobody knows whether it was executed, so it cannot
 * be repeated. osc/rdma would go on without its result, or repeat its lock for ever; so the job has
 * to end, as for a dead peer. Does nothing if the atomic was rejected, as nothing was executed, or
 * if the peer died, as that was reported. Called with the lock held, which is released meanwhile.
 */
static void end_job_if_lost(const btl_ib_rdma_t *rdma, int status)
{
    btl_ib_endpoint_t *endpoint = rdma->endpoint;
    btl_ib_ends_t ends;

    if (-EACCES == status || !rdma->op.by_device || endpoint->closing || endpoint->dead
        || endpoint->reported_lost) {
        return;
    }
    endpoint->reported_lost = true;
    btl_ib_endpoint_describe(endpoint, &ends);
    btl_ib_report_atomic_lost(&ends, rdma->op.key.id, (int64_t) rdma->op.offset, -status);
    btl_ib_endpoint_tell_lost(endpoint, "btl ib lost an atomic operation");
}

/* Reports a failed operation. A rejected one gets a help text, once for each target: osc/rdma drops
 * the status of operations that it does not wait for, so a user might see wrong results only. */
static void report_status(const btl_ib_rdma_t *rdma, int status)
{
    const btl_ib_op_t *op = &rdma->op;
    const size_t size = (size_t) btl_ib_memory_size_of(op);
    btl_ib_endpoint_t *endpoint = rdma->whole != NULL ? rdma->whole->endpoint : rdma->endpoint;
    btl_ib_ends_t ends;

    if (-EACCES == status && !endpoint->reported_rejected) {
        endpoint->reported_rejected = true;
        btl_ib_endpoint_describe(endpoint, &ends);
        btl_ib_report_rejected(&ends, kind_names[op->kind], size, (int64_t) op->offset,
                               mca_btl_ib_component.osc_ranks.hosts >= 3);
    }
    BTL_IB_VERBOSE(1, "%s of %zu bytes at offset %" PRId64 " of region %" PRIx64 " of %s on %s: %s",
                   kind_names[op->kind], size, (int64_t) op->offset, op->key.id,
                   opal_process_name_print(endpoint->proc->proc_name), endpoint->host,
                   strerror(-status));
    end_job_if_lost(rdma, status);
}

/*
 * Notes that an atomic begins, if osc_locks.watched: osc/rdma of Open MPI 4.1.1 to 4.1.4 may be
 * about to repeat it for ever. Called with the lock held.
 */
static void note_atomic_start(btl_ib_rdma_t *rdma)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    btl_ib_osc_locks_start(&component->osc_locks.words, &rdma->osc, &rdma->op, rdma->endpoint,
                           rdma->remote_address, pthread_self());
    if (OPAL_UNLIKELY(rdma->osc.step == BTL_IB_OSC_HAS && !component->osc_locks.reported)) {
        component->osc_locks.reported = true;
        BTL_IB_VERBOSE(1,
                       "osc/rdma of Open MPI %s waits for a lock of a dynamic window that it has "
                       "itself: from now on it is told that it has it",
                       opal_version_string);
    }
}

/* Stores the result of an atomic in the caller's memory. */
static void store_result(btl_ib_rdma_t *rdma)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const size_t size = btl_ib_atomic_size(rdma->op.type);
    uint64_t result = rdma->op.result;
    uint32_t half;

    if (component->osc_locks.watched) {
        result = btl_ib_osc_locks_done(&component->osc_locks.words, &rdma->osc, result);
    }
    /* The result of a word of 32 bits has the value, not the first bytes. */
    half = (uint32_t) result;
    memcpy(rdma->local_address, sizeof(half) == size ? (const void *) &half : &result, size);
}

/* Ends a part, or what the whole carries itself. Returns the whole if nothing of it is under way
 * any more; else NULL. */
static btl_ib_rdma_t *part_over(btl_ib_rdma_t *rdma, int status)
{
    btl_ib_rdma_t *whole = rdma->whole != NULL ? rdma->whole : rdma;

    if (whole->failed == 0) {
        whole->failed = status;
    }
    if (rdma == whole) {
        whole->over = true;
    } else {
        rdma_forget(rdma);
    }
    return --whole->parts == 0 ? whole : NULL;
}

/* Starts a part again, over the endpoint of the whole, as the part's own endpoint is deleted: the
 * caller named the endpoint of the whole, and need not know that others are deleted. Returns false
 * if that does not start it. */
static bool start_again(const btl_ib_rdma_t *part)
{
    btl_ib_rdma_t *whole = part->whole;

    return whole != NULL
           && start_part(whole, whole->endpoint, part->op.offset - whole->op.offset, part->op.size);
}

/* Ends an operation or a part of it; with the last part calls the callback, and forgets the
 * operation. It stays in the module's list until its callback has returned: flush() must not return
 * before, as its caller may then free what the callback uses. Called with the lock held, which is
 * released during the callback. */
static void rdma_complete(btl_ib_rdma_t *rdma, int status)
{
    btl_ib_endpoint_t *endpoint = rdma->endpoint;

    if (OPAL_UNLIKELY(status != 0)) {
        if (!endpoint->closing) {
            report_status(rdma, status);
        } else if (start_again(rdma)) {
            status = 0;
        }
    }
    rdma = part_over(rdma, status);
    if (rdma == NULL) {
        return;
    }
    endpoint = rdma->endpoint;
    status = rdma->failed;
    if (status == 0 && rdma->op.kind == BTL_IB_OP_ATOMIC && rdma->local_address != NULL) {
        store_result(rdma);
    }
    if (rdma->cbfunc != NULL && !endpoint->closing) {
        rdma->in_callback = true;
        rdma->caller = pthread_self();
        btl_ib_unlock();
        rdma->cbfunc(&endpoint->module->super, endpoint, rdma->local_address, rdma->local_handle,
                     rdma->cbcontext, rdma->cbdata, btl_ib_opal_status(status));
        btl_ib_lock();
    }
    rdma_forget(rdma);
}

void btl_ib_rdma_done(btl_ib_op_t *op, int status)
{
    btl_ib_rdma_t *rdma = BTL_IB_CONTAINER(op, btl_ib_rdma_t, op);
    btl_ib_endpoint_t *endpoint = rdma->endpoint;

    if (status != 0 && !endpoint->closing && endpoint->conn != NULL
        && btl_ib_conn_is_dead(endpoint->conn)) {
        /* ob1 and osc/rdma give up when an operation fails: first the failure is reported. */
        rdma->status = status;
        btl_ib_list_push_tail(&endpoint->failed_ops, &rdma->failed_link);
        return;
    }
    rdma_complete(rdma, status);
}

void btl_ib_rdma_fail_all(btl_ib_endpoint_t *endpoint, bool quiet)
{
    btl_ib_rdma_t *rdma;

    while ((rdma = BTL_IB_LIST_POP(btl_ib_rdma_t, &endpoint->failed_ops, failed_link)) != NULL) {
        if (quiet) {
            rdma->cbfunc = NULL;
        }
        rdma_complete(rdma, rdma->status);
    }
}

/* Makes each part of a whole that is forgotten a whole of its own, without a callback. */
static void leave_parts(const btl_ib_rdma_t *whole)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;

    for (uint32_t i = 0; i < component->module_count; ++i) {
        if (component->modules[i] == NULL) {
            continue;
        }
        BTL_IB_LIST_FOREACH (btl_ib_rdma_t, rdma, &component->modules[i]->rdma.active, link) {
            if (rdma->whole == whole) {
                rdma->whole = NULL;
                rdma->cbfunc = NULL;
                rdma->parts = 1;
                rdma->failed = 0;
            }
        }
    }
}

void btl_ib_rdma_abandon(btl_ib_endpoint_t *endpoint)
{
    btl_ib_list_t *const active = &endpoint->module->rdma.active;
    btl_ib_list_t *item = btl_ib_list_first(active);

    while (item != NULL) {
        btl_ib_rdma_t *rdma = BTL_IB_CONTAINER(item, btl_ib_rdma_t, link);
        item = btl_ib_list_next(active, item);
        if (rdma->endpoint == endpoint && rdma->over && !rdma->in_callback) {
            leave_parts(rdma);
            rdma_forget(rdma);
        }
    }
}

/* ---- start ---- */

/*
 * Fills in where a device finds the target of an operation, and whether a device has to execute it
 * (by_device: an atomic on words that devices change). `handle` NULL: the target is an address of
 * ours, and no device is needed. An operation that its region does not allow goes to the engine of
 * the target, which rejects it. Our own words we change by the processor, which is nearer than the
 * device, if it may.
 */
static void place_for_device(btl_ib_rdma_t *rdma, const btl_ib_memory_handle_t *handle)
{
    const btl_ib_module_t *module = rdma->endpoint->module;
    const bool ours = rdma->endpoint == module->endpoints.self;
    btl_ib_op_t *op = &rdma->op;

    op->by_device = false;
    op->place = (btl_ib_place_t){.known = false};
    if (handle == NULL || !btl_ib_memory_handle_allows(handle, op)) {
        return;
    }
    op->by_device = op->kind == BTL_IB_OP_ATOMIC && handle->device_atomic != 0
                    && !(ours && btl_ib_register_is_global(module));
    op->place = (btl_ib_place_t){
        .address = handle->base,
        .key = btl_ib_memory_handle_key(handle, op),
        .rail = handle->rail,
        .known = true,
    };
}

/*
 * Takes an operation from the free list, and fills in what all kinds have. Returns an OPAL status.
 * osc/rdma of Open MPI 4.1 passes no handle, and sometimes no endpoint, for memory that it could
 * reach itself: then the address is one of this process.
 */
static int rdma_prepare(btl_ib_module_t *module, btl_ib_endpoint_t *endpoint, btl_ib_op_kind_t kind,
                        void *local_address, uint64_t remote_address,
                        const btl_ib_memory_handle_t *remote_handle, btl_ib_rdma_t **out)
{
    btl_ib_rdma_t *rdma;

    if (remote_handle == NULL) {
        endpoint = module->endpoints.self;
    }
    if (OPAL_UNLIKELY(endpoint == NULL)) {
        return OPAL_ERR_UNREACH;
    }
    rdma = (btl_ib_rdma_t *) opal_free_list_get(&module->rdma.ops);
    if (OPAL_UNLIKELY(rdma == NULL)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rdma->endpoint = endpoint;
    rdma->local_address = local_address;
    rdma->remote_address = remote_address;
    rdma->in_callback = false;
    rdma->whole = NULL;
    rdma->parts = 1;
    rdma->failed = 0;
    rdma->divides = false;
    rdma->over = false;
    rdma->op.kind = kind;
    rdma->op.local = local_address;
    rdma->target = NULL;
    if (remote_handle != NULL) {
        rdma->op.key = remote_handle->key;
        /* The offset may be negative, or beyond the region: the target checks it. */
        rdma->op.offset = remote_address - remote_handle->base;
    } else {
        rdma->target = (void *) (uintptr_t) remote_address;
    }
    *out = rdma;
    return OPAL_SUCCESS;
}

/*
 * Carries out an operation of this process on its own memory, by the processor: at `target`, or, if
 * that is NULL, where its key and offset say. (osc/rdma wants one module to reach all processes of
 * a window, the own one included.) Returns what another process would answer: 0 or a negative
 * errno. Does not complete the operation.
 */
static int execute_loopback(btl_ib_engine_t *engine, btl_ib_op_t *op, void *target)
{
    if (target == NULL) {
        target = btl_ib_region_find(engine, &op->key, op->offset, btl_ib_memory_size_of(op),
                                    btl_ib_memory_access_of(op));
    }
    if (target == NULL) {
        return -EACCES;
    }
    if (op->kind == BTL_IB_OP_ATOMIC) {
        return btl_ib_atomic_execute(target, op->code, op->type, op->operand, op->compare,
                                     &op->result);
    }
    if (op->size == 0) {
        return 0; /* op->local may be NULL */
    }
    if (op->kind == BTL_IB_OP_PUT) {
        memmove(target, op->local, (size_t) op->size);
    } else {
        memmove(op->local, target, (size_t) op->size);
    }
    return 0;
}

/* ---- dividing among rails ---- */

/*
 * True if a put or get may be divided among several rails. Puts of ob1 may not: ob1 has divided
 * them itself. An operation that exceeds its region stays whole: its target either rejects all of
 * it, and no byte is placed, or finds it in another region of a window.
 */
static bool may_be_divided(const btl_ib_rdma_t *rdma, const btl_ib_memory_handle_t *handle)
{
    const btl_ib_op_t *op = &rdma->op;

    return op->size >= 2 * PART_MIN && rdma->endpoint->rails > 1 && handle != NULL
           && !op->place.known && op->offset <= handle->size
           && op->size <= handle->size - op->offset
           && (op->kind == BTL_IB_OP_GET || (handle->pinned & BTL_IB_ACCESS_WINDOW) != 0);
}

/* Finds the other endpoints of the same peer that may carry parts: those whose connections use
 * their own rails. (After a failover two connections share a rail.) Fills in `rails` with them,
 * retained, and *bandwidth with the sum of all rails, that of `own` included. Returns how many it
 * found. */
static uint32_t choose_rails(const btl_ib_endpoint_t *own, btl_ib_endpoint_t **rails,
                             uint64_t *bandwidth)
{
    const btl_ib_component_t *component = &mca_btl_ib_component;
    const uint64_t name = btl_ib_conn_name(own->conn);
    uint32_t count = 0;

    *bandwidth = own->module->super.btl_bandwidth;
    for (uint32_t i = 0; i < component->module_count; ++i) {
        btl_ib_module_t *module = component->modules[i];
        btl_ib_endpoint_t *endpoint =
            module == NULL || module == own->module ? NULL : btl_ib_endpoint_find(module, name);

        if (endpoint != NULL && btl_ib_conn_path(endpoint->conn).own) {
            OBJ_RETAIN(endpoint);
            rails[count++] = endpoint;
            *bandwidth += module->super.btl_bandwidth;
        }
    }
    return count;
}

/* Starts parts of an operation over other rails, in proportion to their bandwidths. The operation
 * keeps the rest, of op.size bytes. Parts are cut off at its end, so that the rest is in one piece
 * even if some of them cannot be started. */
static void divide(btl_ib_rdma_t *rdma)
{
    btl_ib_endpoint_t *rails[BTL_IB_RAILS_MAX];
    const uint64_t size = rdma->op.size;
    uint64_t bandwidth;
    const uint32_t count = choose_rails(rdma->endpoint, rails, &bandwidth);

    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t units = size / PART_UNIT * rails[i]->module->super.btl_bandwidth / bandwidth;
        const uint64_t share = units * PART_UNIT;

        if (share >= PART_MIN && rdma->op.size - share >= PART_MIN
            && start_part(rdma, rails[i], rdma->op.size - share, share)) {
            rdma->op.size -= share;
        }
        OBJ_RELEASE(rails[i]);
    }
}

/* ---- start of the whole ---- */

/* Starts a prepared operation. Returns what the BTL function returns: OPAL_SUCCESS if the callback
 * was or will be called; after any other status it is not. */
static int rdma_start(btl_ib_rdma_t *rdma, mca_btl_base_rdma_completion_fn_t cbfunc,
                      void *cbcontext, void *cbdata)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_endpoint_t *endpoint = rdma->endpoint;
    btl_ib_module_t *module = endpoint->module;
    btl_ib_conn_t *conn = endpoint->conn;
    int rc = -EPIPE;

    rdma->cbfunc = cbfunc;
    rdma->cbcontext = cbcontext;
    rdma->cbdata = cbdata;
    btl_ib_lock();
    rdma_enter(rdma);
    if (rdma->op.kind == BTL_IB_OP_ATOMIC && component->osc_locks.watched) {
        note_atomic_start(rdma);
    }
    if (rdma->op.by_device && conn == NULL) {
        conn = btl_ib_endpoint_loopback(module);
    }
    if (rdma->divides && !endpoint->closing) {
        divide(rdma);
    }
    if (OPAL_LIKELY(!endpoint->closing && conn != NULL)) {
        rc = btl_ib_op_start(conn, &rdma->op, btl_ib_now());
        btl_ib_end_call(component->engine);
        btl_ib_poll_throttle_reset(&component->throttle);
    } else if (!endpoint->closing && !rdma->op.by_device) {
        rdma_complete(rdma, execute_loopback(component->engine, &rdma->op, rdma->target));
        rc = 0;
    }
    if (OPAL_UNLIKELY(rc == -EPIPE) && btl_ib_endpoint_is_gone(endpoint)) {
        btl_ib_rdma_done(&rdma->op, rc); /* kept: it fails when the death is reported */
        rc = 0;
    } else if (OPAL_UNLIKELY(rc != 0 && rdma->parts > 1)) {
        rdma_complete(rdma, rc); /* the callback is called when its other parts are over */
        rc = 0;
    } else if (OPAL_UNLIKELY(rc != 0)) {
        end_job_if_lost(rdma, rc);
        rdma_forget(rdma);
    }
    btl_ib_unlock();
    return btl_ib_opal_status(rc);
}

/* ---- put and get ---- */

/* Puts or gets at most `limit` bytes. */
static int transfer(mca_btl_base_module_t *btl, btl_ib_endpoint_t *endpoint, btl_ib_op_kind_t kind,
                    size_t limit, void *local_address, uint64_t remote_address,
                    btl_ib_memory_handle_t *local_handle,
                    const btl_ib_memory_handle_t *remote_handle, size_t size,
                    mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    btl_ib_memory_handle_t copy;
    btl_ib_rdma_t *rdma;
    int rc;

    if (OPAL_UNLIKELY(size > limit)) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    rc = btl_ib_memory_handle_read(&remote_handle, &copy);
    if (OPAL_LIKELY(rc == OPAL_SUCCESS)) {
        rc = rdma_prepare((btl_ib_module_t *) btl, endpoint, kind, local_address, remote_address,
                          remote_handle, &rdma);
    }
    if (OPAL_UNLIKELY(rc != OPAL_SUCCESS)) {
        return rc;
    }
    rdma->local_handle = local_handle;
    rdma->op.size = size;
    rdma->op.mem = NULL;
    place_for_device(rdma, remote_handle);
    rdma->divides = may_be_divided(rdma, remote_handle);
    if (local_handle != NULL) {
        rdma->op.mem = btl_ib_device_memory_of(local_handle, local_address, size);
    }
    return rdma_start(rdma, cbfunc, cbcontext, cbdata);
}

static int module_put(mca_btl_base_module_t *btl, btl_ib_endpoint_t *endpoint, void *local_address,
                      uint64_t remote_address, btl_ib_memory_handle_t *local_handle,
                      btl_ib_memory_handle_t *remote_handle, size_t size, int flags, int order,
                      mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    (void) flags;
    (void) order;
    return transfer(btl, endpoint, BTL_IB_OP_PUT, btl->btl_put_limit, local_address, remote_address,
                    local_handle, remote_handle, size, cbfunc, cbcontext, cbdata);
}

static int module_get(mca_btl_base_module_t *btl, btl_ib_endpoint_t *endpoint, void *local_address,
                      uint64_t remote_address, btl_ib_memory_handle_t *local_handle,
                      btl_ib_memory_handle_t *remote_handle, size_t size, int flags, int order,
                      mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    (void) flags;
    (void) order;
    return transfer(btl, endpoint, BTL_IB_OP_GET, btl->btl_get_limit, local_address, remote_address,
                    local_handle, remote_handle, size, cbfunc, cbcontext, cbdata);
}

/* ---- atomics ---- */

/* Each atomic: Open MPI's name, the engine's, and the flag by which a module offers it. */
static const struct {
    mca_btl_base_atomic_op_t op;
    btl_ib_atomic_code_t code;
    uint32_t supports;
} atomics[] = {
    {MCA_BTL_ATOMIC_ADD, BTL_IB_ATOMIC_ADD, MCA_BTL_ATOMIC_SUPPORTS_ADD},
    {MCA_BTL_ATOMIC_AND, BTL_IB_ATOMIC_AND, MCA_BTL_ATOMIC_SUPPORTS_AND},
    {MCA_BTL_ATOMIC_OR, BTL_IB_ATOMIC_OR, MCA_BTL_ATOMIC_SUPPORTS_OR},
    {MCA_BTL_ATOMIC_XOR, BTL_IB_ATOMIC_XOR, MCA_BTL_ATOMIC_SUPPORTS_XOR},
    {MCA_BTL_ATOMIC_LAND, BTL_IB_ATOMIC_LAND, MCA_BTL_ATOMIC_SUPPORTS_LAND},
    {MCA_BTL_ATOMIC_LOR, BTL_IB_ATOMIC_LOR, MCA_BTL_ATOMIC_SUPPORTS_LOR},
    {MCA_BTL_ATOMIC_LXOR, BTL_IB_ATOMIC_LXOR, MCA_BTL_ATOMIC_SUPPORTS_LXOR},
    {MCA_BTL_ATOMIC_SWAP, BTL_IB_ATOMIC_SWAP, MCA_BTL_ATOMIC_SUPPORTS_SWAP},
    {MCA_BTL_ATOMIC_MIN, BTL_IB_ATOMIC_MIN, MCA_BTL_ATOMIC_SUPPORTS_MIN},
    {MCA_BTL_ATOMIC_MAX, BTL_IB_ATOMIC_MAX, MCA_BTL_ATOMIC_SUPPORTS_MAX},
};

/* Arguments of an atomic beyond an endpoint and its callback. */
typedef struct atomic {
    btl_ib_atomic_code_t code;
    uint32_t supports; /* flag that the module must have */
    int flags;         /* MCA_BTL_ATOMIC_FLAG_* */
    uint64_t operand;
    uint64_t compare;
} atomic_t;

static btl_ib_atomic_type_t atomic_type(int flags)
{
    const bool is_float = (flags & MCA_BTL_ATOMIC_FLAG_FLOAT) != 0;

    if ((flags & MCA_BTL_ATOMIC_FLAG_32BIT) != 0) {
        return is_float ? BTL_IB_ATOMIC_FLOAT : BTL_IB_ATOMIC_INT32;
    }
    return is_float ? BTL_IB_ATOMIC_DOUBLE : BTL_IB_ATOMIC_INT64;
}

/* True if the module offers the atomic, and the region allows it. Where devices change the words of
 * a region nothing else may, and devices have fewer atomics. */
static bool is_offered(const btl_ib_module_t *module, const atomic_t *atomic,
                       const btl_ib_memory_handle_t *handle)
{
    const btl_ib_atomic_type_t type = atomic_type(atomic->flags);
    uint32_t needed = atomic->supports;

    if ((atomic->flags & MCA_BTL_ATOMIC_FLAG_32BIT) != 0) {
        needed |= MCA_BTL_ATOMIC_SUPPORTS_32BIT;
    }
    if ((atomic->flags & MCA_BTL_ATOMIC_FLAG_FLOAT) != 0) {
        needed |= MCA_BTL_ATOMIC_SUPPORTS_FLOAT;
    }
    return needed == (needed & module->super.btl_atomic_flags)
           && btl_ib_atomic_supported(atomic->code, type)
           && (handle == NULL || handle->device_atomic == 0
               || (module->device_atomics && type == BTL_IB_ATOMIC_INT64
                   && (atomic->supports & BTL_IB_ATOMIC_FLAGS_DEVICE) != 0));
}

/*
 * Starts an atomic. Returns NOT_SUPPORTED for one that we do not offer, or not at that address:
 * only after this status osc/rdma uses another way for accumulates. For its locks it has no other
 * way: whatever the error, it asks again for ever or goes on without the lock. So what locks need
 * is always offered, and if a device fails at it the job ends (end_job_if_lost()).
 */
static int start_atomic(btl_ib_module_t *module, btl_ib_endpoint_t *endpoint, void *local_address,
                        uint64_t remote_address, btl_ib_memory_handle_t *local_handle,
                        const btl_ib_memory_handle_t *remote_handle, const atomic_t *atomic,
                        mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    const btl_ib_atomic_type_t type = atomic_type(atomic->flags);
    btl_ib_memory_handle_t copy;
    btl_ib_rdma_t *rdma;
    int rc = btl_ib_memory_handle_read(&remote_handle, &copy);

    if (OPAL_UNLIKELY(rc != OPAL_SUCCESS)) {
        return rc;
    }
    if (!is_offered(module, atomic, remote_handle)
        || remote_address % btl_ib_atomic_size(type) != 0) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    rc = rdma_prepare(module, endpoint, BTL_IB_OP_ATOMIC, local_address, remote_address,
                      remote_handle, &rdma);
    if (OPAL_UNLIKELY(rc != OPAL_SUCCESS)) {
        return rc;
    }
    rdma->local_handle = local_handle;
    rdma->op.code = atomic->code;
    rdma->op.type = type;
    rdma->op.operand = atomic->operand;
    rdma->op.compare = atomic->compare;
    place_for_device(rdma, remote_handle);
    return rdma_start(rdma, cbfunc, cbcontext, cbdata);
}

static int module_atomic_fop(mca_btl_base_module_t *btl, btl_ib_endpoint_t *endpoint,
                             void *local_address, uint64_t remote_address,
                             btl_ib_memory_handle_t *local_handle,
                             btl_ib_memory_handle_t *remote_handle, mca_btl_base_atomic_op_t op,
                             uint64_t operand, int flags, int order,
                             mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                             void *cbdata)
{
    atomic_t atomic = {.flags = flags, .operand = operand};

    (void) order;
    for (size_t i = 0; i < sizeof(atomics) / sizeof(atomics[0]); ++i) {
        if (op == atomics[i].op) {
            atomic.code = atomics[i].code;
            atomic.supports = atomics[i].supports;
        }
    }
    return start_atomic((btl_ib_module_t *) btl, endpoint, local_address, remote_address,
                        local_handle, remote_handle, &atomic, cbfunc, cbcontext, cbdata);
}

static int module_atomic_op(mca_btl_base_module_t *btl, btl_ib_endpoint_t *endpoint,
                            uint64_t remote_address, btl_ib_memory_handle_t *remote_handle,
                            mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                            mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    return module_atomic_fop(btl, endpoint, NULL, remote_address, NULL, remote_handle, op, operand,
                             flags, order, cbfunc, cbcontext, cbdata);
}

static int module_atomic_cswap(mca_btl_base_module_t *btl, btl_ib_endpoint_t *endpoint,
                               void *local_address, uint64_t remote_address,
                               btl_ib_memory_handle_t *local_handle,
                               btl_ib_memory_handle_t *remote_handle, uint64_t compare,
                               uint64_t value, int flags, int order,
                               mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                               void *cbdata)
{
    const atomic_t atomic = {
        .code = BTL_IB_ATOMIC_CSWAP,
        .supports = MCA_BTL_ATOMIC_SUPPORTS_CSWAP,
        .flags = flags,
        .operand = value,
        .compare = compare,
    };

    (void) order;
    return start_atomic((btl_ib_module_t *) btl, endpoint, local_address, remote_address,
                        local_handle, remote_handle, &atomic, cbfunc, cbcontext, cbdata);
}

/* ---- flush ---- */

/* True if an operation to `endpoint` (NULL: to any) with number `last` or less is under way. An
 * operation whose callback this thread is in counts as over: it would wait for itself. */
static bool rdma_pending(const btl_ib_module_t *module, const btl_ib_endpoint_t *endpoint,
                         uint64_t last)
{
    BTL_IB_LIST_FOREACH (const btl_ib_rdma_t, rdma, &module->rdma.active, link) {
        if (rdma->number > last) {
            return false;
        }
        if ((endpoint == NULL || endpoint == rdma->endpoint)
            && !(rdma->in_callback && pthread_equal(rdma->caller, pthread_self()))) {
            return true;
        }
    }
    return false;
}

/* Waits for all operations that were started before. Calls opal_progress(), not ours alone: a peer
 * that is to answer may itself wait for this process over another BTL. osc/rdma of 4.1 passes no
 * endpoint, and so waits for all peers, also for gets of ob1. */
static int module_flush(mca_btl_base_module_t *btl, btl_ib_endpoint_t *endpoint)
{
    btl_ib_module_t *module = (btl_ib_module_t *) btl;
    uint64_t last;

    btl_ib_lock();
    last = module->rdma.started;
    while (rdma_pending(module, endpoint, last)) {
        btl_ib_unlock();
        opal_progress();
        btl_ib_lock();
    }
    btl_ib_unlock();
    return OPAL_SUCCESS;
}

void btl_ib_rdma_functions(mca_btl_base_module_t *module)
{
    module->btl_put = module_put;
    module->btl_get = module_get;
    module->btl_atomic_op = module_atomic_op;
    module->btl_atomic_fop = module_atomic_fop;
    module->btl_atomic_cswap = module_atomic_cswap;
    module->btl_flush = module_flush;
}
