# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""How a long message goes: with the request to send, in fragments, by puts. One each way."""

import json

import pytest

pytestmark = pytest.mark.mpi

MIB = 1 << 20


def counted(run, mpi, tmp_path, **parameters):
    """Messages that rank 0 sent, and puts that it started."""
    words = [word for name, value in parameters.items()
             for word in ("--mca", f"btl_ib_{name}", value)]  # fmt: skip
    output = mpi.job(
        run, 2, "--mca", "btl", "ib,self", "--mca", "btl_ib_stats_file", f"{tmp_path}/%r", *words,
        mpi.program("pingpong"), f"bytes={MIB}", "iterations=1", "warmup=0",
    )  # fmt: skip
    counters = json.loads((tmp_path / "0").read_text())["counters"]
    assert f"{MIB}" in output
    return counters["sent_messages"], counters["started_puts"]


@pytest.mark.called("long_messages/rndv_eager_limit")
@pytest.mark.full
def test_rndv_eager_limit(run, mpi, tmp_path):
    """What goes with the request needs no fragment."""
    sent = {}
    for limit in (0, 64 << 10, 128 << 10):
        sent[limit], puts = counted(run, mpi, tmp_path, flags="send", eager_limit="128k",
                                    rndv_eager_limit=limit)  # fmt: skip
        assert puts == 0
    assert sent[0] - sent[64 << 10] == 1 and sent[64 << 10] - sent[128 << 10] == 1


@pytest.mark.called("long_messages/pipeline")
@pytest.mark.full
def test_pipeline(run, mpi, tmp_path):
    """Over two rails a long message is not fetched by one get: its receiver asks for it by puts,
    which the limits of the pipeline cut."""
    two = {"qps_per_port": 2}
    usual, puts = counted(run, mpi, tmp_path, **two)
    assert puts == 2
    assert counted(run, mpi, tmp_path, **two, rdma_pipeline_frag_size="64k")[1] == 16
    assert counted(run, mpi, tmp_path, **two, rdma_pipeline_frag_size=0)[1] == 2
    sent, puts = counted(run, mpi, tmp_path, **two, rdma_pipeline_send_length="512k")
    assert puts == 2 and sent - usual in range(7, 13)  # of 64 KiB
    assert counted(run, mpi, tmp_path, **two, rdma_pipeline_send_length=MIB)[1] == 0
    assert counted(run, mpi, tmp_path, **two, min_rdma_pipeline_size="2M")[1] == 0
    assert counted(run, mpi, tmp_path, **two, min_rdma_pipeline_size="512k")[1] == 2
