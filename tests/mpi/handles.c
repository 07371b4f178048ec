/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The BTL's one-sided functions with the handles that osc/rdma passes of a dynamic window now and
 * then: that of another region of the window than the one that the address lies in, of one that was
 * given back, or one that its owner changes while it is read. To all ranks, the own one too.
 */

#include "opal_config.h"

#include "module.h"

#include <pthread.h>
#include <unistd.h>

#define PAGE   4096u
#define PAGES  16
#define HANDLE MCA_BTL_REG_HANDLE_MAX_SIZE

typedef mca_btl_base_registration_handle_t handle_t;

/* In pages of the memory of a rank, with gaps between them. */
enum { LOW, HIGH, TOUCHING, MESSAGE, ONE_PEER, GONE, REGIONS };
static const struct {
    size_t at, pages;
    uint32_t flags;
} parts[REGIONS] = {
    [LOW] = {1, 1, MCA_BTL_REG_FLAG_ACCESS_ANY},
    [HIGH] = {3, 2, MCA_BTL_REG_FLAG_ACCESS_ANY},
    [TOUCHING] = {5, 1, MCA_BTL_REG_FLAG_ACCESS_ANY},
    [MESSAGE] = {7, 1, MCA_BTL_REG_FLAG_REMOTE_READ | MCA_BTL_REG_FLAG_REMOTE_WRITE},
    [ONE_PEER] = {9, 1, MCA_BTL_REG_FLAG_ACCESS_ANY},
    [GONE] = {11, 1, MCA_BTL_REG_FLAG_ACCESS_ANY},
};

typedef struct offer {
    uint64_t address;
    _Alignas(8) unsigned char handle[REGIONS][HANDLE];
} offer_t;

static offer_t *offers;
static unsigned char *memory;
static handle_t *handles[REGIONS];

static int calls, last_status;

static void done(mca_btl_base_module_t *module, peer_t *endpoint, void *local, handle_t *handle,
                 void *context, void *data, int status)
{
    (void) module;
    (void) endpoint;
    (void) local;
    (void) handle;
    (void) context;
    (void) data;
    calls++;
    last_status = status;
}

static int ended(int rc)
{
    if (rc != OPAL_SUCCESS) {
        return rc;
    }
    while (calls == 0) {
        opal_progress();
    }
    calls = 0;
    return last_status;
}

static handle_t *handle_of(int target, int region)
{
    return (handle_t *) (void *) offers[target].handle[region];
}

static int get(int target, handle_t *handle, size_t at, void *to, size_t bytes)
{
    return ended(btl->btl_get(btl, peers[target], to, offers[target].address + at, NULL, handle,
                              bytes, 0, MCA_BTL_NO_ORDER, done, NULL, NULL));
}

static int put(int target, handle_t *handle, size_t at, void *from, size_t bytes)
{
    return ended(btl->btl_put(btl, peers[target], from, offers[target].address + at, NULL, handle,
                              bytes, 0, MCA_BTL_NO_ORDER, done, NULL, NULL));
}

static int add(int target, handle_t *handle, size_t at, uint64_t *was)
{
    return ended(btl->btl_atomic_fop(btl, peers[target], was, offers[target].address + at, NULL,
                                     handle, MCA_BTL_ATOMIC_ADD, 1, 0, MCA_BTL_NO_ORDER, done, NULL,
                                     NULL));
}

static int swap(int target, handle_t *handle, size_t at, uint64_t *was, uint64_t with)
{
    return ended(btl->btl_atomic_cswap(btl, peers[target], was, offers[target].address + at, NULL,
                                       handle, *was, with, 0, MCA_BTL_NO_ORDER, done, NULL, NULL));
}

/* ---- what is served ---- */

static void served(int target, int region, size_t at, size_t bytes)
{
    handle_t *handle = handle_of(target, region);
    unsigned char *out = get_memory(bytes), *in = get_memory(bytes);
    uint64_t was = 0, now = 0;
    int rc = 0;

    pattern_fill(out, bytes, at * 31 + (uint64_t) region);
    rc |= put(target, handle, at, out, bytes);
    rc |= get(target, handle, at, in, bytes);
    if (rc != OPAL_SUCCESS || memcmp(in, out, bytes) != 0) {
        fail("%zu bytes at %zu of rank %d by the handle of region %d: status %d", bytes, at, target,
             region, rc);
    }
    rc |= add(target, handle, at, &was);
    now = was + 1;
    rc |= swap(target, handle, at, &now, 77);
    rc |= get(target, handle, at, in, 8);
    memcpy(&was, in, 8);
    if (rc != OPAL_SUCCESS || was != 77) {
        fail("atomics at %zu of rank %d by the handle of region %d: status %d", at, target, region,
             rc);
    }
    free(out);
    free(in);
}

static void rejected(int target, int region, size_t at, size_t bytes)
{
    handle_t *handle = handle_of(target, region);
    unsigned char *buffer = get_memory(bytes);
    uint64_t was = 0;

    memset(buffer, 0, bytes);
    if (put(target, handle, at, buffer, bytes) == OPAL_SUCCESS
        || get(target, handle, at, buffer, bytes) == OPAL_SUCCESS) {
        fail("%zu bytes at %zu of rank %d by the handle of region %d were not rejected", bytes, at,
             target, region);
    }
    if (bytes == 8 && add(target, handle, at, &was) == OPAL_SUCCESS) {
        fail("an atomic at %zu of rank %d by the handle of region %d was not rejected", at, target,
             region);
    }
    free(buffer);
}

static void others(int target)
{
    served(target, LOW, 1 * PAGE, PAGE);
    served(target, LOW, 3 * PAGE, 2 * PAGE);
    served(target, LOW, 5 * PAGE - 16, 16);
    served(target, LOW, 5 * PAGE, 16);
    served(target, HIGH, 1 * PAGE, PAGE);
    served(target, TOUCHING, 5 * PAGE - 16, 16);
    served(target, GONE, 3 * PAGE, 2 * PAGE);
    rejected(target, LOW, 2 * PAGE, 8);
    rejected(target, LOW, 2 * PAGE - 8, 16);
    rejected(target, HIGH, 3 * PAGE - 8, 16);
    rejected(target, HIGH, 5 * PAGE - 8, 16);
    rejected(target, LOW, 7 * PAGE, 8);
    rejected(target, LOW, 9 * PAGE, 8);
    rejected(target, MESSAGE, 1 * PAGE, 8);
    rejected(target, ONE_PEER, 1 * PAGE, 8);
    rejected(target, GONE, 11 * PAGE, 8);
    rejected(target, TOUCHING, 11 * PAGE, 8);
}

/* ---- handles that change ---- */

typedef struct repair {
    unsigned char *handle;
    const unsigned char *whole;
} repair_t;

static void *repair(void *argument)
{
    const repair_t *r = argument;

    usleep(20 * 1000);
    for (size_t i = 0; i < btl->btl_registration_handle_size; i++) {
        ((volatile unsigned char *) r->handle)[i] = r->whole[i];
    }
    return NULL;
}

/* The first `bytes` of one handle and the rest of another: nothing is done by it. When it is whole
 * again all is well. */
static void torn(int target, size_t bytes)
{
    _Alignas(8) unsigned char handle[HANDLE];
    unsigned char *in = get_memory(16), *right = get_memory(16);
    repair_t whole = {handle, offers[target].handle[HIGH]};
    pthread_t thread;

    memcpy(handle, offers[target].handle[HIGH], HANDLE);
    memcpy(handle, offers[target].handle[LOW], bytes);
    if (get(target, handle_of(target, HIGH), 3 * PAGE + 8, right, 16) != OPAL_SUCCESS
        || pthread_create(&thread, NULL, repair, &whole) != 0) {
        fail("cannot begin with a torn handle");
    }
    if (get(target, (handle_t *) (void *) handle, 3 * PAGE + 8, in, 16) != OPAL_SUCCESS
        || memcmp(in, right, 16) != 0) {
        fail("by a handle that had %zu bytes of another one for 20 ms rank %d is not reached",
             bytes, target);
    }
    pthread_join(thread, NULL);
    free(in);
    free(right);
}

static void never_whole(int target)
{
    _Alignas(8) unsigned char handle[HANDLE];
    double begun = seconds_now();
    unsigned char in[16];
    uint64_t was = 0;

    memcpy(handle, offers[target].handle[HIGH], HANDLE);
    memcpy(handle, offers[target].handle[LOW], 8);
    const int rc = get(target, (handle_t *) (void *) handle, 3 * PAGE, in, 16);
    const int rc_add = add(target, (handle_t *) (void *) handle, 3 * PAGE, &was);
    begun = seconds_now() - begun;
    if (rc != OPAL_ERR_BAD_PARAM || rc_add != OPAL_ERR_BAD_PARAM || begun < 1.5 || begun > 20) {
        fail("by a damaged handle: status %d and %d after %.1f s", rc, rc_add, begun);
    }
}

/* ---- the frame ---- */

static void offer_memory(void)
{
    offer_t mine = {0};

    if (posix_memalign((void **) &memory, PAGE, PAGES * PAGE) != 0) {
        fail("no memory");
    }
    memset(memory, 0, PAGES * PAGE);
    mine.address = (uint64_t) (uintptr_t) memory;
    for (int i = 0; i < REGIONS; i++) {
        handles[i] = btl->btl_register_mem(btl, i == ONE_PEER ? peers[rank] : MCA_BTL_ENDPOINT_ANY,
                                           memory + parts[i].at * PAGE, parts[i].pages * PAGE,
                                           parts[i].flags);
        if (handles[i] == NULL) {
            fail("cannot register region %d", i);
        }
        memcpy(mine.handle[i], handles[i], btl->btl_registration_handle_size);
    }
    btl->btl_deregister_mem(btl, handles[GONE]);
    offers = get_memory(sizeof(*offers) * (size_t) size);
    MPI_Allgather(&mine, (int) sizeof(mine), MPI_BYTE, offers, (int) sizeof(mine), MPI_BYTE,
                  MPI_COMM_WORLD);
}

static void take_memory_back(void)
{
    for (int i = 0; i < REGIONS; i++) {
        if (i != GONE) {
            btl->btl_deregister_mem(btl, handles[i]);
        }
    }
    free(memory);
    free(offers);
    free(procs);
    free(peers);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "handles");
    find_module();
    find_peers();
    offer_memory();
    /* One after the other: they all use the same words. */
    for (int turn = 0; turn < size; turn++) {
        for (int target = 0; target < size && turn == rank; target++) {
            others(target);
            for (size_t bytes = 8; bytes < btl->btl_registration_handle_size - FURTHER_KEYS;
                 bytes += 8) {
                torn(target, bytes);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    never_whole((rank + 1) % size);
    MPI_Barrier(MPI_COMM_WORLD);
    take_memory_back();
    finish();
    return 0;
}
