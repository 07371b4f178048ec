/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A peer as seen by a module: the engine's connection between our rail and one of the peer's.
 * Only processes that were added have an endpoint; a connection that an unknown process opened is
 * the engine's alone until the process is added. All functions are called with the lock held.
 */

#ifndef BTL_IB_ENDPOINT_H
#define BTL_IB_ENDPOINT_H

#include "btl_ib.h"

struct mca_btl_base_endpoint_t {
    opal_list_item_t super; /* in its module's list */
    btl_ib_module_t *module;
    struct opal_proc_t *proc;
    btl_ib_conn_t *conn;        /* NULL: this is the own process */
    uint32_t remote_rail;       /* of the peer */
    uint32_t rails;             /* how many of our rails reach the peer, this one included */
    uint32_t first_rail;        /* the lowest of them */
    uint32_t first_remote;      /* the rail of the peer that first_rail talks to */
    btl_ib_list_t failed_frags; /* fragments that came back from a dying connection */
    btl_ib_list_t failed_ops;   /* one-sided operations that did */
    btl_ib_list_t gone_link;    /* in the component's list `gone` */
    uint64_t gone_at;           /* us: when its host said that the process is gone */
    btl_ib_host_t where;        /* identifies the peer's host */
    btl_ib_list_t host_link;    /* with other endpoints of that host; empty: it is not known */
    char host[64];              /* name of the host, for texts: the runtime may be gone then */
    char address[64];           /* of the peer's rail at first, for texts */
    bool answers;               /* the peer answers a first contact also while it computes */
    bool dead;                  /* its connection is dead, and that was reported */
    bool reported_rejected;     /* reported that the peer rejected a one-sided operation */
    bool reported_lost;         /* reported that an atomic by devices was lost */
    bool closing;               /* del_procs deletes it: no callback any more */
    bool closed;                /* its connection was destroyed */
};
typedef struct mca_btl_base_endpoint_t btl_ib_endpoint_t;

OBJ_CLASS_DECLARATION(btl_ib_endpoint_t);

/*
 * Returns an endpoint for `proc`, which published `peer`: the one that there is, or a new one. NULL
 * if the module cannot reach it (the verbose output says why, and help texts if the user should
 * know), or if another thread is about to delete the process: then *leaving is its endpoint, which
 * has to be closed first. Else *leaving is NULL.
 */
btl_ib_endpoint_t *btl_ib_endpoint_add(btl_ib_module_t *module, struct opal_proc_t *proc,
                                       const btl_ib_modex_t *peer, btl_ib_endpoint_t **leaving);

/*
 * Makes the connections that the process `name`, which published `peer`, would open to us, so that
 * the progress thread, which cannot ask the runtime, knows that process. Sends nothing. When the
 * process is added, its endpoints adopt these connections.
 */
void btl_ib_endpoint_expect(const opal_process_name_t *name, const btl_ib_modex_t *peer);

/*
 * Returns the module's endpoint of the own process, made at the first call. NULL if memory is
 * short, or if the module offers no one-sided operations: nobody needs it then.
 */
btl_ib_endpoint_t *btl_ib_endpoint_self(btl_ib_module_t *module, struct opal_proc_t *proc);

/*
 * Returns the connection to ourselves by the module's device, for atomics on memory whose words
 * only devices change. The first call makes it, and sends nothing. NULL if that fails.
 */
btl_ib_conn_t *btl_ib_endpoint_loopback(btl_ib_module_t *module);

/* Forgets the connection to ourselves if that is `conn`, which is about to be destroyed. */
void btl_ib_endpoint_forget_loopback(const btl_ib_conn_t *conn);

/* True if the endpoint's connection is dead and that was not reported yet. What is sent meanwhile
 * must be kept: ob1 ends the job at the first fragment that fails, without our report. */
static inline bool btl_ib_endpoint_is_gone(const btl_ib_endpoint_t *endpoint)
{
    return !endpoint->dead && !endpoint->closing && endpoint->conn != NULL
           && btl_ib_conn_is_dead(endpoint->conn);
}

/* Closes the endpoint's connection, without callbacks; does nothing if that was done. Fragments and
 * operations that die with the connection are completed by btl_ib_frag_fail_all() and
 * btl_ib_rdma_fail_all(). */
void btl_ib_endpoint_close(btl_ib_endpoint_t *endpoint);

/* Releases a closed endpoint, after all that was on its way is completed. */
void btl_ib_endpoint_remove(btl_ib_endpoint_t *endpoint);

/* Returns the endpoint after `last` (NULL: the first) of all modules; NULL: there is no other. */
btl_ib_endpoint_t *btl_ib_endpoint_next(btl_ib_endpoint_t *last);

/* Returns the endpoint of a module for the process `name`, if its connection is alive; or NULL. */
btl_ib_endpoint_t *btl_ib_endpoint_find(btl_ib_module_t *module, uint64_t name);

/*
 * Returns the endpoint by which a fragment of a long message leaves that ob1 gave to `endpoint`:
 * the peer's first endpoint, or `endpoint` if that is gone. ob1 spreads such fragments over all
 * endpoints of a peer, and the convertor of Open MPI 4.1 crashes unless they arrive in the order in
 * which they were sent.
 */
btl_ib_endpoint_t *btl_ib_endpoint_for_fragments(btl_ib_endpoint_t *endpoint);

/* True if the peer's host is known to be reachable: it is ours, or another process on it answered
 * over any rail less than `within` us ago (UINT64_MAX: at any time). False if the network or our
 * own host says that nothing gets to the peer. Walks all endpoints of that host. */
bool btl_ib_endpoint_is_reachable(const btl_ib_endpoint_t *endpoint, uint64_t within);

/* Tells the PML that the process of an endpoint is lost; `what` says why, for its error callback.
 * That ends the job, and never returns, unless the job is to survive it (ULFM). Called with the
 * lock held, which is released meanwhile. */
void btl_ib_endpoint_tell_lost(const btl_ib_endpoint_t *endpoint, const char *what);

/* Fills in *ends for texts: both ends of an endpoint; our end alone, of rail `rail`. */
void btl_ib_endpoint_describe(const btl_ib_endpoint_t *endpoint, btl_ib_ends_t *ends);
void btl_ib_endpoint_describe_rail(uint32_t rail, btl_ib_ends_t *ends);

/* Shows pending diagnostics of engine and transports. `adding` is "rank N on host H" while that
 * peer is being added, for diagnostics whose address no endpoint has; else NULL. */
void btl_ib_endpoint_show_diagnostics(const char *adding);

#endif
