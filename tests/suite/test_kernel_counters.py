# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Counters beside those of the kernel: what ib says that it sent, received and repeated over udp, and
what the hosts' sockets and the switch between them counted."""

import json
import re
import sys

import pytest

from runner.jobs import with_kernel
from runner.places import BUILD, NET, ROOT

pytestmark = pytest.mark.mpi

UNREAD = 8  # of the last datagrams to a process, which ends without looking for them


class HostCounters:
    """A host: its port of the switch, and its kernel."""

    def __init__(self, run, hosts, number):
        self.run, self.table = run, f"bad_p{number}"
        self.switch, self.host = (("ip", "netns", "exec", hosts + end) for end in ("br", str(number)))
        # While the kernel asks for the other's address one packet more leaves than was sent.
        other = f"{NET}.{3 - number}"
        self.run.output(*self.host, "bash", "-c", f": < /dev/tcp/{other}/9", ok=None)
        self.before = self.delivered()

    def packets(self):
        """UDP packets that came from this host, and those of them that tools/nsbad lost."""
        rules = self.run.output(*self.switch, "nft", "list", "table", "netdev", self.table)
        seen, lost = re.findall(r"counter packets (\d+) bytes \d+( drop)?", rules)
        assert not seen[1] and lost[1]
        return int(seen[0]), int(lost[0])

    def delivered(self):
        """Datagrams that sockets of this host were read for, in all."""
        snmp = self.run.output(*self.host, "cat", "/proc/net/snmp")
        names, values = (line.split() for line in re.findall(r"^Udp:.*", snmp, re.M))
        return int(values[names.index("InDatagrams")])


def said(output, rank):
    """What the rank says of itself."""
    (line,) = re.findall(rf"btl_ib: rank {rank} host .*", output)
    return {
        name: int(re.search(pattern, line).group(1))
        for name, pattern in (
            ("sent", r"datagrams sent (\d+)"),
            ("received", r"datagrams sent \d+ received (\d+)"),
            ("repeated", r"retransmitted (\d+)"),
            ("spurious", r"retransmitted \d+ \((\d+) spurious"),
        )
    }


def lossy(run, hosts, *program):
    """What two ranks said, of which one packet in a hundred was lost; and the counters of their hosts."""
    of_hosts = [HostCounters(run, hosts, number) for number in (1, 2)]
    output = run.output(
        ROOT / "tests/mpi/run",
        *("--build", BUILD, "--np", 2, "--hosts", 2, "--fault", "loss1"),
        *program,
        env={"NSPFX": hosts},
    )
    return output, of_hosts


@pytest.mark.limit(60)
@pytest.mark.called("kernel_counters/pvars")
def test_variables(run, mpi, hosts):
    """A tool that asks by MPI_T sees retransmissions grow while the job runs, and at its end what
    the line of btl_ib_stats says: between the two only MPI_Finalize sends something. Neither says
    more than left the host."""
    output, of_hosts = lossy(run, hosts, "pvars", "seconds=3")
    for rank, of_host in enumerate(of_hosts):
        grown = re.findall(rf"rank {rank} after .*: btl_ib_retransmits = (\d+)$", output, re.M)
        assert len(set(grown)) >= 3
        assert grown == sorted(grown, key=int)
        variables = {
            name: int(value)
            for name, value in re.findall(rf"rank {rank}: btl_ib_(\w+) = (\d+)$", output, re.M)
        }
        assert len(variables) > 90
        line = said(output, rank)
        for name, variable, between in (
            ("sent", "sent_datagrams", 20),
            ("received", "received_datagrams", 20),
            ("repeated", "retransmits", 5),
            ("spurious", "retransmits_spurious", 5),
        ):
            assert 0 <= line[name] - variables[variable] <= between
        assert 0 <= of_host.packets()[0] - variables["sent_datagrams"] <= 20


@pytest.mark.limit(120)
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(("randsize", "seed=3"), id="kernel_counters/randsize"),
        pytest.param(("stream", "seconds=2"), id="kernel_counters/stream"),
    ],
)
def test_counters(run, mpi, hosts, program):
    """Each datagram is a packet, as nothing joins them: as many leave as ib says that it sent, what
    is not lost arrives, and ib received what the sockets were read for. Of what was lost, each
    segment was repeated once: acknowledgements are not."""
    output, of_hosts = lossy(run, hosts, *program)
    ranks = [said(output, rank) for rank in (0, 1)]
    sent, lost = zip(*(of_host.packets() for of_host in of_hosts))
    assert tuple(rank["sent"] for rank in ranks) == sent
    assert lost[0] > 0
    for rank, of_host, arrived in zip(ranks, of_hosts, (sent[1] - lost[1], sent[0] - lost[0])):
        assert rank["received"] == of_host.delivered() - of_host.before
        assert arrived - UNREAD <= rank["received"] <= arrived
    needed = sum(rank["repeated"] - rank["spurious"] for rank in ranks)
    assert 0.8 * sum(lost) - 5 <= needed <= 1.1 * sum(lost) + 5


# Kinds of events, with their causes, and the counters that count the same.
TRACED = {
    "sent_datagrams": ("sent",),
    "received_datagrams": ("received",),
    "retransmits": ("retransmitted",),
    "retransmits_spurious": ("spurious",),
    "losses": ("lost",),
    "sent_probes": ("probe",),
    "timeouts": ("timeout",),
    "deferred": ("deferred",),
    "blocked_credit": ("blocked credit",),
    "blocked_window": ("blocked window", "blocked depth"),
    "blocked_share": ("blocked share",),
    "blocked_pace": ("blocked pace",),
    "connections": ("made",),
}


@pytest.mark.limit(60)
@pytest.mark.called("kernel_counters/trace")
def test_trace(run, mpi, hosts, tmp_path):
    """A trace has as many events as counters count, by cause; as many datagrams were sent as the
    switch saw; and of those that the switch lost the receiver's trace has none."""
    options = ("--mca", "btl_ib_trace", f"{tmp_path}/", "--mca", "btl_ib_stats_file", f"{tmp_path}/")
    _, of_hosts = lossy(run, hosts, "stream", "seconds=1", "--", *options)
    traces = json.loads(run.output(sys.executable, ROOT / "info/ib_trace", "--json", tmp_path))
    assert [trace["missing"] for trace in traces] == [0, 0]
    packets = [of_host.packets() for of_host in of_hosts]
    for trace, path, of_host, (sent, _) in zip(
        traces, sorted(tmp_path.glob("*.json")), of_hosts, packets
    ):
        events = trace["events"]
        counters = json.loads(path.read_text())["counters"]
        drops = {name: (f"dropped {name}",) for name in counters if name.startswith("dropped_")}
        for counter, kinds in {**TRACED, **drops}.items():
            assert sum(events.get(kind, 0) for kind in kinds) == counters[counter], counter
        assert events["sent"] == sent
        assert events["received"] == of_host.delivered() - of_host.before
    for trace, (sent, lost) in zip(traces[::-1], packets):
        assert sent - lost - UNREAD <= trace["events"]["received"] <= sent - lost
    assert sum(trace["events"]["retransmitted loss"] for trace in traces if trace["rank"] == 0) > 0


class LargePackets:
    """UDP packets that leave a host larger than its MTU of 1500: datagrams that the kernel has yet to segment."""

    def __init__(self, run, host):
        self.run, self.nft = run, ("ip", "netns", "exec", host, "nft")
        self.run.output(*self.nft, "table netdev large { chain out { type filter hook egress device eth0 priority 0; "
                        "udp length > 1480 counter; }; }")  # fmt: skip

    def end(self):
        """How many there were."""
        rules = self.run.output(*self.nft, "list table netdev large")
        self.run.output(*self.nft, "delete table netdev large")
        return int(re.search(r"counter packets (\d+)", rules)[1])


BAD_KERNEL, GOOD_KERNEL = "7.0.2-6-pve", "7.1.5"


@pytest.mark.parametrize(("gso", "kernel", "joined"), [
    pytest.param("auto", None, True, id="kernel_counters/joined/auto"),
    pytest.param("0", None, False, id="kernel_counters/joined/0"),
    pytest.param("auto", BAD_KERNEL, False, id="kernel_counters/joined/bad_kernel"),
    pytest.param("1", BAD_KERNEL, True, id="kernel_counters/joined/forced"),
    pytest.param("auto", GOOD_KERNEL, True, id="kernel_counters/joined/good_kernel"),
])  # fmt: skip
def test_joined(run, mpi, hosts, tmp_path, gso, kernel, joined):
    """Datagrams leave both hosts joined (UDP_SEGMENT), and come joined (UDP_GRO), which their devices count; with
    btl_ib_udp_gso 0, or auto and a kernel that is known to mangle them, none leaves so, and all messages arrive as
    well."""
    options = ("--", "-x", f"LD_PRELOAD={with_kernel(run, kernel)['LD_PRELOAD']}") if kernel else ()
    large = [LargePackets(run, f"{hosts}{number}") for number in (1, 2)]
    try:
        output = run.output(
            ROOT / "tests/mpi/run", *("--build", BUILD, "--np", 2, "--hosts", 2, "--offloads", "on"), "randsize", "rounds=3",
            *options,
            env={"NSPFX": hosts, "OMPI_MCA_btl_ib_udp_gso": gso, "OMPI_MCA_btl_ib_stats_file": f"{tmp_path}/"},
        )  # fmt: skip
    finally:
        packets = [each.end() for each in large]
    assert "OK randsize" in output
    assert output.count("is known to be bad:") == (gso == "auto" and kernel == BAD_KERNEL)
    files = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    bursts = [sum(device["counters"]["received_bursts"] for device in file["devices"]) for file in files]
    assert len(bursts) == 2 and not any(file["counters"]["broken_bursts"] for file in files)
    if joined:
        assert all(packets) and all(bursts)
    else:
        assert packets == [0, 0]
