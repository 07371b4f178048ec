/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* How much a device can register, as the probe finds it on one that is none (fake_rdma.h). */

#include "btl_ib_registration_limit.c" /* what is static there */

#include <stdlib.h>
#include <unistd.h>

#include "rc_sides.h"
#include "unit.h"

enum { PAGE = 4096, MIB = 1 << 20 };

RC_TEST(test_probe)
{
    btl_ib_transport_t *t = sides[0].t;
    const int mrs = fake.mrs;
    const size_t mr_bytes = fake.mr_bytes;

    assert_int_equal(pin_probe(t, 300 * MIB + 100), 300 * MIB);
    fake.mr_total = fake.mr_bytes + 100 * MIB + 5 * PAGE + 1;
    assert_int_equal(pin_probe(t, 1 << 30), 100 * MIB + 5 * PAGE);
    assert_int_equal(pin_probe(t, 100 * MIB), 100 * MIB);
    fake.mr_max = 3 * MIB + 1;
    assert_int_equal(pin_probe(t, 1 << 30), 100 * MIB + 5 * PAGE);
    fake.mrs_left = 0;
    assert_int_equal(pin_probe(t, 1 << 30), 0);
    assert_int_equal(pin_probe(t, 0), 0);
    fake.mrs_left = -1;
    assert_int_equal(fake.mrs, mrs);
    assert_int_equal(fake.mr_bytes, mr_bytes);
}

/* The second takes what the first one found. */
RC_TEST(test_probe_once)
{
    char path[] = "/tmp/btl_ib_pinned.XXXXXX";
    const int fd = mkstemp(path);
    uint32_t before;

    assert_true(fd >= 0);
    fake.mr_total = fake.mr_bytes + 40 * MIB;
    assert_int_equal(btl_ib_pin_probe_once(sides[0].t, 1 << 30, path), 40 * MIB);
    before = fake.regs;
    fake.mr_total = 0;
    assert_int_equal(btl_ib_pin_probe_once(sides[1].t, 1 << 30, path), 40 * MIB);
    assert_int_equal(fake.regs, before);
    assert_int_equal(ftruncate(fd, 0), 0); /* the first one died */
    assert_int_equal(btl_ib_pin_probe_once(sides[1].t, 50 * MIB, path), 50 * MIB);
    assert_int_equal(btl_ib_pin_probe_once(sides[1].t, 60 * MIB, NULL), 60 * MIB);
    assert_int_equal(btl_ib_pin_probe_once(sides[1].t, 70 * MIB, "/nowhere/at/all"), 70 * MIB);
    (void) close(fd);
    (void) unlink(path);
}

UNIT_MAIN(NULL, NULL)
