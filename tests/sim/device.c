/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What a rail's device does by itself with memory, its own process' and that of others, whether these look or
 * compute. As harsh as the interface allows:
 *
 *   start() ---- delay ----> executed at the target ---- delay ----> event
 *                            (or refused there)                      (or broken: of all with that peer, some
 *                                                                     executed, some not)
 *
 * A connection to a peer comes to be at the first operation, and anew after it broke.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { INSISTS = 100000 }; /* questions at a time: far more than connections and operations */

/* Memory that devices may use. */
typedef struct exposure {
    struct exposure *next;
    uint8_t *base;
    size_t size;
    unsigned access;
    uint32_t key;
} exposure_t;

/* The connection with one peer's device. */
typedef struct joint {
    struct joint *next;
    uint32_t address;
    uint32_t id; /* of the peer's rail */
    bool open;
    uint64_t open_at;
} joint_t;

typedef struct job {
    struct job *next;
    uint64_t number;
    btl_ib_rdma_work_t work;
    uint32_t address, id; /* the peer's rail */
    bool executed, over;
    int error;
    uint64_t before; /* atomics */
    uint8_t *bytes;  /* what is written, or was read */
} job_t;

struct device {
    sim_t *sim;
    rail_t *rail;
    proc_t *proc;
    uint32_t address, id;
    uint32_t keys;
    uint64_t numbers;
    exposure_t *exposures;
    joint_t *joints;
    job_t *jobs; /* the newest first */
    uint32_t njobs, nover;
    uint64_t full_at;    /* ns: when it last took nothing, */
    uint32_t full_times; /* and how often at that time */
};

/* ---- memory ---- */

static int expose(btl_ib_transport_t *t, void *base, size_t size, unsigned access, void **handle,
                  uint32_t *key)
{
    device_t *device = rail_device((rail_t *) t);
    const uint32_t self = device->proc->index;
    const fault_t *fault = fault_active(device->sim, F_NO_MEMORY, self, self);

    if (fault != NULL && !device->proc->spared && rng_chance(&device->sim->rng, fault->ppm)) {
        return -ENOMEM;
    }
    exposure_t *exposure = malloc(sizeof(*exposure));
    *exposure = (exposure_t){
        .next = device->exposures,
        .base = base,
        .size = size,
        .access = access,
        .key = device->id ^ ++device->keys << 8,
    };
    device->exposures = exposure;
    *handle = exposure;
    *key = exposure->key;
    return 0;
}

static void withdraw(btl_ib_transport_t *t, void *handle)
{
    device_t *device = rail_device((rail_t *) t);
    exposure_t **at = &device->exposures;

    for (const job_t *job = device->jobs; job != NULL; job = job->next) {
        if (job->work.mem == handle) {
            sim_fail(device->sim, "p%u withdraws memory that its device still uses",
                     device->proc->index);
        }
    }
    while (*at != NULL && *at != handle) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        sim_fail(device->sim, "p%u withdraws memory that is not exposed", device->proc->index);
    }
    exposure_t *exposure = *at;
    *at = exposure->next;
    free(exposure);
}

static bool covers(const exposure_t *exposure, uint64_t address, uint64_t size)
{
    const uint64_t base = (uint64_t) (uintptr_t) exposure->base;

    return address >= base && size <= exposure->size && address - base <= exposure->size - size;
}

/* ---- operations ---- */

static bool is_atomic(const job_t *job)
{
    return job->work.kind == BTL_IB_RDMA_ADD || job->work.kind == BTL_IB_RDMA_CSWAP;
}

static void check_work(const device_t *device, const btl_ib_rdma_work_t *work)
{
    const btl_ib_transport_attr_t *attr = &rail_transport(device->rail)->attr;
    const bool atomic = work->kind == BTL_IB_RDMA_ADD || work->kind == BTL_IB_RDMA_CSWAP;
    const exposure_t *mem = device->exposures;
    const uint32_t self = device->proc->index;

    if (atomic ? work->size != 8 || attr->rdma_atomics == BTL_IB_RDMA_ATOMICS_NONE
               : work->size < 1 || work->size > attr->rdma_max) {
        sim_fail(device->sim, "p%u lets its device move %llu bytes", self,
                 (unsigned long long) work->size);
    }
    if (work->mem == NULL && !atomic && work->size > attr->rdma_copied) {
        sim_fail(device->sim, "p%u lets its device copy %llu bytes", self,
                 (unsigned long long) work->size);
    }
    while (mem != NULL && mem != work->mem) {
        mem = mem->next;
    }
    if (work->mem != NULL
        && (mem == NULL || !covers(mem, (uint64_t) (uintptr_t) work->local, work->size))) {
        sim_fail(device->sim, "p%u lets its device use memory that is not exposed", self);
    }
}

/* An atomic that ends so was executed or not. */
static void excuse(const btl_ib_rdma_work_t *work)
{
    onesided_t *op = BTL_IB_CONTAINER(work->context, onesided_t, op);

    op->broken = true;
}

static device_t *peer_of(const job_t *job, const sim_t *sim)
{
    rail_t *rail = sim->bound[job->address];
    device_t *device = rail == NULL || rail_failed(rail) ? NULL : rail_device(rail);

    return device == NULL || device->id != job->id ? NULL : device;
}

/* Where it works on the peer's memory; NULL if it may not. */
static uint8_t *place_of(const job_t *job, const device_t *peer)
{
    static const unsigned rights[] = {
        [BTL_IB_RDMA_WRITE] = BTL_IB_RDMA_MAY_WRITE,
        [BTL_IB_RDMA_READ] = BTL_IB_RDMA_MAY_READ,
        [BTL_IB_RDMA_ADD] = BTL_IB_RDMA_MAY_ATOMIC,
        [BTL_IB_RDMA_CSWAP] = BTL_IB_RDMA_MAY_ATOMIC,
    };

    for (const exposure_t *e = peer->exposures; e != NULL; e = e->next) {
        if (e->key == job->work.key && (e->access & rights[job->work.kind])
            && covers(e, job->work.remote, job->work.size)) {
            return e->base + (job->work.remote - (uint64_t) (uintptr_t) e->base);
        }
    }
    return NULL;
}

static void change_word(job_t *job, uint8_t *word)
{
    const uint32_t code =
        job->work.kind == BTL_IB_RDMA_ADD ? BTL_IB_ATOMIC_ADD : BTL_IB_ATOMIC_CSWAP;

    if (btl_ib_atomic_execute(word, code, BTL_IB_ATOMIC_INT64, job->work.operand, job->work.compare,
                              &job->before)
        != 0) {
        job->error = EACCES;
    }
}

static void execute(device_t *device, job_t *job)
{
    const device_t *peer = peer_of(job, device->sim);
    uint8_t *place = peer == NULL ? NULL : place_of(job, peer);

    job->executed = true;
    if (place == NULL) {
        job->error = peer == NULL ? EPIPE : EACCES;
    } else if (is_atomic(job)) {
        change_word(job, place);
    } else if (job->work.kind == BTL_IB_RDMA_WRITE) {
        memcpy(place, job->work.mem != NULL ? job->work.local : job->bytes, job->work.size);
    } else {
        memcpy(job->bytes, place, job->work.size);
        if (job->work.mem != NULL) { /* part of it is there before its event */
            memcpy(job->work.local, place, job->work.size / 2);
        }
    }
}

static void end(device_t *device, job_t *job, int error)
{
    job->over = true;
    job->error = error;
    device->nover++;
    proc_wake(device->proc, device->sim->now + 100);
    if (error != 0 && error != EACCES) {
        excuse(&job->work);
    }
}

/* How far the operations with that peer came is not known. */
static void shatter(device_t *device, uint32_t address)
{
    joint_t **at = &device->joints;

    for (job_t *job = device->jobs; job != NULL; job = job->next) {
        if (job->address == address && !job->over) {
            if (!job->executed && rng_chance(&device->sim->rng, 500000)) {
                execute(device, job);
            }
            end(device, job, EPIPE);
        }
    }
    while (*at != NULL && (*at)->address != address) {
        at = &(*at)->next;
    }
    joint_t *joint = *at;
    if (joint != NULL) {
        *at = joint->next;
        free(joint);
    }
}

/* What is there arrives in local memory. */
static void bring(device_t *device, const job_t *job)
{
    if (is_atomic(job)) {
        memcpy(job->work.local, &job->before, sizeof(job->before));
    } else if (job->work.kind == BTL_IB_RDMA_READ) {
        memcpy(job->work.local, job->bytes, job->work.size);
    } else if (job->work.mem != NULL && memcmp(job->work.local, job->bytes, job->work.size) != 0) {
        sim_fail(device->sim, "p%u changed memory that its device was to write from",
                 device->proc->index);
    }
}

static void answered(device_t *device, job_t *job)
{
    sim_t *sim = device->sim;
    const uint32_t self = device->proc->index;
    const fault_t *fault = fault_active(sim, F_RDMA_BROKEN, self, self);

    if (job->error == EACCES) {
        fault_applied(sim, F_RDMA_REFUSED);
        end(device, job, EACCES); /* and the queue pair with it */
        shatter(device, job->address);
    } else if (job->error != 0 || (fault != NULL && rng_chance(&sim->rng, fault->ppm))) {
        fault_applied(sim, F_RDMA_BROKEN);
        shatter(device, job->address);
    } else {
        bring(device, job);
        fault_applied(sim, F_RDMA);
        end(device, job, 0);
    }
}

/* It came to the peer's device; or its answer came back. */
static void arrived(sim_t *sim, void *arg, uint64_t value)
{
    rail_t *rail = sim->bound[value >> 32];
    device_t *device = rail == NULL ? NULL : rail_device(rail);

    if (device == NULL || device->id != (uint32_t) value) {
        return;
    }
    job_t *job = device->jobs;
    while (job != NULL && job->number != (uint64_t) (uintptr_t) arg) {
        job = job->next;
    }
    if (job == NULL || job->over) {
        return; /* cancelled, or broken */
    }
    if (job->executed) {
        answered(device, job);
        return;
    }
    execute(device, job);
    sim_at(sim, sim->now + sim->delay, arrived, arg, value);
}

/* ---- connections ---- */

/* 0 if there is one with that address, else what start() returns. */
static int join(device_t *device, uint32_t address, uint32_t *id)
{
    sim_t *sim = device->sim;
    joint_t *joint = device->joints;

    while (joint != NULL && joint->address != address) {
        joint = joint->next;
    }
    if (joint == NULL) {
        joint = calloc(1, sizeof(*joint));
        joint->next = device->joints;
        joint->address = address;
        joint->open_at = sim->now + 3 * sim->delay + SIM_US(20);
        device->joints = joint;
    }
    if (sim->now < joint->open_at) {
        return -EAGAIN;
    }
    if (!joint->open) {
        rail_t *rail = sim->bound[address];
        joint->open = rail != NULL && !rail_failed(rail);
        joint->id = joint->open ? rail_device(rail)->id : 0;
    }
    if (!joint->open) {
        shatter(device, address);
        return -EHOSTUNREACH;
    }
    *id = joint->id;
    return 0;
}

/* Time stands still in a call of the engine: one without end would ask for ever. */
static void must_not_insist(device_t *device)
{
    sim_t *sim = device->sim;

    device->full_times = device->full_at == sim->now ? device->full_times + 1 : 1;
    device->full_at = sim->now;
    if (device->full_times == INSISTS) {
        sim_fail(sim, "p%u asks a device that takes nothing again and again", device->proc->index);
    }
}

static int obstacle(device_t *device, uint32_t address, uint32_t *id)
{
    sim_t *sim = device->sim;
    const uint32_t self = device->proc->index;
    const fault_t *full = fault_active(sim, F_RDMA_EAGAIN, self, self);
    const fault_t *far = fault_active(sim, F_RDMA_UNREACH, self, self);

    if (rail_failed(device->rail)) {
        return -ENETDOWN;
    }
    if (far != NULL && rng_chance(&sim->rng, far->ppm)) {
        fault_applied(sim, F_RDMA_UNREACH);
        return -EHOSTUNREACH;
    }
    if (device->njobs - device->nover >= rail_transport(device->rail)->attr.tx_depth
        || (full != NULL && rng_chance(&sim->rng, full->ppm))) {
        fault_applied(sim, F_RDMA_EAGAIN);
        must_not_insist(device);
        return -EAGAIN;
    }
    return join(device, address, id);
}

static int start(btl_ib_transport_t *t, const btl_ib_rdma_work_t *work)
{
    device_t *device = rail_device((rail_t *) t);
    sim_t *sim = device->sim;
    const uint32_t address = rail_address_of(device->rail, work->to);
    uint32_t id = 0;

    check_work(device, work);
    int rc = obstacle(device, address, &id);
    if (rc != 0) {
        if (rc != -EAGAIN) {
            excuse(work);
        }
        return rc;
    }
    job_t *job = calloc(1, sizeof(*job));
    job->work = *work;
    job->number = ++device->numbers;
    job->address = address;
    job->id = id;
    job->bytes = malloc(work->size);
    if (work->kind == BTL_IB_RDMA_WRITE) {
        memcpy(job->bytes, work->local, work->size);
    }
    job->next = device->jobs;
    device->jobs = job;
    device->njobs++;
    sim_at(sim, sim->now + sim->delay + rng_range(&sim->rng, 0, sim->delay), arrived,
           (void *) (uintptr_t) job->number, (uint64_t) device->address << 32 | device->id);
    return 0;
}

static void drop(device_t *device, job_t **at)
{
    job_t *job = *at;

    *at = job->next;
    device->njobs--;
    device->nover -= job->over;
    free(job->bytes);
    free(job);
}

static void cancel(btl_ib_transport_t *t, btl_ib_addr_t to)
{
    device_t *device = rail_device((rail_t *) t);
    const uint32_t address = rail_address_of(device->rail, to);
    job_t **at = &device->jobs;

    shatter(device, address);
    while (*at != NULL) {
        if ((*at)->address == address) {
            drop(device, at);
        } else {
            at = &(*at)->next;
        }
    }
}

const btl_ib_rdma_ops_t device_ops = {
    .expose = expose,
    .withdraw = withdraw,
    .start = start,
    .cancel = cancel,
};

/* ---- for the rail ---- */

bool device_pending(const device_t *device)
{
    return device->nover > 0;
}

void device_give(device_t *device, btl_ib_event_t *event)
{
    job_t **at = &device->jobs;

    while (!(*at)->over) {
        at = &(*at)->next;
    }
    *event = (btl_ib_event_t){
        .type = BTL_IB_EVENT_RDMA,
        .error = (*at)->error,
        .context = (*at)->work.context,
    };
    drop(device, at);
}

bool device_uses(const device_t *device, const void *context, uint32_t address)
{
    for (const job_t *job = device->jobs; job != NULL; job = job->next) {
        if (job->work.context == context || job->address == address) {
            return true;
        }
    }
    return false;
}

device_t *device_open(proc_t *proc, rail_t *rail, uint32_t address, uint32_t id)
{
    device_t *device = calloc(1, sizeof(*device));

    device->sim = proc->sim;
    device->proc = proc;
    device->rail = rail;
    device->address = address;
    device->id = id;
    return device;
}

void device_stop(device_t *device)
{
    if (device->njobs > 0) {
        sim_fail(device->sim, "p%u stops a device that has %u operations", device->proc->index,
                 device->njobs);
    }
}

void device_close(device_t *device)
{
    while (device->exposures != NULL) {
        exposure_t *exposure = device->exposures;
        device->exposures = exposure->next;
        free(exposure);
    }
    while (device->joints != NULL) {
        joint_t *joint = device->joints;
        device->joints = joint->next;
        free(joint);
    }
    free(device);
}
