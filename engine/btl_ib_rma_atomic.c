/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_rma.h"

#include <errno.h>
#include <string.h>

/* ---- atomic operations on memory ---- */

uint32_t btl_ib_atomic_size(uint32_t type)
{
    switch (type) {
    case BTL_IB_ATOMIC_INT32:
    case BTL_IB_ATOMIC_FLOAT:
        return 4;
    case BTL_IB_ATOMIC_INT64:
    case BTL_IB_ATOMIC_DOUBLE:
        return 8;
    default:
        return 0;
    }
}

bool btl_ib_atomic_supported(uint32_t code, uint32_t type)
{
    bool any = code == BTL_IB_ATOMIC_ADD || code == BTL_IB_ATOMIC_SWAP || code == BTL_IB_ATOMIC_MIN
               || code == BTL_IB_ATOMIC_MAX || code == BTL_IB_ATOMIC_CSWAP;
    bool integer = type == BTL_IB_ATOMIC_INT32 || type == BTL_IB_ATOMIC_INT64;

    return btl_ib_atomic_size(type) != 0
           && (any || (integer && code >= BTL_IB_ATOMIC_ADD && code <= BTL_IB_ATOMIC_CSWAP));
}

/* Integers: all but the comparisons are the same for signed and unsigned. */
static uint64_t apply_integer(uint32_t code, uint64_t old, uint64_t operand, bool less)
{
    switch (code) {
    case BTL_IB_ATOMIC_ADD:
        return old + operand;
    case BTL_IB_ATOMIC_AND:
        return old & operand;
    case BTL_IB_ATOMIC_OR:
        return old | operand;
    case BTL_IB_ATOMIC_XOR:
        return old ^ operand;
    case BTL_IB_ATOMIC_LAND:
        return old != 0 && operand != 0;
    case BTL_IB_ATOMIC_LOR:
        return old != 0 || operand != 0;
    case BTL_IB_ATOMIC_LXOR:
        return (old != 0) != (operand != 0);
    case BTL_IB_ATOMIC_MIN:
        return less ? operand : old;
    case BTL_IB_ATOMIC_MAX:
        return less ? old : operand;
    default:
        return operand;
    }
}

static uint64_t apply_float(uint32_t code, uint64_t old_bits, uint64_t operand_bits)
{
    uint32_t old_word = (uint32_t) old_bits, operand_word = (uint32_t) operand_bits;
    float old, operand;

    memcpy(&old, &old_word, sizeof(old));
    memcpy(&operand, &operand_word, sizeof(operand));
    if (code == BTL_IB_ATOMIC_ADD) {
        float sum = old + operand;
        memcpy(&old_word, &sum, sizeof(old_word));
        return old_word;
    }
    return apply_integer(code, old_bits, operand_bits, operand < old);
}

static uint64_t apply_double(uint32_t code, uint64_t old_bits, uint64_t operand_bits)
{
    double old, operand;

    memcpy(&old, &old_bits, sizeof(old));
    memcpy(&operand, &operand_bits, sizeof(operand));
    if (code == BTL_IB_ATOMIC_ADD) {
        double sum = old + operand;
        memcpy(&old_bits, &sum, sizeof(old_bits));
        return old_bits;
    }
    return apply_integer(code, old_bits, operand_bits, operand < old);
}

/* Computes the new value. Of a 32-bit word only the low half is valid. */
static uint64_t apply(uint32_t code, uint32_t type, uint64_t old, uint64_t operand)
{
    switch (type) {
    case BTL_IB_ATOMIC_FLOAT:
        return apply_float(code, old, operand);
    case BTL_IB_ATOMIC_DOUBLE:
        return apply_double(code, old, operand);
    case BTL_IB_ATOMIC_INT32:
        return apply_integer(code, old, operand, (int32_t) operand < (int32_t) old);
    default:
        return apply_integer(code, old, operand, (int64_t) operand < (int64_t) old);
    }
}

static uint64_t execute32(uint32_t *word, uint32_t code, uint32_t type, uint32_t operand,
                          uint32_t compare)
{
    uint32_t old = __atomic_load_n(word, __ATOMIC_SEQ_CST);

    if (code == BTL_IB_ATOMIC_CSWAP) {
        /* What is expected comes from memory: for riscv64 gcc before 13.3 and 14 does not
         * sign-extend any other value that it compares (its bug 114130). */
        while (old == compare
               && !__atomic_compare_exchange_n(word, &old, operand, false, __ATOMIC_SEQ_CST,
                                               __ATOMIC_SEQ_CST)) {
        }
        return old;
    }
    while (!__atomic_compare_exchange_n(word, &old, (uint32_t) apply(code, type, old, operand),
                                        false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return old;
}

static uint64_t execute64(uint64_t *word, uint32_t code, uint32_t type, uint64_t operand,
                          uint64_t compare)
{
    uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

    if (code == BTL_IB_ATOMIC_CSWAP) {
        __atomic_compare_exchange_n(word, &compare, operand, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
        return compare;
    }
    while (!__atomic_compare_exchange_n(word, &old, apply(code, type, old, operand), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return old;
}

int btl_ib_atomic_execute(void *word, uint32_t code, uint32_t type, uint64_t operand,
                          uint64_t compare, uint64_t *result)
{
    uint32_t size = btl_ib_atomic_size(type);

    if (!btl_ib_atomic_supported(code, type) || (uintptr_t) word % size != 0) {
        return -EINVAL;
    }
    if (size == sizeof(uint32_t)) {
        *result = execute32(word, code, type, (uint32_t) operand, (uint32_t) compare);
    } else {
        *result = execute64(word, code, type, operand, compare);
    }
    return 0;
}
