/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_modex_codec.h"

#include <errno.h>
#include <string.h>

#define BTL_IB_MODEX_MAGIC 0x42744962u

/* Positions in a buffer. `full` and `bad` stay true once they are set, so that it is enough to read
 * them at the end. */
typedef struct writer {
    uint8_t *at;
    size_t left;
    bool full;
} writer_t;

typedef struct reader {
    const uint8_t *at;
    size_t left;
    bool bad;
} reader_t;

static void put_bytes(writer_t *w, const void *bytes, size_t size)
{
    if (size > w->left) {
        w->full = true;
        return;
    }
    memcpy(w->at, bytes, size);
    w->at += size;
    w->left -= size;
}

static void put_uint(writer_t *w, uint64_t value, unsigned bytes)
{
    uint8_t buffer[8];

    for (unsigned i = 0; i < bytes; ++i) {
        buffer[i] = (uint8_t) (value >> (8 * (bytes - 1 - i)));
    }
    put_bytes(w, buffer, bytes);
}

static void put_block(writer_t *w, const void *bytes, size_t size)
{
    put_uint(w, size, 1);
    put_bytes(w, bytes, size);
}

/* Begins a part with its length, two bytes, in front of it. Returns the place of the length. */
static writer_t put_length(writer_t *w)
{
    const writer_t length = *w;

    put_uint(w, 0, 2);
    return length;
}

/* Ends such a part: fills in its length. */
static void end_length(writer_t *length, const writer_t *w)
{
    put_uint(length, length->left - w->left - 2, 2);
}

static void get_bytes(reader_t *r, void *bytes, size_t size)
{
    if (size > r->left) {
        r->bad = true;
        r->left = 0;
        memset(bytes, 0, size);
        return;
    }
    memcpy(bytes, r->at, size);
    r->at += size;
    r->left -= size;
}

static uint64_t get_uint(reader_t *r, unsigned bytes)
{
    uint8_t buffer[8];
    uint64_t value = 0;

    get_bytes(r, buffer, bytes);
    for (unsigned i = 0; i < bytes; ++i) {
        value = value << 8 | buffer[i];
    }
    return value;
}

/* Reads a byte that must be `low` to `high`. */
static uint32_t get_byte(reader_t *r, uint32_t low, uint32_t high)
{
    uint32_t value = (uint32_t) get_uint(r, 1);

    if (value < low || value > high) {
        r->bad = true;
    }
    return value;
}

/* Takes a part with its length, two bytes, in front of it. Returns a reader of that part alone. */
static reader_t get_part(reader_t *r)
{
    const size_t length = (size_t) get_uint(r, 2);
    reader_t part = {.at = r->at, .left = length, .bad = r->bad || length > r->left};

    if (part.bad) {
        r->bad = true;
        part.left = 0;
        return part;
    }
    r->at += length;
    r->left -= length;
    return part;
}

/* Ends a part of which all known fields were read. Bytes may be left in a later version only. */
static void end_part(reader_t *r, const reader_t *part, bool later)
{
    r->bad |= part->bad || (part->left > 0 && !later);
}

/* True of printable ASCII without blanks: names of transports, providers and hosts. */
static bool text_ok(const char *text, size_t len)
{
    for (size_t i = 0; i < len; ++i) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return true;
}

/* Reads a text of at most size - 1 characters. */
static void get_text(reader_t *r, char *text, size_t size)
{
    size_t len = get_byte(r, 0, (uint32_t) size - 1);

    if (len > size - 1) {
        len = 0;
    }
    get_bytes(r, text, len);
    text[len] = '\0';
    if (!text_ok(text, len)) {
        r->bad = true;
    }
}

static size_t ip_bytes(uint8_t family)
{
    return family == 4 ? 4 : family == 6 ? 16 : 0;
}

static bool rail_ok(const btl_ib_modex_rail_t *rail)
{
    const size_t ip = ip_bytes(rail->family);

    return rail->transport[0] != '\0' && rail->address_len >= 1
           && rail->address_len <= BTL_IB_ADDR_BYTES && rail->address_base <= rail->address_len
           && (ip > 0 || rail->family == 0) && rail->prefix_bits <= 8 * ip
           && rail->rank < BTL_IB_RANKS && rail->max_datagram >= BTL_IB_QUEUE_SIZE_MIN
           && rail->max_datagram <= BTL_IB_QUEUE_SIZE_MAX
           && rail->ack_delay <= BTL_IB_MODEX_ACK_DELAY_MAX
           && (uint32_t) rail->atomics < BTL_IB_ATOMICS_KINDS
           && btl_ib_queues_check(&rail->queues) == 0;
}

#define QUEUE_BYTES 33u

static void put_queues(writer_t *w, const btl_ib_queue_table_t *table)
{
    put_uint(w, table->count, 1);
    put_uint(w, QUEUE_BYTES, 1);
    for (uint32_t i = 0; i < table->count; ++i) {
        const btl_ib_queue_t *q = &table->q[i];

        put_uint(w, (uint64_t) q->type, 1);
        put_uint(w, q->size, 4);
        put_uint(w, q->num, 4);
        put_uint(w, q->low, 4);
        put_uint(w, q->window, 4);
        put_uint(w, q->reserve, 4);
        put_uint(w, q->max_pending, 4);
        put_uint(w, q->init, 4);
        put_uint(w, q->limit, 4);
    }
}

static void get_queues(reader_t *r, btl_ib_queue_table_t *table, bool later)
{
    uint8_t more[UINT8_MAX];
    uint32_t bytes;

    table->count = get_byte(r, 1, BTL_IB_QUEUES_MAX);
    bytes = get_byte(r, QUEUE_BYTES, later ? UINT8_MAX : QUEUE_BYTES);
    for (uint32_t i = 0; i < table->count && !r->bad; ++i) {
        btl_ib_queue_t *q = &table->q[i];
        const uint32_t type = (uint32_t) get_uint(r, 1);

        if (type != BTL_IB_QUEUE_PER_PEER && type != BTL_IB_QUEUE_SHARED) {
            r->bad = true;
        }
        q->type = (btl_ib_queue_type_t) type;
        q->size = (uint32_t) get_uint(r, 4);
        q->num = (uint32_t) get_uint(r, 4);
        q->low = (uint32_t) get_uint(r, 4);
        q->window = (uint32_t) get_uint(r, 4);
        q->reserve = (uint32_t) get_uint(r, 4);
        q->max_pending = (uint32_t) get_uint(r, 4);
        q->init = (uint32_t) get_uint(r, 4);
        q->limit = (uint32_t) get_uint(r, 4);
        get_bytes(r, more, r->bad ? 0 : bytes - QUEUE_BYTES);
    }
}

static void put_rail(writer_t *w, const btl_ib_modex_rail_t *rail)
{
    writer_t length = put_length(w);
    const uint32_t base = rail->address_base != 0 ? rail->address_base : rail->address_len;

    put_block(w, rail->transport, strnlen(rail->transport, sizeof(rail->transport) - 1));
    put_block(w, rail->provider, strnlen(rail->provider, sizeof(rail->provider) - 1));
    put_block(w, rail->address, base);
    put_uint(w, rail->family, 1);
    put_uint(w, rail->prefix_bits, 1);
    put_uint(w, rail->loopback, 1);
    put_uint(w, rail->rank, 1);
    put_bytes(w, rail->ip, ip_bytes(rail->family));
    put_uint(w, rail->max_datagram, 4);
    put_uint(w, rail->bandwidth, 4);
    put_uint(w, rail->ack_delay, 4);
    put_uint(w, (uint64_t) rail->atomics, 1);
    put_queues(w, &rail->queues);
    put_block(w, rail->address + base, rail->address_len - base);
    put_uint(w, rail->ecn, 1);
    end_length(&length, w);
}

/* Reads the rest of the address, which readers of version 5 do not see. */
static void get_more_address(reader_t *r, btl_ib_modex_rail_t *rail)
{
    const uint32_t base = rail->address_len;
    const uint32_t more = get_byte(r, 0, BTL_IB_ADDR_BYTES - base);

    if (!r->bad) {
        get_bytes(r, rail->address + base, more);
        rail->address_base = more > 0 ? base : 0;
        rail->address_len += more;
    }
}

static void get_rail(reader_t *r, btl_ib_modex_rail_t *rail, uint16_t version)
{
    memset(rail, 0, sizeof(*rail));
    get_text(r, rail->transport, sizeof(rail->transport));
    get_text(r, rail->provider, sizeof(rail->provider));
    rail->address_len = get_byte(r, 1, BTL_IB_ADDR_BYTES);
    if (r->bad) {
        return;
    }
    get_bytes(r, rail->address, rail->address_len);
    rail->family = (uint8_t) get_uint(r, 1);
    rail->prefix_bits = (uint8_t) get_uint(r, 1);
    rail->loopback = get_byte(r, 0, 1) != 0;
    rail->rank = (uint8_t) get_byte(r, 0, BTL_IB_RANKS - 1);
    get_bytes(r, rail->ip, ip_bytes(rail->family));
    rail->max_datagram = (uint32_t) get_uint(r, 4);
    rail->bandwidth = (uint32_t) get_uint(r, 4);
    rail->ack_delay = (uint32_t) get_uint(r, 4);
    rail->atomics = (btl_ib_atomics_t) get_byte(r, 0, BTL_IB_ATOMICS_KINDS - 1);
    get_queues(r, &rail->queues, version > BTL_IB_MODEX_VERSION);
    if (!r->bad && version >= 6) {
        get_more_address(r, rail);
        rail->ecn = get_byte(r, 0, 1) != 0;
    }
    if (!r->bad && !rail_ok(rail)) {
        r->bad = true;
    }
}

static void get_protection(reader_t *r, btl_ib_modex_t *modex)
{
    const btl_ib_protection_ops_t *ops;

    modex->protection = (btl_ib_protection_kind_t) get_byte(r, 0, BTL_IB_PROTECTION_KINDS - 1);
    memset(&modex->key, 0, sizeof(modex->key));
    ops = btl_ib_protection_ops(modex->protection);
    if (ops != NULL && ops->keyed) {
        get_bytes(r, modex->key.bytes, sizeof(modex->key.bytes));
    }
}

static bool modex_ok(const btl_ib_modex_t *modex)
{
    if (modex->rail_count < 1 || modex->rail_count > BTL_IB_RAILS_MAX || modex->message_max == 0
        || btl_ib_protection_ops(modex->protection) == NULL
        || !text_ok(modex->host, strnlen(modex->host, sizeof(modex->host)))
        || !text_ok(modex->release, strnlen(modex->release, sizeof(modex->release)))
        || modex->wire.oldest < 1 || modex->wire.newest < modex->wire.oldest) {
        return false;
    }
    for (uint32_t i = 0; i < modex->rail_count; ++i) {
        if (!rail_ok(&modex->rails[i])) {
            return false;
        }
    }
    return true;
}

/* Writes what concerns the process itself, not its rails. */
static void put_process(writer_t *w, const btl_ib_modex_t *modex)
{
    writer_t length = put_length(w);

    put_uint(w, modex->secret.k[0], 8);
    put_uint(w, modex->secret.k[1], 8);
    put_uint(w, modex->protection, 1);
    if (btl_ib_protection_ops(modex->protection)->keyed) {
        put_bytes(w, modex->key.bytes, sizeof(modex->key.bytes));
    }
    put_uint(w, modex->answers, 1);
    put_uint(w, modex->message_max, 4);
    put_block(w, modex->host, strnlen(modex->host, sizeof(modex->host) - 1));
    put_uint(w, modex->where.machine, 8);
    put_uint(w, modex->where.network, 8);
    end_length(&length, w);
}

static void get_process(reader_t *r, btl_ib_modex_t *modex)
{
    modex->secret.k[0] = get_uint(r, 8);
    modex->secret.k[1] = get_uint(r, 8);
    get_protection(r, modex);
    modex->answers = get_byte(r, 0, 1) != 0;
    modex->message_max = (uint32_t) get_uint(r, 4);
    get_text(r, modex->host, sizeof(modex->host));
    modex->where.machine = get_uint(r, 8);
    modex->where.network = get_uint(r, 8);
}

int btl_ib_modex_pack(const btl_ib_modex_t *modex, void *out, size_t size)
{
    writer_t w = {.at = out, .left = size, .full = false};
    writer_t total;
    size_t used;

    if (!modex_ok(modex)) {
        return -EINVAL;
    }
    put_uint(&w, BTL_IB_MODEX_MAGIC, 4);
    put_uint(&w, BTL_IB_MODEX_VERSION, 2);
    put_uint(&w, BTL_IB_MODEX_OLDEST, 2);
    total = w;
    put_uint(&w, 0, 4);
    put_uint(&w, modex->wire.oldest, 1);
    put_uint(&w, modex->wire.newest, 1);
    put_block(&w, modex->release, strnlen(modex->release, sizeof(modex->release) - 1));
    put_process(&w, modex);
    put_uint(&w, modex->rail_count, 1);
    for (uint32_t i = 0; i < modex->rail_count; ++i) {
        put_rail(&w, &modex->rails[i]);
    }
    if (w.full) {
        return -ENOSPC;
    }
    used = size - w.left;
    put_uint(&total, used, 4);
    return (int) used;
}

/* Reads the range of versions, which every version begins with; from version 5 on also the versions
 * of datagrams and the release. Returns false if the bytes are no description. */
static bool get_versions(reader_t *r, btl_ib_modex_t *modex, size_t size)
{
    const bool magic = get_uint(r, 4) == BTL_IB_MODEX_MAGIC;

    modex->version = (uint16_t) get_uint(r, 2);
    modex->oldest = (uint16_t) get_uint(r, 2);
    if (!magic || get_uint(r, 4) != size || modex->oldest > modex->version) {
        return false;
    }
    if (modex->version >= 5) {
        modex->wire.oldest = (uint8_t) get_uint(r, 1);
        modex->wire.newest = (uint8_t) get_uint(r, 1);
        get_text(r, modex->release, sizeof(modex->release));
    }
    return !r->bad;
}

int btl_ib_modex_unpack(btl_ib_modex_t *modex, const void *bytes, size_t size)
{
    reader_t r = {.at = bytes, .left = size, .bad = false};
    reader_t part;

    memset(modex, 0, sizeof(*modex));
    if (!get_versions(&r, modex, size)) {
        return -EBADMSG;
    }
    if (modex->version < BTL_IB_MODEX_OLDEST || modex->oldest > BTL_IB_MODEX_VERSION) {
        return 0;
    }
    const bool later = modex->version > BTL_IB_MODEX_VERSION;
    part = get_part(&r);
    get_process(&part, modex);
    end_part(&r, &part, later);
    modex->rail_count = get_byte(&r, 1, BTL_IB_RAILS_MAX);
    for (uint32_t i = 0; i < modex->rail_count && !r.bad; ++i) {
        part = get_part(&r);
        get_rail(&part, &modex->rails[i], modex->version);
        end_part(&r, &part, later);
    }
    end_part(&r, &r, later);
    return r.bad || !modex_ok(modex) ? -EBADMSG : 0;
}
