# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""The ends of a job: exit codes as over btl tcp, nothing left behind, and nobody tells of deaths
that are the end of the job."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from runner.command import Failed
from runner.places import ROOT

pytestmark = [pytest.mark.mpi, pytest.mark.limit(40)]
# Seconds from the end of the first process, or a signal to mpirun, to that of the job.
MOST = 30

# Over btl tcp of Open MPI 5 and later the others may end the job first, because a socket was closed.
TCP_ABORTS = 14
CODES = {
    "all7": 7, "unfinished": 1, "one5": 5, "late": 5, "thread5": 5, "callback5": 5, "pending": 5,
    "segv": 128 + signal.SIGSEGV, "quit": 128 + signal.SIGQUIT, "kill_wait": 128 + signal.SIGKILL,
    "kill_talk": 128 + signal.SIGKILL, "kill_finalize": 128 + signal.SIGKILL,
}  # fmt: skip

ENDS = [
    *(pytest.param(way, None, id=f"exits/{way}", marks=pytest.mark.full)
      for way in ("return", "all7", "unfinished", "one5", "abort", "late", "segv", "quit",
                  "kill_wait", "kill_finalize", "thread5", "thread_abort", "callback_abort")),
    *(pytest.param(way, None, id=f"exits/{way}")
      for way in ("kill_talk", "pending", "callback5")),
    *(pytest.param(way, name, id=f"exits/{name},{way}", marks=[pytest.mark.full] * more)
      for way, name, more in (("talk", "TERM", 0), ("wait", "TERM", 1), ("talk", "INT", 1),
                              ("talk", "HUP", 1), ("talk", "KILL", 1)))]  # fmt: skip


@contextlib.contextmanager
def started(run, mpi, hosts, said, *options, going="exits: going"):
    """A job of four ranks on two hosts that has begun, and whose output goes to the file `said`."""
    run.environment["NSPFX"] = hosts
    words = [
        ROOT / "tools/nshosts", "run", "--oversubscribe", "--map-by", "node",
        "-H", f"{hosts}1:4,{hosts}2:4", "-np", 4, "--mca", "pml", "ob1",
        "--mca", "mpi_yield_when_idle", 1, *options,
    ]  # fmt: skip
    with said.open("w") as out:
        job = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, env={**run.environment, **mpi.environment},
        )  # fmt: skip
    try:
        until = time.monotonic() + MOST
        while going not in said.read_text(errors="replace") and job.poll() is None:
            if time.monotonic() > until:
                raise Failed("it does not begin")
            time.sleep(0.1)
        yield job
    finally:
        if job.poll() is None:
            job.terminate()
            try:
                job.wait(10)
            except subprocess.TimeoutExpired:
                job.kill()
                job.wait()


def end(run, mpi, hosts, tmp_path, btl, way, name):
    """Exit code of a job, and what it said."""
    said = tmp_path / f"{btl}.txt"
    options = ("--mca", "btl", f"{btl},self", mpi.program("exits"), f"way={way}")
    try:
        with started(run, mpi, hosts, said, *options) as job:
            if name:
                time.sleep(0.3)
                job.send_signal(signal.Signals[f"SIG{name}"])
            code = job.wait(MOST)
    except subprocess.TimeoutExpired:
        raise Failed(f"over {btl} the job has not ended after {MOST} s") from None
    finally:
        with run.log.open("a") as log:
            log.write(f"{btl}:\n{said.read_text(errors='replace')}")
    return code, said.read_text(errors="replace")


@pytest.mark.parametrize("way, name", ENDS)
def test_exits(run, mpi, hosts, tmp_path, way, name):
    """Processes that are left behind are found by `run`."""
    code, said = end(run, mpi, hosts, tmp_path, "ib", way, name)
    assert "exits: going" in said and "FAIL" not in said
    assert "lost the connection with a process" not in said
    expected, _ = end(run, mpi, hosts, tmp_path, "tcp", way, name)
    aborted = mpi.series != "4.1" and expected == TCP_ABORTS
    assert code == (CODES[way] if aborted else expected)


def told(run, mpi, tmp_path, way):
    """Ranks that wrote their line, and those that wrote their files: of counters and the map."""
    said = mpi.job(run, 2, "--mca", "btl", "ib,self", "--mca", "btl_ib_stats", 1, "--mca",
                   "btl_ib_stats_file", f"{tmp_path}/", "--mca", "btl_ib_connectivity_map",
                   f"{tmp_path}/", mpi.program("exits"), f"way={way}", ok=None)  # fmt: skip
    files = {}
    for path in tmp_path.glob("*.json"):
        if path.stat().st_size and path.with_suffix(".map").stat().st_size:
            data = json.loads(path.read_text())
            files[data["rank"]] = data
    return sorted(map(int, re.findall(r"btl_ib: rank (\d+) host", said))), files


@pytest.mark.parametrize(
    "way, ranks",
    [
        pytest.param("unfinished", [0, 1], id="exits/told,unfinished"),
        pytest.param("thread5", [1], id="exits/told,thread5"),
        pytest.param("callback_abort", [1], id="exits/told,callback_abort"),
        pytest.param("child", [0, 1], id="exits/told,child"),
    ],
)
def test_told(run, mpi, tmp_path, way, ranks):
    """Counters are told at exits without MPI_Finalize, once, and not by children of fork()."""
    if "abort" in way and mpi.series != "4.1":
        pytest.skip("Open MPI 5 and later leave by _exit(), and tell nobody before")
    lines, files = told(run, mpi, tmp_path, way)
    assert set(ranks) <= set(lines) and len(lines) == len(set(lines))
    for rank in ranks:
        (peer,) = files[rank]["peers"]
        assert peer["rank"] == 1 - rank and peer["counters"]["sent_segments"] > 0


def waiting(run, mpi, hosts, happens, way="wait", seconds=20, text="lost the conn", times=1):
    """What a job says whose ranks only wait, after something happened: until `text` is there."""
    options = (
        "--enable-recovery", "--mca", "btl", "ib,self", "--mca", "btl_ib_keepalive", 1,
        "--mca", "btl_ib_dump_signal", int(signal.SIGUSR2), mpi.program("exits"), f"way={way}",
    )  # fmt: skip
    with started(run, mpi, hosts, run.log, *options) as job:
        try:
            happens(job)
            until = time.monotonic() + seconds
            while (time.monotonic() < until
                   and run.log.read_text(errors="replace").count(text) < times):  # fmt: skip
                time.sleep(0.2)
            time.sleep(0.5)
            return run.log.read_text(errors="replace")
        finally:  # mpirun ends the other host's ranks only if it reaches them
            subprocess.run(["ip", "-n", f"{hosts}2", "link", "set", "eth0", "up"], check=True)


@pytest.mark.called("exits/host_lost")
def test_host_lost(run, mpi, hosts):
    """A host is gone while all only wait: the first that knows says so."""

    def cut(_):
        subprocess.run(["ip", "-n", f"{hosts}2", "link", "set", "eth0", "down"], check=True)
        # The kernel would believe what it knows for up to 45 s.
        subprocess.run(["ip", "-n", f"{hosts}1", "neigh", "flush", "dev", "eth0"], check=True)

    said = waiting(run, mpi, hosts, cut)
    assert "it does not answer, and its host cannot be reached any more" in said


@pytest.mark.called("exits/stopped")
@pytest.mark.full
def test_stopped(run, mpi, hosts):
    """Processes that are stopped are waited for, however often they are asked."""
    stopped = []

    def stop(_):
        found = subprocess.run(
            ["ip", "netns", "pids", f"{hosts}2"], capture_output=True, text=True, check=True
        )
        for pid in map(int, found.stdout.split()):
            if Path(f"/proc/{pid}/comm").read_text().strip() == "exits":
                os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)

    try:
        said = waiting(run, mpi, hosts, stop, seconds=8)
    finally:
        for pid in stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
    assert len(stopped) == 2
    assert "lost the connection" not in said


@pytest.mark.called("exits/nothing_due")
def test_nothing_due(run, mpi, hosts):
    """A process died that nobody owed an answer to, nor it them: its host says so when asked."""
    said = waiting(run, mpi, hosts, lambda _: None, way="kill_talk")
    assert "its host says that nobody is there any more" in said


@pytest.mark.called("exits/dump")
def test_dump(run, mpi, hosts):
    """mpirun hands the signal on: each rank says what it waits for, and the job goes on."""
    said = waiting(
        run, mpi, hosts, lambda job: job.send_signal(signal.SIGUSR2), way="talk", seconds=10,
        text="connections have something to do", times=4,
    )  # fmt: skip
    for rank in range(4):
        assert f"btl:ib: rank {rank} on host " in said
    assert "segments in flight" in said or said.count(": 0 connections have") == 4
    assert "lost the connection" not in said


SECONDS = 3  # btl_ib_exit_timeout


def timed(run, mpi, hosts, tmp_path, *words):
    """Exit code of a job with a short exit timeout, and what it said."""
    said = tmp_path / "said.txt"
    options = (
        "--mca", "btl", "ib,self", "--mca", "btl_ib_exit_timeout", SECONDS, "--mca",
        "btl_ib_keepalive", 1, *words[:-1], mpi.program("exits"), *words[-1].split(),
    )  # fmt: skip
    try:
        with started(run, mpi, hosts, said, *options) as job:
            code = job.wait(MOST)
    except subprocess.TimeoutExpired:
        raise Failed(f"the job has not ended after {MOST} s") from None
    finally:
        run.log.write_text(said.read_text(errors="replace"))
    return code, said.read_text(errors="replace")


@pytest.mark.called("exits/stuck_leave")
def test_stuck_leave(run, mpi, hosts, tmp_path):
    """A call of ib does not come back in MPI_Finalize: its rank says where, and ends by SIGTERM."""
    code, said = timed(run, mpi, hosts, tmp_path, "way=stuck_leave")
    assert said.count("This process should have ended, hangs") == 1
    assert re.search(r"Process: rank 1 on host \S+2 \(pid \d+\)", said)
    assert "taking leave of other processes" in said
    assert "btl:ib: rank 1 on host" in said and "connections have something to do" in said
    assert code == 128 + signal.SIGTERM


@pytest.mark.called("exits/stuck_abort")
@pytest.mark.full
def test_stuck_abort(run, mpi, hosts, tmp_path):
    """A process is lost, and the others do not come back from Open MPI's abort."""
    code, said = timed(run, mpi, hosts, tmp_path, "--enable-recovery", "way=stuck_abort")
    assert "lost the connection with a process" in said
    hung = set(re.findall(r"exits: rank (\d) hangs", said))
    assert hung and "1" not in hung
    for rank in hung:
        assert re.search(rf"Process: rank {rank} on host .*\n  In: +the abort of the job", said)
    assert code == 0  # of mpirun, where a job is to survive


@pytest.mark.called("exits/slow_leave")
@pytest.mark.full
def test_slow_leave(run, mpi, hosts, tmp_path):
    """Those that wait in MPI_Finalize for one that computes are no trouble, however long it is."""
    code, said = timed(run, mpi, hosts, tmp_path, "--mca", "btl_ib_drain_ms", 0,
                       f"way=late late={4 * SECONDS}")  # fmt: skip
    assert code == 0
    assert "should have ended" not in said and "lost the conn" not in said
