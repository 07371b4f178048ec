/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Performance variables of MPI_T: all that btl_ib_stats.h knows, while the job runs. All can be
 * read only, are continuous, bound to no object, and of type unsigned long long:
 *
 *   btl_ib_<counter>         one value, of the process
 *   btl_ib_device_<counter>  BTL_IB_RAILS_MAX values, one for each device, by its rail
 *   btl_ib_channel_<counter> BTL_IB_QUEUES_MAX values, one for each channel, of all devices
 *   btl_ib_peer_<counter>    one value for each process of the job, by its rank in MPI_COMM_WORLD
 *   btl_ib_peer_<level>      the same
 *
 * Counters are of class COUNTER: a handle shows what was counted since it was made. Levels are of
 * class LEVEL. A BTL knows no communicator, so peers go by their ranks in the job, and handles of
 * theirs can be made once MPI is initialized.
 */

#ifndef BTL_IB_PVARS_H
#define BTL_IB_PVARS_H

#include "btl_ib_compat.h"
#include "btl_ib_stats.h"

/* Register all. `stats` is there as long as the component is. */
void btl_ib_pvars_register(const mca_base_component_t *component, btl_ib_stats_t *stats);

#endif
