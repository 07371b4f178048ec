# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""What a figure depends on: machine, kernel, versions."""

import ctypes
import os
import platform
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path


def said(words, env=None):
    """What a command says, or None if it cannot."""
    try:
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def processor():
    try:
        found = re.search(r"^model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        found = None
    return found[1] if found else platform.machine()


def setting(name):
    try:
        return int(Path("/proc/sys", name).read_text())
    except OSError:
        return None


def libfabric():
    try:
        version = ctypes.CDLL("libfabric.so.1").fi_version()
    except (OSError, AttributeError):
        return None
    return f"{version >> 16}.{version & 0xffff}"


def ucx():
    try:
        text = ctypes.CDLL("libucp.so.0").ucp_get_version_string
    except (OSError, AttributeError):
        return None
    text.restype = ctypes.c_char_p
    return text().decode()


def open_mpi(ompi_info, env):
    found = re.search(r"Open MPI v(\S+)", said([ompi_info, "--version"], env) or "")
    return found[1] if found else None


def gather(root, ompi_info, env):
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "kernel": f"{platform.system()} {platform.release()}",
            "net.core.rmem_default": setting("net/core/rmem_default"),
            "net.core.rmem_max": setting("net/core/rmem_max"),
        },
        "versions": {
            "btl_ib": said(["git", "-C", str(root), "describe", "--always", "--dirty"]),
            "Open MPI": open_mpi(ompi_info, env),
            "libfabric": libfabric(),
            "UCX": ucx(),
        },
    }
