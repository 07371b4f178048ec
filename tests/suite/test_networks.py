# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Networks as users reported them, each with what docs/guide/networks.md says of it: routers that
translate addresses, tunnels. Link-local ones are scenes of test_interfaces.py."""

import json
import re

import pytest

from runner.places import ROOT

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

    def job(self, *words, ranks=2, ok=True, **settings):
        options = {"transport": "udp", "silence_limit": 20, **settings}
        return self.run.output(
            ROOT / "tools/nshosts", "run", "--map-by", "node", "-H",
            ",".join(f"{host}:2" for host in self.hosts), "-np", ranks,
            *"--mca pml ob1 --mca btl ib,self --mca btl_base_verbose 1".split(),
            *(word for name, value in options.items()
              for word in ("--mca", f"btl_ib_{name}", str(value))),
            *words, env={**self.mpi.environment, "NSPFX": self.prefix}, ok=ok,
        )

    def remove(self):
        for host, (name, *_) in zip(self.hosts, SIDES):
            self.ip(host, f"link delete {name}", ok=None)
            self.ip(host, "link delete vx0", ok=None)
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


# What the second host's system does with datagrams that have ECT(0) as they come in; "step": those
# beyond a rate, as a switch marks what finds a queue.
MARKS = {
    "step": "limit rate over 100 mbytes/second burst 60 kbytes ip ecn set ce",
    "all": "ip ecn set ce",
    "cleared": "ip ecn set not-ect",
    "dropped": "counter drop",
}


def ecn_job(network, files, arguments=("seconds=1",), **settings):
    """Streams from the first host to the second; returns what was said, and what the first one's
    engine counted."""
    files.mkdir(exist_ok=True)
    output = network.job(network.mpi.program("stream"), *arguments, stats_file=f"{files}/",
                         if_include="eth0", **{"ecn": 1, **settings})
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
    if marks in ("step", "all"):
        assert counters["ecn_ce_told"] > 0 and counters["ecn_cuts"] > 0
    else:
        assert counters["ecn_ce_told"] == 0 and counters["ecn_sent"] < 1000
    assert counters["ecn_paths"] == (marks in ("step", "all"))
    assert counters["ecn_paths_off"] == (marks != "step")
    assert ("no ECN by udp/eth0" in output) == (marks != "step")
    said = {"cleared": "clears the codepoint", "dropped": "drops what has it", "all": "arrives with CE"}
    assert said.get(marks, "") in output


@pytest.mark.called("networks/capped")
def test_capped(network, tmp_path):
    """Where each flow (addresses, ports) is limited, long messages leave from several at once."""
    host = network.hosts[1]
    network.inside(host, "nft", """table ip caps {
        set flows { type ipv4_addr . inet_service . inet_service; size 4096;
            flags dynamic,timeout; timeout 1m; }
        chain in { type filter hook prerouting priority -150; meta l4proto udp \
            update @flows { ip saddr . udp sport . udp dport \
            limit rate over 10 mbytes/second burst 256 kbytes } drop
        }
    }""")
    try:
        _, counters = ecn_job(network, tmp_path / "capped", ecn=0,
                              arguments=("bytes=1048576", "seconds=10"))
    finally:
        network.inside(host, "nft", "delete table ip caps")
    assert counters["paths_kept"] >= 2


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
