# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""What is between the ranks: who is compared over it, by which options of mpirun, and how each is told where."""

import shlex
from dataclasses import dataclass

FLOOR = "floor"
IB = "--mca pml ob1 --mca btl ib,self"
OFI = "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include"
# Open MPI takes UCX only for devices that it knows, unless it is told not to look.
UCX = "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_TLS"
# Of a floor MPI only begins and ends the job, and keeps the ranks in step.
BARE = "--mca pml ob1 --mca btl tcp,self"


@dataclass(frozen=True)
class Network:
    name: str
    options: dict  # of each candidate
    interface_options: dict  # of who uses that component; {interface} is device:port over RDMA
    interface_for_all: str
    floor: str  # the program
    floor_arguments: tuple
    is_rdma: bool = True

    def floor_command(self, interface):
        return [word.format(interface=interface or "") for word in self.floor_arguments]

    def told(self, text, interface):
        """Words of options that name the interface."""
        device = interface.partition(":")[0]
        return shlex.split(text.format(interface=shlex.quote(interface), device=shlex.quote(device)))


def rdma(wire, peer, provider):
    return Network(
        wire,
        {
            "ib": f"{IB} --mca btl_ib_transport verbs --mca btl_ib_wire {wire}",
            peer: f"{OFI} '{provider}' -x FI_UNIVERSE_SIZE=2",
            "ucx": f"{UCX}={wire}_v,self",
            FLOOR: BARE,
        },
        {
            "ib": "--mca btl_ib_if_include {interface}",
            "ofi": "-x FI_VERBS_DEVICE_NAME={device}",
            "ucx": "-x UCX_NET_DEVICES={interface}",
        },
        "",
        "floor_verbs",
        (f"wire={wire}", "device={interface}"),
    )


ETHERNET = Network(
    "ethernet",
    {
        "ib": IB,
        "tcp": "--mca pml ob1 --mca btl tcp,self",
        "rxm": f"{OFI} 'tcp;ofi_rxm'",
        "rxd": f"{OFI} 'udp;ofi_rxd' -x FI_UNIVERSE_SIZE=2",
        "ucx": f"{UCX}=tcp,self",
        FLOOR: BARE,
    },
    {
        "ib": "--mca btl_ib_if_include {interface}",
        "ofi": "-x FI_TCP_IFACE={interface} -x FI_UDP_IFACE={interface}",
        "ucx": "-x UCX_NET_DEVICES={interface}",
    },
    "--mca btl_tcp_if_include {interface}",
    "floor",
    ("net={interface}",),
    is_rdma=False,
)
NETWORKS = {
    network.name: network
    for network in (ETHERNET, rdma("ud", "rxd", "verbs;ofi_rxd"), rdma("rc", "rxm", "verbs;ofi_rxm"))
}
