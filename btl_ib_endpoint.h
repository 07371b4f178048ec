/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One peer as seen by one module: the engine's connection between our rail and one of its rails.
 * Only processes that were added have one; a connection that a stranger opened is the engine's
 * alone until the process is added.
 */

#ifndef BTL_IB_ENDPOINT_H
#define BTL_IB_ENDPOINT_H

#include "btl_ib.h"

/* us between two drains that are one farewell. */
#define BTL_IB_DRAIN_GAP 10000

struct mca_btl_base_endpoint_t {
    opal_list_item_t super; /* in its module's list */
    btl_ib_module_t *module;
    struct opal_proc_t *proc;
    btl_ib_conn_t *conn;         /* NULL: this is the own process (btl_ib_loopback.h) */
    uint32_t remote_rail;        /* of the peer */
    uint32_t first_rail;         /* of the modules that reach the peer: that of the first one */
    uint32_t first_remote;       /* and the rail of the peer that it talks to */
    btl_ib_list_t failed;        /* fragments that came back from a dying connection */
    btl_ib_list_t failed_rdmas;  /* and one-sided operations */
    btl_ib_list_t departed_link; /* in the component's list of deaths that may be no news */
    char host[64];               /* for messages: when they are needed the runtime may be gone */
    char address[64];
    bool answers; /* its process answers a first contact also while it computes */
    bool dead;
    bool told_refused; /* that it refused a one-sided operation */
    bool told_lost;    /* that an atomic by devices was lost */
    bool closing;      /* del_procs has it: no callback any more */
};
typedef struct mca_btl_base_endpoint_t btl_ib_endpoint_t;

OBJ_CLASS_DECLARATION(btl_ib_endpoint_t);

/* Where pieces of long messages go that ob1 gives to this endpoint: to the first one of the peer. ob1 deals them out to all
 * of them, and the convertor of Open MPI 4.1 crashes if they do not come in the order in which they were sent. This
 * endpoint, if the first one is no more. Called with the lock held. */
btl_ib_endpoint_t *btl_ib_endpoint_of_pieces(btl_ib_endpoint_t *endpoint);

/* Its connection is dead: give back what died with it, without callbacks if `quiet`. Called with the lock
 * held. */
void btl_ib_endpoint_fail(btl_ib_endpoint_t *endpoint, bool quiet);

/* If MPI goes on after processes were deleted: report those of the others whose hosts said meanwhile that
 * they are gone. Called with the lock held, by progress. */
void btl_ib_endpoint_mourn_departed(uint64_t now);

/* Destroy an endpoint and its connection, without a callback. Called with the lock held. */
void btl_ib_endpoint_remove(btl_ib_module_t *module, btl_ib_endpoint_t *endpoint);

#endif
