/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_loopback.h"

#include "btl_ib_memory_handle.h"

#include <errno.h>
#include <string.h>

int btl_ib_loopback_execute(btl_ib_engine_t *engine, btl_ib_op_t *op, void *target)
{
    if (NULL == target) {
        target = btl_ib_region_find(engine, &op->key, op->offset, btl_ib_memory_size_of(op),
                                    btl_ib_memory_access_of(op));
    }
    if (NULL == target) {
        return -EACCES;
    }
    if (BTL_IB_OP_ATOMIC == op->kind) {
        return btl_ib_atomic_execute(target, op->code, op->type, op->operand, op->compare,
                                     &op->result);
    }
    if (0 == op->size) {
        return 0; /* there may be no memory */
    }
    if (BTL_IB_OP_PUT == op->kind) {
        memmove(target, op->local, (size_t) op->size);
    } else {
        memmove(op->local, target, (size_t) op->size);
    }
    return 0;
}
