# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""A long job to whose hosts and processes everything happens that may: its data are right, and at
its end what was sent is what was received."""

import json
import os
import re
import time

import pytest

from runner.places import ROOT
from soak.trouble import Trouble
from test_exits import started

pytestmark = [pytest.mark.mpi, pytest.mark.limit(4500)]
MOST = 120  # s beyond its time until the job has ended


def check_balance(folder, seconds):
    """What one process sent to another is what that received of it, also of spawned ones. Credits
    that idle channels give back are sent in segments (SKIP) that are not received as such: a few
    after each pause of two seconds. They are counted for a process, so that the sum of all is
    exact, but for those that nobody waited for at the end."""
    counted = {}
    missing = 0
    for path in folder.iterdir():
        data = json.loads(path.read_text())
        of_process = data["counters"]
        missing += of_process["sent_segments"] - of_process["received_segments"]
        missing -= of_process["received_skips"]
        for peer in data["peers"]:
            counters = peer["counters"]
            key = (data["job"], data["rank"]), (peer["job"], peer["rank"])
            sums = counted.setdefault(key, [0, 0])
            sums[0] += counters["sent_segments"]
            sums[1] += counters["received_segments"]
    pairs = [(one, other) for one, other in counted if (other, one) in counted]
    assert len(pairs) >= 12
    for one, other in pairs:
        more = counted[one, other][0] - counted[other, one][1]
        assert 0 <= more <= 8 + 2 * seconds, f"segments from {one} to {other}"
    assert 0 <= missing <= 8 * len(pairs), f"{missing} segments of all were not received"


def check_flat(said):
    """Descriptors do not grow after a tenth of the time, and memory only by what Open MPI keeps: of
    each process that came and went, and 32 KiB of each window (osc/rdma does not give the buffer of
    a window back to its list when that is freed)."""
    (rounds,) = re.findall(
        r"windows (\d+) and (\d+), collectives \d+, spawns (\d+), connects (\d+)", said
    )
    windows, more_windows, spawns, connects = map(int, rounds)
    most = 20000 + 34 * (windows + more_windows) + 200 * (spawns + connects)
    held = re.findall(r"rank \d: descriptors (\d+), then (\d+); KiB (\d+), then (\d+)", said)
    assert len(held) == 4
    for before, after, kib, more_kib in (map(int, one) for one in held):
        assert after <= before + 2
        assert more_kib - kib <= most


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("short", id="soak/short", marks=pytest.mark.full),
        pytest.param("long", id="soak/long", marks=pytest.mark.long),
    ],
)
def test_soak(run, mpi, hosts, tmp_path, request, kind):
    seconds = request.config.option.soak if kind == "long" else 30
    spawns = 10 if mpi.series == "4.1" else 0  # 5.0 spawns once only, over any BTL
    folder = tmp_path / "counters"
    folder.mkdir()
    options = (
        "--mca", "btl", "ib,self", "--mca", "btl_ib_stats_file", f"{folder}/",
        mpi.program("soak"), f"seconds={seconds}", f"spawns={spawns}",
    )  # fmt: skip
    with started(run, mpi, hosts, run.log, *options, going="soak: going") as job:
        with (tmp_path / "trouble").open("w") as log:
            never = Trouble(hosts, seconds, log).go_on(job, seconds)
        code = job.wait(MOST)
    said = run.log.read_text(errors="replace")
    assert code == 0 and "OK soak" in said, (tmp_path / "trouble").read_text()
    assert "lost the connection" not in said
    check_balance(folder, seconds)
    check_flat(said)
    assert kind == "short" or not never


@pytest.mark.long
@pytest.mark.called("soak/seeds")
def test_seeds(run, mpi, request):
    """Jobs of a seed each, whose digests are those over btl tcp; some with two releases."""
    if os.geteuid():
        pytest.skip("several hosts need root")
    today = int(time.time()) // 86400
    minutes = request.config.option.soak / 60
    run(ROOT / "tests/soak/run", "--minutes", minutes, "--seed", 1000 * today)
