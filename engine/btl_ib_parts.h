/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What an engine consists of, by name, for the headers of subjects: each defines the structure that
 * it owns, btl_ib_state.h embeds them all in the engine, its rails and its connections, and only
 * sources include that.
 */

#ifndef BTL_IB_PARTS_H
#define BTL_IB_PARTS_H

#include "btl_ib_engine.h"
#include "btl_ib_list.h"
#include "btl_ib_pool.h"
#include "btl_ib_wire.h"

typedef struct btl_ib_rail btl_ib_rail_t;
typedef struct btl_ib_tx_channel btl_ib_tx_channel_t;
typedef struct btl_ib_arrival btl_ib_arrival_t;

/* The largest number of datagrams handed to or taken from a transport in one call: as many as
 * one GSO send may have (UDP_MAX_SEGMENTS in Linux). attr.max_batch says how many are of use. */
#define BTL_IB_BATCH 64

#endif
