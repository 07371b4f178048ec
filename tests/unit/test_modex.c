/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What processes publish of themselves: packing, strict unpacking, and which rails are joined.
 */

#include "btl_ib_rail_match.c" /* what is static there */

#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>

#include "btl_ib_modex_codec.h"
#include "unit.h"

/* Where fields of the packed form are, for tests that spoil them: of make()'s, whose release has 5
 * bytes. */
#define AT_VERSION  4
#define AT_OLDEST   6
#define AT_SIZE     8
#define AT_WIRE     12
#define AT_PROCESS  20 /* its length; then the process */
#define AT_ANSWERS  39
#define AT_MSG_MAX  40
#define AT_HOST     44
#define AT_WHERE(n) (45 + (n)) /* n: length of the host's name */
#define AT_RAILS(n) (AT_WHERE(n) + 16)

static void set_rail(btl_ib_modex_rail_t *rail, const char *provider, uint8_t a, uint8_t b,
                     uint8_t c, uint8_t d, uint8_t bits)
{
    btl_ib_queues_error_t error;
    const uint8_t ip[4] = {a, b, c, d};

    memset(rail, 0, sizeof(*rail));
    snprintf(rail->transport, sizeof(rail->transport), "ofi");
    snprintf(rail->provider, sizeof(rail->provider), "%s", provider);
    rail->address_len = 16;
    memset(rail->address, d, rail->address_len);
    rail->family = 4;
    rail->prefix_bits = bits;
    memcpy(rail->ip, ip, sizeof(ip));
    rail->loopback = a == 127;
    rail->max_datagram = 1472;
    rail->bandwidth = 10000;
    rail->ack_delay = 25;
    rail->atomics = (btl_ib_atomics_t) (b % BTL_IB_ATOMICS_KINDS);
    rail->ecn = d % 2 != 0;
    assert_int_equal(
        0, btl_ib_queues_parse("P,128,256,128,16:S,1472,256,128,32", &rail->queues, &error));
}

static btl_ib_modex_t *make(uint32_t rails)
{
    btl_ib_modex_t *modex = calloc(1, sizeof(*modex));

    assert_non_null(modex);
    modex->version = BTL_IB_MODEX_VERSION;
    modex->oldest = BTL_IB_MODEX_OLDEST;
    modex->wire = (btl_ib_versions_t){1, 2};
    snprintf(modex->release, sizeof(modex->release), "0.2.0");
    modex->secret.k[0] = UINT64_C(0x0102030405060708);
    modex->secret.k[1] = UINT64_C(0x1112131415161718);
    modex->protection = BTL_IB_PROTECTION_CRC32C;
    modex->answers = true;
    modex->message_max = 66048;
    snprintf(modex->host, sizeof(modex->host), "node7");
    modex->where.machine = UINT64_C(0x2122232425262728);
    modex->where.network = UINT64_C(0x3132333435363738);
    modex->rail_count = rails;
    for (uint32_t i = 0; i < rails; ++i) {
        set_rail(&modex->rails[i], "udp", 10, (uint8_t) i, 0, 7, 16);
    }
    return modex;
}

static int pack(const btl_ib_modex_t *modex, uint8_t *bytes)
{
    const int size = btl_ib_modex_pack(modex, bytes, BTL_IB_MODEX_SIZE_MAX);

    assert_true(size > 0);
    return size;
}

/* The bytes in memory of their exact size, so that a sanitizer sees a read beyond the end. */
static int unpack_exact(btl_ib_modex_t *modex, const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    int rc;

    assert_non_null(copy);
    memcpy(copy, bytes, size);
    rc = btl_ib_modex_unpack(modex, copy, size);
    free(copy);
    return rc;
}

TEST(test_round_trip)
{
    uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];
    btl_ib_modex_t out;

    for (uint32_t rails = 1; rails <= BTL_IB_RAILS_MAX; ++rails) {
        btl_ib_modex_t *in = make(rails);
        const int size = pack(in, bytes);

        memset(&out, 0, sizeof(out));
        assert_int_equal(0, unpack_exact(&out, bytes, (size_t) size));
        assert_memory_equal(in, &out, sizeof(out));
        free(in);
    }
}

TEST(test_every_field_full)
{
    btl_ib_modex_t *in = make(BTL_IB_RAILS_MAX);
    uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];
    btl_ib_modex_t out = {.rail_count = 0};
    int size;

    memset(in->release, 'r', sizeof(in->release) - 1);
    memset(in->host, 'h', sizeof(in->host) - 1);
    in->protection = BTL_IB_PROTECTION_ENCRYPT;
    memset(&in->key, 0xa5, sizeof(in->key));
    for (uint32_t i = 0; i < in->rail_count; ++i) {
        btl_ib_modex_rail_t *rail = &in->rails[i];

        memset(rail->transport, 't', sizeof(rail->transport) - 1);
        memset(rail->provider, 'p', sizeof(rail->provider) - 1);
        rail->address_len = BTL_IB_ADDR_BYTES;
        rail->family = 6;
        rail->prefix_bits = 128;
        memset(rail->ip, 0xfd, sizeof(rail->ip));
        memset(rail->address, 0xff, sizeof(rail->address));
        rail->queues.count = 0;
        for (uint32_t q = 0; q < BTL_IB_QUEUES_MAX; ++q) {
            btl_ib_queue_table_t one;
            btl_ib_queues_error_t error;

            assert_int_equal(0, btl_ib_queues_parse("S,128,256", &one, &error));
            one.q[0].size += q;
            rail->queues.q[rail->queues.count++] = one.q[0];
        }
    }
    size = pack(in, bytes);
    assert_int_equal(0, unpack_exact(&out, bytes, (size_t) size));
    assert_memory_equal(in, &out, sizeof(out));
    free(in);
}

/* The bytes are the same on every machine. */
TEST(test_byte_order)
{
    static const uint8_t head[] = {'B', 't', 'I', 'b', 0, 6, 0, 5};
    btl_ib_modex_t *in = make(1);
    uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];
    const int size = pack(in, bytes);

    assert_memory_equal(head, bytes, sizeof(head));
    assert_int_equal(size, bytes[AT_SIZE] << 24 | bytes[AT_SIZE + 1] << 16 | bytes[AT_SIZE + 2] << 8
                               | bytes[AT_SIZE + 3]);
    assert_int_equal(1, bytes[AT_WIRE]);
    assert_int_equal(2, bytes[AT_WIRE + 1]);
    assert_int_equal(5, bytes[AT_WIRE + 2]);
    assert_int_equal(AT_RAILS(5) - AT_PROCESS - 2, bytes[AT_PROCESS + 1]);
    assert_int_equal(0x01, bytes[AT_PROCESS + 2]);
    assert_int_equal(0x18, bytes[AT_PROCESS + 17]);
    assert_int_equal(1, bytes[AT_ANSWERS]);
    assert_int_equal(0x02, bytes[AT_MSG_MAX + 2]); /* 66048 = 0x00010200 */
    assert_int_equal(5, bytes[AT_HOST]);
    assert_int_equal(0x21, bytes[AT_WHERE(5)]);
    assert_int_equal(0x38, bytes[AT_WHERE(5) + 15]);
    assert_int_equal(1, bytes[AT_RAILS(5)]);
    free(in);
}

TEST(test_truncated_and_longer)
{
    btl_ib_modex_t *in = make(2);
    uint8_t bytes[BTL_IB_MODEX_SIZE_MAX] = {0};
    btl_ib_modex_t out;
    const int size = pack(in, bytes);

    for (int cut = 0; cut < size; ++cut) {
        assert_int_equal(-EBADMSG, unpack_exact(&out, bytes, (size_t) cut));
    }
    for (int cut = 12; cut < size; ++cut) {
        /* The size field agrees, the contents do not. */
        uint8_t copy[BTL_IB_MODEX_SIZE_MAX];

        memcpy(copy, bytes, (size_t) size);
        copy[AT_SIZE + 2] = (uint8_t) (cut >> 8);
        copy[AT_SIZE + 3] = (uint8_t) cut;
        assert_int_equal(-EBADMSG, unpack_exact(&out, copy, (size_t) cut));
    }
    assert_int_equal(-EBADMSG, unpack_exact(&out, bytes, (size_t) size + 1));
    bytes[AT_SIZE + 3] = (uint8_t) (bytes[AT_SIZE + 3] + 1);
    assert_int_equal(-EBADMSG, unpack_exact(&out, bytes, (size_t) size + 1));
    free(in);
}

/* Two bytes, or the block's four that count its bytes, that are `more` higher. */
static void add_to(uint8_t *at, size_t more)
{
    const size_t value = (size_t) at[0] << 8 | at[1];

    at[0] = (uint8_t) ((value + more) >> 8);
    at[1] = (uint8_t) (value + more);
}

/* Bytes 0xee put in at `at` of a block of `size` bytes. Its length is changed. */
static size_t insert_bytes(uint8_t *bytes, size_t size, size_t at, size_t more)
{
    memmove(bytes + at + more, bytes + at, size - at);
    memset(bytes + at, 0xee, more);
    add_to(bytes + AT_SIZE + 2, more);
    return size + more;
}

/* A later version may have more at the end of each part, which is not read; ours may not. */
TEST(test_later_version)
{
    btl_ib_modex_t *in = make(2);
    uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];
    btl_ib_modex_t out;
    size_t size = (size_t) pack(in, bytes);
    const size_t rail_length = AT_RAILS(5) + 1;
    const size_t rail =
        rail_length + 2 + (size_t) (bytes[rail_length] << 8 | bytes[rail_length + 1]);
    /* of the first rail: before its two queues, and behind them a length that is 0, and ecn */
    const size_t behind_queues = rail - 2;
    const size_t queues = behind_queues - 2 * 33 - 1;

    assert_int_equal(bytes[queues], 33);
    size = insert_bytes(bytes, size, size, 300); /* of the block */
    size = insert_bytes(bytes, size, rail, 7);   /* of the first rail */
    add_to(bytes + rail_length, 7);
    size = insert_bytes(bytes, size, behind_queues, 3); /* of its queues */
    size = insert_bytes(bytes, size, behind_queues - 33, 3);
    bytes[queues] += 3;
    add_to(bytes + rail_length, 6);
    size = insert_bytes(bytes, size, AT_RAILS(5), 5); /* of the process */
    add_to(bytes + AT_PROCESS, 5);
    assert_int_equal(-EBADMSG, unpack_exact(&out, bytes, size));
    in->version = 7;
    bytes[AT_VERSION + 1] = 7;
    assert_int_equal(0, unpack_exact(&out, bytes, size));
    assert_memory_equal(in, &out, sizeof(out));
    assert_true(btl_ib_modex_versions_fit(in, &out));
    for (size_t cut = 0; cut < size; ++cut) { /* of its own parts nothing may be missing */
        uint8_t copy[BTL_IB_MODEX_SIZE_MAX];

        memcpy(copy, bytes, cut);
        if (cut > AT_SIZE + 3) {
            copy[AT_SIZE + 2] = (uint8_t) (cut >> 8);
            copy[AT_SIZE + 3] = (uint8_t) cut;
        }
        assert_int_equal(cut < size - 300 ? -EBADMSG : 0, unpack_exact(&out, copy, cut));
    }
    free(in);
}

/* What follows the base of an address is not where readers of version 5 look for it. */
TEST(test_more_address)
{
    btl_ib_modex_t *in = make(1);
    uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];
    btl_ib_modex_t out;
    btl_ib_modex_rail_t *rail = &in->rails[0];
    const size_t rail_length = AT_RAILS(5) + 1;
    const size_t address = rail_length + 2 + 1 + strlen("ofi") + 1 + strlen(rail->provider);
    size_t size = (size_t) pack(in, bytes);

    /* one of version 5 */
    const bool ecn = rail->ecn;
    size -= 2;
    add_to(bytes + rail_length, -2);
    add_to(bytes + AT_SIZE + 2, -2);
    bytes[AT_VERSION + 1] = 5;
    assert_int_equal(unpack_exact(&out, bytes, size), 0);
    in->version = 5;
    rail->ecn = false;
    assert_memory_equal(in, &out, sizeof(out));
    rail->ecn = ecn;
    in->version = BTL_IB_MODEX_VERSION;
    for (uint32_t base = 1; base <= 16; base++) {
        rail->address_base = base;
        for (uint32_t i = 0; i < rail->address_len; i++) {
            rail->address[i] = (uint8_t) (i + 1);
        }
        size = (size_t) pack(in, bytes);
        assert_int_equal(bytes[address], base);
        assert_memory_equal(bytes + address + 1, rail->address, base);
        assert_int_equal(bytes[size - 2 - (16 - base)], 16 - base);
        assert_int_equal(unpack_exact(&out, bytes, size), 0);
        rail->address_base = base < 16 ? base : 0;
        assert_memory_equal(in, &out, sizeof(out));
    }
    /* longer than any address */
    rail->address_len = BTL_IB_ADDR_BYTES;
    rail->address_base = BTL_IB_ADDR_BYTES - 1;
    size = (size_t) pack(in, bytes);
    assert_int_equal(unpack_exact(&out, bytes, size), 0);
    size = insert_bytes(bytes, size, size, 1);
    bytes[size - 4]++;
    add_to(bytes + rail_length, 1);
    assert_int_equal(unpack_exact(&out, bytes, size), -EBADMSG);
    rail->address_base = BTL_IB_ADDR_BYTES + 1;
    assert_int_equal(btl_ib_modex_pack(in, bytes, sizeof(bytes)), -EINVAL);
    free(in);
}

/* Of versions that do not work together only their names are known. */
TEST(test_versions_apart)
{
    btl_ib_modex_t *in = make(1);
    uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];
    btl_ib_modex_t out;
    const size_t size = (size_t) pack(in, bytes);

    bytes[AT_VERSION + 1] = BTL_IB_MODEX_VERSION + 2;
    bytes[AT_OLDEST + 1] = BTL_IB_MODEX_VERSION + 1;
    memset(bytes + AT_PROCESS, 0xee, size - AT_PROCESS);
    assert_int_equal(0, unpack_exact(&out, bytes, size));
    assert_int_equal(0, out.rail_count);
    assert_int_equal(BTL_IB_MODEX_VERSION + 2, out.version);
    assert_int_equal(BTL_IB_MODEX_VERSION + 1, out.oldest);
    assert_int_equal(2, out.wire.newest);
    assert_string_equal("0.2.0", out.release);
    assert_false(btl_ib_modex_versions_fit(in, &out));
    bytes[AT_VERSION + 1] = BTL_IB_MODEX_OLDEST - 1; /* had no names, and a zero */
    bytes[AT_OLDEST + 1] = 0;
    assert_int_equal(0, unpack_exact(&out, bytes, size));
    assert_int_equal(0, out.rail_count);
    assert_int_equal(BTL_IB_MODEX_OLDEST - 1, out.version);
    assert_string_equal("", out.release);
    bytes[AT_OLDEST + 1] = BTL_IB_MODEX_OLDEST; /* later than itself */
    assert_int_equal(-EBADMSG, unpack_exact(&out, bytes, size));
    bytes[0] ^= 1;
    assert_int_equal(-EBADMSG, unpack_exact(&out, bytes, size));
    /* one understands the other's block, and no datagram */
    out = *in;
    out.wire = (btl_ib_versions_t){3, 4};
    assert_false(btl_ib_modex_versions_fit(in, &out));
    out.wire.oldest = 2;
    assert_true(btl_ib_modex_versions_fit(in, &out));
    free(in);
}

/* Whatever one byte is changed to, the result is refused or makes sense. protocol: R1 */
TEST(test_every_byte)
{
    btl_ib_modex_t *in = make(1);
    uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];
    uint8_t again[BTL_IB_MODEX_SIZE_MAX];
    btl_ib_modex_t out;
    const int size = pack(in, bytes);

    for (int at = 0; at < size; ++at) {
        for (int bit = 0; bit < 8 && (at < AT_VERSION || at >= AT_SIZE); ++bit) {
            bytes[at] ^= (uint8_t) (1 << bit);
            if (unpack_exact(&out, bytes, (size_t) size) == 0) {
                assert_int_equal(size, btl_ib_modex_pack(&out, again, sizeof(again)));
                assert_memory_equal(bytes, again, (size_t) size);
            }
            bytes[at] ^= (uint8_t) (1 << bit);
        }
    }
    free(in);
}

typedef void (*spoil_t)(btl_ib_modex_t *modex);

static void spoil_no_rail(btl_ib_modex_t *modex)
{
    modex->rail_count = 0;
}

static void spoil_many_rails(btl_ib_modex_t *modex)
{
    modex->rail_count = BTL_IB_RAILS_MAX + 1;
}

static void spoil_message_max(btl_ib_modex_t *modex)
{
    modex->message_max = 0;
}

static void spoil_protection(btl_ib_modex_t *modex)
{
    modex->protection = BTL_IB_PROTECTION_KINDS;
}

static void spoil_host(btl_ib_modex_t *modex)
{
    modex->host[1] = '\n';
}

static void spoil_transport(btl_ib_modex_t *modex)
{
    modex->rails[0].transport[0] = '\0';
}

static void spoil_address(btl_ib_modex_t *modex)
{
    modex->rails[0].address_len = 0;
}

static void spoil_address_long(btl_ib_modex_t *modex)
{
    modex->rails[0].address_len = BTL_IB_ADDR_BYTES + 1;
}

static void spoil_family(btl_ib_modex_t *modex)
{
    modex->rails[0].family = 5;
}

static void spoil_prefix(btl_ib_modex_t *modex)
{
    modex->rails[0].prefix_bits = 33;
}

static void spoil_datagram(btl_ib_modex_t *modex)
{
    modex->rails[0].max_datagram = BTL_IB_QUEUE_SIZE_MIN - 1;
}

static void spoil_ack_delay(btl_ib_modex_t *modex)
{
    modex->rails[0].ack_delay = BTL_IB_MODEX_ACK_DELAY_MAX + 1;
}

static void spoil_atomics(btl_ib_modex_t *modex)
{
    modex->rails[0].atomics = (btl_ib_atomics_t) BTL_IB_ATOMICS_KINDS;
}

static void spoil_no_queue(btl_ib_modex_t *modex)
{
    modex->rails[0].queues.count = 0;
}

static void spoil_queue(btl_ib_modex_t *modex)
{
    modex->rails[0].queues.q[0].num = 0;
}

TEST(test_nonsense_is_not_packed)
{
    static const spoil_t spoils[] = {
        spoil_no_rail,   spoil_many_rails, spoil_message_max,  spoil_protection, spoil_host,
        spoil_transport, spoil_address,    spoil_address_long, spoil_family,     spoil_prefix,
        spoil_datagram,  spoil_ack_delay,  spoil_atomics,      spoil_no_queue,   spoil_queue,
    };
    uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];

    for (size_t i = 0; i < sizeof(spoils) / sizeof(spoils[0]); ++i) {
        btl_ib_modex_t *in = make(1);

        spoils[i](in);
        assert_int_equal(-EINVAL, btl_ib_modex_pack(in, bytes, sizeof(bytes)));
        free(in);
    }
}

/* The least and the most that a rail may say. */
TEST(test_ends_of_ranges)
{
    for (int most = 0; most < 2; ++most) {
        btl_ib_modex_t *in = make(1), *out = calloc(1, sizeof(*out));
        btl_ib_modex_rail_t *rail = &in->rails[0];
        uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];

        assert_non_null(out);
        rail->address_len = rail->address_base = most ? BTL_IB_ADDR_BYTES : 1;
        rail->prefix_bits = most ? 32 : 0;
        rail->rank = most ? BTL_IB_RANKS - 1 : 0;
        rail->max_datagram = most ? BTL_IB_QUEUE_SIZE_MAX : BTL_IB_QUEUE_SIZE_MIN;
        rail->ack_delay = most ? BTL_IB_MODEX_ACK_DELAY_MAX : 0;
        rail->atomics = most ? BTL_IB_ATOMICS_KINDS - 1 : 0;
        assert_int_equal(btl_ib_queues_parse("P,104,2", &rail->queues, &(btl_ib_queues_error_t){0}),
                         0);
        assert_int_equal(unpack_exact(out, bytes, (size_t) pack(in, bytes)), 0);
        assert_int_equal(out->rails[0].address_len, rail->address_len);
        assert_int_equal(out->rails[0].prefix_bits, rail->prefix_bits);
        assert_int_equal(out->rails[0].rank, rail->rank);
        assert_int_equal(out->rails[0].max_datagram, rail->max_datagram);
        assert_int_equal(out->rails[0].ack_delay, rail->ack_delay);
        assert_int_equal(out->rails[0].atomics, rail->atomics);
        free(in);
        free(out);
    }
}

TEST(test_no_space)
{
    btl_ib_modex_t *in = make(3);
    uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];
    const int size = pack(in, bytes);

    assert_int_equal(size, btl_ib_modex_pack(in, bytes, (size_t) size));
    for (int room = 0; room < size; ++room) {
        assert_int_equal(-ENOSPC, btl_ib_modex_pack(in, bytes, (size_t) room));
    }
    free(in);
}

TEST(test_same_subnet)
{
    btl_ib_modex_rail_t a;
    btl_ib_modex_rail_t b;

    set_rail(&a, "udp", 10, 1, 2, 3, 24);
    set_rail(&b, "udp", 10, 1, 2, 200, 24);
    assert_true(same_subnet(&a, &b));
    b.ip[2] = 3;
    assert_false(same_subnet(&a, &b));
    a.prefix_bits = 23; /* 10.1.2.0/23 holds 10.1.3.200 */
    assert_true(same_subnet(&a, &b));
    assert_int_equal(common_bits(&a, &b), 23);
    assert_int_equal(common_bits(&a, &a), 32);
    b.ip[2] = 4;
    assert_false(same_subnet(&a, &b));
    a.prefix_bits = b.prefix_bits = 32;
    b = a;
    assert_true(same_subnet(&a, &b));
    b.family = 6;
    assert_false(same_subnet(&a, &b));
    a.family = b.family = 0;
    a.prefix_bits = b.prefix_bits = 0;
    assert_true(same_subnet(&a, &b));
}

/* Of another host than make() says, with addresses of its own. */
static btl_ib_modex_t *make_far(uint32_t rails)
{
    btl_ib_modex_t *modex = make(rails);

    modex->where.machine++;
    modex->where.network++;
    for (uint32_t i = 0; i < rails; ++i) {
        modex->rails[i].ip[3]++;
    }
    return modex;
}

static void assert_choice(const btl_ib_modex_t *ours, const btl_ib_modex_t *theirs, bool same_host,
                          int first, int second)
{
    int choice[BTL_IB_RAILS_MAX];

    btl_ib_rails_match(ours, theirs, same_host, choice);
    assert_int_equal(first, choice[0]);
    assert_int_equal(second, choice[1]);
    for (int i = 2; i < BTL_IB_RAILS_MAX; ++i) {
        assert_int_equal(-1, choice[i]);
    }
}

TEST(test_match_subnets)
{
    btl_ib_modex_t *ours = make(2);
    btl_ib_modex_t *theirs = make_far(2);

    assert_choice(ours, theirs, false, 0, 1);
    theirs->rails[0].ip[1] = 1; /* listed the other way round */
    theirs->rails[1].ip[1] = 0;
    assert_choice(ours, theirs, false, 1, 0);
    theirs->rail_count = 1; /* only the subnet of our second rail */
    assert_choice(ours, theirs, false, -1, 0);
    theirs->rail_count = 2;
    theirs->rails[0].ip[0] = 11; /* nothing in common: routed */
    theirs->rails[1].ip[0] = 11;
    assert_choice(ours, theirs, false, 1, 0);
    ours->rails[0].ip[0] = 192; /* the peer has only an address like that of our second rail */
    theirs->rail_count = 1;
    assert_choice(ours, theirs, false, -1, 0);
    theirs->rail_count = 2;
    ours->rails[0].ip[0] = 10;
    theirs->rail_count = 1;
    assert_choice(ours, theirs, false, 0, -1);
    free(ours);
    free(theirs);
}

TEST(test_match_same_subnet_twice)
{
    btl_ib_modex_t *ours = make(2);
    btl_ib_modex_t *theirs = make_far(2);

    ours->rails[1].ip[1] = 0;
    theirs->rails[1].ip[1] = 0;
    assert_choice(ours, theirs, false, 0, 1);
    free(ours);
    free(theirs);
}

TEST(test_match_kinds)
{
    btl_ib_modex_t *ours = make(2);
    btl_ib_modex_t *theirs = make_far(2);

    set_rail(&theirs->rails[0], "verbs", 10, 0, 0, 9, 16);
    assert_choice(ours, theirs, false, -1, 1);
    snprintf(theirs->rails[1].transport, sizeof(theirs->rails[1].transport), "udp");
    assert_choice(ours, theirs, false, -1, -1);
    free(ours);
    free(theirs);
}

TEST(test_match_loopback)
{
    btl_ib_modex_t *ours = make(1);
    btl_ib_modex_t *theirs = make(1);

    set_rail(&ours->rails[0], "udp", 127, 0, 0, 1, 8);
    assert_choice(ours, theirs, true, -1, -1);
    set_rail(&theirs->rails[0], "udp", 127, 0, 0, 1, 8);
    assert_choice(ours, theirs, true, 0, -1);
    assert_choice(ours, theirs, false, 0, -1); /* they know better than the runtime */
    theirs->where.network++;                   /* a container with a lo of its own */
    assert_choice(ours, theirs, true, -1, -1);
    theirs->where.network = 0; /* the runtime knows */
    assert_choice(ours, theirs, true, 0, -1);
    assert_choice(ours, theirs, false, -1, -1);
    free(ours);
    free(theirs);
}

/* docker0 has one address everywhere. */
TEST(test_match_equal_addresses)
{
    btl_ib_modex_t *ours = make(2);
    btl_ib_modex_t *theirs = make(2);

    assert_choice(ours, theirs, false, 0, 1); /* two processes of one host */
    theirs->where.network++;
    theirs->rails[0].ip[3]++;
    assert_choice(ours, theirs, true, 0, -1);
    assert_choice(theirs, ours, true, 0, -1);
    assert_true(btl_ib_rails_fit(ours, 0, theirs, 0));
    assert_true(btl_ib_rails_fit(ours, 1, theirs, 0)); /* would have to be routed */
    assert_false(btl_ib_rails_fit(ours, 1, theirs, 1));
    theirs->where.network = 0;
    assert_choice(ours, theirs, false, 0, -1);
    assert_choice(ours, theirs, true, 0, 1);
    theirs->where.network = 1;
    theirs->rails[0].ip[3]--; /* nothing else is there: not even what would have to be routed */
    assert_choice(ours, theirs, false, 1, 0);
    ours->rail_count = theirs->rail_count = 1;
    assert_choice(ours, theirs, false, -1, -1);
    theirs->rails[0].prefix_bits = 24; /* equal all the same */
    assert_choice(ours, theirs, false, -1, -1);
    free(ours);
    free(theirs);
}

/* A port of InfiniBand has one name, also for containers of its machine, and it reaches itself. */
TEST(test_match_shared_port)
{
    btl_ib_modex_t *ours = make(1);
    btl_ib_modex_t *theirs = make(1);

    theirs->where.network++;
    for (int verbs = 0; verbs < 2; ++verbs) {
        const char *transport = verbs ? "verbs" : "udp";

        snprintf(ours->rails[0].transport, sizeof(ours->rails[0].transport), "%s", transport);
        snprintf(theirs->rails[0].transport, sizeof(theirs->rails[0].transport), "%s", transport);
        assert_choice(ours, theirs, false, verbs ? 0 : -1, -1);
    }
    theirs->where.machine++;
    assert_choice(ours, theirs, false, -1, -1);
    free(ours);
    free(theirs);
}

/* A link-local address of IPv6 is heard by no other one: it is joined with such a one only. */
TEST(test_match_link_local)
{
    static const uint8_t prefix[] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0};
    btl_ib_modex_t *ours = make(2);
    btl_ib_modex_t *theirs = make_far(1);

    theirs->rails[0].family = 6;
    theirs->rails[0].prefix_bits = 64;
    theirs->rails[0].ip[0] = 0xfd; /* another subnet than ours */
    for (int i = 0; i < 2; ++i) {
        ours->rails[i].family = 6;
        ours->rails[i].prefix_bits = 64;
    }
    memcpy(ours->rails[1].ip, prefix, sizeof(prefix));
    assert_choice(ours, theirs, false, 0, -1);
    memcpy(theirs->rails[0].ip, prefix, sizeof(prefix));
    theirs->rails[0].ip[15] = 9;
    assert_choice(ours, theirs, false, -1, 0);
    free(ours);
    free(theirs);
}

/* Rails without an IP address have none that could be equal. */
TEST(test_match_no_address)
{
    btl_ib_modex_t *ours = make(1);
    btl_ib_modex_t *theirs = make_far(1);

    ours->rails[0].family = theirs->rails[0].family = 0;
    ours->rails[0].prefix_bits = theirs->rails[0].prefix_bits = 0;
    memset(ours->rails[0].ip, 0, sizeof(ours->rails[0].ip));
    memset(theirs->rails[0].ip, 0, sizeof(theirs->rails[0].ip));
    assert_choice(ours, theirs, false, 0, -1);
    free(ours);
    free(theirs);
}

/* Two rails over each of two ports in one subnet, the second ones behind the first: a process with
 * only one over each is joined with one over each. */
TEST(test_match_rails_of_ports)
{
    btl_ib_modex_t *ours = make(4);
    btl_ib_modex_t *theirs = make_far(4);
    int choice[BTL_IB_RAILS_MAX];

    for (int i = 0; i < 4; ++i) {
        ours->rails[i].ip[1] = theirs->rails[i].ip[1] = 0;
        ours->rails[i].ip[3] = (uint8_t) (1 + i % 2);
        theirs->rails[i].ip[3] = (uint8_t) (3 + i % 2);
    }
    for (uint32_t count = 4; count > 0; count -= 2) {
        theirs->rail_count = count;
        btl_ib_rails_match(ours, theirs, false, choice);
        for (int i = 0; i < 4; ++i) {
            assert_int_equal(choice[i], i < (int) count ? i : -1);
        }
    }
    free(ours);
    free(theirs);
}

/* A rail that stands by is joined only if no other can be, and then one pair alone. */
TEST(test_match_ranks)
{
    btl_ib_modex_t *ours = make(3);
    btl_ib_modex_t *theirs = make_far(3);
    btl_ib_rail_pair_t pairs[9];

    for (int i = 1; i < 3; ++i) {
        ours->rails[i].rank = theirs->rails[i].rank = BTL_IB_RANK_ADDRESS;
    }
    assert_choice(ours, theirs, false, 0, -1);
    theirs->rails[0].ip[0] = 172; /* an other address is in the subnet of one of ours */
    assert_choice(ours, theirs, false, -1, 1);
    theirs->rails[1].ip[0] = theirs->rails[2].ip[0] = 172; /* none is: routed */
    assert_choice(ours, theirs, false, 0, -1);
    snprintf(theirs->rails[0].provider, sizeof(theirs->rails[0].provider), "other");
    assert_choice(ours, theirs, false, 1, -1);

    theirs->rails[2].ip[0] = 10; /* the subnet of our third, before all that is routed */
    assert_int_equal(btl_ib_rails_rank(ours, theirs, pairs, 9), 2);
    assert_int_equal(pairs[0].ours, 2);
    assert_int_equal(pairs[0].theirs, 2);
    assert_int_equal(btl_ib_rails_rank(ours, theirs, pairs, 1), 1);
    assert_int_equal(pairs[0].ours, 2);
    free(ours);
    free(theirs);
}

/* Of more pairs than are asked for the best are named, in order, whichever was found first. */
TEST(test_rank_keeps_the_best)
{
    static const btl_ib_rail_pair_t order[9] = {
        {0, 0}, {2, 2}, {1, 1},         /* in one subnet, by rank, then by address */
        {0, 2}, {2, 0},                 /* routed, of the first rank */
        {0, 1}, {1, 0}, {1, 2}, {2, 1}, /* of the second, by common bits */
    };
    const btl_ib_rail_pair_t untouched = {99, 99};
    btl_ib_modex_t *ours = make(3);
    btl_ib_modex_t *theirs = make_far(3);

    ours->rails[1].rank = theirs->rails[1].rank = BTL_IB_RANK_ADDRESS;
    for (int i = 0; i < 3; ++i) {
        ours->rails[i].atomics = theirs->rails[i].atomics = ours->rails[0].atomics;
    }
    for (uint32_t max = 1; max <= 10; ++max) {
        const uint32_t count = max < 9 ? max : 9;
        btl_ib_rail_pair_t pairs[12];

        pairs[count] = untouched;
        assert_int_equal(btl_ib_rails_rank(ours, theirs, pairs, max), count);
        assert_memory_equal(pairs, order, count * sizeof(*order));
        assert_memory_equal(&pairs[count], &untouched, sizeof(untouched));
    }
    free(ours);
    free(theirs);
}

/* Four rails, two subnets, few addresses: whatever they are, both sides join the same rails. */
TEST(test_match_both_ways)
{
    btl_ib_modex_t *ours = make(4);
    btl_ib_modex_t *theirs = make(4);
    uint32_t seed = 7;

    theirs->where.network++;
    theirs->secret.k[0]++;
    for (int round = 0; round < 200000; ++round) {
        int there[BTL_IB_RAILS_MAX];
        int back[BTL_IB_RAILS_MAX];

        for (int i = 0; i < 8; ++i) {
            btl_ib_modex_rail_t *rail = i < 4 ? &ours->rails[i] : &theirs->rails[i - 4];

            seed = seed * 1664525 + 1013904223;
            rail->ip[1] = seed >> 31;
            rail->ip[3] = (uint8_t) (seed >> 29 & 3);
            rail->ip[0] = (uint8_t) (10 + ((seed >> 24 & 3) == 0));
            rail->rank = round < 100000 ? 0 : (uint8_t) ((seed >> 16 & 0xff) % BTL_IB_RANKS);
        }
        btl_ib_rails_match(ours, theirs, false, there);
        btl_ib_rails_match(theirs, ours, false, back);
        for (int i = 0; i < 4; ++i) {
            assert_true(there[i] < 0 || back[there[i]] == i);
            assert_true(back[i] < 0 || there[back[i]] == i);
        }
    }
    free(ours);
    free(theirs);
}

/* ---- the fuzz target's corpus ---- */

/* What the names of its files say. */
static const struct seed {
    const char *name;
    uint32_t rails;
    uint8_t family; /* of the last rail */
    bool loopback;
} seeds[] = {
    {"apart", 0, 0, false}, /* of versions that do not work together only names are read */
    {"later", 1, 4, false}, /* a version that has more to say */
    {"loopback", 1, 4, true}, {"more_address", 1, 4, false}, /* behind the base of one */
    {"no_ip", 1, 0, false},   {"one_rail", 1, 4, false},     {"two_rails_v6", 2, 6, false},
};

/* All are read as far as their names say: from one that is refused at once, a fuzzer finds no
 * other. A new file is to be in the list. */
TEST(test_corpus)
{
    DIR *folder = opendir(BTL_IB_CORPUS);
    const struct dirent *entry;
    size_t files = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        files += entry->d_name[0] != '.';
    }
    closedir(folder);
    assert_int_equal(files, sizeof(seeds) / sizeof(seeds[0]));
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); ++i) {
        uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];
        btl_ib_modex_t out = {.rail_count = 0};
        char path[1024];

        snprintf(path, sizeof(path), "%s/%s", BTL_IB_CORPUS, seeds[i].name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        const size_t size = fread(bytes, 1, sizeof(bytes), file);
        fclose(file);
        assert_int_equal(unpack_exact(&out, bytes, size), 0);
        assert_int_equal(out.rail_count, seeds[i].rails);
        if (out.rail_count == 0) {
            continue;
        }
        const btl_ib_modex_rail_t *last = &out.rails[out.rail_count - 1];
        assert_int_equal(last->family, seeds[i].family);
        assert_int_equal(last->loopback, seeds[i].loopback);
    }
}

UNIT_MAIN(NULL, NULL)
