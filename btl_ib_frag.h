/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A fragment: what the PML hands over as a descriptor, and the engine's message that it becomes.
 *
 * Its life: taken from a free list by alloc or prepare_src, given to send. It is complete, which
 * its callback tells, when the PML may forget about it; it goes back to its list when the engine
 * needs its memory no longer. With our memory and our ownership the first comes when the last byte
 * was handed to the transport, the second when all was acknowledged; else both come together.
 */

#ifndef BTL_IB_FRAG_H
#define BTL_IB_FRAG_H

#include "btl_ib.h"

typedef struct btl_ib_frag {
    mca_btl_base_descriptor_t base; /* first: Open MPI casts */
    mca_btl_base_segment_t segments[2];
    btl_ib_msg_t msg;
    struct mca_btl_base_endpoint_t *endpoint;
    opal_free_list_t *home;
    bool in_place;             /* segments[1] is the user's memory */
    bool told;                 /* the callback was called, or none is due */
    bool in_callback;          /* it was sent, and the callback that says so has not returned */
    bool done;                 /* the engine gave it back during that */
    btl_ib_list_t failed_link; /* in its endpoint's list of fragments that died with it */
    uint64_t memory[];         /* ours, as much as its list says */
} btl_ib_frag_t;

OBJ_CLASS_DECLARATION(btl_ib_frag_t);

/* Construct and destruct the free lists of a module. Returns an OPAL status. */
int btl_ib_frag_lists_init(btl_ib_module_t *module);
void btl_ib_frag_lists_fini(btl_ib_module_t *module);

/*
 * A fragment with one segment of `size` bytes of ours, its flags set. NULL if memory is short or
 * the size is beyond all limits.
 */
btl_ib_frag_t *btl_ib_frag_get(btl_ib_module_t *module, struct mca_btl_base_endpoint_t *endpoint,
                               size_t size, uint32_t flags);

/* One with `header` bytes of ours, and a second segment for the user's, which the caller fills in. */
btl_ib_frag_t *btl_ib_frag_get_in_place(btl_ib_module_t *module,
                                        struct mca_btl_base_endpoint_t *endpoint, size_t header,
                                        uint32_t flags);

static inline void btl_ib_frag_return(btl_ib_frag_t *frag)
{
    opal_free_list_return(frag->home, &frag->base.super);
}

static inline btl_ib_frag_t *btl_ib_frag_of(btl_ib_msg_t *msg)
{
    return BTL_IB_CONTAINER(msg, btl_ib_frag_t, msg);
}

/* Call the fragment's callback, if one is due, without the lock. The fragment may be gone after
 * it unless it is the BTL's. */
void btl_ib_frag_complete(btl_ib_frag_t *frag, int status);

#endif
