# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Names of tests, and which of them run: levels (--quick, --stage, --nightly), --only, --mpi; their
order; --names, --plan.

A test without a mark is part of the default run, which has a sample of each kind; `quick` is in
--quick, too; `full` is left to --stage, --nightly, and whoever names it by --only; `long` to
--nightly alone.

A test's name is the id of its parameter ("mpi/ring/2-ranks"), or what the mark `called` says, or
that of its function.
"""

import fnmatch
import json
import os

import pytest

from runner.places import TESTS, logs

LEVELS = ("quick", "default", "stage", "nightly")
SEEDS = {"quick": 200, "default": 2000, "stage": 5000, "nightly": 20000}


def pytest_addoption(parser):
    group = parser.getgroup("btl_ib")
    group.addoption("--level", choices=LEVELS, default="default", help="how much is tested")
    group.addoption(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only tests whose name matches this shell pattern; may be repeated",
    )
    group.addoption(
        "--mpi", action="store_true", help="only what depends on Open MPI, unless --only says which"
    )
    group.addoption(
        "--intree", action="store_true", help="nothing but builds inside Open MPI's source trees"
    )
    group.addoption("--seeds", type=int, help="seeds of the simulator")
    group.addoption("--soak", type=int, default=3600, help="seconds of each long soak")
    group.addoption("--names", dest="list_names", action="store_true", help="only name the tests")
    group.addoption(
        "--plan",
        action="store_true",
        help="only say how many tests there are, and how long they take",
    )


def pytest_configure(config):
    option = config.option
    option.seeds = option.seeds or SEEDS[option.level]
    if option.list_names or option.plan:
        option.verbose = -2


def pytest_generate_tests(metafunc):
    """For tables that depend on options: a test's attribute `table` makes the rows, of which its
    argument `case` is one."""
    if hasattr(metafunc.function, "table"):
        metafunc.parametrize("case", metafunc.function.table(metafunc.config.option))


def name_of(item):
    if hasattr(item, "callspec"):
        return item.callspec.id
    called = item.get_closest_marker("called")
    return called.args[0] if called else item.originalname.removeprefix("test_")


def chosen(item, option):
    marks = {mark.name for mark in item.iter_markers()}
    if ("intree" in marks) != option.intree:
        return False
    if "long" in marks and option.level != "nightly":
        return False
    if "quick" not in marks and option.level == "quick":
        return False
    if "full" in marks and option.level == "default" and not option.only:
        return False
    if option.only:
        return any(fnmatch.fnmatchcase(name_of(item), pattern) for pattern in option.only)
    return not option.mpi or "mpi" in marks


def seconds_table():
    """What tests take on a quiet machine: pairs of a pattern and seconds."""
    lines = (TESTS / "seconds.txt").read_text().splitlines()
    return [
        (line.split()[0], float(line.split()[1]))
        for line in lines
        if line and not line.startswith("#")
    ]


def seconds_of(name, table):
    return next(took for pattern, took in table if fnmatch.fnmatchcase(name, pattern))


def plan_file():
    """Names and seconds of the tests that this run chose, by pytest's identifier, for the process that
    reports: with xdist it collects nothing itself."""
    return logs() / "plan.json"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items if not chosen(item, config.option)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if chosen(item, config.option)]
    # What needs the machine for itself comes last, after all that runs at the same time; before,
    # what takes long.
    table = seconds_table()
    takes = {item: seconds_of(name_of(item), table) for item in items}
    items.sort(key=lambda item: (bool(item.get_closest_marker("alone")), -takes[item] // 30))
    if getattr(config, "workerinput", {}).get("workerid", "gw0") == "gw0":
        plan_file().write_text(
            json.dumps({item.nodeid: (name_of(item), takes[item]) for item in items})
        )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    option = session.config.option
    if not (option.list_names or option.plan) or session.testsfailed:  # as files could not be read
        return None
    items = session.items
    if option.list_names:
        print("\n".join(sorted(map(name_of, items), key=lambda name: name.split("/")[0])))
    else:
        table = seconds_table()
        together = min(len(items), int(os.environ.get("BTL_IB_JOBS", 1)) or 1)
        takes = [(seconds_of(name_of(item), table), item) for item in items]
        alone = sum(took for took, item in takes if item.get_closest_marker("alone"))
        others = sum(took for took, item in takes) - alone
        # Two at a time share processors.
        took = alone + others / (1 + 0.7 * (together - 1))
        minutes = max(1, round(took / 60))
        print(
            f"{len(items)} test{'s' * (len(items) != 1)}, {together} at a time:",
            f"some {minutes} minutes" if minutes > 1 else "a minute",
            "if nothing else runs here",
        )
    return True
