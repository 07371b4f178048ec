# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""The connectivity map: what a job writes of its paths, and what ib_connectivity makes of it."""

import os
import re

import pytest

from runner.places import NET, ROOT

pytestmark = [pytest.mark.mpi, pytest.mark.limit(60)]
TOOL = ROOT / "info/ib_connectivity"
BAD = ROOT / "tools/nsbad"
RANKS = 3


class Network:
    """Three hosts; what is done to them is undone at the end."""

    def __init__(self, run, mpi, prefix, folder):
        self.run, self.mpi, self.prefix, self.folder = run, mpi, prefix, folder
        self.environment = {**mpi.environment, "NSPFX": prefix}

    def bad(self, *words):
        self.run.output(BAD, *words, env=self.environment)

    def inside(self, place, *words):
        return self.run.output("ip", "netns", "exec", f"{self.prefix}{place}", *words)

    def small_tcp(self, small):
        """Of TCP, which mpirun needs, segments are small."""
        for i in range(1, RANKS + 1):
            route = f"{NET}.0/24 dev eth0 src {NET}.{i} scope link proto kernel".split()
            self.inside(i, "ip", "route", "replace", *route, *(["advmss", "1000"] * small))

    def uneven(self, mtu):
        """The switch's end of the second host's cable takes so much: what is larger does not even
        leave that host, whose kernel says that it has no buffers. 1500: as the host's end."""
        self.small_tcp(mtu < 1500)
        self.inside("br", "ip", "link", "set", "p2", "mtu", str(mtu))

    def narrow(self, mtu):
        """Between the second host and the others is one more switch, and a cable to it that carries
        so much; 1500: neither is there."""
        self.small_tcp(mtu < 1500)
        if mtu == 1500:
            self.inside("br", "ip", "link", "set", "p2", "master", "br0")
            self.inside("br", "sh", "-c", "! ip link show br1 >/dev/null 2>&1 || "
                        "{ ip link del br1 && ip link del up0; }")  # fmt: skip
            return
        for words in ("add br1 type bridge", f"add up0 mtu {mtu} type veth peer name up1 mtu {mtu}",
                      "set up0 master br0 up", "set up1 master br1 up", "set p2 master br1",
                      "set br1 up"):  # fmt: skip
            self.inside("br", "ip", "link", *words.split())

    def job(self, timeout=2, program=("idle",)):
        """The lines of the map, {(rank, other rank): words}, and what the job said."""
        for path in self.folder.iterdir():
            path.unlink()
        hosts = ",".join(f"{self.prefix}{i + 1}:4" for i in range(RANKS))
        options = {
            "pml": "ob1",
            "btl": "ib,self",
            "btl_ib_connect_timeout": timeout,
            "btl_ib_if_include": "eth0",
            "btl_ib_transport": "udp",
            "btl_ib_connectivity_map": f"{self.folder}/",
        }
        said = self.run.output(
            ROOT / "tools/nshosts", "run", "--oversubscribe", "--map-by", "node", "-H", hosts,
            "-np", RANKS, *(word for pair in options.items() for word in ("--mca", *pair)),
            self.mpi.program(program[0]), *program[1:], env=self.environment,
        )  # fmt: skip
        lines = {}
        for path in self.folder.iterdir():
            first, *rest = path.read_text().splitlines()
            rank = int(re.search(r"rank (\d+) of 3", first)[1])
            assert path.name == f"btl_ib-{re.search(r'job (.{8}),', first)[1]}-{rank}.map"
            for line in rest:
                if not line.startswith("#"):
                    words = line.split(None, 10)
                    lines[rank, int(words[0])] = words
        assert len(lines) == RANKS * (RANKS - 1)
        return lines, said

    def joined(self, ok):
        """What the tool says: rows of its matrix, and its findings."""
        said = self.run.output(TOOL, self.folder, ok=ok)
        rows = [line.split()[2:-1] for line in said.splitlines() if re.search(r"\(\d\)$", line)]
        return rows, re.findall(r"^finding: (.*)", said, re.M), said


@pytest.fixture
def network(run, mpi, hosts, tmp_path):
    network = Network(run, mpi, hosts, tmp_path)
    yield network
    network.bad("off")
    network.bad("offloads", "on")
    network.narrow(1500)


def verdicts(lines):
    return {pair: words[5] for pair, words in lines.items()}


def test_connectivity_all_reach_all(network):
    """All reach each other; each side knows the same of both directions."""
    lines, said = network.job()
    for (rank, other), words in lines.items():
        _, host, device, own, theirs, verdict, sent, came, most, rtt = words
        assert host == f"{network.prefix}{other + 1}"
        assert (device, verdict) == ("udp/eth0", "ok")
        assert (sent, came, most) == ("64-1472", "64-1472", "1472")
        assert lines[other, rank][3:5] == [theirs, own]
        assert 0 < int(rtt) < 1000000
    assert "btl_ib" not in said
    rows, findings, said = network.joined(ok=True)
    assert rows == [[".", "ok", "ok"], ["ok", ".", "ok"], ["ok", "ok", "."]]
    assert not findings and "all 3 processes reach each other" in said


def test_connectivity_one_small_mtu(network):
    """One port of the switch carries less: what goes there and comes from there is smaller, and
    its host is named."""
    network.bad("offloads", "off")
    network.narrow(1300)
    lines, said = network.job()
    for pair, words in lines.items():
        if 1 in pair:
            assert words[5] == "mtu"
            assert 1300 - 28 - 40 <= int(words[6].split("-")[1]) <= 1300 - 28
        else:
            assert words[5:7] == ["ok", "64-1472"]
    assert re.search(r"To: +rank \d on host " + network.prefix, said)
    rows, findings, _ = network.joined(ok=False)
    assert [row[0] == row[1] == "ok" for row in (rows[0], rows[2])] == [False, False]
    assert rows[0][2] == rows[2][0] == "ok"
    assert len(findings) == 1
    assert findings[0].startswith(f"{network.prefix}2 (udp/eth0, {NET}.2): large datagrams")


def test_connectivity_cable_ends_differ(network):
    """Large datagrams that an interface never takes are no queue that is full for now."""
    network.uneven(1300)
    try:
        lines, said = network.job(timeout=10, program=("randsize", "rounds=1"))
    finally:
        network.uneven(1500)
    assert "OK randsize" in said
    for pair, words in lines.items():
        assert words[5] == ("mtu" if 1 in pair else "ok"), words


def test_connectivity_one_way(network):
    """What one host sends vanishes: it hears the others, they hear nothing of it."""
    network.bad("block", "1")
    lines, _ = network.job()
    assert verdicts(lines) == {
        (0, 1): "one-way", (0, 2): "one-way", (1, 0): "no-answer", (2, 0): "no-answer",
        (1, 2): "ok", (2, 1): "ok",
    }  # fmt: skip
    rows, findings, _ = network.joined(ok=False)
    assert rows == [[".", "x", "x"], ["+", ".", "ok"], ["+", "ok", "."]]
    (finding,) = findings
    assert finding.startswith(f"{network.prefix}1 (udp/eth0, {NET}.1): what it sends gets no")


def test_connectivity_firewalls(network):
    """Hosts refuse, or the network drops, all: that is not the same."""
    network.bad("reject", "eth0")
    lines, _ = network.job()
    assert "refused" in verdicts(lines).values()
    assert set(verdicts(lines).values()) <= {"refused", "no-answer"}
    network.bad("block")
    lines, _ = network.job(timeout=1)
    assert set(verdicts(lines).values()) == {"no-answer"}
    assert network.joined(ok=False)[1] == [
        "nothing gets from any host to another: firewalls for UDP, or no route between them"
    ]


def test_connectivity_dead_host(network):
    """A host whose link is cut for UDP, both ways; a route that is missing on another."""
    network.inside("2", "nft", "add table ip cut; add chain ip cut in { type filter hook input "
                   "priority 0; }; add chain ip cut out { type filter hook output priority 0; }; "
                   "add rule ip cut in meta l4proto udp drop; add rule ip cut out meta l4proto udp "
                   "drop")  # fmt: skip
    try:
        lines, _ = network.job()
    finally:
        network.inside("2", "nft", "delete", "table", "ip", "cut")
    assert {pair for pair, verdict in verdicts(lines).items() if verdict == "ok"} == {
        (0, 2), (2, 0)
    }  # fmt: skip
    (finding,) = network.joined(ok=False)[1]
    assert finding.startswith(f"{network.prefix}2 (")
    assert "nothing gets there, and nothing comes from there" in finding


def test_connectivity_wrong_files(run, tmp_path):
    """The tool names what it cannot use."""
    for name, text, problem in (
        ("none", None, "No such file or directory"),
        ("empty", "", "it is empty"),
        ("other", "# something else\n", "this is no connectivity map of version 1"),
    ):
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        said = run.output(TOOL, path, ok=False)
        assert f"connectivity: {path}: " in said and problem in said
    os.mkdir(tmp_path / "folder")
    assert "there is no file *.map in it" in run.output(TOOL, tmp_path / "folder", ok=False)
