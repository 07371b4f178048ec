/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What protecting a datagram costs.
 *
 *   protection_cost                  a table: ns for each way and size, the best of many rounds
 *   protection_cost WAY SIZE COUNT   that one only, COUNT times: for tools that count instructions
 *                               (what COUNT and 2 COUNT take differs by COUNT times the cost)
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "btl_ib_crc32c.h"
#include "btl_ib_protection.h"
#include "btl_ib_wire.h"

enum { PEERS = 200, LARGEST = 65536, ROUNDS = 400, ROUND_NS = 100000 };

/* What all ways work on. */
typedef struct bench {
    btl_ib_protection_t protection;
    btl_ib_counters_t count;
    btl_ib_protection_keys_t keys[PEERS];
    uint32_t peer;
    uint32_t sum; /* of results, so that they are needed */
    uint8_t *data;
    uint8_t *wire;
} bench_t;

typedef void (*way_fn_t)(bench_t *bench, uint32_t size);

static void crc_software(bench_t *bench, uint32_t size)
{
    bench->sum += btl_ib_crc32c(false, bench->sum, bench->data, size);
}

static void crc_best(bench_t *bench, uint32_t size)
{
    bench->sum += btl_ib_crc32c(bench->protection.crc_instruction, bench->sum, bench->data, size);
}

static void seal(bench_t *bench, uint32_t size)
{
    btl_ib_protection_keys_t *keys = &bench->keys[bench->peer];
    uint8_t *out = bench->protection.ops->apart ? bench->wire : bench->data;

    bench->sum += btl_ib_protection_seal(&bench->protection, keys, bench->data, out, size);
}

/* Only integrity: the same datagram opens again and again. The number is not looked at. */
static void open_again(bench_t *bench, uint32_t size)
{
    btl_ib_protection_keys_t *keys = &bench->keys[bench->peer];

    bench->sum += btl_ib_protection_open(&bench->protection, &keys->rx, NULL, bench->wire, size);
}

static void seal_and_open(bench_t *bench, uint32_t size)
{
    btl_ib_protection_keys_t *keys = &bench->keys[bench->peer];
    uint8_t *out = bench->protection.ops->apart ? bench->wire : bench->data;

    seal(bench, size);
    bench->sum += btl_ib_protection_open(&bench->protection, &keys->rx, NULL, out, size);
}

/* As if each datagram went to another peer, so that no key is prepared. */
static void seal_to_many(bench_t *bench, uint32_t size)
{
    bench->peer = (bench->peer + 1) % PEERS;
    seal(bench, size);
}

/* What a first contact takes. */
static void make_keys(bench_t *bench, uint32_t size)
{
    btl_ib_auth_key_t key = {{1}};
    btl_ib_protection_path_t path = {
        .sender_key = &key, .receiver_key = &key, .epoch = ++bench->sum};
    btl_ib_protection_way_t way;

    (void) size;
    bench->sum += btl_ib_protection_begin(&bench->protection, &way, &path);
}

static const struct {
    const char *name;
    btl_ib_protection_kind_t kind;
    way_fn_t run;
} ways[] = {
    {"crc32c-software", BTL_IB_PROTECTION_CRC32C, crc_software},
    {"crc32c", BTL_IB_PROTECTION_CRC32C, crc_best},
    {"integrity-seal", BTL_IB_PROTECTION_INTEGRITY, seal},
    {"integrity-open", BTL_IB_PROTECTION_INTEGRITY, open_again},
    {"integrity-many-peers", BTL_IB_PROTECTION_INTEGRITY, seal_to_many},
    {"encrypt-seal", BTL_IB_PROTECTION_ENCRYPT, seal},
    {"encrypt-seal-open", BTL_IB_PROTECTION_ENCRYPT, seal_and_open},
    {"encrypt-many-peers", BTL_IB_PROTECTION_ENCRYPT, seal_to_many},
    {"make-keys", BTL_IB_PROTECTION_INTEGRITY, make_keys},
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

static bool prepare(bench_t *bench, btl_ib_protection_kind_t kind, btl_ib_aead_t *aead,
                    uint32_t size)
{
    btl_ib_auth_key_t key = {{1}};

    if (btl_ib_protection_ops(kind)->keyed && aead == NULL) {
        return false;
    }
    btl_ib_protection_init(&bench->protection, kind, aead, &bench->count);
    memset(bench->data, 0, LARGEST);
    bench->peer = 0;
    for (uint32_t i = 0; i < PEERS && bench->protection.ops->keyed; i++) {
        btl_ib_protection_path_t path = {.sender_key = &key, .receiver_key = &key, .sender = i};
        memset(&bench->keys[i], 0, sizeof(bench->keys[i]));
        if (!btl_ib_protection_begin(&bench->protection, &bench->keys[i].tx, &path)
            || !btl_ib_protection_begin(&bench->protection, &bench->keys[i].rx, &path)) {
            return false;
        }
    }
    memcpy(bench->wire, bench->data, size);
    return btl_ib_protection_seal(&bench->protection, &bench->keys[0], bench->wire, bench->wire,
                                  size);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* ns for one, the best of all rounds: what others do on the machine only adds. */
static double measure(bench_t *bench, way_fn_t run, uint32_t size)
{
    uint32_t count = 1;
    double best = 1e12;

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t begun = now_ns();
        for (uint32_t i = 0; i < count; i++) {
            run(bench, size);
        }
        uint64_t took = now_ns() - begun;
        best = (double) took / count < best ? (double) took / count : best;
        if (took < ROUND_NS) {
            count *= 2;
        }
    }
    return best;
}

static void print_table(bench_t *bench, btl_ib_aead_t *aead)
{
    static const uint32_t sizes[] = {64, 1472, LARGEST};

    printf("| ns for | 64 bytes | 1472 | 65536 |\n|---|---|---|---|\n");
    for (size_t i = 0; i < WAYS; i++) {
        printf("| %s |", ways[i].name);
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            if (prepare(bench, ways[i].kind, aead, sizes[k])) {
                printf(" %.0f |", measure(bench, ways[i].run, sizes[k]));
            } else {
                printf(" - |");
            }
        }
        printf("\n");
    }
}

static int run_one(bench_t *bench, btl_ib_aead_t *aead, char **argv)
{
    unsigned long size = strtoul(argv[2], NULL, 10);

    for (size_t i = 0; i < WAYS; i++) {
        if (strcmp(ways[i].name, argv[1]) == 0 && size >= sizeof(btl_ib_wire_header_t)
            && size <= LARGEST && prepare(bench, ways[i].kind, aead, (uint32_t) size)) {
            for (unsigned long n = strtoul(argv[3], NULL, 10); n > 0; n--) {
                ways[i].run(bench, (uint32_t) size);
            }
            return 0;
        }
    }
    fprintf(stderr, "protection_cost: no way %s for %lu bytes\n", argv[1], size);
    return 1;
}

int main(int argc, char **argv)
{
    static bench_t bench;
    btl_ib_aead_t *aead = btl_ib_aead_open();
    int status = 2;

    bench.data = calloc(1, LARGEST + BTL_IB_TRAILER_MAX);
    bench.wire = calloc(1, LARGEST + BTL_IB_TRAILER_MAX);
    if (bench.data == NULL || bench.wire == NULL) {
        return 1;
    }
    if (argc == 1) {
        print_table(&bench, aead);
        status = 0;
    } else if (argc == 4) {
        status = run_one(&bench, aead, argv);
    } else {
        fprintf(stderr, "usage: protection_cost [WAY SIZE COUNT]\n");
    }
    if (aead != NULL) {
        aead->ops->close(aead);
    }
    free(bench.data);
    free(bench.wire);
    return status;
}
