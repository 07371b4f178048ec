/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * For programs that call the BTL itself: the module of ib that this process has, and its endpoints.
 * Includes opal_config.h first.
 */

#ifndef BTL_IB_TESTS_MODULE_H
#define BTL_IB_TESTS_MODULE_H

#include "opal_config.h"

#include "common.h"

#include "opal/class/opal_list.h"
#include "opal/constants.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/proc.h"

typedef struct mca_btl_base_endpoint_t peer_t;

static mca_btl_base_module_t *btl;
static peer_t **peers;      /* one for each rank, the own one too */
static opal_proc_t **procs; /* likewise */

static void find_module(void)
{
    mca_btl_base_selected_module_t *item;

    OPAL_LIST_FOREACH(item, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        if (strcmp("ib", item->btl_module->btl_component->btl_version.mca_component_name) == 0) {
            btl = item->btl_module;
            return;
        }
    }
    fail("there is no module of ib");
}

static void find_peers(void)
{
    opal_process_name_t *names = get_memory(sizeof(*names) * (size_t) size);
    opal_process_name_t name = opal_proc_local_get()->proc_name;

    peers = get_memory(sizeof(*peers) * (size_t) size);
    MPI_Allgather(&name, (int) sizeof(name), MPI_BYTE, names, (int) sizeof(name), MPI_BYTE,
                  MPI_COMM_WORLD);
    procs = get_memory(sizeof(opal_proc_t *) * (size_t) size);
    for (int r = 0; r < size; r++) {
        procs[r] = rank == r ? opal_proc_local_get() : opal_proc_for_name(names[r]);
        peers[r] = NULL;
        btl->btl_add_procs(btl, 1, &procs[r], &peers[r], NULL);
        if (peers[r] == NULL) {
            fail("ib does not reach rank %d", r);
        }
    }
    free(names);
}

/* Bytes at the end of a handle that say nothing of memory in one piece: keys of further ones. */
#define FURTHER_KEYS 32

/* The check of a handle that was changed, as the BTL makes it: of memory in one piece it is the
 * last of its words. */
__attribute__((unused)) static void seal_handle(void *handle)
{
    const size_t count = (btl->btl_registration_handle_size - FURTHER_KEYS) / sizeof(uint64_t) - 1;
    uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++, factor *= UINT64_C(0xd1342543de82ef95)) {
        uint64_t word;
        memcpy(&word, (unsigned char *) handle + i * sizeof(word), sizeof(word));
        sum += word * factor;
    }
    memcpy((unsigned char *) handle + count * sizeof(sum), &sum, sizeof(sum));
}

#endif
