# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""What happens to hosts (tools/nshosts) and to the processes of a soak while it runs."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
os.environ["PATH"] += ":/usr/sbin:/sbin"


def pids(host):
    """Ranks of the job on a host."""
    found = subprocess.run(
        ["ip", "netns", "pids", host], capture_output=True, text=True, check=True
    )
    for pid in map(int, found.stdout.split()):
        try:
            if Path(f"/proc/{pid}/comm").read_text().strip() == "soak":
                yield pid
        except OSError:
            pass


def second_net():
    """The network of second links, as tools/nshosts has it."""
    first = os.environ.get("NSNET", "10.77.0").split(".")
    return f"{first[0]}.{int(first[1]) + 1}.{first[2]}"


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Trouble:
    """What happens to `count` hosts. Each is over when it returns, but for the state of the links.
    With `second` links, eth1, their addresses change, too, and they are pulled: eth0 is
    mpirun's."""

    def __init__(self, hosts, seed, log, count=2, second=False):
        self.hosts, self.count, self.second = hosts, count, second
        self.random = random.Random(seed)
        self.log = log
        self.happened = set()
        self.moved = set()  # hosts whose second address is another one now

    def tell(self, text):
        self.log.write(f"{time.strftime('%T')} {text}\n")
        self.log.flush()

    def links(self, *words):
        self.tell(f"links {' '.join(words)}")
        subprocess.run(
            [ROOT / "tools/nsbad", *words], env={**os.environ, "NSPFX": self.hosts}, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def ip(self, host, *words, check=True):
        self.tell(f"{host}: ip {' '.join(words)}")
        subprocess.run(["ip", "-n", host, *words], check=check, stderr=subprocess.DEVNULL)

    def some_host(self):
        return self.random.randint(1, self.count)

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

    def one_way(self):
        """Only what one host sends to one other is lost, some of it or all for a while."""
        one, other = self.random.sample(range(1, self.count + 1), 2)
        loss = self.random.choice((100, 1000, 10000))
        self.links("pair", str(one), str(other), str(loss))
        if loss == 10000:
            self.rest(0.5, 5)
            self.links("off")

    def gaps(self):
        """All is lost for as long as a route takes to change, a few times."""
        for _ in range(self.random.randint(2, 5)):
            self.links("block")
            self.rest(0.01, 0.3)
            self.links("off")
            self.rest(0.1, 0.5)

    def mac(self):
        """A host's link gets another hardware address, of which it tells the others, or not: then
        they send to nobody until the kernel asks once more."""
        host = f"{self.hosts}{self.some_host()}"
        link = self.random.choice(("eth0", "eth1") if self.second else ("eth0",))
        tells = self.random.choice("011")
        subprocess.run(
            ["ip", "netns", "exec", host, "sysctl", "-qw",
             f"net.ipv4.conf.{link}.arp_notify={tells}"],
            check=True,
        )  # fmt: skip
        address = "02:" + ":".join(f"{self.random.randrange(256):02x}" for _ in range(5))
        self.ip(host, "link", "set", "dev", link, "address", address)

    def address(self):
        """A host's second address is replaced by another one of its network, as by DHCP."""
        number = self.some_host()
        net = second_net()
        before, after = f"{net}.{number}/24", f"{net}.{100 + number}/24"
        if number in self.moved:
            before, after = after, before
        self.moved ^= {number}
        self.ip(f"{self.hosts}{number}", "addr", "del", before, "dev", "eth1")
        self.rest(0, 0.5)
        self.ip(f"{self.hosts}{number}", "addr", "add", after, "dev", "eth1")
        self.rest(4, 8)  # of two that change at once neither could tell the other

    def pull(self):
        """A cable of a second link is pulled, and comes back."""
        port = f"s{self.some_host()}"
        self.ip(f"{self.hosts}br", "link", "set", port, "down")
        self.rest(0.5, 5)
        self.ip(f"{self.hosts}br", "link", "set", port, "up")

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
                 self.stop, self.one_way, self.gaps, self.mac)  # fmt: skip
        if self.second:
            often += self.address, self.pull
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
            for number in range(1, self.count + 1):  # whoever was told of no new hardware address
                self.ip(f"{self.hosts}{number}", "neigh", "flush", "all", check=False)
        return {one.__name__ for one in often + seldom} - self.happened
