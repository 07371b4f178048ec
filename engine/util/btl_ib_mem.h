/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Memory from the engine's user. Any allocation may fail. */

#ifndef BTL_IB_MEM_H
#define BTL_IB_MEM_H

#include <stddef.h>

typedef struct btl_ib_mem {
    void *(*zalloc)(void *context, size_t size); /* cleared; NULL if there is none */
    void (*free)(void *context, void *memory);   /* NULL is allowed */
    void *context;
} btl_ib_mem_t;

static inline void *btl_ib_zalloc(const btl_ib_mem_t *mem, size_t size)
{
    return mem->zalloc(mem->context, size);
}

static inline void btl_ib_free(const btl_ib_mem_t *mem, void *memory)
{
    if (memory != NULL) {
        mem->free(mem->context, memory);
    }
}

#endif
