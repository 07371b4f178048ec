/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* A group of tests whose state is what protects datagrams, NULL if none was built in. Includes
 * cmocka.h first. */

#ifndef BTL_IB_TESTS_WITH_AEAD_H
#define BTL_IB_TESTS_WITH_AEAD_H

#include "aead.h"

static int open_aead(void **state)
{
    *state = btl_ib_aead_open();
    return btl_ib_aead_available(NULL, 0) && *state == NULL ? -1 : 0;
}

static int close_aead(void **state)
{
    btl_ib_aead_t *aead = *state;

    if (aead != NULL) {
        aead->ops->close(aead);
    }
    return 0;
}

#endif
