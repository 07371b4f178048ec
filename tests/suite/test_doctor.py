# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""ib_doctor, that is ib_info --check: what it says of hosts and networks that are well, or not."""

import json
import os
import re
import runpy
import socket
import struct
import sys
from types import SimpleNamespace

import pytest

from runner.jobs import with_kernel
from runner.places import BUILD, NET, ROOT, SECOND_NET

pytestmark = [pytest.mark.mpi, pytest.mark.limit(60)]
DOCTOR = BUILD / "ib_doctor"
INFO = BUILD / "ib_info"
PROGRAMS = ("ib_info", "ib_connectivity", "ib_doctor", "ib_site_report", "ib_stats", "ib_top", "ib_trace")
GUIDE = ROOT / "docs/guide/connectivity.md"


class Network:
    """Two hosts with two links each; what is done to them is undone at the end."""

    def __init__(self, run, mpi, prefix):
        self.run, self.prefix = run, prefix
        self.environment = {**mpi.environment, "NSPFX": prefix}

    def tool(self, name, *words):
        self.run.output(ROOT / "tools" / name, *words, env=self.environment)

    def inside(self, place, *words):
        return self.run.output("ip", "netns", "exec", f"{self.prefix}{place}", *words)

    def narrow(self):
        """Between the first link of the second host and the others is a cable with an MTU of
        1300, behind one more switch."""
        for words in ("add br1 type bridge", "add up0 mtu 1300 type veth peer name up1 mtu 1300",
                      "set up0 master br0 up", "set up1 master br1 up", "set p2 master br1",
                      "set br1 up"):  # fmt: skip
            self.inside("br", "ip", "link", *words.split())

    def widen(self):
        self.inside("br", "ip", "link", "set", "p2", "master", "br0")
        self.inside("br", "sh", "-c", "ip link del br1 && ip link del up0")

    def check(self, *words, ok, env=None, **parameters):
        """[(status, where, check, rest)] of what it says, from the first host."""
        settings = {f"OMPI_MCA_btl_ib_{name}": str(value) for name, value in parameters.items()}
        said = self.run.output(
            "ip", "netns", "exec", f"{self.prefix}1", INFO, "--check", "--agent",
            f"{ROOT}/tools/nshosts rsh", *words, ok=ok,
            env={**self.environment, "OMPI_MCA_btl_ib_transport": "udp", **settings, **(env or {})},
        )  # fmt: skip
        return re.findall(r"^(OK|WARN|BAD) +(.+?)  ([\w /]+): (.*)$", said, re.M)


@pytest.fixture
def network(run, mpi, hosts):
    network = Network(run, mpi, hosts)
    network.tool("nshosts", "second", "on")
    yield network
    network.tool("nsbad", "off")
    network.tool("nsbad", "offloads", "on")
    network.tool("nshosts", "second", "off")


def between(lines, check):
    """{(device, device): status and text} of what was found from one host to another."""
    found = {}
    for status, where, name, text in lines:
        words = re.fullmatch(r"\S+ (\w+) -> \S+ (\w+)", where)
        if words and name == check:
            found.setdefault(f"{words[1]} {words[2]}", []).append((status, text))
    return found


def test_doctor_nothing_wrong(network):
    """Two hosts that are well: nothing is BAD; each fact of each host is there."""
    other = f"{network.prefix}2"
    lines = network.check(other, ok=True)
    assert {status for status, *_ in lines} <= {"OK", "WARN"}
    here = {(name, text) for _, where, name, text in lines if where == os.uname().nodename}
    there = {(name, text) for _, where, name, text in lines if where == other}
    for host, facts in ((1, here), (2, there)):
        for link, net in (("eth0", NET), ("eth1", SECOND_NET)):
            assert ("device", f"udp {link}, {net}.{host}/24, MTU 1500") in facts
        assert {"locked memory", "socket buffers", "busy polling", "component"} <= {name for name, _ in facts}
    assert not [text for *_, text in lines if "None" in text]
    assert any(name == "versions" and text.startswith("ib ") for _, _, name, text in lines)
    for check, text in (("firewall", "datagrams arrive"), ("MTU", "datagrams of 1472 bytes"),
                        ("joined datagrams", "44 of 1472 bytes (UDP_SEGMENT) arrive"),
                        ("paths", "what leaves from 4 ports (btl_ib_udp_flows) gets to one")):  # fmt: skip
        found = between(lines, check)
        assert set(found) == {"eth0 eth0", "eth1 eth1"}
        for each in found.values():
            assert len(each) == 2 and all(status == "OK" and text in said for status, said in each)


def test_doctor_narrow_hop(network):
    """A hop carries less than both ends: named, with its MTU; the other link is well, but that nobody joins anything."""
    network.tool("nsbad", "offloads", "off")
    network.narrow()
    try:
        lines = network.check(f"{network.prefix}2", ok=False)
    finally:
        network.widen()
    found = between(lines, "joined datagrams")
    for host, (status, text) in zip((f"{network.prefix}2", os.uname().nodename), found["eth1 eth1"]):
        assert status == "WARN"
        assert text.startswith("44 of 1472 bytes (UDP_SEGMENT) arrive, but singly, which takes more of the processor; "
                               f"fix: on {host}, ethtool -K eth1 gro on")  # fmt: skip
    found = between(lines, "MTU")
    assert [status for status, _ in found["eth1 eth1"]] == ["OK", "OK"]
    for status, text in found["eth0 eth0"]:
        assert status == "BAD"
        assert "the MTU is 1500 and 1500 at the ends, but the path carries 1300 only" in text
        assert "fix: set the same MTU on each hop" in text and "mtu 1300" in text


def test_doctor_joined_vanish(network):
    """Single datagrams pass and joined ones do not: refused by a host, or lost from a size on; one way, of one link."""
    drop = "table netdev doctor { chain c { type filter hook %s device %s priority 0; udp length > %d drop; }; }"
    network.inside(1, "nft", drop % ("egress", "eth0", 1600))
    network.inside(2, "nft", drop % ("ingress", "eth1", 20000))
    try:
        lines = network.check(f"{network.prefix}2", ok=False)
    finally:
        for host in 1, 2:
            network.inside(host, "nft", "delete table netdev doctor")
    assert {name for status, _, name, _ in lines if status == "BAD"} == {"joined datagrams"}
    found, here = between(lines, "joined datagrams"), os.uname().nodename
    for link, says in (
        ("eth0", rf"are refused by {here} \(ENOBUFS: No buffer space available\) from 2944 bytes on"),
        ("eth1", "vanish on the way from 20608 bytes on"),
    ):
        (status, text), back = found[f"{link} {link}"]
        assert status == "BAD" and re.search(rf"single ones of 1472 bytes arrive, but joined ones \(UDP_SEGMENT\) {says}; "
                                             rf"fix: on {here}, ethtool -K {link} tx-udp-segmentation off; if that does "
                                             "not help, btl_ib_udp_gso 0", text)  # fmt: skip
        assert back == ("OK", "44 of 1472 bytes (UDP_SEGMENT) arrive")
    found = between(network.check(f"{network.prefix}2", ok=True, udp_gso=0), "joined datagrams")
    assert {line for each in found.values() for line in each} == {("OK", "ib sends none: btl_ib_udp_gso is 0")}


def test_doctor_known_fault(run, network):
    """The kernel of both hosts is known to be bad: a warning each, with what to do, and why ib joins nothing there."""
    lines = network.check(f"{network.prefix}2", ok=True, env=with_kernel(run, "7.0.2-6-pve"))
    told = {where: (status, text) for status, where, name, text in lines if name == "known faults"}
    assert told.keys() == {os.uname().nodename, f"{network.prefix}2"}
    for status, text in told.values():
        assert status == "WARN" and "; fix: take a later kernel; " in text
        assert text.startswith("udp eth0, udp eth1: Linux 7.0.2-6-pve: known to be bad: Linux 7.0 to 7.1.4: ")
    found = between(lines, "joined datagrams")
    assert {line for each in found.values() for line in each} == {
        ("OK", "ib sends none: btl_ib_udp_gso is auto, and its kernel is known to be bad")
    }


class Joining:
    """A socket that hands out one message, joined from datagrams of the first size, and tells the second one of it."""

    def __init__(self, marks, sent, told):
        self.readable, self.end = os.pipe()
        self.data = b"".join((b"ib_doctor %d %d " % (mark, sent)).ljust(sent, b".") for mark in marks)
        self.notes = [(socket.IPPROTO_UDP, 104, struct.pack("=i", told))] if told else []
        os.write(self.end, b"!")

    def fileno(self):
        return self.readable

    def recvmsg(self, most, room):
        os.read(self.readable, 1)
        return self.data[:most], self.notes if room >= 20 else [], 0, ("", 0)

    def close(self):
        os.close(self.readable)
        os.close(self.end)


@pytest.mark.parametrize(("told", "wrong"), [
    pytest.param(1400, "14720 bytes came as if of 1400 each, but 1472 were sent", id="doctor/joined/shorter"),
    pytest.param(0, "14720 bytes came as if of 14720 each, but 1472 were sent", id="doctor/joined/unreported"),
    pytest.param(1472, "", id="doctor/joined/rightly"),
])  # fmt: skip
def test_joined_wrongly(told, wrong):
    """What a host joins of received datagrams tells their size, or ib drops it: the line says so, and what to do."""
    loaded, said = runpy.run_path(str(DOCTOR), run_name="loaded"), []
    joining, host = Joining(range(10), 1472, told), loaded["Host"]()
    host.sockets.append(joining)
    here = SimpleNamespace(name="n1", ask=lambda *_: {})
    there = SimpleNamespace(name="n2", ask=lambda what, *words: getattr(host, what)(*words))
    ends = [SimpleNamespace(remote=remote, device={"name": "eth0"}, address="", sockets=[[0, 9]], unjoined="", gro=True)
            for remote in (here, there)]  # fmt: skip
    links = loaded["Links"](lambda *line: said.append(line), "")
    loaded["Links"].check_joined.__globals__["BURST_DATAGRAMS"] = 10
    try:
        links.check_joined(*ends, "n1 -> n2", 0, 1472)
    finally:
        joining.close()
    if wrong:
        assert said == [("BAD", "n1 -> n2", "joined datagrams", f"n2 joins wrongly (UDP_GRO) what it receives: {wrong}",
                         "on n2, ethtool -K eth0 gro off")]  # fmt: skip
    else:
        assert said == [("OK", "n1 -> n2", "joined datagrams", "10 of 1472 bytes (UDP_SEGMENT) arrive", "")]


def test_doctor_unequal_ends(network):
    """Interfaces of one network differ."""
    network.inside(2, "ip", "link", "set", "eth1", "mtu", "1400")
    lines = network.check(f"{network.prefix}2", ok=True)
    assert any(status == "WARN" and name == "MTU" and "1500 here, 1400 there" in text
               for status, _, name, text in lines)  # fmt: skip


def test_doctor_firewall(network):
    """Ports of the range that a firewall closes are named with the range; so is a host whose
    datagrams vanish."""
    network.inside(2, "nft", "add table ip doctor; add chain ip doctor in { type filter hook input "
                   "priority 0; }; add rule ip doctor in udp dport 20005-20006 drop")  # fmt: skip
    try:
        lines = network.check(f"{network.prefix}2", ok=False, port_min=20000, port_range=8)
    finally:
        network.inside(2, "nft", "delete", "table", "ip", "doctor")
    for (status, text), (back, _) in between(lines, "firewall").values():
        assert (status, back) == ("BAD", "OK")
        assert re.search(rf"nothing gets to port 20005, 20006 of ({NET}|{SECOND_NET})\.2: UDP, ports 20000 "
                         "to 20007; fix: open ports 20000 to 20007 for UDP", text)  # fmt: skip
    network.tool("nsbad", "block", "2")
    found = between(network.check(f"{network.prefix}2", ok=False), "firewall")
    for (status, _), (back, text) in found.values():
        assert (status, back) == ("OK", "BAD")
        assert f"nothing gets to {NET[:4]}" in text and "any port (btl_ib_port_min is not set)" in text


def test_doctor_paths(network):
    """Of ports that are open one pair leads nowhere: that is no firewall. A source port that is closed is told once, and
    other ports are none of it."""
    for rule, says in (
        ("udp sport 20002 udp dport 20002 drop", r"what leaves from port 20002 does not get to port 20002 of \S+, what "
         "leaves from another port does; jobs leave such a pair, within a second; fix: conntrack -L"),
        ("udp sport 20002 drop", r"what leaves from port 20002 gets to no port of \S+, what leaves from others does: .*; "
         "fix: let ports 20000 to 20007 through as source ports, too, on"),
    ):  # fmt: skip
        network.inside(2, "nft", "add table ip doctor; add chain ip doctor in { type filter hook input "
                       f"priority 0; }}; add rule ip doctor in {rule}")  # fmt: skip
        try:
            lines = network.check(f"{network.prefix}2", ok=True, port_min=20000, port_range=8)
        finally:
            network.inside(2, "nft", "delete", "table", "ip", "doctor")
        assert {status for each in between(lines, "firewall").values() for status, _ in each} == {"OK"}
        for (status, text), back in between(lines, "paths").values():
            assert status == "WARN" and re.match(says, text)
            assert back == ("OK", "what leaves from 4 ports (btl_ib_udp_flows) gets to one")
    lines = network.check(f"{network.prefix}2", ok=True, udp_flows=1)
    assert not between(lines, "paths")


def test_doctor_no_route(network):
    """Without a route, and without ib: one line each."""
    network.inside(1, "ip", "route", "add", "blackhole", f"{NET}.2")
    try:
        lines = network.check(f"{network.prefix}2", ok=False)
    finally:
        network.inside(1, "ip", "route", "del", "blackhole", f"{NET}.2")
    ((status, text),) = [(status, text) for status, _, name, text in lines if name == "route"]
    assert status == "BAD" and text.startswith(f"none to {NET}.2")
    lines = network.check(f"{network.prefix}2", ok=False, if_include="eth7")
    bad = [name for status, _, name, _ in lines if status == "BAD"]
    assert len([name for name in bad if name in ("ib_info", "device")]) == 2
    lines = network.check(f"{network.prefix}2", ok=False, if_include="lo")
    bad = [text for status, _, name, text in lines if status == "BAD" and name == "device"]
    assert len(bad) == 2 and all("reaches this host only" in text for text in bad)


def test_doctor_json(network):
    """The same lines for programs."""
    output = network.run.output(
        "ip", "netns", "exec", f"{network.prefix}1", DOCTOR, "--json", env=network.environment,
        ok=None,
    )  # fmt: skip
    lines = json.loads(output)
    assert all(set(line) == {"status", "where", "check", "text", "fix"} for line in lines)
    assert {"device", "locked memory", "component"} <= {line["check"] for line in lines}


def test_doctor_silent_hosts(run, component, tmp_path):
    """A host that does not answer, an agent that hangs, ends or is not there: a line, and soon."""
    agents = {
        "sleep 300": "no answer within 2 s",
        "false": "it ended without a word",
        str(tmp_path / "none"): "No such file or directory",
    }
    asks = tmp_path / "asks"
    asks.write_text("#!/bin/sh\necho 'Permission denied (publickey).' >&2\nread answer </dev/tty\n")
    asks.chmod(0o755)
    agents[str(asks)] = "/dev/tty"
    for agent, text in agents.items():
        shell = tmp_path / "agent"
        shell.write_text(f"#!/bin/sh\nexec {agent}\n")
        shell.chmod(0o755)
        command = agent if "none" in agent else shell
        said = run.output(DOCTOR, "--agent", command, "--timeout", 2, "n7", ok=False)
        (bad,) = [line for line in said.splitlines() if re.match(r"BAD +n7 ", line)]
        assert text in bad and 'fix: does "' in bad
    # Open MPI's parameter names the agent, too.
    agent = {"OMPI_MCA_plm_rsh_agent": "false"}
    said = run.output(DOCTOR, "--timeout", 2, "n7", ok=False, env=agent)
    assert re.search('BAD +n7  host: it ended without a word; fix: does "false n7', said)


@pytest.mark.called("doctor/unseen")
def test_unseen(run, tmp_path):
    """What a network namespace hides is no limit: nothing that asks for it is told so, and mended where it can be."""
    said = []
    loaded = runpy.run_path(str(DOCTOR), run_name="loaded")
    facts = {"nodes": {}, "rdma": [], "memlock": 0, "rmem_max": None, "wmem_max": 1 << 30, "busy_read": None,
             "info": {"devices": [{"used": "yes", "transport": "udp"}]}}  # fmt: skip
    for asked in ("0", "50"):
        loaded["check_limits"](lambda *line: said.append(line), "n1", {**facts, "parameters": {"udp_busy_poll": asked}})
    idle, busy = (line for line in said if line[2] == "busy polling")
    assert idle[0] == "OK" and "asks for nothing" in idle[3] and not any(idle[4:])
    assert busy[0] == "WARN" and "not visible in this network namespace" in busy[3] and "outside of the container" in busy[4]
    assert [line[0] for line in said if "rmem_max" in line[3]] == ["WARN"] * 2


@pytest.mark.called("doctor/versions")
def test_doctor_versions():
    """Hosts with unlike releases: WARN if jobs may mix them, BAD if not; each release with its hosts."""
    check_versions = runpy.run_path(str(DOCTOR))["check_versions"]

    def told(*changes):
        info = {"version": "0.4.0", "wire versions": "2 to 3", "modex versions": "5 to 6",
                "openmpi running": "4.1.4", "library libfabric": "1.17.0"}  # fmt: skip
        lines = []
        check_versions(lambda *line: lines.append(line),
                       {f"n{i}": {"info": {**info, **change}} for i, change in enumerate(changes)})  # fmt: skip
        return {text.split()[0]: (status, text) for status, _, _, text, *_ in lines}

    assert {status for status, _ in told({}, {}).values()} == {"OK"}
    newer = {"version": "0.5.0", "wire versions": "3 to 4", "modex versions": "6 to 7"}
    assert told({}, newer, {})["ib"] == ("WARN", "ib differs: 0.4.0 on n0 n2, 0.5.0 on n1")
    assert told({}, {**newer, "wire versions": "4 to 5"})["ib"][0] == "BAD"
    assert told({}, {**newer, "modex versions": "7 to 8"})["ib"][0] == "BAD"
    assert told({"openmpi running": "4.1.5"}, {})["Open"][0] == "WARN"
    assert told({"openmpi running": "4.0.5"}, {})["Open"][0] == "BAD"
    assert told({"library libfabric": "2.1.0"}, {})["libfabric"][0] == "WARN"


@pytest.mark.called("doctor/version")
def test_version(run, component):
    """All programs for users tell one version, that of the component."""
    told = {run.output(BUILD / name, "--version").replace(name, "") for name in PROGRAMS}
    assert len(told) == 1 and re.fullmatch(r" \d+\.\d+\.\d+\S*\n", told.pop())


@pytest.mark.parametrize("name", [pytest.param(name, id=f"doctor/pages/{name}") for name in PROGRAMS])
def test_pages(run, component, name):
    """The page of each program has what its --help has, where readers of pages look for it, and formats."""
    text = run.output(BUILD / name, "--help")
    page = run.output("man", "-l", "--warnings=w", BUILD / f"{name}.1", env={"MANWIDTH": "200"})
    assert "warning" not in page
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
        assert f"\n{heading}\n" in page, heading
    assert set(re.findall(r"^  --(\w+)", text, re.M)) == set(re.findall(r"^ +--(\w+)", page, re.M))
    others = re.findall(r"(\w+)\([17]\)", page.partition("\nSEE ALSO\n")[2].rpartition("\n\n")[0])
    assert set(others) == {*PROGRAMS, "btl_ib", "ompi_info", "mpirun"} - {name}


@pytest.mark.called("doctor/handed-on")
def test_handed_on(run, mpi, tmp_path):
    """Other hosts know where Open MPI is, and what rules its libraries, though their shells do not say so."""
    (tmp_path / "python3").symlink_to(sys.executable)
    agent = tmp_path / "agent"
    agent.write_text(f'#!/bin/sh\nshift\nexec env -i PATH={tmp_path} /bin/sh -c "$*"\n')
    agent.chmod(0o755)
    settings = {**mpi.environment, "OMPI_MCA_btl_ib_transport": "ofi", "FI_PROVIDER": "^udp,sockets"}
    said = run.output(DOCTOR, "--agent", agent, "n7", ok=False, env=settings)
    assert re.search("^OK +n7  component: Open MPI there loads ib", said, re.M)
    assert re.search("^BAD +n7  device: ib would use none", said, re.M)


def test_doctor_arguments(run, component):
    assert "usage" in run.output(DOCTOR, "--tmeout", 3, ok=False)
    assert "1 to 3600 were right" in run.output(DOCTOR, "--timeout", 0, ok=False)
    assert "--check is to be the first word" in run.output(INFO, "--parsable", "--check", ok=False)
    assert "ib_info --check [HOST...]" in run.output(INFO, "--check", "--help")
    assert "--check [HOST]..." in run.output(INFO, "--help")
