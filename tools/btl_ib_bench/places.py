# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Where jobs run: namespaces made for them, the user's hosts, or this machine alone."""

import ipaddress
import json
import os
import shutil
import subprocess
from pathlib import Path

from .networks import ETHERNET

TOOLS = Path(__file__).resolve().parents[1]


def default_mpirun():
    return next((name for name in ("mpirun.openmpi", "mpirun") if shutil.which(name)), "mpirun")


def tool(name, *arguments):
    """Runs another tool of this directory; RuntimeError has what it said."""
    done = subprocess.run([str(TOOLS / name), *map(str, arguments)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, start_new_session=True)
    if done.returncode:
        raise RuntimeError(f"{name} {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def interface_of(text):
    """The name of an interface that was given by name, or by network: then this host's."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return text
    links = json.loads(subprocess.run(["ip", "-json", "address"], capture_output=True, text=True,
                                      check=True).stdout)
    for link in links:
        for address in link.get("addr_info", ()):
            if ipaddress.ip_address(address["local"]) in network:
                return link["ifname"]
    raise ValueError(f"--interface {text}: this host has no address in it")


def ompi_info_of(mpirun):
    """The one that was installed with this mpirun."""
    beside = Path(shutil.which(mpirun) or mpirun).parent / "ompi_info"
    return str(beside) if beside.exists() else "ompi_info"


def first_two_cores():
    cores = sorted(os.sched_getaffinity(0))[:2]
    return cores if len(cores) == 2 else ()


class Hosts:
    """Hosts of the user's, by his mpirun; or this machine alone, if there are none."""

    lossy = False

    def __init__(self, hosts, mpirun, interface, network=ETHERNET):
        self.hosts = hosts
        self.mpirun = mpirun
        self.interface = interface
        self.network = network

    def __str__(self):
        where = f"hosts {', '.join(self.hosts)}" if self.hosts else "this machine"
        if self.network.is_rdma:
            return f"{where}, {self.network.name} over {self.interface}"
        return where if self.hosts else f"{where}, loopback"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ompi_info(self):
        return ompi_info_of(self.mpirun[0])

    def links(self, condition):
        """Nothing can be done about the links of the user's hosts."""

    def command(self, ranks):
        words = [*self.mpirun, "-np", str(ranks), "--oversubscribe"]
        if self.interface:
            words += self.network.told(self.network.interface_for_all, self.interface)
        if not self.hosts and ranks <= len(os.sched_getaffinity(0)) and "--bind-to" not in self.mpirun:
            words += ["--bind-to", "core"]
        if self.hosts:
            each = -(-ranks // len(self.hosts))
            words += ["--map-by", "node", "-H", ",".join(f"{host}:{each}" for host in self.hosts)]
        return words

    def two_cores(self):
        """Those of a job of two ranks that has one for each, or ()."""
        return () if self.hosts else first_two_cores()

    def program(self, words, _ranks, _cores=0):
        """Bound to cores as mpirun does it, and on this machine alone each to one of its own, see above."""
        return words


class Namespaces:
    """Hosts made of network namespaces, with links that can be made bad."""

    lossy = True
    interface = "eth0"

    def __init__(self, count, mtu, loopback, unpinned):
        self.count = count
        self.mtu = mtu
        self.loopback = loopback
        self.unpinned = unpinned
        self.present = None
        self.prefix = os.environ.setdefault("NSPFX", f"bench{os.getpid()}h")

    def __str__(self):
        if self.loopback:
            return "one namespace, loopback"
        return f"{self.count} namespaces on veth, MTU {self.mtu}"

    def __enter__(self):
        if tool("nshosts", "list").strip():
            raise RuntimeError(f"NSPFX={self.prefix}: such hosts are there already")
        try:
            tool("nshosts", "up", self.count, self.mtu)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        tool("nshosts", "down")

    def ompi_info(self):
        return ompi_info_of(default_mpirun())

    def links(self, condition):
        if condition == self.present:
            return
        if self.present is None or condition.offloads != self.present.offloads:
            tool("nsbad", "offloads", condition.offloads)
        if condition.loss:
            tool("nsbad", "udp, tcp", round(100 * condition.loss))
        elif self.present is not None:
            tool("nsbad", "off")
        self.present = condition

    def command(self, ranks):
        names = [f"{self.prefix}{i + 1}" for i in range(self.count)]
        hosts = f"{names[0]}:{ranks}" if self.loopback else ",".join(names[:ranks])
        return [str(TOOLS / "nshosts"), "run", "-np", str(ranks), "--oversubscribe", "--map-by", "node",
                "-H", hosts]

    def two_cores(self):
        return () if self.unpinned else first_two_cores()

    def program(self, words, ranks, shared=0):
        """As it is for users: socket buffers of the size that they get, and, if there are as many, a core for
        each rank; every mpirun daemon takes all cores for its own and would choose the same ones. With `shared`
        all ranks have so many cores together."""
        cores = sorted(os.sched_getaffinity(0))
        words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *words]
        if shared:
            return ["taskset", "-c", ",".join(map(str, cores[:shared])), *words]
        if self.unpinned or len(cores) < ranks:
            return words
        choose = f'shift "$OMPI_COMM_WORLD_RANK"; core=$1; shift $(({ranks} - OMPI_COMM_WORLD_RANK));'
        return ["sh", "-c", f'{choose} exec taskset -c "$core" "$@"', "sh", *map(str, cores[:ranks]), *words]
