/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Memory of a rail that datagrams are sent from (btl_ib_transport_ops_t.unstage), as long as one is
 * under way: the engine must not say that it is free before. */

#ifndef SIM_STAGING_H
#define SIM_STAGING_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_STAGED 256

typedef struct staged staged_t; /* what one datagram is sent from */

typedef struct staging {
    staged_t *place[SIM_STAGED]; /* by the number that the engine knows it by; not the first */
} staging_t;

/* Returns its number, and sets *staged; 0: all are taken. */
uint8_t staging_begin(staging_t *staging, staged_t **staged);

/* The datagram arrived, or was lost. */
void staging_read(staged_t *staged);

/* Returns what is wrong with that, or NULL. */
const char *staging_end(staging_t *staging, uint8_t staged, bool clean);

/* The network made a second datagram of it. If that arrives first, what is read for the other does not matter: it
 * is a duplicate. */
void staging_copied(staged_t *staged);

void staging_close(staging_t *staging);

#endif
