# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs on hosts with random interfaces, addresses, routes and firewalls: tests/mpi/random_hosts."""

import os

import pytest

from runner.places import BUILD, ROOT

pytestmark = pytest.mark.mpi
# Of the first hundred: all hosts reach each other, by IPv4 or IPv6 alone, on one segment or routed.
SHORT = (1, 4, 5, 6, 9, 10, 12, 13, 15, 18)
MANY = [(first, 20) for first in range(1001, 1201, 20)]


@pytest.mark.parametrize("first, count", [
    *(pytest.param(seed, 1, id=f"random-hosts/{seed}") for seed in SHORT),
    *(pytest.param(first, count, id=f"random-hosts/{first}-{first + count - 1}",
                   marks=[pytest.mark.long, pytest.mark.limit(900)]) for first, count in MANY),
])  # fmt: skip
def test_random_hosts(run, mpi, first, count):
    """What works between two hosts is found and used silently; else the job ends with the cause."""
    if os.geteuid() != 0:
        pytest.skip("several hosts need root")
    mpi.program("alltoall")
    run(ROOT / "tests/mpi/random_hosts", "--build", BUILD, "--seed", first, "--seeds", count,
        env={**mpi.environment, "NSPFX": f"rh{os.getpid()}h"})
