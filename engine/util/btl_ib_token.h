/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Tokens prove that a datagram comes from who knows the secrets of both ends: the processes of one
 * job, which learn them from each other through the runtime. A restarted process has a new secret,
 * so its tokens differ from those of its earlier life.
 */

#ifndef BTL_IB_TOKEN_H
#define BTL_IB_TOKEN_H

#include <stddef.h>
#include <stdint.h>

/* Random for every start of a process, the same for all its rails. */
typedef struct btl_ib_secret {
    uint64_t k[2];
} btl_ib_secret_t;

/*
 * SipHash-2-4 with 64 bits of result: J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast
 * short-input PRF", INDOCRYPT 2012. key->k[0] and k[1] are the paper's k0 and k1. `data` may be
 * NULL if `len` is 0.
 */
uint64_t btl_ib_siphash(const btl_ib_secret_t *key, const void *data, size_t len);

/*
 * The token on what the sender sends to the receiver in a life of their connection: its `epoch` there,
 * and both ends' `rails`. The same on machines of either byte order, and never 0.
 */
uint64_t btl_ib_token(const btl_ib_secret_t *of_receiver, uint64_t sender_name,
                      const btl_ib_secret_t *of_sender, uint32_t epoch, uint32_t rails);

/* What proves in a PATH_RESPONSE that its sender, whose secret is `of_sender`, got a datagram with that token, in which the
 * receiver named its connection `id`. Never 0. */
uint64_t btl_ib_token_of_response(const btl_ib_secret_t *of_sender, uint64_t token, uint32_t id);

#endif
