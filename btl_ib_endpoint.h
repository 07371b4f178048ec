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
    uint32_t rails;             /* by which the peer is reached, this one included */
    uint32_t first_rail;        /* of the modules that reach the peer: that of the first one */
    uint32_t first_remote;      /* and the rail of the peer that it talks to */
    btl_ib_list_t failed_frags; /* fragments that came back from a dying connection */
    btl_ib_list_t failed_ops;   /* and one-sided operations */
    btl_ib_list_t gone_link;    /* in the component's list `gone` */
    uint64_t gone_at;           /* us: since then */
    btl_ib_host_t where;        /* its host */
    btl_ib_list_t host_link;    /* with others of that host; empty: it does not tell */
    char host[64];              /* for messages: when they are needed the runtime may be gone */
    char address[64];
    bool answers;       /* its process answers a first contact also while it computes */
    bool dead;          /* its connection is, and that was reported */
    bool told_rejected; /* that it rejected a one-sided operation */
    bool told_lost;     /* that an atomic by devices was lost */
    bool closing;       /* del_procs has it: no callback any more */
    bool closed;        /* its connection was destroyed */
};
typedef struct mca_btl_base_endpoint_t btl_ib_endpoint_t;

OBJ_CLASS_DECLARATION(btl_ib_endpoint_t);

/*
 * Returns an endpoint for `proc`, which published `peer`; NULL if the module cannot reach it. The
 * verbose output says why, and help texts if the user should know. NULL as well if another thread
 * is about to delete the process: *leaving is its endpoint then, which has to be closed first; else
 * NULL.
 */
btl_ib_endpoint_t *btl_ib_endpoint_add(btl_ib_module_t *module, struct opal_proc_t *proc,
                                       const btl_ib_modex_t *peer, btl_ib_endpoint_t **leaving);

/*
 * Makes the connections that the process `name`, which published `peer`, would open if it came by
 * itself, so that the progress thread, which cannot ask the runtime, knows it. Nothing is sent;
 * when the process is added its endpoints adopt them.
 */
void btl_ib_endpoint_expect(const opal_process_name_t *name, const btl_ib_modex_t *peer);

/*
 * Returns the module's endpoint of the own process, made at the first call. NULL if memory is
 * short, or if the module offers no one-sided operations: nobody needs it then.
 */
btl_ib_endpoint_t *btl_ib_endpoint_self(btl_ib_module_t *module, struct opal_proc_t *proc);

/*
 * Returns the connection to ourselves by the module's device, for atomics on memory whose words
 * only devices change; made at the first call. NULL if that fails. It sends nothing.
 */
btl_ib_conn_t *btl_ib_endpoint_loopback(btl_ib_module_t *module);

/* Forgets the connection to ourselves, if it is this one, which is about to be destroyed. */
void btl_ib_endpoint_forget_loopback(const btl_ib_conn_t *conn);

/* True if its connection is dead, and that is to be reported, unless this process ends before:
 * until then what is sent to it is kept, as ob1 ends the job at the first fragment that fails. */
static inline bool btl_ib_endpoint_is_gone(const btl_ib_endpoint_t *endpoint)
{
    return !endpoint->dead && !endpoint->closing && endpoint->conn != NULL
           && btl_ib_conn_is_dead(endpoint->conn);
}

/* Closes the endpoint's connections, without callbacks, unless that was done. What died with them
 * is not completed yet. */
void btl_ib_endpoint_close(btl_ib_endpoint_t *endpoint);

/* Forgets the endpoint, when all is completed. */
void btl_ib_endpoint_remove(btl_ib_endpoint_t *endpoint);

/* Returns the endpoint after `last` (NULL: the first) of all modules; NULL: there is no other. */
btl_ib_endpoint_t *btl_ib_endpoint_next(btl_ib_endpoint_t *last);

/* Returns the endpoint of a module for the process `name`, if its connection is alive; or NULL. */
btl_ib_endpoint_t *btl_ib_endpoint_find(btl_ib_module_t *module, uint64_t name);

/*
 * Returns where a fragment of a long message goes that ob1 gave to this endpoint: to the first one
 * of the peer, or to this one if that is no more. ob1 spreads such fragments over all endpoints of
 * a peer, and the convertor of Open MPI 4.1 crashes unless they arrive in the order in which they
 * were sent.
 */
btl_ib_endpoint_t *btl_ib_endpoint_for_fragments(btl_ib_endpoint_t *endpoint);

/* True if the peer's host is known to be reachable: it is ours, or another process of it answered
 * over any rail, less than `within` us ago (UINT64_MAX: ever). Not if the network, or this host,
 * says that nothing gets to the peer. The endpoints of that host are walked. */
bool btl_ib_endpoint_is_reachable(const btl_ib_endpoint_t *endpoint, uint64_t within);

/* Tells the PML that the process of an endpoint is lost. That ends the job, and then never returns,
 * unless the job is to survive it (ULFM). Called with the lock held, which is free meanwhile. */
void btl_ib_endpoint_tell_lost(const btl_ib_endpoint_t *endpoint, const char *what);

/* Describes both ends; and ours alone, of rail `rail`. */
void btl_ib_endpoint_describe(const btl_ib_endpoint_t *endpoint, btl_ib_ends_t *ends);
void btl_ib_endpoint_describe_rail(uint32_t rail, btl_ib_ends_t *ends);

/* Shows diagnostics of engine and transports that are pending. `adding`: "rank N on host H" if that
 * is the peer that the engine was told of just now; else NULL. */
void btl_ib_endpoint_show_diagnostics(const char *adding);

#endif
