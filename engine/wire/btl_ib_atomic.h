/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Atomic operations on a word of memory by the CPU's atomic instructions: atomic also for other
 * processes and threads that use such instructions on the word.
 */

#ifndef BTL_IB_ATOMIC_H
#define BTL_IB_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

/* The new value, computed from the word `old`. The numbers are part of the protocol. */
typedef enum btl_ib_atomic_code {
    BTL_IB_ATOMIC_ADD = 1,    /* old + operand; integers wrap */
    BTL_IB_ATOMIC_AND = 2,    /* old & operand */
    BTL_IB_ATOMIC_OR = 3,     /* old | operand */
    BTL_IB_ATOMIC_XOR = 4,    /* old ^ operand */
    BTL_IB_ATOMIC_LAND = 5,   /* old && operand */
    BTL_IB_ATOMIC_LOR = 6,    /* old || operand */
    BTL_IB_ATOMIC_LXOR = 7,   /* !old != !operand */
    BTL_IB_ATOMIC_SWAP = 8,   /* operand */
    BTL_IB_ATOMIC_MIN = 9,    /* the smaller of old and operand */
    BTL_IB_ATOMIC_MAX = 10,   /* the larger of them */
    BTL_IB_ATOMIC_CSWAP = 11, /* operand, if old has the same bits as compare; else old */
} btl_ib_atomic_code_t;

/* Type of the word. The numbers are part of the protocol. */
typedef enum btl_ib_atomic_type {
    BTL_IB_ATOMIC_INT32 = 1,
    BTL_IB_ATOMIC_INT64 = 2,
    BTL_IB_ATOMIC_FLOAT = 3,  /* ADD, SWAP, MIN, MAX and CSWAP only */
    BTL_IB_ATOMIC_DOUBLE = 4, /* the same */
} btl_ib_atomic_type_t;

/* Bytes of a word of this type: 4, 8, or 0 if there is no such type. */
uint32_t btl_ib_atomic_size(uint32_t type);

/* Is this a valid operation on a valid type? Both may be any number. */
bool btl_ib_atomic_supported(uint32_t code, uint32_t type);

/*
 * Execute an operation on the word at `word`, sequentially consistent. Operand, compare and *result
 * (the old word) are in the low bytes of 64 bits. The bits above are ignored, and 0 in *result.
 * `result` must not be NULL. Returns 0, or -EINVAL if the operation is not supported or the word is
 * not aligned to its size; then nothing was changed.
 */
int btl_ib_atomic_execute(void *word, uint32_t code, uint32_t type, uint64_t operand,
                          uint64_t compare, uint64_t *result);

#endif
