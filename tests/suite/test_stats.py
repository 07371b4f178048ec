# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Counters for users: lines at intervals, files, and ib_stats and ib_top that read them."""

import json
import os
import pty
import re
import subprocess
import sys
import termios
import threading
import time

import pytest

from runner.places import BUILD, ROOT

pytestmark = pytest.mark.mpi
STATS = ROOT / "info/ib_stats"
TOP = ROOT / "info/ib_top"
TOOLS = ((TOP, "-1"), (STATS,))


def job(run, mpi, *words, **parameters):
    """Two ranks that send to each other for some seconds."""
    options = [
        word
        for name, value in parameters.items()
        for word in ("--mca", f"btl_ib_{name}", str(value))
    ]
    program = words or (mpi.program("stream"), "seconds=2.5", "bytes=1000")
    return mpi.job(run, 2, "--mca", "btl", "ib,self", *options, *program)


def sent(output, rank, when):
    """Segments in the lines of a rank."""
    return list(
        map(int, re.findall(rf"btl_ib: rank {rank} host \S+{when} sent (\d+) seg", output))
    )


def load(path):
    return json.loads(path.read_text())


@pytest.mark.called("stats/intervals")
def test_intervals(run, mpi, tmp_path):
    """Each second a line, and one at the end; the file has the same as its course and its end."""
    output = job(run, mpi, stats="1s", stats_file=f"{tmp_path}/")
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    for rank, path in enumerate(files):
        lines, (last,) = sent(output, rank, r" after \d\.\d s,"), sent(output, rank, "")
        assert len(lines) >= 2
        assert lines == sorted(lines) and lines[-1] <= last
        data = load(path)
        assert data["rank"] == rank and data["processes"] == 2 and data["complete"]
        assert data["counters"]["sent_segments"] == last
        assert data["samples"]["counters"]["sent_segments"] == lines
        assert len(data["samples"]["seconds"]) == len(lines)
        (peer,) = data["peers"]
        assert peer["rank"] == 1 - rank and not peer["dead"]
        assert peer["counters"]["sent_segments"] == last
        # Other addresses of its interface stand by.
        device, *standby = data["devices"]
        assert not any(other["counters"]["sent_segments"] for other in standby)
        assert device["counters"]["sent_segments"] == last
        channels = [channel["counters"]["sent_segments"] for channel in device["channels"]]
        assert len(channels) > 1 and sum(channels) == last
        assert path.name == f"btl_ib-{data['job']}-{rank}.json"
        (carried,) = re.findall(rf"btl_ib: rank {rank} host \S+ sent .*, carried by (.*)", output)
        assert carried == f"{device['name']} 100 %"
    summed = json.loads(run.output(STATS, "--json", tmp_path))
    (sums,) = summed.values()
    assert sums["sent_segments"] == sum(load(path)["counters"]["sent_segments"] for path in files)


@pytest.mark.called("stats/end-only")
def test_end_only(run, mpi, tmp_path):
    """1 and yes are no intervals; a name for all gets the rank; without a parameter there is
    nothing."""
    for value in ("1", "yes"):
        output = job(run, mpi, mpi.program("ring"), "laps=1", stats=value, stats_file=tmp_path / "x")
        assert output.count("btl_ib: rank ") == 2  # mpirun of Open MPI 5.0 may join their lines
        assert " after " not in output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.0", "x.1"]
    assert load(tmp_path / "x.1")["samples"] == {"seconds": [], "counters": {}}
    assert "btl_ib: rank" not in job(run, mpi, mpi.program("ring"), "laps=1", stats="no")


@pytest.mark.called("stats/no-place")
def test_no_place(run, mpi, tmp_path):
    """A file that cannot be written is one warning of the host, and no harm to the job."""
    output = job(
        run, mpi, mpi.program("ring"), "laps=1", stats_file=f"{tmp_path}/none/%r", stats=1
    )
    assert "OK ring" in output and re.search(r"sent [1-9]\d* segments", output)
    assert output.count("(btl_ib_stats_file) cannot be written") == 1
    assert re.search(
        rf"Process: rank \d on host {os.uname().nodename}\n"
        rf"  File:    {tmp_path}/none/\d\n  Error:   No such file or directory\n",
        output,
    )


@pytest.mark.called("stats/carried")
def test_carried(run, mpi, hosts, tmp_path):
    """Who carried what is the last of the line, and at verbose 1 a line of its own: with two links both, by their
    shares in the file; of a process that talks to nobody none."""
    environment = {**mpi.environment, "NSPFX": hosts}
    words = ["--np", 2, "--hosts", 2, "randsize", "rounds=20", "--", "--mca", "btl_ib_stats", "1", "--mca",
             "btl_base_verbose", "1", "--mca", "btl_ib_stats_file", f"{tmp_path}/"]  # fmt: skip
    run.output(ROOT / "tools/nshosts", "second", "on", env=environment)
    try:
        output = run.output(ROOT / "tests/mpi/run", "--build", BUILD, *words, env=environment)
    finally:
        run.output(ROOT / "tools/nshosts", "second", "off", env=environment)
    for path in tmp_path.iterdir():
        data = load(path)
        moved = [sum(device["counters"][name] for name in ("sent_bytes", "received_bytes")) for device in data["devices"]]
        names = [device["name"] for device in data["devices"]]
        shares = ", ".join(f"{name} {100 * each / sum(moved):.0f} %" for name, each in zip(names, moved) if each)
        assert "/eth0 " in shares and "/eth1 " in shares
        assert re.search(rf"btl_ib: rank {data['rank']} host .*, carried by {shares}$", output, re.M)
        assert f" received, carried by {shares}; fell back: nothing\n" in output
    alone = mpi.job(run, 1, "--mca", "btl", "ib,self", "--mca", "btl_ib_stats", "1", mpi.program("alltoall"), "rounds=1")
    assert re.search("carried by none$", alone, re.M)


# For messages of so many bytes: copies of each byte at the sender, and at the receiver, at most. A short
# one is copied into its datagram and delivered from there; a longer eager one is sent from where it is,
# and copied if that takes long; what a GET asks for is sent from where it is and placed at once.
COPIES = {1000: (1, 0.01), 65536: (0.5, 1), 262144: (0.5, 1), 1 << 20: (0.01, 1)}


@pytest.mark.called("stats/copies")
def test_copies(run, mpi, tmp_path):
    """How often ib copies each byte of messages is no more than it has to be."""
    for size, (out, into) in COPIES.items():
        files = tmp_path / str(size)
        files.mkdir()
        program = (mpi.program("stream"), "seconds=0.3", f"bytes={size}")
        job(run, mpi, *program, transport="udp", stats_file=f"{files}/")
        sender, receiver = (load(path)["counters"] for path in sorted(files.iterdir()))
        assert sender["sent_bytes"] > 50 * size
        assert sender["copied_out"] <= out * sender["sent_bytes"], size
        assert receiver["copied_in"] <= into * receiver["received_bytes"], size
        assert sender["copied_out"] + receiver["copied_in"] >= 0.9 * sender["sent_bytes"], size


def made_up(path, rank, running=False, pid=1, seconds=2.0, samples=None, **counters):
    """A file as ranks write them; those of a job of four that have much to tell."""
    names = "sent_messages sent_segments retransmits retransmits_spurious registration_hits"
    names += " registration_misses blocked_credit overflows received_datagrams received_bytes sent_bytes timeouts"
    data = {
        **dict(schema="btl_ib stats", version=1, component="0.1.0", openmpi="4.1.4"),
        **dict(host=f"h{rank}", job="00000001", rank=rank, processes=4, pid=pid, ended=1),
        **dict(running=running, complete=True, seconds=seconds, devices=[]),
        "counters": {**dict.fromkeys(names.split(), 0), "sent_segments": 1000, **counters},
        "samples": samples or {"seconds": [], "counters": {}},
        "peers": [
            {
                **dict(job="00000001", rank=3, rail=0, dead=True, host="h3", address="10.0.0.3:1"),
                "counters": {"sent_segments": 500, "retransmits": counters.get("retransmits", 0)},
                "levels": {"srtt": 77, "datagram_max": 1472, "in_flight": 5, "window": 9},
            }
        ],
    }
    path.write_text(json.dumps(data))
    return path


@pytest.mark.quick
@pytest.mark.called("stats/tool")
def test_tool(run, tmp_path):
    """What ib_stats says of who stands out, who is missing, and of files that are none."""
    for rank, again in enumerate((1, 2, 250)):
        made_up(tmp_path / f"{rank}.json", rank, retransmits=again, sent_messages=2000)
    output = run.output(STATS, tmp_path)
    assert "job 00000001: 3 processes on 3 hosts, 2.0 s" in output
    assert "no counters of 1 ranks, the first is 3" in output
    assert re.search(r"retransmits +253 +1 \(0\) +250 \(2\)", output)
    assert "rank 2 on h2 stands out: segments sent again, of those sent: 25 % (median" in output
    assert "rank 0 on h0 stands out" not in output
    assert re.search(r"rank 2 on h2 to rank 3 on h3 \(10.0.0.3:1\): 50 % .* given up", output)
    assert "messages for each segment: 2.00" in output
    for name, text, problem in (
        ("empty", "", "is empty: its process did not end in order"),
        ("other", "{}", "was not written by btl_ib_stats_file"),
        ("old", '{"schema": "btl_ib stats", "version": 0}', "has version 0 of the format"),
        ("half", '{"schema', "is no JSON"),
    ):
        (tmp_path / name).write_text(text)
        output = run.output(STATS, tmp_path / "0.json", tmp_path / name, ok=False)
        assert f"ib_stats: {tmp_path / name} {problem}" in output
        assert "job 00000001: 1 processes" in output
    assert "No such file" in run.output(STATS, tmp_path / "absent", ok=False)
    assert "there is no counter x" in run.output(STATS, "--counters", "x", tmp_path, ok=False)


@pytest.mark.quick
@pytest.mark.called("stats/draw")
def test_draw(run, tmp_path):
    """The course of each rank, by one scale; bars of those without one; of many the largest."""
    for rank, values in enumerate(([100, 100, 900], [0, 0, 100])):
        course = {"seconds": [1.0, 2.0, 3.0], "counters": {"sent_bytes": values}}
        made_up(tmp_path / f"{rank}.json", rank, samples=course, sent_bytes=values[-1])
    output = run.output(STATS, "--draw", "--counters", "sent_bytes", tmp_path)
    assert "sent_bytes for each second, at most 800" in output
    assert "  rank 0     ▂▁█ 900\n  rank 1     ▁▁▂ 100\n" in output
    # More samples than columns: those that are left at the end are part of it.
    seconds = [float(second) for second in range(1, 72)]
    values = [0] * 70 + [500]
    course = {"seconds": seconds, "counters": {"sent_bytes": values}}
    made_up(tmp_path / "0.json", 0, samples=course, sent_bytes=500)
    assert re.search(r"rank 0 +▁{35}█ 500\n", run.output(STATS, "--draw", "--counters", "sent_bytes", tmp_path / "0.json"))
    for rank in range(40):
        made_up(tmp_path / f"{rank}.json", rank, received_bytes=rank)
    output = run.output(STATS, "--draw", "--counters", "received_bytes", tmp_path)
    assert re.search(r"rank 39 +█{60} 39\n  and 8 ranks with less$", output, re.M)
    assert re.search(r"rank 13 +█{20} 13\n", output) and "rank 7 " not in output.split("received_bytes\n")[-1]


def running(path, rank, after, pid=1, **counters):
    """A file of a rank that counts as much each second."""
    now, before = ({name: value * seconds for name, value in counters.items()} for seconds in (after, after - 2))
    course = {"seconds": [after - 2.0, float(after)], "counters": {name: [before[name], now[name]] for name in now}}
    return made_up(path, rank, running=True, pid=pid, seconds=float(after), samples=course, **now)


@pytest.mark.quick
@pytest.mark.called("stats/top")
def test_top(run, tmp_path):
    """What ib_top shows of a job, by files with known rates; of one whose ranks are many, or have
    ended; of what is no job."""
    for rank in range(3):
        running(tmp_path / f"{rank}.json", rank, 10, sent_bytes=2 * 10**6 + rank, sent_segments=1000 - 1000 * rank % 3,
                retransmits=20 * rank, blocked_window=rank, received_bytes=1500, sent_messages=30)
    output = run.output(TOP, "-1", tmp_path)
    assert "job 00000001: 3 of 4 ranks on 3 hosts, 3 run, 10 s, ib 0.1.0, Open MPI 4.1.4\n" in output
    assert "all: out 6.0MB/s, in 4.5kB/s, 90 msgs/s," in output
    assert not re.search("marked|paths|bounded", output)
    rows = [line.split() for line in output.splitlines() if re.match(r" +\d+ h\d +\d", line)]
    assert [row[:-1] for row in rows] == [
        ["0", "h0", "2.0M", "1.5k", "30", "0", "0", "0", "0"],
        ["1", "h1", "2.0M", "1.5k", "30", "2%", "0", "1w", "0"],
        ["2", "h2", "2.0M", "1.5k", "30", "4%", "0", "2w", "0"],
    ]
    assert re.search(r"^ +2 > 3 +h3 +77 us +80% +5 +9  given up$", output, re.M)
    running(tmp_path / "2.json", 2, 10, sent_bytes=2 * 10**6 + 2, sent_segments=1000, retransmits=40, blocked_window=2,
            received_bytes=1500, sent_messages=30, ecn_sent=800, ecn_ce_told=40)
    assert re.search(r"^all: .*, marked 5%", run.output(TOP, "-1", tmp_path), re.M)
    data = json.loads((tmp_path / "2.json").read_text())
    data["counters"].update(paths_tried=5, paths_kept=3)
    data["peers"][0]["levels"]["share"] = 12
    (tmp_path / "2.json").write_text(json.dumps(data))
    assert ", paths 3 of 5 kept, 1 bounded by their receivers\n" in run.output(TOP, "-1", tmp_path)
    data["counters"].update(paths_renewed=2)
    (tmp_path / "2.json").write_text(json.dumps(data))
    assert ", paths 3 of 5 kept, 2 renewed, 1 bounded" in run.output(TOP, "-1", tmp_path)
    output = run.output(TOP, "--once", "--sort", "stalls", tmp_path)
    assert re.findall(r"^ +(\d) h\d", output, re.M) == ["2", "1", "0"]
    made_up(tmp_path / "3.json", 3, seconds=4.0, sent_bytes=4000, sent_segments=1, retransmits=12)
    output = run.output(TOP, "-1", tmp_path)
    assert "4 of 4 ranks on 4 hosts, 3 run" in output
    assert re.search(r"^ +3 h3 +1.0k .* 1200% .* ended$", output, re.M)
    (tmp_path / "other.json").write_text("{}")
    output = run.output(TOP, "-1", tmp_path)
    assert "4 of 4 ranks" in output
    assert f"skipped: {tmp_path}/other.json was not written by btl_ib_stats_file" in output
    assert "was not written by btl_ib_stats_file" in run.output(TOP, "-1", tmp_path / "other.json", ok=False)
    (tmp_path / "new.json").touch()
    assert "no interval of btl_ib_stats has passed" in run.output(TOP, "-1", tmp_path / "new.json", ok=False)
    assert "No such file" in run.output(TOP, "-1", tmp_path / "absent", ok=False)
    assert run.status(TOP) == run.status(TOP, "--delay", "0", tmp_path) == 2
    text = run.output(TOP, "--help")
    page = run.output("man", "-l", BUILD / "ib_top.1", env={"MANWIDTH": "200"})
    assert set(re.findall(r"^  --(\w+)", text, re.M)) == set(re.findall(r"^ +--(\w+)", page, re.M))


# What a sender counted of its peer, and that peer's rank of itself: who ib_top says holds it up, and what ib_stats does.
CAUSES = {
    "nobody": ({"retransmits": 30, "retransmits_spurious": 25, "queued_rounds": 3}, {"rnr_tag": 3}, "", ()),
    "away": ({}, {"paused_us": 1500000}, "host",
             ("rank 3 on h3 held others up: no call for 75 % of the time while datagrams came",)),
    "overflows": ({"retransmits": 400}, {"overflows": 30, "rnr_memory": 40, "rnr_tag": 20}, "host",
                  ("rank 3 on h3 held others up: 30 datagrams without room in its buffers, not ready for 60 segments (RNR)",)),
    "slow": ({"host_rounds": 90, "queued_rounds": 10}, {}, "host",
             ("rank 3 on h3 held others up: slower than its network in 90 round trips",)),
    "lost": ({"retransmits": 60, "retransmits_spurious": 10}, {"overflows": 3}, "network",
             ("the network from rank 0 on h0 to rank 3 on h3: 10 % lost",)),
    "queue": ({"host_rounds": 10, "queued_rounds": 90}, {}, "network",
              ("the network from rank 0 on h0 to rank 3 on h3: 90 round trips longer by a queue",)),
    "both": ({"queued_rounds": 90}, {"paused_us": 200000}, "host",
             ("rank 3 on h3 held others up: no call for 10 % of the time while datagrams came",
              "the network from rank 0 on h0 to rank 3 on h3: 90 round trips longer by a queue")),
}  # fmt: skip


@pytest.mark.quick
@pytest.mark.parametrize("case", [pytest.param(name, id=f"stats/causes/{name}") for name in CAUSES])
def test_causes(run, tmp_path, case):
    """A host that holds a job up is told from a network that does."""
    pair, receiver, held_by, said = CAUSES[case]
    sender = made_up(tmp_path / "0.json", 0)
    made_up(tmp_path / "3.json", 3, **receiver)
    data = load(sender)
    data["peers"][0]["counters"].update(pair)
    data["peers"][0]["dead"] = False
    sender.write_text(json.dumps(data))
    output = run.output(TOP, "-1", tmp_path)
    assert re.search(rf"^ +0 > 3 +h3 .* +5 +9{'  ' + held_by if held_by else ''}$", output, re.M), output
    away = f"{receiver['paused_us'] / 2e4:.0f}%" if "paused_us" in receiver else "0"
    assert re.search(rf"^ +3 h3 .* {away} ended$", output, re.M), output
    output = run.output(STATS, tmp_path)
    lines = [line.strip() for line in output.splitlines() if re.search("held others up|the network from", line)]
    assert lines == list(said)
    data["peers"][0]["levels"]["share"] = 2
    sender.write_text(json.dumps(data))
    assert re.search(r"^ +0 > 3 .* 9  share$", run.output(TOP, "-1", tmp_path), re.M)


# What somebody may have put where files of jobs are: how it differs from one of ours.
FOREIGN = {
    "short": lambda data: data.pop("samples"),
    "no-job": lambda data: data.pop("job"),
    "no-levels": lambda data: data["peers"][0].pop("levels"),
    "peers": lambda data: data.update(peers={"a": 1}),
    "rounds": lambda data: data["peers"][0]["counters"].update(queued_rounds="many"),
    "no-retransmits": lambda data: data["peers"][0]["counters"].pop("retransmits"),
    "text": lambda data: data["counters"].update(timeouts="many"),
    "huge": lambda data: data.update(seconds=10**400),
    "not-a-number": lambda data: data.update(seconds=float("nan")),
    "ragged": lambda data: data["samples"].update(seconds=[1.0], counters={"timeouts": [1, 2]}),
    "version": lambda data: data.update(version=["\033[31m"]),
}


@pytest.mark.quick
@pytest.mark.called("stats/foreign")
def test_foreign(run, tmp_path):
    """A file that is none of ours, or no file at all, is skipped with a word; what files say moves no cursor."""
    made_up(tmp_path / "0.json", 0)
    for name, change in FOREIGN.items():
        data = load(tmp_path / "0.json") | {"rank": 1}
        change(data)
        (tmp_path / "1.json").write_text(json.dumps(data))
        for tool in TOOLS:
            output = run.output(*tool, tmp_path, ok=None)
            assert re.search(rf"{tmp_path}/1.json (has version|was not written by btl_ib_stats_file)", output), name
            assert "job 00000001: 1 " in output and "Traceback" not in output and "\033" not in output, name
    (tmp_path / "1.json").write_text("[" * 100000)
    assert all("1.json is no JSON" in run.output(*tool, tmp_path, ok=None) for tool in TOOLS)
    (tmp_path / "1.json").unlink()
    os.mkfifo(tmp_path / "1.json")
    for tool in TOOLS:
        assert "1.json is no regular file" in run.output("timeout", "10", *tool, tmp_path, ok=None)
    (tmp_path / "1.json").unlink()
    data = load(tmp_path / "0.json") | {"host": "h\033]0;x\007", "component": "\u202e\n1", "job": "\033[2J"}
    data["peers"][0] |= {"host": "\x9b31m", "address": "\033[H"}
    (tmp_path / "0.json").write_text(json.dumps(data))
    (tmp_path / "\033[31m.json").write_text("{}")
    for tool in TOOLS:
        output = run.output(*tool, tmp_path, ok=None)
        assert "job ?[2J: 1 " in output and "?[31m.json was not written" in output
        assert all(character.isprintable() or character == "\n" for character in output)


class Screen:
    """ib_top in a terminal of 80x24, whose rows are read until they have a text."""

    def __init__(self, *words):
        self.end, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (24, 80))
        self.modes = termios.tcgetattr(terminal)
        self.terminal = terminal
        self.process = subprocess.Popen([TOP, *words], stdin=terminal, stdout=terminal, stderr=terminal)
        self.said = ""

    def until(self, pattern):
        """The first picture that has it."""
        while True:
            pictures = self.said.split("\033[H")
            for picture in pictures[1:-1]:
                if re.search(pattern, picture):
                    return [row.replace("\033[K", "") for row in picture.split("\r\n")]
            self.said = "\033[H" + pictures[-1] if len(pictures) > 1 else self.said
            self.said += os.read(self.end, 1 << 16).decode()

    def keys(self, text):
        os.write(self.end, text.encode())


@pytest.mark.called("stats/top-screen")
@pytest.mark.limit(30)
def test_top_screen(tmp_path):
    """In a terminal: rows that fit it, new rates when files change, keys, the terminal as it was."""
    for rank in range(40):
        running(tmp_path / f"{rank}.json", rank, 10, sent_bytes=1000, timeouts=rank)
    screen = Screen("--delay", "0.2", tmp_path)
    try:
        rows = screen.until("40 of")
        assert len(rows) == 24 and max(map(len, rows)) <= 80
        assert rows[-1].startswith("q ends")
        assert re.search(r"and \d\d more, sorted by rank", "\n".join(rows))
        running(tmp_path / "0.json", 0, 12, sent_bytes=9000)  # 9000 x 12 - 1000 x 10 in 2 s
        screen.until(r" 0 h0 +49k ")
        # Another process of that rank began at nothing.
        running(tmp_path / "0.json", 0, 20, pid=2, sent_bytes=3000)
        screen.until(r" 0 h0 +3\.0k ")
        screen.keys("ssss")
        rows = screen.until("sorted by timeouts")
        assert [row.split()[0] for row in rows if re.match(r" +\d+ h\d", row)][:2] == ["39", "38"]
        screen.keys("q")
        assert screen.process.wait(10) == 0
        assert termios.tcgetattr(screen.terminal) == screen.modes
    finally:
        screen.process.kill()
        screen.process.wait()


@pytest.mark.called("stats/running")
def test_running(run, mpi, tmp_path):
    """While a job runs its files tell what ranks did so far, whole at any time; those of ranks that
    a signal ended stay."""
    seen, over = [], threading.Event()

    def watch():
        while not over.is_set():
            for path in tmp_path.glob("*.json"):
                if text := path.read_text():
                    seen.append(json.loads(text))
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        job(run, mpi, mpi.program("stream"), "seconds=3.5", "bytes=1000", stats="1s", stats_file=f"{tmp_path}/")
    finally:
        over.set()
        watcher.join()
    for rank in (0, 1):
        mine = [data for data in seen if data["rank"] == rank and data["running"]]
        assert len({data["seconds"] for data in mine}) >= 2
        assert all(len(data["samples"]["seconds"]) <= 2 and len(data["peers"]) == 1 for data in mine)
        counts = [data["counters"]["sent_segments"] for data in mine]
        assert counts == sorted(counts) and counts[0] > 0
        assert all(data["peers"][0]["counters"]["sent_segments"] <= data["counters"]["sent_segments"] for data in mine)
    assert not any(load(path)["running"] for path in tmp_path.glob("*.json"))
    assert len(list(tmp_path.iterdir())) == 2  # and nothing that was written on the way


@pytest.mark.called("stats/plot")
def test_plot(run, tmp_path):
    for rank in range(4):
        made_up(tmp_path / f"{rank}.json", rank, retransmits=rank)
    run.output(sys.executable, STATS, "--plot", tmp_path / "plot.svg", tmp_path)
    assert ">received_bytes<" in (tmp_path / "plot.svg").read_text()
