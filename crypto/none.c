/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* In place of openssl.c, where there is no libcrypto. */

#include "aead.h"

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
