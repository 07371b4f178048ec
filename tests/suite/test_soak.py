# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""A long job to whose hosts and processes everything happens that may: its data are right, and at
its end what was sent is what was received."""

import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from runner.places import ROOT
from test_exits import started

pytestmark = [pytest.mark.mpi, pytest.mark.limit(4500)]
MOST = 120  # s beyond its time until the job has ended


def pids(host):
    """Ranks of the job on a host."""
    found = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True, check=True)
    for pid in map(int, found.stdout.split()):
        try:
            if Path(f"/proc/{pid}/comm").read_text().strip() == "soak":
                yield pid
        except OSError:
            pass


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Trouble:
    """What happens to two hosts. Each is over when it returns, but for the state of the links."""

    def __init__(self, hosts, seed, log):
        self.hosts = hosts
        self.random = random.Random(seed)
        self.log = log
        self.happened = set()

    def tell(self, text):
        self.log.write(f"{time.strftime('%T')} {text}\n")
        self.log.flush()

    def links(self, *words):
        self.tell(f"links {' '.join(words)}")
        subprocess.run(
            [ROOT / "tools/nsbad", *words], env={**os.environ, "NSPFX": self.hosts}, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def rest(self, least, most):
        time.sleep(self.random.uniform(least, most))

    def bad(self):
        words = [str(self.random.choice((0, 50, 100, 500))) for _ in range(2)]
        self.links("udp", *words, str(self.random.choice((0, 100))))

    def slow(self):
        self.links("rate", str(self.random.choice((100, 1000))))

    def hole(self):
        """Large datagrams vanish, which only single ones can."""
        self.links("offloads", "off")
        self.links("hole", str(self.random.choice((700, 1300))))

    def offloads(self):
        """With them a loss takes all that travels as one."""
        self.links("offloads", self.random.choice(("on", "off", "nogso")))

    def good(self):
        self.links("off")

    def partition(self, most=6):
        self.links("block", *self.random.choice(([], ["1"], ["2"])))
        self.rest(0.5, most)
        self.links("off")

    def long_partition(self):
        self.partition(30)

    def long_stop(self):
        self.stop(40)

    def stop(self, most=5):
        """Up to two of the ranks stand still."""
        found = [pid for host in "12" for pid in pids(f"{self.hosts}{host}")]
        chosen = self.random.sample(found, min(len(found), self.random.randint(1, 2)))
        self.tell(f"stop {chosen}")
        try:
            for pid in chosen:
                send(pid, signal.SIGSTOP)
            self.rest(0.2, most)
        finally:
            for pid in chosen:
                send(pid, signal.SIGCONT)

    def go_on(self, job, seconds):
        often = (self.bad, self.slow, self.hole, self.offloads, self.good, self.partition,
                 self.stop)  # fmt: skip
        seldom = (self.long_partition, self.long_stop) if seconds >= 300 else ()
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until and job.poll() is None:
                happens = self.random.choice(3 * often + 2 * (self.bad, self.stop) + seldom)
                self.happened.add(happens.__name__)
                happens()
                self.rest(0.5, 4)
        finally:
            self.links("off")
            self.links("offloads", "on")
        return {one.__name__ for one in often + seldom} - self.happened


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
