/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Sending: alloc, free, prepare_src, send and sendi. */

#include "btl_ib.h"

#include <errno.h>
#include <string.h>

#include "btl_ib_endpoint.h"
#include "btl_ib_frag.h"

static mca_btl_base_descriptor_t *module_alloc(mca_btl_base_module_t *btl,
                                               struct mca_btl_base_endpoint_t *endpoint,
                                               uint8_t order, size_t size, uint32_t flags)
{
    btl_ib_frag_t *frag = btl_ib_frag_get((btl_ib_module_t *) btl, endpoint, size, flags);

    (void) order;
    return OPAL_LIKELY(frag != NULL) ? &frag->base : NULL;
}

static int module_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des)
{
    (void) btl;
    btl_ib_frag_return((btl_ib_frag_t *) des);
    return OPAL_SUCCESS;
}

/* Advances the convertor by up to *size bytes, and sets *size to how many these are. They are
 * copied to *data; if that is NULL *data is set to where they lie in the user's memory. Returns
 * false if the convertor fails. */
static bool convertor_pack(opal_convertor_t *convertor, void **data, size_t *size)
{
    struct iovec iov = {.iov_base = *data, .iov_len = *size};
    uint32_t count = 1;

    if (*size != 0 && opal_convertor_pack(convertor, &iov, &count, size) < 0) {
        return false;
    }
    *data = iov.iov_base;
    return true;
}

/* True if the fragment is a whole message of ob1's, whose sender may wait until its memory is free.
 * (Pieces of longer messages have SIGNAL, and nobody waits for a single piece.) */
static bool is_eager(uint32_t flags)
{
    return (flags & (MCA_BTL_DES_FLAGS_PRIORITY | MCA_BTL_DES_FLAGS_SIGNAL))
           == MCA_BTL_DES_FLAGS_PRIORITY;
}

/* Returns a fragment whose first segment has `reserve` bytes, at most BTL_IB_HEADER_ROOM, and whose
 * second segment is in the user's memory; an eager one has spare memory of ours for the second
 * segment, too. NULL if there is none, or the convertor fails. */
static btl_ib_frag_t *prepare_in_place(btl_ib_module_t *module,
                                       struct mca_btl_base_endpoint_t *endpoint,
                                       opal_convertor_t *convertor, size_t reserve, size_t *size,
                                       uint32_t flags)
{
    const size_t spare = is_eager(flags) ? *size : 0;
    btl_ib_frag_t *frag = btl_ib_frag_get(module, endpoint, reserve + spare, flags);
    void *data = NULL;

    if (OPAL_UNLIKELY(frag == NULL)) {
        return NULL;
    }
    if (OPAL_UNLIKELY(!convertor_pack(convertor, &data, size) || data == NULL)) {
        btl_ib_frag_return(frag);
        return NULL;
    }
    frag->in_place = spare == 0;
    frag->msg.spare = spare > 0 ? (char *) frag->memory + reserve : NULL;
    frag->segments[0].seg_len = reserve;
    frag->segments[1].seg_addr.pval = data;
    frag->segments[1].seg_len = *size;
    frag->base.des_segment_count = 2;
    return frag;
}

/* Returns a fragment with `reserve` bytes and a copy of the user's data behind them; NULL if there
 * is none, or the convertor fails. */
static btl_ib_frag_t *prepare_copy(btl_ib_module_t *module,
                                   struct mca_btl_base_endpoint_t *endpoint,
                                   opal_convertor_t *convertor, size_t reserve, size_t *size,
                                   uint32_t flags)
{
    btl_ib_frag_t *frag = btl_ib_frag_get(module, endpoint, reserve + *size, flags);
    void *data;

    if (OPAL_UNLIKELY(frag == NULL)) {
        return NULL;
    }
    data = (char *) frag->memory + reserve;
    if (OPAL_UNLIKELY(!convertor_pack(convertor, &data, size))) {
        btl_ib_frag_return(frag);
        return NULL;
    }
    frag->segments[0].seg_len = reserve + *size;
    return frag;
}

static mca_btl_base_descriptor_t *module_prepare_src(mca_btl_base_module_t *btl,
                                                     struct mca_btl_base_endpoint_t *endpoint,
                                                     opal_convertor_t *convertor, uint8_t order,
                                                     size_t reserve, size_t *size, uint32_t flags)
{
    btl_ib_module_t *module = (btl_ib_module_t *) btl;
    const size_t room = (btl->btl_eager_limit > btl->btl_max_send_size ? btl->btl_eager_limit
                                                                       : btl->btl_max_send_size)
                        + BTL_IB_HEADER_ROOM;
    btl_ib_frag_t *frag;

    (void) order;
    if (reserve > room) {
        return NULL;
    }
    if (*size > room - reserve) {
        *size = room - reserve;
    }
    if (*size > mca_btl_ib_component.params.copy_limit && reserve <= BTL_IB_HEADER_ROOM
        && opal_convertor_need_buffers(convertor) == 0 && !btl_ib_ompi_on_device(convertor)) {
        frag = prepare_in_place(module, endpoint, convertor, reserve, size, flags);
    } else {
        frag = prepare_copy(module, endpoint, convertor, reserve, size, flags);
    }
    return OPAL_LIKELY(frag != NULL) ? &frag->base : NULL;
}

/* Delivers a fragment to this process itself, within the call. Messages come this way only if btl
 * self is not selected. */
static int send_to_self(btl_ib_frag_t *frag, mca_btl_base_tag_t tag)
{
    const bool quiet = btl_ib_frag_is_quiet(frag);

    if (tag >= MCA_BTL_TAG_MAX || mca_btl_base_active_message_trigger[tag].cbfunc == NULL) {
        BTL_IB_VERBOSE(1, "a message to this process itself has tag %u, for which nobody listens",
                       tag);
        return OPAL_ERR_UNREACH;
    }
    btl_ib_ompi_deliver(&frag->endpoint->module->super, frag->endpoint, tag, frag->segments,
                        frag->base.des_segment_count);
    if (quiet) {
        btl_ib_frag_return(frag);
        return 1;
    }
    btl_ib_lock();
    OBJ_RETAIN(frag->endpoint); /* until it is given back */
    btl_ib_frag_left(frag);
    btl_ib_unlock();
    return OPAL_SUCCESS;
}

static int module_send(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                       mca_btl_base_descriptor_t *des, mca_btl_base_tag_t tag)
{
    btl_ib_frag_t *frag = (btl_ib_frag_t *) des;
    const bool owned = btl_ib_frag_is_owned(frag);
    const bool quiet = btl_ib_frag_is_quiet(frag);
    int rc;

    (void) btl;
    frag->endpoint = endpoint;
    frag->called_back = false;
    if (OPAL_UNLIKELY(endpoint->conn == NULL)) {
        return send_to_self(frag, tag);
    }
    frag->msg.tag = tag;
    /* ob1 sends without PRIORITY the fragments of long messages only; their convertor needs them
     * in order. */
    frag->msg.ordered = (des->des_flags & MCA_BTL_DES_FLAGS_PRIORITY) == 0;
    frag->msg.want_ack_now = frag->in_place || !owned;
    for (size_t i = 0; i < 2; ++i) {
        const bool there = i < des->des_segment_count;

        frag->msg.iov[i].iov_base = there ? frag->segments[i].seg_addr.pval : NULL;
        frag->msg.iov[i].iov_len = there ? (size_t) frag->segments[i].seg_len : 0;
    }

    btl_ib_lock();
    if (frag->msg.ordered) {
        endpoint = btl_ib_endpoint_for_fragments(endpoint);
        frag->endpoint = endpoint;
    }
    OBJ_RETAIN(endpoint); /* until the engine gives the fragment back */
    btl_ib_frag_set_due(frag, des->des_cbfunc != NULL);
    if (OPAL_UNLIKELY(endpoint->closing)) {
        rc = -EPIPE;
    } else if (btl_ib_engine_join(endpoint->conn, &frag->msg)) {
        rc = 0;
    } else {
        rc = btl_ib_engine_send(endpoint->conn, &frag->msg, btl_ib_now());
        btl_ib_end_call(mca_btl_ib_component.engine);
    }
    btl_ib_poll_throttle_reset(&mca_btl_ib_component.throttle);
    if (OPAL_UNLIKELY(rc == -EPIPE) && btl_ib_endpoint_is_gone(endpoint)) {
        btl_ib_frag_keep_failed(frag);
        rc = 0;
    }
    if (rc == 1 && !quiet) {
        btl_ib_frag_left(frag);
        rc = 0;
    } else if (rc != 0) {
        btl_ib_frag_set_due(frag, false);
        OBJ_RELEASE(endpoint);
    }
    btl_ib_unlock();

    if (rc <= 0) {
        return btl_ib_opal_status(rc);
    }
    btl_ib_frag_return(frag); /* quiet ones are owned */
    return 1;
}

/* Sends a header and data now. Returns false if nothing was sent: then the convertor is where it
 * was before. */
static bool send_now(struct mca_btl_base_endpoint_t *endpoint, opal_convertor_t *convertor,
                     const void *header, size_t header_size, size_t payload_size, uint8_t tag)
{
    size_t position = payload_size > 0 ? convertor->bConverted : 0;
    size_t packed = payload_size;
    char *out;
    void *payload;

    if (OPAL_UNLIKELY(endpoint->closing || endpoint->conn == NULL
                      || header_size + payload_size > UINT32_MAX)) {
        return false;
    }
    out = btl_ib_sendi_begin(endpoint->conn, tag, (uint32_t) (header_size + payload_size));
    if (out == NULL) {
        return false;
    }
    memcpy(out, header, header_size);
    payload = out + header_size;
    if (OPAL_UNLIKELY(!convertor_pack(convertor, &payload, &packed) || packed != payload_size)) {
        btl_ib_sendi_abort(endpoint->conn);
    } else if (OPAL_LIKELY(btl_ib_sendi_commit(endpoint->conn, btl_ib_now()) == 0)) {
        return true;
    }
    if (payload_size > 0) {
        opal_convertor_set_position(convertor, &position);
    }
    return false;
}

static int module_sendi(mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *endpoint,
                        opal_convertor_t *convertor, void *header, size_t header_size,
                        size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                        mca_btl_base_descriptor_t **descriptor)
{
    bool sent;

    btl_ib_lock();
    sent = send_now(endpoint, convertor, header, header_size, payload_size, tag);
    btl_ib_poll_throttle_reset(&mca_btl_ib_component.throttle);
    btl_ib_unlock();
    if (OPAL_LIKELY(sent)) {
        return OPAL_SUCCESS;
    }
    if (descriptor != NULL) {
        *descriptor = module_alloc(btl, endpoint, order, header_size + payload_size, flags);
    }
    return OPAL_ERR_RESOURCE_BUSY;
}

void btl_ib_send_functions(mca_btl_base_module_t *module)
{
    module->btl_alloc = module_alloc;
    module->btl_free = module_free;
    module->btl_prepare_src = module_prepare_src;
    module->btl_send = module_send;
    module->btl_sendi = module_sendi;
}
