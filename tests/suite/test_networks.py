# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Networks as users reported them, each with what docs/guide/networks.md says of it: routers that
translate addresses, tunnels, many to one. Link-local ones are scenes of test_interfaces.py."""

import concurrent.futures
import json
import re
import time

import pytest

from runner.jobs import library
from runner.places import BUILD, ROOT

pytestmark = [pytest.mark.mpi, pytest.mark.networks]
# A side of the router: the host's interface, its address, the router's interface and address.
SIDES = (("nat0", "10.92.1.1", "in0", "10.92.1.9"), ("pub0", "10.92.2.2", "out0", "10.92.2.9"))
PORTS = range(20000, 20008)


class Network:
    """Two hosts, jobs of one rank or more on each, and what is built between them."""

    def __init__(self, run, mpi, prefix):
        self.run, self.mpi, self.prefix = run, mpi, prefix
        self.hosts = f"{prefix}1", f"{prefix}2"
        self.router = f"{prefix}9"

    def ip(self, host, command, ok=True):
        self.run.output("ip", "-n", host, *command.split(), ok=ok)

    def inside(self, host, *words, ok=True):
        return self.run.output("ip", "netns", "exec", host, *words, ok=ok)

    def route(self):
        """A router between both, each side in a network of its own; the second knows no way to the
        network of the first."""
        self.run.output("ip", "netns", "add", self.router)
        self.ip(self.router, "link set lo up")
        for host, (name, address, port, gateway) in zip(self.hosts, SIDES):
            self.ip(host, f"link add {name} type veth peer name {port} netns {self.router}")
            self.ip(host, f"address add {address}/24 dev {name}")
            self.ip(host, f"link set {name} up")
            self.ip(self.router, f"address add {gateway}/24 dev {port}")
            self.ip(self.router, f"link set {port} up")
        self.ip(self.hosts[0], f"route add 10.92.2.0/24 via {SIDES[0][3]}")
        self.inside(self.router, "sysctl", "-q", "net.ipv4.ip_forward=1")

    def translate(self, first):
        """The router's public address stands for the first host, at ports from `first` on."""
        there = ", ".join(f"{first + i} : {port}" for i, port in enumerate(PORTS))
        back = ", ".join(f"{port} : {first + i}" for i, port in enumerate(PORTS))
        last = first + len(PORTS) - 1
        self.inside(self.router, "nft", f"""table ip nat {{
            chain in {{ type nat hook prerouting priority -100;
                iifname "out0" udp dport {first}-{last} dnat to 10.92.1.1 : udp dport map {{ {there} }}
            }}
            chain out {{ type nat hook postrouting priority 100;
                oifname "out0" udp sport {PORTS[0]}-{PORTS[-1]} snat to 10.92.2.9 : udp sport map {{ {back} }}
            }}
        }}""")

    def join_twice(self, rates):
        """Two links between both hosts, of so many Mbit/s; pairs of ports are spread over them, as
        routers of a fabric do. The addresses of any0 are reached by both."""
        for link in 0, 1:
            self.ip(self.hosts[0], f"link add ecmp{link} type veth peer name ecmp{link} netns {self.hosts[1]}")
        for end, host in enumerate(self.hosts, 1):
            for link, rate in enumerate(rates):
                self.ip(host, f"address add 10.94.{link}.{end}/24 dev ecmp{link}")
                self.ip(host, f"link set ecmp{link} up")
                self.run.output("tc", "-n", host, "qdisc", "add", "dev", f"ecmp{link}", "root", "tbf", "rate",
                                f"{rate}mbit", "burst", "128kb", "limit", "1mb")
            self.ip(host, "link add any0 type veth peer name any1")
            self.ip(host, "link set any1 up")
            self.ip(host, f"address add 10.94.9.{end}/24 dev any0")
            self.ip(host, "link set any0 mtu 1500 up")
            self.inside(host, "sysctl", "-q", "net.ipv4.fib_multipath_hash_policy=1")
        for end, host in enumerate(self.hosts, 1):
            self.ip(host, f"route add 10.94.9.{3 - end}/32 src 10.94.9.{end} "
                    + " ".join(f"nexthop via 10.94.{link}.{3 - end} dev ecmp{link}" for link in (0, 1)))

    def link_of(self, end, source, destination):
        """The link that a datagram of a host takes."""
        way = self.inside(self.hosts[end], "ip", "route", "get", f"10.94.9.{2 - end}", "from",
                          f"10.94.9.{end + 1}", "ipproto", "udp", "sport", str(source), "dport",
                          str(destination))
        return int(re.search(r"dev ecmp(\d)", way).group(1))

    def ports_by(self, link, hosts=1, others=0):
        """The first of 32 ports of which the lanes of the first host, or of both, take that link;
        so many of its last four, from which further flows leave, take the other one."""
        for first in range(20000, 30000, 32):
            lanes = first, first + 1
            if any(self.link_of(end, port, port) != link for end in range(hosts) for port in lanes):
                continue
            leave = [all(self.link_of(0, source, port) != link for port in lanes)
                     for source in range(first + 28, first + 32)]
            if leave.count(True) >= others:
                return first
        raise AssertionError(f"no ports lead to ecmp{link}, and of others enough to the other link")

    def drop(self, host, what):
        """Drops that from now on. Returns what says how much it was, and ends it."""
        self.inside(host, "nft", f"""table ip dead {{
            chain in {{ type filter hook prerouting priority -200; {what} counter drop
            }}
        }}""")

        def end():
            dropped = self.dropped(host)
            self.inside(host, "nft", "delete table ip dead")
            return dropped
        return end

    def dropped(self, host):
        """How much drop() has dropped so far."""
        return int(re.search(r"counter packets (\d+)", self.inside(host, "nft", "list table ip dead")).group(1))

    def job(self, *words, ranks=2, ok=True, env=None, **settings):
        options = {"transport": "udp", "silence_limit": 20, **settings}
        return self.run.output(
            ROOT / "tools/nshosts", "run", "--map-by", "node", "-H",
            ",".join(f"{host}:2" for host in self.hosts), "-np", ranks,
            *"--mca pml ob1 --mca btl ib,self --mca btl_base_verbose 1".split(),
            *(word for name, value in options.items()
              for word in ("--mca", f"btl_ib_{name}", str(value))),
            *words, env={**self.mpi.environment, "NSPFX": self.prefix, **(env or {})}, ok=ok,
        )

    def remove(self):
        for host, (name, *_) in zip(self.hosts, SIDES):
            self.ip(host, f"link delete {name}", ok=None)
            for made in "vx0", "ecmp0", "ecmp1", "any0":
                self.ip(host, f"link delete {made}", ok=None)
        self.run.output("ip", "netns", "delete", self.router, ok=None)


@pytest.fixture
def network(run, mpi, hosts):
    made = Network(run, mpi, hosts)
    yield made
    made.remove()


@pytest.mark.parametrize("first, ranks", [
    pytest.param(20000, 2, id="networks/dnat"),
    pytest.param(30000, 4, id="networks/dnat-ports")])
def test_published(network, first, ranks):
    """A host behind a router that forwards ports to it tells peers the router's address; ranks of
    that host find each other without the router."""
    network.route()
    network.translate(first)
    public = "nat0=10.92.2.9" + (f":{first}" if first != PORTS[0] else "")
    output = network.job(network.mpi.program("randsize"), "rounds=1", ranks=ranks,
                         if_include="nat0,pub0", udp_address=public, port_min=PORTS[0],
                         port_range=len(PORTS))
    assert "OK randsize" in output and "nothing shows" not in output
    assert re.search(rf"\(udp/pub0\) talks to its rail 0 \(10\.92\.2\.9:{first}\)", output)


@pytest.mark.called("networks/dnat-untold")
def test_not_published(network):
    """Without that parameter the host behind the router is found once it sends first."""
    network.route()
    network.translate(PORTS[0])
    output = network.job(network.mpi.program("ring"), "laps=1", if_include="nat0,pub0",
                         connect_timeout=6, port_min=PORTS[0], port_range=len(PORTS))
    assert "OK ring" in output
    assert re.search(r"its datagrams come from 10\.92\.2\.9:\d+, it published 10\.92\.1\.1:\d+\. It has "
                     r"answered there", output)


@pytest.mark.called("networks/vxlan")
def test_vxlan(network):
    """A tunnel has a smaller MTU than what it goes by: datagrams fit it from the beginning."""
    for host, own, peer in ((network.hosts[0], 1, 2), (network.hosts[1], 2, 1)):
        there = re.search(r"inet ([\d.]+)", network.inside(
            network.hosts[peer - 1], "ip", "-4", "-o", "address", "show", "eth0")).group(1)
        network.ip(host, f"link add vx0 type vxlan id 9 dstport 4789 remote {there} dev eth0")
        network.ip(host, f"address add 10.93.0.{own}/24 dev vx0")
        network.ip(host, "link set vx0 up")
    output = network.job(network.mpi.program("randsize"), "rounds=1", if_include="vx0")
    assert "OK randsize" in output and "Large datagrams" not in output
    assert re.search(r"rail 0 is udp/vx0: \d+ bytes a datagram", output)


# What the second host's system does with datagrams that have ECT(0) as they come in; "share": marks a part, as a
# switch does. Not those beyond a rate: the kernel has a bucket of a second's bytes for that, which a busy machine never
# fills.
MARKS = {
    "share": "numgen random mod 10 < 2 ip ecn set ce",
    "all": "ip ecn set ce",
    "cleared": "ip ecn set not-ect",
    "dropped": "counter drop",
}


def ecn_job(network, files, arguments=("seconds=1",), **settings):
    """Streams from the first host to the second; returns what was said, and what the first one's
    engine counted."""
    files.mkdir(exist_ok=True)
    output = network.job(network.mpi.program("stream"), *arguments, stats_file=f"{files}/",
                         **{"if_include": "eth0", "ecn": 1, **settings})
    assert "OK stream" in output
    counters, = (data["counters"] for data in map(json.loads, (path.read_text() for path in files.iterdir()))
                 if data["rank"] == 0)
    return output, counters


@pytest.mark.parametrize("marks", [pytest.param(name, id=f"networks/ecn-{name}") for name in MARKS])
def test_ecn(network, tmp_path, marks):
    """A network that marks is answered; one that clears ECT(0), drops what has it or marks
    everything is found out, and the job goes on without."""
    host = network.hosts[1]
    network.inside(host, "nft", f"""table ip marks {{
        chain in {{ type filter hook prerouting priority -150; meta l4proto udp ip ecn ect0 {MARKS[marks]}
        }}
    }}""")
    try:
        output, counters = ecn_job(network, tmp_path / "marked")
    finally:
        network.inside(host, "nft", "delete table ip marks")
    if marks in ("share", "all"):
        assert counters["ecn_ce_told"] > 0 and counters["ecn_cuts"] > 0
    else:
        assert counters["ecn_ce_told"] == 0 and counters["ecn_sent"] < 1000
    assert counters["ecn_paths"] == (marks in ("share", "all"))
    assert counters["ecn_paths_off"] == (marks != "share")
    assert ("no ECN by udp/eth0" in output) == (marks != "share")
    said = {"cleared": "clears the codepoint", "dropped": "drops what has it", "all": "arrives with CE"}
    assert said.get(marks, "") in output


CAPS = """table ip caps {
        set flows { type ipv4_addr . inet_service . inet_service; size 4096;
            flags dynamic,timeout; timeout 1m; }
        chain in { type filter hook prerouting priority -150; meta l4proto udp \
            update @flows { ip saddr . udp sport . udp dport \
            limit rate over 10 mbytes/second burst 256 kbytes } drop
        }
    }"""


@pytest.fixture
def capped(network):
    """The second host lets each flow (addresses, ports) have 10 MB/s."""
    network.inside(network.hosts[1], "nft", CAPS)
    yield network
    network.inside(network.hosts[1], "nft", "delete table ip caps")


@pytest.mark.called("networks/capped")
def test_capped(capped, tmp_path):
    """Where each flow is limited, long messages leave from several at once."""
    _, counters = ecn_job(capped, tmp_path / "capped", ecn=0, arguments=("bytes=1048576", "seconds=10"))
    assert counters["paths_kept"] >= 2


@pytest.mark.called("networks/capped-older")
@pytest.mark.limit(1200)  # the release is built once
def test_capped_older(capped, tmp_path):
    """The receiver is of the release before this one, which drops what comes from ports that nobody published: what one
    pair of ports carries arrives."""
    older = capped.run.output(ROOT / "tests/openmpi/versions", "--folder").splitlines()[-1]
    variable = library("component_path")
    output = capped.job(
        "-x", "BTL_IB_VARIABLE", "-x", "BTL_IB_OTHER", BUILD / "versions/mixed", capped.mpi.program("stream"),
        "bytes=1048576", "seconds=10", if_include="eth0", stats_file=f"{tmp_path}/",
        env={variable: f"{BUILD}/plugin:SYS_DEFAULT", "BTL_IB_VARIABLE": variable, "BTL_IB_OTHER": older})
    counters, = (data["counters"] for data in map(json.loads, (path.read_text() for path in tmp_path.iterdir()))
                 if data["rank"] == 0)
    rate = 1e3 * float(re.search(r"GB/s=([\d.]+)", output).group(1))
    print(f"{rate:.1f} MB/s, paths tried {counters['paths_tried']}")
    assert "OK stream" in output and counters["paths_tried"] > 0 and counters["paths_kept"] == 0
    assert rate > 9


def figures_of_mixed(output):
    """The 99 % of short messages while nothing went beside (us), the rate of long ones (GB/s), and the
    longest time in which none of these was complete (ms)."""
    return map(float, re.search(r"idle_p99=([\d.]+) .* bulk GB/s=([\d.]+) gap=([\d.]+) ms", output).groups())


def most_of_gap(late):
    """ms; on a busy machine each answer is late."""
    return 1000 + 0.05 * late


def in_mid_job(job, change):
    """Does a job, and changes something in a thread meanwhile, which waits for what it needs. Returns
    what the job said, and what the change returned."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        changed = pool.submit(change)
        output = job()
        return output, changed.result(timeout=30)


@pytest.mark.parametrize("number", [
    pytest.param(0, id="networks/capped-dead-usual"),
    pytest.param(1, id="networks/capped-dead-path"),
    pytest.param(2, id="networks/capped-dead-later")])
def test_capped_dead_pair(capped, number):
    """Of several pairs of ports that long messages leave by one leads nowhere any more, for ever: the
    usual one, the first that was added, or a later one."""
    first = 30000

    def paths():
        """Ports of the first host, beside the usual ones, that have carried more than a trial may, and those of them
        that something came from within the last second: paths exchange theirs."""
        found = capped.inside(capped.hosts[1], "nft", "list set ip caps flows")
        ports = {int(port): left for port, left in re.findall(rf"(\d+) \. {first} limit [^,]* expires (\d+[ms])", found)
                 if int(port) not in (first, first + 1)}
        return sorted(ports), sorted(port for port, left in ports.items() if left in ("1m", "59s"))

    def drop_one(deadline):
        """Drops what comes from one of them. Returns from which, and what ends that."""
        known, used = paths()
        while len(known) < 2 or not used:
            assert time.monotonic() < deadline, "no paths were tried, or none is used"
            time.sleep(0.2)
            known, used = paths()
        port = (first, used[0], used[-1])[number]
        return port, capped.drop(capped.hosts[1], f"udp sport {port} udp dport {first}")

    def kill():
        deadline = time.monotonic() + 40
        drop_one(deadline)[1]()
        time.sleep(2)
        while True:
            port, end = drop_one(deadline)
            time.sleep(1)
            if capped.dropped(capped.hosts[1]) > 0 or time.monotonic() > deadline:
                return port, end
            end()  # it was exchanged just then

    output, (port, end) = in_mid_job(lambda: capped.job(
        capped.mpi.program("mixed"), "bulk=65536", "depth=8", "seconds=12", "idle=1", if_include="eth0",
        port_min=first, port_range=32), kill)
    dropped = end()
    late, rate, gap = figures_of_mixed(output)
    print(f"port {port}: {dropped} datagrams dropped, {1e3 * rate:.1f} MB/s, longest pause {gap} ms")
    assert "OK mixed" in output and dropped > 0
    assert gap < most_of_gap(late), output


@pytest.mark.called("networks/ecmp-slow")
def test_ecmp_slow(network, tmp_path):
    """The link that the usual ports take by ECMP is ten times slower than the other one, and loses
    nothing: long messages leave it."""
    network.join_twice((300, 30))
    first = network.ports_by(1, others=2)
    rates = {}
    for flows in 1, 4:
        output, counters = ecn_job(
            network, tmp_path / f"flows{flows}", arguments=("bytes=1048576", "seconds=8", "warmup=4"), ecn=0,
            if_include="any0", port_min=first, port_range=32, udp_flows=flows)
        rates[flows] = 1e3 * float(re.search(r"GB/s=([\d.]+)", output).group(1))
        print(f"udp_flows {flows}: {rates[flows]:.1f} MB/s, "
              + ", ".join(f"{name} {counters[name]}" for name in ("paths_tried", "paths_kept", "paths_renewed")))
    assert rates[4] > 2 * rates[1]  # by a path, or by another usual flow if nothing is answered for long


@pytest.mark.called("networks/ecmp-dead")
def test_ecmp_dead(network):
    """The link that the usual ports of both hosts take by ECMP dies in mid-job, and no route is withdrawn. So few messages
    at once fill no window, so there is one path: what leaves there looks for another port."""
    network.join_twice((300, 300))

    def carried():
        links = json.loads(network.inside(network.hosts[0], "ip", "-json", "-s", "link", "show", "ecmp1"))
        return links[0]["stats64"]["tx"]["bytes"]

    def kill():
        deadline = time.monotonic() + 60
        while carried() < 30e6:
            assert time.monotonic() < deadline, "no long messages leave by ecmp1"
            time.sleep(0.2)
        return [network.drop(host, 'iifname "ecmp1"') for host in network.hosts]

    output, ends = in_mid_job(lambda: network.job(
        network.mpi.program("mixed"), "bulk=65536", "depth=4", "seconds=6", "idle=1", if_include="any0",
        port_min=network.ports_by(1, hosts=2), port_range=32), kill)
    dropped = [end() for end in ends]
    late, rate, gap = figures_of_mixed(output)
    print(f"{dropped} datagrams dropped, {1e3 * rate:.1f} MB/s, longest pause {gap} ms")
    assert "OK mixed" in output and all(dropped)
    assert gap < most_of_gap(late), output


@pytest.mark.called("networks/ecn-off")
def test_ecn_off(network, tmp_path):
    """One side without it is enough: nothing is sent that may be marked."""
    host = network.hosts[1]
    network.inside(host, "nft", """table ip marks {
        chain in { type filter hook prerouting priority -150; meta l4proto udp ip ecn ect0 counter drop
        }
    }""")
    try:
        _, counters = ecn_job(network, tmp_path / "off", ecn=0)
        rules = network.inside(host, "nft", "list table ip marks")
    finally:
        network.inside(host, "nft", "delete table ip marks")
    assert counters["ecn_sent"] == counters["ecn_paths"] == counters["ecn_paths_off"] == 0
    assert "counter packets 0 bytes 0" in rules


class Links:
    """Four hosts, each behind a link with a rate and a short queue, as a switch's port has it."""

    def __init__(self, run, mpi, prefix, files):
        self.run, self.mpi, self.prefix, self.files = run, mpi, prefix, files
        self.environment = {**mpi.environment, "NSPFX": prefix}

    def rate(self, mbits, queue):
        """Mbit/s, and bytes of the queue; each datagram is one of the link, too."""
        self.bad("offloads", "off")
        self.bad("rate", mbits, queue)

    def bad(self, *words):
        self.run.output(ROOT / "tools/nsbad", *words, env=self.environment)

    def job(self, ranks, *words):
        """So many ranks on each host; `words` are a program and its arguments. Returns what it said."""
        where = ",".join(f"{self.prefix}{i}:{count}" for i, count in enumerate(ranks, 1))
        options = {"transport": "udp", "stats_file": f"{self.files}/"}
        return self.run.output(
            ROOT / "tools/nshosts", "run", "-H", where, "-np", sum(ranks),
            *"--mca pml ob1 --mca btl ib,self --mca mpi_yield_when_idle 1".split(),
            *(word for name, value in options.items() for word in ("--mca", f"btl_ib_{name}", value)),
            self.mpi.program(words[0]), *words[1:], env=self.environment)

    def counted(self, name):
        """The sum of what all ranks counted."""
        return sum(json.loads(path.read_text())["counters"][name] for path in self.files.iterdir())

    def said(self):
        """What ib_stats says of hosts, and of networks."""
        lines = self.run.output(ROOT / "info/ib_stats", self.files).splitlines()
        return [[line.strip() for line in lines if text in line] for text in ("held others up", "the network from")]


@pytest.fixture
def links(run, mpi, hosts, tmp_path):
    made = Links(run, mpi, hosts, tmp_path)
    yield made
    made.bad("off")
    made.bad("offloads", "on")


@pytest.mark.alone  # where ranks wait for processors receivers bound nobody for long
@pytest.mark.limit(120)
@pytest.mark.called("networks/incast")
def test_incast(links):
    """Eight ranks on three hosts send long messages to one, and a ninth sends short ones to and fro."""
    links.rate(200, 65536)
    output = links.job((1, 3, 3, 3), "incast", "bytes=262144", "pings=1", "seconds=5", "warmup=1")
    again = (links.counted("retransmits") - links.counted("retransmits_spurious")) / links.counted("sent_segments")
    print(f"sent again: {100 * again:.1f} %, bounded {links.counted('incasts')} times")
    assert "OK incast" in output and links.counted("incasts") > 0 and links.counted("blocked_share") > 0
    assert again < 0.25, output


@pytest.mark.limit(90)
@pytest.mark.called("networks/slow-host")
def test_slow_host(links):
    """A rank that computes each time it got something holds up those that send to it; the network does not."""
    output = links.job((1, 1, 1), "incast", "slow=3000", "seconds=4")
    hosts, networks = links.said()
    assert "OK incast" in output
    assert any(line.startswith(f"rank 0 on {links.prefix}1 held others up: no call for") for line in hosts), hosts
    assert not networks, networks


@pytest.mark.limit(90)
@pytest.mark.called("networks/narrow")
def test_narrow(links):
    """A full link holds up what is sent by it."""
    links.rate(100, 262144)
    output = links.job((1, 1), "incast", "seconds=4")
    networks = links.said()[1]
    assert "OK incast" in output
    assert any(line.startswith(f"the network from rank 1 on {links.prefix}2 to rank 0 on {links.prefix}1: ")
               and "longer by a queue" in line for line in networks), networks
