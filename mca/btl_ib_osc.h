/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What Open MPI's components for windows (its framework osc) do with ib, as far as their parameters
 * tell: they are registered after BTLs are initialized, and before processes are added.
 */

#ifndef BTL_IB_OSC_H
#define BTL_IB_OSC_H

#include <stdbool.h>

/* Is there osc/pt2pt, which makes windows of messages and serves any BTL? It is gone since Open MPI
 * 5.0, and Debian 12 turns it off. Whether it may be used is another question: it refuses
 * MPI_THREAD_MULTIPLE. */
bool btl_ib_osc_has_pt2pt(void);

/* Does osc_rdma_btls name ib? Then osc/rdma takes ib for each window without asking which
 * processes it reaches, so that those of a window are not added. */
bool btl_ib_osc_takes_us_unasked(void);

#endif
