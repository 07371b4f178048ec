/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Publishes and reads descriptions of processes (btl_ib_modex_codec.h) through the runtime, and
 * keeps those of peers. */

#ifndef BTL_IB_MODEX_H
#define BTL_IB_MODEX_H

#include "opal/class/opal_hash_table.h"

#include "btl_ib_ompi_compat.h"
#include "btl_ib_modex_codec.h"
#include "transport.h"

/* Appends to `modex` the engine's rail `rail`, which is on `device` and has `bandwidth` Mbit/s. */
void btl_ib_modex_add_rail(btl_ib_modex_t *modex, const btl_ib_engine_t *engine, uint32_t rail,
                           const btl_ib_device_t *device, uint32_t bandwidth,
                           btl_ib_atomics_t atomics);

/* Publishes our own description. Returns an OPAL status. */
int btl_ib_modex_publish(const btl_ib_modex_t *modex);

/*
 * Returns what `name` published, to be freed with free(); NULL if it published nothing, or nothing
 * that we understand, or memory is short. `wait`: see btl_ib_ompi_modex_recv().
 */
btl_ib_modex_t *btl_ib_modex_get(const opal_process_name_t *name, bool wait);

/*
 * Descriptions are kept so that the runtime need not be asked in mid-job: its answers take 8 KiB of
 * stack, and may take long. `known` maps names (btl_ib_name_pack()) to packed descriptions.
 */

/* Keeps what process `name` published, unless something is kept of it, or memory is short. */
void btl_ib_modex_keep(opal_hash_table_t *known, uint64_t name, const btl_ib_modex_t *modex);

/* Returns what is kept of `name`, to be freed with free(); NULL: nothing. */
btl_ib_modex_t *btl_ib_modex_recall(opal_hash_table_t *known, uint64_t name);

/* Frees what is kept of `name`, if anything. */
void btl_ib_modex_forget(opal_hash_table_t *known, uint64_t name);

/* Frees all that is kept. `known` stays usable. */
void btl_ib_modex_forget_all(opal_hash_table_t *known);

/* Fills in *info, for the engine, with rail `rail` of what `name` published. */
void btl_ib_modex_peer_info(const btl_ib_modex_t *modex, const opal_process_name_t *name,
                            uint32_t rail, btl_ib_peer_info_t *info);

/* Writes the IP address of a rail as text, or "no IP address". Returns `text`. */
const char *btl_ib_modex_ip_text(const btl_ib_modex_rail_t *rail, char *text, size_t size);

#endif
