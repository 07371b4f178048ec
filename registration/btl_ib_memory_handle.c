/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_memory_handle.h"

#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "btl_ib_help.h"

uint32_t btl_ib_memory_access_of(const btl_ib_op_t *op)
{
    switch (op->kind) {
    case BTL_IB_OP_PUT:
        return BTL_IB_ACCESS_WRITE;
    case BTL_IB_OP_GET:
        return BTL_IB_ACCESS_READ;
    default:
        return BTL_IB_ACCESS_ATOMIC;
    }
}

/* Number of 64-bit words before `check`, and of those of `more_keys` behind it. */
#define HEAD_WORDS (offsetof(btl_ib_memory_handle_t, check) / sizeof(uint64_t))
#define KEY_WORDS  ((BTL_IB_PIECES_MAX - 1) * sizeof(uint32_t) / sizeof(uint64_t))

static_assert(sizeof(btl_ib_memory_handle_t) <= MCA_BTL_REG_HANDLE_MAX_SIZE,
              "it must fit into the packets of ob1");
static_assert(sizeof(btl_ib_memory_handle_t) == (HEAD_WORDS + 1 + KEY_WORDS) * sizeof(uint64_t),
              "the check covers all, without padding");

/* us for which a handle may stay damaged: its owner may lose its processor while it writes. */
enum { HANDLE_PATIENCE = 1000 * 1000 };

/* Adds `count` words to a sum, each multiplied by an odd factor of its own, so that halves of two
 * handles do not match. */
static uint64_t add_words(uint64_t sum, uint64_t factor, const void *from, size_t count)
{
    uint64_t words[HEAD_WORDS + KEY_WORDS];

    memcpy(words, from, count * sizeof(words[0]));
    for (size_t i = 0; i < count; ++i, factor *= UINT64_C(0xd1342543de82ef95)) {
        sum += words[i] * factor;
    }
    return sum;
}

static uint64_t check_of(const btl_ib_memory_handle_t *handle)
{
    const uint64_t sum = add_words(0, UINT64_C(0x9e3779b97f4a7c15), handle, HEAD_WORDS);

    return OPAL_LIKELY(handle->piece_shift == 0)
               ? sum
               : add_words(sum, UINT64_C(0xbf58476d1ce4e5b9), handle->more_keys, KEY_WORDS);
}

void btl_ib_memory_handle_seal(btl_ib_memory_handle_t *handle)
{
    handle->check = check_of(handle);
}

int btl_ib_memory_handle_read(const btl_ib_memory_handle_t **handle, btl_ib_memory_handle_t *copy)
{
    uint64_t begun = 0;

    if (*handle == NULL) {
        return OPAL_SUCCESS;
    }
    for (;;) {
        memcpy(copy, *handle, sizeof(*copy));
        atomic_signal_fence(memory_order_seq_cst); /* check and use the copy, not *handle */
        if (OPAL_LIKELY(check_of(copy) == copy->check)) {
            *handle = copy;
            return OPAL_SUCCESS;
        }
        if (begun == 0) {
            begun = btl_ib_now();
        } else if (btl_ib_now() - begun > HANDLE_PATIENCE) {
            BTL_IB_VERBOSE(1, "a registration handle of region %" PRIx64 " is damaged",
                           copy->key.id);
            return OPAL_ERR_BAD_PARAM;
        }
        sched_yield();
    }
}

/* True if an operation is on one piece, for which the handle has a key. */
static bool is_on_piece(const btl_ib_memory_handle_t *handle, const btl_ib_op_t *op)
{
    const uintptr_t address = handle->base + op->offset;
    const uint8_t shift = handle->piece_shift;

    return shift == 0
           || (shift < 64
               && btl_ib_device_region_is_whole(address, btl_ib_memory_size_of(op), shift)
               && btl_ib_device_region_piece(handle->base, address, shift) < BTL_IB_PIECES_MAX);
}

bool btl_ib_memory_handle_allows(const btl_ib_memory_handle_t *handle, const btl_ib_op_t *op)
{
    return (handle->pinned & btl_ib_memory_access_of(op)) != 0 && op->offset <= handle->size
           && btl_ib_memory_size_of(op) <= handle->size - op->offset && is_on_piece(handle, op);
}
