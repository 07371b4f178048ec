# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs over libfabric: the same in little, since everything else goes over the default
transport."""

import pytest

from runner.jobs import job, job_of

pytestmark = [pytest.mark.mpi, pytest.mark.ofi]


def ofi(what, *where, options="", **more):
    return job("ofi", what, *where, options=f"--transport ofi {options}", **more)


JOBS = [
    *(row for program in ("ring", "randsize", "threads") for row in (
        ofi(program, 3, marks="quick" if program == "ring" else "full"),
        ofi(program, 2, 2, "loss1", limit=90, marks="full" * (program != "randsize")))),
    ofi("twosends seconds=3 bytes=850 bound=1000", 2, 2, "lost1", marks="alone full"),
    ofi("killed", 3, 3),
    ofi("stack seconds=0.3", 2, 2, "loss1", marks="full"),
    *(ofi(program, 2, 2, "loss5", limit=90, marks="full")
      for program in ("datatypes", "spawn", "churn")),
    *(ofi(program, 4, 4, "all", limit=90, marks="full" * (program != "sends"))
      for program in ("alltoall", "anysource", "sends", "direct")),
    # Each channel with an endpoint and a completion queue of its own, of few sends.
    *(ofi(program, 2, 2, "loss1", name=f"ofi/channels/{program}",
          mpirun="--mca btl_ib_channels own --mca btl_ib_cq own --mca btl_ib_send_depth 8,4",
          limit=90, marks="full" * (program != "randsize"))
      for program in ("randsize", "alltoall")),
    ofi("survive seconds=6 pause=2", 2, 2, "cut3", marks="full"),
    *(ofi(program, 3, 3, "loss1", options="--osc rdma", limit=90, marks="full" * (program == "atomics"))
      for program in ("onesided", "atomics")),
    ofi("incast seconds=2", 4, 4, "rate200", options="--resent 5", marks="alone full"),
    ofi("stream seconds=5", 2, 2, name="ofi/bad/replay,token,acks",
        options="--bad replay,token,acks", limit=90, marks="full"),
    job("ofi,docker0", "ring", 2, 2, options="--links docker0 --transport ofi")]


@pytest.mark.parametrize("row", JOBS)
def test_job(run, mpi, request, row):
    job_of(run, mpi, request, row)
