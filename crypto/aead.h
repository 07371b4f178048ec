/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Authenticated encryption and key derivation, as the engine asks for them: AES-256-GCM (NIST SP
 * 800-38D) and HKDF with SHA-256 (RFC 5869), out of a library that others keep well. The engine
 * knows the ops only; the caller that makes the engine makes the implementation and hands it over,
 * so that what a library does when it starts (it reads its configuration) is no business of the
 * engine. No system call is made by derive, seal and open.
 */

#ifndef BTL_IB_AEAD_H
#define BTL_IB_AEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BTL_IB_AEAD_KEY_BYTES 32u
#define BTL_IB_AEAD_IV_BYTES  12u
#define BTL_IB_AEAD_TAG_BYTES 16u

typedef struct btl_ib_aead btl_ib_aead_t;

/* A key for one direction. */
typedef struct btl_ib_aead_key {
    uint64_t
        id; /* not 0, and no other key of the same aead ever has it: prepared keys are kept by it */
    uint8_t key[BTL_IB_AEAD_KEY_BYTES];
    uint8_t iv[BTL_IB_AEAD_IV_BYTES]; /* the nonce of datagram n is iv XOR n, as in TLS 1.3 */
} btl_ib_aead_key_t;

/* All return whether it was done; what may be missing is memory. */
typedef struct btl_ib_aead_ops {
    /* HKDF without salt: `size` bytes, at most 255 * 32, that follow from `secret` and `info`. */
    bool (*derive)(btl_ib_aead_t *aead, const void *secret, size_t secret_size, const void *info,
                   size_t info_size, void *out, size_t size);

    /*
     * Encrypt `size` bytes from `text` to `out` (which may be the same) and authenticate them and
     * the `aad_size` bytes before them. `number` must never have been used with this key.
     */
    bool (*seal)(btl_ib_aead_t *aead, const btl_ib_aead_key_t *key, uint64_t number,
                 const void *aad, size_t aad_size, const uint8_t *text, uint8_t *out, size_t size,
                 uint8_t tag[BTL_IB_AEAD_TAG_BYTES]);

    /* Decrypt `text` in place. If that fails, or the tag does not fit, `text` is undefined. */
    bool (*open)(btl_ib_aead_t *aead, const btl_ib_aead_key_t *key, uint64_t number,
                 const void *aad, size_t aad_size, uint8_t *text, size_t size,
                 const uint8_t tag[BTL_IB_AEAD_TAG_BYTES]);

    void (*close)(btl_ib_aead_t *aead);
} btl_ib_aead_ops_t;

/* Every implementation's own struct starts with this. */
struct btl_ib_aead {
    const btl_ib_aead_ops_t *ops;
    uint64_t last_id; /* of the keys made for it */
};

/* Loads the library. Returns whether one was built in and could be loaded; if not, and `why` is not
 * NULL, the reason is written there as text. */
bool btl_ib_aead_available(char *why, size_t len);

/* Opens one. NULL if there is none, no memory, or the library refuses. One thread at a time may use
 * it. */
btl_ib_aead_t *btl_ib_aead_open(void);

#endif
