/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Publishing and reading through the runtime what btl_ib_modex_codec.h lays out. */

#ifndef BTL_IB_MODEX_H
#define BTL_IB_MODEX_H

#include "opal/class/opal_hash_table.h"

#include "btl_ib_ompi_compat.h"
#include "btl_ib_modex_codec.h"
#include "transport.h"

/*
 * Describes rail `rail` of the engine, which is on `device`, and appends it to `modex`.
 */
void btl_ib_modex_add_rail(btl_ib_modex_t *modex, const btl_ib_engine_t *engine, uint32_t rail,
                           const btl_ib_device_t *device, uint32_t bandwidth,
                           btl_ib_atomics_t atomics);

/* Publishes it. Returns an OPAL status. */
int btl_ib_modex_publish(const btl_ib_modex_t *modex);

/*
 * Returns what `name` published, to be freed with free(); NULL if that is nothing, or nothing that
 * we understand, or memory is short. `wait`: see btl_ib_ompi_modex_recv().
 */
btl_ib_modex_t *btl_ib_modex_get(const opal_process_name_t *name, bool wait);

/*
 * What processes published, kept so that nothing need be asked of the runtime in mid-job: its
 * answers take 8 KiB of stack, and may take long. `known` maps their names (btl_ib_name_pack())
 * to packed bytes.
 */

/* Keeps what process `name` published, unless that is kept or memory is short. */
void btl_ib_modex_keep(opal_hash_table_t *known, uint64_t name, const btl_ib_modex_t *modex);

/* Returns what is kept of `name`, to be freed with free(); NULL: nothing. */
btl_ib_modex_t *btl_ib_modex_recall(opal_hash_table_t *known, uint64_t name);

/* Frees what is kept of `name`, if anything. */
void btl_ib_modex_forget(opal_hash_table_t *known, uint64_t name);

/* Frees all that is kept. `known` stays usable. */
void btl_ib_modex_forget_all(opal_hash_table_t *known);

/* Describes rail `rail` of what `name` published, for the engine. */
void btl_ib_modex_peer_info(const btl_ib_modex_t *modex, const opal_process_name_t *name,
                            uint32_t rail, btl_ib_peer_info_t *info);

/* Writes the IP address of a rail as text, or "no IP address". */
const char *btl_ib_modex_ip_text(const btl_ib_modex_rail_t *rail, char *text, size_t size);

#endif
