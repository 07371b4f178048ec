# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts that have one to four interfaces each, besides the one that mpirun uses: which of them
are joined, and what they carry, as the kernel counts it."""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from runner.jobs import preloaded
from runner.places import BUILD, ROOT

pytestmark = pytest.mark.mpi
INFO = BUILD / "ib_info"
V4, V6 = "10.91.{0}.{1}/24", "fd91:1{0}::{1}/64"
LOCAL4, LOCAL6 = "169.254.{0}.{1}/16", "fe80::{0}:{1}/64"


class Link:
    """From x<here> of the first host to x<there> of the second; `net` numbers its subnet. The MTU
    is that of both ends, or one for each. Without a `path` each end leads to nobody. A `bare` one
    has the link-local addresses that the kernel gives it, and is no veth for it: a macvlan on one."""

    def __init__(self, here, there=None, net=None, form=V4, mtu=1500, path=True, bare=False):
        self.names = f"x{here}", f"x{here if there is None else there}"
        self.mtus = mtu if isinstance(mtu, tuple) else (mtu, mtu)
        net = here if net is None else net
        nets = net if isinstance(net, tuple) else (net, net)
        self.addresses = [form.format(nets[end], 2 * here + end + 1) for end in (0, 1)]
        self.path, self.bare = path, bare

    def bare_commands(self, hosts):
        lower = [f"y{name}" for name in self.names]
        yield f"-n {hosts[0]} link add {lower[0]} type veth peer name {lower[1]} netns {hosts[1]}"
        for host, name, under, address in zip(hosts, self.names, lower, self.addresses):
            yield f"-n {host} link set {under} addrgenmode none up"
            yield f"-n {host} link add {name} link {under} type macvlan mode bridge"
            yield f"-n {host} link set {name} addrgenmode none up"
            yield f"-n {host} address add {address} dev {name} nodad"

    def commands(self, hosts):
        if self.bare:
            yield from self.bare_commands(hosts)
            return
        ends = [f"-n {host} link add {name} mtu {mtu} type veth peer name" for host, name, mtu in
                zip(hosts, self.names, self.mtus)]
        if self.path:
            yield f"{ends[0]} {self.names[1]} mtu {self.mtus[1]} netns {hosts[1]}"
        else:
            # In the namespace of the bridge: what leads to the host's own is not used at all.
            for end, host, name in zip(ends, hosts, self.names):
                yield f"{end} {host[-1]}{name} netns {hosts[0][:-1]}br"
                yield f"-n {hosts[0][:-1]}br link set {host[-1]}{name} up"
        for host, name, address in zip(hosts, self.names, self.addresses):
            yield f"-n {host} address add {address} dev {name}" + " nodad" * (":" in address)
            yield f"-n {host} link set {name} up"


# The links, and the pairs of them that are to be joined: all, if it does not say.
SCENES = {
    "one": ([Link(0)], None),
    "one-ipv6": ([Link(0, form=V6)], None),
    "two": ([Link(0), Link(1)], None),
    "same-subnet": ([Link(0, net=5), Link(1, net=5)], None),
    "three-mtus": ([Link(0, mtu=9000), Link(1), Link(2, form=V6, mtu=1280)], None),
    "unequal-mtu": ([Link(0, mtu=(9000, 1500)), Link(1, mtu=(1500, 9000))], None),
    "four": ([Link(0), Link(1, form=V6), Link(2), Link(3, form=V6, mtu=9000)], None),
    "crossed": ([Link(0, 2), Link(1, 0), Link(2, 1)], None),
    "no-path": ([Link(0, path=False), Link(1)], None),
    "no-partner": ([Link(0, net=(7, 8), path=False), Link(1), Link(2, net=(6, 9), path=False)], (1,)),
    "routed": ([Link(0, net=(3, 4))], None),
    "link-local": ([Link(0), Link(1, form=LOCAL4)], None),
    "link-local-ipv6": ([Link(0), Link(1, form=LOCAL6, bare=True)], None),
    "link-local-alone": ([Link(1, form=LOCAL6, bare=True)], None),
}


@pytest.fixture
def two_hosts(run, mpi, hosts):
    """Joins two hosts by links, and runs a job over these; returns what it says."""
    names = f"{hosts}1", f"{hosts}2"
    made = []

    def job(links, *words, env=None, ranks=2, ok=True, before=None, verbose=1, **settings):
        for link in links:
            made.extend(zip(names, link.names))
            for command in link.commands(names):
                run("ip", *command.split())
        for end, other in ((0, 1), (1, 0)):
            for link in links:
                run("ip", "-n", names[end], "route", "replace",
                    link.addresses[other].rsplit("/", 1)[0], "dev", link.names[end])
        if before:
            before()
        # What is broken is to be told of, not to be waited for.
        options = {"if_exclude": "eth0,lo", "transport": "udp", "silence_limit": 20, **settings}
        output = run.output(
            ROOT / "tools/nshosts", "run", "--map-by", "node", "-H", ",".join(names), "-np", ranks,
            *f"--mca pml ob1 --mca btl ib,self --mca btl_base_verbose {verbose}".split(),
            *(word for name, value in options.items()
              for word in ("--mca", f"btl_ib_{name}", str(value))),
            *words, env={**mpi.environment, "NSPFX": hosts, **(env or {})}, ok=ok,
        )
        return output

    yield job
    for host, name in made:
        run.output("ip", "-n", host, "link", "delete", name, ok=None)
        run.output("ip", "-n", host, "link", "delete", f"y{name}", ok=None)


def joined(output):
    """{(interface, address of the peer)}, of both processes."""
    return set(re.findall(r"rail \d+ \(udp/(\w+)\) talks to its rail \d+ \(\[?([\da-f.:]+?)\]?:\d+\)",
                          output))


@pytest.mark.parametrize("scene", [pytest.param(scene, id=f"interfaces/{scene}") for scene in SCENES])
def test_interfaces(mpi, two_hosts, scene):
    """Each interface is joined with one of the peer's at most, by their subnets; those of different
    subnets only where there is no other pair. Messages of all sizes arrive."""
    links, used = SCENES[scene]
    output = two_hosts(links, mpi.program("randsize"), "rounds=1")
    assert "OK randsize" in output
    expected = set()
    for i in used or range(len(links)):
        addresses = [address.rsplit("/", 1)[0] for address in links[i].addresses]
        expected |= {(links[i].names[0], addresses[1]), (links[i].names[1], addresses[0])}
    assert joined(output) == expected


def in_use(output):
    """What each connection of udp that ended had in use: [(latency lane, connected, sends, copied)]."""
    return re.findall(r"went by udp/\w+: latency lane (\S+), (\w+ ?\w*), (\w+) sends, long messages (.*)",
                      output)


@pytest.mark.parametrize("words", [
    pytest.param("bytes=8 pause=0", id="interfaces/in-use/short"),
    pytest.param("bytes=60000 pause=50", id="interfaces/in-use/kept"),
    pytest.param("bytes=300000 pause=0", id="interfaces/in-use/rendezvous")])
def test_in_use(mpi, two_hosts, words):
    """However two processes meet, both use the peer's latency lane by a connected socket, joined sends
    and no copy of what is long."""
    output = two_hosts([Link(1)], mpi.program("first_long"), *words.split(), verbose=100)
    assert "OK first_long" in output
    lanes = in_use(output)
    assert len(lanes) == 2, output
    for lane, connected, sends, copied in lanes:
        assert lane != "none" and (connected, sends, copied) == ("connected", "joined", "in place"), lanes


def all_in_use(output, least):
    """Demands that of each of at least so many connections."""
    lanes = in_use(output)
    assert len(lanes) >= least, output
    for lane, connected, sends, copied in lanes:
        assert lane != "none" and (connected, sends, copied) == ("connected", "joined", "in place"), lanes


@pytest.mark.full
@pytest.mark.called("interfaces/in-use/spawned")
def test_in_use_spawned(run, mpi, hosts):
    """Processes that take the places of others, spawned or by a port, have lane, joined sends and no
    copy as well; connected are those that exchange enough."""
    lanes = in_use(run.output(ROOT / "tests/mpi/run", "--np", 2, "--hosts", 2, "dynamic", "times=4", env={
        **mpi.environment, "NSPFX": hosts, "OMPI_MCA_btl_base_verbose": "100"}))
    assert len(lanes) >= 8 and "connected" in [connected for _, connected, *_ in lanes]
    assert not [each for each in lanes if each[0] == "none" or each[2:] != ("joined", "in place")], lanes


def down_and_up(run, host, link, pause):
    """A thread that takes a link of a host down after so many seconds, and up after as many more."""

    def change():
        for state in "down", "up":
            time.sleep(pause)
            run.output("ip", "-n", host, "link", "set", link, state)

    return threading.Thread(target=change)


@pytest.mark.full
@pytest.mark.called("interfaces/in-use/failed-over")
def test_in_use_failed_over(run, mpi, hosts, two_hosts):
    """The same of two rails, of which one was down for a while."""

    thread = down_and_up(run, f"{hosts}1", "x1", 3)
    thread.start()
    output = two_hosts([Link(1), Link(2)], mpi.program("stream"), "bytes=8,300000", "seconds=5",
                       verbose=100)
    thread.join()
    assert "OK stream" in output and "what went by udp/x1" in output
    # Those of the interfaces that no cable joins are not used.
    all_in_use("\n".join(re.findall(r"went by udp/x(?:1: latency lane 10\.91\.1|2: latency lane 10\.91\.2)"
                                    r"\..*", output)), 4)


OSC = ("--mca", "osc", "rdma")


def bytes_sent(run, host, links):
    """By each link of a host: [bytes]."""
    end = int(host[-1]) - 1
    return [int(run.output("ip", "netns", "exec", host, "cat",
                           f"/sys/class/net/{link.names[end]}/statistics/tx_bytes"))
            for link in links]


@pytest.mark.parametrize(("what", "end"), [
    pytest.param("put", 0, id="interfaces/divided/put"),
    pytest.param("get", 1, id="interfaces/divided/get"),
    pytest.param("message", 1, id="interfaces/divided/message")])
def test_divided(run, mpi, hosts, two_hosts, what, end):
    """osc/rdma uses one module for all of a window: long puts and gets go by both rails all the same,
    as long messages do, each by a third of the bytes at least."""
    links = [Link(1), Link(2)]
    output = two_hosts(links, *OSC, mpi.program("divided"), f"what={what}")
    assert "OK divided" in output
    by_link = bytes_sent(run, f"{hosts}{end + 1}", links)
    assert min(by_link) > sum(by_link) / 3 and sum(by_link) > 40_000_000, by_link


@pytest.mark.called("interfaces/divided/sender-away")
def test_divided_sender_away(mpi, two_hosts):
    """A message is fetched by both rails from a sender that computes."""
    output = two_hosts([Link(1), Link(2)], "--mca", "btl_ib_stats", "1", mpi.program("divided"),
                       "what=message", "away=1", "rounds=2", progress="serve")
    assert "OK divided" in output
    rails = re.findall(r"rank 1 .* carried by udp/x1 (\d+) %, udp/x2 (\d+) %", output)
    assert rails and min(int(rail) for rail in rails[0]) >= 33, output


@pytest.mark.called("interfaces/divided/dead-link")
def test_divided_dead_link(run, mpi, hosts, two_hosts):
    """The same while a link goes down, and comes back: no byte is lost, nothing is told of an error."""

    thread = down_and_up(run, f"{hosts}2", "x2", 2)
    links = [Link(1), Link(2)]
    output = two_hosts(links, *OSC, "--mca", "btl_ib_stats", "1", mpi.program("divided"), "seconds=7",
                       before=thread.start)
    thread.join()
    assert "OK divided" in output and re.search("failovers [1-9]", output), output
    assert min(bytes_sent(run, f"{hosts}1", links)) > 2_000_000


@pytest.mark.called("interfaces/many")
def test_many(mpi, two_hosts):
    """Of 24 networks that both hosts have one leads to the other host, neither of the first sixteen
    nor in the same place on both. The others stand by, and that one is found."""
    links = [Link(k, path=k == 20) for k in range(24)]
    output = two_hosts(links, mpi.program("ring"), "laps=1", connect_timeout=10)
    assert "OK ring" in output
    standing_by = re.findall(r"locality: udp/(x\d+): stands by, .*there are 16 that are", output)
    assert standing_by.count("x20") == 2 and len(standing_by) == 16


def replace_addresses(run, hosts, directory, links, own):
    """Each end of the first link has the addresses own(end) instead of its own."""
    for end, link_address in zip((1, 2), links[0].addresses):
        batch = directory / f"addresses{end}"
        batch.write_text("".join(f"address {verb} {address} dev x0\n" for verb, address in (
            ("delete", link_address), *(("add", address) for address in own(end)))))
        run.output("ip", "-n", f"{hosts}{end}", "-batch", batch)


@pytest.mark.full
@pytest.mark.called("interfaces/many-addresses")
def test_many_addresses(run, mpi, hosts, two_hosts, tmp_path):
    """An interface has 40 addresses at each end, of which only the last is of a network that both
    hosts are in: a peer is not found until that network is named, as the box says."""

    def own(end):
        return [f"10.{100 + end}.{n}.1/24" for n in range(39)] + [f"10.191.0.{end}/24"]

    links = [Link(0)]
    output = two_hosts(links, mpi.program("ring"), "laps=1", ok=False, connect_timeout=6,
                       before=lambda: replace_addresses(run, hosts, tmp_path, links, own))
    assert "OK ring" not in output and "device x0 turned down: there are 32 rails already" in output
    assert "Do: name a network of both hosts in btl_ib_if_include: of this host 8 addresses\n" in output
    output = two_hosts([], mpi.program("ring"), "laps=1", if_exclude="", if_include="10.191.0.0/24")
    assert "OK ring" in output and joined(output) == {("x0", "10.191.0.1"), ("x0", "10.191.0.2")}


@pytest.mark.full
@pytest.mark.called("interfaces/many-networks")
def test_many_networks(run, mpi, hosts, two_hosts, tmp_path):
    """Both ends of an interface have an address in each of 70 networks, in opposite order. So each
    host uses 32 of these, and both join addresses of one network."""

    def own(end):
        return [f"10.100.{n}.{end}/24" for n in range(70)[:: 3 - 2 * end]]

    links = [Link(0)]
    # Each process writes to files of its own, as mpirun may join two processes' lines.
    said = tmp_path / "said"
    output = two_hosts(links, "--output-filename", said, mpi.program("ring"), "laps=1",
                       before=lambda: replace_addresses(run, hosts, tmp_path, links, own))
    lines = [file.read_text().count("device x0 turned down: there are 32 rails") for file in said.rglob("stderr")]
    assert "OK ring" in output and lines == [38, 38]
    pairs = joined(output)
    assert len(pairs) == 2 and len({address.rsplit(".", 1)[0] for _, address in pairs}) == 1, pairs


@pytest.mark.called("interfaces/label")
def test_label(run, mpi, hosts, two_hosts):
    """An address whose label is more than its interface's name, without a colon, is one of that
    interface, which can be named, too."""

    def add_label():
        for end in 1, 2:
            for verb, label in ("delete", ""), ("add", "label x0vip"):
                run.output("ip", "-n", f"{hosts}{end}", "address", verb, f"10.91.0.{end}/24", "dev",
                           "x0", *label.split())

    output = two_hosts([Link(0)], mpi.program("ring"), "laps=1", before=add_label, if_exclude="",
                       if_include="x0")
    assert "OK ring" in output
    assert joined(output) == {("x0vip", "10.91.0.1"), ("x0vip", "10.91.0.2")}


@pytest.mark.called("interfaces/no-netlink")
def test_no_netlink(run, mpi, two_hosts):
    """A host that may not ask netlink lists its interfaces all the same, those with IPv6 and with
    several addresses too, takes lo for what it is, and is joined with one that may."""
    links = [Link(0), Link(1, form=V6)]
    denied = mpi.program("no_netlink"), mpi.program("ring"), "laps=1"
    output = two_hosts(links, *denied, ":", "-np", 1, mpi.program("ring"), "laps=1", ranks=1,
                       transport="auto", if_exclude="eth0")
    assert "OK ring" in output
    assert joined(output) == {("x0", "10.91.0.1"), ("x0", "10.91.0.2"),
                              ("x1", "fd91:11::3"), ("x1", "fd91:11::4")}
    facts = [re.findall(r"device udp (\w+) (address|used|reason): (.*)$", run.output(*before, INFO, "--parsable"), re.M)
             for before in ((), denied[:1])]
    known = [{fact for fact in each if (fact[0], "address") in [other[:2] for other in each]}
             for each in facts]
    assert known[0] == known[1] and ("lo", "address", "127.0.0.1/8") in known[0]


def filtered(run, host, hook, rule):
    """A firewall on that host's x0; returns what takes it away."""
    udp = "udp dport 1024-65535"
    run.output("ip", "netns", "exec", host, "nft", "add table ip said; add chain ip said c { type "
               f"filter hook {hook} priority 0; }}; add rule ip said c {hook[0]}ifname x0 {udp} {rule}")
    return lambda: run.output("ip", "netns", "exec", host, "nft", "delete", "table", "ip", "said")


def with_dead_pairs(run, hosts, job, times):
    """Does a job while pairs of ports lead nowhere any more, each from a time on (s). Returns what it
    said, and which pairs lost something."""
    chain = "add table ip dead; add chain ip dead c { type filter hook input priority 0; }; "
    rule = "add rule ip dead c iifname x0 udp sport {0} udp dport {0} counter drop"
    for end in 1, 2:
        run.output("ip", "netns", "exec", f"{hosts}{end}", "nft", chain)
    begin = [threading.Timer(after, run.output, ("ip", "netns", "exec", f"{hosts}{end}", "nft",
                                                 rule.format(port)))
             for port, after in times.items() for end in (1, 2)]
    for timer in begin:
        timer.start()
    output = job()
    for timer in begin:
        timer.join()
    dropped = [run.output("ip", "netns", "exec", f"{hosts}{end}", "nft", "list", "table", "ip", "dead")
               for end in (1, 2)]
    for end in 1, 2:
        run("ip", "netns", "exec", f"{hosts}{end}", "nft", "delete table ip dead")
    return output, {int(port) for each in dropped
                    for port in re.findall(r"dport (\d+) counter packets [1-9]", each)}


def left_for(output, usual, other, to=None):
    """Did it say that what goes from one port is not answered, and what goes from another one is?"""
    there = r"10\.91\.0\.\d:"
    return re.search(rf"nothing is answered that goes from {there}{usual} to {there}{usual}; "
                     rf"what goes from {there}{other} to {there}{to or other} is", output)


@pytest.mark.parametrize("port, program", [
    pytest.param(30001, "stream bytes=1000 seconds=8", id="interfaces/dead-flow"),
    pytest.param(30001, "mixed bulk=65536 depth=1 seconds=5", id="interfaces/dead-latency-lane",
                 marks=pytest.mark.full),
    pytest.param(30000, "mixed bulk=65536 depth=1 seconds=5", id="interfaces/dead-bulk-lane")])
def test_dead_flow(run, mpi, hosts, two_hosts, port, program):
    """One pair of ports leads nowhere from the middle of a job on, as by a stale entry of a
    connection tracker: the job goes on by others within a second, and says so. On a busy machine
    bulk may not have had its own lane in time: then the job is done again, as only that line proves
    that bulk was missed, and not that all flows were tried because answers were late."""
    name, *words = program.split()
    links = [Link(0)]

    def job():
        return two_hosts(links, mpi.program(name), *words, port_min=30000, port_range=16)

    for _ in range(3):
        output, dropped = with_dead_pairs(run, hosts, job, {port: 2 if name == "stream" else 7})
        assert dropped == {port}
        assert f"OK {name}" in output and "has not answered" not in output
        links = []
        if left_for(output, port, 30000 + 30001 - port):
            break
    assert left_for(output, port, 30000 + 30001 - port), output
    if name == "mixed":
        figures = re.search(r"idle_p99=([\d.]+) .* max=([\d.]+) us.* gap=([\d.]+) ms", output)
        late, short, long = (float(each) for each in figures.groups())
        most = 1e6 + 50 * late  # us; on a busy machine each answer is late
        assert 2 * short < most and 1e3 * long < most, output


@pytest.mark.parametrize("lane", [
    pytest.param(1, id="interfaces/dead-ports"),
    pytest.param(0, id="interfaces/dead-port", marks=pytest.mark.full)])
def test_dead_ports(run, mpi, hosts, two_hosts, lane):
    """The pairs of ports of both lanes, or the only one, lead nowhere from the middle of a job on, one
    after the other and for ever: what is sent leaves from a further port of the range, and the job
    ends. None takes that for a router that rewrites sources."""

    def job():
        return two_hosts([Link(0)], mpi.program("mixed"), "bulk=65536", "depth=1", "seconds=5",
                         port_min=30000, port_range=16, bulk_lane=lane)

    output, dropped = with_dead_pairs(run, hosts, job, {30001: 6.5, 30000: 8} if lane else {30000: 7})
    assert dropped == set(range(30000, 30001 + lane))
    assert "OK mixed" in output and "has not answered" not in output
    further = r"(300(?:0[2-9]|1[0-5]))"  # on a busy machine it is not the first one that was tried
    assert left_for(output, r"3000\d", further, 30000), output
    assert "a router rewrites them" not in output


@pytest.mark.called("interfaces/own-firewall")
def test_own_firewall(run, mpi, hosts, two_hosts):
    """What the own system refuses is told after 5 s of nothing else, with errno and meaning; when it
    refuses no more the job goes on."""
    ends = []
    begin = threading.Timer(1, lambda: ends.append(filtered(run, f"{hosts}1", "output", "drop")))
    end = threading.Timer(10, lambda: ends[0]())  # a job takes a while to begin
    begin.start()
    end.start()
    output = two_hosts([Link(0)], mpi.program("stream"), "bytes=1000", "seconds=8")
    end.join()
    assert "OK stream" in output and "lost the connection" not in output
    assert output.count("cannot send to another process") == 1
    assert re.search(r"Operation not permitted \(errno 1\);\ninterface x0 is up and has its address\.\n"
                     r" +From: .*\n +To: .*\n\nDo: allow it in the firewall of this host", output)


@pytest.mark.full
@pytest.mark.called("interfaces/firewall-begins")
def test_firewall_begins(run, mpi, hosts, two_hosts):
    """Firewalls that drop what comes from the middle of a job on: the text says no more than is known.
    That the peer answered once is no sign that its host can be reached now."""
    ends = []
    begin = threading.Timer(4, lambda: ends.extend(
        [filtered(run, f"{hosts}{host}", "input", "drop") for host in (1, 2)]))
    end = threading.Timer(16, lambda: [take_away() for take_away in ends])
    begin.start()
    end.start()
    output = two_hosts([Link(0)], mpi.program("stream"), "bytes=1000", "seconds=10")
    end.join()
    assert "OK stream" in output and "has not answered for 5" in output
    assert "Do: look whether its host is up and can be reached (ping)" in output
    assert "continue that process" not in output


@pytest.mark.called("interfaces/broadcast")
def test_broadcast(run, mpi, hosts, two_hosts):
    """An address of a network of 22 bits that ends with 255 is one of broadcasts for a host whose
    netmask has 24: its system says the same as of a firewall, which there is none of."""
    link = Link(0)
    link.addresses = ["10.91.76.1/24", "10.91.76.255/22"]
    output = two_hosts([link], mpi.program("ring"), ok=False, silence_limit=6)
    assert "Permission denied (errno 13)" in output
    for box in "cannot send to another process", "lost the connection with a process":
        said = output.partition(box)[2].partition("-----")[0]
        assert "\nDo: give both hosts the same netmask: for this host that address is one\n" in said
        assert "firewall" not in said


class Readdressed(threading.Thread):
    """One after the other: a second after a job uses the address `before` of a host's x0 that is
    taken away, and `after` takes its place (None: nothing is, or does)."""

    def __init__(self, run, *changes):
        super().__init__()
        self.run_, self.changes = run, changes
        self.start()

    def address(self, host, verb, address):
        bits = (V6 if ":" in address else V4).rpartition("/")[2]
        self.run_.output("ip", "-n", host, "address", verb, f"{address}/{bits}", "dev", "x0",
                         *["nodad"] * (":" in address and verb == "add"))

    def run(self):
        for host, before, after in self.changes:
            if before:
                self.wait_for(host, before)
                time.sleep(2)  # the other host is to know what was changed before
                self.address(host, "delete", before)
            if after:
                self.address(host, "add", after)
            if before and after:
                self.wait_for(host, after)

    def wait_for(self, host, address):
        for _ in range(50): # 5 s, and a bit
            time.sleep(0.1)
            if address in self.run_.output("ip", "netns", "exec", host, "ss", "-Haun", ok=None):
                break


@pytest.mark.called("interfaces/address-gone")
def test_address_gone(run, mpi, hosts, two_hosts):
    """The same of an address that is gone; its death names that, too, and both addresses of a peer
    whose address changed before."""
    Readdressed(run, (f"{hosts}2", "10.91.0.2", "10.91.0.72"), (f"{hosts}1", "10.91.0.1", None))
    output = two_hosts([Link(0)], mpi.program("stream"), "bytes=1000", "seconds=6", ok=False,
                       silence_limit=6)
    assert re.search(r"Network is unreachable \(errno 101\);\ninterface x0 has no longer the address "
                     r"10\.91\.0\.1, now: none\.\n", output)
    assert re.search(r"with a process: this host's own system refuses to send: Network is unreachable "
                     r"\(errno 101\)\.\n.*\n +To: .*, address 10\.91\.0\.72:\d+ \(before: 10\.91\.0\.2:\d+"
                     r"\)\n\nDo: give this host its route and address back", output)


@pytest.mark.parametrize("form, host, others", [
    pytest.param(V4, "10.91.0.{}", 0, id="interfaces/address-follows"),
    pytest.param(V6, "fd91:10::{}", 0, id="interfaces/address-follows-ipv6", marks=pytest.mark.full),
    pytest.param(V4, "10.91.0.{}", 2, id="interfaces/address-follows-three", marks=pytest.mark.full)])
def test_address_follows(run, mpi, hosts, two_hosts, form, host, others):
    """An address that another one takes the place of, at one end and then at the other; also beside
    other rails."""
    Readdressed(run, *((f"{hosts}{end}", host.format(end), host.format(end + 70)) for end in (1, 2)))
    output = two_hosts([Link(0, form=form), *map(Link, range(1, 1 + others))], mpi.program("stream"),
                       "bytes=1000", "seconds=8", silence_limit=5)
    for end in 1, 2:
        assert len(re.findall(r"udp/x0: its address is gone, it goes on at \[?"
                              + re.escape(host.format(end + 70)), output)) == 1
    assert "OK stream" in output and "lost the connection" not in output


@pytest.mark.full
@pytest.mark.called("interfaces/address-of-two-ranks")
def test_address_of_two_ranks(run, mpi, hosts, two_hosts):
    """Two ranks of each host over ib alone, and one host's address and MAC change in mid-job: both
    keep each other, as they expect each other at the new address, and the ranks of the other host."""
    host = f"{hosts}2"
    Readdressed(run, (host, "10.91.0.2", "10.91.0.72"))
    mac = threading.Timer(4, run.output, ("ip", "-n", host, "link", "set", "x0", "address",
                                          "02:00:00:00:00:72"))
    mac.start()
    output = two_hosts([Link(0)], "--oversubscribe", mpi.program("soak"), "seconds=12", "spawns=0",
                       ranks=4, silence_limit=8)
    mac.join()
    assert "OK soak" in output and "lost the connection" not in output
    assert len(re.findall(r"udp/x0: its address is gone, it goes on at 10\.91\.0\.72:", output)) == 2


@pytest.mark.full
@pytest.mark.called("interfaces/address-unknown")
def test_address_unknown(run, mpi, hosts, two_hosts):
    """An address that changed before the first message: nobody could tell the one that sends it. Its
    texts name what that process published, and ask for DHCP."""
    Readdressed(run, (f"{hosts}2", "10.91.0.2", "10.91.0.72"))
    output = two_hosts([Link(0)], mpi.program("ring"), "pause=4", "laps=1", ok=False,
                       connect_timeout=6)
    assert re.search(r"udp/x0: its address is gone, it goes on at 10\.91\.0\.72:", output)
    for head in "has sent to another process for 5 seconds", "lost the connection with a process":
        assert re.search(rf"{head}(?:.*\n)+? +To: .*, address 10\.91\.0\.2:\d+\n(?:.*\n)+?.*address "
                         r"may have changed since the job began\s+\(DHCP\)", output)


@pytest.mark.full
@pytest.mark.called("interfaces/nat")
def test_nat(run, mpi, hosts, two_hosts):
    """What a router gives another address, to which it leads nothing back, counts as lost: the texts
    ask for that, too."""
    host = f"{hosts}1"
    rules = ("add table ip nat; add chain ip nat c { type nat hook postrouting priority 100; }; "
             "add rule ip nat c oifname x0 meta l4proto udp snat to 10.91.0.9; add chain ip nat d { "
             "type filter hook prerouting priority -300; }; add rule ip nat d iifname x0 meta l4proto "
             "udp drop")
    output = two_hosts([Link(0)], mpi.program("ring"), "laps=1", ok=False, connect_timeout=6,
                       before=lambda: run("ip", "netns", "exec", host, "nft", rules))
    run("ip", "netns", "exec", host, "nft", "delete table ip nat")
    assert re.search(r"its datagrams come from 10\.91\.0\.9:\d+,\s+it published 10\.91\.0\.1:\d+", output)
    for head in "has sent to another process for 5 seconds", "lost the connection with a process":
        assert re.search(rf"{head}(?:.*\n)+? +To: .*, address 10\.91\.0\.\d:\d+\n(?:.*\n)+?.*\(NAT\)", output)


class Rewriting:
    """Hosts whose UDP a router rewrites: their datagrams leave from another address, at which they
    are reached, too."""

    def __init__(self, run, hosts, ends):
        self.run, self.prefix, self.ends = run, hosts, ends
        self.hosts = [f"{hosts}{end}" for end in ends]

    def begin(self):
        for end, host in zip(self.ends, self.hosts):
            self.run.output("ip", "-n", host, "address", "add", f"10.91.0.9{end}/32", "dev", "lo")
            # not by ARP, which hosts of several links answer only for the addresses of that link
            self.run.output("ip", "-n", f"{self.prefix}{3 - end}", "route", "replace",
                            f"10.91.0.9{end}", "via", f"10.91.0.{end}", "dev", "x0")
            self.run.output("ip", "netns", "exec", host, "nft", "add table ip nat; add chain ip nat c { "
                            "type nat hook postrouting priority 100; }; add rule ip nat c oifname x0 "
                            f"meta l4proto udp snat to 10.91.0.9{end}")

    def end(self):
        for end, host in zip(self.ends, self.hosts):
            self.run.output("ip", "netns", "exec", host, "nft", "delete table ip nat", ok=None)
            self.run.output("ip", "-n", host, "address", "del", f"10.91.0.9{end}/32", "dev", "lo",
                            ok=None)


@pytest.mark.parametrize("ends, settings", [
    pytest.param((1, 2), {}, id="interfaces/nat-both"),
    pytest.param((1,), {"progress": "deliver"}, id="interfaces/nat-one", marks=pytest.mark.full),
    pytest.param((1, 2), {"protection": "encrypt"}, id="interfaces/nat-encrypted",
                 marks=pytest.mark.full)])
def test_nat_answers(run, mpi, hosts, two_hosts, ends, settings):
    """A router rewrites sources, and leads what goes to the new ones back: both meet, and both
    addresses are told."""
    nat = Rewriting(run, hosts, ends)
    try:
        output = two_hosts([Link(0)], mpi.program("randsize"), "seed=3", before=nat.begin, **settings)
    finally:
        nat.end()
    assert "OK randsize" in output and "has sent to another process" not in output
    told = re.findall(r"its datagrams come from 10\.91\.0\.9(\d):\d+, it published 10\.91\.0\.(\d):\d+\. It "
                      r"has answered there", output)
    # Answers in a flow that the other end began are not rewritten.
    assert told or len(ends) == 1
    assert all(now == before and int(now) in ends for now, before in told)


@pytest.mark.full
@pytest.mark.called("interfaces/in-use/nat")
def test_in_use_nat(run, mpi, hosts, two_hosts):
    """At the address that a router has the lane and connected sockets are used as well."""
    nat = Rewriting(run, hosts, (1, 2))
    try:
        output = two_hosts([Link(0)], mpi.program("first_long"), "bytes=300000", "pause=0",
                           before=nat.begin, verbose=100)
    finally:
        nat.end()
    assert "OK first_long" in output and "a router rewrites them, or the address changed" in output
    all_in_use(output, 2)


@pytest.mark.full
@pytest.mark.called("interfaces/nat-begins")
def test_nat_begins(run, mpi, hosts, two_hosts):
    """The same from the middle of a job on: the routers forget the flows that there were."""
    nat = Rewriting(run, hosts, (1, 2))

    def begin():
        nat.begin()
        for host in nat.hosts:
            run.output("ip", "netns", "exec", host, "conntrack", "-F", ok=None)

    timer = threading.Timer(3, begin)
    timer.start()
    try:
        output = two_hosts([Link(0)], mpi.program("stream"), "bytes=1000", "seconds=8")
    finally:
        nat.end()
    assert "OK stream" in output


@pytest.mark.full
@pytest.mark.called("interfaces/addresses-change")
def test_addresses_change(run, mpi, hosts, two_hosts):
    """Both change at once: nobody can tell the other one, which is said after 5 s."""
    Readdressed(run, (f"{hosts}1", "10.91.0.1", None), (f"{hosts}2", "10.91.0.2", None),
                (f"{hosts}1", None, "10.91.0.71"), (f"{hosts}2", None, "10.91.0.72"))
    output = two_hosts([Link(0)], mpi.program("stream"), "bytes=1000", "seconds=4", ok=False,
                       silence_limit=9)
    assert re.search(r"From: .*, address 10\.91\.0\.71:\d+\n +To: .*, address 10\.91\.0\.2:", output)
    assert "Two processes whose addresses change at the same time" in output


@pytest.mark.parametrize("rule, said, advice", [
    pytest.param("icmp type admin-prohibited", "administratively prohibited, says 10.91.0.2: a "
                 "firewall of that host", "open the ports in that firewall", id="interfaces/prohibited"),
    pytest.param("icmp type port-unreachable", "port unreachable, says 10.91.0.2, that host itself",
                 "let the firewall of that host accept UDP", id="interfaces/rejected"),
])
def test_told_by_network(run, mpi, hosts, two_hosts, rule, said, advice):
    """What the network says, and who, is in the texts: whose firewall it is comes first."""
    two_hosts([Link(0)], "true")
    end = filtered(run, f"{hosts}2", "input", f"reject with {rule}")
    try:
        output = two_hosts([], mpi.program("ring"), "laps=1", ok=False, connect_timeout=6)
    finally:
        end()
    assert re.search(rf"with a process: .*;\n{said}\.\n.*\n.*\n\nDo: {advice}", output)
    if "prohibited" in rule:
        assert re.search(rf"Errors told by the network: +{said}\n", output)
    assert not re.search("with a process: .*nobody is there any more", output)


# What drivers of x0 and x1 say of their speed, instead of veth's 10000 Mbit/s.
SPEEDS = """
#define _GNU_SOURCE
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int ioctl(int fd, unsigned long question, ...)
{
    va_list list;
    void *argument;
    int result;

    va_start(list, question);
    argument = va_arg(list, void *);
    va_end(list);
    result = (int) syscall(SYS_ioctl, fd, question, argument);
    if (0 == result && SIOCETHTOOL == question) {
        struct ifreq *request = argument;
        struct ethtool_link_settings *link = (void *) request->ifr_data;

        if (ETHTOOL_GLINKSETTINGS == link->cmd && 'x' == request->ifr_name[0]) {
            link->speed = '0' == request->ifr_name[1] ? 10000 : 30000;
        }
    }
    return result;
}
"""


def sent(run, host, link):
    """Bytes, as the kernel counts them."""
    path = f"/sys/class/net/{link}/statistics/tx_bytes"
    return int(run.output("ip", "netns", "exec", host, "cat", path).split()[-1])


@pytest.mark.called("interfaces/speeds")
def test_speeds(run, mpi, hosts, two_hosts):
    """Long messages are divided by what the devices say of their bandwidth, 1 to 3."""
    library = preloaded(run, "speeds", SPEEDS)["LD_PRELOAD"]
    output = two_hosts([Link(0), Link(1)], "-x", f"LD_PRELOAD={library}", mpi.program("stream"),
                       "bytes=4194304", "seconds=1")
    assert "x0: " in output and "30000 Mbit/s" in output
    slow, fast = (sent(run, f"{hosts}1", f"x{i}") for i in (0, 1))
    assert slow + fast > 100 << 20
    assert 2.6 < fast / slow < 3.4, f"{fast} to {slow}"


@pytest.mark.parametrize("count", [
    pytest.param(2, id="interfaces/slow"),
    pytest.param(4, id="interfaces/slow-of-four", marks=pytest.mark.full)])
def test_slow(run, mpi, hosts, two_hosts, count):
    """A link that claims 10 Gbit/s and carries 20 Mbit/s is left, which is told with both devices:
    almost all goes by the others."""
    shaped = "tc qdisc add dev x1 root tbf rate 20mbit burst 65536 limit 131072".split()
    output = two_hosts([*map(Link, range(count))], mpi.program("stream"), "bytes=1000000", "window=2",
                       "seconds=4", before=lambda: [
                           run.output("ip", "netns", "exec", f"{hosts}{end}", *shaped) for end in (1, 2)])
    assert "OK stream" in output
    assert re.search(r"what went by udp/x1 \(10\.91\.1\.\d:\d+ to 10\.91\.1\.\d:\d+\) goes on by "
                     r"udp/x([02-9]) \(10\.91\.\1\.\d+:\d+ to 10\.91\.\1\.\d+:\d+\)", output)
    assert len(re.findall("job goes on:\n +From: .*, udp/x1, address 10.91.1.3", output)) == 1
    fast, slow, *more = (sent(run, f"{hosts}1", f"x{i}") for i in range(count))
    fast += sum(more)
    assert fast > 10 * slow, f"{fast} and {slow} bytes"


@pytest.mark.called("interfaces/dies")
def test_dies(run, mpi, hosts, two_hosts):
    """The link that carries three quarters of each long message goes down in the middle of some: all
    arrive intact by the other."""
    library = preloaded(run, "speeds", SPEEDS)["LD_PRELOAD"]
    ended = threading.Event()

    def cut():
        while sent(run, f"{hosts}1", "x1") < 1 << 20:
            if ended.wait(0.2):
                return
        run("ip", "-n", f"{hosts}1", "link", "set", "x1", "down")

    cutter = threading.Thread(target=cut)
    try:
        output = two_hosts([Link(0), Link(1)], "-x", f"LD_PRELOAD={library}", mpi.program("randsize"),
                           "seconds=4", before=cutter.start)
    finally:
        ended.set()
    cutter.join()
    assert "OK randsize" in output
    assert len(re.findall(r"what went by udp/x1 \(.*\) goes on by udp/x0 \(", output)) == 2


# Both ends of a VPN in user space: what the kernel sends by t0 goes to the other host in UDP.
VPN = """
import fcntl, os, select, socket, struct, sys
own, peer = sys.argv[1:]
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH", b"t0", 0x1001))  # TUNSETIFF, IFF_TUN | IFF_NO_PI
path = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
path.bind((own, 1194))
path.connect((peer, 1194))
print("ready", flush=True)
while True:
    for ready in select.select([tun, path], [], [])[0]:
        try:
            if ready is tun:
                path.send(os.read(tun, 65536))
            else:
                os.write(tun, path.recv(65536))
        except OSError:
            pass
"""
VXLAN = "link add {} type vxlan id 7 local {{own}} remote {{peer}} dstport 4789 dev x0"
TUNNELS = {
    "vxlan": [VXLAN.format("t0")],
    "macvlan": [VXLAN.format("v0"), "link set v0 up", "link add t0 link v0 type macvlan mode bridge"],
    "bridge": [VXLAN.format("v0"), "link set v0 up", "link add t0 type bridge", "link set v0 master t0"],
    "tun": [],
}


@pytest.fixture
def tunnel(run, hosts):
    """Makes t0 of two hosts over their x0; takes it away at the end."""
    names = f"{hosts}1", f"{hosts}2"
    daemons = []

    def make(kind):
        for end, host in enumerate(names, 1):
            own, peer = f"10.91.0.{end}", f"10.91.0.{3 - end}"
            for command in TUNNELS[kind]:
                run("ip", "-n", host, *command.format(own=own, peer=peer).split())
            if kind == "tun":
                daemons.append(subprocess.Popen(
                    ["ip", "netns", "exec", host, sys.executable, "-c", VPN, own, peer],
                    stdout=subprocess.PIPE))
                assert daemons[-1].stdout.readline() == b"ready\n"
            run("ip", "-n", host, "address", "add", f"10.94.0.{end}/24", "dev", "t0")
            run("ip", "-n", host, "link", "set", "t0", "mtu", "1420", "up")
        # A bridge counts as running after a second only, but carries at once (LOWER_UP).

    yield make
    for daemon in daemons:
        daemon.kill()
        daemon.communicate()
    for host in names:
        for name in "t0", "v0":
            run.output("ip", "-n", host, "link", "delete", name, ok=None)


@pytest.mark.parametrize("kind", [
    pytest.param("vxlan", id="interfaces/tunnel"),
    *(pytest.param(kind, id=f"interfaces/tunnel-{kind}", marks=pytest.mark.full)
      for kind in TUNNELS if kind != "vxlan")])
def test_tunnel(mpi, two_hosts, tunnel, kind):
    """Tunnels, as networks of containers and VPNs are, carry messages of all sizes like any other
    interface, and nothing is said of what they carry."""
    if kind == "tun" and not os.path.exists("/dev/net/tun"):
        pytest.skip("no /dev/net/tun")
    output = two_hosts([Link(0)], mpi.program("randsize"), "rounds=4", before=lambda: tunnel(kind),
                       if_exclude="", if_include="10.94.0.0/24")
    assert "OK randsize" in output
    assert joined(output) == {("t0", "10.94.0.1"), ("t0", "10.94.0.2")}
    assert "get lost on the way" not in output and "lost the connection" not in output


@pytest.fixture
def memory_group(run, hosts, tmp_path):
    """The folder of a control group with 50 MB of memory. Mounted anew, as hosts hide the other."""
    mounts = Path("/proc/mounts").read_text()
    old = re.search(r" cgroup \S*\bmemory\b", mounts)
    how = ("cgroup", "-o", "memory") if old else ("cgroup2",)
    run("mount", "-t", *how, "none", tmp_path)
    group = tmp_path / f"{hosts}memory"
    try:
        if not old and "memory" not in (tmp_path / "cgroup.subtree_control").read_text().split():
            pytest.skip("no control group with a limit of memory")
        group.mkdir()
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text("50000000")
        yield group
        group.rmdir()
    finally:
        run("umount", tmp_path)


@pytest.mark.called("interfaces/out-of-memory")
def test_out_of_memory(mpi, two_hosts, memory_group):
    """A process that the kernel kills, as its control group has no more memory: the others say which
    one it was, and on what host, and to look whether that was the cause."""
    killed = mpi.program("killed"), "after=0.3", "memory=300"
    inside = "sh", "-c", f'echo $$ >{memory_group}/cgroup.procs; exec "$0" "$@"'
    output = two_hosts([Link(0)], "--enable-recovery", *killed, ":", "-np", 1, *inside, *killed,
                       ranks=1, ok=None)
    assert re.search(r"with a process: (its host says that nobody is there any more|the runtime says)(.*\n)+?"
                     r" +To: +rank 1 on host \w+2,", output)
    assert "out of memory?" in output and "were not too much" not in output
