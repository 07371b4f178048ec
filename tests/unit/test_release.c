/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What releases publish and send is understood. tests/unit/releases/ has of each release that
 * changed either what it published, and all datagrams of one process in a conversation, each with
 * its time. Here the conversation is held again, and that process is heard by these datagrams only.
 *
 * * test_release record FILE writes such a file, of this tree
 */

#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <stdio.h>

#include "bench.h"
#include "btl_ib_modex_codec.h"
#include "unit.h"

enum { HERE, RELEASE, LINE = 4096 };

/* ---- what is said ---- */

/* Until all of that was handed over, acknowledged and answered. */
static void rest(bench_t *bench)
{
    bench_run(bench, 1000);
}

/* Each message from here is alone, so that it is one segment in any version. */
static void hold_conversation(bench_t *bench)
{
    static const uint32_t sizes[] = {8, 100, 1000, 5000};

    for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        BENCH_REQUIRE(bench_send(bench, RELEASE, HERE, sizes[i], 1) != UINT32_MAX);
        BENCH_REQUIRE(bench_send(bench, RELEASE, HERE, sizes[i], 2) != UINT32_MAX);
        rest(bench);
        BENCH_REQUIRE(bench_send(bench, HERE, RELEASE, 8 + 100 * i, 3) != UINT32_MAX);
        rest(bench);
    }
    for (uint32_t i = 0; i < 20; i++) { /* some of these share datagrams */
        BENCH_REQUIRE(bench_send(bench, RELEASE, HERE, 20, 4) != UINT32_MAX);
    }
    rest(bench);
    for (btl_ib_op_kind_t kind = BTL_IB_OP_PUT; kind <= BTL_IB_OP_ATOMIC; kind++) {
        BENCH_REQUIRE(bench_op(bench, RELEASE, HERE, kind, 2000) != UINT32_MAX);
        rest(bench);
        BENCH_REQUIRE(bench_op(bench, HERE, RELEASE, kind, 300) != UINT32_MAX);
        rest(bench);
    }
}

/* What it publishes. */
static void describe(btl_ib_modex_t *modex, bench_t *bench)
{
    const btl_ib_peer_info_t info = bench_info(bench, RELEASE, 0);
    btl_ib_modex_rail_t *rail = &modex->rails[0];

    memset(modex, 0, sizeof(*modex));
    modex->wire = info.wire;
    snprintf(modex->release, sizeof(modex->release), "0.0.0");
    modex->secret = info.secret;
    modex->message_max = 65536;
    snprintf(modex->host, sizeof(modex->host), "release");
    modex->rail_count = 1;
    snprintf(rail->transport, sizeof(rail->transport), "udp");
    rail->address_len = 16;
    rail->family = 4;
    rail->prefix_bits = 24;
    rail->max_datagram = info.max_datagram;
    rail->ack_delay = info.ack_delay;
    rail->queues = info.queues;
}

/* ---- recording ---- */

static FILE *recording;

static void write_hex(const uint8_t *bytes, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        fprintf(recording, "%02x", bytes[i]);
    }
    fputc('\n', recording);
}

/* Which datagrams the bench hands over now. */
static bool record(bench_t *bench, const bench_datagram_t *datagram)
{
    if (datagram->source / BENCH_RAILS == RELEASE) {
        fprintf(recording, "%llu ", (unsigned long long) bench->now);
        write_hex(datagram->data, datagram->size);
    }
    return false;
}

static void begin(bench_t *bench)
{
    bench_init(bench, 64);
    bench_start(bench, HERE);
    bench_start(bench, RELEASE);
}

static int record_all(const char *file)
{
    static btl_ib_modex_t modex;
    static uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];
    bench_t bench;

    recording = fopen(file, "w");
    if (recording == NULL) {
        perror(file);
        return EXIT_FAILURE;
    }
    begin(&bench);
    describe(&modex, &bench);
    const int size = btl_ib_modex_pack(&modex, bytes, sizeof(bytes));
    BENCH_REQUIRE(size > 0);
    fputs("published ", recording);
    write_hex(bytes, (uint32_t) size);
    bench.loses = record;
    hold_conversation(&bench);
    bench_check_ops(&bench);
    bench_fini(&bench);
    return fclose(recording) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- replaying ---- */

static uint32_t read_hex(const char *text, uint8_t *bytes)
{
    uint32_t size = 0;
    unsigned byte;

    while (size < LINE && sscanf(text, "%2x", &byte) == 1) {
        bytes[size++] = (uint8_t) byte;
        text += 2;
    }
    return size;
}

/* What was recorded, and where in it the replay is. */
static FILE *replay;
static uint64_t next_at;
static uint8_t next_bytes[LINE] __attribute__((aligned(8)));
static uint32_t next_size;
static uint32_t replayed;

static void read_next(void)
{
    static char line[2 * LINE + 32];
    unsigned long long at;
    int begins;

    next_at = UINT64_MAX;
    if (fgets(line, sizeof(line), replay) != NULL && sscanf(line, "%llu %n", &at, &begins) == 1) {
        next_at = at;
        next_size = read_hex(line + begins, next_bytes);
    }
}

/* Ids and keys of this side it was told in the conversation that was recorded; a later version may
 * choose others. */
static void retell(bench_t *bench)
{
    btl_ib_wire_header_t header;
    const btl_ib_region_key_t *key = &bench->hosts[HERE].key;

    memcpy(&header, next_bytes, sizeof(header));
    const uint32_t type = header.version_type & 0xf;
    if (header.connection != 0) {
        header.connection = BTL_IB_LE32(bench_peer(bench, HERE, RELEASE).id);
    }
    memcpy(next_bytes, &header, sizeof(header));
    if (type == BTL_IB_TYPE_PUT || type == BTL_IB_TYPE_GET || type == BTL_IB_TYPE_ATOMIC) {
        const uint64_t words[] = {BTL_IB_LE64(key->id), BTL_IB_LE64(key->secret)};
        BENCH_REQUIRE((header.flags & BTL_IB_FLAG_CONNECT) == 0);
        memcpy(next_bytes + sizeof(header), words, sizeof(words));
    }
}

/* Nothing comes from there but what was recorded until now. */
static bool replace(bench_t *bench, const bench_datagram_t *datagram)
{
    const bool lost = datagram->source / BENCH_RAILS == RELEASE;

    while (next_at <= bench->now) {
        retell(bench);
        bench_throw(bench, HERE, RELEASE * BENCH_RAILS, next_bytes, next_size);
        replayed++;
        read_next();
    }
    return lost;
}

static void check_published(const char *file)
{
    static char line[2 * LINE];
    static uint8_t bytes[LINE];
    static btl_ib_modex_t modex, ours;
    bench_t bench;

    assert_non_null(fgets(line, sizeof(line), replay));
    assert_int_equal(0, strncmp(line, "published ", 10));
    assert_int_equal(0, btl_ib_modex_unpack(&modex, bytes, read_hex(line + 10, bytes)));
    begin(&bench);
    describe(&ours, &bench);
    bench_fini(&bench);
    print_message("%s: published version %u, datagrams %u to %u\n", file, modex.version,
                  modex.wire.oldest, modex.wire.newest);
    assert_true(btl_ib_modex_versions_fit(&ours, &modex));
    assert_int_equal(65536, modex.message_max);
    assert_string_equal("release", modex.host);
    assert_memory_equal(&ours.rails, &modex.rails, sizeof(ours.rails));
    assert_memory_equal(&ours.secret, &modex.secret, sizeof(ours.secret));
}

static void check_conversation(void)
{
    bench_t bench;

    begin(&bench);
    read_next();
    bench.loses = replace;
    hold_conversation(&bench);
    assert_int_equal(next_at, UINT64_MAX);
    assert_true(replayed > 20);
    for (uint32_t i = 0; i < bench.message_count; i++) {
        const bench_message_t *m = &bench.messages[i];

        assert_int_equal(m->delivered, 1);
        assert_true(m->from == RELEASE || (m->done && m->status == 0));
    }
    for (uint32_t i = 0; i < bench.op_count; i++) {
        assert_true(bench.ops[i].from == RELEASE
                    || (bench.ops[i].done && bench.ops[i].status == 0));
    }
    const btl_ib_counters_t *count = bench_counters(&bench, HERE);
    assert_int_equal(0, count->dropped_version + count->dropped_type + count->dropped_length
                            + count->dropped_token + count->dropped_ack + count->dropped_op
                            + count->dropped_chunk + count->dropped_channel);
    assert_int_equal(0, bench.hosts[HERE].strange);
    bench_check_ops(&bench);
    bench_fini(&bench);
}

/* protocol: R79 */
TEST(test_releases)
{
    DIR *directory = opendir(BTL_IB_RELEASES);
    const struct dirent *entry;
    char path[512];
    uint32_t count = 0;

    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof(path), "%s/%s", BTL_IB_RELEASES, entry->d_name);
        replay = fopen(path, "r");
        assert_non_null(replay);
        replayed = 0;
        check_published(entry->d_name);
        check_conversation();
        fclose(replay);
        count++;
    }
    closedir(directory);
    assert_true(count > 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "record") == 0) {
        return record_all(argv[2]);
    }
    return unit_run(NULL, NULL);
}
