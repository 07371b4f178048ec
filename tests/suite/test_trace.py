# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Traces for users: files of jobs and of the simulator, and ib_trace that reads them."""

import json
import re
import sys

import pytest

from runner.places import ROOT

TRACE = ROOT / "info/ib_trace"
HEADER = 65536


def told(run, *words):
    return json.loads(run.output(sys.executable, TRACE, "--json", *words))


@pytest.fixture(name="burst")
def make_burst(run, sim_programs, tmp_path):
    """Files of a scenario in which 44 segments in a row are lost, from p0 to p1."""
    sim = sim_programs / "tests/sim/btl_ib_sim"
    files = tmp_path / "burst"
    plain = run.output(sim, "--scenario", "loss_of_burst")
    assert run.output(sim, "--scenario", "loss_of_burst", "--trace-file", files) == plain
    return [tmp_path / "burst.0", tmp_path / "burst.1"]


@pytest.mark.sim
@pytest.mark.called("trace/simulator")
def test_simulator(run, burst):
    """What the scenario says that it does; the same run as without a trace; lists and text."""
    sender, receiver = told(run, *burst)
    events = sender["events"]
    assert events["lost"] == events["retransmitted loss"] == 44
    assert events["sent"] - receiver["events"]["received"] == 44
    assert [state for state in ("made", "bound", "known", "closed") if events[state] != 1] == []
    (peer,) = sender["peers"]
    assert peer["rank"] == 1 and peer["srtt"] == [20, 20, 20] and peer["window"][1] == 80
    assert peer["stalls"]["window"]["times"] == 5
    assert "lost                   44\n" in run.output(sys.executable, TRACE, *burst)
    lines = run.output(sys.executable, TRACE, "--list", "--rank", 0, *burst)
    assert lines.count(" lost peer 1 ") == 44
    assert re.search(r"^0\.\d{6} p0 sent peer 1 rail 0 \w+ \d+ bytes channel \d seq 1 ", lines, re.M)
    assert told(run, "--to", 0, *burst)[1]["events"] == {}


@pytest.mark.sim
@pytest.mark.called("trace/plot")
def test_plot(run, burst, tmp_path):
    svg = tmp_path / "plot.svg"
    run.output(sys.executable, TRACE, "--plot", svg, *burst)
    assert all(f">{label}<" in svg.read_text() for label in ("sent", "sent again", "acknowledged"))
    output = run.output(sys.executable, TRACE, "--from", 1000, "--plot", svg, *burst, ok=False)
    assert "no segment was sent among these events" in output


@pytest.mark.sim
@pytest.mark.called("trace/without-matplotlib")
def test_without(run, burst, tmp_path):
    """All but plots works without; plots say what is missing."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "matplotlib.py").write_text("raise ImportError")
    env = {"PYTHONPATH": str(hidden)}
    run.output(sys.executable, TRACE, *burst, env=env)
    output = run.output(sys.executable, TRACE, "--plot", "x.svg", *burst, env=env, ok=False)
    assert "--plot needs matplotlib" in output and "python3-matplotlib" in output
    assert "Traceback" not in output


@pytest.mark.sim
@pytest.mark.called("trace/bad-files")
def test_bad(run, burst, tmp_path):
    data = burst[0].read_bytes()
    for name, text, problem in (
        ("empty", b"", "was not written by btl_ib_trace"),
        ("other", b"{}\0", "was not written by btl_ib_trace"),
        ("newer", data.replace(b'"version": 1,', b'"version": 9,', 1), "has version 9"),
    ):
        (tmp_path / name).write_bytes(text)
        output = run.output(sys.executable, TRACE, tmp_path / name, burst[0], ok=False)
        assert f"trace: {tmp_path / name} {problem}" in output and "rank 0 on p0" in output
    assert "No such file" in run.output(sys.executable, TRACE, tmp_path / "absent", ok=False)
    assert "has no file *.trace" in run.output(sys.executable, TRACE, tmp_path, ok=False)
    # Cut off in the middle of an event, and with room that was never used.
    (tmp_path / "cut").write_bytes(data[: HEADER + 10 * 64 + 5])
    assert sum(told(run, tmp_path / "cut")[0]["events"].values()) >= 10
    assert told(run, tmp_path / "cut")[0]["missing"] == told(run, burst[0])[0]["written"] - 10
    (tmp_path / "room").write_bytes(data + bytes(640))
    assert told(run, tmp_path / "room") == told(run, burst[0])


def job(run, mpi, files, *words, **more):
    return mpi.job(
        run, 2, "--mca", "btl", "ib,self", "--mca", "btl_ib_trace", files, *words, **more
    )


@pytest.mark.mpi
@pytest.mark.called("trace/ring")
def test_ring(run, mpi, tmp_path):
    """Each process has a file. Who names a place that is not there is told."""
    job(run, mpi, f"{tmp_path}/", mpi.program("ring"), "laps=5")
    files = sorted(tmp_path.iterdir())
    assert [file.name[-8:] for file in files] == ["-0.trace", "-1.trace"]
    for number, (file, rank) in enumerate(zip(files, told(run, *files))):
        assert rank["rank"] == number and file.stat().st_size <= HEADER + 2**26
        assert rank["written"] > 0 and rank["missing"] == 0
        assert rank["events"]["made"] == 1 and rank["events"]["closed"] == 1
    output = job(run, mpi, f"{tmp_path}/none/", mpi.program("ring"), "laps=1")
    assert "OK ring" in output
    assert output.count("trace of the ib BTL (btl_ib_trace) cannot be written") == 1


@pytest.mark.mpi
@pytest.mark.called("trace/killed")
def test_killed(run, mpi, tmp_path):
    """Processes that are killed leave all that they had written."""
    shell = f"{mpi.program('stream')} seconds=60 bytes=8 & sleep 2; kill -9 $!; wait; exit 1"
    job(run, mpi, f"{tmp_path}/", "bash", "-c", shell, ok=False)
    for rank in told(run, tmp_path):
        assert rank["missing"] == 0 and rank["events"]["sent"] > 10
        assert "closed" not in rank["events"]


@pytest.mark.sim
@pytest.mark.called("trace/guide")
def test_guide(burst):
    """The page names all that a file may contain."""
    page = (ROOT / "docs/guide/trace.md").read_text()
    about = json.loads(burst[0].read_bytes()[:HEADER].split(b"\0")[0])
    for table in ("fields", "kinds", "causes"):
        for entry in about[table]:
            if entry["name"] not in ("zero", "none"):
                assert re.search(rf"(?<!\w)`?{entry['name']}`?(?!\w)", page), entry["name"]
