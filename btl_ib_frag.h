/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A fragment: what the PML hands over as a descriptor, and the engine's message that it becomes.
 *
 * alloc or prepare_src takes it from a free list, and send hands it to the engine. Two events end
 * it: completion, when the PML may forget it (its callback says so), and return to the free list,
 * when the engine needs its memory no longer. If the memory is ours and the flags say
 * BTL_OWNERSHIP, completion comes when the last byte was handed to the transport, and return when
 * all was acknowledged; else both come together. An eager message from the user's memory is
 * complete when the engine no longer reads that memory (btl_ib_zcopy.h).
 */

#ifndef BTL_IB_FRAG_H
#define BTL_IB_FRAG_H

#include "btl_ib.h"

typedef struct btl_ib_frag {
    mca_btl_base_descriptor_t base; /* first: Open MPI casts */
    mca_btl_base_segment_t segments[2];
    btl_ib_msg_t msg;
    struct mca_btl_base_endpoint_t *endpoint; /* retained while the engine has the fragment */
    btl_ib_frag_list_t *home;                 /* where it came from and goes back to */
    bool in_place; /* segments[1] is the user's memory, and there is no msg.spare to replace it */
    bool called_back;   /* the callback was called, or is not to be called */
    bool due;           /* it is counted in home->due */
    bool in_callback;   /* the callback that says that it was sent has not returned */
    bool done;          /* the engine gave it back during that callback */
    btl_ib_list_t link; /* in endpoint->failed_frags, or the component's callbacks.ready */
    uint64_t memory[];  /* ours: BTL_IB_HEADER_ROOM and what its list is for */
} btl_ib_frag_t;

OBJ_CLASS_DECLARATION(btl_ib_frag_t);

/* Bytes of a fragment without data. */
#define BTL_IB_FRAG_BYTES (sizeof(btl_ib_frag_t) + BTL_IB_HEADER_ROOM)

/* Constructs the free lists of a module. Returns an OPAL status. */
int btl_ib_frag_lists_init(btl_ib_module_t *module);

/*
 * Returns a fragment with one segment of `size` bytes of our memory and with these flags. NULL if
 * memory is short, if no list has fragments that large, or if all btl_ib_free_list_max are in use
 * and at least one of them will call back (so that the PML tries again). Called without the lock.
 */
btl_ib_frag_t *btl_ib_frag_get(btl_ib_module_t *module, struct mca_btl_base_endpoint_t *endpoint,
                               size_t size, uint32_t flags);

/* Puts a fragment back into its free list. */
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

/* Completes a fragment that the engine copied and sent within send(), and returns it to its list.
 * Its callback is called at once; or, if another fragment's callback is under way, after that one
 * has returned: ob1 sends the next message of a queue in a callback, and a long queue would
 * overflow a short stack. The caller has retained the endpoint. */
void btl_ib_frag_left(btl_ib_frag_t *frag);

/* Calls the callbacks that btl_ib_frag_left() put off. */
void btl_ib_frag_complete_ready(void);

/* Completes a fragment of which every byte was handed to the transport, if it need not wait for the
 * ACK. */
void btl_ib_frag_sent(btl_ib_frag_t *frag);

/* Completes, unless that was done, and returns a fragment that the engine needs no longer. `status`
 * is 0 or a negative errno. One that failed because its peer died is kept until that is
 * reported. */
void btl_ib_frag_done(btl_ib_frag_t *frag, int status);

/* Keeps a fragment whose connection is dead until that is reported, for btl_ib_frag_fail_all(). */
void btl_ib_frag_keep_failed(btl_ib_frag_t *frag);

/* Completes the fragments that died with the endpoint's connection, once that was reported, without
 * their callbacks if `quiet`. */
void btl_ib_frag_fail_all(struct mca_btl_base_endpoint_t *endpoint, bool quiet);

#endif
