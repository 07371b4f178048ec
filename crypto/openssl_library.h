/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* libcrypto of OpenSSL 3, loaded when it is needed. */

#ifndef BTL_IB_OPENSSL_LIBRARY_H
#define BTL_IB_OPENSSL_LIBRARY_H

#include "btl_ib_library.h"

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

/* See btl_ib_library_load(). */
bool btl_ib_openssl_load(char *why, size_t len);

#endif
