/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A fragment: what the PML hands over as a descriptor, and the engine's message that it becomes.
 *
 * alloc or prepare_src takes it from a free list, send hands it to the engine. It is complete,
 * which its callback tells, when the PML may forget about it; it goes back to its list when the
 * engine needs its memory no longer. With our memory and our ownership it is complete when the last
 * byte was handed to the transport, and back when all was acknowledged; else both happen together.
 * An eager message from the user's memory is complete when that is free (btl_ib_sentmap.h).
 */

#ifndef BTL_IB_FRAG_H
#define BTL_IB_FRAG_H

#include "btl_ib.h"

typedef struct btl_ib_frag {
    mca_btl_base_descriptor_t base; /* first: Open MPI casts */
    mca_btl_base_segment_t segments[2];
    btl_ib_msg_t msg;
    struct mca_btl_base_endpoint_t *endpoint; /* it is retained while the engine has the fragment */
    btl_ib_frag_list_t *home;
    bool in_place; /* segments[1] is the user's memory, and msg.spare is not there to replace it */
    bool told;     /* the callback was called, or none is due */
    bool due;      /* it is one of home->due */
    bool in_callback;   /* it was sent, and the callback that says so has not returned */
    bool done;          /* the engine gave it back during that */
    btl_ib_list_t link; /* of those that died with their endpoint, or whose callback is due */
    uint64_t memory[];  /* ours, as much as its list says */
} btl_ib_frag_t;

OBJ_CLASS_DECLARATION(btl_ib_frag_t);

/* Bytes of one without data. */
#define BTL_IB_FRAG_BYTES (sizeof(btl_ib_frag_t) + BTL_IB_HEADER_ROOM)

/* Constructs the free lists of a module. Returns an OPAL status. */
int btl_ib_frag_lists_init(btl_ib_module_t *module);

/*
 * Returns a fragment with one segment of `size` bytes of ours, its flags set. NULL if memory is
 * short, the size is beyond all limits, or btl_ib_free_list_max are in use, of which one will call
 * back.
 */
btl_ib_frag_t *btl_ib_frag_get(btl_ib_module_t *module, struct mca_btl_base_endpoint_t *endpoint,
                               size_t size, uint32_t flags);

static inline void btl_ib_frag_return(btl_ib_frag_t *frag)
{
    opal_free_list_return(&frag->home->items, &frag->base.super);
}

static inline btl_ib_frag_t *btl_ib_frag_of(btl_ib_msg_t *msg)
{
    return BTL_IB_CONTAINER(msg, btl_ib_frag_t, msg);
}

static inline bool btl_ib_frag_is_owned(const btl_ib_frag_t *frag)
{
    return (frag->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) != 0;
}

/* True if send() may return 1 instead of calling back. */
static inline bool btl_ib_frag_is_quiet(const btl_ib_frag_t *frag)
{
    return btl_ib_frag_is_owned(frag)
           && (frag->base.des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) == 0;
}

/* Notes whether a fragment will call back. Called with the lock held. */
static inline void btl_ib_frag_set_due(btl_ib_frag_t *frag, bool due)
{
    frag->home->due += (uint32_t) due - (uint32_t) frag->due;
    frag->due = due;
}

/* The next five are called with the lock held, which is released during callbacks. */

/* Gives back what the engine copied and sent, after its callback. That is called at once; within a
 * callback of another one after that, or in the next turn: ob1 sends the next of a queue in a
 * callback, which may be long, and the stack short. The caller has retained its endpoint. */
void btl_ib_frag_left(btl_ib_frag_t *frag);

/* Calls the callbacks of fragments that the engine is finished with. */
void btl_ib_frag_complete_ready(void);

/* Notes that the engine handed every byte to the transport (sent), or that it needs the fragment no
 * longer (done), with status 0 or a negative errno. */
void btl_ib_frag_sent(btl_ib_frag_t *frag);
void btl_ib_frag_done(btl_ib_frag_t *frag, int status);

/* Keeps a fragment whose connection is dead until that is reported: btl_ib_frag_fail_all()
 * follows. */
void btl_ib_frag_keep_failed(btl_ib_frag_t *frag);

/* Completes the fragments that died with the endpoint's connection, once that was reported, without
 * their callbacks if `quiet`. */
void btl_ib_frag_fail_all(struct mca_btl_base_endpoint_t *endpoint, bool quiet);

#endif
