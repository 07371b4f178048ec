/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * libFuzzer target: what peers say of themselves to a transport. The first byte chooses: an address
 * of udp, one of verbs over UD, one over RC; what a request to connect says over RC, or a refusal.
 * What is accepted says exactly what its bytes say, that is, packing it gives the same bytes.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "require.h"
#include "transport.h"
#include "udp_sockets.h"
#ifdef BTL_IB_HAVE_VERBS
#include "verbs_formats.h"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_udp(const uint8_t *data, size_t size)
{
    uint8_t again[BTL_IB_ADDR_BYTES];
    btl_ib_udp_name_t name;
    uint32_t carries;
    bool quick;

    if (btl_ib_udp_name_unpack(data, size, &name, &carries, &quick) == 0) {
        REQUIRE(btl_ib_udp_name_pack(&name, carries, quick, again) == size);
        REQUIRE(memcmp(again, data, size) == 0);
    }
}

#ifdef BTL_IB_HAVE_VERBS
static void check_ud(const uint8_t *data, size_t size)
{
    uint8_t again[BTL_IB_ADDR_BYTES];
    btl_ib_ud_address_t address;

    if (btl_ib_ud_address_unpack(data, size, &address) == 0) {
        REQUIRE(btl_ib_ud_address_pack(&address, again) == size);
        REQUIRE(memcmp(again, data, size) == 0);
    }
}

static void check_rc(const uint8_t *data, size_t size)
{
    uint8_t again[BTL_IB_RC_ADDRESS_BYTES];
    btl_ib_rc_address_t addr;

    if (btl_ib_rc_address_unpack(data, size, &addr) == 0) {
        btl_ib_rc_address_pack(&addr, again);
        REQUIRE(size == sizeof(again) && memcmp(again, data, size) == 0);
    }
}

/* rdma_cm pads what was said. */
static void check_params(const uint8_t *data, size_t size)
{
    uint8_t again[BTL_IB_RC_PRIVATE_MAX];
    btl_ib_rc_params_t params;

    if (btl_ib_rc_params_unpack(data, size, &params) == 0) {
        btl_ib_rc_params_pack(&params, again);
        REQUIRE(size >= BTL_IB_RC_PARAMS_BYTES && memcmp(again, data, BTL_IB_RC_PARAMS_BYTES) == 0);
    }
}

static void check_reject(const uint8_t *data, size_t size)
{
    uint8_t again[BTL_IB_RC_PRIVATE_MAX];
    const btl_ib_rc_reject_t reason = btl_ib_rc_reject_unpack(data, size);

    if (reason != 0) {
        const uint8_t len = btl_ib_rc_reject_pack(reason, again);
        REQUIRE(size >= len && memcmp(again, data, len) == 0);
    }
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(const uint8_t *, size_t) = {
        check_udp,
#ifdef BTL_IB_HAVE_VERBS
        check_ud,  check_rc, check_params, check_reject,
#endif
    };

    if (size > 0 && data[0] < sizeof(checks) / sizeof(checks[0])) {
        checks[data[0]](data + 1, size - 1);
    }
    return 0;
}
