/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_frag.h"

#include "btl_ib_endpoint.h"

/* Room for a header in front of data that stay where they are. */
#define USER_ROOM BTL_IB_HEADER_ROOM

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
    btl_ib_list_init(&frag->failed_link);
}

OBJ_CLASS_INSTANCE(btl_ib_frag_t, mca_btl_base_descriptor_t, frag_constructor, NULL);

static int list_init(opal_free_list_t *list, size_t room)
{
    const btl_ib_params_t *params = &mca_btl_ib_component.params;

    OBJ_CONSTRUCT(list, opal_free_list_t);
    /*
     * No upper bound: a fragment can be complete long before it is back, and ob1 tries again only
     * when something completes, so that a sender might wait for ever for a fragment that comes
     * back silently.
     */
    return opal_free_list_init(list, sizeof(btl_ib_frag_t) + room, opal_cache_line_size,
                               OBJ_CLASS(btl_ib_frag_t), 0, 0, params->free_list_num, -1,
                               params->free_list_inc, NULL, 0, NULL, NULL, NULL);
}

int btl_ib_frag_lists_init(btl_ib_module_t *module)
{
    int rc = list_init(&module->frags_eager, module->super.btl_eager_limit + BTL_IB_HEADER_ROOM);
    int rc_max =
        list_init(&module->frags_max, module->super.btl_max_send_size + BTL_IB_HEADER_ROOM);
    int rc_user = list_init(&module->frags_user, USER_ROOM);

    return OPAL_SUCCESS != rc ? rc : OPAL_SUCCESS != rc_max ? rc_max : rc_user;
}

void btl_ib_frag_lists_fini(btl_ib_module_t *module)
{
    OBJ_DESTRUCT(&module->frags_eager);
    OBJ_DESTRUCT(&module->frags_max);
    OBJ_DESTRUCT(&module->frags_user);
}

static btl_ib_frag_t *take(opal_free_list_t *list, struct mca_btl_base_endpoint_t *endpoint,
                           uint32_t flags)
{
    btl_ib_frag_t *frag = (btl_ib_frag_t *) opal_free_list_get(list);

    if (OPAL_UNLIKELY(NULL == frag)) {
        return NULL;
    }
    frag->home = list;
    frag->endpoint = endpoint;
    frag->in_place = false;
    frag->told = false;
    frag->in_callback = false;
    frag->done = false;
    frag->base.des_flags = flags;
    frag->base.des_cbfunc = NULL;
    frag->base.des_segment_count = 1;
    return frag;
}

btl_ib_frag_t *btl_ib_frag_get(btl_ib_module_t *module, struct mca_btl_base_endpoint_t *endpoint,
                               size_t size, uint32_t flags)
{
    opal_free_list_t *list = NULL;
    btl_ib_frag_t *frag;

    if (size <= USER_ROOM) {
        list = &module->frags_user;
    } else if (size <= module->super.btl_eager_limit + BTL_IB_HEADER_ROOM) {
        list = &module->frags_eager;
    } else if (size <= module->super.btl_max_send_size + BTL_IB_HEADER_ROOM) {
        list = &module->frags_max;
    } else {
        return NULL;
    }
    frag = take(list, endpoint, flags);
    if (OPAL_LIKELY(NULL != frag)) {
        frag->segments[0].seg_len = size;
    }
    return frag;
}

btl_ib_frag_t *btl_ib_frag_get_in_place(btl_ib_module_t *module,
                                        struct mca_btl_base_endpoint_t *endpoint, size_t header,
                                        uint32_t flags)
{
    btl_ib_frag_t *frag;

    if (header > USER_ROOM) {
        return NULL;
    }
    frag = take(&module->frags_user, endpoint, flags);
    if (OPAL_LIKELY(NULL != frag)) {
        frag->in_place = true;
        frag->segments[0].seg_len = header;
        frag->base.des_segment_count = 2;
    }
    return frag;
}

void btl_ib_frag_complete(btl_ib_frag_t *frag, int status)
{
    mca_btl_base_module_t *btl = &frag->endpoint->module->super;

    if (frag->told) {
        return;
    }
    frag->told = true;
    if (NULL == frag->base.des_cbfunc) {
        return;
    }
    btl_ib_unlock();
    frag->base.des_cbfunc(btl, frag->endpoint, &frag->base, status);
    btl_ib_lock();
}
