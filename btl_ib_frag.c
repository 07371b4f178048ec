/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_frag.h"

#include "btl_ib_endpoint.h"

static void frag_constructor(btl_ib_frag_t *frag)
{
    frag->base.des_segments = frag->segments;
    frag->base.des_segment_count = 1;
    frag->base.order = MCA_BTL_NO_ORDER;
    frag->segments[0].seg_addr.pval = frag->memory;
    /* ob1 leaves the padding of its headers as it is, and it goes over the wire. */
    memset(frag->memory, 0, BTL_IB_HEADER_ROOM);
    memset(&frag->msg, 0, sizeof(frag->msg));
    btl_ib_list_init(&frag->msg.out.link);
    btl_ib_list_init(&frag->link);
}

OBJ_CLASS_INSTANCE(btl_ib_frag_t, mca_btl_base_descriptor_t, frag_constructor, NULL);

int btl_ib_frag_lists_init(btl_ib_module_t *module)
{
    btl_ib_frag_lists_t *lists = &module->frags;
    const size_t size = BTL_IB_FRAG_BYTES;
    const int rc = btl_ib_free_list_init(&lists->header, size, OBJ_CLASS(btl_ib_frag_t));
    const int rc_eager = btl_ib_free_list_init(&lists->eager, size + module->super.btl_eager_limit,
                                               OBJ_CLASS(btl_ib_frag_t));
    const int rc_max = btl_ib_free_list_init(&lists->max, size + module->super.btl_max_send_size,
                                             OBJ_CLASS(btl_ib_frag_t));

    return rc != OPAL_SUCCESS ? rc : rc_eager != OPAL_SUCCESS ? rc_eager : rc_max;
}

btl_ib_frag_t *btl_ib_frag_get(btl_ib_module_t *module, struct mca_btl_base_endpoint_t *endpoint,
                               size_t size, uint32_t flags)
{
    opal_free_list_t *list = &module->frags.header;
    btl_ib_frag_t *frag;

    if (size > module->super.btl_eager_limit + BTL_IB_HEADER_ROOM) {
        if (size > module->super.btl_max_send_size + BTL_IB_HEADER_ROOM) {
            return NULL;
        }
        list = &module->frags.max;
    } else if (size > BTL_IB_HEADER_ROOM) {
        list = &module->frags.eager;
    }
    frag = (btl_ib_frag_t *) opal_free_list_get(list);
    if (OPAL_LIKELY(frag != NULL)) {
        frag->home = list;
        frag->endpoint = endpoint;
        frag->in_place = false;
        frag->msg.spare = NULL;
        frag->told = false;
        frag->in_callback = false;
        frag->done = false;
        frag->base.des_flags = flags;
        frag->base.des_cbfunc = NULL;
        frag->base.des_segment_count = 1;
        frag->segments[0].seg_len = size;
    }
    return frag;
}

/* Calls the callback, if one is due. The fragment may be gone after it unless it is the BTL's. */
static void frag_complete(btl_ib_frag_t *frag, int status)
{
    mca_btl_base_module_t *btl = &frag->endpoint->module->super;

    if (frag->told) {
        return;
    }
    frag->told = true;
    if (frag->base.des_cbfunc != NULL) {
        btl_ib_unlock();
        frag->base.des_cbfunc(btl, frag->endpoint, &frag->base, status);
        btl_ib_lock();
    }
}

/* The engine is finished with a fragment, and so are we. What is not the BTL's may be gone by now,
 * or on its way to another peer; so endpoint and ownership are those it was sent with. */
static void frag_give_back(btl_ib_frag_t *frag, btl_ib_endpoint_t *endpoint, bool owned)
{
    if (owned) {
        btl_ib_frag_return(frag);
    }
    OBJ_RELEASE(endpoint); /* retained when it was sent */
}

void btl_ib_frag_complete_ready(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_frag_t *frag;

    ++component->callbacks.calling;
    while ((frag = BTL_IB_LIST_POP(btl_ib_frag_t, &component->callbacks.ready, link)) != NULL) {
        const bool owned = btl_ib_frag_is_owned(frag);
        btl_ib_endpoint_t *endpoint = frag->endpoint;

        frag->told = endpoint->closing;
        frag_complete(frag, OPAL_SUCCESS);
        frag_give_back(frag, endpoint, owned);
    }
    --component->callbacks.calling;
}

void btl_ib_frag_left(btl_ib_frag_t *frag)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    btl_ib_list_push_tail(&component->callbacks.ready, &frag->link);
    if (component->callbacks.calling == 0) {
        btl_ib_frag_complete_ready();
    }
}

/* Calls the callback of one that the engine had, and then those that waited for that. */
static void complete_sent(btl_ib_frag_t *frag, int status)
{
    btl_ib_component_t *component = &mca_btl_ib_component;

    ++component->callbacks.calling;
    frag_complete(frag, status);
    if (--component->callbacks.calling == 0
        && OPAL_UNLIKELY(!btl_ib_list_empty(&component->callbacks.ready))) {
        btl_ib_frag_complete_ready();
    }
}

void btl_ib_frag_sent(btl_ib_frag_t *frag)
{
    if (!frag->in_place && btl_ib_frag_is_owned(frag) && !frag->endpoint->closing) {
        frag->in_callback = true;
        complete_sent(frag, OPAL_SUCCESS);
        frag->in_callback = false;
        if (frag->done) {
            frag_give_back(frag, frag->endpoint, true);
        }
    }
}

void btl_ib_frag_keep_failed(btl_ib_frag_t *frag)
{
    btl_ib_list_push_tail(&frag->endpoint->failed_frags, &frag->link);
}

void btl_ib_frag_done(btl_ib_frag_t *frag, int status)
{
    const bool owned = btl_ib_frag_is_owned(frag);
    btl_ib_endpoint_t *endpoint = frag->endpoint;

    if (frag->in_callback) {
        /* Further down the stack, or in another thread: the callback still reads the fragment. */
        frag->done = true;
        return;
    }
    if (endpoint->closing) {
        frag->told = true;
    } else if (status != 0 && !frag->told && btl_ib_conn_is_dead(endpoint->conn)) {
        /* ob1 aborts at once when a fragment fails: first the failure is reported. */
        btl_ib_frag_keep_failed(frag);
        return;
    } else {
        complete_sent(frag, status == 0 ? OPAL_SUCCESS : OPAL_ERR_UNREACH);
    }
    frag_give_back(frag, endpoint, owned);
}

void btl_ib_frag_fail_all(btl_ib_endpoint_t *endpoint, bool quiet)
{
    btl_ib_frag_t *frag;

    while ((frag = BTL_IB_LIST_POP(btl_ib_frag_t, &endpoint->failed_frags, link)) != NULL) {
        const bool owned = btl_ib_frag_is_owned(frag);

        frag->told = quiet || endpoint->closing;
        complete_sent(frag, OPAL_ERR_UNREACH);
        frag_give_back(frag, endpoint, owned);
    }
}
