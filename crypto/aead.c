/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* By libcrypto of OpenSSL 3: EVP_EncryptInit(3), EVP_KDF-HKDF(7). */

#include "aead.h"

#ifdef BTL_IB_CRYPTO_FILE

#include "btl_ib_library.h"

#include <stdlib.h>
#include <string.h>

/* libcrypto of OpenSSL 3, loaded when it is needed. */

#define BTL_IB_OPENSSL_CALLS(X)                                                                    \
    X(int, EVP_CIPHER_CTX_ctrl, (EVP_CIPHER_CTX * ctx, int type, int arg, void *ptr),              \
      (ctx, type, arg, ptr))                                                                       \
    X(void, EVP_CIPHER_CTX_free, (EVP_CIPHER_CTX * c), (c))                                        \
    X(EVP_CIPHER_CTX *, EVP_CIPHER_CTX_new, (void), ())                                            \
    X(EVP_CIPHER *, EVP_CIPHER_fetch,                                                              \
      (OSSL_LIB_CTX * ctx, const char *algorithm, const char *properties),                         \
      (ctx, algorithm, properties))                                                                \
    X(void, EVP_CIPHER_free, (EVP_CIPHER * cipher), (cipher))                                      \
    X(int, EVP_CipherFinal_ex, (EVP_CIPHER_CTX * ctx, unsigned char *outm, int *outl),             \
      (ctx, outm, outl))                                                                           \
    X(int, EVP_CipherInit_ex2,                                                                     \
      (EVP_CIPHER_CTX * ctx, const EVP_CIPHER *cipher, const unsigned char *key,                   \
       const unsigned char *iv, int enc, const OSSL_PARAM params[]),                               \
      (ctx, cipher, key, iv, enc, params))                                                         \
    X(int, EVP_CipherUpdate,                                                                       \
      (EVP_CIPHER_CTX * ctx, unsigned char *out, int *outl, const unsigned char *in, int inl),     \
      (ctx, out, outl, in, inl))                                                                   \
    X(void, EVP_KDF_CTX_free, (EVP_KDF_CTX * ctx), (ctx))                                          \
    X(EVP_KDF_CTX *, EVP_KDF_CTX_new, (EVP_KDF * kdf), (kdf))                                      \
    X(int, EVP_KDF_derive,                                                                         \
      (EVP_KDF_CTX * ctx, unsigned char *key, size_t keylen, const OSSL_PARAM params[]),           \
      (ctx, key, keylen, params))                                                                  \
    X(EVP_KDF *, EVP_KDF_fetch,                                                                    \
      (OSSL_LIB_CTX * libctx, const char *algorithm, const char *properties),                      \
      (libctx, algorithm, properties))                                                             \
    X(void, EVP_KDF_free, (EVP_KDF * kdf), (kdf))                                                  \
    X(OSSL_PARAM, OSSL_PARAM_construct_end, (void), ())                                            \
    X(OSSL_PARAM, OSSL_PARAM_construct_octet_string, (const char *key, void *buf, size_t bsize),   \
      (key, buf, bsize))                                                                           \
    X(OSSL_PARAM, OSSL_PARAM_construct_utf8_string, (const char *key, char *buf, size_t bsize),    \
      (key, buf, bsize))

BTL_IB_OPENSSL_CALLS(BTL_IB_LIBRARY_RENAME)

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

static struct {
    BTL_IB_OPENSSL_CALLS(BTL_IB_LIBRARY_POINTER)
} calls;

static const char *const names[] = {BTL_IB_OPENSSL_CALLS(BTL_IB_LIBRARY_NAME)};

static btl_ib_library_t library = {
    .file = BTL_IB_CRYPTO_FILE,
    .package = "Debian: libssl3, Fedora: openssl-libs",
    .names = names,
    .count = sizeof(names) / sizeof(names[0]),
    .calls = &calls,
};

BTL_IB_OPENSSL_CALLS(BTL_IB_LIBRARY_CALL)

/* Prepared keys kept: as many connections and directions as are busy at a time. Preparing one again
 * takes about as long as the tag of a short datagram. */
enum { SLOTS = 64 };

typedef struct slot {
    EVP_CIPHER_CTX *context;
    uint64_t id; /* of the key that it is prepared for, 0: none */
} slot_t;

typedef struct openssl {
    btl_ib_aead_t base;
    EVP_CIPHER *cipher;
    EVP_KDF *hkdf;
    slot_t slots[SLOTS];
} openssl_t;

static bool openssl_derive(btl_ib_aead_t *aead, const void *secret, size_t secret_size,
                           const void *info, size_t info_size, void *out, size_t size)
{
    const openssl_t *self = (openssl_t *) aead;
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(self->hkdf);
    char digest[] = "SHA256";
    /* The parameters are only read, but their type does not say so. */
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *) (uintptr_t) secret,
                                          secret_size),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *) (uintptr_t) info,
                                          info_size),
        OSSL_PARAM_construct_end(),
    };
    bool done = context != NULL && EVP_KDF_derive(context, out, size, params) == 1;

    EVP_KDF_CTX_free(context);
    return done;
}

/* Returns a context for this key, ready for datagram `number`; NULL if the library fails. */
static EVP_CIPHER_CTX *openssl_prepare(openssl_t *self, const btl_ib_aead_key_t *key,
                                       uint64_t number, int encrypt)
{
    slot_t *slot = &self->slots[key->id % SLOTS];
    bool known = slot->id == key->id;
    uint8_t nonce[BTL_IB_AEAD_IV_BYTES];

    memcpy(nonce, key->iv, sizeof(nonce));
    for (unsigned i = 0; i < 8; i++) {
        nonce[BTL_IB_AEAD_IV_BYTES - 1 - i] ^= (uint8_t) (number >> (8 * i));
    }
    slot->id = key->id;
    if (EVP_CipherInit_ex2(slot->context, NULL, known ? NULL : key->key, nonce, encrypt, NULL)
        != 1) {
        slot->id = 0;
        return NULL;
    }
    return slot->context;
}

/* Encrypts or decrypts everything but the tag. `out` may be `text`. */
static bool openssl_run(EVP_CIPHER_CTX *context, const void *aad, size_t aad_size,
                        const uint8_t *text, uint8_t *out, size_t size)
{
    int written;

    return context != NULL && EVP_CipherUpdate(context, NULL, &written, aad, (int) aad_size) == 1
           && (size == 0 || EVP_CipherUpdate(context, out, &written, text, (int) size) == 1);
}

static bool openssl_seal(btl_ib_aead_t *aead, const btl_ib_aead_key_t *key, uint64_t number,
                         const void *aad, size_t aad_size, const uint8_t *text, uint8_t *out,
                         size_t size, uint8_t tag[BTL_IB_AEAD_TAG_BYTES])
{
    EVP_CIPHER_CTX *context = openssl_prepare((openssl_t *) aead, key, number, 1);
    uint8_t nothing[1];
    int written;

    return openssl_run(context, aad, aad_size, text, out, size)
           && EVP_CipherFinal_ex(context, nothing, &written) == 1
           && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, BTL_IB_AEAD_TAG_BYTES, tag) == 1;
}

static bool openssl_open(btl_ib_aead_t *aead, const btl_ib_aead_key_t *key, uint64_t number,
                         const void *aad, size_t aad_size, uint8_t *text, size_t size,
                         const uint8_t tag[BTL_IB_AEAD_TAG_BYTES])
{
    EVP_CIPHER_CTX *context = openssl_prepare((openssl_t *) aead, key, number, 0);
    uint8_t expected[BTL_IB_AEAD_TAG_BYTES];
    uint8_t nothing[1];
    int written;

    memcpy(expected, tag, sizeof(expected));
    return openssl_run(context, aad, aad_size, text, text, size)
           && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, sizeof(expected), expected) == 1
           && EVP_CipherFinal_ex(context, nothing, &written) == 1; /* compares the tags */
}

static void openssl_close(btl_ib_aead_t *aead)
{
    openssl_t *self = (openssl_t *) aead;

    for (int i = 0; i < SLOTS; i++) {
        EVP_CIPHER_CTX_free(self->slots[i].context); /* wipes the keys, and takes NULL */
    }
    EVP_CIPHER_free(self->cipher);
    EVP_KDF_free(self->hkdf);
    free(self);
}

static const btl_ib_aead_ops_t openssl_ops = {
    .derive = openssl_derive,
    .seal = openssl_seal,
    .open = openssl_open,
    .close = openssl_close,
};

bool btl_ib_aead_available(char *why, size_t len)
{
    return btl_ib_library_load(&library, why, len);
}

btl_ib_aead_t *btl_ib_aead_open(void)
{
    openssl_t *self = btl_ib_library_load(&library, NULL, 0) ? calloc(1, sizeof(*self)) : NULL;

    if (self == NULL) {
        return NULL;
    }
    self->base.ops = &openssl_ops;
    self->cipher = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
    self->hkdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    bool done = self->cipher != NULL && self->hkdf != NULL;
    for (int i = 0; i < SLOTS && done; i++) {
        self->slots[i].context = EVP_CIPHER_CTX_new();
        done =
            self->slots[i].context != NULL
            && EVP_CipherInit_ex2(self->slots[i].context, self->cipher, NULL, NULL, 1, NULL) == 1;
    }
    if (!done) {
        openssl_close(&self->base);
        return NULL;
    }
    return &self->base;
}

#else /* it was configured without */

#include <stdio.h>

bool btl_ib_aead_available(char *why, size_t len)
{
    snprintf(why, len, "it was configured without");
    return false;
}

btl_ib_aead_t *btl_ib_aead_open(void)
{
    return NULL;
}

#endif
