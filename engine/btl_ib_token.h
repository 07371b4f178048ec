/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A token proves that the sender of a datagram knows the secrets of both ends. Only processes of
 * one job do: they get them through the runtime (modex). A restarted process has a new secret, so
 * its tokens differ from those of its earlier incarnation.
 */

#ifndef BTL_IB_TOKEN_H
#define BTL_IB_TOKEN_H

#include <stddef.h>
#include <stdint.h>

/* Random, new for every start of a process, the same for all its rails. */
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
 * The token of what the sender sends to the receiver in one incarnation of their connection:
 * `epoch` is the sender's, `rails` both ends' (btl_ib_rails_of()). Equal on machines of either byte
 * order, and never 0.
 */
uint64_t btl_ib_token(const btl_ib_secret_t *of_receiver, uint64_t sender_name,
                      const btl_ib_secret_t *of_sender, uint32_t epoch, uint32_t rails);

/* The proof in a PATH_RESPONSE. Its sender, whose secret is `of_sender`, received a datagram
 * with `token` in which the other end named its connection `id`. Never 0. */
uint64_t btl_ib_token_of_response(const btl_ib_secret_t *of_sender, uint64_t token, uint32_t id);

/* The proof in an ADDRESS, whose sender has that token and the secret of its receiver. `len` is at
 * most BTL_IB_TOKEN_ADDRESS_MAX. */
#define BTL_IB_TOKEN_ADDRESS_MAX 64u
uint64_t btl_ib_token_of_address(const btl_ib_secret_t *of_receiver, uint64_t token,
                                 uint32_t generation, const void *address, uint32_t len);

#endif
