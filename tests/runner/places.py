# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Directories, and who this process is among those that run tests."""

import os
import re
import uuid
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
BUILD = ROOT / "build"
# Where ip and others are for users whose PATH leaves these out.
os.environ["PATH"] += ":/usr/sbin:/sbin"
os.environ["LC_ALL"] = "C"
# The first three numbers of the networks that tools/nshosts makes.
NET = os.environ.get("NSNET", "10.77.0")
SECOND_NET = re.sub(r"(?<=\.)\d+(?=\.)", lambda found: str(int(found.group()) + 1), NET)
# The same in all processes of one run of pytest.
RUN = os.environ.setdefault("BTL_IB_RUN", str(os.getpid()))
# No other run has this one: process ids come again, in a container after a few runs.
RUN_ID = os.environ.setdefault("BTL_IB_RUN_ID", uuid.uuid4().hex)


def logs():
    """The directory of logs: tools/check names another one for a run beside the first."""
    directory = Path(os.environ.get("BTL_IB_LOGS", BUILD / "check"))
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def log_of(name):
    return logs() / (name.replace("/", ".") + ".log")


def worker(config):
    """ "gw0" and so on, if tests run at the same time."""
    return config.workerinput["workerid"] if hasattr(config, "workerinput") else "gw"
