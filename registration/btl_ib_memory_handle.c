/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_memory_handle.h"

#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "btl_ib_verbose.h"

#define HANDLE_WORDS (sizeof(btl_ib_memory_handle_t) / sizeof(uint64_t))

static_assert(sizeof(btl_ib_memory_handle_t) <= MCA_BTL_REG_HANDLE_MAX_SIZE,
              "it must fit into the packets of ob1");
static_assert(offsetof(btl_ib_memory_handle_t, check) == (HANDLE_WORDS - 1) * sizeof(uint64_t),
              "the check covers all that is before it, and is the last");

/* us for which a handle may be damaged: its owner may lose the processor while it changes it. */
enum { HANDLE_PATIENCE = 1000 * 1000 };

/* Each word has an odd factor of its own, so that halves of two handles do not match. */
static uint64_t check_of(const btl_ib_memory_handle_t *handle)
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

void btl_ib_memory_handle_seal(btl_ib_memory_handle_t *handle)
{
    handle->check = check_of(handle);
}

int btl_ib_memory_handle_read(const btl_ib_memory_handle_t **handle, btl_ib_memory_handle_t *copy)
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

bool btl_ib_memory_handle_allows(const btl_ib_memory_handle_t *handle, const btl_ib_op_t *op)
{
    return 0 != (handle->pinned & btl_ib_memory_access_of(op)) && op->offset <= handle->size
           && btl_ib_memory_size_of(op) <= handle->size - op->offset;
}
