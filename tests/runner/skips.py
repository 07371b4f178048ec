# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""With --skips-listed a skip that skips.txt does not list, or whose condition does not hold here, is
a failure, as in .ci/run."""

import fnmatch
import functools
import subprocess

import pytest

from runner.choose import name_of
from runner.places import ROOT, TESTS


def pytest_addoption(parser):
    parser.getgroup("btl_ib").addoption(
        "--skips-listed", action="store_true", help="skips that skips.txt does not list fail"
    )


@functools.cache
def holds(condition):
    """Is this command of bash, which has the functions of tools/lib.sh, true here?"""
    script = f'. "$0/tools/lib.sh"; {condition}'
    return not subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script, str(ROOT)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ).returncode


def refusal(name, why, lines):
    """Why that test may not be skipped for that reason, or None. Each of the lines of skips.txt: a
    pattern of names, a bar, a pattern of the reason's beginning, a bar, a condition."""
    false = []
    for line in lines:
        if not line or line.startswith("#"):
            continue
        pattern, reason, condition = (part.strip() for part in line.split("|", 2))
        if fnmatch.fnmatchcase(name, pattern) and fnmatch.fnmatchcase(why, reason + "*"):
            if holds(condition):
                return None
            false.append(condition)
    if false:
        return f"skipped, though here it is not so that {' or '.join(false)}: {why}"
    return f"skipped, but not as tests/skips.txt allows: {why}"


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.skipped and item.config.option.skips_listed:
        why = report.longrepr[2].removeprefix("Skipped: ")
        refused = refusal(name_of(item), why, (TESTS / "skips.txt").read_text().splitlines())
        if refused:
            report.outcome = "failed"
            report.unlisted = True
            report.longrepr = f"{name_of(item)}: {refused}"
