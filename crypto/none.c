/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* In place of openssl.c, where there is no libcrypto. */

#include "aead.h"

bool btl_ib_aead_available(void)
{
    return false;
}

btl_ib_aead_t *btl_ib_aead_open(void)
{
    return NULL;
}
