/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Which versions of datagrams a process speaks, and which one it speaks with a peer. Each publishes
 * its range; both sides take the newest that both have, so nothing need be asked.
 */

#ifndef BTL_IB_VERSIONS_H
#define BTL_IB_VERSIONS_H

#include <stdint.h>

/* The newest. A build for tests may define a later one, whose datagrams differ in nothing else. */
#ifndef BTL_IB_WIRE_VERSION
#define BTL_IB_WIRE_VERSION 1
#endif

/* A release understands the version before its own as well. */
#define BTL_IB_WIRE_VERSION_OLDEST (BTL_IB_WIRE_VERSION > 1 ? BTL_IB_WIRE_VERSION - 1 : 1)

_Static_assert(BTL_IB_WIRE_VERSION <= 15, "four bits of the header");

/* From `oldest` to `newest`, 1..15. */
typedef struct btl_ib_versions {
    uint8_t oldest, newest;
} btl_ib_versions_t;

/* Those of this build, which its parser knows. */
static inline btl_ib_versions_t btl_ib_versions_here(void)
{
    return (btl_ib_versions_t){BTL_IB_WIRE_VERSION_OLDEST, BTL_IB_WIRE_VERSION};
}

/* The newest that both have; 0: none. */
static inline uint8_t btl_ib_versions_common(btl_ib_versions_t a, btl_ib_versions_t b)
{
    const uint8_t newest = a.newest < b.newest ? a.newest : b.newest;

    return newest >= a.oldest && newest >= b.oldest ? newest : 0;
}

#endif
