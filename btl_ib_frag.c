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

/* Constructs a list of fragments with room for so many bytes beside a header. */
static int list_init(btl_ib_frag_list_t *list, size_t size)
{
    const int most = mca_btl_ib_component.params.free_list_max;

    list->due = 0;
    return btl_ib_free_list_init(&list->items, BTL_IB_FRAG_BYTES + size, OBJ_CLASS(btl_ib_frag_t),
                                 most > 0 ? most : -1);
}

int btl_ib_frag_lists_init(btl_ib_module_t *module)
{
    btl_ib_frag_lists_t *lists = &module->frags;
    const int rc = list_init(&lists->header, 0);
    const int rc_eager = list_init(&lists->eager, module->super.btl_eager_limit);
    const int rc_max = list_init(&lists->max, module->super.btl_max_send_size);

    return rc != OPAL_SUCCESS ? rc : rc_eager != OPAL_SUCCESS ? rc_eager : rc_max;
}

/*
 * Takes one more of a list of which btl_ib_free_list_max are made, if none of them will call back.
 * A fragment can be complete long before it is back in its list, and ob1 tries again only when
 * something completes: it might wait for ever for one that comes back silently. Returns NULL if
 * one will, or memory is short.
 */
static opal_free_list_item_t *get_beyond_max(btl_ib_frag_list_t *list)
{
    opal_free_list_item_t *item = NULL;

    btl_ib_lock();
    if (list->due == 0 && list->items.fl_num_allocated >= list->items.fl_max_to_alloc) {
        list->items.fl_max_to_alloc = list->items.fl_num_allocated + 1;
        item = opal_free_list_get(&list->items);
    }
    btl_ib_unlock();
    return item;
}

btl_ib_frag_t *btl_ib_frag_get(btl_ib_module_t *module, struct mca_btl_base_endpoint_t *endpoint,
                               size_t size, uint32_t flags)
{
    btl_ib_frag_list_t *list = &module->frags.header;
    opal_free_list_item_t *item;
    btl_ib_frag_t *frag;

    if (size > BTL_IB_HEADER_ROOM) {
        const size_t eager = module->super.btl_eager_limit + BTL_IB_HEADER_ROOM;
        const size_t max = module->super.btl_max_send_size + BTL_IB_HEADER_ROOM;
        if (size > eager && size > max) {
            return NULL;
        }
        /* Takes the smaller buffer that holds it: either limit may be the larger one. */
        list = size <= eager && (eager <= max || size > max) ? &module->frags.eager
                                                             : &module->frags.max;
    }
    item = opal_free_list_get(&list->items);
    if (OPAL_UNLIKELY(item == NULL)) {
        item = get_beyond_max(list);
    }
    frag = (btl_ib_frag_t *) item;
    if (OPAL_LIKELY(frag != NULL)) {
        frag->home = list;
        frag->endpoint = endpoint;
        frag->in_place = false;
        frag->msg.spare = NULL;
        frag->called_back = false;
        frag->due = false;
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

    btl_ib_frag_set_due(frag, false);
    if (frag->called_back) {
        return;
    }
    frag->called_back = true;
    if (frag->base.des_cbfunc != NULL) {
        btl_ib_unlock();
        frag->base.des_cbfunc(btl, frag->endpoint, &frag->base, status);
        btl_ib_lock();
    }
}

/* Frees a fragment that the engine is finished with. What is not the BTL's may be gone by now, or
 * on its way to another peer; so endpoint and ownership are those it was sent with. */
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

        frag->called_back = endpoint->closing;
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
        frag->called_back = true;
    } else if (status != 0 && !frag->called_back && btl_ib_conn_is_dead(endpoint->conn)) {
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

        frag->called_back = quiet || endpoint->closing;
        complete_sent(frag, OPAL_ERR_UNREACH);
        frag_give_back(frag, endpoint, owned);
    }
}
