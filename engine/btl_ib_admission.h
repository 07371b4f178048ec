/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Limits how many unknown senders are looked up, answered and given a connection, because anybody
 * can ask for that. Writes engine->admission.
 */

#ifndef BTL_IB_ADMISSION_H
#define BTL_IB_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_ib_engine.h"

/* Connections that peers ask for. */
typedef struct btl_ib_admission {
    uint32_t passive;   /* connections not adopted by the user */
    uint32_t lookups;   /* of unknown senders, in the second that began at lookups_at */
    uint32_t responses; /* PATH_RESPONSEs sent to them, in the same second */
    uint32_t paths;     /* lookups of other paths to known peers, in the same second */
    uint64_t lookups_at;
    bool closed;       /* unknown senders get no connection any more */
    bool told_passive; /* it was logged that there are passive_max */
} btl_ib_admission_t;

/* Takes one of the lookups that are allowed now. False: none is left, or there are passive_max
 * connections already, and it does not take the place of a `known` peer. */
bool btl_ib_admission_take_lookup(btl_ib_engine_t *engine, bool known);

/* Counts a lookup of a further path to a known peer, by which a datagram of it came: a share of the
 * lookups is for that. */
bool btl_ib_admission_take_path_lookup(btl_ib_engine_t *engine);

/* Takes one of the responses that are allowed now, by which an unknown sender is told that its
 * datagram got here. False: none is left. */
bool btl_ib_admission_take_response(btl_ib_engine_t *engine);

/* Refuses connections to unknown senders from now on. */
static inline void btl_ib_admission_close(btl_ib_admission_t *admission)
{
    admission->closed = true;
}

/* Counts one connection more, or less, that the component has not adopted. */
static inline void btl_ib_admission_passive(btl_ib_admission_t *admission, int32_t more)
{
    admission->passive += (uint32_t) more;
}

#endif
