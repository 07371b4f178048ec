# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that run jobs or virtual machines share the machine's time with whatever else runs there:
those that failed are tried a second time, with nothing of ours beside them. What passed only then
is counted: it is a fault to be looked for, as what failed once may fail anywhere. Others have one
try, and so have all after five of them, and with --once."""

import pytest
from _pytest.runner import runtestprotocol

from runner.choose import name_of
from runner.places import log_of
from runner.turns import ALONE

SECOND = "second try"


def pytest_addoption(parser):
    parser.getgroup("btl_ib").addoption("--once", action="store_true", help="no second try")


def pytest_configure(config):
    config.second_tries = 0


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    config = item.config
    if (
        config.option.once
        or config.option.usepdb
        or not any(map(item.get_closest_marker, ("mpi", "rdma", "openmpi")))
    ):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if (
        any(report.failed and not hasattr(report, "unlisted") for report in reports)
        and config.second_tries < 5
    ):
        config.second_tries += 1
        log = log_of(name_of(item))
        if log.exists():
            log.rename(log.with_suffix(".first.log"))
        item.stash[ALONE] = True
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        for report in reports:
            report.user_properties.append((SECOND, True))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
