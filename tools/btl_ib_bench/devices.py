# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""RDMA devices of this host, and which of their ports is used."""

import re
from pathlib import Path

SYSFS = Path("/sys/class/infiniband")


def read(path):
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def ports():
    """(device, port, whether it is active) of all of this host."""
    for path in sorted(SYSFS.glob("*/ports/*")):
        yield path.parts[-3], path.name, read(path / "state").endswith("ACTIVE")


def choose(asked, here, option):
    """DEVICE:PORT for DEVICE[:PORT] or None, which is this host's first that is active; it must be there if ranks
    run here. ValueError says what is wrong."""
    active = [f"{device}:{port}" for device, port, is_active in ports() if is_active]
    if not asked:
        if not active:
            raise ValueError(f"{option}: this host has no RDMA device with an active port"
                             + ("" if here else "; --interface DEVICE[:PORT] says which the others have"))
        return active[0]
    if not re.fullmatch(r"[\w.-]+(:[1-9]\d*)?", asked):
        raise ValueError(f"--interface {asked}: {option} wants the name of an RDMA device, DEVICE[:PORT]")
    device, _, port = asked.partition(":")
    fits = [name for name in active if name == asked or (not port and name.startswith(f"{device}:"))]
    if here and not fits:
        known = device in {name for name, _, _ in ports()}
        why = "that port is not active" if known else "this host has no such RDMA device"
        raise ValueError(f"--interface {asked}: {why}; active: {', '.join(active) or 'none'}")
    return fits[0] if fits else f"{device}:{port or 1}"


def about(interface):
    """What is known of this host's device of that name."""
    device, _, port = interface.partition(":")
    files = {"board": "board_id", "firmware": "fw_ver", "rate": f"ports/{port}/rate",
             "link": f"ports/{port}/link_layer"}
    return {name: text for name, path in files.items() if (text := read(SYSFS / device / path))}
