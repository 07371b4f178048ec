/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Memory that a module's device may use by itself. It has to be registered with the device, which keeps its pages
 * where they are ("pins" them) and takes long; so what was pinned stays so, in a cache of Open MPI's (rcache, grdma),
 * until its memory is unmapped or others need the room. Whole pages are pinned.
 */

#ifndef BTL_IB_PIN_H
#define BTL_IB_PIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btl_ib_list.h"
#include "transport.h"

struct btl_ib_module;
struct mca_rcache_base_module_t;

/* What one module has pinned. */
typedef struct btl_ib_pins {
    struct mca_rcache_base_module_t *cache; /* NULL: its device moves no memory by itself */
    btl_ib_transport_t *transport;
    pthread_mutex_t lists; /* protects the next two, for moments only; nothing is taken inside */
    btl_ib_list_t pinned;  /* that the cache holds */
    btl_ib_list_t evicted; /* that it let go: who has the lock next takes it from the device */
} btl_ib_pins_t;

typedef struct btl_ib_pin btl_ib_pin_t;

/* Make a module's cache, if the transport moves memory. Returns an OPAL status. */
int btl_ib_pins_init(struct btl_ib_module *module, btl_ib_transport_t *transport);

/* Nothing stays pinned. Before the transport is closed, without the lock. */
void btl_ib_pins_fini(struct btl_ib_module *module);

/*
 * Let the module's device use these bytes, and peers as `flags` say (MCA_BTL_REG_FLAG_*). NULL if it cannot: there is
 * none, the region or all together would be too large, or the device says no; such memory is moved by processors.
 * Called without the lock.
 */
btl_ib_pin_t *btl_ib_pin_take(struct btl_ib_module *module, void *base, size_t size,
                              uint32_t flags);

/* No longer needed; NULL is ignored. Called without the lock. */
void btl_ib_pin_give(struct btl_ib_module *module, btl_ib_pin_t *pin);

/* What the transport wants to hear of it, as the local end of an operation; and what peers' devices do. */
void *btl_ib_pin_mem(const btl_ib_pin_t *pin);
uint32_t btl_ib_pin_key(const btl_ib_pin_t *pin);

#endif
