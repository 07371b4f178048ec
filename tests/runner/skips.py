# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""With --skips-listed a skip that is not in skips.txt is a failure, as in .ci/run."""

import fnmatch

import pytest

from runner.choose import name_of
from runner.places import TESTS


def pytest_addoption(parser):
    parser.getgroup("btl_ib").addoption(
        "--skips-listed", action="store_true", help="skips that skips.txt does not list fail"
    )


def listed(name, why):
    """Each line of skips.txt: a pattern of names, a bar, a pattern of the reason's beginning."""
    for line in (TESTS / "skips.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern, reason = (part.strip() for part in line.split("|"))
        if fnmatch.fnmatchcase(name, pattern) and fnmatch.fnmatchcase(why, reason + "*"):
            return True
    return False


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.skipped and item.config.option.skips_listed:
        why = report.longrepr[2].removeprefix("Skipped: ")
        if not listed(name_of(item), why):
            report.outcome = "failed"
            report.unlisted = True
            report.longrepr = f"{name_of(item)}: skipped, but not as tests/skips.txt allows: {why}"
