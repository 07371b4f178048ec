/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What protects the datagrams of a scenario. The engines get an aead that hands everything on to
 * the real one, notes which number was used with which key (none may be used twice), and remembers
 * what was made with it, so that the simulator can look through the encryption.
 */

#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* One sealed datagram. */
typedef struct sealed {
    btl_ib_aead_key_t key;
    uint64_t number;
    uint8_t tag[BTL_IB_AEAD_TAG_BYTES];
    uint32_t next_number, next_tag; /* of those in the same slot, 0: none */
} sealed_t;

enum { SLOTS = 65536 };

typedef struct watch {
    btl_ib_aead_t base;
    btl_ib_aead_t *real;
    sim_t *sim;
    sealed_t *sealed; /* [0] is unused */
    uint32_t count, cap;
    uint32_t by_number[SLOTS], by_tag[SLOTS];
} watch_t;

static uint64_t first_word(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof(word));
    return word;
}

static bool watch_derive(btl_ib_aead_t *aead, const void *secret, size_t secret_size,
                         const void *info, size_t info_size, void *out, size_t size)
{
    const watch_t *watch = (watch_t *) aead;

    return watch->real->ops->derive(watch->real, secret, secret_size, info, info_size, out, size);
}

static void note(watch_t *watch, const btl_ib_aead_key_t *key, uint64_t number, const uint8_t *tag)
{
    uint32_t *numbers = &watch->by_number[mix64(first_word(key->key) ^ number) % SLOTS];
    uint32_t *tags = &watch->by_tag[first_word(tag) % SLOTS];

    for (uint32_t i = *numbers; i != 0; i = watch->sealed[i].next_number) {
        const sealed_t *old = &watch->sealed[i];
        if (old->number == number && memcmp(old->key.key, key->key, sizeof(key->key)) == 0) {
            sim_fail(watch->sim, "number %llu is used twice with one key",
                     (unsigned long long) number);
        }
    }
    if (++watch->count >= watch->cap) {
        watch->cap = 2 * watch->cap + 1024;
        watch->sealed = realloc(watch->sealed, watch->cap * sizeof(*watch->sealed));
    }
    sealed_t *sealed = &watch->sealed[watch->count];
    *sealed = (sealed_t){.key = *key, .number = number, .next_number = *numbers, .next_tag = *tags};
    memcpy(sealed->tag, tag, sizeof(sealed->tag));
    *numbers = watch->count;
    *tags = watch->count;
}

static bool watch_seal(btl_ib_aead_t *aead, const btl_ib_aead_key_t *key, uint64_t number,
                       const void *aad, size_t aad_size, const uint8_t *text, uint8_t *out,
                       size_t size, uint8_t tag[BTL_IB_AEAD_TAG_BYTES])
{
    watch_t *watch = (watch_t *) aead;
    bool done =
        watch->real->ops->seal(watch->real, key, number, aad, aad_size, text, out, size, tag);

    if (done) {
        note(watch, key, number, tag);
    }
    return done;
}

static bool watch_open(btl_ib_aead_t *aead, const btl_ib_aead_key_t *key, uint64_t number,
                       const void *aad, size_t aad_size, uint8_t *text, size_t size,
                       const uint8_t tag[BTL_IB_AEAD_TAG_BYTES])
{
    const watch_t *watch = (watch_t *) aead;

    return watch->real->ops->open(watch->real, key, number, aad, aad_size, text, size, tag);
}

static void watch_close(btl_ib_aead_t *aead)
{
    watch_t *watch = (watch_t *) aead;

    watch->real->ops->close(watch->real);
    free(watch->sealed);
    free(watch);
}

static const btl_ib_aead_ops_t watch_ops = {watch_derive, watch_seal, watch_open, watch_close};

uint32_t protection_kinds(void)
{
    return btl_ib_aead_available(NULL, 0) ? BTL_IB_PROTECTION_KINDS : BTL_IB_PROTECTION_INTEGRITY;
}

void protection_choose(sim_t *sim, btl_ib_protection_kind_t kind)
{
    if (btl_ib_protection_ops(kind)->keyed && sim->aead == NULL) {
        watch_t *watch = calloc(1, sizeof(*watch));
        watch->base.ops = &watch_ops;
        watch->sim = sim;
        watch->real = btl_ib_aead_open();
        if (watch->real == NULL) {
            sim_fail(sim, "no libcrypto");
        }
        sim->aead = &watch->base;
    }
    btl_ib_protection_init(&sim->protection, kind, sim->aead, &sim->protection_count);
}

void protection_release(sim_t *sim)
{
    if (sim->aead != NULL) {
        sim->aead->ops->close(sim->aead);
    }
}

/* Who made this tag? NULL: nobody. */
static const sealed_t *find(const watch_t *watch, const uint8_t *tag)
{
    for (uint32_t i = watch->by_tag[first_word(tag) % SLOTS]; i != 0;
         i = watch->sealed[i].next_tag) {
        if (memcmp(watch->sealed[i].tag, tag, sizeof(watch->sealed[i].tag)) == 0) {
            return &watch->sealed[i];
        }
    }
    return NULL;
}

uint32_t protection_open(sim_t *sim, const uint8_t *data, uint32_t size, uint8_t *plain)
{
    const btl_ib_protection_ops_t *ops = sim->protection.ops;
    const btl_ib_aead_key_t *key = NULL;
    uint64_t number = 0;

    if (size <= ops->trailer) {
        return 0;
    }
    memcpy(plain, data, size);
    size -= ops->trailer;
    if (ops->keyed) {
        const sealed_t *sealed =
            find((watch_t *) sim->aead, data + size + ops->trailer - BTL_IB_AEAD_TAG_BYTES);
        if (sealed == NULL || sealed->number != btl_ib_protection_number(data, size)) {
            return 0;
        }
        key = &sealed->key;
        number = sealed->number;
    }
    return ops->trailer == 0 || ops->open(&sim->protection, key, number, plain, size) ? size : 0;
}
