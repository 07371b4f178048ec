/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_modex.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_help.h"
#include "net_interfaces.h"

static void set_ip(btl_ib_modex_rail_t *out, const btl_ib_device_t *device)
{
    size_t len;
    const struct sockaddr_storage *ip =
        device->published.ss_family == device->ip.ss_family ? &device->published : &device->ip;
    const uint8_t *bytes = btl_ib_ip_bytes((const struct sockaddr *) (const void *) ip, &len);

    if (bytes != NULL) {
        out->family = len == 4 ? 4 : 6;
        memcpy(out->ip, bytes, len);
        out->prefix_bits = device->prefix_bits;
    }
}

void btl_ib_modex_add_rail(btl_ib_modex_t *modex, const btl_ib_engine_t *engine, uint32_t rail,
                           const btl_ib_device_t *device, uint32_t bandwidth,
                           btl_ib_atomics_t atomics)
{
    btl_ib_modex_rail_t *out = &modex->rails[modex->rail_count++];
    btl_ib_peer_info_t info;

    btl_ib_engine_rail_info(engine, rail, &info);
    memset(out, 0, sizeof(*out));
    snprintf(out->transport, sizeof(out->transport), "%s", device->transport);
    snprintf(out->provider, sizeof(out->provider), "%s", device->provider);
    out->address_len = info.address_len;
    out->address_base = info.address_base;
    memcpy(out->address, info.address, sizeof(out->address));
    set_ip(out, device);
    out->loopback = device->loopback;
    out->rank = device->rank;
    out->max_datagram = info.max_datagram;
    out->bandwidth = bandwidth;
    out->ack_delay = info.ack_delay;
    out->atomics = atomics;
    out->ecn = info.ecn;
    out->queues = info.queues;
}

int btl_ib_modex_publish(const btl_ib_modex_t *modex)
{
    uint8_t *bytes = malloc(BTL_IB_MODEX_SIZE_MAX);
    int size;
    int rc;

    if (bytes == NULL) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    size = btl_ib_modex_pack(modex, bytes, BTL_IB_MODEX_SIZE_MAX);
    if (size < 0) {
        BTL_IB_VERBOSE(1, "what we would publish of ourselves makes no sense: %s", strerror(-size));
        rc = OPAL_ERROR;
    } else {
        rc = btl_ib_ompi_modex_send(bytes, (size_t) size);
    }
    free(bytes);
    return rc;
}

btl_ib_modex_t *btl_ib_modex_get(const opal_process_name_t *name, bool wait)
{
    btl_ib_modex_t *modex;
    void *bytes;
    size_t size;
    int rc;

    rc = btl_ib_ompi_modex_recv(name, wait, &bytes, &size);
    if (rc != OPAL_SUCCESS) {
        BTL_IB_VERBOSE(10, "%s published nothing for ib", opal_process_name_print(*name));
        return NULL;
    }
    modex = malloc(sizeof(*modex));
    rc = modex == NULL ? -ENOMEM : btl_ib_modex_unpack(modex, bytes, size);
    free(bytes);
    if (rc != 0) {
        BTL_IB_VERBOSE(1, "what %s published (%zu bytes) cannot be used: %s",
                       opal_process_name_print(*name), size, strerror(-rc));
        free(modex);
        return NULL;
    }
    return modex;
}

/* ---- kept descriptions ---- */

typedef struct kept {
    size_t size;
    uint8_t bytes[];
} kept_t;

static kept_t *kept_of(opal_hash_table_t *known, uint64_t name)
{
    void *kept = NULL;

    return opal_hash_table_get_value_uint64(known, name, &kept) == OPAL_SUCCESS ? kept : NULL;
}

void btl_ib_modex_keep(opal_hash_table_t *known, uint64_t name, const btl_ib_modex_t *modex)
{
    kept_t *kept;
    kept_t *fitted;
    int size;

    if (kept_of(known, name) != NULL) {
        return;
    }
    kept = malloc(sizeof(*kept) + BTL_IB_MODEX_SIZE_MAX);
    if (kept == NULL) {
        return;
    }
    size = btl_ib_modex_pack(modex, kept->bytes, BTL_IB_MODEX_SIZE_MAX);
    if (size < 0) {
        free(kept);
        return;
    }
    kept->size = (size_t) size;
    fitted = realloc(kept, sizeof(*kept) + kept->size);
    kept = fitted != NULL ? fitted : kept;
    if (opal_hash_table_set_value_uint64(known, name, kept) != OPAL_SUCCESS) {
        free(kept);
    }
}

btl_ib_modex_t *btl_ib_modex_recall(opal_hash_table_t *known, uint64_t name)
{
    const kept_t *kept = kept_of(known, name);
    btl_ib_modex_t *modex = kept != NULL ? malloc(sizeof(*modex)) : NULL;

    if (modex != NULL && btl_ib_modex_unpack(modex, kept->bytes, kept->size) != 0) {
        free(modex);
        return NULL;
    }
    return modex;
}

void btl_ib_modex_forget(opal_hash_table_t *known, uint64_t name)
{
    kept_t *kept = kept_of(known, name);

    if (kept != NULL) {
        opal_hash_table_remove_value_uint64(known, name);
        free(kept);
    }
}

void btl_ib_modex_forget_all(opal_hash_table_t *known)
{
    uint64_t name;
    void *kept, *node;

    for (int rc = opal_hash_table_get_first_key_uint64(known, &name, &kept, &node);
         rc == OPAL_SUCCESS;
         rc = opal_hash_table_get_next_key_uint64(known, &name, &kept, node, &node)) {
        free(kept);
    }
    opal_hash_table_remove_all(known);
}

void btl_ib_modex_peer_info(const btl_ib_modex_t *modex, const opal_process_name_t *name,
                            uint32_t rail, btl_ib_peer_info_t *info)
{
    const btl_ib_modex_rail_t *in = &modex->rails[rail];

    memset(info, 0, sizeof(*info));
    info->name = btl_ib_name_pack(*name);
    info->secret = modex->secret;
    info->wire = modex->wire;
    info->protection = modex->protection;
    info->key = modex->key;
    info->rail = rail;
    info->ack_delay = in->ack_delay;
    info->answers = modex->answers;
    info->ecn = in->ecn;
    info->max_datagram = in->max_datagram;
    info->address_len = in->address_len;
    memcpy(info->address, in->address, sizeof(info->address));
    info->queues = in->queues;
}

const char *btl_ib_modex_ip_text(const btl_ib_modex_rail_t *rail, char *text, size_t size)
{
    if (rail->family == 0
        || inet_ntop(rail->family == 4 ? AF_INET : AF_INET6, rail->ip, text, (socklen_t) size)
               == NULL) {
        snprintf(text, size, "no IP address");
    }
    return text;
}
