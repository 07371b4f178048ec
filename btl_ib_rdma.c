/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations: put, get, atomics, and the registration of memory for them.
 */

#include "btl_ib_endpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "btl_ib_loopback.h"

#define HANDLE_WORDS (sizeof(struct mca_btl_base_registration_handle_t) / sizeof(uint64_t))

static_assert(sizeof(struct mca_btl_base_registration_handle_t) <= MCA_BTL_REG_HANDLE_MAX_SIZE,
              "it must fit into the packets of ob1");
static_assert(offsetof(struct mca_btl_base_registration_handle_t, check)
                  == (HANDLE_WORDS - 1) * sizeof(uint64_t),
              "the check covers all that is before it, and is the last");

/* us that a handle may be half of one and half of another: its owner may lose the processor while
 * it moves it. */
enum { HANDLE_PATIENCE = 1000 * 1000 };

#define REMOTE_ACCESS                                                                              \
    (MCA_BTL_REG_FLAG_REMOTE_READ | MCA_BTL_REG_FLAG_REMOTE_WRITE | MCA_BTL_REG_FLAG_REMOTE_ATOMIC)

/* An operation on its way. */
typedef struct btl_ib_rdma {
    opal_free_list_item_t super; /* first: Open MPI casts */
    btl_ib_op_t op;
    struct mca_btl_base_endpoint_t *endpoint;
    void *here; /* what it is about, if that was named by an address of ours; else NULL */
    void *local_address;
    struct mca_btl_base_registration_handle_t *local_handle;
    mca_btl_base_rdma_completion_fn_t cbfunc; /* may be NULL */
    void *cbcontext;
    void *cbdata;
    bool in_callback; /* it is over, and `caller` tells its owner */
    pthread_t caller;
    uint64_t number;           /* of its beginning, in the module */
    btl_ib_list_t link;        /* in the module's list, in the order of the numbers */
    btl_ib_list_t failed_link; /* in its endpoint's list of what died with it */
    int status;                /* of one in that list */
} btl_ib_rdma_t;

/* A region that is registered, or was only named as local memory. */
typedef struct btl_ib_registration {
    opal_free_list_item_t super; /* first: Open MPI casts */
    bool remote;                 /* the engine knows it */
    btl_ib_pin_t *pin;           /* the device, too; or NULL */
    struct mca_btl_base_registration_handle_t handle;
} btl_ib_registration_t;

static void rdma_constructor(btl_ib_rdma_t *rdma)
{
    memset(&rdma->op, 0, sizeof(rdma->op));
    btl_ib_list_init(&rdma->link);
    btl_ib_list_init(&rdma->failed_link);
}

OBJ_CLASS_INSTANCE(btl_ib_rdma_t, opal_free_list_item_t, rdma_constructor, NULL);
OBJ_CLASS_INSTANCE(btl_ib_registration_t, opal_free_list_item_t, NULL, NULL);

static int list_init(opal_free_list_t *list, size_t size, opal_class_t *class)
{
    const btl_ib_params_t *params = &mca_btl_ib_component.params;

    OBJ_CONSTRUCT(list, opal_free_list_t);
    return opal_free_list_init(list, size, opal_cache_line_size, class, 0, 0, params->free_list_num,
                               -1, params->free_list_inc, NULL, 0, NULL, NULL, NULL);
}

int btl_ib_rdma_init(btl_ib_module_t *module)
{
    const int rc = list_init(&module->rdmas, sizeof(btl_ib_rdma_t), OBJ_CLASS(btl_ib_rdma_t));
    const int rc_registrations = list_init(&module->registrations, sizeof(btl_ib_registration_t),
                                           OBJ_CLASS(btl_ib_registration_t));

    btl_ib_list_init(&module->rdmas_active);
    return OPAL_SUCCESS != rc ? rc : rc_registrations;
}

void btl_ib_rdma_fini(btl_ib_module_t *module)
{
    OBJ_DESTRUCT(&module->rdmas);
    OBJ_DESTRUCT(&module->registrations);
}

/* ---- memory ---- */

static uint32_t access_of(uint32_t flags)
{
    return (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_READ) ? BTL_IB_ACCESS_READ : 0)
           | (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_WRITE) ? BTL_IB_ACCESS_WRITE : 0)
           | (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC) ? BTL_IB_ACCESS_ATOMIC : 0);
}

/*
 * With osc_rdma_acc_use_amo=0 osc/rdma changes small numbers by a compare-and-swap of the aligned 8
 * bytes around them, which may reach beyond both ends of the window; devices that register whole
 * pages allow it. So does the processor: 8 aligned bytes never belong to two pages.
 */
static void widen_for_atomics(char **base, size_t *size)
{
    const size_t before = (uintptr_t) *base % 8;

    *base -= before;
    *size = (*size + before + 7) / 8 * 8;
}

/* Let the device use it as well, if it can. Whether devices change its words is settled with that. */
static void pin(btl_ib_module_t *module, btl_ib_registration_t *registration, char *from,
                size_t size, uint32_t flags)
{
    struct mca_btl_base_registration_handle_t *handle = &registration->handle;

    if (!module->device_atomics) {
        flags &= ~(uint32_t) MCA_BTL_REG_FLAG_REMOTE_ATOMIC;
    }
    registration->pin = btl_ib_pin_take(module, from, size, flags);
    if (NULL != registration->pin && registration->remote) {
        handle->device_key = btl_ib_pin_key(registration->pin);
        handle->rail = (uint16_t) module->rail;
        handle->size = size;
        handle->pinned = (uint8_t) access_of(flags);
        handle->device_atomic = 0 != (flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC);
    }
}

/* May processors change words that devices change? */
static bool is_global(const btl_ib_module_t *module)
{
    return 0 != (module->super.btl_atomic_flags & MCA_BTL_ATOMIC_SUPPORTS_GLOB);
}

/*
 * Is it memory of a window, for all peers? osc/rdma of 4.1, 5.0 and 6.0 registers all that peers
 * may use so: for any endpoint, with all rights (MCA_BTL_REG_FLAG_ACCESS_ANY). ob1 registers a
 * message for one endpoint, and for read or write alone, since it knows no atomics; so does 5.0's
 * detector of dead processes.
 */
static bool is_window(const struct mca_btl_base_endpoint_t *endpoint, uint32_t flags)
{
    return MCA_BTL_ENDPOINT_ANY == endpoint && REMOTE_ACCESS == (flags & REMOTE_ACCESS);
}

/* Let the engine serve it; but words that are the device's alone are changed by no engine, whatever a peer asks for. */
static int add_region(const btl_ib_module_t *module, btl_ib_registration_t *registration,
                      char *from, size_t size, uint32_t access)
{
    struct mca_btl_base_registration_handle_t *handle = &registration->handle;
    int rc;

    if (0 != handle->device_atomic && !is_global(module)) {
        access &= ~(uint32_t) BTL_IB_ACCESS_ATOMIC;
    }
    btl_ib_lock();
    rc = btl_ib_region_add(mca_btl_ib_component.engine, from, size, access, &handle->key);
    btl_ib_unlock();
    return rc;
}

/* Odd factors, one for each word: halves of two handles do not fit together. */
static uint64_t check_of(const struct mca_btl_base_registration_handle_t *handle)
{
    uint64_t words[HANDLE_WORDS];
    uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t sum = 0;

    memcpy(words, handle, sizeof(words));
    for (size_t i = 0; i < HANDLE_WORDS - 1; ++i, factor *= UINT64_C(0xd1342543de82ef95)) {
        sum += words[i] * factor;
    }
    return sum;
}

/*
 * From now on *handle (if it is not NULL) is a copy of the peer's, as it was at one moment.
 * osc/rdma keeps the handles of a dynamic window in memory that all processes of a host share, and
 * reads them there without a lock while their owner attaches and detaches memory: what is read may
 * be another region's (docs/architecture.md, chapter 8), or a part of one and a part of another.
 * The latter would name memory that nobody meant, and passes in a moment.
 */
static int read_handle(const struct mca_btl_base_registration_handle_t **handle,
                       struct mca_btl_base_registration_handle_t *copy)
{
    uint64_t begun = 0;

    if (NULL == *handle) {
        return OPAL_SUCCESS;
    }
    for (;;) {
        memcpy(copy, *handle, sizeof(*copy));
        atomic_signal_fence(memory_order_seq_cst); /* what is checked is what is used */
        if (OPAL_LIKELY(check_of(copy) == copy->check)) {
            *handle = copy;
            return OPAL_SUCCESS;
        }
        if (0 == begun) {
            begun = btl_ib_now();
        } else if (btl_ib_now() - begun > HANDLE_PATIENCE) {
            BTL_IB_VERBOSE(1, "a registration handle of region %" PRIx64 " is damaged",
                           copy->key.id);
            return OPAL_ERR_BAD_PARAM;
        }
        sched_yield();
    }
}

struct mca_btl_base_registration_handle_t *
btl_ib_register_mem(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                    void *base, size_t size, uint32_t flags)
{
    btl_ib_module_t *module = (btl_ib_module_t *) btl;
    btl_ib_registration_t *registration =
        (btl_ib_registration_t *) opal_free_list_get(&module->registrations);
    char *from = base;
    int rc = 0;

    if (OPAL_UNLIKELY(NULL == registration)) {
        return NULL;
    }
    if (0 != (flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC)) {
        widen_for_atomics(&from, &size);
    }
    registration->remote = 0 != (flags & REMOTE_ACCESS);
    memset(&registration->handle, 0, sizeof(registration->handle));
    registration->handle.base = (uint64_t) (uintptr_t) from;
    pin(module, registration, from, size, flags);
    if (registration->remote) {
        rc = add_region(module, registration, from, size,
                        access_of(flags) | (is_window(endpoint, flags) ? BTL_IB_ACCESS_WINDOW : 0));
    }
    if (OPAL_UNLIKELY(0 != rc)) {
        BTL_IB_VERBOSE(1, "cannot register %zu bytes at %p: %s", size, base, strerror(-rc));
        btl_ib_pin_give(module, registration->pin);
        opal_free_list_return(&module->registrations, &registration->super);
        return NULL;
    }
    registration->handle.check = check_of(&registration->handle);
    return &registration->handle;
}

int btl_ib_deregister_mem(mca_btl_base_module_t *btl,
                          struct mca_btl_base_registration_handle_t *handle)
{
    btl_ib_module_t *module = (btl_ib_module_t *) btl;
    btl_ib_registration_t *registration = BTL_IB_CONTAINER(handle, btl_ib_registration_t, handle);

    if (registration->remote) {
        btl_ib_lock();
        btl_ib_region_remove(mca_btl_ib_component.engine, &handle->key);
        btl_ib_unlock();
    }
    btl_ib_pin_give(module, registration->pin);
    opal_free_list_return(&module->registrations, &registration->super);
    return OPAL_SUCCESS;
}

/* ---- the life of an operation ---- */

static const char *const kind_names[] = {
    [BTL_IB_OP_PUT] = "put",
    [BTL_IB_OP_GET] = "get",
    [BTL_IB_OP_ATOMIC] = "atomic",
};

/* Bytes of the target that it is about. */
static size_t rdma_size(const btl_ib_rdma_t *rdma)
{
    return BTL_IB_OP_ATOMIC == rdma->op.kind ? btl_ib_atomic_size(rdma->op.type)
                                             : (size_t) rdma->op.size;
}

/*
 * An atomic of a device is lost: executed or not, nobody knows, and nobody else may execute it. osc/rdma goes on without
 * its result, or repeats its lock for ever, so the job has to end, as for a dead peer. Called with the lock held, which is
 * released meanwhile.
 */
static void end_job(btl_ib_endpoint_t *endpoint, const btl_ib_op_t *op, int status)
{
    mca_btl_base_module_error_cb_fn_t error_cb = endpoint->module->error_cb;

    if (endpoint->told_lost) {
        return;
    }
    endpoint->told_lost = true;
    btl_ib_report_atomic_lost(endpoint, op->key.id, (int64_t) op->offset, -status);
    if (NULL != error_cb) {
        btl_ib_unlock();
        error_cb(&endpoint->module->super, MCA_BTL_ERROR_FLAGS_FATAL, endpoint->proc,
                 (char *) "btl ib lost an atomic operation");
        btl_ib_lock();
    }
}

/* Of a dead peer everybody has heard; and a refusal changed nothing. */
static bool is_lost(const btl_ib_rdma_t *rdma, int status)
{
    return 0 != status && -EACCES != status && rdma->op.by_device && !rdma->endpoint->closing
           && !rdma->endpoint->dead;
}

static void report_failure(const btl_ib_rdma_t *rdma, int status)
{
    const btl_ib_op_t *op = &rdma->op;

    if (-EACCES == status && !rdma->endpoint->told_refused) {
        rdma->endpoint->told_refused = true;
        /* osc/rdma drops the status of what it did not wait for, so that wrong results may be all
         * that a user sees: a refusal is shown to everybody, once for each target. */
        btl_ib_report_refused(rdma->endpoint, kind_names[op->kind], rdma_size(rdma),
                              (int64_t) op->offset);
    }

    BTL_IB_VERBOSE(1, "%s of %zu bytes at offset %" PRId64 " of region %" PRIx64 " of %s on %s: %s",
                   kind_names[op->kind], rdma_size(rdma), (int64_t) op->offset, op->key.id,
                   opal_process_name_print(rdma->endpoint->proc->proc_name), rdma->endpoint->host,
                   strerror(-status));
}

/* Of a word of 32 bits the result has the value, not the first bytes. */
static void store_result(const btl_ib_rdma_t *rdma)
{
    const uint32_t half = (uint32_t) rdma->op.result;
    const bool is_half = sizeof(half) == rdma_size(rdma);

    memcpy(rdma->local_address, is_half ? (const void *) &half : &rdma->op.result, rdma_size(rdma));
}

/* Tell the owner, then forget. It stays in the module's list until its callback has returned:
 * whoever was told by flush that all is done may free what the callback uses. */
static void finish(btl_ib_rdma_t *rdma, int status)
{
    btl_ib_endpoint_t *endpoint = rdma->endpoint;
    btl_ib_module_t *module = endpoint->module;

    if (OPAL_UNLIKELY(0 != status && !endpoint->closing)) {
        report_failure(rdma, status);
        if (is_lost(rdma, status)) {
            end_job(endpoint, &rdma->op, status);
        }
    }
    if (0 == status && BTL_IB_OP_ATOMIC == rdma->op.kind && NULL != rdma->local_address) {
        store_result(rdma);
    }
    if (NULL != rdma->cbfunc && !endpoint->closing) {
        rdma->in_callback = true;
        rdma->caller = pthread_self();
        btl_ib_unlock();
        rdma->cbfunc(&module->super, endpoint, rdma->local_address, rdma->local_handle,
                     rdma->cbcontext, rdma->cbdata, btl_ib_opal_status(status));
        btl_ib_lock();
    }
    btl_ib_list_remove(&rdma->link);
    opal_free_list_return(&module->rdmas, &rdma->super);
    OBJ_RELEASE(endpoint); /* retained by start() */
}

void btl_ib_rdma_done(btl_ib_op_t *op, int status)
{
    btl_ib_rdma_t *rdma = BTL_IB_CONTAINER(op, btl_ib_rdma_t, op);
    btl_ib_endpoint_t *endpoint = rdma->endpoint;

    if (0 != status && !endpoint->closing && NULL != endpoint->conn
        && btl_ib_conn_is_dead(endpoint->conn)) {
        /* ob1 and osc/rdma give up when an operation fails: dead() first says what happened. */
        rdma->status = status;
        btl_ib_list_push_tail(&endpoint->failed_rdmas, &rdma->failed_link);
        return;
    }
    finish(rdma, status);
}

void btl_ib_rdma_fail(btl_ib_endpoint_t *endpoint, bool quiet)
{
    btl_ib_list_t *link;

    while (NULL != (link = btl_ib_list_pop(&endpoint->failed_rdmas))) {
        btl_ib_rdma_t *rdma = BTL_IB_CONTAINER(link, btl_ib_rdma_t, failed_link);

        if (quiet) {
            rdma->cbfunc = NULL;
        }
        finish(rdma, rdma->status);
    }
}

/* May its device be asked for it? It would not refuse what is beyond the region but in its last page, or what the
 * cache allowed somebody else: the owner's engine does. */
static bool is_within(const btl_ib_op_t *op,
                      const struct mca_btl_base_registration_handle_t *handle)
{
    static const uint8_t rights[] = {
        [BTL_IB_OP_PUT] = BTL_IB_ACCESS_WRITE,
        [BTL_IB_OP_GET] = BTL_IB_ACCESS_READ,
        [BTL_IB_OP_ATOMIC] = BTL_IB_ACCESS_ATOMIC,
    };
    const uint64_t size = BTL_IB_OP_ATOMIC == op->kind ? btl_ib_atomic_size(op->type) : op->size;

    return 0 != (handle->pinned & rights[op->kind]) && op->offset <= handle->size
           && size <= handle->size - op->offset;
}

/*
 * How its target is named, once it is known what is wanted of it: NULL, by an address of ours. What is not within the
 * region is for its owner's engine to refuse, atomics as well; and to our own words the processor is nearer than the
 * device, if it may change them.
 */
static void name_target(btl_ib_rdma_t *rdma,
                        const struct mca_btl_base_registration_handle_t *handle)
{
    const btl_ib_endpoint_t *endpoint = rdma->endpoint;
    const bool ours = endpoint == endpoint->module->self;
    btl_ib_op_t *op = &rdma->op;

    op->by_device = false;
    op->place = (btl_ib_place_t){.known = false};
    if (NULL == handle || !is_within(op, handle)) {
        return;
    }
    op->by_device = BTL_IB_OP_ATOMIC == op->kind && 0 != handle->device_atomic
                    && !(ours && is_global(endpoint->module));
    op->place = (btl_ib_place_t){
        .address = handle->base,
        .key = handle->device_key,
        .rail = handle->rail,
        .known = true,
    };
}

/*
 * A descriptor, filled with what all kinds have, or an OPAL status. osc/rdma of Open MPI 4.1 has no
 * handle, and sometimes no endpoint, for memory that it could reach itself: then the address is one of
 * ours.
 */
static int prepare(btl_ib_module_t *module, btl_ib_endpoint_t *endpoint, btl_ib_op_kind_t kind,
                   void *local_address, uint64_t remote_address,
                   const struct mca_btl_base_registration_handle_t *remote_handle,
                   btl_ib_rdma_t **out)
{
    btl_ib_rdma_t *rdma;

    if (NULL == remote_handle) {
        endpoint = module->self;
    }
    if (OPAL_UNLIKELY(NULL == endpoint)) {
        return OPAL_ERR_UNREACH;
    }
    rdma = (btl_ib_rdma_t *) opal_free_list_get(&module->rdmas);
    if (OPAL_UNLIKELY(NULL == rdma)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rdma->endpoint = endpoint;
    rdma->local_address = local_address;
    rdma->in_callback = false;
    rdma->op.kind = kind;
    rdma->op.local = local_address;
    rdma->here = NULL;
    if (NULL != remote_handle) {
        rdma->op.key = remote_handle->key;
        /* May be negative, or beyond the region: the target compares it with what it registered. */
        rdma->op.offset = remote_address - remote_handle->base;
    } else {
        rdma->here = (void *) (uintptr_t) remote_address;
    }
    *out = rdma;
    return OPAL_SUCCESS;
}

/* Begin. Returns what the BTL function returns; unless OPAL_SUCCESS there is no callback. */
static int start(btl_ib_rdma_t *rdma, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                 void *cbdata)
{
    btl_ib_endpoint_t *endpoint = rdma->endpoint;
    btl_ib_module_t *module = endpoint->module;
    btl_ib_conn_t *conn;
    int rc = -EPIPE;

    rdma->cbfunc = cbfunc;
    rdma->cbcontext = cbcontext;
    rdma->cbdata = cbdata;
    btl_ib_lock();
    rdma->number = ++module->rdma_number;
    btl_ib_list_push_tail(&module->rdmas_active, &rdma->link);
    OBJ_RETAIN(endpoint); /* until finish() */
    conn = rdma->op.by_device && NULL == endpoint->conn ? btl_ib_self_conn(module) : endpoint->conn;
    if (OPAL_LIKELY(!endpoint->closing && NULL != conn)) {
        rc = btl_ib_op_start(conn, &rdma->op, btl_ib_now());
        btl_ib_pace_hurry(&mca_btl_ib_component.pace);
    } else if (!endpoint->closing && !rdma->op.by_device) {
        finish(rdma, btl_ib_self_execute(&rdma->op, rdma->here));
        rc = 0;
    }
    if (OPAL_UNLIKELY(0 != rc)) {
        if (is_lost(rdma, rc)) {
            end_job(endpoint, &rdma->op, rc);
        }
        btl_ib_list_remove(&rdma->link);
        opal_free_list_return(&module->rdmas, &rdma->super);
        OBJ_RELEASE(endpoint);
    }
    btl_ib_unlock();
    return btl_ib_opal_status(rc);
}

/* ---- the BTL functions ---- */

/* Put or get, of at most `limit` bytes. */
static int transfer(mca_btl_base_module_t *btl, btl_ib_endpoint_t *endpoint, btl_ib_op_kind_t kind,
                    size_t limit, void *local_address, uint64_t remote_address,
                    struct mca_btl_base_registration_handle_t *local_handle,
                    const struct mca_btl_base_registration_handle_t *remote_handle, size_t size,
                    mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    struct mca_btl_base_registration_handle_t copy;
    btl_ib_rdma_t *rdma;
    int rc;

    if (OPAL_UNLIKELY(size > limit)) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    rc = read_handle(&remote_handle, &copy);
    if (OPAL_UNLIKELY(OPAL_SUCCESS != rc)) {
        return rc;
    }
    rc = prepare((btl_ib_module_t *) btl, endpoint, kind, local_address, remote_address,
                 remote_handle, &rdma);
    if (OPAL_UNLIKELY(OPAL_SUCCESS != rc)) {
        return rc;
    }
    rdma->local_handle = local_handle;
    rdma->op.size = size;
    rdma->op.mem = NULL;
    name_target(rdma, remote_handle);
    if (NULL != local_handle) {
        rdma->op.mem =
            btl_ib_pin_mem(BTL_IB_CONTAINER(local_handle, btl_ib_registration_t, handle)->pin);
    }
    return start(rdma, cbfunc, cbcontext, cbdata);
}

int btl_ib_put(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
               void *local_address, uint64_t remote_address,
               struct mca_btl_base_registration_handle_t *local_handle,
               struct mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
               int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    (void) flags;
    (void) order;
    return transfer(btl, endpoint, BTL_IB_OP_PUT, btl->btl_put_limit, local_address, remote_address,
                    local_handle, remote_handle, size, cbfunc, cbcontext, cbdata);
}

int btl_ib_get(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
               void *local_address, uint64_t remote_address,
               struct mca_btl_base_registration_handle_t *local_handle,
               struct mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
               int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    (void) flags;
    (void) order;
    return transfer(btl, endpoint, BTL_IB_OP_GET, btl->btl_get_limit, local_address, remote_address,
                    local_handle, remote_handle, size, cbfunc, cbcontext, cbdata);
}

/* What Open MPI calls an atomic, what we do, and the flag that offers it. */
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

/* What one of them needs beyond an endpoint and its callback. */
typedef struct atomic {
    btl_ib_atomic_code_t code;
    uint32_t supports; /* what must be offered */
    int flags;         /* MCA_BTL_ATOMIC_FLAG_* */
    uint64_t operand;
    uint64_t compare;
} atomic_t;

static btl_ib_atomic_type_t atomic_type(int flags)
{
    const bool is_float = 0 != (flags & MCA_BTL_ATOMIC_FLAG_FLOAT);

    if (0 != (flags & MCA_BTL_ATOMIC_FLAG_32BIT)) {
        return is_float ? BTL_IB_ATOMIC_FLOAT : BTL_IB_ATOMIC_INT32;
    }
    return is_float ? BTL_IB_ATOMIC_DOUBLE : BTL_IB_ATOMIC_INT64;
}

static bool is_offered(const btl_ib_module_t *module, const atomic_t *atomic)
{
    uint32_t needed = atomic->supports;

    if (0 != (atomic->flags & MCA_BTL_ATOMIC_FLAG_32BIT)) {
        needed |= MCA_BTL_ATOMIC_SUPPORTS_32BIT;
    }
    if (0 != (atomic->flags & MCA_BTL_ATOMIC_FLAG_FLOAT)) {
        needed |= MCA_BTL_ATOMIC_SUPPORTS_FLOAT;
    }
    return needed == (needed & module->super.btl_atomic_flags)
           && btl_ib_atomic_supported(atomic->code, atomic_type(atomic->flags));
}

/* Where devices change the words of a region nobody else may, and they can do less. */
static bool fits(const btl_ib_module_t *module, const atomic_t *atomic,
                 const struct mca_btl_base_registration_handle_t *handle)
{
    return NULL == handle || 0 == handle->device_atomic
           || (module->device_atomics && BTL_IB_ATOMIC_INT64 == atomic_type(atomic->flags)
               && 0 != (atomic->supports & BTL_IB_ATOMIC_FLAGS_DEVICE));
}

/*
 * What we do not offer, or not at that address, is NOT_SUPPORTED: for that alone osc/rdma finds another way where data are
 * concerned. Its locks it asks for again for ever, or goes on without them, whatever the error: what they need is always
 * offered, and where a device cannot do it the job ends (end_job()).
 */
static int start_atomic(btl_ib_module_t *module, btl_ib_endpoint_t *endpoint, void *local_address,
                        uint64_t remote_address,
                        struct mca_btl_base_registration_handle_t *local_handle,
                        const struct mca_btl_base_registration_handle_t *remote_handle,
                        const atomic_t *atomic, mca_btl_base_rdma_completion_fn_t cbfunc,
                        void *cbcontext, void *cbdata)
{
    const btl_ib_atomic_type_t type = atomic_type(atomic->flags);
    struct mca_btl_base_registration_handle_t copy;
    btl_ib_rdma_t *rdma;
    int rc = read_handle(&remote_handle, &copy);

    if (OPAL_UNLIKELY(OPAL_SUCCESS != rc)) {
        return rc;
    }
    if (!is_offered(module, atomic) || 0 != remote_address % btl_ib_atomic_size(type)
        || !fits(module, atomic, remote_handle)) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    rc = prepare(module, endpoint, BTL_IB_OP_ATOMIC, local_address, remote_address, remote_handle,
                 &rdma);
    if (OPAL_UNLIKELY(OPAL_SUCCESS != rc)) {
        return rc;
    }
    rdma->local_handle = local_handle;
    rdma->op.code = atomic->code;
    rdma->op.type = type;
    rdma->op.operand = atomic->operand;
    rdma->op.compare = atomic->compare;
    name_target(rdma, remote_handle);
    return start(rdma, cbfunc, cbcontext, cbdata);
}

int btl_ib_atomic_fop(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                      void *local_address, uint64_t remote_address,
                      struct mca_btl_base_registration_handle_t *local_handle,
                      struct mca_btl_base_registration_handle_t *remote_handle,
                      mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                      mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
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

int btl_ib_atomic_op(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                     uint64_t remote_address,
                     struct mca_btl_base_registration_handle_t *remote_handle,
                     mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                     mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    return btl_ib_atomic_fop(btl, endpoint, NULL, remote_address, NULL, remote_handle, op, operand,
                             flags, order, cbfunc, cbcontext, cbdata);
}

int btl_ib_atomic_cswap(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                        void *local_address, uint64_t remote_address,
                        struct mca_btl_base_registration_handle_t *local_handle,
                        struct mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                        uint64_t value, int flags, int order,
                        mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
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

/*
 * Is one to `endpoint` (NULL: to any) that began before or as number `last` still on its way? One whose
 * callback runs further down the stack is over, for its caller.
 */
static bool pending(const btl_ib_module_t *module, const btl_ib_endpoint_t *endpoint, uint64_t last)
{
    const btl_ib_list_t *active = &module->rdmas_active;

    for (btl_ib_list_t *link = btl_ib_list_first(active); NULL != link;
         link = btl_ib_list_next(active, link)) {
        const btl_ib_rdma_t *rdma = BTL_IB_CONTAINER(link, btl_ib_rdma_t, link);

        if (rdma->number > last) {
            return false;
        }
        if ((NULL == endpoint || endpoint == rdma->endpoint)
            && !(rdma->in_callback && pthread_equal(rdma->caller, pthread_self()))) {
            return true;
        }
    }
    return false;
}

/* Waits by Open MPI's own progress: a peer that shall answer may wait for us by another BTL. osc/rdma of
 * 4.1 names no endpoint, and so waits for all, also for what ob1 gets from others. */
int btl_ib_flush(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint)
{
    btl_ib_module_t *module = (btl_ib_module_t *) btl;
    uint64_t last;

    btl_ib_lock();
    last = module->rdma_number;
    while (pending(module, endpoint, last)) {
        btl_ib_unlock();
        opal_progress();
        btl_ib_lock();
    }
    btl_ib_unlock();
    return OPAL_SUCCESS;
}
